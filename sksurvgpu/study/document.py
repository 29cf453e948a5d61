"""The document of a study: which keys it has, what they mean where they are missing, and checks.

All is checked before a database is asked for anything. Arguments of other functions, such as those
of `cohort.match`, stand in the document by their own names; these functions refuse their values
themselves, in a rehearsal with persons who do not exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from inspect import signature
from pathlib import Path

import numpy as np
from pandas import DataFrame, NaT, to_datetime

from .._warnings import keep_warnings
from ..cohort import Cohort, match, stratify, time_at_risk, trim, weigh
from ..data import options
from ..data.by_column import similar
from .windows import OF_ROWS, OF_WINDOWS, sort_windows
from .windows import rehearse as rehearse_series

__all__ = ["ADJUSTMENTS", "MODELS", "adjust", "outcomes_of", "read_document", "rehearse", "way_of"]

ADJUSTMENTS = {"trim": trim, "match": match, "stratify": stratify, "weigh": weigh}
WAYS = ("match", "stratify", "weigh")  # of these at most one
MODELS = ("cox", "fine_gray", "logistic", "poisson")
EXPOSURES, EVENTS = (
    ("targets", "comparators"),
    ("outcomes", "negative_controls", "positive_controls"),
)
COLUMNS = {"index_date", "start", "end", "day", "event", "subject"}  # as databases name them
DOMAINS = ("condition", "drug", "procedure", "measurement", "observation", "visit", "cohort")
# Thresholds of CohortMethod, whose generalizability has none that anything would fail.
DIAGNOSTICS = {
    "min_equipoise": 0.2,
    "max_difference": 0.1,
    "difference_alpha": None,
    "max_detectable": 10.0,
    "max_systematic_error": 0.25,
    "max_generalizability": None,
    # Of case series, those of SelfControlledCaseSeries.
    "min_stability_p": 0.05,
    "max_before_exposure": 1.25,
    "max_end_of_observation": 2.0,
    "max_prevalence": 0.1,
}
PROPENSITY = {"cv": 10, "n_alphas": 20, "max_correlation": 0.5}
ANALYSIS = {"time_at_risk": {}, "adjustment": {}, "model": "cox", "stratified": None}
SERIES = {"exposures": None, "windows": {}, "control": None, "gap": 30}
# Arguments of the methods of `omop.Database` that a document may give.
OF_COHORTS = ("first_only", "washout", "min_days", "period", "gap", "descendants")
OF_EVENTS = ("descendants",)
OF_POPULATIONS = ("common_period", "duplicates")
OF_COVARIATES = ("windows", "exclude", "domains", "score", "min_count")
KEYS = (*EXPOSURES, *EVENTS, "name", "seed", "comparisons", "population", "covariates")
KEYS += ("propensity", "analyses", "diagnostics", "exposures", "case_series")
OF_COMPARISONS, OF_SERIES = ("targets", "comparators", "analyses"), ("exposures", "case_series")


def read_document(source) -> dict:
    """Read a document from a file of YAML or JSON, or a mapping; with all keys, and checked."""
    given = _parse(source)
    _check_keys(given, KEYS, "the study")
    _check_parts(given)
    study = {"name": str(given.get("name", "study")), "seed": given.get("seed", 0)}
    options.whole(study["seed"], "seed", 0)
    for kind in (*EXPOSURES, "exposures", *EVENTS):
        known = OF_EVENTS if kind in EVENTS else OF_COHORTS if kind in EXPOSURES else ()
        study[kind] = _read_definitions(given.get(kind) or {}, kind, known)
    _number(study, (*EXPOSURES, "exposures"))
    _number(study, EVENTS)
    study["population"] = _mapping(given, "population", OF_POPULATIONS)
    study["covariates"] = _read_covariates(_mapping(given, "covariates", OF_COVARIATES))
    study["propensity"] = PROPENSITY | _mapping(given, "propensity", PROPENSITY)
    study["diagnostics"] = DIAGNOSTICS | _mapping(given, "diagnostics", DIAGNOSTICS)
    study["analyses"] = _read_analyses(given.get("analyses") or {})
    is_asked = study["targets"] or given.get("comparisons")
    study["comparisons"] = _read_comparisons(given.get("comparisons"), study) if is_asked else []
    study["case_series"] = _read_series(given.get("case_series") or {}, study["exposures"])
    _check_numbers(study)
    _check_controls(study)
    return study


def _parse(source):
    """A mapping from a file, or as it is."""
    if isinstance(source, Mapping):
        return json.loads(json.dumps(source, default=_plain))
    path = Path(source)
    text = path.read_text(encoding="utf-8")
    if path.suffix.lower() in (".yaml", ".yml"):
        try:
            import yaml
        except ImportError as error:
            raise ImportError(
                f"{path.name} is YAML, which PyYAML reads: pip install pyyaml, or write the study "
                "as JSON."
            ) from error
        found = json.loads(json.dumps(yaml.safe_load(text), default=str))
    else:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ValueError(f"{path.name} is no JSON: {error}.") from error
    if not isinstance(found, Mapping):
        raise TypeError(f"{path.name} holds a {type(found).__name__}, must be a mapping of keys.")
    return found


def outcomes_of(study) -> dict:
    """Definitions of all outcomes, of interest or controls, by name."""
    return {name: d for kind in EVENTS for name, d in study[kind].items()}


def _check_parts(given):
    """Refuse a study without an outcome, or with neither comparisons nor case series."""
    parts = [keys for keys in (OF_COMPARISONS, OF_SERIES) if any(given.get(key) for key in keys)]
    needed = ["outcomes", *(key for keys in parts or [OF_COMPARISONS] for key in keys)]
    missing = [key for key in needed if not given.get(key)]
    if missing:
        raise ValueError(
            f"the study has no `{missing[0]}`; it needs outcomes, and {', '.join(OF_COMPARISONS)}, "
            f"or {' and '.join(OF_SERIES)}, or all of these."
        )


def _plain(value):
    """Values of mappings made in Python that JSON does not know."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _check_keys(given, known, where):
    if not isinstance(given, Mapping):
        raise TypeError(f"{where} is {given!r}, must be a mapping with keys {', '.join(known)}.")
    for key in given:
        if key not in known:
            hint = similar(key, known)
            raise ValueError(f"{where} has an unknown key {key!r}{hint} ({', '.join(known)})")


