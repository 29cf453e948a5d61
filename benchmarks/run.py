"""This package beside other solvers, on the same problems, checked by one judge.

Every solver runs in a process of its own, one at a time. Objective and optimality of its answer
are recomputed here by `certificate`, which shares no code with the package.
"""

from __future__ import annotations

import math
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from .cases import CASES, MODELS, TOLERANCE, TOLERANCE_COX, WIDE
from .judge import Certificate
from .problems import write_problem
from .report import lines, machine, parser, read, table, write
from .solvers import all_solvers, interpreters_of, solve

NOTE_WIDTH = 90


def main(arguments=None):
    """Run the chosen cases and write the results after each."""
    _run("run", CASES, arguments)


def main_wide(arguments=None):
    """Paths where columns are many, dense, and rows few, beside other solvers.

    A path has 100 penalties from the largest of use to 0.05 of it. The KKT residual is the worst
    of its fits. Gene expressions are those of the package SurvSet.
    """
    _run("wide", WIDE, arguments, main_wide.__doc__)


def _run(name, cases, arguments, doc=__doc__):
    options = _read(name, cases, arguments, doc)
    content = {
        "machine": machine(),
        "timeout": options.timeout,
        "threads": options.threads,
        "repeats": options.repeats,
        "quick": options.quick,
        "note": options.note,
        "cases": [],
    }
    solvers = [s for s in all_solvers(options.threads) if s.name in options.solvers]
    for chosen in options.cases:
        case = cases[chosen].shrunk() if options.quick else cases[chosen]
        asked = [solver for solver in solvers if case.model in solver.models]
        content["cases"].append(run_case(case, asked, options))
        print(f"\n{describe(content['cases'][-1])}\n", flush=True)
        write(options.output, content)


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
        "path": case.steps,
    }

    path = case.path(judge.penalty_max)

    def judged(answer):
        return _judged(answer, judge, path if len(path) else penalty)

    with tempfile.TemporaryDirectory() as directory:
        write_problem(directory, data, penalty, judge.penalty_max, tolerance, path)
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
    coef, p = answer.pop("coef"), judge.data.shape[1]
    is_path = np.ndim(penalty) > 0
    if isinstance(coef, dict):
        parts = coef["data"], coef["indices"], coef["indptr"]
        coef = csr_array(parts, shape=(len(coef["indptr"]) - 1, p)).toarray()
    coef = np.array(coef, dtype=float)
    expected = (len(penalty), p) if is_path else (p,)
    if coef.shape != expected or not np.isfinite(coef).all():
        return {"reason": "coefficients missing or not finite"}
    if is_path:
        return {**answer, **judge.judge_path(coef, penalty)}
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
    return f"{head}\n\n{lines(COLUMNS, result['answers'])}"


def _note(answer):
    if "reason" in answer:
        return answer["reason"]
    missed = "" if answer["met"] else "NOT AS ACCURATE AS ASKED; "
    note = " ".join(f"{missed}{answer['version']}; {answer['note']}".split())
    return note if len(note) <= NOTE_WIDTH else note[: NOTE_WIDTH - 3] + "..."


COLUMNS = (
    ("solver", "solver", None),
    ("seconds", "seconds", ".3f"),
    ("ratio", "ratio", ".2f"),
    ("obj - best", "above_best", ".1e"),
    ("KKT", "kkt", ".1e"),
    ("nonzero", "nonzeros", "d"),
    ("peak MB", "peak_rss_mb", ".0f"),
    ("iter", "n_iter", "d"),
    ("note", _note, None),
)


def _expanded(chosen, cases):
    """Names of the cases of a group, or the case itself."""
    in_group = [name for name, case in cases.items() if f"all-{case.model}" == chosen]
    return in_group or [chosen]


def _read(name, cases, arguments, doc):
    found = parser(name, doc)
    choices = [*cases, *(f"all-{model}" for model in MODELS)]
    found.add_argument("--cases", nargs="+", choices=choices, default=list(cases), metavar="CASE")
    names = list(dict.fromkeys(solver.name for solver in all_solvers(2)))
    found.add_argument("--solvers", nargs="+", choices=names, default=names, metavar="SOLVER")
    found.add_argument("--list", action="store_true", help="print cases and solvers, and stop")
    found.add_argument("--peers", type=Path, help="folder that `python -m benchmarks peers` made")
    found.add_argument("--rscript", default="Rscript", metavar="PATH")
    found.add_argument("--timeout", type=float, default=600.0, help="seconds a process may take")
    found.add_argument("--threads", type=int, default=2, help="threads of `majorized`")
    known = f"by default {TOLERANCE_COX:g} (Cox), {TOLERANCE:g} (others and paths)"
    found.add_argument("--tolerance", type=float, help=f"KKT residual asked for; {known}")
    found.add_argument("--repeats", type=int, default=1, help="processes a solver; medians")
    found.add_argument("--note", help="of the machine, kept with the results")
    options = read(found, arguments, name)
    if options.list:
        rows = [[case.name, case.size(), case.title] for case in cases.values()]
        groups = " ".join(choices[len(cases) :])
        found.exit(
            message=f"{table(['case', 'size', 'note'], rows)}\n\ngroups of cases: {groups}"
            f"\n\nsolvers: {', '.join(names)}\n"
        )
    options.cases = [one for chosen in options.cases for one in _expanded(chosen, cases)]
    options.interpreters = interpreters_of(options.peers, options.rscript)
    return options
