"""Joint tests, intercepts and residuals of R: see make_summaries.R."""

import numpy as np
import pandas as pd
import pytest
from oracles.cases import load
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.preprocessing import OneHotEncoder, SplineTransformer
from sksurv.datasets import load_veterans_lung_cancer
from test_inference_published import TIGHT, close, read

from sksurvgpu import (
    CaseSeriesCCD,
    CoefficientDisplay,
    ConditionalLogisticCCD,
    ConditionalPoissonCCD,
    CoxLassoCCD,
    LinearCCD,
    LogisticCCD,
    NamedColumns,
    PoissonCCD,
    SplineColumns,
    case_series,
    format_ratios,
    information_criteria,
    make_pipeline,
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


CELLS = ["large", "smallcell", "adeno", "squamous"]


def veterans():
    """The 137 men of survival's veteran, ages and Karnofsky scores in tens."""
    data, y = load_veterans_lung_cancer()
    X = data[["Karnofsky_score", "Age_in_years"]].div(10).set_axis(["karno", "age"], axis=1)
    X["test"] = (data["Treatment"] == "test").astype(float)
    for cell in CELLS[1:]:
        X[cell] = (data["Celltype"] == cell).astype(float)
    return X, surv(y["Status"], y["Survival_in_days"]), data["Celltype"]


def wald_of_veterans(columns=slice(None), y=None, **options):
    X, own, _ = veterans()
    X, y = X.loc[:, columns], own if y is None else y
    of_fit = "strata", "sample_weight", "offset"
    rows = {name: options[name] for name in of_fit if name in options}
    return wald(CoxLassoCCD(ties="efron", **TIGHT).fit(X, y, **rows), X, y, **options)


def test_everything_in_one_call():
    result = wald_of_veterans(tests=True)
    expected = {"n_rows": 137, "n_events": 128, "df": 6, "log_likelihood": -474.457790185}
    expected |= {"aic": 960.91558037, "bic": 978.027761953}
    expected |= {"concordance": 0.738414357110, "concordance_error": 0.0210383832283}
    assert result.fit_statistics.to_dict() == pytest.approx(expected, rel=1e-9)
    lines = repr(result).splitlines()
    assert lines[1] == "137 rows, 128 events, log-likelihood -474.46, AIC 960.92"
    assert lines[2] == "concordance 0.738 (standard error 0.021)"
    assert lines[3] == "likelihood ratio test: chi2(6) = 61.98, p = 1.78e-11"
    assert lines[4] == "Wald test: chi2(6) = 62.35, p = 1.49e-11"
    assert lines[5] == "score test: chi2(6) = 66.62, p = 2.02e-12"
    assert "concordance 0.738" in result._repr_html_()
    assert wald_of_veterans().fit_statistics is None


def test_errors_of_the_concordance():
    """Of strata, weights, clusters, late entry and offsets, by coxph()$concordance."""
    _, y, cell = veterans()
    row, two = np.arange(1, 138), ["karno", "age"]
    late = surv(y["event"], y["time"], start=np.minimum(y["time"] / 2, 20) * (row % 2))
    for options, expected in (
        ({"strata": cell}, (0.698866114261, 0.0268135258088)),
        ({"sample_weight": 1.0 + row % 3}, (0.715429073292, 0.0256307830496)),
        ({"cluster": (row - 1) % 20}, (0.710302135393, 0.0231257088546)),
        ({"y": late}, (0.679101372903, 0.0256744087523)),
        ({"offset": 0.2 * (row % 7)}, (0.6879827351204, 0.02485098488615)),
    ):
        found = wald_of_veterans(two, tests=True, **options).fit_statistics
        assert found[["concordance", "concordance_error"]].tolist() == pytest.approx(expected)


def test_error_of_the_area_under_the_curve():
    """Of glm(test ~ karno + age, binomial), by concordance(glm) and AIC."""
    X, _, _ = veterans()
    model = LogisticCCD(**TIGHT).fit(X[["karno", "age"]], X["test"])
    found = wald(model, X[["karno", "age"]], X["test"], tests=True).fit_statistics
    assert found["aic"] == pytest.approx(195.023007577) and "n_events" not in found
    expected = 0.5365515771526, 0.0492568125805
    assert found[["concordance", "concordance_error"]].tolist() == pytest.approx(expected)
    given = {"offset": 0.2 * (np.arange(1, 138) % 7)}
    model.fit(X[["karno", "age"]], X["test"], **given)
    found = wald(model, X[["karno", "age"]], X["test"], tests=True, **given).fit_statistics
    expected = 0.5008525149, 0.04943324722
    assert found[["concordance", "concordance_error"]].tolist() == pytest.approx(expected)


def test_error_with_coefficients_that_change():
    """Pairs of the rows that survSplit would make, where a person is a cluster."""
    X, y, _ = veterans()
    X, cut = X[["karno", "age"]], 90.0
    model = CoxLassoCCD(ties="efron", time_varying={"karno": [cut]}, **TIGHT).fit(X, y)
    found = wald(model, X, y, tests=True).fit_statistics
    later = y["time"] > cut
    start = np.concatenate([np.zeros(len(y)), np.full(later.sum(), cut)])
    time = np.concatenate([np.minimum(y["time"], cut), y["time"][later]])
    event = np.concatenate([y["event"] & ~later, y["event"][later]])
    karno = np.concatenate([X["karno"], np.zeros(later.sum())])
    split = np.column_stack(
        [karno, np.zeros(len(time)), np.concatenate([X["age"], X["age"][later]])]
    )
    split[len(y) :, 1] = X["karno"][later]
    rows = surv(event, time, start=start)
    person = np.concatenate([np.arange(len(y)), np.flatnonzero(later)])
    given = split, rows
    expected = wald(
        CoxLassoCCD(ties="efron", **TIGHT).fit(*given), *given, cluster=person, tests=True
    )
    for name in ("concordance", "concordance_error", "aic"):
        assert found[name] == pytest.approx(expected.fit_statistics[name], rel=1e-7)
    assert found["n_rows"] == 137


def test_contrasts_and_units():
    """By the coefficients and vcov of coxph."""
    result = wald_of_veterans()
    found = result.contrast({"age": {"age": 1}, "adeno or small": {"adeno": 1, "smallcell": -1}})
    np.testing.assert_allclose(found.coef, [-0.0890316513148, 0.3224666535216], rtol=1e-9)
    np.testing.assert_allclose(found.standard_errors, [0.09224283189, 0.268923195742], rtol=1e-9)
    assert found.intervals.index.tolist() == ["age", "adeno or small"]
    one = result.contrast({4: 1, "smallcell": -1.0})
    assert one.summary().iloc[0].tolist() == found.summary().iloc[1].tolist()
    named = result.contrast({"age": -0.5, "karno": 11, "test": 1, "adeno": -1})
    assert named.feature_names.tolist() == ["-0.5 × age + 11 × karno + test - adeno"]
    assert result.contrast({1: np.float32(2), 0: -1}).feature_names.tolist() == ["2 × age - karno"]
    years = result.per({"age": 0.1, 2: -1})
    assert years.feature_names[:3].tolist() == ["karno", "age (per 0.1)", "test (per -1)"]
    np.testing.assert_allclose(years.coef, result.coef * [1, 0.1, -1, 1, 1, 1])
    np.testing.assert_allclose(years.summary()["p_value"], result.summary()["p_value"])
    assert years.test().statistic == pytest.approx(result.test().statistic)


def test_a_test_for_each_factor():
    result = wald_of_veterans(tests=True)
    found = result.with_factors({"cell": CELLS, "arm": ["standard", "test"], "karno": ["karno"]})
    expected = ["karno", "age", "arm_standard (reference)", "test", "cell_large (reference)"]
    assert found.feature_names.tolist() == expected + CELLS[1:]
    assert found.factors.loc["cell", ["statistic", "df"]].tolist() == [pytest.approx(18.2152), 3]
    assert found.factors.loc["arm", "p_value"] == pytest.approx(0.1405978, rel=1e-6)
    table = found.summary()
    is_shown = table["p_factor"].notna()
    assert table.index[is_shown].tolist() == ["karno", expected[2], expected[4]]
    assert table.loc[expected[4], "hazard_ratio"] == 1
    assert table.loc[expected[4], ["standard_error", "p_value", "lower"]].isna().all()
    pd.testing.assert_frame_equal(
        table.loc[result.feature_names].drop(columns="p_factor"), result.summary()
    )
    assert found.test().statistic == pytest.approx(result.test().statistic)
    against = found.contrast({"adeno": 1, "cell_large (reference)": -1})
    assert against.feature_names.tolist() == ["adeno - cell_large"]
    assert against.standard_errors.tolist() == result.standard_errors[[4]].tolist()
    again = found.per({"age": 10}).summary()["standard_error"].isna()
    assert again.tolist() == table["standard_error"].isna().tolist()
    assert repr(found).startswith("<WaldResult of 6 coefficients") and " nan" not in repr(found)
    display = CoefficientDisplay.from_result(found, sort=None, beside=["p_factor"])
    texts = [text.get_text() for text in display.beside_["p_factor"]]
    assert texts == ["< 0.001", "", "0.14", "", "< 0.001", "", "", ""]
    assert [text.get_text() for text in display.numbers_[4]] == ["1.00", ""]
    assert format_ratios(found)[expected[3:]].tolist() == ["1.35 (0.90 to 2.03)", "1.00"]


def test_factors_of_encoders():
    data, y = load_veterans_lung_cancer()
    y = surv(y["Status"], y["Survival_in_days"])
    one_hot = make_column_transformer(
        (OneHotEncoder(drop="first"), ["Celltype", "Treatment"]), remainder="passthrough"
    )
    model = make_pipeline(NamedColumns(one_hot), CoxLassoCCD(ties="efron", **TIGHT))
    columns = ["Celltype", "Treatment", "Age_in_years", "Karnofsky_score"]
    model.fit(data[columns], y)
    X = model[:-1].transform(data[columns])
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(model, {"coxlassoccd__ties": ["efron"]}, cv=folds).fit(data[columns], y)
    for source in (model, model[:-1], search):
        found = wald(model[-1], X, y).with_factors(source)
        assert found.feature_names[0] == "Celltype_adeno (reference)"
        assert found.feature_names[4] == "Treatment_standard (reference)"
        assert found.factors["statistic"].tolist() == pytest.approx([18.2152, 2.171405], rel=1e-5)


def test_factors_of_the_categories_of_a_table():
    data, y = load_veterans_lung_cancer()
    factors = data[["Celltype", "Treatment", "Age_in_years"]]
    X = pd.get_dummies(factors, drop_first=True)
    result = wald(CoxLassoCCD(ties="efron", **TIGHT).fit(X, y), X, y)
    found = result.with_factors(factors)
    levels = {name: factors[name].cat.categories for name in ["Celltype", "Treatment"]}
    pd.testing.assert_frame_equal(found.summary(), result.with_factors(levels).summary())
    with pytest.raises(TypeError, match="`factors` is of type DataFrame, in which there are no"):
        result.with_factors(factors[["Age_in_years"]])


def test_contrasts_of_a_table():
    """The effect between two values of a spline, a row of the basis minus another."""
    X, y, _ = veterans()
    basis = SplineTransformer(n_knots=4, include_bias=False).set_output(transform="pandas")
    basis.fit(X[["age"]])
    curved = basis.transform(X[["age"]]).assign(karno=X["karno"])
    result = wald(CoxLassoCCD(**TIGHT).fit(curved, y), curved, y)
    at = basis.transform(X[["age"]].quantile([0.2, 0.5, 0.8]))
    differences = (at.iloc[1:] - at.iloc[0]).set_axis(["median", "old"])
    found = result.contrast(differences)
    rows = np.column_stack([differences, np.zeros(2)])
    assert found.feature_names.tolist() == ["median", "old"]
    np.testing.assert_allclose(found.coef, rows @ result.coef, rtol=1e-12)
    np.testing.assert_allclose(found.covariance, rows @ result.covariance @ rows.T, rtol=1e-10)
    test = result.test(contrasts=differences[differences.columns[::-1]])
    expected = found.coef @ np.linalg.solve(found.covariance, found.coef)
    assert test.statistic == pytest.approx(expected) and test.df == 2
    assert result.test(contrasts=differences, values=found.coef).statistic == pytest.approx(0)
    with pytest.raises(ValueError, match="names column 'height'"):
        result.contrast(differences.assign(height=1.0))


def test_splines_with_chosen_knots():
    """coxph of bs(age, knots = c(50, 60), Boundary.knots = c(40, 70)), ages within, and karno."""
    X, y, _ = veterans()
    columns = SplineColumns(columns=["age"], knots={"age": [4, 5, 6, 7]})
    model = make_pipeline(columns, CoxLassoCCD(**TIGHT)).fit(X[["age", "karno"]], y)
    assert model[-1].log_likelihood_ == pytest.approx(-482.6735594627, rel=1e-11)
    assert model[-1].coef_[0] == pytest.approx(-0.32673604325, rel=1e-7)
    found = model.predict(X[["age", "karno"]].iloc[:5])
    expected = [-0.25623693221, 0.35512186657, 0.10162130108, -0.29006827658]
    np.testing.assert_allclose(found[1:] - found[0], expected, rtol=1e-7)


def test_natural_splines():
    """coxph of karno and ns(age, knots = c(50, 60), Boundary.knots = c(40, 70)), ages beyond.

    Coefficients are those of the curves of Stone and Koo, computed in R by their formula.
    """
    data, y = load_veterans_lung_cancer()
    X = data[["Age_in_years", "Karnofsky_score"]].set_axis(["age", "karno"], axis=1)
    y = surv(y["Status"], y["Survival_in_days"])
    columns = SplineColumns(columns=["age"], knots={"age": [40, 50, 60, 70]}, natural=True)
    model = make_pipeline(columns, CoxLassoCCD(ties="efron", **TIGHT)).fit(X, y)
    assert model[-1].log_likelihood_ == pytest.approx(-482.1090207678, rel=1e-11)
    expected = [-0.03346663498, -0.08907559273, 0.26193826702, -0.68059046865]
    np.testing.assert_allclose(model[-1].coef_, expected, rtol=1e-6)
    expected = [-0.27747337860, 0.38391639334, 0.05400493159, -0.28055389633, 0.95492026894]
    found = model.predict(X.iloc[:6])
    np.testing.assert_allclose(found[1:] - found[0], expected, rtol=1e-7)
    assert model[0].groups_.tolist() == ["karno", "age", "age", "age"]
    effect = model[0].effects(model[-1].coef_).set_index("value")["effect"]
    for tail in (effect[effect.index <= 40], effect[effect.index >= 70]):
        slope = np.diff(tail) / np.diff(tail.index)
        np.testing.assert_allclose(slope, slope[0], rtol=1e-8)
    at_quantiles = columns.set_params(knots=None, n_knots=4)
    model = make_pipeline(at_quantiles, CoxLassoCCD(ties="efron", **TIGHT)).fit(X, y)
    assert model[-1].log_likelihood_ == pytest.approx(-482.4012912834, rel=1e-11)


def test_factors_of_an_encoder_behind_another_step():
    """Which is given an array, and knows no names of its columns."""
    data, y = load_veterans_lung_cancer()
    y, data = surv(y["Status"], y["Survival_in_days"]), data.astype({"Celltype": object})
    data.loc[::20, "Celltype"] = np.nan
    encoder = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(drop="first"))
    columns = make_column_transformer((encoder, ["Treatment", "Celltype"]))
    model = make_pipeline(columns, CoxLassoCCD(**TIGHT)).fit(data, y)
    result = wald(model, data, y)
    found = result.with_factors(model)
    assert found.feature_names[0] == "Treatment_standard (reference)"
    assert found.factors.index.tolist() == ["Treatment", "Celltype"]
    assert found.factors.loc["Celltype", "statistic"] == result.test([1, 2, 3]).statistic


