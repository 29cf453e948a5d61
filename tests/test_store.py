"""Rows in partitions: handles, threads that answer for them, and files."""

import json
import pickle
import subprocess
import sys
import threading
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sksurvgpu import (
    CaseSeriesCCD,
    CoxLassoCCD,
    case_series,
    competing_risks,
    from_long,
    matched,
    open_partitions,
    surv,
    write_partitions,
)
from sksurvgpu.backends.cpu.threads import Threads as CpuThreads
from sksurvgpu.backends.cpu.tile_products import Products
from sksurvgpu.data.design.columns import DENSE, INDICATOR, SPARSE, build_design
from sksurvgpu.data.design.join import join_rows
from sksurvgpu.data.design.tiles import tiles_of
from sksurvgpu.data.partitioned import in_partitions
from sksurvgpu.partitions.dask import as_rows
from sksurvgpu.partitions.handles import Rows, from_lists, load_all, open_engine
from sksurvgpu.partitions.threads import ThreadEngine


class Part:
    """Answers with what it was asked, and its number."""

    def __init__(self, number, fails=False):
        self.number, self.fails, self.n_dropped, self.is_busy = number, fails, 0, False

    def answer(self, message):
        assert not self.is_busy, "two threads at one partition"
        self.is_busy = True
        try:
            if self.fails and message == "fail":
                raise ValueError("no such column.")
            return self.number, message
        finally:
            self.is_busy = False

    def drop(self):
        self.n_dropped += 1

    def stow(self, file):
        assert file.parent.is_dir()
        self.drop()


def handles(lengths=(3, 2), **others):
    X = [np.ones((n, 2)) for n in lengths]
    return from_lists({"X": X, "y": [np.arange(n) for n in lengths], **others})


def test_handle_has_the_shape_of_its_rows():
    rows = handles()
    X, y = rows["X"], rows["y"]
    assert X.shape == (5, 2) and y.shape == (5,) and len(X) == len(y) == 5
    assert X.n_parts == 2 and X.lengths == (3, 2) and X.header().shape == (0, 2)
    assert repr(X).splitlines()[0] == "<Rows: 5 rows and 2 columns in 2 partition(s)>"
    assert X.load(1).shape == (2, 2) and y.load(0).tolist() == [0, 1, 2]
    assert pickle.loads(pickle.dumps(X.loaders[0]))().shape == (3, 2)


def test_handle_refuses_to_be_an_array():
    X = handles()["X"]
    with pytest.raises(TypeError, match="CoxLassoCV"):
        X[[0]]
    with pytest.raises(TypeError, match="load one partition"):
        np.asarray(X)
    with pytest.raises(TypeError, match="not iterable"):
        iter(X)
    with pytest.raises(TypeError, match="not known"):
        len(Rows("cluster", (list,)))
    with pytest.raises(IndexError, match="no partition 9, they are numbered from 0 to"):
        X.load(9)


def test_far_arguments_are_known_without_imports():
    X = handles()["X"]
    assert in_partitions(X) and not in_partitions(np.ones(2)) and as_rows(X) is X
    collection = type("DataFrame", (), {"__module__": "dask.dataframe.core"})()
    assert in_partitions(collection)
    with pytest.raises(TypeError, match="`sample_weight` is of type ndarray and in memory"):
        as_rows(np.ones(2), "sample_weight")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (handles((3, 1))["y"], "`y` has 1 rows in partition 1, `X` has 2"),
        (handles((5,))["y"], "`y` is <Rows: 5 rows in 1 partition"),
        (handles()["y"], "`y` is of partitions in memory"),
    ],
)
def test_arguments_of_a_fit_have_the_same_partitions(other, message):
    with pytest.raises(ValueError, match=message):
        open_engine({"X": handles()["X"], "y": other}, None)


