"""Scores of held-out rows, for all splits and penalties of a batch.

Van Houwelingen's score is what the rows held out add to the log-likelihood of the others,
``l_all(b) - l_train(b)`` at the coefficients b of the training rows: it needs no risk sets of the
few rows held out (Verweij and Van Houwelingen 1993). The own score is the log-likelihood of the
rows held out by themselves. Where rows or groups are independent, both are the same.

Either is one evaluation under other weights, all of them a batch.
"""

from contextlib import suppress

import numpy as np
from sksurv.exceptions import NoComparablePairException

from ..estimators._relaxed import evaluate
from ..estimators.models.base import model_of

__all__ = ["SCORINGS", "sizes_of"]


def van_houwelingen(model, prepared, splits, solutions):
    """Log-likelihood that the held-out rows add to that of the others."""
    train = np.array([[solution.loglik for solution in fit] for fit in solutions])
    return _evaluate(prepared, splits.both, solutions) - train


def held_out(model, prepared, splits, solutions):
    """Log-likelihood of the held-out rows by themselves."""
    return _evaluate(prepared, splits.test, solutions)


def _evaluate(prepared, weights, solutions):
    """Log-likelihood of every solution under the weights of its split, (n_splits, n_penalties)."""
    pairs = [(b, solution) for b, fit in enumerate(solutions) for solution in fit]
    logliks = np.array([found["loglik"] for found in evaluate(prepared, pairs, weights)])
    # a penalty whose predictions are beyond floating point is the worst
    return np.where(np.isfinite(logliks), logliks, -np.inf).reshape(len(solutions), -1)


def concordance(model, prepared, splits, solutions):
    """Concordance of the held-out rows; NaN where none can be compared."""
    found = np.full((len(solutions), len(solutions[0])), np.nan)
    measure = model_of(model).concordance
    n_events, terms = splits.base * prepared.outcome.n_events, prepared.setting.terms
    for b, fit in enumerate(solutions):
        rows = splits.tests[b]
        if not n_events[rows].any():
            continue
        outcome, weight = prepared.outcome.take(rows), splits.base[rows]
        for i, solution in enumerate(fit):
            predictors = terms.predictors(prepared.problem.given, solution.coef)
            with suppress(NoComparablePairException):
                found[b, i] = measure(outcome, predictors[rows], weight, terms)
    return found


def sizes_of(prepared, splits):
    """Weight of each split in the mean: its held-out events."""
    if prepared.in_partitions:
        return splits.sizes
    n_events = splits.base * prepared.outcome.n_events
    return np.array([n_events[rows].sum() for rows in splits.tests])


SCORINGS = {
    "van_houwelingen": van_houwelingen,
    "held_out": held_out,
    "concordance": concordance,
}
