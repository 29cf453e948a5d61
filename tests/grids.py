"""Grids of cases of which the default run takes a part that meets every value."""

from itertools import product

import pytest


def thin(step, *axes):
    """Cases of a grid, as `parametrize` takes them: each `step`-th, and the others as slow tests.

    A step without a common factor with the sizes of the axes meets all their values.
    """
    cases = list(product(*axes)) if len(axes) > 1 else list(axes[0])
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[pytest.mark.slow] if number % step else [],
        )
        for number, case in enumerate(cases)
    ]
