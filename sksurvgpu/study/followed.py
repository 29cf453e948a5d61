"""Outcomes of one analysis, each made in its turn, and what is told of them beside their fits."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pandas import DataFrame

from ..cohort import time_at_risk
from ..data.outcomes.competing import competing_risks
from ..data.outcomes.counts import matched
from ..data.outcomes.survival import surv
from ..nonparametric import kaplan_meier
from .differences import describe_differences

__all__ = ["Followed", "Lent"]

SHARES = {"min": 0.0, "p_10": 0.1, "p_25": 0.25, "median": 0.5, "p_75": 0.75, "p_90": 0.9}
SHARES["max"] = 1.0
ARMS = ("target", "comparator")
LAST = 0.9  # share of persons whose follow-up ends by the last point of a curve
MOST_TIMES = 200  # points of a curve
# Differences that depend on the outcome; those before are of the whole cohort.
OF_OUTCOMES = (
    *("mean_after", "target_mean_after", "comparator_mean_after", "std_diff_after"),
    *("std_diff_var_after", "target_std_diff", "comparator_std_diff", "target_comparator_std_diff"),
)


class Lent(dict):
    """Arrays by outcome, each of which is read once and forgotten: only the outcomes at work."""

    def get(self, key, default=None):
        """Return an array and forget it."""
        return self.pop(key, default)


class Followed(Mapping):
    """Outcomes by name, as `fit_outcomes` takes them; reading one makes it.

    Parameters
    ----------
    analysis : dict
        Of the document.
    population : Population
        Persons after the adjustment.
    events : callable
        Returns the table of events of an outcome.
    names : list of str
        Outcomes.
    of_interest : collection of str
        Those of which more is told: attrition, follow-up, survival, balance.
    """

    def __init__(self, analysis, population, events, names, of_interest):
        self._analysis, self._population, self._events = analysis, population, events
        self._names, self._of_interest = names, of_interest
        self.rows, self.exposures = Lent(), Lent()
        self.told, self.errors, self.is_whole = {}, {}, True
        self.tables = {key: [] for key in ("attrition", "follow_up", "survival", "balance")}

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)

    def __getitem__(self, name):
        try:
            return self._make(name)
        except Exception as error:  # of this outcome alone
            self.errors[name] = f"{type(error).__name__}: {error}"
            self.is_whole &= isinstance(error, ValueError)  # others may not come again
            return None  # which cannot be fitted

    def _make(self, name):
        population = self._population
        risk = self._analysis["time_at_risk"]
        followed = time_at_risk(population.cohort, self._events(name), **risk)
        rows = followed.rows_of(population.data)
        time, event = (followed.table[key].to_numpy() for key in ("time", "event"))
        treated = population.treated[rows]
        if name not in self.told:  # the first outcome is asked for twice
            self.told[name] = _count(name, time, event == 1, treated)
            if name in self._of_interest:
                self._tell(name, followed, rows, (time, event == 1, treated))
        self.rows[name], self.exposures[name] = rows, time
        model = self._analysis["model"]
        if model == "cox":
            return surv(event == 1, time)
        if model == "fine_gray":
            return competing_risks(event, time)
        if model == "logistic" and population.strata is not None:
            return matched(event == 1, population.strata[rows])
        return (event == 1).astype(float if model == "poisson" else int)

    def _tell(self, name, followed, rows, y):
        """Keep what results tell of outcomes of interest."""
        attrition = followed.attrition
        columns = {"target": attrition["treated"], "comparator": attrition["comparators"]}
        told = DataFrame(columns).rename_axis("description").reset_index()
        self._keep("attrition", name, told.assign(sequence_number=np.arange(len(told)) + 1))
        self._keep("follow_up", name, _describe_follow_up(followed, y[0], y[-1]))
        population, is_there = self._population, np.zeros(len(self._population.treated), bool)
        is_there[rows] = True
        weight = None if population.weights is None else population.weights[rows]
        self._keep("survival", name, _describe_survival(*y, weight))
        found = describe_differences(
            population.data.X, population.treated, rows=is_there, **population.differences
        )
        self._keep("balance", name, found[list(OF_OUTCOMES)].reset_index(drop=True))

    def _keep(self, key, name, table):
        self.tables[key].append(table.assign(outcome=self._names.index(name)))


def _count(name, time, event, treated):
    arms = dict(zip(ARMS, (treated, ~treated), strict=True))
    found = {f"{arm}_subjects": np.count_nonzero(is_here) for arm, is_here in arms.items()}
    found |= {f"{arm}_days": int(time[is_here].sum()) for arm, is_here in arms.items()}
    return found | {f"{arm}_outcomes": int(event[is_here].sum()) for arm, is_here in arms.items()}


def _describe_follow_up(followed, time, treated):
    dates, found = followed.table["index_date"].to_numpy(), {}
    for arm, is_here in zip(ARMS, (treated, ~treated), strict=True):
        if not is_here.any():
            continue
        for name, share in SHARES.items():
            found[f"{arm}_{name}_days"] = np.quantile(time[is_here], share)
        found[f"{arm}_min_date"] = dates[is_here].min()
        found[f"{arm}_max_date"] = dates[is_here].max()
    return DataFrame([found])


def _describe_survival(time, event, treated, weight):
    """Kaplan-Meier curves of both arms at the same days, with weights where there are any."""
    last = np.quantile(time, LAST)
    days = np.unique(time[event & (time <= last)])
    if len(days) > MOST_TIMES:
        days = days[np.linspace(0, len(days) - 1, MOST_TIMES).astype(int)]
    if not len(days) or treated.all() or not treated.any():
        return DataFrame({"time_day": np.empty(0)})
    curves = kaplan_meier(surv(event, time), groups=treated, sample_weight=weight).at(days)
    table = {"time_day": days}
    for arm, is_here in zip(ARMS, (True, False), strict=True):
        curve = curves.loc[is_here]
        table[f"{arm}_survival"] = curve["survival"].to_numpy()
        table[f"{arm}_survival_lb"] = curve["lower"].fillna(curve["survival"]).to_numpy()
        table[f"{arm}_survival_ub"] = curve["upper"].fillna(curve["survival"]).to_numpy()
        own = np.sort(time[treated == is_here])
        table[f"{arm}_at_risk"] = len(own) - np.searchsorted(own, days)
    return DataFrame(table).dropna()
