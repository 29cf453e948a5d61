"""Machine code of CUDA kernels on disk: found by other processes, and used only where it fits."""

import os
import subprocess
import sys
from functools import partial
from importlib import metadata
from pathlib import Path
from types import FunctionType

import pytest

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")
pytest.importorskip("cuda.bindings.nvjitlink")

from gpu.compiler import device_of
from numba import float64, int32, types

from sksurvgpu.backends.cuda import _cuda, toolkit
from sksurvgpu.backends.cuda._cuda import cuda, device, kernel, specialize
from sksurvgpu.backends.cuda.products import copy_rows
from sksurvgpu.backends.cuda.team import begin

ROOT = Path(__file__).resolve().parents[1]
OURS = "sksurvgpu.likelihoods.tests"  # machine code is kept for the package only
VECTOR = (types.Array(float64, 1, "C"),)
ROWS = (types.Array(int32, 1, "C"), *[types.Array(float64, 2, "C")] * 2)


def ours(function, name=None):
    """A new copy of a function as if it were the package's."""
    copy = FunctionType(function.__code__, function.__globals__, name or function.__name__)
    copy.__module__ = OURS
    return copy


def scale(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 3.0


def together(x):
    begin()
    x[0] = 1.0


def apply(x):
    x[0] = formula(x[0])  # noqa: F821 (bound)


def plus(x):
    return x + 1.0


def minus(x):
    return x - 1.0


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(_cuda.cuda.core.config, "CACHE_DIR", str(tmp_path))
    return lambda: sorted(tmp_path.rglob("*.nbc"))


def compiled(declared, capability=(8, 0)):
    """Machine code of a kernel, and whether it comes from disk."""
    with device_of(capability) as absent:
        declared.compile(VECTOR).bind()
    return absent.loaded[0], bool(declared.stats.cache_hits)


CHILD = """
import sys
sys.path.insert(0, "tests")
from gpu.compiler import device_of
from test_cuda_cache import ROWS
from sksurvgpu.backends.cuda.products import copy_rows
with device_of((9, 0)) as absent:
    copy_rows.compile(ROWS).bind()
assert sum(copy_rows.stats.cache_hits.values()) == 1
sys.stdout.buffer.write(absent.loaded[0])
"""


def test_other_processes_find_machine_code(tmp_path):
    declared = kernel(copy_rows.py_func)
    with device_of((9, 0)) as absent:
        declared.compile(ROWS).bind()
    assert not declared.stats.cache_hits
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", CHILD]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert run.stdout == absent.loaded[0], run.stderr


@pytest.mark.parametrize("function", [scale, together])
def test_what_comes_from_disk_is_what_was_compiled(function, folder):
    first = kernel(ours(function))
    code, is_kept = compiled(first)
    again = kernel(ours(function))
    assert not is_kept and compiled(again) == (code, True)
    (before,), (after,) = first.overloads.values(), again.overloads.values()
    assert before.cooperative == after.cooperative == (function is together)
    assert before.argument_types == after.argument_types
    assert len(folder()) == 1


def test_devices_of_another_kind_have_code_of_their_own(folder):
    kinds = (7, 5), (8, 0), (9, 0)
    codes = [compiled(kernel(ours(scale)), kind)[0] for kind in kinds]
    assert [architecture(code) for code in codes] == [75, 80, 90] and len(folder()) == 3
    mixed = kernel(ours(scale))
    assert compiled(mixed) == (codes[1], True)
    (loaded,) = mixed.overloads.values()
    with device_of((9, 0)):  # a second device, which the process meets later
        assert architecture(loaded._codelibrary.get_cubin().code) == 90


def architecture(code):
    """Target of machine code, as its ELF header has it."""
    return code[49]


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-1], lambda c: c[:99] + bytes([c[99] ^ 1]) + c[100:], lambda c: b""]
)
def test_damaged_files_are_compiled_anew(damage, folder):
    compiled(kernel(ours(scale)))
    (file,) = folder()
    file.write_bytes(damage(file.read_bytes()))
    code, is_kept = compiled(kernel(ours(scale)))
    assert not is_kept and compiled(kernel(ours(scale))) == (code, True)


def test_other_tools_compile_anew(monkeypatch, folder):
    compiled(kernel(ours(scale)))
    monkeypatch.setattr(_cuda, "_tools", lambda: ("another linker",))
    assert not compiled(kernel(ours(scale)))[1] and len(folder()) == 2


def test_kernels_of_one_name_are_kept_apart(folder):
    """Labels are written by hand: two of them may be the same."""
    make = partial(specialize, ours(apply), "formula")
    codes = [compiled(make(formula=device(ours(f))))[0] for f in (plus, minus)]
    assert codes[0] != codes[1] and len(folder()) == 2
    assert compiled(make(formula=device(ours(plus)))) == (codes[0], True)


def test_formulas_from_outside_the_package_are_not_kept(folder):
    assert not compiled(specialize(ours(apply), "foreign", formula=device(plus)))[1]
    assert not compiled(kernel(scale))[1]
    assert not folder()


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        (((13, 0), (13, 0), (13, 0)), None),
        (((13, 2), (12, 9), (12, 9)), None),
        (((12, 2), (12, 9), (12, 9)), None),  # minor versions of a driver are compatible
        (((12, 9), (13, 0), (13, 0)), 'CUDA up to 12.9; install "sksurvgpu[cuda12]"'),
        (((13, 0), (13, 0), (12, 9)), "nvJitLink reads code of CUDA up to 12.9"),
        (((12, 4), (12, 9), (12, 4)), "nvidia-nvjitlink-cu12>=12.9"),
        (((12, 4), (12, 9), None), "the driver reads code of CUDA up to 12.4"),
        (((12, 4), None, (12, 4)), None),
    ],
)
def test_driver_and_tools_that_do_not_fit_are_named(versions, words):
    problem = toolkit.misfit(*versions)
    assert problem is None if words is None else words in problem


def test_installed_tools_fit_each_other():
    version = toolkit.compiler_version(_cuda.nvvm)
    assert toolkit.misfit(version, version, toolkit.linker_version()) is None


def test_compiler_says_of_which_toolkit_it_is():
    try:
        of_package = metadata.version("nvidia-nvvm")
    except metadata.PackageNotFoundError:
        pytest.skip("NVVM is from elsewhere")
    assert toolkit.compiler_version(_cuda.nvvm) == tuple(map(int, of_package.split(".")[:2]))


def test_compiler_that_is_not_there_is_no_misfit(monkeypatch):
    monkeypatch.setattr(_cuda.nvvm.NVVM, "get_ir_version", lambda own: 1 // 0)
    assert toolkit.compiler_version.__wrapped__(_cuda.nvvm) is None
