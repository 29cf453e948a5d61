"""Average risks by augmented weights: riskRegression, the definition, double robustness."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from whole_numbers import AGE, CODE, DRUG, ROW, SEX, TIME

from sksurvgpu import (
    CategoryColumns,
    CauseSpecificCox,
    CoxLassoCCD,
    FineGrayCCD,
    LogisticCCD,
    average_risk,
    bootstrap,
    competing_risks,
    make_pipeline,
    surv,
)
from sksurvgpu.inference import _augmented

FRAME = pd.DataFrame({"age": AGE, "sex": SEX, "drug": DRUG})
TIMES = [0.5, 1.0, 1.5]
SCENARIOS = {"none": {"drug": 0}, "all": {"drug": 1}}
FREE = CoxLassoCCD(alpha=0, tol=1e-12)
CHANCE = expit(0.047746764937614719 - 0.378740044641531159 * AGE - 0.896297949697084095 * SEX)
CHANCES = np.column_stack([1 - CHANCE, CHANCE])
Y, CODES = surv(CODE > 0, TIME), competing_risks(CODE, TIME)

# R 4.2.2, riskRegression 2022.11.28, survival 3.5-3, with the rows of `whole_numbers`:
#   d$trt <- factor(d$drug); d$any <- as.numeric(d$code > 0)
#   f <- coxph(Surv(time, any) ~ trt + age + sex, data = d, ties = "breslow", x = TRUE, y = TRUE,
#              control = coxph.control(eps = 1e-13, iter.max = 50, toler.chol = 1e-14))
#   p <- glm(trt ~ age + sex, binomial, d, control = glm.control(epsilon = 1e-14))  # CHANCE
#   g <- coxph(Surv(time, any == 0) ~ strata(trt), data = d, x = TRUE, y = TRUE)
#   ate(event = f, treatment = p, censor = g, data = d, times = c(0.5, 1, 1.5), se = TRUE,
#       estimator = c("GFORMULA", "AIPTW"), known.nuisance = TRUE, product.limit = FALSE)
G_FORMULA = [
    *(0.39941123548326002, 0.61434049560891268, 0.74481361538892554),
    *(0.28186975626811178, 0.46550410881102644, 0.59656941130878927),
]
AIPTW = [
    *(0.37979813899340803, 0.61770893005004168, 0.75812268868730559),
    *(0.32157829189455650, 0.46621609713191220, 0.56554804199956454),
]
ERRORS = [
    *(0.054044120920737050, 0.057178728549011675, 0.053357612297552363),
    *(0.065037656676934771, 0.075030190711757067, 0.080940416393714923),
]
DIFFERENCE = [-0.05821984709885153, -0.15149283291812948, -0.19257464668774105]
ERROR_OF_DIFFERENCE = [0.083210493132407484, 0.093211880405719566, 0.096364257586756430]
# the same with CSC(Hist(time, code) ~ trt + age + sex, ties = "breslow") and cause = 1, whose
# incidences add up otherwise
AIPTW_CSC = [
    *(0.22408368320311922, 0.36357094065199846, 0.42941408179869500),
    *(0.17557550865654695, 0.24631980695561551, 0.31071655430633743),
]
ERRORS_CSC = [
    *(0.0458718210645123400, 0.0556879892018937034, 0.0590823307739089532),
    *(0.0538180500303321943, 0.0627521485709682525, 0.0725053118934236018),
]


def test_equals_risk_regression():
    model = FREE.fit(FRAME, Y)
    plain = average_risk(model, FRAME, Y, SCENARIOS, TIMES)
    np.testing.assert_allclose(plain.risks["risk"], G_FORMULA, rtol=1e-8)
    result = average_risk(model, FRAME, Y, SCENARIOS, TIMES, propensity=CHANCES, level=0.9)
    np.testing.assert_allclose(result.risks["risk"], AIPTW, rtol=1e-8)
    np.testing.assert_allclose(result.risks["standard_error"], ERRORS, rtol=1e-8)
    half = 1.6448536269514722 * np.array(ERRORS)
    np.testing.assert_allclose(result.risks["upper"], np.add(AIPTW, half), rtol=1e-8)
    contrasts = result.contrasts
    np.testing.assert_allclose(contrasts["difference"], DIFFERENCE, rtol=1e-8)
    half = 1.6448536269514722 * np.array(ERROR_OF_DIFFERENCE)
    np.testing.assert_allclose(contrasts["difference_lower"], DIFFERENCE - half, rtol=1e-8)
    assert repr(result).startswith("<AverageRisk in 2 scenarios by 3 times, 90% intervals>")
    second = average_risk(model, FRAME, Y, SCENARIOS, TIMES, propensity=CHANCES[:, 1], level=0.9)
    np.testing.assert_allclose(second.risks, result.risks, rtol=1e-14)


def test_competing_events_are_near_risk_regression():
    model = CauseSpecificCox(FREE).fit(FRAME, CODES)
    risks = average_risk(model, FRAME, CODES, SCENARIOS, TIMES, propensity=CHANCES).risks
    np.testing.assert_allclose(risks["risk"], AIPTW_CSC, atol=2e-4)
    np.testing.assert_allclose(risks["standard_error"], ERRORS_CSC, atol=5e-5)


def by_definition(model, frame, code, time, weight, treatment, chances, horizon, free_of):
    """Term of every row of one treatment, with sums over times of censoring."""
    found = model.predict_risk(frame.assign(drug=treatment), [horizon]).to_numpy()[:, 0].copy()
    arm = (frame["drug"] == treatment).to_numpy()

    def hazard(s):
        stay = arm & ((time > s) | ((time == s) & (code == 0)))
        gone = weight[arm & (time == s) & (code == 0)].sum()
        return gone / weight[stay].sum() if gone else 0.0

    def uncensored(s):
        return np.exp(-sum(hazard(u) for u in np.unique(time) if u < s))

    for i in np.flatnonzero(arm):
        row, end = frame.iloc[[i]], time[i]
        value = (code[i] == 1 and end <= horizon) / uncensored(end) - found[i]
        risk_of = {
            s: model.predict_risk(row, [s]).to_numpy().item()
            for s in np.unique(time[arm & (code == 0)])
            if s <= min(end, horizon)
        }
        for s, risk in risk_of.items():
            if s == end and code[i] != 0:
                continue
            jump = (s == end) - hazard(s)
            value += (found[i] - risk) * jump / (free_of(row, s) * uncensored(s))
        found[i] += value / chances[i]
    return found


@pytest.mark.thorough(but=r"\[one\]")
@pytest.mark.parametrize("kind", ["one", "competing"])
def test_equals_the_definition_with_ties_and_weights(kind):
    some = np.arange(60)
    frame, time, code = FRAME.iloc[some], np.ceil(TIME[some] * 5) / 5, CODE[some]
    weight = 1.0 + some % 3
    chances = CHANCES[some]
    if kind == "one":
        code = np.minimum(code, 1)
        y, model = surv(code > 0, time), FREE
    else:
        y, model = competing_risks(code, time), CauseSpecificCox(FREE)
    model = model.fit(frame, y, sample_weight=weight)

    def free_of(row, s):
        if kind == "one":
            return 1.0 - model.predict_risk(row, [s]).to_numpy().item()
        return 1.0 - sum(model.predict_risk(row, [s], event=k).to_numpy().item() for k in (1, 2))

    given = {"propensity": chances, "sample_weight": weight}
    result = average_risk(model, frame, y, SCENARIOS, [0.6, 1.0], **given)
    terms = np.array([
        [
            by_definition(model, frame, code, time, weight, a, chances[:, a], h, free_of)
            for h in (0.6, 1.0)
        ]
        for a in (0, 1)
    ])  # fmt: skip
    mean = np.average(terms, axis=2, weights=weight)
    np.testing.assert_allclose(result.risks["risk"], mean.ravel(), rtol=1e-10)
    influence = weight * (terms - mean[:, :, None]) / weight.sum()
    errors = np.sqrt((influence**2).sum(axis=2))
    np.testing.assert_allclose(result.risks["standard_error"], errors.ravel(), rtol=1e-10)
    relative = influence / mean[:, :, None]
    width = 1.959963984540054 * np.sqrt(((relative[1] - relative[0]) ** 2).sum(axis=1))
    ratio = result.contrasts["ratio_upper"] / result.contrasts["ratio"]
    np.testing.assert_allclose(np.log(ratio), width, rtol=1e-10)


def test_without_censoring_it_is_by_hand():
    """Of three treatments."""
    arm, y = np.arange(150) % 3, surv(np.ones(150, bool), TIME)
    frame, chances = FRAME.assign(drug=arm), np.tile([0.2, 0.3, 0.5], (150, 1))
    model = FREE.fit(frame, y)
    scenarios = {str(a): {"drug": a} for a in (2, 0, 1)}
    found = average_risk(model, frame, y, scenarios, 1.0, propensity=chances).risks["risk"]
    for a in range(3):
        risk = model.predict_risk(frame.assign(drug=a), [1.0]).to_numpy()[:, 0]
        terms = risk + (arm == a) * ((TIME <= 1) - risk) / chances[:, a]
        assert found[str(a)].item() == pytest.approx(terms.mean(), rel=1e-12)


def test_tables_strata_pipelines_and_parts_of_any_kind(monkeypatch):
    stratum = SEX
    given = {"propensity": CHANCES, "strata": stratum}
    expected = average_risk(
        FREE.fit(FRAME, Y, strata=stratum), FRAME, Y, SCENARIOS, TIMES, **given
    ).risks
    monkeypatch.setattr(_augmented, "MOST_CELLS", 100)  # a few rows at once
    by_place = {name: {2: a} for a, name in enumerate(SCENARIOS)}
    for X in (FRAME, FRAME.to_numpy(), csr_array(FRAME.to_numpy())):
        model = CoxLassoCCD(alpha=0, tol=1e-12).fit(X, Y, strata=stratum)
        scenarios = SCENARIOS if X is FRAME else by_place
        found = average_risk(model, X, Y, scenarios, TIMES, **given).risks
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    words = FRAME.assign(drug=np.where(DRUG == 1, "yes", "no"))
    model = make_pipeline(CategoryColumns(), FREE).fit(words, Y)
    scenarios = {"none": {"drug": "no"}, "all": {"drug": "yes"}}
    found = average_risk(model, words, Y, scenarios, TIMES, propensity=CHANCES)
    np.testing.assert_allclose(found.risks["risk"], AIPTW, rtol=1e-6)


def draw(rng, n):
    """Who is ill is treated more; events depend on the square of x and the treatment."""
    x = rng.normal(size=n)
    chance = 1 / (1 + np.exp(-(x**2 - 1)))
    drug = (rng.random(n) < chance).astype(float)
    event = rng.exponential(np.exp(-(0.7 * x**2 - 0.7 * drug)))
    lost = rng.exponential(2.0, n)
    frame = pd.DataFrame({"x": x, "square": x**2, "drug": drug})
    return frame, surv(event <= lost, np.minimum(event, lost)), chance, x


def truth():
    x = np.random.default_rng(0).normal(size=1_000_000)
    return [np.mean(1 - np.exp(-0.5 * np.exp(0.7 * x**2 - 0.7 * a))) for a in (0, 1)]


def test_one_of_two_models_may_be_wrong():
    rng = np.random.default_rng(6)
    frame, y, chance, x = draw(rng, 8_000)
    right, wrong = frame, frame.drop(columns="square")
    expected = truth()
    plain = average_risk(FREE.fit(wrong, y), wrong, y, SCENARIOS, 0.5).risks["risk"]
    assert np.abs(plain - expected).max() > 0.04
    for table, given in ((wrong, chance), (right, np.full(len(x), 0.4)), (right, chance)):
        model = FREE.fit(table, y)
        result = average_risk(model, table, y, SCENARIOS, 0.5, propensity=given)
        assert np.abs(result.risks["risk"] - expected).max() < 0.02


@pytest.mark.thorough
def test_censoring_by_treatment_and_covariates_is_left_to_the_model_of_risks():
    """Those with a large x are lost early, which no curve of censoring knows."""
    rng = np.random.default_rng(7)
    frame, y, chance, x = draw(rng, 8_000)
    lost = rng.exponential(np.exp(-0.5 * np.abs(x) ** 2))
    y = surv(y["event"] & (y["time"] <= lost), np.minimum(y["time"], lost))
    model = FREE.fit(frame, y)
    result = average_risk(model, frame, y, SCENARIOS, 0.5, propensity=chance)
    assert np.abs(result.risks["risk"] - truth()).max() < 0.03


@pytest.mark.slow
def test_intervals_cover():
    """Of 500 samples of 400 rows 95 % do (4 standard errors: 0.039)."""
    rng = np.random.default_rng(8)
    none, everybody = truth()
    covered = np.zeros(2)
    for _ in range(500):
        frame, y, *_ = draw(rng, 400)
        others = frame[["x", "square"]]
        chances = LogisticCCD(alpha=0).fit(others, frame["drug"]).predict_proba(others)
        model = CoxLassoCCD(alpha=0).fit(frame, y)
        result = average_risk(model, frame, y, SCENARIOS, 0.5, propensity=chances).contrasts.iloc[0]
        covered[0] += result["difference_lower"] <= everybody - none <= result["difference_upper"]
        covered[1] += result["ratio_lower"] <= everybody / none <= result["ratio_upper"]
    np.testing.assert_allclose(covered / 500, 0.95, atol=0.039)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"propensity": CHANCES[:, [0, 1, 1]]}, r"shape \(150, 3\); pass, for each of 150 rows"),
        ({"propensity": CHANCES[1:]}, r"shape \(149, 2\)"),
        ({"propensity": 2 * CHANCES}, "`propensity` has rows that are no probabilities"),
        ({"propensity": np.full(150, np.nan)}, "`propensity` has rows that are no prob"),
        ({"propensity": CHANCES / 2}, "no probabilities, from 0 to 1, 1 in all"),
        ({"propensity": np.zeros(150)}, "`propensity` is 0 in row 0 for its own treatment 1"),
        (
            {"propensity": pd.DataFrame(CHANCES)[::-1]},
            "index of `propensity` has the labels of that of `X` in another order",
        ),
        (
            {"X": FRAME.assign(drug=np.where(ROW == 9, np.nan, DRUG))},
            "`X` has missing values in th",
        ),
        (
            {"sample_weight": pd.Series(TIME)[::-1]},
            "index of `sample_weight` has the labels of that of `X` in another order",
        ),
        ({"y": Y[1:]}, "`y` has 149 rows, `X` has 150 rows"),
        ({"scenarios": {"a": {"drug": 2}}}, "'drug' to 2, which no row has"),
        ({"scenarios": {"a": {}, "b": {"drug": 1}}}, "`scenarios` with `propensity` set the col"),
        ({"scenarios": {"a": {"drug": 0, "age": 1}}}, "`scenarios` with `propensity` set the col"),
        ({"scenarios": {"a": {"drug": DRUG}}}, "`scenarios` with `propensity` set the col"),
        ({"times": [1.0, 2.75]}, "`times` has 2.75, and rows of one treatment end by 2"),
        ({"y": surv(CODE > 0, TIME, start=0 * TIME)}, "has a field 'start'"),
    ],
)
def test_bad_input_is_refused(change, message):
    given = {"X": FRAME, "y": Y, "scenarios": SCENARIOS, "times": 1.0, "propensity": CHANCES}
    with pytest.raises(ValueError, match=message):
        average_risk(FREE.fit(FRAME, Y), **{**given, **change})


def test_rows_of_weight_0_do_not_make_times_known():
    weight = np.where((DRUG == 1) & (TIME > 1.5), 0.0, 1.0)
    model, given = FREE.fit(FRAME, Y, sample_weight=weight), {"propensity": CHANCES}
    with pytest.raises(ValueError, match="and rows of one treatment end by 1"):
        average_risk(model, FRAME, Y, SCENARIOS, 1.75, sample_weight=weight, **given)


def test_names_of_treatments_say_which_probabilities_are_whose():
    given = FREE.fit(FRAME, Y), FRAME, Y, SCENARIOS, 1.0
    expected = average_risk(*given, propensity=CHANCES).risks
    table = pd.DataFrame(CHANCES, columns=[0, 1])[[1, 0]]
    pd.testing.assert_frame_equal(average_risk(*given, propensity=table).risks, expected)
    with pytest.raises(TypeError, match="`propensity` has dtype object; pass numbers"):
        average_risk(*given, propensity=table.astype(object))


def test_there_is_no_ratio_before_all_events():
    result = average_risk(FREE.fit(FRAME, Y), FRAME, Y, SCENARIOS, 0.0, propensity=CHANCES)
    assert result.contrasts["difference"].item() == 0.0 and result.contrasts["ratio"].isna().all()


def test_other_models_and_replicates_are_refused():
    model = FineGrayCCD(alpha=0).fit(FRAME, CODES)
    with pytest.raises(TypeError, match="FineGrayCCD, which has no probability of no event"):
        average_risk(model, FRAME, CODES, SCENARIOS, 1.0, propensity=CHANCES)
    model = CoxLassoCCD(alpha=0).fit(FRAME, Y)
    draws = bootstrap(model, FRAME, Y, n_replicates=2, random_state=0)
    given = {"propensity": CHANCES, "bootstrap": draws}
    with pytest.raises(ValueError, match="`propensity` has intervals of its own"):
        average_risk(model, FRAME, Y, SCENARIOS, 1.0, **given)
