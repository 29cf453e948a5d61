r"""A likelihood with independent normal priors: log posterior, its mode and its curvature there.

With the log-likelihood :math:`\ell`, prior means m and precisions k,

.. math:: \log \pi(\theta) = \ell(\theta) - \tfrac12 \sum_j k_j (\theta_j - m_j)^2 .

The mode is that of a ridge with penalties k, of coefficients less m, where X m is part of the
offset.  An evaluation with an implicit intercept is a maximum over it and no density, so that the
intercept becomes the coefficient of a column of ones, the last one.  The solver still fits it
implicitly, which needs no centred columns; Newton's method, which ends after one look at the
Hessian unless the intercept has a prior, does the rest.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky

from ..backends.cpu.session import Session
from ..backends.cpu.threads import Threads, one_blas_thread
from ..bayes.newton import MOST_STEPS, STILL, search_line
from ..data.options import quoted
from ..information.inverse import invert
from ..information.rows import FittedRows
from ..information.views import view_of
from ..penalties import ElasticNet

NEAR = 1e-6  # of the mode, in units of log density: sampling starts there, and no more
NEARER = 1e-10  # so near to it, no step would still move a predictor
WEAK = 1e-2  # precision, for a column that spans 1, that keeps where Newton's method starts finite
BLAMED = 0.1  # share of the largest move with which a coefficient takes part in it


@dataclass(frozen=True, eq=False)
class NormalPrior:
    """Independent normal distributions of all coefficients; flat where a precision is 0."""

    mean: np.ndarray  # (n_coef,)
    precision: np.ndarray


class Density:
    """Log posterior at coefficients of the fits of a batch."""

    def __init__(self, evaluate, prior):
        self._evaluate, self._prior = evaluate, prior

    def value_and_gradient(self, positions):
        """Log density, up to a constant, and its gradient: (B,) and (B, d) at (B, d)."""
        loglik, gradient = self._evaluate(positions)
        distance = positions - self._prior.mean
        pull = self._prior.precision * distance
        return loglik - 0.5 * (pull * distance).sum(axis=1), gradient - pull


@dataclass(frozen=True, eq=False)
class Mode:
    """Where the posterior is densest, and the lower factor of minus its Hessian there."""

    coef: np.ndarray
    factor: np.ndarray


def find_mode(model, prepared, problem, prior) -> Mode:
    """Mode of the posterior of the coefficients of a problem: a fit's, or with its own intercept.

    The model has the attributes that a fit shares, for names.
    """
    base = prepared.problem
    n_coef, n_base = problem.n_columns, base.n_columns
    precision = prior.precision[:n_base]
    ridge = prepared.with_options(verbose=0)
    ridge = ridge.with_batch(factor=np.maximum(precision, _weak_precision(base)))
    offset = _offset_of_means(prepared, prior.mean[:n_base])
    [solution] = ridge.solve([1.0], total=1.0, penalty=ElasticNet(l1_ratio=0.0), offset=offset)[0]
    start = prior.mean[:n_base] + solution.coef
    if n_coef > n_base:
        # what centring took from the offset of the means was not given back
        start = np.append(start, solution.baseline - base.shift_of(prior.mean[:n_base])[0])
    with one_blas_thread():
        return _Climber(model, ridge, problem, prior).climb(start)


def _spans(problem):
    """Largest less smallest value of the column of each coefficient."""
    return np.array([problem.given.span(column) for column in problem.source])


def _weak_precision(problem):
    """Precisions that hold a coefficient only where the likelihood rises for ever."""
    square = _spans(problem) ** 2
    return np.divide(WEAK, square, out=np.zeros_like(square), where=square > 0)


def _offset_of_means(prepared, mean):
    """Offset of a fit whose coefficients are measured from the prior's means."""
    problem, offset = prepared.problem, prepared.batch.offset
    if not mean.any():
        return offset
    by_column = np.zeros(problem.given.n_columns)
    by_column[problem.source] = mean
    shift = problem.offset_of(by_column)
    return shift if offset is None else shift + offset


