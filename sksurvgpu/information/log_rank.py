"""The log-rank test of every column: Cox's score test where all coefficients are 0.

At event time k of a stratum n rows are at risk and d of them have the event; S and Q are the sums
of x and x^2 over the former, E the sum of x over the latter. A column has

    U = sum_k (E_k - d_k S_k / n_k)
    V = sum_k d_k (n_k - d_k) / (n_k - 1) (Q_k / n_k - (S_k / n_k)^2),

the variance without replacement: for an indicator, U^2 / V is Mantel and Haenszel's statistic, and
without ties it is the score test of any column. Sums over risk sets are scans of what rows bring
with their exit and take with their entry: a column costs its entries and the event times.

Its likelihood rises for ever with its coefficient where at no event time a row at risk has more
than one with the event, and with its negative where none has less. Of an indicator S and E tell.
"""

from typing import NamedTuple

import numpy as np

from .._compile import device, kernel
from .._threads import over_columns
from ..data.design.columns import DENSE, INDICATOR

UNDECIDED = 1e-9  # share of the column's largest value below which a difference may be rounding
TABLE_BYTES = 2**25  # of columns that are tested at a time, where partitions answer with tables


class ExcessOfEvents(NamedTuple):
    """By column."""

    excess: np.ndarray  # U, observed less expected
    variance: np.ndarray  # V
    rises: np.ndarray  # bool: no row at risk is above an event; of values, this may be so
    falls: np.ndarray  # likewise, below


class _Rows(NamedTuple):
    """In the order of the design."""

    exit_idx: np.ndarray  # uint32: twice the cell of the exit, and 1 more with an event
    enter_idx: np.ndarray  # uint32; empty where nobody enters late


class _Cells(NamedTuple):
    ptr: np.ndarray  # of each stratum; the first cell of one is before its first event
    at_risk: np.ndarray  # n
    deaths: np.ndarray  # d


class _Scratch(NamedTuple):
    total: np.ndarray
    square: np.ndarray  # nothing is read from it for an indicator
    dead: np.ndarray


# Both loops are functions of arrays, without another call: references to arrays are counted at
# every call, which for every entry would take ten times as long.
@device
def _bring_ones(column, rows, scratch):
    """Add the entries of an indicator to the cells of their exits and entries."""
    exit_idx, enter_idx = rows
    total, dead = scratch.total, scratch.dead
    for q in range(len(column)):
        i = np.uint64(column[q])
        code = exit_idx[i]
        total[code >> 1] += 1.0
        if code & 1:
            dead[code >> 1] += 1.0
        if len(enter_idx):
            total[enter_idx[i]] -= 1.0


@device
def _bring_values(column, rows, scratch, values, shift, is_dense):
    """Add the entries of a column with values; those of a dense one are its rows."""
    exit_idx, enter_idx = rows
    total, square, dead = scratch
    for q in range(len(exit_idx) if is_dense else len(column)):
        i = np.uint64(q) if is_dense else np.uint64(column[q])
        code, x = exit_idx[i], values[q] - shift
        total[code >> 1] += x
        square[code >> 1] += x * x
        if code & 1:
            dead[code >> 1] += x
        if len(enter_idx):
            total[enter_idx[i]] -= x
            square[enter_idx[i]] -= x * x


@device
def _scan(j, cells, scratch, is_indicator, out):
    """Write what the cells say of a column, and clear them."""
    largest = 0.0 if is_indicator else np.sqrt(np.abs(scratch.square).max())
    for s in range(len(cells.ptr) - 1):
        total = square = 0.0
        for k in range(cells.ptr[s + 1] - 1, cells.ptr[s], -1):
            n, d, dead = cells.at_risk[k], cells.deaths[k], scratch.dead[k]
            total += scratch.total[k]
            square += scratch.total[k] if is_indicator else scratch.square[k]
            excess = dead - d * total / n
            out.excess[j] += excess
            if n > 1:
                share = d * (n - d) / (n - 1)
                out.variance[j] += share * max(square / n - (total / n) ** 2, 0.0)
            if is_indicator:
                out.rises[j] &= total == 0 or dead == d
                out.falls[j] &= dead == 0 or total == n
            else:
                out.rises[j] &= excess >= -UNDECIDED * d * largest
                out.falls[j] &= excess <= UNDECIDED * d * largest
    scratch.total[:] = 0.0
    scratch.dead[:] = 0.0
    if not is_indicator:
        scratch.square[:] = 0.0


