"""Simulated events, cases and counts follow their formulas. Bounds are 5 standard errors."""

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.integrate import quad
from scipy.special import expit

from sksurvgpu.data.outcomes.competing import read_competing
from sksurvgpu.data.outcomes.counts import read_case_series, read_counts, read_matched
from sksurvgpu.data.simulate import competing, draw, regression
from sksurvgpu.datasets import (
    simulate_case_series,
    simulate_fine_gray,
    simulate_logistic,
    simulate_matched,
    simulate_poisson,
)

GENERATORS = {
    "fine gray": lambda **kwargs: simulate_fine_gray(2_000, 60, **kwargs),
    "logistic": lambda **kwargs: simulate_logistic(2_000, 60, **kwargs),
    "poisson": lambda **kwargs: simulate_poisson(2_000, 60, **kwargs),
    "matched": lambda **kwargs: simulate_matched(400, 60, stratum_size=5, **kwargs),
    "case series": lambda **kwargs: simulate_case_series(400, 60, **kwargs),
}


@pytest.fixture(params=GENERATORS)
def generate(request):
    return GENERATORS[request.param]


def check_share(hits, expected):
    """Compare a share, or the mean of each column, with its probability."""
    error = np.sqrt(np.maximum(expected * (1 - expected), 1e-12) / len(hits))
    assert np.all(np.abs(np.mean(hits, axis=0) - expected) < 5 * error)


@pytest.mark.parametrize("kind", [int, np.random.default_rng, np.random.RandomState])
def test_same_seed_same_data(generate, kind):
    source = kind(3)
    first, again = generate(random_state=source), generate(random_state=kind(3))
    other = generate(random_state=4 if kind is int else source)
    for name in ("indices", "indptr"):
        assert np.array_equal(getattr(first.X, name), getattr(again.X, name))
    assert np.array_equal(first.y, again.y)
    assert np.array_equal(first.coef, again.coef)
    assert not np.array_equal(first.y, other.y)
    assert not np.array_equal(first.coef, other.coef)


def test_design_and_coefficients(generate):
    data = generate(random_state=0, density=0.1)
    X = data.X
    assert isinstance(X, sparse.csc_array)
    assert X.dtype == np.float64
    assert np.all(X.data == 1.0)
    assert X.shape == (data.y.size, 60)
    is_first = np.zeros(X.nnz + 1, bool)
    is_first[X.indptr] = True
    assert np.all((np.diff(X.indices) > 0) | is_first[1:-1])
    n_cells = X.shape[0] * X.shape[1]
    assert abs(X.nnz / n_cells - 0.1) < 5 * np.sqrt(0.09 / n_cells)
    assert np.count_nonzero(data.coef) == 12
    assert len(np.unique(data.coef)) == 13


@pytest.mark.parametrize(
    ("simulator", "scale"),
    [
        (simulate_fine_gray, 1.0),
        (simulate_logistic, np.sqrt(2)),
        (simulate_poisson, 0.5),
        (simulate_matched, np.sqrt(2)),
        (simulate_case_series, 0.5),
    ],
)
def test_spread_of_coefficients(simulator, scale):
    coef = simulator(2, 4_000, zero_fraction=0.0, random_state=0).coef
    assert stats.kstest(coef, stats.norm(0, scale).cdf).pvalue > 1e-3


def test_chunks_of_columns_have_no_seam(monkeypatch):
    monkeypatch.setattr(draw, "CHUNK_CELLS", 7_000)
    counts = np.diff(simulate_logistic(1_000, 40, density=0.2, random_state=0).X.indptr)
    assert counts.size == 40
    assert np.abs(counts - 200).max() < 5 * np.sqrt(160)


def test_readers_accept_what_is_simulated():
    read_competing(simulate_fine_gray(100, 5, random_state=0).y)
    read_case_series(simulate_case_series(100, 5, random_state=0).y)
    read_matched(simulate_matched(100, 5, random_state=0).y)
    data = simulate_poisson(100, 5, n_strata=4, random_state=0)
    read_counts(data.y, strata=data.strata, exposure=data.exposure)


def cumulative_incidence(time, eta, probability=0.5):
    return 1 - (1 - probability * (1 - np.exp(-time))) ** np.exp(eta)


@pytest.mark.parametrize("probability", [0.5, 0.2])
@pytest.mark.parametrize("eta", [-1.5, 0.0, 0.8])
def test_causes_follow_the_cumulative_incidence(eta, probability):
    n, rng = 200_000, np.random.default_rng(5)
    cause, time = competing._draw_causes(np.full(n, eta), probability, rng)
    for until in (0.1, 0.5, 1.0, 3.0, np.inf):
        expected = cumulative_incidence(until, eta, probability)
        check_share((cause == 1) & (time <= until), expected)
    second = time[cause == 2]
    assert stats.kstest(second, stats.expon(scale=np.exp(eta)).cdf).pvalue > 1e-3


