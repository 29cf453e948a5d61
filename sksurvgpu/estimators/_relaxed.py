r"""Relaxed fits: a share of the penalized coefficients, and the rest from a fit without a penalty.

.. math:: \beta(\gamma) = \gamma\,\hat\beta + (1 - \gamma)\,\tilde\beta,

with the penalized fit :math:`\hat\beta` and the fit :math:`\tilde\beta` of the columns that it
selects and of those without a penalty, both with their intercepts (Meinshausen 2007; Hastie,
Tibshirani and Tibshirani 2020).  Only the support matters, whatever penalty has selected it, and
all refits of distinct supports are one batch, each started at its penalized fit.

Where the columns of a support are collinear or separate the events, there is no such fit: the blend
is NaN.
"""

from dataclasses import replace

import numpy as np

from ..backends.contract import Operations, ask
from ..backends.cpu.threads import one_blas_thread
from ..data.by_fit import ColumnsOnDemand, Marks, columns_of, of_fit
from ..data.options import is_number, quoted

MOST_SEARCHED = 100  # columns: more take long to tell apart


def check_share(value, name="relax") -> float:
    """Return a share of the penalized fit, as users give it."""
    if not is_number(value) or not 0 <= value <= 1:
        raise ValueError(
            f"`{name}` has {value!r}, must be the share of the penalized fit, from 0 (the fit "
            "without a penalty of what it selects) to 1, or None."
        )
    return float(value)


def relax(prepared, fits, gamma, weight):
    """Blends of solutions with their refits, for a batch of fits with row weights."""
    if gamma == 1.0:
        return fits
    return blend(prepared, fits, refit(prepared, fits, weight), gamma, weight)


def refit(prepared, fits, weight):
    """Fits without a penalty on the supports of solutions; None where there is none."""
    starts, found = {}, {}  # (fit, support) -> the first solution that has it; its refit
    for b, solutions in enumerate(fits):
        supports = {}
        for solution in solutions:
            support = support_of(prepared, solution)
            supports[support.tobytes()] = support
            starts.setdefault((b, support.tobytes()), (b, solution, support))
        with one_blas_thread():  # matrices are small
            undetermined = _find_undetermined(prepared, supports, weight, b)
        found |= {(b, key): None for key in undetermined}
    found |= {key: start[1] for key, start in starts.items() if not start[2].any()}
    wanted = [key for key in starts if key not in found]
    if wanted:
        solutions = _solve(prepared, [starts[key] for key in wanted], weight)
        found |= dict(zip(wanted, solutions, strict=True))
    return [
        [found[b, support_of(prepared, solution).tobytes()] for solution in solutions]
        for b, solutions in enumerate(fits)
    ]


def support_of(prepared, solution):
    """Columns that a penalized fit selects, and those without a penalty."""
    mean = prepared.given.prior_mean
    rest = 0.0 if mean is None else mean[prepared.problem.source]
    return (solution.coef != rest) | (prepared.batch.factor == 0)


