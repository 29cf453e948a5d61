"""Groups of counts on a simulated CUDA device against the CPU."""

import models
import numpy as np
import pytest
from grids import thin

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.grouped import TEAMS, check, close, open_groups, open_model

NAME = "conditional_poisson"
FORMS = ("few", "many")


def draw_counts(rng, sizes):
    """Counts of groups of the given sizes; the last of several has no event."""
    group = models.draw_labels(rng, sizes)
    count = rng.poisson(0.7, len(group)).astype(float)
    count[np.argmax(group == 0)] += 1.0
    return np.where((group > 0) & (group == len(sizes) - 1), 0.0, count), group


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [NAME, f"{NAME}, many"])
def test_models(name, form, monkeypatch):
    number = FORMS.index(form) + ("many" in name)
    team, threads = TEAMS[number]
    check(open_model(name, form, number, monkeypatch, team=team, threads=threads), close)


@pytest.mark.parametrize(
    ("sizes", "form"), thin(3, [[70], [1, 50, 2, 1, 40], [33, 31, 32, 1]], FORMS)
)
def test_groups_larger_than_a_member(sizes, form, monkeypatch):
    models.use_form(form, monkeypatch)
    rng = np.random.default_rng(len(sizes))
    check(open_groups(NAME, rng, *draw_counts(rng, sizes), team=4, seed=1), close)


@pytest.mark.parametrize("n_rows", thin(4, [2, 31, 32, 33, 65]))
def test_numbers_of_rows(n_rows):
    rng = np.random.default_rng(n_rows)
    sizes = np.bincount(rng.integers(0, 3, n_rows) * (n_rows > 2))
    sizes = sizes[sizes > 0]
    check(open_groups(NAME, rng, *draw_counts(rng, sizes), n_fits=3), close)


@pytest.mark.parametrize("shift", [-800.0, 800.0])
def test_predictors_of_any_size(shift):
    """Groups are on the scale of their largest predictor, wherever that is."""
    rng = np.random.default_rng(1)
    count, group = draw_counts(rng, [40, 5, 20])
    offsets = shift * (group[:, None] + 1) + 300.0 * rng.normal(size=(len(group), 2))
    fits = open_groups(NAME, rng, count, group, offsets=offsets, threads=64)
    found, expected = fits.start()
    assert np.isfinite(expected).all()
    close(found, expected, rtol=1e-12)
    close(*fits.u())
    fits.curvature()
    close(*fits.h())


def test_rows_of_no_weight_say_nothing_about_their_group():
    rng = np.random.default_rng(7)
    count, group = draw_counts(rng, [40, 5, 20])
    weights = rng.choice([0.0, 1.0, 2.5], size=(len(group), 2))
    offsets = np.where(weights > 0.0, -900.0, 900.0) + rng.normal(size=weights.shape)
    fits = open_groups(NAME, rng, count, group, weights=weights, offsets=offsets, threads=64)
    check(fits, close)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_no_predictor_is_a_number(bad):
    rng = np.random.default_rng(2)
    count, group = draw_counts(rng, [20, 10])
    offsets = np.where(np.arange(30) == 4, bad, 0.0)[:, None]
    count[4] = 1.0
    fits = open_groups(NAME, rng, count, group, n_fits=1, offsets=offsets)
    found, expected = fits.start()
    assert not np.isfinite(found).any()
    assert not np.isfinite(expected).any()


def test_fits_that_rest_stay_as_they_are():
    rng = np.random.default_rng(3)
    fits = open_groups(NAME, rng, *draw_counts(rng, [9, 8, 30]), n_fits=3, team=1)
    fits.start()
    before, _ = fits.u()
    fits.session.start(np.array([2], np.int32), [fits.coefs[0]])
    after, _ = fits.u()
    np.testing.assert_array_equal(after[:2], before[:2])
    assert (after[2] != before[2]).any()
