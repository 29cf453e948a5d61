"""Rows in the collections of Dask, and partitions on the workers of a cluster."""

import itertools
import os
import pickle
import signal
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    LinearCCD,
    PrepareColumns,
    SplineColumns,
    bootstrap,
    case_series,
    competing_risks,
    fit_outcomes,
    matched,
    screen,
    surv,
    wald,
    write_partitions,
)
from sksurvgpu.backends.sums.messages import Arrange
from sksurvgpu.cohort import balance
from sksurvgpu.data.partitioned import in_partitions
from sksurvgpu.partitions.dask import as_rows
from sksurvgpu.partitions.handles import open_engine

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

from sksurvgpu.partitions.dask_engine import DaskEngine, WorkerPart  # noqa: E402


class Sums:
    """A partition that answers with sums of columns, and counts its answers."""

    def __init__(self, load):
        self.load, self.n_answers = load, 0

    def answer(self, message):
        if isinstance(message, tuple):
            what, argument = message
            getattr(self, what)(argument)
            return os.getpid()
        self.n_answers += 1
        return self.n_answers, self.load()["X"].to_numpy().T @ message

    def fail(self, text):
        raise ValueError(text)

    def die(self, of):
        path, _ = of
        if os.path.exists(path):
            os.remove(path)
            os.kill(os.getpid(), signal.SIGKILL)

    def hold(self, event):
        if event:
            distributed.Event(event).wait(timeout=60)

    def drop(self):
        self.n_answers = 0


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    table = {name: rng.normal(size=700) for name in ("a", "b", "c")}
    table |= {"event": rng.random(700) < 0.5, "time": rng.exponential(size=700) + 0.1}
    table["site"] = rng.choice(["north", "south"], 700)
    return pd.DataFrame(table)


@pytest.fixture
def engine(client, frame):
    parts = dd.from_pandas(frame[["a", "b"]], npartitions=7).to_delayed()
    engine = DaskEngine(client, [{"X": part} for part in parts], Sums)
    yield engine
    engine.close()


@pytest.fixture
def messages(frame):
    parts = dd.from_pandas(frame, npartitions=7).partitions
    return {k: np.random.default_rng(k).normal(size=len(part)) for k, part in enumerate(parts)}


def pooled(frame, messages):
    values, end = frame[["a", "b"]].to_numpy(), np.cumsum([0, *map(len, messages.values())])
    return {k: values[end[k] : end[k + 1]].T @ message for k, message in messages.items()}


def sums(answers):
    return {k: total for k, (_, total) in answers}


def check_same(found, expected):
    assert found.keys() == expected.keys()
    for k, total in expected.items():
        np.testing.assert_array_equal(found[k], total)


def test_workers_answer_for_what_they_have(engine, frame, messages):
    first, second = dict(engine.ask(messages)), dict(engine.ask(messages))
    check_same(sums(first.items()), pooled(frame, messages))
    assert {count for count, _ in first.values()} == {1}
    assert {count for count, _ in second.values()} == {2}, "a partition was moved or lost its state"
    pids = list(dict(engine.ask(dict.fromkeys(range(7), ("hold", None)))).values())
    assert sorted(map(pids.count, set(pids))) == [3, 4]


def test_long_messages_go_past_the_scheduler(engine, frame, monkeypatch):
    sent = []
    scatter = engine._client.scatter
    monkeypatch.setattr(
        engine._client, "scatter", lambda *args, **kw: [sent.append(kw), scatter(*args, **kw)][1]
    )
    messages = dict.fromkeys(range(7), np.ones((100, 2000)))
    found = sums(engine.ask(messages))
    np.testing.assert_allclose(sum(found.values())[:, 0], frame[["a", "b"]].sum(), rtol=1e-12)
    assert sorted(place["workers"][0] for place in sent) == sorted(engine._client.nthreads())


def test_death_of_a_worker_changes_no_bit(client, engine, frame, messages, tmp_path):
    """Of a long message, which went past the scheduler; below one dies of short ones."""
    expected = pooled(frame, messages)
    check_same(sums(engine.ask(messages)), expected)
    (tmp_path / "fatal").touch()
    answers = engine.ask({2: ("die", (str(tmp_path / "fatal"), " " * 10**6))})
    assert [number for number, _ in answers] == [2]
    assert not (tmp_path / "fatal").exists()
    check_same(sums(engine.ask(messages)), expected)
    client.wait_for_workers(2, timeout=60)
    check_same(sums(engine.ask(messages)), expected)
    pids = list(dict(engine.ask(dict.fromkeys(range(7), ("hold", None)))).values())
    assert sorted(map(pids.count, set(pids))) == [3, 4], "a new worker gets its share"


