"""A study as a document: what is refused, what a run keeps, diagnostics, tables and the page."""

import json
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import calibrate, from_long
from sksurvgpu.cohort import Cohort
from sksurvgpu.datasets import simulate_claims, simulate_omop
from sksurvgpu.omop import Database
from sksurvgpu.study import Study, StudyResult, check_tables, comparison, page, study, tables
from sksurvgpu.study.diagnostics import DIAGNOSTICS_OF, calibrate_lines
from sksurvgpu.study.differences import describe_differences, difference_p_values
from sksurvgpu.study.document import DIAGNOSTICS
from sksurvgpu.study.tables import read_specification

CLAIMS = simulate_claims(900, 50, n_records=15_000, random_state=0)
OUTCOMES = {name: k for k, name in enumerate(CLAIMS.outcomes["outcome"].unique(), 1)}
CONTROLS = list(CLAIMS.negative_controls)[:6]
DOCUMENT = {
    "name": "Two drugs",
    "targets": {"new": {"drug": [1]}},
    "comparators": {"old": {"drug": [2]}},
    "outcomes": {"bleeding": {"condition": [OUTCOMES["bleeding"]], "id": 77}},
    "negative_controls": {name: {"condition": [OUTCOMES[name]]} for name in CONTROLS},
    "propensity": {"cv": 2, "n_alphas": 5, "max_correlation": 0.9},
    "covariates": {"min_count": 20},
    "analyses": {
        "matched": {"time_at_risk": {"risk_start": 1}, "adjustment": {"match": {"ratio": 1}}},
        "strata": {"adjustment": {"stratify": {"n_strata": 3}}},
    },
    "diagnostics": {"max_difference": 0.9, "max_systematic_error": 9.0, "max_detectable": 1e6},
}


class Claims:
    """A database with the methods that a study needs, of simulated claims."""

    def __init__(self):
        self.n_drawn, self.broken = 0, ()

    def __repr__(self):
        return "<Claims>"

    def cohort(self, concepts, first_only=True):
        [drug] = concepts["drug"]
        if drug in self.broken:
            raise RuntimeError(f"drug {drug} cannot be read")
        persons = CLAIMS.persons.assign(end_date=CLAIMS.persons["observation_end"])
        return persons[persons["treatment"] == (drug == 1)]

    def compare(self, target, comparator):
        self.n_drawn += 1
        return Cohort.of(pd.concat([target, comparator]).reset_index(drop=True))

    def events(self, concepts):
        [number] = concepts["condition"]
        lines = CLAIMS.outcomes
        return lines.loc[lines["outcome"].map(OUTCOMES) == number, ["id", "date"]]

    def covariates(self, cohort, exclude=(), min_count=1):
        names = {"row_id": "id", "covariate_id": "code", "day": "date", "duplicates": "present"}
        names["unknown"] = "ignore"
        codes = CLAIMS.records["code"]
        records = CLAIMS.records.assign(code=codes + 1)[codes < codes.max()]
        data = from_long(
            cohort.table, records, windows={"year": (-365, -1)}, min_count=min_count, **names
        )
        return data


def changed(**keys):
    return json.loads(json.dumps(DOCUMENT)) | keys


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return Study.read(DOCUMENT).run(Claims(), tmp_path_factory.mktemp("study"), n_jobs=1)


