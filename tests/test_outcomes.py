"""Many outcomes of one X: equal to fits one by one of the rows at risk, and never fatal."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    competing_risks,
    fit_outcomes,
    profile_likelihood,
    surv,
    wald,
)
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.outcomes.survival import read_outcome
from sksurvgpu.inference import _outcome
from sksurvgpu.patterns.risk_sets.plan import plan_rows
from sksurvgpu.solver.problem import Problem

N, P = 400, 6
MODELS = {
    "cox": CoxLassoCCD(alpha=0.01),
    "efron": CoxLassoCCD(alpha=0.01, ties="efron", penalty_factor={"drug": 0.0}),
    "fine-gray": FineGrayCCD(alpha=0.01),
    "logistic": LogisticCCD(alpha=0.01),
    "poisson": PoissonCCD(alpha=0.01),
    "linear": LinearCCD(alpha=0.01, fit_intercept=False),
}


@pytest.fixture(scope="module")
def data():
    """X with a column far from 0, three outcomes by model, who is at risk of them, and strata."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((N, P)) < 0.3, columns=[f"code {j}" for j in range(P)])
    X = X.assign(drug=rng.random(N) < 0.4, year=2010.0 + rng.integers(0, 9, N))
    eta = X.to_numpy(float) @ np.append(rng.normal(0.0, 0.5, P), [0.4, 0.02])
    outcomes = {name: {} for name in MODELS}
    at_risk = {}
    for k in range(3):
        time = np.ceil(rng.exponential(np.exp(eta.mean() - eta)) * 50)
        event = rng.integers(0, 3, N)
        outcomes["cox"][f"y{k}"] = outcomes["efron"][f"y{k}"] = surv(event > 0, time)
        outcomes["fine-gray"][f"y{k}"] = competing_risks(event, time)
        outcomes["logistic"][f"y{k}"] = event > 1
        outcomes["poisson"][f"y{k}"] = rng.poisson(np.exp(eta - eta.mean()))
        outcomes["linear"][f"y{k}"] = eta + rng.normal(size=N)
        at_risk[f"y{k}"] = rng.random(N) < 0.8
    return X, outcomes, at_risk, rng.integers(0, 4, N)


def single(model, X, y, rows, strata=None):
    """The same by the public function, of a subset of the rows."""
    beside = {} if strata is None else {"strata": strata[rows]}
    return profile_likelihood(model, X[rows], y[rows], ["drug", "code 1"], **beside)


@pytest.mark.parametrize(
    ("name", "stratified"),
    [*((name, False) for name in MODELS), ("cox", True), ("efron", True), ("fine-gray", True)],
)
def test_profiles_are_those_of_the_rows_at_risk(data, name, stratified):
    X, outcomes, at_risk, strata = data
    beside = {"strata": strata} if stratified else {}
    given = {"columns": ["drug", "code 1"], "at_risk": at_risk, **beside}
    result = fit_outcomes(MODELS[name], X, outcomes[name], **given, n_jobs=2)
    assert (result.table["status"] == "ok").all(), result.failures["message"].tolist()
    for outcome, y in outcomes[name].items():
        one = single(MODELS[name], X, y, at_risk[outcome], strata if stratified else None)
        found = result.table.loc[outcome]
        expected = one.summary()
        for column in ("coef", "lower", "upper"):
            np.testing.assert_allclose(found[column], expected[column], rtol=0, atol=2e-5)
        np.testing.assert_allclose(found["p_value"], expected["p_value"], rtol=1e-3)
        assert (found["n_at_risk"] == at_risk[outcome].sum()).all()
        exposed = X.loc[at_risk[outcome], ["drug", "code 1"]].sum()
        assert found["n_exposed"].tolist() == exposed.tolist()
        drug = result.curves.query("outcome == @outcome and feature == 'drug'")
        assert len(drug) > 4
        assert drug["log_likelihood_ratio"].min() == 0.0


def test_one_outcome_is_said_to_be_one(data):
    X, outcomes, *_ = data
    one = dict([*outcomes["cox"].items()][:1])
    result = fit_outcomes(CoxLassoCCD(alpha=0.01), X, one, columns="drug", intervals=None)
    assert repr(result).startswith("<OutcomesResult of 1 outcome")
    assert not repr(result).startswith("<OutcomesResult of 1 outcomes")


