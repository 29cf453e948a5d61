"""Patterns on the device, by the names that likelihoods give."""

from .carried.cuda import CarriedPattern
from .groups.cuda import GroupPattern
from .risk_sets.cuda import RiskSetPattern
from .rows.cuda import RowPattern
from .subsets.cuda import SubsetPattern

PATTERNS = {
    "carried_risk_sets": CarriedPattern,
    "group_sums": GroupPattern,
    "risk_sets": RiskSetPattern,
    "rows": RowPattern,
    "subsets": SubsetPattern,
}
