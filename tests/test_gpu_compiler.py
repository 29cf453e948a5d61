"""Compiling without a GPU: every figure is found, and the table notices every change."""

from typing import NamedTuple

import numpy as np
import pytest

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")
pytest.importorskip("cuda.bindings.nvjitlink")

from gpu import compiler
from gpu.compiler import CAPABILITIES, Figures, RecordingDevice
from gpu.rebinding import cuda
from numba import float64, int64, types
from numba.core.errors import TypingError

VECTOR = types.Array(float64, 1, "C")


@cuda.jit
def copy(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i]


@cuda.jit(device=True)
def product(a, b):
    return a * b


@cuda.jit
def reverse_shared(x, out):
    shared = cuda.shared.array(96, float64)
    i = cuda.threadIdx.x
    shared[i] = product(x[i], 1.0)
    cuda.syncthreads()
    out[i] = shared[95 - i]


@cuda.jit
def pick(x, k):
    chosen = cuda.local.array(8, float64)
    for j in range(8):
        chosen[j] = x[j]
    x[0] = chosen[k]


@cuda.jit
def meet_grid(x):
    cuda.cg.this_grid().sync()
    x[0] = 1.0


class Pair(NamedTuple):
    x: object
    inner: object


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_figures_of_small_kernels(capability):
    plain = compiler.compile_kernel(copy, (VECTOR, VECTOR), capability)
    assert 4 <= plain.registers <= 32
    assert plain[1:] == (0, 0, 0)
    shared = compiler.compile_kernel(reverse_shared, (VECTOR, VECTOR), capability)
    assert shared[1:] == (0, 0, 96 * 8)


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_an_array_indexed_at_run_time_is_stack(capability):
    figures = compiler.compile_kernel(pick, (VECTOR, int64), capability)
    assert figures.stack == 8 * 8
    found = {"pick": {"sm_00": figures}, "none": {"sm_00": Figures(9, 0, 0, 768)}}
    assert compiler.slow_memory(found) == ["pick for sm_00: 64 bytes of stack, 0 of spills"]


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_a_grid_barrier_is_linked(capability):
    figures = compiler.compile_kernel(meet_grid, (VECTOR,), capability)
    assert figures[1:] == (0, 0, 0)


@pytest.mark.parametrize(("kernel", "n_arguments"), [(reverse_shared, 2), (meet_grid, 1)])
def test_hopper_has_one_code_by_two_names(kernel, n_arguments):
    """What `compile_ptx` relies on."""
    library = compiler.library_of(kernel, (VECTOR,) * n_arguments, (9, 0))
    plain, own = (library.get_asm_str(cc=(9, 0, suffix)) for suffix in ("", "a"))
    assert plain != own == plain.replace(".target sm_90", ".target sm_90a")
    ptx = compiler.compile_ptx(kernel, (VECTOR,) * n_arguments, ((9, 0), (9, 0, "a")))
    assert all(f".target {compiler.target_of(which)}\n" in ptx[which] for which in ptx)


REPORT = """
ptxas info    : Compiling entry function '_ZN1k' for 'sm_90'
ptxas info    : Function properties for _ZN1f
ptxas         .     48 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Function properties for _ZN1k
ptxas         .     16 bytes stack frame, 20 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 1 barriers
info    : Function properties for 'library':
info    : used 99 registers, used 1 barriers, 8 stack, 2056 bytes smem, 480 bytes cmem[0]
info    : Function properties for '_ZN1k':
info    : used 31 registers, used 1 barriers, 16 stack, 1280 bytes smem, 640 bytes cmem[0]
"""


def test_a_report_with_spills_and_other_functions():
    assert compiler.read_report(REPORT, (9, 0)) == Figures(31, 48, 32, 256)
    assert compiler.read_report(REPORT, (8, 0)) == Figures(31, 48, 32, 1280)


def test_what_does_not_compile_is_an_error():
    @cuda.jit
    def unknown(x):
        x[0] = np.linalg.norm(x)

    with pytest.raises(TypingError):
        compiler.compile_kernel(unknown, (VECTOR,), (8, 0))
    with pytest.raises(RuntimeError, match="syntax"):
        compiler.link(".version 8.0\n.target sm_80\n.address_size 64\nnonsense", (8, 0))


