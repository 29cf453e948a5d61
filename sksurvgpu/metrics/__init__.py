"""Agreement of predicted risks with what was observed, in single numbers and in groups."""

from .calibration import Calibration, calibration
from .comparison import compare
from .competing import concordance, concordance_competing
from .net_benefit import net_benefit
from .scores import (
    auc,
    auc_competing,
    brier_score,
    brier_score_competing,
    integrated_brier_score,
    integrated_brier_score_competing,
)

__all__ = [
    "Calibration",
    "auc",
    "auc_competing",
    "brier_score",
    "brier_score_competing",
    "calibration",
    "compare",
    "concordance",
    "concordance_competing",
    "integrated_brier_score",
    "integrated_brier_score_competing",
    "net_benefit",
]
