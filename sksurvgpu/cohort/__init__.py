"""From tables of persons to those who are compared: scores, matching, weights, attrition."""

from .cohort import Cohort
from .matching import match
from .scores import equipoise, preference_score, stratify, trim
from .weighting import weigh

__all__ = ["Cohort", "equipoise", "match", "preference_score", "stratify", "trim", "weigh"]
