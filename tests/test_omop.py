"""Databases in the OMOP common data model against plain loops over their tables, and bad input."""

from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sksurvgpu import open_partitions
from sksurvgpu.cohort import RiskWindow, balance, eras_to_intervals, time_at_risk
from sksurvgpu.data.simulate import omop as simulator
from sksurvgpu.datasets import simulate_claims, simulate_omop
from sksurvgpu.exceptions import NothingToCompareError
from sksurvgpu.omop import Database, DrawnCohort

duckdb = pytest.importorskip("duckdb")

DAY = pd.Timedelta(days=1)
NEW, OLD = 101, 201
CONCEPT_AND_START = {name: columns for name, (_, *columns) in simulator.TABLES.items()}


@pytest.fixture(scope="module")
def dirty():
    return simulate_omop(400, n_codes=60, n_controls=2, dirt=0.05, random_state=1)


@pytest.fixture(scope="module")
def database(dirty):
    return Database(dirty.tables)


def entries(drawn):
    table = drawn.table.drop(columns=["death_date"])
    return [tuple(line) for line in table.itertuples(index=False)]


def observed_of(tables):
    """Periods by person; the simulator's do not touch."""
    found = defaultdict(list)
    for line in tables["observation_period"].itertuples(index=False):
        found[line[0]].append((line[1], line[2]))
    return found


def eras_of(tables, drug, gap=30):
    """Eras by person, of a drug as it is recorded, and what of the records was bad."""
    records, n_bad = defaultdict(list), Counter()
    for person, concept, start, stop in tables["drug_exposure"].itertuples(index=False):
        if concept != drug + 1:
            continue
        n_bad["records"] += 1
        if pd.isna(start):
            n_bad["undated"] += 1
            continue
        if pd.isna(stop) or stop < start:
            n_bad["corrected"] += 1
            stop = start
        records[person].append((start, stop))
    eras = {}
    for person, spans in records.items():
        joined = []
        for start, stop in sorted(spans):
            if joined and start <= joined[-1][1] + gap * DAY:
                joined[-1][1] = max(joined[-1][1], stop)
            else:
                joined.append([start, stop])
        eras[person] = joined
    return eras, n_bad


def entries_of(tables, drug, first_only=True, washout=365, min_days=1):
    persons = tables["person"].set_index("person_id")
    died = dict(tables["death"].itertuples(index=False))
    observed = observed_of(tables)
    found = []
    for person, eras in sorted(eras_of(tables, drug)[0].items()):
        for start, stop in eras[:1] if first_only else eras:
            inside = [p for p in observed[person] if p[0] <= start <= p[1]]
            if not inside or (start - inside[0][0]).days < washout:
                continue
            is_dead = person in died and died[person] < start
            if (stop - start).days + 1 < min_days or is_dead:
                continue
            age = start.year - persons.loc[person, "year_of_birth"]
            female = int(persons.loc[person, "gender_concept_id"] == 8532)
            found.append((person, start, stop, *inside[0], age, female))
    return found


@pytest.mark.parametrize(
    "options",
    [{}, {"washout": 500}, {"min_days": 60}, {"first_only": False, "washout": 0}],
    ids=str,
)
def test_cohorts_are_those_of_a_loop(dirty, database, options):
    for drug in (NEW, OLD):
        drawn = database.cohort({"drug": [drug]}, **options)
        assert entries(drawn) == entries_of(dirty.tables, drug, **options)
        eras, n_bad = eras_of(dirty.tables, drug)
        attrition = drawn.attrition
        assert attrition.loc["records", "entries"] == n_bad["records"]
        assert attrition.loc["start known", "left_out"] == n_bad["undated"] > 0
        corrected = attrition.loc["no end, or before the start: first day", "corrected"]
        assert corrected == n_bad["corrected"] > 0
        joined = attrition.loc["joined over 30 days"]
        assert (joined["entries"], joined["persons"]) == (sum(map(len, eras.values())), len(eras))
        assert attrition["entries"].iloc[-1] == len(drawn.table)
        left = attrition["entries"].iloc[0] - attrition["left_out"].sum()
        assert left == len(drawn.table)


@pytest.mark.filterwarnings("ignore:table 'observation_period'|of the e(vents|xposures)")
def test_lines_that_are_there_twice_change_no_era(dirty, database):
    names = "drug_exposure", "observation_period"
    again = {name: pd.concat([dirty.tables[name]] * 3) for name in names}
    pairs = [
        (db.cohort({"drug": [NEW]}, first_only=False).table, db.eras([OLD], {"condition": [1001]}))
        for db in (database, Database(dirty.tables | again))
    ]
    (once, eras), (thrice, eras_of_thrice) = pairs
    pd.testing.assert_frame_equal(once, thrice)
    for name in ("periods", "eras"):
        pd.testing.assert_frame_equal(eras[name], eras_of_thrice[name])


