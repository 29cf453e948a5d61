"""MCP and SCAD: minima against other routes, other software, their definition; all models."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from engine import BASES, column, dense, use_model
from faces import FACES, WEIGHT, P, X
from models import MODELS
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold

from sksurvgpu import (
    MCP,
    SCAD,
    CoxLassoCCD,
    CoxLassoCV,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    bootstrap,
    certificate,
    fit_path,
    posterior,
    surv,
)
from sksurvgpu.backends import cpu
from sksurvgpu.estimators import _prepared
from sksurvgpu.estimators._preparing import prepare
from sksurvgpu.exceptions import NothingSelectedWarning
from sksurvgpu.penalties.folded import FoldedPenalty
from sksurvgpu.solver import descend, line_search
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

ALPHA = 0.01
SHAPES = {"mcp": (0.0, 3.0), "scad": (1.0, 3.7)}  # s and k in units of l / C


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


def slope_and_value(size, l1, flat, knot):
    """Of the penalty at sizes of coefficients, by its definition."""
    slope = np.where(size <= flat, l1, l1 * np.clip((knot - size) / (knot - flat), 0.0, 1.0))
    fallen = np.clip(size, flat, knot) - flat
    value = l1 * (np.minimum(size, flat) + fallen - fallen**2 / (2 * (knot - flat)))
    return slope, value


class TestOptima:
    """Against L-BFGS-B from two starts, on the oracle's likelihoods."""

    P = 3

    def problem_of(self, name, shape):
        model = MODELS[name]
        sample = model.sample(5, p=self.P)
        flat, knot = (np.full(self.P, number) for number in SHAPES[shape])
        everywhere = np.full(self.P, np.inf)
        family = FoldedPenalty(1.0, -everywhere, everywhere, flat, knot)
        family = family.of_total(1.0).at_null(np.array([1.0, 2.0, 1.5]))
        return model, sample, family, family.strengths(1.0, np.ones(self.P))

    def least(self, model, sample, columns):
        design, p = dense(sample.X), self.P

        def objective(parts):
            coef, size = parts[:p] - parts[p:], parts[:p] + parts[p:]
            at = model.reference_at(sample, coef)
            slope, value = slope_and_value(size, columns.l1, columns.flat, columns.knot)
            g = design.T @ at.u
            return value.sum() - at.loglik, np.concatenate([slope - g, slope + g])

        found, options = [], {"ftol": 1e-15, "gtol": 1e-10}
        for start in np.vstack([np.zeros(p), np.random.default_rng(0).normal(size=(1, p))]):
            parts = np.maximum([*start, *-start], 0.0)
            method = {"method": "L-BFGS-B", "jac": True, "bounds": [(0, None)] * 2 * p}
            found.append(minimize(objective, parts, options=options, **method))
        best = min(found, key=lambda one: one.fun)
        return best.fun, best.x[:p] - best.x[p:]

    @pytest.mark.parametrize(
        ("start", "shape"), [("cox, efron", "scad"), ("fine_gray", "mcp"), ("logistic", "mcp")]
    )
    def test_algorithms_reach_the_least(self, start, shape):
        name = next(name for name in MODELS if name.startswith(start))
        model, sample, family, columns = self.problem_of(name, shape)
        least, coef = self.least(model, sample, columns)
        batch = Batch(
            np.array([[1.0]]),
            penalty=family,
            weight=column(sample.weights),
            offset=column(sample.offset),
            total=np.ones(1),
        )
        for algorithm in ("majorized", "exact")[: 1 if start == "fine_gray" else 2]:
            options = Options(tol=1e-10, algorithm=algorithm, max_iter=5_000)
            [[solution]] = Fits(model.problem(sample), batch, cpu, options).solve()
            assert solution.converged
            assert solution.objective == pytest.approx(least, rel=1e-9)
            np.testing.assert_allclose(solution.coef, coef, atol=2e-5)
            assert np.isnan(solution.gap)


