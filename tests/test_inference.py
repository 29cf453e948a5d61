"""Inference against slow references, and what must hold for every model.

R's figures are in `test_inference_published`.
"""

from copy import deepcopy
from dataclasses import replace
from pickle import dumps, loads

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from faces import FACES, SUBJECT, TIME, X
from models import MODELS, Sample, dense, open_session
from oracles.reference_likelihoods import split_rows
from oracles.reference_scores import fine_gray_scores
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import SplineTransformer

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    FineGrayCCD,
    LinearCCD,
    competing_risks,
    fit_path,
    likelihood_ratio_test,
    proportional_hazards_test,
    residuals,
    surv,
    wald,
)
from sksurvgpu.backends.cpu.session import Session
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.estimators._preparing import assemble
from sksurvgpu.inference._rows import open_rows
from sksurvgpu.information import entry_scores, views
from sksurvgpu.information import rows as information_rows
from sksurvgpu.information.inverse import invert
from sksurvgpu.information.rows import FittedRows
from sksurvgpu.information.views import View, view_of
from sksurvgpu.partitions.handles import from_lists

P = X.shape[1]


def view_at(model, sample, coef):
    """View of a likelihood at any coefficients, without an estimator."""
    session, _, problem = open_session(model, sample, coef)
    outcome = type("Outcome", (), {"time": sample.y.get("time")})
    return view_of(FittedRows(None, outcome, problem, session, sample.weights)), session


WITHOUT_ENTRIES = [f"no entries, {name}" for name in MODELS if name.startswith("cox")]


def drawn(name, seed):
    model = MODELS[name.removeprefix("no entries, ")]
    sample = model.sample(seed, p=5)
    if name in WITHOUT_ENTRIES:
        sample = sample.with_y(start=None)
    return model, sample, np.random.default_rng(seed).normal(size=5) * 0.5


@pytest.mark.thorough(but=r"-2\]")
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_information_is_the_hessian(name, seed, check_close):
    model, sample, coef = drawn(name, seed)
    view, _ = view_at(model, sample, coef)
    x = dense(sample.X)
    expected = x.T @ model.exact_hessian(sample, sample.eta(coef)) @ x
    check_close(view.information()[0], expected, "curvature")


@pytest.mark.parametrize("name", [*MODELS, *WITHOUT_ENTRIES])
def test_information_of_sparse_indicators_beside_numbers_is_that_of_dense_columns(
    name, monkeypatch
):
    """One indicator of all rows but one, and numbers far from zero, keep their digits."""
    monkeypatch.setattr(entry_scores, "MOST_IN_RUN", 24)  # lines in many runs
    model, sample, _ = drawn(name, 7)
    rng, n = np.random.default_rng(7), sample.n
    table = np.hstack([rng.random((n, 5)) < 0.3, np.ones((n, 1)), rng.normal(size=(n, 2)) + 1e5])
    table[0, 5] = 0.0
    sample = replace(sample, X=sp.csc_array(table[:, [6, 0, 1, 2, 5, 3, 7, 4]]))
    view, _ = view_at(model, sample, np.array([3e-6, 0.2, -0.1, 0.0, 0.1, 0.3, 0.0, -0.2]))
    some = np.array([7, 0, 4, 2, 1])  # in any order
    for columns in (None, some):
        (found, size), (expected, before) = (
            view.information(columns),
            View.information(view, columns),
        )
        unit = np.sqrt(np.maximum(before, 1e-300))
        np.testing.assert_allclose(
            found / np.outer(unit, unit), expected / np.outer(unit, unit), atol=1e-9
        )
        np.testing.assert_allclose(size, before, rtol=1e-9)


@pytest.mark.parametrize("name", [*MODELS, *WITHOUT_ENTRIES])
def test_products_of_scores_by_entries_are_those_of_dense_columns(name, monkeypatch):
    """Of rows and of clusters, where neither two blocks nor a run hold all."""
    monkeypatch.setattr(entry_scores, "MOST_IN_RUN", 24)
    model, sample, _ = drawn(name, 8)
    rng, n = np.random.default_rng(8), sample.n
    table = np.hstack([rng.random((n, 7)) < 0.3, rng.normal(size=(n, 2)) + 100.0])
    table[:, 6] = np.arange(n) != 2  # left to dense columns
    sample = replace(sample, X=sp.csc_array(table[:, [7, 0, 1, 2, 5, 3, 8, 4, 6]]))
    view, _ = view_at(model, sample, np.array([3e-3, 0.2, -0.1, 0.0, 0.1, 0.3, 0.0, -0.2, 0.2]))
    monkeypatch.setattr(information_rows, "MOST_NUMBERS", 12 * view.rows.plan.n_rows)
    monkeypatch.setattr(views, "MOST_LINES", 10.0)
    for cluster in (None, rng.integers(0, n // 3, n), rng.integers(0, 3, n)):
        found, expected = view.meat(cluster), View.meat(view, cluster)
        unit = np.sqrt(np.diagonal(expected))
        np.testing.assert_allclose(
            found / np.outer(unit, unit), expected / np.outer(unit, unit), atol=1e-10
        )


@pytest.mark.parametrize("spread", [0.5, 4.0])
def test_information_of_large_sets(spread, check_close):
    """Against differences of the reference's scores; the sums run within a band here."""
    rng, sizes = np.random.default_rng(12), [700, 300]
    group = np.repeat([0, 1], sizes)
    y = {"case": (rng.random(1_000) < np.where(group, 0.1, 0.4)).astype(float), "group": group}
    sample = Sample(rng.normal(size=(1_000, 3)) + 5.0, y, offset=spread * rng.normal(size=1_000))
    model, coef = MODELS["conditional_logistic"], np.zeros(3)
    view, _ = view_at(model, sample, coef)
    step = 1e-4 * np.eye(3)
    change = [
        model.reference_at(sample, coef - d).u - model.reference_at(sample, coef + d).u
        for d in step
    ]
    check_close(view.information()[0], np.array(change) @ sample.X / 2e-4, "finite difference")


@pytest.mark.parametrize(
    "name",
    [  # scores of rows that are carried have a kernel of their own
        pytest.param(name, marks=[pytest.mark.slow] if name.startswith("fine_gray") else [])
        for name in MODELS
    ],
)
def test_scores_sum_to_the_gradient(name, check_close):
    model, sample, coef = drawn(name, 3)
    view, _ = view_at(model, sample, coef)
    scores = view.rows.per_row(view.scores(view.centred(np.arange(5))))
    expected = dense(sample.X).T @ model.reference_at(sample, coef).u
    check_close(scores.sum(axis=0), expected, "u")
    if sample.weights is not None:
        assert not scores[sample.weights == 0].any()


@pytest.mark.slow  # a kernel of its own
@pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("fine_gray")])
@pytest.mark.parametrize("seed", [4, 5])
def test_fine_gray_scores_know_the_censoring(name, seed, check_close):
    model, sample, coef = drawn(name, seed)
    view, _ = view_at(model, sample, coef)
    scores = view.rows.per_row(view.scores(view.centred(np.arange(5))))
    y = sample.y
    curve = y["strata"] if y["curve"] is None else y["curve"]
    given = y["time"], y["status"], y["strata"], sample.weights, curve
    ties = "events_first" if model.plan(y).carrying.events_first else "together"
    expected = fine_gray_scores(dense(sample.X), sample.eta(coef), *given, ties)
    check_close(scores, expected, "u")


