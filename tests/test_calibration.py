"""Observed against predicted risks: the definition, R, scikit-survival, ties, bad input."""

import numpy as np
import pandas as pd
import pytest
from mistakes import check
from sksurv.nonparametric import cumulative_incidence_competing_risks, kaplan_meier_estimator

from sksurvgpu import CoxLassoCCD, FineGrayCCD, competing_risks, surv
from sksurvgpu.datasets import simulate_cox, simulate_fine_gray
from sksurvgpu.metrics import auc, brier_score, calibration, net_benefit
from sksurvgpu.nonparametric.risk import observed_risk, risk_interval

ROWS = np.arange(1, 91)
TIME = 1.0 + ROWS * 37 % 91 // 6
CODES = (ROWS * ROWS * 7 + ROWS) % 13 % 3

# R 4.2.2, survival 3.5-3, with the rows above:
#   s <- summary(survfit(Surv(time, factor(codes, 0:2)) ~ 1), times = c(4, 9, 14))
#   s$pstate[, 2]; s$std.err[, 2]
AALEN_JOHANSEN = {
    4: (0.0945474080042976, 0.03183724300125910),
    9: (0.2048602142991478, 0.04607762773719185),
    14: (0.3581041296915790, 0.06107722714820567),
}
#   k <- summary(survfit(Surv(time, codes > 0) ~ 1, conf.type = "log-log"), times = c(4, 9, 14))
#   1 - k$surv; k$std.err; 1 - k$upper; 1 - k$lower
KAPLAN_MEIER = {
    4: (0.1749162861491629, 0.04110610264915953, 0.1092619594535901, 0.2734890601220783),
    9: (0.4200354531242834, 0.05676650251198809, 0.3182460754280545, 0.5391786578598586),
    14: (0.7453245107977362, 0.05971671159537104, 0.6237238700734484, 0.8525072187418851),
}


@pytest.mark.parametrize("horizon", AALEN_JOHANSEN)
def test_equals_survfit(horizon):
    found = observed_risk(CODES, TIME, horizon)
    assert found == pytest.approx(AALEN_JOHANSEN[horizon], rel=1e-13)
    assert observed_risk(CODES, TIME, horizon + 0.5) == found
    found = observed_risk((CODES > 0) * 1, TIME, horizon)
    interval = risk_interval(*found, 0.95)
    assert (*found, *interval) == pytest.approx(KAPLAN_MEIER[horizon], rel=1e-13)


@pytest.mark.parametrize("seed", range(4))
def test_equals_scikit_survival(seed):
    rng = np.random.default_rng(seed)
    codes, time = rng.integers(0, 3, 80), rng.integers(1, 20, 80).astype(float)
    times, incidence = cumulative_incidence_competing_risks(codes, time)
    _, survival, (lower, upper) = kaplan_meier_estimator(codes > 0, time, conf_type="log-log")
    for i, t in enumerate(times[:-1]):
        assert observed_risk(codes, time, t)[0] == pytest.approx(incidence[1, i], rel=1e-12)
        risk, error = observed_risk((codes > 0) * 1, time, t)
        expected = 1 - np.array([survival[i], upper[i], lower[i]])
        if 0 < survival[i] < 1:
            found = [risk, *risk_interval(risk, error, 0.95)]
            assert found == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_error_equals_the_infinitesimal_jackknife(seed):
    """The root of the squared derivatives by the weights of the rows, by differences."""
    rng = np.random.default_rng(seed)
    n, step = 25, 1e-5
    codes, time = rng.integers(0, 3, n), rng.integers(1, 9, n)

    def incidence(weight):
        risk, surviving = 0.0, 1.0
        for t in range(1, 7):
            at_risk = weight[time >= t].sum()
            risk += surviving * weight[(time == t) & (codes == 1)].sum() / at_risk
            surviving *= 1 - weight[(time == t) & (codes > 0)].sum() / at_risk
        return risk

    unit = np.eye(n) * step
    slopes = [(incidence(1 + e) - incidence(1 - e)) / (2 * step) for e in unit]
    risk, error = observed_risk(codes, time.astype(float), 6.0)
    assert risk == pytest.approx(incidence(np.ones(n)), rel=1e-12)
    assert error == pytest.approx(np.sqrt(np.sum(np.square(slopes))), rel=1e-7)


def test_complete_data_are_a_share():
    codes, time = np.where(CODES == 0, 2, CODES), TIME
    share = np.mean((codes == 1) & (time <= 8))
    expected = share, np.sqrt(share * (1 - share) / 90)
    assert observed_risk(codes, time, 8.0) == pytest.approx(expected, rel=1e-12)


