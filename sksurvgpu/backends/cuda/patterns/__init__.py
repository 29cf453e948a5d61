"""Patterns on the device, by the names that likelihoods give."""

from .carried import CarriedPattern
from .groups import GroupPattern
from .risk_sets import RiskSetPattern
from .rows import RowPattern
from .subsets import SubsetPattern

PATTERNS = {
    "carried_risk_sets": CarriedPattern,
    "group_sums": GroupPattern,
    "risk_sets": RiskSetPattern,
    "rows": RowPattern,
    "subsets": SubsetPattern,
}
