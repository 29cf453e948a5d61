"""Estimators whose rows are in partitions: the fits, curves and errors of the pooled rows."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    ConditionalPoissonCCD,
    CoxLassoCCD,
    FineGrayCCD,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    datasets,
    surv,
)
from sksurvgpu.partitions.handles import from_lists

N, P = 300, 8
RANDOM = np.random.default_rng(0)
PART = RANDOM.integers(3, size=N)  # and a fourth partition without rows
WEIGHT = RANDOM.integers(0, 3, size=N).astype(float)
OFFSET = 0.3 * RANDOM.normal(size=N)
EXPOSURE = RANDOM.uniform(0.5, 2.0, size=N)
STRATUM = np.array(["a", "b", "c"])[RANDOM.integers(3, size=N)]
MONTH = np.arange(N) % 12


def _cox():
    data = datasets.simulate_cox(N, P, random_state=0)
    return data.X, surv(data.y["event"], np.ceil(data.y["time"]))  # ties


def _late():
    data = datasets.simulate_cox(N, P, random_state=0)
    time = data.y["time"]
    return data.X, surv(data.y["event"], time, start=0.7 * RANDOM.uniform(size=N) * time)


def _of(simulate, *size):
    data = simulate(*size, P, random_state=0)
    return data.X, data.y


def _series():
    return _of(datasets.simulate_case_series, 60)


def _matched():
    return _of(datasets.simulate_matched, 80)


def _labels():
    X, y = _of(datasets.simulate_logistic, N)
    return X, np.where(y == 1, "yes", "no")


# name -> model, data, arguments of fit, partition of every row
CASES = {
    "cox": (CoxLassoCCD(), _cox, {}, PART),
    "efron, weights, offset, strata": (
        CoxLassoCCD(ties="efron"),
        _cox,
        {"sample_weight": WEIGHT, "offset": OFFSET, "strata": STRATUM},
        PART,
    ),
    "late": (CoxLassoCCD(), _late, {}, PART),
    "time-varying": (CoxLassoCCD(time_varying={0: [5.0]}), _cox, {"strata": STRATUM}, PART),
    "fine_gray": (
        FineGrayCCD(censoring_ties="finegray"),
        lambda: _of(datasets.simulate_fine_gray, N),
        {"strata": STRATUM, "sample_weight": WEIGHT},
        PART,
    ),
    "case_series": (CaseSeriesCCD(), _series, {}, "subject"),
    "matched": (
        ConditionalLogisticCCD(),
        lambda: _of(datasets.simulate_matched, 80),
        {},
        "stratum",
    ),
    "conditional_poisson": (
        ConditionalPoissonCCD(),
        lambda: _of(datasets.simulate_poisson, N),
        {"strata": MONTH, "exposure": EXPOSURE},
        MONTH % 3,
    ),
    "poisson": (
        PoissonCCD(),
        lambda: _of(datasets.simulate_poisson, N),
        {"exposure": EXPOSURE, "sample_weight": WEIGHT},
        PART,
    ),
    "linear": (LinearCCD(fit_intercept=False), lambda: _of(datasets.simulate_poisson, N), {}, PART),
    "logistic": (LogisticCCD(class_weight="balanced"), _labels, {"sample_weight": WEIGHT}, PART),
}


def split(part, **arguments):
    """Handles on rows by the number of their partition, and one more partition without rows."""
    rows = [np.flatnonzero(part == k) for k in range(part.max() + 2)]
    return from_lists({name: [v[some] for some in rows] for name, v in arguments.items()})


def case(name, *, least=0, **changes):
    """A model, arguments of its fit, the same in partitions, and the order of the latter.

    Columns have a value in more than `least` rows.
    """
    model, make, given, part = CASES[name]
    X, y = make()
    X = X[:, np.flatnonzero(np.asarray((X != 0).sum(axis=0)).ravel() >= least)]
    part = y[part] % 3 if isinstance(part, str) else part
    changes = {"alpha": 0.0001 if name == "case_series" else 0.003, "tol": 1e-8, **changes}
    arguments = {"X": X, "y": y, **given}
    handles = split(part, **arguments)
    return clone(model).set_params(**changes), arguments, handles, np.argsort(part, kind="stable")


def rows_of(arguments, some):
    return {name: values[some] for name, values in arguments.items()}


@pytest.mark.parametrize("name", CASES)
def test_fits_are_those_of_pooled_rows(name):
    model, arguments, handles, order = case(name)
    here, far = clone(model).fit(**arguments), clone(model).fit(**handles)
    assert far.converged_
    assert np.count_nonzero(here.coef_) > 1
    assert abs(far.objective_ - here.objective_) <= 1e-10 * abs(here.objective_)
    np.testing.assert_allclose(far.coef_, here.coef_, atol=1e-6)
    np.testing.assert_allclose(far.alpha_max_, here.alpha_max_, rtol=1e-10)
    assert far.dual_gap_ <= 1e-5 * abs(far.objective_)
    assert far.n_exchanges_ > 5
    assert far.backend_ == "partitions"
    X = handles["X"]
    if hasattr(here, "intercept_"):
        assert far.intercept_ == pytest.approx(here.intercept_, abs=1e-6)
    if name == "logistic":
        assert far.classes_.tolist() == ["no", "yes"]
        probability = np.asarray(far.predict_proba(X))
        np.testing.assert_array_equal(probability, far.predict_proba(arguments["X"])[order])
    if name != "time-varying":
        predicted = np.asarray(far.predict(X))
        np.testing.assert_array_equal(predicted, far.predict(arguments["X"])[order])
    if hasattr(far, "cum_baseline_hazard_"):
        check_curves(here, far, arguments, handles, order)


@pytest.mark.parametrize("name", ["efron, weights, offset, strata", "time-varying", "logistic"])
def test_penalties_pull_to_means(name):
    mean = {0: 0.4, 2: -0.3, 5: 0.1}  # by column
    changes = {"prior_mean": mean, "bounds": {2: (-0.5, np.inf)}, "alpha": 0.03}
    model, arguments, handles, _ = case(name, **changes)
    here, far = clone(model).fit(**arguments), clone(model).fit(**handles)
    rests = np.isin(here.coef_, list(mean.values()))
    assert rests.any()
    np.testing.assert_array_equal(far.coef_[rests], here.coef_[rests])
    np.testing.assert_allclose(far.coef_, here.coef_, atol=1e-6)
    assert far.log_likelihood_ == pytest.approx(here.log_likelihood_, rel=1e-7)
    for attribute in ("objective_", "alpha_max_"):
        assert getattr(far, attribute) == pytest.approx(getattr(here, attribute), rel=1e-10)
    if name == "logistic":
        assert far.intercept_ == pytest.approx(here.intercept_, abs=1e-6)
    again = far.set_params(warm_start=True).fit(**handles)
    assert again.n_iter_ <= 1


def check_curves(here, far, arguments, handles, order):
    strata = {name: handles[name] for name in ("strata",) if name in handles}
    rows = {name: arguments[name] for name in ("X", *strata)}
    horizons = [np.quantile(arguments["y"]["time"], 0.3)]
    found = np.asarray(far.predict_risk(handles["X"], horizons, **strata))
    expected = here.predict_risk(times=horizons, **rows).to_numpy()[order]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    shares = [0.1, 0.3]
    found = np.asarray(far.predict_quantile(handles["X"], shares, **strata))
    expected = here.predict_quantile(probabilities=shares, **rows).to_numpy()[order]
    np.testing.assert_array_equal(found, expected)
    hazards, of_rows = far.cum_baseline_hazard_, here.cum_baseline_hazard_
    if not strata:
        hazards, of_rows = {0: hazards}, {0: of_rows}
    assert list(hazards) == list(of_rows)
    for label, function in hazards.items():
        assert function.x[-1] == of_rows[label].x[-1]  # end of follow-up
        np.testing.assert_allclose(function.y, of_rows[label](function.x), rtol=1e-5)


def test_curves_of_partitions_are_lazy():
    model, arguments, handles, order = case("efron, weights, offset, strata")
    model.fit(**handles)
    given = {"X": arguments["X"], "strata": arguments["strata"]}
    curves = model.predict_survival_function(handles["X"], handles["strata"], return_array=True)
    assert curves.n_parts == 4
    assert curves.load(3).shape == (0, len(model.unique_times_))
    expected = model.predict_survival_function(**given, return_array=True)[order]
    np.testing.assert_array_equal(np.asarray(curves), expected)
    steps = np.asarray(model.predict_survival_function(handles["X"], handles["strata"]))
    assert steps[0](3.0) == model.predict_survival_function(**rows_of(given, order[:1]))[0](3.0)
    with pytest.raises(ValueError, match="features"):
        model.predict(split(PART, X=np.ones((N, 3)))["X"])


@pytest.mark.parametrize(
    "name", ["cox", "fine_gray", "case_series", "poisson", "linear", "logistic"]
)
def test_scores_of_partitions_are_those_of_rows(name):
    model, arguments, handles, _ = case(name)
    model.fit(**handles)
    names = {"fine_gray": ("strata",), "poisson": ("exposure",), "logistic": ("sample_weight",)}
    scored = ("X", "y", *names.get(name, ()))
    found = model.score(**{name: handles[name] for name in scored})
    expected = model.score(**{name: arguments[name] for name in scored})
    assert found == pytest.approx(expected, rel=1e-12)


def test_fitted_models_travel_without_rows():
    model, arguments, handles, _ = case("cox")
    model.fit(**handles)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict(arguments["X"]), model.predict(arguments["X"]))
    assert len(pickle.dumps(model)) < 20_000
    assert clone(model).get_params() == model.get_params()
    model.fit(**arguments)
    assert not hasattr(model, "n_exchanges_")
    assert model.backend_ != "partitions"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backend": "cuda"}, "backend='cuda' needs all rows on one device"),
        ({"precision": "float32"}, "precision='float32'"),
        ({"algorithm": "exact"}, 'use algorithm="majorized"'),
        ({"relax": 0.5}, "pass relax=None"),
    ],
)
def test_what_there_is_not_for_partitions_is_refused(changes, message):
    model, _, handles, _ = case("cox", **changes)
    with pytest.raises(ValueError, match=message):
        model.fit(**handles)


def test_labels_of_a_log_likelihood_are_those_of_the_fit():
    model, arguments, handles, _ = case("logistic")
    model.fit(**handles)
    other = split(PART, X=arguments["X"], y=np.where(arguments["y"] == "no", "b", "a"))
    with pytest.raises(ValueError, match=r"`y` has the label 'a', and the classes of the fit are"):
        model.log_likelihood(**other)


def test_errors_say_what_and_where():
    model, arguments, handles, _ = case("cox")
    with pytest.raises(TypeError, match="`y` is of type ndarray and in memory"):
        model.fit(handles["X"], arguments["y"])
    with pytest.raises(ValueError, match="`y` is missing"):
        model.fit(handles["X"], None)
    y = arguments["y"].copy()
    y["event"] = False
    with pytest.raises(ValueError, match=r"`y` has no event \(all 300 rows censored\): a Cox"):
        model.fit(**split(PART, X=arguments["X"], y=y))
    weight = np.where(arguments["y"]["event"], 0.0, 1.0)
    with pytest.raises(ValueError, match=r"zero in all \d+ rows with an event"):
        model.fit(**split(PART, X=arguments["X"], y=arguments["y"], sample_weight=weight))
    offset = np.zeros(N)
    offset[np.flatnonzero(PART == 1)[0]] = np.nan
    handles = split(PART, X=arguments["X"], y=arguments["y"], offset=offset)
    with pytest.raises(ValueError, match=r"partition 1.*`offset` has 1 NaN"):
        model.fit(**handles)
    model, arguments, _, _ = case("matched")
    torn = np.arange(len(arguments["y"])) % 2
    with pytest.raises(ValueError, match=r"partitions 0 and 1.*`group=`"):
        model.fit(**split(torn, **arguments))
    model, arguments, _, _ = case("conditional_poisson")
    del arguments["strata"]
    with pytest.raises(ValueError, match="fit PoissonCCD"):
        model.fit(**split(PART, **arguments))
    with pytest.raises(ValueError, match="one class, 'yes'"):
        LogisticCCD().fit(**split(PART, X=arguments["X"], y=np.full(N, "yes")))


def test_huge_effects_are_doubted():
    X, y = _cox()
    X = np.column_stack([np.zeros(N), X.toarray()])
    X[np.flatnonzero(~y["event"])[:20], 0] = 1.0  # who has it has no event
    with pytest.warns(ConvergenceWarning, match=r"`x0`.*not decided for rows in partitions"):
        model = CoxLassoCCD(alpha=0.0).fit(**split(PART, X=X, y=y))
    assert not model.infinite_.any()


def test_collections_of_dask_are_predicted_and_scored():
    array = pytest.importorskip("dask.array")
    model, arguments, _, _ = case("cox")
    X, y = arguments["X"].toarray(), arguments["y"]
    far = array.from_array(X, chunks=(100, -1))
    outcome = surv(*(array.from_array(y[name], chunks=100) for name in ("event", "time")))
    model.fit(far, outcome)
    predicted = model.predict(far)
    assert isinstance(predicted, array.Array)
    np.testing.assert_array_equal(predicted.compute(), model.predict(X))
    assert model.score(far, outcome) == pytest.approx(model.score(X, y), rel=1e-12)


def test_predictions_and_scores_are_of_the_same_partitions():
    model, arguments, _, _ = case("cox")
    X, y = arguments["X"], arguments["y"]
    stratified = clone(model).fit(X, y, strata=STRATUM)
    near, far = (
        from_lists({"X": [X[:n], X[n:]], "y": [y[:n], y[n:]], "s": [STRATUM[:n], STRATUM[n:]]})
        for n in (100, 100)
    )
    match = "`{}` is of partitions in memory .*, `X` of partitions in memory .* one place"
    with pytest.raises(ValueError, match=match.format("strata")):
        stratified.predict_risk(near["X"], 5, strata=far["s"])
    with pytest.raises(ValueError, match=match.format("y")):
        stratified.score(near["X"], far["y"], strata=near["s"])
    for strata in (STRATUM, STRATUM[:100]):
        with pytest.raises(TypeError, match=r"`strata` is of type ndarray and in memory, where X"):
            stratified.predict_risk(near["X"], 5, strata=strata)
    one = from_lists({"exposure": [EXPOSURE]})["exposure"]
    with pytest.raises(ValueError, match=r"`exposure` is .*1 partition.*, `X` is .*2 partition"):
        PoissonCCD().fit(X, MONTH, exposure=EXPOSURE).predict(near["X"], exposure=one)
    own = stratified.score(near["X"], near["y"], strata=near["s"])
    assert own == pytest.approx(stratified.score(X, y, strata=STRATUM), rel=1e-12)


class _Doubled(LinearCCD):
    def predict(self, X):
        return 2.0 * np.asarray(super().predict(X))


def test_what_a_subclass_makes_of_predictions_it_makes_once():
    X, y = CASES["linear"][1]()
    doubled = _Doubled().fit(X, y)
    far = from_lists({"X": [X[:100], X[100:]]})["X"]
    np.testing.assert_allclose(doubled.predict(far), doubled.predict(X), rtol=1e-12)
