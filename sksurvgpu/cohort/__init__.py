"""From tables of persons to those who are compared: scores, matching, weights, attrition."""

from .cohort import Cohort

__all__ = ["Cohort"]
