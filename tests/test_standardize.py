"""`standardize=True`: fits are those of columns that are divided by their standard deviations."""

from __future__ import annotations

from typing import NamedTuple

import federation
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from faces import FACES, P, X
from grids import thin

from sksurvgpu import (
    MCP,
    SCAD,
    Adaptive,
    BrokenRidge,
    CoxLassoCCD,
    CoxLassoCV,
    Firth,
    Fused,
    GroupLasso,
    Hierarchical,
    LinearCCD,
    LinearCV,
    LogisticCCD,
    StepColumns,
    bootstrap,
    certificate,
    false_discovery,
    fit_path,
    information_criteria,
    posterior,
    profile_likelihood,
    stability_selection,
    wald,
)
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.design.sums import find_scales
from sksurvgpu.estimators.fitted import fitted_of
from sksurvgpu.partitions.handles import from_lists
from sksurvgpu.penalties.base import in_plain_units

DENSE = X.toarray()
UNIT = np.exp(np.random.default_rng(3).normal(size=P))  # that columns are measured in
TABLE = sp.csc_array(DENSE * UNIT)
FACTOR = np.where(np.arange(P) % 5 == 0, 0.0, 1.5)
MEAN = np.where(np.arange(P) % 3 == 0, 0.3, 0.0)
RATIO = np.array([1.0, 0.0, 0.4, 1.0] * (P // 4))
CLASSES = np.repeat(["a", "b", "c"], P // 3)
BY_COLUMN = ("bounds", "prior_mean")  # in units of coefficients
PENALTIES = {
    "lasso": {},
    "ridge": {"l1_ratio": 0.0},
    "elastic net": {"l1_ratio": RATIO, "penalty_factor": FACTOR},
    "bounds": {"bounds": (np.full(P, -0.02), np.full(P, 0.02)), "l1_ratio": 0.5, "alpha": 1e-3},
    "means": {"prior_mean": MEAN, "l1_ratio": 0.5},
    "mcp": {"penalty": "mcp", "prior_mean": MEAN, "alpha": 0.03},
    "scad": {"penalty": SCAD(), "bounds": (-0.2, np.inf), "alpha": 0.03},
    "unit": {"penalty": MCP(scale="unit"), "alpha": 0.03},
    "groups": {"penalty": GroupLasso(CLASSES, mix=0.7)},
    "classes": {"penalty": Hierarchical(CLASSES, between=0.1, within="l1")},
    "neighbours": {"penalty": Fused("chain")},
    "adaptive": {
        "penalty": Adaptive(),
        "alpha": 0.005,
        "prior_mean": MEAN,
        "bounds": (-0.05, 0.35),
    },
    "pilot": {"penalty": Adaptive(np.linspace(0.1, 1.0, P)), "alpha": 0.005},
    "broken": {"penalty": BrokenRidge(), "alpha": 0.0003},
}


def deviations(table, weight=None):
    dense = table.toarray() if sp.issparse(table) else table
    mean = np.average(dense, axis=0, weights=weight)
    return np.sqrt(np.average((dense - mean) ** 2, axis=0, weights=weight))


def on_divided(given, scale):
    """Arguments by column, for columns that are divided."""
    given = dict(given)
    if "bounds" in given:
        given["bounds"] = tuple(np.broadcast_to(b, P) * scale for b in given["bounds"])
    if "prior_mean" in given:
        given["prior_mean"] = given["prior_mean"] * scale
    if isinstance(given.get("penalty"), Adaptive) and not isinstance(given["penalty"].pilot, str):
        given["penalty"] = Adaptive(given["penalty"].pilot * scale)
    return given


def both(face, given, names=None, **more):
    """A fit that standardizes, and one of divided columns with its scales."""
    rows = face.arguments(names)
    scale = deviations(TABLE, rows.get("sample_weight"))
    model = face.make(**given, **more, standardize=True).fit(TABLE, face.y, **rows)
    divided = face.make(**on_divided(given, scale), **more)
    return model, divided.fit(TABLE.multiply(1 / scale).tocsc(), face.y, **rows), scale


@pytest.mark.parametrize(("name", "penalty"), thin(3, FACES, PENALTIES))
def test_fits_are_those_of_divided_columns(name, penalty):
    face = FACES[name]
    model, divided, scale = both(face, PENALTIES[penalty], tuple(face.rows))
    assert model.converged_
    np.testing.assert_allclose(model.coef_ * scale, divided.coef_, rtol=0, atol=1e-8)
    for name in ("alpha_max_", "objective_", "log_likelihood_", "null_log_likelihood_"):
        np.testing.assert_allclose(getattr(model, name), getattr(divided, name), rtol=1e-8)
    assert not np.allclose(model.coef_, face.fit(TABLE, **PENALTIES[penalty]).coef_, atol=1e-4)
    pairs = zip(face.predict(model, TABLE), face.predict(divided, TABLE / scale), strict=True)
    for values, others in list(pairs)[: 1 if face.cls is LogisticCCD else None]:
        np.testing.assert_allclose(values, others, atol=1e-7)
    if not np.isnan(divided.dual_gap_):
        np.testing.assert_allclose(model.dual_gap_, divided.dual_gap_, atol=1e-7)


@pytest.mark.thorough(but="bounds")
@pytest.mark.parametrize(
    "penalty", thin(2, ["bounds", "elastic net", "mcp", "means", "scad", "adaptive"])
)
def test_exact_steps(penalty):
    exact, divided, scale = both(FACES["cox"], PENALTIES[penalty], algorithm="exact")
    np.testing.assert_allclose(exact.coef_ * scale, divided.coef_, rtol=0, atol=1e-8)


def test_bounds_are_reached_and_not_passed():
    face, n_reached = FACES["cox"], 0
    for most in np.linspace(0.01, 0.1, 7):
        bounds = -most / UNIT, 0.5 * most / UNIT
        coef = face.fit(TABLE, alpha=1e-4, bounds=bounds, standardize=True).coef_
        near = np.isclose(coef, bounds, rtol=1e-9, atol=0.0)
        assert ((coef == bounds) == near).all()
        n_reached += near.sum()
    assert n_reached > 30


def test_weight_of_two_is_a_row_twice():
    face, weight = FACES["logistic"], 1.0 + (np.arange(len(DENSE)) % 2)
    weighted = face.make(standardize=True).fit(TABLE, face.y, sample_weight=weight)
    rows = np.repeat(np.arange(len(DENSE)), weight.astype(int))
    repeated = face.make(standardize=True).fit(TABLE[rows], face.y[rows])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-9)


def test_scales_of_columns_of_all_kinds():
    rng, n = np.random.default_rng(0), len(DENSE)
    far = 2000.0 + rng.normal(size=(n, 1))
    table = np.hstack([DENSE * UNIT, far, np.zeros((n, 1)), np.full((n, 1), 0.1), far * 1e-9])
    for weight in (None, FACES["cox"].rows["sample_weight"]):
        expected = deviations(table, weight)
        expected[[P + 1, P + 2]] = 1.0
        for form in (table, sp.csc_array(table)):
            found = find_scales(build_design(form), weight, n_threads=2)
            np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("penalty", [None, Hierarchical({0: 1, P: 1}, between=0.2)])
def test_far_columns_need_no_centring(penalty):
    face, rng = FACES["cox"], np.random.default_rng(0)
    year = 2000.0 + 3.0 * rng.normal(size=(len(DENSE), 1)) + 4.0 * DENSE[:, :1]
    table = np.hstack([DENSE, year, np.ones_like(year)])
    model = face.fit(table, standardize=True, alpha=0.005, penalty=penalty)
    scale, mean = np.append(deviations(table)[:-1], 1.0), table.mean(axis=0)
    centred = face.fit((table - mean) / scale, alpha=0.005, penalty=penalty)
    np.testing.assert_allclose(model.coef_ * scale, centred.coef_, atol=1e-8)
    assert model.coef_[-2] != 0
    tables = (table, (table - mean) / scale)
    curves = [
        fit.predict_survival_function(some, return_array=True)
        for fit, some in zip((model, centred), tables, strict=True)
    ]
    np.testing.assert_allclose(*curves, atol=1e-7)


def test_rows_stay_as_they_are():
    table, face = sp.csc_array(DENSE), FACES["cox"]
    design = build_design(table)
    before = {name: getattr(design, name).copy() for name in ("kind", "values", "indices")}
    face.fit(design, standardize=True)
    for name, values in before.items():
        np.testing.assert_array_equal(getattr(design, name), values)


def test_wide_ridges():
    rng = np.random.default_rng(1)
    table = rng.normal(size=(60, 700)) * np.exp(rng.normal(size=700))
    y, factor = table[:, 0] + rng.normal(size=60), np.where(np.arange(700) < 3, 0.0, 1.0)
    given = {"alpha": 0.1, "l1_ratio": 0.0, "penalty_factor": factor, "tol": 1e-10}
    model = LinearCCD(**given, standardize=True).fit(table, y)
    scale = deviations(table)
    divided = LinearCCD(**given).fit(table / scale, y)
    np.testing.assert_allclose(model.coef_ * scale, divided.coef_, atol=1e-8)
    assert model.n_iter_ == divided.n_iter_  # the fit of X starts at its optimum


def test_coefficients_that_change_have_the_scale_of_their_column():
    face = FACES["cox"]
    given = {"time_varying": {0: [5.0], 9: [3.0, 20.0]}}
    model, divided, scale = both(face, given)
    scale = scale[fitted_of(model).terms.source]
    assert len(scale) == P + 3
    np.testing.assert_allclose(model.coef_ * scale, divided.coef_, atol=1e-8)
    assert model.summary()["coef"].to_numpy().tolist() == model.coef_.tolist()


DIVIDED = DENSE / deviations(DENSE)
ALPHAS = [0.05, 0.02, 0.008]
PENALIZED = {
    "elastic net": {"l1_ratio": 0.5},
    "mcp": {"penalty": "mcp"},
    "adaptive": {"penalty": Adaptive()},
    "classes": {"penalty": PENALTIES["classes"]["penalty"]},
}


def both_models(cls=CoxLassoCCD, **given):
    """Models with their tables."""
    given = {"tol": 1e-10, **given}
    return (cls(**given, standardize=True), TABLE), (cls(**given), DIVIDED)


@pytest.fixture(params=PENALIZED)
def penalized(request):
    return PENALIZED[request.param]


SCALE = deviations(TABLE)


def test_paths(penalized):
    y = FACES["cox"].y
    found, expected = (
        fit_path(model, table, y, n_alphas=8, relax="penalty" not in penalized)
        for model, table in both_models(**penalized)
    )
    np.testing.assert_allclose(found.alphas, expected.alphas, rtol=1e-9)
    np.testing.assert_allclose(found.coefs * SCALE[:, None], expected.coefs, atol=1e-8)
    if "penalty" not in penalized:
        blends = [path.blend(0.5).coefs for path in (found, expected)]
        np.testing.assert_allclose(blends[0] * SCALE[:, None], blends[1], atol=1e-7)


def test_cross_validations(penalized):
    y = FACES["cox"].y
    given = {"cv": 3, "n_alphas": 6, "alpha_min_ratio": 0.1, **penalized}
    found, expected = (m.fit(t, y) for m, t in both_models(CoxLassoCV, **given))
    columns = ["alpha", "mean_score", "n_nonzero"]
    np.testing.assert_allclose(found.cv_results_[columns], expected.cv_results_[columns], rtol=1e-6)
    np.testing.assert_allclose(found.coef_ * SCALE, expected.coef_, atol=1e-7)
    again = found.refit_model()
    assert again.standardize
    np.testing.assert_allclose(again.coef_, found.coef_, atol=1e-7)


def test_shares_of_the_lasso_are_chosen():
    y, given = FACES["linear"].y, {"cv": 3, "l1_ratios": [0.3, 1.0], "alphas": ALPHAS}
    found, expected = (m.fit(t, y) for m, t in both_models(LinearCV, **given))
    scores = [model.cv_results_["mean_score"] for model in (found, expected)]
    np.testing.assert_allclose(*scores, rtol=1e-7)


def test_bootstraps_have_the_scales_of_all_rows(penalized):
    y = FACES["cox"].y
    found, expected = (
        bootstrap(model, table, y, n_replicates=6, random_state=0)
        for model, table in both_models(**penalized, alpha=0.01)
    )
    np.testing.assert_allclose(found.coefs * SCALE[:, None], expected.coefs, rtol=1e-5, atol=1e-6)


def test_profiles():
    y = FACES["cox"].y
    for given in ({"l1_ratio": 0.5}, {"l1_ratio": 0.5, "prior_mean": {3: 0.1}}):
        ours, theirs = both_models(**given, alpha=0.01)
        if "prior_mean" in given:
            theirs[0].prior_mean = {3: 0.1 * SCALE[3]}
        bounds, curves, at = [], [], np.array([-0.5, 0.0, 0.7])
        for (model, table), unit in ((ours, SCALE), (theirs, np.ones(P))):
            found = profile_likelihood(model.fit(table, y), table, y, columns=[0, 3])
            bounds.append(found.intervals.to_numpy() * unit[[0, 3], None])
            more = {"values": at / unit[3], "derivatives": True}
            curve = profile_likelihood(model, table, y, 3, **more).curves
            curves.append(curve[["log_likelihood", "gradient"]].to_numpy() / [1.0, unit[3]])
        np.testing.assert_allclose(*bounds, rtol=1e-5)
        np.testing.assert_allclose(*curves, rtol=1e-6, atol=1e-5)


def test_what_is_selected_often():
    y = FACES["cox"].y
    found, expected = (
        stability_selection(model, table, y, n_subsamples=6, alphas=ALPHAS, random_state=0)
        for model, table in both_models()
    )
    np.testing.assert_array_equal(found.probabilities, expected.probabilities)


@pytest.mark.parametrize("given", [{"l1_ratio": 0.3}, {"penalty": "mcp"}, {"penalty": "scad"}])
def test_what_describes_fits(given):
    y, found = FACES["logistic"].y, []
    for model, table in both_models(LogisticCCD, **given, alpha=0.01):
        model.fit(table, y)
        numbers = [information_criteria(model, table, y), false_discovery(model, table, y).iloc[0]]
        proof = certificate(model, table, y)
        numbers.append([proof.is_local_minimum, proof.curvature, proof.slack])
        found.append(np.concatenate([np.asarray(part, float) for part in numbers]))
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-9)


def test_relaxed_fits_and_warm_starts():
    y = FACES["cox"].y
    found, expected = (m.fit(t, y).coef_ for m, t in both_models(relax=0.5, bounds=(0, 9)))
    np.testing.assert_allclose(found * SCALE, expected, atol=1e-7)
    model, _ = both_models(warm_start=True)[0]
    assert model.fit(TABLE, y).fit(TABLE, y).n_iter_ <= 1


def test_fits_without_a_penalty_do_not_notice():
    y = FACES["cox"].y
    for given in ({"alpha": 0.0}, {"penalty": Firth()}):
        plain = CoxLassoCCD(**given, tol=1e-10).fit(TABLE, y)
        model = CoxLassoCCD(**given, tol=1e-10, standardize=True).fit(TABLE, y)
        np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-7)
        if "penalty" not in given:
            errors = [wald(fit, TABLE, y).standard_errors for fit in (plain, model)]
            np.testing.assert_allclose(*errors, rtol=1e-6)


