"""Information criteria: those of R without a penalty, and degrees of freedom against the oracle."""

import pickle

import numpy as np
import pytest
from faces import CODE, COUNT, FACES, IS_CASE, OFFSET, STRATA, TIME, X
from oracles.reference_glm import glm_direct
from oracles.reference_likelihoods import cox_direct, information, model_hessian
from scipy.special import comb, gammaln
from sksurv.datasets import load_gbsg2

from sksurvgpu import (
    MCP,
    SCAD,
    CoxLassoCCD,
    Fused,
    GroupLasso,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    fit_path,
    information_criteria,
    surv,
)
from sksurvgpu.penalties import PenaltySpec
from sksurvgpu.routes import Route

DENSE = X.toarray()


@pytest.fixture(scope="module")
def cancer():
    table, y = load_gbsg2()
    columns = table[["age", "tsize", "pnodes", "progrec", "estrec"]] / [10, 10, 10, 100, 100]
    return columns.assign(horTh=table["horTh"] == "yes"), y


def test_without_a_penalty_they_are_those_of_r(cancer):
    """AIC() and BIC() of coxph(ties="breslow"), glm and lm, survival 3.5-3 and R 4.2."""
    table, y = cancer
    X, event, time = table.to_numpy(float), y["cens"], y["time"]
    no_nodes = np.delete(X, 2, axis=1)
    expected = {
        CoxLassoCCD: (X, surv(event, time), 3495.77596173, 3517.97862317),
        LogisticCCD: (X, event, 880.756615500, 912.472758894),
        PoissonCCD: (no_nodes, 10 * X[:, 2], 4709.42972985, 4736.61499562),
        LinearCCD: (X, np.log(time), 1667.16379558, 1703.41081660),
    }
    for cls, (columns, outcome, aic, bic) in expected.items():
        model = cls(alpha=0.0, tol=1e-10).fit(columns, outcome)
        criteria = information_criteria(model, columns, outcome)
        if cls is PoissonCCD:  # whose log-likelihood is without this constant
            criteria = criteria + 2 * gammaln(outcome + 1).sum()
        np.testing.assert_allclose(criteria[["aic", "bic"]], [aic, bic], rtol=1e-9)


def test_degrees_of_freedom_of_a_ridge_are_those_of_survival(cancer):
    """coxph(Surv(time, event) ~ ridge(..., theta=20, scale=FALSE), ties="breslow")$df."""
    X, y = cancer[0].to_numpy(float), surv(cancer[1]["cens"], cancer[1]["time"])
    model = CoxLassoCCD(alpha=20 / len(y), l1_ratio=0.0, tol=1e-10).fit(X, y)
    assert model.coef_[2] == pytest.approx(0.45219676240056, rel=1e-8)
    assert information_criteria(model, X, y)["df"] == pytest.approx(5.44538311793, rel=1e-8)


def information_of(name, model):
    """Information of all columns, by the oracle, for an outcome with offset."""
    eta = DENSE @ model.coef_ + OFFSET
    if name == "cox":
        return information(DENSE, cox_direct(eta, TIME, CODE == 1, strata=STRATA))
    y = {"logistic": IS_CASE * 1.0, "poisson": COUNT, "linear": FACES["linear"].y}[name]
    family = {"linear": "gaussian"}.get(name, name)
    evaluation = glm_direct(eta + model.intercept_, y, family)
    return DENSE.T @ model_hessian(evaluation.h, evaluation.stratum) @ DENSE


