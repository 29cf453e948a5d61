"""From tables of persons to those who are compared: scores, matching, weights, balance."""

from .balance import BalanceResult, balance
from .case_crossover import CaseCrossoverData, case_crossover_windows
from .case_series import eras_to_intervals
from .case_series_data import CaseSeriesData, CaseSeriesReport
from .cohort import Cohort
from .risk_windows import RiskWindow

__all__ = [
    "BalanceResult",
    "CaseCrossoverData",
    "CaseSeriesData",
    "CaseSeriesReport",
    "Cohort",
    "RiskWindow",
    "balance",
    "case_crossover_windows",
    "eras_to_intervals",
]
