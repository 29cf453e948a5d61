"""Adaptive lassos: factors from a pilot, against their definition and glmnet; no leaks in folds."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from faces import FACES, P, X
from oracles.cases import load
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sksurvgpu import (
    Adaptive,
    CoxLassoCCD,
    CoxLassoCV,
    LinearCCD,
    LogisticCCD,
    LogisticCV,
    PoissonCCD,
    bootstrap,
    fit_path,
    profile_likelihood,
    surv,
    wald,
)
from sksurvgpu._journal import Journal, describe_call
from sksurvgpu.data.simulate.draw import generator
from sksurvgpu.estimators._preparing import prepare

ALPHA = 0.002
PILOT = np.where(np.arange(P) % 4 == 3, 0.0, 0.1 * (1 + np.arange(P)))
PUBLISHED = load("relaxed.json")["cases"]
CLASSES = {
    "binomial": LogisticCCD,
    "poisson": PoissonCCD,
    "gaussian": LinearCCD,
    "cox": CoxLassoCCD,
}


def published_data(name):
    """Columns and outcome of a data set of the published optima."""
    data = next(
        found[name]
        for found in (load(f"{file}.json")["datasets"] for file in ("glm", "coxph"))
        if name in found
    )
    columns = np.column_stack([np.array(column, float) for column in data["X"].values()])
    if "y" in data:
        return columns, np.array(data["y"])
    return columns, surv(np.array(data["event"], bool), np.array(data["time"], float))


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


@pytest.mark.parametrize("case", [c for c in PUBLISHED if "pilot" in c], ids=lambda c: c["name"])
def test_equals_glmnet(case, check_close):
    columns, y = published_data(case["dataset"])
    penalty = Adaptive(case["pilot"], power=case["power"])
    model = CLASSES[case["family"]](alpha=case["lambda"], penalty=penalty, tol=1e-11)
    check_close(model.fit(columns, y).coef_, case["coef"], "published coef")


class TestDefinition:
    def test_factors_are_powers_of_a_ridge(self, face):
        """The variance of a pilot's predictor is that of the prior, from the fit's own numbers."""
        adaptive = face.fit(alpha=ALPHA, penalty=Adaptive(power=1.5))
        np.testing.assert_allclose(
            adaptive.penalty_factor_, np.abs(adaptive.pilot_coef_) ** -1.5, rtol=1e-12
        )
        factor = adaptive.penalty_factor_
        plain = face.fit(alpha=ALPHA, penalty_factor=factor)
        np.testing.assert_allclose(adaptive.coef_, plain.coef_, atol=1e-9)
        for name in ("alpha_max_", "objective_", "log_likelihood_"):
            np.testing.assert_allclose(getattr(adaptive, name), getattr(plain, name), rtol=1e-9)
        assert adaptive.converged_ and 0 < np.count_nonzero(adaptive.coef_) < P
        assert adaptive.alpha_max_ == plain.alpha_max_

    def test_the_pilot_is_a_fit(self, face):
        for pilot, ratio in (("ridge", 0.0), ("lasso", 1.0)):
            given = Adaptive(pilot, pilot_alpha=0.02)
            adaptive = face.fit(alpha=ALPHA, penalty=given, penalty_factor={1: 0.0, 2: 2.0})
            own = face.fit(alpha=0.02, l1_ratio=ratio, penalty_factor={1: 0.0, 2: 2.0})
            np.testing.assert_allclose(adaptive.pilot_coef_, own.coef_, atol=1e-8)
            assert adaptive.penalty_factor_[1] == 0.0
            if (own.coef_ == 0).any():
                assert np.isinf(adaptive.penalty_factor_[own.coef_ == 0]).all()
                assert not adaptive.coef_[own.coef_ == 0].any()


def test_default_strength_gives_the_predictor_variance_one():
    """For least squares, the strength is the sum of the columns' variances, per row."""
    face, dense = FACES["linear"], X.toarray()
    model = face.fit(alpha=ALPHA, penalty=Adaptive())
    own = face.fit(alpha=dense.var(axis=0).sum() / len(face.y), l1_ratio=0.0)
    np.testing.assert_allclose(model.pilot_coef_, own.coef_, rtol=1e-7)
    in_units = face.fit(1e3 * X, alpha=ALPHA, penalty=Adaptive())
    np.testing.assert_allclose(1e3 * in_units.coef_, model.coef_, atol=1e-8)


def test_without_a_penalty_first():
    face = FACES["cox"]
    adaptive = face.fit(alpha=ALPHA, penalty=Adaptive("mle"))
    np.testing.assert_allclose(adaptive.pilot_coef_, face.fit(alpha=0.0).coef_, atol=1e-9)