@pytest.mark.parametrize("l1_ratio", [1.0, 0.6, 0.0])
@pytest.mark.parametrize("name", ["cox", "logistic", "poisson", "linear"])
def test_degrees_of_freedom_are_the_trace_of_the_smoother(name, l1_ratio):
    face, factor = FACES[name], np.where(np.arange(12) == 4, 0.0, 1.0)
    rows = {"offset": OFFSET} | ({"strata": STRATA} if name == "cox" else {})
    bounds = {0: (-0.05, 0.05)}
    model = face.make(l1_ratio=l1_ratio, penalty_factor=factor, bounds=bounds)
    model.fit(X, face.y, **rows)
    criteria = information_criteria(model, X, face.y, **rows)
    free = np.flatnonzero((model.coef_ != 0) & (np.abs(model.coef_) != 0.05))
    assert np.abs(model.coef_).max() > 0.05 and 0 < len(free) < 12
    H = information_of(name, model)[np.ix_(free, free)]
    D = np.diag(len(face.y) * model.alpha * (1 - l1_ratio) * factor[free])
    df = np.trace(H @ np.linalg.inv(H + D)) + {"cox": 0, "linear": 2}.get(name, 1)
    assert criteria["df"] == pytest.approx(df, rel=1e-6)
    assert (criteria["df"] == round(df)) == (l1_ratio == 1)


@pytest.mark.parametrize("name", list(FACES))
def test_a_path_says_what_its_fits_do(name):
    face = FACES[name]
    path = fit_path(face.make(l1_ratio=0.5), X, face.y, alphas=[0.1, 0.02], **face.rows)
    path = pickle.loads(pickle.dumps(path))
    table = path.information_criteria(X, face.y, gamma=0.5, **face.rows)
    for i in range(2):
        alone = information_criteria(path.at(i), X, face.y, gamma=0.5, **face.rows)
        np.testing.assert_allclose(table.iloc[i], alone, rtol=1e-9)
    weight, n = face.rows["sample_weight"], table["bic"] - table["aic"]
    events = {"cox": CODE == 1, "fine-gray": CODE == 1, "conditional logistic": IS_CASE}
    counted = events.get(name, COUNT if name in ("case series", "conditional poisson") else 1)
    expected = table["df"] * (np.log((weight * counted).sum()) - 2)
    np.testing.assert_allclose(n, expected, rtol=1e-9)
    n_selected = np.count_nonzero(path.coefs, axis=0)
    extra = table["ebic"] - table["bic"]
    np.testing.assert_allclose(extra, np.log(comb(12, n_selected)), rtol=1e-9, atol=1e-9)
    halved = path.information_criteria(X, face.y, n_observations=7.0, **face.rows)
    np.testing.assert_allclose(
        halved["bic"] - halved["aic"], table["df"] * (np.log(7.0) - 2), rtol=1e-9
    )


@pytest.mark.parametrize("criterion", ["aic", "bic", "ebic"])
def test_best_is_the_fit_with_the_least(criterion):
    face = FACES["logistic"]
    path = fit_path(face.make(penalty_factor={0: 0.0}), X, face.y, n_alphas=20)
    table = path.information_criteria()
    best = path.best(criterion)
    assert best.alpha == table["alpha"][table[criterion].argmin()]
    assert 0 < np.count_nonzero(best.coef_) < 12
    np.testing.assert_array_equal(best.coef_, path.estimator(best.alpha).coef_)


def test_constant_columns_have_no_degree_of_freedom():
    face, wide = FACES["cox"], np.column_stack([DENSE[:, :3], np.ones(len(DENSE))])
    model = CoxLassoCCD(alpha=0.0).fit(wide, face.y)
    assert information_criteria(model, wide, face.y)["df"] == 3
    ridge = CoxLassoCCD(alpha=0.1, l1_ratio=0.0).fit(wide, face.y)
    df = information_criteria(ridge, wide, face.y)["df"]
    without = CoxLassoCCD(alpha=0.1, l1_ratio=0.0).fit(wide[:, :3], face.y)
    assert df == pytest.approx(information_criteria(without, wide[:, :3], face.y)["df"])


def test_coefficients_at_their_prior_means_are_not_free():
    face, mean = FACES["cox"], {1: 0.3, 2: -0.2}
    model = face.make(prior_mean=mean, alpha=0.03).fit(X, face.y)
    moved = model.coef_ != np.array([mean.get(j, 0.0) for j in range(12)])
    criteria = information_criteria(model, X, face.y)
    assert 0 < moved.sum() < np.count_nonzero(model.coef_)
    assert criteria["df"] == moved.sum()
    extra = 2 * np.log(comb(12, moved.sum()))
    assert criteria["ebic"] - criteria["bic"] == pytest.approx(extra)
    path = fit_path(face.make(prior_mean=mean), X, face.y, alphas=[0.03])
    np.testing.assert_allclose(path.information_criteria().iloc[0], criteria, rtol=1e-9)


