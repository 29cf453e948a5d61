"""Calls that ended in errors from inside, and what they give now."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.preprocessing import StandardScaler

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    LogisticCCD,
    NamedColumns,
    PoissonCCD,
    PrepareColumns,
    bootstrap,
    case_series,
    fit_outcomes,
    make_pipeline,
    matched,
    open_partitions,
    stability_selection,
    surv,
    to_sklearn,
    write_partitions,
)
from sksurvgpu.nonparametric import kaplan_meier


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))


@pytest.fixture(scope="module")
def y():
    return np.random.default_rng(1).random(200) < 0.5


def test_a_band_ends_where_late_entry_leaves_nobody_at_risk():
    y = surv([1, 1, 1, 1, 1], [1.0, 2.0, 5.0, 6.0, 7.0], start=[0.0, 0.0, 3.0, 3.0, 4.0])
    curve = kaplan_meier(y, band="hall-wellner").table
    assert curve["survival"].tolist() == pytest.approx([0.5, 0.0, 0.0, 0.0, 0.0])
    assert curve["band_lower"].notna().tolist() == [True, False, False, False, False]


def test_named_columns_where_tables_are_asked_for(table, y):
    with config_context(transform_output="pandas"):
        model = make_pipeline(NamedColumns(StandardScaler()), LogisticCCD(alpha=0.01)).fit(table, y)
    assert model[-1].summary().index.tolist() == ["a", "b", "c"]


def test_replicates_of_relaxed_models_with_an_intercept(table, y):
    model = LogisticCCD(alpha=0.01, relax=0.5)
    result = bootstrap(model, table, y, n_replicates=4, random_state=0)
    assert result.intervals["coef"].notna().all()
    stability_selection(model, table, y, n_subsamples=4, n_alphas=3, random_state=0)


@pytest.mark.parametrize("scale", ["max", "sd"])
def test_prepared_tables_whose_columns_are_numbers(scale):
    X = pd.DataFrame({7: [1, 2, 4], 9: [0.0, 8.0, 4.0]})
    found = PrepareColumns(scale=scale).fit_transform(X)
    assert found.columns.tolist() == [7, 9]
    by = X.max() if scale == "max" else X.std(ddof=0)
    pd.testing.assert_frame_equal(found, X / by)


def test_intercepts_are_of_the_kind_that_converters_take(table, y):
    plain = to_sklearn(PoissonCCD(alpha=0.01).fit(table, y.astype(int)))
    assert isinstance(plain.intercept_, np.float64)


@pytest.mark.thorough
def test_outcomes_of_subjects_and_sets_with_rows_that_are_not_at_risk():
    rng, who = np.random.default_rng(0), np.repeat(np.arange(80), 3)
    X, at_risk = (rng.random((240, 3)) < 0.4) * 1.0, rng.random(240) < 0.8
    given = {"columns": [0], "at_risk": at_risk, "intervals": None}
    series = case_series(rng.poisson(0.8, 240), rng.uniform(5.0, 20.0, 240), who)
    sets = matched(np.arange(240) % 3 == 0, who.astype(str))
    for model, y in ((CaseSeriesCCD(alpha=0.0), series), (ConditionalLogisticCCD(alpha=0.0), sets)):
        found = fit_outcomes(model, X, {"a": y}, **given)
        assert not len(found.failures)
        expected = model.fit(X[at_risk], y[at_risk]).coef_[0]
        assert found.table["coef"].iloc[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("lost", ["parts", "fields", "names", "n_columns", "files"])
def test_a_manifest_without_something_is_said_to_be_damaged(tmp_path, table, lost):
    path = tmp_path / "a.parts"
    write_partitions(path, (table, surv(np.ones(200, bool), np.arange(1.0, 201.0))), rows=100)
    manifest = json.loads((path / "manifest.json").read_text())
    if lost == "files":
        del manifest["parts"][1]["files"]
    else:
        del manifest[lost]
    (path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=f"has a damaged manifest.json, without '{lost}'"):
        open_partitions(path)
