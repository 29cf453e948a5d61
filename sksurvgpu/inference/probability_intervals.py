"""Confidence intervals of probabilities and times that follow from several hazards.

Without a penalty they are from standard errors (`_states`), symmetrical in log(-log(1 - p)) as
those of Fine and Gray's incidences are, where p is a probability, or the share of all time; with
one, quantiles of a bootstrap of the one fit of all hazards.
"""

import numpy as np
from pandas import DataFrame, Index, RangeIndex
from scipy.stats import norm
from sklearn.utils import _safe_indexing

from ..data.checks import check_horizons, check_sample_weight
from ..data.intervals import check_level, tails
from ..data.options import choice, is_number, refuse
from ..estimators._columns import check_columns
from ..estimators._hazards import open_hazards
from ..estimators._occupation import Course, follow
from ..estimators.causes import NO_EVENT
from ..estimators.fitted import fitted_of
from ..estimators.joint_baseline import ENORMOUS
from ..estimators.pipelines import open_pipeline
from ..information.views import view_of
from ..patterns.risk_sets.hazards import HazardSpread
from ._curves import Lines, replicate
from ._rows import check_same, documented, open_rows, read_rows, require_unpenalized
from ._states import Transition, Transitions
from .curve_intervals import CurveIntervals, check_replicates

WHAT = "probability", "expected_time"
TINY = 1e-300  # time for which nobody can be anywhere
INSTEAD = (
    "Pass `bootstrap(model.joint_, ...)` of the rows of ``model.stack(X, y)``, for which a model "
    "that shares nothing is fitted with `shared=[]`."
)


@documented
def probability_intervals(
    estimator,
    X,
    y,
    X_new,
    times,
    *,
    of=None,
    what="probability",
    state=None,
    strata_new=None,
    start=0.0,
    level=0.95,
    bootstrap=None,
    **fit_params,
) -> CurveIntervals:
    """Confidence intervals of incidences of events, probabilities of states, and times there.

    Parameters
    ----------
    estimator : CauseSpecificCox or MultiStateCox
        Fitted estimator; without a penalty, unless there is a `bootstrap`. What transformers of
        pipelines have learned is taken as known.
    <<rows_of_fit>>
    X_new : scipy sparse matrix or array, ndarray or DataFrame of shape (n_rows, n_features)
        Rows whose probabilities are predicted, at an offset of 0.
    times : float or array-like of shape (n_times,)
        Horizons, increasing.
    of : int or str, optional
        Event by its code or label, or "no event"; the event of interest by default. Of
        MultiStateCox a state, which has to be named.
    what : {"probability", "expected_time"}, default="probability"
        That of the state at `times`, or the time that is spent there until then (MultiStateCox);
        bounds of the latter are those of its share of the whole time.
    state : int or str, optional
        State that all rows are in at the start; the one that no transition enters by default.
    strata_new : array-like of shape (n_rows,), optional
        Stratum of each new row; required if and only if the model was fitted with strata.
    start : float, default=0.0
        Time until which nothing has happened, or at which rows are in `state`.
    level : float, default=0.95
        Confidence level.
    bootstrap : BootstrapResult, optional
        Of the fit of all hazards, ``joint_``, to rows as ``stack`` has them, whose probabilities
        are taken instead.
    <<more_of_fit>>

    Returns
    -------
    result : CurveIntervals
        Probabilities or times, standard errors and bounds; the last two are NaN where the data do
        not determine the coefficients that they depend on.

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
    if not is_number(start):
        refuse(start, "start", "pass one number, the same for all rows", TypeError)
    hazards = open_hazards(estimator, y, fit_params.get("strata"), state, of)
    new = {"start": start or None, "strata": strata_new}
    is_time = choice(what, "what", WHAT) == "expected_time"
    new["is_time"] = is_time
    estimate = hazards.probability(X_new, horizons, of, state=state, **new)
    if bootstrap is None:
        error = _errors(hazards, X, X_new, horizons, fit_params, **new)
        error[np.isnan(estimate)] = np.nan
        whole = np.maximum(horizons - start, TINY) if is_time else 1.0
        bounds = [whole * p for p in _log_log(estimate / whole, error / whole, level)]
        interval = "log-log"
    else:
        stacked = estimator.stack(X, y, **fit_params)
        draws = replicate_hazards(hazards, stacked, bootstrap, X_new, horizons, **new)
        draws[:, np.isnan(estimate)] = np.nan
        error, bounds = draws.std(axis=0, ddof=1), np.quantile(draws, tails(level), axis=0)
        interval = "percentile"
    if hasattr(estimator, "event_of_interest") and of != NO_EVENT:
        what = "cumulative_incidence"
    index = X_new.index if isinstance(X_new, DataFrame) else RangeIndex(len(estimate))
    lower, upper = bounds
    return CurveIntervals(
        what, horizons, estimate, error, lower, upper, None, None, level, interval, index
    )


def _errors(hazards, X, X_new, times, fit_params, *, start, strata, is_time):
    """Standard errors of what is predicted of new rows, by the information of the fit."""
    each, total, joint = [], 0.0, getattr(hazards.estimator, "joint_", None)
    baseline, start = hazards.baseline, start or -np.inf  # events at time 0 count
    for name, (chosen, own) in hazards.outcomes.items():
        model, table, new = open_pipeline(hazards.models[name], X, X_new)
        require_unpenalized(model, "an analytic interval of a probability", INSTEAD)
        given = {
            k: v for k, v in fit_params.items() if k != "strata" or "stratum" not in own.dtype.names
        }
        if chosen is not None:
            table = _safe_indexing(table, chosen)
            given = {k: _safe_indexing(v, chosen) if np.ndim(v) else v for k, v in given.items()}
        rows = read_rows(model, table, own, given)
        found = rows.session.start(model.coef_)
        if joint is None:
            check_same(model, found)
        total += found
        n_before = sum(len(transition.place) for transition in each)
        place = n_before + np.arange(rows.n_coef)
        if joint is not None:
            place = hazards.places.coefs[len(each)]
        design, part, view = check_columns(model, new), fitted_of(model), view_of(rows)
        codes = baseline.strata_of(strata, design.n_rows, "strata_new")
        codes = baseline.strata_in(part.baseline, codes)
        lines = Lines(rows, design, codes, start, part.setting)
        spread = HazardSpread(view, lines.start)
        each.append(Transition(*hazards.ends[len(each)], view, lines, place, spread))
    if joint is not None:
        check_same(joint, total)
    return Transitions.of(each, joint).errors(hazards.state, times, hazards.target, is_time)


def _log_log(estimate, error, level):
    """Bounds that are symmetrical in the logarithm of -log(1 - p)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        hazard = -np.log1p(-estimate)
        move = norm.isf(0.5 * (1.0 - level)) * error / ((1.0 - estimate) * hazard)
        move = np.where((estimate == 0.0) | (estimate == 1.0), 0.0, move)
        return [-np.expm1(-hazard * np.exp(sign * move)) for sign in (-1.0, 1.0)]


