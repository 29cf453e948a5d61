"""Penalties of groups: formulas against search, optima against their definition, for all models."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from engine import BASES, column, use_model
from faces import FACES, P, X
from grids import thin
from models import MODELS
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import OneHotEncoder, SplineTransformer

from sksurvgpu import (
    MCP,
    SCAD,
    CoxLassoCCD,
    CoxLassoCV,
    GroupLasso,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    bootstrap,
    certificate,
    fit_path,
    groups_from,
)
from sksurvgpu.backends import cpu
from sksurvgpu.estimators.fitted import fitted_of
from sksurvgpu.penalties import blocks as of_blocks
from sksurvgpu.penalties.blocks import arrange, blocks_of_size, move_block_of, with_matrices
from sksurvgpu.penalties.folded import FoldedPenalty
from sksurvgpu.penalties.groups import GroupFamily
from sksurvgpu.penalties.labels import _origins, read_labels
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

LABELS = ["a", "b", "a", None, "b", "c", "c", "a", "c", "d", None, "c"]
GROUP = np.array([0, 1, 0, -1, 1, 2, 2, 0, 2, 3, -1, 2])
SIZES = np.array([3, 2, 4, 1])
FREE = np.zeros(P, bool)


def definition(coef, lam, share, factor, group=GROUP, sizes=SIZES):
    """Value of the penalty."""
    norms = [np.linalg.norm(coef[group == g]) for g in range(len(sizes))]
    within = np.where(group >= 0, (1 - share) * factor, factor)
    return lam * (share * np.sqrt(sizes) @ norms + within @ np.abs(coef))


def residual(coef, gradient, lam, share, factor, group=GROUP, sizes=SIZES):
    """Largest distance from stationarity, of columns alone and of whole groups."""
    within = lam * np.where(group >= 0, (1 - share) * factor, factor)
    found, rest = [0.0], gradient.copy()
    for g, size in enumerate(sizes):
        where, level = group == g, lam * share * np.sqrt(size)
        norm = np.linalg.norm(coef[where])
        if norm > 0:
            rest[where] -= level * coef[where] / norm
        else:
            left = np.maximum(np.abs(gradient[where]) - within[where], 0)
            found.append(np.linalg.norm(left) - level)
            rest[where] = 0.0
    beyond = np.abs(rest - within * np.sign(coef))
    return max(*found, np.where(coef == 0, np.abs(rest) - within, beyond).max())


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


class TestFormulas:
    @pytest.mark.parametrize("share", [1.0, 0.7])
    def test_minimum_of_a_block(self, share):
        """No point that a general search finds is better, from wherever a block is left."""
        rng = np.random.default_rng(3)
        family = GroupFamily(np.zeros(4, int), np.array([2.0]), share)
        for k in range(4):
            root = rng.normal(size=(5 if k % 2 else 2, 4))  # also of less than full rank
            H, z = root.T @ root, root.T @ rng.normal(scale=3.0, size=len(root))
            penalty = family.at(1.0, np.ones(4), np.zeros(4, bool))
            own = penalty.of_columns(np.arange(4))
            c = with_matrices(own, [H[None]], None)
            start = rng.normal(size=4)

            def model(x, H=H, z=z, penalty=penalty):
                return 0.5 * x @ H @ x - z @ x + penalty.value(x)

            found = start.copy()
            for _ in range(1 if share == 1.0 else 200):
                move_block_of(family.formulas)(z - H @ found, found, np.diag(H), c, 0, np.empty(4))
            options = {"maxiter": 4_000, "maxfev": 4_000, "xatol": 1e-9, "fatol": 1e-14}
            best = minimize(model, found + 0.1, method="Nelder-Mead", options=options)
            assert model(found) <= min(best.fun, model(np.zeros(4))) + 1e-9
            assert model(found) <= model(start)

    @pytest.mark.parametrize("size", [0.6, 0.99, 1.01, 1.6])
    def test_blocks_leave_zero_at_their_threshold(self, size):
        rng, nothing = np.random.default_rng(5), np.zeros(4)
        family = GroupFamily(np.zeros(4, int), np.array([2.0]))
        root, z = rng.normal(size=(6, 4)), rng.normal(size=4)
        H, z = root.T @ root, 2.0 * size * z / np.linalg.norm(z)
        penalty = family.at(1.0, np.ones(4), np.zeros(4, bool))
        c, x = with_matrices(penalty.of_columns(np.arange(4)), [H[None]], None), nothing.copy()
        move_block_of(family.formulas)(z.copy(), x, np.diag(H), c, 0, np.empty(4))
        assert (x != 0.0).all() if size > 1.0 else not x.any()

    def test_next_to_no_penalty_is_none(self):
        free = PoissonCCD(alpha=0.0).fit(X, FACES["poisson"].y)
        least = PoissonCCD(alpha=1e-300, penalty=GroupLasso(np.arange(12) // 3))
        np.testing.assert_allclose(least.fit(X, FACES["poisson"].y).coef_, free.coef_, atol=1e-9)

    @pytest.mark.parametrize("mix", [1.0, 0.5])
    def test_columns_without_effect_are_zero(self, mix):
        """To the last bit, in groups that are not."""
        for seed in range(12):
            rng = np.random.default_rng(seed)
            table = rng.normal(size=(50, 8))
            table[:, [2, 5]], table[:, 6] = 0.0, 1.0
            y = table[:, 0] + table[:, 3] + rng.normal(size=50)
            penalty = GroupLasso([0] * 4 + [1] * 4, mix=mix)
            coef = LinearCCD(alpha=0.01, penalty=penalty).fit(table, y).coef_
            assert coef[0] != 0
            assert not coef[[2, 5, 6]].any()

    def test_blocks_too_large_for_a_matrix_descend(self, monkeypatch):
        monkeypatch.setattr(of_blocks, "LARGEST_BLOCK", 3)
        rng = np.random.default_rng(4)
        family = GroupFamily(np.zeros(4, int), np.array([1.0]))
        penalty = family.at(1.0, np.ones(4), np.zeros(4, bool))
        root = rng.normal(size=(6, 4))
        H, z = root.T @ root, 9.0 * rng.normal(size=4)
        c = with_matrices(penalty.of_columns(np.arange(4)), [], lambda where: np.trace(H))
        x = np.zeros(4)
        for _ in range(2_000):
            move_block_of(family.formulas)(z - H @ x, x, np.diag(H), c, 0, np.empty(4))
        assert penalty.violation(x, z - H @ x).max() < 1e-9

    @pytest.mark.parametrize("share", [1.0, 0.4])
    def test_derivatives_are_differences(self, share):
        rng, step = np.random.default_rng(5), 1e-6
        penalty = GroupFamily(GROUP, np.sqrt(SIZES), share).at(1.3, np.ones(P), FREE)
        coef = rng.normal(size=P) * (GROUP != 1)
        own = penalty.of_columns(np.arange(P))
        pieces = penalty.pieces(coef, own)
        support = np.flatnonzero(coef)
        hessian = np.zeros((len(support),) * 2)
        penalty.add_curvature(hessian, support, pieces, coef, own)
        diagonal, rows, sign = penalty.bends(support, pieces, coef, own)
        assert rows.shape[1] < len(SIZES)  # none of groups at zero
        of_terms = np.diag(diagonal) + (rows * sign) @ rows.T
        np.testing.assert_allclose(of_terms, hessian, rtol=1e-12, atol=1e-12)
        for k, j in enumerate(support):
            move = step * np.eye(P)[j]
            rise = (penalty.value(coef + move) - penalty.value(coef - move)) / (2 * step)
            assert pieces.right[j] == pytest.approx(rise, abs=1e-7)
            bend = penalty.pieces(coef + move).right - penalty.pieces(coef - move).right
            np.testing.assert_allclose(hessian[k], bend[support] / (2 * step), atol=1e-6)
        expected = definition(coef, 1.3, share, np.ones(P))
        assert penalty.value(coef) == pytest.approx(expected, rel=1e-14)
        assert penalty.rise(support, np.zeros(len(support)), pieces, coef, own) == 0.0

    def test_some_columns_have_the_penalty_where_the_others_are_zero(self):
        penalty = GroupFamily(GROUP, np.sqrt(SIZES), 0.6).at(0.8, np.ones(P), FREE)
        which = np.array([5, 0, 10, 11, 2, 4])
        coef = np.zeros(P)
        coef[which] = np.random.default_rng(1).normal(size=len(which))
        part, whole = penalty.pieces(coef[which], penalty.of_columns(which)), penalty.pieces(coef)
        for own, every in zip(part, whole, strict=True):
            np.testing.assert_allclose(own, every[which], rtol=1e-14)

    def test_arrangement(self):
        member, size, at = arrange(np.array([-1, 3, 0, 3, 0, 0, -1]))
        assert member.tolist() == [0, 1, 3, 2, 4, 5, 6]
        assert size.tolist() == [1, 2, 0, 3, 0, 0, 1]
        assert at.tolist() == [-1, 0, -1, 4, -1, -1, -1]
        columns = GroupFamily(np.array([0, 0]), np.ones(1)).at(1.0, np.ones(2), FREE[:2]).columns
        assert [(size, where.tolist()) for size, _, where in blocks_of_size(columns)] == [
            (2, [[0, 1]])
        ]


class TestFamily:
    @pytest.mark.parametrize("share", [1.0, 0.5])
    def test_nothing_moves_above_the_least_strength(self, share):
        gradient = 3.0 * np.random.default_rng(6).normal(size=P)
        factor = np.where(GROUP < 0, 2.0, 1.0)
        family = GroupFamily(GROUP, np.sqrt(SIZES), share)
        lam = family.lam_max(np.abs(gradient), factor, np.ones(P))
        for times, moves in ((1 + 1e-9, False), (1 - 1e-6, True)):
            penalty = family.at(times * lam, factor, FREE)
            assert (residual(np.zeros(P), gradient, times * lam, share, factor) > 0) == moves
            assert (penalty.violation(np.zeros(P), gradient).max() > 0) == moves
            assert penalty.is_near(np.zeros(P), gradient, 1.0).any() == moves

    @pytest.mark.parametrize("share", [1.0, 0.5])
    def test_dual_points_are_feasible_and_no_shorter_than_they_must(self, share):
        gradient = 2.0 * np.random.default_rng(7).normal(size=P)
        penalty = GroupFamily(GROUP, np.sqrt(SIZES), share).at(0.7, np.ones(P), FREE)
        scale, conjugate = penalty.family.dual(penalty.of_columns(np.arange(P)), gradient)
        assert 0 < scale < 1 and conjugate == 0.0
        own = 0.7, share, np.ones(P)
        assert residual(np.zeros(P), scale * gradient, *own) <= 1e-12
        assert residual(np.zeros(P), 1.001 * scale * gradient, *own) > 1e-5

    def test_fixed_columns_belong_to_no_group(self):
        family, fixed = GroupFamily(GROUP, np.sqrt(SIZES)), GROUP == 0
        fixed[2] = False
        gradient = np.where(np.arange(P) == 2, 2.0, 0.0)
        penalty = family.at(1.0, np.ones(P), fixed)
        assert penalty.violation(np.zeros(P), gradient)[2] == pytest.approx(2.0 - np.sqrt(3.0))
        assert not penalty.violation(np.zeros(P), 9.0 + gradient)[fixed].any()


@pytest.mark.parametrize(("name", "share", "base"), thin(5, MODELS, [1.0, 0.6], BASES))
def test_optimum_of_every_model(name, share, base, monkeypatch):
    """Stationary by the oracle's residuals, with a gap that its objective confirms."""
    use_model(base, monkeypatch)
    model = MODELS[name]
    sample = model.sample(5, p=P)
    design = np.asarray(sample.X)
    factor = np.where(np.arange(P) == 3, 0.0, 1.0)
    penalty = GroupFamily(GROUP, np.sqrt(SIZES), share)
    lam = 0.3 * np.abs(design.T @ model.reference_at(sample, np.zeros(P)).u).max()
    batch = Batch(
        lam * np.array([[1.0], [0.3]]),
        penalty,
        factor=factor,
        weight=column(sample.weights),
        offset=column(sample.offset),
    )
    for solution in Fits(model.problem(sample), batch, cpu, Options(tol=1e-9)).solve()[0]:
        at = model.reference_at(sample, solution.coef)
        own = solution.lam, share, factor
        assert solution.converged
        assert residual(solution.coef, design.T @ at.u, *own) <= 1e-6 * lam
        expected = definition(solution.coef, *own) - at.loglik
        assert solution.objective == pytest.approx(expected, rel=1e-10)


