"""Folds: which rows are held out, and what a split makes of the row weights.

A fold is a weight of zero. The rows of a subject or of a matched set share a fate, and folds are
dealt out so that each has its share of the events.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from ..data import options
from ..data.by_fit import ColumnsOnDemand, Marks
from ..data.dealing import deal_folds, kinds_of
from ..data.vectors import check_labels, check_order

TIMED = ("start", "time")
TRAIN, TEST = 1, 2  # sides of a split
MOST_MARKS = 256  # that a byte holds


class SurvivalKFold(BaseCrossValidator):
    """Folds for cross-validation with equal numbers of events, which keep subjects whole.

    Subjects are assigned to folds in the order of their number of events, those with equal numbers
    at random. Subjects are `groups` if ``split`` gets them, or the field ``subject`` of the
    outcome, or ``stratum`` of matched sets, or otherwise single rows.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2.
    n_repeats : int, default=1
        How often all rows are dealt out anew.
    random_state : int, RandomState instance or None, default=None
        Seed of the dealing.

    Examples
    --------
    >>> from sksurvgpu import SurvivalKFold
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 10, random_state=0)
    >>> folds = SurvivalKFold(4, random_state=0)
    >>> events = [int(data.y["event"][test].sum()) for _, test in folds.split(data.X, data.y)]
    >>> max(events) - min(events) <= 1
    True
    """

    __metadata_request__split = {"groups": True}  # noqa: RUF012

    def __init__(self, n_splits=5, *, n_repeats=1, random_state=None):
        self.n_splits = n_splits
        self.n_repeats = n_repeats
        self.random_state = random_state

    def get_n_splits(self, X=None, y=None, groups=None):
        """Return the number of splits.

        Parameters
        ----------
        X, y, groups : object
            Not used.

        Returns
        -------
        n_splits : int
            Folds times repeats.
        """
        return self.n_splits * self.n_repeats

    def split(self, X, y, groups=None):
        """Generate row numbers to train on and to test on.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Not looked at, but for its number of rows and their order.
        y : ndarray of shape (n_samples,)
            Outcome of any model of this package.
        groups : array-like of shape (n_samples,), optional
            Labels of rows that stay together.

        Yields
        ------
        train : ndarray of int
            Rows to fit.
        test : ndarray of int
            Rows held out.
        """
        check_order(X=X, y=y, groups=groups)
        n_rows = _num_samples(y if X is None else X)
        groups = _groups_of(y) if groups is None else groups
        if groups is not None:
            groups = np.unique(check_labels(groups, "groups", n_rows), return_inverse=True)[1]
        for test in self._tests(_kinds_of(y), groups):
            yield np.delete(np.arange(n_rows), test), test

    def _tests(self, kind, groups):
        """Rows of each fold, given numbered kinds of outcomes and numbered groups."""
        for name, least in (("n_splits", 2), ("n_repeats", 1)):
            options.whole(getattr(self, name), name, least)
        random = check_random_state(self.random_state)
        n_units = len(kind) if groups is None else int(groups.max()) + 1
        if n_units < self.n_splits:
            noun = "rows" if groups is None else "groups"
            whole = "" if groups is None else " Subjects, strata and matched sets stay whole."
            raise ValueError(
                f"`n_splits` is {self.n_splits}, and there are {n_units} {noun} only.{whole}"
            )
        for _ in range(self.n_repeats):
            fold = deal_folds(kind, groups, n_units, int(self.n_splits), random)
            order = np.argsort(fold, kind="stable")
            yield from np.split(order, np.cumsum(np.bincount(fold))[:-1])


def _groups_of(y):
    """Labels of rows that stay together, from the fields of an outcome."""
    names = getattr(getattr(y, "dtype", None), "names", None) or ()
    if "subject" in names:
        return y["subject"]
    if "stratum" in names and not set(TIMED) & set(names):
        return y["stratum"]
    return None


def _kinds_of(y):
    """Outcome of each row, to be balanced: event or its code, class, or number of events."""
    y = np.asarray(y)
    return y[y.dtype.names[0]] if y.dtype.names else y


@dataclass(frozen=True)
class Splits:
    """Row numbers of every split, and the weights that fits and scores give to all rows."""

    base: np.ndarray  # (n_rows,): weight of every row
    tests: list  # rows held out, split by split
    trains: list  # rows of the fit; None where these are all others

    def __len__(self):
        return len(self.tests)

    def part(self, some: slice) -> Splits:
        """Some of the splits."""
        if len(self.tests[some]) == len(self):
            return self
        return Splits(self.base, self.tests[some], self.trains[some])

    @property
    def train(self):
        """Weights of the fits."""
        return self._columns(self._train, TRAIN)

    @property
    def test(self):
        """Weights of the rows held out."""
        return self._columns(lambda b: self._of(self.tests[b]), TEST)

    @property
    def both(self):
        """Weights of the rows of either side."""
        return self._columns(self._both, TRAIN | TEST)

    @property
    def dealing(self):
        """These splits, which also know how rows were dealt."""
        return self

    def n_repeats(self):
        """How often a row is held out, of those that ever are."""
        times = np.bincount(np.concatenate(self.tests), minlength=len(self.base))
        return float(times[times > 0].mean()) if times.any() else 1.0

    def totals(self):
        """Sum of the weights of each fit."""
        return np.array([self._train(b).sum() for b in range(len(self))])

    def _columns(self, make, side):
        def marks():
            layer, sides = self._layers
            times = ((sides & side) > 0).astype(np.float64)
            return Marks(self.base, self._mark, layer, times)

        return ColumnsOnDemand((len(self.base), len(self)), make, marks)

    @cached_property
    def _layers(self):
        """The layer of every split, and on which sides it has the rows of each mark.

        Tests without a common row share a layer, in which each has a mark of its own.
        """
        layer, sides = np.empty(len(self), np.intp), np.full((len(self), MOST_MARKS), TRAIN)
        n_layers, n_marks, is_taken = 0, MOST_MARKS, None
        for b, (test, train) in enumerate(zip(self.tests, self.trains, strict=True)):
            if train is not None or n_marks == MOST_MARKS or is_taken[test].any():
                n_layers, n_marks = n_layers + 1, 1
                is_taken = np.zeros(len(self.base), bool)
            layer[b] = n_layers - 1
            if train is not None:
                sides[b], n_marks = np.arange(MOST_MARKS), MOST_MARKS
            else:
                is_taken[test] = True
                sides[b, n_marks] = TEST
                n_marks += 1
        return layer, sides

    def _mark(self, layer):
        """Marks of the rows in a layer."""
        marks = np.zeros(len(self.base), np.uint8)
        for k, b in enumerate(np.flatnonzero(self._layers[0] == layer)):
            if self.trains[b] is None:
                marks[self.tests[b]] = k + 1
            else:
                marks[self.trains[b]] = TRAIN
                marks[self.tests[b]] |= TEST
        return marks

    def _of(self, rows):
        weight = np.zeros(len(self.base))
        weight[rows] = self.base[rows]
        return weight

    def _train(self, b):
        if self.trains[b] is not None:
            return self._of(self.trains[b])
        weight = self.base.copy()
        weight[self.tests[b]] = 0.0
        return weight

    def _both(self, b):
        if self.trains[b] is None:
            return self.base
        return self._of(np.union1d(self.trains[b], self.tests[b]))


def split_rows(cv, X, y, prepared, *, n_repeats, random_state) -> Splits:
    """Read the parameter `cv`: a number of folds, a splitter, or pairs of row numbers."""
    base, unit = prepared.weight, prepared.outcome.unit
    if options.is_whole(cv):
        folds = SurvivalKFold(cv, n_repeats=n_repeats, random_state=random_state)
        tests = list(folds._tests(kinds_of(prepared.outcome, base), unit))
        return Splits(base, [test.astype(np.int32) for test in tests], [None] * len(tests))
    if n_repeats != 1:
        raise ValueError("`n_repeats` is for a number of folds; repeat the splits of `cv` itself.")
    if isinstance(cv, str) or not (hasattr(cv, "split") or hasattr(cv, "__iter__")):
        options.refuse(cv, "cv", "must be a number of folds, a splitter, or pairs of row numbers")
    if hasattr(cv, "__len__") and len(cv) == len(base) and all(map(options.is_whole, cv)):
        raise ValueError(
            "`cv` has a number for each row; if these are folds, pass "
            "sklearn.model_selection.PredefinedSplit(cv)."
        )
    trains, tests = [], []
    for train, test in cv.split(X, y, unit) if hasattr(cv, "split") else cv:
        train, test = _as_rows(train, len(base)), _as_rows(test, len(base))
        is_rest = len(train) + len(test) == len(base) and not np.isin(test, train).any()
        trains.append(None if is_rest else train)
        tests.append(test)
    if not tests:
        raise ValueError("`cv` yields no split; pass a number of folds, or pairs of row numbers.")
    for b, (train, test) in enumerate(zip(trains, tests, strict=True)):
        own = np.delete(np.arange(len(base)), test) if train is None else train
        if unit is not None and np.intersect1d(unit[own], unit[test]).size:
            raise ValueError(
                f"split {b} of `cv` has rows of one subject or stratum on both sides; pass a "
                "number of folds, or a splitter of groups such as GroupKFold."
            )
    return Splits(base, tests, trains)


def _as_rows(rows, n_rows):
    rows = np.asarray(rows)
    rows = np.flatnonzero(rows) if rows.dtype == bool and rows.shape == (n_rows,) else rows
    is_valid = rows.ndim == 1 and rows.dtype.kind in "iu"
    if not is_valid or (rows.size and not 0 <= rows.min() <= rows.max() < n_rows):
        raise ValueError("`cv` yields something else than row numbers; pass pairs (train, test).")
    if (once := np.unique(rows)).size < rows.size:
        raise ValueError("`cv` yields a row twice in a split; name each once: copies do not count.")
    return once.astype(np.int32)
