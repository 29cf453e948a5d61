"""Concordance with competing events: the definition, hand, pec, scikit-survival, properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sksurv.exceptions import NoComparablePairException
from sksurv.metrics import concordance_index_ipcw
from sksurv.util import Surv

from sksurvgpu import competing_risks, surv
from sksurvgpu.metrics import concordance, concordance_competing
from sksurvgpu.metrics.competing import count_competing_pairs
from sksurvgpu.metrics.pairs import as_concordance


def of_rows(event, time, risk, **options):
    return concordance_competing(competing_risks(event, time), risk, **options)


def uncensored_share(at, status, time, sample_weight, *, including):
    """Kaplan-Meier of censoring at one time, or just before it; events leave first."""
    share = 1.0
    for t in np.unique(time[status == 0]):
        if t < at or (including and t == at):
            censored = sample_weight[(time == t) & (status == 0)].sum()
            staying = sample_weight[time > t].sum()
            share *= staying / (staying + censored) if censored > 0 else 1.0
    return share


def by_definition(
    event,
    time,
    risk,
    *,
    horizon=np.inf,
    strata=None,
    sample_weight=None,
    censoring="pooled",
    of_the_paper=False,
):
    """All pairs; None where there are none."""
    n = len(time)
    strata = np.zeros(n) if strata is None else strata
    sample_weight = np.ones(n) if sample_weight is None else sample_weight
    until, beyond = np.empty(n), np.empty(n)
    for i in range(n):
        rows = strata == strata[i] if censoring == "stratified" else np.ones(n, bool)
        of = (event[rows], time[rows], sample_weight[rows])
        until[i] = uncensored_share(time[i], *of, including=False)
        beyond[i] = uncensored_share(time[i], *of, including=of_the_paper)
    agreeing = comparable = 0.0
    for i in np.flatnonzero((event == 1) & (time <= horizon) & (sample_weight > 0)):
        for j in np.flatnonzero((strata == strata[i]) & (sample_weight > 0)):
            if time[i] < time[j] or (time[i] == time[j] and event[j] == 0):
                probability = until[i] * beyond[i]
            elif event[j] == 2:
                probability = until[i] * until[j]
            else:
                continue
            if probability > 0.0:
                pair = sample_weight[i] * sample_weight[j] / probability
                comparable += pair
                agreeing += pair * ((risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j]))
    return agreeing / comparable if comparable else None


def draw(seed, n=60, n_times=15, n_risks=12):
    rng = np.random.default_rng(seed)
    return {
        "event": rng.integers(0, 3, n),
        "time": rng.integers(1, n_times + 1, n).astype(float),
        "risk": rng.integers(0, n_risks, n) / 4,
    }, {
        "horizon": float(rng.integers(n_times // 2, n_times)),
        "strata": rng.integers(0, 3, n),
        "sample_weight": rng.integers(0, 4, n).astype(float),
    }


def concordance_or_none(*rows, **options):
    try:
        return of_rows(*rows, **options)
    except NoComparablePairException:
        return None


@pytest.mark.thorough(but=r"-[01]\]")
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("censoring", ["pooled", "stratified"])
@pytest.mark.parametrize("names", [(), ("horizon",), ("strata",), ("sample_weight",), "all"])
def test_equals_the_definition(names, censoring, seed):
    data, options = draw(seed)
    chosen = options if names == "all" else {name: options[name] for name in names}
    expected = by_definition(**data, **chosen, censoring=censoring)
    result = of_rows(**data, **chosen, censoring=censoring)
    assert result == pytest.approx(expected, rel=1e-12)


ROW = st.tuples(*(st.integers(*span) for span in [(0, 2), (1, 4), (0, 3), (0, 1), (0, 3)]))


@given(
    st.lists(ROW, min_size=1, max_size=10),
    st.integers(1, 5),
    st.sampled_from(["pooled", "stratified"]),
)
def test_equals_the_definition_on_few_rows(rows, tau, censoring):
    status, time, risk, strata, sample_weight = np.array(rows).T
    given = {
        "strata": strata,
        "sample_weight": sample_weight * 0.3,
        "horizon": tau,
        "censoring": censoring,
    }
    expected = by_definition(status, time, risk, **given)
    result = concordance_or_none(status, time, risk, **given)
    assert result == (None if expected is None else pytest.approx(expected, rel=1e-12))


# Each with the weights of its pairs, those that agree first.
BY_HAND = {
    # The last event: a row beyond (G = 2/3 twice) and a competing event before all censoring.
    "competing before censoring": ([2, 0, 1, 0], [1, 2, 3, 4], [1, 0, 2, 3], [3 / 2], [9 / 4]),
    # At time 2 one of the two that stay is censored: G(2-) = 1, G(3-) = 1/2.
    "event tied with censoring": ([2, 1, 0, 1], [1, 2, 2, 3], [9, 8, 1, 2], [1, 1], [1, 2]),
    "events tied with one another": ([1, 2, 1], [1, 1, 1], [3, 2, 1], [1], [1]),
    "competing later": ([1, 2], [1, 2], [1, 1], [0.5], [0.5]),
    "all others censored at the last": ([1, 2, 0], [2, 1, 2], [1, 0, 3], [1], [1]),
}


@pytest.mark.parametrize("case", BY_HAND)
def test_by_hand(case):
    status, time, risk, agreeing, others = BY_HAND[case]
    expected = sum(agreeing) / (sum(agreeing) + sum(others))
    assert of_rows(status, time, risk) == pytest.approx(expected, rel=1e-14)


# R 4.2.2, pec 2022.5.4, prodlim 2019.11.13, with the rows below and all of a case's tau; in the
# second case the censored rows have half a unit more:
#   cindex(list(m = matrix(risk, 40, length(tau))), Hist(time, status) ~ 1,
#          data.frame(time, status), eval.times = tau, cause = 1)$AppCindex
ROWS = np.arange(1, 41)
STATUS = ROWS * 7 % 3
TIED = (1 + ROWS * 17 % 41 // 5, ROWS * 29 % 11 / 11)
PEC = {
    "distinct times": (
        (ROWS * 17 % 41, ROWS * 29 % 23 / 23),
        {
            10: 0.798245614035088,
            20: 0.655107438016531,
            30: 0.538249444987475,
            40: 0.558151395616196,
        },
    ),
    "tied times, censored just after": (
        (TIED[0] + 0.5 * (STATUS == 0), TIED[1]),
        {2: 0.367256637168142, 4: 0.522043836663389, 6: 0.533280924741728, 9: 0.515830197385670},
    ),
}
PEC_TIED = {2: 0.358376045319666, 4: 0.518942310132593, 6: 0.530699122386838, 9: 0.497178570620057}


@pytest.mark.parametrize("case", PEC)
def test_equals_pec(case):
    rows, expected = PEC[case]
    result = {tau: of_rows(STATUS, *rows, horizon=tau) for tau in expected}
    assert result == pytest.approx(expected, rel=1e-13)


def test_it_differs_from_pec_where_events_are_tied_with_censoring():
    """There the paper's weights are greater; ours are pec's with censoring moved just after."""
    paper = {tau: by_definition(STATUS, *TIED, horizon=tau, of_the_paper=True) for tau in PEC_TIED}
    assert paper == pytest.approx(PEC_TIED, rel=1e-13)
    result = {tau: of_rows(STATUS, *TIED, horizon=tau) for tau in PEC_TIED}
    assert result == pytest.approx(PEC["tied times, censored just after"][1], rel=1e-13)


@pytest.mark.parametrize("censoring", ["pooled", "stratified"])
@pytest.mark.parametrize("seed", range(4))
def test_censored_at_the_time_of_an_event_is_as_just_after(seed, censoring):
    data, options = draw(seed)
    expected = of_rows(**data, **options, censoring=censoring)
    data["time"] = data["time"] + 0.5 * (data["event"] == 0)
    result = of_rows(**data, **options, censoring=censoring)
    assert result == pytest.approx(expected, rel=1e-14)
    paper = by_definition(**data, **options, censoring=censoring, of_the_paper=True)
    assert result == pytest.approx(paper, rel=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_without_censoring_and_competing_events_it_is_harrells(seed):
    data, options = draw(seed)
    data["event"] = np.ones(60, int)
    del options["horizon"]
    expected = concordance(surv(data["event"], data["time"]), data["risk"], **options)
    assert of_rows(**data, **options) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("tau", [None, 12.5])
@pytest.mark.parametrize("seed", range(4))
def test_without_competing_events_it_is_unos_where_censoring_is_not_tied_with_events(seed, tau):
    data, _ = draw(seed, n=200, n_times=20)
    event = data["event"] > 0
    time = data["time"] + 0.5 * ~event
    y = Surv.from_arrays(event, time)
    before_the_last = time < time[~event].max()  # where scikit-survival's G is 0
    event, time, risk, y = (v[before_the_last] for v in (event, time, data["risk"], y))
    expected = concordance_index_ipcw(y, y, risk, tau=tau)[0]
    code = event * 1
    assert of_rows(code, time, risk, horizon=tau) == pytest.approx(expected, rel=1e-12)
    tied = of_rows(code, np.floor(time), risk, horizon=tau)
    assert tied == pytest.approx(expected, rel=1e-12)


def test_it_estimates_the_concordance_without_censoring():
    rng = np.random.default_rng(0)
    n, tau = 20_000, 1.5
    risk = rng.normal(size=n)
    time, other = rng.exponential(np.exp(-risk)), rng.exponential(2.0, n)
    status, time = np.where(time < other, 1, 2), np.minimum(time, other)
    censored = rng.exponential(1.0, n)
    expected = of_rows(status, time, risk, horizon=tau)
    rows = (np.where(censored < time, 0, status), np.minimum(time, censored), risk)
    assert of_rows(*rows, horizon=tau) == pytest.approx(expected, abs=0.005)
    assert concordance(surv(rows[0] == 1, rows[1]), risk) > expected + 0.015  # without weights


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("followed_on", [0.0, 0.002, 0.1])
def test_a_study_that_ends_on_one_day(followed_on, seed):
    """Events of the last day are tied with most censoring: the paper's weights miss by 0.1."""
    rng = np.random.default_rng([seed, 365])
    n, tau = 20_000, 365
    risk = rng.normal(size=n)
    shape = np.where(risk > 0, 0.5, 2.0)  # late events are not like early ones
    time = 365 * (3.0 * rng.exponential(np.exp(-risk))) ** (1 / shape)
    other = 365 * rng.exponential(4.0, n)
    status, time = np.where(time < other, 1, 2), np.ceil(np.minimum(time, other))
    assert np.sum((status == 1) & (time == tau)) >= 5
    expected = of_rows(status, time, risk, horizon=tau)
    last = np.where(rng.random(n) < followed_on, 1000, tau)
    lost = np.minimum(last, np.ceil(365 * rng.exponential(3.0, n)))
    rows = (np.where(lost < time, 0, status), np.minimum(lost, time), risk)
    assert of_rows(*rows, horizon=tau) == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize("censoring", ["pooled", "stratified"])
