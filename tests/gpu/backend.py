"""The CUDA backend on a simulated device, with teams small enough for small data."""

from functools import partial

import pytest
from engine import use_model

from sksurvgpu.backends.contract import Room

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from .device import SimulatedDevice

THREADS, ROWS_PER_RANGE = 32, 8


def simulate_backend(monkeypatch, device=None, threads=THREADS, model="sweeps", **options):
    """Have ``backend="cuda"`` run on a simulated device from here on; the device.

    By sweeps on the CPU too, so that both go the same way, or by the ``"matrix"`` that it holds.
    """
    from sksurvgpu.backends import cuda
    from sksurvgpu.backends.cuda import weights
    from sksurvgpu.backends.cuda.layout import Layout
    from sksurvgpu.backends.cuda.session import Session

    if device is None:
        device = SimulatedDevice(**{"n_multiprocessors": 2, **options})
    layout = partial(Layout, threads=threads, rows_per_range=ROWS_PER_RANGE)
    if model == "sweeps":
        use_model("sweeps", monkeypatch)
        monkeypatch.setattr(Session, "room", lambda self, fits: [Room(0.0, True)] * len(fits))
    monkeypatch.setattr(weights, "PARTS", 2)
    monkeypatch.setattr(cuda, "Layout", layout)
    monkeypatch.setattr(cuda, "open_device", lambda ordinal: device)
    return device
