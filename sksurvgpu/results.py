"""Results that functions return, with their tables, which nobody makes by hand."""

from .bayes.posterior import Posterior
from .data.design.genotypes import Genotypes
from .inference.average_risk import AverageRisk
from .inference.bootstrap import BootstrapResult
from .inference.calibration import CalibratedEffects
from .inference.certificate import Certificate
from .inference.combination import CombinedProfiles
from .inference.curve_intervals import CurveIntervals
from .inference.debiased import DebiasedResult
from .inference.joint import JointTest
from .inference.likelihood_ratio import LikelihoodRatioResult
from .inference.outcomes import OutcomesResult
from .inference.profile import ProfileResult
from .inference.proportional_hazards import ProportionalHazardsResult
from .inference.stability_result import StabilityResult
from .inference.wald import WaldResult
from .partitions.store import PartitionedData
from .selection.path import Path
from .selection.screen import ScreenResult
from .tables.results import Episodes, EpisodesReport, LongData, LongReport

__all__ = [
    "AverageRisk",
    "BootstrapResult",
    "CalibratedEffects",
    "Certificate",
    "CombinedProfiles",
    "CurveIntervals",
    "DebiasedResult",
    "Episodes",
    "EpisodesReport",
    "Genotypes",
    "JointTest",
    "LikelihoodRatioResult",
    "LongData",
    "LongReport",
    "OutcomesResult",
    "PartitionedData",
    "Path",
    "Posterior",
    "ProfileResult",
    "ProportionalHazardsResult",
    "ScreenResult",
    "StabilityResult",
    "WaldResult",
]
