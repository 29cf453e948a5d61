"""Fits of all likelihoods: certificates recomputed by the oracle, and routes that must agree."""

from itertools import product

import numpy as np
import pytest
from engine import BASES, use_model
from grids import thin
from models import FORMS as ALL_FORMS
from models import (
    MODELS,
    fit,
    fit_path,
    largest_gradient,
    make_batch,
    objective,
    use_form,
    violation,
)
from oracles.reference_likelihoods import duality_gap

from sksurvgpu.backends import cpu
from sksurvgpu.backends.cpu import tile_products
from sksurvgpu.data.design import tiles
from sksurvgpu.solver import models
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

TIGHT = 1e-11
# Other shapes of Fine and Gray's model differ in the weights of carried rows alone.
SAME = ("fine_gray, events first", "fine_gray, one curve", "fine_gray, curves")
NAMES = [name for name in MODELS if name not in SAME]
ALGORITHMS = ("majorized", "exact")


@pytest.fixture(params=NAMES)
def model(request):
    return MODELS[request.param]


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return request.param


FORMS = [(name, form) for name, form in ALL_FORMS if name in NAMES]
ROUTES = [(*form, base) for form in FORMS for base in BASES]


def take_route(form, base, monkeypatch):
    """Have fits take a form of the quadratic model, and a base."""
    use_form(form, monkeypatch)
    use_model(base, monkeypatch)


@pytest.fixture(params=ROUTES, ids=": ".join)
def routed_model(request, monkeypatch):
    """A model, and a route that its fits are made to take."""
    name, form, base = request.param
    take_route(form, base, monkeypatch)
    return MODELS[name]


@pytest.fixture(params=thin(4, [(route,) for route in ROUTES]))
def some_routed_model(request, monkeypatch):
    name, form, base = request.param
    take_route(form, base, monkeypatch)
    return MODELS[name]


@pytest.fixture(params=[*ROUTES, *((name, "exact") for name in NAMES)], ids=": ".join)
def any_way(request, monkeypatch):
    """A model, and what tells its fits a way to the optimum: a route, or the exact algorithm."""
    name, *route = request.param
    if route == ["exact"]:
        return MODELS[name], {"algorithm": "exact"}
    take_route(*route, monkeypatch)
    return MODELS[name], {}


def null_score(model, sample, root):
    """Largest score of any column at zero coefficients, in units of `root`."""
    return (violation(model, sample, np.zeros(len(root)), 0.0) / root).max()


def check_optimum(solution, model, sample, lam, tolerance, **penalty):
    """The oracle agrees that this is the optimum, and what its value is."""
    scale = largest_gradient(model, sample)
    violations = violation(model, sample, solution.coef, lam, **penalty)
    worst, root = violations.max(), solution.null.root
    assert solution.converged
    assert (violations / root).max() <= tolerance("kkt") * null_score(model, sample, root)
    value = objective(model, sample, solution.coef, lam, **penalty)
    assert abs(solution.objective - value) <= 1e-11 * max(1.0, abs(value))
    loglik = model.reference_at(sample, solution.coef).loglik
    assert abs(solution.loglik - loglik) <= 1e-11 * max(1.0, abs(loglik))
    if lam > 0 and "factor" not in penalty:
        assert abs(solution.kkt - worst) <= 1e-9 * scale


PENALTIES = [(1.0, 0.3), (1.0, 0.02), (0.5, 0.05), (0.0, 0.5)]  # share of the lasso, size


@pytest.mark.thorough(but=r"efron|strata and curves|conditional_logistic: many|origin")
def test_certificate_of_routes(routed_model, tolerance):
    sample = routed_model.sample(30, p=20)
    largest = largest_gradient(routed_model, sample)
    for l1_ratio, share in PENALTIES:
        solution = fit(routed_model, sample, share * largest, l1_ratio=l1_ratio)
        penalty = share * largest, tolerance
        check_optimum(solution, routed_model, sample, *penalty, l1_ratio=l1_ratio)


