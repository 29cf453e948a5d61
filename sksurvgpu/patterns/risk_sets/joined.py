"""Risk sets whose rows are in several partitions, as a coordinator joins them.

Sums of w = c exp(eta - top) come on the scale of each partition's own largest predictor `top`, and
are brought to that of the largest as they arrive.  What is scanned over cells is the CPU's.

Over risk sets the information is X' diag(h) X less, at every event time, ``dw m m'`` of the means m
over the rows at risk: sums of w x by cell, from which partitions take their own, divided by those
of w.  Under Efron's ties it is the mean of that over the shares of the tied deaths that have left.
The scores of rows need these means, and what they add up to with the slopes of the hazard.
"""

from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from ..._compile import specialize
from ...backends.sums.joined import REMEDY, JoinedEvaluation, Joining, Totals, Weighed, Weighing
from ...backends.sums.labels import number_labels
from ...backends.sums.problem import SumPlan
from . import cpu_cells as kernels
from .plan import bins_of_deaths, distinct_pairs, split_events, times_of_cells
from .scans import atoms_of
from .weigh import inverse_of_bins

MOST_NUMBERS = 2**28  # columns times event times: 2 GiB
TABLES = 4  # of so many numbers, where scores are asked for


@dataclass(frozen=True)
class EventTimes:
    """Event times of strata, and how many rows have one there."""

    labels: np.ndarray  # of the strata, ascending
    time: np.ndarray
    ptr: np.ndarray  # int64 (n_strata + 1,)
    deaths: np.ndarray  # int64 per time
    last: np.ndarray  # (n_strata,): end of follow-up


def plan_events(n_rows, events, cuts=(), whole_strata=False):
    """Plan of rows with given event times, split at times `cuts`."""
    cuts, n_strata = np.asarray(cuts, dtype=np.float64), len(events.ptr) - 1
    edges, counts, cell_ptr = split_events((events.time, events.ptr), cuts)
    deaths = times_of_cells(events.deaths.astype(float), events.ptr, edges, counts, cell_ptr)
    deaths = np.nan_to_num(deaths).astype(np.int64)
    return SumPlan(
        n_base=n_rows,
        n_strata=n_strata,
        n_pieces=len(cuts) + 1,
        cell_ptr=cell_ptr,
        cell_time=times_of_cells(events.time, events.ptr, edges, counts, cell_ptr),
        bins=bins_of_deaths(deaths, cell_ptr, n_rows, whole_strata),
        events=events,
    )


def join_events(descriptions):
    """Event times of all partitions by stratum."""
    labels, numbers = number_labels(descriptions, "labels")
    tables = [description.tables for description in descriptions]
    stratum = np.concatenate([n[t["stratum"]] for n, t in zip(numbers, tables, strict=True)])
    time, deaths = (np.concatenate([t[name] for t in tables]) for name in ("time", "deaths"))
    order = np.lexsort((time, stratum))
    stratum, time = stratum[order], time[order]
    of_stratum, times = distinct_pairs(stratum, time, True)
    new = np.ones(len(time), bool)
    new[1:] = (stratum[1:] != stratum[:-1]) | (time[1:] != time[:-1])
    total = np.bincount(np.cumsum(new) - 1, deaths[order], minlength=len(times))
    last = np.full(len(labels), -np.inf)
    for number, table in zip(numbers, tables, strict=True):
        last[number] = np.maximum(last[number], table["last"])
    ptr = np.searchsorted(of_stratum, np.arange(len(labels) + 1))
    return EventTimes(labels, times, ptr, total.astype(np.int64), last)


def tables_of(plan):
    """Tables by which `Arrange` tells a partition of a plan of event times."""
    return {
        "labels_strata": plan.events.labels,
        "event_time": plan.events.time,
        "event_ptr": plan.events.ptr,
        "bin_end": plan.bins.end,
        "few": np.array([plan.few]),
    }