ANALYSIS = "`analyses['x']`"
WRONG = {
    "a key": (
        changed(outcome={}),
        "the study has an unknown key 'outcome'; did you mean 'outcomes'",
    ),
    "no outcomes": (changed(outcomes={}), "the study has no `outcomes`"),
    "a domain": (
        changed(targets={"a": {"drugs": [1]}}),
        "unknown key 'drugs'; did you mean 'drug'",
    ),
    "concepts": (changed(targets={"a": {"drug": ["x"]}}), "must have concepts"),
    "a control by name": (
        changed(negative_controls={"bleeding": {"condition": [3]}}),
        "'bleeding' is defined twice",
    ),
    "a control by concept": (
        changed(negative_controls={"other": {"condition": [OUTCOMES["bleeding"]]}}),
        "'other' and 'bleeding' share the condition",
    ),
    "one drug": (changed(comparators={"b": {"drug": [1]}}), "share the drug 1"),
    "a pair": (changed(comparisons=[["new", "odl"]]), "names 'odl', not in `comparators`; did you"),
    "no pairs": (changed(comparisons=5), "`comparisons` has 5; give pairs"),
    "no analyses": (changed(analyses=[1]), "`analyses` must be a mapping"),
    "lists": (changed(targets={"new": {"drug": [[1]]}}), "`targets['new']` must have concepts"),
    "an id": (
        changed(
            targets={"new": {"drug": [1], "id": 5}}, comparators={"old": {"drug": [2], "id": 5}}
        ),
        "occurs twice",
    ),
    "a model": (changed(analyses={"x": {"model": "coxx"}}), "'model']` is 'coxx'"),
    "a step": (
        changed(analyses={"x": {"adjustment": {"matching": {}}}}),
        f"{ANALYSIS} adjustment has an unknown key 'matching'",
    ),
    "an argument": (
        changed(analyses={"x": {"adjustment": {"match": {"ratios": 2}}}}),
        "unknown key 'ratios'; did you mean 'ratio'",
    ),
    "a value": (
        changed(analyses={"x": {"adjustment": {"match": {"caliper": -1}}}}),
        f"{ANALYSIS}: `caliper`",
    ),
    "a column": (
        changed(analyses={"x": {"time_at_risk": {"risk_end_from": "stop"}}}),
        f"{ANALYSIS}: ",
    ),
    "two ways": (
        changed(analyses={"x": {"adjustment": {"match": {}, "weigh": {}}}}),
        "two of match, stratify, weigh",
    ),
    "sets": (changed(analyses={"x": {"stratified": True}}), "makes no sets"),
    "a threshold": (changed(diagnostics={"min_equipoise": -1}), "min_equipoise"),
    "days of a window": (
        changed(covariates={"windows": {"year": [-1, -365]}}),
        "`covariates`: `windows` has 'year'",
    ),
    "a window of no days": (changed(covariates={"windows": {"year": "all"}}), "`covariates`: "),
    "a true ratio": (
        changed(positive_controls={"p": {"condition": [99]}}),
        "'true_ratio']` is None, must be a positive",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_documents_are_refused(wrong):
    document, message = WRONG[wrong]
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        Study.read(document)


def test_files_say_the_same(tmp_path):
    yaml = pytest.importorskip("yaml")
    (tmp_path / "study.json").write_text(json.dumps(DOCUMENT))
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(DOCUMENT))
    expected = Study.read(DOCUMENT).document
    assert Study.read(tmp_path / "study.json").document == expected
    assert Study.read(tmp_path / "study.yaml").document == expected
    assert expected["outcomes"]["bleeding"]["id"] == 77


def test_arguments_of_databases_are_known():
    omop = pytest.importorskip("sksurvgpu.omop")
    from inspect import signature

    from sksurvgpu.study import document

    for method, names in (
        ("cohort", document.OF_COHORTS),
        ("events", document.OF_EVENTS),
        ("compare", document.OF_POPULATIONS),
        ("covariates", document.OF_COVARIATES),
    ):
        assert {*names} <= {*signature(getattr(omop.Database, method)).parameters}


class Killed(BaseException):
    """As of a process that is ended."""


@pytest.mark.thorough
def test_a_run_goes_on_with_the_same_bits(result, tmp_path, monkeypatch):
    journal, n_written = study.Journal, []
    write = journal.write

    def dying(self, key, arrays, **options):
        write(self, key, arrays, **options)
        n_written.append(key)
        raise Killed

    monkeypatch.setattr(journal, "write", dying)
    for n_parts in (1, 2):
        with pytest.raises(Killed):
            Study.read(DOCUMENT).run(Claims(), tmp_path, n_jobs=1)
        assert len(n_written) == n_parts
    monkeypatch.setattr(journal, "write", write)
    database = Claims()
    resumed = Study.read(DOCUMENT).run(database, tmp_path, n_jobs=1)
    assert database.n_drawn == 1
    for name in ("0000-scores", "0000-000", "0000-001"):
        expected, found = (r.part(name) for r in (result, resumed))
        assert expected.keys() == found.keys()
        for key, table in expected.items():
            pd.testing.assert_frame_equal(found[key], table, check_exact=True)
    pd.testing.assert_frame_equal(resumed.table, result.table, check_exact=True)
    Study.read(DOCUMENT).run(database, tmp_path, n_jobs=1)
    assert database.n_drawn == 1  # nothing was left to do


def test_a_folder_serves_one_study(result):
    with pytest.raises(FileExistsError, match="analyses"):
        Study.read(changed(analyses={"other": {}})).run(Claims(), result.folder)


@pytest.mark.thorough
def test_a_folder_serves_one_database(tmp_path, monkeypatch):
    tables = simulate_omop(60, random_state=0).tables
    records = tables["condition_occurrence"]
    database = Database(tables)
    for changed_records in (records.iloc[1:], records.assign(person_id=records["person_id"] + 1)):
        other = Database(tables | {"condition_occurrence": changed_records})
        assert repr(other) == repr(database)
        assert other.digest() != database.digest()
    mixed = records.sample(frac=1.0, random_state=0)
    assert Database(tables | {"condition_occurrence": mixed}).digest() == database.digest()
    crude = changed(negative_controls={}, analyses={"crude": {}})
    study = Study.read(crude)
    monkeypatch.setattr(Study, "_check_concepts", lambda *_: None)
    with pytest.warns(UserWarning, match="the vocabulary"):
        study.run(database, tmp_path)
    (tmp_path / "0000-scores.npz").write_bytes(b"finished")
    with pytest.raises(FileExistsError, match="records"):
        study.run(other, tmp_path)


@pytest.mark.thorough
def test_results_without_a_comparison_are_shown(tmp_path):
    database = Claims()
    database.broken = (1,)
    found = Study.read(DOCUMENT).run(database, tmp_path / "study", n_jobs=1)
    assert repr(found).startswith("<StudyResult of 1 comparison: 0 estimates of interest")
    assert found.attrition().columns.tolist() == ["target", "comparator"]
    assert "drug 1 cannot be read" in found.report(tmp_path / "page.html").read_text("utf-8")
    assert check_tables(found.export(tmp_path / "tables"))["cm_result"] == 0


def test_thresholds_may_change_without_another_run(result):
    strict = changed(diagnostics={"max_difference": 1e-3})
    database = Claims()
    judged = Study.read(strict).run(database, result.folder)
    assert database.n_drawn == 0
    assert (judged.diagnostics["shared_balance_diagnostic"] == "FAIL").all()
    of_interest = judged.table[judged.table["kind"] == "interest"]
    assert of_interest["coef"].isna().all()
    assert of_interest["reason"].str.contains("a difference of arms is").all()
    assert (of_interest["status"] == "hidden").all()
    controls = judged.table[judged.table["kind"] == "negative"]
    assert controls["coef"].notna().any()


@pytest.mark.thorough
@pytest.mark.parametrize("alpha", [None, 0.05])
def test_without_thresholds_nothing_is_judged(result, tmp_path, alpha):
    wanted = dict.fromkeys(DOCUMENT["diagnostics"]) | {"difference_alpha": alpha}
    found = Study.read(changed(diagnostics=wanted)).run(Claims(), result.folder)
    for name in ("shared_balance", "balance", "mdrr", "ease"):
        assert set(found.diagnostics[f"{name}_diagnostic"]) == {"NOT EVALUATED"}
    assert check_tables(found.export(tmp_path))["cm_result"] == 14
    assert found.report(tmp_path / "page.html").is_file()


@pytest.mark.thorough
def test_an_error_is_a_line(tmp_path):
    more = changed(comparators={"odd": {"drug": [3]}, "old": {"drug": [2]}})
    more["analyses"] = {"crude": {}}
    database = Claims()
    database.broken = (3,)
    found = Study.read(more).run(database, tmp_path, n_jobs=1)
    assert found.failures["message"].tolist() == ["RuntimeError: drug 3 cannot be read"]
    assert found.table["comparator"].unique().tolist() == ["old"]
    assert "1 failure" in repr(found)


@pytest.mark.thorough
def test_outcomes_that_could_not_be_read_are_tried_again(tmp_path):
    class Busy(Claims):
        def events(self, concepts):
            if concepts["condition"] == [OUTCOMES["bleeding"]]:
                raise OSError("the disk is away")
            return super().events(concepts)

    crude = Study.read(changed(analyses={"crude": {}}))
    found = crude.run(Busy(), tmp_path / "busy", n_jobs=1).table.iloc[0]
    assert found["target_subjects"] == 0
    again = crude.run(Claims(), tmp_path / "busy", n_jobs=1)
    straight = crude.run(Claims(), tmp_path / "straight", n_jobs=1)
    assert again.table["target_subjects"].iloc[0] > 0
    pd.testing.assert_frame_equal(again.table, straight.table, check_exact=True)


@pytest.mark.thorough
def test_covariates_that_tell_the_treatment_are_refused(tmp_path):
    strict = changed(propensity={"max_correlation": 0.01, "cv": 2})
    found = Study.read(strict).run(Claims(), tmp_path, n_jobs=1)
    [message] = found.failures["message"]
    assert "correlation with the treatment of more than 0.01" in message
    assert len(found.table) == 0


@pytest.mark.thorough
def test_controls_are_compared_with_their_descendants(tmp_path):
    class Vocabulary(Claims):
        def concepts(self, ids):
            return np.array([*ids, 4711])

    with pytest.raises(ValueError, match=r"share the condition 4711 through their descendants"):
        Study.read(DOCUMENT).run(Vocabulary(), tmp_path)


@pytest.mark.thorough
def test_estimates_say_what_would_run(monkeypatch):
    monkeypatch.setattr(study, "PILOT", 400)
    [line] = Study.read(DOCUMENT).estimate(Claims(), n_jobs=1).to_dict("records")
    assert line["target_persons"] + line["comparator_persons"] == 900
    assert (line["analyses"], line["outcomes"]) == (2, 7)
    assert line["basis"].startswith("100 and 400 persons of comparison 0 took")
    assert line["seconds"] > 0


@pytest.mark.thorough
def test_a_cluster_computes_the_same(result, tmp_path):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with distributed.Client(**options, dashboard_address=None) as client:
        found = Study.read(DOCUMENT).run(Claims(), tmp_path, client=client, n_jobs=1)
    pd.testing.assert_frame_equal(found.table, result.table, check_exact=True)


MODELS = {
    "fine_gray": {"model": "fine_gray", "adjustment": {"stratify": {"n_strata": 3}}},
    "logistic": {"model": "logistic"},
    "sets": {"model": "logistic", "adjustment": {"match": {"ratio": 2}}},
    "poisson": {"model": "poisson", "adjustment": {"weigh": {"kind": "att"}}},
    "strata": {"model": "poisson", "adjustment": {"stratify": {"n_strata": 3}}},
}


@pytest.mark.thorough
def test_all_models_are_fitted(tmp_path):
    more = changed(analyses=MODELS, negative_controls={})
    found = Study.read(more).run(Claims(), tmp_path, n_jobs=1)
    assert found._lines["status"].tolist() == ["ok"] * 5
    assert found._lines["target_estimator"].tolist() == ["ate", "ate", "att", "att", "ate"]
    assert (found._lines["coef"].abs() < 2).all()
    assert (found.diagnostics["ease_diagnostic"] == "NOT EVALUATED").all()


def test_differences_are_those_of_their_formulas():
    rng = np.random.default_rng(0)
    x, treated = rng.integers(0, 4, 300).astype(float), rng.random(300) < 0.4
    strata = rng.integers(0, 3, 300)
    n1, n0 = treated.sum(), (~treated).sum()
    means = x[treated].mean(), x[~treated].mean()
    spread = np.sqrt((x[treated].var(ddof=1) + x[~treated].var(ddof=1)) / 2)
    everybody = {"rows": np.ones(300, bool), "estimand": "ate", "n_jobs": 1}
    plain = describe_differences(x[:, None], treated, **everybody).iloc[0]
    difference = (means[0] - means[1]) / spread
    assert plain["std_diff_after"] == pytest.approx(difference)
    expected = (n1 + n0) / (n1 * n0) + difference**2 / (2 * (n1 + n0 - 2))
    assert plain["std_diff_var_after"] == pytest.approx(expected)
    assert plain["target_std_diff"] == pytest.approx(0, abs=1e-12)
    of_strata = describe_differences(x[:, None], treated, strata=strata, **everybody).iloc[0]
    scale = (of_strata["target_sd_after"] ** 2 + of_strata["comparator_sd_after"] ** 2) / 2
    expected = sum(
        (x[(strata == k) & arm].var(ddof=1) / ((strata == k) & arm).sum())
        * ((strata == k).sum() / 300) ** 2
        for k in range(3)
        for arm in (treated, ~treated)
    )
    assert of_strata["std_diff_var_after"] == pytest.approx(expected / scale)
    weights = rng.uniform(0.5, 2, 300)
    weighted = describe_differences(x[:, None], treated, weights=weights, **everybody).iloc[0]
    scale = (weighted["target_sd_after"] ** 2 + weighted["comparator_sd_after"] ** 2) / 2
    expected = 0.0
    for arm in (treated, ~treated):
        w = weights[arm] / weights[arm].sum()
        expected += (w**2 * (x[arm] - w @ x[arm]) ** 2).sum()
    assert weighted["std_diff_var_after"] == pytest.approx(expected / scale)


def test_p_values_of_differences():
    # R 4.2.2, by the formula of computeBalanceP(c(0.05, 0.1, -0.3), rep(0.01, 3), 0.1) in the
    # source of CohortMethod 6.0.2
    found = difference_p_values(np.array([0.05, 0.1, -0.3]), np.full(3, 0.01), 0.1)
    np.testing.assert_allclose(found, [0.758269662, 0.522750132, 0.0227818032], rtol=1e-6)


def test_diagnostics_pass_and_estimates_are_shown(result):
    assert isinstance(result, StudyResult)
    lines = result.diagnostics
    assert (lines.filter(like="_diagnostic") != "FAIL").all(axis=None)
    assert (lines["generalizability_diagnostic"] == "NOT EVALUATED").all()
    assert lines["unblind"].all()
    assert (lines["ease_diagnostic"] == "PASS").all()
    assert result.table["ratio"].notna().all()
    [first, _] = result.table[result.table["kind"] == "interest"].to_dict("records")
    assert first["ratio"] == pytest.approx(np.exp(first["coef"]))
    assert np.isfinite(first["calibrated_coef"])


def test_positive_controls_that_tell_nothing_leave_the_negative_ones():
    rng = np.random.default_rng(0)
    kinds = ["negative"] * 8 + ["positive"] * 5 + ["interest"]
    lines = pd.DataFrame({"kind": kinds, "coef": rng.normal(0.1, 0.1, 14), "standard_error": 0.1})
    lines = lines.assign(true_ratio=[1.0] * 8 + [2.0, 2.0, 3.0, 4.0, 4.0, np.nan])
    judged = {f"{name}_diagnostic": "PASS" for name in DIAGNOSTICS_OF}
    lines = lines.assign(may_calibrate=True, **judged)
    without = calibrate_lines(lines[lines["kind"] != "positive"].copy(), DIAGNOSTICS)[0]
    lines.loc[lines["kind"] == "positive", "coef"] = [-0.4, -0.5, -0.6, -0.7, -0.8]
    with pytest.warns(UserWarning, match="by negative controls alone: .* do not rise with"):
        found = calibrate_lines(lines, DIAGNOSTICS)[0]
    assert found["calibrated_coef"].iloc[-1] == without["calibrated_coef"].iloc[-1] != 0.0
    assert found["unblind"].all()


@pytest.mark.thorough
def test_slopes_of_profiles_are_those_of_the_likelihood(result):
    points = result.part("0000-000")["profiles"]
    one = points[points["outcome"] == 0].sort_values("log_rr")
    top = one["log_likelihood"].to_numpy().argmax()
    assert abs(one["gradient"].iloc[top]) < 1e-3
    steps = np.diff(one["log_likelihood"]) / np.diff(one["log_rr"])
    between = (one["gradient"].to_numpy()[1:] + one["gradient"].to_numpy()[:-1]) / 2
    np.testing.assert_allclose(between, steps, atol=0.3)
    line = result._lines.iloc[0]
    assert line["llr"] == pytest.approx(-one.loc[one["log_rr"] == 0, "log_likelihood"].iloc[0])


def test_tables_are_those_of_the_results_model(result, tmp_path):
    lines = check_tables(result.export(tmp_path, "claims"))
    assert {*lines} == {path.stem for path in tmp_path.glob("*.csv")} == {*read_specification()}
    empty = {name for name, n in lines.items() if n == 0}
    assert empty == {"cm_interaction_result"}
    assert lines["cm_result"] == lines["cm_diagnostics_summary"] == 14
    estimates = pd.read_csv(tmp_path / "cm_result.csv")
    assert set(estimates["outcome_id"]) == {77, 1, 2, 3, 4, 5, 6}
    assert (estimates["database_id"] == "claims").all()
    shown = result.table.iloc[0]
    assert estimates["rr"].iloc[0] == pytest.approx(shown["ratio"])
    # digest::digest("1 2 NA", algo = "murmur32", serialize = FALSE) - 2^31, as CohortMethod 6.0.2
    assert (estimates["target_comparator_id"] == 894409308).all()
    model = pd.read_csv(tmp_path / "cm_propensity_model.csv")
    assert 0 in set(model["covariate_id"])
    density = pd.read_csv(tmp_path / "cm_preference_score_dist.csv")
    assert density["target_density"].iloc[:100].sum() / 99 == pytest.approx(1, abs=0.1)


def test_small_counts_and_hidden_estimates_are_not_exported(result, tmp_path):
    strict = changed(diagnostics={"max_difference": 1e-3})
    hidden = Study.read(strict).run(Claims(), result.folder)
    hidden.export(tmp_path, min_cell_count=50)
    estimates = pd.read_csv(tmp_path / "cm_result.csv").set_index("outcome_id")
    assert estimates.loc[77, ["rr", "ci_95_lb", "p", "llr", "calibrated_rr"]].isna().all(axis=None)
    counts = estimates["target_outcomes"]
    assert set(counts[counts < 50]) <= {-50, 0}
    assert -50 in set(counts)
    for name in ("cm_likelihood_profile", "cm_kaplan_meier_dist"):
        assert 77 not in set(pd.read_csv(tmp_path / f"{name}.csv")["outcome_id"])


BROKEN = {
    "a column": (lambda t: t.drop(columns="rr"), "differ in 'rr'"),
    "a type": (lambda t: t.assign(target_days="1.5"), "'1.5' in 'target_days'"),
    "a number": (lambda t: t.assign(rr="much"), "'much' in 'rr'"),
    "a key": (lambda t: pd.concat([t, t]), "has a key twice"),
    "missing": (lambda t: t.assign(outcome_id=""), "no 'outcome_id' in line 2"),
    "missing later": (
        lambda t: t.assign(outcome_id=t["outcome_id"].where(t.index != 9, "")),
        "no 'outcome_id' in line 11",
    ),
    "size": (lambda t: t.assign(analysis_id=str(2**31)), "'2147483648' in 'analysis_id'"),
}


@pytest.fixture(scope="module")
def exported(result, tmp_path_factory):
    return result.export(tmp_path_factory.mktemp("tables"))


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", BROKEN)
def test_tables_are_checked(exported, tmp_path, wrong, monkeypatch):
    monkeypatch.setattr(tables, "LINES_AT_ONCE", 9)  # so that keys that are alike are apart
    change, message = BROKEN[wrong]
    path = shutil.copytree(exported, tmp_path, dirs_exist_ok=True) / "cm_result.csv"
    change(pd.read_csv(path, dtype=str)).to_csv(path, index=False)
    with pytest.raises(ValueError, match=message):
        check_tables(tmp_path)


def test_the_page_stands_alone(result, tmp_path):
    text = result.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(?!https?://|file:|#)', text)
    assert text.count("<svg") == (5 if "The figure needs" not in text else 0) + 2
    shown = result.table[result.table["kind"] == "interest"].iloc[0]
    assert f"{shown['ratio']:.2f} ({shown['ratio_lower']:.2f}" in text
    for heading in ("Estimates", "diagnostics", "balance", "negative controls", "Attrition"):
        assert heading in text


def test_the_null_of_the_page_is_of_negative_controls():
    rng = np.random.default_rng(0)
    lines = pd.DataFrame({"coef": rng.normal(0.1, 0.1, 16), "standard_error": 0.1})
    positive = lines[8:].assign(true_coef=1.0, coef=lines["coef"] + 1.0)
    null = calibrate(lines, lines[:8], positive_controls=positive)
    own = lines[:1].assign(ratio_lower=1.0, ratio_upper=2.0)
    (_, _, figure), _ = page._of_effects("new against old", own, null, "hazard ratio")
    drawn = figure.draw.__self__
    np.testing.assert_array_equal(drawn.controls["coef"], lines["coef"][:8])
    assert (drawn.mean, drawn.sd) == tuple(null.null[["mean", "sd"]])


def test_parts_survive_files():
    table = pd.DataFrame({"n": pd.array([1, None], "Int64"), "t": ["a", None], "x": [0.1, np.nan]})
    found = comparison.unpack(comparison.pack({"of": table}))["of"]
    assert found["n"].tolist()[0] == 1.0 and np.isnan(found["n"][1])
    assert found["t"].tolist() == ["a", ""]
    assert found["x"][0] == 0.1