def test_certificate_of_the_exact_algorithm(model, tolerance, check_close):
    sample = model.sample(31, p=8)
    largest = largest_gradient(model, sample)
    for l1_ratio, share in PENALTIES:
        lam, args = share * largest, {"l1_ratio": l1_ratio, "tol": TIGHT}
        exact = fit(model, sample, lam, algorithm="exact", max_iter=5000, **args)
        check_optimum(exact, model, sample, lam, tolerance, l1_ratio=l1_ratio)
        check_close(exact.coef, fit(model, sample, lam, **args).coef, "coef")


def test_unpenalized(model, algorithm, tolerance):
    sample = model.sample(32, p=3)
    solution = fit(model, sample, 0.0, algorithm=algorithm, tol=1e-9)
    check_optimum(solution, model, sample, 0.0, tolerance)
    assert (solution.coef != 0).all()
    assert np.isnan(solution.gap)


@pytest.mark.thorough(but=r"breslow: few|fine_gray: one|logistic: few|poisson: one|exact")
def test_factors(any_way, tolerance):
    model, way = any_way
    sample = model.sample(33, p=8)
    factor = np.random.default_rng(33).uniform(0.2, 3.0, size=8)
    factor[:2] = 0.0
    lam = 0.1 * largest_gradient(model, sample)
    args = {"factor": factor, "l1_ratio": 0.7}
    solution = fit(model, sample, lam, tol=1e-8, **way, **args)
    check_optimum(solution, model, sample, lam, tolerance, **args)
    assert (solution.coef[:2] != 0).all()
    assert np.isnan(solution.gap)


def test_what_converged_promises(model, algorithm):
    """In standard errors of the oracle's null model; and no residual is large beside a penalty."""
    sample, factor = model.sample(41, p=6), np.array([0.0, 1.0, 2.0, 1.0, 0.5, 1.0])
    sample = sample.with_(X=sample.X * 10.0 ** np.array([5, 0, -4, 0, 0, 3]))
    factor *= 10.0 ** np.array([0, 0, -4, 0, 0, 3])
    null = fit(model, sample, 1e9, factor=factor, tol=1e-11)
    hessian = model.exact_hessian(sample, sample.eta(null.coef))
    root = np.sqrt(np.diag(sample.X.T @ hessian @ sample.X))
    for lam, tol in product((1.0, 1e-3), (1e-3, 1e-6)):
        solution = fit(model, sample, lam, factor=factor, algorithm=algorithm, tol=tol)
        assert solution.converged
        close = 0.05 if model.twice else 1e-3  # whose quadratic model is near the Hessian
        assert (solution.null.root >= (1 - close) * root).all()
        if model.exact or model.twice:
            np.testing.assert_allclose(solution.null.root, root, rtol=close)
        largest = (violation(model, sample, null.coef, 0.0) / root)[1:].max()
        left = violation(model, sample, solution.coef, lam, factor=factor)
        assert (left / root).max() <= 1.2 * tol * min(largest, 100.0)
        assert (left[1:] <= 0.0101 * lam * factor[1:]).all()


@pytest.mark.thorough(but=r"efron: one|fine_gray: few|conditional_poisson: few|logistic: one|exact")
def test_fixed_columns_are_offsets(any_way, check_close):
    model, way = any_way
    sample = model.sample(34, p=6)
    start = np.zeros((6, 1))
    start[[1, 4], 0] = [0.7, -0.4]
    fixed = start != 0
    free = ~fixed[:, 0]
    lam = 0.05 * largest_gradient(model, sample)
    args = {"tol": TIGHT, **way}
    held = fit(model, sample, lam, coef=start, fixed=fixed, **args)
    moved = sample.with_(X=sample.X[:, free], offset=sample.offset + sample.X @ start[:, 0])
    expected = fit(model, moved, lam, **args)
    assert (held.coef[~free] == start[~free, 0]).all()
    check_close(held.coef[free], expected.coef, "coef")
    check_close(held.loglik, expected.loglik, "loglik")


