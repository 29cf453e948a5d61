r"""Risk of an event among competing ones, and its variance, at all times at once.

With the notation of `counts` and S(s-) the probability to be without any event before s, the
Aalen-Johansen estimate of the risk of an event of the kind k by t is

.. math::
    F(t) = \sum_{s \le t} S(s-) h_k(s), \quad S(s) = \prod_{u \le s} (1 - h(u)),

which without other kinds is 1 - S(t), Kaplan-Meier. With G(s) = F(\infty) - F(s), so that
F(t) - F(s) = G(s) - G(t), its derivatives by the hazards at s are

.. math::
    \frac{\partial F(t)}{\partial h_k(s)} = S(s-) - \frac{G(s) - G(t)}{1 - h(s)}, \quad
    \frac{\partial F(t)}{\partial h_j(s)} = - \frac{G(s) - G(t)}{1 - h(s)}, \; j \ne k .

The hazards of a time are shares of n rows, uncorrelated from time to time where rows are there from
the beginning; the delta method then has a variance, Greenwood's without other kinds, that is a
polynomial in G(t) with running sums as coefficients (Dinse and Larson 1986). It is equal to that of
the infinitesimal jackknife, which also holds for rows with weights, late entry and subjects. There
the influence of a row is Z(t) + G(t) U(t), U as for log S (see `jackknife`), and Z with the jumps
S(s-) 1{event = k} / n - G(s) 1{event} q(s) and the hazards S(s-) h_k / n - G(s) q(s) h.
"""

import numpy as np

from .jackknife import running_products, without_noise


def without_event(counts):
    """One over the weight of those who are at risk and have no event of any kind, q."""
    left = counts.at_risk - counts.events.sum(axis=0)
    is_left = ~counts.is_last & (left > 0.0)
    return np.divide(1.0, left, out=np.zeros_like(left), where=is_left)


def incidence(counts):
    """Risks of all kinds, (n_kinds, n_lines), and the probability before to have no event."""
    hazard = counts.divide(counts.events.sum(axis=0))
    surviving = counts.multiply_up(np.where(counts.is_last, 0.0, 1.0 - hazard))
    before = counts.before(surviving, 1.0)
    return np.array([counts.sum_up(before * counts.divide(own)) for own in counts.events]), before


def delta_variance(counts, kind, risk, before):
    """Variance of the risk of a kind at every line, rows being counted."""
    hazard, own = counts.divide(counts.events.sum(axis=0)), counts.divide(counts.events[kind])
    growth = _growth(counts, risk)
    last = counts.divide(before * own)
    square = without_event(counts) * hazard  # h / (n (1 - h))
    constant = last * before * (1.0 - own) - 2.0 * growth * last + growth**2 * square
    linear = last - growth * square
    sums = [counts.sum_up(values) for values in (constant, linear, square)]
    terms = sums[0], 2.0 * growth * sums[1], growth**2 * sums[2]
    return without_noise(terms)


def jackknife_variance(counts, kind, risk, before, rows):
    """Variance of the risk of a kind at every line, from the influence of rows or subjects."""
    q, growth = without_event(counts), _growth(counts, risk)
    last = counts.divide(before)
    events = counts.events.sum(axis=0)
    is_own, is_any = rows.event == kind + 1, rows.event > 0
    any_jump = np.where(is_any, q[counts.exit], 0.0)
    own_jump = np.where(is_own, last[counts.exit], 0.0) - any_jump * growth[counts.exit]
    any_total = counts.sum_up(q * counts.divide(events))
    own_total = counts.sum_up(
        last * counts.divide(counts.events[kind]) - growth * q * counts.divide(events)
    )
    parts = [(any_jump, any_total), (own_jump, own_total)]
    products = running_products(counts, parts, rows.weight, rows.subject)
    total = own_total + growth * any_total
    terms = (
        products[2, 2],
        2.0 * growth * products[1, 2],
        growth**2 * products[1, 1],
        -2.0 * total * (products[0, 2] + growth * products[0, 1]),
        total**2 * products[0, 0],
    )
    return without_noise(terms)


def _growth(counts, risk):
    """Growth of the risk from each line to the end of its group, G."""
    return risk[counts.bounds[1:] - 1][counts.group] - risk
