"""Scores, trimming, strata, matching and weights beside CohortMethod, MatchIt and brute force."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles.cases import load

from sksurvgpu.cohort import (
    Cohort,
    equipoise,
    match,
    preference_score,
    stratify,
    trim,
    weigh,
)

PUBLISHED = load("propensity.json")
PERSONS = pd.DataFrame(PUBLISHED["persons"])
NAMES = {"id": "rowId", "score": "propensityScore"}
SCALES = {"propensity score": "raw"}
BASES = {"target": "treated", "comparator": "comparators"}
WAYS = {"symmetric": "score", "asymmetric": "percentile by arm", "none": "preference"}


def described(case):
    return "-".join(str(value) for key, value in case.items() if key not in ("label", "rows"))


def same_sets(label, other):
    """Whether two labellings divide the same rows into the same sets, by whatever names."""
    label, other = np.asarray(label), np.asarray(other)
    pairs = {*zip(label[label >= 0], other[label >= 0], strict=True)}
    n_sets = len({*label[label >= 0]})
    return np.array_equal(label < 0, other < 0) and len(pairs) == n_sets == len({*other} - {-1})


def spread(cohort, column, n):
    label = np.full(n, -1)
    label[cohort.rows] = cohort.table[column]
    return label


@pytest.mark.parametrize("case", PUBLISHED["matches"], ids=described)
def test_matched_sets_of_other_software(case):
    matched = match(
        PERSONS,
        ratio=case["ratio"] or None,
        caliper=case["caliper"],
        scale=SCALES.get(case["scale"], case["scale"]),
        exact=case["exact"],
        order=case["order"],
        **NAMES,
    )
    assert same_sets(spread(matched, "match", len(PERSONS)), case["label"])


@pytest.mark.parametrize("case", PUBLISHED["strata"], ids=described)
@pytest.mark.filterwarnings("ignore:.*persons of one arm only")
def test_strata_of_other_software(case):
    base = BASES.get(case["base"], case["base"])
    found = stratify(PERSONS, case["n_strata"], base=base, exact=case["exact"], **NAMES)
    assert same_sets(found.table["stratum"], np.array(case["label"]))


@pytest.mark.parametrize("case", PUBLISHED["trimmed"], ids=described)
def test_trimming_of_other_software(case):
    bounds = case["equipoise"] or (case["fraction"], 1.0 - case["fraction"])
    trimmed = trim(PERSONS, WAYS[case["method"]], bounds=bounds, **NAMES)
    np.testing.assert_array_equal(trimmed.rows, case["rows"])


def test_scores_and_weights_of_other_software():
    treatment, score = PERSONS["treatment"], PERSONS["propensityScore"]
    preference = preference_score(score, treatment)
    np.testing.assert_allclose(preference, PUBLISHED["preference"], rtol=1e-14)
    assert equipoise(PERSONS, **NAMES) == pytest.approx(PUBLISHED["equipoise"], rel=1e-14)
    for kind, weights in PUBLISHED["weights"].items():
        found = weigh(PERSONS, kind, **NAMES).table["weight"]
        # CohortMethod's weights of the treated are 1 there times the share of treated
        factor = treatment.mean() if kind == "att" else 1.0
        np.testing.assert_allclose(factor * found, weights, rtol=1e-13)


def pair_slowly(value, treated, group, caliper, ratio):
    """Partner of every comparator, -1 for none: in each round the closest free pair, by search."""
    partner, active = np.full(len(value), -1), np.flatnonzero(treated)
    gap = np.abs(value[:, None] - value)
    gap[(group[:, None] != group) | ~treated[:, None] | treated | (gap > caliper)] = np.inf
    for _ in range(ratio):
        free = np.where(np.isin(np.arange(len(value)), active)[:, None], gap, np.inf)
        free[:, partner >= 0] = np.inf
        matched = []
        while np.isfinite(free).any():
            row, column = np.unravel_index(np.argmin(free), free.shape)
            partner[column] = row
            matched.append(row)
            free[row], free[:, column] = np.inf, np.inf
        active = np.array(matched, dtype=np.int64)
    return partner


def take_slowly(value, treated, group, caliper, ratio, order):
    """The same with one treated after another, who takes the nearest."""
    partner, active = np.full(len(value), -1), order
    for _ in range(ratio):
        matched = []
        for row in active:
            is_open = (group == group[row]) & ~treated & (partner < 0)
            gap = np.where(is_open, np.abs(value - value[row]), np.inf)
            if np.isfinite(gap.min()) and gap.min() <= caliper:
                partner[np.argmin(gap)] = row
                matched.append(row)
        active = matched
    return partner


def draw(seed):
    """A cohort of distinct scores, with options of matching."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 60))
    treated = rng.random(n) < rng.uniform(0.1, 0.9)
    treated[:2] = True, False
    columns = {"id": np.arange(n), "treatment": treated, "score": rng.random(n)}
    persons = pd.DataFrame(columns).assign(site=rng.integers(0, rng.integers(1, 4), n))
    caliper = [0.02, 0.1, 0.5, None][seed % 4]
    return persons, {"ratio": int(rng.integers(1, 5)), "caliper": caliper, "scale": "raw"}