def test_properties(censoring):
    data, options = draw(3)
    options["censoring"] = censoring
    expected = of_rows(**data, **options)

    def check(value, **changes):
        result = of_rows(**{**data, **options, **changes})
        assert result == pytest.approx(value, rel=1e-12)

    check(expected, risk=np.exp(data["risk"]))
    check(1.0 - expected, risk=-data["risk"])
    check(0.5, risk=np.full(60, 1.25))
    check(expected, risk=data["risk"] + np.random.default_rng(0).choice([0.0, 5e-9], 60))
    check(expected, strata=np.array(["z", "a", "m"])[options["strata"]])
    check(expected, time=np.exp(data["time"]), horizon=np.exp(options["horizon"]))
    check(expected, event=np.array([0, 4, 7])[data["event"]], event_of_interest=4)
    shuffled = np.random.default_rng(0).permutation(60)
    rows = {**data, "strata": options["strata"], "sample_weight": options["sample_weight"]}
    check(expected, **{name: values[shuffled] for name, values in rows.items()})
    copies = np.repeat(np.arange(60), options["sample_weight"].astype(int))
    rows = {name: values[copies] for name, values in rows.items()}
    check(expected, **{**rows, "sample_weight": None})


def test_a_stratum_of_its_own_censoring_is_as_if_alone():
    data, _ = draw(5)
    alone = of_rows(**data)
    doubled = {name: np.tile(values, 2) for name, values in data.items()}
    later = np.repeat([0, 1], 60)
    doubled["time"] = doubled["time"] + 1.5 * later  # another curve of censoring, the same order
    options = {"strata": later, "censoring": "stratified"}
    assert of_rows(**doubled, **options) == pytest.approx(alone, rel=1e-12)
    assert of_rows(**doubled, strata=later) != pytest.approx(alone, rel=1e-6)


