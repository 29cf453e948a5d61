"""Fits of rows that are far, whose model is a matrix that secants keep current."""

from dataclasses import replace

import numpy as np
import pytest
from far_backend import LEVELS, FarBackend
from models import MODELS, make_batch

from sksurvgpu import MCP, SCAD, Fused
from sksurvgpu.backends import cpu
from sksurvgpu.penalties import BoundedElasticNet, ElasticNet
from sksurvgpu.penalties.groups import GroupFamily
from sksurvgpu.penalties.spec import Given
from sksurvgpu.solver.problem import Batch
from sksurvgpu.solver.solve import Options, gradients, null_models, solve, solve_and_lend

P = 12
OPTIONS = Options(tol=1e-9)


def check_same(found, expected):
    for own, others in zip(found, expected, strict=True):
        for solution, other in zip(own, others, strict=True):
            assert solution.converged and other.converged
            np.testing.assert_allclose(solution.objective, other.objective, rtol=1e-10)
            np.testing.assert_allclose(solution.coef, other.coef, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(solution.lam_max, other.lam_max, rtol=1e-8)


def check_stationary(found, batch, problem):
    """By the CPU's gradients."""
    for solution in found:
        assert solution.converged
        gradient = gradients(problem, batch, solution.coef[:, None], cpu)[:, 0]
        at = batch.penalty.at(solution.lam, np.ones(P), np.zeros(P, bool))
        assert at.violation(solution.coef, gradient).max() <= 1e-7 * solution.lam_max


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", MODELS)
def test_paths(name, level):
    """Also of fits with other weights, one column being free."""
    sample = MODELS[name].sample(3, p=P)
    problem = MODELS[name].problem(sample)
    group = sample.y["group"] if MODELS[name].weighs_groups else np.arange(sample.n)
    weight = sample.weights[:, None] * np.column_stack([group >= 0, group % 4 != 1])
    batch = Batch(
        np.outer([4.0, 1.0], [1.0, 0.8]),
        ElasticNet(0.9),
        factor=np.where(np.arange(P) == 1, 0.0, 1.0),
        weight=weight,
        offset=sample.offset[:, None],
    )
    found = solve(problem, batch, FarBackend(level), OPTIONS)
    check_same(found, solve(problem, batch, cpu, OPTIONS))


PENALTIES = {
    "bounds": BoundedElasticNet(0.7, np.full(P, -0.05), np.where(np.arange(P) == 2, 0.0, np.inf)),
    "groups": GroupFamily(np.arange(P) // 3, np.full(P // 3, 1.7), 0.7),
    "mcp": MCP(),
    "scad": SCAD(),
    "fused": Fused("chain"),
}


def family_of(penalty):
    if not hasattr(penalty, "accepts"):
        return penalty
    return penalty.family(Given(np.arange(P), None, np.ones(P), 1.0, None, None))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", ["cox, efron", "logistic"])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_penalties(penalty, name, level):
    sample = MODELS[name].sample(3, p=P)
    problem = MODELS[name].problem(sample)
    batch = make_batch(sample, [3.0, 1.0], penalty=family_of(PENALTIES[penalty]))
    if batch.penalty.needs_null:
        (null,) = null_models(problem, batch, FarBackend(level), OPTIONS, 1)
        batch = replace(batch, penalty=batch.penalty.at_null(null.root**2))
    found, expected = (
        solve(problem, batch, backend, OPTIONS) for backend in (FarBackend(level), cpu)
    )
    assert expected[0][-1].n_iter > 0
    if batch.penalty.is_convex:
        check_same(found, expected)
    else:  # there are several optima
        check_stationary(found[0], batch, problem)


def wrong_matrices():
    rng = np.random.default_rng(0)

    def random(matrix):
        root = rng.normal(size=matrix.shape)
        return root @ root.T

    def of_low_rank(matrix):
        root = rng.normal(size=(len(matrix), 2))
        return root @ root.T

    def repeated(matrix):
        root = np.sqrt(np.diagonal(matrix))
        return 0.99 * np.outer(root, root) + 0.01 * matrix

    return {
        "random": random,
        "of low rank": of_low_rank,
        "as if all were one": repeated,
        "large": lambda matrix: 1e3 * matrix,
        "small": lambda matrix: 1e-3 * matrix,
    }


@pytest.mark.parametrize("name", ["cox, breslow", "gaussian"])
@pytest.mark.parametrize("wrong", wrong_matrices())
def test_any_matrix_ends_at_the_optimum(wrong, name):
    sample = MODELS[name].sample(3, p=P)
    problem = MODELS[name].problem(sample)
    batch = make_batch(sample, [3.0, 1.0], penalty=ElasticNet(1.0))
    found = solve(problem, batch, FarBackend(matrix=wrong_matrices()[wrong]), OPTIONS)
    check_same(found, solve(problem, batch, cpu, OPTIONS))


@pytest.mark.parametrize("level", LEVELS)
def test_loans(level):
    """Folds share a model, and learn for themselves."""
    sample = MODELS["cox, efron"].sample(3, p=P)
    problem = MODELS["cox, efron"].problem(sample)
    backend, first = FarBackend(level), make_batch(sample, 1.0, penalty=ElasticNet(0.9))
    (alone,), loan = solve_and_lend(problem, first, backend, OPTIONS, 1, 100)
    label = np.arange(sample.n)[:, None] % 4
    weight = sample.weights[:, None] * (label != [[0, 1, 2]])
    share = weight.sum(axis=0) / sample.weights.sum()
    batch = replace(first, lambdas=np.full((1, 3), 0.5), weight=weight, share=share, loan=loan)
    fixed = np.zeros((P, 3), bool)
    fixed[3, 1] = True
    batch = replace(batch, coef=alone.coef[:, None], null=(alone.null,), fixed=fixed)
    found = solve(problem, batch, backend, OPTIONS)
    check_same(found, solve(problem, replace(batch, loan=None), cpu, OPTIONS))
    assert loan.matrix.shape == (len(loan.columns),) * 2