def test_scores_are_the_change_of_the_gradient_with_a_weight():
    """Weights move the censoring curves, too; up to terms of the size of 1 / rows at risk."""
    rng, n = np.random.default_rng(11), 600
    table, group = rng.normal(size=(n, 2)), np.arange(n) % 3
    latent = rng.exponential(size=(3, n)) / np.exp(
        [table[:, 0], -table[:, 1], 0.3 * group + 0.5 * table[:, 1]]
    )
    y = competing_risks((1 + latent.argmin(axis=0)) % 3, latent.min(axis=0))
    model = FineGrayCCD(alpha=0, tol=1e-10).fit(table, y, censoring_groups=group)

    def gradient(weight):
        rows = assemble(model, build_design(table), y, weight, None, given)
        session = Session(rows.problem, rows.batch.weight[:, 0], None, Threads(1))
        session.start(model.coef_)
        return session.gradient(np.arange(2))

    given = {"censoring_groups": group}
    rows = np.argsort(y["time"])[: n // 2 : 5]  # later ones have fewer rows at risk
    step = 1e-5 * np.eye(n)[rows]
    expected = np.array([gradient(1 + d) - gradient(1 - d) for d in step]) / 2e-5
    view = view_of(open_rows(model, table, y, given))
    found = view.rows.per_row(view.scores(view.centred(np.arange(2))))[rows]
    ignoring = view.rows.per_row(view.unit_scores(view.centred(np.arange(2))))[rows]
    assert np.abs(found - expected).max() < 0.02 * np.abs(ignoring - expected).max()


@pytest.mark.thorough(but=r"efron|curves|conditional_logistic|poisson, o")
@pytest.mark.parametrize("name", MODELS)
def test_blocks_of_columns_change_nothing(name, monkeypatch, check_close):
    model, sample, coef = drawn(name, 6)
    cluster = np.arange(sample.n) % 7
    view, _ = view_at(model, sample, coef)
    expected = *view.information(), view.meat(cluster), view.meat(None)
    monkeypatch.setattr(information_rows, "MOST_NUMBERS", 2 * sample.n)
    monkeypatch.setattr(type(view), "widest", 2)
    found = *view.information(), view.meat(cluster), view.meat(None)
    assert len(view.rows.blocks(sample.n, view.widest)) > 1
    for one, other in zip(found, expected, strict=True):
        check_close(one, other, "curvature")


@pytest.mark.parametrize("name", FACES)
def test_result_has_what_all_results_have(name):
    face = FACES[name]
    names = [f"column {j}" for j in range(P)]
    table = pd.DataFrame(X.toarray(), columns=names)
    model = face.fit(table, alpha=0.0, names=[*face.rows])
    result = wald(model, table, face.y, level=0.9, **face.rows)
    assert result.intervals.columns.tolist() == ["coef", "lower", "upper"]
    assert result.intervals.index.name == "feature"
    assert result.intervals.index.tolist() == names
    assert result.level == 0.9 and not result.robust
    np.testing.assert_array_equal(result.coef, model.coef_)
    summary = result.summary()
    assert (face.ratio is not None) == (f"{face.ratio}_lower" in summary)
    if face.ratio is not None:
        np.testing.assert_allclose(summary[f"{face.ratio}_upper"], np.exp(summary["upper"]))
    wider = wald(model, table, face.y, level=0.99, **face.rows).intervals
    assert (wider["lower"] < summary["lower"]).all()
    at_bound = wald(
        model, table, face.y, level=1 - summary["p_value"].iloc[0], **face.rows
    ).intervals
    bound = at_bound[["lower", "upper"]].abs().min(axis=1).iloc[0]
    assert bound < 1e-9  # an interval of level 1 - p ends at zero


@pytest.mark.thorough(but=r"csc|-cox\]")
@pytest.mark.parametrize("name", FACES)
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, pd.DataFrame])
def test_form_of_the_table_does_not_matter(name, form):
    face = FACES[name]
    model = face.fit(X.toarray(), alpha=0.0)
    found, expected = (
        wald(model, table, face.y, robust=True, **face.arguments()).covariance
        for table in (form(X.toarray()), X.toarray())
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_weight_of_two_is_the_row_twice():
    """By cluster, where the two copies are one."""
    rng, face = np.random.default_rng(7), FACES["fine-gray"]
    weight = rng.integers(0, 4, len(SUBJECT))
    copies = np.repeat(np.arange(len(weight)), weight)
    for cls, y in ((CoxLassoCCD, FACES["cox"].y), (FineGrayCCD, face.y)):
        weighted = cls(alpha=0, tol=1e-10).fit(X, y, sample_weight=weight)
        repeated = cls(alpha=0, tol=1e-10).fit(X[copies], y[copies])
        for robust in ({}, {"cluster": np.arange(len(weight))}):
            one = wald(weighted, X, y, sample_weight=weight, **robust)
            of_copies = {name: labels[copies] for name, labels in robust.items()}
            other = wald(repeated, X[copies], y[copies], **of_copies)
            np.testing.assert_allclose(one.covariance, other.covariance, rtol=1e-6, atol=1e-9)


def test_robust_scores_of_weights_are_weighted():
    """A row alone in its cluster adds the square of its weight."""
    weight = np.where(np.arange(len(SUBJECT)) == 3, 2.0, 1.0)
    face = FACES["cox"]
    model = face.make(alpha=0.0).fit(X, face.y, sample_weight=weight)
    result = wald(model, X, face.y, robust=True, sample_weight=weight)
    bread = wald(model, X, face.y, sample_weight=weight).covariance
    change = residuals(model, X, face.y, "score", sample_weight=weight) * weight[:, None] @ bread
    np.testing.assert_allclose(result.covariance, change.T @ change, rtol=1e-9)


def test_coefficients_that_change_over_time_are_those_of_split_rows():
    face, cuts = FACES["cox"], [10.0, 30.0]
    y, table = face.y, X.toarray()[:, 5:]
    model = face.make(alpha=0.0, time_varying={1: cuts}).fit(table, y)
    row, piece, since, until, event = split_rows(y["time"], y["event"], cuts)
    since = np.maximum(since, 0.0)
    inside = (piece[:, None] == np.arange(3)) * table[row, 1:2]
    split = np.column_stack([table[row, :1], inside, table[row, 2:]])
    of_split = surv(event, until, start=since, subject=row)
    other = face.make(alpha=0.0).fit(split, of_split)
    np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-7)
    for robust in (False, True):
        found = wald(model, table, y, robust=robust)
        expected = wald(other, split, of_split, robust=robust)
        np.testing.assert_allclose(found.covariance, expected.covariance, rtol=1e-6, atol=1e-8)
    assert found.feature_names[1:4].tolist() == ["x1 (0, 10]", "x1 (10, 30]", "x1 (30, inf)"]
    for kind in ("martingale", "deviance"):
        whole = residuals(model, table, y, kind)
        assert whole.shape == (len(y),)
    parts = residuals(other, split, of_split)
    np.testing.assert_allclose(
        residuals(model, table, y), np.bincount(row, parts), rtol=1e-5, atol=1e-7
    )


