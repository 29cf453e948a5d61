"""The CUDA backend on a simulated device, with teams small enough for small data."""

from functools import partial

import pytest

from sksurvgpu.backends.contract import Room
from sksurvgpu.backends.cpu.session import Session as CpuSession

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from .cupy import stand_in
from .device import SimulatedDevice

THREADS, ROWS_PER_RANGE, ROWS_PER_TILE = 32, 8, 6


def simulate_backend(monkeypatch, device=None, threads=THREADS, model="diagonal", **options):
    """Have ``backend="cuda"`` run on a simulated device from here on; the device.

    By a ``"diagonal"`` and what it learns, on the CPU too, so that both go the same way; or by a
    ``"matrix"``, always, with the stand-in of CuPy.
    """
    from sksurvgpu.backends import cuda
    from sksurvgpu.backends.cuda import cuts, weights
    from sksurvgpu.backends.cuda.layout import Layout
    from sksurvgpu.backends.cuda.session import Session

    if device is None:
        device = SimulatedDevice(**{"n_multiprocessors": 2, **options})
    layout = partial(Layout, threads=threads, rows_per_range=ROWS_PER_RANGE)
    if model == "diagonal":
        room = Room(0.0, True)
        monkeypatch.setattr(Session, "room", lambda self, fits: [room] * len(fits))
        monkeypatch.setattr(CpuSession, "room", lambda self: Room(0.0))
    if model == "matrix":
        room = Room(1e8, True, ("matrix",), counts=False)
        monkeypatch.setattr(Session, "room", lambda self, fits: [room] * len(fits))
        stand_in(monkeypatch, device)
    monkeypatch.setattr(weights, "PARTS", 2)
    monkeypatch.setattr(cuts, "rows_of_tile", lambda device, given: ROWS_PER_TILE)
    monkeypatch.setattr(cuda, "Layout", layout)
    monkeypatch.setattr(cuda, "open_device", lambda ordinal: device)
    return device
