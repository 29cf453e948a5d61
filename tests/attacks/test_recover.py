"""Attacks that recover rows without rules, and nothing under those of the default.

All of them, with numbers: ``python -m tests.attacks.recover``.
"""

import numpy as np
import pytest

from attacks import counting, recover
from attacks.kinds import solve
from attacks.listening import NO_RULES
from attacks.recover import WITHOUT_BLUR
from attacks.whole_numbers import solve_whole
from sksurvgpu.federated import Rules

pytestmark = pytest.mark.filterwarnings("ignore:times are so coarse")

# What the rules do not cover yet; a strict mark says when they do.
OPEN = {"exits less entries of rows alike"}
COVERED = (
    "cell of one row",
    "Efron: exits less deaths",
    "exits less entries of rows alike",
    "opening: sums of a column",
    "opening: orders of size",
    "level without a column",
    "the same, X an array",
    "columns alike but for a row",
    "standard errors, one death of a column",
    "columns alike but for a row at a time",
    "robust errors, one event of a column",
    "message of a site",
    "collusion",
)


is_open = pytest.mark.xfail(strict=True, reason="the rules do not cover it")


@pytest.mark.parametrize("name", COVERED)
def test_attacks_work_without_rules(name):
    found = recover.SINGLE[name][2](NO_RULES)
    # of 1,286 rows and deaths, those in cells of few; of all others, everything
    assert found.found == found.of or (name == "collusion" and found.found > 100)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=is_open) if name in OPEN else name for name in COVERED]
)
def test_nothing_is_recovered_under_rules(name):
    """... nor without blur."""
    assert recover.SINGLE[name][2](WITHOUT_BLUR).found == 0


@pytest.mark.parametrize("name", ["changed sum", "other grids", "a site less"])
def test_what_a_coordinator_makes_up_is_refused(name):
    assert recover.SINGLE[name][2](Rules()).found == 0


def test_models_are_few():
    most = Rules().max_models
    assert recover.other_models(Rules(), most).found == most - 1
    assert recover.other_models(NO_RULES, most).found == most


def test_who_knows_all_rows_but_one_finds_it():
    """What exact sums tell; of blurred ones it is next to a guess."""
    found = recover.one_unknown_row(WITHOUT_BLUR, 3)
    assert found.found == found.of
    found = recover.one_unknown_row(Rules(), 3)
    assert found.found < 0.6 * found.of  # of ten tables 0.5, of the first three 0.48


def test_few_columns_follow_from_all_sums_together():
    """Sums are exact, and numbers of rows are whole: `max_listed` is for that."""
    loose = Rules(max_listed=0, blur=0.0)
    few, many = (solve("Cox", q, loose) for q in (3, 6))
    assert (few.by_rank, few.wrongly, many.wrongly) == (0, 0, 0)
    assert few.solved == few.times
    assert few.few > 100
    assert many.solved == many.few == 0
    more = solve("Cox", 6, loose, n_fits=3)
    assert more.solved == more.times
    for q, n_fits in ((3, 1), (6, 3)):
        assert counting.whole_numbers(WITHOUT_BLUR, q=q, n_fits=n_fits).found == 0


LEFT_OUT = [
    counting.measured_left_out,
    counting.columns_left_out,
    counting.path,
]


@pytest.mark.weekly(but="left_out")
@pytest.mark.parametrize("attack", LEFT_OUT)
def test_few_columns_that_have_coefficients_are_found_among_many(attack):
    """What exact sums tell: where others have a coefficient of zero, few are all of a sum."""
    assert attack(WITHOUT_BLUR).found > 50
    assert attack(Rules()).found == 0


def test_whole_numbers_are_those_that_give_the_sums():
    rng = np.random.default_rng(0)
    equations, true = rng.random((5, 12)), rng.integers(0, 9, (12, 3)).astype(float)
    sums = equations @ true
    found, fits = solve_whole(equations, sums, np.full(true.shape, 4.0), 1e12)
    assert np.array_equal(found, true)
    assert fits.all()
    sums[:, 1] += 1e-6
    _, fits = solve_whole(equations, sums, np.full(true.shape, 4.0), 1e12)
    assert fits.tolist() == [True, False, True]