class TestFaces:
    def test_groups_of_one_column_are_the_lasso(self, face):
        alone, lasso = face.fit(penalty=GroupLasso(range(P))), face.fit()
        np.testing.assert_allclose(alone.coef_, lasso.coef_, rtol=0, atol=1e-12)
        assert alone.alpha_max_ == lasso.alpha_max_
        assert alone.dual_gap_ == pytest.approx(lasso.dual_gap_, rel=1e-4, abs=1e-14)

    def test_gap_bounds_what_is_left(self, face):
        path = fit_path(
            face.make(penalty=GroupLasso(LABELS, mix=0.8), tol=1e-3),
            X,
            face.y,
            n_alphas=4,
            alpha_min_ratio=0.1,
            **face.arguments(),
        )
        assert path.df[0] == 0 < path.df[1] and path.converged.all()
        for index, alpha in enumerate(path.alphas[1:], start=1):
            exact = face.fit(penalty=GroupLasso(LABELS, mix=0.8), alpha=alpha, tol=1e-11)
            left = path.objective[index] - exact.objective_
            assert -1e-12 <= left <= path.dual_gap[index] + 1e-12

    def test_groups_enter_whole(self, face):
        model = face.fit(penalty=GroupLasso(LABELS), alpha=0.4 * face.fit().alpha_max_)
        for g in range(len(SIZES)):
            assert len(set(model.coef_[g == GROUP] != 0)) == 1

    def test_means_shift_the_penalty(self, face):
        mean = np.where(GROUP == 0, 0.2, 0.0)
        model = face.fit(penalty=GroupLasso(LABELS), prior_mean=mean, alpha=10.0)
        np.testing.assert_allclose(model.coef_, mean, atol=1e-14)


