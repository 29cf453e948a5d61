"""Random intercepts, against R's survival and lme4, penalized indicators, and sums by hand."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from oracles.cases import load
from scipy.sparse import csr_array, hstack
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.preprocessing import MaxAbsScaler

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    Firth,
    GroupLasso,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    RandomIntercepts,
    competing_risks,
    make_pipeline,
    surv,
)
from sksurvgpu.inference import _intercept_variance, _laplace

TIGHT = {"alpha": 0.0, "tol": 1e-9}
ROW = np.arange(1, 301)
X = np.column_stack([(ROW * 37 % 101) / 100, ROW * 53 % 11 < 5]).astype(float)
CLUSTER = ROW * 17 % 23
SHIFT = CLUSTER * 7 % 5
TIME = (ROW * 71 % 61 + 1) / (1 + SHIFT)
START = np.floor(TIME * (ROW * 29 % 10) / 20)
EVENT, STRATUM = ROW * 13 % 7 < 4, ROW * 11 % 3 == 0
COUNT = (ROW * 31 % 4 + SHIFT * (ROW * 19 % 3)) // 2
Y = surv(EVENT, TIME, start=START)
CAUSES = competing_risks(np.where(EVENT, 1 + (ROW * 23 % 5 < 2), 0), TIME)

# survival 3.4: `kidney`
KIDNEY = pd.DataFrame(
    {
        "time": [
            *(8, 16, 23, 13, 22, 28, 447, 318, 30, 12, 24, 245, 7, 9, 511, 30, 53, 196, 15, 154),
            *(7, 333, 141, 8, 96, 38, 149, 70, 536, 25, 17, 4, 185, 177, 292, 114, 22, 159, 15),
            *(108, 152, 562, 402, 24, 13, 66, 39, 46, 12, 40, 113, 201, 132, 156, 34, 30, 2, 25),
            *(130, 26, 27, 58, 5, 43, 152, 30, 190, 5, 119, 8, 54, 16, 6, 78, 63, 8),
        ],
        "age": [
            *(28, 28, 48, 48, 32, 32, 31, 32, 10, 10, 16, 17, 51, 51, 55, 56, 69, 69, 51, 52, 44),
            *(44, 34, 34, 35, 35, 42, 42, 17, 17, 60, 60, 60, 60, 43, 44, 53, 53, 44, 44, 46, 47),
            *(30, 30, 62, 63, 42, 43, 43, 43, 57, 58, 10, 10, 52, 52, 53, 53, 54, 54, 56, 56, 50),
            *(51, 57, 57, 44, 45, 22, 22, 42, 42, 52, 52, 60, 60),
        ],
        "sex": [
            *map(
                int,
                "1122112211221122221122222222221122222222112222221122222211222222222222222211",
            )
        ],
        "id": np.repeat(np.arange(1, 39), 2),
    }
)
STATUS = np.array(
    [*map(int, "1110111111111111111111101100101011110010111011101101111111111101111011000110")]
)
# lme4 1.1-31: `cbpp`
HERD = np.repeat(np.arange(1, 16), [4, 3, 4, 4, 4, 4, 4, 1, 4, 4, 4, 4, 4, 4, 4])
PERIOD = [1, 2, 3, 4, 1, 2, 3, *[1, 2, 3, 4] * 5, 1, *[1, 2, 3, 4] * 7]
SICK = (
    "2 3 4 0 3 1 1 8 2 0 2 2 0 2 0 5 0 0 1 3 0 0 1 8 1 3 0 12 2 0 0 0 1 1 0 2 0 5 3 1 2 1 0 0 1 2"
)
SICK += " 0 0 11 0 0 0 1 1 1 0"
HEADS = "14 12 9 5 22 18 21 22 16 16 20 10 10 9 6 18 25 24 4 17 17 18 20 16 10 9 5 34 9 6 8 6 22 22"
HEADS += " 18 22 25 27 22 22 10 8 6 5 21 24 19 23 19 2 3 2 19 15 15 15"
SICK, HEADS = (np.array(text.split(), int) for text in (SICK, HEADS))


def fit(estimator, X, y, cluster, variance="reml", **given):
    return RandomIntercepts(estimator, variance=variance).fit(X, y, cluster, **given)


# coxph(Surv(time, status) ~ age + sex + frailty(id, distribution="gaussian", sparse=FALSE), kidney,
# ties="breslow"), of 200 outer iterations
def test_reml_is_that_of_frailty():
    table, y = KIDNEY[["age", "sex"]], surv(STATUS == 1, KIDNEY["time"])
    model = fit(CoxLassoCCD(**TIGHT), table, y, KIDNEY["id"])
    np.testing.assert_allclose(model.variance_, 0.573168850555, rtol=5e-5)
    result = model.wald()
    np.testing.assert_allclose(result.coef, [0.00502619106692, -1.39801292681233], rtol=2e-5)
    expected = [0.0122757000486, 0.4375160934217]
    np.testing.assert_allclose(result.standard_errors, expected, rtol=1e-5)
    assert result.feature_names.tolist() == ["age", "sex"]
    assert model.cluster_effects_.index.tolist() == sorted(set(KIDNEY["id"]))


# coxph(Surv(start, time, event) ~ x1 + x2 + strata(s) + frailty(g, "gaussian", sparse=FALSE))
FRAILTY = {
    "breslow": [
        *(-0.10014326546903, -0.00500752920106, 0.27040014202409, 0.15971607868789),
        0.62456897659233,
    ],
    "efron": [
        *(-0.10195020753415, -0.00332244019002, 0.27050515473242, 0.15972561850411),
        0.63086124753051,
    ],
}


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_strata_entries_and_ties_are_those_of_frailty(ties):
    model = fit(CoxLassoCCD(ties=ties, **TIGHT), X, Y, CLUSTER, strata=STRATUM)
    *expected, variance = FRAILTY[ties]
    found = [*model.estimator_.coef_, *model.wald().standard_errors]
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(model.variance_, variance, rtol=1e-4)


CLUSTERS = load("clusters.json")
# Differences are those of derivatives: `_look_around` takes them from modes at both sides.
CLOSE = {"coefficients": 1e-5, "errors": 1e-5, "variance": 1e-4, "loglik": 1e-8}


@pytest.mark.parametrize(
    ("name", "kind"), [("rats", 0), ("rats", 1), ("eortc", 0), ("eortc", "reml")]
)
def test_variances_are_those_of_coxme_and_frailty(name, kind):
    """On data that ask for several looks at how the information changes with the mode."""
    columns = {name: np.array(values) for name, values in CLUSTERS[name]["columns"].items()}
    expected = CLUSTERS[name]["reml"] if kind == "reml" else CLUSTERS[name]["ml"][kind]
    estimator = CoxLassoCCD(ties=expected.get("ties", "efron"), **TIGHT)
    y = surv(columns["event"] == 1, columns["time"])
    variance = "reml" if kind == "reml" else "ml"
    model = fit(estimator, columns["x"][:, None], y, columns["cluster"], variance)
    found = {"coefficients": model.estimator_.coef_, "errors": model.wald().standard_errors}
    found |= {"variance": model.variance_, "loglik": model.log_likelihood_}
    for key in CLOSE.keys() & expected.keys():
        np.testing.assert_allclose(found[key], expected[key], rtol=CLOSE[key])
    if "effects" in expected:
        np.testing.assert_allclose(model.cluster_effects_[:3], expected["effects"], rtol=1e-4)


# glmer(cbind(incidence, size - incidence) ~ period + (1 | herd), binomial),
# glmer(time > 10 ~ x1 + x2 + x3 + (1 | g), binomial), glmer(count ~ x1 + x2 + (1 | g), poisson) of
# lme4 1.1-31; tolPwrss=1e-13, bobyqa's rhoend=1e-10; errors by vcov(use.hessian=FALSE), those of
# the variance by optinfo$derivs$Hessian, log-likelihoods by logLik
ROW_OF_HERD = np.repeat(np.arange(56), HEADS)
PERIODS = np.equal.outer(np.array(PERIOD)[ROW_OF_HERD], [2, 3, 4]).astype(float)
IS_SICK = np.concatenate([np.arange(n) < k for n, k in zip(HEADS, SICK, strict=True)])
OF_CLUSTER = np.column_stack([X, (CLUSTER % 4 == 1) * 2.0])  # a column that clusters have
CHOICES = gammaln(HEADS + 1) - gammaln(SICK + 1) - gammaln(HEADS - SICK + 1)
GLMER = {
    "cbpp": (
        (LogisticCCD, PERIODS, IS_SICK, HERD[ROW_OF_HERD]),
        [-1.3985321438446, -0.9923326826876, -1.1286720380334, -1.5803139023058],
        [0.3053855257667, 0.3260492824777, 0.4287950155862],
        [0.4124997445097, 0.2293669767523, -92.0262818715 - CHOICES.sum()],
        [0.5900200103789, -0.2988972203636, 0.4062555576381],
    ),
    "logistic": (
        (LogisticCCD, OF_CLUSTER, TIME > 10, CLUSTER),
        [0.22548057498808, -0.27295524279000, -0.06875856265270, -0.03687414216602],
        [0.4274187103776, 0.2501566913941, 0.2653160750456],
        [0.8977580156569, 0.4033730817597, -194.7446062741],
        [1.0688168314116, 0.1311385464277, -1.1397045872622],
    ),
    "poisson": (
        (PoissonCCD, X, COUNT, CLUSTER),
        [0.33118581124922, -0.03880714560397, -0.02838653278651],
        [0.16421712532736, 0.09601406727156],
        [0.2203984161025, 0.08973460884090, -455.4943725288 + gammaln(COUNT + 1).sum()],
        [-0.66559858075211, 0.06564053129712, 0.46699402126355],
    ),
}


@pytest.mark.parametrize("name", GLMER)
def test_ml_is_that_of_glmer(name):
    (kind, table, y, cluster), coef, errors, (variance, sd, loglik), effects = GLMER[name]
    model = fit(kind(**TIGHT), table, y, cluster, "ml")
    found = [model.estimator_.intercept_, *model.estimator_.coef_]
    np.testing.assert_allclose(found, coef, rtol=3e-6)
    np.testing.assert_allclose(model.wald().standard_errors, errors, rtol=1e-6)
    np.testing.assert_allclose(model.variance_, variance, rtol=1e-6)
    np.testing.assert_allclose(model.variance_sd_, sd, rtol=1e-3)
    np.testing.assert_allclose(model.log_likelihood_, loglik, atol=1e-7)
    np.testing.assert_allclose(model.cluster_effects_.iloc[:3], effects, rtol=1e-6)
    assert fit(kind(**TIGHT), table, y, cluster, None).variance_ == model.variance_
    far = fit(kind(**TIGHT), table + 1e3, y, cluster, "ml").estimator_  # columns that are centred
    found = [far.intercept_ + 1e3 * far.coef_.sum(), *far.coef_]
    np.testing.assert_allclose(found, coef, rtol=1e-5)


# ... with nAGQ = 0, at its variances
def test_modes_are_those_of_glmer():
    model = fit(LogisticCCD(**TIGHT), PERIODS, IS_SICK, HERD[ROW_OF_HERD], 0.411926325687)
    expected = [-1.360471721264, -0.976177507293, -1.111076928588, -1.559680557113]
    found = [model.estimator_.intercept_, *model.estimator_.coef_]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(model.log_likelihood_, -277.529955157, atol=1e-6)
    expected = [0.303287345152, 0.323511799779, 0.424455498144]
    np.testing.assert_allclose(model.wald().standard_errors, expected, rtol=1e-5)
    expected = [0.556918735267, -0.329483995826, 0.368973521165]
    np.testing.assert_allclose(model.cluster_effects_.loc[[1, 2, 3]], expected, rtol=1e-5)
    model = fit(PoissonCCD(**TIGHT), X, COUNT, CLUSTER, 0.2205898720140)
    found = [model.estimator_.intercept_, *model.estimator_.coef_, *model.wald().standard_errors]
    expected = [0.3537559981447, -0.0390430340488, -0.0284424434131, 0.1638779104838]
    np.testing.assert_allclose(found, [*expected, 0.0958159805336], rtol=1e-5)
    loglik = model.log_likelihood_ - gammaln(COUNT + 1).sum()
    np.testing.assert_allclose(loglik, -455.5151098369413, atol=1e-6)
    restricted = fit(PoissonCCD(**TIGHT), X, COUNT, CLUSTER, "reml")
    assert restricted.variance_ > 0.2205898720140  # for the degrees of freedom of two columns


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_the_gradient_of_laplace_s_likelihood_is_that_of_differences(monkeypatch, name, intercept):
    seen, climb = [], _laplace.IntegratedLikelihood.climb
    keep = lambda self, *given: seen.append(self) or climb(self, *given)  # noqa: E731
    monkeypatch.setattr(_laplace.IntegratedLikelihood, "climb", keep)
    kind, y, _ = GIVEN[name]
    model = kind(fit_intercept=intercept, **TIGHT)
    y = TIME > 10 if name == "logistic" else y
    found = fit(model, OF_CLUSTER, y, CLUSTER, "ml", sample_weight=ROW % 3, offset=ROW % 5 / 5)
    assert found.variance_ > 0.0
    [laplace] = seen
    free = np.arange(0 if intercept else 1, 5)
    move = np.array([0.3 * intercept, 0.2, -0.1, 0.1, 0.4])
    for at in laplace.start, laplace.start + move:
        steps = 1e-5 * np.eye(5)[free]
        slopes = [np.subtract(*(laplace.evaluate(at + s)[0] for s in (e, -e))) for e in steps]
        gradient = laplace.evaluate(at)[1]
        np.testing.assert_allclose(np.array(slopes) / 2e-5, gradient[free], rtol=1e-4, atol=1e-4)


GIVEN = {
    "cox": (CoxLassoCCD, Y, {"strata": STRATUM}),
    "fine_gray": (FineGrayCCD, CAUSES, {}),
    "logistic": (LogisticCCD, EVENT, {}),
    "poisson": (PoissonCCD, COUNT, {}),
}


@pytest.mark.parametrize("penalty", [None, GroupLasso([0, 0, 1])])
@pytest.mark.parametrize("name", GIVEN)
def test_intercepts_are_the_coefficients_of_indicators_under_a_ridge(name, penalty):
    kind, y, given = GIVEN[name]
    weight, variance = 1.0 + ROW % 3, 0.3
    alpha = 0.002
    model = kind(alpha=alpha, tol=1e-9, penalty=penalty)
    found = fit(model, OF_CLUSTER, y, CLUSTER, variance, sample_weight=weight, **given)
    factor = weight.sum() * alpha * variance
    if penalty is not None:
        return assert_stationary(found, OF_CLUSTER, y, weight, given)
    indicators = csr_array(np.equal.outer(CLUSTER, np.arange(23)).astype(float))
    both = kind(
        alpha=alpha,
        tol=1e-9,
        l1_ratio=np.repeat([1.0, 0.0], [3, 23]),
        penalty_factor=np.repeat([1.0, 1.0 / factor], [3, 23]),
    )
    both.fit(hstack([csr_array(OF_CLUSTER), indicators]), y, sample_weight=weight, **given)
    np.testing.assert_allclose(found.estimator_.coef_, both.coef_[:3], atol=2e-6)
    np.testing.assert_allclose(found.cluster_effects_, both.coef_[3:], atol=5e-6)
    assert np.isnan(found.variance_p_value_) and np.isnan(found.variance_sd_)


def assert_stationary(found, table, y, weight, given):
    """At the intercepts, a fit with the intercepts in its offset is the fit."""
    effects = found.cluster_effects_.to_numpy()
    other = clone(found.estimator).fit(
        table, y, sample_weight=weight, offset=effects[CLUSTER], **given
    )
    np.testing.assert_allclose(found.estimator_.coef_, other.coef_, atol=1e-6)
    assert found.estimator_.coef_.any() and effects.any()


def by_hand(beta, b, time, event, table, codes):
    """Breslow's log-likelihood, its gradient and information in coefficients and intercepts."""
    wide = np.column_stack([table, np.equal.outer(codes, np.arange(len(b)))]).astype(float)
    predictor = wide @ np.append(beta, b)
    total, gradient, information = 0.0, 0.0, 0.0
    for i in np.flatnonzero(event):
        at_risk = time >= time[i]
        w, x = np.exp(predictor[at_risk]), wide[at_risk]
        mean = w @ x / w.sum()
        total += predictor[i] - np.log(w.sum())
        gradient = gradient + wide[i] - mean
        information = information + (x.T * w) @ x / w.sum() - np.outer(mean, mean)
    return total, gradient, information


