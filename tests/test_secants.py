"""Fits of rows that are far, whose model is a base that secants keep current."""

from dataclasses import replace

import numpy as np
import pytest
from engine import Data, make_problem
from far_backend import BASES, FarBackend
from grids import thin
from models import MODELS, make_batch

from sksurvgpu import MCP, SCAD, Fused
from sksurvgpu.backends import cpu
from sksurvgpu.datasets import simulate_cox, simulate_ehr
from sksurvgpu.penalties import BoundedElasticNet, ElasticNet
from sksurvgpu.penalties.groups import GroupFamily
from sksurvgpu.penalties.spec import Given
from sksurvgpu.solver import costs
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.models import Diagonal, OwnMatrix
from sksurvgpu.solver.problem import Batch
from sksurvgpu.solver.secants import PAIRS, Secants

P = 12
OPTIONS = Options(tol=1e-9)


def in_full(model):
    """A quadratic model as one matrix."""
    return model.block(np.arange(len(model.curvature)))


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
        gradient = Fits(problem, batch, cpu).gradients(solution.coef[:, None])[:, 0]
        at = batch.penalty.at(solution.lam, np.ones(P), np.zeros(P, bool))
        assert at.violation(solution.coef, gradient).max() <= 1e-7 * solution.lam_max


@pytest.mark.parametrize(("name", "base"), thin(5, MODELS, BASES))
def test_paths(name, base):
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
    found = Fits(problem, batch, FarBackend(base), OPTIONS).solve()
    check_same(found, Fits(problem, batch, cpu, OPTIONS).solve())