class Listens:
    """A partition that says what it was told."""

    def __init__(self, load):
        self.told = []

    def answer(self, message):
        self.told.append(message)
        return self.told


def test_a_partition_that_travels_knows_its_problem():
    problem, held = Arrange("{}", {}, "digest"), WorkerPart(Listens, {})
    held.answer(problem, stays=True)
    held.answer("first", stays=True)
    held = pickle.loads(pickle.dumps(held))
    assert held.is_new
    assert held.answer("second", stays=True) == [problem, "second"]
    assert held.answer("third", stays=True) == [problem, "second", "third"]


def test_error_of_a_partition_has_its_number(engine, messages):
    with pytest.raises(ValueError, match=r"^partition 4: no such thing$"):
        list(engine.ask({**messages, 4: ("fail", "no such thing")}))
    assert len(dict(engine.ask(messages))) == 7


def test_error_of_loading_has_its_number(client):
    parts = [dask.delayed(pd.DataFrame)({"a": [1.0]}), dask.delayed(int)("three")]
    engine = DaskEngine(client, [{"X": part} for part in parts], Sums)
    with pytest.raises(ValueError, match=r"^partition 1: invalid literal"):
        list(engine.ask({0: np.ones(1), 1: np.ones(1)}))
    engine.close()


@pytest.mark.parametrize("end", ["cancel", "interrupt"])
def test_cancel(client, engine, frame, messages, end):
    list(engine.ask(messages))
    event = distributed.Event(f"release-{end}", client=client)
    slow = {0: ("hold", event.name), 1: ("hold", None), 2: ("hold", None), 3: ("hold", None)}
    slow = {**slow, 4: ("hold", None), 5: ("hold", None), 6: ("hold", None)}
    answers = engine.ask(slow)
    assert next(answers)[0] != 0
    if end == "cancel":
        engine.cancel()
        assert 0 not in dict(answers)
    else:
        with pytest.raises(KeyboardInterrupt):
            answers.throw(KeyboardInterrupt)
    assert not engine._under_way
    event.set()
    check_same(sums(engine.ask(messages)), pooled(frame, messages))


def test_rows_stay_on_the_workers(client, engine, messages, monkeypatch):
    came, gather = [], client._gather

    async def spy(*args, **kwargs):
        came.append(await gather(*args, **kwargs))
        return came[-1]

    monkeypatch.setattr(client, "_gather", spy)
    list(engine.ask(messages))
    assert came and len(pickle.dumps(came)) < 7 * 100 * 8


def same_records(rows, expected):
    found = np.concatenate([rows.load(k) for k in range(rows.n_parts)])
    assert found.dtype.names == expected.dtype.names
    for field in expected.dtype.names:
        np.testing.assert_array_equal(found[field], expected[field])


@pytest.mark.parametrize("unknown", [False, True])
def test_outcomes_are_built_by_partition(frame, unknown):
    frame["code"], frame["who"] = np.arange(700) % 3, np.arange(700)
    far = dd.from_pandas(frame, npartitions=3)
    far = far.clear_divisions() if unknown else far
    event, time, site, code = (far[name] for name in ("event", "time", "site", "code"))
    start = far["time"] / 2
    pairs = [
        (surv(event, time), surv(frame.event, frame.time)),
        (
            surv(event, time, start=start, stratum=site, subject=far["who"]),
            surv(
                frame.event,
                frame.time,
                start=frame.time / 2,
                stratum=frame.site,
                subject=frame.who,
            ),
        ),
        (
            competing_risks(code, time, stratum=site),
            competing_risks(frame.code, frame.time, stratum=frame.site),
        ),
        (case_series(code, time, site), case_series(frame.code, frame.time, frame.site)),
        (matched(event, site), matched(frame.event, frame.site)),
    ]
    for lazy, expected in pairs:
        assert in_partitions(lazy)
        same_records(as_rows(lazy, "y"), expected)
    arrays = surv(event.to_dask_array(), time.to_dask_array())
    same_records(as_rows(arrays, "y"), pairs[0][1])


