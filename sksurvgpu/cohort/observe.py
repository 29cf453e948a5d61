"""From tables with several periods of observation a person to the one that a study begins in."""

from __future__ import annotations

import numpy as np

from ..data.sources import read_whole
from ..tables.reading import require
from .cohort import Cohort, add_column, as_cohort
from .events import Days, lines_of, persons_of

__all__ = ["observe"]


def observe(
    cohort,
    periods,
    *,
    index="index_date",
    start="observation_start",
    end="observation_end",
    subject=None,
    **names,
) -> Cohort:
    """Find the period of observation in which the index date of each person lies.

    Parameters
    ----------
    cohort : Cohort or table
        Persons with their index dates.
    periods : DataFrame, Arrow table, relation of DuckDB, or path
        A line for each period of observation, as many as a person has: who it was, as the
        identifiers of the cohort, and its first and last day. Lines of others are not read.
    index : str, default="index_date"
        Column of the cohort with the day on which follow-up begins.
    start, end : str, default="observation_start" and "observation_end"
        Columns of `periods` with the first and the last day.
    subject : str, optional
        Column of the cohort that names the persons of `periods`, where persons have several
        lines; by default the identifiers.
    **names : str
        Of a table, its columns ``id=`` and ``treatment=``, if they have other names.

    Returns
    -------
    observed : Cohort
        Those whose index date lies in a period, with the columns `start` and `end` of that one,
        which `time_at_risk` reads; the others are in its attrition.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu.cohort import observe
    >>> persons = pd.DataFrame({"id": [1, 2], "treatment": [1, 0], "index_date": [120, 90]})
    >>> periods = pd.DataFrame({"id": [1, 1, 2], "observation_start": [0, 100, 95]})
    >>> periods["observation_end"] = [60, 300, 400]
    >>> observe(persons, periods).table
       id  treatment  index_date  observation_start  observation_end
    0   1          1         120                100              300
    """
    cohort = as_cohort(cohort, names)
    days = Days(cohort.table)
    first = days.of(index, "index", may_lack=True)
    table, who = read_whole(periods, "periods"), subject or cohort.id
    for column, argument in ((who, "subject"), (start, "start"), (end, "end")):
        require(table.columns, column, "periods", argument)
    persons = persons_of(cohort, subject)
    is_own, line, row = lines_of(persons, table[who], "periods")
    table = table.loc[is_own, list({start: None, end: None})]
    low, high = (days.read_all(table[column], f"`periods`[{column!r}]") for column in (start, end))
    is_inside = (low[line] <= first[row]) & (first[row] <= high[line])
    line, row = line[is_inside], row[is_inside]
    n_periods = np.bincount(row, minlength=len(persons))
    if (n_periods > 1).any():
        raise ValueError(
            f"`periods` has {n_periods.max():,} periods of {persons.iloc[np.argmax(n_periods)]!s} "
            "with the index date; a person is observed once at a time: join those that overlap."
        )
    cohort = cohort.keep(n_periods > 0, "index date in a period")
    found = table.iloc[line[np.argsort(row)]].set_axis(cohort.table.index)
    for column in found:
        cohort = add_column(cohort, column, found[column])
    return cohort
