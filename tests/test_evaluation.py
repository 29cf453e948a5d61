"""All likelihoods against their oracles: log-likelihood, u, h, the quadratic model, exact steps."""

import numpy as np
import pytest
import scipy.sparse as sp
from engine import dense
from models import (
    FORMS,
    MODELS,
    best_intercept,
    gradient,
    open_rows,
    open_session,
    use_form,
)
from oracles.reference_glm import glm_direct
from oracles.reference_likelihoods import (
    baseline,
    bin_hessian,
    difference_hessian,
    model_hessian,
)

from sksurvgpu.likelihoods import LIKELIHOODS
from sksurvgpu.penalties.elastic_net import Strengths


def test_every_likelihood_is_tested():
    assert {model.name for model in MODELS.values()} == set(LIKELIHOODS)


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@pytest.fixture(params=FORMS, ids=": ".join)
def formed_model(request, monkeypatch):
    """A model that is told which form its quadratic model has."""
    name, form = request.param
    use_form(form, monkeypatch)
    return MODELS[name], form


def draw_eta(seed, n, spread=1.0):
    return spread * np.random.default_rng([99, *np.atleast_1d(seed)]).normal(size=n)


def compare(model, sample, eta, check_close, context=""):
    """Evaluate both ways; the session at the point, and the oracle's evaluation."""
    session, loglik, problem = open_rows(model, sample, eta)
    expected = model.reference(sample, sample.with_(X=np.eye(sample.n)).eta(eta))
    check_close(loglik, expected.loglik, "loglik", context=context)
    check_close(gradient(session), expected.u, "u", context=context)
    return session, expected, problem


@pytest.mark.thorough(but=r"8\.0-weights|1\.0-plain")
@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weights"])
@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_evaluation(model, weights, spread, check_close):
    for seed in range(4):
        sample = model.sample([1, seed], weights=weights)
        compare(model, sample, draw_eta(seed, sample.n, spread), check_close, f"seed {seed}")


def test_gradient_is_the_derivative(model, check_close):
    sample = model.sample(2)
    eta = draw_eta(2, sample.n)
    session, _, _ = compare(model, sample, eta, check_close)
    u, difference = gradient(session), np.empty(sample.n)
    for i, step in enumerate(1e-5 * np.eye(sample.n)):
        difference[i] = (session.start(eta + step) - session.start(eta - step)) / 2e-5
    check_close(difference, u, "finite difference")


@pytest.mark.thorough(but=r"--1")
@pytest.mark.parametrize("far", [-1e4, 1e4])
def test_rows_without_weight_are_absent(model, far, check_close):
    """Their predictors may be anything."""
    for seed in range(2):
        sample = model.sample([18, seed], offset=False)
        absent = sample.weights == 0
        if model.name == "conditional_poisson":  # within a group too
            absent = np.random.default_rng(seed).random(sample.n) < 0.2
            sample = sample.with_(weights=np.where(absent, 0.0, 1.0))
        eta = draw_eta(seed, sample.n)
        expected = model.reference(sample, eta)
        session, loglik, _ = open_rows(model, sample, np.where(absent, far, eta))
        check_close(loglik, expected.loglik, "loglik")
        check_close(gradient(session), expected.u, "u")


def test_evaluations_do_not_depend_on_those_before(model, check_close):
    """Tilts and intercepts are kept as starts of the next search, and nothing else is."""
    sample = model.sample(3)
    eta = draw_eta(3, sample.n)
    session, loglik, _ = open_rows(model, sample, eta)
    u = gradient(session)
    session.start(30.0 * eta + 5.0)
    check_close(session.start(eta), loglik, "loglik")
    check_close(gradient(session), u, "u")


