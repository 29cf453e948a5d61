"""The CUDA backend: Numba kernels, all fits of a batch at once on one device.

Fits are coroutines that ask for operations.  Each round serves what the fits of a wave ask for,
the same operation of several fits in one launch.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...data.by_fit import columns_of
from ...data.options import is_whole
from ..contract import every_column, serve_in_rounds
from ..ranges import named
from ._cuda import count_devices, open_device
from .exact import require_steps
from .kept import forget, layout_of
from .layout import Layout
from .memory import fits_at_once, ran_out
from .session import Session


def open_backend(precision, ordinal):
    """Backend on the device of the given number; an error says why there is none."""
    return CudaBackend(open_device(ordinal), precision)


def list_devices(asked):
    """Numbers of the devices asked for, by a list of them or as "all"."""
    if asked == "all":
        return range(max(count_devices(), 1))  # opening the first says why there is none
    if not asked or len(set(asked)) < len(asked):
        raise ValueError(f"`device` is {asked!r}: name every device once, and at least one.")
    for number in asked:
        if not is_whole(number) or number < 0:
            raise ValueError(f"`device` is {asked!r}: {number!r} is not the number of a device.")
    return list(map(int, asked))


@dataclass(frozen=True)
class CudaBackend:
    """One device, and the number type of h, the curvature of rows."""

    device: object
    precision: str = "float64"

    batched: ClassVar[bool] = True  # one session for all fits

    def run(self, problem, batch, coroutines, n_threads):
        """Serve the requests of every fit, as many fits at a time as memory holds.

        What a session needs it takes at once, before a coroutine moves: none could begin again.
        """
        if batch.reach is not None:  # of the exact algorithm
            require_steps(problem)
        try:
            return self._run(problem, batch, coroutines)
        except Exception as error:
            if self.device.is_broken():
                name = self.device.name
                error.add_note(f"Nothing runs on {name} any more until this process ends.")
            raise

    def _run(self, problem, batch, coroutines):
        self.device.use()
        wave, results = fits_at_once(problem, batch, self.device, self.precision), []
        try:
            layout = layout_of(Layout, self.device, problem)
            while part := coroutines[len(results) :][:wave]:
                found = self._serve_wave(layout, problem, batch, len(results), part)
                if found is None:
                    wave = -(-len(part) // 2)
                else:
                    results += found
        except MemoryError as error:
            raise ran_out(error, wave, self.device) from None
        except Exception:
            forget()  # after a fault of the device nothing on it is there any more
            raise
        return results

    def _serve_wave(self, layout, problem, batch, start, part):
        """Results of coroutines; None where they are too many, less being free than was."""
        fits = np.arange(start, start + len(part))
        try:
            session = Session(
                layout,
                problem,
                columns_of(batch.weight, fits),
                columns_of(batch.offset, fits),
                len(part),
                np.dtype(self.precision),
                batch.penalty.formulas,
            )
        except MemoryError:
            if len(part) == 1:
                raise
            return None
        return serve_in_rounds(named(session.serve), part)

    def open_evaluator(self, problem, batch):
        """Keep the rows of a batch of fits ready for evaluations, all of them at once."""
        self.device.use()  # another one may have been opened since
        wave = fits_at_once(problem, batch, self.device, self.precision)
        if wave < batch.n_fits:
            raise MemoryError(
                f"{batch.n_fits:,} chains do not fit into the memory of {self.device.name}, "
                f'{wave:,} do; take fewer chains, another `device`, or backend="cpu".'
            )
        try:
            session = Session(
                layout_of(Layout, self.device, problem),
                problem,
                batch.weight,
                batch.offset,
                batch.n_fits,
                np.dtype(self.precision),
            )
        except MemoryError as error:
            raise ran_out(error, batch.n_fits, self.device) from None
        return CudaEvaluator(session, batch.n_fits)


class CudaEvaluator:
    """Log-likelihoods and their gradients, of fits whose rows are set up once."""

    def __init__(self, session, n_fits):
        self._session, self._fits = session, np.arange(n_fits, dtype=np.int32)
        self._columns = [every_column(session.n_columns)] * n_fits

    def evaluate(self, coefs):
        """Log-likelihood (n_fits,) and gradient (n_fits, n_columns) at coefficients like it."""
        logliks = self._session.start(self._fits, coefs)
        return np.array(logliks), np.array(self._session.gradient(self._fits, self._columns))
