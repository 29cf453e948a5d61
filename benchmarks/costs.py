"""Parts of a fit: what a coordinate's visit costs, and what forms of the quadratic model cost."""

from __future__ import annotations

import time
import warnings

import numpy as np

from . import problems
from .cases import PAPERS_PENALTY, SEED, estimator, outcome_of
from .problems import Data
from .processes import call, in_turn, timed
from .report import lines, parser, read, save
from .scaling import forbid_matrices

# -- constants --------------------------------------------------------------------------------

ROUNDS = 5


def main_costs(arguments=None):
    """What ``solver/costs.py`` has in its table: nanoseconds of one core, measured on this machine.

    Only ratios matter; a table that is wrong by a third changes few decisions.
    """
    options = read(parser("costs", main_costs.__doc__), arguments, "costs")
    n, p = (4_000, 200) if options.quick else (100_000, 1_000)
    found = call(__name__, "measure_costs", {"n": n, "p": p}, n_threads=1)
    columns = (("entry", "entry", None), ("measured", "measured", ".3g"), ("table", "table", ".3g"))
    print(lines(columns, found))
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
    """Session of an unweighted Cox model, with a model of all columns."""
    from sksurvgpu.backends.cpu.session import Session
    from sksurvgpu.backends.cpu.threads import Threads
    from sksurvgpu.data.design.columns import build_design
    from sksurvgpu.data.outcomes.survival import Outcome
    from sksurvgpu.data.plans.rows import plan_rows
    from sksurvgpu.likelihoods import LIKELIHOODS
    from sksurvgpu.penalties import ElasticNet
    from sksurvgpu.solver.problem import Problem

    outcome = Outcome(np.ones(len(times), bool), times, None, None)
    problem = Problem.build(build_design(X), plan_rows(outcome), LIKELIHOODS["cox"]("breslow"))
    session = Session(problem, None, None, Threads(1), ElasticNet.formulas, room=2.0**33)
    session.start(np.full(problem.n_columns, 1e-3))
    session.refer()
    return session


def _of_sparse(n, p):
    from sksurvgpu.datasets import simulate_cox
    from sksurvgpu.penalties import ElasticNet

    simulated = simulate_cox(n, p, random_state=0)
    session, columns = _session(simulated.X, simulated.y["time"]), np.arange(p)
    counts, coef = session.count(columns), np.full(p, 1e-3)
    penalty = ElasticNet().at(1e-3, np.ones(p), np.zeros(p, bool)).of_columns(columns)
    loaded = _seconds(lambda: (session.refer(), session.load(columns)))
    passes = []

    def sweep():
        passes.append(session.sweep(columns, coef, penalty, np.ones(p), 0.0)[1])

    swept = _seconds(sweep) / passes[-1]
    return {
        "ENTRY_LOADED": 1e9 * (loaded - _seconds(session.refer)) / counts.visits,
        "ENTRY_SWEPT": 1e9 * swept / counts.visits,
        "ENTRY_MULTIPLIED": 1e9 * _seconds(lambda: session.start(coef)) / counts.entries,
        "ENTRY_OF_GRADIENT": 1e9 * _seconds(lambda: session.gradient(columns)) / counts.entries,
        "PAIR": 1e9 * _seconds(lambda: session.gram(columns, 0)) / counts.pairs,
    }


def _of_dense(n, p):
    rng = np.random.default_rng(0)
    session, columns = _session(rng.normal(size=(n, p)), rng.random(n)), np.arange(p)
    session.load(columns)
    products = session.count(columns).products
    return {"PRODUCT": 1e9 * _seconds(lambda: session.gram(columns, 0)) / products}


def _of_matrices(p):
    from scipy.linalg import cho_factor

    rng = np.random.default_rng(0)
    half = rng.normal(size=(p, 2 * p))
    matrix, moves = half @ half.T, rng.normal(size=p)
    passes = 60  # of all columns, in a fit
    return {
        "ELEMENT": 1e9 * passes * _seconds(lambda: matrix @ moves) / p**2,
        "ELEMENT_SOLVED": 1e9 * _seconds(lambda: cho_factor(matrix)) / p**3,
    }


def _seconds(run):
    """The least of some rounds, after one that compiles."""
    run()
    return min(timed(run)[1]["seconds"] for _ in range(ROUNDS))


# -- visits -----------------------------------------------------------------------------------

