"""What a problem is apart from its rows, which may be elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .time_varying import Terms

__all__ = ["Outline"]


@dataclass(frozen=True, eq=False)
class Outline:
    """Likelihood, columns and, where there are rows, the outcome as a plan reads it."""

    likelihood: Any
    terms: Terms
    outcome: Any = None
    censoring: dict[str, Any] = field(default_factory=dict)  # what `plan_competing` needs

    @classmethod
    def plain(cls, likelihood, n_columns, names, outcome, **censoring) -> Outline:
        """One coefficient a column, at all times."""
        return cls(likelihood, Terms.of(None, n_columns, names), outcome, censoring)

    @property
    def maps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Column of X and pieces of every coefficient, and where pieces are cut."""
        return self.terms.source, self.terms.piece_ptr, self.terms.cuts
