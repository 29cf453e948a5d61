"""Columns of X in partitions: balance and screening as of all rows in memory."""

import contextlib
import weakref
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sksurvgpu import open_partitions, screen, surv, write_partitions
from sksurvgpu.cohort import balance
from sksurvgpu.information import log_rank
from sksurvgpu.partitions.handles import from_lists

N = 1_500
SPLITS = ([], [900], [0, 3, 3, 700], [1, 2, 4, N - 1])


def draw():
    """Columns of which parts of the rows say other things than all, and who is treated."""
    rng = np.random.default_rng(0)
    treatment = rng.random(N) < 0.4
    age = rng.normal(60.0, 10.0, N)
    is_rare = rng.random(N) < 0.1
    table = {
        "age": age,
        "far": 1e8 + rng.normal(size=N) + treatment,
        "in blocks": np.where(np.arange(N) < 900, 1e6, 1e6 + 1.0),
        "code": is_rare,
        "many": rng.random(N) < 0.6,
        "dose": np.where(is_rare, rng.integers(1, 3, N), 0.0),
        "late": np.where(np.arange(N) < 900, is_rare, rng.exponential(size=N)),
        "shifted": 1_000.0 + is_rare,
        "same": np.full(N, 0.1),
        "never": np.zeros(N),
        "two constants": np.where(treatment, 1_000.3, 1_000.1),
        "age in months": 12.0 * age,
        "not the code": ~is_rare,
    }
    return pd.DataFrame(table).astype(float), treatment


X, TREATMENT = draw()
RNG = np.random.default_rng(1)
TIME = RNG.integers(1, 40, N).astype(float)
WEIGHTS = RNG.exponential(size=N) * (RNG.random(N) < 0.7)
STRATA = np.where(RNG.random(N) < 0.2, None, RNG.integers(0, 200, N).astype(str))
Y = surv(RNG.random(N) < 0.5, TIME)
LATE = surv(Y["event"], TIME, start=TIME * RNG.random(N) * 0.9, stratum=RNG.integers(0, 3, N))


def split(cuts, **arguments):
    """Handles of arguments, cut into partitions."""
    edges = list(zip([0, *cuts], [*cuts, N], strict=True))
    return from_lists({name: [v[a:b] for a, b in edges] for name, v in arguments.items()})


def same(found, expected, atol=1e-13):
    """Whether tables agree to 12 digits, or to those of a sum over all rows."""
    pd.testing.assert_frame_equal(found, expected, rtol=1e-12, atol=atol)


def same_screen(found, expected):
    """Whether two results of `screen` agree."""
    assert found.kind == expected.kind
    same(found.table, expected.table, atol=1e-11)  # t is 40 correlations
    same(found.duplicates, expected.duplicates)


@pytest.mark.parametrize("cuts", SPLITS)
def test_balance(cuts):
    for adjustment in ({}, {"weights": WEIGHTS}, {"strata": STRATA}):
        given = {"suspect": 2.0, "n_jobs": 1}
        expected = balance(X, TREATMENT, **adjustment, **given)
        far = split(cuts, X=X, treatment=TREATMENT, **adjustment)
        beside = {name: far[name] for name in adjustment}
        for found in (
            balance(far["X"], far["treatment"], **beside, **given),
            balance(far["X"], TREATMENT, **adjustment, **given),
        ):
            same(found.table, expected.table)
            same(found.rows, expected.rows)
            pd.testing.assert_series_equal(found.left_out, expected.left_out)


def test_balance_of_chosen_rows():
    rows = np.arange(0, N, 3)
    expected = balance(X, TREATMENT, weights=WEIGHTS[rows], rows=rows, suspect=2.0)
    far = split([900], X=X)["X"]
    found = balance(far, TREATMENT, weights=WEIGHTS[rows], rows=rows, suspect=2.0)
    same(found.table, expected.table)


@pytest.mark.parametrize("cuts", SPLITS)
@pytest.mark.parametrize("y", [TREATMENT, TIME, Y, LATE], ids=["classes", "number", "surv", "late"])
def test_screen(cuts, y):
    far = split(cuts, X=X, y=y)
    expected = screen(X, y, n_jobs=1)
    assert expected.duplicates.index.tolist() == ["shifted", "age in months", "not the code"]
    same_screen(screen(far["X"], far["y"], n_jobs=2), expected)
    same_screen(screen(far["X"], y, n_jobs=1), expected)


