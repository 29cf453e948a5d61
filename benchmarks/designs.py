"""Every kind of design, or every cohort of SurvSet, fitted by one version of the package or two.

Each has a process of its own on one thread. A first fit loads or compiles kernels; seconds are the
least CPU time of three more, of one where it takes longer than three seconds. ``--tree`` is another
checkout, whose package is measured by the benchmarks and on the data of this one; ``--base`` one
that is measured in turns with it, so that other work on the machine meets both, and kept in a file
beside. ``--against A.json B.json`` compares two files: ratios are B over A, and objectives are
marked where they differ by more than 1e-9 of themselves.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .processes import ROOT, TookTooLongError, environment, run, timed
from .report import lines, machine, parser, read, write

CALLS, LONG = 3, 3.0  # fits that are timed, and seconds after which there is no other one
SHORT = 0.2  # seconds that are timed at least
SAME = 1e-9  # relative difference of objectives that nobody is told of
QUICK_COHORTS = 4

COLUMNS = (
    ("design", "design", None),
    ("rows", "rows", ",d"),
    ("columns", "columns", ",d"),
    ("iter", "iterations", ",d"),
    ("CPU s", "cpu", ".3f"),
    ("objective", lambda found: found["objectives"][-1] if found["objectives"] else None, ".10g"),
    ("KKT", "kkt", ".1e"),
    ("nonzero", "nonzeros", ",d"),
    ("note", "note", None),
)
BESIDE = (
    ("design", "design", None),
    ("A CPU s", "cpu_a", ".3f"),
    ("B CPU s", "cpu_b", ".3f"),
    ("ratio", "cpu", ".2f"),
    ("A iter", "iterations_a", ",d"),
    ("B iter", "iterations_b", ",d"),
    ("ratio", "iterations", ".2f"),
    ("objective", "objective", ".1e"),
    ("others", "others", ".1e"),
    ("A KKT", "kkt_a", ".1e"),
    ("B KKT", "kkt_b", ".1e"),
    ("note", "note", None),
)


# -- one design, in a process that has imported the package of some tree --------------------------


def measure_design(name, quick):
    """One row of the table."""
    from .kinds import DESIGNS

    return [{"design": name, **_measure(DESIGNS[name].task(quick))}]


def measure_cohort(name, quick):
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
    """What a fit, a path or another result says of itself.

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


# -- the processes --------------------------------------------------------------------------------


def main_designs(arguments=None):
    """All designs, or some."""
    from .kinds import DESIGNS

    found = _parser("designs", __doc__)
    found.add_argument(
        "--designs", nargs="+", choices=DESIGNS, metavar="DESIGN", help="and no other"
    )
    found.add_argument("--large", action="store_true", help="those that take longest, too")
    options = _read(found, arguments, "designs")
    usual = [name for name, design in DESIGNS.items() if options.large or not design.is_large]
    return _run("measure_design", options.designs or usual, options)


def main_survset(arguments=None):
    """The cohorts of SurvSet in their own units, at 0.1 and 0.01 of the largest penalty of use, and
    without one where rows are more than ten a column. Needs the package: pip install SurvSet.
    """
    found = _parser("survset", f"{main_survset.__doc__}\n{__doc__}")
    found.add_argument("--designs", nargs="+", metavar="COHORT", help="and no other")
    options = _read(found, arguments, "survset")
    if options.against:
        return _run("measure_cohort", [], options)
    if find_spec("SurvSet") is None:
        sys.exit("the cohorts are in the package SurvSet, which is missing: pip install SurvSet")
    from SurvSet.data import SurvLoader

    names = options.designs or SurvLoader().df_ds["ds"].tolist()
    return _run("measure_cohort", names[:QUICK_COHORTS] if options.quick else names, options)


def _parser(name, doc):
    found = parser(name, doc)
    found.add_argument("--json", dest="output", type=Path, help="the same as --output")
    found.add_argument("--tree", type=Path, default=ROOT, help="checkout that is measured")
    found.add_argument("--base", type=Path, help="another one, in turns: mine-base.json, mine.json")
    found.add_argument("--kernels", type=Path, help="folder of compiled code of other checkouts")
    found.add_argument("--timeout", type=float, default=900.0, help="seconds of a process")
    files = ("A.json", "B.json")
    found.add_argument("--against", nargs=2, type=Path, metavar=files, help="only compare these")
    return found