def curvature_of(face, **params):
    """Curvature of columns in the null model, of the mean."""
    prepared = prepare(face.make(penalty="mcp", **params), X, face.y, **face.arguments())
    return prepared.batch.penalty.null / prepared.total_weight


def stationarity(face, fitted, curvature, shape, weight=None):
    """Violation of the definition at coefficients, on the mean scale, by differences."""
    given = {"sample_weight": weight, **face.arguments()}
    total, step = len(face.y) if weight is None else weight.sum(), 1e-6
    model, coef = copy.copy(fitted), fitted.coef_

    def loglik(at):
        model.coef_ = at
        return model.log_likelihood(X, face.y, **given)

    steps = step * np.eye(P)
    g = np.array([loglik(coef + e) - loglik(coef - e) for e in steps]) / (2 * step * total)
    flat, knot = (number * ALPHA / curvature for number in SHAPES[shape])
    slope, _ = slope_and_value(np.abs(coef), ALPHA, flat, knot)
    return np.where(coef == 0, np.maximum(np.abs(g) - slope, 0), np.abs(g - slope * np.sign(coef)))


@pytest.mark.parametrize("shape", SHAPES)
class TestFaces:
    def test_fits_are_stationary(self, face, shape):
        lasso, model = face.fit(alpha=ALPHA), face.fit(penalty=shape, alpha=ALPHA)
        assert model.converged_ and model.kkt_ <= 1e-6 and np.isnan(model.dual_gap_)
        assert stationarity(face, model, curvature_of(face), shape).max() < 1e-7
        assert np.abs(model.coef_).sum() > np.abs(lasso.coef_).sum()
        assert model.alpha_max_ == lasso.alpha_max_
        assert certificate(model, X, face.y, **face.arguments()).is_local_minimum

    def test_paths_go_from_nothing_on(self, face, shape):
        model = face.make(penalty=shape)
        path = fit_path(model, X, face.y, n_alphas=6, alpha_min_ratio=0.1, **face.arguments())
        assert path.converged.all() and path.df[0] == 0 < path.df[1]
        single = face.fit(penalty=shape, alpha=path.alphas[1])
        np.testing.assert_allclose(path.coefs[:, 1], single.coef_, atol=1e-7)

    def test_limits_are_other_penalties(self, face, shape):
        endless = MCP(gamma=np.inf) if shape == "mcp" else SCAD(a=np.inf)
        np.testing.assert_allclose(face.fit(penalty=endless).coef_, face.fit().coef_, atol=1e-9)
        wide = face.fit(penalty=shape, bounds=(-50.0, 50.0))
        np.testing.assert_array_equal(wide.coef_, face.fit(penalty=shape).coef_)


def test_replicates_and_folds_share_the_knots_of_all_rows():
    """Else they would minimize different objectives."""
    face = FACES["cox"]
    prepared = prepare(face.make(penalty="mcp"), X, face.y)
    weight = WEIGHT.astype(float)
    [[solution]] = prepared.solve([ALPHA], weight=weight[:, None], total=weight.sum())
    fitted = face.fit(alpha=ALPHA)
    fitted.coef_ = solution.coef
    of_all = stationarity(face, fitted, curvature_of(face), "mcp", weight)
    assert of_all.max() < 1e-7
    alone = face.make(penalty="mcp", alpha=ALPHA).fit(X, face.y, sample_weight=weight)
    assert np.abs(alone.coef_ - solution.coef).max() > 1e-4
    coefs = bootstrap(face.make(penalty="mcp"), X, face.y, n_replicates=3, random_state=0).coefs
    assert np.isfinite(coefs).all()


def test_cross_validation_knows_penalties():
    y = FACES["cox"].y
    given = {"cv": 3, "n_alphas": 8, "tol": 1e-9}
    chosen = CoxLassoCV(penalty=MCP(), **given).fit(X, y)
    lasso = CoxLassoCV(penalty=MCP(gamma=np.inf), **given).fit(X, y)
    np.testing.assert_allclose(
        lasso.cv_results_["mean_score"], CoxLassoCV(**given).fit(X, y).cv_results_["mean_score"]
    )
    single = CoxLassoCCD(alpha=chosen.alpha_, penalty="mcp", tol=1e-9).fit(X, y)
    np.testing.assert_array_equal(chosen.coef_, single.coef_)
    assert chosen.best_score_ != lasso.best_score_


