"""Conditional logistic regression."""

from sklearn.base import _fit_context

from ._base import ConditionalModel
from ._docs import documented
from ._log_likelihood import log_likelihood_of
from .models.conditional import MatchedModel


@documented
class ConditionalLogisticCCD(ConditionalModel):
    r"""Conditional logistic regression of matched sets, with a penalty.

    The likelihood compares cases with the other rows of their matched set, given the number of
    cases in it. Minimizes

    <<conditional_objective>>

    Parameters
    ----------
    <<penalty>>
    ties : {"exact", "efron", "breslow"}, default="exact"
        Likelihood of a set with several cases: "exact" sums over all choices of that many rows,
        for sets of thousands of rows too; "efron" and "breslow" are Cox's approximations. All are
        the same for sets with one case.
    <<solver>>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, the logarithms of odds ratios.
    <<fitted>>

    Notes
    -----
    Sets without a case contribute nothing, and neither do sets of cases only where `ties` is
    "exact". "efron" and "breslow" are there to compare with other software, and have a term for
    sets of several cases only, as R's ``clogit``: it pulls coefficients towards 0.

    <<routing>>

    Examples
    --------
    >>> from sksurvgpu import ConditionalLogisticCCD
    >>> from sksurvgpu.datasets import simulate_matched
    >>> data = simulate_matched(300, 30, random_state=0)
    >>> model = ConditionalLogisticCCD(alpha=0.01).fit(data.X, data.y)
    >>> model.converged_
    True
    """

    __metadata_request__fit = {"strata": True}  # noqa: RUF012
    __metadata_request__score = {"strata": True}  # noqa: RUF012
    _model = MatchedModel

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, strata=None, offset=None):
        """Fit the model.

        Parameters
        ----------
        <<X>>
        y : ndarray of shape (n_samples,)
            Outcome from `sksurvgpu.matched`, or True or 1 for cases and False or 0 for others.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights, at least 0, the same for all rows of a set.
        strata : array-like of shape (n_samples,), optional
            Matched set of each row, where `y` has no field ``stratum``.
        <<offset>>

        <<itself>>
        """
        return self._fit(X, y, sample_weight, offset, strata=strata)

    def score(self, X, y, sample_weight=None, strata=None, offset=None):
        """Conditional log-likelihood of rows, a sum; higher is better.

        Parameters
        ----------
        <<X>>
        y : ndarray of shape (n_samples,)
            Outcome. Matched sets must be whole: split with ``GroupKFold``.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights, the same for all rows of a set.
        strata : array-like of shape (n_samples,), optional
            Matched set of each row, where `y` has no field ``stratum``.
        <<offset_of_score>>

        Returns
        -------
        log_likelihood : float
            At most 0 where `ties` is "exact".
        """
        given = {"sample_weight": sample_weight, "offset": offset, "strata": strata}
        return log_likelihood_of(self, X, y, given)[0]