@dataclass(frozen=True)
class WeighedCells(Weighed):
    """All rows under one vector of weights: sums over them, by cell and by bin."""

    deaths: np.ndarray  # by cell, as `weigh.WeightedRiskSets` has them
    death_weight: np.ndarray
    bin_inverse: np.ndarray
    of_part: np.ndarray  # (n_parts,): weight of a partition's deaths


class WeighingCells(Weighing):
    """Adds up `Weights`, and deaths by cell."""

    def __init__(self, problem, arranged):
        super().__init__(problem, arranged)
        self._deaths, self._death_weight = np.zeros((2, problem.plan.n_cells))
        self._of_part = np.zeros(problem.n_parts)

    def add(self, part, weights):
        super().add(part, weights)
        own, tables = self._arranged[part].own, weights.tables
        self._deaths[own] += tables["deaths"]
        self._death_weight[own] += tables["death_weight"]
        self._of_part[part] = tables["death_weight"].sum()

    def join(self):
        found, plan = super().join(), self._problem.plan
        known = WeighedCells(
            **vars(found),
            deaths=self._deaths,
            death_weight=self._death_weight,
            bin_inverse=inverse_of_bins(plan.bins, self._death_weight),
            of_part=self._of_part,
        )
        likelihood = self._problem.likelihood
        return replace(known, largest_loglik=likelihood.pattern.largest_loglik(likelihood, known))


class CellSums(NamedTuple):
    """Numbers of cells that scans read, by the names of `cpu_cells.RiskSets`."""

    cell_ptr: np.ndarray
    deaths: np.ndarray
    death_weight: np.ndarray
    least: float = kernels.SMALLEST_SHARE


_specialized = cache(specialize)