@pytest.mark.thorough(but="largest")
@pytest.mark.parametrize("order", ["closest", "largest", "smallest", "data"])
def test_matching_by_brute_force(order):
    n_matched = 0
    for seed in range(60):
        persons, options = draw(seed)
        value, treated = persons["score"].to_numpy(), persons["treatment"].to_numpy()
        width = np.inf if options["caliper"] is None else options["caliper"]
        given = value, treated, persons["site"].to_numpy(), width, options["ratio"]
        if order == "closest":
            partner = pair_slowly(*given)
        else:
            key = {"largest": -value, "smallest": value, "data": np.arange(len(value))}[order]
            rows = np.flatnonzero(treated)
            partner = take_slowly(*given, rows[np.argsort(key[rows])])
        expected = np.where(treated, np.arange(len(value)), partner)
        expected[treated & ~np.isin(np.arange(len(value)), partner)] = -1
        if (partner < 0).all():
            with pytest.raises(ValueError, match="nobody can be matched"):
                match(persons, exact="site", order=order, **options)
            continue
        matched = match(persons, exact="site", order=order, **options)
        assert same_sets(spread(matched, "match", len(value)), expected)
        n_matched += 1
    assert n_matched > 50


@pytest.mark.thorough
@given(
    persons=st.lists(
        st.tuples(st.booleans(), st.integers(1, 9), st.integers(0, 1)), min_size=2, max_size=40
    ).filter(lambda persons: {treated for treated, *_ in persons} == {True, False}),
    ratio=st.one_of(st.none(), st.integers(1, 3)),
    caliper=st.sampled_from([0.0, 0.125, 0.25, None]),
)
def test_matching_whatever_is_tied(persons, ratio, caliper):
    """Nobody is used twice, caliper and exact columns hold, and the closest pair goes first."""
    treated, score, site = map(np.array, zip(*persons, strict=True))
    table = pd.DataFrame({"id": range(len(site)), "treatment": treated, "score": score / 16.0})
    options = {"ratio": ratio, "caliper": caliper, "scale": "raw", "exact": "site"}
    try:
        label = spread(match(table.assign(site=site), **options), "match", len(site))
    except ValueError:
        label = np.full(len(site), -1)
    gap = np.abs(score[:, None] - score) / 16.0
    is_pair = treated[:, None] & ~treated & (site[:, None] == site)
    is_pair &= gap <= (np.inf if caliper is None else caliper)
    in_set = (label[:, None] == label) & (label >= 0) & treated[:, None] & ~treated
    assert not (in_set & ~is_pair).any()
    assert (in_set.sum(axis=1) <= (ratio or len(site))).all()
    np.testing.assert_array_equal(in_set.any(axis=1) | in_set.any(axis=0), label >= 0)
    assert np.unique(label[treated & (label >= 0)]).size == np.count_nonzero(label[treated] >= 0)
    if ratio != 1:
        return
    # Replayed from the closest pair on: none that is free is ever closer than the next one.
    free = np.where(is_pair, gap, np.inf)
    for row, column in sorted(np.argwhere(in_set), key=lambda pair: gap[tuple(pair)]):
        assert gap[row, column] == free.min()
        free[row], free[:, column] = np.inf, np.inf
    assert not np.isfinite(free).any()


