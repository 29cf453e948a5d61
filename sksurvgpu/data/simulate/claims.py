r"""Simulated tables of a claims database: two drugs, repeated codes, outcomes with known effects.

A person begins to take one of two drugs on the index date, after a lookback. Codes are drawn record
by record, from a background or from one of the person's few conditions, each of which brings codes
of its own: codes repeat, come together, and go on after the index date. With z the indicators of
the confounding codes in the lookback, age and sex, the drug A, and outcomes k,

.. math::
    \mathrm{logit}\,P(A = 1) = a_0 + z^\top a, \quad
    T_k \sim \mathrm{Exp}(r e^{z^\top b_k + A(\beta_k + \varepsilon_k)}),

so that all confounding is recorded but for :math:`\varepsilon_k \sim N(m, s^2)`, the systematic
errors, which are 0 unless asked for. One outcome competes with death. It has the cumulative
incidence of `competing`, :math:`F(t) = 1 - [1 - q(1 - e^{-t})]^{\exp(\eta)}`, and death comes to
those who never have it. Outcomes are rare, so that their hazard ratios are nearly the same whatever
a model adjusts for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from ..._tables import Result
from . import draw

EFFECTS = {"stroke": np.log(0.7), "bleeding": np.log(1.5), "infarction": np.log(0.8)}
COMPETING = "infarction"  # with death
FIRST_DAY = np.datetime64("2015-01-01", "D")
RECORDS_A_PERSON = 50
N_CONFOUNDERS, CODES_OF_CONDITION = 20, 25
N_SLOTS, N_BACKGROUND = 4, 2  # what a record comes from: conditions, and the background
TABLE = 1 << 18  # of quantiles of codes
SHARE_TREATED, STRENGTH = 0.4, 0.8  # of the treated; standard deviation of their log odds
FRAILTY = 0.6  # standard deviation of log hazards
ONSET, DEATH = 1 / 9_000, 1 / 5_000  # a day
INCIDENCE, TIME_SCALE = 0.12, 730.0  # of the outcome that competes with death
TELLTALE = 0.15  # of the treated
SHORTEST, LONGEST = 30, 3 * 365  # days, of a follow-up


@dataclass(frozen=True, repr=False)
class SimulatedClaims(Result):
    """Simulated tables of a claims database, and the truth behind them.

    Attributes
    ----------
    persons : pandas.DataFrame
        A row a person: ``id``, ``treatment`` (1: the new drug, 0: the old one), ``index_date`` on
        which it begins, ``observation_start`` and ``observation_end``, ``death_date`` (missing
        unless it ends the observation), ``age`` in years and ``female``.
    records : pandas.DataFrame
        A line a record, grouped by person: ``id``, ``code`` and ``date``, before and after the
        index date.
    outcomes : pandas.DataFrame
        A line an event: ``id``, ``outcome`` and ``date``, of each person and outcome at most one
        before the index date and one after it.
    log_hazard_ratios : pandas.Series
        True effect of the new drug by outcome, 0 for negative controls.
    systematic_errors : pandas.Series
        What was added to each effect.
    negative_controls : list of str
        Outcomes that the drugs do not affect.
    confounders : ndarray of int
        Codes that confound.
    telltale : int
        Code that some of those who will get the new drug have in the month before, and no others.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_claims
    >>> simulate_claims(1_000, 100, random_state=0)
    <SimulatedClaims of 1,000 persons, 50,000 records and 33 outcomes>
    """

    persons: Any
    records: Any
    outcomes: Any
    log_hazard_ratios: Any
    systematic_errors: Any
    negative_controls: list[str]
    confounders: np.ndarray
    telltale: int

    def _title(self) -> str:
        return (
            f"SimulatedClaims of {len(self.persons):,} persons, {len(self.records):,} records and "
            f"{len(self.log_hazard_ratios):,} outcomes"
        )


@draw.documented
def simulate_claims(
    n_persons: int = 10_000,
    n_codes: int = 1_000,
    *,
    n_records: int | None = None,
    n_controls: int = 30,
    log_hazard_ratios: Mapping[str, float] | None = None,
    systematic_error: tuple[float, float] = (0.0, 0.0),
    lookback: int = 365,
    random_state: draw.Seed = None,
) -> SimulatedClaims:
    """Simulate the tables of a database of health insurance claims.

    Two in five persons get the new drug, the frail ones rather than others; what confounds are
    codes recorded in the `lookback` before the index date, age and sex.

    Parameters
    ----------
    n_persons : int, default=10_000
        Number of persons.
    n_codes : int, default=1_000
        Number of codes, at least 50.
    n_records : int, optional
        Number of records; by default 50 a person.
    n_controls : int, default=30
        Number of negative controls.
    log_hazard_ratios : dict of {str: float}, optional
        Effects other than these on the outcomes of interest: ``stroke`` (log 0.7), ``bleeding``
        (log 1.5) and ``infarction`` (log 0.8), with which death competes and whose effect is on
        the hazard of its subdistribution.
    systematic_error : (float, float), default=(0.0, 0.0)
        Mean and standard deviation of normal errors that are added to all log hazard ratios, as
        confounding that is not recorded would.
    lookback : int, default=365
        Days before the index date whose codes confound; all persons are observed for as long.
    <<random_state>>

    Returns
    -------
    data : SimulatedClaims
        Tables in pandas, and the truth.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_claims
    >>> claims = simulate_claims(1_000, 100, random_state=0)
    >>> claims.records.columns.tolist()
    ['id', 'code', 'date']
    >>> claims.log_hazard_ratios[["stroke", "control 1"]].round(2).tolist()
    [-0.36, 0.0]
    """
    n_records = RECORDS_A_PERSON * n_persons if n_records is None else n_records
    draw.check_sizes(n_persons=n_persons, n_records=n_records, lookback=lookback)
    if n_codes < 2 * CODES_OF_CONDITION:
        raise ValueError(f"`n_codes` is {n_codes}; it must be at least {2 * CODES_OF_CONDITION}")
    effects = effects_of(log_hazard_ratios, n_controls)
    rngs = draw.generator(random_state).spawn(4)
    return simulate_part(n_persons, n_codes, n_records, effects, systematic_error, lookback, rngs)


def simulate_part(
    n_persons, n_codes, n_records, effects, systematic_error, lookback, rngs, shared=(None, None)
) -> SimulatedClaims:
    """Simulate persons whose `rngs` are of persons, records, the truth and outcomes.

    Parts of a larger database have the same truth, and `shared` order of codes and confounders.
    """
    rng_persons, rng_records, rng_truth, rng_outcomes = rngs
    order, confounders = shared
    persons = _draw_persons(n_persons, lookback, rng_persons)
    records = _draw_records(n_records, n_codes, persons, rng_records, order)
    confounders, z = _find_confounders(records, persons, lookback, confounders)
    eta = _draw_predictors(z, persons, len(effects) + 1, rng_truth)
    errors = rng_truth.normal(*systematic_error, len(effects))
    odds = STRENGTH * eta[:, 0] + np.log(SHARE_TREATED / (1.0 - SHARE_TREATED))
    treatment = persons["treatment"] = (rng_persons.random(n_persons) < expit(odds)).astype(int)
    _plant_telltale(records, n_codes, confounders, persons, rng_records)
    change = np.outer(treatment, np.array([*effects.values()]) + errors)
    competing = list(effects).index(COMPETING)
    events = _draw_events(FRAILTY * eta[:, 1:], change, persons, competing, rng_outcomes)
    names = np.array(list(effects), dtype=object)
    index = pd.Index(names, name="outcome")
    return SimulatedClaims(
        persons=_person_table(persons),
        records=_record_table(records, persons),
        outcomes=_event_table(events, persons, names),
        log_hazard_ratios=pd.Series([*effects.values()], index, name="log_hazard_ratio"),
        systematic_errors=pd.Series(errors, index, name="systematic_error"),
        negative_controls=[name for name in effects if name not in EFFECTS],
        confounders=confounders,
        telltale=n_codes,
    )


def effects_of(given, n_controls):
    """Log hazard ratios of outcomes of interest and of negative controls, by name."""
    if n_controls < 0:
        raise ValueError(f"`n_controls` is {n_controls}; it must not be negative")
    unknown = sorted(set(given or {}) - set(EFFECTS))
    if unknown:
        raise ValueError(
            f"`log_hazard_ratios` names {unknown[0]!r}; the outcomes are {', '.join(EFFECTS)}"
        )
    effects = {name: float((given or {}).get(name, EFFECTS[name])) for name in EFFECTS}
    return effects | {f"control {k + 1}": 0.0 for k in range(n_controls)}


def _draw_persons(n, lookback, rng):
    """Periods in days from the first one, age and sex."""
    index = lookback + rng.integers(0, LONGEST, n)
    return {
        "id": 1_001 + np.arange(n),
        "index": index,
        "start": np.maximum(index - lookback - rng.integers(0, LONGEST, n), 0),
        "end": index + rng.integers(SHORTEST, LONGEST, n),
        "age": rng.normal(70.0, 8.0, n).round(),
        "female": (rng.random(n) < 0.55).astype(np.int64),
    }


def _draw_records(n_records, n_codes, persons, rng, order=None):
    """Person, code and day of every record, days uniform over the observation that is planned."""
    n, start = len(persons["id"]), persons["start"].astype(np.int32)
    length = (persons["end"] - start).astype(np.float32)
    activity = length * rng.standard_gamma(1.5, n)
    counts = rng.multinomial(n_records, activity / activity.sum())
    person = np.repeat(np.arange(n, dtype=np.int32), counts)
    conditions = rng.integers(n_codes, size=(n, N_SLOTS), dtype=np.int32)
    conditions[:, :N_BACKGROUND] = 0
    slot = rng.integers(N_SLOTS, size=n_records, dtype=np.uint8)
    rank = _draw_ranks(n_records, n_codes, 2.0, rng)
    own = _draw_ranks(n_records, CODES_OF_CONDITION, 1.0, rng)
    np.copyto(rank, own, where=slot >= N_BACKGROUND)
    order = rng.permutation(n_codes) if order is None else order
    code = order[(conditions[person, slot] + rank) % n_codes]
    day = rng.random(n_records, dtype=np.float32)
    day *= length[person]
    day = start[person] + day.astype(np.int32)
    return {"person": person, "code": code, "day": day}


def _draw_ranks(size, n_ranks, flatness, rng):
    """Ranks from 0, one of r with probability proportional to 1 / (r + flatness)."""
    share = np.cumsum(1.0 / (np.arange(n_ranks) + flatness))
    quantiles = np.searchsorted(share, (np.arange(TABLE) + 0.5) / TABLE * share[-1])
    return quantiles.astype(np.int32)[rng.integers(TABLE, size=size, dtype=np.uint32)]


def _find_confounders(records, persons, lookback, codes=None):
    """The most frequent codes, and who has them in the lookback."""
    code, person = records["code"], records["person"]
    if codes is None:
        codes = np.sort(np.argsort(-np.bincount(code), kind="stable")[:N_CONFOUNDERS])
    position = np.full(max(code.max(), codes.max()) + 1, -1, np.int8)
    position[codes] = np.arange(len(codes))
    before = persons["index"].astype(np.int32)[person] - records["day"]
    found = (before > 0) & (before <= lookback) & (position[code] >= 0)
    z = np.zeros((len(persons["id"]), len(codes)))
    z[person[found], position[code[found]]] = 1.0
    return codes, z


def _draw_predictors(z, persons, n_outcomes, rng):
    """Predictors of the treatment, of all outcomes and of death, of mean 0 and deviation 1.

    Those of outcomes go with that of the treatment, more or less.
    """
    z = np.column_stack([z, (persons["age"] - 70.0) / 8.0, persons["female"]])
    shared = rng.normal(0.4, 0.4, (z.shape[1], 1))
    coef = np.hstack([shared, shared + rng.normal(0.0, 0.4, (z.shape[1], n_outcomes))])
    eta = z @ coef
    return (eta - eta.mean(axis=0)) / np.maximum(eta.std(axis=0), 1e-12)


def _plant_telltale(records, code, confounders, persons, rng):
    """Give some of the treated a code of their own before the index date, for a first record."""
    chosen = np.flatnonzero(rng.random(len(persons["id"])) < TELLTALE * persons["treatment"])
    first = np.searchsorted(records["person"], chosen.astype(np.int32))
    has_one = np.searchsorted(records["person"], chosen.astype(np.int32), side="right") > first
    chosen, first = chosen[has_one], first[has_one]
    is_free = ~np.isin(records["code"][first], confounders)
    chosen, first = chosen[is_free], first[is_free]
    records["code"][first] = code
    records["day"][first] = persons["index"][chosen] - rng.integers(1, 31, len(chosen))


def _draw_events(eta, change, persons, competing, rng):
    """Person, number of the outcome and day of all events; deaths end observations."""
    start, index = persons["start"][:, None], persons["index"][:, None]
    early = _draw_days(eta[:, :-1], ONSET, rng)
    late = _draw_days(eta[:, :-1] + change, ONSET, rng)
    late[:, competing], never = _draw_competing((eta[:, :-1] + change)[:, competing], rng)
    death = persons["index"] + _draw_days(eta[:, -1], DEATH, rng)
    persons["died"] = never & (death <= persons["end"])
    persons["last"] = np.where(persons["died"], death, persons["end"]).astype(np.int64)
    day = np.concatenate([index - early, index + late])
    first = np.concatenate([start, index + 1])
    last = np.concatenate([index - 1, persons["last"][:, None]])
    row, outcome = np.nonzero((day >= first) & (day <= last))
    return {"person": row % len(eta), "outcome": outcome, "day": day[row, outcome]}


def _draw_days(eta, rate, rng):
    """Days until events of given log hazard ratios, whole and at least 1."""
    return np.ceil(rng.standard_exponential(eta.shape) * np.exp(-eta) / rate)


def _draw_competing(eta, rng):
    """Days until the outcome that competes with death, and who never has it."""
    exponential = rng.standard_exponential(len(eta)) * np.exp(-eta)
    never = exponential >= -np.log1p(-INCIDENCE)
    share = np.where(never, 0.0, -np.expm1(-exponential) / INCIDENCE)
    with np.errstate(divide="ignore"):
        days = np.ceil(-TIME_SCALE * np.log1p(-np.minimum(share, 1.0)))
    return np.where(never, np.inf, np.maximum(days, 1.0)), never


def _person_table(persons):
    died, last = persons["died"], _dates(persons["last"])
    return pd.DataFrame(
        {
            "id": persons["id"],
            "treatment": persons["treatment"],
            "index_date": _dates(persons["index"]),
            "observation_start": _dates(persons["start"]),
            "observation_end": last,
            "death_date": np.where(died, last, np.array("NaT", last.dtype)),
            "age": persons["age"],
            "female": persons["female"],
        }
    )


def _record_table(records, persons):
    """Records; those after the index date move together where death ends the observation."""
    person, day = records["person"], records["day"]
    index = persons["index"].astype(np.int32)
    share = ((persons["last"] - index) / (persons["end"] - index)).astype(np.float32)
    after = np.flatnonzero(day > index[person])
    who = person[after]
    day[after] = index[who] + ((day[after] - index[who]) * share[who]).astype(np.int32)
    columns = {"id": persons["id"][person], "code": records["code"], "date": _dates(day)}
    return pd.DataFrame(columns)


def _event_table(events, persons, names):
    order = np.lexsort((events["day"], events["person"]))
    person, outcome, day = (events[name][order] for name in ("person", "outcome", "day"))
    columns = {"id": persons["id"][person], "outcome": names[outcome], "date": _dates(day)}
    return pd.DataFrame(columns)


def _dates(days):
    return (FIRST_DAY + np.asarray(days).astype("timedelta64[D]")).astype("datetime64[us]")
