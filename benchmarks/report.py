"""Shared by all benchmarks: options, tables, JSON files with machine and versions, one report.

``python -m benchmarks report`` shows what ``results/`` holds, as Markdown, or as HTML with
``--html``.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).resolve().parent / "results"
SHORT = 4  # numbers of a list that the report shows
PACKAGES = ("numpy", "scipy", "scikit-learn", "scikit-survival", "numba", "llvmlite")


class Option(NamedTuple):
    """A command's option by its default: a number, a text, a list of such, or a type without one.

    A tuple has the names that may be chosen, all by default; a dictionary is for argparse as it
    is. `quick` replaces the default under ``--quick``.
    """

    default: object
    help: str | None = None
    quick: object = None

    def add_to(self, parser, name):
        default, flag = self.default, f"--{name.replace('_', '-')}"
        match default:
            case tuple():
                how = {"nargs": "+", "choices": default, "default": list(default)}
                how["metavar"] = name.upper().rstrip("S")
            case dict():
                how = default
            case list():
                how = {"nargs": "+", "type": type(default[0]), "default": default}
            case type():
                how = {"type": default}
            case bool():
                how = {"action": "store_true"}
            case _:
                how = {"type": type(default), "default": None if self.quick else default}
        said = f"by default {default:,}" if self.quick else None
        parser.add_argument(flag, help=self.help or said, **how)


def read(name, doc, arguments, quick="small problems of the same kinds", file=None, **options):
    """Options of a command: ``--output``, ``--quick`` unless it has none, and its own."""
    found = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--output", type=Path, help="JSON file; by default in results/")
    found.set_defaults(quick=False)
    if quick:
        found.add_argument("--quick", action="store_true", help=quick)
    options = {k: o if isinstance(o, Option) else Option(o) for k, o in options.items()}
    for key, option in options.items():
        option.add_to(found, key)
    given = found.parse_args(arguments)
    for key, option in options.items():
        if option.quick and getattr(given, key) is None:
            setattr(given, key, option.quick if given.quick else option.default)
    given.output = given.output or RESULTS / f"{file or name}{'-quick' if given.quick else ''}.json"
    return given


COLUMN = re.compile(r"(?P<header>.*?)(?:=(?P<key>\w+))?(?::(?P<form>[^:\s]+))?")


def columns(text, **functions):
    """Columns (header, key or function of a result, format) of "header=key:format | ...".

    The key is the header where none is given; `functions` compute what results do not have.
    """
    found = []
    for column in text.split(" | "):
        header, key, form = COLUMN.fullmatch(column).group("header", "key", "form")
        key = key or header
        found.append((header, functions.get(key, key), form or ""))
    return tuple(found)


def lines(columns, results):
    """Table of results; leading columns of text and a last one named "note" are to the left."""

    def cell(result, key, form):
        value = key(result) if callable(key) else result.get(key)
        return value if isinstance(value, str) else number(value, form)

    rows = [[cell(result, key, form) for _, key, form in columns] for result in results]
    forms = [form for _, _, form in columns]
    n_left = next((k for k, form in enumerate(forms) if form), len(forms))
    return table([header for header, _, _ in columns], rows, n_left)


def table(headers, rows, n_left=1):
    """Aligned columns: the first `n_left` and a last one named "note" to the left, others right."""
    lines = [headers, *rows]
    widths = [max(len(line[k]) for line in lines) for k in range(len(headers))]
    to_left = [k < n_left or name == "note" for k, name in enumerate(headers)]

    def show(line):
        cells = zip(line, widths, to_left, strict=True)
        return "  ".join(c.ljust(w) if left else c.rjust(w) for c, w, left in cells).rstrip()

    rule = "  ".join("-" * min(width, 60) for width in widths)
    return "\n".join([show(headers), rule, *map(show, rows)])


def number(value, form=".3g"):
    """A number as text, "-" where there is none."""
    return "-" if value is None else format(value, form)


def machine():
    """Versions, processor and date, without anything that names a user or a path."""
    from sksurvgpu import __version__

    versions = {"python": platform.python_version(), "sksurvgpu": __version__}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": _revision(),
        "cpu": _from_proc("cpuinfo", "model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory": _from_proc("meminfo", "MemTotal"),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


def save(options, **content):
    """Write results with the machine; to be called after every step."""
    write(options.output, {"machine": machine(), **content})


def write(path, content):
    """Write a result file; after every step, so that an interrupted run leaves what it has."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def _from_proc(name, key):
    try:
        lines = Path("/proc", name).read_text().splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(key)), None)


