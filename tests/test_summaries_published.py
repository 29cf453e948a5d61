"""Joint tests, intercepts and residuals of R: see make_summaries.R."""

import numpy as np
import pytest
from oracles.cases import load
from test_inference_published import TIGHT, close, read

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    ConditionalPoissonCCD,
    CoxLassoCCD,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    case_series,
    residuals,
    surv,
    wald,
)

# The published samples are small.
pytestmark = pytest.mark.filterwarnings("ignore:robust standard errors are of")
CASES = {case["name"]: case for case in load("summaries.json")["cases"]}
OF_MODEL = {
    model: [name for name, case in CASES.items() if case["model"] == model]
    for model in ("cox", "clogit", "case_series", "glm")
}


def check_residuals(case, model, X, y, rows):
    for kind, expected in case["residuals"].items():
        close(residuals(model, X, y, kind, **rows), expected)


@pytest.mark.parametrize("name", OF_MODEL["cox"])
def test_tests_of_all_coefficients(name):
    case = CASES[name]
    X, data, rows = read(case)
    start = data["start"] if "start" in case["uses"] else None
    y = surv(data["event"], data["time"].astype(float), start=start)
    model = CoxLassoCCD(ties=case["options"]["ties"], **TIGHT).fit(X, y, **rows)
    assert model.null_log_likelihood_ == pytest.approx(case["null_loglik"], rel=1e-12)
    result = wald(model, X, y, tests=True, **rows)
    np.testing.assert_allclose(result.tests["statistic"], case["tests"], rtol=1e-8)
    assert result.tests["df"].tolist() == 3 * [X.shape[1]]
    assert result.test().statistic == pytest.approx(case["tests"][1], rel=1e-8)
    assert result.test([0, "x1"]).statistic == pytest.approx(case["first_two"], rel=1e-8)
    if "offset" not in case["uses"]:  # which coxph's robust score test leaves out
        robust = wald(model, X, y, tests=True, cluster=np.arange(len(X)), **rows).tests
        found = robust["statistic"][["wald", "robust_score"]]
        np.testing.assert_allclose(found, case["robust_tests"], rtol=1e-7)


@pytest.mark.parametrize("name", OF_MODEL["glm"])
def test_models_with_intercepts(name):
    case = CASES[name]
    X, data, rows = read(case)
    y, family = data["y"], case["options"]["family"]
    cls = {"logistic": LogisticCCD, "poisson": PoissonCCD, "gaussian": LinearCCD}[family]
    model = cls(**TIGHT).fit(X, y, **rows)
    gain = model.log_likelihood_ - model.null_log_likelihood_
    assert gain == pytest.approx(case["gain"], rel=1e-9)
    result = wald(model, X, y, intercept=True, tests=True, **rows)
    close(result.coef, case["coefficients"])
    close(result.covariance, case["covariance"])
    by_row = wald(model, X, y, intercept=True, robust=True, **rows)
    close(by_row.covariance, case["robust_covariance"])
    cluster = np.arange(1, len(X) + 1) % 9
    by_cluster = wald(model, X, y, intercept=True, cluster=cluster, **rows)
    close(by_cluster.covariance, case["cluster_covariance"])
    if "f" in case:
        test = result.test()
        assert (test.statistic, test.p_value) == pytest.approx(case["f"], rel=1e-8)
        assert result.tests.loc["wald", "p_value"] == pytest.approx(test.p_value, rel=1e-9)
    else:
        assert result.tests.loc["score", "statistic"] == pytest.approx(case["rao"], rel=1e-8)
    check_residuals(case, model, X, y, rows)


@pytest.mark.parametrize("name", OF_MODEL["clogit"])
def test_matched_sets(name):
    case = CASES[name]
    X, data, _ = read(case)
    rows = {"strata": data["stratum"]}
    model = ConditionalLogisticCCD(ties=case["options"]["method"], **TIGHT)
    model.fit(X, data["case"], **rows)
    assert model.null_log_likelihood_ == pytest.approx(case["null_loglik"], rel=1e-12)
    tests = wald(model, X, data["case"], tests=True, **rows).tests
    np.testing.assert_allclose(tests["statistic"], case["tests"], rtol=1e-8)
    if name != "lung-exact":  # those of several cases are Breslow's in clogit, whatever the method
        check_residuals(case, model, X, data["case"], rows)


@pytest.mark.parametrize("name", OF_MODEL["case_series"])
def test_counts_within_groups(name):
    case = CASES[name]
    X, data, _ = read(case)
    rows = {"strata": data["group"], "exposure": data["exposure"]}
    model = ConditionalPoissonCCD(**TIGHT).fit(X, data["y"], **rows)
    counts = data["y"] + 0 * data["group"]
    has_events = np.bincount(data["group"], counts)[data["group"]] > 0
    y = case_series(data["y"], data["exposure"], data["group"])
    series = CaseSeriesCCD(**TIGHT).fit(X, y)
    for kind, expected in case["residuals"].items():
        found = residuals(model, X, data["y"], kind, **rows)
        close(found[has_events], np.array(expected)[has_events])
        np.testing.assert_array_equal(residuals(series, X, y, kind), found)
