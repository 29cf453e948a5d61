"""Columns that are computed, against the same ones stored: every model, and all that reads X."""

import pickle
import tracemalloc
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    CoxLassoCCD,
    CoxLassoCV,
    Design,
    FineGrayCCD,
    Firth,
    Fused,
    GroupLasso,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    PrepareColumns,
    ProductColumns,
    SplineColumns,
    StepColumns,
    bootstrap,
    case_series,
    competing_risks,
    fit_path,
    make_pipeline,
    profile_likelihood,
    surv,
    to_sklearn,
    wald,
    write_partitions,
)
from sksurvgpu.backends.cpu import grouped_gram, tile_gram
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cpu.tile_products import Products
from sksurvgpu.data.design import codes
from sksurvgpu.data.design.computed import ComputedColumns
from sksurvgpu.data.design.kernels import COMPUTED, ONE, SIZE, SQUARE, VALUE
from sksurvgpu.data.design.tiles import OrderedDesign

N = 600
KINDS = {
    "steps": StepColumns(columns=["age", "dose"], n_steps=12),
    "all steps": StepColumns(columns=["age"], n_steps=None),
    "splines": SplineColumns(columns=["age", "dose"], n_knots=6),
    "smooth": SplineColumns(columns=["age", "dose"], n_knots=6, smooth=True),
    "products": make_pipeline(
        StepColumns(columns=["age", "dose"], n_steps=4), ProductColumns(by=["drug", "rare"])
    ),
}
LESS_TRIED = ("cox", "strata", "varying", "poisson", "linear", "sets", "persons")
TIGHT = {"tol": 1e-11, "max_iter": 1000}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "drug": rng.integers(0, 2, N).astype(float),
            "age": rng.integers(20, 80, N).astype(float),
            "weight": rng.normal(70, 9, N),
            "dose": rng.exponential(1.0, N),
            "rare": (rng.random(N) < 0.05) * rng.normal(size=N),
        }
    )


@pytest.fixture(scope="module")
def outcomes(frame):
    rng = np.random.default_rng(4)
    eta = 0.5 * frame["drug"] + 0.8 * (frame["age"] > 55) - 0.4 * np.minimum(frame["dose"], 1.5)
    time, event = rng.exponential(np.exp(-eta)).round(2) + 0.01, rng.random(N) < 0.8
    binary = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int)
    cause = event * rng.integers(1, 3, N)
    person = np.arange(N) // 4
    return {
        "cox": (CoxLassoCCD, surv(event, time), {}),
        "efron": (CoxLassoCCD, surv(event, time), {"ties": "efron"}),
        "delayed": (CoxLassoCCD, surv(event, time, start=time * rng.random(N) / 2), {}),
        "strata": (CoxLassoCCD, surv(event, time, stratum=rng.integers(0, 60, N)), {}),
        "varying": (CoxLassoCCD, surv(event, time), {"time_varying": {2: [0.5]}}),
        "fine-gray": (FineGrayCCD, competing_risks(cause, time), {}),
        "logistic": (LogisticCCD, binary, {}),
        "poisson": (PoissonCCD, rng.poisson(np.exp(eta)).astype(float), {}),
        "linear": (LinearCCD, eta.to_numpy() + rng.normal(size=N), {}),
        "sets": (ConditionalLogisticCCD, binary, {"strata": person}),
        "persons": (CaseSeriesCCD, case_series(rng.poisson(0.7, N), time, person), {}),
    }


@pytest.mark.thorough(but=r"efron|delayed-products|\[(fine-gray|logistic)-.*steps")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    [
        *("efron", "delayed", "fine-gray", "logistic"),
        *(pytest.param(name, marks=pytest.mark.thorough) for name in LESS_TRIED),
    ],
)
def test_fits_are_those_of_stored_columns(frame, outcomes, kind, name):
    X = KINDS[kind].fit_transform(frame)
    model, y, options = outcomes[name]
    fit_options = {key: options[key] for key in options if key == "strata"}
    options = {key: options[key] for key in options if key != "strata"} | TIGHT
    for penalty in ({}, {"l1_ratio": 0.0}):
        computed, stored = (
            model(alpha=0.004, **penalty, **options).fit(given, y, **fit_options)
            for given in (X, X.stored())
        )
        assert computed.objective_ == pytest.approx(stored.objective_, rel=1e-12)
        np.testing.assert_allclose(computed.coef_, stored.coef_, atol=2e-8)
        assert np.count_nonzero(computed.coef_) > 2


