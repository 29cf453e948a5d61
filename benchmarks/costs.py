"""Costs of forms of the quadratic model, of an iteration by nonzeros, and of memory by rows.

Every measurement has a process of its own.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from .cases import PAPERS_PENALTY, SEED
from .judge import Certificate
from .problems import Data, write_problem
from .processes import call, forget_peak, in_turn, least, memory_mb, timed
from .report import Option, columns, lines, read, save

_seconds = partial(least, rounds=5)


def main_costs(arguments=None):
    """The table of ``solver/costs.py``, measured on this machine: nanoseconds of one core.

    Only ratios matter; a table that is wrong by a third changes few decisions.
    """
    options = read("costs", main_costs.__doc__, arguments)
    n, p = (4_000, 200) if options.quick else (100_000, 1_000)
    found = call(__name__, "measure_costs", {"n": n, "p": p}, n_threads=1)
    print(lines(columns("entry | measured:.3g | table:.3g"), found))
    save(options, results={entry["entry"]: entry["measured"] for entry in found})


def measure_costs(n, p):
    """Every entry beside the table's."""
    from sksurvgpu.solver import costs

    found = {**_of_sparse(n, p), **_of_dense(n // 50, p // 2), **_of_matrices(p)}
    return [
        {"entry": name, "measured": value, "table": getattr(costs, name)}
        for name, value in found.items()
    ]


def _session(X, times):
    """Session of an unweighted Cox model, with a quadratic model."""
    from sksurvgpu.backends.cpu.session import Session
    from sksurvgpu.backends.cpu.threads import Threads
    from sksurvgpu.data.design.columns import build_design
    from sksurvgpu.data.outcomes.survival import Outcome
    from sksurvgpu.likelihoods import LIKELIHOODS
    from sksurvgpu.patterns.risk_sets.plan import plan_rows
    from sksurvgpu.solver.problem import Problem

    outcome = Outcome(np.ones(len(times), bool), times, None, None)
    problem = Problem.build(build_design(X), plan_rows(outcome), LIKELIHOODS["cox"]("breslow"))
    session = Session(problem, None, None, Threads(1), room=2.0**33)
    session.start(np.full(problem.n_columns, 1e-3))
    return session


def _of_sparse(n, p):
    from sksurvgpu.datasets import simulate_cox

    simulated = simulate_cox(n, p, random_state=0)
    session, columns = _session(simulated.X, simulated.y["time"]), np.arange(p)
    counts, coef = session.count(columns), np.full(p, 1e-3)
    loaded = _seconds(lambda: session.curvature(columns))
    paired = _seconds(lambda: session.matrix(columns, 0)) - loaded  # which a matrix begins with
    return {
        "ENTRY_LOADED": 1e9 * loaded / counts.visits,
        "PAIR": 1e9 * paired / counts.pairs,
        "ENTRY_MULTIPLIED": 1e9 * _seconds(lambda: session.start(coef)) / counts.entries,
        "ENTRY_OF_GRADIENT": 1e9 * _seconds(lambda: session.gradient(columns)) / counts.entries,
    }


def _of_dense(n, p):
    rng = np.random.default_rng(0)
    session, columns = _session(rng.normal(size=(n, p)), rng.random(n)), np.arange(p)
    products = session.count(columns).products
    loaded = _seconds(lambda: session.curvature(columns))
    return {"PRODUCT": 1e9 * (_seconds(lambda: session.matrix(columns, 0)) - loaded) / products}


def _of_matrices(p):
    from scipy.linalg import cho_factor

    rng = np.random.default_rng(0)
    half = rng.normal(size=(p, 2 * p))
    matrix, moves = half @ half.T, rng.normal(size=p)
    passes = 10  # of all columns, in an iteration
    return {
        "ELEMENT": 1e9 * passes * _seconds(lambda: matrix @ moves) / p**2,
        "ELEMENT_SOLVED": 1e9 * _seconds(lambda: cho_factor(matrix)) / p**3,
    }


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


def _by_nonzeros(name):
    """Nanoseconds a nonzero of X."""
    return lambda found: 1e9 * found[f"seconds_{name}"] / found["nonzeros"]


def _beyond(found):
    """Bytes a row beside X and matrices."""
    growth = found["growth_mb"] - found["design_mb"] - found["matrix_mb"]
    return MB * growth / found["rows"]


PASSES = columns(
    "nonzeros:,d | rows:,d | threads:d | s / iteration=seconds_an_iteration:.4f | "
    "ns / nonzero=iteration:.2f | of a predictor=predictor:.2f | of a gradient=gradient:.2f | "
    "prepare s=prepare_seconds:.3f",
    iteration=_by_nonzeros("an_iteration"),
    predictor=_by_nonzeros("a_predictor"),
    gradient=_by_nonzeros("a_gradient"),
)
MEMORY = columns(
    "design | route | cuts:d | copies / row=copies:.2f | growth MB=growth_mb:.1f | "
    "bound MB=bound_mb:.1f | X copy MB=design_mb:.1f | matrix MB=matrix_mb:.1f | "
    "bytes / row beyond=beyond:.1f | fit s=seconds:.2f",
    design=lambda found: f"{found['simulator']} {found['rows']:,} x {found['columns']:,}",
    copies=lambda found: found["row_copies"] / found["rows"],
    beyond=_beyond,
)


def main_scaling(arguments=None):
    """Cost of an iteration against nonzeros, memory against rows and time-varying coefficients.

    Passes: the first outer iterations of a fit by a diagonal (the backend says that it has no
    better base), with the papers' penalty, under which nearly all columns are active at every size;
    and the operations that read X in every iteration, by themselves.

    Memory: growth of the peak of resident memory during a fit, with X and y in place and the
    kernels loaded, against the bound: the package's own copy of X, 64 bytes a row, 2 kB a
    coefficient, and the budget of the matrix where one is formed.
    """
    options = read(
        "scaling",
        main_scaling.__doc__,
        arguments,
        "10,000 rows at most",
        parts=("passes", "memory"),
        threads=[1, 2],
        largest=Option(max(NONZEROS), "nonzeros at most"),
    )
    sizes = (1e5, 2e5, 5e5) if options.quick else [m for m in NONZEROS if m <= options.largest]
    designs = [d for d in MEMORY_DESIGNS if d[1] * d[2] * DENSITY <= options.largest]
    if options.quick:
        designs = [(name, 10_000, 200, share) for name, *_, share in MEMORY_DESIGNS[::3]]
    content = {"passes": [], "memory": []}
    if "passes" in options.parts:
        pairs = [(m / (PASS_COLUMNS * DENSITY), k) for m in sizes for k in options.threads]
        jobs = [("time_passes", {"rows": round(n), "n_threads": k}) for n, k in pairs]
        content["passes"] = in_turn(__name__, jobs, lambda passes: save(options, passes=passes))
        print(lines(PASSES, content["passes"]) + "\n", flush=True)
    if "memory" in options.parts:
        for design in designs:
            print("memory: {} {:,} x {:,}".format(*design), file=sys.stderr, flush=True)
            content["memory"] += _memory_of(*design)
            save(options, **content)
        print(lines(MEMORY, content["memory"]))


def time_passes(rows, n_threads):
    """Seconds of an outer iteration by a diagonal, and of its passes over all columns."""
    from sksurvgpu import CoxLassoCCD
    from sksurvgpu.backends.cpu.session import Session
    from sksurvgpu.backends.cpu.threads import Threads, one_blas_thread
    from sksurvgpu.datasets import simulate_cox
    from sksurvgpu.estimators._preparing import prepare

    forbid_matrices()
    data = simulate_cox(rows, PASS_COLUMNS, density=DENSITY, random_state=SEED)
    how = {"max_iter": PASS_ITERATIONS, "n_jobs": n_threads, "backend": "cpu"}
    model = CoxLassoCCD(alpha=PAPERS_PENALTY / rows, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # five iterations do not converge
        model.fit(data.X[:6_000], data.y[:6_000])
    prepared, prepared_after = timed(lambda: prepare(model, data.X, data.y))
    [[solution]], fit = timed(lambda: prepared.solve([model.alpha]))
    columns = np.arange(PASS_COLUMNS)
    with one_blas_thread(), Threads(n_threads) as threads:
        session = Session(prepared.problem, None, None, threads)
        predictor = least(lambda: session.start(solution.coef), ROUNDS)
        gradient = least(lambda: session.gradient(columns), ROUNDS)
    found = {"rows": rows, "columns": PASS_COLUMNS, "nonzeros": int(data.X.nnz)}
    found |= {"threads": n_threads, "iterations": solution.n_iter}
    found |= {"prepare_seconds": prepared_after["seconds"], "seconds_a_gradient": gradient}
    found["seconds_an_iteration"] = fit["seconds"] / solution.n_iter
    return {**found, "seconds_a_predictor": predictor}


def forbid_matrices():
    """Have fits keep to a diagonal."""
    from sksurvgpu.backends.cpu.session import Session

    own = Session.room
    Session.room = lambda session: own(session)._replace(bases=("diagonal",))


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
    from sksurvgpu.estimators.models.base import model_of
    from sksurvgpu.patterns.risk_sets.plan import plan_rows
    from sksurvgpu.solver.costs import BYTES

    if route == "diagonal":
        forbid_matrices()
    elements = _watch_matrices(Session)
    X, time_, event = _read_data(directory)
    y = surv(event, time_)
    cuts = np.quantile(time_, np.arange(1, n_cuts + 1) / (n_cuts + 1)).tolist()
    how = {"time_varying": {0: cuts} if n_cuts else None, "n_jobs": 1, "backend": "cpu"}
    model = CoxLassoCCD(alpha=penalty / len(y), **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[:6_000], y[:6_000])
        elements.clear()
        forget_peak()
        before, peak_before = memory_mb("VmRSS"), memory_mb()
        _, spent = timed(lambda: model.fit(X, y))
    growth = memory_mb() - before
    tiles = tiles_of(build_design(X), np.arange(len(y)))
    copies = plan_rows(model_of(model).read_outcome(y, len(y)), np.array(cuts)).n_rows
    bound = tiles.nbytes + ROW_BYTES * len(y) + COEF_BYTES * len(model.coef_)
    found = {"rows": len(y), "columns": X.shape[1], "nonzeros": int(X.nnz), "route": route}
    found |= {"cuts": n_cuts, "row_copies": int(copies), "growth_mb": growth}
    found |= {"peak_before_mb": peak_before - before, "design_mb": tiles.nbytes / MB}
    found |= {"bound_mb": (bound + BYTES * max(elements, default=0)) / MB}
    found |= {"matrix_mb": 8 * max(elements, default=0) / MB, "seconds": spent["seconds"]}
    return {**found, "iterations": model.n_iter_}


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
