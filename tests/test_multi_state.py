"""Transitions between states: outcomes, hazards and probabilities, against R's survival."""

import math
import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
from oracles.cases import load
from scipy.linalg import expm
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sksurvgpu import (
    CauseSpecificCox,
    CoxLassoCCD,
    CoxLassoCV,
    MultiStateCox,
    StackedIncidenceDisplay,
    StepColumns,
    bootstrap,
    competing_risks,
    curve_intervals,
    make_pipeline,
    multi_state,
    probability_intervals,
    surv,
    to_json,
    transition_table,
    wald,
)
from sksurvgpu.data.outcomes.states import entries_into_states, read_states
from sksurvgpu.nonparametric import aalen_johansen

PUBLISHED = load("states.json")
CASES = {case["name"]: case for case in PUBLISHED["cases"]}
FREE = CoxLassoCCD(alpha=0.0, tol=1e-12)


def illness_death():
    """Rows of mgus2, as make_states.R has them."""
    data = pd.DataFrame(PUBLISHED["mgus2"])
    ill = data["pstat"] == 1
    at = data["ptime"] - 0.1 * (ill & (data["ptime"] == data["futime"]))
    first = data[["age", "male"]].assign(id=data.index, start=0.0, state="mgus")
    first["time"] = at.where(ill, data["futime"])
    dies = pd.Series(np.where(data["death"] == 1, "death", ""), data.index)
    first["event"] = dies.where(~ill, "pcm")
    second = first.assign(start=at, time=data["futime"], state="pcm", event=dies)[ill]
    rows = pd.concat([first, second], ignore_index=True)
    return rows[rows["time"] > rows["start"]], ["age", "male"]


def transplants():
    """Rows of ebmt3, as make_states.R has them."""
    data = pd.DataFrame(PUBLISHED["ebmt3"])
    recovers = data["prstat"] == 1
    at = data["prtime"] - 0.5 * (data["prtime"] == data["rfstime"])
    fails = pd.Series(np.where(data["rfsstat"] == 1, "failed", ""), data.index)
    first = data[["old", "tcd", "aml"]].assign(id=data.index, start=0.0, state="transplanted")
    first["time"] = at.where(recovers, data["rfstime"])
    first["event"] = fails.where(~recovers, "recovered")
    later = {"start": at, "time": data["rfstime"], "state": "recovered", "event": fails}
    return pd.concat([first, first.assign(**later)[recovers]]), ["old", "tcd", "aml"]


def table_of(name):
    if name.startswith("ebmt3"):
        return transplants()
    if name in ("cycle", "strata", "pbc", "prostate"):
        rows = pd.DataFrame(PUBLISHED[name.replace("strata", "cycle")])
        rows["event"] = rows["event"].replace("none", "")
        return rows, [*CASES[name]["newdata"]]
    return illness_death()


def outcome_of(rows, states, **given):
    graph = rows[rows["event"] != ""].groupby("state")["event"].unique()
    return multi_state(
        rows["state"], rows["event"], rows["start"], rows["time"], rows["id"],
        allowed={state: sorted(graph.get(state, [])) for state in states}, **given
    )  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_coefficients_and_probabilities_are_those_of_survival(name):
    case, (rows, columns) = CASES[name], table_of(name)
    new, site = pd.DataFrame(case["newdata"]), None
    y = outcome_of(rows, case["states"])
    if name == "strata":
        y = outcome_of(rows, case["states"], stratum=rows["site"])
        new, site = new.iloc[[0, 0, 1, 1]], [0, 1, 0, 1]
    model = MultiStateCox(FREE).fit(rows[columns], y)
    coef = {names: fitted.coef_ for names, fitted in model.estimators_.items()}
    for term, expected in zip(case["names"], case["coefficients"], strict=True):
        column, ends = term.split("_")
        i, j = (case["states"][int(place) - 1] for place in ends.split(":"))
        assert coef[i, j][columns.index(column)] == pytest.approx(expected, abs=1e-8), term
    expected = np.reshape(case["probability"], case["shape"], order="F").transpose(1, 2, 0)
    if name == "strata":
        expected = expected.transpose(0, 2, 1)
    given = {"state": case["from"], "start": case["start"], "strata": site}
    found = model.predict_state_probabilities(new, case["times"], **given)
    np.testing.assert_allclose(found, expected.reshape(len(new), -1), atol=1e-9)
    if case["horizon"]:
        expected = np.reshape(case["sojourn"], (len(new), -1), order="F")
        spent = model.predict_expected_time(new, case["horizon"], **given)
        np.testing.assert_allclose(spent, expected, rtol=1e-8)


@pytest.mark.parametrize("name", ["pbc", "prostate"])
def test_incidences_of_kinds_of_events_are_those_of_survival(name):
    case, (rows, columns) = CASES[name], table_of(name)
    labels = dict(enumerate(case["states"][1:], start=1))
    code = rows["event"].map({label: k for k, label in labels.items()}).fillna(0).astype(int)
    y = competing_risks(code, rows["time"], labels=labels)
    model, new = CauseSpecificCox(FREE).fit(rows[columns], y), pd.DataFrame(case["newdata"])
    probability = np.reshape(case["probability"], case["shape"], order="F")
    for k, label in labels.items():
        found = model.predict_risk(new, case["times"], event=label)
        np.testing.assert_allclose(found.T, probability[:, :, k], atol=1e-9)


