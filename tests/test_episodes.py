"""Rows at risk against R's tmerge and survSplit, and against a look at every moment."""

import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sksurvgpu import CoxLassoCCD, Design, episodes
from sksurvgpu.cohort import RiskWindow, eras_to_intervals, time_at_risk

from .conftest import PUBLISHED

PERSONS = pd.DataFrame({"id": [7, 3], "time": [10.0, 6.0], "event": [1, 0], "age": [50, 60]})
LINES = pd.DataFrame(
    {
        "id": [7, 3, 7, 7],
        "covariate_id": ["b", "a", "a", "a"],
        "start": [2.0, -1.0, 3.0, 8.0],
        "stop": [4.0, 2.0, 5.0, 20.0],
        "value": [2.0, 1.0, 1.0, 1.0],
    }
)
DAY = pd.Timedelta(days=1)


@pytest.fixture(scope="module")
def published():
    """Rows of R's survival: see oracles/published/make_episodes.R."""
    text = (PUBLISHED / "episodes.json").read_text(encoding="utf-8")
    return {
        name: {part: pd.DataFrame(table) for part, table in case.items()}
        for name, case in json.loads(text)["cases"].items()
    }


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("jasa", {"stop": None}),
        ("pbc", {"stop": None}),
        ("cgd", {"stop": None, "overlaps": "sum"}),
        ("veteran", {"cuts": [60, 120]}),
    ],
)
def test_rows_are_those_of_r(published, name, options):
    case = published[name]
    data = episodes(case["persons"], case.get("lines"), **options)
    rows = data.to_frame()
    expected = case["rows"][rows.columns].astype(rows.dtypes.to_dict())
    pd.testing.assert_frame_equal(rows, expected)
    assert data.report.n_events == expected["event"].sum()


def test_a_fit_on_rows_is_that_of_r(published):
    case = published["jasa"]
    data = episodes(case["persons"], case["lines"], stop=None)
    model = CoxLassoCCD(alpha=0, ties="efron", tol=1e-10).fit(data.X, data.y)
    assert model.coef_[0] == pytest.approx(case["coef"].iloc[0, 0], rel=1e-7)


JOINS = {
    "last": lambda values: values[-1],
    "max": max,
    "sum": lambda values: sum(values),
}


def seen_at(lines, moment, policy, default):
    """Value at a moment of the lines of one person and covariate, sorted by start."""
    values = []
    starts = sorted({line.start for line in lines})
    for line in lines:
        stop = line.stop
        if np.isnan(stop):
            later = [start for start in starts if start > line.start]
            stop = later[0] if later and policy == "last" else np.inf
        if line.start < moment <= stop and line.start < stop:
            values.append(line.value)
    return JOINS[policy](values) if values else default


def draw(seed, n_lines=60):
    rng = np.random.default_rng(seed)
    ids = np.array(["p", "q", "r", "s"])
    first = rng.integers(0, 4, 4)
    middle = first + rng.integers(1, 5, 4)
    last = middle + rng.integers(1, 9, 4)
    # Two periods for the first two persons, with or without a gap in between.
    starts = np.concatenate([first, middle[:2] + np.arange(2)])
    times = np.concatenate([middle[:2], last[2:], last[:2] + 1])
    persons = pd.DataFrame({"id": ids[[0, 1, 2, 3, 0, 1]], "start": starts, "time": times})
    persons["event"] = rng.random(6) < 0.5
    start = rng.integers(-3, 14, n_lines)
    stop = (start + rng.integers(0, 6, n_lines)).astype(float)
    stop[rng.random(n_lines) < 0.3] = np.nan
    lines = pd.DataFrame({"id": rng.choice(ids, n_lines), "start": start, "stop": stop})
    lines["covariate_id"] = rng.integers(0, 3, n_lines)
    lines["value"] = rng.integers(-1, 3, n_lines)
    return persons, lines


