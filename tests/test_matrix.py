"""The quadratic model as a matrix, beside `test_evaluation`: many rows, pieces, what it costs."""

import numpy as np
import pytest
import scipy.sparse as sp
from engine import (
    curvature_by_row,
    dense,
    draw_design,
    draw_outcome,
    make_problem,
    open_session,
    reference,
    reference_at,
    use_bins,
)
from oracles.reference_competing import finegray_direct
from oracles.reference_likelihoods import bin_hessian, cox_direct, split_rows

from sksurvgpu import (
    CoxLassoCCD,
    FineGrayCCD,
    GroupLasso,
    LogisticCCD,
    competing_risks,
    surv,
)
from sksurvgpu.backends.contract import Room
from sksurvgpu.backends.cpu.session import Session
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.datasets import simulate_cox, simulate_ehr
from sksurvgpu.estimators._preparing import prepare
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.solver import costs, way

KINDS = ("indicator", "valued", "dense", "mixed")
COLUMNS = np.array([3, 0, 11, 8, 5, 1, 2, 13, 4])


def take(session, columns, known):
    """The matrix at the session's point, extended once."""
    first = session.matrix(columns[:known], 0)
    rows = session.matrix(columns, known)
    matrix = np.vstack([np.hstack([first, rows[:, :known].T]), rows])
    if np.isfinite(session.room().terms):
        _compare_factor(session, columns, known, matrix)
    return matrix


def _compare_factor(session, columns, known, matrix):
    """Its products are the matrix, to the rounding of what loads are taken from."""
    first, sign, size = session.factor(columns[:known], 0)
    rows, sign, more = session.factor(columns, known)
    rows = np.vstack([first[:, : len(sign)], rows]) if known else rows
    error = 1e-13 * np.abs(rows).max() ** 2 * rows.shape[1]
    np.testing.assert_allclose((rows * sign) @ rows.T, matrix, rtol=1e-9, atol=error)
    np.testing.assert_array_equal(np.append(size, more), np.diagonal(matrix))


def loads_of_bins(data, problem):
    """h of every row in every bin, by the oracle: without strata."""
    bin_of = dict(zip(problem.plan.cell_time, problem.plan.bins.cell_bin, strict=True))
    loads = np.zeros((problem.plan.n_bins, data.n))
    for atom in reference(data, np.zeros(data.n)).atoms:
        loads[bin_of[atom.time]] += atom.weight * atom.p
    return loads


def loads_of_strata(data):
    """h of every row in its stratum, a sparse matrix."""
    stratum, h = np.unique(data.strata, return_inverse=True)[1], curvature_by_row(data, 0.0)
    return sp.csr_array((h, (stratum, np.arange(data.n))))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bins", ["few", "one a stratum"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_many_rows(kind, bins, n_threads, check_close, monkeypatch):
    """More than a chunk of rows, and than a chunk of strata: X'HX less the loads' products."""
    use_bins(bins, monkeypatch)
    rng, n = np.random.default_rng(19), 20_000
    n_strata = 6_000 if bins == "one a stratum" else 0
    data = draw_outcome(rng, n, n_times=50, n_strata=n_strata)
    data = data.with_(X=draw_design(rng, n, 14, kind))
    problem = make_problem(data)
    session, _ = open_session(problem, data, [], n_threads)
    found = take(session, COLUMNS, 5)
    X, few = dense(data.X)[:, COLUMNS], problem.plan.few
    assert few == (bins == "few")
    loads = loads_of_bins(data, problem) if few else loads_of_strata(data)
    h, total, load = loads.sum(axis=0), loads.sum(axis=1), loads @ X
    inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    check_close(found, X.T @ (h[:, None] * X) - (load.T * inverse) @ load, "curvature")
    np.testing.assert_allclose(found, take(session, COLUMNS, 0), rtol=1e-12, atol=1e-12)


