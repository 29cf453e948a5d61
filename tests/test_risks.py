"""Risks at horizons, and curves of rows that are known to be free of events for some time."""

from functools import cache
from itertools import product

import numpy as np
import pandas as pd
import pytest
from mistakes import check
from sksurv.datasets import load_veterans_lung_cancer
from sksurv.linear_model import CoxPHSurvivalAnalysis

from sksurvgpu import CoxLassoCCD, FineGrayCCD, competing_risks, surv
from sksurvgpu.datasets import simulate_cox

N = 300
RNG = np.random.default_rng(7)
X = RNG.normal(size=(N, 3))
STRATA = np.array(["east", "north", "west"])[RNG.integers(0, 3, N)]
# Strata end at different times; many times are tied.
TIME = np.ceil(30 * RNG.exponential(size=N) * np.exp(-0.4 * X[:, 0])) + 2.0 * (STRATA == "west")
CODE = RNG.integers(0, 3, N)
Y = surv(CODE > 0, TIME)
CUTS = {0: [8.0, 25.0], 2: [15.0]}


@cache
def cox(has_strata=False, is_varying=False):
    model = CoxLassoCCD(alpha=0.0, tol=1e-10, time_varying=CUTS if is_varying else None)
    return model.fit(X, Y, strata=STRATA if has_strata else None)


@cache
def fine_gray(has_strata=False):
    y = competing_risks(CODE, TIME)
    return FineGrayCCD(alpha=0.0).fit(X, y, strata=STRATA if has_strata else None)


START = np.array([0.0, 0.5, 8.0, 8.5, 15.0, 20.0, 26.0, 31.0])
ROWS = X[: len(START)]
HORIZONS = [0.0, 0.5, 5.0, 8.0, 17.3, 25.0, 40.0]


def strata_of(has_strata):
    return {"strata": STRATA[: len(START)]} if has_strata else {}


def known_hazards(model, times, has_strata):
    """Unconditional hazards at times; NaN beyond the follow-up."""
    curves = model.predict_cumulative_hazard_function(ROWS, **strata_of(has_strata))
    return np.array([[f(t) if t <= f.x[-1] else np.nan for t in times] for f in curves])


@pytest.fixture(params=product([False, True], repeat=2), ids=str)
def case(request):
    return cox(*request.param), request.param[0]


def test_hazard_counts_from_the_start_on(case):
    """The hazard until t less that until the start, of curves that other tests judge."""
    model, has_strata = case
    at_start = np.diag(known_hazards(model, START, has_strata))[:, None]
    expected = np.maximum(known_hazards(model, model.unique_times_, has_strata) - at_start, 0.0)
    options = {**strata_of(has_strata), "start": START}
    values = model.predict_cumulative_hazard_function(ROWS, return_array=True, **options)
    np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)
    survival = model.predict_survival_function(ROWS, return_array=True, **options)
    np.testing.assert_allclose(survival, np.exp(-expected), rtol=1e-12)
    assert (expected[np.isfinite(expected)] > 0.1).any()


def test_conditional_functions_are_the_arrays(case):
    model, has_strata = case
    options = {**strata_of(has_strata), "start": START}
    for name, first in (
        ("predict_survival_function", 1.0),
        ("predict_cumulative_hazard_function", 0.0),
    ):
        method = getattr(model, name)
        arrays = method(ROWS, return_array=True, **options)
        for i, function in enumerate(method(ROWS, **options)):
            assert function.domain == (0.0, function.x[-1])
            times = model.unique_times_[model.unique_times_ <= function.x[-1]]
            np.testing.assert_allclose(function(times), arrays[i, : len(times)], rtol=1e-12)
            assert function(0.0) == function(START[i]) == function(START[i] / 2) == first


def test_survival_is_a_ratio_of_survivals(case):
    model, has_strata = case
    options = strata_of(has_strata)
    plain = model.predict_survival_function(ROWS, **options)
    conditional = model.predict_survival_function(ROWS, start=START, **options)
    for f, g, start in zip(plain, conditional, START, strict=True):
        for t in f.x[f.x > start]:
            assert g(t) == pytest.approx(f(t) / f(start), rel=1e-10)


def test_one_start_for_all_rows_and_none(case):
    model, has_strata = case
    options = strata_of(has_strata)
    method = model.predict_survival_function
    expected = method(ROWS, return_array=True, start=np.full(len(ROWS), 6.0), **options)
    for start in (6, 6.0, np.float64(6), np.array(6.0), [6] * len(ROWS)):
        np.testing.assert_array_equal(
            method(ROWS, return_array=True, start=start, **options), expected
        )
    plain = method(ROWS, return_array=True, **options)
    np.testing.assert_array_equal(method(ROWS, return_array=True, start=0, **options), plain)


