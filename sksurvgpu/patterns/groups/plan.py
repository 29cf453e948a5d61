"""GroupPlan: rows in the order of their groups, for models without time.

The groups are subjects of a case series or matched sets; all rows are one group where a model has
at most a common intercept.
"""

from dataclasses import dataclass

import numpy as np

from ...data.sorting import order_by_group

FEW_GROUPS = 64  # up to here every column keeps a load for each


@dataclass(frozen=True)
class GroupPlan:
    """Row order and groups of one problem; independent of weights."""

    order: np.ndarray  # int32 (n_rows,): caller's row of every row
    value: np.ndarray  # float64 (n_rows,): outcome
    ptr: np.ndarray  # int64 (n_groups + 1,): rows of each group
    group_idx: np.ndarray  # uint16 (few groups) or uint32, per row

    # the time axis is in one piece: see `rows.RowPlan`
    first = np.zeros(1, np.int64)
    shift = np.zeros(1, np.int64)
    n_pieces = 1

    @property
    def n_rows(self):
        return len(self.order)

    n_base = n_rows

    def beside(self, n_columns):
        """The plan where there are so many columns: the same."""
        return self

    @property
    def n_strata(self):
        return len(self.ptr) - 1

    n_bins = n_strata
    n_cells = n_strata

    @property
    def few(self):
        """Whether a column can afford to keep one number for every group."""
        return self.n_strata <= FEW_GROUPS

    def stratum_of_row(self):
        """Group of every row."""
        return self.group_idx

    def per_copy(self, per_row):
        """One number a row, as it is: rows have no copies."""
        return per_row


def plan_groups(value, group=None):
    """Plan of rows with the given outcomes, in groups numbered from 0 (None: one group)."""
    n = len(value)
    if group is None:
        order, ptr = np.arange(n, dtype=np.int32), np.array([0, n])
    else:
        order, ptr = order_by_group(group, np.arange(n, dtype=np.int32), 0)
    few = len(ptr) - 1 <= FEW_GROUPS
    sizes = np.diff(ptr)
    group_idx = np.repeat(np.arange(len(sizes), dtype=np.uint16 if few else np.uint32), sizes)
    return GroupPlan(order, np.ascontiguousarray(value[order]), ptr, group_idx)
