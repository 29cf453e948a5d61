"""How kernels are compiled: for the CPU nogil, all cached on disk, never with fast-math.

Numba's own cache watches only the file that holds a kernel, not the files of the functions that
the kernel calls; a damaged file stops every later call; and processes that compile at once number
their files without a lock.  Here a file begins with a digest of its content and of all it was made
from, the sources of the kernel's module and of those that it imports from the package.  Any file
that does not fit is compiled anew and replaced as a whole, and its name follows from the kernel and
the types of its arguments.  The digest finds accidents, not attackers: loading a file executes it.
Kernels with a formula from outside the package, or one that a function makes, are compiled in every
process.  Fast-math is off because LLVM then turns gathers into vector gathers, which are three to
five times slower than scalar loads on common server processors.
"""

import contextlib
import gc
import hashlib
import logging
import os
import pickle
import re
import time
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any
from uuid import uuid4

import numba
from llvmlite.binding import parse_assembly
from numba import config, njit
from numba.core.caching import FunctionCache, NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.serialize import dumps

from ._waiting import NOTICEABLE, in_worker, set_aside

_OPTIONS = {"error_model": "numpy", "nogil": True, "no_cfunc_wrapper": True}
_PACKAGE = Path(__file__).resolve().parent
_folders: set[Path] = set()  # of files of compiled code
_ENVIRONMENT = "_ZN08NumbaEnv"  # of a function, where exceptions come from
_DIGEST_SIZE = hashlib.sha256().digest_size
_IMPORT = re.compile(rb"^from (\.+)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


@cache
def _read(path):
    """Digest of a source file, and the files of the package that it imports from."""
    content = path.read_bytes()
    imported = set()
    for dots, module, names in _IMPORT.findall(content):
        folder = path.parents[len(dots) - 1].joinpath(*filter(None, module.decode().split(".")))
        found = [folder / f"{name}.py" for name in re.findall(r"\w+", names.decode())]
        found = [file for file in [folder.with_suffix(".py"), *found] if file.is_file()]
        imported.update(found or [folder / "__init__.py"])
    return hashlib.sha256(content).digest(), imported


def _files_of(function):
    """Files of a function and of the formulas that were bound into it."""
    plain = getattr(function, "py_func", function)
    return getattr(plain, "files", {Path(plain.__code__.co_filename).resolve()})


def _parts_of(function):
    """Functions bound into a function, all the way down: copies of one name may differ in them."""
    return getattr(getattr(function, "py_func", function), "parts", "")


def _describe(function):
    plain = getattr(function, "py_func", function)
    return f"{plain.__module__}.{plain.__qualname__}({_parts_of(plain)})"


def _digest_sources(files):
    """Digest of source files and of all files of the package that they depend on."""
    known, queue = set(), [Path(__file__).resolve(), *files]
    while queue:
        known.add(file := queue.pop())
        queue += _read(file)[1] - known
    return hashlib.sha256(b"".join(sorted(_read(file)[0] for file in known))).hexdigest()


class _Files:
    """Compiled code of one kernel on disk, a file for the types of its arguments and the machine.

    Processes that compile at once write the same file, each as a whole; the last one stays.
    """

    def __init__(self, folder, name, parts, sources):
        self._folder, self._name, self._parts = Path(folder), name, parts
        self._origin = hashlib.sha256(repr((numba.__version__, name, parts, sources)).encode())

    def load(self, key):
        """Return what was saved for `key`, or None where no whole file of today's sources is."""
        content = self._path(key).read_bytes()
        digest, body = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
        if digest != self._digest(body):
            return None
        saved_key, data = pickle.loads(body)
        # Tuples of one name in two modules look alike in the name of a file.
        return data if saved_key == key else None

    def save(self, key, data):
        """Write the file of `key`, in place of any other."""
        body, path = dumps((key, data)), self._path(key)
        unfinished = path.with_name(f"{path.name}.{uuid4().hex}")
        try:
            unfinished.write_bytes(self._digest(body) + body)
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)

    def flush(self):
        """Forget the kernel's compiled code, as Numba's recompilation asks."""
        for path in self._folder.glob(f"{self._name}.*"):
            path.unlink(missing_ok=True)

    def _digest(self, body):
        digest = self._origin.copy()
        digest.update(body)
        return digest.digest()

    def _path(self, key):
        # Half of the digits: Windows allows 260 letters for a whole path.
        label = hashlib.sha256(repr((self._parts, key)).encode()).hexdigest()[:32]
        return self._folder / f"{self._name}.{label}.nbc"


class _Notice:
    """Says, once in a process, what takes so long.

    Workers of a pool stay silent: their parent's user would read one line from each of them.
    """

    def __init__(self):
        self._since, self._seconds = 0.0, 0.0

    def begin(self):
        self._since = time.perf_counter()

    def end(self, folder, name=""):
        """Count what was compiled; `folder` is where it was kept, or None."""
        before = self._seconds
        seconds = time.perf_counter() - self._since
        self._seconds += seconds
        set_aside(seconds)
        for listen in listeners:
            listen(name)
        if before < NOTICEABLE <= self._seconds and not in_worker():
            logging.getLogger("sksurvgpu").warning(_KEPT if folder else _LOST, folder or _where())


listeners: list = []  # called with the name of every kernel that was compiled
_notice = _Notice()
_KEPT = (
    "sksurvgpu compiles what this kind of model and data needs for the first time; it is kept in "
    "%s, and later processes load it. `python -m sksurvgpu --compile` does it for all models."
)
_LOST = (
    "sksurvgpu compiles what this kind of model and data needs, and does so again in every "
    "process: nothing can be written to %s. Set the environment variable NUMBA_CACHE_DIR to a "
    "folder that can be written to."
)


