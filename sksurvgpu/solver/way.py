"""By which way a fit goes on: its quadratic model, and which base that has, over which columns.

`costs` says what bases cost.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from ..backends.contract import Operations, ask, every_column
from . import costs
from .models import (
    AGING,
    ROWS_A_COLUMN,
    STALE_IF_DEAR,
    Diagonal,
    FactoredMatrix,
    LentModel,
    OwnMatrix,
    SampledMatrix,
)
from .secants import Secants

NEAR = 0.95  # columns whose slope exceeds this share of what moves them are worked on
NEAR_LATER = 0.5  # ... join the model where smaller penalties follow, or where it is lent
NEAR_CHEAP = 0.8  # ... join it where it is a diagonal
# Once the residual has fallen to this share, the columns of a matrix are those of the optimum.
SETTLED = 0.2
MOST_GROWN = 1.25  # columns of a matrix, times those that it has, without asking what it costs
FEW_TERMS = 0.8  # products of a pass by terms, for one of a pass by a matrix
FEW_OF_ROWS = 8  # rows for a column: where columns are so few, those that are coupled take long
LARGEST_SAMPLE = 0.25  # of the rows; a matrix of fewer columns costs less than a larger one
# Iterations for which a matrix may be taken in any case, where columns are correlated, or not.
LITTLE, NOTHING = 1.0, 0.25
DEAR = 10.0  # cost of a fit by a matrix that is not taken again unless nothing is gained
FEWEST = 100  # columns with which a fit by cheap models begins
LOOK_AGAIN = 0.1  # share of the residual of all columns below which all are looked at again
PATIENCE = 20  # iterations without a gain, some with a fresh model, before a fit ends
# A model is minimized until violations are these shares of the tolerance, or of the residual.
SHARE_OF_TOLERANCE, SHARE_OF_RESIDUAL = 0.2, 0.02

BASES = {"diagonal": Diagonal, "sample": SampledMatrix, "matrix": OwnMatrix}


@dataclass
class DescentRecord:
    """Record of the iterations of a descent so far."""

    tolerance: float
    residuals: list = field(default_factory=list)
    residual_of_all: float = np.inf  # the last one that was of all columns
    stalled: int = 0  # iterations without a gain

    def see(self, violation, point):
        """Take in violations; the largest."""
        residual = float(violation.max(initial=0.0))
        self.residuals.append(residual)
        if not point.partial:
            self.residual_of_all = residual
        return residual

    def end(self, gained):
        """Take in whether the objective has gained."""
        gained = gained or self.residuals[-1] < 0.9 * min(self.residuals[:-1], default=np.inf)
        self.stalled = 0 if gained else self.stalled + 1

    @property
    def stalls(self):
        return self.stalled == PATIENCE // 2

    @property
    def least(self):
        """Violations until which a model is minimized."""
        return max(SHARE_OF_TOLERANCE * self.tolerance, SHARE_OF_RESIDUAL * self.residuals[-1])

    @property
    def done(self):
        return len(self.residuals) - 1

    @property
    def previous(self):
        return self.residuals[-2] if self.done else np.inf

    @property
    def gains_little(self):
        return self.residuals[-1] > 0.5 * self.previous

    @property
    def left(self):
        """Iterations to come, as the last ones went; 0 where nothing is known of them."""
        span = min(3, self.done)
        if span < 2 or not self.tolerance > 0:
            return 0.0
        now, before = self.residuals[-1], self.residuals[-1 - span]
        if not now < before:
            return np.inf
        return span * np.log(now / self.tolerance) / np.log(before / now)


class Way:
    """The quadratic model in use, the secants, and what decides over the next model."""

    def __init__(self, room, options, reach=None):
        self.room, self.options, self.reach = room, options, reach
        self.most_columns = costs.most_columns(room)  # that the model may have as a matrix
        self.model, self.secants = None, Secants(steps_are_dear=room.whole_gradients)
        self.level = 0  # of the bases, where these are not counted
        self.counts, self.counted = None, 0  # the last that were asked for, of so many columns
        # share of its threshold above which a slope is worked on, in a cheap matrix
        self.share = NEAR
        self.chosen = FEWEST  # columns that are enough to go on with
        self.penalties_left = 0  # after the one at hand
        self.line = None  # of progress, where a fit has one by itself

    def report(self, point, iteration, residual):
        """Print the state of an iteration where that is wanted."""
        if self.line is not None:
            self.line.step(int(iteration > 0), f"KKT {residual:.3g}")
        if self.options.verbose > 1:
            by_matrix = self.model is not None and self.model.is_matrix
            print(
                f"  {iteration:5d}  objective {point.objective:.10g}  KKT {residual:.3g}  "
                f"{np.count_nonzero(point.coef):,} nonzero{'  (matrix)' if by_matrix else ''}"
            )

    def near(self, point, penalty, share=NEAR):
        """Columns that are not zero or whose known slope exceeds a share of what moves them."""
        is_near = penalty.is_near(point.coef, point.gradient, share)
        return np.flatnonzero(is_near & self.model.has if point.partial else is_near)

    def watched(self, violation, progress):
        """Columns whose gradient the next iteration needs; None: all.

        By matrix, the others matter only to stop, unless they have just joined.
        """
        if not self.model.is_matrix or self.room.whole_gradients:
            return None
        is_nearly_done = progress.residuals[-1] <= LOOK_AGAIN * progress.residual_of_all
        others_matter = is_nearly_done or self.model.outside(violation).any()
        return None if others_matter else self.model.columns

    def regrets(self, before, point):
        """Whether the first step, of which the log-likelihood is known, was better not made.

        A matrix begins better where there was none.
        """
        if self.model.is_matrix:
            return False
        step = point.coef - before.coef
        curvature = 2.0 * (before.gradient @ step - (point.loglik - before.loglik))
        self.secants.see_coupling(self.model, step, curvature)
        may_return = not (self.room.whole_gradients or self.secants.pairs)
        return may_return and self.most_columns > 0 and self.secants.is_coupled

    def learn(self, before, point, share):
        """Take in a step from one point to another."""
        step, change = point.coef - before.coef, before.gradient - point.gradient
        if before.partial or point.partial:
            change = np.where(self.model.has, change, np.nan)
        self.secants.learn(step, change, share)

    def have_model(self, point, goal, violation, progress):
        """Coroutine: have a model of the columns to work on; returns it."""
        penalty, every = goal.penalty, every_column(len(point.coef))
        if penalty.needs_matrix:
            work, kind = self._all_columns(every), self._kind_of_all(progress)
        else:
            work = yield from self._columns(point, penalty, violation)
            kind = yield from self._kind(work, progress)
            if kind is OwnMatrix and self._has_few_terms(point, work):
                kind = FactoredMatrix
        model = self.model
        stale = progress.stalls or model is None or model.is_stale(violation, progress.previous)
        serves = not stale and self._serves(kind) and not self._would_mix(work, violation)
        if serves and (yield from model.cover(work, violation, self.most_columns, penalty)):
            return model
        known = every if self.room.whole_gradients else work
        self.model = yield from kind.take(len(every), self.secants, work, known, model)
        is_own = issubclass(kind, OwnMatrix)
        if not is_own and isinstance(model, kind):
            self.model.oldest = AGING * model.oldest  # the pairs are worth more than another one
        if is_own and self.room.counts:
            counts = yield from self.count(work)
            self.model.stays_fresh = costs.stays_fresh(counts, len(work))
            if costs.of_matrix(counts, len(work)) > DEAR and not self.penalties_left:
                self.model.stale = STALE_IF_DEAR  # its pairs make up for its age
            if self.model.stays_fresh and (point.shortened or not progress.gains_little):
                self.secants.forget()  # it is the Hessian, unless that has lost its digits
        yield from self.model.loosen(violation)
        return self.model

    def _serves(self, kind):
        """Whether the model has the base of a new one, or one that need not be taken."""
        model = self.model
        is_lent = isinstance(model, LentModel) and not self.room.counts
        is_kept = model.is_matrix and not isinstance(model, OwnMatrix)  # whose growth is dear
        return is_lent or isinstance(model, kind) or (is_kept and kind is Diagonal)

    def _would_mix(self, work, violation):
        """Whether a Hessian would grow by parts that are of another point."""
        return self.model.stays_fresh and violation[self.model.lacks(work)].any()

    def _has_few_terms(self, point, work):
        """Whether a pass costs less by a factor than by the matrix."""
        n_columns, n_moving = len(work), max(1, np.count_nonzero(point.coef[work]))
        return self.room.terms * (n_columns + n_moving) < FEW_TERMS * n_columns * n_moving

    def _kind_of_all(self, progress):
        """The base under a penalty that is minimized on one matrix; not counted, as any other."""
        return OwnMatrix if self.room.counts else self._better(progress)

    def _kind(self, work, progress):
        """Coroutine: the base that a new model would have."""
        room = self.room
        if not 0 < len(work) <= self.most_columns or room.bases[-1] == "diagonal":
            return Diagonal
        if not room.counts:
            return self._better(progress)
        is_own = isinstance(self.model, OwnMatrix)
        if is_own and len(work) <= MOST_GROWN * len(self.model.columns):
            return OwnMatrix
        counts = yield from self.count(work)
        if costs.is_cheap(counts, len(work)):
            return OwnMatrix
        is_sampled = isinstance(self.model, SampledMatrix)
        ahead = costs.iterations_ahead(self.penalties_left, progress.left, progress.done)
        # many pairs may cost more than all else, and not suffice
        if costs.of_change(counts, len(work), len(self.secants.pairs)) < ahead:
            return OwnMatrix
        if is_sampled and progress.residuals[-1] < SETTLED * progress.residuals[0]:
            ahead = max(ahead, costs.ITERATIONS_IF_COUPLED)
        is_coupled = is_own or is_sampled or self.secants.is_coupled
        is_coupled |= costs.are_many(counts, len(work))
        ahead = max(ahead, costs.ITERATIONS_BY_MATRIX + (LITTLE if is_coupled else NOTHING))
        if costs.of_matrix(counts, len(work)) < ahead:
            return OwnMatrix
        if not is_coupled:
            return Diagonal
        if not is_own and self._samples(counts, len(work)):
            return SampledMatrix
        return OwnMatrix if self._pays(counts, len(work)) else Diagonal

    def _pays(self, counts, n_columns):
        """Whether a matrix costs less than iterations by the curvature of coupled columns."""
        are_few = FEW_OF_ROWS * n_columns < counts.rows  # with more, pairs are soon enough
        cost = costs.of_matrix(counts, n_columns, n_pairs=are_few * costs.PAIRS_IF_COUPLED)
        return cost < costs.iterations_if_coupled(counts, n_columns)

    def _samples(self, counts, n_columns):
        """Whether there are samples of rows, one much smaller than all, and it pays."""
        share = ROWS_A_COLUMN * n_columns / counts.rows
        may = share < LARGEST_SAMPLE and "sample" in self.room.bases
        return may and costs.of_sample(counts, n_columns, share) < costs.ITERATIONS_IF_COUPLED

    def _better(self, progress):
        """The base where nothing is counted: the first one, and better ones where it is poor."""
        too_long, too_slow = self.secants.trouble(progress.residuals[-1])
        is_poor = too_long or too_slow or self.secants.is_coupled
        if is_poor and self.level < len(self.room.bases) - 1:
            self.level += 1
            self.secants.coupling, self.model = 1.0, None
        elif too_long and self.model is not None:
            self.model.stiffen()
        return BASES[self.room.bases[self.level]]

    def _columns(self, point, penalty, violation):
        """Coroutine: columns to work on: at first some, where most of the others will not stay."""
        # where no column costs more than others, none should join late
        is_cheap = isinstance(self.model, Diagonal) or self.room.whole_gradients
        work = self.near(point, penalty, NEAR_CHEAP if is_cheap else self.share)
        most = self._first_choice(point)
        if most < len(work) and most <= self.most_columns and self.room.counts:
            counts = yield from self.count(work)
            of_most = counts.scaled(most / len(work))
            # once there is a matrix, it grows with the support
            is_cheap = isinstance(self.model, OwnMatrix) or costs.is_cheap(of_most, most)
            is_large = self.secants.is_coupled or costs.are_many(counts, len(work))
            is_large &= not self._samples(counts, len(work)) and self._pays(of_most, most)
            if is_large or (is_cheap and len(work) > counts.rows):
                return penalty.whole(_worst(point, work, violation, most))
        return work

    def _all_columns(self, columns):
        """All, if a matrix may have them."""
        if len(columns) > self.most_columns:
            raise ValueError(
                f"`penalty` needs the matrix of all {len(columns):,} columns, and the backend has "
                f'room for {self.most_columns:,}: use backend="cpu", on a device CuPy, more memory '
                "or fewer columns."
            )
        return columns

    def _first_choice(self, point):
        """Columns that are enough to go on with, where models are cheap: the support may double.

        A step that was cut short holds all columns of its target, most of which will leave again.
        """
        if not point.shortened:
            self.chosen = max(FEWEST, 2 * np.count_nonzero(point.coef))
        return self.chosen

    def count(self, columns):
        """Coroutine: `Counts` of columns; those of others in proportion, if nearly as many."""
        if self.counts is None or not 0.8 < len(columns) / max(self.counted, 1) < 1.25:
            self.counted = len(columns)
            self.counts = yield from ask(Operations.count, columns)
        return self.counts.scaled(len(columns) / max(self.counted, 1))

    def lend(self, point, penalty, n_borrowers):
        """Coroutine: the model at the optimum as a `Loan`; None where it is not worth it."""
        columns = self.near(point, penalty, NEAR_LATER)
        if penalty.needs_matrix or not len(columns):  # its own matrix, always
            return None
        kind = yield from self._kind_lent(columns, n_borrowers)
        if kind is None and self.model is None:
            kind = Diagonal
        if kind is not None and not isinstance(self.model, kind):
            self.model = yield from kind.take(len(point.coef), self.secants, columns, columns)
        if len(missing := self.model.lacks(columns)):
            yield from self.model.extend(missing)
        return replace(self.model.lent(), level=self.level)

    def _kind_lent(self, columns, n_borrowers):
        """Coroutine: the base that is worth being taken for a loan; None: as it is."""
        if not (self.room.counts and len(columns) <= self.most_columns):
            return None
        counts = yield from self.count(columns)
        cost = costs.of_matrix(counts, len(columns), n_borrowers)
        return OwnMatrix if cost < costs.ITERATIONS_OF_BORROWER else None

    def borrow(self, loan, share, fixed):
        """Take a share of another fit's model, without the columns that are fixed here."""
        self.model = LentModel(len(fixed), self.secants, loan, share, fixed)
        self.level = loan.level


def _worst(point, columns, violation, size):
    """The columns that are not zero, and those of the others that violate most."""
    is_zero = point.coef[columns] == 0.0
    order = np.argsort(-violation[columns[is_zero]], kind="stable")
    chosen = columns[is_zero][order[: size - np.count_nonzero(~is_zero)]]
    return np.sort(np.concatenate([columns[~is_zero], chosen]))
