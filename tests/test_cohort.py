"""Cohorts: tables of persons with an account of who was left out."""

import pickle

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import from_long
from sksurvgpu.cohort import Cohort, trim, weigh

PERSONS = pd.DataFrame(
    {
        "id": ["a", "b", "c", "d", "e"],
        "treatment": [1, 0, 0, 1, 0],
        "score": [0.6, 0.2, 0.05, 0.9, 0.3],
        "age": [54, 17, 61, 70, 33],
    },
    index=[7, 3, 5, 9, 1],
)


def test_steps_are_counted_and_nobody_is_lost():
    cohort = Cohort.of(PERSONS)
    adults = cohort.keep(cohort.table["age"] >= 18, "adults")
    left = trim(adults, bounds=(0.1, 0.8))
    assert left.table.index.tolist() == [7, 1] and left.rows.tolist() == [0, 4]
    assert left.attrition.index.tolist() == ["given", "adults", "score in [0.1, 0.8]"]
    assert left.attrition.to_numpy().tolist() == [[5, 2, 3, 0], [4, 2, 2, 1], [2, 1, 1, 2]]
    assert left.left_out["id"].tolist() == ["b", "c", "d"]
    assert left.left_out["row"].tolist() == [1, 2, 3]
    assert left.left_out["step"].tolist() == ["adults", *["score in [0.1, 0.8]"] * 2]
    assert repr(left).splitlines()[0] == "<Cohort of 2 rows: 1 treated, 1 comparators; 3 left out>"
    assert {*left.table["id"], *left.left_out["id"]} == {*PERSONS["id"]}
    # what came before is as it was, and so is the table given
    assert len(cohort.table) == 5 and len(cohort.left_out) == 0 and len(PERSONS) == 5


def test_steps_that_leave_all_or_none():
    cohort = Cohort.of(PERSONS)
    assert cohort.keep(np.ones(5, bool), "all").attrition["left_out"].tolist() == [0, 0]
    nobody = cohort.keep(np.zeros(5, bool), "none")
    assert nobody.attrition.loc["none"].tolist() == [0, 0, 0, 5]
    with pytest.raises(ValueError, match="`is_kept` has 2 entries, the cohort has 5 rows"):
        cohort.keep([True, False], "two")


def test_columns_are_added_in_the_order_of_the_rows():
    left = Cohort.of(PERSONS).keep(PERSONS["age"] > 18, "adults").with_columns(age=[1, 2, 3, 4])
    assert left.table["age"].to_dict() == {7: 1, 5: 2, 9: 3, 1: 4}
    assert PERSONS["age"].iloc[0] == 54


def test_columns_of_all_rows_are_those_made_by_hand():
    left = trim(PERSONS).with_columns(stratum=[1, 0, 1, 0])
    by_hand = np.full(5, -1)
    by_hand[left.rows] = left.table["stratum"]
    assert left.spread("stratum").tolist() == by_hand.tolist() == [1, 0, -1, 1, 0]
    weighted = weigh(trim(PERSONS), stabilized=False).spread("weight", fill=0)
    assert weighted.tolist() == pytest.approx([1 / 0.6, 1 / 0.8, 0, 1 / 0.9, 1 / 0.7])
    named = left.with_columns(arm=["x", "y", "x", "z"], flag=[True, False, True, True])
    assert named.spread("arm", fill="none").tolist() == ["x", "y", "none", "x", "z"]
    assert named.spread("arm", of=["e", "c", "a", "b", "d", "f"]).tolist() == [*"z", -1, *"xyx", -1]
    assert named.spread("flag", fill=False).tolist() == [True, False, False, True, True]
    assert left.spread("stratum", fill=np.nan)[:2].tolist() == [1.0, 0.0]
    with pytest.raises(
        ValueError, match=r"no column 'strata'; name one of .*'stratum'.* by column="
    ):
        left.spread("strata")