def test_sparse_column_far_from_zero():
    """Its zeros, which are not stored, are zeros."""
    column = 1_000.0 + RNG.normal(size=N)
    column[1_000] = 0.0
    table = sparse.csc_array(np.column_stack([column, X["code"]]))
    far = split([900], X=table)["X"]
    found, expected = screen(far, Y).table, screen(table, Y).table
    pd.testing.assert_frame_equal(found, expected, rtol=1e-10)  # which loses digits in memory


def test_files(tmp_path):
    y = {"y": Y, "treatment": TREATMENT, "set": np.arange(N) // 4, "row": np.arange(N)}
    write_partitions(tmp_path / "cohort", {"X": X, **y}, rows=400)
    data = open_partitions(tmp_path / "cohort")
    order = np.asarray(data["row"].map(np.asarray))
    table, treatment = X.iloc[order], TREATMENT[order]
    found = balance(data.X, data["treatment"], strata=data["set"], suspect=2.0)
    expected = balance(table, treatment, strata=order // 4, suspect=2.0)
    same(found.table, expected.table)
    same(found.rows, expected.rows)
    same_screen(screen(data.X, data.y), screen(table, Y[order]))


@pytest.mark.parametrize("is_cluster", [False, True])
def test_dask(is_cluster):
    dd, distributed = (pytest.importorskip(name) for name in ("dask.dataframe", "distributed"))
    beside = {"treatment": TREATMENT, "weight": WEIGHTS, "event": Y["event"], "time": TIME}
    far = dd.from_pandas(X.assign(**beside), npartitions=3)
    columns = far[list(X)]
    client = distributed.Client(processes=False, n_workers=1, dashboard_address=None)
    with client if is_cluster else contextlib.nullcontext(client.close()):
        found = balance(columns, far["treatment"], weights=far["weight"], suspect=2.0)
        screened = screen(columns, surv(far["event"], far["time"]))
        screened_by_arrays = screen(columns, TREATMENT, duplicates=None)
    same(found.table, balance(X, TREATMENT, weights=WEIGHTS, suspect=2.0).table)
    same_screen(screened, screen(X, Y))
    same_screen(screened_by_arrays, screen(X, TREATMENT, duplicates=None))


def test_one_partition_at_a_time():
    """No more than one is there when the next one is loaded."""
    far, alive, most = split([400, 800, 1_200], X=X)["X"], [], []

    def load(part):
        alive[:] = [ref for ref in alive if ref() is not None]
        most.append(len(alive))
        design = far.load(part)
        copy = design.reordered(np.arange(len(design))[::-1])
        alive.append(weakref.ref(copy))
        return copy

    loaders = tuple(partial(load, part) for part in range(far.n_parts))
    one_by_one = replace(far, loaders=loaders)
    balance(one_by_one, TREATMENT, suspect=2.0, n_jobs=1)
    screen(one_by_one, Y, n_jobs=1)
    assert len(most) > 16 and max(most) <= 1


def test_log_rank_of_some_columns_at_a_time(monkeypatch):
    far, expected = split([900], X=X)["X"], screen(X, LATE, duplicates=None)
    monkeypatch.setattr(log_rank, "TABLE_BYTES", 24 * 5 * 120)
    same_screen(screen(far, LATE, duplicates=None), expected)


def test_errors():
    far = split([900], X=X, y=Y, treatment=TREATMENT)
    other = split([800], treatment=TREATMENT)["treatment"]
    with pytest.raises(ValueError, match="`treatment` has 800 rows in partition 0, `X` has 900"):
        balance(far["X"], other)
    with pytest.raises(ValueError, match="`treatment` has 1,499 entries, `X` has 1,500 rows"):
        balance(far["X"], TREATMENT[1:])
    with pytest.raises(TypeError, match="in partitions"):
        balance(X, far["treatment"])
    with pytest.raises(TypeError, match="in partitions"):
        screen(X, far["y"])
    with pytest.raises(ValueError, match="`strata` is for survival outcomes"):
        screen(far["X"], TREATMENT, strata=TIME)
    torn = from_lists({"X": [X[:900], X[900:].rename(columns={"age": "years"})]})["X"]
    with pytest.raises(ValueError, match="column 0 of partition 1 of `X` is 'years'"):
        balance(torn, TREATMENT)
    empty = from_lists({"X": [X[:0]]})["X"]
    with pytest.raises(ValueError, match="`X` has no row"):
        screen(empty, TREATMENT[:0])