def _mapping(given, key, known):
    found = given.get(key) or {}
    _check_keys(found, known, f"`{key}`")
    return dict(found)


def _read_covariates(given):
    """Arguments of covariates, whose windows are pairs of days."""
    from ..omop.covariates import read_windows

    if isinstance(given.get("windows"), dict):
        pairs = given["windows"].items()
        given["windows"] = {name: tuple(d) if isinstance(d, list) else d for name, d in pairs}
    try:
        read_windows(given.get("windows"))
    except (TypeError, ValueError) as error:
        raise type(error)(f"`covariates`: {error}") from error
    return given


def _arguments(function):
    """Names of the arguments of a function of cohorts that a document may give."""
    return sorted({*signature(function).parameters} - {"cohort", "outcomes", "names"} - COLUMNS)


def _read_definitions(given, kind, known):
    own = ("id", "true_ratio") if kind == "positive_controls" else ("id",)
    if not isinstance(given, Mapping):
        raise TypeError(f"`{kind}` must be a mapping from names to concepts by domain.")
    found = {}
    for name, definition in given.items():
        where = f"`{kind}[{name!r}]`"
        _check_keys(definition, (*DOMAINS, *own, *known), where)
        concepts = {key: np.atleast_1d(definition[key]) for key in DOMAINS if key in definition}
        if not concepts or not all(
            c.size and c.ndim == 1 and c.dtype.kind in "iu" for c in concepts.values()
        ):
            raise ValueError(
                f"{where} must have concepts: lists of their identifiers, whole numbers, by "
                f"domain ({', '.join(DOMAINS)})."
            )
        rest = {key: value for key, value in definition.items() if key in known}
        found[str(name)] = {
            "concepts": {key: value.tolist() for key, value in concepts.items()},
            "options": rest,
            **{key: definition.get(key) for key in own},
        }
        if kind == "positive_controls":
            rule = "must be a positive number"
            options.number(
                definition.get("true_ratio"), f"{kind}[{name!r}]['true_ratio']", rule, above=0
            )
    return found