def test_fine_gray_follows_the_formula_at_both_values_of_a_column():
    data = simulate_fine_gray(200_000, 1, density=0.5, zero_fraction=0.0, random_state=1)
    [coef] = data.coef
    assert abs(coef) > 0.3
    assert np.array_equal(data.competing_coef, -data.coef)
    x = data.X.toarray()[:, 0]
    for value in (0.0, 1.0):
        y = data.y[x == value]
        eta = coef * value
        # Observation ends at a uniform time: the average of F_1 over it.
        first = quad(cumulative_incidence, 0, 1, args=(eta,))[0]
        check_share(y["event"] == 1, first)
        late = quad(cumulative_incidence, 0.5, 1, args=(eta,))[0]
        late -= 0.5 * cumulative_incidence(0.5, eta)
        check_share((y["event"] == 1) & (y["time"] > 0.5), late)
        is_second, rate = 0.5 ** np.exp(eta), np.exp(-eta)
        second = is_second * (1 - (1 - np.exp(-rate)) / rate)
        check_share(y["event"] == 2, second)


def test_fine_gray_outcome():
    data = simulate_fine_gray(5_000, 50, random_state=0)
    assert data.y.dtype == np.dtype([("event", "i8"), ("time", "f8")])
    shares = np.bincount(data.y["event"]) / 5_000
    assert shares.size == 3
    assert shares.min() > 0.1
    assert 0 <= data.y["time"].min() < data.y["time"].max() < 1
    assert np.unique(data.y["time"]).size == 5_000
    assert data.strata is None


def test_fine_gray_ties():
    broken = simulate_fine_gray(5_000, 50, random_state=4).y
    tied = simulate_fine_gray(5_000, 50, random_state=4, tie_break=False).y
    assert np.array_equal(tied["event"], broken["event"])
    assert np.unique(tied["time"]).size <= 101
    delay = tied["time"] - broken["time"]
    assert delay.min() >= 0
    assert delay.max() < 0.01 + 1e-12


def test_fine_gray_strata_have_their_own_speed():
    data = simulate_fine_gray(40_000, 2, n_strata=4, zero_fraction=1.0, random_state=8)
    assert data.strata.dtype == np.int32
    counts = np.bincount(data.strata)
    assert counts.size == 4
    assert np.abs(counts - 10_000).max() < 5 * np.sqrt(10_000)
    ends = [data.y["event"][data.strata == s].astype(bool).mean() for s in range(4)]
    # Rates of 0.5 and 1.5 would give shares of 0.21 and 0.48.
    assert 0.19 < min(ends) < max(ends) < 0.5
    assert np.ptp(ends) > 0.05


def test_huge_effects_do_not_overflow():
    rng = np.random.default_rng(0)
    cause, time = competing._draw_causes(np.array([-2e3, 2e3]), 0.5, rng)
    assert cause.tolist() == [2, 1]
    assert time.tolist() == [0.0, 0.0]
    eta, length = np.array([0.0, 2e3, -2e3, 5.0]), np.ones(4)
    count = regression._draw_eras(eta, length, np.zeros(2), np.array([0, 2]), rng)
    assert count[0] == 0
    assert count[1] > 9e8
    assert count[2] == 0
    assert count[3] > 50


def test_logistic_follows_the_formula_at_both_values_of_a_column():
    data = simulate_logistic(
        200_000, 1, density=0.5, intercept=-2.0, zero_fraction=0.0, random_state=1
    )
    assert data.y.dtype == np.int64
    assert data.intercept.tolist() == [-2.0]
    assert abs(data.coef[0]) > 0.3
    x = data.X.toarray()[:, 0]
    for value in (0.0, 1.0):
        check_share(data.y[x == value], expit(-2.0 + data.coef[0] * value))


@pytest.mark.parametrize("n_strata", [1, 3])
def test_poisson_has_the_mean_and_variance_of_the_formula(n_strata):
    n = 100_000
    data = simulate_poisson(n, 20, density=0.3, n_strata=n_strata, random_state=1)
    assert data.y.dtype == np.int64
    assert data.intercept.shape == (n_strata,)
    assert np.all((np.exp(data.intercept) > 0.01) & (np.exp(data.intercept) < 0.03))
    assert (data.strata is None) == (n_strata == 1)
    assert np.array_equal(data.exposure, np.round(data.exposure))
    assert data.exposure.min() == 1
    assert data.exposure.max() == 500
    stratum = np.zeros(n, int) if data.strata is None else data.strata
    mean = data.exposure * np.exp(data.X @ data.coef + data.intercept[stratum])
    for s in range(n_strata):
        rows = stratum == s
        total = mean[rows].sum()
        assert abs(data.y[rows].sum() - total) < 5 * np.sqrt(total)
        # Squared Pearson residuals: mean 1, variance 2 + 1/mean.
        squares = (data.y[rows] - mean[rows]) ** 2 / mean[rows]
        error = np.sqrt(np.mean(2 + 1 / mean[rows]) / rows.sum())
        assert abs(squares.mean() - 1) < 5 * error


