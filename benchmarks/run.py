"""This package beside other solvers, on the same problems, checked by one judge.

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

from .cases import CASES, MODELS, TOLERANCE, TOLERANCE_COX
from .certificate import Certificate
from .problems import write_problem
from .report import default_output, machine, number, table, write
from .solvers import all_solvers, solve

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
        "cases": [],
    }
    solvers = [s for s in all_solvers(options.threads) if s.name in options.solvers]
    for name in options.cases:
        case = CASES[name].shrunk() if options.quick else CASES[name]
        asked = [solver for solver in solvers if case.model in solver.models]
        content["cases"].append(run_case(case, asked, options))
        print(f"\n{describe(content['cases'][-1])}\n", flush=True)
        write(options.output, content)
    print(f"written: {os.path.relpath(options.output)}")


def run_case(case, solvers, options):
    """Results of all solvers on one case."""
    data = case.draw()
    judge = Certificate(data)
    penalty = case.penalty(judge.penalty_max)
    tolerance = options.tolerance or case.tolerance
    result = {
        "case": case.name,
        "model": case.model,
        "title": f"{case.title} (shrunk)" if options.quick else case.title,
        "n": data.shape[0],
        "p": data.shape[1],
        "strata": data.n_groups,
        "nnz": data.n_nonzeros,
        "events": data.n_events,
        "penalty": penalty,
        "penalty_max": judge.penalty_max,
        "tolerance": tolerance,
    }

    def judged(answer):
        return _judged(answer, judge, penalty)

    with tempfile.TemporaryDirectory() as directory:
        write_problem(directory, data, penalty, judge.penalty_max, tolerance)
        answers = []
        limits = (options.interpreters, options.timeout, options.repeats)
        for solver in solvers:
            print(f"{case.name}: {solver.name}", file=sys.stderr, flush=True)
            if solver.name in case.excluded:
                answer = {"solver": solver.name, "reason": case.excluded[solver.name]}
            else:
                answer = solve(solver, directory, *limits, judged, tolerance)
            answers.append(answer)
    return {**result, "answers": _compared(answers)}


def _judged(answer, judge, penalty):
    """Replace the coefficients of an answer by what they are worth."""
    coef = np.array(answer.pop("coef"), dtype=float)
    if coef.shape != (judge.data.shape[1],) or not np.isfinite(coef).all():
        return {"reason": "coefficients missing or not finite"}
    return {**answer, **judge.judge(coef, penalty, answer["intercept"])}


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
    groups = {"case-series": "subjects", "matched": "sets"}.get(result["model"], "strata")
    parts = [f"{result['n']:,} x {result['p']:,}", f"{result['nnz']:,} nonzeros"]
    if result["events"] is not None:
        parts.append(f"{result['events']:,} events")
    if result["strata"] > 1:
        parts.append(f"{result['strata']:,} {groups}")
    head = (
        f"{result['case']}: {result['title']}\n{', '.join(parts)}; penalty "
        f"{result['penalty']:.4g}, largest {result['penalty_max']:.4g}; KKT asked for "
        f"{result['tolerance']:g}"
    )
    return f"{head}\n\n{table(HEADERS, [_row(answer) for answer in result['answers']])}"


def _row(answer):
    if "reason" in answer:
        return [answer["solver"], *["-"] * (len(HEADERS) - 2), answer["reason"]]
    # Cox solvers have one setting each, which need not meet what was asked for.
    missed = "" if answer["met"] or len(answer["tried"]) == 1 else "NOT AS ACCURATE AS ASKED; "
    note = " ".join(f"{missed}{answer['version']}; {answer['note']}".split())
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


def _expanded(chosen):
    """Names of the cases of a group, or the case itself."""
    in_group = [name for name, case in CASES.items() if f"all-{case.model}" == chosen]
    return in_group or [chosen]


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    choices = [*CASES, *(f"all-{model}" for model in MODELS)]
    parser.add_argument("--cases", nargs="+", choices=choices, default=list(CASES), metavar="CASE")
    names = list(dict.fromkeys(solver.name for solver in all_solvers(2)))
    parser.add_argument("--solvers", nargs="+", choices=names, default=names, metavar="SOLVER")
    parser.add_argument("--list", action="store_true", help="print cases and solvers, and stop")
    parser.add_argument("--quick", action="store_true", help="small problems of the same kinds")
    parser.add_argument("--skglm-python", default=sys.executable, metavar="PATH")
    parser.add_argument("--adelie-python", default=sys.executable, metavar="PATH")
    parser.add_argument("--celer-python", default=sys.executable, metavar="PATH")
    parser.add_argument("--rscript", default="Rscript", metavar="PATH")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds a process may take")
    parser.add_argument("--threads", type=int, default=2, help="threads of `majorized`")
    parser.add_argument(
        "--tolerance",
        type=float,
        help=f"KKT residual asked for; by default {TOLERANCE_COX:g} (Cox), {TOLERANCE:g} (others)",
    )
    parser.add_argument("--repeats", type=int, default=1, help="processes a solver; medians")
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("run", options.quick)
    if options.list:
        rows = [[case.name, case.size(), case.title] for case in CASES.values()]
        groups = " ".join(choices[len(CASES) :])
        parser.exit(
            message=f"{table(['case', 'size', 'note'], rows)}\n\ngroups of cases: {groups}"
            f"\n\nsolvers: {', '.join(names)}\n"
        )
    options.cases = [name for chosen in options.cases for name in _expanded(chosen)]
    options.interpreters = {
        "python": sys.executable,
        "skglm": options.skglm_python,
        "adelie": options.adelie_python,
        "celer": options.celer_python,
        "rscript": options.rscript,
    }
    return options


if __name__ == "__main__":
    main()
