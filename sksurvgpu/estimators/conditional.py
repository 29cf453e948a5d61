"""Models that compare rows within subjects or matched sets only."""

from __future__ import annotations

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from ..data.checks import check_weight_by_group
from ..data.counts import read_case_series, read_counts, read_matched
from ..data.groups import plan_groups
from ..data.outcome import Outcome
from ..data.rowplan import plan_rows
from ..likelihoods.conditional_logistic import ConditionalLogistic
from ..likelihoods.conditional_poisson import ConditionalPoisson
from ..likelihoods.cox import Cox
from ..solver.problem import Problem
from ._base import PenalizedModel, count_threads
from ._docs import documented

__all__ = ["CaseSeriesCCD", "ConditionalLogisticCCD", "ConditionalPoissonCCD"]


@documented
class _ConditionalModel(PenalizedModel):
    """What conditional models can say of rows: their linear predictor, and a log-likelihood."""

    __metadata_request__score = {"offset": True}  # noqa: RUF012

    def _build(self, design, outcome, weight):
        plan = plan_groups(outcome.value, outcome.group)
        return self._problem(design, plan, ConditionalPoisson()), {}

    def _problem(self, design, plan, likelihood):
        return Problem.build(design, plan, likelihood, n_threads=count_threads(self.n_jobs))

    def predict(self, X):
        """Linear predictor; only differences within a group have a meaning.

        Parameters
        ----------
        <<X>>

        Returns
        -------
        predictor : ndarray of shape (n_samples,)
            X times the coefficients, without the offset of the fit; higher is riskier.
        """
        return self._predict_linear(X)


