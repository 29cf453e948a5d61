r"""A fitted model as a value: what a fit to some rows has found, without the rows.

A `Setting` is known before anything is fitted: columns, terms, and the times of the rows. An
`Estimate` is a solution as users see it: penalties, gradients and objectives are sums inside the
solver, here they are divided by the sum W of the sample weights. `Fitted` has both, with the
penalty and the totals of the rows.

An estimator has one `Fitted`, which `adopt` replaces; its public attributes are what `attributes`
makes of it. Other folders read `fitted_of(estimator)`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..penalties.base import Family
from ._columns import Header
from .baseline import Baseline, Timeline
from .time_varying import Terms


@dataclass(frozen=True, eq=False)
class Setting:
    """Columns, terms and times of a fit, and who serves it."""

    header: Header  # of X
    terms: Terms
    backend: tuple[str, str]  # its name, and why that one
    timeline: Timeline | None = None  # of models of hazards
    classes: np.ndarray | None = None  # of classifiers
    n_strata: int | None = None  # of models that compare rows within strata, where there are any

    @property
    def names(self) -> np.ndarray:
        """Names of the coefficients."""
        return np.array(self.terms.names(self.header.labels()), dtype=object)

    def attributes(self) -> dict[str, Any]:
        """Public attributes of an estimator."""
        found: dict[str, Any] = {"n_features_in_": self.header.n_columns}
        if self.header.names is not None:
            found["feature_names_in_"] = self.header.names
        if self.classes is not None:
            found["classes_"] = self.classes
        return found | dict(zip(("backend_", "backend_reason_"), self.backend, strict=True))


@dataclass(frozen=True, eq=False)
class Estimate:
    """Solution at one penalty, on the scale of means, and what is predicted from beside it."""

    alpha: float  # of the fit: an estimator's may be set to another one later
    coef: np.ndarray
    baseline: Baseline | None  # of models of hazards
    intercept: float | None  # of linear models
    alpha_max: float
    objective: float
    log_likelihood: float
    kkt: float
    kkt_se: float
    kkt_se_bound: float
    dual_gap: float
    n_iter: int
    converged: bool
    of_route: dict[str, Any]  # public attributes that the way to the solution adds

    @classmethod
    def of(cls, solution, total_weight, timeline, is_linear) -> Estimate:
        """Estimate of a solver's solution, given the sum of the weights of its rows."""
        scale = 1.0 / total_weight
        return cls(
            alpha=solution.lam * scale,
            coef=solution.coef.copy(),
            baseline=None if timeline is None else Baseline(timeline, solution.baseline),
            intercept=float(solution.baseline) if is_linear else None,
            alpha_max=solution.lam_max * scale,
            objective=solution.objective * scale,
            log_likelihood=solution.loglik,
            kkt=solution.kkt * scale,
            kkt_se=solution.score,
            kkt_se_bound=solution.allowed,
            dual_gap=solution.gap * scale,
            n_iter=solution.n_iter,
            converged=bool(solution.converged),
            of_route=solution.of_route,
        )

    def attributes(self) -> dict[str, Any]:
        """Public attributes of an estimator."""
        found = {f"{name}_": getattr(self, name) for name in PUBLIC}
        if self.intercept is not None:
            found["intercept_"] = self.intercept
        return found | self.of_route


PUBLIC = (
    *("coef", "alpha_max", "objective", "log_likelihood"),
    *("kkt", "kkt_se", "kkt_se_bound", "dual_gap", "n_iter", "converged"),
)


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that is known of a fit to some rows."""

    setting: Setting
    estimate: Estimate
    family: Family  # penalties of every strength
    factor: np.ndarray  # (n_coef,) penalty factors
    total_weight: float
    n_rows: int  # of positive weight
    fingerprint: int  # of all that the fit was given beside its columns, see `Prepared`
    null_log_likelihood: float
    infinite: np.ndarray  # bool (n_coef,)
    n_constant: int | None  # directions that change nothing, where nothing is penalized
    costs: dict[str, Any] = field(default_factory=dict)  # public attributes, of rows in partitions

    @classmethod
    def of(cls, prepared, solution) -> Fitted:
        """`Fitted` of a solution and the checked input that it was found from."""
        costs = prepared.costs()  # of the fit alone
        setting, factor = prepared.setting, prepared.batch.factor
        total_weight = prepared.total_weight
        is_linear = not prepared.problem.likelihood.pattern.is_conditional
        estimate = Estimate.of(solution, total_weight, setting.timeline, is_linear)
        is_free = estimate.alpha * factor == 0
        null_log_likelihood = prepared.null_log_likelihood(solution)
        infinite, n_constant = prepared.find_directions(is_free, solution.coef)
        return cls(
            setting=setting,
            estimate=estimate,
            family=prepared.batch.penalty,
            factor=factor,
            total_weight=total_weight,
            n_rows=prepared.n_weighted,
            fingerprint=prepared.fingerprint,
            null_log_likelihood=null_log_likelihood,
            infinite=infinite | prepared.find_unheld(solution),
            n_constant=n_constant if is_free.all() else None,
            costs=costs,
        )

    def at(self, solution, infinite) -> Fitted:
        """Another solution from the same input, and which of its coefficients are infinite."""
        timeline, is_linear = self.setting.timeline, self.estimate.intercept is not None
        estimate = Estimate.of(solution, self.total_weight, timeline, is_linear)
        return replace(self, estimate=estimate, infinite=infinite)

    @property
    def terms(self) -> Terms:
        return self.setting.terms

    @property
    def alpha(self) -> float:
        """Penalty of the fit, on the scale of means."""
        return self.estimate.alpha

    @property
    def baseline(self) -> Baseline | None:
        return self.estimate.baseline

    @property
    def names(self) -> np.ndarray:
        """Names of the coefficients."""
        return self.setting.names

    @property
    def penalized(self) -> np.ndarray:
        """Numbers of the coefficients that were penalized, whatever the parameters are now."""
        return np.flatnonzero(self.alpha * self.factor)

    def attributes(self) -> dict[str, Any]:
        """Public attributes of an estimator."""
        found = self.setting.attributes() | self.estimate.attributes() | self.costs
        found["null_log_likelihood_"] = self.null_log_likelihood
        return found | {"infinite_": self.infinite}


def fitted_of(estimator) -> Fitted:
    """All that an estimator's fit has found, under the names that its columns have now.

    Users give names to columns that had none as they do with scikit-learn's estimators, by
    ``feature_names_in_``.
    """
    check_is_fitted(estimator)
    fitted = estimator._fitted
    if fitted is None:  # some public attribute is a user's
        raise NotFittedError(f"this {type(estimator).__name__} is not fitted yet; call `fit`.")
    header = fitted.setting.header
    names = getattr(estimator, "feature_names_in_", None)
    if names is header.names:
        return fitted
    return replace(fitted, setting=replace(fitted.setting, header=header._replace(names=names)))


def adopt(estimator, fitted: Fitted) -> None:
    """Make an estimator one that has found something, in place of what it had found before."""
    before, attributes = estimator._fitted, fitted.attributes()
    found_before = {"feature_names_in_"} | (before.attributes() if before else {}).keys()
    for name in found_before - attributes.keys():
        vars(estimator).pop(name, None)
    for name, value in attributes.items():
        setattr(estimator, name, value)
    estimator._fitted = fitted


def with_names(estimator, names):
    """Copy of a fitted estimator whose columns had no names when it was fitted."""
    copied = copy.copy(estimator)
    copied.feature_names_in_ = names
    return copied