def test_ties_are_settled_by_the_order_of_lines():
    table = pd.DataFrame({"id": range(5), "treatment": [1, 0, 0, 1, 0], "score": 0.5})
    assert match(table).table["match"].to_dict() == {0: 0, 1: 0, 2: 1, 3: 1}
    assert match(table, order="data").table["match"].to_dict() == {0: 0, 1: 0, 2: 1, 3: 1}


def test_many_who_wait_for_the_same_comparators():
    """Steps would grow with the square of the persons, were the next comparator searched for."""
    n = 40_000
    treated = np.arange(n) < n // 2
    table = pd.DataFrame({"id": np.arange(n), "treatment": treated})
    for score in (np.full(n, 0.5), np.where(treated, 0.4, 0.6)):
        for order in ("closest", "largest"):
            matched = match(table.assign(score=score), caliper=None, order=order)
            assert len(matched.rows) == n
    one = table.assign(treatment=np.arange(n) == 7, score=np.linspace(0.1, 0.9, n))
    assert (match(one, ratio=None, caliper=None).table["match"] == 0).sum() == n


def test_steps_of_matching():
    table = pd.DataFrame({"id": range(8), "treatment": [1, 0] * 4})
    table["score"] = [0.2, 0.21, 0.5, 0.51, 1.0, 0.0, 0.9, 0.89]
    matched = match(table, caliper=0.2)
    assert matched.attrition["left_out"].to_dict() == {
        "given": 0,
        "score between 0 and 1": 2,
        "matched": 0,
    }
    raw = match(table, caliper=0.02, scale="raw")
    assert raw.attrition["left_out"].to_dict() == {"given": 0, "matched": 2}


@pytest.mark.parametrize("scale", ["standardized", "standardized logit"])
def test_standard_deviations_are_those_of_samples(scale):
    """Two numbers are the square root of 2 standard deviations apart."""
    table = pd.DataFrame({"id": range(2), "treatment": [1, 0], "score": [0.4, 0.6]})
    assert len(match(table, caliper=1.42, scale=scale).rows) == 2
    with pytest.raises(ValueError, match="nobody can be matched: the caliper is"):
        match(table, caliper=1.41, scale=scale)


def test_what_matching_refuses():
    table = pd.DataFrame({"id": range(4), "treatment": [1, 0, 1, 0], "score": [0.1, 0.4, 0.6, 0.9]})
    with pytest.raises(ValueError, match=r"the caliper is 0\.1 .*, the closest pair is 0\.2 apart"):
        match(table, caliper=0.1, scale="raw")
    with pytest.raises(ValueError, match="no treated person has a comparator with equal entries"):
        match(table, exact="id")
    with pytest.raises(ValueError, match="`exact` names column 'site', which is missing in 1 row"):
        match(table.assign(site=[1, 2, None, 1]), exact=["site"])
    with pytest.raises(ValueError, match="has no column 'sit'; name one of its columns"):
        match(table, exact="sit")
    with pytest.raises(TypeError, match="`exact` names columns whose entries cannot be compared"):
        match(table.assign(site=[[1]] * 4), exact=pd.Index(["site"]))
    with pytest.raises(ValueError, match="`ratio` is 0, must be a whole number of at least 1"):
        match(table, ratio=0)
    with pytest.raises(ValueError, match="`caliper` is -1, must be a number of at least 0, or"):
        match(table, caliper=-1)
    with pytest.raises(ValueError, match="`scale` is 'probit', must be one of 'standardized logit"):
        match(table, scale="probit")
    with pytest.raises(ValueError, match="`treatment` is 1 in no row of 2"):
        match(table.assign(score=[0.0, 0.4, 1.0, 0.9]))


