"""What the Python peer drivers share: problems, the timed run, the result file."""

import importlib
import json
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

SKIPPED = 3  # exit code: this peer cannot run here or cannot solve this problem


@dataclass
class Problem:
    """Minimize -loglik + penalty * sum|b| with Breslow ties.

    `tolerance` bounds the KKT residual relative to `penalty_max`, the least penalty that sets all
    coefficients to zero.
    """

    matrix: sparse.csc_matrix
    times: np.ndarray
    events: np.ndarray
    strata: np.ndarray | None
    penalty: float
    penalty_max: float
    tolerance: float

    @property
    def is_dense(self):
        return self.matrix.nnz == np.prod(self.matrix.shape)

    def table(self):
        """X as its owner would keep it: sparse, or an array where no entry is zero."""
        return self.matrix.toarray(order="F") if self.is_dense else self.matrix


class Answer(NamedTuple):
    """What a driver returns; what an iteration is differs between solvers."""

    coef: np.ndarray
    note: str
    n_iter: int | None = None


def require(module):
    """Import a peer, or end the run as skipped."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        skip(f"{module} is not importable: {error}")


def skip(message):
    print(message)
    sys.exit(SKIPPED)


def read_problem(directory, with_strata):
    directory = Path(directory)

    def read(name):
        file = directory / f"{name}.npy"
        return np.load(file) if file.exists() else None

    strata, values = read("stratum"), read("X_data")
    if strata is not None and not with_strata:
        skip("this peer has no strata")
    shape = json.loads((directory / "shape.json").read_text())
    indptr, indices = read("X_indptr"), read("X_indices")
    values = np.ones(len(indices)) if values is None else values.astype(float)
    matrix = sparse.csc_matrix((values, indices, indptr), shape=(shape["n"], shape["p"]))
    times, events = read("time").astype(float), read("event").astype(bool)
    scale = (shape["lambda"], shape["lambda_max"], shape["tol"])
    return Problem(matrix, times, events, strata, *scale)


def tiny_problem(like, rows=60, n_strata=5):
    """Small enough to cost nothing; the peer compiles or loads on it the code that `like` needs."""
    rng = np.random.default_rng(1)
    ones = np.ones((rows, 5), bool) if like.is_dense else rng.random((rows, 5)) < 0.4
    values = 1.0 if np.all(like.matrix.data == 1.0) else rng.normal(size=ones.shape)
    strata = None if like.strata is None else np.arange(rows, dtype=np.int32) % n_strata
    times, events = rng.exponential(size=rows), rng.random(rows) < 0.6
    matrix = sparse.csc_matrix(np.where(ones, values, 0.0))
    return Problem(matrix, times, events, strata, penalty=2.0, penalty_max=10.0, tolerance=1e-6)


def peak_memory_mb():
    # Not ru_maxrss: a child starts with its parent's high-water mark there.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return None


def timed_run(name, version, prepare, fit, with_strata=False):
    """Entry point of a driver.

    `prepare(problem)` converts (not timed); `fit(problem, prepared)` is timed and returns an
    `Answer`.
    """
    problem_directory, output_file = sys.argv[1:3]
    problem = read_problem(problem_directory, with_strata)
    tiny = tiny_problem(problem)
    fit(tiny, prepare(tiny))
    prepared = prepare(problem)
    begin = time.perf_counter()
    answer = fit(problem, prepared)
    seconds = time.perf_counter() - begin
    result = {
        "name": name,
        "version": version,
        "runtime": f"Python {platform.python_version()}",
        "seconds": seconds,
        "coef": np.asarray(answer.coef, float).tolist(),
        "n_iter": None if answer.n_iter is None else int(answer.n_iter),
        "peak_rss_mb": peak_memory_mb(),
        "note": answer.note,
    }
    Path(output_file).write_text(json.dumps(result))
