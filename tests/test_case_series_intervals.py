"""Rows of case series against R's SelfControlledCaseSeries, and what they estimate against SCCS."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import CaseSeriesCCD, wald
from sksurvgpu.cohort import RiskWindow, case_crossover_windows, eras_to_intervals
from sksurvgpu.exceptions import NothingToCompareError

from .conftest import PUBLISHED

ORIGIN = pd.Timestamp("2000-01-01")
PERIODS = pd.DataFrame({"id": [5, 2, 8], "start": [0, 10, 5], "end": [99, 59, 20]})
ERAS = pd.DataFrame({"id": [5, 2, 5], "era": ["b", "a", "a"], "start": [20, 30, 60]})
ERAS["end"] = ERAS["start"] + 9
OUTCOMES = pd.DataFrame({"id": [5, 2, 5, 8], "day": [25, 5, 61, 7]})
BEFORE = {"start": -30, "end": -1, "end_anchor": "start"}


@pytest.fixture(scope="module")
def published():
    """Rows and estimates of two packages: see oracles/published/make_case_series.R."""
    return json.loads((PUBLISHED / "case_series.json").read_text(encoding="utf-8"))


def tables(published, name, *, dates=False):
    parts = {part: pd.DataFrame(table) for part, table in published["data"][name].items()}
    if dates:
        for table in parts.values():
            for label in {"start", "end", "birth", "day"} & {*table.columns}:
                table[label] = ORIGIN + pd.to_timedelta(table[label], unit="D")
    return parts["periods"], parts["eras"], parts["outcomes"]


def rows_of_r(case, names):
    """Rows of subjects, those with the same covariates joined, by the entries that are not 0."""
    entries = [{} for _ in case["rows"]["id"]]
    for row, covariate, value in zip(*case["entries"].values(), strict=True):
        if value and covariate in names:
            entries[row][names[covariate]] = round(value, 9)
    return joined(case["rows"], entries)


def joined(rows, entries):
    found = {}
    for id, length, count, own in zip(
        rows["id"], rows["length"], rows["count"], entries, strict=True
    ):
        key = id, frozenset(own.items())
        days, events = found.get(key, (0, 0))
        found[key] = days + length, events + count
    n_rows = Counter(id for id, _ in found)
    return {key: value for key, value in found.items() if n_rows[key[0]] > 1}


def rows_of_data(data):
    table = data.X.to_scipy().tocsr()
    entries = [
        {
            data.X.names[j]: round(float(value), 9)
            for j, value in zip(table.indices[low:high], table.data[low:high].tolist(), strict=True)
        }
        for low, high in zip(table.indptr, table.indptr[1:], strict=False)
    ]
    found = joined(
        {"id": data.y["subject"], **{f: data.y[f] for f in ("length", "count")}}, entries
    )
    assert len(found) == data.X.n_rows  # no two rows of a subject have the same covariates
    return found


CASES = {
    "itp": {"windows": {"mmr": RiskWindow(0, 42, end_anchor="start")}},
    "opv": {"windows": {"opv": RiskWindow(), "pre": RiskWindow(**BEFORE)}},
    "hib": {"windows": RiskWindow(by_era=True)},
    "windows": {
        "windows": {
            "": RiskWindow(by_era=True),
            "pre": RiskWindow(**BEFORE, eras="a"),
            "after": RiskWindow(1, 25, start_anchor="end", eras=["b"]),
            "first": RiskWindow(0, 20, eras="a", first_only=True),
            "long": RiskWindow(0, 400, end_anchor="start", eras="c"),
        }
    },
    "any": {"windows": {"any": RiskWindow(0, 5)}, "naive": 200, "first_outcome_only": True},
    "splines": {"windows": {"any": RiskWindow()}, "age": 5, "season": 5, "birth": "birth"},
    "control": {
        "windows": {"any": RiskWindow()},
        "control": RiskWindow(**BEFORE | {"start": -40}),
        "end_of_observation": 0,
    },
}


@pytest.mark.parametrize("dates", [False, True], ids=["numbers", "dates"])
@pytest.mark.parametrize("name", CASES)
def test_rows_are_those_of_r(published, name, dates):
    if name == "splines" and not dates:
        return
    given = tables(published, name if name in published["data"] else "made", dates=dates)
    data = eras_to_intervals(*given, **{"end_of_observation": 30} | CASES[name])
    case = published["intervals"][name]
    windows = [c for c in np.atleast_1d(case["columns"]).tolist() if c >= 1000]
    own = [label for label in data.X.names if "spline" not in label and label[:3] != "end"]
    names = {99: "end of observation", **dict(zip(windows, own, strict=True))}
    # The first column of season is left out: together they are 1.
    names |= {100 + j: f"age spline {j + 1}" for j in range(5)}
    names |= {200 + j: f"season spline {j}" for j in range(1, 4)}
    assert rows_of_data(data) == rows_of_r(case, names)


@pytest.mark.parametrize("name", ["itp", "opv", "hib"])
def test_estimates_are_those_of_r(published, name):
    """Also the published ones: 1.31, 5.95 and 2.60 for the first (Whitaker and others 2006)."""
    windows = {
        "itp": {"": [(0, 14), (15, 28), (29, 42)]},
        "opv": {"": [(0, 14), (15, 28), (29, 42)]},
        "hib": {"dtp": [(0, 3), (4, 7), (8, 14)], "hib": [(0, 7), (8, 14)]},
    }[name]
    planned = {
        f"{era} {start}": RiskWindow(start, end, end_anchor="start", eras=era or None)
        for era, days in windows.items()
        for start, end in days
    }
    months = [*range(57, 338, 28)]
    ages = [427, 488, 549, 610, 671] if name == "itp" else months
    periods, eras, outcomes = tables(published, name)
    doses = eras.assign(end=eras["start"])
    data = eras_to_intervals(periods, doses, outcomes, windows=planned, age_groups=ages)
    model = CaseSeriesCCD(alpha=0, tol=1e-10, max_iter=10_000).fit(data.X, data.y)
    expected = published["estimates"][name]
    assert model.coef_ == pytest.approx(expected["coef"], abs=1e-6)
    errors = wald(model, data.X, data.y).standard_errors
    assert errors == pytest.approx(expected["standard_error"], rel=1e-5)


def test_account_and_report():
    eras = pd.concat(
        [
            ERAS,
            pd.DataFrame(
                {
                    "id": [5, 5, 77, 5, 8],
                    "era": ["a", "a", "a", None, "a"],
                    "start": [65, 200, 0, 3, 1],
                    "end": [104, 210, 5, 5, 30],
                }
            ),
        ]
    )
    more = pd.DataFrame({"id": [66, 5], "day": [1, 26]})
    data = eras_to_intervals(
        PERIODS,
        eras,
        pd.concat([OUTCOMES, more]),
        windows={"on": RiskWindow(), "late": RiskWindow(120, 130, eras="a", end_anchor="start")},
        naive=20,
        first_outcome_only=True,
        missing="drop",
    )
    expected = {
        "periods": (3, 5, 166),
        "first outcome only": (3, 3, 166),
        "after 20 naive days": (2, 1, 110),
        "outcome in observation": (1, 1, 80),
        "covariates vary": (1, 1, 80),
    }
    assert {step: tuple(line) for step, line in data.attrition.iterrows()} == expected
    report = data.report
    assert (report.n_eras, report.n_outcomes, report.n_missing) == (8, 6, 1)
    assert (report.n_unknown_eras, report.n_unknown_outcomes) == (1, 1)
    assert (report.n_eras_outside, report.n_outcomes_outside) == (1, 1)
    assert (report.n_windows_outside, report.n_clipped, report.n_shortened) == (3, 1, 0)
    assert "1 eras left out: their subject is not in the periods" in repr(report)
    assert data.columns.loc["on"].tolist() == [1, 50, 1]
    assert repr(data).startswith("<CaseSeriesData of 2 rows and 2 columns: 1 subjects with 1 ev")


def test_names_and_text_identifiers():
    periods, eras, outcomes = (
        table.assign(id=table["id"].map("s{}".format)) for table in (PERIODS, ERAS, OUTCOMES)
    )
    windows = {"on": RiskWindow(by_era=True)}
    data = eras_to_intervals(periods, eras, outcomes, windows=windows, names={"a": "drug"})
    assert data.X.names.tolist() == ["on: drug", "on: b"]
    assert data.to_frame()["subject"].tolist() == ["s5"] * 3
    assert data.to_frame()["length"].tolist() == [80, 10, 10]
    assert not data.knots


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"periods": PERIODS.assign(end=PERIODS["start"] - 1)}, {}, "has 0 to -1 for 5"),
        (
            {"periods": PERIODS.assign(id=1)},
            {},
            "'id' 1 more than once; a subject has one period.* merge .* by 'id'",
        ),
        ({"periods": PERIODS.assign(start=0.5)}, {}, "has 0.5; days are whole numbers"),
        ({"eras": ERAS.assign(end=ERAS["start"] - 1)}, {}, "ends before it starts: 20 to 19"),
        (
            {
                "periods": PERIODS.assign(start=ORIGIN, end=ORIGIN + pd.Timedelta(99, "D")),
                "eras": ERAS.assign(start=ORIGIN, end=ORIGIN - pd.Timedelta(1, "D")),
                "outcomes": OUTCOMES.assign(day=ORIGIN),
            },
            {},
            "starts: 2000-01-01 to 1999-12-31",
        ),
        ({"eras": ERAS.assign(end=np.nan)}, {}, "3 line.s. without 'end'"),
        ({"eras": ERAS.drop(columns="end")}, {}, "no column 'end'.*by end=.$"),
        ({"outcomes": OUTCOMES.drop(columns="day")}, {}, "no column 'day'.*by day=.$"),
        ({"outcomes": OUTCOMES.assign(day=500)}, {}, "none of 3 subjects has an outcome in obs"),
        ({"eras": ERAS.assign(start=500, end=600)}, {}, "no covariate varies within any of 2"),
        ({}, {"windows": {"x": RiskWindow(eras="z")}}, r"`windows\['x'\]` names 'z', which is no"),
        ({}, {"season": 5}, "`season` needs days that are dates"),
        ({}, {"age": 9}, "`age` asks for 9 knots, but there are 3 outcomes"),
        ({}, {"age": "x"}, "`age` is 'x'; pass a number of knots of at least 3"),
        ({}, {"age_groups": []}, "`age_groups` is empty"),
        ({"eras": ERAS.assign(end=10**12)}, {}, r"has day 1e\+12, beyond 2,147,483,647"),
        ({}, {"windows": RiskWindow(eras=[])}, "has no `eras`; name some, or pass None"),
        (
            {},
            {"windows": {"age 20+": RiskWindow()}, "age_groups": [20]},
            "two columns are named 'age 20.'; rename a window",
        ),
        ({}, {"age": [3, 4]}, "`age` comes to 2 different knots"),
        ({}, {"naive": -1}, "`naive` is -1, must be a whole number of days"),
        ({}, {"missing": "fill"}, "`missing` is 'fill'"),
        (
            {},
            {"windows": {"b": RiskWindow(), "": RiskWindow(by_era=True)}},
            "two columns are named 'b'",
        ),
    ],
)
def test_what_cannot_be_is_refused(changes, options, message):
    given = {"periods": PERIODS, "eras": ERAS, "outcomes": OUTCOMES} | changes
    with pytest.raises(ValueError, match=message):
        eras_to_intervals(**given, **{"windows": RiskWindow()} | options)


def test_eras_of_others_only_are_told():
    told = pytest.warns(UserWarning, match="identifiers like 9, where these are like 5")
    with told as caught, pytest.raises(NothingToCompareError):
        eras_to_intervals(PERIODS, ERAS.assign(id=9), OUTCOMES, windows=RiskWindow())
    assert caught[0].filename == __file__


def test_refusals_of_other_kinds():
    with pytest.raises(TypeError, match=r"`after_previous` is 0\.5; pass a whole number of days"):
        RiskWindow(-30, -1, end_anchor="start", after_previous=0.5)
    with pytest.raises(TypeError, match="`windows` must be a RiskWindow, or a mapping"):
        eras_to_intervals(PERIODS, ERAS, OUTCOMES, windows=[RiskWindow()])
    with pytest.raises(TypeError, match=r"`windows\['x'\]` is 5; pass a RiskWindow"):
        eras_to_intervals(PERIODS, ERAS, OUTCOMES, windows={"x": 5})
    with pytest.raises(TypeError, match=r"`start` is 0\.5; pass a whole number of days"):
        RiskWindow(0.5)
    with pytest.raises(ValueError, match="`end_anchor` is 'middle', must be one of"):
        RiskWindow(end_anchor="middle")
    with pytest.raises(ValueError, match="starts on day 3 and ends on day 2"):
        RiskWindow(3, 2, end_anchor="start")
    days = pd.to_timedelta(PERIODS["start"], unit="D")
    dates = PERIODS.assign(start=ORIGIN + days, end=ORIGIN + 2 * days + pd.Timedelta(days=9))
    with pytest.raises(TypeError, match="`outcomes` has numbers, days of `periods` are dates; "):
        eras_to_intervals(dates, ERAS, OUTCOMES, windows=RiskWindow())
    own = {"day": ORIGIN + pd.to_timedelta(OUTCOMES["day"], unit="D")}
    eras = ERAS.assign(start=ORIGIN, end=ORIGIN)
    with pytest.raises(ValueError, match="`age_groups` needs days of birth"):
        eras_to_intervals(
            dates, eras, OUTCOMES.assign(**own), windows=RiskWindow(), age_groups=[100]
        )
    assert issubclass(NothingToCompareError, ValueError)


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_days_of_a_time_zone_are_those_of_its_calendar(zone):
    def dated(table, columns, hours, zone):
        moments = {c: ORIGIN + pd.to_timedelta(table[c] * 24 + hours, unit="h") for c in columns}
        moments = {c: moment.dt.tz_localize(zone) for c, moment in moments.items()}
        return table.assign(**moments)

    def rows(hours, zone):
        tables = (PERIODS, ["start", "end"]), (ERAS, ["start", "end"]), (OUTCOMES, ["day"])
        given = [dated(*table, hours, zone) for table in tables]
        return eras_to_intervals(*given, windows=RiskWindow(-3, 3)).to_frame()

    expected = eras_to_intervals(PERIODS, ERAS, OUTCOMES, windows=RiskWindow(-3, 3)).to_frame()
    for hours in (0, 23):
        pd.testing.assert_frame_equal(rows(hours, zone), expected)


def test_windows_without_a_day_are_counted():
    eras = pd.DataFrame({"id": [5, 5], "era": "a", "start": [20, 40], "end": [24, 60]})
    data = eras_to_intervals(PERIODS, eras, OUTCOMES, windows=RiskWindow(10, 0))
    assert data.report.n_empty == 1
    assert "1 windows left out: they would end before they start" in repr(data.report)
    again = eras.assign(start=[20, 26], end=[20, 30])
    after = RiskWindow(8, 20, end_anchor="start")
    report = eras_to_intervals(PERIODS, again, OUTCOMES, windows=after).report
    assert (report.n_empty, report.n_shortened) == (1, 0)


def lengths(data):
    return {tuple(row[3:]): row[2] for row in data.to_frame().itertuples(index=False)}


@pytest.mark.parametrize(
    ("after", "expected", "counts"),
    [
        # before: days 0-29, of which 10-19 are on the drug
        (None, {(1, 0): 20, (1, 1): 10, (0, 1): 10, (0, 0): 60}, (1, 0)),
        (0, {(1, 0): 20, (0, 1): 20, (0, 0): 60}, (0, 1)),
        (5, {(1, 0): 15, (0, 1): 20, (0, 0): 65}, (0, 1)),
    ],
)
def test_windows_before_an_exposure_may_begin_after_an_earlier_one(after, expected, counts):
    eras = pd.DataFrame({"id": 5, "era": "a", "start": [10, 30], "end": [19, 39]})
    windows = {"before": RiskWindow(**BEFORE, after_previous=after), "on": RiskWindow()}
    data = eras_to_intervals(PERIODS, eras, OUTCOMES, windows=windows)
    assert lengths(data) == expected
    assert (data.report.n_reaching, data.report.n_shortened) == counts
    assert ("1 windows begin before an earlier era ends" in repr(data.report)) == (after is None)


@pytest.mark.parametrize("after", [None, 0, 3])
@pytest.mark.parametrize("by_era", [True, False])
def test_windows_before_exposures_day_by_day(after, by_era):
    rng = np.random.default_rng(7)
    eras = pd.DataFrame({"id": rng.integers(0, 30, 200), "era": rng.choice(["a", "b"], 200)})
    eras["start"] = rng.integers(-20, 220, 200)
    eras["end"] = eras["start"] + rng.integers(0, 9, 200)
    periods = pd.DataFrame({"id": range(30), "start": 0, "end": 199})
    before = RiskWindow(-9, -2, end_anchor="start", after_previous=after, by_era=by_era)
    events = pd.DataFrame({"id": range(30), "day": 50})
    data = eras_to_intervals(periods, eras, events, windows={"before": before})
    columns = [["a"], ["b"]] if by_era else [["a", "b"]]
    expected, days = Counter(), np.arange(-50, 300)
    for person in range(30):
        windows = []
        for exposures in columns:
            own = eras[(eras["id"] == person) & eras["era"].isin(exposures)].itertuples()
            on = {day for era in own for day in range(era.start, era.end + 1)}
            starts = [day for day in on if day - 1 not in on]
            reach = 0 if after is None else after + 1
            windows.append(
                {
                    day
                    for start in starts
                    for day in range(start - 9, start - 1)
                    # none of the last days, up to the start of the era, is one of exposure
                    if after is None or not on & {*range(day - reach + 1, start)}
                }
            )
        for day in days[(days >= 0) & (days < 200)].tolist():
            expected[person, tuple(float(day in window) for window in windows)] += 1
    found = {
        (int(row[0]), tuple(row[3:])): row[2] for row in data.to_frame().itertuples(index=False)
    }
    varies = Counter(person for person, _ in expected)
    assert found == {key: n for key, n in expected.items() if varies[key[0]] > 1}


def test_columns_may_be_named_as_those_of_the_rows():
    data = eras_to_intervals(PERIODS, ERAS, OUTCOMES, windows={"length": RiskWindow()})
    with pytest.raises(ValueError, match="named 'length', as a column of the table of rows is"):
        data.to_frame()


def test_windows_of_a_case_crossover_look_at_every_day():
    rng = np.random.default_rng(3)
    ids = np.arange(40)
    periods = pd.DataFrame({"id": ids, "start": rng.integers(0, 40, 40), "end": 200})
    eras = pd.DataFrame({"id": rng.integers(0, 40, 120), "era": rng.integers(0, 3, 120)})
    eras["start"] = rng.integers(-20, 200, 120)
    eras["end"] = eras["start"] + rng.integers(0, 15, 120)
    outcomes = pd.DataFrame({"id": rng.integers(0, 40, 60), "day": rng.integers(20, 230, 60)})
    windows = [(-9, 0), (-29, -20), (-49, -40)]
    data = case_crossover_windows(periods, eras, outcomes, case=windows[0], controls=windows[1:])
    expected = []
    for person, day in sorted(outcomes.itertuples(index=False)):
        low, high = periods[["start", "end"]].loc[person]
        own = eras[eras["id"] == person]
        seen = [w for w in windows if low <= day + w[0] and day + w[1] <= high]
        for first, last in seen if windows[0] in seen and len(seen) > 1 and day <= high else []:
            touch = own[(own["start"] <= day + last) & (own["end"] >= day + first)]
            exposed = [float((touch["era"] == era).any()) for era in range(3)]
            expected.append([person, day, first, last, first == -9, *exposed])
    found = data.rows.assign(case=data.y["case"]).to_numpy().tolist()
    dense = data.X.to_scipy().toarray().tolist()
    assert [[*a, *b] for a, b in zip(found, dense, strict=True)] == expected
    n_windows = pd.Series(data.y["stratum"]).value_counts()
    assert data.attrition["events"].is_monotonic_decreasing
    assert data.attrition.iloc[-1].tolist() == [len(n_windows), len(expected)]


def test_a_case_crossover_accounts_for_what_it_leaves_out():
    eras = pd.concat([ERAS, ERAS[:1].assign(id=77)])
    outcomes = pd.DataFrame({"id": [5, 5, 5, 2, 99], "day": [-3, 30, np.nan, 40, 1]})
    data = case_crossover_windows(
        PERIODS, eras, outcomes, case=(-4, 0), controls=[(-9, -5)], missing="drop", naive=20
    )
    assert data.attrition["events"].to_dict() == {
        "outcomes": 3,
        "after 20 naive days": 2,
        "in observation": 2,
        "case window observed": 2,
        "control window observed": 2,
    }
    report = data.report
    assert (report.n_eras, report.n_unknown_eras) == (4, 1)
    assert (report.n_outcomes, report.n_unknown_outcomes, report.n_missing) == (5, 1, 1)
    assert report.n_outcomes_outside == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"case": None}, r"`case` has a window \(None,\); pass its first and last day"),
        ({"controls": [(-59, -30), (-40, -11)]}, "share days: they have 30 days each and start"),
        ({"case": (0, -9)}, r"`case` has a window \(0, -9\)"),
        ({"controls": []}, "`controls` is empty"),
        ({"controls": [(-59, -31)]}, "have 30, 29 days; in a longer one exposure is likelier"),
        ({"controls": [(-999, -970)]}, "none of 4 outcomes has its case window and a control"),
    ],
)
def test_windows_of_a_case_crossover_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        case_crossover_windows(PERIODS, ERAS, OUTCOMES, **options)