def test_preference_scores():
    treatment, score = np.array([1, 0, 0, 0]), np.array([0.0, 0.25, 0.5, 1.0])
    found = preference_score(score, treatment)
    np.testing.assert_allclose(found, [0.0, 0.5, 0.75, 1.0], rtol=1e-15)
    np.testing.assert_array_equal(preference_score(score, None, share=0.25), found)
    np.testing.assert_allclose(preference_score(score, treatment, share=0.5), score)
    with pytest.raises(ValueError, match=r"`share` is 1\.0, must be a number between 0 and 1"):
        preference_score(score, None, share=1.0)
    with pytest.raises(ValueError, match="`treatment` has 3 entries, `score` has 4"):
        preference_score(score, [1, 0, 0])


def test_preference_scores_after_matching_are_those_before():
    """Arms of one size after matching say nothing of the model that the scores are from."""
    rng = np.random.default_rng(0)
    score = rng.beta(1, 20, 2_000)
    table = pd.DataFrame(
        {"id": range(2_000), "score": score, "treatment": rng.random(2_000) < score}
    )
    before = Cohort.of(table)
    matched = match(before)
    preference = preference_score(score, table["treatment"])[matched.rows]
    is_inside = (preference >= 0.3) & (preference <= 0.7)
    assert equipoise(matched) == is_inside.mean() > 0.4 > equipoise(matched.table)
    np.testing.assert_array_equal(trim(matched, "preference").rows, matched.rows[is_inside])
    # other scores are from those who have them
    again = matched.with_columns(score=matched.scores)
    assert again.share == 0.5 and equipoise(again) == equipoise(matched.table)
    assert before.share == matched.share == table["treatment"].mean()


@pytest.mark.parametrize(
    ("by", "bounds", "expected"),
    [
        ("score", None, [0.2, 0.3, 0.5, 0.6, 0.8]),
        ("score", (0.3, 0.6), [0.3, 0.5, 0.6]),
        ("overlap", None, [0.3, 0.5, 0.6, 0.8]),
        ("percentile", (0.5, 1.0), [0.6, 0.8]),
        ("percentile by arm", (0.5, 1.0), [0.5, 0.6, 0.8]),
    ],
)
def test_trimming_by_hand(by, bounds, expected):
    table = pd.DataFrame({"id": range(7), "treatment": [0, 0, 1, 0, 1, 0, 1]})
    table["score"] = [0.05, 0.2, 0.3, 0.5, 0.6, 0.8, 0.95]
    assert trim(table, by, bounds=bounds).table["score"].tolist() == expected


def test_what_trimming_refuses():
    table = pd.DataFrame({"id": range(4), "treatment": [1, 0, 1, 0], "score": [0.7, 0.1, 0.9, 0.2]})
    with pytest.raises(ValueError, match=r"no treated person has a score .* lie from 0\.7 to 0\.9"):
        trim(table, bounds=(0.0, 0.5))
    with pytest.raises(ValueError, match=r"no comparator has a preference score within"):
        trim(table, "preference", bounds=(0.5, 1.0))
    with pytest.raises(ValueError, match="no treated person has a score within the bounds of over"):
        trim(table, "overlap")
    with pytest.raises(ValueError, match="the scores of the arms do not overlap"):
        trim(table, "percentile by arm")
    with pytest.raises(ValueError, match="`bounds` are found in the data with by='overlap'"):
        trim(table, "overlap", bounds=(0.1, 0.9))
    with pytest.raises(ValueError, match=r"`bounds` is \[0\.9, 0\.1\], must be two numbers"):
        trim(table, bounds=(0.9, 0.1))
    with pytest.raises(ValueError, match="`by` is 'caliper', must be one of 'score', 'preference'"):
        trim(table, "caliper")


def test_strata_that_there_are_not():
    table = pd.DataFrame({"id": range(6), "treatment": [1, 0] * 3})
    with pytest.warns(UserWarning, match="`n_strata` is 5, but equal scores leave 2 strata"):
        found = stratify(table.assign(score=[0.2, 0.2, 0.2, 0.2, 0.3, 0.3]), 5)
    assert found.table["stratum"].tolist() == [0, 0, 0, 0, 1, 1] and len(found.left_out) == 0
    alone = table.assign(score=[0.9, 0.2, 0.3, 0.2, 0.8, 0.1], treatment=[1, 0, 1, 0, 0, 0])
    with pytest.warns(UserWarning, match="1 of 2 strata have persons of one arm only"):
        stratify(alone, 2)
    with pytest.raises(ValueError, match="`n_strata` is 0, must be a whole number of at least 1"):
        stratify(table.assign(score=0.5), 0)
    assert set(stratify(table.assign(score=0.5), 1).table["stratum"]) == {0}
    by_index = table.assign(score=0.5, sex=[0, 0, 1, 1, 0, 0]).set_index("sex", drop=False)
    assert stratify(by_index, 1, exact="sex").table["stratum"].tolist() == [0, 0, 1, 1, 0, 0]