@pytest.mark.parametrize("policy", JOINS)
@pytest.mark.parametrize("seed", range(4))
def test_every_moment_has_its_value(policy, seed):
    persons, lines = draw(seed, 60 if seed else 800)  # more than are sorted by insertion
    default = {0: 0.5}
    with pytest.warns(UserWarning, match=r"line\(s\) that stop where they start, and are left out"):
        data = episodes(persons, lines, overlaps=policy, default=default, cuts=[5.5, 5.5, 2.0])
    rows = data.to_frame()
    in_order = lines.sort_values("start", kind="stable").groupby(["id", "covariate_id"])
    told = {key: [*own.itertuples()] for key, own in in_order}
    for row in rows.itertuples(index=False):
        for covariate in range(3):
            own = told.get((row.id, covariate), [])
            value = seen_at(own, row.start + 0.25, policy, default.get(covariate, 0.0))
            assert row[4 + covariate] == value
    check_rows(rows, persons, data)


@pytest.mark.parametrize("dates", [False, True], ids=["numbers", "dates"])
def test_ends_may_be_the_last_days(dates):
    """Every day has its value, and as many days are exposed as in a case series."""
    rng = np.random.default_rng(5)
    periods = pd.DataFrame({"id": range(20), "start": rng.integers(0, 9, 20)})
    periods["end"] = periods["start"] + rng.integers(0, 30, 20)  # the first day may be the last one
    eras = pd.DataFrame({"id": rng.integers(0, 20, 60), "start": rng.integers(-3, 40, 60)})
    eras["end"] = eras["start"] + rng.choice([0, 0, 1, 5], 60)
    first = periods["start"].to_numpy() if dates else np.zeros(20, int)

    def shown(days):
        return pd.Timestamp("2021-02-20 14:00") + pd.to_timedelta(days, "D") if dates else days

    followed, lines = (
        pd.DataFrame({"id": table["id"], "start": shown(table["start"]), end: shown(table["end"])})
        for table, end in ((periods, "time"), (eras, "stop"))
    )
    followed["event"] = True
    data = episodes(followed, {"drug": lines}, overlaps="max", ends="inclusive")
    rows = data.to_frame()
    assert data.report.n_empty == 0 and rows["event"].sum() == 20
    for row in rows.itertuples(index=False):
        for day in range(int(row.start), int(row.time)):
            day += first[row.id]
            own = eras[(eras["id"] == row.id) & (eras["start"] <= day) & (day <= eras["end"])]
            assert row.drug == (len(own) > 0)
    days = rows["time"] - rows["start"]
    assert (
        days.groupby(rows["id"]).sum().tolist() == (periods["end"] - periods["start"] + 1).tolist()
    )
    series = eras_to_intervals(
        periods,
        eras.assign(era="drug"),
        periods[["id"]].assign(day=periods["end"]),
        windows={"drug": RiskWindow()},
        end_of_observation=1,
    )
    varies = rows["id"].isin(series.y["subject"])
    exposed = series.columns.loc["drug", "days"]
    assert days[varies & (rows["drug"] == 1)].sum() == exposed > 20


def test_days_are_those_of_time_at_risk():
    persons = pd.DataFrame({"id": [1, 2], "index_date": [100, 200], "observation_end": [119, 204]})
    events = pd.DataFrame({"id": [1], "date": [109]})
    table = time_at_risk(persons, events, treatment=None, start=None).table
    assert table["time"].tolist() == [10, 5]
    drug = pd.DataFrame({"id": [1, 2], "start": [109, 190], "stop": [109, 200]})
    last = table["index_date"] + table["time"] - 1
    followed = table.assign(start=table["index_date"], time=last)
    rows = episodes(followed, {"drug": drug}, ends="inclusive")
    assert rows.to_frame().to_numpy().tolist() == [
        [1, 100, 109, False, 0],
        [1, 109, 110, True, 1],  # the event is on the only day of the drug
        [2, 200, 201, False, 1],
        [2, 201, 205, False, 0],
    ]


