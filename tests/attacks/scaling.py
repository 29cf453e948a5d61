"""Attack: the same problem in other units.

Run:  python -m tests.attacks.scaling --attempts 300 --seed 0

A problem is fitted in plain units and with its columns times numbers from 1e-6 to 1e6, by the
default tolerance: once, from another fit's coefficients, along a path, cross-validated,
bootstrapped or profiled.  Both must come to what a tight fit in plain units comes to, within a
thousandth of a standard error.  Where all numbers are powers of two, rounding is the same in all
units, and so must be the result.

Penalty factors belong to one of the two tables: either the plain one has factors of about one, or
the scaled one has, as when columns in large and in small units are penalized alike.
"""

import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from attacks.campaign import Result, main
from attacks.optimum import IllPosedError, find_optimum
from attacks.problems import FACES, PENALTIES, draw_alpha, draw_problem, draw_scale
from sksurvgpu import bootstrap, fit_path, profile_likelihood

TIGHT = 1e-11
PROMISE = 1e-3  # standard errors by which a converged coefficient may be off
ROUNDING = 1e-9  # ... in units that are powers of two


@dataclass
class Found:
    """What an operation comes to: coefficients, a column a fit, and which of the fits converged."""

    coefs: np.ndarray
    converged: np.ndarray
    numbers: dict = field(default_factory=dict)  # name -> numbers that units have no part in
    chosen: int = 0  # position of a penalty


def fit_once(problem, seed, **params):
    model = problem.estimator(**params).fit(problem.table, problem.y, **problem.arguments)
    return Found(model.coef_[:, None], np.array([model.converged_]))


def fit_warm(problem, seed, **params):
    """From the coefficients at a penalty twenty times larger."""
    model = problem.estimator(warm_start=True, **params | {"alpha": 20 * problem.alpha})
    model.fit(problem.table, problem.y, **problem.arguments)
    model.set_params(alpha=problem.alpha).fit(problem.table, problem.y, **problem.arguments)
    return Found(model.coef_[:, None], np.array([model.converged_]))


def _alphas(problem):
    return problem.alpha * np.geomspace(20.0, 1.0, 6)


def fit_along_path(problem, seed, **params):
    path = fit_path(
        problem.estimator(**params),
        problem.table,
        problem.y,
        alphas=_alphas(problem),
        **problem.arguments,
    )
    return Found(path.coefs, path.converged)


def cross_validate(problem, seed, **params):
    """Folds hold whole groups, and are the same in all units."""
    group = problem.sample.y.get("group")
    labels = np.arange(problem.sample.n) if group is None else group
    units = np.unique(labels)
    splits = [
        (
            np.flatnonzero(np.isin(labels, units[train])),
            np.flatnonzero(np.isin(labels, units[test])),
        )
        for train, test in KFold(3, shuffle=True, random_state=seed).split(units)
    ]
    params = problem.params | {"alphas": _alphas(problem), "cv": splits} | params
    del params["alpha"]
    model = problem.face.cross_validated(**params)
    model.fit(problem.table, problem.y, **problem.arguments)
    scores = {"scores": model.cv_results_["mean_score"].to_numpy()}
    return Found(model.coef_[:, None], np.array([model.converged_]), scores, model.best_index_)


def resample(problem, seed, **params):
    result = bootstrap(
        problem.estimator(**params),
        problem.table,
        problem.y,
        n_replicates=4,
        random_state=seed,
        **problem.arguments,
    )
    return Found(result.coefs, np.isfinite(result.coefs).all(axis=0))


def profile(problem, seed, **params):
    """Bounds of one coefficient, as further coefficients of its column."""
    column = seed % problem.sample.X.shape[1]
    result = profile_likelihood(
        problem.estimator(**params), problem.table, problem.y, column, **problem.arguments
    )
    bounds = result.intervals.iloc[0][["coef", "lower", "upper"]].to_numpy(float)
    coefs = np.zeros((problem.sample.X.shape[1], 3))
    coefs[column] = bounds
    return Found(coefs, np.ones(3, bool), {"p-value": result.p_values.iloc[0]})


