"""Records of concepts, cleaned and joined into eras, and periods of observation.

Queries put them into temporary tables, whose names begin with `sksurvgpu_`:

    tables.observed      person, start, stop    observation: periods that overlap or touch are one
    sksurvgpu_records    person, era, start, stop    records of the concepts asked for, as they are
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pandas import DataFrame, concat

from .._warnings import warn
from ..data.sources import read_whole
from ..tables.reading import require
from .tables import BIRTH, DOMAINS, SUPPLY
from .vocabulary import find_concepts, find_names, read_ids

# Parts of an era: a record that starts more than `gap` days after all before it have ended begins
# a new one. Of records of one start and end there is one, as both windows may order them otherwise.
_JOINED = """
    WITH marked AS (
        SELECT *, start > max(stop) OVER (
            PARTITION BY person, era ORDER BY start, stop
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) + {gap} AS is_new
        FROM (SELECT DISTINCT person, era, start, stop FROM ({records}))
    ), numbered AS (
        SELECT *, count(*) FILTER (coalesce(is_new, true)) OVER (
            PARTITION BY person, era ORDER BY start, stop ROWS UNBOUNDED PRECEDING) AS number
        FROM marked
    )
    SELECT person, era, min(start) AS start, max(stop) AS stop
    FROM numbered GROUP BY person, era, number
"""
# An exposure that ends before it starts, or has no end, is one of its first day.
_CLEANED = """
    SELECT person, era, start, greatest(coalesce(stop, start), start) AS stop
    FROM sksurvgpu_records
    WHERE start IS NOT NULL AND person IN (SELECT CAST(person_id AS BIGINT) FROM {persons})