def _find_undetermined(prepared, supports, weight, index) -> set:
    """Keys of the supports that a fit's rows do not determine.

    What holds for a support holds for those within it, what does not, for those around it: of the
    supports of a path, which are nearly nested, few have to be looked at.
    """
    weight = prepared.weight if weight is None else of_fit(weight, index)

    left = sorted(supports.items(), key=lambda item: np.count_nonzero(item[1]))
    if prepared.is_determined(np.any([support for _, support in left], axis=0), weight):
        return set()
    undetermined = set()
    while left:
        middle = left[len(left) // 2][1]
        if prepared.is_determined(middle, weight):
            left = [(key, support) for key, support in left if (support & ~middle).any()]
        else:
            around = {key for key, support in left if not (middle & ~support).any()}
            undetermined |= around
            left = [item for item in left if item[0] not in around]
    return undetermined


def _solve(prepared, jobs, weight):
    free, n_fits = prepared.unpenalized(), len(jobs)
    fits = free.with_options(verbose=max(prepared.options.verbose - 1, 0)).solve(
        np.zeros((1, n_fits)),
        total=np.ones(n_fits),
        weight=columns_of(weight, [b for b, *_ in jobs]),
        coef=np.stack([solution.coef for _, solution, _ in jobs], axis=1),
        fixed=np.stack([~support for *_, support in jobs], axis=1),
        null=_nulls_of(prepared, [solution for _, solution, _ in jobs]),
    )
    return [solution for [solution] in fits]


def _nulls_of(prepared, solutions):
    """Null models of the penalized fits; None where these had columns of their own."""
    nulls = tuple(solution.null for solution in solutions)
    return nulls if len(nulls[0].root) == prepared.problem.n_columns else None


def blend(prepared, fits, refits, gamma, weight):
    """Solutions with a share `gamma` of their own coefficients and the rest of their refits.

    What a solution says of its objective stays that of the penalized fit.
    """
    if gamma == 1.0:
        return fits
    blends = [
        [_blend(s, r, gamma, prepared) for s, r in zip(solutions, others, strict=True)]
        for solutions, others in zip(fits, refits, strict=True)
    ]
    places = [
        (b, i)
        for b, others in enumerate(refits)
        for i, other in enumerate(others)
        if other is not None and other is not fits[b][i]
    ]
    if places:
        pairs = [(b, blends[b][i]) for b, i in places]
        for (b, i), found in zip(places, evaluate(prepared, pairs, weight), strict=True):
            blends[b][i] = replace(blends[b][i], **found)
    return blends


def _blend(solution, other, gamma, prepared):
    if other is None:
        nothing = np.full(len(solution.coef), np.nan)
        return replace(solution, coef=nothing, loglik=np.nan, baseline=None, converged=False)
    if other is solution:
        return solution
    worst = other if solution.converged else solution
    baseline = None
    if prepared.problem.has_intercept:
        baseline = gamma * solution.baseline + (1.0 - gamma) * other.baseline
    return replace(
        solution,
        coef=other.coef + gamma * (solution.coef - other.coef),  # exact where both are the same
        baseline=baseline,
        score=worst.score if not other.converged else solution.score,
        allowed=worst.allowed if not other.converged else solution.allowed,
        converged=solution.converged and other.converged,
        n_iter=solution.n_iter + other.n_iter,
    )


def evaluate(prepared, pairs, weight):
    """Fields that depend on the rows at solutions, which are given as pairs (fit, solution).

    An intercept is that of the solution, and enters as an offset.
    """
    if prepared.in_partitions and prepared.problem.has_intercept:
        return prepared.evaluate_at(pairs, weight)
    shape = prepared.problem.given.n_rows, len(pairs)
    problem, given = prepared.problem, prepared.batch.offset
    changes = {"weight": columns_of(weight, [b for b, _ in pairs])}
    names = ["loglik"]
    if problem.has_intercept:
        problem = problem.without_intercept()

        def offset(k):
            known = np.zeros(shape[0]) if given is None else given[:, 0]
            solution = pairs[k][1]
            return known + solution.baseline + problem.shift_of(solution.coef)[0]

        def marks():
            one, first = np.ones(shape[0]), np.zeros(len(pairs), int)
            added = [s.baseline + problem.shift_of(s.coef)[0] for _, s in pairs]
            return Marks(one, lambda _: np.zeros(shape[0], np.uint8), first, np.c_[added])

        changes["offset"] = ColumnsOnDemand(shape, offset, marks if given is None else None)
    elif prepared.options.baseline:
        names.append("baseline")
    fits = prepared.fits.with_batch(lambdas=np.zeros((0, len(pairs))), **changes)

    def at(coef):
        values = [(yield from ask(Operations.start, coef))]
        if len(names) > 1:
            baseline = yield from ask(Operations.baseline)
            values.append(problem.baseline_of(baseline, coef))
        return dict(zip(names, values, strict=True))

    coroutines = [at(np.ascontiguousarray(solution.coef)) for _, solution in pairs]
    return replace(fits, problem=problem).run(coroutines)


def names_of_undetermined(prepared, solution) -> str:
    """Columns that keep the support of a solution from having a refit, by their names."""
    support = support_of(prepared, solution)
    n_columns = np.count_nonzero(support)
    if n_columns > MOST_SEARCHED:
        return f"some of the {n_columns:,} columns"
    found = np.flatnonzero(prepared.find_undetermined(support, prepared.weight))
    return quoted(prepared.setting.names[found])


def require_refit(model, prepared, solution) -> None:
    """Refuse a relaxed fit whose support has no fit without a penalty."""
    if not np.isnan(solution.coef).any():
        return
    penalized = replace(prepared, gamma=None)
    [solution] = penalized.solve([model.alpha])[0]
    raise ValueError(
        f"relax={prepared.gamma:g} needs a fit without a penalty of the "
        f"{np.count_nonzero(solution.coef):,} selected columns, which has no finite or no single "
        f"optimum: {names_of_undetermined(prepared, solution)} are collinear or separate "
        "the events; take a larger `alpha`, leave columns out, or relax=None."
    )
