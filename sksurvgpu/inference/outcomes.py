"""Many outcomes of the same rows: one X, and for every outcome the effect of some of its columns.

Outcomes differ in events, times, strata, weights and rows at risk, of which X knows nothing. So it
is checked once, put once into the order of strata that outcomes share, and its columns are centred
once; a row that is not at risk has a weight of 0. Plans of outcomes then leave its rows where they
are (`Design.keeps_order`), and no fit has a copy. Fits are independent: threads take one each.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pandas import DataFrame, Index, MultiIndex, concat

from .._journal import Journal, describe_call, digest_of
from .._tables import Result, counted, in_brief
from .._threads import Pool
from .._warnings import keep_warnings
from ..backends.cpu.threads import one_blas_thread
from ..data.intervals import check_level, with_ratios
from ..data.partitioned import in_partitions
from ..estimators._prepared import count_threads
from ..estimators.models.base import model_of
from ..estimators.pipelines import split_pipeline
from ..estimators.stacking import Sharing
from ..selection.progress import Progress
from ._outcome import COUNTS, ESTIMATES, Effects, SharedInput, message_of
from ._outcome_in_partitions import SharedPartitions
from ._outcomes_tied import fit_tied

MOST_OF_NAME = 40  # letters of an outcome's name in that of its file


@dataclass(frozen=True, eq=False, repr=False)
class OutcomesResult(Result):
    """Effects of some columns on many outcomes; made by `fit_outcomes`.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each outcome, indexed by its name, or for each outcome and feature where there are
        several: rows ``n_at_risk`` and their ``n_events`` (missing for numbers that count none);
        of a column of zeros and ones, ``n_exposed`` rows at risk with a one, and their
        ``n_events_exposed``; ``coef``, ``standard_error``, ``lower``, ``upper`` and ``p_value``;
        the ``alpha`` of the fit; where exp(coef) is a ratio, such as ``hazard_ratio``, that and its
        bounds; ``status`` and ``message``. The status is "ok"; "infinite" where the coefficient
        has no finite estimate; "not converged" where some fit has not; or "failed" where there was
        nothing to fit, as without an event. The message says why, and has all warnings.
    curves : pandas.DataFrame or None
        Points of the profile likelihoods, with ``outcome`` and the columns of
        ``ProfileResult.curves``; None without profiles.
    level : float
        Level of the intervals.
    intervals : str or None
        What intervals are.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, fit_outcomes, surv
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 20, random_state=0)
    >>> outcomes = {"first": data.y, "none": surv([False] * 1_000, data.y["time"])}
    >>> result = fit_outcomes(CoxLassoCCD(), data.X, outcomes, columns=0)
    >>> result
    <OutcomesResult of 2 outcomes, 1 failed, 95% profile intervals>
    ...
    >>> result.table.loc["none", "message"]
    '`y` has no event (all 1,000 rows censored): a Cox model cannot be fitted.'
    """

    table: Any
    curves: Any
    level: float
    intervals: str | None
    _effect: str | None

    def _title(self) -> str:
        outcomes = self.table.index.get_level_values("outcome")
        counts = self.table["status"].value_counts(sort=False)
        others = [f"{n:,} {status}" for status, n in counts.items() if status != "ok"]
        parts = [counted(outcomes.nunique(), "outcomes"), *others]
        if self.intervals is not None:
            name = "Wald" if self.intervals == "wald" else self.intervals
            parts.append(f"{100 * self.level:g}% {name} intervals")
        return f"OutcomesResult of {', '.join(parts)}"

    def _head(self, n):
        left_out = ["n_exposed", "n_events_exposed", "alpha", "message"]
        table = self.table.head(n).drop(columns=left_out, errors="ignore")
        return in_brief(table, self._effect), len(self.table)

    @property
    def estimates(self):
        """Table of ``coef`` and ``standard_error``, missing where the status is not "ok"."""
        return self.table[["coef", "standard_error"]].where(self.table["status"] == "ok")

    @property
    def failures(self):
        """Status and message of all outcomes that are not "ok"."""
        return self.table.loc[self.table["status"] != "ok", ["status", "message"]]


def fit_outcomes(
    estimator,
    X,
    outcomes,
    *,
    columns,
    at_risk=None,
    level=0.95,
    intervals="profile",
    shared=None,
    between=None,
    fused=None,
    folder=None,
    n_jobs=None,
    **fit_params,
) -> OutcomesResult:
    """Estimate the effects of some columns of X on many outcomes, in one call.

    X is checked, sorted and stored once for all outcomes; threads fit outcomes in parallel. If an
    outcome cannot be fitted, its line in the table says why.

    Parameters
    ----------
    estimator : estimator of this package
        Model and options; it is not changed. One that chooses its penalty, such as `CoxLassoCV`,
        chooses it for each outcome.
    X : scipy sparse matrix or array, ndarray, DataFrame or Design of shape (n_samples, n_features)
        Covariates; or rows in partitions (:doc:`/guide/partitions`), whose outcomes and further
        arguments may be arrays of all rows, in their order.
    outcomes : dict of {str: array}
        By name, outcomes as the estimator's ``fit`` takes them; or a table with one in each column.
        An outcome is read when it is its turn, so that a mapping may make it then.
    columns : str, int or list of these
        Columns of X by name or position, such as the treatment, whose effects are wanted.
    at_risk : array-like or dict of {str: array-like}, optional
        Who can have an outcome: a mask of the rows of X, or numbers of rows, for all outcomes or
        by their names; all rows where nothing is said. Others, such as persons who had the outcome
        before, have no weight. The outcome, and all of `fit_params`, then have an entry for every
        row of X or for every row at risk, in the order of these.
    level : float, default=0.95
        Level of the intervals.
    intervals : {"profile", "wald", "robust"} or None, default="profile"
        Profile likelihood, in which the columns have no penalty; Wald intervals of a fit without
        any penalty, with standard errors of the model or robust ones; or none, only coefficients.
    shared : list of columns or "all", optional
        Columns of X whose coefficient is the same for all outcomes, those of a Cox model; ``[]``
        for none. With this, `between` or `fused` all outcomes are one fit, as the hazards of
        `CauseSpecificCox` are: a stratum for each outcome.
    between : float, optional
        Strength by which the coefficients of a column are pulled to one of all outcomes, as by
        `Hierarchical`.
    fused : float, optional
        Strength by which they are pulled to those of the outcome before, as by `Fused`.
    folder : path, optional
        New folder in which finished outcomes are kept: where the call is made again after it was
        ended, whatever ended it, or with more outcomes, these are not fitted again. An outcome that
        has failed, or that differs, is.
    n_jobs : int, optional
        Threads; by default those of the estimator. Each has an outcome of its own; where X is
        small, fewer have (:doc:`/guide/performance`).
    **fit_params : array-like of shape (n_samples,) or dict of {str: array-like}, optional
        Further arguments of the estimator's ``fit``, such as `sample_weight` or `strata`, for all
        outcomes or by their names.

    Returns
    -------
    result : OutcomesResult
        Table of effects, curves of profiles, and estimates to calibrate.

    Notes
    -----
    With coefficients in common an outcome without an event takes no part. A row at risk of several
    outcomes is a row of the fit for each, and one cluster of robust intervals; their columns are
    copied, 6 bytes an entry of ones (22 of other values), and 4 more while they are put together.

    The standard error of a profile is that of the normal distribution with an interval as wide.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, fit_outcomes, surv
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 20, random_state=0)
    >>> event, time = data.y["event"], data.y["time"]
    >>> outcomes = {"any": data.y, "early": surv(event & (time < 50), time.clip(max=50))}
    >>> model = CoxLassoCCD(penalty_factor={0: 0.0})
    >>> result = fit_outcomes(model, data.X, outcomes, columns=0, at_risk={"early": time > 1.5})
    >>> result.table[["n_at_risk", "n_events", "status"]]
             n_at_risk  n_events status
    outcome
    any           1000       929     ok
    early          984       687     ok
    >>> result.estimates.columns.tolist()
    ['coef', 'standard_error']
    """
    level = check_level(level)
    given = fit_params if at_risk is None else fit_params | {"at_risk": at_risk}
    share = SharedPartitions if in_partitions(X) else SharedInput
    study = share(estimator, X, columns, intervals, level, given)
    names = _check_names(outcomes, given)
    n_threads = count_threads(study.model.n_jobs if n_jobs is None else n_jobs)
    if sharing := Sharing(shared, between, fused):
        study.model.set_params(n_jobs=n_threads)
        found = fit_tied(study, names, outcomes, sharing, folder)
        return _gather(names, study, found, level, intervals)
    study.arrange(outcomes[names[0]], n_threads)
    n_at_once = min(n_threads, len(names), study.most_at_once)
    inner = max(int(study.model.verbose) - 1, 0)
    study.model.set_params(n_jobs=max(1, n_threads // n_at_once), verbose=inner)
    of = {
        "X": None if folder is None else study.describe(),
        "columns": study.features,
        "intervals": intervals,
        "level": level,
    }
    of["random_state"] = getattr(study.model, "random_state", None)  # of folds
    of = describe_call("fit_outcomes", study.model, **of)
    progress, found = Progress(split_pipeline(estimator)[1]), []
    with (
        Journal(folder, of) as journal,
        progress.batch("outcomes", len(names)) as done,
        one_blas_thread(),
    ):
        keep = partial(_keep, study, journal)
        for effects in _in_threads(keep, ((name, outcomes[name]) for name in names), n_at_once):
            found.append(effects)
            done(effects)
    progress.end()
    return _gather(names, study, found, level, intervals)


def _check_names(outcomes, given):
    """Names of the outcomes; refuses names of others."""
    if not hasattr(outcomes, "keys") or not hasattr(outcomes, "__getitem__"):
        raise TypeError(
            f"`outcomes` is of type {type(outcomes).__name__}; pass a dict of outcomes by name."
        )
    names = list(outcomes.keys())
    if not names:
        raise ValueError("`outcomes` is empty; pass one or more.")
    if any(isinstance(name, tuple) for name in names):
        raise TypeError("`outcomes` has a tuple as a name; pass texts or numbers.")
    for key, value in given.items():
        unknown = (
            [name for name in value if name not in names] if isinstance(value, Mapping) else ()
        )
        if unknown:
            raise ValueError(f"`{key}` names {unknown[0]!r}, which is none of the `outcomes`.")
    return names


def _keep(study, journal, name, y) -> Effects:
    """Effects on one outcome: what is in the folder, or else of a fit, which is kept."""
    effects = Effects.none(len(study.features))
    try:
        with keep_warnings() as warned:
            given = study.read(name, y)
            # one that differs has another file
            text = re.sub(r"[^\w-]+", "-", str(name))[:MOST_OF_NAME]
            key = "" if journal.folder is None else f"{text}-{digest_of([name, given])}"
            kept = journal.read(key)
            if kept is not None:
                return Effects.unpack(kept)
            study.fit(effects, given, warned)
        if "failed" not in effects.status:
            journal.write(key, effects.pack(), compress=True)
    except Exception as error:  # of one outcome, which is not to end the others
        effects.message = [message_of(error)] * len(study.features)
    return effects


def _in_threads(function, items, n_threads):
    """Results of a function in the order of items, which are made when it is their turn."""
    if n_threads == 1:
        yield from (function(*item) for item in items)
        return
    waiting: deque = deque()
    with Pool(n_threads) as pool:
        for item in items:
            waiting.append(pool.submit(function, *item))
            if len(waiting) > n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _gather(names, study, found, level, intervals):
    """The tables of an `OutcomesResult`."""
    features, effect = study.features, model_of(study.model).effect
    index = Index(names, name="outcome")
    if len(features) > 1:
        index = MultiIndex.from_product([names, features], names=["outcome", "feature"])
    counts = np.concatenate([effects.counts for effects in found])
    table = DataFrame(counts, index, list(COUNTS)).astype("Int64")
    estimates = np.concatenate([effects.estimates for effects in found])
    table[list(ESTIMATES)] = estimates
    table["alpha"] = np.repeat([effects.alpha for effects in found], len(features))
    table = with_ratios(table, effect)
    for text in ("status", "message"):
        table[text] = [value for effects in found for value in getattr(effects, text)]
    curves = []
    for name, effects in zip(names, found, strict=True):
        points = DataFrame(effects.curve, columns=effects.curve_names)
        if len(points):
            feature = [features[int(k)] for k in points["feature"]]
            curves.append(points.assign(outcome=name, feature=feature).set_index("outcome"))
    curves = concat(curves).reset_index() if curves else None
    return OutcomesResult(table, curves, level, intervals, effect)
