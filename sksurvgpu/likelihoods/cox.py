"""Cox's partial likelihood: strata, delayed entry, case weights, tied deaths.

With event indices k, D_k the sum of w = c exp(eta) over the rows at risk, T_k over the d_k deaths
and dw_k the deaths' case weight (Breslow 1974; Efron 1977):

    Breslow   l = sum c delta eta - sum_k dw_k log D_k                    a_k = dw_k / D_k
    Efron     l = sum c delta eta - sum_k (dw_k/d_k) sum_l log den_l      den_l = D_k - (l/d_k) T_k
              a_k = (dw_k/d_k) sum_l 1/den_l,   held_k = (dw_k/d_k) sum_l (l/d_k)/den_l
    h_i = w_i (A[exit_i] - A[enter_i]) - delta_i w_i held[exit_i],   u_i = c_i delta_i - h_i

One evaluation costs O(rows + cells) (Efron: + deaths).  Under Breslow a weight of 2 is the row
given twice; under Efron it is not, because d_k counts rows.
"""

import math
from dataclasses import dataclass

from numba import njit

from ..patterns.risk_sets import RiskSetPattern


@njit(error_model="numpy")
def breslow_jump(risk, tied, death_weight, deaths):
    jump = death_weight / risk
    return death_weight * math.log(risk), jump, 0.0


@njit(error_model="numpy")
def efron_jump(risk, tied, death_weight, deaths):
    log_term, jump, held = 0.0, 0.0, 0.0
    for l in range(int(deaths)):  # noqa: E741 (the symbol of the formula)
        fraction = l / deaths
        inverse = 1.0 / (risk - fraction * tied)
        log_term -= math.log(inverse)
        jump += inverse
        held += fraction * inverse
    share = death_weight / deaths
    return share * log_term, share * jump, share * held


@njit(error_model="numpy")
def breslow_coordinate(s0, s1, s2, t0, t1, t2, death_weight, deaths):
    mean = s1 / s0
    return death_weight * mean, death_weight * (s2 / s0 - mean * mean)


@njit(error_model="numpy")
def efron_coordinate(s0, s1, s2, t0, t1, t2, death_weight, deaths):
    slope, curvature = 0.0, 0.0
    for l in range(int(deaths)):  # noqa: E741
        fraction = l / deaths
        total = s0 - fraction * t0
        mean = (s1 - fraction * t1) / total
        slope += mean
        curvature += (s2 - fraction * t2) / total - mean * mean
    share = death_weight / deaths
    return share * slope, share * curvature


@dataclass(frozen=True)
class Cox:
    """Cox's partial likelihood with the given treatment of ties."""

    ties: str = "breslow"
    pattern = RiskSetPattern

    @property
    def uses_ties(self):
        """Whether the formulas look at sums over tied deaths."""
        return self.ties == "efron"

    @property
    def jump_formula(self):
        return {"breslow": breslow_jump, "efron": efron_jump}[self.ties]

    @property
    def coordinate_formula(self):
        """Slope and curvature along one column at one cell, for the exact algorithm."""
        return {"breslow": breslow_coordinate, "efron": efron_coordinate}[self.ties]
