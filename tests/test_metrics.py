"""Concordance against the definition and against scikit-survival."""

import numpy as np
import pytest
from grids import thin
from sksurv.exceptions import NoComparablePairException
from sksurv.metrics import concordance_index_censored, concordance_index_ipcw
from whole_numbers import AGE, CODE, DRUG, ROW, TIME

from sksurvgpu import competing_risks, surv
from sksurvgpu.metrics import concordance
from sksurvgpu.metrics.pairs import (
    as_concordance,
    concordance_error,
    count_by_row,
    count_pairs,
    scale_weights,
)


def of_rows(event, time, risk, *, start=None, **options):
    return concordance(surv(event, time, start=start), risk, **options)


def by_definition(event, time, risk, start, strata, sample_weight):
    """All pairs; None where there are none."""
    agreeing = comparable = 0.0
    for i in np.flatnonzero(event):
        for j in range(len(time)):
            outlives = time[j] > time[i] or (time[j] == time[i] and not event[j])
            if strata[j] == strata[i] and start[j] < time[i] and outlives:
                pair = sample_weight[i] * sample_weight[j]
                comparable += pair
                agreeing += pair * ((risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j]))
    return agreeing / comparable if comparable else None


def draw(seed, n=80, n_times=15, n_risks=12):
    rng = np.random.default_rng(seed)
    time = rng.integers(1, n_times + 1, n).astype(float)
    return {
        "event": rng.random(n) < 0.6,
        "time": time,
        "risk": rng.integers(0, n_risks, n) / 4,
        "start": np.floor(rng.random(n) * time),
        "strata": rng.integers(0, 3, n),
        "sample_weight": rng.integers(0, 4, n).astype(float),
    }


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("given", [(), ("start",), ("strata",), ("sample_weight",), "all"])
def test_equals_the_definition(seed, given):
    data = draw(seed)
    given = ("start", "strata", "sample_weight") if given == "all" else given
    chosen = {name: data[name] for name in given}
    full = {
        "start": np.full(80, -np.inf),
        "strata": np.zeros(80),
        "sample_weight": np.ones(80),
        **chosen,
    }
    rows = (data["event"], data["time"], data["risk"])
    assert of_rows(*rows, **chosen) == pytest.approx(by_definition(*rows, **full), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_equals_scikit_survival(seed):
    data = draw(seed, n=300, n_times=40, n_risks=100)
    risk = data["risk"] + np.random.default_rng(seed).choice([0.0, 3e-9, 1e-6], 300)
    rows = (data["event"], data["time"], risk)
    assert of_rows(*rows) == pytest.approx(concordance_index_censored(*rows)[0], rel=1e-12)


# R 4.2.2, survival 3.5-3, with the rows of `whole_numbers`:
#   r <- 0.6 * age - 0.3 * drug + sin(1:150) / 2
#   concordance(Surv(time, code > 0) ~ r, timewt = ..., ymax = ..., reverse = TRUE)$concordance
SURVIVAL = {
    (None, 0.9): 0.6009409751924721,
    (None, 1.7): 0.5983756877128635,
    (None, None): 0.5983328991924981,
    ("pooled", 0.9): 0.6029273297194999,  # timewt = "n/G2"
    ("pooled", 1.7): 0.5982528733790244,
    ("pooled", None): 0.5923272529246216,
}


@pytest.mark.parametrize(("censoring", "horizon"), SURVIVAL)
def test_equals_survival(censoring, horizon):
    risk = 0.6 * AGE - 0.3 * DRUG + np.sin(ROW) / 2
    y = surv(CODE > 0, TIME)
    found = concordance(y, risk, censoring=censoring, horizon=horizon)
    assert found == pytest.approx(SURVIVAL[censoring, horizon], rel=1e-13)
    if censoring and horizon:
        unos = concordance_index_ipcw(y, y, risk, tau=horizon)[0]
        assert found == pytest.approx(unos, rel=1e-12)


def test_events_at_the_horizon_count():
    data = draw(2)
    event, time, risk = data["event"], data["time"], data["risk"]
    early = event & (time <= 7)
    expected = by_definition(early, time, risk, np.zeros(80), np.zeros(80), np.ones(80))
    assert of_rows(event, time, risk, horizon=7) == pytest.approx(expected, rel=1e-12)
    assert (early & (time == 7)).any()


@pytest.mark.parametrize("censoring", [None, "pooled", "stratified"])
def test_strata_weights_and_entries_with_weights_for_censoring(censoring):
    """What is censored by nobody needs no weights; who enters at the beginning enters early."""
    data = draw(6)
    given = {"strata": data["strata"], "sample_weight": data["sample_weight"]}
    rows = np.ones(80, bool), data["time"], data["risk"]
    assert of_rows(*rows, **given, censoring=censoring) == pytest.approx(of_rows(*rows, **given))
    rows = data["event"], data["time"], data["risk"]
    early = of_rows(*rows, **given, censoring=censoring, horizon=9)
    zero = of_rows(*rows, **given, censoring=censoring, horizon=9, start=np.zeros(80))
    assert early == pytest.approx(zero, rel=1e-12)


def test_a_weight_is_a_number_of_copies():
    data = draw(3)
    copies = np.repeat(np.arange(80), data["sample_weight"].astype(int))
    rows = (data["event"], data["time"], data["risk"])
    weighted = of_rows(*rows, sample_weight=data["sample_weight"])
    assert weighted == pytest.approx(of_rows(*(values[copies] for values in rows)), rel=1e-12)


def test_extremes():
    event, time = np.ones(50, bool), np.arange(50) + 1.0
    assert of_rows(event, time, -time) == 1.0
    assert of_rows(event, time, time) == 0.0
    assert of_rows(event, time, np.zeros(50)) == 0.5


def concordance_or_none(event, time, risk, *, start, strata, sample_weight):
    """Of any entry times, also late ones, which outcomes cannot have."""
    weight = scale_weights(sample_weight)
    sums = count_pairs(event, time, risk, start=start, stratum=strata, weight=weight)
    try:
        return as_concordance(*sums)
    except NoComparablePairException:
        return None


WEIGHTS = {
    "0 and 1": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "alike": lambda rng, n: rng.uniform(0.1, 2.0, n),
    "1e-6 to 1e6": lambda rng, n: 10.0 ** rng.uniform(-6, 6, n),
    "1e-70 to 1e70": lambda rng, n: 10.0 ** rng.uniform(-70, 70, n),
}


@pytest.mark.parametrize(
    ("weights", "n", "entry"), thin(5, WEIGHTS, [2, 4, 9, 60], ["before the exit", "anywhere"])
)
def test_entry_times_with_weights_of_any_scale(weights, n, entry):
    for seed in range(30 if n == 60 else 150):
        data = draw(seed, n=n, n_times=8, n_risks=6)
        rng = np.random.default_rng([seed, n])
        sample_weight = WEIGHTS[weights](rng, n)
        start = data["start"] if entry == "before the exit" else rng.permutation(data["time"])
        rows = (data["event"], data["time"], data["risk"])
        expected = by_definition(*rows, start, data["strata"], sample_weight)
        result = concordance_or_none(
            *rows, start=start, strata=data["strata"], sample_weight=sample_weight
        )
        if expected is None or result is None:
            assert result is expected, seed
        else:
            assert 0.0 <= result <= 1.0, seed
            assert result == pytest.approx(expected, rel=1e-12, abs=0.0), seed


@pytest.mark.parametrize("sign", [1, -1])
def test_extremes_with_entry_times_and_weights(sign):
    rng = np.random.default_rng(0)
    for n in range(10, 200):
        time = rng.permutation(n) + 1.0
        given = {"start": time * rng.random(n), "sample_weight": 10.0 ** rng.uniform(-5, 5, n)}
        rows = (rng.random(n) < 0.9, time)
        assert of_rows(*rows, -sign * time, **given) == (sign + 1) / 2
        assert of_rows(*rows, np.zeros(n), **given) == 0.5


def test_heavy_rows_that_have_left_cost_no_digits():
    """Half the rows, 1e6 times as heavy and more, are at risk at no event of the others."""
    rng = np.random.default_rng(0)
    n = 2_000
    time, risk, event = rng.exponential(size=n), rng.normal(size=n), rng.random(n) < 0.5
    start, sample_weight = time * rng.random(n), 10.0 ** rng.uniform(-6, 0, n)
    heavy = np.arange(n) % 2 == 1
    time[heavy] += 100.0
    start[heavy] += 100.0
    sample_weight[heavy] *= 1e6
    event[heavy] = False
    light = [values[~heavy] for values in (event, time, risk, start, sample_weight)]
    alone = of_rows(*light[:3], start=light[3], sample_weight=light[4])
    result = of_rows(event, time, risk, start=start, sample_weight=sample_weight)
    assert result == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
def test_the_unit_of_weights_does_not_matter(scale):
    data = draw(2)
    rows = (data["event"], data["time"], data["risk"])
    expected = of_rows(*rows, sample_weight=data["sample_weight"])
    result = of_rows(*rows, sample_weight=data["sample_weight"] * scale)
    assert result == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_sums_of_pieces_of_the_rows_can_be_added(scale):
    """Strata by themselves, the heaviest rows in one of them."""
    data = draw(6)
    rows = (data["event"], data["time"], data["risk"])
    sample_weight = data["sample_weight"] * scale * np.where(data["strata"] == 2, 1e6, 1.0)
    expected = of_rows(*rows, strata=data["strata"], sample_weight=sample_weight)
    scaled, sums = scale_weights(sample_weight), np.zeros(2)
    for label in range(3):
        mine = data["strata"] == label
        sums += count_pairs(*(values[mine] for values in rows), weight=scaled[mine])
    assert as_concordance(*sums) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_pairs_of_each_row(seed):
    """Sums over all pairs in two loops; some rows leave when they come, as those of pieces may."""
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 50)
    time, risk = rng.integers(1, 12, n) * 1.0, rng.integers(0, 6, n) * 1.0
    start = np.minimum(rng.integers(0, 6, n) * 1.0, time)
    event, stratum = (rng.random(n) < 0.6) & (start < time), rng.integers(0, 3, n)
    weight, expected = rng.integers(0, 4, n) * 1.0, np.zeros((n, 2))
    for i in np.flatnonzero(event):
        outlives = (time > time[i]) | ((time == time[i]) & ~event)
        outlives &= (start < time[i]) & (stratum == stratum[i])
        for j in np.flatnonzero(outlives):
            agrees = 0.5 * ((risk[i] > risk[j]) + 1.0 * (risk[i] >= risk[j]))
            expected[i] += weight[j] * np.array([agrees, 1.0])
            expected[j] += weight[i] * np.array([agrees, 1.0])
    given = {"start": start, "stratum": stratum, "weight": weight}
    found = count_by_row(event, time, risk, **given)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(0.5 * weight @ found, count_pairs(event, time, risk, **given))


