"""From tables of persons to those who are compared: scores, matching, weights, balance."""

from .balance import BalanceResult, balance
from .cohort import Cohort

__all__ = ["BalanceResult", "Cohort", "balance"]
