"""Covariances, residuals and tests of R's survival, sandwich and cmprsk: see make_inference.R."""

import numpy as np
import pytest
from oracles.cases import load

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    ConditionalPoissonCCD,
    CoxLassoCCD,
    FineGrayCCD,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    case_series,
    competing_risks,
    likelihood_ratio_test,
    proportional_hazards_test,
    residuals,
    surv,
    wald,
)

# The published samples are small.
pytestmark = pytest.mark.filterwarnings("ignore:robust standard errors are of")
FILES = {name: load(f"{name}.json") for name in ("coxph", "competing", "conditional", "glm")}
PUBLISHED = load("inference.json")
CASES = {case["name"]: case for case in PUBLISHED["cases"]}
OF_MODEL = {
    model: [name for name, case in CASES.items() if case["model"] == model]
    for model in ("cox", "fine_gray", "clogit", "case_series", "glm")
}
KINDS = {"scaledsch": "scaled_schoenfeld"}  # R's name: ours
TIGHT = {"alpha": 0, "tol": 1e-11}


def close(actual, expected, rtol=1e-7):
    """Agreement relative to the largest entry."""
    actual, expected = np.asarray(actual), np.asarray(expected, float).reshape(np.shape(actual))
    assert np.abs(actual - expected).max() <= rtol * np.abs(expected).max()


def read(case):
    """Columns, data set, and what else the fit takes."""
    data = FILES[case["file"]]["datasets"][case["dataset"]]
    data = {k: v if k == "X" or v is None else np.array(v) for k, v in data.items()}
    names = {"weights": "sample_weight", "strata": "strata", "offset": "offset"}
    rows = {names[use]: data[use] for use in case["uses"] if use in names}
    return np.column_stack(list(data["X"].values())).astype(float), data, rows


def check_covariances(case, model, X, y, rows, cluster=None):
    """Against the model's, by row and by cluster."""
    close(wald(model, X, y, **rows).covariance, case["covariance"])
    if "robust_covariance" in case:
        by_row = {"robust": True} if cluster is not None else {"cluster": np.arange(len(X))}
        close(wald(model, X, y, **by_row, **rows).covariance, case["robust_covariance"])
        by_cluster = {"robust": True} if cluster is None else {"cluster": cluster}
        close(wald(model, X, y, **by_cluster, **rows).covariance, case["cluster_covariance"])


def cox_fit(name):
    case = CASES[name]
    X, data, rows = read(case)
    start = data["start"] if "start" in case["uses"] else None
    y = surv(data["event"], data["time"].astype(float), start=start)
    return case, CoxLassoCCD(ties=case["options"]["ties"], **TIGHT).fit(X, y, **rows), X, y, rows


@pytest.mark.parametrize("name", OF_MODEL["cox"])
def test_cox_covariances(name):
    case, model, X, y, rows = cox_fit(name)
    check_covariances(case, model, X, y, rows, PUBLISHED["clusters"][case["dataset"]])


def test_subjects_of_the_outcome_are_clusters():
    case, model, X, y, _ = cox_fit("heart-start-efron")
    with_subject = surv(
        y["event"], y["time"], start=y["start"], subject=PUBLISHED["clusters"]["heart"]
    )
    model.fit(X, with_subject)
    close(wald(model, X, with_subject, robust=True).covariance, case["cluster_covariance"])


@pytest.mark.parametrize("name", [name for name in OF_MODEL["cox"] if "residuals" in CASES[name]])
def test_cox_residuals(name):
    case, model, X, y, rows = cox_fit(name)
    for kind, expected in case["residuals"].items():
        close(residuals(model, X, y, KINDS.get(kind, kind), **rows), expected)


@pytest.mark.thorough(but=r"weights")
@pytest.mark.parametrize("name", OF_MODEL["cox"])
def test_proportional_hazards(name):
    case, model, X, y, rows = cox_fit(name)
    for transform, expected in case["tests"].items():
        found = proportional_hazards_test(model, X, y, transform=transform, **rows)
        np.testing.assert_allclose(found.table["chisq"], expected, rtol=1e-6)
        if transform == "km":
            close(found.time, case["time"])
            close(found.transformed_time, case["transformed_time"])
    assert found.table["df"].tolist() == [1] * X.shape[1] + [X.shape[1]]


