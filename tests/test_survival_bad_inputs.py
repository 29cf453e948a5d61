"""What users of Cox's or Fine and Gray's model may get wrong, and the whole message they read."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from faces import CODE, FACES, STRATA, TIME, N, X
from mistakes import NOT_FINITE, changed, check, fit, fitted, raw
from sklearn.exceptions import NotFittedError
from sksurv.exceptions import NoComparablePairException

from sksurvgpu import CoxLassoCCD, competing_risks, surv

MODELS = ("cox", "fine-gray")
CODES = "pass whole numbers, 0 where the row was censored and 1, 2, ... by kind of event."
NO_PAIRS = (
    "no two rows can be compared: no row is at risk beyond another one's event; the concordance "
    "needs more rows or more events."
)
NO_STRATA = (
    "`strata` is missing: the model has 3 strata with a baseline hazard each; pass one label per "
    "row."
)
NOT_STRATIFIED = "was passed, but the model was fitted without strata."
KNOWN = "a label without rows in the fit; known are 'east', 'north', 'west'."
WEIGHTLESS = (CODE != 1) * 1.0


@cache
def stratified(name):
    return fit(name, rows={"strata": STRATA})


@cache
def varying():
    return fit("cox", time_varying={0: [10.0]})


def outcome(name, code=CODE, time=TIME, **labels):
    return (
        surv(code == 1, time, **labels) if name == "cox" else competing_risks(code, time, **labels)
    )


SHARED = {
    "no weight of the event": (
        lambda name: fit(name, rows={"sample_weight": WEIGHTLESS}),
        ValueError,
        f"`sample_weight` is zero in all {np.count_nonzero(CODE == 1)} rows with an event; at "
        "least one must be positive.",
    ),
    "strata twice": (
        lambda name: fit(name, y=outcome(name, stratum=STRATA), rows={"strata": STRATA}),
        ValueError,
        "`strata` was passed and `y` has a field 'stratum'; give the strata in one place.",
    ),
    "curves without strata": (
        lambda name: stratified(name).predict_cumulative_hazard_function(X),
        ValueError,
        NO_STRATA,
    ),
    "curves of an unknown stratum": (
        lambda name: stratified(name).predict_cumulative_hazard_function(X[:2], ["west", "south"]),
        ValueError,
        f"`strata` is 'south' in row 1, {KNOWN}",
    ),
    "strata of another type": (
        lambda name: stratified(name).predict_cumulative_hazard_function(X[:2], [1, 2]),
        ValueError,
        f"`strata` is 1 in row 0, {KNOWN}",
    ),
    "curves with strata": (
        lambda name: fitted(name).predict_cumulative_hazard_function(X, STRATA),
        ValueError,
        f"`strata` {NOT_STRATIFIED}",
    ),
    "score without strata": (
        lambda name: stratified(name).score(X, FACES[name].y),
        ValueError,
        NO_STRATA,
    ),
    "score with strata": (
        lambda name: fitted(name).score(X, FACES[name].y, strata=STRATA),
        ValueError,
        f"`strata` {NOT_STRATIFIED}",
    ),
    "score with strata in the outcome": (
        lambda name: fitted(name).score(X, outcome(name, stratum=STRATA)),
        ValueError,
        "`y` has a field 'stratum', but the model was fitted without strata.",
    ),
    "score without events": (
        lambda name: fitted(name).score(X, outcome(name, 0 * CODE)),
        NoComparablePairException,
        NO_PAIRS,
    ),
    "score without weight of the event": (
        lambda name: fitted(name).score(X, FACES[name].y, WEIGHTLESS),
        NoComparablePairException,
        NO_PAIRS,
    ),
    "score of a row": (
        lambda name: fitted(name).score(X[:1], outcome(name, CODE[:1] * 0 + 1, TIME[:1])),
        NoComparablePairException,
        NO_PAIRS,
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mistake", SHARED)
def test_message_of_both(mistake, name):
    call, error, message = SHARED[mistake]
    check(lambda: call(name), error, message)


COX = {
    "no event": (
        lambda: fit("cox", y=surv(0 * CODE, TIME)),
        ValueError,
        "`y` has no event (all 240 rows censored): a Cox model cannot be fitted.",
    ),
    "mixed names": (
        lambda: fit("cox", pd.DataFrame(X[:, :2].toarray(), columns=["age", 1])),
        TypeError,
        ("Feature names are only supported if all input features have string names, but", ""),
    ),
    "ties": (
        lambda: fit("cox", ties="exact"),
        ValueError,
        ("The 'ties' parameter of CoxLassoCCD must be a str among {", "}. Got 'exact' instead."),
    ),
    "unknown varying": (
        lambda: fit("cox", time_varying={"weight": [5]}),
        ValueError,
        "`time_varying` names column 'weight', but `X` has no column names; use positions or pass "
        "a DataFrame. In a pipeline NamedColumns, around the transformers, names them.",
    ),
    "time_varying as list": (
        lambda: fit("cox", time_varying=[5]),
        ValueError,
        "The 'time_varying' parameter of CoxLassoCCD must be an instance of 'dict' or None. Got "
        "[5] instead.",
    ),
    "baseline not fitted": (
        lambda: CoxLassoCCD().unique_times_,
        NotFittedError,
        "This CoxLassoCCD instance is not fitted yet. Call 'fit' with appropriate arguments "
        "before using this estimator.",
    ),
    "no time": (
        lambda: varying().predict(X),
        ValueError,
        "`time` is missing: the coefficients change at [10.0]; pass the time that the prediction "
        "is for, or use predict_survival_function.",
    ),
    "negative time": (
        lambda: varying().predict(X, time=-1),
        ValueError,
        "`time` is -1, must be a number of at least 0.",
    ),
    "time as truth value": (
        lambda: varying().predict(X, time=True),
        ValueError,
        "`time` is True, must be a number of at least 0.",
    ),
}
FINE_GRAY = {
    "event of interest absent": (
        lambda: fit("fine-gray", event_of_interest=3),
        ValueError,
        "`event_of_interest` is 3, but no row of `y` has this code; its codes of events are 1, 2.",
    ),
    "censored rows of interest": (
        lambda: fit("fine-gray", event_of_interest=0),
        ValueError,
        "The 'event_of_interest' parameter of FineGrayCCD must be an int in the range [1, inf) or "
        "an instance of 'str'. Got 0 instead.",
    ),
    "event of interest as truth value": (
        lambda: fit("fine-gray", event_of_interest=True),
        TypeError,
        "`event_of_interest` is True of type bool; pass an integer code.",
    ),
    "booleans": (
        lambda: fit("fine-gray", y=surv(CODE > 0, TIME)),
        TypeError,
        "field 'event' of `y` has dtype bool, in which there are no competing events; "
        f"{CODES.rstrip('.')}, or fit CoxLassoCCD for a single kind.",
    ),
    "score of booleans": (
        lambda: fitted("fine-gray").score(X, surv(CODE > 0, TIME)),
        TypeError,
        "field 'event' of `y` has dtype bool, in which there are no competing events; "
        f"{CODES.rstrip('.')}, or fit CoxLassoCCD for a single kind.",
    ),
    "no event": (
        lambda: fit("fine-gray", y=competing_risks(0 * CODE, TIME)),
        ValueError,
        "`y` has no event (all 240 rows censored): a Fine-Gray model cannot be fitted.",
    ),
    "delayed entry": (
        lambda: fit("fine-gray", y=surv(CODE > 0, TIME, start=TIME - 1)),
        ValueError,
        "`y` has a field 'start', but Fine-Gray regression with delayed entry is not offered; "
        "leave it out, or fit the cause-specific hazard with CoxLassoCCD, where competing events "
        "are censored.",
    ),
    "negative code": (
        lambda: fit("fine-gray", y=raw(event=changed(CODE, 4, -2), time=TIME)),
        ValueError,
        f"`event` is -2 in row 4; {CODES}",
    ),
    "codes as floats": (
        lambda: fit("fine-gray", y=raw(event=CODE * 1.0, time=TIME)),
        TypeError,
        "`y` has dtype float64 in its first field 'event', must be integer codes; build it "
        "with sksurvgpu.competing_risks(event, time).",
    ),
    "negative time": (
        lambda: fit("fine-gray", y=raw(event=CODE, time=changed(TIME, 4, -2.0))),
        ValueError,
        "`time` is -2 in row 4, must be at least 0.",
    ),
    "infinite time": (
        lambda: fit("fine-gray", y=raw(event=CODE, time=changed(TIME, 4, np.inf))),
        ValueError,
        f"`time` {NOT_FINITE}",
    ),
    "censoring groups too few": (
        lambda: fit("fine-gray", rows={"censoring_groups": [1]}),
        ValueError,
        "`censoring_groups` has 1 entries, `X` has 240 rows; pass one per row.",
    ),
    "censoring groups missing": (
        lambda: fit("fine-gray", rows={"censoring_groups": [None, "a"] * (N // 2)}),
        ValueError,
        "`censoring_groups` has 120 missing value(s); drop or fill those rows first.",
    ),
    "censoring groups fractional": (
        lambda: fit("fine-gray", rows={"censoring_groups": TIME + 0.5}),
        TypeError,
        "`censoring_groups` has labels of dtype float64; pass integers or strings.",
    ),
    "convention of ties": (
        lambda: fit("fine-gray", censoring_ties="survival"),
        ValueError,
        (
            "The 'censoring_ties' parameter of FineGrayCCD must be a str among {",
            "}. Got 'survival' instead.",
        ),
    ),
}
OWN = {f"cox: {name}": case for name, case in COX.items()}
OWN |= {f"fine-gray: {name}": case for name, case in FINE_GRAY.items()}


@pytest.mark.parametrize("mistake", OWN)
def test_own_message(mistake):
    check(*OWN[mistake])
