"""Intervals of predicted curves of R's survival, and curves of cmprsk: see make_curves.R."""

import numpy as np
import pytest
from oracles.cases import load
from test_inference_published import TIGHT, close, fine_gray_fit, read

from sksurvgpu import CoxLassoCCD, curve_intervals, surv

CASES = {case["name"]: case for case in load("predicted_curves.json")["cases"]}


def fit_of(case):
    """Model, columns, outcome, and what else the fit takes."""
    if case["model"] == "fine_gray":
        ties = "crr" if case["options"]["km_ties"] == "together" else "finegray"
        return fine_gray_fit(case, ties)
    X, data, rows = read(case)
    start = data["start"] if "start" in case["uses"] else None
    y = surv(data["event"], data["time"].astype(float), start=start)
    return CoxLassoCCD(ties=case["options"]["ties"], **TIGHT).fit(X, y, **rows), X, y, rows


@pytest.mark.thorough(but=r"weights|finegray")
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "curves" in case])
def test_intervals_of_survfit(name):
    case = CASES[name]
    model, X, y, rows = fit_of(case)
    curves = case["curves"]
    for i, row in enumerate(case["rows"]):
        new = {"times": np.array(curves["time"][i], float), "level": case["level"]}
        new |= {"robust": False, **rows}
        if "strata" in rows:
            new["strata_new"] = rows["strata"][[row]]
        hazard = curve_intervals(model, X, y, X[[row]], what="cumulative_hazard", **new)
        close(hazard.estimate[0], curves["hazard"][i], 1e-9)
        close(hazard.standard_errors[0], curves["error"][i], 1e-9)
        for kind in ("log", "log-log", "plain"):
            found = curve_intervals(model, X, y, X[[row]], what="risk", interval=kind, **new)
            for bound, expected in (("upper", "lower"), ("lower", "upper")):
                survival = 1.0 - getattr(found, bound)[0]
                given = np.array(curves[expected][kind][i], float)  # "NA" where nothing happened
                np.testing.assert_allclose(survival, given, atol=1e-10)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "incidence" in case])
def test_curves_of_predict_crr(name):
    case = CASES[name]
    model, X, y, rows = fit_of(case)
    found = curve_intervals(model, X, y, X[case["rows"]], times=case["time"], **rows)
    close(found.estimate, case["incidence"], 1e-9)
    assert (found.lower < found.estimate).all()
