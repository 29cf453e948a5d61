"""Intervals and differences of metrics: by hand, by weights, R's error, persons, bad input."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from whole_numbers import AGE, CODE, DRUG, ROW, TIME

from sksurvgpu import competing_risks, surv
from sksurvgpu.metrics import (
    auc,
    brier_score,
    compare,
    concordance,
    concordance_competing,
    net_benefit,
)

Y = surv(CODE > 0, TIME)
FIRST, SECOND = 0.6 * AGE - 0.3 * DRUG + np.sin(ROW) / 2, AGE - 0.5 * DRUG
RISK = {
    name: pd.DataFrame(
        1 - np.exp(-np.exp(values)[:, None] * [0.4, 0.8]), columns=pd.Index([0.5, 1.0], name="time")
    )
    for name, values in (("one", FIRST), ("two", SECOND))
}


def test_limits_are_quantiles_of_weighted_metrics():
    given = {"one": FIRST, "two": SECOND}
    table = compare(concordance, Y, given, level=0.8, n_replicates=40, random_state=3)
    random, draws = np.random.RandomState(3), []
    for _ in range(40):
        weight = np.bincount(random.randint(150, size=150), minlength=150)
        draws.append([concordance(Y, values, sample_weight=weight) for values in given.values()])
    draws = np.array(draws)
    assert table["estimate"].tolist() == [concordance(Y, values) for values in given.values()]
    np.testing.assert_allclose(table["standard_error"], draws.std(axis=0, ddof=1), rtol=1e-10)
    limits = np.quantile(draws, [0.1, 0.9], axis=0)
    np.testing.assert_allclose(table[["lower", "upper"]].T, limits, rtol=1e-12)
    apart = draws[:, 1] - draws[:, 0]
    last = table.loc["two"]
    assert last["difference"] == table["estimate"].diff().iloc[1]
    found = last[["difference_lower", "difference_upper"]].tolist()
    assert found == pytest.approx(np.quantile(apart, [0.1, 0.9]), rel=1e-10)
    beyond = 1 + min((apart <= 0).sum(), (apart >= 0).sum())
    assert last["p_value"] == pytest.approx(2 * beyond / 41, rel=1e-12)
    assert table.loc["one", "difference":].isna().all()


def test_error_is_that_of_survival():
    # R 4.2.2, survival 3.5-3: concordance(Surv(time, code > 0) ~ r, reverse = TRUE)$var
    found = compare(concordance, Y, {"one": FIRST}, n_replicates=1_000, random_state=0)
    assert found["standard_error"].item() == pytest.approx(np.sqrt(0.001042489655414337), rel=0.07)


# R 4.2.2, riskRegression 2022.11.28: Score(list(p, q), formula = Surv(time, code > 0) ~ 1,
# times = 1, metrics = c("auc", "brier"), se.fit = TRUE), p <- 1 - exp(-0.8 * exp(r)), q with age
# in place of r: the standard errors of both, and of their difference
SCORE = {
    auc: (0.05390614448053436, 0.05111279332976849, 0.04370370260238217),
    brier_score: (0.01577796886269907, 0.01729068740123777, 0.01355824049285854),
}


@pytest.mark.thorough
@pytest.mark.parametrize("score", SCORE)
def test_errors_are_near_risk_regression(score):
    risks = {
        name: pd.DataFrame({1.0: 1 - np.exp(-0.8 * np.exp(values))}).rename_axis("time", axis=1)
        for name, values in (("p", FIRST), ("q", AGE))
    }
    table = compare(lambda y, risk: score(y, y, risk), Y, risks, n_replicates=1_000, random_state=0)
    last = table.loc["q"].iloc[0]
    apart = (last["difference_upper"] - last["difference_lower"]) / (2 * 1.96)
    np.testing.assert_allclose([*table["standard_error"], apart], SCORE[score], rtol=0.1)


def test_metrics_by_horizon_and_threshold_of_tables():
    def score(y, risk):
        return auc(Y, y, risk)

    table = compare(score, Y, RISK, n_replicates=10, random_state=0)
    assert table.index.names == ["model", "time"]
    for name, risk in RISK.items():
        np.testing.assert_array_equal(table.loc[name, "estimate"], auc(Y, Y, risk))
    same = compare(score, Y, {"a": RISK["one"], "b": RISK["one"]}, n_replicates=10, random_state=0)
    assert same.loc["b", "p_value"].tolist() == [1.0, 1.0]
    assert (same.loc["b", "difference":"difference_upper"] == 0).all(axis=None)

    def benefit(y, risk):
        return net_benefit(y, risk, 1.0, thresholds=[0.2, 0.4])["model"]

    table = compare(benefit, Y, RISK, n_replicates=10, random_state=0)
    assert table.index.names == ["model", "threshold"]
    assert table.loc["two", "p_value"].between(0, 1).all()


def test_options_of_the_metric_and_outcomes_of_others():
    y = competing_risks(CODE, TIME)
    given = {"n_replicates": 5, "random_state": 0}
    found = compare(concordance_competing, y, {"x": FIRST}, event_of_interest=2, **given)
    expected = concordance_competing(y, FIRST, event_of_interest=2)
    assert found["estimate"].item() == expected
    found = compare(roc_auc_score, CODE == 1, {"x": FIRST.tolist()}, **given)
    assert found["estimate"].item() == roc_auc_score(CODE == 1, FIRST)


def test_weights_and_strata_are_drawn_with_their_rows():
    """Given beside the outcome or in it, strata are the same; a weight of 0 leaves a row out."""
    given, some = {"n_replicates": 20, "random_state": 0}, ROW % 3 > 0
    inside = compare(concordance, surv(CODE > 0, TIME, stratum=ROW % 2), {"x": FIRST}, **given)
    for strata in ((ROW % 2).tolist(), pd.Series(ROW % 2)):
        beside = compare(concordance, Y, {"x": FIRST}, strata=strata, **given)
        pd.testing.assert_frame_equal(beside, inside)

    def without(y, pair):
        return concordance(y[pair[:, 1] > 0], pair[pair[:, 1] > 0, 0])

    weighted = compare(concordance, Y, {"x": FIRST}, sample_weight=some * 1.0, **given)
    parts = compare(without, Y, {"x": np.column_stack([FIRST, some])}, **given)
    pd.testing.assert_frame_equal(weighted, parts, rtol=1e-12)


def test_rows_of_a_person_are_drawn_together():
    """Follow-up of some is cut in two, which leaves the concordance and its replicates."""
    cut, n = np.arange(0, 150, 3), 150
    start, end = np.zeros(n), TIME.copy()
    start[cut] = TIME[cut] / 2
    time, event = np.append(end, start[cut]), np.append(CODE > 0, np.zeros(len(cut), bool))
    start, who = np.append(start, np.zeros(len(cut))), np.append(np.arange(n), cut)
    order = np.random.default_rng(0).permutation(len(who))
    y = surv(event, time, start=start, subject=who)[order]
    given = {"n_replicates": 20, "random_state": 0}
    parts = compare(concordance, y, {"x": FIRST[who][order]}, **given)
    whole = compare(concordance, surv(CODE > 0, TIME, start=0 * TIME), {"x": FIRST}, **given)
    pd.testing.assert_frame_equal(parts, whole, rtol=1e-12)


def test_replicates_without_a_metric_are_left_out():
    y = surv(np.arange(6) < 1, np.arange(6) + 1.0)  # a single event, which some replicates lack

    def given(**options):
        return compare(concordance, y, {"x": -np.arange(6.0)}, random_state=0, **options)

    with pytest.warns(UserWarning, match="of 30 replicates are left out, the last because: no"):
        assert given(n_replicates=30)["lower"].item() == 1.0

    def sometimes(y, x):
        return x.mean() if (x == x.max()).sum() < 3 else np.nan

    x = {"x": np.arange(6.0)}
    with pytest.warns(UserWarning, match="of 30 replicates are left out, the last because: `metr"):
        table = compare(sometimes, y, x, n_replicates=30, random_state=0)
    assert table["lower"].item() < 2.5 < table["upper"].item()

    def once(y, x, seen=[]):  # noqa: B006
        seen.append(x)
        if len(seen) > 1:
            raise ValueError("never again")
        return 0.0

    with pytest.raises(ValueError, match="`metric` fails in all replicates"):
        compare(once, y, {"x": np.zeros(6)}, n_replicates=3)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"metric": "concordance"}, TypeError, "`metric` is 'concordance', must be a function"),
        ({"predictions": FIRST}, TypeError, "`predictions` is of type ndarray, must be a dict"),
        ({"predictions": {}}, TypeError, "`predictions` is of type dict, must be a dict"),
        (
            {"predictions": {"x": FIRST[1:]}},
            ValueError,
            r"`predictions\['x'\]` has 149 rows, `y` has 150 rows",
        ),
        (
            {"predictions": {"x": pd.Series(FIRST), "z": pd.Series(FIRST)[::-1]}},
            ValueError,
            r"index of `predictions\['z'\]` has the labels .* in another order",
        ),
        ({"predictions": {"x": None}}, ValueError, "has 1 rows, `y` has 150 rows"),
        ({"metric": lambda y, x: None}, TypeError, "`metric` returns None, must return a number"),
        ({"metric": lambda y, x: [1, 2]}, TypeError, r"`metric` returns \[1, 2\], must return"),
        (
            {
                "metric": lambda y, x: pd.Series(np.ones(1 + int(x[0]))),
                "predictions": {"x": np.zeros(150), "z": np.ones(150)},
            },
            ValueError,
            "`metric` returns 1 numbers of one model, 2 of another",
        ),
        ({"n_replicates": 1}, ValueError, "`n_replicates` is 1, must be a whole number"),
        ({"level": 95}, ValueError, "`level` is 95, must lie between 0 and 1"),
        ({"tau": 1.0}, TypeError, "tau"),
    ],
)
def test_bad_input(change, error, message):
    given = {"metric": concordance, "y": Y, "predictions": {"x": FIRST}, **change}
    with pytest.raises(error, match=message):
        compare(**given)


@pytest.mark.slow
def test_intervals_of_differences_cover():
    """Of 200 samples 95 % do (4 standard errors: 0.062)."""
    rng = np.random.default_rng(4)

    def draw(n):
        x, noise = rng.normal(size=(2, n))
        event, lost = rng.exponential(np.exp(-x)), rng.exponential(2.0, n)
        y = surv(event <= lost, np.minimum(event, lost))
        return y, {"x": x, "noise": x + noise}

    def uno(y, predictor):
        return concordance(y, predictor, censoring="pooled", horizon=1.0)

    y, given = draw(500_000)
    truth, covered = uno(y, given["noise"]) - uno(y, given["x"]), 0
    for seed in range(200):
        table = compare(uno, *draw(200), n_replicates=200, random_state=seed)
        lower, upper = table.loc["noise", ["difference_lower", "difference_upper"]]
        covered += lower <= truth <= upper
    assert covered / 200 == pytest.approx(0.95, abs=0.062)
