"""Tables of comparisons, by the results model of CohortMethod 6."""

from __future__ import annotations

import numpy as np
from pandas import DataFrame, concat

from ..omop.covariates import KINDS
from .differences import difference_p_values
from .document import EVENTS, outcomes_of
from .effects import censor, list_analyses, number_of, tell_effects

__all__ = ["ComparisonTables"]

COUNTS = [f"{arm}_{what}" for arm in ("target", "comparator") for what in ("subjects", "outcomes")]
COUNTS += ["target_days", "comparator_days"]
DIGITS = 3  # of means and differences in files, as there


class ComparisonTables:
    """Tables of a result by the names of the specification."""

    def __init__(self, result, database_id, fewest):
        self._result, self._study, self._fewest = result, result._study, fewest
        self._database = database_id
        self._outcomes = {name: d["id"] for name, d in outcomes_of(self._study).items()}

    def _ids_of(self, pair):
        """Numbers of a target and its comparator, and the one of both that CohortMethod gives."""
        pair = zip(("targets", "comparators"), pair, strict=True)
        target, comparator = (self._study[kind][name]["id"] for kind, name in pair)
        return target, comparator, number_of(f"{target} {comparator} NA")

    def of_study(self):
        """Tables that have a few lines."""
        study, pairs = self._study, [*map(self._ids_of, self._study["comparisons"])]
        columns = ["target_id", "comparator_id", "target_comparator_id"]
        tables = {"cm_target_comparator": DataFrame(pairs, columns=columns)}
        tables["cm_analysis"] = list_analyses(study["analyses"])
        outcomes = []
        for kind in EVENTS:
            for definition in study[kind].values():
                truth = {"negative_controls": 1.0}.get(kind, definition.get("true_ratio"))
                line = {"outcome_id": definition["id"], "true_effect_size": truth}
                outcomes.append(line | {"outcome_of_interest": int(kind == "outcomes")})
        lines = [
            line | {"target_comparator_id": number} for *_, number in pairs for line in outcomes
        ]
        tables["cm_target_comparator_outcome"] = DataFrame(lines)
        tables |= self._of_covariates()
        if len(self._result._lines):
            tables["cm_result"], tables["cm_diagnostics_summary"] = self._of_lines()
        return tables

    def _of_covariates(self):
        """Covariates of any comparison; a kind of them is the last digits of its number."""
        parts = (
            self._result.part(f"{k:04d}-scores") for k in range(len(self._study["comparisons"]))
        )
        found = [part["covariates"] for part in parts if part is not None]
        if not found:
            return {}
        table = concat(found).drop_duplicates("id").rename(columns={"name": "covariate_name"})
        table = table.assign(covariate_id=table["id"], covariate_analysis_id=table["id"] % KINDS)
        table = table.merge(
            DataFrame({"analysis_id": range(1, len(self._study["analyses"]) + 1)}), "cross"
        )
        table = table.assign(database_id=self._database)
        kinds = table.drop_duplicates(["covariate_analysis_id", "analysis_id"])
        name = kinds["window"].where(kinds["window"] != "", kinds["covariate_name"])
        kinds = kinds.assign(covariate_analysis_name=name)
        return {"cm_covariate": table, "cm_covariate_analysis": kinds}

    def _of_lines(self):
        """Estimates, hidden ones left out, and diagnostics of all lines."""
        lines, shown = self._result._lines, self._result.table
        keys = self._keys(lines)
        found = keys.join(tell_effects(shown, lines["llr"]))
        found[[*COUNTS]] = shown[[*COUNTS]]
        found["target_estimator"] = lines["target_estimator"].to_numpy()
        told = lines.assign(mdrr=lines["mdrr"].where(np.isfinite))
        told = told.assign(attrition_diagnostic="NOT EVALUATED")
        flags = ["unblind", "unblind_for_evidence_synthesis"]
        told[flags] = told[flags].astype(int)
        return found, keys.join(told.drop(columns=["target", "comparator", "outcome"]))

    def _keys(self, lines):
        numbers = {tuple(pair): self._ids_of(pair)[-1] for pair in self._study["comparisons"]}
        pairs = zip(lines["target"], lines["comparator"], strict=True)
        analyses = [*self._study["analyses"]]
        keys = lines[[]].assign(
            target_comparator_id=[numbers[pair] for pair in pairs],
            analysis_id=lines["analysis"].map(lambda name: analyses.index(name) + 1),
            outcome_id=lines["outcome"].map(self._outcomes),
        )
        return keys.assign(database_id=self._database)

    def of_parts(self):
        """Tables of each comparison and analysis, read when it is their turn."""
        for k, pair in enumerate(self._study["comparisons"]):
            scores, exposures = self._result.part(f"{k:04d}-scores"), self._ids_of(pair)
            for a, name in enumerate(self._study["analyses"]):
                parts = self._result.part(f"{k:04d}-{a:03d}")
                if parts is None:
                    continue
                key = {"target_comparator_id": exposures[-1], "analysis_id": a + 1}
                key |= {"database_id": self._database}
                lines = self._result._lines
                is_here = lines["analysis"] == name
                for column, of in zip(("target", "comparator"), pair, strict=True):
                    is_here &= lines[column] == of
                lines = lines[is_here].reset_index(drop=True)
                found = {**self._of_scores(scores), **self._of_outcomes(parts, lines, exposures)}
                found |= self._of_balance(parts, scores["covariates"]["id"], lines)
                for table, content in found.items():
                    yield table, content.assign(**key)

    def _of_scores(self, scores):
        if "model" not in scores:
            return {}
        model, ids = scores["model"], scores["covariates"]["id"].to_numpy()
        covariate = model["covariate"].to_numpy().astype(int)
        model = model.assign(covariate_id=np.where(covariate < 0, 0, ids[covariate]))
        return {"cm_propensity_model": model, "cm_preference_score_dist": scores["density"]}

    def _of_outcomes(self, parts, lines, exposures):
        """Tables of outcomes; points of an effect only where it may be looked at."""
        is_shown = (lines["kind"] != "interest") | lines["unblind"]
        may_combine = is_shown | lines["unblind_for_evidence_synthesis"]
        found = {}
        if "attrition" in parts:
            table = parts["attrition"].assign(outcome_id=self._numbers(parts["attrition"], lines))
            arms = [
                table.assign(exposure_id=number, subjects=table[arm])
                for arm, number in zip(("target", "comparator"), exposures, strict=False)
            ]
            found["cm_attrition"] = concat(arms)
        for name, key, chosen in (
            ("cm_follow_up_dist", "follow_up", None),
            ("cm_kaplan_meier_dist", "survival", is_shown),
            ("cm_likelihood_profile", "profiles", may_combine),
        ):
            if key in parts and len(parts[key]):
                table = parts[key].assign(outcome_id=self._numbers(parts[key], lines))
                if chosen is not None:
                    table = table[chosen.to_numpy()[table["outcome"].to_numpy().astype(int)]]
                found[name] = table
        return found

    def _numbers(self, table, lines):
        ids = lines["outcome"].map(self._outcomes).to_numpy()
        return ids[table["outcome"].to_numpy().astype(int)]

    def _of_balance(self, parts, ids, lines):
        shared = parts["shared_balance"]
        found = {"cm_shared_covariate_balance": self._tidy(shared.assign(covariate_id=ids), lines)}
        if "balance" in parts:
            before = shared[[name for name in shared if name.endswith("_before")]]
            tables = []
            for number, table in parts["balance"].groupby("outcome"):
                table = table.reset_index(drop=True).assign(covariate_id=ids).join(before)
                line = lines.iloc[[int(number)]]
                tables.append(
                    self._tidy(table, line).assign(
                        outcome_id=self._outcomes[line["outcome"].iloc[0]]
                    )
                )
            found["cm_covariate_balance"] = concat(tables)
        return found

    def _tidy(self, table, lines):
        """Rounded differences, whether each is in balance; no mean of fewer than may be told."""
        thresholds, most = self._study["diagnostics"], self._study["diagnostics"]["max_difference"]
        sizes = {arm: lines[f"{arm}_subjects"].max() for arm in ("target", "comparator")}
        sizes["all"] = sum(sizes.values())
        for when in ("before", "after"):
            difference = table[f"std_diff_{when}"]
            is_within = difference.abs() < (np.inf if most is None else most)
            if thresholds["difference_alpha"] is not None:
                variance = table[f"std_diff_var_{when}"]
                p = difference_p_values(difference, variance, most)
                is_within = p > thresholds["difference_alpha"] / np.isfinite(variance).sum()
            table = table.assign(
                **{f"balanced_{when}": (is_within | difference.isna()).astype(int)}
            )
            for column, of in (("mean", "all"), *((f"{a}_mean", a) for a in sizes if a != "all")):
                values = table[f"{column}_{when}"]
                fewest = self._fewest / max(sizes[of], 1)
                table[f"{column}_{when}"] = censor(values, fewest).round(DIGITS)
        rounded = table.filter(regex="std_diff(?!_var)").round(DIGITS)
        table[rounded.columns] = rounded
        # rows that say nothing but zeros, as there
        columns = [
            name for name in table if "mean" in name or ("std_diff" in name and "var" not in name)
        ]
        return table[(table[columns].abs() > 0).any(axis=1)]