@pytest.mark.thorough(but="products|smooth")
@pytest.mark.parametrize("kind", KINDS)
def test_all_that_reads_columns_reads_computed_ones(frame, outcomes, kind, tmp_path):
    X = KINDS[kind].fit_transform(frame)
    _, y, _ = outcomes["cox"]
    pairs = []
    for given in (X, X.stored()):
        model = CoxLassoCCD(alpha=0.01, **TIGHT).fit(given, y)
        chosen = np.flatnonzero(model.coef_)[:3]
        free = CoxLassoCCD(alpha=1e-4, l1_ratio=0.0, **TIGHT).fit(given, y)
        path = fit_path(CoxLassoCCD(**TIGHT), given, y, n_alphas=5)
        few = given[:, -3:]
        plain = CoxLassoCCD(alpha=0.0, **TIGHT).fit(few, y)
        draws = bootstrap(model, given, y, n_replicates=3, random_state=0)
        by_folds = CoxLassoCV(n_alphas=5, cv=3, random_state=0, **TIGHT).fit(given, y)
        profile = profile_likelihood(free, given, y, columns=chosen[:1])
        write_partitions(tmp_path / f"{len(pairs)}", (given, y), rows=200)
        pairs.append(
            [
                model.predict(given),
                model.predict_survival_function(given[:3], return_array=True),
                path.coefs,
                draws.coefs,
                by_folds.coef_,
                profile.summary().to_numpy(),
                wald(plain, few, y).standard_errors,
                given.describe().to_numpy(),
                given.to_scipy().toarray(),
                given[[5, 1, 5, 2]].to_scipy().toarray(),
                PrepareColumns(min_count=5, scale="sd").fit_transform(given).to_scipy().toarray(),
            ]
        )
    for computed, stored in zip(*pairs, strict=True):
        np.testing.assert_allclose(computed, stored, atol=2e-7)


def test_sums_of_blocks_are_those_of_their_values(frame):
    rng = np.random.default_rng(1)
    order, numbers = rng.permutation(N), rng.normal(size=N)
    label = rng.integers(0, 3, N)
    parts = {VALUE: lambda x: x, SIZE: abs, SQUARE: np.square, ONE: lambda x: (x != 0) * 1.0}
    for columns in KINDS.values():
        X = columns.fit_transform(frame)
        taken = X[rng.integers(0, N, N)]  # rows of blocks that are taken, some of them twice
        for design in (X, taken):
            values = design.to_scipy().toarray()[order]
            computed = ComputedColumns(design, order)
            some = rng.permutation(np.flatnonzero(design.kind == COMPUTED))[:7]
            some[3] = some[0]  # a column may be there twice
            for form, part in parts.items():
                found = computed.sums(some, numbers, form, label, 3, _at_once)
                of_rows = part(values[:, some]).T * numbers
                expected = [of_rows[:, label == k].sum(axis=1) for k in range(3)]
                np.testing.assert_allclose(found, np.transpose(expected), atol=1e-11)
                out = np.zeros(N)
                computed.add(some, np.arange(1.0, 8.0), form, out)
                np.testing.assert_allclose(out, part(values[:, some]) @ np.arange(1.0, 8.0))


def test_products_are_those_of_values_and_steps_that_join_later_read_no_row(frame, monkeypatch):
    rng = np.random.default_rng(6)
    steps = [
        StepColumns(columns=of, n_steps=n) for of, n in ((["age", "dose"], 20), (["weight"], None))
    ]
    X = make_pipeline(*steps, SplineColumns(columns=["rare"], n_knots=4)).fit_transform(frame)
    sizes = [block.n_columns for block in X.blocks]
    assert sizes == [40, N - 1, 4]  # of which the second has more codes than are kept
    p, order, h = X.n_columns, rng.permutation(N), rng.random(N)
    ordered, whole = OrderedDesign(X, order), np.tile([0, 1], (p, 1))
    pieces = np.arange(p), whole, np.zeros(1, int), np.zeros(1, int)
    products = Products(ordered.tiles, pieces, Threads(1), ordered.computed)
    stored = products.entries[products.kind != COMPUTED].sum()
    assert tile_gram.count_entries(products) == stored + (2 + 1 + 4) * N  # splines, two of steps
    passes = mock.Mock(wraps=grouped_gram._add_by_both)
    monkeypatch.setattr(grouped_gram, "_add_by_both", passes)
    tables, first = grouped_gram.PairTables(), p - sum(sizes)
    few = first + np.r_[rng.permutation(20)[:12], 20 + rng.permutation(20)[:12]]
    every = np.r_[rng.permutation(p)[:90], 0, 0]
    for columns, knowns, n_passes in (
        (few, (0, 9, 20), 3),
        (every, (0, 50, 90), None),
        (first + np.array([3, 25, 3]), (0, 2), 0),
    ):
        values = X[:, columns].to_scipy().toarray()[order]
        expected, passes.call_count = (values.T * h) @ values, 0
        for known in knowns:
            rows = tile_gram.rows_of_gram(products, columns, known, h, tables)
            np.testing.assert_allclose(rows, expected[known:], rtol=1e-12, atol=1e-12)
            assert n_passes in (None, passes.call_count)
        sample = np.where(rng.random(N) < 0.2, h, 0.0)
        rows = tile_gram.rows_of_gram(products, columns, 0, sample)
        np.testing.assert_allclose(rows, (values.T * sample) @ values, rtol=1e-12, atol=1e-12)


