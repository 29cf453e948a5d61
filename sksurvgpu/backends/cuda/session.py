"""A batch of fits on the device: its rows, and the quadratic models that the solver asks for."""

from functools import cached_property

import numpy as np

from ..._memory import available
from ..contract import Counts, Room
from . import products
from .curvatures import CurvatureLaunches
from .exact import run_cycle
from .matrices import Matrices
from .memory import HOST_ELEMENTS, SHARE, dense_bytes, has_matrices
from .predictor import Predictors


class Session(Predictors):
    """Rows and quadratic models; `formulas` are those of a penalty, for whole fits."""

    def __init__(self, layout, problem, weights, offsets, n_fits, row_type, formulas=None):
        super().__init__(layout, problem, weights, offsets, n_fits)
        self._formulas, few = formulas, self.pattern.few
        self.model = self.pattern.new_model(row_type)  # as last taken
        self._curvatures = CurvatureLaunches(
            layout, few, n_fits, self.n_columns, self.model.last.shape[0]
        )
        # A matrix stays at its point, while curvatures are taken at later ones.
        at_rest = self.pattern.new_model(row_type) if has_matrices(few) else None
        self._matrices = Matrices(layout, self._curvatures, at_rest)

    def curvature(self, fits, columns):
        """Curvature of columns at the last evaluation, centred and plain, and the sum of h."""
        self._take_model(fits)
        return self._curvatures.find(self.model, fits, *self._tasks(fits, columns))

    def _take_model(self, fits):
        """Have the model of the last evaluation."""
        self._refer(fits[~self._has_model[fits]], self.model)
        self._has_model[fits] = True

    def _refer(self, fits, model):
        for where, eta, _ in self.sides(fits):
            self.pattern.refer(fits[where], eta, model)

    def room(self, fits):
        """Room for matrices on the host, where bins are few and CuPy is there; else it is none."""
        n_bytes = 0.0
        if has_matrices(self.pattern.few):
            n_bytes = min(SHARE * available() / len(self._side), self._room)
        return [Room(n_bytes, True, ("diagonal", "matrix"))] * len(fits)

    @cached_property
    def _room(self):
        """Bytes on the host of the largest matrix of which the device can make all rows at once."""
        return HOST_ELEMENTS * SHARE * (self.device.free_bytes() - dense_bytes(self.device))

    def matrix(self, fits, columns, knowns):
        """Rows of matrices over columns, at the points where nothing of them was known."""
        anew = fits[np.equal(knowns, 0)]
        self._take_model(anew)
        self._refer(anew, self._matrices.model)
        return self._matrices.rows(fits, columns, knowns)

    def count(self, fits, columns):
        """Counts of what a model over columns would touch, from counts of entries alone."""
        size, source = self.layout.entries, self._source
        copies = self.n_rows / max(self.layout.cut[-1], 1)
        rows = int(self.layout.cut[-1])
        found = []
        for where in columns:
            own = float(size[source[where]].sum())
            pairs = own**2 / (2.0 * max(rows, 1))  # as if columns were independent
            found.append(
                Counts(
                    own, copies * own, float(size.sum()), pairs, 0.0, self.pattern.is_exact, rows
                )
            )
        return found

    def cycle(self, fits, columns, coefs, penalties, reaches):
        """One exact Newton step a column; new coefficients and trust region."""
        events = self._multiply(products.multiply_events, fits, columns, self.rows)
        steps = self.pattern.exact_steps(self.settle(fits))
        numbers = columns, coefs, penalties, events, reaches
        return run_cycle(self.layout, steps, self._formulas.minimum, fits, numbers)
