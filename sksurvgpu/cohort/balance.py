r"""Balance: how far apart the columns of treated rows and comparators are, before and after.

With means m and variances v of a column among treated rows (1) and comparators (0), weighted after
an adjustment, its standardized difference is

    (m1 - m0) / s,    s^2 = (v1 + v0) / 2,  v1  or  v0.

Rows before all weigh 1; what they weigh after is in `adjustment`.

The variance of a column of zeros and ones is m (1 - m); others divide by n - 1, with the effective
number of rows (sum w)^2 / sum w^2 for n under weights (Austin and Stuart 2015).
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from pandas import DataFrame

from .._tables import Result, counted
from .._warnings import warn
from ..backends import to_host
from ..data import options
from ..data.design.columns import build_design
from ..data.design.sums import column_names, sum_by_group
from ..data.partitioned import check_in_memory, in_partitions
from ..data.vectors import check_length
from ..estimators._prepared import count_threads
from ..exceptions import TreatmentPredictedWarning
from ..partitions.columns import ColumnsInPartitions
from .adjustment import ARMS, ESTIMANDS, weights_after
from .checks import check_treatment

SCALES = ("pooled", "treated", "comparator")
ROUNDING = 1e-12  # of sums over all rows
LISTED = 5  # names in a warning
UNBALANCED = 0.1  # difference that studies call so
BEYOND_CHANCE = 3.0  # standard errors


@dataclass(frozen=True, eq=False, repr=False)
class BalanceResult(Result):
    """Standardized differences between treated rows and comparators; made by `cohort.balance`.

    Attributes
    ----------
    table : pandas.DataFrame
        A line for each column of X: ``std_diff_before`` and ``std_diff_after``, the ``mean``,
        ``sd`` and ``prevalence`` (share of rows that are not 0) of each arm before and after, such
        as ``mean_treated_before``, and the ``correlation`` with the treatment before. Without an
        adjustment there is nothing after.
    rows : pandas.DataFrame
        For ``before`` and ``after``, how many rows of each arm have a weight, and their effective
        number, the squared sum of weights over the sum of their squares.
    left_out : pandas.Series
        Rows without a weight after, by the reason why.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu.cohort import balance
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1_000, 3))
    >>> treatment = rng.random(1_000) < 1 / (1 + np.exp(-X[:, 0]))
    >>> result = balance(X, treatment, strata=np.digitize(X[:, 0], [-1, -0.5, 0, 0.5, 1]))
    >>> result
    <BalanceResult of 3 columns: largest standardized difference 1.00 before, 0.09 after>
       std_diff_before std_diff_after mean_treated_after mean_comparator_after
    x0          0.9987        0.08832             0.3494                0.2711
    x2        -0.03961       -0.06539            -0.0494               0.01742
    ...
    >>> result.largest(1).index.tolist()
    ['x0']
    """

    table: object
    rows: object
    left_out: object

    def _title(self) -> str:
        found = [f"{self._differences(when).max():.2f} {when}" for when in self.rows.index]
        n_columns = len(self.table)
        return (
            f"BalanceResult of {counted(n_columns, 'columns')}: largest "
            f"standardized difference {', '.join(found)}"
        )

    def _head(self, n):
        arms = [f"mean_{arm}_{self.rows.index[-1]}" for arm in ("treated", "comparator")]
        shown = [*self.table.columns[self.table.columns.str.startswith("std_diff")], *arms]
        return self.largest(n)[shown], len(self.table)

    def _differences(self, when):
        return self.table[f"std_diff_{when}"].abs()

    def summary(self, threshold=0.1):
        """Largest, mean and number of the absolute standardized differences.

        Parameters
        ----------
        threshold : float, default=0.1
            Above which a column counts as not balanced.

        Returns
        -------
        table : pandas.DataFrame
            Lines ``before`` and ``after``: rows of each arm and their effective numbers, the
            ``largest`` and the ``mean`` difference, and how many and what ``share`` of the
            columns are ``above`` the threshold.
        """
        threshold = options.number(threshold, "threshold", "must be a positive number", above=0)
        table = self.rows.copy()
        for when in table.index:
            differences = self._differences(when)
            table.loc[when, ["largest", "mean"]] = differences.max(), differences.mean()
            table.loc[when, "above"] = (differences > threshold).sum()
        table["share"] = table["above"] / len(self.table)
        return table.astype({"above": int})

    def largest(self, n=10, when=None):
        """Columns with the largest absolute standardized differences.

        Parameters
        ----------
        n : int, default=10
            How many.
        when : {"before", "after"}, optional
            By default after, where there was an adjustment.

        Returns
        -------
        table : pandas.DataFrame
            Lines of `table`, the largest difference first.
        """
        when = self.rows.index[-1] if when is None else when
        if when not in self.rows.index:
            raise ValueError(f"`when` is {when!r}, must be {' or '.join(self.rows.index)}.")
        order = np.argsort(-self._differences(when).to_numpy(), kind="stable")
        return self.table.iloc[order[: max(int(n), 0)]]

    def table_one(self, digits=1):
        """The table of characteristics of both arms that reports begin with.

        Parameters
        ----------
        digits : int, default=1
            Of percentages, means and deviations.

        Returns
        -------
        table : pandas.DataFrame
            A line for each column of X, and ``n`` before them, as text: the share of rows with a
            one in percent, or the mean and (standard deviation) of a number, in each arm before
            and after; and ``std_diff``.
        """
        options.whole(digits, "digits", 0)
        columns = {}
        for when in self.rows.index:
            for arm in (ARMS[1], ARMS[0]):
                mean, sd = (self.table[f"{part}_{arm}_{when}"] for part in ("mean", "sd"))
                columns[when, arm] = [f"{self.rows.loc[when, arm]:,}"] + [
                    f"{100 * m:.{digits}f}%" if binary else f"{m:.{digits}f} ({s:.{digits}f})"
                    for m, s, binary in zip(mean, sd, self._is_binary(), strict=True)
                ]
            found = self.table[f"std_diff_{when}"]
            columns[when, "std_diff"] = ["", *(f"{value:.2f}" for value in found)]
        return DataFrame(columns, index=["n", *self.table.index])

    def _is_binary(self):
        """Whether means are shares of ones, and say how columns vary."""
        mean, ones, sd = (
            self.table[[f"{part}_{arm}_before" for arm in ARMS]].to_numpy()
            for part in ("mean", "prevalence", "sd")
        )
        return (np.abs(mean - ones) + np.abs(sd**2 - ones * (1 - ones)) <= ROUNDING).all(axis=1)


def balance(
    X,
    treatment,
    *,
    weights=None,
    strata=None,
    rows=None,
    estimand="att",
    scale="pooled",
    scale_of="before",
    suspect=0.9,
    n_jobs=None,
) -> BalanceResult:
    """Standardized differences of all columns between two arms, before and after an adjustment.

    Parameters
    ----------
    X : scipy sparse matrix or array, ndarray, DataFrame or Design of shape (n_rows, n_columns)
        Covariates, of all rows before the adjustment, in memory or in partitions. Sparse ones are
        not made dense.
    treatment : array-like of shape (n_rows,), bool or 0/1
        Which rows are treated; the others are comparators.
    weights : array-like of shape (n_chosen,), optional
        Weights after, such as those of `cohort.weigh`; 0 leaves a row out.
    strata : array-like of shape (n_chosen,), optional
        Labels of strata or matched sets. Rows with a missing label (None, NaN or -1) are not in the
        population after, and neither are strata in which one arm is missing.
    rows : array-like of int, or of bool of shape (n_rows,), optional
        Rows of X that `weights` or `strata` are for, such as ``cohort.rows``; others are not in the
        population after. By default all; by themselves, they are the population after.
    estimand : {"att", "atc", "ate"}, default="att"
        How strata become weights. Matched sets of one treated row and m comparators weigh the
        latter 1 / m under "att".
    scale : {"pooled", "treated", "comparator"}, default="pooled"
        Standard deviation by which differences are divided: the root of the mean of both arms'
        variances, or that of one arm. Where that is 0, the pooled one.
    scale_of : {"before", "each"}, default="before"
        Whether differences after are divided by the standard deviation before, so that only the
        means move them, or by that after.
    suspect : float, default=0.9
        Columns whose correlation with the treatment is at least as large in absolute value are
        named in a warning: they may be part of its definition.
    n_jobs : int or None, default=None
        Threads; None takes as many as Numba would, -1 all cores.

    Returns
    -------
    result : BalanceResult
        Differences by column, and their summary.

    Warns
    -----
    TreatmentPredictedWarning
        Of columns that are almost the treatment itself.
    UserWarning
        Of columns whose difference is beyond 0.1 after, and was so before with the other sign.

    See Also
    --------
    BalanceDisplay : Pictures of it.

    Notes
    -----
    With ``scale="treated"``, differences are those of R's MatchIt under its default estimand, with
    "pooled" those of MatchIt and cobalt under "ate"; CohortMethod takes "pooled" and "each".
    Columns that are the same constant in both arms have a difference of 0; columns that are two
    constants have an infinite one.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from sksurvgpu.cohort import balance
    >>> rng = np.random.default_rng(0)
    >>> X = sparse.csc_array(rng.random((20_000, 50)) < 0.1)
    >>> score = 1 / (1 + np.exp(1 - X[:, :2].sum(axis=1)))
    >>> treatment = rng.random(20_000) < score
    >>> result = balance(X, treatment, weights=np.where(treatment, 1, score / (1 - score)))
    >>> result.summary().round(2)[["treated", "comparator", "largest", "above", "share"]]
            treated  comparator  largest  above  share
    before     6229       13771     0.31      2   0.04
    after      6229       13771     0.04      0   0.00
    """
    options.choice(scale, "scale", SCALES)
    options.choice(scale_of, "scale_of", ("before", "each"))
    options.choice(estimand, "estimand", ESTIMANDS)
    suspect = options.number(suspect, "suspect", "must be a positive number", above=0)
    given = {"treatment": treatment, "weights": weights, "strata": strata, "rows": rows}
    n_threads, how = count_threads(n_jobs), (estimand, scale, scale_of, suspect)
    if in_partitions(X):
        with ColumnsInPartitions(X, given, n_threads) as columns:
            return _compare(columns, columns.sum_by_group, *how, **columns.beside)
    check_in_memory(X, **given)
    design = build_design(to_host(X))
    return _compare(design, partial(sum_by_group, design, n_threads=n_threads), *how, **given)


def _compare(columns, add_up, estimand, scale, scale_of, suspect, *, treatment, **adjustment):
    treated = check_treatment(treatment)
    check_length(treated, "treatment", columns.n_rows)
    weight, left_out = weights_after(treated, **adjustment, estimand=estimand)
    arm = treated.astype(np.int64)
    found = add_up(arm, len(ARMS), weight)
    table = _tabulate(column_names(columns), found, weight is not None, scale, scale_of)
    _warn_of_suspects(table["correlation"], suspect)
    rows = _count_rows(arm, weight)
    if weight is not None:
        _warn_of_turned(table, rows.loc["after"])
    return BalanceResult(table, rows, left_out)


def _tabulate(names, found, is_adjusted, scale, scale_of):
    moments = {"before": found.moments()}
    if is_adjusted:
        moments["after"] = found.moments(weighted=True)
    is_binary = found.is_binary[:, None]
    variances = {  # a single row does not vary
        when: np.nan_to_num(np.where(is_binary, each.variance, each.unbiased))
        for when, each in moments.items()
    }
    scales = {when: _scale(variance, scale) for when, variance in variances.items()}
    table = {}
    for when, each in moments.items():
        by = scales[when if scale_of == "each" else "before"]
        table[f"std_diff_{when}"] = _divide(_difference(each), by)
    for when, each in moments.items():
        parts = {"mean": each.mean, "sd": np.sqrt(variances[when]), "prevalence": each.prevalence}
        for name, part in parts.items():
            table |= {f"{name}_{ARMS[arm]}_{when}": part[:, arm] for arm in (1, 0)}
    table["correlation"] = _correlate(moments["before"])
    return DataFrame(table, index=names)


def _scale(variance, scale):
    pooled = variance.mean(axis=1)
    if scale == "pooled":
        return np.sqrt(pooled)
    own = variance[:, ARMS.index(scale)]
    return np.sqrt(np.where(own > 0, own, pooled))


def _difference(moments):
    """Difference of the means; 0 where it is rounding."""
    mean = moments.shifted  # of columns far from zero, means have few digits for it
    difference = mean[:, 1] - mean[:, 0]
    return np.where(np.abs(difference) > ROUNDING * np.abs(mean).max(axis=1), difference, 0.0)


def _divide(difference, scale):
    """Difference in units of the scale; 0 where there is none, infinite where only that is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference == 0, 0.0, difference / scale)


