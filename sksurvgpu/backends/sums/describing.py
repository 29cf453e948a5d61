"""What a partition says of its rows before any fit: counts, columns, times."""

from __future__ import annotations

import numpy as np

from ..._compile import kernel
from ...data.design.columns import DENSE, INDICATOR
from ...data.outcomes.checksum import checksum
from .messages import Description


def describe(rows) -> Description:
    """Describe the rows of a partition."""
    design, outcome = rows.design, rows.outcome
    return Description(
        rows=rows.n_rows,
        names=None if design.names is None else tuple(map(str, design.names)),
        columns=_describe_columns(design),
        tables=_OF_PATTERN[rows.likelihood.pattern](rows, outcome) | rows.told,
        checksum=checksum(outcome, rows.weight, rows.offset),
    )


# -- columns --------------------------------------------------------------------------------------
def _describe_columns(design):
    """Entries, their sum and squares about their mean, and extremes of every column."""
    is_dense, is_one = design.kind == DENSE, design.kind == INDICATOR
    stored = np.where(is_dense, design.n_rows, np.diff(design.indptr))
    found = np.zeros((design.n_columns, 5))
    size = np.where(is_one, 0, stored)
    _summarize(design.values, design.value_ptr, size, found)
    found[:, 0] = stored
    found[is_one, 1] = found[is_one, 4] = stored[is_one]
    found[is_one, 3:5] = (stored[is_one] > 0)[:, None]
    has_zeros = stored < design.n_rows
    found[has_zeros, 3] = np.minimum(found[has_zeros, 3], 0.0)
    found[has_zeros, 4] = np.maximum(found[has_zeros, 4], 0.0)
    if not design.n_rows:
        found[:, 3:5] = np.nan
    return found


@kernel
def _summarize(values, ptr, size, found):
    """Sum, squares about the mean, least and largest of the values of every column."""
    for j in range(len(ptr)):
        if size[j] == 0:
            continue
        low = high = values[ptr[j]]
        total = square = 0.0
        for q in range(ptr[j], ptr[j] + size[j]):
            total += values[q]
            low, high = min(low, values[q]), max(high, values[q])
        mean = total / size[j]
        for q in range(ptr[j], ptr[j] + size[j]):
            square += (values[q] - mean) ** 2
        found[j, 1], found[j, 2], found[j, 3], found[j, 4] = total, square, low, high


# -- times ----------------------------------------------------------------------------------------
def distinct(first, second):
    """Distinct pairs in ascending order, and how often each occurs."""
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    new = np.ones(len(first), bool)
    new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    begin = np.flatnonzero(new)
    return first[new], second[new], np.diff(np.append(begin, len(first)))


def numbered(code, labels, n_rows):
    """Number of every row's label, and the labels; one of all rows where there are none."""
    if code is None:
        return np.zeros(n_rows, np.int64), np.zeros(1, np.int64)
    return code, labels


def _describe_times(rows, outcome):
    stratum, labels = numbered(outcome.stratum, outcome.stratum_labels, rows.n_rows)
    is_counted = np.ones(rows.n_rows, bool) if rows.weight is None else rows.weight > 0.0
    counts = outcome.event & is_counted
    of_stratum, time, deaths = distinct(stratum[counts], outcome.time[counts])
    last = np.full(len(labels), -np.inf)
    np.maximum.at(last, stratum[is_counted], outcome.time[is_counted])
    return {
        "labels": labels,
        "stratum": of_stratum,
        "time": time,
        "deaths": deaths,
        "last": last,
    }


def _describe_competing(rows, outcome):
    found = _describe_times(rows, outcome)
    stratum, labels = numbered(outcome.stratum, outcome.stratum_labels, rows.n_rows)
    group = stratum
    if outcome.censoring_group is not None:
        group, labels = outcome.censoring_group, outcome.censoring_labels
    censor_group, censor_time, _ = distinct(group, outcome.time)
    lane_stratum, lane_group, _ = distinct(stratum, group)
    return found | {
        "censor_labels": labels,
        "censor_group": censor_group,
        "censor_time": censor_time,
        "lane_stratum": lane_stratum,
        "lane_group": lane_group,
    }


def _describe_groups(rows, outcome):
    _, labels = numbered(outcome.group, outcome.group_labels, rows.n_rows)
    return {"labels": np.zeros(1, np.int64) if labels is None else labels}


_OF_PATTERN = {
    "rows": lambda rows, outcome: {},
    "group_sums": _describe_groups,
    "subsets": _describe_groups,
    "risk_sets": _describe_times,
    "carried_risk_sets": _describe_competing,
}
