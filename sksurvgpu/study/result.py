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
from .diagnostics import DIAGNOSTICS_OF, SERIES_DIAGNOSTICS_OF, calibrate_lines, judge, judge_lines
from .document import outcomes_of
from .page import write_page
from .series import COUNTS as SERIES_COUNTS
from .tables import write_tables

__all__ = ["StudyResult"]

KEYS = ["target", "comparator", "analysis", "outcome"]
SERIES_KEYS = ["exposure", "window", "analysis", "outcome"]
KINDS = {"outcomes": "interest", "negative_controls": "negative", "positive_controls": "positive"}
# What is told of an effect, and hidden until all diagnostics pass.
EFFECT = ("coef", "standard_error", "ratio", "ratio_lower", "ratio_upper", "p_value")
CALIBRATED = ("coef", "standard_error", "lower", "upper", "p_value", "one_sided_p")
COUNTS = [f"{arm}_{what}" for arm in ("target", "comparator") for what in ("subjects", "days")]
COUNTS += ["target_outcomes", "comparator_outcomes"]
# What is told of a line of case series where there was something to fit.
FITTED = ["coef", "standard_error", "lower", "upper", "p_value", "llr", "mdrr", "own_days"]
FITTED += ["time_stability_p", "before_exposure", "end_of_observation", "first_outcomes"]


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
    case_series : pandas.DataFrame
        The same for each exposure, window of interest, case series and outcome: persons, events,
        periods and days of the cases; persons, days, eras and events in the window; and all else
        as in `table`.
    case_series_diagnostics : pandas.DataFrame
        For these lines, what `diagnostics` is for the others.
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
    case_series: Any
    case_series_diagnostics: Any
    failures: Any
    folder: Path
    _study: dict = field(repr=False)
    _lines: Any = field(repr=False)
    _series_lines: Any = field(repr=False)
    _nulls: dict = field(repr=False)

    def _title(self) -> str:
        lines = [*zip(*(self._of(name) for name in ("kind", "unblind", "status")), strict=True)]
        shown = [of for of in lines if of[0] == "interest"]
        n_shown = sum(bool(unblind) and status != "failed" for _, unblind, status in shown)
        n_series, pairs = len(self._study["case_series"]), self._study["comparisons"]
        of = [counted(len(pairs), "comparisons")] * bool(pairs or not n_series)
        of += [f"{n_series:,} case series"] * bool(n_series)
        return (
            f"StudyResult of {' and '.join(of)}: {counted(len(shown), 'estimates')} of interest, "
            f"{n_shown:,} unblinded; {counted(len(self.failures), 'failures')}"
        )

    def _of(self, column):
        return [*self.table[column], *self.case_series[column]]

    def _head(self, n):
        is_series = not self._study["comparisons"]
        table = self.case_series if is_series else self.table
        table = table[table["kind"] == "interest"].set_index(SERIES_KEYS if is_series else KEYS)
        shown = ["ratio", "ratio_lower", "ratio_upper", "p_value", "unblind"]
        return table[shown].head(n), len(table)

    @classmethod
    def gather(cls, study, journal, failures):
        """Judge what the folder of a study has, part by part."""
        found, nulls = [], {}
        for (k, a), parts in _read_analyses(study, journal):
            lines = _lines_of(study, k, a, parts["outcomes"])
            model = [*study["analyses"].values()][a]["model"]
            lines = judge_lines(lines, {**parts, "model": model}, study)
            lines, nulls[k, a] = calibrate_lines(lines, study["diagnostics"])
            found.append(lines)
        lines = concat(found, ignore_index=True) if found else DataFrame(columns=[*KEYS, "kind"])
        failures = DataFrame(failures, columns=["target", "comparator", "analysis", "message"])
        more = ["shared_sdm_family_wise_min_p", "sdm_family_wise_min_p"]
        told, series = _diagnostics_of(lines, KEYS, more), _gather_series(study, journal, nulls)
        more = [f"event_{of}_{end}" for of in ("exposure", "observation") for end in ("lb", "ub")]
        of_series = _diagnostics_of(series, SERIES_KEYS, more, SERIES_DIAGNOSTICS_OF)
        shown, of = _hide(lines), _hide(series, SERIES_KEYS, SERIES_COUNTS)
        folder = journal.folder
        return cls(shown, told, of, of_series, failures, folder, study, lines, series, nulls)

    def export(self, folder, database_id="database", *, min_cell_count=5) -> Path:
        """Write the tables of the results models of CohortMethod 6 and SelfControlledCaseSeries 6.

        Those of comparisons are written where the study has some, and likewise of case series.

        Parameters
        ----------
        folder : path
            Where the files go, such as ``cm_result.csv`` and ``sccs_result.csv``.
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
    return _with_truth(lines, study, COUNTS)


def _with_truth(lines, study, counts):
    """Lines with their kinds and ratios, and the true ones of controls."""
    kind = {name: KINDS[key] for key in KINDS for name in study[key]}
    lines["kind"] = lines["outcome"].map(kind)
    truth = {n: d["true_ratio"] for n, d in study["positive_controls"].items()}
    truth |= dict.fromkeys(study["negative_controls"], 1.0)
    lines["true_ratio"] = lines["outcome"].map(truth).astype(float)
    lines = _with_columns(lines, counts)  # which are not there if nobody could be followed
    lines[counts] = lines[counts].fillna(0).astype(np.int64)
    is_told = np.isfinite(lines["coef"])
    for key, column in (("ratio", "coef"), ("ratio_lower", "lower"), ("ratio_upper", "upper")):
        with np.errstate(over="ignore"):
            lines[key] = np.exp(lines[column]).where(is_told)
    return lines


def _with_columns(lines, columns):
    return lines.reindex(columns=[*lines, *(name for name in columns if name not in lines)])


def _gather_series(study, journal, nulls):
    """Lines of case series by case series, exposure, window and outcome, judged and calibrated."""

    found, judged = [], []
    for number in range(len(outcomes_of(study)) if study["case_series"] else 0):
        arrays = journal.read(f"series-{number:04d}")
        found += [] if arrays is None else [unpack(arrays)["lines"]]
    if not found:
        return DataFrame(columns=[*SERIES_KEYS, "kind", "status", "unblind"])
    lines = _with_columns(concat(found, ignore_index=True), FITTED)
    lines = _with_truth(lines, study, SERIES_COUNTS)
    for group, own in lines.groupby(SERIES_KEYS[:3], sort=False):
        own = judge(own.copy(), study["diagnostics"], SERIES_DIAGNOSTICS_OF)
        own, nulls[group] = calibrate_lines(own, study["diagnostics"], SERIES_DIAGNOSTICS_OF)
        judged.append(own)
    return concat(judged, ignore_index=True)


def _diagnostics_of(lines, keys, more, of=DIAGNOSTICS_OF):
    """Values of diagnostics and what they say."""
    columns = [*keys, *dict.fromkeys(value for value, *_ in of.values()), *more]
    columns += [f"{name}_diagnostic" for name in of]
    return lines.reindex(columns=[*columns, "unblind_for_evidence_synthesis", "unblind"])


def _hide(lines, keys=KEYS, counts=COUNTS):
    """Lines for the eyes of a person: no effects of interest where a diagnostic fails."""
    calibrated = [f"calibrated_{key}" for key in CALIBRATED]
    columns = [*keys, "kind", "true_ratio", *counts, *EFFECT, *calibrated, "status", "message"]
    shown = lines.reindex(columns=[*columns, "unblind", "reason"])
    is_hidden = (shown["kind"] == "interest") & ~shown["unblind"].astype(bool)
    shown.loc[is_hidden, [*EFFECT, *calibrated]] = np.nan
    shown.loc[is_hidden, ["status", "message"]] = "hidden", ""
    has_failed = (shown["status"] == "failed") & ~is_hidden
    told = [f"no estimate: {message}" for message in shown.loc[has_failed, "message"]]
    shown.loc[has_failed, "reason"] = told
    return shown