def test_a_period_of_index_dates(dirty, database):
    first, last = "2016-03-01", "2016-12-31"
    drawn = database.cohort({"drug": [NEW]}, period=(first, last))
    days = [line for line in entries_of(dirty.tables, NEW) if str(line[1].date()) >= first]
    assert entries(drawn) == [line for line in days if str(line[1].date()) <= last]
    after = database.cohort({"drug": [NEW]}, period=(first, None))
    assert entries(after) == days and "index date in the period" in after.attrition.index
    with pytest.raises(ValueError, match=r"`period` is \(2016, 2017\), must be a pair: first and"):
        database.cohort({"drug": [NEW]}, period=(2016, 2017))


@pytest.mark.thorough
def test_two_cohorts_are_those_of_a_loop(dirty, database):
    arms = {1: entries_of(dirty.tables, NEW), 0: entries_of(dirty.tables, OLD)}
    both = defaultdict(dict)
    for arm, lines in arms.items():
        for line in lines:
            both[line[0]][arm] = line
    drawn = [database.cohort({"drug": [drug]}) for drug in (NEW, OLD)]
    low = max(min(line[1] for line in lines) for lines in arms.values())
    high = min(max(line[1] for line in lines) for lines in arms.values())
    for duplicates in ("keep first", "remove"):
        expected = []
        for person, lines in sorted(both.items()):
            lines = {arm: line for arm, line in lines.items() if low <= line[1] <= high}
            if len({line[1] for line in lines.values()}) < len(lines):
                continue
            if len(lines) == 2 and duplicates == "remove":
                continue
            if lines:
                line, arm = min((line[1], arm) for arm, line in lines.items())
                expected.append((person, line, arm))
        cohort = database.compare(*drawn, common_period=True, duplicates=duplicates)
        table = cohort.table[["id", "index_date", "treatment"]]
        assert [tuple(line) for line in table.itertuples(index=False)] == expected
        assert cohort.attrition["left_out"].sum() == cohort.attrition["rows"].iloc[0] - len(table)
        assert cohort.attrition.loc["one cohort on a day", "left_out"] > 0
        assert cohort.attrition["treated"].iloc[-1] == cohort.is_treated.sum()
    assert cohort.spread("age").tolist() == cohort.table["age"].tolist()  # of its first table


def test_attrition_of_cohorts_drawn_otherwise(database):
    new = database.cohort({"drug": [NEW]}, min_days=30)
    old = database.cohort({"drug": [OLD]}, washout=400)
    attrition = database.compare(new, old).attrition
    assert attrition.loc["records", "treated"] == new.attrition["entries"].iloc[0]
    assert attrition.loc["year of birth known", ["treated", "comparators"]].tolist() == [
        len(new.table),
        len(old.table),
    ]
    assert (np.diff(attrition[["treated", "comparators"]], axis=0) <= 0).all()


@pytest.mark.parametrize("option", ["first_only", "descendants"])
def test_texts_are_no_flags(database, option):
    with pytest.raises((TypeError, ValueError), match=f"`{option}` is 'no'"):
        database.cohort({"drug": [NEW]}, **{option: "no"})
    drawn = database.cohort({"drug": [NEW]})
    with pytest.raises((TypeError, ValueError), match="`common_period` is 'no'"):
        database.compare(drawn, drawn, common_period="no")


def test_attrition_adds_up_when_steps_come_in_another_order(database):
    every = database.cohort({"drug": [NEW]}, first_only=False, min_days=20)
    first = database.cohort({"drug": [OLD]}, washout=0)
    attrition = database.compare(every, first).attrition
    for column in ("rows", "treated", "comparators"):
        assert (attrition[column].diff().iloc[1:] <= 0).all()
    assert (-attrition["rows"].diff().iloc[1:] == attrition["left_out"].iloc[1:]).all()


WINDOWS = {"the last 30 days": (-30, 0), "the last year": (-365, 0)}
SCORE = {"a": (1.0, [10_000, 10_001]), "b": (2.5, [10_008]), "c": (4.0, [1_001])}