def test_where_rows_end():
    """By an event of the last one nothing is left to know; by a censoring everything is."""
    time = np.array([1.0, 2.0, 3.0])
    assert observed_risk(np.array([1, 2, 1]), time, 9.0)[0] == pytest.approx(2 / 3)
    assert np.isnan(observed_risk(np.array([1, 1, 0]), time, 9.0)).all()
    assert observed_risk(np.array([1, 1, 0]), time, 3.0)[0] == pytest.approx(2 / 3)
    assert observed_risk(np.array([1, 1, 1]), time, 3.0) == pytest.approx((1.0, 0.0), abs=1e-15)
    assert observed_risk(np.array([1, 1, 0]), time, 0.5) == (0.0, 0.0)
    assert observed_risk(np.array([0, 2, 0]), time, 2.5) == (0.0, 0.0)
    for risk, error in ((0.0, 0.0), (1.0, 1e-16), (1.0 - 1e-16, 1e-16), (np.nan, np.nan)):
        assert np.isnan(risk_interval(risk, error, 0.95)).all()


@pytest.mark.slow
def test_intervals_cover():
    """Of 2,000 samples of 60 rows 95 % do, with competing events (4 standard errors: 0.02)."""
    rng = np.random.default_rng(1)
    horizon, covered, n = 0.5, 0, 2_000
    truth = (1 - np.exp(-horizon * 1.5)) / 1.5  # rates of 1 and 0.5
    for _ in range(n):
        kinds, lost = rng.exponential([1.0, 2.0], (60, 2)), rng.exponential(1.0, 60)
        time = np.minimum(kinds.min(axis=1), lost)
        codes = np.where(lost < kinds.min(axis=1), 0, 1 + kinds.argmin(axis=1))
        lower, upper = risk_interval(*observed_risk(codes, time, horizon), 0.95)
        covered += lower <= truth <= upper
    assert covered / n == pytest.approx(0.95, abs=0.02)


def test_groups_and_summary_by_hand():
    y = surv([True, True, False, True, False, True, False, False], np.arange(8) + 1.0)
    risk = [0.9, 0.6, 0.5, 0.8, 0.1, 0.4, 0.3, 0.2]
    result = calibration(y, risk, 6.5, n_groups=2)
    expected = pd.DataFrame(
        {
            "n": [4, 4],
            "events": [1, 3],
            "predicted": [0.25, 0.7],
            "observed": [1 / 3, 1.0],
        },
        index=pd.RangeIndex(1, 3, name="group"),
    )
    pd.testing.assert_frame_equal(result.groups.iloc[:, :4], expected)
    # at risk 8, 7, 5, 3
    observed = 1 - 7 / 8 * 6 / 7 * 4 / 5 * 2 / 3
    error = (1 - observed) * np.sqrt(1 / (8 * 7) + 1 / (7 * 6) + 1 / (5 * 4) + 1 / (3 * 2))
    lower, upper = risk_interval(observed, error, 0.95)
    summary = result.summary()
    assert summary.to_dict() == pytest.approx(
        {
            "expected": 0.475,
            "observed": observed,
            "lower": lower,
            "upper": upper,
            "ratio": observed / 0.475,
            "ratio_lower": lower / 0.475,
            "ratio_upper": upper / 0.475,
        }
    )
    assert (result.horizon, result.level) == (6.5, 0.95)
    assert result.curve.columns.tolist() == ["predicted", "observed", "lower", "upper"]


@pytest.mark.parametrize("n_groups", [1, 3, 7, 10, 90, 200])
def test_groups_are_quantiles(n_groups):
    risk = np.random.default_rng(0).permutation(90) / 100
    groups = calibration(surv(CODES > 0, TIME), risk, 8, n_groups=n_groups).groups
    assert len(groups) == min(n_groups, 90) and groups["n"].sum() == 90
    assert groups["n"].max() - groups["n"].min() <= 1
    assert (np.diff(groups["predicted"]) > 0).all()
    assert groups["events"].sum() == np.sum((CODES > 0) & (TIME <= 8))


def test_rows_of_equal_risk_stay_together():
    risk = np.repeat([0.1, 0.2, 0.3, 0.4], [5, 60, 5, 20])
    groups = calibration(surv(CODES > 0, TIME), risk, 8, n_groups=10).groups
    assert groups["n"].tolist() == [65, 25]
    assert groups["predicted"].tolist() == pytest.approx([12.5 / 65, 9.5 / 25])
    groups = calibration(surv(CODES > 0, TIME), np.full(90, 0.3), 8).groups
    assert groups["n"].tolist() == [90]
    assert groups["predicted"].tolist() == pytest.approx([0.3])


