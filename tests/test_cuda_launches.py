"""What the host does for the device: copies, parameters of launches, and how many of each."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.driver import open_on_host
from gpu.rebinding import cuda
from numba.cuda.args import ArgHint
from numba.cuda.dispatcher import _Kernel


class Inner(NamedTuple):
    empty: object
    nothing: tuple


class Pair(NamedTuple):
    table: object
    inner: Inner


# -- parameters as Numba packs them ------------------------------------------------------------


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
    arguments = pair, lists[0][2:4], table[2], 3, -4, 2.5, True, np.float64(0.1), np.int32(-7)
    types = tuple(map(any_kernel.typeof_pyval, arguments))
    expected = packed_by_numba(types, arguments)
    kernel = Compiled(any_kernel, types, len(expected), is_cooperative)
    for blocks in (5, 6):
        device.launch(kernel, blocks, 64, arguments, 1024)
    device.launch(kernel, 5, 32, arguments)
    found = [(cooperative, shape[:-1]) for cooperative, shape, _ in host.launches]
    shapes = (5, 1, 1, 64, 1, 1, 1024), (6, 1, 1, 64, 1, 1, 1024), (5, 1, 1, 32, 1, 1, 0)
    assert found == [(is_cooperative, shape) for shape in shapes]
    for *_, words in host.launches:
        narrow = words[-1] & np.uint64(2**32 - 1)  # an int32 has four of its word's bytes
        np.testing.assert_array_equal([*words[:-1], narrow], expected)
    assert device.resident_blocks(kernel, 64, arguments, 2048) == 7
    assert host.shared == [1024, 2048]


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


# -- memory ------------------------------------------------------------------------------------


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
