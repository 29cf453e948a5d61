"""Bootstrap: replicates are fits of one batch that differ in their row weights.

A replicate is a weight for every unit (row, subject, matched set or group), made anew from the seed
and its number whenever a fit asks for it, so that results depend on neither threads nor order.
"""

from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from pandas import DataFrame, Index, RangeIndex, Series
from sklearn.exceptions import ConvergenceWarning

from .._journal import Journal, describe_call
from .._tables import Result, counted
from .._warnings import warn
from ..data import options
from ..data.intervals import check_level, with_ratios
from ..data.vectors import check_order
from ..estimators._docs import documented
from ..estimators._preparing import prepare
from ..estimators.models.base import model_of
from ..selection.cv import CrossValidated
from ..selection.progress import Progress
from ._replicates import PipelineRefits, check_seeded, fit_in_turn, replicates_of

KINDS = ("multinomial", "exponential")


@dataclass(frozen=True, eq=False, repr=False)
class BootstrapResult(Result):
    """Coefficients of bootstrap replicates; made by `bootstrap`.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
        Coefficients of the fit to all rows.
    coefs : ndarray of shape (n_coef, n_replicates)
        Coefficients of the replicates; NaN where a replicate could not be fitted.
    level : float
        Level of the intervals.
    feature_names : ndarray of shape (n_coef,)
        Name of each row of `coefs`.
    infinite : ndarray of shape (n_coef,), bool
        Coefficients without a finite estimate in all rows, as the estimator's ``infinite_``. Their
        intervals and standard errors are NaN, since replicates have what a fit stopped at.
    alphas : ndarray of shape (n_replicates,) or None
        Penalty that each replicate has chosen, where the estimator chooses it.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, bootstrap
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 20, random_state=0)
    >>> result = bootstrap(CoxLassoCCD(), data.X, data.y, n_replicates=50, random_state=0)
    >>> result
    <BootstrapResult of 50 replicates, 20 coefficients, 95% percentile intervals>
    ...
    >>> result.intervals.columns.tolist()
    ['coef', 'lower', 'upper']
    """

    coef: np.ndarray
    coefs: np.ndarray
    level: float
    feature_names: np.ndarray
    infinite: np.ndarray
    _effect: str | None
    alphas: np.ndarray | None = None
    _draw: tuple | None = None  # kind, seed, units: the weights again
    _columns: tuple | None = None  # of a pipeline: its refits, coefficients that only they have

    _arrays: ClassVar[tuple[str, ...]] = ("coef", "coefs", "feature_names", "infinite")

    def _title(self) -> str:
        return (
            f"BootstrapResult of {self.n_replicates:,} replicates, "
            f"{counted(len(self.coef), 'coefficients')}, {100 * self.level:g}% percentile intervals"
        )

    @property
    def n_replicates(self) -> int:
        """Number of replicates, also those that could not be fitted."""
        return self.coefs.shape[1]

    @property
    def _fitted(self):
        return self.coefs[:, np.isfinite(self.coefs).all(axis=0)]

    @property
    def intervals(self):
        """Percentile intervals: a DataFrame by feature with ``coef``, ``lower`` and ``upper``."""
        tail = 0.5 * (1.0 - self.level)
        lower, upper = np.quantile(self._fitted, [tail, 1.0 - tail], axis=1)
        lower, upper = (np.where(self.infinite, np.nan, bound) for bound in (lower, upper))
        columns = {"coef": self.coef, "lower": lower, "upper": upper}
        return DataFrame(columns, index=self._index())

    @property
    def selection_frequency(self):
        """Share of the replicates in which a coefficient is not zero, a Series by feature."""
        return self._series((self._fitted != 0).mean(axis=1), "selection_frequency")

    @property
    def standard_errors(self):
        """Standard deviation of the replicates, a Series by feature."""
        errors = np.where(self.infinite, np.nan, self._fitted.std(axis=1, ddof=1))
        return self._series(errors, "standard_error")

    def to_frame(self):
        """Table of all replicates.

        Returns
        -------
        table : pandas.DataFrame
            A row for each replicate, a column for each coefficient.
        """
        index = RangeIndex(self.n_replicates, name="replicate")
        return DataFrame(self.coefs.T, index=index, columns=self.feature_names)

    def summary(self):
        """Table of coefficients with intervals, standard errors and selection frequencies.

        Returns
        -------
        table : pandas.DataFrame
            A row for each coefficient, indexed by feature. Where exp(coef) is a ratio, there are
            columns for it and its interval, too.
        """
        table = self.intervals.join([self.standard_errors, self.selection_frequency])
        return with_ratios(table, self._effect)

    def _index(self):
        return Index(self.feature_names, name="feature")

    def _series(self, values, name):
        return Series(values, index=self._index(), name=name)


