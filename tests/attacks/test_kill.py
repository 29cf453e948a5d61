"""Killed runs go on: a few attempts, and in a slow test as many as `n_attempts` says."""

import os

import pytest

if os.name == "nt":
    pytest.skip("children are ended by signals", allow_module_level=True)

from attacks import n_attempts
from attacks.kill import CALLS, attack, call, require_same, unbroken

SHARE = 0.05  # of attempts: one takes seconds


@pytest.mark.parametrize("name", ["BayesianLasso", "CoxLassoCV, search"])
def test_folders_change_no_bits(name):
    require_same(call(name, None), unbroken(name)[0], name)


@pytest.mark.slow
def test_calls_go_on_after_a_full_disk():
    attack(len(CALLS), seed=0, ends=("full disk",), most=1)


def test_calls_go_on_after_a_signal():
    calls = "BayesianLasso", "bootstrap"
    attack(2, seed=0, calls=calls, ends=("kill outside", "interrupt"), most=1)


@pytest.mark.weekly
def test_calls_go_on_after_anything():
    attack(n_attempts(SHARE), seed=1)
