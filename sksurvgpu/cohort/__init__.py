"""From tables of persons to those who are compared: scores, matching, weights, balance."""

from .balance import BalanceResult, balance
from .case_crossover import CaseCrossoverData, case_crossover_windows
from .case_series import eras_to_intervals
from .case_series_checks import CaseSeriesDiagnostics, case_series_diagnostics
from .case_series_data import CaseSeriesData, CaseSeriesReport
from .cohort import Cohort
from .follow_up import time_at_risk
from .incidence import IncidenceRate, incidence_rate, minimal_detectable_effect
from .matching import match
from .observation import observe
from .risk_windows import RiskWindow
from .scores import equipoise, preference_score, stratify, trim
from .sequential import SequentialBoundary, group_sequential, max_sprt
from .weighting import weigh

__all__ = [
    "BalanceResult",
    "CaseCrossoverData",
    "CaseSeriesData",
    "CaseSeriesDiagnostics",
    "CaseSeriesReport",
    "Cohort",
    "IncidenceRate",
    "RiskWindow",
    "SequentialBoundary",
    "balance",
    "case_crossover_windows",
    "case_series_diagnostics",
    "equipoise",
    "eras_to_intervals",
    "group_sequential",
    "incidence_rate",
    "match",
    "max_sprt",
    "minimal_detectable_effect",
    "observe",
    "preference_score",
    "stratify",
    "time_at_risk",
    "trim",
    "weigh",
]
