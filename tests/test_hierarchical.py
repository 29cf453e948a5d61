"""Coefficients that are pulled to those of their classes."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from faces import FACES, P, X
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    Hierarchical,
    LinearCCD,
    alpha_of_variance,
    bootstrap,
    fit_path,
    surv,
    variance_of_alpha,
)
from sksurvgpu.penalties.parts import Parts

ALPHA, BETWEEN = 0.02, 0.7
LABELS = ["a", "a", "a", "b", "b", None, "c", "c", "c", "c", None, "b"]
LEVELS = [(label, j % 3 or None) for j, label in enumerate(LABELS)]  # which cross
PAIRS = [("l2", "l2"), ("l1", "l2"), ("l2", "l1"), ("l1", "l1")]
FACTOR = np.where(np.arange(P) % 5 == 4, 0.0, 1.5)


def members(labels, names):
    return np.array([[label == name for name in names] for label in labels], float)


def violations(face, model, spec, mean=0.0, factor=1.0):
    """Of the definition, for columns and classes, with the gradient by differences."""
    moved, step = copy.copy(model), 1e-6

    def loglik(coef):
        moved.coef_ = coef
        return moved.log_likelihood(X, face.y, **{"sample_weight": None, **face.arguments()})

    steps = step * np.eye(P)
    gradient = np.array([loglik(model.coef_ + e) - loglik(model.coef_ - e) for e in steps])
    gradient /= 2 * step * len(face.y)
    columns = list(zip(*LEVELS, strict=True)) if isinstance(spec.classes[0], tuple) else [LABELS]
    given = zip(model.class_levels_, model.class_names_, strict=True)
    A = np.column_stack([members(columns[level], [name])[:, 0] for level, name in given])
    parts = model.coef_ - mean - A @ model.class_coef_
    parts[np.abs(parts) < 1e-14] = 0.0

    def of(parts, gradient, strength, kind):
        if kind == "l2":
            return np.abs(gradient - strength * parts)
        away = np.abs(gradient - strength * np.sign(parts))
        return np.where(parts == 0, np.maximum(np.abs(gradient) - strength, 0), away)

    own = of(parts, gradient, ALPHA * factor, spec.within)
    above = of(model.class_coef_, A.T @ gradient, ALPHA * spec.between, spec.above)
    return np.concatenate([own, above])


@pytest.mark.parametrize(("name", "pair"), list(zip(FACES, PAIRS * 2, strict=True)))
@pytest.mark.parametrize("classes", [LABELS, LEVELS], ids=["one level", "two levels"])
def test_fits_are_stationary(name, pair, classes):
    face, spec = FACES[name], Hierarchical(classes, between=BETWEEN, within=pair[0], above=pair[1])
    model = face.make(penalty=spec, max_iter=5_000).fit(X, face.y, **face.arguments())
    assert model.converged_
    assert violations(face, model, spec).max() < 1e-7
    if not np.isnan(model.dual_gap_):
        assert 0 <= model.dual_gap_ < 1e-6
    if spec.within == "l1" and len(model.class_names_) == 3:
        shared = [(model.coef_ == value).sum() for value in model.class_coef_]
        assert max(shared) >= 1  # exactly


def test_two_normal_priors_are_a_ridge():
    """Their precision is (v1 I + v2 same class)^-1, and the optimum a linear system."""
    y, design = FACES["linear"].y, X.toarray()
    v1, v2, total = 0.04, 0.15, len(y)
    same = members(LABELS, "abc") @ members(LABELS, "abc").T
    centred = design - design.mean(axis=0)
    precision = np.linalg.inv(v1 * np.eye(P) + v2 * same)
    expected = np.linalg.solve(centred.T @ centred + precision, centred.T @ (y - y.mean()))
    alpha = alpha_of_variance(v1, total, "normal")
    between = alpha_of_variance(v2, total, "normal") / alpha
    assert between == pytest.approx(v1 / v2)
    spec = Hierarchical(LABELS, between=between)
    model = LinearCCD(alpha=alpha, penalty=spec, tol=1e-12).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected, rtol=0, atol=1e-10)
    sums, n = members(LABELS, "abc").T @ expected, same.max() * 0 + members(LABELS, "abc").sum(0)
    np.testing.assert_allclose(model.class_coef_, sums / v1 / (n / v1 + 1 / v2), atol=1e-10)
    loss = ((y - y.mean() - centred @ expected) ** 2).sum()
    value = 0.5 * (loss + expected @ precision @ expected) / total
    assert model.objective_ == pytest.approx(value, rel=1e-12)


def test_the_largest_penalty_of_classes():
    """It is that at which the first class moves, beside columns that always do."""
    rng = np.random.default_rng(3)
    columns, classes = rng.normal(size=(60, 20)) + 2.0, (np.arange(20) // 4).tolist()
    y = columns[:, :4].sum(axis=1) + rng.normal(size=60)
    model = LinearCCD(penalty=Hierarchical(classes, between=1.0, above="l1"), tol=1e-9)
    largest = model.fit(columns, y).alpha_max_
    for share, is_there in ((1.002, False), (0.998, True)):
        assert model.set_params(alpha=share * largest).fit(columns, y).class_coef_.any() == is_there


def test_factors_and_means_are_of_the_columns():
    face, mean = FACES["cox"], np.where(np.arange(P) % 3 == 0, 0.3, -0.1)
    for within, above in PAIRS[:2]:
        spec = Hierarchical(LABELS, between=BETWEEN, within=within, above=above)
        given = {"penalty": spec, "prior_mean": mean, "penalty_factor": FACTOR}
        model = face.make(**given).fit(X, face.y)
        assert violations(face, model, spec, mean, FACTOR).max() < 1e-7


def test_columns_far_from_zero():
    """Sums of columns are centred as columns are: one far away changes the baseline alone."""
    rng = np.random.default_rng(5)
    table = rng.normal(size=(300, 6))
    y = surv(rng.random(300) < 0.6, rng.exponential(size=300) * np.exp(-table[:, :3].sum(axis=1)))
    spec = Hierarchical([0, 0, 0, 1, 1, 1], between=0.3)
    near, far = (
        CoxLassoCCD(alpha=0.01, penalty=spec, tol=1e-10).fit(table + by, y) for by in (0.0, 20.0)
    )
    assert np.abs(near.coef_[:3]).max() > 0.5
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-8)
    curves = [
        model.predict_survival_function(table[:5] + by, return_array=True)
        for model, by in ((near, 0.0), (far, 20.0))
    ]
    np.testing.assert_allclose(*curves, atol=1e-8)


@pytest.mark.parametrize("constant", [1.0, 2.0])
def test_constant_columns_have_the_effect_of_their_class(constant):
    """Where others are equal, too, so that steps are not exact: no part is left to rounding."""
    rng = np.random.default_rng(0)
    drug, x = rng.random(130) < 0.4, rng.integers(-3, 4, 130)
    y = 0.5 * drug + x + rng.normal(size=130)
    table, given = np.column_stack([drug, np.full(130, constant), x, x]), ["a", "a", None, "c"]
    for alpha in (0.3, 0.075, 0.01):
        model = LinearCCD(alpha=alpha, penalty=Hierarchical(given, between=1.0)).fit(table, y)
        without = LinearCCD(alpha=alpha, penalty=Hierarchical(["a", None, "c"], between=1.0))
        without.fit(np.delete(table, 1, axis=1), y)
        assert model.converged_
        assert model.coef_[1] == model.class_coef_[0]
        np.testing.assert_allclose(np.delete(model.coef_, 1), without.coef_, atol=1e-5)


@pytest.mark.mostly_slow(but="pair[013]")  # an l1 norm of classes takes half a minute
@pytest.mark.parametrize("pair", PAIRS)
def test_paths_folds_and_replicates(pair):
    """Of columns that are empty in some of them, too, which get the effect of their class."""
    face, alphas = FACES["cox"], [0.1, ALPHA]
    rare = sp.lil_array(X)
    rare[:, [1, 7]] = 0.0
    rare[3, 1] = rare[[30, 31, 32], [7, 7, 7]] = 1.0
    rare, spec = rare.tocsr(), Hierarchical(LABELS, between=0.1, within=pair[0], above=pair[1])
    path = fit_path(face.make(penalty=spec), rare, face.y, alphas=alphas)
    single = face.make(penalty=spec).fit(rare, face.y)
    np.testing.assert_allclose(path.coefs[:, 1], single.coef_, atol=1e-8)
    np.testing.assert_allclose(path.at(1).class_coef_, single.class_coef_, atol=1e-8)
    assert path.converged.all()
    splits = [(np.delete(np.arange(240), rows), rows) for rows in np.split(np.arange(240), 8)]
    given = {"alphas": alphas, "cv": splits, "tol": 1e-9, "penalty": spec}
    chosen = CoxLassoCV(**given).fit(rare, face.y)
    train, test = splits[0]  # without the only row of a column
    alone = face.make(penalty=spec, alpha=chosen.alpha_).fit(rare[train], face.y[train])
    if pair[0] == "l2":
        assert alone.coef_[1] == pytest.approx(alone.class_coef_[0], abs=1e-9)
    else:
        assert alone.coef_[1] == alone.class_coef_[0]
    # the whole held-out log-likelihood is that of all rows less that of the others
    whole = alone.log_likelihood(rare, face.y) - alone.log_likelihood_
    row = chosen.cv_results_.query("alpha == @chosen.alpha_").iloc[0]
    held_out = face.y["event"][test].sum()
    assert row["split0_score"] == pytest.approx(whole / held_out, abs=1e-6)
    kind = "laplace" if pair[0] == "l1" else "normal"
    assert row["variance"] == pytest.approx(variance_of_alpha(row["alpha"], 240, kind))
    drawn = bootstrap(face.make(penalty=spec), rare, face.y, n_replicates=12, random_state=0)
    assert np.isfinite(drawn.coefs).all()
    again = face.make(penalty=spec, warm_start=True).fit(rare, face.y)
    assert again.fit(rare, face.y).n_iter_ == 0


def test_search_over_both_variances():
    face, spec = FACES["cox"], Hierarchical(LABELS, between=1.0)
    grid = {"alpha": [0.1, 0.02], "penalty__between": [0.1, 10.0]}
    search = GridSearchCV(face.make(penalty=spec), grid, cv=2).fit(X, face.y)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(scores)) == 4
    assert search.best_estimator_.penalty.between in grid["penalty__between"]


def test_fitted_attributes_belong_to_the_fit():
    face, spec = FACES["cox"], Hierarchical(LABELS, between=BETWEEN)
    model = face.make(penalty=spec).fit(X, face.y)
    assert model.class_names_.tolist() == ["a", "b", "c"]
    assert repr(clone(model)) == repr(model)
    assert clone(spec).get_params() == spec.get_params()
    model.set_params(penalty=None).fit(X, face.y)
    assert not hasattr(model, "class_coef_")
    np.testing.assert_array_equal(model.coef_, face.make().fit(X, face.y).coef_)


def test_names_of_columns_and_levels():
    face = FACES["cox"]
    table = pd.DataFrame(X.toarray(), columns=[f"c{j}" for j in range(P)])
    named = {f"c{j}": labels for j, labels in enumerate(LEVELS) if any(labels)}
    fits = [
        face.make(penalty=Hierarchical(classes, between=[0.5, 2.0], above=["l2", "l1"]))
        for classes in (named, LEVELS, np.array(LEVELS, dtype=object))
    ]
    fits = [model.fit(table, face.y) for model in fits]
    assert fits[0].class_names_.tolist() == ["a", "b", "c", 1, 2]
    assert fits[0].class_levels_.tolist() == [0, 0, 0, 1, 1]
    for model in fits[1:]:
        np.testing.assert_array_equal(model.coef_, fits[0].coef_)


def test_moves_between_a_class_and_its_members_are_the_best():
    rng = np.random.default_rng(3)
    for trial in range(60):
        n_own = int(rng.integers(1, 7))
        ratio = rng.choice([0.0, 0.5, 1.0], n_own + 1)
        family = Parts(ratio, n_own, np.array([0, n_own]), np.arange(n_own))
        factor = rng.choice([0.0, 0.5, 1.0, 3.0], n_own + 1)
        factor[-1] = max(factor[-1], 0.5)
        penalty = family.at(1.3, factor, np.zeros(n_own + 1, bool))
        start = (
            rng.integers(-3, 4, n_own + 1).astype(float)
            if trial % 2
            else rng.normal(size=n_own + 1)
        )
        found = penalty.settled(start)
        np.testing.assert_allclose(found[:-1] + found[-1], start[:-1] + start[-1], atol=1e-14)
        moves = np.append(np.linspace(-8, 8, 401), np.append(start[:-1], -start[-1]))
        tried = [penalty.value(np.append(start[:-1] - t, start[-1] + t)) for t in moves]
        assert penalty.value(found) <= min(tried) + 1e-12
        np.testing.assert_array_equal(penalty.settled(found), found)


def test_cyclops():
    """R Cyclops 3.7.0, variances 0.3 and 0.8, of which classes the first three columns are one.

    Its ``createPrior`` knows classes of "types" only, so that the prior was set by
    ``.cyclopsSetPrior(pointer, c("normal", "normal"), c(0.3, 0.8), NULL, list(0:2, 3:5), NULL)``;
    ``createControl(tolerance = 1e-14, convergenceType = "gradient")``.
    """
    time = [3, 5, 6, 6, 8, 9, 11, 12, 14, 15, 17, 18, 21, 22, 25, 27, 30, 31, 33, 36]
    event = [1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1, 0]
    # fmt: off
    table = np.array([
        [1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0],
        [0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0],
        [1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0],
        [5, 12, -3, 8, 1, -11, 4, 9, -6, 0, 7, -2, 3, -9, 2, -4, 6, -8, -1, -5],
        [0, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0],
        [1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1],
    ], float).T
    # fmt: on
    table[:, 3] /= 10
    alpha = alpha_of_variance(0.3, 20, "normal")
    spec = Hierarchical([0, 0, 0, 1, 1, 1], between=0.3 / 0.8)
    model = CoxLassoCCD(alpha=alpha, penalty=spec, tol=1e-12).fit(table, surv(event, time))
    expected = [
        *(1.162780912581943, 1.208429934874997, 1.014164400644542),
        *(1.020170666147356, 0.626487360273734, 0.739359808187466),
    ]
    np.testing.assert_allclose(model.coef_, expected, atol=1e-8)
    assert model.log_likelihood_ == pytest.approx(-22.690147529547, rel=1e-12)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"classes": ["a"] * 3}, r"`classes` has shape \(3, 1\), `X` has 12 columns"),
        ({"classes": [None] * P}, "`classes` puts no column into a class"),
        ({"classes": {99: "a"}}, "`classes` names column 99, `X` has columns 0 to 11"),
        ({"classes": {0: "a", 1: ("a", "b")}}, "`classes` of column 0 has 1 label"),
        ({"between": 0.0}, "`between` is 0.0, must be positive and finite"),
        ({"between": [1.0, 2.0]}, "`between` has 2 entries, `classes` has 1 level"),
        ({"within": "l3"}, '`within` is \'l3\', must be "l1" or "l2"'),
        ({"above": ["l1", None]}, "`above` is None, must be"),
    ],
)
def test_bad_input(spec, message):
    face, given = FACES["cox"], {"classes": LABELS, "between": 1.0, **spec}
    with pytest.raises(ValueError, match=message):
        face.make(penalty=Hierarchical(**given)).fit(X, face.y)


def test_what_does_not_go_together():
    face, spec = FACES["cox"], Hierarchical(LABELS, between=1.0)
    with pytest.raises(
        ValueError, match="`penalty` is Hierarchical, which does not go with `bounds`"
    ):
        face.make(penalty=spec, bounds=(0, 1)).fit(X, face.y)
    with pytest.raises(ValueError, match="does not go with `l1_ratio`"):
        face.make(penalty=spec, l1_ratio=0.5).fit(X, face.y)
    with pytest.raises(ValueError, match="`classes` has column 0, whose effect changes over time"):
        face.make(penalty=spec, time_varying={0: [10.0]}).fit(X, face.y)
    for classes, label in (
        ({0: ([1],)}, r"\[1\] of type list"),
        ([("a",), ("a", "b")] * 6, "tuple"),
    ):
        with pytest.raises(TypeError, match=f"`classes` has a label .*{label}"):
            face.make(penalty=Hierarchical(classes, between=1.0)).fit(X, face.y)
