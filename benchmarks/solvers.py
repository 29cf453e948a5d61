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


@dataclass(frozen=True)
class Solver:
    """A driver of `peers` with its arguments; peers have one thread."""

    name: str
    driver: str
    interpreter: str = "python"  # key of the options' interpreters
    arguments: tuple = ()
    n_threads: int = 1

    def command(self, interpreters, problem, output):
        """Command line, or None where the interpreter does not exist."""
        executable = shutil.which(interpreters[self.interpreter])
        if executable is None:
            return None
        return [executable, PEERS / self.driver, problem, output, *self.arguments]


def all_solvers(n_threads):
    """Every solver by name; `majorized` has `n_threads` threads and is the one compared with."""
    ours = "sksurvgpu_cox.py"
    solvers = [
        Solver("majorized", ours, arguments=("majorized", n_threads), n_threads=n_threads),
        Solver("majorized-1", ours, arguments=("majorized", 1)),
        Solver("exact", ours, arguments=("exact", 1)),
        Solver("scikit-survival", "sksurv_coxnet.py"),
        Solver("skglm", "skglm_cox.py", "skglm"),
        Solver("adelie", "adelie_cox.py", "adelie"),
        Solver("glmnet", "glmnet_cox.R", "rscript"),
        Solver("Cyclops", "cyclops_cox.R", "rscript"),
    ]
    return {solver.name: solver for solver in solvers}


def solve(solver, problem, interpreters, timeout, repeats):
    """Answer of a solver, with the median of its times; or the reason why there is none."""
    output = Path(problem) / "answer.json"
    answer, seconds = None, []
    for _ in range(repeats):
        output.unlink(missing_ok=True)
        answer, reason = _solve_once(solver, problem, output, interpreters, timeout)
        if answer is None:
            return {"solver": solver.name, "reason": reason}
        seconds.append(answer["seconds"])
    return {
        **answer,
        "solver": solver.name,
        "seconds": statistics.median(seconds),
        "all_seconds": seconds,
    }


def _solve_once(solver, problem, output, interpreters, timeout):
    command = solver.command(interpreters, problem, output)
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
