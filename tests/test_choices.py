"""What is chosen beside a penalty, what becomes of the choice, and log-likelihoods as scores."""

import pickle

import numpy as np
import pytest
import sklearn
from faces import FACES, X
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import ElasticNetCV
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.preprocessing import MaxAbsScaler

from sksurvgpu import (
    CaseSeriesCCD,
    CoxLassoCCD,
    CoxLassoCV,
    CVDisplay,
    LinearCV,
    LogisticCCD,
    LogisticCV,
    LogLikelihoodScorer,
    PoissonCCD,
    fit_path,
    make_pipeline,
    profile_likelihood,
    surv,
    wald,
)
from sksurvgpu.datasets import simulate_cox

# Fits of a search may select nothing, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")

DATA = simulate_cox(400, 12, density=0.3, random_state=0)
RATIOS = [0.2, 0.6, 1.0]


def test_shares_of_the_lasso_are_those_of_scikit_learn():
    X, y = load_diabetes(return_X_y=True)
    cv = list(KFold(5, shuffle=True, random_state=0).split(X[:440]))  # of equal sizes
    X, y = X[:440], y[:440]
    ours = LinearCV(l1_ratios=[0.5, 0.9], cv=cv, n_alphas=12, early_stopping=False, tol=1e-9)
    theirs = ElasticNetCV(l1_ratio=[0.5, 0.9], cv=cv, alphas=12, eps=1e-4, tol=1e-10)
    if "n_alphas" in theirs.get_params() and sklearn.__version__ < "1.7":
        theirs.set_params(alphas=None, n_alphas=12)
    ours.fit(X, y), theirs.set_params(max_iter=100_000).fit(X, y)
    assert ours.l1_ratio_ == theirs.l1_ratio_
    assert ours.alpha_ == pytest.approx(theirs.alpha_, rel=1e-9)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-2)
    found = ours.cv_results_["mean_score"].to_numpy().reshape(2, -1)
    np.testing.assert_allclose(found, -0.5 * theirs.mse_path_.mean(axis=2), rtol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"rule": "1se"},
        pytest.param({"search": "auto"}, marks=pytest.mark.thorough),
        pytest.param({"relax": [0.0, 1.0]}, marks=pytest.mark.thorough),
    ],
)
def test_shares_are_scored_as_by_themselves(options, tmp_path):
    options = {"cv": 4, "n_alphas": 12, **options}
    model = CoxLassoCV(l1_ratios=RATIOS, folder=tmp_path, **options).fit(DATA.X, DATA.y)
    singles = [CoxLassoCV(l1_ratio=r, **options).fit(DATA.X, DATA.y) for r in RATIOS]
    columns = ["alpha", "variance", "mean_score", "n_nonzero"]
    for ratio, single in zip(RATIOS, singles, strict=True):
        table = model.cv_results_[model.cv_results_["l1_ratio"] == ratio]
        np.testing.assert_array_equal(table[columns], single.cv_results_[columns])
    chosen = singles[np.argmax([s.cv_results_["mean_score"].max() for s in singles])]
    assert (model.l1_ratio_, model.alpha_) == (chosen.l1_ratio, chosen.alpha_)
    np.testing.assert_array_equal(model.coef_, chosen.coef_)
    again = clone(model).fit(DATA.X, DATA.y)
    assert again.cv_results_.equals(model.cv_results_)
    assert len(CVDisplay.from_estimator(model).table) == len(chosen.cv_results_) / len(
        options.get("relax", [0])
    )


@pytest.mark.parametrize("ratios", [[], 0.5, [0.5, 1.2], [np.nan]])
def test_shares_are_checked(ratios):
    with pytest.raises(ValueError, match="l1_ratios"):
        CoxLassoCV(l1_ratios=ratios).fit(DATA.X, DATA.y)


@pytest.mark.parametrize("options", [{}, {"l1_ratios": RATIOS}, {"relax": 0.5}])
def test_the_chosen_model_is_a_fit(options):
    chosen = CoxLassoCV(cv=3, n_alphas=8, tol=1e-9, **options).fit(DATA.X, DATA.y)
    model = chosen.refit_model()
    assert type(model) is CoxLassoCCD
    own = clone(model).fit(DATA.X, DATA.y)
    assert set(vars(own)) == set(vars(model))
    np.testing.assert_allclose(model.coef_, own.coef_, atol=1e-9)
    assert model.summary().equals(chosen.summary())
    np.testing.assert_array_equal(model.predict(DATA.X), chosen.predict(DATA.X))
    if "relax" not in options:
        curve = profile_likelihood(model, DATA.X, DATA.y, 0)
        assert np.isfinite(curve.intervals).all(axis=None)
    pickle.loads(pickle.dumps(model))


def test_a_choice_of_no_penalty_has_wald_intervals():
    chosen = CoxLassoCV(cv=3, alphas=[0.0]).fit(DATA.X, DATA.y)
    expected = wald(CoxLassoCCD(alpha=0.0).fit(DATA.X, DATA.y), DATA.X, DATA.y)
    found = wald(chosen.refit_model(), DATA.X, DATA.y)
    np.testing.assert_allclose(found.summary(), expected.summary(), rtol=1e-6)


