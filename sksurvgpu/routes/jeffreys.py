r"""The maximum of a likelihood that is penalized by Jeffreys' prior.

.. math:: \ell^*(\beta) = \ell(\beta) + \tfrac12 \log\det I(\beta),\qquad
          u^*_k = u_k + \tfrac12 \operatorname{tr}(I^{-1} \partial_k I)

I is minus the Hessian of :math:`\ell`, exactly, at every point. That of the other term, of order 1
beside the number of events, would cost as much as p evaluations: it is learned from how the term's
slope changes along the steps (symmetric rank-one updates), which makes Newton's steps with the sum
converge faster than linearly. Without it they are Fisher's scoring, which does not.

Coefficients are measured in standard errors of the start, each with all others known.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..backends.cpu.session import Session
from ..bayes.newton import search_line
from ..information.inverse import COLLINEAR, CONSTANT, invert
from ..information.rows import FittedRows
from ..information.views import view_of

SMALLER = 0.9  # scores of a step that gained nothing, or it would creep
SMALLEST_UPDATE = 1e-8  # cosine between a step and what it taught, below which it was rounding


class JeffreysPoint(NamedTuple):
    """Coefficients, and the penalized likelihood there."""

    coef: np.ndarray
    loglik: float  # without the penalty
    value: float
    score: np.ndarray
    pull: np.ndarray  # the penalty's part of the score
    information: np.ndarray


class Likelihood:
    """The penalized likelihood of one fit."""

    def __init__(self, problem, weight, offset, threads):
        self.session = Session(problem, weight, offset, threads)
        self._rows = FittedRows(None, None, problem, self.session, weight)

    def undetermined(self, coef) -> np.ndarray:
        """Which coefficients the data do not determine."""
        self.session.start(coef)
        return ~invert(*view_of(self._rows).information()).identified

    def at(self, coef) -> JeffreysPoint | None:
        """The likelihood at coefficients; None where it, or the information, is lost."""
        loglik = self.session.start(coef)
        if not np.isfinite(loglik):
            return None
        try:
            view = view_of(self._rows)
            information, size = view.information()
            log_det, inverse = _invert(information, size)
        except (ValueError, LinAlgError):  # predictors too far apart, or no information
            return None
        pull = 0.5 * view.traces(inverse)
        score = self.session.gradient(np.arange(len(coef))) + pull
        return JeffreysPoint(coef, loglik, loglik + 0.5 * log_det, score, pull, information)

    def rounding(self) -> float:
        """Rounding error of the log-likelihood where it was evaluated last."""
        eta = self.session.eta
        size = self.session.pattern.sizes(eta, self.session.u)
        return 4.0 * np.finfo(float).eps * float(size @ (1.0 + np.abs(eta)))


def _invert(information, size):
    """Logarithm of the determinant, and the inverse."""
    diagonal = np.diagonal(information)
    if not (diagonal > CONSTANT * size).all():
        raise LinAlgError("a column is constant")
    root = np.sqrt(diagonal)
    unit = np.outer(root, root)
    factor = cho_factor(information / unit, lower=True)
    pivot = np.diagonal(factor[0])
    if not (pivot**2 > COLLINEAR).all():
        raise LinAlgError("columns are collinear")
    log_det = 2.0 * float((np.log(pivot) + np.log(root)).sum())
    return log_det, cho_solve(factor, np.eye(len(root))) / unit


class Climb:
    """Newton's steps over the free coefficients, and what they have learned.

    `root` are ones over the units of coefficients.
    """

    def __init__(self, likelihood, free, root):
        self.root, self._likelihood, self._free = root, likelihood, np.flatnonzero(free)
        self._learned = np.zeros((len(self._free),) * 2)  # minus the Hessian of the penalty

    def to_top(self, point, goal, max_iter, verbose=False) -> list[JeffreysPoint]:
        """Points from the given one to the first whose scores are as small as `goal`.

        It ends before at the accuracy of floating point, or after `max_iter` steps.
        """
        points = [point]
        for iteration in range(max_iter + 1):
            residual = self.residual(points[-1])
            if verbose:
                print(f"  {iteration:5d}  objective {-points[-1].value:.10g}  score {residual:.3g}")
            found = None if residual <= goal or iteration == max_iter else self.step(points[-1])
            if found is None:
                break
            points.append(found)
        return points

    def residual(self, point) -> float:
        """Largest score in standard errors."""
        return float(np.abs(self._in_units(point.score)).max(initial=0.0))

    def _in_units(self, slope):
        return slope[self._free] / self.root[self._free]

    def step(self, point) -> JeffreysPoint | None:
        """The next point; None where no step goes up."""
        free, score = self._free, self._in_units(point.score)
        root = self.root[free]
        information = point.information[np.ix_(free, free)] / np.outer(root, root)
        rounding = self._likelihood.rounding()
        for hessian in (information + self._learned, information):
            try:
                move = cho_solve(cho_factor(hessian), score)
            except LinAlgError:  # what was learned is not of this point
                continue
            gain = 0.5 * float(score @ move)
            step = np.zeros_like(point.coef)
            step[free] = move / root
            found = search_line(self._at, point.coef, point.value, step, gain, rounding)
            if found is not None and self._is_better(found[2], point, rounding):
                self._learn(point, found[2])
                return found[2]
        return None

    def _at(self, coef):
        point = self._likelihood.at(coef)
        return (-np.inf, None) if point is None else (point.value, point)

    def _is_better(self, found, point, rounding):
        """Whether a step went up, or, where that cannot be told, to smaller scores."""
        if found is None:
            return False
        went_up = found.value > point.value + rounding
        return went_up or self.residual(found) < SMALLER * self.residual(point)

    def _learn(self, before, after):
        move = ((after.coef - before.coef) * self.root)[self._free]
        rest = self._in_units(before.pull - after.pull) - self._learned @ move
        along = float(rest @ move)
        if abs(along) > SMALLEST_UPDATE * np.linalg.norm(rest) * np.linalg.norm(move):
            self._learned += np.outer(rest, rest) / along
