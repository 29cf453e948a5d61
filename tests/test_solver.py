"""Fits: published optima, certificates recomputed by the oracle, and routes that must agree."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from engine import (
    BINS,
    Data,
    dense,
    draw_design,
    draw_outcome,
    fit,
    fit_path,
    largest_gradient,
    make_batch,
    make_problem,
    objective,
    reference_at,
    use_bins,
    violation,
)
from oracles.reference_likelihoods import duality_gap, split_rows

from sksurvgpu.backends import cpu
from sksurvgpu.backends.cpu import session as session_module
from sksurvgpu.solver import majorized
from sksurvgpu.solver.problem import Batch
from sksurvgpu.solver.solve import Options, solve

TIGHT = 1e-12

# Collected before fixtures exist, for the names of the cases.
_PUBLISHED = json.loads(
    (Path(__file__).parent / "oracles" / "published" / "coxph.json").read_text(encoding="utf-8")
)
CASES = [case["name"] for case in _PUBLISHED["cases"]]


def published_data(dataset, uses=()):
    def used(field):
        return np.array(dataset[field], float) if field in uses else None

    return Data(
        X=np.column_stack([np.array(x, float) for x in dataset["X"].values()]),
        time=np.array(dataset["time"], float),
        event=np.array(dataset["event"]),
        start=used("start"),
        strata=used("strata"),
        weights=used("weights"),
        offset=used("offset"),
    )


def named(cases, name):
    return next(case for case in cases if case["name"] == name)


def check_optimum(solution, data, lam, ties, tolerance, **penalty):
    """The oracle agrees that this is the optimum, and what its value is."""
    scale, root = largest_gradient(data, ties), solution.null.root
    violations = violation(data, solution.coef, lam, ties, **penalty)
    worst, at_zero = violations.max(), violation(data, 0 * solution.coef, 0.0, ties)
    assert (violations / root).max() <= tolerance("kkt") * (at_zero / root).max()
    value = objective(data, solution.coef, lam, ties, **penalty)
    assert abs(solution.objective - value) <= 1e-11 * max(1.0, abs(value))
    # What the fit reports of itself is true; unpenalized and factored columns have other units.
    assert solution.converged
    if lam > 0 and "factor" not in penalty:
        assert abs(solution.kkt - worst) <= 1e-9 * scale


class TestPublishedOptima:
    @pytest.mark.parametrize("algorithm", ["majorized", "exact"])
    @pytest.mark.parametrize("name", CASES)
    def test_coxph(self, name, algorithm, coxph, check_close):
        case = named(coxph["cases"], name)
        data = published_data(coxph["datasets"][case["dataset"]], case["uses"])
        if algorithm == "exact":
            data = data.with_(weights=data.sample_weight)  # one kernel, with weights or without
        lam = case["ridge_theta"] or 0.0
        problem = make_problem(data, case["ties"])
        solution = fit(
            data,
            lam,
            case["ties"],
            problem=problem,
            l1_ratio=0.0,
            tol=TIGHT,
            algorithm=algorithm,
            max_iter=20_000,
        )
        check_close(solution.coef, case["coefficients"], "published coef")
        np.testing.assert_allclose(solution.loglik, case["loglik"], rtol=1e-10)
        if "baseline" in case:
            self.check_baseline(solution, problem.plan, case["baseline"])

    @staticmethod
    def check_baseline(solution, plan, expected):
        """Cells hold the cumulative hazard of every stratum at its event times, in order."""
        is_time = ~np.isnan(plan.cell_time)
        np.testing.assert_array_equal(plan.cell_time[is_time], expected["times"])
        np.testing.assert_allclose(
            np.exp(solution.baseline[is_time]), expected["cumulative_hazard"], rtol=1e-7
        )

    @pytest.mark.parametrize("ties", ["breslow", "efron"])
    def test_time_varying(self, ties, coxph, check_close):
        case = named(coxph["time_varying"], f"veteran-time-varying-{ties}")
        dataset = coxph["datasets"][case["dataset"]]
        data = published_data(dataset)
        names = list(dataset["X"])
        constant = [names.index(name) for name in case["columns"] if name in names]
        varying = names.index(case["time_varying"][0])
        source = np.array(constant + 3 * [varying])
        piece_ptr = np.array(len(constant) * [[0, 3]] + [[0, 1], [1, 2], [2, 3]])
        problem = make_problem(data, ties, case["cuts"], source, piece_ptr)
        solution = fit(data, 0.0, ties, problem=problem, tol=TIGHT)
        check_close(solution.coef, case["coefficients"], "published coef")
        np.testing.assert_allclose(solution.loglik, case["loglik"], rtol=1e-10)

    @pytest.mark.parametrize("k", [0, 1])
    def test_lasso(self, k, coxph, check_close):
        case = coxph["lasso"][k]
        data = published_data(coxph["datasets"][case["dataset"]])
        lam = case["lambda_mean_scale"] * data.n
        solution = fit(data, lam, tol=TIGHT)
        check_close(solution.coef, case["coefficients"], "other package")

    def test_vectors(self, vectors, check_close):
        columns = {name: np.array(values, float) for name, values in vectors["data"].items()}
        X = np.column_stack([columns[f"x{j}"] for j in range(6)])
        count = 0
        for case in vectors["expected"]:
            if case["card"] != "cox":
                continue
            options, count = case["options"], count + 1
            fields = {
                "time": "time",
                "event": "event",
                "start": "start",
                "weights": "weights",
                "strata": "strata",
            }
            used = {k: columns[options[v]] for k, v in fields.items() if options.get(v)}
            data = Data(X=X, **used)
            l1_ratio = options.get("l1_ratio", 1.0)
            solution = fit(data, options["lam"], options["ties"], l1_ratio=l1_ratio, tol=TIGHT)
            is_other = "reference" not in case["source"]
            comparison = "published coef" if is_other else "other package"
            check_close(solution.coef, case["coef"], comparison, context=case["name"])
            np.testing.assert_allclose(solution.loglik, case["loglik"], rtol=1e-8)
        assert count == 32

    @pytest.mark.parametrize("name", ["time_varying_efron", "time_varying_start"])
    def test_time_varying_vectors(self, name, vectors, check_close):
        case = named(vectors["expected"], name)
        options = case["options"]
        columns = {name: np.array(values, float) for name, values in vectors["data"].items()}
        data = Data(
            X=np.column_stack([columns[f"x{j}"] for j in range(6)]),
            time=columns["time"],
            event=columns["event"],
            start=columns[options["start"]] if "start" in options else None,
            strata=columns[options["strata"]] if "strata" in options else None,
            weights=columns[options["weights"]] if "weights" in options else None,
        )
        source = np.array([1, 2, 3, 5, 0, 0, 0, 4, 4, 4])
        piece_ptr = np.array(4 * [[0, 3]] + 2 * [[0, 1], [1, 2], [2, 3]])
        problem = make_problem(data, options["ties"], options["cuts"], source, piece_ptr)
        solution = fit(data, 0.0, options["ties"], problem=problem, tol=TIGHT)
        check_close(solution.coef, case["coef"], "published coef")
        np.testing.assert_allclose(solution.loglik, case["loglik"], rtol=1e-10)


ROUTES = {  # form of the quadratic model, and its bins
    "chosen": None,
    "sweeps-every death": ("sweeps", "every death"),
    "sweeps-few": ("sweeps", "few"),
    "sweeps-one a stratum": ("sweeps", "one a stratum"),
    "gram-few": ("gram", "few"),
}


@pytest.fixture(params=ROUTES)
def route(request, monkeypatch):
    """How the fit gets to its optimum."""
    if ROUTES[request.param]:
        prefer(*ROUTES[request.param], monkeypatch)


def prefer(form, bins, monkeypatch):
    """Make one form of the model free of cost, from the first iteration that may choose."""
    use_bins(bins, monkeypatch)
    cost = {"sweeps": np.inf, "gram": 0.0}[form]
    monkeypatch.setattr(session_module.Session, "gram_cost", lambda self, columns: cost)
    monkeypatch.setattr(majorized, "MANY_PASSES", 0)


@pytest.mark.parametrize("form", ["sweeps", "gram"])
def test_routes_are_taken(form, monkeypatch):
    prefer(form, "few", monkeypatch)
    calls = []
    minimize = session_module.Session.minimize_on_gram
    monkeypatch.setattr(
        session_module.Session,
        "minimize_on_gram",
        lambda *arguments: calls.append(1) or minimize(*arguments),
    )
    rng = np.random.default_rng(29)
    data = draw_outcome(rng, 90).with_(X=draw_design(rng, 90, 10, "mixed"))
    fit(data, 0.05 * largest_gradient(data), tol=1e-10)
    assert bool(calls) == (form == "gram")


@pytest.mark.parametrize("kind", ["indicator", "valued", "dense", "mixed"])
@pytest.mark.parametrize("start", [False, True], ids=["from zero", "delayed"])
class TestCertificate:
    @pytest.mark.parametrize(
        ("l1_ratio", "share"), [(1.0, 0.2), (1.0, 0.02), (0.5, 0.05), (0.0, 1)]
    )
    def test_kkt(self, kind, start, l1_ratio, share, route, ties, tolerance):
        rng = np.random.default_rng([30, start])
        data = draw_outcome(
            rng, 150, start=start, n_strata=2, n_times=40, weights=True, offset=True
        )
        data = data.with_(X=draw_design(rng, 150, 24, kind))
        lam = share * largest_gradient(data, ties)
        solution = fit(data, lam, ties, l1_ratio=l1_ratio)
        check_optimum(solution, data, lam, ties, tolerance, l1_ratio=l1_ratio)

    def test_more_columns_than_rows(self, kind, start, route, tolerance):
        rng = np.random.default_rng([31, start])
        data = draw_outcome(rng, 60, start=start, n_times=20)
        data = data.with_(X=draw_design(rng, 60, 150, kind))
        lam = 0.05 * largest_gradient(data)
        solution = fit(data, lam)
        check_optimum(solution, data, lam, "breslow", tolerance)
        assert 5 < np.count_nonzero(solution.coef) < 60

    def test_degenerate_columns(self, kind, start, route, tolerance):
        """Duplicates, opposites, constants and empty columns; a constant has no effect."""
        rng = np.random.default_rng([32, start])
        data = draw_outcome(rng, 120, start=start, n_times=30)
        X = dense(draw_design(rng, 120, 8, kind))
        ones = np.ones((120, 1))
        X = np.hstack([X, X[:, :3], -X[:, :1], ones, 0 * ones, 7 * ones])
        data = data.with_(X=X if kind in ("dense", "mixed") else sp.csc_array(X))
        lam = 0.02 * largest_gradient(data)
        solution = fit(data, lam)
        check_optimum(solution, data, lam, "breslow", tolerance)
        assert (solution.coef[-3:] == 0).all()


@pytest.mark.parametrize("value", [1.0, 0.1, 7.0])
def test_a_constant_column_stays_at_zero_without_penalty(value, route, ties):
    rng = np.random.default_rng(33)
    data = draw_outcome(rng, 80, n_strata=2)
    X = np.column_stack([rng.normal(size=(80, 2)), np.full(80, value), np.zeros(80)])
    solution = fit(data.with_(X=X), 0.0, ties)
    assert solution.converged
    assert (solution.coef[2:] == 0).all()
    assert (solution.coef[:2] != 0).all()


def highest_loglik(data, ties):
    """Log-likelihood where at every event time nobody but the deaths is at risk."""
    total, alive = 0.0, data.event.astype(bool) & (data.weights > 0)
    for time in np.unique(data.time[alive]):
        dead = alive & (data.time == time)
        d, m = data.weights[dead].sum(), dead.sum()
        total -= d * np.log(d)
        if ties == "efron":
            total -= d / m * np.log(1 - np.arange(m) / m).sum()
    return total


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.0])
def test_gap_bounds_the_distance_to_the_optimum(l1_ratio, ties):
    rng = np.random.default_rng(34)
    data = draw_outcome(rng, 100, n_times=30, weights=True)
    data = data.with_(X=draw_design(rng, 100, 15, "mixed"))
    lam = 0.05 * largest_gradient(data, ties)
    best = fit(data, lam, ties, l1_ratio=l1_ratio, tol=TIGHT)
    highest = highest_loglik(data, ties)
    assert 0 <= best.gap <= 1e-8
    for max_iter in range(5):
        early = fit(data, lam, ties, l1_ratio=l1_ratio, tol=TIGHT, max_iter=max_iter)
        assert early.gap >= early.objective - best.objective - 1e-11 * abs(best.objective)
        evaluation = reference_at(data, early.coef, ties)
        expected = duality_gap(data.X, evaluation, early.coef, lam, l1_ratio, highest=highest)
        np.testing.assert_allclose(early.gap, expected, rtol=1e-8, atol=1e-8)
        assert not early.converged or early.gap < 1e-8


def test_no_gap_where_a_column_is_free():
    rng = np.random.default_rng(35)
    data = draw_outcome(rng, 60).with_(X=rng.normal(size=(60, 3)))
    assert np.isnan(fit(data, 1.0, factor=np.array([0.0, 1, 1])).gap)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_objective_never_rises(l1_ratio, route, ties):
    """Strong effects and far starts: full steps of the local model overshoot."""
    rng = np.random.default_rng(36)
    for repeat in range(6):
        data = draw_outcome(rng, 100, n_times=30, start=repeat % 2 == 1)
        X = draw_design(rng, 100, 12, "mixed")
        data = data.with_(X=4.0 * X)
        start = 0.5 * rng.normal(size=(12, 1))
        lam = 1e-3 * largest_gradient(data, ties)
        solution = fit(data, lam, ties, l1_ratio=l1_ratio, coef=start)
        assert solution.converged
        steps = np.diff(solution.objectives)
        assert steps.max(initial=0.0) <= 1e-12 * np.abs(solution.objectives).max()
        first = objective(data, start[:, 0], lam, ties, l1_ratio=l1_ratio)
        np.testing.assert_allclose(solution.objectives[0], first, rtol=1e-10)


class TestPenalty:
    @pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
    @pytest.mark.parametrize("is_free", [False, True], ids=["all penalized", "one free"])
    def test_lam_max(self, l1_ratio, is_free, ties):
        rng = np.random.default_rng(37)
        data = draw_outcome(rng, 90, start=True, n_strata=2, n_times=25, offset=True)
        data = data.with_(X=draw_design(rng, 90, 10, "mixed"))
        factor = rng.uniform(0.5, 2.0, size=10)
        factor[3] = 0.0 if is_free else 1.0
        args = {"l1_ratio": l1_ratio, "factor": factor, "tol": 1e-9}
        lam_max = fit(data, 1.0, ties, **args).lam_max
        at = fit(data, lam_max * (1 + 1e-7), ties, **args)
        below = fit(data, lam_max * 0.99, ties, **args)
        penalized = factor > 0
        assert (at.coef[penalized] == 0).all()
        assert np.count_nonzero(below.coef[penalized]) == 1
        assert (at.coef[~penalized] != 0).all()

    def test_factors(self, ties, tolerance, route):
        rng = np.random.default_rng(38)
        data = draw_outcome(rng, 90, n_times=25).with_(X=draw_design(rng, 90, 10, "mixed"))
        factor = rng.uniform(0.2, 3.0, size=10)
        factor[:2] = 0.0
        lam = 0.1 * largest_gradient(data, ties)
        solution = fit(data, lam, ties, factor=factor, l1_ratio=0.7, tol=1e-7)
        check_optimum(solution, data, lam, ties, tolerance, factor=factor, l1_ratio=0.7)
        assert (solution.coef[:2] != 0).all()

    def test_fixed_columns_are_offsets(self, ties, check_close, route):
        rng = np.random.default_rng(39)
        data = draw_outcome(rng, 90, n_times=25, start=True)
        data = data.with_(X=draw_design(rng, 90, 8, "mixed"))
        start = np.zeros((8, 1))
        start[[1, 4], 0] = [0.7, -0.4]
        fixed = start != 0
        lam = 0.05 * largest_gradient(data, ties)
        held = fit(data, lam, ties, coef=start, fixed=fixed, tol=TIGHT)
        free = ~fixed[:, 0]
        moved = data.with_(X=data.X[:, free], offset=data.X @ start[:, 0])
        expected = fit(moved, lam, ties, tol=TIGHT)
        assert (held.coef[~free] == start[~free, 0]).all()
        check_close(held.coef[free], expected.coef, "coef")

    def test_sequence_is_the_separate_fits(self, ties, check_close, route):
        rng = np.random.default_rng(40)
        data = draw_outcome(rng, 120, n_strata=2, n_times=30)
        data = data.with_(X=draw_design(rng, 120, 20, "mixed"))
        lambdas = largest_gradient(data, ties) * np.array([0.9, 0.3, 0.1, 0.03, 0.2])
        together = fit_path(data, lambdas, ties, tol=1e-10)
        for lam, solution in zip(lambdas, together, strict=True):
            alone = fit(data, lam, ties, tol=1e-10)
            assert solution.lam == lam
            check_close(solution.coef, alone.coef, "coef")
            check_close(solution.objective, alone.objective, "loglik")


def unlike_fits(data, rng, n_fits):
    """A batch whose fits differ in everything that may differ."""
    p = data.X.shape[1]
    fixed = rng.random((p, n_fits)) < 0.15
    start = np.where(rng.random((p, n_fits)) < 0.4, rng.normal(size=(p, n_fits)), 0.0)
    top = largest_gradient(data)
    return Batch(
        lambdas=top * rng.uniform(0.02, 0.5, size=(2, n_fits)),
        factor=rng.uniform(0.5, 2, size=(p, n_fits)),
        weight=rng.choice([0.0, 1.0, 1.0, 2.5], size=(data.n, n_fits)),
        offset=rng.normal(size=(data.n, n_fits)),
        coef=start,
        fixed=fixed,
    )


def one_of(batch, b):
    def cut(values):
        return None if values is None else values[:, b : b + 1]

    return Batch(
        cut(batch.lambdas),
        batch.l1_ratio,
        batch.factor[:, b],
        cut(batch.weight),
        cut(batch.offset),
        cut(batch.coef),
        cut(batch.fixed),
    )


def assert_same_bits(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.coef, b.coef)
        assert (a.objective, a.kkt, a.n_iter, a.lam_max) == (
            b.objective,
            b.kkt,
            b.n_iter,
            b.lam_max,
        )


@pytest.mark.parametrize("n_threads", [1, 2])
def test_a_batch_is_its_fits(n_threads, route, ties):
    rng = np.random.default_rng(41)
    data = draw_outcome(rng, 120, n_strata=2, n_times=30, start=True)
    data = data.with_(X=draw_design(rng, 120, 15, "mixed"))
    batch = unlike_fits(data, rng, 5)
    problem = make_problem(data, ties)
    together = solve(problem, batch, cpu, Options(), n_threads)
    assert len(together) == 5
    for b in range(5):
        assert_same_bits(together[b], solve(problem, one_of(batch, b), cpu, Options(), 1)[0])
    assert not np.array_equal(together[0][0].coef, together[1][0].coef)


@pytest.mark.parametrize("bins", BINS)
def test_any_number_of_threads(bins, ties, monkeypatch):
    use_bins(bins, monkeypatch)
    monkeypatch.setattr(session_module, "SMALLEST_ROW_RANGE", 16)
    rng = np.random.default_rng(42)
    data = draw_outcome(rng, 230, n_strata=20, n_times=30, start=True)
    data = data.with_(X=draw_design(rng, 230, 25, "mixed"))
    lam = 0.05 * largest_gradient(data, ties)
    alone = fit(data, lam, ties)
    for n_threads in (2, 3, 7):
        assert_same_bits([alone], [fit(data, lam, ties, n_threads=n_threads)])


@pytest.mark.parametrize("n_threads", [2, 3])
def test_any_number_of_threads_on_the_gram_matrix(n_threads, monkeypatch):
    prefer("gram", "few", monkeypatch)
    rng = np.random.default_rng(43)
    data = draw_outcome(rng, 150, n_times=30)
    data = data.with_(X=draw_design(rng, 150, 40, "mixed"))
    lam = 0.02 * largest_gradient(data)
    assert_same_bits([fit(data, lam)], [fit(data, lam, n_threads=n_threads)])


@pytest.mark.parametrize("start", [False, True], ids=["from zero", "delayed"])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
def test_exact_algorithm(start, l1_ratio, ties, tolerance, check_close):
    rng = np.random.default_rng(44)
    data = draw_outcome(rng, 90, start=start, n_strata=2, n_times=25, weights=True, offset=True)
    data = data.with_(X=draw_design(rng, 90, 9, "mixed"))
    lam = 0.05 * largest_gradient(data, ties)
    args = {"l1_ratio": l1_ratio, "tol": 1e-10}
    exact = fit(data, lam, ties, algorithm="exact", **args)
    check_optimum(exact, data, lam, ties, tolerance, l1_ratio=l1_ratio)
    check_close(exact.coef, fit(data, lam, ties, **args).coef, "coef")


@pytest.mark.parametrize("start", [False, True], ids=["from zero", "delayed"])
def test_all_bins_reach_the_same_optimum(start, ties, check_close, tolerance, monkeypatch):
    """Half as many strata as rows."""
    rng = np.random.default_rng(45)
    data = draw_outcome(rng, 300, start=start, n_strata=150, n_times=40, weights=True)
    data = data.with_(X=draw_design(rng, 300, 12, "mixed"))
    lam = 0.05 * largest_gradient(data, ties)
    solutions = []
    for bins in BINS:
        use_bins(bins, monkeypatch)
        problem = make_problem(data, ties)
        assert problem.plan.bins.few == (bins != "one a stratum")
        solutions.append(fit(data, lam, ties, problem=problem, tol=1e-10))
        check_optimum(solutions[-1], data, lam, ties, tolerance)
        check_close(solutions[-1].coef, solutions[0].coef, "coef")


@pytest.mark.parametrize("bins", BINS)
@pytest.mark.parametrize("start", [False, True], ids=["from zero", "delayed"])
@pytest.mark.parametrize(("n_strata", "lam"), [(0, 0.0), (2, 0.0), (2, 0.5), (60, 0.5)])
def test_time_varying_is_the_split_data(start, n_strata, lam, bins, ties, check_close, monkeypatch):
    """Rows split at the cuts and interactions with the pieces, under the plain model."""
    use_bins(bins, monkeypatch)
    rng = np.random.default_rng(46)
    data = draw_outcome(rng, 200, start=start, n_strata=n_strata, n_times=12, weights=True)
    X = rng.normal(size=(200, 3))
    X[:, 1] = rng.random(200) < 0.4
    X[:, 2] *= rng.random(200) < 0.5
    cuts = np.array([1.5, 4.0])
    # Column 0 is constant, 1 changes at every cut, 2 at the second only.
    source = np.array([0, 1, 1, 1, 2, 2])
    piece_ptr = np.array([[0, 3], [0, 1], [1, 2], [2, 3], [0, 2], [2, 3]])
    problem = make_problem(data.with_(X=X), ties, cuts, source, piece_ptr)
    solution = fit(data.with_(X=X), lam, ties, problem=problem, tol=TIGHT)

    row, piece, low, high, death = split_rows(data.time, data.event, cuts, data.start)
    applies = (piece[:, None] >= piece_ptr[:, 0]) & (piece[:, None] < piece_ptr[:, 1])
    split = Data(
        X=X[row][:, source] * applies,
        time=high,
        event=death,
        start=np.maximum(low, -1.0),
        strata=None if data.strata is None else data.strata[row],
        weights=data.weights[row],
    )
    expected = fit(split, lam, ties, tol=TIGHT)
    check_close(solution.coef, expected.coef, "published coef")
    np.testing.assert_allclose(solution.loglik, expected.loglik, rtol=1e-12)
    np.testing.assert_allclose(solution.loglik, reference_at(split, solution.coef, ties).loglik)


def test_warm_start_at_the_optimum_stays(ties, route):
    rng = np.random.default_rng(47)
    data = draw_outcome(rng, 90, n_times=25).with_(X=draw_design(rng, 90, 10, "mixed"))
    lam = 0.05 * largest_gradient(data, ties)
    first = fit(data, lam, ties)
    again = fit(data, lam, ties, coef=first.coef[:, None])
    assert again.n_iter == 0
    np.testing.assert_array_equal(again.coef, first.coef)


def test_too_few_iterations_are_admitted():
    rng = np.random.default_rng(48)
    data = draw_outcome(rng, 90).with_(X=3 * rng.normal(size=(90, 10)))
    solution = fit(data, 1e-3 * largest_gradient(data), max_iter=1)
    assert not solution.converged
    assert solution.n_iter == 1
    assert solution.kkt > 1e-6 * largest_gradient(data)


@pytest.mark.parametrize("algorithm", ["majorized", "exact"])
@pytest.mark.parametrize("lam", [0.0, 1.0])
class TestNothingToFit:
    def test_no_death_has_weight(self, lam, algorithm, ties):
        data = draw_outcome(np.random.default_rng(51), 40, n_times=10).with_(X=np.eye(40)[:, :3])
        alive = np.where(data.event, 0.0, 1.0)
        for weights in (alive, np.zeros(40)):
            solution = fit(data.with_(weights=weights), lam, ties, algorithm=algorithm)
            assert solution.converged
            assert (solution.coef == 0).all()
            assert solution.loglik == solution.objective == solution.lam_max == 0.0

    def test_one_row(self, lam, algorithm, ties):
        data = Data(X=np.ones((1, 2)), time=np.ones(1), event=np.ones(1))
        solution = fit(data, lam, ties, algorithm=algorithm)
        assert solution.converged
        assert (solution.coef == 0).all()

    def test_every_column_fixed(self, lam, algorithm, ties):
        rng = np.random.default_rng(52)
        data = draw_outcome(rng, 40).with_(X=rng.normal(size=(40, 3)))
        start, fixed = rng.normal(size=(3, 1)), np.ones((3, 1), bool)
        solution = fit(data, lam, ties, algorithm=algorithm, coef=start, fixed=fixed)
        assert solution.converged
        np.testing.assert_array_equal(solution.coef, start[:, 0])
        np.testing.assert_allclose(solution.loglik, reference_at(data, start[:, 0], ties).loglik)


@pytest.mark.parametrize(("algorithm", "far"), [("majorized", 200.0), ("exact", 30.0)])
def test_far_start(algorithm, far, ties, check_close):
    """Predictors of a range beyond floating point on the way, where the algorithm knows them."""
    rng = np.random.default_rng(53)
    data = draw_outcome(rng, 60, n_times=20).with_(X=rng.normal(size=(60, 3)))
    expected = fit(data, 1.0, ties, tol=1e-10)
    solution = fit(data, 1.0, ties, tol=1e-10, coef=np.full((3, 1), far), algorithm=algorithm)
    check_close(solution.coef, expected.coef, "coef")


@pytest.mark.parametrize("algorithm", ["majorized", "exact"])
def test_constants_added_to_columns(algorithm, ties, check_close):
    rng = np.random.default_rng(54)
    data = draw_outcome(rng, 90, n_times=25, start=True, weights=True)
    data = data.with_(X=rng.normal(size=(90, 4)))
    plain = fit(data, 2.0, ties, tol=1e-10)
    moved = data.with_(X=data.X + np.array([0, 1000.0, -3000.0, 1.0]))
    solution = fit(moved, 2.0, ties, tol=1e-9, algorithm=algorithm)
    check_close(solution.coef, plain.coef, "coef")


def test_separated_data_stay_finite(ties):
    """The likelihood has no maximum: a fit stops, and says so or is flat."""
    time = np.arange(1.0, 21.0)
    data = Data(X=(time < 8)[:, None].astype(float), time=time, event=np.ones(20))
    solution = fit(data, 0.0, ties, max_iter=50)
    assert np.isfinite(solution.coef).all()
    assert np.isfinite(solution.objective)
    assert solution.coef[0] > 5


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scaled_columns_scale_coefficients(scale, ties, check_close, route):
    rng = np.random.default_rng(49)
    data = draw_outcome(rng, 90, n_times=25).with_(X=draw_design(rng, 90, 6, "dense"))
    lam = 0.1 * largest_gradient(data, ties)
    plain = fit(data, lam, ties, tol=1e-11)
    scales = np.array([scale, 1, 1, scale, 1, 1])
    scaled = fit(data.with_(X=data.X * scales), lam, ties, factor=scales, tol=1e-13)
    check_close(scaled.coef * scales, plain.coef, "coef")


def test_two_fits_of_one_batch_object_agree():
    rng = np.random.default_rng(50)
    data = draw_outcome(rng, 60).with_(X=rng.normal(size=(60, 4)))
    problem, batch = make_problem(data), make_batch(data, 1.0)
    first = solve(problem, batch, cpu)[0]
    assert_same_bits(first, solve(problem, batch, cpu)[0])
