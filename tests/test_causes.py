"""Hazards of several kinds of event, against R's multi-state models and sums by hand."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from sksurvgpu import (
    CauseSpecificCox,
    CoxLassoCCD,
    CoxLassoCV,
    CumulativeIncidenceDisplay,
    LogisticCCD,
    StackedIncidenceDisplay,
    StepColumns,
    competing_risks,
    make_pipeline,
    surv,
)
from sksurvgpu.estimators.joint_baseline import add_up
from sksurvgpu.exceptions import NothingSelectedWarning
from sksurvgpu.metrics import calibration, concordance_competing
from sksurvgpu.nonparametric import aalen_johansen

ROW = np.arange(1, 301)
X = np.column_stack([(ROW * 37 % 101) / 100, ROW * 53 % 11 < 5]).astype(float)
TIME = ROW * 71 % 61 + 1.0
START = np.floor(TIME * (ROW * 29 % 10) / 20)
CODE = np.array([0, 1, 1, 2, 0, 3, 2])[ROW * 13 % 7]
NEW = np.array([[0.2, 1.0], [0.9, 0.0]])
FREE = CoxLassoCCD(alpha=0.0, tol=1e-12)

# survival 3.8: coxph(Surv(time, event) ~ x1 + x2, id = id), and with Surv(start, time, event);
# survfit(..., newdata)$pstate at 10, 30 and 61, the first state being that of no event
COEF = {
    "whole": [
        [0.0461450512224753, 0.1036064090298112],
        [-0.1679617166732496, 0.1453121940236937],
        [0.1403915877963172, 0.2029955065484397],
    ],
    "late": [
        [-0.0899540555317281, 0.1057905623391189],
        [-0.2827442848495761, 0.1487616795364774],
        [0.0328087956813774, 0.2053440613569087],
    ],
}
STATES = {
    "whole": [
        [0.8725284924361947, 0.0562072720567586, 0.0497430576837709, 0.0215211778232757],
        [0.5941400256722896, 0.1580316522357409, 0.1685394954394472, 0.0792888266525221],
        [0.0212943193332854, 0.3758799836038004, 0.4104213993186545, 0.1924042977442594],
        [0.889026733472824, 0.0528187704981199, 0.0385987180067129, 0.0195557780223430],
        [0.639865814101622, 0.1520551695800297, 0.1340883440919200, 0.0739906722264285],
        [0.036427089430339, 0.4028565121336591, 0.3618035760189166, 0.1989128224170857],
    ],
    "late": [
        [0.7046905679139270, 0.139650993486154, 0.111612721703900, 0.0440457168960191],
        [0.4537632969032158, 0.231439368607221, 0.219015464025417, 0.0957818704641460],
        [0.0142123026481686, 0.399156441474704, 0.404236423658516, 0.1823948322186115],
        [0.7582898991782276, 0.121717064646635, 0.0817980241723557, 0.0381950120027812],
        [0.5370492840901195, 0.209052746819639, 0.1671608479671843, 0.0867371211230567],
        [0.0350252095889587, 0.417051110204060, 0.3565409039270945, 0.1913827762798860],
    ],
}
TIMES = [10.0, 30.0, 61.0]


def outcome(**fields):
    return competing_risks(CODE, TIME, labels={1: "a", 2: "b", 3: "c"}, **fields)


@pytest.mark.parametrize("entry", ["whole", "late"])
def test_coefficients_and_states_are_those_of_survival(entry):
    y = outcome(start=START) if entry == "late" else outcome()
    model = CauseSpecificCox(FREE).fit(X, y)
    assert model.events_ == ["a", "b", "c"]
    coef = [fitted.coef_ for fitted in model.estimators_.values()]
    np.testing.assert_allclose(coef, COEF[entry], atol=1e-9)
    curves = model.predict_survival_function(NEW)
    found = [np.concatenate([curve(TIMES) for curve in curves])]
    found += [model.predict_risk(NEW, TIMES, event=event).to_numpy().ravel() for event in "abc"]
    np.testing.assert_allclose(np.column_stack(found), STATES[entry], atol=1e-9)


def test_curves_functions_and_risks_agree_and_add_up():
    model = CauseSpecificCox(CoxLassoCCD(alpha=0.001), event_of_interest="b").fit(X, outcome())
    of_all = [
        model.predict_cumulative_incidence_function(X, return_array=True, event=event)
        for event in (1, "b", 3)
    ]
    left = model.predict_survival_function(X, return_array=True)
    np.testing.assert_allclose(left + sum(of_all), 1.0, atol=1e-14)
    times = model.unique_times_
    curves = model.predict_cumulative_incidence_function(X[:4])
    for row, curve in enumerate(curves):
        np.testing.assert_allclose(curve(times), of_all[1][row], atol=1e-15)
        assert curve(0.0) == 0.0
    risk = model.predict_risk(X, [0.5, 30.0])
    np.testing.assert_allclose(risk[30.0], of_all[1][:, np.searchsorted(times, 30.0)], atol=1e-15)
    assert (risk[0.5] == 0.0).all()
    assert risk.attrs["event_of_interest"] == "b"
    with pytest.warns(UserWarning, match="end at 61"):
        assert model.predict_risk(X, [62.0]).isna().all(axis=None)


def by_hand(hazards):
    """Incidences by the recursion over times of one row."""
    left, before, found = 1.0, np.zeros(len(hazards)), np.zeros(hazards.shape)
    incidence = np.zeros(len(hazards))
    for t in range(hazards.shape[1]):
        step = hazards[:, t] - before
        if step.sum() > 0:
            incidence = incidence + step / step.sum() * left * (1 - np.exp(-step.sum()))
        left, before = left * np.exp(-step.sum()), hazards[:, t]
        found[:, t] = incidence
    return found


@pytest.mark.parametrize("start", [None, 12.0])
def test_strata_changing_coefficients_and_landmarks_are_those_of_the_recursion(start):
    stratum = ROW % 2
    one = CoxLassoCCD(alpha=0.0, time_varying={0: [20.0]})
    model = CauseSpecificCox(one).fit(X, outcome(), strata=stratum)
    fitted = model.estimators_.values()
    given = {"strata": stratum[:6], "return_array": True, "start": start}
    hazards = np.stack([m.predict_cumulative_hazard_function(X[:6], **given) for m in fitted])
    found = np.stack(
        [model.predict_cumulative_incidence_function(X[:6], event=k, **given) for k in "abc"]
    )
    for row in range(6):
        known = ~np.isnan(hazards[0, row])
        expected = by_hand(hazards[:, row, known])
        np.testing.assert_allclose(found[:, row, known], expected, atol=1e-13)
        assert np.isnan(found[:, row, ~known]).all()
    risk = model.predict_risk(X[:6], [40.0], event="c", strata=stratum[:6], start=start)
    place = np.searchsorted(model.estimators_["a"].unique_times_, 40.0, side="right") - 1
    np.testing.assert_allclose(risk[40.0], found[2, :, place], atol=1e-15)


def test_hazards_beyond_all_numbers_have_incidences():
    hazards = np.array([[[0.0, 1.0, np.inf, np.inf]], [[1.0, 2.0, 2.0, np.inf]]])
    found = add_up(hazards)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:, 0, :2], by_hand(hazards[:, 0, :2]), atol=1e-15)
    np.testing.assert_allclose(found[:, 0, 2:].sum(axis=0), 1.0, atol=1e-15)
    np.testing.assert_allclose(found[1, 0, 2:], found[1, 0, 1], atol=1e-15)


def test_models_are_those_of_single_fits_of_any_kind():
    weight = 1.0 + ROW % 3
    of_b = make_pipeline(StepColumns(columns=["x1"], n_steps=5), CoxLassoCCD(alpha=0.01))
    of_c = CoxLassoCV(n_alphas=5, cv=3, random_state=0)
    frame = pd.DataFrame(X, columns=["x1", "x2"])
    chosen = {"a": CoxLassoCCD(l1_ratio=0.0), 2: of_b, "c": of_c}
    model = CauseSpecificCox(chosen).fit(frame, outcome(start=START), sample_weight=weight)
    for code, (event, one) in enumerate(zip("abc", chosen.values(), strict=True), 1):
        last = f"{one.steps[-1][0]}__sample_weight" if event == "b" else "sample_weight"
        alone = one.fit(frame, surv(code == CODE, TIME, start=START), **{last: weight})
        np.testing.assert_array_equal(
            alone.predict(frame), model.predict(frame, event=event), strict=True
        )
    assert model.predict_risk(frame.iloc[5:7], [20.0]).index.tolist() == [5, 6]
    assert model.n_features_in_ == 2
    table = model.summary()
    assert sum(name.startswith("x1>") for _, name in table.loc[["b"]].index) == 5
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        copied.predict_risk(frame, [9.0]), model.predict_risk(frame, [9.0])
    )


@pytest.mark.parametrize("start", [None, START * (START < 8)], ids=["whole", "late"])
def test_searches_choose_a_penalty_by_its_score(start):
    y = competing_risks(CODE, TIME, start=start)
    given = {"estimator__alpha": [0.3, 0.001]}
    search = GridSearchCV(CauseSpecificCox(CoxLassoCCD()), given, cv=3, refit=False)
    search.fit(csr_array(X), y)
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] == 0.5
    assert 0.3 < scores[1] < 0.7


@pytest.mark.parametrize(
    ("estimator", "y", "message"),
    [
        (None, surv(CODE > 0, TIME), "no competing events"),
        (None, competing_risks(np.zeros(300, int), TIME), "no event"),
        (LogisticCCD(), outcome(), "LogisticCCD"),
        ({"a": FREE}, outcome(), r"of the events \['a'\], and `y` has \['a', 'b', 'c'\]"),
        ({"a": FREE, 1: FREE, 2: FREE, 3: FREE}, outcome(), r"\['a', 1, 2, 3\]"),
        ({0: FREE, 1: FREE, 2: FREE}, outcome(), r"of the events \[0, 1, 2\]"),
        ({"z": CoxLassoCCD()}, outcome(), "'z'"),
    ],
)
def test_bad_input_is_refused(estimator, y, message):
    with pytest.raises((ValueError, TypeError), match=message):
        CauseSpecificCox(estimator).fit(X, y)


def test_events_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="`event_of_interest` is 4"):
        CauseSpecificCox(event_of_interest=4).fit(X, outcome())
    model = CauseSpecificCox(FREE).fit(X, outcome())
    with pytest.raises(ValueError, match=r"`event` is 'z', must be one of \['a', 'b', 'c'\]"):
        model.predict_risk(X, [10.0], event="z")
    with pytest.raises(ValueError, match="overlap"):
        competing_risks([0, 1], [5.0, 6.0], start=[0.0, 4.0], subject=[1, 1])


def test_warnings_and_errors_say_of_which_event_they_are():
    with pytest.warns(NothingSelectedWarning, match=r"^Event 'b': CoxLassoCCD\(alpha=9\)"):
        CauseSpecificCox({"a": FREE, "b": CoxLassoCCD(alpha=9), "c": FREE}).fit(X, outcome())
    with pytest.raises(ValueError) as error:
        CauseSpecificCox({"a": FREE, "b": CoxLassoCCD(bounds=(1, 2)), "c": FREE}).fit(X, outcome())
    assert error.value.__notes__ == ["This is about the model of event 'b'."]


def test_scores_read_strata_and_labels_from_the_outcome():
    stratum = np.where(ROW < 5, 9, ROW % 2)
    short = np.where(ROW < 5, 0.5, TIME)  # a stratum that ends before all events of the others
    code = np.where(ROW < 5, 0, CODE)
    given = {"labels": {1: "a", 2: "b", 3: "c"}, "stratum": stratum}
    y = competing_risks(code, short, **given)
    model = CauseSpecificCox(CoxLassoCCD(alpha=0.001), event_of_interest="b").fit(X, y)
    score = model.score(X, y)
    long = ROW >= 5
    risk = model.predict_risk(X[long], 61.0, strata=stratum[long])[61.0]
    assert score == pytest.approx(concordance_competing(y[long], risk, event_of_interest=2))
    assert score == model.score(X, competing_risks(code, short), strata=stratum)
    swapped = competing_risks(
        np.array([0, 2, 1, 3])[code], short, labels={1: "b", 2: "a", 3: "c"}, stratum=stratum
    )
    assert score == model.score(X, swapped)
    search = GridSearchCV(model, {"estimator__alpha": [0.001]}, cv=3, error_score="raise")
    assert 0.3 < search.fit(X[long], y[long]).best_score_ < 0.7


def test_fields_of_the_outcome_may_have_any_names():
    y = np.empty(300, [("cause", int), ("event", float)])
    y["cause"], y["event"] = CODE, TIME
    model, named = (CauseSpecificCox(FREE).fit(X, it) for it in (y, competing_risks(CODE, TIME)))
    np.testing.assert_array_equal(model.predict(X), named.predict(X))
    assert model.score(X, y) == named.score(X, competing_risks(CODE, TIME))


def test_predictors_with_changing_coefficients_take_a_time():
    changing = CoxLassoCCD(alpha=0.0, time_varying={0: [20.0]})
    model = CauseSpecificCox({"a": FREE, "b": changing, "c": changing}).fit(X, outcome())
    for time in (5.0, 30.0):
        of_b = model.estimators_["b"].predict(X, time=time)
        np.testing.assert_array_equal(model.predict(X, event="b", time=time), of_b)
    with pytest.raises(ValueError, match="`time` is missing"):
        model.predict(X, event="b")


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("predict", (X,)),
        ("predict_cumulative_incidence_function", (X,)),
        ("predict_survival_function", (X,)),
        ("predict_risk", (X, [1.0])),
        ("score", (X, outcome())),
        ("summary", ()),
    ],
)
def test_models_without_a_fit_say_so(method, given):
    with pytest.raises(NotFittedError):
        getattr(CauseSpecificCox(), method)(*given)


def test_names_of_columns_are_those_of_the_fit():
    frame = pd.DataFrame(X, columns=["x1", "x2"])
    model = CauseSpecificCox(FREE)
    assert not hasattr(model.fit(X, outcome()), "feature_names_in_")
    assert model.fit(frame, outcome()).feature_names_in_.tolist() == ["x1", "x2"]


def test_risks_say_of_which_event_they_are_to_outcomes_without_labels():
    model = CauseSpecificCox(FREE, event_of_interest=2).fit(X, outcome())
    for y in (outcome(), competing_risks(CODE, TIME)):
        with pytest.raises(ValueError, match="predicted for event 2, `event_of_interest` is 1"):
            calibration(y, model.predict_risk(X, 30.0), horizon=30.0)


def test_figures_are_of_the_event_that_is_asked_for():
    pytest.importorskip("matplotlib").use("Agg")
    model = CauseSpecificCox(FREE).fit(X, outcome())
    given_of = {"a": {}, "b": {"event_of_interest": "b"}, "c": {"event_of_interest": 3}}
    for event, given in given_of.items():
        display = CumulativeIncidenceDisplay.from_estimator(
            model, X[:1], aalen_johansen=outcome(), **given
        )
        risk = model.predict_risk(X[:1], 30.0, event=event)
        assert display.functions[0](30.0) == pytest.approx(risk.iloc[0, 0])
        [observed] = display.observed_.values()
        assert observed.get_ydata()[-1] == aalen_johansen(outcome()).functions["all", event].y[-1]


def test_strata_without_events_of_a_kind_are_those_of_survival():
    stratum = ROW % 3
    code = np.where((stratum == 1) & (CODE == 2) | (stratum == 2) & (TIME > 40), 0, CODE)
    y = competing_risks(code, TIME, stratum=stratum)
    # survival 3.8: survfit of the multi-state coxph(... + strata(s), weights = w), at 50; and of
    # one coxph for each kind
    expected = {
        "breslow": [0.503067637161509, 0.363485490494478, 0.0, 0.133446872344013],
        "efron": [0.502086228087722],
    }
    for ties, states in expected.items():
        one = CoxLassoCCD(alpha=0.0, tol=1e-12, ties=ties)
        model = CauseSpecificCox(one).fit(X, y, sample_weight=1.0 + ROW % 3)
        [curve] = model.predict_survival_function(NEW[1:], strata=[1])
        risks = [model.predict_risk(NEW[1:], 50.0, event=k, strata=[1]) for k in (1, 2, 3)]
        found = [curve(50.0), *(risk.iloc[0, 0] for risk in risks)]
        np.testing.assert_allclose(found[: len(states)], states, atol=1e-9)


def test_incidences_of_rows_are_stacked():
    model = CauseSpecificCox(FREE).fit(X, outcome())
    display = StackedIncidenceDisplay.from_estimator(model, NEW)
    assert list(display.functions) == ["row 0", "row 1"]
    assert [text.get_text() for text in display.labels_] == ["a", "b", "c", "no event"]
    expected = model.predict_cumulative_incidence_function(NEW, event="b")[1]
    np.testing.assert_array_equal(display.functions["row 1"][1](TIMES), expected(TIMES))
    with pytest.raises(TypeError, match="pass a fitted CauseSpecificCox"):
        StackedIncidenceDisplay.from_estimator(FREE, NEW)