def test_a_line_may_begin_later_on_its_only_day_than_it_ends():
    """As where starts are moments, and ends are dates."""
    first = pd.Timestamp("2024-03-01")
    drug = pd.DataFrame({"id": [1], "start": [first + pd.Timedelta("9h")], "stop": [first]})
    person = pd.DataFrame({"id": [1], "start": [first], "time": [first + pd.Timedelta("1D")]})
    person["event"] = 1
    rows = episodes(person, {"drug": drug}, ends="inclusive")
    assert rows.to_frame().iloc[:, 1:].to_numpy().tolist() == [[0, 1, False, 1], [1, 2, True, 0]]
    with pytest.raises(ValueError, match="ends before it starts: 2024-03-01T09"):
        episodes(person, {"drug": drug})
    eras = drug.rename(columns={"stop": "end"}).assign(era="drug")
    periods = pd.DataFrame({"id": [1], "start": [first], "end": [first + pd.Timedelta("2D")]})
    events = pd.DataFrame({"id": [1], "day": [first]})
    series = eras_to_intervals(periods, eras, events, windows=RiskWindow())
    assert series.columns.loc["exposed"].tolist() == [1, 1, 1]


def test_ends_that_are_not_days_are_refused():
    half = LINES.assign(stop=LINES["stop"] + 0.5)
    with pytest.raises(ValueError, match=r"`covariates`\['stop'\] has 4.5; days are whole"):
        episodes(PERSONS, half, ends="inclusive")
    with pytest.raises(ValueError, match=r"`outcomes`\['time'\] has 6.5; days are whole"):
        episodes(PERSONS.assign(time=[10, 6.5]), LINES, ends="inclusive")
    with pytest.raises(ValueError, match=r"0 to -1 for 7, where 'start' must not be after 'time'"):
        episodes(PERSONS.assign(time=[-1, 6]), LINES, ends="inclusive")
    both = pd.concat([LINES, LINES[2:3].assign(start=5.0, stop=6.0)])
    assert episodes(PERSONS, both).report.n_overlaps == 0
    with pytest.raises(ValueError, match="covariate a of 7 that overlap, 3 to 5 and 5 to 6; pass"):
        episodes(PERSONS, both, ends="inclusive")


def test_tables_may_have_values_of_other_names():
    dose = pd.DataFrame({"id": [7], "start": [2.0], "stop": [4.0], "mg": [3.0]})
    flag = dose.drop(columns="mg")
    tables = {"dose": dose, "score": dose.rename(columns={"mg": "points"}), "flag": flag}
    rows = episodes(PERSONS, tables, value={"dose": "mg", "score": "points"}).to_frame()
    assert rows[["dose", "score", "flag"]].loc[1].tolist() == [3.0, 3.0, 1.0]
    rows = episodes(PERSONS, tables, value={"dose": None, "score": "points"}).to_frame()
    assert rows[["dose", "score", "flag"]].loc[1].tolist() == [1.0, 3.0, 1.0]
    with pytest.raises(
        ValueError, match=r"`covariates\['score'\]` has no column 'value' .*mapping"
    ):
        episodes(PERSONS, tables, value={"dose": "mg"})
    for given, named in ((tables, "dosis"), (LINES, "a")):
        with pytest.raises(ValueError, match=f"`value` names '{named}', which is no table of `cov"):
            episodes(PERSONS, given, value={named: "mg"})


def check_rows(rows, persons, data):
    """Rows of a line follow each other from its start to its time; the event is on the last."""
    for line, own in rows.groupby(data.line, sort=False):
        assert own["start"].iloc[0] == persons["start"][line]
        assert own["time"].iloc[-1] == persons["time"][line]
        assert (own["start"].to_numpy()[1:] == own["time"].to_numpy()[:-1]).all()
        assert (own["start"] < own["time"]).all()
        assert not own["event"].iloc[:-1].any()
        assert own["event"].iloc[-1] == persons["event"][line]
    assert (np.diff(data.line) >= 0).all()


def test_report_counts_what_became_of_lines():
    more = pd.DataFrame(
        {
            "id": [7, 7, 9, 3, 3, 7],
            "covariate_id": ["a", "a", "a", "a", None, "b"],
            "start": [4.0, 11.0, 0.0, 3.0, 1.0, 9.0],
            "stop": [6.0, 12.0, 1.0, 3.0, 2.0, np.nan],
            "value": [1.0, 1.0, 1.0, 1.0, 1.0, 0.0],
        }
    )
    lines = pd.concat([LINES, more], ignore_index=True)
    with pytest.warns(UserWarning, match=r"has 1 line\(s\) that stop .*; pass ends='inclusive'"):
        data = episodes(PERSONS, lines, overlaps="max", missing="drop", unknown="ignore")
    report = data.report
    assert report.n_lines == 10
    assert (report.n_missing, report.n_unknown, report.n_empty) == (1, 1, 1)
    assert (report.n_outside, report.n_clipped, report.n_open) == (1, 2, 1)
    assert (report.n_overlaps, report.n_zeros) == (1, 1)
    assert report.n_rows_without == 3
    assert "1 lines left out: outside of follow-up" in repr(data)


