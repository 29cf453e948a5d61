"""Propensity scores of a cohort: overlap of the arms, trimming, strata.

With the score e and the share P of treated, the preference score F (Walker et al. 2013) is what the
score would be with arms of one size,

    logit F = logit e - logit P,    F = e (1 - P) / (e (1 - P) + (1 - e) P),

so that 0.5 is the preference for neither arm, whichever is the rarer one.
"""

import numpy as np

from .._warnings import warn
from ..data import options
from ..data.vectors import check_length
from .checks import check_bounds, check_scores, check_treatment, codes_of
from .cohort import Cohort, add_column, as_cohort

# Way of trimming -> bounds by default.
WAYS = {
    "score": (0.1, 0.9),
    "preference": (0.3, 0.7),
    "overlap": (0.0, 1.0),
    "percentile": (0.05, 0.95),
    "percentile by arm": (0.05, 0.95),
}


def preference_score(score, treatment, *, share=None) -> np.ndarray:
    """Preference scores: propensity scores as they would be with arms of equal size.

    Parameters
    ----------
    score : array-like of shape (n_rows,)
        Probabilities of treatment.
    treatment : array-like of shape (n_rows,)
        1 for the treated, 0 for their comparators.
    share : float, optional
        Share of the treated; by default as in `treatment`. Of rows that are left, pass the share
        in those that the scores were estimated from.

    Returns
    -------
    preference : ndarray of shape (n_rows,)
        Preference scores, between 0 and 1.

    Examples
    --------
    >>> from sksurvgpu.cohort import preference_score
    >>> preference_score([0.2, 0.2, 0.2, 0.5], [1, 0, 0, 0]).round(2)
    array([0.43, 0.43, 0.43, 0.75])
    """
    score = check_scores(score)
    if share is None:
        is_treated = check_treatment(treatment)
        check_length(is_treated, "treatment", score.size, other="score")
        share = is_treated.mean()
    else:
        options.number(share, "share", "must be a number between 0 and 1", above=0, below=1)
    toward, away = score * (1.0 - share), (1.0 - score) * share
    return toward / (toward + away)


def preferences_of(cohort) -> np.ndarray:
    """Preference scores of a cohort of both arms, by the share where its scores are from."""
    return preference_score(cohort.scores, cohort.arms(), share=cohort.share)


def equipoise(cohort, bounds=(0.3, 0.7), **names) -> float:
    """Proportion of persons who could well have been in either arm, by preference score.

    Parameters
    ----------
    cohort : Cohort or table
        Persons of both arms, with their scores.
    bounds : pair of float, default=(0.3, 0.7)
        Smallest and largest preference score of those in equipoise.
    **names : str
        Of a table, its columns ``id=``, ``treatment=`` and ``score=``, if they have other names.

    Returns
    -------
    share : float
        Between 0 and 1; Walker et al. (2013) ask for half. Of a cohort that was trimmed or
        matched, of those who are left, with the preference scores that they had before.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu.cohort import equipoise
    >>> persons = pd.DataFrame({"id": [1, 2, 3, 4], "treatment": [1, 0, 1, 0]})
    >>> equipoise(persons.assign(score=[0.9, 0.5, 0.6, 0.4]))
    0.75
    """
    lower, upper = check_bounds(bounds)
    cohort = as_cohort(cohort, names)
    preference = preferences_of(cohort)
    return float(np.mean((preference >= lower) & (preference <= upper)))


