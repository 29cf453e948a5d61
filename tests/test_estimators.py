"""Estimators as scikit-learn and scikit-survival see them."""

import copy
import pickle
import tracemalloc
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils import check_array
from sklearn.utils.estimator_checks import parametrize_with_checks
from sksurv.functions import StepFunction
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.metrics import concordance_index_censored, integrated_brier_score

from sksurvgpu import CoxLassoCCD, CoxLassoCV, make_pipeline, surv, wald
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.estimators import baseline
from sksurvgpu.estimators._prepared import count_threads
from sksurvgpu.estimators._preparing import prepare
from sksurvgpu.estimators.fitted import Fitted, adopt, fitted_of
from sksurvgpu.estimators.hazard_curves import survival


class NumericOutcome(CoxLassoCCD):
    """Takes the plain numbers that scikit-learn's checks pass for y as uncensored times."""

    def fit(self, X, y, sample_weight=None):
        build_design(X)
        return super().fit(X, as_times(y), sample_weight=sample_weight)

    def score(self, X, y):
        return super().score(X, as_times(y))


def as_times(y):
    if y is None:
        return None
    y = check_array(y, ensure_2d=False, input_name="y").ravel()
    return surv(np.ones(len(y), bool), y - y.min(initial=0.0) + 1.0)


