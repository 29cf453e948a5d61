"""What forms of the quadratic model cost, by operations of the CPU."""

from __future__ import annotations

import numpy as np

from .processes import call, timed
from .report import lines, parser, read, save

ROUNDS = 5


def main(arguments=None):
    """What ``solver/costs.py`` has in its table: nanoseconds of one core, measured on this machine.

    Only ratios matter; a table that is wrong by a third changes few decisions.
    """
    options = read(parser("costs", main.__doc__), arguments, "costs")
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
    passes = 60  # of all columns, in a fit
    return {
        "ELEMENT": 1e9 * passes * _seconds(lambda: matrix @ moves) / p**2,
        "ELEMENT_SOLVED": 1e9 * _seconds(lambda: cho_factor(matrix)) / p**3,
    }


def _seconds(run):
    """The least of some rounds, after one that compiles."""
    run()
    return min(timed(run)[1]["seconds"] for _ in range(ROUNDS))
