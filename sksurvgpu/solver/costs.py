"""Costs of the forms of the quadratic model, from counts: one table of measured constants.

``python -m benchmarks costs`` measures the table on a machine.  Times are nanoseconds of one core;
only their ratios matter, and on a device they are alike: on an H100 a matrix took 23 iterations by
a diagonal where the table says 29 (10^6 x 1,000, 5 % ones, 2026-11).
"""

import numpy as np

# Two entries that lie in one row, added to a matrix of so many columns, which the cache holds, and
# more at every doubling of these: 1.9 at 1,100, 2.7 at 2,200, 3.6 at 4,600.
PAIR, PAIR_BEYOND, COLUMNS_IN_CACHE = 0.9, 0.9, 512
PRODUCT = 0.045  # one product of two dense columns, by BLAS
ENTRY_LOADED = 0.7  # an entry, when a column joins a model
ENTRY_MULTIPLIED = 0.55  # an entry of a working column, in a trial predictor
ENTRY_OF_GRADIENT = 0.25  # an entry of any column
ELEMENT = 0.9  # an element of a matrix, in about ten dense passes of an iteration
ELEMENT_SOLVED = 1.0 / 120  # ... times its columns, in its Newton step on the support
# Times as much for entries in an iteration: nothing is in the cache, and curvatures are taken too.
# 3.3 in the first five iterations, 1.7 in all 14 (100,000 x 1,000, 5 % ones).
IN_A_FIT = 2.5
ITERATION = 3e5  # of the solver itself
COLUMN_OF_PAIR = 100.0  # ... for each working column and pair of secants: 40 to 250

ITERATIONS_BY_MATRIX = 6.0  # until a fit is done
ITERATIONS_BY_MATRIX_LATE = 20.0  # ... that was slow by a diagonal: 14 to 52 in all
FEWEST = 4.0
ITERATIONS_IF_COUPLED, PAIRS_IF_COUPLED = 80.0, 15.0  # by a diagonal, in the mean
ITERATIONS_BY_SAMPLE = 30.0  # ... or the matrix of one
ITERATIONS_PER_PENALTY = 4.0  # ... of those that follow
ITERATIONS_OF_BORROWER = 16.0  # what a fit near its optimum costs without a loan
BYTES = 24  # of every element: matrix, the copy that an extension makes, factor of a support


def most_columns(room):
    """Columns of the largest matrix in a `contract.Room`."""
    return int(np.sqrt(room.bytes / BYTES))


def iterations_ahead(penalties_left, iterations_left, done):
    """Iterations that a matrix would replace: of this penalty no more than were done."""
    return ITERATIONS_PER_PENALTY * penalties_left + min(iterations_left, max(FEWEST, done))


def of_matrix(counts, n_columns, n_fits=1, n_pairs=0.0):
    """Cost of a fit by matrix, which so many fits share, in iterations by a diagonal and pairs."""
    by_diagonal, by_matrix = _iterations(counts, n_columns)
    taking = _forming(counts, n_columns) / n_fits + ITERATIONS_BY_MATRIX * by_matrix
    return taking / (by_diagonal + COLUMN_OF_PAIR * n_columns * n_pairs)


def of_change(counts, n_columns, n_pairs):
    """Cost of going on by matrix, in iterations by a diagonal with so many pairs of secants."""
    by_diagonal, by_matrix = _iterations(counts, n_columns)
    later = _forming(counts, n_columns) + ITERATIONS_BY_MATRIX_LATE * by_matrix
    return later / (by_diagonal + COLUMN_OF_PAIR * n_columns * n_pairs)


def of_sample(counts, n_columns, share):
    """Cost of a fit by the matrix of a share of the rows, in iterations by a diagonal."""
    by_diagonal, by_matrix = _iterations(counts, n_columns)
    taking = share * _forming(counts, n_columns)
    return (taking + ITERATIONS_BY_SAMPLE * by_matrix) / by_diagonal


def iterations_if_coupled(counts, n_columns):
    """Iterations by a diagonal of coupled columns, which grow as the root of their condition."""
    root = np.sqrt(n_columns / counts.rows)
    growth = 0.25 * (1.0 + root) / (1.0 - root) if root < 1.0 else np.inf
    return ITERATIONS_IF_COUPLED * max(1.0, growth)


def are_many(counts, n_columns):
    """Whether columns are so many that the rows hardly tell them apart."""
    return 2 * n_columns > counts.rows


def is_cheap(counts, n_columns):
    """Whether a matrix, always fresh, costs less than the rest of an iteration.

    That pays where it is then the Hessian of the log-likelihood: a Newton step.
    """
    taking = _forming(counts, n_columns) + ENTRY_LOADED * counts.visits + n_columns**2
    gradient = ENTRY_OF_GRADIENT * counts.all_entries
    return counts.is_exact and taking < ITERATION + IN_A_FIT * gradient


def stays_fresh(counts, n_columns):
    """Whether a matrix is taken in every iteration: it is cheap, or nothing else is near enough."""
    is_hessian = counts.is_exact and are_many(counts, n_columns)
    return is_hessian or is_cheap(counts, n_columns)


def _iterations(counts, n_columns):
    """Cost of an iteration by a diagonal, and by a matrix."""
    passes = (ENTRY_MULTIPLIED + ENTRY_OF_GRADIENT) * counts.entries
    by_diagonal = IN_A_FIT * passes + ITERATION
    return by_diagonal, by_diagonal + ELEMENT * n_columns**2 + ELEMENT_SOLVED * n_columns**3


def _forming(counts, n_columns):
    beyond = np.log2(max(n_columns / COLUMNS_IN_CACHE, 1.0))
    return (PAIR + PAIR_BEYOND * beyond) * counts.pairs + PRODUCT * counts.products
