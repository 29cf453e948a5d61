"""Baseline hazards of several kinds of event or transitions, and what follows from all of them."""

from dataclasses import dataclass, replace

import numpy as np

from ..patterns.risk_sets.plan import distinct_pairs
from .baseline import BLOCK_NUMBERS, Baseline, Timeline, by_stratum
from .hazard_curves import total_hazard

ENORMOUS = 1e100  # a hazard that leaves nobody, and whose differences are numbers


@dataclass(frozen=True, eq=False)
class JointBaseline(Baseline):
    """Baseline hazards of all kinds of event, whose pieces follow each other.

    Curves are made of hazards by kind, the first axis.
    """

    parts: tuple = ()  # a Baseline for each kind

    @classmethod
    def of(cls, parts):
        """Join baselines, of the same rows or of others."""
        return cls(_join([part.timeline for part in parts]), np.empty(0), tuple(parts))

    def __reduce__(self):
        return JointBaseline.of, (self.parts,)

    def log_hazards_at(self, times, strata):
        return np.vstack([self._of_part(part, times, strata) for part in self.parts])

    def last_times(self):
        """End of follow-up of each kind and stratum, (n_kinds, n_strata); NaN without rows."""
        strata = np.arange(self.timeline.n_strata)
        found = np.full((len(self.parts), len(strata)), np.nan)
        for last, part in zip(found, self.parts, strict=True):
            own = self.strata_in(part, strata)
            last[own >= 0] = part.timeline.last_times()[own[own >= 0]]
        return found

    def strata_in(self, part, strata):
        """Numbers that strata have in the fit of a kind, -1 where nobody was at risk of it."""
        return _numbers(part.timeline.labels, self.timeline.labels, strata)

    def _of_part(self, part, times, strata):
        """Logarithms of a kind's hazards: of none in strata where nobody was at risk of it."""
        own = self.strata_in(part, strata)
        logs = part.log_hazards_at(times, np.maximum(own, 0))
        logs[:, own < 0] = -np.inf
        return logs

    def at_steps(self, until):
        """Baseline at those times alone at which some hazard has a step, until one of them."""
        timeline, logs = self.timeline, self.log_hazards
        strata = np.repeat(np.arange(timeline.n_strata), np.diff(timeline.time_ptr))
        is_step = np.append(True, (np.diff(strata) > 0) | (logs[:, 1:] != logs[:, :-1]).any(axis=0))
        is_step &= timeline.times <= until
        ptr = np.searchsorted(strata[is_step], np.arange(timeline.n_strata + 1))
        shorter = replace(timeline, times=timeline.times[is_step], time_ptr=ptr)
        return JointBaseline(shorter, self.cells, self.parts)

    def blocks(self, predictors, strata, start):
        """Blocks of rows: places of the times of their stratum, the rows, and hazards there."""
        since = self._since(strata, start)
        for s, rows in by_stratum(strata):
            own = self.timeline.of_stratum(s)
            size = max(1, BLOCK_NUMBERS // max(1, own.stop - own.start))
            logs = self.log_hazards[:, own]
            for block in np.split(rows, range(size, len(rows), size)):
                gone = None if since is None else since[:, block]
                yield own, block, self._total(logs, predictors[block].T[..., None], gone)

    def risks_of(self, kind, horizons, predictors, strata, start):
        """Incidence of a kind by each horizon, for every row; NaN beyond its follow-up."""
        timeline, steps = self.timeline, self.at_steps(horizons.max())
        out = np.full((len(predictors), len(horizons)), np.nan)
        for own, rows, hazards in steps.blocks(predictors, strata, start):
            before = np.searchsorted(steps.timeline.times[own], horizons, side="right")
            out[rows] = np.pad(add_up(hazards)[kind], ((0, 0), (1, 0)))[:, before]
        out[horizons > timeline.last_times()[strata][:, None]] = np.nan
        timeline.warn_of_unknown(out, horizons, strata)
        return out

    def last_risks_of(self, kind, predictors, strata):
        """Incidence of a kind by the end of each row's stratum."""
        out = np.empty(len(predictors))
        for _, rows, hazards in self.at_steps(np.inf).blocks(predictors, strata, None):
            out[rows] = add_up(hazards)[kind][:, -1]
        return out

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


def _join(timelines):
    """Timeline with the strata and times of all; without cells, which each has for itself."""
    labels, n_strata = timelines[0].labels, 1
    if labels is not None:
        labels = np.unique(np.concatenate([one.labels for one in timelines]))
        n_strata = len(labels)
    numbers = (
        _numbers(labels, one.labels, np.repeat(np.arange(one.n_strata), np.diff(one.time_ptr)))
        for one in timelines
    )
    stratum = np.concatenate(list(numbers))
    stratum, times = distinct_pairs(stratum, np.concatenate([t.times for t in timelines]), False)
    ptr = np.searchsorted(stratum, np.arange(n_strata + 1))
    return Timeline(np.zeros(1, np.int64), np.empty(0), labels, times, ptr)


def _numbers(labels, others, strata):
    """Numbers that strata of `others` have among `labels`, -1 where they have none."""
    if labels is None:
        return strata
    found = np.minimum(np.searchsorted(labels, others), len(labels) - 1)
    return np.where(labels[found] == others, found, -1)[strata]
