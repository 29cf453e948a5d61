"""Where rows are cut for devices, without one."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from engine import draw_outcome, make_problem
from models import use_form

pytest.importorskip("numba_cuda")

from sksurvgpu.backends.cuda import cuts
from sksurvgpu.backends.cuda.cuts import cut_rows, most_tiles, rows_of_tile

DEVICE = SimpleNamespace(n_multiprocessors=6, shared_bytes=100 * 1024)
N = 400


def problem_of(density=0.5, ties="breslow", n_strata=0, **shape):
    rng = np.random.default_rng(0)
    data = draw_outcome(rng, N, n_strata=n_strata, start=False, **shape)
    return make_problem(data.with_(X=sp.random_array((N, 5), density=density, rng=rng)), ties)


def check(problem, found, most):
    """Ranges are a power of two, made of tiles that have at most so many rows, and have all."""
    assert found.rows[0] == found.ranges[0] == 0 and found.rows[-1] == problem.plan.n_base
    assert found.ranges[-1] == len(found.rows) - 1
    assert found.n_members % (len(found.ranges) - 1) == 0
    assert np.all(np.diff(found.rows) >= 0) and np.diff(found.rows).max() <= most
    assert len(found.rows) - 1 <= most_tiles(problem, DEVICE)


def test_ranges_and_tiles(monkeypatch):
    monkeypatch.setattr(cuts, "rows_of_tile", lambda device, given: 30)
    use_form("few", monkeypatch)
    problem = problem_of()
    found = cut_rows(problem, DEVICE, 50)
    check(problem, found, 30)
    assert found.n_members == len(found.ranges) - 1 == 4 and found.keeps_groups
    assert found.rows[found.ranges].tolist() == [0, 100, 200, 300, 400]
    assert np.diff(found.ranges).tolist() == [4] * 4


def test_tiles_lie_between_groups_where_no_group_is_too_large(monkeypatch):
    monkeypatch.setattr(cuts, "rows_of_tile", lambda device, given: 30)
    use_form("one a stratum", monkeypatch)
    problem = problem_of(n_strata=20)
    stratum = np.asarray(problem.plan.stratum_of_row())
    largest = np.bincount(stratum).max()
    found = cut_rows(problem, DEVICE, 50)
    check(problem, found, 30 + largest)
    inner = found.rows[(found.rows > 0) & (found.rows < N)]
    assert np.all(stratum[inner] != stratum[inner - 1]) and found.keeps_groups
    monkeypatch.setattr(cuts, "LARGEST", largest - 1)
    found = cut_rows(problem, DEVICE, 50)
    check(problem, found, 30)
    assert not found.keeps_groups


def test_deaths_of_a_time_are_of_one_range():
    problem = problem_of(ties="efron", n_times=5)
    found = cut_rows(problem, DEVICE, 50)
    check(problem, found, N)
    range_of = np.searchsorted(found.rows[found.ranges], np.arange(N), side="right")
    death = problem.plan.event > 0
    cells = problem.plan.exit_idx[death]
    assert all(len(set(range_of[death][cells == k])) == 1 for k in np.unique(cells))


@pytest.mark.parametrize(("density", "n_ranges"), [(0.5, 4), (0.05, 1)])
def test_columns_with_few_entries_have_fewer_ranges(density, n_ranges, monkeypatch):
    """And as many members of teams, and larger tiles."""
    monkeypatch.setattr(cuts, "ROWS_PER_RANGE", 50)
    problem = problem_of(density)
    found = cut_rows(problem, DEVICE)
    assert (found.n_members, len(found.ranges) - 1) == (4, n_ranges)
    few = SimpleNamespace(n_multiprocessors=6, shared_bytes=12 * 1024)
    near = (6 * 1024 - cuts.RESERVED_SHARED) // 8
    assert rows_of_tile(few, problem.given) == (near if n_ranges > 1 else cuts.LARGEST)