def _at_once(function, columns):
    function(0, len(columns))


def test_steps_are_where_values_are_above_thresholds(frame):
    steps = StepColumns(columns=["age"], n_steps=5).fit(frame)
    thresholds = steps.thresholds_["age"]
    assert len(thresholds) == 5 and steps.get_feature_names_out()[-1] == f"age>{thresholds[-1]:g}"
    new = frame.assign(age=np.linspace(0.0, 100.0, N))
    X = steps.transform(new)
    np.testing.assert_array_equal(
        X[:, -5:].to_scipy().toarray(), new["age"].to_numpy()[:, None] > thresholds
    )
    assert X.names[:4].tolist() == ["drug", "weight", "dose", "rare"]
    assert steps.groups_.tolist() == ["drug", "weight", "dose", "rare"] + ["age"] * 5
    coef = np.r_[np.zeros(4), 1.0, 0.0, 0.0, -0.5, 0.0]
    effects = steps.effects(coef, reference={"age": thresholds[0]})
    assert effects["value"].tolist() == [-np.inf, thresholds[0], thresholds[3]]
    assert effects["effect"].tolist() == [0.0, 1.0, 0.5]
    assert steps.effects(coef)["effect"].tolist() == [-1.0, 0.0, -0.5]  # of the median
    every = StepColumns(columns=["age"], n_steps=None).fit(frame).thresholds_["age"]
    np.testing.assert_array_equal(every, np.unique(frame["age"])[:-1])


def test_splines_are_those_of_scipy(frame):
    from scipy.interpolate import BSpline

    splines = SplineColumns(columns=["dose"], n_knots=6).fit(frame)
    knots = splines.knots_["dose"]
    padded = np.r_[[knots[0]] * 3, knots, [knots[-1]] * 3]
    new = frame.assign(dose=np.linspace(-1.0, 9.0, N))
    inside = np.clip(new["dose"], knots[0], knots[-1])
    expected = BSpline.design_matrix(inside, padded, 3).toarray()[:, 1:]
    found = splines.transform(new)[:, -expected.shape[1] :].to_scipy().toarray()
    np.testing.assert_allclose(found, expected, atol=1e-15)
    coef = np.r_[np.zeros(4), np.arange(expected.shape[1])]
    effects = splines.effects(coef, reference={3: knots[0]})
    at_ends = BSpline.design_matrix(knots[[0, -1]], padded, 3).toarray()[:, 1:] @ coef[4:]
    np.testing.assert_allclose(effects["effect"].iloc[[0, -1]], at_ends)


@pytest.mark.parametrize("columns", [StepColumns(n_steps=8), SplineColumns(n_knots=4)])
def test_transformers_work_where_those_of_scikit_learn_do(frame, outcomes, columns):
    _, y, _ = outcomes["cox"]
    pipe = make_pipeline(columns, CoxLassoCCD(alpha=0.01)).fit(frame, y)
    again = pickle.loads(pickle.dumps(pipe))
    np.testing.assert_array_equal(again.predict(frame), pipe.predict(frame))
    name = f"{type(columns).__name__.lower()}__columns"
    search = GridSearchCV(pipe, {name: [["age"], ["dose"]]}, cv=2).fit(frame, y)
    assert search.best_params_ == {name: ["age"]}
    assert isinstance(pipe[0].transform(frame), Design)
    assert pipe[1].summary().index.tolist() == pipe[0].get_feature_names_out().tolist()
    polars = pytest.importorskip("polars").from_pandas(frame)
    np.testing.assert_allclose(pipe.predict(polars), pipe.predict(frame))


