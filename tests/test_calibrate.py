"""Calibration by controls: the nulls, p-values and intervals of R's EmpiricalCalibration."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from test_combination import LIKELIHOODS, tables_of
from test_profile_grids import EVIDENCE

from sksurvgpu import (
    CoxLassoCCD,
    EmpiricalNullDisplay,
    ProfileDisplay,
    calibrate,
    combine_profiles,
    profile_likelihood,
    wald,
)
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.inference._systematic import fit_error_model

NAMES = {"logRr": "coef", "seLogRr": "standard_error", "trueLogRr": "true_coef"}


def table_of(case):
    return pd.DataFrame(case["data"]).rename(columns=NAMES)


@pytest.mark.parametrize("case", EVIDENCE["calibration"], ids=lambda case: case["name"])
def test_nulls_of_empirical_calibration(case):
    data = table_of(case)
    controls, estimates = (data[data["groundTruth"] == truth] for truth in (0, 1))
    result = calibrate(estimates, controls)
    np.testing.assert_allclose(result.null, case["exact"], rtol=1e-6)
    np.testing.assert_allclose(result.null, case["null"], atol=3e-4)  # their search
    assert result.expected_absolute_systematic_error == pytest.approx(case["ease"], abs=3e-4)
    np.testing.assert_allclose(result.table["p_value"], case["traditional"], rtol=1e-4, atol=1e-15)
    by_alternative = {"two-sided": "p", "greater": "p_upper", "less": "p_lower"}
    for alternative, name in by_alternative.items():
        table = calibrate(estimates, controls, alternative=alternative).table
        np.testing.assert_allclose(table["calibrated_p_value"], case[name], rtol=2e-3)
    interval = pd.DataFrame(case["interval"])
    names = ["logRr", "logLb95Rr", "logUb95Rr", "seLogRr"]
    ours = ["coef", "lower", "upper", "standard_error"]
    np.testing.assert_allclose(
        result.table[[f"calibrated_{name}" for name in ours]], interval[names], atol=5e-4
    )
    assert result.left_out.empty and len(result.controls) == len(controls)


@pytest.mark.parametrize("case", EVIDENCE["errors"], ids=lambda case: case["name"])
def test_error_models_of_empirical_calibration(case):
    data = table_of(case)
    true = data["true_coef"]
    negative, positive, other = (data[mask] for mask in (true == 0, true > 0, true.isna()))
    result = calibrate(other, negative, positive_controls=positive)
    np.testing.assert_allclose(result.error_model, case["exact"], atol=2e-4)
    np.testing.assert_allclose(result.error_model, case["model"], atol=1e-3)
    a, b, c, d = case["exact"]

    def minus(a, b, c, d):
        known = pd.concat([negative, positive])
        centre, spread = a + b * known["true_coef"], c + d * known["true_coef"]
        scale = np.hypot(spread, known["standard_error"])
        return -norm.logpdf(known["coef"], centre, scale).sum()

    assert minus(*result.error_model) <= minus(a, b, c, d) + 1e-9  # at least as likely
    interval = pd.DataFrame(case["interval"])[["logRr", "logLb95Rr", "logUb95Rr"]]
    columns = ["calibrated_coef", "calibrated_lower", "calibrated_upper"]
    np.testing.assert_allclose(result.table[columns], interval, atol=1e-3)
    for end in result.table[columns[1:]].iloc[0]:  # the ends are just rejected
        centre, spread = a + b * end, c + d * abs(end)
        y, s = other[["coef", "standard_error"]].iloc[0]
        assert abs(y - centre) / np.hypot(spread, s) == pytest.approx(norm.ppf(0.975), abs=2e-3)


@pytest.mark.parametrize("seed", [154, 350, 0, 1])
def test_error_models_do_not_end_where_both_spreads_are_zero(seed):
    """... at which the slope of the likelihood is 0: beside its maximum over a grid."""
    rng = np.random.default_rng(seed)
    n = rng.integers(10, 60)
    true = np.where(np.arange(n) < n // 2, 0.0, rng.choice(np.log([1.5, 2, 4]), n))
    error = rng.uniform(0.02, 0.5, n)
    spread, more = rng.choice([0, 0.05, 0.2, 0.6], 2)
    coef = rng.normal(0.1 + true * 0.9, np.hypot(error, spread + more * true))
    x = np.column_stack([np.ones(n), true])

    def misfit(spread, last):
        variance = error**2 + (spread + (last - spread) * true / true.max()) ** 2
        inverse = x.T / variance
        line = np.linalg.solve(inverse @ x, inverse @ coef)
        return np.sum(np.log(variance) + (coef - x @ line) ** 2 / variance)

    *_, spread, more = fit_error_model(coef, error, true)
    grid = np.linspace(0.0, 1.5, 40)
    best = min(misfit(a, b) for a in grid for b in grid)
    assert misfit(spread, spread + more * true.max()) <= best + 1e-9


def test_null_of_likelihoods():
    table = tables_of("custom")
    controls = {f"control {k}": table.iloc[[k]] for k in range(len(table))}
    estimates = pd.DataFrame({"coef": [0.5], "standard_error": [0.2]})
    result = calibrate(estimates, controls)
    np.testing.assert_allclose(result.null, EVIDENCE["null_of_likelihoods"], atol=2e-3)
    assert result.controls.index.to_list() == list(controls)
    flat = pd.DataFrame({"point": [-1, 0, 1], "value": 0.0})
    with pytest.warns(UserWarning, match=r"1 control\(s\) left out, see `left_out`: silent"):
        again = calibrate(estimates, controls | {"silent": flat})
    np.testing.assert_allclose(again.null, result.null)
    assert again.left_out.to_numpy().tolist() == [["control", "silent", "a flat likelihood"]]


def test_normal_likelihoods_are_estimates():
    rng = np.random.default_rng(0)
    error = rng.uniform(0.05, 0.4, 30)
    coef = rng.normal(0.2, np.hypot(0.3, error))
    estimates = pd.DataFrame({"coef": [0.5], "standard_error": [0.2]})
    controls = {
        str(k): pd.DataFrame({"logRr": [y], "seLogRr": [s]})
        for k, (y, s) in enumerate(zip(coef, error, strict=True))
    }
    by_table = calibrate(estimates, pd.DataFrame({"coef": coef, "standard_error": error}))
    np.testing.assert_allclose(calibrate(estimates, controls).null, by_table.null, atol=1e-5)


def test_no_spread_beyond_the_standard_errors():
    controls = pd.DataFrame({"coef": [0.1, 0.2, 0.15, 0.1, 0.2], "standard_error": 0.3})
    result = calibrate(controls[:1], controls)
    assert result.null["sd"] == 0 and result.null["mean"] == pytest.approx(0.15)
    assert result.expected_absolute_systematic_error == pytest.approx(0.15)
    assert result.table["calibrated_standard_error"].iloc[0] == pytest.approx(0.3)


def test_nothing_is_left_out_silently():
    controls = pd.DataFrame(
        {
            "coef": [0.1, 0.2, np.nan, 9.0, 0.3, np.inf, 0.0, 0.4, 0.2],
            "standard_error": [0.1, np.inf, 0.1, 0.1, 0.2, 0.1, 0.3, 0.1, 0.2],
        },
        index=list("abcdefghi"),
    )
    estimates = pd.DataFrame(
        {"coef": [0.5, np.nan], "standard_error": [0.1, np.nan]}, index=["y", "z"]
    )
    with pytest.warns(UserWarning, match=r"4 control\(s\) left out, see `left_out`: b, c, d, f"):
        result = calibrate(estimates, controls)
    assert result.controls.index.to_list() == list("aeghi")
    reasons = result.left_out.set_index("name")["reason"]
    assert reasons.to_dict() == {
        "b": "no finite standard error",
        "c": "no finite estimate",
        "d": "a ratio beyond 100 or a hundredth",
        "f": "no finite estimate",
        "z": "no finite estimate",
    }
    assert result.table.loc["z"].isna().all() and result.table.loc["y"].notna().all()
    assert pickle.loads(pickle.dumps(result)).null.equals(result.null)


def test_coverage_of_calibrated_intervals():
    """Of 2,000 estimates with the systematic error of 200 controls, 95 % hold the truth."""
    rng = np.random.default_rng(1)
    error = rng.uniform(0.05, 0.3, 2_200)
    true = np.repeat([0.0, 0.7], [200, 2_000])
    coef = rng.normal(true + 0.3, np.hypot(0.2, error))
    data = pd.DataFrame({"coef": coef, "standard_error": error})
    table = calibrate(data[200:], data[:200]).table
    inside = (table["calibrated_lower"] < 0.7) & (table["calibrated_upper"] > 0.7)
    assert 0.93 < inside.mean() < 0.97
    plain = np.abs(table["coef"] - 0.7) < 1.96 * table["standard_error"]
    assert plain.mean() < 0.6


def test_results_and_other_tables():
    data = simulate_cox(200, 6, density=0.4, random_state=0)
    X = data.X[::-1]  # of others, without an effect
    fitted = CoxLassoCCD(alpha=0).fit(X, data.y)
    summary = wald(fitted, X, data.y).summary()
    result = calibrate(summary[:1], summary[1:])
    np.testing.assert_allclose(result.table["p_value"], summary["p_value"][:1])
    of_result = calibrate(wald(fitted, X, data.y), summary[1:])
    np.testing.assert_array_equal(of_result.table[:1], result.table)
    profiles = {
        f"x{j}": profile_likelihood(CoxLassoCCD(alpha=0), X, data.y, j, bounds=(-3, 3),
                                    derivatives=True) for j in range(1, 6)
    }  # fmt: skip
    again = calibrate(summary[:1], profiles)
    np.testing.assert_allclose(again.null, result.null, atol=0.03)
    polars = pytest.importorskip("polars")
    frames = [polars.from_pandas(frame.reset_index()) for frame in (summary[:1], summary[1:])]
    np.testing.assert_array_equal(calibrate(*frames).null, result.null)


def test_figures():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    case = EVIDENCE["calibration"][0]
    data = table_of(case)
    result = calibrate(data[data["groundTruth"] == 1], data[data["groundTruth"] == 0])
    display = EmpiricalNullDisplay.from_result(result)
    points = display.controls_.get_offsets()
    np.testing.assert_allclose(points[:, 0], np.exp(result.controls["coef"]))
    left, right = display.before_[0].get_data(), display.before_[1].get_data()
    np.testing.assert_allclose(np.log(right[0]), norm.ppf(0.975) * right[1], atol=1e-9)
    np.testing.assert_allclose(np.log(left[0]), -np.log(right[0]), atol=1e-9)
    band = display.after_.get_paths()[0].vertices
    off = (np.log(band[:, 0]) - result.null["mean"]) / np.hypot(band[:, 1], result.null["sd"])
    assert np.abs(off).max() == pytest.approx(norm.ppf(0.975), rel=1e-6)
    plain = EmpiricalNullDisplay.from_result(result, ratio=False, ax=pyplot.figure().subplots())
    assert plain.ax_.get_xlabel() == "coefficient"
    with pytest.raises(TypeError, match="pass what calibrate returns"):
        EmpiricalNullDisplay.from_result(data)
    nothing = result.controls.assign(coef=np.nan)
    with pytest.raises(ValueError, match="no row has a finite estimate"):
        EmpiricalNullDisplay(nothing, nothing, 0.0, 0.1).plot()
    profiles = combine_profiles(tables_of("grid with gradients"))
    panels = ProfileDisplay.from_result(profiles, columns=["site 1", "site 2", "fixed effect"])
    assert [ax.get_title() for ax in panels.axes_] == ["site 1", "site 2", "fixed effect"]
    assert [len(bound.get_offsets()) for bound in panels.bounds_] == [1, 2, 2]
    pyplot.close("all")


def test_few_controls_warn():
    controls = pd.DataFrame({"coef": [0.1, 0.2], "standard_error": 0.3})
    with pytest.warns(UserWarning, match=r"that of 2 control\(s\), and its spread hardly known"):
        calibrate(controls, controls)


ONE = pd.DataFrame({"coef": [0.1], "standard_error": [0.3]})


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"estimates": ONE[["coef"]]}, ValueError, "`estimates` has no column 'standard_error'"),
        ({"estimates": ONE[:0]}, ValueError, "`estimates` has no rows"),
        ({"estimates": ONE.astype(str)}, TypeError, "column 'coef' of dtype"),
        ({"negative_controls": ONE * [1, 0]}, ValueError, "`standard_error` is 0 in row 0"),
        ({"negative_controls": ONE * [1, np.nan]}, ValueError, "has none to learn from"),
        ({"positive_controls": ONE}, ValueError, "`positive_controls` has no column 'true_coef'"),
        ({"positive_controls": ONE.assign(true_coef=0.0)}, ValueError, "other than 0 in some"),
        (
            {"positive_controls": pd.concat([ONE, -8 * ONE]).abs().assign(true_coef=[-1.0, -2.0])},
            ValueError,
            "do not rise with their `true_coef`",
        ),
        ({"level": 95}, ValueError, "`level` is 95"),
        ({"alternative": "upper"}, ValueError, "`alternative` is 'upper'; give one of"),
        (
            {"negative_controls": LIKELIHOODS, "positive_controls": ONE},
            ValueError,
            "known by estimates",
        ),
    ],
)
def test_bad_controls(given, error, message):
    with pytest.raises(error, match=message):
        calibrate(**{"estimates": ONE, "negative_controls": ONE} | given)
