"""Fits of groups of columns on a simulated device, against the CPU's."""

import numpy as np
import pytest
from engine import column
from gpu.backend import simulate_backend
from models import MODELS, largest_gradient

from sksurvgpu.backends import choose, cpu
from sksurvgpu.penalties.groups import GroupFamily
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

GROUP = np.array([0, 1, 0, -1, 1, 0])


@pytest.mark.parametrize(
    ("name", "share"),
    [("cox, efron", 0.6), ("conditional_poisson, many", 1.0)],
)
def test_batch_of_groups(name, share, monkeypatch):
    simulate_backend(monkeypatch, seed=3)
    model = MODELS[name]
    sample = model.sample(6, p=len(GROUP), weights=False)
    lambdas = largest_gradient(model, sample) * np.array([[0.3, 0.1]])
    penalty = GroupFamily(GROUP, np.sqrt([3.0, 2.0]), share)
    batch = Batch(lambdas, penalty, offset=column(sample.offset))
    problem, options = model.problem(sample), Options(tol=1e-6)
    found = Fits(problem, batch, choose("cuda"), options).solve()
    for one, other in zip(found, Fits(problem, batch, cpu, options).solve(), strict=True):
        assert one[0].converged and one[0].n_iter > 0
        np.testing.assert_allclose(one[0].coef, other[0].coef, atol=1e-6)
        assert one[0].objective == pytest.approx(other[0].objective, rel=1e-10)
        assert one[0].lam_max == pytest.approx(other[0].lam_max, rel=1e-9)
