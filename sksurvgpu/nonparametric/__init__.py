"""Outcomes without a model: curves, tests and means of groups."""

from .aalen_johansen import AalenJohansen, aalen_johansen
from .gray import GrayTest, gray_test
from .kaplan_meier import KaplanMeier, kaplan_meier
from .log_rank import LogRank, log_rank
from .restricted_mean import RestrictedMean, restricted_mean

__all__ = [
    "AalenJohansen",
    "GrayTest",
    "KaplanMeier",
    "LogRank",
    "RestrictedMean",
    "aalen_johansen",
    "gray_test",
    "kaplan_meier",
    "log_rank",
    "restricted_mean",
]
