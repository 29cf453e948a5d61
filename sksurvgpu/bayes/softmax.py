r"""The posterior of a multinomial logistic model: density, gradient, mode and curvature.

With m = k - 1 categories beside the reference and normal priors,

.. math:: \log\pi(\beta) = \sum_i \Bigl(\sum_j y_{ij}\eta_{ij} - n_i \log\sum_{l=1}^k
          e^{\eta_{il}}\Bigr) - \tfrac12\sum_{j=1}^m (\beta_j - m_j)^\top P_j (\beta_j - m_j),

whose gradient by :math:`\beta_j` is :math:`X^\top(y_j - n \circ p_j) - P_j(\beta_j - m_j)`, and
minus whose Hessian has the blocks :math:`X^\top\mathrm{diag}(n \circ p_j \circ (\delta_{jl} -
p_l))X + \delta_{jl}P_j`.  It is concave.  The mode is found by Newton's method while the Hessian
is of moderate order, and beyond by L-BFGS in coordinates that are standard normal to the extent
that the blocks of single categories, or the diagonal, say so.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf
from scipy.optimize import minimize

from .hmc import Whitening
from .newton import MOST_STEPS, STILL, search_line

LARGEST_ORDER = 2_000  # of a Hessian that is factored whole
LARGEST_BLOCKS = 1 << 25  # numbers in the blocks of single categories, 256 MiB
MOST_ITERATIONS = 5_000  # of a search by gradients
CLOSE = 1e-10  # squared distance to the mode, in standard deviations of the posterior
# Of whitened coordinates: where a search by gradients ends, and where it has failed.
SMALL_SLOPE, LARGEST_SLOPE = 1e-3, 0.1
COLLINEAR = 1e-10  # share of a coefficient's information that others leave to it


@dataclass(frozen=True, eq=False)
class CategoriesPrior:
    """Normal priors of the coefficients of m categories."""

    mean: np.ndarray  # (m, q)
    precision: np.ndarray  # (m, q): diagonals, or whole symmetric matrices

    def __post_init__(self):
        self._number_columns(np.arange(self.mean.shape[1]))

    def _number_columns(self, order):
        object.__setattr__(self, "_order", order)

    def put(self, sampling):
        """Return the same prior in arrays of a backend."""
        found = replace(self, mean=sampling.put(self.mean), precision=sampling.put(self.precision))
        found._number_columns(sampling.put(self._order))
        return found

    def times(self, j, coef):
        """P_j v for vectors (..., q)."""
        of_category = self.precision[j]
        return coef * of_category if of_category.ndim == 1 else coef @ of_category

    def add_precision(self, j, matrices):
        """Add P_j to matrices (..., q, q)."""
        if self.precision.ndim == 3:
            matrices += self.precision[j]
        else:
            matrices[..., self._order, self._order] += self.precision[j]

    def diagonal(self):
        """Diagonals of the precisions, (m, q)."""
        if self.precision.ndim == 2:
            return self.precision
        return np.diagonal(self.precision, axis1=1, axis2=2)

    def value_and_gradient(self, coef):
        """Log density, up to a constant, and gradient at coefficients (B, m, q)."""
        away = coef - self.mean
        gradient = np.stack([-self.times(j, away[:, j]) for j in range(len(self.mean))], axis=1)
        return 0.5 * (away * gradient).sum(axis=(1, 2)), gradient

    def is_proper(self):
        """Whether every direction has a precision that is more than rounding."""
        if self.precision.ndim == 2:
            return bool((self.precision > 0).all())
        values = np.linalg.eigvalsh(self.precision)
        return bool((values[:, 0] > values.shape[1] * np.finfo(float).eps * values[:, -1]).all())


class SoftmaxTarget:
    """Log density of the posterior at positions (B, m q), the coefficients by category."""

    def __init__(self, rows, prior):
        self.rows, self.prior = rows, prior

    def value_and_gradient(self, positions):
        """Log density (B,), up to a constant, and gradient (B, m q)."""
        coef = positions.reshape(-1, *self.prior.mean.shape)
        value, gradient = self.rows.value_and_gradient(coef)
        of_prior, slope = self.prior.value_and_gradient(coef)
        return value + of_prior, (gradient + slope).reshape(positions.shape)


def factor_curvature(sampling, target, position):
    """Lower Cholesky factor of minus the Hessian at a position (m q,), from one chain's rows.

    It is whole (m q, m q) up to an order of `LARGEST_ORDER`; a list of m blocks (q, q) by category
    while they have `LARGEST_BLOCKS` numbers; else a diagonal (m q,).
    """
    n_categories, n_columns = target.prior.mean.shape
    probability = target.rows.probability(position.reshape(1, n_categories, n_columns))[0]
    order = n_categories * n_columns
    if order <= LARGEST_ORDER:
        return _cholesky(_whole(sampling, target, probability))
    if order * n_columns <= LARGEST_BLOCKS:
        return [
            _cholesky(_block(sampling, target, probability, j, j), j * n_columns)
            for j in range(n_categories)
        ]
    return np.sqrt(_diagonal(sampling, target, probability))


class _NotDefinite(np.linalg.LinAlgError):
    """A curvature without information on a coefficient beyond that on those before it."""

    def __init__(self, coefficient):
        super().__init__("the curvature is not positive definite")
        self.coefficient = coefficient


def _cholesky(matrix, first=0):
    """Lower factor of a matrix of the coefficients from `first` on."""
    factor, n_factored = dpotrf(matrix, lower=1, clean=1)
    if n_factored:
        raise _NotDefinite(first + n_factored - 1)
    return factor


def _weight(rows, probability, j, others):
    """Variance of a row's count of category j, or minus its covariance with another."""
    spread = 1.0 - probability[j] if j == others else probability[others]
    return rows.count * probability[j] * spread


