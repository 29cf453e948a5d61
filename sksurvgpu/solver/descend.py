"""Descent by a quadratic model (the default algorithm): look, model, step, learn.

An iteration looks at the violations of stationarity, has a model of the columns that matter
(`way`, `models`), steps towards its minimum under the penalty by a line search on the true
objective, and learns from the gradient there (`secants`).
"""

from dataclasses import replace

import numpy as np

from ..backends.contract import every_column
from .line_search import approach, promise, search
from .way import PATIENCE, DescentRecord

MOST_STIFFER = 10  # times that curvature is doubled in search of a way down


def descend(point, goal, way, max_iter):
    """Coroutine: move `point` to the goal; objectives from first to last.

    It ends early where nothing moves: at the accuracy of floating point.
    """
    objectives, progress = [point.objective], DescentRecord(goal.tolerance)
    for iteration in range(max_iter + 1):
        last = iteration == max_iter or progress.stalled >= PATIENCE
        violation = yield from _look(point, goal, way, np.inf if last else goal.tolerance)
        residual = progress.see(violation, point)
        way.report(point, iteration, residual)
        if residual <= goal.tolerance or last:
            break
        model = yield from way.have_model(point, goal, violation, progress)
        before, columns, model.is_here = replace(point), way.watched(violation, progress), False
        share = yield from _step(point, goal, model, columns, progress.least)
        if iteration == 0 and way.regrets(before, point):
            point.coef, model.is_here = before.coef, True
            yield from point.restart(goal.penalty)
        else:
            if share > 0:
                yield from point.take_gradient(columns)
            way.learn(before, point, share)
        progress.end(before.objective - point.objective > goal.rounding(point))
        objectives.append(point.objective)
    return objectives


def _look(point, goal, way, decisive):
    """Coroutine: violations of stationarity.

    Where they decide, being below `decisive`, they are those of all columns at a predictor that
    was computed from the coefficients alone.
    """
    violation = goal.violation(point)
    if point.partial:
        violation -= way.model.outside(violation)
    if violation.max(initial=0.0) <= decisive and (point.partial or point.shortened):
        if point.shortened:
            yield from point.restart(goal.penalty)
        yield from point.take_gradient()
        violation = goal.violation(point)
    return violation


def _target(point, goal, model, least):
    """Coefficients near the minimum of the model."""
    target = point.coef.copy()
    target[model.columns] = model.minimize(point, goal, least)
    target = goal.penalty.settled(target)
    target[model.without_effect(point, goal)] = 0.0  # last: settled, they have parts again
    return target


def _target_below(point, goal, model, least):
    """Coefficients to which a convex objective falls; indefinite matrices are made steeper."""
    value = goal.penalty.value(point.coef)
    for _ in range(MOST_STIFFER):
        target = _target(point, goal, model, least)
        rise = goal.penalty.value(target) - value
        if promise(point, target - point.coef, rise) >= -goal.rounding(point):
            break
        model.stiffen()
    return target


def _step(point, goal, model, columns, least):
    """Coroutine: move towards the minimum of the model; the share of the step that was taken.

    The gradient of `columns`, or (None) of all, is likely to follow.
    """
    likely = every_column(len(point.coef)) if columns is None else columns
    if goal.penalty.family.is_convex:
        target = _target_below(point, goal, model, least)
        return (yield from search(point, goal, target, likely))

    def under_tangent():
        tangent = goal.penalty.tangent(point.coef)
        return _target(point, replace(goal, penalty=tangent), model, least)

    target = _target(point, goal, model, least)
    return (yield from approach(point, goal, target, likely, under_tangent))
