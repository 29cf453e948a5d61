"""Optima of independent software, found by both algorithms; matched sets in 60 digits.

Published optima of Cox's model are in `test_solver`; how exact these are, in `test_oracles`.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from grids import thin
from models import MODELS, Sample, fit, gradient, open_session
from oracles.cases import load
from oracles.reference_conditional import clogit_exact

ALGORITHMS = ("majorized", "exact")
FILES = {name: load(f"{name}.json") for name in ("competing", "conditional", "glm")}
# R's finegray() counts every row once in the curve of the censoring, whatever its weight; the
# package weights the curve like the rows.
CASES = [
    (file, case["name"])
    for file in FILES
    for case in FILES[file]["cases"]
    if "weights" not in case["uses"] or case["options"].get("weighted_km", True)
]
LARGE_STRATA = load("large_strata.json")["strata"]
VECTORS = load("vectors.json")


def named(cases, name):
    (case,) = [case for case in cases if case["name"] == name]
    return case


def fine_gray(data, strata, curve, km_ties):
    """Curves of the censoring: of every stratum, of other groups, or one (`curve` a label)."""
    model = MODELS["fine_gray, events first" if km_ties == "events_first" else "fine_gray"]
    n = len(data["time"])
    if curve is None and strata is not None:
        curve = np.zeros(n)
    curve = None if strata is not None and np.array_equal(curve, strata) else curve
    y = {"time": data["time"], "status": data["status"], "strata": strata, "curve": curve}
    return model, y


def conditional_logistic(data, method):
    if method == "exact":
        return MODELS["conditional_logistic"], {"case": data["case"], "group": data["stratum"]}
    y = {"time": np.ones(len(data["case"])), "event": data["case"], "start": None}
    return MODELS[f"cox, {method}"], {**y, "strata": data["stratum"]}


def glm(data, family, intercept):
    return MODELS[family if intercept else f"{family}, origin"], {"value": data["y"]}


def number_groups(y):
    """Groups from 0, as an estimator hands them down."""
    if "group" in y:
        y["group"] = np.unique(y["group"], return_inverse=True)[1]
    return y


def read_case(file, name):
    """Model, sample and what was published."""
    case = named(FILES[file]["cases"], name)
    dataset = FILES[file]["datasets"][case["dataset"]]
    data = {k: np.array(v, float) for k, v in dataset.items() if k != "X" and v is not None}
    columns = case.get("columns", list(dataset["X"]))
    X = np.column_stack([np.array(dataset["X"][c], float) for c in columns])
    used = {k: data[k] for k in case["uses"] if k in data}
    options = case["options"]
    if case["model"] == "fine_gray":
        strata = used.get("strata")
        curve = strata if "own_curves" in case["uses"] else used.get("censor_groups")
        model, y = fine_gray(data, strata, curve, options["km_ties"])
    elif case["model"] == "case_series":
        model, y = MODELS["conditional_poisson"], {"count": data["y"], "group": data["group"]}
    elif case["model"] == "clogit":
        model, y = conditional_logistic(data, options["method"])
    else:
        model, y = glm(data, options["family"], "intercept" in case)
    offset = np.log(used["exposure"]) if "exposure" in used else used.get("offset")
    weights = used.get("weights", used.get("copies"))
    return model, Sample(X, number_groups(y), weights, offset), case


def check_baseline(solution, model, sample, expected):
    """Where it rises; at the times of rows without weight it does not."""
    plan = model.plan(sample.y)
    rises = np.append(False, solution.baseline[1:] > solution.baseline[:-1])
    rises[plan.cell_ptr[:-1]] = False
    np.testing.assert_array_equal(plan.cell_time[rises], expected["times"])
    hazard = np.exp(solution.baseline[rises])
    np.testing.assert_allclose(hazard, expected["cumulative_hazard"], rtol=1e-7)


@pytest.mark.parametrize("algorithm", thin(2, ALGORITHMS))
@pytest.mark.parametrize(("file", "name"), thin(3, CASES))
def test_optimum(file, name, algorithm, check_close):
    model, sample, case = read_case(file, name)
    if algorithm == "exact" and sample.weights is None:
        sample = sample.with_(weights=sample.sample_weight)  # one kernel for all
    args = {
        "l1_ratio": case.get("l1_ratio", 1.0),
        "tol": 1e-12,
        "algorithm": algorithm,
        "max_iter": 20_000,
    }
    if "penalty_factor" in case:
        args["factor"] = np.array(case["penalty_factor"], float)
    solution = fit(model, sample, case["lam"], **args)
    comparison = "coef" if case["lam"] > 0 else "published coef"
    check_close(solution.coef, case["coefficients"], comparison)
    if "loglik" in case:
        check_close(solution.loglik, case["loglik"], "published loglik")
    if "intercept" in case:
        check_close(solution.baseline, case["intercept"], comparison)
    if "baseline" in case:
        check_baseline(solution, model, sample, case["baseline"])


def read_vector(case):
    """Model and sample."""
    data = {name: np.array(values, float) for name, values in VECTORS["data"].items()}
    options = case["options"]

    def column(option):
        return data[options[option]] if options.get(option) else None

    offset = None
    if case["card"] == "fine_gray":
        outcome = {"time": column("time"), "status": column("status")}
        args = column("strata"), column("censor_groups"), options["km_ties"]
        model, y = fine_gray(outcome, *args)
    elif case["card"] == "sccs":
        y = {"count": column("y"), "group": column("group")}
        model, offset = MODELS["conditional_poisson"], np.log(column("exposure"))
    elif case["card"] == "glm":
        intercept = options.get("intercept") is not None
        model, y = glm({"y": column("y")}, options["family"], intercept)
    else:
        outcome = {"case": column("case"), "stratum": column("stratum")}
        model, y = conditional_logistic(outcome, options["method"])
    X = np.column_stack([data[f"x{j}"] for j in range(6)])
    return model, Sample(X, number_groups(y), column("weights"), offset)


OTHERS = [
    case
    for case in VECTORS["expected"]
    if case["card"] not in ("cox", "time_varying") and "km_weights" not in case["options"]
]


@pytest.mark.parametrize("case", OTHERS, ids=lambda case: case["name"])
def test_vectors(case, check_close):
    model, sample = read_vector(case)
    options = case["options"]
    factor = np.array(options.get("penalty_factor", np.ones(6)), float)
    args = {"l1_ratio": options.get("l1_ratio", 1.0), "factor": factor, "tol": 1e-12}
    solution = fit(model, sample, options["lam"], **args)
    check_close(solution.coef, case["coef"], "coef", context=case["name"])
    if case["loglik"] is not None:
        check_close(solution.loglik, case["loglik"], "published loglik")


def one_set(n, cases, eta, weights=None):
    """Session of one set at the given predictors: (session, loglik)."""
    case = np.zeros(n)
    case[cases] = 1.0
    model = MODELS["conditional_logistic"]
    X = sp.eye_array(n, format="csc")
    sample = Sample(X, {"case": case, "group": np.zeros(n, int)}, weights)
    return open_session(model, sample, eta)[:2]


@pytest.mark.thorough(but=r"ascending")
@pytest.mark.parametrize("stratum", LARGE_STRATA, ids=lambda stratum: stratum["name"])
@pytest.mark.parametrize("order", ["ascending", "descending", "mixed"])
def test_large_sets(stratum, order):
    """Up to 5,000 rows and 2,500 cases, predictors of 15 standard deviations."""
    eta, pi = (np.repeat(stratum[name], stratum["counts"]) for name in ("eta", "pi"))
    n, rows = len(eta), np.arange(len(eta))
    rows = {"ascending": rows, "descending": rows[::-1]}.get(order, rows * 1013 % n)
    eta, pi = eta[rows], pi[rows]
    cases = np.random.default_rng(0).permutation(n)[: stratum["cases"]]
    session, loglik = one_set(n, cases, eta)
    # the terms of the log-likelihood are as large as this
    size = 1.0 + np.abs(eta[cases]).sum() + abs(stratum["log_b"])
    assert abs(loglik - (eta[cases].sum() - stratum["log_b"])) <= 1e-13 * size
    u = -pi
    u[cases] += 1.0
    np.testing.assert_allclose(gradient(session), u, rtol=0, atol=1e-10)
    shares = -gradient(session)[np.setdiff1d(np.arange(n), cases)]
    np.testing.assert_allclose(shares, np.delete(pi, cases), rtol=1e-9)


@pytest.mark.thorough(but=r"-15\.0")
@pytest.mark.parametrize("spread", [0.0, 1.0, 15.0, 300.0])
@pytest.mark.parametrize(("n", "m"), [(2, 1), (50, 1), (50, 49), (120, 2), (120, 70), (300, 299)])
def test_sets_of_any_shape(n, m, spread, check_close):
    rng = np.random.default_rng(n + m)
    eta, cases = spread * rng.normal(size=n), rng.permutation(n)[:m]
    session, loglik = one_set(n, cases, eta, np.full(n, 2.5))
    case = np.isin(np.arange(n), cases)
    expected = clogit_exact(eta, case, np.zeros(n), np.full(n, 2.5))
    check_close(gradient(session), expected.u, "u")
    assert abs(loglik - expected.loglik) <= 1e-12 * (1.0 + np.abs(eta).max() * n)
    h, pi = session.curvature(np.arange(n))[0][:, 1] / 2.5, case - expected.u / 2.5
    check_close(h - h**2 / h.sum(), pi * (1.0 - pi), "h")
    if spread <= 15.0:  # where one row decides against another, many h are the same model
        check_close(h, expected.h / 2.5, "h")
