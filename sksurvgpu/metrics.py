r"""Concordance of predicted risks with observed times.

A pair (i, j) can be compared where i has an event at t_i while j is at risk and outlives it:
start_j < t_i, and t_j > t_i or j is censored at t_i; both in one stratum. With weights w,

    concordance = sum_pairs w_i w_j ([risk_i > risk_j] + [tied] / 2) / sum_pairs w_i w_j

(Harrell et al. 1996). Times descend; rows enter a tree of sums over the ranks of their risks at
their exit and leave it at their entry, so that n rows cost O(n log n).

Nothing is ever subtracted: a row leaves as its leaf becomes 0 and the sums above it are taken
anew. All terms being at least 0, no digits cancel, however different the weights; sums over
nobody are exactly 0; and the agreeing pairs, summed in the order of all, never exceed them.
"""

from __future__ import annotations

import numpy as np

from ._compile import device, kernel
from .data.checks import check_labels, check_length, check_row_values

__all__ = ["concordance"]


def concordance(event, time, risk, *, start=None, stratum=None, weight=None, tied_tol=1e-8):
    """Share of comparable pairs whose order of risk agrees with the order of events.

    Parameters
    ----------
    event : array-like of shape (n_samples,), bool
        True where the event was observed.
    time : array-like of shape (n_samples,)
        Time of the event or of censoring. Events at the same time are not compared; a row
        censored at the time of an event outlives it.
    risk : array-like of shape (n_samples,)
        Predicted risk, higher for earlier events.
    start : array-like of shape (n_samples,), optional
        Entry times: a row is compared with events in (start, time].
    stratum : array-like of shape (n_samples,), optional
        Labels; pairs are formed within a stratum.
    weight : array-like of shape (n_samples,), optional
        Row weights; a pair weighs the product of its rows' weights.
    tied_tol : float, default=1e-8
        Risks that differ by no more than this are tied and count one half.

    Returns
    -------
    float
        Between 0 and 1; 0.5 for risks that say nothing. Without `start`, `stratum` and `weight`
        it equals the first result of ``sksurv.metrics.concordance_index_censored``.

    Examples
    --------
    >>> from sksurvgpu.metrics import concordance
    >>> concordance([True, True, False], [1.0, 2.0, 3.0], [0.9, 0.1, 0.4])
    0.6666666666666666
    """
    event = check_row_values(np.asarray(event) * 1, "event")
    if not np.isin(event, (0, 1)).all():
        raise ValueError("`event` has values other than 0 and 1; pass booleans or 0/1.")

    def read(values, name, check=check_row_values, **limits):
        if values is None:
            return None
        vector = check(values, name, **limits)
        check_length(vector, name, len(event), other="event")
        return vector

    weight = read(weight, "weight", minimum=0)
    if weight is not None:  # a power of 2 rounds nothing; sums over 2**32 rows stay finite
        weight = np.ldexp(weight, 480 - np.frexp(weight.max(initial=0.0))[1])
    agreeing, comparable = count_pairs(
        event > 0,
        read(time, "time"),
        read(risk, "risk"),
        start=read(start, "start"),
        stratum=read(stratum, "stratum", check_labels),
        weight=weight,
        tied_tol=tied_tol,
    )
    return as_concordance(agreeing, comparable)


def as_concordance(agreeing, comparable):
    """Quotient of the two sums of `count_pairs`."""
    if comparable <= 0.0:
        from sksurv.exceptions import NoComparablePairException

        raise NoComparablePairException(
            "no two rows can be compared: no row is at risk beyond another one's event; "
            "the concordance needs more rows or more events."
        )
    return float(agreeing / comparable)


def count_pairs(event, time, risk, *, start=None, stratum=None, weight=None, tied_tol=1e-8):
    """Sums over comparable pairs: (weights of agreeing pairs + half the tied ones, all weights)."""
    n = len(time)
    labels = np.zeros(n) if stratum is None else stratum
    stratum = np.unique(labels, return_inverse=True)[1]
    weight = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    start = np.full(n, -np.inf) if start is None else np.asarray(start, dtype=np.float64)
    by_risk = np.lexsort((risk, stratum))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(stratum))])
    return _count_pairs(
        (np.lexsort((-time, stratum)), np.lexsort((-start, stratum)), by_risk, ptr),
        (event, time, start, weight),
        risk,
        float(tied_tol),
    )


@device
def _plant(n):
    """Tree of n zeros: node k sums nodes 2k and 2k + 1, the leaves are its second half."""
    n_leaves = 1
    while n_leaves < n:
        n_leaves *= 2
    return np.zeros(2 * n_leaves)


@device
def _put(tree, rank, weight):
    """Set the leaf of a rank (from 0), then the sums above it."""
    node = rank + tree.size // 2
    tree[node] = weight
    while node > 1:
        weight += tree[node ^ 1]
        node >>= 1
        tree[node] = weight


@device
def _split(tree, rank):
    """Sums over the ranks below one, and over this and those above."""
    node = rank + tree.size // 2
    below, above = 0.0, tree[node]
    while node > 1:
        sibling = tree[node ^ 1]
        below += sibling if node & 1 else 0.0
        above += 0.0 if node & 1 else sibling
        node >>= 1
    return below, above


@device
def _sum_between(tree, low, high):
    """Sum over the ranks low, ..., high - 1."""
    total = 0.0
    low += tree.size // 2
    high += tree.size // 2
    while low < high:
        if low & 1:
            total += tree[low]
            low += 1
        if high & 1:
            high -= 1
            total += tree[high]
        low >>= 1
        high >>= 1
    return total


@kernel
def _rank(by_risk, risk, tied_tol, rank, below, up_to):
    """Ranks of one stratum's rows, and where the ranks of their ties begin and end."""
    n = by_risk.size
    low, high = 0, 0
    for i in range(n):
        here = risk[by_risk[i]]
        while here - risk[by_risk[low]] > tied_tol:
            low += 1
        while high < n and risk[by_risk[high]] - here <= tied_tol:
            high += 1
        rank[by_risk[i]], below[by_risk[i]], up_to[by_risk[i]] = i, low, high


@kernel
def _count_pairs(orders, rows, risk, tied_tol):
    by_exit, by_entry, by_risk, ptr = orders
    event, time, start, weight = rows
    rank = np.empty(time.size, np.int64)
    below, up_to = np.empty_like(rank), np.empty_like(rank)
    agreeing, comparable = 0.0, 0.0
    for s in range(ptr.size - 1):
        first, end = ptr[s], ptr[s + 1]
        _rank(by_risk[first:end], risk, tied_tol, rank, below, up_to)
        tree = _plant(end - first)
        leaving, i = first, first
        while i < end:
            now, block = time[by_exit[i]], i
            while leaving < end and start[by_entry[leaving]] >= now:
                _put(tree, rank[by_entry[leaving]], 0.0)
                leaving += 1
            while i < end and time[by_exit[i]] == now:
                row = by_exit[i]
                if not event[row] and start[row] < now:  # others have left already
                    _put(tree, rank[row], weight[row])
                i += 1
            for k in range(block, i):
                row = by_exit[k]
                if event[row]:
                    lower, others = _split(tree, below[row])
                    tied = min(_sum_between(tree, below[row], up_to[row]), others)
                    agreeing += weight[row] * (lower + 0.5 * tied)
                    comparable += weight[row] * (lower + others)
            for k in range(block, i):
                row = by_exit[k]
                if event[row] and start[row] < now:
                    _put(tree, rank[row], weight[row])
    return agreeing, comparable
