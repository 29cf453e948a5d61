"""Outcomes and per-row arguments: what is accepted, and what a fit reads from it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sksurv.metrics import concordance_index_censored
from sksurv.util import Surv, check_y_survival

from sksurvgpu.data.by_column import check_penalty_factor, check_time_varying
from sksurvgpu.data.checks import check_offset, check_sample_weight
from sksurvgpu.data.outcomes.survival import as_sksurv, read_outcome, surv
from sksurvgpu.data.vectors import check_labels

EVENT = [True, False, True]
TIME = [2.0, 3.5, 1.0]

CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "strided": lambda values: np.repeat(np.array(values), 2)[::2],
    "pandas": lambda values: pd.Series(values, index=range(9, 9 - len(values), -1)),
    "nullable": lambda values: pd.Series(values).convert_dtypes(),
    "polars": pl.Series,
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("event", [EVENT, [1, 0, 1], [1.0, 0.0, 1.0]])
def test_surv_reads_every_container(container, event):
    make = CONTAINERS[container]
    y = surv(make(event), make(TIME), start=make([0, 1, 0]))
    assert y.dtype == np.dtype([("event", "?"), ("time", "f8"), ("start", "f8")])
    assert y["event"].tolist() == EVENT
    assert y["time"].tolist() == TIME
    assert y["start"].tolist() == [0, 1, 0]


def test_surv_orders_its_fields():
    y = surv(EVENT, TIME, subject=["p", "qq", "p"], stratum=[7, 7, 8], start=[0, 0, 0.5])
    assert y.dtype.names == ("event", "time", "start", "stratum", "subject")
    assert y["stratum"].tolist() == [7, 7, 8]
    assert y["subject"].tolist() == ["p", "qq", "p"]
    assert y["subject"].dtype.kind == "U"
    assert surv(EVENT, TIME).dtype.names == ("event", "time")


def test_surv_copies_its_input():
    time = np.array(TIME)
    y = surv(EVENT, time)
    time[:] = 9
    assert y["time"].tolist() == TIME


def test_time_zero_and_no_start_are_allowed():
    assert surv([1], [0])["time"].tolist() == [0.0]
    assert surv([], []).size == 0


def test_as_sksurv_is_a_view_for_metrics():
    plain = surv(EVENT, TIME)
    assert as_sksurv(plain) is plain
    y = surv(EVENT, TIME, stratum=["a", "b", "a"], start=[0, 0, 0])
    two = as_sksurv(y)
    assert np.shares_memory(two, y)
    event, time = check_y_survival(two)
    assert event.tolist() == EVENT
    assert time.tolist() == TIME
    assert concordance_index_censored(event, time, [2, 1, 3])[0] == 1.0


LABELS = {
    "strings": (["b", "a", "b"], ["a", "b"]),
    "integers": ([5, -1, 5], [-1, 5]),
    "booleans": ([True, False, True], [False, True]),
    "whole floats": ([2.0, 1.0, 2.0], [1, 2]),
    "string objects": (np.array(["b", "a", "b"], dtype=object), ["a", "b"]),
    "bytes": (np.array([b"b", b"a", b"b"]), ["a", "b"]),
    "numpy strings": (np.array(["b", "a", "b"], dtype=np.dtypes.StringDType()), ["a", "b"]),
    "big-endian": (np.array([5, -1, 5], dtype=">i4"), [-1, 5]),
    "pandas strings": (pd.Series(["b", "a", "b"], dtype="string"), ["a", "b"]),
    "pandas integers": (pd.Series([5, -1, 5], dtype="Int64"), [-1, 5]),
    "pandas category": (pd.Series(["b", "a", "b"], dtype="category"), ["a", "b"]),
    "categorical": (pd.Categorical([5, -1, 5]), [-1, 5]),
    "polars strings": (pl.Series(["b", "a", "b"]), ["a", "b"]),
    "polars category": (pl.Series(["b", "a", "b"], dtype=pl.Categorical), ["a", "b"]),
    "the word nan": (["nan", "a", "nan"], ["a", "nan"]),
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("where", ["argument", "field"])
def test_strata_become_codes_of_sorted_labels(kind, where):
    labels, distinct = LABELS[kind]
    if where == "argument":
        outcome = read_outcome(surv(EVENT, TIME), strata=labels)
    else:
        outcome = read_outcome(surv(EVENT, TIME, stratum=labels))
    assert outcome.stratum.dtype == np.int64
    assert outcome.stratum.tolist() == [1, 0, 1]
    assert outcome.stratum_labels.tolist() == distinct
    assert outcome.stratum_labels.dtype.kind in "iUb"


def test_many_strata_agree_with_numpy():
    labels = np.random.default_rng(0).integers(-50, 1000, 5000)
    y = surv(np.ones(5000, dtype=bool), np.ones(5000))
    for given in (labels, labels.astype(str)):
        outcome = read_outcome(y, strata=given)
        distinct, codes = np.unique(given, return_inverse=True)
        np.testing.assert_array_equal(outcome.stratum, codes)
        np.testing.assert_array_equal(outcome.stratum_labels, distinct)


def test_read_outcome_from_surv():
    y = surv(EVENT, TIME, start=[0, 1, 0.5], subject=[3, 4, 5])
    outcome = read_outcome(y, n_rows=3)
    assert outcome.n_rows == 3
    for field in ("event", "time", "start", "subject"):
        values = getattr(outcome, field)
        assert values.flags.c_contiguous
        assert not np.shares_memory(values, y)
        np.testing.assert_array_equal(values, y[field])
    assert outcome.stratum is None
    assert outcome.stratum_labels is None


@pytest.mark.parametrize("time_dtype", ["f8", "f4", "i8", "u2", ">f8"])
def test_read_outcome_from_scikit_survival(time_dtype):
    y = Surv.from_arrays(EVENT, [2, 3, 1], name_event="died", name_time="days")
    y = y.astype([("died", "?"), ("days", time_dtype)])
    outcome = read_outcome(y)
    assert outcome.event.dtype == np.bool_
    assert outcome.event.tolist() == EVENT
    assert outcome.time.dtype == np.dtype("=f8")
    assert outcome.time.tolist() == [2, 3, 1]
    assert outcome.start is None


def test_row_order_survives_slicing():
    y = surv([0, 1, 0, 1], [4, 3, 2, 1], stratum=["a", "b", "c", "d"])
    outcome = read_outcome(y[::-1][:2])
    assert outcome.time.tolist() == [1, 2]
    assert outcome.stratum_labels.tolist() == ["c", "d"]


def test_labels_keep_their_type():
    assert check_labels(np.array([1, 2], dtype=np.int8), "groups").dtype == np.int8
    assert check_labels(["x", "yy"], "groups").dtype == np.dtype("<U2")


def test_sample_weight():
    assert check_sample_weight(None, 3) is None
    assert check_sample_weight([1, 1, 1], 3) is None
    weight = check_sample_weight(pd.Series([0, 2, 0.5]), 3, np.array([False, True, False]))
    assert weight.dtype == np.float64
    assert weight.tolist() == [0, 2, 0.5]


def test_offset():
    assert check_offset(None, 3) is None
    assert check_offset([-1, 0, 2], 3).tolist() == [-1.0, 0.0, 2.0]


def test_penalty_factor():
    names = np.array(["age", "sex", "dose"], dtype=object)
    assert check_penalty_factor(None, 3).tolist() == [1, 1, 1]
    assert check_penalty_factor([0, 0, 0], 3).tolist() == [0, 0, 0]
    assert check_penalty_factor({"sex": 0, 2: 0.5}, 3, names).tolist() == [1, 0, 0.5]
    assert check_penalty_factor({np.int64(1): 2}, 3).tolist() == [1, 2, 1]
    given = np.ones(3)
    check_penalty_factor(given, 3)[0] = 5
    assert given[0] == 1


def test_time_varying():
    names = np.array(["age", "sex"], dtype=object)
    assert check_time_varying(None, 2) == {}
    cuts = check_time_varying({"sex": [1, 2.5], 0: 4}, 2, names)
    assert sorted(cuts) == [0, 1]
    assert cuts[1].dtype == np.float64
    assert cuts[1].tolist() == [1.0, 2.5]
    assert cuts[0].tolist() == [4.0]
