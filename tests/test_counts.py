"""Case series, matched sets, counts and numbers: what a fit reads, and every refusal."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import DataConversionWarning

from sksurvgpu.data.checks import check_exposure, check_weight_by_group
from sksurvgpu.data.outcomes.counts import (
    case_series,
    matched,
    read_case_series,
    read_counts,
    read_matched,
    read_numbers,
)
from sksurvgpu.data.outcomes.survival import surv
from sksurvgpu.exceptions import NothingToCompareError

COUNT = [0, 2, 1]
LENGTH = [30.0, 12.5, 8.0]
SUBJECT = ["b", "b", "a"]
SERIES = case_series(COUNT, LENGTH, SUBJECT)
CASE = [1, 0, 0, 1]
SET = [8, 8, 7, 7]
SETS = matched(CASE, SET)

CONTAINERS = {
    "list": list,
    "numpy": np.array,
    "floats": lambda values: np.array(values, dtype=np.float32),
    "objects": lambda values: np.array(values, dtype=object),
    "strided": lambda values: np.repeat(np.array(values), 2)[::2],
    "pandas": lambda values: pd.Series(values, index=range(9, 9 - len(values), -1)),
    "nullable": lambda values: pd.Series(values).convert_dtypes(),
    "polars": pl.Series,
}


@pytest.fixture(params=CONTAINERS)
def make(request):
    return CONTAINERS[request.param]


def test_case_series_reads_every_container(make):
    y = case_series(make(COUNT), LENGTH, SUBJECT)
    assert y.dtype == np.dtype([("count", "i8"), ("length", "f8"), ("subject", "<U1")])
    assert y["count"].tolist() == COUNT
    assert y["length"].tolist() == LENGTH
    assert y["subject"].tolist() == SUBJECT


def test_matched_reads_every_container(make):
    y = matched(make(CASE), pd.Series(SET))
    assert y.dtype == np.dtype([("case", "?"), ("stratum", "i8")])
    assert y["case"].tolist() == [True, False, False, True]
    assert y["stratum"].tolist() == SET


@pytest.mark.parametrize("read", [read_counts, read_numbers])
def test_plain_vectors_from_every_container(read, make):
    outcome = read(make(COUNT), n_rows=3)
    assert outcome.value.dtype == np.float64
    assert outcome.value.flags.c_contiguous
    assert outcome.value.tolist() == COUNT
    assert outcome.n_rows == 3
    assert outcome.group is outcome.group_labels is outcome.offset is None


def test_numbers_may_have_any_sign_and_no_events():
    outcome = read_numbers(np.array([-1.5, 0.0, True, 2.5], dtype=object))
    assert outcome.value.tolist() == [-1.5, 0.0, 1.0, 2.5]
    assert outcome.event is None
    assert read_numbers([False, False]).value.tolist() == [0.0, 0.0]


def test_counts_may_be_fractions_or_flags():
    assert read_counts([0.5, 0]).value.tolist() == [0.5, 0.0]
    assert read_counts([True, False]).value.tolist() == [1.0, 0.0]


def test_counts_with_strata_and_exposure():
    outcome = read_counts([0, 2, 1], strata=["v", "u", "u"], exposure=[1, 10, 2.5])
    assert outcome.group.dtype == np.int64
    assert outcome.group.tolist() == [1, 0, 0]
    assert outcome.group_labels.tolist() == ["u", "v"]
    np.testing.assert_array_equal(outcome.offset, np.log([1, 10, 2.5]))
    assert outcome.event.tolist() == [False, True, True]


@pytest.mark.parametrize("read", [read_counts, read_numbers])
@pytest.mark.parametrize("kind", [np.array, list, pd.DataFrame])
def test_column_vector_is_flattened_with_a_warning(read, kind):
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array"):
        outcome = read(kind([[1], [2]]), n_rows=2)
    assert outcome.value.tolist() == [1.0, 2.0]


def test_read_case_series():
    outcome = read_case_series(SERIES, n_rows=3)
    assert outcome.value.dtype == np.float64
    assert outcome.value.tolist() == COUNT
    assert outcome.group.tolist() == [1, 1, 0]
    assert outcome.group_labels.tolist() == ["a", "b"]
    np.testing.assert_array_equal(outcome.offset, np.log(LENGTH))
    assert outcome.event.tolist() == [False, True, True]
    assert outcome.event.dtype == np.bool_
    assert outcome.n_rows == 3


def test_fields_of_a_case_series_are_known_by_name():
    dtype = [("subject", "i4"), ("count", "f4"), ("length", "i2")]
    y = np.array([(7, 1, 3), (7, 0, 4)], dtype=dtype)
    outcome = read_case_series(y)
    assert outcome.value.tolist() == [1.0, 0.0]
    assert outcome.group_labels.tolist() == [7]


@pytest.mark.parametrize("given", ["structured", "vector", "column"])
def test_read_matched(given):
    if given == "structured":
        outcome = read_matched(SETS, n_rows=4)
    elif given == "vector":
        outcome = read_matched(CASE, n_rows=4, strata=SET)
    else:
        with pytest.warns(DataConversionWarning):
            outcome = read_matched(np.array(CASE)[:, None], n_rows=4, strata=SET)
    assert outcome.value.dtype == np.float64
    assert outcome.value.tolist() == CASE
    assert outcome.group.tolist() == [1, 1, 0, 0]
    assert outcome.group_labels.tolist() == [7, 8]
    assert outcome.offset is None


def test_one_informative_group_is_enough():
    y = case_series([1, 1, 1, 0], [1, 1, 1, 1], ["single", "pair", "other", "pair"])
    assert read_case_series(y).group_labels.size == 3
    y = matched([1, 1, 0, 0, 1], ["cases", "cases", "controls", "both", "both"])
    assert read_matched(y).group_labels.size == 3


def test_rows_of_a_group_may_stand_apart():
    assert read_matched([1, 1, 1, 0, 0, 1], strata=[3, 2, 1, 3, 2, 1]).n_rows == 6


def test_exposure():
    assert check_exposure(None, 3) is None
    assert check_exposure(pd.Series([1, 2]), 2).tolist() == [1.0, 2.0]


def test_weights_by_group():
    group, labels = np.array([1, 0, 1, 0]), np.array(["u", "v"])
    check_weight_by_group(None, group, labels, "stratum")
    check_weight_by_group(np.array([2.0, 0, 2, 0]), group, labels, "stratum")
    check_weight_by_group(np.array([1.0, 2, 3, 4]), None, None, "stratum")


BUILD_SERIES = "build it with sksurvgpu.case_series(count, length, subject)"
BUILD_SETS = "build it with sksurvgpu.matched(case, stratum)"
COUNTS = "pass numbers of events: whole numbers of at least 0."
MISSING = "has 1 missing value(s); drop or fill those rows first."
NOT_FINITE = "has 1 NaN or infinite value(s), the first in row 1; drop or fill those rows."

BUILDERS = {
    "count fractional": (
        lambda: case_series([1, 0.5], [1, 1], [1, 1]),
        ValueError,
        f"`count` is 0.5 in row 1; {COUNTS}",
    ),
    "count negative": (
        lambda: case_series([-1, 0], [1, 1], [1, 1]),
        ValueError,
        f"`count` is -1 in row 0; {COUNTS}",
    ),
    "count nan": (
        lambda: case_series([1, np.nan], [1, 1], [1, 1]),
        ValueError,
        f"`count` is nan in row 1; {COUNTS}",
    ),
    "count text": (
        lambda: case_series(["one"], [1], [1]),
        TypeError,
        f"`count` has dtype <U3; {COUNTS}",
    ),
    "count missing": (
        lambda: case_series(pd.Series([1, None], dtype="Int64"), [1, 1], [1, 1]),
        ValueError,
        f"`count` {MISSING}",
    ),
    "length zero": (
        lambda: case_series([1, 0], [1, 0], [1, 1]),
        ValueError,
        "`length` is 0 in row 1, must be positive; drop rows that were never observed.",
    ),
    "length infinite": (
        lambda: case_series([1, 0], [1, np.inf], [1, 1]),
        ValueError,
        f"`length` {NOT_FINITE}",
    ),
    "length text": (
        lambda: case_series([1], ["1"], [1]),
        TypeError,
        "`length` has dtype <U1; pass numbers.",
    ),
    "lengths differ": (
        lambda: case_series([1, 0], [1], [1, 1]),
        ValueError,
        "`length` has 1 entries, `count` has 2 entries; pass one per row.",
    ),
    "subject fractional": (
        lambda: case_series([1], [1], [1.5]),
        TypeError,
        "`subject` has labels of dtype float64; pass integers or strings.",
    ),
    "subject missing": (
        lambda: case_series([1, 0], [1, 1], ["a", None]),
        ValueError,
        f"`subject` {MISSING}",
    ),
    "case not a flag": (
        lambda: matched([1, 2], [1, 1]),
        ValueError,
        "`case` is 2 in row 1, must be bool or 0/1.",
    ),
    "case text": (
        lambda: matched(["yes"], [1]),
        TypeError,
        "`case` has dtype <U3; pass booleans or 0/1, of labels such as labels == 'yes'.",
    ),
    "stratum short": (
        lambda: matched([1, 0], [1]),
        ValueError,
        "`stratum` has 1 entries, `case` has 2 entries; pass one per row.",
    ),
}

STRUCTURED = {
    "series none": (
        lambda: read_case_series(None),
        ValueError,
        f"This estimator requires y to be passed, but the target y is None; {BUILD_SERIES}.",
    ),
    "series frame": (
        lambda: read_case_series(pd.DataFrame(SERIES)),
        TypeError,
        f"`y` is of type DataFrame, must be a structured array; {BUILD_SERIES}, from a DataFrame "
        "with case_series(df['count'], df['length'], df['subject']).",
    ),
    "series plain": (
        lambda: read_case_series(np.ones(3)),
        TypeError,
        "`y` has dtype float64, must be a structured array with a count, a length and a subject; "
        f"{BUILD_SERIES}.",
    ),
    "series of another model": (
        lambda: read_case_series(surv([1], [1], subject=[1])),
        ValueError,
        f"`y` has a field 'event', must have 'count', 'length', 'subject' only; {BUILD_SERIES}.",
    ),
    "series two-dimensional": (
        lambda: read_case_series(SERIES[:, None]),
        ValueError,
        "`y` has shape (3, 1), must be one-dimensional.",
    ),
    "series length": (
        lambda: read_case_series(SERIES, n_rows=4),
        ValueError,
        "`y` has 3 entries, `X` has 4 rows; pass one per row.",
    ),
    "series empty": (
        lambda: read_case_series(SERIES[:0]),
        ValueError,
        "`y` has no rows; pass at least one row with an event.",
    ),
    "series by hand": (
        lambda: read_case_series(np.array([(1, -2, 3)], dtype=SERIES.dtype)),
        ValueError,
        "`length` is -2 in row 0, must be positive; drop rows that were never observed.",
    ),
    "series without events": (
        lambda: read_case_series(case_series([0, 0], [1, 1], [1, 1])),
        ValueError,
        "`y` has no subject with an event and at least two rows, so there is nothing to compare: "
        "of 1 subjects, 0 have an event and 1 at least two rows; check the labels of the "
        "subjects.",
    ),
    "series of single eras": (
        lambda: read_case_series(case_series([1, 0, 0], [1, 1, 1], ["a", "b", "b"])),
        ValueError,
        "`y` has no subject with an event and at least two rows, so there is nothing to compare: "
        "of 2 subjects, 1 have an event and 1 at least two rows; check the labels of the "
        "subjects.",
    ),
    "sets none": (
        lambda: read_matched(None),
        ValueError,
        f"This estimator requires y to be passed, but the target y is None; {BUILD_SETS}.",
    ),
    "sets of another model": (
        lambda: read_matched(surv([1], [1])),
        ValueError,
        f"`y` has a field 'event', must have 'case', 'stratum' only; {BUILD_SETS}.",
    ),
    "sets twice": (
        lambda: read_matched(SETS, strata=SET),
        ValueError,
        "`strata` was passed and `y` has a field 'stratum'; give the strata in one place.",
    ),
    "sets nowhere": (
        lambda: read_matched(CASE),
        ValueError,
        "`y` is a plain vector and `strata` was not passed, but cases are compared with controls "
        f"of their matched set; pass the set of each row as `strata`, or {BUILD_SETS}.",
    ),
    "sets not flags": (
        lambda: read_matched([1, 0, 3], strata=[1, 1, 1]),
        ValueError,
        "`y` is 3 in row 2, must be bool or 0/1.",
    ),
    "sets length": (
        lambda: read_matched(CASE, n_rows=3, strata=SET),
        ValueError,
        "`y` has 4 entries, `X` has 3 rows; pass one per row.",
    ),
    "sets strata length": (
        lambda: read_matched(CASE, strata=[1]),
        ValueError,
        "`strata` has 1 entries, `X` has 4 rows; pass one per row.",
    ),
    "sets concordant": (
        lambda: read_matched([1, 1, 0, 0, 1], strata=[1, 1, 2, 2, 3]),
        ValueError,
        "`y` has no stratum with both a case and a control: of 3 strata, 2 have cases only and 1 "
        "controls only; check the labels of the strata.",
    ),
}

FIELDS = "'count', 'length', 'subject'"
VECTORS = {
    "none": (
        None,
        ValueError,
        "This estimator requires y to be passed, but the target y is None.",
    ),
    "structured": (
        SERIES,
        TypeError,
        f"`y` is a structured array with the fields {FIELDS}; this model takes a plain vector of "
        "numbers, e.g. one of these fields.",
    ),
    "nan": ([1, np.nan], ValueError, f"`y` {NOT_FINITE}"),
    "infinite": ([1, np.inf], ValueError, f"`y` {NOT_FINITE}"),
    "none inside": ([1, None], ValueError, f"`y` {MISSING}"),
    "polars null": (pl.Series([1, None]), ValueError, f"`y` {MISSING}"),
    "text": (["1", "2"], TypeError, "`y` has dtype <U1; pass numbers."),
    "text objects": (
        np.array(["1", "2"], dtype=object),
        TypeError,
        "`y` has dtype <U1; pass numbers.",
    ),
    "mixed objects": (
        np.array([1, "2"], dtype=object),
        TypeError,
        "`y` has values of type int, str; pass numbers.",
    ),
    "complex": ([1j, 2], TypeError, "`y` has dtype complex128; pass numbers."),
    "two columns": (
        np.ones((2, 2)),
        ValueError,
        "`y` has shape (2, 2), must be one-dimensional; fit one model per column.",
    ),
    "scalar": (
        3,
        ValueError,
        "`y` has shape (), must be one-dimensional; fit one model per column.",
    ),
    "ragged": (
        [[1], [2, 3]],
        ValueError,
        "`y` must be one-dimensional; its entries are ragged.",
    ),
    "empty": ([], ValueError, "`y` has no rows; pass at least one."),
}

ARGUMENTS = {
    "y length": (
        lambda: read_numbers([1, 2], n_rows=1000),
        ValueError,
        "`y` has 2 entries, `X` has 1,000 rows; pass one per row.",
    ),
    "counts negative": (
        lambda: read_counts([1, -2]),
        ValueError,
        "`y` is -2 in row 1, must be at least 0.",
    ),
    "counts zero": (
        lambda: read_counts([0, 0]),
        ValueError,
        "`y` is zero in all 2 rows; at least one event is needed to estimate a rate.",
    ),
    "counts alone in their strata": (
        lambda: read_counts([1, 0], strata=["a", "b"], is_conditional=True),
        NothingToCompareError,
        "`y` has no stratum with an event and at least two rows, so there is nothing to compare: "
        "of 2 strata, 1 have an event and 0 at least two rows; check the labels of the strata.",
    ),
    "counts strata": (
        lambda: read_counts([1, 0], strata=[0.5, 1]),
        TypeError,
        "`strata` has labels of dtype float64; pass integers or strings.",
    ),
    "exposure zero": (
        lambda: read_counts([1, 0], exposure=[1, 0]),
        ValueError,
        "`exposure` is 0 in row 1, must be positive; drop rows that were never observed.",
    ),
    "exposure nan": (
        lambda: read_counts([1, 0], exposure=[1, np.nan]),
        ValueError,
        f"`exposure` {NOT_FINITE}",
    ),
    "exposure length": (
        lambda: read_counts([1, 0], exposure=[1]),
        ValueError,
        "`exposure` has 1 entries, `X` has 2 rows; pass one per row.",
    ),
    "weights differ": (
        lambda: check_weight_by_group(
            np.array([1, 1, 0.5, 2]), np.array([0, 1, 1, 0]), np.array(["u", "v"]), "subject"
        ),
        ValueError,
        "`sample_weight` differs within subject 'u': 1 in row 0, 2 in another; give all rows of a "
        "subject the same weight.",
    ),
    "weights differ by number": (
        lambda: check_weight_by_group(
            np.array([1, 1, 0.5]), np.array([0, 1, 1]), np.array([3, 4]), "stratum"
        ),
        ValueError,
        "`sample_weight` differs within stratum 4: 1 in row 1, 0.5 in another; give all rows of a "
        "stratum the same weight.",
    ),
}

MISTAKES = BUILDERS | STRUCTURED | ARGUMENTS


@pytest.mark.parametrize("case", MISTAKES)
def test_mistake_is_explained(case):
    call, kind, message = MISTAKES[case]
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == message


@pytest.mark.parametrize("read", [read_counts, read_numbers])
@pytest.mark.parametrize("case", VECTORS)
def test_vector_is_refused(read, case):
    y, kind, message = VECTORS[case]
    with pytest.raises(kind) as error:
        read(y)
    assert str(error.value) == message


def test_no_case_is_overwritten():
    assert len(MISTAKES) == len(BUILDERS) + len(STRUCTURED) + len(ARGUMENTS)
