"""Two commits of this repository beside each other: ``python -m benchmarks compare BASE [HEAD]``.

Both are checked out into temporary folders. Each of a dozen short cases runs in fresh processes, in
turns (base, head, head, base, ...), so that other work on the machine meets both. What is compared
is the least CPU time of all processes, with warm kernels: the ratio is head over base, and beside
it stand the least and the largest ratio of a pair. A case is marked where the ratio is beyond
``--limit``; with "?" where half of the pairs say otherwise.

Each tree has a cache of kernels of its own, filled by a first process that is not counted.
``--history FILE`` appends the ratios. Exit status 1: a case became slower.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from .processes import ROOT, environment, run
from .report import lines, machine, write

CALLS, ENOUGH = 5, 1.0  # at most so many calls of a process, and so many seconds


def _ms(seconds):
    return None if seconds is None else 1e3 * seconds


COLUMNS = (
    ("case", "case", None),
    ("base ms", lambda found: _ms(found["base"]), ".2f"),
    ("head ms", lambda found: _ms(found["head"]), ".2f"),
    ("ratio", "ratio", ".3f"),
    ("least", "least", ".3f"),
    ("largest", "largest", ".3f"),
    ("note", "note", None),
)


# -- the cases: written for any version of the package, and with nothing of this folder -------


def _cox(**parameters):
    def make(package, datasets):
        data = datasets.simulate_cox(20_000, 300, random_state=0)
        model = package.CoxLassoCCD(alpha=1e-4, n_jobs=1, **parameters)
        return lambda: model.fit(data.X, data.y)

    return make


def _dense(package, datasets):
    data = datasets.simulate_dense(200, 3_000, random_state=0)
    return lambda: package.fit_path(package.CoxLassoCCD(n_jobs=1), data.X, data.y, n_alphas=30)


def _path(package, datasets):
    data = datasets.simulate_ehr(10_000, 300, random_state=0)
    model = package.CoxLassoCCD(n_jobs=1)
    return lambda: package.fit_path(model, data.X, data.y, n_alphas=20, alpha_min_ratio=0.02)


def _strata(package, datasets):
    data = datasets.simulate_cox(20_000, 300, n_strata=2_000, random_state=0)
    model = package.CoxLassoCCD(alpha=1e-4, n_jobs=1)
    return lambda: model.fit(data.X, data.y, strata=data.strata)


def _folds(package, datasets):
    data = datasets.simulate_cox(4_000, 100, random_state=0)
    model = package.CoxLassoCV(n_alphas=10, cv=5, n_jobs=1)
    return lambda: model.fit(data.X, data.y)


def _replicates(package, datasets):
    data = datasets.simulate_cox(4_000, 100, random_state=0)
    model, how = package.CoxLassoCCD(alpha=1e-3, n_jobs=1), {"n_replicates": 20, "random_state": 0}
    return lambda: package.bootstrap(model, data.X, data.y, **how)


def _small_replicates(package, datasets):
    """Hardly any rows: what Python costs in a fit."""
    data = datasets.simulate_cox(1_000, 50, random_state=0)
    model, how = package.CoxLassoCCD(alpha=1e-2, n_jobs=1), {"n_replicates": 100, "random_state": 0}
    return lambda: package.bootstrap(model, data.X, data.y, **how)


def _fine_gray(package, datasets):
    data = datasets.simulate_fine_gray(20_000, 200, random_state=0)
    model = package.FineGrayCCD(alpha=1e-3, n_jobs=1)
    return lambda: model.fit(data.X, data.y)


def _logistic(package, datasets):
    data = datasets.simulate_logistic(20_000, 300, density=0.05, random_state=0)
    model = package.LogisticCCD(alpha=1e-4, n_jobs=1)
    return lambda: model.fit(data.X, data.y)


def _matched(package, datasets):
    data = datasets.simulate_matched(4_000, 200, random_state=0)
    model = package.ConditionalLogisticCCD(alpha=1e-4, n_jobs=1)
    return lambda: model.fit(data.X, data.y)


def _case_series(package, datasets):
    data = datasets.simulate_case_series(2_000, 200, random_state=0)
    model = package.CaseSeriesCCD(alpha=1e-4, n_jobs=1)
    return lambda: model.fit(data.X, data.y)


CASES = {
    "Cox": _cox(),
    "Cox, Efron": _cox(ties="efron"),
    "Cox, exact algorithm": _cox(algorithm="exact"),
    "Cox, 2,000 strata": _strata,
    "health records, path": _path,
    "dense, path": _dense,
    "cross-validation": _folds,
    "bootstrap": _replicates,
    "bootstrap, small fits": _small_replicates,
    "Fine-Gray": _fine_gray,
    "logistic": _logistic,
    "matched sets": _matched,
    "case series": _case_series,
}


def time_case(name):
    """Least CPU seconds of the calls of this process; the first one loads or compiles."""
    import warnings

    import sksurvgpu
    from sksurvgpu import datasets

    warnings.simplefilter("ignore")
    call, seconds, begin = CASES[name](sksurvgpu, datasets), [], time.perf_counter()
    call()
    while len(seconds) < CALLS and (not seconds or time.perf_counter() - begin < ENOUGH):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


# -- the comparison ---------------------------------------------------------------------------


def main(arguments=None):
    """Compare, print a table, and append to a history if asked."""
    options = _read(arguments)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        sides = {"base": options.base, "head": options.head}
        with checked_out(folder, sides) as trees:
            for name in options.cases:
                print(name, file=sys.stderr, flush=True)
                found.append(compare(name, trees, folder, options))
    print(lines(COLUMNS, found))
    if options.history is not None:
        _append(options.history, sides, found)
    return int(any(result["note"].startswith("SLOWER") for result in found))


def compare(name, trees, folder, options, measure=None):
    """Ratios of one case over pairs of processes."""
    measure = measure or _measure
    times = {side: [] for side in trees}
    try:
        for side, tree in trees.items():
            measure(name, tree, folder, side)  # fills the cache of kernels
        for pair in range(options.pairs):
            for side in ("base", "head") if pair % 2 == 0 else ("head", "base"):
                times[side].append(measure(name, trees[side], folder, side))
    except RuntimeError as error:
        last = str(error).strip().splitlines()[-1][:80]
        empty = dict.fromkeys(("base", "head", "ratio", "least", "largest"))
        return {"case": name, **empty, "note": f"not compared: {last}"}
    return {"case": name, **judge(times["base"], times["head"], options.limit)}


def judge(base, head, limit):
    """Ratio of the least times, the range over pairs, and a mark."""
    ratios = [b / a for a, b in zip(base, head, strict=True)]
    ratio, middle, note = min(head) / min(base), statistics.median(ratios), ""
    if ratio > 1.0 + limit:
        note = "SLOWER" if middle > 1.0 else "slower? pairs disagree"
    elif ratio < 1.0 / (1.0 + limit):
        note = "faster" if middle < 1.0 else "faster? pairs disagree"
    spread = {"least": min(ratios), "largest": max(ratios)}
    return {"base": min(base), "head": min(head), "ratio": ratio, **spread, "note": note}


def _measure(name, tree, folder, side):
    """In a process that imports the package of a tree, and the cases of this file."""
    code = (
        "import json, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import sksurvgpu\n"
        "assert sksurvgpu.__file__.startswith(sys.argv[1]), sksurvgpu.__file__\n"
        "sys.path.remove(sys.argv[1])\n"  # its benchmarks are of another version
        "from benchmarks.compare import time_case\n"
        "print(json.dumps(time_case(sys.argv[2])))"
    )
    env = environment(1, NUMBA_CACHE_DIR=str(Path(folder, f"kernels-{side}")))
    status, printed = run([sys.executable, "-c", code, tree, name], None, env)
    if status:
        raise RuntimeError(printed)
    return json.loads(printed.splitlines()[-1])


@contextmanager
def checked_out(folder, sides):
    """Folders with the package of each commit; "." is this working tree."""
    trees = {}
    try:
        for side, commit in sides.items():
            trees[side] = str(ROOT)
            if commit != ".":
                trees[side] = str(Path(folder, side))
                _git("worktree", "add", "--quiet", "--detach", trees[side], commit)
        yield trees
    finally:
        for tree in trees.values():
            if tree != str(ROOT):
                _git("worktree", "remove", "--force", tree)


def _git(*arguments):
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def _append(path, sides, found):
    """One entry of the history: the commits, the machine, the ratios."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    names = {s: "-" if c == "." else _git("rev-parse", "--short", c) for s, c in sides.items()}
    write(path, [*known, {"machine": machine(), **names, "cases": found}])


def _read(arguments):
    found = argparse.ArgumentParser(
        prog="python -m benchmarks compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("base", help="a commit")
    found.add_argument("head", nargs="?", default=".", help="by default the working tree")
    found.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    found.add_argument("--pairs", type=int, default=5, help="of processes, for every case")
    found.add_argument("--limit", type=float, default=0.1, help="relative change that is marked")
    found.add_argument("--history", type=Path, help="JSON file to which the ratios are appended")
    return found.parse_args(arguments)
