"""Screening, against R's tests of one column and the definitions on dense tables."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import chi2, pearsonr

from sksurvgpu import competing_risks, screen, surv
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.data.design.duplicates import find_duplicates

from .conftest import PUBLISHED

R = json.loads((PUBLISHED / "screen.json").read_text(encoding="utf-8"))
LUNG, HEART = (
    {**R[name], "X": pd.DataFrame(R[name]["X"]).astype(float)} for name in ("lung", "heart")
)
DISTINCT = np.arange(1, len(LUNG["time"]) + 1) / 1024


def test_cor_test():
    table = screen(LUNG["X"], LUNG["time"], duplicates=None).table
    np.testing.assert_allclose(table["correlation"], R["correlation"]["r"], rtol=1e-11)
    np.testing.assert_allclose(table["t"], R["correlation"]["t"], rtol=1e-11)
    np.testing.assert_allclose(table["p_value"], R["correlation"]["p"], rtol=1e-11)


@pytest.mark.parametrize("case", ["plain", "strata"])
def test_survdiff(case):
    y = surv(LUNG["event"], LUNG["time"], stratum=LUNG["stratum"] if case == "strata" else None)
    line, expected = screen(LUNG["X"], y).table.loc["sex"], R["log_rank"][case]
    assert line["excess"] == pytest.approx(expected["excess"], rel=1e-12)
    assert line["variance"] == pytest.approx(expected["variance"], rel=1e-12)
    assert line["z"] ** 2 == pytest.approx(expected["chisq"], rel=1e-12)
    assert line["p_value"] == pytest.approx(chi2.sf(expected["chisq"], 1), rel=1e-10)


def test_score_test_of_coxph():
    y = surv(LUNG["event"], LUNG["time"] + DISTINCT)
    for strata, case in ((None, "plain"), (LUNG["stratum"], "strata")):
        table = screen(LUNG["X"], y, strata=strata).table
        np.testing.assert_allclose(table["z"] ** 2, R["score"][case], rtol=1e-10)
    late = surv(HEART["event"], HEART["time"], start=HEART["start"])
    np.testing.assert_allclose(
        screen(HEART["X"], late).table["z"] ** 2, R["score"]["entry"], rtol=1e-10
    )


def outcome(rng, n, *, ties, entry, strata):
    """A survival outcome; whether row i is at risk at the time of row e, in its stratum."""
    time = rng.integers(1, 12, n).astype(float) if ties else rng.random(n)
    start = time * rng.random(n) * 0.9 if entry else None
    stratum = rng.integers(0, 3, n) if strata else None
    y = surv(rng.random(n) < 0.5, time, start=start, stratum=stratum)
    at_risk = time >= time[:, None]
    if entry:
        at_risk &= start < time[:, None]
    if strata:
        at_risk &= stratum == stratum[:, None]
    return y, at_risk


def log_rank(x, y, at_risk):
    """Observed less expected events, and its variance, from the definition."""
    excess = variance = 0.0
    stratum = y["stratum"] if "stratum" in y.dtype.names else np.zeros(len(y))
    for s, time in sorted({*zip(stratum[y["event"]], y["time"][y["event"]], strict=True)}):
        dead = y["event"] & (y["time"] == time) & (stratum == s)
        there = x[at_risk[np.flatnonzero(dead)[0]]]
        n, d = len(there), np.count_nonzero(dead)
        excess += x[dead].sum() - d * there.mean()
        variance += d * (n - d) / (n - 1) * there.var() if n > 1 else 0.0
    return excess, variance


def separates(x, y, at_risk):
    """Whether no row at risk is above an event, or none below one, but some differs."""
    differences = (x[y["event"], None] - x)[at_risk[y["event"]]]
    return bool(differences.any() and ((differences >= 0).all() or (differences <= 0).all()))


def columns_of_all_kinds(rng, n):
    """Indicators, valued sparse and dense columns, rare ones and constants among them."""
    few = [(rng.random(n) < share).astype(float) for share in (0.02, 0.05, 0.1, 0.2)]
    values = [column * rng.normal(size=n) for column in few]
    dense = [rng.normal(size=n), 1e6 + rng.normal(size=n), np.ones(n), rng.integers(0, 3, n)]
    return np.column_stack([*few, np.zeros(n), *values, *dense])


@pytest.mark.thorough(but=r"True-True|False-False")
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("entry", [False, True])
@pytest.mark.parametrize("strata", [False, True])
def test_log_rank_from_its_definition(ties, entry, strata):
    n_separating = 0
    for seed in range(3):
        rng = np.random.default_rng([seed, ties, entry, strata])
        y, at_risk = outcome(rng, 60, ties=ties, entry=entry, strata=strata)
        x = columns_of_all_kinds(rng, 60)
        x[:, 2] *= ~y["event"]  # no event among its rows
        x[:, 3] = y["event"] & (y["time"] <= np.median(y["time"]))  # in no later risk set
        x[:, 6] = np.where(y["event"], x[:, 6].max(), x[:, 6])
        x[:, 9] = -y["time"]  # falls with the time
        for table in (sparse.csc_array(x), x):
            found = screen(table, y, n_jobs=2, duplicates=None).table
            for j, line in enumerate(found.itertuples()):
                excess, variance = log_rank(x[:, j], y, at_risk)
                scale = max(1.0, np.ptp(x[:, j]))
                assert line.excess == pytest.approx(excess, abs=1e-8 * scale)
                assert line.variance == pytest.approx(variance, rel=1e-7, abs=1e-8)
                assert line.separating == separates(x[:, j], y, at_risk), j
                assert line.constant == (np.ptp(x[:, j]) == 0)
                assert line.events == np.count_nonzero(x[y["event"], j])
                n_separating += line.separating
    assert n_separating > 12


@pytest.mark.parametrize("kind", ["numbers", "flags", "labels"])
def test_correlation_from_its_definition(kind):
    rng = np.random.default_rng(5)
    x = columns_of_all_kinds(rng, 200)
    value = rng.normal(size=200) if kind == "numbers" else rng.random(200) < 0.3
    x[:, 3] = value > (1 if kind == "numbers" else 0)
    y = {"labels": np.where(value, "yes", "no").tolist()}.get(kind, value)
    result = screen(sparse.csr_array(x), y, duplicates=None)
    for j, line in enumerate(result.table.itertuples()):
        is_constant = np.ptp(x[:, j]) == 0
        assert line.constant == is_constant and np.isnan(line.correlation) == is_constant
        if not is_constant:
            r, p = pearsonr(x[:, j], value)
            assert line.correlation == pytest.approx(r, abs=1e-9)
            assert line.p_value == pytest.approx(p, rel=1e-6)
            assert line.sd == pytest.approx(x[:, j].std(ddof=1), rel=1e-6)
            assert line.mean == pytest.approx(x[:, j].mean(), rel=1e-12)
    assert result.separating.tolist() == ([] if kind == "numbers" else ["x3"])
    perfect = screen(np.column_stack([3.0 - 2.0 * value, x[:, 0]]), y)
    assert perfect.separating.tolist() == ["x0"] and perfect.table.loc["x0", "p_value"] == 0
    assert np.isinf(perfect.table.loc["x0", "t"])
    assert perfect.largest(1).index.tolist() == ["x0"]


def test_values_that_separate_two_classes():
    y = np.arange(100) >= 40
    x = np.column_stack([np.arange(100.0), -np.arange(100.0), np.where(y, 0.0, 5.0), 1.0 * y])
    x[39, 0], x[39, 1] = 41.0, -40.0  # one row too far; one that is equal
    assert screen(x, y).separating.tolist() == ["x1", "x2", "x3"]


@pytest.mark.parametrize("threshold", [0.85, 0.99, 1.0])
def test_duplicates_from_their_definition(threshold):
    rng, n = np.random.default_rng(6), 3_000
    table = []
    for share in (0.001, 0.003, 0.01, 0.05, 0.3):
        one = rng.random(n) < share
        less = one & (rng.random(n) < 0.95)
        table += [
            one,
            one,
            ~one,
            one & (rng.random(n) < 0.995),
            less,
            less & (rng.random(n) < 0.95),
        ]
        table += [one * rng.normal(size=n), rng.random(n) < share]
    dense = 1e5 + rng.normal(size=n)
    table += [dense, -2 * dense, dense + 0.1 * rng.normal(size=n), np.ones(n), np.zeros(n)]
    x = np.column_stack(table).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation = np.nan_to_num(np.corrcoef(x.T))
    expected, originals = {}, []
    for j in range(x.shape[1]):
        with_originals = np.abs(correlation[j, originals])
        if len(originals) and with_originals.max() >= threshold - 1e-9:
            expected[j] = abs(correlation[j, originals]).max()
        elif np.ptp(x[:, j]):
            originals.append(j)
    for form in (x, sparse.csc_array(x)):
        found = find_duplicates(build_design(form), threshold, n_threads=2)
        assert found[0].tolist() == sorted(expected)
        np.testing.assert_allclose(np.abs(found[2]), [expected[j] for j in sorted(expected)])
        np.testing.assert_allclose(found[2], correlation[found[0], found[1]])
        assert not set(found[1]) & set(found[0])


def test_result():
    rng = np.random.default_rng(7)
    table = pd.DataFrame({"a": rng.random(50), "b": np.zeros(50), "d": rng.random(50)})
    table["a again"], y = table["a"], rng.random(50)
    result = screen(table, y)
    assert result.constant.tolist() == ["b"]
    assert result.duplicates["duplicate_of"].to_dict() == {"a again": "a"}
    assert result.largest(4).index[-1] == "b"
    expected = "<ScreenResult of 4 columns by correlation: 0 separating, 1 constant, 1 duplicates>"
    assert repr(result).splitlines()[0] == expected
    assert screen(table, y, duplicates=None).duplicates.empty


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"y": np.ones(50)}, ValueError, "`y` is 1.0 in all 50 rows; it must vary"),
        ({"y": ["a"] * 50}, ValueError, "`y` is 'a' in all 50 rows"),
        ({"y": list("abc") * 16 + ["a"] * 2}, ValueError, "`y` has 3 classes, must have two"),
        ({"y": [1, 2]}, ValueError, "`y` has 2 entries, `X` has 50 rows"),
        ({"y": np.full(50, np.nan)}, ValueError, "`y` has 50 NaN or infinite"),
        ({"y": np.full(50, 1j)}, TypeError, "`y` has dtype complex128; pass numbers, labels"),
        ({"y": surv(np.zeros(50), np.ones(50))}, ValueError, "`y` has no event"),
        ({"y": competing_risks([1, 2] * 25, np.ones(50))}, TypeError, "take one with as_sksurv"),
        ({"strata": np.ones(50)}, ValueError, "`strata` is for survival outcomes"),
        ({"duplicates": 0.5}, ValueError, "`duplicates` is 0.5, must be a correlation from 0.8"),
        ({"duplicates": "all"}, ValueError, "`duplicates` is 'all'"),
    ],
)
def test_bad_input(given, error, message):
    with pytest.raises(error, match=message):
        screen(np.ones((50, 2)), **{"y": np.arange(50), **given})


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_outcomes_in_any_unit(factor):
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    expected = screen(X, y).table["correlation"]
    np.testing.assert_allclose(screen(X, factor * y).table["correlation"], expected, rtol=1e-12)


def test_values_far_from_zero_and_constants():
    rng = np.random.default_rng(7)
    deviation = rng.integers(-8, 9, 300).astype(float)
    X = np.column_stack([deviation, 1e15 + deviation, np.full(300, 1e15 / 3), np.full(300, 0.1)])
    for y in (rng.random(300), surv(rng.random(300) < 0.5, rng.random(300))):
        result = screen(X, y)
        p = result.table["p_value"].to_numpy()
        assert p[1] == pytest.approx(p[0], rel=1e-8) and np.isnan(p[2:]).all()
        assert result.constant.tolist() == ["x2", "x3"] and len(result.duplicates) == 1
