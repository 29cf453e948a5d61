"""Case series in time: why observation ends, calendar splines, and diagnostics, against R."""

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import CaseSeriesCCD, EffectsDisplay, calibrate, case_series, wald
from sksurvgpu.cohort import RiskWindow, case_series_diagnostics, eras_to_intervals
from sksurvgpu.cohort.case_series_checks import _stability
from sksurvgpu.cohort.endings import MODELS, YEAR, fit_endings, log_weight, weigh_days

# Of the data of `simulate`: fitModelsAndPickBest of R's SelfControlledCaseSeries 6.1.4 (by nlm from
# 0.1), parameters and AIC; the first six weights, in days, by `integrate` with the functions of its
# test-weightFunctions.R, which are those of the package SCCS; and the coefficient of `clogit`.
P_OF_R = {
    ("weibull", "age"): [
        1.4130037738453,
        2.3936331935613,
        0.3457145746503,
        2.9286187489754,
        -0.0387584311685,
        11.8375499857981,
        -2.2858556818541,
    ],
    ("weibull", "interval"): [
        0.4941567858311,
        0.1185555334892,
        0.1719911373015,
        0.1049380312549,
        0.3453455289769,
        0.0901867158242,
        0.0619555771663,
    ],
    ("gamma", "age"): [
        1.4921595856561,
        -2.2888572989324,
        1.5418512972158,
        2.4517136856888,
        -0.0319404822147,
        -13.6033806014953,
        5.3945335609884,
    ],
    ("gamma", "interval"): [
        0.4941568730845,
        0.1233792002409,
        0.1905003444301,
        0.1057489428270,
        0.3889373339922,
        0.0873026921789,
        0.0508015953084,
    ],
}
AIC_OF_R = dict(
    zip(P_OF_R, [459.885287802, 617.640133481, 459.922069478, 617.640131813], strict=True)
)
WEIGHTS_OF_R = [
    [105.115445137, 89.5078500573, 500.271844396, 64.8554676058, 494.705136826, 56.5776150579],
    [136.544545954, 31.5024971525, 419.306177729, 66.7159321149, 436.216012428, 49.8060977447],
    [101.473649868, 95.2230353806, 500.096983304, 63.3382388073, 494.911240592, 55.4874262176],
    [136.544537986, 31.5024945307, 419.3061859, 66.7159326121, 436.216028794, 49.8060998015],
]
COEF_OF_R = [0.664707980469, 0.705511239681, 0.664660135243, 0.705511240815]


def simulate(n=400, seed=3, n_days=100):
    """Cases with twice the rate on a drug, of whom four in ten leave some 60 days after."""
    rng = np.random.default_rng(seed)
    age, begin = rng.integers(15_000, 25_000, n), rng.integers(0, 900, n)
    on = np.zeros((n, 1000))
    for i in range(n):
        on[i, begin[i] : begin[i] + n_days] = np.log(2.0)
    cum = np.exp(on).cumsum(axis=1)
    event = (cum < (rng.random(n) * cum[:, -1])[:, None]).sum(axis=1)
    dies = rng.random(n) < 0.4
    after = np.where(dies, rng.exponential(60, n), rng.exponential(2500, n)).astype(int)
    end = np.minimum(999, event + 1 + after)
    table = pd.DataFrame({"birth": -age, "begin": begin, "event": event, "end": end, "start": 0})
    table["early"] = end < 999
    return table[end > event].reset_index(drop=True).rename_axis("id").reset_index()


DATA = simulate()
AGES = [DATA[name].to_numpy() - DATA["birth"].to_numpy() for name in ("start", "event", "end")]
AGES = AGES[0], AGES[1] + 1.0, AGES[2] + 1.0
STAYS = ~DATA["early"].to_numpy()


def intervals(data, early="early", n_days=100):
    eras = data.assign(era="drug", start=data["begin"], end=data["begin"] + n_days - 1)
    events = data[["id", "event"]].rename(columns={"event": "day"})
    return eras_to_intervals(
        data, eras, events, windows={"on": RiskWindow()}, birth="birth", ended_early=early
    )


def test_models_of_endings_are_those_of_r_or_better():
    age, event, end = (days / YEAR for days in AGES)
    for law, of in MODELS:
        found = log_weight(law, of, P_OF_R[law, of], event, end - event, age, STAYS)
        assert 14.0 - 2.0 * found.sum() == pytest.approx(AIC_OF_R[law, of], abs=1e-6)
    fitted = fit_endings(*AGES, STAYS)["aic"]
    assert fitted.is_monotonic_increasing
    for model, aic in AIC_OF_R.items():
        assert fitted[model] < aic + 1e-5
    assert fitted["weibull", "age"] == pytest.approx(459.885287802, abs=1e-4)


