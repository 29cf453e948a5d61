"""This package beside other solvers, on the same problems, checked by one judge.

Every solver runs in a process of its own, one at a time, with its tolerance in steps until its
answer is as accurate as asked for. Objective and optimality of the answer are recomputed here by
`judge`, which shares no code with the package.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from .cases import CASES, MODELS, TOLERANCE, TOLERANCE_COX, WIDE
from .judge import Certificate
from .problems import write_problem
from .processes import TookTooLongError, environment, run
from .report import Option, columns, lines, read, save, table

PEERS = Path(__file__).resolve().parent / "peers"
SKIPPED = 3  # a driver's exit code: it cannot run here or cannot solve this problem
LAST_WORDS, NOTE_WIDTH = 100, 90  # characters of a failure's output, and of a note in the table

# Packages of the environments that ``python -m benchmarks peers FOLDER`` makes, one a solver: what
# they need of other packages differs.
ENVIRONMENTS = {
    "skglm": "skglm",
    "celer": "celer scikit-learn statsmodels polyagamma",
    "adelie": "adelie",
    "abess": "abess",
    "skein": "skein-glm",
    "glmstar": "glmstar",
    "coxstream": "--no-binary coxstream coxstream scipy",  # its wheel wants an old glibc
    "survivalgpu": "survivalgpu",
    "statgpu": "statgpu",
    "torchsurv": "torchsurv pandas",
    "lifelines": "lifelines",
    "fastsurvival": "psutil scipy pandas git+https://github.com/jiachangliu/FastSurvival",
}


def _steps(first, last):
    """Powers of ten, descending."""
    return tuple(10.0**k for k in range(first, last - 1, -1))


@dataclass(frozen=True)
class Solver:
    """A peer of `peers` with its arguments: a class of ``solvers.py``, or a script of R.

    `tolerances` are tried in turn, loosest first, until the answer meets the KKT residual asked
    for.
    """

    name: str
    driver: str
    tolerances: tuple
    models: tuple = ("cox",)
    interpreter: str = "python"  # the project's, "R", or one of `ENVIRONMENTS`
    n_threads: int = 1

    def command(self, interpreters, problem, output, tolerance):
        """Command line, or None where the interpreter does not exist."""
        executable = shutil.which(interpreters(self.interpreter))
        name, *arguments = self.driver.split()
        script = (PEERS / name,) if name.endswith(".R") else (PEERS / "solvers.py",)
        peer = () if name.endswith(".R") else (name,)
        if executable is None:
            return None
        return [executable, *script, problem, output, *peer, *arguments, tolerance]


GLM = ("logistic", "poisson", "linear")
LASSO = ("cox", *GLM)
OTHERS = ("fine-gray", *GLM, "matched", "case-series")
CHANGES = _steps(-7, -13)  # squared ones, of a pass
SHARES = (1.0, 0.3, 0.1, 0.01)  # of the KKT residual asked for


def all_solvers(n_threads):
    """Every solver; `majorized` has `n_threads` threads and is the one compared with."""
    every, sets = ("cox", *OTHERS), ("matched",)
    likelihoods, own = _steps(-3, -12), "sksurvgpu majorized"
    return [
        Solver("majorized", f"{own} {n_threads}", SHARES, every, n_threads=n_threads),
        Solver("majorized-1", f"{own} 1", SHARES, every),
        Solver("exact", "sksurvgpu exact 1", SHARES, every),
        Solver("scikit-survival", "sksurv", CHANGES),
        Solver("skglm", "skglm", _steps(-3, -8), LASSO, "skglm"),
        Solver("adelie", "adelie", CHANGES, interpreter="adelie"),
        Solver("glmnet", "glmnet_cox.R", CHANGES, interpreter="R"),
        Solver("glmstar", "glmstar", CHANGES, interpreter="glmstar"),
        Solver("skein-glm", "skein", _steps(-5, -10), LASSO, "skein"),
        Solver("FastSurvival", "fastsurvival", (10, 30, 100, 300, 1_000), ("cox",), "fastsurvival"),
        Solver("abess", "abess", (1e-8,), interpreter="abess"),
        Solver("coxstream", "newton coxstream", _steps(-2, -9), ("cox",), "coxstream"),
        Solver("survivalGPU", "newton survivalgpu", _steps(-2, -9), ("cox",), "survivalgpu"),
        Solver("statgpu", "statgpu", _steps(-4, -12), interpreter="statgpu"),
        Solver("torchsurv", "torchsurv", _steps(-4, -10), interpreter="torchsurv"),
        Solver("torchsurv-2", "torchsurv", _steps(-4, -10), ("cox",), "torchsurv", 2),
        Solver("lifelines", "lifelines", _steps(-5, -12), interpreter="lifelines"),
        Solver("PHReg", "phreg", _steps(-5, -12), interpreter="celer"),
        Solver("biglasso", "biglasso_cox.R", CHANGES, interpreter="R"),
        Solver("coxph", "survival_coxph.R", likelihoods, interpreter="R"),
        Solver("Cyclops", "cyclops.R auto", _steps(-6, -10), ("cox",), "R"),
        Solver("Cyclops", "cyclops.R auto", likelihoods, OTHERS, "R"),
        Solver("Cyclops clr_exact", "cyclops.R clr_exact", likelihoods, sets, "R"),
        Solver("Cyclops clr_efron", "cyclops.R clr_efron", likelihoods, sets, "R"),
        Solver("Cyclops cpr", "cyclops.R cpr", likelihoods, ("case-series",), "R"),
        Solver("fastcmprsk", "fastcmprsk.R", _steps(-2, -10), ("fine-gray",), "R"),
        Solver("liblinear", "logistic liblinear", _steps(-2, -10), ("logistic",), "celer"),
        Solver("saga", "logistic saga", _steps(-2, -10), ("logistic",), "celer"),
        Solver("scikit-learn", "lasso", _steps(-3, -9), ("linear",), "celer"),
        Solver("celer", "celer", _steps(-2, -10), ("logistic", "linear"), "celer"),
        Solver("glmnet", "glmnet_glm.R", _steps(-5, -14), GLM, "R"),
        Solver("statsmodels", "statsmodels", _steps(-4, -9), sets, "celer"),
        Solver("survival", "survival_clogit.R", _steps(-2, -9), sets, "R"),
    ]


def main_peers(arguments=None):
    """Make the environments of peers: FOLDER/NAME/bin/python with the packages of NAME."""
    found = argparse.ArgumentParser("python -m benchmarks peers", description=main_peers.__doc__)
    found.add_argument("folder", type=Path)
    found.add_argument("names", nargs="*", help=f"by default all of {', '.join(ENVIRONMENTS)}")
    options, n_failed = found.parse_args(arguments), 0
    for name in options.names or ENVIRONMENTS:
        python = options.folder / name / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", options.folder / name], check=True)
        command = [python, "-m", "pip", "install", "--quiet", *ENVIRONMENTS[name].split()]
        status = subprocess.run(command, check=False).returncode
        print(f"{name}: {'failed' if status else 'installed'}", flush=True)
        n_failed += bool(status)
    return int(n_failed > 0)


def interpreters_of(folder, rscript):
    """Finder of a solver's interpreter: of its environment, or the one that runs this."""

    def find(name):
        if name == "R":
            return rscript
        python = None if folder is None else folder.absolute() / name / "bin" / "python"
        return str(python) if python is not None and python.exists() else sys.executable

    return find


