"""Effects of additive models with their intervals, and splines whose ridge is one on curvature."""

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import BSpline, make_smoothing_spline

from sksurvgpu import (
    CoxLassoCCD,
    GroupLasso,
    LinearCCD,
    Posterior,
    SplineColumns,
    StepColumns,
    bootstrap,
    make_pipeline,
    profile_likelihood,
    surv,
    wald,
)

N = 400
TIGHT = {"tol": 1e-11, "max_iter": 1000}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "drug": rng.integers(0, 2, N).astype(float),
            "age": rng.integers(20, 80, N).astype(float),
            "dose": rng.exponential(1.0, N),
        }
    )


@pytest.fixture(scope="module")
def y(frame):
    rng = np.random.default_rng(4)
    eta = 0.8 * (frame["age"] > 55) - 0.4 * np.minimum(frame["dose"], 1.5)
    return surv(rng.random(N) < 0.8, rng.exponential(np.exp(-eta)))


def rows_of(columns, frame, variable, values):
    """Columns of rows that have some values of a variable and are alike otherwise, dense."""
    rows = frame.iloc[[0] * len(values)].assign(**{variable: values})
    return columns.transform(rows).to_scipy().toarray()


KINDS = {
    "steps": StepColumns(n_steps=6),
    "splines": SplineColumns(n_knots=4),
    "smooth": SplineColumns(n_knots=5, smooth=True),
}


@pytest.fixture(scope="module", params=KINDS)
def columns(request, frame):
    return KINDS[request.param].fit(frame)


def above(values):
    """Values just above, where a step is, and within floats."""
    return np.nextafter(np.maximum(values, -1e300), np.inf)


