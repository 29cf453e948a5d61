r"""Augmented inverse probability weights: average risks by models of treatment and of risk.

With the treatment A of a row, its covariates x, the probability pi(a | x) of treatment a, the
probability G of no censoring in the rows of that treatment, and predicted risks F and
probabilities S of no event, the average risk by t under a is the mean over rows of

.. math::
    F_a(t|x) + \frac{1\{A = a\}}{\pi(a|x)} \Bigl( \frac{1\{T \le t, \text{event}\}}{G(T-)}
    - F_a(t|x) + \int_0^{\min(T, t)} \frac{F_a(t|x) - F_a(s|x)}{S_a(s|x)\, G(s-)} dM(s) \Bigr)

(Ozenne et al. 2020, as R's ``riskRegression::ate`` computes it), where M counts censorings less
those expected, by their hazard among rows without an event, and G is exp(-sum of hazards). The mean
is right for many rows where the model of risks is, or those of treatment and of censoring are.
Where all are, their errors do not add to the variance of the terms over rows.
"""

import numpy as np
from pandas import isna
from sklearn.utils import _safe_indexing

from ..data.by_column import find_column
from ..data.design.columns import build_design
from ..data.vectors import as_array
from ..estimators.pipelines import split_pipeline
from ..metrics.observed import read_observed
from ..nonparametric.counts import count

MOST_CELLS = 2**22  # rows times censorings whose risks are there at once


def augmented_risks(estimator, X, y, scenarios, propensity, *, risks, horizons, weight, strata):
    """Terms whose means are average risks, (n_scenarios, n_rows, n_times).

    They begin as the predicted `risks` of all rows by scenario.
    """
    last = split_pipeline(estimator)[1]
    if not hasattr(last, "predict_survival_function"):
        raise TypeError(
            f"`estimator` is of type {type(last).__name__}, which has no probability of no event, "
            "as `propensity` needs with censoring; take CauseSpecificCox."
        )
    outcome = read_observed(y, "y", getattr(last, "event_of_interest", None))
    treatment, wanted = _treatments(X, scenarios)
    chances, found = _check_propensity(propensity, treatment), np.unique(treatment)

    def predict(rows, times):
        given = {} if strata is None else {"strata": np.asarray(strata)[rows]}
        return _risks_and_survival(estimator, _safe_indexing(X, rows), times, given)

    terms = np.array(risks)
    for k, value in enumerate(wanted):
        arm = np.flatnonzero(treatment == value)
        chance = chances[arm, np.searchsorted(found, value)]
        if not (chance > 0.0).all():
            raise ValueError(
                f"`propensity` is 0 in row {arm[np.argmin(chance)]:,} for its own treatment "
                f"{value!r}; leave out rows that cannot have another one."
            )
        seen = _outcomes(predict, outcome, arm, weight, horizons)
        terms[k, arm] += (seen - terms[k, arm]) / chance[:, None]
    return terms


def _risks_and_survival(estimator, table, times, given):
    """Risks of the event of interest by times, and the probabilities of no event."""
    risk = estimator.predict_risk(table, times, **given).to_numpy()
    model = split_pipeline(estimator)[1]
    if not hasattr(model, "events_"):
        return risk, 1.0 - risk
    curves = estimator.predict_survival_function(table, return_array=True, **given)
    free = np.column_stack([np.ones(len(curves)), curves])
    return risk, free[:, np.searchsorted(model.unique_times_, times, side="right")]


def _treatments(X, scenarios):
    """Treatment of each row, and those of the scenarios."""
    changes = [change for changes in scenarios.values() for change in changes.items()]
    names = {name for name, _ in changes}
    is_plain = all(np.ndim(value) == 0 for _, value in changes)
    if len(names) > 1 or len(changes) < len(scenarios) or not is_plain:
        raise ValueError(
            "`scenarios` with `propensity` set the column of the treatment, and no other, to one "
            'value each, such as {"none": {"drug": 0}, "all": {"drug": 1}}.'
        )
    [name] = names
    if hasattr(X, "iloc"):
        columns = X.columns.to_numpy()
        treatment = X.iloc[:, find_column(name, "scenarios", len(columns), columns)].to_numpy()
    else:
        design = build_design(X, may_be_computed=True)
        unit = np.zeros(design.n_columns)
        unit[find_column(name, "scenarios", design.n_columns, design.names)] = 1.0
        treatment = design.dot(unit)
    if isna(treatment).any():
        raise ValueError(f"`X` has missing values in the column {name!r} of the treatment.")
    wanted = [value for _, value in changes]
    found = np.unique(treatment).tolist()
    for value in wanted:
        if value not in found:
            raise ValueError(
                f"`scenarios` sets {name!r} to {value!r}, which no row has; it has {found[:10]}."
            )
    return treatment, wanted


