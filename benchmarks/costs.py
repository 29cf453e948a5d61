"""What ``solver/costs.py`` has in its table: nanoseconds of one core, measured on this machine.

Only ratios matter; a table that is wrong by a third changes few decisions.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

from .report import default_output, machine, number, table, write

ROUNDS = 5


def main(arguments=None):
    """Measure every entry, print both tables, write JSON."""
    options = _read(arguments)
    from sksurvgpu.solver import costs

    n, p = (4_000, 200) if options.quick else (100_000, 1_000)
    found = {**_of_sparse(n, p), **_of_dense(n // 50, p // 2), **_of_matrices(p)}
    rows = [[name, number(value), number(getattr(costs, name))] for name, value in found.items()]
    print(table(["entry", "measured", "table"], rows))
    write(options.output, {"machine": machine(), "results": found})


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
    run()
    best = np.inf
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
    return best


def _read(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small problems")
    parser.add_argument("--output", type=Path, default=default_output("costs"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    main()