def trim(cohort, by="score", *, bounds=None, **names) -> Cohort:
    """Leave out persons with propensity scores that hardly occur in the other arm.

    Parameters
    ----------
    cohort : Cohort or table
        Persons of both arms, with their scores.
    by : str, default="score"
        What must lie within `bounds`, which belong to both arms but for the last:

        - ``"score"``: the score (Crump et al. 2009; by default 0.1 to 0.9);
        - ``"preference"``: the preference score (equipoise; by default 0.3 to 0.7);
        - ``"overlap"``: the score, within the range that both arms have; takes no bounds;
        - ``"percentile"``: the score, from the lower percentile of the treated to the upper one of
          the comparators (Stürmer et al. 2010; by default 0.05 and 0.95);
        - ``"percentile by arm"``: within the overlap, scores of the treated above the lower
          percentile of the treated, those of comparators below the upper one of comparators, as
          CohortMethod's asymmetric trimming.
    bounds : pair of float, optional
        Smallest and largest, which stay; of percentiles as shares.
    **names : str
        Of a table, its columns ``id=``, ``treatment=`` and ``score=``, if they have other names.

    Returns
    -------
    trimmed : Cohort
        Those within the bounds; the others are in its attrition.

    See Also
    --------
    equipoise : Share that trimming by preference would keep.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu.cohort import trim
    >>> persons = pd.DataFrame({"id": [1, 2, 3, 4], "treatment": [1, 0, 1, 0]})
    >>> trim(persons.assign(score=[0.95, 0.5, 0.6, 0.4])).left_out
       id  row                 step
    0   1    0  score in [0.1, 0.9]
    """
    options.choice(by, "by", WAYS)
    if by == "overlap" and bounds is not None:
        raise ValueError("`bounds` are found in the data with by='overlap'; leave them out.")
    lower, upper = check_bounds(WAYS[by] if bounds is None else bounds)
    cohort = as_cohort(cohort, names)
    score = cohort.scores
    is_treated = cohort.arms()
    step = f"{by} in [{lower:g}, {upper:g}]"
    if by == "preference":
        score = preferences_of(cohort)
    elif by != "score":
        step = by if by == "overlap" else step
        lower, upper = _bounds_of(by, score, is_treated, lower, upper)
    is_kept = (score >= lower) & (score <= upper)
    for arm, who in ((is_treated, "treated person"), (~is_treated, "comparator")):
        if not is_kept[arm].any():
            raise ValueError(
                f"no {who} has a {'preference ' * (by == 'preference')}score within the bounds of "
                f"{step}: those of the arm lie from {score[arm].min():g} to "
                f"{score[arm].max():g}; take wider `bounds`."
            )
    return cohort.keep(is_kept, step)


def _bounds_of(by, score, is_treated, low, high):
    """Smallest and largest score that stay, found in the data; by arm, of each row."""
    treated, other = score[is_treated], score[~is_treated]
    if by == "percentile":
        return np.quantile(treated, low), np.quantile(other, high)
    first, last = max(treated.min(), other.min()), min(treated.max(), other.max())
    if by == "overlap":
        return first, last
    treated, other = (arm[(arm >= first) & (arm <= last)] for arm in (treated, other))
    if not (treated.size and other.size):
        raise ValueError("the scores of the arms do not overlap, so that nobody would be left.")
    return (
        np.where(is_treated, np.quantile(treated, low), first),
        np.where(is_treated, last, np.quantile(other, high)),
    )


def stratify(cohort, n_strata=5, *, base="all", exact=None, **names) -> Cohort:
    """Divide persons into strata of similar propensity scores.

    Parameters
    ----------
    cohort : Cohort or table
        Persons of both arms, with their scores.
    n_strata : int, default=5
        How many, at most: scores that are equal stay together.
    base : {"all", "treated", "comparators"}, default="all"
        Whose scores are divided into parts of one size.
    exact : str or list of str, optional
        Columns whose entries must be equal within a stratum; each combination of them has strata
        of its own, between the same scores.
    **names : str
        Of a table, its columns ``id=``, ``treatment=`` and ``score=``, if they have other names.

    Returns
    -------
    stratified : Cohort
        The same persons with a column ``stratum``, numbered from 0 by `exact` and score.

    Warns
    -----
    UserWarning
        Where there are fewer strata than asked for, strata of a single arm, which say nothing
        about the treatment, or another column ``stratum``, whose place it takes.

    See Also
    --------
    match : Sets of one treated person.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu.cohort import stratify
    >>> persons = pd.DataFrame({"id": [1, 2, 3, 4], "treatment": [1, 0, 1, 0]})
    >>> stratify(persons.assign(score=[0.9, 0.6, 0.5, 0.4]), 2).table["stratum"].tolist()
    [1, 1, 0, 0]
    """
    options.whole(n_strata, "n_strata", 1)
    options.choice(base, "base", ("all", "treated", "comparators"))
    cohort = as_cohort(cohort, names)
    score = cohort.scores
    is_treated = cohort.arms()
    chosen = {"all": score, "treated": score[is_treated], "comparators": score[~is_treated]}[base]
    edges = np.unique(np.quantile(chosen, np.arange(1, n_strata) / n_strata))
    place = np.searchsorted(edges, score)  # an edge belongs to the stratum below it
    group = codes_of(cohort.table, exact, "exact")
    _, stratum = np.unique(group * (edges.size + 1) + place, return_inverse=True)
    n_found = np.unique(place).size
    if n_found < n_strata:
        warn(f"`n_strata` is {n_strata:,}, but equal scores leave {n_found:,} strata.")
    n_rows, n_treated = np.bincount(stratum), np.bincount(stratum, is_treated)
    n_alone = np.count_nonzero((n_treated == 0) | (n_treated == n_rows))
    if n_alone:
        warn(
            f"{n_alone:,} of {n_rows.size:,} strata have persons of one arm only, who say nothing "
            "about the treatment; trim before, or take fewer strata."
        )
    return add_column(cohort, "stratum", stratum)
