"""From tables of persons to those who are compared: scores, matching, weights, balance."""

from .balance import BalanceResult, balance
from .cohort import Cohort
from .matching import match
from .scores import equipoise, preference_score, stratify, trim
from .weighting import weigh

__all__ = [
    "BalanceResult",
    "Cohort",
    "balance",
    "equipoise",
    "match",
    "preference_score",
    "stratify",
    "trim",
    "weigh",
]
