"""What kernels were made from when their figures were written: others need no compilation.

The digest of a kernel is of the text of its function and of all that it calls, of the numbers that
these read, of the types of its arguments, and of the versions of the compilers.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import numpy as np

DIGESTS = Path(__file__).with_name("kernel_digests.json")
COMPILERS = "numba", "numba-cuda", "nvidia-nvjitlink", "nvidia-nvvm"
OTHERS = {"numba", "numpy", "math"}  # which the versions stand for


def _names_in(code):
    inner = (names for c in code.co_consts if isinstance(c, CodeType) for names in _names_in(c))
    return {*code.co_names, *inner}


def _read_by(function):
    """Names and values of what a function finds outside of itself."""
    names = sorted(_names_in(function.__code__))
    known = {name: function.__globals__[name] for name in names if name in function.__globals__}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    known |= {name: cell.cell_contents for name, cell in cells}
    for name, value in [*known.items()]:
        if isinstance(value, ModuleType) and value.__name__.startswith("sksurvgpu"):
            known |= {f"{name}.{n}": getattr(value, n) for n in names if hasattr(value, n)}
    return known


def texts_of(kernel):
    """Of a kernel, and of all that it calls."""
    texts, queue, seen = [], [kernel], set()
    while queue:
        function = queue.pop()
        function = getattr(function, "py_func", function)
        if id(function) in seen or function.__module__.partition(".")[0] in OTHERS:
            continue
        seen.add(id(function))
        texts.append(inspect.getsource(function))
        for name, value in _read_by(function).items():
            if isinstance(value, FunctionType) or hasattr(value, "py_func"):
                queue.append(value)
            elif isinstance(value, (int, float, str, tuple, np.generic)):
                texts.append(f"{name} = {value!r}")
    return sorted(texts)


def digests_of(launched):
    """Digests by kernel name, of what a `RecordingDevice` has noted."""
    made_from = defaultdict(list)
    for (name, signature), kernels in launched.items():
        for kernel in kernels:
            options = sorted((k, repr(v)) for k, v in kernel.targetoptions.items())
            made_from[name].append(repr((signature, options, texts_of(kernel))))
    versions = [version(package) for package in COMPILERS]
    return {
        name: hashlib.sha256(repr((versions, sorted(parts))).encode()).hexdigest()[:16]
        for name, parts in made_from.items()
    }


def read_digests():
    return json.loads(DIGESTS.read_text(encoding="utf-8"))


def write_digests(digests):
    text = json.dumps(dict(sorted(digests.items())), indent=1)
    DIGESTS.write_text(text + "\n", encoding="utf-8")