def test_models_of_endings_are_the_same_in_any_order(monkeypatch):
    """Of a likelihood with several maxima the one that is found depended on the order of sums."""
    monkeypatch.setattr("sksurvgpu.cohort.endings.MODELS", MODELS[1:2])
    rng, n = np.random.default_rng(0), 50
    start = rng.uniform(10_000, 25_000, n)
    event = start + rng.uniform(0, 1_500, n)
    ages, stays = (start, event, event + rng.uniform(1, 1_500, n)), rng.random(n) < 0.7
    turned = fit_endings(*(of[::-1] for of in ages), stays[::-1])
    pd.testing.assert_frame_equal(turned, fit_endings(*ages, stays))


@pytest.mark.parametrize("k", range(4))
def test_weights_and_estimates_of_r(k):
    model = [*P_OF_R][k]
    plain = intervals(DATA, None)
    begin, end = DATA["begin"].to_numpy(), DATA["end"].to_numpy() + 1
    stops = np.minimum(np.column_stack([begin, begin + 100, end]), end[:, None])
    starts = np.column_stack([np.zeros_like(begin), stops[:, :2]])
    who, part = np.nonzero(stops > starts)
    start, stop = (days[who, part] + AGES[0][who] for days in (starts, stops))
    ages = (start, AGES[2][who] - stop, stop - start, AGES[0][who])
    given = *model, np.array(P_OF_R[model])
    weight = weigh_days(given, *(days / YEAR for days in ages), STAYS[who])
    total = np.bincount(2 * who + (part == 1), weight, minlength=2 * len(begin))
    np.testing.assert_allclose(total[:6], WEIGHTS_OF_R[k], rtol=2e-6)
    fields = [plain.y["count"], total[2 * plain.y["subject"] + plain.to_frame()["on"].astype(int)]]
    fit = CaseSeriesCCD(alpha=0).fit(plain.X, case_series(*fields, plain.y["subject"]))
    assert fit.coef_[0] == pytest.approx(COEF_OF_R[k], abs=2e-6)


def test_rows_have_the_weights_of_the_best_model():
    data = intervals(DATA)
    assert data.endings.index[0] == ("gamma", "age") and len(data.endings) == 4
    plain = intervals(DATA, None)
    pd.testing.assert_frame_equal(data.attrition, plain.attrition)
    pd.testing.assert_frame_equal(data.columns, plain.columns)
    np.testing.assert_array_equal(data.y["count"], plain.y["count"])
    model = *data.endings.index[0], data.endings.iloc[0, 1:].to_numpy()
    whole = (AGES[0], np.zeros(len(DATA)), AGES[2] - AGES[0], AGES[0])
    weight = weigh_days(model, *(days / YEAR for days in whole), STAYS)
    by_subject = np.bincount(data.y["subject"], data.y["length"], minlength=len(DATA))
    kept = np.unique(data.y["subject"])
    np.testing.assert_allclose(by_subject[kept], weight[kept], rtol=1e-6)


def test_weights_take_away_the_bias_of_those_who_leave():
    data = simulate(600, seed=0, n_days=1000)
    found = []
    for early in (None, "early"):
        rows = intervals(data, early, n_days=1000)
        fit = wald(CaseSeriesCCD(alpha=0).fit(rows.X, rows.y), rows.X, rows.y)
        found.append((fit.coef[0] - np.log(2.0)) / np.sqrt(fit.covariance[0, 0]))
    assert found[0] > 4 and abs(found[1]) < 3


def trend(n=3_000, seed=0):
    """Cases of ten years with a rate that rises eightfold, and use of a drug without an effect."""
    rng = np.random.default_rng(seed)
    origin, n_days = pd.Timestamp("2010-01-01"), 3_650
    rise = 8.0 ** np.linspace(0, 1, n_days)
    day = rng.choice(n_days, n, p=rise / rise.sum())
    begin = rng.choice(n_days - 60, n, p=rise[:-60] / rise[:-60].sum())
    first, last = np.zeros(n, int), np.full(n, n_days - 1)
    id, dates = np.arange(n), [origin + pd.to_timedelta(x, unit="D") for x in (first, last, day)]
    periods = pd.DataFrame({"id": id, "start": dates[0], "end": dates[1]})
    eras = pd.DataFrame({"id": id, "era": "drug", "start": origin + pd.to_timedelta(begin, "D")})
    eras["end"] = eras["start"] + pd.Timedelta(days=59)
    return periods, eras, pd.DataFrame({"id": id, "day": dates[2]})


@pytest.fixture(scope="module")
def trending():
    return trend()