def _block(sampling, target, probability, j, others):
    weight = _weight(target.rows, probability, j, others)
    block = sampling.to_host(sampling.linalg.weighted_gram(target.rows.X, weight[None]))[0]
    if j == others:
        target.prior.add_precision(j, block)
        return block
    return -block


def _whole(sampling, target, probability):
    n_categories, n_columns = target.prior.mean.shape
    out = np.empty((n_categories, n_columns, n_categories, n_columns))
    for j in range(n_categories):
        for others in range(j + 1):
            block = _block(sampling, target, probability, j, others)
            out[j, :, others], out[others, :, j] = block, block
    return out.reshape(n_categories * n_columns, -1)


def _diagonal(sampling, target, probability):
    X, n_categories = target.rows.X, len(target.prior.mean)
    weight = sampling.xp.stack(
        [_weight(target.rows, probability, j, j) for j in range(n_categories)]
    )
    squares = X.multiply(X) if hasattr(X, "multiply") else X * X  # of SciPy or of a device
    found = sampling.to_host((squares.T @ weight.T).T)
    return (found + target.prior.diagonal()).ravel()


class NoModeError(ValueError):
    """The density rises for ever along `direction` (m, q), or does not change as columns do."""

    def __init__(self, direction, is_collinear):
        super().__init__("the posterior density has no maximum; pass a positive prior precision")
        self.direction, self.is_collinear = direction, is_collinear


def find_mode(sampling, target):
    """Position (m q,) where the posterior is densest, and its `factor_curvature`.

    The `sampling` of one chain is the one that made the rows of the target.
    """
    order, n_columns = target.prior.mean.size, target.prior.mean.shape[1]
    if order > LARGEST_ORDER and order * n_columns > LARGEST_BLOCKS:
        _require_proper(target.prior)
    if order <= LARGEST_ORDER:
        return _climb_by_newton(sampling, target)
    return _climb_by_gradients(sampling, target)


def _require_proper(prior):
    """Refuse flat priors of more coefficients than whose curvature shows what the data say."""
    if not prior.is_proper():
        raise ValueError(
            f"the prior is flat in some direction, and for {prior.mean.size:,} coefficients it "
            "cannot be told whether the data determine all of them; pass a positive "
            "`prior_precision` and `intercept_precision`, or leave columns out."
        )


