"""A driver without a device (`stand_in.c`), on which the real numba-cuda runs all but kernels."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ..processes import call

SOURCE = Path(__file__).with_name("stand_in.c")
LIBRARY = "libcuda.so.1"


class Counts(NamedTuple):
    """What the driver was asked for since the process began."""

    launches: int
    uploads: int
    downloads: int
    allocations: int
    frees: int
    loads: int  # of machine code


def build(folder):
    """Compile the driver into a folder."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise RuntimeError("no C compiler was found: install one or set CC")
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", Path(folder) / LIBRARY, SOURCE, "-ldl"]
    subprocess.run(command, check=True)


def call_on_stand_in(module, function, arguments, folder=None, **variables):
    """``module.function(**arguments)`` in a process that finds this driver, built if need be.

    `variables` of its environment are those of `stand_in.c` among others.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as folder:
            build(folder)
            return call_on_stand_in(module, function, arguments, folder, **variables)
    before = os.environ.get("LD_LIBRARY_PATH")
    path = os.pathsep.join([str(folder), *([before] if before else [])])
    return call(module, function, arguments, LD_LIBRARY_PATH=path, **variables)


@cache
def _driver():
    return ctypes.CDLL(LIBRARY)


def counts():
    """What the driver of this process was asked for."""
    found = (ctypes.c_long * len(Counts._fields))()
    _driver().stand_in_counts(found)
    return Counts(*found)
