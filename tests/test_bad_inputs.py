"""What users of any estimator may get wrong, and what they then read."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from faces import CODE, COUNT, FACES, IS_CASE, STRATA, SUBJECT, TIME, N, X
from mistakes import changed, check, fit, fitted

from sksurvgpu import fit_path, matched

DENSE = X.toarray()
FRAME = pd.DataFrame(DENSE[:, :3], columns=["age", "dose", "sex"])
ONES = np.ones(N)
BUILDERS = {
    "cox": "sksurvgpu.surv(event, time)",
    "fine-gray": "sksurvgpu.competing_risks(event, time)",
    "case series": "sksurvgpu.case_series(count, length, subject)",
    "conditional logistic": "sksurvgpu.matched(case, stratum)",
}


SHARED = {
    "X with nan": (
        lambda name: fit(name, changed(DENSE, (2, 1), np.nan)),
        ValueError,
        "`X`...1 NaN...column 1...impute",
    ),
    "X with text": (
        lambda name: fit(name, FRAME.assign(sex=pd.Series(["f"] * N, dtype=object))),
        TypeError,
        "`X`...column 'sex'...object...pass numbers...one-hot encode",
    ),
    "no rows": (
        lambda name: fit(name, X[:0], FACES[name].y[:0]),
        ValueError,
        "`X`...0 sample...minimum of 1",
    ),
    "y too short": (
        lambda name: fit(name, y=FACES[name].y[:-1]),
        ValueError,
        "`y`...239 entries...one per row",
    ),
    "weight negative": (
        lambda name: fit(name, rows={"sample_weight": changed(ONES, 4, -1.5)}),
        ValueError,
        "`sample_weight`...-1.5...row 4...at least 0",
    ),
    "offset too short": (
        lambda name: fit(name, rows={"offset": ONES[:3]}),
        ValueError,
        "`offset`...3 entries...one per row",
    ),
    "factor of an unknown column": (
        lambda name: fit(name, FRAME, penalty_factor={"agee": 0}),
        ValueError,
        "`penalty_factor`...column 'agee'...which `X` does not have...did you mean",
    ),
    "penalty too large": (
        lambda name: fit(name, alpha=1e200, penalty_factor={0: 10.0}),
        ValueError,
        "2.4e+203...make `alpha` or `penalty_factor` smaller",
    ),
    "no threads": (lambda name: fit(name, n_jobs=0), ValueError, "`n_jobs`...0...-1 for all cores"),
    "single precision on the CPU": (
        lambda name: fit(name, precision="float32"),
        ValueError,
        'precision="float32"...CUDA...CPU...precision="float64"',
    ),
    "prediction of nan": (
        lambda name: fitted(name).predict(changed(DENSE, (0, 0), np.nan)),
        ValueError,
        "`X`...1 NaN...column 0",
    ),
    "prediction of too few columns": (
        lambda name: fitted(name).predict(X[:, :2]),
        ValueError,
        "2 features...12 features",
    ),
    "negative penalties of a path": (
        lambda name: fit_path(
            FACES[name].make(), X, FACES[name].y, alphas=[0.1, -1], **FACES[name].arguments()
        ),
        ValueError,
        "`alphas`...negative or not finite",
    ),
}


@pytest.mark.parametrize("mistake", SHARED)
def test_shared_message(mistake):
    call, error, message = SHARED[mistake]
    for name in FACES:
        check(lambda name=name: call(name), error, message, name)


PARAMETERS = {
    "alpha": (-1, np.nan, np.inf, "0.1"),
    "l1_ratio": (1.5,),
    "tol": (0,),
    "max_iter": (0,),
    "warm_start": ("yes",),
    "n_jobs": (1.5,),
    "algorithm": ("newton",),
    "backend": ("gpu",),
    "precision": ("float16",),
    "device": (-1,),
    "penalty_factor": ("age",),
}


@pytest.mark.parametrize("parameter", PARAMETERS)
def test_shared_parameter(parameter):
    for (name, face), value in product(FACES.items(), PARAMETERS[parameter]):
        words = f"'{parameter}'...{face.cls.__name__}...{value!r}"
        check(lambda name=name, value=value: fit(name, **{parameter: value}), ValueError, words)


@pytest.mark.parametrize("name", FACES)
def test_missing_outcome(name):
    face, model = FACES[name], fit(name)
    words = f"requires y...None...{BUILDERS.get(name, '')}"
    check(lambda: face.make().fit(X, None, **face.arguments()), ValueError, words)
    if name not in ("logistic", "poisson", "linear"):
        check(lambda: model.score(X, None, **face.arguments()), ValueError, words)


@pytest.mark.parametrize("name", ["cox", "fine-gray", "case series"])
def test_plain_vectors_are_no_outcomes(name):
    for y in (TIME, COUNT, IS_CASE, STRATA):
        words = f"`y`...{y.dtype}...structured array...{BUILDERS[name]}"
        check(lambda y=y: fit(name, y=y), TypeError, words)
    frame = pd.DataFrame({"event": CODE, "time": TIME})
    for y in (frame, TIME.tolist()):
        words = f"`y`...{type(y).__name__}...structured array...{BUILDERS[name]}...DataFrame...df["
        check(lambda y=y: fit(name, y=y), TypeError, words)


@pytest.mark.parametrize("name", ["conditional poisson", "logistic", "poisson", "linear"])
@pytest.mark.parametrize("other", ["cox", "fine-gray", "case series", "sets"])
def test_structured_outcomes_are_no_vectors(other, name):
    y = matched(IS_CASE, SUBJECT) if other == "sets" else FACES[other].y
    content = "labels" if name == "logistic" else "numbers"
    fields = ", ".join(map(repr, y.dtype.names))
    check(lambda: fit(name, y=y), TypeError, f"`y`...{fields}...plain vector of {content}")


@pytest.mark.parametrize("name", ["cox", "fine-gray"])
@pytest.mark.parametrize("other", ["case_series", "matched"])
def test_outcomes_of_groups_are_no_survival_times(other, name):
    """Their first fields could pass for an event and a time: names of these are free."""
    y = FACES["case series"].y if other == "case_series" else matched(IS_CASE, SUBJECT)
    first, second = y.dtype.names[:2]
    words = f"`y`...'{first}'...'{second}'...{other}...{BUILDERS[name]}"
    check(lambda: fit(name, y=y), TypeError, words)


@pytest.mark.parametrize("name", FACES)
def test_names_of_other_columns(name):
    face = FACES[name]
    model = face.make(alpha=0.001).fit(FRAME, face.y, **face.arguments())
    renamed = FRAME.rename(columns={"age": "AGE"})
    check(lambda: model.predict(renamed), ValueError, "unseen...AGE...missing...age")


def path(face=None, **options):
    face = face or COX.make()
    return fit_path(face, X, COX.y, **options)


COX = FACES["cox"]
PATHS = {
    "no alphas": (lambda: path(alphas=[]), "`alphas`...(0,)...one or more penalties"),
    "n_alphas": (lambda: path(n_alphas=0), "`n_alphas`...0...whole number of at least 1"),
    "no n_alphas": (lambda: path(n_alphas=None), "`n_alphas`...None...whole number of at least 1"),
    "infinite n_alphas": (
        lambda: path(n_alphas=np.inf),
        "`n_alphas`...inf...whole number of at least 1",
    ),
    "alpha_min_ratio": (lambda: path(alpha_min_ratio=2), "`alpha_min_ratio`...2...between 0 and 1"),
    "nothing penalized": (
        lambda: path(COX.make(penalty_factor=[0] * 12)),
        "no column...penalized...pass `alphas`",
    ),
    "alpha not on the path": (
        lambda: path(alphas=[0.1, 0.01]).estimator(0.05),
        "`alpha`...0.05...nearest: 0.01...`alphas`",
    ),
}


@pytest.mark.parametrize("mistake", PATHS)
def test_message_of_paths(mistake):
    call, message = PATHS[mistake]
    check(call, ValueError, message)
