"""CPU seconds of files and of tests, children included: ``python -m pytest -n 2 -p cpu_times``.

Seconds in which Numba compiled stand beside them. ``--store-times`` writes both to
``tests/durations.json``, by which ``conftest.py`` orders a run. Store the times of a run of one
worker that finds nothing compiled, so that every kernel counts once::

    NUMBA_CACHE_DIR=$(mktemp -d) python -m pytest -n 1 -p cpu_times --store-times
"""

import json
import os
import time
from collections import defaultdict
from pathlib import Path

import pytest
from numba.core import event

STORED = Path(__file__).with_name("durations.json")
LONG = 1.0  # seconds without compiling, from which a test is stored beside its file


def seconds():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Compiling(event.Listener):
    """CPU seconds from the first of nested compilations to the end of the last."""

    def __init__(self):
        self.depth, self.began, self.seconds = 0, 0.0, 0.0

    def on_start(self, event):
        if not self.depth:
            self.began = time.process_time()
        self.depth += 1

    def on_end(self, event):
        self.depth -= 1
        if not self.depth:
            self.seconds += time.process_time() - self.began


class Meter:
    """Gives every phase of a test the seconds since the phase before; workers send them along."""

    def __init__(self):
        self.compiling = Compiling()
        event.register("numba:compile", self.compiling)
        self.last = seconds(), 0.0

    def pytest_collection_finish(self):
        self.last = seconds(), self.compiling.seconds  # imports belong to no test

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report = yield
        now = seconds(), self.compiling.seconds
        report.cpu_seconds = [after - before for before, after in zip(self.last, now, strict=True)]
        self.last = now
        return report

    def pytest_terminal_summary(self, terminalreporter, config):
        files, tests = defaultdict(lambda: [0.0, 0.0]), defaultdict(lambda: [0.0, 0.0])
        for reports in terminalreporter.stats.values():
            for report in reports:
                file = report.nodeid.partition("::")[0]
                for i, used in enumerate(getattr(report, "cpu_seconds", ())):
                    files[file][i] += used
                    tests[report.nodeid][i] += used
        if not files:
            return
        used, compiling = (sum(column) for column in zip(*files.values(), strict=True))
        terminalreporter.section(f"{used:.0f} CPU seconds, {compiling:.0f} of them compiling")
        for measured in files, tests:
            for name in sorted(measured, key=measured.get, reverse=True)[:30]:
                terminalreporter.write_line("{:8.1f} {:8.1f}  {}".format(*measured[name], name))
        if config.getoption("store_times"):
            long = {name: v for name, v in tests.items() if v[0] - v[1] >= LONG}
            STORED.write_text(_as_text({"files": files, "tests": long}), encoding="utf-8")


def _as_text(stored):
    """JSON with a line for each file and test."""
    parts = []
    for kind, found in stored.items():
        lines = (f"  {json.dumps(k)}: {[round(v, 2) for v in found[k]]}" for k in sorted(found))
        parts.append(f' "{kind}": {{\n' + ",\n".join(lines) + "\n }")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def pytest_addoption(parser):
    parser.addoption(
        "--store-times", action="store_true", help=f"write CPU seconds to {STORED.name}"
    )


def pytest_configure(config):
    config.pluginmanager.register(Meter())
