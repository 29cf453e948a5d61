"""Intervals of incidences, against differences, curves of one kind of event, and replicates."""

import numpy as np
import pandas as pd
import pytest
from test_causes import CODE, FREE, NEW, ROW, START, TIME, X, outcome

from sksurvgpu import (
    CauseSpecificCox,
    CoxLassoCCD,
    bootstrap,
    competing_risks,
    curve_intervals,
    make_pipeline,
    probability_intervals,
    surv,
)

TIMES = [0.5, 10.0, 30.0, 55.0]


def by_differences(event, new, horizon):
    """Incidence of a kind of event and its standard error, from the sums of the likelihood."""
    kinds = []
    for k in (1, 2, 3):
        times, deaths = np.unique(TIME[k == CODE], return_counts=True)
        at_risk = times[:, None] <= TIME
        beta = CauseSpecificCox(FREE).fit(X, outcome()).estimators_["abc"[k - 1]].coef_
        kinds.append((times, deaths, at_risk, beta))

    def incidence(betas, moves):
        grid = np.unique(np.concatenate([kind[0] for kind in kinds]))
        steps = np.zeros((3, len(grid)))
        for k, (times, deaths, at_risk, _) in enumerate(kinds):
            hazard = deaths / (at_risk @ np.exp(X @ betas[k])) + moves[k]
            steps[k, np.searchsorted(grid, times)] = hazard * np.exp(new @ betas[k])
        steps = steps[:, grid <= horizon]
        total = steps.sum(axis=0)
        before = np.exp(-np.append(0.0, np.cumsum(total)[:-1]))
        return (steps["abc".index(event)] / total * before * -np.expm1(-total)).sum()

    betas = np.array([kind[3] for kind in kinds])
    still, variance = [np.zeros(len(kind[0])) for kind in kinds], 0.0
    for k, (times, deaths, at_risk, beta) in enumerate(kinds):
        for t in range(len(times)):
            ends = []
            for move in (1e-6, -1e-6):
                moves = [m.copy() for m in still]
                moves[k][t] += move
                ends.append(incidence(betas, moves))
            slope = (ends[0] - ends[1]) / 2e-6
            variance += slope**2 * deaths[t] / (at_risk[t] @ np.exp(X @ beta)) ** 2
        risk = at_risk * np.exp(X @ beta)
        share = risk / risk.sum(axis=1, keepdims=True)
        mean = share @ X
        spread = np.einsum("ti,ij,ik->tjk", share, X, X) - np.einsum("tj,tk->tjk", mean, mean)
        covariance = np.linalg.inv(np.einsum("t,tjk->jk", deaths, spread))
        slope = np.zeros(2)
        for j in range(2):
            ends = []
            for move in (1e-5, -1e-5):
                moved = betas.copy()
                moved[k, j] += move
                ends.append(incidence(moved, still))
            slope[j] = (ends[0] - ends[1]) / 2e-5
        variance += slope @ covariance @ slope
    return incidence(betas, still), np.sqrt(variance)


@pytest.mark.thorough(but=r"\[a\]")
@pytest.mark.parametrize("event", ["a", "c"])
def test_errors_are_those_of_differences(event):
    model = CauseSpecificCox(FREE).fit(X, outcome())
    found = probability_intervals(model, X, outcome(), NEW, TIMES, of=event)
    assert found.what == "cumulative_incidence"
    for i, new in enumerate(NEW):
        for t, horizon in enumerate(TIMES):
            estimate, error = by_differences(event, new, horizon)
            assert found.estimate[i, t] == pytest.approx(estimate, abs=1e-9)
            assert found.standard_errors[i, t] == pytest.approx(error, rel=1e-5, abs=1e-12)
    move = 1.959963984540054 * found.standard_errors / (1 - found.estimate)
    hazard = -np.log1p(-found.estimate)
    expected = hazard[:, 1:] * np.exp(move[:, 1:] / hazard[:, 1:])
    np.testing.assert_allclose(-np.log1p(-found.upper[:, 1:]), expected, rtol=1e-9)
    assert (found.lower[:, 0] == 0).all()
    assert (found.upper[:, 0] == 0).all()


ONE_KIND = {
    "plain": {},
    "efron": {"ties": "efron"},
    "changing": {"time_varying": {0: [20.0], 1: [35.0]}},
}


@pytest.mark.parametrize("kind", ONE_KIND)
@pytest.mark.parametrize("start", [0.0, 7.0])
def test_errors_of_one_kind_of_event_are_those_of_its_curve(kind, start):
    one = CoxLassoCCD(alpha=0.0, tol=1e-12, **ONE_KIND[kind])
    given = {"sample_weight": 1.0 + ROW % 2, "strata": ROW % 3}
    y = competing_risks((CODE > 0).astype(int), TIME, start=START)
    model, alone = CauseSpecificCox(one).fit(X, y, **given), surv(CODE > 0, TIME, start=START)
    new = {"strata_new": [0, 2], "start": start, "level": 0.9}
    found = probability_intervals(model, X, y, NEW, TIMES, **new, **given)
    one.fit(X, alone, **given)
    same = {"what": "risk", "interval": "log-log", "times": TIMES}
    expected = curve_intervals(one, X, alone, NEW, **same, **new, **given)
    for name in ("estimate", "standard_errors", "lower", "upper"):
        np.testing.assert_allclose(
            getattr(found, name), np.nan_to_num(getattr(expected, name)), rtol=1e-9, atol=1e-13
        )


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_errors_of_one_fit_of_all_hazards_are_those_of_separate_fits(ties):
    one = CoxLassoCCD(alpha=0.0, tol=1e-12, ties=ties, time_varying={1: [20.0]})
    given, y = {"sample_weight": 1.0 + ROW % 2, "strata": ROW % 3}, outcome(start=START)
    new = {"of": "no event", "strata_new": [1, 2], **given}
    apart = CauseSpecificCox(one).fit(X, y, **given)
    together = CauseSpecificCox(one, shared=[]).fit(X, y, **given)
    expected, found = (
        probability_intervals(model, X, y, NEW, TIMES, **new) for model in (apart, together)
    )
    np.testing.assert_allclose(found.to_frame(), expected.to_frame(), rtol=1e-7, atol=1e-10)
    curves = together.predict_survival_function(NEW, strata=[1, 2])
    np.testing.assert_allclose(found.estimate, [curve(TIMES) for curve in curves], atol=1e-12)


