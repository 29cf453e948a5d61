"""Case series, conditional Poisson and conditional logistic regression: what their numbers mean."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from faces import (
    COUNT,
    EXPOSURE,
    FACES,
    IS_CASE,
    OFFSET,
    SUBJECT,
    WEIGHT,
    WEIGHT_OF_SUBJECT,
    N,
    P,
    X,
)
from oracles.cases import load
from scipy.special import xlogy

from sksurvgpu import (
    CaseSeriesCCD,
    ConditionalLogisticCCD,
    ConditionalPoissonCCD,
    CoxLassoCCD,
    LogisticCCD,
    PoissonCCD,
    case_series,
    matched,
    surv,
)

SERIES = FACES["case series"].y
SETS = matched(IS_CASE, SUBJECT)
TIGHT = {"alpha": 0.01, "tol": 1e-11}
CONDITIONAL = load("conditional.json")
CLOGIT = {
    case["name"]: case
    for case in CONDITIONAL["cases"]
    if case["source"] == "survival::clogit" and case["dataset"] in ("lung", "colon")
}
IN_GROUPS = {
    "case series": (CaseSeriesCCD, SERIES, {}),
    "conditional poisson": (
        ConditionalPoissonCCD,
        COUNT,
        {"exposure": EXPOSURE, "strata": SUBJECT},
    ),
    "conditional logistic": (ConditionalLogisticCCD, IS_CASE, {"strata": SUBJECT}),
}


@pytest.fixture(params=IN_GROUPS)
def model_in_groups(request):
    return IN_GROUPS[request.param]


def rows_of(arguments, rows):
    return {name: values[rows] for name, values in arguments.items()}


def test_score_of_the_rows_of_the_fit_is_their_log_likelihood(model_in_groups):
    cls, y, of_rows = model_in_groups
    for known in ({}, {"sample_weight": WEIGHT_OF_SUBJECT}, {"offset": OFFSET}):
        rows = {**of_rows, **known}
        model = cls(**TIGHT).fit(X, y, **rows)
        assert model.score(X, y, **rows) == pytest.approx(model.log_likelihood_, rel=1e-12)
        assert model.log_likelihood_ < 0 and np.count_nonzero(model.coef_)


def test_score_adds_up_over_groups(model_in_groups):
    """Also over groups that the fit has not seen, in any order."""
    cls, y, of_rows = model_in_groups
    train = SUBJECT < 30
    model = cls(**TIGHT).fit(X[train], y[train], **rows_of(of_rows, train))
    whole = model.score(X, y, WEIGHT_OF_SUBJECT, **of_rows)
    parts = 0.0
    for third in range(3):
        rows = np.random.default_rng(third).permutation(np.flatnonzero(third == SUBJECT % 3))
        part = (X[rows], y[rows], WEIGHT_OF_SUBJECT[rows])
        parts += model.score(*part, **rows_of(of_rows, rows))
    assert parts == pytest.approx(whole, rel=1e-12)


def test_scores_do_not_see_what_is_constant_in_a_group(model_in_groups):
    cls, y, of_rows = model_in_groups
    table = np.column_stack([X.toarray(), np.sqrt(SUBJECT)])
    model = cls(**TIGHT).fit(table, y, **of_rows)
    assert model.coef_[-1] == 0.0
    before = model.score(table, y, **of_rows)
    model.coef_[-1] = 25.0
    assert model.score(table, y, **of_rows) == pytest.approx(before, rel=1e-9)


def test_predictions_are_linear(model_in_groups):
    cls, y, of_rows = model_in_groups
    model = cls(**TIGHT).fit(X, y, offset=OFFSET, **of_rows)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_, atol=1e-12)


def shares(eta, group):
    """exp(eta) over its sum in the group."""
    top = np.exp(eta)
    return top / np.bincount(group, top)[group]


def test_case_series_log_likelihood_is_multinomial():
    model = CaseSeriesCCD(**TIGHT).fit(X, SERIES, WEIGHT_OF_SUBJECT)
    share = shares(np.log(EXPOSURE) + X @ model.coef_, SUBJECT)
    expected = WEIGHT_OF_SUBJECT * COUNT @ np.log(share)
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-12)


def test_case_series_is_conditional_poisson_by_subject():
    series = CaseSeriesCCD(**TIGHT).fit(X, SERIES, offset=OFFSET)
    counts = ConditionalPoissonCCD(**TIGHT)
    counts.fit(X, COUNT, strata=SUBJECT, exposure=EXPOSURE, offset=OFFSET)
    np.testing.assert_allclose(series.coef_, counts.coef_, atol=1e-10)
    assert series.log_likelihood_ == pytest.approx(counts.log_likelihood_, rel=1e-12)


def test_units_of_length_do_not_matter():
    days, years = (
        CaseSeriesCCD(**TIGHT).fit(X, case_series(COUNT, unit * EXPOSURE, SUBJECT))
        for unit in (365.25, 1.0)
    )
    np.testing.assert_allclose(days.coef_, years.coef_, atol=1e-10)


@pytest.mark.parametrize(
    "group", [SUBJECT, SUBJECT % 5, np.zeros(N, int)], ids=["many", "few", "one"]
)
def test_conditional_poisson_has_an_intercept_for_every_stratum(group):
    """Unpenalized columns of the strata, and the deviance between their best intercepts."""
    dummies = sp.csr_array((np.ones(N), (np.arange(N), group)))
    dummies = dummies[:, np.bincount(group, WEIGHT * COUNT) > 0]  # others are minus infinity
    kept = np.bincount(group, WEIGHT * COUNT)[group] > 0
    rows = {"sample_weight": WEIGHT[kept], "exposure": EXPOSURE[kept], "offset": OFFSET[kept]}
    inner = ConditionalPoissonCCD(**TIGHT).fit(X[kept], COUNT[kept], strata=group[kept], **rows)
    table = sp.hstack([X, dummies], format="csr")[kept]
    factor = {P + j: 0.0 for j in range(dummies.shape[1])}
    outer = PoissonCCD(**TIGHT, fit_intercept=False, penalty_factor=factor)
    outer.fit(table, COUNT[kept], **rows)
    np.testing.assert_allclose(inner.coef_, outer.coef_[:P], atol=1e-6)
    # Poisson's log-likelihood is that of the strata's totals and of the shares given them
    counts = rows["sample_weight"] * COUNT[kept]
    expected = rows["sample_weight"] * np.exp(
        np.log(rows["exposure"]) + rows["offset"] + X[kept] @ inner.coef_
    )
    counted = counts > 0
    share = expected[counted] / np.bincount(group[kept], expected)[group[kept]][counted]
    assert inner.log_likelihood_ == pytest.approx(counts[counted] @ np.log(share), rel=1e-10)
    totals = np.bincount(group[kept], counts)
    in_copies = inner.log_likelihood_ - counts @ np.log(np.where(counted, rows["sample_weight"], 1))
    of_totals = (xlogy(totals, totals) - totals).sum()
    assert outer.log_likelihood_ == pytest.approx(in_copies + of_totals, rel=1e-8)


def test_one_stratum_is_poisson_regression():
    """Whose intercept is profiled out; scores are shares of all events."""
    inner = ConditionalPoissonCCD(**TIGHT).fit(X, COUNT, exposure=EXPOSURE)
    outer = PoissonCCD(**TIGHT).fit(X, COUNT, exposure=EXPOSURE)
    np.testing.assert_allclose(inner.coef_, outer.coef_, atol=1e-9)
    mean = outer.predict(X, exposure=EXPOSURE)
    expected = COUNT @ np.log(mean / mean.sum())
    assert inner.score(X, COUNT, exposure=EXPOSURE) == pytest.approx(expected, rel=1e-9)


def test_groups_that_tell_nothing_change_the_mean_only():
    """Rows without events, and eras that are alone."""
    series = CaseSeriesCCD(**TIGHT).fit(X, SERIES)
    rng = np.random.default_rng(0)
    extra = case_series([0, 0, 5], [1.0, 2.0, 3.0], [100, 100, 101])
    table = sp.vstack([X, sp.csr_array(rng.normal(size=(3, P)))], format="csr")
    more = CaseSeriesCCD(**{**TIGHT, "alpha": 0.01 * N / (N + 3)})
    more.fit(table, np.concatenate([SERIES, extra]))
    np.testing.assert_allclose(more.coef_, series.coef_, atol=1e-9)
    assert more.log_likelihood_ == pytest.approx(series.log_likelihood_, rel=1e-10)


def exact_log_likelihood(eta, case, group):
    total = 0.0
    for g in np.unique(group):
        rows = eta[group == g]
        chosen = case[group == g]
        sums = [np.sum(rows[list(c)]) for c in combinations(range(len(rows)), chosen.sum())]
        total += rows[chosen].sum() - np.log(np.exp(sums).sum())
    return total


def cox_log_likelihood(eta, case, group, ties):
    """Cox's with all rows leaving at one time; sets without controls have no part."""
    total = 0.0
    for g in np.unique(group):
        rows, chosen = eta[group == g], case[group == g]
        d = chosen.sum()
        if d == 0:
            continue
        gone = np.arange(d) / d if ties == "efron" else np.zeros(d)
        at_risk = np.exp(rows).sum() - gone * np.exp(rows[chosen]).sum()
        total += rows[chosen].sum() - np.log(at_risk).sum()
    return total


