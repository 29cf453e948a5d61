"""Ridges with more columns than rows, perhaps beside lassos: their optimum, whichever way."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

from sksurvgpu import (
    Adaptive,
    BrokenRidge,
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    Hierarchical,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    bootstrap,
    competing_risks,
    fit_path,
    profile_likelihood,
    surv,
)
from sksurvgpu.routes import in_rows
from sksurvgpu.solver import solve
from sksurvgpu.solver.fits import Fits

N, P = 40, 600


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 6)) @ rng.normal(size=(6, P)) + rng.normal(size=(N, P))
    eta = X[:, 0] / 2.0
    time, event = rng.exponential(np.exp(-eta)), rng.random(N) < 0.7
    return {
        "X": X,
        "cox": surv(event, time),
        "entry": surv(event, time, start=time * rng.random(N) * 0.5),
        "fine_gray": competing_risks(np.where(event, 1 + (rng.random(N) < 0.3), 0), time),
        "classes": eta + rng.logistic(size=N) > 0,
        "numbers": eta + rng.normal(size=N),
        "counts": rng.poisson(np.exp(eta / 2.0)),
    }


@pytest.fixture
def taken(monkeypatch):
    """Iterations of the straight fits after those in rows: none if they start at the optimum."""
    taken, plain = [], Fits.solve

    def solve_and_note(fits, on_fit=None):
        found = plain(fits, on_fit)
        held = fits.batch.fixed
        is_wide = held is None or np.count_nonzero(~held) > held.shape[1] * in_rows.FEWEST_COLUMNS
        if fits.problem.n_columns == P and fits.batch.coef is not None and is_wide:
            taken.extend(s.n_iter for solutions in found for s in solutions)
        return found

    monkeypatch.setattr(Fits, "solve", solve_and_note)
    return taken


def ridge(model, **options):
    return model(alpha=0.05, l1_ratio=0.0, tol=1e-8, **options)


def test_scikit_learn_finds_the_same(table):
    X, alpha = table["X"], 0.05
    expected = Ridge(alpha=N * alpha).fit(X, table["numbers"]).coef_
    found = ridge(LinearCCD).fit(X, table["numbers"]).coef_
    np.testing.assert_allclose(found, expected, atol=1e-9)
    plain = LogisticRegression(C=1.0 / (N * alpha), tol=1e-12, max_iter=10_000)
    expected = plain.fit(X, table["classes"]).coef_[0]
    found = ridge(LogisticCCD).fit(csr_array(X), table["classes"]).coef_
    np.testing.assert_allclose(found, expected, atol=1e-6)


def slope_by_hand(X, y, eta):
    """Slope of the partial log-likelihood, by the sums over every risk set."""
    slope = X[y["event"]].sum(axis=0)
    start = y["start"] if "start" in y.dtype.names else np.zeros(len(y))
    for t in y["time"][y["event"]]:
        w = np.exp(eta) * (start < t) * (y["time"] >= t)
        slope = slope - w @ X / w.sum()
    return slope


@pytest.mark.parametrize("name", ["cox", "entry"])
def test_slopes_are_those_of_the_penalty(table, name):
    rng = np.random.default_rng(1)
    X, y, offset = table["X"], table[name], rng.normal(size=N)
    factor, mean = rng.uniform(0.5, 2.0, P), np.zeros(P)
    factor[:2], mean[5] = 0.0, 0.3
    model = ridge(CoxLassoCCD, penalty_factor=factor, prior_mean=mean).fit(X, y, offset=offset)
    slope = slope_by_hand(X, y, X @ model.coef_ + offset)
    np.testing.assert_allclose(slope, N * 0.05 * factor * (model.coef_ - mean), atol=1e-5)
    assert model.converged_ and model.kkt_ < 1e-7


@pytest.mark.parametrize(("name", "standardize"), [("entry", False), ("cox", True)])
def test_slopes_of_ridges_and_lassos(table, name, standardize, taken):
    """Every kind of column: free, with a lasso, with a part of it, and with a ridge."""
    rng = np.random.default_rng(1)
    X, y, alpha = table["X"] * rng.uniform(0.2, 3.0, P), table[name], 0.02
    ratio, factor, mean = np.zeros(P), rng.uniform(0.5, 2.0, P), np.zeros(P)
    ratio[:30], ratio[30:40], factor[40:42], mean[[5, 100]] = 1.0, 0.4, 0.0, 0.1
    factor[42:] *= 40.0
    options = {"penalty_factor": factor, "prior_mean": mean, "standardize": standardize}
    model = CoxLassoCCD(alpha=alpha, l1_ratio=ratio, tol=1e-9, **options).fit(X, y)
    scale = X.std(axis=0) if standardize else np.ones(P)
    part, slope = scale * (model.coef_ - mean), slope_by_hand(X, y, X @ model.coef_) / scale
    slope -= N * alpha * factor * (1.0 - ratio) * part
    l1, is_there = N * alpha * factor * ratio, part != 0
    assert 3 < is_there[:40].sum() < 37 and is_there[40:].all()
    np.testing.assert_allclose(slope[is_there], (l1 * np.sign(part))[is_there], atol=1e-5)
    assert (np.abs(slope) <= l1 + 1e-5).all()
    assert model.converged_ and taken and not any(taken)


CLASSES = np.arange(P) // 12
BESIDE = {
    "columns": {"l1_ratio": np.where(np.arange(P) < 50, 1.0, 0.0)},
    "classes": {"penalty": Hierarchical(CLASSES.tolist(), between=1.0, above="l1")},
}


@pytest.mark.parametrize("options", BESIDE.values(), ids=BESIDE)
def test_the_largest_penalty_of_lassos_beside_ridges(table, options):
    X, y, options = table["X"], table["cox"], {**options, "tol": 1e-9}
    largest = fit_path(CoxLassoCCD(**options), X, y, n_alphas=2, alpha_min_ratio=0.9).alpha_max
    for share, is_there in ((1.0005, False), (0.9995, True)):
        model = CoxLassoCCD(alpha=share * largest, **options).fit(X, y)
        assert model.alpha_max_ == pytest.approx(largest, rel=1e-9)
        kept = model.class_coef_ if "penalty" in options else model.coef_[:50]
        assert kept.any() == is_there


def test_slopes_of_classes_with_a_lasso(table):
    X, y, alpha = table["X"], table["entry"], 0.003
    model = CoxLassoCCD(alpha=alpha, tol=1e-9, **BESIDE["classes"]).fit(X, y)
    slope = slope_by_hand(X, y, X @ model.coef_) / (N * alpha)
    of_class, sums = model.class_coef_, np.bincount(CLASSES, slope)
    np.testing.assert_allclose(model.coef_ - of_class[CLASSES], slope, atol=1e-5)
    is_there = of_class != 0
    assert 3 < is_there.sum() < 40 and (np.abs(sums) <= 1.0 + 1e-5).all()
    np.testing.assert_allclose(sums[is_there], np.sign(of_class[is_there]), atol=1e-5)


@pytest.mark.thorough(but=r"classes")
@pytest.mark.parametrize(
    ("model", "name"),
    [
        (CoxLassoCCD, "cox"),
        (FineGrayCCD, "fine_gray"),
        (PoissonCCD, "counts"),
        (LogisticCCD, "classes"),
    ],
)
def test_the_straight_way_leads_there_too(table, model, name, monkeypatch):
    weight = np.random.default_rng(2).uniform(0.5, 2.0, N)
    found = ridge(model).fit(table["X"], table[name], sample_weight=weight)
    monkeypatch.setattr(in_rows, "FEWEST_COLUMNS", 10**9)
    expected = ridge(model).fit(table["X"], table[name], sample_weight=weight)
    assert found.n_iter_ != expected.n_iter_
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-6)
    for name in ("objective_", "log_likelihood_", "alpha_max_", "null_log_likelihood_"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-6)


@pytest.mark.parametrize("penalty", [Adaptive(), BrokenRidge()], ids=["pilot", "rounds"])
def test_ridges_before_other_fits_lead_there_too(table, penalty, taken, monkeypatch):
    weight = np.random.default_rng(2).uniform(0.5, 2.0, N)
    factor = np.where(np.arange(P) < 2, 0.0, 1.0)
    model = LinearCCD(penalty=penalty, penalty_factor=factor, tol=1e-9)
    given = {"alphas": [0.003, 0.001, 0.000999], "sample_weight": weight}
    found = fit_path(model, table["X"], table["numbers"], **given)
    assert taken and not any(taken)
    monkeypatch.setattr(in_rows, "FEWEST_COLUMNS", 10**9)
    expected = fit_path(model, table["X"], table["numbers"], **given)
    n_kept = np.count_nonzero(found.coefs, axis=0)
    assert 2 <= n_kept[0] < n_kept[2] < 30
    np.testing.assert_allclose(found.coefs, expected.coefs, atol=1e-7)


def test_classes_of_columns(table, taken, monkeypatch):
    """Ridges of columns and of their classes, of which some coefficients have means."""
    classes, mean = np.arange(P) // 7, np.zeros(P)
    mean[:20] = 0.1
    penalty = Hierarchical(classes.tolist(), between=0.5)
    model = CoxLassoCCD(alpha=0.05, penalty=penalty, prior_mean=mean, tol=1e-9)
    found = clone(model).fit(table["X"], table["entry"])
    monkeypatch.setattr(in_rows, "FEWEST_COLUMNS", 10**9)
    expected = clone(model).fit(table["X"], table["entry"])
    assert found.n_iter_ != expected.n_iter_
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-7)
    np.testing.assert_allclose(found.class_coef_, expected.class_coef_, atol=1e-7)


def test_pilots_of_replicates_begin_in_rows(table, monkeypatch):
    """They start from zeros, where nothing is tried: the lasso of all rows alone comes from far."""
    calls, come_near = [], solve._come_near
    monkeypatch.setattr(solve, "_come_near", lambda *own: calls.append(1) or come_near(*own))
    model = CoxLassoCCD(alpha=1e-3, penalty=Adaptive())
    bootstrap(model, table["X"], table["cox"], n_replicates=3, random_state=0)
    assert len(calls) == 1


@pytest.mark.parametrize("standardize", [False, True])
def test_columns_may_be_held(table, standardize, taken, monkeypatch):
    model = ridge(CoxLassoCCD, standardize=standardize).fit(table["X"], table["cox"])
    grid = {"columns": [3, 0], "values": [-0.3, 0.0, 0.4]}
    found = profile_likelihood(model, table["X"], table["cox"], **grid)
    assert len(taken) > 6 and not any(taken)
    monkeypatch.setattr(in_rows, "FEWEST_COLUMNS", 10**9)
    expected = profile_likelihood(model, table["X"], table["cox"], **grid)
    assert len(found.curves) == 6
    for name in ("value", "log_likelihood"):
        np.testing.assert_allclose(found.curves[name], expected.curves[name], atol=1e-7)


@pytest.mark.parametrize("penalty", [None, Adaptive(), BrokenRidge()])
def test_columns_may_all_be_free_or_zeros(table, penalty):
    ratio, fitted = float(penalty is not None), table["numbers"] - table["numbers"].mean()
    for X, factor in ((table["X"], np.zeros(P)), (np.zeros((N, P)), None)):
        model = LinearCCD(l1_ratio=ratio, penalty=penalty, penalty_factor=factor)
        found = X @ model.fit(X, table["numbers"]).coef_
        np.testing.assert_allclose(found - found.mean(), fitted * X.any(), atol=1e-6)


@pytest.mark.thorough
def test_paths_cross_validations_and_replicates(table, monkeypatch):
    X, y = table["X"], table["cox"]
    path = fit_path(ridge(CoxLassoCCD), X, y, n_alphas=4)
    assert path.converged.all()
    for k in (0, 3):
        single = CoxLassoCCD(alpha=path.alphas[k], l1_ratio=0.0, tol=1e-8).fit(X, y)
        np.testing.assert_allclose(path.coefs[:, k], single.coef_, atol=1e-7)
    options = {"l1_ratio": 0.0, "cv": 3, "n_alphas": 4}
    chosen = CoxLassoCV(**options).fit(X, y)
    replicates = bootstrap(ridge(CoxLassoCCD), X, y, n_replicates=3, random_state=0)
    monkeypatch.setattr(in_rows, "FEWEST_COLUMNS", 10**9)
    expected = CoxLassoCV(**options).fit(X, y)
    assert chosen.alpha_ == pytest.approx(expected.alpha_, rel=1e-9)
    np.testing.assert_allclose(chosen.coef_, expected.coef_, atol=1e-5)
    expected = bootstrap(ridge(CoxLassoCCD), X, y, n_replicates=3, random_state=0)
    np.testing.assert_allclose(replicates.intervals, expected.intervals, atol=1e-5)
