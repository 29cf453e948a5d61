"""How many rows have each combination of columns, from all sums of honest fits: who is alone?

A coordinator knows the coefficients of every point, hence exp(x'b) of all 2^q combinations of q
columns of ones.  Each sum by time is one linear equation in how many rows of a combination end
there, which are whole numbers; those of a model without time are equations in all rows together.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from sksurvgpu import CoxLassoCCD, FineGrayCCD, LogisticCCD, competing_risks, surv
from sksurvgpu.backends.sums.messages import NODES, Evaluate, Slopes, nodes

from .listening import listen, split
from .whole_numbers import determined, solve_whole

__all__ = ["MODELS", "Solved", "rows_of", "solve", "solve_few"]

GRID = np.arange(10.0, 1220.0, 10.0)
DIGITS = 1e12  # of a sum over some 100 rows, whose rounding is of 1e-13
FEW = 10


class Solved(NamedTuple):
    """Combinations of columns, by time where there is one, and the rows of each."""

    rank: int  # of the equations
    unknowns: int
    by_rank: int  # numbers of rows that follow from linear algebra alone
    few_by_rank: int  # rows in those of fewer than FEW
    solved: int  # times at which whole numbers follow
    times: int
    wrongly: int
    few: int  # rows that are fewer than FEW of their combination and time, and known by that
    rows: int


def rows_of(n_rows, q, seed=0, n_real=None):
    """Columns of ones, and time and event of rows, on which the first columns have an effect."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n_rows, q)) < rng.uniform(0.2, 0.5, q)).astype(float)
    effect = np.where(np.arange(q) < (n_real or q), rng.normal(0.0, 0.4, q), 0.0)
    time = rng.exponential(400.0 * np.exp(-X @ effect))
    censored = rng.uniform(50.0, 1800.0, n_rows)
    return X, np.minimum(time, censored) + 0.01, time <= censored


def solve(model, q, rules, n_rows=700, n_sites=3, n_fits=1, beside=None, **options) -> Solved:
    """What the sums of a fit, or of several with other penalties, say of rows by combination.

    `beside` is a function from rows and a generator to more columns of X; only those points count
    at which all of these have a coefficient of zero.  `penalty` are parameters of the estimator.
    """
    X, time, event = rows_of(n_rows * n_sites, q)
    fit, outcome, stratum = MODELS[model](X, time, event)
    fit.set_params(**options.pop("penalty", {}))
    grid = {"grid": GRID} if hasattr(outcome, "dtype") and outcome.dtype.names else {}
    rng = np.random.default_rng(0)
    of_sites = X if beside is None else np.hstack([X, beside(len(X), rng)])
    sites = split(of_sites, outcome, rules, n_sites)
    told = listen(fit, sites, **grid, **options)
    for _ in range(1, n_fits):
        penalty = {"alpha": rng.uniform(0.001, 0.02), "penalty_factor": rng.uniform(0.0, 3.0, q)}
        told.of += listen(clone(fit).set_params(**penalty), sites, **grid, **options).of
    if told.problem is None:
        return Solved(0, 0, 0, 0, 0, 0, 0, 0, len(X))
    if not grid:
        return _solve_without_time(told, X, event)
    return _solve_by_time(told, of_sites, np.arange(q), time, stratum)


def solve_few(rules, n_rows=700, alpha=0.0005, n_columns=50, most=4, **options) -> Solved:
    """The same of up to so many of many columns, at points at which no others have a coefficient.

    They are the most that are alone at a point, as at the first penalties of a path.
    """
    X, time, event = rows_of(n_rows * 3, n_columns, n_real=10)
    sites = split(X, surv(event, time), rules)
    told = listen(CoxLassoCCD(alpha=alpha), sites, grid=GRID, **options)
    active = [
        tuple(np.flatnonzero(at.coef.vector(n_columns)).tolist()) for at, _ in told.points(Evaluate)
    ]
    first = max((one for one in active if len(one) <= most), key=len, default=())
    if not first:
        return Solved(0, 0, 0, 0, 0, 0, 0, 0, len(X))
    return _solve_by_time(told, X, np.array(first), time, 0)


def _listed(X):
    """All combinations of columns, that of every row, and the part that is expected of each."""
    q = X.shape[1]
    kinds = np.array(list(product((0.0, 1.0), repeat=q)))
    kind = (X @ 2.0 ** np.arange(q)[::-1]).astype(int)
    return kinds, kind, np.prod(np.where(kinds > 0, X.mean(0), 1.0 - X.mean(0)), axis=1)


