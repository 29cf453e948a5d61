"""Balance and screening of a sparse matrix, against the least that reading it can take.

A million rows and 10,000 columns with 3 % of ones, drawn once for every 50 columns. Two floors:
a sum over the row numbers, and over what is known of the rows that they name, in blocks of rows
that stay in cache.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from numba import njit
from scipy import sparse

from sksurvgpu import Design, screen, surv
from sksurvgpu.cohort import balance
from sksurvgpu.data.design.duplicates import find_duplicates
from sksurvgpu.data.design.ranges import over_columns

from .report import default_output, machine, number, table, write

DIFFERENT = 50  # columns that are drawn; the others repeat them
BLOCK = 8192


def main(arguments=None):
    options = _read(arguments)
    rng = np.random.default_rng(0)
    X = draw(rng, options.rows, options.columns, options.share)
    treatment = rng.random(options.rows) < 0.3
    weights = rng.exponential(size=options.rows) * (rng.random(options.rows) < 0.8)
    sets = rng.integers(0, options.rows // 3, options.rows)
    sets[rng.random(options.rows) < 0.5] = -1
    time = np.round(rng.exponential(1_000, options.rows))
    outcome = surv(rng.random(options.rows) < 0.05, time)
    one, two = {"n_jobs": 1}, {"n_jobs": 2}
    cases = {
        "floor: row numbers": lambda: over_columns(
            lambda a, z: _sum_rows(X.indptr[a], X.indptr[z], X.indices), np.diff(X.indptr), 2
        ),
        "floor: and weights": lambda: over_columns(
            lambda a, z: _sum_weights(a, z, X.indptr, X.indices, weights), np.diff(X.indptr), 2
        ),
        "before, one thread": lambda: balance(X, treatment, **one),
        "before, two threads": lambda: balance(X, treatment, **two),
        "weights, one thread": lambda: balance(X, treatment, weights=weights, **one),
        "weights, two threads": lambda: balance(X, treatment, weights=weights, **two),
        "matched sets, two threads": lambda: balance(X, treatment, strata=sets, **two),
        "screen by correlation": lambda: screen(X, treatment, duplicates=None, **two),
        "screen by log-rank": lambda: screen(X, outcome, duplicates=None, **two),
        "duplicates": lambda: find_duplicates(X, 0.99, n_threads=2),
    }
    if not options.quick:
        small = X.select(np.arange(options.columns // 10))
        csc = sparse.csc_array(
            (np.ones(len(small.indices), np.int8), small.indices, small.indptr), shape=small.shape
        )
        csr = csc.tocsr()
        cases["a tenth, SciPy's CSC"] = lambda: balance(csc, treatment, weights=weights, **two)
        cases["a tenth, SciPy's CSR"] = lambda: balance(csr, treatment, weights=weights, **two)
    results = [_time(name, call) for name, call in cases.items()]
    lines = [
        [found["case"], number(found["seconds"], ".2f"), number(found["cpu"], ".2f")]
        for found in results
    ]
    entries = int(X.indptr[-1])
    print(f"{entries:,} entries; {X.nbytes / 1e9:.2f} GB")
    print(table(["case", "s", "CPU s"], lines))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"most memory {peak:.2f} GiB")
    whole = {"machine": machine(), "entries": entries, "gib": peak, "results": results}
    write(options.output, whole)


def draw(rng, n_rows, n_columns, share) -> Design:
    """A design of indicators."""
    drawn = [np.flatnonzero(rng.random(n_rows) < share) for _ in range(DIFFERENT)]
    drawn = [rows.astype(np.int32) for rows in drawn]
    chosen = [drawn[j % DIFFERENT] for j in range(n_columns)]
    indptr = np.concatenate([[0], np.cumsum([len(rows) for rows in chosen])])
    kind, nothing = np.zeros(n_columns, np.uint8), np.zeros(n_columns, np.int64)
    return Design(n_rows, kind, indptr, np.concatenate(chosen), np.empty(0), nothing)


@njit(nogil=True)
def _sum_rows(start, stop, rows):
    total = 0
    for q in range(start, stop):
        total += rows[q]
    return total


@njit(nogil=True)
def _sum_weights(first, last, indptr, rows, weights):
    total, place = 0.0, indptr[first:last].copy()
    for start in range(0, len(weights), BLOCK):
        for j in range(first, last):
            q = place[j - first]
            while q < indptr[j + 1] and rows[q] < start + BLOCK:
                total += weights[np.uint64(rows[q])]
                q += 1
            place[j - first] = q
    return total


def _time(name, call):
    call()
    begin, used = perf_counter(), process_time()
    call()
    return {
        "case": name,
        "seconds": perf_counter() - begin,
        "cpu": process_time() - used,
    }


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.balance", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=10_000)
    parser.add_argument("--share", type=float, default=0.03)
    parser.add_argument("--quick", action="store_true", help="50,000 rows, 1,000 columns")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rows, options.columns = 50_000, 1_000
    options.output = options.output or default_output("balance", options.quick)
    return options


if __name__ == "__main__":
    main()
