"""Regression of counts and of numbers."""

import numpy as np
from scipy.special import xlogy
from sklearn.base import RegressorMixin, _fit_context
from sklearn.metrics import r2_score

from ..data.checks import check_exposure, check_sample_weight
from ..data.vectors import check_order, check_row_values
from ._base import PenalizedModel
from ._docs import documented
from ._partition import by_partition, to_memory
from .models.linear import GaussianModel, PoissonModel

ROUNDING = 1e-12


@documented
class PoissonCCD(RegressorMixin, PenalizedModel):
    r"""Poisson regression with a lasso or elastic-net penalty.

    Counts of a rate :math:`e^{b + x\beta}` over an exposure. Minimizes

    .. math:: -\ell(b + X\beta)/W + \alpha\Bigl(\rho\,\|f\circ\beta\|_1
              + \tfrac12(1-\rho)\,\|\sqrt f\circ\beta\|_2^2\Bigr)

    with the log-likelihood :math:`\ell` (without the terms :math:`\log y!`), the sum :math:`W` of
    the sample weights, :math:`\alpha` = `alpha`, :math:`\rho` = `l1_ratio` and :math:`f` =
    `penalty_factor`. Columns are neither centred nor scaled; the intercept is not penalized.

    Parameters
    ----------
    <<penalty, fit_intercept, solver>>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, the logarithms of rate ratios.
    <<intercept_, fitted>>

    See Also
    --------
    ConditionalPoissonCCD : An intercept for every stratum.

    Notes
    -----
    <<routing>>

    Examples
    --------
    >>> from sksurvgpu import PoissonCCD
    >>> from sksurvgpu.datasets import simulate_poisson
    >>> data = simulate_poisson(1_000, 50, random_state=0)
    >>> model = PoissonCCD(alpha=0.01).fit(data.X, data.y)
    >>> bool((model.predict(data.X[:3]) > 0).all())
    True
    """

    __metadata_request__fit = {"exposure": True}  # noqa: RUF012
    __metadata_request__predict = {"exposure": True}  # noqa: RUF012
    __metadata_request__score = {"exposure": True}  # noqa: RUF012
    _model = PoissonModel

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, exposure=None, offset=None):
        """Fit the model.

        Parameters
        ----------
        <<X>>
        y : array-like of shape (n_samples,)
            Counts, at least 0.
        <<sample_weight>>
        exposure : array-like of shape (n_samples,), optional
            Time or number at risk of each row, positive; its logarithm is an offset.
        <<offset>>

        <<itself>>
        """
        return self._fit(X, y, sample_weight, offset, exposure=exposure)

    @by_partition()
    def predict(self, X, exposure=None):
        """Expected count.

        Parameters
        ----------
        <<X>>
        exposure : array-like of shape (n_samples,), optional
            Exposure of each row; 1 by default.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            Without the offset of the fit.
        """
        check_order(X=X, exposure=exposure)
        predictor = self._predict_linear(X)
        exposure = check_exposure(exposure, len(predictor))
        with np.errstate(over="ignore"):
            rate = np.exp(predictor)
        return rate if exposure is None else exposure * rate

    def score(self, X, y, sample_weight=None, exposure=None):
        """D²: proportion of the deviance explained.

        Parameters
        ----------
        <<X>>
        y : array-like of shape (n_samples,)
            Counts.
        <<sample_weight>>
        exposure : array-like of shape (n_samples,), optional
            Exposure of each row; 1 by default.

        Returns
        -------
        d2 : float
            At most 1, 0 for the constant rate that fits best. Where the rate of `y` is constant, 1
            for predictions that are right and 0 for others.
        """
        predictor = self._predict_linear(X)
        given = {"sample_weight": sample_weight, "exposure": exposure}
        y, sample_weight, exposure = to_memory(X, y=y, **given)
        n_rows = len(predictor)
        value = check_row_values(y, "y", n_rows, minimum=0)
        weight, size = check_sample_weight(sample_weight, n_rows), check_exposure(exposure, n_rows)
        weight = np.ones(n_rows) if weight is None else weight
        size = np.ones(n_rows) if size is None else size
        with np.errstate(divide="ignore"):
            constant = np.log(weight @ value) - np.log(weight @ size)
        worst = _deviance(value, constant + np.log(size), weight)
        left = _deviance(value, predictor + np.log(size), weight)
        if worst <= ROUNDING * (weight @ value):  # nothing to explain; as scikit-learn's R2
            return float(left <= ROUNDING * (weight @ value))
        return float(1.0 - left / worst)


def _deviance(value, predictor, weight):
    """Poisson deviance, from the logarithm of the mean."""
    with np.errstate(over="ignore", invalid="ignore"):
        observed = np.where(value > 0, value * predictor, 0.0)  # 0 where the mean may be 0, too
        return 2.0 * weight @ (xlogy(value, value) - observed - value + np.exp(predictor))


@documented
class LinearCCD(RegressorMixin, PenalizedModel):
    r"""Linear regression with a lasso or elastic-net penalty.

    Minimizes

    .. math:: \|y - b - X\beta\|^2/(2W) + \alpha\Bigl(\rho\,\|f\circ\beta\|_1
              + \tfrac12(1-\rho)\,\|\sqrt f\circ\beta\|_2^2\Bigr)

    with squares weighted by the sample weights and :math:`W` their sum, :math:`\alpha` = `alpha`,
    :math:`\rho` = `l1_ratio` and :math:`f` = `penalty_factor`; scikit-learn's ``Lasso`` and
    ``ElasticNet`` have the same scale. Columns are neither centred nor scaled; the intercept is
    not penalized.

    Parameters
    ----------
    <<penalty, fit_intercept, solver>>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients.
    <<intercept_, fitted>>

    Notes
    -----
    The log-likelihood is that of normal errors of variance 1, half of the sum of squares.

    <<routing>>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sksurvgpu import LinearCCD
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearCCD(alpha=0.5).fit(X, y)
    >>> int((model.coef_ != 0).sum())
    4
    """

    _model = GaussianModel

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, offset=None):
        """Fit the model.

        Parameters
        ----------
        <<X>>
        y : array-like of shape (n_samples,)
            Numbers.
        <<sample_weight, offset>>

        <<itself>>
        """
        return self._fit(X, y, sample_weight, offset)

    @by_partition()
    def predict(self, X):
        """Expected value.

        <<only_X>>

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            Without the offset of the fit.
        """
        return self._predict_linear(X)

    def score(self, X, y, sample_weight=None):
        """Coefficient of determination R²: proportion of the variance explained.

        Parameters
        ----------
        <<X>>
        y : array-like of shape (n_samples,)
            Numbers.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights.

        Returns
        -------
        r2 : float
            At most 1, 0 for the mean of `y`.
        """
        y, sample_weight = to_memory(X, y=y, sample_weight=sample_weight)
        predicted = np.asarray(self.predict(X))
        return float(r2_score(y, predicted, sample_weight=sample_weight))
