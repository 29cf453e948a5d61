"""Matrices that the device makes, in the simulator against the CPU."""

from dataclasses import replace

import engine
import numpy as np
import pytest
import scipy.sparse as sp
from engine import draw_design, draw_outcome, make_problem, use_bins
from grids import thin
from models import FORMS, MODELS, largest_gradient, make_batch, use_form

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.backend import simulate_backend
from gpu.cupy import stand_in
from gpu.device import SimulatedDevice

from sksurvgpu import Fused, GroupLasso, LogisticCCD
from sksurvgpu.backends import choose, cpu
from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cuda import linalg, matrices, memory
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.session import Session
from sksurvgpu.penalties import BoundedElasticNet, ElasticNet
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.models import grown
from sksurvgpu.solver.problem import Batch

pytestmark = pytest.mark.slow  # kernels in the simulator

N_FITS = 2
ROUNDED = 5e-4  # a correlation, by half precision


@pytest.fixture(autouse=True)
def cupy(monkeypatch):
    """The stand-in of CuPy."""
    return stand_in(monkeypatch, SimulatedDevice())


def open_both(problem, weights, offsets, coefs, seed=0, threads=32, **settings):
    """Sessions of fits at coefficients: of the CPU, one a fit, and of a device."""
    device = SimulatedDevice(seed, **settings)
    layout = Layout(device, problem, threads=threads, rows_per_range=16)
    rows = weights, offsets, len(coefs), np.dtype(float), ElasticNet.formulas
    session, fits = Session(layout, problem, *rows), np.arange(len(coefs), dtype=np.int32)
    session.start(fits, coefs)
    alone = []
    for b, coef in enumerate(coefs):
        own = (None if values is None else values[:, b] for values in (weights, offsets))
        alone.append(CpuSession(problem, *own, Threads(1), ElasticNet.formulas))
        alone[-1].start(coef)
    return alone, session, fits, coefs


def size_of(matrix):
    """What its entries are measured by."""
    root = np.sqrt(np.diagonal(matrix))
    return np.outer(root, root)


def check_matrices(alone, session, fits, coefs, columns, known, tolerance=ROUNDED, exact=1e-10):
    """Matrices over the columns of each fit, extended once, are the CPU's.

    They stay where they were taken, while others are evaluated and curvatures are taken there.
    """
    if known:
        first = session.matrix(fits, [own[:known] for own in columns], [0] * len(fits))
        session.start(fits, [0.5 - coef for coef in coefs])
        elsewhere = session.curvature(fits, columns)
    found = session.matrix(fits, columns, [known] * len(fits))
    if known:
        found = [grown(one, rows) for one, rows in zip(first, found, strict=True)]
    session.start(fits, coefs)
    whole, again = (session.matrix(fits, columns, [0] * len(fits)) for _ in range(2))
    for fit, (own, one, matrix) in enumerate(zip(columns, alone, found, strict=True)):
        expected = one.matrix(own, 0)
        curvature, _ = one.curvature(own)
        np.testing.assert_allclose(np.diagonal(matrix), curvature[:, 0], rtol=exact)
        assert np.all(curvature > 0)
        if known:
            assert not np.allclose(elsewhere[fit][0], curvature, rtol=1e-2)
        assert np.abs((matrix - expected) / size_of(expected)).max() <= tolerance
        assert np.abs((matrix - whole[fit]) / size_of(expected)).max() <= 1e-6
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_array_equal(whole[fit], again[fit])  # in another order of threads