def test_error_of_a_concordance_without_pairs():
    none = np.zeros(3)
    assert np.isnan(concordance_error(none, none, np.ones(3))).all()


def test_scaled_weights():
    sample_weight = np.array([0.0, 5e-324, 1.0, 3.0, 1e308])
    scaled = scale_weights(sample_weight)
    assert 2.0**479 <= scaled.max() < 2.0**480
    assert np.array_equal(scaled[2:] / scaled.max(), sample_weight[2:] / sample_weight.max())
    assert scaled[0] == 0.0 and scaled[1] == np.ldexp(1.0, -1074 + 480 - 1024)
    assert scale_weights(None) is None
    assert np.array_equal(scale_weights(np.zeros(3)), np.zeros(3))
    assert scale_weights(np.empty(0)).size == 0


def test_labels_of_strata_may_be_anything():
    data = draw(1)
    rows = (data["event"], data["time"], data["risk"])
    letters = np.array(["z", "a", "m"])[data["strata"]]
    expected = of_rows(*rows, strata=data["strata"])
    assert of_rows(*rows, strata=letters) == pytest.approx(expected, rel=1e-12)


def test_large_data_take_no_square():
    rng = np.random.default_rng(0)
    n = 200_000
    time = rng.exponential(size=n)
    assert of_rows(rng.random(n) < 0.5, time, rng.normal(size=n)) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize(
    "rows",
    [([False, False], [1.0, 2.0], [0.0, 0.0]), ([True, True], [1.0, 1.0], [0.0, 1.0])],
    ids=["no event", "tied events"],
)
def test_no_pairs(rows):
    with pytest.raises(NoComparablePairException, match="no two rows can be compared"):
        of_rows(*rows)


