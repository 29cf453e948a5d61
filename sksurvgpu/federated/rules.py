"""Rules of what a site releases, and what of its rows they leave."""

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np

from ..data.design.columns import DENSE, INDICATOR, Design
from ..data.design.entries import entries_of
from ..data.options import whole
from .differences import find_near
from .grid import few

RECIPES = ("given", "train", "test", "exponential")


class NotReleasedError(Exception):
    """Raised at a site where it does not release what was asked for; its text is the answer."""


class OutsideError(NotReleasedError):
    """A refusal at a point that a fit may come across on its way, and shall turn away from."""


@dataclass(frozen=True)
class Rules:
    """Rules for the sums that a site releases, which the site checks itself.

    If an outcome names persons (``subject``, matched sets), each counts as one row.

    Parameters
    ----------
    min_rows : int, default=10
        Rows of which a sum must be: of every stratum and time, of columns that are not zero, of
        pairs of columns in a matrix, and of folds.
    min_sites : int, default=3
        Sites of a programme, which alone are seen together: of two, each knows what the other says.
    max_exchanges : int, default=200
        Sums that the site takes part in over its life, those of all fits of a path together.
    largest_share : float, default=0.2
        Part of a sum that may come from one row.
    longest_range : float, default=30.0
        Largest linear predictor less the least; beyond, few rows are all of a sum.
    max_models : int, default=4
        Models for which the rows may be read, as far as reading depends on them: penalties and
        coefficients do not count. One whose outcome has classes counts twice.
    max_programmes : int, default=10
        Programmes that the site takes part in over its life: by bounds and means of priors each may
        choose points at which sums are told.
    max_matrices : int, default=0
        Points at which a matrix of columns by columns may be asked for over the life of the site.
    max_listed : int, default=500
        Combinations of values of all columns up to which each needs ``min_rows`` rows, or none, at
        each time, unless most rows have one of their own: so few can be listed, and exact sums tell
        how many rows have each. 0 lets any be.
    blur : float, default=0.1
        Standard deviation of a secret weight of about 1 that each row has for good. Sums are those
        of no whole numbers then, from which nothing can be counted; estimates move by about
        ``blur`` of their standard errors. `max_listed` does not matter from 0.05 on. With 0 the fit
        is that of the rows as they are.
    max_work : float, default=1e10
        Numbers on which one message may have the site work, of the order of ten seconds: entries
        of X times requests of the message, or times pieces of time of its model. Fits ask for two
        requests; sixteen of either are always allowed.
    recipes : tuple of str, default=("given", "train", "test", "exponential")
        Weights that may be asked for, see `backends.sums.messages.Recipe`.
    max_epsilon : float, optional
        Differential privacy of each row over the life of the site, with `max_delta`. If set, it
        takes part in programmes with `Noise` and in no others, as many as are within both;
        otherwise in none with noise. To these no other rule applies but `min_sites`,
        `max_exchanges` and `max_programmes`.
    max_delta : float, default=1e-6
        With `max_epsilon`.
    """

    min_rows: int = 10
    min_sites: int = 3
    max_exchanges: int = 200
    largest_share: float = 0.2
    longest_range: float = 30.0
    max_models: int = 4
    max_programmes: int = 10
    max_matrices: int = 0
    max_listed: int = 500
    blur: float = 0.1
    max_work: float = 1e10
    recipes: tuple[str, ...] = ("given", "train", "test", "exponential")
    max_epsilon: float | None = None
    max_delta: float = 1e-6

    def __post_init__(self):
        names = ("min_rows", 1), ("min_sites", 1), ("max_exchanges", 0), ("max_models", 0)
        names += ("max_programmes", 0), ("max_matrices", 0), ("max_listed", 0)
        for name, least in names:
            whole(getattr(self, name), name, least, f"must be an integer from {least} on")
        if not (isinstance(self.blur, Real) and 0.0 <= self.blur <= 1.0):
            raise ValueError(f"`blur` is {self.blur!r}, must be from 0 to 1.")
        most_of = {"largest_share": 1.0, "longest_range": 700.0, "max_work": np.inf}
        most_of |= {"max_delta": 0.1} | ({} if self.max_epsilon is None else {"max_epsilon": 1e7})
        for name, most in most_of.items():
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0.0 < value <= most:
                raise ValueError(f"`{name}` is {value!r}, must be above 0 and at most {most:g}.")
        unknown = sorted(set(self.recipes).difference(RECIPES))
        if isinstance(self.recipes, str) or unknown:
            raise ValueError(f"`recipes` is {self.recipes!r}; pass a tuple of some of {RECIPES}.")