@pytest.mark.parametrize("weight", [None, FACES["cox"].rows["sample_weight"]])
def test_computed_columns(weight):
    rng, y = np.random.default_rng(2), FACES["cox"].y
    frame = pd.DataFrame({"age": rng.integers(20, 80, len(y)), "drug": DENSE[:, 0]}, dtype=float)
    X = StepColumns(columns=["age"], n_steps=10).fit_transform(frame)
    assert X.blocks
    found, expected = find_scales(X, weight), deviations(X.to_scipy(), weight)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    models = [CoxLassoCCD(tol=1e-10, standardize=True) for _ in range(2)]
    for model, table in zip(models, (X, X.stored()), strict=True):
        model.fit(table, y, sample_weight=weight)
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-10)


def in_partitions(**arguments):
    part = np.arange(len(DENSE)) % 3
    rows = [np.flatnonzero(part == k) for k in range(3)]
    return from_lists({name: [v[some] for some in rows] for name, v in arguments.items()})


@pytest.mark.parametrize("given", [{"l1_ratio": 0.5}, {"penalty": "mcp", "bounds": (-9, 9)}])
@pytest.mark.parametrize("name", ["cox", "linear"])
def test_partitions(name, given):
    face = FACES[name]
    handles = in_partitions(X=TABLE, y=face.y)
    model = face.make(**given, standardize=True).fit(handles["X"], handles["y"])
    expected = face.fit(TABLE, **given, standardize=True)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.alpha_max_, expected.alpha_max_, rtol=1e-9)