def _number(study, kinds):
    """Give numbers to what has none, and refuse those of two."""
    of_name: dict[str, dict] = {}
    for kind in kinds:
        for name, definition in study[kind].items():
            first = of_name.setdefault(name, definition)
            if kind == "exposures":  # which have no options, as they are no cohorts
                first = first | {"options": {}}
            if first != definition or (kinds is EVENTS and first is not definition):
                raise ValueError(
                    f"{name!r} is defined twice, in `{kind}` and before; a control must be no "
                    "outcome of interest, and an exposure has one definition."
                )
    given = [definition["id"] for definition in of_name.values() if definition["id"] is not None]
    if len({*given}) < len(given):
        raise ValueError(f"an `id` occurs twice in {' and '.join(kinds)}: {sorted(given)}.")
    free = iter(sorted({*range(1, len(of_name) + len(given) + 1)} - {*given}))
    numbers = {name: next(free) if d["id"] is None else d["id"] for name, d in of_name.items()}
    for kind in kinds:
        for name, definition in study[kind].items():
            definition["id"] = options.whole(numbers[name], f"id of {name!r}", 1)


def _read_comparisons(given, study):
    """Pairs of a target and a comparator: those given, or all."""
    if given is None:
        given = [[t, c] for t in study["targets"] for c in study["comparators"] if t != c]
    pairs = []
    for pair in given if isinstance(given, list) else [given]:
        if not isinstance(pair, list) or len(pair) != 2:
            raise ValueError(f"`comparisons` has {pair!r}; give pairs [target, comparator].")
        for kind, name in zip(EXPOSURES, pair, strict=True):
            if name not in study[kind]:
                hint = similar(name, study[kind])
                raise ValueError(f"`comparisons` names {name!r}, not in `{kind}`{hint}")
        pairs.append(list(pair))
        _refuse_shared(*(study[k][n] for k, n in zip(EXPOSURES, pair, strict=True)), *pair)
    if not pairs or len({*map(tuple, pairs)}) < len(pairs):
        raise ValueError(f"`comparisons` needs pairs that differ, and has {pairs}.")
    return pairs


def _refuse_shared(first, second, name, other, why="cannot be compared"):
    for domain, concepts in first["concepts"].items():
        shared = {*concepts} & {*second["concepts"].get(domain, ())}
        if shared:
            raise ValueError(
                f"{name!r} and {other!r} share the {domain} {min(shared)}, so that they {why}."
            )


def _check_controls(study):
    """Refuse controls that are outcomes of interest by their concepts."""
    for kind in EVENTS[1:]:
        for name, control in study[kind].items():
            for outcome, definition in study["outcomes"].items():
                why = "cannot be a control and an outcome of interest"
                _refuse_shared(control, definition, name, outcome, why)


def _read_analyses(given):
    analyses = {}
    if not isinstance(given, Mapping):
        raise TypeError("`analyses` must be a mapping from names to what each of them does.")
    for name, one in given.items():
        where = f"`analyses[{name!r}]`"
        _check_keys(one, tuple(ANALYSIS), where)
        one = ANALYSIS | {key: value for key, value in one.items() if value is not None}
        options.choice(one["model"], f"analyses[{name!r}]['model']", MODELS)
        _check_keys(one["time_at_risk"], _arguments(time_at_risk), f"{where} time_at_risk")
        _check_keys(one["adjustment"], tuple(ADJUSTMENTS), f"{where} adjustment")
        for step, arguments in one["adjustment"].items():
            _check_keys(arguments or {}, _arguments(ADJUSTMENTS[step]), f"{where} {step}")
        if len({*WAYS} & {*one["adjustment"]}) > 1:
            raise ValueError(f"{where} adjustment has two of {', '.join(WAYS)}; take one.")
        analyses[str(name)] = one = _with_defaults(one, where)
        try:
            rehearse(one)
        except Exception as error:
            raise type(error)(f"{where}: {error}") from error
    return analyses


def _with_defaults(one, where):
    way, arguments = way_of(one)
    if one["stratified"] is None:  # as CohortMethod does it: pairs are compared as they are
        one["stratified"] = way == "stratify" or (way == "match" and arguments.get("ratio", 1) != 1)
    options.flag(one["stratified"], f"{where} stratified")
    if one["stratified"] and way not in ("match", "stratify"):
        raise ValueError(f"{where} is stratified, but its adjustment makes no sets or strata.")
    if one["model"] == "fine_gray":
        one["time_at_risk"] = {"competing": "death_date"} | one["time_at_risk"]
    return one


def way_of(analysis):
    """Which of matching, strata and weights an analysis takes, if any, and its arguments."""
    for way in WAYS:
        if way in analysis["adjustment"]:
            return way, analysis["adjustment"][way] or {}
    return None, {}


