"""Rows of an outcome that a Cox model of few columns cannot tell apart, added up.

Where the model has few columns, such as the treatment alone, most rows without an event are alike:
they have the same values and leave the same risk sets. One of them has the weight of all. Rows in
no risk set, as those of strata without an event, count in the sum of weights alone.
"""

from dataclasses import replace

import numpy as np

from ..estimators.models.hazards import CoxModel
from ..patterns.risk_sets.plan import plan_rows

MOST_COLUMNS, MOST_KINDS = 3, 8
LEAST_GAIN = 0.5  # share of the rows that may be left


def kinds_of_rows(X):
    """Number of the kind of each row, by its values; None where there are many kinds."""
    if X.n_columns > MOST_COLUMNS:
        return None
    kinds = np.zeros(X.n_rows, np.int64)
    for j in range(X.n_columns):
        values, kind = np.unique(X.select([j]).dot([1.0]), return_inverse=True)
        _, kinds = np.unique(kinds * len(values) + kind, return_inverse=True)
        if kinds.max(initial=0) >= MOST_KINDS:
            return None
    return kinds


def merge_rows(model, outcome, kinds, X, y, rest):
    """X, outcome and further arguments of the rows that are left; all rows if nothing is gained."""
    if not isinstance(model, CoxModel) or model.time_varying:
        return X, y, rest
    weight = rest.get("sample_weight", np.ones(len(y)))
    are_weights = np.isfinite(weight).all() and weight.min() >= 0.0  # else the fit will say so
    has_more = outcome.start is not None or outcome.subject is not None
    if not are_weights or has_more or set(rest) - {"sample_weight", "strata"}:
        return X, y, rest
    plan = plan_rows(outcome, reorders=False)
    row, weight, is_event = plan.order, weight.take(plan.order), plan.event > 0
    events, others = np.flatnonzero(is_event & (weight > 0)), np.flatnonzero(~is_event)
    # nobody is at risk in cell 0
    cell = np.where(plan.is_in_risk_set, plan.exit_idx, 0).take(others).astype(np.int64)
    kind = cell * (kinds.max() + 1) + kinds.take(row.take(others))
    total = np.bincount(kind, weight.take(others))
    left, last = np.flatnonzero(total), np.empty(len(total), np.int64)
    last[kind] = others
    some = np.concatenate([events, last[left]])
    if not len(events) or len(some) > LEAST_GAIN * len(y):
        return X, y, rest
    rows = row.take(some)
    rest = {key: values.take(rows) for key, values in rest.items()}
    rest["sample_weight"] = np.concatenate([weight.take(events), total[left]])
    return replace(X[rows], keeps_order=False), y.take(rows), rest
