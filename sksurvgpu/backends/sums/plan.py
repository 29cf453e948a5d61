"""The plan of rows in partitions: their cells of time, and no row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class SumPlan:
    """What is known of the rows of all partitions together."""

    n_base: int  # rows of X
    n_strata: int = 1
    n_pieces: int = 1
    # of patterns with cells
    cell_ptr: np.ndarray | None = None  # int64 (n_pieces * n_strata + 1,)
    cell_time: np.ndarray | None = None
    bins: Any = None  # `patterns.risk_sets.plan.BinPlan`
    events: Any = None  # `patterns.risk_sets.joined.EventTimes`
    # of patterns with lanes
    lanes: Any = None  # `patterns.carried.plan.Lanes`
    curves: Any = None  # `patterns.carried.joined.Curves`

    @property
    def n_cells(self):
        return 0 if self.cell_ptr is None else int(self.cell_ptr[-1])

    @property
    def few(self):
        """Whether a column can afford to keep one number for every bin."""
        return self.bins is None or self.bins.few

    @property
    def n_bins(self):
        return 1 if self.bins is None else self.bins.n_bins

    @property
    def one_lane_a_stratum(self):
        """Whether rows of a stratum are carried along the same curve."""
        return self.lanes is None or len(self.lanes.lane_cell) == self.n_strata