@device
def _bring(j, columns, center, is_one, rows, scratch):
    """Add the entries of a column to cells."""
    column = columns.indices[columns.indptr[j] : columns.indptr[j + 1]]
    if is_one:
        _bring_ones(column, rows, scratch)
    elif columns.kind[j] == INDICATOR:  # in this partition
        _bring_values(column, rows, scratch, np.ones(len(column)), center[j], False)
    else:
        values, is_dense = columns.values[columns.value_ptr[j] :], columns.kind[j] == DENSE
        _bring_values(column, rows, scratch, values, center[j], is_dense)


@kernel
def _bring_columns(first, last, columns, center, rows, tables):
    """Write tables of the rows of a partition; all of them have the squares."""
    for j in range(first, last):
        scratch = _Scratch(tables[0, j], tables[1, j], tables[2, j])
        _bring(j, columns, center, False, rows, scratch)


@kernel
def _scan_columns(first, last, cells, is_one, tables, out):
    """Write what tables of all rows say, and clear them."""
    for j in range(first, last):
        scratch = _Scratch(tables[0, j], tables[1, j], tables[2, j])
        _scan(j, cells, scratch, is_one[j], out)


@kernel
def _test_columns(first, last, columns, center, rows, cells, out):
    """Write what is found of columns first..last-1, which belong to this call."""
    n_cells = len(cells.deaths)
    scratch = _Scratch(np.zeros(n_cells), np.zeros(n_cells), np.zeros(n_cells))
    for j in range(first, last):
        is_one = columns.kind[j] == INDICATOR
        _bring(j, columns, center, is_one, rows, scratch)
        _scan(j, cells, scratch, is_one, out)


def log_rank_columns(design, plan, center, *, n_threads=1) -> ExcessOfEvents:
    """Test every column of a design, whose rows are in the order of the caller.

    The `plan` of the outcome has no cut points; `center` is taken from the values of columns that
    store all rows.
    """
    rows, cells = _rows_and_cells(plan)
    out = _nothing(design.n_columns)
    columns = design.arrays()
    cost = design.n_stored + plan.n_cells

    def test_columns(first, last):
        _test_columns(first, last, columns, center, rows, cells, out)

    over_columns(test_columns, cost, n_threads)
    return out


def log_rank_in_parts(columns, plan, center, is_one) -> ExcessOfEvents:
    """Test every column of `partitions.columns.ColumnsInPartitions`.

    Tables of the cells are added up, for some columns at a time; `is_one` says which have zeros
    and ones only.
    """
    rows, cells = _rows_and_cells(plan)
    by_row = rows.exit_idx, rows.enter_idx if len(rows.enter_idx) else None
    out, step = _nothing(columns.n_columns), max(1, TABLE_BYTES // (24 * plan.n_cells))
    for start in range(0, columns.n_columns, step):
        some = slice(start, min(start + step, columns.n_columns))
        parts = columns.apply(_bring_part, by_row, some, center[some], plan.n_cells)
        tables = next(parts)
        for more in parts:
            tables += more
        own = ExcessOfEvents(*(part[some] for part in out))
        _scan_columns(0, some.stop - start, cells, is_one[some], tables, own)
    return out


def _bring_part(design, own, some, center, n_cells):
    exit_idx, enter_idx = own
    rows = _Rows(exit_idx, np.empty(0, np.uint32) if enter_idx is None else enter_idx)
    tables = np.zeros((3, len(center), n_cells))
    _bring_columns(0, len(center), design.select(some).arrays(), center, rows, tables)
    return tables


def _nothing(n_columns):
    shape = 2, n_columns
    return ExcessOfEvents(*np.zeros(shape), *np.ones(shape, bool))


def _rows_and_cells(plan):
    no_entry = np.empty(0, np.uint32)
    enter_idx = no_entry if plan.enter_idx is None else plan.enter_idx
    leaves = np.bincount(plan.exit_idx, minlength=plan.n_cells)
    leaves -= np.bincount(enter_idx, minlength=plan.n_cells)
    later = np.append(np.cumsum(leaves[::-1])[::-1], 0)
    at_risk = later[:-1] - np.repeat(later[plan.cell_ptr[1:]], np.diff(plan.cell_ptr))
    is_event = plan.event > 0
    deaths = np.bincount(plan.exit_idx[is_event], minlength=plan.n_cells)
    rows = _Rows(
        _unordered(plan, 2 * plan.exit_idx + is_event.astype(np.uint32)),
        _unordered(plan, enter_idx) if len(enter_idx) else no_entry,
    )
    return rows, _Cells(plan.cell_ptr, at_risk.astype(np.float64), deaths.astype(np.float64))


def _unordered(plan, of_row):
    out = np.empty_like(of_row)
    out[plan.order] = of_row
    return out
