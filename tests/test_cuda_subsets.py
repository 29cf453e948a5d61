"""Matched sets on a simulated CUDA device against the CPU."""

import models
import numpy as np
import pytest
from grids import thin

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.grouped import N_COLUMNS, TEAMS, check, close, open_groups, open_model
from scipy.special import expit

from sksurvgpu.patterns.subsets import cuda as pattern

NAME = "conditional_logistic"
FORMS = ("few", "many")
# Rows of the largest set for workers of so many threads: sets of all sizes by one kind of worker,
# and by all kinds.
SIZES = {
    "thread": {1: 10**6},
    "warp": {32: 10**6},
    "block": {},
    "all": {1: 3, 4: 5, 32: 8},
}


def work_by(worker, monkeypatch):
    monkeypatch.setattr(pattern, "MOST_ROWS", SIZES[worker])


def draw_cases(rng, sizes, share=0.4):
    group = models.draw_labels(rng, sizes)
    return (rng.random(len(group)) < share).astype(float), group


@pytest.mark.parametrize(("form", "worker"), thin(3, FORMS, SIZES))
def test_models(form, worker, monkeypatch):
    work_by(worker, monkeypatch)
    number = FORMS.index(form) + list(SIZES).index(worker)
    team, threads = TEAMS[number % len(TEAMS)]
    fits = open_model(NAME, form, number, monkeypatch, team=team, threads=threads)
    width = {"thread": 1, "warp": 32, "block": threads}.get(worker)
    assert set(fits.session.pattern._workers) == {width} or worker == "all"
    check(fits, close)


@pytest.mark.slow
def test_many_sets():
    monkeypatch = pytest.MonkeyPatch()
    check(open_model(f"{NAME}, many", "many", 1, monkeypatch, team=4), close)
    monkeypatch.undo()


@pytest.mark.parametrize("n_fits", [1, 3])
def test_few_sets(n_fits, monkeypatch):
    work_by("all", monkeypatch)
    rng = np.random.default_rng(n_fits)
    case, group = draw_cases(rng, [9, 5, 3, 14])
    X = models.draw_columns(rng, len(group), N_COLUMNS)
    X[group == 1, 1] = X[group == 3, 0] = 0.0  # columns without an entry in some set
    check(open_groups(NAME, rng, case, group, n_fits=n_fits, X=X), close)


@pytest.mark.parametrize("worker", thin(3, ["warp", "thread", "block"]))
def test_large_sets(worker, monkeypatch):
    """Bands that do not hold all of the law; rows whose p is above one half, and below."""
    work_by(worker, monkeypatch)
    rng = np.random.default_rng(0)
    case, group = draw_cases(rng, [150, 40], share=0.6)
    fits = open_groups(NAME, rng, case, group, n_fits=1, offsets=2.0 * case[:, None])
    close(*fits.start(), rtol=1e-12)
    low, high = fits.download(fits.session.pattern._sets.band)[0, 0]
    assert low > 0
    assert high < 150
    shares = case[np.argsort(group, kind="stable")] - fits.u()[0][0]
    assert ((shares > 0.1) & (shares < 0.9)).sum() > 20
    close(*fits.u())
    fits.curvature()
    close(*fits.h())
    close(*fits.inverse())


def test_one_row_above_half_of_the_model():
    """The quadratic model needs the larger root for one row of a set."""
    rng = np.random.default_rng(5)
    offset = np.array([0.0, 9.0, -9.5, 9.5, -9.0, 12.0])[:, None]
    fits = open_groups(
        NAME,
        rng,
        np.array([1.0, 1.0, 0.0, 1.0, 0.0, 0.0]),
        np.zeros(6, int),
        n_fits=1,
        X=np.zeros((6, N_COLUMNS)),
        offsets=offset,
    )
    fits.start()
    fits.curvature()
    found, expected = fits.h()
    assert expected[0].max() > 0.5 * expected[0].sum()
    close(found, expected)


@pytest.mark.parametrize("scale", thin(3, [1000.0, 1e-3, 30.0]))
def test_predictors_of_any_size(scale, monkeypatch):
    work_by("all", monkeypatch)
    rng = np.random.default_rng(2)
    case, group = draw_cases(rng, [20, 5, 3, 12, 2, 8])
    offsets = scale * rng.normal(size=(len(group), 2))
    fits = open_groups(NAME, rng, case, group, offsets=offsets)
    found, expected = fits.start()
    assert np.isfinite(expected).all()
    close(found, expected, rtol=1e-12)
    close(*fits.u())
    fits.curvature()
    close(*fits.h(), rtol=1e-7)  # near a double root: half of the digits


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("worker", ["thread", "warp", "block"])
def test_no_predictor_is_a_number(worker, bad, monkeypatch):
    work_by(worker, monkeypatch)
    rng = np.random.default_rng(3)
    case, group = draw_cases(rng, [12])
    offsets = np.where(np.arange(12) == 4, bad, 0.0)[:, None]
    found, _ = open_groups(NAME, rng, case, group, n_fits=1, offsets=offsets).start()
    assert not np.isfinite(found).any()


def test_shifts_are_kept_from_one_evaluation_to_the_next():
    rng = np.random.default_rng(6)
    case, group = draw_cases(rng, [30, 9])
    fits = open_groups(NAME, rng, case, group)
    fits.start()
    found = fits.download(fits.session.pattern._sets.tau)
    close(found, [session.pattern.sets.tau for session in fits.cpu])
    eta = fits.download(fits.session.settle(fits.fits))
    for fit in range(2):
        for s, (begin, end) in enumerate([(0, 30), (30, 39)]):
            expected = expit(eta[fit, begin:end] - found[fit, s]).sum()
            cases = fits.problem.plan.value[begin:end].sum()
            assert expected == pytest.approx(cases, abs=0.5)