def test_sets_and_subjects_are_clusters_unless_told_otherwise():
    for name in ("case series", "conditional logistic"):
        face = FACES[name]
        model = face.fit(alpha=0.0)
        found = wald(model, X, face.y, robust=True, **face.arguments()).covariance
        by_group = wald(model, X, face.y, cluster=SUBJECT, **face.arguments()).covariance
        np.testing.assert_array_equal(found, by_group)
    model = face.fit(alpha=0.0, ties="efron")
    found = wald(model, X, face.y, robust=True, **face.arguments()).covariance
    by_set = wald(model, X, face.y, cluster=SUBJECT, **face.arguments()).covariance
    np.testing.assert_array_equal(found, by_set)
    assert face.groups is not None


@pytest.mark.thorough(but=r"False-8|True-0")
@pytest.mark.parametrize(("place", "left_out"), [(0, "c1"), (1, "c1"), (8, "sum")])
@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("name", FACES)
def test_the_later_of_collinear_columns_is_left_out(name, robust, place, left_out):
    """All is as if the fit had been without it: coefficients, errors, and joint tests."""
    face = FACES[name]
    table = pd.DataFrame(X.toarray()[:, 4:]).add_prefix("c")
    wide = table.assign(constant=0.1)  # whose squared scores are no zeros, but rounding
    wide.insert(place, "sum", table["c0"] + table["c1"])
    less = wide.drop(columns=[left_out, "constant"])
    options = {**face.rows, "robust": robust, "tests": True}
    if hasattr(face.make(), "fit_intercept"):
        options["intercept"] = True
    few = face.make(alpha=0.0, tol=1e-12).fit(less, face.y, **face.rows)
    expected = wald(few, less, face.y, **options)
    many = face.make(alpha=0.0, tol=1e-12).fit(wide, face.y, **face.rows)
    with pytest.warns(UserWarning, match=f"coefficients of `{left_out}`, `constant`: ") as caught:
        found = wald(many, wide, face.y, **options)
    assert len(caught) == 1 and caught[0].filename == __file__
    kept = ~np.isnan(found.coef)
    assert found.feature_names[~kept].tolist() == [left_out, "constant"]
    np.testing.assert_allclose(found.coef[kept], expected.coef, atol=1e-8)
    covariance = found.covariance[np.ix_(kept, kept)]
    scale = np.abs(expected.covariance).max()
    np.testing.assert_allclose(covariance, expected.covariance, rtol=1e-8, atol=1e-10 * scale)
    np.testing.assert_allclose(found.summary().dropna(), expected.summary(), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.tests, expected.tests, rtol=1e-8)
    assert found.test().statistic == pytest.approx(expected.test().statistic, rel=1e-8)
    assert found.test().df == 8
    with pytest.raises(ValueError, match=f"do not determine the coefficient of '{left_out}'"):
        found.test(["c3", left_out])


