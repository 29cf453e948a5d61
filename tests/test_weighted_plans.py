"""Plans under weights: sums by definition, and rows of weight 0 as if they were not there."""

from dataclasses import fields

import numpy as np
import pytest
from models import MODELS


def weighted(model, sample):
    plan = model.plan(sample.y)
    return model.likelihood.pattern.weigh(plan, sample.weights)


def numbers(found):
    return {field.name: getattr(found, field.name) for field in fields(found)}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


def test_no_weights_are_ones(model):
    sample = model.sample(1, weights=False)
    plain, ones = (
        numbers(weighted(model, sample.with_(weights=weight)))
        for weight in (None, np.ones(sample.n))
    )
    for name in plain.keys() - {"plan", "weight"}:
        np.testing.assert_array_equal(plain[name], ones[name], err_msg=name)


def test_events_are_weighted(model):
    sample = model.sample(2)
    found = weighted(model, sample)
    order = found.plan.order
    np.testing.assert_array_equal(found.weights(), sample.weights[order])
    np.testing.assert_array_equal(found.events(), found.observed * sample.weights[order])
    assert not found.live[sample.weights[order] == 0].any()


@pytest.mark.parametrize("name", ["cox, efron", "fine_gray, curves"])
def test_deaths_by_definition(name):
    model = MODELS[name]
    sample = model.sample(3)
    found = weighted(model, sample)
    plan, weight = found.plan, found.weights()
    rows = [
        (k, c) for k, c, e in zip(plan.exit_idx, weight, plan.event, strict=True) if e and c > 0
    ]
    for k in range(plan.n_cells):
        of_cell = [c for cell, c in rows if cell == k]
        assert found.deaths[k] == len(of_cell)
        assert found.death_weight[k] == pytest.approx(sum(of_cell))
    bins = plan.bins
    for b in range(bins.n_bins):
        total = sum(c for k, c in rows if bins.start[b] < k <= bins.end[b])
        assert found.bin_inverse[b] == pytest.approx(1.0 / total if total else 0.0)


def test_live_rows_are_in_some_risk_set():
    model = MODELS["cox, efron"]
    sample = model.sample(0)
    y, found = sample.y, weighted(model, sample)
    event_time, stratum = y["time"][y["event"]], y["strata"][y["event"]]
    holds = (y["start"][:, None] < event_time) & (event_time <= y["time"][:, None])
    is_held = (holds & (y["strata"][:, None] == stratum)).any(axis=1)
    assert not is_held.all()
    np.testing.assert_array_equal(found.live, (is_held & (sample.weights > 0))[found.plan.order])


def test_sums_of_groups():
    model = MODELS["conditional_poisson"]
    found = weighted(model, model.sample(4))
    group, events = found.plan.group_idx, found.events()
    expected = [events[group == g].sum() for g in range(found.plan.n_strata)]
    np.testing.assert_allclose(found.total, expected, rtol=1e-15)


def test_sets_that_say_nothing():
    """All cases, none, or no weight."""
    model = MODELS["conditional_logistic"]
    found = weighted(model, model.sample(5))
    for s in range(found.plan.n_strata):
        rows = slice(*found.plan.ptr[s : s + 2])
        cases, size = int(found.plan.value[rows].sum()), rows.stop - rows.start
        says = 0 < cases < size and found.weight[rows.start] > 0
        assert found.cases[s] == (cases if says else 0)
    assert 0 < np.count_nonzero(found.cases) < len(found.cases)


def test_rows_are_carried_by_their_curve():
    """1 / G at the exit of competing rows of positive weight; curves fall from 1."""
    model = MODELS["fine_gray, curves"]
    found = weighted(model, model.sample(6))
    carried = found.plan.carrying.competing & (found.weights() > 0)
    np.testing.assert_array_equal(found.inverse > 0, carried)
    assert (found.inverse[carried] >= 1.0).all()
    for lane in np.split(found.survival, found.plan.carrying.lane_ptr[1:-1]):
        assert lane[0] == 1.0
        assert (np.diff(lane) <= 0).all()
