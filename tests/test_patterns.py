"""Patterns: what a likelihood names has all its parts, and imports none before it is asked for."""

import subprocess
import sys

import pytest

from sksurvgpu.backends.cpu.pattern import PatternOnCpu
from sksurvgpu.backends.sums.joined import Joining
from sksurvgpu.backends.sums.pattern import PatternInPart
from sksurvgpu.information.views import View
from sksurvgpu.likelihoods import LIKELIHOODS
from sksurvgpu.patterns.pattern import Pattern

PARTS = {
    "on_cpu": PatternOnCpu,
    "in_part": PatternInPart,
    "joined": Joining,
    "information": View,
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_pattern_has_all_its_parts(name):
    pattern = LIKELIHOODS[name].pattern
    assert issubclass(pattern, Pattern)
    for attribute, base in PARTS.items():
        check_part(pattern, attribute, base)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_a_pattern_has_a_part_for_devices(name):
    pytest.importorskip("numba_cuda")
    from sksurvgpu.backends.cuda.pattern import PatternOnDevice

    check_part(LIKELIHOODS[name].pattern, "on_device", PatternOnDevice)


def check_part(pattern, attribute, base):
    part = getattr(pattern, attribute)
    assert issubclass(part, base)
    assert part.__module__.startswith(f"{pattern.__module__}.")


@pytest.mark.thorough
def test_a_likelihood_imports_no_backend():
    code = (
        "import sys, sksurvgpu.likelihoods as found\n"
        "names = 'sksurvgpu.backends', 'sksurvgpu.information', 'numba.cuda'\n"
        "print(*[m for m in sys.modules if m.startswith(names)])\n"
        "found.Cox.pattern.on_cpu\n"
        "print(*[m for m in sys.modules if m.endswith('.cuda')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