def entries_by_name(tables, persons, excluded, score=SCORE):
    """Value by person and name of the column, and how many records have no day or no concept."""
    name_of = dict(tables["concept"].itertuples(index=False))
    below = defaultdict(set)
    for ancestor, descendant in tables["concept_ancestor"].itertuples(index=False):
        below[ancestor].add(descendant)
    below_of = lambda ids: set().union(*(below[id] for id in ids))  # noqa: E731
    index = dict(zip(persons["id"], persons["index_date"], strict=True))
    values, has, n_bad = {}, set(), Counter()
    for line in tables["person"].itertuples(index=False):
        if line.person_id in index:
            day, low = index[line.person_id], (index[line.person_id].year - line.year_of_birth) // 5
            named = {"sex": line.gender_concept_id, "ethnicity": line.ethnicity_concept_id}
            named |= {"race": line.race_concept_id} if line.race_concept_id else {}
            labels = [f"{kind}: {name_of[concept]}" for kind, concept in named.items()]
            labels += [f"index year: {day.year}", f"index month: {day.month}"]
            for label in (*labels, f"age: {5 * low}-{5 * low + 4}"):
                values[line.person_id, label] = 1.0
    for domain, (concept_column, start_column) in CONCEPT_AND_START.items():
        table = tables[simulator.TABLES[domain][0]]
        columns = table["person_id"], table[concept_column], table[start_column]
        for person, concept, start in zip(*columns, strict=True):
            if person not in index or concept in excluded:
                continue
            if pd.isna(start):
                n_bad["n_undated"] += 1
                continue
            day = (start - index[person]).days
            if domain == "condition" and day <= 0:
                has |= {(person, c) for c, (_, of) in score.items() if concept in below_of(of)}
            for window, (low, high) in WINDOWS.items():
                if low <= day <= high and concept:
                    name = name_of.get(concept, f"concept {concept}")
                    values[person, f"{domain} in {window}: {name}"] = 1.0
                    count = person, f"number of {domain} records in {window}"
                    values[count] = values.get(count, 0.0) + 1.0
            n_bad["n_missing"] += not concept and -365 <= day <= 0
    for person, c in has:
        key = person, "comorbidity score"
        values[key] = values.get(key, 0.0) + score[c][0]
    return values, n_bad


def as_dict(data):
    X = data.X.to_scipy().tocoo()
    names = np.asarray(data.X.names, dtype=object)
    keys = zip(data.row_ids[X.row].tolist(), names[X.col].tolist(), strict=True)
    return dict(zip(keys, X.data.tolist(), strict=True))


@pytest.fixture(scope="module")
def cohort(database):
    return database.compare(*(database.cohort({"drug": [drug]}) for drug in (NEW, OLD)))


def test_covariates_are_those_of_a_loop(dirty, database, cohort):
    with pytest.warns(UserWarning, match="no name of 1 concept"):
        data = database.covariates(cohort, exclude=[NEW, OLD], score=SCORE)
    expected, n_bad = entries_by_name(dirty.tables, cohort.table, {102, 202})
    assert as_dict(data) == expected
    assert data.row_ids.tolist() == cohort.table["id"].tolist()
    assert data.report.n_undated == n_bad["n_undated"] > 0
    assert data.report.n_missing == n_bad["n_missing"] > 0
    assert data.report.n_unnamed == 0
    assert balance(data.X, cohort.is_treated).table.index.tolist() == list(data.X.names)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:the vocabulary has no name")
def test_chosen_domains_windows_and_files(tmp_path, dirty, database, cohort):
    options = {"domains": ["condition"], "windows": [(-90, -1)], "min_count": 10}
    data = database.covariates(cohort, **options)
    n_rows = Counter(name for _, name in as_dict(data))
    assert {name.split(":")[0] for name in n_rows if name.startswith("c")} == {
        "condition in [-90, -1]"
    }
    assert min(n_rows.values()) >= 10
    written = database.covariates(cohort.table, to=tmp_path / "rows", **options)
    assert open_partitions(tmp_path / "rows").X.shape == data.X.shape
    assert list(written.X.names) == list(data.X.names)


@pytest.mark.thorough
def test_events_are_those_of_a_loop(dirty, database, cohort):
    tables, observed = dirty.tables, observed_of(dirty.tables)
    lines = tables["condition_occurrence"].query("condition_concept_id == 1004")
    ids = set(cohort.table["id"])
    days, n_outside = set(), 0
    for person, _, start, _ in lines.dropna().itertuples(index=False):
        is_inside = any(low <= start <= high for low, high in observed[person])
        n_outside += person in ids and not is_inside
        if person in ids and is_inside:
            days.add((person, start))
    n_undated = lines[lines["person_id"].isin(ids)]["condition_start_date"].isna().sum()
    message = f"{n_undated} record.s. have no date and {n_outside} are outside"
    with pytest.warns(UserWarning, match=message):
        events = database.events({"condition": [1003]}, cohort)
    assert [tuple(line) for line in events.itertuples(index=False)] == sorted(days)
    followed = time_at_risk(cohort, events, risk_start=1, competing="death_date")
    assert followed.table["event"].sum() > 0


