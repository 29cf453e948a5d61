"""What `Design` says of its columns, against NumPy on the dense table."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.design.sums import sum_by_group

N = 20_000  # more than two blocks of rows


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "code": (rng.random(N) < 0.02).astype(float),
            "never": np.zeros(N),
            "always": np.ones(N),
            "dose": np.where(rng.random(N) < 0.1, rng.normal(2.0, 3.0, N), 0.0),
            "sex": (rng.random(N) < 0.5).astype(float),
            "age": rng.normal(60.0, 10.0, N),
            "year": rng.normal(1e9, 3.0, N),
            "level": 3.0 * (rng.random(N) < 0.9),
        }
    )


def designs(table):
    full = sparse.csc_array(np.ones((N, 1)) * table[["year"]].to_numpy())
    yield build_design(table)
    yield build_design(sparse.csr_array(table.to_numpy())).with_names(table.columns.to_numpy())
    yield build_design(full).with_names(np.array(["year"], dtype=object))


def expected(values, weight):
    """Mean, variance that divides by the sum of weights, and prevalence, of columns."""
    mean = np.average(values, axis=0, weights=weight)
    return (
        mean,
        np.average((values - mean) ** 2, axis=0, weights=weight),
        np.average(values != 0, axis=0, weights=weight),
    )


@pytest.mark.parametrize("n_threads", [1, 3])
def test_sums_are_those_of_the_dense_table(table, n_threads):
    rng = np.random.default_rng(1)
    group, weight = rng.integers(-1, 3, N), rng.exponential(size=N)
    for design in designs(table):
        given = table[list(design.names)].to_numpy()
        found = sum_by_group(design, group, 3, weight, n_threads=n_threads)
        assert found.n_rows.tolist() == np.bincount(group[group >= 0]).tolist()
        for g in range(3):
            rows = group == g
            for is_weighted, w in ((False, np.ones(N)), (True, weight)):
                moments = found.moments(is_weighted)
                mean, variance, prevalence = expected(given[rows], w[rows])
                np.testing.assert_allclose(moments.mean[:, g], mean, rtol=1e-12)
                np.testing.assert_allclose(moments.variance[:, g], variance, rtol=1e-8, atol=1e-12)
                np.testing.assert_allclose(moments.prevalence[:, g], prevalence, rtol=1e-12)
            np.testing.assert_array_equal(found.sums.least[:, g], given[rows].min(axis=0))
            np.testing.assert_array_equal(found.sums.most[:, g], given[rows].max(axis=0))
        is_binary = ((given == 0) | (given == 1)).all(axis=0)
        np.testing.assert_array_equal(found.is_binary, is_binary)


def test_describe_without_groups(table):
    described = build_design(table).describe()
    assert described.index.tolist() == table.columns.tolist()
    by_pandas = table.describe().T
    for ours, theirs in {"mean": "mean", "sd": "std", "min": "min", "max": "max"}.items():
        np.testing.assert_allclose(described[ours], by_pandas[theirs], rtol=1e-9, atol=1e-12)
    assert described.loc["code", "rows"] == np.count_nonzero(table["code"])
    np.testing.assert_allclose(described["prevalence"], described["rows"] / N)


def test_describe_by_group_and_weight(table):
    rng = np.random.default_rng(2)
    groups, weights = rng.choice(["b", "a", "none"], N), rng.integers(0, 3, N)
    weights[groups == "none"] = 0
    described = build_design(table).describe(groups, weights, n_threads=2)
    assert described["mean"].columns.tolist() == ["a", "b", "none"]
    rows = (groups == "a") & (weights > 0)
    given, w = table[rows], weights[rows]
    np.testing.assert_array_equal(described["rows"]["a"], np.count_nonzero(given, axis=0))
    mean, variance, _ = expected(given.to_numpy(), w)
    effective = w.sum() ** 2 / (w**2).sum()
    sd = np.sqrt(variance * effective / (effective - 1))
    np.testing.assert_allclose(described["mean"]["a"], mean, rtol=1e-12)
    np.testing.assert_allclose(described["sd"]["a"], sd, rtol=1e-7, atol=1e-12)
    assert described["mean"]["none"].isna().all() and (described["rows"]["none"] == 0).all()


def test_columns_without_names_and_wrong_lengths(table):
    design = build_design(table.to_numpy())
    assert design.describe().index[:2].tolist() == ["x0", "x1"]
    with pytest.raises(ValueError, match="`groups` has 3 entries, `X` has 20,000 rows"):
        design.describe([1, 2, 3])
    with pytest.raises(ValueError, match="`weights` is -1 in row 0, must be at least 0"):
        design.describe(weights=np.full(N, -1.0))


def test_columns_far_from_zero_by_any_factor():
    """A deviation of some units in the last place is no rounding, and a constant has none."""
    deviation = np.random.default_rng(3).integers(-8, 9, N).astype(float)
    far = [1e9 + deviation, 1e15 + deviation, -1e15 + deviation]
    described = build_design(np.column_stack([*far, np.full(N, 1e15 / 3)])).describe()
    np.testing.assert_allclose(described["sd"], [*[deviation.std(ddof=1)] * 3, 0.0], rtol=1e-12)


def test_nothing_is_least_where_there_is_no_row(table):
    described = build_design(table).describe(weights=np.zeros(N))
    assert described.drop(columns="rows").isna().all(axis=None) and not described["rows"].any()


@pytest.mark.parametrize("factor", [1e-160, 1e160])
def test_columns_whose_squares_leave_the_range_are_refused(table, factor):
    design = build_design(table.assign(age=factor * table["age"]))
    with pytest.raises(ValueError, match=r"column 'age' has values .*, whose squares leave"):
        design.describe()
