"""Matched sets: a treated person and comparators with nearly the same propensity score."""

import numpy as np

from ..data import options
from .checks import codes_of
from .cohort import Cohort, add_column, as_cohort
from .pairing import pair_closest, pair_in_order

SCALES = ("standardized logit", "logit", "standardized", "raw")
LARGEST = np.finfo(np.float64).max  # kernels take infinite distances for no pair at all
ORDERS = ("closest", "largest", "smallest", "data")


def match(
    cohort,
    *,
    ratio=1,
    caliper=0.2,
    scale="standardized logit",
    exact=None,
    order="closest",
    **names,
) -> Cohort:
    """Match each treated person with comparators of similar propensity score, each used once.

    Parameters
    ----------
    cohort : Cohort or table
        Persons of both arms, with their scores.
    ratio : int or None, default=1
        How many comparators a treated person gets at most; None for as many as there are. All get
        a first one before anybody gets a second one, and so on.
    caliper : float or None, default=0.2
        Largest difference of the scores of a comparator and of its treated person; None for any.
    scale : {"standardized logit", "logit", "standardized", "raw"}, default="standardized logit"
        Of what `caliper` is the difference: of log-odds in units of their standard deviation, of
        log-odds, of scores in units of their standard deviation, of scores. Austin (2011)
        recommends 0.2 of the first.
    exact : str or list of str, optional
        Columns whose entries must be equal within a set.
    order : {"closest", "largest", "smallest", "data"}, default="closest"
        Who is matched first: the pair with the smallest difference of all that are free, as in
        CohortMethod; or the treated person with the largest or smallest score, or in the first
        line of the table, each with the nearest free comparator, as in MatchIt.
    **names : str
        Of a table, its columns ``id=``, ``treatment=`` and ``score=``, if they have other names.

    Returns
    -------
    matched : Cohort
        Those who were matched, with a column ``match``: the number of the set, counted from 0 in
        the order of the treated. The others are in its attrition.

    Warns
    -----
    UserWarning
        Where there is another column ``match``, whose place it takes.

    See Also
    --------
    stratify : Strata of the score.
    weigh : Weights from the score.

    Notes
    -----
    It takes time n log n whatever the scores are. Equal differences are settled by the order of
    scores, and then of lines. On a scale of log-odds, persons with a score of exactly 0 or 1 are
    beyond any caliper: they leave in a step of their own.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu.cohort import match
    >>> persons = pd.DataFrame({"id": range(6), "treatment": [1, 1, 0, 0, 0, 0]})
    >>> persons["score"] = [0.30, 0.60, 0.58, 0.31, 0.29, 0.05]
    >>> matched = match(persons, ratio=2, caliper=0.1, scale="raw")
    >>> matched.table["match"].to_dict()
    {0: 0, 1: 1, 2: 1, 3: 0, 4: 0}
    >>> matched.left_out
       id  row     step
    0   5    5  matched
    """
    options.choice(scale, "scale", SCALES)
    options.choice(order, "order", ORDERS)
    _check_limits(ratio, caliper)
    cohort = as_cohort(cohort, names)
    score = cohort.scores
    if "logit" in scale:
        is_inside = (score > 0.0) & (score < 1.0)
        if not is_inside.all():
            cohort = cohort.keep(is_inside, "score between 0 and 1")
            score = score[is_inside]
        score = np.log(score) - np.log1p(-score)
    is_treated = cohort.arms()
    width = np.inf if caliper is None else float(caliper)
    if "standardized" in scale and np.isfinite(width):
        width *= np.std(score, ddof=1)
    group = codes_of(cohort.table, exact, "exact")
    label = _pair(score, is_treated, group, min(width, LARGEST), ratio, order)
    return add_column(cohort, "match", label).keep(label >= 0, "matched")


def _pair(value, is_treated, group, caliper, ratio, order):
    """Number of the set of each row, -1 for those without one."""
    n = value.size
    sorted_rows = np.argsort(value, kind="stable")
    if group.any():
        sorted_rows = sorted_rows[np.argsort(group[sorted_rows], kind="stable")]
    value, group, is_treated = value[sorted_rows], group[sorted_rows], is_treated[sorted_rows]
    partner = np.full(n, -1)
    rounds = n if ratio is None else min(int(ratio), n)
    if order == "closest":
        pair_closest(value, group, is_treated, caliper, rounds, partner)
    else:
        treated = np.flatnonzero(is_treated)
        key = {"largest": -value, "smallest": value, "data": sorted_rows}[order]
        first = treated[np.lexsort((sorted_rows[treated], key[treated]))]
        pair_in_order(value, group, is_treated, caliper, rounds, first, partner)
    paired = np.flatnonzero(partner >= 0)
    if not paired.size:
        _refuse_empty(value, group, is_treated, caliper)
    treated_of, label = sorted_rows[partner[paired]], np.full(n, -1)
    label[np.unique(treated_of)] = np.arange(np.unique(treated_of).size)
    label[sorted_rows[paired]] = label[treated_of]
    return label


def _refuse_empty(value, group, is_treated, caliper):
    is_pair = (group[1:] == group[:-1]) & (is_treated[1:] != is_treated[:-1])
    if not is_pair.any():
        raise ValueError(
            "nobody can be matched: no treated person has a comparator with equal entries of "
            "`exact`; name fewer columns, or coarser ones."
        )
    nearest = np.diff(value)[is_pair].min()
    raise ValueError(
        f"nobody can be matched: the caliper is {caliper:g} on the scale of the scores, the "
        f"closest pair is {nearest:g} apart; take a wider `caliper`, or fewer columns of `exact`."
    )


def _check_limits(ratio, caliper):
    if ratio is not None:
        options.whole(ratio, "ratio", 1)
    if caliper is not None and not (options.is_number(caliper) and caliper >= 0):
        rule = "must be a number of at least 0, or None for no caliper"
        options.refuse(caliper, "caliper", rule)
