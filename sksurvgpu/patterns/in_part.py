"""What partitions make of their rows: one class a pattern, named by likelihoods."""

from __future__ import annotations

from ..backends.sums.local import LocalPattern, LocalRows, LocalSets
from ..backends.sums.pattern import Pattern
from .risk_sets.part import CarriedPattern, RiskSetPattern

PATTERNS: dict[str, type[Pattern]] = {
    "rows": LocalRows,
    "group_sums": LocalPattern,
    "subsets": LocalSets,
    "risk_sets": RiskSetPattern,
    "carried_risk_sets": CarriedPattern,
}
