"""Hazards of new rows over time: how they vary, by the information of a fit or by a bootstrap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm

from .._warnings import warn
from ..backends.cpu.session import Session
from ..backends.cpu.threads import Threads
from ..data.intervals import tails
from ..estimators.baseline import Baseline
from ..estimators.fitted import Setting, fitted_of
from ..estimators.hazard_curves import cumulative_hazard, gained
from ..information.inverse import Inverse
from ..patterns.risk_sets.hazards import HazardSpread, Spread
from ._replicates import Replicates

MOST_TIMES = 500  # of a curve by default: robust errors take as many numbers a row of the fit
MOST_OF_BAND = 200  # times of a band: the largest deviation between two is not much larger
N_DRAWS = 4_000
MIDDLE = (0.05, 0.95)  # of the event times of a stratum: where a band lies by default


@dataclass(frozen=True, eq=False)
class Lines:
    """Rows whose hazards are asked for, from some time on."""

    rows: Any  # FittedRows
    design: Any  # Design of the new rows
    strata: np.ndarray
    start: float
    setting: Setting  # of the fit
    refit: Any = None  # of a pipeline, as `Refits.reopen`
    chosen: Any = ...  # which of the new rows of a refit these are

    @property
    def timeline(self):
        return self.setting.timeline

    def columns(self) -> np.ndarray:
        """Columns of the new rows in every piece, as the fit has them."""
        problem = self.rows.problem
        x = self.design.to_scipy().toarray()[:, problem.source]
        if problem.center is not None:
            x -= problem.center[problem.source]
        piece = np.arange(problem.plan.n_pieces)[:, None]
        applies = (problem.piece_ptr[:, 0] <= piece) & (piece < problem.piece_ptr[:, 1])
        return np.where(applies[:, None], x, 0.0)

    def hazards(self, times, baseline=None, coef=None) -> np.ndarray:
        """Cumulative hazards by piece, (n_pieces, n_rows, n_times); NaN after the follow-up."""
        model = self.rows.estimator
        baseline = fitted_of(model).baseline if baseline is None else baseline
        eta = self.setting.terms.predictors(self.design, model.coef_ if coef is None else coef)
        strata, of_row = np.unique(self.strata, return_inverse=True)
        each = np.repeat(strata, len(times))
        shape = (-1, len(strata), len(times))
        logs = baseline.log_hazards_at(np.tile(times, len(strata)), each).reshape(shape)
        if self.start > 0:
            since = baseline.log_hazards_at(np.full(len(strata), self.start), strata)
            logs = gained(logs, since[:, :, None])
        with np.errstate(over="ignore"):
            hazards = np.exp(logs[:, of_row] + eta.T[:, :, None])
        hazards[:, times > self.timeline.last_times()[self.strata][:, None]] = np.nan
        return hazards

    def of_stratum(self, stratum) -> Lines:
        """The rows of one stratum."""
        own = self.strata == stratum
        return replace(self, design=self.design[own], strata=self.strata[own], chosen=own)

    def all_times(self) -> np.ndarray:
        """Times of the events of the rows' strata, or some of them, and the ends of these."""
        strata = np.unique(self.strata)
        ends = self.timeline.last_times()[strata]
        events = np.unique(np.concatenate([*map(self.event_times, strata)]))
        return np.unique(np.append(ends, thin(events, MOST_TIMES)))

    def event_times(self, stratum) -> np.ndarray:
        """Distinct times of the events of a stratum after the start."""
        plan, weight = self.rows.plan, self.rows.weight
        cells = plan.exit_idx[(plan.event > 0) & (weight > 0)]  # others are no part of the fit
        group = np.searchsorted(plan.cell_ptr, cells, side="right") - 1
        found = np.unique(plan.cell_time[cells[group % plan.n_strata == stratum]])
        return found[found > self.start]


