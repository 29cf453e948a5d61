"""A study: its document, what would run, and a run that goes on where another one was ended."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from pandas import DataFrame, concat

from .._journal import Journal
from .._progress import on_a_line
from .._tables import Result, counted
from .comparison import Comparison, pack, unpack
from .document import EVENTS, outcomes_of, read_document
from .result import StudyResult
from .series import CaseSeries

__all__ = ["Study"]

PILOT = 2_000  # persons of the comparison whose time is taken


@dataclass(frozen=True, eq=False, repr=False)
class Study(Result):
    """All comparisons of a study with all outcomes; made by `Study.read`.

    Attributes
    ----------
    document : dict
        The document with all keys, also those that were not given.

    Examples
    --------
    >>> from sksurvgpu.study import Study
    >>> study = Study.read(
    ...     {
    ...         "targets": {"new": {"drug": [101]}},
    ...         "comparators": {"old": {"drug": [201]}},
    ...         "outcomes": {"stroke": {"condition": [1001]}},
    ...         "analyses": {"matched": {"adjustment": {"match": {"ratio": 1}}}},
    ...     }
    ... )
    >>> study
    <Study 'study': 1 comparison, 1 analysis, 1 outcome of interest, 0 controls>
      target comparator
    0    new        old
    >>> study.document["analyses"]["matched"]["model"]
    'cox'
    """

    document: dict

    def _title(self) -> str:
        study = self.document
        controls = sum(len(study[kind]) for kind in EVENTS[1:])
        n_analyses = len(study["analyses"])
        analyses = f"{n_analyses:,} {'analysis' if n_analyses == 1 else 'analyses'}"
        parts = [f"{counted(len(study['comparisons']), 'comparisons')}, {analyses}"]
        if study["case_series"]:
            n_series, exposures = len(study["case_series"]), len(study["exposures"])
            parts = parts * bool(study["comparisons"])
            parts.append(f"{n_series:,} case series of {counted(exposures, 'exposures')}")
        parts.append(f"{counted(len(study['outcomes']), 'outcomes')} of interest")
        return f"Study {study['name']!r}: {', '.join([*parts, counted(controls, 'controls')])}"

    def _head(self, n):
        pairs = self.document["comparisons"]
        if pairs:
            return DataFrame(pairs[:n], columns=["target", "comparator"]), len(pairs)
        exposures = [*self.document["exposures"]]
        return DataFrame({"exposure": exposures[:n]}), len(exposures)

    @classmethod
    def read(cls, source) -> Study:
        """Read a study and check it, without a database.

        Parameters
        ----------
        source : path or dict
            A file of JSON, or of YAML where PyYAML is installed, or what such a file says
            (:doc:`/guide/study`).

        Returns
        -------
        study : Study
            With all keys of its document; what is unknown, or contradicts itself, was refused.
        """
        return cls(read_document(source))

    def estimate(self, database, n_jobs=None) -> Any:
        """Say what would run, and about how long it would take.

        Cohorts are drawn, and 500 and 2,000 persons of the first comparison go through all of it.

        Parameters
        ----------
        database : omop.Database or path
            What the study would run on.
        n_jobs : int, optional
            Threads.

        Returns
        -------
        table : pandas.DataFrame
            A line for each comparison: persons of both arms, number of analyses and outcomes,
            ``seconds``, and the ``basis`` of that; or the ``message`` of what cannot be drawn. One
            for all case series, of which the first outcome is tried.
        """

        database = _open(database)
        found = []
        if self.document["comparisons"]:
            found.append(self._estimate_comparisons(database, n_jobs))
        if self.document["case_series"]:
            found.append(DataFrame([self._estimate_series(database, n_jobs)]))
        return concat(found, ignore_index=True)

    def _estimate_series(self, database, n_jobs):
        """Line of all case series."""
        first = partial(CaseSeries, self.document, database, 0, n_jobs)
        first().describe()  # so that nothing is compiled below
        begin = time.perf_counter()
        failed = first().describe()["lines"].query("status == 'failed'")["message"].unique()
        seconds, n_outcomes = time.perf_counter() - begin, len(outcomes_of(self.document))
        line = {"target": "case series", "comparator": "", "message": "; ".join(failed)}
        line |= {"analyses": len(self.document["case_series"]), "outcomes": n_outcomes}
        basis = f"the first of {n_outcomes:,} outcomes took {seconds:.1f} s"
        return line | {"seconds": seconds * n_outcomes, "basis": basis}

    def _estimate_comparisons(self, database, n_jobs):
        begin = time.perf_counter()
        lines = [self._count(database, k) for k in range(len(self.document["comparisons"]))]
        seconds = (time.perf_counter() - begin) / len(lines)
        table = DataFrame(lines)
        is_there = (table["message"] == "").to_numpy()
        if not is_there.any():
            return table
        first = int(np.argmax(is_there))
        pilots, reading, message = self._try(database, first, n_jobs, len(lines))
        n_persons = table["target_persons"] + table["comparator_persons"]
        (n_few, of_few), (n_pilot, fitting) = pilots
        rest = on_a_line((n_few, n_pilot), (of_few, fitting), n_persons)
        table["seconds"] = seconds + reading + rest
        table["basis"] = (
            f"{n_few:,} and {n_pilot:,} persons of comparison {first} took {of_few:.1f} and "
            f"{fitting:.1f} s, on a line by persons"
            f"{message}, and {seconds + reading:.1f} s to read records of each comparison"
        )
        return table

    def _try(self, database, k, n_jobs, n_comparisons):
        """Take the time of some persons of a comparison, to read records and for the rest."""
        events: dict = {}
        warm = Comparison(self.document, database, k, n_jobs, events, most=PILOT // 4)
        begin = time.perf_counter()
        for name in outcomes_of(self.document):
            warm.events(name)
        reading = (time.perf_counter() - begin) / n_comparisons
        _do_parts(warm, {}.get, {}.__setitem__)  # so that nothing is compiled below
        pilots = []
        for most in (PILOT // 4, PILOT):
            made: dict = {}
            pilot = Comparison(self.document, database, k, n_jobs, events, most=most)
            begin = time.perf_counter()
            pilot.treated  # noqa: B018 (which reads covariates)
            between = time.perf_counter()
            failures = _do_parts(pilot, made.get, made.__setitem__)
            pilots.append((len(pilot.cohort.table), time.perf_counter() - between))
        message = f" until it failed ({failures[0][-1]})" if failures else ""
        return pilots, reading + between - begin, message

    def _count(self, database, k):
        """Line of a comparison: who would be compared."""
        study = self.document
        line = dict(zip(("target", "comparator"), study["comparisons"][k], strict=True))
        line |= {"target_persons": np.nan, "comparator_persons": np.nan, "message": ""}
        line |= {"analyses": len(study["analyses"])}
        line |= {"outcomes": sum(len(study[kind]) for kind in EVENTS)}
        try:
            cohort = Comparison(study, database, k).cohort
            line["target_persons"] = int(cohort.is_treated.sum())
            line["comparator_persons"] = len(cohort.table) - line["target_persons"]
        except Exception as error:
            line["message"] = _told(error)
        return line

    def run(self, database, folder, client=None, n_jobs=None) -> StudyResult:
        """Run all comparisons, or what is left of them.

        Parameters
        ----------
        database : omop.Database or path
            Database, another object with its methods, or where it is. With a `client`, the path:
            workers open it themselves.
        folder : path
            New folder for what is finished, one part for the scores of a comparison, one for each
            of its analyses, and one for each outcome of the case series. Where the call is made
            again after it was ended, whatever ended it, these are not done again, and the results
            are the same to the last bit.
        client : distributed.Client, optional
            Cluster of Dask, whose workers take a comparison, or an outcome of case series, each.
        n_jobs : int, optional
            Threads of one of them.

        Returns
        -------
        result : StudyResult
            Estimates, diagnostics and what failed: an error in one comparison does not end others,
            and it is tried again by the next call.
        """
        study = self.document
        if folder is None:
            raise TypeError("`folder` is None; name a new folder, in which the study is kept.")
        opened = _open(database)
        self._check_concepts(opened)
        with Journal(folder, _describe(study, opened)) as journal:
            if client is None:
                failures = _run_here(study, opened, journal, n_jobs)
            else:
                failures = _on_cluster(study, database, journal, n_jobs, client)
            return StudyResult.gather(study, journal, list(failures))

    def _check_concepts(self, database):
        """Refuse controls that are outcomes of interest by their descendants."""
        if not hasattr(database, "concepts"):
            return
        found = {
            (kind, name): {
                (domain, concept)
                for domain, ids in definition["concepts"].items()
                for concept in (ids if domain == "cohort" else database.concepts(ids).tolist())
            }
            for kind in EVENTS
            for name, definition in self.document[kind].items()
        }
        for (kind, name), concepts in found.items():
            for (other, outcome), of_interest in found.items():
                shared = concepts & of_interest
                if shared and kind != "outcomes" and other == "outcomes":
                    domain, concept = min(shared)
                    raise ValueError(
                        f"the control {name!r} and the outcome {outcome!r} share the {domain} "
                        f"{concept} through their descendants; a control must be no outcome of "
                        "interest."
                    )


def _open(database):
    """A database by its path, or as it is."""
    if isinstance(database, str | os.PathLike):
        from ..omop import Database

        return Database(database)
    return database


def _describe(study, database):
    """Values that all parts depend on; diagnostics are judged anew by every call."""
    from .. import __version__

    shown = repr(database)
    shown = type(database).__name__ if " at 0x" in shown else shown
    records = database.digest() if hasattr(database, "digest") else None
    of, names = {}, {}
    for key in study:
        if isinstance(study[key], dict) and key != "diagnostics":
            names[key] = [*study[key]]  # whose order numbers the parts
            of |= {f"{key}: {name}": [json.dumps(one)] for name, one in study[key].items()}
        elif key != "diagnostics":
            of[key] = study[key]
    of |= {"order of names": [json.dumps(names)], "database": shown, "records": records}
    return {"sksurvgpu": __version__, "call": "Study.run", **of}


def _units(study):
    """Comparisons and outcomes of case series, which are done on their own, by class and number."""
    n_outcomes = len(outcomes_of(study)) if study["case_series"] else 0
    sizes = {Comparison: len(study["comparisons"]), CaseSeries: n_outcomes}
    return [(kind, number) for kind, n in sizes.items() for number in range(n)]


def _do_parts(unit, read, write):
    """Do what is not there of a comparison, or an outcome of case series; lines of what failed."""
    failures, (*pair, _) = [], unit.label
    (first_key, describe), *analyses = unit.parts()
    missing = [part for part in analyses if not _is_finished(read(part[0]))]
    try:
        arrays = read(first_key)
        if not _is_finished(arrays):
            arrays = pack(describe())
            write(first_key, arrays)
    except Exception as error:
        return [(*unit.label, _told(error))]
    scores = unpack(arrays)
    for key, analyse in missing:
        try:
            write(key, pack(analyse(scores)))
        except Exception as error:
            failures.append((*pair, analyse.args[0], _told(error)))
    return failures


def _is_finished(arrays):
    """Whether a part is there, with all outcomes but those that fail by what the data are."""
    return arrays is not None and bool(np.all(arrays.get("facts/is_whole", True)))


def _told(error):
    kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
    return kind + str(error)


def _run_here(study, database, journal, n_jobs):
    """All units one after another, which share the events that were read."""
    events: dict = {}
    write = partial(journal.write, compress=True)
    for kind, number in _units(study):
        yield from _do_parts(kind(study, database, number, n_jobs, events), journal.read, write)


def _on_worker(study, database, unit, held, n_jobs):
    """Parts of a unit that were not there, by key, and lines of what failed."""
    made: dict = {}
    kind, number = unit
    opened = kind(study, _open(database), number, n_jobs)
    failures = _do_parts(opened, lambda key: held.get(key, made.get(key)), made.__setitem__)
    return made, failures


def _on_cluster(study, database, journal, n_jobs, client):
    """Run a task for each unit; what comes back is kept at once."""
    from distributed import as_completed

    tasks = {}
    for kind, number in _units(study):
        unit = kind(study, None, number)
        keys = [key for key, _ in unit.parts()]
        held = {key: arrays for key in keys if _is_finished(arrays := journal.read(key))}
        if len(held) < len(keys):
            # of finished analyses a worker need only know that they are there
            held = {key: held[key] if key == keys[0] else {} for key in held}
            do = partial(_on_worker, study, database, (kind, number), held, n_jobs)
            tasks[client.submit(do, pure=False)] = unit.label
    for task in as_completed(tasks):
        try:
            made, failures = task.result()
        except Exception as error:  # such as of a worker that is gone
            made, failures = {}, [(*tasks[task], _told(error))]
        for key, arrays in made.items():
            journal.write(key, arrays, compress=True)
        yield from failures
