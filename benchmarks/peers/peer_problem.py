"""Shared by the Python peers: problems, the timed run, the result file."""

import importlib
import json
import platform
import sys
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
from scipy import sparse

SKIPPED = 3  # exit code: this peer cannot run here or cannot solve this problem
LARGEST_BYTES = 4e9  # of a dense X
OUTCOMES = ("time", "event", "stratum", "y", "exposure", "group")


@dataclass
class Problem:
    """Minimize -loglik + penalty * sum|b|, with an unpenalized intercept where `intercept`.

    `tolerance` bounds the KKT residual relative to `penalty_max`, the least penalty that sets all
    coefficients to zero. `outcome` has those of `OUTCOMES` that the model has.
    """

    matrix: sparse.csc_matrix
    outcome: dict
    penalty: float
    penalty_max: float
    tolerance: float
    model: str = "cox"
    intercept: bool = False
    ties: str = "breslow"
    path: tuple = ()  # penalties that end with `penalty`, where a path is asked for

    @property
    def penalties(self):
        """On the sum scale, descending."""
        return np.array(self.path or (self.penalty,))

    def __getitem__(self, name):
        """One array of the outcome, or None."""
        return self.outcome.get(name)

    @property
    def shape(self):
        return self.matrix.shape

    @property
    def is_dense(self):
        return self.matrix.nnz == np.prod(self.matrix.shape)

    def table(self):
        """X as its owner would keep it: sparse, or an array where no entry is zero."""
        return self.matrix.toarray(order="F") if self.is_dense else self.matrix

    def table_with_short_indices(self):
        """X with 32-bit indices, for compiled loops that take no others."""
        if self.is_dense:
            return self.table()
        matrix = self.matrix.copy()
        matrix.indices = matrix.indices.astype(np.int32)
        matrix.indptr = matrix.indptr.astype(np.int32)
        return matrix


@dataclass
class Answer:
    """The result of a peer's fit; what an iteration is differs between solvers.

    `coef` has a row for every penalty where a path is asked for.
    """

    coef: np.ndarray
    note: str
    n_iter: int | None = None
    intercept: float = 0.0


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

    def read(name):
        file = directory / f"{name}.npy"
        return np.load(file) if file.exists() else None

    shape = json.loads((directory / "shape.json").read_text())
    indptr, indices, values = read("X_indptr"), read("X_indices"), read("X_data")
    values = np.ones(len(indices)) if values is None else values.astype(float)
    matrix = sparse.csc_matrix((values, indices, indptr), shape=(shape["n"], shape["p"]))
    arrays = {name: read(name) for name in OUTCOMES}
    outcome = {name: array for name, array in arrays.items() if array is not None}
    scale = (shape["lambda"], shape["lambda_max"], shape["tol"])
    kind = shape["model"], shape["intercept"], shape["ties"], tuple(shape.get("path", ()))
    return Problem(matrix, outcome, *scale, *kind)


def tiny_problem(like, rows=60, n_groups=5):
    """Small enough to cost nothing; the peer compiles or loads on it the code that `like` needs."""
    rng = np.random.default_rng(1)
    ones = np.ones((rows, 5), bool) if like.is_dense else rng.random((rows, 5)) < 0.4
    values = 1.0 if np.all(like.matrix.data == 1.0) else rng.normal(size=ones.shape)
    labels = np.arange(rows, dtype=np.int32) % n_groups
    case = rng.permutation(np.arange(rows) % 3 == 0)
    outcomes = {
        "time": rng.exponential(size=rows),
        "event": rng.integers(0, 3 if like.model == "fine-gray" else 2, rows),
        "stratum": labels,
        "y": case.astype(float),
        "exposure": rng.uniform(0.5, 2.0, rows),
        "group": labels,
    }
    outcome = {name: array for name, array in outcomes.items() if name in like.outcome}
    matrix = sparse.csc_matrix(np.where(ones, values, 0.0))
    penalty = 2.0 if like.penalty > 0 else 0.0
    kind = like.model, like.intercept, like.ties, (4.0, 2.0) if like.path else ()
    return Problem(matrix, outcome, penalty, 10.0, 1e-6, *kind)


PEERS = {}


class Peer:
    """A solver; `modules` are imported, or the run ends as skipped."""

    modules = ()
    distribution = None
    with_strata, with_paths = False, False

    def __init_subclass__(cls):
        PEERS[cls.__name__.lower()] = cls

    def __init__(self, *arguments):
        self.arguments, self.tolerance = arguments, float(arguments[-1])
        self.loaded = [require(module) for module in self.modules]
        self.name = self.distribution or self.modules[0]

    @property
    def version(self):
        return version(self.distribution or self.modules[0])

    def note(self, warned, name="tol"):
        return "; ".join([f"{name}={self.tolerance:g}", *dict.fromkeys(warned)])


def dense(problem, copies=1):
    """X as an array in Fortran order."""
    if 8.0 * copies * np.prod(problem.shape) > LARGEST_BYTES:
        skip("the dense X that this peer needs is too large")
    return problem.matrix.toarray(order="F")


def signed(problem):
    """Labels of -1 and 1, for those whose linear predictor is that of them."""
    return 2.0 * problem["y"] - 1.0 if problem.model == "logistic" else problem["y"]


def centred(problem, X):
    """X and y without their means, for paths of least squares without an intercept."""
    if not problem.intercept:
        return X, problem["y"]
    return np.asfortranarray(X - X.mean(axis=0)), problem["y"] - problem["y"].mean()


def peak_memory_mb():
    # Not ru_maxrss: a child starts with its parent's high-water mark there.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return None


def timed_run():
    """Entry point of a driver; the tiny problem compiles or loads the peer's code."""
    problem_directory, output_file, name, *arguments = sys.argv[1:]
    peer = PEERS[name](*arguments)
    problem = read_problem(problem_directory)
    if problem["stratum"] is not None and not peer.with_strata:
        skip("this peer has no strata")
    if problem.path and not peer.with_paths:
        skip("no path in this peer, or in its driver")
    tiny = tiny_problem(problem)
    peer.fit(tiny, peer.prepare(tiny))
    prepared = peer.prepare(problem)
    begin, cpu = time.perf_counter(), time.process_time()
    answer = peer.fit(problem, prepared)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    result = {
        "name": peer.name,
        "version": peer.version,
        "runtime": f"Python {platform.python_version()}",
        "seconds": seconds,
        "cpu_seconds": cpu,
        "coef": _packed(answer.coef),
        "intercept": float(answer.intercept),
        "n_iter": None if answer.n_iter is None else int(answer.n_iter),
        "peak_rss_mb": peak_memory_mb(),
        "note": answer.note,
    }
    Path(output_file).write_text(json.dumps(result))


def _packed(coef):
    """Numbers of one penalty; of many, the nonzeros by rows."""
    coef = np.asarray(coef, float)
    if coef.ndim == 1:
        return coef.tolist()
    rows = sparse.csr_matrix(coef)
    names = ("indptr", "indices", "data")
    return {name: getattr(rows, name).tolist() for name in names}


def quietly(function):
    """Result of a call, and the warnings it gave as text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    return result, [str(warning.message) for warning in caught]