@pytest.mark.thorough
def test_tables_of_a_case_series(dirty, database):
    with pytest.warns(UserWarning, match="have no start|have no date"):
        tables = database.eras([NEW, OLD], {"condition": [1003]})
    observed, eras = observed_of(dirty.tables), tables["eras"]
    number = {}
    for line in tables["periods"].itertuples(index=False):
        assert (line.start, line.end) in observed[line.person_id]
        number[line.person_id, line.start] = line.id
    expected = [
        (id, name, *span)
        for (person, _), id in number.items()
        for drug, name in ((NEW, "new drug"), (OLD, "old drug"))
        for span in eras_of(dirty.tables, drug)[0].get(person, [])
    ]
    assert sorted(eras.itertuples(index=False, name=None)) == sorted(expected)
    with pytest.warns(UserWarning, match="have no date"):
        events = database.events({"condition": [1003]}).itertuples(index=False)
    expected = [
        (id, day)
        for person, day in events
        for low, high in observed[person]
        for id in [number.get((person, low))]
        if low <= day <= high
    ]
    assert list(tables["outcomes"].itertuples(index=False, name=None)) == sorted(expected)
    data = eras_to_intervals(**tables, windows={"on": RiskWindow(by_era=True)})
    assert data.attrition.loc["periods", "subjects"] == len(tables["periods"])
    assert list(data.columns.index) == ["on: new drug", "on: old drug"]
    named = {"both": [NEW, OLD]}
    with pytest.warns(UserWarning, match="are left out"):
        assert set(database.eras(named, {"condition": [1003]})["eras"]["era"]) == {"both"}
    last = max(end for spans in observed.values() for _, end in spans)
    assert (tables["periods"]["ended_early"] == (tables["periods"]["end"] < last)).all()


def test_events_and_other_domains_make_a_case_series():
    tables = simulate_omop(80, 2_000, n_codes=50, n_controls=1, random_state=4).tables
    database = Database(tables)
    assert database.n_persons == 80
    events = database.events({"condition": [1003]})
    both = {"drug": {"drug": [NEW]}, "stroke": {"condition": [1001]}}
    found = database.eras(both, events)
    expected = database.eras({"drug": [NEW]}, {"condition": [1003]})
    for name in ("periods", "outcomes"):
        pd.testing.assert_frame_equal(found[name], expected[name])
    is_drug = found["eras"]["era"] == "drug"
    pd.testing.assert_frame_equal(found["eras"][is_drug].reset_index(drop=True), expected["eras"])
    days = database.events({"condition": [1001]}, found["periods"]["person_id"].unique())
    begun = found["eras"][~is_drug].merge(found["periods"][["id", "person_id"]])
    assert {*begun["start"]} <= {*days["date"]} and len(begun)


def tables_of(drugs, periods=(), **others):
    """A database of persons 1, 2 and 3, observed since 2010 unless told otherwise."""
    starts = pd.to_datetime([drug[1] for drug in drugs])
    ends = pd.to_datetime([drug[2] for drug in drugs])
    periods = periods or [(id, "2010-01-01", "2020-12-31") for id in (1, 2, 3)]
    person, low, high = zip(*periods, strict=True)
    tables = {
        "person": {
            "person_id": [1, 2, 3],
            "gender_concept_id": [8532, 8507, 0],
            "year_of_birth": [1950, 1960, 1970],
            "race_concept_id": 8527,
            "ethnicity_concept_id": 0,
        },
        "observation_period": {
            "person_id": person,
            "observation_period_start_date": pd.to_datetime(low),
            "observation_period_end_date": pd.to_datetime(high),
        },
        "concept": {
            "concept_id": [7, 8, 8507, 8527, 8532],
            "concept_name": ["drug", "tablet", "MALE", "White", "FEMALE"],
        },
        "concept_ancestor": {"ancestor_concept_id": [7], "descendant_concept_id": [8]},
        "drug_exposure": {
            "person_id": [drug[0] for drug in drugs],
            "drug_concept_id": 8,
            "drug_exposure_start_date": starts,
            "drug_exposure_end_date": ends,
            "days_supply": [drug[3] if len(drug) > 3 else None for drug in drugs],
        },
    }
    tables |= others
    return {name: pd.DataFrame(table) for name, table in tables.items()}