def _check_propensity(propensity, treatment):
    """Probabilities of all treatments, in their order, (n_rows, n_treatments)."""
    found = np.unique(treatment)
    if set(getattr(propensity, "columns", ())) == set(found):  # a table with names
        propensity = propensity[list(found)]
    chances = as_array(propensity, "propensity")
    if chances.dtype.kind not in "biuf":
        raise TypeError(f"`propensity` has dtype {chances.dtype}; pass numbers.")
    if chances.ndim == 1 and len(found) == 2:
        chances = np.column_stack([1.0 - chances, chances])
    if chances.shape != (len(treatment), len(found)):
        raise ValueError(
            f"`propensity` has shape {np.shape(propensity)}; pass, for each of {len(treatment):,} "
            f"rows, the probabilities of {found[:10].tolist()}, as from predict_proba."
        )
    is_one = np.abs(chances.sum(axis=1, keepdims=True) - 1.0) < 1e-3  # also where rounded
    if not ((chances >= 0.0) & (chances <= 1.0) & is_one).all():
        raise ValueError("`propensity` has rows that are no probabilities, from 0 to 1, 1 in all.")
    return chances


def _outcomes(predict, outcome, arm, weight, horizons):
    """Terms of one treatment's rows in brackets but for -F, (n_rows, n_times)."""
    status, time = outcome.status[arm], outcome.time[arm]
    last = time[weight[arm] > 0.0].max(initial=0.0)
    if not last > horizons[-1]:
        raise ValueError(
            f"`times` has {horizons[-1]:g}, and rows of one treatment end by {last:g}; take "
            "earlier horizons."
        )
    counts = count(time, status == 0, weight=weight[arm])
    [censored] = counts.events
    staying = counts.at_risk - counts.ended + censored  # whoever has no event then
    hazard = np.divide(censored, staying, out=np.zeros_like(staying), where=censored > 0.0)
    before = np.exp(hazard - np.cumsum(hazard))
    is_case = (status == 1)[:, None] & (time[:, None] <= horizons)
    terms = is_case / before[counts.exit][:, None]
    lines = np.flatnonzero((hazard > 0.0) & (counts.time <= horizons[-1]))
    size = max(1, MOST_CELLS // max(1, len(lines)))
    for first in range(0, len(arm) if len(lines) else 0, size):
        some = slice(first, first + size)
        jumps = _jumps(status[some], time[some], counts.time[lines], hazard[lines])
        jumps /= before[lines]
        terms[some] += _augment(predict, arm[some], counts.time[lines], jumps, horizons)
    return terms


def _jumps(status, time, grid, hazard):
    """Censorings of rows less those expected, at times of censoring."""
    is_censored = (time[:, None] == grid) & (status == 0)[:, None]
    return is_censored - hazard * ((time[:, None] > grid) | is_censored)


def _augment(predict, rows, grid, jumps, horizons):
    """Integrals of rows until each horizon."""
    times = np.union1d(grid, horizons)
    at, until = np.searchsorted(times, grid), np.searchsorted(times, horizons)
    risk, free = predict(rows, times)
    free = np.maximum(free[:, at], np.finfo(np.float64).tiny)
    found = np.empty((len(rows), len(horizons)))
    for h, n_before in enumerate(np.searchsorted(grid, horizons, side="right")):
        # a probability, which rounding may carry out of bounds where S is next to nothing
        still = risk[:, until[h], None] - risk[:, at[:n_before]]
        share = np.clip(still / free[:, :n_before], 0, 1)
        found[:, h] = np.sum(jumps[:, :n_before] * share, axis=1)
    return found
