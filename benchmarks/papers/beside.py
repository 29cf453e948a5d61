"""Ours beside the exact algorithm and R's packages."""

from __future__ import annotations

import json
import shutil
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from ..problems import write_problem
from ..processes import TookTooLongError, environment, run
from .rig import TOLERANCE, judged, measure_ours

PEERS = Path(__file__).resolve().parents[1] / "peers"
ACCURATE = 1e-6  # KKT residual over the largest useful penalty, at which R may stop
R_TOLERANCES = (1e-6, 1e-8)  # of Cyclops' own criterion, its default first
CYCLOPS, CLOGIT = "Cyclops", "clogit"
DRIVERS = {CYCLOPS: ("cyclops.R", ("auto",)), CLOGIT: ("survival_clogit.R", ())}


def measure_r(run_, problem, peer=CYCLOPS, tolerances=R_TOLERANCES, more=()):
    """By an R package, at the first of its tolerances that is accurate, or the last; or None."""
    found = None
    for tolerance in tolerances:
        found = _measure_r_once(run_, problem, peer, tolerance, more) or found
        if found is None or found["kkt"] <= ACCURATE:
            break
    return found


def _measure_r_once(run_, problem, peer, tolerance, more):
    """None leaves the reason as a note of the run."""
    script, arguments = DRIVERS[peer]
    executable = shutil.which(run_.options.rscript)
    if executable is None:
        run_.note(f"{peer}: no interpreter {run_.options.rscript}; goes on without it")
        return None
    with tempfile.TemporaryDirectory() as folder:
        write_problem(folder, problem.data, problem.penalty, problem.judge.penalty_max, TOLERANCE)
        answer = Path(folder) / "answer.json"
        command = [executable, PEERS / script, folder, answer, *arguments, tolerance, *more]
        try:
            status, printed = run(command, run_.options.timeout, environment(1))
        except TookTooLongError as error:
            run_.note(f"{peer}, {problem.size}: {error}")
            return None
        if status or not answer.exists():
            last = (printed.strip().splitlines() or ["no output"])[-1]
            run_.note(f"{peer}: {last[:90]}; goes on without it")
            return None
        found = json.loads(answer.read_text())
    coef, intercept = np.array(found["coef"], float), float(found["intercept"])
    kept = {"solver": f"{peer} {found['version']}, R", "seconds": found["seconds"]}
    kept |= {"iterations": found.get("n_iter"), "tolerance": tolerance}
    return kept | judged(problem, coef, intercept) | {"coef": coef}


def compare(run_, problem, *, peer=None, exact=True, alone=True, **label):
    """Rows of a problem: ours on all threads and on one, the exact algorithm, R; ratio to ours.

    A row is kept before the next is measured. Without `exact` or `alone`, which take long at
    published sizes, there is no exact algorithm, and nothing on one thread.
    """
    is_one = run_.threads == 1 or run_.backend == "cuda"
    counts = (1,) if is_one else (None, 1)[: 1 + alone]
    calls = [partial(measure_ours, run_, problem, n_threads=k) for k in counts]
    calls += [partial(measure_ours, run_, problem, "exact")] if exact else []
    calls += [partial(measure_r, run_, problem, peer)] if peer else []
    found = []
    for call in calls:
        one = call()
        if one is None:
            continue
        found.append(one)
        kept = {name: value for name, value in one.items() if name != "coef"}
        kept["ratio"] = one["seconds"] / found[0]["seconds"]
        run_.add(**label, size=problem.size, nonzero_entries=problem.data.n_nonzeros, **kept)
    return found


SOLVED = (
    "solver | seconds:.3g | CPU s=cpu_seconds:.3g | of ours=ratio:.1f | KKT=kkt:.0e | "
    "selected=nonzeros:,d | iterations:,d"
)
