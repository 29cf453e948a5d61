r"""Score test of proportional hazards.

If the coefficient of column j were :math:`\beta_j + \theta_j g(t)`, the score of :math:`\theta` at
0 would be the sum of g times the Schoenfeld residuals, and its information, with :math:`I_m` the
information in which the atoms' weights are multiplied by :math:`g^m`,

.. math:: I_2 - I_1' I_0^{-1} I_1

because :math:`\beta` was estimated, too (Grambsch and Therneau 1994, without their approximation
that the variance of a column is the same in all risk sets). g is centred at its mean over events.
"""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, cast

import numpy as np
from pandas import DataFrame, Index, Series
from scipy.stats import chi2

from .._tables import MOST_OF_A_FIT, Result, counted
from ..data.by_column import find_columns
from ..data.options import choice
from ..estimators.fitted import fitted_of
from ..information.views import view_of
from ..patterns.risk_sets.information import RiskSetView
from ..penalties.labels import read_labels
from ._covariance import invert_information
from ._rows import documented, open_rows, require_unpenalized
from .joint import quadratic_form
from .residuals import open_survival_fit, scale_schoenfeld, schoenfeld_of

INSTEAD = (
    "After a selection by penalty the statistic has no chi-squared distribution: fit the columns "
    "in question with alpha=0, best on other rows than those that selected them."
)


@dataclass(frozen=True, eq=False, repr=False)
class ProportionalHazardsResult(Result):
    """Test of proportional hazards; made by `proportional_hazards_test`.

    Attributes
    ----------
    table : pandas.DataFrame
        ``chisq``, ``df`` and ``p_value`` of every tested column, or of the columns of each group,
        and of all of them together in the last row, ``GLOBAL``. Columns that depend on those before
        them are left out, and NaN where they are by themselves.
    time : ndarray of shape (n_events,)
        Times of the events, in the order of strata and time.
    transformed_time : ndarray of shape (n_events,)
        The function of time that was tested, at these times.
    residuals : ndarray of shape (n_events, n_columns)
        Scaled Schoenfeld residuals of the tested columns; smoothed over `transformed_time` they
        show how a coefficient changes.
    transform : str
        Name of the function of time.
    row_of : pandas.Series or None
        With groups the position in `table` of the row of each tested column, by its name.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, proportional_hazards_test
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 3, density=0.3, random_state=0)
    >>> model = CoxLassoCCD(alpha=0).fit(data.X, data.y)
    >>> proportional_hazards_test(model, data.X, data.y)
    <Test of proportional hazards over km: 3 columns, GLOBAL chi2(3) = ..., p = ...>
               chisq df p_value
    x0      0.000428  1  0.9835
    x1        0.3255  1  0.5683
    ...
    """

    table: Any
    time: np.ndarray
    transformed_time: np.ndarray
    residuals: np.ndarray
    transform: str
    row_of: Any = None
    _most_rows = MOST_OF_A_FIT

    def _title(self) -> str:
        chisq, df, p = self.table.iloc[-1]  # a feature may have this name, too
        of = f"{self.transform}: {counted(self.residuals.shape[1], 'columns')}"
        test = f"chi2({df:g}) = {chisq:.4g}, p = {p:.3g}"
        return f"Test of proportional hazards over {of}, GLOBAL {test}"


