"""Screening: what every column says by itself of the outcome, and which columns make trouble.

A plain outcome y is compared with a column by their correlation r, which has the t statistic
r sqrt((n - 2) / (1 - r^2)) on n - 2 degrees of freedom; of two indicators, n r^2 is Pearson's
chi-square statistic. A survival outcome is compared by the log-rank test (`information.log_rank`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from pandas import DataFrame
from scipy.stats import norm
from scipy.stats import t as student

from .._tables import Result, counted
from ..backends import to_host
from ..data.design.columns import INDICATOR, build_design
from ..data.design.duplicates import (
    LEAST_THRESHOLD,
    find_duplicates,
    find_duplicates_in_parts,
)
from ..data.design.sums import column_names, sum_by_group
from ..data.options import number
from ..data.outcomes.survival import read_outcome
from ..data.partitioned import check_in_memory, in_partitions
from ..data.vectors import as_vector, check_length, check_row_values, numbers_or_flags
from ..estimators._prepared import count_threads
from ..information.log_rank import log_rank_columns, log_rank_in_parts
from ..likelihoods.cox import Cox
from ..partitions.columns import ColumnsInPartitions
from ..patterns.risk_sets.plan import plan_rows

PERFECT = 1e-12  # 1 - r^2 that is rounding
SLACK = 1e-9  # of a column's range, within which it is separated


@dataclass(frozen=True, eq=False, repr=False)
class ScreenResult(Result):
    """Statistics of every single column; made by `screen`.

    Attributes
    ----------
    table : pandas.DataFrame
        A line for each column: ``rows``, how many are not 0, ``mean``, ``sd``, the statistic,
        ``p_value`` of its two-sided test, and whether the column is ``constant`` or ``separating``.
        Plain outcomes have a ``correlation`` and its ``t``; survival outcomes ``events``, of rows
        that are not 0, ``excess``, the events observed less those expected (weighed by the values
        of the column), its ``variance`` and the ratio ``z``, whose square is the chi-square
        statistic of the log-rank test.
    duplicates : pandas.DataFrame
        A line for each column that is nearly the same as one before it: ``duplicate_of`` and their
        ``correlation``. Of a lot of duplicates the first one is not listed.
    kind : {"correlation", "log-rank"}
        What columns were compared by.

    Examples
    --------
    >>> from sksurvgpu import screen
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, density=0.2, random_state=0)
    >>> result = screen(data.X, data.y)
    >>> result
    <ScreenResult of 50 columns by log-rank: 0 separating, 0 constant, 0 duplicates>
        rows   mean      sd events  excess variance       z    p_value constant separating
    x38  224  0.224  0.4171     97  -202.8    170.2  -15.54   1.74e-54    False      False
    x45  200    0.2  0.4002     92  -173.6    164.1  -13.55  7.748e-42    False      False
    ...
    >>> result.table.columns.tolist()
    ['rows', 'mean', 'sd', 'events', 'excess', 'variance', 'z', 'p_value', 'constant', 'separating']
    """

    table: object
    duplicates: object
    kind: str

    def _title(self) -> str:
        n = len(self.table)
        counts = ", ".join(
            f"{len(getattr(self, name)):,} {name}"
            for name in ("separating", "constant", "duplicates")
        )
        return f"ScreenResult of {counted(n, 'columns')} by {self.kind}: {counts}"

    def _head(self, n):
        return self.largest(n), len(self.table)

    @property
    def separating(self):
        """Names of the columns that predict perfectly.

        Without a penalty their coefficients are infinite: one class has no row, or all, at one end
        of the column; no event ever happens to a row that is not at the end of those at risk. Of a
        number, columns of which it is a linear function.
        """
        return self.table.index[self.table["separating"]]

    @property
    def constant(self):
        """Names of the columns that do not vary, of which all that are 0 everywhere."""
        return self.table.index[self.table["constant"]]

    def largest(self, n=10):
        """Columns with the largest statistics.

        Parameters
        ----------
        n : int, default=10
            How many.

        Returns
        -------
        table : pandas.DataFrame
            Lines of `table`, the largest absolute statistic first.
        """
        statistic = self.table["z" if self.kind == "log-rank" else "t"].abs().fillna(-1.0)
        return self.table.iloc[np.argsort(-statistic.to_numpy(), kind="stable")[: max(int(n), 0)]]


def screen(X, y, *, strata=None, duplicates=0.99, n_jobs=None) -> ScreenResult:
    """Test every single column against an outcome, and find separating and duplicate columns.

    Parameters
    ----------
    X : scipy sparse matrix or array, ndarray, DataFrame or Design of shape (n_rows, n_columns)
        Covariates. Sparse ones are not made dense. They may be in partitions, a handle or a
        collection of Dask; `y` and `strata` are in the same partitions, or whole in memory.
    y : array-like or structured ndarray of shape (n_rows,)
        A treatment or other labels of two classes, numbers, or an outcome of `surv`, with strata
        and entry times as it may be.
    strata : array-like of shape (n_rows,), optional
        Strata of a survival outcome that has no field ``stratum``.
    duplicates : float or None, default=0.99
        Columns count as near-duplicates whose correlation is at least as large in absolute value,
        from 0.8 to 1; None looks for none. They are found by sketches of the columns and then
        compared row by row.
    n_jobs : int or None, default=None
        Threads; None takes as many as Numba would, -1 all cores.

    Returns
    -------
    result : ScreenResult
        Statistics by column, and the columns that separate, do not vary or are there twice.

    See Also
    --------
    sksurvgpu.cohort.balance : Compares arms in standard deviations.

    Notes
    -----
    Statistics are those of R's ``cor.test`` and, for indicators, ``survdiff`` and
    ``coxph``'s score test without ties. p-values are not corrected for the number of columns.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksurvgpu import screen
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"age": rng.normal(60, 10, 500), "code": rng.random(500) < 0.1})
    >>> treatment = rng.random(500) < 1 / (1 + np.exp(6 - table["age"] / 10))
    >>> table["drug"] = treatment
    >>> table["age in months"] = 12 * table["age"]
    >>> result = screen(table, treatment)
    >>> result.separating.tolist(), result.constant.tolist()
    (['drug'], [])
    >>> result.duplicates
                  duplicate_of  correlation
    age in months          age          1.0
    """
    duplicates = _check_duplicates(duplicates)
    n_threads, given = count_threads(n_jobs), {"y": y, "strata": strata}
    if in_partitions(X):
        with ColumnsInPartitions(X, given, n_threads) as far:
            return _screen(_in_partitions(far), **far.beside, duplicates=duplicates)
    check_in_memory(X, **given)
    return _screen(_in_memory(build_design(to_host(X)), n_threads), y, strata, duplicates)


class _Asked(NamedTuple):
    """Columns, and what is asked of them wherever their rows are."""

    columns: Any
    sum_by_group: Callable
    log_rank: Callable  # of a plan and sums: the test, and which columns it shows to separate
    column: Callable  # values of one in all rows
    find_duplicates: Callable


def _in_memory(design, n_threads):
    def log_rank(plan, found):
        test = log_rank_columns(design, plan, found.center, n_threads=n_threads)
        return test, design.kind == INDICATOR

    def column(j):
        return design.select([j]).dot([1.0])

    add_up, find = (
        partial(f, design, n_threads=n_threads) for f in (sum_by_group, find_duplicates)
    )
    return _Asked(design, add_up, log_rank, column, find)


def _in_partitions(far):
    def log_rank(plan, found):
        return log_rank_in_parts(far, plan, found.center, found.is_binary), found.is_binary

    find = partial(find_duplicates_in_parts, far)
    return _Asked(far, far.sum_by_group, log_rank, far.column, find)


def _screen(table, y, strata, duplicates):
    names = column_names(table.columns)
    if getattr(getattr(y, "dtype", None), "names", None):
        kind, columns = "log-rank", _by_log_rank(table, y, strata)
    elif strata is not None:
        raise ValueError("`strata` is for survival outcomes, and `y` is none; leave it out.")
    else:
        kind, columns = "correlation", _by_correlation(table, y)
    found = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    if duplicates is not None:
        found = table.find_duplicates(duplicates)
    column, original, correlation = found
    twice = {"duplicate_of": names[original], "correlation": correlation}
    twice = DataFrame(twice, index=names[column])
    return ScreenResult(DataFrame(columns, index=names), twice, kind)


def _check_duplicates(threshold):
    if threshold is None:
        return None
    rule = f"must be a correlation from {LEAST_THRESHOLD:g} to 1, or None"
    return number(threshold, "duplicates", rule, least=LEAST_THRESHOLD, most=1)


def _read_plain(y, n_rows):
    """Values of a plain outcome, in units of the largest, and whether they are two classes."""
    vector = as_vector(y, "y", keep_objects=True)
    check_length(vector, "y", n_rows)
    vector = numbers_or_flags(vector, "y")
    is_number = vector.dtype.kind in "iuf"
    if is_number:
        vector = check_row_values(vector, "y")
    elif vector.dtype.kind not in "bUS":
        raise TypeError(
            f"`y` has dtype {vector.dtype}; pass numbers, labels of two classes, or an outcome "
            "built with sksurvgpu.surv."
        )
    labels, code = np.unique(vector, return_inverse=True)
    if len(labels) == 1:
        raise ValueError(f"`y` is {labels.tolist()[0]!r} in all {n_rows:,} rows; it must vary.")
    if len(labels) > 2 and not is_number:
        raise ValueError(
            f"`y` has {len(labels):,} classes, must have two, or numbers; screen one class at a "
            "time: y == label."
        )
    if len(labels) == 2:
        return code.astype(np.float64), True
    return vector / np.abs(vector).max(), False  # so that squares stay in range


def _by_correlation(table, y):
    n = table.columns.n_rows
    value, is_binary = _read_plain(y, n)
    residual = value - value.mean()
    group = value.astype(np.int64) if is_binary else np.zeros(len(value), np.int64)
    found = table.sum_by_group(group, 1 + is_binary, residual)
    out = _describe(found)
    product = found.sums.weighted_total.sum(axis=1)
    scale = np.sqrt(out.pop("square") * (residual @ residual))
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.clip(np.where(scale > 0, product / scale, np.nan), -1.0, 1.0)
        t = r * np.sqrt((n - 2) / (1.0 - r**2))
        is_perfect = 1.0 - r**2 <= PERFECT
    t[is_perfect] = np.copysign(np.inf, r[is_perfect])
    test = {"correlation": r, "t": t, "p_value": 2.0 * student.sf(np.abs(t), n - 2)}
    if is_binary:
        least, most = found.sums.least, found.sums.most
        is_perfect = (least[:, 1] >= most[:, 0]) | (least[:, 0] >= most[:, 1])
    flags = {"constant": out["constant"], "separating": is_perfect & ~out.pop("constant")}
    return {**out, **test, **flags}


def _describe(found):
    """Columns of the table that have nothing to do with the outcome, and sums of squares."""
    sums, n = found.sums, found.n_rows.sum()
    mean = sums.total.sum(axis=1) / n
    is_constant = sums.least.min(axis=1) == sums.most.max(axis=1)
    square = sums.square.sum(axis=1) - n * mean**2
    square = np.where(is_constant, 0.0, np.maximum(square, 0.0))
    return {
        "rows": sums.count.sum(axis=1),
        "mean": mean + found.center,
        "sd": np.sqrt(square / max(n - 1, 1)),
        "square": square,
        "constant": is_constant,
    }


def _by_log_rank(table, y, strata):
    n_rows = table.columns.n_rows
    outcome = read_outcome(y, n_rows=n_rows, strata=strata)
    plan = plan_rows(outcome)
    found = table.sum_by_group(outcome.event.astype(np.int64), 2)
    out = _describe(found)
    test, is_decided = table.log_rank(plan, found)
    is_told = test.variance > PERFECT * out.pop("square") / n_rows
    is_told &= ~out["constant"]
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(is_told, test.excess / np.sqrt(test.variance), np.nan)
    return {
        "rows": out["rows"],
        "mean": out["mean"],
        "sd": out["sd"],
        "events": found.sums.count[:, 1],
        "excess": test.excess,
        "variance": test.variance,
        "z": z,
        "p_value": 2.0 * norm.sf(np.abs(z)),
        "constant": out["constant"],
        "separating": is_told & _separates(table, plan, test, is_decided, found.sums),
    }


def _separates(table, plan, test, is_decided, sums):
    """Columns along which the likelihood rises for ever."""
    out = test.rises | test.falls
    # Where all events are at one end of a column, no row can be beyond them.
    least, most = sums.least.min(axis=1), sums.most.max(axis=1)
    is_sure = (sums.least[:, 1] == most) | (sums.most[:, 1] == least)
    doubtful = np.flatnonzero(out & ~is_sure & ~is_decided)
    if not len(doubtful):
        return out
    weight, problem = np.ones(plan.n_base), SimpleNamespace(plan=plan, likelihood=Cox())
    contests = problem.likelihood.pattern.contests(problem, weight)
    for j in doubtful:
        x = table.column(j)[plan.order]
        slack = SLACK * (most[j] - least[j])
        sides = [sign for sign, may in ((1.0, test.rises[j]), (-1.0, test.falls[j])) if may]
        out[j] = any((contests.excess(np.append(sign * x, 0.0)) <= slack).all() for sign in sides)
    return out
