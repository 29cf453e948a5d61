"""Broken adaptive ridges: their equations, ridges by hand, R's Cyclops; folds and paths."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from engine import dense, make_batch
from faces import FACES, P, X
from models import MODELS
from oracles.cases import load
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sksurvgpu import (
    BrokenRidge,
    CoxLassoCCD,
    CoxLassoCV,
    LinearCCD,
    LogisticCCD,
    LogisticCV,
    PoissonCCD,
    bootstrap,
    certificate,
    fit_path,
    surv,
)
from sksurvgpu.backends import cpu
from sksurvgpu.data.simulate.draw import generator
from sksurvgpu.penalties import Given
from sksurvgpu.routes import PLAIN
from sksurvgpu.solver.fits import Fits, Options

ALPHA = 0.001
FACTOR = np.where(np.arange(P) == 2, 0.0, 1.0 + np.arange(P) % 3)
MEAN = np.where(np.arange(P) % 4 == 1, 0.2, 0.0)
CASES = load("broken_ridge.json")["cases"]
CLASSES = {"lr": LogisticCCD, "pr": PoissonCCD, "cox": CoxLassoCCD}


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


def function_of(face, model):
    """Mean log-likelihood of the fit's rows at any coefficients."""
    given = {"sample_weight": None, **face.arguments()}
    moved = clone(model).fit(X, face.y, **face.arguments())

    def loglik(coef):
        moved.coef_ = coef
        return moved.log_likelihood(X, face.y, **given) / len(face.y)

    return loglik


@pytest.mark.mostly_slow(but=r"\[(cox|logistic|case series)\]")
def test_fits_are_local_minima_on_their_support(face):
    penalty = BrokenRidge(start=0.05)
    given = {"penalty": penalty, "alpha": ALPHA, "penalty_factor": FACTOR, "prior_mean": MEAN}
    model = face.fit(**given)
    away = model.coef_ - MEAN
    assert model.converged_ and model.kkt_se_ <= model.kkt_se_bound_
    assert 1 < np.count_nonzero(away) < P and away[2] != 0
    loglik, step = function_of(face, model), 1e-6
    slope = np.array(
        [loglik(model.coef_ + d) - loglik(model.coef_ - d) for d in step * np.eye(P)]
    ) / (2 * step)
    is_in = (away != 0) & (FACTOR > 0)
    slope[is_in] -= ALPHA * FACTOR[is_in] / away[is_in]
    assert np.abs(slope[away != 0]).max() < 1e-7

    def objective(coef):
        return ALPHA * FACTOR[is_in] @ np.log(np.abs(coef - MEAN)[is_in]) - loglik(coef)

    assert model.objective_ == pytest.approx(objective(model.coef_), rel=1e-9)
    for move in 0.03 * np.random.default_rng(0).normal(size=(10, P)):
        assert objective(model.coef_ + move * away) > model.objective_
    assert np.isnan(model.dual_gap_) and np.isnan(model.alpha_max_)


def repeat_ridges(model, sample, lam, start):
    """Newton's method for every ridge, over dense matrices, until nothing changes."""
    columns, coef = dense(sample.X), np.zeros(sample.X.shape[1])
    weight, is_in = np.full(len(coef), start), np.ones(len(coef), bool)
    for _ in range(3_000):
        before = coef.copy()
        for _ in range(50):
            eta = sample.eta(coef)
            slope = columns.T @ model.reference(sample, eta).u - weight * coef
            hessian = columns.T @ model.exact_hessian(sample, eta) @ columns + np.diag(weight)
            step = np.zeros(len(coef))
            step[is_in] = np.linalg.solve(hessian[np.ix_(is_in, is_in)], slope[is_in])
            coef = coef + step
            if np.abs(step).max() < 1e-13:
                break
        is_in &= np.abs(coef) > 1e-9
        coef = np.where(is_in, coef, 0.0)
        weight[is_in] = lam / coef[is_in] ** 2
        if np.abs(coef - before).max() < 1e-12:
            return coef
    raise AssertionError("no limit")


