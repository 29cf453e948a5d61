"""Estimators with a posterior: how their chains are run, kept and judged.

A model checks its data, then calls `_sample` with a function that makes a sampler of some chains
from the backend's `Sampling`. The estimator changes only after all chains have ended, so that a fit
that fails leaves the one before it whole.
"""

import os
from dataclasses import replace
from numbers import Integral

import numpy as np
from scipy.special import ndtr, ndtri
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .._journal import describe_call
from .._warnings import warn
from ..backends import BACKENDS, choose_sampling, explain
from ..bayes.chains import Schedule, run_chains
from ..bayes.draws import Storage
from ..bayes.posterior import Posterior
from ..data.design.columns import Design
from ..data.options import refuse, whole
from ._columns import check_columns
from ._estimator import Estimator
from ._prepared import count_threads
from .models.base import Parameters

SEEDS = 2**32  # keys of the generator have 32 bits
DENSE_SHARE = 0.2  # of entries that are not zero: above, products with dense arrays are faster


OF_CHAINS: Parameters = {
    "n_chains": (4, [Interval(Integral, 1, None, closed="left")]),
    "n_tune": (1000, [Interval(Integral, 0, None, closed="left")]),
    "n_draws": (1000, [Interval(Integral, 4, None, closed="left")]),
    "thin": (1, [Interval(Integral, 1, None, closed="left")]),
    "keep": ("float64", [StrOptions({"float64", "float32", "summary"})]),
    "folder": (None, [str, os.PathLike, None]),
    "random_state": (0, ["random_state"]),
    "backend": ("auto", [StrOptions(BACKENDS.keys())]),
    "device": (0, [Interval(Integral, 0, None, closed="left")]),
    "n_jobs": (None, [Integral, None]),
    "verbose": (0, ["verbose"]),
}


class BayesianModel(Estimator):
    """Base of the estimators with a posterior; see `BayesianLasso` for the parameters."""

    # Rows' weights belong to them as the outcome does.
    __metadata_request__fit = {"sample_weight": True}  # noqa: RUF012
    __metadata_request__score = {"sample_weight": True}  # noqa: RUF012

    def _sample(self, make_sampler, names, data, *, on_host=False, **described) -> Posterior:
        """Run the chains of samplers that are made from a backend's `Sampling` of some chains.

        `names` label the numbers of each quantity that is recorded; draws depend on `data` beside
        the parameters, by the names that users know. Samplers `on_host` have only their rows on the
        backend. `described` are further arguments of `Posterior`.
        """
        make_sampling = choose_sampling(self.backend, int(self.device))
        batched = make_sampling.batched
        if on_host and batched:
            make_sampling = choose_sampling("cpu")
        seed = check_random_state(self.random_state).randint(SEEDS, dtype=np.uint64)
        schedule = Schedule(self.n_chains, self.n_tune, self.n_draws, self.thin, int(seed))
        of = describe_call("fit", self, **data, backend=explain(self.backend)[0])
        sampled = run_chains(
            lambda chains: make_sampler(make_sampling(schedule.seed, chains)),
            schedule,
            storage=Storage(self.keep, self.folder, of),
            n_threads=count_threads(self.n_jobs),
            batched=batched,
            verbose=int(self.verbose),
        )
        return Posterior(replace(sampled, samplers=[]), names, **described)

    def _adopt(self, header, posterior, **fitted) -> None:
        """Set all fitted attributes, and say what is doubtful."""
        self.n_features_in_ = header.n_columns
        if header.names is not None:
            self.feature_names_in_ = header.names
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        for name, value in fitted.items():
            setattr(self, name, value)
        self.backend_, self.backend_reason_ = explain(self.backend)
        self.posterior_ = posterior
        for doubt in posterior.doubts():
            message = f"{type(self).__name__}: {doubt}"
            warn(message, ConvergenceWarning)

    def _read_features(self, X):
        """Check the columns of X against those of the fit; X as a matrix."""
        return matrix_of(check_columns(self, X))

    def _drawn(self, name):
        """Draws of a quantity, chains one after another."""
        check_is_fitted(self)
        draws = self.posterior_.draws
        if name not in draws:
            raise ValueError(
                f'draws of {name} were not kept, as keep="summary" asked for; fit with '
                'keep="float64" or "float32".'
            )
        return draws[name].reshape(-1, *draws[name].shape[2:])

    def _predictors(self, X, chosen=None, n_classes=1):
        """Linear predictors at all draws, or at some, a block of rows at a time."""
        coef, intercept = self._drawn("coef"), None
        if "intercept" in self.posterior_.draws:
            intercept = self._drawn("intercept")
        chosen = np.arange(len(coef)) if chosen is None else chosen
        for rows in row_blocks(X.shape[0], len(chosen) * n_classes):
            yield predict_draws(X[rows], coef, intercept, chosen)

    def summary(self, level=0.95):
        """Table of the posterior.

        Parameters
        ----------
        level : float, default=0.95
            Probability of the intervals, which leave as much on either side.

        Returns
        -------
        table : pandas.DataFrame
            A row for each parameter: ``mean``, ``sd``, ``lower`` and ``upper`` bounds, and the
            diagnostics ``r_hat``, ``ess_bulk`` and ``ess_tail``.
        """
        check_is_fitted(self)
        return self.posterior_.summary(level)


