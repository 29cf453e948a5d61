"""Confidence intervals of probabilities that follow from several hazards.

Without a penalty they are from standard errors (`_states`), symmetrical in log(-log(1 - p)) as
those of Fine and Gray's incidences are; with one, quantiles of a bootstrap of the one fit of all
hazards.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing

from ..data.checks import check_horizons, check_sample_weight
from ..data.intervals import check_level
from ..estimators._hazards import OpenHazards, open_hazards
from ..estimators.pipelines import open_pipeline
from ..information.views import view_of
from ._curves import Bounds, replicate
from ._rows import check_same, documented, open_rows, read_rows, require_unpenalized
from ._states import Transition, Transitions, follow
from .curve_intervals import CurveIntervals, check_replicates, lines_of

__all__ = ["probability_intervals"]

INSTEAD = "Fit with `shared=[]`, and pass `bootstrap(model.joint_, ...)` of ``model.stack(X, y)``."


@documented
def probability_intervals(
    estimator,
    X,
    y,
    X_new,
    times,
    *,
    of=None,
    state=None,
    strata_new=None,
    start=0.0,
    level=0.95,
    bootstrap=None,
    **fit_params,
) -> CurveIntervals:
    """Confidence intervals of incidences of kinds of events, and of probabilities of states.

    Parameters
    ----------
    estimator : CauseSpecificCox
        Fitted estimator; without a penalty, unless there is a `bootstrap`. What transformers of
        pipelines have learned is taken as known.
    <<rows_of_fit>>
    X_new : scipy sparse matrix or array, ndarray or DataFrame of shape (n_rows, n_features)
        Rows whose probabilities are predicted, at an offset of 0.
    times : float or array-like of shape (n_times,)
        Horizons, increasing.
    of : int or str, optional
        Event by its code or label, or "no event"; the event of interest by default.
    state : int or str, optional
        State that rows are in at the start, of models that have several.
    strata_new : array-like of shape (n_rows,), optional
        Stratum of each new row; required if and only if the model was fitted with strata.
    start : float, default=0.0
        Time until which nothing has happened.
    level : float, default=0.95
        Confidence level.
    bootstrap : BootstrapResult, optional
        Of the fit of all hazards, ``joint_``, to rows as ``stack`` has them, whose probabilities
        are taken instead.
    <<more_of_fit>>

    Returns
    -------
    result : CurveIntervals
        Probabilities, their standard errors and bounds.

    Examples
    --------
    >>> from sksurvgpu import CauseSpecificCox, CoxLassoCCD, probability_intervals
    >>> from sksurvgpu.datasets import simulate_fine_gray
    >>> data = simulate_fine_gray(1_000, 4, density=0.3, random_state=0)
    >>> model = CauseSpecificCox(CoxLassoCCD(alpha=0)).fit(data.X, data.y)
    >>> probability_intervals(model, data.X, data.y, data.X[:2], times=[0.2, 0.5])
    <CurveIntervals of the cumulative incidence of 2 rows at 2 times, 95% log-log intervals>
             cumulative_incidence standard_error    lower    upper
    row time
    0   0.2               0.06929        0.01213  0.04907  0.09742
        0.5                0.1422         0.0208   0.1065   0.1887
    ...
    """
    horizons, level = check_horizons(times), check_level(level)
    hazards = open_hazards(estimator, y, state, of)
    asked = Asked(hazards, X_new, horizons, strata_new, start)
    if bootstrap is None:
        found = _by_information(asked, X, fit_params)
        estimate, error, bounds = *found, _log_log(*found, level)
        interval = "log-log"
    else:
        stacked = estimator.stack(X, y, **fit_params)
        estimate, draws = _by_replicates(asked, *stacked, bootstrap)
        tail, interval = 0.5 * (1.0 - level), "percentile"
        error, bounds = draws.std(axis=0, ddof=1), np.quantile(draws, [tail, 1.0 - tail], axis=0)
    with np.errstate(divide="ignore"):
        hazard, lower, upper = (-np.log1p(-p) for p in (estimate, *bounds))
    what = "cumulative_incidence" if hasattr(estimator, "event_of_interest") else "probability"
    index = getattr(X_new, "index", None)
    bounds = Bounds(hazard, error, (lower, upper), None)
    return CurveIntervals.of(bounds, what, horizons, index, level, interval)


class Asked(NamedTuple):
    """New rows whose probabilities of a state are asked for."""

    hazards: OpenHazards
    X_new: Any
    times: np.ndarray
    strata: Any
    start: float

    def after(self, sizes, last):
        """Probabilities after so many increments (n_hazards, n_rows, n_times), by row."""
        (origin, destination), target = np.array(self.hazards.ends).T, self.hazards.target
        found = []
        for own in np.swapaxes(sizes, 0, 1):
            own = np.ascontiguousarray(own)
            path = follow(own, origin, destination, self.hazards.state, target)
            found.append(path[last, target])
        return np.array(found)


def _by_information(asked, X, fit_params):
    """Probabilities of new rows, and their standard errors."""
    hazards, each, total = asked.hazards, [], 0.0
    for name, (chosen, own) in hazards.outcomes.items():
        model, table, new = open_pipeline(hazards.models[name], X, asked.X_new)
        require_unpenalized(model, "an analytic interval of a probability", INSTEAD)
        given = fit_params
        if chosen is not None:
            table = _safe_indexing(table, chosen)
            given = {key: _safe_indexing(values, chosen) for key, values in given.items()}
        rows = read_rows(model, table, own, given)
        found = rows.session.start(model.coef_)
        if hazards.joint is None:
            check_same(model, found)
        total += found
        lines = lines_of(rows, new, asked.strata, asked.start)
        n_before = sum(len(transition.place) for transition in each)
        place = n_before + np.arange(rows.n_coef)
        if hazards.joint is not None:
            place = hazards.places.coefs[len(each)]
        each.append(Transition(*hazards.ends[len(each)], view_of(rows), lines, place))
    if hazards.joint is not None:
        check_same(hazards.joint, total)
    found = Transitions.of(each).errors(hazards.state, asked.times, hazards.target)
    lines.timeline.warn_of_unknown(found[0], asked.times, lines.strata)
    return found


def _log_log(estimate, error, level):
    """Bounds that are symmetrical in the logarithm of -log(1 - p)."""
    from scipy.stats import norm

    with np.errstate(divide="ignore", invalid="ignore"):
        hazard = -np.log1p(-estimate)
        move = norm.isf(0.5 * (1.0 - level)) * error / ((1.0 - estimate) * hazard)
        move = np.where((estimate == 0.0) | (estimate == 1.0), 0.0, move)
        return [-np.expm1(-hazard * np.exp(sign * move)) for sign in (-1.0, 1.0)]


def _by_replicates(asked, X, y, fit_params, bootstrap):
    """Probabilities of new rows, and those of replicates of the fit to all hazards."""
    hazards, times = asked.hazards, asked.times
    check_replicates(hazards.joint, bootstrap)
    rows, n_hazards = open_rows(hazards.joint, X, y, fit_params), len(hazards.models)
    new, strata = hazards.new_rows(asked.X_new, asked.strata)
    lines = lines_of(rows, new, strata, asked.start)
    grid = np.unique(np.concatenate([lines.event_times(s) for s in np.unique(strata)]))
    grid = grid[grid <= times[-1]]
    last = np.searchsorted(grid, times, side="right")
    ends = lines.timeline.last_times()[strata].reshape(n_hazards, -1).min(axis=0)

    def probabilities(of_hazards, _=None):
        sizes = np.diff(of_hazards.reshape(n_hazards, len(ends), -1), prepend=0.0)
        found = asked.after(np.nan_to_num(sizes), last)  # NaN where follow-up has ended
        return np.where(times > ends[:, None], np.nan, found)

    base = check_sample_weight(fit_params.get("sample_weight"), len(y))
    estimate = probabilities(lines.hazards(grid).sum(axis=0))
    lines.timeline.warn_of_unknown(estimate, times, strata[: len(ends)])
    return estimate, replicate(lines, bootstrap, grid, base, probabilities)