def _correlate(moments):
    """Correlation of each column with the treatment; NaN of constants."""
    share = moments.size[1] / moments.size.sum()
    difference = _difference(moments)
    between = share * (1.0 - share)
    total = moments.variance @ [1.0 - share, share] + between * difference**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return difference * np.sqrt(between / total)


def _warn_of_suspects(correlation, suspect):
    found = correlation[correlation.abs() >= suspect]
    if not len(found):
        return
    found = found.iloc[np.argsort(-found.abs().to_numpy(), kind="stable")]
    named = [f"{name} ({value:.3f})" for name, value in found.items()]
    warn(
        f"{len(found):,} column(s) have a correlation with the treatment of {suspect:g} or more: "
        f"{options.first_of(named, LISTED)}. Leave out columns that are part of the treatment's "
        "definition.",
        TreatmentPredictedWarning,
    )


def _warn_of_turned(table, rows):
    """Columns whose difference is as large after as it should not be before, the other way round.

    That is what a score whose penalty shrinks a strong column does, if others stand for it.
    """
    before, after = table["std_diff_before"], table["std_diff_after"]
    chance = np.sqrt(sum(1.0 / rows[f"effective_{arm}"] for arm in ARMS))  # error of a difference
    is_turned = (before * after < 0) & (np.minimum(before.abs(), after.abs()) > UNBALANCED)
    found = after[is_turned & (after.abs() > BEYOND_CHANCE * chance)]
    if len(found):
        named = [f"{name} ({before[name]:.2f}, then {after[name]:.2f})" for name in found.index]
        warn(
            f"the adjustment turned the difference of {len(found):,} column(s) around: "
            f"{options.first_of(named, LISTED)}. A penalized score shrinks strong columns and lets "
            "others stand for them; leave these without a penalty (`penalty_factor`), or match "
            "within their strata."
        )


def _count_rows(arm, weight):
    times = {"before": np.ones(len(arm))}
    if weight is not None:
        times["after"] = weight
    lines = {}
    for when, w in times.items():
        total, squares = np.bincount(arm, w), np.bincount(arm, w**2)
        n, effective = np.bincount(arm, w > 0).astype(int), total**2 / squares
        lines[when] = {ARMS[a]: n[a] for a in (1, 0)}
        lines[when] |= {f"effective_{ARMS[a]}": effective[a] for a in (1, 0)}
    table = DataFrame.from_dict(lines, orient="index")
    return table.astype(dict.fromkeys(ARMS, int))
