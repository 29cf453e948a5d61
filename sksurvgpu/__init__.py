"""Massive regularized survival regression with a scikit-learn interface.

Public names are loaded on first use (PEP 562), so that ``import sksurvgpu`` costs nothing
and neither numba nor a CUDA driver is touched before a model is built.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not lazy: the function must win over the submodule of the same name, whichever is asked first.
from .show_versions import show_versions

if TYPE_CHECKING:
    from . import datasets, exceptions, metrics
    from .bayes.posterior import Posterior
    from .data.design.columns import Design
    from .data.long.table import LongData, LongReport, from_long
    from .data.outcomes.competing import competing_risks
    from .data.outcomes.counts import case_series, matched
    from .data.outcomes.survival import as_sksurv, surv
    from .estimators.bayesian_multinomial import BayesianMultinomialLogistic
    from .estimators.bayesian_regression import BayesianLasso
    from .estimators.case_series import CaseSeriesCCD, ConditionalPoissonCCD
    from .estimators.competing import FineGrayCCD
    from .estimators.conditional_logistic import ConditionalLogisticCCD
    from .estimators.logistic import LogisticCCD
    from .estimators.regression import LinearCCD, PoissonCCD
    from .estimators.survival import CoxLassoCCD
    from .inference.bootstrap import BootstrapResult, bootstrap
    from .inference.likelihood_ratio import LikelihoodRatioResult, likelihood_ratio_test
    from .inference.posterior import posterior
    from .inference.profile import ProfileResult, profile_likelihood
    from .inference.proportional_hazards import (
        ProportionalHazardsResult,
        proportional_hazards_test,
    )
    from .inference.residuals import residuals
    from .inference.wald import WaldResult, wald
    from .plotting.bootstrap import BootstrapDisplay
    from .plotting.calibration import CalibrationDisplay
    from .plotting.coefficients import CoefficientDisplay
    from .plotting.cv import CVDisplay
    from .plotting.incidence import CumulativeIncidenceDisplay
    from .plotting.path import PathDisplay
    from .plotting.profile import ProfileDisplay
    from .plotting.survival import SurvivalDisplay
    from .plotting.trace import TraceDisplay
    from .selection.folds import SurvivalKFold
    from .selection.models import (
        CaseSeriesCV,
        ConditionalLogisticCV,
        CoxLassoCV,
        FineGrayCV,
        LogisticCV,
        PoissonCV,
    )
    from .selection.path import Path, fit_path

__version__ = "0.1.0"

__all__ = [
    "BayesianLasso",
    "BayesianMultinomialLogistic",
    "BootstrapDisplay",
    "BootstrapResult",
    "CVDisplay",
    "CalibrationDisplay",
    "CaseSeriesCCD",
    "CaseSeriesCV",
    "CoefficientDisplay",
    "ConditionalLogisticCCD",
    "ConditionalLogisticCV",
    "ConditionalPoissonCCD",
    "CoxLassoCCD",
    "CoxLassoCV",
    "CumulativeIncidenceDisplay",
    "Design",
    "FineGrayCCD",
    "FineGrayCV",
    "LikelihoodRatioResult",
    "LinearCCD",
    "LogisticCCD",
    "LogisticCV",
    "LongData",
    "LongReport",
    "Path",
    "PathDisplay",
    "PoissonCCD",
    "PoissonCV",
    "Posterior",
    "ProfileDisplay",
    "ProfileResult",
    "ProportionalHazardsResult",
    "SurvivalDisplay",
    "SurvivalKFold",
    "TraceDisplay",
    "WaldResult",
    "__version__",
    "as_sksurv",
    "bootstrap",
    "case_series",
    "competing_risks",
    "datasets",
    "exceptions",
    "fit_path",
    "from_long",
    "likelihood_ratio_test",
    "matched",
    "metrics",
    "posterior",
    "profile_likelihood",
    "proportional_hazards_test",
    "residuals",
    "show_versions",
    "surv",
    "wald",
]

# Public name -> module that defines it.
_DEFINED_IN = {
    "BayesianLasso": ".estimators.bayesian_regression",
    "BayesianMultinomialLogistic": ".estimators.bayesian_multinomial",
    "BootstrapDisplay": ".plotting.bootstrap",
    "BootstrapResult": ".inference.bootstrap",
    "CVDisplay": ".plotting.cv",
    "CalibrationDisplay": ".plotting.calibration",
    "CaseSeriesCCD": ".estimators.case_series",
    "CaseSeriesCV": ".selection.models",
    "CoefficientDisplay": ".plotting.coefficients",
    "ConditionalLogisticCCD": ".estimators.conditional_logistic",
    "ConditionalLogisticCV": ".selection.models",
    "ConditionalPoissonCCD": ".estimators.case_series",
    "CoxLassoCCD": ".estimators.survival",
    "CoxLassoCV": ".selection.models",
    "CumulativeIncidenceDisplay": ".plotting.incidence",
    "Design": ".data.design.columns",
    "FineGrayCCD": ".estimators.competing",
    "FineGrayCV": ".selection.models",
    "LikelihoodRatioResult": ".inference.likelihood_ratio",
    "LinearCCD": ".estimators.regression",
    "LogisticCCD": ".estimators.logistic",
    "LogisticCV": ".selection.models",
    "LongData": ".data.long.table",
    "LongReport": ".data.long.table",
    "Path": ".selection.path",
    "PathDisplay": ".plotting.path",
    "PoissonCCD": ".estimators.regression",
    "PoissonCV": ".selection.models",
    "Posterior": ".bayes.posterior",
    "ProfileDisplay": ".plotting.profile",
    "ProfileResult": ".inference.profile",
    "ProportionalHazardsResult": ".inference.proportional_hazards",
    "SurvivalDisplay": ".plotting.survival",
    "SurvivalKFold": ".selection.folds",
    "TraceDisplay": ".plotting.trace",
    "WaldResult": ".inference.wald",
    "as_sksurv": ".data.outcomes.survival",
    "bootstrap": ".inference.bootstrap",
    "case_series": ".data.outcomes.counts",
    "competing_risks": ".data.outcomes.competing",
    "fit_path": ".selection.path",
    "from_long": ".data.long.table",
    "likelihood_ratio_test": ".inference.likelihood_ratio",
    "matched": ".data.outcomes.counts",
    "posterior": ".inference.posterior",
    "profile_likelihood": ".inference.profile",
    "proportional_hazards_test": ".inference.proportional_hazards",
    "residuals": ".inference.residuals",
    "surv": ".data.outcomes.survival",
    "wald": ".inference.wald",
}
_SUBMODULES = {"datasets", "exceptions", "metrics"}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f".{name}", __name__)
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_DEFINED_IN[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