@documented
def proportional_hazards_test(
    estimator, X, y, columns=None, transform="km", *, groups=None, **fit_params
) -> ProportionalHazardsResult:
    """Test whether coefficients of a Cox or Fine-Gray model change with a function of time.

    Parameters
    ----------
    estimator : CoxLassoCCD or FineGrayCCD, or pipeline
        Fitted without a penalty.
    <<rows_of_fit>>
    columns : str, int or list of these, optional
        Columns to test, by name or position; by default all. The others are adjusted for.
    transform : {"km", "rank", "identity", "log"} or callable, default="km"
        Function of time: one minus the Kaplan-Meier curve just before it (with competing events,
        the cumulative incidence), its rank among all times, the time itself, its logarithm, or a
        function of an array of times.
    groups : array-like of shape (n_features,), dict or "prefix", optional
        Columns that are tested together, such as levels of a factor or splines of a variable, as
        `GroupLasso` takes them: what `groups_from` tells of a transformer, say.
    <<more_of_fit>>

    Returns
    -------
    result : ProportionalHazardsResult
        Table of tests; times and residuals for plots.

    Notes
    -----
    The score test of ``cox.zph`` in version 3 of R's survival, not the correlation test of earlier
    versions; with `groups` that of its terms. For a Fine-Gray model it takes the weights of rows
    that stay after a competing event as known; ranks and curves are those of the rows given, not of
    those that ``finegray`` makes of them.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD, proportional_hazards_test
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 3, density=0.3, random_state=0)
    >>> model = CoxLassoCCD(alpha=0).fit(data.X, data.y)
    >>> proportional_hazards_test(model, data.X, data.y, [2], np.sqrt).table.index.tolist()
    ['x2', 'GLOBAL']

    Of a factor, whose columns are tested together:

    >>> proportional_hazards_test(model, data.X, data.y, groups={"site": [1, 2]})
    <Test of proportional hazards over km: 3 columns, GLOBAL chi2(3) = ..., p = ...>
               chisq df p_value
    x0      0.000428  1  0.9835
    site       ...
    ...
    """
    estimator, X = open_survival_fit(estimator, "test of proportional hazards", X)
    require_unpenalized(estimator, "the test of proportional hazards", INSTEAD)
    tested = _positions(estimator, columns)
    names, row_of = _rows_of(estimator, groups, tested)
    rows = open_rows(estimator, X, y, fit_params)
    if rows.plan.n_pieces > 1:
        raise ValueError(
            "`estimator` has coefficients that change over time (time_varying), whose hazards are "
            "not meant to be proportional; test a fit without them."
        )
    view = cast(RiskSetView, view_of(rows))
    inverse = invert_information(view)
    event = view.state.event
    time, schoenfeld = rows.plan.cell_time[rows.plan.exit_idx[event]], schoenfeld_of(view)
    transformed = _transform(transform, rows, time)
    score_time = transformed - transformed.mean()
    score_time /= np.abs(score_time).max()  # any scale does
    slope = (rows.weight[event] * score_time) @ schoenfeld
    variance, size = _variance_of_slope(view, score_time, inverse)
    kept = inverse.identified[tested]
    members = [tested[kept & (row_of == k)] for k in range(len(names))]
    members.append(tested[~estimator.infinite_[tested]])  # the others have nothing left to test
    tests = [quadratic_form(slope[own], variance[np.ix_(own, own)], size[own]) for own in members]
    scaled = scale_schoenfeld(schoenfeld, inverse, estimator.coef_)
    of_columns = None if groups is None else Series(row_of, fitted_of(estimator).names[tested])
    return ProportionalHazardsResult(
        table=_table(tests, names),
        time=time,
        transformed_time=transformed,
        residuals=scaled[:, tested],
        transform=_name_of(transform),
        row_of=of_columns,
    )


def _positions(estimator, columns) -> np.ndarray:
    """Positions of the columns to test."""
    n = estimator.n_features_in_
    if columns is None:
        return np.arange(n)
    listed = [columns] if isinstance(columns, str | Integral) else list(columns)
    if not listed:
        raise ValueError("`columns` is empty; name one or more columns of X.")
    names = getattr(estimator, "feature_names_in_", None)
    found = [*find_columns(listed, "columns", n, names)]
    if len(set(found)) < len(found):
        raise ValueError(f"`columns` is {listed!r}, which names a column twice.")
    return np.array(found)


def _rows_of(estimator, groups, tested) -> tuple[list, np.ndarray]:
    """Names of the rows of the table, and the row of each of the columns to test."""
    n, names = estimator.n_features_in_, getattr(estimator, "feature_names_in_", None)
    labels = [None] * n if groups is None else read_labels(groups, n, names)
    names, row_of = fitted_of(estimator).names, {}
    keys = [(j, names[j]) if labels[j] is None else (-1, labels[j]) for j in tested]
    rows = [row_of.setdefault(key, len(row_of)) for key in keys]
    return [name for _, name in row_of], np.array(rows)


