"""What users of one estimator may get wrong, and the whole message that they then read."""

import numpy as np
import pytest
from faces import COUNT, EXPOSURE, FACES, IS_CASE, STRATA, SUBJECT, TIME, N, X
from mistakes import NOT_FINITE, changed, check, fit, fitted, raw

from sksurvgpu import CaseSeriesCCD, case_series, matched, surv
from sksurvgpu.exceptions import NothingToCompareError

EVENTS = "pass numbers of events: whole numbers of at least 0."
SERIES = {"count": COUNT, "length": EXPOSURE, "subject": SUBJECT}
OF_SERIES = "build it with sksurvgpu.case_series(count, length, subject)."


def fit_series(rows=None, **fields):
    return fit("case series", y=raw(**{**SERIES, **fields}), rows=rows)


N_WITH_EVENTS = np.count_nonzero(COUNT)
CASE_SERIES = {
    "no event": (
        lambda: fit_series(count=0 * COUNT),
        ValueError,
        "`y` has no subject with an event and at least two rows, so there is nothing to compare: "
        "of 60 subjects, 0 have an event and 60 at least two rows; check the labels of the "
        "subjects.",
    ),
    "an era a subject": (
        lambda: fit_series(subject=np.arange(N)),
        ValueError,
        "`y` has no subject with an event and at least two rows, so there is nothing to compare: "
        f"of 240 subjects, {N_WITH_EVENTS} have an event and 0 at least two rows; check the "
        "labels of the subjects.",
    ),
    "survival outcome": (
        lambda: fit("case series", y=surv(IS_CASE, TIME, subject=SUBJECT)),
        ValueError,
        f"`y` has a field 'event', must have 'count', 'length', 'subject' only; {OF_SERIES}",
    ),
    "negative count": (
        lambda: fit_series(count=changed(COUNT, 4, -1)),
        ValueError,
        f"`count` is -1 in row 4; {EVENTS}",
    ),
    "fractional count": (
        lambda: fit_series(count=changed(COUNT * 1.0, 4, 0.5)),
        ValueError,
        f"`count` is 0.5 in row 4; {EVENTS}",
    ),
    "length zero": (
        lambda: fit_series(length=changed(EXPOSURE, 4, 0.0)),
        ValueError,
        "`length` is 0 in row 4, must be positive; drop rows that were never observed.",
    ),
    "length nan": (
        lambda: fit_series(length=changed(EXPOSURE, 4, np.nan)),
        ValueError,
        f"`length` {NOT_FINITE}",
    ),
    "weights differ": (
        lambda: fit("case series", rows={"sample_weight": np.arange(N) + 1.0}),
        ValueError,
        (
            f"`sample_weight` differs within subject {SUBJECT[0]}: 1 in row 0, ",
            " in another; give all rows of a subject the same weight.",
        ),
    ),
    "no weight of events": (
        lambda: fit_series(
            count=np.where(SUBJECT == 0, 1, 0), rows={"sample_weight": (SUBJECT != 0) * 1.0}
        ),
        ValueError,
        "`sample_weight` is zero in all 4 rows with an event; at least one must be positive.",
    ),
    "weights differ in score": (
        lambda: fitted("case series").score(X, FACES["case series"].y, np.arange(N) + 1.0),
        ValueError,
        (
            f"`sample_weight` differs within subject {SUBJECT[0]}: 1 in row 0, ",
            " in another; give all rows of a subject the same weight.",
        ),
    ),
    "lonely eras": (
        lambda: CaseSeriesCCD().fit(X[:2], case_series([1, 2], [1, 1], [1, 2])),
        NothingToCompareError,
        "`y` has no subject with an event and at least two rows, so there is nothing to compare: "
        "of 2 subjects, 2 have an event and 0 at least two rows; check the labels of the subjects.",
    ),
}


def fit_counts(name, y=COUNT, params=None, **rows):
    return fit(name, y=y, rows=rows, **(params or {}))