def rows_and_pairs(n):
    """Columns e_i and e_i + e_j, and the i and j of the pairs: their curvatures are the matrix."""
    first, second = np.triu_indices(n, 1)
    rows, where = np.concatenate([first, second]), np.tile(np.arange(len(first)), 2)
    pairs = sp.csc_array((np.ones(len(rows)), (rows, where)))
    return sp.hstack([sp.eye_array(n), pairs], format="csc"), first, second


def expected_model(model, sample, problem, evaluation):
    """The oracle's quadratic model in the predictor."""
    if not model.by_bins:
        return model_hessian(evaluation.h, model.group_of(sample))
    plan = problem.plan
    stratum_of_cell = np.repeat(np.arange(plan.n_strata), np.diff(plan.cell_ptr))
    cells = zip(stratum_of_cell, plan.cell_time, plan.bins.cell_bin, strict=True)
    bin_of = {(s, t): k for s, t, k in cells}
    atoms = evaluation.atoms
    return bin_hessian(atoms, [bin_of[atom.stratum, atom.time] for atom in atoms])


@pytest.mark.thorough(but=r"weights|: (?!many)")  # plain in many groups has kernels of its own
@pytest.mark.parametrize("weights", [False, True], ids=["plain", "weights"])
def test_quadratic_model(formed_model, weights, check_close, tolerance):
    """It is the oracle's; no less than the Hessian, and where it is said to be exact, that."""
    model, form = formed_model
    sample = model.sample(4, weights=weights)
    n, eta = sample.n, draw_eta(4, sample.n)
    _, expected, _ = compare(model, sample, eta, check_close)
    columns, first, second = rows_and_pairs(n)
    session, _, problem = open_session(model, sample.with_(X=columns), eta)
    curvature, total = session.curvature(np.arange(problem.n_columns))
    check_close(curvature[:n, 1], expected.h, "h")
    check_close(total, expected.h.sum(), "h")
    assert problem.plan.few == (form not in ("many", "one a stratum"))
    matrix, along = np.diag(curvature[:n, 0]), curvature[:, 0]
    matrix[first, second] = 0.5 * (along[n:] - along[first] - along[second])
    matrix += np.triu(matrix, 1).T
    check_close(matrix, expected_model(model, sample, problem, expected), "curvature")

    hessian = model.exact_hessian(sample, eta + sample.offset)
    bound = 2.0 if model.twice else 1.0
    size = tolerance("curvature") * np.abs(matrix).max()
    assert np.linalg.eigvalsh(bound * matrix - hessian).min() >= -size
    if model.exact and (form == "every death" or not model.by_bins):
        assert np.abs(matrix - hessian).max() <= size


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.twice])
def test_diagonal_of_the_model_is_exact(name, check_close):
    model = MODELS[name]
    sample = model.sample(5)
    eta = draw_eta(5, sample.n, 2.0)
    session, _, _ = open_rows(model, sample, eta)
    curvature = session.curvature(np.arange(sample.n))[0][:, 0]
    expected = np.diag(model.exact_hessian(sample, eta + sample.offset))
    check_close(curvature, expected, "curvature")


FREE = [name for name, model in MODELS.items() if model.free and not name.endswith("many")]


@pytest.mark.thorough(but=r"efron|strata and curves")
@pytest.mark.parametrize("name", FREE)
def test_curvature_is_that_of_the_free_means(name, check_close):
    """u sums to zero in every group; its differences are the Hessian that the oracle knows."""
    model = MODELS[name]
    sample = model.sample(6)
    eta = draw_eta(6, sample.n)
    session, expected, _ = compare(model, sample, eta, check_close)
    sums = np.bincount(np.unique(model.group_of(sample), return_inverse=True)[1], gradient(session))
    assert np.abs(sums).max() <= 1e-11 * max(1.0, np.abs(expected.u).max())
    differences = difference_hessian(lambda at: model.reference(sample, at), eta + sample.offset)
    hessian = model.exact_hessian(sample, eta + sample.offset)
    check_close(differences, hessian, "finite difference")


