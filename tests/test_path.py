"""Paths: their fits are the estimator's own fits."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import CoxLassoCCD, Path, fit_path, surv
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.solver import solve


@pytest.fixture(scope="module")
def data():
    return simulate_cox(300, 15, density=0.3, n_strata=3, random_state=0)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"l1_ratio": 0.4, "ties": "efron"},
        {"l1_ratio": 0.0},
        {"penalty_factor": {0: 0.0, 3: 2.0}},
        {"time_varying": {2: [10.0]}},
    ],
    ids=["lasso", "elastic net", "ridge", "factors", "time"],
)
def test_fits_are_the_estimators_own(data, params):
    rng = np.random.default_rng(1)
    rows = {"sample_weight": rng.uniform(0.5, 2, 300), "offset": rng.normal(size=300)}
    model = CoxLassoCCD(tol=1e-10, **params)
    path = fit_path(
        model, data.X, data.y, n_alphas=5, alpha_min_ratio=0.01, strata=data.strata, **rows
    )
    assert isinstance(path, Path) and len(path) == 5 and path.converged.all()
    for i in (0, 2, 4):
        single = CoxLassoCCD(alpha=path.alphas[i], tol=1e-10, **params)
        single.fit(data.X, data.y, strata=data.strata, **rows)
        at = path.at(i)
        assert path.alpha_max == pytest.approx(single.alpha_max_, rel=1e-9)
        np.testing.assert_allclose(path.coefs[:, i], single.coef_, atol=1e-7)
        np.testing.assert_array_equal(path.coefs[:, i], at.coef_)
        for column, name in (
            ("objective", "objective_"),
            ("log_likelihood", "log_likelihood_"),
        ):
            values = getattr(path, column)[i], getattr(at, name), getattr(single, name)
            np.testing.assert_allclose(values, values[-1], rtol=1e-9)
        curves = [
            fitted.predict_survival_function(data.X, data.strata, return_array=True)
            for fitted in (at, single)
        ]
        np.testing.assert_allclose(*curves, atol=1e-6)
    assert path.feature_names.tolist() == single.summary().index.tolist()


def test_single_fits_of_wide_data_come_by_way_of_larger_penalties(monkeypatch, capsys):
    """The same optimum, in fewer steps; fits that begin elsewhere, or of tall data, go straight."""
    ways, come_near = [], solve._come_near
    monkeypatch.setattr(solve, "_come_near", lambda *call: ways.append(call) or come_near(*call))
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 90))
    y = surv(rng.random(60) < 0.7, rng.exponential(size=60) * np.exp(X[:, 0] - X[:, 1]))
    path = fit_path(CoxLassoCCD(tol=1e-10), X, y, n_alphas=30, alpha_min_ratio=0.01)
    assert not ways
    model = CoxLassoCCD(alpha=path.alphas[-1], tol=1e-10, warm_start=True, verbose=2).fit(X, y)
    assert "by way of 0.8 of the largest penalty" in capsys.readouterr().out
    assert len(ways) == 1 and model.converged_
    np.testing.assert_allclose(model.coef_, path.coefs[:, -1], atol=1e-6)
    monkeypatch.setattr(solve, "NEXT", 1e-3)
    straight = CoxLassoCCD(alpha=path.alphas[-1], tol=1e-10, verbose=2).fit(X, y)
    assert "by way of" not in capsys.readouterr().out
    np.testing.assert_allclose(model.coef_, straight.coef_, atol=1e-6)
    monkeypatch.undo()
    monkeypatch.setattr(solve, "_come_near", None)
    model.fit(X, y)
    CoxLassoCCD(alpha=path.alphas[-1]).fit(X[:, :50], y)
    CoxLassoCCD(alpha=path.alphas[0]).fit(X, y)


def test_default_grid(data):
    path = fit_path(CoxLassoCCD(), data.X, data.y)
    assert len(path) == 100
    assert path.alphas[0] == pytest.approx(path.alpha_max) and path.df[0] == 0
    assert path.alphas[-1] == pytest.approx(1e-4 * path.alpha_max)
    np.testing.assert_allclose(np.diff(np.log(path.alphas)), np.log(1e-4) / 99)
    assert (np.diff(path.log_likelihood) > -1e-6).all()
    wide = fit_path(CoxLassoCCD(), data.X[:12], data.y[:12], n_alphas=3)
    assert wide.alphas[-1] == pytest.approx(1e-2 * wide.alphas[0])


def test_given_alphas_are_sorted(data):
    path = fit_path(CoxLassoCCD(), data.X, data.y, alphas=[0.01, 0.05, 0.02])
    assert path.alphas.tolist() == [0.05, 0.02, 0.01]
    assert path.estimator(0.02).alpha == 0.02
    np.testing.assert_array_equal(path.estimator(0.02).coef_, path.coefs[:, 1])
    with pytest.raises(TypeError, match=r"`index` is 0.02, .* path.estimator\(alpha\) takes"):
        path.at(0.02)


def test_the_estimator_is_left_alone(data):
    model = CoxLassoCCD(alpha=0.02).fit(data.X, data.y)
    before = model.coef_.copy()
    path = fit_path(model, data.X, data.y, n_alphas=4)
    first = path.at(1).coef_.copy()
    path.at(2)
    assert model.alpha == 0.02
    np.testing.assert_array_equal(model.coef_, before)
    np.testing.assert_array_equal(path.at(1).coef_, first)


def test_table_and_pickle(data):
    frame = pd.DataFrame(data.X.toarray(), columns=[f"code{j}" for j in range(15)])
    path = pickle.loads(pickle.dumps(fit_path(CoxLassoCCD(), frame, data.y, n_alphas=6)))
    table = path.to_frame()
    assert table.shape == (6, 15)
    assert table.columns.tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(table.index, path.alphas)
    expected = frame.to_numpy() @ path.coefs[:, 3]
    np.testing.assert_allclose(path.at(3).predict(frame), expected, atol=1e-12)


def test_not_converging_warns_once(data):
    with pytest.warns(
        ConvergenceWarning, match=r"of 8 fits of the path did not converge, the"
    ) as w:
        path = fit_path(CoxLassoCCD(max_iter=1), data.X, data.y, n_alphas=8)
    assert len(w) == 1 and w[0].filename == __file__
    assert not path.converged.all() and path.converged[0]


@pytest.mark.parametrize("ratio", [1.0, 0.5])
@pytest.mark.parametrize("free", [False, True])
@pytest.mark.filterwarnings("ignore:.*selects nothing")
def test_largest_penalty_beside_ridges_is_the_one_at_which_a_column_enters(ratio, free):
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(300, 3))
    X = np.hstack([shared + rng.normal(size=(300, 3)), shared, rng.normal(size=(300, 3))])
    time = rng.exponential(np.exp(-X @ [1.5, -1.5, 1.0, -1.5, 1.5, -1.0, 0.5, 0.0, 0.0]))
    y, is_lasso = surv(np.ones(300, bool), time), np.arange(9) >= 3
    options = {"l1_ratio": np.where(is_lasso, ratio, 0.0)}
    if free:
        is_lasso[-1] = False
        options["penalty_factor"] = np.r_[np.ones(8), 0.0]
    alpha_max = CoxLassoCCD(alpha=10.0, **options).fit(X, y).alpha_max_
    entered = {
        share: CoxLassoCCD(alpha=share * alpha_max, **options).fit(X, y).coef_[is_lasso].any()
        for share in (0.99, 1.01, 1.5, 2.0, 4.0)
    }
    assert entered.pop(0.99) and not any(entered.values())


@pytest.mark.parametrize("index", [2, -3])
def test_positions_that_are_not_there_are_told(index):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), surv(np.arange(50) % 2 == 0, rng.exponential(size=50))
    path = fit_path(CoxLassoCCD(), X, y, alphas=[0.1, 0.01])
    with pytest.raises(IndexError, match=rf"`index` is {index}; `alphas` has 2 penalties."):
        path.at(index)