def adjust(cohort, analysis) -> Cohort:
    """A cohort with scores after trimming, and matched, stratified or weighted."""
    for step, function in ADJUSTMENTS.items():
        if step in analysis["adjustment"]:
            cohort = function(cohort, **(analysis["adjustment"][step] or {}))
    return cohort


def rehearse(analysis):
    """Adjust persons who do not exist, so that values that functions refuse are refused now."""
    n = 1_000
    score = np.repeat(np.linspace(0.001, 0.999, n // 2), 2)
    table = DataFrame({"id": np.arange(n), "treatment": np.arange(n) % 2, "score": score})
    dates = {"index_date": 400, "end_date": 500, "observation_start": 0, "observation_end": 900}
    table = table.assign(age=50, female=0, death_date=NaT, drug_id=1)
    for column, day in dates.items():
        table[column] = to_datetime(day, unit="D")
    table["death_date"] = to_datetime(table["death_date"])
    events = DataFrame({"id": np.arange(0, n, 3), "date": to_datetime(450, unit="D")})
    adjusted = adjust(Cohort.of(table), analysis)
    time_at_risk(adjusted, events, **analysis["time_at_risk"])


def _read_series(given, exposures):
    if not isinstance(given, Mapping):
        raise TypeError("`case_series` must be a mapping from names to what each of them does.")
    found = {}
    for name, one in given.items():
        where = f"`case_series[{name!r}]`"
        _check_keys(one, (*SERIES, *OF_ROWS), where)
        one = SERIES | {key: value for key, value in one.items() if value is not None}
        windows = one["windows"]
        if not isinstance(windows, Mapping) or not windows:
            raise ValueError(f"{where} has no `windows`; give days around an exposure by name.")
        for key, window in {**windows, "control": one["control"] or {}}.items():
            _check_keys(window, OF_WINDOWS, f"{where} window {key!r}")
        chosen = [*exposures] if one["exposures"] is None else one["exposures"]
        one["exposures"] = chosen = chosen if isinstance(chosen, list) else [chosen]
        of_windows = (w.get("eras") or () for w in windows.values())
        for other in (*chosen, *(e for eras in of_windows for e in np.atleast_1d(eras))):
            if other not in exposures:
                hint = similar(str(other), exposures)
                raise ValueError(f"{where} names {str(other)!r}, not in `exposures`{hint}")
        _check_numbered(one, chosen, exposures, where)
        if not chosen or not sort_windows(one)[0]:
            raise ValueError(
                f"{where} has no {'window' if chosen else 'exposure'} of interest; a window "
                "without `eras` is one, unless it ends before the exposure starts."
            )
        options.whole(one["gap"], f"case_series[{name!r}]['gap']", 0)
        try:
            with keep_warnings():
                rehearse_series(one, [*exposures])
        except Exception as error:
            raise type(error)(f"{where}: {error}") from error
        found[str(name)] = one
    return found


def _check_numbered(one, chosen, exposures, where):
    """Refuse what would have one number twice in tables, or a name of two columns."""
    if len({*chosen}) < len(chosen):
        raise ValueError(f"{where} has an exposure twice in `exposures`.")
    windows = [*one["windows"].values()]
    if any(window in windows[:k] for k, window in enumerate(windows)):
        raise ValueError(f"{where} has the same window twice, under two names.")
    for key, window in one["windows"].items():
        if ": " in str(key):
            raise ValueError(f"{where} window {key!r} has a colon in its name; leave it out.")
        ids = [exposures[e]["id"] for e in np.atleast_1d(window.get("eras") or ())]
        if window.get("by_era") and max(ids, default=0) >= 1_000:
            raise ValueError(
                f"{where} window {key!r} has `by_era`, for which the `id` of exposures must be "
                "below 1,000: those of covariates are made of them."
            )


def _check_numbers(study):
    for key, value in study["diagnostics"].items():
        if value is not None:
            rule = "must be a positive number, or null for none"
            options.number(value, f"diagnostics {key}", rule, above=0)
    propensity = study["propensity"]
    rule = "must be a positive number"
    options.number(propensity["max_correlation"], "propensity max_correlation", rule, above=0)
    options.whole(propensity["cv"], "propensity cv", 2)
    options.whole(propensity["n_alphas"], "propensity n_alphas", 1)
