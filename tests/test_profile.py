"""Profile likelihood: intervals of R, of a slow search with our own fits, and infinite ones."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import PUBLISHED
from faces import FACES
from faces import X as TABLE
from grids import thin
from scipy.optimize import brentq
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    competing_risks,
    matched,
    profile_likelihood,
    surv,
)
from sksurvgpu.datasets import simulate_case_series, simulate_cox, simulate_fine_gray
from sksurvgpu.estimators.fitted import fitted_of
from sksurvgpu.inference.curve import Bound, ProfileCurve

FILES = {"cox": "coxph", "matched": "conditional", "fine_gray": "competing"}
PUBLISHED_CASES = json.loads((PUBLISHED / "profile.json").read_text(encoding="utf-8"))["cases"]
MODELS = {
    "cox": CoxLassoCCD,
    "logistic": LogisticCCD,
    "poisson": PoissonCCD,
    "linear": LinearCCD,
    "matched": ConditionalLogisticCCD,
    "fine_gray": FineGrayCCD,
}
OUTCOMES = {
    "cox": lambda d, uses: surv(
        d["event"], d["time"], start=d["start"] if "start" in uses else None
    ),
    "matched": lambda d, uses: matched(d["case"], d["stratum"]),
    "fine_gray": lambda d, uses: competing_risks(d["status"], d["time"]),
}


def published(case):
    """Estimator, X, y and arguments of ``fit``."""
    name = FILES.get(case["model"], "glm")
    path = PUBLISHED / f"{name}.json"
    data = json.loads(path.read_text(encoding="utf-8"))["datasets"][case["dataset"]]
    uses = case["uses"]
    y = OUTCOMES.get(case["model"], lambda d, uses: d["y"])(data, uses)
    known = {"weights": "sample_weight", "offset": "offset", "strata": "strata"}
    given = {known[use]: data[use] for use in uses if use in known}
    return MODELS[case["model"]](alpha=0, **case["options"]), pd.DataFrame(data["X"]), y, given


@pytest.mark.thorough(but=r"lung|pbc|swiss|heart-start-offset")
@pytest.mark.parametrize(
    "case",
    PUBLISHED_CASES,
    ids=lambda case: "-".join([case["model"], case["dataset"], *case["uses"]]),
)
def test_intervals_of_r(case):
    model, X, y, given = published(case)
    result = profile_likelihood(model, X, y, list(X), **given)
    width = np.subtract(case["upper"], case["lower"])
    for name in ("lower", "upper"):
        assert np.all(np.abs(result.intervals[name] - case[name]) < 1e-6 * width), name
    np.testing.assert_allclose(result.p_values, case["p_values"], rtol=1e-4)
    np.testing.assert_allclose(
        result.intervals["coef"], clone(model).set_params(tol=1e-9).fit(X, y, **given).coef_,
        atol=1e-5 * width.max(),
    )  # fmt: skip


def searched(model, X, y, column, level=0.95, **given):
    """The interval by a slow search: the column is left out, and an offset stands for it."""
    X = np.asarray(X.todense() if hasattr(X, "todense") else X, float)
    rest, own = np.delete(X, column, axis=1), given.pop("offset", np.zeros(len(X)))
    factor = np.ones(X.shape[1])
    for key, value in (model.penalty_factor or {}).items():
        factor[key] = value
    model = clone(model).set_params(tol=1e-10, penalty_factor=np.delete(factor, column))
    weight = given.get("sample_weight", np.ones(len(X)))

    def objective(b):
        fitted = model.fit(rest, y, offset=own + b * X[:, column], **given)
        return fitted.objective_ * np.sum(weight)

    factor[column] = 0.0
    free = clone(model).set_params(penalty_factor=factor).fit(X, y, offset=own, **given)
    least, best = free.objective_ * np.sum(weight), free.coef_[column]

    def excess(b):
        return 2 * (objective(b) - least) - chi2.ppf(level, 1)

    ends = []
    for sign in (-1, 1):
        far = 0.1
        while excess(best + sign * far) < 0:
            far *= 2
        ends.append(brentq(excess, best, best + sign * far, xtol=1e-9, rtol=1e-12))
    return best, *ends


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("l1_ratio", "penalty_factor"), thin(3, [1.0, 0.3], [None, {1: 0.0, 4: 3.0}])
)
def test_penalized_neighbours(l1_ratio, penalty_factor):
    data = simulate_cox(250, 8, density=0.4, n_strata=2, random_state=3)
    rng = np.random.default_rng(0)
    given = {
        "strata": data.strata,
        "sample_weight": rng.uniform(0.5, 2.0, 250),
        "offset": rng.normal(size=250),
    }
    model = CoxLassoCCD(alpha=0.02, l1_ratio=l1_ratio, penalty_factor=penalty_factor)
    result = profile_likelihood(model, data.X, data.y, [5, 1], level=0.9, **given)
    for column in (5, 1):
        best, lower, upper = searched(model, data.X, data.y, column, level=0.9, **given)
        expected = {"coef": best, "lower": lower, "upper": upper}
        found = result.intervals.loc[f"x{column}"]
        for name, value in expected.items():
            limit = 1e-4 if name == "coef" else 2e-6
            assert abs(found[name] - value) < limit * (upper - lower), name
    assert result.level == 0.9
    assert result.thresholds.to_list() == pytest.approx([chi2.ppf(0.9, 1)] * 2)


@pytest.mark.parametrize("name", list(FACES))
def test_every_model(name):
    """The bounds have the likelihood that they should, by fits of the estimator with an offset."""
    face = FACES[name]
    given, column = face.rows, 1
    model = face.make(alpha=0.01, tol=1e-10)
    result = profile_likelihood(model, TABLE, face.y, [column], **given)
    bounds = result.intervals.iloc[0]
    X = TABLE.toarray()
    rest, weight = np.delete(X, column, axis=1), given.get("sample_weight", np.ones(len(X)))

    def least(b):
        offset = given.get("offset", 0.0) + b * X[:, column]
        fitted = clone(model).fit(rest, face.y, **{**given, "offset": offset})
        return fitted.objective_ * fitted_of(fitted).total_weight, fitted

    middle, fitted = least(bounds["coef"])
    dispersion = 1.0
    if name == "linear":
        n_fitted = np.count_nonzero(fitted.coef_) + 2  # the column, and an intercept
        dispersion = -2 * fitted.log_likelihood_ / (np.count_nonzero(weight) - n_fitted)
    for end in ("lower", "upper"):
        ratio = 2 * (least(bounds[end])[0] - middle) / dispersion
        assert ratio == pytest.approx(result.thresholds.iloc[0], rel=1e-5)
    assert np.isfinite(bounds).all()


def test_coefficients_that_change_over_time():
    data = simulate_cox(300, 4, density=0.4, random_state=1)
    table = pd.DataFrame(data.X.toarray(), columns=list("abcd"))
    cut = float(np.median(data.y["time"]))
    model = CoxLassoCCD(alpha=0, time_varying={"b": [cut]})
    names = model.fit(table, data.y).summary().index.tolist()
    both = profile_likelihood(model, table, data.y, "b")
    assert both.intervals.index.tolist() == names[1:3]
    later = profile_likelihood(model, table, data.y, names[2])
    assert later.intervals.index.tolist() == [names[2]]
    np.testing.assert_allclose(
        later.intervals.loc[names[2]], both.intervals.loc[names[2]], atol=1e-5
    )
    by_position = profile_likelihood(model, table, data.y, 1)
    pd.testing.assert_frame_equal(by_position.intervals, both.intervals)
    # The same by hand: rows split at the cut.
    event, time, X = data.y["event"], data.y["time"], data.X.toarray()
    late = np.flatnonzero(time > cut)
    n_late = len(late)
    y = surv(
        np.append(event & (time <= cut), event[late]),
        np.append(np.minimum(time, cut), time[late]),
        start=np.append(np.zeros(300), np.full(n_late, cut)),
    )
    split = np.vstack([np.insert(X, 2, 0.0, axis=1), np.insert(X[late], 1, 0.0, axis=1)])
    by_hand = profile_likelihood(CoxLassoCCD(alpha=0), split, y, [1, 2])
    np.testing.assert_allclose(by_hand.intervals, both.intervals, atol=1e-5)


def test_monotone_likelihood_has_an_infinite_bound():
    rng = np.random.default_rng(2)
    time = rng.permutation(60) + 1.0
    event = rng.random(60) < 0.5
    never = np.zeros(60)  # nobody with this column has an event
    never[np.flatnonzero(~event & (time > 20))[:6]] = 1.0
    X = np.column_stack([never, rng.normal(size=60), np.ones(60)])
    model, y = CoxLassoCCD(alpha=0.01, penalty_factor={1: 0.0}), surv(event, time)
    result = profile_likelihood(model, X, y, [0, 1, 2], n_points=5)
    bounds = result.intervals
    assert bounds.loc["x0", "lower"] == -np.inf and np.isfinite(bounds.loc["x0", "upper"])
    assert np.isfinite(bounds.loc["x1"]).all()
    assert bounds.loc["x2"].tolist() == [0.0, -np.inf, np.inf] and result.p_values["x2"] == 1.0
    mirrored = profile_likelihood(model, X * [-1, 1, 1], y, 0).intervals.loc["x0"]
    assert mirrored["upper"] == np.inf
    assert mirrored["lower"] == pytest.approx(-bounds.loc["x0", "upper"], rel=1e-5)
    # the other end: where the loglik is the quantile below its limit
    limit = profile_end(X[:, :2], y)
    assert bounds.loc["x0", "upper"] == pytest.approx(limit, rel=1e-4)


def profile_end(X, y):
    """Upper end for the first of two columns, whose likelihood is highest at minus infinity."""
    model = CoxLassoCCD(alpha=0, tol=1e-10)

    def objective(b):
        return -model.fit(X[:, 1:], y, offset=b * X[:, 0]).log_likelihood_

    least = objective(-40.0)
    return brentq(lambda b: 2 * (objective(b) - least) - chi2.ppf(0.95, 1), -40.0, 5.0, xtol=1e-9)


def test_separated_classes():
    """Both classes are told apart by one column; the other bound is finite."""
    x = np.arange(20.0)
    result = profile_likelihood(LogisticCCD(alpha=0), x[:, None], x >= 10, 0)
    lower, upper = result.intervals.loc["x0", ["lower", "upper"]]
    assert upper == np.inf and 0 < lower < np.inf
    plain = LogisticCCD(alpha=0, tol=1e-10)

    def deviance(b):
        return -2 * plain.fit(np.zeros((20, 1)), x >= 10, offset=b * x).log_likelihood_

    assert deviance(lower) == pytest.approx(chi2.ppf(0.95, 1), rel=1e-4)


def test_curves_and_summary():
    data = simulate_fine_gray(300, 5, density=0.4, random_state=0)
    model = FineGrayCCD(alpha=0.01)
    result = profile_likelihood(model, data.X, data.y, [2, 0], n_points=7)
    assert set(result.curves["feature"]) == {"x2", "x0"}
    assert result.intervals.index.name == "feature"
    assert result.intervals.columns.tolist() == ["coef", "lower", "upper"]
    for name in ("x2", "x0"):
        curve = result.curves[result.curves["feature"] == name]
        _, lower, upper = result.intervals.loc[name]
        grid = np.linspace(lower - 0.25 * (upper - lower), upper + 0.25 * (upper - lower), 7)
        assert all(np.abs(curve["value"] - value).min() < 1e-12 for value in grid)
        assert curve["value"].is_monotonic_increasing
        assert curve["log_likelihood_ratio"].min() == 0
        at = dict(zip(curve["value"], curve["log_likelihood_ratio"], strict=True))
        assert result.p_values[name] == pytest.approx(chi2.sf(at[0.0], 1))
        slopes = np.diff(curve["log_likelihood_ratio"]) / np.diff(curve["value"])
        wide = np.diff(curve["value"]) > 1e-3
        assert (np.diff(slopes[wide]) > -1e-3).all()  # convex
    table = result.summary()
    np.testing.assert_allclose(table["hazard_ratio_lower"], np.exp(table["lower"]))
    assert table["p_value"].equals(result.p_values)
    assert repr(result).splitlines()[0] == "<ProfileResult of 2 coefficients, 95% intervals>"
    copied = pickle.loads(pickle.dumps(result))
    pd.testing.assert_frame_equal(copied.curves, result.curves)


def test_threads_and_blocks_change_nothing(monkeypatch):
    data = simulate_case_series(60, 4, density=0.4, random_state=0)
    model = CaseSeriesCCD(alpha=0.01, n_jobs=1)
    result = profile_likelihood(model, data.X, data.y, range(4))
    model.set_params(n_jobs=2)
    again = profile_likelihood(model, data.X, data.y, range(4))
    pd.testing.assert_frame_equal(again.curves, result.curves)
    monkeypatch.setattr("sksurvgpu.inference.profile.BLOCK_BYTES", 1)
    again = profile_likelihood(model, data.X, data.y, range(4))
    pd.testing.assert_frame_equal(again.curves, result.curves)
    assert not hasattr(model, "coef_")


def test_a_loose_tolerance_is_tightened():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(250, 1)) + 0.2 * rng.normal(size=(250, 8))
    y = surv(rng.random(250) < 0.7, rng.exponential(size=250) * np.exp(-table[:, 0]))
    loose, tight = (
        profile_likelihood(CoxLassoCCD(alpha=0.003, tol=tol), table, y, [0, 5]).intervals
        for tol in (0.1, 1e-11)
    )
    np.testing.assert_allclose(loose[["lower", "upper"]], tight[["lower", "upper"]], rtol=1e-6)


def test_few_fits_are_needed(monkeypatch, capsys):
    """A profile of one column: less than a dozen fits, most of them from a start nearby."""
    data = simulate_cox(500, 10, density=0.3, random_state=0)
    profile_likelihood(CoxLassoCCD(alpha=0.01, verbose=1), data.X, data.y, 0)
    lines = capsys.readouterr().out.splitlines()
    n_fits = sum(int(line.split(": ")[1].split()[0]) for line in lines)
    assert any(line.startswith("round 1: 2 fits, ") for line in lines) and n_fits <= 11


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"columns": "agee"}, ValueError, "`columns` names 'agee'.*did you mean 'age'\\?"),
        ({"columns": 7}, ValueError, "names column 7, `X` has columns 0 to 1"),
        ({"columns": -1}, ValueError, "names column -1"),
        ({"columns": []}, ValueError, "`columns` is empty"),
        ({"columns": [0.5]}, TypeError, "column 0.5 of type float; use its name"),
        ({"columns": [True]}, TypeError, "column True of type bool"),
        (
            {"estimator": CoxLassoCCD(penalty="mcp")},
            ValueError,
            r"\(penalty=None\) or certificate or bootstrap",
        ),
        ({"estimator": CoxLassoCCD(relax=0.5)}, ValueError, r"\(relax=None\) or bootstrap"),
        ({"level": 95}, ValueError, "`level` is 95"),
        ({"level": True}, ValueError, "`level` is True"),
        ({"n_points": -1}, ValueError, "`n_points` is -1"),
        ({"weights": 1}, TypeError, "`weights` is no argument of profile_likelihood and CoxLasso"),
        ({"estimator": CoxLassoCV()}, TypeError, r"pass `refit_model\(\)`"),
        ({"estimator": object()}, TypeError, "of type object"),
    ],
)
def test_bad_arguments(change, error, message):
    table = pd.DataFrame({"age": [1.0, 2.0, 0.0, 1.0], "dose": [0.0, 1.0, 2.0, 1.0]})
    y = surv([True, True, False, True], [1.0, 2.0, 3.0, 4.0])
    given = {"estimator": CoxLassoCCD(), "X": table, "y": y, "columns": "age"} | change
    with pytest.raises(error, match=message):
        profile_likelihood(**given)


def test_no_variance_to_estimate():
    X, y = np.eye(3), np.array([1.0, 2.0, 4.0])
    with pytest.raises(ValueError, match="nothing is left to estimate the variance"):
        profile_likelihood(LinearCCD(alpha=0), X[:, :2], y, 0)


def test_fits_that_do_not_converge():
    data = simulate_cox(200, 5, density=0.4, random_state=0)
    model = CoxLassoCCD(alpha=1e-4, max_iter=1)
    with pytest.warns(ConvergenceWarning, match=r"of \d+ fits of the profiles did not converge"):
        profile_likelihood(model, data.X, data.y, 0, level=0.1)


def search(objective, origin, *, span=1.0, step=1.0, root=1.96):
    """Bounds of an objective that is known, and how often it was evaluated."""
    curve = ProfileCurve(origin, objective(origin), span)
    bounds = [Bound(curve, sign, root, step * root) for sign in (-1, 1)]
    n = 0
    while any(values := [b.propose() for b in bounds]) or any(v == 0.0 for v in values):
        for value in values:
            if value is not None:
                curve.add(value, objective(value))
                n += 1
        assert n < 200
    return [bound.value for bound in bounds], n


@pytest.mark.thorough(but=r"-(0\.001|20\.0)\]")
@pytest.mark.parametrize("step", [1e-3, 0.3, 1.0, 20.0])
@pytest.mark.parametrize(
    "objective",
    [
        lambda b: 0.5 * b**2,
        lambda b: 8 * (np.exp(b) - b),
        lambda b: 3 * np.log1p(np.exp(-b)) + 1.2 * np.log1p(np.exp(b)),
        lambda b: np.abs(b) + 0.05 * b**2 + np.maximum(b - 1, 0) ** 2,  # with kinks
        lambda b: np.maximum(0, np.abs(b) - 0.5) * 5.0,
    ],
    ids=["parabola", "exponential", "lines", "kinks", "flat"],
)
def test_search_finds_both_bounds(objective, step):
    grid = np.linspace(-3, 3, 2_000_001)
    origin = float(grid[np.argmin(objective(grid))])
    bounds, _ = search(objective, origin, step=step)

    def excess(b):
        return 2 * (objective(b) - objective(origin)) - 1.96**2

    expected = brentq(excess, -80, origin), brentq(excess, origin, 80)
    np.testing.assert_allclose(bounds, expected, rtol=2e-6)


def test_search_of_a_parabola_is_short():
    bounds, n = search(lambda b: 0.5 * (b - 1) ** 2, 1.0, step=0.3)
    np.testing.assert_allclose(bounds, [1 - 1.96, 1 + 1.96], rtol=1e-7)
    assert n <= 4


@pytest.mark.parametrize("gap", [1.0, 0.01])
def test_search_of_a_likelihood_without_maximum(gap):
    """Also where the first fit ended long before the end, and slowly where gaps are small."""

    def objective(b):
        return 4 * np.log1p(np.exp(-gap * b))

    [lower, upper], n = search(objective, 6.0 / gap, step=100.0)
    assert upper == np.inf and n <= 14
    assert 2 * objective(lower) == pytest.approx(1.96**2, rel=1e-4)


def test_search_where_nothing_changes():
    assert search(lambda b: 0.0 * b, 0.0, step=np.inf)[0] == [-np.inf, np.inf]
    assert search(lambda b: 0.0 * b, 0.0, span=0.0, step=np.inf)[0] == [-np.inf, np.inf]


def test_small_factors_of_other_columns_do_not_loosen_the_tolerance():
    """The null model's gradient in units of tiny penalty factors is no scale for a free column."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(200, 3))
    y = rng.random(200) < 1 / (1 + np.exp(-0.3 * table[:, 0] - 0.5 * table[:, 2]))
    factors = [1.0, 0.01, 1e-10]
    ridge = {"alpha": 0.01, "l1_ratio": 0.0}
    tiny = profile_likelihood(LogisticCCD(penalty_factor=factors, **ridge), table, y, 0)
    free = profile_likelihood(LogisticCCD(penalty_factor=[1.0, 0.01, 0.0], **ridge), table, y, 0)
    np.testing.assert_allclose(tiny.intervals, free.intervals, atol=1e-5)
