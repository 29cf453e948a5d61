"""What the host does for the device: copies, parameters of launches, and how many of each."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.backend import ROWS_PER_RANGE, THREADS, simulate_backend
from gpu.device import SimulatedDevice
from gpu.driver import open_on_host
from gpu.rebinding import cuda
from models import MODELS, largest_gradient, make_batch, use_form
from numba.cuda.args import ArgHint
from numba.cuda.dispatcher import _Kernel

from sksurvgpu.backends import choose
from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cuda import predictor
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.session import Session
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.way import Way

pytestmark = pytest.mark.slow  # kernels in the simulator


class Inner(NamedTuple):
    empty: object
    nothing: tuple


class Pair(NamedTuple):
    kind: object
    inner: Inner


class AsNumbas(ArgHint):
    """Our array as one of Numba's, for the launch that it would make."""

    def to_device(self, retr, stream=0):
        own, layout = self.value, {"is_contiguous_c": True, "is_contiguous_f": False}
        layout = SimpleNamespace(strides_in_bytes=None, **layout)
        known = {name: getattr(own, name) for name in ("size", "dtype", "shape")}
        return SimpleNamespace(ptr=own.address, _layout=layout, **known)


def as_numbas(argument):
    if isinstance(argument, tuple):
        parts = [as_numbas(part) for part in argument]
        return type(argument)(*parts) if hasattr(argument, "_fields") else tuple(parts)
    return AsNumbas(argument) if hasattr(argument, "words") else argument


def word_of(value):
    """Eight bytes of a parameter, those that it does not have being zero."""
    content = bytes(value) if hasattr(value, "_type_") else int(value).to_bytes(8, "little")
    return int.from_bytes(content, "little")


def packed_by_numba(types, arguments):
    packing, words = object.__new__(_Kernel), []
    packing.extensions = []
    for one, argument in zip(types, arguments, strict=True):
        packing._prepare_args(one, as_numbas(argument), 0, [], words)
    return np.array([word_of(word) for word in words], np.uint64)


class Compiled:
    """A kernel that was compiled for some arguments."""

    def __init__(self, kernel, types, n_words, is_cooperative):
        self.typeof_pyval, self.overloads, self.n_asked = kernel.typeof_pyval, {}, 0
        cufunc = SimpleNamespace(handle=n_words)
        self.overloads[types] = SimpleNamespace(
            cooperative=is_cooperative,
            _codelibrary=SimpleNamespace(get_cufunc=lambda: cufunc),
            max_cooperative_grid_blocks=lambda threads, shared_bytes: 7,
        )

    def compile(self, types):
        raise AssertionError(f"compiled once more, for {types}")


@cuda.jit
def any_kernel(*arguments):
    pass


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_parameters_are_those_that_numba_passes(is_cooperative, monkeypatch):
    device, host = open_on_host(monkeypatch)
    table = device.upload(np.arange(12.0).reshape(3, 4))
    lists = device.upload(np.arange(5, dtype=np.int32)), device.zeros((1, 0), np.uint8)
    pair = Pair(table[1:], Inner(lists[1], ()))
    plain = 3, -4, 2.5, True, np.float64(0.1), np.int32(-7), np.uint64(2**64 - 1), np.float32(0.5)
    packed = device.pack(pair)
    arguments = pair, packed, lists[0][2:4], table[2], *plain
    types = tuple(map(any_kernel.typeof_pyval, arguments))
    expected = packed_by_numba(types, (pair, pair, *arguments[2:]))
    kernel = Compiled(any_kernel, types, len(expected), is_cooperative)
    for blocks in (5, 6):
        device.launch(kernel, blocks, 64, arguments, 1024)
    device.launch(kernel, 5, 32, arguments)
    found = [(cooperative, shape[:-1]) for cooperative, shape, _ in host.launches]
    shapes = (5, 1, 1, 64, 1, 1, 1024), (6, 1, 1, 64, 1, 1, 1024), (5, 1, 1, 32, 1, 1, 0)
    assert found == [(is_cooperative, shape) for shape in shapes]
    for *_, words in host.launches:
        np.testing.assert_array_equal(words, expected)
    assert packed.inner is pair.inner and packed.kind is pair.kind
    assert device.resident_blocks(kernel, 64, arguments, 2048) == 7
    assert host.shared == [1024, 2048]