def _solve_by_time(told, X, columns, time, stratum):
    kinds, kind, of_kind = _listed(X[:, columns])
    equations, sums = _by_time(told, kinds, columns, X.shape[1])
    if not len(equations):
        return Solved(0, len(kinds), 0, 0, 0, 0, 0, 0, len(X))
    plan, cell = told.problem.plan, np.zeros(len(X), int)
    for s, (first, last) in enumerate(zip(plan.cell_ptr[:-1], plan.cell_ptr[1:], strict=True)):
        times = plan.cell_time[first + 1 : last]
        place = np.minimum(np.searchsorted(times, time), len(times) - 1)
        cell = np.where(stratum == s, first + 1 + place, cell)
    true = np.zeros((len(kinds), sums.shape[1]))
    np.add.at(true, (kind, cell), 1.0)
    is_there = true.any(axis=0)
    expected = of_kind[:, None] * sums[0, is_there]
    return _judge(told, equations, sums[:, is_there], true[:, is_there], expected)


def _by_time(told, kinds, columns, width):
    """Equations at the points of a fit: exp of predictors, and sums of these by time."""
    equations, sums = [], []
    for at, answer in told.points(Evaluate):
        coef = at.coef.vector(width)
        if not np.delete(coef, columns).any():
            equations.append(np.exp(kinds @ coef[columns] - at.shift))
            sums.append(answer.tables["risk"])
    return np.array(equations), np.array(sums)


def _solve_without_time(told, X, event):
    """The same of a logistic model: rows by combination in one system.

    Of outcomes there are but their sums, that of all and those by column, in any such number.
    """
    kinds, kind, of_kind = _listed(X)
    n, equations, sums = len(kinds), [], []
    with_one = np.hstack([np.ones((n, 1)), kinds])  # a sum of all, then those by column

    def chances(coef, intercepts):
        return 1.0 / (1.0 + np.exp(-(kinds @ coef.vector(kinds.shape[1])) - intercepts[:, None]))

    for at, answer in told.points(Evaluate):
        p, tables = chances(at.coef, nodes(at.center)), answer.tables
        of_sums = np.zeros((NODES, with_one.shape[1]))
        equations.append(np.hstack([p * (1.0 - p), of_sums]))
        of_sums[:, 0] = 1.0
        equations.append(np.hstack([-p, of_sums]))
        sums += [tables["curvature"], tables["score"]]
    for at, answer in told.points(Slopes):
        p = chances(at.coef, np.array([at.intercept]))
        of_sums = np.eye(with_one.shape[1])[1:]
        equations.append(np.hstack([-kinds.T * p, of_sums]))
        sums.append(answer.tables["gradient"])
    of_outcomes = np.append(event.sum(), X.T @ event)
    true = np.append(np.bincount(kind, minlength=n), of_outcomes)
    expected = np.append(of_kind * len(X), np.append(1.0, X.mean(0)) * event.sum())
    equations, sums = np.vstack(equations), np.concatenate(sums)
    return _judge(told, equations, sums[:, None], true[:, None].astype(float), expected[:, None], n)


def _judge(told, equations, sums, true, expected, n_kinds=None):
    """Solve, and compare with what is true; combinations that no point tells apart are one."""
    apart, which = np.unique(equations, axis=1, return_inverse=True)
    joined = np.zeros((2, apart.shape[1], true.shape[1]))
    np.add.at(joined[0], which.ravel(), true)
    np.add.at(joined[1], which.ravel(), expected)
    true, expected = joined
    misfit = abs(apart @ true - sums).max()
    is_sum = misfit < 1e-9 * max(1.0, abs(sums).max())
    assert is_sum or told.blur, f"these are no sums of a fit: {misfit:.1e}"
    digits = min(
        DIGITS, 0.1 / max(misfit, 1e-16)
    )  # who knows the rounding of floats, or the blur, knows its size
    rank, is_known = determined(apart, digits)
    found, fits = solve_whole(apart, sums, expected, digits)
    is_right = fits & (found == true).all(axis=0)
    is_kind = np.zeros(len(true), bool)
    is_kind[which.ravel()[:n_kinds]] = True
    few = np.where((true < FEW) & is_kind[:, None], true, 0.0)
    return Solved(
        rank, len(true), int((is_known & is_kind).sum()), int(few[is_known].sum()),
        int(is_right.sum()), true.shape[1], int((fits & ~is_right).sum()),
        int(few[:, is_right].sum()), int(true[is_kind].sum()),
    )  # fmt: skip


def _cox(X, time, event):
    return CoxLassoCCD(alpha=0.0005), surv(event, time), 0


def _strata(X, time, event):
    stratum = (np.arange(len(X)) % 2).astype(int)
    return CoxLassoCCD(alpha=0.0005), surv(event, time, stratum=stratum), stratum


def _fine_gray(X, time, event):
    cause = event * (1 + (np.arange(len(X)) % 3 == 0))
    return FineGrayCCD(alpha=0.0005), competing_risks(cause, time), 0


def _logistic(X, time, event):
    return LogisticCCD(alpha=0.0005), event.astype(int), 0


MODELS = {"Cox": _cox, "strata": _strata, "Fine-Gray": _fine_gray, "logistic": _logistic}
