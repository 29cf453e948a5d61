# What is public, for type checkers and for __init__.py, which loads a name on first use.

from . import datasets as datasets
from . import exceptions as exceptions
from . import metrics as metrics
from .bayes.posterior import Posterior as Posterior
from .data.design.columns import Design as Design
from .data.long.table import LongData as LongData
from .data.long.table import LongReport as LongReport
from .data.long.table import from_long as from_long
from .data.outcomes.competing import competing_risks as competing_risks
from .data.outcomes.counts import case_series as case_series
from .data.outcomes.counts import matched as matched
from .data.outcomes.survival import as_sksurv as as_sksurv
from .data.outcomes.survival import surv as surv
from .estimators.bayesian_multinomial import (
    BayesianMultinomialLogistic as BayesianMultinomialLogistic,
)
from .estimators.bayesian_regression import BayesianLasso as BayesianLasso
from .estimators.case_series import CaseSeriesCCD as CaseSeriesCCD
from .estimators.case_series import ConditionalPoissonCCD as ConditionalPoissonCCD
from .estimators.competing import FineGrayCCD as FineGrayCCD
from .estimators.conditional_logistic import ConditionalLogisticCCD as ConditionalLogisticCCD
from .estimators.logistic import LogisticCCD as LogisticCCD
from .estimators.regression import LinearCCD as LinearCCD
from .estimators.regression import PoissonCCD as PoissonCCD
from .estimators.survival import CoxLassoCCD as CoxLassoCCD
from .inference.bootstrap import BootstrapResult as BootstrapResult
from .inference.bootstrap import bootstrap as bootstrap
from .inference.false_discovery import false_discovery as false_discovery
from .inference.false_discovery import local_false_discovery as local_false_discovery
from .inference.likelihood_ratio import LikelihoodRatioResult as LikelihoodRatioResult
from .inference.likelihood_ratio import likelihood_ratio_test as likelihood_ratio_test
from .inference.posterior import posterior as posterior
from .inference.profile import ProfileResult as ProfileResult
from .inference.profile import profile_likelihood as profile_likelihood
from .inference.proportional_hazards import ProportionalHazardsResult as ProportionalHazardsResult
from .inference.proportional_hazards import proportional_hazards_test as proportional_hazards_test
from .inference.residuals import residuals as residuals
from .inference.stability import stability_selection as stability_selection
from .inference.stability_result import StabilityResult as StabilityResult
from .inference.wald import WaldResult as WaldResult
from .inference.wald import wald as wald
from .penalties.variances import alpha_of_variance as alpha_of_variance
from .penalties.variances import mixed_priors as mixed_priors
from .penalties.variances import variance_of_alpha as variance_of_alpha
from .plotting.bootstrap import BootstrapDisplay as BootstrapDisplay
from .plotting.calibration import CalibrationDisplay as CalibrationDisplay
from .plotting.coefficients import CoefficientDisplay as CoefficientDisplay
from .plotting.cv import CVDisplay as CVDisplay
from .plotting.incidence import CumulativeIncidenceDisplay as CumulativeIncidenceDisplay
from .plotting.path import PathDisplay as PathDisplay
from .plotting.profile import ProfileDisplay as ProfileDisplay
from .plotting.stability import StabilityDisplay as StabilityDisplay
from .plotting.survival import SurvivalDisplay as SurvivalDisplay
from .plotting.trace import TraceDisplay as TraceDisplay
from .selection.criteria import information_criteria as information_criteria
from .selection.folds import SurvivalKFold as SurvivalKFold
from .selection.models import CaseSeriesCV as CaseSeriesCV
from .selection.models import ConditionalLogisticCV as ConditionalLogisticCV
from .selection.models import CoxLassoCV as CoxLassoCV
from .selection.models import FineGrayCV as FineGrayCV
from .selection.models import LogisticCV as LogisticCV
from .selection.models import PoissonCV as PoissonCV
from .selection.path import Path as Path
from .selection.path import fit_path as fit_path
from .show_versions import show_versions as show_versions

__version__: str
