"""Risk sets that keep rows beyond their exit, on the device: formulas as in `cpu`.

What lanes bring to a risk set needs no scan over their cells: the carried rows are scanned in the
order of their lane cells, and every lane cell knows how many of them lie before it.  They are
scanned first, so that all members see the sums after the barrier of the scan for D, and B after A,
so that they see all jumps.  In logarithms the same scans are of sums on their own scales.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import int64

from ..._compile import BOUND, bind
from ...backends.cuda import weights
from ...backends.cuda._cuda import device
from ...backends.cuda.rake import add_exactly, add_scaled, make_rake
from ..risk_sets.cuda import RiskSetsOnDevice, log_weight, make_phases_in_logs
from ..risk_sets.cuda_cells import make_phases, make_risk_scan, risk_weight

rake = BOUND


class LaneRows(NamedTuple):
    """Lanes, and the rows that are carried along them."""

    row: np.ndarray  # int32 per carried row, in the order of their lane cells
    is_first: np.ndarray  # uint8 per carried row: whether it is the first of its lane
    before: np.ndarray  # int32 per lane cell: rows carried from lane cells before it, of any lane
    cell: np.ndarray  # int32 per lane cell
    is_last: np.ndarray  # uint8 per lane cell: whether it is the last of its lane
    lane_ptr: np.ndarray  # int64
    lane_cell: np.ndarray  # int64 per lane: first cell of its stratum
    stratum_lanes: np.ndarray  # int64
    stratum: np.ndarray  # int32 per cell


@device
def _load_carried(context, m):
    _, lanes, part, _ = context
    return part.carried[m], 0.0, 0.0, int64(lanes.is_first[m])


@device
def _weigh_carried(context, m):
    """v of a carried row, which `_load_carried` reads before its sum takes the place."""
    _, lanes, part, top = context
    i = lanes.row[m]
    part.carried[m] = risk_weight(part, i, top) * part.inverse[i]
    return _load_carried(context, m)


@device
def _take_carried(context, m, before, after):
    context[2].carried[m] = after[0] + after[1]
    return 0.0, 0.0


@device
def _load_back(context, position):
    _, lanes, part, _ = context
    q = lanes.is_last.shape[0] - 1 - position
    k = lanes.cell[q]
    jump = part.jump[k] * part.survival[q] if part.deaths[k] > 0.0 else 0.0
    return jump, 0.0, 0.0, int64(lanes.is_last[q])


@device
def _take_back(context, position, before, after):
    """Keep the sum over later cells, which is B."""
    _, lanes, part, _ = context
    part.back[lanes.is_last.shape[0] - 1 - position] = before[0] + before[1]
    return 0.0, 0.0


def _scan_rows(exchange, context, turn, scratch):
    rake(exchange, context[1].row.shape[0], context, turn, scratch)
    return turn + 1


def _scan_lane_cells(exchange, context, turn, scratch):
    rake(exchange, context[1].is_last.shape[0], context, turn, scratch)
    return turn + 1


def _phase(scan, *formulas, **others):
    return device(bind(scan, rake=make_rake(*formulas, **others)))


_scan_carried = _phase(_scan_rows, _weigh_carried, _take_carried, _load_carried, add_exactly)
_scan_back = _phase(_scan_lane_cells, _load_back, _take_back, combine=add_exactly)


@device
def _late_risk(lanes, part, k):
    """Sum of v that the lanes of its stratum bring to the risk set of a cell."""
    risk, s = 0.0, lanes.stratum[k]
    if part.deaths[k] > 0.0:
        for lane in range(lanes.stratum_lanes[s], lanes.stratum_lanes[s + 1]):
            first = lanes.lane_ptr[lane]
            q = first + k - lanes.lane_cell[lane]
            if lanes.before[q] > lanes.before[first]:
                risk += part.survival[q] * part.carried[lanes.before[q] - 1]
    return risk


@cache
def evaluation(jump_formula):
    """Kernel of the evaluation under a likelihood's `jump_formula`."""
    return make_phases(
        f"carried_{jump_formula.__name__}",
        scan_carried=_scan_carried,
        scan_marks=make_risk_scan(jump_formula, _late_risk),
        scan_back=_scan_back,
    )


@device
def _load_log(context, m):
    _, lanes, part, _ = context
    flag, log_v = int64(lanes.is_first[m]), part.carried[m]
    return (log_v, 1.0, 0.0, flag) if log_v > -np.inf else (0.0, 0.0, 0.0, flag)


