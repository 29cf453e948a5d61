"""Scans of the CUDA backend against sums one after the other, in the simulator."""

from fractions import Fraction

import numpy as np
import pytest
from grids import thin

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.simulator import simulate
from numba import int64

from sksurvgpu.backends.cuda import rake, team
from sksurvgpu.backends.cuda._cuda import device, kernel


@device
def load(context, q):
    return context[0][q, 0], context[0][q, 1], context[0][q, 2], int64(context[1][q])


@device
def take(context, q, before, after):
    for m in range(3):
        context[2][q, m] = before[m]
        context[2][q, 3 + m] = after[m]
    return 1.0, float(q)


def make_kernel(combine):
    scan = rake.make_rake(load, take, combine=combine)

    @kernel
    def run(exchange, values, flags, out, counts):
        team.begin()
        context = values, flags, out
        found = scan(exchange, values.shape[0], context, 0, team.new_scratch())
        for m in range(2):
            counts[team.cuda.grid(1), m] = found[m]

    return run


KERNELS = {f: make_kernel(f) for f in (rake.add, rake.add_exactly, rake.add_scaled)}


def scan_by_team(combine, values, flags, members, threads, seed=0):
    """Sums before and after every position, and what threads have added up."""
    n = len(values)
    out, counts = np.full((n, 6), np.nan), np.full((members * threads, 2), np.nan)
    partial = np.full((1, 2, team.VALUES, members), np.nan)
    exchange = team.Exchange(
        np.zeros(1, np.int32), np.array([members], np.int32), np.zeros(1, np.uint32), partial
    )
    arguments = exchange, values, flags.astype(np.uint8), out, counts
    simulate(KERNELS[combine], members, threads, arguments, seed=seed, resident=members)
    return out[:, :3], out[:, 3:], counts


def scan_one_by_one(combine, values, flags):
    """The same from exact sums; `combine` is a plain one."""
    before, after = np.zeros((len(values), 3)), np.zeros((len(values), 3))
    sums = [Fraction(0)] * 3
    for q, (item, flag) in enumerate(zip(values, flags, strict=True)):
        sums = [Fraction(0)] * 3 if flag & rake.SEGMENT else sums
        before[q] = sums
        sums = [*sums[:2], Fraction(0)] if flag & rake.TALLY else sums
        sums = [total + Fraction(one) for total, one in zip(sums, item, strict=True)]
        after[q] = sums
    return before, after


def draw(n, seed):
    """Items with segments of any length, some beginning at the ends of a warp's part."""
    rng = np.random.default_rng(seed)
    flags = rng.choice([0, rake.SEGMENT, rake.TALLY], p=[0.9, 0.04, 0.06], size=n)
    flags[::50] |= rake.SEGMENT
    return rng.normal(size=(n, 3)), flags


@pytest.mark.parametrize(
    ("n", "members", "threads"),
    thin(4, [1, 31, 128, 129, 700], [1, 2, 5], [32, 64, 96]),
)
def test_sums_of_any_number_of_positions(n, members, threads):
    values, flags = draw(n, n)
    found = scan_by_team(rake.add, values, flags, members, threads, n)
    for one, expected in zip(found[:2], scan_one_by_one(rake.add, values, flags), strict=True):
        np.testing.assert_allclose(one, expected, rtol=0, atol=1e-13)
    np.testing.assert_array_equal(found[2].sum(axis=0), [n, n * (n - 1) / 2])


def test_more_members_and_warps_than_lanes():
    values, flags = draw(80, 0)
    expected = scan_one_by_one(rake.add, values, flags)
    for members, threads in ((35, 32), (1, 1024)):
        found = scan_by_team(rake.add, values, flags, members, threads)
        np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=1e-13)


def test_digits_that_cancel_are_kept():
    values, flags = draw(300, 1)
    values[:, 1] = 0.0
    flags[1:] &= ~rake.SEGMENT
    values[150:, 0] = 1e-17 * values[150:, 0] - np.r_[values[:150, 0]][::-1]
    _, found, _ = scan_by_team(rake.add_exactly, values, flags, 2, 64)
    _, expected = scan_one_by_one(rake.add, values, flags)
    np.testing.assert_allclose(found[:, 0] + found[:, 1], expected[:, 0], rtol=1e-14)


def test_sums_of_any_range():
    rng = np.random.default_rng(2)
    values, flags = rng.random((300, 3)), np.zeros(300, int)
    values[:, 0] = rng.normal(scale=1e3, size=300)
    values[::7, 1:] = 0.0  # nothing, whatever its scale
    flags[[0, 137]] = rake.SEGMENT
    _, found, _ = scan_by_team(rake.add_scaled, values, flags, 2, 64)
    with np.errstate(divide="ignore"):
        logs = np.log(values[:, 1:]) + values[:, :1]
        found = np.log(found[:, 1:]) + found[:, :1]
    for low, high in ((0, 137), (137, 300)):
        expected = np.logaddexp.accumulate(logs[low:high])
        np.testing.assert_allclose(found[low:high], expected, rtol=1e-13)
