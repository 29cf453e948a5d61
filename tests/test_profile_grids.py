"""Profile likelihoods at given values: those of Cyclops, and of sites that say little."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from conftest import PUBLISHED
from faces import FACES
from faces import X as TABLE

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    CoxLassoCCD,
    FineGrayCCD,
    Firth,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    case_series,
    competing_risks,
    matched,
    profile_likelihood,
    surv,
)
from sksurvgpu.datasets import simulate_cox

GRID = np.linspace(-2.0, 2.0, 5)


@cache
def read(name):
    return json.loads((PUBLISHED / f"{name}.json").read_text(encoding="utf-8"))


EVIDENCE = read("evidence")


def published(case):
    """Estimator, X and y."""
    if case["dataset"] == "toy":
        data = EVIDENCE["toy"]
    else:
        file = {"cox": "coxph", "lr": "glm"}[case["model"]]
        data = read(file)["datasets"][case["dataset"]]
    X = pd.DataFrame(data["X"])
    alpha = np.sqrt(2.0 / case["variance"]) / len(X) if "variance" in case else 0.0
    if case["model"] == "lr":
        return LogisticCCD(alpha=alpha), X, np.array(data["y"])
    return CoxLassoCCD(alpha=alpha, ties="breslow"), X, surv(data["event"], data["time"])


@pytest.mark.thorough(but="lung")
@pytest.mark.parametrize(
    "case", EVIDENCE["profiles"], ids=lambda case: f"{case['dataset']}-{'variance' in case}"
)
def test_curves_of_cyclops(case):
    model, X, y = published(case)
    wanted = {"values": case["point"], "derivatives": True}
    plain, penalized = (
        profile_likelihood(model, X, y, case["column"], include_penalty=included, **wanted)
        for included in (False, True)
    )
    assert plain.curves["value"].to_list() == case["point"]
    value = plain.curves["log_likelihood"]
    np.testing.assert_allclose(value, case["plain"]["value"], rtol=1e-10)
    expected = case.get("penalized", case["plain"])
    off = np.array(expected["value"]) - penalized.curves["log_likelihood"]
    assert np.ptp(off) < 1e-8  # the prior's constant
    np.testing.assert_allclose(penalized.curves["gradient"], expected["derivative"], atol=1e-7)
    if "variance" in case:  # where theirs is the slope of the other curve
        np.testing.assert_allclose(
            slopes_of(model, X, y, case), plain.curves["gradient"], atol=1e-5
        )
        difference = plain.curves["gradient"] - case["plain"]["derivative"]
        assert 1e-3 < np.abs(difference).max() < 0.1
    else:
        assert off.abs().max() < 1e-8


def slopes_of(model, X, y, case, step=1e-4):
    """Slopes of the log-likelihood without the penalty, by differences."""
    around = np.add.outer(case["point"], [-step, step]).ravel()
    curve = profile_likelihood(model, X, y, case["column"], values=around).curves
    return np.diff(curve["log_likelihood"].to_numpy().reshape(-1, 2), axis=1)[:, 0] / (2 * step)


@pytest.mark.thorough(but=r"0\.4-(cox|poisson|conditional logistic)")
@pytest.mark.parametrize("name", list(FACES))
@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
def test_gradients_of_every_model(name, l1_ratio):
    """They are the slopes of the curve, with the penalty of the others or without."""
    face, step = FACES[name], 1e-3
    middle = np.array([-0.5, 0.4])
    around = np.add.outer(middle, [-step, 0.0, step]).ravel()
    for included in (False, True):
        model = face.make(alpha=0.02, l1_ratio=l1_ratio, tol=1e-11)
        given = {"values": around, "derivatives": True, "include_penalty": included}
        curve = profile_likelihood(model, TABLE, face.y, 1, **given, **face.rows).curves
        value = curve["log_likelihood"].to_numpy().reshape(2, 3)
        slope = (value[:, 2] - value[:, 0]) / (2 * step)
        found = curve["gradient"].to_numpy()[1::3]
        np.testing.assert_allclose(found, slope, rtol=2e-5, atol=2e-5)


def test_drops_and_ratios():
    data = simulate_cox(200, 4, random_state=0)
    result = profile_likelihood(CoxLassoCCD(alpha=0), data.X, data.y, "x1", values=GRID)
    curve = result.curves
    assert curve.columns.to_list()[1:] == [
        "value",
        "log_likelihood_ratio",
        "drop",
        "log_likelihood",
    ]
    np.testing.assert_allclose(curve["drop"], 0.5 * curve["log_likelihood_ratio"])
    fall = result.log_likelihoods["x1"] - curve["log_likelihood"]
    np.testing.assert_allclose(curve["drop"], fall, atol=1e-9)
    searched = profile_likelihood(CoxLassoCCD(alpha=0), data.X, data.y, "x1")
    pd.testing.assert_frame_equal(result.intervals, searched.intervals)
    assert len(searched.curves) > 5  # those of the search


def test_linear_models_know_the_variance_of_the_best_fit():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    y = X @ [0.5, 1.0] + rng.normal(size=40)
    given = {"values": GRID, "derivatives": True}
    curve = profile_likelihood(LinearCCD(alpha=0), X, y, 0, **given).curves
    x = np.column_stack([np.ones(40), X[:, 1]])
    best = np.linalg.lstsq(np.column_stack([x, X[:, 0]]), y, rcond=None)[1][0] / 37
    for value, height in zip(curve["value"], curve["log_likelihood"], strict=True):
        rest = np.linalg.lstsq(x, y - value * X[:, 0], rcond=None)[1][0]
        assert height == pytest.approx(-0.5 * rest / best, rel=1e-6)
    np.testing.assert_allclose(
        curve["gradient"], np.gradient(curve["log_likelihood"], GRID, edge_order=2), rtol=1e-4
    )  # of a parabola, which differences have exactly


def test_values_by_column():
    data = simulate_cox(150, 4, random_state=0)
    given = {"x0": [0.5, -1, 0.5], 2: np.array([1, 2])}
    curves = profile_likelihood(CoxLassoCCD(), data.X, data.y, ["x0", 2], values=given).curves
    assert curves["value"].to_list() == [-1.0, 0.5, 1.0, 2.0]
    assert curves["feature"].to_list() == ["x0", "x0", "x2", "x2"]
    with pytest.raises(ValueError, match="`values` has none for 'x1'"):
        profile_likelihood(CoxLassoCCD(), data.X, data.y, ["x0", 1], values=given)
    with pytest.raises(ValueError, match="`values` names column 9"):
        profile_likelihood(CoxLassoCCD(), data.X, data.y, "x0", values={9: [0.0]})


@pytest.mark.thorough(but="False")
@pytest.mark.parametrize("derivatives", [False, True])
def test_adaptive_grids_lose_no_more_than_the_tolerance(derivatives):
    data = simulate_cox(150, 3, random_state=3)
    model, fine = CoxLassoCCD(alpha=0), np.linspace(-2.5, 1.0, 101)
    window = {"bounds": (-2.5, 1.0), "tolerance": 0.05, "derivatives": derivatives}
    result = profile_likelihood(model, data.X, data.y, "x0", **window)
    curve, truth = (
        result.curves,
        profile_likelihood(model, data.X, data.y, "x0", values=fine).curves["log_likelihood"],
    )
    point, value = curve["value"].to_numpy(), curve["log_likelihood"].to_numpy()
    assert point[0] == -2.5 and point[-1] == 1.0 and result.intervals["coef"].iloc[0] in point
    if derivatives:
        from scipy.interpolate import CubicHermiteSpline

        found = CubicHermiteSpline(point, value, curve["gradient"])(fine)
        assert len(point) < 40
    else:
        found = np.interp(fine, point, value)
    assert np.abs(found - truth).max() < 0.05


def test_nobody_exposed_has_an_event():
    """The likelihood is highest at minus infinity, and finite everywhere."""
    model, X, y = published(EVIDENCE["profiles"][-1])
    values = np.linspace(-5.0, 5.0, 11)
    result = profile_likelihood(model, X, y, "exposed", values=values, derivatives=True)
    curve = result.curves
    assert np.isfinite(curve.select_dtypes("number")).all(axis=None) and len(curve) == 11
    assert (np.diff(curve["log_likelihood"]) < 0).all() and (curve["gradient"] < 0).all()
    assert result.intervals.loc["exposed", "lower"] == -np.inf


def test_nobody_is_exposed():
    data = simulate_cox(100, 2, random_state=0)
    X = np.column_stack([np.zeros(100), data.X.toarray()])
    for given in ({"values": GRID}, {"bounds": (-2, 2)}):
        curve = profile_likelihood(CoxLassoCCD(), X, data.y, 0, **given, derivatives=True).curves
        assert len(curve) >= 5 and np.ptp(curve["log_likelihood"]) < 1e-9
        assert curve["gradient"].abs().max() < 1e-9


N = 24
SILENT = {
    "cox": (CoxLassoCCD(), surv(np.zeros(N, bool), np.arange(1.0, N + 1))),
    "fine-gray": (FineGrayCCD(), competing_risks(np.repeat([0, 2], N // 2), np.arange(1.0, N + 1))),
    "logistic": (LogisticCCD(), np.ones(N)),
    "poisson": (PoissonCCD(), np.zeros(N)),
    "case series": (CaseSeriesCCD(), case_series(np.zeros(N), np.ones(N), np.arange(N) // 4)),
    "matched": (ConditionalLogisticCCD(), matched(np.zeros(N), np.arange(N) // 4)),
}


@pytest.mark.parametrize("name", list(SILENT))
def test_sites_without_an_event_are_flat(name):
    model, y = SILENT[name]
    X = pd.DataFrame({"drug": np.arange(N) % 2, "age": np.linspace(-1, 1, N)})
    with pytest.raises(ValueError, match="`y`"):
        profile_likelihood(model, X, y, "drug")
    result = profile_likelihood(model, X, y, "drug", values=GRID, derivatives=True)
    assert result.curves["value"].to_list() == GRID.tolist()
    assert not result.curves[["drop", "log_likelihood", "gradient"]].any(axis=None)
    assert result.summary().loc["drug"].iloc[:4].to_list() == [0.0, -np.inf, np.inf, 1.0]
    adaptive = profile_likelihood(model, X, y, ["age", "drug"], bounds=(-1, 2)).curves
    assert adaptive.groupby("feature").size().to_list() == [10, 10]  # 0 among them


def test_what_is_not_flat_without_an_event_is_refused():
    X, y = np.arange(N)[:, None] % 3, np.zeros(N)
    for model in (PoissonCCD(fit_intercept=False), PoissonCCD(alpha=0, penalty=Firth())):
        with pytest.raises(ValueError, match="`y` is zero in all"):
            profile_likelihood(model, X, y, 0, values=GRID)
    with pytest.raises(ValueError, match="`columns` names 'drug'"):
        profile_likelihood(PoissonCCD(), X, y, "drug", values=GRID)
    with pytest.raises(ValueError, match=r"`y` has .* rows"):
        profile_likelihood(PoissonCCD(), X, y[:5], 0, values=GRID)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"values": []}, ValueError, "`values` is empty"),
        ({"values": [[1.0]]}, TypeError, r"2 dimension\(s\)"),
        ({"values": ["a"]}, TypeError, "dtype <U1"),
        ({"values": [0.0, np.nan]}, ValueError, "`values` has nan in position 1"),
        ({"values": {0: [np.inf]}}, ValueError, r"`values\[0\]` has inf in position 0"),
        ({"values": [1e7]}, ValueError, "'x0' is asked for at 1e.07, where the linear predictors"),
        ({"bounds": (-1e9, 0)}, ValueError, "predictors of rows differ by 1e.09, beyond 1e.06"),
        ({"values": {"x0": [1], 0: [2]}}, ValueError, "`values` has two lists for 'x0'"),
        ({"values": [1.0], "bounds": (0, 1)}, ValueError, "`values` and `bounds` both say"),
        ({"values": [1.0], "n_points": 3}, ValueError, "`n_points` and `values` both say"),
        ({"bounds": (1, 0)}, ValueError, r"`bounds` is \(1, 0\); the first must be less"),
        ({"bounds": (0, np.inf)}, ValueError, r"`bounds` is \(0, inf\)"),
        ({"bounds": 3}, ValueError, "`bounds` is 3; give two numbers"),
        ({"bounds": (0, 1), "tolerance": 0}, ValueError, "`tolerance` is 0, must be at least"),
        ({"derivatives": 1}, TypeError, "`derivatives` is 1, must be True or False"),
        ({"include_penalty": None}, TypeError, "`include_penalty` is None"),
    ],
)
def test_bad_grids(given, error, message):
    data = simulate_cox(50, 2, density=0.5, random_state=0)
    with pytest.raises(error, match=message):
        profile_likelihood(CoxLassoCCD(), data.X, data.y, 0, **given)


def test_curves_do_not_know_the_unit_of_a_column():
    data = simulate_cox(60, 2, density=0.5, random_state=0)
    model, given, curves = CoxLassoCCD(alpha=0), np.array([-1.0, 0.5]), []
    for unit in (1.0, 1e-9, 1e9):
        X = data.X.toarray() * [unit, 1.0]
        wanted = {"values": given / unit, "derivatives": True}
        found = profile_likelihood(model, X, data.y, 0, **wanted).curves
        curves.append(found[["value", "drop", "gradient"]] * [unit, 1.0, 1.0 / unit])
        window = {"bounds": (-1 / unit, 1 / unit), "derivatives": True}
        curves[-1].loc[2] = [*profile_likelihood(model, X, data.y, 0, **window).curves.shape, 0.0]
    for found in curves[1:]:
        pd.testing.assert_frame_equal(found, curves[0], rtol=1e-6)


def test_a_linear_fit_without_errors_has_no_curve():
    X = np.arange(20.0)[:, None]
    with pytest.raises(ValueError, match="the fit has no errors"):
        profile_likelihood(LinearCCD(alpha=0), X, np.ones(20), 0, values=[0.0, 1.0])


def test_firth_has_curves_and_no_gradients():
    data = simulate_cox(60, 2, density=0.5, random_state=0)
    model = CoxLassoCCD(alpha=0, penalty=Firth())
    result = profile_likelihood(model, data.X, data.y, 0, values=GRID, include_penalty=True)
    fall = result.log_likelihoods["x0"] - result.curves["log_likelihood"]
    np.testing.assert_allclose(result.curves["drop"], fall, atol=1e-9)
    with pytest.raises(ValueError, match="`derivatives` is True"):
        profile_likelihood(model, data.X, data.y, 0, derivatives=True)