def _revision():
    """Commit of the source tree; "-dirty" is appended where it was changed."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=RESULTS.parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def main_report(arguments=None):
    """Print or write what is in the files of results."""
    found = argparse.ArgumentParser(prog="python -m benchmarks report", description=__doc__)
    found.add_argument("files", nargs="*", type=Path, help="by default all of results/")
    found.add_argument("--html", action="store_true", help="in place of Markdown")
    found.add_argument("--output", type=Path, help="by default it is printed")
    options = found.parse_args(arguments)
    parts = []
    for path in options.files or sorted(RESULTS.glob("*.json")):
        parts += [("title", path.stem), *show(json.loads(path.read_text(encoding="utf-8")))]
    text = (_html if options.html else _markdown)(parts)
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text, encoding="utf-8")
        print(f"written: {os.path.relpath(options.output)}")


def show(content, path=""):
    """Parts of a file: ("text", line), ("table", headers, rows)."""
    if "machine" in content and not path:
        yield "text", _where(content["machine"])
    scalars = {k: v for k, v in content.items() if not isinstance(v, dict | list)}
    groups = {k: v for k, v in content.items() if isinstance(v, dict | list) and k != "machine"}
    if scalars:
        yield "text", "; ".join(f"{key} {_cell(value)}" for key, value in scalars.items())
    for key, value in groups.items():
        name = f"{path}{key}"
        if isinstance(value, list):
            yield from _of_list(value, name)
        elif value and all(isinstance(v, int | float) for v in value.values()):
            yield "table", [name, "value"], [[k, _cell(v)] for k, v in value.items()]
        elif value and all(isinstance(v, dict) and _is_flat(v) for v in value.values()):
            yield from _of_list([{name: k, **v} for k, v in value.items()], name)
        else:
            yield from show(value, f"{name}: ")


def _of_list(found, name):
    """A table of records that have no records in them; otherwise each in turn."""
    if not found or not all(isinstance(record, dict) for record in found):
        return
    if not all(map(_is_flat, found)):
        for record in found:
            yield from show(record, f"{name}: ")
        return
    keys = dict.fromkeys(k for r in found for k, v in r.items() if _is_short(v))
    yield "table", list(keys), [[_cell(record.get(key)) for key in keys] for record in found]


def _is_flat(record):
    """Lists in it are left out of tables, but not those of records."""
    kept = [v for v in record.values() if isinstance(v, dict | list) and v]
    return all(isinstance(v, list) and not isinstance(v[0], dict) for v in kept) or (
        "tried" in record and "solver" in record
    )


def _is_short(value):
    """Whether a value has room in a cell: a list of few numbers has."""
    if isinstance(value, list):
        return 0 < len(value) <= SHORT and not isinstance(value[0], dict | list)
    return not isinstance(value, dict)


def _cell(value):
    if value is None or not _is_short(value):
        return "-"
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _where(known):
    """One line about the machine."""
    shown = [known.get(name) for name in ("date", "revision", "cpu", "system")]
    shown += [f"{known[name]} {name}" for name in ("cores", "memory") if known.get(name)]
    versions = known.get("versions", {})
    shown += [
        f"{name} {versions[name]}" for name in ("python", "numpy", "numba") if name in versions
    ]
    return "; ".join(str(part) for part in shown if part)


def _markdown(parts):
    text = ["# Results of the benchmarks"]
    for kind, *given in parts:
        if kind == "table":
            headers, rows = given
            cells = [headers, ["---"] * len(headers), *rows]
            cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in cells]
            text.append("\n".join(f"| {' | '.join(row)} |" for row in cells))
        else:
            text.append(f"## {given[0]}" if kind == "title" else given[0])
    return "\n\n".join(text) + "\n"


STYLE = """body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 90em; }
div { overflow-x: auto; } table { border-collapse: collapse; margin: 1em 0; }
th, td { border-bottom: 1px solid #8884; padding: .2em .7em; text-align: right; }
th:first-child, td:first-child { text-align: left; } :root { color-scheme: light dark; }"""


def _html(parts):
    from pandas import DataFrame

    text = ["<!doctype html><meta charset=utf-8><title>Results of the benchmarks</title>"]
    text += [f"<style>{STYLE}</style><h1>Results of the benchmarks</h1>"]
    for kind, *given in parts:
        if kind == "table":
            shown = DataFrame(given[1], columns=given[0]).to_html(index=False, border=0)
            text.append(f"<div>{shown}</div>")
        else:
            tag = "h2" if kind == "title" else "p"
            text.append(f"<{tag}>{html.escape(given[0])}</{tag}>")
    return "\n".join(text) + "\n"