def test_several_kinds_of_competing_events():
    data, options = draw(2)
    kinds = np.random.default_rng(0).integers(0, 4, 60)
    for kind in (1, 2, 3):
        as_read = np.where(kinds == kind, 1, 2 * (kinds > 0))
        rows = (data["time"], data["risk"])
        expected = by_definition(as_read, *rows, **options)
        result = of_rows(kinds, *rows, event_of_interest=kind, **options)
        assert result == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
def test_the_unit_of_weights_does_not_matter(scale):
    data, options = draw(2)
    expected = of_rows(**data, **options)
    options["sample_weight"] = options["sample_weight"] * scale
    assert of_rows(**data, **options) == pytest.approx(expected, rel=1e-12)


@pytest.mark.thorough(but=r"\[(6|300)")
@pytest.mark.parametrize("digits", [6, 70, 150, 300])
def test_weights_of_any_scale(digits):
    for seed in range(100):
        rng = np.random.default_rng([seed, digits])
        data, options = draw(seed, n=rng.integers(2, 40), n_times=5)
        options["sample_weight"] = 10.0 ** rng.uniform(-digits, digits, len(data["time"]))
        for censoring in ("pooled", "stratified"):
            result = concordance_or_none(**data, **options, censoring=censoring)
            assert result is None or 0.0 <= result <= 1.0, seed
            if digits == 6:
                expected = by_definition(**data, **options, censoring=censoring)
                assert result == (expected and pytest.approx(expected, rel=1e-11)), seed


