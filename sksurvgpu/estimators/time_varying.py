"""Columns whose coefficient changes at cut points: which coefficient applies when.

Pieces (c_{b-1}, c_b] are cut at the union of all columns' cut points. A column with cut points has
one coefficient for each of its own intervals, every one of them a run of pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.by_column import check_time_varying


@dataclass(frozen=True, eq=False)
class Terms:
    """The model's coefficients, in the order of the columns of X, then of time."""

    cuts: np.ndarray  # (n_pieces - 1,): union of the cut points
    source: np.ndarray  # (n_coef,), int64: column of X that a coefficient belongs to
    # (n_coef, 2), int64: first piece where it applies, and the piece after the last
    piece_ptr: np.ndarray

    @classmethod
    def of(cls, time_varying, n_columns: int, names) -> Terms:
        """Lay out the coefficients for the estimator's parameter `time_varying`."""
        spec = check_time_varying(time_varying, n_columns, names)
        cuts = np.unique(np.concatenate([np.empty(0), *spec.values()]))
        n_intervals = np.ones(n_columns, np.int64)
        for j, own in spec.items():
            n_intervals[j] = len(own) + 1
        source = np.repeat(np.arange(n_columns, dtype=np.int64), n_intervals)
        piece_ptr = np.tile(np.array([0, len(cuts) + 1], dtype=np.int64), (len(source), 1))
        first = np.cumsum(n_intervals) - n_intervals
        for j, own in spec.items():
            edges = np.searchsorted(cuts, own) + 1
            terms = slice(first[j], first[j] + n_intervals[j])
            piece_ptr[terms, 0] = np.append(0, edges)
            piece_ptr[terms, 1] = np.append(edges, len(cuts) + 1)
        return cls(cuts, source, piece_ptr)

    @property
    def n_pieces(self) -> int:
        return len(self.cuts) + 1

    def piece_at(self, time: float) -> int:
        """Piece that holds a time; a cut point belongs to the piece that it ends."""
        return int(np.searchsorted(self.cuts, time, side="left"))

    def columns_at(self, coef, piece: int, n_columns: int) -> np.ndarray:
        """Coefficient of every column of X inside a piece."""
        applies = (self.piece_ptr[:, 0] <= piece) & (piece < self.piece_ptr[:, 1])
        out = np.empty(n_columns)
        out[self.source[applies]] = coef[applies]
        return out

    def predictors(self, design, coef) -> np.ndarray:
        """Linear predictor of every row in each piece, (n_rows, n_pieces)."""
        pieces, n_columns = range(self.n_pieces), design.n_columns
        parts = [design.dot(self.columns_at(coef, piece, n_columns)) for piece in pieces]
        return np.stack(parts, axis=1)

    def count_by_piece(self, count, outcome, predictors, weight):
        """Rows at risk in each piece of time, and what a function counts of their pairs there."""
        edges = [0.0, *self.cuts, np.inf]
        for b in range(self.n_pieces):
            rows = outcome.time > edges[b] if b else slice(None)  # the others have left
            time = outcome.time[rows]
            yield (
                rows,
                count(
                    outcome.event[rows] & (time <= edges[b + 1]),
                    np.minimum(time, edges[b + 1]),
                    predictors[rows, b],
                    start=None if outcome.start is None else outcome.start[rows],
                    stratum=None if outcome.stratum is None else outcome.stratum[rows],
                    weight=None if weight is None else weight[rows],
                ),
            )

    def names(self, columns) -> list[str]:
        """Name of every coefficient: the column's, with the interval where it is one of several."""
        edges = [0.0, *self.cuts.tolist(), np.inf]
        labels = []
        for j, (first, end) in zip(self.source.tolist(), self.piece_ptr.tolist(), strict=True):
            if end - first == self.n_pieces:
                labels.append(str(columns[j]))
                continue
            close = ")" if np.isinf(edges[end]) else "]"
            labels.append(f"{columns[j]} ({_short(edges[first])}, {_short(edges[end])}{close}")
        return labels


def _short(number: float) -> str:
    """Fewest digits that tell it from any other number."""
    return repr(number).removesuffix(".0")
