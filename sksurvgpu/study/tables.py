"""Tables of the results model of CohortMethod 6, and whether files are such tables.

Names of tables and columns, types, and which are required or part of a key, are those of the CSV
specification in version 6.0.2 of the R package, in ``cohort_method.csv``.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
from pandas import DataFrame, concat, read_csv, to_datetime, to_numeric
from pandas.util import hash_pandas_object
from scipy.special import ndtr
from sklearn.utils import murmurhash3_32

from ..data import options
from ..omop.covariates import KINDS
from .differences import difference_p_values
from .document import EVENTS

__all__ = ["check_tables", "write_tables"]

SPECIFICATION = Path(__file__).with_name("cohort_method.csv")
COUNTS = ("target_subjects", "comparator_subjects", "target_outcomes", "comparator_outcomes")
DAYS = ("target_days", "comparator_days")
RATIOS = {"rr": "ratio", "ci_95_lb": "ratio_lower", "ci_95_ub": "ratio_upper", "p": "p_value"}
RATIOS |= {
    "log_rr": "coef",
    "se_log_rr": "standard_error",
    "llr": "llr",
    "one_sided_p": "one_sided",
}
RATIOS |= {
    f"calibrated_{name}": f"calibrated_{column}"
    for name, column in {
        "rr": "ratio",
        "ci_95_lb": "ratio_lower",
        "ci_95_ub": "ratio_upper",
        "p": "p_value",
        "one_sided_p": "one_sided_p",
        "log_rr": "coef",
        "se_log_rr": "standard_error",
    }.items()
}
INTEGER = re.compile(r"-?\d{1,19}")
LINES_AT_ONCE = 500_000
DIGITS = 3  # of means and differences in files, as there


def read_specification() -> dict:
    """Columns of each table, in order: type, and whether required and part of the key."""
    tables: dict = {}
    with open(SPECIFICATION, newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            flags = {key: line[key] == "1" for key in ("required", "key")}
            tables.setdefault(line["table"], {})[line["column"]] = {"type": line["type"], **flags}
    return tables


def check_tables(folder) -> dict:
    """Check files of results against the results model of CohortMethod 6.

    Every table must be there with all of its columns and no others, values of their types, none
    missing where one is required, and no key twice.

    Parameters
    ----------
    folder : path
        Where ``cm_result.csv`` and the others are.

    Returns
    -------
    lines : dict of {str: int}
        Number of lines of each table.

    Examples
    --------
    >>> import tempfile
    >>> from sksurvgpu.study import check_tables
    >>> check_tables(tempfile.mkdtemp())
    Traceback (most recent call last):
    ValueError: the folder has no cm_attrition.csv.
    """
    folder, lines = Path(folder), {}
    for name, columns in read_specification().items():
        path = folder / f"{name}.csv"
        if not path.is_file():
            raise ValueError(f"the folder has no {path.name}.")
        keys, n_before = [], 0
        key = [column for column, rule in columns.items() if rule["key"]]
        options_ = {"dtype": str, "keep_default_na": False, "chunksize": LINES_AT_ONCE}
        with read_csv(path, **options_) as chunks:  # those of balance have millions of lines
            for table in chunks:
                differing = {*table} ^ {*columns}
                if differing:
                    raise ValueError(
                        f"{path.name} and its specification differ in {min(differing)!r}."
                    )
                for column, rule in columns.items():
                    _check_column(path.name, column, table[column], rule, n_before)
                keys.append(hash_pandas_object(table[key], index=False).to_numpy())
                n_before += len(table)
        of_all = np.concatenate(keys) if keys else np.empty(0, np.uint64)
        if len(np.unique(of_all)) < n_before:
            _find_twice(path, key)
        lines[name] = n_before
    return lines


def _find_twice(path, key):
    """Name a key that is there twice, if it is one, and not two with one hash."""
    table = read_csv(path, dtype=str, keep_default_na=False, usecols=key)[key]
    twice = table.duplicated()
    if twice.any():
        raise ValueError(f"{path.name} has a key twice: {table[twice].iloc[0].to_dict()}.")


def _check_column(file, column, values, rule, n_before):
    is_empty = values == ""
    if rule["required"] and is_empty.any():
        line = n_before + int(is_empty.argmax()) + 2
        raise ValueError(f"{file} has no {column!r} in line {line:,}.")
    values, kind = values[~is_empty], rule["type"]
    if kind in ("int", "bigint"):
        bits = 31 if kind == "int" else 63
        is_wrong = ~values.str.fullmatch(INTEGER)
        is_wrong |= to_numeric(values.where(~is_wrong, "0")).abs() >= 2**bits
    elif kind == "float":
        is_wrong = ~np.isfinite(to_numeric(values, errors="coerce"))
    elif kind == "date":
        is_wrong = to_datetime(values, format="%Y-%m-%d", errors="coerce").isna()
    else:
        is_wrong = values.str.len() > (20 if kind.endswith("(20)") else np.inf)
    if is_wrong.any():
        wrong = values[is_wrong].iloc[0]
        raise ValueError(f"{file} has {wrong!r} in {column!r}, which is of type {kind}.")


# -- writing --------------------------------------------------------------------------------------
def write_tables(result, folder, database_id, fewest) -> Path:
    """Write all tables of a result, and check them."""
    options.whole(fewest, "min_cell_count", 0)
    folder = Path(folder).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    specification = read_specification()
    writer = _Writer(result, database_id, fewest)
    wholes = writer.of_study()
    parts = writer.of_parts()
    for name, columns in specification.items():  # all begin anew, with their columns
        path = folder / f"{name}.csv"
        path.write_text(",".join(columns) + "\n", encoding="utf-8")
        if name in wholes:
            _append(path, wholes[name], columns)
    for name, table in parts:
        _append(folder / f"{name}.csv", table, specification[name])
    check_tables(folder)
    return folder


def _append(path, table, columns):
    table = table.reindex(columns=[*columns])
    for column, rule in columns.items():
        if rule["type"] in ("int", "bigint"):
            table[column] = table[column].astype("Int64")
        elif rule["type"] == "float":
            table[column] = table[column].astype(float).where(np.isfinite)
    options_ = {"header": False, "index": False, "mode": "a", "date_format": "%Y-%m-%d"}
    table.to_csv(path, encoding="utf-8", lineterminator="\n", **options_)


class _Writer:
    """Tables of a result by the names of the specification."""

    def __init__(self, result, database_id, fewest):
        self._result, self._study, self._fewest = result, result._study, fewest
        self._database = database_id
        self._outcomes = {n: d["id"] for kind in EVENTS for n, d in self._study[kind].items()}

    def _ids_of(self, pair):
        """Numbers of a target and its comparator, and the one of both that CohortMethod gives."""
        pair = zip(("targets", "comparators"), pair, strict=True)
        target, comparator = (self._study[kind][name]["id"] for kind, name in pair)
        number = murmurhash3_32(f"{target} {comparator} NA", seed=0, positive=True) - 2**31
        return target, comparator, number

    def of_study(self):
        """Tables that have a few lines."""
        study, pairs = self._study, [*map(self._ids_of, self._study["comparisons"])]
        columns = ["target_id", "comparator_id", "target_comparator_id"]
        tables = {"cm_target_comparator": DataFrame(pairs, columns=columns)}
        tables["cm_analysis"] = DataFrame(
            {
                "analysis_id": np.arange(len(study["analyses"])) + 1,
                "description": [*study["analyses"]],
                "definition": [json.dumps(one) for one in study["analyses"].values()],
            }
        )
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
        z = shown["coef"] / shown["standard_error"]
        shown = shown.assign(llr=lines["llr"].where(shown["coef"].notna()), one_sided=ndtr(-z))
        with np.errstate(over="ignore"):
            for end, column in (("", "coef"), ("_lower", "lower"), ("_upper", "upper")):
                shown[f"calibrated_ratio{end}"] = np.exp(shown[f"calibrated_{column}"])
        found = keys.assign(**{name: shown[column] for name, column in RATIOS.items()})
        found[[*DAYS]] = shown[[*DAYS]]
        for name in COUNTS:
            found[name] = self._censor(shown[name])
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

    def _censor(self, values, fewest=None):
        """Counts below the smallest one that may be told, but for 0, as its negative."""
        fewest = self._fewest if fewest is None else fewest
        return values.mask((values < fewest) & (values != 0), -fewest)

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
                table.assign(exposure_id=number, subjects=self._censor(table[arm]))
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
        if "cm_kaplan_meier_dist" in found:
            table = found["cm_kaplan_meier_dist"]
            at_risk = {
                f"{arm}_at_risk": table[f"{arm}_at_risk"] for arm in ("target", "comparator")
            }
            censored = {name: self._censor(values) for name, values in at_risk.items()}
            found["cm_kaplan_meier_dist"] = table.assign(**censored)
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
                table[f"{column}_{when}"] = self._censor(values, fewest).round(DIGITS)
        rounded = table.filter(regex="std_diff(?!_var)").round(DIGITS)
        table[rounded.columns] = rounded
        # rows that say nothing but zeros, as there
        columns = [
            name for name in table if "mean" in name or ("std_diff" in name and "var" not in name)
        ]
        return table[(table[columns].abs() > 0).any(axis=1)]
