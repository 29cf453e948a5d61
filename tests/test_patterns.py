"""Patterns: what a likelihood names has all its parts, and imports none before it is asked for."""

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
