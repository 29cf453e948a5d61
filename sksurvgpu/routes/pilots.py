r"""Pilots: first fits, from which a route takes the penalties of those that count.

A pilot is part of the fit: it has the fit's weights, so that no fold sees a row that it is judged
by. Where its strength is not given, it is a ridge of one strength :math:`\lambda` for all fits:
with :math:`C_j` the curvature along column j in the null model and :math:`N` the events that this
expects, :math:`C_j/N` is about the variance of the column, and under normal priors of variance
:math:`1/(\lambda f_j)` the linear predictor has the variance

.. math:: \sum_j \frac{C_j}{N}\frac{1}{\lambda f_j}.

The strength at which this is 1 is taken.
"""

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from hashlib import blake2b

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._warnings import warn
from ..data.by_fit import of_fit
from ..penalties.base import Family
from ..solver.problem import Batch
from .base import Route

LARGEST_FACTOR = 1e100  # beyond, a coefficient of the pilot cannot be told from zero
CACHE_BYTES = 2**26  # of pilots of the fits before: folds come again at every penalty
KEPT = 3  # vectors by column of a pilot: coefficients, and two of its null model


@dataclass(frozen=True)
class Pilots:
    """First fits of batches, carried out by a route; those seen before are not fitted again."""

    inner: Route
    family: Family  # of their penalties
    alpha: float | None = None  # of all of them; None makes the predictor's variance 1
    known: OrderedDict = field(default_factory=OrderedDict, compare=False, repr=False)

    def fit(self, fits):
        """Solution of the pilot of every fit."""
        batch = fits.batch
        keys = [_key(batch, b) for b in range(batch.n_fits)]
        new = [b for b, key in enumerate(keys) if key not in self.known]
        found = {key: self.known[key] for key in keys if key in self.known}
        if new:
            family = self.family if fits.scale is None else self.family.in_units(fits.scale)
            own = replace(fits, batch=_of_fits(batch, new, family))
            own = self._with_strengths(own.with_options(verbose=0, baseline=False))
            solutions = [fit[0] for fit in self.inner.solve(own)]
            _warn_of(solutions)
            found |= {keys[b]: s for b, s in zip(new, solutions, strict=True)}
        self._remember(found)
        return [found[key] for key in keys]

    def _with_strengths(self, fits):
        """The pilots with their penalties, on the sum scale."""
        batch, shape = fits.batch, (fits.problem.n_columns, fits.batch.n_fits)
        if self.alpha is not None:
            return fits.with_batch(lambdas=self.alpha * batch.total[None, :])
        nulls = fits.null_models()
        factor = by_fit(batch.factor, shape)
        fixed = by_fit(np.zeros(shape[0], bool) if batch.fixed is None else batch.fixed, shape)
        strengths = [
            unit_strength(null, np.where(fixed[:, b], 0.0, factor[:, b]))
            for b, null in enumerate(nulls)
        ]
        return fits.with_batch(lambdas=np.array([strengths]), null=tuple(nulls))

    def _remember(self, found):
        self.known.update(found)
        size = max((KEPT * s.coef.nbytes for s in found.values()), default=1)
        while len(self.known) * size > CACHE_BYTES:
            self.known.popitem(last=False)


def unit_strength(null, factor) -> float:
    """Strength of a ridge whose prior gives the linear predictor a variance of 1."""
    is_penalized = factor > 0
    variances = null.root[is_penalized] ** 2 / factor[is_penalized]
    return float(variances.sum() / max(null.events, np.finfo(float).tiny))


def by_fit(values, shape):
    """Numbers of columns as those of every fit, (n_columns, n_fits)."""
    values = np.asarray(values)
    return np.broadcast_to(values[:, None] if values.ndim == 1 else values, shape)


def _of_fits(batch, fits, family) -> Batch:
    """Some fits of a batch under other penalties, from zero but for what is held; no strengths."""
    some, none = batch.of(fits), np.empty((0, len(fits)))
    is_held = some.fixed is not None and some.coef is not None
    coef = np.where(some.fixed, some.coef, 0.0) if is_held else None
    return replace(
        some, lambdas=none, penalty=family, coef=coef, null=None, loan=None, share=None, reach=None
    )


def _key(batch, index):
    """Checksum of all that a pilot depends on beside the problem."""
    digest = blake2b(digest_size=16)
    for name in ("weight", "offset", "factor", "fixed"):
        values = of_fit(getattr(batch, name), index)
        digest.update(b"-" if values is None else np.ascontiguousarray(values).tobytes() + b"+")
    if batch.fixed is not None and batch.coef is not None:
        held = np.where(of_fit(batch.fixed, index), of_fit(batch.coef, index), 0.0)
        digest.update(held.tobytes())
    digest.update(batch.total[index].tobytes())
    return digest.digest()


def _warn_of(solutions):
    failed = [s for s in solutions if not s.converged]
    if failed:
        worst = max(failed, key=lambda s: s.score)
        warn(
            f"{len(failed):,} of {len(solutions):,} pilot fits did not converge: a violation of "
            f"the optimality conditions is {worst.score:.3g} standard errors, where `tol` allows "
            f"{worst.allowed:.3g}; raise `max_iter`, or the penalty of the pilots.",
            ConvergenceWarning,
        )
