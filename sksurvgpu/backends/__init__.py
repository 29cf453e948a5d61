"""Where fits run. A backend has ``run(problem, batch, coroutines, n_threads)``."""

from __future__ import annotations

from typing import Any

__all__ = ["choose", "choose_sampling", "explain", "to_host"]

# Name that a user may ask for -> (backend that serves it, why).
_SERVED_BY = {
    "cpu": ("cpu", 'asked for with backend="cpu"'),
    "cuda": ("cuda", 'asked for with backend="cuda"'),
    # A rule must be measured, and the CUDA backend has not met hardware yet.
    "auto": ("cpu", 'backend="auto" takes the CPU: backend="cuda" is not measured yet'),
}


def explain(backend: str) -> tuple[str, str]:
    """Name of the backend that serves a request, and why; never a silent replacement."""
    return _SERVED_BY[backend]


def choose(backend: str, precision: str = "float64", device: int = 0) -> Any:
    """Backend that serves a request, loaded on first use."""
    if explain(backend)[0] == "cuda":
        from . import cuda

        return cuda.open_backend(precision, device)
    if precision != "float64":
        raise ValueError(
            f'precision="{precision}" exists on CUDA devices only, and this fit runs on the CPU; '
            'pass precision="float64", or backend="cuda".'
        )
    from . import cpu

    return cpu


def choose_sampling(backend: str, device: int = 0) -> Any:
    """``make(seed, chains)`` of the backend that serves a request: what samplers compute with."""
    if explain(backend)[0] == "cuda":
        from .cuda.sampling import open_sampling

        return open_sampling(device)
    from .cpu.sampling import Sampling

    return Sampling


def to_host(X: Any) -> Any:
    """X in host memory: itself, unless it lies on a CUDA device.

    Checks, and the order that a model wants rows in, are the host's; a fit on a device then
    uploads the columns that it needs.
    """
    if type(X).__module__.partition(".")[0] in ("cupy", "cupyx") and hasattr(X, "get"):
        return X.get()  # sparse matrices, too
    if hasattr(X, "__cuda_array_interface__"):
        from .cuda._cuda import fetch

        return fetch(X)
    return X
