"""Counts given the totals of subjects or strata."""

from sklearn.base import _fit_context

from ._base import ConditionalModel
from ._columns import check_strata_as_in_fit
from ._docs import documented
from ._log_likelihood import log_likelihood_of
from .fitted import fitted_of
from .models.conditional import CaseSeriesModel, StrataModel


@documented
class CaseSeriesCCD(ConditionalModel):
    r"""Self-controlled case series with a lasso or elastic-net penalty.

    Each subject is its own control: the model compares the rate of events in exposed eras (periods)
    with the rate of the same subject in other eras, so that everything constant within a subject
    cancels. Given the number of events of a subject, each falls into era i with probability
    proportional to :math:`L_i e^{x_i\beta}`, with :math:`L_i` its length. Minimizes

    <<conditional_objective>>

    Parameters
    ----------
    <<penalty, solver>>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, the logarithms of rate ratios.
    <<fitted>>

    See Also
    --------
    ConditionalPoissonCCD : The same likelihood for counts within strata.

    Notes
    -----
    Subjects without an event, and with one era, contribute nothing; leaving them out changes the
    fit only through :math:`W`.

    <<routing>>

    Examples
    --------
    >>> from sksurvgpu import CaseSeriesCCD
    >>> from sksurvgpu.datasets import simulate_case_series
    >>> data = simulate_case_series(500, 30, random_state=0)
    >>> model = CaseSeriesCCD(alpha=0.0001).fit(data.X, data.y)
    >>> model.converged_
    True
    >>> bool(model.score(data.X, data.y) == model.log_likelihood_)
    True
    """

    _model = CaseSeriesModel

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, offset=None):
        """Fit the model.

        Parameters
        ----------
        <<X>>
        y : structured ndarray of shape (n_samples,)
            Outcome from `sksurvgpu.case_series`.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights, at least 0, the same for all eras of a subject.
        <<offset>>

        <<itself>>
        """
        return self._fit(X, y, sample_weight, offset)

    def score(self, X, y, sample_weight=None, offset=None):
        """Conditional log-likelihood of rows, a sum; higher is better.

        Parameters
        ----------
        <<X>>
        y : structured ndarray of shape (n_samples,)
            Outcome. Subjects must be whole: split with ``GroupKFold`` by ``y["subject"]``.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights, the same for all eras of a subject.
        <<offset_of_score>>

        Returns
        -------
        log_likelihood : float
            At most 0.
        """
        return log_likelihood_of(self, X, y, {"sample_weight": sample_weight, "offset": offset})[0]


@documented
class ConditionalPoissonCCD(ConditionalModel):
    r"""Poisson regression conditional on the totals of strata, with a penalty.

    The coefficients are those of Poisson regression with an unpenalized intercept for every
    stratum; the intercepts are not estimated. Minimizes

    <<conditional_objective>>

    Parameters
    ----------
    <<penalty, solver>>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, the logarithms of rate ratios.
    <<fitted>>

    See Also
    --------
    CaseSeriesCCD : The same likelihood for the eras of subjects.
    PoissonCCD : One intercept for all rows.

    Notes
    -----
    <<routing>>

    Weights w that differ within a stratum count in its total: with counts y, log-likelihoods are
    those of rows given w times plus the sum of ``w y log(w)``, whatever the coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import ConditionalPoissonCCD
    >>> from sksurvgpu.datasets import simulate_poisson
    >>> data = simulate_poisson(500, 30, random_state=0)
    >>> month = np.arange(500) % 12
    >>> model = ConditionalPoissonCCD(alpha=0.01).fit(data.X, data.y, strata=month)
    >>> model.converged_
    True
    """

    __metadata_request__fit = {"strata": True, "exposure": True}  # noqa: RUF012
    __metadata_request__score = {"strata": True, "exposure": True}  # noqa: RUF012
    _model = StrataModel

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, strata=None, exposure=None, offset=None):
        """Fit the model.

        Parameters
        ----------
        <<X>>
        y : array-like of shape (n_samples,)
            Counts, at least 0.
        <<sample_weight>>
        strata : array-like of shape (n_samples,), optional
            Stratum label of each row; by default all rows are one stratum.
        exposure : array-like of shape (n_samples,), optional
            Time or number at risk of each row, positive; its logarithm is an offset.
        <<offset>>

        <<itself>>
        """
        return self._fit(X, y, sample_weight, offset, strata=strata, exposure=exposure)

    def score(self, X, y, sample_weight=None, strata=None, exposure=None, offset=None):
        """Conditional log-likelihood of rows, a sum; higher is better.

        Parameters
        ----------
        <<X>>
        y : array-like of shape (n_samples,)
            Counts. Strata must be whole: split with ``GroupKFold``.
        <<sample_weight>>
        strata : array-like of shape (n_samples,), optional
            Stratum of each row; required if and only if the model was fitted with strata. Labels
            need not occur in the fit.
        exposure : array-like of shape (n_samples,), optional
            Time or number at risk of each row.
        <<offset_of_score>>

        Returns
        -------
        log_likelihood : float
            Sum over the counts of the logarithm of their shares of the stratum's total.
        """
        n_strata = fitted_of(self).setting.n_strata
        check_strata_as_in_fit(n_strata, strata is not None, own="a rate")
        given = {"sample_weight": sample_weight, "offset": offset}
        return log_likelihood_of(self, X, y, given | {"strata": strata, "exposure": exposure})[0]
