"""The page of published experiments, written from the results at published size.

``python -m benchmarks.papers --page`` writes it; nothing on it is typed by hand. Figures that lie
beside the results are made small and kept in the documentation.
"""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image

from ..report import RESULTS, lines
from .figures import PUBLISHED

PAGE = Path(__file__).resolve().parents[2] / "docs/guide/published.rst"
FIGURES = PAGE.parents[1] / "_static/published"
COLOURS = 48  # of a figure: with edges, as many as are seen
FULL = RESULTS / "papers-full"
# Item -> (what a row is published as, or None; its time in seconds).
KEYS = {
    "sizes": (lambda row: f"{row['model']}, {row['size']}", 1.0),
    "threads": (lambda row: f"{row['size']}, 10 x {row['repeats']}, auto", 1.0),
    "real_data": (lambda row: row.get("label"), 1.0),
    "eras": (lambda row: _series(row), 1.0),
    "strata": (lambda row: f"{row['size']}, {row['strata']:,} strata", 1.0),
    "few_strata": (lambda row: row.get("label"), 1.0),
    "time_varying": (lambda row: row.get("label"), 1.0),
    "logistic": (lambda row: row["size"], 1.0),
    "logistic_cv": (lambda row: f"{row['size']}, {row['folds']}", 1.0),
    "propensity": (lambda row: row["label"], 1.0),
    "conditional": (lambda row: row["label"], 1.0),
    "lasso": (lambda row: f"p = {row['p']:,}, a sweep", 1e-3),
    "multinomial": (lambda row: f"n = {row['n']:,}, a sweep", 1e-3),
}
# Items whose tables are shown as they are.
WHOLE = ("fusion", "variance", "drugs", "real_data", "few_strata", "time_varying")
WHOLE += ("polya_gamma", "components", "convergence", "full_bayes")
NOTHING = "\u2013"
HEAD = """The published experiments, run again
====================================

Experiments of the papers whose models this package fits, at the published sizes. "Ours" is the
default algorithm, "exact" the published cyclic descent or sampler in our code, on the machine
below. Seconds are by the clock, and in brackets those of processors, which other work on the
machine stretches less: ratios are of the latter where they are known. A published time divided by
ours compares two machines, years apart; exact divided by ours compares like with like. Below 1, the
other one is faster.
"""
TAIL = """
No time on a GPU on this page is ours. Runs marked "busy" shared their processors with other work:
both kinds of seconds are longer than on an idle machine, as caches are shared, too, and ratios to
the exact algorithm are rough. Data are simulated by the published
designs; a published row without a time of ours was not run at its size.

Ended before all their rows were there: {partial}. Not run at the published size: {missing}.
"""


def write_page():
    """Write the page anew."""
    FIGURES.mkdir(exist_ok=True)
    for path in FULL.glob("*.png"):
        figure = Image.open(path).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        figure.save(FIGURES / path.name, optimize=True)
    PAGE.write_text(page(), encoding="utf-8")


def page():
    """The page as text."""
    records = {path.stem: json.loads(path.read_text()) for path in sorted(FULL.glob("*.json"))}
    head = ["item", "published (hardware)", "ours, s (CPU s)", "exact, s (CPU s)", "exact / ours"]
    head += ["published CPU / ours", "published GPU / ours"]
    rows = [row for name in KEYS if name in records for row in _rows(name, records[name])]
    runs = [_run_of(name, record) for name, record in records.items()]
    missing = _names(set(PUBLISHED) - set(records))
    partial = _names(name for name, record in records.items() if not record.get("whole", True))
    parts = [HEAD, _table(head, rows), "What was run, and where:", ""]
    parts.append(_table(["item", "machine", "revision", "load before", "s", "CPU s"], runs))
    parts += ["Published times are stars.", "", *_figures(records)]
    parts += ["What they found beside times, and what was left out:", "", *_notes(records), ""]
    for name in (name for name in WHOLE if name in records):
        parts += [f"``{name}``, {records[name]['title']}::", "", *_indented(records[name]), ""]
    return "\n".join(parts) + TAIL.format(missing=missing, partial=partial)


def _figures(records):
    for name, record in records.items():
        if (FIGURES / f"{name}.png").exists():
            text = f"{name}, {record['title']}"
            yield f".. figure:: /_static/published/{name}.png\n   :alt: {text}\n\n   {text}\n"


def _names(items):
    return ", ".join(f"``{name}``" for name in sorted(items)) or "none"


def _rows(name, record):
    """A row for each size, and for each published one that is not among ours."""
    key, unit = KEYS[name]
    groups = {}
    for row in record["tables"][0]["rows"]:
        if key(row) is not None:
            groups.setdefault(key(row), []).append(row)
    figures = {}
    for figure in PUBLISHED[name]:
        figures.setdefault(figure.what, []).append(figure)
    for what in {**groups, **figures}:
        known = figures.get(what, ())
        yield [f"``{name}``: {what}", _said(known), *_numbers(groups.get(what, ()), known, unit)]


def _series(row):
    """The one in files is the largest, as `published.csv` calls it."""
    if row["layout"] == "files":
        return "largest series, 75 million eras"
    return f"{row['n']:,} eras, {row['layout']}"


def _said(figures):
    return "; ".join(f"{f.value} ({f.hardware})" for f in figures) or NOTHING


def _numbers(rows, figures, unit):
    """Seconds of ours and exact, and ratios to ours."""
    ours, exact = (_first(rows, kind, unit) for kind in ("ours", "exact"))
    is_gpu = [f.seconds for f in figures if f.seconds and "CPU" not in f.hardware]
    is_cpu = [f.seconds for f in figures if f.seconds and f.hardware.endswith("their CPU")]
    place = 1 if ours and ours[1] else 0  # seconds of processors, where they are known
    others = [exact and exact[place]]
    others += [found[0] if found else None for found in (is_cpu, is_gpu)]
    ratios = [_short(one / ours[place] if one and ours else None) for one in others]
    return [_times(ours), _times(exact), *ratios]


def _first(rows, kind, unit):
    """Seconds of a kind's first solver, by the clock and of processors, which may be unknown.

    Our three steps are the published sampler of the lasso.
    """
    for row in rows:
        name = row.get("solver", row.get("what")).replace("ours, three-step", "exact")
        if name.startswith(kind):
            return [unit * row.get("seconds", row.get("ms")), row.get("cpu_seconds")]
    return None


def _times(seconds):
    if seconds is None:
        return NOTHING
    by_clock, cpu = seconds
    return _short(by_clock) + (f" ({_short(cpu)})" if cpu else "")


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


def _notes(records):
    """What the items say about their runs."""
    for name, record in records.items():
        for text in record["notes"]:
            if not text.endswith(("Warning", "goes on without it")):
                yield f"* ``{name}``: {text}"


def _indented(record):
    for found in record["tables"]:
        for line in lines(found["columns"], found["rows"]).splitlines():
            yield f"   {line}".rstrip()
        yield ""


def _table(head, rows):
    drawn = [".. list-table::", "   :header-rows: 1", ""]
    for row in [head, *rows]:
        drawn += [f"   {'  -' if k else '* -'} {cell}".rstrip() for k, cell in enumerate(row)]
    return "\n".join([*drawn, ""])
