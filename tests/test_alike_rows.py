"""Rows that a Cox model of few columns cannot tell apart are added up, and nothing else changes."""

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    LogisticCCD,
    PoissonCCD,
    competing_risks,
    fit_outcomes,
    profile_likelihood,
    surv,
    wald,
)
from sksurvgpu.inference import _outcome

N = 2_000
EFRON = {"ties": "efron", "standardize": True}


@pytest.fixture(scope="module")
def data():
    """Two columns of few values, a rare outcome, and weights of which some are 0."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"drug": rng.random(N) < 0.4, "dose": rng.integers(0, 3, N)})
    eta = X.to_numpy(float) @ [0.8, -0.3]
    time = np.ceil(20.0 * rng.exponential(np.exp(-eta)))
    y = surv((time <= 8) & (rng.random(N) < 0.2), np.minimum(time, rng.integers(1, 12, N)))
    return (
        X,
        y,
        0.5 * rng.integers(0, 4, N),
        np.char.add("site ", rng.integers(0, 40, N).astype(str)),
    )


@pytest.fixture
def n_rows(monkeypatch):
    """Numbers of rows of the outcomes that were fitted."""
    found, estimate = [], _outcome.SharedInput.estimate

    def counting(self, effects, some, X, *args):
        found.append(X.n_rows)
        estimate(self, effects, some, X, *args)

    monkeypatch.setattr(_outcome.SharedInput, "estimate", counting)
    return found


@pytest.mark.parametrize("options", [{}, {"alpha": 0.01}, EFRON], ids=["plain", "lasso", "efron"])
@pytest.mark.parametrize("stratified", [False, True])
def test_coefficients_are_those_of_all_rows(data, n_rows, options, stratified):
    X, y, weight, strata = data
    beside = {"sample_weight": weight} | ({"strata": strata} if stratified else {})
    model = CoxLassoCCD(**{"alpha": 0.0, "tol": 1e-10} | options)
    given = {"columns": ["drug", "dose"], "intervals": None}
    table = fit_outcomes(model, X, {"a": y}, **given, **beside).table
    assert n_rows[0] < 0.5 * N
    np.testing.assert_allclose(table["coef"], model.fit(X, y, **beside).coef_, rtol=1e-7)
    assert (table["n_at_risk"] == np.count_nonzero(weight)).all()


def test_intervals_are_those_of_all_rows(data, n_rows):
    X, y, _, strata = data
    model = CoxLassoCCD(alpha=0.0, tol=1e-10)
    for intervals, single in (("wald", wald), ("profile", profile_likelihood)):
        given = {"columns": ["drug", "dose"], "intervals": intervals, "strata": strata}
        found = fit_outcomes(model, X, {"a": y}, **given).table.droplevel("outcome")
        args = () if intervals == "wald" else (["drug", "dose"],)
        fitted = model.fit(X, y, strata=strata)
        expected = single(fitted, X, y, *args, strata=strata).summary()
        for column in ("coef", "lower", "upper", "p_value"):
            np.testing.assert_allclose(found[column], expected[column], rtol=1e-6)
    assert max(n_rows) < 0.5 * N


def test_other_models_of_few_columns_keep_all_rows(data, n_rows):
    X, y, _, _ = data
    outcomes = {
        LogisticCCD(alpha=0.0): y["event"],
        PoissonCCD(alpha=0.0): y["event"].astype(int),
        FineGrayCCD(alpha=0.0): competing_risks(y["event"] + 0, y["time"]),
    }
    for model, outcome in outcomes.items():
        given = {"columns": ["drug", "dose"], "intervals": None}
        table = fit_outcomes(model, X, {"a": outcome}, **given).table
        np.testing.assert_allclose(table["coef"], model.fit(X, outcome).coef_, rtol=1e-6)
    assert n_rows == [N] * 3


def test_rows_that_differ_in_more_stay(data, n_rows):
    X, y, weight, _ = data
    late = surv(y["event"], y["time"], start=0.5 * np.ones(N))
    varying = CoxLassoCCD(alpha=0.0, time_varying={"drug": [4.0]})
    calls = [
        (CoxLassoCCD(alpha=0.0), X, y, {"offset": weight}),
        (CoxLassoCCD(alpha=0.0), X, late, {}),
        (CoxLassoCCD(alpha=0.0), X, y, {"intervals": "robust"}),
        (CoxLassoCCD(alpha=0.0), X.assign(age=np.arange(N)), y, {}),
        (varying, X, y, {}),
        (CoxLassoCV(cv=2, n_alphas=2), X, y, {}),
    ]
    for model, columns, outcome, given in calls:
        given = {"columns": "drug", "intervals": None} | given
        assert (fit_outcomes(model, columns, {"a": outcome}, **given).table["status"] == "ok").all()
    assert n_rows == [N] * len(calls)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_errors_are_those_of_all_rows(data, bad):
    X, y, weight, _ = data
    weight = np.where(np.arange(N) == 7, bad, weight)
    with pytest.raises(ValueError, match="`sample_weight`") as error:
        CoxLassoCCD(alpha=0.0).fit(X, y, sample_weight=weight)
    outcomes = {"a": y, "none": surv(np.zeros(N), y["time"])}
    given = {"columns": "drug", "sample_weight": {"a": weight}}
    failures = fit_outcomes(CoxLassoCCD(alpha=0.0), X, outcomes, **given).failures
    assert failures.loc["a", "message"] == str(error.value)
    assert "all 2,000 rows censored" in failures.loc["none", "message"]
