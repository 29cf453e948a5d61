"""The quadratic model: its minimum, bases, secants, how far steps go, which base a fit takes."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from sksurvgpu.backends.contract import Counts, Room, serve
from sksurvgpu.penalties import BoundedElasticNet, ElasticNet
from sksurvgpu.penalties.groups import GroupFamily
from sksurvgpu.solver import costs, minimize, models, secants
from sksurvgpu.solver import way as ways
from sksurvgpu.solver.fits import Options
from sksurvgpu.solver.line_search import search
from sksurvgpu.solver.minimize import Quadratic, minimize_on_model, passes_of
from sksurvgpu.solver.models import (
    Diagonal,
    FactoredMatrix,
    LentModel,
    OwnMatrix,
    SampledMatrix,
    scaled_to,
    stand_alone,
)
from sksurvgpu.solver.point import Goal, Point
from sksurvgpu.solver.problem import Loan
from sksurvgpu.solver.secants import DAMPING, PAIRS, Secants
from sksurvgpu.solver.systems import by_matrix, by_terms
from sksurvgpu.solver.way import PATIENCE, DescentRecord, Way

P = 8
EVERY = np.arange(P)


def in_full(model):
    """A quadratic model as one matrix."""
    return model.block(np.arange(len(model.curvature)))


def draw_definite(rng, p, rank=None):
    root = rng.normal(size=(p, 2 * p if rank is None else rank))
    return root @ root.T


def draw_quadratic(rng, coupled=5, n_terms=6, p=P, weight=0.7, lossless=False):
    """A model with all that it may have, positive definite; its last column has no curvature."""
    rows, matrix = rng.normal(size=(p, n_terms)), draw_definite(rng, coupled)
    sign = np.tile([1.0, -1.0], n_terms)[:n_terms]
    beyond = np.abs(rows) @ (sign < 0) * np.abs(rows).sum(axis=0).max()  # what terms may take
    alone = 2.0 + rng.random(p) + beyond
    if not lossless:
        rows[-1], alone[-1] = 0.0, 0.0
    own = np.append(weight * np.diagonal(matrix), np.zeros(p - coupled))
    return Quadratic(matrix, weight, alone, rows, sign, alone + own + np.square(rows) @ sign)


def whole_of(model):
    """By the definition of `Quadratic`."""
    whole = np.diag(model.alone) + model.rows @ np.diag(model.sign) @ model.rows.T
    whole[: len(model.matrix), : len(model.matrix)] += model.weight * model.matrix
    return whole


class TestQuadratic:
    def test_it_is_a_sum(self):
        rng = np.random.default_rng(0)
        model = draw_quadratic(rng)
        whole, move = whole_of(model), rng.normal(size=P)
        np.testing.assert_allclose(in_full(model), whole, rtol=1e-13)
        np.testing.assert_allclose(model.times(move), whole @ move, rtol=1e-12)
        np.testing.assert_allclose(model.curvature, np.diagonal(whole), atol=1e-12)
        for some in (np.array([6, 1, 4]), np.array([7, 5]), EVERY[:0]):
            np.testing.assert_allclose(model.block(some), whole[np.ix_(some, some)], rtol=1e-13)

    def test_sums_over_sets(self):
        model = draw_quadratic(np.random.default_rng(2))
        sets = np.array([[1.0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 1, 1, 0]])
        np.testing.assert_allclose(model.sums(csr_array(sets)), sets @ whole_of(model), rtol=1e-12)

    def test_of_a_matrix(self):
        matrix = draw_definite(np.random.default_rng(1), P)
        np.testing.assert_array_equal(in_full(Quadratic.of_matrix(matrix)), matrix)
        steeper = in_full(Quadratic.of_matrix(matrix, 2.0 * np.diagonal(matrix)))
        np.testing.assert_allclose(steeper, matrix + np.diag(np.diagonal(matrix)), rtol=1e-14)


L1, GROUP = 0.9, np.array([1, 0, 1, -1, 0, 1, -1, 0])
PENALTIES = {
    "lasso": ElasticNet(1.0),
    "elastic net": ElasticNet(0.6),
    "bounds": BoundedElasticNet(0.6, np.full(P, -0.1), np.where(EVERY == 2, 0.0, 0.2)),
    "groups": GroupFamily(GROUP, np.array([1.7, 1.2]), 1.0),
    "sparse groups": GroupFamily(GROUP, np.array([1.7, 1.2]), 0.6),
}


def of(family):
    return family.at(L1, np.ones(P), np.zeros(P, bool))


def violation_of_columns(family, coef, gradient):
    """Of the elastic net, by its definition; at a bound only the slope inwards counts."""
    l1, l2 = L1 * family.l1_ratio, L1 * (1.0 - family.l1_ratio)
    rises = l2 * coef + l1 * np.where(coef >= 0, 1.0, -1.0) - gradient  # slope to the right
    falls = l2 * coef + l1 * np.where(coef > 0, 1.0, -1.0) - gradient
    if isinstance(family, BoundedElasticNet):
        assert (family.lower <= coef).all() and (coef <= family.upper).all()
        rises = np.where(coef == family.upper, 0.0, rises)
        falls = np.where(coef == family.lower, 0.0, falls)
    return np.maximum(np.maximum(-rises, falls), 0.0).max()


def violation_of_groups(family, coef, gradient):
    """Of norms and a lasso within, by their definition."""
    worst = []
    for g in range(2):
        b, slope = coef[g == GROUP], gradient[g == GROUP]
        level, within = L1 * family.share * family.weight[g], L1 * (1.0 - family.share)
        left = np.maximum(np.abs(slope) - within, 0.0)
        if not b.any():
            worst.append(max(np.linalg.norm(left) - level, 0.0))
            continue
        off = slope - level * b / np.linalg.norm(b) - within * np.sign(b)
        worst.append(np.where(b != 0, np.abs(off), left).max())
    alone, slope = coef[GROUP < 0], gradient[GROUP < 0]
    off = np.where(alone != 0, slope - L1 * np.sign(alone), np.maximum(np.abs(slope) - L1, 0.0))
    return max(*worst, np.abs(off).max())


def draw_start(rng, model, family, spread=4.0):
    """Coefficients, and a gradient there of which those without curvature know nothing."""
    coef = family.clip(np.where(model.curvature > 0, 0.1 * rng.normal(size=P), 0.0))
    slope = np.where(model.curvature > 0, spread * rng.normal(size=P), 0.0)
    return coef, slope, slope + whole_of(model) @ coef


def check_minimum(model, family, coef, gradient, slope_at_zero, most=1e-9):
    """Stationary by the definition, the gradient being that of the model where it ends."""
    expected = slope_at_zero - whole_of(model) @ coef
    is_grouped = isinstance(family, GroupFamily)
    violation = (violation_of_groups if is_grouped else violation_of_columns)(
        family, coef, expected
    )
    assert violation <= most
    np.testing.assert_allclose(gradient, expected, atol=1e-9)
    assert np.any(coef != 0)


@pytest.mark.parametrize("coupled", [0, 5, P])
@pytest.mark.parametrize("name", PENALTIES)
class TestMinima:
    """Of models with a matrix over some columns, others alone, and terms over all."""

    def draw(self, name, coupled, seed=2):
        rng = np.random.default_rng(seed)
        family, model = PENALTIES[name], draw_quadratic(rng, coupled, lossless=coupled == P)
        return family, model, *draw_start(rng, model, family)

    def test_passes_alone(self, name, coupled):
        family, model, coef, slope, at_zero = self.draw(name, coupled)
        own = of(family).columns
        if isinstance(family, GroupFamily):
            own = minimize.with_matrices(own, minimize._blocks(model, own), None)
        passes, unit = passes_of(family.formulas), np.linspace(0.5, 2.0, P)
        largest = passes(model, coef, slope, own, unit, 1e-11, 10_000)
        assert largest <= 1e-11
        check_minimum(model, family, coef, slope, at_zero)

    @pytest.mark.thorough(but=r"-8\]")
    @pytest.mark.parametrize("quick", [0.0, 1.0], ids=["and steps", "first"])
    def test_passes_and_steps(self, name, coupled, quick, monkeypatch):
        """Newton's steps whenever passes may be followed by them, and where these are slow."""
        monkeypatch.setattr(minimize, "QUICK", quick)
        monkeypatch.setattr(minimize, "LEAST_PASSES", 1)
        monkeypatch.setattr(minimize, "MOST_PASSES", 1)
        family, model, coef, slope, at_zero = self.draw(name, coupled)
        found = minimize_on_model(model, of(family), EVERY, coef, slope, np.ones(P), 1e-11)
        check_minimum(model, family, found, slope, at_zero)

    def test_the_unit_is_that_of_moves(self, name, coupled):
        """Of the first pass: with units as large as the largest move, it is the last."""
        family, model, coef, slope, _ = self.draw(name, coupled)
        own = of(family).columns
        if isinstance(family, GroupFamily):
            own = minimize.with_matrices(own, minimize._blocks(model, own), None)
        passes, once = passes_of(family.formulas), coef.copy()
        largest = passes(model, once, slope.copy(), own, np.ones(P), 0.0, 1)
        steep = model.curvature.copy()
        if "sparse" in name:  # blocks, which such a curvature majorizes
            for g in range(2):
                block = whole_of(model)[np.ix_(g == GROUP, g == GROUP)]
                steep[g == GROUP] = np.linalg.eigvalsh(block)[-1]
        moved = np.abs(once - coef) * steep
        assert largest == pytest.approx(moved.max(), rel=1e-12)
        passes(model, coef, slope, own, np.full(P, largest), 1.0 + 1e-9, 100)
        np.testing.assert_array_equal(coef, once)