def spans(drawn):
    lines = drawn.table[["id", "index_date", "end_date"]].itertuples(index=False)
    return [(id, str(start.date()), str(stop.date())) for id, start, stop in lines]


def test_eras_join_over_gaps_and_end_with_the_supply():
    drugs = [
        (1, "2012-01-01", "2012-01-10"),
        (1, "2012-02-09", None, 5),  # 30 days after
        (1, "2012-03-16", "2012-03-01"),  # 32 days after, ends before it starts
        (2, "2012-01-01", "2012-12-31"),
        (2, "2012-02-01", "2012-02-02"),  # within
        (2, "2013-01-01", None),
        (9, "2012-01-01", "2012-01-02"),  # nobody
    ]
    drawn = Database(tables_of(drugs)).cohort({"drug": [7]}, first_only=False)
    assert spans(drawn) == [
        (1, "2012-01-01", "2012-02-13"),
        (1, "2012-03-16", "2012-03-16"),
        (2, "2012-01-01", "2013-01-01"),
    ]
    assert drawn.attrition.loc["person known", "left_out"] == 1
    assert drawn.attrition["corrected"].sum() == 2
    assert Database(tables_of(drugs)).cohort({"drug": [7]}, descendants=False).table.empty


def test_periods_that_touch_are_one_and_bad_ones_are_told():
    periods = [
        (1, "2010-01-01", "2011-06-30"),
        (1, "2011-07-01", "2011-12-31"),
        (1, "2011-11-01", "2013-12-31"),
        (2, "2012-01-01", "2011-01-01"),
        (3, "2012-01-02", "2012-12-31"),
        (3, None, "2012-12-31"),
        (4, "2012-01-02", "2012-12-31"),
    ]
    drugs = [(id, "2012-01-01", "2012-01-10") for id in (1, 2, 3)]
    with pytest.warns(UserWarning, match="'observation_period' has 3 line"):
        database = Database(tables_of(drugs, periods))
    table = database.cohort({"drug": [7]}).table
    assert table["id"].tolist() == [1]
    assert str(table["observation_start"][0].date()) == "2010-01-01"
    assert str(table["observation_end"][0].date()) == "2013-12-31"


def test_death_sex_and_age_that_are_not_known():
    drugs = [(id, "2012-01-01", "2012-01-10") for id in (1, 2, 3)]
    tables = tables_of(drugs)
    died = pd.to_datetime(["2015-01-01", "2014-01-01", "2011-12-31"])
    tables["death"] = pd.DataFrame({"person_id": [1, 1, 2], "death_date": died})
    drawn = Database(tables).cohort({"drug": [7]})
    assert drawn.table["death_date"].iloc[0] == died[1]  # the earlier of two
    assert drawn.attrition.loc["alive on the index date", "left_out"] == 1
    assert drawn.table["female"].fillna(-1).tolist() == [1, -1]
    tables["person"]["year_of_birth"] = [1950.0, 1960.0, np.nan]
    drawn = Database(tables).cohort({"drug": [7]})
    assert drawn.attrition.loc["year of birth known", "left_out"] == 1
    assert drawn.table[["id", "age"]].to_numpy().tolist() == [[1, 62]]


def test_cohorts_of_the_database_itself_and_of_several_domains():
    cohort = {
        "subject_id": [1, 2],
        "cohort_definition_id": [5, 6],
        "cohort_start_date": pd.to_datetime(["2012-01-01", "2012-02-01"]),
        "cohort_end_date": pd.to_datetime(["2012-03-01", "2012-03-01"]),
    }
    database = Database(tables_of([(3, "2012-01-01", "2012-01-10")], cohort=cohort))
    assert spans(database.cohort({"cohort": [5]})) == [(1, "2012-01-01", "2012-03-01")]
    both = database.cohort({"cohort": [6], "drug": [7]})
    assert both.table["id"].tolist() == [2, 3]


def test_concepts_and_names():
    database = Database(tables_of([(1, "2012-01-01", "2012-01-10")]))
    assert database.concepts([7]).tolist() == [7, 8]
    assert database.concepts(7, descendants=False).tolist() == [7]
    assert database.concepts([7], exclude=[8]).tolist() == [7]
    assert database.concepts([7], exclude=[7]).tolist() == []
    with pytest.warns(UserWarning, match="no concept 55 and|no concept 55;"):
        assert database.concepts([8, 55, 7]).tolist() == [7, 8, 55]
    with pytest.warns(UserWarning, match="no concept 1, 2, 3, 4, 5 and 1 more"):
        names = database.names([8, 6, 5, 4, 3, 2, 1])
    assert names.index.tolist() == [8, 6, 5, 4, 3, 2, 1]
    assert names.iloc[0] == "tablet" and names.iloc[1:].isna().all()