class _Climber:
    """Newton's method on a posterior."""

    def __init__(self, model, prepared, problem, prior):
        self._model, self._prepared, self._problem = model, prepared, problem
        rows = prepared.batch.rows(0)
        self._weight, self._precision = rows[0], prior.precision
        self._session = Session(problem, *rows, Threads(1))
        self._density = Density(self._evaluate, prior)

    def _evaluate(self, coefs):
        loglik = self._session.start(coefs[0])
        return loglik, self._session.gradient(np.arange(self._problem.n_columns))

    def _at(self, coef):
        value, slope = self._density.value_and_gradient(coef[None])
        return value[0], slope[0]

    def climb(self, coef) -> Mode:
        """Go from coefficients to the mode."""
        value, slope = self._at(coef)
        step = np.zeros_like(coef)
        for _ in range(MOST_STEPS):
            hessian, inverse = self._curvature_after(step, coef)
            step = inverse @ slope
            gain = 0.5 * slope @ step
            if gain <= NEAR and self._is_still(coef, step):
                return Mode(coef, _factor(hessian))
            if gain <= NEARER:
                raise self._unbounded(step)
            found = search_line(self._at, coef, value, step, gain, self._rounding())
            if found is None:
                break
            coef, value, slope = found
        raise _lost()

    def _is_still(self, coef, step):
        """Whether a step moves no predictor as it would where the likelihood rises for ever."""
        return (self._precision > 0).all() or self._session.step(coef + step) < STILL

    def _rounding(self):
        """Rounding error of the log density where the session is."""
        eta = self._session.eta
        size = self._session.pattern.sizes(eta, self._session.u)
        return 4.0 * np.finfo(float).eps * float(size @ (1.0 + np.abs(eta)))

    def _curvature_after(self, step, coef):
        """Minus the Hessian and its inverse, which are lost where a step has no end."""
        try:
            return self._curvature(coef)
        except ValueError as error:
            if self._is_still(coef, step):
                raise
            raise self._unbounded(step) from error

    def _curvature(self, coef):
        """Minus the Hessian at coefficients where the session is, and its inverse."""
        problem, outcome = self._problem, self._prepared.outcome
        rows = FittedRows(self._model, outcome, problem, self._session, self._weight)
        hessian, size = view_of(rows).information()
        hessian[np.diag_indices_from(hessian)] += self._precision
        inverse = invert(hessian, size + self._precision)
        unknown = np.flatnonzero(~inverse.identified)
        if len(unknown):
            raise ValueError(
                f"neither the data nor the prior determine the coefficients of "
                f"{self._list(unknown)}: constant or collinear columns, or columns without an "
                "event; give them a larger `prior_precision`, or leave some of them out."
            )
        return hessian, inverse.matrix

    def _unbounded(self, step):
        """Error that blames the coefficients under a flat prior that a step moves."""
        span = _spans(self._prepared.problem)
        movement = np.abs(step[: len(span)]) * span * (self._precision[: len(span)] == 0)
        blamed = np.flatnonzero(movement >= BLAMED * movement.max(initial=0.0))
        if not movement.any():
            blamed = [len(span)]  # the intercept
        return ValueError(
            f"the coefficients of {self._list(blamed)} have a flat prior, and no posterior: the "
            "likelihood rises for ever as they grow, as when a column separates the events; give "
            "them a positive `prior_precision`, or leave them out."
        )

    def _list(self, coefs):
        names = np.append(self._prepared.setting.names, "intercept")[coefs]
        return quoted(names)


def _lost():
    return ValueError(
        "the mode of the posterior was not found; columns or offsets span many orders of "
        "magnitude, or a prior is next to flat where the likelihood hardly changes: rescale "
        "columns, or give a larger `prior_precision`."
    )


def _factor(hessian):
    """Lower Cholesky factor, by way of a diagonal of ones: columns have any scale."""
    scale = np.sqrt(np.diagonal(hessian))
    return scale[:, None] * cholesky(hessian / np.outer(scale, scale), lower=True)
