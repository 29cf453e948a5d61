"""Penalties: formulas against search and differences, and what is derived from them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from sksurvgpu.penalties import BoundedElasticNet, ElasticNet
from sksurvgpu.penalties.folded import FoldedPenalty
from sksurvgpu.penalties.groups import GroupFamily

P = 40
RNG = np.random.default_rng(7)
FACTOR = RNG.choice([0.0, 0.5, 1.0, 3.0], P)
NOTHING = np.zeros(P, bool)


def bounded(l1_ratio):
    lower = np.where(RNG.random(P) < 0.3, 0.0, -RNG.choice([0.2, 1.0, np.inf], P))
    upper = RNG.choice([0.0, 0.3, 2.0, np.inf], P)
    return BoundedElasticNet(l1_ratio, lower, upper)


def mcp(l1_ratio):
    """With and without bounds; along some columns concave where their curvature is small."""
    held = RNG.random(P) < 0.4
    upper = np.where(held, RNG.choice([0.0, 0.3, 2.0], P), np.inf)
    lower = np.where(held, -RNG.choice([0.0, 0.2, 1.0], P), -np.inf)
    knot = RNG.choice([0.3, 1.1, 3.0, np.inf], P)
    return FoldedPenalty(l1_ratio, lower, upper, np.zeros(P), knot, total=2.0, null=np.ones(P))


def scad(l1_ratio):
    lower, upper, flat = np.full(P, -np.inf), np.full(P, np.inf), np.ones(P)
    knot = RNG.choice([1.2, 2.1, 3.7], P)
    return FoldedPenalty(l1_ratio, lower, upper, flat, knot, by_column=False, total=2.0)


FAMILIES = {
    f"{name}, l1_ratio {ratio}": make(ratio)
    for ratio in (1.0, 0.4, 0.0)
    for name, make in {
        "elastic net": ElasticNet,
        "bounded": bounded,
        "mcp": mcp,
        "scad": scad,
    }.items()
}


@pytest.fixture(params=FAMILIES)
def family(request):
    return FAMILIES[request.param]


@pytest.fixture
def penalty(family):
    return family.at(1.7, FACTOR, NOTHING)


def limits(family):
    everywhere = np.full(P, np.inf)
    return getattr(family, "lower", -everywhere), getattr(family, "upper", everywhere)


def value_at(penalty, j, x):
    coef = np.zeros(P)
    coef[j] = x
    return penalty.value(coef)


def test_values_are_the_elastic_net(penalty, family):
    if not hasattr(family, "l1_ratio"):
        pytest.skip("a penalty that is the elastic net nowhere")
    coef = family.clip(RNG.normal(size=P))
    l1, l2 = 1.7 * family.l1_ratio * FACTOR, 1.7 * (1 - family.l1_ratio) * FACTOR
    if not family.is_convex:
        coef = 1e-9 * coef  # where it is the lasso
    assert penalty.value(coef) == pytest.approx(
        l1 @ abs(coef) + 0.5 * l2 @ coef**2, rel=1e-14 if family.is_convex else 1e-7
    )


@pytest.mark.thorough(but=r"0\.4")
def test_minimum_is_the_least_value(penalty, family):
    lower, upper = limits(family)
    for j in range(P):
        curvature, z = RNG.uniform(0.1, 3.0), 4.0 * RNG.normal()

        def model(x, curvature=curvature, z=z, j=j):
            return 0.5 * curvature * x**2 - z * x + value_at(penalty, j, x)

        found = family.formulas.minimum(z, curvature, penalty.columns, j)
        assert lower[j] <= found <= upper[j]
        ends = max(lower[j], -100.0), min(upper[j], 100.0)
        rivals = [0.0, *ends, *np.clip(np.linspace(-60.0, 60.0, 401), *ends)]
        if ends[0] < ends[1]:
            rivals.append(minimize_scalar(model, bounds=ends, method="bounded").x)
        assert model(found) <= min(map(model, rivals)) + 1e-12


def test_slopes_are_differences_of_values(penalty, family):
    lower, upper = limits(family)
    step = 1e-6
    for x in (np.zeros(P), family.clip(RNG.normal(size=P)), np.clip(5.0, lower, upper)):
        pieces = penalty.pieces(x)
        for j in range(P):
            here = value_at(penalty, j, x[j])
            right = (value_at(penalty, j, x[j] + step) - here) / step
            left = (here - value_at(penalty, j, x[j] - step)) / step
            assert pieces.right[j] == (
                np.inf if x[j] >= upper[j] else pytest.approx(right, abs=1e-4)
            )
            assert pieces.left[j] == (
                -np.inf if x[j] <= lower[j] else pytest.approx(left, abs=1e-4)
            )


def test_pieces_are_quadratic(penalty, family):
    x = family.clip(RNG.normal(size=P))
    pieces = penalty.pieces(x)
    for j in np.flatnonzero(pieces.low < pieces.high):
        for t in RNG.random(3):
            low, high = max(pieces.low[j], x[j] - 2.0), min(pieces.high[j], x[j] + 2.0)
            y = low + t * (high - low)
            expected = pieces.right[j] * (y - x[j]) + 0.5 * pieces.curvature[j] * (y - x[j]) ** 2
            found = value_at(penalty, j, y) - value_at(penalty, j, x[j])
            assert found == pytest.approx(expected, abs=1e-12)


def test_violation_vanishes_at_minima_alone(penalty, family):
    """Of a separable quadratic, whose slope at the minimum is z - curvature x."""
    curvature, z = RNG.uniform(0.1, 3.0, P), 3.0 * RNG.normal(size=P)
    best = np.array(
        [family.formulas.minimum(z[j], curvature[j], penalty.columns, j) for j in range(P)]
    )
    assert penalty.violation(best, z - curvature * best).max() <= 1e-12
    moved = family.clip(best + np.where(best > 0, -0.1, 0.1))
    changed = np.abs(moved - best) > 1e-3
    assert penalty.violation(moved, z - curvature * moved)[changed].min() > 1e-4


def test_fixed_columns_do_not_count(family):
    penalty = family.at(1.0, FACTOR, ~NOTHING)
    assert not penalty.violation(np.ones(P), 9.0 * np.ones(P)).any()
    assert not penalty.is_near(np.ones(P), 9.0 * np.ones(P), 0.5).any()


def test_nothing_moves_above_the_least_strength(family):
    gradient = np.where(FACTOR > 0, 3.0 * RNG.normal(size=P), 0.0)
    lam = family.lam_max(family.reduced(gradient), FACTOR, np.ones(P))
    if np.all(getattr(family, "l1_ratio", 1.0) == 0):
        return

    assert not family.at(1.001 * lam, FACTOR, NOTHING).violation(np.zeros(P), gradient).any()
    assert family.at(0.99 * lam, FACTOR, NOTHING).violation(np.zeros(P), gradient).any()


@pytest.mark.parametrize("l1_ratio", [1.0, 0.4, 0.0])
def test_dual_points_bound_the_penalty(l1_ratio):
    """The conjugate: scale * g'b - penalty(b) is nowhere larger."""
    for family in (ElasticNet(l1_ratio), bounded(l1_ratio)):
        penalty = family.at(1.0, np.maximum(FACTOR, 0.5), NOTHING)
        gradient = 2.0 * RNG.normal(size=P)
        scale, conjugate = family.dual(penalty.columns, gradient)
        assert 0.0 <= scale <= 1.0
        largest = -np.inf
        for spread in (0.1, 1.0, 10.0, 100.0):
            for _ in range(100):
                b = family.clip(spread * np.sign(gradient) * RNG.random(P))
                largest = max(largest, scale * gradient @ b - penalty.value(b))
        at = [
            family.formulas.minimum(scale * g, 1e-9, penalty.columns, j)
            for j, g in enumerate(gradient)
        ]
        reached = scale * gradient @ at - penalty.value(np.array(at))
        assert largest <= conjugate + 1e-9
        assert conjugate == pytest.approx(reached, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("x", [0.0, 0.3, -1.5, 2.5, -6.0, 9.0])
def test_textbook_penalties(x):
    """Their definitions as integrals of slopes, at lambda 2 and gamma 3 or a 3.7."""
    t = np.linspace(0.0, abs(x), 200_001)
    slopes = {
        "mcp": np.maximum(2.0 - t / 3.0, 0.0),
        "scad": np.where(t <= 2.0, 2.0, np.maximum(3.7 * 2.0 - t, 0.0) / 2.7),
    }
    shapes = {"mcp": (0.0, 3.0), "scad": (1.0, 3.7)}
    for name, (flat, knot) in shapes.items():
        limits = np.array([-np.inf]), np.array([np.inf])
        family = FoldedPenalty(1.0, *limits, np.array([flat]), np.array([knot]), by_column=False)
        penalty = family.of_total(1.0).at(2.0, np.ones(1), np.zeros(1, bool))
        expected = np.trapezoid(slopes[name], t)
        assert penalty.value(np.array([x])) == pytest.approx(expected, abs=1e-8)


def test_knots_stay_where_the_mean_has_them():
    """Weights of another sum change strengths alone, if the mean's penalty is the same."""
    for family in (mcp(0.7), scad(0.7)):
        there = family.of_total(3.0).strengths(3.0, FACTOR)
        here = family.strengths(2.0, FACTOR)
        for name, ratio in (("l1", 1.5), ("l2", 1.5), ("flat", 1.0), ("knot", 1.0)):
            np.testing.assert_allclose(getattr(there, name), ratio * getattr(here, name))


def test_tangents_touch_and_are_nowhere_less():
    for family in (mcp(0.7), scad(0.7), ElasticNet(0.7)):
        penalty = family.at(1.7, FACTOR, NOTHING)
        for _ in range(50):
            here, there = (family.clip(2.0 * RNG.normal(size=P)) for _ in range(2))
            tangent = penalty.tangent(here)
            for j in range(P):
                at_here = value_at(tangent, j, here[j]) - value_at(penalty, j, here[j])
                at_there = value_at(tangent, j, there[j]) - value_at(penalty, j, there[j])
                assert at_there >= at_here - 1e-12
            assert (tangent.pieces(there).curvature >= 0).all()


@pytest.mark.parametrize("shape", [mcp, scad])
def test_tangents_of_groups(shape):
    """The tangent is to the penalty of a norm, whatever the direction."""
    group = np.where(np.arange(P) < 3, 0, -1)
    family = GroupFamily(group, np.ones(1), radial=shape(1.0))
    penalty = family.at(1.7, np.ones(P), NOTHING)

    def value(at, coef):
        """By column, or norm, of which the first columns are the group."""
        radial = np.concatenate([[np.linalg.norm(coef[:3])], np.zeros(2), coef[3:]])
        return at.family.radial.kernels.sum_values(radial, at.columns)

    for _ in range(50):
        here, there = 2.0 * RNG.normal(size=(2, P))
        tangent = penalty.tangent(here)
        gain = value(tangent, there) - value(tangent, here)
        assert gain >= value(penalty, there) - value(penalty, here) - 1e-12
        beside = here + 1e-6 * (there - here)
        slopes = (value(each, beside) - value(each, here) for each in (tangent, penalty))
        np.testing.assert_allclose(*slopes, rtol=1e-3, atol=1e-10)