def test_given_pilots():
    face = FACES["cox"]
    model = face.fit(alpha=ALPHA, penalty=Adaptive(PILOT, power=0.5))
    is_left = PILOT == 0
    factor = np.where(is_left, 1.0, PILOT) ** -0.5
    bounds = {int(j): (0, 0) for j in np.flatnonzero(is_left)}
    held = face.fit(alpha=ALPHA, penalty_factor=factor, bounds=bounds)
    np.testing.assert_allclose(model.coef_, held.coef_, atol=1e-9)
    table = pd.DataFrame(X.toarray(), columns=[f"c{j}" for j in range(P)])
    named = {f"c{j}": PILOT[j] for j in np.flatnonzero(PILOT)}
    again = face.fit(table, alpha=ALPHA, penalty=Adaptive(named, power=0.5))
    np.testing.assert_allclose(again.coef_, model.coef_, atol=1e-9)


def test_pilots_of_coefficients_that_change_over_time():
    face, more = FACES["cox"], {"time_varying": {0: [20.0]}, "alpha": ALPHA}
    ridge = face.fit(l1_ratio=0.0, **more)
    by_coef = face.fit(penalty=Adaptive(ridge.coef_), **more)
    np.testing.assert_allclose(by_coef.penalty_factor_, 1 / np.abs(ridge.coef_))
    by_column = face.fit(penalty=Adaptive(PILOT + 1), **more)
    assert by_column.penalty_factor_[0] == by_column.penalty_factor_[1] == 1 / 1.1


def test_goes_with_means_bounds_and_ratios(face):
    mean = np.where(np.arange(P) % 2 == 0, 0.2, 0.0)
    given = {"prior_mean": mean, "bounds": (-0.3, 0.4), "l1_ratio": 0.7, "alpha": ALPHA}
    adaptive = face.fit(penalty=Adaptive(), **given)
    assert adaptive.converged_ and (np.abs(adaptive.coef_ - 0.05) <= 0.35 + 1e-12).all()
    is_in = np.isfinite(adaptive.penalty_factor_)
    factor = np.where(is_in, adaptive.penalty_factor_, 1.0)
    bounds = {j: (-0.3, 0.4) if is_in[j] else (mean[j], mean[j]) for j in range(P)}
    plain = face.fit(**given | {"bounds": bounds}, penalty_factor=factor)
    np.testing.assert_allclose(adaptive.coef_, plain.coef_, atol=1e-8)
    pilot = face.fit(penalty=Adaptive(mean + 0.5), **given)  # distances from the means
    np.testing.assert_allclose(pilot.penalty_factor_, 2.0)


class TestFolds:
    """A fold's pilot knows nothing of the rows that are held out."""

    def test_held_out_rows_change_no_fit(self, face):
        fold = np.random.default_rng(2).random(len(face.y)) < 0.3
        fold = fold if face.groups is None else np.isin(face.groups, np.unique(face.groups)[:18])
        weight = np.where(fold, 0.0, 1.0)
        scrambled = X.toarray()
        scrambled[fold] = np.random.default_rng(3).normal(size=(fold.sum(), P))
        coefs = []
        for table in (X.toarray(), scrambled):
            prepared = prepare(face.make(penalty=Adaptive()), table, face.y, **face.arguments())
            batch = {"weight": np.column_stack([np.ones(len(weight)), weight])}
            [_, [held]] = prepared.solve([ALPHA], total=np.array([240.0, weight.sum()]), **batch)
            coefs.append(held.coef)
        alone = face.make(penalty=Adaptive(), alpha=ALPHA)
        alone.fit(X, face.y, sample_weight=weight, **face.arguments())
        np.testing.assert_allclose(coefs[0], alone.coef_, atol=1e-8)
        np.testing.assert_allclose(coefs[1], coefs[0], atol=1e-8)

    def test_scores_are_those_of_single_fits(self):
        """Few penalties far apart: fits of all rows lend the splits their models."""
        face, alphas = FACES["logistic"], [0.01, 0.002, 0.0002]
        folds = np.arange(len(face.y)) % 6
        cv = [(np.flatnonzero(folds != k), np.flatnonzero(folds == k)) for k in range(6)]
        given = {"penalty": Adaptive(), "tol": 1e-10}
        chosen = LogisticCV(alphas=alphas, cv=cv, **given).fit(X, face.y)
        table = chosen.cv_results_
        for alpha in alphas:
            row = table[np.isclose(table["alpha"], alpha)]
            for k, (train, test) in enumerate(cv):
                model = LogisticCCD(alpha=alpha, **given).fit(X[train], face.y[train])
                score = model.predict_log_proba(X[test])
                of = (face.y[test] == model.classes_[1]).astype(int)
                mean = score[np.arange(len(test)), of].mean()
                np.testing.assert_allclose(row[f"split{k}_score"], mean, atol=1e-7)
        assert not np.allclose(chosen.penalty_factor_, model.penalty_factor_)

    def test_replicates_have_pilots_of_their_own(self):
        face = FACES["cox"]
        given = face.make(alpha=ALPHA, penalty=Adaptive())
        drawn = bootstrap(given, X, face.y, n_replicates=3, random_state=1, kind="exponential")
        seed = int(generator(1).integers(2**63))
        weight = np.random.default_rng([seed, 2]).standard_exponential(len(face.y))
        alone = clone(given).fit(X, face.y, sample_weight=weight)
        np.testing.assert_allclose(drawn.coefs[:, 2], alone.coef_, atol=1e-7)