@pytest.mark.parametrize("n_cases", [1, 2, 3])
def test_cases_of_a_set_follow_the_conditional_probability(n_cases):
    eta = np.array([0.5, -1.0, 0.0, 1.2])
    sets = np.tile(eta, (100_000, 1))
    case = regression._draw_cases(sets, n_cases, np.random.default_rng(0))
    assert np.all(case.sum(axis=1) == n_cases)
    choices = list(combinations(range(4), n_cases))
    odds = np.array([np.exp(eta[list(choice)].sum()) for choice in choices])
    hits = np.array([case[:, list(choice)].all(axis=1) for choice in choices]).T
    check_share(hits, odds / odds.sum())


def test_sets_with_huge_effects_have_their_number_of_cases():
    eta = np.array([[-2e3, 2e3, 0.0, -2e3, 1.0]] * 3)
    case = regression._draw_cases(eta, 3, np.random.default_rng(0))
    assert case.tolist() == [[False, True, True, False, True]] * 3


def test_matched_sets_do_not_depend_on_chunks(monkeypatch):
    whole = simulate_matched(101, 10, stratum_size=6, n_cases=2, random_state=0)
    monkeypatch.setattr(regression, "TABLE_ENTRIES", 7 * 3 * 8)
    chunked = simulate_matched(101, 10, stratum_size=6, n_cases=2, random_state=0)
    assert np.array_equal(whole.y, chunked.y)


def test_matched_outcome():
    data = simulate_matched(100, 20, stratum_size=6, n_cases=2, random_state=0)
    assert data.y.dtype == np.dtype([("case", "?"), ("stratum", "i8")])
    assert np.array_equal(data.y["stratum"], np.repeat(np.arange(100), 6))
    assert np.all(np.bincount(data.y["stratum"], data.y["case"]) == 2)
    eta = data.X @ data.coef
    assert eta[data.y["case"]].mean() > eta[~data.y["case"]].mean() + 0.2


def test_matched_sets_without_fixed_cases_have_intercepts():
    data = simulate_matched(20_000, 2, stratum_size=10, zero_fraction=1.0, random_state=0)
    assert stats.kstest(data.intercept, stats.norm(0, 0.5).cdf).pvalue > 1e-3
    cases = np.bincount(data.y["stratum"], data.y["case"])
    is_high = data.intercept > 0
    for sets in (is_high, ~is_high):
        expected = expit(data.intercept[sets]).mean()
        check_share(np.repeat(cases[sets] / 10, 10), expected)
    assert np.ptp(cases) == 10


def test_dense_matched_design():
    data = simulate_matched(50, 30, density=None, zero_fraction=0.0, random_state=0)
    assert data.X.shape == (1_000, 30)
    assert data.X.flags.f_contiguous
    assert stats.kstest(data.X.ravel(), "uniform").pvalue > 1e-3
    assert np.count_nonzero(data.coef) == 30


@pytest.mark.parametrize("mean", [0.05, 0.8, 4.0])
def test_events_of_a_subject_are_poisson_above_zero_and_multinomial(mean):
    n, rng = 100_000, np.random.default_rng(1)
    eta, length = np.array([0.3, -0.5, 1.0]), np.array([10.0, 40.0, 5.0])
    share = length * np.exp(eta)
    intercept = np.full(n, np.log(mean / share.sum()))
    share /= share.sum()
    first = np.arange(n) * 3
    count = regression._draw_eras(
        np.tile(eta, n), np.tile(length, n), intercept, first, rng
    ).reshape(n, 3)
    total = count.sum(axis=1)
    assert total.min() == 1
    truncated = stats.poisson(mean).pmf([1, 2, 3]) / -np.expm1(-mean)
    check_share(total[:, None] == [1, 2, 3], truncated)
    check_share(count[total == 1], share)
    # Two events: both in one era, or one in each of two.
    pairs = count[total == 2]
    check_share(pairs == 2, share**2)
    both = [(pairs[:, i] == 1) & (pairs[:, j] == 1) for i, j in ((0, 1), (0, 2), (1, 2))]
    expected = [2 * share[i] * share[j] for i, j in ((0, 1), (0, 2), (1, 2))]
    check_share(np.array(both).T, np.array(expected))


