"""The optimum of a small problem by proximal Newton steps on its oracle.

    minimize   -loglik(b) + sum_j l1_j |b_j| + l2_j b_j^2 / 2

Every step minimizes the quadratic model, whose matrix is the oracle's exact information, by
coordinate descent for the signs and a solve for the rest, and is halved until the objective falls.
A problem without a finite optimum, or whose columns are nearly dependent, is *ill-posed* and says
so.
"""

from dataclasses import dataclass

import numpy as np

STEPS, SWEEPS = 60, 3000
NOTHING = 1e-11  # standard errors that a last step may move
# What is ill-posed: a share of curvature left at the optimum, an effect over a column's range (a
# log ratio), and the least eigenvalue of the correlations of the coefficients' information.
LEAST_CURVATURE, LARGEST_EFFECT, LEAST_EIGENVALUE = 1e-2, 9.0, 1e-3


class IllPosedError(Exception):
    """There is no optimum, or floating point cannot tell where it is."""


@dataclass(frozen=True)
class Optimum:
    """Coefficients, and what they are measured by."""

    coef: np.ndarray
    loglik: float
    objective: float  # a sum
    information: np.ndarray  # of the log-likelihood, at the optimum
    standard_error: np.ndarray  # with the squared penalty's share of the curvature
    unit: np.ndarray  # square root of the null model's curvature along each column


def find_optimum(problem):
    """The `Optimum` of a problem in plain units."""
    nothing = np.zeros(problem.sample.X.shape[1])
    held = np.where(problem.l1 + problem.l2 > 0, np.inf, 0.0)
    null, at_null = _descend(problem, held, nothing, nothing)
    coef, evaluation = _descend(problem, problem.l1, problem.l2, null)
    null_information, information = map(problem.information, (at_null, evaluation))
    _require_well_posed(problem, coef, null_information, information)
    return Optimum(
        coef,
        evaluation.loglik,
        _objective(evaluation, coef, problem.l1, problem.l2),
        information,
        standard_errors(problem, information),
        np.sqrt(np.diag(null_information)),
    )


def standard_errors(problem, information):
    return np.sqrt(np.diag(np.linalg.inv(information + np.diag(problem.l2))))


def _require_well_posed(problem, coef, at_null, information):
    curvature = np.diag(information)
    if not (curvature > LEAST_CURVATURE * np.diag(at_null)).all():
        raise IllPosedError("a column's curvature vanishes")
    total = information + np.diag(problem.l2)
    size = np.sqrt(np.diag(total))
    if np.linalg.eigvalsh(total / np.outer(size, size))[0] < LEAST_EIGENVALUE:
        raise IllPosedError("columns are nearly dependent")
    is_linear = problem.name.startswith("gaussian")
    if not is_linear and (np.abs(coef) * np.ptp(problem.sample.X, axis=0)).max() > LARGEST_EFFECT:
        raise IllPosedError("a coefficient may be infinite")


def _objective(evaluation, coef, l1, l2):
    held = coef != 0  # where l1 is infinite and nothing is there, nothing is paid
    with np.errstate(over="ignore", invalid="ignore"):  # of a step that was far too long
        return l1[held] @ np.abs(coef[held]) + l2 @ coef**2 / 2 - evaluation.loglik


def _descend(problem, l1, l2, coef):
    """Coefficients at the minimum, and their evaluation."""
    here = problem.at(coef)
    value = _objective(here, coef, l1, l2)
    for _ in range(STEPS):
        slope = problem.sample.X.T @ here.u - l2 * coef
        curvature = problem.information(here) + np.diag(l2)
        if not (np.diag(curvature) > 0).all():
            raise IllPosedError("a column's curvature vanishes")
        step = _minimize_model(curvature, slope, coef, l1) - coef
        size = (np.abs(step) * np.sqrt(np.diag(curvature))).max()
        length = 1.0
        while True:
            there = coef + length * step
            evaluation = problem.at(there)
            if (reached := _objective(evaluation, there, l1, l2)) <= value or size < NOTHING:
                break
            length /= 2
            if length < 1e-3:
                if size > 1e-6:
                    raise IllPosedError("no step lowers the objective")
                return coef, here
        coef, here, value = there, evaluation, reached
        if size < NOTHING:
            return coef, here
    raise IllPosedError("no optimum within the steps allowed")


def _minimize_model(curvature, slope, coef, l1):
    """Minimum of the quadratic model with absolute values."""
    target = slope + curvature @ coef  # the model's slope at zero
    coef = coef.copy()
    for _ in range(SWEEPS):
        for j in range(len(coef)):
            point = target[j] - curvature[j] @ coef + curvature[j, j] * coef[j]
            coef[j] = np.sign(point) * max(abs(point) - l1[j], 0.0) / curvature[j, j]
        exact = _solve_on_support(curvature, target, coef, l1)
        if exact is not None:
            return exact
    raise IllPosedError("columns are nearly dependent")


def _solve_on_support(curvature, target, coef, l1):
    """The minimum if its signs are those of `coef`, else None."""
    support, exact = np.flatnonzero(coef), np.zeros_like(coef)
    sign = np.sign(coef[support])
    aim = target[support] - l1[support] * sign
    exact[support] = np.linalg.solve(curvature[np.ix_(support, support)], aim)
    rest = coef == 0
    slope = np.abs(target - curvature @ exact)[rest]
    is_minimum = (np.sign(exact[support]) == sign).all() and (slope <= l1[rest]).all()
    return exact if is_minimum else None
