"""Malformed input: one row a mistake, with the exact words that the user reads."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from mistakes import check

from sksurvgpu.data.by_column import check_penalty_factor, check_time_varying
from sksurvgpu.data.checks import check_offset, check_sample_weight
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.counts import matched
from sksurvgpu.data.outcomes.survival import as_sksurv, read_outcome, surv

NAMES = np.array(["age", "sex", "dose"], dtype=object)
TWICE = np.array(["age", "age"], dtype=object)
Y = surv([1, 0], [1, 2])


def frame(values, dtype=None):
    return pd.DataFrame({"ok": [1, 2], "bad": pd.Series(values, dtype=dtype)})


DESIGNS = {
    "string": ("abc", TypeError, "`X`...str"),
    "none": (None, TypeError, "`X`...NoneType"),
    "dictionary": ({"a": [1]}, TypeError, "`X`...dict"),
    "one-dimensional": (np.ones(4), ValueError, "`X`...(4,)...two-dimensional"),
    "one-dimensional sparse": (
        sp.coo_array(np.ones(4)),
        ValueError,
        "`X`...(4,)...two-dimensional",
    ),
    "no rows": (np.ones((0, 3)), ValueError, "`X`...0 sample...minimum of 1"),
    "no columns": (pd.DataFrame(index=[1, 2]), ValueError, "`X`...0 feature...minimum of 1"),
    "too many rows": (sp.coo_array((2**31, 1)), ValueError, "`X`...2,147,483,648 rows...int32"),
    "ragged": ([[1, 2], [3]], ValueError, "`X`...a list of rows of different lengths"),
    "complex": (np.array([[1j]]), ValueError, "`X`...complex128...real numbers"),
    "complex sparse": (
        sp.csr_array(np.array([[1j]])),
        ValueError,
        "`X`...complex128...real numbers",
    ),
    "text array": (np.array([["a"]]), TypeError, "`X`...<U1...pass numbers...one-hot encode"),
    "dates array": (
        np.array([["2020-01-01"]], dtype="M8[D]"),
        TypeError,
        "`X`...datetime64[D]...pass numbers...one-hot encode",
    ),
    "objects": (np.array([[1.0, {}]], dtype=object), TypeError, "`X`...object...one-hot encode"),
    "masked": (np.ma.array([[1, 2]], mask=[[False, True]]), ValueError, "`X`...1 masked"),
    "nan": (np.array([[1, 2], [np.nan, 3], [np.inf, 4]]), ValueError, "`X`...2 NaN...column 0"),
    "nan in two columns": (
        np.array([[1, -np.inf, 2], [1, 3, np.nan]]),
        ValueError,
        "`X`...1 NaN...column 1",
    ),
    "nan in a sparse column": (
        sp.csr_array(np.array([[0, 1, np.nan], [0, 1, 0]])),
        ValueError,
        "`X`...1 NaN...column 2",
    ),
    "pandas objects": (
        frame(["a", "b"], object),
        TypeError,
        "`X`...column 'bad'...object...pass numbers...one-hot encode",
    ),
    "pandas category": (
        frame([1, 2], "category"),
        TypeError,
        "`X`...column 'bad'...category...pass numbers...one-hot encode",
    ),
    "pandas string": (
        frame(["a", "b"], "string"),
        TypeError,
        "`X`...column 'bad'...string...pass numbers...one-hot encode",
    ),
    "pandas intervals": (
        frame(pd.IntervalIndex.from_breaks([0, 1, 2])),
        TypeError,
        "`X`...column 'bad'...interval[int64...pass numbers...one-hot encode",
    ),
    "pandas date": (
        frame(["2020-01-01", "2021-01-01"], "datetime64[ns]"),
        TypeError,
        "`X`...column 'bad'...datetime64[ns]...pass numbers...one-hot encode",
    ),
    "pandas number as label": (
        pd.DataFrame({7: ["a"]}, dtype=object),
        TypeError,
        "`X`...column 7...object...pass numbers...one-hot encode",
    ),
    "pandas NA": (frame([1, None], "Int64"), ValueError, "`X`...1 NaN...column 'bad'"),
    "pandas boolean NA": (frame([True, None], "boolean"), ValueError, "`X`...1 NaN...column 'bad'"),
    "pandas sparse NaN": (
        frame([0.0, np.nan], pd.SparseDtype(float, 0.0)),
        ValueError,
        "`X`...1 NaN...column 'bad'",
    ),
    "pandas sparse filled with NaN": (
        frame([1.0, np.nan], pd.SparseDtype(float)),
        ValueError,
        "`X`...1 NaN...column 'bad'",
    ),
    "polars string": (
        pl.DataFrame({"bad": ["a"]}),
        TypeError,
        "`X`...column 'bad'...String...pass numbers...one-hot encode",
    ),
    "polars null": (
        pl.DataFrame({"ok": [1, 2], "bad": [None, 2]}),
        ValueError,
        "`X`...1 NaN...column 'bad'",
    ),
    "polars boolean null": (
        pl.DataFrame({"bad": [None, True]}),
        ValueError,
        "`X`...1 NaN...column 'bad'",
    ),
    "polars lazy": (pl.LazyFrame({"a": [1]}), TypeError, "`X`...a lazy frame...collect()"),
}


@pytest.mark.parametrize("case", DESIGNS)
def test_bad_design(case):
    X, error, words = DESIGNS[case]
    check(lambda: build_design(X), error, words)


def test_name_of_the_argument_is_used():
    with pytest.raises(
        ValueError, match=r"^`covariates` has shape \(2,\).*data: covariates\.reshape"
    ):
        build_design([1, 2], name="covariates")


OUTCOMES = {
    "event lengths": (lambda: surv([1, 0], [1.0]), ValueError, "`time`...1 entries...one per row"),
    "label lengths": (
        lambda: surv([1, 0], [1, 2], subject=["a"]),
        ValueError,
        "`subject`...1 entries...one per row",
    ),
    "several kinds of event": (
        lambda: surv([1, 2], [1, 2]),
        ValueError,
        "`event`...2...row 1...bool or 0/1",
    ),
    "event nan": (
        lambda: surv([1, np.nan], [1, 2]),
        ValueError,
        "`event`...nan...row 1...bool or 0/1; drop or fill such rows.",
    ),
    "event none": (lambda: surv([True, None], [1, 2]), ValueError, "`event`...1 missing"),
    "event text": (
        lambda: surv(["yes", "no"], [1, 2]),
        TypeError,
        "`event`...<U3...booleans or 0/1",
    ),
    "event two-dimensional": (
        lambda: surv([[1, 0]], [1, 2]),
        ValueError,
        "`event`...(1, 2)...one-dimensional",
    ),
    "event ragged": (
        lambda: surv([[1, 0], 1], [1, 2]),
        ValueError,
        "`event`...one-dimensional...ragged",
    ),
    "scalar": (lambda: surv(1, 2.0), ValueError, "`event`...1...one-dimensional"),
    "time boolean": (
        lambda: surv([1, 0], [True, False]),
        TypeError,
        "`time`...bool...pass numbers",
    ),
    "time as durations": (
        lambda: surv([1, 0], np.array([5, 7], "timedelta64[D]")),
        TypeError,
        "`time`...timedelta64[D]...pass numbers",
    ),
    "time text": (lambda: surv([1, 0], ["1", "2"]), TypeError, "`time`...<U1...pass numbers"),
    "time negative": (
        lambda: surv([1, 0], [1, -2.5]),
        ValueError,
        "`time`...-2.5...row 1...at least 0",
    ),
    "time infinite": (lambda: surv([1, 0], [np.inf, np.nan]), ValueError, "`time`...2 NaN"),
    "time pandas missing": (
        lambda: surv([1, 0], pd.Series([1, None], dtype="Int64")),
        ValueError,
        "`time`...1 missing",
    ),
    "time polars missing": (
        lambda: surv([1, 0], pl.Series([1, None])),
        ValueError,
        "`time`...1 missing",
    ),
    "time masked": (
        lambda: surv([1, 0], np.ma.array([1.0, 2.0], mask=[False, True])),
        ValueError,
        "`time`...1 masked",
    ),
    "records masked": (
        lambda: read_outcome(np.ma.array(Y, mask=[(False, True), (False, False)])),
        ValueError,
        "`y`...1 masked",
    ),
    "start negative": (
        lambda: surv([1, 0], [1, 2], start=[-1, 0]),
        ValueError,
        "`start`...-1...row 0...at least 0",
    ),
    "start infinite": (
        lambda: surv([1, 0], [1, 2], start=[-np.inf, 0]),
        ValueError,
        "`start`...1 NaN",
    ),
    "start not before time": (
        lambda: surv([1, 0, 1], [1, 2, 3], start=[0, 2, 3.5]),
        ValueError,
        "`start`...before `time`...start 2 and time 2...empty",
    ),
    "label none": (
        lambda: surv([1, 0], [1, 2], stratum=["a", None]),
        ValueError,
        "`stratum`...1 missing",
    ),
    "label nan among strings": (
        lambda: surv([1, 0], [1, 2], subject=["a", np.nan]),
        ValueError,
        "`subject`...1 missing",
    ),
    "label category missing": (
        lambda: read_outcome(Y, strata=pd.Series(["a", None], dtype="category")),
        ValueError,
        "`strata`...1 missing",
    ),
    "labels mixed": (
        lambda: read_outcome(Y, strata=[1, "a"]),
        TypeError,
        "`strata`...all integers or all strings",
    ),
    "labels fractional": (
        lambda: read_outcome(Y, strata=[1.5, 1]),
        TypeError,
        "`strata`...float64...integers or strings",
    ),
    "labels infinite": (
        lambda: read_outcome(Y, strata=np.array([np.inf, 1])),
        TypeError,
        "`strata`...float64...integers or strings",
    ),
    "labels dates": (
        lambda: read_outcome(Y, strata=np.array(["2020", "2021"], dtype="M8[Y]")),
        TypeError,
        "`strata`...datetime64[Y]...integers or strings",
    ),
    "label masked": (
        lambda: read_outcome(Y, strata=np.ma.array(["a", "b"], mask=[True, False])),
        ValueError,
        "`strata`...1 masked",
    ),
    "strata length": (
        lambda: read_outcome(Y, strata=[1, 2, 3]),
        ValueError,
        "`strata`...3 entries...one per row",
    ),
    "strata twice": (
        lambda: read_outcome(surv([1, 0], [1, 2], stratum=[1, 2]), strata=[1, 2]),
        ValueError,
        "`strata`...field 'stratum'...in one place",
    ),
    "y none": (
        lambda: read_outcome(None),
        ValueError,
        "target y is None...sksurvgpu.surv(event, time)",
    ),
    "y frame": (
        lambda: read_outcome(pd.DataFrame({"event": [1], "time": [1]})),
        TypeError,
        "`y`...DataFrame...structured array...sksurvgpu.surv(event, time)",
    ),
    "y plain": (
        lambda: read_outcome(np.ones(3)),
        TypeError,
        "`y`...float64...structured array...sksurvgpu.surv(event, time)",
    ),
    "y plain for metrics": (
        lambda: as_sksurv(np.ones(3)),
        TypeError,
        "`y`...float64...structured array...sksurvgpu.surv(event, time)",
    ),
    "y of another model for metrics": (
        lambda: as_sksurv(matched([1, 0], [0, 0])),
        TypeError,
        "`y`...'case'...'stratum'...of matched...sksurvgpu.surv(event, time)",
    ),
    "y two-dimensional": (
        lambda: read_outcome(Y[:, None]),
        ValueError,
        "`y`...(2, 1)...one-dimensional",
    ),
    "y length": (lambda: read_outcome(Y, n_rows=1000), ValueError, "`y`...2 entries...one per row"),
    "y empty": (lambda: read_outcome(Y[:0]), ValueError, "`y`...no rows"),
    "y without events": (
        lambda: read_outcome(surv([0, 0], [1, 2])),
        ValueError,
        "`y`...no event...2 rows",
    ),
    "y event not bool": (
        lambda: read_outcome(np.array([(1, 2.0)], dtype=[("status", "i8"), ("t", "f8")])),
        TypeError,
        "`y`...int64...sksurvgpu.surv(event, time)",
    ),
    "y unknown field": (
        lambda: read_outcome(np.array([(1, 2.0, 3)], dtype="?, f8, f8")),
        ValueError,
        "`y`...field 'f2'...that a survival outcome cannot have",
    ),
    "y by hand, negative time": (
        lambda: read_outcome(np.array([(1, -2.0)], dtype="?, f8")),
        ValueError,
        "`time`...-2...row 0...at least 0",
    ),
    "y by hand, time nan": (
        lambda: read_outcome(np.array([(1, np.nan)], dtype="?, f8")),
        ValueError,
        "`time`...1 NaN",
    ),
    "y by hand, start at time": (
        lambda: read_outcome(
            np.array([(1, 3.0, 3.0)], dtype=[("event", "?"), ("time", "f8"), ("start", "f8")])
        ),
        ValueError,
        "`start`...before `time`...start 3 and time 3...empty",
    ),
}

ARGUMENTS = {
    "weight length": (
        lambda: check_sample_weight([1.0], 2),
        ValueError,
        "`sample_weight`...1 entries...one per row",
    ),
    "weight negative": (
        lambda: check_sample_weight([1, -0.5], 2),
        ValueError,
        "`sample_weight`...-0.5...row 1...at least 0",
    ),
    "weight nan": (
        lambda: check_sample_weight([1, np.nan], 2),
        ValueError,
        "`sample_weight`...1 NaN",
    ),
    "weight zero": (
        lambda: check_sample_weight([0, 0], 2),
        ValueError,
        "`sample_weight`...one must be positive",
    ),
    "weight zero at events": (
        lambda: check_sample_weight([0, 1, 0], 3, np.array([True, False, True])),
        ValueError,
        "`sample_weight`...2 rows...one must be positive",
    ),
    "weight overflow": (
        lambda: check_sample_weight([1e308, 1e308], 2),
        ValueError,
        "`sample_weight`...infinite sum",
    ),
    "weight two-dimensional": (
        lambda: check_sample_weight(np.ones((2, 1)), 2),
        ValueError,
        "`sample_weight`...(2, 1)...one-dimensional",
    ),
    "offset text": (
        lambda: check_offset(["a", "b"], 2),
        TypeError,
        "`offset`...<U1...pass numbers",
    ),
    "offset infinite": (lambda: check_offset([0, -np.inf], 2), ValueError, "`offset`...1 NaN"),
    "factor length": (
        lambda: check_penalty_factor([1, 1], 3),
        ValueError,
        "`penalty_factor`...2 entries...one per column...dictionary",
    ),
    "factor negative": (
        lambda: check_penalty_factor([1, -1, 1], 3),
        ValueError,
        "`penalty_factor`...-1 in position 1...at least 0",
    ),
    "factor of a column": (
        lambda: check_penalty_factor({"age": "none"}, 3, NAMES),
        ValueError,
        "`penalty_factor`...'none'...finite number",
    ),
    "factor infinite": (
        lambda: check_penalty_factor({0: np.inf}, 3),
        ValueError,
        "`penalty_factor`...inf...finite number",
    ),
    "misspelt column": (
        lambda: check_penalty_factor({"does": 0}, 3, NAMES),
        ValueError,
        "`penalty_factor`...column 'does'...which `X` does not have...did you mean",
    ),
    "unknown column": (
        lambda: check_penalty_factor({"weight": 0}, 3, NAMES),
        ValueError,
        "`penalty_factor`...column 'weight'...which `X` does not have",
    ),
    "repeated column name": (
        lambda: check_penalty_factor({"age": 0}, 2, TWICE),
        ValueError,
        "`penalty_factor`...column 'age'...use positions",
    ),
    "column without names": (
        lambda: check_penalty_factor({"age": 0}, 3),
        ValueError,
        "`penalty_factor`...column 'age'...no column names...use positions",
    ),
    "column twice": (
        lambda: check_penalty_factor({"sex": 0, 1: 2}, 3, NAMES),
        ValueError,
        "`penalty_factor`...column 1...twice",
    ),
    "column out of range": (
        lambda: check_time_varying({3: [1]}, 3),
        ValueError,
        "`time_varying`...column 3...columns 0 to",
    ),
    "column negative": (
        lambda: check_time_varying({-1: [1]}, 3),
        ValueError,
        "`time_varying`...columns 0 to",
    ),
    "column key": (
        lambda: check_time_varying({1.5: [1]}, 3),
        TypeError,
        "`time_varying`...float...name or position",
    ),
    "time-varying list": (
        lambda: check_time_varying(["age"], 3),
        TypeError,
        "`time_varying`...list...dictionary",
    ),
    "no cut point": (
        lambda: check_time_varying({"age": []}, 3, NAMES),
        ValueError,
        "`time_varying['age']`...empty",
    ),
    "cut points not increasing": (
        lambda: check_time_varying({"age": [1, 3, 3]}, 3, NAMES),
        ValueError,
        "`time_varying['age']`...[1.0, 3.0, 3.0]...must be positive...strictly increasing",
    ),
    "cut point zero": (
        lambda: check_time_varying({0: [0, 1]}, 3),
        ValueError,
        "`time_varying[0]`...[0.0, 1.0]...must be positive...strictly increasing",
    ),
    "cut point infinite": (
        lambda: check_time_varying({0: [1, np.inf]}, 3),
        ValueError,
        "`time_varying[0]`...1 NaN...finite number",
    ),
}


@pytest.mark.parametrize("case", [*OUTCOMES, *ARGUMENTS])
def test_bad_outcome_or_argument(case):
    check(*(OUTCOMES | ARGUMENTS)[case])


def test_no_case_is_overwritten():
    assert not set(OUTCOMES) & set(ARGUMENTS)
