"""Dealing out units of rows to folds, each with its share of every kind of outcome."""

import numpy as np

MOST_KINDS = 10


def kinds_of(outcome, weight):
    """Numbers of the kinds of outcomes that folds have equal shares of."""
    kinds = np.unique(outcome.kind, return_inverse=True)[1]
    return np.where(weight > 0, kinds, -1)  # rows that do not count are shared out, too


def deal_folds(kind, unit, n_units, n_folds, random):
    """Fold of every row, given numbered kinds of outcomes and numbered units (None: rows)."""
    fold = _deal(_counts(kind, unit, n_units), n_folds, random)
    return fold if unit is None else fold[unit]


def _counts(kind, unit, n_units):
    """Per unit: rows of each kind of outcome, the rarest kind first; or its sum, for many kinds."""
    values, code = np.unique(kind, return_inverse=True)
    unit = np.arange(len(kind)) if unit is None else unit
    if len(values) > MOST_KINDS:  # numbers, not kinds
        weight = kind if kind.dtype.kind in "iuf" else None
        return [np.bincount(unit, weight, n_units)]
    rarest_first = np.argsort(np.bincount(code))
    return [np.bincount(unit, code == k, n_units) for k in rarest_first]


def _deal(counts, n_folds, random):
    """Fold of every unit: sorted by counts, the next `n_folds` units go to one fold each."""
    n_units = len(counts[0])
    shuffled = random.permutation(n_units)
    order = shuffled[np.lexsort([count[shuffled] for count in reversed(counts)])][::-1]
    n_rounds = -(-n_units // n_folds)
    seats = np.argsort(random.random_sample((n_rounds, n_folds)), axis=1).ravel()
    fold = np.empty(n_units, np.int64)
    fold[order] = seats[:n_units]
    return fold
