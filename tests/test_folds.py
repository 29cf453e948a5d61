"""Folds of `SurvivalKFold`, and the searches over penalties, by themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks
from test_estimators import as_times

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    LogisticCV,
    PoissonCV,
    SurvivalKFold,
    case_series,
    competing_risks,
    matched,
    surv,
)
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.selection.search import Scored, choose, search_variance


def folds_of(splitter, y, groups=None):
    """Fold of every row, once it is sure that the folds are a partition."""
    fold = np.full(len(y), -1)
    for k, (train, test) in enumerate(splitter.split(None, y, groups)):
        np.testing.assert_array_equal(np.union1d(train, test), np.arange(len(y)))
        assert not np.intersect1d(train, test).size
        assert (fold[test] == -1).all()
        fold[test] = k
    assert (fold >= 0).all()
    return fold


@given(st.integers(2, 6), st.integers(6, 60), st.integers(1, 6), st.integers(0, 10**6))
@settings(max_examples=60)
def test_groups_stay_whole_and_events_are_shared(n_splits, n_groups, most, seed):
    random = np.random.default_rng(seed)
    size = random.integers(1, most + 1, n_groups)
    group = random.permutation(np.repeat(random.permutation(5 * n_groups)[:n_groups], size))
    event = random.random(len(group)) < 0.4
    y = surv(event, np.ones(len(group)), subject=group)
    fold = folds_of(SurvivalKFold(n_splits, random_state=seed), y)
    for label in np.unique(group):
        assert len(set(fold[group == label])) == 1
    n_events = np.bincount(fold, event, n_splits)
    assert np.ptp(n_events) <= most  # of one group, by which the rounds of the dealing differ
    n_of_fold = [len(set(group[fold == k])) for k in range(n_splits)]
    assert max(n_of_fold) - min(n_of_fold) <= 1


@pytest.mark.parametrize("n_splits", [2, 7, 10])
def test_kinds_of_events_are_shared(n_splits):
    code = np.random.default_rng(0).choice(3, 500, p=[0.9, 0.07, 0.03])
    fold = folds_of(SurvivalKFold(n_splits, random_state=1), competing_risks(code, np.ones(500)))
    for kind in range(3):
        assert np.ptp(np.bincount(fold[code == kind], minlength=n_splits)) <= 2
    assert np.ptp(np.bincount(fold)) <= 1


def test_outcomes_say_what_stays_together():
    group = np.random.default_rng(0).permutation(np.arange(120) % 30)
    label = np.char.add("s", group.astype(str))
    outcomes = [
        case_series(group % 2, np.ones(120), label),
        matched(np.arange(120) % 3 == 0, label),
        surv(group > 2, np.ones(120), subject=label),
    ]
    for y in outcomes:
        fold = folds_of(SurvivalKFold(4, random_state=0), y)
        assert all(len(set(fold[group == g])) == 1 for g in range(30))
    # the strata of a Cox model are no groups
    fold = folds_of(SurvivalKFold(4, random_state=0), surv(group > 2, np.ones(120), stratum=label))
    assert any(len(set(fold[group == g])) > 1 for g in range(30))
    # what is passed wins
    fold = folds_of(SurvivalKFold(4, random_state=0), outcomes[0], groups=np.arange(120) // 6)
    assert all(len(set(fold[6 * g : 6 * g + 6])) == 1 for g in range(20))


def test_plain_outcomes_are_shared_too():
    random = np.random.default_rng(0)
    label = np.where(random.random(100) < 0.2, "yes", "no")
    fold = folds_of(SurvivalKFold(5, random_state=0), label)
    assert np.ptp(np.bincount(fold[label == "yes"])) <= 1
    count = random.poisson(20, 400)
    fold = folds_of(SurvivalKFold(4, random_state=0), count)
    assert np.ptp(np.bincount(fold, count)) < 60  # of 8,000; chance alone gives 250


def test_repeats_differ_and_seeds_repeat():
    y = surv(np.arange(60) % 2 == 0, np.ones(60))
    tests = [test for _, test in SurvivalKFold(3, n_repeats=2, random_state=5).split(None, y)]
    again = [test for _, test in SurvivalKFold(3, n_repeats=2, random_state=5).split(None, y)]
    assert len(tests) == 6 == SurvivalKFold(3, n_repeats=2).get_n_splits()
    assert all(np.array_equal(a, b) for a, b in zip(tests, again, strict=True))
    assert not any(np.array_equal(tests[k], tests[3 + k]) for k in range(3))


def test_dealing_is_random():
    """Every pair of rows with an event meets in a fold about as often as any other."""
    y = surv(np.ones(12, bool), np.ones(12))
    meetings = np.zeros((12, 12))
    for _, test in SurvivalKFold(3, n_repeats=2_000, random_state=0).split(None, y):
        meetings[np.ix_(test, test)] += 1
    expected = 2_000 * 3 / 11  # each row has 3 of 11 others beside it
    others = meetings[~np.eye(12, dtype=bool)]
    assert np.abs(others - expected).max() < 5 * np.sqrt(expected)


def test_it_serves_scikit_learn():
    data = simulate_cox(300, 10, density=0.3, random_state=0)
    scores = cross_val_score(CoxLassoCCD(), data.X, data.y, cv=SurvivalKFold(4, random_state=0))
    assert scores.shape == (4,)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_splits": 1}, "`n_splits` is 1"),
        ({"n_splits": 2.5}, "`n_splits` is 2.5"),
        ({"n_repeats": 0}, "`n_repeats` is 0"),
        ({"n_splits": 9}, "there are 8 rows"),
    ],
)
def test_impossible_folds(params, message):
    y = surv(np.ones(8, bool), np.ones(8))
    with pytest.raises(ValueError, match=message):
        list(SurvivalKFold(**params).split(None, y))
    if "n_splits" in params and params["n_splits"] == 9:
        with pytest.raises(ValueError, match="2 groups"):
            list(SurvivalKFold(3).split(None, y, np.arange(8) % 2))


class Curve:
    """Scores as a function of the log variance; keeps what was asked."""

    def __init__(self, score, error=0.01):
        self.score, self.error, self.asked = score, error, []

    def __call__(self, variance):
        x = float(np.log(variance))
        self.asked.append(x)
        return Scored(variance, np.zeros(3), self.score(x), self.error, 5.0)


def search(curve, start=0.01, limits=(1e-9, 1e9)):
    points = search_variance(curve, start, limits)
    assert (
        np.log(limits[0]) - 1e-9 <= min(curve.asked) <= max(curve.asked) < np.log(limits[1]) + 1e-9
    )
    assert len(points) == len(curve.asked) <= 50
    best = points[choose(points, "best")]
    assert best.mean == np.nanmax([point.mean for point in points])  # nothing that was not scored
    return np.log(best.alpha)


@pytest.mark.parametrize("peak", [-12.0, -4.6, 0.3, 3.0, 11.0])
@pytest.mark.parametrize("start", [1e-4, 0.01, 50.0])
def test_the_search_finds_the_top_of_a_hill(peak, start):
    curve = Curve(lambda x: -((x - peak) ** 2))
    assert search(curve, start) == pytest.approx(peak, abs=np.log(1.5))
    assert len(curve.asked) < 14


def test_the_search_finds_the_top_of_a_lopsided_hill():
    curve = Curve(lambda x: -np.exp(0.8 * (x - 2.0)) + 0.5 * x, error=0.001)
    top = 2.0 + np.log(0.5 / 0.8) / 0.8
    assert search(curve) == pytest.approx(top, abs=np.log(1.5))


def test_a_valley_on_the_way_does_not_lead_to_infinity():
    # the quadratic through all points opens upwards, and has its extreme far away
    curve = Curve(lambda x: 0.02 * x**2 + np.exp(-((x - 1.0) ** 2)))
    search(curve, start=0.1)
    curve = Curve(lambda x: -(abs(x + 3.0) ** 0.5))
    assert search(curve) == pytest.approx(-3.0, abs=1.2)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_score_that_rises_for_ever_ends_at_the_limit(sign):
    assert search(Curve(lambda x: sign * x), limits=(1e-5, 1e5)) == pytest.approx(
        sign * np.log(1e5)
    )


def test_a_start_beyond_the_limits_is_moved():
    assert search(Curve(lambda x: -((x + 8.0) ** 2)), start=10.0, limits=(1e-5, 1e-2)) < -6


def test_equal_scores_end_the_search():
    assert np.isfinite(search(Curve(lambda x: 1.0)))
    assert np.isfinite(search(Curve(lambda x: 1.0, error=0.0)))


def test_scores_that_do_not_exist_are_not_chosen():
    with np.errstate(invalid="ignore"):
        curve = Curve(lambda x: np.nan if x > 0 else -((x + 2.0) ** 2))
        assert search(curve) == pytest.approx(-2.0, abs=1.0)
    points = search_variance(Curve(lambda x: np.nan), 0.01, (1e-3, 1e6))
    with pytest.raises(ValueError, match="no split of `cv` can be scored"):
        choose(points, "best")


class NumericOutcomeCV(CoxLassoCV):
    """Takes the plain numbers that scikit-learn's checks pass for y as uncensored times."""

    def fit(self, X, y, sample_weight=None):
        build_design(X)
        return super().fit(X, as_times(y), sample_weight=sample_weight)

    def score(self, X, y):
        return super().score(X, as_times(y))


ONE_ROW = {"check_fit2d_1sample": "one row cannot be split; the error says so"}
EXPECTED = {"NumericOutcomeCV": ONE_ROW, "PoissonCV": ONE_ROW}
OPTIONS = {"cv": 2, "n_alphas": 3, "alpha_min_ratio": 0.1}


@parametrize_with_checks(
    [NumericOutcomeCV(**OPTIONS), LogisticCV(**OPTIONS), PoissonCV(**OPTIONS)],
    expected_failed_checks=lambda estimator: EXPECTED.get(type(estimator).__name__, {}),
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