def test_one_who_is_nearly_certain_to_have_met_the_event():
    """The survival at the start is 0 in floating point, and so would be a quotient of survivals."""
    model = cox()
    row = ROWS[:1] + np.array([0.0, 0.0, 12.0 / model.coef_[2]])
    assert model.predict_survival_function(row)[0](20.0) == 0.0
    hazard = model.predict_cumulative_hazard_function(row)[0]
    times = model.unique_times_
    steps = (times[:-1], times[1:])
    found = [model.predict_risk(row, t, start=s).iloc[0, 0] for s, t in zip(*steps, strict=True)]
    expected = -np.expm1(hazard(times[:-1]) - hazard(times[1:]))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert np.all((np.array(found) >= 0) & (np.array(found) <= 1))


@pytest.mark.parametrize("time_varying", [None, {0: [10.0]}], ids=["constant", "varying"])
def test_rows_far_from_zero(time_varying):
    """Hazards of a row of zeros overflow there, and those of the rows do not."""
    model = CoxLassoCCD(alpha=0.0, tol=1e-10, time_varying=time_varying)
    near, far = (
        model.fit(shifted, Y).predict_risk(shifted, [5, 12, 30], start=np.minimum(TIME, 11.0))
        for shifted in (X, X + np.array([2_000.0, 0.0, 0.0]))
    )
    np.testing.assert_allclose(far, near, atol=1e-7)
    assert (near.to_numpy() > 0.2).any()


# R 4.2.2, survival 3.5-3, with the rows of the test, in whose curves the time is 0 at the start:
#   s <- survSplit(Surv(time, event) ~ ., data.frame(x, time, event), cut = 8, episode = "piece")
#   s$early <- s$x * (s$piece == 1); s$late <- s$x * (s$piece == 2)
#   fit <- coxph(Surv(tstart, time, event) ~ early + late, s, ties = "breslow")
#   row <- function(start) data.frame(tstart = c(start, 8), time = c(8, 20), event = FALSE,
#                                     early = c(0.9, 0), late = c(0, 0.9), id = 1)
#   1 - summary(survfit(fit, row(start), id = id), times = c(7, 10, 15) - start)$surv
SURVFIT = {
    0: [0.1970288119010923, 0.3720962941211199, 0.7067564551133307],
    5: [0.0600388047534303, 0.2649734802128878, 0.6567279660399690],
}


@pytest.mark.parametrize("start", SURVFIT)
def test_equals_survfit_with_coefficients_that_change(start):
    i = np.arange(1, 91)
    y = surv((i * i * 7 + i) % 13 % 3 > 0, 1 + i * 37 % 91 // 5)
    model = CoxLassoCCD(alpha=0, tol=1e-12, time_varying={0: [8]}).fit(
        (i * 29 % 97 / 97)[:, None], y
    )
    [risk] = model.predict_risk([[0.9]], [7, 10, 15], start=start).to_numpy()
    assert risk == pytest.approx(SURVFIT[start], rel=1e-9)


@pytest.mark.parametrize("has_start", [False, True])
def test_risks_are_those_of_the_curves(case, has_start):
    model, has_strata = case
    options = {**strata_of(has_strata), **({"start": START} if has_start else {})}
    risk = model.predict_risk(ROWS, HORIZONS, **options)
    curves = model.predict_survival_function(ROWS, **options)
    expected = [[1 - f(t) for t in HORIZONS] for f in curves]
    np.testing.assert_allclose(risk, expected, rtol=1e-10, atol=1e-13)
    assert risk.columns.tolist() == HORIZONS and risk.columns.name == "time"


@pytest.mark.parametrize("has_strata", [False, True])
def test_risks_of_one_event_among_several(has_strata):
    model, options = fine_gray(has_strata), strata_of(has_strata)
    risk = model.predict_risk(ROWS, HORIZONS, **options)
    curves = model.predict_cumulative_incidence_function(ROWS, **options)
    np.testing.assert_allclose(risk, [f(HORIZONS) for f in curves], rtol=1e-10, atol=1e-13)


def test_risks_equal_scikit_survival():
    model = cox()
    theirs = CoxPHSurvivalAnalysis(tol=1e-12).fit(X, Y)
    curves = theirs.predict_survival_function(X)
    expected = np.array([1 - f([5, 17.3, 40]) for f in curves])
    np.testing.assert_allclose(model.predict_risk(X, [5, 17.3, 40]), expected, rtol=1e-6)


def test_the_index_of_a_table_is_kept():
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=[f"person {i}" for i in range(N)])
    model = CoxLassoCCD(alpha=0.01).fit(frame, Y)
    risk = model.predict_risk(frame.iloc[5:9], 10)
    assert risk.index.tolist() == [f"person {i}" for i in range(5, 9)]
    assert risk.columns.tolist() == [10.0]
    np.testing.assert_array_equal(risk, CoxLassoCCD(alpha=0.01).fit(X, Y).predict_risk(X[5:9], 10))
    assert cox().predict_risk(X[5:9].tolist(), 10).index.tolist() == [0, 1, 2, 3]


