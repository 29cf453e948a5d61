"""Tables, and the JSON files that keep them with machine and versions."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
PACKAGES = ("numpy", "scipy", "scikit-learn", "scikit-survival", "numba", "llvmlite")


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


def default_output(name, quick=False):
    """Where results go; a quick run does not overwrite a full one."""
    return RESULTS / f"{name}{'-quick' if quick else ''}.json"


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
