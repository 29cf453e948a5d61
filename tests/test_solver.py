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
    largest_gradient,
    make_problem,
    objective,
    reference_at,
    use_bins,
    use_model,
    violation,
)
from grids import thin
from oracles.reference_likelihoods import split_rows

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
    @pytest.mark.thorough(but=r"(lung|heart).*majorized|bladder2-start-strata-weights-o")
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


ROUTES = [  # base of the quadratic model, and its bins
    ("diagonal", "every death"),
    ("diagonal", "few"),
    ("diagonal", "one a stratum"),
    ("sample", "few"),
    ("sample", "one a stratum"),
    ("matrix", "few"),
    ("matrix", "one a stratum"),
]
KINDS = ["indicator", "valued", "dense", "mixed"]
PENALTIES = [(1.0, 0.2), (1.0, 0.02), (0.5, 0.05), (0.0, 1)]  # share of the lasso, size


def prefer(base, bins, monkeypatch):
    """Have fits take one form of the model."""
    use_bins(bins, monkeypatch)
    use_model(base, monkeypatch)


class TestCertificate:
    """Columns of one kind, with and without entry times, strata, weights and offsets."""

    @pytest.mark.parametrize(
        ("kind", "start", "route", "ties"),
        thin(7, KINDS, [False, True], [None, *ROUTES], ["breslow", "efron"]),
    )
    def test_kkt(self, kind, start, route, ties, tolerance, monkeypatch):
        if route is not None:
            prefer(*route, monkeypatch)
        rng = np.random.default_rng([30, start])
        data = draw_outcome(
            rng, 150, start=start, n_strata=2, n_times=40, weights=True, offset=True
        )
        data = data.with_(X=draw_design(rng, 150, 24, kind))
        largest = largest_gradient(data, ties)
        for l1_ratio, share in PENALTIES:
            solution = fit(data, share * largest, ties, l1_ratio=l1_ratio)
            check_optimum(solution, data, share * largest, ties, tolerance, l1_ratio=l1_ratio)

    @pytest.mark.thorough(but=r"True-(sample|matrix) few|None")
    @pytest.mark.parametrize(
        ("kind", "start", "route"), thin(3, KINDS, [False, True], [None, *ROUTES])
    )
    def test_more_columns_than_rows(self, kind, start, route, tolerance, monkeypatch):
        if route is not None:
            prefer(*route, monkeypatch)
        rng = np.random.default_rng([31, start])
        data = draw_outcome(rng, 60, start=start, n_times=20)
        data = data.with_(X=draw_design(rng, 60, 150, kind))
        lam = 0.05 * largest_gradient(data)
        solution = fit(data, lam)
        check_optimum(solution, data, lam, "breslow", tolerance)
        assert 5 < np.count_nonzero(solution.coef) < 60

    @pytest.mark.parametrize(
        ("kind", "start", "route"), thin(3, KINDS, [True, False], [None, *ROUTES])
    )
    def test_degenerate_columns(self, kind, start, route, tolerance, monkeypatch):
        """Duplicates, opposites, constants and empty columns; a constant has no effect."""
        if route is not None:
            prefer(*route, monkeypatch)
        rng = np.random.default_rng([32, start])
        data = draw_outcome(rng, 120, start=start, n_times=30)
        X = dense(draw_design(rng, 120, 8, kind))
        ones = np.ones((120, 1))
        X = np.hstack([X, X[:, :3], -X[:, :1], 0.1 * ones, 0 * ones, 7 * ones])
        data = data.with_(X=X if kind in ("dense", "mixed") else sp.csc_array(X))
        for lam in (0.02 * largest_gradient(data), 0.0):
            solution = fit(data, lam)
            if lam:
                check_optimum(solution, data, lam, "breslow", tolerance)
            assert (solution.coef[-3:] == 0).all()


@pytest.mark.parametrize("start", thin(2, [True, False]))
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


@pytest.mark.parametrize(
    ("start", "shape", "bins", "ties"),
    thin(
        7,
        [False, True],
        [(0, 0.0), (2, 0.0), (2, 0.5), (60, 0.5)],
        BINS,
        ["breslow", "efron"],
    ),
)
def test_time_varying_is_the_split_data(start, shape, bins, ties, check_close, monkeypatch):
    """Rows split at the cuts and interactions with the pieces, under the plain model."""
    n_strata, lam = shape
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


@pytest.mark.thorough
@pytest.mark.mostly_slow(but="efron")
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