# Check -> why it cannot pass.
EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks(
    [NumericOutcome(tol=1e-10)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    return simulate_cox(400, 20, density=0.3, random_state=0)


@pytest.fixture(scope="module")
def strata():
    return np.random.default_rng(1).choice(["east", "north", "west"], size=400)


@pytest.fixture(scope="module")
def tied(data):
    """Few distinct times, dense columns: what scikit-survival's unpenalized model takes."""
    y = surv(data.y["event"], np.ceil(data.y["time"] / 20))
    return data.X[:, :6].toarray(), y


def same_functions(ours, theirs):
    """Equal from the first time on; before it scikit-survival extends the first value."""
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a(b.x), b(b.x), rtol=1e-6, atol=1e-9)
        assert a.domain == b.domain


def test_strata_and_weights_are_routed(data, strata):
    weight = np.random.default_rng(3).integers(1, 4, 400).astype(float)
    grid = {"coxlassoccd__alpha": [0.005, 0.05]}
    folds = KFold(3, shuffle=True, random_state=0)
    X = data.X.tocsr()
    with sklearn.config_context(enable_metadata_routing=True):
        model = make_pipeline(CoxLassoCCD())
        search = GridSearchCV(model, grid, cv=folds)
        search.fit(X, data.y, strata=strata, sample_weight=weight)
        asked = CoxLassoCCD().set_fit_request(strata=True, sample_weight=False)
        asked = asked.set_score_request(strata=False, sample_weight=True)
        assert asked.get_metadata_routing().fit.requests["sample_weight"] is False
    for alpha, mean in zip([0.005, 0.05], search.cv_results_["mean_test_score"], strict=True):
        by_hand = []
        for train, test in folds.split(X):
            fitted = CoxLassoCCD(alpha=alpha).fit(
                X[train], data.y[train], weight[train], strata[train]
            )
            by_hand.append(fitted.score(X[test], data.y[test], weight[test], strata[test]))
        assert mean == pytest.approx(np.mean(by_hand), rel=1e-9)
    assert set(search.best_estimator_[-1].cum_baseline_hazard_) == {"east", "north", "west"}


def test_select_from_model(data):
    selector = SelectFromModel(CoxLassoCCD(alpha=0.03), threshold=1e-12).fit(data.X, data.y)
    kept = np.flatnonzero(CoxLassoCCD(alpha=0.03).fit(data.X, data.y).coef_)
    assert 0 < len(kept) < 20
    assert selector.get_support(indices=True).tolist() == kept.tolist()


@pytest.mark.thorough
@pytest.mark.parametrize("since", [None, 4.0])
def test_curves_take_little_more_memory_than_they_are(data, strata, since, monkeypatch):
    model = CoxLassoCCD(alpha=0.02).fit(data.X, data.y, strata=strata)
    rows = np.tile(np.arange(data.X.shape[0]), 40)
    X, labels = data.X[rows], np.asarray(strata)[rows]
    start = None if since is None else np.full(len(rows), since)

    def curves():
        of_fit = fitted_of(model).baseline
        predictors, codes = model._predictors(X), of_fit.strata_of(labels, len(rows))
        return of_fit.curves(predictors, codes, True, survival, start)

    monkeypatch.setattr(baseline, "BLOCK_NUMBERS", 10**9)
    whole = curves()
    monkeypatch.setattr(baseline, "BLOCK_NUMBERS", 2**14)
    tracemalloc.start()
    try:
        found, peak = curves(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(found, whole)
    assert peak < 1.5 * found.nbytes


def test_copies_keep_their_curves(data):
    model = CoxLassoCCD(alpha=0.02).fit(data.X, data.y)
    times, copied = model.unique_times_, copy.deepcopy(model)
    model.fit(data.X[:100], data.y[:100])
    assert len(model.unique_times_) < len(times)
    np.testing.assert_array_equal(copied.unique_times_, times)
    times[:] = -1.0
    assert copied.unique_times_[0] >= 0


def test_users_name_the_columns_of_a_fit(data):
    X, names = data.X.toarray()[:, :4], np.array(list("wxyz"), object)
    model = CoxLassoCCD(alpha=0.0).fit(X, data.y)
    model.feature_names_in_ = names
    assert model.summary().index.tolist() == names.tolist()
    table = pd.DataFrame(X, columns=names)
    assert wald(model, table, data.y).feature_names.tolist() == names.tolist()
    assert copy.deepcopy(model).summary().index.tolist() == names.tolist()
    model.fit(X[:, :3], data.y)  # they go with the fit that they belong to
    assert not hasattr(model, "feature_names_in_")
    assert model.summary().index.tolist() == ["x0", "x1", "x2"]


def test_what_users_set_is_no_fit(data):
    model = CoxLassoCCD()
    model.note_ = "of the user"
    with pytest.raises(NotFittedError, match="this CoxLassoCCD is not fitted yet"):
        model.summary()


def test_a_choice_that_cannot_be_fitted_leaves_the_one_before(data, monkeypatch):
    model = CoxLassoCV(alphas=[0.05], cv=2).fit(data.X, data.y)
    before = dict(vars(model))
    monkeypatch.setattr(Fitted, "of", None)
    with pytest.raises(TypeError):
        model.set_params(alphas=[0.02]).fit(data.X, data.y)
    assert model.alpha_ == before["alpha_"]


def test_threads(monkeypatch):
    monkeypatch.setattr("numba.config.NUMBA_NUM_THREADS", 3)
    assert count_threads(None) == 3
    assert count_threads(5) == 5
    assert count_threads(-1) >= count_threads(-2) >= count_threads(-10_000) == 1


@pytest.mark.parametrize("ties", ["breslow", "efron"])
def test_unpenalized_fit_equals_scikit_survival(tied, ties):
    X, y = tied
    ours = CoxLassoCCD(alpha=0.0, ties=ties, tol=1e-10).fit(X, y)
    theirs = CoxPHSurvivalAnalysis(ties=ties, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-8)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-8)
    np.testing.assert_array_equal(ours.unique_times_, theirs.unique_times_)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), rel=1e-12)


def test_curves_equal_scikit_survival(tied):
    # Breslow's only: scikit-survival takes his baseline for Efron's fits, too.
    X, y = tied
    ours = CoxLassoCCD(alpha=0.0, tol=1e-10).fit(X, y)
    theirs = CoxPHSurvivalAnalysis(tol=1e-12).fit(X, y)
    same_functions([ours.cum_baseline_hazard_], [theirs.cum_baseline_hazard_])
    same_functions([ours.baseline_survival_], [theirs.baseline_survival_])
    for method in ("predict_survival_function", "predict_cumulative_hazard_function"):
        same_functions(getattr(ours, method)(X[:5]), getattr(theirs, method)(X[:5]))
        np.testing.assert_allclose(
            getattr(ours, method)(X[:5], return_array=True),
            getattr(theirs, method)(X[:5], return_array=True),
            rtol=1e-6,
        )


