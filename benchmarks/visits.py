"""Cost of a coordinate visit of each model, beside Cox's on the same rows and columns.

Sweeps of "majorized" and cycles of "exact" are timed where the solver asks for them, and divided by
the columns that they visited; evaluations, gradients and line searches are not in it. Fine-Gray and
Cox share X, times and events of interest; every model has a process of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

from . import draws
from .cases import PAPERS_PENALTY, SEED
from .problems import Data
from .processes import call
from .report import default_output, machine, number, table, write

DRAWS = {
    "cox": draws.draw_fine_gray,
    "fine-gray": draws.draw_fine_gray,
    "logistic": draws.draw_logistic,
    "poisson": draws.draw_poisson,
    "linear": draws.draw_linear,
    "matched": draws.draw_matched,
    "case-series": draws.draw_case_series,
}
DENSITY, ITERATIONS = 0.05, {"majorized": 5, "exact": 2}
WARM_UP = (2_000, 20)
HEADERS = [
    "model",
    "algorithm",
    "threads",
    "visits",
    "us / visit",
    "ns / nonzero visited",
    "beside cox",
]


def main(arguments=None):
    """Measure, print a table, write JSON."""
    options = _read(arguments)
    content = {"machine": machine(), "results": []}
    for algorithm in options.algorithms:
        for n_threads in options.threads if algorithm == "majorized" else [1]:
            for model in options.models:
                print(f"{model}: {algorithm}, {n_threads} thread(s)", file=sys.stderr, flush=True)
                sizes = {"rows": options.rows, "columns": options.columns}
                job = {"model": model, "algorithm": algorithm, "n_threads": n_threads, **sizes}
                result = call("benchmarks.visits", "time_visits", job, n_threads=n_threads)
                content["results"].append(result)
                write(options.output, content)
    print(table(HEADERS, [_row(result, content["results"]) for result in content["results"]], 2))
    print(f"written: {os.path.relpath(options.output)}")


def time_visits(model, algorithm, n_threads, rows, columns):
    """Seconds that the visits of one short fit took, and their number."""
    from sksurvgpu.backends.cpu.session import Session

    from . import ours
    from .scaling import forbid_matrices

    request = {"majorized": "sweep", "exact": "cycle"}[algorithm]
    seen = _watch(Session, request)
    forbid_matrices()
    parameters = {"algorithm": algorithm, "max_iter": ITERATIONS[algorithm], "n_jobs": n_threads}
    for size in (WARM_UP, (rows, columns)):
        data = _drawn(model, *size)
        X, (y, more) = data.table(), ours.outcome(data)
        seen.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few iterations do not converge
            ours.estimator(data, PAPERS_PENALTY, tol=1e-12, **parameters).fit(X, y, **more)
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
    data = DRAWS[model](rows, columns, density=DENSITY, random_state=SEED)
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


def _row(result, results):
    kind = ("algorithm", "threads")
    cox = next(
        (r for r in results if r["model"] == "cox" and all(r[k] == result[k] for k in kind)), None
    )
    beside = None if cox is None else result["seconds_a_nonzero"] / cox["seconds_a_nonzero"]
    return [
        result["model"],
        result["algorithm"],
        number(result["threads"], "d"),
        number(result["visits"], ".0f"),
        number(1e6 * result["seconds_a_visit"], ".2f"),
        number(1e9 * result["seconds_a_nonzero"], ".2f"),
        number(beside, ".2f"),
    ]


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.visits", description=__doc__)
    parser.add_argument("--models", nargs="+", choices=DRAWS, default=["cox", "fine-gray"])
    parser.add_argument(
        "--algorithms", nargs="+", choices=ITERATIONS, default=["majorized", "exact"]
    )
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--quick", action="store_true", help="4,000 x 200")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("visits", options.quick)
    if options.quick:
        options.rows, options.columns = 4_000, 200
    return options


if __name__ == "__main__":
    main()