def test_subjects_with_different_numbers_of_eras():
    rng = np.random.default_rng(0)
    n_eras = np.array([1, 3, 2, 1, 5] * 200)
    first = np.cumsum(n_eras) - n_eras
    eta = rng.normal(size=n_eras.sum())
    # Of the first subject's events none must reach the second: huge and tiny intercepts alternate.
    intercept = np.where(np.arange(1_000) % 2, 3.0, -9.0)
    count = regression._draw_eras(eta, np.ones(eta.size), intercept, first, rng)
    total = np.add.reduceat(count, first)
    assert np.all(total[::2] <= 2)
    assert total[1::2].mean() > 10
    assert total.min() == 1


def test_case_series_shape():
    data = simulate_case_series(4_000, 30, mean_eras=12, mean_events=0.5, random_state=0)
    y = data.y
    assert y.dtype == np.dtype([("count", "i8"), ("length", "f8"), ("subject", "i8")])
    assert np.all(np.diff(y["subject"]) >= 0)
    n_eras = np.bincount(y["subject"])
    assert n_eras.size == 4_000
    assert n_eras.min() >= 1
    assert abs(n_eras.mean() - 12) < 5 * np.sqrt(11 / 4_000)
    assert np.bincount(y["subject"], y["count"]).min() >= 1
    assert np.array_equal(y["length"], np.round(y["length"]))
    assert y["length"].min() == 1
    assert abs(y["length"].mean() - 30) < 5 * 29 / np.sqrt(y.size)
    # exp(intercept) * follow-up is exponential with mean 0.5.
    expected = np.exp(data.intercept) * np.bincount(y["subject"], y["length"])
    assert stats.kstest(expected, stats.expon(scale=0.5).cdf).pvalue > 1e-3


def test_case_series_with_single_eras():
    data = simulate_case_series(50, 5, mean_eras=1.0, random_state=0)
    assert np.array_equal(data.y["subject"], np.arange(50))
    assert data.y["count"].min() >= 1


def test_case_series_rates_follow_the_drugs():
    data = simulate_case_series(
        50_000, 1, density=0.3, mean_eras=4, zero_fraction=0.0, random_state=3
    )
    assert abs(data.coef[0]) > 0.3
    y, x = data.y, data.X.toarray()[:, 0]
    weight = y["length"] * np.exp(data.coef[0] * x)
    within = np.bincount(y["subject"], weight)[y["subject"]]
    n_events = np.bincount(y["subject"], y["count"])[y["subject"]]
    expected = n_events * weight / within
    on_drug = x == 1
    error = np.sqrt(expected[on_drug].sum())
    assert abs(y["count"][on_drug].sum() - expected[on_drug].sum()) < 5 * error


@pytest.mark.parametrize(
    ("simulator", "arguments", "message"),
    [
        (simulate_fine_gray, {"n_samples": 0}, "`n_samples` is 0"),
        (simulate_fine_gray, {"event_probability": 1.0}, "`event_probability` is 1.0; it must lie"),
        (simulate_fine_gray, {"n_strata": 0}, "`n_strata` is 0"),
        (simulate_logistic, {"density": 1.0}, r"`density` is 1.0; it must lie in \[0, 1\)"),
        (simulate_logistic, {"n_samples": 2**31}, "fewer than 2"),
        (simulate_poisson, {"zero_fraction": 1.5}, "`zero_fraction` is 1.5"),
        (simulate_poisson, {"n_features": 0}, "`n_features` is 0"),
        (simulate_matched, {"stratum_size": 4, "n_cases": 4}, "`n_cases` is 4; .* between 1 and 3"),
        (simulate_matched, {"n_cases": 0}, "`n_cases` is 0"),
        (simulate_matched, {"stratum_size": 0}, "`stratum_size` is 0"),
        (simulate_matched, {"n_strata": 2**30}, "`n_samples` is 21474836480"),
        (simulate_matched, {"density": None, "zero_fraction": 2}, "`zero_fraction` is 2"),
        (simulate_case_series, {"mean_eras": 0.5}, "`mean_eras` is 0.5; .* at least 1"),
        (simulate_case_series, {"mean_eras": np.nan}, "`mean_eras` is nan"),
        (simulate_case_series, {"mean_events": 0.0}, "`mean_events` is 0.0"),
        (simulate_case_series, {"n_subjects": 0}, "`n_subjects` is 0"),
    ],
)
def test_bad_arguments(simulator, arguments, message):
    with pytest.raises(ValueError, match=message):
        simulator(**arguments)
