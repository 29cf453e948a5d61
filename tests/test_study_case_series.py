"""Case series of a study: what is refused, an effect that is found, diagnostics and tables."""

import json
import re

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("duckdb")

from sksurvgpu import CaseSeriesCCD, wald
from sksurvgpu.cohort import RiskWindow, case_series_diagnostics, eras_to_intervals
from sksurvgpu.datasets import simulate_omop
from sksurvgpu.omop import Database
from sksurvgpu.study import Study, check_tables, study
from sksurvgpu.study.effects import number_of
from sksurvgpu.study.series import _add_limits, _read_checks, detectable_ratio
from sksurvgpu.study.tables import read_specification

RATIO, EVENT = 3.0, 900_001  # of an outcome that the new drug causes


def with_event(tables, rng):
    """Tables with an event that is more frequent while somebody takes the new drug."""
    periods = tables["observation_period"].drop_duplicates("person_id").set_index("person_id")
    start, end = (periods[f"observation_period_{x}_date"] for x in ("start", "end"))
    drugs = tables["drug_exposure"]
    taken = drugs[drugs["drug_concept_id"] == 102].groupby("person_id")
    eras = taken["drug_exposure_start_date"].min().to_frame("first")
    eras["last"] = taken["drug_exposure_end_date"].max()
    eras = eras.reindex(periods.index)
    n_days = (end - start).dt.days + 1
    at_risk = ((eras["last"] - eras["first"]).dt.days + 1).fillna(0).astype(int)
    place = rng.random(len(periods)) * (n_days + (RATIO - 1) * at_risk)
    is_more = (place >= n_days).to_numpy()
    day = start + pd.to_timedelta(np.where(is_more, 0, np.floor(place)), unit="D")
    within = np.floor(rng.random(len(periods)) * at_risk)
    more = eras["first"] + pd.to_timedelta(within, unit="D")
    day = day.where(~is_more, more)[rng.random(len(periods)) < 0.4]
    lines = pd.DataFrame({"person_id": day.index, "condition_concept_id": EVENT})
    lines["condition_start_date"] = lines["condition_end_date"] = day.to_numpy()
    concepts = [tables["concept"], pd.DataFrame({"concept_id": [EVENT], "concept_name": "caused"})]
    below = {"ancestor_concept_id": [EVENT], "descendant_concept_id": [EVENT]}
    below = pd.concat([tables["concept_ancestor"], pd.DataFrame(below)])
    found = {"concept": pd.concat(concepts), "concept_ancestor": below}
    return (
        tables
        | found
        | {"condition_occurrence": pd.concat([tables["condition_occurrence"], lines])}
    )


SIMULATED = simulate_omop(700, 7_000, n_codes=50, n_controls=5, random_state=1)
CONTROLS = SIMULATED.outcomes.loc[SIMULATED.outcomes["is_control"], "concept_id"]
BEFORE = {"start": -30, "end": -1, "end_anchor": "start"}
DOCUMENT = {
    "name": "A drug",
    "exposures": {"new": {"drug": [101], "id": 7}, "old": {"drug": [201]}},
    "outcomes": {"caused": {"condition": [EVENT], "id": 30}},
    "negative_controls": {name: {"condition": [int(c)]} for name, c in CONTROLS.items()},
    "case_series": {
        "plain": {"windows": {"before": BEFORE, "on": {}, "others": {"eras": ["old", "new"]}}},
        "first": {
            "exposures": ["new"],
            "windows": {"before": BEFORE, "on": {}, "after": {"start": 1, "end": 60}},
            "calendar": 3,
            "season": 3,
            "age_groups": [20_000],
            "naive": 30,
            "end_of_observation": 30,
            "first_outcome_only": True,
        },
    },
    "diagnostics": {"max_prevalence": 0.9, "max_systematic_error": 1.0},
}
DOCUMENT["case_series"]["first"]["windows"]["after"]["start_anchor"] = "end"


@pytest.fixture(scope="module")
def database():
    tables = with_event(SIMULATED.tables, np.random.default_rng(0))
    return Database(tables)


@pytest.fixture(scope="module")
def result(database, tmp_path_factory):
    return Study.read(DOCUMENT).run(database, tmp_path_factory.mktemp("s"), n_jobs=1)


def changed(series=None, **keys):
    document = json.loads(json.dumps(DOCUMENT)) | keys
    if series is not None:
        document["case_series"] = {"x": {"windows": {"on": {}}} | series}
    return document


