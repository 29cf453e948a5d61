"""Outcomes with competing risks: what is accepted, what a fit reads, and every refusal."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
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


BUILD = "build it with sksurvgpu.competing_risks(event, time)"
CODES = "pass whole numbers, 0 where the row was censored and 1, 2, ... by kind of event."
MISSING = "has 1 missing value(s); drop or fill those rows first."


NO_COMPETING = f"dtype bool, in which there are no competing events; {CODES.rstrip('.')}"


def by_hand(dtype, *rows):
    return np.array(list(rows), dtype=dtype)


MISTAKES = {
    "unknown text": (
        lambda: competing_risks(["relaps", *TEXTS[1:]], TIME, labels=LABELS),
        ValueError,
        "`event` has the label 'relaps', which `labels` has not; did you mean 'relapse'? Give a "
        "code to each, 0 to that of censored rows.",
    ),
    "labels twice": (
        lambda: competing_risks(EVENT, TIME, labels={1: "death", 2: "death"}),
        ValueError,
        "`labels` is {1: 'death', 2: 'death'}, must be a dictionary {code: label} of different "
        'texts, such as {0: "alive", 1: "relapse", 2: "death"}.',
    ),
    "labels in a list": (
        lambda: competing_risks(EVENT, TIME, labels=["relapse", "death"]),
        ValueError,
        "`labels` is ['relapse', 'death'], must be a dictionary {code: label} of different texts, "
        'such as {0: "alive", 1: "relapse", 2: "death"}.',
    ),
    "unknown event of interest": (
        lambda: read_competing(
            competing_risks(TEXTS, TIME, labels=LABELS), event_of_interest="Death"
        ),
        ValueError,
        "`event_of_interest` is 'Death', must be a code or one of the labels 'relapse', 'death' of "
        "competing_risks.",
    ),
    "event lengths": (
        lambda: competing_risks([1, 0], [1.0]),
        ValueError,
        "`time` has 1 entries, `event` has 2 entries; pass one per row.",
    ),
    "event of booleans": (
        lambda: competing_risks(pd.Series([True, False], dtype=object), [1, 2]),
        TypeError,
        f"`event` has {NO_COMPETING}, or use surv for a single kind.",
    ),
    "event negative": (
        lambda: competing_risks([1, -1], [1, 2]),
        ValueError,
        f"`event` is -1 in row 1; {CODES}",
    ),
    "event fractional": (
        lambda: competing_risks([1, 0, 2.5], [1, 2, 3]),
        ValueError,
        f"`event` is 2.5 in row 2; {CODES}",
    ),
    "event fractional object": (
        lambda: competing_risks(np.array([1, 0.5], dtype=object), [1, 2]),
        ValueError,
        f"`event` is 0.5 in row 1; {CODES}",
    ),
    "event nan": (
        lambda: competing_risks([1, np.nan], [1, 2]),
        ValueError,
        f"`event` is nan in row 1; {CODES}",
    ),
    "event infinite": (
        lambda: competing_risks([np.inf, 1], [1, 2]),
        ValueError,
        f"`event` is inf in row 0; {CODES}",
    ),
    "event beyond int64": (
        lambda: competing_risks(np.array([2**64 - 1], dtype=np.uint64), [1]),
        ValueError,
        f"`event` is 18446744073709551615 in row 0; {CODES}",
    ),
    "event none": (
        lambda: competing_risks([1, None], [1, 2]),
        ValueError,
        f"`event` {MISSING}",
    ),
    "event text": (
        lambda: competing_risks(["death", "relapse"], [1, 2]),
        TypeError,
        f"`event` has dtype <U7; {CODES.rstrip('.')}, or texts and labels={{0: text, 1: ...}}.",
    ),
    "event mixed": (
        lambda: competing_risks(np.array([1, "death"], dtype=object), [1, 2]),
        TypeError,
        "`event` has values of type int, str; pass numbers.",
    ),
    "time negative": (
        lambda: competing_risks([1, 0], [1, -2.5]),
        ValueError,
        "`time` is -2.5 in row 1, must be at least 0.",
    ),
    "time nan": (
        lambda: competing_risks([1, 0], [np.nan, 1]),
        ValueError,
        "`time` has 1 NaN or infinite value(s), the first in row 0; drop or fill those rows.",
    ),
    "stratum missing": (
        lambda: competing_risks([1, 0], [1, 2], stratum=["a", None]),
        ValueError,
        f"`stratum` {MISSING}",
    ),
    "y none": (
        lambda: read_competing(None),
        ValueError,
        f"This estimator requires y to be passed, but the target y is None; {BUILD}.",
    ),
    "y frame": (
        lambda: read_competing(pd.DataFrame({"event": [1], "time": [1]})),
        TypeError,
        f"`y` is of type DataFrame, must be a structured array; {BUILD}, from a DataFrame with "
        "competing_risks(df['event'], df['time']).",
    ),
    "y plain": (
        lambda: read_competing(np.ones(3)),
        TypeError,
        f"`y` has dtype float64, must be a structured array with an event and a time; {BUILD}.",
    ),
    "y two-dimensional": (
        lambda: read_competing(Y[:, None]),
        ValueError,
        "`y` has shape (4, 1), must be one-dimensional.",
    ),
    "y length": (
        lambda: read_competing(Y, n_rows=1000),
        ValueError,
        "`y` has 4 entries, `X` has 1,000 rows; pass one per row.",
    ),
    "y empty": (
        lambda: read_competing(Y[:0]),
        ValueError,
        "`y` has no rows; pass at least one row with an event.",
    ),
    "y codes as floats": (
        lambda: read_competing(by_hand("f8, f8", (1, 2))),
        TypeError,
        f"`y` has dtype float64 in its first field 'f0', must be integer codes; {BUILD}.",
    ),
    "y negative code": (
        lambda: read_competing(by_hand("i8, f8", (1, 2), (-3, 1))),
        ValueError,
        f"`f0` is -3 in row 1; {CODES}",
    ),
    "y negative time": (
        lambda: read_competing(by_hand("i8, f8", (1, -2))),
        ValueError,
        "`time` is -2 in row 0, must be at least 0.",
    ),
    "y unknown field": (
        lambda: read_competing(by_hand("i8, f8, f8", (1, 2, 3))),
        ValueError,
        "`y` has a field 'f2' that a survival outcome cannot have; after event and time only "
        "'start', 'stratum' and 'subject' are read.",
    ),
    "y delayed entry": (
        lambda: read_competing(surv([1, 0], [1, 2], start=[0, 1])),
        ValueError,
        "`y` has a field 'start', but Fine-Gray regression with delayed entry is not offered; "
        "leave it out, or fit the cause-specific hazard with CoxLassoCCD, where competing events "
        "are censored.",
    ),
    "y without events": (
        lambda: read_competing(competing_risks([0, 0], [1, 2])),
        ValueError,
        "`y` has no event (all 2 rows censored): a Fine-Gray model cannot be fitted.",
    ),
    "y of booleans": (
        lambda: read_competing(Surv.from_arrays([True, False], [2, 3], name_event="died")),
        TypeError,
        f"field 'died' of `y` has {NO_COMPETING}, or fit CoxLassoCCD for a single kind.",
    ),
    "strata twice": (
        lambda: read_competing(competing_risks([1], [1], stratum=[1]), strata=[1]),
        ValueError,
        "`strata` was passed and `y` has a field 'stratum'; give the strata in one place.",
    ),
    "strata length": (
        lambda: read_competing(Y, strata=[1]),
        ValueError,
        "`strata` has 1 entries, `y` has 4 entries; pass one per row.",
    ),
    "interest absent": (
        lambda: read_competing(Y, event_of_interest=3),
        ValueError,
        "`event_of_interest` is 3, but no row of `y` has this code; its codes of events are 1, 2, "
        "5.",
    ),
    "interest absent among many": (
        lambda: read_competing(competing_risks(range(2, 40), range(2, 40))),
        ValueError,
        "`event_of_interest` is 1, but no row of `y` has this code; its codes of events are 2, 3, "
        "4, 5, 6, 7, 8, 9, 10, 11 and 28 more.",
    ),
    "interest censored": (
        lambda: read_competing(Y, event_of_interest=0),
        ValueError,
        "`event_of_interest` is 0, must be a positive code; 0 stands for censored rows.",
    ),
    "interest fractional": (
        lambda: read_competing(Y, event_of_interest=1.0),
        TypeError,
        "`event_of_interest` is 1.0 of type float; pass an integer code.",
    ),
    "interest boolean": (
        lambda: read_competing(Y, event_of_interest=True),
        TypeError,
        "`event_of_interest` is True of type bool; pass an integer code.",
    ),
    "metrics without interest": (
        lambda: as_sksurv(Y),
        ValueError,
        "`y` has codes of several kinds of event in its first field 'event', scikit-survival "
        "knows one; pass `event_of_interest`, the code that is kept.",
    ),
    "metrics with absent interest": (
        lambda: as_sksurv(Y, event_of_interest=4),
        ValueError,
        "`event_of_interest` is 4, but no row of `y` has this code; its codes of events are 1, 2, "
        "5.",
    ),
    "metrics of booleans": (
        lambda: as_sksurv(surv([1], [1]), event_of_interest=2),
        ValueError,
        "`event_of_interest` is 2, but the events of `y` are booleans, which know one kind of "
        "event, 1; give codes with sksurvgpu.competing_risks(event, time).",
    ),
    "metrics of a vector": (
        lambda: as_sksurv(np.ones(3), event_of_interest=1),
        TypeError,
        "`y` has dtype float64, must be a structured array with an event and a time; build it "
        "with sksurvgpu.surv(event, time).",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistake_is_explained(case):
    call, kind, message = MISTAKES[case]
    with pytest.raises(kind) as error:
        call()
    assert str(error.value) == message