OPERATIONS = {
    "fit": fit_once,
    "warm start": fit_warm,
    "path": fit_along_path,
    "cross-validation": cross_validate,
    "bootstrap": resample,
    "profile": profile,
}
LARGER = ("cross-validation", "bootstrap")  # whose subsets of rows must still hold an optimum


def run(operation, problem, seed, **params):
    """What an operation comes to; no fit of it counts as converged after a warning that says so."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = OPERATIONS[operation](problem, seed, **params)
    doubtful = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    if doubtful and operation not in ("fit", "warm start", "path"):  # which say it of each fit
        found.converged[:] = False
    return found


def compare(result, which, found, expected, scale, unit, allowed):
    """Require that coefficients in plain units, and choices, agree where both converged."""
    if not found.converged.all():
        result.unconverged.append(which)
    both = found.converged & expected.converged & np.isfinite(expected.coefs).all(axis=0)
    if not both.any() or not compare_choices(result, which, found, expected, allowed):
        return
    error = np.abs(found.coefs * scale[:, None] - expected.coefs)[:, both] / unit[:, None]
    result.require(
        error.max() <= allowed,
        f"{which}: a coefficient is off by {error.max():.2g} standard errors",
    )


def compare_choices(result, which, found, expected, allowed):
    """Require that other numbers agree; whether coefficients are of the same fit then."""
    for name, values in expected.numbers.items():
        close = np.allclose(found.numbers[name], values, rtol=10 * allowed, atol=10 * allowed)
        result.require(close, f"{which}: {name} {found.numbers[name]}, expected {values}")
    if found.chosen == expected.chosen:
        return True
    scores = expected.numbers["scores"]  # which may tie
    lost = scores[expected.chosen] - scores[found.chosen]
    result.require(
        lost <= 10 * allowed * np.abs(scores).max(),
        f"{which}: penalty {found.chosen} of the path is chosen, expected {expected.chosen}",
    )
    return False


def draw(seed):
    """Operation, problem in plain units, scale of its columns, and whether that is exact."""
    rng = np.random.default_rng(seed)
    operation = str(rng.choice(list(OPERATIONS)))
    names, penalties = list(FACES), list(PENALTIES)
    if operation == "cross-validation":
        names = [name for name in names if FACES[name].cross_validated]
        penalties.remove("none")
    problem = draw_problem(rng, names, penalties, copies=3 if operation in LARGER else 1)
    exact = bool(rng.random() < 0.3)
    scale = draw_scale(rng, problem.sample.X, exact)
    power = PENALTIES[problem.penalty][1]
    if power and rng.random() < 0.5:
        problem = problem.with_(factor=np.where(problem.factor > 0, scale**-power, 0.0))
        problem = problem.with_(alpha=draw_alpha(problem, rng))
    return operation, problem, scale, exact


def attempt(seed):
    """One problem in two units, and a tight fit."""
    operation, problem, scale, exact = draw(seed)
    scaled, scale = problem.in_units(scale)
    labels = [f"operation: {operation}", f"algorithm: {problem.algorithm}", problem.name]
    labels += [f"penalty: {problem.penalty}", "powers of two" if exact else "any numbers"]
    text = f"{operation}; {problem}; scale={np.array2string(scale, precision=3)}"
    result = Result(labels, text)
    try:
        unit = find_optimum(problem).standard_error
        expected = run(operation, problem, seed, tol=TIGHT, max_iter=100_000)
    except IllPosedError as error:
        result.skipped = str(error)
        return result
    except ValueError as error:
        result.skipped = f"the fit refuses: {str(error)[:60]}"
        return result
    if not expected.converged.any():
        result.skipped = "the tight fit did not converge"
        return result
    plain = run(operation, problem, seed)
    other = run(operation, scaled, seed)
    ones = np.ones_like(scale)
    compare(result, "plain", plain, expected, ones, unit, PROMISE)
    compare(result, "scaled", other, expected, scale, unit, PROMISE)
    if exact:
        compare(result, "scaled against plain", other, plain, scale, unit, ROUNDING)
    return result


if __name__ == "__main__":
    main(attempt, __doc__.splitlines()[0])
