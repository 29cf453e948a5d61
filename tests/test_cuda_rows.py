"""X by rows on a simulated device, and what is computed from it."""

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.device import SimulatedDevice

from sksurvgpu.backends.cuda import cuts
from sksurvgpu.backends.cuda import predictor as predictors
from sksurvgpu.backends.cuda.cuts import RESERVED_SHARED
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.session import Session
from sksurvgpu.data.design.columns import DENSE, build_design
from sksurvgpu.likelihoods import LIKELIHOODS
from sksurvgpu.patterns.groups.plan import plan_groups
from sksurvgpu.solver.problem import Problem


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Ranges of a few tiles each."""
    monkeypatch.setattr(cuts, "rows_of_tile", lambda device, given: 11)


def lay_out(design, seed=0, **settings):
    """Layout of a problem with these columns, whose outcomes do not matter."""
    n = design.n_rows
    plan = plan_groups((np.arange(n) % 2).astype(float), np.zeros(n, int))
    problem = Problem.build(design, plan, LIKELIHOODS["conditional_poisson"]())
    device = SimulatedDevice(seed, n_multiprocessors=2, **settings)
    return Layout(device, problem, threads=64, rows_per_range=16), problem


def draw_sparse(n, p, density, has_values=True, seed=0):
    rng = np.random.default_rng(seed)
    X = 1.0 * (rng.random((n, p)) < density)
    return sp.csc_array(X * rng.normal(size=(n, p)) if has_values else X)


def with_huge_row(n=40, p=150):
    X = draw_sparse(n, p, 0.02).tolil()
    X[7, :131] = 1.0 + np.arange(131)
    X[:, 3] = X[8] = 0.0
    return build_design(sp.csc_array(X))


def mixed(n=70):
    indicator, valued = (build_design(draw_sparse(n, 9, 0.3, has, 1)) for has in (False, True))
    dense = np.random.default_rng(2).normal(size=(n, 2))
    return indicator.with_columns(dense).with_columns(valued).with_columns(dense + 1.0)


DESIGNS = {
    "indicators": lambda: build_design(draw_sparse(130, 40, 0.2, False)),
    "values": lambda: build_design(draw_sparse(33, 5, 0.4)),
    "mixed": mixed,
    "a huge row, an empty row and an empty column": with_huge_row,
    "dense": lambda: build_design(np.random.default_rng(0).normal(size=(20, 3))),
    "no entries": lambda: build_design(sp.csc_array((20, 3))),
    "one row": lambda: build_design(draw_sparse(1, 50, 0.6)),
}


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("seed", [0, 1])
def test_lists_are_those_of_scipy(name, seed):
    layout, problem = lay_out(DESIGNS[name](), seed)
    design, lists = problem.design, layout.X_rows
    sparse = np.flatnonzero(design.kind != DENSE)
    expected = design.select(sparse).to_scipy().tocsr()
    expected.sort_indices()
    ptr, column, value, dense = map(layout.device.download, lists)
    np.testing.assert_array_equal(ptr, expected.indptr)
    np.testing.assert_array_equal(column, sparse[expected.indices])
    np.testing.assert_array_equal(value if value.size else np.ones(len(column)), expected.data)
    np.testing.assert_array_equal(dense, np.flatnonzero(design.kind == DENSE))
    assert value.size == 0 or name != "indicators"


@pytest.mark.parametrize("name", DESIGNS)
def test_predictors(name):
    """Against the product on the host; fits that are not served keep what they have."""
    design, rng = DESIGNS[name](), np.random.default_rng(3)
    layout, problem = lay_out(design)
    n, p, fits = design.n_rows, design.n_columns, np.array([2, 0])
    coefs = rng.normal(size=(3, p)) * (rng.random((3, p)) < 0.5)
    offsets = rng.normal(size=(n, 3))
    session = Session(layout, problem, None, offsets, 3, np.dtype(float))
    eta = session._predictors[0]
    session.device.write(eta, np.full((3, n), 7.0))
    session.start(fits, coefs[fits])
    order = problem.plan.order
    expected = (offsets + design.to_scipy() @ coefs.T)[order].T
    expected[1] = 7.0
    np.testing.assert_allclose(session.device.download(eta), expected, rtol=0, atol=1e-12)


@pytest.mark.weekly(but="4096|mixed")
@pytest.mark.mostly_slow(but="49152-a huge|4096-indicators|mixed|values|dense|no entries|one row")
@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("shared_bytes", [48 * 1024, RESERVED_SHARED])
def test_products_of_columns(name, shared_bytes, monkeypatch):
    """Of fewer blocks than there are tiles and parts of columns."""
    monkeypatch.setattr(predictors, "TILES_AT_ONCE", 2)
    design, fits = DESIGNS[name](), np.array([1, 0])
    layout, problem = lay_out(design, shared_bytes=shared_bytes)
    assert (layout.tile_bytes == 0) == (shared_bytes == RESERVED_SHARED)
    u = np.random.default_rng(4).normal(size=(2, design.n_rows))
    session = Session(layout, problem, None, None, 2, np.dtype(float))
    session.device.write(session.rows.u, u)
    every = np.arange(design.n_columns)
    X = problem.design.to_scipy()
    expected = (u[1] @ X)[::-1], (u[0] @ X)[::2]
    for _ in range(2):
        found = session.gradient(fits, [every[::-1], every[::2]])
        session._leave(fits)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def test_no_bit_of_products_depends_on_the_number_of_blocks(monkeypatch):
    design, found = mixed(), []
    every = np.arange(design.n_columns)
    u = np.random.default_rng(4).normal(size=(2, design.n_rows))
    for seed, (tiles_at_once, threads) in enumerate([(1, 64), (8, 32), (8, 128)]):
        monkeypatch.setattr(predictors, "TILES_AT_ONCE", tiles_at_once)
        layout, problem = lay_out(design, seed)
        layout.many_threads = threads
        session = Session(layout, problem, None, None, 2, np.dtype(float))
        session.device.write(session.rows.u, u)
        found.append(session.gradient(np.arange(2), [every, every[::2]]))
    for one in found[1:]:
        for mine, other in zip(one, found[0], strict=True):
            np.testing.assert_array_equal(mine, other)