@pytest.mark.parametrize("kind", ["str", "Int64", "category", "int8", ">i8"])
def test_rows_of_a_design_of_other_persons_or_in_another_order(kind):
    ids = pd.Series(range(5), PERSONS.index).astype(kind)
    left = trim(PERSONS.assign(id=ids))
    others = pd.DataFrame({"row_id": [4, 9, 1, 0, 3, 2, 8]})
    codes = pd.DataFrame(
        {"row_id": others["row_id"], "covariate_id": 1, "value": others["row_id"] + 1.0}
    )
    if kind == "str":
        others, codes = others.astype({"row_id": str}), codes.astype({"row_id": str})
    data = from_long(others, codes)
    assert left.rows_of(data).tolist() == [3, 2, 4, 0]
    assert data.X[left.rows_of(data)].to_scipy().toarray().ravel().tolist() == [1, 2, 4, 5]
    assert left.rows_of(data.row_ids.tolist()).tolist() == [3, 2, 4, 0]
    assert left.spread("age", of=data).tolist() == [33, -1, 17, 54, 70, -1, -1]


def test_designs_without_persons_of_the_cohort_are_refused():
    cohort = Cohort.of(PERSONS)
    with pytest.raises(
        ValueError, match=r"no row of 2 person\(s\) of the cohort, such as 'b'; its"
    ):
        cohort.rows_of(["a", "c", "e"])
    with pytest.raises(
        ValueError, match=r"no row of 5 .* such as 'a'; its identifiers are like 0. Make"
    ):
        cohort.spread("age", of=range(5))
    with pytest.raises(ValueError, match="`data` has a more than once"):
        cohort.rows_of([*"abcdea"])

    with pytest.raises(
        ValueError, match=r"no row of 5 .* such as 'a'; its identifiers are like None"
    ):
        cohort.rows_of([])


def test_identifiers_that_floating_point_has_rounded_are_refused():
    """Columns of whole numbers with gaps are floating point, which rounds those of 54 bits."""
    ids = 2**53 + np.arange(5)
    cohort = Cohort.of(PERSONS.assign(id=ids))
    assert cohort.rows_of(ids[::-1].astype(np.uint64)).tolist() == [4, 3, 2, 1, 0]
    with pytest.raises(ValueError, match=r"`data` has 9007199254740992\.0; identifiers are int"):
        cohort.rows_of(ids[::2].astype(float))
    with pytest.raises(ValueError, match=r"`id` has 9007199254740992\.0; .* into 53\), or strings"):
        Cohort.of(PERSONS.assign(id=ids[:5].astype(float)))
    assert Cohort.of(PERSONS.assign(id=np.arange(5.0))).rows_of(range(5)).tolist() == [*range(5)]


def test_what_fills_a_column_of_dates_is_a_date():
    left = Cohort.of(PERSONS.assign(day=np.datetime64("2020-01-01", "D"))).keep(
        [1, 1, 0, 0, 0], "a"
    )
    with pytest.raises(TypeError, match=r"`fill` is -1, and column 'day' is of datetime64"):
        left.spread("day")
    assert np.isnat(left.spread("day", fill=np.datetime64("NaT", "D"))).tolist() == [0, 0, 1, 1, 1]


def test_series_of_other_rows_are_refused():
    cohort = Cohort.of(PERSONS)
    for values in (pd.Series([1, 0, 1, 1, 1]), PERSONS["score"].sort_values() > 0.1):
        with pytest.raises(ValueError, match="`is_kept` is a Series with another index than the"):
            cohort.keep(values, "some")
        with pytest.raises(ValueError, match=r"`flag` is a Series .* pass flag\.to_numpy\(\)"):
            cohort.with_columns(flag=values)


@pytest.mark.parametrize("name", ["row", "step"])
def test_identifiers_are_not_lost_among_the_columns_of_left_out(name):
    with pytest.raises(ValueError, match=f"`id` is '{name}', as a column of `left_out` is called"):
        Cohort.of(PERSONS.rename(columns={"id": name}), id=name)


def test_tables_of_the_other_byte_order():
    persons = PERSONS.assign(id=range(5))
    swapped = persons.astype({"id": ">i8", "treatment": ">i4", "score": ">f8", "age": ">i2"})
    cohort = Cohort.of(swapped)
    pd.testing.assert_frame_equal(cohort.table, persons, check_dtype=False)
    assert cohort.rows_of(swapped["id"].to_numpy()).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["Int64", "category", "datetime64[ns]", "string"])
