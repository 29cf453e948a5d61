"""Pairs of treated and comparators on a line: no comparator twice, none beyond a caliper.

All persons stand in the order of (group, value, row), and a pair lies within one group. Two rules
choose the pairs, both in rounds, of which each gives every treated one comparator at most:

- *closest*: of all free pairs the one with the least distance, again and again. It stands next to
  each other among those who are free: anybody in between would be closer to one of the two. A heap
  of neighbours of different arms therefore holds it, and a pair that leaves makes one new pair of
  neighbours. This is the greedy order of CohortMethod (Rassen et al. 2012), but O(n log n)
  whatever the values are; one nearest comparator kept per treated, as there, takes n^2 steps where
  many treated wait for the same comparators, as all with one value do.
- *in order*: one treated after another takes the nearest free comparator (MatchIt's "nearest").

Free persons are linked within their arm. The links of a comparator who was taken stay and lead to
those who are free (union-find with path halving), so that later rounds cost O(log n) a treated.
Equal distances go to the pair that stands first.
"""

from heapq import heapify, heappop, heappush

import numpy as np

from .._compile import device, kernel


@device
def _link(positions, before, after):
    """Link persons at ascending positions to one another."""
    for i, k in enumerate(positions):
        before[k] = positions[i - 1] if i > 0 else -1
        after[k] = positions[i + 1] if i + 1 < len(positions) else len(before)


@device
def _find(k, links, is_free):
    """First free comparator from `k` on along the links; -1 or n where none is left."""
    while 0 <= k < len(links) and not is_free[k]:
        onward = links[k]
        if 0 <= onward < len(links) and not is_free[onward]:
            links[k] = links[onward]
        k = onward
    return k


@device
def _unlink(k, before, after):
    left, right = before[k], after[k]
    if left >= 0:
        after[left] = right
    if right < len(before):
        before[right] = left


@device
def _distance(left, right, value, group):
    """How far apart two positions are; infinite beyond the ends and between groups."""
    if left < 0 or right >= len(value) or group[left] != group[right]:
        return np.inf
    return value[right] - value[left]


@device
def _neighbours(is_treated, before, after):
    """For every treated the next comparators on both sides, at first."""
    n = len(is_treated)
    left, right = np.full(n, -1), np.full(n, n)
    last = -1
    for k in range(n):
        left[k] = last
        if not is_treated[k]:
            last = k
    last = n
    for k in range(n - 1, -1, -1):
        right[k] = last
        if not is_treated[k]:
            last = k
    _link(np.flatnonzero(~is_treated), before, after)
    return left, right


@kernel
def pair_closest(value, group, is_treated, caliper, ratio, partner):
    """Pair the closest first, within a caliper, in as many rounds as the ratio says.

    Values (n,) ascend within groups, which ascend. `partner` gets, for comparators who are taken,
    the position of their treated, and is else left as it is.
    """
    n = len(value)
    before, after = np.empty(n, np.int64), np.empty(n, np.int64)
    left, right = _neighbours(is_treated, before, after)
    is_free = np.ones(n, np.bool_)
    active = np.flatnonzero(is_treated)
    for _ in range(ratio):
        _link(active, before, after)
        heap = [(0.0, 0, 0) for _ in range(0)]
        for k in active:
            is_free[k] = True
            left[k] = _find(left[k], before, is_free)
            right[k] = _find(right[k], after, is_free)
            # only next to each other: others are seen when those between them have left
            if left[k] > before[k] and _distance(left[k], k, value, group) <= caliper:
                heap.append((_distance(left[k], k, value, group), left[k], k))
            if right[k] < after[k] and _distance(k, right[k], value, group) <= caliper:
                heap.append((_distance(k, right[k], value, group), k, right[k]))
        heapify(heap)
        while len(heap) > 0:
            _, a, b = heappop(heap)
            if not (is_free[a] and is_free[b]):
                continue
            treated, other = (a, b) if is_treated[a] else (b, a)
            partner[other] = treated
            is_free[a] = is_free[b] = False
            x, y = max(before[a], before[b]), min(after[a], after[b])
            _unlink(a, before, after)
            _unlink(b, before, after)
            distance = _distance(x, y, value, group)
            if distance <= caliper and is_treated[x] != is_treated[y]:
                heappush(heap, (distance, x, y))
        active = active[~is_free[active]]
        if len(active) == 0:
            break


@kernel
def pair_in_order(value, group, is_treated, caliper, ratio, order, partner):
    """Give one treated after another the nearest comparator; `order` are their positions.

    The other parameters are those of `pair_closest`.
    """
    n = len(value)
    before, after = np.empty(n, np.int64), np.empty(n, np.int64)
    left, right = _neighbours(is_treated, before, after)
    is_free = ~is_treated
    for _ in range(ratio):
        n_matched = 0
        for k in order:
            left[k] = _find(left[k], before, is_free)
            right[k] = _find(right[k], after, is_free)
            down = _distance(left[k], k, value, group)
            up = _distance(k, right[k], value, group)
            if min(down, up) <= caliper:
                other = left[k] if down <= up else right[k]
                partner[other] = k
                is_free[other] = False
                order[n_matched] = k
                n_matched += 1
        order = order[:n_matched]
        if n_matched == 0:
            break