def test_rows_that_stand_for_much_heavier_ones():
    """The last row weighs 0.01 / G = all that was censored before it, unless G < 2**-480."""
    rows = ([2, 1, 0, 1], [0.5, 1.0, 1.0, 2.0], [0.0, 1.0, 2.0, 3.0])
    for sample_weight, expected in [(1e6, 0.5), (1e100, 0.5), (1e140, 0.5), (1e308, 0.0)]:
        result = of_rows(*rows, sample_weight=[1.0, 1.0, sample_weight, 0.01])
        assert result == pytest.approx(expected, abs=1e-6)


def test_the_definition_for_estimators_has_no_checks():
    data, _ = draw(4)
    sums = count_competing_pairs(data["event"].astype(np.uint8), data["time"], data["risk"])
    assert as_concordance(*sums) == of_rows(**data)


def test_large_data_take_no_square():
    rng = np.random.default_rng(0)
    n = 200_000
    rows = (rng.integers(0, 3, n), rng.exponential(size=n), rng.normal(size=n))
    assert of_rows(*rows, horizon=3.0) == pytest.approx(0.5, abs=0.02)


def entered_by_definition(event, time, start, risk, weight, horizon):
    """All pairs, by the share of those free of events that is at risk."""
    seen = np.empty(len(time))
    for i, t in enumerate(time):
        free = 1.0
        for s in np.unique(time[time < t]):
            at_risk = weight[(start < s) & (s <= time)].sum()
            free *= 1.0 - weight[(time == s) & (event > 0)].sum() / at_risk
        seen[i] = weight[(start < t) & (t <= time)].sum() / free
    agreeing = comparable = 0.0
    for i in np.flatnonzero((event == 1) & (time <= horizon)):
        for j in range(len(time)):
            outlives = time[j] > time[i] or (time[j] == time[i] and event[j] == 0)
            if outlives and start[j] < time[i]:
                pair = weight[i] * weight[j] / seen[i] ** 2
            elif event[j] == 2 and time[j] <= time[i]:
                pair = weight[i] * weight[j] / (seen[i] * seen[j])
            else:
                continue
            comparable += pair
            agreeing += pair * ((risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j]))
    return agreeing / comparable