def test_infinite_coefficients_are_not_what_is_left_out():
    """Of a full set of indicators, the last that is finite is what others are compared with."""
    level = np.arange(200) % 5
    event = (np.arange(200) % 3 > 0) & (level != 4)
    table = pd.get_dummies(pd.Series(level), prefix="level", dtype=float)
    y = surv(event, np.random.default_rng(0).exponential(size=200))
    with pytest.warns(ConvergenceWarning):
        many = CoxLassoCCD(alpha=0.0).fit(table, y)
    one, other = r"coefficients of `level_3`: constant", r"coefficients of `level_4` are infinite"
    with pytest.warns(UserWarning, match=one), pytest.warns(UserWarning, match=other):
        found = wald(many, table, y)
    assert np.isnan(found.coef).tolist() == [False, False, False, True, False]
    rest = table.loc[level < 4, ["level_0", "level_1", "level_2"]]
    limit = wald(CoxLassoCCD(alpha=0.0).fit(rest, y[level < 4]), rest, y[level < 4])
    np.testing.assert_allclose(found.coef[:3], limit.coef, rtol=1e-3)
    np.testing.assert_allclose(found.standard_errors[:3], limit.standard_errors, rtol=1e-3)
    assert np.isnan(found.standard_errors[3:]).all()


@pytest.mark.parametrize("name", ["cox", "logistic"])
def test_changes_of_coefficients_without_collinear_columns(name):
    face = FACES[name]
    table = X.toarray()[:, 4:8]
    wide = np.column_stack([table, table[:, 0] - table[:, 1]])
    few, many = (face.make(alpha=0.0).fit(x, face.y) for x in (table, wide))
    for kind in ("dfbeta", "scaled_schoenfeld")[: 1 + (name == "cox")]:
        with pytest.warns(UserWarning, match="do not determine the coefficients of `x4`"):
            found = residuals(many, wide, face.y, kind)
        np.testing.assert_allclose(found[:, :4], residuals(few, table, face.y, kind), atol=1e-7)
        assert np.isnan(found[:, 4]).all()


@pytest.mark.parametrize("value", [0.1, 0.3, 1e9 / 7])
def test_constants_are_found_whatever_their_mean_rounds_to(value):
    face = FACES["cox"]
    table = np.column_stack([X.toarray()[:, :2], np.full(len(SUBJECT), value)])
    model = face.make(alpha=0.0).fit(table, face.y)
    with pytest.warns(UserWarning, match="`x2`"):
        found = wald(model, table, face.y)
    assert np.isnan(found.standard_errors).tolist() == [False, False, True]


def test_inverse_of_an_information():
    """The second column has only rounding, the fourth repeats the third, the fifth is alone."""
    information = np.diag([4.0, 1e-15, 1.0, 1.0, 1e-8])
    information[2, 3] = information[3, 2] = 1.0
    inverse = invert(information, np.array([5.0, 1.0, 1.0, 1.0, 1e-8]))
    assert inverse.identified.tolist() == [True, False, False, False, True]
    assert inverse.rank == 3
    np.testing.assert_allclose(np.diagonal(inverse.covariance)[[0, 4]], [0.25, 1e8])
    assert np.isnan(inverse.covariance[1:4]).all()
    np.testing.assert_allclose(inverse.matrix @ information @ inverse.matrix, inverse.matrix)


def test_column_that_is_constant_within_strata():
    face = FACES["cox"]
    strata = np.arange(len(SUBJECT)) % 3
    table = np.column_stack([X.toarray()[:, :2], 1e6 * strata])
    model = face.make(alpha=0.0).fit(table, face.y, strata=strata)
    with pytest.warns(UserWarning, match="`x2`"):
        found = wald(model, table, face.y, strata=strata)
    assert np.isnan(found.standard_errors).tolist() == [False, False, True]
    with pytest.warns(UserWarning, match="`x2`"):
        test = proportional_hazards_test(model, table, face.y, strata=strata)
    without = face.make(alpha=0.0).fit(table[:, :2], face.y, strata=strata)
    expected = proportional_hazards_test(without, table[:, :2], face.y, strata=strata)
    np.testing.assert_allclose(test.table.drop(index="x2"), expected.table, rtol=1e-6)
    assert np.isnan(test.table.loc["x2", "chisq"])


@pytest.mark.parametrize("name", ["cox", "fine-gray"])
@pytest.mark.parametrize("alpha", [0.0, 0.01])
def test_residuals_sum_to_what_they_must(name, alpha):
    face = FACES[name]
    model = face.fit(alpha=alpha, names=[*face.rows])
    weight = face.rows["sample_weight"]
    found = {
        kind: residuals(model, X, face.y, kind, **face.rows)
        for kind in ("martingale", "deviance", "score", "schoenfeld")
    }
    absent = weight == 0
    for kind in ("martingale", "deviance", "score"):
        assert np.isnan(found[kind][absent]).all()
        assert not np.isnan(found[kind][~absent]).any()
    assert abs(np.nansum(weight * found["martingale"])) < 1e-9
    np.testing.assert_array_equal(np.sign(found["deviance"]), np.sign(found["martingale"]))
    event = face.y["event"] == 1
    gradient = np.nansum(weight[:, None] * found["score"], axis=0)
    order = np.lexsort((face.y["time"], face.rows["strata"]))
    order = order[event[order] & (weight[order] > 0)]
    np.testing.assert_allclose(weight[order] @ found["schoenfeld"], gradient, atol=1e-8)
    bound = alpha * weight.sum() + 1e-6
    assert np.abs(gradient).max() <= bound
    if alpha > 0:
        assert np.abs(gradient).max() > 0.9 * bound


def test_dfbeta_is_the_change_without_the_row():
    face, row = FACES["cox"], 17
    model = face.make(alpha=0.0).fit(X, face.y)
    change = residuals(model, X, face.y, "dfbeta")
    keep = np.arange(len(face.y)) != row
    without = face.make(alpha=0.0).fit(X[keep], face.y[keep])
    expected = model.coef_ - without.coef_
    np.testing.assert_allclose(change[row], expected, atol=0.15 * np.abs(expected).max())


@pytest.mark.parametrize("name", FACES)
def test_likelihood_ratio(name):
    face = FACES[name]
    full = face.fit(alpha=0.0, names=[*face.rows])
    restricted = face.make(alpha=0.0).fit(X[:, :-2], face.y, **face.rows)
    result = likelihood_ratio_test(restricted, full)
    gain = 2 * (full.log_likelihood_ - restricted.log_likelihood_)
    if name == "linear":
        n = np.count_nonzero(face.rows["sample_weight"])
        gain = n * np.log(restricted.log_likelihood_ / full.log_likelihood_)
    assert result.df == 2
    np.testing.assert_allclose(result.statistic, gain)
    np.testing.assert_allclose(result.p_value, np.exp(-gain / 2))  # two degrees of freedom
    assert repr(result).startswith("<Likelihood-ratio test: chi2(2) = ")


