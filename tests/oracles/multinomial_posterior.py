"""Posteriors of multinomial logistic models with one or two coefficients, by sums over a grid.

Nothing here is shared with the package: probabilities are written out, and moments are sums over a
fine grid of the normalized density, whose error for smooth densities falls faster than any power of
the spacing.
"""

import numpy as np


def log_likelihood(X, counts, coef):
    """Log-likelihood of coefficients (k - 1, p) by plain loops; the last category has none."""
    total = 0.0
    for x, row in zip(X, counts, strict=True):
        eta = [float(np.dot(x, b)) for b in coef] + [0.0]
        top = max(eta)
        log_sum = top + np.log(sum(np.exp(e - top) for e in eta))
        total += sum(int(y) * (e - log_sum) for y, e in zip(row, eta, strict=True))
    return total


class GridPosterior:
    """Posterior of k - 1 = 1 or 2 coefficients of one column, with independent normal priors."""

    def __init__(self, x, counts, mean, precision, reach=12.0, size=601):
        k = counts.shape[1]
        self.axis = np.linspace(-reach, reach, size)
        axes = np.meshgrid(*[self.axis] * (k - 1), indexing="ij")
        self.points = np.stack([axis.ravel() for axis in axes], axis=1)
        log_density = np.zeros(len(self.points))
        for value, row in zip(x, counts, strict=True):
            eta = np.column_stack([value * self.points, np.zeros(len(self.points))])
            top = eta.max(axis=1)
            log_sum = top + np.log(np.exp(eta - top[:, None]).sum(axis=1))
            log_density += eta @ row - row.sum() * log_sum
        log_density -= 0.5 * ((self.points - mean) ** 2 * precision).sum(axis=1)
        mass = np.exp(log_density - log_density.max())
        self.mass = mass / mass.sum()

    def moments(self):
        """Means, then second moments b_j b_l for l <= j."""
        return self.mass @ functions(self.points)

    def draw(self, rng, n):
        """Draws, spread over the cells of the grid."""
        chosen = self.points[rng.choice(len(self.mass), n, p=self.mass)]
        return chosen + (self.axis[1] - self.axis[0]) * (rng.random(chosen.shape) - 0.5)


def functions(coef):
    """Coefficients (..., d) and their products, (..., d + d (d + 1) / 2)."""
    first, second = np.tril_indices(coef.shape[-1])
    return np.concatenate([coef, coef[..., first] * coef[..., second]], axis=-1)
