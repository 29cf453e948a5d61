"""Tables of case series, by the results model of SelfControlledCaseSeries 6."""

from __future__ import annotations

import numpy as np
from pandas import DataFrame, concat

from .document import EVENTS, outcomes_of
from .effects import list_analyses, number_of, tell_effects
from .series import COUNTS
from .windows import END_OF_OBSERVATION, LAST_DAYS, sort_windows

__all__ = ["SeriesTables"]

FLAGS = ("variable_of_interest", "pre_exposure", "end_of_observation_period")
KEYS = ["analysis_id", "exposures_outcome_set_id", "covariate_id"]
HIDDEN = ["rr", "ci_95_lb", "ci_95_ub"]
OLD = dict.fromkeys(["time_trend_diagnostic", "pre_exposure_diagnostic"], "NOT EVALUATED")


class SeriesTables:
    """Tables of a result by the names of the specification."""

    def __init__(self, result, database_id, fewest):
        self._result, self._study, self._database = result, result._study, database_id

    def of_study(self):
        """Tables that have a few lines."""
        covariates, sets = [], []
        for number, series in enumerate(self._study["case_series"].values(), 1):
            kinds = [*sort_windows(series), [END_OF_OBSERVATION]]
            ids = {window: k for k, window in enumerate(series["windows"], 1)}
            if series.get("end_of_observation"):
                ids[END_OF_OBSERVATION] = LAST_DAYS
            for window, id in ids.items():
                flags = {flag: int(window in of) for flag, of in zip(FLAGS, kinds, strict=True)}
                told = {"covariate_analysis_id": id, "covariate_analysis_name": window}
                covariates.append({"analysis_id": number} | told | flags)
        for era in self._study["exposures"].values():
            for kind in EVENTS:
                for outcome in self._study[kind].values():
                    id = number_of(f"{outcome['id']} NA {era['id']}")
                    true = {"negative_controls": 1.0}.get(kind, outcome.get("true_ratio"))
                    sets.append((id, outcome["id"], era["id"], true))
        columns = ["exposures_outcome_set_id", "outcome_id", "era_id", "true_effect_size"]
        tables = {"sccs_analysis": list_analyses(self._study["case_series"])}
        tables["sccs_covariate_analysis"] = DataFrame(covariates)
        for name in ("exposures_outcome_set", "exposure"):
            tables[f"sccs_{name}"] = DataFrame(sets, columns=columns)
        return tables | self._of_lines()

    def _of_lines(self):
        """Estimates, hidden ones left out, and diagnostics of all lines, with their eras."""
        lines, shown = self._result._series_lines, self._result.case_series
        if not len(lines):
            return {}
        keys = lines[KEYS].assign(database_id=self._database)
        found = keys.join(tell_effects(shown, lines["llr"])).join(shown[COUNTS])
        told = lines.assign(mdrr=lines["mdrr"].where(np.isfinite), database_id=self._database)
        flags = ["unblind", "unblind_for_evidence_synthesis"]
        told[flags] = told[flags].astype(int)
        eras = [
            keys.assign(era_type=kind, era_name=lines[of], era_id=lines[f"{of}_id"])
            for kind, of in (("rx", "exposure"), ("hoi", "outcome"))
        ]
        eras = concat(eras).drop(columns="covariate_id").drop_duplicates()
        found = {"sccs_result": found, "sccs_diagnostics_summary": told.assign(**OLD)}
        return found | {"sccs_era": eras}

    def of_parts(self):
        """Tables of each outcome, read when it is their turn; what is hidden is left out."""
        numbers = {name: number for number, name in enumerate(outcomes_of(self._study))}
        for outcome, lines in self._result._series_lines.groupby("outcome", sort=False):
            parts = self._result.part(f"series-{numbers[outcome]:04d}")
            if "covariate" not in parts:  # nothing could be fitted
                continue
            is_interest = lines["kind"] == "interest"
            may_combine = ~is_interest | lines["unblind_for_evidence_synthesis"].astype(bool)
            lines = lines.assign(is_hidden=is_interest & ~lines["unblind"].astype(bool))
            table = parts["covariate"].merge(lines[[*KEYS, "is_hidden"]], how="left")
            is_hidden = table["is_hidden"].eq(True)
            if lines["is_hidden"].any():  # of an exposure that other sets have as a covariate
                is_hidden |= _is_of_others(table)
            table.loc[is_hidden, HIDDEN] = np.nan
            parts["covariate_result"], keys = table, [*KEYS, "window"]
            parts["likelihood_profile"] = parts["likelihood_profile"].merge(
                lines[may_combine][keys]
            )
            eras = lines.groupby(KEYS[:2])[["exposure_id", "is_hidden"]].max()
            eras = eras.reset_index(names=KEYS[:2]).rename(columns={"exposure_id": "era_id"})
            parts["time_to_event"] = parts["time_to_event"].merge(eras[~eras["is_hidden"]])
            parts["attrition"] = _expand_attrition(parts["attrition"], lines)
            for name in parts.keys() - {"lines", "facts"}:
                yield f"sccs_{name}", parts[name].assign(database_id=self._database)


def _is_of_others(table):
    """Covariates that are windows of other exposures than that of their set."""
    number = table["covariate_analysis_id"]
    is_window = number.notna() & (number != LAST_DAYS)
    return is_window & (table["era_id"] != table["exposure_id"])


def _expand_attrition(steps, lines):
    """Steps of each window, and a last one of those who have it."""
    columns = ["outcome_subjects", "outcome_observation_periods", "outcome_events", "observed_days"]
    own = ["covariate_subjects", "own_periods", "own_events", "own_days"]
    lines = lines[lines["own_days"].notna()]
    last = lines[[*KEYS, *own]].rename(columns=dict(zip(own, columns, strict=True)))
    last = last.assign(description="having the covariate of interest")
    table = concat([lines[KEYS].merge(steps), last], ignore_index=True)
    return table.assign(sequence_number=table.groupby(KEYS).cumcount() + 1)
