"""Scans over the cells of risk sets, for means over risk sets and score residuals.

See `information`; all cost O((rows + cells) * columns) for dense columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._compile import device, kernel
from ...information.spans import add_span, copy_row, gather_up, push_down, sum_span


class RiskSetRows(NamedTuple):
    """Rows of a risk-set problem; a row is at risk in the cells (enter, exit]."""

    exit_idx: np.ndarray  # uint32
    enter_idx: np.ndarray  # uint32; empty where nobody enters late
    event: np.ndarray  # bool: an event of a row of positive weight
    risk: np.ndarray  # exp(eta) on the scale of the row's stratum; 0 where it is at no risk
    weight: np.ndarray
    cell_ptr: np.ndarray  # cells of each (piece, stratum)


class CarriedRows(NamedTuple):
    """How rows are carried beyond their exit; without any, arrays are empty."""

    idx: np.ndarray  # uint32 per row: lane cell of its exit
    inverse: np.ndarray  # per row: 1 / G(T-), 0 where the row is not carried
    ptr: np.ndarray  # lane cells of each lane
    first: np.ndarray  # per lane: first cell of its stratum
    survival: np.ndarray  # per lane cell: G


class Atoms(NamedTuple):
    """Factors of the partial likelihood, in the order of cells."""

    cell: np.ndarray
    fraction: np.ndarray
    weight: np.ndarray  # N


class CellScores(NamedTuple):
    """Numbers by cell that scores need: scans of numbers, and of means (`_x`)."""

    hazard: np.ndarray  # sum of g up to the cell
    hazard_x: np.ndarray
    held: np.ndarray  # sum of g f at the cell
    held_x: np.ndarray
    mean: np.ndarray  # average of means at the cell
    after: np.ndarray  # per lane cell: sum of g G after it
    after_x: np.ndarray


def atoms_of(deaths, death_weight, uses_ties) -> Atoms:
    """Atoms of cells with the given numbers of deaths, and weights of these."""
    cell = np.flatnonzero(deaths > 0)
    count = deaths[cell].astype(np.int64) if uses_ties else np.ones(len(cell), np.int64)
    start = np.repeat(np.cumsum(count) - count, count)
    fraction = (np.arange(len(start)) - start) / np.repeat(count, count)
    weight = np.repeat(death_weight[cell] / count, count)
    return Atoms(np.repeat(cell, count), fraction, weight)


@device
def _sum_exits(rows, x, total, nodes, tied):
    """Sums by exit; of rows that enter late, by the spans of cells in which they are at risk."""
    for i in range(len(rows.exit_idx)):
        w = rows.risk[i] * rows.weight[i]
        if w == 0.0:
            continue
        k = rows.exit_idx[i]
        if len(rows.enter_idx):
            add_span(nodes, rows.enter_idx[i] + 1, k + 1, w, x[i])
        else:
            for j in range(x.shape[1]):
                total[k, j] += w * x[i, j]
        if len(tied) and rows.event[i]:
            for j in range(x.shape[1]):
                tied[k, j] += w * x[i, j]


@device
def _carry(rows, lanes, x, total):
    """Add the rows carried along every lane to the cells after their exits."""
    width = x.shape[1]
    left = np.zeros((lanes.ptr[-1], width))
    for i in range(len(lanes.idx)):
        v = rows.risk[i] * rows.weight[i] * lanes.inverse[i]
        if v > 0.0:
            for j in range(width):
                left[lanes.idx[i], j] += v * x[i, j]
    carried = np.zeros(width)
    for lane in range(len(lanes.ptr) - 1):
        carried[:] = 0.0
        shift = lanes.first[lane] - lanes.ptr[lane]
        for q in range(lanes.ptr[lane], lanes.ptr[lane + 1]):
            for j in range(width):
                total[q + shift, j] += lanes.survival[q] * carried[j]
                carried[j] += left[q, j]


@kernel
def sum_cells(rows, lanes, x, total, tied):
    """Sums of w x over the rows at risk, and over tied deaths where `tied` is not empty."""
    width = x.shape[1]
    nodes = np.zeros((2 * len(total) if len(rows.enter_idx) else 0, width))
    _sum_exits(rows, x, total, nodes, tied)
    if len(nodes):
        push_down(nodes)
        for k in range(len(total)):
            copy_row(nodes, len(total) + k, total, k)
    else:
        for s in range(len(rows.cell_ptr) - 1):
            for k in range(rows.cell_ptr[s + 1] - 2, rows.cell_ptr[s] - 1, -1):
                for j in range(width):
                    total[k, j] += total[k + 1, j]
    if len(lanes.idx):
        _carry(rows, lanes, x, total)


@kernel
def add_later(sums, cell_ptr):
    """Add to every cell those after it in its stratum, (columns, cells)."""
    for j in range(len(sums)):
        for s in range(len(cell_ptr) - 1):
            for k in range(cell_ptr[s + 1] - 2, cell_ptr[s] - 1, -1):
                sums[j, k] += sums[j, k + 1]


@device
def _scan_cells(rows, atoms, slope, mean, cells):
    """Prefix scans of the atoms' g and g mean; what belongs to a cell alone."""
    width, n_atoms, a = mean.shape[1], len(atoms.cell), 0
    for s in range(len(rows.cell_ptr) - 1):
        first = rows.cell_ptr[s]
        for k in range(first + 1, rows.cell_ptr[s + 1]):
            cells.hazard[k] = cells.hazard[k - 1]
            copy_row(cells.hazard_x, k - 1, cells.hazard_x, k)
            begin = a
            while a < n_atoms and atoms.cell[a] == k:
                held = slope[a] * atoms.fraction[a]
                cells.hazard[k] += slope[a]
                cells.held[k] += held
                for j in range(width):
                    cells.hazard_x[k, j] += slope[a] * mean[a, j]
                    cells.held_x[k, j] += held * mean[a, j]
                    cells.mean[k, j] += mean[a, j]
                a += 1
            if a - begin > 1:
                for j in range(width):
                    cells.mean[k, j] /= a - begin