def test_paths_begin_at_the_adaptive_alpha_max():
    face = FACES["cox"]
    path = fit_path(face.make(penalty=Adaptive()), X, face.y, n_alphas=6, alpha_min_ratio=0.01)
    assert path.df[0] == 0 < path.df[1] and path.converged.all()
    single = face.fit(penalty=Adaptive(), alpha=path.alphas[3])
    assert single.alpha_max_ == pytest.approx(path.alpha_max, rel=1e-9)
    np.testing.assert_allclose(path.coefs[:, 3], single.coef_, atol=1e-8)
    np.testing.assert_array_equal(path.at(3).penalty_factor_, path.at(0).penalty_factor_)


def test_warm_starts_and_exact_steps():
    face = FACES["cox"]
    given = {"penalty": Adaptive(), "alpha": ALPHA}
    model = face.make(**given, warm_start=True).fit(X, face.y)
    first = model.coef_.copy()
    assert model.fit(X, face.y).n_iter_ == 0
    np.testing.assert_array_equal(model.coef_, first)
    np.testing.assert_allclose(face.fit(**given, algorithm="exact").coef_, first, atol=1e-8)


def test_searches_clones_and_pickles():
    face = FACES["logistic"]
    model = face.make(alpha=ALPHA, penalty=Adaptive())
    search = GridSearchCV(model, {"penalty__power": [0.5, 1.0, 2.0]}, cv=3).fit(X, face.y)
    assert search.best_estimator_.penalty.power == search.best_params_["penalty__power"]
    assert clone(model).penalty.get_params() == model.penalty.get_params()
    read = pickle.loads(pickle.dumps(model.fit(X, face.y)))
    np.testing.assert_array_equal(read.penalty_factor_, model.penalty_factor_)
    model.set_params(penalty=None).fit(X, face.y)
    assert not hasattr(model, "penalty_factor_")
    assert repr(Adaptive("mle", power=2)) == "Adaptive(pilot='mle', power=2)"


@pytest.mark.parametrize(
    ("penalty", "message"),
    [
        (Adaptive("mlee"), "`pilot` is 'mlee', must be one of 'ridge', 'lasso', 'mle'"),
        (Adaptive(power=0), "`power` is 0, must be a positive number"),
        (Adaptive(power="1"), "`power` is '1', must be a positive number"),
        (Adaptive("lasso"), "needs `pilot_alpha`"),
        (Adaptive("mle", pilot_alpha=1.0), '`pilot_alpha` is 1.0, which is for pilot="ridge"'),
        (Adaptive(pilot_alpha=-1), "`pilot_alpha` is -1, must be a positive number"),
        (Adaptive(np.ones(3)), "`pilot` has 3 entries, `X` has 12 columns"),
        (Adaptive({99: 1.0}), "`pilot` names column 99, `X` has columns 0 to 11"),
    ],
)
def test_bad_input(penalty, message):
    with pytest.raises(ValueError, match=message):
        FACES["cox"].fit(penalty=penalty)


def test_pilots_without_a_maximum():
    face = FACES["cox"]
    table = np.column_stack([X.toarray(), face.y["event"] & (face.y["time"] < 5)])
    with pytest.raises(ValueError, match=r"1 coefficients are infinite .* column 12 of `X`"):
        face.fit(table, penalty=Adaptive("mle"))
    assert face.fit(table, penalty=Adaptive()).converged_


def test_pilots_that_do_not_converge_say_so():
    face = FACES["cox"]
    with pytest.warns(ConvergenceWarning) as caught:
        face.make(penalty=Adaptive(), alpha=ALPHA, max_iter=1).fit(X, face.y)
    assert "1 of 1 pilot fits did not converge" in str(caught[0].message)


def test_what_is_for_fits_without_a_penalty():
    face = FACES["cox"]
    model = face.fit(alpha=0.0, penalty=Adaptive())
    for call in (lambda: wald(model, X, face.y), lambda: profile_likelihood(model, X, face.y, 0)):
        with pytest.raises(ValueError, match="has `penalty`"):
            call()


def test_cross_validation_keeps_finished_fits(tmp_path):
    face = FACES["cox"]
    given = {"penalty": Adaptive(), "cv": 3, "n_alphas": 5, "alpha_min_ratio": 0.05}
    first = CoxLassoCV(**given, folder=tmp_path / "kept").fit(X, face.y)
    again = CoxLassoCV(**given, folder=tmp_path / "kept").fit(X, face.y)
    pd.testing.assert_frame_equal(first.cv_results_, again.cv_results_)
    with pytest.raises(FileExistsError, match="`penalty` differs"):
        CoxLassoCV(**given | {"penalty": Adaptive(power=2)}, folder=tmp_path / "kept").fit(
            X, face.y
        )
    ones = np.ones(10_000)
    other = np.where(np.arange(10_000) == 5_000, 2.0, ones)  # where a repr shows nothing
    described = [describe_call("a", face.make(penalty=Adaptive(v))) for v in (ones, other, ones)]
    plain = [Journal(tmp_path, of)._of for of in described]
    assert plain[0] == plain[2] != plain[1]
