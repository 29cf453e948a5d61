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
from .diagnostics import DIAGNOSTICS_OF, SERIES_DIAGNOSTICS_OF

__all__ = ["write_page"]

MOST_ROWS = 25  # of a forest plot
EFFECTS = {"cox": "hazard ratio", "fine_gray": "hazard ratio", "logistic": "odds ratio"}
EFFECTS["poisson"] = "rate ratio"
KEYS = ["target", "comparator", "analysis"]
SERIES_KEYS = ["exposure", "window", "analysis"]
# Columns of counts, and what is counted.
COUNTS = {f"{arm} events / persons": (f"{arm}_outcomes", f"{arm}_subjects") for arm in KEYS[:2]}
SERIES_COUNTS = {
    "events / days in the window": ("covariate_outcomes", "covariate_days"),
    "of cases": ("outcome_events", "observed_days"),
}


def write_page(result, path) -> Path:
    """Write the page of a result; its figures are those of `sksurvgpu.plotting`."""
    study, table = result._study, result.table
    of_interest = table[table["kind"] == "interest"]
    series = result.case_series[result.case_series["kind"] == "interest"]
    n_shown = int(of_interest["unblind"].sum() + series["unblind"].sum())
    facts = {
        "Comparisons": "; ".join(f"{t} against {c}" for t, c in study["comparisons"]),
        "Case series": "; ".join(
            f"{n} of {', '.join(s['exposures'])}" for n, s in study["case_series"].items()
        ),
        "Outcomes": ", ".join(study["outcomes"]),
        "Controls": f"{len(study['negative_controls']):,} negative, "
        f"{len(study['positive_controls']):,} positive",
        "Unblinded": f"{n_shown:,} of {len(of_interest) + len(series):,} estimates",
    }
    facts = {name: text for name, text in facts.items() if text}
    text = (
        "Ratios with 95% intervals, as they are and after calibration by negative controls. "
        "They are hidden where a diagnostic fails, and the reason is told."
    )
    sections = []
    if study["comparisons"]:
        steps = "Persons of both arms after each step, before scores."
        sections = [
            ("Estimates", text, _tell_estimates(of_interest, KEYS, COUNTS)),
            *_of_groups(result, of_interest),
            ("Attrition", steps, result.attrition()),
        ]
    if study["case_series"]:
        told = _tell_estimates(series, SERIES_KEYS, SERIES_COUNTS)
        sections += [("Case series", text, told), *_of_series(result, series)]
    if len(result.failures):
        told = "What could not be done, and will be tried again by the next run."
        sections.insert(0, ("Failures", told, result.failures))
    return write_report(path, study["name"], facts, sections)


def _tell_estimates(table, keys, counts):
    of = {"calibrated_coef": "ratio"}
    of |= {f"calibrated_{end}": f"ratio_{end}" for end in ("lower", "upper")}
    with np.errstate(over="ignore"):
        calibrated = np.exp(table[[*of]].astype(float)).rename(columns=of)
    told = {key: table[key] for key in (*keys, "outcome")}
    for name, columns in counts.items():
        pairs = zip(*(table[column] for column in columns), strict=True)
        told[name] = [f"{events:,} / {number:,}" for events, number in pairs]
    told |= {"ratio (CI)": format_ratios(table), "calibrated (CI)": format_ratios(calibrated)}
    return DataFrame(told | {"reason": table["reason"]}).set_index([*keys, "outcome"])


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
    shown = _select(result.diagnostics, KEYS, group).loc[[*result._study["outcomes"]]]
    notes = "".join(parts["facts"]["notes"])
    yield f"{title}: diagnostics", notes, shown[_columns_of(DIAGNOSTICS_OF)]
    balance = parts["shared_balance"]
    label = "Standardized differences of all covariates, after against before"
    display = BalanceDisplay(BalanceResult(balance.fillna(0.0), None, None))
    draw = partial(display.plot, kind="scatter", threshold=thresholds["max_difference"])
    yield f"{title}: balance", "", Figure(draw, label)
    model = result._study["analyses"][group[-1]]["model"]
    own = _select(of_interest, KEYS, group)
    yield from _of_effects(title, own, result._nulls.get(numbers), EFFECTS[model])


def _of_series(result, of_interest):
    """Diagnostics and figures of each exposure and window of each case series."""
    for group in of_interest[SERIES_KEYS].drop_duplicates().itertuples(index=False, name=None):
        title = f"{group[0]}, {group[1]}, {group[2]}"
        own = _select(of_interest, SERIES_KEYS, group)
        shown = _select(result.case_series_diagnostics, SERIES_KEYS, group).loc[own.index]
        yield f"{title}: diagnostics", "", shown[_columns_of(SERIES_DIAGNOSTICS_OF)]
        yield from _of_effects(title, own, result._nulls.get(group), "rate ratio")


def _select(table, keys, group):
    return table[(table[keys] == list(group)).all(axis=1)].set_index("outcome")


def _columns_of(diagnostics):
    return [
        name for key, (value, *_) in diagnostics.items() for name in (value, f"{key}_diagnostic")
    ]


def _of_effects(title, own, null, effect):
    """Figures of controls and of effects."""
    own = own[np.isfinite(own["coef"].astype(float))].head(MOST_ROWS)  # those that are not hidden
    if null is not None:
        display = EmpiricalNullDisplay(null.controls.query("true_coef == 0"), own, *null.null)
        label = "Estimates of negative controls and the empirical null"
        yield f"{title}: negative controls", "", Figure(display.plot, label)
    if len(own):
        bounds = {end: np.log(own[f"ratio_{end}"]) for end in ("lower", "upper")}
        display = CoefficientDisplay(own[["coef"]].assign(**bounds), effect=effect, level=0.95)
        yield f"{title}: effects", "", Figure(display.plot, "Ratios with intervals")