def marginal(variance, n_steps=8):
    """Laplace's approximation at the mode, Newton's, and the equation of REML, both by hand."""
    position = np.zeros(2 + 23)
    ridge = np.diag(np.repeat([0.0, 1.0 / variance], [2, 23]))
    for _ in range(n_steps):
        loglik, gradient, H = by_hand(position[:2], position[2:], TIME, EVENT, X, CLUSTER)
        position = position + np.linalg.solve(H + ridge, gradient - ridge @ position)
    b, inverse = position[2:], np.linalg.inv(H + ridge)
    log_det = np.linalg.slogdet(variance * H[2:, 2:] + np.eye(23))[1]
    value = loglik - 0.5 * b @ b / variance - 0.5 * log_det
    return value, (b @ b + np.trace(inverse[2:, 2:])) / (23 * variance) - 1.0, inverse


def test_laplace_s_likelihood_and_its_maximum_are_those_by_hand():
    y = surv(EVENT, TIME)
    for variance in (0.1, 0.7):
        model = fit(CoxLassoCCD(**TIGHT), X, y, CLUSTER, variance)
        value, _, inverse = marginal(variance)
        np.testing.assert_allclose(model.log_likelihood_, value, atol=1e-5)
        np.testing.assert_allclose(model.wald().covariance, inverse[:2, :2], rtol=1e-4)
    best = fit(CoxLassoCCD(**TIGHT), X, y, CLUSTER, "ml")
    step = 0.02
    low, middle, high = (marginal(best.variance_ * np.exp(s))[0] for s in (-step, 0.0, step))
    second = (high + low - 2 * middle) / step**2
    np.testing.assert_allclose((high - low) / (2 * step), 0.0, atol=5e-4 * abs(second))
    np.testing.assert_allclose(best.variance_sd_, best.variance_ / np.sqrt(-second), rtol=0.02)
    null = CoxLassoCCD(**TIGHT).fit(X, y).log_likelihood_
    np.testing.assert_allclose(best.log_likelihood_, middle, atol=1e-4)
    assert 0 < best.variance_p_value_ < 1e-3 and middle - null > 5
    restricted = fit(CoxLassoCCD(**TIGHT), X, y, CLUSTER)
    np.testing.assert_allclose(marginal(restricted.variance_)[1], 0.0, atol=1e-4)


