"""Sums over rows whose link is not canonical: scores that are no difference of y and a mean.

Probit regression, and counts that are negative binomial of a known size. The second one's curvature
is the expected information, and less than the observed where a count is large; its observed one is
a formula of its own. Optima are checked against SciPy's densities, integrals and optimizers.
"""

from typing import NamedTuple

import numpy as np
import pytest
from links import (
    Overdispersed,
    Probit,
    counts_loglik,
    counts_observed,
    counts_row,
    probit_loglik,
    probit_row,
)
from models import Sample, draw_columns
from oracles.reference_likelihoods import kkt, penalty
from scipy.optimize import approx_fprime, brentq, minimize

from sksurvgpu import fit_path, residuals, wald
from sksurvgpu.backends import choose, cpu
from sksurvgpu.backends.cpu.session import Session
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.counts import read_counts
from sksurvgpu.estimators._base import PenalizedModel
from sksurvgpu.estimators._separation import find_infinite
from sksurvgpu.estimators.models.linear import RowwiseModel
from sksurvgpu.patterns.groups.plan import plan_groups
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.selection.cv import CrossValidated
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch, Problem

CLOSE = 1e-6
N, P = 150, 6


class Case(NamedTuple):
    likelihood: type
    row: object
    observed: object
    loglik: object
    draw: object  # (rng, eta) -> y


