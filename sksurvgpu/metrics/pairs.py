r"""Sums over the pairs of rows that can be compared.

A pair (i, j) can be compared where i has an event at t_i while j is at risk and outlives it:
start_j < t_i, and t_j > t_i or j is censored at t_i; both in one stratum. With weights w,

    concordance = sum_pairs w_i w_j ([risk_i > risk_j] + [tied] / 2) / sum_pairs w_i w_j

(Harrell et al. 1996). Times descend; rows enter a tree of sums over the ranks of their risks at
their exit and leave it at their entry, so that n rows cost O(n log n). The weight of a row as i
may differ from that as j.

Nothing is ever subtracted: a row leaves as its leaf becomes 0 and the sums above it are taken
anew. All terms being at least 0, no digits cancel, however different the weights; sums over
nobody are exactly 0; and the agreeing pairs, summed in the order of all, never exceed them.

With the sums a and p over the pairs of a row as either partner, its share in the concordance C of
P pairs in all is w (a - C p) / P: the infinitesimal jackknife, as R's ``concordance`` has it.
"""

import numpy as np

from .._compile import device, kernel
from ..data.vectors import check_row_values


def reader_of_rows(n_rows, other):
    """Check of arguments that have an entry for each one of `other`, or are None."""

    def read(values, name, check=check_row_values, **limits):
        return None if values is None else check(values, name, n_rows, other=other, **limits)

    return read


def as_concordance(agreeing, comparable):
    """Quotient of the two sums of `count_pairs`."""
    if comparable <= 0.0:
        from sksurv.exceptions import NoComparablePairException

        raise NoComparablePairException(
            "no two rows can be compared: no row is at risk beyond another one's event; "
            "the concordance needs more rows or more events."
        )
    return float(agreeing / comparable)


def scale_weights(weight):
    """Weights times a power of 2, which rounds nothing, with a maximum just below 2**480.

    As pairs weigh products, sums over 2**32 rows stay finite. Sums of several calls of
    `count_pairs` can be added if the weights of all their rows were scaled together.
    """
    if weight is None:
        return None
    return np.ldexp(weight, 480 - np.frexp(np.max(weight, initial=0.0))[1])


def count_pairs(
    event, time, risk, *, start=None, stratum=None, weight=None, horizon=None, tied_tol=1e-8
):
    """Sums over comparable pairs: (weights of agreeing pairs + half the tied ones, all weights).

    Weights of unknown size pass `scale_weights` first. Events after a horizon are no first ones.
    """
    weight = np.ones(len(time)) if weight is None else np.asarray(weight, dtype=np.float64)
    first = weight if horizon is None else np.where(time <= horizon, weight, 0.0)
    return sum_pairs(event, time, risk, (first, weight), start, stratum, tied_tol)


def sum_pairs(kind, time, risk, weights, start, stratum, tied_tol):
    """Sums of `count_pairs` over pairs of a row of kind 1 and one that outlives it.

    At tied times the rows of kind 0 outlive those of kind 1, others do not. The two weights of a
    row are those as the first and as the second of a pair.
    """
    return _find_pairs(kind, time, risk, weights, start, stratum, tied_tol)[:2]


def count_by_row(event, time, risk, *, start=None, stratum=None, weight=None, tied_tol=1e-8):
    """Sums of `count_pairs` over the pairs of each row as either partner, (n_rows, 2)."""
    n, none = len(time), np.zeros(len(time))
    weight = np.ones(n) if weight is None else weight
    start = np.full(n, -np.inf) if start is None else start
    firsts = _find_pairs(event, time, risk, (weight, weight), start, stratum, tied_tol)[2]
    # As second partner: back in time, the events since its entry are what comes after a row.
    rank = np.unique(np.append(time, start), return_inverse=True)[1]
    until = 2 * rank[:n] + ~np.asarray(event, bool)  # rows that are censored outlive a tied event
    kinds, weights = np.repeat([1, 2], n), (none, np.append(none, weight * event))
    seconds = [
        _find_pairs(
            *(kinds, -np.append(limit, 2.0 * rank[:n]), -np.tile(risk, 2), weights, None),
            *(None if stratum is None else np.tile(stratum, 2), tied_tol),
        )[2][:n]
        for limit in (until, np.minimum(2 * rank[n:] + 1, until))
    ]
    return firsts + seconds[0] - seconds[1]


def concordance_error(agreeing, comparable, weight, cluster=None):
    """Concordance and its standard error by sums over the pairs of each row; NaN without any."""
    total = weight @ comparable
    if not total > 0:
        return np.nan, np.nan
    concordance = weight @ agreeing / total
    share = 2.0 * weight * (agreeing - concordance * comparable) / total
    share = share if cluster is None else np.bincount(cluster, share)
    return float(concordance), float(np.sqrt(share @ share))


def _find_pairs(kind, time, risk, weights, start, stratum, tied_tol):
    codes, ptr = group_rows(stratum, len(time))
    start = np.full(len(time), -np.inf) if start is None else np.asarray(start, dtype=np.float64)
    return _count_pairs(
        (np.lexsort((-time, codes)), np.lexsort((-start, codes)), np.lexsort((risk, codes)), ptr),
        (np.asarray(kind).astype(np.uint8), time, start, *weights),
        np.ascontiguousarray(risk),
        float(tied_tol),
    )


def group_rows(labels, n_rows):
    """Code of each row's label, and where the rows of each code begin once sorted."""
    if labels is None:
        return np.zeros(n_rows, np.int64), np.array([0, n_rows])
    codes = np.unique(labels, return_inverse=True)[1]
    return codes, np.concatenate([[0], np.cumsum(np.bincount(codes))])


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
    kind, time, start, first_weight, second_weight = rows
    rank = np.empty(time.size, np.int64)
    below, up_to = np.empty_like(rank), np.empty_like(rank)
    agreeing, comparable, of_first = 0.0, 0.0, np.zeros((time.size, 2))
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
                if kind[row] == 0 and start[row] < now:  # others have left already
                    _put(tree, rank[row], second_weight[row])
                i += 1
            for k in range(block, i):
                row = by_exit[k]
                if kind[row] == 1:
                    lower, others = _split(tree, below[row])
                    tied = min(_sum_between(tree, below[row], up_to[row]), others)
                    # to assign a row as a whole would take two seconds to compile
                    of_first[row, 0], of_first[row, 1] = lower + 0.5 * tied, lower + others
                    agreeing += first_weight[row] * of_first[row, 0]
                    comparable += first_weight[row] * of_first[row, 1]
            for k in range(block, i):
                row = by_exit[k]
                if kind[row] != 0 and start[row] < now:
                    _put(tree, rank[row], second_weight[row])
    return agreeing, comparable, of_first
