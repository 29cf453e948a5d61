"""What the host does for a fit, measured without a device: scripts of their own, on this host."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from ..processes import TookTooLongError, environment, run

ITEM_LIMIT = 100.0
COLUMNS = ()
SCRIPTS = {
    "iteration": ("benchmarks.gpu.iteration",),
    "set-up of 100 folds": ("benchmarks.gpu.folds", "--rows", "1000000"),
}


def jobs(sizes):
    return [(item,) for item in SCRIPTS]


def measure(item, sizes, run=run):
    """What the script prints."""
    module, *arguments = SCRIPTS[item]
    if find_spec(module) is None:
        return {"not_run": f"this version has no {module}"}
    try:
        command = [sys.executable, "-m", module, *arguments]
        status, printed = run(command, ITEM_LIMIT - 10.0, environment())
    except TookTooLongError:
        return {"not_run": f"no time: more than {ITEM_LIMIT - 10.0:.0f} s"}
    return {"printed": printed.splitlines()} if status == 0 else {"error": printed[-2_000:]}


def lines(item, result):
    yield {"item": item}
    yield from ({"item": f"  {line}"} for line in result["printed"])