@documented
class CaseSeriesCCD(_ConditionalModel):
    r"""Self-controlled case series with a lasso or elastic-net penalty.

    Every subject is its own control: the rate of events during an era of exposure is compared with
    the same subject's rate in other eras, so that whatever is constant within a subject cancels.
    Given the number of events of a subject, era i has them with probability proportional to
    :math:`L_i e^{x_i\beta}`, with :math:`L_i` its length. Minimizes

    .. math:: -\ell(X\beta)/W + \alpha\Bigl(\rho\,\|f\circ\beta\|_1
              + \tfrac12(1-\rho)\,\|\sqrt f\circ\beta\|_2^2\Bigr)

    with the conditional log-likelihood :math:`\ell`, the sum :math:`W` of the sample weights (the
    number of eras without weights), :math:`\alpha` = `alpha`, :math:`\rho` = `l1_ratio` and
    :math:`f` = `penalty_factor`. Columns are neither centred nor scaled.

    Parameters
    ----------
    <<penalty>>
    <<solver>>

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
    >>> model = CaseSeriesCCD(alpha=0.001).fit(data.X, data.y)
    >>> model.converged_
    True
    >>> bool(model.score(data.X, data.y) == model.log_likelihood_)
    True
    """

    _effect = "rate_ratio"

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

        Returns
        -------
        <<self>>
        """
        return self._fit(X, y, sample_weight, offset)

    def _read_outcome(self, y, n_rows):
        return read_case_series(y, n_rows=n_rows)

    def _check_weight(self, sample_weight, outcome):
        weight = super()._check_weight(sample_weight, outcome)
        check_weight_by_group(weight, outcome.group, outcome.group_labels, "subject")
        return weight

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
        return self._log_likelihood(X, y, sample_weight, offset)


@documented
class ConditionalPoissonCCD(_ConditionalModel):
    r"""Poisson regression conditional on the totals of strata, with a penalty.

    The same coefficients as Poisson regression with an unpenalized intercept for every stratum,
    without ever estimating one. Minimizes

    .. math:: -\ell(X\beta)/W + \alpha\Bigl(\rho\,\|f\circ\beta\|_1
              + \tfrac12(1-\rho)\,\|\sqrt f\circ\beta\|_2^2\Bigr)

    with the conditional log-likelihood :math:`\ell`, the sum :math:`W` of the sample weights,
    :math:`\alpha` = `alpha`, :math:`\rho` = `l1_ratio` and :math:`f` = `penalty_factor`. Columns
    are neither centred nor scaled.

    Parameters
    ----------
    <<penalty>>
    <<solver>>

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
    _effect = "rate_ratio"

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

        Returns
        -------
        <<self>>
        """
        return self._fit(X, y, sample_weight, offset, strata=strata, exposure=exposure)

    def _read_outcome(self, y, n_rows, strata=None, exposure=None):
        return read_counts(y, n_rows=n_rows, strata=strata, exposure=exposure)

    def score(self, X, y, sample_weight=None, strata=None, exposure=None, offset=None):
        """Conditional log-likelihood of rows, a sum; higher is better.

        Parameters
        ----------
        <<X>>
        y : array-like of shape (n_samples,)
            Counts. Strata must be whole: split with ``GroupKFold``.
        <<sample_weight>>
        strata : array-like of shape (n_samples,), optional
            Stratum labels; they need not occur in the fit.
        exposure : array-like of shape (n_samples,), optional
            Time or number at risk of each row.
        <<offset_of_score>>

        Returns
        -------
        log_likelihood : float
            Sum over the counts of the logarithm of their shares of the stratum's total.
        """
        return self._log_likelihood(X, y, sample_weight, offset, strata=strata, exposure=exposure)


@documented
class ConditionalLogisticCCD(_ConditionalModel):
    r"""Conditional logistic regression of matched sets, with a penalty.

    Cases are compared with the other rows of their matched set, given how many cases it has.
    Minimizes

    .. math:: -\ell(X\beta)/W + \alpha\Bigl(\rho\,\|f\circ\beta\|_1
              + \tfrac12(1-\rho)\,\|\sqrt f\circ\beta\|_2^2\Bigr)

    with the conditional log-likelihood :math:`\ell`, the sum :math:`W` of the sample weights,
    :math:`\alpha` = `alpha`, :math:`\rho` = `l1_ratio` and :math:`f` = `penalty_factor`. Columns
    are neither centred nor scaled.

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
    Sets without a case, or with nothing else, contribute nothing. (With "efron" and "breslow", R's
    ``clogit`` lets sets of cases only contribute.)

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

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **PenalizedModel._parameter_constraints,
        "ties": [StrOptions({"exact", "efron", "breslow"})],
    }
    __metadata_request__fit = {"strata": True}  # noqa: RUF012
    __metadata_request__score = {"strata": True}  # noqa: RUF012
    _effect = "odds_ratio"

    def __init__(
        self,
        *,
        alpha=0.01,
        l1_ratio=1.0,
        penalty_factor=None,
        ties="exact",
        algorithm="majorized",
        tol=1e-6,
        max_iter=1000,
        warm_start=False,
        backend="auto",
        precision="float64",
        n_jobs=None,
        verbose=0,
    ):
        super().__init__(
            alpha=alpha,
            l1_ratio=l1_ratio,
            penalty_factor=penalty_factor,
            algorithm=algorithm,
            tol=tol,
            max_iter=max_iter,
            warm_start=warm_start,
            backend=backend,
            precision=precision,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.ties = ties

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

        Returns
        -------
        <<self>>
        """
        return self._fit(X, y, sample_weight, offset, strata=strata)

    def _read_outcome(self, y, n_rows, strata=None):
        return read_matched(y, n_rows=n_rows, strata=strata)

    def _check_weight(self, sample_weight, outcome):
        weight = super()._check_weight(sample_weight, outcome)
        check_weight_by_group(weight, outcome.group, outcome.group_labels, "stratum")
        return weight

    def _build(self, design, outcome, weight):
        if self.ties == "exact":
            plan = plan_groups(outcome.value, outcome.group)
            return self._problem(design, plan, ConditionalLogistic()), {}
        # The approximations see information where all rows are cases; there is none.
        n_cases = np.bincount(outcome.group, outcome.value)
        has_others = (n_cases < np.bincount(outcome.group))[outcome.group]
        time = np.ones(outcome.n_rows)
        at_once = Outcome(outcome.event & has_others, time, stratum=outcome.group)
        return self._problem(design, plan_rows(at_once), Cox(self.ties)), {}

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
        return self._log_likelihood(X, y, sample_weight, offset, strata=strata)
