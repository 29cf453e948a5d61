r"""Scores of Fine and Gray's model, with the part of estimating the censoring curve.

The weights of rows that stay after a competing event come from a Kaplan-Meier curve G of their
censoring group, which is estimated from the same rows. Row i of the group adds, per unit of its
weight (Fine and Gray 1999, section 3),

    psi_i = int q(u) / Y(u) dM_i(u)
    q(u) = sum over competing rows with T < u of v sum over event times s >= u of G(s-) g (x - mean)

with the martingale M_i of the row's censoring, the weight Y(u) of the group's rows at risk of it, v
= w / G(T-), and g and the mean of the event's atom (`risk_sets`). q is kept up to date while u
runs through the distinct times of a group: an event time leaves the inner sum, a competing row
enters the outer one. It costs O((rows + lane cells) * columns).
"""

from typing import NamedTuple

import numpy as np

from ..._compile import device, kernel
from ..risk_sets.information import RiskSetView
from ..risk_sets.scans import CarriedRows


class CensoringSchedule(NamedTuple):
    """Events at the times of the censoring groups, whose entries form one table."""

    table_ptr: np.ndarray  # entries of each group; the last stands for no time
    row_entry: np.ndarray  # entry of each row's time
    row_order: np.ndarray  # rows by entry
    row_lane: np.ndarray
    cell_order: np.ndarray  # lane cells with an event, by the entry at which they are over
    cell_entry: np.ndarray  # ... that entry
    cell_lane: np.ndarray
    censored: np.ndarray  # bool per row
    lost: np.ndarray  # weight censored at each entry
    at_risk: np.ndarray  # weight at risk of it
    events_first: bool  # whether a row with an event at a time has left the risk by then


def plan_schedule(plan, time, weight) -> CensoringSchedule:
    """Schedule of a plan; times and weights in the order of its rows."""
    carrying = plan.carrying
    n_entries, entry = carrying.table_ptr[-1], carrying.row_table_idx
    time_of_entry = np.full(n_entries, np.nan)
    time_of_entry[entry] = time
    lane = np.repeat(np.arange(len(carrying.lane_cell)), np.diff(carrying.lane_ptr))
    cell = np.arange(carrying.lane_ptr[-1]) + (carrying.lane_cell - carrying.lane_ptr[:-1])[lane]
    has_time = np.flatnonzero(~np.isnan(plan.cell_time[cell]))
    over = carrying.lane_table_idx + (
        time_of_entry[carrying.lane_table_idx] == plan.cell_time[cell]
    )
    cell_order = has_time[np.argsort(over[has_time], kind="stable")]
    lost = np.bincount(entry, weight * carrying.censored, minlength=n_entries)
    left = np.bincount(entry, weight, minlength=n_entries)
    at_risk = np.zeros(n_entries)
    for begin, end in zip(carrying.table_ptr[:-1], carrying.table_ptr[1:], strict=True):
        at_risk[begin:end] = np.cumsum(left[begin:end][::-1])[::-1]
    if carrying.events_first:
        at_risk -= left - lost
    return CensoringSchedule(
        carrying.table_ptr,
        entry,
        np.argsort(entry, kind="stable"),
        np.searchsorted(carrying.lane_ptr, carrying.carry_idx, side="right") - 1,
        cell_order,
        over[cell_order],
        lane[cell_order],
        carrying.censored,
        lost,
        at_risk,
        carrying.events_first,
    )


class _State(NamedTuple):
    """q, and what each lane adds to it."""

    q: np.ndarray
    carried: np.ndarray  # per lane: sum of v over the competing rows so far
    carried_x: np.ndarray
    over: np.ndarray  # per lane: last cell whose time is past


@device
def _end_events(schedule, cells, state, t, cell):
    """Take the event times before the time of an entry out of q; position of the next one."""
    while cell < len(schedule.cell_order) and schedule.cell_entry[cell] <= t:
        c, lane = schedule.cell_order[cell], schedule.cell_lane[cell]
        last = state.over[lane]
        mass = cells.after[last] - cells.after[c]
        for j in range(len(state.q)):
            fall = cells.after_x[last, j] - cells.after_x[c, j]
            state.q[j] -= state.carried_x[lane, j] * mass - state.carried[lane] * fall
        state.over[lane] = c
        cell += 1
    return cell


@device
def _carry_rows(schedule, rows, lanes, x, cells, state, t, row):
    """Add the competing rows of an entry to q; position of the next row."""
    while row < len(schedule.row_order) and schedule.row_entry[schedule.row_order[row]] == t:
        i = schedule.row_order[row]
        v, lane = rows.risk[i] * rows.weight[i] * lanes.inverse[i], schedule.row_lane[i]
        row += 1
        if not v > 0.0:
            continue
        last = state.over[lane]
        state.carried[lane] += v
        for j in range(len(state.q)):
            state.carried_x[lane, j] += v * x[i, j]
            state.q[j] += v * (x[i, j] * cells.after[last] - cells.after_x[last, j])
    return row


@device
def _take(schedule, rate, drift, out):
    for i in range(len(out)):
        t = schedule.row_entry[i]
        if schedule.censored[i]:
            out[i] += rate[t] - drift[t]
        else:
            out[i] -= drift[t]
            if schedule.events_first and schedule.lost[t] > 0.0:
                out[i] += rate[t] * schedule.lost[t] / schedule.at_risk[t]


@kernel
def add_censoring_scores(schedule, rows, lanes, x, cells, out):
    """Add psi to score residuals; `cells` as these left them."""
    width, n_lanes = x.shape[1], len(lanes.ptr) - 1
    rate, drift = np.zeros((2, len(schedule.lost), width))
    over = lanes.ptr[:-1].copy()
    state = _State(np.zeros(width), np.zeros(n_lanes), np.zeros((n_lanes, width)), over)
    row, cell = 0, 0
    for group in range(len(schedule.table_ptr) - 1):
        begin = schedule.table_ptr[group]
        state.q[:] = 0.0
        for t in range(begin, schedule.table_ptr[group + 1]):
            cell = _end_events(schedule, cells, state, t, cell)
            if t > begin:
                drift[t] = drift[t - 1]
            if schedule.lost[t] > 0.0:
                rate[t] = state.q / schedule.at_risk[t]
                drift[t] += rate[t] * schedule.lost[t] / schedule.at_risk[t]
            row = _carry_rows(schedule, rows, lanes, x, cells, state, t, row)
    _take(schedule, rate, drift, out)


class CarriedView(RiskSetView):
    """Fine and Gray's model, whose robust scores know that the censoring curve is an estimate."""

    def _take_lanes(self):
        carrying, weighted = self.rows.plan.carrying, self.rows.session.pattern.weighted
        return CarriedRows(
            carrying.carry_idx,
            weighted.inverse,
            carrying.lane_ptr,
            carrying.lane_cell,
            weighted.survival,
        )

    def scores_of(self, x, mean):
        out, cells = self._scan(x, mean)
        schedule = plan_schedule(
            self.rows.plan, self.rows.outcome.time[self.rows.plan.order], self.rows.weight
        )
        add_censoring_scores(schedule, self.state, self._lanes, x, cells, out)
        return out * self.rows.weight[:, None]
