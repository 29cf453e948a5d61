"""Cross-validation, paths and resampling of rows in partitions."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from test_far_estimators import CASES, PART, case, split

from sksurvgpu import (
    CaseSeriesCV,
    CoxLassoCCD,
    CoxLassoCV,
    LogisticCV,
    PoissonCV,
    SurvivalKFold,
    bootstrap,
    datasets,
    fit_outcomes,
    fit_path,
    information_criteria,
    posterior,
    profile_likelihood,
    stability_selection,
    surv,
    wald,
)
from sksurvgpu.backends.sums import part
from sksurvgpu.backends.sums.coordinator import PartitionsBackend
from sksurvgpu.backends.sums.messages import Recipe
from sksurvgpu.backends.sums.recipes import make_weight
from sksurvgpu.data.simulate.draw import generator
from sksurvgpu.estimators import _partitioned
from sksurvgpu.estimators._partition import model_text, read_rows
from sksurvgpu.estimators._report import fit_card
from sksurvgpu.partitions.handles import from_lists

GRID = {"cv": 3, "n_alphas": 4, "alpha_min_ratio": 0.1, "early_stopping": False, "tol": 1e-8}
CV = {
    "cox": CoxLassoCV,
    "efron, weights, offset, strata": CoxLassoCV,
    "case_series": CaseSeriesCV,
    "poisson": PoissonCV,
    "logistic": LogisticCV,
}


def weights_of(model, arguments, handles, order, recipe):
    """Weights of the pooled rows by a recipe, made partition by partition."""
    text, weights = model_text(model), []
    for k in range(handles["X"].n_parts):
        own = {name: rows.load(k) for name, rows in handles.items()}
        made = make_weight(recipe, read_rows(text, own), k)
        weights.append(np.ones(len(own["y"])) if made is None else made)
    weight = np.empty(len(order))
    weight[order] = np.concatenate(weights)
    return weight


@pytest.mark.parametrize("name", CV)
@pytest.mark.parametrize("scoring", ["held_out", "van_houwelingen"])
def test_scores_are_those_of_fits_to_the_same_folds(name, scoring):
    given = {"class_weight": None} if name == "logistic" else {}
    model, arguments, handles, order = case(name, **given)
    parameters = {**model.get_params(), **GRID, "scoring": scoring}
    for key in ("alpha", "warm_start", "relax"):
        parameters.pop(key)
    far = CV[name](**parameters).fit(**handles)
    seed = int(generator(0).integers(2**63))
    arguments = dict(arguments)
    arguments.pop("sample_weight", None)
    alpha, row = far.cv_results_[["alpha", "mean_score"]].iloc[2]
    sums, sizes = 0.0, 0.0
    for fold in range(GRID["cv"]):
        train, test = (
            weights_of(model, arguments, handles, order, Recipe(kind, seed, fold, GRID["cv"]))
            for kind in ("train", "test")
        )
        fitted = model.set_params(alpha=alpha).fit(**arguments, sample_weight=train)
        held = loglik_of(fitted, arguments, test)
        if scoring == "van_houwelingen":
            held = loglik_of(fitted, arguments, train + test) - fitted.log_likelihood_
        sums += held
        sizes += events_of(name, arguments["y"], test)
    assert row == pytest.approx(sums / sizes, rel=1e-6)
    assert far.n_splits_ == GRID["cv"]
    assert far.n_exchanges_ < 200
    assert len(pickle.dumps(far)) < 20_000  # no rows, and who has them neither
    assert "exchanges with partitions" in fit_card(far)


def loglik_of(fitted, arguments, weight):
    """Log-likelihood at the coefficients and the intercept of a fit."""
    if not hasattr(fitted, "intercept_"):
        return fitted.log_likelihood(**arguments, sample_weight=weight, **_none(arguments))
    eta = fitted._predict_linear(arguments["X"])
    y = arguments["y"]
    if "exposure" in arguments:
        eta = eta + np.log(arguments["exposure"])
        return weight @ (y * eta - np.exp(eta))
    return weight @ ((y == fitted.classes_[1]) * eta - np.logaddexp(0.0, eta))


def _none(arguments):
    return {} if "offset" in arguments else {"offset": None}


def events_of(name, y, weight):
    if name == "logistic":
        return weight.sum()
    field = {"case_series": "count", "poisson": None}.get(name, "event")
    return weight @ (y if field is None else y[field])


def test_path_and_criteria_are_those_of_pooled_rows():
    model, arguments, handles, _ = case("cox")
    grid = {"n_alphas": 5, "alpha_min_ratio": 0.05}
    far, here = fit_path(model, **handles, **grid), fit_path(model, **arguments, **grid)
    np.testing.assert_allclose(far.alphas, here.alphas, rtol=1e-10)
    np.testing.assert_allclose(far.coefs, here.coefs, atol=1e-6)
    found, expected = far.information_criteria(), here.information_criteria()
    np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=1e-9)
    assert far.at(2).predict(arguments["X"]).shape == (len(arguments["y"]),)
    with pytest.raises(ValueError, match="pass relax=False"):
        fit_path(model, **handles, relax=True)


@pytest.mark.parametrize("kind", ["multinomial", "exponential"])
def test_replicates_are_fits_to_their_weights(kind):
    model, arguments, handles, order = case("cox", alpha=0.01)
    result = bootstrap(model, **handles, n_replicates=4, random_state=3, kind=kind)
    seed = int(generator(3).integers(2**63))
    if kind == "exponential":
        for number in (0, 3):
            weight = weights_of(model, arguments, handles, order, Recipe(kind, seed, number))
            expected = model.fit(**arguments, sample_weight=weight).coef_
            np.testing.assert_allclose(result.coefs[:, number], expected, atol=1e-5)
    again = bootstrap(model, **handles, n_replicates=4, random_state=3, kind=kind)
    np.testing.assert_array_equal(result.coefs, again.coefs)
    assert np.ptp(result.coefs, axis=1).max() > 0.0


def test_profiles_are_those_of_pooled_rows():
    model, arguments, handles, _ = case("cox", alpha=0.0)
    far = profile_likelihood(model, columns=[0, 2], **handles)
    here = profile_likelihood(model, columns=[0, 2], **arguments)
    np.testing.assert_allclose(far.intervals, here.intervals, atol=1e-6)


def test_curves_are_those_of_pooled_rows():
    model, arguments, handles, _ = case("cox", alpha=0.02)
    given = {"columns": 0, "values": [-0.5, 0.5], "derivatives": True}
    far = profile_likelihood(model, **given, include_penalty=True, **handles).curves
    here = profile_likelihood(model, **given, include_penalty=True, **arguments).curves
    np.testing.assert_allclose(far.iloc[:, 1:], here.iloc[:, 1:], atol=1e-5)
    with pytest.raises(ValueError, match="that slope needs rows in one place"):
        profile_likelihood(model, **given, **handles)


@pytest.mark.parametrize(
    "name",
    ["efron, weights, offset, strata", "late", "time-varying", "case_series", "linear", "logistic"],
)
def test_standard_errors_are_those_of_pooled_rows(name):
    given = {"class_weight": None} if name == "logistic" else {}
    least = {"case_series": 6, "logistic": 15}.get(name, 0)  # the others separate the events
    model, arguments, handles, _ = case(name, least=least, alpha=0.0, tol=1e-10, **given)
    assert handles["X"].n_columns > 1
    if name == "linear":
        model.set_params(fit_intercept=True)
    far, here = clone(model).fit(**handles), clone(model).fit(**arguments)
    found, expected = wald(far, **handles), wald(here, **arguments)
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-5)
    assert found.df == expected.df
    here.coef_, here.log_likelihood_ = far.coef_, far.log_likelihood_  # where both are evaluated
    found, expected = (wald(here, **given, robust=True) for given in (handles, arguments))
    np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-8, atol=1e-14)


@pytest.mark.filterwarnings("ignore:robust standard errors are of")
def test_clusters_are_whole_in_partitions():
    model, arguments, *_ = case("conditional_poisson", alpha=0.0, tol=1e-10)
    model.fit(**arguments)
    month, some = arguments["strata"], np.arange(len(arguments["y"])) % 2

    def covariances(cluster):
        given = arguments if cluster is None else arguments | {"cluster": cluster}
        yield wald(model, **given, robust=True).covariance
        yield wald(model, **split(month % 3, **given), robust=True).covariance

    by_row, expected = (next(covariances(cluster)) for cluster in (None, month % 6))
    assert not np.allclose(by_row, expected, rtol=0.01)
    for cluster in (None, month % 6):  # two months of a partition
        np.testing.assert_allclose(*covariances(cluster), rtol=1e-8, atol=1e-14)
    with pytest.raises(ValueError, match=r"cluster 0 has rows in partitions 0 and 1, and scores"):
        list(covariances(some))
    one = arguments | {"cluster": np.zeros(len(month), int)}
    with pytest.raises(ValueError, match=r"one label \(0\) for all 300 rows"):
        wald(model, **from_lists({name: [values] for name, values in one.items()}))


def test_stability_selection_takes_partitions():
    model, _, handles, _ = case("cox")
    options = {"n_alphas": 4, "n_subsamples": 6, "random_state": 0}
    result = stability_selection(model, **handles, **options)
    assert result.probabilities.shape == (8, 4)
    assert result.probabilities.max() == 1.0


def test_subjects_stay_in_one_partition():
    data = datasets.simulate_cox(len(PART), 4, random_state=0)
    y = surv(data.y["event"], data.y["time"], subject=np.arange(len(PART)) // 2)
    torn = split(np.arange(len(PART)) % 2, X=data.X, y=y)
    whole = split(np.arange(len(PART)) // 2 % 2, X=data.X, y=y)
    assert CoxLassoCCD(alpha=0.01).fit(**torn).converged_  # the fit itself does not mind
    for call in (
        lambda rows: CoxLassoCV(**GRID).fit(**rows),
        lambda rows: bootstrap(CoxLassoCCD(), **rows, n_replicates=2, random_state=0),
    ):
        with pytest.raises(ValueError, match=r"subject 0 has rows in partitions 0 and 1.*`group=`"):
            call(torn)
        call(whole)


@pytest.mark.filterwarnings("ignore:The effects of columns")
def test_what_there_is_not_for_partitions_is_refused():
    model, _, handles, _ = case("cox")
    matched, _, sets, _ = case("matched", alpha=0.0)
    for call, message in (
        (lambda: CoxLassoCV(cv=SurvivalKFold(3)).fit(**handles), "pass a number of folds"),
        (lambda: CoxLassoCV(**GRID, scoring="concordance").fit(**handles), "another `scoring`"),
        (lambda: bootstrap(model, **handles, groups=PART), "`groups` are drawn whole"),
        (lambda: wald(matched.fit(**sets), **sets), "cannot add up the information"),
        (lambda: posterior(model, **handles), "`X` is in partitions"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    model.fit(**handles)
    with pytest.raises(ValueError, match="`X` is in partitions"):
        information_criteria(model, **handles)
    assert set(CV) <= set(CASES)


@pytest.fixture
def batch_counts(monkeypatch):
    """What every coordinator has counted."""
    kept = []

    def make(**options):
        kept.append(PartitionsBackend(**options))
        return kept[-1]

    monkeypatch.setattr(_partitioned, "PartitionsBackend", make)
    return lambda: [coordinator.counts for coordinator in kept]


def test_batches_cost_as_much_as_their_slowest_fit(batch_counts):
    model, _, handles, _ = case("cox", alpha=0.01)
    for n_replicates in (3, 12):
        bootstrap(model, **handles, n_replicates=n_replicates, random_state=0, kind="exponential")
    few, many = (counts.exchanges for counts in batch_counts())
    assert many <= few + 12  # a slower replicate
    for n_folds in (2, 10):
        CoxLassoCV(**{**GRID, "cv": n_folds}).fit(**handles)
    few, many = (counts.exchanges for counts in batch_counts()[2:])
    assert many <= 1.6 * few  # more of them borrow


def test_bits_do_not_depend_on_what_parts_keep(monkeypatch):
    model, _, handles, _ = case("cox", alpha=0.01)
    found = []
    for room in (0.0, 4e3, 1e9):
        monkeypatch.setattr(part, "ROOM", room)
        result = bootstrap(model, **handles, n_replicates=5, random_state=0)
        scores = CoxLassoCV(**GRID).fit(**handles).cv_results_.to_numpy()
        found.append((result.coefs, scores))
    for coefs, scores in found[1:]:
        np.testing.assert_array_equal(coefs, found[0][0])
        np.testing.assert_array_equal(scores, found[0][1])


@pytest.mark.parametrize(
    "call",
    [
        lambda X, y, **of: bootstrap(CoxLassoCCD(), X, y, n_replicates=2, random_state=0, **of),
        lambda X, y, **of: CoxLassoCV(cv=2, n_alphas=2, random_state=0, **of).fit(X, y),
        lambda X, y, **of: fit_outcomes(CoxLassoCCD(), X, {"only": y}, columns=0, **of),
    ],
)
def test_folders_know_rows_with_the_same_sums(call, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((90, 2)) < 0.1, surv(rng.random(90) < 0.7, rng.exponential(size=90))
    for table, y_again in ((X, y), (X, y.copy())):
        rows = from_lists({"X": [table[:50], table[50:]], "y": [y_again[:50], y_again[50:]]})
        call(rows["X"], rows["y"], folder=tmp_path)
    rows = from_lists({"X": [X[49::-1], X[50:]], "y": [y[:50], y[50:]]})
    with pytest.raises(FileExistsError, match=r"`(data|X)` differs"):
        call(rows["X"], rows["y"], folder=tmp_path)