def test_identifiers_keep_their_dtype(kind):
    persons = PERSONS.assign(id=pd.Series(range(5), PERSONS.index).astype(kind))
    assert trim(trim(persons), bounds=(0.3, 0.7)).left_out["id"].dtype == kind


def test_a_cohort_without_arms():
    cohort = Cohort.of(PERSONS, treatment=None)
    assert repr(cohort.keep(PERSONS["age"] > 18, "adults")).startswith(
        "<Cohort of 4 rows; 1 left out>"
    )
    assert cohort.attrition.columns.tolist() == ["rows", "left_out"]
    with pytest.raises(ValueError, match="the cohort has no arms; name the column"):
        trim(cohort)


@pytest.mark.parametrize("kind", ["polars", "lazy", "arrow", "duckdb", "parquet"])
def test_tables_of_other_kinds(kind, tmp_path):
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    frame = polars.from_pandas(PERSONS.reset_index(drop=True))
    if kind == "parquet":
        frame.write_parquet(tmp_path / "persons.parquet")
    table = {
        "polars": lambda: frame,
        "lazy": lambda: frame.lazy(),
        "arrow": lambda: frame.to_arrow(),
        "duckdb": lambda: duckdb.from_arrow(frame.to_arrow()),
        "parquet": lambda: tmp_path / "persons.parquet",
    }[kind]()
    cohort = Cohort.of(table)
    pd.testing.assert_frame_equal(
        cohort.table.astype({"id": object}), PERSONS.reset_index(drop=True), check_dtype=False
    )
    assert trim(table).left_out["id"].tolist() == ["c"]


def test_pickles():
    cohort = trim(Cohort.of(PERSONS))
    again = pickle.loads(pickle.dumps(cohort))
    assert repr(again) == repr(cohort) and again.rows.tolist() == cohort.rows.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": ["a", "b", "c", "a", "e"]}, "`id` has a more than once; pass one line for each"),
        ({"id": ["a", None, "c", "d", "e"]}, r"`id` is missing in 1 row\(s\); number or drop"),
        ({"treatment": [1, 2, 0, 1, 0]}, "`treatment` is 2 in row 1, must be bool or 0/1"),
        ({"treatment": [1, None, 0, 1, 0]}, r"`treatment` has 1 missing value\(s\)"),
        ({"treatment": 1}, "`treatment` is 1 in every row of 5, so that there is nobody"),
        ({"treatment": 0}, "`treatment` is 1 in no row of 5"),
        ({"score": [0.6, np.nan, 0.1, 0.9, 0.3]}, r"`score` has 1 missing value\(s\)"),
        ({"score": [0.6, 1.2, 0.1, 0.9, 0.3]}, "`score` is 1.2 in row 1, must lie between"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        trim(PERSONS.assign(**change))


def test_names_of_columns():
    renamed = PERSONS.rename(columns={"id": "person", "treatment": "arm", "score": "ps"})
    names = {"id": "person", "treatment": "arm", "score": "ps"}
    cohort = trim(renamed, **names)
    assert cohort.left_out.columns.tolist() == ["person", "row", "step"]
    assert trim(cohort, bounds=(0.25, 0.9)).left_out["person"].tolist() == ["c", "b"]
    with pytest.raises(TypeError, match="id= names columns of a table; a Cohort has its own"):
        trim(cohort, id="person")
    for given in (renamed, cohort):
        with pytest.raises(TypeError, match="'observation_start' is no argument; columns of a"):
            trim(given, observation_start="first")
    with pytest.raises(ValueError, match=r"no column 'persn'; name one of its columns \('person'"):
        trim(renamed, id="persn")
    with pytest.raises(ValueError, match=r"has no column 'score'; name one .* by score="):
        trim(PERSONS.drop(columns="score"))
    with pytest.raises(ValueError, match="`table` has no rows"):
        Cohort.of(PERSONS.iloc[:0])
