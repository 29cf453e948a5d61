"""Draws in the hands of ArviZ, whatever its version."""

from importlib import import_module
from importlib.util import find_spec
from inspect import signature


def to_arviz(arrays, labels):
    """Make ArviZ's data of draws by name, and of labels of those that have several numbers."""
    dims = {name: ["feature" if name == "coef" else f"{name}_label"] for name in labels}
    coords = {dims[name][0]: numbers for name, numbers in labels.items()}
    from_dict = _open().from_dict
    if "posterior" in signature(from_dict).parameters:  # before ArviZ 1.0
        return from_dict(posterior=arrays, coords=coords, dims=dims)
    return from_dict({"posterior": arrays}, coords=coords, dims=dims)


def _open():
    """The package, or the part of it that holds data."""
    for package in ("arviz", "arviz_base"):
        if find_spec(package) is not None:
            return import_module(package)
    raise ImportError("to_arviz needs ArviZ, which is not installed: pip install arviz")
