"""Times that all sites can serve, agreed from sums of truth values.

Spans of the grid are candidates.  Each site says of each whether its own rounded counts prove that
it has no rows of a kind there, or enough.  What is enough in two neighbouring spans is so in both
together.  The most spans side by side of which all sites say so are the cells of the fit.
"""

import numpy as np

from .grid import KINDS, Times

PARTS = "", "_by", "_begin", "_end"  # of the tables of a kind


def candidates(n_times: int) -> np.ndarray:
    """Spans (begin, end) of times: of lengths 1, 2, 3, 4, 6, 8, 12, ..., and all up to the end."""
    lengths, step = [1], 2
    while step < n_times:
        lengths += [step, step + step // 2]
        step *= 2
    spans = [
        np.column_stack([np.arange(n_times - length + 1), np.arange(length, n_times + 1)])
        for length in lengths
        if length <= n_times
    ]
    begin = np.arange(n_times)
    spans.append(np.column_stack([begin, np.full(n_times, n_times)]))
    return np.unique(np.concatenate(spans), axis=0)


def flags_of(proposed, least, labels, spans) -> np.ndarray:
    """Of each label and span, whether counts prove that there are none of a kind, or enough."""
    found = np.ones((len(labels), len(spans)), bool)
    tables = proposed.tables
    for number, label in enumerate(labels):
        [row] = np.nonzero(tables["labels"] == label)
        if len(row):
            for kind in KINDS:
                if kind in tables:
                    counts = {part: tables[f"{kind}{part}"][row[0]] for part in PARTS}
                    found[number] &= _is_enough(counts, proposed.min_rows, least, spans)
    return found


def _is_enough(counts, step, least, spans):
    """Whether spans have none, or enough, as far as numbers rounded down to `step` tell."""
    begin, end = spans.T
    at, by = np.cumsum(np.append(0, counts[""])), np.append(0, counts["_by"])
    ended = int(np.argmax(by == by[-1])) if counts["_end"] else len(by)
    begun = int(np.argmax(by > 0)) - 1 if counts["_begin"] and by[-1] > 0 else 0
    before = np.where(begin > 0, by[begin] + step - 1, 0)
    proved = np.maximum(at[end] - at[begin], by[end] - before)
    return (end <= begun) | (begin >= ended) | (proved >= max(step, least))


def choose_times(labels, grid, spans, agree) -> Times:
    """Ends of as many agreed spans as possible, side by side over the whole grid, by label."""
    found = [grid[_most_spans(len(grid), spans[is_agreed]) - 1] for is_agreed in agree]
    ptr = np.concatenate([[0], np.cumsum([len(times) for times in found])])
    return Times(labels, np.concatenate(found), ptr.astype(np.int64))


def _most_spans(n_times, spans):
    """Ends of the longest chain of spans from 0 to the end; none if there is no chain."""
    count, before = np.full(n_times + 1, -1), np.zeros(n_times + 1, np.int64)
    count[0] = 0
    for begin, end in spans[np.argsort(spans[:, 1], kind="stable")]:
        if count[begin] >= 0 and count[begin] + 1 > count[end]:
            count[end], before[end] = count[begin] + 1, begin
    ends, at = [], n_times
    while count[n_times] > 0 and at > 0:
        ends.append(at)
        at = int(before[at])
    return np.array(ends[::-1], np.int64)
