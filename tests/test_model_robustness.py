"""All likelihoods at the edge of floating point: right, or a clear error; never a NaN."""

import numpy as np
import pytest
from models import (
    MODELS,
    Sample,
    fit,
    gradient,
    largest_gradient,
    open_rows,
    violation,
)
from sklearn.base import clone

from sksurvgpu import MCP, CoxLassoCCD, GroupLasso, surv

ALGORITHMS = ("majorized", "exact")


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return request.param


def drawn(seed, n, scale=1.0):
    return scale * np.random.default_rng([80, seed]).normal(size=n)


NOT_COX = [name for name, model in MODELS.items() if model.name != "cox"]  # see test_likelihoods


def extreme(model, seed, scale, **kwargs):
    """A sample whose offsets spread by `scale`."""
    sample = model.sample(seed, offset=False, **kwargs)
    return sample.with_(offset=drawn(seed, sample.n, scale))


@pytest.mark.thorough(but=r"-1000\.0")
@pytest.mark.parametrize("scale", [1e2, 1e3, 1e5])
@pytest.mark.parametrize("name", NOT_COX)
def test_extreme_predictors(name, scale, tolerance):
    """Every predictor of any size is evaluated rightly, or not at all."""
    model = MODELS[name]
    sample = extreme(model, 81, scale)
    session, loglik, _ = open_rows(model, sample, np.zeros(sample.n))
    if not np.isfinite(loglik):  # an exponential overflows, or the weights of carried rows do
        assert model.name in ("poisson", "fine_gray")
        assert scale >= 1e3
        return
    with np.errstate(all="ignore"):
        expected = model.reference(sample, sample.offset)
    assert abs(loglik - expected.loglik) <= tolerance("loglik") * abs(expected.loglik)
    # the predictor is rounded, and so is the intercept
    noise = 10 * np.finfo(float).eps * scale * max(1.0, expected.h.max())
    error = np.abs(gradient(session) - expected.u).max()
    assert error <= max(noise, tolerance("u") * max(1.0, np.abs(expected.u).max()))


@pytest.mark.thorough(but=r"-1000\.0")
@pytest.mark.parametrize("scale", [1e2, 1e3, 1e5])
@pytest.mark.parametrize("name", NOT_COX)
def test_extreme_offsets(name, scale, algorithm):
    """A fit ends at the optimum, or says that it did not."""
    model, message = MODELS[name], ""
    sample = extreme(model, 82, scale, p=3)
    try:
        with np.errstate(all="ignore"):  # steps where the curvature has underflowed
            solution = fit(model, sample, 0.3, algorithm=algorithm, max_iter=100)
    except ValueError as error:
        message = str(error)
    if message:
        assert "not finite" in message
        assert scale >= 1e3
        return
    assert np.isfinite(solution.coef).all()
    assert np.isfinite([solution.loglik, solution.objective, solution.kkt]).all()
    if solution.converged and scale == 1e2:
        root = solution.null.root
        worst = (violation(model, sample, solution.coef, 0.3) / root).max()
        assert worst <= 1.1e-6 * (violation(model, sample, np.zeros(3), 0.0) / root).max()


@pytest.mark.parametrize("name", ["conditional_poisson", "conditional_logistic", "logistic"])
class TestShiftsByAnything:
    def test_evaluation(self, name):
        model = MODELS[name]
        sample = model.sample(83)
        eta = drawn(3, sample.n)
        session, loglik, _ = open_rows(model, sample, eta)
        shift = 2.0**17 * (1.0 + model.group_of(sample))
        moved, shifted, _ = open_rows(model, sample, eta + shift)
        np.testing.assert_allclose(shifted, loglik, rtol=1e-9)
        np.testing.assert_allclose(gradient(moved), gradient(session), atol=1e-8)

    def test_fit(self, name, algorithm, check_close):
        model = MODELS[name]
        sample = model.sample(84, p=4)
        shift = 2.0**10 * (1.0 + model.group_of(sample))
        args = {"algorithm": algorithm, "l1_ratio": 0.3, "tol": 1e-9}
        moved = fit(model, sample.with_(offset=sample.offset + shift), 0.5, **args)
        check_close(moved.coef, fit(model, sample, 0.5, **args).coef, "coef")


@pytest.mark.parametrize("far", [-1e4, 1e4])
def test_a_row_of_enormous_odds(far, check_close):
    """It is a case, or is none, for certain: the set is that of the other rows."""
    model = MODELS["conditional_logistic"]
    n, m = 9, 4
    case = (np.arange(n) < m).astype(float)
    eta = drawn(4, n)
    row = 0 if far > 0 else n - 1
    whole = Sample(None, {"case": case, "group": np.zeros(n, int)})
    others = np.delete(np.arange(n), row)
    expected = model.reference(whole.rows(others), eta[others])
    eta[row] = far
    session, loglik, _ = open_rows(model, whole, eta)
    check_close(loglik, expected.loglik, "u")
    check_close(gradient(session)[others], expected.u, "u")
    assert abs(gradient(session)[row]) <= 1e-15
    check_close(session.curvature(others)[0][:, 1], expected.h, "h")


