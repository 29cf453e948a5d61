"""Simulated databases in the OMOP common data model: `simulate_claims`, in parts, by its tables.

Parts of `PART` persons share the truth and are written one after the other, so that memory does not
depend on how many there are.
"""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..._tables import Result
from . import draw
from .claims import RECORDS_A_PERSON, effects_of, simulate_part

PART = 50_000  # persons
LOOKBACK = 365
DRUGS = {"new drug": 101, "old drug": 201}  # ingredients; what is taken has the next number
FIRST_OUTCOME, FIRST_CODE = 1_001, 10_000
REFILLS, SUPPLY, EVERY = 0.2, 30, 33  # probability of stopping; days of one, and between two
PEOPLE = {
    8507: "MALE",
    8532: "FEMALE",
    8527: "White",
    8516: "Black or African American",
    8515: "Asian",
    38003563: "Hispanic or Latino",
    38003564: "Not Hispanic or Latino",
}
# Domain of a code by its remainder, with the table and its columns of concept and start.
TABLES = {
    "condition": ("condition_occurrence", "condition_concept_id", "condition_start_date"),
    "drug": ("drug_exposure", "drug_concept_id", "drug_exposure_start_date"),
    "procedure": ("procedure_occurrence", "procedure_concept_id", "procedure_date"),
    "measurement": ("measurement", "measurement_concept_id", "measurement_date"),
    "observation": ("observation", "observation_concept_id", "observation_date"),
}
DOMAIN_OF = np.array(["condition"] * 3 + ["drug"] * 2 + [*TABLES][2:], dtype=object)


@dataclass(frozen=True, repr=False)
class SimulatedOmop(Result):
    """A simulated database in the OMOP common data model, and the truth behind it.

    Attributes
    ----------
    tables : dict
        Tables by name, in pandas, or the folders of their Parquet files.
    drugs : list of int
        Ingredients that are compared: the new drug and the old one.
    outcomes : pandas.DataFrame
        A line for each outcome by its name: ``concept_id``, ``log_hazard_ratio`` of the new drug,
        and ``is_control``, whether the drugs do not affect it.
    confounders : ndarray of int
        Concepts that confound.
    n_persons : int
        Number of persons.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_omop
    >>> simulate_omop(1_000, random_state=0)
    <SimulatedOmop of 1,000 persons and 33 outcomes>
    """

    tables: dict
    drugs: list
    outcomes: Any
    confounders: np.ndarray
    n_persons: int

    def _title(self) -> str:
        return f"SimulatedOmop of {self.n_persons:,} persons and {len(self.outcomes):,} outcomes"