@pytest.mark.thorough(but=r"-0\.5\]|efron|curves")
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.0])
def test_gap_bounds_the_distance_to_the_optimum(model, l1_ratio):
    sample = model.sample(35, p=10)
    lam = 0.05 * largest_gradient(model, sample)
    best = fit(model, sample, lam, l1_ratio=l1_ratio, tol=TIGHT)
    highest = model.highest(sample)
    assert 0 <= best.gap <= 1e-8 * max(1.0, abs(best.objective))
    for max_iter in range(4):
        early = fit(model, sample, lam, l1_ratio=l1_ratio, tol=TIGHT, max_iter=max_iter)
        assert early.gap >= early.objective - best.objective - 1e-11 * abs(best.objective)
        evaluation = model.reference_at(sample, early.coef)
        expected = duality_gap(sample.X, evaluation, early.coef, lam, l1_ratio, highest=highest)
        np.testing.assert_allclose(early.gap, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.thorough
def test_objective_never_rises(any_way):
    """Strong effects and far starts: full steps of the local model overshoot."""
    model, way = any_way
    for seed in range(3):
        sample = model.sample([36, seed], p=8, offset=False)
        sample = sample.with_(X=2.0 * sample.X)
        start = 0.5 * np.random.default_rng([37, seed]).normal(size=(8, 1))
        lam = 0.01 * largest_gradient(model, sample)
        solution = fit(model, sample, lam, l1_ratio=0.8, coef=start, **way)
        assert solution.converged
        steps = np.diff(solution.objectives)
        assert steps.max(initial=0.0) <= 1e-12 * np.abs(solution.objectives).max()
        first = objective(model, sample, start[:, 0], lam, l1_ratio=0.8)
        np.testing.assert_allclose(solution.objectives[0], first, rtol=1e-10)


@pytest.mark.parametrize("is_free", [False, True], ids=["all penalized", "one free"])
def test_lam_max(model, is_free):
    sample = model.sample(38, p=8)
    factor = np.random.default_rng(38).uniform(0.5, 2.0, size=8)
    factor[2] = 0.0 if is_free else 1.0
    args = {"l1_ratio": 0.5, "factor": factor, "tol": 1e-9}
    lam_max = fit(model, sample, 1.0, **args).lam_max
    at, below = (fit(model, sample, lam_max * s, **args).coef for s in (1 + 1e-7, 0.99))
    penalized = factor > 0
    assert (at[penalized] == 0).all()
    assert np.count_nonzero(below[penalized]) == 1
    assert (at[~penalized] != 0).all()


@pytest.mark.thorough
def test_sequence_is_the_separate_fits(some_routed_model, check_close):
    model = some_routed_model
    sample = model.sample(39, p=12)
    lambdas = largest_gradient(model, sample) * np.array([0.9, 0.2, 0.05, 0.1])
    together = fit_path(model, sample, lambdas, tol=1e-10)
    for lam, solution in zip(lambdas, together, strict=True):
        alone = fit(model, sample, lam, tol=1e-10)
        assert solution.lam == lam
        check_close(solution.coef, alone.coef, "coef")
        check_close(solution.objective, alone.objective, "loglik")


@pytest.mark.thorough
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_routes_are_taken(name, form, base, monkeypatch):
    """Bases are what tests have asked for, in every iteration."""
    take_route(form, base, monkeypatch)
    kinds, take = [], models.LocalModel.take.__func__

    def watch(kind, *arguments):
        kinds.append(kind.__name__)
        return take(kind, *arguments)

    monkeypatch.setattr(models.LocalModel, "take", classmethod(watch))
    model = MODELS[name]
    sample = model.sample(40, p=10)
    fit(model, sample, 0.02 * largest_gradient(model, sample), tol=1e-10)
    expected = {"diagonal": "Diagonal", "sample": "SampledMatrix", "matrix": "OwnMatrix"}[base]
    assert {*kinds} == {expected} or (base == "diagonal" and not kinds)


@pytest.mark.thorough
def test_warm_start_at_the_optimum_stays(any_way):
    model, way = any_way
    sample = model.sample(41, p=8)
    lam = 0.05 * largest_gradient(model, sample)
    first = fit(model, sample, lam, **way)
    again = fit(model, sample, lam, coef=first.coef[:, None], **way)
    assert again.n_iter == 0
    np.testing.assert_array_equal(again.coef, first.coef)


def test_a_start_from_elsewhere_ends_at_the_optimum(model, check_close):
    sample = model.sample(42, p=6)
    lam = 0.1 * largest_gradient(model, sample)
    expected = fit(model, sample, lam, tol=TIGHT)
    solution = fit(model, sample, lam, tol=TIGHT, coef=np.full((6, 1), 3.0))
    check_close(solution.coef, expected.coef, "coef")


def assert_same_bits(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.coef, b.coef)
        numbers = ("objective", "kkt", "n_iter", "lam_max", "gap")
        for name in numbers:
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), name)
        np.testing.assert_array_equal(a.baseline, b.baseline)


