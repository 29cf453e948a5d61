"""Cost of an iteration against nonzeros, memory against rows and of time-varying coefficients.

Every measurement has a process of its own.

Passes: the first outer iterations of a fit by a diagonal (the backend says that it has no better
base), with the papers' penalty, under which nearly all columns are active at every size; and the
operations that read X in every iteration, by themselves.

Memory: growth of the peak of resident memory during a fit, with X and y in place and the kernels
loaded, against the bound: the package's own copy of X, 64 bytes a row, 2 kB a coefficient, and the
budget of the matrix where one is formed.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from .cases import PAPERS_PENALTY, SEED
from .judge import Certificate
from .problems import Data, write_problem
from .processes import call, forget_peak, in_turn, memory_mb, timed
from .report import lines, parser, read, save

PASS_COLUMNS, DENSITY = 1_000, 0.05
PASS_ITERATIONS, ROUNDS = 5, 3
NONZEROS = (1e6, 3e6, 1e7, 3e7, 1e8)
# (simulator, rows, columns, penalty over the largest useful one; None is sqrt(2))
MEMORY_DESIGNS = (
    ("simulate_cox", 100_000, 1_000, None),
    ("simulate_cox", 1_000_000, 200, None),
    ("simulate_cox", 1_000_000, 1_000, None),
    ("simulate_ehr", 100_000, 2_000, 0.01),
)
N_CUTS = 5
ROW_BYTES, COEF_BYTES = 64, 2_048
MB = 2**20


def _beyond(found):
    """Bytes a row beside X and matrices."""
    growth = found["growth_mb"] - found["design_mb"] - found["matrix_mb"]
    return MB * growth / found["rows"]


def _by_nonzeros(name):
    """Nanoseconds a nonzero of X."""
    return lambda found: 1e9 * found[name] / found["nonzeros"]


PASSES = (
    ("nonzeros", "nonzeros", ",d"),
    ("rows", "rows", ",d"),
    ("threads", "threads", "d"),
    ("s / iteration", "seconds_an_iteration", ".4f"),
    ("ns / nonzero", _by_nonzeros("seconds_an_iteration"), ".2f"),
    ("of a predictor", _by_nonzeros("seconds_a_predictor"), ".2f"),
    ("of a gradient", _by_nonzeros("seconds_a_gradient"), ".2f"),
    ("prepare s", "prepare_seconds", ".3f"),
)
MEMORY = (
    ("design", lambda f: f"{f['simulator']} {f['rows']:,} x {f['columns']:,}", None),
    ("route", "route", None),
    ("cuts", "cuts", "d"),
    ("copies / row", lambda found: found["row_copies"] / found["rows"], ".2f"),
    ("growth MB", "growth_mb", ".1f"),
    ("bound MB", "bound_mb", ".1f"),
    ("X copy MB", "design_mb", ".1f"),
    ("matrix MB", "matrix_mb", ".1f"),
    ("bytes / row beyond", _beyond, ".1f"),
    ("fit s", "seconds", ".2f"),
)


def main(arguments=None):
    """Measure, print tables, write JSON."""
    found = parser("scaling", __doc__, "10,000 rows at most")
    parts = ("passes", "memory")
    found.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    found.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    found.add_argument("--largest", type=float, default=max(NONZEROS), help="nonzeros at most")
    options = read(found, arguments, "scaling")
    sizes = (1e5, 2e5, 5e5) if options.quick else [m for m in NONZEROS if m <= options.largest]
    designs = [d for d in MEMORY_DESIGNS if d[1] * d[2] * DENSITY <= options.largest]
    if options.quick:
        designs = [(name, 10_000, 200, share) for name, *_, share in MEMORY_DESIGNS[::3]]
    content = {"passes": [], "memory": []}
    jobs = [
        ("time_passes", {"rows": round(m / (PASS_COLUMNS * DENSITY)), "n_threads": n_threads})
        for m in sizes
        for n_threads in options.threads
    ]
    if "passes" in options.parts:
        content["passes"] = in_turn(__name__, jobs, lambda passes: save(options, passes=passes))
        print(lines(PASSES, content["passes"]) + "\n", flush=True)
    if "memory" in options.parts:
        for design in designs:
            print("memory: {} {:,} x {:,}".format(*design), file=sys.stderr, flush=True)
            content["memory"] += _memory_of(*design)
            save(options, **content)
        print(lines(MEMORY, content["memory"]))


# -- time of passes ---------------------------------------------------------------------------


def time_passes(rows, n_threads):
    """Seconds of an outer iteration by a diagonal, and of its passes over all columns."""
    from sksurvgpu import CoxLassoCCD
    from sksurvgpu.backends.cpu.session import Session
    from sksurvgpu.backends.cpu.threads import Threads, one_blas_thread
    from sksurvgpu.datasets import simulate_cox
    from sksurvgpu.estimators._preparing import prepare

    forbid_matrices()
    data = simulate_cox(rows, PASS_COLUMNS, density=DENSITY, random_state=SEED)
    model = CoxLassoCCD(
        alpha=PAPERS_PENALTY / rows, max_iter=PASS_ITERATIONS, n_jobs=n_threads, backend="cpu"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # five iterations do not converge
        model.fit(data.X[:6_000], data.y[:6_000])
    prepared, prepared_after = timed(lambda: prepare(model, data.X, data.y))
    [[solution]], fit = timed(lambda: prepared.solve([model.alpha]))
    columns = np.arange(PASS_COLUMNS)
    with one_blas_thread(), Threads(n_threads) as threads:
        session = Session(prepared.problem, None, None, threads)
        predictor = _least(lambda: session.start(solution.coef))
        gradient = _least(lambda: session.gradient(columns))
    return {
        "rows": rows,
        "columns": PASS_COLUMNS,
        "nonzeros": int(data.X.nnz),
        "threads": n_threads,
        "iterations": solution.n_iter,
        "prepare_seconds": prepared_after["seconds"],
        "seconds_an_iteration": fit["seconds"] / solution.n_iter,
        "seconds_a_predictor": predictor,
        "seconds_a_gradient": gradient,
    }


def _least(run):
    return min(timed(run)[1]["seconds"] for _ in range(ROUNDS))


def forbid_matrices():
    """Have fits keep to a diagonal."""
    from sksurvgpu.backends.cpu.session import Session

    own = Session.room
    Session.room = lambda session: own(session)._replace(bases=("diagonal",))


# -- memory -----------------------------------------------------------------------------------


def _memory_of(simulator, rows, columns, share):
    """One design: a diagonal, the package's own choice, and time-varying coefficients."""
    from sksurvgpu import datasets

    jobs = [(route, n_cuts) for n_cuts in (0, N_CUTS) for route in ("diagonal", "default")]
    results = []
    with tempfile.TemporaryDirectory() as directory:
        # Simulated here and read there: the simulation would hide the fit's peak.
        data = Data.of(getattr(datasets, simulator)(rows, columns, random_state=SEED))
        penalty_max = Certificate(data).penalty_max
        penalty = PAPERS_PENALTY if share is None else share * penalty_max
        write_problem(directory, data, penalty, penalty_max, 1e-6)
        del data
        for route, n_cuts in jobs:
            job = {"directory": directory, "penalty": penalty, "route": route, "n_cuts": n_cuts}
            result = call(__name__, "measure_memory", job, n_threads=1)
            results.append({"simulator": simulator, **result})
    return results


