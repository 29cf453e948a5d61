"""Flows in graphs: whether slopes of coefficients can be balanced along edges between them.

A node has a supply, an edge carries up to its capacity in either direction.  `largest_flow` is
Dinic's algorithm (1970) in floating point: shortest paths along which something is left, all of one
length at a time.  Every push uses up an arc, a supply or a demand to the last bit, so that it ends
as it does for whole numbers; what is less than `least` counts as nothing.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._compile import device, kernel

NOTHING = 1e-14  # share of all supplies
MOST_CUTS = 200


class Arcs(NamedTuple):
    """Two for each edge, those of a node together."""

    ptr: np.ndarray  # (n_nodes + 1,)
    head: np.ndarray  # (n_arcs,)
    mate: np.ndarray  # the arc in the other direction


@device
def _find_levels(arcs, left, excess, least, level, queue):
    """Distances of nodes from those with a supply; -1 where none is reached."""
    size = 0
    for j in range(len(level)):
        level[j] = -1
        if excess[j] > least:
            level[j] = 0
            queue[size] = j
            size += 1
    found, at = False, 0
    while at < size:
        j = queue[at]
        at += 1
        found |= excess[j] < -least
        for arc in range(arcs.ptr[j], arcs.ptr[j + 1]):
            if left[arc] > least and level[arcs.head[arc]] < 0:
                level[arcs.head[arc]] = level[j] + 1
                queue[size] = arcs.head[arc]
                size += 1
    return found


@device
def _send(source, sink, path, mate, left, excess, least):
    """Push as much as a path takes; the position of the first arc of which nothing is left."""
    amount = min(excess[source], -excess[sink])
    for arc in path:
        amount = min(amount, left[arc])
    excess[source] -= amount
    excess[sink] += amount
    broken = len(path)
    for q in range(len(path) - 1, -1, -1):
        left[path[q]] -= amount
        left[mate[path[q]]] += amount
        if left[path[q]] <= least:
            broken = q
    return broken


@device
def _push_from(source, arcs, left, excess, least, level, at, path):
    """Push what `source` has along paths of increasing level."""
    ptr, head, mate = arcs
    length, j = 0, source
    while excess[source] > least:
        if excess[j] < -least:
            broken = _send(source, j, path[:length], mate, left, excess, least)
            if broken < length:  # go on from where the path broke
                length, j = broken, head[mate[path[broken]]]
            continue
        arc, end = at[j], ptr[j + 1]
        while arc < end and (left[arc] <= least or level[head[arc]] != level[j] + 1):
            arc += 1
        at[j] = arc
        if arc < end:
            path[length] = arc
            j = head[arc]
            length += 1
        elif length == 0:
            return
        else:  # a dead end
            length -= 1
            j = head[mate[path[length]]]
            at[j] += 1


@kernel
def largest_flow(arcs, left, excess, least, level):
    """Move supplies (positive `excess`) to demands; both keep what could not be moved.

    `left` are the capacities of arcs, then what is left of them.  `level` is -1 for the nodes that
    no supply reaches any more: the other ones are one side of a smallest cut.
    """
    n_nodes = len(excess)
    queue, path = np.empty(n_nodes, np.int64), np.empty(n_nodes, np.int64)
    while _find_levels(arcs, left, excess, least, level, queue):
        at = arcs.ptr[:-1].copy()
        for j in range(n_nodes):
            if excess[j] > least:
                _push_from(j, arcs, left, excess, least, level, at, path)


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes and edges, two arcs for each of these."""

    tail: np.ndarray  # (n_edges,)
    head: np.ndarray
    arcs: Arcs
    edge: np.ndarray  # (n_arcs,) to which they belong

    @classmethod
    def of(cls, tail, head, n_nodes):
        """The graph of some edges."""
        n_edges = len(tail)
        order = np.argsort(np.concatenate([tail, head]), kind="stable")
        place = np.empty(2 * n_edges, np.int64)
        place[order] = np.arange(2 * n_edges)
        counts = np.bincount(np.concatenate([tail, head]), minlength=n_nodes)
        ptr = np.concatenate([[0], np.cumsum(counts)])
        to = np.concatenate([head, tail])[order]
        mate = np.roll(place, n_edges)[order]
        return cls(tail, head, Arcs(ptr, to, mate), order % max(n_edges, 1))

    @property
    def n_nodes(self):
        return len(self.arcs.ptr) - 1

    def balance(self, capacity, supply):
        """Supplies that no flow can carry away, and the nodes that they could still reach."""
        excess, level = supply.copy(), np.empty(self.n_nodes, np.int64)
        total = np.maximum(supply, 0.0).sum()  # more than that flows nowhere
        arcs = np.minimum(capacity, total)[self.edge]
        largest_flow(self.arcs, arcs, excess, NOTHING * total, level)
        return excess, level >= 0

    def least_factor(self, capacity, supply, least=0.0):
        """Least factor of all capacities, of at least `least`, for which supplies are balanced.

        Each cut that is too narrow says how much is needed there: Newton's method for the largest
        ratio, which ends with the widest need.  Infinite where there is no way at all.
        """
        factor = least
        for _ in range(MOST_CUTS):
            excess, reached = self.balance(factor * capacity, supply)
            if not excess.max(initial=0.0) > 1e-12 * np.abs(supply).max(initial=0.0):
                return factor
            across = reached[self.tail] != reached[self.head]
            width = float(capacity[across].sum())
            if width == 0.0:
                return np.inf
            wanted = float(supply[reached].sum()) / width
            if not wanted > factor:  # to the last bit
                return factor
            factor = wanted
        return np.inf
