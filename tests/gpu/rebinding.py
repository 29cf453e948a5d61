"""Kernels as plain Python: the same code with other globals.

A kernel's function and all that it calls are copied; in the copies `numba.cuda` is the simulator's,
`math` follows C (overflow gives inf, a bad argument NaN), Numba's types convert and wrap, and
floating-point literals are NumPy scalars, whose division by zero gives inf.
"""

from __future__ import annotations

import math
import types

import numba
import numpy as np
from numba.np.numpy_support import as_dtype

from sksurvgpu.backends.cuda._cuda import cuda

from .memory import converter

_NOT_OURS = ("numpy", "numba", "math", "builtins", "operator", "typing")
_FALLBACKS = {"pow": np.power, "fmod": np.fmod, "ldexp": np.ldexp}
_GROUPS = ("atomic", "shared", "local", "const", "cg")


class Convert:
    """A Numba or NumPy scalar type in a kernel: converts values, or names a dtype."""

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype)
        self._convert = converter(dtype)
        if self.dtype.kind == "b":
            self._convert = bool

    def __call__(self, value):
        return self._convert(value)


def dtype_of(declared):
    """NumPy dtype of what a kernel gives as the dtype of an array."""
    if isinstance(declared, Convert):
        return declared.dtype
    return as_dtype(declared) if isinstance(declared, numba.types.Type) else np.dtype(declared)


def _as_in_c(name):
    """A function of `math` without its exceptions."""
    checked = getattr(math, name)
    fallback = _FALLBACKS.get(name, getattr(np, name, None))

    def function(*arguments):
        try:
            result = checked(*arguments)
        except (OverflowError, ValueError):
            result = math.inf if fallback is None else fallback(*arguments)
        if type(result) is not float:
            return result
        is_single = all(type(argument) is np.float32 for argument in arguments)
        return np.float32(result) if is_single else np.float64(result)

    return function


def _device_max(a, b):
    """Larger of two numbers; a NaN loses, unlike in Python where the order decides."""
    if a != a:
        return b
    return b if b > a else a


def _device_min(a, b):
    if a != a:
        return b
    return b if b < a else a


def _reduce(pair, plain):
    def function(*values):
        if len(values) == 1:
            return plain(*values)
        result = values[0]
        for value in values[1:]:
            result = pair(result, value)
        return result

    return function


BUILTINS = {
    "max": _reduce(_device_max, max),
    "min": _reduce(_device_min, min),
    "float": Convert(np.float64),
}


def _literal(constant):
    if type(constant) is float:
        return np.float64(constant)
    if type(constant) is tuple:
        return tuple(_literal(part) for part in constant)
    return constant


class Module:
    """A module in a kernel: its attributes are converted when they are first looked up."""

    def __init__(self, module, convert):
        self._module, self._convert = module, convert

    def __getattr__(self, name):
        value = self._convert(getattr(self._module, name))
        setattr(self, name, value)
        return value


class Rebinding:
    """Copies of functions for one simulated `cuda`; a function is copied once."""

    def __init__(self, simulated_cuda):
        self._copies = {}
        self._replaced = {id(cuda): simulated_cuda}
        self.codes = set()
        for owner, simulated in ((cuda, simulated_cuda), *self._groups(simulated_cuda)):
            for name in dir(type(simulated)):
                if not name.startswith("_") and hasattr(owner, name):
                    # `from numba.cuda import syncthreads`; looked up late, as the value may change.
                    self._replaced[id(getattr(owner, name))] = _Attribute.of(simulated, name)
        for name in dir(math):
            if callable(getattr(math, name)) and not name.startswith("_"):
                self._replaced[id(getattr(math, name))] = _as_in_c(name)

    @staticmethod
    def _groups(simulated_cuda):
        return [(getattr(cuda, name), getattr(simulated_cuda, name)) for name in _GROUPS]

    def kernel(self, kernel):
        return self.function(getattr(kernel, "py_func", kernel))

    def function(self, original):
        found = self._copies.get(id(original))
        if found is not None:
            return found[1]
        code = original.__code__
        constants = tuple(_literal(constant) for constant in code.co_consts)
        copied = code.replace(co_consts=constants)
        self.codes.add(copied)
        closure = original.__closure__
        cells = closure and tuple(types.CellType() for _ in closure)
        namespace = {"__builtins__": original.__globals__.get("__builtins__", __builtins__)}
        copy = types.FunctionType(
            copied, namespace, original.__name__, original.__defaults__, cells
        )
        copy.__kwdefaults__ = original.__kwdefaults__
        # Known before its globals are converted: functions may call each other.
        self._copies[id(original)] = (original, copy)
        for name in _names(code):
            if name in original.__globals__:
                namespace[name] = self.value(original.__globals__[name])
            elif name in BUILTINS:
                namespace[name] = BUILTINS[name]
        for cell, source in zip(cells or (), closure or (), strict=True):
            cell.cell_contents = self.value(source.cell_contents)
        return copy

    def value(self, value):
        """What a global or captured value is in the simulation."""
        replaced = self._replaced.get(id(value))
        if replaced is not None:
            return replaced
        if isinstance(value, types.ModuleType):
            return Module(value, self.value)
        if isinstance(value, numba.types.Number | numba.types.Boolean):
            return Convert(as_dtype(value))
        if isinstance(value, type) and issubclass(value, np.number | np.bool_):
            return Convert(value)
        if type(value) is float:
            return np.float64(value)
        plain = getattr(value, "py_func", value)
        is_function = isinstance(plain, types.FunctionType)
        if is_function and (plain.__module__ or "").partition(".")[0] not in _NOT_OURS:
            return self.function(plain)
        return value


class _Attribute:
    """Attribute of the simulated `cuda` that a kernel imported by name."""

    def __init__(self, owner, name):
        self._owner, self._name = owner, name

    @classmethod
    def of(cls, owner, name):
        is_property = isinstance(getattr(type(owner), name), property)
        return cls(owner, name) if is_property else getattr(owner, name)

    def __getattr__(self, name):
        return getattr(getattr(self._owner, self._name), name)


def _names(code):
    """Names of globals that a code object uses, in functions defined inside it too."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names