def matrix_of(design: Design):
    """Columns as a dense matrix by rows, or as a sparse one where few entries are not zero."""
    X = design.to_scipy()
    if X.nnz < DENSE_SHARE * X.shape[0] * X.shape[1]:
        return X.tocsr()
    return X.toarray(order="C")


BLOCK = 2**22  # predictions, of rows, draws and classes, that are held at a time
DRAWS_AT_ONCE = 256  # of coefficients, which may lie on disk
NEWTON_STEPS = 60
HALVINGS = 200  # bounds may be wider than the narrowest part by as many powers of two
ROUNDING = 1e-12


def row_blocks(n_rows, n_predictions):
    """Slices of rows whose predictions, so many of each, fit a block."""
    size = max(1, BLOCK // n_predictions)
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def choose_draws(n_draws, n_kept, random):
    """Some of the draws that were kept, in their order; all where `n_draws` is None."""
    n_draws = n_kept if n_draws is None else n_draws
    rule = f"must be a whole number from 1 to the {n_kept:,} draws of the posterior"
    if whole(n_draws, "n_draws", 1, rule) > n_kept:
        refuse(n_draws, "n_draws", rule)
    return np.sort(random.choice(n_kept, n_draws, replace=False))


def predict_draws(X, coef, intercept, chosen):
    """Linear predictors (n_rows, n_chosen, ...) of rows at some of the draws (n_draws, ..., p)."""
    out = np.empty((X.shape[0], len(chosen), *coef.shape[1:-1]))
    for start in range(0, len(chosen), DRAWS_AT_ONCE):
        draws = slice(start, start + DRAWS_AT_ONCE)
        drawn = np.asarray(coef[chosen[draws]], np.float64)
        out[:, draws] = (X @ drawn.reshape(-1, drawn.shape[-1]).T).reshape(-1, *drawn.shape[:-1])
    return out if intercept is None else out + intercept[chosen]


def mixture_quantile(mean, sd, level):
    """Quantiles of normal mixtures, one a row of `mean` (n_rows, n_draws), sds (n_draws,).

    Newton steps on the distribution function, within bounds that hold the root: those of the
    components' quantiles, which are halved where Newton steps do not get there.
    """
    parts = mean + ndtri(level) * sd
    low, high = parts.min(axis=1), parts.max(axis=1)
    smallest = np.finfo(float).eps * np.ptp(mean, axis=1)
    value = np.clip(parts.mean(axis=1), low, high)
    for step in range(NEWTON_STEPS + HALVINGS):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scaled = (value[:, None] - mean) / sd
            excess = ndtr(scaled).mean(axis=1) - level
            density = (np.exp(-0.5 * scaled**2) / sd).mean(axis=1) / np.sqrt(2.0 * np.pi)
            moved = value - excess / density
        low, high = np.where(excess < 0, value, low), np.where(excess > 0, value, high)
        inside = (moved >= low) & (moved <= high) & (step < NEWTON_STEPS)
        moved = np.where(inside, moved, 0.5 * (low + high))
        done = np.abs(moved - value) <= ROUNDING * np.abs(moved) + smallest
        value = moved
        if done.all():
            return value
    raise FloatingPointError(
        "quantiles of predictions were not found: draws of the noise's variance, or predictions, "
        "are not finite; rescale columns or outcome."
    )