def test_each_period_is_a_subject_with_its_own_events():
    drugs = [(1, "2010-05-01", "2010-05-10"), (1, "2013-05-01", "2013-05-10")]
    periods = [(1, "2010-01-01", "2010-12-31"), (1, "2013-01-01", "2013-12-31")]
    tables = Database(tables_of(drugs, periods)).eras({"drug": [7]}, {"drug": [7]})
    outcomes = tables["outcomes"]
    assert list(zip(outcomes["id"], outcomes["day"].dt.year, strict=True)) == [(0, 2010), (1, 2013)]
    assert len(tables["eras"]) == 4  # windows may begin before or after a period
    assert tables["periods"]["birth"].dt.year.tolist() == [1950, 1950]


def test_days_of_birth_that_are_not_known_or_not_there():
    drugs = [(id, "2012-01-01", "2012-01-10") for id in (1, 2, 3)]
    tables = tables_of(drugs)
    tables["person"]["year_of_birth"] = [1950.0, 1960.0, np.nan]
    tables["person"] = tables["person"].assign(month_of_birth=[np.nan, 2, 3], day_of_birth=30)
    with pytest.warns(UserWarning, match="2 subjects whose day of birth is not known"):
        found = Database(tables).eras({"drug": [7]}, {"drug": [7]})
    assert found["periods"]["birth"].tolist() == [pd.Timestamp("1950-01-30")]
    assert found["eras"]["id"].tolist() == found["outcomes"]["id"].tolist() == [0]


def drawn_from(source, schema=None):
    database = Database(source, schema)
    drawn = [database.cohort({"drug": [drug]}) for drug in (NEW, OLD)]
    return database.compare(*drawn), database


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:the vocabulary has no name")
def test_sources_of_every_kind_say_the_same(tmp_path, dirty, monkeypatch):
    kept, database = drawn_from(dirty.tables)
    covariates = database.covariates(kept)
    (tmp_path / "one").mkdir()
    for name, table in dirty.tables.items():
        table.to_parquet(tmp_path / "one" / f"{name.upper()}.parquet")
    with duckdb.connect(str(tmp_path / "cdm.duckdb")) as connection:
        connection.execute("CREATE SCHEMA data")
        for name, table in dirty.tables.items():
            connection.register("frame", table)
            connection.execute(f'CREATE TABLE data."{name.upper()}" AS SELECT * FROM frame')
    arrow = {name: pa.Table.from_pandas(table) for name, table in dirty.tables.items()}
    sources = {
        "files": (tmp_path / "one",),
        "paths": ({p.stem.lower(): p for p in (tmp_path / "one").iterdir()},),
        "file": (str(tmp_path / "cdm.duckdb"), "data"),
        "Arrow": (arrow,),
        "readers": ({name: table.to_reader(1000) for name, table in arrow.items()},),
        "polars": ({name: pl.from_arrow(table) for name, table in arrow.items()},),
    }
    for threads in (1, 4):
        connection = duckdb.connect(config={"threads": threads})
        for name, table in dirty.tables.items():
            connection.register(name, table)
        sources[threads] = (connection,)
    for name, source in sources.items():
        cohort, database = drawn_from(*source)
        pd.testing.assert_frame_equal(cohort.table, kept.table, obj=str(name))
        pd.testing.assert_frame_equal(cohort.attrition, kept.attrition, obj=str(name))
        if name not in ("file", 1, 4):
            continue
        monkeypatch.setattr("sksurvgpu.omop.covariates.BATCH_SIZE", 300)
        data = database.covariates(cohort)
        for part in ("data", "indices", "indptr"):
            one, other = (getattr(d.X.to_scipy(), part) for d in (data, covariates))
            assert one.tobytes() == other.tobytes(), name
        assert list(data.X.names) == list(covariates.X.names)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda t: t.pop("person"), ValueError, "no table 'person'; of its tables, .*'?concept"),
        (lambda t: t["person"].pop("race_concept_id"), ValueError, "lacks 'race_concept_id'; it"),
        (
            lambda t: t.update(person=pd.concat([t["person"], t["person"]])),
            ValueError,
            "6 lines of 3 persons",
        ),
        (lambda t: t.update(person=t["person"][:0]), ValueError, "no lines"),
    ],
)
@pytest.mark.thorough
def test_tables_that_are_not_right(change, error, message):
    tables = tables_of([(1, "2012-01-01", "2012-01-10")])
    change(tables)
    with pytest.raises(error, match=message):
        Database(tables)


