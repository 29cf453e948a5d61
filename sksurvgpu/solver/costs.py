"""What the forms of the quadratic model cost, from counts: one table of measured constants.

``python -m benchmarks.costs`` measures the table on a machine.  Times are nanoseconds of one core;
only their ratios matter.
"""

from __future__ import annotations

import numpy as np

PAIR = 1.3  # two entries that lie in one row, added to a matrix
PRODUCT = 0.1  # one product of two dense columns, by BLAS
ENTRY_LOADED = 4.0  # an entry, when a column joins a model
ENTRY_SWEPT = 2.8  # an entry, in one pass of a sweep
ENTRY_MULTIPLIED = 2.1  # an entry of a working column, in a trial predictor
ENTRY_OF_GRADIENT = 1.5  # an entry of any column
ELEMENT = 36.0  # an element of a matrix, in about sixty dense passes
ELEMENT_SOLVED = 1.0 / 30  # ... times its columns, in Newton steps on supports
ITERATION = 4e5  # of the solver itself

ITERATIONS_BY_MATRIX = 6.0  # until a fit is done
# A matrix replaces outer iterations by sweeps.  Of this penalty there are so many left at most: the
# first ones gain little and say little of those to come, and columns are correlated where sweeps
# take many passes: then there may be as many left as were done.
MOST_LEFT, MOST_LEFT_IF_CORRELATED, MANY_PASSES, PASSES = 3.0, 8.0, 5, 10.0
SWEEPS_PER_PENALTY = 1.5  # ... of those that follow
SWEEPS_OF_BORROWER = 8.0  # what a fit near its optimum costs without a loan
BYTES = 24  # of every element: matrix, the copy that an extension makes, factor of a support

# On a device a matrix is worth its cost within one outer iteration, up to so many columns.  This
# number and its reason are estimates: a pass by matrix costs a tenth of one by columns or less.
MOST_HELD = 15_000
BYTES_HELD = 8  # of every element, in single precision: matrix, and the larger one it moves to


def most_columns(room):
    """Columns of the largest matrix in a `contract.Room`."""
    if room.holds:
        return min(int(np.sqrt(room.bytes / BYTES_HELD)), MOST_HELD)
    return int(np.sqrt(room.bytes / BYTES))


def sweeps_ahead(penalties_left, iterations_left, done, passes):
    """Outer iterations by sweeps, of so many passes each, that a matrix would replace."""
    most = max(MOST_LEFT_IF_CORRELATED, done) if passes >= MANY_PASSES else MOST_LEFT
    return SWEEPS_PER_PENALTY * penalties_left + min(iterations_left, most)


def of_matrix(counts, n_columns, n_fits=1, passes=PASSES):
    """Cost of a fit by matrix, which so many fits share, in outer iterations by sweeps.

    `passes` are those of a sweep.
    """
    by_matrix = (
        ENTRY_MULTIPLIED * counts.entries
        + ENTRY_OF_GRADIENT * counts.all_entries
        + (ELEMENT * n_columns**2 + ELEMENT_SOLVED * n_columns**3) / ITERATIONS_BY_MATRIX
    )
    by_sweeps = ENTRY_SWEPT * passes * counts.visits + ENTRY_OF_GRADIENT * counts.all_entries
    taking = (_forming(counts) + ENTRY_LOADED * counts.visits) / n_fits
    return (taking + ITERATIONS_BY_MATRIX * by_matrix) / by_sweeps


def is_cheap(counts, n_columns):
    """Whether a matrix, always fresh, costs less than the rest of an iteration.

    That pays where it is then the Hessian of the log-likelihood: a Newton step.
    """
    taking = _forming(counts) + ENTRY_LOADED * counts.visits + n_columns**2
    return counts.is_exact and taking < ITERATION + ENTRY_OF_GRADIENT * counts.all_entries


def _forming(counts):
    return PAIR * counts.pairs + PRODUCT * counts.products
