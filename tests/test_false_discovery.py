"""Marginal false discovery rates, against ncvreg, the oracle and noise."""

import numpy as np
import pytest
from faces import FACES, OFFSET, STRATA, X
from scipy.stats import kstest, norm
from test_criteria import information_of

from sksurvgpu import (
    CoxLassoCCD,
    GroupLasso,
    LinearCCD,
    LogisticCCD,
    debiased,
    false_discovery,
    fit_path,
    local_false_discovery,
    profile_likelihood,
    surv,
)

ALPHAS = [0.2, 0.1, 0.05, 0.02]


@pytest.fixture(scope="module")
def standardized():
    """What ncvreg 3.16.0 was given: columns with mean 0 and mean square 1, times without ties."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(150, 12))
    X = (X - X.mean(0)) / X.std(0)
    eta = X[:, :3] @ [0.8, -0.6, 0.4]
    time = rng.exponential(size=150) * np.exp(-eta)
    y = {"cox": surv(rng.random(150) < 0.7, time), "linear": eta + rng.normal(size=150)}
    return X, {**y, "logistic": rng.random(150) < 1 / (1 + np.exp(-eta))}


def test_rates_of_least_squares_are_those_of_ncvreg(standardized):
    """mfdr(ncvreg(X, y, penalty = "lasso", lambda = ALPHAS, eps = 1e-12))."""
    columns, y = standardized[0], standardized[1]["linear"]
    path = fit_path(LinearCCD(tol=1e-11), columns, y, alphas=ALPHAS)
    table = false_discovery(path, columns, y)
    expected = [0.31586286435, 2.95966346755, 6.73818935693, 9.80322278273]
    np.testing.assert_allclose(table["expected_false"], expected, rtol=1e-7)
    assert table["n_selected"].tolist() == [3, 3, 7, 10]
    np.testing.assert_allclose(table["rate"], np.array(expected) / [3, 3, 7, 10], rtol=1e-7)


@pytest.mark.parametrize(
    ("name", "cls", "coef", "z", "rate", "rtol"),
    [
        (
            "cox",
            CoxLassoCCD,
            [0.8653143244, -0.4313435450, 0.4062018307, -0.0419896976],
            [8.30596727216, -5.14466573417, 4.72184297827, -1.15170964404],
            [8.565358149e-15, 1.466110699e-05, 1.180382891e-04, 1.0],
            1e-6,
        ),
        (  # which takes a column's plain mean for its mean under the weights of the fit
            "logistic",
            LogisticCCD,
            [0.38050142604, -0.53719519942, 0.08348213201, 0.0],
            [3.48604450529, -4.34674968550, 1.77436849955, -0.56693116022],
            [0.0145310533732, 0.0005137547714, 0.6921167555461, 0.9757259298114],
            1e-4,
        ),
    ],
)
def test_local_rates_are_those_of_ncvreg(standardized, name, cls, coef, z, rate, rtol):
    """local_mfdr(fit, 0.05, method = "kernel"); its density() is a little less exact than ours."""
    columns, y = standardized[0], standardized[1][name]
    model = cls(alpha=0.05, tol=1e-11).fit(columns, y)
    table = local_false_discovery(model, columns, y)
    np.testing.assert_allclose(table["coef"][:4], coef, atol=1e-8)
    np.testing.assert_allclose(table["z"][:4], z, rtol=rtol)
    np.testing.assert_allclose(table["local_rate"][:4], rate, rtol=5e-3)
    np.testing.assert_array_equal(table["selected"], model.coef_ != 0)


@pytest.mark.parametrize("name", ["cox", "logistic", "poisson"])
def test_rates_follow_from_the_information(name):
    face, alpha = FACES[name], 0.015 if name == "cox" else 0.04
    rows = {"offset": OFFSET} | ({"strata": STRATA} if name == "cox" else {})
    factor = np.where(np.arange(12) == 3, 2.0, 1.0)
    given = {"penalty_factor": {2: 0.0, 3: 2.0}, "bounds": {5: (0, np.inf)}}
    model = face.make(alpha=alpha, l1_ratio=0.8, **given).fit(X, face.y, **rows)
    own = np.diagonal(information_of(name, model))
    l1 = 240 * model.alpha * 0.8 * factor
    chance = np.where(np.arange(12) == 5, 1.0, 2.0) * norm.sf(l1 / np.sqrt(own))
    chance, selected = np.delete(chance, 2), np.delete(model.coef_ != 0, 2).sum()
    [row] = false_discovery(model, X, face.y, **rows).to_dict("records")
    assert row["alpha"] == pytest.approx(model.alpha) and row["n_selected"] == selected > 0
    assert row["expected_false"] == pytest.approx(min(chance.sum(), selected), rel=1e-9)
    assert chance.sum() < selected or name == "cox"
    table = local_false_discovery(model, X, face.y, **rows)
    some, b = np.flatnonzero(table["selected"]), table["coef"].to_numpy()
    own, l1 = np.delete(own, 2), np.delete(l1, 2)
    slope = l1 * np.sign(b) + 0.25 * l1 * b  # that of the penalty, at the optimum
    z = (slope + own * b) / np.sqrt(own)
    assert len(some) == selected
    np.testing.assert_allclose(table["z"].to_numpy()[some], z[some], rtol=1e-6)


@pytest.mark.parametrize("name", list(FACES))
def test_every_model_has_rates(name):
    face = FACES[name]
    path = fit_path(face.make(), X, face.y, alphas=[0.05, 0.02], **face.rows)
    table = false_discovery(path, X, face.y, **face.rows)
    assert ((table["rate"] >= 0) & (table["rate"] <= 1)).all()
    alone = false_discovery(path.at(1), X, face.y, **face.rows)
    np.testing.assert_allclose(table.iloc[1], alone.iloc[0], rtol=1e-9)
    z = local_false_discovery(path.at(0), X, face.y, **face.rows)["z"].to_numpy()
    out = path.at(0).coef_ == 0
    assert out.any() and np.isfinite(z).all() and (np.abs(z[out]) < 6.0).all()


def test_units_of_columns_do_not_matter(standardized):
    columns, y = standardized[0], standardized[1]["cox"]
    unit = np.geomspace(0.01, 100, 12)
    plain = CoxLassoCCD(alpha=0.05, tol=1e-11).fit(columns, y)
    model = CoxLassoCCD(alpha=0.05, tol=1e-11, penalty_factor=unit).fit(columns * unit, y)
    tables = [
        (false_discovery(fit, values, y), local_false_discovery(fit, values, y))
        for fit, values in ((plain, columns), (model, columns * unit))
    ]
    np.testing.assert_allclose(tables[0][0], tables[1][0], rtol=1e-6)
    np.testing.assert_allclose(tables[0][1]["z"], tables[1][1]["z"], rtol=1e-6)


def test_means_count_no_columns(standardized):
    """A mean of coefficients, and an offset that takes it back, leave as many to the errors."""
    columns, y = standardized[0], standardized[1]["linear"]
    mean, found = np.linspace(-0.5, 0.5, columns.shape[1]), []
    for means, rows in ((None, {}), (mean, {"offset": -columns @ mean})):
        model = LinearCCD(alpha=0.2, tol=1e-11, prior_mean=means).fit(columns, y, **rows)
        limits = profile_likelihood(model, columns, y, [0], **rows).intervals
        errors = debiased(model, columns, y, **rows).summary()["standard_error"]
        z = local_false_discovery(model, columns, y, **rows)["z"]
        found.append(np.concatenate([z, errors, limits["upper"] - limits["lower"]]))
    np.testing.assert_allclose(*found, rtol=1e-4)


@pytest.mark.thorough
def test_statistics_of_noise_are_normal():
    """Those of 3,000 columns without an effect."""
    rng, found = np.random.default_rng(0), []
    for _ in range(30):
        X = (rng.random((400, 100)) < rng.uniform(0.1, 0.9, 100)) * 1.0
        y = rng.random(400) < 0.4
        table = local_false_discovery(LogisticCCD(alpha=0.022, n_jobs=1).fit(X, y), X, y)
        assert table["selected"].any()
        assert (
            table["z"][table["selected"]].abs().min() > table["z"][~table["selected"]].abs().min()
        )
        found.append(table["z"])
    z = np.concatenate(found)
    assert kstest(z, "norm").pvalue > 1e-3
    assert abs((np.abs(z) > norm.isf(0.005)).mean() - 0.01) < 0.006


def test_constant_columns_and_no_degrees_of_freedom(standardized):
    columns, y = standardized[0], standardized[1]["linear"]
    wide = np.column_stack([columns, np.ones(150)])
    tables = [
        false_discovery(LinearCCD(alpha=0.2).fit(values, y), values, y)
        for values in (columns, wide)
    ]
    np.testing.assert_allclose(*tables, rtol=1e-9)
    few = LinearCCD(alpha=1e-4).fit(columns[:8], y[:8])
    assert np.count_nonzero(few.coef_) >= 7
    assert (
        false_discovery(few, columns[:8], y[:8])[["expected_false", "rate"]].isna().all(axis=None)
    )
    assert local_false_discovery(few, columns[:8], y[:8])["local_rate"].isna().all()


def test_bad_input(standardized):
    columns, y = standardized[0], standardized[1]["cox"]
    model = CoxLassoCCD(alpha=0.05).fit(columns, y)
    with pytest.raises(TypeError, match="`estimator` is of type dict"):
        false_discovery({}, columns, y)
    grouped = CoxLassoCCD(alpha=0.05, penalty=GroupLasso(np.arange(12) // 3)).fit(columns, y)
    with pytest.raises(ValueError, match="in groups have no thresholds of their own"):
        false_discovery(grouped, columns, y)
    with pytest.raises(ValueError, match="are not the rows of the fit"):
        local_false_discovery(model, columns, y[::-1])
