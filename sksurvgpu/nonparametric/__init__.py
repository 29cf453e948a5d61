"""Outcomes without a model: curves, tests and means of groups."""

from .aalen_johansen import AalenJohansen, aalen_johansen
from .kaplan_meier import KaplanMeier, kaplan_meier
from .log_rank import LogRank, log_rank
from .restricted_mean import RestrictedMean, restricted_mean

__all__ = [
    "AalenJohansen",
    "KaplanMeier",
    "LogRank",
    "RestrictedMean",
    "aalen_johansen",
    "kaplan_meier",
    "log_rank",
    "restricted_mean",
]