def solve(solver, problem, options, judge, tolerance):
    """Judged answer of a solver, with the median of its times; or the reason why there is none.

    `tolerance` is the KKT residual that the answer is to meet.
    """
    accepted, tried, seconds, begin = None, [], [], time.monotonic()
    for setting in solver.tolerances:
        answer, reason = _solve_once(solver, problem, options, setting)
        if answer is not None:
            answer = judge(answer)
            reason = answer.get("reason")
        if reason is not None:
            tried.append({"tolerance": setting, "reason": reason})
            break
        tried.append({name: answer[name] for name in ("seconds", "kkt")} | {"tolerance": setting})
        accepted, seconds = answer, [answer["seconds"]]
        if answer["kkt"] <= tolerance or time.monotonic() - begin > options.timeout:
            break
    if accepted is None:
        return {"solver": solver.name, "reason": reason}
    for _ in range(options.repeats - 1 if reason is None else 0):
        answer, reason = _solve_once(solver, problem, options, setting)
        seconds += [answer["seconds"]] if reason is None else []
    found = {"solver": solver.name, "seconds": statistics.median(seconds), "all_seconds": seconds}
    return {**accepted, **found, "met": accepted["kkt"] <= tolerance, "tried": tried}


def _solve_once(solver, problem, options, tolerance):
    """Answer and no reason, or a reason."""
    output = Path(problem) / "answer.json"
    output.unlink(missing_ok=True)
    command = solver.command(options.interpreters, problem, output, tolerance)
    if command is None:
        return None, f"no interpreter for {solver.interpreter}"
    try:
        status, printed = run(command, options.timeout, environment(solver.n_threads))
    except TookTooLongError:
        return None, f"more than {options.timeout:g} s with start and conversion"
    if status == 0 and output.exists():
        return json.loads(output.read_text()), None
    said = printed.strip().splitlines() or [""]
    if status == SKIPPED:
        return None, said[-1].strip()[:LAST_WORDS]
    if status < 0:
        kind = signal.Signals(-status).name
        return None, f"ended by {kind}" + (" (out of memory?)" if kind == "SIGKILL" else "")
    # R ends with "Execution halted", Python with its error.
    errors = [line for line in said if line.startswith("Error")] or said[-1:]
    return None, f"failed with exit code {status}: {errors[0].strip()[:LAST_WORDS]}"