CASES = {
    "probit": Case(
        Probit,
        probit_row,
        lambda eta, y: probit_row(eta, y)[2],
        probit_loglik,
        lambda rng, eta: (rng.normal(size=len(eta)) < eta).astype(float),
    ),
    "counts": Case(
        Overdispersed,
        counts_row,
        counts_observed,
        counts_loglik,
        lambda rng, eta: rng.negative_binomial(2.5, 2.5 / (2.5 + np.exp(eta))).astype(float),
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def sample_of(case, seed, p=P):
    rng = np.random.default_rng(seed)
    X, offset = draw_columns(rng, N, p), 0.5 * rng.normal(size=N)
    y = case.draw(rng, X[:, :3] @ [0.8, -0.6, 0.4] + offset - 0.3)
    return Sample(X, {"value": y}, rng.choice([0.0, 0.5, 1.0, 2.0], N), offset)


def problem_of(case, sample, intercept=True):
    plan = plan_groups(sample.y["value"])
    return Problem.build(build_design(sample.X), plan, case.likelihood(intercept))


def fit(case, sample, lam, intercept=True, backend=cpu, l1_ratio=1.0, **options):
    batch = Batch(
        np.atleast_1d(lam).astype(float)[:, None],
        penalty=ElasticNet(l1_ratio),
        weight=sample.weights[:, None],
        offset=sample.offset[:, None],
    )
    [solutions] = Fits(
        problem_of(case, sample, intercept), batch, backend, Options(**options)
    ).solve()
    return solutions


def scores(case, eta, y):
    return np.array([case.row(*pair)[1] for pair in zip(eta, y, strict=True)])


def loglik_at(case, sample, theta):
    """Log-likelihood at coefficients and an intercept, which comes last."""
    eta = sample.X @ theta[:-1] + sample.offset + theta[-1]
    return sample.weights @ case.loglik(eta, sample.y["value"])


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_rows_are_derivatives(case, y, check_close):
    step = 1e-5
    for eta in np.linspace(-9.5, 9.5, 39):
        loglik, score, _ = case.row(eta, y)
        assert loglik == pytest.approx(case.loglik(eta, np.array(y)), rel=1e-9, abs=1e-12)
        (high, up, _), (low, down, _) = case.row(eta + step, y), case.row(eta - step, y)
        assert score == pytest.approx((high - low) / (2 * step), rel=1e-6, abs=1e-9)
        curvature = (down - up) / (2 * step)
        assert case.observed(eta, y) == pytest.approx(curvature, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("far", [0.0, -30.0, 200.0])
def test_scores_sum_to_zero_at_the_intercept(case, far, check_close):
    """Wherever the predictor lies, the root is found, and the log-likelihood is that there."""
    sample = sample_of(case, 1).with_(offset=None)
    y, c = sample.y["value"], sample.weights
    eta = far + np.random.default_rng(2).normal(size=N)
    root = brentq(lambda b: c @ scores(case, eta + b, y), -far - 20, -far + 20, xtol=1e-14)
    session = Session(problem_of(case, sample), c, eta, Threads(1))
    for coef in (np.zeros(P), np.full(P, 0.1), np.zeros(P)):
        loglik = session.start(coef)
    assert session.baseline() == pytest.approx(root, abs=1e-10)
    assert loglik == pytest.approx(c @ case.loglik(eta + root, y), rel=1e-12)
    assert abs(session.u.sum()) <= 1e-9
    check_close(session.u, c * scores(case, eta + root, y), "u")


def test_rounding_follows_the_predictor(case):
    """A predictor that is large and curved has the rounding of its own digits."""
    sample = sample_of(case, 3)
    session = Session(problem_of(case, sample, False), sample.weights, sample.offset, Threads(1))
    session.start(np.zeros(P))
    least = np.finfo(float).eps * (np.abs(sample.X).T @ np.abs(session.u))
    assert (session.rounding() >= least).all()
    assert (session.rounding() <= 1e3 * least).all()


@pytest.mark.parametrize("algorithm", ["majorized", "exact"])
@pytest.mark.parametrize("intercept", [True, False])
class TestFits:
    def test_ridge(self, case, intercept, algorithm):
        """Against a general optimizer, by SciPy's densities."""
        sample, lam = sample_of(case, 4), 2.0
        free = np.append(np.ones(P), float(intercept))

        def objective(theta):
            theta = theta * free
            return 0.5 * lam * theta[:P] @ theta[:P] - loglik_at(case, sample, theta)

        best = minimize(objective, np.zeros(P + 1), method="BFGS", options={"gtol": 1e-7})
        args = {"algorithm": algorithm, "tol": 1e-10, "l1_ratio": 0.0}
        [solution] = fit(case, sample, lam, intercept, **args)
        assert solution.converged
        assert solution.objective == pytest.approx(best.fun, rel=1e-9)
        np.testing.assert_allclose(solution.coef, best.x[:P], atol=CLOSE)
        assert solution.baseline == pytest.approx(best.x[P] * intercept, abs=CLOSE)

    def test_lasso(self, case, intercept, algorithm):
        """Stationary by the definition, along a path, with a gap that says so."""
        sample = sample_of(case, 5)
        y, c = sample.y["value"], sample.weights
        lams = [20.0, 6.0, 2.0]
        solutions = fit(case, sample, lams, intercept, algorithm=algorithm, tol=1e-9)
        counts = []
        for lam, solution in zip(lams, solutions, strict=True):
            assert solution.converged
            u = c * scores(case, sample.eta(solution.coef) + solution.baseline, y)
            assert kkt(sample.X, u, solution.coef, lam, 1.0).max() <= CLOSE
            assert abs(u.sum()) <= CLOSE or not intercept
            theta = np.append(solution.coef, solution.baseline)
            objective = penalty(solution.coef, lam, 1.0) - loglik_at(case, sample, theta)
            assert solution.objective == pytest.approx(objective, rel=1e-10)
            assert 0.0 <= solution.gap <= CLOSE
            counts.append(np.count_nonzero(solution.coef))
        assert 0 < counts[1] <= P
        assert counts == sorted(counts)

    @pytest.mark.mostly_slow(but="True|exact")
    def test_on_a_device(self, case, intercept, algorithm, monkeypatch):
        backend = pytest.importorskip("gpu.backend")
        backend.simulate_backend(monkeypatch, seed=1)
        sample = sample_of(case, 6, p=3)
        args = {"intercept": intercept, "algorithm": algorithm, "tol": 1e-5}
        if algorithm == "exact":  # which devices have for Cox models
            with pytest.raises(ValueError, match='pass backend="cpu"'):
                fit(case, sample, 3.0, backend=choose("cuda", "float64"), **args)
            return
        [expected] = fit(case, sample, 3.0, **args)
        [found] = fit(case, sample, 3.0, backend=choose("cuda", "float64"), **args)
        assert found.converged
        np.testing.assert_allclose(found.coef, expected.coef, atol=1e-9)
        np.testing.assert_allclose(found.null.noise, expected.null.noise, rtol=1e-9)
        assert found.objective == pytest.approx(expected.objective, rel=1e-10)


class ProbitModel(RowwiseModel):
    likelihood, effect = Probit, "effect"

    def read_outcome(self, y, n_rows):
        return read_counts(y, n_rows=n_rows, may_lack=self.may_lack)


class CountsModel(ProbitModel):
    likelihood = Overdispersed


class ProbitCCD(PenalizedModel):
    _model = ProbitModel

    def fit(self, X, y, sample_weight=None, offset=None):
        return self._fit(X, y, sample_weight, offset)


class CountsCCD(ProbitCCD):
    _model = CountsModel


class ProbitCV(CrossValidated, ProbitCCD):
    pass


class CountsCV(CrossValidated, CountsCCD):
    pass


ESTIMATORS = {Probit: (ProbitCCD, ProbitCV), Overdispersed: (CountsCCD, CountsCV)}


def given(sample):
    return {"sample_weight": sample.weights, "offset": sample.offset}


def test_standard_errors(case):
    """The inverse of minus the Hessian over coefficients and intercept, by differences."""
    sample, (model, _) = sample_of(case, 7), ESTIMATORS[case.likelihood]
    fitted = model(alpha=0.0, tol=1e-10).fit(sample.X, sample.y["value"], **given(sample))
    found = wald(fitted, sample.X, sample.y["value"], **given(sample))
    y, design = sample.y["value"], np.column_stack([sample.X, np.ones(N)])

    def gradient(theta):
        return design.T @ (sample.weights * scores(case, design @ theta + sample.offset, y))

    theta = np.append(fitted.coef_, fitted.intercept_)
    assert np.abs(gradient(theta)).max() <= CLOSE
    covariance = np.linalg.inv(-approx_fprime(theta, gradient, 1e-6))
    errors = np.sqrt(np.diag(covariance))[:P]
    np.testing.assert_allclose(found.standard_errors, errors, rtol=1e-5)
    u = sample.weights * scores(case, design @ theta + sample.offset, y)
    sandwich = covariance @ (design * u[:, None] ** 2).T @ design @ covariance
    robust = wald(fitted, sample.X, y, robust=True, **given(sample))
    np.testing.assert_allclose(robust.standard_errors, np.sqrt(np.diag(sandwich))[:P], rtol=1e-5)


def test_deviance_residuals_want_a_formula(case):
    sample, (model, _) = sample_of(case, 7), ESTIMATORS[case.likelihood]
    fitted = model(alpha=0.0).fit(sample.X, sample.y["value"])
    with pytest.raises(ValueError, match='has no `unit_deviance`, pass kind="response"'):
        residuals(fitted, sample.X, sample.y["value"])
    found = residuals(fitted, sample.X, sample.y["value"], kind="response")
    assert found.sum() == pytest.approx(0.0, abs=CLOSE)  # scores, under an intercept


def test_path_and_cross_validation(case):
    """Scores are what held-out rows have of log-likelihood at the fits of the others."""
    sample, (model, chooser) = sample_of(case, 8), ESTIMATORS[case.likelihood]
    X, y, alphas = sample.X, sample.y["value"], [0.1, 0.03, 0.01]
    path = fit_path(model(), X, y, alphas=alphas, **given(sample))
    fold = np.arange(N) % 3
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    found = chooser(alphas=alphas, cv=splits, tol=1e-9).fit(X, y, **given(sample))
    for k, (train, test) in enumerate(splits):
        part, rest = sample.rows(train), sample.rows(test)
        one = model(alpha=alphas[1], tol=1e-9).fit(part.X, part.y["value"], **given(part))
        eta = one._predict_linear(rest.X) + rest.offset
        y_rest, c = rest.y["value"], rest.weights
        mean = c @ case.loglik(eta, y_rest) / (c @ y_rest)  # an event
        assert found.cv_results_[f"split{k}_score"][1] == pytest.approx(mean, rel=CLOSE)
    again = model(alpha=found.alpha_, tol=1e-9).fit(X, y, **given(sample))
    np.testing.assert_allclose(found.coef_, again.coef_, atol=CLOSE)
    of_path = path.at(alphas.index(found.alpha_)).coef_
    np.testing.assert_allclose(of_path, again.coef_, atol=1e-4)


def test_columns_that_separate(case):
    """A column of rows without an event has an infinite coefficient, and no other has."""
    sample = sample_of(case, 9)
    y = sample.y["value"]
    sides = np.column_stack([(y == 0) & (np.arange(N) % 2 == 0), sample.X[:, 1]])
    problem = problem_of(case, sample.with_(X=sides.astype(float)))
    assert find_infinite(problem, np.ones(N), np.ones(2, bool)).tolist() == [True, False]
