"""Relaxed fits against fits of their supports, R's glm, coxph and glmnet."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from faces import FACES, P, X
from oracles.cases import load
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from test_adaptive import CLASSES, published_data

from sksurvgpu import (
    Adaptive,
    CoxLassoCV,
    CVDisplay,
    LogisticCCD,
    LogisticCV,
    bootstrap,
    fit_path,
    posterior,
    profile_likelihood,
    wald,
)
from sksurvgpu.estimators._preparing import prepare
from sksurvgpu.estimators._separation import is_determined

# Fits in loops may select nothing, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")

PUBLISHED = [case for case in load("relaxed.json")["cases"] if "lasso" in case]


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


@pytest.mark.parametrize("case", PUBLISHED, ids=lambda case: case["name"])
def test_equals_software_in_r(case, check_close):
    columns, y = published_data(case["dataset"])
    model = CLASSES[case["family"]](tol=1e-11, penalty_factor=case["factor"])
    path = fit_path(model, columns, y, alphas=case["lambdas"], relax=True)
    refits, blends = path.blend(0), path.blend(0.25)
    lasso, refit = np.array(case["lasso"]), np.array(case["refit"])
    check_close(path.coefs.T, lasso, "published coef")
    check_close(refits.coefs.T, refit, "published coef")
    check_close(blends.coefs.T, 0.25 * lasso + 0.75 * refit, "published coef")
    # glmnet's refits stop about 1e-6 short
    np.testing.assert_allclose(blends.coefs.T, case["blend"], atol=1e-4)
    if case["intercepts"]:
        of_lasso, of_refit = np.array(case["intercepts"]), np.array(case["refit_intercepts"])
        found = [blends.at(i).intercept_ for i in range(len(blends))]
        check_close(found, 0.25 * of_lasso + 0.75 * of_refit, "published coef")


class TestDefinition:
    def test_blends_of_a_fit_and_a_fit_of_its_support(self, face):
        alpha = 0.3 * face.fit().alpha_max_
        lasso = face.fit(alpha=alpha, penalty_factor={1: 0.0})
        support = np.flatnonzero((lasso.coef_ != 0) | (np.arange(P) == 1))
        free = face.fit(X[:, support], alpha=0.0)
        refit = np.zeros(P)
        refit[support] = free.coef_
        assert 1 < len(support) < P
        for gamma in (0, 0.3, 1.0):
            model = face.fit(alpha=alpha, penalty_factor={1: 0.0}, relax=gamma)
            expected = gamma * lasso.coef_ + (1 - gamma) * refit
            np.testing.assert_allclose(model.coef_, expected, atol=1e-8)
            for name in ("objective_", "kkt_", "alpha_max_", "dual_gap_"):
                np.testing.assert_array_equal(getattr(model, name), getattr(lasso, name))
            assert model.converged_
            if gamma == 0:
                np.testing.assert_allclose(model.log_likelihood_, free.log_likelihood_, rtol=1e-9)
                same = face.predict(model), face.predict(free, X[:, support])
                for values, others in zip(*same, strict=True):
                    if values.dtype.kind == "f":
                        np.testing.assert_allclose(values, others, atol=1e-7)

    def test_likelihoods_of_blends(self, face):
        """That of an intercept model at its blended intercept, of others as `score` sees it."""
        model = face.fit(relax=0.4)
        given = {"sample_weight": None, **face.arguments()}
        if not hasattr(model, "intercept_"):
            own = model.log_likelihood(X, face.y, **given)
        else:
            face_at = face.make(fit_intercept=False)
            face_at.fit(X, face.y)
            face_at.coef_ = model.coef_
            given["offset"] = np.full(len(face.y), model.intercept_)
            own = face_at.log_likelihood(X, face.y, **given)
        assert model.log_likelihood_ == pytest.approx(own, rel=1e-10)

    def test_paths_are_those_of_single_fits(self, face):
        alphas, more = [0.05, 0.01], face.arguments()
        path = fit_path(face.make(), X, face.y, alphas=alphas, relax=True, **more)
        blended = path.blend(0.5)
        assert blended.gamma == 0.5 and (blended.df == path.df).all() and blended.converged.all()
        np.testing.assert_array_equal(blended.kkt, path.kkt)
        for i, alpha in enumerate(alphas):
            single = face.fit(alpha=alpha, relax=0.5)
            np.testing.assert_allclose(blended.coefs[:, i], single.coef_, atol=1e-8)
            at = blended.at(i)
            assert at.relax == 0.5 and path.at(i).relax is None
            np.testing.assert_allclose(at.log_likelihood_, single.log_likelihood_, rtol=1e-9)
        own = fit_path(face.make(relax=0.5), X, face.y, alphas=alphas, **more)
        np.testing.assert_array_equal(own.coefs, blended.coefs)
        np.testing.assert_array_equal(blended.blend(1).coefs, path.coefs)


@pytest.mark.parametrize("gamma", [0.0, 0.1])
def test_goes_with_what_selects(gamma):
    """Means hold what is not selected, bounds hold in the refit, factors do not matter in it."""
    face, mean = FACES["cox"], np.where(np.arange(P) % 2 == 0, 0.3, 0.0)
    given = {"prior_mean": mean, "bounds": (-0.2, 0.5), "alpha": 0.03}
    lasso, model = face.fit(**given), face.fit(**given, relax=gamma)
    is_left = lasso.coef_ == mean
    assert 0 < is_left.sum() < P
    held = {int(j): (mean[j], mean[j]) if is_left[j] else (-0.2, 0.5) for j in range(P)}
    refit = face.fit(alpha=0.0, prior_mean=mean, bounds=held).coef_
    np.testing.assert_allclose(model.coef_, gamma * lasso.coef_ + (1 - gamma) * refit, atol=1e-8)
    assert (model.coef_[is_left] == mean[is_left]).all()  # criteria count those that are not
    adaptive = face.fit(alpha=0.003, penalty=Adaptive())
    relaxed = face.fit(alpha=0.003, penalty=Adaptive(), relax=gamma)
    support = np.flatnonzero(adaptive.coef_)
    refit = np.zeros(P)
    refit[support] = face.fit(X[:, support], alpha=0.0).coef_
    expected = gamma * adaptive.coef_ + (1 - gamma) * refit
    np.testing.assert_allclose(relaxed.coef_, expected, atol=1e-8)
    assert np.isfinite(relaxed.penalty_factor_).all()


class TestNoRefit:
    """Supports that separate the events, or are collinear."""

    def table(self, face):
        """With a column of the first events alone."""
        rare, order = np.zeros(len(face.y)), np.argsort(face.y["time"])
        rare[order[face.y["event"][order]][:25]] = 1.0
        return np.column_stack([X.toarray(), rare])

    def test_is_said_by_alpha(self):
        face = FACES["cox"]
        table, alphas = self.table(face), [0.5, 0.02, 0.005]
        with pytest.warns(ConvergenceWarning, match="at 2 of 3 penalties, alpha 0.02, 0.005") as w:
            path = fit_path(face.make(), table, face.y, alphas=alphas, relax=True)
        assert "`x12` are collinear or separate" in str(w[0].message)
        assert path.coefs[-1, 1] != 0 and np.isfinite(path.coefs).all()
        blended = path.blend(0.5)
        np.testing.assert_array_equal(np.isnan(blended.coefs).all(axis=0), [False, True, True])
        np.testing.assert_array_equal(blended.converged, [True, False, False])
        assert np.isfinite(path.blend(1.0).coefs).all()
        assert blended.at(0).converged_
        with pytest.raises(ValueError, match=r"selected at alpha=0.02 have no fit"):
            blended.at(1)

    def test_is_an_error_of_a_single_fit(self):
        face = FACES["cox"]
        with pytest.raises(ValueError, match=r"relax=0 needs a fit .*: `x12` are collinear"):
            face.fit(self.table(face), relax=0)
        assert face.fit(self.table(face), relax=1).converged_

    def test_replicates_are_nan(self):
        """One row keeps the column from separating; a third of the replicates lack it."""
        face = FACES["cox"]
        table = self.table(face)
        table[np.argmax(face.y["time"]), -1] = 1.0
        with pytest.warns(ConvergenceWarning, match="fits of the bootstrap did not converge"):
            drawn = bootstrap(face.make(relax=0.0), table, face.y, n_replicates=12, random_state=0)
        lost = np.isnan(drawn.coefs).all(axis=0)
        assert 0 < lost.sum() < 12
        assert np.isfinite(drawn.coefs[:, ~lost]).all()

    @pytest.mark.parametrize("name", FACES)
    def test_collinear_columns(self, name):
        face = FACES[name]
        table = np.column_stack([X.toarray(), X.toarray()[:, 8] + X.toarray()[:, 9]])
        prepared = prepare(face.make(), table, face.y, **face.arguments())
        every = np.ones(P + 1, bool)
        found = prepared.find_undetermined(every, prepared.weight)
        np.testing.assert_array_equal(np.flatnonzero(found), [8, 9, 12])
        assert not prepared.find_undetermined(np.arange(P + 1) < P, prepared.weight).any()

    def test_many_columns_need_a_quick_proof(self):
        """Either answer is that of the linear programs where there are few columns."""
        face, random = FACES["cox"], np.random.default_rng(0)
        wide = random.normal(size=(len(face.y), 150))
        prepared = prepare(face.make(), wide, face.y)
        for n_columns, expected in ((10, True), (20, True), (120, False), (150, False)):
            some = np.arange(150) < n_columns
            assert prepared.is_determined(some, prepared.weight) == expected
        for name in ("cox", "logistic", "conditional logistic", "poisson"):
            face = FACES[name]
            prepared = prepare(face.make(), X, face.y, **face.arguments())
            for seed in range(4):
                weight = (np.random.default_rng(seed).random(len(face.y)) < 0.15) * 1.0
                every = np.ones(P, bool)
                found = prepared.find_undetermined(every, weight)
                assert prepared.is_determined(every, weight) != found.any()

    def test_few_supports_are_looked_at(self, monkeypatch):
        face, seen = FACES["cox"], []

        def count(problem, weight, is_free):
            seen.append(is_free)
            return is_determined(problem, weight, is_free)

        monkeypatch.setattr("sksurvgpu.estimators._prepared.is_determined", count)
        fit_path(face.make(), X, face.y, n_alphas=20, alpha_min_ratio=0.01, relax=True)
        assert len(seen) == 1  # that of all supports together
        for factor in (1.0, 30.0):  # the column that separates comes early or late
            seen.clear()
            model = face.make(penalty_factor={12: factor})
            with pytest.warns(ConvergenceWarning):
                path = fit_path(model, self.table(face), face.y, n_alphas=20, relax=True)
            assert len(seen) <= 8
            is_lost = np.isnan(path.blend(0).coefs).any(axis=0)
            np.testing.assert_array_equal(is_lost, path.coefs[-1] != 0)
            assert 0 < is_lost.sum() < 20


class TestCrossValidation:
    @pytest.mark.parametrize("alphas", [[0.05, 0.04, 0.03], [0.05, 0.02, 0.005]])
    def test_scores_are_those_of_single_fits(self, alphas):
        face, gammas = FACES["logistic"], [1.0, 0.5, 0.0]
        folds = np.arange(len(face.y)) % 6
        cv = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(6)]
        chosen = LogisticCV(alphas=alphas, cv=cv, relax=gammas, tol=1e-10).fit(X, face.y)
        table = chosen.cv_results_
        assert table["gamma"].tolist() == gammas * 3
        for row in table.itertuples():
            for k, (train, test) in enumerate(cv):
                model = LogisticCCD(alpha=row.alpha, relax=row.gamma, tol=1e-10)
                model.fit(X[train], face.y[train])
                score = model.predict_log_proba(X[test])
                of = (face.y[test] == model.classes_[1]).astype(int)
                mean = score[np.arange(len(test)), of].mean()
                np.testing.assert_allclose(getattr(row, f"split{k}_score"), mean, atol=1e-7)
        best = table.loc[table["mean_score"].idxmax()]
        assert (chosen.alpha_, chosen.relax_) == (best["alpha"], best["gamma"])
        single = face.fit(alpha=chosen.alpha_, relax=chosen.relax_)
        np.testing.assert_allclose(chosen.coef_, single.coef_, atol=1e-8)
        assert chosen.best_score_ == table["mean_score"].max()
        CVDisplay.from_estimator(chosen)

    def test_one_share_none_and_rules(self):
        face = FACES["cox"]
        given = {"cv": 4, "n_alphas": 8, "alpha_min_ratio": 0.1}
        plain = CoxLassoCV(**given).fit(X, face.y)
        assert plain.relax_ is None and "gamma" not in plain.cv_results_
        own = CoxLassoCV(**given, relax=1.0).fit(X, face.y)
        np.testing.assert_array_equal(
            own.cv_results_["mean_score"], plain.cv_results_["mean_score"]
        )
        assert own.relax_ == 1.0
        simple = CoxLassoCV(**given, relax=[0, 1], rule="1se").fit(X, face.y)
        table = simple.cv_results_
        best = table["mean_score"].idxmax()
        close = table[table["mean_score"] >= (table["mean_score"] - table["standard_error"])[best]]
        close = close[close["alpha"] == close["alpha"].max()]
        assert simple.alpha_ == close["alpha"].max()
        assert simple.relax_ == close.loc[close["mean_score"].idxmax(), "gamma"]

    def test_search_of_variances_and_concordance(self):
        face = FACES["cox"]
        found = CoxLassoCV(search="auto", cv=3, relax=[0, 1], scoring="concordance").fit(X, face.y)
        table = found.cv_results_
        assert table["alpha"].is_monotonic_decreasing and (table.groupby("alpha").size() == 2).all()
        assert found.best_score_ == table["mean_score"].max()

    def test_splits_without_a_refit_are_the_worst(self):
        face = FACES["cox"]
        table = TestNoRefit().table(face)
        found = CoxLassoCV(alphas=[0.02, 0.3], cv=3, relax=[0, 1]).fit(table, face.y)
        results = found.cv_results_
        is_lost = (results["alpha"] == 0.02) & (results["gamma"] == 0)
        assert (results["mean_score"] == -np.inf).tolist() == is_lost.tolist()
        assert (found.alpha_, found.relax_) != (0.02, 0)


def test_clones_searches_and_pickles():
    face = FACES["logistic"]
    model = face.make(relax=0)
    assert clone(model).get_params()["relax"] == 0
    search = GridSearchCV(model, {"relax": [None, 0, 0.5]}, cv=3).fit(X, face.y)
    assert search.best_params_["relax"] in (None, 0, 0.5)
    path = fit_path(model, X, face.y, alphas=[0.05, 0.02])
    read = pickle.loads(pickle.dumps(path))
    np.testing.assert_array_equal(read.at(1).coef_, path.at(1).coef_)
    with pytest.raises(ValueError, match="blend before the path is pickled"):
        read.blend(0.5)


@pytest.mark.parametrize("relax", [1.5, -0.1, "0.5", [0.5]])
def test_bad_shares(relax):
    with pytest.raises(ValueError, match="'relax' parameter of CoxLassoCCD must be"):
        FACES["cox"].fit(relax=relax)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f: f.fit(relax=True), ValueError, "`relax` has True, must be the share"),
        (
            lambda f: fit_path(f.make(), X, f.y, relax=0.5),
            TypeError,
            "`relax` is 0.5, must be True",
        ),
        (lambda f: fit_path(f.make(), X, f.y, n_alphas=2).blend(0), ValueError, "relax=True"),
        (lambda f: CoxLassoCV(relax=[0, 2]).fit(X, f.y), ValueError, "`relax` has 2, must be"),
        (lambda f: CoxLassoCV(relax=[]).fit(X, f.y), ValueError, r"`relax` is \[\]; pass a share"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call(FACES["cox"])


def test_a_selected_model_has_no_intervals_of_its_own():
    """Wald's would take the selection for given."""
    face = FACES["cox"]
    model = face.fit(relax=0)
    calls = (
        lambda: wald(model, X, face.y),
        lambda: profile_likelihood(model, X, face.y, 0),
        lambda: posterior(model, X, face.y),
    )
    for call in calls:
        with pytest.raises(ValueError, match="`estimator` has `relax`"):
            call()
