"""CPU seconds of every test file, children included: ``python -m pytest -n 2 -p cpu_times``."""

import os
from collections import Counter

import pytest


def seconds():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Meter:
    """Gives every phase of a test the seconds since the phase before; workers send them along."""

    def __init__(self):
        self.last = seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self):
        report = yield
        report.cpu_seconds, self.last = seconds() - self.last, seconds()
        return report

    def pytest_terminal_summary(self, terminalreporter):
        used = Counter()
        for reports in terminalreporter.stats.values():
            for report in reports:
                used[report.nodeid.partition("::")[0]] += getattr(report, "cpu_seconds", 0.0)
        terminalreporter.section(f"{used.total():.0f} CPU seconds")
        for file, share in used.most_common(30):
            terminalreporter.write_line(f"{share:8.1f}  {file}")


def pytest_configure(config):
    config.pluginmanager.register(Meter())