ROW = np.arange(1, 241)


def simulated(n=240, random_state=0):
    """Rows of an illness-death model, and a covariate."""
    rng = np.random.default_rng(random_state)
    x = rng.integers(0, 2, n)
    ill, dead = rng.exponential(3 - x), rng.exponential(5, n)
    is_ill, end = ill < np.minimum(dead, 6), np.minimum(dead, 6)
    dies = np.where(dead < 6, "dead", "")
    rows = pd.DataFrame({"id": np.arange(n), "x": x, "start": 0.0, "time": np.minimum(ill, end)})
    rows = rows.assign(state="well", event=np.where(is_ill, "ill", dies))
    later = rows.assign(start=ill, time=end, state="ill", event=dies)[is_ill]
    return pd.concat([rows, later], ignore_index=True)


def fitted(rows, estimator=FREE, **params):
    y = outcome_of(rows, ["well", "ill", "dead"])
    return MultiStateCox(estimator, **params).fit(rows[["x"]].to_numpy(), y)


def test_probabilities_and_times_are_products_and_integrals():
    model, x = fitted(simulated()), [[0.0], [1.0]]
    times = model.unique_times_
    state, start = ["well", "ill"], [0.0, 1.5]
    found = model.predict_state_probabilities(x, times, state=state, start=start)
    spent = model.predict_expected_time(x, times, state=state, start=start)
    hazard = {
        pair: [curve(times[times <= curve.domain[1]]) for curve in curves]
        for pair, one in model.estimators_.items()
        for curves in [one.predict_cumulative_hazard_function(x)]
    }
    order = {"well": 0, "ill": 1, "dead": 2}
    for row in range(2):
        here, now, total = np.eye(3)[order[state[row]]], start[row], np.zeros(3)
        for t, time in enumerate(times):
            if time > start[row]:
                total, now = total + here * (time - now), time
                generator = np.zeros((3, 3))
                for (i, j), values in hazard.items():
                    steps = np.diff(values[row], prepend=0.0)
                    if t < len(steps):
                        generator[order[i], order[j]] = steps[t]
                here = here @ expm(generator - np.diag(generator.sum(1)))
            np.testing.assert_allclose(
                found.xs(time, axis=1, level="time").iloc[row], here, atol=1e-12
            )
            np.testing.assert_allclose(
                spent.xs(time, axis=1, level="time").iloc[row], total, atol=1e-11
            )
    sums = found.T.groupby(level="time").sum()
    np.testing.assert_allclose(sums, 1.0, atol=1e-13)
    expected = np.maximum(times[:, None] - start, 0.0)
    np.testing.assert_allclose(spent.T.groupby(level="time").sum(), expected, atol=1e-12)


def test_hazards_beyond_all_numbers_have_probabilities():
    rows, columns = table_of("cycle")
    y = outcome_of(rows, ["a", "b", "c"])
    model = MultiStateCox(FREE).fit(rows[columns], y)
    for x in (300.0, -300.0, 9000.0):
        found = model.predict_state_probabilities(pd.DataFrame({"x": [x]}), [3, 9], state="a")
        assert (found >= 0).all(axis=None)
        np.testing.assert_allclose(found.T.groupby(level="time").sum(), 1.0, atol=1e-12)


def test_one_state_left_for_several_is_the_model_of_causes():
    code, time = np.array([0, 1, 1, 2, 0])[ROW * 13 % 5], ROW * 71 % 61 + 1.0
    x = np.column_stack([(ROW * 37 % 101) / 100, ROW * 53 % 11 < 5])
    names = np.array(["", "ill", "dead"])[code]
    y = multi_state(np.full(240, "well"), names, 0 * time, time, ROW)
    causes = CauseSpecificCox(FREE).fit(
        x, competing_risks(code, time, labels={1: "ill", 2: "dead"})
    )
    model = MultiStateCox({("well", "ill"): FREE, ("well", "dead"): FREE}).fit(x, y)
    given = {"start": ROW[:9] % 3, "times": [10.0, 40.0]}
    found = model.predict_state_probabilities(x[:9], **given)
    for event in ("ill", "dead"):
        expected = causes.predict_risk(x[:9], **given, event=event)
        np.testing.assert_allclose(found[event], expected, atol=1e-14)
    assert found.columns.get_level_values("state").unique().tolist() == ["dead", "ill", "well"]


def test_without_effects_probabilities_are_those_of_aalen_and_johansen():
    n = 4000
    code, time = np.array([0, 1, 2])[np.arange(n) * 13 % 3], np.arange(n) * 71 % 4001 + 1.0
    y = multi_state(np.zeros(n, int), np.where(code > 0, code, np.nan), 0 * time, time, range(n))
    model = MultiStateCox(CoxLassoCCD(alpha=0.0)).fit(np.zeros((n, 1)), y)
    found = model.predict_state_probabilities([[0.0]], [500.0, 2000.0])
    expected = aalen_johansen(competing_risks(code, time)).at([500.0, 2000.0])["incidence"]
    np.testing.assert_allclose(found[[1, 2]].to_numpy().ravel(), expected, rtol=2e-3)


