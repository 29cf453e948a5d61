"""One fit on the CPU: its row arrays, and the operations that the solver asks for.

A row costs eta and its trial 16 bytes, u 8, (r, h) 16, w 8, its bin 2 and 9 of plan; a distinct
event time 16 for scans, 8 for deaths, 8 for its time.  The reference point of the quadratic model
outlives many evaluations: the model's fixed point is exact whatever its age, only the rate depends
on it.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag

from ...data.design.columns import DENSE
from . import gram as gram_kernels
from . import products
from .bins import CONSTANT
from .columns import columns_of
from .patterns import PATTERNS

SMALLEST_ROW_RANGE = 50_000
MAX_PASSES = 10
LOAD_BYTES = 2**24  # of loads that are forgotten at once


class Session:
    """Row state of one fit; `problem` and its columns are shared."""

    def __init__(self, problem, weight, offset, threads):
        self.columns = columns_of(problem.design, **problem.pieces())
        self.pattern = PATTERNS[problem.likelihood.pattern](problem, weight)
        self.threads = threads
        plan = problem.plan
        self.offset = None if offset is None else plan.per_copy(offset[plan.order])
        self.eta = np.zeros(plan.n_rows)
        self.trial_eta = np.zeros(plan.n_rows)
        self.u = np.zeros(plan.n_rows)
        self.rh = np.zeros((plan.n_rows, 2))
        self.n_columns = problem.n_columns
        self.reference = self.gram_matrix = None
        self._has_matrix = problem.plan.few and problem.plan.n_pieces == 1

    # -- the predictor ------------------------------------------------------------------------
    def start(self, coef):
        """Set the coefficients; log-likelihood there."""
        self._predict(coef, self.eta)
        return self.pattern.evaluate(self.eta, self.u)

    def step(self, coef):
        """Trial predictor of the given coefficients; how far it moves, as the pattern measures."""
        self._predict(coef, self.trial_eta)
        return self.pattern.reach(self.trial_eta, self.eta)

    def _predict(self, coef, eta):
        """eta = offset + X coef from scratch: nearly all nonzero coefficients move anyway."""
        eta[:] = 0.0 if self.offset is None else self.offset
        active = np.flatnonzero(coef)

        def part(low, high):
            products.add_product(self.columns, active, coef[active], low, high, eta)

        self.threads.over_ranges(part, self.columns.n_base, SMALLEST_ROW_RANGE)

    def shorten(self, share):
        """Pull the trial predictor back to a share of its step."""
        self.trial_eta -= self.eta
        self.trial_eta *= share
        self.trial_eta += self.eta

    def evaluate_trial(self):
        return self.pattern.evaluate(self.trial_eta, self.u)

    def accept(self):
        self.eta, self.trial_eta = self.trial_eta, self.eta

    def evaluate(self):
        """Return to the accepted predictor."""
        return self.pattern.evaluate(self.eta, self.u)

    def gradient(self, columns):
        """x_j'u of the given columns at the last evaluation."""
        out = np.empty(len(columns))

        def part(low, high):
            products.gradient_of_columns(self.columns, columns[low:high], self.u, out[low:high])

        self.threads.over_ranges(part, len(columns))
        return out

    def rounding(self):
        """Rounding error of the gradient at the last evaluation, every column."""
        size, columns = self.pattern.sizes(self.eta, self.u), np.arange(self.n_columns)
        out = np.empty(self.n_columns)

        def part(low, high):
            products.absolute_products(self.columns, columns[low:high], size, out[low:high])

        self.threads.over_ranges(part, len(out))
        return 4.0 * np.finfo(float).eps * out

    def largest_loglik(self):
        return self.pattern.largest_loglik()

    def error_weight(self):
        """Sum of the weights of rows whose errors have an unknown variance; 0 where none have."""
        return self.pattern.error_weight()

    # -- the quadratic model ------------------------------------------------------------------
    def refer(self, columns, with_gram):
        """Take the quadratic model at the last evaluation, for the given columns."""
        self.centring = self.pattern.refer(self.eta, self.u, self.rh)
        self.reference, self.gram_share = np.empty(0, np.int64), 1.0
        self.position = np.full(self.n_columns, -1)
        self.curvature, self.loads = np.empty((0, 2)), None
        self.loose = np.empty(0, bool)
        self.pairs = self.gram_matrix = np.empty((0, 0)) if with_gram else None
        return self.extend(columns)

    def extend(self, columns):
        """Add columns to the model, at its old reference point; returns their curvature."""
        self.position[columns] = len(self.reference) + np.arange(len(columns))
        self.reference = np.concatenate([self.reference, columns])
        curvature, loads = self.centring.load(self.columns, columns, self.rh, self.threads)
        self.curvature = np.concatenate([self.curvature, curvature])
        self.loose = np.concatenate([self.loose, np.zeros(len(columns), bool)])
        self.loads = loads if self.loads is None else np.concatenate([self.loads, loads])
        if self.pairs is not None:
            self._form_gram()
        return curvature[:, 0]

    def measure(self, columns):
        """Curvature of columns in the model, and the sum of h.

        Where rounding has lost it, the most that it can be. The model does not get the columns:
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
        self.loose[position] = True
        if self.loads is not None:
            self.loads[position] = 0.0
        if self.pairs is not None:
            self._finish_gram()

    def _form_gram(self):
        """The model as a matrix over the reference columns."""
        self.pairs = gram_kernels.form_gram(
            self.columns, self.reference, self.rh, self.threads, self.trial_eta, self.pairs
        )
        self._finish_gram()

    def _finish_gram(self):
        self.gram_matrix = self.pairs - self.centring.gram_term(self.loads)
        # entries without bins beside entries with them would not be of a convex model
        self.gram_matrix[self.loose] = 0.0
        self.gram_matrix[:, self.loose] = 0.0
        np.fill_diagonal(self.gram_matrix, self.curvature[:, 0])

    def sweep(self, columns, coef, l1, l2, unit, shrink):
        """Coordinate descent on the model with the current residual; coefficients and passes."""
        position = self.position[columns]
        coef = coef.copy()
        self.rh[:, 0] = self.u
        loads = None if self.loads is None else self.loads[position]
        due = self.centring.sweep(
            self.columns,
            columns,
            coef,
            l1,
            l2,
            unit,
            self.curvature[position, 0],
            self.centring.at_rest(loads),
            self.rh,
            MAX_PASSES,
            shrink,
        )
        return coef, due / max(len(columns), 1)

    def minimize_on_gram(self, gradient, coef, l1, l2, unit, tolerance):
        share = self.gram_share  # divides the rest, so that the matrix need not be copied
        penalties = l1 / share, l2 / share, unit
        return gram_kernels.minimize_on_gram(
            self.gram_matrix, coef, gradient / share, penalties, tolerance / share
        )

    def lend(self):
        """The matrix of the model, which is not written to any more."""
        return self.gram_matrix

    def borrow(self, matrix, share):
        """Take a share of another fit's matrix for the model."""
        self.gram_matrix, self.gram_share = matrix, share

    def append(self, columns):
        """Add columns to a borrowed matrix, with no entries but their curvature; returns it."""
        centring = self.pattern.refer(self.eta, self.u, self.rh)
        curvature = centring.load(self.columns, columns, self.rh, self.threads)[0][:, 0]
        self.gram_matrix = block_diag(self.gram_matrix, np.diag(curvature / self.gram_share))
        return curvature

    def gram_cost(self, columns, n_fits=1):
        """Cost of the Gram route in outer iterations by sweeps, from counts of nonzeros alone.

        `n_fits` use one matrix.

        Counts and not clocks, so that a fit takes the same route on every machine.  Weights are
        nanoseconds: a pair within a row 1.3, a product entry 1.5-2.1, an entry's part in about ten
        passes 28, a dense pass of the matrix 0.6 an entry.
        """
        X = self.columns
        if not self._has_matrix:
            return np.inf
        dense = X.kind[X.source[columns]] == DENSE
        self.trial_eta[:] = 0.0
        products.count_entries(X, columns[~dense], 0, X.n_base, self.trial_eta)
        sparse = float(self.trial_eta.sum())
        pairs = 0.5 * (float(self.trial_eta @ self.trial_eta) + sparse)
        m, work = len(columns), sparse + dense.sum() * X.n_base
        total = len(X.indices) + float(np.sum(X.kind == DENSE)) * X.n_base
        build = 1.3 * pairs + 0.5 * dense.sum() * work
        gram = build / n_fits + 36.0 * m**2 + m**3 / 30 + 6 * (2.1 * work + 1.5 * total)
        return gram / (28 * work + 1.5 * total)

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
    def cycle(self, columns, coef, l1, l2, reach):
        """One exact Newton step a column; new coefficients and trust region."""
        coef, reach, slope = coef.copy(), reach.copy(), np.empty(len(columns))
        products.gradient_of_columns(self.columns, columns, self.pattern.events(), slope)
        self.pattern.cycle(self.columns, columns, coef, l1, l2, slope, reach, self.eta)
        return coef, reach
