"""Cox lasso: this package beside other solvers, on the same problems, checked by one judge.

Every solver runs in a process of its own, one at a time. Objective and optimality of its answer
are recomputed here by `certificate`, which shares no code with the package.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from .cases import CASES
from .certificate import Certificate
from .problems import Data, write_problem
from .report import default_output, machine, number, table, write
from .solvers import all_solvers, solve

TOLERANCE = 1e-6  # KKT residual asked for, relative to the largest useful penalty
HEADERS = [
    "solver",
    "seconds",
    "ratio",
    "obj - best",
    "KKT",
    "nonzero",
    "peak MB",
    "iter",
    "note",
]
NOTE_WIDTH = 90


def main(arguments=None):
    """Run the chosen cases and write the results after each."""
    options = _read(arguments)
    content = {
        "machine": machine(),
        "timeout": options.timeout,
        "threads": options.threads,
        "repeats": options.repeats,
        "quick": options.quick,
        "tolerance": TOLERANCE,
        "cases": [],
    }
    solvers = all_solvers(options.threads)
    for name in options.cases:
        case = CASES[name].shrunk() if options.quick else CASES[name]
        content["cases"].append(run_case(case, [solvers[s] for s in options.solvers], options))
        print(f"\n{describe(content['cases'][-1])}\n", flush=True)
        write(options.output, content)
    print(f"written: {os.path.relpath(options.output)}")


def run_case(case, solvers, options):
    """Results of all solvers on one case."""
    data = Data.of(case.draw())
    judge = Certificate(data)
    penalty = case.penalty(judge.penalty_max)
    result = {
        "case": case.name,
        "title": f"{case.title} (shrunk)" if options.quick else case.title,
        "n": data.shape[0],
        "p": data.shape[1],
        "strata": 1 if data.stratum is None else len(np.unique(data.stratum)),
        "nnz": data.n_nonzeros,
        "events": int(data.event.sum()),
        "penalty": penalty,
        "penalty_max": judge.penalty_max,
    }
    with tempfile.TemporaryDirectory() as directory:
        write_problem(directory, data, penalty, judge.penalty_max, TOLERANCE)
        answers = []
        for solver in solvers:
            print(f"{case.name}: {solver.name}", file=sys.stderr, flush=True)
            if solver.name in case.excluded:
                answer = {"solver": solver.name, "reason": case.excluded[solver.name]}
            else:
                answer = solve(
                    solver, directory, options.interpreters, options.timeout, options.repeats
                )
            answers.append(_judged(answer, judge, penalty))
    return {**result, "answers": _compared(answers)}


def _judged(answer, judge, penalty):
    """Replace the coefficients of an answer by what they are worth."""
    if "reason" in answer:
        return answer
    coef = np.array(answer.pop("coef"), dtype=float)
    if coef.shape != (judge.data.shape[1],) or not np.isfinite(coef).all():
        return {"solver": answer["solver"], "reason": "coefficients missing or not finite"}
    return {**answer, **judge.judge(coef, penalty)}


def _compared(answers):
    """Add the ratio of times to `majorized` and the distance to the best objective."""
    solved = [answer for answer in answers if "reason" not in answer]
    unit = next((a["seconds"] for a in solved if a["solver"] == "majorized"), None)
    best = min((a["objective"] for a in solved), default=math.nan)
    for answer in solved:
        answer["ratio"] = None if unit is None else answer["seconds"] / unit
        answer["above_best"] = answer["objective"] - best
    return answers


def describe(result):
    """One case as a table."""
    head = (
        f"{result['case']}: {result['title']}\n{result['n']:,} x {result['p']:,}, "
        f"{result['nnz']:,} nonzeros, {result['events']:,} events, {result['strata']:,} "
        f"{'stratum' if result['strata'] == 1 else 'strata'}; penalty "
        f"{result['penalty']:.4g}, largest {result['penalty_max']:.4g}"
    )
    return f"{head}\n\n{table(HEADERS, [_row(answer) for answer in result['answers']])}"


def _row(answer):
    if "reason" in answer:
        return [answer["solver"], *["-"] * (len(HEADERS) - 2), answer["reason"]]
    note = " ".join(f"{answer['version']}; {answer['note']}".split())
    iterations = answer.get("n_iter")
    return [
        answer["solver"],
        number(answer["seconds"], ".3f"),
        number(answer["ratio"], ".2f"),
        number(answer["above_best"], ".1e"),
        number(answer["kkt"], ".1e"),
        number(answer["nonzeros"], "d"),
        number(answer["peak_rss_mb"], ".0f"),
        number(iterations, "d"),
        note if len(note) <= NOTE_WIDTH else note[: NOTE_WIDTH - 3] + "...",
    ]


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    names = list(all_solvers(2))
    parser.add_argument("--solvers", nargs="+", choices=names, default=names, metavar="SOLVER")
    parser.add_argument("--list", action="store_true", help="print cases and solvers, and stop")
    parser.add_argument("--quick", action="store_true", help="small problems of the same kinds")
    parser.add_argument("--skglm-python", default=sys.executable, metavar="PATH")
    parser.add_argument("--adelie-python", default=sys.executable, metavar="PATH")
    parser.add_argument("--rscript", default="Rscript", metavar="PATH")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds a process may take")
    parser.add_argument("--threads", type=int, default=2, help="threads of `majorized`")
    parser.add_argument("--repeats", type=int, default=1, help="processes a solver; medians")
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("run", options.quick)
    if options.list:
        rows = [[case.name, case.size(), case.title] for case in CASES.values()]
        parser.exit(
            message=f"{table(['case', 'size', 'note'], rows)}\n\nsolvers: {' '.join(names)}\n"
        )
    options.interpreters = {
        "python": sys.executable,
        "skglm": options.skglm_python,
        "adelie": options.adelie_python,
        "rscript": options.rscript,
    }
    return options


if __name__ == "__main__":
    main()
