"""What summaries of fits have beside coefficients: null models, joint tests, intercepts.

R's figures are in `test_summaries_published`.
"""

import numpy as np
import pandas as pd
import pytest
from faces import FACES, X
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import (
    CoxLassoCCD,
    LinearCCD,
    LogisticCCD,
    information_criteria,
    residuals,
    surv,
    wald,
)
from sksurvgpu.partitions.handles import from_lists


@pytest.mark.parametrize("name", FACES)
@pytest.mark.parametrize("params", [{}, {"alpha": 0.0, "prior_mean": {0: 0.5, 1: -1.0}}])
def test_null_log_likelihood_is_that_of_a_column_that_says_nothing(name, params):
    face = FACES[name]
    model = face.fit(names=face.rows, **params)
    nothing = face.make(alpha=0.0).fit(0 * X[:, :1], face.y, **face.rows)
    assert model.null_log_likelihood_ == pytest.approx(nothing.log_likelihood_, rel=1e-12)


@pytest.fixture(scope="module")
def logistic():
    face = FACES["logistic"]
    return face.fit(alpha=0.0, names=face.rows)


def wald_of(model, name, columns=X, **options):
    return wald(model, columns, FACES[name].y, **FACES[name].rows, **options)


def test_tests_by_name_and_by_contrast(logistic):
    result = wald_of(logistic, "logistic", intercept=True, tests=True)
    assert result.feature_names[0] == "intercept"
    assert result.summary().loc["intercept", "coef"] == logistic.intercept_
    plain = wald_of(logistic, "logistic")
    assert plain.tests is None
    np.testing.assert_array_equal(result.covariance[1:, 1:], plain.covariance)
    assert repr(plain.test(["x1", 3])) == repr(result.test(["x1", "x3"]))
    assert result.test().statistic == pytest.approx(result.tests.loc["wald", "statistic"])
    matrix = np.eye(len(plain.coef))[[1, 3]]
    by_matrix = plain.test(contrasts=[*matrix, matrix[0] - matrix[1]])  # of which two say all
    assert by_matrix.df == 2
    assert by_matrix.statistic == pytest.approx(plain.test(["x1", "x3"]).statistic)
    one = plain.test("x4", values=0.3)
    z = (plain.coef[4] - 0.3) / plain.standard_errors[4]
    assert one.statistic == pytest.approx(z**2)
    assert one.p_value == pytest.approx(2 * norm.sf(abs(z)))


@pytest.mark.parametrize("name", ["logistic", "poisson", "linear"])
@pytest.mark.parametrize("robust", [False, True])
def test_intercept_as_a_column_of_ones(name, robust):
    """Columns far from zero are centred inside, which the intercept must know."""
    face, far = FACES[name], X.toarray() + 100.0
    model = face.make(alpha=0.0).fit(far, face.y, **face.rows)
    found = wald_of(model, name, far, intercept=True, robust=robust)
    ones = np.column_stack([np.ones(len(far)), far - 100.0])
    near = face.make(alpha=0.0, fit_intercept=False).fit(ones, face.y, **face.rows)
    expected = wald_of(near, name, ones, robust=robust)
    shift = np.eye(len(found.coef))
    shift[0, 1:] = 100.0  # the intercept at 100 in every column
    moved = shift @ found.covariance @ shift.T
    if name == "linear" and not robust:
        assert found.df == expected.df
    np.testing.assert_allclose(moved, expected.covariance, atol=1e-7 * np.abs(moved).max())
    np.testing.assert_allclose(shift @ found.coef, expected.coef, atol=1e-6)


def test_intercept_beside_a_constant_column():
    y = FACES["linear"].y
    for constant in (0.0, 1.0):
        columns = np.column_stack([X[:, :2].toarray(), np.full(len(y), constant)])
        model = LinearCCD(alpha=0).fit(columns, y)
        with pytest.warns(UserWarning, match="do not determine the coefficients of `x2`"):
            found = wald(model, columns, y, intercept=True)
        few = LinearCCD(alpha=0).fit(columns[:, :2], y)
        expected = wald(few, columns[:, :2], y, intercept=True)
        np.testing.assert_allclose(found.coef, [*expected.coef, np.nan], atol=1e-12)
        np.testing.assert_allclose(found.covariance[:3, :3], expected.covariance, atol=1e-12)
        with pytest.raises(ValueError, match="do not determine the coefficient of 'x2'"):
            found.test(["x0", "x2"])
        assert found.test().df_residual == len(y) - 3


@pytest.mark.filterwarnings("ignore:the data do not determine the coefficients of `copy`")
@pytest.mark.parametrize("tol", [1e-6, 1e-13])
def test_infinite_coefficients_count(tol):
    """Also where a direction is infinite that no column has by itself."""
    rng, kind = np.random.default_rng(0), np.arange(300) % 3
    table = pd.DataFrame({"x": kind > 0, "y": kind != 1, "z": rng.normal(size=300)}, dtype=float)
    table["copy"] = table["x"]
    is_case = (rng.random(300) < 0.5) | (kind == 2)
    for model, y in (
        (LogisticCCD(alpha=0.0, tol=tol), is_case),
        (CoxLassoCCD(alpha=0.0, tol=tol), surv(~is_case, rng.exponential(size=300))),
    ):
        with pytest.warns(ConvergenceWarning):
            model.fit(table, y)
        with pytest.warns(UserWarning, match="are infinite"):
            result = wald(model, table, y, tests=True)
        assert result.tests["df"].tolist() == [3, 3, 3]
        assert result.fit_statistics["df"] == 3 + isinstance(model, LogisticCCD)
        criteria = information_criteria(model, table, y)
        assert criteria[["df", "aic"]].equals(result.fit_statistics[["df", "aic"]])