def test_likelihood_ratio_of_a_changing_coefficient():
    face = FACES["cox"]
    restricted = face.make(alpha=0.0).fit(X, face.y)
    full = face.make(alpha=0.0, time_varying={3: [20.0]}).fit(X, face.y)
    assert likelihood_ratio_test(restricted, full).df == 1


def test_cut_points_of_nested_fits():
    def fitted(columns, **time_varying):
        table = pd.DataFrame(X.toarray()).add_prefix("c").iloc[:, columns]
        return COX.make(alpha=0.0, time_varying=time_varying or None).fit(table, COX.y)

    with pytest.raises(ValueError, match=r"'c3' that changes at \[20.0\] .* give the full model"):
        likelihood_ratio_test(fitted([3, 4], c3=[20.0]), fitted([3, 4, 5, 6], c3=[10.0, 30.0]))
    with pytest.raises(ValueError, match="the models are not nested"):
        likelihood_ratio_test(fitted([3], c3=[20.0]), fitted([3, 4, 5]))
    finer = likelihood_ratio_test(fitted([3, 4], c3=[20.0]), fitted([4, 3], c3=[10.0, 20.0]))
    assert finer.df == 1

    def nameless(width, cuts):
        return COX.make(alpha=0.0, time_varying=cuts).fit(X[:, :width], COX.y)

    with pytest.raises(ValueError, match="'x0' that changes at"):
        likelihood_ratio_test(nameless(3, {0: [20.0]}), nameless(3, {0: [10.0], 1: [20.0]}))
    with pytest.raises(ValueError, match="the models are not nested"):
        likelihood_ratio_test(nameless(3, {0: [20.0]}), nameless(4, {0: [10.0]}))
    assert likelihood_ratio_test(nameless(3, {0: [20.0]}), nameless(4, {0: [20.0]})).df == 1


@pytest.mark.parametrize("name", FACES)
def test_constant_columns_are_no_degrees_of_freedom(name):
    face = FACES[name]
    constant = np.full((len(SUBJECT), 1), 1.0)
    table = np.hstack([X.toarray()[:, 8:10], constant])
    null, full = (face.make(alpha=0.0).fit(x, face.y, **face.rows) for x in (constant, table))
    without = face.make(alpha=0.0).fit(table[:, :2], face.y, **face.rows)
    result, expected = likelihood_ratio_test(null, full), likelihood_ratio_test(null, without)
    assert result.df == expected.df == 2
    np.testing.assert_allclose(result.p_value, expected.p_value, rtol=1e-6)


@pytest.mark.parametrize("name", FACES)
def test_fits_of_different_data_are_not_compared(name):
    face = FACES[name]
    full = loads(dumps(face.fit(alpha=0.0, names=[*face.rows])))
    same = face.make(alpha=0.0).fit(X[:, :3], face.y, **face.rows)
    assert likelihood_ratio_test(same, full).df == P - 3
    for row in face.rows:
        moved = {**face.rows, row: np.roll(face.rows[row], 1)}
        try:
            other = face.make(alpha=0.0).fit(X[:, :3], face.y, **moved)
        except ValueError:  # weights that differ within a subject
            continue
        with pytest.raises(ValueError, match="different data"):
            likelihood_ratio_test(other, full)


def test_other_outcomes_are_not_compared(cox):
    later = surv(COX.y["event"], COX.y["time"] + 1.0 * (COX.y["time"] > 30))
    with pytest.raises(ValueError, match="different data: outcomes, strata, weights"):
        likelihood_ratio_test(COX.make(alpha=0.0).fit(X[:, :3], later), cox)
    plain = {"sample_weight": np.ones(len(SUBJECT)), "offset": np.zeros(len(SUBJECT))}
    same = COX.make(alpha=0.0).fit(X[:, :3], COX.y, strata=["all"] * len(SUBJECT), **plain)
    assert likelihood_ratio_test(same, cox).df == P - 3


SPLINE = SplineTransformer(4, degree=2).fit_transform(np.sort(TIME)[:, None])


@pytest.mark.thorough(but=r"\[(cox|poisson|conditional logistic)\]")
@pytest.mark.parametrize("name", FACES)
def test_a_line_is_nested_in_a_spline(name):
    """As in the same spline with the line among its columns, in place of one of them."""
    face, line = FACES[name], pd.DataFrame({"dose": np.sort(TIME), "sex": X.toarray()[:, 0]})
    curve = pd.DataFrame(SPLINE).add_prefix("basis").assign(sex=line["sex"])
    models = [face.make(alpha=0.0).fit(x, face.y, **face.rows) for x in (line, curve)]
    found = likelihood_ratio_test(*models, X=(line, curve), y=face.y, **face.rows)
    assert found.df == 3  # of five columns, which sum to 1, less the line
    other = line.assign(b1=SPLINE[:, 1], b2=SPLINE[:, 2], b3=SPLINE[:, 3])
    by_name = likelihood_ratio_test(models[0], face.make(alpha=0.0).fit(other, face.y, **face.rows))
    assert by_name.df == 3
    assert found.statistic == pytest.approx(by_name.statistic, rel=1e-5)
    with pytest.raises(ValueError, match=r"'dose' that `full` does not have: by their names .* X="):
        likelihood_ratio_test(*models)
    kink = line.assign(dose=np.abs(line["dose"] - 25.0))
    kinked = face.make(alpha=0.0).fit(kink, face.y, **face.rows)
    with pytest.raises(ValueError, match="'dose' that is no sum of the columns of `full`: the mod"):
        likelihood_ratio_test(kinked, models[1], X=(kink, curve), y=face.y, **face.rows)
    with pytest.raises(ValueError, match="pass the model with fewer coefficients first"):
        likelihood_ratio_test(*models[::-1], X=(curve, line), y=face.y, **face.rows)
    with pytest.raises(ValueError, match="are not the rows of the fit"):
        likelihood_ratio_test(*models, X=(line[::-1], curve), y=face.y, **face.rows)


