r"""The adaptive lasso: columns with large coefficients in a first fit, the pilot, are spared.

The penalty factor of a column is multiplied by :math:`|\hat\beta_j|^{-\kappa}`, with its
coefficient in the pilot (Zou 2006); where that is zero, the column leaves the model.  The pilot is
part of the fit: it has the fit's weights, so that no fold sees a row that it is judged by.

The default pilot is a ridge of one strength :math:`\lambda` for all fits: with :math:`C_j` the
curvature along column j in the null model and :math:`N` the events that this expects,
:math:`C_j/N` is about the variance of the column, and under normal priors of variance
:math:`1/(\lambda f_j)` the linear predictor has the variance

.. math:: \sum_j \frac{C_j}{N}\frac{1}{\lambda f_j}.

The strength at which this is 1 is taken.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from numbers import Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..data.by_column import check_by_column
from ..penalties import Given, PenaltySpec
from ..penalties.base import Family
from ..solver.problem import Batch, ColumnsOnDemand
from ..solver.solve import null_models
from .base import Route

__all__ = ["Adaptive"]

RATIOS = {"ridge": 0.0, "lasso": 1.0, "mle": 0.0}
LARGEST_FACTOR = 1e100  # beyond, a coefficient of the pilot cannot be told from zero
CACHE_BYTES = 2**26  # of pilots of the fits before: folds come again at every penalty


class Adaptive(PenaltySpec):
    r"""Adaptive lasso: penalty factors from a pilot fit.

    The penalty factor of a column is ``penalty_factor * abs(b) ** -power``, with its coefficient
    ``b`` in a pilot fit to the same rows; columns whose ``b`` is 0 get the coefficient 0. Effects
    that the pilot finds large are shrunk less than by the lasso, noise more.

    Parameters
    ----------
    pilot : {"ridge", "lasso", "mle"}, array-like of shape (n_features,) or dict, default="ridge"
        The first fit, which has the estimator's `penalty_factor`, `bounds` and `prior_mean`: with
        ``l1_ratio`` 0 or 1, or without a penalty, for few columns. Or coefficients from elsewhere,
        of columns or, shape (n_coef,), as in `coef_`; a dictionary gives those of some columns, by
        name or position, the others get 0.
    power : float, default=1.0
        The exponent, positive.
    pilot_alpha : float or None, default=None
        ``alpha`` of the pilot, which a lasso needs. None, for a ridge, is the strength of normal
        priors under which the linear predictor has variance 1.

    Notes
    -----
    The pilot is fitted inside every fold of a cross-validation and every replicate of a
    `bootstrap`, with the weights of that fit; one from elsewhere is the same in all. Around
    `prior_mean`, ``b`` is its distance from that. Columns with a `penalty_factor` of 0 stay without
    a penalty. Factors are not rescaled; `penalty_factor_` of a fit has them, `pilot_coef_` what
    they were made from.

    References
    ----------
    Zou, H. (2006). The adaptive lasso and its oracle properties. Journal of the American
    Statistical Association 101, 1418-1429.

    Examples
    --------
    >>> from sksurvgpu import Adaptive, CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.002, penalty=Adaptive()).fit(data.X, data.y)
    >>> bool((model.penalty_factor_ == 1 / abs(model.pilot_coef_)).all())
    True
    """

    def __init__(self, pilot="ridge", *, power=1.0, pilot_alpha=None):
        self.pilot = pilot
        self.power = power
        self.pilot_alpha = pilot_alpha

    def route(self, given, inner):
        """Fits after a pilot."""
        self._check()
        power = float(self.power)
        if not isinstance(self.pilot, str):
            return Adapted(inner, power, _read_pilot(self.pilot, given))
        ratio, alpha = RATIOS[self.pilot], self.pilot_alpha
        family = PenaltySpec().family(replace(given, l1_ratio=ratio))
        if self.pilot == "mle":
            alpha = 0.0
        return Adapted(inner, power, None, family, None if alpha is None else float(alpha))

    def check(self, prepared):
        """Refuse a pilot without a finite maximum."""
        if not isinstance(self.pilot, str) or self.pilot != "mle":
            return
        infinite = prepared.find_infinite(np.ones(prepared.problem.n_columns, bool))
        if infinite.any():
            column = prepared.problem.source[np.argmax(infinite)]
            raise ValueError(
                f"`penalty` is {self!r}, but {np.count_nonzero(infinite):,} coefficients are "
                "infinite without a penalty, because the columns separate the events, the first "
                f'of them that of column {column:,} of `X`; take pilot="ridge".'
            )

    def _check(self):
        if not _is_number(self.power) or not 0 < self.power < np.inf:
            raise ValueError(f"`power` is {self.power!r}, must be a positive number.")
        if isinstance(self.pilot, str) and self.pilot not in RATIOS:
            raise ValueError(
                f"`pilot` is {self.pilot!r}, must be one of {', '.join(map(repr, RATIOS))}, or "
                "have coefficients."
            )
        alpha = self.pilot_alpha
        if alpha is None:
            if isinstance(self.pilot, str) and self.pilot == "lasso":
                raise ValueError('pilot="lasso" needs `pilot_alpha`, its penalty.')
            return
        if not isinstance(self.pilot, str) or self.pilot == "mle":
            raise ValueError(
                f'`pilot_alpha` is {alpha!r}, which is for pilot="ridge" and "lasso" only.'
            )
        if not _is_number(alpha) or not 0 < alpha < np.inf:
            raise ValueError(
                f"`pilot_alpha` is {alpha!r}, must be a positive number; "
                'pilot="mle" is the fit without a penalty.'
            )


def _is_number(value):
    return isinstance(value, Real) and not isinstance(value, bool)


def _read_pilot(pilot, given: Given):
    """Coefficients from elsewhere as distances from the means, one for every column of a fit."""
    n_columns, source = len(given.factor), given.source
    if not isinstance(pilot, Mapping) and np.shape(pilot) == source.shape != (n_columns,):
        coef = check_by_column(pilot, "pilot", len(source), default=0.0)
    else:
        coef = check_by_column(pilot, "pilot", n_columns, given.names, default=0.0)[source]
    return coef if given.prior_mean is None else coef - given.prior_mean[source]


@dataclass(frozen=True)
class Adapted(Route):
    """Fits with factors from a pilot."""

    inner: Route
    power: float
    given: np.ndarray | None  # (n_columns,) coefficients from elsewhere
    family: Family | None = None  # of the pilot's penalties
    alpha: float | None = None  # of the pilot; None makes the predictor's variance 1
    known: OrderedDict = field(default_factory=OrderedDict, compare=False, repr=False)

    def solve(self, problem, batch, backend, options, n_threads, on_fit=None):
        pilot, batch = self._adapt(problem, batch, backend, options, n_threads)
        fits = self.inner.solve(problem, batch, backend, options, n_threads, on_fit)
        return [self._describe(fit, pilot, batch, b) for b, fit in enumerate(fits)]

    def solve_and_lend(self, problem, batch, backend, options, n_threads, n_borrowers):
        pilot, batch = self._adapt(problem, batch, backend, options, n_threads)
        given = problem, batch, backend, options, n_threads, n_borrowers
        solutions, loan = self.inner.solve_and_lend(*given)
        return self._describe(solutions, pilot, batch, 0), loan

    def null_model(self, problem, batch, backend, options, n_threads):
        _, batch = self._adapt(problem, batch, backend, options, n_threads)
        return self.inner.null_model(problem, batch, backend, options, n_threads)

    def _adapt(self, problem, batch, backend, options, n_threads):
        """Coefficients of the pilots, (n_columns, n_fits), and the batch with factors from them.

        Null models and quadratic models of fits before serve on: neither has a factor in it but
        the least penalty that selects nothing, and null models come from fits of this route.
        """
        shape = problem.n_columns, batch.n_fits
        if self.given is not None:
            pilot = np.broadcast_to(self.given[:, None], shape)
        else:
            pilot = self._fit(problem, batch, backend, options, n_threads)
        base = _by_fit(batch.factor, shape)
        size = np.abs(pilot)
        with np.errstate(divide="ignore", over="ignore"):
            weight = np.where(base > 0, size**-self.power, 1.0)
        leaves = ~(weight * base <= LARGEST_FACTOR)
        factor = np.where(leaves, 1.0, weight) * base
        start = np.zeros(shape) if batch.coef is None else _by_fit(batch.coef, shape)
        return pilot, replace(
            batch,
            factor=factor,
            fixed=leaves if batch.fixed is None else leaves | batch.fixed,
            coef=None if batch.coef is None else np.where(leaves, 0.0, start),
        )

    def _fit(self, problem, batch, backend, options, n_threads):
        """Coefficients of the pilots: of fits that were seen before, those found then."""
        keys = [_key(batch, b) for b in range(batch.n_fits)]
        new = [b for b, key in enumerate(keys) if key not in self.known]
        found = {key: self.known[key] for key in keys if key in self.known}
        if new:
            shared = backend, replace(options, verbose=0, baseline=False), n_threads
            own = self._with_strengths(problem, _of_fits(batch, new, self.family), *shared)
            solutions = [fit[0] for fit in self.inner.solve(problem, own, *shared)]
            _warn_of(solutions)
            found |= {keys[b]: s.coef for b, s in zip(new, solutions, strict=True)}
        self._remember(found)
        return np.stack([found[key] for key in keys], axis=1)

    def _with_strengths(self, problem, batch, *shared):
        """The batch of the pilots with their penalties, on the sum scale."""
        if self.alpha is not None:
            return replace(batch, lambdas=self.alpha * batch.total[None, :])
        nulls = null_models(problem, batch, *shared)
        shape = problem.n_columns, batch.n_fits
        factor, fixed = _by_fit(batch.factor, shape), _by_fit(batch.fixed, shape)
        strengths = [
            unit_strength(null, np.where(fixed[:, b], 0.0, factor[:, b]))
            for b, null in enumerate(nulls)
        ]
        return replace(batch, lambdas=np.array([strengths]), null=tuple(nulls))

    def _remember(self, found):
        self.known.update(found)
        size = max((coef.nbytes for coef in found.values()), default=1)
        while len(self.known) * size > CACHE_BYTES:
            self.known.popitem(last=False)

    def _describe(self, solutions, pilot, batch, b):
        factor = np.where(batch.fixed[:, b], np.inf, batch.factor[:, b])
        of_route = {"penalty_factor_": factor, "pilot_coef_": pilot[:, b].copy()}
        return [replace(s, of_route=s.of_route | of_route) for s in solutions]


def unit_strength(null, factor) -> float:
    """Strength of a ridge whose prior gives the linear predictor a variance of 1."""
    is_penalized = factor > 0
    variances = null.root[is_penalized] ** 2 / factor[is_penalized]
    return float(variances.sum() / max(null.events, np.finfo(float).tiny))


def _by_fit(values, shape):
    """Numbers of columns as those of every fit, (n_columns, n_fits)."""
    values = np.asarray(values)
    return np.broadcast_to(values[:, None] if values.ndim == 1 else values, shape)


def _of_fits(batch, fits, family) -> Batch:
    """Some fits of a batch under other penalties, from zero but for what is held; no strengths."""
    shape = batch.factor.shape[0], batch.n_fits
    factor = _by_fit(batch.factor, shape)[:, fits]
    fixed = np.zeros(factor.shape, bool)
    coef = None
    if batch.fixed is not None:
        fixed = _by_fit(batch.fixed, shape)[:, fits]
    if batch.coef is not None:
        coef = np.where(fixed, _by_fit(batch.coef, shape)[:, fits], 0.0)
    rows = {name: _rows_of(getattr(batch, name), fits) for name in ("weight", "offset")}
    none, total = np.empty((0, len(fits))), batch.total[fits]
    return Batch(none, family, factor, fixed=fixed, coef=coef, total=total, **rows)


def _rows_of(values, fits):
    """Numbers of rows, for some of the fits."""
    if values is None or values.shape[1] == 1:
        return values
    return ColumnsOnDemand((values.shape[0], len(fits)), lambda k: values[:, fits[k]])


def _column(values, index):
    """Numbers of one fit, where a column may stand for all."""
    if values is None or len(values.shape) == 1:
        return values
    return values[:, index if values.shape[1] > 1 else 0]


def _key(batch, index):
    """Checksum of all that a pilot depends on beside the problem."""
    digest = blake2b(digest_size=16)
    for name in ("weight", "offset", "factor", "fixed"):
        values = _column(getattr(batch, name), index)
        digest.update(b"-" if values is None else np.ascontiguousarray(values).tobytes() + b"+")
    if batch.fixed is not None and batch.coef is not None:
        held = np.where(_column(batch.fixed, index), _column(batch.coef, index), 0.0)
        digest.update(held.tobytes())
    digest.update(batch.total[index].tobytes())
    return digest.digest()


def _warn_of(solutions):
    failed = [s for s in solutions if not s.converged]
    if failed:
        worst = max(failed, key=lambda s: s.score)
        warnings.warn(
            f"{len(failed):,} of {len(solutions):,} pilot fits did not converge: a violation of "
            f"the optimality conditions is {worst.score:.3g} standard errors, where `tol` allows "
            f"{worst.allowed:.3g}; raise `max_iter`, or `pilot_alpha` of the penalty.",
            ConvergenceWarning,
            stacklevel=2,
        )
