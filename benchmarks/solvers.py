"""The solvers of `run`: which driver, which environment, and what became of a run."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from .processes import TookTooLongError, environment, run

PEERS = Path(__file__).resolve().parent / "peers"
SKIPPED = 3  # a driver's exit code: it cannot run here or cannot solve this problem
LAST_WORDS = 100  # characters of a failure's output that the table shows
OTHER_MODELS = ("fine-gray", "logistic", "poisson", "linear", "matched", "case-series")
PASSES = (10, 30, 100, 300, 1_000)  # of FastSurvival over all columns
OWN_STEPS = (1.0, 0.3, 0.1, 0.01)  # times the KKT residual asked for
GLM = ("logistic", "poisson", "linear")


# Packages of the environments that ``python -m benchmarks peers FOLDER`` makes, one a solver: what
# they need of other packages differs.
ENVIRONMENTS = {
    "skglm": ("skglm",),
    "celer": ("celer", "scikit-learn", "statsmodels", "polyagamma"),
    "adelie": ("adelie",),
    "abess": ("abess",),
    "skein": ("skein-glm",),
    "glmstar": ("glmstar",),
    "coxstream": ("--no-binary", "coxstream", "coxstream", "scipy"),  # its wheel wants an old glibc
    "survivalgpu": ("survivalgpu",),
    "fastsurvival": (
        "psutil",
        "scipy",
        "pandas",
        "git+https://github.com/jiachangliu/FastSurvival",
    ),
}


def main(arguments=None):
    """Make the environments of peers: FOLDER/NAME/bin/python with the packages of NAME."""
    found = argparse.ArgumentParser(prog="python -m benchmarks peers", description=main.__doc__)
    found.add_argument("folder", type=Path)
    found.add_argument("names", nargs="*", help=f"by default all of {', '.join(ENVIRONMENTS)}")
    options = found.parse_args(arguments)
    failed = []
    for name in options.names or ENVIRONMENTS:
        python = options.folder / name / "bin" / "python"
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", options.folder / name], check=True)
        command = [python, "-m", "pip", "install", "--quiet", *ENVIRONMENTS[name]]
        status = subprocess.run(command, check=False).returncode
        print(f"{name}: {'failed' if status else 'installed'}", flush=True)
        failed += [name] * bool(status)
    return int(bool(failed))


def interpreters_of(folder, rscript):
    """What finds the interpreter of a solver: of its environment, or the one that runs this."""

    def find(name):
        if name == "R":
            return rscript
        python = None if folder is None else folder.absolute() / name / "bin" / "python"
        return str(python) if python is not None and python.exists() else sys.executable

    return find


@dataclass(frozen=True)
class Solver:
    """A driver of `peers` with its arguments; peers have one thread.

    `tolerances` are tried in turn, loosest first, until the answer meets the KKT residual asked
    for; without any, the driver takes its own or that of the problem.
    """

    name: str
    driver: str
    interpreter: str = "python"  # the project's, "R", or one of `ENVIRONMENTS`
    arguments: tuple = ()
    models: tuple = ("cox",)
    tolerances: tuple = ()
    n_threads: int = 1

    def command(self, interpreters, problem, output, tolerance):
        """Command line, or None where the interpreter does not exist."""
        executable = shutil.which(interpreters(self.interpreter))
        if executable is None:
            return None
        asked = () if tolerance is None else (tolerance,)
        return [executable, PEERS / self.driver, problem, output, *self.arguments, *asked]


def all_solvers(n_threads):
    """Every solver; `majorized` has `n_threads` threads and is the one compared with."""
    ours, every = "sksurvgpu_ccd.py", ("cox", *OTHER_MODELS)
    majorized = ("majorized", n_threads)
    steps = _steps(-7, -13)  # squared changes in a pass
    lasso = ("cox", *GLM)
    return [
        Solver("majorized", ours, "python", majorized, every, OWN_STEPS, n_threads),
        Solver("majorized-1", ours, "python", ("majorized", 1), every, OWN_STEPS),
        Solver("exact", ours, "python", ("exact", 1), every, OWN_STEPS),
        Solver("scikit-survival", "sksurv_coxnet.py", tolerances=steps),
        Solver("skglm", "skglm_solvers.py", "skglm", (), lasso, _steps(-3, -8)),
        Solver("adelie", "adelie_cox.py", "adelie", tolerances=steps),
        Solver("glmnet", "glmnet_cox.R", "R", tolerances=steps),
        Solver("glmstar", "glmstar_cox.py", "glmstar", tolerances=steps),
        Solver("skein-glm", "skein_models.py", "skein", (), lasso, _steps(-5, -10)),
        Solver(
            "FastSurvival",
            "fastsurvival_cox.py",
            "fastsurvival",
            tolerances=(10, 30, 100, 300, 1_000),
        ),
        Solver("abess", "abess_cox.py", "abess", tolerances=(1e-8,)),
        _newton("coxstream", "coxstream"),
        Solver(
            "survivalGPU",
            "newton_cox.py",
            "survivalgpu",
            ("survivalgpu",),
            ("cox",),
            _steps(-2, -9),
        ),
        Solver("coxph", "survival_coxph.R", "R", tolerances=_steps(-3, -12)),
        _cyclops("Cyclops", "auto", ("cox",), _steps(-6, -10)),
        _cyclops("Cyclops", "auto", OTHER_MODELS),
        _cyclops("Cyclops clr_exact", "clr_exact", ("matched",)),
        _cyclops("Cyclops clr_efron", "clr_efron", ("matched",)),
        _cyclops("Cyclops cpr", "cpr", ("case-series",)),
        Solver("fastcmprsk", "fastcmprsk.R", "R", (), ("fine-gray",), _steps(-2, -10)),
        _sklearn("liblinear"),
        _sklearn("saga"),
        Solver("scikit-learn", "sklearn_lasso.py", "celer", (), ("linear",), _steps(-3, -9)),
        Solver("celer", "celer_glm.py", "celer", (), ("logistic", "linear"), _steps(-2, -10)),
        Solver("glmnet", "glmnet_glm.R", "R", (), GLM, _steps(-5, -14)),
        Solver("statsmodels", "statsmodels_clogit.py", "celer", (), ("matched",), _steps(-4, -9)),
        Solver("survival", "survival_clogit.R", "R", (), ("matched",), _steps(-2, -9)),
    ]


def _newton(name, package):
    return Solver(name, "newton_cox.py", package, (package,), ("cox",), _steps(-2, -9))


def _cyclops(name, kind, models, tolerances=None):
    tolerances = tolerances or _steps(-3, -12)
    return Solver(name, "cyclops.R", "R", (kind,), models, tolerances)


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
    accepted, tried, seconds, begin = None, [], [], time.monotonic()
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
        if answer["kkt"] <= tolerance or time.monotonic() - begin > timeout:
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