@pytest.mark.parametrize("n_far", [1, 3])
def test_more_certain_rows_than_cases(n_far, check_close):
    """Rows of enormous and equal odds share the cases among themselves."""
    model = MODELS["conditional_logistic"]
    case = np.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    eta = drawn(5, 7)
    eta[2 : 2 + n_far] = 500.0
    sample = Sample(None, {"case": case, "group": np.zeros(7, int)})
    session, loglik, _ = open_rows(model, sample, eta)
    expected = model.reference(sample, eta)
    assert abs(loglik - expected.loglik) <= 1e-13 * abs(expected.loglik)
    check_close(gradient(session), expected.u, "u")


@pytest.mark.parametrize("far", [30.0, 1e3, 1e4])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_intercept_between_far_predictors(share, far, tolerance):
    """The mean of means is flat nearly everywhere, and at a share of 0.5 at its level."""
    model = MODELS["logistic"]
    y = (np.arange(40) < 20).astype(float)
    eta = np.where(np.arange(40) % 10 < 10 * share, far, -far)
    eta = eta + drawn(6, 40)
    session, loglik, _ = open_rows(model, Sample(None, {"value": y}), eta)
    u = gradient(session)
    assert np.isfinite(loglik)
    assert abs(u.sum()) <= 1e-6
    means = y - u
    assert (means >= 0).all() and (means <= 1).all()
    low, high = means[eta < 0], means[eta > 0]
    if share < 0.5:
        np.testing.assert_allclose(high, 1.0)
    elif share > 0.5:
        np.testing.assert_allclose(low, 0.0, atol=1e-12)
    assert low.max() <= high.min()


@pytest.mark.thorough(but="majorized-1000000.0")
@pytest.mark.parametrize("size", [1e6, 1e12])
def test_huge_counts(size, algorithm, check_close):
    rng = np.random.default_rng(84)
    X = rng.normal(size=(60, 3))
    count = np.round(size * np.exp(0.3 * X[:, 0] - 0.5 * X[:, 2]) * rng.uniform(0.5, 2.0, 60))
    group = np.arange(60) // 6
    for name, y in [
        ("poisson", {"value": count}),
        ("conditional_poisson", {"count": count, "group": group}),
    ]:
        model, sample = MODELS[name], Sample(X, y, np.ones(60))
        solution = fit(model, sample, 0.01 * size, algorithm=algorithm, tol=1e-9)
        assert solution.converged
        worst = violation(model, sample, solution.coef, 0.01 * size).max()
        assert worst <= 2e-9 * largest_gradient(model, sample)
        loglik = model.reference_at(sample, solution.coef).loglik
        check_close(solution.loglik / loglik, 1.0, "loglik")


@pytest.mark.thorough
def test_one_count_that_dwarfs_the_rest(algorithm):
    X = drawn(7, (50, 2))
    count = np.ones(50)
    count[0] = 1e200
    sample = Sample(X, {"value": count}, np.ones(50))
    solution = fit(MODELS["poisson"], sample, 1e150, algorithm=algorithm)
    assert np.isfinite(solution.coef).all()
    assert np.isfinite(solution.objective)


def separated(name):
    """Data that a large enough coefficient explains fully."""
    x, ones = np.linspace(-1.0, 1.0, 40)[:, None], np.ones(40)
    group, first = np.arange(40) // 4, np.arange(40) % 4
    if name == "logistic":
        return Sample(x, {"value": (x[:, 0] > 0.01).astype(float)}, ones)
    if name == "conditional_logistic":
        return Sample(x, {"case": (first > 1).astype(float), "group": group}, ones)
    if name == "conditional_poisson":
        return Sample(x, {"count": 3.0 * (first == 3), "group": group}, ones)
    if name == "poisson":
        return Sample((x > 0).astype(float), {"value": 3.0 * (x[:, 0] > 0)}, ones)
    early = {"time": np.arange(40.0) + 1, "strata": None, "curve": None}
    if name.startswith("cox"):
        return Sample((x < 0).astype(float), {**early, "event": ones > 0, "start": None}, ones)
    status = np.where(first == 3, 2, 1)
    X = np.where(status[:, None] == 2, -3.0, -x)
    return Sample(X, {**early, "status": status}, ones)


