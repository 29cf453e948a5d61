"""Conditional logistic regression: matched sets with m cases among n rows, exactly.

    l = sum over cases of c eta - sum over sets of c log B(m, n),

B(m, n) = sum of exp(eta) over all subsets of m rows; given m, the cases are such a subset with
probability proportional to its product of exp(eta) (Breslow and Day 1980).  c is constant within a
set.  Sets without a case, or without a row that is none, contribute nothing.

Breslow's and Efron's approximations are Cox's partial likelihood with every set a stratum whose
rows all leave at one time: see `cox`.
"""

from dataclasses import dataclass

from ..patterns.subsets import SubsetPattern


@dataclass(frozen=True)
class ConditionalLogistic:
    """The exact conditional likelihood of matched sets."""

    pattern = SubsetPattern
