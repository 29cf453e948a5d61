"""Groups of rows, in an order that a reader expects, and what else curves are computed from."""

from dataclasses import dataclass, replace

import narwhals as nw
import numpy as np
from pandas import CategoricalDtype, unique

from .._docs import entries, sharing
from ..data.checks import check_sample_weight
from ..data.options import flag
from ..data.outcomes.fields import labels_of, read_survival
from ..data.vectors import check_labels, check_order, encode

ALL = "all"  # the name of the only group

_ENTRIES = entries("""
    groups : array-like of shape (n_rows,), optional
        Label of the group of each row, such as its treatment; by default the strata of `y`, where
        it has a field ``stratum``. Categories keep their order, numbers ascend, other labels come
        as they appear.
    sample_weight : array-like of shape (n_rows,), optional
        Weights, such as those of inverse probability of treatment; 0 leaves a row out.
    level : float, default=0.95
        Of the intervals.
    reference : label, optional
        Group that the others are compared with; by default the first.
    times : float or array-like of shape (n_times,)
        In increasing order.
    statistic : float
        Chi-squared, 0 where groups have the events that are expected.
    df : int
        Its degrees of freedom.
    p_value : float
        Probability of a larger one where the groups do not differ.
    """)
_TABLE = "Parameters\n----------\n<<{}>>\n\nReturns\n-------\ntable : pandas.DataFrame"
documented = sharing(
    {**_ENTRIES, "by_reference": _TABLE.format("reference"), "by_time": _TABLE.format("times")}
)


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Checked rows of an outcome, in the caller's order."""

    # (n_rows,), int64: 0 where a row is censored, else 1, 2, ... for the entries of `codes`
    event: np.ndarray
    # the kinds of event as the caller wrote them, or called them; [1] for an outcome of `surv`
    codes: list
    time: np.ndarray  # (n_rows,), float64
    start: np.ndarray | None  # (n_rows,), float64, or None
    weight: np.ndarray | None  # (n_rows,), float64, or None
    subject: np.ndarray | None  # (n_rows,), int64, or None
    stratum: np.ndarray | None  # (n_rows,), int64, or None
    group: np.ndarray  # (n_rows,), int64
    labels: list  # name of each group

    def weighted(self) -> "GroupedRows":
        """Without rows that weigh nothing, which are as if they were not there, and their groups.

        A curve would go on until such a row ends.
        """
        if self.weight is None or self.weight.all():
            return self
        kept = self.weight > 0
        present, group = np.unique(self.group[kept], return_inverse=True)
        names = "event", "time", "start", "weight", "subject", "stratum"
        rows = {name: getattr(self, name) for name in names}
        rows = {name: None if value is None else value[kept] for name, value in rows.items()}
        return replace(self, **rows, group=group, labels=[self.labels[g] for g in present])


def read_rows(
    y, groups=None, sample_weight=None, *, is_competing=False, strata=None
) -> GroupedRows:
    """Check an outcome and its groups; without `groups`, its strata are groups.

    With `strata`, or where it is False, strata are kept apart from groups.
    """
    check_order(groups=groups, sample_weight=sample_weight, strata=strata)
    kinds = "iu" if is_competing else "b"
    otherwise = (
        "take kaplan_meier for a single kind"
        if is_competing
        else "take aalen_johansen for several kinds of event"
    )
    labels = None if strata is False else strata
    items = read_survival(y, kinds, otherwise, strata=labels)
    if groups is None and strata is None and items["stratum"] is not None:
        group, labels = items["stratum"], items["stratum_labels"].tolist()
    else:
        group, labels = read_groups(groups, y.size)
    codes, event = [1], items["event"].astype(np.int64)
    if is_competing:
        codes, called = np.unique(event[event > 0]).tolist() or [1], labels_of(items["event"])
        event = np.searchsorted([0, *codes], event)
        codes = [called.get(code, code) for code in codes]
    subject = items["subject"]
    return GroupedRows(
        event=event,
        codes=codes,
        time=items["time"],
        start=items["start"],
        weight=check_sample_weight(sample_weight, y.size),
        subject=None if subject is None else encode(subject)[0],
        stratum=items["stratum"],
        group=group,
        labels=labels,
    )


def is_robust(rows, robust) -> bool:
    """Tell whether variances must not take weights, or rows of a subject, for rows."""
    if robust is not None:
        return flag(robust, "robust", ", or None")
    if rows.weight is not None and (rows.weight != np.floor(rows.weight)).any():
        return True
    if rows.subject is None:
        return False
    return bool(np.bincount(rows.subject[rows.event > 0], minlength=1).max() > 1)


def read_groups(groups, n_rows, name="groups"):
    """Number of each row's group, and the labels of the groups in the order of the numbers.

    Categories keep their order, numbers ascend, other labels come as they appear.
    """
    if groups is None:
        return np.zeros(n_rows, np.int64), [ALL]
    codes, distinct = encode(check_labels(groups, name, n_rows, other="y"))
    order = np.fromiter(_in_order(groups, codes, distinct), np.int64, len(distinct))
    return np.argsort(order)[codes], distinct[order].tolist()


def _in_order(groups, codes, distinct):
    dtype = getattr(groups, "dtype", None)
    if not isinstance(dtype, CategoricalDtype):
        series = nw.from_native(groups, allow_series=True, pass_through=True)
        dtype = series.dtype if isinstance(series, nw.Series) else None
    if isinstance(dtype, CategoricalDtype | nw.Enum):
        code_of = {label: code for code, label in enumerate(distinct.tolist())}
        found = (code_of.get(label, code_of.get(str(label))) for label in dtype.categories)
        return [code for code in found if code is not None]
    return range(len(distinct)) if distinct.dtype.kind in "biu" else unique(codes)


def against(table, reference):
    """Row of a group in a table, by default the first, and those of all others."""
    if len(table) < 2:
        raise ValueError("there is one group, and nothing to compare it with; pass `groups`.")
    reference = table.index[0] if reference is None else reference
    if reference not in table.index:
        raise ValueError(f"`reference` is {reference!r}; the groups are {table.index.tolist()}.")
    return table.loc[reference], table.drop(index=reference)
