"""Penalties, relaxing, and what describes fits, together: results by definition, or refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from faces import FACES, P, X
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sksurvgpu import (
    MCP,
    Adaptive,
    BrokenRidge,
    CoxLassoCCD,
    CoxLassoCV,
    Firth,
    Fused,
    GroupLasso,
    Hierarchical,
    LogisticCCD,
    certificate,
    debiased,
    false_discovery,
    fit_path,
    groups_from,
    information_criteria,
    local_false_discovery,
    make_pipeline,
    stability_selection,
)

FACE, ALPHA = FACES["cox"], 0.004
CLASSES = np.repeat(["a", "b", "c"], P // 3)
PENALTIES = {
    "mcp": "mcp",
    "groups": GroupLasso(CLASSES),
    "classes": Hierarchical(CLASSES, between=0.1, within="l1"),
    "neighbours": Fused("chain"),
    "adaptive": Adaptive(),
    "broken": BrokenRidge(),
}


@pytest.mark.parametrize("name", PENALTIES)
def test_relaxed_fits_depend_on_the_support_alone(name):
    model = FACE.make(penalty=PENALTIES[name], alpha=ALPHA)
    support = model.fit(X, FACE.y).coef_ != 0
    refit = FACE.make(alpha=0.0, bounds=(-1e3 * support, 1e3 * support)).fit(X, FACE.y)
    relaxed = model.set_params(relax=0.0).fit(X, FACE.y)
    np.testing.assert_allclose(relaxed.coef_, refit.coef_, atol=1e-7)


def test_paths_and_searches_relax_classes():
    model = CoxLassoCCD(penalty=PENALTIES["classes"])
    path = fit_path(model, X, FACE.y, alphas=[0.02, ALPHA], relax=True)
    single = model.set_params(alpha=ALPHA, relax=0.5).fit(X, FACE.y)
    np.testing.assert_allclose(path.blend(0.5).coefs[:, 1], single.coef_, atol=1e-4)
    chosen = CoxLassoCV(penalty=PENALTIES["classes"], relax=[0, 1], cv=3, alphas=[0.02, ALPHA])
    assert chosen.fit(X, FACE.y).relax_ in (0.0, 1.0)


@pytest.mark.parametrize("describe", [information_criteria, debiased, false_discovery])
@pytest.mark.parametrize(
    ("given", "name"),
    [({"relax": 0.5}, "relax"), ({"penalty": Firth()}, "penalty")],
)
def test_descriptions_of_optima_refuse_other_fits(describe, given, name):
    face = FACES["logistic"]
    model = face.make(**given).fit(X, face.y)
    with pytest.raises(ValueError, match=f"`estimator` has `?{name}.*{describe.__name__}"):
        describe(model, X, face.y)


@pytest.mark.parametrize("name", ["classes", "neighbours", "adaptive", "broken"])
def test_certificates_are_of_penalties_that_they_know(name):
    model = FACE.make(penalty=PENALTIES[name], alpha=ALPHA).fit(X, FACE.y)
    with pytest.raises(ValueError, match="`estimator` has `penalty`, which certificate"):
        certificate(model, X, FACE.y)
    with pytest.raises(ValueError, match=r"`penalty` is not known|selected in groups"):
        local_false_discovery(model, X, FACE.y)


def test_firth_selects_nothing():
    with pytest.raises(ValueError, match=r"`penalty` is Firth, which selects nothing .* `relax`"):
        CoxLassoCCD(penalty=Firth(), relax=0.0).fit(X, FACE.y)
    with pytest.raises(ValueError, match=r"`penalty` is Firth\(\), .* stability_selection"):
        stability_selection(CoxLassoCCD(penalty=Firth()), X, FACE.y, n_subsamples=4)


def test_names_are_penalties_everywhere():
    given = {"alphas": [0.02, ALPHA], "cv": 3}
    names = CoxLassoCV(penalty="mcp", **given).fit(X, FACE.y)
    objects = CoxLassoCV(penalty=MCP(), **given).fit(X, FACE.y)
    np.testing.assert_array_equal(names.coef_, objects.coef_)


def test_infinite_coefficients_beyond_the_end_are_said_to_be_so():
    y = FACE.y[:3].copy()
    y["event"], y["time"] = True, [3.0, 2.0, 1.0]
    with pytest.warns(UserWarning, match="columns that the penalty has let go are infinite"):
        CoxLassoCCD(alpha=0.05, penalty="mcp").fit([[0.0], [1.0], [2.0]], y)


@pytest.mark.mostly_slow(but="majorized")
@pytest.mark.parametrize("algorithm", ["majorized", "exact"])
def test_separating_columns_let_go_are_infinite(algorithm):
    exposed = np.repeat([0.0, 1.0], [20, 10])[:, None]
    is_case = np.append(np.arange(20) % 2, np.ones(10)).astype(int)
    model = LogisticCCD(alpha=0.02, penalty=MCP(), algorithm=algorithm)
    with pytest.warns(UserWarning, match="columns that the penalty has let go are infinite"):
        assert model.fit(exposed, is_case).infinite_.all()


def test_degrees_of_freedom_of_blends_are_the_support():
    model = CoxLassoCCD(l1_ratio=0.5)
    path = fit_path(model, X, FACE.y, alphas=[0.02, ALPHA], relax=True).blend(0.5)
    table = path.information_criteria(X, FACE.y)
    assert table["df"].tolist() == np.count_nonzero(path.coefs, axis=0).tolist()


def test_series_are_read_by_name():
    table = pd.DataFrame(X.toarray(), columns=[f"c{j}" for j in range(P)])
    mean = pd.Series(np.arange(P) / 10, index=table.columns[::-1])
    by_name = FACE.make(prior_mean=mean).fit(table, FACE.y)
    np.testing.assert_array_equal(
        by_name.coef_, FACE.make(prior_mean=mean.to_dict()).fit(table, FACE.y).coef_
    )
    with pytest.raises(ValueError, match="`prior_mean` names column 'zz'"):
        FACE.make(prior_mean=pd.Series([0.1, 0.2], index=["c0", "zz"])).fit(table, FACE.y)


def test_steps_of_transformers_are_no_groups():
    table = pd.DataFrame({"arm": list("abca"), "age": [1.0, 2, 3, 4], "bmi": [2.0, 1, 4, 3]})
    coded = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["arm"]), (StandardScaler(), ["age", "bmi"])
    ).fit(table)
    arm = "onehotencoder__arm"
    assert groups_from(coded.get_feature_names_out()) == [arm, arm, arm, None, None]
    assert groups_from(make_pipeline(coded, StandardScaler()).fit(table))[:3] == ["arm"] * 3