def test_an_intercept_is_one_of_the_columns_of_reml():
    uneven = np.minimum(CLUSTER, 9)
    model = fit(PoissonCCD(**TIGHT), X, COUNT, uneven)
    b, fitted = model.cluster_effects_.to_numpy(), model.estimator_
    wide = np.column_stack([np.ones(300), X, np.equal.outer(uneven, np.arange(10))])
    mean = np.exp(wide @ np.concatenate([[fitted.intercept_], fitted.coef_, b]))
    np.testing.assert_allclose(mean.sum(), COUNT.sum(), rtol=1e-6)
    ridge = np.diag(np.repeat([0.0, 1.0 / model.variance_], [3, 10]))
    inverse = np.linalg.inv((wide.T * mean) @ wide + ridge)
    np.testing.assert_allclose(model.wald().covariance, inverse[1:3, 1:3], rtol=1e-5)
    total = b @ b + np.trace(inverse[3:, 3:])
    np.testing.assert_allclose(total / (10 * model.variance_), 1.0, atol=1e-4)


@pytest.mark.parametrize(("kind", "y"), [(LogisticCCD, TIME > 10), (PoissonCCD, COUNT)])
def test_the_error_of_reml_s_variance_is_by_the_slope_of_its_equation(kind, y):
    best = fit(kind(**TIGHT), X, y, CLUSTER, "reml")
    wide = np.column_stack([np.ones(300), X, np.equal.outer(CLUSTER, np.arange(23))])
    excess = []
    for side in (0.05, -0.05):
        variance = best.variance_ * np.exp(side)
        model = fit(kind(**TIGHT), X, y, CLUSTER, variance)
        b, fitted = model.cluster_effects_.to_numpy(), model.estimator_
        h = np.exp(wide @ np.concatenate([[fitted.intercept_], fitted.coef_, b]))
        h /= (1.0 + h) ** 2 if kind is LogisticCCD else 1.0
        ridge = np.diag(np.repeat([0.0, 1.0 / variance], [3, 23]))
        inverse = np.linalg.inv((wide.T * h) @ wide + ridge)
        excess.append((b @ b + np.trace(inverse[3:, 3:])) / (23 * variance))
    slope = (excess[0] - excess[1]) / 0.1
    expected = best.variance_ / np.sqrt(-0.5 * 23 * slope)
    np.testing.assert_allclose(best.variance_sd_, expected, rtol=0.02)


