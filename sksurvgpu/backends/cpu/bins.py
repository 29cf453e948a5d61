"""The quadratic model's second term: sum_k h_k h_k' / N_k over event-time bins k of every stratum.

With D, A of `risk_sets`, the part of h_i that belongs to bin k of the row's stratum is

    h_ik = w_i (A[end_k] - A[start_k])      where the row's exit lies in a later bin
    h_ik = h_i - w_i A[start_k]             in the bin of its exit (less the same at its entry)

so nothing is stored per row and bin.  A row that is carried beyond its exit (`carried`) has a
mirrored part there, c_i (B[start_k] - B[end_k]) in later bins and c_i B[exit_i] - c_i B[end_k] in
its own.  Groups without time, such as all rows under one intercept, are bins with A = 0.

Where predictors are so far apart that w and A have no common scale, w_i A[start] of the bin of the
row's exit takes the place of w_i, and what rows of later bins add up to decays from bin to bin; the
mirrored part likewise, by c_i B[end].  With late entries sums would be differences: the bins from a
row's entry to its exit are nodes of a tree, and what nodes add up to is shared out to their bins.

Few bins: the loads c_jk = x_j'h_k are kept for the columns of a matrix.  Many groups: one bin each,
so that a row has one, and a column's loads are as many as its entries.
"""

from typing import NamedTuple

import numpy as np

# Below this share of sum x^2 h the curvature is rounding: the column is constant within bins.
CONSTANT = 1e-13


class TreeParts(NamedTuple):
    """h of rows by nodes of a tree over bins: node q covers 2q and 2q + 1, bin k is n_bins + k."""

    node: np.ndarray  # per part and row, as exit_bin
    h: np.ndarray  # per part and row; 0 beyond the parts that a row has
    share: np.ndarray  # per node, of what its parent has


class Bins(NamedTuple):
    """Bins of rows, and the model's numbers per bin; None for what a pattern knows nothing of."""

    exit_bin: np.ndarray  # per row: uint16 (few) or uint32
    last: np.ndarray  # int64 per bin: last bin of its stratum
    base: np.ndarray  # A[start]
    jump: np.ndarray  # A[end] - A[start]
    inverse: np.ndarray  # 1 / N, 0 where nobody died
    row_ptr: np.ndarray | None  # int64 per bin + 1: its rows, where these are in their order
    w_row: np.ndarray | None = None  # without time None
    enter_bin: np.ndarray | None = None  # per row
    enter_hazard: np.ndarray | None = None  # A[enter] per row
    carried_row: np.ndarray | None = None  # c_i, 0 where the row is not carried
    after: np.ndarray | None = None  # B[end]
    fall: np.ndarray | None = None  # B[start] - B[end]
    decay: np.ndarray | None = None  # A[start] / A[end], where w_row is w A[start]
    fade: np.ndarray | None = None  # B[end] / B[start], where carried_row is c B[end]
    parts: TreeParts | None = None  # in place of all that is of rows


def bins_of_groups(group_idx, inverse, ptr):
    """Bins of rows whose groups know no time: one a group, `inverse` is 1 / sum h of each."""
    zeros = np.zeros(len(inverse))
    return Bins(group_idx, np.arange(len(inverse)), zeros, zeros, inverse, ptr)


class Strata(NamedTuple):
    """Strata of rows in tiles, numbered within each tile: never more than its rows."""

    number: np.ndarray  # uint16, per row
    ptr: np.ndarray  # int64 (n_tiles + 1,): strata of each
    inverse: np.ndarray  # 1 / N, per stratum and tile
    goes_on: np.ndarray  # bool, per tile: whether its last has rows in the next

    @classmethod
    def of(cls, starts, bins):
        """Strata of rows in tiles that start where it is said; each is a range of rows."""
        label, first = bins.exit_bin, starts[:-1]
        is_new = np.ones(len(label), bool)
        is_new[1:] = label[1:] != label[:-1]
        goes_on = np.append(~is_new[first[1:]], False)
        is_new[first[first < len(label)]] = True
        count = np.concatenate([[0], np.cumsum(is_new)])  # of strata that began before a row
        ptr = count[starts]
        number = (count[1:] - 1 - np.repeat(ptr[:-1], np.diff(starts))).astype(np.uint16)
        return cls(number, ptr, bins.inverse[label[is_new]], goes_on)


class Centring:
    """The model's second term in the form that its number of bins allows."""

    def __init__(self, bins, few):
        self.bins, self.few, self._strata = bins, few, None

    @property
    def n_bins(self):
        return len(self.bins.base)

    def strata(self, starts):
        """Strata of the rows of every tile, where each is a bin and a range of rows."""
        if self._strata is None:
            self._strata = Strata.of(starts, self.bins)
        return self._strata
