"""Intervals of predicted curves against refits, sums written out, and what must hold of them.

R's figures are in `test_curves_published`.
"""

from pickle import dumps, loads

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from sksurvgpu import (
    CoxLassoCCD,
    CumulativeIncidenceDisplay,
    FineGrayCCD,
    LogisticCCD,
    SurvivalDisplay,
    bootstrap,
    competing_risks,
    curve_intervals,
    surv,
)
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.estimators.models.base import model_of
from sksurvgpu.inference._curves import critical_value
from sksurvgpu.inference._replicates import Replicates

mpl.use("Agg")
N = 60
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 2))
LATENT = RNG.exponential(size=(3, N)) * np.exp([-X @ [0.5, -0.5], 0.5 * X[:, 0], np.zeros(N)])
LATENT[1:] *= 2.0
TIME, CAUSE = np.ceil(10 * LATENT.min(axis=0)), np.argmin(LATENT, axis=0)
COX, COMPETING = surv(CAUSE == 0, TIME), competing_risks(np.array([1, 2, 0])[CAUSE], TIME)
STRATA, WEIGHT = np.array(["a", "b"])[RNG.integers(0, 2, N)], RNG.uniform(0.5, 2.0, N)
NEW, AT = np.array([[0.5, -0.5], [0.0, 1.0]]), [1.0, 3.0, 8.0]
TIGHT = {"alpha": 0.0, "tol": 1e-11}


@pytest.fixture(scope="module")
def cox():
    return CoxLassoCCD(**TIGHT).fit(X, COX)


@pytest.mark.thorough(but=r"\[model0")
@pytest.mark.parametrize(
    ("model", "y", "strata", "rtol"),
    [
        (CoxLassoCCD(ties="efron", **TIGHT), COX, STRATA, 1e-7),
        (FineGrayCCD(**TIGHT), COMPETING, None, 0.002),  # up to shares of the rows at risk
    ],
)
def test_robust_errors_are_those_of_the_jackknife(model, y, strata, rtol):
    """The sum of the squared effects of the rows' weights, censoring curve and all."""
    rows = {"strata": strata, "sample_weight": WEIGHT}
    new, at = None if strata is None else strata[:2], [3.0, 8.0, 12.0]
    model.fit(X, y, **rows)
    given = {"times": at, "what": "risk", "strata_new": new, **rows}
    found = curve_intervals(model, X, y, NEW, robust=True, **given)
    total, h = np.zeros((2, len(at))), 1e-4
    for i in range(N):
        risks = []
        for factor in (1 + h, 1 - h):
            changed = rows | {"sample_weight": np.where(np.arange(N) == i, factor, 1.0) * WEIGHT}
            risks.append(model.fit(X, y, **changed).predict_risk(NEW, at, strata=new))
        total += ((risks[0] - risks[1]) / (2 * h)).to_numpy() ** 2
    np.testing.assert_allclose(found.standard_errors, np.sqrt(total), rtol=rtol)


def test_clusters_of_one_row_are_rows(cox):
    rows = curve_intervals(cox, X, COX, NEW, robust=True, times=AT)
    clusters = curve_intervals(cox, X, COX, NEW, cluster=np.arange(N), times=AT)
    np.testing.assert_allclose(clusters.standard_errors, rows.standard_errors, rtol=1e-12)
    fine_gray = FineGrayCCD(**TIGHT).fit(X, COMPETING)
    default, robust = (
        curve_intervals(fine_gray, X, COMPETING, NEW, times=AT, robust=robust).standard_errors
        for robust in (None, True)
    )
    np.testing.assert_array_equal(default, robust)