def test_groups_have_the_curvature_of_their_norms():
    face, label = FACES["logistic"], np.repeat([0, 1, 2, 3], 3)
    model = face.make(penalty=GroupLasso(label), alpha=0.02).fit(X, face.y, offset=OFFSET)
    D = np.zeros((12, 12))
    for g in range(4):
        some = np.flatnonzero(label == g)
        norm = np.linalg.norm(model.coef_[some])
        if norm > 0:
            u = model.coef_[some] / norm
            slope = 240 * 0.02 * np.sqrt(3) / norm
            D[np.ix_(some, some)] = slope * (np.eye(3) - np.outer(u, u))
    kept = np.flatnonzero(model.coef_)
    assert 0 < len(kept) < 12
    H, D = information_of("logistic", model)[np.ix_(kept, kept)], D[np.ix_(kept, kept)]
    df = 1 + np.trace(H @ np.linalg.inv(H + D))
    assert information_criteria(model, X, face.y, offset=OFFSET)["df"] == pytest.approx(df)


@pytest.mark.thorough
@pytest.mark.parametrize("penalty", [MCP(), SCAD()], ids=repr)
def test_concave_penalties_count_coefficients(penalty):
    face = FACES["logistic"]
    path = fit_path(face.make(penalty=penalty), X, face.y, alphas=[0.04, 0.02])
    expected = 1 + np.count_nonzero(path.coefs, axis=0)
    np.testing.assert_array_equal(path.information_criteria()["df"], expected)


class Elsewhere(Route):
    """Another way to a fit, of which nothing is known."""


class Unknown(PenaltySpec):
    """A penalty of that route."""

    def route(self, given, inner):
        return Elsewhere()


@pytest.mark.thorough
def test_penalties_that_are_not_known_are_refused():
    face = FACES["cox"]
    path = fit_path(face.make(penalty=Unknown()), X, face.y, alphas=[0.03])
    with pytest.raises(ValueError, match="under this `penalty` is not known"):
        path.best()
    fused = fit_path(face.make(penalty=Fused([(0, 1)], strength=1.0)), X, face.y, alphas=[0.03])
    with pytest.raises(ValueError, match="under this `penalty` is not known"):
        fused.best()


def test_a_linear_model_without_degrees_of_freedom_has_no_criteria():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 30)), rng.normal(size=8)
    path = fit_path(LinearCCD(), X, y, n_alphas=30)
    table = path.information_criteria()
    is_full = table["df"] >= 8
    assert is_full.any() and not is_full.all()
    np.testing.assert_array_equal(table["bic"].isna(), is_full)
    assert not is_full[np.flatnonzero(path.alphas == path.best("aic").alpha)[0]]
    full = fit_path(LinearCCD(), X, y, alphas=path.alphas[-1:])
    with pytest.raises(ValueError, match="leaves no variance"):
        full.best()


def test_bad_input():
    face = FACES["cox"]
    path = fit_path(CoxLassoCCD(l1_ratio=0.5), X, face.y, alphas=[0.1, 0.02])
    with pytest.raises(ValueError, match=r"quadratic part.* pass `X` and `y`"):
        path.information_criteria()
    with pytest.raises(ValueError, match="are not the rows of the fit"):
        path.information_criteria(X, face.y[::-1])
    with pytest.raises(ValueError, match="`criterion` is 'cp', must be one of 'aic', 'bic'"):
        path.best("cp")
    for name, value in (("gamma", 1.5), ("gamma", True), ("n_observations", 0)):
        with pytest.raises(ValueError, match=f"`{name}` is {value}"):
            path.best("bic", X, face.y, **{name: value})
    with pytest.raises(TypeError, match="`estimator` is of type Path"):
        information_criteria(path, X, face.y)