def test_means_and_ratios_by_column():
    """Around means, the offset has their predictor; columns of a ridge have no knots."""
    face, mean = FACES["cox"], np.where(np.arange(P) % 3 == 0, 0.3, 0.0)
    around = face.fit(penalty="scad", prior_mean=mean)
    offset = face.make(penalty="scad").fit(X, face.y, offset=X @ mean)
    np.testing.assert_array_equal(around.coef_, offset.coef_ + mean)
    ratio = np.where(np.arange(P) % 2 == 0, 0.0, 1.0)
    mixed = face.fit(penalty=MCP(gamma=np.inf), l1_ratio=ratio)
    np.testing.assert_allclose(mixed.coef_, face.fit(l1_ratio=ratio).coef_, atol=1e-9)


RNG = np.random.default_rng(42)
Z = RNG.normal(size=(80, 6)) + 0.5 * RNG.normal(size=(80, 1))
Z = (Z - Z.mean(0)) / Z.std(0)
ETA = Z @ [1.0, -0.7, 0.4, 0.0, 0.0, 0.0]
Y = ETA + RNG.normal(size=80)
CASE = (RNG.random(80) < 1 / (1 + np.exp(-ETA))).astype(int)
COUNT = RNG.poisson(np.exp(0.5 * ETA))
TIME, CENSORED = RNG.exponential(size=80) * np.exp(-ETA), 2 * RNG.exponential(size=80)
EVENT, TIME = TIME <= CENSORED, np.minimum(TIME, CENSORED)


@pytest.mark.parametrize("scale", ["column", "unit"])
@pytest.mark.parametrize(
    ("penalty", "l1_ratio", "expected"),
    [
        (MCP(), 1.0, [0.94607759506595, -0.779528900338019, 0.261412527865416, 0]),
        (SCAD(), 1.0, [0.95416347503397, -0.766855467634302, 0.209641412156621, 0]),
        (
            MCP(),
            0.7,
            [0.912362504026016, -0.745401798919169, 0.273371186790217, -0.0328161387562327],
        ),
        (
            SCAD(),
            0.7,
            [0.912031696193173, -0.747245390780583, 0.270510818125834, -0.0209185304675222],
        ),
    ],
)
def test_least_squares_of_ncvreg(penalty, l1_ratio, expected, scale):
    """R ncvreg 3, ncvreg(Z, Y, penalty=, lambda=c(.5, .3, .2, .1), alpha=, eps=1e-14)."""
    penalty = clone(penalty).set_params(scale=scale)
    model = LinearCCD(alpha=0.1, l1_ratio=l1_ratio, penalty=penalty, tol=1e-12).fit(Z, Y)
    np.testing.assert_allclose(model.coef_, [*expected, 0, 0], atol=1e-12)
    assert model.intercept_ == pytest.approx(-0.119635639842477, abs=1e-12)


