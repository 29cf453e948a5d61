"""Data sets of SurvSet as matrices, and Cox's scores on all their rows at once.

SurvSet (Drysdale 2022, arXiv:2203.03094) holds 77 published cohorts in the units of their authors.
A missing number becomes the median, a missing category one more; a category is an indicator, but
for each factor's first; constant columns are left out.  Every event counts, of whatever kind.
"""

import warnings
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Cohort:
    """Columns in their own units; `start` is None without entry times."""

    name: str
    X: np.ndarray
    start: np.ndarray | None
    time: np.ndarray
    event: np.ndarray

    @property
    def deviation(self):
        return self.X.std(axis=0)

    @property
    def standardized(self):
        return (self.X - self.X.mean(axis=0)) / self.deviation

    def independent(self):
        """Positions of columns that are no combination of those before them."""
        Q, kept = np.zeros((len(self.X), 0)), []
        for j, column in enumerate(self.standardized.T):
            rest = column - Q @ (Q.T @ column)
            rest -= Q @ (Q.T @ rest)
            if np.linalg.norm(rest) > 1e-6 * np.linalg.norm(column):
                Q, kept = np.column_stack([Q, rest / np.linalg.norm(rest)]), [*kept, j]
        return np.array(kept)


def read_cohort(name):
    """One data set as a `Cohort`."""
    import pandas as pd
    from SurvSet.data import SurvLoader

    with warnings.catch_warnings():  # its pickles name a module that NumPy has moved
        warnings.simplefilter("ignore", DeprecationWarning)
        table = SurvLoader().load_dataset(ds_name=name)["df"]
    columns = []
    for label in table:
        if label.startswith("num_"):
            values = table[label].astype(float)
            columns.append(values.fillna(values.median()).to_numpy())
        elif label.startswith("fac_"):
            values = table[label].astype(object).where(table[label].notna(), "missing")
            levels = pd.unique(values.astype(str))
            columns += [
                (values.astype(str) == level).to_numpy(float) for level in sorted(levels)[1:]
            ]
    X = np.column_stack(columns)
    X = X[:, np.ptp(X, axis=0) > 0]
    has_entry = "time2" in table
    return Cohort(
        name,
        X,
        table["time"].to_numpy(float) if has_entry else None,
        table["time2" if has_entry else "time"].to_numpy(float),
        table["event"].to_numpy() > 0,
    )


def cox_scores(cohort, X, eta, ties="breslow"):
    """Gradient of the log partial likelihood in the coefficients of X, and its curvatures.

    A row is at risk at t when start < t <= time, so that every sum over the rows at risk is one
    over those that have not ended less one over those that have not begun.  Columns are to be
    centred, lest digits be lost.
    """
    w, died = np.exp(eta - eta.max()), cohort.event
    times, at = np.unique(cohort.time[died], return_inverse=True)
    count = np.bincount(at)
    atom = np.repeat(np.arange(len(times)), count)  # a tied death each
    first = np.cumsum(count) - count
    held = (np.arange(len(atom)) - first[atom]) / count[atom] if ties == "efron" else 0.0

    def sums(values):
        """At each atom, over the rows at risk; tied deaths are held back in part."""
        total = _sum_from(cohort.time, values, times, "left")
        if cohort.start is not None:
            total = total - _sum_from(cohort.start, values, times, "left")
        tied = np.zeros_like(total)
        np.add.at(tied, at, values[died])
        weight = np.broadcast_to(held, atom.shape).reshape(-1, *[1] * (values.ndim - 1))
        return total[atom] - weight * tied[atom]

    mass = sums(w)
    gradient, curvature = np.empty(X.shape[1]), np.empty(X.shape[1])
    for block in np.array_split(np.arange(X.shape[1]), 1 + X.shape[1] // 100):
        part = X[:, block]
        mean = sums(w[:, None] * part) / mass[:, None]
        square = sums(w[:, None] * part**2) / mass[:, None]
        gradient[block] = part[died].sum(axis=0) - mean.sum(axis=0)
        curvature[block] = (square - mean**2).sum(axis=0)
    return gradient, curvature


def _sum_from(when, values, times, side):
    """Sums over the rows whose time is not before each of some times."""
    order = np.argsort(when, kind="stable")
    tail = np.cumsum(values[order][::-1], axis=0)[::-1]
    tail = np.concatenate([tail, np.zeros_like(tail[:1])])
    return tail[np.searchsorted(when[order], times, side=side)]