def measure_memory(directory, penalty, route, n_cuts):
    """Growth of peak memory during one fit, beside what bounds it."""
    from sksurvgpu import CoxLassoCCD, surv
    from sksurvgpu.backends.cpu.session import Session
    from sksurvgpu.data.design.columns import build_design
    from sksurvgpu.data.design.tiles import tiles_of
    from sksurvgpu.patterns.risk_sets.plan import plan_rows
    from sksurvgpu.solver.costs import BYTES

    if route == "diagonal":
        forbid_matrices()
    elements = _watch_matrices(Session)
    X, time_, event = _read_data(directory)
    y = surv(event, time_)
    cuts = np.quantile(time_, np.arange(1, n_cuts + 1) / (n_cuts + 1)).tolist()
    model = CoxLassoCCD(
        alpha=penalty / len(y),
        time_varying={0: cuts} if n_cuts else None,
        n_jobs=1,
        backend="cpu",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:6_000], y[:6_000])
        elements.clear()
        forget_peak()
        before, peak_before = memory_mb("VmRSS"), memory_mb()
        begin = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - begin
    growth = memory_mb() - before
    tiles = tiles_of(build_design(X), np.arange(len(y)))
    copies = plan_rows(model._read_outcome(y, len(y), None), np.array(cuts)).n_rows
    bound = tiles.nbytes + ROW_BYTES * len(y) + COEF_BYTES * len(model.coef_)
    return {
        "rows": len(y),
        "columns": X.shape[1],
        "nonzeros": int(X.nnz),
        "route": route,
        "cuts": n_cuts,
        "row_copies": int(copies),
        "growth_mb": growth,
        "peak_before_mb": peak_before - before,
        "bound_mb": (bound + BYTES * max(elements, default=0)) / MB,
        "design_mb": tiles.nbytes / MB,
        "matrix_mb": 8 * max(elements, default=0) / MB,
        "seconds": seconds,
        "iterations": model.n_iter_,
    }


def _watch_matrices(session):
    """Elements of the matrices that fits take."""
    elements, form = [], session.matrix

    def watching(self, columns, known):
        elements.append(len(columns) ** 2)
        return form(self, columns, known)

    session.matrix = watching
    return elements


def _read_data(directory):
    """X as indicators of one byte each, so that little but the fit takes memory."""
    from scipy.sparse import csc_array

    directory = Path(directory)
    names = ("X_indptr", "X_indices", "time", "event")
    indptr, indices, time_, event = (np.load(directory / f"{name}.npy") for name in names)
    shape = (len(time_), len(indptr) - 1)
    return csc_array((np.ones(len(indices), np.int8), indices, indptr), shape), time_, event > 0
