"""Upper bounds of log-likelihoods, for the duality gap: no backend evaluates anything for them."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import xlogy

from .._compile import specialize
from .weighted import inverse_of


def largest_loglik(likelihood, weighted):
    """Upper bound of the log-likelihood of a plan under weights."""
    return _OF_PATTERN[likelihood.pattern](likelihood, weighted)


def _of_rows(likelihood, weighted):
    terms, weights = likelihood.largest_terms(weighted.observed), weighted.weights()
    return float(weights @ terms if np.ndim(terms) else weights.sum() * terms)


def _of_groups(likelihood, weighted):
    """Each group's events at the rows that have them, in their shares."""
    events, inverse = weighted.events(), inverse_of(weighted.total)
    return float(xlogy(events, events * inverse[weighted.plan.group_idx]).sum())


def _of_subsets(likelihood, weighted):
    """Reached where every case is certain."""
    return 0.0


def _of_risk_sets(likelihood, weighted):
    """At every event time, nobody at risk but the deaths."""
    return _sum_of(likelihood.jump_formula)(weighted.deaths, weighted.death_weight)


@cache
def _sum_of(jump_formula):
    return specialize(_sum_cells, jump_formula=jump_formula)


def _sum_cells(deaths, death_weight):
    total = 0.0
    for k in range(len(deaths)):
        if deaths[k] > 0.0:
            d = death_weight[k]
            log_term, _, _ = jump_formula(d, d, d, deaths[k])  # noqa: F821 (bound by specialize)
            total -= log_term
    return total


_OF_PATTERN = {
    "rows": _of_rows,
    "group_sums": _of_groups,
    "subsets": _of_subsets,
    "risk_sets": _of_risk_sets,
    "carried_risk_sets": _of_risk_sets,
}
