"""Malformed input: one row a mistake, with the exact words that the user reads."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from sksurvgpu.data.by_column import check_penalty_factor, check_time_varying
from sksurvgpu.data.checks import check_offset, check_sample_weight
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.survival import as_sksurv, read_outcome, surv

NAMES = np.array(["age", "sex", "dose"], dtype=object)
TWICE = np.array(["age", "age"], dtype=object)
Y = surv([1, 0], [1, 2])
BUILD = "build it with sksurvgpu.surv(event, time)"
ENCODE = (
    "pass numbers: one-hot encode categories (sklearn.preprocessing.OneHotEncoder), turn dates "
    "into durations, cast numbers kept as objects to float."
)
TABLE = "pass a scipy sparse matrix, a NumPy array or a pandas or polars DataFrame."


def frame(values, dtype=None):
    return pd.DataFrame({"ok": [1, 2], "bad": pd.Series(values, dtype=dtype)})


DESIGNS = {
    "string": ("abc", TypeError, f"`X` is of type str; {TABLE}"),
    "none": (None, TypeError, f"`X` is of type NoneType; {TABLE}"),
    "dictionary": ({"a": [1]}, TypeError, f"`X` is of type dict; {TABLE}"),
    "one-dimensional": (
        np.ones(4),
        ValueError,
        "`X` has shape (4,), must be two-dimensional: one row per observation, one column per "
        "covariate. Reshape your data: X.reshape(1, -1) for a single row (X.to_frame().T of "
        "pandas), X.reshape(-1, 1) for a single column.",
    ),
    "one-dimensional sparse": (
        sp.coo_array(np.ones(4)),
        ValueError,
        "`X` has shape (4,), must be two-dimensional: one row per observation, one column per "
        "covariate. Reshape your data: X.reshape(1, -1) for a single row (X.to_frame().T of "
        "pandas), X.reshape(-1, 1) for a single column.",
    ),
    "no rows": (
        np.ones((0, 3)),
        ValueError,
        "`X` has 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required.",
    ),
    "no columns": (
        pd.DataFrame(index=[1, 2]),
        ValueError,
        "`X` has 0 feature(s) (shape=(2, 0)) while a minimum of 1 is required.",
    ),
    "too many rows": (
        sp.coo_array((2**31, 1)),
        ValueError,
        "`X` has 2,147,483,648 rows; row indices are int32, so at most 2,147,483,647 fit.",
    ),
    "ragged": (
        [[1, 2], [3]],
        ValueError,
        "`X` is a list of rows of different lengths; pass one value per column.",
    ),
    "complex": (
        np.array([[1j]]),
        ValueError,
        "Complex data not supported: `X` has dtype complex128; pass real numbers.",
    ),
    "complex sparse": (
        sp.csr_array(np.array([[1j]])),
        ValueError,
        "Complex data not supported: `X` has dtype complex128; pass real numbers.",
    ),
    "text array": (
        np.array([["a"]]),
        TypeError,
        "`X` has dtype <U1; pass numbers: one-hot encode categories, turn dates into durations.",
    ),
    "dates array": (
        np.array([["2020-01-01"]], dtype="M8[D]"),
        TypeError,
        "`X` has dtype datetime64[D]; pass numbers: one-hot encode categories, turn dates into "
        "durations.",
    ),
    "objects": (
        np.array([[1.0, {}]], dtype=object),
        TypeError,
        "`X` has dtype object and cannot be read as numbers (float() argument must be a string "
        "or a real number, not 'dict'); one-hot encode categories and pass a numeric array.",
    ),
    "masked": (
        np.ma.array([[1, 2]], mask=[[False, True]]),
        ValueError,
        "`X` is a masked array with 1 masked (NaN) entries; impute them or drop those rows.",
    ),
    "nan": (
        np.array([[1, 2], [np.nan, 3], [np.inf, 4]]),
        ValueError,
        "`X` has 2 NaN or infinite value(s) in column 0; impute them or drop those rows.",
    ),
    "nan in two columns": (
        np.array([[1, -np.inf, 2], [1, 3, np.nan]]),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 1 (and 1 more column(s) have some); impute "
        "them or drop those rows.",
    ),
    "nan in a sparse column": (
        sp.csr_array(np.array([[0, 1, np.nan], [0, 1, 0]])),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 2; impute them or drop those rows.",
    ),
    "pandas objects": (
        frame(["a", "b"], object),
        TypeError,
        f"`X` column 'bad' has dtype object; {ENCODE}",
    ),
    "pandas category": (
        frame([1, 2], "category"),
        TypeError,
        f"`X` column 'bad' has dtype category; {ENCODE}",
    ),
    "pandas string": (
        frame(["a", "b"], "string"),
        TypeError,
        f"`X` column 'bad' has dtype string; {ENCODE}",
    ),
    "pandas intervals": (
        frame(pd.IntervalIndex.from_breaks([0, 1, 2])),
        TypeError,
        f"`X` column 'bad' has dtype interval[int64, right]; {ENCODE}",
    ),
    "pandas date": (
        frame(["2020-01-01", "2021-01-01"], "datetime64[ns]"),
        TypeError,
        f"`X` column 'bad' has dtype datetime64[ns]; {ENCODE}",
    ),
    "pandas number as label": (
        pd.DataFrame({7: ["a"]}, dtype=object),
        TypeError,
        f"`X` column 7 has dtype object; {ENCODE}",
    ),
    "pandas NA": (
        frame([1, None], "Int64"),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 'bad'; impute them or drop those rows.",
    ),
    "pandas boolean NA": (
        frame([True, None], "boolean"),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 'bad'; impute them or drop those rows.",
    ),
    "pandas sparse NaN": (
        frame([0.0, np.nan], pd.SparseDtype(float, 0.0)),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 'bad'; impute them or drop those rows.",
    ),
    "pandas sparse filled with NaN": (
        frame([1.0, np.nan], pd.SparseDtype(float)),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 'bad'; impute them or drop those rows.",
    ),
    "polars string": (
        pl.DataFrame({"bad": ["a"]}),
        TypeError,
        f"`X` column 'bad' has dtype String; {ENCODE}",
    ),
    "polars null": (
        pl.DataFrame({"ok": [1, 2], "bad": [None, 2]}),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 'bad'; impute them or drop those rows.",
    ),
    "polars boolean null": (
        pl.DataFrame({"bad": [None, True]}),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 'bad'; impute them or drop those rows.",
    ),
    "polars lazy": (
        pl.LazyFrame({"a": [1]}),
        TypeError,
        "`X` is a lazy frame; pass X.collect().",
    ),
}


@pytest.mark.parametrize("case", DESIGNS)
def test_bad_design(case):
    X, kind, message = DESIGNS[case]
    with pytest.raises(kind) as error:
        build_design(X)
    assert str(error.value) == message


def test_name_of_the_argument_is_used():
    with pytest.raises(
        ValueError, match=r"^`covariates` has shape \(2,\).*data: covariates\.reshape"
    ):
        build_design([1, 2], name="covariates")


MISSING = "has 1 missing value(s); drop or fill those rows first."

OUTCOMES = {
    "event lengths": (
        lambda: surv([1, 0], [1.0]),
        ValueError,
        "`time` has 1 entries, `event` has 2 entries; pass one per row.",
    ),
    "label lengths": (
        lambda: surv([1, 0], [1, 2], subject=["a"]),
        ValueError,
        "`subject` has 1 entries, `event` has 2 entries; pass one per row.",
    ),
    "several kinds of event": (
        lambda: surv([1, 2], [1, 2]),
        ValueError,
        "`event` is 2 in row 1, must be bool or 0/1; were `event` and `time` swapped, or are "
        "there several kinds of event? Codes 1 and 2, as R takes them, are event == 2.",
    ),
    "event nan": (
        lambda: surv([1, np.nan], [1, 2]),
        ValueError,
        "`event` is nan in row 1, must be bool or 0/1; were `event` and `time` swapped, or are "
        "there several kinds of event? Codes 1 and 2, as R takes them, are event == 2.",
    ),
    "event none": (
        lambda: surv([True, None], [1, 2]),
        ValueError,
        f"`event` {MISSING}",
    ),
    "event text": (
        lambda: surv(["yes", "no"], [1, 2]),
        TypeError,
        "`event` has dtype <U3; pass booleans or 0/1, of labels such as labels == 'yes'.",
    ),
    "event two-dimensional": (
        lambda: surv([[1, 0]], [1, 2]),
        ValueError,
        "`event` has shape (1, 2), must be one-dimensional; pass a flat array or column.",
    ),
    "event ragged": (
        lambda: surv([[1, 0], 1], [1, 2]),
        ValueError,
        "`event` must be one-dimensional; its entries are ragged.",
    ),
    "scalar": (
        lambda: surv(1, 2.0),
        ValueError,
        "`event` is 1, must be one-dimensional; pass a flat array or column.",
    ),
    "time boolean": (
        lambda: surv([1, 0], [True, False]),
        TypeError,
        "`time` has dtype bool; pass numbers.",
    ),
    "time as durations": (
        lambda: surv([1, 0], np.array([5, 7], "timedelta64[D]")),
        TypeError,
        "`time` has dtype timedelta64[D]; pass numbers, such as (end - start).dt.days.",
    ),
    "time text": (
        lambda: surv([1, 0], ["1", "2"]),
        TypeError,
        "`time` has dtype <U1; pass numbers.",
    ),
    "time negative": (
        lambda: surv([1, 0], [1, -2.5]),
        ValueError,
        "`time` is -2.5 in row 1, must be at least 0.",
    ),
    "time infinite": (
        lambda: surv([1, 0], [np.inf, np.nan]),
        ValueError,
        "`time` has 2 NaN or infinite value(s), the first in row 0; drop or fill those rows.",
    ),
    "time pandas missing": (
        lambda: surv([1, 0], pd.Series([1, None], dtype="Int64")),
        ValueError,
        f"`time` {MISSING}",
    ),
    "time polars missing": (
        lambda: surv([1, 0], pl.Series([1, None])),
        ValueError,
        f"`time` {MISSING}",
    ),
    "time masked": (
        lambda: surv([1, 0], np.ma.array([1.0, 2.0], mask=[False, True])),
        ValueError,
        "`time` is a masked array with 1 masked (NaN) entries; impute them or drop those rows.",
    ),
    "records masked": (
        lambda: read_outcome(np.ma.array(Y, mask=[(False, True), (False, False)])),
        ValueError,
        "`y` is a masked array with 1 masked (NaN) entries; impute them or drop those rows.",
    ),
    "start negative": (
        lambda: surv([1, 0], [1, 2], start=[-1, 0]),
        ValueError,
        "`start` is -1 in row 0, must be at least 0.",
    ),
    "start infinite": (
        lambda: surv([1, 0], [1, 2], start=[-np.inf, 0]),
        ValueError,
        "`start` has 1 NaN or infinite value(s), the first in row 0; drop or fill those rows.",
    ),
    "start not before time": (
        lambda: surv([1, 0, 1], [1, 2, 3], start=[0, 2, 3.5]),
        ValueError,
        "`start` must be before `time`: row 1 has start 2 and time 2 (2 such row(s)); drop empty "
        "intervals.",
    ),
    "label none": (
        lambda: surv([1, 0], [1, 2], stratum=["a", None]),
        ValueError,
        f"`stratum` {MISSING}",
    ),
    "label nan among strings": (
        lambda: surv([1, 0], [1, 2], subject=["a", np.nan]),
        ValueError,
        f"`subject` {MISSING}",
    ),
    "label category missing": (
        lambda: read_outcome(Y, strata=pd.Series(["a", None], dtype="category")),
        ValueError,
        f"`strata` {MISSING}",
    ),
    "labels mixed": (
        lambda: read_outcome(Y, strata=[1, "a"]),
        TypeError,
        "`strata` has labels of type int, str; pass all integers or all strings.",
    ),
    "labels fractional": (
        lambda: read_outcome(Y, strata=[1.5, 1]),
        TypeError,
        "`strata` has labels of dtype float64; pass integers or strings.",
    ),
    "labels infinite": (
        lambda: read_outcome(Y, strata=np.array([np.inf, 1])),
        TypeError,
        "`strata` has labels of dtype float64; pass integers or strings.",
    ),
    "labels dates": (
        lambda: read_outcome(Y, strata=np.array(["2020", "2021"], dtype="M8[Y]")),
        TypeError,
        "`strata` has labels of dtype datetime64[Y]; pass integers or strings.",
    ),
    "label masked": (
        lambda: read_outcome(Y, strata=np.ma.array(["a", "b"], mask=[True, False])),
        ValueError,
        "`strata` is a masked array with 1 masked (NaN) entries; impute them or drop those rows.",
    ),
    "strata length": (
        lambda: read_outcome(Y, strata=[1, 2, 3]),
        ValueError,
        "`strata` has 3 entries, `y` has 2 entries; pass one per row.",
    ),
    "strata twice": (
        lambda: read_outcome(surv([1, 0], [1, 2], stratum=[1, 2]), strata=[1, 2]),
        ValueError,
        "`strata` was passed and `y` has a field 'stratum'; give the strata in one place.",
    ),
    "y none": (
        lambda: read_outcome(None),
        ValueError,
        f"This estimator requires y to be passed, but the target y is None; {BUILD}.",
    ),
    "y frame": (
        lambda: read_outcome(pd.DataFrame({"event": [1], "time": [1]})),
        TypeError,
        f"`y` is of type DataFrame, must be a structured array; {BUILD}, from a DataFrame with "
        "surv(df['event'], df['time']).",
    ),
    "y plain": (
        lambda: read_outcome(np.ones(3)),
        TypeError,
        f"`y` has dtype float64, must be a structured array with an event and a time; {BUILD}.",
    ),
    "y plain for metrics": (
        lambda: as_sksurv(np.ones(3)),
        TypeError,
        f"`y` has dtype float64, must be a structured array with an event and a time; {BUILD}.",
    ),
    "y two-dimensional": (
        lambda: read_outcome(Y[:, None]),
        ValueError,
        "`y` has shape (2, 1), must be one-dimensional.",
    ),
    "y length": (
        lambda: read_outcome(Y, n_rows=1000),
        ValueError,
        "`y` has 2 entries, `X` has 1,000 rows; pass one per row.",
    ),
    "y empty": (
        lambda: read_outcome(Y[:0]),
        ValueError,
        "`y` has no rows; pass at least one row with an event.",
    ),
    "y without events": (
        lambda: read_outcome(surv([0, 0], [1, 2])),
        ValueError,
        "`y` has no event (all 2 rows censored): a Cox model cannot be fitted.",
    ),
    "y event not bool": (
        lambda: read_outcome(np.array([(1, 2.0)], dtype=[("status", "i8"), ("t", "f8")])),
        TypeError,
        f"`y` has dtype int64 in its first field 'status', must be bool; {BUILD}; of several kinds "
        "of event take one with as_sksurv(y, event_of_interest=...).",
    ),
    "y unknown field": (
        lambda: read_outcome(np.array([(1, 2.0, 3)], dtype="?, f8, f8")),
        ValueError,
        "`y` has a field 'f2' that a survival outcome cannot have; after event and time only "
        "'start', 'stratum' and 'subject' are read.",
    ),
    "y by hand, negative time": (
        lambda: read_outcome(np.array([(1, -2.0)], dtype="?, f8")),
        ValueError,
        "`time` is -2 in row 0, must be at least 0.",
    ),
    "y by hand, time nan": (
        lambda: read_outcome(np.array([(1, np.nan)], dtype="?, f8")),
        ValueError,
        "`time` has 1 NaN or infinite value(s), the first in row 0; drop or fill those rows.",
    ),
    "y by hand, start at time": (
        lambda: read_outcome(
            np.array([(1, 3.0, 3.0)], dtype=[("event", "?"), ("time", "f8"), ("start", "f8")])
        ),
        ValueError,
        "`start` must be before `time`: row 0 has start 3 and time 3 (1 such row(s)); drop empty "
        "intervals.",
    ),
}

ARGUMENTS = {
    "weight length": (
        lambda: check_sample_weight([1.0], 2),
        ValueError,
        "`sample_weight` has 1 entries, `X` has 2 rows; pass one per row.",
    ),
    "weight negative": (
        lambda: check_sample_weight([1, -0.5], 2),
        ValueError,
        "`sample_weight` is -0.5 in row 1, must be at least 0.",
    ),
    "weight nan": (
        lambda: check_sample_weight([1, np.nan], 2),
        ValueError,
        "`sample_weight` has 1 NaN or infinite value(s), the first in row 1; drop or fill those "
        "rows.",
    ),
    "weight zero": (
        lambda: check_sample_weight([0, 0], 2),
        ValueError,
        "`sample_weight` is zero in every row; at least one must be positive.",
    ),
    "weight zero at events": (
        lambda: check_sample_weight([0, 1, 0], 3, np.array([True, False, True])),
        ValueError,
        "`sample_weight` is zero in all 2 rows with an event; at least one must be positive.",
    ),
    "weight overflow": (
        lambda: check_sample_weight([1e308, 1e308], 2),
        ValueError,
        "`sample_weight` has an infinite sum; rescale it, e.g. to mean 1.",
    ),
    "weight two-dimensional": (
        lambda: check_sample_weight(np.ones((2, 1)), 2),
        ValueError,
        "`sample_weight` has shape (2, 1), must be one-dimensional; pass a flat array or column.",
    ),
    "offset text": (
        lambda: check_offset(["a", "b"], 2),
        TypeError,
        "`offset` has dtype <U1; pass numbers.",
    ),
    "offset infinite": (
        lambda: check_offset([0, -np.inf], 2),
        ValueError,
        "`offset` has 1 NaN or infinite value(s), the first in row 1; drop or fill those rows.",
    ),
    "factor length": (
        lambda: check_penalty_factor([1, 1], 3),
        ValueError,
        "`penalty_factor` has 2 entries, `X` has 3 columns; pass one per column, or a dictionary "
        "{column: factor}.",
    ),
    "factor negative": (
        lambda: check_penalty_factor([1, -1, 1], 3),
        ValueError,
        "`penalty_factor` is -1 in position 1, must be at least 0.",
    ),
    "factor of a column": (
        lambda: check_penalty_factor({"age": "none"}, 3, NAMES),
        ValueError,
        "`penalty_factor` of column 'age' is 'none', must be a finite number of at least 0.",
    ),
    "factor infinite": (
        lambda: check_penalty_factor({0: np.inf}, 3),
        ValueError,
        "`penalty_factor` of column 0 is inf, must be a finite number of at least 0.",
    ),
    "misspelt column": (
        lambda: check_penalty_factor({"does": 0}, 3, NAMES),
        ValueError,
        "`penalty_factor` names column 'does', which `X` does not have; did you mean 'dose'?",
    ),
    "unknown column": (
        lambda: check_penalty_factor({"weight": 0}, 3, NAMES),
        ValueError,
        "`penalty_factor` names column 'weight', which `X` does not have.",
    ),
    "repeated column name": (
        lambda: check_penalty_factor({"age": 0}, 2, TWICE),
        ValueError,
        "`penalty_factor` names column 'age', which `X` has 2 times; use positions.",
    ),
    "column without names": (
        lambda: check_penalty_factor({"age": 0}, 3),
        ValueError,
        "`penalty_factor` names column 'age', but `X` has no column names; use positions or pass "
        "a DataFrame. In a pipeline NamedColumns, around the transformers, names them.",
    ),
    "column twice": (
        lambda: check_penalty_factor({"sex": 0, 1: 2}, 3, NAMES),
        ValueError,
        "`penalty_factor` names column 1 of `X` twice, as 'sex' and 1.",
    ),
    "column out of range": (
        lambda: check_time_varying({3: [1]}, 3),
        ValueError,
        "`time_varying` names column 3, `X` has columns 0 to 2.",
    ),
    "column negative": (
        lambda: check_time_varying({-1: [1]}, 3),
        ValueError,
        "`time_varying` names column -1, `X` has columns 0 to 2.",
    ),
    "column key": (
        lambda: check_time_varying({1.5: [1]}, 3),
        TypeError,
        "`time_varying` names a column 1.5 of type float; use its name or position.",
    ),
    "time-varying list": (
        lambda: check_time_varying(["age"], 3),
        TypeError,
        "`time_varying` is of type list; pass a dictionary {column: cut points}.",
    ),
    "no cut point": (
        lambda: check_time_varying({"age": []}, 3, NAMES),
        ValueError,
        "`time_varying['age']` is empty; give at least one cut point or leave the column out.",
    ),
    "cut points not increasing": (
        lambda: check_time_varying({"age": [1, 3, 3]}, 3, NAMES),
        ValueError,
        "`time_varying['age']` is [1.0, 3.0, 3.0]; cut points must be positive and strictly "
        "increasing.",
    ),
    "cut point zero": (
        lambda: check_time_varying({0: [0, 1]}, 3),
        ValueError,
        "`time_varying[0]` is [0.0, 1.0]; cut points must be positive and strictly increasing.",
    ),
    "cut point infinite": (
        lambda: check_time_varying({0: [1, np.inf]}, 3),
        ValueError,
        "`time_varying[0]` has 1 NaN or infinite value(s), the first in position 1; give finite "
        "numbers.",
    ),
}


@pytest.mark.parametrize("case", [*OUTCOMES, *ARGUMENTS])
def test_bad_outcome_or_argument(case):
    call, kind, message = (OUTCOMES | ARGUMENTS)[case]
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == message


def test_no_case_is_overwritten():
    assert not set(OUTCOMES) & set(ARGUMENTS)