@pytest.mark.parametrize("kind", ["indicator", "valued", "dense", "mixed"])
def test_matrix_of_every_kind_of_columns(kind, monkeypatch):
    """By so few rows at once that these end within ranges."""
    monkeypatch.setattr(memory, "DENSE_BYTES", 2 * 64 * 20)
    monkeypatch.setattr(matrices, "ALIGNED", 8)
    use_bins("few", monkeypatch)
    rng = np.random.default_rng(1)
    data = draw_outcome(rng, 70, n_times=12, start=True)
    data = data.with_(X=draw_design(rng, 70, 9, kind))
    problem = make_problem(data)
    weights = rng.choice([0.5, 1.0, 2.0], (70, N_FITS))
    offsets, coefs = rng.normal(size=(70, N_FITS)), 0.2 * rng.normal(size=(N_FITS, 9))
    both = open_both(problem, weights, offsets, coefs)
    columns = [np.array([3, 0, 7, 8, 1]), np.array([5, 2, 4, 6, 0, 1])]
    check_matrices(*both, columns, 2)


def open_with_empty_column(rng):
    """Sessions of sparse columns, the last of which has no entries."""
    X = (rng.random((60, 4)) < [0.3, 0.4, 0.2, 0.0]).astype(float)
    data = draw_outcome(rng, 60, weights=False).with_(X=sp.csc_array(X))
    return open_both(make_problem(data), None, rng.normal(size=(60, 1)), np.zeros((1, 4)))


def test_empty_column_that_joins_has_no_products():
    alone, session, fits, _ = open_with_empty_column(np.random.default_rng(6))
    columns = np.arange(4)
    first, rows = (session.matrix(fits, [columns[:size]], [size - 2])[0] for size in (2, 4))
    found = grown(first, rows)
    assert found[3, 3] == 0.0 and not found[:3, 3].any() and not found[3, :3].any()
    np.testing.assert_allclose(found, alone[0].matrix(columns, 0), atol=1e-2)


def test_columns_that_are_nearly_constant_lose_no_more_than_others():
    """Every row is in one bin, of which a column is nearly a function; another's mean is large."""
    rng = np.random.default_rng(5)
    data = draw_outcome(rng, 90, n_times=6)
    X = rng.normal(size=(90, 5))
    X[:, 0] = data.time + 1e-4 * X[:, 1]
    X[:, 2] += 1e6
    X[:, 4] = X[:, 3] + 1e-5 * X[:, 4]  # not to be told from another by half precision
    problem = make_problem(data.with_(X=X, start=data.time - 1.0))
    both = open_both(problem, None, rng.normal(size=(90, 1)), 0.1 * rng.normal(size=(1, 5)))
    check_matrices(*both, [np.arange(5)], 2, exact=1e-6)
    _, session, fits, _ = both
    [found] = session.matrix(fits, [np.arange(5)], [0])
    assert np.linalg.eigvalsh(found / size_of(found))[0] > -1e-6


def test_products_are_made_on_the_stream_of_kernels(cupy, monkeypatch):
    """Also where another one is the current one."""
    _, session, fits, _ = open_with_empty_column(np.random.default_rng(6))
    with cupy.cupy.cuda.Stream.ptds:
        session.matrix(fits, [np.arange(3)], [0])
        assert cupy.stream.ptr == 2
    monkeypatch.setattr(linalg, "uses_stream_of_threads", lambda: True)
    session.matrix(fits, [np.arange(3)], [0])
    assert set(cupy.products) == {0, 2} and cupy.stream.ptr == 0


