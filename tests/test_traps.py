"""Slips that used to pass without a word, and gave another model's numbers."""

import numpy as np
import pandas as pd
import pytest

from sksurvgpu import (
    MCP,
    SCAD,
    BayesianLasso,
    BayesianMultinomialLogistic,
    CauseSpecificCox,
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    GroupLasso,
    Hierarchical,
    LinearCCD,
    LogisticCCD,
    MultiStateCox,
    PoissonCCD,
    SurvivalKFold,
    bootstrap,
    case_series,
    competing_risks,
    curve_intervals,
    fit_outcomes,
    matched,
    multi_state,
    posterior,
    screen,
    stability_selection,
    surv,
    wald,
)
from sksurvgpu.cohort import balance, incidence_rate
from sksurvgpu.data.vectors import check_order
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.metrics import calibration, concordance, concordance_competing, net_benefit
from sksurvgpu.nonparametric import kaplan_meier

SHUFFLED = "in another order, and rows are taken as they stand; pass"


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    columns = {"event": rng.random(60) < 0.6, "time": rng.exponential(size=60)}
    return pd.DataFrame(columns | {"x": rng.normal(size=60), "z": rng.normal(size=60)})


@pytest.mark.parametrize(
    ("build", "first"),
    [(surv, "event"), (competing_risks, "event"), (matched, "event"), (case_series, "event")],
)
def test_outcomes_of_columns_in_different_orders(table, build, first):
    a, b = table[first].astype(int), table["time"].round(3) + 0.01
    more = [b, table["x"] > 0] if build is case_series else [b if build is not matched else a]
    shuffled = [*more[:-1], more[-1].sample(frac=1, random_state=0)]
    with pytest.raises(ValueError, match=SHUFFLED):
        build(a, *shuffled)
    build(a, *more[:-1], more[-1].to_numpy())


@pytest.mark.parametrize("name", ["sample_weight", "offset", "strata"])
def test_rows_of_fits_in_different_orders(table, name):
    y = surv(table["event"], table["time"])
    given = {name: (table["x"] > 0).astype(int).sample(frac=1, random_state=0)}
    with pytest.raises(ValueError, match=SHUFFLED):
        CoxLassoCCD().fit(table[["x", "z"]], y, **given)
    causes = competing_risks(table["event"].astype(int) + (table["z"] > 0), table["time"])
    with pytest.raises(ValueError, match=SHUFFLED):
        CauseSpecificCox().fit(table[["x", "z"]], causes, **given)
    with pytest.raises(ValueError, match=r"`y` has the labels of that of `X`.*y.loc\[X.index\]"):
        LinearCCD().fit(table[["x"]], table["z"].sample(frac=1, random_state=0))


def test_no_rows_have_no_order():
    check_order(X=pd.DataFrame(index=pd.DatetimeIndex([])), y=pd.Series([], dtype=float))


def test_rows_beside_fits_in_different_orders(table):
    X, event, time = table[["x", "z"]], table["event"], table["time"]
    y, drug = surv(event, time), (table["x"] > 0).astype(int)
    other = drug.sample(frac=1, random_state=0)
    stays = {"origin": pd.Series("well", X.index), "start": 0.0 * time, "subject": X.index.array}
    states = multi_state(**stays, destination=np.where(event, "ill", ""), time=time)
    cox, few = CoxLassoCCD(alpha=0.01), {"n_tune": 4, "n_draws": 4}
    by_drug, of_states = cox.fit(X, y, strata=drug), MultiStateCox(cox).fit(X, states)
    cox, causes = CoxLassoCCD(alpha=0).fit(X, y), competing_risks(event + drug * event, time)
    both = CauseSpecificCox(cox, shared=[]).fit(X, causes)
    calls = [
        lambda: screen(X, other),
        lambda: screen(X, y, strata=other),
        lambda: balance(X, other),
        lambda: balance(X, drug, weights=other),
        lambda: incidence_rate(event, time, groups=other),
        lambda: kaplan_meier(y, groups=drug, sample_weight=other),
        lambda: multi_state(**stays, destination=other.map({0: "", 1: "ill"}), time=time),
        lambda: MultiStateCox().fit(X, states, sample_weight=other),
        lambda: of_states.predict_state_probabilities(X, 0.1, state=other.map(lambda _: "well")),
        lambda: of_states.predict_state_probabilities(X, 0.1, start=0.01 * other),
        lambda: by_drug.predict_risk(X, 0.1, strata=other),
        lambda: by_drug.predict_quantile(X, 0.5, strata=other),
        lambda: by_drug.predict_survival_function(X, strata=other),
        lambda: bootstrap(cox, X, y, n_replicates=2, groups=other),
        lambda: stability_selection(CoxLassoCCD(), X, y, groups=other),
        lambda: wald(cox, X, y, cluster=other),
        lambda: list(SurvivalKFold(2).split(X, y, groups=other)),
        lambda: both.stack(X, causes, sample_weight=other),
        lambda: BayesianLasso(**few).fit(X, table["time"], sample_weight=other),
        lambda: BayesianMultinomialLogistic(**few).fit(X, other),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=SHUFFLED):
            call()