def test_nobody_was_observed_so_long():
    """NaN where a stratum has ended, and there only; the last time itself is known."""
    model = cox(has_strata=True)
    last = {s: TIME[s == STRATA].max() for s in ("east", "north", "west")}
    first, *_, final = sorted(last.values())
    assert first < final
    late = [0.5 * first, first, 0.5 * (first + final), final + 1.0]
    with pytest.warns(UserWarning, match="take an earlier horizon") as caught:
        risk = model.predict_risk(X, late, strata=STRATA)
    for i, label in enumerate(STRATA):
        assert np.isnan(risk.iloc[i]).tolist() == [t > last[label] for t in late]
    n_unknown = np.isnan(risk[late[2]]).sum()
    row = int(np.argmax(np.isnan(risk[late[2]])))
    [warning] = caught
    assert str(warning.message) == (
        f"The risk by {late[2]:g} is NaN in {n_unknown} of 300 rows: the fit's rows in the stratum "
        f"of row {row} end at {last[STRATA[row]]:g}, and what happens later is unknown; take an "
        "earlier horizon."
    )
    assert warning.filename == __file__


def test_very_many_strata_and_horizons():
    n = 20_000
    x, pair = np.random.default_rng(0).normal(size=(n, 1)), np.arange(n) // 2
    y = surv(np.arange(n) % 2 == 0, 1.0 + np.arange(n) % 2)
    model = CoxLassoCCD(alpha=0.0).fit(x, y, strata=pair)
    ratio = np.exp(model.predict(x))
    hazard = ratio / np.repeat(ratio.reshape(-1, 2).sum(axis=1), 2)
    risk = model.predict_risk(x, [0.5, 1.0, 1.5], strata=pair)
    np.testing.assert_allclose(risk[1.0], -np.expm1(-hazard), rtol=1e-9)
    np.testing.assert_array_equal(risk[1.5], risk[1.0])
    assert (risk[0.5] == 0).all()
    assert (model.predict_risk(x, 1.5, strata=pair, start=1.0) == 0).to_numpy().all()


@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
def test_survivors_of_a_landmark_fare_as_predicted():
    """The mean risk from there on against the share among them, by Nelson and Aalen."""
    data = simulate_cox(20_000, 2, density=0.5, random_state=3)
    rows = data.y["time"] > 20.0
    alone = CoxLassoCCD(alpha=100.0).fit(data.X[rows], data.y[rows])
    expected = alone.predict_risk(data.X[:1], 40.0).iloc[0, 0]
    for cuts in (None, {0: [20.0]}):
        model = CoxLassoCCD(alpha=0.0, time_varying=cuts).fit(data.X, data.y)
        risk = model.predict_risk(data.X[rows], 40.0, start=20.0)
        assert risk.to_numpy().mean() == pytest.approx(expected, abs=0.005)
        assert model.predict_risk(data.X[rows], 40.0).to_numpy().mean() > expected + 0.05


def veterans():
    """Columns, outcome and cell type of the 137 men of R's veteran."""
    data, y = load_veterans_lung_cancer()
    X = data[["Karnofsky_score", "Age_in_years"]].div(10)
    return X, surv(y["Status"], y["Survival_in_days"]), data["Celltype"]


def test_quantiles_are_those_of_survfit():
    """quantile(survfit(coxph(...), newdata)) of survival 3.5-3."""
    X, y, cell = veterans()
    data, _ = load_veterans_lung_cancer()
    whole = X.assign(test=(data["Treatment"] == "test").astype(float))
    for name in ("smallcell", "adeno", "squamous"):
        whole[name] = (cell == name).astype(float)
    model = CoxLassoCCD(alpha=0, ties="efron", tol=1e-10).fit(whole, y)
    found = model.predict_quantile(whole[:4], [0.1, 0.25, 0.5, 0.9])
    expected = [[27, 82, 162, 587], [36, 100, 228, 991], [21, 54, 126, 411], [25, 80, 153, 553]]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(model.predict_median(whole[:4]), [162, 228, 126, 153])
    model = CoxLassoCCD(alpha=0, ties="efron", tol=1e-10).fit(X, y, strata=cell)
    rows = [0, 39, 79, 119]
    found = model.predict_quantile(X.iloc[rows], [0.25, 0.5, 0.9], strata=cell[rows])
    expected = [[44, 126, 467], [24, 54, 384], [11, 33, 144], [45, 84, 140]]
    np.testing.assert_array_equal(found, expected)
    assert found.index.tolist() == rows and found.columns.name == "probability"


