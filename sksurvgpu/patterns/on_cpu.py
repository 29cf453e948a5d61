"""Refresh patterns: one class a way of looping over rows, named by likelihoods."""

from .carried.cpu import CarriedPattern
from .groups.cpu import GroupPattern
from .risk_sets.cpu import RiskSetPattern
from .rows.cpu import RowPattern
from .subsets.cpu import SubsetPattern

PATTERNS = {
    "rows": RowPattern,
    "group_sums": GroupPattern,
    "subsets": SubsetPattern,
    "risk_sets": RiskSetPattern,
    "carried_risk_sets": CarriedPattern,
}
