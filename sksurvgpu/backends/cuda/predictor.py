"""The rows of all fits of a batch on the device: predictors, evaluations, products with columns.

Row arrays have one row for each fit.  An operation is served for all fits that ask for it at the
same time, in one launch or a few.  What travels between host and device is a few numbers a column
or a fit; rows never do.
"""

import numpy as np

from . import products
from .patterns import PATTERNS


class Rows:
    """Predictors and score residuals of all fits; `problem` and its columns are shared."""

    def __init__(self, layout, problem, weights, offsets, n_fits):
        self.layout, self.device, self.X = layout, layout.device, layout.X
        self.n_columns, n_rows = problem.n_columns, problem.plan.n_rows
        self.pattern = PATTERNS[problem.likelihood.pattern](layout, problem, weights, n_fits)
        self.rows = self.pattern.rows
        plan, empty = problem.plan, self.device.empty
        copies = np.empty((1, 0))
        if offsets is not None:
            copies = np.array([plan.per_copy(offset[plan.order]) for offset in offsets.T])
        self.offset = self.device.upload(copies)
        self.eta, self.trial = (empty((n_fits, n_rows), np.float64) for _ in range(2))
        self.loglik = empty(n_fits, np.float64)
        self.gradients = np.zeros((n_fits, self.n_columns))  # the last ones that were asked for

    def serve(self, name, fits, requests):
        """Results of one operation, one a fit; `requests` holds the arguments of each."""
        return getattr(self, name)(np.asarray(fits, np.int32), *zip(*requests, strict=True))

    # -- the predictor ------------------------------------------------------------------------
    def start(self, fits, coefs):
        """Set the coefficients; log-likelihood there."""
        self._predict(fits, coefs, self.eta)
        return self.evaluate(fits)

    def step(self, fits, coefs):
        """Trial predictor of the given coefficients; how far it moves, as the pattern measures."""
        self._predict(fits, coefs, self.trial)
        out = self.device.empty((len(fits), 2), np.float64)
        self.layout.launch_teams(
            products.measure_step, fits, self.pattern.live, self.eta, self.trial, out
        )
        return [self.pattern.reach(*map(float, moves)) for moves in self.device.download(out)]

    def _predict(self, fits, coefs, eta):
        layout, upload = self.layout, self.device.upload
        lists, lanes, table = layout.X_rows, layout.lanes_of_row, upload(layout.tabulate(coefs))
        n, arguments = lanes * layout.cut[-1], (upload(fits), table, lanes, self.offset, eta)
        layout.launch_wide(products.predict, n, self.X, lists, *arguments)

    def shorten(self, fits, shares):
        """Pull the trial predictor back to a share of its step."""
        shares = self.device.upload(np.array(shares, np.float64))
        return self._launch_rows(products.shorten, fits, shares, self.eta, self.trial)

    def evaluate_trial(self, fits):
        return self._evaluate(fits, self.trial)

    def accept(self, fits):
        return self._launch_rows(products.copy_rows, fits, self.trial, self.eta)

    def evaluate(self, fits):
        """Return to the accepted predictor."""
        return self._evaluate(fits, self.eta)

    def _evaluate(self, fits, eta):
        self.pattern.evaluate(fits, eta, self.loglik)
        return [float(value) for value in self.device.download(self.loglik)[fits]]

    def _launch_rows(self, kernel, fits, *arguments):
        n_rows = self.eta.shape[1]
        self.layout.launch_wide(kernel, n_rows, self.device.upload(fits), *arguments)
        return [None] * len(fits)

    # -- columns ------------------------------------------------------------------------------
    def gradient(self, fits, columns):
        """x_j'u of the given columns at the last evaluation."""
        found = self._multiply(products.multiply_residuals, fits, columns)
        for fit, where, gradient in zip(fits, columns, found, strict=True):
            self.gradients[fit, where] = gradient
        return found

    def rounding(self, fits):
        """Rounding error of the gradient at the last evaluation, every column."""
        every = [np.arange(self.n_columns)] * len(fits)
        kernel, rows = self.pattern.sizes(self.eta)
        sizes = self._multiply(kernel, fits, every, rows)
        return [4.0 * np.finfo(float).eps * size for size in sizes]

    def _multiply(self, kernel, fits, columns, rows=None):
        tasks = Tasks(self.device, fits, columns)
        out = self.device.empty(len(tasks), np.float64)
        rows = self.rows if rows is None else rows
        arguments = self.X, tasks.fits, tasks.columns, rows, out
        self.layout.launch_tasks(kernel, len(tasks), *arguments)
        return tasks.split(self.device.download(out))

    def largest_loglik(self, fits):
        return [self.pattern.largest_loglik(fit) for fit in fits]

    def error_weight(self, fits):
        """Sum of the weights of rows whose errors have an unknown variance; 0 where none have."""
        return [self.pattern.error_weight(fit) for fit in fits]

    def baseline(self, fits):
        """The model's baseline at the last evaluation, for predictions."""
        return [self.pattern.baseline(fit) for fit in fits]


class Tasks:
    """Pairs of a fit and a column, those of one fit after the other."""

    def __init__(self, device, fits, columns):
        sizes = [len(where) for where in columns]
        self._edges = np.cumsum(sizes)[:-1]
        self.fits = device.upload(np.repeat(fits, sizes).astype(np.int32))
        self.columns = device.upload(np.concatenate(columns).astype(np.int64))

    def __len__(self):
        return self.fits.shape[0]

    def split(self, values):
        """A part for each fit."""
        return np.split(values, self._edges)
