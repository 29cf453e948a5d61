"""Published optima as the slow references see them.

A case of competing.json, conditional.json or glm.json (layout: published/common.R) becomes columns,
coefficients and a function from the linear predictor to the reference's Evaluation.  A free
intercept is one more column, the last, without penalty.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from oracles.reference_competing import finegray_direct
from oracles.reference_conditional import clogit_approx, clogit_exact, multinomial_direct
from oracles.reference_glm import glm_direct
from oracles.reference_likelihoods import information, kkt

PUBLISHED = Path(__file__).parent / "published"


def load(name):
    return json.loads((PUBLISHED / name).read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Case:
    """One optimum and the problem that it solves."""

    X: np.ndarray
    offset: np.ndarray
    evaluate: Callable
    coef: np.ndarray
    lam: float
    l1_ratio: float
    factor: np.ndarray

    def at(self, coef):
        return self.evaluate(self.offset + self.X @ coef)

    @cached_property
    def evaluation(self):
        return self.at(self.coef)

    @cached_property
    def information(self):
        """Minus the second derivative of the log-likelihood in the coefficients."""
        if self.evaluation.atoms or self.evaluation.hessian is not None:
            return information(self.X, self.evaluation)
        steps = 1e-6 * np.eye(len(self.coef))
        change = [self.at(self.coef - d).u - self.at(self.coef + d).u for d in steps]
        return np.array(change) @ self.X / 2e-6

    def kkt(self):
        """Largest violation of the optimality conditions, on the sum scale."""
        penalty = self.lam, self.l1_ratio, self.factor
        return kkt(self.X, self.evaluation.u, self.coef, *penalty).max()

    def coef_error(self):
        """Largest entry of the Newton step that would remove the violation."""
        l1 = self.lam * self.l1_ratio * self.factor
        l2 = self.lam * (1.0 - self.l1_ratio) * self.factor
        violation = self.X.T @ self.evaluation.u - l2 * self.coef - l1 * np.sign(self.coef)
        active = np.flatnonzero(self.coef)
        curvature = (self.information + np.diag(l2))[np.ix_(active, active)]
        return np.abs(np.linalg.solve(curvature, violation[active])).max(initial=0.0)

    def standard_errors(self):
        return np.sqrt(np.diag(np.linalg.inv(self.information)))


def read_case(datasets, case):
    """The case with its data set, as the references see it."""
    data = {
        name: np.array(values, float)
        for name, values in datasets[case["dataset"]].items()
        if name != "X" and values is not None
    }
    X = np.column_stack(list(datasets[case["dataset"]]["X"].values())).astype(float)
    if "columns" in case:
        names = list(datasets[case["dataset"]]["X"])
        X = X[:, [names.index(column) for column in case["columns"]]]
    coef = np.array(case["coefficients"], float)
    factor = np.array(case.get("penalty_factor", np.ones(len(coef))), float)
    if "intercept" in case:
        X = np.column_stack([X, np.ones(len(X))])
        coef, factor = np.append(coef, case["intercept"]), np.append(factor, 0.0)
    used = {name: data.get(name) if name in case["uses"] else None for name in OPTIONAL}
    offset = np.zeros(len(X)) if used["offset"] is None else used["offset"]
    evaluate = EVALUATE[case["model"]](data, used, case)
    return Case(X, offset, evaluate, coef, case["lam"], case.get("l1_ratio", 1.0), factor)


OPTIONAL = ("weights", "copies", "strata", "censor_groups", "offset", "exposure")


def _fine_gray(data, used, case):
    options = dict(case["options"])
    groups = used["strata"] if "own_curves" in case["uses"] else used["censor_groups"]
    weights = used["weights"] if used["copies"] is None else used["copies"]
    return lambda eta: finegray_direct(
        eta, data["time"], data["status"], used["strata"], weights, groups, **options
    )


def _case_series(data, used, case):
    return lambda eta: multinomial_direct(
        eta, data["y"], data["group"], used["exposure"], used["weights"]
    )


def _clogit(data, used, case):
    method = case["options"]["method"]
    args = data["case"], data["stratum"], used["weights"]
    if method == "exact":
        return lambda eta: clogit_exact(eta, *args)
    return lambda eta: clogit_approx(eta, *args, ties=method)


def _glm(data, used, case):
    return lambda eta: glm_direct(
        eta, data["y"], case["options"]["family"], used["weights"], "intercept" in case
    )


EVALUATE = {
    "fine_gray": _fine_gray,
    "case_series": _case_series,
    "clogit": _clogit,
    "glm": _glm,
}
