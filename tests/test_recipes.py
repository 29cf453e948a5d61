"""Weights that partitions make from a recipe: the laws of folds and draws, in any order."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chi2

from sksurvgpu.backends.sums.messages import Recipe
from sksurvgpu.backends.sums.recipes import Recipes, count_units, for_part, make_weight
from sksurvgpu.data.outcomes.counts import GroupedOutcome
from sksurvgpu.solver.problem import Batch

SIZES = (60, 0, 41, 25)


def draw_parts(grouped=True, weighted=False):
    rng = np.random.default_rng(5)
    parts = []
    for n in SIZES:
        event = (rng.random(n) < 0.3).astype(float)
        unit = np.sort(rng.permutation(np.arange(n) // 3) * 7) if grouped else None
        weight = rng.choice([0.0, 0.5, 2.0], n) if weighted else None
        outcome = GroupedOutcome(event)
        parts.append(SimpleNamespace(outcome=outcome, weight=weight, unit=unit, n_rows=n))
    return parts


def weights_of(recipes, parts):
    """Weights by fit and partition."""
    kept = [{} for _ in parts]

    def make(weight, k):
        return make_weight(for_part(weight, k), parts[k], k, kept[k])

    return [[make(recipes[:, b], k) for k in range(len(parts))] for b in range(len(recipes))]


def open_recipes(kind, parts, numbers=range(10), seed=3):
    units = [count_units(part) for part in parts]
    if kind in ("train", "test"):
        return Recipes.of(kind, range(10), seed, sum(SIZES), units, of=5)
    return Recipes.of(kind, numbers, seed, sum(SIZES), units)


@pytest.mark.parametrize("grouped", [False, True])
def test_folds_share_out_rows_events_and_whole_units(grouped):
    parts = draw_parts(grouped, weighted=True)
    tests, trains = (weights_of(open_recipes(kind, parts), parts) for kind in ("test", "train"))
    for test, train in zip(tests, trains, strict=True):
        for part, out, rest in zip(parts, test, train, strict=True):
            np.testing.assert_array_equal(out + rest, part.weight)
            assert not (out * rest).any()
    for repeat in (tests[:5], tests[5:]):
        for k, part in enumerate(parts):
            np.testing.assert_array_equal(sum(test[k] for test in repeat), part.weight)
    parts = [without_weight(part, np.ones(part.outcome.n_rows)) for part in parts]
    for repeat in (slice(0, 5), slice(5, 10)):
        held = weights_of(open_recipes("test", parts)[repeat], parts)
        for k, part in enumerate(parts):
            out = np.array([test[k] for test in held])
            assert np.ptp(out.sum(axis=1)) <= (3 if grouped else 1)
            assert grouped or np.ptp(out @ part.outcome.value) <= 1
            check_whole(out, part)
    assert not np.array_equal(tests[0][0], tests[5][0])


def without_weight(part, weight=None):
    return SimpleNamespace(outcome=part.outcome, unit=part.unit, weight=weight, n_rows=part.n_rows)


def check_whole(weights, part):
    for label in () if part.unit is None else np.unique(part.unit):
        assert (np.ptp(weights[:, part.unit == label], axis=1) == 0).all()


@pytest.mark.parametrize("kind", ["multinomial", "exponential", "half", "complementary"])
def test_draws_keep_units_whole_and_their_number(kind):
    parts = draw_parts()
    units = [count_units(part) for part in parts]
    drawn = weights_of(open_recipes(kind, parts), parts)
    totals = []
    for weights in drawn:
        first = [np.unique(part.unit, return_index=True)[1] for part in parts]
        totals.append([w[i].sum() for w, i in zip(weights, first, strict=True)])
    for k, part in enumerate(parts):
        check_whole(np.array([weights[k] for weights in drawn]), part)
    sums = np.sum(totals, axis=1)
    if kind == "exponential":
        assert np.ptp(sums) > 1.0
    else:
        size = sum(units) if kind == "multinomial" else sum(units) // 2
        assert (sums == size).all()
        assert np.ptp(totals, axis=0)[[0, 2, 3]].all()  # partitions are not strata
    if kind == "complementary":
        for first, second in zip(drawn[::2], drawn[1::2], strict=True):
            assert not any((a * b).any() for a, b in zip(first, second, strict=True))


@pytest.mark.thorough(but="multinomial|half")
@pytest.mark.parametrize("kind", ["multinomial", "exponential", "half", "complementary"])
def test_draws_have_the_law_of_one_draw_from_all(kind):
    parts = draw_parts(grouped=False)
    n, times = sum(SIZES), 1_000
    numbers = range(0, 2 * times, 2)  # pairs of complementary halves are not independent
    drawn = weights_of(open_recipes(kind, parts, numbers), parts)
    drawn = np.array([np.concatenate(weights) for weights in drawn])
    share = (n // 2) / n
    mean, variance, between = {
        "multinomial": (1.0, 1.0 - 1.0 / n, -1.0 / n),
        "exponential": (1.0, 1.0, 0.0),
    }.get(kind, (share, share * (1 - share), -share * (1 - share) / (n - 1)))
    # means of all rows together, as their covariance has no inverse but for one direction
    error = (drawn.mean(axis=0) - mean) * np.sqrt(times / (variance - between))
    assert chi2.sf(error @ error, n) > 1e-4
    assert chi2.cdf(error @ error, n) > 1e-4
    assert drawn.var() == pytest.approx(variance, rel=0.02)
    inside, across = drawn[:, :30].sum(axis=1), drawn[:, 70:100].sum(axis=1)
    covariance = np.cov(inside, across)
    assert covariance[0, 0] == pytest.approx(30 * variance + 870 * between, rel=0.2)
    spread = covariance[0, 0] * 4.0 / np.sqrt(times)
    assert covariance[0, 1] == pytest.approx(900 * between, abs=spread)


def test_weights_depend_on_their_address_alone():
    parts = draw_parts()
    for kind in ("test", "multinomial", "exponential", "half", "complementary"):
        recipes = open_recipes(kind, parts)
        forwards = weights_of(recipes, parts)
        for b in reversed(range(len(recipes))):
            for k in reversed(range(len(parts))):
                again = make_weight(for_part(recipes[b : b + 1][:, 0], k), parts[k], k)
                np.testing.assert_array_equal(again, forwards[b][k])
        others = weights_of(open_recipes(kind, parts, seed=4), parts)
        assert not np.array_equal(others[0][0], forwards[0][0])
        if kind == "exponential":
            a, b = forwards[0][0], forwards[0][3]
            assert not np.array_equal(np.unique(a)[:5], np.unique(b)[:5])


def test_recipes_are_columns_of_a_batch():
    parts = draw_parts()
    recipes = open_recipes("multinomial", parts)
    assert recipes.shape == (sum(SIZES), 10)
    batch = Batch(np.ones((1, 10)), weight=recipes).of(range(4, 7))
    assert batch.weight.shape == (sum(SIZES), 3)
    assert for_part(batch.weight[:, 1], 2) == for_part(recipes[:, 5], 2)
    with pytest.raises(IndexError, match="in partitions"):
        recipes[3, 0]
    with pytest.raises(ValueError, match="`cv` is 5, and there are 4 units"):
        Recipes.of("train", range(5), 0, 12, [4, 0], of=5)


def test_given_weights_stay():
    part = draw_parts(weighted=True)[0]
    assert for_part(None, 3) == for_part(Recipe(), 3) == Recipe()
    np.testing.assert_array_equal(make_weight(Recipe(), part, 0), part.weight)
    assert make_weight(Recipe(), without_weight(part), 0) is None
    drawn = Recipe("multinomial", 0, 0, of=30)
    ones = make_weight(drawn, without_weight(part), 0)
    np.testing.assert_array_equal(make_weight(drawn, part, 0), ones * part.weight)
    assert not np.array_equal(make_weight(drawn, without_weight(part), 1), ones)
