"""The quadratic model of the log-likelihood: a base over some columns, and secants.

The model sets the rate of convergence and never the limit: gradient, line search and certificate
are exact, whatever its age.  Bases are

    Diagonal    the curvature of every column
    SampledMatrix   a matrix of some rows
    OwnMatrix   the matrix of all rows, taken for this fit
    LentModel   the model of another fit, a `problem.Loan`
"""

import numpy as np

from ..backends.contract import Operations, ask
from .minimize import Quadratic, minimize_on_model
from .problem import Loan
from .secants import SecantTerms

# A model is retaken where more of the residual is left.
STALE, STALE_IF_FRESH, STALE_IF_DEAR = 0.5, 0.05, 0.9
# A matrix that is off by no more than this share is better than pairs from afar.
ACCURATE = 0.2
OLD, AGING = 2, 4  # iterations until a model may be taken anew; times as many for the next diagonal
ROWS_A_COLUMN = 5  # of a sample; with 10, fits in memory took as long
KEPT = 0.9  # of what columns of a sample have in common: 0.95 and 1 did the same
PAIRS_KEPT = 5  # by a matrix that grows
FAR_OFF = 10.0  # times too large or too small: scaled


class LocalModel:
    """A base and the pairs of its fit; coroutines ask for what they need."""

    is_matrix = False  # whether the base is one
    oldest = OLD
    stale = STALE
    stays_fresh = False  # whether it is taken anew as long as it gains little: `costs`
    is_here = False  # whether curvatures that it knows are those of the last evaluation

    def __init__(self, n_columns, secants, weight=1.0):
        self.columns = np.empty(0, np.int64)
        self.curvature = np.empty(0)  # of the base; 0 where rounding has lost it
        self.loose = np.empty(0, bool)  # columns that go without the second term
        self.matrix = np.empty((0, 0))  # over the first columns, in memory of the host
        self.weight = weight  # of the matrix that is the model's
        self._scale = 1.0  # of what was taken
        self.has = np.zeros(n_columns, bool)
        self._found = np.full((n_columns, 2), np.nan)  # curvatures that are known
        self._secants, self._learnt, self._age = secants, None, 0

    @classmethod
    def take(cls, n_columns, secants, columns, known, before=None):
        """Coroutine: the model at the last evaluation, with some columns.

        Those that are to be `known` may join later without another question.  What the model
        `before` knows of that point is not asked for again.
        """
        model = cls(n_columns, secants)
        if before is not None and before.is_here:
            model._found = before._found
        yield from model.begin(columns, known)
        return model

    def begin(self, columns, known):
        """Coroutine: take the first columns in."""
        yield from self.extend(columns)

    def extend(self, columns):
        """Coroutine: take more columns in."""
        found = yield from self._ask_curvature(columns)
        self._append(columns, self._scale * found[:, 0])

    def _ask_curvature(self, columns):
        """Coroutine: curvatures of columns, of which some may be known from before."""
        unknown = columns[np.isnan(self._found[columns, 0])]
        if len(unknown):
            self._found[unknown], _ = yield from ask(Operations.curvature, unknown)
        return self._found[columns]

    def _append(self, columns, curvature):
        self.columns = np.concatenate([self.columns, columns])
        self.curvature = np.concatenate([self.curvature, curvature])
        self.loose = np.concatenate([self.loose, np.zeros(len(columns), bool)])
        self.has[columns] = True
        if self._learnt is not None:
            self._learnt.extend(len(columns))

    def lacks(self, columns):
        """Which of the columns it does not have."""
        return columns[~self.has[columns]]

    def outside(self, violation):
        """Violations of the columns that it does not have; those of its own are zero."""
        return np.where(self.has, 0.0, violation)

    def is_stale(self, violation, previous):
        """Whether its columns have gained too little; columns new to it do not count."""
        self._age += 1
        oldest, stale = (0, STALE_IF_FRESH) if self.stays_fresh else (self.oldest, self.stale)
        return self._age > oldest and violation[self.columns].max(initial=0.0) > stale * previous

    def cover(self, work, violation, n_fitting, penalty):
        """Coroutine: have the columns to work on; whether that was possible."""
        missing = self.lacks(work)
        if len(self.columns) + len(missing) > n_fitting:
            return False
        if len(missing) and violation[missing].any():
            yield from self.extend(missing)
        yield from self.loosen(violation)
        return True

    def loosen(self, violation):
        """Coroutine: go without the second term for columns whose curvature it has taken away.

        They are constant within bins up to rounding, but not in the likelihood.
        """
        lost = (self.curvature <= 0.0) & (violation[self.columns] > 0.0)
        if lost.any():
            plain = yield from self._ask_curvature(self.columns[lost])
            self.curvature[lost] = plain[:, 1]
            self.loose |= lost
            self._forget_products(lost)

    def _forget_products(self, lost):
        """Let lost columns stand alone."""
        self._learnt = None

    def without_effect(self, point, goal):
        """Penalized columns that the likelihood does not see at this point, as constant ones."""
        if not self.loose.any():
            return self.columns[:0]
        columns, penalty = self.columns[self.loose], goal.penalty
        return columns[(penalty.rests(point.gradient, goal.noise) & penalty.is_penalized)[columns]]

    def minimize(self, point, goal, least):
        """Coefficients of the model's columns where violations of its minimum are `least`."""
        columns, model = self.columns, self.quadratic()
        if goal.penalty.needs_matrix:
            enough = least * goal.unit
            return goal.penalty.minimize_on_matrix(model, point.gradient, point.coef, enough)
        coef, gradient, unit = (part[columns] for part in (point.coef, point.gradient, goal.unit))
        return minimize_on_model(model, goal.penalty, columns, coef, gradient, unit, least)

    def quadratic(self):
        """Quadratic function to be minimized."""
        terms = self._follow()
        of_terms = terms.diagonal
        curvature = np.maximum(self.curvature + of_terms, 0.0)
        alone = curvature - of_terms
        if len(self.matrix):
            alone[: len(self.matrix)] -= self.weight * np.diagonal(self.matrix)
        return Quadratic(self.matrix, self.weight, alone, terms.rows, terms.sign, curvature)

    def _times(self, move):
        """Product of the base with a vector, or with columns."""
        coupled, product = len(self.matrix), (self.curvature * move.T).T
        if coupled:
            move, own = move[:coupled], np.diagonal(self.matrix)
            product[:coupled] += self.weight * (self.matrix @ move - (own * move.T).T)
        return product

    def _follow(self):
        """The terms, with the pairs that are new, or all that are left once it has too many."""
        secants = self._secants
        if self._learnt is None or self._learnt.is_full():
            self._learnt = self._new_terms()
        terms = self._learnt
        if not terms.n_applied:
            self._rescale()
        is_free, pairs = (self.curvature > 0.0) & ~self.loose, secants.new_since(terms.n_applied)
        if pairs:
            steps = is_free * np.stack([pair.step[self.columns] for pair in pairs])
            products = self._times(steps.T).T
            for pair, step, product in zip(pairs, steps, products, strict=True):
                terms.add(pair, self.columns, product + terms.times(step), is_free)
        terms.n_applied = secants.n_seen
        return terms

    def _new_terms(self):
        """Terms without pairs."""
        return SecantTerms(np.empty((len(self.columns), 0)), np.empty(0))

    def _rescale(self):
        """Have the base be of the right size along the last step."""
        for pair in self._secants.pairs[-1:]:
            step, change = pair.step[self.columns], pair.change[self.columns]
            own = step @ self._times(step)
            seen = step @ np.where(np.isnan(change), 0.0, change)
            ratio = seen / own if own > 0.0 else 1.0
            if ratio > 0.0 and not 1.0 / FAR_OFF < ratio < FAR_OFF:
                self.weight *= ratio
                self._scale *= ratio
                self.curvature = self.curvature * ratio

    def stiffen(self):
        """Be steeper along every column: a base may have no curvature along a step."""
        self.curvature = 2.0 * self.curvature
        self._learnt, self._age, self.oldest = None, 0, AGING * self.oldest

    def lent(self):
        """Columns that have curvature, and the model over them, as a loan."""
        model = self.quadratic()
        kept = np.flatnonzero(model.curvature > 0)
        base = model.curvature - np.square(model.terms) @ model.sign
        matrix = self.weight * self.matrix
        inside = kept[kept < len(matrix)]
        matrix = matrix[np.ix_(inside, inside)] if len(inside) < len(matrix) else matrix
        return Loan(self.columns[kept], base[kept], matrix, model.terms[kept], model.sign)