def _where():
    return config.CACHE_DIR or f"{_PACKAGE} or the user's cache folder"


def cache_files():
    """Sizes of the files of compiled code, by the place where they lie."""
    sizes: dict[str, list[int]] = {}
    for folder in sorted(_folders):
        found = [file.stat().st_size for file in folder.glob("*.nbc")]
        sizes.setdefault(_root_of(folder), []).extend(found)
    return sizes


class _NoCache(NullCache):
    """Without a folder that can be written to, every process compiles."""

    def load_overload(self, sig, target_context):
        _notice.begin()

    def save_overload(self, sig, data):
        _notice.end(None)


class OwnFiles:
    """Makes a cache of Numba's keep one kernel in our files, and never be why a call fails."""

    def __init__(self, function):
        super().__init__(function)
        parts, sources = _parts_of(function), _digest_sources(_files_of(function))
        self._cache_file = _Files(self.cache_path, self._impl.filename_base, parts, sources)
        _folders.add(Path(self.cache_path))

    def load_overload(self, sig, target_context):
        _notice.begin()
        # Whatever stops a file from being read or used, such as another NumPy than the one it was
        # made with, compiling is the answer.
        with contextlib.suppress(Exception):
            return super().load_overload(sig, target_context)

    def save_overload(self, sig, data):
        folder = None
        # On a full disk, or without the folder's rights, every process compiles.
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)
            folder = _root_of(Path(self.cache_path))
        _notice.end(folder, self._py_func.__name__)


class _KernelCache(OwnFiles, FunctionCache):
    """Machine code for the CPU."""


def _root_of(folder):
    """Name for the place of a file: the package's own folders, or the one that was chosen."""
    return f"{_PACKAGE} (__pycache__)" if _PACKAGE in folder.parents else str(folder.parent)


class _Part(JITCodeLibrary):
    """Code of a function that only kernels call: optimized within them, and nowhere else.

    Numba optimizes every function by itself and again in each that calls it, and turns all of them
    into machine code: a third of the time of a first fit.
    """

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self):
        pass

    def _finalize_final_module(self):
        """Give the engine no code, only the addresses that Numba writes to."""
        whole = self._final_module
        names = [v.name for v in whole.global_variables if v.name.startswith(_ENVIRONMENT)]
        addresses = "\n".join(f'@"{name}" = common global i64 0' for name in names)
        self._final_module = parse_assembly(addresses)
        self._final_module.name = whole.name
        super()._finalize_final_module()
        self._final_module = whole


@contextlib.contextmanager
def uncollected():
    """Let no garbage be collected: compiling makes few cycles and very many objects to look at."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _KernelCompiler(Compiler):
    def compile_extra(self, func):
        with uncollected():
            return super().compile_extra(func)


class _PartCompiler(Compiler):
    def __init__(self, typingctx, targetctx, library, *others):
        library = _Part(targetctx.codegen(), "part")
        super().__init__(typingctx, targetctx, library, *others)


# Options of functions that only kernels call.
PART = {**_OPTIONS, "no_cpython_wrapper": True, "pipeline_class": _PartCompiler}


def kernel(function):
    """Compile a function that Python calls; its machine code is kept on disk."""
    return keep(njit(**_OPTIONS, pipeline_class=_KernelCompiler)(function), function, _KernelCache)


def keep(compiled, function, cache):
    """Have a compiled function look for its machine code on disk, and leave it there."""
    if not _is_foreign(function):
        try:
            compiled._cache = cache(function)
        except RuntimeError:  # no folder that can be written to
            compiled._cache = _NoCache()
    return compiled


def _is_foreign(function):
    """Whether a function has a part whose changes go unnoticed, as no source file says all of it.

    Such are code from outside the package, and functions that a function makes, with its numbers.
    """
    plain = getattr(function, "py_func", function)
    is_ours = (plain.__module__ or "").partition(".")[0] == __name__.partition(".")[0]
    is_made = bool(plain.__closure__) or "<locals>" in plain.__qualname__
    return getattr(plain, "is_foreign", False) or is_made or not is_ours


def device(function):
    """Compile a function that only kernels call; it becomes part of their machine code."""
    return njit(**PART)(function)


def part_of_loop(function):
    """Compile a function that loops call for every row: a call costs more than what it does."""
    return njit(**PART, forceinline=True)(function)


# What a template's module declares the names as that `bind` gives to compiled functions.
BOUND: Any = None


def bind(template, **formulas):
    """Copy of `template` with some of its global names bound to the given compiled functions."""
    label = "_".join(formula.__name__ for formula in formulas.values())
    name = f"{template.__name__}_{label}"
    bound = FunctionType(template.__code__, {**template.__globals__, **formulas}, name)
    bound.__module__ = template.__module__
    # Machine code from the cache is linked by qualified name and argument types: copies under the
    # template's own would be taken for one another.
    bound.__qualname__ = name
    bound.files = _files_of(template).union(*map(_files_of, formulas.values()))
    bound.is_foreign = any(_is_foreign(formula) for formula in formulas.values())
    bound.parts = ", ".join(f"{key}={_describe(formulas[key])}" for key in sorted(formulas))
    return bound


def specialize(template, **formulas):
    """Kernel made from a template and a likelihood's formulas."""
    return kernel(bind(template, **formulas))
