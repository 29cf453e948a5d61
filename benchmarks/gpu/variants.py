"""One choice of the backend at a time, made every way: which constant is best.

A family has a problem and ways; a way is a context under which the backend is built so.  What is
measured is the fit, and the kernels whose names the family asks for.  A way that this version of
the package does not have is "not run".  A new one is one line of `FAMILIES`.
"""

from __future__ import annotations

import re
import tempfile
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import NamedTuple

from sksurvgpu.backends import choose

from ..processes import call
from . import kernels, problems
from .day import SIZES, name_of

ITEM_LIMIT = 90.0
COLUMNS = (
    ("fit ms", "fit_ms", ".2f"),
    ("iter", "iterations", "d"),
    ("kernels ms", "kernels_ms", ".3f"),
    ("launches", "launches", "d"),
    ("slowest us", "slowest_us", ".1f"),
)
PACKAGE = "sksurvgpu"


class AbsentError(Exception):
    """This version of the package has no such choice."""


class Family(NamedTuple):
    """Ways of one choice, on a problem; `is_compiled` where kernels have it in their code."""

    problem: str
    kernels: str  # of what names
    ways: dict
    is_compiled: bool = False


@contextmanager
def setting(module, **values):
    """Constants of a module, given other values."""
    try:
        found = import_module(f"{PACKAGE}.{module}")
        own = {name: getattr(found, name) for name in values}
    except (ImportError, AttributeError) as error:
        raise AbsentError(str(error)) from error
    vars(found).update(values)
    try:
        yield
    finally:
        vars(found).update(own)


@contextmanager
def layout_of(**given):
    """Layouts with other threads of a block or rows of a range."""
    from sksurvgpu.backends import cuda
    from sksurvgpu.backends.cuda.layout import Layout

    own = cuda.Layout
    cuda.Layout = partial(Layout, **given)
    try:
        yield
    finally:
        cuda.Layout = own


@contextmanager
def no_matrices():
    """Fits have none, on any backend: a diagonal and what they learn."""
    from sksurvgpu.solver import costs

    own, costs.most_columns = costs.most_columns, lambda room: 0
    try:
        yield
    finally:
        costs.most_columns = own


@contextmanager
def only_matrices():
    """Fits on a device have a matrix from the beginning."""
    from sksurvgpu.backends.cuda.session import Session

    own = Session.room
    Session.room = lambda self, fits: [
        one._replace(bases=("matrix",), counts=False) for one in own(self, fits)
    ]
    try:
        yield
    finally:
        Session.room = own


def families(sizes):
    """Every choice."""
    large, exact = "cox 1e6 x 1000", "exact, 1e5 x 1000"
    counts = [max(32, k * sizes.threads // 2) for k in (1, 2, 4)]  # more have no registers
    threads = {f"{n} threads": partial(layout_of, threads=n) for n in counts}
    fewer = {name: threads[name] for name in list(threads)[:-1]}  # ... in the exact algorithm
    gram = {
        way: partial(setting, "backends.cuda.held", WAY=way)
        for way in ("tiles", "in place", "columns")
    }
    return {
        "form": Family(large, ".", {"matrix": only_matrices, "diagonal": no_matrices}),
        "threads": Family(large, ".", threads),
        "threads, exact": Family(exact, ".", fewer),
        "gram": Family("ehr 1e5 x 2000", "^(clear|add_pairs|find_scales|finish|multiply)$", gram),
    }


def jobs(sizes):
    """A process a way: kernels keep the constants with which they were compiled."""
    return [(f"{family}: {way}",) for family, each in families(sizes).items() for way in each.ways]


def measure(item, sizes):
    """In a process without code on disk where that would be another way's."""
    if not families(sizes)[item.split(": ")[0]].is_compiled:
        return measure_here(item, sizes)
    given = {"item": item, "sizes": name_of(sizes)}
    with tempfile.TemporaryDirectory() as folder:
        return call(__name__, "measure_here", given, timeout=ITEM_LIMIT, NUMBA_CACHE_DIR=folder)


def measure_here(item, sizes):
    name, way = item.split(": ")
    sizes = SIZES[sizes] if isinstance(sizes, str) else sizes
    family = families(sizes)[name]
    problem = problems.problem_of(family.problem, sizes)
    if problem is None:
        return {"not_run": "too large for these sizes"}
    what = problems.read_name(family.problem, sizes)[0]
    try:
        with family.ways[way]():
            found = kernels.watch_fit(problem, choose("cuda"), sizes, what)
    except AbsentError as absent:
        return {"not_run": f"this version has none: {absent}"}
    kept = {k: v for k, v in found["kernels"].items() if re.search(family.kernels, k)}
    slowest = max(kept, key=lambda k: kept[k]["total_ms"], default=None)
    return {
        **found,
        "kernels_ms": sum(times["total_ms"] for times in kept.values()),
        "launches": sum(times["launches"] for times in kept.values()),
        "slowest_us": kept[slowest]["device_us"] if slowest else None,
        "note": f"{family.problem}; slowest: {slowest}",
    }
