"""One fit on the CPU: its row arrays, and the operations that the solver asks for.

A row costs eta and its trial 16 bytes, u 8, a quadratic model 24 and its bin 2, and 9 of plan; a
distinct event time 16 for scans, 8 for deaths, 8 for its time.
"""

from functools import cached_property

import numpy as np

from ..contract import Counts, Room
from . import tile_gram
from .columns import columns_of, gradient_of_columns
from .exact import make_cycle
from .model import Model
from .tile_products import Products


class Session:
    """Row state of one fit; `problem` and its columns are shared.

    `formulas` are those of a penalty, `room` the bytes that a matrix may take: for whole fits.
    """

    def __init__(self, problem, weight, offset, threads, formulas=None, room=0.0):
        self.pattern = problem.likelihood.pattern.on_cpu(problem, weight, threads)
        self._problem, self._formulas, self._room = problem, formulas, room
        plan = self.plan = problem.plan
        self.offset = None if offset is None else plan.per_copy(offset[plan.order])
        self.eta, self.trial_eta, self.u = np.zeros((3, plan.n_rows))
        self.n_columns = problem.n_columns
        pieces = tuple(problem.pieces().values())
        self.products = Products(problem.tiles, pieces, threads, problem.X.computed)
        self._here = self._taken = None  # the model at the last evaluation, and a matrix's

    @cached_property
    def columns(self):
        """Columns as a whole, for steps along one after the other."""
        return columns_of(self._problem.design, **self._problem.pieces())

    def start(self, coef):
        """Set the coefficients; log-likelihood there."""
        self.products.predict(coef, self.offset, self.eta)
        return self.evaluate()

    def step(self, coef):
        """Trial predictor of the given coefficients; how far it moves, as the pattern measures."""
        self.products.predict(coef, self.offset, self.trial_eta)
        return self.pattern.reach(self.trial_eta, self.eta)

    def shorten(self, share):
        """Pull the trial predictor back to a share of its step."""
        self.trial_eta -= self.eta
        self.trial_eta *= share
        self.trial_eta += self.eta

    def evaluate_trial(self):
        self._here = None
        return self.pattern.evaluate(self.trial_eta, self.u)

    def attempt(self, coef, columns, longest):
        """Step, and the log-likelihood there unless it is longer than that."""
        reach = self.step(coef)
        return reach, np.nan if reach > longest else self.evaluate_trial()

    def accept(self):
        self.eta, self.trial_eta = self.trial_eta, self.eta

    def evaluate(self):
        """Return to the accepted predictor."""
        self._here = None
        return self.pattern.evaluate(self.eta, self.u)

    def gradient(self, columns):
        """x_j'u of the given columns at the last evaluation."""
        return self.products.of_columns(columns, self.u)

    def rounding(self):
        """Rounding error of the gradient at the last evaluation, every column."""
        size = self.pattern.sizes(self.eta, self.u)
        return 4.0 * np.finfo(float).eps * self.products.absolute(size)

    def largest_loglik(self):
        return self.pattern.largest_loglik()

    def error_weight(self):
        """Sum of the weights of rows whose errors have an unknown variance; 0 where none have."""
        return self.pattern.error_weight()

    def _model(self):
        """Quadratic model at the last evaluation."""
        if self._here is None:
            self._here = Model(self.products, self.pattern, self.eta, self.u)
        return self._here

    def curvature(self, columns):
        """Curvature of columns in the model, and without its second term; the sum of h."""
        model = self._model()
        return model.curvature(columns), model.total

    def matrix(self, columns, known):
        """Rows ``known:`` of the model's matrix over columns."""
        if known == 0:
            self._taken = self._model()
        return self._taken.matrix(columns, known)

    def factor(self, columns, known):
        """Rows ``known:`` of the matrix's factor, its signs, and curvatures."""
        if known == 0:
            self._taken = self._model()
        return self._taken.factor(columns[known:])

    def sample(self, columns, n_rows):
        """The matrix of a sample of rows."""
        return self._model().sample(columns, n_rows)

    def room(self):
        """Room for a matrix, in memory of the host."""
        plan, is_whole = self.plan, self.plan.n_pieces == 1
        terms = plan.n_rows + plan.n_bins if plan.few and is_whole else np.inf
        return Room(self._room if plan.few or is_whole else 0.0, terms=terms)

    def count(self, columns):
        """Counts of what a model over columns would touch, from counts of entries alone."""
        X = self.products
        every = tile_gram.count_entries(X)
        strata = None if self.plan.few else self.plan.stratum_of_row()
        pairs, multiplied, entries, visits = tile_gram.count(X, columns, strata, self.plan.n_bins)
        return Counts(entries, visits, every, pairs, multiplied, self.pattern.is_exact, X.n_base)

    def baseline(self):
        """The model's baseline at the last evaluation, for predictions."""
        return self.pattern.baseline()

    def cycle(self, columns, coef, penalty, reach):
        """One exact Newton step a column; new coefficients and trust region."""
        coef, reach, slope = coef.copy(), reach.copy(), np.empty(len(columns))
        gradient_of_columns(self.columns, columns, self.pattern.events(), slope)
        steps = self.pattern.exact_steps(self.eta)
        run = make_cycle(steps.derivatives, steps.advance, self._formulas.minimum)
        run(self.columns, columns, coef, penalty, slope, reach, steps.state)
        return coef, reach