def test_outcomes_of_delayed_objects(frame):
    parts = [frame[:300], frame[300:]]
    events = [dask.delayed(part.event.to_numpy()) for part in parts]
    times = [dask.delayed(part.time.to_numpy()) for part in parts]
    same_records(as_rows(surv(events, times), "y"), surv(frame.event, frame.time))
    built = [dask.delayed(surv)(*pair) for pair in zip(events, times, strict=True)]
    assert in_partitions(built)
    same_records(as_rows(built, "y"), surv(frame.event, frame.time))


def test_frames_and_arrays(frame):
    far = dd.from_pandas(frame[["a", "b"]], npartitions=3)
    rows = as_rows(far)
    assert (rows.n_parts, rows.shape, rows.names.tolist()) == (3, (None, 2), ["a", "b"])
    pd.testing.assert_frame_equal(rows.load(1), far.partitions[1].compute())
    rows = as_rows(far.to_dask_array(lengths=True))
    assert (rows.shape, rows.names, len(rows)) == ((700, 2), None, 700)
    sparse = da.from_array(frame[["a", "b"]].to_numpy(), chunks=(300, 2)).map_blocks(sp.csr_array)
    rows = as_rows(sparse)
    assert rows.lengths == (300, 300, 100) and sp.issparse(rows.load(2))


def test_columns_of_files_have_the_same_partitions(frame, tmp_path):
    frame = frame.assign(**{f"x{j}": frame["a"] * j for j in range(12)})
    for k in range(4):
        frame[k::4].to_parquet(tmp_path / f"{k}.parquet")
    far = dd.read_parquet(tmp_path)
    X, y = as_rows(far[[f"x{j}" for j in range(12)]]), as_rows(surv(far["event"], far["time"]), "y")
    assert (X.n_parts, y.n_parts) == (4, 4)
    np.testing.assert_array_equal(y.load(1), surv(frame["event"][1::4], frame["time"][1::4]))


def test_rows_of_a_partition_are_not_mixed_up(frame):
    far = dd.from_pandas(frame, npartitions=2)
    X, y = far[["a", "b"]], surv(far["event"], far["time"])
    turned = far.map_partitions(lambda part: part.iloc[::-1])
    model = CoxLassoCCD(alpha=0).fit(X, y)
    match = "partition [01]: the index of `{}` has the labels of that of `X` in another order"
    weight = {"sample_weight": turned["time"]}
    with pytest.raises(ValueError, match=match.format("sample_weight")):
        CoxLassoCCD().fit(X, y, **weight)
    with pytest.raises(ValueError, match=match.format("sample_weight")):
        model.log_likelihood(X, y, **weight)
    with pytest.raises(ValueError, match=match.format("cluster")):
        wald(model, X, y, cluster=turned["site"])
    with pytest.raises(ValueError, match=match.format("y")):
        LinearCCD().fit(X, turned["time"])
    with pytest.raises(ValueError, match=match.format("treatment")):
        balance(X, turned["event"])


def test_rows_in_memory_beside_partitions_are_not_mixed_up(frame):
    mixed = frame.sample(frac=1, random_state=0)
    far = dd.from_pandas(mixed, npartitions=2)  # which sorts by the index
    turned = far.map_partitions(lambda part: part.iloc[::-1])
    X, model = far[["a", "b"]], LinearCCD(alpha=0)
    match = "the index of `{}` has the labels of that of `X` in another order"
    for other in (mixed, turned):
        weight = {"sample_weight": other["time"]}
        with pytest.raises(ValueError, match=match.format("sample_weight")):
            fit_outcomes(model, X, {"c": frame["c"]}, columns="a", **weight)
        with pytest.raises(ValueError, match=match.format("sample_weight")):
            model.fit(X, far["c"]).score(X, frame["c"], **weight)
        found = fit_outcomes(model, X, {"c": other["c"]}, columns="a")
        assert match.format("y") in found.failures.loc["c", "message"]
    with pytest.raises(ValueError, match=match.format("treatment")):
        balance(X, mixed["event"])
    with pytest.raises(ValueError, match=match.format("y")):
        screen(X, mixed["c"])
    expected = model.score(X, far["c"], sample_weight=far["time"])
    assert model.score(X, frame["c"], sample_weight=frame["time"]) == pytest.approx(expected)