def main_run(arguments=None):
    """Run the chosen cases and write the results after each."""
    _run("run", CASES, arguments, __doc__)


def main_wide(arguments=None):
    """Paths where columns are many, dense, and rows few, beside other solvers.

    A path has 100 penalties from the largest of use to 0.05 of it. The KKT residual is the worst
    of its fits. Gene expressions are those of the package SurvSet.
    """
    _run("wide", WIDE, arguments, main_wide.__doc__)


def _run(name, cases, arguments, doc):
    options = _read(name, cases, arguments, doc)
    content = {k: getattr(options, k) for k in ("timeout", "threads", "repeats", "quick", "note")}
    content["cases"] = []
    solvers = [s for s in all_solvers(options.threads) if s.name in options.solvers]
    for chosen in options.cases:
        case = cases[chosen].shrunk() if options.quick else cases[chosen]
        asked = [solver for solver in solvers if case.model in solver.models]
        content["cases"].append(run_case(case, asked, options))
        print(f"\n{describe(content['cases'][-1])}\n", flush=True)
        save(options, **content)


def run_case(case, solvers, options):
    """Results of all solvers on one case."""
    data = case.draw()
    judge = Certificate(data)
    penalty, path = case.penalty(judge.penalty_max), case.path(judge.penalty_max)
    tolerance = options.tolerance or case.tolerance
    title = f"{case.title} (shrunk)" if options.quick else case.title
    result = {"case": case.name, "model": case.model, "title": title}
    result |= {"n": data.shape[0], "p": data.shape[1], "strata": data.n_groups}
    result |= {"nnz": data.n_nonzeros, "events": data.n_events, "penalty": penalty}
    result |= {"penalty_max": judge.penalty_max, "tolerance": tolerance, "path": case.steps}

    def judged(answer):
        return _judged(answer, judge, path if len(path) else penalty)

    with tempfile.TemporaryDirectory() as directory:
        write_problem(directory, data, penalty, judge.penalty_max, tolerance, path)
        answers = []
        for solver in solvers:
            print(f"{case.name}: {solver.name}", file=sys.stderr, flush=True)
            if solver.name in case.excluded:
                answers.append({"solver": solver.name, "reason": case.excluded[solver.name]})
            else:
                answers.append(solve(solver, directory, options, judged, tolerance))
    return {**result, "answers": _compared(answers)}


def _judged(answer, judge, penalty):
    """Replace the coefficients of an answer by what they are worth."""
    coef, p = answer.pop("coef"), judge.data.shape[1]
    if isinstance(coef, dict):
        parts = coef["data"], coef["indices"], coef["indptr"]
        coef = csr_array(parts, shape=(len(coef["indptr"]) - 1, p)).toarray()
    coef = np.array(coef, dtype=float)
    if coef.shape != (*np.shape(penalty), p) or not np.isfinite(coef).all():
        return {"reason": "coefficients missing or not finite"}
    if np.ndim(penalty):
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
    parts += [] if result["events"] is None else [f"{result['events']:,} events"]
    parts += [f"{result['strata']:,} {groups}"] if result["strata"] > 1 else []
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


COLUMNS = columns(
    "solver | seconds:.3f | CPU s=cpu_seconds:.3f | ratio:.2f | obj - best=above_best:.1e | "
    "KKT=kkt:.1e | nonzero=nonzeros:d | peak MB=peak_rss_mb:.0f | iter=n_iter:d | note",
    note=_note,
)


def _read(name, cases, arguments, doc):
    groups = {f"all-{model}": [n for n, c in cases.items() if c.model == model] for model in MODELS}
    groups = {group: names for group, names in groups.items() if names}
    solvers = tuple(dict.fromkeys(solver.name for solver in all_solvers(2)))
    known = f"by default {TOLERANCE_COX:g} (Cox), {TOLERANCE:g} (others and paths)"
    options = read(
        name,
        doc,
        arguments,
        list=Option(False, "print cases and solvers, and stop"),
        cases=(*cases, *groups),
        solvers=solvers,
        peers=Option(Path, "folder that `python -m benchmarks peers` made"),
        rscript="Rscript",
        timeout=Option(600.0, "seconds a process may take"),
        threads=Option(2, "threads of `majorized`"),
        tolerance=Option(float, f"KKT residual asked for; {known}"),
        repeats=Option(1, "processes a solver; medians"),
        note=Option(str, "of the machine, kept with the results"),
    )
    if options.list:
        rows = [[case.name, case.size(), case.title] for case in cases.values()]
        print(table(["case", "size", "note"], rows))
        print(f"\ngroups of cases: {' '.join(groups)}\n\nsolvers: {', '.join(solvers)}")
        sys.exit()
    chosen = [one for name in options.cases for one in groups.get(name, [name])]
    options.cases = list(dict.fromkeys(chosen))
    options.interpreters = interpreters_of(options.peers, options.rscript)
    return options
