"""Seventy-seven published cohorts in the units of their authors, against R and in other units.

Numbers of R's coxph are in oracles/published/survset.json; make_survset.R says how they were made.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd
import pytest
from oracles.cases import load
from oracles.reference_likelihoods import cox_direct, information
from oracles.survset import Cohort, cox_scores, read_cohort
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import CoxLassoCCD, surv, wald

PROMISE = 1e-3  # standard errors by which a coefficient at the default tolerance may be off
SCORE = (
    1e-5  # largest violation of stationarity at the default tolerance, of the null model's largest
)
PUBLISHED = {case["name"]: case for case in load("survset.json")["cases"]}
# Entry times, many ties, indicators beside laboratory values, and more columns than rows.
FEW = ["heart", "veteran", "GBSG2", "Bergamaschi"]
TIES = ["breslow", "efron"]

pytest.importorskip("SurvSet")
from SurvSet.data import SurvLoader  # noqa: E402

ALL = SurvLoader().df_ds["ds"].tolist()
COHORTS = [
    pytest.param(name, marks=[] if name in FEW else pytest.mark.slow, id=name) for name in ALL
]
LONG = [param for param in COHORTS if param.id in PUBLISHED]  # five rows a column and more
read = lru_cache(maxsize=1)(read_cohort)


def fit(cohort, X, ties, **params):
    y = surv(cohort.event, cohort.time, start=cohort.start)
    model = CoxLassoCCD(ties=ties, n_jobs=1, **params).fit(X, y)
    assert model.converged_
    return model


@dataclass(frozen=True)
class Null:
    """A cohort's standardized columns, and their scores in the model without any."""

    cohort: Cohort
    ties: str

    @cached_property
    def Z(self):
        return self.cohort.standardized

    def scores(self, coef, columns=slice(None)):
        Z = self.Z[:, columns]
        return cox_scores(self.cohort, Z, Z @ coef, self.ties)

    @cached_property
    def gradient_and_unit(self):
        gradient, curvature = self.scores(np.zeros(self.Z.shape[1]))
        return gradient, np.sqrt(curvature)

    def errors(self, coef, expected):
        """Differences in standard errors: of the columns in the model among themselves.

        None where these are nearly dependent, so that no coefficient is the only right one.
        """
        active = np.flatnonzero(expected)
        steps, change = 1e-5 * np.eye(len(active)), []
        for step in steps:
            around = [self.scores(expected[active] + s * step, active)[0] for s in (-1, 1)]
            change.append((around[0] - around[1]) / 2e-5)
        unit = self.gradient_and_unit[1].copy()
        information = np.array(change) / np.outer(unit[active], unit[active])
        if np.linalg.eigvalsh(information + information.T)[0] < 1e-4:
            return None
        unit[active] /= np.sqrt(np.diag(np.linalg.inv(information)))
        return np.abs(coef - expected) * unit

    def check_scores(self, coef, l1):
        """The optimality conditions, relative to the largest score; all in standard errors."""
        null, unit = self.gradient_and_unit
        active, gradient = np.flatnonzero(coef), self.scores(coef)[0]
        violation = np.maximum(np.abs(gradient) - l1, 0.0)
        violation[active] = np.abs(gradient - l1 * np.sign(coef))[active]
        assert (violation / unit).max() <= SCORE * (np.abs(null) / unit).max()


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", COHORTS)
def test_a_lasso_is_the_same_in_all_units(name, ties):
    cohort = read(name)
    null, deviation, n = Null(cohort, ties), cohort.deviation, len(cohort.X)
    alpha = 0.1 * np.abs(null.gradient_and_unit[0]).max() / n
    standardized = fit(cohort, null.Z, ties, alpha=alpha).coef_
    raw = fit(cohort, cohort.X, ties, alpha=alpha, penalty_factor=deviation).coef_ * deviation
    errors = null.errors(raw, standardized)
    assert errors is None or errors.max() <= PROMISE
    null.check_scores(raw, n * alpha)
    null.check_scores(standardized, n * alpha)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", LONG)
def test_columns_in_their_own_units_are_penalized_alike(name, ties):
    """One column in large units must not hide that others are far from their optimum."""
    cohort = read(name)
    null, deviation, n = Null(cohort, ties), cohort.deviation, len(cohort.X)
    alpha = 1e-3 * (np.abs(null.gradient_and_unit[0]) * deviation).max() / n
    raw = fit(cohort, cohort.X, ties, alpha=alpha)
    null.check_scores(raw.coef_ * deviation, n * alpha / deviation)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("name", LONG)
