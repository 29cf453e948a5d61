"""From two groups of persons to comparable ones: scores, matching, weights, balance."""

from .balance import BalanceResult, balance

__all__ = ["BalanceResult", "balance"]
