"""Calibration intercepts and slopes: R's geese and glm, the definition of pseudo-values."""

import numpy as np
import pytest
from whole_numbers import AGE, CODE, DRUG, TIME

from sksurvgpu import competing_risks, surv
from sksurvgpu.metrics import calibration
from sksurvgpu.metrics.observed import ObservedOutcome
from sksurvgpu.metrics.recalibration import pseudo_values
from sksurvgpu.nonparametric.risk import observed_risk

RISK = 1 - np.exp(-0.8 * np.exp(0.6 * AGE - 0.3 * DRUG))

# R 4.2.2, prodlim 2019.11.13, geepack 1.3.9, with these rows and cll <- log(-log(1 - RISK)), for
# event 1 log(-log(1 - RISK / 2)):
#   v <- 1 - jackknife(prodlim(Hist(time, code > 0) ~ 1), times = 0.9)
#   v <- jackknife(prodlim(Hist(time, code) ~ 1), times = 0.9, cause = 1)
#   geese(v ~ offset(cll) [+ cll], id = i, scale.fix = TRUE, family = gaussian, jack = TRUE,
#         mean.link = "cloglog", corstr = "independence", control = geese.control(epsilon = 1e-14))
# estimates and san.se of the intercept alone, and of the slope, to which 1 is added; binary:
#   glm(code == 1 ~ offset(qlogis(RISK)), family = binomial); glm(code == 1 ~ qlogis(RISK), ...)
GEESE = {
    "one": (0.06331998737322864, 0.1284474340653067, 1.187490824125984, 0.3528423429074109),
    "of two": (0.2406905799191092, 0.1623242017219015, 1.473954838597329, 0.5706759035016805),
}
GLM = -0.7466104463589521, 0.8016876596549448
OUTCOMES = {"one": surv(CODE > 0, TIME), "of two": competing_risks(CODE, TIME)}


@pytest.mark.parametrize("kind", GEESE)
def test_equals_geese(kind):
    risk = RISK if kind == "one" else RISK / 2
    table = calibration(OUTCOMES[kind], risk, 0.9, level=0.9).recalibration
    # geese stops where steps are of this size
    found = table[["estimate", "standard_error"]].to_numpy().ravel()
    np.testing.assert_allclose(found, GEESE[kind], atol=2e-7)
    half = 1.6448536269514722 * table["standard_error"]
    np.testing.assert_allclose(table["lower"], table["estimate"] - half, rtol=1e-12)
    np.testing.assert_allclose(table["upper"], table["estimate"] + half, rtol=1e-12)
    assert table.index.tolist() == ["intercept", "slope"]


def test_binary_outcomes_equal_glm():
    table = calibration(CODE == 1, RISK).recalibration
    np.testing.assert_allclose(table["estimate"], GLM, rtol=1e-8)
    logit = np.log(RISK / (1 - RISK))
    left = (CODE == 1) - 1 / (1 + np.exp(-(GLM[0] + logit)))
    error = np.sqrt(np.sum(left**2)) / np.sum(((CODE == 1) - left) * (1 - (CODE == 1) + left))
    assert table.loc["intercept", "standard_error"] == pytest.approx(error, rel=1e-6)


@pytest.mark.thorough(but="[02]")
@pytest.mark.parametrize("seed", range(4))
def test_pseudo_values_are_those_of_estimates_without_a_row(seed):
    rng = np.random.default_rng(seed)
    status, time = rng.integers(0, 3, 40), rng.integers(1, 9, 40).astype(float)
    time[:2] = 9.0  # two, so that the estimate is known without each
    for horizon in (0.5, 1.0, 4.0, 6.5, 8.0):
        whole, _ = observed_risk(status, time, horizon)
        without = [observed_risk(*np.delete([status, time], i, 1), horizon)[0] for i in range(40)]
        found = pseudo_values(ObservedOutcome(status, time, "y"), horizon)
        np.testing.assert_allclose(found, 40 * whole - 39 * np.array(without), atol=1e-12)
    without_censoring = ObservedOutcome(np.maximum(status, 1), time, "y")
    is_case = (without_censoring.status == 1) & (time <= 4)
    np.testing.assert_allclose(pseudo_values(without_censoring, 4.0), is_case, atol=1e-12)


def test_where_there_is_no_slope():
    table = calibration(OUTCOMES["one"], np.full(150, 0.4), 0.9).recalibration
    assert np.isfinite(table.loc["intercept"]).all()
    assert table.loc["slope"].isna().all()
    table = calibration(OUTCOMES["one"], np.append(RISK[:-1], 0.0), 0.9).recalibration
    assert table.isna().all(axis=None)
    table = calibration(CODE == 1, np.append(RISK[:-1], 1.0)).recalibration
    assert table.isna().all(axis=None)
    tables = [
        calibration(OUTCOMES["one"], np.append(RISK[:-1], one), 0.9).recalibration
        for one in (1.0, 1.0 - 1e-15)  # which a risk of 1 may have been
    ]
    np.testing.assert_allclose(*tables, atol=0.02)
    y = np.arange(20) > 9  # all risks above are cases: a slope without bound
    table = calibration(y, np.linspace(0.01, 0.99, 20)).recalibration
    assert table.loc["slope"].isna().all()


def test_outcomes_that_are_all_the_same_have_neither():
    for flag in (False, True):
        assert calibration(np.full(150, flag), RISK).recalibration.isna().all(axis=None)


def test_rare_events_have_both():
    """One event in 10,000: of least squares, the second derivatives are 1e-8."""
    rng = np.random.default_rng(0)
    x = rng.normal(0.0, 0.7, 500_000)
    event = rng.exponential(1e4 * np.exp(-x))
    y = surv(event < 2.0, np.minimum(event, 2.0))
    table = calibration(y, -np.expm1(-1e-4 * np.exp(x)), 1.0).recalibration
    assert (table["standard_error"] < 0.4).all()
    assert np.all(np.abs(table["estimate"] - [0, 1]) < 4 * table["standard_error"])


@pytest.mark.slow
def test_intervals_cover():
    """Of 1,000 samples 95 % do (4 standard errors: 0.028), by competing risks, 30 % censored."""
    rng = np.random.default_rng(2)
    covered = np.zeros(2)
    for _ in range(1_000):
        x, horizon = rng.normal(0.0, 0.7, 300), 1.0
        risk = 1 - np.exp(-0.5 * horizon * np.exp(x))
        first, lost = rng.exponential(2.0 * np.exp(-x)), rng.exponential(2.0, 300)
        # an event 1 in a world of 1 - exp(-t exp(x) / 2); without it event 2 by a coin
        other = np.where(rng.random(300) < 0.3, rng.exponential(1.0, 300), np.inf)
        first = np.where(np.isinf(other), first, np.inf)
        time = np.minimum(np.minimum(first, other), lost)
        code = np.select([first == time, other == time], [1, 2], 0)
        table = calibration(competing_risks(code, time), 0.7 * risk, horizon).recalibration
        shifted = np.log(-np.log1p(-0.7 * risk))
        assert np.isfinite(shifted).all()
        covered += (table["lower"] <= [0, 1]) & (table["upper"] >= [0, 1])
    np.testing.assert_allclose(covered / 1_000, 0.95, atol=0.028)
