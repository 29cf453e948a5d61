"""What users of one estimator may get wrong, and what they then read."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from faces import CODE, COUNT, EXPOSURE, FACES, IS_CASE, STRATA, SUBJECT, TIME, N, X
from mistakes import changed, check, fit, fitted, raw
from sklearn.exceptions import NotFittedError
from sksurv.exceptions import NoComparablePairException

from sksurvgpu import CaseSeriesCCD, CoxLassoCCD, case_series, competing_risks, surv
from sksurvgpu.exceptions import NothingToCompareError

SERIES = {"count": COUNT, "length": EXPOSURE, "subject": SUBJECT}


def fit_series(rows=None, **fields):
    return fit("case series", y=raw(**{**SERIES, **fields}), rows=rows)


N_WITH_EVENTS = np.count_nonzero(COUNT)
CASE_SERIES = {
    "no event": (
        lambda: fit_series(count=0 * COUNT),
        ValueError,
        "`y`...nothing to compare...60 subjects, 0 have an event",
    ),
    "survival outcome": (
        lambda: fit("case series", y=surv(IS_CASE, TIME, subject=SUBJECT)),
        ValueError,
        "`y`...field 'event'...sksurvgpu.case_series(count, length, subject)",
    ),
    "weights differ": (
        lambda: fit("case series", rows={"sample_weight": np.arange(N) + 1.0}),
        ValueError,
        f"`sample_weight`...subject {SUBJECT[0]}...same weight",
    ),
    "no weight of events": (
        lambda: fit_series(
            count=np.where(SUBJECT == 0, 1, 0), rows={"sample_weight": (SUBJECT != 0) * 1.0}
        ),
        ValueError,
        "`sample_weight`...4 rows...one must be positive",
    ),
    "weights differ in score": (
        lambda: fitted("case series").score(X, FACES["case series"].y, np.arange(N) + 1.0),
        ValueError,
        f"`sample_weight`...subject {SUBJECT[0]}...same weight",
    ),
    "lonely eras": (
        lambda: CaseSeriesCCD().fit(X[:2], case_series([1, 2], [1, 1], [1, 2])),
        NothingToCompareError,
        "`y`...nothing to compare...2 subjects, 2 have an event",
    ),
}


def fit_counts(name, y=COUNT, params=None, **rows):
    return fit(name, y=y, rows=rows, **(params or {}))


CONDITIONAL_POISSON = {
    "strata of one row": (
        lambda: fit_counts("conditional poisson", strata=np.arange(N)),
        ValueError,
        f"`y`...nothing to compare...240 strata, {N_WITH_EVENTS} have an event",
    ),
    "strata too few": (
        lambda: fit_counts("conditional poisson", strata=SUBJECT[:7]),
        ValueError,
        "`strata`...7 entries...one per row",
    ),
    "score without strata": (
        lambda: fit_counts("conditional poisson", strata=STRATA).score(X, COUNT),
        ValueError,
        "`strata`...is missing...3 strata...one label per row",
    ),
    "score with strata": (
        lambda: fit_counts("conditional poisson").score(X, COUNT, strata=STRATA),
        ValueError,
        "`strata`...without strata",
    ),
}
OF_COUNTS = {
    "count negative": (
        lambda name: fit_counts(name, changed(COUNT, 4, -1)),
        ValueError,
        "`y`...-1...row 4...at least 0",
    ),
    "counts zero": (
        lambda name: fit_counts(name, 0 * COUNT),
        ValueError,
        "`y`...240 rows...at least one event",
    ),
    "no weight of events": (
        lambda name: fit_counts(name, sample_weight=(COUNT == 0) * 1.0),
        ValueError,
        f"`sample_weight`...{N_WITH_EVENTS} rows...one must be positive",
    ),
    "exposure zero": (
        lambda name: fit_counts(name, exposure=changed(EXPOSURE, 4, 0.0)),
        ValueError,
        "`exposure`...0...row 4...must be positive",
    ),
    "exposure too short": (
        lambda name: fit_counts(name, exposure=[1.0]),
        ValueError,
        "`exposure`...1 entries...one per row",
    ),
    "score with negative counts": (
        lambda name: fit(name).score(X, changed(COUNT, 4, -1)),
        ValueError,
        "`y`...-1...row 4...at least 0",
    ),
    "score with exposure zero": (
        lambda name: fit(name).score(X, COUNT, exposure=changed(EXPOSURE, 4, 0.0)),
        ValueError,
        "`exposure`...0...row 4...must be positive",
    ),
}


@pytest.mark.parametrize("name", ["conditional poisson", "poisson"])
@pytest.mark.parametrize("mistake", OF_COUNTS)
def test_message_about_counts(mistake, name):
    call, error, message = OF_COUNTS[mistake]
    check(lambda: call(name), error, message)


NO_SETS = "`strata` was not passed...sksurvgpu.matched(case, stratum)"


def fit_sets(y=IS_CASE, strata=SUBJECT, **rows):
    return fit("conditional logistic", y=y, rows={"strata": strata, **rows})


CONDITIONAL_LOGISTIC = {
    "no strata": (
        lambda: fit_sets(strata=None),
        ValueError,
        NO_SETS,
    ),
    "survival outcome": (
        lambda: fit_sets(surv(IS_CASE, TIME), None),
        ValueError,
        "`y`...field 'event'...sksurvgpu.matched(case, stratum)",
    ),
    "sets of one kind": (
        lambda: fit_sets(SUBJECT < 20),
        ValueError,
        "`y`...both a case and a control...20 have cases only",
    ),
    "weights differ": (
        lambda: fit_sets(sample_weight=np.arange(N) + 1.0),
        ValueError,
        f"`sample_weight`...stratum {SUBJECT[0]}...same weight",
    ),
    "no weight of cases": (
        lambda: fit_sets(np.arange(N) == np.argmin(SUBJECT), sample_weight=(SUBJECT != 0) * 1.0),
        ValueError,
        "`sample_weight`...1 rows...one must be positive",
    ),
    "ties": (
        lambda: fit("conditional logistic", ties="cox"),
        ValueError,
        "'ties' parameter of ConditionalLogisticCCD...Got 'cox'",
    ),
    "score without strata": (
        lambda: fitted("conditional logistic").score(X, IS_CASE),
        ValueError,
        NO_SETS,
    ),
}
CLASSIFIER = {
    "one class": (lambda: fit("logistic", y=np.full(N, "a")), ValueError, "`y`...has one class"),
    "three classes": (
        lambda: fit("logistic", y=STRATA),
        ValueError,
        "binary...`y` has 3 classes",
    ),
    "missing label": (
        lambda: fit("logistic", y=np.array(["a", None] * (N // 2), dtype=object)),
        ValueError,
        "`y`...120 missing",
    ),
    "labels of two types": (
        lambda: fit("logistic", y=np.array(["a", 1] * (N // 2), dtype=object)),
        TypeError,
        "`y`...all integers or all strings",
    ),
    "no weight of a class": (
        lambda: fit("logistic", rows={"sample_weight": IS_CASE * 1.0}),
        ValueError,
        "weights...class 'no'...positive weight",
    ),
    "class weight zero": (
        lambda: fit("logistic", class_weight={"yes": 0.0, "no": 1.0}),
        ValueError,
        "weights...class 'yes'...positive weight",
    ),
    "class weight negative": (
        lambda: fit("logistic", class_weight={"yes": -3, "no": 1.0}),
        ValueError,
        "`class_weight`...-3...finite number",
    ),
    "class weight of unknown classes": (
        lambda: fit("logistic", class_weight={"Yes": 2.0, "no": 1.0}),
        ValueError,
        "'yes'...class_weight",
    ),
    "class weights as list": (
        lambda: fit("logistic", class_weight=[1, 2]),
        ValueError,
        "'class_weight' parameter of LogisticCCD...Got [1, 2]",
    ),
    "no features": (
        lambda: fit("logistic").predict_proba(X[:, :1]),
        ValueError,
        "1 feature...12 features",
    ),
}
REGRESSORS = {
    "number nan": (lambda: fit("linear", y=changed(TIME, 4, np.nan)), ValueError, "`y`...1 NaN"),
    "numbers as text": (lambda: fit("linear", y=STRATA), TypeError, "`y`...<U5...pass numbers"),
    "intercept": (
        lambda: fit("linear", fit_intercept="no"),
        ValueError,
        "'fit_intercept' parameter of LinearCCD...Got 'no'",
    ),
    "exposure of predictions": (
        lambda: fit("poisson").predict(X[:2], exposure=[1.0, -2.0]),
        ValueError,
        "`exposure`...-2...row 1...must be positive",
    ),
    "exposure of other rows": (
        lambda: fit("poisson").predict(X[:2], exposure=EXPOSURE),
        ValueError,
        "`exposure`...240 entries...one per row",
    ),
    "weights of a score": (
        lambda: fit("poisson").score(X, COUNT, sample_weight=np.zeros(N)),
        ValueError,
        "`sample_weight`...one must be positive",
    ),
}

MODELS = ("cox", "fine-gray")
NO_PAIRS = "no two rows can be compared...more rows or more events"
NO_STRATA = "`strata` is missing...3 strata...one label per row"
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


OF_BOTH = {
    "no weight of the event": (
        lambda name: fit(name, rows={"sample_weight": WEIGHTLESS}),
        ValueError,
        "`sample_weight`...rows with an event...one must be positive",
    ),
    "strata twice": (
        lambda name: fit(name, y=outcome(name, stratum=STRATA), rows={"strata": STRATA}),
        ValueError,
        "`strata`...field 'stratum'...in one place",
    ),
    "curves without strata": (
        lambda name: stratified(name).predict_cumulative_hazard_function(X),
        ValueError,
        NO_STRATA,
    ),
    "curves of an unknown stratum": (
        lambda name: stratified(name).predict_cumulative_hazard_function(X[:2], ["west", "south"]),
        ValueError,
        "`strata`...'south'...row 1...known are 'east', 'north', 'west'",
    ),
    "strata of another type": (
        lambda name: stratified(name).predict_cumulative_hazard_function(X[:2], [1, 2]),
        ValueError,
        "`strata`...1...row 0...known are 'east', 'north', 'west'",
    ),
    "curves with strata": (
        lambda name: fitted(name).predict_cumulative_hazard_function(X, STRATA),
        ValueError,
        "`strata`...without strata",
    ),
    "score without strata": (
        lambda name: stratified(name).score(X, FACES[name].y),
        ValueError,
        NO_STRATA,
    ),
    "score with strata": (
        lambda name: fitted(name).score(X, FACES[name].y, strata=STRATA),
        ValueError,
        "`strata`...without strata",
    ),
    "score with strata in the outcome": (
        lambda name: fitted(name).score(X, outcome(name, stratum=STRATA)),
        ValueError,
        "`y`...field 'stratum'...without strata",
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
@pytest.mark.parametrize("mistake", OF_BOTH)
def test_message_of_both(mistake, name):
    call, error, message = OF_BOTH[mistake]
    check(lambda: call(name), error, message)


COX = {
    "mixed names": (
        lambda: fit("cox", pd.DataFrame(X[:, :2].toarray(), columns=["age", 1])),
        TypeError,
        "all input features have string names",
    ),
    "ties": (
        lambda: fit("cox", ties="exact"),
        ValueError,
        "'ties' parameter of CoxLassoCCD...Got 'exact'",
    ),
    "unknown varying": (
        lambda: fit("cox", time_varying={"weight": [5]}),
        ValueError,
        "`time_varying`...column 'weight'...no column names...use positions",
    ),
    "time_varying as list": (
        lambda: fit("cox", time_varying=[5]),
        ValueError,
        "'time_varying' parameter of CoxLassoCCD...Got [5]",
    ),
    "baseline not fitted": (
        lambda: CoxLassoCCD().unique_times_,
        NotFittedError,
        "CoxLassoCCD...not fitted yet",
    ),
    "no time": (
        lambda: varying().predict(X),
        ValueError,
        "`time` is missing...[10.0]...predict_survival_function",
    ),
    "negative time": (
        lambda: varying().predict(X, time=-1),
        ValueError,
        "`time`...-1...number of at least 0",
    ),
    "time as truth value": (
        lambda: varying().predict(X, time=True),
        ValueError,
        "`time`...True...number of at least 0",
    ),
}
FINE_GRAY = {
    "event of interest absent": (
        lambda: fit("fine-gray", event_of_interest=3),
        ValueError,
        "`event_of_interest`...3...no row of `y` has this code",
    ),
    "censored rows of interest": (
        lambda: fit("fine-gray", event_of_interest=0),
        ValueError,
        "'event_of_interest' parameter of FineGrayCCD...Got 0",
    ),
    "event of interest as truth value": (
        lambda: fit("fine-gray", event_of_interest=True),
        TypeError,
        "`event_of_interest`...bool...integer code",
    ),
    "score of booleans": (
        lambda: fitted("fine-gray").score(X, surv(CODE > 0, TIME)),
        TypeError,
        "`y`...bool...no competing events...whole numbers",
    ),
    "censoring groups too few": (
        lambda: fit("fine-gray", rows={"censoring_groups": [1]}),
        ValueError,
        "`censoring_groups`...1 entries...one per row",
    ),
    "censoring groups missing": (
        lambda: fit("fine-gray", rows={"censoring_groups": [None, "a"] * (N // 2)}),
        ValueError,
        "`censoring_groups`...120 missing",
    ),
    "convention of ties": (
        lambda: fit("fine-gray", censoring_ties="survival"),
        ValueError,
        "'censoring_ties' parameter of FineGrayCCD...Got 'survival'",
    ),
}
OWN = {
    f"{group}: {name}": case
    for group, cases in {
        "case series": CASE_SERIES,
        "conditional poisson": CONDITIONAL_POISSON,
        "conditional logistic": CONDITIONAL_LOGISTIC,
        "logistic": CLASSIFIER,
        "regressors": REGRESSORS,
        "cox": COX,
        "fine-gray": FINE_GRAY,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("mistake", OWN)
def test_own_message(mistake):
    check(*OWN[mistake])
