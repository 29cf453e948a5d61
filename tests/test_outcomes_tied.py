"""Many outcomes with coefficients in common: fits of rows that are stacked by hand."""

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import (
    CauseSpecificCox,
    CoxLassoCCD,
    CoxLassoCV,
    LogisticCCD,
    competing_risks,
    fit_outcomes,
    profile_likelihood,
    surv,
    wald,
)
from sksurvgpu.estimators import stacking
from sksurvgpu.partitions.handles import from_lists

N = 600
RNG = np.random.default_rng(0)
NAMES = ["drug", "age", "c", "d"]
X = pd.DataFrame((RNG.random((N, 4)) < 0.3).astype(float), columns=NAMES)
X["age"] = RNG.normal(size=N)
TIME = np.ceil(RNG.exponential(30.0, N) * np.exp(-0.5 * X["drug"]))
OUTCOMES = {
    name: surv(RNG.random(N) < share, np.ceil(TIME * RNG.uniform(0.5, 1.0, N)))
    for name, share in {"bleed": 0.5, "stroke": 0.3, "ulcer": 0.2}.items()
}
AT_RISK = {"bleed": RNG.random(N) < 0.8, "stroke": np.arange(0, N, 2)}
WEIGHT = RNG.integers(1, 3, N).astype(float)
ROWS = {
    "bleed": np.flatnonzero(AT_RISK["bleed"]),
    "stroke": AT_RISK["stroke"],
    "ulcer": np.arange(N),
}
WALD = ["coef", "standard_error", "lower", "upper"]


def by_hand(shared):
    """Rows of all outcomes, a column for each coefficient, and the arguments of a fit."""
    tables = []
    for name, rows in ROWS.items():
        own = X.iloc[rows]
        tables.append(own.rename(columns={c: f"{c}: {name}" for c in NAMES if c not in shared}))
    y = np.concatenate([OUTCOMES[name][rows] for name, rows in ROWS.items()])
    outcome = np.repeat(list(ROWS), [len(rows) for rows in ROWS.values()])
    return pd.concat(tables).fillna(0.0), y, outcome, np.concatenate(list(ROWS.values()))


@pytest.mark.parametrize("robust", [False, True])
def test_wald_intervals_are_those_of_rows_stacked_by_hand(robust):
    given = {"columns": ["drug", "age"], "at_risk": AT_RISK, "sample_weight": WEIGHT}
    model, how = CoxLassoCCD(alpha=0.0), "robust" if robust else "wald"
    found = fit_outcomes(model, X, OUTCOMES, **given, intervals=how, shared=["age"]).table
    table, y, outcome, person = by_hand(["age"])
    beside = {"strata": outcome, "sample_weight": WEIGHT[person]}
    model = CoxLassoCCD(alpha=0.0).fit(table, y, **beside)
    cluster = {"cluster": person} if robust else {}
    expected = wald(model, table, y, **beside, **cluster).summary()[WALD]
    for name in OUTCOMES:
        own = found.loc[name, WALD].to_numpy()
        np.testing.assert_allclose(own, expected.loc[[f"drug: {name}", "age"]], atol=1e-5, rtol=0)
    assert found["n_at_risk"].groupby("outcome").first().tolist() == list(map(len, ROWS.values()))
    assert (found["status"] == "ok").all()


def test_profiles_are_those_of_rows_stacked_by_hand():
    model = CoxLassoCCD(alpha=0.0, penalty_factor={"drug": 0.0})
    given = {"columns": ["age", "drug"], "at_risk": AT_RISK, "shared": ["drug", "c", "d"]}
    result = fit_outcomes(model, X, OUTCOMES, **given)
    table, y, outcome, _ = by_hand(given["shared"])
    names = ["drug", "age: stroke"]
    one = profile_likelihood(CoxLassoCCD(alpha=0.0), table, y, names, strata=outcome).intervals
    for outcome, name in (("stroke", "age"), ("ulcer", "drug")):
        expected = one.loc[name if name == "drug" else "age: stroke", ["coef", "lower", "upper"]]
        own = result.table.loc[(outcome, name), ["coef", "lower", "upper"]].to_numpy(float)
        np.testing.assert_allclose(own, expected.to_numpy(float), atol=2e-5, rtol=0)
    drug = result.curves.query("feature == 'drug'").groupby("outcome")["value"].agg(list)
    assert drug["bleed"] == drug["ulcer"]
    own = result.curves.query("feature == 'age'").groupby("outcome")["value"].agg(list)
    assert own["bleed"] != own["ulcer"]


def test_nothing_shared_is_one_fit_for_each():
    model, given = CoxLassoCCD(alpha=0.02), {"columns": ["drug", "age"], "at_risk": AT_RISK}
    tied, apart = (fit_outcomes(model, X, OUTCOMES, **given, **how) for how in ({"shared": []}, {}))
    for column in ("coef", "lower", "upper", "n_events", "n_exposed"):
        np.testing.assert_allclose(
            tied.table[column].to_numpy(float), apart.table[column].to_numpy(float), atol=2e-5
        )


