"""Three ways to integrate coefficients out, and to draw them, without an inverse.

With X and y as reduced, D = g V = diag(g v_j) and S = D^(1/2):

- columns: L L' = I + S X'X S, w = L^-1 S X'y, beta = S L^-T (w + sigma z).  One p^3/3.
- rows (Bhattacharya, Chakraborty and Mallick 2016): L L' = I + X D X'; u ~ N(0, sigma2 D) and
  e ~ N(0, sigma2 I); solve L L' w = y - X u - e; beta = u + D X'w.  n^2 p + n^3/3.
- diagonal, where V is the identity: the singular value decomposition of X, made once.  p min(n, p).

No eigenvalue of the matrices factored is below 1, as far as rounding, by about 1e-16 of the largest
one, lets them be: where g |X V^(1/2)|^2 nears 1e15, a factor may be refused.  No scale is divided
by.  All give

    quadratic = y'(I + X D X')^-1 y = ||y - X m||^2 + m'D^-1 m,   m the mean of beta,

as a sum of squares, and log_det = log|I + X D X'|; X V X' or its like is formed once for all g.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from .priors import DrawSite

# What a chain holds at once: the weighted Gram matrix, two factors, what they are made from and
# copies in between; scales, coefficients and what is drawn for them.
MATRICES, VECTORS = 6, 12


class Factor(NamedTuple):
    """Factored precision of the coefficients of every chain, at its scales."""

    log_det: Any  # (n_chains,)
    quadratic: Any  # (n_chains,)
    factor: Any  # (n_chains, ...): L, or the eigenvalues of I + X D X'
    solved: Any  # (n_chains, m): w above of the route by columns, L^-1 y of that by rows


def choose_route(rows, prior, n_factors):
    """The cheapest route where each sweep factors `n_factors` times."""
    m, p = rows.matrix.shape
    if issparse(rows.matrix):
        return RowsRoute
    if not prior.has_local:
        return DiagonalRoute
    return ColumnsRoute if n_factors * p**3 < 3 * m**2 * p + n_factors * m**3 else RowsRoute


class _Route:
    """Rows of a model on a backend."""

    def __init__(self, sampling, rows):
        self._sampling = sampling
        m, self.n_columns = rows.matrix.shape
        numbers = MATRICES * self._order(rows) ** 2 + VECTORS * (m + self.n_columns)
        sampling.reserve(8 * m * self.n_columns, 8 * numbers)
        self._read_matrix(rows)
        self.observe(rows)

    def observe(self, rows):
        """Take other outcomes of the same rows."""
        self.target = self._sampling.put(self._turn(rows.target))
        self.residual = self._sampling.put(rows.residual)

    def _turn(self, target):
        return target

    def _order(self, rows):
        """Order of the matrices that are factored."""
        raise NotImplementedError

    def _normal(self, site, size):
        return self._sampling.random.normal(site, size)

    def _factor_identity_plus(self, scale, matrix):
        """Factor of I + g M of every chain."""
        shifted = scale[:, None, None] * matrix
        diagonal = self._sampling.xp.arange(matrix.shape[-1])
        shifted[:, diagonal, diagonal] += 1.0
        try:
            return self._sampling.linalg.cholesky(shifted)
        except np.linalg.LinAlgError as error:
            raise FloatingPointError(
                f"{error}: coefficients may be so large next to the noise that rounding hides what "
                "their prior says; pass a larger `lam`, a smaller `lambda_rate` or `global_scale`, "
                "or a larger `noise_rate`, or rescale columns of `X`"
            ) from error


class ColumnsRoute(_Route):
    """Matrices of p x p."""

    def _order(self, rows):
        return rows.matrix.shape[1]

    def _read_matrix(self, rows):
        self._matrix = self._sampling.put(rows.matrix)
        self._gram = self._sampling.put(rows.matrix.T @ rows.matrix)

    def observe(self, rows):
        super().observe(rows)
        self._gradient = self.target @ self._matrix

    def prepare(self, local):
        """Form what local scales determine."""
        self._root = self._sampling.xp.sqrt(local)
        self._scaled = self._gram * self._root[:, :, None]
        self._scaled *= self._root[:, None, :]

    def factor(self, scale):
        xp, linalg = self._sampling.xp, self._sampling.linalg
        lower = self._factor_identity_plus(scale, self._scaled)
        root = xp.sqrt(scale)[:, None] * self._root
        solved = linalg.solve_lower(lower, root * self._gradient)
        mean = linalg.solve_upper(lower, solved)
        left = self.target - (root * mean) @ self._matrix.T
        quadratic = self.residual + (left * left).sum(axis=1) + (mean * mean).sum(axis=1)
        return Factor(linalg.log_determinant(lower), quadratic, lower, solved)

    def draw(self, factor, scale, local, sigma2):
        xp = self._sampling.xp
        noise = xp.sqrt(sigma2)[:, None] * self._normal(DrawSite.COEF, self.n_columns)
        white = self._sampling.linalg.solve_upper(factor.factor, factor.solved + noise)
        return xp.sqrt(scale[:, None] * local) * white

    def residual_square(self, coef):
        """||y - X b||^2 of every chain."""
        left = self.target - coef @ self._matrix.T
        return self.residual + (left * left).sum(axis=1)


class RowsRoute(_Route):
    """Matrices of n x n; rows may be sparse."""

    def _order(self, rows):
        return rows.matrix.shape[0]

    def _read_matrix(self, rows):
        put = self._sampling.put
        self._turned = put(rows.matrix.T)  # (p, n)
        direction = rows.direction
        self._direction = None if direction is None else put(direction)

    def prepare(self, local):
        """Form what local scales determine."""
        cross = self._sampling.linalg.weighted_gram(self._turned, local)
        s = self._direction
        if s is not None:  # P M P with P = I - s s'
            along = cross @ s
            along -= 0.5 * (along @ s)[:, None] * s
            cross -= along[:, :, None] * s
            cross -= s[:, None] * along[:, None, :]
        self._cross = cross

    def _center(self, rows):
        s = self._direction
        return rows if s is None else rows - (rows @ s)[:, None] * s

    def _fitted(self, coef):
        return self._center(self._sampling.linalg.product(self._turned.T, coef))

    def factor(self, scale):
        linalg = self._sampling.linalg
        lower = self._factor_identity_plus(scale, self._cross)
        solved = linalg.solve_lower(lower, self.target)
        quadratic = self.residual + (solved * solved).sum(axis=1)
        return Factor(linalg.log_determinant(lower), quadratic, lower, solved)

    def draw(self, factor, scale, local, sigma2):
        linalg, xp = self._sampling.linalg, self._sampling.xp
        sigma = xp.sqrt(sigma2)[:, None]
        prior = (
            sigma * xp.sqrt(scale[:, None] * local) * self._normal(DrawSite.COEF, self.n_columns)
        )
        error = sigma * self._normal(DrawSite.ERROR, self.target.shape[1])
        white = linalg.solve_lower(factor.factor, self.target - self._fitted(prior) - error)
        dual = self._center(linalg.solve_upper(factor.factor, white))
        return prior + scale[:, None] * local * linalg.product(self._turned, dual)

    def residual_square(self, coef):
        """||y - X b||^2 of every chain."""
        left = self.target - self._fitted(coef)
        return self.residual + (left * left).sum(axis=1)


class DiagonalRoute(_Route):
    """Singular values; local scales are 1."""

    def _order(self, rows):
        return 0

    def _read_matrix(self, rows):
        left, value, right = np.linalg.svd(rows.matrix, full_matrices=False)
        self._left = left
        self._value = self._sampling.put(value)
        self._right = self._sampling.put(right)  # (m, p)

    def _turn(self, target):
        return target @ self._left

    def prepare(self, local):
        """Nothing depends on local scales."""

    def factor(self, scale):
        eigenvalue = 1.0 + scale[:, None] * self._value**2
        quadratic = self.residual + (self.target**2 / eigenvalue).sum(axis=1)
        log_det = self._sampling.xp.log(eigenvalue).sum(axis=1)
        return Factor(log_det, quadratic, eigenvalue, self.target / eigenvalue)

    def draw(self, factor, scale, local, sigma2):
        xp = self._sampling.xp
        noise = xp.sqrt(sigma2 * scale)[:, None] * self._normal(DrawSite.COEF, self.n_columns)
        turned = noise @ self._right.T
        mean = scale[:, None] * self._value * factor.solved
        coef = (mean + turned / xp.sqrt(factor.factor)) @ self._right
        if len(self._value) == self.n_columns:
            return coef
        return coef + noise - turned @ self._right  # in directions that the rows do not inform

    def residual_square(self, coef):
        """||y - X b||^2 of every chain."""
        left = self.target - (coef @ self._right.T) * self._value
        return self.residual + (left * left).sum(axis=1)