@pytest.mark.mostly_slow(but=r"efron|curves|conditional|poisson\]|logistic\]|origin")
@pytest.mark.parametrize("name", MODELS)
def test_it_is_the_limit_of_ridges(name, check_close):
    model, p, lam, start = MODELS[name], 4, 0.3, 2.0
    sample = model.sample(5, p=p)
    given = Given(np.arange(p), None, np.ones(p), 1.0, None, None)
    route = BrokenRidge(start=start).route(given, PLAIN)
    batch = make_batch(sample, [2 * lam, lam], factor=np.ones(p), total=np.ones(1))
    [[_, solution]] = route.solve(Fits(model.problem(sample), batch, cpu, Options(tol=1e-9)))
    assert solution.converged
    expected = repeat_ridges(model, sample, lam, start)
    np.testing.assert_array_equal(solution.coef == 0, expected == 0)
    check_close(solution.coef, expected, "coef")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['dataset']} {case['variance']}")
def test_equals_cyclops(case, check_close):
    is_cox = case["model"] == "cox"
    data = load("coxph.json" if is_cox else "glm.json")["datasets"][case["dataset"]]
    columns = np.column_stack([np.array(column, float) for column in data["X"].values()])
    y = surv(np.array(data["event"], bool), data["time"]) if is_cox else np.array(data["y"])
    alpha, start = (1.0 / (case[name] * len(y)) for name in ("variance", "start"))
    model = CLASSES[case["model"]](alpha=alpha, penalty=BrokenRidge(start=start), tol=1e-10)
    check_close(model.fit(columns, y).coef_, case["coefficients"], "other package")


def test_what_needs_no_penalty_is_a_fit_without(face):
    model = face.fit(alpha=0.0, penalty=BrokenRidge())
    np.testing.assert_allclose(model.coef_, face.fit(alpha=0.0).coef_, atol=1e-7)


def test_starts():
    """The default start makes the predictor's variance 1, which is that of a pilot."""
    face = FACES["linear"]
    model = face.fit(alpha=ALPHA, penalty=BrokenRidge())
    start = X.toarray().var(axis=0).sum() / len(face.y)
    given = face.fit(alpha=ALPHA, penalty=BrokenRidge(start=start))
    np.testing.assert_allclose(model.coef_, given.coef_, atol=1e-8)
    ridge = face.fit(alpha=start, l1_ratio=0.0)
    np.testing.assert_allclose(given.pilot_coef_, ridge.coef_, atol=1e-8)
    in_units = face.fit(1e3 * X, alpha=ALPHA, penalty=BrokenRidge())
    np.testing.assert_allclose(1e3 * in_units.coef_, model.coef_, atol=1e-8)


def test_a_column_alone_stays_by_its_z_score():
    """Of a standardized column z^2 >= 4 W alpha, the root of a quadratic equation."""
    x = np.repeat([-1.0, 1.0], 50)[:, None]
    y = 0.4 * x[:, 0] + np.tile([-1.0, 1.0], 50)
    for alpha, expected in ((0.0399, 0.2 + np.sqrt(0.04 - 0.0399)), (0.0401, 0.0)):
        model = LinearCCD(alpha=alpha, penalty=BrokenRidge(start=1e-6), tol=1e-10).fit(x, y)
        np.testing.assert_allclose(model.coef_, expected, atol=1e-7)


def test_exact_steps_and_warm_starts_change_nothing():
    face = FACES["cox"]
    model = face.make(alpha=ALPHA, penalty=BrokenRidge(), warm_start=True).fit(X, face.y)
    first = model.coef_
    assert first.any()
    np.testing.assert_array_equal(model.fit(X, face.y).coef_, first)
    exact = face.fit(alpha=ALPHA, penalty=BrokenRidge(), algorithm="exact")
    np.testing.assert_allclose(exact.coef_, first, atol=1e-8)


@pytest.mark.mostly_slow(but=r"\[(cox|linear|conditional logistic)\]")
def test_every_penalty_of_a_path_has_its_own_start(face):
    alphas = [1.0, 0.02, 0.002, 0.0003]
    path = fit_path(face.make(penalty=BrokenRidge()), X, face.y, alphas=alphas, **face.arguments())
    assert path.converged.all() and path.df[0] == 0 < path.df[2] < path.df[-1]
    for k, alpha in enumerate(alphas):
        single = face.fit(alpha=alpha, penalty=BrokenRidge())
        np.testing.assert_allclose(path.coefs[:, k], single.coef_, atol=1e-7)
    assert np.isnan(path.alpha_max)


