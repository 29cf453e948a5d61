"""How kernels for the CPU are compiled: nogil, cached on disk, never with fast-math.

Numba's cache watches only the file that holds a kernel, not the files of the functions that the
kernel calls.  A digest of all sources a kernel may be built from is therefore part of its name,
so that an upgraded package never runs stale machine code.  Numba also numbers the cached versions
of a kernel without a lock: of two processes that compile different versions at once, one could
later run the other's.  Every process therefore writes under a name of its own.  Kernels with a
formula from outside the package are compiled in every process.
Fast-math is off because LLVM then turns gathers into vector gathers, which are three to five
times slower than scalar loads on common server processors.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import FunctionType
from uuid import uuid4

from numba import njit

_OPTIONS = {"error_model": "numpy", "nogil": True}


def _digest_sources():
    package = Path(__file__).resolve().parent
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for folder in ("backends", "data", "likelihoods"):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


_SOURCES = _digest_sources()


def kernel(function):
    """Compile a function that Python calls; its machine code is kept on disk."""
    function.__qualname__ = f"{function.__name__}_{_SOURCES}"
    if _is_foreign(function):
        return njit(**_OPTIONS)(function)
    try:
        compiled = njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no folder that can be written to: compile in every process
        return njit(**_OPTIONS)(function)
    file = compiled._cache._cache_file
    file._data_name_pattern = file._data_name_pattern.replace(".nbc", f".{uuid4().hex}.nbc")
    return compiled


def _is_foreign(function):
    """Whether code from outside the package is part of a function: its changes go unnoticed."""
    plain = getattr(function, "py_func", function)
    is_ours = (plain.__module__ or "").partition(".")[0] == __name__.partition(".")[0]
    return getattr(plain, "is_foreign", False) or not is_ours


def device(function):
    """Compile a function that only kernels call; it becomes part of their machine code."""
    return njit(**_OPTIONS)(function)


def bind(template, **formulas):
    """Copy of `template` with some of its global names bound to the given compiled functions."""
    label = "_".join(formula.__name__ for formula in formulas.values())
    name = f"{template.__name__}_{label}"
    bound = FunctionType(template.__code__, {**template.__globals__, **formulas}, name)
    bound.__module__ = template.__module__
    # Machine code from the cache is linked by qualified name and argument types: copies under the
    # template's own would be taken for one another.
    bound.__qualname__ = name
    bound.is_foreign = any(_is_foreign(formula) for formula in formulas.values())
    return bound


def specialize(template, **formulas):
    """Kernel made from a template and a likelihood's formulas."""
    return kernel(bind(template, **formulas))
