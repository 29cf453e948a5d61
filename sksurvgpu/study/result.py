"""Results of a study: estimates that may be looked at, diagnostics, tables and a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame, concat

from .._journal import read_part
from .._tables import Result, counted
from .comparison import unpack
from .diagnostics import DIAGNOSTICS_OF, calibrate_lines, judge_lines
from .page import write_page
from .tables import write_tables

__all__ = ["StudyResult"]

KEYS = ["target", "comparator", "analysis", "outcome"]
KINDS = {"outcomes": "interest", "negative_controls": "negative", "positive_controls": "positive"}
# What is told of an effect, and hidden until all diagnostics pass.
EFFECT = ("coef", "standard_error", "ratio", "ratio_lower", "ratio_upper", "p_value")
CALIBRATED = ("coef", "standard_error", "lower", "upper", "p_value", "one_sided_p")
COUNTS = [f"{arm}_{what}" for arm in ("target", "comparator") for what in ("subjects", "days")]
COUNTS += ["target_outcomes", "comparator_outcomes"]


@dataclass(frozen=True, eq=False, repr=False)
class StudyResult(Result):
    """Results of all comparisons of a study; made by `Study.run`.

    Attributes
    ----------
    table : pandas.DataFrame
        A line for each target, comparator, analysis and outcome: its ``kind``, "interest",
        "negative" or "positive"; persons, days and outcomes of both arms; ``coef``,
        ``standard_error``, ``ratio`` with its bounds and ``p_value``, and the calibrated ones;
        ``status`` and ``message`` of the fit; whether to ``unblind`` it, and the ``reason`` why
        not. Estimates of outcomes of interest are missing until all diagnostics pass; those of
        controls, whose effects are known, are there.
    diagnostics : pandas.DataFrame
        For the same lines, values of all diagnostics and whether they ``PASS``, ``FAIL`` or are
        ``NOT EVALUATED``, as without a threshold.
    failures : pandas.DataFrame
        Comparisons or analyses that could not be done, with ``message``.
    folder : pathlib.Path
        Where everything is kept.

    Examples
    --------
    >>> import tempfile
    >>> from sksurvgpu.datasets import simulate_omop
    >>> from sksurvgpu.omop import Database
    >>> from sksurvgpu.study import Study
    >>> simulated = simulate_omop(500, random_state=0)
    >>> new, old = simulated.drugs
    >>> study = Study.read(
    ...     {
    ...         "targets": {"new": {"drug": [new]}},
    ...         "comparators": {"old": {"drug": [old]}},
    ...         "outcomes": {"first": {"condition": [1001]}},
    ...         "analyses": {"crude": {"time_at_risk": {"risk_start": 1}}},
    ...     }
    ... )
    >>> result = study.run(Database(simulated.tables), tempfile.mkdtemp())
    >>> result.table["kind"].tolist()
    ['interest']
    """

    table: Any
    diagnostics: Any
    failures: Any
    folder: Path
    _study: dict = field(repr=False)
    _lines: Any = field(repr=False)
    _nulls: dict = field(repr=False)

    def _title(self) -> str:
        of_interest = self.table["kind"] == "interest"
        n_shown = int(
            (of_interest & self.table["unblind"] & (self.table["status"] != "failed")).sum()
        )
        return (
            f"StudyResult of {counted(len(self._study['comparisons']), 'comparisons')}: "
            f"{counted(int(of_interest.sum()), 'estimates')} of interest, {n_shown:,} unblinded; "
            f"{counted(len(self.failures), 'failures')}"
        )

    def _head(self, n):
        table = self.table[self.table["kind"] == "interest"].set_index(KEYS)
        return table[["ratio", "ratio_lower", "ratio_upper", "p_value", "unblind"]].head(n), len(
            table
        )

    @classmethod
    def gather(cls, study, journal, failures):
        """Judge what the folder of a study has, part by part."""
        found, nulls = [], {}
        for (k, a), parts in _read_analyses(study, journal):
            lines = _lines_of(study, k, a, parts["outcomes"])
            model = [*study["analyses"].values()][a]["model"]
            lines = judge_lines(lines, {**parts, "model": model}, study)
            lines, null = calibrate_lines(lines, study)
            found.append(lines)
            if null is not None:
                nulls[k, a] = null
        lines = concat(found, ignore_index=True) if found else DataFrame(columns=[*KEYS, "kind"])
        failures = DataFrame(failures, columns=["target", "comparator", "analysis", "message"])
        shown, values = _hide(lines), [*DIAGNOSTICS_OF]
        columns = [*KEYS, *dict.fromkeys(DIAGNOSTICS_OF[name][0] for name in values)]
        columns += ["shared_sdm_family_wise_min_p", "sdm_family_wise_min_p"]
        columns += [f"{name}_diagnostic" for name in values]
        columns += ["unblind_for_evidence_synthesis", "unblind"]
        folder, told = journal.folder, lines.reindex(columns=columns)
        return cls(shown, told, failures, folder, study, lines, nulls)

    def export(self, folder, database_id="database", *, min_cell_count=5) -> Path:
        """Write the tables of the results model of CohortMethod 6, as its viewers read them.

        Parameters
        ----------
        folder : path
            Where the files go, such as ``cm_result.csv``.
        database_id : str, default="database"
            Name of the database in them.
        min_cell_count : int, default=5
            Counts of persons below it, but for 0, are written as its negative.

        Returns
        -------
        folder : pathlib.Path
            The folder. What is written was checked by `check_tables`.
        """
        return write_tables(self, folder, str(database_id), min_cell_count)

    def report(self, path) -> Path:
        """Write one page with all that a reader needs: estimates, diagnostics, figures.

        Parameters
        ----------
        path : path
            A file of HTML, with nothing beside it.

        Returns
        -------
        path : pathlib.Path
            The file.
        """
        return write_page(self, path)

    def attrition(self) -> Any:
        """Who was left out at which step, of each comparison until its scores.

        Returns
        -------
        table : pandas.DataFrame
            Steps of each comparison, with persons of both arms.
        """
        found = [DataFrame(columns=KEYS[:2])]
        for k, (target, comparator) in enumerate(self._study["comparisons"]):
            parts = self.part(f"{k:04d}-scores")
            if parts:
                steps = parts["attrition"]
                steps.insert(0, "target", target)
                steps.insert(1, "comparator", comparator)
                found.append(steps)
        return concat(found[1:] or found, ignore_index=True)

    def part(self, key):
        """Return the tables of a part of the folder, or None."""
        arrays = read_part(self.folder, key)
        return None if arrays is None else unpack(arrays)


def _read_analyses(study, journal):
    """Numbers of a comparison and an analysis, and their tables, of those that are there."""
    for k in range(len(study["comparisons"])):
        for a in range(len(study["analyses"])):
            arrays = journal.read(f"{k:04d}-{a:03d}")
            if arrays is not None:
                yield (k, a), unpack(arrays)


def _lines_of(study, k, a, outcomes):
    """Lines of an analysis in the order of the document."""
    target, comparator = study["comparisons"][k]
    lines = outcomes.copy()
    lines.insert(0, "target", target)
    lines.insert(1, "comparator", comparator)
    lines.insert(2, "analysis", [*study["analyses"]][a])
    kind = {name: KINDS[key] for key in KINDS for name in study[key]}
    lines["kind"] = lines["outcome"].map(kind)
    truth = {n: d["true_ratio"] for n, d in study["positive_controls"].items()}
    truth |= dict.fromkeys(study["negative_controls"], 1.0)
    lines["true_ratio"] = lines["outcome"].map(truth).astype(float)
    if not {*COUNTS} <= {*lines}:  # nobody could be followed
        lines = lines.reindex(columns=[*lines, *(c for c in COUNTS if c not in lines)])
    lines[COUNTS] = lines[COUNTS].fillna(0).astype(np.int64)
    is_told = np.isfinite(lines["coef"])
    for key, column in (("ratio", "coef"), ("ratio_lower", "lower"), ("ratio_upper", "upper")):
        with np.errstate(over="ignore"):
            lines[key] = np.exp(lines[column]).where(is_told)
    return lines


def _hide(lines):
    """Lines for the eyes of a person: no effects of interest where a diagnostic fails."""
    calibrated = [f"calibrated_{key}" for key in CALIBRATED]
    columns = [*KEYS, "kind", "true_ratio", *COUNTS, *EFFECT, *calibrated, "status", "message"]
    shown = lines.reindex(columns=[*columns, "unblind", "reason"])
    is_hidden = (shown["kind"] == "interest") & ~shown["unblind"].astype(bool)
    shown.loc[is_hidden, [*EFFECT, *calibrated]] = np.nan
    shown.loc[is_hidden, ["status", "message"]] = "hidden", ""
    has_failed = (shown["status"] == "failed") & ~is_hidden
    told = [f"no estimate: {message}" for message in shown.loc[has_failed, "message"]]
    shown.loc[has_failed, "reason"] = told
    return shown