@pytest.mark.parametrize("start", [0.0, 2.0])
@pytest.mark.parametrize("cuts", [{}, {1: [4.0]}])
def test_variances_as_sums_over_event_times(cuts, start):
    """Breslow's hazard, its slope and its own variance, written out."""
    model = CoxLassoCCD(time_varying=cuts or None, **TIGHT).fit(X, COX)
    found = curve_intervals(
        model, X, COX, NEW[:1], times=[8.0], what="cumulative_hazard", start=start
    )

    def at(x, time):
        x = np.atleast_2d(x)
        if not cuts:
            return x
        late = time > 4.0
        return np.column_stack([x[:, 0], x[:, 1] * (not late), x[:, 1] * late])

    hazard, own, slope, information = 0.0, 0.0, 0.0, 0.0
    for time in np.unique(TIME[COX["event"]]):
        x = at(X, time)[time <= TIME]
        risk, deaths = np.exp(x @ model.coef_), np.sum(COX["event"] & (time == TIME))
        mean = risk @ x / risk.sum()
        information = information + deaths * ((x - mean).T * risk) @ (x - mean) / risk.sum()
        if start < time <= 8.0:
            new = at(NEW[0], time)[0]
            factor = np.exp(new @ model.coef_)
            hazard += factor * deaths / risk.sum()
            own += factor**2 * deaths / risk.sum() ** 2
            slope = slope + factor * deaths / risk.sum() * (new - mean)
    variance = own + slope @ np.linalg.solve(information, slope)
    assert found.estimate[0, 0] == pytest.approx(hazard, rel=1e-9)
    assert found.standard_errors[0, 0] == pytest.approx(np.sqrt(variance), rel=1e-9)


def test_curves_of_one_fit_agree(cox):
    options = {"times": AT, "level": 0.8, "random_state": 0, "band": (1.0, 5.0)}
    survival, risk, hazard = (
        curve_intervals(cox, X, COX, NEW, what=what, **options)
        for what in ("survival", "risk", "cumulative_hazard")
    )
    expected = cox.predict_risk(NEW, AT)
    np.testing.assert_allclose(risk.estimate, expected, rtol=1e-12)
    np.testing.assert_allclose(survival.lower, 1 - risk.upper, rtol=1e-12)
    np.testing.assert_allclose(survival.band_upper, 1 - risk.band_lower, rtol=1e-12)
    np.testing.assert_allclose(np.exp(-hazard.lower), survival.upper, rtol=1e-12)
    np.testing.assert_allclose(survival.standard_errors, risk.standard_errors, rtol=1e-12)
    assert (survival.band_lower[:, :2] < survival.lower[:, :2]).all()
    assert np.isnan(survival.band_lower[:, 2]).all()  # after the band
    before = curve_intervals(cox, X, COX, NEW, times=[0.0])
    assert (before.lower == 1).all() and (before.upper == 1).all()


@pytest.mark.parametrize(("cls", "y"), [(CoxLassoCCD, COX), (FineGrayCCD, COMPETING)])
def test_rows_of_weight_0_are_not_in_curves(cls, y):
    """Their events are neither times of curves nor those that a band is between."""
    kept = np.flatnonzero(TIME < 9)
    weight, few = np.where(TIME < 9, WEIGHT, 0.0), {"sample_weight": WEIGHT[kept]}
    every = cls(**TIGHT).fit(X, y, sample_weight=weight)
    fit = cls(**TIGHT).fit(X[kept], y[kept], **few)
    options = {"band": True, "robust": False, "random_state": 0}
    found = curve_intervals(every, X, y, NEW, sample_weight=weight, **options).to_frame()
    expected = curve_intervals(fit, X[kept], y[kept], NEW, **few, **options).to_frame()
    pd.testing.assert_frame_equal(found, expected)


def test_band_of_two_events():
    x, y = np.array([[0.0], [1.0], [0.0], [1.0]]), surv([1, 1, 0, 0], [1.0, 2.0, 3.0, 4.0])
    model = CoxLassoCCD(**TIGHT).fit(x, y)
    found = curve_intervals(model, x, y, x[:2], band=True, random_state=0)
    assert np.isfinite(found.band_lower[:, :2]).all() and np.isnan(found.band_lower[:, 2]).all()


