"""Massive regularized survival regression with a scikit-learn interface.

Public names are loaded on first use (PEP 562), so that ``import sksurvgpu`` costs nothing
and neither numba nor a CUDA driver is touched before a model is built.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not lazy: the function must win over the submodule of the same name, whichever is asked first.
from .show_versions import show_versions

if TYPE_CHECKING:
    from . import datasets
    from .data.outcome import as_sksurv, surv
    from .estimators.survival import CoxLassoCCD
    from .selection.path import Path, fit_path

__version__ = "0.1.0"

__all__ = [
    "CoxLassoCCD",
    "Path",
    "__version__",
    "as_sksurv",
    "datasets",
    "fit_path",
    "show_versions",
    "surv",
]

# Public name -> module that defines it.
_DEFINED_IN = {
    "CoxLassoCCD": ".estimators.survival",
    "Path": ".selection.path",
    "as_sksurv": ".data.outcome",
    "fit_path": ".selection.path",
    "surv": ".data.outcome",
}
_SUBMODULES = {"datasets"}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_DEFINED_IN[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
