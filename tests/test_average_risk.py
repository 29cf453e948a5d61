"""Average risks of scenarios, against means of predictions and refits by hand."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

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
from sksurvgpu.inference import average_risk as module
from sksurvgpu.inference._replicates import DRAWS

N, TIMES = 400, [0.4, 1.0]
RNG = np.random.default_rng(8)
FRAME = pd.DataFrame(
    {"drug": RNG.integers(0, 2, N).astype(float), "age": RNG.normal(60, 9, N)},
    index=np.arange(N) + 7,
)
HAZARD = np.exp(0.7 * FRAME["drug"] + 0.05 * (FRAME["age"] - 60))
TIME = RNG.exponential(1 / HAZARD.to_numpy()).round(2) + 0.01
EVENT = RNG.random(N) < 0.8
Y = surv(EVENT, TIME)
CODE = EVENT * RNG.integers(1, 3, N)
WEIGHT = RNG.integers(1, 4, N).astype(float)
OFFSET = np.where(np.arange(N) % 3, 0.0, 1.5)
SCENARIOS = {"none": {"drug": 0}, "all": {"drug": 1}, "as it is": {}}
FREE = CoxLassoCCD(alpha=0.0, tol=1e-10)


def mean_by_hand(model, frame, weight=None, offset=0.0, **given):
    found, power = [], np.exp(offset) * np.ones(len(frame))
    for changes in SCENARIOS.values():
        free = 1.0 - model.predict_risk(frame.assign(**changes), TIMES, **given).to_numpy()
        found.append(np.average(1.0 - free ** power[:, None], axis=0, weights=weight))
    return np.concatenate(found)


def test_frames_of_other_libraries_have_categories():
    frame = FRAME.assign(site=np.where(FRAME["age"] > 60, "north", "south"))
    pipe = make_pipeline(CategoryColumns(), CoxLassoCCD(alpha=0.01)).fit(frame, Y)
    scenarios = {"none": {"drug": 0}, "north": {"drug": 1, "site": "north"}}
    expected = average_risk(pipe, frame, Y, scenarios, TIMES).risks
    for given in (pl.DataFrame(frame.to_dict("list")), pa.table(frame.to_dict("list"))):
        risks = average_risk(pipe, given, Y, scenarios, TIMES).risks
        pd.testing.assert_frame_equal(risks, expected)


@pytest.mark.parametrize(
    ("model", "y", "given"),
    [
        (FREE, Y, {}),
        (FREE, Y, {"strata": np.arange(N) % 2}),
        (FREE, Y, {"sample_weight": WEIGHT}),
        (FREE, Y, {"sample_weight": WEIGHT, "offset": OFFSET}),
        (FineGrayCCD(alpha=0.01), competing_risks(CODE, TIME), {"offset": OFFSET}),
        (FineGrayCCD(alpha=0.01), competing_risks(CODE, TIME), {}),
        (CauseSpecificCox(FREE, event_of_interest=2), competing_risks(CODE, TIME), {}),
        (CoxLassoCCD(alpha=0.01, time_varying={"drug": [0.5]}), Y, {}),
    ],
)
def test_risks_are_means_of_predictions(model, y, given):
    model = model.fit(FRAME, y, **given)
    result = average_risk(model, FRAME, y, SCENARIOS, TIMES, **given)
    others = {name: values for name, values in given.items() if name != "sample_weight"}
    expected = mean_by_hand(model, FRAME, given.get("sample_weight"), **others)
    np.testing.assert_allclose(result.risks["risk"], expected, atol=1e-14)
    none, everybody = result.risks["risk"].unstack("time").loc[["none", "all"]].to_numpy()
    contrasts = result.contrasts.loc["all"]
    np.testing.assert_allclose(contrasts["difference"], everybody - none, atol=1e-14)
    np.testing.assert_allclose(contrasts["ratio"], everybody / none, atol=1e-14)
    assert result.reference == "none"
    assert result.n_replicates == 0


def test_offsets_may_be_of_any_size():
    """A constant is the baseline's, which has hazards without end at an offset of 0."""
    found = []
    for offset in (OFFSET, OFFSET - 9.0):
        model = FREE.fit(FRAME, Y, offset=offset)
        found.append(average_risk(model, FRAME, Y, SCENARIOS, TIMES, offset=offset).risks)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["cox", "fine-gray", "pipeline", "causes"])