def test_x_has_names_and_columns_of_the_outcomes():
    data = episodes(PERSONS, LINES, names={"a": "drug"}, with_columns=["age"])
    assert isinstance(data.X, Design)
    assert data.X.names.tolist() == ["drug", "b", "age"]
    assert data.report.n_unnamed == 1
    assert data.to_frame()["age"].tolist() == [50] * 6 + [60] * 2
    assert data.y["subject"].tolist() == [7] * 6 + [3] * 2
    assert pickle.loads(pickle.dumps(data)).report == data.report
    assert episodes(PERSONS, cuts=[1]).X is None
    assert episodes(PERSONS, cuts=[1], with_columns=["age"]).X.shape == (4, 1)


def test_tables_may_be_by_covariate_and_of_any_kind():
    whole = episodes(PERSONS, LINES).to_frame()
    tables = {
        "a": pl.from_pandas(LINES[LINES["covariate_id"] == "a"].drop(columns="covariate_id")),
        "b": iter([LINES[LINES["covariate_id"] == "b"]]),
    }
    pd.testing.assert_frame_equal(episodes(pl.from_pandas(PERSONS), tables).to_frame(), whole)
    shuffled = LINES.sample(frac=1.0, random_state=1)
    pd.testing.assert_frame_equal(episodes(PERSONS, shuffled).to_frame(), whole)


def test_dates_are_days_since_the_first_start():
    origin = pd.Series(pd.to_datetime(["2020-02-27", "2021-12-30"]))
    persons = PERSONS.assign(start=origin, time=origin + PERSONS["time"] * DAY)
    by_id = dict(zip(PERSONS["id"], origin, strict=True))
    lines = LINES.assign(
        start=LINES["id"].map(by_id) + LINES["start"] * DAY,
        stop=LINES["id"].map(by_id) + LINES["stop"] * DAY,
    )
    expected = episodes(PERSONS, LINES, cuts=[1]).to_frame()
    pd.testing.assert_frame_equal(episodes(persons, lines, cuts=[1]).to_frame(), expected)
    again = lines.loc[[0, 0]]
    with pytest.raises(ValueError, match=r"\(2020-02-29, 2020-03-02\] and \(2020-02-29, 2020"):
        episodes(persons, again)
    with pytest.raises(TypeError, match="`covariates` has numbers, times of `outcomes` are dates"):
        episodes(persons, LINES)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_days_of_a_time_zone_are_those_of_its_clocks(zone):
    first = pd.Series(pd.to_datetime(["2024-03-01", "2024-10-20"]))  # clocks change in between
    persons = PERSONS.assign(start=first, time=first + 30 * DAY)
    lines = LINES[:2].assign(id=[7, 3], start=first + 2 * DAY, stop=first + 20 * DAY)
    expected = episodes(persons, lines).to_frame()
    assert expected["time"].tolist() == [2, 20, 30] * 2
    times = ["start", "stop", "time"]
    there = [
        table.assign(**{t: table[t].dt.tz_localize(zone) for t in times if t in table})
        for table in (persons, lines)
    ]
    pd.testing.assert_frame_equal(episodes(*there).to_frame(), expected)
    pd.testing.assert_frame_equal(episodes(*map(pl.from_pandas, there)).to_frame(), expected)
    with pytest.raises(TypeError, match=f"`covariates` has dates, times of .* {zone}"):
        episodes(there[0], lines)
    objects = persons.assign(start=persons["start"].dt.date, time=persons["time"].dt.date)
    pd.testing.assert_frame_equal(episodes(objects, lines).to_frame(), expected)


def test_columns_may_be_named_as_those_of_the_rows():
    lines = LINES[:1].assign(covariate_id="time")
    data = episodes(PERSONS, lines, with_columns="age")
    assert data.X.names.tolist() == ["time", "age"]
    with pytest.raises(ValueError, match="named 'time', as a column of the table of rows is"):
        data.to_frame()