def test_weights_make_arms_alike():
    rng = np.random.default_rng(0)
    score = rng.choice([0.2, 0.4, 0.7], 20_000)
    treated = rng.random(score.size) < score
    # with the score as it is in these data, weights balance it exactly
    score = pd.Series(treated).groupby(score).transform("mean").to_numpy()
    table = pd.DataFrame({"id": range(score.size), "treatment": treated, "score": score})
    target = {"iptw": np.ones(score.size), "att": score, "overlap": score * (1.0 - score)}
    for kind, stands_for in target.items():
        for stabilized in (True, False):
            weight = weigh(table, kind, stabilized=stabilized).table["weight"].to_numpy()
            for arm in (treated, ~treated):
                mean = np.average(score[arm], weights=weight[arm])
                assert mean == pytest.approx(np.average(score, weights=stands_for), rel=1e-12)
                if stabilized and kind != "overlap":
                    assert weight[arm].sum() == pytest.approx(np.count_nonzero(arm), rel=1e-12)


def test_truncated_weights():
    plain = weigh(PERSONS, **NAMES).table["weight"]
    found = weigh(PERSONS, truncate=0.05, **NAMES).table["weight"]
    low, high = np.quantile(plain, [0.05, 0.95])
    np.testing.assert_array_equal(found, plain.clip(low, high))
    for truncate in (0.5, "0.01", (0.01, 0.99)):
        with pytest.raises(ValueError, match=r"`truncate` is .*, must be a share from 0"):
            weigh(PERSONS, truncate=truncate, **NAMES)
    with pytest.raises(TypeError, match="`stabilized` is 1, must be True or False"):
        weigh(PERSONS, stabilized=1, **NAMES)


def test_weights_of_the_treated_do_not_move_percentiles_of_comparators():
    plain, found = (
        weigh(PERSONS, "att", stabilized=False, truncate=share, **NAMES).table
        for share in (None, 0.1)
    )
    other = plain["treatment"] == 0
    low, high = np.quantile(plain["weight"][other], [0.1, 0.9])
    np.testing.assert_array_equal(found["weight"][other], plain["weight"][other].clip(low, high))
    assert (found["weight"][~other] == 1).all()


@pytest.mark.parametrize(("column", "step"), [("weight", weigh), ("stratum", stratify)])
def test_columns_that_are_there_already_do_not_go_unsaid(column, step):
    table = pd.DataFrame({"id": range(4), "treatment": [1, 0, 1, 0], "score": [0.3, 0.3, 0.6, 0.6]})
    with pytest.warns(UserWarning, match=f"has a column '{column}', which another one takes") as w:
        step(table.assign(**{column: 70.0}), **({"n_strata": 2} if step is stratify else {}))
    assert w[0].filename == __file__
    with pytest.warns(UserWarning, match="has a column 'match'"):
        match(table.assign(match="yes"))


def test_certain_scores_have_no_weight():
    table = pd.DataFrame({"id": list("abcd"), "treatment": [1, 0, 1, 0]})
    table["score"] = [1.0, 0.4, 0.5, 0.0]
    for kind in ("iptw", "att"):
        with pytest.raises(ValueError, match=r"`score` is 0 or 1 for 2 person\(s\) \(id a, d\)"):
            weigh(table, kind)
        assert weigh(trim(table, bounds=(0.001, 0.999)), kind).left_out["id"].tolist() == ["a", "d"]
    assert weigh(table, "overlap").table["weight"].tolist() == [0.0, 0.4, 0.5, 0.0]
