"""Outcomes without a model against R: survival, cmprsk and survRM2, whose numbers are kept."""

import numpy as np
import pytest
from oracles.cases import load

from sksurvgpu import surv
from sksurvgpu.data.outcomes.fields import pack
from sksurvgpu.nonparametric import aalen_johansen, kaplan_meier, log_rank, restricted_mean

CURVES = load("curves.json")
DATA = {file: load(f"{file}.json")["datasets"] for file in ("coxph", "competing")}
RTOL = 1e-11  # numbers have 12 digits


def cases(kind):
    found = [case for case in CURVES["cases"] if case["name"].startswith(kind)]
    return pytest.mark.parametrize("case", found, ids=[case["name"] for case in found])


def rows_of(case):
    """Outcome, groups and weights of a case."""
    data, uses = CURVES["late"], case["uses"]
    if case["dataset"] != "late":
        data = DATA[case["file"]][case["dataset"]]
    if case["file"] == "coxph":
        given = {"start": data["start"] if "start" in uses else None}
        given["stratum"] = data["strata"] if "strata" in uses else None
        given["subject"] = CURVES["subjects"][case["dataset"]] if "subject" in uses else None
        y = surv(np.array(data["event"]), data["time"], **given)
    else:
        names = {"status": "event", "time": "time", "start": "start", "subject": "subject"}
        y = pack({name: np.array(data[key]) for key, name in names.items() if key in data})
    weight = data["weights"] if "weights" in uses else None
    if "groups" not in case:
        return y, None, weight
    group = np.array(data["group"] if case["dataset"] == "late" else data["X"][case["groups"]])
    return y, group > 0 if case["file"] == "competing" else group.astype(int), weight


def assert_equal(found, expected):
    expected = np.array(expected, dtype=float)
    np.testing.assert_allclose(found, expected, rtol=RTOL, atol=1e-14)


@cases("survival")
def test_survival(case):
    y, groups, weight = rows_of(case)
    for interval, limits in case["limits"].items():
        given = {"groups": groups, "sample_weight": weight, "robust": case.get("robust")}
        curves = kaplan_meier(y, interval=interval, **given)
        assert curves.robust == case["is_robust"]
        for column in ("lower", "upper"):
            assert_equal(curves.table[column], limits[column])
        check_quantiles(curves, limits["quantiles"])
    for column in ("time", "n_at_risk", "n_events", "n_censored", "survival", "standard_error"):
        assert_equal(curves.table[column], case[column])


def check_quantiles(curves, expected):
    """Where limits rise again, R's are no first times at which they are down."""
    found = curves.quantiles([0.1, 0.25, 0.5])
    assert_equal(found["quantile"], expected["quantile"])
    for column in ("lower", "upper"):
        by_group = curves.table.groupby("group", observed=True)[column]
        if all(values.dropna().is_monotonic_decreasing for _, values in by_group):
            assert_equal(found[column], expected[column])


@cases("incidence")
def test_incidence(case):
    y, groups, weight = rows_of(case)
    for interval, limits in case["limits"].items():
        curves = aalen_johansen(y, groups=groups, sample_weight=weight, interval=interval)
        first = curves.table[curves.table["event"] == 1]
        assert_equal(first["lower"], limits["lower"])
        assert_equal(first["upper"], limits["upper"])
    for kind in (0, 1):
        lines = curves.table[curves.table["event"] == kind + 1]
        assert_equal(lines["time"], case["time"])
        for column in ("incidence", "standard_error"):
            assert_equal(lines[column], case[column][kind])
        if weight is None:  # this version of R counts rows with weights, too
            assert_equal(lines["n_at_risk"], case["n_at_risk"])
            assert_equal(lines["n_events"], case["n_events"][kind])


@cases("cuminc")
def test_incidence_of_another_package(case):
    y, groups, _ = rows_of(case)
    found = aalen_johansen(y, groups=groups).at(case["times"])["incidence"].unstack("time")
    assert_equal(found.swaplevel().sort_index().to_numpy().ravel(), case["incidence"])


@cases("test")
def test_log_rank(case):
    y, groups, _ = rows_of(case)
    test = log_rank(y, groups, rho=case["rho"])
    assert_equal([test.chi_square, test.p_value], [case["chi_square"], case["p_value"]])
    assert_equal(test.table["observed"], case["observed"])
    assert_equal(test.table["expected"], case["expected"])
    assert_equal(test.covariance.ravel(), case["variance"])


@cases("score")
def test_log_rank_is_a_score_test(case):
    y, groups, weight = rows_of(case)
    assert_equal(log_rank(y, groups, sample_weight=weight).chi_square, case["chi_square"])


@cases("mean")
def test_restricted_mean(case):
    y, groups, _ = rows_of(case)
    found = restricted_mean(y, case["horizon"], groups=groups).table
    assert_equal(found["mean"], case["mean"])
    assert_equal(found["standard_error"], case["standard_error"])


@cases("contrast")
def test_differences_and_ratios(case):
    y, groups, _ = rows_of(case)
    means = restricted_mean(y, case["horizon"], groups=groups)
    found = [means.differences(), means.ratios(), means.ratios(of="lost")]
    columns = [["difference", "lower", "upper", "p_value"]] + 2 * [
        ["ratio", "lower", "upper", "p_value"]
    ]
    found = [table[names].to_numpy() for table, names in zip(found, columns, strict=True)]
    assert_equal(np.ravel(found), case["table"])
