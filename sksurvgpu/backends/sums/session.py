"""One fit whose rows are in partitions: the operations that the solver asks for.

Operations that need partitions are generators: they yield the steps of one exchange, which have
been answered when they are resumed.  A point is its coefficients and what was joined there, so that
it can be returned to, and asked for more, at any time: whatever is known of a point costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contract import Room
from ..cpu.bins import CONSTANT
from .exchange import Link, Step
from .information import information_of
from .joined import Evaluation, totals_of
from .matrix import LEVELS, Curvatures, centre, choose_sample, find_curvatures, scale_to
from .messages import Coef, Evaluate, Slopes
from .recipes import for_part


@dataclass
class Point:
    """An evaluation, and what has been asked for there since."""

    coef: np.ndarray
    evaluation: Evaluation
    reach: float
    gradient: np.ndarray | None = None
    size: np.ndarray | None = None
    curvatures: Curvatures | None = None

    @property
    def loglik(self):
        return self.evaluation.loglik


class SlopeSums:
    """Adds up `Sums`, and keeps the sums of h of every partition."""

    def __init__(self):
        self.sums, self.of_part = {}, {}

    def add(self, part, answer):
        """Take in the answer of a partition."""
        for name, table in answer.tables.items():
            if name == "total":
                self.of_part[part] = table
            if name in self.sums:
                self.sums[name] += table
            else:
                self.sums[name] = table.copy()


class Session:
    """Operations of one fit.

    `is_first` says that its null model is not known, `options` are those of the coordinator, and
    `known` coefficients that partitions add to the fit's own (None: nothing).
    """

    def __init__(self, link: Link, weight, options, is_first=True, known=None):
        self._link, self._weight, self._options, self._known = link, weight, options, known
        self._weighed = link.weighed_of(weight)
        self._level = LEVELS.index(options.level)
        # the first gradient of a fit is followed by the null model's measures
        self._riders = ("size", "curvature") if is_first else ()
        self._here: Point | None = None  # the last evaluation
        self._accepted: Point | None = None
        self._trial: Point | None = None
        self._aim, self._share = np.empty(0), 1.0  # of the trial
        self._model: Point | None = None  # where the quadratic model was taken
        self._parts: list[int] | None = None  # ... whose rows its matrix is of
        self._ahead: tuple[np.ndarray, dict] | None = None  # sums of a matrix to come
        self.moves = 0  # that were accepted

    @property
    def coef(self):
        """Coefficients of the predictor."""
        return None if self._accepted is None else self._whole(self._accepted.coef)

    def _whole(self, coef):
        return coef if self._known is None else coef + self._known

    def sparse(self, coef):
        """What partitions are told of coefficients of the fit."""
        return Coef.of(self._whole(coef))

    # -- the predictor ----------------------------------------------------------------------------
    def start(self, coef):
        self._accepted = yield from self._evaluate(coef)
        self._here = self._accepted
        return self._here.loglik

    def attempt(self, coef, columns, longest):
        self._aim, self._share = coef.copy(), 1.0
        origin, has_slopes = self._accepted.coef, len(columns) > 0
        self._trial = yield from self._evaluate(coef, origin, has_slopes, longest)
        reach = self._trial.reach
        if reach > longest:
            return reach, np.nan
        self._here = self._trial
        return reach, self._trial.loglik

    def shorten(self, share):
        self._share *= share

    def evaluate_trial(self):
        origin = self._accepted.coef
        coef = self._aim if self._share == 1.0 else origin + self._share * (self._aim - origin)
        self._trial = self._here = yield from self._evaluate(coef, has_slopes=True)
        return self._here.loglik

    def accept(self):
        self._accepted = self._here = self._trial
        self.moves += 1

    def evaluate(self):
        self._here = self._accepted
        return self._here.loglik

    def _evaluate(self, coef, origin=None, has_slopes=False, longest=np.inf):
        """Point of coefficients, one that is kept if there is one.

        Where nothing has to be joined, its gradient comes in the same exchange, if asked for. Of a
        move that is too long, of which nothing but its length matters, no intercept is searched.
        """
        for known in (self._accepted, self._trial, self._model):
            if known is not None and origin is None and np.array_equal(known.coef, coef):
                return known
        problem, start = self._link.problem, None
        if self._accepted is not None and problem.has_intercept:
            start = self._accepted.evaluation.baseline()
        totals = totals_of(problem)(problem, self._weighed, self._link.arranged, start)
        sparse, moved = self.sparse(coef), None if origin is None else self.sparse(origin)
        columns = sparse.columns if moved is None else np.union1d(sparse.columns, moved.columns)
        found = None
        while found is None:

            def request(part):
                recipe = for_part(self._weight, part)
                return Evaluate(recipe, sparse, moved, **totals.fields(part))

            totals.clear()
            steps = [Step(request, totals.add, columns=columns)]
            if has_slopes and totals.is_sum:
                sums = SlopeSums()
                steps.append(self._step_of_slopes(sums, sparse, lambda part: {}, ("gradient",)))
            yield steps
            found = totals.join()
            if found is None and totals.reach() > longest:
                found = Evaluation(np.nan, lambda: None, lambda part: {})
        point = Point(coef.copy(), found, totals.reach())
        if len(steps) > 1:
            point.gradient = sums.sums["gradient"]
        return point

    # -- at the last evaluation -------------------------------------------------------------------
    def gradient(self, columns):
        point = self._here
        if point.gradient is None:
            yield from self._ask_slopes(point, ("gradient", *self._riders))
            self._riders = ()
        return point.gradient[columns]

    def rounding(self):
        if self._here.size is None:
            yield from self._ask_slopes(self._here, ("size",))
        return 4.0 * np.finfo(float).eps * self._here.size

    def baseline(self):
        return self._here.evaluation.baseline()

    def _ask_slopes(self, point, want, columns=None, parts=None):
        """Sums over columns at a point, which are kept there; those of a matrix are returned."""
        sums, coef = SlopeSums(), self.sparse(point.coef)
        yield [self._step_of_slopes(sums, coef, point.evaluation.fields, want, columns, parts)]
        found = sums.sums
        point.gradient = found.get("gradient", point.gradient)
        point.size = found.get("size", point.size)
        if "curvature" in found:
            inverse = point.evaluation.inverse
            point.curvatures = find_curvatures(found, sums.of_part, inverse)
        return found

    def _step_of_slopes(self, sums, coef, fields_of, want, columns=None, parts=None):
        def request(part):
            fields = {"tables": {}, **fields_of(part)}
            recipe = for_part(self._weight, part)
            return Slopes(recipe, coef, want=want, columns=columns, **fields)

        return Step(request, sums.add, parts, columns, readings=len(want))

    @property
    def point(self):
        """The last evaluation."""
        return self._here

    def information(self, robust):
        """Information of all coefficients at the last evaluation, its diagonal, and the meat."""
        given = self._link.problem, self._weighed, self._link.arranged
        return (yield from information_of(self, *given, robust))

    # -- of the outcome and the weights -----------------------------------------------------------
    def largest_loglik(self):
        return self._weighed.largest_loglik

    def error_weight(self):
        return self._weighed.error_weight

    # -- the quadratic model ----------------------------------------------------------------------
    def refer(self):
        self._model, self._parts, self._taken = self._here, None, LEVELS[self._level]
        self._ahead = None

    def load(self, columns):
        if self._model.curvatures is None and self._taken != "diagonal":
            yield from self._take_model(columns)
        curvatures = yield from self._curvatures()
        return np.column_stack([curvatures.centred[columns], curvatures.plain[columns]])

    def _take_model(self, columns):
        """Curvatures and the matrix of columns, which follows where they are taken, at once."""
        point, totals, matrix = self._model, SlopeSums(), SlopeSums()
        self._parts = self._parts_of(self._taken, len(columns))
        given = self.sparse(point.coef), point.evaluation.fields
        yield [
            self._step_of_slopes(totals, *given, ("curvature",)),
            self._step_of_slopes(matrix, *given, ("gram",), columns, self._parts),
        ]
        point.curvatures = find_curvatures(totals.sums, totals.of_part, point.evaluation.inverse)
        self._ahead = columns, matrix.sums

    def measure(self, columns):
        found = yield from self._curvatures()
        centred, plain = found.centred[columns], found.plain[columns]
        return np.where(centred > 0.0, centred, CONSTANT * plain), found.total

    def loosen(self, columns):
        """Nothing: only sweeps read it."""

    def _curvatures(self):
        if self._model.curvatures is None:
            yield from self._ask_slopes(self._model, ("curvature",))
        return self._model.curvatures

    def room(self):
        return Room(self._options.room, holds=False, far=True)

    def refine(self):
        level = self._level
        self._level = min(level + 1, max(level, LEVELS.index(self._options.highest)))
        return self._level > level

    def gram(self, columns, known):
        curvatures = yield from self._curvatures()
        curvature = curvatures.centred[columns]
        if self._taken == "diagonal":
            return np.diag(curvature)[known:]
        ahead, self._ahead = self._ahead, None
        if ahead is not None and np.array_equal(ahead[0], columns):
            found = ahead[1]
        else:
            if known == 0 or self._parts is None:
                self._parts = self._parts_of(self._taken, len(columns))
            found = yield from self._ask_slopes(self._model, ("gram",), columns, self._parts)
        matrix, is_whole = found["gram"], len(self._parts) == self._link.n_parts
        plain, inverse = np.diagonal(matrix).copy(), self._model.evaluation.inverse
        # one without bins stays so; else a sample has the sums of its own rows
        if inverse is None or (inverse.any() and not is_whole):
            inverse = curvatures.inverse_of(self._parts)
        matrix = centre(matrix, found.get("loads"), inverse)
        if is_whole:
            np.fill_diagonal(matrix, curvature)
        else:
            scale_to(matrix, plain, curvature)
        return matrix[known:]

    def _parts_of(self, level, n_columns):
        if level == "full":
            return list(range(self._link.n_parts))
        chosen = self._options.sample
        return choose_sample(self._link.rows, n_columns) if chosen is None else list(chosen)

    def trial_curvature(self):
        """What the model would need to have found at the last trial what the rows say there."""
        origin = self._accepted
        if origin.gradient is None:
            return 0.0
        expected = origin.loglik + origin.gradient @ (self._trial.coef - origin.coef)
        curvature = 2.0 * (expected - self._trial.loglik)
        return float(curvature) if np.isfinite(curvature) and curvature > 0.0 else 0.0

    def cycle(self, columns, coef, penalty, reach):
        raise ValueError(
            "algorithm='exact' moves one coefficient at a time, and where the rows are in "
            "partitions each would take an exchange with all of them; use algorithm='majorized', "
            "which has the same optimum."
        )
