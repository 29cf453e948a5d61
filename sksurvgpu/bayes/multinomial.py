r"""Multinomial logistic regression: its rows, and its samplers.

:math:`y_i \sim \mathrm{Multinomial}(n_i, \mathrm{softmax}(x_i^\top\beta_1, \ldots,
x_i^\top\beta_m, 0))` and :math:`\beta_j \sim N(m_j, P_j^{-1})`.  Given the other categories,
category j is a logistic regression with the offset
:math:`c_{ij} = \log\sum_{l \ne j} e^{\eta_{il}}` (Holmes and Held 2006), whose likelihood is normal
given Polya-Gamma variables (Polson, Scott and Windle 2013).  A Gibbs sweep makes, for one category
after the other and with the others as they are now,

.. math:: \omega_{ij} &\sim PG(n_i, \eta_{ij} - c_{ij}), \\
          \beta_j &\sim N(V(X^\top(\kappa_j + \omega_j \circ c_j) + P_j m_j), V),
          \quad V^{-1} = X^\top\mathrm{diag}(\omega_j)X + P_j, \quad \kappa_{ij} = y_{ij} - n_i/2.

Variables drawn before the other categories moved would belong to other offsets, and the draws to
another distribution.  Costs n q^2 a category.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from .hmc import DISPERSION, HmcSampler, Whitening
from .softmax import SoftmaxTarget

# Sites of the random numbers of an iteration; category j adds j * STRIDE.
OMEGA, COEF, START, STRIDE = 0, 1, 2, 3


@dataclass(frozen=True, eq=False)
class MultinomialRows:
    """Rows of X with their counts; rows that are alike have been added up."""

    X: np.ndarray  # (n, q)
    y: np.ndarray  # (1, m, n): counts of the categories but the reference, the last
    count: np.ndarray  # (n,), int64: trials of each row, ascending

    def put(self, sampling):
        """Return the rows for all chains of a backend."""
        return sampling.softmax_rows(
            sampling.put(self.X), sampling.put(self.y), sampling.put(self.count)
        )


def collapse_rows(X, counts) -> MultinomialRows:
    """Add up the counts of rows that are alike, and order rows by their number of trials.

    Neighbouring threads of a device then draw about as many Polya-Gamma variables. `X` is an array
    or a csr_array (n, q) with sorted indices and no explicit zeros, `counts` (n, k) are int64 and
    of all categories; rows without any are left out.
    """
    n_trials = counts.sum(axis=1)
    order = np.flatnonzero(n_trials)
    order = order[np.argsort(_hash_rows(X)[order], kind="stable")]
    first = np.flatnonzero(np.concatenate([[True], ~_repeats(X[order])]))
    summed = np.add.reduceat(counts[order], first, axis=0)
    by_trials = np.argsort(summed.sum(axis=1), kind="stable")
    summed = summed[by_trials]
    return MultinomialRows(
        X[order[first[by_trials]]],
        np.ascontiguousarray(summed[:, :-1].T, dtype=np.float64)[None],
        summed.sum(axis=1),
    )


def _hash_rows(X):
    """An integer for each row, the same for equal rows and hardly ever for others."""
    rng = np.random.default_rng(0)
    factor = rng.integers(0, 2**64, X.shape[1], dtype=np.uint64, endpoint=False)
    if issparse(X):
        products = np.append(_mix(X.data) * factor[X.indices], np.uint64(0))
        hashed = np.add.reduceat(products, X.indptr[:-1])
        return np.where(np.diff(X.indptr) > 0, hashed, np.uint64(0))
    return sum(_mix(column) * f for column, f in zip(X.T, factor, strict=True))


def _mix(values):
    """Bits of float64 numbers with the upper ones, all that round numbers have, below, too."""
    bits = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    return bits ^ (bits >> np.uint64(52))


def _repeats(X):
    """Whether each row but the first is equal to the one before it."""
    if X.shape[0] < 2:
        return np.empty(0, bool)
    differs = X[1:] != X[:-1]
    if issparse(X):
        return np.diff(differs.tocsr().indptr) == 0
    return ~differs.any(axis=1)


class _Split:
    """Names and shapes of what is recorded of coefficients (B, m, q)."""

    def __init__(self, n_categories, n_columns, has_intercept):
        self.shapes = {"coef": (n_categories, n_columns - has_intercept)}
        if has_intercept:
            self.shapes["intercept"] = (n_categories,)

    def state(self, coef):
        if "intercept" not in self.shapes:
            return {"coef": coef}
        return {"coef": coef[:, :, :-1], "intercept": coef[:, :, -1]}


class MultinomialGibbs:
    """Gibbs chains with Polya-Gamma variables, of `SoftmaxRows` on the backend of the `sampling`.

    They start about the mode (m q,), from the normal distribution of whose precision `factor` is
    the lower Cholesky factor, more dispersed by `hmc.DISPERSION`. The last column of X may be an
    intercept's, which is recorded by this name.
    """

    def __init__(self, sampling, rows, prior, mode, factor, *, has_intercept=False):
        self.sampling = sampling
        n_categories, n_columns = prior.mean.shape
        self._split = _Split(n_categories, n_columns, has_intercept)
        self.shapes = self._split.shapes
        self._rows, self._prior = rows, prior.put(sampling)
        away = sampling.to_host(sampling.random.normal(START, prior.mean.size))
        start = mode + DISPERSION * Whitening(factor).to_positions(away)
        self.coef = sampling.put(start.reshape(-1, n_categories, n_columns))
        rows.place(self.coef)

    def sweep(self, tuning):
        """Draw all categories once; there is nothing to tune."""
        for j in range(self.coef.shape[1]):
            self._draw_category(j)

    def state(self):
        """Return the current coefficients and intercepts, of shapes (B, ...)."""
        return self._split.state(self.coef)

    def snapshot(self):
        """Return all that later sweeps depend on, arrays of the host by name.

        Predictors are kept with their rounding, which is that of the sweeps so far.
        """
        arrays = {"coef": self.coef, **self._rows.snapshot()}
        return {name: self.sampling.to_host(array) for name, array in arrays.items()}

    def restore(self, snapshot):
        """Go back to a snapshot."""
        arrays = {name: self.sampling.put(array) for name, array in snapshot.items()}
        self.coef = arrays.pop("coef")
        self._rows.restore(arrays)

    def _draw_category(self, j):
        rows, random, linalg = self._rows, self.sampling.random, self.sampling.linalg
        offset = rows.offset(j)
        omega = random.polya_gamma(OMEGA + j * STRIDE, rows.count, rows.predictor(j) - offset)
        precision = linalg.weighted_gram(rows.X, omega)
        self._prior.add_precision(j, precision)
        kappa = rows.y[:, j] - 0.5 * rows.count
        right = rows.project(kappa + omega * offset) + self._prior.times(j, self._prior.mean[j])
        factor = linalg.cholesky(precision)
        noise = random.normal(COEF + j * STRIDE, self.coef.shape[2])
        drawn = linalg.solve_upper(factor, linalg.solve_lower(factor, right) + noise)
        if not self.sampling.xp.isfinite(drawn).all():
            raise FloatingPointError(
                f"a draw of the coefficients of category {j} is not finite; rescale the columns of "
                "X, or pass a larger prior precision."
            )
        self.coef[:, j] = drawn
        rows.move(j, drawn)


class MultinomialHmc:
    """Hamiltonian chains on the host, preconditioned at the mode, of `SoftmaxRows` on any backend.

    Mode and factor are those of `softmax.find_mode`. The last column of X may be an intercept's,
    which is recorded by this name.
    """

    def __init__(self, sampling, rows, prior, mode, factor, *, has_intercept=False):
        self.sampling = sampling
        shape = prior.mean.shape
        self._split = _Split(*shape, has_intercept)
        self.shapes = self._split.shapes
        target = SoftmaxTarget(rows, prior)
        self._hmc = HmcSampler(sampling, target, mode, factor, shapes={"coef": shape})
        self.sweep, self.n_divergent = self._hmc.sweep, self._hmc.n_divergent
        self.snapshot, self.restore = self._hmc.snapshot, self._hmc.restore

    def state(self):
        """Return the current coefficients and intercepts, of shapes (B, ...)."""
        return self._split.state(self._hmc.state()["coef"])
