"""Fine-Gray regression: curves against the definition and cmprsk, strata, codes, scores."""

import numpy as np
import pytest
from faces import CODE, FACES, OFFSET, STRATA, SUBJECT, TIME, WEIGHT, N, P, X
from oracles.cases import load
from oracles.reference_competing import finegray_direct
from oracles.reference_likelihoods import baseline
from sksurv.functions import StepFunction

from sksurvgpu import CoxLassoCCD, FineGrayCCD, competing_risks, surv
from sksurvgpu.metrics import concordance, concordance_competing

Y = FACES["fine-gray"].y
TIGHT = {"alpha": 0.01, "tol": 1e-10}
LATE = np.repeat([0, 1], N // 2)  # groups of rows, each with a censoring of its own
PUBLISHED = load("competing.json")
# A curve of the censoring that ignores the rows' weights is not offered.
BASELINES = [
    case
    for case in PUBLISHED["cases"]
    if "baseline" in case and not ("weights" in case["uses"] and not case["options"]["weighted_km"])
]


def fit(y=Y, weight=None, strata=None, offset=None, censoring_groups=None, **params):
    return FineGrayCCD(**{**TIGHT, **params}).fit(X, y, weight, strata, offset, censoring_groups)


def reference(model, *, code=1, strata=None, weights=None, groups=None, km_ties="together"):
    """The definition, evaluated at the model's coefficients."""
    status = np.where(code == CODE, 1, np.where(CODE > 0, 2, 0))
    return finegray_direct(model.predict(X), TIME, status, strata, weights, groups, km_ties)


def check_hazard(function, evaluation, stratum=0):
    times = np.linspace(0, function.x[-1], 60)
    np.testing.assert_allclose(function(times), baseline(evaluation, stratum, times), rtol=1e-9)


@pytest.mark.parametrize("case", BASELINES, ids=lambda case: case["name"])
def test_baseline_equals_published(case):
    data = PUBLISHED["datasets"][case["dataset"]]
    rows = {name: np.array(data[name]) for name in ("time", "status")}
    table, uses = np.column_stack(list(data["X"].values())).astype(float), case["uses"]
    if "columns" in case:
        table = table[:, [list(data["X"]).index(column) for column in case["columns"]]]
    strata = data["strata"] if "strata" in uses else None
    groups = data["censor_groups"] if "censor_groups" in uses else None
    if strata is not None and "own_curves" not in uses:
        groups = np.zeros(len(table), int)
    weight = np.array(data["copies"], float) if "copies" in uses else None
    ties = {"together": "crr", "events_first": "finegray"}[case["options"]["km_ties"]]
    total = len(table) if weight is None else weight.sum()
    model = FineGrayCCD(
        alpha=case["lam"] / total,
        l1_ratio=case.get("l1_ratio", 1.0),
        penalty_factor=case.get("penalty_factor"),
        censoring_ties=ties,
        tol=1e-12,
    )
    y = competing_risks(rows["status"], rows["time"])
    model.fit(table, y, weight, strata, censoring_groups=groups)
    expected = {name: np.array(case["baseline"][name]) for name in case["baseline"]}
    labels = [None] if strata is None else np.unique(strata).tolist()
    for number, stratum in zip(np.unique(expected["strata"]), labels, strict=True):
        own = expected["strata"] == number
        found = (
            model.cum_baseline_hazard_ if strata is None else model.cum_baseline_hazard_[stratum]
        )
        hazard = expected["cumulative_hazard"][own]
        np.testing.assert_allclose(found(expected["times"][own]), hazard, rtol=1e-7)
        incidence = model.predict_cumulative_incidence_function(
            np.zeros((1, table.shape[1])), None if strata is None else [stratum]
        )[0]
        np.testing.assert_allclose(incidence(expected["times"][own]), -np.expm1(-hazard), rtol=1e-7)


def test_published_baselines_are_of_all_kinds():
    kinds = {tuple(case["uses"]) for case in BASELINES}
    assert {(), ("copies",), ("censor_groups",), ("strata",), ("strata", "own_curves")} <= kinds


@pytest.mark.parametrize("ties", ["crr", "finegray"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_curves_by_the_definition(weight, ties):
    model = fit(weight=weight, censoring_ties=ties)
    km_ties = {"crr": "together", "finegray": "events_first"}[ties]
    evaluation = reference(model, weights=weight, km_ties=km_ties)
    assert model.log_likelihood_ == pytest.approx(evaluation.loglik, rel=1e-11)
    kept = TIME if weight is None else TIME[weight > 0]
    np.testing.assert_array_equal(model.unique_times_, np.unique(kept))
    check_hazard(model.cum_baseline_hazard_, evaluation)
    hazard = baseline(evaluation, 0, model.unique_times_)
    total = np.exp(model.predict(X))[:, None] * hazard
    for method, expected in (
        ("predict_cumulative_incidence_function", 1 - np.exp(-total)),
        ("predict_cumulative_hazard_function", total),
    ):
        values = getattr(model, method)(X, return_array=True)
        np.testing.assert_allclose(values, expected, rtol=1e-8, atol=1e-14)
        functions = getattr(model, method)(X[:5])
        assert functions.shape == (5,) and isinstance(functions[0], StepFunction)
        for function, row in zip(functions, values, strict=False):
            np.testing.assert_allclose(function(model.unique_times_), row, rtol=1e-12)
            assert function(0.0) == 0.0 and function.domain[1] == model.unique_times_[-1]


def test_ties_of_events_with_censorings_matter():
    crr, finegray = fit(), fit(censoring_ties="finegray")
    assert np.abs(crr.coef_ - finegray.coef_).max() > 1e-5
    apart = competing_risks(CODE, TIME + 0.5 * (CODE == 0))
    crr, finegray = fit(apart), fit(apart, censoring_ties="finegray")
    np.testing.assert_allclose(crr.coef_, finegray.coef_, atol=1e-9)


def test_curves_of_strata():
    model = fit(strata=STRATA)
    codes = np.unique(STRATA, return_inverse=True)[1]
    evaluation = reference(model, strata=codes, groups=codes)
    assert list(model.cum_baseline_hazard_) == ["east", "north", "west"]
    values = model.predict_cumulative_incidence_function(X, STRATA, return_array=True)
    functions = model.predict_cumulative_incidence_function(X, STRATA)
    ratio = np.exp(model.predict(X))
    for s, label in enumerate(model.cum_baseline_hazard_):
        rows = np.flatnonzero(label == STRATA)
        check_hazard(model.cum_baseline_hazard_[label], evaluation, s)
        beyond = model.unique_times_ > TIME[rows].max()
        assert np.isnan(values[rows][:, beyond]).all()
        hazard = baseline(evaluation, s, model.unique_times_[~beyond])
        expected = 1 - np.exp(-ratio[rows, None] * hazard)
        np.testing.assert_allclose(values[rows][:, ~beyond], expected, rtol=1e-8, atol=1e-14)
        for i in rows[:3]:
            assert functions[i].domain == (0.0, TIME[rows].max())
            np.testing.assert_allclose(
                functions[i](model.unique_times_[~beyond]), values[i, ~beyond], rtol=1e-12
            )


def test_curves_beyond_floating_point():
    model = fit()
    model.coef_ = np.eye(P)[0]
    rows = np.outer([-1e5, -30.0, 800.0, 1e5], np.eye(P)[0])
    events = model.unique_times_ >= TIME[CODE == 1].min()
    incidence = model.predict_cumulative_incidence_function(rows, return_array=True)
    assert not np.isnan(incidence).any() and incidence.min() == 0.0 and incidence.max() == 1.0
    assert (incidence[0] == 0.0).all() and (incidence[2:, events] == 1.0).all()
    hazard = model.predict_cumulative_hazard_function(rows, return_array=True)
    # a small incidence is its hazard, without cancellation
    np.testing.assert_allclose(incidence[1], hazard[1], rtol=1e-9)
    assert np.isinf(hazard[3, events]).all() and (hazard[3, ~events] == 0.0).all()
    for function in model.predict_cumulative_hazard_function(rows):
        assert not np.isnan(function(model.unique_times_)).any()


def test_censoring_groups_are_the_strata_unless_given():
    codes = np.unique(STRATA, return_inverse=True)[1]
    default, own = fit(strata=STRATA), fit(strata=STRATA, censoring_groups=STRATA)
    np.testing.assert_allclose(default.coef_, own.coef_, atol=1e-9)
    expected = reference(default, strata=codes, groups=codes).loglik
    assert default.log_likelihood_ == pytest.approx(expected, rel=1e-11)
    pooled = fit(strata=STRATA, censoring_groups=np.zeros(N, int))
    expected = reference(pooled, strata=codes).loglik
    assert pooled.log_likelihood_ == pytest.approx(expected, rel=1e-11)
    assert np.abs(pooled.coef_ - default.coef_).max() > 1e-5


def test_censoring_groups_without_strata():
    model = fit(censoring_groups=np.where(LATE, "late", "soon"))
    evaluation = reference(model, groups=LATE)
    assert model.log_likelihood_ == pytest.approx(evaluation.loglik, rel=1e-11)
    check_hazard(model.cum_baseline_hazard_, evaluation)
    assert np.abs(model.coef_ - fit().coef_).max() > 1e-6
    np.testing.assert_allclose(fit(censoring_groups=np.ones(N, int)).coef_, fit().coef_, atol=1e-9)


def test_codes_are_names():
    expected = fit()
    for relabelled, interest in (
        (np.array([0, 7, 3])[CODE], 7),
        (np.array([0, 2, 1])[CODE], 2),
        (np.where(CODE == 2, 2 + SUBJECT % 4, CODE), 1),
    ):
        y = competing_risks(relabelled, TIME)
        model = fit(y, event_of_interest=interest)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert model.score(X, y) == expected.score(X, Y)


def test_another_event_of_interest():
    model = fit(event_of_interest=2)
    evaluation = reference(model, code=2)
    assert model.log_likelihood_ == pytest.approx(evaluation.loglik, rel=1e-11)
    check_hazard(model.cum_baseline_hazard_, evaluation)
    assert np.abs(model.coef_ - fit().coef_).max() > 0.01
    swapped = competing_risks(np.array([0, 2, 1])[CODE], TIME)
    np.testing.assert_array_equal(model.coef_, fit(swapped).coef_)


def test_without_competing_events_it_is_cox():
    event = CODE == 1
    cox = CoxLassoCCD(**TIGHT).fit(X, surv(event, TIME), WEIGHT, STRATA, OFFSET)
    model = fit(competing_risks(event * 1, TIME), WEIGHT, STRATA, OFFSET)
    np.testing.assert_allclose(model.coef_, cox.coef_, atol=1e-9)
    assert model.log_likelihood_ == pytest.approx(cox.log_likelihood_, rel=1e-12)
    for label, function in cox.cum_baseline_hazard_.items():
        other = model.cum_baseline_hazard_[label]
        np.testing.assert_array_equal(other.x, function.x)
        np.testing.assert_allclose(other.y, function.y, rtol=1e-7)
    curves = (
        fitted(X, STRATA, return_array=True)
        for fitted in (
            model.predict_cumulative_incidence_function,
            cox.predict_survival_function,
        )
    )
    np.testing.assert_allclose(sum(curves)[:, 0], 1.0, rtol=1e-9)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("strata", [None, STRATA], ids=["pooled", "strata"])
@pytest.mark.parametrize("interest", [1, 2])
def test_score_is_the_concordance_of_competing_risks(interest, strata, weight):
    model = fit(strata=strata, event_of_interest=interest)
    given = {"event_of_interest": interest, "strata": strata, "sample_weight": weight}
    expected = concordance_competing(competing_risks(CODE, TIME), model.predict(X), **given)
    assert model.score(X, Y, weight, strata) == pytest.approx(expected, rel=1e-12)
    assert 0.55 < expected < 1
    if strata is not None:
        in_y = competing_risks(CODE, TIME, stratum=strata)
        assert model.score(X, in_y, weight) == pytest.approx(expected, rel=1e-12)


def test_score_counts_competing_events():
    """It is not the concordance of the cause-specific hazard."""
    model = fit()
    other = concordance(surv(CODE == 1, TIME), model.predict(X))
    assert abs(model.score(X, Y) - other) > 1e-3
