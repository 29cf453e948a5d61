"""Damaged messages and answers between a coordinator and sites: a few always, more in a slow test.

More by hand: ``python -m tests.attacks.sites --attempts 2000``.
"""

from collections import Counter

import numpy as np
import pytest

from attacks import n_attempts, sites
from sksurvgpu.federated import wire

pytestmark = pytest.mark.filterwarnings("ignore:times are so coarse")

ENDS = pytest.mark.parametrize("end", sites.ATTACKS)


@ENDS
def test_few_attempts(end):
    counts = Counter(sites.attack(end, 0, number) for number in range(64))
    assert len(counts) == 2 and min(counts.values()) > 2


@ENDS
@pytest.mark.slow
def test_many_attempts(end):
    for number in range(n_attempts(0.4)):
        sites.attack(end, 1, number)


def attack_often(end):
    for number in range(30):
        sites.attack(end, 0, number)


def test_errors_from_inside_are_found(monkeypatch):
    def fail(*given):
        raise KeyError("inside")

    for case in sites.CASES:
        sites.exchanged(case)
    monkeypatch.setattr("sksurvgpu.federated.post.check_facts", fail)
    with pytest.raises(KeyError, match="inside"):
        attack_often("coordinator")
    monkeypatch.undo()
    monkeypatch.setattr("sksurvgpu.federated.session.check_facts", fail)
    with pytest.raises(AssertionError, match="error came up at the site"):
        attack_often("site")


def test_damage_is_that_of_its_seed():
    [(message, _), *_], _ = sites.exchanged("plain")
    same = [sites.damaged(np.random.default_rng(7), message, {}) for _ in range(2)]
    assert same[0] == same[1] != wire.encode(message)