def test_partitions_with_weights_are_refused():
    face = FACES["cox"]
    handles = in_partitions(X=TABLE, y=face.y, sample_weight=face.rows["sample_weight"])
    with pytest.raises(ValueError, match="under weights, which standardize=True needs"):
        face.make(standardize=True).fit(**handles)


def test_what_it_does_not_go_with_is_refused():
    face = FACES["cox"]
    with pytest.raises(ValueError, match=r"`standardize`, which posterior .*standardize=False"):
        posterior(face.make(standardize=True), TABLE, face.y)
    with pytest.raises(ValueError, match="'standardize' parameter of CoxLassoCCD must be"):
        face.make(standardize="sd").fit(TABLE, face.y)


@pytest.mark.parametrize("given", [{"l1_ratio": 0.5}, {"algorithm": "exact", "bounds": (-0.5, 9)}])
def test_devices(given, monkeypatch):
    pytest.importorskip("numba_cuda")
    from gpu.backend import simulate_backend

    simulate_backend(monkeypatch, seed=1)
    table, y = TABLE[:60, [0, 3, 9]], FACES["cox"].y[:60]
    models = [
        CoxLassoCCD(alpha=0.01, tol=1e-5, standardize=True, backend=backend, **given).fit(table, y)
        for backend in ("cuda", "cpu")
    ]
    assert [model.backend_ for model in models] == ["cuda", "cpu"]
    assert models[0].coef_.any()
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-8)


def test_sites_are_refused():
    columns = federation.table(np.random.default_rng(0))
    y = federation.survival(np.random.default_rng(0), columns)
    sites = federation.sites_of(columns, y, federation.OPEN)
    with pytest.raises(ValueError, match="sites do not say whether rows have weights"):
        federation.fit_over(sites, CoxLassoCCD(standardize=True))


def test_exact_steps_need_the_units_of_a_penalty():
    class Log(NamedTuple):
        k: np.ndarray

    with pytest.raises(ValueError, match=r"units of 'k' of `penalty` .*majorized"):
        in_plain_units(Log(np.ones(2)), np.ones(2))
