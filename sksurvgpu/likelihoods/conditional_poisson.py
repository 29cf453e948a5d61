"""Conditional Poisson regression, and the self-controlled case series.

Counts y of the rows of a group (an era of a subject, a cell of a stratum) are Poisson with mean
exp(intercept of the group + eta).  Given the group's total N_g they are multinomial with
p_i = exp(eta_i) / sum over the group, and the intercepts have gone (Farrington 1995):

    l = sum c y log p

The logarithm of an era's length or of an exposure is an offset.  Groups without an event, and of
one row, contribute nothing.
"""

from dataclasses import dataclass

from ..patterns.groups import GroupPattern
from .poisson import Poisson


@dataclass(frozen=True)
class ConditionalPoisson:
    """Counts given the totals of their groups."""

    pattern = GroupPattern
    unit_deviance = staticmethod(Poisson.unit_deviance)