@pytest.mark.parametrize("ties", ["exact", "efron", "breslow"])
def test_likelihoods_of_sets_with_several_cases(ties):
    model = ConditionalLogisticCCD(ties=ties, **TIGHT).fit(X, SETS)
    eta = X @ model.coef_
    if ties == "exact":
        expected = exact_log_likelihood(eta, IS_CASE, SUBJECT)
    else:
        expected = cox_log_likelihood(eta, IS_CASE, SUBJECT, ties)
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-12)
    assert model.score(X, SETS) == pytest.approx(expected, rel=1e-12)


def test_ties_differ_where_sets_have_several_cases():
    coefs = [
        ConditionalLogisticCCD(ties=ties, **TIGHT).fit(X, SETS).coef_
        for ties in ("exact", "efron", "breslow")
    ]
    assert min(np.abs(a - b).max() for a, b in combinations(coefs, 2)) > 1e-3


def test_ties_are_the_same_with_one_case_in_a_set():
    first = np.full(SUBJECT.max() + 1, N)
    np.minimum.at(first, SUBJECT, np.arange(N))
    y = matched(np.arange(N) == first[SUBJECT], SUBJECT)
    exact, efron, breslow = (
        ConditionalLogisticCCD(ties=ties, **TIGHT).fit(X, y, WEIGHT_OF_SUBJECT)
        for ties in ("exact", "efron", "breslow")
    )
    for other in (efron, breslow):
        np.testing.assert_allclose(other.coef_, exact.coef_, atol=1e-9)
        assert other.score(X, y) == pytest.approx(exact.score(X, y), rel=1e-9)
    # one case among its set: Cox's partial likelihood, stratified
    cox = CoxLassoCCD(**TIGHT).fit(
        X, surv(y["case"], np.where(y["case"], 1.0, 2.0)), WEIGHT_OF_SUBJECT, SUBJECT
    )
    np.testing.assert_allclose(cox.coef_, exact.coef_, atol=1e-9)