def test_a_clock_that_starts_anew_counts_from_entries_into_states():
    rows = simulated()
    model = fitted(rows, clock="reset")
    ill = rows[rows["state"] == "ill"]
    y = surv(ill["event"] == "dead", ill["time"] - ill["start"], subject=ill["id"])
    alone = clone(FREE).fit(ill[["x"]].to_numpy(), y)
    np.testing.assert_array_equal(model.estimators_["ill", "dead"].coef_, alone.coef_)
    halved = pd.concat([rows.assign(time=(rows["start"] + rows["time"]) / 2, event=""), rows])
    halved.iloc[len(rows) :, rows.columns.get_loc("start")] = halved["time"].iloc[: len(rows)]
    again = fitted(halved, clock="reset").estimators_["ill", "dead"]
    np.testing.assert_allclose(again.coef_, alone.coef_, atol=1e-9)
    # some are unseen for a while after they fall ill
    unseen = rows.copy()
    unseen["seen"] = unseen["start"] + (unseen["state"] == "ill") * 0.4 * (unseen["id"] % 2)
    unseen = unseen[unseen["seen"] < unseen["time"]].reset_index(drop=True)
    ill = unseen[unseen["state"] == "ill"]
    entry, length = ill["seen"] - ill["start"], ill["time"] - ill["start"]
    late = clone(FREE).fit(ill[["x"]].to_numpy(), surv(ill["event"] == "dead", length, start=entry))
    found = fitted(unseen.assign(start=unseen["seen"]), clock="reset")
    np.testing.assert_allclose(found.estimators_["ill", "dead"].coef_, late.coef_, atol=1e-9)


@pytest.mark.parametrize("unit", [1 / 365.25, 0.1])
def test_a_clock_that_starts_anew_has_the_ties_of_days_in_any_unit(unit):
    """Entered on day 3 and left on day 6 is as long as from 6 to 9, also in years."""
    rows, horizons = simulated(), np.array([3.0, 12.0])
    start, time = np.ceil(5 * rows["start"]), np.ceil(5 * rows["time"])
    rows = rows.assign(start=start, time=np.maximum(time, start + 1))
    days = fitted(rows, clock="reset", n_paths=200)
    in_units = rows.assign(start=unit * rows["start"], time=unit * rows["time"])
    other = fitted(in_units, clock="reset", n_paths=200)
    for name, model in days.estimators_.items():
        np.testing.assert_allclose(other.estimators_[name].coef_, model.coef_, atol=1e-9)
    expected = days.predict_state_probabilities([[1.0]], horizons)
    found = other.predict_state_probabilities([[1.0]], unit * horizons)
    np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())


def test_predictions_since_an_entry_and_until_a_horizon_in_years():
    """The year's day 3 less day 1 is later than 2 days in years, by rounding."""
    unit, first = 1 / 365.25, np.arange(1.0, 200.0)
    long = np.arange(1.0, 13.0)
    later = (first + long[:, None]) * unit - first * unit > long[:, None] * unit
    entry = first[later.argmax(axis=1)]  # of ill persons, all of whose stays are longer by rounding
    origin, destination = ["well"] * 12 + ["ill"] * 12, ["ill"] * 12 + ["dead"] * 12
    start, time = np.append(0.0 * entry, entry), np.append(entry, entry + long)
    x, subject = np.cos(np.arange(24.0))[:, None], [*range(12)] * 2
    found = []
    for by in (1.0, unit):
        y = multi_state(origin, destination, by * start, by * time, subject)
        model = MultiStateCox(CoxLassoCCD(alpha=0.001), clock="reset", n_paths=50).fit(x, y)
        for since, until in ((long[:-1], 12.0), (0.0, 5.0), (0.0, 8.0)):
            given = {"state": "ill", "start": by * since}
            found.append(model.predict_state_probabilities(x[:11], by * until, **given).to_numpy())
    for in_days, in_years in zip(found[:3], found[3:], strict=True):
        np.testing.assert_array_equal(in_years, in_days)


@pytest.mark.parametrize("is_tied", [False, True])
def test_drawn_paths_have_the_probabilities_of_a_convolution(is_tied):
    rows = simulated()
    if is_tied:
        start, time = np.ceil(rows["start"]), np.ceil(rows["time"])
        rows = rows.assign(start=start, time=np.maximum(time, start + 1))
    model = fitted(rows, clock="reset", n_paths=40_000)
    x, horizons = [[1.0]], [1.0, 3.0]
    found = model.predict_state_probabilities(x, horizons).iloc[0]
    spent = model.predict_expected_time(x, horizons).iloc[0]
    ill, dead, later = (
        one.predict_cumulative_hazard_function(x)[0] for one in model.estimators_.values()
    )
    times = ill.x
    stays = np.exp(-ill(times) - dead(times))
    leaves, share = -np.diff(stays, prepend=1.0), np.diff(ill(times), prepend=0.0)
    both = share + np.diff(dead(times), prepend=0.0)
    enters = leaves * np.divide(share, both, out=np.zeros_like(share), where=both > 0)
    for horizon in horizons:
        until = times <= horizon
        there = enters[until] @ np.exp(-later(horizon - times[until]))
        expected = [stays[until][-1], there]
        assert found[["well", "ill"]].xs(horizon, level="time").tolist() == pytest.approx(
            expected, abs=0.01
        )
        grid = np.append(times[until], horizon)
        well = np.diff(grid, prepend=0.0) @ np.append(1.0, stays[until])
        assert spent["well", horizon] == pytest.approx(well, abs=0.02)
        assert spent.xs(horizon, level="time").sum() == pytest.approx(horizon)
    found = model.predict_state_probabilities(x, horizons, start=0.5).iloc[0]
    between, at_start = (times > 0.5) & (times <= 3.0), np.append(1.0, stays)[(times <= 0.5).sum()]
    there = enters[between] @ np.exp(-later(3.0 - times[between]))
    expected = np.array([stays[times <= 3.0][-1], there]) / at_start
    drawn = found[["well", "ill"]].xs(3.0, level="time").tolist()
    assert drawn == pytest.approx(expected, abs=0.01)


