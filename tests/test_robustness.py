"""Data at the edge of floating point, and rows and columns that should not matter."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info, threadpool_limits

from sksurvgpu import CoxLassoCCD, surv
from sksurvgpu.backends.cpu.threads import one_blas_thread

ALGORITHMS = ("majorized", "exact")


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    time = rng.exponential(np.exp(-0.5 * X[:, 0]))
    return X, surv(rng.random(300) < 0.7, time)


def fit(X, y, alpha=0.0, tol=1e-9, **other):
    fit_arguments = {k: other.pop(k) for k in ("sample_weight", "offset") if k in other}
    fit_arguments.setdefault("sample_weight", np.full(len(X), 0.5))  # one kernel for all
    return CoxLassoCCD(alpha=alpha, tol=tol, **other).fit(X, y, **fit_arguments)


@pytest.mark.thorough(but="majorized")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_absent_rows_do_not_matter(data, algorithm):
    """A row of weight 0, and one that leaves before the first event, may hold anything."""
    X, y = data
    early = surv(np.append(y["event"], False), np.append(y["time"], y["time"].min() / 2))
    wild = np.vstack([X, [9.0, -9.0]])
    wild[7, 0] = 1e6
    weight = np.ones(301)
    weight[7] = 0.0
    expected = fit(np.delete(X, 7, 0), np.delete(y, 7), algorithm=algorithm)
    model = fit(wild, early, algorithm=algorithm, sample_weight=weight)
    assert model.n_iter_ <= expected.n_iter_ + 1
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-7)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rounding_is_no_gradient(algorithm):
    """A constant column has nothing to fit, and no iteration is spent on it."""
    y = surv(np.ones(500, bool), np.arange(500.0) + 1)
    model = fit(np.full((500, 1), 0.1), y, algorithm=algorithm)
    assert (model.coef_[0], model.n_iter_, model.converged_) == (0.0, 0, True)


def test_curvature_lost_to_rounding_does_not_freeze_a_column():
    x = 10 * np.array([-1.4, -0.9, 0.4, -0.5, 0.5, 0.8])
    y = surv(np.ones(6, bool), np.arange(1.0, 7), start=[0.0, 1, 2, 3, 2, 5])
    model = fit(x[:, None], y, 0.001, 1e-8)
    assert model.coef_[0] == pytest.approx(-5.10998, abs=1e-4)


@pytest.mark.thorough  # which has a kernel of its own
def test_exact_steps_that_overshoot_are_taken_back():
    x = np.array([-1.9, -3.0, 1.2, 1.6, 1.3, -0.4, -0.1, -0.3, 1.4, 0.9])[:, None]
    offset = np.array([0.2, 2.8, 5.4, 1.5, -4.3, -0.3, -1.7, -6.4, -8.2, 0.6])
    start = np.append(np.zeros(9), 9.5)
    y = surv(np.ones(10, bool), np.arange(1.0, 11), start=start)
    exact, default = (
        fit(x, y, 0.01, 1e-8, l1_ratio=0, algorithm=algorithm, offset=offset)
        for algorithm in ("exact", "majorized")
    )
    assert exact.objective_ == pytest.approx(default.objective_, rel=1e-9)


def test_a_stalled_fit_ends(monkeypatch):
    """Column means of 1e9 standard deviations leave no digits; that is said, and soon."""
    monkeypatch.setattr("sksurvgpu.solver.problem.find_centers", lambda design: np.zeros(1))
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 1))
    y = surv(np.ones(300, bool), rng.exponential(np.exp(-0.5 * x[:, 0])))
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        model = fit(x + 1e9, y, tol=1e-6)
    assert model.n_iter_ < 100


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_the_dual_gap_does_not_depend_on_the_scale_of_weights(data, ties):
    X, y = data
    gaps = [
        fit(X, y, 0.02, 0.1, ties=ties, sample_weight=np.full(300, scale)).dual_gap_
        for scale in (1e-3, 1.0, 1e6)
    ]
    assert gaps[0] > 0
    np.testing.assert_allclose(gaps, gaps[0], rtol=1e-6)


@threadpool_limits.wrap(limits=2, user_api="blas")
def test_overlapping_fits_give_blas_its_threads_back():
    def blas():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before, inside, leave = blas(), threading.Event(), threading.Event()

    def late():
        with one_blas_thread():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=late)
    with one_blas_thread():
        thread.start()
        inside.wait(10)
        assert set(blas()) == {1} and set(before) == {2}
    assert blas() == before
    leave.set()
    thread.join()
    assert blas() == before