@dataclass(frozen=True, eq=False)
class Variation:
    """Standard errors of hazards, relative to these, by the information of a fit."""

    spread: HazardSpread
    covariance: np.ndarray  # of the coefficients
    inverse: Inverse
    information: np.ndarray

    def errors(self, lines, hazards, times) -> np.ndarray:
        """Relative standard errors, (n_rows, n_times)."""
        out = np.empty(hazards.shape[1:])
        for stratum, i, share, slope in self._rows(lines, hazards, times):
            variance = (share**2 * stratum.covariance).sum(axis=0)
            variance += np.einsum("ij,jk,ik->i", slope, self.covariance, slope)
            if stratum.cross is not None:
                variance += 2.0 * np.einsum("ij,ij->i", slope, stratum.cross)
            out[i] = np.sqrt(np.maximum(variance, 0.0))
            if not self.inverse.identified.all():
                is_lost = lines.rows.estimator.infinite_
                is_known = self.inverse.determines(slope, self.information, is_lost)
                out[i, ~is_known] = np.nan
        return out

    def widths(self, lines, times, level, random) -> list[float]:
        """Standard errors within which a whole curve lies, of every row."""
        out = []
        for stratum, _, share, slope in self._rows(lines, lines.hazards(times), times, joint=True):
            covariance = (share[:, :, None] * share[:, None] * stratum.covariance).sum(axis=0)
            covariance += slope @ self.covariance @ slope.T
            if stratum.cross is not None:
                product = slope @ stratum.cross.T
                covariance += product + product.T
            out.append(critical_value(covariance, level, random))
        return out

    def _rows(self, lines, hazards, times, joint=False):
        """Spread of the stratum, number, shares of the pieces, and slope of every row."""
        x = lines.columns()
        for s in np.unique(lines.strata).tolist():
            stratum: Spread = self.spread.at(s, times, joint)
            for i in np.flatnonzero(lines.strata == s):
                total = hazards[:, i].sum(axis=0)
                share = hazards[:, i] / np.where(total > 0, total, 1.0)
                slope = x[:, i, None] - stratum.mean
                yield stratum, i, share, np.einsum("bt,btj->tj", share, slope)


def critical_value(covariance, level, random) -> float:
    """Quantile of the largest of correlated normal numbers, each in its standard deviations."""
    error = np.sqrt(np.diagonal(covariance))
    varies = error > 0
    if not varies.any():
        return np.nan
    unit = 1.0 / error[varies]
    values, vectors = np.linalg.eigh(covariance[np.ix_(varies, varies)] * np.outer(unit, unit))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    largest = np.abs(root @ random.standard_normal((len(root), N_DRAWS))).max(axis=0)
    return float(np.quantile(largest, level))


class Bounds(NamedTuple):
    """Cumulative hazards of new rows with bounds, and standard errors of curves."""

    hazard: np.ndarray
    error: np.ndarray
    interval: tuple[np.ndarray, np.ndarray]
    band: tuple[np.ndarray, np.ndarray] | None


def by_information(variation, lines, times, level, interval, band, random, curve) -> Bounds:
    """Bounds from standard errors."""
    by_piece = lines.hazards(times)
    hazard, relative = by_piece.sum(axis=0), variation.errors(lines, by_piece, times)
    error = hazard * relative * (1.0 if curve is cumulative_hazard else np.exp(-hazard))
    bounds = _bounds(hazard, relative, norm.isf(0.5 * (1.0 - level)), interval)
    if band is None:
        return Bounds(hazard, error, bounds, None)
    width = np.full(hazard.shape, np.nan)
    for s in np.unique(lines.strata).tolist():
        grid, is_inside = _range_of_band(lines, s, band, times)
        own = np.flatnonzero(lines.strata == s)
        found = variation.widths(lines.of_stratum(s), grid, level, random)
        width[np.ix_(own, is_inside)] = np.array(found)[:, None]
    return Bounds(hazard, error, bounds, _bounds(hazard, relative, width, interval))


def thin(times, most) -> np.ndarray:
    """At most so many of some times, the first and the last among them."""
    if len(times) <= most:
        return times
    return times[np.linspace(0, len(times) - 1, most).astype(int)]