@pytest.mark.parametrize("how", [{"shared": ["age"]}, {"between": 0.5}, {"fused": 0.5}])
def test_kinds_of_an_event_are_those_of_cause_specific_models(how):
    code = RNG.integers(0, 3, N)
    kinds = {k: surv(code == k, TIME) for k in (1, 2)}
    model = CoxLassoCCD(alpha=0.02)
    result = fit_outcomes(model, X, kinds, columns=NAMES, intervals=None, **how)
    joint = CauseSpecificCox(model, **how).fit(X, competing_risks(code, TIME))
    expected = np.concatenate([joint.estimators_[k].coef_ for k in (1, 2)])
    np.testing.assert_allclose(result.table["coef"], expected, atol=1e-9, rtol=0)


def test_one_penalty_is_chosen_for_all():
    model = CoxLassoCV(cv=3, n_alphas=5, random_state=0)
    given = {"columns": ["drug"], "intervals": None, "shared": ["age"], "strata": X["c"]}
    table = fit_outcomes(model, X, OUTCOMES, **given).table
    assert table["alpha"].nunique() == 1
    assert (table["alpha"] > 0).all()


def test_an_outcome_without_an_event_takes_no_part():
    never = surv(np.zeros(N, bool), TIME)
    unlike = surv(X["drug"].to_numpy() > 2, TIME)[:-1]
    outcomes = {"never": never, **OUTCOMES, "short": unlike}
    at_risk = {"ulcer": X["drug"].to_numpy() == 1.0}
    given = {"columns": ["drug", "age"], "at_risk": at_risk, "intervals": "wald"}
    table = fit_outcomes(CoxLassoCCD(alpha=0.0), X, outcomes, **given, shared=["age"]).table
    status = table["status"].unstack("feature", sort=False)
    assert status["age"].tolist() == ["failed", "ok", "ok", "ok", "failed"]
    assert status["drug"].tolist() == ["failed", "ok", "ok", "failed", "failed"]
    message = table["message"].unstack("feature", sort=False)
    assert "takes no part" in message.loc["never", "drug"]
    assert message.loc["ulcer", "drug"] == "`drug` is 1 in all rows at risk."
    assert "599 entries" in message.loc["short", "drug"]
    some = {name: OUTCOMES[name] for name in OUTCOMES}
    given["columns"] = ["age"]
    alone = fit_outcomes(CoxLassoCCD(alpha=0.0), X, some, **given, shared=["age"]).table
    np.testing.assert_allclose(alone["coef"], table["coef"].xs("age", level=1)[1:4], atol=1e-9)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"estimator": LogisticCCD()}, TypeError, "LogisticCCD"),
        ({"shared": "age"}, ValueError, "`shared` is 'age', must be a list of columns or \"all\""),
        ({"shared": ["z"]}, ValueError, "`shared` names column 'z'"),
        ({"between": 0.5}, ValueError, "`between` or `fused` pull have none"),
        ({"folder": "folder"}, ValueError, "they are one fit; leave it out"),
        ({"X": from_lists({"X": [X]})["X"]}, ValueError, "rows one behind the other"),
        ({"between": 1.0, "fused": 1.0, "intervals": None}, ValueError, "choose one of them"),
        ({"strata": {"bleed": X["c"]}}, ValueError, "and not of 'stroke'"),
        ({"estimator": CoxLassoCCD(standardize=True)}, ValueError, "scale X before"),
    ],
)
def test_bad_input_is_refused_at_once(change, kind, message):
    call = {"estimator": CoxLassoCCD(), "X": X, "outcomes": OUTCOMES, "columns": "drug"}
    with pytest.raises(kind, match=message):
        fit_outcomes(**call | {"shared": ["age"]} | change)


def test_rows_that_memory_does_not_hold_are_refused_beforehand(monkeypatch):
    monkeypatch.setattr(stacking, "available", lambda: 1_000.0)
    with pytest.raises(MemoryError, match="3 outcomes with coefficients in common"):
        fit_outcomes(CoxLassoCCD(), X, OUTCOMES, columns="drug", shared=["age"])


def test_outcomes_that_do_not_go_together_are_refused():
    first, second = OUTCOMES["bleed"], OUTCOMES["stroke"]
    of_subjects = surv(first["event"], first["time"], subject=np.arange(N))
    model, tied = CoxLassoCCD(alpha=0.0), {"columns": "drug", "shared": ["age"]}
    with pytest.raises(ValueError, match="`subject` is of some outcomes, and not of 'stroke'"):
        fit_outcomes(model, X, {"bleed": of_subjects, "stroke": second}, **tied)
    with pytest.raises(ValueError, match="'drug: 1' would name two columns"):
        fit_outcomes(model, X, {1: first, "1": second}, **tied)
    with pytest.raises(TypeError, match="a tuple as a name"):
        fit_outcomes(model, X, {("a", 1): first}, columns="drug")


def test_one_outcome_has_no_neighbour_to_be_fused_with():
    model, nothing = CoxLassoCCD(alpha=0.01), surv(np.zeros(N, bool), TIME)
    outcomes = {"bleed": OUTCOMES["bleed"], "nobody": nothing}
    given = {"columns": "drug", "intervals": None}
    found = fit_outcomes(model, X, outcomes, fused=0.5, **given).table
    alone = fit_outcomes(model, X, outcomes, **given).table
    np.testing.assert_allclose(found["coef"].iloc[0], alone["coef"].iloc[0], rtol=1e-6)
