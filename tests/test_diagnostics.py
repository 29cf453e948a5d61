"""R-hat and effective sample sizes: arviz-stats, what is known exactly, and what is missing."""

import numpy as np
import pytest
from oracles.cases import load
from oracles.chains import KINDS, N_PARAMETERS, make_draws, normal

from sksurvgpu.bayes import diagnostics
from sksurvgpu.bayes.diagnostics import diagnose

PUBLISHED = {case["name"]: case for case in load("diagnostics.json")["cases"]}
FIGURES = ("r_hat", "ess_bulk", "ess_tail")


def figures(found):
    return [getattr(found, name) for name in FIGURES]


@pytest.mark.parametrize("name", KINDS)
def test_arviz_stats_finds_the_same(name):
    found = diagnose(make_draws(name))
    for figure in FIGURES:
        np.testing.assert_allclose(
            getattr(found, figure), PUBLISHED[name][figure], rtol=1e-10, atol=0, err_msg=figure
        )


@pytest.mark.parametrize("name", KINDS)
def test_chains_of_the_oracle_are_of_their_kind(name):
    n_chains, n_draws, rho, change = KINDS[name]
    draws = make_draws(name)
    assert draws.shape == (n_chains, n_draws, N_PARAMETERS)
    assert len(np.unique(draws)) > 1
    if change is normal and n_draws >= 100:
        lag = (draws[:, 1:] * draws[:, :-1]).sum() / (draws**2).sum()
        assert lag == pytest.approx(rho, abs=0.1)


def test_parameters_do_not_know_of_each_other(monkeypatch):
    draws = make_draws("some autocorrelation").reshape(4, 250, 3, 4)  # any numbers will do
    together = figures(diagnose(draws))
    monkeypatch.setattr(diagnostics, "CHUNK_BYTES", 5 * 8 * 1000)
    in_chunks = figures(diagnose(draws))
    alone = figures(diagnose(draws[:, :, 2, 1]))
    for whole, parts, single in zip(together, in_chunks, alone, strict=True):
        assert whole.shape == (3, 4) and single.shape == ()
        np.testing.assert_array_equal(whole, parts)
        assert whole[2, 1] == single


def test_ranks_are_all_that_counts():
    draws = make_draws("some autocorrelation")
    plain, changed = diagnose(draws), diagnose(np.exp(3 * draws))
    np.testing.assert_array_equal(plain.ess_bulk, changed.ess_bulk)
    # the type-7 quantile lies between two draws on either scale
    np.testing.assert_array_equal(plain.ess_tail, changed.ess_tail)


def test_effective_size_of_a_first_order_autoregression():
    # ESS/n is (1 - rho)/(1 + rho) for the mean; ranks of normal draws change that by a few percent
    # at most.  20 parameters: the estimate's spread is 4 % of it, its mean's 1 %.
    rho, random = 0.6, np.random.default_rng(1)
    draws = random.standard_normal((4, 5000, 20))
    for k in range(1, 5000):
        draws[:, k] = rho * draws[:, k - 1] + np.sqrt(1 - rho**2) * draws[:, k]
    assert diagnose(draws).ess_bulk.mean() == pytest.approx(20_000 / 4, rel=0.08)


@pytest.mark.parametrize("value", [0.0, 3.7, np.nan, np.inf])
def test_parameters_that_never_change_or_are_not_finite_have_none(value):
    draws = make_draws("independent")[:, :50].copy()
    expected = figures(diagnose(draws))
    draws[:, :, 1] = value
    for found, reference in zip(figures(diagnose(draws)), expected, strict=True):
        assert np.isnan(found[1])
        np.testing.assert_array_equal(found[[0, 2]], reference[[0, 2]])
    draws[:] = value
    assert np.isnan(figures(diagnose(draws))).all()


@pytest.mark.parametrize("n_draws", [1, 2, 3])
def test_three_draws_are_too_few(n_draws):
    found = figures(diagnose(np.random.default_rng(0).standard_normal((4, n_draws, 2))))
    assert np.isnan(found).all() and found[0].shape == (2,)


def test_chains_stuck_in_different_places_never_agree():
    found = diagnose(np.repeat(np.arange(4.0)[:, None], 100, axis=1))
    assert found.r_hat > 1e6
    assert found.ess_bulk < 8


def test_two_values_at_one_distance_from_the_median():
    # Folded, they are the same.
    draws = np.tile([1.0, -1.0, -1.0, 1.0], (4, 25))
    assert diagnose(draws).r_hat == pytest.approx(np.sqrt(49 / 50 + 1e-9), rel=1e-3)


def test_single_precision_is_read_as_double():
    draws = make_draws("integers").astype(np.float32)
    for found, expected in zip(
        figures(diagnose(draws)), figures(diagnose(draws.astype(np.float64))), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