@pytest.mark.parametrize("ends", [(-2.0, 1.6), (-1.6, 2.0), (0.1, 0.7)])
def test_natural_splines_begin_and_end_where_thirds_are_rounded(ends):
    """(1.6 + 1.6 + 1.6) / 3 is more than 1.6: the last node of a line is the last knot itself."""
    x = np.linspace(*ends, 30)
    columns = SplineColumns(n_knots=4, natural=True).fit_transform(x[:, None])
    np.testing.assert_allclose(columns.to_scipy().toarray()[:, 0], x, rtol=0, atol=1e-12)


def test_penalties_of_steps_and_splines(frame, outcomes):
    _, y, _ = outcomes["cox"]
    splines = SplineColumns(columns=["age", "dose"], n_knots=5).fit(frame)
    X = splines.transform(frame)
    options = {"alpha": 0.03, "tol": 1e-10, "max_iter": 1000}
    penalty = GroupLasso(groups=splines.groups_)
    computed, stored = (
        CoxLassoCCD(penalty=penalty, **options).fit(given, y) for given in (X, X.stored())
    )
    np.testing.assert_allclose(computed.coef_, stored.coef_, atol=1e-7)
    is_in = [np.count_nonzero(computed.coef_[splines.groups_ == name]) for name in ("age", "dose")]
    assert is_in[0] in (0, 6) and is_in[1] in (0, 6) and any(is_in)
    for penalty in (Fused([(3, 4), (4, 5)]), Firth()):
        few = X[:, :6]
        models = [CoxLassoCCD(penalty=penalty, alpha=0.01).fit(x, y) for x in (few, few.stored())]
        np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-5)


def test_what_columns_cannot_be_is_said(frame):
    for columns, error, match in (
        (StepColumns(n_steps=0), ValueError, "`n_steps` is 0"),
        (StepColumns(columns=["age", "hair"]), ValueError, "`columns` names column 'hair'"),
        (StepColumns(columns=[9]), ValueError, "`columns` names column 9, `X` has columns 0 to 4"),
        (SplineColumns(n_knots=1), ValueError, "`n_knots` is 1"),
        (SplineColumns(degree=6), ValueError, "`degree` is 6"),
        (SplineColumns(natural=True, degree=2), ValueError, "`natural` splines are of degree=3"),
        (SplineColumns(natural=True, n_knots=201), ValueError, "`n_knots` is 201, must be 200"),
        (SplineColumns(knots=[1, 2]), TypeError, "`knots` is .* must be a dictionary"),
        (SplineColumns(knots={"drug": [0, 1]}), ValueError, "'drug'.* stays as it is"),
        (SplineColumns(knots={"age": [50, 40]}), ValueError, "'age'.* ascending numbers"),
        (SplineColumns(knots={1: [1, 2]}), ValueError, "column 'age' has one value within its"),
        (StepColumns(columns=["drug"]), ValueError, "column 'drug' has one value"),
    ):
        given = frame.assign(drug=1.0)
        with pytest.raises(error, match=match):
            columns.fit(given)
    with pytest.raises(ValueError, match="`X` has no column of more than two values"):
        StepColumns().fit(frame[["drug"]])
    with pytest.raises(ValueError, match="age"):
        StepColumns().fit(frame.assign(age=np.nan))
    fitted = StepColumns().fit(frame)
    with pytest.raises(ValueError, match="feature"):
        fitted.transform(frame[["age"]])
    with pytest.raises(ValueError, match="`coef` has shape"):
        fitted.effects([1.0])
    with pytest.raises(TypeError, match="this reads stored ones"):
        fitted.transform(frame).arrays()


def test_what_does_not_fit_into_memory_is_not_stored(frame, monkeypatch):
    from sksurvgpu.data.design import beside

    monkeypatch.setattr(beside, "available", lambda: 1e5)
    with pytest.raises(MemoryError, match="computed columns of 600 rows may take"):
        StepColumns().fit_transform(frame).stored()


