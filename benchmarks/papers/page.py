"""The page of published experiments, written from the results at published size.

``python -m benchmarks.papers --page`` writes it; nothing on it is typed by hand.
"""

from __future__ import annotations

import json
from pathlib import Path

from ..report import RESULTS
from .figures import PUBLISHED

PAGE = Path(__file__).resolve().parents[2] / "docs/guide/published.rst"
FULL = RESULTS / "papers-full"
# Item -> (what a row is published as, its time in seconds).
KEYS = {
    "logistic": (lambda row: row["size"], 1.0),
    "logistic_cv": (lambda row: f"{row['size']}, {row['folds']}", 1.0),
    "conditional": (lambda row: row["label"], 1.0),
    "lasso": (lambda row: f"p = {row['p']:,}, a sweep", 1e-3),
    "multinomial": (lambda row: f"n = {row['n']:,}, a sweep", 1e-3),
}
NOTHING = "\u2013"
HEAD = """The published experiments, run again
====================================

Experiments of the papers whose models this package fits, at the published sizes. "Ours" is the
default algorithm, "exact" the published cyclic descent or sampler in our code, on the machine
below. A published time divided by ours compares two machines, years apart; exact divided by ours
compares like with like. Below 1, the other one is faster.
"""
TAIL = """
No time on a GPU on this page is ours. Runs marked "busy" shared their processors with other work,
which makes their times longer than those of an idle machine. Data are simulated by the published
designs; a published row without a time of ours was not run at its size.

Not run at the published size: {missing}.
"""


def write_page():
    """Write the page anew."""
    PAGE.write_text(page(), encoding="utf-8")


def page():
    """The page as text."""
    records = {path.stem: json.loads(path.read_text()) for path in sorted(FULL.glob("*.json"))}
    head = ["item", "published (hardware)", "ours, s", "exact, s", "exact / ours"]
    head += ["published CPU / ours", "published GPU / ours"]
    rows = [row for name in KEYS if name in records for row in _rows(name, records[name])]
    runs = [_run_of(name, record) for name, record in records.items()]
    missing = ", ".join(f"``{name}``" for name in sorted(set(PUBLISHED) - set(records)))
    parts = [HEAD, _table(head, rows), "What was run, and where:", ""]
    parts.append(_table(["item", "machine", "revision", "load before", "s", "CPU s"], runs))
    return "\n".join(parts) + TAIL.format(missing=missing or "nothing")


def _rows(name, record):
    """A row for each size, and for each published one that is not among ours."""
    key, unit = KEYS[name]
    groups = {}
    for row in record["tables"][0]["rows"]:
        groups.setdefault(key(row), []).append(row)
    figures = {}
    for figure in PUBLISHED[name]:
        figures.setdefault(figure.what if figure.seconds else None, []).append(figure)
    general = figures.pop(None, [])
    for what in {**groups, **figures}:
        known = figures.get(what, general)
        yield [f"``{name}``: {what}", _said(known), *_numbers(groups.get(what, ()), known, unit)]


def _said(figures):
    return "; ".join(f"{f.value} ({f.hardware})" for f in figures) or NOTHING


def _numbers(rows, figures, unit):
    """Seconds of ours and exact, and ratios to ours."""
    seconds = [_first(rows, kind, unit) for kind in ("ours", "exact")]
    ours, exact = seconds
    is_gpu = [f.seconds for f in figures if f.seconds and "CPU" not in f.hardware]
    is_cpu = [f.seconds for f in figures if f.hardware == "their CPU"]
    others = [exact, *(found[0] if found else None for found in (is_cpu, is_gpu))]
    ratios = [one / ours if one and ours else None for one in others]
    return [_short(one) for one in (*seconds, *ratios)]


def _first(rows, kind, unit):
    """Of the first solver of a kind; our three steps are the published sampler of the lasso."""
    for row in rows:
        name = row["solver"].replace("ours, three-step", "exact")
        if name.startswith(kind):
            return unit * row.get("seconds", row.get("ms"))
    return None


def _short(number):
    if number is None:
        return NOTHING
    return f"{number:,.0f}" if number >= 100 else f"{number:.2g}"


def _run_of(name, record):
    where = record["machine"]
    load = f"{record['load_before']:.1f}" + ("" if record["idle"] else ", busy")
    cpu = f"{where['cpu']}, {record['threads']} threads, {where['date'][:10]}"
    spent = [f"{record[key]:,.0f}" for key in ("seconds", "cpu_seconds")]
    return [f"``{name}``", cpu, f"``{where['revision']}``", load, *spent]


def _table(head, rows):
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [head, *rows]:
        lines += [f"   {'  -' if k else '* -'} {cell}".rstrip() for k, cell in enumerate(row)]
    return "\n".join([*lines, ""])
