"""The fits of a batch on the device, and the operations that the solver asks for.

Row arrays have one row for each fit.  An operation is served for all fits that ask for it at the
same time, in one launch or a few.  What travels between host and device is a few numbers a column
or a fit; rows never do.
"""

from functools import cached_property

import numpy as np

from ...data.design.columns import DENSE
from ..contract import Counts
from ..cpu import bins as cpu_bins
from ..cpu.session import MAX_PASSES
from . import bins as bin_kernels
from . import group_sweep, products
from .exact import run_cycle
from .layout import RESERVED_SHARED
from .patterns import PATTERNS
from .sweep import Private, Work, sweep_of

# Below this share of sum x^2 h a centred curvature is rounding, of h above all: the column is
# constant within bins.
CONSTANT = {"float64": cpu_bins.CONSTANT, "float32": 1e-6}


class Session:
    """State of all fits of a batch; `problem` and its columns are shared.

    `formulas` are those of a penalty, for whole fits.
    """

    def __init__(self, layout, problem, weights, offsets, n_fits, row_type, formulas=None):
        self._formulas = formulas
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
        self.rh = empty((n_fits, 2 * n_rows), row_type)
        self.loglik = empty(n_fits, np.float64)
        self.n_bins = self.pattern.bins.last.shape[0]
        shape = (n_fits, self.n_columns, self.n_bins) if self.pattern.few else (1, 1, 1)
        self.loads = empty(shape, np.float64)
        self.curvature = np.zeros((n_fits, self.n_columns, 2))
        self.gradients = np.zeros((n_fits, self.n_columns))  # the last ones that were asked for
        # centres of groups outlive a launch's blocks, since groups belong to fits
        self._group_centers = None if self.pattern.few else empty((n_fits, self.n_bins), float)

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
        active = [np.flatnonzero(coef) for coef in coefs]
        ptr = np.concatenate([[0], np.cumsum([len(columns) for columns in active])])
        steps = [coef[columns] for coef, columns in zip(coefs, active, strict=True)]
        move = products.Move(
            self.device.upload(ptr), self.layout.join(active, np.int64), self.layout.join(steps)
        )
        self.layout.launch_teams(products.predict, fits, self.X, move, self.offset, eta)

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
        tasks = _Tasks(self.device, fits, columns)
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

    # -- the quadratic model ------------------------------------------------------------------
    def refer(self, fits):
        """Take the quadratic model at the last evaluation, without columns."""
        self.pattern.refer(fits, self.eta, self.rh)
        return [None] * len(fits)

    def load(self, fits, columns):
        """Add columns to the model, at its reference point; their curvature."""
        found = self._load(fits, columns)
        for fit, where, curvature in zip(fits, columns, found, strict=True):
            self.curvature[fit, where] = curvature
        return found

    def measure(self, fits, columns):
        """Curvature of columns in the model, and the sum of h.

        Where rounding has lost it, the most that it can be.
        """
        least = CONSTANT[self.rh.dtype.name]
        found = [
            np.where(curvature[:, 0] > 0.0, curvature[:, 0], least * curvature[:, 1])
            for curvature in self._load(fits, columns)
        ]
        totals = self._square_steps(fits)[:, 0]  # the other sums are of a step that was not taken
        return list(zip(found, map(float, totals), strict=True))

    def _load(self, fits, columns):
        """Loads of columns, where bins are few; their curvature, with bins and without."""
        if not any(map(len, columns)):
            return [np.empty((0, 2))] * len(fits)
        tasks = _Tasks(self.device, fits, columns)
        out = self.device.empty((len(tasks), 2), np.float64)
        arguments = self.X, tasks.fits, tasks.columns, self.pattern.bins, self.rh
        arguments = *arguments, CONSTANT[self.rh.dtype.name]
        kernel, shared = bin_kernels.load_groups, 0
        if self.pattern.few:
            kernel, shared = bin_kernels.load_few, 3 * 8 * self.n_bins
            arguments = *arguments, self.loads
        self.layout.launch_tasks(kernel, len(tasks), *arguments, out, shared_bytes=shared)
        return tasks.split(self.device.download(out))

    def loosen(self, fits, columns):
        """Give columns the model without bins: their curvature in it was lost to rounding."""
        for fit, where in zip(fits, columns, strict=True):
            self.curvature[fit, where, 0] = self.curvature[fit, where, 1]
        if self.pattern.few:
            tasks = _Tasks(self.device, fits, columns)
            arguments = tasks.fits, tasks.columns, self.loads
            self.layout.launch_tasks(bin_kernels.clear_loads, len(tasks), *arguments)
        return [None] * len(fits)

    def sweep(self, fits, columns, coefs, penalties, units, shrinks):
        """Coordinate descent on the model with the current gradient; coefficients and passes."""
        sizes = np.array([len(where) for where in columns])
        ptr = np.concatenate([[0], np.cumsum(sizes)])
        curvature = [self.curvature[fit, w, 0] for fit, w in zip(fits, columns, strict=True)]
        gradient = [self.gradients[fit, w] for fit, w in zip(fits, columns, strict=True)]
        join = self.layout.join
        spare = 0
        if self._formulas.block is not None:
            spare = group_sweep.NUMBERS * max(int(c.size.max(initial=1)) for c in penalties)
            penalties = group_sweep.in_batch(penalties, ptr)
        work = Work(
            self.device.upload(ptr),
            join(columns, np.int64),
            join(coefs),
            self.layout.join_tuples(penalties),
            *map(join, (units, curvature, gradient)),
        )
        shrinks = self.device.upload(np.array(shrinks, np.float64))
        due = self.device.zeros(len(fits), np.int64)
        self._launch_sweep(fits, work, int(sizes.max()), spare, shrinks, due)
        coef, due = self.device.download(work.coef), self.device.download(due)
        passes = due / np.maximum(sizes, 1)
        return list(zip(np.split(coef, ptr[1:-1]), map(float, passes), strict=True))

    def blocks(self, fits, columns, sizes):
        """Diagonal blocks of the model's matrix."""
        found = [group_sweep.pairs_of(*own) for own in zip(columns, sizes, strict=True)]
        pairs = [own for own, _ in found]
        fit_of_pair = np.repeat(fits, [len(own) for own in pairs]).astype(np.int32)
        out = self.device.empty(len(fit_of_pair), np.float64)
        arguments = self.X, self.device.upload(fit_of_pair), self.layout.join(pairs, np.int64)
        model = self.pattern.bins.inverse, self.loads, self.pattern.few, self.rh
        launch, n_pairs = self.layout.launch_tasks, len(fit_of_pair)
        launch(group_sweep.multiply_pairs, n_pairs, *arguments, *model, out)
        edges = np.cumsum([len(own) for own in pairs])[:-1]
        blocks = []
        for part, (_, places), size in zip(
            np.split(self.device.download(out), edges), found, sizes, strict=True
        ):
            blocks.append(np.empty(np.sum(size**2)))
            blocks[-1][places] = part[:, None]
        return blocks

    def _launch_sweep(self, fits, work, most_columns, spare, shrinks, due):
        """Sweep with the rows in shared memory where that holds them and serves as many fits."""
        bins, few, layout = self.pattern.bins, self.pattern.few, self.layout
        formulas = self._formulas

        def arguments(blocks):
            private = self._private(blocks, most_columns, spare)
            return self.X, work, private, bins, self.loads, self.rh, shrinks, MAX_PASSES, due

        probe, n_fits = arguments(1), len(fits)
        kernel, shared = sweep_of(few, "global", formulas), 0
        shape = layout.shape_of_teams(kernel, n_fits, probe)
        needed = self._bytes_of_rows(shape[1])
        if needed is not None and needed + RESERVED_SHARED <= self.device.shared_bytes:
            near = sweep_of(few, np.dtype(self.rh.dtype).name, formulas)
            if layout.shape_of_teams(near, n_fits, probe, needed, shape[1]) == shape:
                kernel, shared = near, needed
        full = arguments(shape[0] * shape[1])
        layout.launch_teams(kernel, fits, *full, shape=shape, shared_bytes=shared)

    def _bytes_of_rows(self, size):
        """Shared memory for the rows of a team's largest member; None where they have copies."""
        rows = self.layout.most_rows(size)
        return None if rows is None else 2 * self.rh.dtype.itemsize * max(rows, 1)

    def _private(self, blocks, most_columns, spare):
        """Memory of the blocks of a sweep."""
        coef, moved = (
            self.device.empty((blocks, most_columns + more), np.float64) for more in (spare, 0)
        )
        center = self._group_centers
        if center is None:
            center = self.device.empty((blocks, self.n_bins), np.float64)
        return Private(coef, moved, center)

    def room(self, fits):
        """Sweeps are all there is."""
        return [0.0] * len(fits)

    def count(self, fits, columns):
        """What a model over columns would touch, from counts of entries alone."""
        size, source = self._entries
        copies = self.eta.shape[1] / max(self.layout.cut[-1], 1)
        rows = int(self.layout.cut[-1])
        others = float(size.sum()), np.inf, 0.0, self.pattern.is_exact, rows
        entries = (float(size[source[where]].sum()) for where in columns)
        return [Counts(own, copies * own, *others) for own in entries]

    @cached_property
    def _entries(self):
        """Entries of every column of X, and which of these every column is."""
        X = self.X
        kind, indptr, source = map(self.device.download, (X.kind, X.indptr, X.source))
        return np.where(kind == DENSE, self.layout.cut[-1], np.diff(indptr)), source

    def trial_curvature(self, fits):
        """Curvature of the model along the trial step, an upper bound of v'Mv."""
        sums = self._square_steps(fits)
        total, first, second = sums.T
        if self.pattern.ignores_shifts:
            second = second - np.divide(first**2, total, out=np.zeros_like(total), where=total > 0)
        return [self.pattern.majorant * float(value) for value in second]

    def _square_steps(self, fits):
        out = self.device.empty((len(fits), 3), np.float64)
        self.layout.launch_teams(products.square_step, fits, self.rh, self.eta, self.trial, out)
        return self.device.download(out)

    # -- the exact algorithm ------------------------------------------------------------------
    def cycle(self, fits, columns, coefs, penalties, reaches):
        """One exact Newton step a column; new coefficients and trust region."""
        events = self._multiply(products.multiply_events, fits, columns)
        steps = self.pattern.exact_steps(fits, self.eta, self.rh)
        numbers = columns, coefs, penalties, events, reaches
        return run_cycle(self.layout, steps, self._formulas.minimum, fits, numbers)


class _Tasks:
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
