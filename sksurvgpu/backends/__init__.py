"""Where fits run. A backend is a module with ``run(problem, batch, coroutines, n_threads)``."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ..exceptions import BackendUnavailableError

__all__ = ["choose", "explain"]

# Name that a user may ask for -> (module that serves it, why).
_SERVED_BY = {
    "cpu": ("cpu", 'asked for with backend="cpu"'),
    "auto": ("cpu", 'backend="auto" takes the CPU: this release has no CUDA backend'),
}


def explain(backend: str) -> tuple[str, str]:
    """Name of the backend that serves a request, and why; never a silent replacement."""
    if backend not in _SERVED_BY:
        raise BackendUnavailableError(
            f'backend="{backend}" is not part of this release; pass backend="cpu" or backend="auto"'
        )
    return _SERVED_BY[backend]


def choose(backend: str, precision: str = "float64") -> ModuleType:
    """Module of the backend that serves a request, loaded on first use."""
    name, _ = explain(backend)
    if name == "cpu" and precision != "float64":
        raise ValueError(
            f'precision="{precision}" exists on CUDA devices only, and this fit runs on the CPU; '
            'pass precision="float64".'
        )
    return import_module(f".{name}", __name__)