@pytest.mark.parametrize("name", FACES)
def test_collinear_columns_are_no_degrees_of_freedom(name):
    face, table = FACES[name], X.toarray()[:, :4]
    wide = np.column_stack([table, table[:, 0] + table[:, 1], table[:, 2]])
    null, few, many = (
        face.make(alpha=0.0).fit(x, face.y, **face.rows) for x in (table[:, :1], table, wide)
    )
    expected = likelihood_ratio_test(null, few)
    given = {"X": (table[:, :1], wide), "y": face.y, **face.rows}
    for options in ({}, given)[name == "linear" :]:  # whose fit does not look for them
        found = likelihood_ratio_test(null, many, **options)
        assert found.df == expected.df == 3
        assert found.p_value == pytest.approx(expected.p_value, rel=1e-4)
    with pytest.raises(ValueError, match="`restricted` has 4 coefficients and `full` 4, constant"):
        likelihood_ratio_test(few, many, X=(table, wide), y=face.y, **face.rows)


@pytest.mark.parametrize("name", ["logistic", "poisson", "linear"])
def test_a_constant_in_place_of_an_intercept_is_a_degree_of_freedom(name):
    face, table = FACES[name], X.toarray()[:, 8:9]
    wide = np.column_stack([table, np.ones(len(table)), np.zeros(len(table))])
    few, many = (
        face.make(alpha=0.0, fit_intercept=False).fit(x, face.y, **face.rows) for x in (table, wide)
    )
    assert likelihood_ratio_test(few, many).df == 1
    assert likelihood_ratio_test(few, many, X=(table, wide), y=face.y, **face.rows).df == 1


def test_splines_that_change_with_time():
    line, curve = np.sort(TIME)[:, None], SPLINE
    null = COX.make(alpha=0.0).fit(line, COX.y)
    every = {j: [20.0] for j in range(5)}
    changing = COX.make(alpha=0.0, time_varying={0: [20.0]}).fit(line, COX.y)
    fixed = COX.make(alpha=0.0).fit(curve, COX.y)
    with pytest.warns(ConvergenceWarning, match="infinite"):  # which count, too
        full = COX.make(alpha=0.0, time_varying=every).fit(curve, COX.y)
    assert likelihood_ratio_test(null, full, X=(line, curve), y=COX.y).df == 2 * 4 - 1
    assert likelihood_ratio_test(changing, full, X=(line, curve), y=COX.y).df == 2 * 4 - 2
    with pytest.raises(ValueError, match=r"column 'x0 \(0, 20\]' that is no sum of the columns"):
        likelihood_ratio_test(changing, fixed, X=(line, curve), y=COX.y)


def test_what_a_comparison_of_columns_refuses(cox):
    small = COX.make(alpha=0.0).fit(X[:, :4], COX.y)
    with pytest.raises(TypeError, match="`X` is of type csr_array; pass a pair, the columns of"):
        likelihood_ratio_test(small, cox, X=X, y=COX.y)
    with pytest.raises(TypeError, match="`y` was passed without `X`"):
        likelihood_ratio_test(small, cox, y=COX.y)
    with pytest.raises(TypeError, match="`strata` was passed without `X`"):
        likelihood_ratio_test(small, cox, strata=SUBJECT)
    with pytest.raises(ValueError, match="the target y is None"):
        likelihood_ratio_test(small, cox, X=(X[:, :4], X))
    far = from_lists({"X": [X], "y": [COX.y]})
    with pytest.raises(ValueError, match=r"compared in memory.* leave `X` out"):
        likelihood_ratio_test(small, cox, X=(far["X"], far["X"]), y=far["y"])


def test_columns_of_the_test_of_proportional_hazards():
    face = FACES["cox"]
    table = pd.DataFrame(X.toarray()).add_prefix("c")
    model = face.make(alpha=0.0).fit(table, face.y)
    every = proportional_hazards_test(model, table, face.y, transform="log")
    some = proportional_hazards_test(model, table, face.y, ["c4", 1], transform=np.log)
    assert some.table.index.tolist() == ["c4", "c1", "GLOBAL"]
    np.testing.assert_allclose(some.table.iloc[:2], every.table.loc[["c4", "c1"]])
    assert some.table.loc["GLOBAL", "df"] == 2
    assert some.transform == "log"
    np.testing.assert_array_equal(some.residuals, every.residuals[:, [4, 1]])
    scaled = residuals(model, table, face.y, "scaled_schoenfeld")
    np.testing.assert_array_equal(every.residuals, scaled)
    np.testing.assert_allclose(every.transformed_time, np.log(np.sort(every.time)))
    assert repr(some).startswith("<Test of proportional hazards over log: 2 columns, GLOBAL chi2")


@pytest.mark.parametrize("name", ["cox", "fine-gray"])
def test_a_collinear_column_is_not_tested(name):
    face = FACES[name]
    table = X.toarray()[:, 6:10]
    doubled = np.column_stack([table, table[:, 2] + table[:, 3]])
    model, without = (face.make(alpha=0.0).fit(x, face.y) for x in (doubled, table))
    expected = proportional_hazards_test(without, table, face.y).table
    with pytest.warns(UserWarning, match="do not determine"):
        found = proportional_hazards_test(model, doubled, face.y)
    assert found.table["chisq"].isna().tolist() == [False, False, False, False, True, False]
    np.testing.assert_allclose(found.table.drop(index="x4"), expected, rtol=1e-5)
    with pytest.warns(UserWarning, match="do not determine"):
        some = proportional_hazards_test(model, doubled, face.y, [4, 1], groups={"a": [0, 1, 4]})
    np.testing.assert_allclose(some.table.loc["a"], expected.loc["x1"], rtol=1e-5)
    assert some.row_of.to_dict() == {"x4": 0, "x1": 0}
    assert "GLOBAL chi2(4) = " in repr(found)