def test_rows_of_one_call_have_the_same_random_numbers():
    model = fitted(simulated(), clock="reset", n_paths=50)
    found = model.predict_state_probabilities([[1.0], [0.0], [1.0]], 2.0)
    np.testing.assert_array_equal(found.iloc[0], found.iloc[2])
    alone = model.predict_state_probabilities([[1.0]], 2.0)
    np.testing.assert_array_equal(found.iloc[0], alone.iloc[0])
    other = model.set_params(random_state=1).predict_state_probabilities([[1.0]], 2.0)
    assert (other != alone).any(axis=None)


PERSONS = {
    "origin": ["well", "ill", "well", "well"],
    "destination": ["ill", None, "dead", ""],
    "start": [0, 2, 0, 1],
    "time": [2, 5, 6, 9],
    "subject": ["Ann", "Ann", "Bob", "Cat"],
}


def test_transitions_are_counted():
    y = multi_state(**PERSONS, allowed={"well": ["ill", "dead"]})
    table = transition_table(y[::-1])
    assert table.columns.tolist() == ["well", "ill", "dead", "censored"]
    assert table.to_numpy().tolist() == [[0, 1, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]]
    assert transition_table(y[2:]).loc["well", "dead"] == 1
    numbers = multi_state([0, 0], [np.nan, 1.0], [0, 0], [1, 2], [1, 2])
    assert transition_table(numbers).index.tolist() == [0, 1]
    nullable = pd.Series([pd.NA, 1], dtype="Int64")
    same = multi_state(pd.Series([0, 0], dtype="Int64"), nullable, [0, 0], [1, 2], [1, 2])
    np.testing.assert_array_equal(same, numbers)
    categories = pd.Series([pd.NA, "b"], dtype="category")
    assert multi_state(["a", "a"], categories, [0, 0], [1, 2], [1, 2])["destination"].tolist() == [
        0,
        2,
    ]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"start": [0, 1, 0, 1]}, r"Ann is in 'well' from 0 to 2 \(row 0\) and in 'ill' from 1"),
        ({"origin": ["well", "well", "well", "well"]}, r"Ann.*\(row 1\), and the first.*'ill'"),
        ({"destination": ["well", None, "dead", ""]}, "Ann is in 'well' in row 0, and enters it"),
        ({"start": [2, 2, 0, 1]}, "`start` must be before `time`: row 0"),
        ({"time": [2, 5, 6]}, "`time` has 3 entries, `origin` has 4"),
        ({"destination": ["ill", None, "dead"]}, "`destination` has 3 entries, `origin` has 4"),
        ({"destination": [1, None, 2, None]}, "such as 'well', `destination` such as 1"),
        (
            {"allowed": {"well": ["ill"], "ill": ["dead"]}},
            "Bob goes from 'well' to 'dead' in row 2",
        ),
        ({"allowed": {"well": ["ill", "deat"]}}, "`destination` is 'dead' in row 2.*'deat'"),
        ({"allowed": {"well": "ill"}}, "must be a dictionary of the states"),
        ({"allowed": [("well", "ill")]}, "must be a dictionary of the states"),
        ({"origin": ["well", None, "well", "well"]}, "`origin` has 1 missing"),
        ({"subject": ["Ann", None, "Bob", "Cat"]}, "`subject` has 1 missing"),
    ],
)
def test_impossible_histories_are_refused(changed, message):
    with pytest.raises((ValueError, TypeError), match=message):
        multi_state(**PERSONS | changed)


def test_transitions_that_nobody_makes_or_sees_are_warned_of():
    graph = {"well": ["ill", "dead"], "ill": ["dead", "well"]}
    with pytest.warns(UserWarning, match="nobody goes from 'ill' to 'dead', 'ill' to 'well'"):
        multi_state(**PERSONS, allowed=graph)
    unseen = PERSONS | {"origin": ["well", "dead", "well", "well"], "start": [0, 3, 0, 1]}
    unseen["destination"] = ["", None, "dead", ""]
    with pytest.warns(UserWarning, match=r"Ann is in 'well'.*ends in 'well'.*\(1 in all\)"):
        y = multi_state(**unseen)
    assert entries_into_states(read_states(y)[0]).tolist() == [0, 3, 0, 1]