def test_effects_of_replicates_have_their_percentiles(columns, frame, y):
    X = columns.transform(frame)
    draws = bootstrap(CoxLassoCCD(alpha=0.01), X, y, n_replicates=20, level=0.8, random_state=0)
    for variable, reference in (("age", 50.0), ("dose", frame["dose"].max())):
        table = columns.effects(draws, reference={variable: reference})
        table = table[table["variable"] == variable]
        rows = rows_of(columns, frame, variable, above(table["value"].to_numpy()))
        rows = rows - rows_of(columns, frame, variable, [reference])
        expected = [rows @ draws.coef, *np.quantile(rows @ draws.coefs, [0.1, 0.9], axis=1)]
        found = table[["effect", "lower", "upper"]].to_numpy().T
        np.testing.assert_allclose(found, expected, atol=1e-12)
        plain = columns.effects(draws.coef, reference={variable: reference})
        assert plain.columns.tolist() == ["variable", "value", "effect"]
    at_median = columns.effects(draws)
    is_age = at_median["variable"] == "age"
    median = np.sort(frame["age"])[(N - 1) // 2]
    place = np.flatnonzero(is_age & (at_median["value"] < median + 1e-9))[-1]
    if isinstance(columns, SplineColumns):
        assert at_median["value"][place] == median
        assert at_median[["effect", "lower", "upper"]].loc[place].abs().max() < 1e-15


@pytest.mark.parametrize("model", [CoxLassoCCD, LinearCCD])
def test_effects_of_a_covariance_are_those_of_contrasts(columns, frame, y, model):
    outcome = y if model is CoxLassoCCD else frame["dose"] ** 2
    pipe = make_pipeline(columns, model(alpha=0.0, **TIGHT)).fit(frame, outcome)
    result = wald(pipe, frame, outcome, level=0.9, intercept=model is LinearCCD)
    table = pipe[0].effects(result, reference={"age": 40})
    table = table[table["variable"] == "age"]
    rows = rows_of(columns, frame, "age", above(table["value"].to_numpy()))
    rows = pd.DataFrame(rows - rows_of(columns, frame, "age", [40.0]), columns=columns._names_out)
    expected = result.contrast(rows[rows.any(axis=1)]).intervals
    found = table[rows.any(axis=1).to_numpy()][["effect", "lower", "upper"]]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert table[~rows.any(axis=1).to_numpy()]["lower"].abs().max() in (0.0, np.nan)


def test_columns_that_depend_on_others_have_no_effect_of_their_own(frame, y):
    columns = StepColumns(columns=["age"], n_steps=4)
    twice = frame.assign(above=(frame["age"] > 50).astype(float), age=np.fmax(frame["age"], 50))
    X = columns.fit_transform(twice)
    with pytest.warns(UserWarning, match="do not determine the coefficients"):
        result = wald(CoxLassoCCD(alpha=0.0).fit(X, y), X, y)
    table = columns.effects(result)
    assert np.isnan(result.coef).sum() == 1 and np.isfinite(table.iloc[:, 2:]).all(axis=None)


def test_effects_of_draws(frame):
    columns = StepColumns(columns=["age"], n_steps=3).fit(frame)
    names = columns.get_feature_names_out().tolist()
    draws = np.random.default_rng(0).normal(size=(2, 50, len(names)))
    posterior = Posterior.from_draws({"coef": draws}, {"coef": names}, level=0.5)
    table = columns.effects(posterior, reference={"age": frame["age"].min()})
    sums = np.cumsum(draws.reshape(100, -1)[:, 2:], axis=1)
    np.testing.assert_allclose(table["effect"][1:], sums.mean(axis=0))
    np.testing.assert_allclose(table["lower"][1:], np.quantile(sums, 0.25, axis=0))


def test_what_has_no_effects_is_said(frame, y):
    columns = StepColumns(n_steps=3).fit(frame)
    X = columns.transform(frame)
    pipe = make_pipeline(StepColumns(n_steps=3), CoxLassoCCD(alpha=0.05)).fit(frame, y)
    of_pipe = bootstrap(pipe, frame, y, n_replicates=3, random_state=0)
    other = bootstrap(CoxLassoCCD(alpha=0.05), frame, y, n_replicates=3, random_state=0)
    profile = profile_likelihood(CoxLassoCCD(alpha=0.05).fit(X, y), X, y, [1])
    for given, error, match in (
        (of_pipe, ValueError, "each of whose replicates has columns of its own; pass"),
        (other, ValueError, "`coef` has no coefficient of column 'age>"),
        (profile, TypeError, "`coef` is of type ProfileResult"),
        ([1.0], ValueError, "`coef` has shape"),
    ):
        with pytest.raises(error, match=match):
            columns.effects(given)
    least, most = frame["age"].min(), frame["age"].max()
    for reference, error, match in (
        ({"hair": 1.0}, ValueError, "`reference` names column 'hair'"),
        ({"age": "old"}, ValueError, "must be a finite number"),
        ({"age": np.nan}, ValueError, "must be a finite number"),
        ([50.0], ValueError, "`reference` has 1 entries, `X` has 3 columns"),
        ({"age": 15.0}, ValueError, f"`reference` of 'age' is 15, .* from {least:g} to {most:g}; "),
        ({"age": 150.0}, ValueError, f"`reference` of 'age' is 150, .* to {most:g}; pass one"),
    ):
        with pytest.raises(error, match=match):
            columns.effects(pipe[1].coef_, reference=reference)


def test_smooth_splines_are_smoothing_splines():
    """... where there is a knot at every value: scipy's, of the same penalty."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.exponential(10.0, 40))
    response = np.sin(x / 5) + rng.normal(0, 0.2, 40)
    columns = SplineColumns(n_knots=40, smooth=True).fit(pd.DataFrame({"x": x}))
    X = columns.transform(pd.DataFrame({"x": x}))
    [block] = X.blocks
    knots = columns.knots_["x"]
    padded = np.r_[[knots[0]] * 3, knots, [knots[-1]] * 3]
    first = BSpline(padded, block.matrix[:, 1], 3).derivative(2)
    at = (knots[:-1, None] + np.diff(knots)[:, None] * (0.5 + 0.5 / np.sqrt(3) * np.r_[-1, 1])).T
    roughness = (first(at) ** 2 * np.diff(knots) / 2).sum()  # exact by two nodes
    for alpha in (1e-4, 1e-2, 1.0):
        model = LinearCCD(alpha=alpha, l1_ratio=0.0, penalty_factor={"x": 0}, **TIGHT)
        fitted = model.fit(X, response).predict(X)
        expected = make_smoothing_spline(x, response, lam=alpha * len(x) / roughness)(x)
        np.testing.assert_allclose(fitted, expected, atol=1e-7)
    line = LinearCCD(alpha=1e9, l1_ratio=0.0, penalty_factor={"x": 0}, **TIGHT).fit(X, response)
    expected = np.polyval(np.polyfit(x, response, 1), x)
    np.testing.assert_allclose(line.predict(X), expected, atol=1e-7)


def test_ridge_of_smooth_columns_is_one_on_curvature():
    """... by Newton's method for coefficients of the splines and the matrix of the penalty."""
    rng = np.random.default_rng(1)
    n, alpha = 200, 0.01
    x, event = rng.gamma(2.0, 1.0, n), rng.random(n) < 0.7
    time = rng.exponential(np.exp(-np.sin(2 * x)))
    columns = SplineColumns(n_knots=12, smooth=True).fit(x[:, None])
    X, knots = columns.transform(x[:, None]), columns.knots_["x0"]
    padded = np.r_[[knots[0]] * 3, knots, [knots[-1]] * 3]
    splines = BSpline.design_matrix(x, padded, 3).toarray()
    nodes, weight = np.polynomial.legendre.leggauss(4)
    half = np.diff(knots)[:, None] / 2
    second = BSpline(padded, np.eye(splines.shape[1]), 3).derivative(2)
    second = second((knots[:-1, None] + half * (1 + nodes)).ravel())
    roughness = second.T @ ((half * weight).reshape(-1, 1) * second)
    first = X.blocks[0].matrix[:, 1]
    ridge = alpha * roughness[1:, 1:] / (first @ roughness @ first)

    order = np.argsort(time)
    rows, is_event = splines[order, 1:], event[order]
    coef = np.zeros(rows.shape[1])
    for _ in range(20):
        risk = np.exp(rows @ coef)
        gradient, hessian = ridge @ coef, ridge.copy()
        for i in np.flatnonzero(is_event):
            share = risk[i:] / risk[i:].sum()
            mean = share @ rows[i:]
            gradient -= (rows[i] - mean) / n
            hessian += ((rows[i:].T * share) @ rows[i:] - np.outer(mean, mean)) / n
        coef -= np.linalg.solve(hessian, gradient)
    expected = splines[:, 1:] @ coef

    model = CoxLassoCCD(alpha=alpha, l1_ratio=0.0, penalty_factor={0: 0.0}, **TIGHT)
    found = model.fit(X, surv(event, time)).predict(X)
    np.testing.assert_allclose(found - found.mean(), expected - expected.mean(), atol=1e-10)


@pytest.mark.parametrize("degree", [2, 3, 5])
def test_smooth_columns_are_uncorrelated_and_know_no_units(frame, degree):
    columns = SplineColumns(n_knots=7, degree=degree, smooth=True)
    table = columns.fit_transform(frame).to_scipy().toarray()
    units = frame.assign(dose=1e6 + 1e3 * frame["dose"])
    other = columns.fit_transform(units).to_scipy().toarray()
    np.testing.assert_allclose(np.abs(other), np.abs(table), atol=1e-5)
    for variable in ("age", "dose"):
        own = table[:, np.char.startswith(columns.groups_.astype(str), variable)]
        covariance = own.T @ own / N
        np.testing.assert_allclose(own.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(covariance, np.diag(np.diagonal(covariance)), atol=1e-12)
        np.testing.assert_allclose(np.diagonal(covariance)[:2], 1.0)
        assert (np.diff(np.diagonal(covariance)[1:]) < 0).all()
        scaled = (frame[variable] - frame[variable].mean()) / frame[variable].std(ddof=0)
        np.testing.assert_allclose(own[:, 0], scaled, atol=1e-12)


def test_columns_of_few_values_have_as_many_curves_as_these_tell_apart(frame):
    few = frame.assign(age=np.arange(N) % 4, dose=np.arange(N) % 3)
    columns = SplineColumns(n_knots=20, smooth=True).fit(few)
    expected = ["drug"] + ["age"] + ["age curved"] * 2 + ["dose", "dose curved"]
    assert columns.groups_.tolist() == expected
    names = columns.get_feature_names_out().tolist()
    assert names == ["drug", "age", "age:1", "age:2", "dose", "dose:1"]
    two = SplineColumns(columns=["drug"], smooth=True).fit(few)
    assert two.groups_.tolist() == ["age", "dose", "drug"]


@pytest.mark.thorough
def test_group_lasso_of_smooth_columns_finds_lines_and_curves():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(1500, 3)), columns=["line", "curve", "nothing"])
    time = rng.exponential(np.exp(-0.7 * X["line"] - np.abs(X["curve"])))
    columns = SplineColumns(n_knots=10, smooth=True).fit(X)
    penalty = GroupLasso(columns.groups_, weights="equal")
    model = CoxLassoCCD(alpha=0.08, penalty=penalty)
    model.fit(columns.transform(X), surv(np.full(1500, True), time))
    assert set(columns.groups_[model.coef_ != 0]) == {"line", "curve curved"}


def test_smooth_columns_refuse_what_they_cannot_do(frame):
    for columns, error, match in (
        (SplineColumns(smooth=True, degree=1), ValueError, "`degree` is 1, must be from 2 to 5"),
        (SplineColumns(smooth=True, n_knots=300), ValueError, "`n_knots` is 300, must be 200"),
        (SplineColumns(smooth="yes"), TypeError, "`smooth` is 'yes'"),
    ):
        with pytest.raises(error, match=match):
            columns.fit(frame)
    largest = SplineColumns(columns=["dose"], smooth=True)
    made = largest.fit_transform(frame.assign(dose=1.7e308 * np.linspace(-1.0, 1.0, N)))
    assert np.isfinite(made.to_scipy().toarray()).all()
    with pytest.raises(ValueError, match="`X` has values so large or small that splines are not"):
        largest.fit(frame.assign(dose=1e-310 * frame["dose"]))