@pytest.mark.parametrize(
    ("table", "column", "value", "message"),
    [
        ("drug_exposure", "drug_exposure_start_date", "2012-01-01", "has VARCHAR in .*pass dates"),
        ("drug_exposure", "days_supply", "8", "has VARCHAR in 'days_supply'; pass numbers"),
        ("drug_exposure", "drug_concept_id", "8", "has VARCHAR in 'drug_concept_id'; pass num"),
        (
            "drug_exposure",
            "drug_exposure_end_date",
            pd.Timestamp("2012-01-01", tz="Europe/Paris"),
            "times of a zone in 'drug_exposure_end_date'",
        ),
    ],
)
@pytest.mark.thorough
def test_columns_of_another_kind(table, column, value, message):
    tables = tables_of([(1, "2012-01-01", "2012-01-10")])
    tables[table][column] = value
    with pytest.raises(TypeError, match=message):
        Database(tables)


@pytest.mark.parametrize("value", [1.5, 2.0**53 + 2.0])
@pytest.mark.parametrize("column", ["person_id", "drug_concept_id"])
def test_floating_point_that_names_others(column, value):
    tables = tables_of([(1, "2012-01-01", "2012-01-10")])
    tables["drug_exposure"][column] = value
    match = (
        rf"'drug_exposure' has 1 number\(s\) in '{column}' that are not whole, or so large that D"
    )
    with pytest.raises(ValueError, match=match):
        Database(tables)


def test_nan_in_arrow_is_missing():
    tables = tables_of([(1, f"{year}-01-01", None) for year in range(2012, 2016)])
    drugs, nan = pa.Table.from_pandas(tables["drug_exposure"]), float("nan")
    given = {"person_id": [nan, 1, 1, 1], "drug_concept_id": [8, nan, 8, 8]}
    given |= {"days_supply": [7, 7, nan, 7]}
    for name, values in given.items():
        values = pa.array(map(float, values), from_pandas=False)
        drugs = drugs.set_column(drugs.column_names.index(name), name, values)
    database = Database(tables | {"drug_exposure": drugs})
    drawn = database.cohort({"drug": [8]}, first_only=False)
    assert spans(drawn) == [(1, "2014-01-01", "2014-01-01"), (1, "2015-01-01", "2015-01-07")]


def test_two_databases_of_one_connection():
    connection = duckdb.connect()
    for schema, day in (("early", "2010-01-01"), ("late", "2012-06-01")):
        connection.execute(f"CREATE SCHEMA {schema}")
        periods = [(1, day, "2020-12-31")]
        for name, frame in tables_of([(1, "2012-01-01", "2012-12-31")], periods).items():
            connection.register("frame", frame)
            connection.execute(f"CREATE TABLE {schema}.{name} AS SELECT * FROM frame")
    early, late = Database(connection, "early"), Database(connection, "memory.late")
    assert len(early.cohort({"drug": [7]}).table) == 1
    assert len(late.cohort({"drug": [7]}).table) == 0


def test_both_drugs_on_a_day_is_for_good():
    drugs = [(1, "2012-01-01", "2012-01-10"), (1, "2014-01-01", "2014-01-10")]
    drawn = Database(tables_of(drugs)).cohort({"drug": [7]}, first_only=False)
    later = DrawnCohort(drawn.table[1:].assign(id=2), drawn.attrition)
    cohort = Database(tables_of(drugs)).compare(drawn, later)
    assert cohort.table["index_date"].dt.year.tolist() == [2012, 2014]  # the first of two
    other = DrawnCohort(drawn.table[:1], drawn.attrition)
    with pytest.raises(NothingToCompareError, match=r"one cohort on a day +0"):
        Database(tables_of(drugs)).compare(drawn, other)


def test_persons_without_identifiers():
    tables = tables_of([(1, "2012-01-01", "2012-01-10")])
    tables["person"]["person_id"] = [1, 2, np.nan]
    with pytest.raises(ValueError, match=r"1 line\(s\) without a person_id"):
        Database(tables)


def test_sources_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        Database(tmp_path / "nowhere")
    (tmp_path / "text").write_text("no database, but a text" * 1000)
    with pytest.raises(ValueError, match="is no database of DuckDB"):
        Database(tmp_path / "text")
    with pytest.raises(TypeError, match="of type int; pass a file of DuckDB"):
        Database(5)
    with pytest.raises(ValueError, match="no table 'person'"):
        Database(tmp_path)
    (tmp_path / "person").mkdir()
    with pytest.raises(ValueError, match="no files of Parquet for table 'person'"):
        Database(tmp_path)


