"""What users of any estimator may get wrong, and the whole message that they then read."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from faces import CODE, COUNT, FACES, IS_CASE, STRATA, SUBJECT, TIME, N, X
from mistakes import NOT_FINITE, changed, check, fit, fitted

from sksurvgpu import fit_path, matched

DENSE = X.toarray()
FRAME = pd.DataFrame(DENSE[:, :3], columns=["age", "dose", "sex"])
ONES = np.ones(N)
BY_BUILDER = {
    "cox": ("surv", "event, time", "an event and a time"),
    "fine-gray": ("competing_risks", "event, time", "an event and a time"),
    "case series": ("case_series", "count, length, subject", "a count, a length and a subject"),
}


SHARED = {
    "X with nan": (
        lambda name: fit(name, changed(DENSE, (2, 1), np.nan)),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 1; impute them or drop those rows.",
    ),
    "X infinite": (
        lambda name: fit(name, sp.csr_array(changed(DENSE, (2, 1), -np.inf))),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 1; impute them or drop those rows.",
    ),
    "X with text": (
        lambda name: fit(name, FRAME.assign(sex=pd.Series(["f"] * N, dtype=object))),
        TypeError,
        "`X` column 'sex' has dtype object; pass numbers: one-hot encode categories "
        "(sklearn.preprocessing.OneHotEncoder), turn dates into durations, cast numbers kept as "
        "objects to float.",
    ),
    "no rows": (
        lambda name: fit(name, X[:0], FACES[name].y[:0]),
        ValueError,
        "`X` has 0 sample(s) (shape=(0, 12)) while a minimum of 1 is required.",
    ),
    "y too short": (
        lambda name: fit(name, y=FACES[name].y[:-1]),
        ValueError,
        "`y` has 239 entries, `X` has 240 rows; pass one per row.",
    ),
    "weights too few": (
        lambda name: fit(name, rows={"sample_weight": [1.0, 2.0]}),
        ValueError,
        "`sample_weight` has 2 entries, `X` has 240 rows; pass one per row.",
    ),
    "weight negative": (
        lambda name: fit(name, rows={"sample_weight": changed(ONES, 4, -1.5)}),
        ValueError,
        "`sample_weight` is -1.5 in row 4, must be at least 0.",
    ),
    "weight nan": (
        lambda name: fit(name, rows={"sample_weight": changed(ONES, 4, np.nan)}),
        ValueError,
        f"`sample_weight` {NOT_FINITE}",
    ),
    "weights zero": (
        lambda name: fit(name, rows={"sample_weight": np.zeros(N)}),
        ValueError,
        "`sample_weight` is zero in every row; at least one must be positive.",
    ),
    "weights infinite in sum": (
        lambda name: fit(name, rows={"sample_weight": np.full(N, 1e308)}),
        ValueError,
        "`sample_weight` has an infinite sum; rescale it, e.g. to mean 1.",
    ),
    "weight for all rows": (
        lambda name: fit(name, rows={"sample_weight": 2.0}),
        ValueError,
        "`sample_weight` is 2.0, must be one-dimensional; pass a flat array or column.",
    ),
    "weights as text": (
        lambda name: fit(name, rows={"sample_weight": STRATA}),
        TypeError,
        "`sample_weight` has dtype <U5; pass numbers.",
    ),
    "offset nan": (
        lambda name: fit(name, rows={"offset": changed(ONES, 4, np.nan)}),
        ValueError,
        f"`offset` {NOT_FINITE}",
    ),
    "offset too short": (
        lambda name: fit(name, rows={"offset": ONES[:3]}),
        ValueError,
        "`offset` has 3 entries, `X` has 240 rows; pass one per row.",
    ),
    "factor of an unknown column": (
        lambda name: fit(name, FRAME, penalty_factor={"agee": 0}),
        ValueError,
        "`penalty_factor` names column 'agee', which `X` does not have; did you mean 'age'?",
    ),
    "factor by name without names": (
        lambda name: fit(name, penalty_factor={"age": 0}),
        ValueError,
        "`penalty_factor` names column 'age', but `X` has no column names; use positions or pass "
        "a DataFrame. In a pipeline NamedColumns, around the transformers, names them.",
    ),
    "factor negative": (
        lambda name: fit(name, FRAME, penalty_factor={"dose": -1}),
        ValueError,
        "`penalty_factor` of column 'dose' is -1, must be a finite number of at least 0.",
    ),
    "factors too few": (
        lambda name: fit(name, penalty_factor=[1.0]),
        ValueError,
        "`penalty_factor` has 1 entries, `X` has 12 columns; pass one per column, or a dictionary "
        "{column: factor}.",
    ),
    "penalty too large": (
        lambda name: fit(name, alpha=1e200, penalty_factor={0: 10.0}),
        ValueError,
        "the penalty of a column is 2.4e+203 on the sum scale, more than a fit can compute with; "
        "make `alpha` or `penalty_factor` smaller.",
    ),
    "no threads": (
        lambda name: fit(name, n_jobs=0),
        ValueError,
        "`n_jobs` is 0; pass None, a number of threads, or -1 for all cores.",
    ),
    "single precision on the CPU": (
        lambda name: fit(name, precision="float32"),
        ValueError,
        'precision="float32" exists on CUDA devices only, and this fit runs on the CPU; pass '
        'precision="float64", or backend="cuda".',
    ),
    "prediction of nan": (
        lambda name: fitted(name).predict(changed(DENSE, (0, 0), np.nan)),
        ValueError,
        "`X` has 1 NaN or infinite value(s) in column 0; impute them or drop those rows.",
    ),
    "prediction of too few columns": (
        lambda name: fitted(name).predict(X[:, :2]),
        ValueError,
        ("X has 2 features, but ", " is expecting 12 features as input."),
    ),
    "negative penalties of a path": (
        lambda name: fit_path(
            FACES[name].make(), X, FACES[name].y, alphas=[0.1, -1], **FACES[name].arguments()
        ),
        ValueError,
        "`alphas` has values that are negative or not finite; remove them.",
    ),
}


@pytest.mark.parametrize("mistake", SHARED)
def test_shared_message(mistake):
    call, error, message = SHARED[mistake]
    for name in FACES:
        check(lambda name=name: call(name), error, message, name)


PARAMETERS = {
    "alpha": (-1, "a float in the range [0.0, inf)"),
    "alpha=nan": (np.nan, "a float in the range [0.0, inf)"),
    "alpha=inf": (np.inf, "a float in the range [0.0, inf)"),
    "alpha=text": ("0.1", "a float in the range [0.0, inf)"),
    "l1_ratio": (1.5, "a float in the range [0.0, 1.0], an instance of 'dict' or an array-like"),
    "tol": (0, "a float in the range (0.0, inf)"),
    "max_iter": (0, "an int in the range [1, inf)"),
    "warm_start": ("yes", "an instance of 'bool' or an instance of 'numpy.bool'"),
    "n_jobs": (1.5, "an instance of 'int' or None"),
    "algorithm": ("newton", None),
    "backend": ("gpu", None),
    "precision": ("float16", None),
    "device": (-1, "an int in the range [0, inf), an instance of 'list' or a str among {'all'}"),
    "penalty_factor": ("age", "an instance of 'dict', an array-like or None"),
}


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_shared_parameter(parameter):
    value, rule = PARAMETERS[parameter]
    parameter = parameter.partition("=")[0]
    for name, face in FACES.items():
        begin = f"The '{parameter}' parameter of {face.cls.__name__} must be "
        message = f"{begin}{rule}. Got {value!r} instead."
        if rule is None:  # the options are a set, in no order
            message = (f"{begin}a str among {{", f"}}. Got {value!r} instead.")
        check(lambda name=name: fit(name, **{parameter: value}), ValueError, message)


@pytest.mark.parametrize("name", FACES)
def test_missing_outcome(name):
    face = FACES[name]
    remedy = "."
    if name in BY_BUILDER:
        builder, fields, _ = BY_BUILDER[name]
        remedy = f"; build it with sksurvgpu.{builder}({fields})."
    elif name == "conditional logistic":
        remedy = "; build it with sksurvgpu.matched(case, stratum)."
    message = f"This estimator requires y to be passed, but the target y is None{remedy}"
    model = fit(name)
    check(lambda: face.make().fit(X, None, **face.arguments()), ValueError, message)
    if name not in ("logistic", "poisson", "linear"):
        check(lambda: model.score(X, None, **face.arguments()), ValueError, message)


@pytest.mark.parametrize("name", BY_BUILDER)
def test_plain_vectors_are_no_outcomes(name):
    builder, fields, nouns = BY_BUILDER[name]
    message = (
        f"must be a structured array with {nouns}; build it with sksurvgpu.{builder}({fields})."
    )
    for y in (TIME, COUNT, IS_CASE, STRATA):
        check(lambda y=y: fit(name, y=y), TypeError, f"`y` has dtype {y.dtype}, {message}")
    columns = ", ".join(f"df['{field}']" for field in fields.split(", "))
    message = (
        f"must be a structured array; build it with sksurvgpu.{builder}({fields}), from a "
        f"DataFrame with {builder}({columns})."
    )
    frame = pd.DataFrame({"event": CODE, "time": TIME})
    check(lambda: fit(name, y=frame), TypeError, f"`y` is of type DataFrame, {message}")
    check(lambda: fit(name, y=TIME.tolist()), TypeError, f"`y` is of type list, {message}")


@pytest.mark.parametrize("name", ["conditional poisson", "logistic", "poisson", "linear"])
@pytest.mark.parametrize("other", ["cox", "fine-gray", "case series", "sets"])
def test_structured_outcomes_are_no_vectors(other, name):
    y = matched(IS_CASE, SUBJECT) if other == "sets" else FACES[other].y
    content = "labels" if name == "logistic" else "numbers"
    message = (
        f"`y` is a structured array with the fields {', '.join(map(repr, y.dtype.names))}; this "
        f"model takes a plain vector of {content}, e.g. one of these fields."
    )
    check(lambda: fit(name, y=y), TypeError, message)


@pytest.mark.parametrize("name", ["cox", "fine-gray"])
@pytest.mark.parametrize("other", ["case_series(count, length)", "matched(case, stratum)"])
def test_outcomes_of_groups_are_no_survival_times(other, name):
    """Their first fields could pass for an event and a time: names of these are free."""
    y = FACES["case series"].y if "series" in other else matched(IS_CASE, SUBJECT)
    first, second = y.dtype.names[:2]
    builder = BY_BUILDER[name][0]
    message = (
        f"`y` has the fields '{first}' and '{second}' of {other.partition('(')[0]}, must have an "
        f"event and a time; build it with sksurvgpu.{builder}(event, time)."
    )
    check(lambda: fit(name, y=y), TypeError, message)


@pytest.mark.parametrize("name", FACES)
def test_names_of_other_columns(name):
    face = FACES[name]
    model = face.make(alpha=0.001).fit(FRAME, face.y, **face.arguments())
    message = (
        "The feature names should match those that were passed during fit.\nFeature names unseen "
        "at fit time:\n- AGE\nFeature names seen at fit time, yet now missing:\n- age\n"
    )
    check(lambda: model.predict(FRAME.rename(columns={"age": "AGE"})), ValueError, message)


def path(face=None, **options):
    face = face or COX.make()
    return fit_path(face, X, COX.y, **options)


COX = FACES["cox"]
PATHS = {
    "no alphas": (
        lambda: path(alphas=[]),
        "`alphas` has shape (0,); pass a list of one or more penalties.",
    ),
    "n_alphas": (
        lambda: path(n_alphas=0),
        "`n_alphas` is 0, must be a whole number of at least 1.",
    ),
    "no n_alphas": (
        lambda: path(n_alphas=None),
        "`n_alphas` is None, must be a whole number of at least 1.",
    ),
    "infinite n_alphas": (
        lambda: path(n_alphas=np.inf),
        "`n_alphas` is inf, must be a whole number of at least 1.",
    ),
    "alpha_min_ratio": (
        lambda: path(alpha_min_ratio=2),
        "`alpha_min_ratio` is 2, must lie between 0 and 1.",
    ),
    "nothing penalized": (
        lambda: path(COX.make(penalty_factor=[0] * 12)),
        "no column can enter the model: all are unpenalized, constant or unrelated to the "
        "outcome, so there is no path; pass `alphas`, or fit the estimator itself.",
    ),
    "alpha not on the path": (
        lambda: path(alphas=[0.1, 0.01]).estimator(0.05),
        "`alpha` is 0.05, which the path does not have (nearest: 0.01); pass it in `alphas` of "
        "fit_path, or fit the estimator.",
    ),
}


@pytest.mark.parametrize("mistake", PATHS)
def test_message_of_paths(mistake):
    call, message = PATHS[mistake]
    check(call, ValueError, message)
