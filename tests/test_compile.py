"""The cache of compiled kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from attacks import n_attempts

from sksurvgpu._compile import bind, kernel, specialize

ROOT = Path(__file__).resolve().parents[1]
OURS = "sksurvgpu.likelihoods.tests"  # machine code is kept for the package only


def double(x):
    return 2.0 * x


def same(x):
    return x


def formula_one(x):
    return x + 1.0


def formula_two(x):
    return x + 2.0


def apply(x):
    return formula(x)  # noqa: F821 (bound by specialize)


@pytest.fixture(autouse=True)
def of_the_package(monkeypatch):
    for function in (double, same, formula_one, formula_two, apply):
        monkeypatch.setattr(function, "__module__", OURS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="attempts are forks of one process")
@pytest.mark.parametrize(
    ("attempts", "seed"),
    [(16, 0), pytest.param(n_attempts(0.05), 1, marks=pytest.mark.slow)],
    ids=["every kind", "many"],
)
def test_damaged_files_are_compiled_anew(attempts, seed):
    attack = [sys.executable, "-m", "tests.attacks.cache_damage"]
    attack += ["--attempts", str(attempts), "--seed", str(seed)]
    done = subprocess.run(attack, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_tuples_of_one_name_are_not_taken_for_one_another(monkeypatch):
    """They look alike in the name of a file; what a kernel returns is of its argument's class."""
    for name in ("one", "two"):
        module = ModuleType(name)
        module.Same = namedtuple("Same", "x", module=name)
        monkeypatch.setitem(sys.modules, name, module)
        assert type(kernel(same)(module.Same(1.0))) is module.Same


def test_numba_forgets_on_request():
    compiled = kernel(double)
    compiled(1.0)
    compiled.recompile()
    assert compiled(1.0) == 2.0 and not kernel(double).stats.cache_hits


def test_templates_keep_their_formulas_apart():
    one = specialize(apply, formula=kernel(formula_one))
    two = specialize(apply, formula=kernel(formula_two))
    assert (one(1.0), two(1.0)) == (2.0, 3.0)
    assert one._cache._cache_file._name != two._cache._cache_file._name


def test_bound_templates_have_names_of_their_own():
    """Cached code is linked by qualified name; numbers differ between processes."""
    names = {bind(apply, formula=kernel(f)).__qualname__ for f in (formula_one, formula_two)}
    assert len(names) == 2


def test_bound_templates_leave_the_template_alone():
    bind(apply, formula=kernel(formula_one))
    assert "formula" not in apply.__globals__
    assert np.isclose(kernel(double)(1.5), 3.0)