class Diagonal(LocalModel):
    """Curvature alone, of which taking more costs a pass over its columns."""

    @classmethod
    def of(cls, secants, columns, curvature):
        """With curvatures that are known, nan where they are not."""
        model = cls(len(curvature), secants)
        model._found = curvature
        model._append(columns, curvature[columns, 0])
        return model

    def begin(self, columns, known):
        yield from self._ask_curvature(known)
        yield from self.extend(columns)

    def cover(self, work, violation, n_fitting, penalty):
        return super().cover(work, violation, np.inf, penalty)


class SampledMatrix(LocalModel):
    """A matrix of a sample of rows, scaled to the curvature of all; later columns stand alone."""

    is_matrix = True

    def begin(self, columns, known):
        # first the sample: where rows are in partitions, what is asked for next is known with it
        matrix = yield from ask(Operations.sample, columns, ROWS_A_COLUMN * len(columns))
        yield from self._ask_curvature(known)
        yield from self.extend(columns)
        self.matrix = scaled_to(matrix, self.curvature)

    def _forget_products(self, lost):
        stand_alone(self.matrix, lost[: len(self.matrix)], self.curvature)
        self._learnt = None


class OwnMatrix(LocalModel):
    """A matrix, taken for this fit."""

    is_matrix = True

    def extend(self, columns):
        known, every = len(self.columns), np.concatenate([self.columns, columns])
        curvature = yield from self._take(every, known)
        self._append(columns, self._scale * curvature)
        self._learnt = None  # which may be indefinite beside columns of which they know nothing
        if known:
            self._secants.keep(PAIRS_KEPT)
        self._forget_products(self.loose)
        if known == 0 and self._is_accurate():
            self._secants.forget()

    def _take(self, every, known):
        """Coroutine: rows of columns beyond those that are known; their curvature."""
        rows = yield from ask(Operations.matrix, every, known)
        self.matrix = rows if known == 0 else grown(self.matrix, rows)
        return np.diagonal(rows[:, known:])

    def _forget_products(self, lost):
        # entries without a second term beside entries with one would not be of a convex model
        stand_alone(self.matrix, lost, self.curvature)
        self._learnt = None

    def _is_accurate(self):
        """Whether the matrix itself has the last pair, nearly."""
        for pair in self._secants.pairs[-1:]:
            step, change = pair.step[self.columns], pair.change[self.columns]
            known = ~np.isnan(change) & (self.curvature > np.finfo(float).tiny)
            inverse = np.divide(1.0, self.curvature, out=np.zeros(len(known)), where=known)
            change = np.where(known, change, 0.0)
            error = np.where(known, change - self._times(step), 0.0)
            return error**2 @ inverse < ACCURATE**2 * (change**2 @ inverse)
        return False


