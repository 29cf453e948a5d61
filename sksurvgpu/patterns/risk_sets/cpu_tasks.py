"""Tasks of an evaluation over risk sets, and what is kept of blocks between them.

Rows are in the order of their exits, so that a block of rows owns a range of cells: those in which
no row before it has its exit.  What a block has of the cell before (its *head*: all that are
censored at the end of a study have one exit) is added when all blocks are done.  Late entries are
listed in the order of their cells (`RowPlan.entries`), and blocks of this list take their rows out.

D and A are two scans over the cells of each stratum: blocks are of whole strata there.  Between
the two, logarithms and divisions by D are the work of a scan many times over, and on any cells.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from ..._compile import BOUND, bind, device, part_of_loop, specialize
from ...backends.cpu import tasks
from ...backends.cpu.optional import add
from .cpu_cells import (
    REST,
    RISK,
    TERMS,
    TIED,
    add_risk,
    jumps_of,
    largest_predictor,
    sum_jumps,
    sum_risks,
    sum_rows,
    take_expected,
)

find_jumps = of_cells = BOUND

TOPS, SUMS, ENTRIES, RISKS, JUMPS, HAZARDS, EXPECTED = range(7)


class EntryBlocks(NamedTuple):
    """Rows that enter after the first cell of their stratum, in the order of these cells."""

    rows: np.ndarray  # int32
    cell: np.ndarray  # uint32: of the entry
    blocks: np.ndarray  # edges; no cell is in two blocks


def _entries_of(plan):
    if plan.enter_idx is None:
        return EntryBlocks(np.empty(0, np.int32), np.empty(0, np.uint32), np.zeros(1, np.int64))
    rows, cell = plan.entries
    inner = np.searchsorted(cell, cell[tasks.cut(len(cell))[1:-1]])
    return EntryBlocks(rows, cell, np.unique([0, *inner, len(cell)]))


# What tasks find of a block, after what `risk_sets.sum_rows` does: the largest predictor of rows;
# whether D has lost its digits in some stratum; the log-likelihood of cells. Of the first block,
# what all have found.
TOP, IS_LOST, OF_CELLS, LOGLIK, SHIFT = range(TIED + 1, TIED + 6)


class Blocks(NamedTuple):
    """Edges of blocks, and what a task has found of each for those that follow."""

    sizes: np.ndarray  # number of blocks of every task
    rows: np.ndarray
    cells: np.ndarray
    strata: np.ndarray
    entries: EntryBlocks
    found: np.ndarray  # numbers as above, per block


def blocks_of(plan, rows, is_in_order):
    """Blocks of a plan whose rows are cut at given edges.

    These are summed in one block unless they are in the order of their exits.
    """
    cells, strata = tasks.cut(plan.n_cells), tasks.cut_groups(plan.cell_ptr)
    entries = _entries_of(plan)
    n_rows, n_cells, n_strata = len(rows) - 1, len(cells) - 1, len(strata) - 1
    n_entries = len(entries.blocks) - 1
    n_sums = n_rows if is_in_order else 1
    sizes = np.array([n_rows, n_sums, n_entries, n_strata, n_cells, n_strata, n_rows])
    return Blocks(sizes, rows, cells, strata, entries, np.zeros((sizes.max(), SHIFT + 1)))


@device
def join_tops(blocks):
    """Shift of the predictor."""
    top = -np.inf
    for b in range(blocks.sizes[TOPS]):
        if not blocks.found[b, TOP] <= top:
            top = blocks.found[b, TOP]
    return top if top > -np.inf or top != top else 0.0  # 0: nobody is ever at risk


@part_of_loop
def span_of(risk_sets, blocks, b, n_cells):
    """Rows of a block of sums and its own cells: their first, and the end of them."""
    if blocks.sizes[SUMS] == 1:
        return blocks.rows[0], blocks.rows[-1], np.int64(0), np.int64(n_cells)
    low, high, begin, end = blocks.rows[b], blocks.rows[b + 1], np.int64(0), np.int64(n_cells)
    if b > 0:
        begin = np.int64(risk_sets.exit_idx[low - 1]) + 1
    if b < blocks.sizes[SUMS] - 1:
        end = np.int64(risk_sets.exit_idx[high - 1]) + 1
    return low, high, begin, end


@part_of_loop
def take_entries(entries, w_row, cells, b):
    """Take a block of entries out of the sums of their cells."""
    for q in tasks.rows_in(entries.blocks[b], entries.blocks[b + 1]):
        add_risk(cells, entries.cell[q], -w_row[np.uint32(entries.rows[q])])


@device
def _complete(risk_sets, cells, blocks, begin, end):
    """Add to the cells [begin, end) what blocks have found of cells that began before them."""
    for b in range(1, blocks.sizes[SUMS]):
        k = np.int64(risk_sets.exit_idx[blocks.rows[b]])
        if begin <= k < end:
            add_risk(cells, k, blocks.found[b, RISK])
            add(cells.rest, k, blocks.found[b, REST])
            add(cells.tied, k, blocks.found[b, TIED])


@part_of_loop
def begin_part(blocks, b):
    """Log-likelihood from which the terms of a block of cells are taken; NaN where D is lost."""
    for part in range(blocks.sizes[RISKS]):
        if blocks.found[part, IS_LOST] > 0.0:
            return np.nan
    loglik = 0.0
    if b == 0:
        for part in range(blocks.sizes[SUMS]):
            loglik += blocks.found[part, TERMS]
    return loglik


@device
def join_parts(blocks):
    """Log-likelihood and shift, when all blocks of cells are done."""
    loglik = 0.0
    for b in range(blocks.sizes[JUMPS]):
        loglik += blocks.found[b, OF_CELLS]
    blocks.found[0, LOGLIK], blocks.found[0, SHIFT] = loglik, join_tops(blocks)


@part_of_loop
def _do_rows(risk_sets, eta, u, cells, blocks, task, low, high):
    """Blocks [low, high) of a task over rows."""
    found, rows = blocks.found, blocks.rows
    if task == TOPS:
        for b in range(low, high):
            found[b, TOP] = largest_predictor(risk_sets, eta, rows[b], rows[b + 1])
    elif task == SUMS:
        for b in range(low, high):
            first, last, begin, end = span_of(risk_sets, blocks, b, len(cells.risk))
            top = join_tops(blocks)
            sum_rows(risk_sets, eta, top, cells, u, first, last, begin, end, found[b])
    elif task == ENTRIES:
        for b in range(low, high):
            take_entries(blocks.entries, u, cells, b)
    elif task == EXPECTED and not np.isnan(found[0, LOGLIK]):
        for b in range(low, high):
            take_expected(risk_sets, cells, u, rows[b], rows[b + 1])


def do_cells(risk_sets, cells, blocks, task, low, high):
    """Blocks [low, high) of a task over cells."""
    found, strata, ptr = blocks.found, blocks.strata, risk_sets.cell_ptr
    if task == RISKS:
        for b in range(low, high):
            _complete(risk_sets, cells, blocks, ptr[strata[b]], ptr[strata[b + 1]])
            has_digits = sum_risks(risk_sets, cells, strata[b], strata[b + 1])
            found[b, IS_LOST] = 0.0 if has_digits else 1.0
    elif task == JUMPS:
        for b in range(low, high):
            first, end, start = blocks.cells[b], blocks.cells[b + 1], begin_part(blocks, b)
            found[b, OF_CELLS] = find_jumps(risk_sets, cells, first, end, start)
    elif task == HAZARDS:
        for b in range(low, high):
            sum_jumps(risk_sets, cells, strata[b], strata[b + 1])
        if low == 0:
            join_parts(blocks)


def evaluate(risk_sets, eta, u, cells, blocks, sizes, task, low, high):
    """Tasks of an evaluation; u is what it should be unless the log-likelihood is NaN.

    That is so where D underflows, or has lost its digits.
    """
    for now in range(task, len(sizes) if high == tasks.ALL else task + 1):
        end = min(high, sizes[now])
        _do_rows(risk_sets, eta, u, cells, blocks, now, low, end)
        of_cells(risk_sets, cells, blocks, now, low, end)
    return task + 1


@cache
def kernel_of(formula):
    """Kernel of an evaluation under a likelihood's `jump_formula`."""
    of_cells = part_of_loop(bind(do_cells, find_jumps=jumps_of(formula)))
    return specialize(evaluate, of_cells=of_cells)


def run(threads, compiled, arguments, blocks):
    """Do all tasks; the log-likelihood and the shift."""
    tasks.run(threads, compiled, (*arguments, blocks), blocks.sizes)
    return blocks.found[0, LOGLIK:].tolist()