def test_intervals_are_those_of_refits(kind, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 100_000)  # some of the rows at a time
    scaled = ColumnTransformer([("age", StandardScaler(), ["age"])], remainder="passthrough")
    model = {
        "cox": FREE,
        "fine-gray": FineGrayCCD(alpha=0.0, tol=1e-10),
        "pipeline": make_pipeline(scaled, CoxLassoCCD(alpha=0.01, tol=1e-10)),
        "causes": CauseSpecificCox(FREE, event_of_interest=2, shared=["age"]),
    }[kind]
    y = competing_risks(CODE, TIME) if kind in ("fine-gray", "causes") else Y
    given = {"sample_weight": WEIGHT, "strata": np.arange(N) % 2} if kind == "causes" else {}
    given |= {"offset": OFFSET} if kind == "cox" else {}
    model, rows = model.fit(FRAME, y, **given), (FRAME, y, given)
    if kind == "causes":
        rows = model.stack(FRAME, y, **given)
    fit = getattr(model, "joint_", model), *rows[:2]
    draws = bootstrap(*fit, n_replicates=12, random_state=3, **rows[2])
    of = {"bootstrap": draws, "level": 0.8, **given}
    result = average_risk(model, FRAME, y, SCENARIOS, TIMES, **of)
    found = []
    for number in range(12):
        times = DRAWS[draws._draw[0]](draws._draw[1], number, N)
        some = np.repeat(np.arange(N), times)
        own = {name: values[some] for name, values in given.items()}
        again = type(model)(**model.get_params(deep=False)).fit(FRAME.iloc[some], y[some], **own)
        last = again.steps[-1][1] if kind == "pipeline" else getattr(again, "joint_", again)
        assert last.converged_
        weight = own.pop("sample_weight", None)
        found.append(mean_by_hand(again, FRAME.iloc[some], weight, **own))
    found = np.array(found)
    np.testing.assert_allclose(result.risks["standard_error"], found.std(axis=0, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(result.risks["lower"], np.quantile(found, 0.1, axis=0), rtol=1e-5)
    difference = found[:, 2:4] - found[:, :2]
    contrasts = result.contrasts.loc["all"]
    limits = np.quantile(difference, [0.1, 0.9], axis=0)
    np.testing.assert_allclose(contrasts["difference_lower"], limits[0], atol=1e-6)
    np.testing.assert_allclose(contrasts["difference_upper"], limits[1], atol=1e-6)
    ratio = np.quantile(found[:, 2:4] / found[:, :2], 0.9, axis=0)
    np.testing.assert_allclose(contrasts["ratio_upper"], ratio, rtol=1e-5)
    assert result.n_replicates == 12
    assert repr(result).startswith("<AverageRisk in 3 scenarios by 2 times, 80% intervals>")


def test_one_bootstrap_serves_all_events_of_a_fit():
    y, found = competing_risks(CODE, TIME), []
    models = [CauseSpecificCox(FREE, event_of_interest=k, shared=[]).fit(FRAME, y) for k in (2, 1)]
    draws = bootstrap(
        models[0].joint_, *models[0].stack(FRAME, y)[:2], n_replicates=5, random_state=0
    )
    models[0].set_params(event_of_interest=1)
    for model in models:
        found.append(average_risk(model, FRAME, y, SCENARIOS, TIMES, bootstrap=draws).risks)
    pd.testing.assert_frame_equal(*found)
    assert (found[0]["standard_error"] > 0).all()


def test_tables_of_any_kind_have_the_same_risks():
    values = FRAME.to_numpy()
    older = values[:, 1] + 10.0
    by_name = average_risk(FREE.fit(FRAME, Y), FRAME, Y, {"older": {"age": older}}, 1.0)
    for X in (values, csr_array(values)):
        model = CoxLassoCCD(alpha=0.0, tol=1e-10).fit(X, Y)
        result = average_risk(model, X, Y, {"older": {1: older}}, 1.0)
        np.testing.assert_allclose(result.risks["risk"], by_name.risks["risk"], rtol=1e-8)
    model = make_pipeline(StandardScaler(), FREE).fit(values, Y)
    result = average_risk(model, values, Y, {"older": {1: older}}, 1.0)
    np.testing.assert_allclose(result.risks["risk"], by_name.risks["risk"], rtol=1e-8)
    frame = pd.DataFrame(values, index=FRAME.index)  # whose columns have numbers
    elsewhere = pd.Series(np.asarray(older), index=np.arange(N))  # 7 labels of X are not there
    result = average_risk(FREE.fit(frame, Y), frame, Y, {"older": {1: elsewhere}}, 1.0)
    np.testing.assert_allclose(result.risks["risk"], by_name.risks["risk"], rtol=1e-8)


@pytest.mark.parametrize(
    ("scenarios", "message"),
    [
        ({"all": {"drgu": 1}}, "'drgu'"),
        ({"all": {5: 1}}, "columns 0 to 1"),
        ({"all": {"drug": "oen"}}, "'oen', which no row of `X` has; some that it has are"),
        ({"all": {"drug": [0] * (N - 1) + ["oen"]}}, "'oen', which no row of `X` has"),
        ({"all": {"drug": None}}, "sets 'drug' to None, which no row of `X` has"),
        ({"all": {"drug": [np.nan] * N}}, "sets 'drug' to nan, which no row of `X` has"),
        ({"all": {"drug": FRAME["drug"][::-1]}}, "labels of that of `X` in another order"),
        ({"all": {"drug": FRAME["drug"][:2]}}, r"`scenarios\[...\]\['drug'\]` has 2 entries"),
        ({"all": 1}, "dictionary of dictionaries"),
        ({}, "dictionary of dictionaries"),
    ],
)
def test_bad_scenarios_are_refused(scenarios, message):
    model = FREE.fit(FRAME, Y)
    with pytest.raises((ValueError, TypeError), match=message):
        average_risk(model, FRAME, Y, scenarios, TIMES)


def test_other_arguments_are_refused():
    model = CauseSpecificCox(FREE).fit(FRAME, competing_risks(CODE, TIME))
    with pytest.raises(ValueError, match="`offset` is not for `propensity` or several"):
        average_risk(model, FRAME, competing_risks(CODE, TIME), SCENARIOS, TIMES, offset=OFFSET)
    with pytest.raises(TypeError, match="`event` is no argument of average_risk and Cause"):
        average_risk(model, FRAME, competing_risks(CODE, TIME), SCENARIOS, TIMES, event=2)
    model = make_pipeline(StandardScaler(), FREE).fit(FRAME, Y)
    with pytest.raises(TypeError, match="`bootstraps` is no argument of average_risk and CoxLasso"):
        average_risk(model, FRAME, Y, SCENARIOS, TIMES, bootstraps=3)


def test_other_models_and_other_replicates_are_refused():
    with pytest.raises(TypeError, match="LogisticCCD; pass a fitted survival estimator"):
        average_risk(LogisticCCD().fit(FRAME, EVENT), FRAME, EVENT, SCENARIOS, TIMES)
    model = CauseSpecificCox(FREE).fit(FRAME, competing_risks(CODE, TIME))
    cox = CoxLassoCCD(alpha=0.0).fit(FRAME, Y)
    draws = bootstrap(cox, FRAME, Y, n_replicates=3, random_state=0)
    with pytest.raises(NotFittedError, match=r"fit with `shared=\[\]`"):
        average_risk(model, FRAME, competing_risks(CODE, TIME), SCENARIOS, TIMES, bootstrap=draws)
    other = CoxLassoCCD(alpha=0.1).fit(FRAME, Y)
    with pytest.raises(ValueError, match="of another fit"):
        average_risk(other, FRAME, Y, SCENARIOS, TIMES, bootstrap=draws)
    with pytest.raises(TypeError, match="`bootstrap` is of type int; pass a result of"):
        average_risk(other, FRAME, Y, SCENARIOS, TIMES, bootstrap=200)
    values, wrong = FRAME.to_numpy(), np.where(np.arange(N) == 2, np.nan, 1.0)
    cox.fit(values, Y)
    with pytest.raises(ValueError, match="in row 2"):
        average_risk(cox, values, Y, {"x": {0: wrong}}, TIMES)