def test_many_clusters_go_without_what_two_have_in_common(monkeypatch):
    exact = fit(CoxLassoCCD(**TIGHT), X, Y, CLUSTER, "ml")
    monkeypatch.setattr(_intercept_variance, "MOST_PRODUCTS", 0.0)
    near = fit(CoxLassoCCD(**TIGHT), X, Y, CLUSTER, "ml")
    assert 0 < abs(near.variance_ / exact.variance_ - 1.0) < 0.05
    np.testing.assert_allclose(near.wald().standard_errors, exact.wald().standard_errors, rtol=0.03)


def test_weights_are_counts_of_rows():
    weight = ROW % 3
    weighted = fit(PoissonCCD(**TIGHT), X, COUNT, CLUSTER, sample_weight=weight)
    many = np.repeat(np.arange(300), weight)
    repeated = fit(PoissonCCD(**TIGHT), X[many], COUNT[many], CLUSTER[many])
    np.testing.assert_allclose(weighted.variance_, repeated.variance_, rtol=1e-4)
    np.testing.assert_allclose(
        weighted.wald().standard_errors, repeated.wald().standard_errors, rtol=1e-4
    )


def test_predictions_have_the_intercepts_of_known_clusters():
    cox = fit(CoxLassoCCD(alpha=0.005), X, Y, CLUSTER, 0.5)
    effects = cox.cluster_effects_
    who = pd.DataFrame(X[:3], index=["a", "b", "c"])
    moved = cox.predict(who, cluster=[4, 2, 99]) - cox.predict(who)
    np.testing.assert_allclose(moved, [effects[4], effects[2], 0.0], atol=1e-15)
    risk = cox.predict_risk(who, [5.0, 20.0], cluster=[4, 2, 99])
    assert risk.index.tolist() == ["a", "b", "c"]
    plain = np.log(1.0 - cox.predict_risk(who, [5.0, 20.0]))
    ratio = np.log(1.0 - risk) / plain
    np.testing.assert_allclose(ratio, np.exp([[effects[4]] * 2, [effects[2]] * 2, [0.0] * 2]))
    curve = cox.predict_survival_function(who, cluster=[4, 2, 99], return_array=True)
    place = np.searchsorted(cox.estimator_.unique_times_, 20.0, side="right") - 1
    np.testing.assert_allclose(1.0 - curve[:, place], risk[20.0])
    assert cox.score(X, Y, cluster=CLUSTER) > cox.score(X, Y) + 0.05
    logistic = fit(LogisticCCD(alpha=0.001), X, TIME > 10, CLUSTER, 0.5)
    odds = np.diff(np.log(logistic.predict_proba(X[:2], cluster=[4, 99])))[:, 0]
    np.testing.assert_allclose(odds, logistic.decision_function(X[:2], cluster=[4, 99]))
    assert logistic.score(X, TIME > 10, cluster=CLUSTER) > logistic.score(X, TIME > 10)
    assert not hasattr(logistic, "predict_risk") and not hasattr(cox, "predict_proba")
    counts = fit(PoissonCCD(alpha=0.001), X, COUNT, CLUSTER, 0.2)
    ratio = counts.predict(X[:2], cluster=[4, 99]) / counts.predict(X[:2])
    np.testing.assert_allclose(ratio, [np.exp(counts.cluster_effects_[4]), 1.0])