def test_columns_keep_their_steps(frame):
    """... where most rows are at the largest value, and where the first rows have two values."""
    rng = np.random.default_rng(2)
    some = np.where(rng.random(N) < 0.8, 10.0, rng.normal(size=N))
    late = np.r_[np.tile([0.0, 1.0], N // 4), rng.normal(size=N // 2)]
    steps = StepColumns(n_steps=3).fit(pd.DataFrame({"most": some, "late": late}))
    assert [len(found) for found in steps.thresholds_.values()] == [1, 3]
    twice = frame.assign(**{"age>50": 1.0})
    with pytest.raises(ValueError, match="`X` has several columns named 'age>50'"):
        StepColumns(columns=["age"], n_steps=None).fit(twice.assign(age=np.arange(N) % 99))
    with pytest.raises(TypeError, match="`columns` is 'age', must be a list"):
        StepColumns(columns="age").fit(frame)


def test_output_is_what_scikit_learn_asks(frame):
    import sklearn

    for columns in (StepColumns(n_steps=4), SplineColumns(n_knots=4), ProductColumns()):
        expected = columns.fit_transform(frame)
        assert isinstance(expected, Design)
        with sklearn.config_context(transform_output="pandas"):
            found = columns.transform(frame)
        pd.testing.assert_frame_equal(found, expected.to_frame().set_axis(frame.index))
        found = clone(columns).set_output(transform="pandas").fit_transform(frame)
        np.testing.assert_array_equal(found.to_numpy(), expected.to_scipy().toarray())
        assert found.columns.tolist() == expected.names.tolist()
    with pytest.raises(ValueError, match=r"no sparse columns; take set_output.*of StepColumns"):
        StepColumns().set_output(transform="polars").fit_transform(frame)


def test_scikit_learn_has_the_model(frame, outcomes):
    _, y, _ = outcomes["logistic"]
    pipe = make_pipeline(StepColumns(), LogisticCCD(alpha=0.01)).fit(frame, y)
    found = to_sklearn(pipe).predict_proba(frame)
    np.testing.assert_allclose(found, pipe.predict_proba(frame), atol=1e-12)


def test_few_of_many_steps_by_label_are_added_up_by_what_they_tell_apart():
    rng = np.random.default_rng(5)
    block = StepColumns(n_steps=None).fit_transform(rng.normal(size=(N, 1))).blocks[0]
    some, label, numbers = np.array([7, 7, 400]), rng.integers(0, 50, N), rng.normal(size=N)
    with mock.patch.object(codes, "add_by_code_and_label") as add:
        block.sums(some, numbers, VALUE, label, 50)
    assert add.call_args.args[3].shape == (4, 50)  # and not 600 codes by 50
    expected = block.values(some, np.arange(N)) * numbers
    expected = np.stack([expected[:, label == k].sum(axis=1) for k in range(50)], axis=1)
    np.testing.assert_allclose(block.sums(some, numbers, VALUE, label, 50), expected, atol=1e-12)


@pytest.mark.thorough
def test_fits_of_many_steps_work_on_few():
    """By matrix; with all that are near it would cost too much, and curvatures take 48 iterations.

    Coupled columns are not cheap without a matrix, either: those of the second one took 255.
    """
    for n, n_variables, n_steps, alpha in ((20_000, 6, 200, 1.4e-4), (30_000, 10, 300, 9e-5)):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(n, n_variables))
        chance = expit(0.5 * (X[:, 0] > 0.3) + 0.4 * np.sin(X[:, 1]))
        design = StepColumns(n_steps=n_steps).fit_transform(X)
        model = LogisticCCD(alpha=alpha, max_iter=30).fit(design, rng.random(n) < chance)
        assert model.converged_ and np.count_nonzero(model.coef_) > 500


def test_columns_take_no_more_memory_than_a_few_numbers_each():
    """As many as there are values: neither tables of two of them nor anything by tile."""
    ages = np.random.default_rng(3).normal(size=(6_000, 1))
    design = StepColumns(n_steps=None).fit(ages).transform(ages)
    tiles = OrderedDesign(design, np.arange(6_000)).tiles
    assert tiles.indptr.shape[1] <= 2 and len(tiles.kind) == design.n_columns == 5_999
    [block], label = design.blocks, np.arange(6_000) % 4
    given = np.arange(5_999), np.ones(6_000), VALUE, label, 4
    block.sums(*given)  # compiles
    tracemalloc.start()
    try:
        found, peak = block.sums(*given), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6_000 * 200
    above = np.argsort(ages[:, 0])[::-1][:5_999]
    expected = np.cumsum(np.eye(4)[label[above]], axis=0)[::-1]
    np.testing.assert_allclose(found, expected)