@pytest.mark.parametrize("intervals", ["profile", None])
def test_penalties_are_chosen_by_outcome(data, intervals):
    X, outcomes, at_risk, _ = data
    chooses = CoxLassoCV(cv=3, n_alphas=8, penalty_factor={"drug": 0.0})
    given = {"columns": "drug", "at_risk": at_risk, "intervals": intervals}
    result = fit_outcomes(chooses, X, outcomes["cox"], n_jobs=2, **given)
    assert result.table["alpha"].nunique() > 1
    for name, y in outcomes["cox"].items():
        model = clone(chooses).fit(X, y, sample_weight=at_risk[name].astype(float))
        found = result.table.loc[name]
        assert found["alpha"] == pytest.approx(model.alpha_)
        assert found["coef"] == pytest.approx(model.coef_[P], abs=1e-4)
        if intervals:
            rows = at_risk[name]
            expected = single(model.refit_model(), X, y, rows).intervals.loc["drug"]
            np.testing.assert_allclose(found[["lower", "upper"]].astype(float), expected[1:], 1e-3)


@pytest.mark.parametrize("intervals", ["wald", "robust", None])
def test_intervals_of_fits_without_a_penalty(data, intervals):
    X, outcomes, at_risk, strata = data
    model = CoxLassoCCD(alpha=0)
    given = {"columns": "drug", "at_risk": at_risk, "strata": strata, "intervals": intervals}
    result = fit_outcomes(model, X, outcomes["cox"], **given)
    for name, y in outcomes["cox"].items():
        rows = at_risk[name]
        fitted = model.fit(X[rows], y[rows], strata=strata[rows])
        found = result.table.loc[name]
        assert found["coef"] == pytest.approx(fitted.coef_[P], abs=1e-6)
        if intervals is None:
            assert np.isnan(found["standard_error"])
            continue
        beside = {"strata": strata[rows], "robust": intervals == "robust"}
        expected = wald(fitted, X[rows], y[rows], **beside).summary().loc["drug"]
        columns = ["standard_error", "p_value", "lower", "upper", "hazard_ratio_upper"]
        np.testing.assert_allclose(found[columns].astype(float), expected[columns], rtol=1e-5)
    assert result.estimates.notna().all().tolist() == [True, intervals is not None]


def test_events_are_counted_by_group(data):
    X, outcomes, at_risk, _ = data
    y, rows = outcomes["fine-gray"]["y0"], at_risk["y0"]
    table = fit_outcomes(
        MODELS["fine-gray"], X, {"y0": y}, columns=["drug", "year"], at_risk=rows
    ).table.loc["y0"]
    events = rows & (y["event"] == 1)
    assert table["n_events"].tolist() == [events.sum()] * 2
    assert table.loc["drug", "n_events_exposed"] == (events & X["drug"]).sum()
    assert table.loc["year", ["n_exposed", "n_events_exposed"]].isna().all()


def test_what_belongs_to_rows_may_be_that_of_rows_at_risk(data):
    X, outcomes, at_risk, strata = data
    rows = np.random.default_rng(1).permutation(np.flatnonzero(at_risk["y1"]))
    y, weight = outcomes["efron"]["y1"], np.random.default_rng(2).random(N) + 0.5
    given = {"columns": "drug", "intervals": None}
    short = fit_outcomes(
        MODELS["efron"],
        X,
        {"a": y[rows]},
        at_risk={"a": rows},
        strata={"a": strata[rows]},
        sample_weight={"a": weight[rows]},
        **given,
    ).table
    full = fit_outcomes(
        MODELS["efron"],
        X,
        {"a": y},
        at_risk=at_risk["y1"],
        strata=strata,
        sample_weight=weight,
        **given,
    ).table
    pd.testing.assert_frame_equal(short, full, rtol=1e-6)