@device
def _weigh_log(context, m):
    _, lanes, part, top = context
    i = lanes.row[m]
    v = part.inverse[i]
    part.carried[m] = log_weight(part, i, top) + math.log(v) if v > 0.0 else -np.inf
    return _load_log(context, m)


@device
def _log_of(sums):
    return sums[0] + math.log(sums[1]) if sums[1] > 0.0 else -np.inf


@device
def _take_log(context, m, before, after):
    context[2].carried[m] = _log_of(after)
    return 0.0, 0.0


@device
def _load_log_back(context, position):
    _, lanes, part, _ = context
    q = lanes.is_last.shape[0] - 1 - position
    k, flag = lanes.cell[q], int64(lanes.is_last[q])
    if part.deaths[k] > 0.0 and part.survival[q] > 0.0:
        return part.jump[k] + math.log(part.survival[q]), 1.0, 0.0, flag
    return 0.0, 0.0, 0.0, flag


@device
def _take_log_back(context, position, before, after):
    _, lanes, part, _ = context
    part.back[lanes.is_last.shape[0] - 1 - position] = _log_of(before)
    return 0.0, 0.0


_scan_logs = _phase(_scan_rows, _weigh_log, _take_log, _load_log, add_scaled)
_scan_logs_back = _phase(_scan_lane_cells, _load_log_back, _take_log_back, combine=add_scaled)


@device
def _add_late(lanes, part, k, sums):
    """`_late_risk` beside other sums on a scale."""
    s = lanes.stratum[k]
    for lane in range(lanes.stratum_lanes[s], lanes.stratum_lanes[s + 1]):
        first = lanes.lane_ptr[lane]
        q = first + k - lanes.lane_cell[lane]
        if lanes.before[q] > lanes.before[first] and part.survival[q] > 0.0:
            log_v = part.carried[lanes.before[q] - 1]
            if log_v > -np.inf:
                late = log_v + math.log(part.survival[q]), 1.0, 0.0
                sums = add_scaled(sums, late)
    return sums


@cache
def evaluation_in_logs(jump_formula):
    """Kernel of the evaluation in logarithms under a likelihood's `jump_formula`."""
    return make_phases_in_logs(
        f"carried_in_logs_{jump_formula.__name__}",
        jump_formula,
        _add_late,
        scan_carried=_scan_logs,
        scan_back=_scan_logs_back,
    )


class CarriedOnDevice(RiskSetsOnDevice):
    """Risk sets with rows that stay beyond their exit, on the lanes of a `CompetingPlan`."""

    has_exact_steps = False
    _make_evaluation = staticmethod(evaluation)
    _make_evaluation_in_logs = staticmethod(evaluation_in_logs)

    @staticmethod
    def bytes_of_fit(plan):
        """More: 1/G, sums and c of carried rows; G and B of lane cells."""
        own = 32 * plan.n_rows + 16 * plan.carrying.lane_ptr[-1]
        return RiskSetsOnDevice.bytes_of_fit(plan) + own

    def _is_carried(self, plan):
        return plan.one_lane_a_stratum  # rows of whole strata have no later bins

    def _find_lanes(self, plan):
        """Lanes of the plan on the device, and the curves of censoring under the weights."""
        lanes = LaneRows(
            plan.carried_row,
            plan.carried_first,
            plan.carried_before,
            plan.lane_cell_idx,
            plan.lane_last,
            plan.lane_ptr,
            plan.lane_cell,
            plan.stratum_lanes,
            plan.stratum,
        )
        return lanes, (plan.carry_idx, *self._find_curves(plan))

    def _find_curves(self, plan):
        """1 / G of carried rows and G of lane cells, (1 or fits, ...) each."""
        layout, weight, empty = self.layout, self.rows.weight, self.layout.device.empty
        (failed, *_), (curves, *_) = (
            self._add_weights((ptr[:-1], ptr[1:]), weight, row)
            for ptr, row in (
                (plan.failed_ptr, plan.failed_row),
                (plan.lost_ptr, plan.lost_row),
            )
        )
        tables, events_first = plan.table_ptr, self._plan.carrying.events_first
        n_tasks = self.n_weights * (tables.shape[0] - 1)
        layout.launch_tasks(weights.find_curves, n_tasks, tables, failed, curves, events_first)
        entries = plan.row_table_idx, plan.lane_table_idx
        found = tuple(empty((self.n_weights, own.shape[0]), np.float64) for own in entries)
        layout.launch_wide(
            weights.read_curves,
            max(own.shape[0] for own in entries),
            *(curves, plan.lane_table_idx, found[1]),
            *(plan.row_table_idx, plan.competing, weight, found[0]),
        )
        return found