def test_bad_input_of_models_is_refused():
    rows = simulated()
    y, x = outcome_of(rows, ["well", "ill", "dead"]), rows[["x"]].to_numpy()
    bad = [
        (MultiStateCox(clock="back"), x, y, "`clock` is 'back'"),
        (MultiStateCox(n_paths=0), x, y, "`n_paths` is 0"),
        (MultiStateCox({("well", "ill"): FREE}), x, y, "of the transitions .*'ill', 'dead'"),
        (MultiStateCox(), x[:-1], y, "`y` has .* entries, `X` has"),
        (
            MultiStateCox(),
            x,
            surv(rows["event"] == "ill", rows["time"]),
            r"multi_state\(origin, dest",
        ),
        (MultiStateCox(), x[:1], y[rows["event"] == ""][:1], "no transition"),
    ]
    for model, table, outcome, message in bad:
        with pytest.raises((ValueError, TypeError), match=message):
            model.fit(table, outcome)
    with pytest.raises(ValueError, match="`sample_weight` has 1,000 entries, `X` has"):
        MultiStateCox().fit(x, y, np.ones(1000))
    with pytest.raises(NotFittedError):
        MultiStateCox().predict_state_probabilities(x, 1.0)
    model = fitted(rows)
    with pytest.raises(ValueError, match="`state` is 'sick' in row 1"):
        model.predict_state_probabilities(x[:2], 1.0, state=["ill", "sick"])
    with pytest.warns(UserWarning, match="NaN in 2 of 2 rows"):
        assert model.predict_state_probabilities(x[:2], 7.0).isna().all(axis=None)
    rows, columns = table_of("cycle")
    cyclic = MultiStateCox(FREE).fit(rows[columns], outcome_of(rows, ["a", "b", "c"]))
    with pytest.raises(ValueError, match="`state` is missing: 0 states"):
        cyclic.predict_state_probabilities(rows[columns][:1], 3.0)


def test_states_whose_follow_up_ends_early_are_warned_of():
    rows = simulated()
    early = (rows["state"] == "ill") & (rows["time"] > 3)
    rows.loc[early, "event"], rows.loc[early, "time"] = "", np.maximum(rows["start"] + 0.01, 3.0)
    rows = rows[~((rows["state"] == "ill") & (rows["start"] > 2.9))]
    for clock in ("forward", "reset"):
        with pytest.warns(UserWarning, match=r"row 0 may be in state 'ill' at 5"):
            found = fitted(rows, clock=clock).predict_state_probabilities([[0.0]], 5.0)
        assert found.notna().all(axis=None)


def test_states_that_are_entered_late_are_known_for_as_long_as_they_last():
    n = np.arange(40)
    ill = 2.0 + n / 100
    y = multi_state(
        np.repeat(["well", "ill"], 40),
        np.append(np.where(n % 4, "ill", ""), np.where(n % 3, "dead", "")),
        np.append(0.0 * n, ill),
        np.append(np.where(n % 4, ill, 4.0), ill + 1.5 + n / 200),
        np.append(n, np.where(n % 4, n, 100 + n)),
    )
    model = MultiStateCox(FREE, clock="reset").fit(np.zeros((80, 1)), y)
    found = model.predict_state_probabilities([[0.0]], 3.0)  # nobody is ill for more than one
    assert (found["ill"] > 0.5).all(axis=None) and (found["dead"] == 0.0).all(axis=None)
    with pytest.warns(UserWarning, match="may be in state 'ill' at 4, for longer than"):
        model.predict_state_probabilities([[0.0]], 4.0)


def test_strata_that_are_alike_have_the_same_steps():
    names, codes = np.tile(["dead", ""], 4), np.repeat([1, 2], 4)
    y = multi_state(["well"] * 8, names, [0] * 8, [5] * 8, range(8), stratum=codes)
    model = MultiStateCox(FREE).fit(np.zeros((8, 1)), y)
    found = model.predict_state_probabilities([[0.0], [0.0]], 5.0, strata=[1, 2])
    np.testing.assert_allclose(found["well"][5.0], np.exp(-0.5))


def test_strata_without_anybody_in_a_state_have_no_hazard_of_leaving_it():
    rows = simulated()
    rows = rows[(rows["id"] % 2 == 0) | (rows["state"] == "well")]
    rows.loc[(rows["id"] % 2 == 1) & (rows["event"] == "ill"), "event"] = ""
    y = outcome_of(rows, ["well", "ill", "dead"], stratum=rows["id"] % 2)
    model = MultiStateCox(FREE).fit(rows[["x"]].to_numpy(), y)
    given = {"state": ["ill", "ill"], "strata": [0, 1]}
    with pytest.warns(UserWarning, match="row 1 may be in state 'ill' at 2.*which end at 0"):
        found = model.predict_state_probabilities([[0.0], [0.0]], 2.0, **given)["ill"][2.0]
    alone = model.estimators_["ill", "dead"].predict_survival_function([[0.0]], strata=[0])[0]
    assert found.tolist() == pytest.approx([alone(2.0), 1.0])