@pytest.mark.parametrize("name", ["lasso", "elastic net", "bounds"])
def test_steps_on_supports_are_newtons(name, monkeypatch):
    """By Woodbury's identity where a model is a diagonal and terms, as by its matrix."""
    rng, family = np.random.default_rng(3), PENALTIES[name]
    model = draw_quadratic(rng, coupled=0, n_terms=2)
    coef, slope, _ = draw_start(rng, model, family)
    coef[[0, 5]] = 0.0
    penalty, solves = of(family), []
    low_rank = by_terms
    monkeypatch.setattr(minimize, "by_terms", lambda *call: solves.append(1) or low_rank(*call))
    ends = []
    for form in (model, Quadratic.of_matrix(whole_of(model), model.curvature)):
        at, left = coef.copy(), slope.copy()
        assert minimize._support_step(form, penalty, penalty.columns, at, left) > 0
        np.testing.assert_allclose(left, slope - whole_of(model) @ (at - coef), atol=1e-10)
        ends.append(at)
    assert len(solves) == 1
    np.testing.assert_allclose(*ends, rtol=1e-10)
    assert (ends[0] != coef).any() and (ends[0][coef == 0] == 0).all()
    assert (np.sign(ends[0]) * np.sign(coef) >= 0).all()
    np.testing.assert_array_equal(family.clip(ends[0]), ends[0])


@pytest.mark.parametrize("weak", [[], [3], [0, 3]], ids=len)
def test_woodbury(weak):
    """As by the matrix, also where the diagonal does not hold some columns."""
    rng = np.random.default_rng(4)
    share, rows, slope = 1.0 + rng.random(P), rng.normal(size=(P, 4)), rng.normal(size=P)
    share[weak] = -1e-15  # by rounding
    sign, scale = np.array([1.0, -1.0, 1.0, -1.0]), 10.0 ** rng.integers(-6, 7, size=P)
    rows[:, sign < 0] *= 0.05
    matrix, root = np.diag(share) + rows @ np.diag(sign) @ rows.T, np.sqrt(scale)
    solve = by_terms(share, scale, (rows.T * root).T, sign)
    for right in (slope, rng.normal(size=(P, 3))):
        expected = (np.linalg.solve(matrix, right).T / root).T
        error = 1e-7 if weak else 1e-10  # `REGULAR` holds those a little
        np.testing.assert_allclose(solve((right.T * root).T), expected, rtol=error)
    if not weak:
        alone = by_terms(share, scale, np.empty((P, 0)), np.empty(0))
        np.testing.assert_allclose(alone(slope), slope / (share * scale), rtol=1e-12)
    for size in (1.0, 30.0, 1000.0):
        terms = rows * np.where(sign < 0, np.sqrt(size), 1.0)
        least = np.linalg.eigvalsh(np.diag(share) + (terms * sign) @ terms.T)[0]
        found = by_terms(share, scale, (terms.T * root).T, sign)
        assert (found is not None) == (least > 0)
    assert least < 0


@pytest.mark.parametrize("bend", [1e-3, 0.0, -0.1], ids=["held", "free", "concave"])
def test_steps_where_the_diagonal_holds_nothing(bend, monkeypatch):
    """By the matrix: digits of terms would not suffice; none where the penalty is concave."""
    rng, calls = np.random.default_rng(5), []
    model = draw_quadratic(rng, coupled=0, n_terms=2)
    model = model._replace(alone=np.full(P, bend), rows=rng.normal(size=(P, 2)), sign=np.ones(2))
    model = model._replace(curvature=np.diagonal(whole_of(model)).copy())
    penalty = of(PENALTIES["lasso"])
    coef, slope, _ = draw_start(rng, model, PENALTIES["lasso"])
    for name in ("by_terms", "by_matrix"):
        plain = getattr(minimize, name)
        monkeypatch.setattr(
            minimize, name, lambda *call, n=name, f=plain: calls.append(n) or f(*call)
        )
    minimize._support_step(model, penalty, penalty.columns, coef, slope)
    assert calls == {1e-3: ["by_terms"], 0.0: ["by_matrix"], -0.1: []}[bend]


@pytest.mark.parametrize(("coupled", "of_terms"), [(5, 2 * 3), (0, P + 3)])
def test_what_a_pass_costs(coupled, of_terms):
    """With more for terms beside a matrix, passes were too few where it is not quite convex."""
    model = draw_quadratic(np.random.default_rng(0), coupled)
    assert minimize._costs(model, 3)[0] == coupled * 3 + 6 * of_terms


@pytest.mark.parametrize("first", minimize.FIRST_TO_STOP)
def test_newton_knows_which_coefficients_stop(first):
    """Those within are at the optimum beside those at their ends, whatever became of these."""
    rng = np.random.default_rng(6)
    half = rng.normal(size=(60, 1)) + 0.3 * rng.normal(size=(60, 40))
    matrix, slope = half.T @ half, 8.0 * rng.normal(size=40)
    low = np.where(rng.random(40) < 0.2, -0.01, -np.inf)
    solve = by_matrix(matrix.copy())
    free = solve(slope)
    np.testing.assert_allclose(free, np.linalg.solve(matrix, slope), rtol=1e-8)
    step = minimize._within(solve, slope, low, np.full(40, np.inf), first)
    inside = step > low
    assert 2 < (~inside).sum() < 9 and (step >= low).all()
    assert ((free < low) != ~inside).any()  # others, once some had stopped
    expected = slope[inside] - matrix[np.ix_(inside, ~inside)] @ step[~inside]
    expected = np.linalg.solve(matrix[np.ix_(inside, inside)], expected)
    np.testing.assert_allclose(step[inside], expected, rtol=1e-8)


@pytest.mark.parametrize("start", [0.0, 1.0])
def test_columns_leave_that_rows_cannot_tell_apart(start):
    """Passes alone would need thousands, and steps along some of the columns end nowhere.

    Of many that are not zero, to stop a tenth at a time gains nothing.
    """
    rng, n, p = np.random.default_rng(8), 120, 200
    half = rng.normal(size=(n, p)) * 10.0 ** np.linspace(0, -3, n)[:, None]
    coef = start * rng.normal(size=p)
    model, target = Quadratic.of_matrix(half.T @ half), rng.normal(size=p)
    gradient = half.T @ (half @ (target - coef))
    penalty = ElasticNet(1.0).at(1e-4, np.ones(p), np.zeros(p, bool))
    found = minimize_on_model(model, penalty, np.arange(p), coef, gradient, np.ones(p), 1e-8)
    assert penalty.violation(found, gradient).max() <= 1e-7
    assert np.count_nonzero(found) <= n


def test_near_duplicates_take_one_step():
    """One of two stops at zero: if the other went on as far as it would, all would be worse."""
    rng = np.random.default_rng(7)
    half = np.repeat(rng.normal(size=(50, 6)), 2, axis=1) + 1e-3 * rng.normal(size=(50, 12))
    matrix, penalty = half.T @ half, ElasticNet(1.0).at(2.0, np.ones(12), np.zeros(12, bool))
    coef, step = np.full(12, 0.5), np.array([1.0, -1.0] + 5 * [0.1, -0.1])
    gradient = 2.0 + matrix @ step
    minimize._support_step(Quadratic.of_matrix(matrix), penalty, penalty.columns, coef, gradient)
    assert coef[1] == 0.0
    np.testing.assert_allclose(coef[0], 1.0, atol=0.01)