def test_calendar_splines_are_those_of_r():
    """Against addCalendarTimeSettings of SelfControlledCaseSeries 6.1.4, calendarTimeKnots=5."""
    i = np.arange(40)
    start = pd.Timestamp("2010-01-10") + pd.to_timedelta(i * 37 % 400, unit="D")
    end = start + pd.to_timedelta(500 + i * 53 % 700, unit="D")
    periods = pd.DataFrame({"id": i, "start": start, "end": end})
    events = pd.DataFrame({"id": i, "day": start})
    eras = events.rename(columns={"day": "start"}).assign(era="a", end=start)
    options = {"windows": RiskWindow()}
    data = eras_to_intervals(periods, eras, events, calendar=5, **options)
    np.testing.assert_array_equal(data.knots["calendar"], [481, 493, 500, 508, 524])
    table = data.to_frame().loc[:, "calendar spline 1":].drop_duplicates().to_numpy()
    expected = [[0] * 5, [0.1553362573, 0.004385964912, 0, 0, 0]]
    expected += [[0.6114766082, 0.2149122807, 0, 0, 0], [0, 0.5333333333, 0.4666666667, 0, 0]]
    for row in [*expected, [0, 0, 0, 0, 1]]:
        assert np.isclose(table, row, atol=1e-9).all(axis=1).any()
    given = ["2010-02-01", "2011-02-27", "2011-09-01", "2012-05-01", "2013-09-30"]
    again = eras_to_intervals(periods, eras, events, calendar=given, **options)
    np.testing.assert_array_equal(again.X.to_scipy().toarray(), data.X.to_scipy().toarray())
    numbers = {"start": i, "end": i + 700}
    events = events.assign(day=i)
    whole = eras_to_intervals(
        periods.assign(**numbers), eras.assign(start=i, end=i), events, calendar=[0, 200, 719],
        **options,
    )  # fmt: skip
    np.testing.assert_array_equal(whole.knots["calendar"], [0, 6, 23])


def test_splines_take_away_a_trend_and_stability_says_so(trending):
    found = {}
    for calendar in (None, 5):
        data = eras_to_intervals(*trending, windows={"on": RiskWindow()}, calendar=calendar)
        result = wald(CaseSeriesCCD(alpha=0).fit(data.X, data.y), data.X, data.y)
        found[calendar] = result.summary().loc["on"], case_series_diagnostics(data, result)
        months = found[calendar][1].months
        assert months["expected"].sum() == pytest.approx(months["observed"].sum())
        assert months.index[0] == pd.Timestamp("2010-01-01") and len(months) == 120
    assert found[None][0]["coef"] > 2 * found[None][0]["standard_error"]
    assert abs(found[5][0]["coef"]) < 2 * found[5][0]["standard_error"]
    plain, adjusted = (found[k][1].table.loc["stability in time"] for k in (None, 5))
    assert plain["p_value"] < 1e-4 and not plain["passes"]
    assert adjusted["p_value"] > 0.05 and adjusted["passes"]


def test_curves_are_drawn(trending):
    data = eras_to_intervals(*trending, windows={"on": RiskWindow()}, calendar=5, season=4)
    model = CaseSeriesCCD(alpha=0).fit(data.X, data.y)
    table = data.effects(wald(model, data.X, data.y))
    assert table["variable"].unique().tolist() == ["season", "calendar"]
    calendar = table[table["variable"] == "calendar"]
    np.testing.assert_allclose(calendar["value"].iloc[[0, -1]], [2010, 2019 + 11 / 12], atol=0.1)
    assert calendar["effect"].mean() == pytest.approx(0, abs=1e-9)
    truth = np.log(8) * (calendar["value"] - calendar["value"].mean()) / 10
    assert ((calendar["lower"] < truth) & (truth < calendar["upper"])).mean() > 0.9
    season = table[table["variable"] == "season"]
    assert season["effect"].iloc[0] == pytest.approx(season["effect"].iloc[-1], abs=1e-9)
    np.testing.assert_allclose(data.effects(model.coef_)["effect"], table["effect"])
    assert len(EffectsDisplay(table, effect="rate ratio").plot().curves_) == 2


@pytest.mark.parametrize(
    ("observed", "expected", "ratio", "p_value"),
    [
        (lambda k: 20 + k * 7 % 11 + 12 * (k > 11), 30, 1.1899303012, 0.1232624771),
        (lambda k: 200 + k * 7 % 11, 205, 1.0, 1.0),
        (lambda k: 10 * (1 + k), 130, 1.5751771996, 6.852443093e-92),
    ],
)
def test_stability_is_that_of_r(observed, expected, ratio, p_value):
    """Against checkTimeStabilityAssumption of SelfControlledCaseSeries 6.1.4, of 24 months."""
    found = _stability(observed(np.arange(24)), np.full(24, float(expected)))
    assert found[0] == pytest.approx(ratio, abs=1e-6)
    assert found[1] == pytest.approx(p_value, rel=1e-5)


