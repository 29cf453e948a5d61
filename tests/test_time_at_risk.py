"""Time at risk, rates and detectable effects: CohortMethod and R, every day, bad input."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from oracles.cases import load

from sksurvgpu.cohort import (
    Cohort,
    incidence_rate,
    minimal_detectable_effect,
    observe,
    time_at_risk,
)

PUBLISHED = load("time_at_risk.json")
DAY = np.timedelta64(1, "D")


def published_tables():
    cohorts = pd.DataFrame(PUBLISHED["cohorts"])
    index = cohorts["start"]
    persons = pd.DataFrame(
        {
            "number": cohorts["rowId"],
            "person": cohorts["personSeqId"],
            "treatment": cohorts["treatment"],
            "index_date": index,
            "observation_start": index - cohorts["daysFromObsStart"],
            "observation_end": index + cohorts["daysToObsEnd"],
            "exposure_end": index + cohorts["daysToCohortEnd"],
        }
    )
    events = pd.DataFrame(PUBLISHED["events"])
    return persons, events.rename(columns={"personSeqId": "person", "day": "date"})


def follow(options):
    """Arguments for the options of createStudyPopulation."""
    ends = {"cohort end": "exposure_end", "cohort start": None}
    lookback = options["priorOutcomeLookback"]
    return {
        "risk_start": options["riskWindowStart"],
        "risk_start_from": ends[options["startAnchor"]],
        "risk_end": options["riskWindowEnd"],
        "risk_end_from": ends[options["endAnchor"]],
        "washout": lookback if options["removeSubjectsWithPriorOutcome"] else None,
        "minimum": options["minDaysAtRisk"],
        "until_next": options["censorAtNewRiskWindow"],
    }


@pytest.mark.parametrize("case", PUBLISHED["cases"], ids=lambda case: case["name"])
@pytest.mark.parametrize("as_dates", [False, True])
def test_equals_cohort_method(case, as_dates):
    persons, events = published_tables()
    if as_dates:
        for table, columns in ((persons, persons.columns[3:]), (events, ["date"])):
            for column in columns:
                days = table[column].to_numpy().astype("datetime64[D]")
                table[column] = days.astype("datetime64[us]")
    found = time_at_risk(persons, events, id="number", subject="person", **follow(case["options"]))
    assert found.table["number"].tolist() == case["row"]
    assert found.table["event"].tolist() == case["event"]
    assert found.table["time"].tolist() == case["time"]
    effect = minimal_detectable_effect(found.table["event"], found.table["treatment"])
    assert effect["hazard_ratio"] == pytest.approx(case["effect"], rel=1e-12)
    assert effect["standard_error"] == pytest.approx(case["standard_error"], rel=1e-12)


def one_by_one(person, events, start, end, washout):
    """What happens to one person, day by day: (step that it leaves at, event, time)."""
    if not person["observation_start"] <= person["index_date"] <= person["observation_end"]:
        return 0, None, None
    days = range(-1000, 1000)
    low, high = person["index_date"] + start, min(person["index_date"] + end, person["death"])
    before = [d for d in days if person["index_date"] - washout < d < low]
    if any(d in events for d in before):
        return 1, None, None
    time = 0
    for day in days:
        if low <= day <= min(high, person["observation_end"]):
            time += 1
            if day in events or day == person["death"]:
                return None, 1 if day in events else 2, time
    return (2, None, None) if time == 0 else (None, 0, time)


@pytest.mark.thorough
def test_every_day_is_counted():
    rng = np.random.default_rng(0)
    n = 300
    index = rng.integers(0, 100, n)
    persons = pd.DataFrame({"id": rng.permutation(n), "index_date": index})
    persons["observation_start"] = index - rng.integers(-2, 60, n)
    persons["observation_end"] = index + rng.integers(-2, 60, n)
    death = np.where(rng.random(n) < 0.3, index + rng.integers(0, 70, n), 2_000)
    death = np.where(death > persons["observation_end"], 2_000, death)
    persons["death_date"] = pd.array(np.where(death < 2_000, death, 0), "Int64")
    persons.loc[death == 2_000, "death_date"] = pd.NA
    strokes = pd.DataFrame(
        {"id": rng.integers(0, n + 50, 200), "date": rng.integers(-30, 160, 200)}
    )
    found = time_at_risk(
        persons,
        strokes,
        treatment=None,
        risk_start=2,
        risk_end=30,
        washout=20,
        competing="death_date",
        censor="death_date",
    )
    assert found.table["time"].dtype == np.int64
    steps = found.attrition.index.tolist()
    table = found.table.set_index("id")
    left_out = found.left_out.set_index("id")["step"]
    kinds = set()
    for i, person in persons.assign(death=death).iterrows():
        own = set(strokes.loc[strokes["id"] == person["id"], "date"])
        step, event, time = one_by_one(person, own, 2, 30, 20)
        kinds.add((step, event))
        if step is None:
            assert tuple(table.loc[person["id"], ["event", "time"]]) == (event, time), i
        else:
            assert left_out[person["id"]] == steps[step + 1]
    assert len(kinds) == 6
    assert found.attrition["rows"].iloc[-1] + len(left_out) == n
    np.testing.assert_array_equal(persons["id"].to_numpy()[found.rows], found.table["id"])


def small():
    """Six persons, one for each thing that can happen."""
    start = np.datetime64("2020-01-01")
    persons = pd.DataFrame({"id": list("abcdef"), "treatment": [1, 0] * 3, "index_date": start})
    persons["observation_start"] = start - 100 * DAY
    persons["observation_end"] = start + np.array([50, 50, -1, 50, 0, 50]) * DAY
    persons["exposure_end"] = start + np.array([9, 60, 9, 9, 0, 9]) * DAY
    persons["left"] = pd.to_datetime([None, "2020-01-04", None, None, None, None])
    days = np.array([0, 10, 3, 20, -5, 0, 9]) * DAY + start
    return persons, pd.DataFrame(
        {"id": list("aabbdef"), "date": days, "kind": [1, 1, 2, 1, 1, 2, 1]}
    )


def test_windows_and_censoring():
    persons, events = small()
    whole = time_at_risk(persons, events).table.set_index("id")
    assert whole["time"].to_dict() == {"a": 1, "b": 4, "e": 1, "f": 10}
    assert whole["event"].all() and whole["event"].dtype == bool
    exposed = time_at_risk(
        persons, events, risk_start=1, risk_end_from="exposure_end", washout=None
    )
    assert exposed.table.set_index("id")["time"].to_dict() == {"a": 9, "b": 3, "d": 9, "f": 9}
    assert exposed.table["event"].tolist() == [False, True, False, True]
    assert exposed.left_out.set_index("id")["step"].to_dict() == {
        "c": "index date in observation",
        "e": "1 day at risk or more",
    }
    later = time_at_risk(persons, events, censor="left", event="kind", risk_start=1, washout=None)
    assert later.table.set_index("id")["time"].to_dict() == {"a": 10, "b": 3, "d": 50, "f": 9}
    assert later.table.set_index("id")["event"].to_dict() == {"a": 1, "b": 2, "d": 0, "f": 1}
    tight = time_at_risk(persons, events, minimum=51)
    assert tight.attrition.index[-1] == "51 days at risk or more"
    assert tight.table["id"].tolist() == ["a", "b", "f"]


def test_kinds_on_one_day_and_empty_tables():
    persons, events = small()
    twice = pd.concat([events, events.assign(kind=3 - events["kind"])])
    found = time_at_risk(persons, twice, event="kind").table.set_index("id")
    assert (found["event"] == 1).all()
    none = time_at_risk(persons, events.iloc[:0])
    assert not none.table["event"].any() and none.table["time"].tolist() == [51, 51, 51, 1, 51]
    nobody = time_at_risk(persons, events, minimum=1000)
    assert len(nobody.table) == 0 and {"event", "time"} <= {*nobody.table.columns}


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA, pd.NaT, "a stream"])
def test_columns_and_streams_without_an_entry(nothing):
    """... of whatever type, as drivers of databases give them."""
    persons, events = small()
    expected = time_at_risk(persons, events.iloc[:0]).table["time"].tolist()
    given = pa.Table.from_pandas(events)[:0].to_reader()
    is_stream = isinstance(nothing, str)
    if not is_stream:
        persons["left"], given = nothing, events.iloc[:0].astype(object)
    options = {} if is_stream else {"censor": "left"}
    assert time_at_risk(persons, given, **options).table["time"].tolist() == expected


@pytest.mark.parametrize("form", ["polars", "arrow", "python dates", "with hours", "parquet"])
def test_tables_and_dates_of_other_kinds(form, tmp_path):
    persons, events = small()
    expected = time_at_risk(persons, events, censor="left").table[["event", "time"]]
    dates = [c for c in persons.columns[2:] if c != "left"]
    if form == "polars":
        persons, events = (pl.from_pandas(t) for t in (persons, events))
        events = events.with_columns(pl.col("date").cast(pl.Date))
    elif form == "arrow":
        persons, events = (pa.Table.from_pandas(t) for t in (persons, events))
    elif form == "parquet":
        events.to_parquet(tmp_path / "events.parquet")
        events = tmp_path / "events.parquet"
    elif form == "python dates":
        persons[dates] = persons[dates].apply(lambda c: c.dt.date.astype(object))
        events["date"] = [datetime.date(d.year, d.month, d.day) for d in events["date"]]
    else:
        persons[dates] += pd.Timedelta(hours=7)
        events["date"] += pd.Timedelta(hours=23)
    found = time_at_risk(persons, events, censor="left").table[["event", "time"]]
    pd.testing.assert_frame_equal(found, expected)


@pytest.mark.parametrize("form", ["pandas", "polars", "file"])
def test_the_remedy_of_time_zones_fits_the_source(form, tmp_path):
    persons, events = small()
    expected = time_at_risk(persons, events).table
    events["date"] = events["date"].dt.tz_localize("America/New_York")
    table = pl.from_pandas(events)
    table.write_parquet(tmp_path / "events.parquet")
    given = {"pandas": events, "polars": table, "file": tmp_path / "events.parquet"}[form]
    with pytest.raises(TypeError) as caught:
        time_at_risk(persons, given)
    remedies = ["series.dt.tz_localize(None)", "polars.col(name).dt.replace_time_zone(None)"]
    remedies.append("polars.scan_parquet(path)")
    assert all(remedy in str(caught.value) for remedy in remedies)
    if form == "pandas":
        given["date"] = given["date"].dt.tz_localize(None)
    else:
        lazy = pl.scan_parquet(given) if form == "file" else given
        given = lazy.with_columns(pl.col("date").dt.replace_time_zone(None))
    pd.testing.assert_frame_equal(time_at_risk(persons, given).table, expected)


def test_identifiers_of_others_only_are_told():
    persons, events = small()
    with pytest.warns(UserWarning, match="like 'patient-a', where these are like 'a'") as caught:
        time_at_risk(persons, events.assign(id="patient-" + events["id"]))
    assert caught[0].filename == __file__


def test_persons_that_are_missing_are_refused():
    persons, events = small()
    persons["who"] = persons["id"].where(persons["id"] != "b")
    for step in (time_at_risk, observe):
        with pytest.raises(ValueError, match=r"`subject` names column 'who', .* missing in 1 row"):
            step(
                persons,
                events.assign(who=events["id"]),
                subject="who",
                **({} if step is time_at_risk else {"start": "date", "end": "date"}),
            )


def test_a_cohort_keeps_its_account():
    persons, events = small()
    cohort = Cohort.of(persons).keep(persons["id"] != "f", "not f")
    found = time_at_risk(cohort, events)
    assert found.attrition.index[:2].tolist() == ["given", "not f"]
    assert found.attrition.loc["index date in observation", "left_out"] == 1
    assert found.left_out["id"].tolist() == ["f", "c", "d"]


@pytest.mark.parametrize("dates", [False, True], ids=["numbers", "dates"])
def test_the_period_with_the_index_date_is_found(dates):
    rng = np.random.default_rng(2)
    cuts = np.sort(rng.permuted(np.tile(np.arange(400), (60, 1)), axis=1)[:, :6], axis=1)
    periods = pd.DataFrame({"id": np.repeat(np.arange(60), 3)})
    periods["observation_start"], periods["observation_end"] = (
        cuts[:, ::2].ravel(),
        cuts[:, 1::2].ravel(),
    )
    persons = pd.DataFrame({"number": range(80, 180), "id": rng.integers(0, 66, 100)})
    persons = persons.assign(
        treatment=rng.integers(0, 2, 100), index_date=rng.integers(0, 400, 100)
    )
    given, lines = persons.copy(), periods.sample(frac=1.0, random_state=0)
    if dates:
        for table in (given, lines):
            for column in table.columns.intersection(["index_date", *periods.columns[1:]]):
                table[column] = pd.Timestamp("2020-01-01") + pd.to_timedelta(table[column], "D")
    found = observe(given, lines, id="number", subject="id")
    expected = {}
    for who in persons.itertuples():
        for own in periods[periods["id"] == who.id].itertuples():
            if own.observation_start <= who.index_date <= own.observation_end:
                expected[who.number] = own.Index
    assert 20 < len(expected) < 80
    assert found.table["number"].tolist() == [*expected]
    assert found.attrition.index[-1] == "index date in a period"
    columns = ["observation_start", "observation_end"]
    of_line = lines.loc[[*expected.values()], columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(found.table[columns].reset_index(drop=True), of_line)
    events = pd.DataFrame({"id": [], "date": lines["observation_end"][:0]}).astype({"id": int})
    at_risk = time_at_risk(found, events, subject="id")
    assert len(at_risk.table) == len(expected)


def test_persons_are_found_by_what_their_identifiers_are():
    persons, _ = small()
    persons["id"] = range(len(persons))
    periods = persons[["id", "observation_start", "observation_end"]]
    bare = persons.drop(columns=["observation_start", "observation_end"])
    found = observe(bare, periods).table["id"].tolist()
    kinds = ("category", "int64"), ("int64", "category"), ("int64", "float64")
    for own, others in (*kinds, ("object", "int64"), ("int64", "object")):
        again = observe(bare.astype({"id": own}), periods.astype({"id": others}))
        assert again.table["id"].tolist() == found != []
    decimals = periods.assign(id=periods["id"].map(Decimal))  # as databases have them
    assert observe(bare, decimals).table["id"].tolist() == found
    rounded = periods.astype({"id": float}).assign(id=periods["id"] + 2.0**53)
    with pytest.raises(
        ValueError, match=r"`periods`\['id'\] has .*; identifiers are integers that"
    ):
        observe(bare, rounded)


def test_nobody_is_left_to_be_at_risk():
    persons, events = small()
    nobody = Cohort.of(persons).keep(np.zeros(len(persons), bool), "nobody")
    assert time_at_risk(nobody, events).attrition["rows"].iloc[-1] == 0


def test_periods_of_a_day_have_one_column():
    persons = pd.DataFrame({"id": [1, 2], "treatment": [1, 0], "index_date": [5, 5]})
    days = pd.DataFrame({"id": [1, 2, 1], "day": [5, 6, 7]})
    found = observe(persons, days, start="day", end="day").table
    assert found[["id", "day"]].to_numpy().tolist() == [[1, 5]]


def test_periods_that_cannot_be():
    persons, _ = small()
    periods = persons[["id", "observation_start", "observation_end"]]
    with pytest.warns(UserWarning, match="takes the place of") as caught:
        again = observe(persons, pl.from_pandas(periods))
    assert [each.filename for each in caught] == [__file__] * 2
    assert (
        again.table["id"].tolist()
        == Cohort.of(persons)
        .keep(
            persons["index_date"].between(periods["observation_start"], periods["observation_end"]),
            "in",
        )
        .table["id"]
        .tolist()
    )
    bare = persons.drop(columns=["observation_start", "observation_end"])
    with pytest.raises(
        ValueError, match="`periods` has 2 periods of a with the index date; a person"
    ):
        observe(bare, pd.concat([periods, periods[:1]]))
    with pytest.raises(ValueError, match=r"`periods`\['observation_end'\] is missing in 1 line"):
        observe(
            bare,
            periods.assign(observation_end=periods["observation_end"].where(periods["id"] != "b")),
        )
    with pytest.raises(ValueError, match=r"`periods` has no column 'observation_end'.* by end="):
        observe(bare, periods.drop(columns="observation_end"))
    with pytest.warns(
        UserWarning, match="no line of `periods` is of anybody in the cohort"
    ) as caught:
        observe(bare, periods.assign(id="patient " + periods["id"]))
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match=r"more than once; .* sksurvgpu\.cohort\.observe finds"):
        time_at_risk(pd.concat([persons, persons[:1]]), periods)


# R: poisson.test(c(11, 18), c(800, 3011)); poisson.test(11, 800)$conf.int
def test_rates_equal_poisson_test():
    event = np.repeat([1, 0, 1, 0], [18, 30, 11, 20])
    time = np.repeat([10.0, 2831 / 30, 40.0, 18.0], [18, 30, 11, 20])
    rates = incidence_rate(event, time, groups=np.repeat([0, 1], [48, 31]), per=1000)
    assert rates.table.loc[1, ["lower", "upper"]].tolist() == pytest.approx(
        [6.86395, 24.60255], abs=1e-5
    )
    ratio = rates.ratios().loc[1]
    assert ratio.tolist() == pytest.approx([2.3000694, 0.98168118, 5.14232825, 0.037053], abs=1e-6)
    again = rates.ratios(reference=1).loc[0]
    assert again["lower"] == pytest.approx(1.0 / ratio["upper"], rel=1e-9)
    difference = rates.differences().loc[1]
    assert difference["difference"] == pytest.approx(1000 * (11 / 800 - 18 / 3011))
    error = 1000 * np.sqrt(11 / 800**2 + 18 / 3011**2)
    assert difference["standard_error"] == pytest.approx(error)


def test_rates_without_events():
    rates = incidence_rate([0, 0, 1], [5.0, 5.0, 1.0], groups=["a", "a", "b"])
    assert rates.table.loc["a", ["rate", "lower"]].tolist() == [0.0, 0.0]
    assert rates.table.loc["a", "upper"] == pytest.approx(-np.log(0.025) / 10)
    assert rates.ratios().loc["b", "ratio"] == np.inf
    none = incidence_rate([0, 0], [5.0, 5.0], groups=["a", "b"]).ratios().loc["b"]
    assert np.isnan(none["ratio"]) and none[["lower", "upper"]].tolist() == [0.0, np.inf]


@pytest.mark.parametrize("case", PUBLISHED["effects"], ids=lambda case: str(case["share"]))
def test_detectable_effects_equal_cohort_method(case):
    two = minimal_detectable_effect(int(case["events"]), case["share"])
    one = minimal_detectable_effect(
        int(case["events"]), case["share"], level=0.9, power=0.9, two_sided=False
    )
    assert two["hazard_ratio"] == pytest.approx(case["two_sided"], rel=1e-12)
    assert one["hazard_ratio"] == pytest.approx(case["one_sided"], rel=1e-12)
    assert minimal_detectable_effect(0, 0.5)["hazard_ratio"] == np.inf


def broken(change, events=None, **options):
    """A call with changed tables."""

    def call():
        persons, own = small()
        time_at_risk(change(persons), own if events is None else events(own), **options)

    return call


def same(table):
    return table


WRONG = {
    "index": (
        broken(lambda p: p.rename(columns={"index_date": "begin"})),
        ValueError,
        "no column 'index_date'; name one of its columns",
    ),
    "no start": (
        broken(lambda p: p.drop(columns="observation_start")),
        ValueError,
        "by start=, or pass start=None if it does not matter.",
    ),
    "missing anchor": (
        broken(lambda p: p.assign(exposure_end=pd.NaT), risk_end_from="exposure_end"),
        ValueError,
        "`risk_end_from` names column 'exposure_end', which is missing in 6 row(s)",
    ),
    "text": (
        broken(lambda p: p.assign(index_date="2020-01-01")),
        TypeError,
        "'index_date' has dtype",
    ),
    "kinds of day": (
        broken(same, lambda e: e.assign(date=3)),
        TypeError,
        "`outcomes`['date'] has numbers, columns before it have dates",
    ),
    "missing date": (
        broken(same, lambda e: e.assign(date=e["date"].where(e["id"] != "a"))),
        ValueError,
        "`outcomes`['date'] is missing in 2 line(s) of persons of the cohort",
    ),
    "ids": (
        broken(same, lambda e: e.assign(id=1)),
        TypeError,
        "`outcomes`['id'] has numbers, the cohort has text",
    ),
    "subject": (
        broken(lambda p: p.assign(person=p["id"]), subject="person"),
        ValueError,
        "no column 'person'; name one of its columns ('id', 'date', 'kind') by subject=.",
    ),
    "codes": (
        broken(same, lambda e: e.assign(kind=0), event="kind"),
        ValueError,
        "`outcomes`['kind'] is 0 in 7 line(s)",
    ),
    "no date": (
        broken(same, lambda e: e.drop(columns="date")),
        ValueError,
        "`outcomes` has no column 'date'",
    ),
    "risk_start": (
        broken(same, risk_start=0.5),
        ValueError,
        "`risk_start` is 0.5, must be a whole",
    ),
    "washout": (broken(same, washout=-1), ValueError, "`washout` is -1, must be a number of days"),
    "until_next": (broken(same, until_next="no"), TypeError, "`until_next` is 'no', must be"),
    "minimum": (broken(same, minimum=0), ValueError, "`minimum` is 0, must be a whole number of"),
    "repeated": (
        broken(lambda p: p.assign(id="a")),
        ValueError,
        "`id` has a more than once",
    ),
    "rate of codes": (
        lambda: incidence_rate([0, 2], [1, 1]),
        ValueError,
        "of several kinds of event pass those of one, code == 1.",
    ),
    "rate of no time": (
        lambda: incidence_rate([0, 1], [0, 1], groups=["a", "b"]),
        ValueError,
        "`time` is 0 in all rows of group 'a'",
    ),
    "per": (lambda: incidence_rate([0], [1], per=0), ValueError, "`per` is 0, must be a positive"),
    "reference": (
        lambda: incidence_rate([0, 1], [1, 1], groups=[0, 1]).ratios(2),
        ValueError,
        "`reference` is 2; the groups are [0, 1]",
    ),
    "share": (
        lambda: minimal_detectable_effect(10, 1.0),
        ValueError,
        "`treatment` is 1.0; pass the share of the treated",
    ),
    "one arm": (
        lambda: minimal_detectable_effect([1, 0], [1, 1]),
        ValueError,
        "`treatment` is 1 in every row of 2",
    ),
    "events": (lambda: minimal_detectable_effect(1.5, 0.5), ValueError, "`event` is 1.5; pass"),
    "power": (lambda: minimal_detectable_effect(9, 0.5, power=80), ValueError, "`power` is 80"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input(name):
    call, error, message = WRONG[name]
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
