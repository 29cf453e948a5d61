"""Weights from propensity scores, by the population that they stand for.

With the score e, the share P of treated, and rows treated : comparators,

    iptw      1 / e : 1 / (1 - e)            all persons (stabilized: P / e : (1 - P) / (1 - e))
    att       1 : e / (1 - e)                the treated (stabilized: 1 : (e / (1 - e)) (1 - P) / P)
    overlap   1 - e : e                      those in between (Li, Morgan and Zaslavsky 2018)

Stabilized weights add up to about the persons of each arm (Robins, Hernán and Brumback 2000).
"""

import numpy as np

from ..data import options
from .cohort import Cohort, add_column, as_cohort

KINDS = ("iptw", "att", "overlap")


def weigh(cohort, kind="iptw", *, stabilized=True, truncate=None, **names) -> Cohort:
    """Compute propensity score weights that make the arms alike.

    Parameters
    ----------
    cohort : Cohort or table
        Persons of both arms, with their scores.
    kind : {"iptw", "att", "overlap"}, default="iptw"
        Whom the weighted persons stand for: all of them, the treated, or those who could have been
        in either arm.
    stabilized : bool, default=True
        Whether the weights of an arm add up to about its number of persons. Overlap weights have
        no such form.
    truncate : float, optional
        Weights beyond this share of smallest and largest ones become as these are: 0.01 sets those
        below the 1st percentile of all weights to it, and those above the 99th to that. Under
        "att", where the treated all weigh 1, percentiles are of comparators.
    **names : str
        Of a table, its columns ``id=``, ``treatment=`` and ``score=``, if they have other names.

    Returns
    -------
    weighted : Cohort
        The same persons with a column ``weight``, what ``fit`` takes as ``sample_weight``.

    Warns
    -----
    UserWarning
        Where there is another column ``weight``, whose place it takes.

    See Also
    --------
    trim : Leave out persons with extreme scores, whose weights would be huge.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu.cohort import weigh
    >>> persons = pd.DataFrame({"id": [1, 2, 3, 4], "treatment": [1, 0, 1, 0]})
    >>> persons["score"] = [0.8, 0.5, 0.4, 0.2]
    >>> weigh(persons).table["weight"].tolist()
    [0.625, 1.0, 1.25, 0.625]
    >>> weigh(persons, "overlap").table["weight"].round(2).tolist()
    [0.2, 0.5, 0.6, 0.2]
    """
    options.choice(kind, "kind", KINDS)
    options.flag(stabilized, "stabilized")
    if truncate is not None:
        rule = "must be a share from 0 to below 0.5"
        options.number(truncate, "truncate", rule, least=0, below=0.5)
    cohort = as_cohort(cohort, names)
    score = cohort.scores
    is_treated = cohort.arms()
    if kind != "overlap":
        _refuse_certain(cohort, score)
    share = is_treated.mean() if stabilized else 0.5
    if kind == "overlap":
        weight = np.where(is_treated, 1.0 - score, score)
    elif kind == "att":
        weight = np.where(is_treated, 1.0, score / (1.0 - score) * ((1.0 - share) / share))
    elif stabilized:
        weight = np.where(is_treated, share / score, (1.0 - share) / (1.0 - score))
    else:
        weight = 1.0 / np.where(is_treated, score, 1.0 - score)
    if truncate is not None:
        varies = ~is_treated if kind == "att" else slice(None)
        limits = np.quantile(weight[varies], [truncate, 1.0 - truncate])
        weight[varies] = np.clip(weight[varies], *limits)
    return add_column(cohort, "weight", weight)


def _refuse_certain(cohort, score):
    """Refuse scores of 0 or 1: nobody like these persons is in the other arm."""
    rows = np.flatnonzero((score == 0.0) | (score == 1.0))
    if rows.size:
        listed = ", ".join(str(label) for label in cohort.table[cohort.id].iloc[rows[:5]])
        more = ", ..." if rows.size > 5 else ""
        raise ValueError(
            f"`{cohort.score}` is 0 or 1 for {rows.size:,} person(s) ({cohort.id} {listed}{more}), "
            "whose weights have no value: nobody like them is in the other arm. Leave them out "
            "before, by trim(cohort, bounds=(0.001, 0.999)) or another way of trimming."
        )