@pytest.mark.thorough(but=r"majorized|exact-logistic")
@pytest.mark.parametrize(
    "name",
    [
        "cox, breslow",
        "cox, efron",
        "logistic",
        "conditional_logistic",
        "conditional_poisson",
        "poisson",
        "fine_gray",
    ],
)
def test_separated_data_stay_finite(name, algorithm):
    """A fit stops, and says so or is flat."""
    solution = fit(MODELS[name], separated(name), 0.0, algorithm=algorithm, max_iter=60)
    assert np.isfinite(solution.coef).all()
    assert np.isfinite([solution.objective, solution.kkt]).all()
    assert abs(solution.coef[0]) > 3.0
    assert np.diff(solution.objectives).max() <= 1e-12 * abs(solution.objectives[0])


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("cox, breslow", "event", 0),
        ("cox, efron", "event", 0),
        ("fine_gray", "status", 0),
        ("fine_gray", "status", 2),
        ("fine_gray, strata and curves", "status", 2),
        ("conditional_poisson", "count", 0.0),
        ("conditional_logistic", "case", 0.0),
        ("conditional_logistic", "case", 1.0),
    ],
)
@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_nothing_to_fit(name, key, value, lam, algorithm):
    model = MODELS[name]
    sample = model.sample(85, p=3)
    sample = sample.with_y(**{key: np.full(sample.n, value)})
    solution = fit(model, sample, lam, algorithm=algorithm)
    assert solution.converged
    assert (solution.coef == 0).all()
    assert solution.loglik == solution.objective == solution.lam_max == 0.0


@pytest.mark.thorough(but=r"-1\.0\]")
@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_no_row_has_weight(model, lam, algorithm):
    sample = model.sample(86, p=3)
    solution = fit(model, sample.with_(weights=np.zeros(sample.n)), lam, algorithm=algorithm)
    assert solution.converged
    assert (solution.coef == 0).all()
    assert solution.objective == 0.0


@pytest.mark.parametrize("name", ["cox, breslow", "cox, efron", "fine_gray"])
@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_no_event_has_weight(name, lam, algorithm):
    model = MODELS[name]
    sample = model.sample(89, p=3)
    code = sample.y["event" if model.name == "cox" else "status"]
    solution = fit(model, sample.with_(weights=1.0 * (code != 1)), lam, algorithm=algorithm)
    assert solution.converged
    assert (solution.coef == 0).all()
    assert solution.loglik == solution.objective == solution.lam_max == 0.0


@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_every_column_is_fixed(model, lam, algorithm):
    sample = model.sample(90, p=3)
    start = np.random.default_rng(90).normal(size=(3, 1))
    solution = fit(model, sample, lam, algorithm=algorithm, coef=start, fixed=start != 0)
    assert solution.converged
    np.testing.assert_array_equal(solution.coef, start[:, 0])
    loglik = model.reference_at(sample, start[:, 0]).loglik
    np.testing.assert_allclose(solution.loglik, loglik)


@pytest.mark.parametrize(
    "name",
    [
        "cox, breslow",
        "cox, efron",
        "fine_gray",
        "conditional_poisson",
        "conditional_logistic",
        "gaussian",
    ],
)
def test_one_row(name, algorithm):
    model = MODELS[name]
    solution = fit(model, model.sample(87, p=2).rows(slice(1)), 0.0, algorithm=algorithm)
    assert solution.converged
    assert (solution.coef == 0).all()


def test_columns_without_effect(model):
    """Constant within every group where the mean is free; empty."""
    sample = model.sample(88, p=2)
    labels = model.group_of(sample)
    constant = np.zeros(sample.n) if labels is None else np.asarray(labels, float) + 0.1
    X = np.column_stack([sample.X, constant, np.zeros(sample.n)])
    solution = fit(model, sample.with_(X=X), 0.0)
    assert solution.converged
    assert (solution.coef[2:] == 0).all()
    assert (solution.coef[:2] != 0).all()


def test_ridges_beside_lassos_under_small_weights():
    """The largest useful penalty lies between two whose product is no number."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = surv(rng.random(40) < 0.6, rng.exponential(size=40))
    model = CoxLassoCCD(alpha=0.05, l1_ratio=[1.0, 0.0, 1.0])
    expected = clone(model).fit(X, y).alpha_max_
    model.fit(X, y, sample_weight=np.full(40, 1e-165))
    assert model.alpha_max_ == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("penalty", [GroupLasso([0, 0, 1]), MCP()])
def test_penalties_with_squares_under_small_weights(penalty):
    """They are as ever, or refused: with 1e-150 a fit would be one without a penalty."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = surv(rng.random(40) < 0.6, rng.exponential(size=40))
    model = CoxLassoCCD(alpha=0.05, penalty=penalty)
    expected = clone(model).fit(X, y).coef_
    model.fit(X, y, sample_weight=np.full(40, 1e-120))
    np.testing.assert_allclose(model.coef_, expected, atol=1e-6)
    with pytest.raises(ValueError, match="`sample_weight` adds up to 4e-149, and this `penalty`"):
        model.fit(X, y, sample_weight=np.full(40, 1e-150))