@pytest.mark.parametrize(
    ("name", "form"), [("fine_gray, strata", "every death"), ("poisson", "one"), ("pieces", "few")]
)
def test_matrix_of_other_models(name, form, monkeypatch):
    """Rows that are carried on, an intercept, and coefficients that change over time."""
    use_form(form, monkeypatch)
    rng = np.random.default_rng(3)
    if name == "pieces":
        data = draw_outcome(rng, 60, start=True, n_strata=2, n_times=12)
        data = data.with_(X=draw_design(rng, 60, 4, "mixed"))
        source, cuts = np.array([0, 1, 1, 2, 3, 3, 3]), np.array([3.0, 7.0])
        pieces = np.array([[0, 3], [0, 1], [1, 3], [0, 3], [0, 1], [1, 2], [2, 3]])
        problem, n, p = make_problem(data, "efron", cuts, source, pieces), 60, 7
    else:
        sample, p = MODELS[name].sample(3, p=6), 6
        sample = sample.with_(X=draw_design(rng, sample.n, p, "mixed"))
        problem, n = MODELS[name].problem(sample), sample.n
    coefs = 0.2 * rng.normal(size=(N_FITS, p))
    offsets = np.zeros((n, N_FITS))
    if name == "fine_gray, strata":  # far from each other in one fit, whose sums are logarithms
        offsets[:, 1] -= 900.0 * np.unique(sample.y["strata"], return_inverse=True)[1]
    both = open_both(problem, rng.choice([0.5, 1.0, 2.0], (n, N_FITS)), offsets, coefs)
    if name == "fine_gray, strata":
        assert both[1].model.carried.size > 0
        assert [one.pattern._in_logs for one in both[0]] == [False, True]
    columns = [np.array([3, 0, 4, 1]), np.array([5, 2, 4, 0, 1])]
    check_matrices(*both, columns, 2)


FEW = [case for case in FORMS if "many" not in case[0] and case[1] not in ("many", "one a stratum")]


def solve_both(problem, batch, tol=1e-9):
    """Solutions by the CPU and by the device."""
    return [
        Fits(problem, batch, backend, Options(tol=tol)).solve() for backend in (cpu, choose("cuda"))
    ]


def compare(found, expected, tolerance=1e-6):
    for own, others in zip(found, expected, strict=True):
        for one, other in zip(own, others, strict=True):
            assert one.converged and other.converged
            size = max(1.0, np.abs(other.coef).max())
            np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=tolerance * size)
            np.testing.assert_allclose(one.objective, other.objective, rtol=1e-10)


@pytest.fixture
def asked(monkeypatch):
    """Operations that sessions of a device were asked for."""
    names, serve = set(), Session.serve

    def watch(session, name, *rest):
        names.add(name)
        return serve(session, name, *rest)

    monkeypatch.setattr(Session, "serve", watch)
    return names


@pytest.mark.parametrize(("name", "form"), thin(8, FEW))
def test_fit_of_every_model(name, form, asked, monkeypatch):
    simulate_backend(monkeypatch, seed=1, model="matrix")
    use_form(form, monkeypatch)
    model = MODELS[name]
    sample = model.sample(3, p=5)
    lam = np.array([0.3, 0.1]) * largest_gradient(model, sample)
    batch = make_batch(sample, lam, l1_ratio=0.8, factor=np.where(np.arange(5) == 1, 0.0, 1.0))
    compare(*solve_both(model.problem(sample), batch)[::-1])
    assert "matrix" in asked


SUMS = [("cox, efron", "few"), ("logistic", "one")]
SUMS += [("fine_gray, strata", "every death"), ("conditional_poisson", "few")]


@pytest.mark.parametrize(("name", "form"), thin(2, SUMS))
def test_fits_have_the_same_bits_whatever_the_order_of_threads(name, form, asked, monkeypatch):
    use_form(form, monkeypatch)
    model, rng, coefs = MODELS[name], np.random.default_rng(2), []
    sample = model.sample(3, p=6)
    sample = sample.with_(X=draw_design(rng, sample.n, 6, "mixed"))
    batch = make_batch(sample, 0.1 * largest_gradient(model, sample))
    for seed in (1, 2):
        simulate_backend(monkeypatch, seed=seed, model="matrix")
        found = Fits(
            model.problem(sample), batch, choose("cuda", "float64"), Options(tol=1e-3)
        ).solve()
        coefs.append(found[0][0].coef)
    np.testing.assert_array_equal(*coefs)
    assert np.count_nonzero(coefs) > 0 and "matrix" in asked