def replicate_hazards(
    hazards, stacked, bootstrap, X_new, times, *, start, strata, is_time=False, reduce=None
):
    """Probabilities or times of new rows of replicates, (n_replicates, n_rows, n_times).

    Or what `reduce` makes of those of a replicate, and the weights of its rows. `stacked` are rows
    of all hazards.
    """
    X, y, fit_params = stacked
    joint, n_hazards = hazards.estimator.joint_, len(hazards.models)
    check_replicates(joint, bootstrap)
    new, strata = hazards.new_rows(X_new, strata)
    fitted = fitted_of(joint)
    codes = Index(fitted.baseline.timeline.labels).get_indexer(strata)
    nobody, strata = codes < 0, np.maximum(codes, 0)  # at risk there
    rows = open_rows(joint, X, y, fit_params)
    lines = Lines(rows, new, strata, start or -np.inf, fitted.setting)
    grid = np.unique(np.concatenate([lines.event_times(s) for s in np.unique(strata)]))
    grid, n_rows = grid[grid <= times[-1]], len(strata) // n_hazards
    state, since = np.full(n_rows, hazards.state), np.full(n_rows, start or 0.0)
    never = np.full((n_rows, 1 + np.max(hazards.ends)), np.inf)

    def probabilities(of_all, weight):
        of_all[nobody] = 0.0
        of_all = np.minimum(np.nan_to_num(of_all), ENORMOUS)  # NaN after the follow-up
        of_all = np.maximum.accumulate(of_all, axis=1)
        of_all = np.ascontiguousarray(of_all.reshape(n_hazards, n_rows, -1))
        course = Course(of_all, grid, *np.array(hazards.ends, order="F").T)
        found = np.empty((3, n_rows, len(times), never.shape[1]))
        follow(course, state, since, times, never, found)
        found = found[int(is_time), :, :, hazards.target]
        return found if reduce is None else reduce(found, weight)

    base = check_sample_weight(fit_params.get("sample_weight"), len(y))
    return replicate(lines, bootstrap, grid, base, probabilities)