def test_single_column_and_a_column_named_global():
    table = pd.DataFrame(X.toarray()[:, 8:10], columns=["GLOBAL", "b"])
    model = COX.make(alpha=0.0).fit(table, COX.y)
    for column in ("b", 1, np.int64(1)):
        found = proportional_hazards_test(model, table, COX.y, columns=column)
        assert found.table.index.tolist() == ["b", "GLOBAL"]
        assert ": 1 column, GLOBAL" in repr(found)
    every = proportional_hazards_test(model, table, COX.y)
    assert f"chi2(2) = {every.table['chisq'].iloc[-1]:.4g}" in repr(every)


def test_incidence_before_an_event():
    """By hand: four rows at risk, then three, then two."""
    y = competing_risks([2, 1, 1, 0], [1.0, 2.0, 3.0, 4.0])
    table = np.array([[0.0], [1.0], [0.0], [1.0]])
    model = FineGrayCCD(alpha=0).fit(table, y)
    found = proportional_hazards_test(model, table, y)
    np.testing.assert_allclose(found.transformed_time, [0.0, 0.75 / 3])
    assert proportional_hazards_test(model, table, y, transform="rank").transformed_time[1] == 3


def test_test_of_proportional_hazards_sees_a_change():
    rng = np.random.default_rng(8)
    table = rng.normal(size=(2_000, 2))
    early = rng.exponential(size=2_000) * np.exp(-table[:, 0])
    late = 1.0 + rng.exponential(size=2_000) * np.exp(table[:, 0])
    time = np.where(early < 1.0, early, late)
    model = CoxLassoCCD(alpha=0).fit(table, surv(np.ones(2_000, bool), time))
    p = proportional_hazards_test(model, table, surv(np.ones(2_000, bool), time)).table["p_value"]
    assert p["x0"] < 1e-20
    assert p["x1"] > 1e-4


COX = FACES["cox"]


@pytest.fixture(scope="module")
def cox():
    return COX.make(alpha=0.0).fit(X, COX.y)


@pytest.fixture(scope="module")
def lasso():
    return COX.make().fit(X, COX.y)


def test_other_rows_are_refused(cox):
    with pytest.raises(ValueError, match=r"not the rows of the fit: the log-likelihood at `coef_`"):
        wald(cox, X[1:], COX.y[1:])
    with pytest.raises(ValueError, match="not the rows of the fit"):
        residuals(cox, X, COX.y, sample_weight=COX.rows["sample_weight"])
    with pytest.raises(ValueError, match="not the rows of the fit"):
        proportional_hazards_test(cox, X, COX.y, strata=COX.rows["strata"])


def test_other_objects_are_refused(cox):
    with pytest.raises(TypeError, match="`estimator` is of type str; pass a fitted estimator"):
        wald("cox", X, COX.y)
    with pytest.raises(TypeError, match="`stratum` is no argument of CoxLassoCCD"):
        wald(cox, X, COX.y, stratum=COX.rows["strata"])
    logistic = FACES["logistic"].fit(alpha=0.0)
    with pytest.raises(ValueError, match=r"must be one of 'deviance', .* for a LogisticCCD"):
        residuals(logistic, X, FACES["logistic"].y, "martingale")
    with pytest.raises(TypeError, match="which has no test of proportional hazards"):
        proportional_hazards_test(logistic, X, FACES["logistic"].y)


def test_penalized_fits_are_refused(lasso):
    for function in (wald, proportional_hazards_test):
        with pytest.raises(ValueError, match=r"alpha=0.02, which penalizes `x0`, .* and 7 more"):
            function(lasso, X, COX.y)
    with pytest.raises(ValueError, match="`bootstrap` or `profile_likelihood` instead"):
        wald(lasso, X, COX.y)
    with pytest.raises(ValueError, match='kind="dfbeta" is for fits without a penalty'):
        residuals(lasso, X, COX.y, "dfbeta")
    changed = deepcopy(lasso).set_params(alpha=0)
    for function in (wald, proportional_hazards_test):
        with pytest.raises(ValueError, match=r"alpha=0.02, which penalizes `x0`"):
            function(changed, X, COX.y)
    chosen = CoxLassoCV(cv=3, n_alphas=5, random_state=0).fit(X, COX.y)
    with pytest.raises(ValueError, match=f"alpha={chosen.alpha_:g}, which penalizes"):
        wald(chosen, X, COX.y)
    path = fit_path(COX.make(), X, COX.y, alphas=[0.01, 0.0])
    with pytest.raises(ValueError, match=r"alpha=0\.01, which penalizes"):
        wald(path.at(0).set_params(alpha=0), X, COX.y)
    assert wald(path.at(1), X, COX.y).standard_errors.shape == (P,)
    unpenalized = COX.make(alpha=0.0).fit(X, COX.y).set_params(alpha=1.0)
    assert wald(unpenalized, X, COX.y).standard_errors.shape == (P,)
    free = COX.make(penalty_factor=dict.fromkeys(range(P), 0)).fit(X, COX.y)
    assert wald(free, X, COX.y).standard_errors.shape == (P,)


@pytest.mark.parametrize("level", [0, 1, 95, "0.95", True, np.nan])
def test_bad_level(cox, level):
    with pytest.raises(ValueError, match=r"`level` is .*, must lie between 0 and 1"):
        wald(cox, X, COX.y, level=level)


@pytest.mark.parametrize("robust", ["no", None, 1])
def test_bad_robust(cox, robust):
    with pytest.raises(TypeError, match=f"`robust` is {robust!r}, must be True or False"):
        wald(cox, X, COX.y, robust=robust)


def test_robust_linear_models_are_normal():
    face = FACES["linear"]
    result = wald(face.fit(alpha=0.0), X, face.y, robust=np.True_)
    assert "z" in result.summary() and "t" not in result.summary()
    assert (
        repr(result).splitlines()[0] == f"<WaldResult of {P} coefficients, 95% intervals, robust>"
    )


