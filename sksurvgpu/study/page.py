"""One page about a study: what was asked, what was found, and whether it may be believed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from pandas import DataFrame

from .._report import Figure, write_report
from ..cohort import BalanceResult, Cohort
from ..data.intervals import format_ratios
from ..plotting.balance import BalanceDisplay
from ..plotting.coefficients import CoefficientDisplay
from ..plotting.empirical_null import EmpiricalNullDisplay
from ..plotting.propensity import PropensityDisplay
from .diagnostics import DIAGNOSTICS_OF

__all__ = ["write_page"]

MOST_ROWS = 25  # of a forest plot
EFFECTS = {"cox": "hazard ratio", "fine_gray": "hazard ratio", "logistic": "odds ratio"}
EFFECTS["poisson"] = "rate ratio"
KEYS = ["target", "comparator", "analysis"]


def write_page(result, path) -> Path:
    """Write the page of a result; its figures are those of `sksurvgpu.plotting`."""
    study, table = result._study, result.table
    of_interest = table[table["kind"] == "interest"]
    facts = {
        "Comparisons": "; ".join(f"{t} against {c}" for t, c in study["comparisons"]),
        "Outcomes": ", ".join(study["outcomes"]),
        "Controls": f"{len(study['negative_controls']):,} negative, "
        f"{len(study['positive_controls']):,} positive",
        "Unblinded": f"{int(of_interest['unblind'].sum()):,} of {len(of_interest):,} estimates",
    }
    sections = [
        (
            "Estimates",
            "Ratios with 95% intervals, as they are and after calibration by negative controls. "
            "They are hidden where a diagnostic fails, and the reason is told.",
            _tell_estimates(of_interest),
        ),
        *_of_groups(result, of_interest),
        ("Attrition", "Persons of both arms after each step, before scores.", result.attrition()),
    ]
    if len(result.failures):
        told = "What could not be done, and will be tried again by the next run."
        sections.insert(0, ("Failures", told, result.failures))
    return write_report(path, study["name"], facts, sections)


def _tell_estimates(table):
    of = {"calibrated_coef": "ratio"}
    of |= {f"calibrated_{end}": f"ratio_{end}" for end in ("lower", "upper")}
    with np.errstate(over="ignore"):
        calibrated = np.exp(table[[*of]].astype(float)).rename(columns=of)
    told = {key: table[key] for key in (*KEYS, "outcome")}
    for arm in ("target", "comparator"):
        told[f"{arm} events / persons"] = [
            f"{events:,} / {persons:,}"
            for events, persons in zip(
                table[f"{arm}_outcomes"], table[f"{arm}_subjects"], strict=True
            )
        ]
    told |= {"ratio (CI)": format_ratios(table), "calibrated (CI)": format_ratios(calibrated)}
    return DataFrame(told | {"reason": table["reason"]}).set_index([*KEYS, "outcome"])


def _of_groups(result, of_interest):
    """Diagnostics and figures of each comparison and analysis."""
    study = result._study
    for k, pair in enumerate(study["comparisons"]):
        scores = result.part(f"{k:04d}-scores")
        if scores is not None and "persons" in scores:
            cohort = Cohort.of(scores["persons"])
            label = f"Distributions of preference scores of {pair[0]} and {pair[1]}"
            figure = Figure(lambda ax, c=cohort: PropensityDisplay.from_cohort(c, ax=ax), label)
            yield f"{pair[0]} against {pair[1]}: scores", "", figure
        for a, name in enumerate(study["analyses"]):
            parts = result.part(f"{k:04d}-{a:03d}")
            if parts is not None:
                group = (*pair, name)
                yield from _of_analysis(result, of_interest, (k, a), group, parts)


def _of_analysis(result, of_interest, numbers, group, parts):
    title = f"{group[0]} against {group[1]}, {group[2]}"
    thresholds = result._study["diagnostics"]
    lines = result.diagnostics
    is_here = (lines[KEYS] == list(group)).all(axis=1)
    lines = lines[is_here].set_index("outcome").loc[[*result._study["outcomes"]]]
    columns = [f"{name}_diagnostic" for name in DIAGNOSTICS_OF]
    values = [DIAGNOSTICS_OF[name][0] for name in DIAGNOSTICS_OF]
    shown = lines[[c for pair in zip(values, columns, strict=True) for c in pair]]
    notes = "".join(parts["facts"]["notes"])
    yield f"{title}: diagnostics", notes, shown
    own = of_interest[(of_interest[KEYS] == list(group)).all(axis=1)].set_index("outcome")
    own = own[np.isfinite(own["coef"])].head(MOST_ROWS)  # those that are not hidden
    balance = parts["shared_balance"]
    label = "Standardized differences of all covariates, after against before"
    display = BalanceDisplay(BalanceResult(balance.fillna(0.0), None, None))
    draw = partial(display.plot, kind="scatter", threshold=thresholds["max_difference"])
    yield f"{title}: balance", "", Figure(draw, label)
    if numbers in result._nulls:
        null = result._nulls[numbers]
        display = EmpiricalNullDisplay(null.controls, own, *null.null[["mean", "sd"]])
        label = "Estimates of negative controls and the empirical null"
        yield f"{title}: negative controls", "", Figure(display.plot, label)
    if len(own):
        model = result._study["analyses"][group[-1]]["model"]
        bounds = {end: np.log(own[f"ratio_{end}"]) for end in ("lower", "upper")}
        display = CoefficientDisplay(
            own[["coef"]].assign(**bounds), effect=EFFECTS[model], level=0.95
        )
        yield f"{title}: effects", "", Figure(display.plot, "Ratios with intervals")