def test_a_group_near_zero_keeps_no_other_from_its_step():
    """Newton's step would take the group through zero, where its norm has a kink."""
    rng, group = np.random.default_rng(9), np.repeat(np.arange(4), 5)
    matrix, is_near = draw_definite(rng, 20), group == 0
    penalty = GroupFamily(group, np.ones(4)).at(1.0, np.ones(20), np.zeros(20, bool))
    coef = np.where(is_near, 1e-7, rng.normal(size=20))
    gradient, own = rng.normal(size=20) - 40.0 * is_near, penalty.of_columns(np.arange(20))
    before, left = coef.copy(), gradient.copy()

    def largest(coef, gradient):
        return np.abs(gradient - penalty.pieces(coef, own).right)[~is_near].max()

    minimize._support_step(Quadratic.of_matrix(matrix), penalty, own, coef, left)
    change = coef - before
    gain = gradient @ change - 0.5 * change @ matrix @ change
    assert gain > penalty.value(coef) - penalty.value(before)
    assert largest(coef, left) < 0.2 * largest(before, gradient)


@pytest.mark.parametrize("n_terms", [0, 2])
def test_singular_models_end(n_terms):
    """Columns that are the same, of which passes take the first."""
    rng, family = np.random.default_rng(5), ElasticNet(1.0)
    half = rng.normal(size=(20, 4))
    half = np.hstack([half, half])
    model = Quadratic.of_matrix(half.T @ half)
    model = model._replace(rows=np.zeros((P, n_terms)), sign=np.ones(n_terms))
    slope = half.T @ rng.normal(size=20)
    coef, left = np.zeros(P), slope.copy()
    found = minimize_on_model(model, of(family), EVERY, coef, left, np.ones(P), 1e-10)
    check_minimum(model, family, found, left, slope)


def test_newtons_steps_where_columns_are_the_same_or_nearly():
    """A singular model of columns next to equal, for which passes need millions."""
    rng = np.random.default_rng(6)
    X = np.ones((40, 1)) + 1e-4 * rng.normal(size=(40, 9))
    X = np.hstack([X, X[:, ::3], X[:, :4] + 0.5 * X[:, 4:8]]) * 10.0 ** rng.uniform(-3, 3, 16)
    model, y = Quadratic.of_matrix(X.T @ X), rng.normal(size=40)
    penalty = ElasticNet(1.0).at(0.0, np.ones(16), np.zeros(16, bool))
    unit, slope = np.sqrt(model.curvature), X.T @ y
    start = np.zeros(16), slope.copy(), unit
    # directions of nearly no curvature: fitted values are 1e5 times further off than slopes
    found = minimize_on_model(model, penalty, np.arange(16), *start, 1e-11)
    assert (np.abs(slope - model.matrix @ found) / unit).max() <= 1e-7
    nearest = X @ (np.linalg.lstsq(X / unit, y, rcond=None)[0] / unit)
    np.testing.assert_allclose(X @ found, nearest, atol=1e-6)


def test_indefinite_models_have_no_step():
    """Whose minimum would be at infinity; secants make such ones."""
    for matrix in (np.array([[1.0, 2.0], [2.0, 1.0]]), np.diag([1.0, -1.0])):
        assert by_matrix(matrix) is None
    solve, slope = by_matrix(np.array([[1.0, 2.0], [2.0, 4.0]])), np.array([2.0, 4.0])
    np.testing.assert_allclose(solve(slope) @ [1.0, 2.0], 2.0, rtol=1e-9)


def test_small_moves_of_a_block_in_unlike_units_are_no_end():
    """All of its columns move by the curvature of the steepest."""
    rng = np.random.default_rng(7)
    scale = 10.0 ** np.linspace(0.0, 4.0, P)
    root = rng.normal(size=(20, P)) * scale
    model, family = (
        Quadratic.of_matrix(root.T @ root),
        GroupFamily(np.zeros(P, int), np.ones(1), 0.5),
    )
    penalty, slope, unit = of(family), 5.0 * scale * rng.normal(size=P), np.sqrt(model.curvature)
    least = 0.02 * (np.abs(slope) / unit).max()
    found = minimize_on_model(model, penalty, EVERY, np.zeros(P), slope.copy(), unit, least)
    left = penalty.violation(found, slope - model.matrix @ found)
    assert (left / unit).max() <= P * least


def test_small_moves_of_columns_with_a_common_part_are_no_end():
    """The slopes that all of them leave together are larger."""
    rng, n, p, least = np.random.default_rng(0), 400, 60, 1e-2
    half = 2.0 * rng.normal(size=(n, 1)) + rng.normal(size=(n, p))
    model, slope = Quadratic.of_matrix(half.T @ half / n), rng.normal(size=p)
    slope = half.T @ (half @ slope + rng.normal(size=n)) / n
    penalty = ElasticNet(1.0).at(0.01, np.ones(p), np.zeros(p, bool))
    start = np.zeros(p), slope.copy(), np.ones(p)
    found = minimize_on_model(model, penalty, np.arange(p), *start, least)
    left = penalty.violation(found, slope - model.matrix @ found)
    assert left.max() <= 3.0 * least


def test_newton_ends_what_passes_leave_however_large(monkeypatch):
    """Columns next to equal, for which passes need thousands of rounds, and no work to spare."""
    monkeypatch.setattr(minimize, "MOST_WORK", 0.0)
    rng = np.random.default_rng(5)
    half = rng.normal(size=(40, 1)) + 1e-3 * rng.normal(size=(40, 30))
    matrix, slope, every = half.T @ half, rng.normal(size=30), np.arange(30)
    penalty = ElasticNet(0.0).at(1e-6, np.ones(30), np.zeros(30, bool))
    start = np.full(30, 0.1), slope.copy(), np.ones(30)
    found = minimize_on_model(Quadratic.of_matrix(matrix), penalty, every, *start, 1e-12)
    # `slope` is that of the model at the start
    expected = np.linalg.solve(matrix + 1e-6 * np.eye(30), slope + matrix @ np.full(30, 0.1))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


class Known:
    """`contract.Operations` of which M is known; what was asked for."""

    def __init__(self, matrix, plain=None, room=None, counts=None):
        self._matrix, self._plain = matrix, 2.0 * np.diagonal(matrix) if plain is None else plain
        self._room, self._counts, self.asked, self.n_rows = room, counts, [], []

    def curvature(self, columns):
        self.asked.append("curvature")
        return np.column_stack([np.diagonal(self._matrix), self._plain])[columns], 1.0

    def matrix(self, columns, known):
        self.asked.append("matrix")
        return self._matrix[np.ix_(columns[known:], columns)].copy()

    def factor(self, columns, known):
        self.asked.append("factor")
        half = np.linalg.cholesky(self._matrix + np.eye(P))  # less as much, by signs
        rows, new = np.hstack([half, np.eye(P)]), columns[known:]
        return rows[new], np.repeat((1.0, -1.0), P), np.diagonal(self._matrix)[new]

    def sample(self, columns, n_rows):
        self.asked.append("sample")
        self.n_rows.append(n_rows)
        return 1e-3 * self._matrix[np.ix_(columns, columns)]

    def count(self, columns):
        self.asked.append("count")
        return self._counts


def take(kind, matrix, columns, known=None, pairs=None):
    """A model of columns, and what it has asked for."""
    known = Known(matrix) if known is None else known
    pairs = Secants() if pairs is None else pairs
    return serve(known, kind.take(len(matrix), pairs, columns, columns)), known


def draw_loan(rng, columns):
    """Of a matrix over some columns, others alone, and terms."""
    model = draw_quadratic(rng, coupled=4, p=len(columns), lossless=True)
    scaled = model.weight * model.matrix
    scaled[np.diag_indices(4)] += model.alone[:4]
    base = np.append(np.diagonal(scaled), model.alone[4:])
    return Loan(columns, base, scaled, model.rows, model.sign), whole_of(model)


HALF = np.array([5, 0, 3, 6])
REST = np.array([1, 2, 7, 4])