def test_efron_baseline_by_hand():
    # Two tied deaths and one censored row at predictor 0: jumps 1/3 + 1/2.
    y = surv([True, True, False], [1.0, 1.0, 2.0])
    model = CoxLassoCCD(ties="efron").fit(np.zeros((3, 1)), y)
    assert model.cum_baseline_hazard_(2.0) == pytest.approx(1 / 3 + 1 / 2)


@pytest.mark.parametrize("time_varying", [None, {0: [10.0]}], ids=["constant", "varying"])
def test_curves_of_rows_far_from_zero(data, time_varying):
    """Hazards of a row of zeros overflow there, and those of the rows do not."""
    X, far_away = np.random.default_rng(0).normal(size=(400, 2)), np.array([2_000.0, 0.0])
    y = surv(data.y["event"], data.y["time"] * np.exp(-0.5 * X[:, 0]))
    model = CoxLassoCCD(alpha=0.0, tol=1e-10, time_varying=time_varying)
    for method in ("predict_survival_function", "predict_cumulative_hazard_function"):
        near, far = (
            getattr(model.fit(shifted, y), method)(shifted, return_array=True)
            for shifted in (X, X + far_away)
        )
        assert np.isfinite(far).all()
        np.testing.assert_allclose(far, near, atol=1e-7)
        functions = getattr(model, method)(X[:5] + far_away)
        values = np.array([function(model.unique_times_) for function in functions])
        np.testing.assert_allclose(values, near[:5], atol=1e-7)
    assert not np.isnan(model.cum_baseline_hazard_.y).any()


def test_curves_of_strata_far_apart(data, strata):
    X = data.X.toarray()
    model = CoxLassoCCD(alpha=0.01, tol=1e-10).fit(X, data.y, strata=strata)
    near = model.predict_survival_function(X, strata, return_array=True)
    first = np.flatnonzero(model.coef_)[0]
    shift = 700.0 * (strata == "north") - 400.0 * (strata == "west")
    X[:, first] += shift / model.coef_[first]
    # Judged at the same coefficients: strata shift the predictor, and no curve.
    prepared = prepare(model, X, data.y, strata=strata)
    prepared = prepared.with_options(max_iter=0)
    [[solution]] = prepared.solve([model.alpha], coef=model.coef_[:, None])
    adopt(model, Fitted.of(prepared, solution))
    far = model.predict_survival_function(X, strata, return_array=True)
    np.testing.assert_allclose(far, near, atol=1e-7)


@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
def test_curves_of_strata_and_cut_points(data, strata):
    """Pieces of time change no curve where all coefficients are zero."""
    plain = CoxLassoCCD(alpha=1.0).fit(data.X, data.y, strata=strata)
    cut = CoxLassoCCD(alpha=1.0, time_varying={0: [10.0, 60.0]})
    cut.fit(data.X, data.y, strata=strata)
    for method in ("predict_survival_function", "predict_cumulative_hazard_function"):
        curves = (
            getattr(model, method)(data.X, strata, return_array=True) for model in (plain, cut)
        )
        np.testing.assert_allclose(*curves, rtol=1e-10)
    for label, step in plain.cum_baseline_hazard_.items():
        np.testing.assert_allclose(cut.cum_baseline_hazard_[label].y, step.y, rtol=1e-10)


