"""Which penalties to score: a grid that ends early, or a search over the prior variance.

The search is that of the published software: from a first variance by factors of ten until the
best one lies inside, then to the maximum of a quadratic in the logarithm of the variance. Where
that quadratic has no maximum between the neighbours of the best variance, a parabola through these
three has one. Nothing is returned that was not scored.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

BLOCK = 10  # penalties of a grid between two looks at the scores
STEP = np.log(10.0)
SHORTEST_STEP = np.log(1.5)
SMALLEST_GAIN = 0.01  # of the standard error, predicted: less is not worth a step
MOST_STEPS = 50
# Penalties to search in, relative to the least that selects nothing from all rows.
LIMITS = 2.0, 1e-6


@dataclass(frozen=True)
class Scored:
    """Scores of one penalty in all splits."""

    alpha: float
    scores: np.ndarray  # per split; NaN where a split cannot be scored
    mean: float
    error: float  # standard error of the mean over the folds
    n_nonzero: float  # mean over the splits
    gamma: float | None = None  # share of the penalized fits, where these are relaxed
    l1_ratio: Any = None  # of the penalty


def best_of(points):
    """The point with the best mean."""
    return max(points, key=lambda point: -np.inf if np.isnan(point.mean) else point.mean)


def search_grid(evaluate, alphas, *, can_end):
    """Score descending penalties, to the last, or until the score has clearly passed its best."""
    points = []
    for first in range(0, len(alphas), BLOCK if can_end else len(alphas)):
        block = alphas[first : first + BLOCK] if can_end else alphas
        points += evaluate(block)
        best = best_of(points)
        last = best_of([point for point in points if point.alpha == points[-1].alpha])
        if can_end and last.mean < best.mean - best.error:
            break
    return points


def search_variance(evaluate, start, limits):
    """Score prior variances from `start` on, within `limits`; points by descending penalty."""
    points = {}
    low, high = np.log(limits)
    x = float(np.clip(np.log(start), low, high))
    for _ in range(MOST_STEPS):
        points[x] = evaluate(np.exp(x))
        x = _next(points, low, high)
        if x is None:
            break
    return [points[x] for x in sorted(points)]


def _next(points, low, high):
    """Log variance to score next; None where another would not pay."""
    found = np.array(sorted(points))
    score = np.array([points[x].mean for x in found])
    score[np.isnan(score)] = -np.inf
    best, last = int(np.argmax(score)), len(found) - 1
    if not last:
        outwards = STEP if found[0] < 0.0 else -STEP
        return found[0] + (outwards if low <= found[0] + outwards <= high else -outwards)
    if best == 0:
        return max(found[0] - STEP, low) if found[0] > low else _between(*found[:2])
    if best == last:
        return min(found[last] + STEP, high) if found[last] < high else _between(*found[-2:])
    return _peak(found, score, best, [points[x].error for x in found])


def _between(low, high):
    """Middle of two points of which the one at a limit is the better."""
    return 0.5 * (low + high) if high - low > 2.0 * SHORTEST_STEP else None


def _peak(x, score, best, errors):
    """Maximum of a quadratic, if it lies between the neighbours of the best point and may pay."""
    near = slice(best - 1, best + 2)
    if not np.isfinite(score[near]).all():
        return None
    largest = np.nanmax(errors)
    weight = 1.0 / np.fmax(errors, 1e-3 * largest) if largest > 0.0 else np.ones(len(x))
    for part in (np.isfinite(score), near):
        curve = np.polyfit(x[part] - x[best], score[part], 2, w=weight[part])
        if curve[0] < 0.0:
            peak = x[best] - 0.5 * curve[1] / curve[0]
            if x[best - 1] < peak < x[best + 1]:
                break
    else:
        return None  # three equal scores
    gain = np.polyval(curve, peak - x[best]) - score[best]
    if abs(peak - x[best]) < SHORTEST_STEP or gain < SMALLEST_GAIN * errors[best]:
        return None
    return peak


def choose(points, rule):
    """Position of the chosen point: the best one, or the sparsest within one standard error.

    The latter is one with the best one's share of the lasso.
    """
    means = np.array([point.mean for point in points])
    if not np.isfinite(means).any():
        raise ValueError(
            "no split of `cv` can be scored: the rows held out have no events to compare, which "
            "fewer folds mend, or predictions beyond floating point, which rescaled columns do."
        )
    best = int(np.nanargmax(means))
    if rule == "best":
        return best
    alphas = np.array([point.alpha for point in points])
    is_same = np.array([point.l1_ratio is points[best].l1_ratio for point in points])
    is_close = is_same & (means >= means[best] - points[best].error)
    is_close[best] = True  # where there is no error, too
    is_largest = is_close & (alphas == alphas[is_close].max())
    return int(np.nanargmax(np.where(is_largest, means, -np.inf)))