@kernel
def scan_means(rows, atoms, slope, mean, cells):
    """Scans over cells, which start as zeros, of the atoms' means."""
    _scan_cells(rows, atoms, slope, mean, cells)


@device
def _scan_lanes(lanes, cells):
    """Suffix scans of G times what the cells gained, for the rows that are carried."""
    width = cells.hazard_x.shape[1]
    for lane in range(len(lanes.ptr) - 1):
        shift = lanes.first[lane] - lanes.ptr[lane]
        for q in range(lanes.ptr[lane + 1] - 2, lanes.ptr[lane] - 1, -1):
            k, survival = q + 1 + shift, lanes.survival[q + 1]
            gain = cells.hazard[k] - cells.hazard[k - 1]
            cells.after[q] = cells.after[q + 1] + survival * gain
            for j in range(width):
                gain = cells.hazard_x[k, j] - cells.hazard_x[k - 1, j]
                cells.after_x[q, j] = cells.after_x[q + 1, j] + survival * gain


@device
def _nodes_of(rows, atoms, slope, mean, n_cells):
    """Sums of g and g mean over spans of cells, where rows enter late."""
    nodes = np.zeros((2 * n_cells if len(rows.enter_idx) else 0, 1 + mean.shape[1]))
    if len(nodes):
        for a in range(len(atoms.cell)):
            leaf = nodes[n_cells + atoms.cell[a]]
            leaf[0] += slope[a]
            for j in range(mean.shape[1]):
                leaf[1 + j] += slope[a] * mean[a, j]
        gather_up(nodes)
    return nodes


@device
def _at_risk(rows, cells, nodes, i, span):
    """Sums of g and g mean over the cells in which a row is at risk, less what ties hold back."""
    k = rows.exit_idx[i]
    if len(nodes):
        sum_span(nodes, rows.enter_idx[i] + 1, k + 1, span)
    else:
        span[0] = cells.hazard[k]
        for j in range(len(span) - 1):
            span[1 + j] = cells.hazard_x[k, j]
    if rows.event[i]:
        span[0] -= cells.held[k]
        for j in range(len(span) - 1):
            span[1 + j] -= cells.held_x[k, j]


@kernel
def scan_scores(rows, lanes, x, atoms, slope, mean, cells, out):
    """Score residuals of all rows per unit of weight; `slope` is g, and `cells` starts as zeros."""
    _scan_cells(rows, atoms, slope, mean, cells)
    if len(lanes.idx):
        _scan_lanes(lanes, cells)
    nodes = _nodes_of(rows, atoms, slope, mean, len(cells.hazard))
    span = np.empty(1 + x.shape[1])
    for i in range(len(rows.exit_idx)):
        k, e = rows.exit_idx[i], rows.risk[i]
        _at_risk(rows, cells, nodes, i, span)
        for j in range(x.shape[1]):
            score = x[i, j] - cells.mean[k, j] if rows.event[i] else 0.0
            out[i, j] = score - e * (x[i, j] * span[0] - span[1 + j])
        if len(lanes.idx) and lanes.inverse[i] > 0.0:
            v, q = e * lanes.inverse[i], lanes.idx[i]
            for j in range(x.shape[1]):
                out[i, j] -= v * (x[i, j] * cells.after[q] - cells.after_x[q, j])


@kernel
def scan_expected(rows, lanes, atoms, slope, cells, out):
    """Expected events of all rows per unit of weight; `cells` starts as zeros, without columns."""
    mean = np.zeros((len(atoms.cell), 0))
    _scan_cells(rows, atoms, slope, mean, cells)
    if len(lanes.idx):
        _scan_lanes(lanes, cells)
    nodes, span = _nodes_of(rows, atoms, slope, mean, len(cells.hazard)), np.empty(1)
    for i in range(len(rows.exit_idx)):
        e = rows.risk[i]
        _at_risk(rows, cells, nodes, i, span)
        out[i] = e * span[0]
        if len(lanes.idx):
            out[i] += e * lanes.inverse[i] * cells.after[lanes.idx[i]]


@kernel
def scale_risk(eta, live, cell_ptr, group_idx, risk):
    """exp(eta) of every row on the scale of its group's largest; 0 for rows at no risk."""
    top = np.full(len(cell_ptr) - 1, -np.inf)
    for i in range(len(eta)):
        if live[i]:
            top[group_idx[i]] = max(top[group_idx[i]], eta[i])
    for i in range(len(eta)):
        risk[i] = np.exp(eta[i] - top[group_idx[i]]) if live[i] else 0.0
