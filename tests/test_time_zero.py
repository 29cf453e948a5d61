"""Times may be 0: moving all times by the same number moves curves, and changes nothing else."""

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    competing_risks,
    curve_intervals,
    proportional_hazards_test,
    residuals,
    surv,
    wald,
)
from sksurvgpu.metrics import calibration
from sksurvgpu.nonparametric import aalen_johansen, kaplan_meier, log_rank

RNG = np.random.default_rng(0)
N = 200
X = pd.DataFrame({"a": RNG.normal(size=N), "b": (RNG.random(N) < 0.4).astype(float)})
TIME = np.floor(RNG.exponential(4.0, N) * np.exp(-0.5 * X["a"])).clip(0.0, 15.0).to_numpy()
KIND = np.where(RNG.random(N) < 0.7, 1 + (RNG.random(N) < 0.3), 0)
GROUP = RNG.integers(0, 2, N)
HORIZONS = np.array([0.0, 2.0, 5.0])
TIGHT = {"alpha": 0.0, "tol": 1e-11}


def cox(shift, ties):
    y = surv(KIND == 1, TIME + shift)
    return CoxLassoCCD(ties=ties, **TIGHT).fit(X, y), y


def fine_gray(shift):
    y = competing_risks(KIND, TIME + shift)
    return FineGrayCCD(**TIGHT).fit(X, y), y


def curves(model, y, shift, **options):
    at = HORIZONS + shift
    found = curve_intervals(model, X, y, X[:3], times=at, random_state=0, **options)
    return found.standard_errors, found.lower, found.band_lower if "band" in options else 0.0


def cox_results(shift, ties):
    model, y = cox(shift, ties)
    yield from (model.coef_, model.predict_risk(X[:5], HORIZONS + shift))
    yield wald(model, X, y, robust=True).standard_errors
    for options in ({}, {"robust": True}, {"band": True}):
        yield from curves(model, y, shift, **options)
    yield proportional_hazards_test(model, X, y).table
    yield from (residuals(model, X, y, kind=kind) for kind in ("martingale", "score", "schoenfeld"))
    risk = model.predict_risk(X, 5.0 + shift).to_numpy().ravel()
    yield calibration(y, risk, 5.0 + shift, n_groups=4).groups.select_dtypes("number")
    yield CoxLassoCV(cv=3).fit(X, y).cv_results_["mean_score"]


def fine_gray_results(shift):
    model, y = fine_gray(shift)
    yield from (model.coef_, model.predict_risk(X[:5], HORIZONS + shift))
    yield wald(model, X, y).standard_errors
    yield from curves(model, y, shift)


def observed(shift):
    y, both = surv(KIND > 0, TIME + shift), competing_risks(KIND, TIME + shift)
    for result in (kaplan_meier(y, groups=GROUP), aalen_johansen(both, groups=GROUP)):
        yield result.table.drop(columns=["group", "time"])
        yield result.at(HORIZONS + shift)
    yield kaplan_meier(y).median - shift
    yield [log_rank(y, GROUP).p_value]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("results", "arguments"),
    [(cox_results, ["breslow"]), (cox_results, ["efron"]), (fine_gray_results, []), (observed, [])],
    ids=["Cox, Breslow", "Cox, Efron", "Fine-Gray", "without a model"],
)
def test_origin_of_time_does_not_matter(results, arguments):
    assert ((KIND == 1) & (TIME == 0)).sum() > 10 < ((KIND == 0) & (TIME == 0)).sum()
    for here, moved in zip(results(0.0, *arguments), results(1.0, *arguments), strict=True):
        np.testing.assert_allclose(
            np.asarray(here, np.float64), np.asarray(moved, np.float64), rtol=1e-9, atol=1e-12
        )


def test_curves_begin_at_events_at_time_zero():
    model, y = cox(0.0, "breslow")
    result = curve_intervals(model, X, y, X[:1])
    assert result.times[0] == 0.0 and result.standard_errors[0, 0] > 0 and result.estimate[0, 0] < 1