@pytest.mark.parametrize("drop", [None, "first"])
@pytest.mark.filterwarnings("ignore:the data do not determine")
def test_rare_levels_are_one(drop):
    data, y = load_veterans_lung_cancer()
    encoder = OneHotEncoder(drop=drop, min_frequency=30)
    columns = make_column_transformer((encoder, ["Treatment", "Celltype"]))
    model = make_pipeline(columns, CoxLassoCCD(**TIGHT))
    X, y = data, surv(y["Status"], y["Survival_in_days"])
    found = wald(model.fit(X, y), X, y).with_factors(model)
    assert found.factors["df"].tolist() == [1, 2]
    assert found.feature_names[-1].endswith("Celltype_infrequent_sklearn")
    references = [name for name in found.feature_names if name.endswith("(reference)")]
    expected = ["Treatment_standard (reference)", "Celltype_smallcell (reference)"]
    assert references == (expected if drop else [])


def test_factors_stay_where_more_is_asked_for():
    result = wald_of_veterans()
    arms = {"arm": ["standard", "test"]}
    found = result.with_factors({"cell": CELLS}).with_factors(arms).per({"test": -1})
    at_once = result.with_factors({"cell": CELLS} | arms)
    np.testing.assert_array_equal(
        found.summary()["p_factor"].dropna().sort_index(),
        at_once.summary()["p_factor"].dropna().sort_index(),
    )
    assert found.factors.loc["arm", "p_value"] == at_once.factors.loc["arm", "p_value"]
    twice = result.with_factors({"cell": [*CELLS[1:], CELLS[1]], "again": CELLS[1:]})
    assert twice.factors["df"].tolist() == [3, 3]
    assert np.isfinite(twice.summary()["p_factor"]).sum() == 1  # in the row of both


