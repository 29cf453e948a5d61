"""Neighbouring coefficients that are pulled to each other."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from faces import FACES, P, X
from scipy.optimize import linprog
from sklearn.base import clone

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    Fused,
    LinearCCD,
    bootstrap,
    fit_path,
)
from sksurvgpu.backends.contract import Room
from sksurvgpu.penalties.flow import Graph
from sksurvgpu.penalties.partition import Partition, minimize_on_partition
from sksurvgpu.solver.minimize import Quadratic

ALPHA, STRENGTH = 0.02, 0.5
EDGES = [(0, 1), (1, 2), (2, 3), (5, 6), (6, 7), (0, 7), (8, 9), (9, 10)]
FACTORS = {"all": np.ones(P), "some": np.where(np.arange(P) % 3, 1.0, 0.0), "none": np.zeros(P)}


def imbalance(coef, gradient, l1, edges, strength):
    """Least largest entry of the gradient minus a subgradient: a linear program."""
    size = len(coef)
    tail, head = np.asarray(edges).reshape(-1, 2).T
    ends = np.zeros((len(tail), size))
    ends[np.arange(len(tail)), tail] += 1.0
    ends[np.arange(len(tail)), head] -= 1.0
    B, w = np.vstack([np.eye(size), ends]), np.append(l1, np.broadcast_to(strength, len(tail)))
    x, one = B @ coef, np.ones((size, 1))
    low, high = np.where(x > 0, w, -w), np.where(x < 0, -w, w)
    A = np.block([[-B.T, -one], [B.T, -one]])
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    limits = [*zip(low, high, strict=True), (0, None)]
    target = np.append(np.zeros(len(w)), 1.0)
    found = linprog(target, A, np.append(-gradient, gradient), bounds=limits, options=tight)
    return found.x[-1]


def random_edges(rng, size, most):
    ends = rng.integers(0, size, (most, 2))
    return np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)


def gradient_of(face, model, table=X):
    """By differences, of the mean log-likelihood."""
    moved, step = copy.copy(model), 1e-6

    def loglik(coef):
        moved.coef_ = coef
        return moved.log_likelihood(table, face.y, **{"sample_weight": None, **face.arguments()})

    steps = step * np.eye(len(model.coef_))
    slopes = np.array([loglik(model.coef_ + e) - loglik(model.coef_ - e) for e in steps])
    return slopes / (2 * step * len(face.y))


def test_flows_are_as_large_as_a_linear_program_finds():
    rng = np.random.default_rng(0)
    for _ in range(60):
        size = int(rng.integers(2, 10))
        tail, head = rng.integers(0, size, (2, int(rng.integers(1, 3 * size))))
        tail, head = tail[tail != head], head[tail != head]
        capacity, supply = rng.choice([0.0, 0.5, 1.0], len(tail)), rng.normal(size=size)
        supply -= supply.mean()
        graph = Graph.of(tail, head, size)
        excess, reached = graph.balance(capacity, supply)
        ends = np.zeros((size, len(tail)))
        np.add.at(ends, (tail, np.arange(len(tail))), 1.0)
        np.add.at(ends, (head, np.arange(len(tail))), -1.0)
        given = np.hstack([ends, -np.diag(np.sign(supply))])
        limits = [(-c, c) for c in capacity] + [(0, abs(s)) for s in supply]
        target = np.append(np.zeros(len(tail)), np.where(supply > 0.0, -1.0, 0.0))
        best = linprog(target, A_eq=given, b_eq=np.zeros(size), bounds=limits)
        left = supply[supply > 0].sum() + best.fun
        assert excess[excess > 0].sum() == pytest.approx(left, abs=1e-10)
        across = reached[tail] != reached[head]  # the cut is as narrow as the flow is large
        assert supply[reached].sum() - capacity[across].sum() == pytest.approx(left, abs=1e-10)
        factor = graph.least_factor(capacity, supply)
        if np.isfinite(factor):
            assert np.abs(graph.balance(factor * capacity, supply)[0]).max() < 1e-9
            assert np.abs(graph.balance(0.99 * factor * capacity, supply)[0]).max() > 1e-9
        else:
            assert np.abs(graph.balance(1e6 * capacity, supply)[0]).max() > 1e-9


def test_models_are_minimized_on_any_graph():
    """Also with equal and with empty columns, more columns than rows, and from any start."""
    rng = np.random.default_rng(1)
    for trial in range(120):
        size = int(rng.integers(2, 14))
        edges = random_edges(rng, size, int(rng.integers(1, 2 * size)))
        if not len(edges):
            continue
        design = rng.normal(size=(size + 10 if trial % 4 else size // 2 + 1, size))
        design[:, 0] = design[:, -1] if trial % 3 == 0 else design[:, 0]
        design[:, 1] = 0.0 if trial % 5 == 0 else design[:, 1]
        y = design @ rng.normal(size=size) + rng.normal(size=len(design))
        l1 = rng.choice([0.0, 0.3, 1.0]) * rng.choice([0.0, 1.0, 1.0, 2.0], size)
        strength = rng.choice([0.1, 0.5, 2.0]) * rng.random(len(edges))
        start = rng.choice([0.0, 0.0, 1.0, -1.0, 0.5], size) * (trial % 2)
        own = np.flatnonzero(l1)
        tail = np.append(edges[:, 0], own)
        head = np.append(edges[:, 1], np.full(len(own), size))
        graph, weight = Graph.of(tail, head, size + 1), np.append(strength, l1[own])
        slope, enough = design.T @ (y - design @ start), np.full(size, 1e-9)
        model = Quadratic.of_matrix(design.T @ design)
        found = minimize_on_partition(model, slope, start, graph, weight, enough)
        left = imbalance(found, design.T @ (y - design @ found), l1, edges, strength)
        assert left < 1e-8


def test_what_only_rounding_gains_is_an_end(monkeypatch):
    """Where less may be left over of a slope than rounding leaves of it."""
    rounds, split = [], Partition.split
    monkeypatch.setattr(Partition, "split", lambda *call: rounds.append(1) or split(*call))
    for seed in (3, 7, 25, 27):
        rng, unit = np.random.default_rng(seed), np.array([1.0, 1e3, 1e-3, 1.0])
        design = rng.normal(size=(30, 4)) * unit * [1.0, 1.0, 1.0, 0.0]
        y = design @ (rng.normal(size=4) / unit) + rng.normal(size=30)
        slope, tail = design.T @ y, np.array([0, 1, 2, 0, 1, 2, 3])
        graph = Graph.of(tail, np.array([1, 2, 3, 4, 4, 4, 4]), 5)
        weight, least = np.full(7, 0.1 * np.abs(slope).max()), 1e-16 * (30.0 * unit)
        rounds.clear()
        model = Quadratic.of_matrix(design.T @ design)
        minimize_on_partition(model, slope, np.zeros(4), graph, weight, least)
        assert len(rounds) < 20


@pytest.mark.parametrize("factors", FACTORS)
@pytest.mark.parametrize("name", FACES)
def test_fits_are_stationary(name, factors):
    face, factor = FACES[name], FACTORS[factors]
    alpha = 0.005 if name in ("cox", "fine-gray") else ALPHA
    strength = 3.0 if name == "linear" else STRENGTH
    model = face.make(alpha=alpha, penalty=Fused(EDGES, strength), penalty_factor=factor)
    model.fit(X, face.y, **face.arguments())
    assert model.converged_
    assert 1 < len(set(model.coef_.tolist())) < P
    apart = np.abs(np.diff(model.coef_[np.array(EDGES)], axis=1))
    assert not ((apart > 0) & (apart < 1e-8)).any()  # equal ones are, to the last bit
    given = gradient_of(face, model), alpha * factor, EDGES, alpha * strength
    assert imbalance(model.coef_, *given) < 1e-7
    assert np.isfinite(model.alpha_max_) == (factors == "all")
    if not np.isnan(model.dual_gap_):
        assert 0 <= model.dual_gap_ < 1e-6
    else:
        assert factors != "all" or name == "fine-gray"


def test_value_violation_and_gap_are_those_of_the_definition():
    rng, (tail, head) = np.random.default_rng(2), np.array(EDGES).T
    penalty = Fused(EDGES, STRENGTH).family(_given()).at(3.0, np.ones(P), np.zeros(P, bool))
    B = np.vstack([np.eye(P), np.eye(P)[tail] - np.eye(P)[head]])
    w = 3.0 * np.append(np.ones(P), np.full(len(EDGES), STRENGTH))
    for coef in (np.zeros(P), np.round(rng.normal(size=P)), rng.normal(size=P)):
        value = w @ np.abs(B @ coef)
        assert penalty.value(coef) == pytest.approx(value, rel=1e-14)
        for scale in (0.5, 4.0):
            gradient = scale * rng.normal(size=P)
            least = imbalance(coef, gradient, w[:P], EDGES, w[P:])
            found = penalty.violation(coef, gradient)
            assert found.max() >= least - 1e-9
            assert (found.max() > 1e-9) == (least > 1e-9)
            # multipliers of the least share of the weights that balance the gradient
            caps = np.block([[np.eye(len(w)), -w[:, None]], [-np.eye(len(w)), -w[:, None]]])
            A, target = np.hstack([B.T, np.zeros((P, 1))]), np.append(np.zeros(len(w)), 1.0)
            limits = [(None, None)] * len(w) + [(1.0, None)]
            given = {"A_ub": caps, "b_ub": np.zeros(2 * len(w)), "A_eq": A, "b_eq": gradient}
            share = 1.0 / linprog(target, **given, bounds=limits).fun
            expected = (1.0 - share) * 70.0 + value - share * coef @ gradient
            assert penalty.gap(coef, gradient, -100.0, -30.0) == pytest.approx(expected, rel=1e-8)


def _given():
    return SimpleNamespace(factor=np.ones(P), source=np.arange(P), names=None)


def test_alpha_max_is_the_least_that_leaves_nothing():
    for name in ("cox", "case series", "linear"):
        face = FACES[name]
        made = face.make(penalty=Fused("chain", 2.0), alpha=1e-3)
        least = made.fit(X, face.y).alpha_max_
        below = made.set_params(alpha=0.999 * least).fit(X, face.y)
        assert below.coef_.any()
        with pytest.warns(UserWarning, match="selects nothing"):
            assert not made.set_params(alpha=1.001 * least).fit(X, face.y).coef_.any()


def test_optimum_by_another_route():
    """The dual of a linear model: least squares over the multipliers of a box."""
    from scipy.optimize import lsq_linear

    y, size = FACES["linear"].y, len(FACES["linear"].y)
    design = X.toarray() - X.toarray().mean(axis=0)
    tail, head = np.array(EDGES).T
    B = np.vstack([np.eye(P), np.eye(P)[tail] - np.eye(P)[head]])
    w = size * ALPHA * np.append(np.ones(P), np.full(len(EDGES), STRENGTH))
    root = np.linalg.cholesky(design.T @ design)
    target = np.linalg.solve(root, design.T @ (y - y.mean()))
    dual = lsq_linear(np.linalg.solve(root, B.T), target, (-w, w), "bvls", 1e-15, max_iter=2000)
    expected = np.linalg.solve(root.T, target - np.linalg.solve(root, B.T @ dual.x))
    model = LinearCCD(alpha=ALPHA, penalty=Fused(EDGES, STRENGTH), tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-9)


def test_columns_that_say_nothing_follow_their_neighbours():
    face = FACES["cox"]
    table = X.toarray()
    table[:, 2], table[:, 6], table[:, 9] = 0.0, 1.0, table[:, 10]
    spec = Fused("chain", 1.0)
    model = CoxLassoCCD(alpha=1e-3, penalty=spec, penalty_factor=np.zeros(P), tol=1e-10)
    model.fit(table, face.y)
    assert model.converged_
    chain = [(j, j + 1) for j in range(P - 1)]
    slopes = gradient_of(face, model, table)
    assert imbalance(model.coef_, slopes, np.zeros(P), chain, 1e-3) < 1e-7
    for j in (2, 6):
        low, high = sorted(model.coef_[[j - 1, j + 1]])
        assert low <= model.coef_[j] <= high


def test_paths_folds_and_replicates():
    face, alphas = FACES["cox"], [0.01, 0.004]
    rare = sp.lil_array(X)
    rare[:, [1, 7]] = 0.0
    rare[3, 1] = rare[30, 7] = 1.0
    rare, spec = rare.tocsr(), Fused("chain", 1.0)
    path = fit_path(face.make(penalty=spec), rare, face.y, alphas=alphas)
    single = face.make(penalty=spec, alpha=alphas[1]).fit(rare, face.y)
    np.testing.assert_allclose(path.coefs[:, 1], single.coef_, atol=1e-7)
    assert path.converged.all()
    grid = fit_path(face.make(penalty=spec), rare, face.y, n_alphas=3, alpha_min_ratio=0.2)
    assert grid.df[0] == 0 < grid.df[1]
    splits = [(np.delete(np.arange(240), rows), rows) for rows in np.split(np.arange(240), 8)]
    given = {"alphas": alphas, "cv": splits, "tol": 1e-9, "penalty": spec}
    chosen = CoxLassoCV(**given).fit(rare, face.y)
    train, _ = splits[0]
    alone = face.make(penalty=spec, alpha=chosen.alpha_).fit(rare[train], face.y[train])
    whole = alone.log_likelihood(rare, face.y) - alone.log_likelihood_
    row = chosen.cv_results_.query("alpha == @chosen.alpha_").iloc[0]
    held_out = face.y["event"][splits[0][1]].sum()
    assert row["split0_score"] == pytest.approx(whole / held_out, abs=1e-6)
    model = face.make(penalty=spec, alpha=0.004)
    drawn = bootstrap(model, rare, face.y, n_replicates=4, random_state=0)
    assert np.isfinite(drawn.coefs).all()
    again = clone(model).set_params(warm_start=True).fit(rare, face.y)
    assert again.fit(rare, face.y).n_iter_ == 0


def test_means_move_what_is_compared():
    face, mean = FACES["cox"], 0.1 * np.arange(P)
    around = face.make(penalty=Fused("chain"), prior_mean=mean, alpha=0.3).fit(X, face.y)
    np.testing.assert_array_equal(around.coef_, mean)


def test_edges_by_name():
    face = FACES["case series"]
    table = pd.DataFrame(X.toarray(), columns=[f"c{j}" for j in range(P)])
    named = [(f"c{k}", f"c{j}") for j, k in EDGES]
    fits = [
        face.make(penalty=Fused(edges, STRENGTH)).fit(table, face.y)
        for edges in (EDGES, named, pd.DataFrame(named), dict.fromkeys(named).keys())
    ]
    for model in fits[1:]:
        np.testing.assert_array_equal(model.coef_, fits[0].coef_)
    by_edge = face.make(penalty=Fused(EDGES, [STRENGTH] * len(EDGES))).fit(table, face.y)
    np.testing.assert_array_equal(by_edge.coef_, fits[0].coef_)
    without = face.make(penalty=Fused(EDGES, 0.0)).fit(table, face.y)
    np.testing.assert_allclose(without.coef_, face.make().fit(table, face.y).coef_, atol=1e-8)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"edges": "ring"}, "`edges` is 'ring'; pass \"chain\""),
        ({"edges": []}, "`edges` has no pair of columns"),
        ({"edges": [(0, 1, 2)]}, r"`edges` has \(0, 1, 2\), must have pairs"),
        ({"edges": ["ab"]}, "`edges` has 'ab', must have pairs"),
        ({"edges": [(3, 3)]}, r"`edges` has \(3, 3\), a column and itself"),
        ({"edges": [(0, 1), (1, 0)]}, r"`edges` has the columns of \(1, 0\) twice"),
        ({"edges": [(0, 99)]}, "`edges` names column 99, `X` has columns 0 to 11"),
        ({"strength": -1.0}, "`strength`"),
        ({"strength": [1.0, 2.0]}, "`strength` has 2 entries, `edges` has 11"),
    ],
)
def test_bad_input(spec, message):
    face = FACES["cox"]
    with pytest.raises(ValueError, match=message):
        face.make(penalty=Fused(**{"edges": "chain", **spec})).fit(X, face.y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bounds": (0, 1)}, "`penalty` is Fused, which does not go with `bounds`"),
        ({"l1_ratio": 0.5}, "`penalty` is Fused, which does not go with `l1_ratio`"),
        ({"algorithm": "exact"}, "`penalty` is Fused, which does not go with algorithm='exact'"),
        (
            {"time_varying": {0: [10.0]}},
            "`penalty` is Fused, which does not go with `time_varying`",
        ),
    ],
)
def test_what_does_not_go_together(given, message):
    face = FACES["cox"]
    with pytest.raises(ValueError, match=message):
        face.make(penalty=Fused("chain"), **given).fit(X, face.y)


def test_backends_without_a_matrix_are_refused(monkeypatch):
    room = Room(0.0)
    monkeypatch.setattr("sksurvgpu.backends.cpu.session.Session.room", lambda self: room)
    face = FACES["case series"]
    with pytest.raises(ValueError, match=r"`penalty` needs the matrix of all 12 columns, .*cpu"):
        face.make(penalty=Fused("chain")).fit(X, face.y)


def test_strengths_beyond_all_measure_are_one_coefficient():
    face = FACES["linear"]
    model = face.make(penalty=Fused("chain", 1e12), penalty_factor=np.zeros(P)).fit(X, face.y)
    assert model.converged_
    sums = X.sum(axis=1) - X.sum(axis=1).mean()
    expected = sums @ (face.y - face.y.mean()) / (sums @ sums)
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-9)
    assert len(set(model.coef_.tolist())) == 1


def test_where_there_are_too_many_columns_or_no_least_alpha():
    face = FACES["cox"]
    wide = sp.csr_array((240, 5_001))
    with pytest.raises(ValueError, match=r"`X` has 5,001 columns, and `penalty` is Fused"):
        face.make(penalty=Fused("chain")).fit(wide, face.y)
    model = face.make(penalty=Fused("chain"), penalty_factor=np.zeros(P))
    with pytest.raises(ValueError, match=r"there is no alpha at which all .* pass `alphas`"):
        fit_path(model, X, face.y)