@pytest.mark.parametrize("is_cooperative", [False, True])
def test_recorded_launches_are_repeated_with_what_they_had(is_cooperative, monkeypatch):
    device, host = open_on_host(monkeypatch)
    arrays = [device.zeros(3, np.float64) for _ in range(2)]
    types = tuple(map(any_kernel.typeof_pyval, (arrays[0], 7)))
    expected = [packed_by_numba(types, (array, 7)) for array in arrays]
    kernel = Compiled(any_kernel, types, len(expected[0]), is_cooperative)
    tape = device.record(lambda: [device.launch(kernel, 2, 32, (own, 7), 64) for own in arrays])
    device.launch(kernel, 1, 32, (arrays[0], 8))
    arrays.clear()  # the recorded ones keep what they point to
    device.repeat(tape)
    assert len(tape) == 2
    for cooperative, shape, words in host.launches[-2:]:
        assert (cooperative, shape[:-1]) == (is_cooperative, (2, 1, 1, 32, 1, 1, 64))
        np.testing.assert_array_equal(words, expected.pop(0))


def test_arrays_of_other_kinds_are_compiled_for(monkeypatch):
    device, _ = open_on_host(monkeypatch)
    table = device.zeros((2, 2), np.float64)
    arguments = Pair(table, Inner(table, ())), 1
    kernel = Compiled(any_kernel, tuple(map(any_kernel.typeof_pyval, arguments)), 19, False)
    device.launch(kernel, 1, 32, arguments)
    other = device.zeros((2, 2), np.float32)
    for changed in (
        (Pair(table, Inner(other, ())), 1),
        (Pair(table, Inner(table[0], ())), 1),
        (Pair(table, (table, ())), 1),
        (Pair(table, Inner(table, (1,))),),
        (Pair(table, Inner(table, ())), 1.0),
    ):
        with pytest.raises(AssertionError, match="compiled once more"):
            device.launch(kernel, 1, 32, changed)


def test_copies_of_a_device(monkeypatch):
    device, _ = open_on_host(monkeypatch)
    numbers = np.arange(12.0).reshape(3, 4)
    array = device.upload(numbers.T)
    np.testing.assert_array_equal(device.download(array), numbers.T)
    np.testing.assert_array_equal(device.download(array[1:3]), numbers.T[1:3])
    np.testing.assert_array_equal(device.download(array[3]), numbers.T[3])
    assert (array[1:].shape, array[1:].size, array[2:9].nbytes, len(array)) == ((3, 3), 9, 48, 4)
    device.write(array[1:2], [7, 8, 9])
    np.testing.assert_array_equal(device.download(array)[1], [7.0, 8.0, 9.0])
    np.testing.assert_array_equal(device.download(device.zeros((2, 3), np.int32)), 0)
    assert device.download(device.empty((2, 0), np.float32)).shape == (2, 0)
    with pytest.raises(MemoryError, match=r"bytes on host, which has \d"):
        device.empty(2**40, np.float64)


def test_what_is_sent_goes_in_one_copy_and_lasts_until_a_download(monkeypatch):
    device, host = open_on_host(monkeypatch)
    first = np.arange(3), np.empty(0), np.array([True, False]), np.linspace(0, 1, 5)[:, None]
    sent = device.send(*first)
    large = np.arange(2**18, dtype=np.float64)  # more than was there for both
    later = device.send(large, large[:2])
    assert len(host.copies) == 2
    on_device = [array[:] for array in (*sent, *later)]
    for array, expected in zip(on_device, (*first, large, large[:2]), strict=True):
        np.testing.assert_array_equal(device.download(array), expected)
    free = device.free_bytes()
    again = []
    for _ in range(2):
        again.append(device.send(*first)[0].address)
        device.download(sent[0])
    assert again[0] == again[1] and device.free_bytes() == free


