"""The simulator on kernels of known behaviour: right ones pass, each kind of mistake is caught."""

from collections import Counter
from functools import partial
from operator import itemgetter

import numpy as np
import pytest

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.faults import removable_sites, survivors
from gpu.rebinding import cuda
from gpu.scans import (
    FULL,
    THREADS,
    Chain,
    scan_block,
    scan_in_many_blocks,
    scan_in_one_block,
    smooth,
    smooth_in_one_launch,
)
from gpu.simulator import SimulationError, Site, simulate

SIZES = [1, 31, 32, 33, 64, 65, 300]
SEEDS = range(8)


def numbers(n):
    return np.random.default_rng(n).normal(size=n)


def scanned_in_one_block(n, seed=0, without=()):
    x, out = numbers(n), np.full(n, np.nan)
    sites = simulate(scan_in_one_block, 1, THREADS, (x, out), seed=seed, without=without)
    return np.allclose(out, np.cumsum(x), rtol=1e-12, atol=1e-12), sites


def scanned_in_many_blocks(n, seed=0, without=(), **options):
    n_parts = -(-n // THREADS)
    chain = Chain(
        np.zeros(1, np.int32),
        np.zeros(n_parts, np.int32),
        np.full(n_parts, np.nan),
        np.full(n_parts, np.nan),
    )
    x, out = numbers(n), np.full(n, np.nan)
    launch = (scan_in_many_blocks, n_parts, THREADS, (x, out, chain))
    sites = simulate(*launch, seed=seed, without=without, resident=3, max_passes=5000, **options)
    return np.allclose(out, np.cumsum(x), rtol=1e-12, atol=1e-12), sites


def smoothed(kernel, n, seed=0, without=(), n_blocks=3, **options):
    x, expected = numbers(n), numbers(n)
    other = np.full(n, np.nan)
    extra = () if kernel is smooth_in_one_launch else (np.zeros(1, np.uint32),)
    arguments = (x, other, *extra, 4)
    options = {"max_passes": 5000, **options}
    sites = simulate(kernel, n_blocks, 32, arguments, seed=seed, without=without, **options)
    for _ in range(4):
        padded = np.pad(expected, 1, mode="edge")
        expected = 0.5 * (padded[:-2] + padded[2:])
    return np.allclose(x, expected, rtol=1e-12, atol=1e-12), sites


RUNS = {
    "one block": scanned_in_one_block,
    "many blocks": scanned_in_many_blocks,
    "own barrier": lambda n, seed=0, without=(): smoothed(smooth, n, seed, without),
    "grid": lambda n, seed=0, without=(): smoothed(smooth_in_one_launch, n, seed, without),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("n", SIZES)
def test_right_kernels_give_right_results(run, n):
    for seed in SEEDS:
        is_right, _ = run(n, seed)
        assert is_right, seed


def test_every_removed_barrier_and_fence_is_noticed():
    met, left = Counter(), Counter()
    for run in RUNS.values():
        outcome = partial(run, 300)
        met.update(removable_sites(outcome))
        left.update(survivors(outcome, itemgetter(0), seeds=range(12)))
    assert len(met) == 12
    # A function's last barrier matters only to kernels that call it again.
    assert [site for site in left if left[site] == met[site]] == []
    assert {site.function for site in left} == {"scan_block"}


def test_sites_say_where():
    _, sites = scanned_in_many_blocks(300)
    kinds = {(site.function, site.kind) for site in sites}
    assert kinds == {
        ("scan_block", "syncthreads"),
        ("scan_in_many_blocks", "syncthreads"),
        ("sum_before", "fence"),
    }
    assert len(sites) == 7
    first = scan_block.py_func.__code__.co_firstlineno
    lines = {site.line - first for site in sites if site.function == "scan_block"}
    assert lines == {7, 13}


def test_survivors_are_found_and_a_wrong_kernel_is_not_tested():
    @cuda.jit
    def needless(x):
        x[cuda.threadIdx.x] = 1.0
        cuda.syncthreads()

    def run(seed, without):
        x = np.zeros(THREADS)
        simulate(needless, 1, THREADS, (x,), seed=seed, without=without)
        return x

    site = Site("needless", needless.py_func.__code__.co_firstlineno + 3, "syncthreads")
    assert survivors(run, np.all) == [site]
    with pytest.raises(AssertionError, match="nothing removed"):
        survivors(run, lambda x: not x.any())


def test_rows_of_a_member_off_by_one():
    """A block that takes one row too few leaves poison; one too many adds a row twice."""

    @cuda.jit
    def add_rows(x, total, extra):
        low = x.size * cuda.blockIdx.x // cuda.gridDim.x
        high = min(x.size * (cuda.blockIdx.x + 1) // cuda.gridDim.x + extra, x.size)
        for i in range(low + cuda.threadIdx.x, high, cuda.blockDim.x):
            cuda.atomic.add(total, 0, x[i])

    for extra, expected in [(0, True), (1, False), (-1, False)]:
        total = np.zeros(1)
        simulate(add_rows, 3, 32, (numbers(100), total, extra))
        assert np.isclose(total[0], numbers(100).sum()) == expected


@pytest.mark.parametrize("weak", [True, False])
@pytest.mark.parametrize(
    ("index", "named"),
    [
        ((0, 4), r"\[0, 4\]"),
        ((3, 0), r"\[3, 0\]"),
        ((0, -1), r"\[0, -1\]"),
        ((-1, 0), r"\[-1, 0\]"),
    ],
)
def test_an_index_out_of_bounds(index, named, weak):
    @cuda.jit
    def read(a, i, j):
        a[0, 0] = a[i, j]

    line = read.py_func.__code__.co_firstlineno + 2
    with pytest.raises(SimulationError, match=rf"index {named} of .*\(3, 4\) \(read:{line}\)"):
        simulate(read, 1, 1, (np.zeros((3, 4)), *index), weak=weak)


@pytest.mark.parametrize("index", [3, -1])
def test_an_index_out_of_bounds_in_a_vector(index):
    @cuda.jit
    def read(a, i):
        row = a[1]
        row[0] = row[i]

    @cuda.jit
    def write(a, i):
        row = a[1]
        row[i] = 1.0

    @cuda.jit
    def update(a, i):
        cuda.atomic.add(a[1], i, 1.0)

    for kernel in (read, write, update):
        with pytest.raises(SimulationError, match=rf"index \[{index}\] of .*\(3,\)"):
            simulate(kernel, 1, 1, (np.zeros((2, 3)), index))


def test_a_slice_out_of_bounds():
    @cuda.jit
    def cut(a, low, high):
        a[low:high][0] = 1.0

    simulate(cut, 1, 1, (np.zeros(3), 1, 3))
    for bounds in [(1, 4), (-1, 2), (2, 1)]:
        with pytest.raises(SimulationError, match=r"index \[(1:4|-1:2|2:1)\] of"):
            simulate(cut, 1, 1, (np.zeros(3), *bounds))


def test_a_divergent_barrier():
    @cuda.jit
    def diverge(x):
        if cuda.threadIdx.x < 16:
            cuda.syncthreads()
        else:
            cuda.syncthreads()

    first = diverge.py_func.__code__.co_firstlineno
    with pytest.raises(SimulationError, match="divergent barrier") as caught:
        simulate(diverge, 1, 32, (np.zeros(1),))
    assert f"diverge:{first + 3}" in str(caught.value)
    assert f"diverge:{first + 5}" in str(caught.value)


def test_a_barrier_called_from_two_places_is_divergent():
    @cuda.jit(device=True)
    def meet():
        cuda.syncthreads()

    @cuda.jit
    def call_both(x):
        if cuda.threadIdx.x < 16:
            meet()
        else:
            meet()

    with pytest.raises(SimulationError, match="divergent barrier"):
        simulate(call_both, 1, 32, (np.zeros(1),))


def test_a_divergent_warp():
    @cuda.jit
    def diverge(x):
        lane = cuda.laneid
        if lane < 16:
            x[lane] = cuda.shfl_xor_sync(FULL, lane, 1)
        else:
            x[lane] = cuda.shfl_xor_sync(FULL, lane, 1)

    with pytest.raises(SimulationError, match="divergent warp"):
        simulate(diverge, 1, 32, (np.zeros(32),))


def test_a_deadlock_names_what_is_waited_for():
    @cuda.jit
    def wait_alone(x):
        if cuda.threadIdx.x == 0:
            cuda.syncwarp(1)
            cuda.syncthreads()
        else:
            cuda.syncwarp()

    first = wait_alone.py_func.__code__.co_firstlineno
    with pytest.raises(SimulationError, match="deadlock") as caught:
        simulate(wait_alone, 1, 32, (np.zeros(1),))
    assert f"1 of 32 threads at block barrier wait_alone:{first + 4}" in str(caught.value)
    assert f"31 of 32 threads at warp wait_alone:{first + 6}" in str(caught.value)


def test_a_livelock_names_the_loop():
    @cuda.jit
    def wait_for_nobody(flag):
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass

    line = wait_for_nobody.py_func.__code__.co_firstlineno + 2
    with pytest.raises(SimulationError, match=f"livelock.*wait_for_nobody:{line}"):
        simulate(wait_for_nobody, 2, 1, (np.zeros(1, np.int32),), max_passes=500)


def test_a_loop_on_plain_loads():
    @cuda.jit
    def spin(flag):
        if cuda.threadIdx.x == 1:
            flag[0] = 1
        while flag[0] == 0:
            pass

    def run_all():
        for seed in range(10):
            simulate(spin, 1, 32, (np.zeros(1, np.int32),), seed=seed)

    with pytest.raises(SimulationError, match="spins on plain loads"):
        run_all()


def test_blocks_that_are_not_resident_cannot_meet():
    with pytest.raises(SimulationError, match="6 blocks, 3 of them resident"):
        smoothed(smooth_in_one_launch, 100, n_blocks=6, resident=3)
    with pytest.raises(SimulationError, match="livelock"):
        smoothed(smooth, 100, n_blocks=6, resident=3, max_passes=500)
    assert smoothed(smooth, 100, n_blocks=6, resident=6)[0]