@pytest.mark.filterwarnings("ignore:Coefficients of unpenalized columns may be infinite")
def test_coxph(name, ties):
    cohort, published = read(name), PUBLISHED[name]
    X = cohort.X[:, cohort.independent()]
    assert X.shape == (published["rows"], published["columns"])
    expected = published[ties]
    if expected["infinite"]:
        pytest.skip(f"R: {expected['said']}")
    model = fit(cohort, X, ties, alpha=0.0)
    errors = np.array(expected["standard_errors"])
    error = np.abs(model.coef_ - expected["coefficients"]) / errors
    assert error.max() <= PROMISE
    assert model.log_likelihood_ == pytest.approx(expected["loglik"], abs=len(errors) * PROMISE**2)
    y = surv(cohort.event, cohort.time, start=cohort.start)
    np.testing.assert_allclose(wald(model, X, y).standard_errors, errors, rtol=PROMISE)


# What R 4.2.2 with survival 3.5.3 says of hdfail with all indicators: coxph(Surv(time, event) ~ X).
LEFT_OUT = "brand_WDC type_HGST type_Hitachi type_TOSHIBA type_WDC rsc_1 rer_1 psc_1"
IN_R = {
    "num_temp": (-0.080006324, 0.0053054093),
    "fac_brand_ST": (1.7679056, 0.5104383),
    "fac_type_SAMSUNG": (-2.9294569, 1.1218797),
    "fac_psc_0": (-1.784222, 0.0477265),
}


@pytest.mark.thorough
def test_indicators_of_all_levels():
    """Brands, models within brands, and three pairs: eight of 41 depend on those before them."""
    with warnings.catch_warnings():  # its pickles name a module that NumPy has moved
        warnings.simplefilter("ignore", DeprecationWarning)
        table = SurvLoader().load_dataset(ds_name="hdfail")["df"]
    X = pd.get_dummies(table.drop(columns=["pid", "event", "time"]), dtype=float)
    y = surv(table["event"] > 0, table["time"])
    with pytest.warns(ConvergenceWarning, match="are infinite"):
        model = CoxLassoCCD(alpha=0.0, ties="efron", n_jobs=1).fit(X, y)
    with (
        pytest.warns(UserWarning, match="are infinite"),
        pytest.warns(UserWarning, match="`fac_brand_WDC`, .* and 3 more: constant columns"),
    ):
        found = wald(model, X, y)
    left_out, known = np.isnan(found.coef), ~np.isnan(found.standard_errors)
    assert (left_out.sum(), model.infinite_.sum(), known.sum(), len(known)) == (8, 4, 29, 41)
    assert X.columns[left_out].tolist() == [f"fac_{name}" for name in LEFT_OUT.split()]
    for name, expected in IN_R.items():
        line = found.summary().loc[name, ["coef", "standard_error"]]
        np.testing.assert_allclose(line, expected, rtol=1e-5)
    less = X.loc[:, ~left_out]
    with pytest.warns(ConvergenceWarning, match="are infinite"):
        few = CoxLassoCCD(alpha=0.0, ties="efron", n_jobs=1).fit(less, y)
    with pytest.warns(UserWarning, match="are infinite") as told:
        expected = wald(few, less, y)
    assert len(told) == 1
    finite = known[~left_out]
    errors = expected.standard_errors
    np.testing.assert_allclose(found.standard_errors[known], errors[finite], rtol=PROMISE)
    off = (found.coef[known] - expected.coef[finite]) / errors[finite]
    assert np.abs(off).max() <= PROMISE


@pytest.mark.parametrize("ties", TIES)
def test_scores_on_all_rows_are_those_of_the_oracle(ties):
    rng = np.random.default_rng(0)
    time = rng.integers(1, 12, 50).astype(float)
    cohort = Cohort("", rng.normal(size=(50, 3)), time * rng.random(50), time, rng.random(50) < 0.6)
    eta = rng.normal(size=50)
    evaluation = cox_direct(eta, time, cohort.event, cohort.start, ties=ties)
    gradient, curvature = cox_scores(cohort, cohort.X, eta, ties)
    np.testing.assert_allclose(gradient, cohort.X.T @ evaluation.u, atol=1e-12)
    np.testing.assert_allclose(curvature, np.diag(information(cohort.X, evaluation)), rtol=1e-10)
