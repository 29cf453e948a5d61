"""Baseline hazards of several kinds of event, and the incidences that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .baseline import BLOCK_NUMBERS, Baseline, by_stratum, total_hazard

__all__ = ["JointBaseline", "add_up"]

ENORMOUS = 1e100  # a hazard that leaves nobody, and whose differences are numbers


@dataclass(frozen=True, eq=False)
class JointBaseline(Baseline):
    """Baseline hazards of all kinds of event, whose pieces follow each other.

    Curves are made of hazards by kind, the first axis.
    """

    parts: tuple = ()  # a Baseline for each kind, with the same times

    @classmethod
    def of(cls, parts):
        """Join baselines."""
        return cls(parts[0].timeline, np.empty(0), tuple(parts))

    def __reduce__(self):
        return JointBaseline.of, (self.parts,)

    @cached_property
    def log_hazards(self):
        return np.vstack([part.log_hazards for part in self.parts])

    def log_hazards_at(self, times, strata):
        return np.vstack([part.log_hazards_at(times, strata) for part in self.parts])

    def risks_of(self, kind, horizons, predictors, strata, start):
        """Incidence of a kind by each horizon, for every row; NaN beyond its follow-up."""
        timeline, since = self.timeline, self._since(strata, start)
        out = np.full((len(predictors), len(horizons)), np.nan)
        for own, rows, found in self._incidences(kind, predictors, strata, since):
            before = np.searchsorted(timeline.times[own], horizons, side="right")
            out[rows] = np.pad(found, ((0, 0), (1, 0)))[:, before]
        out[horizons > timeline.last_times()[strata][:, None]] = np.nan
        timeline.warn_of_unknown(out, horizons, strata)
        return out

    def last_risks_of(self, kind, predictors, strata):
        """Incidence of a kind by the end of each row's stratum."""
        out = np.empty(len(predictors))
        for _, rows, found in self._incidences(kind, predictors, strata, None):
            out[rows] = found[:, -1]
        return out

    def _incidences(self, kind, predictors, strata, since):
        """Incidences of blocks of rows at the times of their stratum, with where both are."""
        for s, rows in by_stratum(strata):
            own = self.timeline.of_stratum(s)
            logs, size = self.log_hazards[:, own], max(1, BLOCK_NUMBERS // (own.stop - own.start))
            for block in np.split(rows, range(size, len(rows), size)):
                gone = None if since is None else since[:, block]
                hazards = self._total(logs, predictors[block].T[..., None], gone)
                yield own, block, add_up(hazards)[kind]

    def _total(self, logs, predictors, since=None):
        ends = np.cumsum([len(part.log_hazards) for part in self.parts])[:-1]
        given = (logs, predictors) if since is None else (logs, predictors, since)
        by_kind = zip(*(np.split(numbers, ends) for numbers in given), strict=True)
        return np.stack([total_hazard(*numbers) for numbers in by_kind])

    def _first(self, curve):
        return curve(np.zeros((len(self.parts), 1)))[0]


def add_up(hazards):
    """Incidences of kinds of event (the first axis) over times (the last one), from hazards."""
    hazards = np.minimum(hazards, ENORMOUS)
    steps = np.diff(hazards, axis=-1, prepend=0.0)
    step, before = steps.sum(axis=0), np.zeros(hazards.shape[1:])
    before[..., 1:] = hazards.sum(axis=0)[..., :-1]
    ends = np.exp(-before) * -np.expm1(-step)  # the probability that one happens then
    share = np.divide(steps, step, out=np.zeros_like(steps), where=step > 0.0)
    return np.cumsum(share * ends, axis=-1)