def test_very_many_strata():
    n = 40_000
    rng = np.random.default_rng(0)
    X, pair = rng.normal(size=(n, 1)), np.arange(n) // 2
    y = surv(np.arange(n) % 2 == 0, np.where(np.arange(n) % 2 == 0, 1.0, 2.0))
    model = CoxLassoCCD(alpha=0.0).fit(X, y, strata=pair)
    rows = [0, 1, 39_999]
    curves = model.predict_survival_function(X[rows], pair[rows])
    for i, curve in zip(rows, curves, strict=True):
        both = [2 * (i // 2), 2 * (i // 2) + 1]
        expected = np.exp(model.predict(X[[i]])[0]) / np.exp(model.predict(X[both])).sum()
        assert curve(1.0) == pytest.approx(np.exp(-expected), rel=1e-9)
    assert len(model.cum_baseline_hazard_) == n // 2
    assert model.unique_times_.tolist() == [1.0, 2.0]


def test_curves_begin_at_time_zero():
    y = surv([True, True, False], [1.0, 2.0, 3.0])
    model = CoxLassoCCD().fit(np.zeros((3, 1)), y)
    [survival] = model.predict_survival_function(np.zeros((1, 1)))
    assert isinstance(survival, StepFunction)
    np.testing.assert_allclose(survival([0.0, 0.9, 1.0, 3.0]), np.exp([0, 0, -1 / 3, -5 / 6]))


@pytest.mark.parametrize("time_varying", [None, {0: [0.5]}], ids=["constant", "varying"])
@pytest.mark.parametrize("start", [None, 0.1])
def test_curves_of_many_times_share_them(time_varying, start):
    rng = np.random.default_rng(0)
    X, region = rng.normal(size=(6_000, 2)), np.array(["north", "south"]).repeat(3_000)
    y = surv(rng.random(6_000) < 0.8, np.append(0.0, rng.exponential(np.exp(-X[1:, 0]))))
    model = CoxLassoCCD(alpha=0.01, time_varying=time_varying).fit(X, y, strata=region)
    rows, times = (X[2_900:3_100], region[2_900:3_100]), model.unique_times_
    last = min(curve.domain[1] for curve in model.baseline_survival_.values())
    asked = np.r_[rng.uniform(0.0, last, 50), 0.0, times[[7, 70]], last]
    for method in ("predict_survival_function", "predict_cumulative_hazard_function"):
        curves = getattr(model, method)(*rows, start=start)
        array = getattr(model, method)(*rows, return_array=True, start=start)
        assert len(pickle.dumps(curves)) < 0.1 * array.nbytes
        before = np.searchsorted(times, asked, side="right") - 1
        nothing = 1.0 if method == "predict_survival_function" else 0.0
        expected = np.where(before >= 0, array[:, before], nothing)
        found = np.array([curve(asked) for curve in pickle.loads(pickle.dumps(curves))])
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        assert curves[0](asked[0]) == found[0, 0]
        curves[1].a, curves[1].b = 2.0, 3.0
        np.testing.assert_array_equal(curves[1](asked), 2.0 * found[1] + 3.0)
        assert curves[2](asked[None]).shape == curves[2](asked).shape
        np.testing.assert_array_equal(curves[0](curves[0].x), curves[0].y)
        assert curves[0] == copy.deepcopy(curves[0]) != curves[1]
        for wrong in (np.nan, -1.0, 2.0 * times[-1]):
            with pytest.raises(ValueError, match=r"finite|within|unknown"):
                curves[0](wrong)


def test_curves_beyond_the_memory_are_refused(data, monkeypatch):
    model = CoxLassoCCD(alpha=0.01).fit(data.X, data.y)
    monkeypatch.setattr(baseline, "available", lambda: 1e5)
    with pytest.raises(MemoryError, match="pass fewer rows at a time"):
        model.predict_survival_function(data.X, return_array=True)


@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
def test_metrics_of_scikit_survival(data):
    model = CoxLassoCCD(alpha=0.01).fit(data.X, data.y)
    risk = model.predict(data.X)
    theirs = concordance_index_censored(data.y["event"], data.y["time"], risk)[0]
    assert model.score(data.X, data.y) == pytest.approx(theirs, rel=1e-12)
    times = np.quantile(data.y["time"], np.linspace(0.1, 0.8, 20))
    curves = model.predict_survival_function(data.X)
    estimates = np.array([curve(times) for curve in curves])
    brier = integrated_brier_score(data.y, data.y, estimates, times)
    null = CoxLassoCCD(alpha=1.0).fit(data.X, data.y).predict_survival_function(data.X)
    baseline = integrated_brier_score(data.y, data.y, np.array([f(times) for f in null]), times)
    assert 0 < brier < 0.9 * baseline


def test_each_stratum_has_its_own_baseline(data, strata):
    model = CoxLassoCCD(alpha=0.02, tol=1e-10).fit(data.X, data.y, strata=strata)
    y = surv(data.y["event"], data.y["time"], stratum=strata)
    from_y = CoxLassoCCD(alpha=0.02, tol=1e-10).fit(data.X, y)
    np.testing.assert_array_equal(model.coef_, from_y.coef_)
    assert model.score(data.X, data.y, strata=strata) == model.score(data.X, y)
    eta = model.predict(data.X)
    curves = model.predict_cumulative_hazard_function(data.X, strata)
    values = model.predict_cumulative_hazard_function(data.X, strata, return_array=True)
    assert list(model.cum_baseline_hazard_) == ["east", "north", "west"]
    for label, function in model.cum_baseline_hazard_.items():
        rows = np.flatnonzero(strata == label)
        time, event = data.y["time"][rows], data.y["event"][rows]
        at_risk = [np.exp(eta[rows][time >= t]).sum() for t in time]
        for i in (0, 5, 11):
            expected = sum(
                1 / d for d, t, e in zip(at_risk, time, event, strict=True) if e and t <= time[i]
            )
            assert function(time[i]) == pytest.approx(expected, rel=1e-9)
            ratio = np.exp(eta[rows[i]])
            assert curves[rows[i]](time[i]) == pytest.approx(ratio * expected, rel=1e-9)
        beyond = model.unique_times_ > time.max()
        assert np.isnan(values[rows][:, beyond]).all()
        assert np.isfinite(values[rows][:, ~beyond]).all()


def test_rows_without_weight_leave_no_trace(data, strata):
    weight = (strata != "north").astype(float)
    weighted = CoxLassoCCD(alpha=0.02, tol=1e-10).fit(data.X, data.y, weight, strata)
    kept = weight > 0
    fewer = CoxLassoCCD(alpha=0.02, tol=1e-10)
    fewer.fit(data.X.tocsr()[kept], data.y[kept], strata=strata[kept])
    np.testing.assert_allclose(weighted.coef_, fewer.coef_, atol=1e-8)
    np.testing.assert_array_equal(weighted.unique_times_, fewer.unique_times_)
    assert list(weighted.baseline_survival_) == ["east", "west"]
    with pytest.raises(ValueError, match="is 'north' in row 0, a label without rows in the fit"):
        weighted.predict_survival_function(data.X[:1], strata=["north"])


def split_rows(X, y, cuts):
    """The (start, stop] data set that time-varying coefficients are a short form of."""
    rows, start, stop, event, piece = [], [], [], [], []
    edges = [0.0, *cuts, np.inf]
    for i, (e, t) in enumerate(zip(y["event"], y["time"], strict=True)):
        for b, (low, high) in enumerate(pairwise(edges)):
            if t > low:
                rows.append(i)
                start.append(low)
                stop.append(min(t, high))
                event.append(e and t <= high)
                piece.append(b)
    return np.array(rows), surv(event, stop, start=start), np.array(piece)


def test_time_varying_equals_split_rows(data):
    X, cuts = data.X[:, :4].toarray(), [10.0, 60.0]
    model = CoxLassoCCD(alpha=0.01, time_varying={1: cuts, 2: 10.0}, tol=1e-10).fit(X, data.y)
    rows, y, piece = split_rows(X, data.y, cuts)
    columns = [
        X[rows, 0],
        *(X[rows, 1] * (piece == b) for b in range(3)),
        X[rows, 2] * (piece == 0),
        X[rows, 2] * (piece > 0),
        X[rows, 3],
    ]
    alpha = 0.01 * 400 / len(rows)  # the penalty is relative to the number of rows
    split = CoxLassoCCD(alpha=alpha, tol=1e-10).fit(np.column_stack(columns), y)
    np.testing.assert_allclose(model.coef_, split.coef_, atol=1e-7)
    assert model.summary().index.tolist() == [
        "x0",
        "x1 (0, 10]",
        "x1 (10, 60]",
        "x1 (60, inf)",
        "x2 (0, 10]",
        "x2 (10, inf)",
        "x3",
    ]
    expected = split.score(np.column_stack(columns), y)
    assert model.score(X, data.y) == pytest.approx(expected, rel=1e-12)
    for b, time in enumerate((10.0, 10.5, 100.0)):
        coef = model.coef_[[0, 1 + b, 4 + (b > 0), 6]]
        np.testing.assert_allclose(model.predict(X, time=time), X @ coef, atol=1e-12)
    hazard = split.cum_baseline_hazard_
    at_cuts = [0.0, *(float(hazard(c)) for c in cuts)]
    for i in (0, 3):
        curve = model.predict_cumulative_hazard_function(X[i : i + 1])[0]
        for t, last in ((5.0, 0), (10.0, 0), (30.0, 1), (120.0, 2)):
            ends = [*at_cuts[1 : last + 1], float(hazard(t))]
            parts = np.diff([0.0, *ends])
            ratios = [
                np.exp(model.predict(X[i : i + 1], time=u)[0])
                for u in (1.0, 11.0, 61.0)[: last + 1]
            ]
            assert curve(t) == pytest.approx(parts @ ratios, rel=1e-6)


def test_close_cut_points_have_names_of_their_own():
    rng = np.random.default_rng(0)
    y = surv(np.ones(90, bool), 1234560 + rng.uniform(0, 20, 90))
    cuts = [0.1, 1234567, 1234568]
    model = CoxLassoCCD(time_varying={0: cuts}).fit(rng.normal(size=(90, 1)), y)
    assert model.summary().index.tolist() == [
        "x0 (0, 0.1]",
        "x0 (0.1, 1234567]",
        "x0 (1234567, 1234568]",
        "x0 (1234568, inf)",
    ]


@pytest.mark.thorough
def test_sparse_input_stays_sparse():
    # A million columns: dense, this would take 800 MB.
    X = sp.random_array((100, 1_000_000), density=1e-5, format="csr", rng=np.random.default_rng(0))
    y = surv(np.ones(100, bool), np.arange(100) + 1.0)
    model = CoxLassoCCD(alpha=0.02).fit(X, y)
    assert model.predict(X).shape == (100,)


# Codes of one person each, eight of whom have the events.
IDENTITY = np.eye(18)[:, :8]

# One column that orders the events perfectly: without a penalty there is no finite optimum.
ORDERING = np.arange(40.0)[:, None]
ORDERED = surv(np.ones(40, bool), 40.0 - ORDERING[:, 0])


def test_separated_data_stay_finite():
    with pytest.warns(ConvergenceWarning, match="did not converge .* are infinite, because"):
        model = CoxLassoCCD(alpha=0.0, max_iter=20, tol=1e-14).fit(ORDERING, ORDERED)
    assert np.isfinite(model.coef_).all() and model.coef_[0] > 0


def test_many_infinite_optima_are_one_warning():
    with pytest.warns(ConvergenceWarning, match=r"`x4` \([^`]* and 3 more, with what") as caught:
        CoxLassoCCD(alpha=0.0).fit(IDENTITY, surv(np.arange(18) < 8, np.arange(18) + 1.0))
    assert len(caught) == 1 and "`x5`" not in str(caught[0].message)


def test_strong_effects_are_not_called_infinite():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    time = rng.exponential(size=500) * np.exp(-2.2 * X[:, 0])
    model = CoxLassoCCD(alpha=0.0).fit(X, surv(np.ones(500, bool), time))
    assert 12 < np.ptp(X[:, 0]) * model.coef_[0] < 20
    # Nor is a column that differs between strata, or has its extreme in a row that does not count.
    X, time, weight = np.vstack([X, [[1e3, 0]]]), np.append(time, 1.0), np.append(np.ones(500), 0)
    half = np.arange(501) % 2
    X[:, 0] += 20 * half
    CoxLassoCCD(alpha=0.0).fit(X, surv(np.ones(501, bool), time), weight, half)


@pytest.mark.thorough(but=r"majorized")
@pytest.mark.parametrize("algorithm", ["exact", "majorized"])
def test_a_penalty_makes_separated_data_finite(algorithm):
    model = CoxLassoCCD(alpha=0.01, algorithm=algorithm).fit(ORDERING, ORDERED)
    assert model.coef_[0] == pytest.approx(4.589, abs=1e-2)
