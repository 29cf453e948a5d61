"""Conditional logistic regression."""

from __future__ import annotations

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from ..data.checks import check_weight_by_group
from ..data.outcomes.counts import check_sets, count_sets, read_matched, refuse_sets
from ..data.outcomes.survival import Outcome
from ..likelihoods.conditional_logistic import ConditionalLogistic
from ..likelihoods.cox import Cox
from ..patterns.risk_sets.plan import plan_rows
from ._base import OF_PENALTY, OF_SOLVER
from ._conditional import WEIGHTED, ConditionalModel, weighted
from ._docs import documented
from ._log_likelihood import log_likelihood_of
from ._outline import Outline
from .fitted import Traits

__all__ = ["ConditionalLogisticCCD"]


@documented
class ConditionalLogisticCCD(ConditionalModel):
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

    _parameters = (
        OF_PENALTY
        | {
            "ties": ("exact", [StrOptions({"exact", "efron", "breslow"})]),
        }
        | OF_SOLVER
    )
    __metadata_request__fit = {"strata": True}  # noqa: RUF012
    __metadata_request__score = {"strata": True}  # noqa: RUF012
    _traits = Traits("odds_ratio", clusters="group")

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
        is_exact = self.ties == "exact"
        return read_matched(y, n_rows=n_rows, strata=strata, is_exact=is_exact)

    def _check_weight(self, sample_weight, outcome):
        weight = super()._check_weight(sample_weight, outcome)
        check_weight_by_group(weight, outcome.group, outcome.group_labels, "stratum")
        if weight is not None:
            check_sets(*weighted(outcome, weight), self.ties == "exact", WEIGHTED)
        return weight

    def _count_groups(self, value, group, n_groups):
        if self.ties == "exact":
            return count_sets(value, group, n_groups)
        return super()._count_groups(value, group, n_groups)

    def _refuse_groups(self, counts, among):
        if self.ties == "exact":
            refuse_sets(counts, among)
        super()._refuse_groups(counts, among)

    def _outline(self, n_columns, names, outcome=None):
        if self.ties == "exact":
            return Outline.plain(ConditionalLogistic(), n_columns, names, outcome)
        at_once = None if outcome is None else self._at_once(outcome)
        return Outline.plain(Cox(self.ties), n_columns, names, at_once)

    def _at_once(self, outcome):
        """Sets as strata in which all happens at one time."""
        time, labels = np.ones(outcome.n_rows), outcome.group_labels
        return Outcome(outcome.event, time, stratum=outcome.group, stratum_labels=labels)

    def _plan(self, outline, reorders):
        if self.ties == "exact":
            return super()._plan(outline, reorders)
        return plan_rows(outline.outcome)

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
