"""What tests of the stand-in driver run in processes of their own; results go there as JSON."""

from __future__ import annotations

import io
from contextlib import redirect_stdout

import numpy as np

from benchmarks.gpu.stand_in import counts
from sksurvgpu import CoxLassoCCD, show_versions, surv
from sksurvgpu.backends import choose
from sksurvgpu.backends.cuda.kept import _last


def draw(n):
    rng = np.random.default_rng(0)
    X = (rng.random((n, 5)) < 0.3).astype(float)
    return X, surv(rng.random(n) < 0.5, rng.exponential(size=n))


def said_by(call):
    """The class of the error that a call ends with, and its message and notes; or its result."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__, "\n".join([str(error), *getattr(error, "__notes__", [])])


def open_device():
    """The device and its memory, and what `show_versions` says of them."""

    def opened():
        device = choose("cuda").device
        here = np.arange(6.0).reshape(2, 3)
        free = device.free_bytes()
        there = device.upload(here)
        same = bool((device.download(there) == here).all())
        taken = free - device.free_bytes()
        del there
        return device.name, same, taken, free - device.free_bytes()

    printed = io.StringIO()
    with redirect_stdout(printed):
        show_versions()
    return {"opened": said_by(opened), "versions": printed.getvalue()}


def fit_on_device(n):
    """What two fits say where the device breaks or lacks memory, and what is left there."""
    X, y = draw(n)
    said = [said_by(lambda: CoxLassoCCD(backend="cuda").fit(X, y)) for _ in range(2)]
    return {"said": said, "kept": len(_last.entries), "counts": counts()}