@pytest.mark.parametrize("seed", range(4))
def test_entry_times_equal_the_definition(seed):
    data, options = draw(seed)
    rng = np.random.default_rng(seed)
    late = np.where(rng.random(60) < 0.5, np.floor(rng.random(60) * data["time"]), 0.0)
    weight, horizon = 1.0 + options["sample_weight"], options["horizon"]
    y = competing_risks(data["event"], data["time"], start=late)
    given = {"sample_weight": weight, "horizon": horizon}
    rows = data["event"], data["time"], late, data["risk"], weight, horizon
    found = concordance_competing(y, data["risk"], **given)
    assert found == pytest.approx(entered_by_definition(*rows), rel=1e-12)
    early = competing_risks(data["event"], data["time"], start=np.zeros(60))
    for censoring in ("pooled", "stratified"):
        given |= {"censoring": censoring, "strata": options["strata"]}
        expected = of_rows(**data, **given)
        found = concordance_competing(early, data["risk"], **given)
        assert found == pytest.approx(expected, rel=1e-12)


def test_entries_of_a_stratum_without_weight_leave_others():
    status, time, risk = draw(3)[0].values()
    y, rows = competing_risks(status, time, start=0 * time), np.arange(60) < 40
    given = {"censoring": "stratified", "strata": ~rows}
    found = concordance_competing(y, risk, sample_weight=rows * 1.0, **given)
    assert found == pytest.approx(concordance_competing(y[rows], risk[rows]), rel=1e-12)


def test_late_entry_does_not_change_what_is_estimated():
    """Of 60,000 rows half enter late, by which time many are gone, or are censored."""
    rng = np.random.default_rng(7)
    n = 60_000
    x = rng.normal(size=n)
    kinds = np.column_stack([rng.exponential(np.exp(-x)), rng.exponential(2.0, n)])
    start = np.where(rng.random(n) < 0.5, rng.uniform(0.0, 1.5, n), 0.0)
    lost = start + rng.exponential(2.0, n)
    ended = kinds.min(axis=1)
    time = np.minimum(ended, lost)
    code = np.where(lost < ended, 0, 1 + kinds.argmin(axis=1))
    truth = of_rows(1 + kinds.argmin(axis=1), ended, x, horizon=1.0)
    come = time > start
    y = competing_risks(code[come], time[come], start=start[come])
    assert concordance_competing(y, x[come], horizon=1.0) == pytest.approx(truth, abs=0.004)
    assert abs(of_rows(code[come], time[come], x[come], horizon=1.0) - truth) > 0.015
    truth = concordance(surv(np.ones(n, bool), kinds[:, 0]), x, horizon=1.0)
    time = np.minimum(kinds[:, 0], lost)
    come = time > start
    y = surv((time < lost)[come], time[come], start=start[come])
    given = {"horizon": 1.0, "censoring": "pooled"}
    assert concordance(y, x[come], **given) == pytest.approx(truth, abs=0.004)