def test_copies_pickles_and_pipelines():
    pipe = make_pipeline(MaxAbsScaler(), CoxLassoCCD(alpha=0.01))
    model = RandomIntercepts(pipe, variance=0.4)
    assert (
        repr(clone(model)) == repr(model) and "estimator__maxabsscaler__copy" in model.get_params()
    )
    model.fit(X * [50.0, 1.0], Y, CLUSTER)
    plain = fit(pipe[-1], X / X.max(axis=0), Y, CLUSTER, 0.4)
    pd.testing.assert_series_equal(model.cluster_effects_, plain.cluster_effects_, rtol=1e-6)
    again = pickle.loads(pickle.dumps(model))
    found = again.predict(X * [50.0, 1.0], cluster=CLUSTER)
    np.testing.assert_allclose(found, plain.predict(X / X.max(axis=0), cluster=CLUSTER), rtol=1e-6)
    assert model.n_features_in_ == 2
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


def test_penalties_of_cross_validation_are_those_without_intercepts():
    chooser = CoxLassoCV(cv=3, n_alphas=5)
    model = fit(chooser, X, Y, CLUSTER, 0.4)
    alpha = clone(chooser).fit(X, Y).alpha_
    assert model.estimator_.alpha == alpha and type(model.estimator_) is CoxLassoCCD
    same = fit(CoxLassoCCD(alpha=alpha), X, Y, CLUSTER, 0.4)
    np.testing.assert_allclose(model.estimator_.coef_, same.estimator_.coef_, atol=1e-8)