def test_a_download_of_nothing_ends_no_copy(monkeypatch):
    """It waits for nothing, so that what was sent may still be on its way."""
    device, _ = open_on_host(monkeypatch)
    (sent,) = device.send(np.arange(3))
    device.download(device.empty(0, np.float64))
    (later,) = device.send(np.arange(3, 6))
    assert later.address >= sent.address + sent.nbytes
    np.testing.assert_array_equal(device.download(sent), np.arange(3))


def test_memory_is_taken_from_what_arrays_have_left(monkeypatch):
    device, host = open_on_host(monkeypatch, memory=2**20)
    first = device.empty(100_000, np.uint8)
    address, part = first.address, first[10:]
    del first
    other = device.empty(100_000, np.uint8)
    assert other.address != address  # a part of it is still there
    del part
    assert device.empty((100, 1_000), np.uint8).address == address
    assert host.n_taken == 2
    del other
    free = device.free_bytes()
    assert free == 2**20  # what is kept is free
    large = device.empty(2**20 - 4_096, np.uint8)  # which takes all that is kept
    assert host.free < 2**13 and len(host.buffers) == 1
    with pytest.raises(MemoryError, match=r"1,024 bytes on host, which has \d"):
        [device.empty(1_000, np.uint8) for _ in range(9)]
    del large
    device.release()
    assert host.free == 2**20 and not host.buffers


def test_little_memory_is_kept(monkeypatch):
    """A fifth of all, so that other libraries find some."""
    device, host = open_on_host(monkeypatch, memory=2**20)
    for size in (90_000, 91_000):
        device.empty(size, np.uint8)
    assert device.free_bytes() == 2**20 and len(host.buffers) == 2
    device.empty(2**16, np.uint8)
    assert device.free_bytes() == 2**20 and not host.buffers


class CountingDevice(SimulatedDevice):
    """Counts what the host asks of the driver."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.counts = Counter()


def _counted(name, what):
    def call(self, *arguments):
        self.counts[what] += 1
        return getattr(SimulatedDevice, name)(self, *arguments)

    return call


KINDS = {"launch": "launches", "download": "downloads", "empty": "allocations"}
for name, what in {**KINDS, **dict.fromkeys(("upload", "send", "write"), "uploads")}.items():
    setattr(CountingDevice, name, _counted(name, what))


def counts_of_iterations(device, n_fits, monkeypatch):
    """What each iteration of the first fit asked for: with its model kept, and with a new one."""
    model, marks = MODELS["cox, breslow"], []
    use_form("few", monkeypatch)

    def report(way, point, iteration, residual):
        if way.penalties_left == 0 and (not marks or way is marks[0][0]):
            marks.append((way, way.model, device.counts.copy()))

    monkeypatch.setattr(Way, "report", report)
    sample = model.sample(3, p=4)
    batch = make_batch(sample, 0.2 * largest_gradient(model, sample))
    batch = replace(batch, lambdas=np.repeat(batch.lambdas, n_fits, axis=1))
    Fits(model.problem(sample), batch, choose("cuda", "float64"), Options(tol=1e-6)).solve()
    found = {True: [], False: []}
    for (_, before, counts), (_, after, later) in pairwise(marks):
        found[before is after].append(dict(later - counts))
    return found[True], found[False]


def has(found, launches, uploads, downloads):
    """Whether some iteration asked for just that, and so took no memory."""
    return {"launches": launches, "uploads": uploads, "downloads": downloads} in found


@pytest.mark.parametrize("n_fits", [1, 3])
def test_what_an_iteration_asks_of_the_driver(n_fits, monkeypatch):
    """Of all, those are looked at in which nothing was tried twice and no memory had to grow."""
    device = CountingDevice(seed=1)
    simulate_backend(monkeypatch, device)
    kept, new = counts_of_iterations(device, n_fits, monkeypatch)
    assert has(kept, 3, 1, 1) and has(new, 5, 1, 2)


@pytest.mark.parametrize("n_fits", [1, 3])
def test_what_an_iteration_by_matrix_asks_of_the_driver(n_fits, monkeypatch):
    """Of each fit's matrix, four launches in its one chunk of rows, beside its products."""
    device = CountingDevice(seed=1)
    simulate_backend(monkeypatch, device, model="matrix")
    kept, [new] = counts_of_iterations(device, n_fits, monkeypatch)
    assert has(kept, 3, 1, 1)
    assert (new["launches"], new["uploads"]) == (5 + 4 * n_fits, 3 + n_fits)
    assert new["downloads"] == 2 + n_fits