def test_models_have_names_summaries_and_pickles():
    rows = simulated().rename(columns={"x": "drug"})
    y = outcome_of(rows, ["well", "ill", "dead"])
    chosen = {
        ("well", "ill"): CoxLassoCV(n_alphas=4, cv=3, random_state=0),
        ("well", "dead"): make_pipeline(StepColumns(columns=["drug"], n_steps=2), FREE),
        ("ill", "dead"): CoxLassoCCD(alpha=0.01),
    }
    model = MultiStateCox(chosen).fit(rows[["drug"]], y, sample_weight=1.0 + rows["id"] % 2)
    assert model.transitions_ == [("well", "ill"), ("well", "dead"), ("ill", "dead")]
    assert model.summary().index.names == ["origin", "destination", "feature"]
    assert model.feature_names_in_.tolist() == ["drug"]
    new = rows[["drug"]].iloc[5:7]
    found = model.predict_state_probabilities(new, [1.0, 2.0])
    assert found.index.tolist() == [5, 6]
    copied = pickle.loads(pickle.dumps(model))
    pd.testing.assert_frame_equal(copied.predict_state_probabilities(new, [1.0, 2.0]), found)
    ill = rows[rows["state"] == "ill"]
    y = surv(ill["event"] == "dead", ill["time"], start=ill["start"])
    alone = chosen["ill", "dead"].fit(ill[["drug"]], y, 1.0 + ill["id"] % 2)
    np.testing.assert_array_equal(model.estimators_["ill", "dead"].coef_, alone.coef_)


def test_codes_of_none_and_rows_without_a_length_are_told_of():
    one = {"origin": [1, 1, 2], "start": [0, 0, 1], "subject": [1, 2, 2]}
    with pytest.raises(ValueError, match="`destination` is 0 in 2 rows"):
        multi_state(destination=[0, 2, 0], time=[3, 1, 4], **one)
    given = {"destination": [None, 2, 0], "time": [3, 1, 4]}
    assert len(multi_state(**given, **one, allowed={1: [2], 2: [0]})) == 3
    with pytest.raises(ValueError, match="its transition would be lost"):
        multi_state(destination=[None, 2, None], time=[3, 1, 1], **one)


def test_functions_of_one_fit_name_what_several_hazards_have():
    model = fitted(simulated(60))
    remedy = "of several hazards `joint_`, .* one of `estimators_`"
    for function in (lambda: wald(model, [[1.0]], None), lambda: to_json(model)):
        with pytest.raises(TypeError, match=remedy):
            function()


ERRORS = {case["name"]: case for case in load("state_errors.json")["cases"]}


@pytest.mark.parametrize("name", ERRORS)
def test_standard_errors_are_those_of_mstate(name):
    case, (rows, columns) = ERRORS[name], illness_death()
    y = outcome_of(rows, ["mgus", "pcm", "death"])
    X = rows[columns].astype(float)
    model = MultiStateCox(FREE, shared=["age"] if name == "shared" else None).fit(X, y)
    if name == "shared":
        assert model.joint_.coef_ == pytest.approx(case["coefficients"], abs=1e-8)
        stacked, outcome, _ = model.stack(X, y)
        assert stacked.names.tolist() == [
            "age", "male: mgus to pcm", "male: mgus to death", "male: pcm to death",
        ]  # fmt: skip
        found = wald(model.joint_, stacked, outcome).standard_errors
        assert found == pytest.approx(case["errors"], rel=1e-7)
    else:
        coef = np.array([fitted.coef_ for fitted in model.estimators_.values()])
        assert coef.T.ravel() == pytest.approx(case["coefficients"], abs=1e-8)
    # Of staying in the first state from the beginning on. Elsewhere mstate adds up variances of
    # increments, as if these did not share the errors of coefficients.
    who = pd.DataFrame([case["who"]], columns=columns)
    found = probability_intervals(model, X, y, who, case["times"], of="mgus")
    for given, expected in (
        (found.estimate[0], case["probability"]),
        (found.standard_errors[0], case["standard_error"]),
    ):  # there the chance to stay is 1 - dA, here exp(-dA)
        np.testing.assert_allclose(given, expected[: len(given)], rtol=0.01)