def test_rows_of_many_outcomes_in_different_orders(table):
    X, event = table[["x", "z"]], table["event"].astype(int)
    other, drug = event.sample(frac=1, random_state=0), (table["x"] > 0).astype(int)

    def fitted(y, **given):
        given = {"columns": "x", "intervals": None, **given}
        return fit_outcomes(LogisticCCD(alpha=0.01), X, {"a": y}, **given).table.loc["a"]

    for given in ({"sample_weight": other}, {"at_risk": other == 1}):
        with pytest.raises(ValueError, match=SHUFFLED):
            fitted(event, **given)
        assert SHUFFLED in fitted(event, **{key: {"a": one} for key, one in given.items()}).message
    assert SHUFFLED in fitted(other).message
    some = event[drug == 1]
    assert SHUFFLED in fitted(some.sample(frac=1, random_state=0), at_risk=drug == 1).message
    few, mask = fitted(some, at_risk=drug == 1), fitted(some.to_numpy(), at_risk=drug == 1)
    assert few.coef == mask.coef
    turned = fitted(event, at_risk=np.arange(60)[::-1])  # values of all rows stand as in X
    assert turned.coef == fitted(event).coef


@pytest.mark.parametrize(
    ("by_name", "in_order"),
    [
        (lambda s: {"penalty_factor": s([0.0, 1.0, 3.0])}, {"penalty_factor": [1.0, 3.0, 0.0]}),
        (lambda s: {"bounds": (-1, s([1, 0.1, 1]))}, {"bounds": (-1, [0.1, 1, 1])}),
        (lambda s: {"bounds": (s([0, 1, 1])[:1], None)}, {"bounds": ([None, None, 0], None)}),
        (
            lambda s: {"penalty": GroupLasso(s(["a", "a", None]))},
            {"penalty": GroupLasso(["a", None, "a"])},
        ),
        (
            lambda s: {
                "penalty": Hierarchical(pd.DataFrame({"up": s(["a", "b", "a"])}), between=1)
            },
            {"penalty": Hierarchical(["b", "a", "a"], between=1)},
        ),
    ],
)
def test_what_columns_have_by_name_may_be_in_any_order(table, by_name, in_order):
    X, y = table.assign(w=table["x"] * table["z"])[["x", "z", "w"]], table["time"]
    given = by_name(lambda values: pd.Series(values, ["w", "x", "z"]))
    found = LinearCCD(alpha=0.02, **given).fit(X, y).coef_
    expected = LinearCCD(alpha=0.02, **in_order).fit(X.to_numpy(), y).coef_
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert not np.allclose(found, LinearCCD(alpha=0.02).fit(X, y).coef_, atol=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scales_of_groups_may_be_in_any_order(table):
    X, y = table.assign(w=table["x"] ** 2)[["x", "z", "w"]], table["event"].astype(int)
    given = {"prior": "laplace", "n_tune": 8, "n_draws": 8, "random_state": 0}
    by_name = pd.Series(["a", "a", "b"], ["w", "z", "x"])
    draws = [
        posterior(LogisticCCD(), X, y, scale="learn", scale_groups=groups, **given).draws["coef"]
        for groups in (by_name, ["b", "a", "a"], ["a", "a", "b"])
    ]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).any()


def test_columns_that_are_named_twice(table):
    groups = pd.Series(["a", "a", "b"], ["x", "z", "z"])
    with pytest.raises(ValueError, match="`groups` has several entries of column 'z'; keep one"):
        LinearCCD(penalty=GroupLasso(groups)).fit(table[["x", "z"]], table["time"])


@pytest.mark.parametrize("estimator", [LinearCCD, LogisticCCD, PoissonCCD])
def test_scores_of_vectors_in_different_orders(table, estimator):
    X, y = table[["x", "z"]], table["event"].astype(int)
    model, other = estimator(alpha=0.001).fit(X, y), y.sample(frac=1, random_state=0)
    for call in (model.score, model.log_likelihood):
        with pytest.raises(ValueError, match=SHUFFLED):
            call(X, other)
        with pytest.raises(ValueError, match=SHUFFLED):
            call(X, y, sample_weight=other)
    if estimator is PoissonCCD:
        for call in (model.predict, lambda X, exposure: model.score(X, y, exposure=exposure)):
            with pytest.raises(ValueError, match=SHUFFLED):
                call(X, exposure=other + 1)