def draw_pieces(seed, kind, bins, monkeypatch):
    """Columns that change at two cuts beside others: data, problem, X of episodes, and these."""
    use_bins(bins, monkeypatch)
    rng, cuts = np.random.default_rng(seed), np.array([3.0, 7.0])
    data = draw_outcome(rng, 80, start=True, n_strata=2, n_times=12, weights=True)
    data = data.with_(X=draw_design(rng, 80, 6, kind))
    source = np.array([0, 1, 1, 2, 3, 3, 3, 4, 5])
    ptr = np.array([[0, 3], [0, 1], [1, 3], [0, 3], [0, 1], [1, 2], [2, 3], [0, 3], [0, 3]])
    problem = make_problem(data, "efron", cuts, source, ptr)
    row, piece, *episodes = split_rows(data.time, data.event, cuts, data.start)
    applies = (ptr[:, 0] <= piece[:, None]) & (piece[:, None] < ptr[:, 1])
    return data, problem, dense(data.X)[row][:, source] * applies, (row, *episodes)


@pytest.mark.parametrize(("kind", "size"), [*((kind, 0.3) for kind in KINDS), ("valued", 500.0)])
@pytest.mark.parametrize("bins", ["every death", "few"])
def test_columns_that_change_over_time(kind, size, bins, check_close, monkeypatch):
    """Also where rows are far apart."""
    data, problem, X, (row, start, time, event) = draw_pieces(20, kind, bins, monkeypatch)
    coef = size * np.random.default_rng(21).normal(size=9)
    session, _ = open_session(problem, data, coef)
    assert session.pattern._in_logs == (size > 1.0)
    stratum, weights = data.strata[row], data.weights[row]
    evaluation = cox_direct(X @ coef, time, event, start, stratum, weights, "efron")
    plan = problem.plan
    strata = np.tile(np.unique(data.strata), plan.n_pieces)
    stratum_of_cell = np.repeat(strata, np.diff(plan.cell_ptr))
    cells = zip(stratum_of_cell, plan.cell_time, plan.bins.cell_bin, strict=True)
    bin_of = {(s, t): k for s, t, k in cells}
    bins_of_atoms = [bin_of[atom.stratum, atom.time] for atom in evaluation.atoms]
    expected = X.T @ bin_hessian(evaluation.atoms, bins_of_atoms) @ X
    columns = np.array([4, 0, 8, 2, 7, 1, 3])
    for known in (0, 2, 5):
        found = take(session, columns, known)
        check_close(found, expected[np.ix_(columns, columns)], "curvature")


@pytest.mark.parametrize("start", [False, True], ids=["from the beginning", "late entry"])
@pytest.mark.parametrize("ties", ["breslow", "efron"])
@pytest.mark.parametrize("bins", ["every death", "few"])
def test_rows_far_apart(start, ties, bins, check_close, monkeypatch):
    """Numbers of rows and of risk sets have no common scale, and the model is no looser."""
    use_bins(bins, monkeypatch)
    rng = np.random.default_rng(22)
    data = draw_outcome(rng, 90, start=start, n_strata=2, n_times=20, weights=True)
    X, coef = rng.normal(size=(90, 5)), np.array([300.0, 900.0, 0.5, 0.0, -2.0])
    data = data.with_(X=X)
    problem = make_problem(data, ties)
    session, _ = open_session(problem, data, coef)
    assert session.pattern._in_logs
    seen, plan = reference_at(data, coef, ties), problem.plan
    cells = zip(np.repeat([0, 1], np.diff(plan.cell_ptr)), plan.cell_time, strict=True)
    bin_of = dict(zip(cells, plan.bins.cell_bin, strict=True))
    bins_of_atoms = [bin_of[atom.stratum, atom.time] for atom in seen.atoms]
    expected = X.T @ bin_hessian(seen.atoms, bins_of_atoms) @ X
    check_close(session.matrix(np.arange(5), 0), expected, "curvature")
    curvature, _ = session.curvature(np.arange(5))
    check_close(curvature[:, 0], np.diagonal(expected), "curvature")