def _read(found, arguments, name):
    options = read(found, arguments, name)
    options.trees = {options.output: options.tree.resolve()}
    if options.base is not None:
        beside = options.output.with_stem(f"{options.output.stem}-base")
        options.trees = {beside: options.base.resolve(), **options.trees}
    return options


def _run(function, names, options):
    """Measure in turn and save after each; or compare two files."""
    if options.against:
        print(compare(*(json.loads(path.read_text())["results"] for path in options.against)))
        return 0
    about = {"machine": machine(), "quick": options.quick}
    results = {file: [] for file in options.trees}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            print(name, file=sys.stderr, flush=True)
            for file, tree in options.trees.items():
                results[file] += _in_tree(tree, function, name, options, folder)
                measured = {"measured": _revision(tree), "results": results[file]}
                write(file, {**about, **measured})
    found = results[options.output]
    print(lines(COLUMNS, found) if options.base is None else compare(*results.values()))
    total = sum(row["cpu"] or 0.0 for row in found)
    print(f"\n{len(found)} fits, {total:.1f} CPU s together, each once")
    return 0


def _in_tree(tree, function, name, options, folder):
    """Rows of a design, in a process that imports the package of a tree, and this folder."""
    code = (
        "import json, sys\n"
        "tree, function, name, quick = sys.argv[1:]\n"
        "sys.path.insert(0, tree)\n"
        "import sksurvgpu\n"
        "assert sksurvgpu.__file__.startswith(tree), sksurvgpu.__file__\n"
        "sys.path.remove(tree)\n"  # its benchmarks are of another version
        "from benchmarks import designs\n"
        "print(json.dumps(getattr(designs, function)(name, quick == '1')))"
    )
    kernels = str(Path(options.kernels or folder).resolve())
    elsewhere = {"NUMBA_CACHE_DIR": kernels, "PYTHONDONTWRITEBYTECODE": "1"}
    own = {} if tree == ROOT else elsewhere  # nothing is written to another checkout
    command = [sys.executable, "-c", code, tree, function, name, int(options.quick)]
    try:
        status, printed = run(command, options.timeout, environment(1, **own))
    except TookTooLongError:
        status, printed = 1, f"took longer than {options.timeout:g} s"
    if status:
        return [_failure(name, printed.strip().splitlines()[-1][:80])]
    return json.loads(printed.splitlines()[-1])


def _failure(name, why):
    nothing = dict.fromkeys(("rows", "columns", "cpu", "iterations", "kkt", "nonzeros"))
    return {"design": name, **nothing, "objectives": [], "others": [], "note": why}


def _revision(tree):
    command = ["git", "-C", str(tree), "describe", "--always", "--dirty", "--exclude=*"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or None


# -- two results beside each other ----------------------------------------------------------------


def compare(first, second):
    """Tables of all designs that both have, and the geometric mean of the ratios of CPU times."""
    second = {found["design"]: found for found in second}
    pairs = [(a, second[a["design"]]) for a in first if a["design"] in second]
    rows = [_beside(a, b) for a, b in pairs]
    ratios = [row["cpu"] for row in rows if row["cpu"] is not None]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan
    alone = {a["design"] for a in first} ^ set(second)
    missing = f"; in one file only: {', '.join(sorted(alone))}" if alone else ""
    text = f"geometric mean of {len(ratios)} ratios of CPU times, B over A: {mean:.3f}{missing}"
    return f"{lines(BESIDE, rows)}\n\n{text}"


def _beside(a, b):
    row = {"design": a["design"]}
    for name in ("cpu", "iterations"):
        row[name] = b[name] / a[name] if a[name] and b[name] else None
    for name in ("cpu", "iterations", "kkt"):
        row |= {f"{name}_a": a[name], f"{name}_b": b[name]}
    notes = [f"{side}: {found['note']}" for side, found in (("A", a), ("B", b)) if found["note"]]
    if any(a[name] != b[name] for name in ("rows", "columns") if a["cpu"] and b["cpu"]):
        notes.append("OTHER SIZE")
    for name in ("objectives", "others"):
        row[name] = _largest_difference(a[name], b[name])
    apart = row["objective"] = row.pop("objectives")
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
