"""monomvn's Bayesian lasso on the linear problems, through R."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np

from .bayes_problems import LASSO_PRIOR, linear
from .mixing import mixing
from .processes import ROOT, TookTooLongError, environment, run

LARGEST = 2_000  # columns; with more, an iteration takes minutes
SKIPPED = 3  # exit code of a driver that cannot run here


def measure(rscript, p, n, seconds, timeout):
    """Milliseconds of a sweep and mixing, or the reason why there are none."""
    if p > LARGEST:
        return {"reason": f"left out with more than {LARGEST:,} columns"}
    executable = shutil.which(rscript)
    if executable is None:
        return {"reason": f"no interpreter {rscript}"}
    problem = linear(p, n)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "shape.json").write_text(json.dumps({"n": n, "p": p}))
        problem.X.T.tofile(Path(folder, "X.bin"))
        problem.y.tofile(Path(folder, "y.bin"))
        output = Path(folder, "answer.json")
        prior = [LASSO_PRIOR[name] for name in ("r", "delta", "a", "b")]
        driver = ROOT / "benchmarks" / "peers" / "monomvn_lasso.R"
        command = [executable, driver, folder, output, seconds, *prior]
        try:
            status, printed = run(command, timeout, environment(1))
        except TookTooLongError:
            return {"reason": f"more than {timeout:g} s"}
        if status == SKIPPED:
            return {"reason": printed.strip().splitlines()[-1]}
        if status:
            raise RuntimeError(f"monomvn ended with {status}:\n{printed}")
        answer = json.loads(output.read_text())
    draws = np.array(answer["draws"], float)
    return {
        "ms": 1e3 * answer["seconds"] / len(draws),
        "note": f"{answer['version']}, {answer['blas']}",
        "load": os.getloadavg()[0],
        **mixing(draws[None], answer["seconds"]),
    }