@pytest.mark.parametrize("bins", ["every death", "few"])
@pytest.mark.parametrize("curves", ["one", "strata", "of groups"])
def test_carried_rows_far_apart(curves, bins, check_close, monkeypatch):
    """Likewise where rows stay at risk after a competing event."""
    use_bins(bins, monkeypatch)
    rng, n = np.random.default_rng(24), 90
    X, weights = rng.normal(size=(n, 5)), rng.integers(0, 4, n) / 2
    status, time = rng.integers(0, 3, n), np.ceil(20 * rng.random(n))
    strata = None if curves == "one" else rng.integers(0, 2, n)
    groups = rng.integers(0, 3, n) if curves == "of groups" else strata
    coef = np.array([300.0, 900.0, 0.5, 0.0, -2.0])
    rows = {"strata": strata, "sample_weight": weights}
    rows |= {} if groups is strata else {"censoring_groups": groups}
    prepared = prepare(FineGrayCCD(), X, competing_risks(status, time), **rows)
    problem = prepared.problem
    session = Session(problem, prepared.batch.weight[:, 0], None, Threads(1), ElasticNet.formulas)
    seen = finegray_direct(X @ coef, time, status, strata, weights, groups)
    check_close(session.start(coef), seen.loglik, "loglik")
    assert session.pattern._in_logs
    check_close(session.gradient(np.arange(5)), X.T @ seen.u, "u")
    plan = problem.plan
    cells = zip(
        np.repeat(np.arange(plan.n_strata), np.diff(plan.cell_ptr)), plan.cell_time, strict=True
    )
    bin_of = dict(zip(cells, plan.bins.cell_bin, strict=True))
    bins_of_atoms = [bin_of[atom.stratum, atom.time] for atom in seen.atoms]
    expected = X.T @ bin_hessian(seen.atoms, bins_of_atoms) @ X
    check_close(session.matrix(np.arange(5), 0), expected, "curvature")


def test_room(monkeypatch):
    """None where strata are many and columns change over time: such a matrix is not formed."""

    def room(bins):
        _, problem, *_ = draw_pieces(22, "mixed", bins, monkeypatch)
        return Session(problem, None, None, Threads(1), room=5.0).room()

    assert room("few") == Room(5.0)
    assert room("one a stratum").bytes == 0.0
    data = draw_outcome(np.random.default_rng(22), 30, n_strata=9).with_(X=np.ones((30, 1)))
    assert Session(make_problem(data), None, None, Threads(1), room=5.0).room().bytes == 5.0


@pytest.mark.parametrize("bins", ["few", "one a stratum"])
def test_counts(bins, monkeypatch):
    """Of entries and their pairs within rows; loads are pairs within strata, or products."""
    use_bins(bins, monkeypatch)
    rng, n = np.random.default_rng(23), 400
    data = draw_outcome(rng, n, n_strata=40).with_(X=draw_design(rng, n, 9, "mixed"))
    problem = make_problem(data)
    session, _ = open_session(problem, data, [])
    columns = np.array([7, 0, 3, 1])  # of the others, 2, 5 and 8 are dense
    counts = session.count(columns)
    nonzero = data.X != 0
    in_row = nonzero[:, columns].sum(axis=1)
    pairs = (in_row * (in_row + 1) / 2).sum()
    products = 4**2 / 2 * problem.plan.n_bins
    if bins == "one a stratum":
        products, in_stratum = 0.0, np.bincount(data.strata, in_row)
        pairs += (np.minimum(in_stratum, 4) @ in_stratum) / 2
    assert (counts.pairs, counts.products) == (pairs, products)
    assert (counts.entries, counts.all_entries) == (nonzero[:, columns].sum(), nonzero.sum())
    with_dense = session.count(np.append(columns, [2, 5]))
    assert with_dense.products - products >= 2**2 / 2 * n
    assert with_dense.pairs > counts.pairs