def test_what_is_not_determined_stays_unknown():
    X, y, _ = veterans()
    X["large"] = 1.0 - X[CELLS[1:]].sum(axis=1)
    model = CoxLassoCCD(**TIGHT).fit(X, y)
    with pytest.warns(UserWarning, match="do not determine"):
        result = wald(model, X, y, tests=True)
    assert result.fit_statistics["df"] == 6
    criteria = information_criteria(model, X, y)[["df", "aic", "bic"]]
    np.testing.assert_allclose(criteria, result.fit_statistics[["df", "aic", "bic"]])
    found = result.contrast({"age": {"age": 2}, "cells": {"large": 1, "adeno": -1}})
    assert np.isnan(found.standard_errors).tolist() == [False, True]
    assert np.isnan(found.coef).tolist() == [False, True]
    factors = result.with_factors({"cell": CELLS}).factors
    without = wald(CoxLassoCCD(**TIGHT).fit(X.drop(columns="large"), y), X.drop(columns="large"), y)
    shown = model.summary(intervals=result.with_factors({"cell": CELLS}))  # still of this fit
    pd.testing.assert_frame_equal(shown, model.summary(intervals=result))
    test = without.test(CELLS[1:])  # the level without an error is what others are compared with
    np.testing.assert_allclose(factors[["statistic", "df"]], [[test.statistic, 3]], rtol=1e-6)


