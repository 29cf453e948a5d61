"""Attack: fits in any units against the slow and obvious references.

Run:  python -m tests.attacks.differential --attempts 300 --seed 0

A problem is fitted by the default tolerance, its columns times numbers from 1e-6 to 1e6, and what
the fit says of itself is recomputed in plain units by the oracle of its model: coefficients in
units of their standard errors, the distance from stationarity as a score in standard errors, the
objective, the log-likelihood, the residual, Wald's standard errors, the intercept, predictions and
baseline hazards.
"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from models import best_intercept
from oracles.reference_likelihoods import kkt, penalty
from sklearn.exceptions import ConvergenceWarning

from attacks.campaign import Result, main
from attacks.optimum import IllPosedError, find_optimum, standard_errors
from attacks.problems import PENALTIES, draw_alpha, draw_problem, draw_scale
from sksurvgpu import wald

PROMISE = 1e-3  # standard errors by which a converged fit may be off, in coefficients and scores
EXACT = 1e-9  # relative, of what is computed at the fit's own coefficients
IN_DIFFERENCES = 1e-5  # ... and from second derivatives


def draw(seed):
    """Problem in plain units, and the scale of its columns."""
    rng = np.random.default_rng(seed)
    problem = draw_problem(rng)
    scale = draw_scale(rng, problem.sample.X, exact=False)
    power = PENALTIES[problem.penalty][1]
    if power and rng.random() < 0.5:
        problem = problem.with_(factor=np.where(problem.factor > 0, scale**-power, 0.0))
        problem = problem.with_(alpha=draw_alpha(problem, rng))
    return problem, scale


def check_numbers(result, problem, model, coef):
    """What the fit says of itself, at its own coefficients."""
    evaluation = problem.at(coef)
    paid = penalty(coef, *problem.terms)
    for name, actual, expected in (
        ("log_likelihood_", model.log_likelihood_, evaluation.loglik),
        ("objective_", model.objective_ * problem.total, paid - evaluation.loglik),
    ):
        allowed = EXACT * max(1.0, abs(expected), abs(evaluation.loglik))
        result.require(abs(actual - expected) <= allowed, f"{name} {actual!r}, not {expected!r}")


def check_residual(result, problem, scaled, scale, model, coef, unit):
    """The scores in standard errors, and `kkt_` where it has no factor in it."""
    u = problem.at(coef).u
    violation = kkt(problem.sample.X, u, coef, *problem.terms)
    if model.converged_:
        worst = (violation / unit).max()
        result.require(worst <= PROMISE, f"a score is off by {worst:.2g} standard errors")
    if problem.alpha > 0 and (scaled.factor == 1).all():
        expected = (violation * scale).max()
        rounding = (np.abs(scaled.sample.X).T @ np.abs(u)).max()
        off = abs(model.kkt_ * problem.total - expected)
        result.require(off <= EXACT * rounding, f"kkt_ {model.kkt_!r}, off by {off:.2g} in the sum")


def check_wald(result, problem, scaled, scale, model, coef):
    """Standard errors, where the fit has no penalty and the outcome no dispersion."""
    if problem.alpha > 0 or problem.name.startswith("gaussian"):
        return
    errors = wald(model, scaled.table, scaled.y, **scaled.arguments).standard_errors
    expected = standard_errors(problem, problem.information(problem.at(coef)))
    off = np.abs(errors * scale / expected - 1.0).max()
    result.require(off <= IN_DIFFERENCES, f"a standard error of wald is off by {off:.2g} of itself")


def check_intercept(result, problem, model, coef):
    if not getattr(model, "fit_intercept", False):
        return
    y, sample = problem.sample.y["value"], problem.sample
    expected = best_intercept(problem.model.name, sample.eta(coef), y, sample.weights)
    off = abs(model.intercept_ - expected)
    allowed = IN_DIFFERENCES * max(1.0, abs(expected))
    result.require(off <= allowed, f"intercept_ {model.intercept_!r}, not {expected!r}")


def check_predictions(result, problem, scaled, model, coef):
    eta = problem.sample.X @ coef + getattr(model, "intercept_", 0.0)
    predict = getattr(model, "decision_function", model.predict)
    expected = np.exp(eta) if problem.model.name == "poisson" else eta
    found = predict(scaled.table)
    close = np.allclose(found, expected, rtol=1e-8, atol=1e-8 * max(1.0, np.abs(eta).max()))
    result.require(close, "predictions are not those of the coefficients")


def check_baseline(result, problem, scaled, model, coef):
    """Cumulative hazards of the first rows."""
    if not hasattr(model, "predict_cumulative_hazard_function"):
        return
    sample, few = problem.sample, slice(0, 3)
    strata = sample.y["strata"]
    labels = {} if strata is None else {"strata": strata[few]}
    curves = model.predict_cumulative_hazard_function(
        scaled.table[few], return_array=True, **labels
    )
    code = np.zeros(sample.n, int) if strata is None else np.unique(strata, return_inverse=True)[1]
    evaluation = problem.at(coef)
    for row in range(3):
        eta, here = sample.X[row] @ coef, code[row]
        jumps = [(t, np.exp(log_jump + eta)) for g, t, log_jump in evaluation.jumps if g == here]
        expected = [sum(jump for t, jump in jumps if t <= q) for q in model.unique_times_]
        known = np.isfinite(curves[row])
        close = np.allclose(curves[row][known], np.array(expected)[known], rtol=1e-7, atol=1e-12)
        result.require(close and known.any(), f"the cumulative hazard of row {row} is another one")


def attempt(seed):
    """One fit, and all that it says."""
    problem, scale = draw(seed)
    scaled, scale = problem.in_units(scale)
    text = f"{scaled}; scale={np.array2string(scale, precision=3)}"
    labels = [f"algorithm: {problem.algorithm}", problem.name]
    labels += [f"penalty: {problem.penalty}", f"storage: {problem.storage}"]
    result = Result(labels, text)
    try:
        optimum = find_optimum(problem)
    except IllPosedError as error:
        result.skipped = str(error)
        return result
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = scaled.estimator().fit(scaled.table, scaled.y, **scaled.arguments)
    coef = model.coef_ * scale
    if model.converged_:
        off = (np.abs(coef - optimum.coef) / optimum.standard_error).max()
        result.require(off <= PROMISE, f"a coefficient is off by {off:.2g} standard errors")
    else:
        result.unconverged.append("fit")
    check_residual(result, problem, scaled, scale, model, coef, optimum.unit)
    check_numbers(result, problem, model, coef)
    check_wald(result, problem, scaled, scale, model, coef)
    check_intercept(result, problem, model, coef)
    check_predictions(result, problem, scaled, model, coef)
    check_baseline(result, problem, scaled, model, coef)
    return result


if __name__ == "__main__":
    main(attempt, __doc__.splitlines()[0])
