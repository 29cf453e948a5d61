"""What the Python peer drivers share: problems, the timed run, the result file."""

import importlib
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

SKIPPED = 3  # exit code: this peer cannot run here or cannot solve this problem


@dataclass
class Problem:
    """Minimize -loglik + penalty * sum|b| with Breslow ties."""

    matrix: sparse.csc_matrix
    times: np.ndarray
    events: np.ndarray
    penalty: float
    tolerance: float


def require(module):
    """Import a peer, or end the run as skipped."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        skip(f"{module} is not importable: {error}")


def skip(message):
    print(message)
    sys.exit(SKIPPED)


def read_problem(directory):
    directory = Path(directory)
    if (directory / "stratum.npy").exists():
        skip("this peer has no strata")
    shape = json.loads((directory / "shape.json").read_text())
    indptr, indices = np.load(directory / "X_indptr.npy"), np.load(directory / "X_indices.npy")
    values_file = directory / "X_data.npy"
    values = np.load(values_file) if values_file.exists() else np.ones(len(indices))
    matrix = sparse.csc_matrix(
        (values.astype(float), indices, indptr), shape=(shape["n"], shape["p"])
    )
    times, events = np.load(directory / "time.npy"), np.load(directory / "event.npy").astype(bool)
    return Problem(matrix, times.astype(float), events, shape["lambda"], shape["tol"])


def tiny_problem():
    """Small enough to cost nothing; the peer compiles or loads its code on it."""
    rng = np.random.default_rng(1)
    matrix = sparse.csc_matrix((rng.random((60, 5)) < 0.4).astype(float))
    return Problem(matrix, rng.exponential(size=60), rng.random(60) < 0.6, 2.0, 1e-6)


def peak_memory_mb():
    # Not ru_maxrss: a child starts with its parent's high-water mark there.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return None


def timed_run(name, version, prepare, fit):
    """Entry point of a driver.

    `prepare(problem)` converts (not timed); `fit(problem, prepared)` is timed and returns the
    coefficients and a note.
    """
    problem_directory, output_file = sys.argv[1:3]
    problem = read_problem(problem_directory)
    tiny = tiny_problem()
    fit(tiny, prepare(tiny))
    prepared = prepare(problem)
    begin = time.perf_counter()
    coefficients, note = fit(problem, prepared)
    seconds = time.perf_counter() - begin
    result = {
        "name": name,
        "version": version,
        "seconds": seconds,
        "coef": np.asarray(coefficients, float).tolist(),
        "peak_rss_mb": peak_memory_mb(),
        "note": note,
    }
    Path(output_file).write_text(json.dumps(result))
