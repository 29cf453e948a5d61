"""Relaxed paths: blends of penalized fits with fits without a penalty of what they select."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._warnings import warn
from ..data.options import first_of
from ..estimators._relaxed import blend, check_share, names_of_undetermined, refit

MOST_ALPHAS = 5  # in a message


@dataclass(frozen=True, eq=False)
class Refits:
    """Fits of a path and their unpenalized refits, between which it is blended."""

    prepared: Any
    path: Any  # of the penalized fits
    solutions: list  # ... with their coefficients
    found: list  # a solution, or None, for each of them


def with_refits(path, prepared, solutions):
    """The path with fits without a penalty of every support; warns of supports that have none."""
    [found] = refit(prepared, [solutions], prepared.batch.weight)
    missing = [i for i, solution in enumerate(found) if solution is None]
    if missing:
        names = names_of_undetermined(prepared, solutions[missing[0]])
        listed = first_of([f"{path.alphas[i]:.3g}" for i in missing], MOST_ALPHAS)
        warn(
            f"at {len(missing):,} of {len(found):,} penalties, alpha {listed}, the selected "
            "columns have no finite or no single fit without a penalty, and blends are NaN: at "
            f"the first, {names} are collinear or separate the events.",
            ConvergenceWarning,
        )
    return replace(path, _refits=Refits(prepared, path, solutions, found))


def blend_path(path, gamma):
    """Path of blends; a blend of a blend is one of the penalized fits again."""
    gamma, refits = check_share(gamma, "gamma"), path._refits
    if refits is None:
        raise ValueError(
            "the path has no fits without a penalty, with which it could be blended: pass "
            "relax=True to fit_path, and blend before the path is pickled."
        )
    prepared, of_penalty = refits.prepared, refits.path
    weight = prepared.batch.weight
    [solutions] = blend(prepared, [refits.solutions], [refits.found], gamma, weight)
    fitted = copy.copy(of_penalty._fitted)
    fitted.relax = gamma
    return replace(
        of_penalty,
        coefs=np.stack([solution.coef for solution in solutions], axis=1),
        log_likelihood=np.array([solution.loglik for solution in solutions]),
        n_iter=np.array([solution.n_iter for solution in solutions]),
        converged=np.array([solution.converged for solution in solutions]),
        gamma=gamma,
        _fitted=fitted,
        _solutions=tuple(replace(s, coef=None, null=None) for s in solutions),
        _refits=refits,
        _steps=path._steps,
    )


def require_blend(path, index) -> None:
    """Refuse a fit of a path that has no coefficients."""
    if np.isnan(path.coefs[:, index]).any():
        raise ValueError(
            f"the columns selected at alpha={path.alphas[index]:.4g} have no fit without a penalty "
            f"to be blended with (gamma={path.gamma:g}); take a larger alpha, or gamma 1."
        )


def check_shares(relax) -> list[float | None]:
    """Shares of penalized fits to choose from, descending; [None] where nothing is relaxed."""
    if relax is None:
        return [None]
    values = [relax] if np.ndim(relax) == 0 else list(relax)
    if not values or np.ndim(relax) > 1:
        raise ValueError(f"`relax` is {relax!r}; pass a share from 0 to 1, or a list of some.")
    return [*sorted({check_share(value) for value in values}, reverse=True)]


def score_shares(score, model, prepared, splits, solutions, gammas):
    """Scores of solutions, (n_alphas * n_gammas, n_splits), relaxed where that is wanted.

    A split whose selected columns have no fit without a penalty counts as the worst.
    """
    if gammas == [None]:
        return score(model, prepared, splits, solutions).T
    refits = refit(prepared, solutions, splits.train) if gammas[-1] < 1.0 else solutions
    is_missing = np.array([[other is None for other in others] for others in refits])
    usable = [
        [solution if other is None else other for solution, other in zip(*pair, strict=True)]
        for pair in zip(solutions, refits, strict=True)
    ]
    scores = []
    for gamma in gammas:
        blends = blend(prepared, solutions, usable, gamma, splits.train)
        found = score(model, prepared, splits, blends)
        scores.append(found if gamma == 1.0 else np.where(is_missing, -np.inf, found))
    return np.stack(scores, axis=2).transpose(1, 2, 0).reshape(-1, len(solutions))
