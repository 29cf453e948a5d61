"""This package's estimators and their arguments, by the model of a problem."""

from __future__ import annotations

import sksurvgpu

ESTIMATORS = {
    "cox": "CoxLassoCCD",
    "fine-gray": "FineGrayCCD",
    "case-series": "CaseSeriesCCD",
    "matched": "ConditionalLogisticCCD",
    "logistic": "LogisticCCD",
    "poisson": "PoissonCCD",
    "linear": "LinearCCD",
}
WITH_INTERCEPT = ("logistic", "poisson", "linear")


def estimator(problem, penalty, **parameters):
    """The model of a problem, for a penalty on the sum scale."""
    if problem.model == "matched":
        parameters["ties"] = problem.ties
    if problem.model in WITH_INTERCEPT:
        parameters["fit_intercept"] = problem.intercept
    alpha = penalty / problem.shape[0]
    kind = getattr(sksurvgpu, ESTIMATORS[problem.model])
    return kind(alpha=alpha, backend="cpu", **parameters)


def outcome(problem):
    """The outcome as ``fit`` takes it, and further arguments of ``fit``."""
    if problem.model == "cox":
        y = sksurvgpu.surv(problem["event"] > 0, problem["time"])
        return y, {"strata": problem["stratum"]}
    if problem.model == "fine-gray":
        return sksurvgpu.competing_risks(problem["event"], problem["time"]), {}
    if problem.model == "case-series":
        return sksurvgpu.case_series(problem["y"], problem["exposure"], problem["group"]), {}
    if problem.model == "matched":
        return sksurvgpu.matched(problem["y"] > 0, problem["group"]), {}
    if problem.model == "logistic":
        return problem["y"].astype(int), {}
    if problem.model == "poisson" and problem["exposure"] is not None:
        return problem["y"], {"exposure": problem["exposure"]}
    return problem["y"], {}