def test_questions_that_cannot_be_answered(database, cohort):
    small = Database(tables_of([(1, "2012-01-01", "2012-01-10")]))
    drawn = small.cohort({"drug": [7]})
    for concepts, message in [
        ([7], "pass concepts by domain"),
        ({"drugs": [7]}, "has the domain 'drugs'"),
        ({"drug": []}, "no concept of domain 'drug'"),
        ({"drug": ["7"]}, "whole numbers"),
        ({"condition": [7]}, "no table 'condition_occurrence'"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            small.cohort(concepts)
    for options, message in [
        ({"washout": -1}, "washout"),
        ({"gap": 1.5}, "gap"),
        ({"period": "2012"}, "pair"),
        ({"period": ("2013-01-01", "2012-01-01")}, "ends before it begins"),
        ({"period": (pd.Timestamp("2012", tz="UTC"), None)}, "time zone"),
    ]:
        with pytest.raises(ValueError, match=message):
            small.cohort({"drug": [7]}, **options)
    with pytest.raises(TypeError, match="`comparator` is of type DataFrame"):
        small.compare(drawn, drawn.table)
    empty = DrawnCohort(drawn.table[:0], drawn.attrition * 0)
    with pytest.raises(NothingToCompareError, match="no comparator is left"):
        small.compare(drawn, empty)
    table = cohort.table
    for persons, message in [
        (table.assign(id=table["id"] + 10**6), r"line\(s\) of persons that the database does"),
        (table.assign(index_date=pd.NaT), r"without an index_date"),
        (table.assign(index_date=table["index_date"].dt.tz_localize("UTC")), "a time zone"),
        (table.assign(index_date=1), "pass dates"),
        (table.drop(columns="index_date"), "no column 'index_date'"),
        (table.assign(id=table["id"] + 0.5), "integers"),
        (pd.concat([table, table]), "more than once"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            database.covariates(persons)
    with pytest.warns(UserWarning, match="no table 'condition_occurrence', 'procedure_occ"):
        small.covariates(drawn)
    with pytest.raises(ValueError, match="pairs of days"):
        database.covariates(cohort, windows=[(-30, 0, "count")])
    with pytest.raises(ValueError, match="`exposures` is empty"):
        small.eras([], {"drug": [7]})
    with pytest.raises(ValueError, match="no column 'id'"):
        small.events({"drug": [7]}, table.drop(columns="id"))
    with pytest.raises(ValueError, match="`score` is made of conditions"):
        database.covariates(cohort, domains=["drug"], score=SCORE)


@pytest.mark.thorough
def test_simulated_parts_share_the_truth(tmp_path, monkeypatch):
    monkeypatch.setattr(simulator, "PART", 2_000)
    kept = simulate_omop(6_000, 150_000, n_codes=60, random_state=3)
    written = simulate_omop(6_000, 150_000, tmp_path / "cdm", n_codes=60, random_state=3)
    for name, table in kept.tables.items():
        again = pd.read_parquet(written.tables[name])
        pd.testing.assert_frame_equal(again, table, check_dtype=False)
    assert kept.tables["person"]["person_id"].tolist() == list(range(1001, 7001))
    assert len(list((tmp_path / "cdm" / "person").iterdir())) == 3
    assert kept.outcomes["is_control"].sum() == 30
    with pytest.raises(FileExistsError, match="is not empty"):
        simulate_omop(100, folder=tmp_path / "cdm")
    claims = simulate_claims(300, 60, random_state=0)
    pd.testing.assert_series_equal(kept.outcomes["log_hazard_ratio"], claims.log_hazard_ratios)
    # what confounds goes with the treatment in the same way in every part
    database = Database(written.tables)
    cohort = database.compare(*(database.cohort({"drug": [drug]}) for drug in kept.drugs))
    data = database.covariates(cohort, exclude=kept.drugs, windows={"a year": (-365, -1)})
    columns = [np.flatnonzero(data.covariate_ids // 1_000 == id)[0] for id in kept.confounders]
    X = data.X.to_scipy()[:, columns].toarray()
    parts = np.array_split(np.arange(6_000), 3)
    found = [np.corrcoef(X[rows].T, cohort.is_treated[rows])[-1, :-1] for rows in parts]
    assert np.corrcoef(found)[np.triu_indices(3, 1)].min() > 0.5