class RiskSetTotals(Totals):
    """Tables of risk sets by cell."""

    is_sum = False
    in_logs = False

    def clear(self):
        super().clear()
        plan, nothing = self._problem.plan, -np.inf if self.in_logs else 0.0
        self.top, self._mass = -np.inf, 0.0
        self._risk, self._rest = np.full(plan.n_cells, nothing), None
        self._tied = np.full(plan.n_cells, nothing) if self._problem.likelihood.uses_ties else None
        self._paired = np.zeros(self._problem.n_parts, bool)

    def fields(self, part):
        return {"in_logs": self.in_logs}

    def add(self, part, answer):
        super().add(part, answer)
        if self.in_logs:
            own, tables = self._arranged[part].own, answer.tables
            for sums, name in ((self._risk, "risk"), (self._tied, "tied")):
                if sums is not None:
                    sums[own] = np.logaddexp(sums[own], tables[name])
            return
        self._paired[part] = answer.tables["risk"].ndim == 2
        with np.errstate(all="ignore"):  # what is not finite makes a log-likelihood that is not
            self._add_on_scale(part, answer)

    def _add_on_scale(self, part, answer):
        """Bring what there is, and what a partition adds, to the larger of their scales."""
        top, mass = float(answer.top), self._weighed.of_part[part]
        if top == -np.inf:  # no row of it is at risk
            return
        if not top <= self.top:
            if self._mass:
                self.loglik += (self.top - top) * self._mass
            factor, self.top = np.exp(self.top - top), top
            self._scale(factor)
        elif mass:
            self.loglik += (top - self.top) * mass
        self._mass += mass
        self._add_tables(part, answer.tables, np.exp(top - self.top))

    def _scale(self, factor):
        if self._rest is not None:
            self._risk, self._rest = _times(self._risk, self._rest, factor)
        else:
            self._risk *= factor
        if self._tied is not None:
            self._tied *= factor

    def _add_tables(self, part, tables, scale):
        own = self._arranged[part].own
        if tables["risk"].ndim == 2 and self._rest is None:
            self._rest = np.zeros(len(self._risk))
        if self._rest is None:
            self._risk[own] += scale * tables["risk"]
        else:
            high, *low = np.atleast_2d(tables["risk"])
            more = _times(high, low[0] if low else np.zeros(len(own)), scale)
            self._risk[own], self._rest[own] = _plus(self._risk[own], self._rest[own], *more)
        if self._tied is not None:
            self._tied[own] += scale * tables["tied"]

    def join(self):
        held = None if self._tied is None else np.zeros(len(self._risk))
        cells = kernels.Cells(self._risk, np.zeros(len(self._risk)), self._rest, self._tied, held)
        loglik, self._risk, self._tied = self._scan(cells), None, None
        if not np.isfinite(loglik) and not self.in_logs and self._may_use_logs():
            self.in_logs = True
            return None
        top = self.top if self.top > -np.inf else 0.0
        return JoinedEvaluation(
            loglik,
            partial(self._baseline, cells.hazard, top),
            partial(self._fields_of_slopes, cells, top, self._paired),
            np.zeros_like(self._weighed.bin_inverse) if self.in_logs else self._weighed.bin_inverse,
            None if self.in_logs else cells,
        )

    def _may_use_logs(self):
        return self._rest is None and self.top < np.inf

    def _scan(self, cells):
        sums, formula = self._cell_sums(), self._problem.likelihood.jump_formula
        if self.in_logs:
            kernels.add_later_logs(sums.cell_ptr, cells.risk)
            scan = _specialized(kernels.scan_log_cells, jump_formula=formula)
        else:
            scan = _specialized(kernels.scan_cells, find_jumps=kernels.jumps_of(formula))
        return scan(sums, cells, self.loglik)

    def _cell_sums(self):
        known = self._weighed
        return CellSums(self._problem.plan.cell_ptr, known.deaths, known.death_weight)

    def _baseline(self, hazard, top):
        if self.in_logs:
            return hazard.copy()
        with np.errstate(divide="ignore"):
            return np.log(hazard) - top

    def _fields_of_slopes(self, cells, top, paired, part):
        own, bins = self._arranged[part].own, self._problem.plan.bins
        hazard = cells.hazard[own]
        if paired[part]:
            hazard = np.stack([hazard, cells.rest[own]])
        edges = np.column_stack([cells.hazard[bins.start], cells.hazard[bins.end]])
        tables = {"hazard": hazard, "edges": edges}
        if cells.held is not None:
            tables["held"] = cells.held[own]
        return {"tables": tables, "top": 0.0 if self.in_logs else top, "in_logs": self.in_logs}


# Exits less entries cancel: sums are pairs of numbers, whose products and sums lose nothing else.
_SPLIT = 2.0**27 + 1.0


def _halves(number):
    scaled = _SPLIT * number
    high = scaled - (scaled - number)
    return high, number - high


def _times(high, low, factor):
    """A pair times a number (Veltkamp 1968, Dekker 1971)."""
    product = high * factor
    (a, b), (c, d) = _halves(high), _halves(factor)
    return product, (((a * c - product) + a * d) + b * c) + b * d + low * factor


def _plus(high, low, more_high, more_low):
    """Sum of two pairs (Knuth 1969)."""
    total = high + more_high
    shadow = total - high
    return total, (high - (total - shadow)) + (more_high - shadow) + low + more_low


