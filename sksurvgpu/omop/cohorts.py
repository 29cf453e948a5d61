"""Cohorts: who enters when, who is left out at which step, and two of them beside each other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pandas import DataFrame, Index, NaT, Timestamp, concat

from .._tables import Result, counted
from ..cohort.cohort import Cohort
from ..data import options
from ..exceptions import NothingToCompareError
from .records import ERAS, gather_records

FEMALE, MALE = 8532, 8507  # concepts
KEEP_FIRST, REMOVE = "keep first", "remove"


@dataclass(frozen=True, eq=False, repr=False)
class DrawnCohort(Result):
    """Entries of persons into a cohort; made by `omop.Database.cohort`.

    Attributes
    ----------
    table : pandas.DataFrame
        A line for each entry, sorted: ``id`` of the person, ``index_date`` and ``end_date`` of the
        era, ``observation_start`` and ``observation_end``, ``death_date``, missing where it is not
        known, ``age``, the difference of years, and ``female``, missing where sex is not known.
    attrition : pandas.DataFrame
        A line for each step: ``entries`` and ``persons`` it left, entries it has ``left_out`` (or
        joined with others), and how many it ``corrected``.
    """

    table: Any
    attrition: Any

    def _title(self) -> str:
        n_persons = self.attrition["persons"].iloc[-1]
        return f"DrawnCohort of {counted(n_persons, 'persons')}"


class _Account:
    """Attrition as it grows."""

    def __init__(self):
        self._lines = {}
        self._n = None

    def note(self, step, n_entries, n_persons, corrected=0):
        left_out = 0 if self._n is None else self._n - int(n_entries)
        self._lines[step] = int(n_entries), int(n_persons), left_out, int(corrected)
        self._n = int(n_entries)

    def keep(self, table, is_kept, step):
        """Entries that a step keeps."""
        table = table[is_kept]
        self.note(step, len(table), table["id"].nunique())
        return table

    def table(self):
        index = Index(self._lines, name="step")
        columns = ["entries", "persons", "left_out", "corrected"]
        return DataFrame([*self._lines.values()], index, columns)


def draw(tables, concepts, descendants, gap, period, *, first_only, washout, min_days):
    """Do what `Database.cohort` says."""
    options.flag(first_only, "first_only")
    washout = options.whole(washout, "washout", 0)
    min_days = options.whole(min_days, "min_days", 1)
    gap = options.whole(gap, "gap", 0)
    first, last = _check_period(period)
    gather_records(tables, concepts, descendants)
    account = _Account()
    _note_records(tables, account)
    entries = _read_entries(tables, gap)
    account.note(f"joined over {gap} days", len(entries), entries["id"].nunique())
    if first_only:
        is_first = ~entries["id"].duplicated()
        entries = account.keep(entries, is_first, "first of a person")
    start, stop = entries["index_date"], entries["end_date"]
    steps = {"index date in observation": entries["observation_start"].notna()}
    observed = (start - entries["observation_start"]).dt.days
    steps[f"observed for {washout:,} days before"] = observed >= washout
    if min_days > 1:
        steps[f"{min_days:,} days or more"] = (stop - start).dt.days + 1 >= min_days
    if (first, last) != (None, None):
        steps["index date in the period"] = _is_between(start, first, last)
    steps["alive on the index date"] = ~(entries["death_date"] < start)
    steps["year of birth known"] = entries["age"].notna()
    for step, is_kept in steps.items():
        entries = account.keep(entries, is_kept.reindex(entries.index), step)
    entries = entries.astype({"id": np.int64, "age": np.int64}).reset_index(drop=True)
    entries["female"] = entries["female"].astype(
        np.float64 if entries["female"].isna().any() else np.int64
    )
    return DrawnCohort(entries, account.table())


def _check_period(period):
    if isinstance(period, str) or np.size(period) != 2 or any(map(options.is_number, period)):
        raise ValueError(f"`period` is {period!r}, must be a pair: first and last date, or None.")
    days = [None if day is None else Timestamp(day) for day in period]
    if any(day is NaT or (day is not None and day.tzinfo is not None) for day in days):
        raise ValueError(f"`period` is {period!r}; pass dates without a time zone.")
    if None not in days and days[0] > days[1]:
        raise ValueError(f"`period` is {period!r}, which ends before it begins.")
    return days


def _is_between(dates, first, last):
    is_inside = dates.notna()
    if first is not None:
        is_inside &= dates >= first
    return is_inside if last is None else is_inside & (dates <= last)


def _note_records(tables, account):
    """Count records, and what is wrong with them."""
    known = f"person IN (SELECT CAST(person_id AS BIGINT) FROM {tables.path('person')})"
    steps = {"records": "true", "person known": known}
    steps["start known"] = f"{known} AND start IS NOT NULL"
    for step, condition in steps.items():
        found = tables.frame(
            "SELECT count(*) AS entries, count(DISTINCT person) AS persons, "
            "count(*) FILTER ((stop >= start) IS NOT TRUE) AS corrected "
            f"FROM sksurvgpu_records WHERE {condition}"
        ).loc[0]
        account.note(step, found["entries"], found["persons"])
    step = "no end, or before the start: first day"
    account.note(step, found["entries"], found["persons"], found["corrected"])


def _read_entries(tables, gap):
    """All eras with what is known of their persons, sorted."""
    persons = tables.path("person")
    deaths = "SELECT NULL::BIGINT AS person, NULL::DATE AS death_date"
    if tables.has("death"):
        deaths = (
            "SELECT CAST(person_id AS BIGINT) AS person, min(CAST(death_date AS DATE)) AS "
            f"death_date FROM {tables.path('death')} GROUP BY 1"
        )
    return tables.frame(
        "SELECT e.person AS id, e.start AS index_date, e.stop AS end_date, "
        "o.start AS observation_start, o.stop AS observation_end, d.death_date, "
        "year(e.start) - p.year_of_birth AS age, "
        f"CASE p.gender_concept_id WHEN {FEMALE} THEN 1 WHEN {MALE} THEN 0 END AS female "
        f"FROM ({ERAS.format(gap=gap, persons=persons)}) e "
        f"JOIN {persons} p ON p.person_id = e.person LEFT JOIN {tables.observed} o "
        "ON o.person = e.person AND e.start BETWEEN o.start AND o.stop "
        f"LEFT JOIN ({deaths}) d ON d.person = e.person ORDER BY id, index_date"
    )


def compare(target, comparator, common_period, duplicates) -> Cohort:
    """Do what `Database.compare` says."""
    options.flag(common_period, "common_period")
    options.choice(duplicates, "duplicates", (KEEP_FIRST, REMOVE))
    for name, drawn in (("target", target), ("comparator", comparator)):
        if not isinstance(drawn, DrawnCohort):
            raise TypeError(
                f"`{name}` is of type {type(drawn).__name__}; pass what Database.cohort returned."
            )
    attrition = _beside(target.attrition, comparator.attrition)
    arms = [drawn.table.assign(treatment=arm) for arm, drawn in ((1, target), (0, comparator))]
    table = concat(arms).sort_values(["id", "index_date", "treatment"], ignore_index=True)
    steps = []

    def keep(is_kept, step):
        nonlocal table
        n_before, table = len(table), table[is_kept]
        n_treated = int(table["treatment"].sum())
        n_others = len(table) - n_treated
        steps.append((step, len(table), n_treated, n_others, n_before - len(table)))

    if common_period:
        dates = [arm["index_date"] for arm in arms]
        first, last = max(day.min() for day in dates), min(day.max() for day in dates)
        keep(_is_between(table["index_date"], first, last), "common period")
    both = table.groupby(["id", "index_date"])["treatment"].transform("nunique") > 1
    keep(~table["id"].isin(table.loc[both, "id"]), "one cohort on a day")
    if duplicates == REMOVE:
        in_both = table.groupby("id")["treatment"].transform("nunique") > 1
        keep(~in_both, "in one cohort only")
    keep(~table["id"].duplicated(), "first entry of a person")
    lines = DataFrame(steps, columns=["step", *attrition.columns]).set_index("step")
    attrition = concat([attrition, lines])
    if not 0 < table["treatment"].sum() < len(table):
        raise NothingToCompareError(
            f"no {'comparator' if table['treatment'].any() else 'treated person'} is left:\n"
            f"{attrition.to_string()}"
        )
    cohort = Cohort.of(table.reset_index(drop=True))
    return replace(cohort, attrition=attrition)


def _beside(target, comparator):
    """Attrition of both cohorts, one step after the other; a step of one leaves the other be."""
    steps = [*dict.fromkeys([*target.index, *comparator.index])]
    steps.sort(key=lambda step: _position(step, target.index, comparator.index))
    both = target, comparator
    out = [t["left_out"].reindex(steps, fill_value=0).astype(np.int64) for t in both]
    arms = [t["entries"].iloc[0] - left.cumsum() for t, left in zip(both, out, strict=True)]
    columns = {"rows": sum(arms), "treated": arms[0], "comparators": arms[1], "left_out": sum(out)}
    return DataFrame(columns).rename_axis("step")


def _position(step, *indices):
    """Where a step comes in the first account that has it, counted from the end."""
    return min(list(index).index(step) - len(index) for index in indices if step in index)