class TestBases:
    def test_diagonals(self):
        matrix = draw_definite(np.random.default_rng(6), P)
        model, known = take(Diagonal, matrix, HALF)
        expected = np.diag(np.diagonal(matrix)[HALF])
        np.testing.assert_allclose(in_full(model.quadratic()), expected, rtol=1e-14)
        curvature = np.column_stack([np.diagonal(matrix), np.full(P, 9.0)])
        own = Diagonal.of(Secants(), HALF, curvature)
        np.testing.assert_array_equal(in_full(own.quadratic()), in_full(model.quadratic()))
        assert known.asked == ["curvature"] and not model.is_matrix
        np.testing.assert_array_equal(model.lacks(EVERY), np.sort(REST))
        violation = np.arange(1.0, 1.0 + P)
        outside = np.where(np.isin(EVERY, HALF), 0.0, violation)
        np.testing.assert_array_equal(model.outside(violation), outside)

    @pytest.mark.parametrize("kind", [OwnMatrix, FactoredMatrix])
    def test_matrices_grow(self, kind):
        """And are those of all columns at once."""
        matrix = draw_definite(np.random.default_rng(7), P)
        model, known = take(kind, matrix, HALF)
        serve(known, model.extend(REST))
        every = np.concatenate([HALF, REST])
        np.testing.assert_array_equal(model.columns, every)
        expected = matrix[np.ix_(every, every)]
        error = 1e-14 if kind is FactoredMatrix else 0.0  # whose signs cancel
        np.testing.assert_allclose(in_full(model.quadratic()), expected, rtol=1e-14, atol=error)
        assert set(known.asked) == {"matrix" if kind is OwnMatrix else "factor"}
        assert model.is_matrix

    def test_samples_keep_their_columns(self):
        """Of all columns it has the true curvature; later ones stand alone."""
        matrix = draw_definite(np.random.default_rng(8), P)
        model, known = take(SampledMatrix, matrix, HALF)
        serve(known, model.extend(REST))
        every, n = np.concatenate([HALF, REST]), len(HALF)
        expected = np.diag(np.diagonal(matrix)[every])
        inside = models.KEPT * matrix[np.ix_(HALF, HALF)]
        np.fill_diagonal(inside, np.diagonal(matrix)[HALF])
        expected[:n, :n] = inside
        np.testing.assert_allclose(in_full(model.quadratic()), expected, rtol=1e-13)
        assert known.asked.count("sample") == 1
        assert known.n_rows == [models.ROWS_A_COLUMN * n]

    @pytest.mark.parametrize("kind", [Diagonal, SampledMatrix])
    def test_columns_that_are_known_join_for_nothing(self, kind):
        known = Known(draw_definite(np.random.default_rng(36), P))
        model = serve(known, kind.take(P, Secants(), HALF, EVERY))
        asked = list(known.asked)
        assert asked == (["curvature"] if kind is Diagonal else ["sample", "curvature"])
        serve(known, model.extend(REST))
        assert known.asked == asked and set(model.columns) == {*EVERY}

    @pytest.mark.parametrize("scale", [1e-3, 1e3])
    @pytest.mark.parametrize("kind", [Diagonal, SampledMatrix, OwnMatrix])
    def test_bases_of_another_size(self, kind, scale):
        """The first pair shows it; columns that join later are of that size, too."""
        rng, pairs = np.random.default_rng(37), Secants()
        matrix = draw_definite(rng, P)
        model, known = take(kind, matrix, HALF, pairs=pairs)
        step = np.where(np.isin(EVERY, HALF), rng.normal(size=P), 0.0)
        pairs.learn(step, scale * matrix @ step, 1.0)
        model.quadratic()
        serve(known, model.extend(REST))
        ratio = model.curvature / np.diagonal(matrix)[model.columns]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
        assert 0.1 < ratio[0] / scale < 10.0

    @pytest.mark.parametrize("kind", [Diagonal, SampledMatrix, OwnMatrix])
    def test_lost_curvature(self, kind):
        """A column goes without its second term, and alone, once it has to move."""
        matrix = draw_definite(np.random.default_rng(9), P)
        matrix[3, 3] = 0.0
        known = Known(matrix, np.where(EVERY == 3, 4.0, 9.0))
        model, _ = take(kind, matrix, HALF, known)
        serve(known, model.loosen(np.zeros(P)))
        assert not model.loose.any() and model.curvature[2] == 0.0
        serve(known, model.loosen(np.ones(P)))
        np.testing.assert_array_equal(model.loose, [False, False, True, False])
        whole = in_full(model.quadratic())
        np.testing.assert_array_equal(whole[2], [0.0, 0.0, 4.0, 0.0])
        np.testing.assert_array_equal(whole[:, 2], whole[2])
        serve(known, model.extend(REST))
        model._secants.learn(np.ones(P), np.linspace(1.0, 2.0, P), 1.0)
        assert not np.delete(in_full(model.quadratic())[2], 2).any()

    @pytest.mark.parametrize("kind", [Diagonal, SampledMatrix, OwnMatrix])
    def test_columns_that_violate_join(self, kind):
        matrix = draw_definite(np.random.default_rng(10), P)
        model, known = take(kind, matrix, HALF)
        n_asked, violation = len(known.asked), np.where(EVERY == 7, 0.5, 0.0)
        assert serve(known, model.cover(REST, np.zeros(P), P, None))
        assert len(known.asked) == n_asked and len(model.columns) == len(HALF)
        assert serve(known, model.cover(REST, violation, P, None))
        assert set(model.columns) == {*EVERY}
        is_matrix, most = kind is not Diagonal, len(HALF) + 1
        model, known = take(kind, matrix, HALF)
        assert serve(known, model.cover(REST, violation, most, None)) != is_matrix

    def test_stiffer(self):
        matrix = draw_definite(np.random.default_rng(12), P)
        model, _ = take(SampledMatrix, matrix, EVERY)
        before = in_full(model.quadratic())
        model.stiffen()
        added = in_full(model.quadratic()) - before
        np.testing.assert_allclose(added, np.diag(np.diagonal(matrix)), rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("kind", [Diagonal, SampledMatrix, OwnMatrix])
    def test_stiffer_with_pairs(self, kind):
        rng, pairs = np.random.default_rng(22), Secants()
        matrix = draw_definite(rng, P)
        model, _ = take(kind, matrix, EVERY, pairs=pairs)
        model.stiffen()
        for step in rng.normal(size=(3, P)):
            pairs.learn(step, 1.2 * matrix @ step, 1.0)
        whole = in_full(model.quadratic())
        np.testing.assert_allclose(whole @ step, 1.2 * matrix @ step, rtol=1e-8, atol=1e-8)
        assert np.linalg.eigvalsh(whole).min() > 0


def test_what_stands_alone():
    matrix = draw_definite(np.random.default_rng(13), 4)
    curvature, lost = np.arange(1.0, 6.0), np.array([False, True, False, False])
    expected = np.where(lost | lost[:, None], 0.0, matrix)
    np.fill_diagonal(expected, curvature[:4])
    stand_alone(matrix, lost, curvature)
    np.testing.assert_array_equal(matrix, expected)


@pytest.mark.parametrize("rank", [1, 3, 20])
def test_samples_are_scaled(rank):
    """To the curvature of all rows, and stay convex; what a sample does not see stands alone."""
    rng = np.random.default_rng(14)
    sample, curvature = 7.0 * draw_definite(rng, P, rank), 1.0 + rng.random(P)
    sample[2], sample[:, 2], curvature[5] = 0.0, 0.0, 0.0
    found = scaled_to(sample, curvature)
    np.testing.assert_array_equal(np.diagonal(found), curvature)
    assert np.linalg.eigvalsh(found).min() >= -1e-12
    own = np.diagonal(sample)
    for a, b in product(range(P), repeat=2):
        if a != b:
            size = own[a] * own[b] and np.sqrt(curvature[a] * curvature[b] / (own[a] * own[b]))
            assert found[a, b] == pytest.approx(models.KEPT * sample[a, b] * size, abs=1e-12)
    assert not np.delete(found[2], 2).any() and not found[5].any()


class TestLoans:
    """A share of a model, with columns that are fixed, and others that it lacks."""

    @pytest.mark.parametrize("weight", [1.0, 0.3])
    @pytest.mark.parametrize("fixed", [[], [7], [0, 4], [2]])
    def test_they_are_the_model(self, fixed, weight):
        rng, columns = np.random.default_rng(15), np.array([6, 0, 2, 7, 1, 4])
        loan, whole = draw_loan(rng, columns)
        is_fixed = np.isin(EVERY, fixed)
        model = LentModel(P, Secants(), loan, weight, is_fixed)
        kept = np.flatnonzero(~is_fixed[columns])
        np.testing.assert_array_equal(model.columns, columns[kept])
        found = in_full(model.quadratic())
        np.testing.assert_allclose(found, weight * whole[np.ix_(kept, kept)], rtol=1e-12)

    @pytest.mark.parametrize("kind", [Diagonal, SampledMatrix, OwnMatrix, FactoredMatrix])
    def test_lent_and_taken(self, kind):
        """Without columns of no curvature; with what the lender has learned."""
        rng = np.random.default_rng(16)
        matrix = draw_definite(rng, P)
        matrix[3] = matrix[:, 3] = 0.0
        pairs = Secants()
        model, known = take(kind, matrix, HALF, pairs=pairs)
        serve(known, model.extend(REST))
        for step in rng.normal(size=(5, P)):
            pairs.learn(step, 1.5 * matrix @ step, 1.0)
        loan, has = model.lent(), model.columns != 3
        np.testing.assert_array_equal(loan.columns, model.columns[has])
        taken = LentModel(P, Secants(), loan, 1.0, np.zeros(P, bool))
        expected = in_full(model.quadratic())[np.ix_(has, has)]
        assert len(loan.sign) == 10
        np.testing.assert_allclose(in_full(taken.quadratic()), expected, rtol=1e-10, atol=1e-10)

    def test_they_stay_while_they_gain(self):
        """Where curvature alone would be taken in their place, which is worse."""
        loan, _ = draw_loan(np.random.default_rng(17), EVERY[:6])
        model, violation = LentModel(P, Secants(), loan, 1.0, np.zeros(P, bool)), np.ones(P)
        assert not any(model.is_stale(0.8 * violation, 1.0) for _ in range(5))
        assert model.is_stale(0.95 * violation, 1.0)

    def test_columns_that_join_stand_alone(self):
        rng, columns = np.random.default_rng(17), np.array([6, 0, 2, 7, 1, 4])
        (loan, whole), matrix = draw_loan(rng, columns), draw_definite(rng, P)
        model, fixed = LentModel(P, Secants(), loan, 1.0, np.zeros(P, bool)), np.zeros(P, bool)
        penalty = ElasticNet(1.0).at(L1, np.ones(P), fixed)
        violation = np.where(EVERY == 3, 1.0, 0.0)
        assert serve(Known(matrix), model.cover(np.array([3, 5, 6]), violation, P, penalty))
        np.testing.assert_array_equal(model.columns, [*columns, 3])
        expected = np.zeros((7, 7))
        expected[:6, :6], expected[6, 6] = whole, matrix[3, 3]
        np.testing.assert_allclose(in_full(model.quadratic()), expected, rtol=1e-12)


def draw_model(kind, rng, hessian, pairs):
    """A model of some base whose matrix is far from the Hessian."""
    if kind is not LentModel:
        wrong = hessian + 3.0 * draw_definite(rng, P)
        return take(kind, wrong, EVERY, pairs=pairs)[0]
    loan, _ = draw_loan(rng, EVERY)
    return LentModel(P, pairs, loan, 0.4, np.zeros(P, bool))


KINDS = [Diagonal, SampledMatrix, OwnMatrix, FactoredMatrix, LentModel]


class TestSecants:
    """On a Hessian that is known."""

    def draw(self, kind, n_pairs=7, scale=1.0):
        rng, pairs = np.random.default_rng(18), Secants()
        hessian = draw_definite(rng, P)
        model = draw_model(kind, rng, scale * hessian, pairs)
        for step in rng.normal(size=(n_pairs, P)):
            pairs.learn(step, hessian @ step, 1.0)
        return model, hessian, pairs, rng

    @pytest.mark.thorough(but=r"1\.0-7|1000\.0-1\]")
    @pytest.mark.parametrize("n_pairs", [1, 7, 3 * PAIRS])
    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
    @pytest.mark.parametrize("kind", KINDS)
    def test_the_last_pair_holds(self, kind, scale, n_pairs):
        model, _, pairs, _ = self.draw(kind, n_pairs, scale)
        whole, (step, change, *_) = in_full(model.quadratic()), pairs.pairs[-1]
        np.testing.assert_allclose(whole @ step[model.columns], change[model.columns], atol=1e-6)
        np.testing.assert_allclose(whole, whole.T, atol=1e-8 * np.abs(whole).max())
        assert np.linalg.eigvalsh(whole).min() > 0
        assert len(pairs.pairs) == min(n_pairs, PAIRS)

    @pytest.mark.parametrize("kind", KINDS)
    def test_every_pair_is_an_update(self, kind):
        """Of Broyden, Fletcher, Goldfarb and Shanno, written out; taken one by one or at once."""
        model, hessian, pairs, rng = self.draw(kind, 1)
        expected = in_full(model.quadratic())
        for step in rng.normal(size=(3, P)):
            change, product = hessian @ step, expected @ step
            expected = expected + np.outer(change, change) / (step @ change)
            expected -= np.outer(product, product) / (step @ product)
            pairs.learn(step, change, 1.0)
            np.testing.assert_allclose(in_full(model.quadratic()), expected, rtol=1e-9, atol=1e-9)
        at_once, *_, later, _ = self.draw(kind, 0)
        for pair in pairs.pairs:
            later.learn(*pair[:2], 1.0)
        np.testing.assert_allclose(in_full(at_once.quadratic()), expected, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("kind", KINDS)
    def test_old_pairs_go(self, kind):
        """Where each was taken in when it came, as where all are at once; many at a time."""
        model, hessian, pairs, rng = self.draw(kind, 0)
        own, stores = len(model.quadratic().sign), []
        for step in rng.normal(size=(3 * PAIRS, P)):
            pairs.learn(step, hessian @ step, 1.0)
            found = model.quadratic()
            assert len(found.sign) <= own + 3 * PAIRS
            if model._learnt not in stores:
                stores.append(model._learnt)
        assert 1 < len(stores) <= 5  # else all would be written anew each time
        np.testing.assert_allclose(in_full(found) @ step, hessian @ step, rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("bend", [0.0, -1.0, 1e-6])
    @pytest.mark.parametrize("kind", KINDS)
    def test_it_stays_convex(self, kind, bend):
        """Where slopes changed the wrong way, or hardly; by so much and no more."""
        model, _, pairs, _ = self.draw(kind)
        step, change, *_ = pairs.pairs[0]
        before = step @ in_full(model.quadratic()) @ step
        pairs.learn(step, bend * change, 1.0)
        whole = in_full(model.quadratic())
        assert np.linalg.eigvalsh(whole).min() > 0
        assert step @ whole @ step == pytest.approx(DAMPING * before, rel=1e-6)

    @pytest.mark.parametrize("kind", KINDS)
    def test_unknown_slopes_are_as_expected(self, kind):
        model, hessian, pairs, rng = self.draw(kind)
        before, step = in_full(model.quadratic()), rng.normal(size=P)
        step[[2, 6]] = 0.0
        change, is_known = hessian @ step, ~np.isin(EVERY, [2, 6])
        pairs.learn(step, np.where(is_known, change, np.nan), 1.0)
        after = in_full(model.quadratic())
        expected = np.where(is_known, change, before @ step)
        np.testing.assert_allclose(after @ step, expected, rtol=1e-8, atol=1e-8)
        assert np.linalg.eigvalsh(after).min() > 0

    def test_pairs_of_other_columns(self):
        """One that is due to columns which the model lacks says nothing, and few change little."""
        rng, pairs = np.random.default_rng(19), Secants()
        hessian = draw_definite(rng, P)
        model, _ = take(Diagonal, hessian, HALF, pairs=pairs)
        before = in_full(model.quadratic())
        elsewhere = np.where(np.isin(EVERY, HALF), 0.0, rng.normal(size=P))
        pairs.learn(elsewhere, hessian @ elsewhere, 1.0)
        np.testing.assert_array_equal(in_full(model.quadratic()), before)
        here = np.where(np.isin(EVERY, HALF), rng.normal(size=P), 0.0)
        pairs.learn(here, hessian @ here, 1.0)
        after = in_full(model.quadratic())
        np.testing.assert_allclose(after @ here[HALF], (hessian @ here)[HALF], rtol=1e-9)

    def test_pairs_that_are_mostly_due_to_others(self):
        rng, pairs = np.random.default_rng(33), Secants()
        hessian = draw_definite(rng, P)
        model, _ = take(Diagonal, hessian, HALF, pairs=pairs)
        before = in_full(model.quadratic())
        step = np.where(np.isin(EVERY, HALF), 0.1, 1.0)
        pairs.learn(step, hessian @ step, 1.0)
        np.testing.assert_array_equal(in_full(model.quadratic()), before)

    @pytest.mark.parametrize("kind", [Diagonal, SampledMatrix, OwnMatrix])
    def test_columns_that_join_know_no_pair(self, kind):
        """What others have learnt stays; and the next pair is of all."""
        rng, pairs = np.random.default_rng(34), Secants()
        hessian, n = draw_definite(rng, P), len(HALF)
        model, known = take(kind, 2.0 * hessian, HALF, pairs=pairs)
        for step in rng.normal(size=(3, P)):
            step[REST] = 0.0
            pairs.learn(step, hessian @ step, 1.0)
        before = in_full(model.quadratic())
        serve(known, model.extend(REST))
        after = in_full(model.quadratic())
        np.testing.assert_allclose(after[:n, :n], before, rtol=1e-9, atol=1e-9)
        alone = np.diag(2.0 * np.diagonal(hessian)[REST])
        if kind is not OwnMatrix:
            np.testing.assert_allclose(after[n:, n:], alone, rtol=1e-9)
        assert np.linalg.eigvalsh(after).min() > 0
        step = rng.normal(size=P)
        pairs.learn(step, hessian @ step, 1.0)
        whole, columns = in_full(model.quadratic()), model.columns
        np.testing.assert_allclose(whole @ step[columns], (hessian @ step)[columns], rtol=1e-8)

    def test_columns_without_curvature_take_no_part(self):
        rng, pairs = np.random.default_rng(20), Secants()
        hessian = draw_definite(rng, P)
        hessian[3] = hessian[:, 3] = 0.0
        model, _ = take(OwnMatrix, hessian, EVERY, pairs=pairs)
        for step in rng.normal(size=(4, P)):
            pairs.learn(step, 2.0 * hessian @ step + 0.1 * (EVERY == 3), 1.0)
        assert not in_full(model.quadratic())[3].any()

    def test_a_matrix_that_knows_the_last_pair_begins_anew(self):
        """Pairs from afar would spoil it; others are all it has to be corrected by."""
        for scale, left in ((1.0, 0), (3.0, 5)):
            _, hessian, pairs, _ = self.draw(Diagonal, 5)
            take(OwnMatrix, scale * hessian, EVERY, pairs=pairs)
            assert len(pairs.pairs) == left

    def test_what_is_remembered(self):
        pairs, step = Secants(), np.ones(P)
        pairs.learn(step, step, 0.0)
        pairs.learn(0.0 * step, step, 1.0)
        assert not pairs.pairs and pairs.n_seen == 0
        for _ in range(PAIRS + 3):
            pairs.learn(step, step, 0.5)
        assert len(pairs.pairs) == PAIRS and pairs.n_seen == PAIRS + 3
        for n_applied, new in ((0, PAIRS), (PAIRS, 3), (PAIRS + 3, 0)):
            assert len(pairs.new_since(n_applied)) == new
        pairs.forget()
        assert not pairs.new_since(0)

    @pytest.mark.parametrize("correlation", [0.0, 0.9])
    def test_coupling(self, correlation):
        """What columns that move together say of a diagonal: the curvature of all over theirs."""
        rng, pairs = np.random.default_rng(21), Secants()
        root = np.sqrt(1.0 + rng.random(P))
        hessian = (correlation + (1.0 - correlation) * np.eye(P)) * np.outer(root, root)
        model, _ = take(Diagonal, hessian, EVERY, pairs=pairs)
        step = 1.0 / root
        pairs.see_coupling(model, step, step @ hessian @ step)
        assert pairs.coupling == pytest.approx(1.0 + correlation * (P - 1))
        assert pairs.is_coupled == (correlation > 0.5)

    def test_trouble(self):
        """Shortened searches in a row, or iterations that do not halve the residual; told once."""
        pairs, step = Secants(), np.ones(P)
        for share in [0.5] * (secants.SHORTENED - 1) + [1.0] + [0.5] * secants.SHORTENED:
            assert pairs.trouble(1.0) == (False, False)
            pairs.learn(step, step, share)
        assert pairs.trouble(0.4)[0] and not pairs.trouble(0.1)[0]
        told = [pairs.trouble(1.0)[1] for _ in range(2 * secants.SLOW + 2)]
        assert told.count(True) == 2 and not told[0]
        assert not any(Secants().trouble(0.3**k)[1] for k in range(1, 30))


def goal_under(penalty):
    return Goal(penalty, 1e-6, np.ones(P), np.ones(P), magnitude=1.0)


class Parabola:
    """`contract.Operations` of ``-sum (coef - 1)^2 / 2``, which has no value beyond `wall`."""

    def __init__(self, wall=np.inf):
        self.at, self._wall, self.tried = np.zeros(P), wall, []

    def _value(self, coef):
        self.tried.append(coef[0])
        return np.nan if coef[0] > self._wall else -0.5 * np.sum((coef - 1.0) ** 2)

    def attempt(self, coef, columns, longest):
        self._trial = coef
        return np.abs(coef - self.at).max(), self._value(coef)

    def shorten(self, share):
        self._trial = self.at + share * (self._trial - self.at)

    def evaluate_trial(self):
        return self._value(self._trial)

    def accept(self):
        self.at = self._trial

    def evaluate(self):
        return self._value(self.at)


@pytest.mark.parametrize(
    ("target", "wall", "tried"),
    [
        (1.5, np.inf, [1.5]),  # enough
        (4.0, np.inf, [4.0, 1.0]),  # the minimum, a quarter of the way
        (40.0, np.inf, [40.0, 4.0, 1.0]),  # no less than a tenth
        (1e13, np.inf, [1e13, 100.0, 10.0, 1.0]),  # which is no step of a fit
        (2.4, 2.0, [2.4, 1.2]),  # nothing is known of how it bends
        (-1.0, np.inf, None),  # away from it
    ],
)
def test_failed_trials_say_how_the_objective_bends(target, wall, tried):
    point, rows = Point(np.zeros(P), -0.5 * P, np.ones(P), 0.5 * P), Parabola(wall)
    goal = goal_under(ElasticNet(1.0).at(0.0, np.ones(P), np.zeros(P, bool)))
    share = serve(rows, search(point, goal, np.full(P, target), EVERY))
    if tried is None:
        assert share == 0.0 and rows.tried[-1] == 0.0 and not point.coef.any()
        return
    np.testing.assert_allclose(rows.tried, tried, rtol=1e-12)
    np.testing.assert_allclose(point.coef, rows.at)
    assert share == pytest.approx(tried[-1] / target) and point.shortened == (share < 1.0)
    assert point.objective == pytest.approx(0.5 * P * (tried[-1] - 1.0) ** 2)


CHEAP = Counts(1e3, 1e3, 1e6, 1e3, 0.0, True, 10**6)
DEAR = CHEAP._replace(pairs=1e11)  # hundreds of thousands of iterations
SHORT = CHEAP._replace(pairs=1e7, rows=40)  # 36 iterations
NEVER = CHEAP._replace(pairs=np.inf)
COUNTED, UNCOUNTED = Room(1e8), Room(1e8, counts=False)
WITHOUT_SAMPLES = COUNTED._replace(bases=("diagonal", "matrix"))


def draw_fit(rng, room=COUNTED, counts=CHEAP):
    """A fit at its start, in which all columns violate, its way, and what answers it."""
    known = Known(draw_definite(rng, P), counts=counts)
    return Point(np.zeros(P), -1.0, np.full(P, 10.0)), Way(room, Options()), known


def ask_for_model(point, way, known, residuals=(8.0,), stalls=False):
    goal = goal_under(of(PENALTIES["lasso"]))
    progress = DescentRecord(1e-6, list(residuals), stalled=stalls * PATIENCE // 2)
    return serve(known, way.have_model(point, goal, goal.violation(point), progress))


class TestChoice:
    @pytest.mark.parametrize(
        ("room", "counts", "kind"),
        [
            (COUNTED, CHEAP, OwnMatrix),
            (COUNTED, CHEAP._replace(is_exact=False), OwnMatrix),
            (COUNTED, CHEAP._replace(is_exact=False, pairs=1e9), Diagonal),
            (COUNTED, DEAR, Diagonal),
            (COUNTED, NEVER, Diagonal),
            (COUNTED, SHORT._replace(rows=2 * P), Diagonal),
            (COUNTED, SHORT._replace(rows=2 * P - 1), OwnMatrix),  # coupled by their number
            (COUNTED._replace(terms=2 * P), CHEAP, OwnMatrix),
            (COUNTED._replace(terms=0.7), CHEAP, FactoredMatrix),  # no column moves yet
            (COUNTED._replace(terms=0.8), CHEAP, OwnMatrix),
            (COUNTED._replace(terms=0.7), DEAR, Diagonal),
            (COUNTED._replace(bytes=0.0), None, Diagonal),
            (COUNTED._replace(bytes=costs.BYTES * (P - 1) ** 2), None, Diagonal),
            (COUNTED._replace(bases=("diagonal",)), None, Diagonal),
            (UNCOUNTED, None, Diagonal),
            (UNCOUNTED._replace(bases=("sample", "matrix")), None, SampledMatrix),
            (UNCOUNTED._replace(bases=("matrix",)), None, OwnMatrix),
        ],
    )
    def test_first(self, room, counts, kind):
        point, way, known = draw_fit(np.random.default_rng(23), room, counts)
        assert type(ask_for_model(point, way, known)) is kind
        assert ("count" in known.asked) == (counts is not None)
        np.testing.assert_array_equal(way.model.columns, EVERY)

    @pytest.mark.parametrize(
        ("n_moving", "terms", "kind"),
        [(P, 3, FactoredMatrix), (P, 4, OwnMatrix), (P // 2, 2, FactoredMatrix), (2, 2, OwnMatrix)],
    )
    def test_terms_that_cost_less(self, n_moving, terms, kind):
        """A pass by a matrix costs a row for a column that moves; by terms, the others, too."""
        point, way, known = draw_fit(np.random.default_rng(23), COUNTED._replace(terms=terms))
        point.coef[:n_moving] = 1.0
        assert type(ask_for_model(point, way, known)) is kind

    @pytest.mark.parametrize(
        ("room", "counts", "kind"),
        [
            (COUNTED, DEAR, SampledMatrix),
            (COUNTED, DEAR._replace(pairs=1e12), Diagonal),  # even that of a sample costs too much
            (COUNTED, SHORT, OwnMatrix),
            (COUNTED, DEAR._replace(rows=40), Diagonal),
            (COUNTED, SHORT._replace(pairs=1e8), Diagonal),
            (COUNTED, SHORT._replace(pairs=1e8, rows=P + 1), OwnMatrix),
            (COUNTED, DEAR._replace(rows=P - 1), OwnMatrix),  # curvatures would never end
            (COUNTED, CHEAP, OwnMatrix),
            (WITHOUT_SAMPLES, SHORT._replace(rows=10**6), OwnMatrix),
            (WITHOUT_SAMPLES, DEAR, Diagonal),
        ],
    )
    def test_columns_that_are_correlated(self, room, counts, kind):
        """A sample where it is much less than all rows, else the matrix, unless these cost more."""
        point, way, known = draw_fit(np.random.default_rng(24), room, counts)
        way.secants.coupling = 1.1 * secants.COUPLED
        assert type(ask_for_model(point, way, known)) is kind

    def test_an_iteration_costs_more_the_more_pairs_there_are(self, monkeypatch):
        """A fit that goes on and on by a diagonal takes a matrix sooner, and ends."""
        monkeypatch.setattr(costs, "COLUMN_OF_PAIR", 1e9 / P)
        change = costs.of_change(DEAR, P, 1)
        assert 50 < change < 150 < costs.of_change(DEAR, P, 0)
        for n_pairs, n_residuals, kind in (
            (1, 200, OwnMatrix),
            (1, 40, Diagonal),
            (0, 200, Diagonal),
        ):
            point, way, known = draw_fit(np.random.default_rng(42), counts=DEAR)
            for _ in range(n_pairs):
                way.secants.learn(np.ones(P), known._matrix @ np.ones(P), 1.0)
            residuals = np.geomspace(8.0, 7.0, n_residuals)
            assert type(ask_for_model(point, way, known, residuals)) is kind

    def test_a_matrix_that_costs_little(self):
        """Half an iteration: too much only where columns seem to be independent."""
        some = Counts(1e6, 1e6, 1e6, 1.2e6, 0.0, False, 10**6)
        extra = costs.of_matrix(some, P) - costs.ITERATIONS_BY_MATRIX
        assert ways.NOTHING < extra < ways.LITTLE
        for coupling, kind in ((1.0, Diagonal), (1.1 * secants.COUPLED, OwnMatrix)):
            point, way, known = draw_fit(np.random.default_rng(39), counts=some)
            way.secants.coupling = coupling
            assert type(ask_for_model(point, way, known)) is kind

    def test_few_columns_where_a_sample_is_no_small_one(self):
        """The worst of correlated ones, unless their own matrix costs too much."""
        for counts, coupling, n in (
            (SHORT, 1.1 * secants.COUPLED, 3),
            (SHORT._replace(pairs=1e8), 1.1 * secants.COUPLED, 3),
            (SHORT, 1.0, P),
            (DEAR, 1.1 * secants.COUPLED, P),
        ):
            point, way, known = draw_fit(np.random.default_rng(40), counts=counts)
            way.secants.coupling, way._first_choice = coupling, lambda point: 3
            point.gradient = 9.0 + np.arange(P)[::-1]
            model = ask_for_model(point, way, known)
            np.testing.assert_array_equal(model.columns, np.arange(n))

    def test_a_sample_that_does_not_serve(self):
        """A matrix follows where it costs less than what seems to be ahead."""
        some = Counts(1e7, 1e7, 1e7, 5e7, 0.0, False, 10**6)
        assert 7.0 < costs.of_matrix(some, P) < 9.0
        for residuals, kind in (
            ((8.0,), SampledMatrix),
            ((8.0, 6.0, 4.5, 3.5, 3.3, 3.2, 3.1, 3.0, 2.9, 2.8), OwnMatrix),
        ):
            point, way, known = draw_fit(np.random.default_rng(25), counts=some)
            way.secants.coupling = 1.1 * secants.COUPLED
            ask_for_model(point, way, known)
            assert type(way.model) is SampledMatrix
            for _ in range(1 + models.OLD):
                ask_for_model(point, way, known, residuals=residuals)
            assert type(way.model) is kind

    def test_a_path_pays_for_a_matrix(self):
        """What one fit would not, many penalties do."""
        some = Counts(1e6, 1e6, 1e6, 1e8, 0.0, False, 10**6)
        assert 4.0 < costs.of_matrix(some, P) < 4.0 * 50
        for penalties_left, kind in ((0, Diagonal), (50, OwnMatrix)):
            point, way, known = draw_fit(np.random.default_rng(26), counts=some)
            way.penalties_left = penalties_left
            assert type(ask_for_model(point, way, known)) is kind

    def test_a_model_that_serves_is_kept(self):
        """Until it gains too little, or nothing moves; a matrix that does not grow is not left."""
        point, way, known = draw_fit(np.random.default_rng(27))
        model = ask_for_model(point, way, known)
        assert ask_for_model(point, way, known, residuals=(999.0, 8.0)) is model
        assert ask_for_model(point, way, known, residuals=(999.0, 8.0), stalls=True) is not model
        known._counts, way.counts, model = DEAR, None, way.model
        for _ in range(2 + models.OLD):
            assert type(ask_for_model(point, way, known, residuals=(8.0, 7.9))) is OwnMatrix
        assert way.model is not model

    @pytest.mark.parametrize("is_exact", [True, False])
    def test_a_hessian_of_many_columns_is_of_one_point(self, is_exact):
        """It is taken anew as long as it gains too little, and never grows."""
        counts = SHORT._replace(rows=P, is_exact=is_exact)
        point, way, known = draw_fit(np.random.default_rng(42), counts=counts)
        point.gradient = np.where(EVERY < 6, 10.0, 0.0)
        model = ask_for_model(point, way, known)
        assert isinstance(model, OwnMatrix) and len(model.columns) == 6
        assert (ask_for_model(point, way, known, residuals=(20.0, 8.0)) is model) != is_exact
        assert ask_for_model(point, way, known, residuals=(999.0, 8.0)) is way.model
        model, point.gradient = way.model, np.full(P, 10.0)
        assert (ask_for_model(point, way, known, residuals=(999.0, 8.0)) is model) != is_exact
        assert len(way.model.columns) == P

    @pytest.mark.parametrize(("penalties_left", "is_kept"), [(0, True), (50, False)])
    def test_a_dear_matrix_serves_as_long_as_anything_is_gained(self, penalties_left, is_kept):
        """Unless others have use of another one, too."""
        some = Counts(1e6, 1e6, 1e6, 2e7, 0.0, False, 10**6)
        assert costs.of_matrix(some, P) > ways.DEAR
        point, way, known = draw_fit(np.random.default_rng(41), counts=some)
        way.penalties_left, way.secants.coupling = penalties_left, 1.1 * secants.COUPLED
        way.model = serve(known, OwnMatrix.take(P, way.secants, EVERY[:2], EVERY[:2]))
        way.most_columns = P - 1
        point.gradient = np.where(EVERY < 6, 10.0, 0.0)
        model = ask_for_model(point, way, known, stalls=True)
        for _ in range(1 + models.OLD):
            found = ask_for_model(point, way, known, residuals=(12.0, 10.0))
        assert (found is model) == is_kept
        assert ask_for_model(point, way, known, residuals=(9.5, 9.5)) is not model

    def test_the_older_a_fit_the_longer_its_models_serve(self):
        """Pairs have taken over then."""
        point, way, known = draw_fit(np.random.default_rng(38), counts=DEAR)
        taken, served = [], 0
        for _ in range(3 + (1 + models.AGING) * models.OLD):
            before, served = way.model, served + 1
            if ask_for_model(point, way, known, residuals=(8.0, 7.9)) is not before:
                taken, served = [*taken, served], 0
        assert taken == [1, 1 + models.OLD, 1 + models.AGING * models.OLD]

    def test_better_bases_where_nothing_is_counted(self):
        """One after the other, as fits gain little; at the best, a longer curvature."""
        point, way, known = draw_fit(np.random.default_rng(28), UNCOUNTED)
        kinds = []
        for _ in range(5 * secants.SLOW):
            kind = type(ask_for_model(point, way, known))
            kinds += [kind] if kind not in kinds else []
        assert kinds == [Diagonal, SampledMatrix, OwnMatrix]
        point, way, known = draw_fit(
            np.random.default_rng(28), UNCOUNTED._replace(bases=("diagonal", "sample"))
        )
        way.secants.coupling = 1.1 * secants.COUPLED
        for _ in range(5 * secants.SLOW):
            assert type(ask_for_model(point, way, known)) is SampledMatrix
        point, way, known = draw_fit(np.random.default_rng(28), UNCOUNTED)
        way.secants.coupling = 1.1 * secants.COUPLED  # of the diagonal: said once
        for _ in range(2):
            assert type(ask_for_model(point, way, known)) is SampledMatrix

    def test_all_columns_where_the_penalty_says_so(self):
        family = SimpleNamespace(needs_matrix=True, is_near=None)
        point, way, known = draw_fit(np.random.default_rng(29), COUNTED, DEAR)
        request = point, goal_under(family), np.ones(P), DescentRecord(1e-6, [8.0])
        serve(known, way.have_model(*request))
        assert type(way.model) is OwnMatrix
        np.testing.assert_array_equal(way.model.columns, EVERY)
        way.most_columns = P - 1
        with pytest.raises(ValueError, match=r"the matrix of all 8 columns, .* room for 7"):
            serve(known, way.have_model(*request))

    def test_the_worst_columns_first(self, monkeypatch):
        """Of more columns than rows, where a matrix of some is cheap; twice the support follows."""
        monkeypatch.setattr("sksurvgpu.solver.way.FEWEST", 3)
        wide = CHEAP._replace(rows=P - 1)
        point, way, known = draw_fit(np.random.default_rng(30), counts=wide)
        point.gradient = np.array([1.0, -9.0, 2.0, 1.5, 8.0, -1.0, 3.0, 7.0])
        assert ask_for_model(point, way, known).columns.tolist() == [1, 4, 7]
        point, way, known = draw_fit(np.random.default_rng(30), counts=wide)
        point.gradient = np.array([1.0, -9.0, 2.0, 1.5, 8.0, -1.0, 3.0, 7.0])
        point.coef = np.where(np.isin(EVERY, [0, 3]), 0.1, 0.0)
        assert ask_for_model(point, way, known).columns.tolist() == [0, 1, 3, 4]

    def test_columns_of_a_loan(self):
        """Those that are near; a matrix where it is worth it for all who borrow."""
        rng = np.random.default_rng(31)
        some = Counts(1e6, 1e6, 1e6, 1e9, 0.0, False, 10**6)
        penalty = of(PENALTIES["lasso"])
        for n_borrowers, size in ((1, 0), (1000, P - 1)):
            point, way, known = draw_fit(rng, counts=some)
            point.gradient = np.where(EVERY == 4, 0.4 * L1, 0.6 * L1)
            two = np.array([2, 3])
            way.model = serve(known, Diagonal.take(P, way.secants, two, two))
            loan = serve(known, way.lend(point, penalty, n_borrowers))
            assert {*loan.columns} == {*EVERY} - {4} and len(loan.matrix) == size
            _, borrower, _ = draw_fit(rng)
            borrower.borrow(loan, 0.5, EVERY == 6)
            assert 6 not in borrower.model.columns and borrower.model.weight == 0.5
        point, way, known = draw_fit(rng)
        point.gradient = np.zeros(P)
        assert serve(known, way.lend(point, penalty, 9)) is None

    @pytest.mark.parametrize("counts", [CHEAP, NEVER])
    def test_a_fit_without_a_model_lends_one(self, counts):
        """One that was at its optimum when it began."""
        point, way, known = draw_fit(np.random.default_rng(32), counts=counts)
        loan = serve(known, way.lend(point, of(PENALTIES["lasso"]), 9))
        assert loan is None or {*loan.columns} == {*EVERY}


class TestState:
    def test_violations_are_in_units_and_nothing_within_rounding(self):
        noise = np.where(EVERY == 3, 5.0, 0.0)
        goal = Goal(of(PENALTIES["lasso"]), 1e-6, 1.0 + EVERY, noise, magnitude=4.0)
        point = Point(np.zeros(P), gradient=np.array([0.5, L1 + 1.0, -L1 - 2.0, 5.0, 0, 0, 0, -L1]))
        expected = np.array([0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]) / goal.unit
        np.testing.assert_allclose(goal.violation(point), expected, atol=1e-12)
        point.objective = -3.0
        assert goal.rounding(point) == pytest.approx(4e-13)

    def test_a_restart_forgets_what_was_interpolated(self):
        point = Point(np.full(P, 2.0), loglik=7.0, gradient=np.ones(P), shortened=True)
        rows = Parabola()
        rows.start = lambda coef: -0.5 * np.sum((coef - 1.0) ** 2)
        serve(rows, point.restart(of(PENALTIES["lasso"])))
        assert not point.shortened and point.loglik == -0.5 * P
        assert point.objective == pytest.approx(0.5 * P + 2.0 * P * L1)

    def test_the_residual_of_all_columns_is_kept(self):
        progress, point = DescentRecord(1e-6), Point(np.zeros(P))
        assert progress.see(np.array([1.0, 3.0]), point) == 3.0
        point.partial = True
        assert progress.see(np.array([0.5, 0.25]), point) == 0.5
        assert progress.residuals == [3.0, 0.5] and progress.residual_of_all == 3.0

    def test_patience(self):
        """Spent by iterations that gain nothing; a residual that falls is a gain."""
        progress = DescentRecord(1e-6, [1.0])
        for n in range(PATIENCE):
            assert progress.stalled == n and progress.stalls == (n == PATIENCE // 2)
            progress.residuals.append(1.0)
            progress.end(False)
        progress.end(True)
        assert progress.stalled == 0
        progress.end(False)
        progress.residuals.append(0.8)
        progress.end(False)
        assert progress.stalled == 0

    def test_gradients_that_an_iteration_needs(self):
        """Of the columns of a matrix, until others violate or it is nearly done."""
        _, way, known = draw_fit(np.random.default_rng(40))
        inside = np.where(np.isin(EVERY, HALF), 1.0, 0.0)
        progress = DescentRecord(1e-6, [4.0, 1.0], residual_of_all=4.0)
        way.model = serve(known, Diagonal.take(P, way.secants, HALF, HALF))
        assert way.watched(inside, progress) is None
        way.model = serve(known, OwnMatrix.take(P, way.secants, HALF, HALF))
        np.testing.assert_array_equal(way.watched(inside, progress), HALF)
        assert way.watched(np.ones(P), progress) is None
        progress.residual_of_all = 100.0
        assert way.watched(inside, progress) is None

    @pytest.mark.parametrize("correlation", [0.0, 0.9])
    def test_a_first_step_of_correlated_columns_is_better_not_made(self, correlation):
        """A matrix begins better where it was; a step by matrix, and one of far rows, stay."""
        hessian = correlation + (1.0 - correlation) * np.eye(P)
        before = Point(np.zeros(P), 0.0, np.ones(P))
        after = Point(np.ones(P), P - 0.5 * hessian.sum())  # of a quadratic log-likelihood
        for kind in (Diagonal, OwnMatrix):
            way = Way(COUNTED, Options())
            way.model = serve(Known(hessian), kind.take(P, way.secants, EVERY, EVERY))
            assert way.regrets(before, after) == (kind is Diagonal and correlation > 0)
        far = Way(COUNTED._replace(whole_gradients=True), Options())
        far.model = serve(Known(hessian), Diagonal.take(P, far.secants, EVERY, EVERY))
        assert not far.regrets(before, after)
        assert far.secants.is_coupled == (correlation > 0)