def test_searches_of_scikit_learn_hand_labels_on():
    with sklearn.config_context(enable_metadata_routing=True):
        model = RandomIntercepts(LogisticCCD(), variance=0.4)
        search = GridSearchCV(model, {"estimator__alpha": [0.001, 0.1], "variance": [0.1]}, cv=2)
        search.fit(X, TIME > 10, cluster=CLUSTER)
        pipe = make_pipeline(MaxAbsScaler(), search.best_estimator_).fit(
            X, TIME > 10, cluster=CLUSTER
        )
        for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            own = getattr(pipe[-1], name)(pipe[0].transform(X), cluster=CLUSTER)
            np.testing.assert_array_equal(getattr(pipe, name)(X, cluster=CLUSTER), own)
        strata = {"cluster": CLUSTER, "strata": STRATUM}
        model, folds = RandomIntercepts(CoxLassoCCD(), variance=0.4), KFold(2)
        scores = cross_val_score(model, X, Y, cv=folds, params=strata, error_score="raise")
    assert search.best_estimator_.variance_ == 0.1
    assert len(search.best_estimator_.cluster_effects_) == 23
    for (train, test), score in zip(folds.split(X), scores, strict=True):
        own, given = clone(model), {name: labels[test] for name, labels in strata.items()}
        own.fit(X[train], Y[train], CLUSTER[train], strata=STRATUM[train])
        assert score == own.score(X[test], Y[test], **given)


