"""The solvers of `run`: which driver, which interpreter, and what became of a run."""

from __future__ import annotations

import json
import shutil
import signal
import statistics
from dataclasses import dataclass
from pathlib import Path

from .processes import TookTooLongError, environment, run

PEERS = Path(__file__).resolve().parent / "peers"
SKIPPED = 3  # a driver's exit code: it cannot run here or cannot solve this problem
LAST_WORDS = 100  # characters of a failure's output that the table shows
OTHER_MODELS = ("fine-gray", "logistic", "poisson", "linear", "matched", "case-series")
GLM = ("logistic", "poisson", "linear")


@dataclass(frozen=True)
class Solver:
    """A driver of `peers` with its arguments; peers have one thread.

    `tolerances` are tried in turn, loosest first, until the answer meets the KKT residual asked
    for; without any, the driver takes its own or that of the problem.
    """

    name: str
    driver: str
    interpreter: str = "python"  # key of the options' interpreters
    arguments: tuple = ()
    models: tuple = ("cox",)
    tolerances: tuple = ()
    n_threads: int = 1

    def command(self, interpreters, problem, output, tolerance):
        """Command line, or None where the interpreter does not exist."""
        executable = shutil.which(interpreters[self.interpreter])
        if executable is None:
            return None
        asked = () if tolerance is None else (tolerance,)
        return [executable, PEERS / self.driver, problem, output, *self.arguments, *asked]


def all_solvers(n_threads):
    """Every solver; `majorized` has `n_threads` threads and is the one compared with."""
    ours, every = "sksurvgpu_ccd.py", ("cox", *OTHER_MODELS)
    majorized = ("majorized", n_threads)
    return [
        Solver("majorized", ours, arguments=majorized, models=every, n_threads=n_threads),
        Solver("majorized-1", ours, arguments=("majorized", 1), models=every),
        Solver("exact", ours, arguments=("exact", 1), models=every),
        Solver("scikit-survival", "sksurv_coxnet.py"),
        Solver("skglm", "skglm_cox.py", "skglm"),
        Solver("adelie", "adelie_cox.py", "adelie"),
        Solver("glmnet", "glmnet_cox.R", "rscript"),
        _cyclops("Cyclops", "auto", ("cox",), (1e-8,)),
        _cyclops("Cyclops", "auto", OTHER_MODELS),
        _cyclops("Cyclops clr_exact", "clr_exact", ("matched",)),
        _cyclops("Cyclops clr_efron", "clr_efron", ("matched",)),
        _cyclops("Cyclops cpr", "cpr", ("case-series",)),
        Solver("fastcmprsk", "fastcmprsk.R", "rscript", (), ("fine-gray",), _steps(-2, -10)),
        _sklearn("liblinear"),
        _sklearn("saga"),
        Solver("celer", "celer_glm.py", "celer", (), ("logistic", "linear"), _steps(-2, -10)),
        Solver("skglm", "skglm_glm.py", "skglm", (), GLM, _steps(-3, -7)),
        Solver("glmnet", "glmnet_glm.R", "rscript", (), GLM, _steps(-5, -14)),
        Solver("statsmodels", "statsmodels_clogit.py", "celer", (), ("matched",), _steps(-4, -9)),
        Solver("survival", "survival_clogit.R", "rscript", (), ("matched",), _steps(-2, -9)),
    ]


def _cyclops(name, kind, models, tolerances=None):
    tolerances = tolerances or _steps(-3, -12)
    return Solver(name, "cyclops.R", "rscript", (kind,), models, tolerances)


def _sklearn(solver):
    arguments, tolerances = (solver,), _steps(-2, -10)
    return Solver(solver, "sklearn_logistic.py", "celer", arguments, ("logistic",), tolerances)


def _steps(first, last):
    """Powers of ten, descending."""
    return tuple(10.0**k for k in range(first, last - 1, -1))


def solve(solver, problem, interpreters, timeout, repeats, judge, tolerance):
    """Judged answer of a solver, with the median of its times; or the reason why there is none.

    `tolerance` is the KKT residual that the answer is to meet.
    """
    accepted, tried, seconds = None, [], []
    for setting in solver.tolerances or (None,):
        answer, reason = _solve_once(solver, problem, interpreters, timeout, setting)
        if answer is not None:
            answer = judge(answer)
            reason = answer.get("reason")
        if reason is not None:
            tried.append({"tolerance": setting, "reason": reason})
            break
        tried.append({name: answer[name] for name in ("seconds", "kkt")} | {"tolerance": setting})
        accepted, seconds = answer, [answer["seconds"]]
        if answer["kkt"] <= tolerance:
            break
    if accepted is None:
        return {"solver": solver.name, "reason": reason}
    if reason is None:
        for _ in range(repeats - 1):
            answer, reason = _solve_once(solver, problem, interpreters, timeout, setting)
            if reason is None:
                seconds.append(answer["seconds"])
    return {
        **accepted,
        "solver": solver.name,
        "seconds": statistics.median(seconds),
        "all_seconds": seconds,
        "met": accepted["kkt"] <= tolerance,
        "tried": tried,
    }


def _solve_once(solver, problem, interpreters, timeout, tolerance):
    output = Path(problem) / "answer.json"
    output.unlink(missing_ok=True)
    command = solver.command(interpreters, problem, output, tolerance)
    if command is None:
        return None, f"no interpreter for {solver.interpreter}"
    try:
        status, printed = run(command, timeout, environment(solver.n_threads))
    except TookTooLongError:
        return None, f"more than {timeout:g} s with start and conversion"
    if status == 0 and output.exists():
        return json.loads(output.read_text()), None
    lines = printed.strip().splitlines() or [""]
    if status == SKIPPED:
        return None, lines[-1].strip()[:LAST_WORDS]
    if status < 0:
        kind = signal.Signals(-status).name
        return None, f"ended by {kind}" + (" (out of memory?)" if kind == "SIGKILL" else "")
    # R ends with "Execution halted", Python with its error.
    errors = [line for line in lines if line.startswith("Error")] or lines[-1:]
    return None, f"failed with exit code {status}: {errors[0].strip()[:LAST_WORDS]}"
