"""Balance of covariates, against MatchIt's numbers and NumPy on the dense table."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from sksurvgpu.cohort import balance
from sksurvgpu.exceptions import TreatmentPredictedWarning

from .conftest import PUBLISHED

N = 3_000
SCALE_OF = {"att": "treated", "atc": "comparator", "ate": "pooled"}
MATCHIT = json.loads((PUBLISHED / "balance.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def lalonde():
    return pd.DataFrame(MATCHIT["X"])[MATCHIT["columns"]], np.array(MATCHIT["treatment"])


@pytest.fixture(scope="module")
def data():
    """A table, who is treated, and weights after."""
    rng = np.random.default_rng(0)
    age = rng.normal(60.0, 10.0, N)
    treatment = rng.random(N) < 1.0 / (1.0 + np.exp(4.0 - age / 15.0))
    table = {
        "age": age,
        "code": rng.random(N) < 0.05 + 0.1 * treatment,
        "dose": np.where(rng.random(N) < 0.1, rng.exponential(3.0, N), 0.0),
        "same": np.full(N, 0.1),
        "never": np.zeros(N),
    }
    weights = rng.exponential(size=N) * (rng.random(N) < 0.7)
    return pd.DataFrame(table).astype(float), treatment, weights


@pytest.mark.parametrize("case", MATCHIT["cases"], ids=lambda case: case["name"] + case["estimand"])
@pytest.mark.parametrize("adjustment", ["strata", "weights"])
def test_matchit(lalonde, case, adjustment):
    X, treatment = lalonde
    estimand = case["estimand"]
    given = {adjustment: case[adjustment], "scale": SCALE_OF[estimand], "estimand": estimand}
    table = balance(X, treatment, **given).table
    for when in ("before", "after"):
        for ours, theirs in {
            f"mean_treated_{when}": "treated",
            f"mean_comparator_{when}": "comparator",
            f"std_diff_{when}": "difference",
        }.items():
            np.testing.assert_allclose(table[ours], case[when][theirs], rtol=1e-10, atol=1e-13)


def expected(values, treatment, weights):
    """Mean and variance of each arm, from the definitions."""
    out = []
    for arm in (0, 1):
        x, w = values[treatment == arm], weights[treatment == arm]
        mean = np.average(x, weights=w)
        variance = np.average((x - mean) ** 2, weights=w)
        if not np.isin(values, [0, 1]).all():
            variance /= 1 - (w**2).sum() / w.sum() ** 2
        out.append((mean, variance))
    return out


@pytest.mark.parametrize("scale_of", ["before", "each"])
@pytest.mark.parametrize("form", ["frame", "csr", "csc"])
def test_weights(data, scale_of, form):
    X, treatment, weights = data
    make = {"frame": lambda x: x, "csr": sparse.csr_array, "csc": sparse.csc_array}[form]
    result = balance(make(X), treatment, weights=weights, scale_of=scale_of, n_jobs=2)
    for j, name in enumerate(X.columns[:3]):
        line, values = result.table.iloc[j], X[name].to_numpy()
        (m0, v0), (m1, v1) = expected(values, treatment, np.ones(N))
        (a0, w0), (a1, w1) = expected(values, treatment, weights)
        s = np.sqrt((v0 + v1) / 2 if scale_of == "before" else (w0 + w1) / 2)
        assert line["std_diff_before"] == pytest.approx((m1 - m0) / np.sqrt((v0 + v1) / 2))
        assert line["std_diff_after"] == pytest.approx((a1 - a0) / s)
        assert line["mean_treated_after"] == pytest.approx(a1)
        assert line["sd_comparator_after"] == pytest.approx(np.sqrt(w0))
        prevalence = np.average(values[~treatment] != 0, weights=weights[~treatment])
        assert line["prevalence_comparator_after"] == pytest.approx(prevalence)
        assert line["correlation"] == pytest.approx(np.corrcoef(values, treatment)[0, 1])
    for j in (3, 4):  # constants
        line = result.table.iloc[j]
        assert line["std_diff_before"] == line["std_diff_after"] == line["sd_treated_after"] == 0
        assert np.isnan(line["correlation"])
    w = weights[treatment]
    assert result.rows.loc["after", "treated"] == np.count_nonzero(w)
    assert result.rows.loc["after", "effective_treated"] == pytest.approx(
        w.sum() ** 2 / (w**2).sum()
    )
    assert result.left_out.to_dict() == {"weight 0": np.count_nonzero(weights == 0)}


@pytest.mark.parametrize("estimand", ["att", "atc", "ate"])
def test_matched_sets_are_weights(data, estimand):
    X, treatment, _ = data
    labels = np.random.default_rng(1).integers(-1, 900, N)
    n1, n0 = (
        np.bincount(labels[(labels >= 0) & arm], minlength=900) for arm in (treatment, ~treatment)
    )
    outside = (labels < 0) | (n1 * n0 == 0)[labels]
    with np.errstate(divide="ignore", invalid="ignore"):
        of_treated, of_others = {
            "att": (n1 / n1, n1 / n0),
            "atc": (n0 / n1, n0 / n0),
            "ate": ((n0 + n1) / n1, (n0 + n1) / n0),
        }[estimand]
    weights = np.where(outside, 0.0, np.where(treatment, of_treated[labels], of_others[labels]))
    by_strata = balance(X, treatment, strata=labels, estimand=estimand)
    by_weights = balance(X, treatment, weights=weights)
    pd.testing.assert_frame_equal(by_strata.table, by_weights.table)
    one_arm = np.count_nonzero(outside & (labels >= 0))
    assert by_strata.left_out.to_dict() == {
        "no stratum": np.count_nonzero(labels < 0),
        "stratum of one arm": one_arm,
    }


@pytest.mark.parametrize(
    "spell",
    [
        lambda code: np.where(code < 0, np.nan, code),
        lambda code: [None if k < 0 else f"set {k}" for k in code],
        lambda code: pd.Series(code).mask(code < 0).astype("Int64"),
        lambda code: pd.Series(np.where(code < 0, None, code.astype(str)), dtype="string"),
        lambda code: np.ma.array(np.abs(code), mask=code < 0),
        lambda code: code.astype(">i4"),
        lambda code: pl.Series([None if k < 0 else int(k) for k in code]),
        lambda code: pl.Series([None if k < 0 else str(k) for k in code]),
    ],
)
def test_missing_strata(data, spell):
    X, treatment, _ = data
    code = np.random.default_rng(2).integers(-1, 20, N)
    table = balance(X, treatment, strata=code).table
    pd.testing.assert_frame_equal(balance(X, treatment, strata=spell(code)).table, table)


def test_rows_of_a_cohort(data):
    X, treatment, weights = data
    rows = np.random.default_rng(3).permutation(N)[:2_000]
    alone = balance(X, treatment, rows=rows)
    kept = np.isin(np.arange(N), rows)
    pd.testing.assert_frame_equal(
        alone.table, balance(X, treatment, weights=kept.astype(int)).table
    )
    assert alone.left_out.to_dict() == {"not in rows": 1_000}
    pd.testing.assert_frame_equal(alone.table, balance(X, treatment, rows=pd.Series(kept)).table)
    some = balance(X, treatment, weights=weights[rows], rows=rows)
    np.testing.assert_allclose(
        some.table, balance(X, treatment, weights=weights * kept).table, rtol=1e-12, atol=1e-15
    )


def test_summary_and_largest(data):
    X, treatment, weights = data
    before = balance(X, treatment)
    assert before.rows.index.tolist() == ["before"]
    assert not any(name.endswith("after") for name in before.table)
    assert before.largest(2).index.tolist() == ["age", "code"]
    summary = before.summary(threshold=0.2)
    differences = before.table["std_diff_before"].abs()
    assert summary.loc["before", "largest"] == differences.max()
    assert summary.loc["before", "above"] == (differences > 0.2).sum() == 2
    assert summary.loc["before", "share"] == 0.4
    assert repr(before).startswith("<BalanceResult of 5 columns: largest standardized difference")
    after = balance(X, treatment, weights=weights)
    order = after.table["std_diff_after"].abs().sort_values(ascending=False).index
    assert after.largest(3).index.tolist() == order[:3].tolist()
    with pytest.raises(ValueError, match="`when` is 'after', must be before"):
        before.largest(when="after")
    with pytest.raises(ValueError, match="`threshold` is 0, must be a positive number"):
        before.summary(0)


def test_columns_that_are_the_treatment(data):
    X, treatment, _ = data
    X = X.assign(drug=treatment.astype(float), none=5.0 - 3.0 * treatment)
    with pytest.warns(
        TreatmentPredictedWarning, match=r"2 column.*: drug \(1.000\), none \(-1.000"
    ):
        result = balance(X, treatment)
    assert result.table.loc["drug", "std_diff_before"] == np.inf
    assert result.table.loc["none", "std_diff_before"] == -np.inf
    with pytest.warns(TreatmentPredictedWarning, match=r"6 column.*: drug.* and 1 more"):
        balance(X.assign(a=treatment, b=treatment, c=treatment), treatment, suspect=0.2)


@pytest.mark.parametrize("far", [1e9, 1e12, -1e15])
def test_columns_far_from_zero(data, far):
    _, treatment, weights = data
    deviation = np.random.default_rng(4).integers(-8, 9, N) + treatment
    tables = [
        balance(x[:, None], treatment, weights=weights).table for x in (deviation, far + deviation)
    ]
    for name in ("std_diff_before", "std_diff_after", "sd_treated_after", "correlation"):
        assert tables[1][name].item() == pytest.approx(tables[0][name].item(), rel=1e-10)


def test_table_one_has_shares_of_codes_and_means_of_numbers():
    X = pd.DataFrame({"age": [50.0, 61.0, 40.0, 60.0], "code": [1, 0, 0, 0], "none": [0.0] * 4})
    table = balance(X, [1, 1, 0, 0], strata=[1, 1, 1, 1]).table_one()
    assert table.columns.tolist() == [
        (when, what)
        for when in ("before", "after")
        for what in ("treated", "comparator", "std_diff")
    ]
    assert table["before"].to_numpy().tolist() == [
        ["2", "2", ""],
        ["55.5 (7.8)", "50.0 (14.1)", "0.48"],
        ["50.0%", "0.0%", "1.41"],
        ["0.0%", "0.0%", "0.00"],
    ]


def test_numbers_whose_mean_is_their_prevalence_are_no_shares():
    table = balance(pd.DataFrame({"dose": [0.5, 1.5, 0.5, 1.5]}), [1, 1, 0, 0]).table_one()
    assert table["before"].loc["dose", "treated"] == "1.0 (0.7)"


def test_differences_that_an_adjustment_turned_around_are_named():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=900), "code": rng.normal(size=900)})
    treatment = rng.random(900) < 1 / (1 + np.exp(-X["age"]))
    weights = np.where(treatment, 1.0, np.exp(3 * X["age"]).clip(0, 50))
    with pytest.warns(UserWarning, match=r"turned the difference of 1 column.s. around: age"):
        balance(X, treatment, weights=weights)
    balance(X, treatment, weights=np.where(treatment, 1.0, np.exp(X["age"])))


def test_scale_of_an_arm_that_does_not_vary():
    X, treatment = np.array([[0.0], [0.0], [1.0], [0.0], [1.0]]), [1, 1, 0, 0, 0]
    one, pooled = (balance(X, treatment, scale=s).table for s in ("treated", "pooled"))
    pd.testing.assert_frame_equal(one, pooled)
    assert pooled.loc["x0", "std_diff_before"] == pytest.approx(-(2 / 3) / np.sqrt(1 / 9))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"treatment": np.ones(N)},
            "`treatment` is 1 in every row of 3,000, so that",
        ),
        ({"treatment": np.zeros(N, bool)}, "`treatment` is 1 in no row of 3,000"),
        ({"treatment": [0, 1]}, "`treatment` has 2 entries, `X` has 3,000 rows"),
        ({"treatment": np.full(N, 2)}, "`treatment` is 2 in row 0, must be bool or 0/1"),
        ({"weights": [1.0]}, "`weights` has 1 entries, `X` has 3,000 rows"),
        ({"weights": np.full(N, -1.0)}, "`weights` is -1 in row 0, must be at least 0"),
        ({"weights": np.full(N, np.nan)}, "`weights` has 3,000 NaN"),
        ({"weights": np.zeros(N)}, "no comparator row is left after the adjustment"),
        ({"strata": np.arange(N)}, "no comparator row is left .* no stratum with a row"),
        ({"strata": np.full(N, np.nan)}, "no comparator row is left .* no stratum with a row"),
        ({"strata": np.zeros((N, 2))}, "`strata` has shape .* must be one-dimensional"),
        ({"strata": np.zeros(2)}, "`strata` has 2 entries, `X` has 3,000 rows"),
        ({"weights": np.ones(N), "strata": np.ones(N)}, "`weights` and `strata` were both passed"),
        ({"rows": [0, N]}, "`rows` has 3,000, `X` has .*, counted from 0. Rows of a cohort are"),
        ({"rows": [5, 1, 5]}, "`rows` names row 5 more than once"),
        ({"rows": [True, False]}, "`rows` has 2 entries, `X` has 3,000 rows"),
        ({"rows": [0], "weights": [1, 1]}, "`weights` has 2 entries, `rows` has 1 entries"),
        ({"scale": "sd"}, "`scale` is 'sd', must be one of 'pooled', 'treated', 'comparator'"),
        ({"scale_of": "after"}, "`scale_of` is 'after', must be one of 'before', 'each'"),
        ({"estimand": "ato"}, "`estimand` is 'ato', must be one of 'att', 'atc', 'ate'"),
        ({"suspect": 0}, "`suspect` is 0, must be a positive number"),
    ],
)
def test_bad_input(data, given, message):
    X, treatment, _ = data
    with pytest.raises(ValueError, match=message):
        balance(X, **{"treatment": treatment, **given})
