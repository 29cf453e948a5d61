"""Sums over rows that are at risk in a range of cells, and over the cells of a row: no differences.

A binary tree over n cells: cell k is node n + k, and node q covers what 2q and 2q + 1 do.  Every
range is made of at most 2 log2(n) nodes that do not overlap.  What is added to these and then
pushed down is in all cells of the range; what cells have and is then gathered up is in the nodes,
of which those of a range make its sum.  Where numbers differ by more than doubles can hold beside
each other, exits minus entries lose what is small, and these sums do not.
"""

from typing import NamedTuple

import numpy as np

from ..._compile import BOUND, device, kernel
from ...backends.cpu.optional import fill, read, row_weight, write

scan = BOUND


@device
def add_logs(a, b):
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))


@device
def add_to_range(nodes, low, high, log_w):
    """Add to the cells [low, high) a number that is given by its logarithm."""
    low, high = low + len(nodes) // 2, high + len(nodes) // 2
    while low < high:
        if low & 1:
            nodes[low] = add_logs(nodes[low], log_w)
            low += 1
        if high & 1:
            high -= 1
            nodes[high] = add_logs(nodes[high], log_w)
        low, high = low >> 1, high >> 1


@device
def sum_of_range(nodes, low, high):
    """Logarithm of the sum over the cells [low, high)."""
    low, high, total = low + len(nodes) // 2, high + len(nodes) // 2, -np.inf
    while low < high:
        if low & 1:
            total = add_logs(total, nodes[low])
            low += 1
        if high & 1:
            high -= 1
            total = add_logs(total, nodes[high])
        low, high = low >> 1, high >> 1
    return total


@device
def push_down(nodes):
    for q in range(2, len(nodes)):
        nodes[q] = add_logs(nodes[q], nodes[q >> 1])


@device
def gather_up(nodes):
    for q in range(len(nodes) // 2 - 1, 0, -1):
        nodes[q] = add_logs(nodes[2 * q], nodes[2 * q + 1])


@device
def _sum_log_risk(risk_sets, eta, cells, nodes):
    """D and T of every cell, as logarithms; returns the events' part of the log-likelihood."""
    loglik = 0.0
    fill(cells.tied, -np.inf)
    for i in range(len(eta)):
        if risk_sets.live[i]:
            c, k = row_weight(risk_sets.weight, i), risk_sets.exit_idx[i]
            log_w = np.log(c) + eta[i]
            add_to_range(nodes, risk_sets.enter_idx[i] + 1, k + 1, log_w)
            if risk_sets.event[i]:
                write(cells.tied, k, add_logs(read(cells.tied, k, -np.inf), log_w))
                loglik += c * eta[i]
    push_down(nodes)
    for k in range(len(cells.risk)):
        cells.risk[k] = nodes[len(cells.risk) + k]
    return loglik


@device
def _take_expected(risk_sets, eta, cells, nodes, u):
    """u: observed minus expected events, from the jumps that `cells.rest` has."""
    for k in range(len(cells.risk)):
        nodes[len(cells.risk) + k] = cells.rest[k]
    gather_up(nodes)
    for i in range(len(eta)):
        c, k = row_weight(risk_sets.weight, i), risk_sets.exit_idx[i]
        u[i] = 0.0
        if risk_sets.live[i]:
            log_w = np.log(c) + eta[i]
            u[i] = -np.exp(log_w + sum_of_range(nodes, risk_sets.enter_idx[i] + 1, k + 1))
            if risk_sets.event[i]:
                u[i] += c + np.exp(log_w + read(cells.held, k, -np.inf))


def evaluate_on_tree(risk_sets, eta, u, cells):
    """`risk_sets.evaluate` for predictors of any range with delayed entry, in logarithms."""
    nodes = np.full(2 * len(cells.risk), -np.inf)
    loglik = _sum_log_risk(risk_sets, eta, cells, nodes)
    loglik = scan(risk_sets, cells, loglik)
    _take_expected(risk_sets, eta, cells, nodes, u)
    return loglik, 0.0


class JumpTrees(NamedTuple):
    """Sums of jumps over nodes, as logarithms."""

    cells: np.ndarray
    bins: np.ndarray
    start: np.ndarray  # of bins: first cells less one, and last cells
    end: np.ndarray


@kernel
def trees_of_jumps(jumps, start, end):
    """Trees over cells, whose jumps are given as logarithms, and over bins of them."""
    cells, bins = np.full(2 * len(jumps), -np.inf), np.full(2 * len(start), -np.inf)
    cells[len(jumps) :] = jumps
    gather_up(cells)
    for b in range(len(start)):
        bins[len(start) + b] = sum_of_range(cells, start[b] + 1, end[b] + 1)
    gather_up(bins)
    return JumpTrees(cells, bins, start, end)


@device
def _put(i, part, node, log_h, nodes, h):
    nodes[part, i], h[part, i] = node, np.exp(log_h)
    return part + 1


@kernel
def spread_over_bins(risk_sets, eta, held, enter_bin, exit_bin, trees, nodes, h):
    """Parts of h of every row by the nodes that its bins make up; the most that a row has."""
    cells, bins, start, end = trees
    n_bins, most = len(start), 0
    for i in range(len(eta)):
        if not risk_sets.live[i]:
            continue
        log_w = np.log(row_weight(risk_sets.weight, i)) + eta[i]
        first, stop = risk_sets.enter_idx[i] + 1, risk_sets.exit_idx[i] + 1
        e, b = np.int64(enter_bin[i]), np.int64(exit_bin[i])
        own = sum_of_range(cells, first if e == b else start[b] + 1, stop)
        part = _put(i, 0, n_bins + b, log_w + own, nodes, h)
        if risk_sets.event[i]:
            kept_back = np.exp(log_w + read(held, risk_sets.exit_idx[i], -np.inf))
            h[0, i] = max(h[0, i] - kept_back, 0.0)
        if e < b:
            before = sum_of_range(cells, first, end[e] + 1)
            part = _put(i, part, n_bins + e, log_w + before, nodes, h)
        low, high = n_bins + e + 1, n_bins + b
        while low < high:
            if low & 1:
                part = _put(i, part, low, log_w + bins[low], nodes, h)
                low += 1
            if high & 1:
                high -= 1
                part = _put(i, part, high, log_w + bins[high], nodes, h)
            low, high = low >> 1, high >> 1
        most = max(most, part)
    return most