def unlike_fits(model, sample, n_fits):
    """A batch whose fits differ in everything that may differ."""
    rng, p = np.random.default_rng(43), sample.X.shape[1]
    weight = rng.choice([0.0, 1.0, 1.0, 2.5], size=(sample.n, n_fits))
    if model.weighs_groups:
        weight = weight[model.group_of(sample)]
    fixed = rng.random((p, n_fits)) < 0.15
    return Batch(
        lambdas=largest_gradient(model, sample) * rng.uniform(0.02, 0.5, size=(2, n_fits)),
        factor=rng.uniform(0.5, 2, size=(p, n_fits)),
        weight=weight,
        offset=rng.normal(size=(sample.n, n_fits)),
        coef=np.where(rng.random((p, n_fits)) < 0.4, rng.normal(size=(p, n_fits)), 0.0),
        fixed=fixed,
    )


def one_of(batch, b):
    def cut(values):
        return values[:, b : b + 1]

    return Batch(
        cut(batch.lambdas),
        batch.penalty,
        batch.factor[:, b],
        cut(batch.weight),
        cut(batch.offset),
        cut(batch.coef),
        cut(batch.fixed),
    )


@pytest.mark.thorough
def test_a_batch_is_its_fits(some_routed_model):
    model = some_routed_model
    sample = model.sample(44, p=10)
    batch, problem = unlike_fits(model, sample, 4), model.problem(sample)
    apart = [Fits(problem, one_of(batch, b), cpu, Options(), 1).solve()[0] for b in range(4)]
    for n_threads in (1, 2):
        together = Fits(problem, batch, cpu, Options(), n_threads).solve()
        assert len(together) == 4
        for fits, expected in zip(together, apart, strict=True):
            assert_same_bits(fits, expected)
    assert not np.array_equal(apart[0][0].coef, apart[1][0].coef)


@pytest.mark.thorough
def test_any_number_of_threads(some_routed_model, monkeypatch):
    monkeypatch.setattr(tile_products, "ENTRIES_A_THREAD", 16)
    monkeypatch.setattr(tiles, "SIZES", (16,))
    monkeypatch.setattr(tiles, "ENTRIES", 0)
    model = some_routed_model
    sample = model.sample(45, p=25)
    lam = 0.05 * largest_gradient(model, sample)
    alone = fit(model, sample, lam)
    for n_threads in (2, 7):
        assert_same_bits([alone], [fit(model, sample, lam, n_threads=n_threads)])


def test_two_fits_of_one_batch_object_agree(model):
    sample = model.sample(46, p=5)
    problem, batch = model.problem(sample), make_batch(sample, 1.0)
    first = Fits(problem, batch, cpu).solve()[0]
    assert_same_bits(first, Fits(problem, batch, cpu).solve()[0])