def test_diagnostics_pass_or_fail():
    rng = np.random.default_rng(0)
    periods = pd.DataFrame({"id": range(800), "start": 0, "end": 999})
    eras = periods[["id"]].assign(era="drug", start=rng.integers(100, 800, 800))
    eras["end"] = eras["start"] + 29
    day = rng.integers(0, 1000, 800)
    day[:200] = eras["start"][:200] - rng.integers(1, 31, 200)  # many right before
    events = periods[["id"]].assign(day=day)
    windows = {"before": RiskWindow(-30, -1, end_anchor="start"), "on": RiskWindow()}
    options = {"windows": windows, "end_of_observation": 60}
    data = eras_to_intervals(periods, eras, events, first_outcome_only=True, **options)
    result = wald(CaseSeriesCCD(alpha=0).fit(data.X, data.y), data.X, data.y)
    controls = pd.DataFrame({"coef": [0.3] * 5, "standard_error": [0.1] * 5})
    calibrated = calibrate(controls, controls)
    found = case_series_diagnostics(
        data, result, before=["before"], prevalence=0.2, calibrated=calibrated
    )
    table, text = found.table, repr(found)
    titles = ["event-dependent exposure: before", "event-dependent observation"]
    titles += ["stability in time", "rare outcome", "systematic error"]
    assert table.index.tolist() == titles
    assert table["passes"].tolist()[:2] == [False, True]
    assert table["passes"].tolist()[3:] == [False, False]
    line = result.summary().loc["before"]
    expected = np.exp(line[["coef", "lower", "upper"]].astype(float))
    np.testing.assert_allclose(
        table.iloc[0][["estimate", "lower", "upper"]].astype(float), expected
    )
    assert table["p_value"].iloc[0] < 1e-6 and table["p_value"].iloc[1] > 0.05
    assert table["estimate"].iloc[-1] == pytest.approx(0.3)
    assert "2 of 5 passed, 0 not evaluated" in text
    repeated = eras_to_intervals(periods, eras, events, **options)
    some = case_series_diagnostics(repeated, result, prevalence=0.2).table["passes"]
    assert some["rare outcome"] and some.isna().sum() == 2  # not of first outcomes; two unknown


REFUSED = [
    ({"early": [2] * len(DATA)}, {}, "must be bool or 0/1"),
    ({"early": False}, {}, "leave it out"),
    ({}, {"ended_early": "left"}, "left"),
    ({}, {"calendar": 2}, "at least 3"),
    ({}, {"calendar": 4_000}, "asks for 4000 knots"),
    ({}, {"calendar": [0, 5, 900]}, "2 different knots"),
]


@pytest.mark.parametrize(("changes", "options", "message"), REFUSED)
def test_what_cannot_be_is_refused(changes, options, message):
    data = DATA.assign(**changes)
    eras = data.assign(era="drug", start=data["begin"], end=data["begin"] + 99)
    given = {"ended_early": "early", "birth": "birth"} | options
    with pytest.raises((ValueError, TypeError), match=message):
        eras_to_intervals(
            data, eras, data[["id", "event"]], day="event", windows=RiskWindow(), **given
        )


def test_other_refusals(trending):
    periods, eras, events = trending
    options = {"windows": RiskWindow()}
    early = periods.assign(early=True)
    with pytest.raises(ValueError, match="`ended_early` needs days of birth"):
        eras_to_intervals(early, eras, events, ended_early="early", **options)
    twice = pd.concat([events, events])
    early["birth"] = pd.Timestamp("1980-01-01")
    given = {"ended_early": "early", "birth": "birth"}
    with pytest.raises(ValueError, match="first_outcome_only=True"):
        eras_to_intervals(early, eras, twice, **given, **options)
    data = eras_to_intervals(*trending, **options)
    with pytest.raises(ValueError, match="there is no spline"):
        data.effects([0.0])
    model = CaseSeriesCCD(alpha=0).fit(data.X, data.y)
    with pytest.raises(TypeError, match="pass what wald returns"):
        case_series_diagnostics(data, model)
    result = wald(model, data.X, data.y)
    with pytest.raises(TypeError, match="eras_to_intervals"):
        case_series_diagnostics(data.X, result)
    with pytest.raises(ValueError, match="no column of `result`"):
        case_series_diagnostics(data, result, before="before")
    with pytest.raises(ValueError, match="`prevalence` is 2"):
        case_series_diagnostics(data, result, prevalence=2)
