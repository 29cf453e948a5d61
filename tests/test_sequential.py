"""Boundaries of looks at accruing data, against those of R and against simulated watches."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from sksurvgpu.cohort import group_sequential, max_sprt

# CV.Poisson and CV.Binomial of the R package Sequential 4.5.1, of looks by CV(..., GroupSizes).
SEQUENTIAL = [
    (10, {}, 3.46795158033),
    (1, {}, 2.85393714898),
    pytest.param(200, {}, 4.07482766406, marks=pytest.mark.thorough),
    (20, {"alpha": 0.01}, 5.41476964953),
    (10, {"min_events": 4}, 2.92156132979),
    (10.3, {"alpha": 0.04, "min_events": 3}, 3.32871496677),
    (10, {"first": 3}, 2.484834),
    (10.3, {"alpha": 0.04, "first": 1}, 3.06928753853),
    (10.3, {"alpha": 0.04, "first": 5}, 2.46241390705),
    (range(1, 11), {}, 2.5451784523),
    ([2, 5, 6, 12], {"min_events": 4}, 1.931472806),
    (range(1, 11), {"share": 0.2}, 3.06496),
    (50, {"share": 0.5}, 3.46574),
    (range(5, 51, 5), {"share": 1 / 3, "alpha": 0.01, "min_events": 4}, 4.59581),
]
# "Type_I_Error" of the same calls of CV.Binomial
ERRORS = {0.2: 0.0491512832, 0.5: 0.0388046005316, 1 / 3: 0.00892397594612}
# computeCvPoisson and computeCvBinomial of EmpiricalCalibration (2025-10) with 4e6 samples after
# set.seed(1), the last with 1e6, and the standard error of their "alpha".
CALIBRATED = [
    (range(1, 11), None, (0.1, 0.2), 3.862943611, 0.04719, 0.0001),
    (range(10, 101, 10), 0.2, (0.1, 0.2), 4.385475305, 0.047512, 0.0001),
    (range(1, 11), 0.2, (0.1, 0.2), 3.218875825, 0.03105825, 0.0001),
    (np.arange(5, 181, 5), None, (0.1, 0.3), 49.42019606, 0.049536, 0.0002),
]
TIMES = [0.2, 0.5, 0.75, 1.0]
# ldBounds of ldbounds 2.0.2 with iuse=1 and 2, alpha=.05 in all, t=TIMES; those of rpact 3.3.4,
# getDesignGroupSequential("asOF", "asP"), differ from them by 5e-5.
BOUNDS = [
    ("obrien-fleming", False, [4.22919505930, 2.53824963399, 2.01591260593, 1.72009752854]),
    ("obrien-fleming", True, [4.87688494878, 2.96264907723, 2.35899460207, 2.01404925278]),
    ("pocock", False, [2.17621145309, 2.04347686509, 2.04971625630, 2.03374634850]),
    ("pocock", True, [2.43797668805, 2.33279663595, 2.35455716599, 2.34889632041]),
]


@pytest.mark.parametrize(("looks", "options", "expected"), SEQUENTIAL)
def test_critical_values_of_sequential(looks, options, expected):
    found = max_sprt(looks, **options)
    assert found.critical_value == pytest.approx(expected, abs=1e-5)
    spent = found.table["spent"].iloc[-1]
    assert spent <= found.alpha
    if share := options.get("share"):
        assert spent == pytest.approx(ERRORS[share], abs=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize(("looks", "share", "null", "expected", "alpha", "error"), CALIBRATED)
def test_calibrated_critical_values(looks, share, null, expected, alpha, error):
    found = max_sprt(looks, share=share, null=null)
    assert found.critical_value == pytest.approx(expected, abs=1e-7)
    assert found.table["spent"].iloc[-1] == pytest.approx(alpha, abs=4 * error)


def simulate(boundary, steps, rng, errors):
    """Share of simulated watches that signal, by the statistic and by the table."""
    draws = (
        rng.poisson(steps * np.exp(errors))
        if boundary.share is None
        else rng.binomial(steps.astype(int), boundary.share, (len(errors), len(steps)))
    )
    events, of = draws.cumsum(axis=1), np.broadcast_to(np.cumsum(steps), draws.shape)
    by_statistic = (boundary.statistic(events, of) > boundary.critical_value).any(axis=1)
    by_table = (events >= boundary.table["events"].to_numpy()).any(axis=1)
    np.testing.assert_array_equal(by_statistic, by_table)
    return by_statistic.mean()


@pytest.mark.thorough
def test_watches_of_36_looks_err_as_often_as_they_say():
    """Three watches of 40,000 simulations; a standard error is 0.0011, and no retry."""
    rng = np.random.default_rng(0)
    steps, none = np.full(36, 2.0), np.zeros((40_000, 1))
    error = rng.normal(0.1, 0.2, none.shape)
    plain, of_counts = max_sprt(np.cumsum(steps)), max_sprt(np.cumsum(steps), share=0.3)
    calibrated = max_sprt(np.cumsum(steps), null=(0.1, 0.2))
    for boundary, errors in ((plain, none), (of_counts, none), (calibrated, error)):
        spent = boundary.table["spent"].iloc[-1]
        assert 0.03 < spent <= 0.05
        assert simulate(boundary, steps, rng, errors) == pytest.approx(spent, abs=0.0045)
    assert simulate(plain, steps, rng, error) > 0.25  # what calibration is for


@pytest.mark.parametrize(("spending", "two_sided", "expected"), BOUNDS)
def test_group_sequential_bounds(spending, two_sided, expected):
    found = group_sequential(TIMES, spending=spending, two_sided=two_sided).table
    np.testing.assert_allclose(found["z"], expected, atol=1e-4)
    # the same by another integral: no z beyond its bound at the first three looks
    covariance = np.sqrt(np.minimum.outer(TIMES, TIMES) / np.maximum.outer(TIMES, TIMES))
    z = found["z"].to_numpy()[:3]
    inside = multivariate_normal.cdf(
        z,
        cov=covariance[:3, :3],
        abseps=1e-9,
        releps=1e-9,
        maxpts=10**6,
        lower_limit=-z if two_sided else None,
    )
    assert 1 - inside == pytest.approx(found["spent"][3], abs=2e-7)


def test_bounds_do_not_depend_on_later_looks():
    first = group_sequential([20, 30, 100]).table["z"]
    np.testing.assert_allclose(group_sequential([20, 30, 70, 90, 100]).table["z"][:2], first[:2])
    assert np.isinf(group_sequential([0.001, 1], alpha=1e-6).table["z"][1])


@pytest.mark.thorough
def test_36_looks_at_z_err_as_often_as_they_say():
    rng, draws = np.random.default_rng(1), 40_000
    for two_sided in (False, True):
        z = group_sequential(np.arange(1, 37), two_sided=two_sided).table["z"].to_numpy()
        found = rng.normal(size=(draws, 36)).cumsum(axis=1) / np.sqrt(np.arange(1, 37))
        found = abs(found) if two_sided else found
        assert (found > z).any(axis=1).mean() == pytest.approx(0.05, abs=0.0045)


def test_a_calibrated_result_is_a_null():
    import pandas as pd

    from sksurvgpu import calibrate

    error = np.full(6, 0.1)
    controls = pd.DataFrame({"coef": [0.2, -0.3, 0.5, 0.1, 0.0, 0.4], "standard_error": error})
    result = calibrate(controls.head(1), controls)
    expected = max_sprt([3, 6], null=(result.null["mean"], result.null["sd"]))
    assert max_sprt([3, 6], null=result).critical_value == expected.critical_value


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: max_sprt([1, 1, 2]), "ascend from look to look"),
        (lambda: max_sprt([]), "ascend from look to look"),
        (lambda: max_sprt(-1), "must be positive"),
        (lambda: max_sprt([1, np.nan]), "looks"),
        (lambda: max_sprt([1.5, 2], share=0.5), "whole"),
        (lambda: max_sprt(10, share=0.5, first=2), "drop early looks"),
        (lambda: max_sprt([5, 10], first=2), "drop early looks"),
        (lambda: max_sprt(10, first=11), "`first` is 11"),
        (lambda: max_sprt(10, share=1), "`share` is 1"),
        (lambda: max_sprt(10, alpha=0), "`alpha` is 0"),
        (lambda: max_sprt(10, min_events=0), "`min_events` is 0"),
        (lambda: max_sprt(2, min_events=9), "less probable than `alpha`"),
        (lambda: max_sprt([2, 4], share=0.5), "no signal is possible"),
        (lambda: max_sprt(4, share=0.5, min_events=5), "no signal is possible"),
        (lambda: max_sprt([1, 2], min_events=50), "no signal is possible: 50 or more events"),
        (lambda: max_sprt(10, null=(0.1, -0.2)), "standard deviation"),
        (lambda: max_sprt(10, null=0.1), "null"),
        (lambda: max_sprt(10).statistic(11, 0), "positive"),
        (lambda: max_sprt(10, share=0.5).statistic(11, 10), "more `events`"),
        (lambda: group_sequential([1, 2]).statistic(3, 1), "compare z-statistics"),
        (lambda: group_sequential([0, 1]), "must be positive"),
        (lambda: group_sequential([5, 1000, 1000.1]), "two looks differ"),
        (lambda: group_sequential([1, 2], spending="haybittle"), "obrien-fleming"),
        (lambda: group_sequential([1, 2], two_sided=1), "two_sided"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