def test_scores_and_metrics_in_different_orders(table):
    X, event, time = table[["x", "z"]], table["event"], table["time"]
    y, causes = surv(event, time), competing_risks(event * 1, time)
    drug, risk = (table["x"] > 0).astype(int), table["time"] / 10
    other, shuffled = drug.sample(frac=1, random_state=0), risk.sample(frac=1, random_state=0)
    given = {"strata": drug}
    by_drug = CoxLassoCCD(alpha=0).fit(X, y, **given)
    calls = [
        lambda: by_drug.score(X, y, strata=other),
        lambda: by_drug.log_likelihood(X, y, strata=other),
        lambda: FineGrayCCD(alpha=0).fit(X, causes).score(X, causes, sample_weight=other),
        lambda: CauseSpecificCox().fit(X, causes).score(X, causes, sample_weight=other),
        lambda: concordance(y, risk, strata=other),
        lambda: concordance_competing(causes, risk, sample_weight=other),
        lambda: calibration(event, shuffled),
        lambda: net_benefit(event, shuffled),
        lambda: net_benefit(y, {"a": risk, "b": shuffled}, 1.0),
        lambda: curve_intervals(by_drug, X, y, X, times=[0.1], strata_new=other, **given),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=SHUFFLED):
            call()


def test_other_labels_are_taken_as_they_stand(table):
    a = surv(table["event"], table["time"].set_axis(np.arange(100, 160)))
    assert np.array_equal(a, surv(table["event"], table["time"]))


def test_rows_of_a_subject_that_overlap():
    event, time, start = [0, 1, 1], [5.0, 7.0, 3.0], [0.0, 4.0, 0.0]
    with pytest.raises(ValueError, match=r"subject ann is at risk in \(0, 5\] and \(4, 7\] \(rows"):
        surv(event, time, start=start, subject=["ann", "ann", "bob"])
    surv(event, time, start=start, subject=["ann", "ann", "bob"], stratum=[0, 1, 0])
    surv(event, [4.0, 7.0, 3.0], start=start, subject=["ann", "ann", "bob"])


def test_a_list_of_mixtures_is_a_grid_by_another_name():
    data = simulate_cox(60, 3, density=0.5, random_state=0)
    with pytest.raises(ValueError, match="pass it as `l1_ratios` to choose"):
        CoxLassoCV(l1_ratio=[0.1, 0.5, 1.0]).fit(data.X, data.y)


def test_few_clusters_of_robust_errors_warn(table):
    X, y = table[["x"]], surv(table["event"], table["time"])
    model = CoxLassoCCD(alpha=0.0).fit(X, y)
    with pytest.warns(UserWarning, match="are of 3 clusters, and too small where these are few"):
        wald(model, X, y, cluster=np.arange(60) % 3)
    wald(model, X, y, cluster=np.arange(60) % 20)


def test_slips_are_told_with_their_remedy(table):
    X, y = table[["x", "z"]], surv(table["event"], table["time"])
    model = CoxLassoCCD(alpha=0.01)
    with pytest.raises(ValueError, match=r"the text 'x', must be a label.*such as table\['x'\]"):
        model.fit(X, y, strata="x")
    with pytest.raises(ValueError, match="`strata` has 2 columns, must be one label for each row"):
        model.fit(X, y, strata=table[["x", "z"]])
    with pytest.raises(ValueError, match=r"`time_varying\['x'\]` is a function"):
        CoxLassoCCD(time_varying={"x": np.log}).fit(X, y)
    with pytest.raises(ValueError, match=r"X.reshape\(1, -1\) for a single row"):
        model.fit(X, y).predict(X.iloc[0])
    with pytest.raises(TypeError, match=r"one of the estimator: CoxLassoCCD\(verbose=...\)"):
        bootstrap(model, X, y, verbose=1)


@pytest.mark.thorough
def test_other_spellings_that_say_what_they_mean(table):
    X, y = table[["x", "z"]], surv(table["event"], table["time"])

    def coef(**options):
        return CoxLassoCCD(alpha=0.01, **options).fit(X, y).coef_

    for bounds in ({0: (0.0, None)}, {"x": (0.0, None)}, ([0.0, None], None)):
        expected = coef(bounds=([0.0, -np.inf], [np.inf, np.inf]))
        np.testing.assert_array_equal(coef(bounds=bounds), expected)
    for name, shape in (("mcp", MCP()), ("scad", SCAD())):
        expected = coef(penalty=GroupLasso({"a": [0, 1]}, shape=shape))
        np.testing.assert_array_equal(coef(penalty=GroupLasso([[0, 1]], shape=name)), expected)


def test_labels_of_other_kinds_are_not_sorted(monkeypatch):
    n_sorted, sort = [], pd.Index.sort_values
    monkeypatch.setattr(pd.Index, "sort_values", lambda of: n_sorted.append(0) or sort(of))
    table = pd.DataFrame({"a": [0.0, 1.0, 3.0]}, index=["one", "two", "three"])
    LinearCCD(alpha=0.0).fit(table, pd.Series([1.0, 2.0, 3.0]))
    assert not n_sorted
    with pytest.raises(ValueError, match=SHUFFLED):
        LinearCCD(alpha=0.0).fit(table, pd.Series([1.0, 2.0, 3.0], index=table.index[::-1]))
    assert n_sorted