def test_width_of_bands():
    """Of independent times the quantile is known; times that move together are as one."""
    random = np.random.default_rng(0)
    width = critical_value(np.diag([1.0, 4.0, 9.0]), 0.9, random)
    assert width == pytest.approx(norm.ppf(0.5 + 0.5 * 0.9 ** (1 / 3)), abs=0.06)
    assert critical_value(np.ones((3, 3)), 0.9, random) == pytest.approx(norm.ppf(0.95), abs=0.06)


@pytest.mark.thorough(but="Cox")
@pytest.mark.parametrize(("cls", "y"), [(CoxLassoCCD, COX), (FineGrayCCD, COMPETING)])
def test_bootstrap_takes_curves_of_replicates(cls, y):
    model, rows = cls(alpha=0.05, tol=1e-10), {"strata": STRATA, "sample_weight": WEIGHT}
    model.fit(X, y, **rows)
    result = bootstrap(model, X, y, n_replicates=20, random_state=3, level=0.8, **rows)
    given = {"times": AT, "what": "risk", "strata_new": STRATA[:2], "level": 0.8}
    found = curve_intervals(model, X, y, NEW, bootstrap=result, band=True, **given, **rows)
    kind, seed, unit = result._draw
    outcome = model_of(model).read_outcome(y, N, strata=STRATA)
    draws = Replicates(model, outcome, WEIGHT, unit, kind, seed)
    risks = []
    for number in range(20):
        fit = cls(alpha=0.05, tol=1e-10)
        fit.fit(X, y, strata=STRATA, sample_weight=draws.weight(number))
        risks.append(fit.predict_risk(NEW, AT, strata=STRATA[:2]).to_numpy())
    np.testing.assert_allclose(found.standard_errors, np.std(risks, axis=0, ddof=1), rtol=1e-6)
    np.testing.assert_allclose(
        found.lower, 1 - np.exp(-np.quantile(-np.log1p(-np.array(risks)), 0.1, axis=0)), rtol=1e-6
    )
    inside = ~np.isnan(found.band_lower)
    assert inside.any() and (found.band_lower <= found.lower)[inside].all()


@pytest.mark.slow  # 200 fits with bands each
@pytest.mark.parametrize("robust", [False, True])
def test_coverage_of_bands(robust):
    covered, single = np.zeros(2), np.zeros(2)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(150, 2))
        time, end = rng.exponential(np.exp(-x @ [0.5, -0.5])), rng.uniform(0, 3, 150)
        y = surv(time <= end, np.minimum(time, end))
        model = CoxLassoCCD(alpha=0).fit(x, y)
        result = curve_intervals(
            model, x, y, NEW, what="cumulative_hazard", band=True, robust=robust, random_state=seed
        )
        truth = result.times * np.exp(NEW @ [0.5, -0.5])[:, None]
        outside = (truth < result.band_lower) | (truth > result.band_upper)
        covered += ~outside.any(axis=1)
        at = np.searchsorted(result.times, 0.5)
        single += (result.lower[:, at] <= truth[:, at]) & (truth[:, at] <= result.upper[:, at])
    # binomial quantiles of 0.001 and 0.999 around 0.95, and what 150 rows cost
    assert ((covered >= 176) & (covered <= 199)).all()
    assert ((single >= 176) & (single <= 199)).all()


def test_rows_that_the_fit_says_nothing_of():
    x = np.column_stack([X, X[:, 0], np.zeros(N)])
    model = CoxLassoCCD(**TIGHT).fit(x, COX)
    new = np.array([[0.5, 0.1, 0.5, 0.0], [0.5, 0.1, 0.4, 0.0], [0.5, 0.1, 0.5, 1.0]])
    with pytest.warns(UserWarning, match="do not determine the coefficients of `x2`, `x3`: "):
        found = curve_intervals(model, x, COX, new, times=AT)
    plain = CoxLassoCCD(**TIGHT).fit(X, COX)
    expected = curve_intervals(plain, X, COX, new[:1, :2], times=AT)
    np.testing.assert_allclose(found.lower[0], expected.lower[0], rtol=1e-6)
    assert np.isnan(found.lower[1:]).all()