def _climb_by_newton(sampling, target):
    def at(position):
        [value], [gradient] = target.value_and_gradient(position[None])
        return value, gradient

    position = target.prior.mean.ravel().copy()
    value, gradient = at(position)
    step = np.zeros_like(position)
    for _ in range(MOST_STEPS):
        factor = _factor(sampling, target, position, step)
        step = cho_solve((factor, True), gradient)
        slope = gradient @ step
        if slope <= CLOSE:
            if not _is_still(target, step):
                raise _no_mode(target, step)
            _check_directions(target, factor)
            return position, factor
        # of sums over all trials, of terms that grow with the predictors
        terms = 1.0 + _largest_predictor(target, position) + _largest_predictor(target, step)
        rounding = 4.0 * np.finfo(float).eps * float(target.rows.count.sum()) * terms
        found = search_line(at, position, value, step, 0.5 * slope, rounding)
        if found is None:
            break
        position, value, gradient = found
    raise _lost()


def _climb_by_gradients(sampling, target):
    start = target.prior.mean.reshape(1, -1)
    still = np.zeros(start.size)
    whitening = Whitening(_factor(sampling, target, start[0], still))

    def descend(q):
        value, gradient = target.value_and_gradient(start + whitening.to_positions(q[None]))
        return -value[0], -whitening.to_slopes(gradient)[0]

    options = {"gtol": SMALL_SLOPE, "ftol": 0.0, "maxiter": MOST_ITERATIONS, "maxfun": np.inf}
    found = minimize(descend, still, jac=True, method="L-BFGS-B", options=options)
    position = start + whitening.to_positions(found.x[None])
    factor = _factor(sampling, target, position[0], still)
    whitening = Whitening(factor)
    _, gradient = target.value_and_gradient(position)
    slope = whitening.to_slopes(gradient)
    step = whitening.to_positions(slope)[0]
    if not _is_still(target, step):
        raise _no_mode(target, step)
    if abs(slope).max() > LARGEST_SLOPE:
        raise _lost()
    _check_directions(target, factor)
    return position[0], factor


def _factor(sampling, target, position, step):
    """Factor of the curvature after a step."""
    try:
        return factor_curvature(sampling, target, position)
    except _NotDefinite as error:
        if target.prior.is_proper():
            raise _lost() from error
        if not _is_still(target, step):
            raise _no_mode(target, step) from error
        raise _no_mode(target, np.arange(len(step)) == error.coefficient, True) from error


def _is_still(target, step):
    """Whether a step moves no predictor as it would where the likelihood rises for ever."""
    return target.prior.is_proper() or _largest_predictor(target, step) < STILL


def _largest_predictor(target, position):
    """Largest predictor at a position."""
    rows, coef = target.rows, position.reshape(1, *target.prior.mean.shape)
    rows.place(coef)
    return max(float(abs(rows.predictor(j)).max()) for j in range(coef.shape[1]))


def _check_directions(target, factor):
    """Refuse directions in which neither the rows nor the prior say anything."""
    if target.prior.is_proper():
        return
    blocks = [factor] if isinstance(factor, np.ndarray) else factor
    share = [np.diagonal(block) ** 2 / (block**2).sum(axis=1) for block in blocks]
    share = np.concatenate(share)
    if share.min() < COLLINEAR:
        raise _no_mode(target, np.arange(share.size) == share.argmin(), True)


def _no_mode(target, direction, is_collinear=False):
    direction = np.asarray(direction, float).reshape(target.prior.mean.shape)
    return NoModeError(direction, is_collinear)


def _lost():
    return ValueError(
        "the mode of the posterior was not found: columns span many orders of magnitude, or the "
        "prior is next to flat where the likelihood hardly changes; rescale columns, or give a "
        "larger `prior_precision` and `intercept_precision`."
    )
