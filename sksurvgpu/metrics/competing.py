r"""Concordance for one kind of event, Harrell's, and for one of several.

With competing events (Wolbers et al. 2014) row i, with the event of interest, is compared with
rows j that outlive it and with those that met another event at t_j <= t_i, which keeps them from
the event of interest for good. Pairs weigh more the less likely it was that censoring left both
rows in sight:

    w_i w_j / G(t_i-)^2  if j outlives i        w_i w_j / (G(t_i-) G(t_j-))  if j competes

G is the Kaplan-Meier curve of censoring, events first at tied times. A row that is censored at t_i
is seen to outlive i, so that both are seen with probability G(t_i-) each; the paper's
G(t_i-) G(t_i) is less where others are censored at t_i. Both weights are products of a number of
row i and one of row j, and the second pairs are the first ones in reversed time, so that one
count serves both.

G is free of subtractions: with R the weight of all later rows and C that of rows censored at t,
its factor at t is R / (R + C). The product of those before t is at least the share of all weight
that is left at t, so that with W the sum of weights w_i / G(t_i-) <= W, no pair weighs more than
W^2, and neither do all of them.

Where rows come late, those seen at t stand for all who are free of events: with Y(t) at risk and
S the Kaplan-Meier curve of any event, Y(t) / S(t-) is what G(t-) is, up to a factor, without them.
"""

import numpy as np

from .._calls import called_as
from .._compile import kernel
from ..data.options import choice, is_number, number, refuse
from ..data.outcomes.competing import competing_risks
from ..data.outcomes.fields import check_code, read_survival, status_of
from ..data.outcomes.survival import surv
from ..data.vectors import check_order
from ..nonparametric.risk import in_sight
from .pairs import as_concordance, count_pairs, group_rows, reader_of_rows, scale_weights, sum_pairs


def _of_arrays(event, time, risk, *, tau=None, **options):
    return concordance_competing(competing_risks(event, time), risk, horizon=tau, **options)


@called_as(
    "concordance_competing(y, risk, horizon=...), with y = competing_risks(event, time)", _of_arrays
)
def concordance_competing(
    y,
    risk,
    *,
    event_of_interest=1,
    horizon=None,
    strata=None,
    sample_weight=None,
    censoring="pooled",
    tied_tol=1e-8,
):
    """Share of pairs whose order of risk agrees with the order of one kind of event.

    A row with the event of interest is compared with rows that outlive it and with rows that had a
    competing event before. Pairs are weighted by the inverse probability that both rows were not
    censored before they could be compared.

    Parameters
    ----------
    y : structured ndarray of shape (n_samples,)
        Outcome from `sksurvgpu.competing_risks`. A row censored at the time of an event outlives
        it. Pairs are formed within a ``stratum``; a row with a ``start`` is compared with events of
        interest in (start, time], and with those after its own competing event.
    risk : array-like of shape (n_samples,)
        Predicted risk of the event of interest, higher for earlier and likelier events.
    event_of_interest : int or str, default=1
        Its code or label; all other events compete with it.
    horizon : float, optional
        Only events of interest by this time, itself included, are compared with other rows.
    strata : array-like of shape (n_samples,), optional
        Labels of strata, where `y` has none.
    sample_weight : array-like of shape (n_samples,), optional
        Row weights: a weight of 2 is the row given twice, also in the estimate of censoring.
    censoring : {"pooled", "stratified"}, default="pooled"
        Whether the censoring of all rows or of each stratum is estimated by a curve of its own.
    tied_tol : float, default=1e-8
        Risks that differ by no more than this are tied and count one half.

    Returns
    -------
    float
        Between 0 and 1; 0.5 for risks that say nothing. Without censored rows and competing
        events it equals `concordance`.

    See Also
    --------
    concordance : Harrell's concordance, for a single kind of event.

    Notes
    -----
    With ``G(t-)`` the Kaplan-Meier estimate, in these rows, of the probability not to be censored
    before t (where times are tied, events come before censoring), row i with the event of
    interest, and row weights w, a pair weighs

    - ``w_i w_j / G(t_i-)**2`` if ``t_j > t_i``, or ``t_j = t_i`` and row j was censored;
    - ``w_i w_j / (G(t_i-) G(t_j-))`` if ``t_j <= t_i`` and row j had a competing event.

    This is the estimator of Wolbers, Blanche, Koller, Witteman and Gerds (Biostatistics 15, 2014,
    526-539), with censoring independent of covariates, and without competing events that of Uno et
    al. (2011), wherever no event of interest is tied with a censoring. Only where rows are
    censored at ``t_i`` itself, the first weights differ: the paper and the R package pec have
    ``G(t_i-) G(t_i)``, ``sksurv.metrics.concordance_index_ipcw`` has ``G(t_i)**2``. But a row
    censored at ``t_i`` is seen to outlive row i. Both rows of a pair are seen with probability
    ``G(t_i-)`` each, and by ``G(t_i)``, less than this, events would count too much: without
    bound where a study ends for nearly all rows on one day.

    After such a day few rows stand for all, and the concordance is uncertain; pass this day as
    `horizon`. The ``tau`` of ``concordance_index_ipcw`` excludes events at that time itself.

    With entry times ``G(t-)`` is ``Y(t) / (n S(t-))``, of Y rows at risk and the probability S of
    no event, which is the same without them. Entry and censoring then depend neither on the time
    of events nor on the risk; where few rows are at risk at the beginning, S is uncertain.

    Examples
    --------
    >>> from sksurvgpu import competing_risks
    >>> from sksurvgpu.metrics import concordance_competing
    >>> y = competing_risks([1, 2, 1, 0], [1.0, 2.0, 3.0, 4.0])
    >>> concordance_competing(y, [0.9, 0.3, 0.5, 0.6])
    0.8
    """
    check_order(risk=risk, sample_weight=sample_weight, strata=strata)
    otherwise = "take concordance for a single kind"
    items = read_survival(y, "iu", otherwise, strata=strata)
    event_of_interest = check_code(event_of_interest, items["event"])
    _check_choices(horizon, censoring, ("pooled", "stratified"), tied_tol)
    read = reader_of_rows(y.size, "y")
    agreeing, comparable = count_competing_pairs(
        status_of(items["event"], event_of_interest),
        items["time"],
        read(risk, "risk"),
        start=items["start"],
        horizon=horizon,
        stratum=items["stratum"],
        weight=read(sample_weight, "sample_weight", minimum=0),
        censoring=censoring,
        tied_tol=tied_tol,
    )
    return as_concordance(agreeing, comparable)


