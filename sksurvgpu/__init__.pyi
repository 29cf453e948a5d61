# What is public, for type checkers and for __init__.py, which loads a name on first use.

from . import cohort as cohort
from . import datasets as datasets
from . import exceptions as exceptions
from . import federated as federated
from . import metrics as metrics
from . import nonparametric as nonparametric
from . import plotting as plotting
from . import results as results
from ._progress import show_progress as show_progress
from ._warm_up import warm_up as warm_up
from .data.categories import CategoryColumns as CategoryColumns
from .data.design.columns import Design as Design
from .data.design.genotypes import read_bed as read_bed
from .data.design.named import NamedColumns as NamedColumns
from .data.design.narrow import keep_types as keep_types
from .data.outcomes.competing import competing_risks as competing_risks
from .data.outcomes.counts import case_series as case_series
from .data.outcomes.counts import matched as matched
from .data.outcomes.states import multi_state as multi_state
from .data.outcomes.states import transition_table as transition_table
from .data.outcomes.survival import as_sksurv as as_sksurv
from .data.outcomes.survival import surv as surv
from .data.prepare import PrepareColumns as PrepareColumns
from .data.products import ProductColumns as ProductColumns
from .data.splines import SplineColumns as SplineColumns
from .data.steps import StepColumns as StepColumns
from .estimators.bayesian_multinomial import (
    BayesianMultinomialLogistic as BayesianMultinomialLogistic,
)
from .estimators.bayesian_regression import BayesianLasso as BayesianLasso
from .estimators.case_series import CaseSeriesCCD as CaseSeriesCCD
from .estimators.case_series import ConditionalPoissonCCD as ConditionalPoissonCCD
from .estimators.causes import CauseSpecificCox as CauseSpecificCox
from .estimators.competing import FineGrayCCD as FineGrayCCD
from .estimators.conditional_logistic import ConditionalLogisticCCD as ConditionalLogisticCCD
from .estimators.export import to_json as to_json
from .estimators.export import to_sklearn as to_sklearn
from .estimators.logistic import LogisticCCD as LogisticCCD
from .estimators.multi_state import MultiStateCox as MultiStateCox
from .estimators.pipelines import Pipeline as Pipeline
from .estimators.pipelines import make_pipeline as make_pipeline
from .estimators.regression import LinearCCD as LinearCCD
from .estimators.regression import PoissonCCD as PoissonCCD
from .estimators.survival import CoxLassoCCD as CoxLassoCCD
from .inference.average_risk import average_risk as average_risk
from .inference.bootstrap import bootstrap as bootstrap
from .inference.calibration import calibrate as calibrate
from .inference.certificate import certificate as certificate
from .inference.combination import combine_profiles as combine_profiles
from .inference.curve_intervals import curve_intervals as curve_intervals
from .inference.debiased import debiased as debiased
from .inference.false_discovery import false_discovery as false_discovery
from .inference.false_discovery import local_false_discovery as local_false_discovery
from .inference.likelihood_ratio import likelihood_ratio_test as likelihood_ratio_test
from .inference.outcomes import fit_outcomes as fit_outcomes
from .inference.posterior import posterior as posterior
from .inference.probability_intervals import probability_intervals as probability_intervals
from .inference.profile import profile_likelihood as profile_likelihood
from .inference.proportional_hazards import proportional_hazards_test as proportional_hazards_test
from .inference.residuals import residuals as residuals
from .inference.stability import stability_selection as stability_selection
from .inference.wald import wald as wald
from .partitions.store import open_partitions as open_partitions
from .partitions.write import write_partitions as write_partitions
from .penalties.fused import Fused as Fused
from .penalties.group_lasso import GroupLasso as GroupLasso
from .penalties.labels import groups_from as groups_from
from .penalties.mcp import MCP as MCP
from .penalties.scad import SCAD as SCAD
from .penalties.variances import alpha_of_variance as alpha_of_variance
from .penalties.variances import mixed_priors as mixed_priors
from .penalties.variances import variance_of_alpha as variance_of_alpha
from .plotting import *  # noqa: F403
from .results import *  # noqa: F403
from .routes.adaptive import Adaptive as Adaptive
from .routes.broken_ridge import BrokenRidge as BrokenRidge
from .routes.firth import Firth as Firth
from .routes.hierarchical import Hierarchical as Hierarchical
from .selection.criteria import information_criteria as information_criteria
from .selection.folds import SurvivalKFold as SurvivalKFold
from .selection.models import CaseSeriesCV as CaseSeriesCV
from .selection.models import ConditionalLogisticCV as ConditionalLogisticCV
from .selection.models import ConditionalPoissonCV as ConditionalPoissonCV
from .selection.models import CoxLassoCV as CoxLassoCV
from .selection.models import FineGrayCV as FineGrayCV
from .selection.models import LinearCV as LinearCV
from .selection.models import LogisticCV as LogisticCV
from .selection.models import PoissonCV as PoissonCV
from .selection.path import fit_path as fit_path
from .selection.scorers import LogLikelihoodScorer as LogLikelihoodScorer
from .selection.screen import screen as screen
from .show_versions import show_versions as show_versions
from .tables.episodes import episodes as episodes
from .tables.from_long import from_long as from_long

__version__: str