@pytest.mark.parametrize("ties", ["exact", "efron", "breslow"])
def test_sets_of_cases_or_controls_only(ties):
    """Neither says anything, but that Cox's approximations have a term for the former."""
    case = np.where(SUBJECT < 5, True, np.where(SUBJECT < 10, False, IS_CASE))
    n_cases = np.bincount(SUBJECT, case)
    has_only_cases = (n_cases == np.bincount(SUBJECT))[SUBJECT]
    counted = (n_cases > 0)[SUBJECT] & ~(has_only_cases & (ties == "exact"))
    y = matched(case, SUBJECT)
    whole = ConditionalLogisticCCD(ties=ties, **TIGHT).fit(X, y)
    fewer = ConditionalLogisticCCD(**{**TIGHT, "alpha": 0.01 * N / counted.sum()}, ties=ties)
    fewer.fit(X[counted], y[counted])
    np.testing.assert_allclose(whole.coef_, fewer.coef_, atol=1e-9)
    assert whole.log_likelihood_ == pytest.approx(fewer.log_likelihood_, rel=1e-11)
    assert whole.score(X[counted], y[counted]) == pytest.approx(whole.score(X, y), rel=1e-11)
    of_cases = whole.score(X[has_only_cases], y[has_only_cases])
    if ties == "exact":
        assert of_cases == 0.0
    else:
        eta = X[has_only_cases] @ whole.coef_
        rows = np.ones(len(eta), bool), SUBJECT[has_only_cases]
        assert of_cases == pytest.approx(cox_log_likelihood(eta, *rows, ties), rel=1e-11)


