"""Matched sets on the device."""

from functools import cached_property

import numpy as np

from ...backends.cuda.pattern import Pattern
from ...backends.cuda.team import WARP
from . import cuda_kernels as kernels

# Rows of the largest set that one thread works on, and that one warp works on.
MOST_ROWS = {"thread": 32, "warp": 512}


class SubsetPattern(Pattern):
    """The exact conditional likelihood of matched sets."""

    is_exact = False

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        plan, device = problem.plan, layout.device
        n_rows, n_sets, self.few = plan.n_rows, plan.n_strata, plan.few
        own = layout.plan.own
        cases = self._keep_counted(layout.plan.cases, row=layout.plan.first)
        self.live = self._keep_counted(layout.plan.may_count, run=own, total=cases)
        self._sets = kernels.Sets(
            layout.plan.ptr,
            own,
            cases,
            device.zeros((n_fits, n_sets), np.float64),
            device.empty((n_fits, n_sets, 2), np.int32),
            device.empty((n_fits, 2 * n_rows), np.float64),
            device.empty((n_fits, n_rows), np.float64),
            device.empty((n_fits, 2, n_rows + n_sets), np.float64),
        )
        self._workers = {
            worker: device.upload(which) for worker, which in _share_work(np.diff(plan.ptr))
        }

    @cached_property
    def _largest(self):
        return np.zeros(self.n_weights)  # where every case is certain

    @staticmethod
    def bytes_of_fit(plan):
        """Probabilities, laws and shares of rows; numbers of sets."""
        return 8 * 5 * plan.n_rows + 8 * 7 * plan.n_strata

    def evaluate(self, fits, eta, loglik):
        self._launch_sets(kernels.laws, self.layout.served(fits), eta)
        self.layout.launch_teams(kernels.evaluate, fits, self.rows, self._sets, eta, loglik)

    def new_model(self, row_type):
        shape = self.n_fits, self._plan.n_strata
        return self._model_of_groups(row_type, self.layout.device.empty(shape, np.float64))

    def refer(self, fits, eta, model):
        arguments = self.layout.served(fits), self.rows, model.h, model.inverse
        self._launch_sets(kernels.curvature, *arguments)

    def _launch_sets(self, kernel_of, fits, *arguments):
        """Launch a kernel over all sets of some fits, with a worker that suits the size of each."""
        for worker, which in self._workers.items():
            n_tasks = fits.shape[0] * which.shape[0]
            lanes = {"thread": 1, "warp": WARP, "block": self.layout.threads}[worker]
            arguments_of = fits, self._sets, which, *arguments
            self.layout.launch_wide(kernel_of(worker), n_tasks * lanes, *arguments_of)


def _share_work(sizes):
    """Pairs of a worker and the sets that it works on, by their sizes."""
    is_small, is_large = sizes <= MOST_ROWS["thread"], sizes > MOST_ROWS["warp"]
    parts = {"thread": is_small, "warp": ~is_small & ~is_large, "block": is_large}
    chosen = ((worker, np.flatnonzero(part)) for worker, part in parts.items())
    return [(worker, which.astype(np.int32)) for worker, which in chosen if len(which)]