@pytest.mark.thorough(but=r"mixed")
@pytest.mark.parametrize("kind", ["indicator", "valued", "dense", "mixed"])
def test_matrix_is_the_model(formed_model, kind, check_close):
    """Of columns in any order, in one go and extended by some."""
    model, _ = formed_model
    sample = model.sample(7, p=9, kind=kind)
    coef = 0.3 * draw_eta(7, 9)
    X = dense(sample.X)
    session, _, problem = open_session(model, sample, coef, n_threads=2)
    expected = X.T @ expected_model(model, sample, problem, model.reference_at(sample, coef)) @ X
    columns = np.array([4, 0, 8, 2, 7, 1, 3])
    for known in (0, 3, 6):
        session.matrix(columns[:known], 0)
        found = session.matrix(columns, known)
        check_close(found, expected[np.ix_(columns[known:], columns)], "curvature")


def derivatives(model, sample, eta):
    """Function to u and Hessian; an intercept is what is best at eta, and moves with `at`."""
    if model.groups or not model.free:
        return lambda at: (model.reference(sample, at).u, model.exact_hessian(sample, at))
    y, weights = sample.y["value"], sample.weights
    intercept = best_intercept(model.name, eta, y, weights)

    def evaluate(at):
        evaluation = glm_direct(at + intercept, y, model.name, weights)
        return evaluation.u, evaluation.hessian

    return evaluate


def test_cycle_of_exact_steps(model, check_close):
    """A cycle is a Newton step along each column at the point so far, within its reach."""
    sample = model.sample(9, p=6)
    X, coef = sample.X, 0.5 * draw_eta(9, 6)
    session, _, _ = open_session(model, sample, coef)
    l1, l2 = np.full(6, 0.3), np.full(6, 0.2)
    reach = np.array([0.05, 2.0, 2.0, 0.02, 2.0, 2.0])
    moved, wider = session.cycle(np.arange(6), coef, Strengths(l1, l2), reach)
    target, eta = coef.copy(), sample.eta(coef)
    evaluate = derivatives(model, sample, eta)
    moves_along = model.free and not model.groups  # an intercept
    total = np.trace(evaluate(eta)[1]) if moves_along else np.inf
    for j in range(6):
        u, hessian = evaluate(eta)
        mean = X[:, j] @ np.diag(hessian) / total
        curvature = X[:, j] @ hessian @ X[:, j] - (mean**2 * total if moves_along else 0.0)
        z = target[j] * curvature + X[:, j] @ u
        new = np.sign(z) * max(abs(z) - l1[j], 0.0) / (curvature + l2[j])
        step = np.clip(new - target[j], -reach[j], reach[j])
        reach[j] = max(2.0 * abs(step), 0.5 * reach[j])
        target[j] += step
        eta += (X[:, j] - mean) * step
    check_close(moved, target, "curvature")
    check_close(wider, reach, "curvature")


def test_largest_loglik(model, check_close):
    """A bound, and reached: a larger one would only loosen the duality gap."""
    sample = model.sample(10, offset=False)
    session, _, _ = open_rows(model, sample, np.zeros(sample.n))
    bound = session.largest_loglik()
    for spread in (0.1, 1.0, 5.0):
        for seed in range(10):
            loglik = session.start(draw_eta([seed, 0], sample.n, spread))
            assert loglik <= bound + 1e-12 * abs(bound)
    check_close(bound, model.highest(sample), "loglik")


