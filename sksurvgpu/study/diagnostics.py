"""Whether an analysis may be believed: diagnostics with pass or fail, and what may be looked at.

Equipoise, balance, generalizability and the minimal detectable ratio are judged without looking at
an effect; then effects on controls, which are known, tell the systematic error. Rules and defaults
are those of CohortMethod 6, whose thresholds belong to the document.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from .._warnings import warn
from ..cohort import minimal_detectable_effect
from ..inference.calibration import calibrate
from .differences import difference_p_values

__all__ = ["DIAGNOSTICS_OF", "SERIES_DIAGNOSTICS_OF", "calibrate_lines", "judge_differences"]
__all__ += ["judge", "judge_lines"]

PASS, FAIL, NOT = "PASS", "FAIL", "NOT EVALUATED"
FEWEST = 5  # controls of a calibration, as there
# Diagnostic -> its value, its threshold in the document, what is said of one that fails.
DIAGNOSTICS_OF = {
    "equipoise": ("equipoise", "min_equipoise", "equipoise is {:.2f}, below {:g}"),
    "shared_balance": ("shared_max_sdm", "max_difference", "a difference of arms is {:.2f}"),
    "balance": ("max_sdm", "max_difference", "a difference of persons at risk is {:.2f}"),
    "generalizability": (
        "generalizability_max_sdm",
        "max_generalizability",
        "those who are left differ by {:.2f} from all, {:g} or more",
    ),
    "mdrr": ("mdrr", "max_detectable", "the smallest detectable ratio is {:.3g}, not below {:g}"),
    "ease": ("ease", "max_systematic_error", "the systematic error is {:.2f}, not below {:g}"),
}
# Of case series, by SelfControlledCaseSeries 6; ratios are those nearest to 1 of intervals.
DIFFERS = "differs by a ratio of {:.2f} or more, not below {:g}"
SERIES_DIAGNOSTICS_OF = {
    "time_stability": ("time_stability_p", "min_stability_p", "months differ (p = {:.2g})"),
    "event_exposure": (
        "before_exposure",
        "max_before_exposure",
        f"the rate before an exposure {DIFFERS}",
    ),
    "event_observation": (
        "end_of_observation",
        "max_end_of_observation",
        f"the rate at the end {DIFFERS}",
    ),
    "rare_outcome": ("first_outcomes", "max_prevalence", "{:.2f} have the outcome, not below {:g}"),
    **{name: DIAGNOSTICS_OF[name] for name in ("mdrr", "ease")},
}
OF_ESTIMAND = {"att": "target_std_diff", "atc": "comparator_std_diff"}
CALIBRATED = ("coef", "standard_error", "lower", "upper", "p_value")


def judge_differences(table, thresholds, prefix="") -> dict:
    """Largest difference after, and the smallest p-value by Bonferroni."""
    difference, variance = table["std_diff_after"], table["std_diff_var_after"]
    p = difference_p_values(difference, variance, thresholds["max_difference"])
    n_tests = int(np.isfinite(variance).sum())
    is_tested = n_tests > 0 and np.isfinite(p).any()
    smallest = min(1.0, n_tests * float(np.nanmin(p))) if is_tested else np.nan
    largest = float(difference.abs().max())
    return {f"{prefix}max_sdm": largest, f"{prefix}sdm_family_wise_min_p": smallest}


def judge_lines(lines, parts, study):
    """Add the diagnostics that know of no effect to the lines of an analysis.

    Parameters
    ----------
    lines : pandas.DataFrame
        A line for each outcome.
    parts : dict of {str: DataFrame}
        Tables of the analysis.
    study : dict
        The document.

    Returns
    -------
    lines : pandas.DataFrame
        With values, and a column ``..._diagnostic`` for each.
    """
    thresholds, shared = study["diagnostics"], parts["shared_balance"]
    [facts] = parts["facts"].to_dict("records")
    lines = lines.assign(**judge_differences(shared, thresholds, "shared_"))
    lines["max_sdm"] = lines["sdm_family_wise_min_p"] = np.nan
    if "balance" in parts:
        for number, table in parts["balance"].groupby("outcome"):
            for key, value in judge_differences(table, thresholds).items():
                lines.loc[lines.index[int(number)], key] = value
    moved = shared[OF_ESTIMAND.get(facts["estimand"], "target_comparator_std_diff")]
    lines["generalizability_max_sdm"] = moved.abs().max()
    lines["equipoise"], lines["target_estimator"] = facts["equipoise"], facts["estimand"]
    lines["mdrr"] = [_detectable(line, parts["model"]) for _, line in lines.iterrows()]
    return judge(lines, thresholds, DIAGNOSTICS_OF)


def judge(lines, thresholds, of):
    """Add what diagnostics say of their values, but for the last one, and who may calibrate."""
    alpha = thresholds["difference_alpha"]
    for name, (column, key, _) in of.items():
        threshold, better = thresholds[key], np.greater_equal if key.startswith("min") else np.less
        if name.endswith("balance") and alpha is not None:
            column = column.replace("max_sdm", "sdm_family_wise_min_p")
            threshold, better = threshold and alpha, np.greater
        if name != "ease":
            lines[f"{name}_diagnostic"] = _judge(lines[column], threshold, better)
    before = [f"{name}_diagnostic" for name in of if name not in ("mdrr", "ease")]
    lines["may_calibrate"] = (lines[before] != FAIL).all(axis=1)
    return lines


def _judge(values, threshold, better):
    """PASS or FAIL; where nothing is known of it, or no threshold given, not evaluated."""
    is_known = values.notna() & (threshold is not None)
    passes = better(values, np.nan if threshold is None else threshold)
    return np.where(is_known, np.where(passes, PASS, FAIL), NOT)


def _detectable(line, model):
    """Smallest ratio above 1 that would be found, of hazards or of odds."""
    n_target, n_other = line["target_subjects"], line["comparator_subjects"]
    n_events = line["target_outcomes"] + line["comparator_outcomes"]
    if not n_target + n_other > 0:
        return np.nan
    if model == "logistic":
        share = n_events / (n_target + n_other)
        with np.errstate(divide="ignore"):
            error = 1.0 / np.sqrt(np.float64(n_events) * (1.0 - share))
        return float(np.exp((ndtri(0.8) + ndtri(0.975)) * error))
    if not (n_target and n_other):
        return np.inf
    effect = minimal_detectable_effect(int(n_events), float(n_target / (n_target + n_other)))
    return float(effect["hazard_ratio"])


def calibrate_lines(lines, thresholds, of=DIAGNOSTICS_OF):
    """Add calibrated effects and the last diagnostic, and say what may be looked at, or why not."""
    lines[[*(f"calibrated_{key}" for key in CALIBRATED), "calibrated_one_sided_p", "ease"]] = np.nan
    is_known = lines["coef"].notna() & lines["standard_error"].notna() & lines["may_calibrate"]
    is_known &= lines["coef"].abs() < np.log(100.0)
    controls = lines[is_known & (lines["kind"] == "negative")]
    null = None
    if len(controls) >= FEWEST:
        positive = lines[is_known & (lines["kind"] == "positive")]
        positive = positive.assign(true_coef=np.log(positive["true_ratio"].astype(float)))
        positive = positive if len(positive) >= FEWEST else None
        estimates = lines[["coef", "standard_error"]].astype(float)
        null, one_sided = _calibrate(estimates, controls, positive)
        for key in CALIBRATED:
            lines[f"calibrated_{key}"] = null.table[f"calibrated_{key}"]
        lines["calibrated_one_sided_p"] = one_sided.table["calibrated_p_value"]
        lines["ease"] = null.expected_absolute_systematic_error
    lines["ease_diagnostic"] = _judge(lines["ease"], thresholds["max_systematic_error"], np.less)
    may_combine = lines.pop("may_calibrate") & (lines["ease_diagnostic"] != FAIL)
    lines["unblind_for_evidence_synthesis"] = may_combine
    lines["unblind"] = may_combine & (lines["mdrr_diagnostic"] != FAIL)
    lines["reason"] = [_tell(line, thresholds, of) for _, line in lines.iterrows()]
    return lines, null


def _calibrate(estimates, controls, positive):
    """Effects with tests on both sides and on one; without positive controls that tell nothing."""
    try:
        return [
            calibrate(estimates, controls, positive_controls=positive, alternative=alternative)
            for alternative in ("two-sided", "greater")
        ]
    except ValueError as error:
        if positive is None:
            raise
        warn(f"effects are calibrated by negative controls alone: {error}")
        return _calibrate(estimates, controls, None)


def _tell(line, thresholds, of):
    """Why an estimate stays hidden; nothing where it does not."""
    found = []
    for name, (column, key, text) in of.items():
        if line[f"{name}_diagnostic"] == FAIL:
            found.append(text.format(line[column], thresholds[key]))
    return "; ".join(found)
