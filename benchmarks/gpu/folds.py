"""What the host does before the first kernel of a batch: folds and replicates at a million rows.

The device is a stand-in that keeps arrays and runs no kernel, so that the time is the host's alone:
uploads are copies within its memory.  ``python -m benchmarks.gpu.folds --rows 1000000``.
"""

import argparse
import time

import numpy as np

from sksurvgpu import CoxLassoCCD, FineGrayCCD, LogisticCCD, SurvivalKFold, competing_risks, surv
from sksurvgpu.backends import cuda
from sksurvgpu.backends.contract import Operations, ask
from sksurvgpu.inference._replicates import Replicates
from sksurvgpu.selection.folds import split_rows


class IdleDevice:
    """Keeps arrays; what comes back from it are ones."""

    name, n_multiprocessors, shared_bytes = "idle device", 132, 227 * 1024

    def use(self):
        pass

    def free_bytes(self):
        return 2**40

    def upload(self, array):
        return np.array(array)

    def empty(self, shape, dtype):
        return np.empty(shape, dtype)

    def zeros(self, shape, dtype):
        return np.zeros(shape, dtype)

    def download(self, array):
        return np.ones(array.shape, array.dtype)

    def send(self, *arrays):
        return [np.array(array) for array in arrays]

    def pack(self, value):
        return value

    def view(self, array, dtype, shape=None):
        found = array.view(dtype)
        return found if shape is None else found.reshape(shape)

    def write(self, array, values):
        array[...] = np.asarray(values).reshape(array.shape)

    def launch(self, *arguments, **options):
        pass

    def resident_blocks(self, *arguments, **options):
        return self.n_multiprocessors


def draw(model, n):
    rng = np.random.default_rng(0)
    X = (rng.random((n, 2)) < 0.05).astype(float)
    time_of, event = rng.exponential(size=n), rng.random(n) < 0.05
    if model is FineGrayCCD:
        return X, competing_risks(np.where(event, 1 + (time_of > 1), 0), time_of)
    return (X, event) if model is LogisticCCD else (X, surv(event, time_of))


def ask_for_bounds():
    """What every fit asks of its weights."""
    yield from ask(Operations.largest_loglik)
    yield from ask(Operations.error_weight)


def measure(function):
    wall, processor = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - wall, time.process_time() - processor


def batches(fitted, prepared, n_fits):
    """Batches by name: weights of splits, and of replicates."""
    splits = split_rows(n_fits, None, None, prepared, n_repeats=1, random_state=0)
    yield "folds", splits.train
    if hasattr(Replicates, "columns"):
        units = Replicates(fitted, prepared.outcome, None, None, "multinomial", 0)
        yield "replicates", units.columns(np.arange(n_fits))


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--fits", type=int, default=100)
    arguments = parser.parse_args(given)
    SurvivalKFold(2)  # compiled code is loaded here
    for model in (CoxLassoCCD, FineGrayCCD, LogisticCCD):
        X, y = draw(model, arguments.rows)
        fitted, backend = model(), cuda.Backend(IdleDevice())
        prepared = fitted._prepare(X, y)
        for name, weight in batches(fitted, prepared, arguments.fits):
            changes = {"weight": weight}
            batch = prepared._batch([0.1] * 1, np.ones(arguments.fits), changes)
            for call in ("first", "next"):
                fits = [ask_for_bounds() for _ in range(arguments.fits)]
                wall, processor = measure(lambda: backend.run(prepared.problem, batch, fits, 1))  # noqa: B023
                what = f"{model.__name__}, {arguments.fits} {name}, {call} run"
                print(f"{what}: {wall:.3f} s, of the processor {processor:.3f} s")


if __name__ == "__main__":
    main()