def test_quantiles_are_the_middle_of_a_step_that_is_equal():
    """As survfit's: 2.5 between two events, 6.5 where the last step goes on to the end, 8."""
    time = np.arange(1.0, 9.0)
    model = CoxLassoCCD(alpha=0).fit(np.zeros((8, 1)), surv(time < 6, time))
    [curve] = model.predict_survival_function([[0.0]])
    wanted = [0.0, 1 - curve(2.0), 1 - curve(5.0), 1 - curve(5.0) + 1e-6, 1.0]
    found = model.predict_quantile([[0.0]], wanted).to_numpy()[0]
    np.testing.assert_array_equal(found, [0.0, 2.5, 6.5, np.nan, np.nan])


def test_quantiles_are_where_curves_reach_them(case):
    model, has_strata = case
    given = strata_of(has_strata)
    curves, shares = model.predict_survival_function(ROWS, **given), [0.1, 0.33, 0.5, 0.98]
    found = model.predict_quantile(ROWS, shares, **given).to_numpy()
    for curve, row in zip(curves, found, strict=True):
        reached = [np.flatnonzero(1 - curve.y >= share) for share in shares]
        np.testing.assert_array_equal(row, [curve.x[k[0]] if len(k) else np.nan for k in reached])
    assert np.isfinite(found).any()
    np.testing.assert_array_equal(model.predict_median(ROWS, **given), found[:, 2])


def test_quantiles_of_an_incidence():
    model = fine_gray()
    curves = model.predict_cumulative_incidence_function(ROWS)
    found = model.predict_quantile(ROWS, [0.2, 0.9]).to_numpy()
    assert np.isnan(found[:, 1]).any()
    for curve, time in zip(curves, found[:, 0], strict=True):
        assert time == curve.x[np.argmax(curve.y >= 0.2)]


EAST = TIME[STRATA == "east"].max()
MISTAKES = {
    "no horizon": (lambda: cox().predict_risk(X, []), ValueError, "`times`...empty"),
    "horizon twice": (
        lambda: cox().predict_risk(X, [5, 10, 10]),
        ValueError,
        "`times` has 10 after 10; pass each horizon once, in increasing order.",
    ),
    "negative horizon": (
        lambda: cox().predict_risk(X, [-1, 10]),
        ValueError,
        "`times`...-1 in position 0...at least 0",
    ),
    "horizon nan": (
        lambda: fine_gray().predict_risk(X, [1, np.nan]),
        ValueError,
        "`times`...1 NaN...finite number",
    ),
    "horizon infinite": (
        lambda: fine_gray().predict_risk(X, np.inf),
        ValueError,
        "`times`...1 NaN...finite number",
    ),
    "horizon a date": (
        lambda: cox().predict_risk(X, ["2020-01-01"]),
        TypeError,
        "`times`...<U10...pass numbers",
    ),
    "horizons in two dimensions": (
        lambda: cox().predict_risk(X, [[1, 2]]),
        ValueError,
        "`times`...(1, 2)...one-dimensional",
    ),
    "share in percent": (
        lambda: cox().predict_quantile(X, [25, 50]),
        ValueError,
        "`probabilities`...between 0 and 1",
    ),
    "horizons forgotten": (lambda: cox().predict_risk(X), TypeError, "CoxLassoCCD...'times'"),
    "strata missing": (
        lambda: cox(has_strata=True).predict_risk(X, 10),
        ValueError,
        "`strata`...is missing...one label per row",
    ),
    "start too long": (
        lambda: cox().predict_risk(X, 10, start=[1.0, 2.0]),
        ValueError,
        "`start`...2 entries...one per row",
    ),
    "negative start": (
        lambda: cox().predict_survival_function(X, start=-1),
        ValueError,
        "`start`...-1...row 0...at least 0",
    ),
    "start nan": (
        lambda: cox().predict_cumulative_hazard_function(X, start=[*[0.0] * 299, np.nan]),
        ValueError,
        "`start`...1 NaN",
    ),
    "start a flag": (
        lambda: cox().predict_risk(X, 10, start=True),
        TypeError,
        "`start`...bool...pass numbers",
    ),
    "start beyond the follow-up": (
        lambda: cox(has_strata=True).predict_risk(
            X[:2], 10, strata=["west", "east"], start=[0, EAST + 1]
        ),
        ValueError,
        "`start`...136...row 1...known",
    ),
    "start of an incidence": (
        lambda: fine_gray().predict_risk(X, 10, start=5),
        TypeError,
        "FineGrayCCD...'start'",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    check(*MISTAKES[name])


def test_a_start_at_the_last_time_leaves_nothing():
    last = TIME.max()
    assert cox().predict_risk(X, last, start=last).to_numpy().max() == 0.0
    with pytest.raises(ValueError, match="after the last time"):
        cox().predict_risk(X, last, start=np.nextafter(last, np.inf))