class JumpSums:
    """Adds up X' diag(h) X, and sums of w x by cell where rows leave or come."""

    def __init__(self, problem, arranged):
        self._arranged, self._shape = arranged, (problem.n_columns, problem.plan.n_cells)
        self._gram = np.zeros((problem.n_columns, problem.n_columns))
        self._sums = {"jumps": np.zeros(self._shape)}
        self._uses_ties = problem.likelihood.uses_ties
        if self._uses_ties:
            self._sums["tied_jumps"] = np.zeros(self._shape)
        self._cell_ptr = problem.plan.cell_ptr

    def add(self, part, answer):
        """Take in the answer of a partition."""
        self._gram += answer.tables["gram"]
        for name, sums in self._sums.items():
            sums[:, self._arranged[part].own] += answer.tables[name]

    def join(self, cells, weighed):
        """Make sums over the rows at risk of those of rows that leave; all partitions are in."""
        self._cells, self._weighed, at_risk = cells, weighed, self._sums["jumps"]
        for first, end in zip(self._cell_ptr[:-1], self._cell_ptr[1:], strict=True):
            at_risk[:, first:end] = np.cumsum(at_risk[:, first:end][:, ::-1], axis=1)[:, ::-1]

    def _runs_of_atoms(self):
        """Atoms with their slopes and means: all, or under Efron's ties those of a cell."""
        cells, known = self._cells, self._weighed
        atoms = atoms_of(known.deaths, known.death_weight, self._uses_ties)
        starts = np.flatnonzero(np.diff(atoms.cell)) + 1 if self._uses_ties else []
        for run in np.split(np.arange(len(atoms.cell)), starts):
            cell, fraction, weight = (numbers[run] for numbers in atoms)
            risk, sums = cells.risk[cell], self._sums["jumps"][:, cell]
            if self._uses_ties:
                risk = risk - fraction * cells.tied[cell]
                sums = np.ascontiguousarray(sums - fraction * self._sums["tied_jumps"][:, cell])
            yield cell, fraction, weight, weight / risk, sums / risk

    def information(self):
        """Information, and its diagonal before means go."""
        total = self._gram.copy()
        for _, _, weight, _, means in self._runs_of_atoms():
            rooted = means * np.sqrt(weight)
            total -= rooted @ rooted.T
        return total, np.diagonal(self._gram).copy()

    def score_tables(self):
        """Tables by cell that the scores of rows need, see `RiskSetsInPart.scores`."""
        names = ("means", "hazard_means", *(("held_means",) if self._uses_ties else ()))
        tables = {name: np.zeros(self._shape) for name in names}
        for cell, fraction, _, slope, means in self._runs_of_atoms():
            if not self._uses_ties:
                tables["means"][:, cell] = means
                tables["hazard_means"][:, cell] = means * slope
            elif len(cell):
                tables["means"][:, cell[0]] = means.mean(axis=1)
                tables["hazard_means"][:, cell[0]] = means @ slope
                tables["held_means"][:, cell[0]] = means @ (slope * fraction)
        hazard = tables["hazard_means"]
        for first, end in zip(self._cell_ptr[:-1], self._cell_ptr[1:], strict=True):
            hazard[:, first:end] = np.cumsum(hazard[:, first:end], axis=1)
        return tables


class JoinedRiskSets(Joining):
    """Joins sums by cell of the rows that are at risk there."""

    weighing = WeighingCells

    @staticmethod
    def open(descriptions, n_rows, cuts, events_first):
        plan = plan_events(n_rows, join_events(descriptions), cuts)
        return plan, tables_of(plan)

    @staticmethod
    def totals(problem):
        return RiskSetTotals

    @staticmethod
    def information(session, robust):
        problem, point, arranged = session.link.problem, session.point, session.link.arranged
        every, n_cells = np.arange(problem.n_columns), problem.plan.n_cells
        if robust:
            n_cells = TABLES * max(n_cells, sum(len(part.own) for part in arranged.values()))
        if point.evaluation.cells is None or n_cells * len(every) > MOST_NUMBERS:
            raise ValueError(
                f"the information of {len(every):,} columns over {problem.plan.n_cells:,} event "
                "times in partitions needs too much memory, or predictors are beyond floating "
                f"point; {REMEDY}, or rescale columns."
            )
        sums = JumpSums(problem, arranged)
        coef, fields = session.sparse(point.coef), point.evaluation.fields
        yield [session.step_of_slopes(sums, coef, fields, ("gram", "jumps"), every)]
        sums.join(point.evaluation.cells, session.weighed)
        tables = sums.score_tables() if robust else {}

        def tables_of_part(part):
            return {name: table[:, arranged[part].own] for name, table in tables.items()}

        return *sums.information(), tables_of_part
