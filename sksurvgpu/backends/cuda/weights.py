"""Weights of all fits, and what they alone decide: the formulas of `Pattern.weigh`.

Sums are over runs of positions, in an order that does not depend on the other fits.
"""

from functools import cache

import numpy as np
from numba import float64

from ..._compile import BOUND
from ._cuda import cuda, device, kernel, specialize
from .products import of_fit
from .team import WARP, new_scratch
from .workers import Worker, my_worker, total

term = BOUND

PARTS = 64  # of a sum over all rows or cells, which the host adds up


@kernel
def spread_rows(fits, X, order, base, marks, times, out):
    """Numbers of rows in the plan's order: the caller's, times what a fit makes of their marks."""
    i = cuda.grid(1)
    while i < order.shape[0]:
        row = order[i]
        for f in range(fits.shape[0]):
            value = base[row]
            if marks.shape[0] > 0:
                value *= times[f, marks[row]]
            b = 0
            while b < X.first.shape[0] and X.first[b] <= i:
                out[fits[f], i + X.shift[b]] = value
                b += 1
        i += cuda.gridsize(1)


@kernel
def keep_counted(value, row, run, total, weight, out):
    """Values of what has a weight, its own or its row's, in a run with a total; 0 of others."""
    i = cuda.grid(1)
    while i < out.shape[1]:
        for fit in range(out.shape[0]):
            is_counted = weight[fit, row[i] if row.shape[0] > 0 else i] > 0.0
            if is_counted and run.shape[0] > 0:
                is_counted = total[fit, run[i]] > 0
            out[fit, i] = value[i] if is_counted else 0
        i += cuda.gridsize(1)


def _add_runs(begin, end, context, n_fits, width, sums):
    """A worker of `width` threads adds up the terms of one run of one fit.

    ``sums`` (3, fits, runs): totals; 1 / total, 0 where nothing was summed; positive terms.
    """
    worker, (t, step) = Worker(cuda.threadIdx.x % width, width, new_scratch()), my_worker(width)
    while t < n_fits * begin.shape[0]:
        fit, k, added, positive = t // begin.shape[0], t % begin.shape[0], 0.0, 0.0
        q = begin[k] + worker.lane
        while q < end[k]:
            number = term(context, fit, q)
            added += number
            positive += 1.0 if number > 0.0 else 0.0
            q += width
        added, positive = total(added, worker), total(positive, worker)
        if worker.lane == 0:
            sums[0, fit, k], sums[2, fit, k] = added, positive
            sums[1, fit, k] = 1.0 / added if added > 0.0 else 0.0
        t += step


@device
def number_of(context, fit, q):
    """A number of the fit at a position, which may name its row, times the position's factor."""
    numbers, row, factor = context
    number = of_fit(numbers, fit)[row[q] if row.shape[0] > 0 else q]
    return number * factor[q] if factor.shape[0] > 0 else number


@cache
def _adder(term):
    return specialize(_add_runs, term.py_func.__name__.strip("_"), term=term)


@kernel
def find_curves(table_ptr, failed, survival, events_first):
    """Kaplan-Meier curves of censoring; `survival` has what was lost at each time before.

    A block works on a group's table, each of its threads on a stretch of it.
    """
    scratch, n_groups = cuda.shared.array(1024, float64), table_ptr.shape[0] - 1
    me, threads, t = cuda.threadIdx.x, cuda.blockDim.x, cuda.blockIdx.x
    while t < survival.shape[0] * n_groups:
        fit, g, later, stayed = t // n_groups, t % n_groups, 0.0, 1.0
        begin, n_times = table_ptr[g], table_ptr[g + 1] - table_ptr[g] - 1
        low, high = begin + n_times * me // threads, begin + n_times * (me + 1) // threads
        for s in range(low, high):
            later += failed[fit, s] + survival[fit, s]
        scratch[me] = later
        cuda.syncthreads()
        later = 0.0
        for k in range(threads - 1, me, -1):
            later += scratch[k]
        cuda.syncthreads()
        for s in range(high - 1, low - 1, -1):
            lost = survival[fit, s]
            stay = later if events_first else later + failed[fit, s]
            survival[fit, s] = stay / (stay + lost) if lost > 0.0 else 1.0
            stayed *= survival[fit, s]
            later += failed[fit, s] + lost
        scratch[me] = stayed
        cuda.syncthreads()
        stayed = 1.0
        for k in range(me):
            stayed *= scratch[k]
        for s in range(low, high):
            share = survival[fit, s]
            survival[fit, s] = stayed
            stayed *= share
        if me == threads - 1:
            survival[fit, begin + n_times] = stayed
        cuda.syncthreads()
        t += cuda.gridDim.x


@kernel
def read_curves(survival, cell_idx, of_cell, row_idx, competing, weight, inverse):
    """G of every lane cell; 1 / G of every row with a competing event and a weight."""
    i = cuda.grid(1)
    while i < max(cell_idx.shape[0], row_idx.shape[0]):
        for fit in range(survival.shape[0]):
            if i < cell_idx.shape[0]:
                of_cell[fit, i] = survival[fit, cell_idx[i]]
            if i < row_idx.shape[0]:
                is_carried = competing[i] != 0 and weight[fit, i] > 0.0
                inverse[fit, i] = 1.0 / survival[fit, row_idx[i]] if is_carried else 0.0
        i += cuda.gridsize(1)


def spread(layout, values):
    """Columns of numbers in the caller's order of rows, as row arrays (1 or fits, rows)."""
    device, order, n_rows = layout.device, layout.plan.order, layout.plan.ones.shape[1]
    out = device.empty((values.shape[1], n_rows), np.float64)

    def launch(fits, base, marks, times):
        fits, marks, times = map(device.upload, (fits.astype(np.int32), marks, times))
        layout.launch_wide(
            spread_rows, order.shape[0], fits, layout.X, order, base, marks, times, out
        )

    if getattr(values, "marks", None) is None:
        for fit in range(values.shape[1]):
            base = device.upload(np.ascontiguousarray(values[:, fit], np.float64))
            launch(np.array([fit]), base, np.empty(0, np.uint8), np.empty((1, 0)))
        return out
    marked = values.marks()
    base = device.upload(np.asarray(marked.base, np.float64))
    for layer in np.unique(marked.layer):
        fits = np.flatnonzero(marked.layer == layer)
        launch(fits, base, marked.make(layer), marked.times[fits])
    return out


def add_runs(layout, term, runs, context, n_fits, few=False):
    """Sums of ``term(context, fit, position)`` over runs, of which `few` are long.

    (fits, runs) each: the sums, 1 over them, and how many terms are positive.
    """
    (begin, end), n_runs = runs, runs[0].shape[0]
    sums = layout.device.empty((3, n_fits, n_runs), np.float64)
    width = layout.threads if few else WARP
    n_threads, given = n_fits * n_runs * width, (begin, end, context, n_fits, width, sums)
    layout.launch_wide(_adder(term), n_threads, *given)
    return sums[0], sums[1], sums[2]


def add_all(layout, term, n, context, n_fits):
    """Sums of a term over ``range(n)`` on the host, one a fit."""
    edges = np.arange(PARTS + 1) * n // PARTS
    runs = layout.device.upload(edges[:-1]), layout.device.upload(edges[1:])
    total, *_ = add_runs(layout, term, runs, context, n_fits, few=True)
    return layout.device.download(total).sum(axis=1)