def by_differences(rows, horizon, state, start):
    """Probabilities of states for x = 1, times there, and errors, from sums of the likelihood."""
    names, kinds = ["well", "ill", "dead"], []
    for i, j in ((0, 1), (0, 2), (1, 2)):
        own = rows[rows["state"] == names[i]]
        times, deaths = np.unique(own["time"][own["event"] == names[j]], return_counts=True)
        since, until = own["start"].to_numpy(), own["time"].to_numpy()
        at_risk = (since < times[:, None]) & (until >= times[:, None])
        kinds.append((i, j, times, deaths, at_risk, own["x"].to_numpy()))
    model = fitted(rows)
    betas = np.array([one.coef_[0] for one in model.estimators_.values()])
    grid = np.unique(np.concatenate([kind[2] for kind in kinds]))
    inside = (grid > start) & (grid <= horizon)

    def probability(betas, moves):
        generators = np.zeros((len(grid), 3, 3))
        for k, (i, j, times, deaths, at_risk, x) in enumerate(kinds):
            hazard = deaths / (at_risk @ np.exp(x * betas[k])) + moves[k]
            at = np.searchsorted(grid, times)
            generators[at, i, j] += hazard * np.exp(betas[k])
            generators[at, i, i] -= hazard * np.exp(betas[k])
        here, spent, now = np.eye(3)[state], np.zeros(3), start
        for time, generator in zip(grid[inside], generators[inside], strict=True):
            spent, now = spent + here * (time - now), time
            here = here @ sum(  # quicker than expm
                np.linalg.matrix_power(generator, n) / math.factorial(n) for n in range(14)
            )
        return np.append(here, spent + here * (horizon - now))

    def slope(function, size):
        return (function(size) - function(-size)) / (2 * size)

    still, variance = [np.zeros(len(kind[2])) for kind in kinds], np.zeros(6)
    for k, (_, _, times, deaths, at_risk, x) in enumerate(kinds):
        for t in range(len(times)):

            def moved(size, k=k, t=t):
                moves = [m.copy() for m in still]
                moves[k][t] += size
                return probability(betas, moves)

            spread = deaths[t] / (at_risk[t] @ np.exp(x * betas[k])) ** 2
            variance += slope(moved, 1e-6) ** 2 * spread
        share = at_risk * np.exp(x * betas[k])
        mean = (share @ x) / share.sum(axis=1)
        information = deaths @ (mean * (1 - mean))  # x is 0 or 1

        def turned(size, k=k):
            return probability(betas + size * np.eye(3)[k], still)

        variance += slope(turned, 1e-5) ** 2 / information
    return probability(betas, still), np.sqrt(variance)


@pytest.mark.thorough(but="ill|tied")
@pytest.mark.parametrize(
    ("state", "start", "off"),
    [
        ("well", 0.0, 1e-4),
        ("well", 0.7, 1e-4),
        ("ill", 0.7, 1e-4),
        pytest.param("well", 0.0, 0.01, id="tied"),  # who falls ill may die at the same time
    ],
)
def test_standard_errors_of_states_are_those_of_differences(state, start, off):
    rows = simulated(60)
    if off > 1e-4:
        begin, end = np.ceil(rows["start"]), np.ceil(rows["time"])
        rows = rows.assign(start=begin, time=end + (end == begin))
    model, names = fitted(rows), ["well", "ill", "dead"]
    y = outcome_of(rows, names)
    X = rows[["x"]].to_numpy()
    estimate, error = by_differences(rows, 3.0, names.index(state), start)
    for place, (what, of) in enumerate(product(["probability", "expected_time"], names)):
        given = {"of": of, "what": what, "state": state, "start": start}
        found = probability_intervals(model, X, y, [[1]], [start, 3.0], **given)
        assert found.what == what
        assert found.estimate[0, 1] == pytest.approx(estimate[place], abs=1e-8)
        assert found.standard_errors[0, 1] == pytest.approx(error[place], rel=off, abs=1e-12)
        if what == "expected_time":
            assert (found.upper[0, 0], found.standard_errors[0, 0]) == (0.0, 0.0)
            assert 0.0 <= found.lower[0, 1] <= found.upper[0, 1] <= 3.0 - start
            share, whole = found.estimate[0, 1] / (3.0 - start), 3.0 - start
            slope = -error[place] / whole / ((1.0 - share) * np.log1p(-share)) if share else 0.0
            end = -np.expm1(np.log1p(-share) * np.exp(norm.isf(0.025) * slope))
            assert found.upper[0, 1] == pytest.approx(whole * end, rel=off)


def test_intervals_of_states_that_are_left_once_are_those_of_causes():
    rows = simulated()
    rows = rows[rows["state"] == "well"]
    y = outcome_of(rows, ["well", "ill", "dead"])
    X, new = rows[["x"]].to_numpy(), [[0.0], [1.0]]
    model = MultiStateCox(FREE).fit(X, y)
    code = rows["event"].map({"": 0, "ill": 1, "dead": 2})
    causes = competing_risks(code, rows["time"], labels={1: "ill", 2: "dead"})
    other = CauseSpecificCox(FREE).fit(X, causes)
    for state, event in (("well", "no event"), ("ill", "ill"), ("dead", "dead")):
        found = probability_intervals(model, X, y, new, [1.0, 4.0], of=state)
        expected = probability_intervals(other, X, causes, new, [1.0, 4.0], of=event)
        np.testing.assert_allclose(found.lower, expected.lower, rtol=1e-9)
        np.testing.assert_allclose(found.upper, expected.upper, rtol=1e-9)


@pytest.mark.thorough
def test_replicates_of_transitions_vary_as_standard_errors_say():
    rows = simulated(600)
    y, X = outcome_of(rows, ["well", "ill", "dead"]), rows[["x"]].to_numpy()
    model = MultiStateCox(CoxLassoCCD(alpha=0.0), shared=[]).fit(X, y)
    draws = bootstrap(model.joint_, *model.stack(X, y)[:2], n_replicates=200, random_state=0)
    for what in ("probability", "expected_time"):
        given = {"of": "ill", "what": what, "state": "ill", "start": 1.0}
        found = probability_intervals(model, X, y, [[1]], [2.0, 5.0], bootstrap=draws, **given)
        predict = {"probability": model.predict_state_probabilities}
        predict = predict.get(what, model.predict_expected_time)
        predicted = predict([[1]], [2.0, 5.0], state="ill", start=1.0)
        np.testing.assert_array_equal(found.estimate, predicted["ill"])
        near = probability_intervals(model, X, y, [[1]], [2.0, 5.0], **given)
        np.testing.assert_allclose(found.standard_errors, near.standard_errors, rtol=0.2)
        np.testing.assert_allclose(found.lower, near.lower, rtol=0.1)
        assert (found.lower < found.estimate).all() and (found.estimate < found.upper).all()


