"""Versions of the package beside each other, on every kind of design (`kinds`).

Every measurement has a process of its own on one thread, with the package of some checkout and the
benchmarks of this one. A first fit loads or compiles kernels; seconds are the least CPU time of
three more, of one where it takes longer than three seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .processes import ROOT, TookTooLongError, call, timed
from .report import Option, columns, lines, machine, read, write

CALLS, LONG = 3, 3.0  # fits that are timed, and seconds after which there is no other one
SHORT = 0.2  # seconds that are timed at least
SAME = 1e-9  # relative difference of objectives that nobody is told of
QUICK_COHORTS = 4


def measure_design(name, quick=False):
    """One row of the table."""
    from .kinds import DESIGNS

    return [{"design": name, **_measure(DESIGNS[name].task(quick))}]


def measure_short(name):
    """One row of a design of `main_compare`."""
    from .kinds import SHORT_DESIGNS

    return [{"design": name, **_measure(SHORT_DESIGNS[name].task())}]


def measure_cohort(name, quick=False):
    """A row for each penalty."""
    from .kinds import cohort_tasks

    return [{"design": f"{name} {at}", **_measure(t)} for at, t in cohort_tasks(name).items()]


def _measure(task):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is in the note
        task.call()
        spent = []
        while sum(spent) < SHORT or (len(spent) < CALLS and sum(spent) < LONG):
            result, seconds = timed(task.call)
            spent.append(seconds["cpu_seconds"])
    rows, columns = task.shape
    return {"rows": rows, "columns": columns, "cpu": min(spent), **facts_of(result)}


def facts_of(result):
    """Iterations, objectives, optimality and coefficients that a fit, path or batch reports.

    "others" are numbers that two versions share but for their tolerance, where a result has no
    objective or more than that.
    """
    from sksurvgpu import BootstrapResult, OutcomesResult, Path, ProfileResult

    match result:
        case Path():
            unsolved = int(np.count_nonzero(~result.converged))
            facts = {"iterations": int(result.n_iter.sum()), "kkt": float(result.kkt_se.max())}
            facts |= {"objectives": result.objective.tolist(), "others": []}
            return {**facts, **_last(result.coefs[:, -1], unsolved)}
        case BootstrapResult():
            return _without_objective(result.coef, np.linalg.norm(result.coefs, axis=0))
        case ProfileResult():
            return _without_objective(result.intervals["coef"], result.intervals)
        case OutcomesResult():
            table = result.table[["coef", "lower", "upper"]]
            return _without_objective(table["coef"], table)
    scores = result.cv_results_["mean_score"].tolist() if hasattr(result, "cv_results_") else []
    facts = {"iterations": int(result.n_iter_), "kkt": float(result.kkt_se_), "others": scores}
    facts["objectives"] = [float(result.objective_)]
    return {**facts, **_last(result.coef_, int(not result.converged_))}


def _last(coef, unsolved=0):
    note = f"{unsolved} not converged" if unsolved else ""
    return {"nonzeros": int(np.count_nonzero(coef)), "note": note}


def _without_objective(coef, others):
    facts = {"iterations": None, "kkt": None, "objectives": []}
    return {**facts, "others": np.asarray(others, float).ravel().tolist(), **_last(coef)}


ABOUT_TREES = """
``--tree`` is another checkout, whose package is measured by the benchmarks and on the data of this
one; ``--base`` one that is measured in turns with it, so that other work on the machine meets both,
and kept in a file beside. ``--against A.json B.json`` compares two files: ratios are B over A, and
objectives are marked where they differ by more than 1e-9 of themselves."""


def main_designs(arguments=None):
    """Every kind of design, fitted by one version of the package or two."""
    from .kinds import DESIGNS

    large = Option(False, "those that take longest, too")
    designs = Option({"nargs": "+", "choices": DESIGNS, "metavar": "DESIGN"}, "and no other")
    options = _read("designs", main_designs.__doc__, arguments, designs=designs, large=large)
    usual = [name for name, design in DESIGNS.items() if options.large or not design.is_large]
    return _run("measure_design", options.designs or usual, options)


def main_survset(arguments=None):
    """The cohorts of SurvSet in their own units, at 0.1 and 0.01 of the largest penalty of use, and
    without one where rows are more than ten a column. Needs the package: pip install SurvSet.
    """
    cohorts = Option({"nargs": "+", "metavar": "COHORT"}, "and no other")
    options = _read("survset", main_survset.__doc__, arguments, designs=cohorts)
    if options.against:
        return _run("measure_cohort", [], options)
    if find_spec("SurvSet") is None:
        sys.exit("the cohorts are in the package SurvSet, which is missing: pip install SurvSet")
    from SurvSet.data import SurvLoader

    names = options.designs or SurvLoader().df_ds["ds"].tolist()
    return _run("measure_cohort", names[:QUICK_COHORTS] if options.quick else names, options)


def _read(name, doc, arguments, **more):
    files = {"nargs": 2, "type": Path, "metavar": ("A.json", "B.json")}
    options = read(
        name,
        f"{doc}\n{ABOUT_TREES}",
        arguments,
        json=Option(Path, "the same as --output"),
        tree=Option(ROOT, "checkout that is measured"),
        base=Option(Path, "another one, in turns: mine-base.json, mine.json"),
        kernels=Option(Path, "folder of compiled code of other checkouts"),
        timeout=Option(900.0, "seconds of a process"),
        against=Option(files, "only compare these"),
        **more,
    )
    options.output = options.json or options.output
    options.trees = {options.output: options.tree.resolve()}
    if options.base is not None:
        beside = options.output.with_stem(f"{options.output.stem}-base")
        options.trees = {beside: options.base.resolve(), **options.trees}
    return options


def _run(function, names, options):
    """Measure in turn and save after each; or compare two files."""
    if options.against:
        print(beside(*(json.loads(path.read_text())["results"] for path in options.against)))
        return 0
    results = {file: [] for file in options.trees}
    with tempfile.TemporaryDirectory() as folder:
        kernels = str(Path(options.kernels or folder).resolve())
        for name in names:
            print(name, file=sys.stderr, flush=True)
            for file, tree in options.trees.items():
                given = {"name": name, "quick": options.quick}
                results[file] += measure_in(tree, function, given, kernels, options.timeout)
                measured = {"measured": _revision(tree), "results": results[file]}
                write(file, {"machine": machine(), "quick": options.quick, **measured})
    found = results[options.output]
    print(lines(COLUMNS, found) if options.base is None else beside(*results.values()))
    total = sum(row["cpu"] or 0.0 for row in found)
    print(f"\n{len(found)} fits, {total:.1f} CPU s together, each once")
    return 0


def measure_in(tree, function, given, kernels, timeout=None):
    """Rows of a design by the package of a tree; nothing is written to another checkout."""
    away = {"NUMBA_CACHE_DIR": kernels, "PYTHONDONTWRITEBYTECODE": "1"}
    away = {} if tree == ROOT else away
    how = {"n_threads": 1, "timeout": timeout, "tree": str(tree)}
    try:
        return call(__name__, function, given, **how, **away)
    except (RuntimeError, TookTooLongError) as error:
        why = str(error).strip().splitlines()[-1][:80]
    nothing = dict.fromkeys(("rows", "columns", "cpu", "iterations", "kkt", "nonzeros"))
    return [{"design": given["name"], **nothing, "objectives": [], "others": [], "note": why}]


def _revision(tree):
    command = ["git", "-C", str(tree), "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


COLUMNS = columns(
    "design | rows:,d | columns:,d | iter=iterations:,d | CPU s=cpu:.3f | objective:.10g | "
    "KKT=kkt:.1e | nonzero=nonzeros:,d | note",
    objective=lambda found: found["objectives"][-1] if found["objectives"] else None,
)
BESIDE = columns(
    "design | A CPU s=cpu_a:.3f | B CPU s=cpu_b:.3f | ratio=cpu:.2f | A iter=iterations_a:,d | "
    "B iter=iterations_b:,d | ratio=iterations:.2f | objective:.1e | others:.1e | "
    "A KKT=kkt_a:.1e | B KKT=kkt_b:.1e | note"
)


def beside(first, second):
    """Tables of all designs that both have, and the geometric mean of the ratios of CPU times."""
    second = {found["design"]: found for found in second}
    pairs = [(a, second[a["design"]]) for a in first if a["design"] in second]
    rows = [_pair(a, b) for a, b in pairs]
    ratios = [row["cpu"] for row in rows if row["cpu"] is not None]
    mean = statistics.geometric_mean(ratios) if ratios else math.nan
    alone = {a["design"] for a in first} ^ set(second)
    missing = f"; in one file only: {', '.join(sorted(alone))}" if alone else ""
    text = f"geometric mean of {len(ratios)} ratios of CPU times, B over A: {mean:.3f}{missing}"
    return f"{lines(BESIDE, rows)}\n\n{text}"


def _pair(a, b):
    row = {"design": a["design"]}
    for name in ("cpu", "iterations"):
        row[name] = b[name] / a[name] if a[name] and b[name] else None
    for name in ("cpu", "iterations", "kkt"):
        row |= {f"{name}_a": a[name], f"{name}_b": b[name]}
    notes = [f"{side}: {found['note']}" for side, found in (("A", a), ("B", b)) if found["note"]]
    if any(a[name] != b[name] for name in ("rows", "columns") if a["cpu"] and b["cpu"]):
        notes.append("OTHER SIZE")
    row["objective"] = apart = _largest_difference(a["objectives"], b["objectives"])
    row["others"] = _largest_difference(a["others"], b["others"])
    if apart is not None and abs(apart) > SAME:
        notes.append(f"{'B' if apart < 0 else 'A'} IS LOWER")
    return {**row, "note": "; ".join(notes)}


def _largest_difference(a, b):
    """Of b less a, relative to a, the largest by its size; None where they are not alike."""
    if not a or len(a) != len(b):
        return None
    a, b = np.array(a), np.array(b)
    known = np.isfinite(a) & np.isfinite(b)
    change = (b - a)[known] / np.maximum(np.abs(a[known]), np.finfo(float).tiny)
    return float(change[np.abs(change).argmax()]) if known.any() else None


def main_compare(arguments=None):
    """Two commits of this repository beside each other.

    Both are checked out into temporary folders. Each of a dozen short cases runs in fresh
    processes, in turns (base, head, head, base, ...), so that other work on the machine meets both.
    What is compared is the least CPU time of all processes, with warm kernels: the ratio is head
    over base, and beside it stand the least and the largest ratio of a pair. A case is marked where
    the ratio is beyond ``--limit``; with "?" where half of the pairs say otherwise.

    Each tree has a cache of kernels of its own, filled by a first process that is not counted.
    ``--history FILE`` appends the ratios. Exit status 1: a case became slower.
    """
    from .kinds import SHORT_DESIGNS

    found = argparse.ArgumentParser(
        prog="python -m benchmarks compare",
        description=main_compare.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = list(SHORT_DESIGNS)
    found.add_argument("base", help="a commit")
    found.add_argument("head", nargs="?", default=".", help="by default the working tree")
    found.add_argument("--cases", nargs="+", choices=names, default=names, metavar="CASE")
    found.add_argument("--pairs", type=int, default=5, help="of processes, for every case")
    found.add_argument("--limit", type=float, default=0.1, help="relative change that is marked")
    found.add_argument("--history", type=Path, help="JSON file to which the ratios are appended")
    options, rows = found.parse_args(arguments), []
    sides = {"base": options.base, "head": options.head}
    with tempfile.TemporaryDirectory() as folder, checked_out(folder, sides) as trees:
        for name in options.cases:
            print(name, file=sys.stderr, flush=True)
            rows.append(_in_turns(name, trees, folder, options))
    print(lines(RATIOS, rows))
    if options.history is not None:
        path = options.history
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        commits = {
            s: "-" if c == "." else _git("rev-parse", "--short", c) for s, c in sides.items()
        }
        write(path, [*known, {"machine": machine(), **commits, "cases": rows}])
    return int(any(row["note"].startswith("SLOWER") for row in rows))


def _in_turns(name, trees, folder, options):
    """Ratios of one case over pairs of processes."""
    times = {side: [] for side in trees}

    def measure(side):
        kernels = str(Path(folder, f"kernels-{side}"))
        [row] = measure_in(trees[side], "measure_short", {"name": name}, kernels)
        if row["cpu"] is None:
            raise RuntimeError(row["note"])
        return row["cpu"]

    try:
        for side in trees:
            measure(side)  # fills the cache of kernels
        for pair in range(options.pairs):
            for side in ("base", "head") if pair % 2 == 0 else ("head", "base"):
                times[side].append(measure(side))
    except RuntimeError as error:
        return {"case": name, "note": f"not compared: {error}"}
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


def _ms(side):
    return lambda found: 1e3 * found[side] if side in found else None


RATIOS = columns(
    "case | base ms=base:.2f | head ms=head:.2f | ratio:.3f | least:.3f | largest:.3f | note",
    base=_ms("base"),
    head=_ms("head"),
)


@contextmanager
def checked_out(folder, sides):
    """Folders with the package of each commit; "." is this working tree."""
    trees = {}
    try:
        for side, commit in sides.items():
            trees[side] = ROOT if commit == "." else Path(folder, side)
            if commit != ".":
                _git("worktree", "add", "--quiet", "--detach", str(trees[side]), commit)
        yield trees
    finally:
        for tree in trees.values():
            if tree != ROOT:
                _git("worktree", "remove", "--force", str(tree))


def _git(*arguments):
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