class TestShapes:
    """Norms under penalties whose slope falls to zero."""

    @pytest.mark.parametrize("base", BASES)
    @pytest.mark.parametrize("share", [1.0, 0.6])
    @pytest.mark.parametrize("name", ["cox, efron", "fine_gray, strata", "logistic", "poisson"])
    def test_optima_are_stationary(self, name, share, base, monkeypatch):
        """Group MCP by its definition: of slope l - (l / k) r up to r = k, and 0 beyond."""
        use_model(base, monkeypatch)
        model = MODELS[name]
        sample = model.sample(5, p=P)
        design = np.asarray(sample.X)
        lam = 0.3 * np.abs(design.T @ model.reference_at(sample, np.zeros(P)).u).max()
        everywhere, total = np.full(P, np.inf), float(sample.weights.sum())
        knot = np.where(GROUP == 0, 0.5, 4.0)
        radial = FoldedPenalty(
            1.0, -everywhere, everywhere, np.zeros(P), knot, by_column=False, total=total
        )
        penalty = GroupFamily(GROUP, np.sqrt(SIZES), share, radial)
        batch = Batch(
            np.array([[lam]]),
            penalty,
            weight=column(sample.weights),
            offset=column(sample.offset),
        )
        [[solution]] = Fits(model.problem(sample), batch, cpu, Options(tol=1e-9)).solve()
        gradient, coef = design.T @ model.reference_at(sample, solution.coef).u, solution.coef
        assert solution.converged and np.isnan(solution.gap)
        seen, label = set(), np.where(GROUP < 0, 10 + np.arange(P), GROUP)
        for g in set(label):
            where, alone = label == g, g >= 10
            level = lam * (1.0 if alone else share * np.sqrt(SIZES[g]))
            within = 0.0 if alone else (1.0 - share) * lam
            norm, end = np.linalg.norm(coef[where]), knot[where][0] * level / total
            if norm == 0:
                left = np.maximum(np.abs(gradient[where]) - within, 0.0)
                assert np.linalg.norm(left) <= level * (1 + 1e-6)
                seen.add("rests")
                continue
            rest = gradient[where] - level * max(0.0, 1 - norm / end) * coef[where] / norm
            beyond = np.abs(rest) - within
            stays = coef[where] == 0
            assert np.max(beyond[stays], initial=0.0) <= 1e-6 * lam
            assert np.abs(rest - within * np.sign(coef[where]))[~stays].max() <= 1e-6 * lam
            seen.add("beyond" if norm > end else "falls")
        assert len(seen) > 1

    def test_far_knots_are_the_norm(self, face):
        far = face.fit(penalty=GroupLasso(LABELS, mix=0.7, shape=MCP(gamma=1e9)))
        plain = face.fit(penalty=GroupLasso(LABELS, mix=0.7))
        np.testing.assert_allclose(far.coef_, plain.coef_, atol=1e-7)
        assert far.alpha_max_ == plain.alpha_max_ and np.isnan(far.dual_gap_)

    @pytest.mark.parametrize("shape", [MCP(), SCAD()])
    def test_groups_of_one_column_are_the_penalty_itself(self, shape):
        found = FACES["cox"].fit(penalty=GroupLasso(range(P), shape=shape), alpha=0.005)
        expected = FACES["cox"].fit(penalty=shape, alpha=0.005)
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=0, atol=1e-12)

    def test_certificates_and_selection(self):
        y, table = FACES["cox"].y, X.toarray()
        penalty = GroupLasso(LABELS, shape=MCP())
        model = CoxLassoCCD(alpha=0.005, penalty=penalty, tol=1e-9).fit(table, y)
        found = certificate(model, table, y)
        assert found.is_local_minimum
        assert CoxLassoCV(penalty=penalty, cv=2, n_alphas=4).fit(X, y).converged_

    def test_curvature_of_a_group_is_that_of_its_members_together(self):
        rng, n, gamma = np.random.default_rng(0), 100, 3.0
        table = rng.normal(size=(n, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
        y = table @ [0.8, 0.5] + rng.normal(size=n)
        penalty = GroupLasso([0, 0], shape=MCP(gamma=gamma))
        model = LinearCCD(alpha=0.25, penalty=penalty, fit_intercept=False, tol=1e-10)
        found, coef = certificate(model.fit(table, y), table, y), model.coef_
        information, norm = table.T @ table, np.linalg.norm(coef)
        bend, along = np.trace(information) / 2 / gamma, np.outer(coef, coef) / norm**2
        across = (0.25 * np.sqrt(2) * n - bend * norm) / norm
        assert across > 0
        bent = information - bend * along + across * (np.eye(2) - along)
        unit = 1 / np.sqrt(np.diag(information))
        assert found.is_local_minimum
        expected = np.linalg.eigvalsh(bent * np.outer(unit, unit))[0]
        assert found.curvature == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize(
        ("shape", "message"),
        [
            ("lasso", r"`shape` is 'lasso'; pass MCP\(\), SCAD\(\), 'mcp', 'scad' or None"),
            (MCP(gamma={0: 2.0}), r"`shape` is .* differs between columns of group 'a'"),
        ],
    )
    def test_bad_shapes(self, shape, message):
        with pytest.raises(ValueError, match=message):
            CoxLassoCCD(penalty=GroupLasso(LABELS, shape=shape)).fit(X, FACES["cox"].y)


def test_selection_copies_and_replicates():
    y = FACES["cox"].y
    penalty = GroupLasso(LABELS, mix=0.7)
    chosen = CoxLassoCV(penalty=penalty, cv=3, n_alphas=6).fit(X, y)
    again = CoxLassoCCD(alpha=chosen.alpha_, penalty=penalty).fit(X, y)
    np.testing.assert_allclose(chosen.coef_, again.coef_, atol=1e-6)
    search = GridSearchCV(again, {"penalty__mix": [0.5, 1.0], "penalty": [penalty]}, cv=2)
    assert search.fit(X, y).best_params_["penalty__mix"] in (0.5, 1.0)
    for copied in (clone(again), pickle.loads(pickle.dumps(again))):
        assert copied.penalty.get_params() == penalty.get_params()
    coefs = bootstrap(again, X, y, n_replicates=8, random_state=0).coefs
    norms = np.array([[np.linalg.norm(b[g == GROUP]) for g in range(4)] for b in coefs.T])
    assert ((norms == 0) | (norms > 1e-8)).all()


@pytest.mark.parametrize("base", BASES)
def test_constant_and_collinear_columns(base, monkeypatch):
    """All levels of factors, one of them twice, and a column of ones that has no effect."""
    use_model(base, monkeypatch)
    rng, y = np.random.default_rng(0), FACES["cox"].y
    levels = rng.integers(0, 4, size=(len(y), 5))
    table = np.column_stack([np.equal.outer(levels[:, k], np.arange(4)) for k in range(5)])
    table = np.column_stack([table, table[:, 0], np.ones(len(y))]).astype(float)
    penalty = GroupLasso([*np.repeat(np.arange(5), 4), 0, 1])
    model = CoxLassoCCD(alpha=0.003, penalty=penalty, tol=1e-8).fit(table, y)
    assert model.converged_ and model.dual_gap_ < 1e-7 and model.coef_[0] != 0
    assert model.coef_[20] == pytest.approx(model.coef_[0], rel=1e-5) and model.coef_[21] == 0


def test_groups_wider_than_the_working_set():
    """Where columns are more than rows, of a group at zero a part would stay there."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(100, 300))
    y = rng.random(100) < 1 / (1 + np.exp(-table[:, :250].sum(axis=1) / 8))
    path = fit_path(
        LogisticCCD(penalty=GroupLasso(np.arange(300) // 250), tol=1e-8),
        table,
        y,
        n_alphas=3,
        alpha_min_ratio=0.3,
    )
    assert path.converged.all() and (path.dual_gap < 1e-6).all() and path.df[-1] >= 250


def test_pieces_of_time_share_a_group():
    y = FACES["cox"].y
    table = pd.DataFrame(X.toarray(), columns=[f"c{j}" for j in range(P)])
    model = CoxLassoCCD(
        alpha=0.01, time_varying={"c0": [10.0]}, penalty=GroupLasso({"g": ["c0", "c1"]})
    ).fit(table, y)
    names = fitted_of(model).names
    together = model.coef_[
        [(name.startswith(("c0", "c1")) and len(name) > 3) or name == "c1" for name in names]
    ]
    assert len(together) == 3 and len(set(together != 0)) == 1


NAMES = ["age", "sex_f", "sex_m", "arm[T.a]", "arm[T.b]", "C(site)[T.x]", "C(site)[T.y]", "x=1"]


@pytest.mark.parametrize("source", ["sex_f", None, np.ones((2, 2)), X], ids=range(4))
def test_groups_are_those_of_names(source):
    with pytest.raises(TypeError, match=r"`source` is of type .*; pass names of columns"):
        groups_from(source)


@pytest.mark.parametrize(
    "groups",
    [
        [None, "s", "s", 1, 1, 2.0, 2.0, np.nan],
        {"sex_f": 0, "sex_m": 0, "arm[T.a]": 1, 4: 1, 5: 2, 6: 2},
        {"s": ["sex_f", "sex_m"], "a": [3, 4], "site": (5, "C(site)[T.y]")},
        "prefix",
        groups_from(NAMES),
        groups_from(pl.DataFrame({name: [1] for name in NAMES})),
        np.array([None, "s", "s", "a", "a", "b", "b", None], dtype=object),
        pd.Series([None, "s", "s", "a", "a", "b", "b", None], NAMES, dtype="string")[::-1],
        {"arm": pd.Index(NAMES[1:3]), "drug": pd.Series(NAMES[3:5]), "x": frozenset(NAMES[5:7])},
    ],
    ids=range(9),
)
def test_ways_to_name_groups(groups):
    table = pd.DataFrame(X.toarray()[:, :8], columns=NAMES)
    expected = GroupLasso([None, 0, 0, 1, 1, 2, 2, None])
    y, alpha = FACES["logistic"].y, 0.01
    found = LogisticCCD(alpha=alpha, penalty=GroupLasso(groups)).fit(table, y)
    plain = LogisticCCD(alpha=alpha, penalty=expected).fit(table, y)
    np.testing.assert_array_equal(found.coef_, plain.coef_)


def test_names_of_columns_are_read_once():
    """Not once for each gene of each pathway, which took longer than a fit to 20,000 genes."""

    class Names(list):
        n_read = 0

        def __iter__(self):
            self.n_read += 1
            return super().__iter__()

        def __array__(self, dtype=None, copy=None):
            self.n_read += 1
            return np.array(tuple(self), dtype=dtype)

    for groups in ({"a": NAMES[:3], "b": NAMES[3:]}, dict.fromkeys(NAMES[:3], "a")):
        names = Names(NAMES)
        assert read_labels(groups, 8, names)[:3] == ["a"] * 3
        assert names.n_read == 1


def test_groups_from_transformers():
    table = pd.DataFrame(
        {
            "age": [30.0, 40.0, 50.0, 60.0],
            "arm": ["a", "b", "c", "a"],
            "arm_b": ["x", "y", "x", "y"],
            "dose": [1.0, 2.0, 3.0, 5.0],
        }
    )
    encoder = OneHotEncoder().fit(table[["arm", "arm_b"]])
    assert groups_from(encoder) == ["arm"] * 3 + ["arm_b"] * 2
    nameless = OneHotEncoder().fit(table[["arm", "arm_b"]].to_numpy())
    assert groups_from(nameless) == ["x0"] * 3 + ["x1"] * 2
    steps = [
        ("levels", OneHotEncoder(drop="first"), ["arm", "arm_b"]),
        ("curve", SplineTransformer(n_knots=3, degree=2), [3]),
    ]
    for verbose in (True, False):
        made = ColumnTransformer(
            steps, remainder="passthrough", verbose_feature_names_out=verbose
        ).fit(table)
        assert groups_from(made) == ["arm", "arm", None, *["dose"] * 4, None]


def test_origins_of_names_are_looked_up():
    """Where every name was compared with every input, 15,000 genes took a minute."""
    asked = []

    class Name(str):
        def startswith(self, *given):
            asked.append(self)
            return super().startswith(*given)

    inputs = [f"gene{j}" for j in range(60)]
    assert _origins([Name(f"{own}_a") for own in inputs], inputs, "_") == inputs
    assert len(asked) < 60 * 10


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"groups": [0, 1]}, "`groups` has 2 labels, `X` has 12 columns"),
        ({"groups": [None] * P}, "`groups` has no group"),
        ({"groups": 3}, "`groups` is 3; pass a label for each column"),
        ({"groups": [[0, 1]] * P}, "`groups` has column 0 in 0 and in 1"),
        ({"groups": "suffix"}, "`groups` is 'suffix'; pass"),
        ({"groups": "prefix"}, "`X` has no column names"),
        ({"groups": {"a": [0, 1], "b": [1, 2]}}, "`groups` has column 1 in 'a' and in 'b'"),
        ({"groups": {"a": [0, 1], "b": []}}, "`groups` has no column for 'b'"),
        ({"groups": {"a": [0, 1], 2: "b"}}, "mixes {column: label} with {label: [columns]}"),
        ({"groups": {"a": [0, 99]}}, "`groups` names column 99"),
        ({"groups": LABELS, "mix": 0.0}, "`mix` is 0.0, must be"),
        ({"groups": LABELS, "mix": "all"}, "`mix` is 'all', must be"),
        ({"groups": LABELS, "weights": "square"}, "`weights` is 'square'; pass"),
        ({"groups": LABELS, "weights": {"e": 1.0}}, "`weights` names group 'e', `groups` has 4"),
        ({"groups": LABELS, "weights": {"a": 0.0}}, "`weights` of group 'a' is 0.0, must be"),
    ],
)
def test_bad_groups(given, message):
    with pytest.raises(ValueError) as caught:
        CoxLassoCCD(penalty=GroupLasso(**given)).fit(X, FACES["cox"].y)
    assert message.replace("12", str(P)) in str(caught.value)


@pytest.mark.parametrize(
    ("given", "mix", "message"),
    [
        ({"penalty_factor": {0: 0.0}}, 0.5, r"`penalty_factor` of column 0 is 0.*`groups` has it"),
        ({"penalty_factor": {1: 2.0}}, 1.0, r"is 2, but `groups` has it in 'b'.*`weights`"),
        ({"bounds": (0, 1)}, 1.0, r"`penalty` is .*`bounds`"),
        ({"l1_ratio": 0.5}, 1.0, r"`penalty` is .*`l1_ratio`"),
        ({"algorithm": "exact"}, 1.0, r"`penalty` is .*algorithm='exact'"),
    ],
)
def test_what_does_not_go_with_groups(given, mix, message):
    with pytest.raises(ValueError, match=message):
        CoxLassoCCD(penalty=GroupLasso(LABELS, mix=mix), **given).fit(X, FACES["cox"].y)


def test_weights_of_groups():
    fits = [
        FACES["linear"].fit(penalty=GroupLasso(LABELS, weights=weights))
        for weights in ("size", {"a": 3**0.5, "b": 2**0.5}, "equal", dict.fromkeys("abcd", 1.0))
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    np.testing.assert_array_equal(fits[2].coef_, fits[3].coef_)
    assert np.abs(fits[0].coef_ - fits[2].coef_).max() > 1e-3