@pytest.fixture
def taken(monkeypatch):
    """Numbers of columns of all matrices that are taken."""
    sizes, take_matrix = [], Session.matrix

    def watch(session, columns, known):
        sizes.append(len(columns))
        return take_matrix(session, columns, known)

    monkeypatch.setattr(Session, "matrix", watch)
    return sizes


def test_a_matrix_grows_with_the_support(taken):
    """Where many columns are about to move at once, as in correlated wide data, it takes a few."""
    rng, n, p = np.random.default_rng(0), 200, 3000
    X = rng.normal(size=(n, p)) + rng.normal(size=(n, 1))
    time = rng.exponential(np.exp(-X[:, :30].sum(axis=1) / 6))
    model = CoxLassoCCD(alpha=0.01, n_jobs=1).fit(X, surv(rng.random(n) < 0.7, time))
    assert model.converged_
    assert 0 < max(taken) < p // 2


def test_pairs_count_only_where_columns_are_few_for_the_rows(taken, monkeypatch):
    """Where they are not, iterations without a matrix are soon done."""
    data = simulate_cox(3_000, 6_000, random_state=0)
    model = LogisticCCD(alpha=9.5e-4, n_jobs=1)
    assert model.fit(data.X, data.y["event"]).converged_ and max(taken) < 1_000
    monkeypatch.setattr(way, "FEW_OF_ROWS", 0)
    assert model.fit(data.X, data.y["event"]).converged_ and max(taken) > 1_000


def test_matrices_that_cost_more_than_iterations_are_not_taken(taken, monkeypatch):
    """Those of most columns of correlated records, unless there is no end; those of few are."""
    data = simulate_ehr(8_000, 4_000, random_state=0)
    found = CoxLassoCCD(alpha=7e-4).fit(data.X, data.y)
    assert found.converged_ and len(taken) == 1 and found.n_iter_ > 40
    monkeypatch.setattr(costs, "ITERATIONS_BY_MATRIX_LATE", np.inf)
    taken.clear()
    by_curvature = CoxLassoCCD(alpha=7e-4).fit(data.X, data.y)
    assert not taken and by_curvature.n_iter_ > 1.2 * found.n_iter_
    CoxLassoCCD(alpha=0.01).fit(data.X, data.y)
    assert 0 < max(taken) < 200
    monkeypatch.setattr(costs, "ITERATIONS_IF_COUPLED", np.inf)
    by_matrix = CoxLassoCCD(alpha=7e-4).fit(data.X, data.y)
    assert max(taken) > 1_000 and by_matrix.n_iter_ < by_curvature.n_iter_ / 2
    np.testing.assert_allclose(found.objective_, by_matrix.objective_, rtol=1e-9)


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("mix", [None, 1.0, 0.3])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_few_rows_are_a_factor(kind, mix, standardize, taken, monkeypatch):
    """Of a matrix that is not formed; the optimum is that of the matrix."""
    rng, n, p = np.random.default_rng(3), 40, 240
    X = rng.normal(size=(n, p)) + rng.normal(size=(n, 1))
    X = sp.csc_array(X * (rng.random((n, p)) < 0.3)) if kind == "sparse" else X
    options = {"alpha": 0.05, "l1_ratio": 0.05, "standardize": standardize, "tol": 1e-8}
    if mix is not None:
        penalty = GroupLasso(np.arange(p) // 6, mix=mix)
        options |= {"alpha": 0.02, "l1_ratio": 1.0, "penalty": penalty}
    model, y = CoxLassoCCD(**options), surv(rng.random(n) < 0.7, rng.exponential(size=n))
    monkeypatch.setattr(way, "FEW_TERMS", np.inf)
    factored = model.fit(X, y).coef_
    assert model.converged_ and not taken and np.count_nonzero(factored) > n / 2
    monkeypatch.setattr(way, "FEW_TERMS", 0.0)
    np.testing.assert_allclose(model.fit(X, y).coef_, factored, atol=1e-6)
    assert taken
