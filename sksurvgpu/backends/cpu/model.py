"""The quadratic model of a fit at one point: curvature of columns, and matrices over them.

It is ``-u'v + v'Mv/2`` with v = Xd, M = diag(h) - sum_k h_k h_k'/N_k, and outlives evaluations:
what it keeps is h, one number a row, and what a pattern's centring keeps of its bins.
"""

import numpy as np

from . import tile_gram
from .grouped_gram import PairTables
from .tile_loads import LOAD_BYTES, load

BLOCK = 512  # neighbouring rows of a sample


class Model:
    """The model where a pattern was evaluated last."""

    def __init__(self, products, pattern, eta, u):
        self._products, self._h = products, np.empty(len(eta))
        self._centring = pattern.refer(eta, u, self._h)
        self._loads = None  # of the columns that its matrix has, where bins are few
        self._tables = PairTables()

    @property
    def total(self):
        """Sum of h."""
        return float(self._h.sum())

    def curvature(self, columns):
        """Curvature of columns, and without the second term, (columns, 2); no loads are kept."""
        curvature, size = np.empty((len(columns), 2)), len(columns)
        if self._centring.few:
            size = LOAD_BYTES // (8 * self._centring.n_bins)
        for low in range(0, len(columns), max(1, size)):
            part = slice(low, low + max(1, size))
            curvature[part], _ = self._load(columns[part])
        return curvature

    def _load(self, columns):
        return load(self._products, columns, self._h, self._centring)

    def matrix(self, columns, known):
        """Rows ``known:`` of the matrix over columns, the first of which it has had before."""
        curvature, loads = self._load(columns[known:])
        if known and loads is not None:
            loads = np.concatenate([self._loads, loads])
        self._loads = loads
        rows = tile_gram.rows_of_model(
            self._products, columns, known, self._h, self._centring, loads, self._tables
        )
        new = np.arange(len(rows))
        rows[new, known + new] = curvature[:, 0]
        return rows

    def factor(self, columns):
        """Rows of the matrix's factor, its signs, and curvatures, where bins are few."""
        curvature, loads = self._load(columns)
        rows = tile_gram.values_of(self._products, columns)
        rows *= np.sqrt(np.maximum(self._h, 0.0))  # may be negative by rounding
        rows = np.hstack([rows, loads * np.sqrt(self._centring.bins.inverse)])
        rows[curvature[:, 0] <= 0.0] = 0.0
        sign = np.repeat((1.0, -1.0), (len(self._h), loads.shape[1]))
        return rows, sign, curvature[:, 0]

    def sample(self, columns, n_rows):
        """A matrix of some blocks of rows alone, less their common mean."""
        products, h = self._products, np.maximum(self._h, 0.0)
        every = max(1, products.n_base // max(1, n_rows))
        is_sampled = (np.arange(products.n_base) // BLOCK) % every == 0
        for piece, first in enumerate(products.first):
            h[products.copies(piece)] *= is_sampled[first:]
        return tile_gram.centred_rows(products, columns, h)