class FactoredMatrix(OwnMatrix):
    """A matrix of fewer rows of X than columns, as the terms of a factor."""

    def __init__(self, n_columns, secants, weight=1.0):
        super().__init__(n_columns, secants, weight)
        self._factor, self._sign = None, np.empty(0)

    def _take(self, every, known):
        rows, self._sign, curvature = yield from ask(Operations.factor, every, known)
        self._factor = rows if known == 0 else np.vstack([self._factor, rows])
        return curvature

    def _forget_products(self, lost):
        self._factor[lost] = 0.0
        self._learnt = None

    def _diagonal(self):
        return np.square(self._factor) @ self._sign

    def _times(self, move):
        of_terms = self._factor @ (self._sign * (move.T @ self._factor)).T
        alone = self.curvature - self.weight * self._diagonal()
        return (alone * move.T).T + self.weight * of_terms

    def quadratic(self):
        model = super().quadratic()
        return model._replace(
            alone=model.alone - self.weight * self._diagonal(),
            rows=np.hstack([np.sqrt(self.weight) * self._factor, model.terms]),
            sign=np.concatenate([self._sign, model.sign]),
        )

    def lent(self):
        """As a matrix: fits that borrow it have columns more."""
        whole = OwnMatrix(len(self.has), self._secants, self.weight)
        whole._append(self.columns, self.curvature)
        whole.loose, whole._learnt = self.loose, self._follow()
        whole.matrix = (self._factor * self._sign) @ self._factor.T
        return whole.lent()