MODELS = {
    "cox": problems.draw_fine_gray,
    "fine-gray": problems.draw_fine_gray,
    "logistic": problems.draw_logistic,
    "poisson": problems.draw_poisson,
    "linear": problems.draw_linear,
    "matched": problems.draw_matched,
    "case-series": problems.draw_case_series,
}
DENSITY, ITERATIONS = 0.05, {"majorized": 5, "exact": 2}
WARM_UP = (2_000, 20)
VISITS = (
    ("model", "model", None),
    ("algorithm", "algorithm", None),
    ("threads", "threads", "d"),
    ("visits", "visits", ".0f"),
    ("us / visit", lambda found: 1e6 * found["seconds_a_visit"], ".2f"),
    ("ns / nonzero visited", lambda found: 1e9 * found["seconds_a_nonzero"], ".2f"),
    ("beside cox", "beside", ".2f"),
)


def main_visits(arguments=None):
    """Cost of a coordinate visit of each model, beside Cox's on the same rows and columns.

    Sweeps of "majorized" and cycles of "exact" are timed where the solver asks for them, and
    divided by the columns that they visited; evaluations, gradients and line searches are not in
    it. Fine-Gray and Cox share X, times and events of interest; every model has a process of its
    own.
    """
    found = parser("visits", main_visits.__doc__, "4,000 x 200")
    found.add_argument("--models", nargs="+", choices=MODELS, default=["cox", "fine-gray"])
    found.add_argument("--algorithms", nargs="+", choices=ITERATIONS, default=list(ITERATIONS))
    found.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    found.add_argument("--rows", type=int, default=100_000)
    found.add_argument("--columns", type=int, default=1_000)
    options = read(found, arguments, "visits")
    if options.quick:
        options.rows, options.columns = 4_000, 200
    sizes = {"rows": options.rows, "columns": options.columns}
    jobs = [
        ("time_visits", {"model": model, "algorithm": algorithm, "n_threads": n_threads, **sizes})
        for algorithm in options.algorithms
        for n_threads in (options.threads if algorithm == "majorized" else [1])
        for model in options.models
    ]
    results = in_turn(__name__, jobs, lambda results: save(options, results=results))
    for result in results:
        same = [r for r in results if all(r[k] == result[k] for k in ("algorithm", "threads"))]
        cox = next((r["seconds_a_nonzero"] for r in same if r["model"] == "cox"), None)
        result["beside"] = None if cox is None else result["seconds_a_nonzero"] / cox
    print(lines(VISITS, results, n_left=2))


def time_visits(model, algorithm, n_threads, rows, columns):
    """Seconds that the visits of one short fit took, and their number."""
    from sksurvgpu.backends.cpu.session import Session

    request = {"majorized": "sweep", "exact": "cycle"}[algorithm]
    seen = _watch(Session, request)
    forbid_matrices()
    parameters = {"algorithm": algorithm, "max_iter": ITERATIONS[algorithm], "n_jobs": n_threads}
    for size in (WARM_UP, (rows, columns)):
        data = _drawn(model, *size)
        X, (y, more) = data.table(), outcome_of(data)
        seen.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few iterations do not converge
            estimator(data, PAPERS_PENALTY, tol=1e-12, **parameters).fit(X, y, **more)
    seconds, visits = (float(sum(column)) for column in zip(*seen, strict=True))
    per_visit = seconds / visits
    return {
        "model": model,
        "algorithm": algorithm,
        "threads": n_threads,
        "n": rows,
        "p": columns,
        "nnz": data.n_nonzeros,
        "seconds": seconds,
        "visits": visits,
        "seconds_a_visit": per_visit,
        "seconds_a_nonzero": per_visit * columns / data.n_nonzeros,
    }


def _drawn(model, rows, columns):
    data = MODELS[model](rows, columns, density=DENSITY, random_state=SEED)
    if model != "cox":
        return data
    event = (data["event"] == 1).astype("int32")
    outcome = {"time": data["time"], "event": event}
    return Data(data.shape, data.indptr, data.indices, data.values, outcome)


def _watch(session, request):
    """Seconds and visits of every request of a kind; a sweep's passes are averages."""
    seen, serve = [], getattr(session, request)

    def watching(self, columns, *arguments):
        begin = time.perf_counter()
        coef, extra = serve(self, columns, *arguments)
        seconds = time.perf_counter() - begin
        seen.append((seconds, len(columns) * (extra if request == "sweep" else 1)))
        return coef, extra

    setattr(session, request, watching)
    return seen
