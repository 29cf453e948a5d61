"""A batch of fits on the device: its rows, and the quadratic models that the solver asks for."""

from functools import cached_property

import numpy as np

from ...data.design.columns import DENSE
from ..contract import Counts, Room
from ..cpu import bins as cpu_bins
from ..cpu.session import MAX_PASSES
from . import bins as bin_kernels
from . import group_sweep, products
from .exact import run_cycle
from .held import Held
from .memory import SHARE
from .predictor import Rows, Tasks
from .sweep import Private, Work, sweep_of

# Below this share of sum x^2 h a centred curvature is rounding, of h above all: the column is
# constant within bins.
CONSTANT = {"float64": cpu_bins.CONSTANT, "float32": 1e-6}


class Session(Rows):
    """Rows and quadratic models; `formulas` are those of a penalty, for whole fits."""

    def __init__(
        self, layout, problem, weights, offsets, n_fits, row_type, formulas=None, loan=None
    ):
        super().__init__(layout, problem, weights, offsets, n_fits)
        self._formulas, empty = formulas, self.device.empty
        self.rh = empty((n_fits, 2 * self.n_rows), row_type)
        self.n_bins = self.pattern.bins.last.shape[0]
        shape = (n_fits, self.n_columns, self.n_bins) if self.pattern.few else (1, 1, 1)
        self.loads = empty(shape, np.float64)
        self.curvature = np.zeros((n_fits, self.n_columns, 2))
        self._curvatures = empty((n_fits * self.n_columns, 2), np.float64)
        self._private = Private(*(empty((0, 0), np.float64) for _ in range(3)))
        # centres of groups outlive a launch's blocks, since groups belong to fits
        self._group_centers = None if self.pattern.few else empty((n_fits, self.n_bins), float)
        self._held = Held(layout, self.rh, self.loads, self.pattern.bins.inverse, loan)

    # -- the quadratic model ------------------------------------------------------------------
    def refer(self, fits):
        """Take the quadratic model at the last evaluation, without columns."""
        self._held.forget(fits)
        for where, eta, _ in self.sides(fits):
            self.pattern.refer(fits[where], eta, self.rh)
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
        tasks = Tasks(fits, columns)
        out = self._curvatures[: len(tasks)]
        arguments = self.X, *self.device.send(*tasks.arrays), self.pattern.bins, self.rh
        arguments = *arguments, CONSTANT[self.rh.dtype.name]
        launch = self.layout.launch_tasks
        if self.pattern.few:
            size = self.n_bins * bin_kernels.numbers_of(self.pattern.bins)
            arguments = *arguments, size, self.loads, out
            launch(bin_kernels.load_few, len(tasks), *arguments, each=8 * size)
        else:
            launch(bin_kernels.load_groups, len(tasks), *arguments, out)
        return tasks.split(self.device.download(out))

    def loosen(self, fits, columns):
        """Give columns the model without bins: their curvature in it was lost to rounding."""
        for fit, where in zip(fits, columns, strict=True):
            self.curvature[fit, where, 0] = self.curvature[fit, where, 1]
        if self.pattern.few:
            tasks = Tasks(fits, columns)
            arguments = *self.device.send(*tasks.arrays), self.loads
            self.layout.launch_tasks(bin_kernels.clear_loads, len(tasks), *arguments)
        return [None] * len(fits)

    def sweep(self, fits, columns, coefs, penalties, units, shrinks):
        """Coordinate descent on the model with the current gradient; coefficients and passes."""
        sizes = np.array([len(where) for where in columns])
        ptr = np.concatenate([[0], np.cumsum(sizes)])
        curvature = [self.curvature[fit, w, 0] for fit, w in zip(fits, columns, strict=True)]
        gradient = [self.gradients[fit, w] for fit, w in zip(fits, columns, strict=True)]
        spare = 0
        if self._formulas.block is not None:
            spare = group_sweep.NUMBERS * max(int(c.size.max(initial=1)) for c in penalties)
            penalties = group_sweep.in_batch(penalties, ptr)
        both = np.concatenate([*coefs, np.zeros(len(fits))])  # how often columns were due
        joined = map(np.concatenate, (columns, units, curvature, gradient))
        own = map(np.concatenate, zip(*penalties, strict=True))
        ptr_, both, shrinks, *sent = self.device.send(ptr, both, shrinks, *joined, *own)
        numbers = sent[0], both[: ptr[-1]], type(penalties[0])(*sent[4:]), *sent[1:4]
        work = Work(ptr_, *numbers)
        due = self.device.view(both[ptr[-1] :], np.int64)
        self._launch_sweep(fits, work, int(sizes.max()), spare, shrinks, due)
        coef, due = np.split(self.device.download(both), ptr[-1:])
        passes = due.view(np.int64) / np.maximum(sizes, 1)
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
        """Sweep with the rows in shared memory where that holds them."""
        bins, few, layout = self.pattern.bins, self.pattern.few, self.layout
        formulas = self._formulas

        def arguments(blocks):
            private = self._private_of(blocks, most_columns, spare)
            return self.X, work, private, bins, self.loads, self.rh, shrinks, MAX_PASSES, due

        far, near = (
            sweep_of(few, layout.is_whole, place, formulas)
            for place in ("global", self.rh.dtype.name)
        )
        layout.launch_near(near, far, self._bytes_of_rows, fits, arguments)

    def _bytes_of_rows(self, size):
        """Shared memory for the rows of a team's largest member; None where they have copies."""
        rows = self.layout.most_rows(size)
        return None if rows is None else 2 * self.rh.dtype.itemsize * max(rows, 1)

    def _private_of(self, blocks, most_columns, spare):
        """Memory of the blocks of a sweep, which grows with the working sets."""
        kept = self._private
        have = *kept.moved.shape, kept.coef.shape[1] - kept.moved.shape[1]
        if any(np.less(have, (blocks, most_columns, spare))):
            self._private = kept = None  # that memory is free before more is taken
            rows, spare = max(have[0], blocks), max(have[2], spare)
            width = max(have[1], min(2 * most_columns, self.n_columns))
            empty, center = self.device.empty, self._group_centers
            if center is None:
                center = empty((rows, self.n_bins), np.float64)
            coef, moved = (empty((rows, width + more), np.float64) for more in (spare, 0))
            self._private = Private(coef, moved, center)
        return self._private

    # -- matrices -----------------------------------------------------------------------------
    def room(self, fits):
        """Room for matrices, which are held where bins are few; else sweeps are all there is."""
        return [Room(self._room if self.pattern.few else 0.0, holds=True)] * len(fits)

    @cached_property
    def _room(self):
        """Bytes of free memory for the matrix of each fit."""
        return SHARE * self.device.free_bytes() / len(self._side)

    def hold(self, fits, columns, knowns):
        """Keep the model's matrices over columns, whose rows before the known ones are there."""
        self._held.hold(fits, columns, knowns, self.curvature, self._room)
        return [None] * len(fits)

    def gram(self, fits, columns, knowns):
        """Rows of the model's matrices over columns, those that are held or taken for this."""
        found = []
        for fit, own, known in zip(fits, columns, knowns, strict=True):
            if not self._held.has(fit, own):
                self.hold([fit], [own], [0])
            found.append(self._held.rows(fit, known, self.curvature[fit, own, 0]))
        return found

    def descend(
        self,
        fits,
        where,
        coefs,
        gradients,
        curvatures,
        weights,
        penalties,
        units,
        enoughs,
        lents,
    ):
        """Coordinate descent on matrices, each in a block."""
        numbers = where, coefs, gradients, curvatures, weights, penalties, units, enoughs, lents
        asked = list(zip(*numbers, strict=True))
        return self._held.descend(fits, self._formulas.minimum, asked)

    def count(self, fits, columns):
        """What a model over columns would touch, from counts of entries alone."""
        size, source = self._entries
        copies = self.n_rows / max(self.layout.cut[-1], 1)
        rows = int(self.layout.cut[-1])
        found = []
        for where in columns:
            own, pairs = float(size[source[where]].sum()), np.inf
            if self.pattern.few and self._held.pays(where):
                pairs = 0.0  # as good as nothing: adding them up takes no longer than an iteration
            others = float(size.sum()), pairs, 0.0, self.pattern.is_exact, rows
            found.append(Counts(own, copies * own, *others))
        return found

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
        found = np.empty((len(fits), 3))
        for where, eta, trial in self.sides(fits):
            out = self._place(len(where), 3)
            arguments = self.rh, eta, trial, out
            self.layout.launch_teams(products.square_step, fits[where], *arguments)
            found[where] = self.device.download(out)
        return found

    # -- the exact algorithm ------------------------------------------------------------------
    def cycle(self, fits, columns, coefs, penalties, reaches):
        """One exact Newton step a column; new coefficients and trust region."""
        events = self._multiply(products.multiply_events, fits, columns, self.rows)
        steps = self.pattern.exact_steps(fits, self.settle(fits), self.rh)
        numbers = columns, coefs, penalties, events, reaches
        return run_cycle(self.layout, steps, self._formulas.minimum, fits, numbers)