class LentModel(LocalModel):
    """A share of another fit's model.  Columns that it lacks move as if they were alone.

    These are few, near zero, and the line search watches over them.
    """

    is_matrix = True
    stale = STALE_IF_DEAR  # with pairs, it is better than curvature alone

    def __init__(self, n_columns, secants, loan, weight, fixed):
        super().__init__(n_columns, secants, weight)
        kept = np.flatnonzero(~fixed[loan.columns])
        self._lent = np.sqrt(weight) * loan.rows[kept], loan.sign
        self._take_matrix(loan, kept)
        self._append(loan.columns[kept], weight * loan.curvature[kept])

    def _take_matrix(self, loan, kept):
        """Take the part of the loan's matrix that is kept."""
        self.matrix, inside = loan.matrix, kept[kept < len(loan.matrix)]
        if len(inside) < len(self.matrix):
            self.matrix = self.matrix[np.ix_(inside, inside)]

    def _new_terms(self):
        rows, sign = self._lent
        return SecantTerms(
            np.vstack([rows, np.zeros((len(self.columns) - len(rows), len(sign)))]), sign
        )

    def cover(self, work, violation, n_fitting, penalty):
        missing = self.lacks(work)
        missing = self.lacks(penalty.whole(missing[violation[missing] > 0]))
        if len(self.columns) + len(missing) > n_fitting:
            return False
        if len(missing):
            yield from self.extend(missing)
        return not np.any((self.curvature <= 0) & (violation[self.columns] > 0))


def stand_alone(matrix, lost, curvature):
    """Leave of some rows and columns of a matrix the diagonal, which is the curvature."""
    matrix[lost] = 0.0
    matrix[:, lost] = 0.0
    np.fill_diagonal(matrix, curvature[: len(matrix)])


def scaled_to(matrix, curvature):
    """The matrix of a sample as one of all rows, whose curvature is known.

    ``G_ij = KEPT R_ij sqrt(C_i C_j / (R_ii R_jj)),  G_ii = C_i``
    """
    own = np.diagonal(matrix)
    is_known = (own > 0.0) & (curvature > 0.0)
    scale = np.sqrt(KEPT * np.divide(curvature, own, out=np.zeros(len(own)), where=is_known))
    scaled = matrix * scale
    scaled *= scale[:, None]
    np.fill_diagonal(scaled, curvature)
    return scaled


def grown(matrix, rows):
    """A symmetric matrix with more rows, which begin with those of its columns."""
    known, size = rows.shape[1] - len(rows), rows.shape[1]
    larger = np.empty((size, size))
    larger[:known, :known] = matrix
    larger[known:] = rows
    larger[:known, known:] = rows[:, :known].T
    return larger