def test_a_path_has_its_criteria():
    path = fit_path(CoxLassoCCD(), DATA.X, DATA.y, n_alphas=8)
    table = path.information_criteria()
    for name in ("aic", "bic", "ebic"):
        np.testing.assert_array_equal(getattr(path, name), table[name])


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


def test_rows_of_the_fit_have_its_log_likelihood(face):
    model = face.make(alpha=0.01).fit(X, face.y, **face.rows)
    total = model.log_likelihood(X, face.y, **face.rows)
    assert total == pytest.approx(model.log_likelihood_, rel=1e-10)
    doubled = {
        **face.rows,
        "sample_weight": 2.0 * face.rows.get("sample_weight", np.ones(X.shape[0])),
    }
    mean, of_doubled = (
        model.log_likelihood(X, face.y, mean=True, **rows) for rows in (face.rows, doubled)
    )
    if "breslow" in str(model.get_params().get("ties", "breslow")):
        logs = np.log(2.0) if type(model).__name__ in ("CoxLassoCCD", "FineGrayCCD") else 0.0
        assert of_doubled == pytest.approx(mean - logs, rel=1e-9)


@pytest.mark.thorough(but=r"cox|conditional")
def test_searches_score_log_likelihoods_of_routed_rows(face):
    folds, groups = (KFold(3), {}) if face.groups is None else (GroupKFold(3), face.groups)
    groups = groups if face.groups is None else {"groups": face.groups}
    model, scorer = make_pipeline(MaxAbsScaler(), face.make(alpha=0.01)), LogLikelihoodScorer()
    with sklearn.config_context(enable_metadata_routing=True):
        params = face.rows | groups
        found = cross_val_score(model, X, face.y, cv=folds, params=params, scoring=scorer)
    for score, (train, test) in zip(found, folds.split(X, None, *groups.values()), strict=True):
        size = np.abs(X[train]).max(axis=0).toarray()
        fitted = face.make(alpha=0.01)
        fitted.fit(X[train].toarray() / size, face.y[train], **face.arguments(face.rows, train))
        rows = face.arguments(face.rows, test)
        own = fitted.log_likelihood(X[test].toarray() / size, face.y[test], mean=True, **rows)
        assert score == pytest.approx(own, rel=1e-9)


def test_the_best_of_a_search_is_that_of_a_cross_validation():
    alphas, folds = [0.2, 0.05, 0.01, 0.001], list(KFold(4).split(X))
    y = FACES["logistic"].y
    search = GridSearchCV(
        FACES["logistic"].make(), {"alpha": alphas}, cv=folds, scoring=LogLikelihoodScorer()
    ).fit(X, y)
    chosen = LogisticCV(alphas=alphas, cv=folds).fit(X, y)
    assert search.best_params_["alpha"] == chosen.alpha_
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], chosen.cv_results_["mean_score"], rtol=1e-6
    )


def test_rows_that_nothing_is_compared_in():
    data = FACES["case series"]
    model = CaseSeriesCCD(alpha=0.01).fit(X, data.y)
    assert model.log_likelihood(X[:1], data.y[:1], mean=True) == 0.0
    with pytest.raises(TypeError, match="`strata` is no argument of log_likelihood"):
        model.log_likelihood(X, data.y, strata=np.zeros(len(data.y)))
    y = surv([True, False], [1.0, 2.0])
    cox = CoxLassoCCD(alpha=0.01).fit(DATA.X, DATA.y)
    eta = cox.predict(DATA.X[:2])
    own = eta[0] - np.log(np.exp(eta).sum())
    assert cox.log_likelihood(DATA.X[:2], y) == pytest.approx(own, rel=1e-12)
    is_censored = ~DATA.y["event"]
    assert cox.log_likelihood(DATA.X[is_censored], DATA.y[is_censored], mean=True) == 0.0


def test_counts_without_an_event_have_a_log_likelihood():
    y = FACES["poisson"].y
    model, none = PoissonCCD(alpha=0.01).fit(X, y), y == 0
    total = model.log_likelihood(X[none], y[none])
    assert total == pytest.approx(-model.predict(X[none]).sum(), rel=1e-12)
    assert np.isnan(model.log_likelihood(X[none], y[none], mean=True))


@pytest.mark.parametrize("class_weight", [None, "balanced", {"no": 2.0, "yes": 3.0}])
def test_rows_of_one_class_have_the_labels_of_the_fit(class_weight):
    y = FACES["logistic"].y
    model = LogisticCCD(alpha=0.01, class_weight=class_weight).fit(X, y)
    for k, label in enumerate(model.classes_):
        own = y == label
        log_probability = np.log(model.predict_proba(X[own])[:, k])
        each = model.log_likelihood(X[own], y[own], mean=True)
        assert each == pytest.approx(log_probability.mean(), rel=1e-12)
    with pytest.raises(ValueError, match=r"`y` has the label .*, and the classes of the fit are"):
        model.log_likelihood(X, np.where(y == model.classes_[0], "b", "a"))