@documented
def bootstrap(
    estimator,
    X,
    y,
    *,
    n_replicates=200,
    level=0.95,
    kind="multinomial",
    groups=None,
    random_state=None,
    folder=None,
    **fit_params,
) -> BootstrapResult:
    """Bootstrap: refit an estimator to rows drawn at random, for intervals and frequencies.

    The bootstrap draws `groups` if they are given, otherwise the subjects or matched sets of the
    outcome, otherwise rows. A replicate is ``fit`` with ``sample_weight`` multiplied by the weights
    of the draw, at the same ``alpha``; all replicates are solved together, from the fit to all
    rows.

    Parameters
    ----------
    estimator : estimator of this package, or pipeline
        Model and options; it is not changed. One that chooses its penalty, such as `CoxLassoCV`,
        chooses anew in every replicate, with all rows of a unit in one fold, so that intervals
        know of the choice; this takes as long as so many cross-validations.
    <<rows_to_fit>>
    n_replicates : int, default=200
        Number of replicates, at least 2.
    level : float, default=0.95
        Level of the percentile intervals.
    kind : {"multinomial", "exponential"}, default="multinomial"
        Weights of a replicate: how often each unit is drawn when as many as there are are drawn
        with replacement; or independent standard exponential numbers, the Bayesian bootstrap, in
        which no unit is ever left out.
    groups : array-like of shape (n_samples,), optional
        Labels of rows that are drawn together, such as persons or hospitals.
    random_state : int, RandomState instance or None, default=None
        Seed of the weights.
    folder : path, optional
        New folder in which finished replicates are kept, 16 at a time; where the same call is made
        again after it was ended, whatever ended it, it goes on with the others, to the same
        result. It needs a seed.
    <<more_to_fit>>

    Returns
    -------
    result : BootstrapResult
        Coefficients of all replicates, intervals and selection frequencies.

    Notes
    -----
    A replicate of a pipeline fits transformers to the rows that were drawn, and takes as long as
    its fit. The result has the columns of all rows. Of one that a replicate does not make, such as
    a level that was not drawn, the coefficient is 0 there; without a penalty it is NaN, and the
    replicate left out of intervals. A search stands for its best estimator.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, bootstrap
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 20, random_state=0)
    >>> result = bootstrap(CoxLassoCCD(), data.X, data.y, n_replicates=50, random_state=0)
    >>> result.coefs.shape
    (20, 50)
    >>> bool(result.selection_frequency.between(0, 1).all())
    True
    """
    check_order(X=X, groups=groups)
    fitted, refits, X = PipelineRefits.open(
        estimator, X, y, "bootstrap", fit_params, may_choose=True
    )
    level = check_level(level)
    options.whole(n_replicates, "n_replicates", 2, "must be an integer of at least 2")
    why = " for a pipeline: transformers learn from rows, not weights" if refits else ""
    options.choice(kind, "kind", KINDS[:1] if refits else KINDS, why)
    check_seeded(folder, random_state)
    with closing(prepare(fitted, X, y, n_fits=n_replicates, **fit_params)) as prepared:
        weight = fit_params.get("sample_weight")
        replicates = replicates_of(fitted, prepared, weight, groups, kind, random_state)
        is_in_turn = refits is not None or isinstance(fitted, CrossValidated)
        fit = partial(fit_in_turn, X=X, y=y, refits=refits) if is_in_turn else _fit
        n_replicates = int(n_replicates)
        return _resample(fitted, refits, fit, prepared, replicates, n_replicates, level, folder)


