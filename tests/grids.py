"""Grids of cases of which the default run takes a part that meets every value."""

from itertools import product

import pytest


def thin(step, *axes):
    """Cases of a grid, as `parametrize` takes them: each `step`-th, and the others as slow tests.

    A step without a common factor with the sizes of the axes meets all their values.
    """
    cases = list(product(*axes)) if len(axes) > 1 else list(axes[0])
    return [_case(case, [pytest.mark.slow] if k % step else []) for k, case in enumerate(cases)]


def _case(case, marks):
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=marks, id="-".join(map(_name, values)))


def _name(value):
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