def test_lines_may_all_be_without_a_stop():
    expected = episodes(PERSONS, LINES.drop(columns="stop"), stop=None, overlaps="last")
    given = LINES.assign(stop=np.array([None] * len(LINES)))
    found = episodes(PERSONS, given, overlaps="last")
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame())


@pytest.mark.parametrize(
    ("persons", "lines", "options", "message"),
    [
        (
            PERSONS,
            pd.concat([LINES, LINES[2:3].assign(start=4.0)]),
            {},
            r"two lines of covariate a of 7 that overlap, \(3, 5\] and \(4, 5\]; pass overlaps=",
        ),
        (PERSONS, LINES.assign(stop=LINES["start"] - 1), {}, "ends before it starts: 2 to 1"),
        (PERSONS, LINES.assign(start=np.inf, stop=np.inf), {}, "infinite start"),
        (PERSONS, LINES.assign(value=np.inf), {}, "infinite value"),
        (PERSONS, LINES.assign(value=np.nan), {}, "no 'value' in line 0; pass missing='drop'"),
        (PERSONS, LINES.assign(id=9), {"unknown": "error"}, "4 line.s. whose person is not in"),
        (PERSONS, LINES.drop(columns="stop"), {}, "no column 'stop'.*pass stop=None"),
        (PERSONS, LINES.rename(columns={"value": "mg"}), {}, "no column 'value'.*'mg'"),
        (PERSONS, LINES.drop(columns="covariate_id"), {}, "by covariate_id=; or pass {name: table"),
        (PERSONS, LINES, {"overlaps": "first"}, "`overlaps` is 'first', must be one of 'error'"),
        (PERSONS, LINES, {"overlaps": {"z": "max"}}, "`overlaps` names 'z', which is no covariate"),
        (PERSONS, LINES.assign(covariate_id=4), {"default": {5: 1.0}}, "they are like 4"),
        (PERSONS, LINES, {"default": np.nan}, "`default` has 2 NaN"),
        (PERSONS, LINES, {"with_columns": ["sex"]}, "`with_columns` names 'sex'"),
        (PERSONS.assign(time=[0.0, 6.0]), LINES, {}, "has 0 to 0 for 7, .*ends='inclusive' if"),
        (PERSONS.assign(time=[np.nan, 6.0]), LINES, {}, r"`outcomes`\['time'\] has missing"),
        (PERSONS.assign(id=7), LINES, {}, r"overlapping lines of 7, \(0, 10\] and \(0, 6\]"),
        (PERSONS.assign(event=[2, 0]), LINES, {}, "is 2 in row 0, must be bool or 0/1"),
        (PERSONS.drop(columns="event"), LINES, {}, "no column 'event'.*by event="),
        (PERSONS[:0], LINES, {}, "`outcomes` has no rows"),
    ],
)
def test_what_cannot_be_is_refused(persons, lines, options, message):
    with pytest.raises(ValueError, match=message):
        episodes(persons, lines, **options)


def test_kinds_must_agree():
    with pytest.raises(TypeError, match="has strings, but identifiers of `outcomes` are integers"):
        episodes(PERSONS, LINES.assign(id="7"))
    with pytest.raises(TypeError, match="has dtype String; times are numbers or dates: convert"):
        episodes(PERSONS, LINES.assign(start="soon"))
    with pytest.raises(TypeError, match="has dtype String; pass numbers"):
        episodes(PERSONS, LINES.assign(value="much"))
    with pytest.warns(UserWarning, match="1 line.s. whose person is not in `outcomes`, e.g. 9"):
        episodes(PERSONS, LINES.assign(id=[7, 3, 7, 9]))


def test_overlaps_of_a_covariate_of_numbers_are_named():
    persons = pd.DataFrame({"id": [1, 2], "time": [10, 20], "event": [True, False]})
    lines = {"id": [1, 2, 2], "covariate_id": ["a", "b", "b"], "start": [2, 3, 4]}
    lines |= {"stop": [5, 9, 12], "value": [1.0, 2.0, 3.0]}
    with pytest.raises(ValueError, match=r"covariate b of 2 that overlap"):
        episodes(persons, pd.DataFrame(lines))
