"""One fit on the CPU: its row arrays, and the operations that the solver asks for.

A row costs eta and its trial 16 bytes, u 8, (r, h) 16, w 8, its bin 2 and 9 of plan; a distinct
event time 16 for scans, 8 for deaths, 8 for its time.  The reference point of the quadratic model
outlives many evaluations: the model's fixed point is exact whatever its age, only the rate depends
on it.
"""

from __future__ import annotations

import numpy as np

from ...data.design.columns import DENSE
from ..contract import Counts, Room
from . import gram, products
from .bins import CONSTANT, sweep_of
from .columns import columns_of
from .exact import make_cycle
from .group_sweep import blocks_of, group_sweep_of
from .patterns import PATTERNS
from .whole import Products

MAX_PASSES = 10
LOAD_BYTES = 2**24  # of loads that are forgotten at once
LARGEST_MOVED = 32  # columns of a block that is formed by moving one after the other


class Session:
    """Row state of one fit; `problem` and its columns are shared.

    `formulas` are those of a penalty, `room` the bytes that a matrix may take: for whole fits.
    """

    def __init__(self, problem, weight, offset, threads, formulas=None, room=0.0):
        self.columns = columns_of(problem.design, **problem.pieces())
        self.pattern = PATTERNS[problem.likelihood.pattern](problem, weight)
        self.threads, self._formulas, self._room = threads, formulas, room
        plan = self.plan = problem.plan
        self.offset = None if offset is None else plan.per_copy(offset[plan.order])
        self.eta = np.zeros(plan.n_rows)
        self.trial_eta = np.zeros(plan.n_rows)
        self.u = np.zeros(plan.n_rows)
        self.rh = np.zeros((plan.n_rows, 2))
        self.n_columns = problem.n_columns
        self.products = Products(self.columns, threads)

    # -- the predictor ------------------------------------------------------------------------
    def start(self, coef):
        """Set the coefficients; log-likelihood there."""
        self.products.predict(coef, self.offset, self.eta)
        return self.pattern.evaluate(self.eta, self.u)

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
        return self.pattern.evaluate(self.trial_eta, self.u)

    def attempt(self, coef, columns, longest):
        """Step, and the log-likelihood there unless it is longer than that."""
        reach = self.step(coef)
        return reach, np.nan if reach > longest else self.evaluate_trial()

    def accept(self):
        self.eta, self.trial_eta = self.trial_eta, self.eta

    def evaluate(self):
        """Return to the accepted predictor."""
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

    # -- the quadratic model ------------------------------------------------------------------
    def refer(self):
        """Take the quadratic model at the last evaluation, without columns."""
        self.centring = self.pattern.refer(self.eta, self.u, self.rh)
        self.position = np.full(self.n_columns, -1)
        self.curvature, self.loads = np.empty((0, 2)), None

    def load(self, columns):
        """Add columns to the model, at its reference point; their curvature."""
        self.position[columns] = len(self.curvature) + np.arange(len(columns))
        curvature, loads = self.centring.load(self.columns, columns, self.rh, self.threads)
        self.curvature = np.concatenate([self.curvature, curvature])
        if loads is not None:
            self.loads = loads if self.loads is None else np.concatenate([self.loads, loads])
        return curvature

    def measure(self, columns):
        """Curvature of columns in the model, and the sum of h.

        Where rounding has lost it, the most that it can be.  The model does not get the columns:
        their loads are forgotten.
        """
        curvature = np.empty((len(columns), 2))
        size = max(1, LOAD_BYTES // (8 * self.centring.n_bins))
        for low in range(0, len(columns), size):
            part = slice(low, low + size)
            curvature[part], _ = self.centring.load(
                self.columns, columns[part], self.rh, self.threads
            )
        centred, plain = curvature.T
        return np.where(centred > 0.0, centred, CONSTANT * plain), float(self.rh[:, 1].sum())

    def loosen(self, columns):
        """Give columns the model without bins: their curvature in it was lost to rounding."""
        position = self.position[columns]
        self.curvature[position, 0] = self.curvature[position, 1]
        if self.loads is not None:
            self.loads[position] = 0.0

    def sweep(self, columns, coef, penalty, unit, shrink):
        """Coordinate descent on the model with the current residual; coefficients and passes."""
        position = self.position[columns]
        coef = coef.copy()
        self.rh[:, 0] = self.u
        loads = None if self.loads is None else self.loads[position]
        if self._formulas.block is None:
            run = sweep_of(self.centring.few, self._formulas.minimum)
        else:
            run = group_sweep_of(self.centring.few, self._formulas)
        due = run(
            self.columns,
            columns,
            coef,
            penalty,
            unit,
            self.curvature[position, 0],
            self.centring.at_rest(loads),
            self.rh,
            MAX_PASSES,
            shrink,
        )
        return coef, due / max(len(columns), 1)

    def blocks(self, columns, sizes):
        """Diagonal blocks of the model's matrix: small ones as sweeps move, others as matrices."""
        position = self.position[columns]
        loads = None if self.loads is None else self.loads[position]
        centring = self.centring.at_rest(loads)
        out = np.empty(np.sum(sizes**2))
        is_small = sizes <= LARGEST_MOVED
        self.rh[:, 0] = 0.0
        form = blocks_of(self.centring.few)
        form(self.columns, columns, sizes, is_small, centring, self.rh, out)
        ends, edges = np.cumsum(sizes), np.cumsum(sizes**2)
        for g in np.flatnonzero(~is_small):
            where = columns[ends[g] - sizes[g] : ends[g]]
            out[edges[g] - sizes[g] ** 2 : edges[g]] = self.gram(where, 0).ravel()
        return out

    def room(self):
        """Room for a matrix, in memory of the host."""
        has_matrix = self.plan.few or self.plan.n_pieces == 1
        return Room(self._room if has_matrix else 0.0, holds=False)

    def count(self, columns):
        """What a model over columns would touch, from counts of entries alone."""
        X = self.columns
        every = len(X.indices) + float(np.sum(X.kind == DENSE)) * X.n_base
        strata = None if self.plan.few else self.plan.stratum_of_row()
        pairs, multiplied, entries, visits = gram.count(X, columns, strata, self.plan.n_bins)
        return Counts(entries, visits, every, pairs, multiplied, self.pattern.is_exact, X.n_base)

    def gram(self, columns, known):
        """Rows ``known:`` of the model's matrix over columns."""
        loads = None if self.loads is None else self.loads[self.position[columns]]
        model = self.rh, self.centring.bins, loads
        return gram.rows_of_model(self.columns, columns, known, *model, self.threads)

    def trial_curvature(self):
        """Curvature of the model along the trial step, an upper bound of v'Mv."""
        square = products.centred_square(
            self.trial_eta, self.eta, self.rh, self.pattern.ignores_shifts
        )
        return self.pattern.majorant * square

    def baseline(self):
        """The model's baseline at the last evaluation, for predictions."""
        return self.pattern.baseline()

    # -- the exact algorithm ------------------------------------------------------------------
    def cycle(self, columns, coef, penalty, reach):
        """One exact Newton step a column; new coefficients and trust region."""
        coef, reach, slope = coef.copy(), reach.copy(), np.empty(len(columns))
        products.gradient_of_columns(self.columns, columns, self.pattern.events(), slope)
        steps = self.pattern.exact_steps(self.eta)
        run = make_cycle(steps.derivatives, steps.advance, self._formulas.minimum)
        run(self.columns, columns, coef, penalty, slope, reach, steps.state)
        return coef, reach