@pytest.mark.thorough
def test_errors_with_shared_coefficients_are_nearly_those_of_replicates():
    table = pd.DataFrame(X, index=ROW)
    model = CauseSpecificCox(make_pipeline(FREE), shared=[1]).fit(table, outcome())
    found = probability_intervals(model, table, outcome(), table[:3], TIMES[1:], of="b")
    rows, y, _ = model.stack(table, outcome())
    draws = bootstrap(model.joint_, rows, y, n_replicates=300, random_state=0)
    drawn = probability_intervals(
        model, table, outcome(), table[:3], TIMES[1:], of="b", bootstrap=draws
    )
    assert drawn.interval == "percentile"
    assert drawn.to_frame().index.equals(found.to_frame().index)
    np.testing.assert_allclose(drawn.estimate, found.estimate, atol=1e-12)
    np.testing.assert_allclose(drawn.standard_errors, found.standard_errors, rtol=0.15)
    np.testing.assert_allclose(drawn.lower, found.lower, atol=0.03)


def test_replicates_are_those_of_fits_to_weighted_rows():
    y, weight, strata = outcome(), 1.0 + ROW % 2, ROW % 2
    given = {"sample_weight": weight, "strata": strata}
    one = CoxLassoCCD(alpha=0.0005, tol=1e-10)
    model = CauseSpecificCox(one, between=0.3).fit(X, y, **given)
    rows, stacked, more = model.stack(X, y, **given)
    draws = bootstrap(model.joint_, rows, stacked, n_replicates=2, random_state=0, **more)
    found = probability_intervals(
        model, X, y, NEW, TIMES, of="c", strata_new=[1, 0], level=0.999, bootstrap=draws, **given
    )
    ends = []
    for number in range(2):
        seed = draws._draw[1]
        drawn = np.random.default_rng([seed, number]).integers(300, size=300)
        times = np.bincount(drawn, minlength=300)
        refit = CauseSpecificCox(one, between=0.3).fit(X, y, weight * times, strata)
        ends.append(refit.predict_risk(NEW, TIMES, event="c", strata=[1, 0]).to_numpy())
    np.testing.assert_allclose(found.standard_errors, np.std(ends, axis=0, ddof=1), atol=1e-6)


def test_what_the_data_do_not_determine_has_no_error():
    y, twice, given = outcome(), np.column_stack([X, 2 * X[:, 0]]), {"times": TIMES, "of": "b"}
    new = np.array([[0.5, 1.0, 1.0], [0.5, 1.0, 0.0]])  # a row as those of the fit, and none
    model, alone = (CauseSpecificCox(FREE).fit(table, y) for table in (twice, X))
    found = probability_intervals(model, twice, y, new, **given).standard_errors
    expected = probability_intervals(alone, X, y, new[:1, :2], **given).standard_errors
    np.testing.assert_allclose(found[:1], expected, rtol=1e-6)
    assert np.isnan(found[1, 1:]).all()
    infinite = np.column_stack([X, (CODE == 1) & (TIME < 30)])
    y, alone = competing_risks(1 * (CODE == 1), TIME), surv(CODE == 1, TIME)
    with pytest.warns(UserWarning, match="infinite"):
        model = CauseSpecificCox(CoxLassoCCD(alpha=0)).fit(infinite, y)
    with pytest.warns(UserWarning, match="infinite"):
        expected = curve_intervals(model.estimators_[1], infinite, alone, new, times=TIMES)
    found = probability_intervals(model, infinite, y, new, TIMES)
    is_open = (found.estimate > 1e-12) & (found.estimate < 1 - 1e-12)  # up to rounding
    error = found.standard_errors[is_open]
    np.testing.assert_allclose(error, expected.standard_errors[is_open], rtol=1e-9)
    assert np.isnan(error).sum() == 2


def test_what_has_no_interval_is_an_error():
    y = outcome()
    model = CauseSpecificCox(CoxLassoCCD(alpha=0.001)).fit(X, y)
    with pytest.raises(ValueError, match="fitted with `shared="):
        probability_intervals(model, X, y, NEW, TIMES)
    model = CauseSpecificCox(FREE).fit(X, y)
    with pytest.raises(ValueError, match="not the rows of the fit"):
        probability_intervals(model, X[::-1], y, NEW, TIMES)
    with pytest.raises(ValueError, match="must be one of"):
        probability_intervals(model, X, y, NEW, TIMES, of="d")
    with pytest.raises(ValueError, match="drop it"):
        probability_intervals(model, X, y, NEW, TIMES, state="a")
    with pytest.raises(ValueError, match="fit MultiStateCox"):
        probability_intervals(model, X, y, NEW, TIMES, what="expected_time")
    with pytest.raises(ValueError, match="'probability', 'expected_time'"):
        probability_intervals(model, X, y, NEW, TIMES, what="time")
    with pytest.raises(TypeError, match="CoxLassoCCD"):
        probability_intervals(FREE, X, y, NEW, TIMES)
    with pytest.warns(UserWarning, match="end at 61"):
        late = probability_intervals(model, X, y, NEW, [62.0])
    assert np.isnan(late.estimate).all()