@pytest.mark.parametrize("columns", [["b", "a"], ["a"], ["a", "b", "c"]])
def test_columns_are_those_of_the_fit(frame, columns):
    far = dd.from_pandas(frame, npartitions=2)
    y = surv(far["event"], far["time"])
    model = CoxLassoCCD(alpha=0).fit(far[["a", "b"]], y)
    for call in (model.log_likelihood, partial(wald, model)):
        with pytest.raises(ValueError, match="feature names should match"):
            call(far[columns], y)


def test_what_takes_rows_refuses_outcomes_by_partition(frame, tmp_path):
    far = dd.from_pandas(frame, npartitions=2)
    y = surv(far["event"], far["time"])
    with pytest.raises(TypeError, match="take CoxLassoCV or another"):
        np.asarray(y)
    with pytest.raises(TypeError, match="`y` is in partitions, and `X` is of type DataFrame"):
        CoxLassoCCD().fit(frame[["a", "b"]], y)
    with pytest.raises(TypeError, match=r"part.compute\(\) for part in frame.partitions"):
        write_partitions(tmp_path / "no.parts", far, outcome=surv)
    with pytest.raises(TypeError, match=r"part.compute\(\) for part in frame.partitions"):
        write_partitions(tmp_path / "no.parts", (far[["a"]], far["time"]))


def test_transformers_refuse_partitions(frame):
    far = dd.from_pandas(frame[["a", "b"]], npartitions=2)
    for transformer in (PrepareColumns(), SplineColumns()):
        for X in (far, far.to_dask_array()):
            with pytest.raises(ValueError, match="`X` is in partitions"):
                transformer.fit(X)


def test_maps_are_lazy_arrays(frame):
    far = dd.from_pandas(frame[["a", "b"]], npartitions=3)
    total = as_rows(far).map(lambda part: part.to_numpy().sum(axis=1))
    assert isinstance(total, da.Array)
    kept = far.assign(total=total).compute(scheduler="synchronous")
    np.testing.assert_array_equal(kept["total"], frame[["a", "b"]].to_numpy().sum(axis=1))
    array = da.from_array(frame[["a", "b"]].to_numpy(), chunks=(300, 2))
    both = as_rows(array).map(lambda part: part > 0, like=np.empty((0, 2), bool))
    assert both.chunks == ((300, 300, 100), (2,)) and both.dtype == bool
    np.testing.assert_array_equal(both.compute(scheduler="synchronous"), frame[["a", "b"]] > 0)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (lambda far: far["a"].sum(), "`X` is of type Scalar of Dask; pass a DataFrame"),
        (lambda far: far.to_delayed()[0], "`X` is of delayed objects, whose columns are not known"),
        (lambda far: da.ones((4, 4), chunks=2), r"chunks, .* pass X.rechunk\(\{1: -1\}\)"),
        (lambda far: da.ones((2, 2, 2)), "`X` has 3 dimensions"),
    ],
)
def test_refused_collections(frame, argument, message):
    with pytest.raises((TypeError, ValueError), match=message):
        as_rows(argument(dd.from_pandas(frame[["a", "b"]], npartitions=2)))


def test_arguments_are_split_alike(frame):
    far = dd.from_pandas(frame, npartitions=3)
    X = as_rows(far[["a", "b"]])
    other = far.repartition(npartitions=2)
    with pytest.raises(ValueError, match=r"`y` is <.* in 2 partition\(s\)>, `X` is <"):
        open_engine({"X": X, "y": as_rows(surv(other["event"], other["time"]), "y")}, None)
    with pytest.raises(ValueError, match=r"`time` is <.*2 partition"):
        as_rows(surv(far["event"], other["time"]), "y")
    moved = dd.from_pandas(frame.set_index(frame.index + 7), npartitions=3)
    with pytest.raises(ValueError, match="`y` is of partitions with the divisions"):
        open_engine({"X": X, "y": as_rows(moved["event"], "y")}, None)
    arrays = {"X": da.ones((6, 2), chunks=(3, 2)), "sample_weight": da.ones(6, chunks=((2, 4),))}
    rows = {name: as_rows(value, name) for name, value in arrays.items()}
    with pytest.raises(ValueError, match="`sample_weight` has 2 rows in partition 0, `X` has 3"):
        open_engine(rows, None)


@pytest.fixture
def cohort(frame):
    risk = frame["a"] - frame["b"]
    frame["time"] = np.round(frame["time"] * np.exp(-risk), 2) + 0.01
    frame["weight"] = np.where(frame.index % 5 == 0, 2.0, 1.0)
    return frame


