"""A problem on its way to the solvers: the data, the penalty, and the files that drivers read.

Every array is written twice, as .npy for Python and as raw little-endian .bin for R.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csc_array

ENTRIES_A_BLOCK = 1 << 22  # bounds the temporary values of indicators


@dataclass(frozen=True, eq=False)
class Data:
    """Columns of X in CSC form and the outcome; `values` is None where all are ones.

    ============= ===============================================================
    model         arrays of the outcome
    ============= ===============================================================
    cox           time, event (0, 1), stratum or none
    fine-gray     time, event (0 censored, 1 of interest, 2 competing)
    logistic      y (0, 1)
    poisson       y (counts), exposure or none
    linear        y
    case-series   y (counts), exposure (length of an era), group (subject)
    matched       y (0, 1), group (matched set); `ties` "exact" or "breslow"
    ============= ===============================================================
    """

    shape: tuple[int, int]
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray | None
    outcome: dict
    model: str = "cox"
    intercept: bool = False  # an unpenalized one
    ties: str = "breslow"

    @classmethod
    def of(cls, simulated):
        """Take over a simulated data set of survival times."""
        X = csc_array(simulated.X)
        indptr, indices = X.indptr.astype(np.int32), X.indices.astype(np.int32)
        values = None if np.all(X.data == 1.0) else np.asarray(X.data, float)
        time, event = (np.ascontiguousarray(simulated.y[name]) for name in ("time", "event"))
        outcome = {"time": time, "event": event.astype(np.int32), "stratum": simulated.strata}
        return cls(X.shape, indptr, indices, values, outcome)

    def __getitem__(self, name):
        """One array of the outcome, or None."""
        return self.outcome.get(name)

    @property
    def n_nonzeros(self):
        return len(self.indices)

    @property
    def n_events(self):
        """Events of interest; None where the outcome has none."""
        if self.model == "linear":
            return None
        events = self["event"] == 1 if self.model in ("cox", "fine-gray") else self["y"]
        return int(events.sum())

    @property
    def n_groups(self):
        """Strata, subjects or matched sets."""
        labels = self["stratum"] if self.model == "cox" else self["group"]
        return 1 if labels is None else len(np.unique(labels))

    def table(self):
        """X in SciPy's form."""
        values = np.ones(self.n_nonzeros) if self.values is None else self.values
        return csc_array((values, self.indices, self.indptr), self.shape)

    def _blocks(self):
        """Ranges of columns, each with its part of X."""
        first, n_columns = 0, self.shape[1]
        while first < n_columns:
            last = np.searchsorted(self.indptr, self.indptr[first] + ENTRIES_A_BLOCK, "right") - 1
            end = int(min(max(last, first + 1), n_columns))
            low, high = self.indptr[first], self.indptr[end]
            values = np.ones(high - low) if self.values is None else self.values[low:high]
            indptr = self.indptr[first : end + 1] - low
            shape = (self.shape[0], end - first)
            yield slice(first, end), csc_array((values, self.indices[low:high], indptr), shape)
            first = end

    def times(self, coef):
        """X coef."""
        out = np.zeros(self.shape[0])
        for columns, block in self._blocks():
            if coef[columns].any():
                out += block @ coef[columns]
        return out

    def transposed_times(self, u):
        """X'u."""
        out = np.empty(self.shape[1])
        for columns, block in self._blocks():
            out[columns] = block.T @ u
        return out


def write_problem(directory, data, penalty, penalty_max, tolerance):
    """Write what a driver reads: minimize -loglik + penalty * sum|b|.

    `tolerance` bounds the KKT residual relative to `penalty_max`, for solvers that can be asked
    for one.
    """
    directory = Path(directory)
    shape = {"n": data.shape[0], "p": data.shape[1], "lambda": float(penalty)}
    shape |= {"lambda_max": float(penalty_max), "tol": tolerance}
    shape |= {"model": data.model, "intercept": data.intercept, "ties": data.ties}
    (directory / "shape.json").write_text(json.dumps(shape))
    columns = {"X_indptr": data.indptr, "X_indices": data.indices, "X_data": data.values}
    for name, array in {**columns, **data.outcome}.items():
        if array is not None:
            kind = "<f8" if array.dtype.kind == "f" else "<i4"
            array.astype(kind, copy=False).tofile(directory / f"{name}.bin")
            np.save(directory / f"{name}.npy", array)
