"""Models of hazards over time."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ...data.outcomes.competing import read_competing
from ...data.outcomes.fields import refuse_no_event
from ...data.outcomes.survival import read_outcome
from ...likelihoods.cox import Cox
from ...likelihoods.fine_gray import FineGray
from ...metrics.competing import count_competing_pairs
from ...metrics.pairs import as_concordance, count_pairs, scale_weights
from ...patterns.carried.plan import plan_competing
from ...patterns.risk_sets.plan import plan_rows
from ..baseline import Timeline
from ..time_varying import Terms
from .base import BaseModel, Outline, Parameters


class HazardModel(BaseModel):
    """A model whose coefficients are logarithms of hazard ratios."""

    effect = "hazard_ratio"

    def tell(self, outcome, weight):
        has_strata = np.array([outcome.stratum is not None])
        return super().tell(outcome, weight) | {"has_strata": has_strata}

    def keeps(self, plan, outcome, weight):
        return {"timeline": Timeline.of(plan, outcome, weight)}

    def keeps_of_parts(self, problem, agreed, told):
        has_strata = all(part["has_strata"][0] for part in told)
        labels = np.asarray(problem.plan.events.labels) if has_strata else None
        return {"timeline": Timeline.of_cells(problem.plan, labels)}


@dataclass(frozen=True, eq=False)
class CoxModel(HazardModel):
    """Cox regression; the parameters are those of `CoxLassoCCD`."""

    parameters: ClassVar[Parameters] = {
        "ties": ("breslow", [StrOptions({"breslow", "efron"})]),
        "time_varying": (None, [dict, None]),
    }

    ties: str = "breslow"
    time_varying: Any = None

    @staticmethod
    def concordance(outcome, predictors, weight, terms) -> float:
        """Harrell's index of linear predictors in each piece of time."""
        counts = terms.count_by_piece(count_pairs, outcome, predictors, scale_weights(weight))
        return as_concordance(*sum(np.array(found) for _, found in counts))

    def read_outcome(self, y, n_rows, strata=None):
        return read_outcome(y, n_rows=n_rows, strata=strata, may_lack=self.may_lack)

    def agree(self, told, n_rows):
        if not sum(part["events"][0] for part in told):
            refuse_no_event(n_rows, "Cox")
        return super().agree(told, n_rows)

    def outline(self, n_columns, names, outcome=None):
        return Outline(Cox(self.ties), Terms.of(self.time_varying, n_columns, names), outcome)

    def plan(self, outline, reorders):
        return plan_rows(outline.outcome, outline.terms.cuts, reorders=reorders)


@dataclass(frozen=True, eq=False)
class FineGrayModel(HazardModel):
    """Fine-Gray regression; the parameters are those of `FineGrayCCD`."""

    parameters: ClassVar[Parameters] = {
        "event_of_interest": (1, [Interval(Integral, 1, None, closed="left"), str]),
        "censoring_ties": ("crr", [StrOptions({"crr", "finegray"})]),
    }

    event_of_interest: int | str = 1
    censoring_ties: str = "crr"

    @staticmethod
    def concordance(outcome, predictors, weight, terms) -> float:
        """Concordance for the event of interest of linear predictors, weighted for censoring."""
        status, time, risk = outcome.status, outcome.time, predictors[:, 0]
        sums = count_competing_pairs(status, time, risk, stratum=outcome.stratum, weight=weight)
        return as_concordance(*sums)

    def read_outcome(self, y, n_rows, strata=None, censoring_groups=None):
        return read_competing(
            y,
            n_rows=n_rows,
            strata=strata,
            event_of_interest=self.event_of_interest,
            censoring_groups=censoring_groups,
            may_lack=self.may_lack,
        )

    def agree(self, told, n_rows):
        if not sum(part["events"][0] for part in told):
            raise ValueError(
                f"`event_of_interest` is {self.event_of_interest}, but no row of `y` has this code."
            )
        return super().agree(told, n_rows)

    def outline(self, n_columns, names, outcome=None):
        events_first = self.censoring_ties == "finegray"
        return Outline.plain(FineGray(), n_columns, names, outcome, events_first=events_first)

    def plan(self, outline, reorders):
        groups = outline.outcome.censoring_group
        return plan_competing(outline.outcome, groups, **outline.censoring, reorders=reorders)
