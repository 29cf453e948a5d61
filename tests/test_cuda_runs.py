"""Sums over runs of entries, in the simulator: each is visited once, wherever runs begin."""

from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.rebinding import cuda
from gpu.simulator import simulate

from sksurvgpu.backends.cuda._cuda import device
from sksurvgpu.backends.cuda.runs import SHORT, make_runs


class Entries(NamedTuple):
    key: np.ndarray
    number: np.ndarray
    visits: np.ndarray
    sums: np.ndarray


@device
def _key_of(entries, q):
    return entries.key[q]


@device
def _visit(entries, q):
    entries.visits[q] += 1
    return entries.number[q], 1.0


@device
def _keep(entries, key, first, second):
    entries.sums[key, 0] += first
    entries.sums[key, 1] += second
    return first, second


sum_runs = make_runs(_key_of, _visit, _keep)


@cuda.jit
def add_up(entries):
    sum_runs(0, entries.key.shape[0], entries)


@pytest.mark.parametrize("first", [0, 1, 30, 31, 32, 63])
@pytest.mark.parametrize("length", [SHORT, SHORT + 1, 70])
def test_every_entry_of_a_run_is_visited_once(first, length):
    key = np.concatenate([np.arange(first), np.full(length, first), first + 1 + np.arange(5)])
    number = np.random.default_rng(first).normal(size=key.size)
    entries = Entries(key, number, np.zeros(key.size, np.int64), np.zeros((first + 6, 2)))
    simulate(add_up, 1, 64, (entries,), seed=length)
    np.testing.assert_array_equal(entries.visits, 1)
    np.testing.assert_allclose(entries.sums[:, 0], np.bincount(key, number), atol=1e-12)
    np.testing.assert_array_equal(entries.sums[:, 1], np.bincount(key))
