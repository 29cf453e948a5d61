"""Fine and Gray's model of the subdistribution hazard, with inverse-probability weights.

The hazard of one cause of several: rows with a competing event stay in the risk sets, with weight
G(t-) / G(T_i-) where G is the probability of not being censored (Fine and Gray 1999).

    l = sum c delta eta - sum_k dw_k log D_k,   a_k = dw_k / D_k

with D_k the weighted sum of c exp(eta) over these risk sets; tied events as in Breslow's formula.
G is the Kaplan-Meier curve of the censoring under the case weights c, so that a weight of 2 is the
row given twice.
"""

from dataclasses import dataclass

from ..patterns.carried import CarriedPattern
from .cox import breslow_coordinate, breslow_jump


@dataclass(frozen=True)
class FineGray:
    """Subdistribution hazard of one cause among competing ones."""

    pattern = CarriedPattern
    uses_ties = False
    jump_formula = staticmethod(breslow_jump)
    coordinate_formula = staticmethod(breslow_coordinate)