@draw.documented
def simulate_omop(
    n_persons: int = 10_000,
    n_records: int | None = None,
    folder: Any = None,
    *,
    n_codes: int = 1_000,
    n_controls: int = 30,
    systematic_error: tuple[float, float] = (0.0, 0.0),
    dirt: float = 0.0,
    random_state: draw.Seed = None,
) -> SimulatedOmop:
    """Simulate a database in the OMOP common data model, version 5.4.

    Persons are those of `simulate_claims`, codes are concepts of five domains, and tables have the
    columns that `omop.Database` reads.

    Parameters
    ----------
    n_persons : int, default=10_000
        Number of persons.
    n_records : int, optional
        Number of records beside the drugs that are compared and outcomes; by default 50 a person.
    folder : path-like, optional
        Write tables to Parquet files in folders of this one, which must not have any, in place of
        keeping them.
    n_codes : int, default=1_000
        Number of concepts of such records, at least 50.
    n_controls : int, default=30
        Number of negative controls.
    systematic_error : (float, float), default=(0.0, 0.0)
        Mean and standard deviation of normal errors that are added to all log hazard ratios.
    dirt : float, default=0.0
        Share of lines that are repeated, have no date, no concept or a day outside of observation,
        of exposures that end before they start, of persons who begin both drugs on a day, and of
        those with another period of observation, before; the last concept has no name then.
    <<random_state>>

    Returns
    -------
    data : SimulatedOmop
        Tables, and the truth.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_omop
    >>> simulated = simulate_omop(1_000, random_state=0)
    >>> simulated.outcomes.head(3).round(2)
                concept_id  log_hazard_ratio  is_control
    outcome
    stroke            1001             -0.36       False
    bleeding          1003              0.41       False
    infarction        1005             -0.22       False
    """
    n_records = RECORDS_A_PERSON * n_persons if n_records is None else n_records
    draw.check_sizes(n_persons=n_persons, n_records=n_records)
    draw.check_share("dirt", dirt, include_one=False)
    effects = effects_of(None, n_controls)
    rng_truth, rng = draw.generator(random_state).spawn(2)
    order, seed = rng_truth.permutation(n_codes), rng_truth.integers(2**63)
    sizes = np.diff(np.linspace(0, n_persons, -(-n_persons // PART) + 1).astype(int))
    numbers = rng.multinomial(n_records, sizes / n_persons)
    store, first = _TableParts(folder), 0
    confounders: np.ndarray | None = None
    for size, number in zip(sizes.tolist(), numbers.tolist(), strict=True):
        *rngs, rng_outcomes, rng_dirt = rng.spawn(4)
        rngs = [*rngs, np.random.default_rng(seed), rng_outcomes]
        claims = simulate_part(
            size, n_codes, number, effects, systematic_error, LOOKBACK, rngs, (order, confounders)
        )
        confounders = claims.confounders
        for frame in (claims.persons, claims.records, claims.outcomes):
            frame["id"] += first
        store.add(_tables_of(claims, dirt, rng_dirt))
        first += size
    names = list(effects)
    concepts = FIRST_OUTCOME + 2 * np.arange(len(names))
    store.add(_vocabulary(names, concepts, n_codes, dirt > 0))
    truth = {"concept_id": concepts, "log_hazard_ratio": [*effects.values()]}
    outcomes = pd.DataFrame(truth, pd.Index(names, name="outcome"))
    outcomes["is_control"] = outcomes.index.isin(claims.negative_controls)
    confounders = FIRST_CODE + claims.confounders
    return SimulatedOmop(store.tables(), [*DRUGS.values()], outcomes, confounders, n_persons)


class _TableParts:
    """Tables that come in parts, in memory or in files."""

    def __init__(self, folder):
        self._parts = defaultdict(list)
        self._folder = None if folder is None else Path(folder).expanduser()
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            if any(self._folder.iterdir()):
                raise FileExistsError(f"`folder` {str(folder)!r} is not empty; name another one.")

    def add(self, tables):
        """Keep or write a part of each table."""
        for name, table in tables.items():
            if self._folder is not None:
                path = self._folder / name / f"part-{len(self._parts[name]):05d}.parquet"
                path.parent.mkdir(exist_ok=True)
                table.to_parquet(path, index=False)
                table = path.parent
            self._parts[name].append(table)

    def tables(self):
        """Tables, or their folders."""
        if self._folder is not None:
            return {name: paths[0] for name, paths in self._parts.items()}
        return {name: pd.concat(parts, ignore_index=True) for name, parts in self._parts.items()}


def _tables_of(claims, dirt, rng):
    """Tables of the persons of a part."""
    persons = claims.persons
    tables = {
        "person": _person_table(persons, rng),
        "observation_period": _periods(persons, dirt, rng),
        "death": persons.loc[persons["death_date"].notna(), ["id", "death_date"]].rename(
            columns={"id": "person_id"}
        ),
    }
    outcomes = claims.outcomes
    number = pd.Index(claims.log_hazard_ratios.index).get_indexer(outcomes["outcome"])
    happened = outcomes.assign(code=FIRST_OUTCOME + 1 + 2 * number)[["id", "code", "date"]]
    domain = DOMAIN_OF[claims.records["code"].to_numpy() % len(DOMAIN_OF)]
    records = claims.records.assign(code=FIRST_CODE + claims.records["code"])
    for name, (table, concept, start) in TABLES.items():
        lines = records[domain == name]
        if name == "condition":
            lines = pd.concat([lines, happened])
        lines = lines.assign(stop=lines["date"] + pd.Timedelta(days=9))
        if name == "drug":
            lines = pd.concat([lines, _exposures(persons, dirt, rng)])
        lines = _soiled(lines.reset_index(drop=True), dirt, rng)
        columns = {"id": "person_id", "code": concept, "date": start}
        if name in ("condition", "drug"):
            columns["stop"] = start.replace("start", "end")
        tables[table] = lines[[*columns]].rename(columns=columns)
    return tables


def _person_table(persons, rng):
    n, index = len(persons), persons["index_date"].dt
    return pd.DataFrame(
        {
            "person_id": persons["id"],
            "gender_concept_id": np.where(persons["female"] == 1, 8532, 8507),
            "year_of_birth": index.year - persons["age"].astype(np.int64),
            "race_concept_id": rng.choice([8527, 8516, 8515, 0], n, p=[0.7, 0.15, 0.1, 0.05]),
            "ethnicity_concept_id": rng.choice([38003564, 38003563], n, p=[0.85, 0.15]),
        }
    )


def _periods(persons, dirt, rng):
    """Periods of observation; some persons have another one before."""
    columns = ["person_id", "observation_period_start_date", "observation_period_end_date"]
    periods = persons[["id", "observation_start", "observation_end"]].set_axis(columns, axis=1)
    start = periods[columns[1]]
    before = {
        columns[1]: start - pd.Timedelta(days=800),
        columns[2]: start - pd.Timedelta(days=400),
    }
    others = periods.assign(**before)[rng.random(len(periods)) < dirt]
    return pd.concat([periods, others]) if len(others) else periods


def _exposures(persons, dirt, rng):
    """Lines of the drugs that are compared: supplies one after the other, as long as observed."""
    n_supplies = rng.geometric(REFILLS, len(persons))
    row = np.repeat(np.arange(len(persons)), n_supplies)
    within = np.arange(len(row)) - np.repeat(np.cumsum(n_supplies) - n_supplies, n_supplies)
    drugs = 1 + np.array([DRUGS["old drug"], DRUGS["new drug"]])
    chosen = persons.iloc[row]
    lines = pd.DataFrame(
        {
            "id": chosen["id"].to_numpy(),
            "code": drugs[chosen["treatment"].to_numpy()],
            "date": chosen["index_date"].to_numpy() + (EVERY * within).astype("timedelta64[D]"),
        }
    )
    last = chosen["observation_end"].to_numpy()
    lines["stop"] = np.minimum(lines["date"] + pd.Timedelta(days=SUPPLY - 1), last)
    lines = lines[lines["date"].to_numpy() <= last]
    both = lines[(rng.random(len(lines)) < dirt) & ~lines["id"].duplicated().to_numpy()]
    return pd.concat([lines, both.assign(code=drugs.sum() - both["code"])])


def _soiled(lines, dirt, rng):
    """Lines as real databases have them."""
    if not dirt:
        return lines
    is_bad = rng.random((5, len(lines))) < dirt
    lines["date"] = lines["date"].mask(is_bad[0])
    lines["code"] = lines["code"].mask(is_bad[1], 0)
    for column in ("date", "stop"):
        lines[column] = lines[column].mask(is_bad[2], lines[column] - pd.Timedelta(days=3_000))
    lines["stop"] = lines["stop"].mask(is_bad[3], lines["date"] - pd.Timedelta(days=9))
    return pd.concat([lines, lines[is_bad[4]]])


def _vocabulary(names, concepts, n_codes, lacks_last):
    """Concepts, and which of them are below others."""
    name_of = dict(PEOPLE)
    pairs = []
    for name, id in [*DRUGS.items(), *zip(names, concepts.tolist(), strict=True)]:
        name_of |= {id: name, id + 1: f"{name}, as recorded"}
        pairs.append((id, id + 1))
    codes = range(n_codes + (0 if lacks_last else 1))
    name_of |= {FIRST_CODE + k: f"{DOMAIN_OF[k % len(DOMAIN_OF)]} {k}" for k in codes}
    pairs += [(id, id) for id in name_of]
    below = pd.DataFrame(sorted(pairs), columns=["ancestor_concept_id", "descendant_concept_id"])
    concept = pd.DataFrame({"concept_id": [*name_of], "concept_name": [*name_of.values()]})
    return {"concept": concept, "concept_ancestor": below}
