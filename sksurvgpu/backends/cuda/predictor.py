"""The rows of all fits of a batch on the device: predictors, evaluations, products with columns.

Row arrays have one row for each fit.  An operation is served for all fits that ask for it at the
same time, in one launch or a few.  What travels between host and device is a few numbers a column
or a fit; rows never do.
"""

import math
from functools import partial

import numpy as np

from ..contract import every_column
from . import products
from .cuts import TILES_AT_ONCE
from .team import WARP
from .weights import spread

MOST_RECORDED = 64  # sets of fits whose rounds are recorded


class Predictors:
    """Predictors and score residuals of all fits; `problem` and its columns are shared."""

    def __init__(self, layout, problem, weights, offsets, n_fits):
        self.layout, self.device, self.X = layout, layout.device, layout.X
        self.n_columns, self.n_rows = problem.n_columns, problem.plan.n_rows
        self._source = problem.source
        self.pattern = problem.likelihood.pattern.on_device(layout, problem, weights, n_fits)
        self.rows = self.pattern.rows
        empty = self.device.empty
        self.offset = empty((1, 0), np.float64)
        if offsets is not None:
            self.offset = spread(layout, offsets)
        # Each is the predictor of some fits and the trial of the others: accepting moves no row.
        self._predictors = [empty((n_fits, self.n_rows), np.float64) for _ in range(2)]
        self._side = np.zeros(n_fits, np.int64)
        # What rounds bring down at once: log-likelihoods, parts of moves, slopes.
        n_moves = 2 * max(n_fits, layout.n_members)
        self._edges = n_fits, n_fits + n_moves
        self._numbers = empty(self._edges[1] + n_fits * self.n_columns, np.float64)
        self.loglik = self._numbers[:n_fits]
        self._slopes = [None] * n_fits  # of all columns at the last evaluation, if known
        self._has_model = np.zeros(n_fits, bool)  # whether it was taken there
        self._pair = self.device.pack(tuple(self._predictors))
        self._table = empty((n_fits, *layout.shape_of_table), np.float64)
        self._sums = empty(n_fits * self.n_columns * (len(layout.cut) - 1), np.float64)
        self._n_blocks = TILES_AT_ONCE * self.device.n_multiprocessors
        self._arrived = self.device.zeros(n_fits + self._n_blocks, np.uint32)
        self._recorded = {}  # launches of attempts, by fits and sides
        # Tasks of all columns of the fits that were served last: most rounds serve the same.
        self._every, self._all = every_column(self.n_columns), (None, None)
        self._fit_of_task = empty(n_fits * self.n_columns, np.int32)
        self._column_of_task = self.device.upload(np.tile(self._every, n_fits))
        self._ptr_of_all = self.device.upload(self.n_columns * np.arange(n_fits + 1))

    def serve(self, name, fits, requests):
        """Results of one operation, one a fit; `requests` holds the arguments of each."""
        try:
            return getattr(self, name)(np.asarray(fits, np.int32), *zip(*requests, strict=True))
        except Exception as error:  # of a device perhaps, which tells of it at a later copy
            error.add_note(f"in or before `{name}` of {len(fits)} fit(s) on {self.device.name}")
            raise

    def sides(self, fits):
        """Where those fits are whose predictors lie together; these, and their trials."""
        sides = self._side[fits]
        for side, pair in enumerate((self._predictors, self._predictors[::-1])):
            if len(where := (sides == side).nonzero()[0]):
                yield where, *pair

    def settle(self, fits):
        """Predictors that lie together, after the trials are of no more use."""
        if len(moved := fits[self._side[fits] == 1]):
            self._launch_rows(products.copy_rows, moved, *self._predictors[::-1])
            self._side[moved] = 0
        return self._predictors[0]

    def start(self, fits, coefs):
        """Set the coefficients; log-likelihood there."""
        self._side[fits] = 0
        self._tell(self._in_order(fits), coefs)
        self._launch_predictions(fits, of_trials=False)
        return self.evaluate(fits)

    def _in_order(self, fits):
        """Places of fits in the order of `sides`."""
        return [place for where, *_ in self.sides(fits) for place in where.tolist()]

    def _tell(self, order, coefs):
        """Copy coefficients of fits to the device in an order."""
        table = self.layout.tabulate([coefs[place] for place in order])
        self.device.refill(self._table, table)

    def _launch_predictions(self, fits, of_trials):
        layout, low = self.layout, 0
        for where, *pair in self.sides(fits):
            own, low = self._table[low : low + len(where)], low + len(where)
            is_near = own.nbytes <= layout.bytes_of_block
            layout.launch_wide(
                products.predict,
                layout.lanes_of_row * (len(layout.X_rows.ptr) - 1),
                self.X,
                layout.X_rows,
                layout.served(fits[where]),
                own,
                layout.lanes_of_row,
                int(is_near),
                self.offset,
                pair[of_trials],
                shared_bytes=is_near * own.nbytes,
            )

    def attempt(self, fits, coefs, columns, longest):
        """Step and evaluate, and find all slopes, as any may be wanted; nan after long steps."""
        key = fits.tobytes(), self._side[fits].tobytes()
        order, tape, wanted = self._recorded.get(key) or (self._in_order(fits), None, None)
        self._tell(order, coefs)
        n_parts = max(1, self.layout.n_members // len(fits))
        if tape is not None:
            self.device.repeat(tape)
        else:
            if len(self._recorded) >= MOST_RECORDED:
                self._recorded.clear()
            tape = self.device.record(partial(self._launch_attempt, fits, n_parts))
            wanted = self._wanted(fits)
            self._recorded[key] = order, tape, wanted
        found, edge = self._bring(fits, wanted), self._edges[0]
        self._has_model[fits] = False
        moves = found[edge : edge + 2 * len(fits) * n_parts].reshape(len(fits), n_parts, 2)
        spans = [(max(up + down, 0.0), max(up, down, 0.0)) for up, down in moves.max(1).tolist()]
        reaches = [self.pattern.reach(*span) for span in spans]
        return list(zip(reaches, self._tried(fits, found[:edge], reaches, longest), strict=True))

    def _launch_attempt(self, fits, n_parts):
        self._launch_predictions(fits, of_trials=True)
        self._launch_evaluations(fits, of_trials=True)
        self._launch_slopes(fits, n_parts)

    def _launch_slopes(self, fits, n_parts=1):
        """Launch slopes of all columns, and parts of moves."""
        (edge, end), shape = self._edges, (len(fits), n_parts, 2)
        place = self._numbers[edge : edge + math.prod(shape)]
        self._launch_products(
            products.finish_attempt,
            fits,
            *self._tasks_of_all(fits),
            self.rows,
            self.pattern.live,
            self._pair,
            self.device.view(place, np.float64, shape),
            self._numbers[end:],
        )

    def _wanted(self, fits):
        """Numbers that come down after `_launch_slopes`."""
        return self._numbers[: self._edges[1] + len(fits) * self.n_columns]

    def _bring(self, fits, wanted):
        """Download numbers, and keep the slopes among them."""
        found = self.device.download(wanted)
        slopes = found[self._edges[1] :].reshape(len(fits), -1)
        for fit, own in zip(fits.tolist(), slopes, strict=True):
            self._slopes[fit] = own
        return found

    def _tasks(self, fits, columns):
        """Tasks, and their arrays on the device."""
        every = self._every
        if all(own is every or np.array_equal(own, every) for own in columns):
            return self._tasks_of_all(fits)
        tasks = Tasks(fits, columns)
        return tasks, self.device.send(*tasks.arrays)

    def _tasks_of_all(self, fits):
        """Tasks of all columns, and their arrays on the device, which stay there."""
        if self._all[0] != (key := fits.tobytes()):
            self._all = key, Tasks(fits, [self._every] * len(fits))
            self.device.write(self._fit_of_task[: len(self._all[1])], self._all[1].arrays[0])
        tasks = self._all[1]
        own = self._fit_of_task, self._column_of_task
        return tasks, (*(part[: len(tasks)] for part in own), self._ptr_of_all[: len(fits) + 1])

    def _tried(self, fits, loglik, reaches, longest):
        """Log-likelihoods, nan after steps that are too long."""
        is_tried = [not reach > most for reach, most in zip(reaches, longest, strict=True)]
        settled = iter(self._settled(fits[is_tried], loglik, of_trials=True))
        return [next(settled) if is_one else np.nan for is_one in is_tried]

    def _leave(self, fits):
        """Forget what is known of the last evaluation."""
        for fit in fits.tolist():
            self._slopes[fit] = None
        self._has_model[fits] = False

    def shorten(self, fits, shares):
        """Pull the trial predictor back to a share of its step."""
        for where, eta, trial in self.sides(fits):
            (on_device,) = self.device.send(np.array(shares, np.float64)[where])
            self._launch_rows(products.shorten, fits[where], on_device, eta, trial)
        return [None] * len(fits)

    def accept(self, fits):
        self._side[fits] ^= 1
        return [None] * len(fits)

    def evaluate_trial(self, fits):
        return self._evaluate(fits, of_trials=True)

    def evaluate(self, fits):
        """Return to the accepted predictor."""
        return self._evaluate(fits, of_trials=False)

    def _evaluate(self, fits, of_trials):
        self._leave(fits)
        self._launch_evaluations(fits, of_trials)
        return self._settled(fits, self.device.download(self.loglik), of_trials)

    def _launch_evaluations(self, fits, of_trials):
        for where, *pair in self.sides(fits):
            self.pattern.evaluate(fits[where], pair[of_trials], self.loglik)

    def _settled(self, fits, loglik, of_trials):
        """Log-likelihoods, after those that are not finite were looked at in another way."""
        lost = fits[~np.isfinite(loglik[fits])]
        if len(lost) and self.pattern.has_other_way:
            self._leave(lost)
            for where, *pair in self.sides(lost):
                self.pattern.evaluate_again(lost[where], pair[of_trials], self.loglik)
            loglik = self.device.download(self.loglik)
        return loglik[fits].tolist()

    def _launch_rows(self, kernel, fits, *arguments):
        self.layout.launch_wide(kernel, self.n_rows, self.layout.served(fits), *arguments)

    def gradient(self, fits, columns):
        """x_j'u of the given columns at the last evaluation."""
        if any(self._slopes[fit] is None for fit in fits):
            self._launch_slopes(fits)
            self._bring(fits, self._wanted(fits))
        pairs = zip(fits, columns, strict=True)
        return [self._slopes[fit] if c is self._every else self._slopes[fit][c] for fit, c in pairs]

    def rounding(self, fits):
        """Rounding error of the gradient at the last evaluation, every column."""
        every = [self._every] * len(fits)
        kernel, rows = self.pattern.sizes(self.settle(fits))
        sizes = self._multiply(kernel, fits, every, rows)
        return [4.0 * np.finfo(float).eps * size for size in sizes]

    def _multiply(self, kernel, fits, columns, rows):
        tasks, on_device = self._tasks(fits, columns)
        out = self._numbers[self._edges[1] : self._edges[1] + len(tasks)]
        self._launch_products(kernel, fits, tasks, on_device, rows, out)
        return tasks.split(self.device.download(out))

    def _launch_products(self, kernel, fits, tasks, on_device, *given):
        """Launch products of columns, blocks having some of a fit's in a tile."""
        layout, view, n_columns = self.layout, self.device.view, int(np.diff(tasks.ptr).max())
        n_tiles, threads = len(layout.cut) - 1, layout.many_threads
        wanted = min(self._n_blocks // (len(fits) * n_tiles), n_columns * WARP // threads)
        arrived = len(fits), max(1, wanted)
        sums = n_tiles, len(tasks)
        shares = products.Shares(
            layout.served(fits),
            on_device[2],
            on_device[1],
            view(self._sums[: math.prod(sums)], np.float64, sums),
            view(self._arrived[: math.prod(arrived)], np.uint32, arrived),
            int(layout.tile_bytes > 0),
        )
        blocks = min(n_tiles * math.prod(arrived), 2 * self._n_blocks)
        self.device.launch(kernel, blocks, threads, (self.X, shares, *given), layout.tile_bytes)

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

    def __init__(self, fits, columns):
        sizes = [len(where) for where in columns]
        self.ptr = np.concatenate([[0], np.cumsum(sizes)])
        fits = np.repeat(fits, sizes).astype(np.int32)
        self.arrays = fits, np.concatenate(columns).astype(np.int64, copy=False), self.ptr

    def __len__(self):
        return int(self.ptr[-1])

    def split(self, values):
        """A part for each fit."""
        return np.split(values, self.ptr[1:-1])
