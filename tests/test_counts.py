"""Case series, matched sets, counts and numbers: what a fit reads, and every refusal."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from mistakes import check
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


BUILDERS = {
    "count fractional": (
        lambda: case_series([1, 0.5], [1, 1], [1, 1]),
        ValueError,
        "`count`...0.5...row 1...pass numbers...whole numbers...at least 0",
    ),
    "count negative": (
        lambda: case_series([-1, 0], [1, 1], [1, 1]),
        ValueError,
        "`count`...-1...row 0...pass numbers...whole numbers...at least 0",
    ),
    "count nan": (
        lambda: case_series([1, np.nan], [1, 1], [1, 1]),
        ValueError,
        "`count`...nan...row 1...pass numbers...whole numbers...at least 0",
    ),
    "count text": (
        lambda: case_series(["one"], [1], [1]),
        TypeError,
        "`count`...<U3...pass numbers...whole numbers...at least 0",
    ),
    "count missing": (
        lambda: case_series(pd.Series([1, None], dtype="Int64"), [1, 1], [1, 1]),
        ValueError,
        "`count`...1 missing",
    ),
    "length zero": (
        lambda: case_series([1, 0], [1, 0], [1, 1]),
        ValueError,
        "`length`...0...row 1...must be positive",
    ),
    "length infinite": (
        lambda: case_series([1, 0], [1, np.inf], [1, 1]),
        ValueError,
        "`length`...1 NaN",
    ),
    "length text": (
        lambda: case_series([1], ["1"], [1]),
        TypeError,
        "`length`...<U1...pass numbers",
    ),
    "lengths differ": (
        lambda: case_series([1, 0], [1], [1, 1]),
        ValueError,
        "`length`...1 entries...one per row",
    ),
    "subject fractional": (
        lambda: case_series([1], [1], [1.5]),
        TypeError,
        "`subject`...float64...integers or strings",
    ),
    "subject missing": (
        lambda: case_series([1, 0], [1, 1], ["a", None]),
        ValueError,
        "`subject`...1 missing",
    ),
    "case not a flag": (
        lambda: matched([1, 2], [1, 1]),
        ValueError,
        "`case`...2...row 1...bool or 0/1",
    ),
    "case text": (lambda: matched(["yes"], [1]), TypeError, "`case`...<U3...booleans or 0/1"),
    "stratum short": (
        lambda: matched([1, 0], [1]),
        ValueError,
        "`stratum`...1 entries...one per row",
    ),
}

STRUCTURED = {
    "series none": (
        lambda: read_case_series(None),
        ValueError,
        "target y is None...sksurvgpu.case_series(count, length, subject)",
    ),
    "series frame": (
        lambda: read_case_series(pd.DataFrame(SERIES)),
        TypeError,
        "`y`...DataFrame...structured array...sksurvgpu.case_series(count, length, subject)",
    ),
    "series plain": (
        lambda: read_case_series(np.ones(3)),
        TypeError,
        "`y`...float64...structured array...sksurvgpu.case_series(count, length, subject)",
    ),
    "series of another model": (
        lambda: read_case_series(surv([1], [1], subject=[1])),
        ValueError,
        "`y`...field 'event'...sksurvgpu.case_series(count, length, subject)",
    ),
    "series two-dimensional": (
        lambda: read_case_series(SERIES[:, None]),
        ValueError,
        "`y`...(3, 1)...one-dimensional",
    ),
    "series length": (
        lambda: read_case_series(SERIES, n_rows=4),
        ValueError,
        "`y`...3 entries...one per row",
    ),
    "series empty": (lambda: read_case_series(SERIES[:0]), ValueError, "`y`...no rows"),
    "series by hand": (
        lambda: read_case_series(np.array([(1, -2, 3)], dtype=SERIES.dtype)),
        ValueError,
        "`length`...-2...row 0...must be positive",
    ),
    "series without events": (
        lambda: read_case_series(case_series([0, 0], [1, 1], [1, 1])),
        ValueError,
        "`y`...event and at least two rows...nothing to compare...of 1 subjects, 0",
    ),
    "series of single eras": (
        lambda: read_case_series(case_series([1, 0, 0], [1, 1, 1], ["a", "b", "b"])),
        ValueError,
        "`y`...event and at least two rows...nothing to compare...of 2 subjects, 1",
    ),
    "sets none": (
        lambda: read_matched(None),
        ValueError,
        "target y is None...sksurvgpu.matched(case, stratum)",
    ),
    "sets of another model": (
        lambda: read_matched(surv([1], [1])),
        ValueError,
        "`y`...field 'event'...sksurvgpu.matched(case, stratum)",
    ),
    "sets twice": (
        lambda: read_matched(SETS, strata=SET),
        ValueError,
        "`strata`...field 'stratum'...in one place",
    ),
    "sets nowhere": (
        lambda: read_matched(CASE),
        ValueError,
        "`strata` was not passed...sksurvgpu.matched(case, stratum)",
    ),
    "sets not flags": (
        lambda: read_matched([1, 0, 3], strata=[1, 1, 1]),
        ValueError,
        "`y`...3...row 2...bool or 0/1",
    ),
    "sets length": (
        lambda: read_matched(CASE, n_rows=3, strata=SET),
        ValueError,
        "`y`...4 entries...one per row",
    ),
    "sets strata length": (
        lambda: read_matched(CASE, strata=[1]),
        ValueError,
        "`strata`...1 entries...one per row",
    ),
    "sets concordant": (
        lambda: read_matched([1, 1, 0, 0, 1], strata=[1, 1, 2, 2, 3]),
        ValueError,
        "`y`...both a case and a control...of 3 strata, 2",
    ),
}

VECTORS = {
    "none": (None, ValueError, "This estimator requires y to be passed, but the target y is None."),
    "structured": (SERIES, TypeError, "`y`...structured array...plain vector"),
    "nan": ([1, np.nan], ValueError, "`y`...1 NaN"),
    "infinite": ([1, np.inf], ValueError, "`y`...1 NaN"),
    "none inside": ([1, None], ValueError, "`y`...1 missing"),
    "polars null": (pl.Series([1, None]), ValueError, "`y`...1 missing"),
    "text": (["1", "2"], TypeError, "`y`...<U1...pass numbers"),
    "text objects": (np.array(["1", "2"], dtype=object), TypeError, "`y`...<U1...pass numbers"),
    "mixed objects": (np.array([1, "2"], dtype=object), TypeError, "`y`...int...pass numbers"),
    "complex": ([1j, 2], TypeError, "`y`...complex128...pass numbers"),
    "two columns": (
        np.ones((2, 2)),
        ValueError,
        "`y`...(2, 2)...one-dimensional...one model per column",
    ),
    "scalar": (3, ValueError, "`y`...()...one-dimensional...one model per column"),
    "ragged": ([[1], [2, 3]], ValueError, "`y`...one-dimensional...ragged"),
    "empty": ([], ValueError, "`y`...no rows"),
}

ARGUMENTS = {
    "y length": (
        lambda: read_numbers([1, 2], n_rows=1000),
        ValueError,
        "`y`...2 entries...one per row",
    ),
    "counts negative": (lambda: read_counts([1, -2]), ValueError, "`y`...-2...row 1...at least 0"),
    "counts zero": (lambda: read_counts([0, 0]), ValueError, "`y`...2 rows...at least one event"),
    "counts alone in their strata": (
        lambda: read_counts([1, 0], strata=["a", "b"], is_conditional=True),
        NothingToCompareError,
        "`y`...event and at least two rows...nothing to compare...of 2 strata, 1",
    ),
    "counts strata": (
        lambda: read_counts([1, 0], strata=[0.5, 1]),
        TypeError,
        "`strata`...float64...integers or strings",
    ),
    "exposure zero": (
        lambda: read_counts([1, 0], exposure=[1, 0]),
        ValueError,
        "`exposure`...0...row 1...must be positive",
    ),
    "exposure nan": (
        lambda: read_counts([1, 0], exposure=[1, np.nan]),
        ValueError,
        "`exposure`...1 NaN",
    ),
    "exposure length": (
        lambda: read_counts([1, 0], exposure=[1]),
        ValueError,
        "`exposure`...1 entries...one per row",
    ),
    "weights differ": (
        lambda: check_weight_by_group(
            np.array([1, 1, 0.5, 2]), np.array([0, 1, 1, 0]), np.array(["u", "v"]), "subject"
        ),
        ValueError,
        "`sample_weight`...subject 'u'...in another...same weight",
    ),
    "weights differ by number": (
        lambda: check_weight_by_group(
            np.array([1, 1, 0.5]), np.array([0, 1, 1]), np.array([3, 4]), "stratum"
        ),
        ValueError,
        "`sample_weight`...stratum 4...in another...same weight",
    ),
}

MISTAKES = BUILDERS | STRUCTURED | ARGUMENTS


@pytest.mark.parametrize("case", MISTAKES)
def test_mistake_is_explained(case):
    check(*MISTAKES[case])


@pytest.mark.parametrize("read", [read_counts, read_numbers])
@pytest.mark.parametrize("case", VECTORS)
def test_vector_is_refused(read, case):
    y, error, words = VECTORS[case]
    check(lambda: read(y), error, words)


def test_no_case_is_overwritten():
    assert len(MISTAKES) == len(BUILDERS) + len(STRUCTURED) + len(ARGUMENTS)
