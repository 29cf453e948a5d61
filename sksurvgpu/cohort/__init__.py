"""From tables of persons to those who are compared: scores, matching, weights, balance."""

from .balance import BalanceResult, balance
from .case_crossover import CaseCrossoverData, case_crossover_windows
from .case_series import eras_to_intervals
from .case_series_data import CaseSeriesData, CaseSeriesReport
from .cohort import Cohort
from .matching import match
from .risk_windows import RiskWindow
from .scores import equipoise, preference_score, stratify, trim
from .weighting import weigh

__all__ = [
    "BalanceResult",
    "CaseCrossoverData",
    "CaseSeriesData",
    "CaseSeriesReport",
    "Cohort",
    "RiskWindow",
    "balance",
    "case_crossover_windows",
    "equipoise",
    "eras_to_intervals",
    "match",
    "preference_score",
    "stratify",
    "trim",
    "weigh",
]