def _transform(transform, rows, time) -> np.ndarray:
    """Function of time at the events."""
    if isinstance(transform, str):
        choice(transform, "transform", _TRANSFORMS, " or a function of an array of times")
        values = _TRANSFORMS[transform](time, rows)
    elif callable(transform):
        values = np.asarray(transform(time.copy()), dtype=np.float64)
    else:
        raise TypeError(
            f"`transform` is of type {type(transform).__name__}; pass a name or a function."
        )
    if values.shape != time.shape or not np.isfinite(values).all():
        raise ValueError(
            f"`transform` ({_name_of(transform)}) must make of {len(time):,} times as many finite "
            f"numbers, and made an array of shape {values.shape} with "
            f"{np.count_nonzero(~np.isfinite(values)):,} others; choose another one."
        )
    if not np.ptp(values) > 0:
        raise ValueError(
            f"`transform` ({_name_of(transform)}) is the same at all {len(time):,} events, so "
            "that no change over it can be seen; take another function of time."
        )
    return values


def _name_of(transform) -> str:
    return transform if isinstance(transform, str) else getattr(transform, "__name__", "function")


def _counted(rows, *fields):
    """Fields of the outcome for the rows of positive weight; None where there is none."""
    counts = slice(None) if rows.given_weight is None else rows.given_weight > 0
    found = (getattr(rows.outcome, field, None) for field in fields)
    return [None if values is None else values[counts] for values in found]


def _logarithm(time, rows) -> np.ndarray:
    with np.errstate(divide="ignore"):  # an event at time 0 gets a message
        return np.log(time)


def _rank(time, rows) -> np.ndarray:
    """Rank among the times of all rows, ties sharing the mean of theirs."""
    (until,) = _counted(rows, "time")
    until = np.sort(until)
    low, high = (np.searchsorted(until, time, side=side) for side in ("left", "right"))
    return (low + high + 1) / 2.0


def _incidence_before(time, rows) -> np.ndarray:
    """Cumulative incidence before each time, by all rows, whatever their stratum.

    Without competing events this is one minus the Kaplan-Meier curve.
    """
    until, since, event, status = _counted(rows, "time", "start", "event", "status")
    ended = event if status is None else status > 0
    distinct, of_row = np.unique(until[ended], return_inverse=True)
    events, endings = np.bincount(of_row, event[ended]), np.bincount(of_row)
    at_risk = len(until) - np.searchsorted(np.sort(until), distinct, side="left")
    if since is not None:
        at_risk -= len(since) - np.searchsorted(np.sort(since), distinct, side="left")
    survival = np.append(1.0, np.cumprod(1.0 - endings / at_risk))
    incidence = np.append(0.0, np.cumsum(survival[:-1] * events / at_risk))
    return incidence[np.searchsorted(distinct, time, side="left")]


_TRANSFORMS = {
    "km": _incidence_before,
    "rank": _rank,
    "identity": lambda time, rows: time,
    "log": _logarithm,
}


def _variance_of_slope(view, score_time, inverse) -> tuple[np.ndarray, np.ndarray]:
    """Information of the slopes over time, with what it cost to estimate the coefficients.

    Also its diagonal before means within risk sets were taken out.
    """
    cell_of_event = view.state.exit_idx[view.state.event]
    of_cell = np.zeros(view.rows.plan.n_cells)
    of_cell[cell_of_event] = score_time
    at_atoms = of_cell[view.atoms.cell]
    first = view.reweighted(at_atoms).information()[0]
    second, size = view.reweighted(at_atoms**2).information()
    return second - first @ inverse.matrix @ first, size


def _table(tests, names):
    """Tests of rows, and of all columns together."""
    chisq, df = np.array(tests).T
    chisq[df == 0] = np.nan
    return DataFrame(
        {"chisq": chisq, "df": df.astype(np.int64), "p_value": chi2.sf(chisq, df)},
        index=Index([*names, "GLOBAL"], name="feature"),
    )
