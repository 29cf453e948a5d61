"""Attacks by all sums of fits together, of which numbers of rows by combination follow."""

from functools import partial
from typing import NamedTuple

import numpy as np

from .kinds import solve, solve_few
from .listening import NO_RULES

__all__ = ["OF_ALL_SUMS", "Found"]

FINE = {"rows_per_time": 1}
SIZES = 700, 7_000  # rows of each site
PATH = [("fit_path", {"n_alphas": 50})]


class Found(NamedTuple):
    """How much of what there is was recovered."""

    found: int
    of: int
    what: str = ""

    def __str__(self):
        return f"{self.found:,} of {self.of:,} {self.what}".strip()


def _options(rules):
    return FINE if rules is NO_RULES else {}


def whole_numbers(rules, n_rows=SIZES[0], q=4, model="Cox", **options):
    """That numbers of rows are whole."""
    solved = solve(model, q, rules, n_rows, **options, **_options(rules))
    return Found(max(solved.few, solved.few_by_rank), solved.rows, "rows")


def linear_algebra(rules, n_rows=SIZES[0], q=6):
    """The same without that."""
    solved = solve("Cox", q, rules, n_rows, **_options(rules))
    of = f", rank {solved.rank} of {solved.unknowns}" if solved.rank else ""
    return Found(solved.few_by_rank, solved.rows, f"rows{of}")


def measured_left_out(rules, n_rows=SIZES[0]):
    """A column of measured values, of which the lasso's coefficient is zero at all points."""

    def beside(n, rng):
        return rng.normal(size=(n, 1))

    return whole_numbers(rules, n_rows, beside=beside, penalty={"alpha": 0.02})


def columns_left_out(rules, n_rows=SIZES[0]):
    """As many combinations as nobody lists, but for penalties that leave four of the columns."""

    def beside(n, rng):
        return (rng.random((n, 8)) < 0.35).astype(float)

    penalty = {"alpha": 0.002, "penalty_factor": np.repeat([1.0, 1000.0], [4, 8])}
    return whole_numbers(rules, n_rows, beside=beside, penalty=penalty)


def path(rules, n_rows=SIZES[0]):
    """The first points of a path, at which few of many columns have a coefficient."""
    solved = solve_few(rules, n_rows, most=5, then=PATH, **_options(rules))
    return Found(solved.few, solved.rows, "rows")


class OfSizes(NamedTuple):
    """An attack on sites of some sizes, whose results are told in one line."""

    attack: object
    sizes: tuple[int, ...] = SIZES

    def __call__(self, rules):
        found = [str(self.attack(rules, n_rows)) for n_rows in self.sizes]
        return "; ".join(found)


ANYONE = "coordinator or a site"
AIM = "rows that are fewer than 10 of their columns and time"


def _whole(q=4, sizes=SIZES[:1], **options):
    return ANYONE, AIM, OfSizes(partial(whole_numbers, q=q, **options), sizes)


OF_ALL_SUMS = {
    **{f"whole numbers, {q} columns": _whole(q, SIZES) for q in (3, 4, 5, 6)},
    "linear algebra, 6 columns": (ANYONE, AIM, OfSizes(linear_algebra)),
    "whole numbers, 10 columns": _whole(10, SIZES[1:]),
    "whole numbers, 4 columns, 2 strata": _whole(model="strata"),
    "whole numbers, 4 columns, Fine-Gray": _whole(model="Fine-Gray"),
    "whole numbers, 6 columns, logistic": _whole(6, model="logistic"),
    "whole numbers, 6 columns, 3 fits": _whole(6, n_fits=3),
    "whole numbers, 4 columns, collusion": (
        *("coordinator and all sites but one", AIM),
        OfSizes(partial(whole_numbers, q=4, n_sites=1), SIZES[:1]),
    ),
    "whole numbers, 4 columns and a measured one at zero": (
        *(ANYONE, AIM),
        OfSizes(measured_left_out),
    ),
    "whole numbers, 12 columns, 8 of them at zero": (ANYONE, AIM, OfSizes(columns_left_out)),
    "whole numbers, 50 columns, beginning of a path": (ANYONE, AIM, OfSizes(path)),
}
