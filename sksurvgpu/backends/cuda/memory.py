"""Memory that a batch needs, before any of it is taken."""

import math

import numpy as np

from ...data.design.columns import INDICATOR, SPARSE
from ...data.design.tiles import LARGEST
from .curvatures import shape_of_warps
from .cuts import most_tiles
from .kept import forget, held_bytes
from .layout import BLOCKS_PER_MULTIPROCESSOR
from .linalg import has_cupy

SHARE = 0.9  # of the free memory that may be planned with
# A row: outcome, weights as they are given, cells, bins, scans; lanes and tables of censoring.
PLAN_BYTES = 112
# Of a matrix: an element; columns that it is expected to have at least, if there are so many.  More
# are a matter of what is left.
BYTES_MADE, EXPECTED = 4, 1_024
HOST_ELEMENTS = 6  # times as many bytes for an element on the host (`solver.costs`)
BYTES_LOADS = 8  # ... of a column's load in a bin
# Of rows that are multiplied at once, in half precision: no part of what is free below four times.
DENSE_BYTES = 2**27
GIB = 2**30
REMEDY = (
    'pass precision="float32", another `device` or backend="cpu", or free memory that other '
    "programs and arrays hold."
)


def has_matrices(few):
    """Whether fits may have matrices on the device, where bins are few or not."""
    return few and has_cupy()


def dense_bytes(device):
    """Bytes of rows that are multiplied at once."""
    return min(DENSE_BYTES, device.free_bytes() // 4)


def fits_at_once(problem, batch, device, precision):
    """Fits that the device holds at the same time, at most all of the batch."""
    shared = shared_bytes(problem, batch, device)
    each = bytes_of_fit(problem, batch, precision, device)
    free = SHARE * (held_bytes(device, problem) + device.free_bytes())
    if shared + each > free:
        raise MemoryError(
            f"X with {problem.given.n_rows:,} rows and {problem.given.n_columns:,} columns needs "
            f"{(shared + each) / GIB:.3g} GiB on {device.name}, {shared / GIB:.3g} for X and "
            f"{each / GIB:.3g} for a fit, and {free / GIB:.3g} GiB are free; {REMEDY}"
        )
    return int(min(batch.n_fits, (free - shared) // each))


def ran_out(error, n_fits, device):
    """Error for memory that was planned with and is not there any more."""
    return MemoryError(
        f"the memory of {device.name} ran out with {n_fits} fit(s) at once, which were planned "
        f"with what was free before: {error}; {REMEDY}"
    )


def shared_bytes(problem, batch, device):
    """Bytes that all fits share: X in both orders, where columns are in tiles, the plan, blocks."""
    given, plan, machines = problem.given, problem.plan, device.n_multiprocessors
    n_ones, n_columns = int(given.indptr[-1]), given.n_columns
    values = given.n_stored[given.kind != INDICATOR].sum()
    of_tile = 16 if values else 8
    X = 2 * n_ones + 8 * values + of_tile * (n_columns + 1) * most_tiles(problem, device)
    blocks = machines * min(batch.n_fits, BLOCKS_PER_MULTIPROCESSOR)
    private = 16 * blocks * problem.n_columns
    private += 8 * math.prod(shape_of_warps(device, plan.few, plan.n_pieces == 1, plan.n_bins))
    number = 2 if n_columns <= LARGEST else 4
    lists = (8 * (given.kind == SPARSE).any() + number) * n_ones + 8 * given.n_rows
    product = bytes_of_product(problem) if has_matrices(plan.few) else 0
    return X + lists + 32 * n_columns + PLAN_BYTES * plan.n_rows + private + product


def bytes_of_product(problem):
    """Bytes of what one fit after the other needs while its matrix is made: rows, and tables."""
    plan = problem.plan
    n_bins, n_columns = plan.n_bins, min(EXPECTED, problem.n_columns) + plan.n_bins
    dense = min(DENSE_BYTES, 2 * n_columns * (problem.given.n_rows + n_bins**2))
    made = BYTES_MADE * n_columns**2
    return dense + made + 4 * n_bins**2 + 24 * n_bins * n_columns


def bytes_of_fit(problem, batch, precision, device):
    """Bytes that every fit in flight takes."""
    plan, item = problem.plan, np.dtype(precision).itemsize
    matrices = has_matrices(plan.few)
    row = 3 * 8 + item * (1 + matrices)  # eta, its trial, u; h of a model, and of a matrix
    row += 0 if batch.weight is None else 8 + 1
    row += 0 if batch.offset is None else 8
    expected = min(EXPECTED, problem.n_columns)
    loads = BYTES_LOADS * plan.n_bins * expected if matrices else 0
    own = problem.likelihood.pattern.on_device.bytes_of_fit(plan)
    own += 8 * plan.n_pieces * problem.given.n_columns  # coefficients by piece of time
    column = 64 + 8 * most_tiles(problem, device)  # sums over tiles
    return row * plan.n_rows + loads + column * problem.n_columns + own


def require_sampling(device, shared, each, n_chains, held):
    """Refuse chains that do not fit, all at once, into what is free or `held` by CuPy's pool."""
    forget()
    device.release()  # CuPy has a pool of its own
    needed, free = shared + n_chains * each, SHARE * (device.free_bytes() + held)
    if needed > free:
        raise MemoryError(
            f"{n_chains} chains need {needed / GIB:.3g} GiB on {device.name}, "
            f"{shared / GIB:.3g} for the data and {each / GIB:.3g} for each chain, and "
            f"{free / GIB:.3g} GiB are free; pass a smaller `n_chains`, another `device` or "
            'backend="cpu", or free memory that other programs and arrays hold.'
        )
