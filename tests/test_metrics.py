"""Concordance against the definition and against scikit-survival."""

import numpy as np
import pytest
from sksurv.exceptions import NoComparablePairException
from sksurv.metrics import concordance_index_censored

from sksurvgpu.metrics import concordance


def by_definition(event, time, risk, start, stratum, weight):
    """All pairs."""
    agreeing = comparable = 0.0
    for i in np.flatnonzero(event):
        for j in range(len(time)):
            outlives = time[j] > time[i] or (time[j] == time[i] and not event[j])
            if stratum[j] == stratum[i] and start[j] < time[i] and outlives:
                pair = weight[i] * weight[j]
                comparable += pair
                agreeing += pair * ((risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j]))
    return agreeing / comparable


def draw(seed, n=80, n_times=15, n_risks=12):
    rng = np.random.default_rng(seed)
    time = rng.integers(1, n_times + 1, n).astype(float)
    return {
        "event": rng.random(n) < 0.6,
        "time": time,
        "risk": rng.integers(0, n_risks, n) / 4,
        "start": np.floor(rng.random(n) * time),
        "stratum": rng.integers(0, 3, n),
        "weight": rng.integers(0, 4, n).astype(float),
    }


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("given", [(), ("start",), ("stratum",), ("weight",), "all"])
def test_equals_the_definition(seed, given):
    data = draw(seed)
    given = ("start", "stratum", "weight") if given == "all" else given
    chosen = {name: data[name] for name in given}
    full = {
        "start": np.full(80, -np.inf),
        "stratum": np.zeros(80),
        "weight": np.ones(80),
        **chosen,
    }
    rows = (data["event"], data["time"], data["risk"])
    assert concordance(*rows, **chosen) == pytest.approx(by_definition(*rows, **full), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_equals_scikit_survival(seed):
    data = draw(seed, n=300, n_times=40, n_risks=100)
    risk = data["risk"] + np.random.default_rng(seed).choice([0.0, 3e-9, 1e-6], 300)
    rows = (data["event"], data["time"], risk)
    assert concordance(*rows) == pytest.approx(concordance_index_censored(*rows)[0], rel=1e-12)


def test_a_weight_is_a_number_of_copies():
    data = draw(3)
    copies = np.repeat(np.arange(80), data["weight"].astype(int))
    rows = (data["event"], data["time"], data["risk"])
    weighted = concordance(*rows, weight=data["weight"])
    assert weighted == pytest.approx(concordance(*(values[copies] for values in rows)), rel=1e-12)


def test_extremes():
    event, time = np.ones(50, bool), np.arange(50) + 1.0
    assert concordance(event, time, -time) == 1.0
    assert concordance(event, time, time) == 0.0
    assert concordance(event, time, np.zeros(50)) == 0.5


def test_labels_of_strata_may_be_anything():
    data = draw(1)
    rows = (data["event"], data["time"], data["risk"])
    letters = np.array(["z", "a", "m"])[data["stratum"]]
    expected = concordance(*rows, stratum=data["stratum"])
    assert concordance(*rows, stratum=letters) == pytest.approx(expected, rel=1e-12)


def test_large_data_take_no_square():
    rng = np.random.default_rng(0)
    n = 200_000
    time = rng.exponential(size=n)
    assert concordance(rng.random(n) < 0.5, time, rng.normal(size=n)) == pytest.approx(
        0.5, abs=0.01
    )


@pytest.mark.parametrize(
    "rows",
    [([False, False], [1.0, 2.0], [0.0, 0.0]), ([True, True], [1.0, 1.0], [0.0, 1.0])],
    ids=["no event", "tied events"],
)
def test_no_pairs(rows):
    with pytest.raises(NoComparablePairException, match="no two rows can be compared"):
        concordance(*rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"risk": [1.0, np.nan]}, "`risk` has 1 NaN or infinite value(s), the first in row 1"),
        ({"time": [1.0]}, "`time` has 1 entries, `event` has 2 entries"),
        ({"event": [1, 2]}, "`event` has values other than 0 and 1; pass booleans or 0/1."),
        ({"weight": [1.0, -1.0]}, "`weight` is -1 in row 1, must be at least 0."),
        ({"stratum": ["a"]}, "`stratum` has 1 entries, `event` has 2 entries"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_input(change, message):
    with pytest.raises(ValueError) as raised:
        concordance(**{"event": [True, False], "time": [1.0, 2.0], "risk": [1.0, 0.0], **change})
    assert str(raised.value).startswith(message)