@pytest.mark.parametrize("name", CLOGIT)
def test_matched_sets_equal_clogit(name, check_close):
    """Of survival; two sets of lung and of colon have cases only, which its approximations see."""
    case = CLOGIT[name]
    data = CONDITIONAL["datasets"][case["dataset"]]
    table = np.column_stack(list(data["X"].values())).astype(float)
    is_case, sets = np.array(data["case"]), np.array(data["stratum"])
    of_set = np.bincount(sets, is_case) == np.bincount(sets)
    assert of_set[1:].sum() == 2
    rows = {
        argument: np.array(data[use])
        for argument, use in (("sample_weight", "weights"), ("offset", "offset"))
        if use in case["uses"]
    }
    model = ConditionalLogisticCCD(alpha=0, ties=case["options"]["method"], tol=1e-12)
    model.fit(table, matched(is_case, sets), **rows)
    check_close(model.coef_, case["coefficients"], "published coef")
    check_close(model.log_likelihood_, case["loglik"], "published loglik")


def test_a_pair_is_a_logistic_regression_of_differences():
    """One case and one control: no intercept, the difference of their columns."""
    table = X.toarray()
    case, control = table[: N // 2], table[N // 2 :]
    pair = np.tile(np.arange(N // 2), 2)
    y = matched(np.arange(N) < N // 2, pair)
    weight = np.tile(np.random.default_rng(2).choice([0.0, 0.5, 1.0, 2.0], N // 2), 2)
    inner = ConditionalLogisticCCD(alpha=0.01, tol=1e-11).fit(table, y, sample_weight=weight)
    differences = np.vstack([case - control, control - case])
    # Every pair is there twice in as many rows: twice the likelihood.
    outer = LogisticCCD(alpha=0.02, tol=1e-11, fit_intercept=False)
    outer.fit(differences, np.arange(N) < N // 2, sample_weight=weight)
    np.testing.assert_allclose(inner.coef_, outer.coef_, atol=1e-8)
    assert 2 * inner.log_likelihood_ == pytest.approx(outer.log_likelihood_, rel=1e-9)


def test_outcomes_of_matched_sets():
    expected = ConditionalLogisticCCD().fit(X, SETS)
    for y in (IS_CASE, IS_CASE * 1, IS_CASE * 1.0, IS_CASE.tolist()):
        model = ConditionalLogisticCCD().fit(X, y, strata=SUBJECT)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        assert model.score(X, y, strata=SUBJECT) == expected.score(X, SETS)
