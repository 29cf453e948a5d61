"""What the estimators' users may get wrong, and the whole message that they then read."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sksurv.exceptions import NoComparablePairException
from sksurv.util import Surv

from sksurvgpu import CoxLassoCCD, fit_path, surv

N = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
FRAME = pd.DataFrame(X, columns=["age", "dose", "sex"])
EVENT = np.arange(N) % 3 > 0
TIME = RNG.permutation(N) + 1.0
Y = surv(EVENT, TIME)
MODEL = CoxLassoCCD(n_jobs=1)


@cache
def fitted():
    return CoxLassoCCD(n_jobs=1).fit(X, Y)


@cache
def named():
    return CoxLassoCCD(n_jobs=1).fit(FRAME, Y)


@cache
def stratified():
    return CoxLassoCCD(n_jobs=1).fit(X, Y, strata=["a"] * 15 + ["b"] * 15)


@cache
def varying():
    return CoxLassoCCD(time_varying={0: [10.0]}, n_jobs=1).fit(X, Y)


def changed(array, index, value):
    out = array.copy()
    out[index] = value
    return out


def fit(X=X, y=Y, *, sample_weight=None, strata=None, offset=None, **params):
    model = CoxLassoCCD(n_jobs=1, **params)
    return model.fit(X, y, sample_weight=sample_weight, strata=strata, offset=offset)


def raw_outcome(**fields):
    """An outcome that `surv` itself would have refused."""
    fields = {"event": EVENT, "time": TIME, **fields}
    y = np.empty(N, dtype=[(name, np.asarray(values).dtype) for name, values in fields.items()])
    for name, values in fields.items():
        y[name] = values
    return y


def out_of_range(name, rule, value):
    return f"The '{name}' parameter of CoxLassoCCD must be {rule}. Got {value} instead."


def no_option(name, value):
    """Beginning and end; the options between them are a set, in no order."""
    return (
        f"The '{name}' parameter of CoxLassoCCD must be a str among {{",
        f"}}. Got {value!r} instead.",
    )


BAD_X = {
    "nan": (
        lambda: fit(changed(X, (2, 1), np.nan)),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 1; impute them or drop those rows.",
    ),
    "infinite": (
        lambda: fit(sp.csc_array(changed(X, (2, 1), np.inf))),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 1; impute them or drop those rows.",
    ),
    "named column with nan": (
        lambda: fit(FRAME.mask(FRAME > 2)),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 'dose'; impute them or drop those rows.",
    ),
    "one-dimensional": (
        lambda: fit(X[:, 0]),
        ValueError,
        (
            "`X` has shape (30,), must be two-dimensional: one row per observation, one "
            "column per covariate. Reshape your data: X.reshape(-1, 1) for a single column."
        ),
    ),
    "no rows": (
        lambda: fit(X[:0], Y[:0]),
        ValueError,
        "`X` has 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required.",
    ),
    "no columns": (
        lambda: fit(X[:, :0]),
        ValueError,
        "`X` has 0 feature(s) (shape=(30, 0)) while a minimum of 1 is required.",
    ),
    "complex": (
        lambda: fit(X + 0j),
        ValueError,
        "Complex data not supported: `X` has dtype complex128; pass real numbers.",
    ),
    "strings": (
        lambda: fit(FRAME.assign(sex=pd.Series(["f"] * N, dtype=object))),
        TypeError,
        (
            "`X` column 'sex' has dtype object; pass numbers: one-hot encode categories "
            "(sklearn.preprocessing.OneHotEncoder), turn dates into durations, cast numbers "
            "kept as objects to float."
        ),
    ),
    "categories": (
        lambda: fit(FRAME.assign(sex=pd.Categorical(["f"] * N))),
        TypeError,
        (
            "`X` column 'sex' has dtype category; pass numbers: one-hot encode categories "
            "(sklearn.preprocessing.OneHotEncoder), turn dates into durations, cast numbers "
            "kept as objects to float."
        ),
    ),
    "mixed names": (
        lambda: fit(FRAME.rename(columns={"age": 1})),
        TypeError,
        ("Feature names are only supported if all input features have string names, but", ""),
    ),
}
BAD_Y = {
    "missing": (
        lambda: fit(y=None),
        ValueError,
        (
            "This estimator requires y to be passed, but the target y is None; build it with "
            "sksurvgpu.surv(event, time)."
        ),
    ),
    "plain numbers": (
        lambda: fit(y=TIME),
        TypeError,
        (
            "`y` has dtype float64, must be a structured array with an event and a time; "
            "build it with sksurvgpu.surv(event, time)."
        ),
    ),
    "data frame": (
        lambda: fit(y=pd.DataFrame(Y)),
        TypeError,
        (
            "`y` is of type DataFrame, must be a structured array; build it with "
            "sksurvgpu.surv(event, time), from a DataFrame with surv(df['event'], "
            "df['time'])."
        ),
    ),
    "length": (
        lambda: fit(y=Y[:-1]),
        ValueError,
        "`y` has 29 entries, `X` has 30 rows; pass one per row.",
    ),
    "no event": (
        lambda: fit(y=surv(np.zeros(N, bool), TIME)),
        ValueError,
        "`y` has no event (all 30 rows censored): a Cox model cannot be fitted.",
    ),
    "negative time": (
        lambda: fit(y=Surv.from_arrays(EVENT, changed(TIME, 3, -2.0))),
        ValueError,
        "`time` is -2 in row 3, must be at least 0.",
    ),
    "nan time": (
        lambda: fit(y=Surv.from_arrays(EVENT, changed(TIME, 3, np.nan))),
        ValueError,
        "`time` has 1 NaN or infinite value(s), the first in row 3; drop or fill those rows.",
    ),
    "numeric event": (
        lambda: fit(y=raw_outcome(event=EVENT * 1)),
        TypeError,
        (
            "`y` has dtype int64 in its first field 'event', must be bool; build it with "
            "sksurvgpu.surv(event, time); of several kinds of event take one with "
            "as_sksurv(y, event_of_interest=...)."
        ),
    ),
    "start at time": (
        lambda: fit(y=raw_outcome(start=TIME)),
        ValueError,
        (
            "`start` must be before `time`: row 0 has start 3 and time 3 (30 such row(s)); "
            "drop empty intervals."
        ),
    ),
    "unknown field": (
        lambda: fit(y=raw_outcome(weight=TIME)),
        ValueError,
        (
            "`y` has a field 'weight' that a survival outcome cannot have; after event and "
            "time only 'start', 'stratum' and 'subject' are read."
        ),
    ),
    "strata twice": (
        lambda: fit(y=raw_outcome(stratum=EVENT), strata=EVENT),
        ValueError,
        "`strata` was passed and `y` has a field 'stratum'; give the strata in one place.",
    ),
}
BAD_ROWS = {
    "negative weight": (
        lambda: fit(sample_weight=changed(TIME, 4, -1)),
        ValueError,
        "`sample_weight` is -1 in row 4, must be at least 0.",
    ),
    "nan weight": (
        lambda: fit(sample_weight=changed(TIME, 4, np.nan)),
        ValueError,
        (
            "`sample_weight` has 1 NaN or infinite value(s), the first in row 4; drop or "
            "fill those rows."
        ),
    ),
    "zero weights": (
        lambda: fit(sample_weight=np.zeros(N)),
        ValueError,
        "`sample_weight` is zero in every row; at least one must be positive.",
    ),
    "zero weights of events": (
        lambda: fit(sample_weight=1.0 - EVENT),
        ValueError,
        "`sample_weight` is zero in all 20 rows with an event; at least one must be positive.",
    ),
    "too few weights": (
        lambda: fit(sample_weight=TIME[:-2]),
        ValueError,
        "`sample_weight` has 28 entries, `X` has 30 rows; pass one per row.",
    ),
    "strata with missing": (
        lambda: fit(strata=pd.Series(["a", None] * (N // 2))),
        ValueError,
        "`strata` has 15 missing value(s); drop or fill those rows first.",
    ),
    "too few strata": (
        lambda: fit(strata=["a"] * 7),
        ValueError,
        "`strata` has 7 entries, `X` has 30 rows; pass one per row.",
    ),
    "fractional strata": (
        lambda: fit(strata=TIME / 2),
        TypeError,
        "`strata` has labels of dtype float64; pass integers or strings.",
    ),
    "infinite offset": (
        lambda: fit(offset=changed(TIME, 0, np.inf)),
        ValueError,
        "`offset` has 1 NaN or infinite value(s), the first in row 0; drop or fill those rows.",
    ),
    "two-dimensional offset": (
        lambda: fit(offset=X),
        ValueError,
        "`offset` has shape (30, 3), must be one-dimensional; pass a flat array.",
    ),
}
BAD_COLUMNS = {
    "unknown factor": (
        lambda: fit(FRAME, penalty_factor={"agee": 0}),
        ValueError,
        "`penalty_factor` names column 'agee', which `X` does not have; did you mean 'age'?",
    ),
    "name without names": (
        lambda: fit(penalty_factor={"age": 0}),
        ValueError,
        (
            "`penalty_factor` names column 'age', but `X` has no column names; use positions "
            "or pass a DataFrame."
        ),
    ),
    "factor position": (
        lambda: fit(penalty_factor={3: 0}),
        ValueError,
        "`penalty_factor` names column 3, `X` has columns 0 to 2.",
    ),
    "negative factor": (
        lambda: fit(penalty_factor=[1.0, -1.0, 1.0]),
        ValueError,
        "`penalty_factor` is -1 in position 1, must be at least 0.",
    ),
    "too few factors": (
        lambda: fit(penalty_factor=[1.0]),
        ValueError,
        (
            "`penalty_factor` has 1 entries, `X` has 3 columns; pass one per column, or a "
            "dictionary {column: factor}."
        ),
    ),
    "unknown varying": (
        lambda: fit(FRAME, time_varying={"weight": [5]}),
        ValueError,
        "`time_varying` names column 'weight', which `X` does not have.",
    ),
    "descending cuts": (
        lambda: fit(time_varying={0: [5, 2]}),
        ValueError,
        "`time_varying[0]` is [5.0, 2.0]; cut points must be positive and strictly increasing.",
    ),
    "cut at zero": (
        lambda: fit(time_varying={0: 0.0}),
        ValueError,
        "`time_varying[0]` is [0.0]; cut points must be positive and strictly increasing.",
    ),
}
BAD_PARAMETERS = {
    "negative alpha": (
        lambda: fit(alpha=-1),
        ValueError,
        out_of_range("alpha", "a float in the range [0.0, inf)", -1),
    ),
    "nan alpha": (
        lambda: fit(alpha=np.nan),
        ValueError,
        out_of_range("alpha", "a float in the range [0.0, inf)", "nan"),
    ),
    "infinite alpha": (
        lambda: fit(alpha=np.inf),
        ValueError,
        (
            "The 'alpha' parameter of CoxLassoCCD must be a float in the range [0.0, inf). "
            "Got inf instead."
        ),
    ),
    "alpha as text": (
        lambda: fit(alpha="0.1"),
        ValueError,
        out_of_range("alpha", "a float in the range [0.0, inf)", "'0.1'"),
    ),
    "l1_ratio": (
        lambda: fit(l1_ratio=1.5),
        ValueError,
        out_of_range("l1_ratio", "a float in the range [0.0, 1.0]", 1.5),
    ),
    "ties": (lambda: fit(ties="exact"), ValueError, no_option("ties", "exact")),
    "backend": (lambda: fit(backend="gpu"), ValueError, no_option("backend", "gpu")),
    "algorithm": (lambda: fit(algorithm="newton"), ValueError, no_option("algorithm", "newton")),
    "precision": (lambda: fit(precision="float16"), ValueError, no_option("precision", "float16")),
    "tol": (
        lambda: fit(tol=0),
        ValueError,
        (
            "The 'tol' parameter of CoxLassoCCD must be a float in the range (0.0, inf). Got "
            "0 instead."
        ),
    ),
    "max_iter": (
        lambda: fit(max_iter=0),
        ValueError,
        (
            "The 'max_iter' parameter of CoxLassoCCD must be an int in the range [1, inf). "
            "Got 0 instead."
        ),
    ),
    "n_jobs": (
        lambda: CoxLassoCCD(n_jobs=0).fit(X, Y),
        ValueError,
        "`n_jobs` is 0; pass None, a number of threads, or -1 for all cores.",
    ),
    "time_varying as list": (
        lambda: fit(time_varying=[5]),
        ValueError,
        (
            "The 'time_varying' parameter of CoxLassoCCD must be an instance of 'dict' or "
            "None. Got [5] instead."
        ),
    ),
    "float32 on the CPU": (
        lambda: fit(precision="float32"),
        ValueError,
        'precision="float32" exists on CUDA devices only, and this fit runs on the CPU; '
        'pass precision="float64", or backend="cuda".',
    ),
}
NO_PAIRS = (
    "no two rows can be compared: no row is at risk beyond another one's event; the concordance "
    "needs more rows or more events."
)
BAD_PREDICTIONS = {
    "not fitted": (
        lambda: MODEL.predict(X),
        NotFittedError,
        "This CoxLassoCCD instance is not fitted yet. Call 'fit' with appropriate arguments "
        "before using this estimator.",
    ),
    "baseline not fitted": (
        lambda: MODEL.unique_times_,
        NotFittedError,
        (
            "This CoxLassoCCD instance is not fitted yet. Call 'fit' with appropriate "
            "arguments before using this estimator."
        ),
    ),
    "columns": (
        lambda: fitted().predict(X[:, :2]),
        ValueError,
        "X has 2 features, but CoxLassoCCD is expecting 3 features as input.",
    ),
    "names": (
        lambda: named().predict(FRAME.rename(columns={"age": "AGE"})),
        ValueError,
        (
            "The feature names should match those that were passed during fit.\nFeature names "
            "unseen at fit time:\n- AGE\nFeature names seen at fit time, yet now missing:\n- "
            "age\n"
        ),
    ),
    "nan": (
        lambda: fitted().predict(changed(X, (0, 0), np.nan)),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 0; impute them or drop those rows.",
    ),
    "strata missing": (
        lambda: stratified().predict_survival_function(X),
        ValueError,
        (
            "`strata` is missing: the model has 2 strata with a baseline hazard each; pass "
            "one label per row."
        ),
    ),
    "unknown stratum": (
        lambda: stratified().predict_survival_function(X[:2], strata=["b", "c"]),
        ValueError,
        "`strata` is 'c' in row 1, a label without rows in the fit; known are 'a', 'b'.",
    ),
    "strata of another type": (
        lambda: stratified().predict_survival_function(X[:2], strata=[1, 2]),
        ValueError,
        "`strata` is 1 in row 0, a label without rows in the fit; known are 'a', 'b'.",
    ),
    "strata without need": (
        lambda: fitted().predict_survival_function(X[:2], strata=["b", "c"]),
        ValueError,
        "`strata` was passed, but the model was fitted without strata.",
    ),
    "score without strata": (
        lambda: stratified().score(X, Y),
        ValueError,
        (
            "`strata` is missing: the model has 2 strata with a baseline hazard each; pass "
            "one label per row."
        ),
    ),
    "score with strata": (
        lambda: fitted().score(X, Y, strata=EVENT),
        ValueError,
        "`strata` was passed, but the model was fitted without strata.",
    ),
    "score with strata in the outcome": (
        lambda: fitted().score(X, surv(EVENT, TIME, stratum=EVENT)),
        ValueError,
        "`y` has a field 'stratum', but the model was fitted without strata.",
    ),
    "no time": (
        lambda: varying().predict(X),
        ValueError,
        (
            "`time` is missing: the coefficients change at [10.0]; pass the time that the "
            "prediction is for, or use predict_survival_function."
        ),
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
    "score without events": (
        lambda: fitted().score(X, surv(np.zeros(N, bool), TIME)),
        NoComparablePairException,
        NO_PAIRS,
    ),
    "score without weight of events": (
        lambda: fitted().score(X, Y, sample_weight=1.0 - EVENT),
        NoComparablePairException,
        NO_PAIRS,
    ),
    "score without pairs": (
        lambda: fitted().score(X[:1], surv([True], [1.0])),
        NoComparablePairException,
        NO_PAIRS,
    ),
}
BAD_PATHS = {
    "negative alphas": (
        lambda: fit_path(MODEL, X, Y, alphas=[0.1, -0.1]),
        ValueError,
        "`alphas` has values that are negative or not finite; remove them.",
    ),
    "no alphas": (
        lambda: fit_path(MODEL, X, Y, alphas=[]),
        ValueError,
        "`alphas` has shape (0,); pass a list of one or more penalties.",
    ),
    "n_alphas": (
        lambda: fit_path(MODEL, X, Y, n_alphas=0),
        ValueError,
        "`n_alphas` is 0, must be a whole number of at least 1.",
    ),
    "no n_alphas": (
        lambda: fit_path(MODEL, X, Y, n_alphas=None),
        ValueError,
        "`n_alphas` is None, must be a whole number of at least 1.",
    ),
    "infinite n_alphas": (
        lambda: fit_path(MODEL, X, Y, n_alphas=np.inf),
        ValueError,
        "`n_alphas` is inf, must be a whole number of at least 1.",
    ),
    "alpha_min_ratio": (
        lambda: fit_path(MODEL, X, Y, alpha_min_ratio=2),
        ValueError,
        "`alpha_min_ratio` is 2, must lie between 0 and 1.",
    ),
    "nothing penalized": (
        lambda: fit_path(CoxLassoCCD(penalty_factor=[0, 0, 0], n_jobs=1), X, Y),
        ValueError,
        (
            "no column can enter the model: all are unpenalized, constant or unrelated to "
            "the outcome, so there is no path; pass `alphas`, or fit the estimator itself."
        ),
    ),
    "alpha not on the path": (
        lambda: fit_path(MODEL, X, Y, alphas=[0.1, 0.01]).estimator(0.05),
        ValueError,
        (
            "`alpha` is 0.05, which the path does not have (nearest: 0.01); pass it in "
            "`alphas` of fit_path, or fit the estimator."
        ),
    ),
}
CASES = {
    f"{group}: {name}": case
    for group, cases in {
        "X": BAD_X,
        "y": BAD_Y,
        "rows": BAD_ROWS,
        "columns": BAD_COLUMNS,
        "parameters": BAD_PARAMETERS,
        "predict": BAD_PREDICTIONS,
        "path": BAD_PATHS,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize(("call", "error", "message"), CASES.values(), ids=CASES)
def test_message(call, error, message):
    with pytest.raises(error) as raised:
        call()
    if isinstance(message, tuple):
        assert str(raised.value).startswith(message[0])
        assert str(raised.value).endswith(message[1])
    else:
        assert str(raised.value) == message
