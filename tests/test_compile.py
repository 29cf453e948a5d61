"""The cache of compiled kernels."""

from __future__ import annotations

import numpy as np
import pytest

from sksurvgpu._compile import bind, kernel, specialize

OURS = "sksurvgpu.likelihoods.tests"  # machine code is kept for the package only


def double(x):
    return 2.0 * x


def formula_one(x):
    return x + 1.0


def formula_two(x):
    return x + 2.0


def apply(x):
    return formula(x)  # noqa: F821 (bound by specialize)


@pytest.fixture(autouse=True)
def of_the_package(monkeypatch):
    for function in (double, formula_one, formula_two, apply):
        monkeypatch.setattr(function, "__module__", OURS)


def test_processes_never_write_under_one_name():
    """Two processes that compile at once must not share a file: Numba's index has no lock."""
    names = {kernel(double)._cache._cache_file._data_name(1) for _ in range(2)}
    assert len(names) == 2


def test_templates_keep_their_formulas_apart():
    one = specialize(apply, formula=kernel(formula_one))
    two = specialize(apply, formula=kernel(formula_two))
    assert (one(1.0), two(1.0)) == (2.0, 3.0)
    assert one._cache._cache_file._index_name != two._cache._cache_file._index_name


def test_bound_templates_have_names_of_their_own():
    """Cached code is linked by qualified name; numbers differ between processes."""
    names = {bind(apply, formula=kernel(f)).__qualname__ for f in (formula_one, formula_two)}
    assert len(names) == 2


def test_bound_templates_leave_the_template_alone():
    bind(apply, formula=kernel(formula_one))
    assert "formula" not in apply.__globals__
    assert np.isclose(kernel(double)(1.5), 3.0)