def test_each_group_is_judged_by_its_own_rows():
    risk = np.random.default_rng(0).random(90)
    y = competing_risks(CODES, TIME)
    result = calibration(y, risk, 8, n_groups=3, event_of_interest=2, level=0.8)
    order = np.split(np.argsort(risk), 3)
    for (_, row), own in zip(result.groups.iterrows(), order, strict=True):
        risk_of_group, error = observed_risk(np.array([0, 2, 1])[CODES[own]], TIME[own], 8)
        expected = [30, np.sum((CODES[own] == 2) & (TIME[own] <= 8)), risk[own].mean()]
        expected += [risk_of_group, *risk_interval(risk_of_group, error, 0.8)]
        np.testing.assert_allclose(row, expected, rtol=1e-12)


def test_groups_that_end_early():
    """The group of the highest risk is censored before the horizon: nobody knows its risk."""
    time, event = np.arange(20.0) + 1, np.arange(20) % 2 == 0
    time[10:] = np.arange(10) / 4 + 0.5
    event[19] = False
    result = calibration(surv(event, time), np.arange(20) / 20, 8.0, n_groups=2)
    assert np.isnan(result.groups["observed"]).tolist() == [False, True]
    assert np.isnan(result.groups.loc[2, ["lower", "upper"]]).all()
    assert result.curve.index.tolist() == [1]
    assert 0 < result.observed < 1


@pytest.mark.parametrize("several", [False, True])
def test_a_right_model_is_calibrated(several):
    simulate, model = (
        (simulate_fine_gray, FineGrayCCD(alpha=0.0))
        if several
        else (simulate_cox, CoxLassoCCD(alpha=0.0))
    )
    data = simulate(6_000, 4, density=0.5, random_state=1)
    train, test = slice(0, 3_000), slice(3_000, None)
    model.fit(data.X[train], data.y[train])
    horizons = np.quantile(data.y["time"], [0.3, 0.6])
    risk = model.predict_risk(data.X[test], horizons)
    result = calibration(data.y[test], risk, horizons[1], n_groups=5)
    inside = result.groups.eval("lower < predicted < upper")
    assert inside.sum() >= len(inside) - 1
    assert result.groups["predicted"].max() > 1.3 * result.groups["predicted"].min()
    assert result.summary()["ratio_lower"] < 1.0 < result.summary()["ratio_upper"]
    doubled = calibration(data.y[test], risk**0.5, horizons[1])
    assert doubled.summary()["ratio_upper"] < 0.9


Y, RISK = surv(CODES > 0, TIME), ROWS / 100
TABLE = pd.DataFrame({4.0: RISK, 8.0: RISK}).rename_axis(columns="time")
OF_ONE_AMONG_SEVERAL = TABLE.copy()
OF_ONE_AMONG_SEVERAL.attrs["event_of_interest"] = 1  # as predict_risk of FineGrayCCD
MISTAKES = {
    "several horizons": (
        lambda: calibration(Y, RISK, [4, 8]),
        ValueError,
        "`horizon`...[4, 8]...finite number",
    ),
    "horizon nan": (
        lambda: calibration(Y, RISK, np.nan),
        ValueError,
        "`horizon`...nan...finite number",
    ),
    "horizon without a risk": (lambda: calibration(Y, TABLE, 5), ValueError, "`risk`...nearest"),
    "risks of several horizons": (
        lambda: calibration(Y, TABLE.to_numpy(), 4),
        ValueError,
        "`risk`...(90, 2)",
    ),
    "fewer rows": (lambda: calibration(Y, RISK[:80], 4), ValueError, "`risk`...(80,)"),
    "predictor": (
        lambda: calibration(Y, RISK * 10, 4),
        ValueError,
        "`risk`...1.1...row 10...between 0 and 1",
    ),
    "beyond the follow-up": (
        lambda: calibration(Y, RISK, 20),
        ValueError,
        "`horizon` has 20, must be before the last time of `y`, 16: from then on...little.",
    ),
    "before all events": (lambda: calibration(Y, RISK, 0.5), ValueError, "`y`...no event"),
    "no such code": (
        lambda: calibration(competing_risks(CODES, TIME), RISK, 8, event_of_interest=7),
        ValueError,
        "`event_of_interest`...7...no row of `y` has this code",
    ),
    "booleans for the risk of one among several events": (
        lambda: calibration(Y, OF_ONE_AMONG_SEVERAL, 8),
        TypeError,
        "`y`...bool",
    ),
    "a table": (
        lambda: calibration(pd.DataFrame({"time": TIME}), RISK, 8),
        TypeError,
        "`y`...DataFrame...structured array...sksurvgpu.surv(event, time)",
    ),
    "delayed entry": (
        lambda: calibration(surv(CODES > 0, TIME, start=TIME - 1), RISK, 8),
        ValueError,
        "`y`...field 'start'",
    ),
    "plain outcome": (
        lambda: calibration(TIME, RISK, 8),
        TypeError,
        "`y`...float64...structured array",
    ),
    "no groups": (
        lambda: calibration(Y, RISK, 8, n_groups=0),
        ValueError,
        "`n_groups`...0...whole number of at least 1",
    ),
    "groups a fraction": (
        lambda: calibration(Y, RISK, 8, n_groups=2.5),
        ValueError,
        "`n_groups`...2.5...whole number of at least 1",
    ),
    "level in per cent": (
        lambda: calibration(Y, RISK, 8, level=95),
        ValueError,
        "`level`...95...between 0 and 1",
    ),
}