def test_times_by_default(cox):
    times = curve_intervals(cox, X, COX, NEW).times
    np.testing.assert_array_equal(times, np.unique([*TIME[COX["event"]], TIME.max()]))
    data = simulate_cox(2_000, 2, density=0.5, random_state=0)
    y = surv(data.y["event"], data.y["time"] + np.arange(2_000) * 1e-6)
    model = CoxLassoCCD(**TIGHT).fit(data.X, y)
    times = curve_intervals(model, data.X, y, data.X[:1]).times
    assert 490 < len(times) <= 501
    assert times[0] == y["time"][y["event"]].min() and times[-1] == y["time"].max()


def test_results(cox):
    table = pd.DataFrame(NEW, index=["young", "old"])
    result = curve_intervals(cox, X, COX, table, times=3.0)
    assert repr(result).splitlines()[0] == (
        "<CurveIntervals of the survival of 2 rows at 1 time, 95% log intervals>"
    )
    frame = loads(dumps(result)).to_frame()
    assert frame.index.names == ["row", "time"]
    assert frame.loc[("old", 3.0), "survival"] == result.estimate[1, 0]
    every = curve_intervals(cox, X, COX, NEW, band=True, random_state=1).to_frame()
    assert every.columns[-2:].tolist() == ["band_lower", "band_upper"]


def test_figures(cox):
    result = curve_intervals(cox, X, COX, NEW, band=True, random_state=0)
    display = SurvivalDisplay.from_intervals(result, kaplan_meier=COX)
    assert len(display.lines_) == len(display.areas_) == 2
    edges = display.areas_[0].get_paths()[0].vertices[:, 1]
    assert edges.min() == pytest.approx(result.lower[0].min())
    band = SurvivalDisplay.from_intervals(result, limits="band").areas_[0]
    edges = band.get_paths()[0].vertices[:, 1]
    assert edges.min() == pytest.approx(np.nanmin(result.band_lower[0]))
    assert not SurvivalDisplay.from_intervals(result, limits=None).areas_
    model = FineGrayCCD(**TIGHT).fit(X, COMPETING)
    risk = curve_intervals(model, X, COMPETING, NEW)
    display = CumulativeIncidenceDisplay.from_intervals(risk, labels=["a", "b"])
    assert len(display.areas_) == 2
    with pytest.raises(ValueError, match="`result` is of the cumulative_incidence; pass what"):
        SurvivalDisplay.from_intervals(risk)
    with pytest.raises(ValueError, match="`result` is of type str; pass what curve_intervals"):
        CumulativeIncidenceDisplay.from_intervals("risk")
    with pytest.raises(ValueError, match="`result` has no bands; pass band=True"):
        CumulativeIncidenceDisplay.from_intervals(risk, limits="band")
    with pytest.raises(ValueError, match="`limits` is 'both', must be 'interval', 'band' or None"):
        CumulativeIncidenceDisplay.from_intervals(risk, limits="both")
    mpl.pyplot.close("all")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"what": "hazard"}, ValueError, "`what` is 'hazard', must be one of 'survival', 'risk'"),
        ({"what": "cumulative_incidence"}, ValueError, "for a CoxLassoCCD"),
        ({"interval": "arcsin"}, ValueError, "`interval` is 'arcsin', must be one of 'log'"),
        ({"level": 95}, ValueError, "`level` is 95, must lie between 0 and 1"),
        ({"times": [3.0, 1.0]}, ValueError, "`times` has 1 after 3"),
        ({"times": []}, ValueError, "`times` is empty"),
        ({"band": (3.0, 1.0)}, ValueError, "the first time must be before the second"),
        ({"band": "yes"}, ValueError, "pass True, False, or two times"),
        ({"band": (1e6, 2e6)}, ValueError, r"`band` has no event of the fit's rows between 1e\+06"),
        ({"robust": "no"}, TypeError, "`robust` is 'no', must be True, False or None"),
        ({"start": [1.0, 2.0]}, TypeError, "pass one number, the same for all rows"),
        ({"start": -1.0}, ValueError, "`start`"),
        ({"start": 1e6}, ValueError, "`start` is 1e\\+06 in row 0, after the last time"),
        ({"strata_new": ["a", "b"]}, ValueError, "`strata_new` was passed, but the model was"),
        ({"bootstrap": "yes"}, TypeError, "`bootstrap` is of type str; pass a result of"),
        ({"times": 1.0, "strata": STRATA}, ValueError, "not the rows of the fit"),
        ({"ties": "efron"}, TypeError, "`ties` is no argument of"),
    ],
)
def test_bad_arguments(cox, options, error, message):
    with pytest.raises(error, match=message):
        curve_intervals(cox, X, COX, NEW, **options)