def test_load_gives_the_arguments_of_a_partition():
    rows = handles()
    load = pickle.loads(
        pickle.dumps(partial(load_all, {k: one.loaders[1] for k, one in rows.items()}))
    )
    assert load()["X"].shape == (2, 2) and load()["y"].tolist() == [0, 1]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_answer_for_all_partitions(n_threads):
    parts = [Part(k) for k in range(20)]
    engine = ThreadEngine(parts, n_threads, budget=35, sizes=[10] * 20)
    for _ in range(2):
        answers = dict(engine.ask({k: f"message {k}" for k in range(0, 20, 2)}))
        assert answers == {k: (k, f"message {k}") for k in range(0, 20, 2)}
    assert engine.n_kept == 3
    assert [part.n_dropped for part in parts] == [0, 0, 0] + [0, 2] * 8 + [0]
    engine.close()
    assert all(part.n_dropped for part in parts)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_threads_go_on_after_errors_and_interrupts(n_threads):
    parts = [Part(k, fails=k == 4) for k in range(9)]
    engine = ThreadEngine(parts, n_threads)
    with pytest.raises(ValueError, match=r"^partition 4: no such column\.$"):
        dict(engine.ask(dict.fromkeys(range(9), "fail")))
    asked = engine.ask(dict.fromkeys(range(9), "fine"))
    next(asked)
    with pytest.raises(KeyboardInterrupt):
        asked.throw(KeyboardInterrupt)
    assert not any(part.is_busy for part in parts)
    asked = engine.ask(dict.fromkeys(range(9), "fine"))
    next(asked)
    engine.cancel()
    assert len(list(asked)) < 8
    assert len(dict(engine.ask(dict.fromkeys(range(9), "fine")))) == 9
    engine.close()


def test_threads_wait_for_who_adds():
    n_answered, lock = 0, threading.Lock()

    class Counting(Part):
        def answer(self, message):
            nonlocal n_answered
            with lock:
                n_answered += 1

    engine = ThreadEngine([Counting(k) for k in range(50)], 2)
    asked = engine.ask(dict.fromkeys(range(50), "message"))
    next(asked)
    asked.close()
    assert n_answered <= 6
    engine.close()


def table(n, seed=0):
    """Columns of every kind: rare ones, many ones, valued, dense, empty, and one far from zero."""
    rng = np.random.default_rng(seed)
    share = np.array([0.02, 0.3, 0.1, 0.9, 0.0, 1.0])
    values = np.where(np.arange(6) < 2, 1.0, rng.normal([0, 0, 0, 0, 0, 50], size=(n, 6)))
    return np.where(rng.random((n, 6)) < share, values, 0.0)


def same_design(one, other):
    arrays = [np.array_equal(a, b) for a, b in zip(one.arrays(), other.arrays(), strict=True)]
    return one.n_rows == other.n_rows and all(arrays)


@pytest.mark.parametrize("form", [np.asarray, sp.csc_array, pd.DataFrame])
def test_joined_rows_are_the_design_of_all_rows(form):
    X = table(500)
    whole, edges = build_design(form(X)), [0, 3, 4, 120, 499, 500]
    parts = [(build_design(form(X[low:high])), 0, high - low) for low, high in pairwise(edges)]
    assert same_design(join_rows(parts), whole)
    assert same_design(join_rows([(whole, low, high) for low, high in pairwise(edges)]), whole)
    assert set(join_rows([(whole, 7, 450)]).kind) == set(whole.kind)


def test_short_row_numbers_change_no_bit():
    X = table(3000)
    design = build_design(pd.DataFrame(X))
    assert set(design.kind) == {INDICATOR, SPARSE, DENSE}
    short = design.reordered(np.arange(3000))
    short = type(short)(
        3000,
        short.kind,
        short.indptr,
        short.indices.astype(np.uint16),
        *(
            short.values,
            short.value_ptr,
            short.names,
        ),
    )
    rng, every = np.random.default_rng(1), np.arange(6)
    u, coef, order = rng.normal(size=3000), rng.normal(size=6), rng.permutation(3000)
    found = []
    for one in (design, short):
        maps = every, np.tile([[0, 1]], (6, 1)), np.zeros(1, np.int64), np.zeros(1, np.int64)
        products, eta = (
            Products(tiles_of(one, np.arange(3000)), maps, CpuThreads(1)),
            np.empty(3000),
        )
        products.predict(coef, None, eta)
        gradient, absolute = products.of_columns(every, u), products.absolute(abs(u))
        moved = one.reordered(order)
        taken = one[order[:50]].to_scipy().toarray()
        chosen = one.select([4, 2, 0]).to_scipy().toarray()
        found.append((gradient, absolute, eta, one.dot(coef), moved.dot(coef), taken, chosen))
    assert short.reordered(order).indices.dtype == np.uint16
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


