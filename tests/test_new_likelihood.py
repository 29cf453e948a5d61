"""A likelihood of one's own is scalar formulas in one class; solver and backend know nothing of it.

Two that the package does not have: the number of copies of an allele, binomial with two trials, and
Cox's partial likelihood with a treatment of ties between Breslow's and Efron's.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from engine import Data, dense, draw_outcome, fit_path, make_problem, reference_at
from models import Sample, draw_columns
from numba import njit
from oracles.reference_likelihoods import kkt, penalty
from scipy.optimize import minimize

from sksurvgpu import LogisticCCD, wald, write_partitions
from sksurvgpu.backends import cpu
from sksurvgpu.backends.cpu.pattern import PatternOnCpu
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.estimators.models.linear import LogisticModel
from sksurvgpu.likelihoods import Logistic
from sksurvgpu.likelihoods.cox import (
    breslow_coordinate,
    breslow_jump,
    efron_coordinate,
    efron_jump,
)
from sksurvgpu.patterns.groups.plan import plan_groups
from sksurvgpu.patterns.pattern import Pattern
from sksurvgpu.patterns.risk_sets import RiskSetPattern
from sksurvgpu.patterns.rows import RowPattern
from sksurvgpu.patterns.rows.cpu import RowsOnCpu
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch, Problem

ALGORITHMS = ("majorized", "exact")


@njit(error_model="numpy")
def allele_row(eta, y):
    small = math.exp(-abs(eta))
    mean = 2.0 / (1.0 + small) if eta >= 0.0 else 2.0 * small / (1.0 + small)
    loglik = y * eta - 2.0 * (max(eta, 0.0) + math.log1p(small))
    return loglik, y - mean, mean * (1.0 - 0.5 * mean)


@njit(error_model="numpy")
def allele_link(mean):
    return math.log(mean / (2.0 - mean)), 1.0 / (mean * (1.0 - 0.5 * mean))


@dataclass(frozen=True)
class AlleleCount:
    """y in {0, 1, 2}: l = y eta - 2 log(1 + exp(eta))."""

    intercept: bool = True
    pattern = RowPattern
    row_formula = staticmethod(allele_row)
    link_formula = staticmethod(allele_link)
    observed_formula = None
    is_quadratic = False

    @staticmethod
    def largest_terms(value):
        return -2.0 * np.log(2.0) * (value == 1.0)


def alleles(seed, n=80):
    rng = np.random.default_rng(seed)
    X = draw_columns(rng, n, 5)
    share = 1.0 / (1.0 + np.exp(0.7 - X @ [1.0, -1.0, 0.5, 0.0, 0.0]))
    weights = rng.choice([0.0, 0.5, 1.0, 2.0], n)
    return Sample(X, {"value": rng.binomial(2, share).astype(float)}, weights, rng.normal(size=n))


def solve_rows(sample, likelihood, lam, **options):
    l1_ratio = options.pop("l1_ratio", 1.0)
    problem = Problem.build(build_design(sample.X), plan_groups(sample.y["value"]), likelihood)
    batch = Batch(
        np.array([[lam]]),
        ElasticNet(l1_ratio),
        weight=sample.weights[:, None],
        offset=sample.offset[:, None],
    )
    return Fits(problem, batch, cpu, Options(**options)).solve()[0][0]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("intercept", [True, False])
class TestRows:
    def test_optimum(self, intercept, algorithm, check_close):
        """Against a general optimizer, by formulas of its own."""
        sample, lam = alleles(1), 2.0
        X, y, c = sample.X, sample.y["value"], sample.weights
        design = np.column_stack([X, np.ones(len(y))]) if intercept else X
        l2 = np.append(np.full(5, lam), 0.0) if intercept else np.full(5, lam)

        def value_and_slope(coef):
            eta = design @ coef + sample.offset
            value = c @ (2.0 * np.logaddexp(0.0, eta) - y * eta) + 0.5 * l2 @ coef**2
            return value, design.T @ (c * (2.0 / (1.0 + np.exp(-eta)) - y)) + l2 * coef

        start = np.zeros(design.shape[1])
        best = minimize(value_and_slope, start, jac=True, method="BFGS", options={"gtol": 1e-9})
        args = {"algorithm": algorithm, "tol": 1e-10, "l1_ratio": 0.0}
        solution = solve_rows(sample, AlleleCount(intercept), lam, **args)
        assert solution.converged
        check_close(solution.coef, best.x[:5], "coef")
        assert solution.objective == pytest.approx(best.fun, rel=1e-12)
        if intercept:
            check_close(solution.baseline, best.x[5], "coef")

    def test_is_logistic_regression_of_shares(self, intercept, algorithm, check_close):
        """Two trials are a share of weight two."""
        sample, args = alleles(2), {"algorithm": algorithm, "tol": 1e-10}
        solution = solve_rows(sample, AlleleCount(intercept), 3.0, **args)
        shares = sample.with_(weights=2.0 * sample.weights).with_y(value=sample.y["value"] / 2.0)
        expected = solve_rows(shares, Logistic(intercept), 3.0, **args)
        assert solution.converged
        assert 0 < np.count_nonzero(solution.coef) < 5
        check_close(solution.coef, expected.coef, "coef")
        check_close(solution.loglik, expected.loglik, "published loglik")
        assert 0.0 <= solution.gap <= 1e-7


class RowsWithoutSteps(RowsOnCpu):
    exact_steps = PatternOnCpu.exact_steps


class LeastPattern(Pattern):
    """Rows, with what a fit on the CPU needs, and nothing else."""

    is_conditional = False
    on_cpu = RowsWithoutSteps
    weigh_rows = staticmethod(RowPattern.weigh_rows)
    largest_loglik = staticmethod(RowPattern.largest_loglik)
    contests_among = RowPattern.contests_among


class LeastLogistic(Logistic):
    pattern = LeastPattern


class LeastModel(LogisticModel):
    likelihood = LeastLogistic


class LeastCCD(LogisticCCD):
    _model = LeastModel


class TestPatternsWithoutAPart:
    X = np.random.default_rng(0).normal(size=(80, 3))
    y = (X[:, 0] > np.sin(np.arange(80.0))).astype(float)

    def refuses(self, missing):
        return pytest.raises(ValueError, match=rf"LeastPattern has no `{missing}`; .*\.$")

    def test_fits(self):
        model = LeastCCD(alpha=0.05).fit(self.X, self.y)
        expected = LogisticCCD(alpha=0.05).fit(self.X, self.y)
        assert model.converged_ and np.array_equal(model.coef_, expected.coef_)

    def test_no_exact_steps(self):
        with pytest.raises(ValueError, match=r"`algorithm` is 'exact'; LeastLogistic has no exact"):
            LeastCCD(alpha=0.05, algorithm="exact").fit(self.X, self.y)

    def test_no_information(self):
        model = LeastCCD(alpha=0.0).fit(self.X, self.y)
        with self.refuses("information"):
            wald(model, self.X, self.y)

    def test_no_partitions(self, tmp_path):
        data = write_partitions(tmp_path / "rows.parts", [(self.X, self.y)])
        with self.refuses("in_part"):
            LeastCCD(alpha=0.05).fit(data.X, data.y)

    def test_no_device(self, monkeypatch):
        backend = pytest.importorskip("gpu.backend")
        backend.simulate_backend(monkeypatch, seed=1)
        with self.refuses("on_device"):
            LeastCCD(alpha=0.05, backend="cuda").fit(self.X, self.y)


@njit(error_model="numpy")
def halfway_jump(risk, tied, death_weight, deaths):
    log_1, jump_1, _ = breslow_jump(risk, tied, death_weight, deaths)
    log_2, jump_2, held_2 = efron_jump(risk, tied, death_weight, deaths)
    return 0.5 * (log_1 + log_2), 0.5 * (jump_1 + jump_2), 0.5 * held_2


@njit(error_model="numpy")
def halfway_coordinate(s0, s1, s2, t0, t1, t2, death_weight, deaths):
    slope_1, curvature_1 = breslow_coordinate(s0, s1, s2, t0, t1, t2, death_weight, deaths)
    slope_2, curvature_2 = efron_coordinate(s0, s1, s2, t0, t1, t2, death_weight, deaths)
    return 0.5 * (slope_1 + slope_2), 0.5 * (curvature_1 + curvature_2)


@dataclass(frozen=True)
class Halfway:
    """The mean of the log-likelihoods under Breslow's and Efron's treatment of ties."""

    pattern = RiskSetPattern
    uses_ties = True
    jump_formula = staticmethod(halfway_jump)
    coordinate_formula = staticmethod(halfway_coordinate)


def mean_of_both(data, coef):
    """Log-likelihood and u by the oracles."""
    both = [reference_at(data, coef, ties) for ties in ("breslow", "efron")]
    return np.mean([e.loglik for e in both]), np.mean([e.u for e in both], axis=0)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("l1_ratio", [1.0, 0.2])
def test_risk_sets(l1_ratio, algorithm, tolerance):
    rng = np.random.default_rng(3)
    data: Data = draw_outcome(rng, 90, n_strata=2, n_times=12, weights=True, offset=True)
    data = data.with_(X=draw_columns(rng, 90, 6))
    cox = make_problem(data)
    problem = Problem(cox.X, cox.plan, Halfway(), cox.source, cox.piece_ptr)
    scale = np.abs(dense(data.X).T @ mean_of_both(data, np.zeros(6))[1]).max()
    lam = 0.1 * scale
    args = {"problem": problem, "algorithm": algorithm, "l1_ratio": l1_ratio, "tol": 1e-8}
    (solution,) = fit_path(data, lam, **args)
    assert solution.converged
    loglik, u = mean_of_both(data, solution.coef)
    assert kkt(data.X, u, solution.coef, lam, l1_ratio).max() <= tolerance("kkt") * scale
    objective = penalty(solution.coef, lam, l1_ratio) - loglik
    assert solution.objective == pytest.approx(objective, rel=1e-12)
    assert 0.0 <= solution.gap <= 1e-5
