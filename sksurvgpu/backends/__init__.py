"""Where fits run: backends by the names that users may ask for.  `contract` says what one is."""

from collections.abc import Callable
from numbers import Integral
from typing import Any, NamedTuple

from ..data import vectors
from ..exceptions import BackendUnavailableError
from .auto import decide
from .contract import Backend
from .split import SplitBackend

__all__ = ["BACKENDS", "Entry", "choose", "choose_sampling", "explain", "to_host"]


def _open_cpu(precision, device):
    if precision != "float64":
        raise ValueError(
            f'precision="{precision}" exists on CUDA devices only, and this fit runs on the CPU; '
            'pass precision="float64", or backend="cuda".'
        )
    from . import cpu

    return cpu


def _open_cuda(precision, device):
    from . import cuda

    if isinstance(device, Integral):
        return cuda.open_backend(precision, int(device))
    opened = [cuda.open_backend(precision, k) for k in cuda.list_devices(device)]
    return opened[0] if len(opened) == 1 else SplitBackend(tuple(opened))


def _sample_on_cpu(device):
    from .cpu.sampling import Sampling

    return Sampling


def _sample_on_cuda(device):
    from .cuda.sampling import open_sampling

    return open_sampling(device)


class Entry(NamedTuple):
    """How a backend is loaded, on first use."""

    # of a precision, on the device of a number, on those of a list, or on "all"
    open: Callable[[str, Any], Backend]
    # ``make(seed, chains)`` on a device, of what samplers compute with; None where there is none
    open_sampling: Callable[[int], Any] | None = None


_CPU = Entry(_open_cpu, _sample_on_cpu)
# Name that a user may ask for -> what serves it.
BACKENDS = {"auto": _CPU, "cpu": _CPU, "cuda": Entry(_open_cuda, _sample_on_cuda)}


def explain(
    backend: str,
    work: float | None = None,
    device: Any = 0,
    algorithm: str = "majorized",
    may_leave: bool = True,
) -> tuple[str, str]:
    """Name of the backend that serves a request, and why; never a silent replacement.

    `work` is the number of nonzeros of X times the number of fits, where it is known; `may_leave`
    says whether devices have the model.
    """
    if backend != "auto":
        return backend, f'asked for with backend="{backend}"'
    if algorithm == "exact":
        return "cpu", 'backend="auto" takes the CPU for algorithm="exact", no faster elsewhere'
    if not may_leave:
        return "cpu", 'backend="auto" takes the CPU, where alone the model is'
    return decide(work, lambda: _find_obstacle(device))


def _find_obstacle(device):
    """Why there is no device to compute on, or None."""
    try:
        _open_cuda("float64", device)
    except BackendUnavailableError as error:
        return str(error)
    return None


def choose(backend: str, precision: str = "float64", device: Any = 0) -> Backend:
    """Backend that serves a request, loaded on first use."""
    return BACKENDS[backend].open(precision, device)


def choose_sampling(backend: str, device: int = 0) -> Any:
    """``make(seed, chains)`` of the backend that serves a request: what samplers compute with."""
    open_sampling = BACKENDS[backend].open_sampling
    if open_sampling is None:
        raise ValueError(f'backend="{backend}" draws no samples; pass backend="cpu".')
    return open_sampling(device)


def to_host(X: Any) -> Any:
    """X in host memory: itself, unless it lies on a CUDA device.

    Checks, and the order that a model wants rows in, are the host's; a fit on a device then
    uploads the columns that it needs.
    """
    X = vectors.to_host(X)
    if hasattr(X, "__cuda_array_interface__"):
        from .cuda._cuda import fetch

        return fetch(X)
    return X