def test_levels_are_drawn_below_their_reference():
    result = wald_of_veterans().with_factors({"cell": CELLS})
    display = CoefficientDisplay.from_result(result)
    [table] = display.tables.values()
    assert table.index.tolist() == result.intervals.index.tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r: r.contrast({}), TypeError, "`contrasts` is {}; pass {column: factor}, or sev"),
        (lambda r: r.contrast([1, 0]), TypeError, r"`contrasts` is \[1, 0\]; pass {column: fac"),
        (lambda r: r.contrast({"agee": 1}), ValueError, "did you mean 'age'"),
        (lambda r: r.per({"weight": 1}), ValueError, "`units` names column 'weight'"),
        (lambda r: r.with_factors({"cell": "adeno"}), TypeError, "in which there are no levels"),
        (
            lambda r: r.with_factors(CELLS),
            TypeError,
            "`factors` is of type list, .* {factor: levels}, cat",
        ),
        (lambda r: r.with_factors({"cell": []}), TypeError, "in which there are no levels"),
        (
            lambda r: r.contrast({"age": [1]}),
            ValueError,
            r"of column 'age' is \[1\], must be",
        ),
        (lambda r: r.per({"age": 0}), ValueError, "`units` is {'age': 0}; pass {column: step}, s"),
        (lambda r: r.per([1, 2]), ValueError, r"`units` is \[1, 2\]; pass {column: step}"),
        (
            lambda r: r.with_factors({"cell": [*CELLS, "other"]}),
            ValueError,
            "`factors` has levels of 'cell' without a column: 'large', 'other'. Only the reference",
        ),
    ],
)
def test_mistakes_in_contrasts_and_factors(call, error, message):
    with pytest.raises(error, match=message):
        call(wald_of_veterans())
