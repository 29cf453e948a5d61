"""Figures, drawn with matplotlib by classes that follow scikit-learn's Display convention.

A class method ``from_...`` takes a result, computes what is shown and draws it; ``plot`` draws it
again, elsewhere or otherwise. What was drawn is kept in attributes: ``ax_``, ``figure_``, and the
artists of the class.
"""

from .._lazy import loader, read_imports

_MODULES = read_imports(__name__, "__init__.pyi")

__all__ = sorted(_MODULES)
__getattr__ = loader(__name__, _MODULES)


def __dir__():
    return sorted({*__all__} | {name for name in globals() if name.startswith("__")})