class TestOtherModelsOfNcvreg:
    """ncvreg, ncvsurv(Z, ., penalty="MCP", lambda=c(.2, .1, .05), eps=1e-14): their last.

    It divides gamma by each column's curvature v at its own solution, which is given here.
    """

    def check(self, cls, y, expected, weigh, **fitted):
        coef = np.array(expected)
        v = weigh(Z @ coef) @ Z**2 / len(Z)
        model = cls(alpha=0.05, penalty=MCP(gamma=3 / v, scale="unit"), tol=1e-12).fit(Z, y)
        np.testing.assert_allclose(model.coef_, coef, atol=1e-11)
        for name, value in fitted.items():
            assert getattr(model, name) == pytest.approx(value, abs=1e-11)

    def test_logistic(self):
        coef = [1.63152220136304, -1.15121901297824, 0.560744768164106, 0, 0, 0]

        def weigh(eta):
            mu = 1 / (1 + np.exp(-0.254613771947772 - eta))
            return mu * (1 - mu)

        self.check(LogisticCCD, CASE, coef, weigh, intercept_=0.254613771947772)

    def test_poisson(self):
        coef = [0.520556354154819, -0.355841248366495, 0.0873964354517104]
        coef += [0.0774978278673698, 0.0167180580384314, 0]
        start = -0.0147132992187426
        self.check(PoissonCCD, COUNT, coef, lambda eta: np.exp(start + eta), intercept_=start)

    def test_cox(self):
        coef = [1.21082201442976, -0.754536092991753, 0.345795966959346, 0.15527987408875, 0, 0]

        def weigh(eta):
            at_risk = TIME[None, :] >= TIME[EVENT][:, None]
            risk = at_risk * np.exp(eta)
            return (risk / risk.sum(axis=1, keepdims=True)).sum(axis=0)

        self.check(CoxLassoCCD, surv(EVENT, TIME), coef, weigh)


@pytest.mark.parametrize(
    ("penalty", "expected"),
    [
        (MCP(scale="unit"), [0.9446997699398421, -0.5218649814046211, 0.3964055865942135, 0.0,
                             -0.008987643423232213, 0.0]),
        (SCAD(scale="unit"), [0.9446272319335184, -0.5218782261419781, 0.39619288226194377, 0.0,
                              -0.008227277177778266, 0.0]),
    ],
)  # fmt: skip
def test_columns_in_units_of_skglm(penalty, expected):
    """skglm 0.5: Quadratic with MCPenalty(0.1, 3.0) or SCAD(0.1, 3.7), AndersonCD(tol=1e-14)."""
    scaled = Z * [1.0, 1.5, 0.7, 1.0, 2.0, 1.0]
    model = LinearCCD(alpha=0.1, penalty=penalty, tol=1e-12).fit(scaled, Y)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-12)


def hard_counts(seed):
    """Counts with a long tail, which Newton's steps from zero overshoot."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(300, 30)) * rng.choice([0.3, 1, 3.0], 30)
    table += rng.normal(size=(300, 1)) * rng.choice([0, 1, 2.0])
    coef = np.where(rng.random(30) < 0.2, 0.7 * rng.normal(size=30), 0.0)
    return table, rng.poisson(np.exp(np.clip(table @ coef, -20, 9)))


def shares_of(monkeypatch):
    """Where the shares of steps will be found that line searches accept."""
    shares, approach = [], descend.approach

    def watched(*arguments):
        shares.append((yield from approach(*arguments)))
        return shares[-1]

    monkeypatch.setattr(descend, "approach", watched)
    return shares


@pytest.mark.parametrize("penalty", [MCP(gamma=1.5), SCAD(a=2.2)])
def test_objectives_never_rise(penalty, monkeypatch):
    """Also where full steps fail, which they do here."""
    shares, (table, y) = shares_of(monkeypatch), hard_counts(1)
    prepared = prepare(PoissonCCD(penalty=penalty), table, y)
    alpha = 0.03 * prepared.null_model().lam_max / prepared.total_weight
    [[solution]] = prepared.solve([alpha])
    assert solution.converged and min(shares) < 1.0
    assert np.diff(solution.objectives).max() <= 1e-12 * abs(solution.objective)


@pytest.mark.parametrize("base", BASES)
def test_steps_that_are_never_taken_whole(base, monkeypatch):
    """More of a decrease is demanded than a full step can bring."""
    use_model(base, monkeypatch)
    face = FACES["cox"]
    expected = face.fit(penalty="mcp", alpha=ALPHA)
    shares = shares_of(monkeypatch)
    monkeypatch.setattr(line_search, "SUFFICIENT", 0.8)
    found = face.fit(penalty="mcp", alpha=ALPHA)
    assert found.converged_ and np.median(shares) < 1.0
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-7)


def test_short_steps_do_not_climb():
    """The exact algorithm's: columns whose minimum lies beyond a hill of the penalty."""
    table, _ = hard_counts(4)
    rng = np.random.default_rng(4)
    is_case = rng.random(300) < 1 / (1 + np.exp(-table[:, 0] - 0.5 * table[:, 1]))
    least = LogisticCCD(alpha=0.01).fit(table, is_case).alpha_max_
    for penalty in (MCP(gamma=1.05), MCP(gamma=3.0, scale="unit"), SCAD(a=2.05)):
        given = {"penalty": penalty, "alpha": 0.1 * least, "algorithm": "exact"}
        model = LogisticCCD(**given, max_iter=5_000).fit(table, is_case)
        assert model.converged_
        assert certificate(model, table, is_case).is_local_minimum