def test_all_kernels_that_do_not_compile_are_reported():
    def make(name):
        def unknown(x):
            x[0] = np.linalg.norm(x)

        unknown.__qualname__ = name
        return cuda.jit(unknown)

    launched = {(name, (VECTOR,)): [make(name)] for name in ("one", "two")}
    launched["copy", (VECTOR, VECTOR)] = [copy]
    with pytest.raises(ExceptionGroup) as caught:
        compiler.compile_launched(launched, [(8, 0)])
    notes = [error.__notes__[0] for error in caught.value.exceptions]
    assert [note.split(",")[0] for note in notes] == ["one", "two"]


def test_signatures_are_those_of_the_launches():
    @cuda.jit
    def scale(pair, factor, shift, is_on):
        i = cuda.grid(1)
        if i < pair.x.size and is_on:
            pair.x[i] = pair.inner.x[1, i] * factor + shift

    device = RecordingDevice()
    pair = Pair(device.zeros(3, np.float64), Pair(device.zeros((2, 3), np.float32), 5))
    for is_on in (True, False):
        device.launch(scale, 1, 32, (pair, 2, 3.0, is_on))
    device.launch(scale, 1, 32, (pair, 2.0, 3.0, True))
    (first, second) = device.launched
    assert [len(kernels) for kernels in device.launched.values()] == [1, 1]
    assert first[0].endswith("scale")
    inner = types.NamedTuple((types.Array(types.float32, 2, "C"), int64), Pair)
    outer = types.NamedTuple((VECTOR, inner), Pair)
    assert first[1] == (outer, int64, float64, types.boolean)
    assert second[1] == (outer, float64, float64, types.boolean)
    found = compiler.compile_launched(device.launched, [(8, 0)])
    assert list(found) == [first[0]]
    assert list(found[first[0]]) == ["sm_80"]


def test_figures_are_the_largest_of_all_signatures():
    launched = {("copy", (VECTOR, VECTOR)): [copy], ("pick", (VECTOR, int64)): [pick]}
    apart = compiler.compile_launched(launched, [(9, 0)])
    one = {("both", signature): kernels for (_, signature), kernels in launched.items()}
    together = compiler.compile_launched(one, [(9, 0)])
    expected = np.max([apart["copy"]["sm_90"], apart["pick"]["sm_90"]], axis=0)
    assert together == {"both": {"sm_90": Figures(*expected.tolist())}}


def test_kernels_of_one_name_are_all_compiled():
    def make(size):
        @cuda.jit
        def twin(x):
            chosen = cuda.shared.array(size, float64)
            chosen[0] = x[0]
            cuda.syncthreads()
            x[1] = chosen[0]

        return twin

    device = RecordingDevice()
    x = device.zeros(2, np.float64)
    for kernel in (make(16), make(48), make(32)):
        device.launch(kernel, 1, 1, (x,))
    (figures,) = compiler.compile_launched(device.launched, [(8, 0)]).values()
    assert figures["sm_80"].shared == 48 * 8


def test_the_table_notices_every_change(tmp_path, monkeypatch):
    path = tmp_path / "figures.json"
    found = {
        "b": {"sm_80": Figures(20, 0, 0, 768), "sm_90": Figures(21, 0, 0, 768)},
        "a": {"sm_80": Figures(1, 2, 3, 4)},
    }
    monkeypatch.delenv("KERNEL_FIGURES", raising=False)
    assert len(compiler.compare_with_table(found, path)) == 3
    assert not path.exists()
    monkeypatch.setenv("KERNEL_FIGURES", "write")
    assert compiler.compare_with_table(found, path) == []
    monkeypatch.delenv("KERNEL_FIGURES")
    assert compiler.compare_with_table(found, path) == []
    table = compiler.read_table(path)
    assert table == found
    changed = {**found, "a": {"sm_80": Figures(1, 2, 0, 4)}, "c": found["a"]}
    del changed["b"]["sm_90"]
    assert compiler.differences(changed, table) == [
        "a for sm_80: 0 spills, 3 in the table",
        "b for sm_90 is only in the table",
        "c for sm_80 is only found",
    ]