def arguments_of(table):
    y = surv(table["event"], table["time"], stratum=table["site"])
    return (table[["a", "b", "c"]], y), {"sample_weight": table["weight"]}


def fit_on(table):
    positional, named = arguments_of(table)
    return CoxLassoCCD(alpha=0.01, tol=1e-9).fit(*positional, **named)


def test_fit_is_that_of_all_rows_and_survives_a_worker(client, cohort, monkeypatch):
    far, whole = dd.from_pandas(cohort, npartitions=4), fit_on(cohort)
    by_threads = fit_on(far)
    with client.as_current():
        by_workers = fit_on(far)
        victim, n_asked = next(iter(client.run(os.getpid).values())), itertools.count(1)
        ask = DaskEngine.ask

        def disturbed(engine, messages):
            answers = ask(engine, messages)
            yield next(answers)
            if next(n_asked) == 8:
                os.kill(victim, signal.SIGKILL)
            yield from answers

        monkeypatch.setattr(DaskEngine, "ask", disturbed)
        by_survivors = fit_on(far)
        client.wait_for_workers(2, timeout=60)
    np.testing.assert_allclose(by_threads.coef_, whole.coef_, atol=1e-7)
    for model in (by_workers, by_survivors):
        np.testing.assert_array_equal(model.coef_, by_threads.coef_)
        assert "DaskEngine" in model.backend_reason_
    assert by_workers.n_exchanges_ == by_threads.n_exchanges_
    assert 0 < by_survivors.n_exchanges_ - by_workers.n_exchanges_ <= 2


def test_workers_read_files_that_they_share(client, cohort, tmp_path):
    (X, y), _ = arguments_of(cohort)
    data = write_partitions(tmp_path / "cohort.parts", (X, y, cohort["weight"]), rows=200)
    by_threads = CoxLassoCCD(alpha=0.01).fit(data.X, data.y, sample_weight=data.sample_weight)
    with client.as_current():
        by_workers = CoxLassoCCD(alpha=0.01).fit(data.X, data.y, sample_weight=data.sample_weight)
    assert "DaskEngine" in by_workers.backend_reason_
    np.testing.assert_array_equal(by_workers.coef_, by_threads.coef_)


def test_sparse_chunks_are_fitted(cohort):
    codes = np.random.default_rng(1).integers(0, 2, (700, 6)).astype(float)
    y = surv(cohort["event"], cohort["time"])
    whole = CoxLassoCCD(alpha=0.01, tol=1e-9).fit(sp.csc_array(codes), y)
    X = da.from_array(codes, chunks=(250, 6)).map_blocks(sp.csr_array)
    y = surv(*(da.from_array(cohort[name].to_numpy(), chunks=250) for name in ("event", "time")))
    far = CoxLassoCCD(alpha=0.01, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(far.coef_, whole.coef_, atol=1e-7)


def test_predictions_are_lazy(cohort):
    far, model = dd.from_pandas(cohort, npartitions=3), fit_on(cohort)
    lazy, whole = (
        (
            model.predict(table[["a", "b", "c"]]),
            model.predict_survival_function(
                table[["a", "b", "c"]], strata=table["site"], return_array=True
            ),
        )
        for table in (far, cohort)
    )
    for found, expected in zip(lazy, whole, strict=True):
        assert isinstance(found, da.Array) and found.ndim == expected.ndim
        np.testing.assert_allclose(found.compute(scheduler="synchronous"), expected, rtol=1e-12)


@pytest.mark.weekly
def test_selection_and_bootstrap(cohort):
    columns = ["a", "b", "c"]
    far = dd.from_pandas(cohort, npartitions=3)
    X, y = far[columns], surv(far["event"], far["time"])
    alphas = [0.1, 0.01]
    model = CoxLassoCV(alphas=alphas, cv=2, random_state=0).fit(X, y)
    assert model.alpha_ in alphas
    whole = CoxLassoCCD(alpha=model.alpha_).fit(
        cohort[columns], surv(cohort["event"], cohort["time"])
    )
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=1e-5)
    draws = bootstrap(CoxLassoCCD(alpha=0.01), X, y, n_replicates=3, random_state=0).coefs
    assert draws.shape == (3, 3) and np.unique(draws[0]).size == 3