"""
ERAS = _JOINED.replace("{records}", _CLEANED)


def prepare(tables) -> int:
    """Check persons and periods of observation, join the latter, and return the number of persons.

    Persons must be there once each. Periods without a day, or that end before they start, are left
    out with a warning, and so are those of unknown persons.
    """
    persons, periods = tables.path("person"), tables.path("observation_period")
    found = tables.frame(
        "SELECT count(*) AS n, count(DISTINCT person_id) AS n_different, "
        f"count(*) - count(person_id) AS n_missing FROM {persons}"
    ).loc[0]
    if not found["n"]:
        raise ValueError("table 'person' has no lines.")
    if found["n_missing"]:
        raise ValueError(f"table 'person' has {found['n_missing']:,} line(s) without a person_id.")
    if found["n_different"] < found["n"]:
        raise ValueError(
            f"table 'person' has {found['n']:,} lines of {found['n_different']:,} persons; keep "
            "one line for each."
        )
    tables.run(
        "CREATE OR REPLACE TEMP TABLE sksurvgpu_records AS SELECT CAST(person_id AS BIGINT) AS "
        "person, 0 AS era, CAST(observation_period_start_date AS DATE) AS start, "
        f"CAST(observation_period_end_date AS DATE) AS stop FROM {periods}"
    )
    sound = "stop >= start AND person IN (SELECT CAST(person_id AS BIGINT) FROM {persons})"
    sound = sound.format(persons=persons)
    n_bad = tables.frame(
        f"SELECT count(*) FILTER (({sound}) IS NOT TRUE) AS n FROM sksurvgpu_records"
    ).loc[0, "n"]
    if n_bad:
        warn(
            f"table 'observation_period' has {n_bad:,} line(s) that lack a day, end before they "
            "start or are of persons that table 'person' does not have; they are left out."
        )
    joined = _JOINED.format(gap=1, records=f"SELECT * FROM sksurvgpu_records WHERE {sound}")
    tables.run(
        f"CREATE OR REPLACE TEMP TABLE {tables.observed} AS "
        f"SELECT person, start, stop FROM ({joined}) ORDER BY ALL"
    )
    return int(found["n"])


def gather_records(tables, concepts, descendants, argument="concepts"):
    """Put the records of concepts into `sksurvgpu_records`; `era` is 0, or the number of an era.

    `concepts` are those by domain, or a list of such by number.
    """
    wanted, domains = [], []
    for era, of_era in enumerate(concepts if isinstance(concepts, list) else [concepts]):
        for name, ids in _check_domains(of_era, argument).items():
            ids = read_ids(ids, argument)
            if name != "cohort":
                ids = find_concepts(tables, ids, descendants)
            wanted.append(DataFrame({"domain": name, "concept": ids, "era": era}))
            domains.append(name)
    tables.register("sksurvgpu_wanted", concat(wanted, ignore_index=True))
    parts = [_records_of(tables, name) for name in dict.fromkeys(domains)]
    tables.run(f"CREATE OR REPLACE TEMP TABLE sksurvgpu_records AS {' UNION ALL '.join(parts)}")


def _check_domains(concepts, argument):
    if not isinstance(concepts, Mapping) or not concepts:
        raise TypeError(
            f"`{argument}` is {concepts!r}; pass concepts by domain, such as {{'drug': [1112807]}}."
        )
    for name, ids in concepts.items():
        if name not in DOMAINS:
            raise ValueError(
                f"`{argument}` has the domain {name!r}, which must be one of "
                f"{', '.join(map(repr, DOMAINS))}."
            )
        if not np.size(ids):
            raise ValueError(f"`{argument}` has no concept of domain {name!r}.")
    return concepts


def _records_of(tables, name):
    """Records of one domain that are wanted, as SQL."""
    domain = DOMAINS[name]
    place, columns = tables.path(domain.table), tables.columns(domain.table)
    stops = []
    if domain.stop in columns:
        stops.append(f"CAST(r.{domain.stop} AS DATE)")
    if SUPPLY in columns:
        days = f"CAST(r.{SUPPLY} AS INTEGER)"
        stops.append(f"CASE WHEN {days} > 0 THEN CAST(r.{domain.start} AS DATE) + {days} - 1 END")
    stop = f"coalesce({', '.join([*stops, 'NULL'])})"
    return (
        f"SELECT CAST(r.{domain.person} AS BIGINT) AS person, w.era, "
        f"CAST(r.{domain.start} AS DATE) AS start, CAST({stop} AS DATE) AS stop FROM {place} r "
        f"JOIN sksurvgpu_wanted w ON r.{domain.concept} = w.concept "
        f"AND w.domain = '{name}'"
    )


def _register_persons(tables, persons):
    """Let queries read `sksurvgpu_persons`, and return the condition that asks for them."""
    if persons is None:
        return "true"
    if hasattr(persons, "table"):
        persons = persons.table["id"]
    elif not (isinstance(persons, list | tuple) or np.ndim(persons) == 1):
        table = read_whole(persons, "persons")
        require(table.columns, "id", "persons", "id")
        persons = table["id"]
    ids = read_ids(persons, "persons", sorts=False)
    tables.register("sksurvgpu_persons", DataFrame({"id": ids}))
    return "person IN (SELECT id FROM sksurvgpu_persons)"


def find_events(tables, concepts, persons, descendants):
    """Days of events, each once; those without a day or outside of observation are counted."""
    chosen = _register_persons(tables, persons)
    gather_records(tables, concepts, descendants)
    inside = (
        f"EXISTS (SELECT 1 FROM {tables.observed} o WHERE o.person = r.person "
        "AND r.start BETWEEN o.start AND o.stop)"
    )
    counts = tables.frame(
        "SELECT count(*) - count(start) AS undated, "
        f"count(*) FILTER (start IS NOT NULL AND NOT {inside}) AS outside "
        f"FROM sksurvgpu_records r WHERE {chosen}"
    ).loc[0]
    if counts.any():
        warn(
            f"of the events, {counts['undated']:,} record(s) have no date and "
            f"{counts['outside']:,} are outside of observation; they are left out."
        )
    return tables.frame(
        "SELECT DISTINCT person AS id, start AS date FROM sksurvgpu_records r "
        f"WHERE {chosen} AND {inside} ORDER BY ALL"
    )


def join_eras(tables, exposures, events, gap, descendants):
    """Tables of a case series: periods of observation with an event, and eras that may matter."""
    is_known = hasattr(events, "columns")
    outcomes = events if is_known else find_events(tables, events, None, descendants)
    tables.register("sksurvgpu_outcomes", outcomes)
    if isinstance(exposures, Mapping):
        labels, sets = list(exposures), list(exposures.values())
    else:
        sets = read_ids(exposures, "exposures", sorts=False).tolist()
        labels = find_names(tables, sets).fillna("").tolist()
        is_shared = len(set(labels)) < len(labels)
        pairs = zip(labels, sets, strict=True)
        labels = [f"{label} ({id})" if is_shared else label or str(id) for label, id in pairs]
    if not sets:
        raise ValueError("`exposures` is empty; pass concepts of drugs.")
    sets = [ids if isinstance(ids, Mapping) else {"drug": ids} for ids in sets]
    gather_records(tables, sets, descendants, "exposures")
    _warn_of_exposures(tables)
    tables.run(
        "CREATE OR REPLACE TEMP TABLE sksurvgpu_subjects AS "
        "SELECT row_number() OVER (ORDER BY person, start) - 1 AS id, person, start, stop "
        f"FROM {tables.observed} o WHERE EXISTS (SELECT 1 FROM sksurvgpu_outcomes e "
        "WHERE e.id = o.person AND e.date BETWEEN o.start AND o.stop)"
    )
    parts = [f"p.{part}" if part in tables.columns("person") else "NULL" for part in BIRTH]
    parts = ["p.year_of_birth", *(f"coalesce({part}, 1)" for part in parts)]
    born = ", ".join(f"CAST({part} AS BIGINT)" for part in parts)  # frames with gaps have floats
    periods = tables.frame(
        'SELECT s.id, s.person AS person_id, s.start, s.stop AS "end", '
        f"TRY(make_date({born})) AS birth, s.stop < (SELECT max(stop) FROM {tables.observed}) AS "
        "ended_early FROM sksurvgpu_subjects s "
        f"JOIN {tables.path('person')} p ON p.person_id = s.person ORDER BY s.id"
    )
    eras = tables.frame(
        f'SELECT s.id, e.era, e.start, e.stop AS "end" FROM sksurvgpu_subjects s JOIN '
        f"({ERAS.format(gap=gap, persons=tables.path('person'))}) e ON e.person = s.person "
        "ORDER BY ALL"
    )
    outcomes = tables.frame(
        "SELECT s.id, e.date AS day FROM sksurvgpu_subjects s JOIN sksurvgpu_outcomes e "
        "ON e.id = s.person AND e.date BETWEEN s.start AND s.stop ORDER BY ALL"
    )
    is_known = periods["birth"].notna()
    if not is_known.all():
        warn(f"{(~is_known).sum():,} subjects whose day of birth is not known are left out.")
        periods, known = periods[is_known], periods.loc[is_known, "id"]
        eras, outcomes = (lines[lines["id"].isin(known)].copy() for lines in (eras, outcomes))
    eras["era"] = np.array(labels, dtype=object)[eras["era"].to_numpy()]
    return {"periods": periods, "eras": eras, "outcomes": outcomes, "birth": "birth"}


def _warn_of_exposures(tables):
    counts = tables.frame(
        "SELECT count(*) - count(start) AS undated, "
        "count(*) FILTER (stop < start) AS backward FROM sksurvgpu_records"
    ).loc[0]
    if counts.any():
        warn(
            f"of the exposures, {counts['undated']:,} record(s) have no start and are left out, "
            f"and {counts['backward']:,} end before they start and count for their first day."
        )
