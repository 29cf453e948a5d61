"""Covariates in windows of time, against pandas' groupby of the lines of each window."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sksurvgpu import PrepareColumns, from_long, open_partitions, surv
from sksurvgpu.data.design.columns import INDICATOR

PERSONS = pd.DataFrame(
    {"row_id": [3, 1, 2], "index_date": pd.to_datetime(["2021-03-01", "2020-01-10", "2020-12-31"])}
)
LINES = pd.DataFrame(
    {
        "row_id": [1, 1, 1, 2, 2, 3, 3],
        "covariate_id": [7, 7, 7, 7, 8, 8, 8],
        "value": [5.0, 6.0, 4.0, 3.0, 1.0, 2.0, 2.5],
        "day": pd.to_datetime(
            [
                *("2020-01-09 23:59", "2020-01-09 08:00", "2019-01-10 12:00"),
                *("2020-12-31 17:00", "2020-01-01 00:00"),
                *("2021-02-28 00:00", "2021-03-02 00:00"),
            ]
        ),
    }
)
STATISTICS = {
    "last": lambda lines: lines.iloc[-1],
    "first": lambda lines: lines.iloc[0],
    "count": len,
    "present": lambda lines: 1.0,
    **{name: getattr(pd.Series, name) for name in ("sum", "mean", "max", "min")},
}


def dense(data):
    return data.X.to_scipy().toarray()


def slow_columns(row_ids, index, lines, windows):
    """Every column by its covariate and window, by grouping the lines of a window at a time."""
    found = {}
    lines = lines[lines["row_id"].isin(row_ids)].sort_values("day", kind="stable")
    since = lines["day"] - lines["row_id"].map(dict(zip(row_ids, index, strict=True)))
    for name, (low, high, statistic) in windows.items():
        is_in = pd.Series(True, lines.index)
        is_in &= since >= low if low is not None else since.notna()
        is_in &= since <= high if high is not None else since.notna()
        groups = lines[is_in].groupby(["covariate_id", "row_id"], sort=True)["value"]
        for (covariate, row), values in groups:
            column = found.setdefault((covariate, name), pd.Series(0.0, row_ids))
            column[row] = STATISTICS[statistic](values)
    order = [*windows]
    found = {key: column for key, column in found.items() if (column != 0).any()}
    return {key: found[key] for key in sorted(found, key=lambda k: (k[0], order.index(k[1])))}


def sources(lines):
    """Kinds of tables and streams; iterators are made anew by each call."""
    half = len(lines) // 2
    return {
        "pandas": lambda: lines,
        "polars": lambda: pl.DataFrame(lines.to_dict("list")),
        "arrow": lambda: pa.table(lines.to_dict("list")),
        "iterator": lambda: iter([lines[:half], lines[half:]]),
    }


@pytest.mark.thorough
@settings(max_examples=60)
@given(st.data())
def test_any_lines_in_any_windows(data):
    draw = data.draw
    row_ids = [11, 5, 8, 2][: draw(st.integers(1, 4))]
    index = [draw(st.none() | st.integers(-3, 3)) for _ in row_ids]
    days = st.integers(-6, 6)
    line = st.tuples(
        st.sampled_from([*row_ids, 99]),
        st.integers(0, 2),
        st.sampled_from([1.0, 1.0, 0.0, -2.0, 3.5]),
        days,
    )
    lines = pd.DataFrame(
        draw(st.lists(line, min_size=1, max_size=40)),
        columns=["row_id", "covariate_id", "value", "day"],
    )
    bounds = st.tuples(st.none() | days, st.none() | days).filter(
        lambda pair: None in pair or pair[0] <= pair[1]
    )
    windows = {
        f"w{k}": (*pair, draw(st.sampled_from([*STATISTICS])))
        for k, pair in enumerate(draw(st.lists(bounds, min_size=1, max_size=3)))
    }
    expected = slow_columns(row_ids, index, lines, windows)
    outcomes = pd.DataFrame({"row_id": row_ids, "index_date": pd.array(index, dtype="Int64")})
    if draw(st.booleans()):  # dates in place of integers
        origin = pd.Timestamp("2019-12-30")
        lines["day"] = origin + pd.to_timedelta(lines["day"], unit="D")
        outcomes["index_date"] = origin + pd.to_timedelta(outcomes["index_date"], unit="D")
    table = sources(lines)[draw(st.sampled_from([*sources(lines)]))]()
    options = {"unknown": "ignore", "missing": "drop", "batch_size": draw(st.integers(1, 50))}
    if not expected:
        with pytest.raises(ValueError, match="leaves no column"):
            from_long(outcomes, table, windows=windows, **options)
        return
    found = from_long(outcomes, table, windows=windows, **options)
    np.testing.assert_allclose(dense(found), np.array([*expected.values()]).T, rtol=1e-14)
    assert [*zip(found.covariate_ids.tolist(), found.window_of, strict=True)] == [*expected]
    assert found.X.names.tolist() == [f"{covariate} {name}" for covariate, name in expected]
    again = from_long(outcomes[::-1], lines, like=found, **options)
    np.testing.assert_array_equal(dense(again)[::-1], dense(found))
    assert again.X.names.tolist() == found.X.names.tolist()


def test_dates_are_days_of_the_calendar_and_times_order_lines():
    windows = [(-1, -1), (None, 0)]
    data = from_long(PERSONS, LINES, windows=windows, duplicates="last", names={7: "dose"})
    assert data.X.names.tolist() == ["dose [-1, -1]", "dose [-inf, 0]", "8 [-1, -1]", "8 [-inf, 0]"]
    expected = [[0, 0, 2, 2], [5, 5, 0, 0], [0, 3, 0, 1]]
    assert dense(data).tolist() == expected
    assert data.windows == {"[-1, -1]": (-1, -1, "last"), "[-inf, 0]": (None, 0, "last")}
    report = data.report
    assert (report.n_outside, report.n_undated, report.n_rare) == (1, 0, 0)
    assert "1 lines left out: outside all windows" in repr(report)
    first = from_long(PERSONS, LINES, windows=windows, duplicates="first")
    assert dense(first)[1].tolist() == [6, 4, 0, 0]


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_dates_of_every_kind(unit):
    expected = dense(from_long(PERSONS, LINES, windows=[(None, 0)], duplicates="max"))
    lines = LINES.assign(day=LINES["day"].astype(f"datetime64[{unit}]"))
    days = [stamp.date() for stamp in LINES["day"]]
    dates = [stamp.date() for stamp in PERSONS["index_date"]]
    for persons, table in [
        (PERSONS, lines),
        (PERSONS, LINES.assign(day=days)),  # objects
        (PERSONS.assign(index_date=dates), pl.DataFrame(LINES.to_dict("list"))),
        (pl.DataFrame({**PERSONS.to_dict("list"), "index_date": dates}), LINES),
        (pa.table({"row_id": PERSONS["row_id"], "index_date": dates}), LINES),
        (
            PERSONS.assign(index_date=PERSONS["index_date"].dt.tz_localize("Asia/Tokyo")),
            LINES.assign(day=LINES["day"].dt.tz_localize("Asia/Tokyo")),
        ),
    ]:
        found = from_long(persons, table, windows=[(None, 0)], duplicates="max")
        np.testing.assert_array_equal(dense(found), expected)
    far = from_long(
        PERSONS.assign(index_date=[date(9999, 12, 31)] * 3),
        LINES,
        windows=[(None, 0)],
        duplicates="present",
    )
    assert (far.X.kind == INDICATOR).all()


def test_what_has_no_date_is_reported():
    persons = PERSONS.assign(index_date=PERSONS["index_date"].where([True, False, True]))
    with pytest.raises(
        ValueError, match=r"1 row\(s\) without 'index_date', .* row 1; pass missing"
    ):
        from_long(persons, LINES, windows=[(None, 0)], duplicates="last")
    lines = LINES.assign(day=LINES["day"].where(LINES.index != 4))
    with pytest.raises(ValueError, match="no 'day' in line 4; pass missing='drop'"):
        from_long(PERSONS, lines, windows=[(None, 0)], duplicates="last")
    data = from_long(persons, lines, windows=[(None, 0)], duplicates="last", missing="drop")
    report = data.report
    assert (report.n_undated, report.n_rows_undated, report.n_missing) == (4, 1, 0)
    assert "1 rows have no index date" in repr(report)
    assert dense(data)[1].tolist() == [0, 0]


def test_repeated_lines_are_an_error_that_names_the_options():
    message = r"covariate 7 of row 1 more than once in window 'year'; pass duplicates='last', .*"
    with pytest.raises(ValueError, match=f"{message} or 'present', which is 1"):
        from_long(PERSONS, LINES, windows={"year": (-365, -1), "visits": (None, None, "count")})
    windows = {"week": (-7, -1, "last"), "visits": (None, None, "count")}
    data = from_long(PERSONS, LINES, windows=windows)
    assert data.X.names.tolist() == ["7 week", "7 visits", "8 week", "8 visits"]
    assert dense(data)[1].tolist() == [5, 3, 0, 0]


@pytest.mark.parametrize("duplicates", ["count", "present", "mean", "first", "min"])
def test_statistics_without_windows(duplicates):
    lines = LINES.drop(columns="day")
    expected = lines.groupby(["row_id", "covariate_id"])["value"].agg(STATISTICS[duplicates])
    expected = expected.astype(float).unstack(fill_value=0.0).loc[PERSONS["row_id"]].to_numpy()
    for size in (2, 100):
        data = from_long(PERSONS, lines, duplicates=duplicates, batch_size=size)
        np.testing.assert_array_equal(dense(data), expected)


def test_windows_go_to_files(tmp_path):
    rng = np.random.default_rng(0)
    persons = pd.DataFrame(
        {
            "row_id": [f"p{k}" for k in range(90)],
            "event": rng.random(90) < 0.5,
            "time": rng.random(90) + 0.1,
            "index_date": rng.integers(0, 50, 90),
        }
    )
    lines = pd.DataFrame(
        {
            "row_id": rng.choice(persons["row_id"], 2_000),
            "covariate_id": rng.integers(0, 9, 2_000),
            "value": rng.integers(1, 4, 2_000),
            "day": rng.integers(0, 60, 2_000),
        }
    )
    options = {"windows": [(-20, -1), (-5, 5, "mean"), (40, 50, "last")], "min_count": 20}
    kept = from_long(persons, lines, duplicates="first", **options)
    assert kept.report.n_rare > 0
    chunks = (lines[low : low + 300] for low in range(0, 2_000, 300))
    data = from_long(
        persons, chunks, duplicates="first", **options, outcome=surv, rows=32,
        to=tmp_path / "a.parts",
    )  # fmt: skip
    assert data.report == kept.report
    assert data.window_of.tolist() == kept.window_of.tolist()
    assert open_partitions(tmp_path / "a.parts").names.tolist() == kept.X.names.tolist()
    again = from_long(persons, lines, like=data)
    np.testing.assert_array_equal(dense(again), dense(kept))
    with pytest.raises(ValueError, match="`prepare` takes all rows in memory, and `to` writes"):
        from_long(persons, lines, prepare=PrepareColumns(), to=tmp_path / "b.parts")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"windows": [(1,)]}, ValueError, r"has \(1,\); a window is \(from, to\) in whole days"),
        ({"windows": [(-1.5, 0)]}, ValueError, "in whole days after the index date"),
        ({"windows": {"a": (3, 1)}}, ValueError, r"'a': \(3, 1\), which ends before it begins"),
        ({"windows": []}, ValueError, "`windows` has no window"),
        ({"windows": [(1, 2), (1, 2)]}, ValueError, r"two windows '\[1, 2\]'; give each a name"),
        ({"windows": [(0, 1, "no")]}, ValueError, "is 'no', must be one of 'error', 'last'"),
        ({"windows": "year"}, TypeError, "pass a list of pairs of days"),
        ({"windows": [(0, 1)], "day": "d"}, ValueError, "no column 'd'; .* by day="),
        ({"windows": [(0, 1)], "day": "value"}, ValueError, "name four different columns"),
        ({"windows": [(0, 1)], "index_date": "i"}, ValueError, "no column 'i'; .* by index_date="),
        ({"day": "day"}, ValueError, "has no column 'value' of values|more than once"),
        ({"day": "when"}, ValueError, "which only windows of time use; pass `windows`"),
        ({"windows": [(90, 99)]}, ValueError, "7 outside all windows, and 0 covariates"),
    ],
    ids=range(13),
)
def test_bad_windows(options, error, message):
    with pytest.raises(error, match=message):
        from_long(PERSONS, LINES, **options)


@pytest.mark.parametrize("value", [None, np.nan, "text"])
def test_values_that_are_not_looked_at_need_not_be_there(value):
    windows = {"ever": (None, 0), "times": (None, 0, "count")}
    lines = LINES.drop(columns="value") if value is None else LINES.assign(value=value)
    lines["source"] = "claims"
    found, expected = (
        from_long(PERSONS, own, windows=windows, duplicates="present").X.to_scipy().toarray()
        for own in (lines, LINES)
    )
    np.testing.assert_array_equal(found, expected)
    with pytest.raises((TypeError, ValueError), match="value"):
        from_long(PERSONS, lines, windows=windows, duplicates="max")


@pytest.mark.parametrize(
    ("index", "day", "message"),
    [
        ([5, 6, 7], LINES["day"], r"`covariates`\['day'\] has dates, index dates are integers"),
        (PERSONS["index_date"], range(7), "has integers, index dates are dates"),
        (
            PERSONS["index_date"],
            LINES["day"].dt.tz_localize("UTC"),
            "has dates of UTC, index dates are dates; leave",
        ),
        (PERSONS["index_date"], LINES["day"].astype(str), "has dtype String; days are integers"),
    ],
    ids=["dates", "integers", "zone", "text"],
)
def test_dates_and_integers_are_not_mixed(index, day, message):
    with pytest.raises(TypeError, match=message):
        from_long(PERSONS.assign(index_date=index), LINES.assign(day=day), windows=[(0, 1)])


def test_like_keeps_windows_and_what_was_prepared():
    prepare = PrepareColumns(redundant="drop", scale="max")
    options = {"windows": {"ever": (None, 0), "after": (1, None)}, "duplicates": "max"}
    lines = pd.concat([LINES, LINES.assign(covariate_id=LINES["covariate_id"] + 10)])
    data = from_long(PERSONS, lines, prepare=prepare, **options)
    assert not hasattr(prepare, "columns_")
    plain = from_long(PERSONS, LINES, **options)
    assert data.covariate_ids.tolist() == [7, 8, 8] and data.report.n_unprepared == 3
    np.testing.assert_array_equal(dense(data), dense(plain) / dense(plain).max(axis=0))
    assert data.prepare.report_["left_out"].iloc[3] == "identical to '7 ever'"
    new = LINES.assign(value=LINES["value"] * 2)
    again = from_long(PERSONS, new, like=data)
    np.testing.assert_array_equal(dense(again), 2 * dense(data))
    assert again.X.names.tolist() == data.X.names.tolist()
    for argument, name in [
        ({"windows": [(0, 1)]}, "windows"), ({"prepare": prepare}, "prepare"),
        ({"duplicates": "sum"}, "duplicates"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=f"`{name}` was passed with `like`, whose"):
            from_long(PERSONS, LINES, like=data, **argument)
    with pytest.raises(TypeError, match="`prepare` is of type str; pass a PrepareColumns"):
        from_long(PERSONS, LINES, prepare="max", **options)