CONDITIONAL_POISSON = {
    "strata of one row": (
        lambda: fit_counts("conditional poisson", strata=np.arange(N)),
        ValueError,
        "`y` has no stratum with an event and at least two rows, so there is nothing to compare: "
        f"of 240 strata, {N_WITH_EVENTS} have an event and 0 at least two rows; check the labels "
        "of the strata.",
    ),
    "strata too few": (
        lambda: fit_counts("conditional poisson", strata=SUBJECT[:7]),
        ValueError,
        "`strata` has 7 entries, `X` has 240 rows; pass one per row.",
    ),
    "strata fractional": (
        lambda: fit_counts("conditional poisson", strata=EXPOSURE),
        TypeError,
        "`strata` has labels of dtype float64; pass integers or strings.",
    ),
    "score without strata": (
        lambda: fit_counts("conditional poisson", strata=STRATA).score(X, COUNT),
        ValueError,
        "`strata` is missing: the model has 3 strata with a rate each; pass one label per row.",
    ),
    "score with strata": (
        lambda: fit_counts("conditional poisson").score(X, COUNT, strata=STRATA),
        ValueError,
        "`strata` was passed, but the model was fitted without strata.",
    ),
}
OF_COUNTS = {
    "count negative": (
        lambda name: fit_counts(name, changed(COUNT, 4, -1)),
        ValueError,
        "`y` is -1 in row 4, must be at least 0.",
    ),
    "count nan": (
        lambda name: fit_counts(name, changed(COUNT * 1.0, 4, np.nan)),
        ValueError,
        f"`y` {NOT_FINITE}",
    ),
    "counts zero": (
        lambda name: fit_counts(name, 0 * COUNT),
        ValueError,
        "`y` is zero in all 240 rows; at least one event is needed to estimate a rate.",
    ),
    "counts as text": (
        lambda name: fit_counts(name, STRATA),
        TypeError,
        "`y` has dtype <U5; pass numbers.",
    ),
    "two columns of counts": (
        lambda name: fit_counts(name, np.column_stack([COUNT, COUNT])),
        ValueError,
        "`y` has shape (240, 2), must be one-dimensional; fit one model per column.",
    ),
    "no weight of events": (
        lambda name: fit_counts(name, sample_weight=(COUNT == 0) * 1.0),
        ValueError,
        f"`sample_weight` is zero in all {N_WITH_EVENTS} rows with an event; at least one must be "
        "positive.",
    ),
    "exposure zero": (
        lambda name: fit_counts(name, exposure=changed(EXPOSURE, 4, 0.0)),
        ValueError,
        "`exposure` is 0 in row 4, must be positive; drop rows that were never observed.",
    ),
    "exposure negative": (
        lambda name: fit_counts(name, exposure=changed(EXPOSURE, 4, -0.5)),
        ValueError,
        "`exposure` is -0.5 in row 4, must be positive; drop rows that were never observed.",
    ),
    "exposure infinite": (
        lambda name: fit_counts(name, exposure=changed(EXPOSURE, 4, np.inf)),
        ValueError,
        f"`exposure` {NOT_FINITE}",
    ),
    "exposure too short": (
        lambda name: fit_counts(name, exposure=[1.0]),
        ValueError,
        "`exposure` has 1 entries, `X` has 240 rows; pass one per row.",
    ),
    "exposure of all rows": (
        lambda name: fit_counts(name, exposure=3.0),
        ValueError,
        "`exposure` is 3.0, must be one-dimensional; pass a flat array or column.",
    ),
    "score with negative counts": (
        lambda name: fit(name).score(X, changed(COUNT, 4, -1)),
        ValueError,
        "`y` is -1 in row 4, must be at least 0.",
    ),
    "score with exposure zero": (
        lambda name: fit(name).score(X, COUNT, exposure=changed(EXPOSURE, 4, 0.0)),
        ValueError,
        "`exposure` is 0 in row 4, must be positive; drop rows that were never observed.",
    ),
}


