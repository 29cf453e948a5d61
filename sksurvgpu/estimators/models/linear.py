"""Generalized linear models, whose rows are independent of one another."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight

from ...data.checks import check_sample_weight
from ...data.outcomes.classes import read_classes, refuse_class, refuse_classes
from ...data.outcomes.counts import read_counts, read_numbers, refuse_zeros
from ...likelihoods.gaussian import Gaussian
from ...likelihoods.logistic import Logistic
from ...likelihoods.poisson import Poisson
from ...patterns.groups.plan import plan_groups
from .base import BaseModel, Outline, Parameters


@dataclass(frozen=True, eq=False)
class RowwiseModel(BaseModel):
    """A model whose log-likelihood is a sum over rows, with an intercept if that is wanted."""

    likelihood: ClassVar[type]
    parameters: ClassVar[Parameters] = {"fit_intercept": (True, ["boolean"])}

    fit_intercept: bool = True

    def outline(self, n_columns, names, outcome=None):
        return Outline.plain(self.likelihood(bool(self.fit_intercept)), n_columns, names, outcome)

    def plan(self, outline, reorders):
        return plan_groups(outline.outcome.value)


class GaussianModel(RowwiseModel):
    """Linear regression."""

    likelihood, has_dispersion, counts_rows = Gaussian, True, True

    def read_outcome(self, y, n_rows):
        return read_numbers(y, n_rows=n_rows, may_lack=self.may_lack)


class PoissonModel(RowwiseModel):
    """Poisson regression of counts over exposures."""

    likelihood, effect = Poisson, "rate_ratio"

    def read_outcome(self, y, n_rows, exposure=None):
        return read_counts(y, n_rows=n_rows, exposure=exposure, may_lack=self.may_lack)

    def agree(self, told, n_rows):
        if not sum(part["events"][0] for part in told):
            refuse_zeros(n_rows)
        return super().agree(told, n_rows)


@dataclass(frozen=True, eq=False)
class LogisticModel(RowwiseModel):
    """Logistic regression of two classes, which all parts of the rows have to agree on."""

    likelihood, effect, counts_rows = Logistic, "odds_ratio", True
    agreed_apart = ("class_weight",)

    parameters = RowwiseModel.parameters | {
        "class_weight": (None, [dict, StrOptions({"balanced"}), None])
    }

    class_weight: Any = None

    @staticmethod
    def concordance(outcome, predictors, weight, terms) -> float:
        """Area under the curve of linear predictors; NaN where rows that count are all alike."""
        if len(np.unique(outcome.value[weight > 0])) < 2:
            return np.nan
        return roc_auc_score(outcome.value, predictors[:, 0], sample_weight=weight)

    def read_outcome(self, y, n_rows, classes=None):
        outcome = read_classes(y, n_rows=n_rows, may_lack=self.may_lack)
        return outcome if classes is None else outcome.among(classes)

    def check_weight(self, sample_weight, outcome):
        weight = self._checked(sample_weight, outcome)
        if self.class_weight is None:
            return weight
        code, given = outcome.value.astype(int), 1.0 if weight is None else weight
        totals = np.bincount(code, weight, len(outcome.labels))
        of_class = self._weights_of(outcome.labels, totals, code)
        return self._checked(of_class[code] * given, outcome)

    def _checked(self, sample_weight, outcome):
        weight = check_sample_weight(sample_weight, outcome.n_rows, may_lack=self.may_lack)
        if not self.may_lack:
            outcome.check_both_present(weight)
        return weight

    def _weights_of(self, labels, totals, code):
        """Weight of each class, given the sums of the rows' and whose classes occur."""
        if isinstance(self.class_weight, str):  # "balanced"
            return 0.5 * totals.sum() / np.where(totals > 0.0, totals, 1.0)
        of_class = compute_class_weight(self.class_weight, classes=labels, y=labels[code])
        for label, value in zip(labels.tolist(), of_class.tolist(), strict=True):
            if not 0.0 <= value < np.inf:
                raise ValueError(
                    f"`class_weight` of class {label!r} is {value:g}, must be a finite number "
                    "of at least 0."
                )
        return of_class

    def tell(self, outcome, weight):
        totals = np.bincount(outcome.value.astype(int), weight, len(outcome.labels))
        return {"classes": outcome.labels, "class_totals": totals.astype(float)}

    def agree(self, told, n_rows):
        labels = np.unique(np.concatenate([part["classes"] for part in told]))
        if len(labels) != 2:
            refuse_classes(labels)
        totals = np.zeros(2)
        for part in told:
            totals[np.searchsorted(labels, part["classes"])] += part["class_totals"]
        for label in labels[totals == 0.0].tolist():
            refuse_class(label)
        agreed = {"classes": labels}
        if self.class_weight is not None:
            agreed["class_weight"] = self._weights_of(labels, totals, np.arange(2))
        return agreed

    def join(self, outcome, weight, agreed):
        if "classes" not in agreed:
            return outcome, weight
        outcome = outcome.among(np.asarray(agreed["classes"]))
        if "class_weight" in agreed:
            of_class = np.asarray(agreed["class_weight"], np.float64)[outcome.value.astype(int)]
            weight = of_class if weight is None else of_class * weight
        return outcome, weight

    def keeps(self, plan, outcome, weight):
        return {"classes": outcome.labels}

    def keeps_of_parts(self, problem, agreed, told):
        return {"classes": agreed["classes"]}