def test_survival_in_place_of_risk():
    """One column of a table says nothing of it, but the table does."""
    data = simulate_cox(100, 3, density=0.5, random_state=0)
    risk = CoxLassoCCD(alpha=0).fit(data.X, data.y).predict_risk(data.X, [5.0, 20.0])
    assert calibration(data.y, risk, 5.0).expected == pytest.approx(risk[5.0].mean())
    with pytest.raises(ValueError, match=r"`risk` falls from horizon to horizon .* 1 minus"):
        calibration(data.y, 1 - risk, 5.0)


def test_an_array_as_horizon_is_not_written_out():
    with pytest.raises(ValueError, match="`horizon` is ") as caught:
        calibration(Y, RISK, np.arange(2_000.0))
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    check(*MISTAKES[name])


def test_risks_say_of_which_event_they_are():
    data = simulate_fine_gray(200, 5, random_state=0)
    model = FineGrayCCD(alpha=0.005, event_of_interest=2).fit(data.X, data.y)
    risk = model.predict_risk(data.X, [0.2])
    assert calibration(data.y, risk, 0.2, event_of_interest=2).expected > 0
    with pytest.raises(ValueError, match="`risk` was predicted for event 2, `event_of_interest`"):
        calibration(data.y, risk, 0.2)
    of_any = surv(data.y["event"] > 0, data.y["time"])
    for score in (auc, brier_score):
        with pytest.raises(ValueError, match=r"event 2, .* is None; .* of competing_risks"):
            score(of_any, of_any, risk)


def test_binary_outcomes_are_shares():
    rng = np.random.default_rng(0)
    risk = rng.uniform(0.05, 0.6, 900)
    y = rng.random(900) < risk
    result = calibration(y, np.column_stack([1 - risk, risk]), n_groups=3)
    assert result.horizon is None and result.expected == pytest.approx(risk.mean())
    order = np.argsort(risk)
    for (_, row), own in zip(result.groups.iterrows(), np.split(order, 3), strict=True):
        share = y[own].mean()
        spread = 1.959964 * np.sqrt(share * (1 - share) / 300) / (1 - share) / -np.log1p(-share)
        limits = 1 - (1 - share) ** np.exp([-spread, spread])
        assert row["events"] == y[own].sum() and row["observed"] == pytest.approx(share)
        np.testing.assert_allclose(row[["lower", "upper"]], limits, rtol=1e-6)
    whole = calibration(y.astype(int), risk, n_groups=3)
    assert whole.groups.equals(result.groups)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 2], "`y` has values other than 0 and 1"),
        (surv([True, False, True], [1.0, 2.0, 3.0]), "`horizon` is missing"),
        ([0, 1], "risk` has shape"),
    ],
)
def test_bad_binary_outcomes(y, message):
    with pytest.raises(ValueError, match=message):
        calibration(y, [0.1, 0.2, 0.3])


@pytest.mark.parametrize("judge", [calibration, net_benefit])
@pytest.mark.parametrize("y", [[0, 1, 1], np.array([False, True, True]), pd.Series([0, 1, 1])])
def test_binary_outcomes_have_no_horizon(judge, y):
    with pytest.raises(TypeError, match="leave `horizon` out if the outcome is binary"):
        judge(y, [0.1, 0.2, 0.3], 1)