def _resample(fitted, refits, fit, prepared, replicates, n_replicates, level, folder):
    totals = replicates.totals(n_replicates)
    of = describe_call("bootstrap", fitted, **prepared.describe(), steps=refits)
    of |= {"n_replicates": n_replicates, "kind": replicates.kind, "groups": replicates.unit}
    of["random_state"] = np.array(replicates.seed)  # which users did not choose
    seed = getattr(fitted, "random_state", None)
    of["seed of folds"] = seed.get_state() if hasattr(seed, "get_state") else seed
    numbers = np.flatnonzero(totals)
    if len(numbers) < 2:
        raise ValueError(
            f"{len(numbers)} of {len(totals):,} replicates can be fitted, the others have no event "
            'or nothing to compare; use kind="exponential", in which every row keeps some weight.'
        )
    with Journal(folder, of) as journal:
        full, found = fit(fitted, prepared, replicates, totals, journal)
    more = found.pop("more", None)
    columns = refits and (replace(refits, X=None, y=None, fit_params=None), more)
    values = {name: np.full((*v.shape[:-1], len(totals)), np.nan) for name, v in found.items()}
    for name, of_replicates in values.items():
        of_replicates[..., numbers] = found[name]
    is_free = full.lam * prepared.batch.factor == 0
    infinite = prepared.find_infinite(is_free)
    names = prepared.setting.names
    is_there = ~np.isnan(values["converged"])
    converged = [full.converged, *values["converged"][is_there]]
    _warn(fitted, converged, len(totals), names[infinite])
    draw = None if prepared.in_partitions else (replicates.kind, replicates.seed, replicates.unit)
    return BootstrapResult(
        full.coef,
        values["coef"],
        level,
        names,
        infinite,
        model_of(fitted).effect,
        values.get("alpha"),
        draw,
        columns,
    )


def _fit(model, prepared, replicates, totals, journal):
    """Solution of all rows; of the replicates that can be fitted, coefficients and convergence."""
    numbers = np.flatnonzero(totals)
    verbose = max(int(model.verbose) - 1, 0)
    has_intercept = prepared.problem.has_intercept  # the only baselines that blends ask for
    prepared = prepared.with_options(baseline=has_intercept, verbose=verbose)
    # its quadratic model serves the replicates, which are near it
    full, loan = prepared.solve_and_lend(float(model.alpha), len(numbers))
    progress = Progress(model)

    def fit(some):
        solutions = prepared.solve(
            np.full((1, len(some)), float(model.alpha)),
            total=totals[some],
            on_fit=done,
            weight=replicates.columns(some),
            coef=full.coef[:, None],
            null=(full.null,),
            loan=loan,
            share=totals[some] / prepared.total_weight,
        )
        return {
            "coef": np.stack([solution.coef for [solution] in solutions], axis=1),
            "converged": np.array([solution.converged for [solution] in solutions]),
        }

    with progress.batch("bootstrap", len(numbers)) as done:
        parts = [
            journal.keep(f"replicates-{part.start}", partial(fit, numbers[part]))
            for part in journal.slices(len(numbers))
        ]
    progress.end()
    return full, {name: np.concatenate([p[name] for p in parts], axis=-1) for name in parts[0]}


def _warn(model, converged, n_replicates, infinite):
    if len(infinite):
        columns = options.quoted(infinite)
        warn(
            f"the coefficients of {columns} are infinite, because the columns separate the "
            "events; their intervals and standard errors are NaN. Take `profile_likelihood`, one "
            "of whose bounds is finite.",
            ConvergenceWarning,
        )
    missing = n_replicates + 1 - len(converged)
    if missing:
        warn(
            f"{missing:,} of {n_replicates:,} replicates have no event or nothing to compare, or "
            "lack a column without a penalty (a level that was not drawn), and are NaN; "
            'kind="exponential" leaves no row out, and a penalty gives such columns 0.',
            UserWarning,
        )
    failed = len(converged) - sum(converged)
    if failed:
        warn(
            f"{failed:,} of the {len(converged):,} fits of the bootstrap did not converge, one of "
            f"which is the fit to all rows; raise max_iter={model.max_iter:,} or tol={model.tol:g}"
            ", or penalize columns whose coefficients may be infinite in a replicate.",
            ConvergenceWarning,
        )