def test_units_that_are_concave():
    """A coefficient that leaves zero goes beyond its knot at once."""
    face = FACES["cox"]
    assert (3.0 * curvature_of(face) < 1).all()
    path = fit_path(face.make(penalty=MCP(scale="unit")), X, face.y, n_alphas=4)
    assert path.alpha_max == face.fit(alpha=ALPHA).alpha_max_
    assert path.df[0] == 0 < path.df[1] and path.converged.all()
    size = np.abs(path.coefs)
    assert (size > 3.0 * path.alphas)[size > 0].all()


def test_coefficients_beyond_the_end_may_be_infinite():
    """No penalty holds a coefficient there, where a column separates the events."""
    is_case = Z[:, 0] > 0
    model = LogisticCCD(alpha=0.01, penalty="mcp")
    with pytest.warns(ConvergenceWarning, match="infinite, because the columns separate"):
        model.fit(Z[:, :3], is_case)
    assert model.infinite_[0] and not certificate(model, Z[:, :3], is_case).is_local_minimum
    with pytest.warns(ConvergenceWarning, match="of 3 fits .*: Coefficients of .* let go"):
        path = fit_path(model, Z[:, :3], is_case, n_alphas=3, alpha_min_ratio=0.02)
    assert not path.at(0).infinite_.any() and path.at(2).infinite_[0]
    assert not face_is_infinite("linear")


@pytest.mark.parametrize("penalty", [MCP(), SCAD()])
def test_paths_until_columns_separate(penalty, monkeypatch):
    """With more columns than rows: fits converge, and infinite ones are looked into once."""
    rng, asked, find = np.random.default_rng(3), [], _prepared.find_directions

    def watched(*given):
        asked.extend([given[2].tobytes()] if given[2].any() else [])
        return find(*given)

    monkeypatch.setattr(_prepared, "find_directions", watched)
    table = rng.normal(size=(100, 300)) + rng.normal(size=(100, 1))
    risk = table[:, :5] @ [0.7, -0.7, 0.7, 0.7, -0.7]
    y = surv(rng.random(100) < 0.7, rng.exponential(np.exp(-risk)))
    with pytest.warns(ConvergenceWarning, match="of 100 fits of the path"):
        path = fit_path(CoxLassoCCD(penalty=penalty), table, y, alpha_min_ratio=0.05)
    assert path.converged.all() and path.n_iter.sum() < 1_000
    assert path.at(99).infinite_.any() and not path.at(20).infinite_.any()
    assert 0 < len(set(asked)) == len(asked)


def face_is_infinite(name):
    return FACES[name].fit(penalty="mcp", alpha=ALPHA).infinite_.any()