SERIES = "`case_series['x']`"
WRONG = {
    "no exposures": (changed(exposures={}), "the study has no `exposures`; it needs outcomes"),
    "no series": (changed(case_series={}), "the study has no `case_series`"),
    "a list": (changed(case_series=[1]), "`case_series` must be a mapping"),
    "an option": (changed(exposures={"a": {"drug": [1], "gap": 3}}), "unknown key 'gap'"),
    "two definitions": (
        changed(
            targets={"new": {"drug": [5]}}, comparators={"b": {"drug": [6]}}, analyses={"c": {}}
        ),
        "'new' is defined twice",
    ),
    "only targets": (changed(targets={"a": {"drug": [1]}}), "the study has no `comparators`"),
    "a key": (changed({"ages": 5}), f"{SERIES} has an unknown key 'ages'; did you mean 'age'"),
    "no windows": (changed({"windows": {}}), f"{SERIES} has no `windows`"),
    "a key of a window": (
        changed({"windows": {"on": {"first": 1}}}),
        f"{SERIES} window 'on' has an unknown key 'first'; did you mean 'first_only'",
    ),
    "a day": (changed({"windows": {"on": {"start": "x"}}}), f"{SERIES}: window 'on': `start`"),
    "days": (changed({"windows": {"on": {"start": 5, "end_anchor": "start"}}}), "window 'on'"),
    "a control": (changed({"control": {"end": 0.5}}), f"{SERIES}: window 'control': `end` is 0.5"),
    "none of interest": (changed({"windows": {"before": BEFORE}}), "no window of interest"),
    "an exposure": (
        changed({"exposures": ["nwe"]}),
        f"{SERIES} names 'nwe', not in `exposures`; did",
    ),
    "no exposure": (changed({"exposures": []}), "no exposure of interest"),
    "another": (
        changed({"windows": {"a": {"eras": "odl"}}}),
        "names 'odl', not in `exposures`; did",
    ),
    "an exposure twice": (changed({"exposures": ["new", "new"]}), "an exposure twice"),
    "a window twice": (changed({"windows": {"on": {}, "too": {}}}), "has the same window twice"),
    "a colon": (changed({"windows": {"on": {}, "a: b": {"end": 9}}}), "has a colon in its name"),
    "a gap": (changed({"gap": -1}), "`case_series['x']['gap']` is -1"),
    "knots": (changed({"age": 2}), f"{SERIES}: `age` is 2"),
    "months": (changed({"season": [1, 2, 3]}), f"{SERIES}: `season`"),
    "naive days": (changed({"naive": -1}), f"{SERIES}: `naive` is -1"),
    "a flag of a window": (
        changed({"windows": {"on": {"first_only": "no"}}}),
        "`first_only` is 'no'",
    ),
    "a flag": (changed({"first_outcome_only": "yes"}), f"{SERIES}: `first_outcome_only` is 'yes'"),
    "several outcomes": (changed({"ended_early": True}), "`ended_early` needs first_outcome_only"),
    "a threshold": (changed(diagnostics={"max_before_exposure": 0}), "max_before_exposure"),
    "an old threshold": (
        changed(diagnostics={"max_time_ratio": 1}),
        "unknown key 'max_time_ratio'",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_documents_are_refused(wrong):
    document, message = WRONG[wrong]
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        Study.read(document)


def test_a_study_may_have_both():
    both = changed(
        targets={"new": {"drug": [101], "washout": 30, "id": 7}},
        comparators={"old": {"drug": [201]}},
        analyses={"crude": {}},
    )
    found = Study.read(both)
    assert "1 comparison, 1 analysis, 2 case series of 2 exposures" in repr(found)
    assert found.document["targets"]["new"]["id"] == found.document["exposures"]["new"]["id"] == 7


def test_a_known_effect_is_found(result):
    lines = result.case_series.set_index(["exposure", "window", "analysis", "outcome"])
    assert len(lines) == 6 * (2 + 2)
    for series in ("plain", "first"):
        line = lines.loc[("new", "on", series, "caused")]
        assert line["status"] == "ok" and line["unblind"]
        assert abs(np.log(line["ratio"] / RATIO)) < 2.5 * line["standard_error"]
        assert line["ratio_lower"] > 1
    other = lines.loc[("old", "on", "plain", "caused")]
    assert other["ratio_lower"] < 1 < other["ratio_upper"]
    assert line["covariate_eras"] >= line["covariate_subjects"] > 0
    assert len(result.failures) == 0


def test_diagnostics_may_hide_estimates(database, result):
    told = result.case_series_diagnostics
    assert (told["ease_diagnostic"] == "PASS").any()
    first = told[told["analysis"] == "first"]
    of_all = first.filter(like="_diagnostic").drop(columns="event_exposure_diagnostic")
    assert (of_all != "NOT EVALUATED").all(axis=None)  # some have no event before
    assert (first["event_exposure_diagnostic"] == "PASS").any()
    plain = told[told["analysis"] == "plain"]
    assert (plain["event_observation_diagnostic"] == "NOT EVALUATED").all()
    thresholds = {"max_prevalence": 0.01, "max_before_exposure": 1.0, "min_stability_p": 1.1}
    strict = changed(diagnostics=thresholds | {"max_end_of_observation": None})
    judged = Study.read(strict).run(database, result.folder)
    lines = judged.case_series[judged.case_series["kind"] == "interest"]
    assert lines["ratio"].isna().all() and not lines["unblind"].any()
    reason = lines.set_index("analysis")["reason"]
    assert reason["first"].str.contains("have the outcome, not below 0.01").all()
    assert not reason["plain"].str.contains("have the outcome").any()
    assert reason.str.contains("rate before an exposure differs by a ratio of 1.").all()
    assert reason.str.contains("months differ").all()
    told = judged.case_series_diagnostics
    assert (told["event_observation_diagnostic"] == "NOT EVALUATED").all()
    controls = judged.case_series[judged.case_series["kind"] == "negative"]
    assert controls["ratio"].notna().any()


class Killed(BaseException):
    """As of a process that is ended."""


def test_a_run_goes_on_with_the_same_bits(database, tmp_path, monkeypatch):
    few = {name: DOCUMENT["negative_controls"][name] for name in [*CONTROLS.index][:2]}
    few = Study.read(changed({"exposures": ["new"]}, negative_controls=few))
    straight = few.run(database, tmp_path / "straight", n_jobs=1)
    journal, n_written = study.Journal, []
    write = journal.write

    def dying(self, key, arrays, **options):
        write(self, key, arrays, **options)
        if key.startswith("series"):
            n_written.append(key)
            raise Killed

    monkeypatch.setattr(journal, "write", dying)
    for n_parts in (1, 2):
        with pytest.raises(Killed):
            few.run(database, tmp_path / "killed", n_jobs=1)
        assert len(n_written) == n_parts
    monkeypatch.setattr(journal, "write", write)
    resumed = few.run(database, tmp_path / "killed", n_jobs=1)
    assert n_written == ["series-0000", "series-0001"]
    for k in range(3):
        expected, found = (r.part(f"series-{k:04d}") for r in (straight, resumed))
        assert expected.keys() == found.keys()
        for key, table in expected.items():
            pd.testing.assert_frame_equal(found[key], table, check_exact=True)
    pd.testing.assert_frame_equal(resumed.case_series, straight.case_series, check_exact=True)


def test_a_changed_study_says_what_has_changed(database, result):
    other = changed(seed=5)
    other["case_series"]["plain"]["gap"] = 5
    with pytest.raises(FileExistsError) as caught:
        Study.read(other).run(database, result.folder)
    message = str(caught.value)
    assert "`seed` is 0 there and 5 here; `case_series: plain` differs. To go on" in message
    assert len(message) < 400


def test_what_cannot_be_drawn_is_a_line_and_is_tried_again(database, tmp_path):
    class Busy:
        n_persons = database.n_persons

        def __init__(self, is_busy):
            self.is_busy = is_busy

        def __repr__(self):
            return "<Busy>"

        def events(self, concepts, **options):
            return database.events(concepts, **options)

        def eras(self, exposures, events, gap):
            if self.is_busy:
                raise OSError("the disk is away")
            return database.eras({"new": exposures["new"], "old": [EVENT]}, events, gap=gap)

    few = Study.read(changed({}, negative_controls={}, diagnostics={}))
    found = few.run(Busy(True), tmp_path, n_jobs=1).case_series
    assert (found["status"] == "failed").all()
    assert found["reason"].str.contains("OSError: the disk is away").all()
    found = few.run(Busy(False), tmp_path, n_jobs=1).case_series
    assert found["status"].tolist() == ["ok", "failed"]
    assert found["reason"].iloc[1] == "no estimate: no case was exposed to 'old'."


def test_estimates_say_what_would_run(database):
    [line] = Study.read(changed({})).estimate(database, n_jobs=1).to_dict("records")
    assert (line["target"], line["analyses"], line["outcomes"]) == ("case series", 1, 6)
    assert line["basis"].startswith("the first of 6 outcomes took") and line["seconds"] > 0


def test_ratios_that_can_be_detected_are_those_of_r():
    # inst/Results_Eunomia.zip of SelfControlledCaseSeries 6.1.4: days of sccs_result.csv, days and
    # events of those with the covariate in sccs_attrition.csv, and sccs_diagnostics_summary.csv
    assert detectable_ratio(1_440 / 3_842_247, 180) == pytest.approx(31.9711, abs=1e-4)
    assert detectable_ratio(2_840 / 7_698_261, 355) == pytest.approx(19.4983, abs=1e-4)
    assert detectable_ratio(0.0, 7) == detectable_ratio(0.5, 0) == np.inf


def test_numbers_of_sets_are_those_of_r():
    # likewise, sccs_exposures_outcome_set.csv and sccs_exposure.csv
    assert number_of("3 NA 1 2") == 284001738
    assert number_of("999 NA 1") == -358070004


def test_tables_are_those_of_the_results_model(result, tmp_path):
    lines = check_tables(result.export(tmp_path, "simulated", min_cell_count=0))
    assert (
        {*lines} == {p.stem for p in tmp_path.glob("*.csv")} == {*read_specification("case_series")}
    )
    empty = {name for name, n in lines.items() if n == 0}
    assert empty == {"sccs_censor_model", "sccs_event_dep_observation"}
    assert lines["sccs_result"] == lines["sccs_diagnostics_summary"] == 24
    found = {name: pd.read_csv(tmp_path / f"sccs_{name}.csv") for name in ("result", "attrition")}
    shown = result.case_series.iloc[0]
    estimate = found["result"].iloc[0]
    assert estimate["exposures_outcome_set_id"] == number_of("30 NA 7")
    assert estimate["rr"] == pytest.approx(shown["ratio"])
    assert estimate["covariate_outcomes"] == shown["covariate_outcomes"]
    keys = ["analysis_id", "exposures_outcome_set_id", "covariate_id"]
    steps = found["attrition"].merge(found["result"][keys].iloc[:1])
    assert steps["description"].iloc[-1] == "having the covariate of interest"
    assert steps["outcome_events"].iloc[-2] == estimate["outcome_events"]
    covariates = pd.read_csv(tmp_path / "sccs_covariate.csv")
    names = covariates[covariates["analysis_id"] == 2].drop_duplicates("covariate_id")
    assert names.set_index("covariate_name")["covariate_id"].to_dict() == {
        "before": 1000,
        "on": 1001,
        "after": 1002,
        "end of observation": 99,
        "age 20000+": 150,
        "season spline 1": 200,
        "calendar spline 1": 300,
        "calendar spline 2": 301,
        "calendar spline 3": 302,
    }
    weeks = pd.read_csv(tmp_path / "sccs_time_to_event.csv")
    own = weeks[weeks["exposures_outcome_set_id"] == number_of("30 NA 7")]
    own = own[own["analysis_id"] == 1].set_index("week")
    assert own.loc[0, "observed_subjects"] == estimate["covariate_subjects"]
    tables = with_event(SIMULATED.tables, np.random.default_rng(0))
    drugs, events = tables["drug_exposure"], tables["condition_occurrence"]
    first = drugs[drugs["drug_concept_id"] == 102].groupby("person_id")
    events = events[events["condition_concept_id"] == EVENT].set_index("person_id")
    since = events["condition_start_date"] - first["drug_exposure_start_date"].min()
    expected = (since.dropna().dt.days // 7).value_counts()
    assert own["outcomes"].to_dict() == expected.reindex(own.index, fill_value=0).to_dict()
    trend = pd.read_csv(tmp_path / "sccs_time_trend.csv").merge(found["result"][keys[:2]].iloc[:1])
    assert trend["calendar_month"].between(1, 12).all() and trend["observed_subjects"].max() > 20


def test_what_is_hidden_or_small_is_not_exported(database, result, tmp_path):
    strict = changed(diagnostics={"max_detectable": 1e-3, "max_prevalence": 1e-9})
    hidden = Study.read(strict).run(database, result.folder)
    hidden.export(tmp_path, min_cell_count=20)
    keys = ["analysis_id", "exposures_outcome_set_id", "covariate_id"]
    tables = {name: pd.read_csv(tmp_path / f"sccs_{name}.csv") for name in TABLES}
    is_caused = {k: t["exposures_outcome_set_id"].isin(CAUSED) for k, t in tables.items()}
    estimates = tables["result"][is_caused["result"]]
    assert estimates[["rr", "ci_95_lb", "p", "llr", "calibrated_rr"]].isna().all(axis=None)
    covariates = tables["covariate_result"][is_caused["covariate_result"]]
    of_interest = covariates.merge(estimates[keys])
    assert len(of_interest) == 4 and of_interest["rr"].isna().all()
    assert covariates["rr"].notna().any()
    # windows of the other exposure are what its own set hides
    assert covariates.loc[covariates["covariate_id"] == 1_002, "rr"].isna().all()
    assert not is_caused["time_to_event"].any() and len(tables["time_to_event"])
    # the detectable ratio alone does not keep a profile from others
    profiles = tables["likelihood_profile"][is_caused["likelihood_profile"]]
    assert set(profiles["analysis_id"]) == {1}
    counts = tables["time_to_event"]["outcomes"]
    assert set(counts[counts < 20]) <= {-20, 0} and -20 in set(counts)


TABLES = ("result", "covariate_result", "time_to_event", "likelihood_profile")
CAUSED = number_of("30 NA 7"), number_of("30 NA 1")


def test_the_page_has_a_section(result, tmp_path):
    text = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    shown = result.case_series.iloc[0]
    assert f"{shown['ratio']:.2f} ({shown['ratio_lower']:.2f}" in text
    for heading in ("Case series", "new, on, plain: diagnostics", "negative controls", "effects"):
        assert heading in text
    assert "Comparisons" not in text


def test_observation_may_end_with_the_event(database, tmp_path):
    weighted = {"ended_early": True, "first_outcome_only": True, "exposures": ["new"]}
    study_ = Study.read(changed(weighted, negative_controls={}))
    found = study_.run(database, tmp_path / "run", n_jobs=1)
    assert found._series_lines["status"].tolist() == ["ok"]
    found.export(tmp_path / "tables")
    table = pd.read_csv(tmp_path / "tables" / "sccs_censor_model.csv")
    assert table["parameter_id"].tolist() == [*range(1, 8)]
    assert table["model_type"].str.fullmatch("(Weibull|Gamma)-(Age|Interval)").all()


def test_a_control_window_leaves_fewer_events_to_detect(database, tmp_path):
    control = {"start": -90, "end": -31, "end_anchor": "start"}
    series = {"control": control, "exposures": ["new"]}
    study_ = Study.read(changed(series, negative_controls={}, diagnostics={}))
    lines = study_.run(database, tmp_path, n_jobs=1).part("series-0000")["lines"]
    [line] = lines.to_dict("records")  # all of its cases have the window
    assert (line["own_events"], line["own_days"]) == (line["outcome_events"], line["observed_days"])
    share = line["covariate_days"] / line["observed_days"]
    assert line["mdrr"] == pytest.approx(detectable_ratio(share, line["outcome_events"]))


@pytest.mark.filterwarnings("ignore:.*columns separate the events")
def test_no_event_before_an_exposure_has_a_limit():
    """Nobody would be exposed so soon after an event: the rate is 0, and is told from 1."""
    number = np.arange(400)
    first = 200 + number % 50
    day = np.where(number % 2 == 0, first + number % 30, number * 7 % 100)
    periods = pd.DataFrame({"id": number, "start": 0, "end": 364})
    eras = pd.DataFrame({"id": number, "era": "drug", "start": first, "end": first + 29})
    windows = {"before": RiskWindow(-60, -1, end_anchor="start"), "on": RiskWindow(0, 29)}
    events = pd.DataFrame({"id": number, "day": day})
    data, model = eras_to_intervals(periods, eras, events, windows=windows), CaseSeriesCCD(alpha=0)
    fit = wald(model.fit(data.X, data.y), data.X, data.y)
    table = case_series_diagnostics(data, fit, before="before").table
    line = "event-dependent exposure: before"
    assert table.loc[line, ["lower", "upper"]].isna().all()
    told = _add_limits(table, model, data, ["before"])
    assert told.loc[line, "lower"] == 0 and told.loc[line, "upper"] < 0.5
    assert _read_checks(told)["before_exposure"] > 2