def test_folds_start_from_their_own_rows():
    """Few penalties far apart, where fits of all rows would lend the splits their models."""
    face, alphas = FACES["logistic"], [0.02, 0.002, 0.0003]
    folds = np.arange(len(face.y)) % 6
    cv = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(6)]
    given = {"penalty": BrokenRidge(), "tol": 1e-10}
    chosen = LogisticCV(alphas=alphas, cv=cv, **given).fit(X, face.y)
    table = chosen.cv_results_
    np.testing.assert_allclose(table["variance"], 1.0 / (table["alpha"] * len(face.y)))
    for alpha in alphas:
        row = table[np.isclose(table["alpha"], alpha)]
        for k, (train, test) in enumerate(cv):
            model = LogisticCCD(alpha=alpha, **given).fit(X[train], face.y[train])
            score = model.predict_log_proba(X[test])
            of = (face.y[test] == model.classes_[1]).astype(int)
            mean = score[np.arange(len(test)), of].mean()
            np.testing.assert_allclose(row[f"split{k}_score"], mean, atol=1e-7)


def test_replicates_start_from_their_own_rows():
    face = FACES["cox"]
    given = face.make(alpha=ALPHA, penalty=BrokenRidge())
    drawn = bootstrap(given, X, face.y, n_replicates=3, random_state=1, kind="exponential")
    seed = int(generator(1).integers(2**63))
    weight = np.random.default_rng([seed, 2]).standard_exponential(len(face.y))
    alone = clone(given).fit(X, face.y, sample_weight=weight)
    assert drawn.coefs.any(axis=0).all()
    np.testing.assert_allclose(drawn.coefs[:, 2], alone.coef_, atol=1e-7)


def test_it_is_a_parameter_like_others():
    face = FACES["logistic"]
    model = face.make(alpha=ALPHA, penalty=BrokenRidge())
    search = GridSearchCV(model, {"penalty__start": [0.01, 0.1, None]}, cv=3).fit(X, face.y)
    assert search.best_estimator_.penalty.start == search.best_params_["penalty__start"]
    read = pickle.loads(pickle.dumps(clone(model).fit(X, face.y)))
    np.testing.assert_array_equal(read.coef_, model.fit(X, face.y).coef_)
    assert repr(BrokenRidge(start=0.1)) == "BrokenRidge(start=0.1)"


def test_it_stops_where_it_is_told():
    model = FACES["linear"].make(alpha=ALPHA, penalty=BrokenRidge(), max_iter=6)
    with pytest.warns(ConvergenceWarning, match="did not converge in 6 iteration"):
        model.fit(X, FACES["linear"].y)
    assert not model.converged_


FACE = FACES["cox"]
BROKEN = {"penalty": BrokenRidge()}


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: FACE.fit(penalty=BrokenRidge(0)), "`start` is 0, must be the positive"),
        (lambda: FACE.fit(penalty=BrokenRidge("1")), "`start` is '1', must be the positive"),
        (lambda: FACE.fit(penalty=BrokenRidge(True)), "`start` is True, must be the positive"),
        (lambda: FACE.fit(**BROKEN, l1_ratio=0.5), "BrokenRidge, which does not go with `l1_r"),
        (lambda: FACE.fit(**BROKEN, bounds=(0, 1)), "BrokenRidge, which does not go with `bou"),
        (lambda: fit_path(FACE.make(**BROKEN), X, FACE.y), "`penalty` selects nothing.*`alphas`"),
        (lambda: CoxLassoCV(**BROKEN).fit(X, FACE.y), "`penalty` selects nothing.*`alphas`"),
        (
            lambda: CoxLassoCV(**BROKEN, search="auto").fit(X, FACE.y),
            "`penalty` selects nothing.*search='grid'",
        ),
        (
            lambda: certificate(FACE.fit(**BROKEN), X, FACE.y),
            "`penalty`, which certificate does not know",
        ),
    ],
)
def test_what_is_refused(action, message):
    with pytest.raises(ValueError, match=message):
        action()
