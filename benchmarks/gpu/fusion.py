"""The kernel-fusion experiment of the published CUDA implementation of Cox regression, repeated.

A coordinate step of the exact algorithm needs the gradient and curvature of one column: suffix sums
of w, w x and w x^2 over the cells of time, a transformation of each cell, and two sums.  That is
done here for cells without ties, as in the paper, by

- separate kernels: scan, transformation, reduction;
- partially fused ones: scan, then transformation and reduction;
- one kernel, which keeps nothing but the results (`backends.cuda.rake`);
- the same, with all columns in one launch, as `algorithm="exact"` has it.

The scan is the same code in all of them, so that what differs is what goes through memory and how
often a kernel is launched.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64

from sksurvgpu.backends import choose
from sksurvgpu.backends.cuda import team
from sksurvgpu.backends.cuda._cuda import cuda, device, kernel
from sksurvgpu.backends.cuda.rake import make_rake
from sksurvgpu.likelihoods.cox import breslow_coordinate

from .ceilings import median_seconds, new_exchange
from .day import Part

# us a coordinate, n = 10^5, GV100: Yang, Schuemie, Ji and Suchard (2024)
PUBLISHED = {"separate": 57.9, "partially fused": 7.1, "fused": 5.2}
FORMS = (*PUBLISHED, "fused, one launch")
THREADS = 256
CELLS_OF_A_BLOCK = 2_048  # fewer make the exchange dearer than the scan


class Cells(NamedTuple):
    """One column's numbers per cell, in the order of time, and room for what is between kernels."""

    w: np.ndarray
    wx: np.ndarray
    wxx: np.ndarray
    deaths: np.ndarray
    sums: np.ndarray  # float64 (3, cells): suffix sums
    terms: np.ndarray  # float64 (2, cells): gradient and curvature
    out: np.ndarray  # float64 (2,)


@device
def load_cell(cells, q):
    """From the last cell to the first; one segment."""
    k = cells.w.shape[0] - 1 - q
    return cells.w[k], cells.wx[k], cells.wxx[k], int64(q == 0)


@device
def store_sums(cells, q, before, after):
    k = cells.w.shape[0] - 1 - q
    cells.sums[0, k], cells.sums[1, k], cells.sums[2, k] = after[0], after[1], after[2]
    return 0.0, 0.0


@device
def transform(s0, s1, s2, deaths):
    """Slope and curvature of a cell."""
    if deaths <= 0.0:
        return 0.0, 0.0
    slope, curvature = breslow_coordinate(s0, s1, s2, 0.0, 0.0, 0.0, deaths, deaths)
    return -slope, curvature


@device
def transform_cell(cells, q, before, after):
    k = cells.w.shape[0] - 1 - q
    return transform(after[0], after[1], after[2], cells.deaths[k])


rake_sums = make_rake(load_cell, store_sums)
rake_terms = make_rake(load_cell, transform_cell)


@device
def add_to(exchange, slope, curvature, turn, scratch, out):
    """The team's sums, written by one thread."""
    team.stage_sum(slope, 0, scratch)
    team.stage_sum(curvature, 1, scratch)
    team.meet_sums(exchange, 2, turn, scratch)
    one, two = team.total_sum(exchange, 0, turn), team.total_sum(exchange, 1, turn)
    if cuda.grid(1) == 0:
        out[0], out[1] = one, two


@kernel
def scan(exchange, cells):
    team.begin()
    rake_sums(exchange, cells.w.shape[0], cells, 0, team.new_scratch())


@kernel
def transform_all(cells):
    for k in range(cuda.grid(1), cells.w.shape[0], cuda.gridsize(1)):
        cells.terms[0, k], cells.terms[1, k] = transform(
            cells.sums[0, k], cells.sums[1, k], cells.sums[2, k], cells.deaths[k]
        )


@kernel
def reduce_all(exchange, cells):
    team.begin()
    scratch, slope, curvature = team.new_scratch(), 0.0, 0.0
    for k in range(cuda.grid(1), cells.w.shape[0], cuda.gridsize(1)):
        slope += cells.terms[0, k]
        curvature += cells.terms[1, k]
    add_to(exchange, slope, curvature, 0, scratch, cells.out)