def test_bad_rows(cox):
    with pytest.raises(ValueError, match="not the rows of the fit"):
        curve_intervals(cox, X[1:], COX[1:], NEW)
    with pytest.raises(ValueError, match="features"):
        curve_intervals(cox, X, COX, NEW[:, :1])
    stratified = CoxLassoCCD(**TIGHT).fit(X, COX, strata=STRATA)
    with pytest.raises(ValueError, match="`strata_new` is missing: the model has 2 strata"):
        curve_intervals(stratified, X, COX, NEW, strata=STRATA)
    with pytest.raises(ValueError, match="`strata_new` is 'c' in row 1, a label without rows"):
        curve_intervals(stratified, X, COX, NEW, strata=STRATA, strata_new=["a", "c"])
    with pytest.warns(UserWarning, match="The risk by 1000 is NaN in 2 of 2 rows"):
        found = curve_intervals(cox, X, COX, NEW, times=[1.0, 1000.0])
    assert np.isnan(found.estimate[:, 1]).all() and not np.isnan(found.lower[:, 0]).any()


def test_bad_models():
    data = simulate_cox(200, 3, density=0.5, random_state=0)
    lasso = CoxLassoCCD(alpha=0.02).fit(data.X, data.y)
    with pytest.raises(ValueError, match=r"penalizes .* Pass `bootstrap`, a result of"):
        curve_intervals(lasso, data.X, data.y, data.X[:1])
    replicates = bootstrap(lasso, data.X, data.y, n_replicates=5, random_state=0)
    with pytest.raises(ValueError, match="`robust` is for analytic intervals, and `bootstrap`"):
        curve_intervals(lasso, data.X, data.y, data.X[:1], bootstrap=replicates, robust=True)
    other = CoxLassoCCD(alpha=0.1).fit(data.X, data.y)
    with pytest.raises(ValueError, match="`bootstrap` is of another fit"):
        curve_intervals(other, data.X, data.y, data.X[:1], bootstrap=replicates)
    is_late = np.median(data.y["time"])
    changing = CoxLassoCCD(alpha=0, time_varying={0: [is_late]}).fit(data.X, data.y)
    with pytest.raises(ValueError, match=r"not offered for coefficients that change over time"):
        curve_intervals(changing, data.X, data.y, data.X[:1], robust=True)
    fine_gray = FineGrayCCD(**TIGHT).fit(X, COMPETING)
    with pytest.raises(ValueError, match="`start` is 2, but the risk of those who are free of all"):
        curve_intervals(fine_gray, X, COMPETING, NEW, start=2.0)
    logistic = LogisticCCD().fit(X, CAUSE == 0)
    with pytest.raises(TypeError, match="is a LogisticCCD, which has no predicted curves"):
        curve_intervals(logistic, X, CAUSE == 0, NEW)
