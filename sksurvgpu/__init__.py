"""Massive regularized survival regression with a scikit-learn interface.

Public names are loaded on first use (PEP 562), so that ``import sksurvgpu`` costs nothing
and neither numba nor a CUDA driver is touched before a model is built.
"""

import ast
from importlib import import_module
from pkgutil import get_data

# Not lazy: the function must win over the submodule of the same name, whichever is asked first.
from .show_versions import show_versions as show_versions

__version__ = "0.2.0"

# Public name -> module that defines it, "" for submodules. What type checkers read says it once.
_DEFINED_IN = {
    alias.name: node.module or ""
    for node in ast.parse(get_data(__name__, "__init__.pyi")).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}

__all__ = sorted([*_DEFINED_IN, "__version__"])


def __getattr__(name):
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _DEFINED_IN[name]
    value = import_module(f".{module or name}", __name__)
    if module:
        value = globals()[name] = getattr(value, name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})