@pytest.mark.parametrize("n_recorded", [1, 64])
def test_fits_that_accept_and_fits_that_do_not(n_recorded, monkeypatch):
    """Their predictors lie in different arrays; everything is as for fits alone.

    The last two attempts repeat launches of the first ones, where these are still recorded.
    """
    monkeypatch.setattr(predictor, "MOST_RECORDED", n_recorded)
    rng, model, n_fits = np.random.default_rng(0), MODELS["logistic"], 3
    sample, p = model.sample(5, p=4), 4
    problem, fits = model.problem(sample), np.arange(n_fits, dtype=np.int32)
    layout = Layout(
        SimulatedDevice(seed=4), problem, threads=THREADS, rows_per_range=ROWS_PER_RANGE
    )
    offsets = rng.normal(size=(sample.n, n_fits))
    rows = sample.weights[:, None], offsets, n_fits, np.dtype(float)
    together = Session(layout, problem, *rows)
    alone = [CpuSession(problem, sample.weights, offset, Threads(1)) for offset in offsets.T]

    def compare(name, chosen, *arguments):
        each = [[argument[fit] for argument in arguments] for fit in chosen]
        expected = [getattr(alone[fit], name)(*own) for fit, own in zip(chosen, each, strict=True)]
        found = together.serve(name, chosen, each)
        for one, other in zip(found, expected, strict=True):
            if one is not None:
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)

    def attempt(chosen, longest):
        coefs = 0.5 * rng.normal(size=(n_fits, p))
        compare("attempt", chosen, coefs, columns, [longest] * n_fits)

    def compare_curvatures():
        found = together.serve("curvature", fits, [(own,) for own in columns])
        expected = [one.curvature(own) for one, own in zip(alone, columns, strict=True)]
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one[0], other[0], rtol=1e-9, atol=1e-12)
            assert one[1] == pytest.approx(other[1], rel=1e-12)

    columns = [np.arange(p), np.array([2, 0]), np.array([], np.int64)]
    every = [np.arange(p)] * n_fits
    compare("start", fits, 0.1 * rng.normal(size=(n_fits, p)))
    for accepting in ([1], [0, 1], [2, 1], [0, 1, 2], [0, 1, 2], [0, 2]):
        attempt(fits, np.inf)
        compare("gradient", fits, columns)
        compare("gradient", fits, every)
        compare("accept", accepting)
        compare("evaluate", fits)
        compare("gradient", fits, every)
        compare_curvatures()
        attempt(fits, np.inf)
        compare("shorten", fits, [0.3, 0.6, 0.1])
        compare("evaluate_trial", fits)
        compare("gradient", fits, every)
        compare("evaluate", fits)
        attempt([2, 0], 1e-3)
        compare("evaluate", fits)
    compare("rounding", fits)
    compare("start", [1], 0.1 * rng.normal(size=(n_fits, p)))
    compare("evaluate", fits)
