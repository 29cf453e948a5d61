r"""Who is at risk, and who has an event, at every time at which a row of a group ends.

A row with the weight w is at risk in (start, time]. In each group, at each distinct time s,

.. math::
    n(s) = \sum_i w_i 1\{start_i < s \le time_i\}, \quad
    d_k(s) = \sum_i w_i 1\{time_i = s, event_i = k\}, \quad h_k = d_k / n, \quad h = \sum_k h_k .

All groups are counted at once: a line is a group and a time of it, lines are sorted by both, and
sums over the times of a group are running sums that begin anew with each group.
"""

from dataclasses import dataclass

import numpy as np
from pandas import Series


@dataclass(frozen=True, eq=False)
class EventCounts:
    """Lines of all groups, and where each row comes in and goes out."""

    time: np.ndarray  # (n_lines,)
    group: np.ndarray  # (n_lines,), int64: number of the group, ascending
    # (n_groups + 1,), int64: where the lines of each group begin, and where the last one's end
    bounds: np.ndarray
    at_risk: np.ndarray  # (n_lines,)
    events: np.ndarray  # (n_kinds, n_lines): events of each kind
    ended: np.ndarray  # (n_lines,): rows that end, with an event or without
    # (n_lines,), bool: whether everybody at risk has an event, after which nobody is without one
    is_last: np.ndarray
    entry: np.ndarray  # (n_rows,), int64: first line in which a row is at risk
    exit: np.ndarray  # (n_rows,), int64: last line in which a row is at risk

    @property
    def n_groups(self) -> int:
        return len(self.bounds) - 1

    def sum_up(self, values) -> np.ndarray:
        """Running sums over the times of each group."""
        return self._by_group(values).cumsum().to_numpy()

    def multiply_up(self, values) -> np.ndarray:
        """Running products over the times of each group."""
        return self._by_group(values).cumprod().to_numpy()

    def before(self, values, first) -> np.ndarray:
        """Value of the line before, in the first line of a group `first`."""
        shifted = np.empty_like(values)
        shifted[1:] = values[:-1]
        shifted[self.bounds[:-1]] = first
        return shifted

    def divide(self, values) -> np.ndarray:
        """Per weight at risk; 0 where all rows at risk weigh nothing."""
        return np.divide(values, self.at_risk, out=np.zeros_like(values), where=self.at_risk > 0)

    def _by_group(self, values):
        return Series(values).groupby(self.group)


def count(time, event, n_kinds=1, *, start=None, weight=None, group=None) -> EventCounts:
    """Count rows and events at all times of all groups.

    Events are 0 where rows are censored, else the number of the kind, from 1 to `n_kinds`; every
    number of a group up to the largest has rows.
    """
    group = np.zeros(len(time), np.int64) if group is None else group
    times, rank = np.unique(time, return_inverse=True)
    keys, exits = np.unique(group * (len(times) + 1) + rank, return_inverse=True)
    line_group = keys // (len(times) + 1)
    bounds = np.searchsorted(line_group, np.arange(group.max() + 2))
    entry = bounds[group]
    if start is not None:
        # Lines at the time `start` itself are over when the row comes in.
        rank = np.searchsorted(times, start, side="right")
        entry = np.searchsorted(keys, group * (len(times) + 1) + rank)
    kinds = [event == k for k in range(1, n_kinds + 1)]

    def per_line(rows, weight):
        return np.bincount(exits[rows], None if weight is None else weight[rows], len(keys))

    def at_risk(weight):
        still = per_line(slice(None), weight)
        if start is not None:
            late = np.flatnonzero(entry > bounds[group])
            came = None if weight is None else weight[late]
            still = still - np.bincount(entry[late] - 1, came, len(keys))
        if weight is None and len(bounds) == 2:  # whole numbers: no order matters
            return still[::-1].cumsum()[::-1]
        return Series(still[::-1]).groupby(line_group[::-1]).cumsum().to_numpy()[::-1]

    is_counted = None if weight is None else (weight > 0).astype(np.int64)
    n_at_risk = at_risk(is_counted)
    n_events = per_line(event > 0, is_counted)
    return EventCounts(
        time=times[keys % (len(times) + 1)],
        group=line_group,
        bounds=bounds,
        at_risk=n_at_risk.astype(np.float64) if weight is None else at_risk(weight),
        events=np.array([per_line(kind, weight) for kind in kinds], dtype=np.float64),
        ended=per_line(slice(None), weight).astype(np.float64),
        is_last=(n_at_risk > 0) & (n_events == n_at_risk),
        entry=entry,
        exit=exits,
    )
