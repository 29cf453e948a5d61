"""The CUDA backend: Numba kernels, all fits of a batch at once on one device.

Fits are coroutines that ask for operations.  Each round serves what the fits of a wave ask for,
the same operation of several fits in one launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..contract import serve_in_rounds
from ._cuda import open_device
from .layout import Layout
from .memory import fits_at_once
from .session import Session


def open_backend(precision, ordinal):
    """Backend on the device of the given number; an error says why there is none."""
    return Backend(open_device(ordinal), precision)


@dataclass(frozen=True)
class Backend:
    """One device, and the number type of residuals in sweeps."""

    device: object
    precision: str = "float64"

    batched: ClassVar[bool] = True  # one session for all fits

    def run(self, problem, batch, coroutines, n_threads):
        """Serve the requests of every fit, as many fits at a time as memory holds."""
        wave = fits_at_once(problem, batch, self.device, self.precision)
        layout, results = Layout(self.device, problem), []
        for start in range(0, len(coroutines), wave):
            fits = slice(start, start + wave)
            part = coroutines[fits]
            arrays = _columns(batch.weight, fits), _columns(batch.offset, fits)
            rows = *arrays, len(part), np.dtype(self.precision), batch.penalty.formulas, batch.loan
            # no name holds the session: the next wave needs its memory
            results += serve_in_rounds(Session(layout, problem, *rows).serve, part)
        return results

    def open_evaluator(self, problem, batch):
        """Keep the rows of a batch of fits ready for evaluations, all of them at once."""
        wave = fits_at_once(problem, batch, self.device, self.precision)
        if wave < batch.n_fits:
            raise MemoryError(
                f"{batch.n_fits:,} chains do not fit into the memory of {self.device.name}, "
                f'{wave:,} do; take fewer chains, another `device`, or backend="cpu".'
            )
        layout, dtype = Layout(self.device, problem), np.dtype(self.precision)
        return Evaluator(
            Session(layout, problem, batch.weight, batch.offset, batch.n_fits, dtype), batch.n_fits
        )


class Evaluator:
    """Log-likelihoods and their gradients, of fits whose rows are set up once."""

    def __init__(self, session, n_fits):
        self._session, self._fits = session, np.arange(n_fits, dtype=np.int32)
        self._columns = [np.arange(session.n_columns)] * n_fits

    def evaluate(self, coefs):
        """Log-likelihood (n_fits,) and gradient (n_fits, n_columns) at coefficients like it."""
        logliks = self._session.start(self._fits, coefs)
        return np.array(logliks), np.array(self._session.gradient(self._fits, self._columns))


def _columns(values, fits):
    """Columns of some fits; one column stands for all fits."""
    if values is None:
        return None
    return values[:, :1] if values.shape[1] == 1 else values[:, fits]
