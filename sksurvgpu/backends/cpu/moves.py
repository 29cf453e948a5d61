"""Sizes of a move v = a - b of the predictor: how far it goes."""

import numpy as np

from ..._compile import device, kernel
from .tasks import rows_in


@device
def _span(a, b, live, low, high):
    """Least and largest v of the live rows [low, high)."""
    least, largest = np.inf, -np.inf
    for i in rows_in(low, high):
        change = a[i] - b[i]
        # live rows of a replicate follow no pattern, and a branch on them first costs 3 ns
        if change < least and live[i]:
            least = change
        if change > largest and live[i]:
            largest = change
    return least, largest


@kernel
def _span_blocks(a, b, live, edges, out, low, high):
    """Spans of blocks of rows."""
    for block in range(low, high):
        out[block, 0], out[block, 1] = _span(a, b, live, edges[block], edges[block + 1])


@kernel
def _join_spans(spans, is_free):
    """Largest difference within the span of all; largest size where no shift is free."""
    least, largest = np.inf, -np.inf
    for b in range(len(spans)):
        least, largest = min(least, spans[b, 0]), max(largest, spans[b, 1])
    return max(largest - least if is_free else max(largest, -least), 0.0)


def reach(threads, a, b, live, edges, is_free):
    """Range of v over the live rows, which have been cut at edges; largest |v| if not `is_free`."""
    spans = np.empty((len(edges) - 1, 2))
    threads.over_blocks(
        lambda low, high: _span_blocks(a, b, live, edges, spans, low, high), len(spans)
    )
    return _join_spans(spans, is_free)


@kernel
def _span_groups(a, b, live, group_ptr, edges, out, low, high):
    """Widest span of a group in every block of groups."""
    for block in range(low, high):
        out[block] = 0.0
        for g in range(edges[block], edges[block + 1]):
            least, largest = _span(a, b, live, group_ptr[g], group_ptr[g + 1])
            out[block] = max(out[block], largest - least)


def reach_of_groups(threads, a, b, live, group_ptr, edges):
    """Largest range of v over the live rows of a group, of groups cut at edges."""
    widest = np.empty(len(edges) - 1)
    threads.over_blocks(
        lambda low, high: _span_groups(a, b, live, group_ptr, edges, widest, low, high),
        len(widest),
    )
    return float(widest.max(initial=0.0))
