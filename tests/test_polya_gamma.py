"""Polya-Gamma draws against exact moments and distribution functions.

Statistical tests have fixed seeds; their bounds are such that a correct sampler fails a test under
another seed with probability 1e-4 at most.
"""

import numpy as np
import pytest
from oracles.reference_polya_gamma import (
    ONE_BARRIER,
    density_without_drift,
    distribution,
    moments,
)
from scipy.integrate import quad
from scipy.stats import chisquare, ks_2samp, kstest

from sksurvgpu.backends.cpu.random import Random
from sksurvgpu.backends.polya_gamma import (
    _THREE_PIECES_FROM,
    _is_below_series,
    _is_early_accepted,
    _is_late_accepted,
    _two_pieces,
)

CHANGE = 2 * _THREE_PIECES_FROM  # the tilt where the way to propose changes
# Of every z-score; 104 of them exceed it by chance with probability 6e-5.
LARGEST_SCORE = 5.0


def draw(count, z, size, seed=11, iteration=0):
    random = Random(seed, [0])
    random.iteration = iteration
    return random.polya_gamma(3, np.full(size, count), np.full((1, size), float(z)))[0]


@pytest.mark.thorough(but=r"\[(0|1|8|400|-1)\]")
@pytest.mark.parametrize("z", [0, 0.1, 1, 2, 4, 8, 20, 100, 400, 1e6, 1e8, -1, -100])
def test_mean_and_variance(z):
    for count in (1, 2, 5, 20):
        omega = draw(count, z, 400_000 // count, seed=count)
        mean, variance = moments(count, z)
        error = omega / mean - 1  # relative: their variance is of the size of 1e-24
        square = (error - error.mean()) ** 2
        scale = np.sqrt(omega.size)
        assert abs(error.mean() / error.std() * scale) < LARGEST_SCORE
        deviation = square.mean() - variance / mean**2
        assert abs(deviation / square.std() * scale) < LARGEST_SCORE


@pytest.mark.thorough(but=r"\[(0|2|5|25)\]")
@pytest.mark.parametrize(
    "z", [0, 0.5, 1, 2, 3, CHANGE - 1e-3, CHANGE, 5, 7, 2 * ONE_BARRIER, 25, 100, 1e4]
)
def test_distribution(z):
    share = distribution(z)(draw(1, z, 200_000))
    assert kstest(share, "uniform").pvalue > 5e-6
    # The tails, which a test of the largest difference does not see: 1 in 1000 on either side.
    for tail in (np.mean(share < 1e-3), np.mean(share > 1 - 1e-3)):
        assert abs(tail - 1e-3) < 5 * np.sqrt(1e-3 / share.size)


@pytest.mark.thorough(but=r"1\.5")
@pytest.mark.parametrize("z", [0, 1.5, CHANGE - 1e-3, CHANGE, 6])
def test_shares_of_bins(z):
    """By a chi-square of many draws: sees an error of 1 in 1,000 that is in few places."""
    edges = np.quantile(draw(1, z, 20_000, iteration=1), np.linspace(0, 1, 65)[1:-1])
    omega = draw(1, z, 1_500_000)
    found = np.bincount(np.searchsorted(edges, omega), minlength=64)
    expected = np.diff(distribution(z)(edges), prepend=0, append=1) * omega.size
    assert chisquare(found, expected).pvalue > 2e-5


@pytest.mark.parametrize("w", [0.0, 1e-9, 0.01, 0.1, 0.3])
def test_series(w):
    """Levels just below and above the sum, which the cut needs up to w = exp(-pi**2 / 2)."""
    k = np.arange(40)
    total = np.sum((-1.0) ** k * (2 * k + 1) * w ** (k * (k + 1) / 2))
    assert _is_below_series(total - 1e-14, w)
    assert not _is_below_series(total + 1e-14, w)
    assert _is_below_series(1e-300, w)
    assert not _is_below_series(np.inf, w)
    assert not _is_below_series(np.nan, w)


@pytest.mark.parametrize("x", [0.1, 0.3, 0.49, 0.5, 0.51, 0.8, 2, 6])
def test_decisions(x):
    """A proposal is accepted up to the ratio of the density to what it was proposed by."""
    density = density_without_drift(x)
    if x >= 0.5:
        share = density / (np.pi / 2 * np.exp(-(np.pi**2) * x / 8))
        assert _is_late_accepted(share * (1 - 1e-10), x)
        assert not _is_late_accepted(share * (1 + 1e-10), x)
    share = density / (np.sqrt(2 / np.pi) * x**-1.5 * np.exp(-0.5 / x))
    for below in (0.0, 0.01, 0.2, 3.0):
        edge = share * np.exp(-below)
        assert _is_early_accepted(edge * (1 - 1e-10), below, 1 / x)
        assert not _is_early_accepted(edge * (1 + 1e-10), below, 1 / x)


@pytest.mark.parametrize("z", [0, 0.7, 1.9])
def test_areas_of_two_pieces(z):
    late_share, late, early = _two_pieces(z)
    assert late == pytest.approx(np.pi**2 / 8 + z**2 / 2, rel=1e-14)
    late_area = quad(lambda x: np.pi / 2 * np.exp(-late * x), 0.5, np.inf)[0]

    def log_density(n):
        return -0.5 * (n**2 + (z / n) ** 2)

    slope = (log_density(2 + 1e-5) - log_density(2 - 1e-5)) / 2e-5
    assert early == pytest.approx(-slope, rel=1e-8)
    tangent = quad(lambda n: np.exp(log_density(2) + slope * (n - 2)), np.sqrt(2), np.inf)[0]
    # x = n**-2: b(x) dx is sqrt(8 / pi) exp(-n**2 / 2) dn.
    early_area = np.sqrt(8 / np.pi) * tangent
    assert late_share == pytest.approx(late_area / (late_area + early_area), rel=1e-8)


def test_a_path_that_never_leaves_is_not_accepted():
    for square in (0.0, 1e-300, 1e-3):
        assert not _is_early_accepted(1e-16, 0.0, square)


def test_reference_agrees_with_itself():
    """Both forms of the distribution function, and its moments, where both are good."""
    omega = np.linspace(0.001, 3, 40_000)
    for z in (0.0, 1.0, 5.0, 15.0):
        survival = 1 - distribution(z)(omega)
        mean, variance = moments(1, z)
        assert 0.001 + np.trapezoid(survival, omega) == pytest.approx(mean, abs=1e-4)
        square = 0.001**2 + 2 * np.trapezoid(omega * survival, omega)
        assert square - mean**2 == pytest.approx(variance, abs=1e-4)
    below, above = 2 * ONE_BARRIER - 1e-9, 2 * ONE_BARRIER
    assert distribution(below)(omega) == pytest.approx(distribution(above)(omega), abs=1e-6)
    assert moments(3, 0.00999) == pytest.approx(moments(3, 0.01001), rel=1e-5)


def test_sums():
    """PG(a, z) + PG(b, z) is PG(a + b, z)."""
    for z in (0.3, 6.0):
        parts = draw(2, z, 60_000) + draw(3, z, 60_000, iteration=1)
        assert ks_2samp(parts, draw(5, z, 60_000, iteration=2)).pvalue > 5e-5


@pytest.mark.parametrize("z", [0.5, 1e3])
def test_terms_of_a_sum_are_independent(z):
    """The second term of a sum: uniforms used twice would make it depend on the first."""
    one, both = draw(1, z, 100_000), draw(2, z, 100_000)
    second = both - one  # the same address: the first term is the same
    cdf = distribution(z)
    assert kstest(second, cdf).pvalue > 2e-5
    assert abs(np.corrcoef(cdf(one), cdf(second))[0, 1]) < 4.5 / np.sqrt(one.size)


def test_extreme_tilts_and_counts():
    random = Random(5, [0])
    z = np.array([[np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-308, 5e-324, 3.0]])
    count = np.array([1, 1, 2, 3, 3, 1, 1, 0])
    omega = random.polya_gamma(0, count, z)[0]
    assert np.isnan(omega[0])
    assert np.all(omega[[1, 2, 7]] == 0)
    assert omega[3] == omega[4] == pytest.approx(1.5 / 1e308, rel=1e-12)
    assert 0.01 < omega[5] < 3
    assert 0.01 < omega[6] < 3
    assert np.isnan(random.polya_gamma(0, np.zeros(1, int), np.full((1, 1), np.nan))[0, 0])


@pytest.mark.parametrize("z", [1e10, 1e15, 1e30, 1e100])
def test_huge_tilts(z):
    """Nothing cancels: z times omega is 1 / 2 with relative variance 2 / z."""
    share = 2 * z * draw(1, z, 20_000)
    assert share == pytest.approx(1, abs=8 * np.sqrt(2 / z) + 1e-15)


def test_sign_of_the_tilt_is_immaterial():
    assert np.array_equal(draw(2, 1.7, 1000), draw(2, -1.7, 1000))


@pytest.mark.parametrize(
    ("count", "error", "words"),
    [
        ([1, -1], ValueError, "`count` is -1 in row 1, must be from 0 to"),
        ([2**40, 1], ValueError, "`count` is 1,099,511,627,776 in row 0"),
        ([1.0, 2.0], TypeError, "`count` is of dtype float64; pass integers"),
    ],
)
def test_bad_counts(count, error, words):
    with pytest.raises(error, match=words):
        Random(0, [0]).polya_gamma(0, np.array(count), np.zeros((1, 2)))


def test_threads_do_not_change_draws():
    z = np.random.default_rng(0).normal(0, 4, (2, 100_001))
    count = np.arange(100_001) % 3
    one, four = (Random(9, [0, 5], threads=k).polya_gamma(1, count, z) for k in (1, 4))
    assert np.array_equal(one, four)