def _check_choices(horizon, censoring, known, tied_tol):
    if horizon is not None and (not is_number(horizon) or np.isnan(float(horizon))):
        refuse(horizon, "horizon", "must be a number or None")
    choice(censoring, "censoring", known)
    # a risk is tied with itself, or the search for the ends of its ties leaves the array
    number(tied_tol, "tied_tol", "must be a finite number of at least 0", least=0)


def count_competing_pairs(
    status,
    time,
    risk,
    *,
    start=None,
    horizon=None,
    stratum=None,
    weight=None,
    censoring="pooled",
    tied_tol=1e-8,
):
    """Sums as of `count_pairs`, by `concordance_competing`, up to a common factor.

    The status is 0 where censored, 1 for the event of interest, 2 for competing events.
    """
    weight = scale_weights(np.ones(len(time)) if weight is None else weight)
    groups = group_rows(stratum if censoring == "stratified" else None, len(time))
    if horizon is not None:  # what nobody is compared with, nobody's weight may depend on
        status = np.where(time <= horizon, status, 0)
    # Divided by 2**-480 twice they stay finite; rows left where G is less weigh next to nothing.
    if start is None:
        uncensored = _uncensored_until(status, time, weight, groups)
    else:
        uncensored = in_sight(status, time, start, weight, groups[0])
    uncensored = np.maximum(uncensored, 2.0**-480)
    inverse = weight / uncensored
    event = np.where(status == 1, inverse, 0.0)
    sums = sum_pairs(status, time, risk, (event / uncensored, weight), start, stratum, tied_tol)
    rows = np.flatnonzero(status)
    partner = np.where(status == 2, inverse, 0.0)
    reversed_sums = sum_pairs(
        status[rows] == 1,
        -time[rows],
        risk[rows],
        (event[rows], partner[rows]),
        None,
        None if stratum is None else stratum[rows],
        tied_tol,
    )
    return sums[0] + reversed_sums[0], sums[1] + reversed_sums[1]


def _uncensored_until(status, time, weight, groups):
    """Kaplan-Meier estimate of the probability not to be censored before each row's time."""
    codes, ptr = groups
    until = np.empty(len(time))
    _follow_censoring(np.lexsort((time, codes)), ptr, (status == 0, time, weight), until)
    return until


