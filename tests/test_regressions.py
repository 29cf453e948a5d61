"""Mistakes that were made once: each of these fits was wrong, or said nothing."""

import numpy as np
import pytest
from numba import njit

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    ConditionalPoissonCCD,
    CoxLassoCCD,
    FineGrayCCD,
    LogisticCCD,
    PoissonCCD,
    case_series,
    competing_risks,
    matched,
    surv,
)
from sksurvgpu._compile import bind, device, specialize
from sksurvgpu.estimators._preparing import prepare
from sksurvgpu.exceptions import NothingToCompareError

N_PAIRS = 40


def apply(x):
    """Template of kernels."""
    return formula(x)  # noqa: F821 (bound)


@pytest.fixture
def unlikely():
    """Pairs of rows whose events are in the rows that offsets of -45 rule out, and their column."""
    rng = np.random.default_rng(0)
    event = np.zeros(2 * N_PAIRS, int)
    event[::2] = 1
    offset = np.zeros(len(event))
    offset[[0, 2]] = -45.0
    X = np.column_stack([rng.normal(size=len(event)), offset < 0])
    return X, event, offset, np.arange(len(event)) // 2


def outcomes(event, pair):
    ones, later = np.ones(len(event)), 2.0 - event
    yield CaseSeriesCCD, case_series(event, ones, pair)
    yield ConditionalLogisticCCD, matched(event, pair)
    yield CoxLassoCCD, surv(event, later, stratum=pair)
    yield FineGrayCCD, competing_risks(event, later, stratum=pair)


@pytest.mark.thorough
def test_curvature_of_unlikely_events_is_not_rounded_off(unlikely):
    X, event, offset, pair = unlikely
    weight = np.full(len(event), 1.5)
    for model, y in outcomes(event, pair):
        exact, default = (
            model(alpha=1e-3, algorithm=algorithm).fit(X, y, weight, offset=offset)
            for algorithm in ("exact", "majorized")
        )
        assert default.converged_, model
        assert default.objective_ == pytest.approx(exact.objective_, rel=1e-6), model
        assert default.coef_[1] > 40, model


def test_exact_steps_let_the_intercept_move_along():
    rng = np.random.default_rng(1)
    year = 2000.0 + rng.integers(0, 10, size=500)
    y = rng.random(500) < 1.0 / (1.0 + np.exp(-0.3 * (year - 2005.0)))
    weight = rng.choice([1.0, 2.0], size=500)
    exact, default = (
        LogisticCCD(alpha=0.01, algorithm=algorithm).fit(year[:, None], y, weight)
        for algorithm in ("exact", "majorized")
    )
    assert exact.n_iter_ < 50
    assert exact.objective_ == pytest.approx(default.objective_, rel=1e-9)


def test_foreign_formulas_are_compiled_anew():
    """Machine code on disk knows sources of the package only."""

    for factor in (2.0, 3.0):

        @njit
        def times(x):
            return factor * x  # noqa: B023 (called before it changes)

        plain = specialize(apply, formula=times)
        nested = specialize(apply, formula=device(bind(apply, formula=times)))
        assert plain(1.0) == nested(1.0) == factor
        assert not nested.stats.cache_hits
        assert nested.stats.cache_path is None


def test_weights_that_leave_nothing_to_compare():
    rng = np.random.default_rng(2)
    X, y, strata = rng.normal(size=(20, 2)), np.ones(20), np.arange(20) // 2
    with pytest.raises(NothingToCompareError, match="two rows of positive weight"):
        ConditionalPoissonCCD().fit(X, y, strata=strata, sample_weight=np.tile([1.0, 0.0], 10))


def test_rows_that_say_nothing_score_0(unlikely):
    X, event, _, pair = unlikely
    silent = np.zeros(4, int)
    for model, y in list(outcomes(event, pair))[:2]:
        builder = matched if model is ConditionalLogisticCCD else case_series
        groups = (pair[:4],) if builder is matched else (np.ones(4), pair[:4])
        fitted = model(alpha=0.01).fit(X, y)
        assert fitted.score(X[:4], builder(silent, *groups)) == 0.0
    fitted = ConditionalPoissonCCD(alpha=0.01).fit(X, event)
    assert fitted.score(X[:4], silent) == 0.0


def test_a_censored_row_that_outweighs_all_others():
    rng = np.random.default_rng(3)
    n = 60
    X, time = rng.normal(size=(n, 2)), 1.0 + rng.permutation(n)
    event, weight = rng.integers(0, 3, size=n), np.ones(n)
    first = np.argmin(time)
    event[first], weight[first] = 0, 1e18
    heavy = FineGrayCCD(alpha=0, tol=1e-9).fit(X, competing_risks(event, time), weight)
    others = np.arange(n) != first
    y = competing_risks(event[others], time[others])
    without = FineGrayCCD(alpha=0, tol=1e-9).fit(X[others], y)
    np.testing.assert_allclose(heavy.coef_, without.coef_, rtol=1e-6)


def test_one_offset_stands_for_all_fits_of_a_batch():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(100, 3)), rng.poisson(2.0, size=100)
    weight, exposure = rng.integers(0, 3, size=(100, 2)).astype(float), rng.uniform(1, 2, size=100)
    prepared = prepare(PoissonCCD(tol=1e-9), X, y, exposure=exposure)
    fits = prepared.solve(np.full((1, 2), 0.01), weight=weight)
    for b in range(2):
        alpha = 0.01 * len(y) / weight[:, b].sum()
        single = PoissonCCD(alpha=alpha, tol=1e-9).fit(X, y, weight[:, b], exposure)
        np.testing.assert_allclose(fits[b][0].coef, single.coef_, rtol=1e-6, atol=1e-9)


def test_columns_that_differ_between_sets_do_not_shorten_steps():
    rng = np.random.default_rng(5)
    pair = np.arange(200) // 4
    X = rng.normal(size=(200, 2))
    y = matched(rng.permuted(np.tile([1, 1, 0, 0], (50, 1)), axis=1).ravel(), pair)
    plain = ConditionalLogisticCCD(alpha=0.01, tol=1e-9).fit(X, y)
    X[:, 0] += 1e3 * pair
    apart = ConditionalLogisticCCD(alpha=0.01, tol=1e-9).fit(X, y)
    assert apart.n_iter_ < 30
    np.testing.assert_allclose(apart.coef_, plain.coef_, rtol=1e-5, atol=1e-8)
