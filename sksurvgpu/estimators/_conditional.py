"""What models share that compare rows within subjects or matched sets only."""

import numpy as np

from ..backends.sums.labels import check_groups
from ..data.outcomes.counts import count_compared, refuse_uncompared
from ..likelihoods.conditional_poisson import ConditionalPoisson
from ..patterns.groups.plan import plan_groups
from ._base import PenalizedModel
from ._by_parts import by_parts
from ._docs import documented
from ._outline import Outline

__all__ = ["WEIGHTED", "ConditionalModel", "weighted"]

WEIGHTED = " of positive weight"


def weighted(outcome, weight):
    """Values and groups of the rows that count, and the number of groups."""
    counts = weight > 0
    return outcome.value[counts], outcome.group[counts], _count(outcome)


def of_group(outcome):
    """The same of all rows."""
    return outcome.value, outcome.group, _count(outcome)


def _count(outcome):
    return outcome.group.max(initial=-1) + 1


@documented
class ConditionalModel(PenalizedModel):
    """What conditional models can say of rows: their linear predictor, and a log-likelihood."""

    __metadata_request__score = {"offset": True}  # noqa: RUF012

    def _outline(self, n_columns, names, outcome=None):
        return Outline.plain(ConditionalPoisson(), n_columns, names, outcome)

    def _tell(self, outcome, weight):
        counts = [self._count_groups(*of_group(outcome))]
        if weight is not None:
            counts.append(self._count_groups(*weighted(outcome, weight)))
        return super()._tell(outcome, weight) | {"groups": np.array([counts[0], counts[-1]])}

    def _agree(self, told, n_rows):
        check_groups(told)  # torn ones compare nothing
        for counts, among in zip(sum(part["groups"] for part in told), ("", WEIGHTED), strict=True):
            if not counts[0]:
                self._refuse_groups(counts, among)
        return super()._agree(told, n_rows)

    def _count_groups(self, value, group, n_groups):
        return count_compared(value, group, n_groups)

    def _refuse_groups(self, counts, among):
        refuse_uncompared(counts, "stratum", "strata", among)

    def _plan(self, outline, reorders):
        return plan_groups(outline.outcome.value, outline.outcome.group)

    @by_parts()
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
