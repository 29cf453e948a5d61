"""Outcomes with competing risks: what is accepted, what a fit reads, and every refusal."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from mistakes import check
from sksurv.metrics import concordance_index_censored
from sksurv.util import Surv, check_y_survival

from sksurvgpu import (
    CumulativeIncidenceDisplay,
    FineGrayCCD,
    StackedIncidenceDisplay,
    write_partitions,
)
from sksurvgpu.data.outcomes.competing import competing_risks, read_competing
from sksurvgpu.data.outcomes.survival import Outcome, as_sksurv, surv
from sksurvgpu.datasets import simulate_fine_gray
from sksurvgpu.metrics import brier_score_competing, calibration, concordance_competing
from sksurvgpu.nonparametric import aalen_johansen

EVENT = [1, 0, 2, 5]
TIME = [2.0, 3.5, 1.0, 0.0]
Y = competing_risks(EVENT, TIME)

CONTAINERS = {
    "list": list,
    "numpy": np.array,
    "narrow": lambda values: np.array(values, dtype=np.int8),
    "unsigned": lambda values: np.array(values, dtype=np.uint64),
    "whole floats": lambda values: np.array(values, dtype=np.float32),
    "big-endian": lambda values: np.array(values, dtype=">i4"),
    "objects": lambda values: np.array(values, dtype=object),
    "pandas": lambda values: pd.Series(values, index=range(9, 9 - len(values), -1)),
    "nullable": lambda values: pd.Series(values, dtype="Int64"),
    "polars": pl.Series,
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_becomes_codes(container):
    y = competing_risks(CONTAINERS[container](EVENT), TIME)
    assert y.dtype == np.dtype([("event", "i8"), ("time", "f8")])
    assert y["event"].tolist() == EVENT
    assert y["time"].tolist() == TIME


def test_builder_takes_strata_and_no_rows():
    y = competing_risks([1, 0], [1, 2], stratum=["b", "a"])
    assert y.dtype.names == ("event", "time", "stratum")
    assert y["event"].dtype == np.int64
    assert y["event"].tolist() == [1, 0]
    assert y["stratum"].tolist() == ["b", "a"]
    assert competing_risks([], []).size == 0


@pytest.mark.parametrize(
    ("code", "status"), [(1, [1, 0, 2, 2]), (2, [2, 0, 1, 2]), (np.int64(5), [2, 0, 2, 1])]
)
def test_status_depends_on_the_event_of_interest(code, status):
    outcome = read_competing(Y, n_rows=4, event_of_interest=code)
    assert isinstance(outcome, Outcome)
    assert outcome.status.dtype == np.uint8
    assert outcome.status.tolist() == status
    assert outcome.event.dtype == np.bool_
    assert outcome.event.tolist() == [s == 1 for s in status]
    assert outcome.time.tolist() == TIME
    assert outcome.time.flags.c_contiguous
    assert outcome.n_rows == 4
    assert outcome.start is None
    assert outcome.stratum is outcome.stratum_labels is outcome.subject is None


@pytest.mark.parametrize("where", ["argument", "field"])
def test_strata_become_codes_of_sorted_labels(where):
    labels = ["b", "a", "b", "a"]
    if where == "argument":
        outcome = read_competing(Y, strata=labels)
    else:
        outcome = read_competing(competing_risks(EVENT, TIME, stratum=labels))
    assert outcome.stratum.dtype == np.int64
    assert outcome.stratum.tolist() == [1, 0, 1, 0]
    assert outcome.stratum_labels.tolist() == ["a", "b"]


def test_rows_may_have_subjects_and_no_competing_event():
    """As in a fold, where the codes of the others do not occur."""
    dtype = [("event", int), ("time", float), ("stratum", int), ("subject", "U1")]
    outcome = read_competing(np.array([(1, 2.0, 4, "p"), (0, 3.0, 4, "q")], dtype))
    assert outcome.status.tolist() == [1, 0]
    assert outcome.stratum_labels.tolist() == [4]
    assert outcome.subject.tolist() == ["p", "q"]


def test_codes_by_hand_may_have_any_integer_type_and_names():
    y = np.array([(1, 2.0), (0, 1.0)], dtype=[("cause", "u1"), ("days", "f4")])
    assert read_competing(y).status.tolist() == [1, 0]


def test_as_sksurv_of_codes_makes_booleans():
    y = competing_risks(EVENT, TIME, stratum=[1, 1, 2, 2])
    two = as_sksurv(y, event_of_interest=2)
    event, time = check_y_survival(two)
    assert event.tolist() == [False, False, True, False]
    assert time.tolist() == TIME
    assert concordance_index_censored(event, time, [0, 0, 3, 0])[0] == 1.0
    assert y["event"].tolist() == EVENT


def test_as_sksurv_of_booleans_is_unchanged():
    y = surv([1, 0], [1, 2], stratum=[1, 2])
    assert np.shares_memory(as_sksurv(y, event_of_interest=1), y)
    assert as_sksurv(y).dtype.names == ("event", "time")


LABELS = {0: "alive", 1: "relapse", 2: "death"}
TEXTS = ["relapse", "alive", "death", "death"]


@pytest.mark.parametrize(
    "event",
    [
        TEXTS,
        np.array(TEXTS, dtype=object),
        pd.Categorical(TEXTS, categories=["death", "relapse", "alive"]),
        pl.Series(TEXTS, dtype=pl.Categorical),
        [1, 0, 2, 2],
        np.array([1.0, 0.0, 2.0, 2.0]),
    ],
    ids=["list", "objects", "categories", "polars", "codes", "floats"],
)
def test_labels_of_events(event):
    y, plain = competing_risks(event, TIME, labels=LABELS), competing_risks([1, 0, 2, 2], TIME)
    assert y.dtype == plain.dtype and y.tolist() == plain.tolist()
    assert read_competing(y, event_of_interest="death").status.tolist() == [2, 0, 1, 1]
    assert read_competing(y, event_of_interest=2).status.tolist() == [2, 0, 1, 1]
    assert as_sksurv(y, event_of_interest="relapse")["event"].tolist() == [True, False] + 2 * [
        False
    ]
    others = pickle.loads(pickle.dumps(y)), y[[0, 2, 3]], np.concatenate([y, y]), y[1:].copy()
    for other in others:
        assert read_competing(other, event_of_interest="death").status.max() >= 1


def test_labels_are_shown_and_chosen_by(tmp_path):
    data = simulate_fine_gray(300, 3, density=0.5, random_state=0)
    y = competing_risks(data.y["event"], data.y["time"], labels=LABELS)
    named = FineGrayCCD(alpha=0, event_of_interest="death").fit(data.X, y)
    coded = FineGrayCCD(alpha=0, event_of_interest=2).fit(data.X, data.y)
    np.testing.assert_array_equal(named.coef_, coded.coef_)
    assert named.score(data.X, y) == coded.score(data.X, data.y)
    risk = named.predict_risk(data.X, [0.2, 0.5])
    given = {"event_of_interest": "death"}
    expected = brier_score_competing(
        data.y, data.y, risk.to_numpy(), [0.2, 0.5], event_of_interest=2
    )
    assert brier_score_competing(y, y, risk, **given).equals(expected)
    assert calibration(y, risk, 0.2, **given).expected > 0
    by_code = coded.predict_risk(data.X, [0.2, 0.5])  # a label and its code are one event
    for outcome, table, event in ((y, risk, 2), (y, by_code, "death"), (data.y, risk, 2)):
        found = brier_score_competing(outcome, outcome, table, event_of_interest=event)
        assert found.equals(expected)
    with pytest.raises(ValueError, match="is relapse; pass event_of_interest=2"):
        brier_score_competing(y, y, by_code, event_of_interest="relapse")
    predicted = named.predict(data.X)
    assert concordance_competing(y, predicted, **given) == concordance_competing(
        data.y, predicted, event_of_interest=2
    )
    with pytest.raises(ValueError, match="is 1; pass event_of_interest='death'"):
        brier_score_competing(y, y, risk)
    curves, codes = aalen_johansen(y), aalen_johansen(data.y)
    assert curves.events == ["relapse", "death"] and list(curves.functions)[1] == ("all", "death")
    assert repr(curves).index("relapse") < repr(curves).index("death")
    np.testing.assert_array_equal(curves.at(0.3), codes.at(0.3))
    write_partitions(tmp_path / "rows", [{"X": data.X, "y": y}])  # which cannot hold labels


@pytest.mark.parametrize("model", ["death", 2])
def test_labels_in_figures(model):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    data = simulate_fine_gray(300, 3, density=0.5, random_state=0)
    y = competing_risks(data.y["event"], data.y["time"], labels=LABELS)
    curves = aalen_johansen(y)
    display = CumulativeIncidenceDisplay.from_result(
        curves, events=["death", "relapse"], limits=None
    )
    assert [text.get_text() for text in display.legend_.get_texts()] == ["death", "relapse"]
    labels = [text.get_text() for text in StackedIncidenceDisplay.from_result(curves).labels_]
    assert labels == ["relapse", "death", "no event"]
    fit = FineGrayCCD(alpha=0, event_of_interest=model).fit(data.X, y)
    display = CumulativeIncidenceDisplay.from_estimator(fit, data.X[:2], aalen_johansen=y)
    [line] = display.observed_.values()
    np.testing.assert_array_equal(line.get_ydata(), curves.functions["all", "death"].y)
    pyplot.close("all")


def by_hand(dtype, *rows):
    return np.array(list(rows), dtype=dtype)


MISTAKES = {
    "unknown text": (
        lambda: competing_risks(["relaps", *TEXTS[1:]], TIME, labels=LABELS),
        ValueError,
        "`event`...'relaps'...did you mean",
    ),
    "labels twice": (
        lambda: competing_risks(EVENT, TIME, labels={1: "death", 2: "death"}),
        ValueError,
        "`labels`...{1: 'death', 2: 'death'}...dictionary...different texts",
    ),
    "labels in a list": (
        lambda: competing_risks(EVENT, TIME, labels=["relapse", "death"]),
        ValueError,
        "`labels`...['relapse', 'death']...dictionary...different texts",
    ),
    "unknown event of interest": (
        lambda: read_competing(
            competing_risks(TEXTS, TIME, labels=LABELS), event_of_interest="Death"
        ),
        ValueError,
        "`event_of_interest`...'Death'...one of the labels",
    ),
    "event lengths": (
        lambda: competing_risks([1, 0], [1.0]),
        ValueError,
        "`time`...1 entries...one per row",
    ),
    "event of booleans": (
        lambda: competing_risks(pd.Series([True, False], dtype=object), [1, 2]),
        TypeError,
        "`event`...bool...no competing events...whole numbers",
    ),
    "event negative": (
        lambda: competing_risks([1, -1], [1, 2]),
        ValueError,
        "`event`...-1...row 1...whole numbers",
    ),
    "event fractional": (
        lambda: competing_risks([1, 0, 2.5], [1, 2, 3]),
        ValueError,
        "`event`...2.5...row 2...whole numbers",
    ),
    "event fractional object": (
        lambda: competing_risks(np.array([1, 0.5], dtype=object), [1, 2]),
        ValueError,
        "`event`...0.5...row 1...whole numbers",
    ),
    "event nan": (
        lambda: competing_risks([1, np.nan], [1, 2]),
        ValueError,
        "`event`...nan...row 1...whole numbers",
    ),
    "event infinite": (
        lambda: competing_risks([np.inf, 1], [1, 2]),
        ValueError,
        "`event`...inf...row 0...whole numbers",
    ),
    "event beyond int64": (
        lambda: competing_risks(np.array([2**64 - 1], dtype=np.uint64), [1]),
        ValueError,
        "`event`...18446744073709551615...row 0...whole numbers",
    ),
    "event none": (lambda: competing_risks([1, None], [1, 2]), ValueError, "`event`...1 missing"),
    "event text": (
        lambda: competing_risks(["death", "relapse"], [1, 2]),
        TypeError,
        "`event`...<U7...whole numbers",
    ),
    "event mixed": (
        lambda: competing_risks(np.array([1, "death"], dtype=object), [1, 2]),
        TypeError,
        "`event`...int...pass numbers",
    ),
    "time negative": (
        lambda: competing_risks([1, 0], [1, -2.5]),
        ValueError,
        "`time`...-2.5...row 1...at least 0",
    ),
    "time nan": (lambda: competing_risks([1, 0], [np.nan, 1]), ValueError, "`time`...1 NaN"),
    "stratum missing": (
        lambda: competing_risks([1, 0], [1, 2], stratum=["a", None]),
        ValueError,
        "`stratum`...1 missing",
    ),
    "y none": (
        lambda: read_competing(None),
        ValueError,
        "target y is None...sksurvgpu.competing_risks(event, time)",
    ),
    "y frame": (
        lambda: read_competing(pd.DataFrame({"event": [1], "time": [1]})),
        TypeError,
        "`y`...DataFrame...structured array...sksurvgpu.competing_risks(event, time)",
    ),
    "y plain": (
        lambda: read_competing(np.ones(3)),
        TypeError,
        "`y`...float64...structured array...sksurvgpu.competing_risks(event, time)",
    ),
    "y two-dimensional": (
        lambda: read_competing(Y[:, None]),
        ValueError,
        "`y`...(4, 1)...one-dimensional",
    ),
    "y length": (
        lambda: read_competing(Y, n_rows=1000),
        ValueError,
        "`y`...4 entries...one per row",
    ),
    "y empty": (lambda: read_competing(Y[:0]), ValueError, "`y`...no rows"),
    "y codes as floats": (
        lambda: read_competing(by_hand("f8, f8", (1, 2))),
        TypeError,
        "`y`...float64...integer code...sksurvgpu.competing_risks(event, time)",
    ),
    "y negative code": (
        lambda: read_competing(by_hand("i8, f8", (1, 2), (-3, 1))),
        ValueError,
        "`f0`...-3...row 1...whole numbers",
    ),
    "y negative time": (
        lambda: read_competing(by_hand("i8, f8", (1, -2))),
        ValueError,
        "`time`...-2...row 0...at least 0",
    ),
    "y unknown field": (
        lambda: read_competing(by_hand("i8, f8, f8", (1, 2, 3))),
        ValueError,
        "`y`...field 'f2'...that a survival outcome cannot have",
    ),
    "y delayed entry": (
        lambda: read_competing(surv([1, 0], [1, 2], start=[0, 1])),
        ValueError,
        "`y`...field 'start'...delayed entry",
    ),
    "y without events": (
        lambda: read_competing(competing_risks([0, 0], [1, 2])),
        ValueError,
        "`y`...no event...2 rows",
    ),
    "y of booleans": (
        lambda: read_competing(Surv.from_arrays([True, False], [2, 3], name_event="died")),
        TypeError,
        "`y`...bool...no competing events...whole numbers",
    ),
    "strata twice": (
        lambda: read_competing(competing_risks([1], [1], stratum=[1]), strata=[1]),
        ValueError,
        "`strata`...field 'stratum'...in one place",
    ),
    "strata length": (
        lambda: read_competing(Y, strata=[1]),
        ValueError,
        "`strata`...1 entries...one per row",
    ),
    "interest absent": (
        lambda: read_competing(Y, event_of_interest=3),
        ValueError,
        "`event_of_interest`...3...no row of `y` has this code",
    ),
    "interest absent among many": (
        lambda: read_competing(competing_risks(range(2, 40), range(2, 40))),
        ValueError,
        "`event_of_interest`...1...no row of `y` has this code...28 more",
    ),
    "interest censored": (
        lambda: read_competing(Y, event_of_interest=0),
        ValueError,
        "`event_of_interest`...0...positive code",
    ),
    "interest fractional": (
        lambda: read_competing(Y, event_of_interest=1.0),
        TypeError,
        "`event_of_interest`...float...integer code",
    ),
    "interest boolean": (
        lambda: read_competing(Y, event_of_interest=True),
        TypeError,
        "`event_of_interest`...bool...integer code",
    ),
    "metrics without interest": (
        lambda: as_sksurv(Y),
        ValueError,
        "`y`...field 'event'...`event_of_interest`, the code",
    ),
    "metrics with absent interest": (
        lambda: as_sksurv(Y, event_of_interest=4),
        ValueError,
        "`event_of_interest`...4...no row of `y` has this code",
    ),
    "metrics of booleans": (
        lambda: as_sksurv(surv([1], [1]), event_of_interest=2),
        ValueError,
        "`event_of_interest`...2...booleans...sksurvgpu.competing_risks(event, time)",
    ),
    "metrics of a vector": (
        lambda: as_sksurv(np.ones(3), event_of_interest=1),
        TypeError,
        "`y`...float64...structured array...sksurvgpu.surv(event, time)",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistake_is_explained(case):
    check(*MISTAKES[case])