def test_searches_score_pipelines_of_whole_clusters_without_a_word():
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(MaxAbsScaler(), RandomIntercepts(LogisticCCD(), variance=0.4))
        grid = {"randomintercepts__estimator__alpha": [0.001, 0.1]}
        search = GridSearchCV(pipe, grid, cv=GroupKFold(3), error_score="raise")
        search.fit(X, TIME > 10, cluster=CLUSTER, groups=CLUSTER)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_clusters_whose_rates_are_thousands_apart_have_a_mode():
    rng = np.random.default_rng(0)
    pair, x, b = np.arange(400) // 2, rng.normal(size=400), rng.normal(0.0, 3.0, 200)
    y = rng.poisson(np.exp(0.5 * x + b[pair]))
    model = fit(PoissonCCD(alpha=0.0, tol=1e-10), x[:, None], y, pair, 9.0)
    mean = model.predict(x[:, None], cluster=pair)
    surplus = np.bincount(pair, y - mean)
    np.testing.assert_allclose(surplus, model.cluster_effects_ / 9.0, atol=1e-4)
    assert y.max() > 1_000


def test_a_variance_of_zero_is_the_fit_without_intercepts():
    chance = np.arange(300) // 2 % 30  # nothing that times depend on
    y = surv(EVENT, ROW * 71 % 61 + 1.0)
    with pytest.warns(UserWarning, match="variance of the intercepts is zero"):
        model = fit(CoxLassoCCD(**TIGHT), X, y, chance)
    plain = CoxLassoCCD(**TIGHT).fit(X, y)
    assert model.variance_ == 0.0 and model.variance_p_value_ == 1.0
    assert np.isnan(model.variance_sd_) and not model.cluster_effects_.any()
    np.testing.assert_array_equal(model.estimator_.coef_, plain.coef_)
    assert model.log_likelihood_ == plain.log_likelihood_


