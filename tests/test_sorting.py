"""Orders of rows: sorts by digits against NumPy's stable sorts."""

import numpy as np
import pytest

from sksurvgpu.data.outcomes.survival import Outcome
from sksurvgpu.data.sorting import order_by_group, order_by_time
from sksurvgpu.patterns.risk_sets.plan import count_at_or_before, plan_rows

SPECIAL = [0.0, -0.0, 5e-324, -5e-324, 1e-320, 2.0**-1022, np.inf, -np.inf, 1e300, -1e300, 1.0]
TIMES = {
    "any": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-300, 300, n),
    "days": lambda rng, n: np.ceil(400.0 * rng.random(n)),
    "of one": lambda rng, n: np.full(n, 7.5),
    "special": lambda rng, n: rng.choice(SPECIAL, n),
    "neighbours": lambda rng, n: 1.0 + np.spacing(1.0) * rng.integers(0, 5, n),
    "sorted": lambda rng, n: np.sort(rng.random(n)),
    "falling": lambda rng, n: -np.sort(rng.random(n)),
}


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("n", [0, 1, 2, 50, 5_000])
def test_orders_are_stable(name, n):
    rng = np.random.default_rng(n)
    time, group = TIMES[name](rng, n), rng.integers(0, 7, n)
    order = order_by_time(time)
    np.testing.assert_array_equal(order, np.argsort(time, kind="stable"))
    within, ptr = order_by_group(group, order, 9)
    np.testing.assert_array_equal(within, np.lexsort((time, group)))
    np.testing.assert_array_equal(ptr, np.searchsorted(np.sort(group), np.arange(10)))


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("n_times", [0, 1, 3, 200])
def test_event_times_are_counted(is_sorted, n_times):
    rng = np.random.default_rng(n_times)
    times = [np.unique(rng.integers(0, 300, n_times)) for _ in range(3)]
    ptr = np.concatenate([[0], np.cumsum([len(some) for some in times])])
    stratum, value = rng.integers(0, 3, 400), rng.integers(-5, 305, 400) + 0.5 * (n_times == 3)
    if is_sorted:
        order = np.lexsort((value, stratum))
        stratum, value = stratum[order], value[order]
    found = count_at_or_before((np.concatenate(times) * 1.0, ptr), stratum, value * 1.0)
    expected = [np.sum(times[s] <= v) for s, v in zip(stratum, value, strict=True)]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n_strata", [1, 4])
@pytest.mark.parametrize("cuts", [(), (3.0, 8.0)])
def test_plans_of_rows_that_enter_late(n_strata, cuts):
    """Cells against their definition: event times of the stratum within the piece."""
    rng, n = np.random.default_rng(n_strata), 300
    time = np.ceil(12.0 * rng.random(n))
    start, event = np.floor(time * rng.random(n)), rng.random(n) < 0.5
    stratum = rng.integers(0, n_strata, n)
    plan = plan_rows(Outcome(event, time, start, stratum if n_strata > 1 else None), cuts)
    expected = np.lexsort((time, stratum, np.searchsorted(cuts, time)))
    np.testing.assert_array_equal(plan.order, expected)
    ends = np.array([-np.inf, *cuts, np.inf])
    copy = 0
    for b, first in enumerate(plan.first):
        for i in plan.order[first:]:
            k = b * n_strata + stratum[i]
            known = np.unique(time[event & (stratum == stratum[i])])
            known = known[(known > ends[b]) & (known <= ends[b + 1])]
            assert plan.exit_idx[copy] == plan.cell_ptr[k] + np.sum(known <= time[i])
            assert plan.enter_idx[copy] == plan.cell_ptr[k] + np.sum(known <= start[i])
            assert plan.event[copy] == (event[i] and ends[b] < time[i] <= ends[b + 1])
            copy += 1
    assert copy == plan.n_rows


@pytest.mark.parametrize("n_strata", [1, 4])
def test_late_entries_are_listed_by_cell(n_strata):
    rng, n = np.random.default_rng(9), 200
    time = np.ceil(20.0 * rng.random(n))
    start = np.where(rng.random(n) < 0.5, 0.0, np.floor(time * rng.random(n)))
    stratum = rng.integers(0, n_strata, n)
    plan = plan_rows(Outcome(rng.random(n) < 0.5, time, start, stratum))
    rows, cell = plan.entries
    is_late = ~np.isin(plan.enter_idx, plan.cell_ptr[:-1])
    expected = np.flatnonzero(is_late)[np.argsort(plan.enter_idx[is_late], kind="stable")]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(cell, plan.enter_idx[expected])


@pytest.mark.parametrize("reorders", [True, False])
@pytest.mark.parametrize("n_strata", [1, 5])
def test_rows_of_strata(n_strata, reorders):
    rng, n = np.random.default_rng(10), 150
    stratum = np.sort(rng.integers(0, n_strata, n))
    outcome = Outcome(rng.random(n) < 0.5, np.ceil(9.0 * rng.random(n)), None, stratum)
    plan = plan_rows(outcome, reorders=reorders)
    assert plan.is_in_order == reorders
    expected = np.searchsorted(stratum[plan.order], np.arange(plan.n_strata + 1))
    np.testing.assert_array_equal(plan.stratum_ptr, expected)