def test_infinite_coefficients_have_two_tests():
    x = np.column_stack([np.arange(20.0) % 3, np.arange(20) >= 10])
    with pytest.warns(ConvergenceWarning):
        model = LogisticCCD(alpha=0).fit(x, np.arange(20) >= 10)
    with pytest.warns(UserWarning, match="infinite"):
        tests = wald(model, x, np.arange(20) >= 10, tests=True).tests
    assert np.isnan(tests.loc["wald", "statistic"])
    assert tests.drop("wald").notna().all(axis=None)


@pytest.mark.filterwarnings("ignore:the data do not determine")
@pytest.mark.parametrize("name", FACES)
def test_no_column_says_anything(name):
    model = FACES[name].make(alpha=0.0).fit(0 * X[:, :2], FACES[name].y, **FACES[name].rows)
    result = wald_of(model, name, 0 * X[:, :2], tests=True)
    assert result.tests["df"].tolist() == [0, 0, 0] and result.tests["p_value"].isna().all()
    assert "test: " in repr(result)


def test_score_test_of_an_indicator_is_the_log_rank_test():
    face = FACES["cox"]
    x = (np.arange(len(face.y)) % 2)[:, None].astype(float)
    model = face.make(alpha=0.0).fit(x, face.y)
    found = wald(model, x, face.y, tests=True).tests.loc["score", "statistic"]
    expected, variance = 0.0, 0.0
    for time in np.unique(face.y["time"][face.y["event"]]):
        at_risk, dead = face.y["time"] >= time, face.y["event"] & (face.y["time"] == time)
        share = x[at_risk, 0].mean()
        expected += dead @ (x[:, 0] - share)
        variance += dead.sum() * share * (1 - share)  # tied deaths as Breslow counts them
    assert found == pytest.approx(expected**2 / variance)


@pytest.mark.parametrize("name", ["cox", "logistic", "linear"])
@pytest.mark.parametrize("robust", [False, True])
def test_rows_in_partitions_have_the_same_tests(name, robust):
    face, parts = FACES[name], [slice(k, None, 3) for k in range(3)]
    here = face.make(alpha=0.0).fit(X, face.y)
    handles = from_lists({"X": [X[part] for part in parts], "y": [face.y[part] for part in parts]})
    x, y = handles["X"], handles["y"]
    far = face.make(alpha=0.0).fit(x, y)
    assert far.null_log_likelihood_ == pytest.approx(here.null_log_likelihood_, rel=1e-10)
    tables = [
        wald(model, *rows, tests=True, robust=robust).tests
        for model, rows in ((here, (X, face.y)), (far, (x, y)))
    ]
    np.testing.assert_allclose(tables[1], tables[0], rtol=1e-6)
    if name != "cox":
        with pytest.raises(ValueError, match="`X` is in partitions, and the error of the interc"):
            wald(far, x, y, intercept=True)


def test_leaving_a_row_out_of_a_linear_model():
    face, row = FACES["linear"], 9
    model = face.fit(alpha=0.0)
    change = residuals(model, X, face.y, "dfbeta")[row]
    keep = np.arange(len(face.y)) != row
    without = face.make(alpha=0.0).fit(X[keep], face.y[keep])
    np.testing.assert_allclose(change, model.coef_ - without.coef_, atol=1e-8)


@pytest.mark.parametrize("name", ["case series", "logistic", "poisson"])
def test_dfbeta_is_nearly_the_change_without_a_row(name):
    face, rows = FACES[name], slice(0, 60, 20)
    model, keep = face.fit(alpha=0.0), np.arange(len(face.y)) != 20
    change = residuals(model, X, face.y, "dfbeta", **face.arguments())[rows][1]
    without = face.make(alpha=0.0).fit(X[keep], face.y[keep], **face.arguments(rows=keep))
    expected = model.coef_ - without.coef_
    np.testing.assert_allclose(change, expected, atol=0.15 * np.abs(expected).max() + 1e-9)


@pytest.mark.parametrize("name", [*FACES])
def test_default_residuals(name):
    face = FACES[name]
    found = residuals(face.fit(names=face.rows), X, face.y, **face.rows)
    weight = face.rows.get("sample_weight", np.ones(len(face.y)))
    assert found.shape == (len(face.y),)
    np.testing.assert_array_equal(np.isnan(found), weight == 0)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"columns": "age"}, ValueError, "`columns` names column 'age'"),
        ({"columns": []}, ValueError, r"`columns` is \[\]; name one or more"),
        ({"columns": [0, "x0"]}, ValueError, "each of them once"),
        ({"columns": 0, "contrasts": np.ones(12)}, ValueError, "were both passed"),
        ({"contrasts": [1, -1]}, ValueError, r"the shape \(2,\); pass a finite number for each"),
        ({"columns": [0, 1], "values": [1, 2, 3]}, ValueError, r"`values` has the shape \(3,\)"),
    ],
)
def test_bad_hypotheses(logistic, given, error, message):
    with pytest.raises(error, match=message):
        wald_of(logistic, "logistic").test(**given)


def test_bad_options(logistic):
    for name in ("intercept", "tests"):
        with pytest.raises(TypeError, match=f"`{name}` is 'yes', must be True or False"):
            wald_of(logistic, "logistic", **{name: "yes"})
    cox = FACES["cox"].fit(alpha=0.0, names=FACES["cox"].rows)
    with pytest.raises(ValueError, match="a CoxLassoCCD, was fitted without one; pass intercept="):
        wald_of(cox, "cox", intercept=True)
