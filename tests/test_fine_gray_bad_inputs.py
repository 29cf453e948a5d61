"""What users of Fine-Gray regression may get wrong, and the whole message that they then read."""

from functools import cache

import numpy as np
import pytest
from faces import CODE, FACES, STRATA, TIME, N, X
from mistakes import NOT_FINITE, changed, check, fit, fitted, raw
from sksurv.exceptions import NoComparablePairException

from sksurvgpu import competing_risks, surv

CODES = "pass whole numbers, 0 where the row was censored and 1, 2, ... by kind of event."
NO_PAIRS = (
    "no two rows can be compared: no row is at risk beyond another one's event; the concordance "
    "needs more rows or more events."
)


@cache
def stratified():
    return fit("fine-gray", rows={"strata": STRATA})


FINE_GRAY = {
    "event of interest absent": (
        lambda: fit("fine-gray", event_of_interest=3),
        ValueError,
        "`event_of_interest` is 3, but no row of `y` has this code; its codes of events are 1, 2.",
    ),
    "censored rows of interest": (
        lambda: fit("fine-gray", event_of_interest=0),
        ValueError,
        "The 'event_of_interest' parameter of FineGrayCCD must be an int in the range [1, inf). "
        "Got 0 instead.",
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
    "no weight of the event": (
        lambda: fit("fine-gray", rows={"sample_weight": (CODE != 1) * 1.0}),
        ValueError,
        f"`sample_weight` is zero in all {np.count_nonzero(CODE == 1)} rows with an event; at "
        "least one must be positive.",
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
    "strata twice": (
        lambda: fit(
            "fine-gray", y=competing_risks(CODE, TIME, stratum=STRATA), rows={"strata": STRATA}
        ),
        ValueError,
        "`strata` was passed and `y` has a field 'stratum'; give the strata in one place.",
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
    "curves without strata": (
        lambda: stratified().predict_cumulative_incidence_function(X),
        ValueError,
        "`strata` is missing: the model has 3 strata with a baseline hazard each; pass one label "
        "per row.",
    ),
    "curves of an unknown stratum": (
        lambda: stratified().predict_cumulative_hazard_function(X[:2], ["west", "south"]),
        ValueError,
        "`strata` is 'south' in row 1, a label without rows in the fit; known are 'east', "
        "'north', 'west'.",
    ),
    "curves with strata": (
        lambda: fitted("fine-gray").predict_cumulative_incidence_function(X, STRATA),
        ValueError,
        "`strata` was passed, but the model was fitted without strata.",
    ),
    "score without strata": (
        lambda: stratified().score(X, FACES["fine-gray"].y),
        ValueError,
        "`strata` is missing: the model has 3 strata with a baseline hazard each; pass one label "
        "per row.",
    ),
    "score with strata": (
        lambda: fitted("fine-gray").score(X, FACES["fine-gray"].y, strata=STRATA),
        ValueError,
        "`strata` was passed, but the model was fitted without strata.",
    ),
    "curves of other columns": (
        lambda: fitted("fine-gray").predict_cumulative_incidence_function(X[:, :2]),
        ValueError,
        "X has 2 features, but FineGrayCCD is expecting 12 features as input.",
    ),
    "score without weight of the event": (
        lambda: fitted("fine-gray").score(X, FACES["fine-gray"].y, (CODE != 1) * 1.0),
        NoComparablePairException,
        NO_PAIRS,
    ),
    "score of a row": (
        lambda: fitted("fine-gray").score(X[:1], competing_risks([1], [2.0])),
        NoComparablePairException,
        NO_PAIRS,
    ),
}


@pytest.mark.parametrize("mistake", FINE_GRAY)
def test_message(mistake):
    check(*FINE_GRAY[mistake])