def test_batch_is_its_fits(asked, monkeypatch):
    simulate_backend(monkeypatch, seed=2, model="matrix")
    model = MODELS["cox, efron"]
    sample = model.sample(5, p=5, weights=False, offset=False)
    rng, problem = np.random.default_rng(0), model.problem(sample)
    lam = largest_gradient(model, sample) * np.array([[0.8, 0.3, 0.5], 3 * [0.15]])
    batch = Batch(lam, weight=rng.choice([1.0, 2.0], (sample.n, 3)))
    compare(*solve_both(problem, batch)[::-1])
    assert "matrix" in asked


def test_loan_serves_all_fits(monkeypatch):
    simulate_backend(monkeypatch, seed=3, model="matrix")
    model, options = MODELS["cox, breslow"], Options(tol=1e-9)
    sample = model.sample(6, p=6, weights=False, offset=False)
    problem, lam = model.problem(sample), 0.2 * largest_gradient(model, sample)
    first = Batch(np.array([[lam]]))
    solutions, loan = Fits(problem, first, choose("cuda"), options).solve_and_lend(100)
    weight = np.ones((sample.n, 2))
    weight[::5, 0] = weight[1::5, 1] = 0.0
    changes = {"weight": weight, "coef": solutions[0].coef[:, None]}
    changes |= {"null": (solutions[0].null,), "share": np.full(2, 0.8)}
    fixed = np.zeros((6, 2), bool)
    fixed[2, 1] = True
    batch = replace(first, lambdas=np.full((1, 2), lam), fixed=fixed, **changes)
    borrowed = Fits(problem, replace(batch, loan=loan), choose("cuda"), options).solve()
    compare(borrowed, Fits(problem, batch, cpu, options).solve())


def test_columns_whose_curvature_is_lost(asked, monkeypatch):
    """Only a row of nearly no hazard has another value, and it has an event."""
    simulate_backend(monkeypatch, seed=4, model="matrix")
    rng = np.random.default_rng(7)
    data, offset, X = draw_outcome(rng, 40), np.zeros(40), rng.normal(size=(40, 3))
    row = np.flatnonzero(data.event)[3]
    X[:, 0], offset[row] = np.arange(40) != row, -34.0
    data = data.with_(X=X, offset=offset)
    penalty = BoundedElasticNet(1.0, lower=np.full(3, -0.05), upper=np.full(3, np.inf))
    batch = engine.make_batch(data, 0.5, penalty=penalty)
    found, expected = solve_both(make_problem(data), batch)[::-1]
    compare(found, expected)
    assert found[0][0].coef[0] == -0.05
    assert "matrix" in asked


def test_fits_without_cupy_have_no_matrices(asked, monkeypatch):
    """They go by a diagonal; what cannot says what to install."""
    simulate_backend(monkeypatch, seed=6, model="as there is room")
    monkeypatch.setattr(linalg, "find_spec", lambda name: None)
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(40, 5)), rng.random(40) < 0.5
    found, expected = (LogisticCCD(alpha=0.01, backend=b).fit(X, y) for b in ("cuda", "cpu"))
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-5)
    assert "room" in asked and "matrix" not in asked
    with pytest.raises(ValueError, match=r"room for 0: .* on a device CuPy"):
        LogisticCCD(alpha=0.01, penalty=Fused("chain"), backend="cuda").fit(X, y)


@pytest.mark.parametrize("penalty", [Fused("chain"), GroupLasso([0, 0, 1, 1, 2])])
def test_penalties_that_are_minimized_on_the_matrix(penalty, asked, monkeypatch):
    simulate_backend(monkeypatch, seed=5, model="matrix")
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(40, 5)), rng.random(40) < 0.5
    models = [
        LogisticCCD(alpha=0.01, penalty=penalty, tol=1e-8, backend=b) for b in ("cuda", "cpu")
    ]
    found, expected = (model.fit(X, y) for model in models)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-6)
    assert "matrix" in asked