@pytest.mark.thorough(but=r"efron|curves|conditional|poisson|gaussian")
def test_steps_are_bounded(model):
    """-l(eta + s v) <= -l(eta) - s u'v + v'Hv (exp(s R) - s R - 1) / R^2."""
    sample = model.sample(11, p=3)
    for seed in range(20):
        coef, move = draw_eta([seed, 1], 3), 3.0 * draw_eta([seed, 2], 3)
        session, start, _ = open_session(model, sample, coef)
        slope = gradient(session) @ move
        reach, _ = session.attempt(coef + move, np.arange(3), np.inf)
        v, hessian = sample.X @ move, model.exact_hessian(sample, sample.eta(coef))
        bend = v @ hessian @ v
        for share in (1.0, 0.3):
            size = share * reach
            growth = (np.expm1(size) - size) / reach**2 if reach else 0.5 * share**2
            risen = start - session.start(coef + share * move) + share * slope
            assert risen <= bend * growth + 1e-9 * max(1.0, abs(start))
            if not reach:  # least squares
                np.testing.assert_allclose(risen, bend * growth, rtol=1e-9)


def live_rows(session, problem):
    live = np.empty(problem.plan.n_base, bool)
    live[problem.plan.order] = session.pattern.live
    return live


def test_live_rows(model):
    """All that matter, and none without weight or of a group that contributes nothing."""
    sample = model.sample(15)
    session, _, problem = open_rows(model, sample, np.zeros(sample.n))
    live = live_rows(session, problem)
    matters = model.reference(sample, sample.offset).h > 1e-12
    assert (live | ~matters).all()
    assert not live[sample.weights == 0].any()
    if model.weighs_groups:
        group = model.group_of(sample)
        np.testing.assert_array_equal(live, np.isin(group, group[matters]))


def test_rows_without_weight_are_not_live(check_close):
    model = MODELS["conditional_poisson"]
    sample = model.sample(16, weights=False)
    present = np.random.default_rng(16).random(sample.n) < 0.7
    sample = sample.with_(weights=present.astype(float))
    session, _, problem = open_rows(model, sample, np.zeros(sample.n))
    assert not live_rows(session, problem)[~present].any()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_reach_is_the_range_of_the_move(model, sign):
    """Of rows that matter, and within a group where its mean is free."""
    sample, coef = model.sample(17, p=2), sign * np.array([0.5, -0.25])
    session, _, problem = open_session(model, sample, [0.0, 0.0])
    live = live_rows(session, problem)
    v, group = (sample.X @ coef)[live], model.group_of(sample)
    if model.free:
        expected = max(np.ptp(v[group[live] == g]) for g in np.unique(group[live]))
    else:
        expected = np.abs(v).max()
    expected = 0.0 if model.name == "gaussian" else expected
    reach, _ = session.attempt(coef, np.arange(2), np.inf)
    assert reach == pytest.approx(expected, rel=1e-12)


def test_shares_are_outcomes_of_logistic_regression(check_close):
    model = MODELS["logistic"]
    sample = model.sample(12)
    sample = sample.with_y(value=np.linspace(0.0, 1.0, sample.n))
    compare(model, sample, draw_eta(12, sample.n, 3.0), check_close)


@pytest.mark.parametrize("name", [name for name, model in MODELS.items() if model.by_bins])
def test_baseline_hazards(name, check_close):
    """Logarithms of the cumulative hazard of every stratum, at its event times."""
    model = MODELS[name]
    sample = model.sample(13)
    session, expected, problem = compare(model, sample, draw_eta(13, sample.n), check_close)
    plan = problem.plan
    for s in range(plan.n_strata):
        cells = slice(plan.cell_ptr[s] + 1, plan.cell_ptr[s + 1])
        hazard = baseline(expected, s, plan.cell_time[cells])
        np.testing.assert_allclose(np.exp(session.baseline()[cells]), hazard, rtol=1e-12)


@pytest.mark.parametrize("family", ["logistic", "poisson", "gaussian"])
def test_baseline_is_the_intercept(family, check_close):
    model = MODELS[family]
    sample = model.sample(14)
    eta = draw_eta(14, sample.n)
    session, _, _ = open_rows(model, sample, eta)
    y, weights = sample.y["value"], sample.weights
    expected = best_intercept(family, eta + sample.offset, y, weights)
    check_close(session.baseline(), expected, "loglik")
