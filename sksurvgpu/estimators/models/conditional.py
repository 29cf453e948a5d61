"""Models that compare rows within subjects, strata or matched sets only."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ...backends.sums.labels import check_groups
from ...data.checks import check_weight_by_group
from ...data.outcomes.counts import (
    check_compared,
    check_sets,
    count_compared,
    count_sets,
    read_case_series,
    read_counts,
    read_matched,
    refuse_sets,
    refuse_uncompared,
    refuse_zeros,
)
from ...data.outcomes.survival import Outcome
from ...exceptions import NothingToCompareError
from ...likelihoods.conditional_logistic import ConditionalLogistic
from ...likelihoods.conditional_poisson import ConditionalPoisson
from ...likelihoods.cox import Cox
from ...patterns.groups.plan import plan_groups
from ...patterns.risk_sets.plan import plan_rows
from .base import BaseModel, Outline, Parameters

WEIGHTED = " of positive weight"


class GroupModel(BaseModel):
    """Counts given their totals in groups."""

    effect = "rate_ratio"

    def tell(self, outcome, weight):
        counts = [self._count_groups(*_all_of(outcome))]
        if weight is not None:
            counts.append(self._count_groups(*_weighted(outcome, weight)))
        return super().tell(outcome, weight) | {"groups": np.array([counts[0], counts[-1]])}

    def agree(self, told, n_rows):
        check_groups(told)  # torn ones compare nothing
        for counts, among in zip(sum(part["groups"] for part in told), ("", WEIGHTED), strict=True):
            if not counts[0]:
                self._refuse_groups(counts, among)
        return super().agree(told, n_rows)

    def _count_groups(self, value, group, n_groups):
        return count_compared(value, group, n_groups)

    def _refuse_groups(self, counts, among):
        refuse_uncompared(counts, "stratum", "strata", among)

    def outline(self, n_columns, names, outcome=None):
        return Outline.plain(ConditionalPoisson(), n_columns, names, outcome)

    def plan(self, outline, reorders):
        return plan_groups(outline.outcome.value, outline.outcome.group)


class CaseSeriesModel(GroupModel):
    """Self-controlled case series."""

    clusters = "group"

    def read_outcome(self, y, n_rows):
        return read_case_series(y, n_rows=n_rows, may_lack=self.may_lack)

    def check_weight(self, sample_weight, outcome):
        weight = super().check_weight(sample_weight, outcome)
        check_weight_by_group(weight, outcome.group, outcome.group_labels, "subject")
        if weight is not None and not self.may_lack:
            check_compared(*_weighted(outcome, weight), "subject", "subjects", WEIGHTED)
        return weight

    def _refuse_groups(self, counts, among):
        refuse_uncompared(counts, "subject", "subjects", among)


class StrataModel(GroupModel):
    """Poisson regression conditional on the totals of strata."""

    def read_outcome(self, y, n_rows, strata=None, exposure=None):
        given = {"strata": strata, "exposure": exposure, "may_lack": self.may_lack}
        return read_counts(y, n_rows=n_rows, is_conditional=True, **given)

    def check_weight(self, sample_weight, outcome):
        weight = super().check_weight(sample_weight, outcome)
        if weight is not None and not self.may_lack:
            check_compared(*_weighted(outcome, weight), "stratum", "strata", WEIGHTED)
        return weight

    def tell(self, outcome, weight):
        has_strata = np.array([outcome.group_labels is not None])
        return super().tell(outcome, weight) | {"has_strata": has_strata}

    def agree(self, told, n_rows):
        if not sum(part["events"][0] for part in told):
            refuse_zeros(n_rows, NothingToCompareError)
        if len(told) > 1 and not any(part["has_strata"][0] for part in told):
            raise ValueError(
                "without `strata` all rows are compared with each other, and `X` is in "
                f"{len(told):,} partitions; pass `strata`, which lie whole in partitions, or fit "
                "PoissonCCD, whose intercept is the rate of all rows."
            )
        return super().agree(told, n_rows)

    def keeps(self, plan, outcome, weight):
        labels = outcome.group_labels
        return {"n_strata": None if labels is None else len(labels)}

    def keeps_of_parts(self, problem, agreed, told):
        has_strata = all(part["has_strata"][0] for part in told)
        return {"n_strata": sum(len(part["labels"]) for part in told) if has_strata else None}


@dataclass(frozen=True, eq=False)
class MatchedModel(GroupModel):
    """Conditional logistic regression of matched sets; `ties` is that of its estimator."""

    effect, clusters = "odds_ratio", "group"
    parameters: ClassVar[Parameters] = {
        "ties": ("exact", [StrOptions({"exact", "efron", "breslow"})])
    }

    ties: str = "exact"

    @property
    def is_exact(self) -> bool:
        return self.ties == "exact"

    def read_outcome(self, y, n_rows, strata=None):
        given = {"strata": strata, "is_exact": self.is_exact, "may_lack": self.may_lack}
        return read_matched(y, n_rows=n_rows, **given)

    def check_weight(self, sample_weight, outcome):
        weight = super().check_weight(sample_weight, outcome)
        check_weight_by_group(weight, outcome.group, outcome.group_labels, "stratum")
        if weight is not None and not self.may_lack:
            check_sets(*_weighted(outcome, weight), self.is_exact, WEIGHTED)
        return weight

    def _count_groups(self, value, group, n_groups):
        if self.is_exact:
            return count_sets(value, group, n_groups)
        return super()._count_groups(value, group, n_groups)

    def _refuse_groups(self, counts, among):
        if self.is_exact:
            refuse_sets(counts, among)
        super()._refuse_groups(counts, among)

    def outline(self, n_columns, names, outcome=None):
        if self.is_exact:
            return Outline.plain(ConditionalLogistic(), n_columns, names, outcome)
        if outcome is not None:  # sets are strata in which all happens at one time
            time, labels = np.ones(outcome.n_rows), outcome.group_labels
            outcome = Outcome(outcome.event, time, stratum=outcome.group, stratum_labels=labels)
        return Outline.plain(Cox(self.ties), n_columns, names, outcome)

    def plan(self, outline, reorders):
        return super().plan(outline, reorders) if self.is_exact else plan_rows(outline.outcome)


def _all_of(outcome):
    """Values and groups of all rows, and the number of groups."""
    return outcome.value, outcome.group, outcome.group.max(initial=-1) + 1


def _weighted(outcome, weight):
    """Values and groups of the rows that count, and the number of groups."""
    value, group, n_groups = _all_of(outcome)
    counts = weight > 0
    return value[counts], group[counts], n_groups