def test_nobody_left_before_others_come():
    y = competing_risks([1, 2, 1, 0], [1.0, 3.0, 4.0, 5.0], start=[0.0, 2.0, 2.0, 2.0])
    message = "Before the time 3 all rows at risk had events, and others entered later"
    with pytest.raises(ValueError, match=message):
        concordance_competing(y, [3.0, 2.0, 1.0, 0.0])
    assert concordance_competing(y[1:], [2.0, 1.0, 0.0]) == pytest.approx(0.5)


@pytest.mark.parametrize("horizon", [3.0, 4.0])
def test_nobody_left_beyond_the_horizon(horizon):
    """At 5 all at risk have events, and others come at 6: weights by 4 are those without them."""
    code, time = [1, 0, 1, 2, 1, 1, 1], [1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 9.0]
    y = competing_risks(code, time, start=[0.0, 0.0, 0.0, 1.0, 2.0, 6.0, 7.0])
    risk = np.array([2.0, 6.0, 1.0, 3.0, 0.0, 4.0, 5.0])
    with pytest.raises(ValueError, match="Before the time 8 all rows at risk had events"):
        concordance_competing(y, risk)
    last = y["start"] > 5.0
    truth = concordance_competing(y[~last], risk[~last], horizon=horizon)
    assert concordance_competing(y, risk, horizon=horizon) == pytest.approx(truth, rel=1e-12)
    y = surv(y["event"] == 1, y["time"], start=y["start"])
    given = {"horizon": horizon, "censoring": "pooled"}
    truth = concordance(y[~last], risk[~last], **given)
    assert concordance(y, risk, **given) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize(
    ("status", "time", "options"),
    [
        ([0, 2], [1.0, 2.0], {}),
        ([1, 1], [1.0, 1.0], {}),
        ([1, 2], [2.0, 3.0], {"horizon": 1.0}),
        ([1, 2], [2.0, 3.0], {"strata": [0, 1]}),
        ([1, 2], [2.0, 3.0], {"sample_weight": [0.0, 1.0]}),
    ],
    ids=["no event", "tied events", "horizon", "strata", "sample_weight 0"],
)
def test_no_pairs(status, time, options):
    with pytest.raises(NoComparablePairException, match="no two rows can be compared"):
        of_rows(np.array(status, int), time, np.zeros(len(time)), **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"risk": [1.0, np.nan]}, "`risk` has 1 NaN or infinite value(s), the first in row 1"),
        ({"y": surv([True, False], [1.0, 2.0])}, "field 'event' of `y` has dtype bool, in which"),
        ({"y": [1, 2]}, "`y` is of type list, must be a structured array; build it with"),
        ({"sample_weight": [1.0, -1.0]}, "`sample_weight` is -1 in row 1, must be at least 0."),
        ({"strata": ["a"]}, "`strata` has 1 entries, `y` has 2 entries"),
        (
            {"event_of_interest": 0},
            "`event_of_interest` is 0, must be a positive code; 0 stands for",
        ),
        (
            {"event_of_interest": True},
            "`event_of_interest` is True of type bool; pass an integer code.",
        ),
        ({"horizon": np.nan}, "`horizon` is nan, must be a number or None."),
        ({"horizon": "1"}, "`horizon` is '1', must be a number or None."),
        ({"tied_tol": -1.0}, "`tied_tol` is -1.0, must be a finite number of at least 0."),
        ({"tied_tol": np.nan}, "`tied_tol` is nan, must be a finite number of at least 0."),
        ({"censoring": "none"}, "`censoring` is 'none', must be one of 'pooled', 'stratified'."),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input(change, message):
    rows = {"y": competing_risks([1, 2], [1.0, 2.0]), "risk": [1.0, 0.0]}
    with pytest.raises((TypeError, ValueError)) as raised:
        concordance_competing(**{**rows, **change})
    assert str(raised.value).startswith(message)
