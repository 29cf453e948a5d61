"""One fit whose rows are in partitions: the operations that the solver asks for.

Operations that need partitions are generators: they yield the steps of one exchange, which have
been answered when they are resumed.  A point is its coefficients and what was joined there, so that
it can be returned to, and asked for more, at any time: whatever is known of a point costs nothing.
"""

from dataclasses import dataclass

import numpy as np

from ..contract import Room
from .exchange import Link, Step
from .joined import JoinedEvaluation, SlopeSums, information_of
from .matrix import (
    BASES,
    LEVELS,
    ColumnCurvatures,
    choose_sample,
    find_curvatures,
    find_matrix,
    find_sample,
)
from .messages import Coef, Evaluate, Slopes
from .recipes import for_part


@dataclass
class EvaluatedPoint:
    """An evaluation, and what has been asked for there since."""

    coef: np.ndarray
    evaluation: JoinedEvaluation
    reach: float
    gradient: np.ndarray | None = None
    size: np.ndarray | None = None
    curvatures: ColumnCurvatures | None = None

    @property
    def loglik(self):
        return self.evaluation.loglik


class Session:
    """Operations of one fit.

    `is_first` says that its null model is not known, `options` are those of the coordinator, and
    `known` coefficients that partitions add to the fit's own (None: nothing).
    """

    def __init__(self, link: Link, weight, options, is_first=True, known=None):
        self.link, self._weight, self._options, self._known = link, weight, options, known
        self.weighed = link.weighed_of(weight)
        # the first gradient of a fit is followed by the null model's measures
        self._riders = ("size", "curvature") if is_first else ()
        self.point: EvaluatedPoint | None = None  # the last evaluation
        self._accepted: EvaluatedPoint | None = None
        self._trial: EvaluatedPoint | None = None  # ... or what was accepted before
        self._aim, self._share = np.empty(0), 1.0  # of the trial
        self._model: EvaluatedPoint | None = None  # where the matrix was taken

    @property
    def coef(self):
        """Coefficients of the predictor."""
        return None if self._accepted is None else self._whole(self._accepted.coef)

    def _whole(self, coef):
        return coef if self._known is None else coef + self._known

    def sparse(self, coef):
        """Coefficients of the fit as partitions are told them."""
        return Coef.of(self._whole(coef))

    def start(self, coef):
        self._accepted = yield from self._evaluate(coef)
        self.point = self._accepted
        return self.point.loglik

    def attempt(self, coef, columns, longest):
        self._aim, self._share = coef.copy(), 1.0
        origin, has_slopes = self._accepted.coef, len(columns) > 0
        self._trial = yield from self._evaluate(coef, origin, has_slopes, longest)
        reach = self._trial.reach
        if reach > longest:
            return reach, np.nan
        self.point = self._trial
        return reach, self._trial.loglik

    def shorten(self, share):
        self._share *= share

    def evaluate_trial(self):
        origin = self._accepted.coef
        coef = self._aim if self._share == 1.0 else origin + self._share * (self._aim - origin)
        self._trial = self.point = yield from self._evaluate(coef, has_slopes=True)
        return self.point.loglik

    def accept(self):
        # the one before stays at hand: a fit may return to it
        self._accepted, self._trial = self._trial, self._accepted
        self.point = self._accepted

    def evaluate(self):
        self.point = self._accepted
        return self.point.loglik

    def _evaluate(self, coef, origin=None, has_slopes=False, longest=np.inf):
        """Point of coefficients, one that is kept if there is one.

        Where nothing has to be joined, its gradient comes in the same exchange, if asked for. Of a
        move that is too long, of which nothing but its length matters, no intercept is searched.
        """
        for known in (self._accepted, self._trial, self._model):
            if known is not None and origin is None and np.array_equal(known.coef, coef):
                return known
        problem, start = self.link.problem, None
        if self._accepted is not None and problem.has_intercept:
            start = self._accepted.evaluation.baseline()
        totals_of = problem.likelihood.pattern.joined.totals(problem)
        totals = totals_of(problem, self.weighed, self.link.arranged, start)
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
                steps.append(self.step_of_slopes(sums, sparse, lambda part: {}, ("gradient",)))
            yield steps
            found = totals.join()
            if found is None and totals.reach() > longest:
                found = JoinedEvaluation(np.nan, lambda: None, lambda part: {})
        point = EvaluatedPoint(coef.copy(), found, totals.reach())
        if len(steps) > 1:
            point.gradient = sums.sums["gradient"]
        return point

    def gradient(self, columns):
        point = self.point
        if point.gradient is None:
            yield from self.ask_slopes(point, ("gradient", *self._riders))
            self._riders = ()
        return point.gradient[columns]

    def rounding(self):
        if self.point.size is None:
            yield from self.ask_slopes(self.point, ("size",))
        return 4.0 * np.finfo(float).eps * self.point.size

    def baseline(self):
        return self.point.evaluation.baseline()

    def ask_slopes(self, point, want, columns=None, parts=None):
        """Sums over columns at a point, which are kept there; which are returned."""
        sums, coef = SlopeSums(), self.sparse(point.coef)
        yield [self.step_of_slopes(sums, coef, point.evaluation.fields, want, columns, parts)]
        self._keep(point, sums.sums)
        return sums.sums

    def _keep(self, point, found):
        """Keep what was found at a point."""
        point.gradient = found.get("gradient", point.gradient)
        point.size = found.get("size", point.size)
        if "curvature" in found:
            point.curvatures = find_curvatures(found, point.evaluation.inverse)

    def step_of_slopes(self, sums, coef, fields_of, want, columns=None, parts=None):
        """Step that asks partitions for sums over columns at coefficients."""

        def request(part):
            fields = {"tables": {}, **fields_of(part)}
            recipe = for_part(self._weight, part)
            return Slopes(recipe, coef, want=want, columns=columns, **fields)

        read = None if "curvature" in want else columns
        return Step(request, sums.add, parts, read, readings=len(want))

    def information(self, robust):
        """Information of all coefficients at the last evaluation, its diagonal, and the meat."""
        return (yield from information_of(self, robust))

    def largest_loglik(self):
        return self.weighed.largest_loglik

    def error_weight(self):
        return self.weighed.error_weight

    def curvature(self, columns):
        if self.point.curvatures is None:
            yield from self.ask_slopes(self.point, ("curvature",))
        found = self.point.curvatures
        return np.column_stack([found.centred[columns], found.plain[columns]]), found.total

    def matrix(self, columns, known):
        if known == 0:
            self._model = self.point
        sums = yield from self._ask_matrix(self._model, columns)
        matrix = find_matrix(sums, self._model.evaluation.inverse)
        np.fill_diagonal(matrix, self._model.curvatures.centred[columns])
        return matrix[known:]

    def sample(self, columns, n_rows):
        parts = self._options.sample
        if parts is None:
            parts = choose_sample(self.link.rows, n_rows)
        here = self.point
        sums = yield from self._ask_matrix(here, columns, parts)
        return find_sample(sums, here.evaluation.inverse, here.curvatures.plain[columns])

    def _ask_matrix(self, point, columns, parts=None):
        """Sums of a matrix, and curvatures, which every model has: both in one exchange."""
        if point.curvatures is None and parts is None:
            sums = yield from self.ask_slopes(point, ("curvature", "gram"), columns)
            return {**sums, "loads": sums["loads"][columns]} if "loads" in sums else sums
        sums, totals, coef = SlopeSums(), SlopeSums(), self.sparse(point.coef)
        fields_of = point.evaluation.fields
        steps = [self.step_of_slopes(sums, coef, fields_of, ("gram",), columns, parts)]
        if point.curvatures is None:
            steps.append(self.step_of_slopes(totals, coef, fields_of, ("curvature",)))
        yield steps
        self._keep(point, totals.sums)
        return sums.sums

    def room(self):
        options = self._options
        first = LEVELS.index(options.level)
        best = max(first, LEVELS.index(options.highest))
        return Room(
            options.room,
            whole_gradients=True,
            bases=tuple(BASES.values())[first : best + 1],
            counts=False,
        )

    def cycle(self, columns, coef, penalty, reach):
        raise ValueError(
            "algorithm='exact' moves one coefficient at a time, and where the rows are in "
            "partitions each would take an exchange with all of them; use algorithm='majorized', "
            "which has the same optimum."
        )
