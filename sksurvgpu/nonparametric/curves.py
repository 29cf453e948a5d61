"""Tables of curves, read as step functions and at given times."""

from itertools import pairwise

import numpy as np
from pandas import Categorical, DataFrame, MultiIndex

from .._tables import counted


def describe(result, content) -> str:
    """Name and size of a result in a line."""
    robust = ", robust" if result.robust else ""
    return (
        f"{type(result).__name__} of {counted(len(result.groups), 'groups')}, {content}, "
        f"{100 * result.level:g}% intervals{robust}"
    )


def counts_table(counts, rows, events):
    """Table of lines with the sums of their rows; `events` of the kind, or of any."""
    return DataFrame(
        {
            "group": Categorical.from_codes(counts.group, rows.labels, ordered=False),
            "time": counts.time,
            "n_at_risk": counts.at_risk,
            "n_events": events,
            "n_censored": _censored(counts, rows),
        }
    )


def _censored(counts, rows):
    """Rows that end without an event, and are not gone on with by the same subject."""
    is_censored = rows.event == 0
    if rows.subject is not None and rows.start is not None:
        order = np.lexsort((rows.time, rows.group, rows.subject))
        now, then = order[:-1], order[1:]
        goes_on = (rows.subject[now] == rows.subject[then]) & (rows.group[now] == rows.group[then])
        is_censored[now[goes_on & (rows.time[now] == rows.start[then])]] = False
    weight = None if rows.weight is None else rows.weight[is_censored]
    return np.bincount(counts.exit[is_censored], weight, len(counts.time)).astype(np.float64)


def _curves(table, keys):
    """(label or labels, lines) of each curve of a table."""
    return table.groupby(keys if len(keys) > 1 else keys[0], sort=False, observed=True)


def step_functions(table, keys, column, initial) -> dict:
    """Step functions of a column by the labels of the curves, from `initial` at time 0 on."""
    from sksurv.functions import StepFunction

    found = {}
    for label, lines in _curves(table, keys):
        time, value = lines["time"].to_numpy(), lines[column].to_numpy()
        if time[0] > 0.0:
            time, value = np.append(0.0, time), np.append(initial, value)
        found[label] = StepFunction(time, value)
    return found


def entries_of(rows):
    """Sorted entry times of each group, and their weights summed up; None where all are 0."""
    if rows.start is None:
        return None
    order = np.lexsort((rows.start, rows.group))
    bounds = np.searchsorted(rows.group[order], np.arange(len(rows.labels) + 1))
    weight = np.ones(len(order)) if rows.weight is None else rows.weight[order]
    own = [slice(first, stop) for first, stop in pairwise(bounds)]
    start = rows.start[order]
    return {
        label: (start[lines], np.append(0.0, np.cumsum(weight[lines])))
        for label, lines in zip(rows.labels, own, strict=True)
    }


def at_risk_at(time, at_risk, times, entries=None):
    """Numbers at risk just before given times, those there from the beginning at time 0, too.

    Rows end at `time`, (n_lines,), when `at_risk` of them were left; `entries` are sorted entry
    times and running sums of their weights.
    """
    line = np.searchsorted(time, times)
    found = np.append(at_risk, 0.0)[line]
    if entries is None:
        return found
    # Those who come in only between the given time and the next at which a row ends.
    start, total = entries
    later = np.searchsorted(start, times, side="left")
    later = np.where(times > 0.0, later, np.searchsorted(start, 0.0, side="right"))
    until = np.searchsorted(start, np.append(time, np.inf)[line])
    return np.where(line < len(time), found - total[until] + total[later], 0.0)


def look_up(table, keys, times, initial, is_open, entries=None):
    """Lines of curves at given times, from a table of all of them, sorted by time in each.

    The columns `keys` tell curves apart, of which the first is the group; `initial` has estimates
    before the first time, NaN for those not named; `is_open` says whether a curve that ends in a
    line would go on; `entries` are those of `entries_of`.
    """
    columns = list(table.columns[table.columns.get_loc("n_censored") + 1 :])
    before = np.array([initial.get(column, np.nan) for column in columns])
    curve = _curves(table, keys).ngroup().to_numpy()
    bounds = np.searchsorted(curve, np.arange(curve[-1] + 2))
    time, at_risk = table["time"].to_numpy(), table["n_at_risk"].to_numpy()
    values, is_open = table[columns].to_numpy(), np.asarray(is_open)
    heads = table[keys].iloc[bounds[:-1]].itertuples(index=False, name=None)
    found, labels = [], []
    for head, (first, stop) in zip(heads, pairwise(bounds), strict=True):
        own = time[first:stop]
        line = np.searchsorted(own, times, side="right") - 1
        rows = np.where(line[:, None] < 0, before, values[first:stop][line])
        rows[(times > own[-1]) & is_open[stop - 1]] = np.nan
        came = None if entries is None else entries[head[0]]
        found.append(np.column_stack([at_risk_at(own, at_risk[first:stop], times, came), rows]))
        labels += [(*head, t) for t in times]
    index = MultiIndex.from_tuples(labels, names=[*keys, "time"])
    return DataFrame(np.concatenate(found), index, ["n_at_risk", *columns])