class TestCertificates:
    def test_a_point_that_is_no_minimum(self):
        """Between zero and the knot of a column that is concave there: the top of a hill."""
        x, alpha, gamma = 0.5 * Z[:, [0]], 0.5, 1.5
        with pytest.warns(NothingSelectedWarning):
            model = LinearCCD(alpha=alpha, penalty=MCP(gamma, scale="unit")).fit(x, Y)
        slope, curvature = float(x[:, 0] @ (Y - Y.mean())) / 80, 0.25
        top = (slope - alpha) / (curvature - 1 / gamma)
        assert curvature < 1 / gamma and 0 < top < gamma * alpha
        assert certificate(model, x, Y).is_local_minimum
        model.coef_ = np.array([top])
        model.log_likelihood_ = -0.5 * np.sum((Y - Y.mean() - x[:, 0] * top) ** 2)
        found = certificate(model, x, Y)
        assert not found.is_local_minimum
        assert found.curvature == pytest.approx(1 - 1 / (gamma * curvature))

    def test_duplicates_have_no_strict_minimum(self):
        face = FACES["logistic"]
        table = X.toarray()[:, [0, 1, 1]]
        model = LogisticCCD(alpha=1e-4, penalty="mcp", l1_ratio=1.0, tol=1e-9).fit(table, face.y)
        found = certificate(model, table, face.y)
        assert found.is_stationary and not found.convex_here

    def test_convex_penalties_have_certificates(self):
        face = FACES["cox"]
        found = certificate(face.fit(), X, face.y)
        assert found.is_local_minimum and found.convex_here and found.slack > 0
        bounded = certificate(face.fit(bounds=(-0.1, 0.1)), X, face.y)
        assert bounded.is_local_minimum


def test_penalties_are_parameters():
    model = CoxLassoCCD(penalty=MCP(gamma=2.5))
    assert repr(model) == "CoxLassoCCD(penalty=MCP(gamma=2.5))"
    assert model.get_params()["penalty__gamma"] == 2.5
    assert clone(model).set_params(penalty__gamma=4.0).penalty.gamma == 4.0
    y = FACES["cox"].y
    fitted = model.fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).coef_, fitted.coef_)
    short = CoxLassoCCD(penalty="mcp").fit(X, y)
    np.testing.assert_array_equal(short.coef_, CoxLassoCCD(penalty=MCP()).fit(X, y).coef_)
    names = {"gamma": {0: 5.0}, "scale": "column"}
    some = CoxLassoCCD(penalty=MCP(**names)).fit(X, y)
    every = CoxLassoCCD(penalty=MCP(np.where(np.arange(P) == 0, 5.0, 3.0))).fit(X, y)
    np.testing.assert_array_equal(some.coef_, every.coef_)


def test_searches_over_penalties():
    face = FACES["logistic"]
    grid = {"penalty": [None, MCP(), SCAD()], "alpha": [0.02, 0.01]}
    search = GridSearchCV(LogisticCCD(), grid, cv=KFold(3)).fit(X, face.y)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all() and len(np.unique(scores)) > 1


@pytest.mark.parametrize(
    ("penalty", "error", "said"),
    [
        (MCP(gamma=1.0), ValueError, "`gamma` is 1, must be above 1"),
        (MCP(gamma=np.nan), ValueError, "`gamma` is nan, must be above 1"),
        (SCAD(a=2), ValueError, "`a` is 2, must be above 2"),
        (MCP(gamma="3"), TypeError, "`gamma` is '3', must be a number above 1"),
        (MCP(gamma=[3.0, 2.0]), ValueError, "`gamma` has 2 entries, `X` has 12 columns"),
        (MCP(gamma=np.full(P, 0.5)), ValueError, "`gamma` of column 0 is 0.5, must be above 1"),
        (MCP(gamma={"age": 2.0}), ValueError, "`gamma` names column 'age'"),
        (SCAD(scale="columns"), ValueError, "`scale` is 'columns', must be one of 'column'"),
        ("mpc", ValueError, "'penalty' parameter"),
        (MCP, ValueError, "'penalty' parameter"),
    ],
)
def test_bad_input(penalty, error, said):
    with pytest.raises(error, match=said.replace("(", "\\(")):
        CoxLassoCCD(penalty=penalty).fit(X, FACES["cox"].y)


def test_intervals_that_do_not_know_penalties():
    with pytest.raises(ValueError, match="`estimator` has `penalty`"):
        posterior(CoxLassoCCD(penalty="mcp"), X, FACES["cox"].y)
    model = CoxLassoCCD(penalty="mcp", prior_mean={0: 0.1}).fit(X, FACES["cox"].y)
    with pytest.raises(ValueError, match="`estimator` has `prior_mean`"):
        certificate(model, X, FACES["cox"].y)
