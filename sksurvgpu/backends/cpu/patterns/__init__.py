"""Refresh patterns: one class a way of looping over rows, named by likelihoods."""

from .carried import CarriedPattern
from .groups import GroupPattern
from .risk_sets import RiskSetPattern
from .rows import RowPattern
from .subsets import SubsetPattern

PATTERNS = {
    "rows": RowPattern,
    "group_sums": GroupPattern,
    "subsets": SubsetPattern,
    "risk_sets": RiskSetPattern,
    "carried_risk_sets": CarriedPattern,
}