@pytest.mark.parametrize("name", ["cox", "fine-gray", "logistic"])
def test_columns_are_held_once(data, name, monkeypatch):
    X, outcomes, at_risk, strata = data
    beside = {} if name == "logistic" else {"strata": strata}
    held, build = [], Problem.build

    def building(design, *args, **kwargs):
        held.append(problem := build(design, *args, **kwargs))
        return problem

    monkeypatch.setattr(Problem, "build", building)
    fit_outcomes(MODELS[name], X, outcomes[name], columns="drug", at_risk=at_risk, **beside)
    assert len(held) >= 3
    design = held[0].design
    for problem in held:
        assert problem.design.indices is design.indices
        assert problem.design.values is design.values  # those of `year` are centred once
        assert problem.tiles is held[0].tiles


def test_strata_of_single_outcomes_are_put_in_order(data):
    X, outcomes, *_ = data
    y, model = outcomes["cox"]["y0"], MODELS["cox"]
    given = {"columns": "drug", "intervals": None}
    strata = np.arange(N) % 100
    plan = plan_rows(read_outcome(y, strata=strata), reorders=False)
    assert (np.diff(strata[plan.order]) >= 0).all()
    both = fit_outcomes(model, X, {"a": y, "b": y}, strata={"a": strata}, **given).table
    for name, beside in (("a", {"strata": strata}), ("b", {})):
        expected = model.fit(X, y, **beside).coef_[P]
        assert both.loc[name, "coef"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("stratified", [False, True])
@pytest.mark.parametrize("name", ["efron", "fine-gray"])
def test_fits_of_rows_in_their_own_order(data, name, stratified):
    X, outcomes, at_risk, strata = data
    design, y, weight = build_design(X), outcomes[name]["y0"], at_risk["y0"].astype(float)
    strata = {"strata": np.sort(strata)} if stratified else {}
    fits = [
        clone(MODELS[name]).fit(replace(design, keeps_order=keeps), y, weight, **strata)
        for keeps in (False, True)
    ]
    for attribute in ("coef_", "log_likelihood_"):
        expected, found = (getattr(fit, attribute) for fit in fits)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    curves = [fit.predict_risk(design, [10.0, 40.0], **strata) for fit in fits]
    pd.testing.assert_frame_equal(*curves)


class TestFailures:
    """Each of one outcome, beside one that is fitted."""

    @pytest.fixture
    def fit(self, data):
        X, outcomes, *_ = data
        y = outcomes["cox"]["y0"]

        def fit(other, model=MODELS["cox"], **given):
            given = {"columns": "drug", **given}
            outcomes = {"other": other, "good": y}
            given = {k: {"other": v} if k == "at_risk" else v for k, v in given.items()}
            result = fit_outcomes(model, X, outcomes, **given)
            assert result.table.loc["good", "status"] == "ok"
            assert result.estimates.notna().all(axis=1).tolist() == [False, True]
            return result.table.loc["other"]

        return fit, X, y

    def test_no_event(self, fit):
        fit, _, y = fit
        found = fit(surv(np.zeros(N), y["time"]))
        assert found["status"] == "failed"
        assert found["message"].startswith("`y` has no event (all 400 rows censored)")
        assert (found["n_at_risk"], found["n_events"]) == (N, 0)

    def test_no_event_at_risk(self, fit):
        fit, _, y = fit
        found = fit(y, at_risk=~y["event"])
        assert found["status"] == "failed"
        assert "`sample_weight` is zero in all" in found["message"]

    @pytest.mark.parametrize(("exposed", "sign"), [(False, -1), (True, 1)])
    def test_events_of_one_group_only(self, fit, exposed, sign):
        fit, X, y = fit
        for intervals in ("profile", None):
            penalty = {} if intervals else {"penalty_factor": {"drug": 0.0}}
            model = CoxLassoCCD(alpha=0.01, **penalty)
            outcome = surv(y["event"] & (X["drug"] == exposed).to_numpy(), y["time"])
            result = fit_outcomes(model, X, {"a": outcome}, columns="drug", intervals=intervals)
            found = result.table.loc["a"]
            assert found["status"] == "infinite"
            assert found["coef"] == sign * np.inf
            assert found["message"].startswith("`drug` has no finite estimate")
            assert result.estimates.isna().all(axis=None)
        # the finite bound of a profile is there
        found = fit(outcome)
        assert np.isfinite(found["lower" if sign > 0 else "upper"])
        assert np.isinf(found["upper" if sign > 0 else "lower"])

    def test_nobody_with_the_column_at_risk(self, fit):
        fit, X, y = fit
        found = fit(y, at_risk=~X["drug"].to_numpy())
        assert found["status"] == "failed"
        assert found["message"] == "`drug` is 0 in all rows at risk."
        assert found["n_exposed"] == 0

    @pytest.mark.parametrize("intervals", ["wald", "robust"])
    def test_a_column_that_depends_on_others_at_risk(self, fit, intervals):
        _, X, y = fit
        table = pd.DataFrame({"other": 1.0 - X["drug"], "drug": X["drug"]})
        given = {"columns": ["other", "drug"], "intervals": intervals}
        table = fit_outcomes(CoxLassoCCD(alpha=0.0), table, {"a": y}, **given).table
        assert table["status"].tolist() == ["ok", "failed"]
        assert "do not determine the coefficients of `drug`" in table.loc[("a", "drug"), "message"]

    def test_not_converged(self, data):
        X, outcomes, *_ = data
        model = CoxLassoCCD(alpha=1e-4, max_iter=1)
        result = fit_outcomes(model, X, outcomes["cox"], columns="drug", intervals=None)
        assert (result.table["status"] == "not converged").all()
        assert result.table["message"].str.contains("max_iter").all()
        assert repr(result).splitlines()[0] == "<OutcomesResult of 3 outcomes, 3 not converged>"

    @pytest.mark.parametrize(
        ("outcome", "message"),
        [
            (np.zeros(N), "TypeError: `y` has dtype float64"),
            (np.zeros(N - 1), "`y` has 399 entries, `X` has 400 rows; pass one per row, or one"),
            (None, "`y`"),
        ],
    )
    def test_other_outcomes(self, fit, outcome, message):
        found = fit[0](outcome)
        assert found["status"] == "failed"
        assert message in found["message"]

    @pytest.mark.parametrize(
        ("at_risk", "message"),
        [
            (np.zeros(N, bool), "`at_risk` has no rows"),
            (np.zeros(3, bool), "`at_risk` has 3 entries, `X` has 400 rows"),
            ([1, 400], "`at_risk` has the row 400; `X` has rows 0 to 399"),
            ([1, 1], "`at_risk` has some row more than once"),
            ([0.5], "`at_risk` has dtype float64"),
        ],
    )
    def test_rows_at_risk(self, fit, at_risk, message):
        fit, _, y = fit
        assert message in fit(y, at_risk=at_risk)["message"]


class Ending(Mapping):
    """Outcomes during which work ends."""

    def __init__(self, outcomes, n_read):
        self._outcomes, self._left = outcomes, n_read

    def __getitem__(self, name):
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt
        return self._outcomes[name]

    def __iter__(self):
        return iter(self._outcomes)

    def __len__(self):
        return len(self._outcomes)


@pytest.fixture
def fitted(monkeypatch):
    """Numbers of events of the outcomes that are fitted."""
    names, fit = [], _outcome.SharedInput.fit

    def counting(self, found, given, warned):
        fit(self, found, given, warned)
        names.append(int(found.counts[0, 1]))

    monkeypatch.setattr(_outcome.SharedInput, "fit", counting)
    return names


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_work_goes_on_in_a_folder(data, tmp_path, fitted, n_jobs):
    X, outcomes, at_risk, _ = data
    outcomes = outcomes["cox"] | {"no event": surv(np.zeros(N), np.ones(N))}
    given = {"columns": "drug", "at_risk": at_risk, "folder": tmp_path / "study", "n_jobs": n_jobs}
    whole = fit_outcomes(MODELS["cox"], X, outcomes, **given | {"folder": None})
    fitted.clear()
    with pytest.raises(KeyboardInterrupt):
        fit_outcomes(MODELS["cox"], X, Ending(outcomes, 3), **given)  # the first is read twice
    n_done = len(fitted)
    assert 2 - n_jobs <= n_done <= 2  # threads leave what they are at
    fitted.clear()
    result = fit_outcomes(MODELS["cox"], X, outcomes, **given)
    assert len(fitted) == 3 - n_done  # `no event` ends before its count
    pd.testing.assert_frame_equal(result.table, whole.table)
    pd.testing.assert_frame_equal(result.curves, whole.curves)


def test_folders_belong_to_a_study(data, tmp_path, fitted):
    X, outcomes, _, _ = data
    given = {"columns": "drug", "folder": tmp_path, "intervals": None}
    some = {name: outcomes["cox"][name] for name in ("y0", "y1")}
    fit_outcomes(MODELS["cox"], X, some, **given)
    fitted.clear()
    # more outcomes, and one that differs
    fit_outcomes(MODELS["cox"], X, outcomes["cox"] | {"y1": outcomes["cox"]["y0"]}, **given)
    assert len(fitted) == 2
    for change, named in (
        ({"columns": "code 1"}, "columns"),
        ({"intervals": "profile"}, "intervals"),
        ({"estimator": CoxLassoCCD(alpha=0.02)}, "alpha"),
        ({"X": X.assign(drug=~X["drug"])}, "X"),
    ):
        call = {"estimator": MODELS["cox"], "X": X, "outcomes": some, **given, **change}
        with pytest.raises(FileExistsError, match=f"another call: `{named}`"):
            fit_outcomes(**call)


def test_design_and_progress(data, capsys):
    X, outcomes, _, _ = data
    model = CoxLassoCCD(alpha=0.01, verbose=1)
    fit_outcomes(model, build_design(X), outcomes["cox"], columns=P, intervals=None)
    assert capsys.readouterr().out.startswith("outcomes: 3 fits, ")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"estimator": object()}, TypeError, "`estimator` is of type object; pass an estimator"),
        ({"columns": "drugs"}, ValueError, "column 'drugs', which `X` does not have; .* 'drug'"),
        ({"columns": 9}, ValueError, "names column 9, `X` has columns 0 to 7"),
        ({"columns": []}, ValueError, "`columns` is empty"),
        ({"columns": [1.5]}, TypeError, "names a column 1.5 of type float; use its"),
        ({"outcomes": {}}, ValueError, "`outcomes` is empty"),
        ({"outcomes": [1]}, TypeError, "`outcomes` is of type list; pass a dict"),
        ({"at_risk": {"gout": [1]}}, ValueError, "`at_risk` names 'gout', which is none of"),
        ({"group": [1]}, TypeError, "`group` is no argument of fit_outcomes and CoxLassoCCD.fit"),
        ({"intervals": "exact"}, ValueError, "`intervals` is 'exact', must be one of 'profile'"),
        ({"intervals": "wald"}, ValueError, "is for fits without a penalty"),
        ({"strata": [1, 2]}, ValueError, "`strata` has 2 entries, `X` has 400 rows; pass one per"),
        ({"strata": np.full(N, np.nan)}, ValueError, "`strata` has 400 missing"),
        ({"offset": np.zeros(3), "at_risk": {"y0": [1, 2]}}, ValueError, "`offset` has 3 entries"),
        ({"sample_weight": -np.ones(N)}, ValueError, "`sample_weight` is -1 in row 0"),
        ({"at_risk": np.ones(3, bool)}, ValueError, "`at_risk` has 3 entries, `X` has 400 rows"),
        ({"level": 95}, ValueError, "`level` is 95"),
        ({"n_jobs": 0}, ValueError, "`n_jobs` is 0"),
        ({"estimator": CoxLassoCV(folder="fits")}, ValueError, "`folder`, which serves one fit"),
        ({"estimator": CoxLassoCCD(penalty="mcp")}, ValueError, "has `penalty`, which profile"),
    ],
)
def test_calls_are_checked_before_any_fit(data, change, error, message):
    X, outcomes, _, _ = data
    call = {"estimator": MODELS["cox"], "X": X, "outcomes": outcomes["cox"], "columns": "drug"}
    with pytest.raises(error, match=message):
        fit_outcomes(**call | change)