def _range_of_band(lines, s, band, times):
    """Times of a stratum at which a band is found, and which of other times lie within them."""
    grid = lines.event_times(s)
    if len(grid) and np.isnan(band[0]):
        band = np.quantile(grid, MIDDLE) if len(grid) != 2 else grid  # between two is none
    grid = grid[(grid >= band[0]) & (grid <= band[1])]
    if not len(grid):
        raise ValueError(
            f"`band` has no event of {lines.timeline.name(s)} between {band[0]:g} and "
            f"{band[1]:g}; pass two times between which there are some."
        )
    return thin(grid, MOST_OF_BAND), np.flatnonzero((times >= band[0]) & (times <= band[1]))


def _bounds(hazard, relative, z, interval):
    """Bounds of cumulative hazards."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        move = z * relative
        if interval == "log-log":
            return hazard * np.exp(-move), hazard * np.exp(move)
        move = move * hazard
        if interval == "log":
            return np.maximum(hazard - move, 0.0), hazard + move
        return np.maximum(hazard - np.log1p(move), 0.0), hazard - np.log1p(-np.minimum(move, 1.0))


def by_replicates(result, lines, times, level, band, base, curve) -> Bounds:
    """Bounds from the curves of a bootstrap's replicates."""
    found = np.sort(replicate(lines, result, times, base), axis=0)
    hazard, error = lines.hazards(times).sum(axis=0), curve(found).std(axis=0, ddof=1)
    interval = tuple(np.quantile(found, tails(level), axis=0))
    if band is None:
        return Bounds(hazard, error, interval, None)
    lower, upper = np.full((2, *hazard.shape), np.nan)
    for s in np.unique(lines.strata).tolist():
        grid, is_inside = _range_of_band(lines, s, band, times)
        own = replicate(lines.of_stratum(s), result, grid, base)
        for i, k in zip(np.flatnonzero(lines.strata == s), _depths(own, level), strict=True):
            lower[i, is_inside], upper[i, is_inside] = (
                found[k, i, is_inside],
                found[-1 - k, i, is_inside],
            )
    return Bounds(hazard, error, interval, (lower, upper))


def _depths(curves, level) -> np.ndarray:
    """Curves to leave out at either end so that a share `level` of them is within as a whole."""
    below = curves.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable")
    depth = np.minimum(below, len(curves) - 1 - below).min(axis=2)
    return np.sort(depth, axis=0)[int((1.0 - level) * len(curves))]


def replicate(lines: Lines, result, times, base, reduce=None) -> np.ndarray:
    """Cumulative hazards of the replicates of a bootstrap, (n_replicates, n_rows, n_times).

    Or what `reduce` makes of those of a replicate, and the weights of its rows. `base` are the
    weights of the rows, as the caller gave them.
    """
    rows, model = lines.rows, lines.rows.estimator
    kind, seed, unit = result._draw
    draws = Replicates(model, rows.outcome, base, unit, kind, seed)
    offset = None if rows.batch.offset is None else rows.batch.offset[:, 0]
    found, refused = [], []
    for number in np.flatnonzero(np.isfinite(result.coefs).all(axis=0)).tolist():
        own, problem, coef = lines, rows.problem, np.ascontiguousarray(result.coefs[:, number])
        if lines.refit is not None:
            try:
                setting, problem, design = lines.refit(draws, number)
            except ValueError as error:  # such as a level that was not drawn
                refused.append(error)
                continue
            design, own = design[lines.chosen], replace(rows, problem=problem)
            own = replace(lines, rows=own, design=design, setting=setting)
            coef = np.append(coef, result._columns[1][number])
        weight = draws.weight(number)
        session = Session(problem, weight, offset, Threads(1))
        session.start(coef)
        cells = problem.baseline_of(session.baseline(), coef)
        hazards = own.hazards(times, Baseline(own.timeline, cells), coef).sum(axis=0)
        found.append(hazards if reduce is None else reduce(hazards, weight))
    if refused:
        message = (
            f"the transformers of {len(refused):,} replicates refuse `X_new`, and these are left "
            "out of curves; have them know all levels, or ignore others (handle_unknown="
            f"'ignore'). The last one said: {refused[-1]}"
        )
        if len(found) < 2:
            raise ValueError(message) from refused[-1]
        warn(message, UserWarning)
    return np.array(found)
