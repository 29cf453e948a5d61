"""Columns that are computed, against the same ones stored: every model, and all that reads X."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    CoxLassoCCD,
    CoxLassoCV,
    Design,
    FineGrayCCD,
    Firth,
    Fused,
    GroupLasso,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    PrepareColumns,
    SplineColumns,
    StepColumns,
    bootstrap,
    case_series,
    competing_risks,
    fit_path,
    make_pipeline,
    profile_likelihood,
    surv,
    wald,
    write_partitions,
)
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.design.computed import ComputedColumns
from sksurvgpu.data.design.kernels import ONE, SIZE, SQUARE, VALUE

N = 600
KINDS = {
    "steps": StepColumns(columns=["age", "dose"], n_steps=12),
    "all steps": StepColumns(columns=["age"], n_steps=None),
    "splines": SplineColumns(columns=["age", "dose"], n_knots=6),
}
TIGHT = {"tol": 1e-11, "max_iter": 1000}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "drug": rng.integers(0, 2, N).astype(float),
            "age": rng.integers(20, 80, N).astype(float),
            "weight": rng.normal(70, 9, N),
            "dose": rng.exponential(1.0, N),
            "rare": (rng.random(N) < 0.05) * rng.normal(size=N),
        }
    )


@pytest.fixture(scope="module")
def outcomes(frame):
    rng = np.random.default_rng(4)
    eta = 0.5 * frame["drug"] + 0.8 * (frame["age"] > 55) - 0.4 * np.minimum(frame["dose"], 1.5)
    time, event = rng.exponential(np.exp(-eta)).round(2) + 0.01, rng.random(N) < 0.8
    binary = (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int)
    cause = event * rng.integers(1, 3, N)
    person = np.arange(N) // 4
    return {
        "cox": (CoxLassoCCD, surv(event, time), {}),
        "efron": (CoxLassoCCD, surv(event, time), {"ties": "efron"}),
        "delayed": (CoxLassoCCD, surv(event, time, start=time * rng.random(N) / 2), {}),
        "strata": (CoxLassoCCD, surv(event, time, stratum=rng.integers(0, 60, N)), {}),
        "varying": (CoxLassoCCD, surv(event, time), {"time_varying": {2: [0.5]}}),
        "fine-gray": (FineGrayCCD, competing_risks(cause, time), {}),
        "logistic": (LogisticCCD, binary, {}),
        "poisson": (PoissonCCD, rng.poisson(np.exp(eta)).astype(float), {}),
        "linear": (LinearCCD, eta.to_numpy() + rng.normal(size=N), {}),
        "sets": (ConditionalLogisticCCD, binary, {"strata": person}),
        "persons": (CaseSeriesCCD, case_series(rng.poisson(0.7, N), time, person), {}),
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    ["cox", "efron", "delayed", "strata", "varying", "fine-gray", "logistic", "poisson", "linear"]
    + ["sets", "persons"],
)
def test_fits_are_those_of_stored_columns(frame, outcomes, kind, name):
    X = KINDS[kind].fit_transform(frame)
    model, y, options = outcomes[name]
    fit_options = {key: options[key] for key in options if key == "strata"}
    options = {key: options[key] for key in options if key != "strata"} | TIGHT
    for penalty in ({}, {"l1_ratio": 0.0}):
        computed, stored = (
            model(alpha=0.004, **penalty, **options).fit(given, y, **fit_options)
            for given in (X, X.stored())
        )
        assert computed.objective_ == pytest.approx(stored.objective_, rel=1e-12)
        np.testing.assert_allclose(computed.coef_, stored.coef_, atol=2e-8)
        assert np.count_nonzero(computed.coef_) > 2


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_reads_columns_reads_computed_ones(frame, outcomes, kind, tmp_path):
    X = KINDS[kind].fit_transform(frame)
    _, y, _ = outcomes["cox"]
    pairs = []
    for given in (X, X.stored()):
        model = CoxLassoCCD(alpha=0.01, **TIGHT).fit(given, y)
        chosen = np.flatnonzero(model.coef_)[:3]
        free = CoxLassoCCD(alpha=1e-4, l1_ratio=0.0, **TIGHT).fit(given, y)
        path = fit_path(CoxLassoCCD(**TIGHT), given, y, n_alphas=5)
        few = given[:, -3:]
        plain = CoxLassoCCD(alpha=0.0, **TIGHT).fit(few, y)
        draws = bootstrap(model, given, y, n_replicates=3, random_state=0)
        by_folds = CoxLassoCV(n_alphas=5, cv=3, random_state=0, **TIGHT).fit(given, y)
        profile = profile_likelihood(free, given, y, columns=chosen[:1])
        write_partitions(tmp_path / f"{len(pairs)}", (given, y), rows=200)
        pairs.append(
            [
                model.predict(given),
                model.predict_survival_function(given[:3], return_array=True),
                path.coefs,
                draws.coefs,
                by_folds.coef_,
                profile.summary().to_numpy(),
                wald(plain, few, y).standard_errors,
                given.describe().to_numpy(),
                given.to_scipy().toarray(),
                given[[5, 1, 5, 2]].to_scipy().toarray(),
                PrepareColumns(min_count=5, scale="sd").fit_transform(given).to_scipy().toarray(),
            ]
        )
    for computed, stored in zip(*pairs, strict=True):
        np.testing.assert_allclose(computed, stored, atol=2e-7)
