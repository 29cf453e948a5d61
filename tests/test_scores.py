"""Brier score and AUC of predicted risks: the definition, scikit-survival, complete data."""

import numpy as np
import pandas as pd
import pytest
from mistakes import check
from sklearn.metrics import brier_score_loss, roc_auc_score
from sksurv.metrics import brier_score as ipcw_brier_score
from sksurv.metrics import cumulative_dynamic_auc
from sksurv.metrics import integrated_brier_score as ipcw_integrated
from sksurv.nonparametric import kaplan_meier_estimator
from sksurv.util import Surv
from whole_numbers import AGE, CODE, DRUG, ROW
from whole_numbers import TIME as WHOLE_TIME

from sksurvgpu import competing_risks, surv
from sksurvgpu.metrics import (
    auc,
    auc_competing,
    brier_score,
    brier_score_competing,
    calibration,
    integrated_brier_score,
    integrated_brier_score_competing,
)
from sksurvgpu.metrics.observed import ObservedOutcome
from sksurvgpu.nonparametric.risk import Censoring

TIMES = [4.0, 7.5, 11.0]


def draw(seed, n=70, n_times=16, censored=True):
    """Codes, times and risks by `TIMES`, with many ties."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0 if censored else 1, 3, n)
    time = rng.integers(1, n_times, n).astype(float)
    risk = np.sort(rng.integers(0, 12, (n, len(TIMES))) / 11, axis=1)
    return codes, time, risk


def table(risk):
    return pd.DataFrame(risk, columns=pd.Index(TIMES, name="time"))


def uncensored_share(codes, time, at, *, including):
    """Kaplan-Meier of censoring at one time, or just before it; events leave first."""
    share = 1.0
    for t in np.unique(time[codes == 0]):
        if t < at or (including and t == at):
            beyond = np.sum(time > t)
            share *= beyond / (beyond + np.sum((time == t) & (codes == 0)))
    return share


def by_definition(train, test, horizon, risk, code=1):
    """Brier score and AUC at one horizon, pair by pair."""
    codes, time = test
    weights, is_case = np.zeros(len(time)), (codes == code) & (time <= horizon)
    for i in range(len(time)):
        if time[i] > horizon:
            weights[i] = 1 / uncensored_share(*train, horizon, including=True)
        elif codes[i] != 0:
            weights[i] = 1 / uncensored_share(*train, time[i], including=False)
    error = sum(w * (c - r) ** 2 for w, c, r in zip(weights, is_case, risk, strict=True))
    agreeing = pairs = 0.0
    for i in np.flatnonzero(is_case):
        for j in np.flatnonzero(~is_case):
            pairs += weights[i] * weights[j]
            order = (risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j])
            agreeing += weights[i] * weights[j] * order
    return error / len(time), agreeing / pairs


@pytest.mark.parametrize("code", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_competing_scores_equal_the_definition(seed, code):
    (*train, _), (*test, risk) = draw([seed, 0], n=90, n_times=20), draw([seed, 1])
    outcomes = competing_risks(*train), competing_risks(*test)
    expected = [
        by_definition(train, test, *column, code) for column in zip(TIMES, risk.T, strict=True)
    ]
    brier = brier_score_competing(*outcomes, risk, TIMES, event_of_interest=code)
    area = auc_competing(*outcomes, risk, TIMES, event_of_interest=code)
    np.testing.assert_allclose(np.column_stack([brier, area]), expected, rtol=1e-12)
    integrated = integrated_brier_score_competing(*outcomes, risk, TIMES, event_of_interest=code)
    assert brier.equals(brier_score(*outcomes, risk, TIMES, event_of_interest=code))
    assert area.equals(auc(*outcomes, risk, TIMES, event_of_interest=code))
    assert integrated == integrated_brier_score(*outcomes, risk, TIMES, event_of_interest=code)
    parts = (brier.iloc[:-1].to_numpy() + brier.iloc[1:].to_numpy()) / 2 * np.diff(TIMES)
    assert integrated == pytest.approx(parts.sum() / (TIMES[-1] - TIMES[0]), rel=1e-12)


# hazardous 0.2.0, with the rows of the test:
#   table = lambda codes, time: pandas.DataFrame({"event": codes, "duration": time})
#   brier_score_incidence(table(*train), table(*test), risk, times, event_of_interest=code)
HAZARDOUS = {
    1: [0.25176671480382584, 0.41323563903348637, 0.4333736261567879],
    2: [0.188474234588587, 0.30523050791460543, 0.4126324044073551],
}


@pytest.mark.parametrize("code", HAZARDOUS)
def test_competing_brier_score_equals_hazardous(code):
    i, times = np.arange(1, 91), np.array([20.0, 45.0, 70.0])
    train = competing_risks((i * i * 7 + i) % 13 % 3, i * 37 % 91)
    test = competing_risks((i * i * 3 + i) % 17 % 3, i * 53 % 91 + 0.5)
    risk = (i[:, None] * 29 % 97 / 97) ** (50 / times)
    found = brier_score_competing(train, test, risk, times, event_of_interest=code)
    np.testing.assert_allclose(found, HAZARDOUS[code], rtol=1e-13)


# R 4.2.2, riskRegression 2022.11.28, with the rows of `whole_numbers` and
#   r <- 0.6 * age - 0.3 * drug + sin(1:150) / 2; p <- 1 - exp(-outer(exp(r), 0.8 * times))
#   Score(list(p), formula = Surv(time, code > 0) ~ 1, times = times, metrics = c("auc", "brier"))
#   Score(list(p / 2), formula = Hist(time, code) ~ 1, cause = 1, ...), times <- c(0.5, 1, 1.5)
SCORE = {
    "one": (
        [0.6120139369295449, 0.6524753824442451, 0.7056698698815492],
        [0.2256775112280777, 0.2337071918797205, 0.1934184889870329],
    ),
    "competing": (
        [0.6459887739470944, 0.6612146277426851, 0.6614363549196317],
        [0.1615353220605231, 0.2105370564800068, 0.2287139215892965],
    ),
}


@pytest.mark.parametrize("kind", SCORE)
def test_equals_risk_regression(kind):
    times = np.array([0.5, 1.0, 1.5])
    ratio = np.exp(0.6 * AGE - 0.3 * DRUG + np.sin(ROW) / 2)
    risk = 1 - np.exp(-ratio[:, None] * 0.8 * times)
    y, event = surv(CODE > 0, WHOLE_TIME), None
    if kind == "competing":
        y, event, risk = competing_risks(CODE, WHOLE_TIME), 1, risk / 2
    for score, expected in zip((auc, brier_score), SCORE[kind], strict=True):
        found = score(y, y, risk, times, event_of_interest=event)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_censoring_equals_scikit_survival(seed):
    codes, time, _ = draw(seed)
    times, expected = kaplan_meier_estimator(codes > 0, time, reverse=True)
    censoring = Censoring.of(ObservedOutcome(codes, time, "y"))
    np.testing.assert_allclose(censoring.at(times), expected, rtol=1e-13)
    np.testing.assert_allclose(censoring.at(times + 0.5), expected, rtol=1e-13)
    np.testing.assert_allclose(censoring.before(times), [1.0, *expected[:-1]], rtol=1e-13)
    assert censoring.before(0.0) == censoring.at(0.0) == 1.0


def draw_survival(seed):
    """Train, test and risks; censorings are never tied with events."""
    outcomes = []
    for part, n in ((0, 90), (1, 70)):
        codes, time, risk = draw([seed, part], n=n)
        outcomes.append(surv(codes > 0, time + 0.25 * (codes == 0)))
    return *outcomes, risk


def as_codes(y, code=1):
    return competing_risks(y["event"] * code, y["time"])


@pytest.mark.parametrize("seed", range(4))
def test_one_kind_of_event_by_either_way_and_scikit_survival(seed):
    train, test, risk = draw_survival(seed)
    theirs = [Surv.from_arrays(y["event"], y["time"]) for y in (train, test)]
    brier = ipcw_brier_score(*theirs, 1 - risk, TIMES)[1]
    area = cumulative_dynamic_auc(*theirs, risk, TIMES)[0]
    integrated = ipcw_integrated(*theirs, 1 - risk, TIMES)
    codes = [as_codes(y, 5) for y in (train, test)]
    found = brier_score_competing(*codes, risk, TIMES, event_of_interest=5)
    np.testing.assert_allclose(found, brier, rtol=1e-12)
    found = auc_competing(*codes, risk, TIMES, event_of_interest=5)
    np.testing.assert_allclose(found, area, rtol=1e-12)
    found = integrated_brier_score_competing(*codes, risk, TIMES, event_of_interest=5)
    assert found == pytest.approx(integrated, rel=1e-12)
    np.testing.assert_allclose(brier_score(train, test, risk, TIMES), brier, rtol=1e-12)
    np.testing.assert_allclose(auc(train, test, risk, TIMES), area, rtol=1e-12)
    found = integrated_brier_score(train, test, risk, TIMES)
    assert found == pytest.approx(integrated, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_events_are_tied_with_censorings_as_in_scikit_survival(seed):
    (codes, time, _), (test_codes, test_time, risk) = draw([seed, 0], n=90), draw([seed, 1])
    outcomes = surv(codes > 0, time), surv(test_codes > 0, np.minimum(test_time, 12.0))
    assert set(time[codes == 0]) & set(test_time[test_codes > 0]) & set(range(1, 8))
    theirs = [Surv.from_arrays(y["event"], y["time"]) for y in outcomes]
    brier = ipcw_brier_score(*theirs, 1 - risk, TIMES)[1]
    area = cumulative_dynamic_auc(*theirs, risk, TIMES)[0]
    np.testing.assert_allclose(brier_score(*outcomes, risk, TIMES), brier, rtol=1e-12)
    np.testing.assert_allclose(auc(*outcomes, risk, TIMES), area, rtol=1e-12)


def test_follow_up_of_the_test_may_be_longer_than_that_of_training():
    """scikit-survival refuses it where the last training row has the event."""
    train, test, risk = draw_survival(0)
    early = train["time"] < 13.0
    train = surv(train["event"] | (train["time"] >= 13.0), np.minimum(train["time"], 13.0))
    theirs = [Surv.from_arrays(y["event"], y["time"]) for y in (train, test)]
    with pytest.raises(ValueError, match="time must be smaller than largest observed time point"):
        ipcw_brier_score(*theirs, 1 - risk, TIMES)
    assert early.any()
    for ours, competing in ((brier_score, brier_score_competing), (auc, auc_competing)):
        expected = competing(as_codes(train), as_codes(test), risk, TIMES)
        np.testing.assert_allclose(ours(train, test, risk, TIMES), expected, rtol=1e-12)


def test_nobody_of_the_training_may_be_left_when_the_last_of_the_test_has_an_event():
    codes, time, risk = draw(0)
    keep = time < 13.0
    train = competing_risks(np.append(codes[keep], 0), np.append(time[keep], 13.0))
    test = competing_risks(codes, time)
    assert np.any((codes > 0) & (time > 13.0))
    expected = [
        by_definition((train["event"], train["time"]), (codes, time), t, column)
        for t, column in zip(TIMES, risk.T, strict=True)
    ]
    found = [score(train, test, risk, TIMES) for score in (brier_score_competing, auc_competing)]
    np.testing.assert_allclose(np.column_stack(found), expected, rtol=1e-12)
    flags = [surv(y["event"] > 0, y["time"]) for y in (train, test)]
    assert np.isfinite(brier_score(*flags, risk, TIMES)).all()
    assert np.isfinite(auc(*flags, risk, TIMES)).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("several", [False, True])
def test_complete_data(seed, several):
    """Then whether the event has happened by the horizon is a label, with scores of its own."""
    codes, time, risk = draw(seed, censored=False)
    y = competing_risks(codes, time) if several else surv(codes > 0, time)
    find_brier, find_auc = (brier_score_competing, auc_competing) if several else (brier_score, auc)
    brier, area = find_brier(y, y, risk, TIMES), find_auc(y, y, risk, TIMES)
    for t, column in zip(TIMES, risk.T, strict=True):
        label = (time <= t) & (codes == 1 if several else codes > 0)
        assert brier[t] == pytest.approx(brier_score_loss(label, column), rel=1e-12)
        assert area[t] == pytest.approx(roc_auc_score(label, column), rel=1e-12)


def test_they_estimate_the_scores_without_censoring():
    rng = np.random.default_rng(0)
    n, times = 40_000, [0.5, 1.5]
    predictor = rng.normal(size=n)
    time, other = rng.exponential(np.exp(-predictor)), rng.exponential(2.0, n)
    codes, time = np.where(time < other, 1, 2), np.minimum(time, other)
    risk = np.column_stack([1 / (1 + np.exp(-predictor - shift)) for shift in (-1.0, 0.0)])
    lost = rng.exponential(1.5, n)
    complete = competing_risks(codes, time)
    y = competing_risks(np.where(lost < time, 0, codes), np.minimum(lost, time))
    for score in (brier_score_competing, auc_competing):
        expected = score(complete, complete, risk, times)
        np.testing.assert_allclose(score(y, y, risk, times), expected, atol=0.006)


def test_properties():
    (*train, _), (*test, risk) = draw([9, 0]), draw([9, 1])
    outcomes = competing_risks(*train), competing_risks(*test)
    area = auc_competing(*outcomes, risk, TIMES)
    np.testing.assert_allclose(auc_competing(*outcomes, risk**2, TIMES), area, rtol=1e-12)
    for t, column in zip(TIMES, risk.T, strict=True):
        assert auc_competing(*outcomes, 1 - column, t)[t] == pytest.approx(1 - area[t], rel=1e-12)
    assert (auc_competing(*outcomes, np.full_like(risk, 0.3), TIMES) == 0.5).all()
    order = np.random.default_rng(0).permutation(len(risk))
    shuffled = outcomes[0], outcomes[1][order], risk[order]
    for score in (brier_score_competing, auc_competing):
        expected = score(*outcomes, risk, TIMES)
        np.testing.assert_allclose(score(*shuffled, TIMES), expected, rtol=1e-12)
        pd.testing.assert_series_equal(score(*outcomes, table(risk)), expected)
        pd.testing.assert_series_equal(score(*outcomes, pd.DataFrame(risk), TIMES), expected)
        for t, column in zip(TIMES, risk.T, strict=True):
            assert score(*outcomes, column, t)[t] == pytest.approx(expected[t], rel=1e-14)
    assert expected.index.name == "time" and expected.index.tolist() == TIMES


def test_risks_that_hardly_differ_are_not_tied():
    """Risks of rare events are small; scikit-survival takes a difference of 1e-8 for a tie."""
    y = surv([True, True, False, False], [1.0, 2.0, 3.0, 4.0])
    risk = np.array([4e-9, 3e-9, 2e-9, 1e-9])
    codes = as_codes(y)
    assert auc(y, y, risk, 2.5)[2.5] == auc_competing(codes, codes, risk, 2.5)[2.5] == 1.0


def test_the_best_order_is_no_better_than_one():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        y = competing_risks(rng.integers(0, 3, 60), rng.exponential(size=60))
        horizon = np.median(y["time"])
        is_case = (y["event"] == 1) & (y["time"] <= horizon)
        risk = 0.5 * is_case + 0.4 * rng.random(60)
        assert 1 - 1e-12 < auc_competing(y, y, risk, horizon).iloc[0] <= 1.0


def test_columns_that_were_renamed_have_no_horizons():
    codes, time, risk = draw(3)
    y, renamed = surv(codes == 1, time), table(risk).set_axis(["early", "mid", "late"], axis=1)
    renamed.columns.name = "time"  # as after `rename`
    pd.testing.assert_series_equal(auc(y, y, renamed, TIMES), auc(y, y, risk, TIMES))
    one = calibration(y, renamed[["mid"]], TIMES[1]).groups
    pd.testing.assert_frame_equal(one, calibration(y, risk[:, 1], TIMES[1]).groups)
    with pytest.raises(ValueError, match="`times` is missing; pass the horizon of each column"):
        auc(y, y, renamed)


def test_strata_are_not_used():
    codes, time, risk = draw(3)
    y = surv(codes > 0, time)
    of_strata = surv(codes > 0, time, stratum=np.arange(70) % 2)
    for score in (brier_score, auc):
        np.testing.assert_array_equal(
            score(y, y, risk, TIMES), score(of_strata, of_strata, risk, TIMES)
        )
    y = competing_risks(codes, time)
    of_strata = competing_risks(codes, time, stratum=np.arange(70) % 2)
    for score in (brier_score_competing, auc_competing):
        np.testing.assert_array_equal(
            score(y, y, risk, TIMES), score(of_strata, of_strata, risk, TIMES)
        )


def test_large_data_take_no_square():
    rng = np.random.default_rng(0)
    n = 200_000
    y = competing_risks(rng.integers(0, 3, n), rng.exponential(size=n))
    risk = rng.random((n, 2))
    assert auc_competing(y, y, risk, [0.5, 1.0]).to_numpy() == pytest.approx(0.5, abs=0.02)


def test_who_enters_at_the_beginning_enters_early():
    codes, time, risk = draw(3)
    given = risk, TIMES
    y, early = (competing_risks(codes, time, start=s) for s in (None, np.zeros(70)))
    for score in (brier_score_competing, auc_competing):
        np.testing.assert_allclose(score(early, early, *given), score(y, y, *given), rtol=1e-12)
    y, early = (surv(codes > 0, time + 0.1 * (codes == 0), start=s) for s in (None, np.zeros(70)))
    for score in (brier_score, auc):
        np.testing.assert_allclose(score(early, early, *given), score(y, y, *given), rtol=1e-12)


def test_weights_of_entries_are_the_jumps_of_kaplan_and_meier():
    """Rows 1 to 6: at risk at 2, 3 and 5 are 3, 3 and 2; by 4 row 6 is to come."""
    start = [0.0, 0.0, 0.0, 2.0, 3.0, 4.5]
    y = surv([True, True, False, True, False, False], [2.0, 3.0, 6.0, 5.0, 7.0, 8.0], start=start)
    risk = np.array([0.9, 0.8, 0.3, 0.5, 0.4, 0.1])
    mass = np.array([1 / 3, 2 / 9, 4 / 27, 4 / 27, 4 / 27, 0.0])
    is_case = np.array([1, 1, 0, 0, 0, 0])
    expected = mass @ (is_case - risk) ** 2
    assert brier_score(y, y, risk, 4.0).item() == pytest.approx(expected, rel=1e-12)


def test_late_entry_does_not_change_what_is_estimated():
    rng = np.random.default_rng(5)
    n, horizons = 60_000, [0.3, 1.0]
    x = rng.normal(size=n)
    risk = 1 - np.exp(-np.exp(x)[:, None] * horizons)
    event, start = rng.exponential(np.exp(-x)), rng.uniform(0.0, 1.5, n) * (rng.random(n) < 0.7)
    whole = surv(np.ones(n, bool), event)
    lost = start + rng.exponential(2.0, n)
    time = np.minimum(event, lost)
    come = time > start
    y = surv((event <= lost)[come], time[come], start=start[come])
    for score in (brier_score, auc):
        truth = score(whole, whole, risk, horizons).to_numpy()
        assert score(y, y, risk[come], horizons).to_numpy() == pytest.approx(truth, abs=0.006)


CODES, TIME, RISK = draw(4)
Y, Y_CODES = surv(CODES > 0, TIME), competing_risks(CODES, TIME)
LAST = TIME.max()
BOTH = {"brier": (brier_score, Y), "auc": (auc, Y)}
COMPETING = {"brier": (brier_score_competing, Y_CODES), "auc": (auc_competing, Y_CODES)}


def changed(row, column, value):
    risk = RISK.copy()
    risk[row, column] = value
    return risk


def of_event(code):
    """Risks that say of which event they are, as those of FineGrayCCD do."""
    risk = table(RISK)
    risk.attrs["event_of_interest"] = code
    return risk


def entered(y):
    build = surv if y["event"].dtype == bool else competing_risks
    return build(y["event"], y["time"], start=np.zeros(70))


SHARED_MISTAKES = {
    "horizon at the last time": (
        lambda score, y: score(y, y, RISK, [4.0, 7.5, LAST]),
        ValueError,
        "`times`...15...before the last time of `y_train`, 15...earlier",
    ),
    "horizon beyond the test": (
        lambda score, y: score(y, y[TIME < 11], RISK[TIME < 11], TIMES),
        ValueError,
        "`times` has 11, must be before the last time of `y_test`, 10...however little.",
    ),
    "unsorted horizons": (
        lambda score, y: score(y, y, RISK, TIMES[::-1]),
        ValueError,
        "`times` has 7.5 after 11; pass each horizon once, in increasing order.",
    ),
    "no horizons": (lambda score, y: score(y, y, RISK), ValueError, "`times`...is missing"),
    "unnamed columns": (
        lambda score, y: score(y, y, pd.DataFrame(RISK)),
        ValueError,
        "`times`...is missing",
    ),
    "other horizons": (
        lambda score, y: score(y, y, table(RISK), [4, 7.5, 12]),
        ValueError,
        "`times`...[4.0...nearest",
    ),
    "fewer horizons": (
        lambda score, y: score(y, y, RISK, [4, 7.5]),
        ValueError,
        "`risk`...(70, 3)",
    ),
    "fewer rows": (lambda score, y: score(y, y, RISK[:60], TIMES), ValueError, "`risk`...(60, 3)"),
    "linear predictor": (
        lambda score, y: score(y, y, changed(3, 1, -0.5), TIMES),
        ValueError,
        "`risk`...-0.5...row 3...between 0 and 1",
    ),
    "risk nan": (
        lambda score, y: score(y, y, changed(3, 2, np.nan), TIMES),
        ValueError,
        "`risk`...nan...row 3...between 0 and 1",
    ),
    "survival": (
        lambda score, y: score(y, y, 1 - RISK, TIMES),
        ValueError,
        "`risk` falls...1 minus that of survival",
    ),
    "risk of words": (
        lambda score, y: score(y, y, RISK.astype(str), TIMES),
        TypeError,
        "`risk`...<U...pass numbers",
    ),
    "no outcome": (
        lambda score, y: score(None, y, RISK, TIMES),
        TypeError,
        "`y_train`...NoneType...structured array",
    ),
    "outcomes swapped with risks": (
        lambda score, y: score(y, RISK, y, TIMES),
        TypeError,
        "`y_test`...ndarray...twice",
    ),
    "delayed entry": (
        lambda score, y: score(entered(y), y, RISK, TIMES),
        ValueError,
        "`y_train` has a field 'start', `y_test` has none...twice",
    ),
    "no event by the horizon": (
        lambda score, y: score(y, y[TIME > 8], RISK[TIME > 8, :1], 8.5),
        ValueError,
        "`y_test`...no event",
    ),
}


@pytest.mark.thorough(but=r"one-brier|competing-auc")
@pytest.mark.parametrize("kind", ["brier", "auc"])
@pytest.mark.parametrize("scores", [BOTH, COMPETING], ids=["one", "competing"])
@pytest.mark.parametrize("name", SHARED_MISTAKES)
def test_mistakes_with_any_score(name, scores, kind):
    call, error, message = SHARED_MISTAKES[name]
    check(lambda: call(*scores[kind]), error, message)


LATE = surv([True, True, False, False], [1.0, 3.0, 4.0, 5.0], start=[0.0, 2.0, 2.0, 2.0])

MISTAKES = {
    "all others come later": (
        lambda: auc(entered(Y), surv([True, False], [1, 5], start=[0, 4]), [0.5, 0.4], 3.5),
        ValueError,
        "Of `y_test` nobody is at risk at the time 3.5; take other horizons",
    ),
    "nobody left before others come": (
        lambda: auc(LATE, LATE, [0.5, 0.4, 0.2, 0.1], 3.5),
        ValueError,
        "Of `y_train` nobody is at risk at the time 3...leave out",
    ),
    "persons of several rows": (
        lambda: brier_score(*2 * [surv([0, 1], [1, 2], start=[0, 1], subject=[1, 1])], [0, 1], 1),
        ValueError,
        "`y_train` has persons of several rows...landmark",
    ),
    "codes": (
        lambda: brier_score(Y_CODES, Y_CODES, RISK, TIMES),
        TypeError,
        "`y_train`...int64...sksurvgpu.surv(event, time)",
    ),
    "numbers in place of codes": (
        lambda: auc_competing(Y_CODES, Y.astype([("e", float), ("t", float)]), RISK, TIMES),
        TypeError,
        "`y_test`...float64...integer code...sksurvgpu.competing_risks(event, time)",
    ),
    "booleans with competing events": (
        lambda: brier_score_competing(Y_CODES, Y, RISK, TIMES),
        TypeError,
        "`y_test`...bool...no competing events...whole numbers",
    ),
    "before the first time": (
        lambda: brier_score(Y, Y[TIME > 5], RISK[TIME > 5], TIMES),
        ValueError,
        "`times`...4...first time of `y_test`, 6...later horizons",
    ),
    "training without events": (
        lambda: auc(surv(CODES > 5, TIME), Y, RISK, TIMES),
        ValueError,
        "`y_train`...no event",
    ),
    "no such code": (
        lambda: brier_score_competing(Y_CODES, Y_CODES, RISK, TIMES, event_of_interest=3),
        ValueError,
        "`event_of_interest`...3",
    ),
    "risks of another event": (
        lambda: auc_competing(Y_CODES, Y_CODES, of_event(2), event_of_interest=1),
        ValueError,
        "`risk`...1",
    ),
    "code of the censored": (
        lambda: auc_competing(Y_CODES, Y_CODES, RISK, TIMES, event_of_interest=0),
        ValueError,
        "`event_of_interest`...0...positive code",
    ),
    "code a name": (
        lambda: auc_competing(Y_CODES, Y_CODES, RISK, TIMES, event_of_interest="relapse"),
        TypeError,
        "`event_of_interest`...str...integer code",
    ),
    "mean over one horizon": (
        lambda: integrated_brier_score(Y, Y, RISK[:, 0], 4),
        ValueError,
        "`times` has one entry, 4; a mean over time takes two horizons or more.",
    ),
}


@pytest.mark.parametrize("scores", [BOTH, COMPETING], ids=["one", "competing"])
def test_an_early_horizon_without_a_case(scores):
    """Nothing has a higher risk than no case; squares of errors there are all the same."""
    codes = np.where(TIME < 5, 0, 1 + (CODES == 2))
    y = surv(codes > 0, TIME) if scores is BOTH else competing_risks(codes, TIME)
    assert np.isfinite(scores["brier"][0](y, y, RISK, TIMES)).all()
    with pytest.raises(ValueError, match=r"`y_test` has no event of interest by the time 4; take"):
        scores["auc"][0](y, y, RISK, TIMES)


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    check(*MISTAKES[name])