def test_labels_that_say_nothing_are_refused_or_named():
    model = RandomIntercepts(PoissonCCD(alpha=0.01), variance=0.1)
    with pytest.raises(ValueError, match="one label \\(7\\) for all 300 rows"):
        model.fit(X, COUNT, np.full(300, 7))
    with pytest.warns(UserWarning, match="every label of `cluster` is of one row"):
        model.fit(X, COUNT, ROW)
    with pytest.raises(ValueError, match="1 missing value"):
        model.fit(X, COUNT, np.where(ROW == 9, np.nan, CLUSTER))
    with pytest.raises(ValueError, match="`cluster` has 299"):
        model.fit(X, COUNT, CLUSTER[1:])
    model.fit(X, COUNT, CLUSTER)
    with pytest.warns(UserWarning, match="is one of the fit.* those of the fit such as .0."):
        model.predict(X[:2], cluster=["a", "b"])
    with pytest.raises(ValueError, match="set alpha=0"):
        model.wald()


@pytest.mark.parametrize(
    ("estimator", "variance", "error", "match"),
    [
        (LinearCCD(), "ml", TypeError, "of type LinearCCD; pass a Cox, Fine-Gray"),
        (CoxLassoCCD(relax=0.5), "ml", ValueError, "set_params\\(relax=None\\)"),
        (CoxLassoCCD(penalty=Firth()), "ml", ValueError, "set_params\\(penalty=None\\)"),
        (CoxLassoCCD(), "mle", ValueError, "`variance` is 'mle'"),
        (CoxLassoCCD(), 0.0, ValueError, "`variance` is 0.0"),
        (CoxLassoCCD(), True, ValueError, "`variance` is True"),
    ],
)
def test_other_estimators_and_variances_are_refused(estimator, variance, error, match):
    with pytest.raises(error, match=match):
        fit(estimator, X, Y, CLUSTER, variance)


def test_arguments_that_the_estimator_lacks_are_refused():
    with pytest.raises(TypeError, match="`strata` is no argument of Poisson"):
        fit(PoissonCCD(), X, COUNT, CLUSTER, 0.1, strata=STRATUM)


@pytest.mark.parametrize("variance", ["reml", "ml"])
def test_clusters_that_are_not_compared_are_refused(variance):
    with pytest.raises(ValueError, match="strata have one cluster each"):
        fit(CoxLassoCCD(alpha=0), X, Y, CLUSTER, variance, strata=CLUSTER)
    with pytest.raises(ValueError, match="only one has rows with a weight"):
        fit(CoxLassoCCD(alpha=0), X, Y, CLUSTER, variance, sample_weight=1.0 * (CLUSTER == 3))


def test_indicators_of_clusters_leave_no_intercepts():
    clusters = np.equal.outer(CLUSTER % 3, [0, 1]).astype(float)
    with pytest.raises(ValueError, match="columns of `X` without a penalty are indicators"):
        fit(PoissonCCD(alpha=0), clusters, COUNT, CLUSTER % 3)


def test_labels_in_another_order_than_rows_are_refused():
    frame, labels = pd.DataFrame(X, columns=["a", "b"]), pd.Series(CLUSTER)
    match = "the index of `{}` has the labels of that of `X` in another order"
    with pytest.raises(ValueError, match=match.format("cluster")):
        fit(CoxLassoCCD(), frame, Y, labels[::-1])
    weight = pd.Series(np.ones(300))[::-1]
    with pytest.raises(ValueError, match=match.format("sample_weight")):
        fit(CoxLassoCCD(), frame, Y, labels, sample_weight=weight)
    model = fit(CoxLassoCCD(), frame, Y, labels, 0.1)
    with pytest.raises(ValueError, match=match.format("cluster")):
        model.predict(frame, cluster=labels[::-1])
