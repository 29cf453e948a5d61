"""Massive regularized survival regression with a scikit-learn interface.

Public names are loaded on first use (PEP 562), so that ``import sksurvgpu`` costs nothing
and neither numba nor a CUDA driver is touched before a model is built. What functions return is
listed in `sksurvgpu.results`, and figures in `sksurvgpu.plotting`; both can be imported from here.
"""

from ._lazy import loader, read_imports

# Not lazy: the function must win over the submodule of the same name, whichever is asked first.
from .show_versions import show_versions as show_versions

__version__ = "0.3.0"

# Public name -> module that defines it, "" for submodules. What type checkers read says it once.
_DISPLAYS = {
    name: f"plotting.{module}"
    for name, module in read_imports(__name__, "plotting/__init__.pyi").items()
}
_RESULTS = read_imports(__name__, "results.py")
_MODULES = _DISPLAYS | _RESULTS | read_imports(__name__, "__init__.pyi")

__all__ = sorted([*_MODULES, "__version__"])
__getattr__ = loader(__name__, _MODULES)


def __dir__():
    shown = {*__all__}.difference(_DISPLAYS, _RESULTS)
    return sorted(shown | {name for name in globals() if name.startswith("__")})