def test_proportional_hazards_of_terms():
    """cox.zph(fit)$table of R's survival 3.5.3, where the columns of `cell` are a matrix."""
    _, model, X, y, rows = cox_fit("veteran-weights-efron")
    groups = [None, "cell", "cell", "cell", None, None, None]
    found = proportional_hazards_test(model, X, y, groups=groups, **rows)
    expected = [0.90741006077, 23.00123552437, 11.67585484951, 0.48204772137, 2.22580389679]
    np.testing.assert_allclose(found.table["chisq"], [*expected, 37.01800018927], rtol=1e-7)
    assert found.table["df"].tolist() == [1, 3, 1, 1, 1, 7]
    assert found.table.index.tolist() == ["x0", "cell", "x4", "x5", "x6", "GLOBAL"]
    assert "over km: 7 columns, GLOBAL chi2(7)" in repr(found)


def fine_gray_fit(case, ties):
    X, data, rows = read(case)
    rows = {"strata": rows["strata"]} if "strata" in rows else {}
    if "censor_groups" in case["uses"]:
        rows["censoring_groups"] = data["censor_groups"]
    elif "strata" in rows and "own_curves" not in case["uses"]:
        rows["censoring_groups"] = np.zeros(len(X), int)
    y = competing_risks(data["status"], data["time"])
    return FineGrayCCD(censoring_ties=ties, **TIGHT).fit(X, y, **rows), X, y, rows


@pytest.mark.parametrize("name", OF_MODEL["fine_gray"])
def test_fine_gray_residuals(name):
    case = CASES[name]
    model, X, y, _ = fine_gray_fit(case, "finegray")
    close(wald(model, X, y).covariance, case["covariance"])
    for kind, expected in case["residuals"].items():
        close(residuals(model, X, y, KINDS.get(kind, kind)), expected)
    for transform, expected in case["tests"].items():
        found = proportional_hazards_test(model, X, y, transform=transform)
        np.testing.assert_allclose(found.table["chisq"], expected, rtol=1e-6)


FINE_GRAY_CASES = {
    case["name"]: {"file": "competing", **case}
    for case in FILES["competing"]["cases"]
    if "standard_errors" in case and "weights" not in case["uses"]
}


@pytest.mark.parametrize("name", FINE_GRAY_CASES)
def test_fine_gray_standard_errors(name):
    case = FINE_GRAY_CASES[name]
    ties = "crr" if case["options"]["km_ties"] == "together" else "finegray"
    model, X, y, rows = fine_gray_fit(case, ties)
    close(wald(model, X, y, **rows).standard_errors, case["standard_errors"])
    if "robust_standard_errors" in case:
        found = wald(model, X, y, robust=True, **rows)
        close(found.standard_errors, case["robust_standard_errors"])


@pytest.mark.parametrize("name", OF_MODEL["clogit"])
def test_conditional_logistic(name):
    case = CASES[name]
    X, data, _ = read(case)
    ties, rows = case["options"]["method"], {"strata": data["stratum"]}
    model = ConditionalLogisticCCD(ties=ties, **TIGHT).fit(X, data["case"], **rows)
    check_covariances(case, model, X, data["case"], rows)


@pytest.mark.parametrize("name", OF_MODEL["case_series"])
def test_counts_within_groups(name):
    case = CASES[name]
    X, data, _ = read(case)
    rows = {"strata": data["group"], "exposure": data["exposure"]}
    model = ConditionalPoissonCCD(**TIGHT).fit(X, data["y"], **rows)
    check_covariances(case, model, X, data["y"], rows, data["group"])
    y = case_series(data["y"], data["exposure"], data["group"])
    check_covariances(case, CaseSeriesCCD(**TIGHT).fit(X, y), X, y, {})


@pytest.mark.parametrize("name", OF_MODEL["glm"])
def test_generalized_linear_models(name):
    case = CASES[name]
    X, data, rows = read(case)
    classes = {"logistic": LogisticCCD, "poisson": PoissonCCD, "gaussian": LinearCCD}
    make = classes[case["options"]["family"]]
    params = {"fit_intercept": case["options"]["intercept"], **TIGHT}
    model = make(**params).fit(X, data["y"], **rows)
    check_covariances(case, model, X, data["y"], rows, np.arange(1, len(X) + 1) % 9)
    if make is LinearCCD:
        intervals = wald(model, X, data["y"], level=0.9, **rows).intervals
        close(intervals[["lower", "upper"]].to_numpy(), case["intervals"])
        smaller = make(**params).fit(X[:, 1:], data["y"], **rows)
        statistic = likelihood_ratio_test(smaller, model).statistic
        np.testing.assert_allclose(statistic, case["likelihood_ratio"], rtol=1e-6)