def test_bad_clusters(cox):
    with pytest.raises(ValueError, match="`cluster` has"):
        wald(cox, X, COX.y, cluster=SUBJECT[1:])
    with pytest.raises(ValueError, match=r"`cluster` has one label \(0\) for all 240 rows"):
        wald(cox, X, COX.y, cluster=np.zeros(len(SUBJECT), int))
    face = FACES["conditional logistic"]
    model = face.fit(alpha=0.0)
    with pytest.raises(ValueError, match=r"divides the matched set \d+ \(row \d+\), but the exact"):
        wald(model, X, face.y, cluster=np.arange(len(SUBJECT)), **face.arguments())
    with pytest.raises(ValueError, match=r'no terms for parts of a set\. .* ties="efron" or'):
        residuals(model, X, face.y, "dfbeta", **face.arguments())


def test_bad_kinds_of_residuals(cox):
    with pytest.raises(ValueError, match="`kind` is 'pearson', must be one of 'martingale'"):
        residuals(cox, X, COX.y, "pearson")
    with pytest.raises(TypeError, match=r"`kind` is \['score'\]; pass one string, such as"):
        residuals(cox, X, COX.y, kind=["score"])
    with pytest.raises(
        ValueError, match=r"for a CoxLassoCCD\. What R calls 'scaledsch' is 'scaled"
    ):
        residuals(cox, X, COX.y, "scaledsch")
    with pytest.raises(ValueError, match="What R calls 'dfbetas' is 'dfbeta' divided by"):
        residuals(cox, X, COX.y, "dfbetas")
    changing = COX.make(alpha=0.0, time_varying={0: [20.0]}).fit(X, COX.y)
    with pytest.raises(ValueError, match='kind="score" has no meaning for coefficients'):
        residuals(changing, X, COX.y, "score")
    with pytest.raises(ValueError, match="not meant to be proportional"):
        proportional_hazards_test(changing, X, COX.y)


def test_bad_transforms_and_columns(cox):
    def test(**params):
        return proportional_hazards_test(cox, X, COX.y, **params)

    with pytest.raises(ValueError, match="`transform` is 'sqrt', must be one of 'km', 'rank'"):
        test(transform="sqrt")
    with pytest.raises(TypeError, match="`transform` is of type int"):
        test(transform=3)
    with pytest.raises(ValueError, match="is the same at all"):
        test(transform=np.zeros_like)
    with pytest.raises(ValueError, match=r"must make of \d+ times as many finite numbers"):
        test(transform=lambda time: time[:2])
    with pytest.raises(ValueError, match="`columns` names column 12, `X` has columns 0 to 11"):
        test(columns=[12])
    with pytest.raises(ValueError, match="`columns` is empty; name one or more"):
        test(columns=[])
    with pytest.raises(ValueError, match="which names a column twice"):
        test(columns=[1, 1])


def test_logarithm_of_an_event_at_time_zero():
    time = np.where(np.arange(len(SUBJECT)) == np.argmax(COX.y["event"]), 0.0, COX.y["time"])
    y = surv(COX.y["event"], time)
    model = COX.make(alpha=0.0).fit(X, y)
    with pytest.raises(ValueError, match=r"\(log\) must make of .* with 1 others; choose another"):
        proportional_hazards_test(model, X, y, transform="log")


def test_bad_likelihood_ratios(cox, lasso):
    small = COX.make(alpha=0.0).fit(X[:, :4], COX.y)
    with pytest.raises(ValueError, match=r"`full` was fitted with alpha=0\.02"):
        likelihood_ratio_test(small, lasso)
    with pytest.raises(ValueError, match="pass the model with fewer coefficients first"):
        likelihood_ratio_test(cox, small)
    with pytest.raises(TypeError, match="`restricted` is a FineGrayCCD and `full` a CoxLassoCCD"):
        likelihood_ratio_test(FACES["fine-gray"].fit(alpha=0.0), cox)
    efron = COX.make(alpha=0.0, ties="efron").fit(X[:, :4], COX.y)
    with pytest.raises(ValueError, match="has ties='efron' and `full` ties='breslow'"):
        likelihood_ratio_test(efron, cox)
    fewer = COX.make(alpha=0.0).fit(X[1:, :4], COX.y[1:])
    with pytest.raises(ValueError, match=r"different data \(rows: 239 and 240\)"):
        likelihood_ratio_test(fewer, cox)
    other = np.random.default_rng(9).normal(size=(len(SUBJECT), 5))
    small = COX.make(alpha=0.0).fit(other[:, :1] + np.log1p(COX.y["time"])[:, None], COX.y)
    with pytest.raises(ValueError, match="the models are not nested, were fitted to different"):
        likelihood_ratio_test(small, COX.make(alpha=0.0).fit(other[:, 1:], COX.y))
    left, right = (
        COX.make(alpha=0.0).fit(pd.DataFrame(X.toarray()[:, :k]).add_prefix(prefix), COX.y)
        for k, prefix in ((3, "a"), (5, "b"))
    )
    with pytest.raises(ValueError, match="has a column 'a0' that `full` does not have"):
        likelihood_ratio_test(left, right)


def test_linear_model_without_errors():
    table = np.column_stack([np.arange(8.0), np.arange(8) % 3])
    y = np.full(8, 2.0)  # nothing to explain
    model, smaller = LinearCCD(alpha=0).fit(table, y), LinearCCD(alpha=0).fit(table[:, :1], y)
    assert model.log_likelihood_ == 0.0
    assert not wald(model, table, y).standard_errors.any()
    assert wald(model, table, y).summary()["t"].isna().all()
    assert likelihood_ratio_test(smaller, model).statistic == 0.0


def test_linear_model_needs_rows():
    rng = np.random.default_rng(10)
    table, y = rng.normal(size=(5, 4)), rng.normal(size=5)
    model = LinearCCD(alpha=0).fit(table, y)
    with pytest.raises(ValueError, match="4 coefficients and an intercept for 5 rows"):
        wald(model, table, y)