PENALTIES = {
    "bounds": BoundedElasticNet(0.7, np.full(P, -0.05), np.where(np.arange(P) == 2, 0.0, np.inf)),
    "groups": GroupFamily(np.arange(P) // 3, np.full(P // 3, 1.7), 0.7),
    "mcp": MCP(),
    "scad": SCAD(),
    "fused": Fused("chain"),
}


def family_of(penalty, p=P):
    if not hasattr(penalty, "accepts"):
        return penalty
    return penalty.family(Given(np.arange(p), None, np.ones(p), 1.0, None, None))


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", ["cox, efron", "logistic"])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_penalties(penalty, name, base):
    sample = MODELS[name].sample(3, p=P)
    problem = MODELS[name].problem(sample)
    batch = make_batch(sample, [3.0, 1.0], penalty=family_of(PENALTIES[penalty]))
    if batch.penalty.needs_null:
        (null,) = Fits(problem, batch, FarBackend(base), OPTIONS).null_models()
        batch = replace(batch, penalty=batch.penalty.at_null(null.root**2))
    found, expected = (
        Fits(problem, batch, backend, OPTIONS).solve() for backend in (FarBackend(base), cpu)
    )
    assert expected[0][-1].n_iter > 0
    if batch.penalty.is_convex:
        check_same(found, expected)
    else:  # there are several optima
        check_stationary(found[0], batch, problem)


def wrong_matrices():
    def of_rank(rank):
        def draw(matrix):
            # of more columns, the first ones as they were
            root = np.random.default_rng(0).normal(size=(len(matrix), rank))
            return root @ root.T

        return draw

    def repeated(matrix):
        root = np.sqrt(np.diagonal(matrix))
        return 0.99 * np.outer(root, root) + 0.01 * matrix

    return {
        "random": of_rank(2 * P),
        "of low rank": of_rank(2),
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
    backend = FarBackend(matrix=wrong_matrices()[wrong])
    check_same(
        Fits(problem, batch, backend, OPTIONS).solve(), Fits(problem, batch, cpu, OPTIONS).solve()
    )
    if wrong in ("large", "small"):  # one of another size costs little
        as_it_is = FarBackend("diagonal", "diagonal")
        Fits(problem, batch, as_it_is, OPTIONS).solve()
        assert backend.exchanges[0] <= 2.0 * as_it_is.exchanges[0]


@pytest.mark.parametrize("base", BASES)
def test_loans(base):
    """Folds share a model, and learn for themselves."""
    sample = MODELS["cox, efron"].sample(3, p=P)
    problem = MODELS["cox, efron"].problem(sample)
    backend, first = FarBackend(base), make_batch(sample, 1.0, penalty=ElasticNet(0.9))
    (alone,), loan = Fits(problem, first, backend, OPTIONS).solve_and_lend(100)
    label = np.arange(sample.n)[:, None] % 4
    weight = sample.weights[:, None] * (label != [[0, 1, 2]])
    share = weight.sum(axis=0) / sample.weights.sum()
    batch = replace(first, lambdas=np.full((1, 3), 0.5), weight=weight, share=share, loan=loan)
    fixed = np.zeros((P, 3), bool)
    fixed[3, 1] = True
    batch = replace(batch, coef=alone.coef[:, None], null=(alone.null,), fixed=fixed)
    found = Fits(problem, batch, backend, OPTIONS).solve()
    check_same(found, Fits(problem, replace(batch, loan=None), cpu, OPTIONS).solve())
    assert len(loan.curvature) == len(loan.columns) == len(loan.rows)
    assert len(loan.matrix) or base == "diagonal"


CASES = {"papers": (simulate_cox, 300, None), "records": (simulate_ehr, 600, 0.01)}
MOST_EXCHANGES = {  # by the first base and the best
    ("matrix", "matrix"): 28,
    ("sample", "sample"): 42,
    ("diagonal", "matrix"): 45,
    ("diagonal", "diagonal"): 120,
}


@pytest.mark.parametrize("case", CASES)
def test_exchanges(case):
    """What fits cost; objectives are the CPU's."""
    simulate, p, share = CASES[case]
    data = simulate(30_000, p, random_state=1)
    problem = make_problem(Data(data.X, data.y["time"], data.y["event"]))
    lam, options = np.sqrt(2.0), Options()
    if share is not None:
        lam = share * Fits(problem, Batch(np.array([[1e6]])), cpu, options).solve()[0][0].lam_max
    batch = Batch(np.array([[lam]]))
    ((expected,),) = Fits(problem, batch, cpu, options).solve()
    for bases, most in MOST_EXCHANGES.items():
        backend = FarBackend(*bases)
        ((found,),) = Fits(problem, batch, backend, options).solve()
        assert found.converged
        np.testing.assert_allclose(found.objective, expected.objective, rtol=1e-11)
        assert backend.exchanges[0] <= most, bases


def test_a_path_keeps_what_it_has_learned():
    sample = MODELS["cox, breslow"].sample(3, p=40)
    problem = MODELS["cox, breslow"].problem(sample)
    lambdas, backend = np.geomspace(4.0, 0.5, 10), FarBackend("diagonal")
    path = make_batch(sample, list(lambdas), penalty=ElasticNet(0.9))
    check_same(
        Fits(problem, path, backend, OPTIONS).solve(), Fits(problem, path, cpu, OPTIONS).solve()
    )
    alone = []
    for lam in lambdas:
        Fits(problem, make_batch(sample, lam, penalty=ElasticNet(0.9)), backend, OPTIONS).solve()
        alone += backend.exchanges
    Fits(problem, path, backend, OPTIONS).solve()
    assert backend.exchanges[0] < 0.7 * sum(alone)


def test_a_better_base_is_asked_for():
    """By a fit that gains little."""
    sample = MODELS["cox, breslow"].sample(0, p=90)
    problem = MODELS["cox, breslow"].problem(sample)
    batch = make_batch(sample, 0.3, penalty=ElasticNet(1.0))
    plain, backend = FarBackend("diagonal", "diagonal"), FarBackend("diagonal")
    expected = Fits(problem, batch, cpu, OPTIONS).solve()
    for each in (plain, backend):
        check_same(Fits(problem, batch, each, OPTIONS).solve(), expected)
    assert backend.asked["sample"] and not plain.asked
    # A third to three quarters, as the libraries of linear algebra round.
    assert backend.exchanges[0] < 0.8 * plain.exchanges[0]


@pytest.mark.parametrize("room", [3, 8, 30])
def test_fewer_columns_than_the_optimum_has(room):
    """The matrix has room for so many at once."""
    sample = MODELS["logistic"].sample(3, p=30)
    problem = MODELS["logistic"].problem(sample)
    batch = make_batch(sample, [4.0, 1.0, 0.5], penalty=ElasticNet(0.9))
    expected = Fits(problem, batch, cpu, OPTIONS).solve()
    assert 8 < np.count_nonzero(expected[0][-1].coef) < 30
    backend = FarBackend("diagonal", room=costs.BYTES * room**2)
    check_same(Fits(problem, batch, backend, OPTIONS).solve(), expected)
    fused = make_batch(sample, [1.0], penalty=family_of(Fused("chain"), 30))
    if room < 30:
        with pytest.raises(
            ValueError, match=f"all 30 columns, and the backend has room for {room}"
        ):
            Fits(problem, fused, backend, OPTIONS).solve()


@pytest.mark.parametrize("base", BASES)
def test_infinite_coefficients_stop(base):
    sample = MODELS["logistic"].sample(3, p=4, offset=False)
    sample.X[:, 0] = (sample.y["value"] == 0) & (np.arange(sample.n) % 2 == 0)
    problem = MODELS["logistic"].problem(sample)
    batch = make_batch(sample, 0.0)
    ((expected,),) = Fits(problem, batch, cpu, Options()).solve()
    ((found,),) = Fits(problem, batch, FarBackend(base), Options()).solve()
    assert expected.coef[0] < -10 and found.coef[0] < -10
    assert found.n_iter < 50 and found.score <= found.allowed
    np.testing.assert_allclose(found.objective, expected.objective, rtol=1e-6)


BASE = {"diagonal": Diagonal, "matrix": OwnMatrix}


class TestPairs:
    """Those of a model, on a Hessian that is known."""

    @pytest.fixture(params=BASE)
    def draw(self, request):
        def draw(scale=1.0, n_pairs=7):
            rng = np.random.default_rng(1)
            root = rng.normal(size=(P, 2 * P))
            hessian, secants = root @ root.T, Secants()
            model = BASE[request.param](P, secants)
            curvature = scale * np.diagonal(hessian)
            model._append(np.arange(P), curvature)
            if model.is_matrix:
                model.matrix = np.diag(curvature)
            for step in rng.normal(size=(n_pairs, P)):
                secants.learn(step, hessian @ step, 1.0)
            return model, hessian, secants

        return draw

    @pytest.mark.parametrize("n_pairs", [1, 7, 3 * PAIRS])
    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
    def test_the_last_pair_holds(self, draw, scale, n_pairs):
        model, _, secants = draw(scale, n_pairs)
        matrix, (step, change, *_) = in_full(model.quadratic()), secants.pairs[-1]
        np.testing.assert_allclose(matrix @ step, change, rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-10)
        assert np.linalg.eigvalsh(matrix).min() > 0
        assert len(secants.pairs) == min(n_pairs, PAIRS)

    def test_one_by_one_or_at_once(self, draw):
        model, *_, secants = draw(n_pairs=0)
        (at_once, *_, given) = draw(n_pairs=5)
        for pair in given.pairs:
            model.quadratic()
            secants.learn(*pair[:2], 1.0)
        found, expected = (in_full(each.quadratic()) for each in (model, at_once))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-10)

    @pytest.mark.parametrize("wrong", [0.0, 1e-7])
    def test_what_a_model_knows_already_takes_no_terms(self, draw, wrong):
        model, _, secants = draw(n_pairs=0)
        step = np.random.default_rng(2).normal(size=P)
        change = model._times(step)
        secants.learn(step, change * (1.0 + wrong * np.arange(P)), 1.0)
        assert len(model.quadratic().sign) == (2 if wrong else 0)
        assert model._learnt.n_applied == 1

    @pytest.mark.parametrize("bend", [0.0, -1.0, 1e-6])
    def test_it_stays_positive(self, draw, bend):
        """Where slopes changed the wrong way, or hardly."""
        model, _, secants = draw()
        step, change, *_ = secants.pairs[0]
        secants.learn(step, bend * change, 1.0)
        matrix = in_full(model.quadratic())
        assert np.linalg.eigvalsh(matrix).min() > 0
        assert step @ matrix @ step > 0

    def test_they_are_followed_as_they_would_be_written_out(self, draw):
        """G + y y' / s'y - G s s'G / s'Gs, pair by pair."""
        model, _, secants = draw()
        expected = np.column_stack([model._times(unit) for unit in np.eye(P)])
        for step, change, *_ in secants.pairs:
            product = expected @ step
            expected = expected + np.outer(change, change) / (step @ change)
            expected -= np.outer(product, product) / (step @ product)
        found = model.quadratic()
        np.testing.assert_allclose(in_full(found), expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(found.times(step), expected @ step, rtol=1e-8, atol=1e-8)