def outcomes(n, seed=0):
    """Every outcome of the package, by name."""
    rng = np.random.default_rng(seed)
    time, event, few = rng.exponential(size=n) + 1, rng.random(n) < 0.4, rng.integers(0, 9, n)
    return {
        "surv": surv(event, time, start=0.5 * time, stratum=few, subject=np.arange(n)),
        "labels": surv(event, time, stratum=np.array(["a", "bb", "ccc"])[few % 3]),
        "other names": np.rec.fromarrays([event, time], names="status,days").view(np.ndarray),
        "competing": competing_risks(few % 3, time),
        "series": case_series(few, time, np.arange(n) // 3),
        "matched": matched(event, few),
        "numbers": rng.normal(size=n),
        "counts": few,
        "classes": np.array(["no", "yes"], dtype=object)[event.astype(int)],
        "flags": event,
    }


def rows_of(data, name):
    return np.concatenate([data[name].load(k) for k in range(data.X.n_parts)])


def dense_of(data):
    X = data["X"]
    return np.vstack([X.load(k).to_scipy().toarray() for k in range(X.n_parts)])


@pytest.mark.parametrize("name", outcomes(2))
def test_all_that_fit_takes_comes_back(name, tmp_path):
    n = 700
    X, y, number = table(n), outcomes(n)[name], np.arange(n)
    given = {"sample_weight": number / 7.0, "offset": -number / 3.0}
    extra = {} if name in ("surv", "labels", "matched") else {"strata": number % 4}
    edges = [0, 90, 90, 95, 600, 700]
    batches = [
        {"X": pd.DataFrame(X[r], columns=list("abcdef")), "y": y[r], "number": number[r]}
        | {key: values[r] for key, values in (given | extra).items()}
        for r in (slice(*edge) for edge in pairwise(edges))
    ]
    data = write_partitions(tmp_path / "all.parts", iter(batches), rows=256)
    again = open_partitions(str(tmp_path / "all.parts"))
    assert data.lengths == again.lengths == (256, 256, 188)
    assert again.names.tolist() == list("abcdef") and again.X.shape == (n, 6)
    assert list(again.X.header().columns) == list("abcdef")
    assert again.y.shape == (n,) and again.sample_weight.shape == again.offset.shape == (n,)
    order = rows_of(again, "number")  # rows stay in their partition
    assert [set(part // 256) for part in np.split(order, [256, 512])] == [{0}, {1}, {2}]
    assert np.array_equal(dense_of(again), X[order])
    y_again = rows_of(again, "y")
    assert np.array_equal(y_again, y[order].astype(y_again.dtype))
    assert y_again.dtype.kind == ("U" if name == "classes" else y.dtype.kind)
    for key, values in (given | extra).items():
        assert np.array_equal(rows_of(again, key), values[order])
    for k in range(3):
        design = again.X.load(k)
        rows = np.sort(order[256 * k : 256 * (k + 1)])
        expected = build_design(pd.DataFrame(X[rows]))
        assert design.indices.dtype == np.uint16 and np.array_equal(design.kind, expected.kind)
    again.verify()


def test_rows_lie_in_the_order_of_fits(tmp_path):
    from sksurvgpu.data.outcomes.survival import read_outcome
    from sksurvgpu.patterns.risk_sets.plan import plan_rows

    y = outcomes(300)["surv"]
    y["time"] = np.round(y["time"], 1) + 1
    data = write_partitions(tmp_path / "order.parts", (table(300), y), rows=100)
    for k in range(3):
        plan = plan_rows(read_outcome(data.y.load(k)))
        assert np.array_equal(plan.order, np.arange(100))
        design = data.X.load(k)
        assert design.reordered(plan.order) is design


@pytest.mark.parametrize("kind", ["number", "text"])
@pytest.mark.parametrize("n_groups", [1500, 40])
def test_groups_are_whole(kind, n_groups, tmp_path):
    n = 5000
    rng = np.random.default_rng(0)
    subject = rng.integers(0, n_groups, n)
    number = np.arange(n)
    labels = subject if kind == "number" else np.array([f"s{s}" for s in range(n_groups)])[subject]
    batches = [
        {
            "X": table(n)[r],
            "y": case_series(number[r] % 2, number[r] + 1.0, labels[r]),
            "n": number[r],
        }
        for r in (slice(low, low + 700) for low in range(0, n, 700))
    ]
    data = write_partitions(tmp_path / "group.parts", batches, group="subject", rows=200)
    order = rows_of(data, "n")
    assert sorted(order) == list(range(n))
    assert np.array_equal(dense_of(data), table(n)[order])
    found = [set(data.y.load(k)["subject"].tolist()) for k in range(data.X.n_parts)]
    assert sum(map(len, found)) == len(set(labels.tolist()))
    assert max(data.lengths) <= 200 and data.X.n_parts <= (27 if n_groups == 1500 else 40)
    assert not list(tmp_path.glob(".*"))


def test_group_larger_than_a_partition_is_refused(tmp_path):
    y = matched(np.arange(900) % 2, np.arange(900) // 600)
    with pytest.raises(ValueError, match="stratum 0 has 600 rows, and a partition has at most 100"):
        write_partitions(tmp_path / "a.parts", (table(900), y), group="stratum", rows=100)
    with pytest.raises(ValueError, match="`group` is 'site', must be one of 'case', 'stratum'"):
        write_partitions(tmp_path / "a.parts", (table(900), y), group="site")


FRAME = pd.DataFrame(table(50), columns=list("abcdef"))
FLAG = np.arange(50) % 2 == 0


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ((FRAME.rename(columns={"b": "B"}), FLAG), "batch 1: `X` has 'B' for column 1, .* 'b'"),
        ((FRAME[["a", "b"]], FLAG), "batch 1: `X` has 2 columns, those before have 6"),
        ((FRAME.to_numpy(), FLAG), "batch 1: some batches of `X` have names"),
        ((FRAME, FLAG, np.ones(50)), "batch 1: some batches have `sample_weight`, others have not"),
        ((FRAME, FLAG[:9]), "batch 1: `y` has 9 entries, `X` has 50"),
        ((FRAME, FLAG.astype(str)), "batch 1: `y` has text, those before have booleans"),
        ((FRAME, np.full(50, "2020", "M8[D]")), "batch 1: `y` has dtype datetime64"),
        ((FRAME * np.nan, FLAG), "batch 1: `X` has 50 NaN"),
        (FRAME, "`batches` has one of type DataFrame"),
    ],
)
def test_batches_that_differ_are_named(second, message, tmp_path):
    with pytest.raises((TypeError, ValueError), match=message):
        write_partitions(tmp_path / "a.parts", [(FRAME, FLAG), second])
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_written_is_refused(tmp_path):
    path = tmp_path / "a.parts"
    with pytest.raises(ValueError, match="`batches` has no rows"):
        write_partitions(path, [(FRAME[:0], FLAG[:0])])
    with pytest.raises(ValueError, match="`rows` is 65537, must be an integer from 1 to 65,536"):
        write_partitions(path, (FRAME, FLAG), rows=65_537)
    with pytest.raises(TypeError, match="`batches` is of type DataFrame; pass"):
        write_partitions(path, FRAME)
    with pytest.raises(ValueError, match="no column 'event' for `event`; name one by columns="):
        write_partitions(path, FRAME, outcome=surv)
    tables = [FRAME.assign(event=FLAG, time=time) for time in (3.0, -1.0)]
    with pytest.raises(ValueError, match="batch 1: `time` is -1 in row 0"):
        write_partitions(path, tables, outcome=surv)
    with pytest.raises(FileNotFoundError, match=r"pass a folder, or sorted\(glob\.glob"):
        write_partitions(path, tmp_path / "*.parquet", outcome=surv)
    with pytest.raises(ValueError, match="`columns` names columns of tables"):
        write_partitions(path, (FRAME, FLAG), columns={"y": "a"})
    with pytest.raises(FileNotFoundError, match=r"where there is no manifest\.json"):
        open_partitions(tmp_path)
    with pytest.raises(ValueError, match="`memory` is '1GB', must be a number of bytes, or None"):
        open_partitions(tmp_path, memory="1GB")
    assert not list(tmp_path.iterdir())


def test_writing_is_all_or_nothing(tmp_path, capsys):
    path = tmp_path / "a.parts"
    first = write_partitions(path, (FRAME, FLAG), rows=30, verbose=2)
    assert capsys.readouterr().out.splitlines() == [
        "a.parts: partition 1, 30 rows",
        "a.parts: partition 2, 20 rows",
        "a.parts: 50 rows in 2 partitions",
    ]
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        write_partitions(path, (FRAME, FLAG))
    with pytest.raises(ValueError, match="batch 1"):
        write_partitions(path, [(FRAME, FLAG), (FRAME, FLAG[1:])], overwrite=True)
    assert rows_of(first, "y").tolist() == FLAG.tolist()
    second = write_partitions(path, (FRAME, ~FLAG), overwrite=True)
    assert second.lengths == (50,) and [p.name for p in tmp_path.iterdir()] == ["a.parts"]
    with pytest.raises((ValueError, FileNotFoundError), match=r"changed|cannot be read"):
        first.y.load(1)
    with pytest.raises(ValueError, match="same rows"):
        open_engine({"X": first.X, "y": second.y}, None)
    (tmp_path / "other").mkdir()
    with pytest.raises(FileExistsError, match="where there are no partitions"):
        write_partitions(tmp_path / "other", (FRAME, FLAG), overwrite=True)


def test_changed_files_are_found(tmp_path):
    data = write_partitions(tmp_path / "a.parts", (FRAME, FLAG), rows=30)
    loaded = data.X.load(1)
    loaded.values[:] = 0.0  # a change in memory is none of the file
    assert data.X.load(1).values.any()
    file = tmp_path / "a.parts" / "part-000001" / "X-values.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(bytes(content))
    for read in (lambda: data.X.load(1), data.verify, open_partitions(tmp_path / "a.parts").verify):
        with pytest.raises(ValueError, match=r"X-values\.npy of part-000001 in .* has changed"):
            read()
    file.unlink()
    with pytest.raises(FileNotFoundError, match="cannot be read"):
        data.X.load(1)
    manifest = tmp_path / "a.parts" / "manifest.json"
    said = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(said | {"version": 2}))
    with pytest.raises(ValueError, match="of version 2, and this package reads '"):
        open_partitions(tmp_path / "a.parts")
    manifest.write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        open_partitions(tmp_path / "a.parts")


def test_data_say_what_they_have(tmp_path):
    data = write_partitions(tmp_path / "a.parts", {"X": FRAME, "id": np.arange(50)})
    assert repr(data).startswith("<PartitionedData: 50 rows and 6 columns with")
    assert repr(data).endswith("in 1 partition(s); X, id>")
    assert data.y is None and list(data) == ["X", "id"] and data.nbytes > 1000
    with pytest.raises(KeyError, match="has no 'y', but 'X', 'id'"):
        data["y"]


PERSONS = pd.DataFrame({"w": np.arange(1.0, 51.0), "days": np.arange(50, 0, -1), "event": FLAG})
PERSONS = PERSONS.assign(site=np.where(np.arange(50) < 9, "x", "yy"), **FRAME)


def tables(form, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    arrow = pyarrow.Table.from_pandas(PERSONS)
    if form == "frames":
        return [PERSONS[:13], PERSONS[13:13], PERSONS[13:]]
    if form == "polars":
        return pytest.importorskip("polars").from_pandas(PERSONS)
    if form == "duckdb":
        return pytest.importorskip("duckdb").sql("SELECT * FROM arrow")
    if form == "reader":
        return arrow.to_reader(max_chunksize=11)
    if form == "record batches":
        return iter(arrow.to_batches(max_chunksize=11))
    from pyarrow import parquet

    for k in range(2):
        parquet.write_table(arrow[25 * k : 25 * (k + 1)], tmp_path / f"{k}.parquet")
    return [tmp_path / "0.parquet", str(tmp_path / "1.parquet")]


@pytest.mark.parametrize(
    "form", ["frames", "polars", "duckdb", "reader", "record batches", "parquet"]
)
def test_tables_have_their_outcome_among_their_columns(form, tmp_path):
    columns = {"time": "days", "sample_weight": "w", "strata": "site"}
    given = {"outcome": surv, "columns": columns, "rows": 20}
    data = write_partitions(tmp_path / "a.parts", tables(form, tmp_path), **given)
    assert data.names.tolist() == list("abcdef") and data.lengths == (20, 20, 10)
    assert list(data) == ["X", "y", "sample_weight", "strata"]
    order = rows_of(data, "sample_weight").astype(int) - 1
    assert np.array_equal(rows_of(data, "y"), surv(FLAG, PERSONS["days"])[order])
    assert rows_of(data, "strata").tolist() == PERSONS["site"][order].tolist()
    assert np.array_equal(dense_of(data), FRAME.to_numpy()[order])


def test_outcome_of_a_table_may_be_a_column(tmp_path):
    given = {"outcome": "event", "columns": {"sample_weight": "w", "number": "days"}}
    data = write_partitions(tmp_path / "a.parts", PERSONS.drop(columns="site"), **given)
    assert list(data) == ["X", "y", "sample_weight", "number"]
    assert np.array_equal(rows_of(data, "y"), FLAG)


@pytest.mark.parametrize("memory", [None, 0, np.inf])
def test_fit_of_files_is_that_of_memory(memory, tmp_path):
    n = 1000
    X = pd.DataFrame(table(n), columns=list("abcdef"))
    rng = np.random.default_rng(2)
    time = np.round(rng.exponential(np.exp(X["c"] - X["a"])), 2) + 0.01
    y, weight = surv(rng.random(n) < 0.5, time, stratum=np.arange(n) % 3), rng.uniform(1, 2, n)
    given = {"alpha": 0.001, "tol": 1e-9, "n_jobs": 1}
    expected = CoxLassoCCD(**given).fit(X, y, sample_weight=weight)
    write_partitions(tmp_path / "a.parts", (X, y, weight), rows=100)
    data = open_partitions(tmp_path / "a.parts", memory=memory)
    found = CoxLassoCCD(**given).fit(data.X, data.y, sample_weight=data.sample_weight)
    assert found.feature_names_in_.tolist() == list("abcdef")
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-11)
    assert np.allclose(found.coef_, expected.coef_, rtol=0, atol=1e-7)


def test_groups_of_files_are_compared(tmp_path):
    rng = np.random.default_rng(3)
    X, subject = table(600), rng.integers(0, 200, 600)
    y = case_series(rng.poisson(np.exp(X[:, 2])), rng.uniform(1, 2, 600), subject)
    given = {"alpha": 0.001, "tol": 1e-9, "n_jobs": 1}
    data = write_partitions(tmp_path / "a.parts", (X, y), rows=90, group="subject")
    found, expected = (CaseSeriesCCD(**given).fit(*rows) for rows in [(data.X, data.y), (X, y)])
    assert np.allclose(found.coef_, expected.coef_, rtol=0, atol=1e-7)


PEAKS = """
import os, sys
from resource import RUSAGE_SELF, getrusage
from sksurvgpu import CoxLassoCCD, open_partitions

model = CoxLassoCCD(alpha=0.1, n_jobs=1)
for path in sys.argv[1:]:
    if os.fork() == 0:  # what one fit has left is not there for the next
        data = open_partitions(path, memory=0)
        model.fit(data.X, data.y)
        os.write(1, b"%d " % getrusage(RUSAGE_SELF).ru_maxrss)
        os._exit(0)
    assert os.wait()[1] == 0
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ru_maxrss is in kB on Linux")
def test_memory_is_that_of_a_partition(tmp_path):
    size, few, many = 16_384, 4, 28

    def batches(n_parts):
        rng = np.random.default_rng(0)
        for _ in range(n_parts):
            X = sp.random_array((size, 5), density=0.1, format="csc", rng=rng)
            time = np.ceil(rng.exponential(50, size).clip(0, 200))
            yield X, surv(rng.random(size) < 0.5, time)

    for n_parts in (few, many):
        write_partitions(tmp_path / f"{n_parts}.parts", batches(n_parts), rows=size)
    paths = [str(tmp_path / f"{n_parts}.parts") for n_parts in (few, many)]
    child = [sys.executable, "-c", PEAKS, *paths]
    peaks = subprocess.run(child, capture_output=True, text=True, check=True).stdout.split()
    assert 1024 * (int(peaks[1]) - int(peaks[0])) <= 5 * size * (many - few)


def long_tables(n=400, seed=0):
    rng = np.random.default_rng(seed)
    persons = pd.DataFrame(
        {
            "row_id": rng.permutation(n) * 3,
            "died": rng.random(n) < 0.5,
            "time": rng.exponential(size=n),
            "site": rng.integers(0, 60, n),
        }
    )
    lines = pd.DataFrame(
        {
            "row_id": rng.integers(0, n + 5, 6000) * 3,
            "covariate_id": rng.zipf(1.3, 6000) % 50,
            "value": rng.integers(0, 3, 6000) / 2,
        }
    )
    return persons, lines


@pytest.mark.parametrize("group", [None, "site"])
@pytest.mark.parametrize("policy", ["sum", "max", "last"])
def test_long_tables_to_files(policy, group, tmp_path):
    persons, lines = long_tables()
    given = {"duplicates": policy, "min_count": 30, "unknown": "ignore", "names": {1: "one"}}
    kept = from_long(persons, lines, **given)
    writing = {"outcome": surv, "columns": {"event": "died", "id": "row_id"}, "rows": 64}
    chunks = (lines[low : low + 999] for low in range(0, 6000, 999))
    data = from_long(persons, chunks, **given, to=tmp_path / "a.parts", group=group, **writing)
    assert data.report == kept.report and data.report.n_rare > 0 and data.report.n_unnamed > 0
    assert np.array_equal(data.covariate_ids, kept.covariate_ids)
    again = open_partitions(tmp_path / "a.parts")
    assert again.names.tolist() == data.X.names.tolist() == kept.X.names.tolist()
    assert again.X.source == data.X.source and max(again.lengths) <= 64
    where = np.argsort(kept.row_ids)[np.argsort(np.argsort(data.row_ids))]
    assert np.array_equal(kept.row_ids[where], data.row_ids)
    assert np.array_equal(dense_of(again), kept.X[where].to_scipy().toarray())
    assert data.outcomes.equals(kept.outcomes.iloc[where].reset_index(drop=True))
    assert np.array_equal(rows_of(again, "id"), data.row_ids)
    assert np.array_equal(rows_of(again, "y"), surv(data.outcomes["died"], data.outcomes["time"]))
    sites = np.split(data.outcomes["site"].to_numpy(), np.cumsum(again.lengths)[:-1])
    assert group is None or sum(len(set(part)) for part in sites) == len(set(persons["site"]))
    assert [path.name for path in tmp_path.iterdir()] == ["a.parts"]


def test_long_tables_to_files_with_measured_columns(tmp_path):
    persons, lines = long_tables()
    given = {"duplicates": "sum", "unknown": "ignore"}
    kept = from_long(persons, lines, **given)
    data = from_long(
        persons, lines, **given, to=tmp_path / "a.parts", with_columns=["time", "died"]
    )
    expected = kept.X.with_columns(kept.outcomes[["time", "died"]])
    assert data.X.names.tolist() == expected.names.tolist() and data.report == kept.report
    assert np.array_equal(dense_of({"X": data.X}), expected.to_scipy().toarray())
    again = from_long(persons, lines, **given, like=data)
    assert np.array_equal(again.X.to_scipy().toarray(), kept.X.to_scipy().toarray())


def test_long_tables_to_files_refuse_the_same(tmp_path):
    persons, lines = long_tables()
    path = tmp_path / "a.parts"
    with pytest.raises(ValueError, match=r"of row \d+ more than once; pass duplicates="):
        from_long(persons, lines, unknown="ignore", to=path)
    lines.loc[:1, ["row_id", "covariate_id", "value"]] = [3, 7, 1.5e308]
    with pytest.raises(ValueError, match="covariate 7 of one row that add up to more than"):
        from_long(persons, lines, unknown="ignore", duplicates="sum", to=path)
    with pytest.raises(ValueError, match="leaves no column"):
        from_long(persons, lines[:0], to=path)
    with pytest.raises(TypeError, match="`outcome` is for files; name their folder by to="):
        from_long(persons, lines, outcome=surv)
    with pytest.raises(ValueError, match=r"a group of `site` has \d+ rows, and a partition has"):
        from_long(persons, lines, to=path, group="site", rows=2)
    with pytest.raises(ValueError, match="`with_columns` names 'age', which `outcomes` does not"):
        from_long(persons, lines, to=path, with_columns=["age"])
    with pytest.raises(ValueError, match=r"`with_columns` has \d+ NaN .* in column 'age'"):
        from_long(persons.assign(age=np.nan), lines, to=path, with_columns=["age"])
    assert not list(tmp_path.iterdir())