@kernel
def transform_and_reduce(exchange, cells):
    team.begin()
    scratch, slope, curvature = team.new_scratch(), 0.0, 0.0
    for k in range(cuda.grid(1), cells.w.shape[0], cuda.gridsize(1)):
        one, two = transform(cells.sums[0, k], cells.sums[1, k], cells.sums[2, k], cells.deaths[k])
        slope += one
        curvature += two
    add_to(exchange, slope, curvature, 0, scratch, cells.out)


@kernel
def fused(exchange, cells, n_columns):
    """Everything, for as many columns (here always the same) as are asked for."""
    team.begin()
    scratch = team.new_scratch()
    for j in range(n_columns):
        n = cells.w.shape[0]
        slope, curvature = rake_terms(exchange, n, cells, 2 * j, scratch)
        add_to(exchange, slope, curvature, 2 * j + 1, scratch, cells.out)


class Experiment:
    """One column on a device, for all forms of the step."""

    def __init__(self, device, n, threads=THREADS, cells_of_a_block=CELLS_OF_A_BLOCK, seed=0):
        rng = np.random.default_rng(seed)
        self.device, self.threads = device, threads
        w = np.exp(rng.normal(size=n))
        x = (rng.random(n) < 0.05).astype(float)
        arrays = w, w * x, w * x * x, (rng.random(n) < 0.5).astype(float)
        room = (device.zeros(shape, np.float64) for shape in ((3, n), (2, n), 2))
        self.cells = Cells(*map(device.upload, arrays), *room)
        self.expected = expected(*arrays)
        self.size = self._team_size(max(1, n // cells_of_a_block))
        self.wide = max(1, min(-(-n // threads), 8 * device.n_multiprocessors))

    def _team_size(self, wanted):
        """Members of the one team, at most as many as are resident."""
        resident = self.device.resident_blocks(
            fused, self.threads, (new_exchange(self.device, 1), self.cells, 1)
        )
        return min(wanted, resident, self.device.n_multiprocessors)

    def launcher(self, form):
        """Function that asks for a number of columns."""
        exchange, cells = new_exchange(self.device, self.size), self.cells
        launch = self.device.launch
        threads, size = self.threads, self.size
        teams = {
            "separate": (scan, transform_all, reduce_all),
            "partially fused": (scan, transform_and_reduce),
            "fused": (fused,),
        }

        def run(n_columns):
            if form == "fused, one launch":
                launch(fused, size, threads, (exchange, cells, n_columns))
                return
            for _ in range(n_columns):
                for one in teams[form]:
                    if one is transform_all:
                        launch(one, self.wide, threads, (cells,))
                    else:
                        more = (1,) if one is fused else ()
                        launch(one, size, threads, (exchange, cells, *more))

        return run

    def result(self, form, n_columns=1):
        """Gradient and curvature."""
        self.device.write(self.cells.out, np.zeros(2))
        self.launcher(form)(n_columns)
        return self.device.download(self.cells.out)

    def seconds(self, form, n_columns, repeats):
        """Per column."""
        run = self.launcher(form)
        total = median_seconds(
            lambda: run(n_columns), lambda: self.device.download(self.cells.out), repeats
        )
        return total / n_columns


def expected(w, wx, wxx, deaths):
    """Gradient and curvature by NumPy."""
    s0, s1, s2 = (np.cumsum(part[::-1])[::-1] for part in (w, wx, wxx))
    mean = s1 / s0
    return np.array([-(deaths * mean).sum(), (deaths * (s2 / s0 - mean**2)).sum()])


class Fusion(Part):
    """Microseconds a coordinate of every form, beside the published ones."""

    table = " | ".join(f"{form}:.2f" for form in FORMS)
    published = ({"item": "published, 100,000", **PUBLISHED, "note": "us a coordinate, GV100"},)

    def jobs(self, sizes):
        return [tuple(f"{n}" for n in sizes.cells)]

    def measure(self, item, sizes):
        return measure(item, sizes)


def measure(item, sizes):
    """us a coordinate of every form, and how far their numbers are from NumPy's."""
    experiment = Experiment(choose("cuda").device, int(item), sizes.threads)
    found, errors = {}, {}
    for form in FORMS:
        difference = experiment.result(form) - experiment.expected
        errors[form] = float(np.abs(difference / experiment.expected).max())
        found[form] = 1e6 * experiment.seconds(form, sizes.coordinates, sizes.repeats)
    is_right = max(errors.values()) <= 1e-10
    note = f"{experiment.size} blocks, largest difference {max(errors.values()):.0e}"
    return {**found, "errors": errors, "passed": is_right, "note": note}