@kernel
def _follow_censoring(by_time, ptr, rows, until):
    """Probabilities of `_uncensored_until`: factors of each time backwards, products forwards."""
    censored, time, weight = rows
    for s in range(ptr.size - 1):
        first, end = ptr[s], ptr[s + 1]
        later, i = 0.0, end
        while i > first:
            now, block, leaving, others = time[by_time[i - 1]], i, 0.0, 0.0
            while i > first and time[by_time[i - 1]] == now:
                i -= 1
                row = by_time[i]
                leaving += weight[row] if censored[row] else 0.0
                others += 0.0 if censored[row] else weight[row]
            until[by_time[i:block]] = later / (later + leaving) if leaving > 0.0 else 1.0
            later += leaving + others
        remaining = 1.0
        while i < end:
            now, beyond = time[by_time[i]], remaining * until[by_time[i]]
            while i < end and time[by_time[i]] == now:
                until[by_time[i]] = remaining
                i += 1
            remaining = beyond


def _of_survival_arrays(event, time, risk, *, start=None, **options):
    return concordance(surv(event, time, start=start), risk, **options)


@called_as("concordance(y, risk), with y = surv(event, time)", _of_survival_arrays)
def concordance(
    y,
    risk,
    *,
    horizon=None,
    strata=None,
    sample_weight=None,
    censoring=None,
    tied_tol=1e-8,
):
    """Concordance index: proportion of comparable pairs whose risks have the order of their events.

    Parameters
    ----------
    y : structured ndarray of shape (n_samples,)
        Outcome from `sksurvgpu.surv`. Events at the same time are not compared; a row censored at
        the time of an event outlives it; a row with a ``start`` is compared with events in (start,
        time]. Pairs are formed within a ``stratum``.
    risk : array-like of shape (n_samples,)
        Predicted risk, higher for earlier events.
    horizon : float, optional
        Only events by this time, itself included, are compared with other rows.
    strata : array-like of shape (n_samples,), optional
        Labels of strata, where `y` has none.
    sample_weight : array-like of shape (n_samples,), optional
        Row weights; a pair weighs the product of its rows' weights.
    censoring : {None, "pooled", "stratified"}, default=None
        With None pairs weigh the same, be they early or late (Harrell); what the concordance is
        then depends on the censoring. Else pairs stand for those that were censored, too (Uno), by
        the censoring of all rows or of each stratum; see `concordance_competing`. Pass a `horizon`
        that a fair share of the rows have reached with it.
    tied_tol : float, default=1e-8
        Risks that differ by no more than this are tied and count one half.

    Returns
    -------
    float
        Between 0 and 1; 0.5 for risks that say nothing. Without starts, strata and
        `sample_weight` it equals the first result of ``sksurv.metrics.concordance_index_censored``,
        and weighted for censoring that of ``concordance_index_ipcw`` (of events before its ``tau``)
        and R's ``survival::concordance(timewt="n/G2")``, where no event is tied with a censoring.

    Examples
    --------
    >>> from sksurvgpu import surv
    >>> from sksurvgpu.metrics import concordance
    >>> y = surv([True, False, True, False], [1.0, 2.0, 3.0, 4.0])
    >>> concordance(y, [0.9, 0.1, 0.4, 0.5])
    0.75
    >>> concordance(y, [0.9, 0.1, 0.4, 0.5], censoring="pooled")
    0.5714285714285714
    """
    check_order(risk=risk, sample_weight=sample_weight, strata=strata)
    items = read_survival(y, "b", "for several kinds take concordance_competing", strata=strata)
    _check_choices(horizon, censoring, (None, "pooled", "stratified"), tied_tol)
    read = reader_of_rows(y.size, "y")
    event, time, risk = items["event"], items["time"], read(risk, "risk")
    weight = read(sample_weight, "sample_weight", minimum=0)
    given = {"start": items["start"], "stratum": items["stratum"], "horizon": horizon}
    given |= {"weight": weight, "tied_tol": tied_tol}
    if censoring is None:
        given["weight"] = scale_weights(weight)
        return as_concordance(*count_pairs(event, time, risk, **given))
    status = event.astype(np.uint8)
    return as_concordance(*count_competing_pairs(status, time, risk, censoring=censoring, **given))