@pytest.mark.parametrize("shared", [None, []])
def test_states_that_nobody_is_at_risk_of_leaving_have_intervals(shared):
    rows = simulated()
    rows["site"] = np.where(rows["id"] % 2 == 0, "p", "q")
    rows = rows[(rows["site"] == "p") | (rows["state"] == "well")].copy()
    is_early = (rows["state"] == "well") & ((rows["site"] == "q") | (rows["time"] > 2))
    rows.loc[is_early & (rows["event"] == "ill"), "event"] = ""
    rows.loc[is_early & (rows["site"] == "p"), ["event", "time"]] = "", 2.0
    late = rows.index[(rows["state"] == "ill") & (rows["start"] > 2)]
    rows = rows.drop(index=late)
    y, X = outcome_of(rows, ["well", "ill", "dead"]), rows[["x"]].to_numpy()
    same = {"strata": rows["site"], "sample_weight": None}
    model = MultiStateCox(FREE, shared=shared).fit(X, y, **same)
    alone = MultiStateCox(FREE).fit(X, y, **same).estimators_
    for state, start, site in (("well", 0.0, ["q"]), ("ill", 3.0, ["p"])):
        given = {"strata_new": site, "start": start, "times": [4.0, 5.5]}
        found = probability_intervals(model, X, y, [[1]], of="dead", state=state, **same, **given)
        own = rows["state"] == state
        one = surv(rows["event"] == "dead", rows["time"], start=rows["start"])[own]
        expected = curve_intervals(
            alone[state, "dead"], X[own], one, [[1]], strata=rows["site"][own], **given
        )
        np.testing.assert_allclose(found.estimate, 1 - expected.estimate, rtol=1e-6)
        np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-6)
        if shared is not None:
            stacked, outcome, _ = model.stack(X, y, strata=rows["site"])
            draws = bootstrap(model.joint_, stacked, outcome, n_replicates=9, random_state=0)
            given |= {"state": state, "bootstrap": draws}
            drawn = probability_intervals(model, X, y, [[1]], of="dead", **same, **given)
            assert (drawn.lower <= drawn.upper).all()


def test_a_clock_that_is_reset_has_no_intervals():
    rows = simulated()
    y, X = outcome_of(rows, ["well", "ill", "dead"]), rows[["x"]].to_numpy()
    model = MultiStateCox(FREE, clock="reset", shared=[0]).fit(X, y)
    assert len({one.coef_[0] for one in model.estimators_.values()}) == 1
    with pytest.raises(ValueError, match="the clock is reset"):
        probability_intervals(model, X, y, [[1]], [2.0], of="ill")
    model = MultiStateCox(FREE).fit(X, y)
    with pytest.raises(ValueError, match="`of` is None, must be one of"):
        probability_intervals(model, X, y, [[1]], [2.0])
    with pytest.raises(ValueError, match="must be one state, of all rows"):
        probability_intervals(model, X, y, [[1]], [2.0], of="ill", state=["well"])
    with pytest.raises(TypeError, match="`sample_wieght` is no argument"):
        probability_intervals(model, X, y, [[1]], [2.0], of="ill", sample_wieght=1.0)
    with pytest.raises(TypeError, match=r"`start` is .*pass one number"):
        probability_intervals(model, X, y, [[1]], [2.0], of="ill", start=np.ones(1))
    with pytest.raises(NotFittedError):
        probability_intervals(MultiStateCox(), X, y, [[1]], [2.0], of="ill")


def test_probabilities_of_states_are_stacked():
    pytest.importorskip("matplotlib").use("Agg")
    model, new = fitted(simulated()), pd.DataFrame({"x": [0, 1]}, index=["none", "drug"])
    display = StackedIncidenceDisplay.from_estimator(model, new.to_numpy())
    assert [text.get_text() for text in display.labels_] == ["ill", "dead", "well"]
    assert list(display.functions) == ["row 0", "row 1"]
    found = model.predict_state_probabilities(new.to_numpy(), 3.0)
    drawn = [curve(3.0) for curve in display.functions["row 1"]]
    assert drawn == pytest.approx(found.iloc[1][["ill", "dead"]].tolist())
    later = StackedIncidenceDisplay.from_estimator(model, new.to_numpy(), state="ill", start=1.0)
    well, dead = later.functions["row 0"]
    assert well(5.0) == 0.0 and dead(0.9) == 0.0 < dead(5.0)
    assert later.labels_[-1].get_text() == "ill"
    causes = CauseSpecificCox(FREE).fit(ROW[:, None] % 7, competing_risks(ROW % 3, ROW))
    since = StackedIncidenceDisplay.from_estimator(causes, [[1.0]], start=9.0)
    assert since.functions["row 0"][0](9.0) == 0.0
    with pytest.raises(ValueError, match="`state` is for a MultiStateCox"):
        StackedIncidenceDisplay.from_estimator(causes, [[1.0]], state="ill")