@pytest.mark.parametrize("name", ["conditional poisson", "poisson"])
@pytest.mark.parametrize("mistake", OF_COUNTS)
def test_message_about_counts(mistake, name):
    call, error, message = OF_COUNTS[mistake]
    check(lambda: call(name), error, message)


NO_SETS = (
    "`y` is a plain vector and `strata` was not passed, but cases are compared with controls of "
    "their matched set; pass the set of each row as `strata`, or build it with "
    "sksurvgpu.matched(case, stratum)."
)


def fit_sets(y=IS_CASE, strata=SUBJECT, **rows):
    return fit("conditional logistic", y=y, rows={"strata": strata, **rows})


CONDITIONAL_LOGISTIC = {
    "no strata": (lambda: fit_sets(strata=None), ValueError, NO_SETS),
    "strata twice": (
        lambda: fit_sets(matched(IS_CASE, SUBJECT)),
        ValueError,
        "`strata` was passed and `y` has a field 'stratum'; give the strata in one place.",
    ),
    "survival outcome": (
        lambda: fit_sets(surv(IS_CASE, TIME), None),
        ValueError,
        "`y` has a field 'event', must have 'case', 'stratum' only; build it with "
        "sksurvgpu.matched(case, stratum).",
    ),
    "labels": (
        lambda: fit_sets(STRATA),
        TypeError,
        "`y` has dtype <U5; pass booleans or 0/1, of labels such as labels == 'yes'.",
    ),
    "three classes": (
        lambda: fit_sets(np.arange(N) % 3),
        ValueError,
        "`y` is 2 in row 2, must be bool or 0/1.",
    ),
    "nan": (
        lambda: fit_sets(changed(IS_CASE * 1.0, 4, np.nan)),
        ValueError,
        "`y` is nan in row 4, must be bool or 0/1.",
    ),
    "no case": (
        lambda: fit_sets(np.zeros(N)),
        ValueError,
        "`y` has no stratum with both a case and a control: of 60 strata, 0 have cases only and "
        "60 controls only; check the labels of the strata.",
    ),
    "sets of one kind": (
        lambda: fit_sets(SUBJECT < 20),
        ValueError,
        "`y` has no stratum with both a case and a control: of 60 strata, 20 have cases only and "
        "40 controls only; check the labels of the strata.",
    ),
    "weights differ": (
        lambda: fit_sets(sample_weight=np.arange(N) + 1.0),
        ValueError,
        (
            f"`sample_weight` differs within stratum {SUBJECT[0]}: 1 in row 0, ",
            " in another; give all rows of a stratum the same weight.",
        ),
    ),
    "no weight of cases": (
        lambda: fit_sets(np.arange(N) == np.argmin(SUBJECT), sample_weight=(SUBJECT != 0) * 1.0),
        ValueError,
        "`sample_weight` is zero in all 1 rows with an event; at least one must be positive.",
    ),
    "ties": (
        lambda: fit("conditional logistic", ties="cox"),
        ValueError,
        (
            "The 'ties' parameter of ConditionalLogisticCCD must be a str among {",
            "}. Got 'cox' instead.",
        ),
    ),
    "score without strata": (
        lambda: fitted("conditional logistic").score(X, IS_CASE),
        ValueError,
        NO_SETS,
    ),
}
CLASSIFIER = {
    "one class": (
        lambda: fit("logistic", y=np.full(N, "a")),
        ValueError,
        "`y` has one class, 'a'; a classifier can't train when only one class is present.",
    ),
    "one number": (
        lambda: fit("logistic", y=np.ones(N, int)),
        ValueError,
        "`y` has one class, 1; a classifier can't train when only one class is present.",
    ),
    "three classes": (
        lambda: fit("logistic", y=STRATA),
        ValueError,
        "Only binary classification is supported. The type of the target is multiclass: `y` has 3 "
        "classes, must have two.",
    ),
    "missing label": (
        lambda: fit("logistic", y=np.array(["a", None] * (N // 2), dtype=object)),
        ValueError,
        "`y` has 120 missing value(s); drop or fill those rows first.",
    ),
    "labels of two types": (
        lambda: fit("logistic", y=np.array(["a", 1] * (N // 2), dtype=object)),
        TypeError,
        "`y` has labels of type int, str; pass all integers or all strings.",
    ),
    "no weight of a class": (
        lambda: fit("logistic", rows={"sample_weight": IS_CASE * 1.0}),
        ValueError,
        "the weights of all rows of class 'no' are zero, so one class is left; give some of its "
        "rows a positive weight.",
    ),
    "class weight zero": (
        lambda: fit("logistic", class_weight={"yes": 0.0, "no": 1.0}),
        ValueError,
        "the weights of all rows of class 'yes' are zero, so one class is left; give some of its "
        "rows a positive weight.",
    ),
    "class weight negative": (
        lambda: fit("logistic", class_weight={"yes": -3, "no": 1.0}),
        ValueError,
        "`class_weight` of class 'yes' is -3, must be a finite number of at least 0.",
    ),
    "class weight nan": (
        lambda: fit("logistic", y=IS_CASE, class_weight={True: np.nan, False: 1.0}),
        ValueError,
        "`class_weight` of class True is nan, must be a finite number of at least 0.",
    ),
    "class weight infinite": (
        lambda: fit("logistic", y=IS_CASE * 1, class_weight={1: np.inf}),
        ValueError,
        "`class_weight` of class 1 is inf, must be a finite number of at least 0.",
    ),
    "class weight of unknown classes": (
        lambda: fit("logistic", class_weight={"Yes": 2.0, "no": 1.0}),
        ValueError,
        "The classes, ['yes'], are not in class_weight",
    ),
    "class weights as list": (
        lambda: fit("logistic", class_weight=[1, 2]),
        ValueError,
        (
            "The 'class_weight' parameter of LogisticCCD must be an instance of 'dict', a str "
            "among {'balanced'} or None. Got [1, 2] instead.",
            "",
        ),
    ),
    "no features": (
        lambda: fit("logistic").predict_proba(X[:, :1]),
        ValueError,
        "X has 1 features, but LogisticCCD is expecting 12 features as input.",
    ),
}
REGRESSORS = {
    "number nan": (
        lambda: fit("linear", y=changed(TIME, 4, np.nan)),
        ValueError,
        f"`y` {NOT_FINITE}",
    ),
    "numbers complex": (
        lambda: fit("linear", y=TIME + 0j),
        TypeError,
        "`y` has dtype complex128; pass numbers.",
    ),
    "numbers as text": (
        lambda: fit("linear", y=STRATA),
        TypeError,
        "`y` has dtype <U5; pass numbers.",
    ),
    "intercept": (
        lambda: fit("linear", fit_intercept="no"),
        ValueError,
        "The 'fit_intercept' parameter of LinearCCD must be an instance of 'bool' or an instance "
        "of 'numpy.bool'. Got 'no' instead.",
    ),
    "exposure of predictions": (
        lambda: fit("poisson").predict(X[:2], exposure=[1.0, -2.0]),
        ValueError,
        "`exposure` is -2 in row 1, must be positive; drop rows that were never observed.",
    ),
    "exposure of other rows": (
        lambda: fit("poisson").predict(X[:2], exposure=EXPOSURE),
        ValueError,
        "`exposure` has 240 entries, `X` has 2 rows; pass one per row.",
    ),
    "weights of a score": (
        lambda: fit("poisson").score(X, COUNT, sample_weight=np.zeros(N)),
        ValueError,
        "`sample_weight` is zero in every row; at least one must be positive.",
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
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize("mistake", OWN)
def test_own_message(mistake):
    check(*OWN[mistake])