def test_no_pairs_with_entry_times_whatever_the_weights():
    rng = np.random.default_rng(0)
    rows = ([1, 0, 0, 1], [6, 4, 3, 1], [0.3, 0.1, 0.2, 0.4])
    for sample_weight in [[1.2, 1.5, 0.2, 1.3], *rng.uniform(0.1, 2.0, (200, 4))]:
        with pytest.raises(NoComparablePairException, match="no two rows can be compared"):
            of_rows(*rows, start=[4, 3, 1, 0], sample_weight=sample_weight)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"risk": [1.0, np.nan]}, "`risk` has 1 NaN or infinite value(s), the first in row 1"),
        ({"risk": [1.0]}, "`risk` has 1 entries, `y` has 2 entries"),
        ({"sample_weight": [1.0, -1.0]}, "`sample_weight` is -1 in row 1, must be at least 0."),
        ({"strata": ["a"]}, "`strata` has 1 entries, `y` has 2 entries"),
        ({"horizon": "1"}, "`horizon` is '1', must be a number or None."),
        ({"tied_tol": -1.0}, "`tied_tol` is -1.0, must be a finite number of at least 0."),
        ({"tied_tol": np.nan}, "`tied_tol` is nan, must be a finite number of at least 0."),
        (
            {"censoring": "uno"},
            "`censoring` is 'uno', must be one of None, 'pooled', 'stratified'.",
        ),
        ({"y": [1, 0]}, "`y` is of type list, must be a structured array; build it with"),
        ({"y": competing_risks([1, 0], [1.0, 2.0])}, "`y` has dtype int64 in its first field"),
        (
            {"y": surv([1, 0], [1.0, 2.0], stratum=[1, 1]), "strata": [1, 1]},
            "`strata` was passed and `y` has a field 'stratum'",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input(change, message):
    with pytest.raises((TypeError, ValueError)) as raised:
        concordance(**{"y": surv([True, False], [1.0, 2.0]), "risk": [1.0, 0.0], **change})
    assert str(raised.value).startswith(message)


def test_strata_and_starts_of_the_outcome_are_read():
    data = draw(5)
    rows = data["event"], data["time"]
    y = surv(*rows, start=data["start"], stratum=data["strata"])
    expected = by_definition(*rows, data["risk"], data["start"], data["strata"], np.ones(80))
    assert concordance(y, data["risk"]) == pytest.approx(expected, rel=1e-12)