def find_absent(rows, rules: Rules) -> np.ndarray:
    """Columns of X whose sums would be those of few rows, or of one, in a piece of time, too.

    What nobody has counts as what few have: that these are there is not told.  Of two columns whose
    sums differ by those of few rows, the later one is absent.
    """
    design = rows.design
    sizes = [np.abs(design.stored_values(j)).sum() for j in range(design.n_columns)]
    is_absent = _find_rare(design, rows.unit, rules) | (np.array(sizes) == 0.0)
    is_absent |= find_near(without_columns(design, is_absent), rows.unit, rules.min_rows)
    for first, last in np.unique(rows.piece_ptr, axis=0):
        edges = np.concatenate([[-np.inf], rows.cuts, [np.inf]])
        if (first, last) == (0, len(rows.cuts) + 1):
            continue
        reaches = rows.outcome.time > edges[first]
        if rows.outcome.start is not None:
            reaches &= rows.outcome.start < edges[last]
        unit = None if rows.unit is None else rows.unit[reaches]
        columns = rows.source[np.all(rows.piece_ptr == (first, last), axis=1)]
        others = ~np.isin(np.arange(design.n_columns), columns)
        reached = design[np.flatnonzero(reaches)]
        is_absent |= _find_rare(reached, unit, rules) & ~others
        reached = without_columns(reached, is_absent | others)
        is_absent |= find_near(reached, unit, rules.min_rows)
    return is_absent


def _find_rare(design, unit, rules):
    rows_of_unit = None if unit is None else np.bincount(unit)
    is_rare = np.zeros(design.n_columns, bool)
    for j in range(design.n_columns):
        rows, values = values_of(design, j)
        n_with, n_without, share = len(rows), design.n_rows - len(rows), abs(values)
        if unit is not None:
            rows_with = np.bincount(unit[rows], minlength=len(rows_of_unit))
            n_with = np.count_nonzero(rows_with)
            n_without = np.count_nonzero(rows_with < rows_of_unit)
            share = np.bincount(unit[rows], share)
        counts = [n_with, n_without] if np.all(values == values[:1]) else [n_with]
        too_much = rules.largest_share * share.sum()
        is_rare[j] = few(np.array(counts), rules.min_rows).any() or share.max(initial=0) > too_much
    return is_rare


def find_reference(design, unit, min_rows):
    """Neighbouring columns like the levels of a factor, of which few rows have none; or None.

    No row has two of them, so that all rows less those of the columns are the rows of a level that
    has no column. Sums of a column of measured values are no sums of rows, and do not go with them.
    """
    run, n_some, begun = [], 0, 0
    run_of = np.full(design.n_rows, -1)  # the last run that had a row
    for j in range(design.n_columns + 1):
        rows, values = (None, None) if j == design.n_columns else entries_of(design, j)
        if rows is not None and _is_measured(rows, values, unit, min_rows):
            continue
        if rows is None or (run_of[rows] == begun).any():
            n_none = design.n_rows - n_some
            n_none = n_none if unit is None else len(np.unique(unit[run_of != begun]))
            if run and few(np.array(n_none), min_rows):
                return run
            run, n_some, begun = [], 0, begun + 1
        if rows is not None and len(rows):
            run.append(j)
            run_of[rows] = begun
            n_some += len(rows)
    return None


def _is_measured(rows, values, unit, min_rows):
    """Whether enough rows have other values than 0 and the two most common ones.

    The first and second moments, gradient and curvature, make levels of two values.
    """
    if np.all(values == values[:1]):
        return False
    distinct, counts = np.unique(values, return_counts=True)
    if unit is None or len(distinct) < 3:
        return np.sort(counts)[:-2].sum() >= min_rows
    others = ~np.isin(values, distinct[np.argsort(-counts)[:2]])
    return len(np.unique(unit[rows[others]])) >= min_rows


def values_of(design, j) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a column that differ from its most common value, 0 if sparse, and by how much."""
    if design.kind[j] != DENSE:
        return entries_of(design, j)
    values = design.stored_values(j)
    distinct, counts = np.unique(values, return_counts=True)
    if not len(values):
        return np.arange(0), values
    moved = values - distinct[np.argmax(counts)]
    rows = np.flatnonzero(moved)
    return rows, moved[rows]


def without_columns(design: Design, absent) -> Design:
    """Design whose columns are zero where they are absent; dense ones stay dense."""
    if not absent.any():
        return design
    is_dense = design.kind == DENSE
    stored = np.diff(design.indptr)
    indices = design.indices[np.repeat(~absent, stored)]
    stored = np.where(absent, 0, stored)
    value_ptr = np.where(absent & is_dense, len(design.values), design.value_ptr)
    return replace(
        design,
        kind=np.where(absent & ~is_dense, INDICATOR, design.kind).astype(np.uint8),
        indptr=np.concatenate([[0], np.cumsum(stored)]),
        indices=indices,
        values=np.concatenate([design.values, np.zeros(design.n_rows)]),
        value_ptr=np.where(absent & ~is_dense, 0, value_ptr),
    )
