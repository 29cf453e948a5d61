"""Curves, tests and means of groups: their definitions, limits of the data, bad input."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstwobign

from sksurvgpu import competing_risks, surv
from sksurvgpu.data.outcomes.fields import pack
from sksurvgpu.nonparametric import aalen_johansen, kaplan_meier, log_rank, restricted_mean
from sksurvgpu.nonparametric.limits import bridge_bound


def draw(seed, n=60, has_start=True, n_kinds=2):
    """Rows with ties, entries, weights, subjects of several rows, and groups."""
    rng = np.random.default_rng(seed)
    time = rng.integers(1, 12, n).astype(float)
    rows = {
        "event": rng.integers(0, n_kinds + 1, n),
        "time": time,
        "start": np.floor(time * rng.random(n) * 0.6) if has_start else None,
        "subject": rng.integers(0, n // 3, n),
    }
    return rows, rng.integers(1, 9, n) / 4.0, rng.integers(0, 3, n)


def curve_by_definition(rows, weight, kind, at):
    """Survival of any event, and risk of a kind, by a time."""
    start = np.zeros(len(weight)) if rows["start"] is None else rows["start"]
    surviving, found = 1.0, 0.0
    for s in np.unique(rows["time"][rows["time"] <= at]):
        n = weight[(start < s) & (rows["time"] >= s)].sum()
        is_now = rows["time"] == s
        found += surviving * weight[is_now & (rows["event"] == kind)].sum() / n
        surviving *= 1.0 - weight[is_now & (rows["event"] > 0)].sum() / n
    return surviving, found


def jackknife(statistic, weight, subject):
    """Root of the sum over subjects of the squares of their derivatives, by differences."""
    step = 1e-6
    slopes = []
    for i in range(len(weight)):
        up, down = weight.copy(), weight.copy()
        up[i] += step
        down[i] -= step
        slopes.append(weight[i] * (statistic(up) - statistic(down)) / (2.0 * step))
    return np.sqrt(np.sum(np.bincount(subject, slopes) ** 2))


@pytest.mark.thorough(but=r"-0\]")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("has_start", [False, True])
def test_curves_and_errors_by_definition(seed, has_start):
    rows, weight, group = draw(seed, has_start=has_start)
    times = [2.0, 5.5, 8.0]
    single = pack(rows | {"event": rows["event"] > 0})
    survival = kaplan_meier(single, groups=group, sample_weight=weight).at(times)
    risks = aalen_johansen(pack(rows), groups=group, sample_weight=weight).at(times)
    for g in range(3):
        own = {k: None if v is None else v[group == g] for k, v in rows.items()}
        for t in times:
            for kind in (1, 2):
                given = own, weight[group == g]

                def statistic(weight, which=1, own=own, kind=kind, t=t):
                    return curve_by_definition(own, weight, kind, t)[which]

                found = risks.loc[g, kind, t]
                assert found["incidence"] == pytest.approx(statistic(given[1]), rel=1e-12)
                error = jackknife(statistic, given[1], own["subject"])
                assert found["standard_error"] == pytest.approx(error, rel=1e-6)
            found = survival.loc[g, t]
            expected = curve_by_definition(*given, 1, t)[0]
            assert found["survival"] == pytest.approx(expected, rel=1e-12)
            error = jackknife(lambda w: statistic(w, 0), given[1], own["subject"])
            assert found["standard_error"] == pytest.approx(error, rel=1e-6, abs=1e-12)


def test_whole_weights_are_copies():
    rows, _, group = draw(4, has_start=False)
    y = surv(rows["event"] > 0, rows["time"])
    times = 1 + np.arange(len(y)) % 3
    again = np.repeat(np.arange(len(y)), times)
    for statistic in (
        lambda y, g, w: kaplan_meier(y, groups=g, sample_weight=w).table.drop(columns="group"),
        lambda y, g, w: restricted_mean(y, 8, groups=g, sample_weight=w).table,
        lambda y, g, w: log_rank(y, g, sample_weight=w).covariance,
        lambda y, g, w: log_rank(y, g, sample_weight=w).statistic,
    ):
        found = statistic(y, group, times.astype(float))
        np.testing.assert_allclose(found, statistic(y[again], group[again], None), rtol=1e-12)


def test_errors_without_weights_are_those_with():
    """The delta method has the variance of the jackknife, which any weights ask for."""
    rows, _, group = draw(5, n=200, has_start=False)
    y = competing_risks(rows["event"], rows["time"])
    plain = aalen_johansen(y, groups=group)
    weighted = aalen_johansen(y, groups=group, sample_weight=np.full(len(y), 2.5))
    assert not plain.robust and weighted.robust
    for column in ("incidence", "standard_error"):
        found = weighted.table[column]
        np.testing.assert_allclose(plain.table[column], found, rtol=1e-10, atol=1e-14)


def test_incidences_and_survival_sum_up_to_one():
    rows, weight, group = draw(6)
    risks = aalen_johansen(pack(rows), groups=group, sample_weight=weight).at([3, 7])
    y = surv(rows["event"] > 0, rows["time"], start=rows["start"])
    survival = kaplan_meier(y, groups=group, sample_weight=weight).at([3, 7])["survival"]
    total = risks["incidence"].groupby(level=["group", "time"]).sum()
    np.testing.assert_allclose(total + survival, 1.0, rtol=1e-13)


def test_groups_are_single_curves():
    rows, weight, group = draw(7, n=400)
    y = surv(rows["event"] > 0, rows["time"], start=rows["start"])
    labels = np.array(["b", "a", "c"])[group]
    curves = kaplan_meier(y, groups=labels, sample_weight=weight, interval="log-log")
    assert curves.groups == list(dict.fromkeys(labels))
    for label in "abc":
        own = labels == label
        alone = kaplan_meier(y[own], sample_weight=weight[own], interval="log-log").table
        found = curves.table[curves.table["group"] == label].reset_index(drop=True)
        pd.testing.assert_frame_equal(
            found.drop(columns="group"), alone.drop(columns="group"), rtol=1e-12
        )
    ordered = kaplan_meier(y, groups=pd.Categorical(labels, ["c", "a", "b"]))
    assert ordered.groups == ["c", "a", "b"]
    cut = pd.cut(pd.Series(group), [-1, 0, 1, 2])  # what pandas calls intervals
    assert kaplan_meier(y, groups=cut[::-1]).groups == ["(-1, 0]", "(0, 1]", "(1, 2]"]
    of_cut = kaplan_meier(y, groups=cut).table["survival"]
    pd.testing.assert_series_equal(of_cut, kaplan_meier(y, groups=group).table["survival"])
    by_stratum = kaplan_meier(surv(y["event"], y["time"], start=y["start"], stratum=labels))
    assert by_stratum.groups == ["a", "b", "c"]


def test_values_at_times():
    y = surv([1, 0, 1, 0], [2.0, 3.0, 4.0, 6.0], start=[0.0, 0.0, 2.5, 2.5])
    found = kaplan_meier(y).at([0, 1, 2, 2.2, 3, 5, 6, 7]).droplevel("group")
    assert found["n_at_risk"].tolist() == [2, 2, 2, 1, 3, 1, 1, 0]
    np.testing.assert_array_equal(found["survival"], [1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, np.nan])
    assert found["lower"].iloc[0] == 1.0
    assert np.isnan(kaplan_meier(y, interval="log-log").at(0)["lower"].iloc[0])
    ended = surv([1, 1], [2.0, 3.0])
    assert kaplan_meier(ended).at(9)["survival"].tolist() == [0.0]
    risks = aalen_johansen(competing_risks([1, 2], [2.0, 3.0])).at([1, 9])
    assert risks["incidence"].tolist() == [0.0, 0.5, 0.0, 0.5]
    assert np.isnan(aalen_johansen(competing_risks([1, 0], [2.0, 3.0])).at(9)["incidence"].iloc[0])


def test_a_group_without_events_has_a_curve_at_one():
    y = surv([0, 0, 1], [2.0, 3.0, 1.0])
    curves = kaplan_meier(y, groups=["none", "none", "some"])
    assert (curves.table.loc[:1, "survival"] == 1.0).all()
    assert curves.median.loc["none"].isna().all() and curves.median.loc["some", "quantile"] == 1.0
    assert curves.functions["none"](1.0) == 1.0
    none = aalen_johansen(competing_risks([0, 0], [2.0, 3.0]))
    assert none.events == [1] and (none.table["incidence"] == 0.0).all()
    assert restricted_mean(y[:2], 3).table["mean"].item() == 3.0


def test_medians_between_equal_values():
    """As survfit: a curve that is at one half for a while has its median in the middle."""
    curves = kaplan_meier(surv([1, 1, 1, 1], [1.0, 2.0, 4.0, 8.0]))
    assert curves.median["quantile"].item() == 3.0
    assert curves.quantiles([0.0, 0.25, 1.0])["quantile"].tolist() == [0.0, 1.5, 8.0]


def test_weights_of_zero_count_for_nothing():
    rows, weight, group = draw(8)
    y = surv(rows["event"] > 0, rows["time"], start=rows["start"])
    weight[::3] = 0.0
    kept = weight > 0.0
    found = kaplan_meier(y, sample_weight=weight).at([4, 6])
    np.testing.assert_allclose(found, kaplan_meier(y[kept], sample_weight=weight[kept]).at([4, 6]))
    found = log_rank(y, group, sample_weight=weight).statistic
    expected = log_rank(y[kept], group[kept], sample_weight=weight[kept]).statistic
    assert found == pytest.approx(expected, rel=1e-12)
    subject = [0, 1, 2, 3, 0, 1]
    y = surv([1] * 6, [1.0, 2, 3, 4, 5, 6], start=[0, 0, 0, 0, 1, 2], subject=subject)
    found = log_rank(y, list("ababcc"), sample_weight=[1, 1, 1, 1, 0, 0])
    assert not found.robust  # second events alone would make it so
    pd.testing.assert_frame_equal(found.table, log_rank(y[:4], list("abab")).table)
    with pytest.raises(ValueError, match="one value, 'a' in rows of positive weight; pass labels"):
        log_rank(y, list("aaaabb"), sample_weight=[1, 1, 1, 1, 0, 0])


def test_rows_without_weight_do_not_prolong_curves():
    weight, group = np.array([1.0, 1, 1, 0, 0, 0]), list("aaabba")
    y = surv([1, 0, 1, 1, 0, 0], [1.0, 2, 3, 2, 4, 10])
    kept = {"sample_weight": weight[:3], "groups": group[:3]}
    given = {"sample_weight": weight, "groups": group}
    for found, expected in (
        (restricted_mean(y, 3, **given).table, restricted_mean(y[:3], 3, **kept).table),
        (kaplan_meier(y, **given).table, kaplan_meier(y[:3], **kept).table),
    ):
        pd.testing.assert_frame_equal(found, expected)
    censored = surv([1, 0, 0], [1.0, 2, 10])
    with pytest.raises(ValueError, match="last row is censored at 2"):
        restricted_mean(censored, 9, sample_weight=[1, 1, 0])
    curves = aalen_johansen(competing_risks([1, 0, 0], [1.0, 2, 10]), sample_weight=[1, 1, 0])
    assert np.isnan(curves.at([11])["incidence"]).all()


# Hall and Wellner's table, as Klein and Moeschberger print it in their appendix C.
@pytest.mark.parametrize(
    ("end", "level", "bound"),
    [(0.1, 0.9, 0.5985), (0.3, 0.9, 0.9597), (0.6, 0.9, 1.1813), (1.0, 0.9, 1.2239)],
)
def test_bounds_of_bridges(end, level, bound):
    assert bridge_bound(end, level) == pytest.approx(bound, abs=6e-5)
    assert bridge_bound(1.0, level) == pytest.approx(kstwobign.ppf(level), rel=1e-9)


def test_bands_hold_whole_curves():
    """20 in 400 are expected to leave a band of 95%, give or take 4.4."""
    rng = np.random.default_rng(0)
    n, n_curves = 100, 400
    time, censored = rng.exponential(size=(2, n * n_curves))
    y = surv(time <= 2.0 * censored, np.minimum(time, 2.0 * censored))
    curves = kaplan_meier(
        y, groups=np.repeat(np.arange(n_curves), n), interval="log-log", band="hall-wellner"
    ).table
    truth = np.exp(-curves["time"])
    before = np.exp(-curves.groupby("group", observed=True)["time"].shift(fill_value=0.0))
    is_out = (curves["band_lower"] > truth) | (curves["band_upper"] < truth)
    is_out |= curves["band_lower"].groupby(curves["group"], observed=True).shift() > before
    n_out = is_out.groupby(curves["group"], observed=True).any().sum()
    assert 5 < n_out < 38
    inside = curves.dropna(subset=["band_lower", "lower"])
    assert (inside["band_lower"] <= inside["lower"]).mean() > 0.9


def test_results_are_kept_and_say_what_they_are():
    rows, weight, group = draw(9)
    y = surv(rows["event"] > 0, rows["time"], start=rows["start"])
    results = [
        kaplan_meier(y, groups=group),
        aalen_johansen(competing_risks(rows["event"], rows["time"]), groups=group),
        log_rank(y, group, sample_weight=weight),
        restricted_mean(y, 8, groups=group),
    ]
    for result in results:
        again = pickle.loads(pickle.dumps(result))
        pd.testing.assert_frame_equal(again.table, result.table)
        assert repr(again) == repr(result) and "3 groups" in repr(result)
    times = np.linspace(0, 11, 23)
    for label, function in results[0].functions.items():
        found = results[0].at(times[times <= function.x[-1]]).loc[label, "survival"]
        np.testing.assert_array_equal(function(found.index.to_numpy()), found)


def test_references_of_contrasts():
    rows, _, group = draw(10)
    means = restricted_mean(surv(rows["event"] > 0, rows["time"]), 8, groups=group)
    against_first, against_last = means.differences(), means.differences(reference=2)
    assert against_last.index.tolist() == [0, 1]
    there, back = against_last.loc[0, "difference"], against_first.loc[2, "difference"]
    assert there == pytest.approx(-back)
    assert means.ratios(reference=2).loc[0, "ratio"] * means.ratios().loc[2, "ratio"] == (
        pytest.approx(1.0)
    )


def test_log_rank_of_many_groups_in_blocks(monkeypatch):
    rows, _, _ = draw(11, n=300)
    group = np.arange(300) % 17
    y = surv(rows["event"] > 0, rows["time"], start=rows["start"])
    whole = log_rank(y, group)
    monkeypatch.setattr(sys.modules[log_rank.__module__], "BLOCK", 40)
    np.testing.assert_allclose(log_rank(y, group).covariance, whole.covariance, rtol=1e-12)


Y = surv([1, 0, 1, 1, 0], [2.0, 5.0, 3.0, 5.0, 6.0])
GROUPS = ["a", "a", "b", "b", "b"]
WRONG = {
    "level": (lambda: kaplan_meier(Y, level=95), "`level` is 95, must lie between 0 and 1"),
    "interval": (lambda: kaplan_meier(Y, interval="cloglog"), "`interval` is 'cloglog'; pass one"),
    "band": (lambda: kaplan_meier(Y, band="nair"), "`band` is 'nair'; pass 'hall-wellner'"),
    "robust band": (
        lambda: kaplan_meier(Y, band="hall-wellner", sample_weight=[0.5] * 5),
        "needs Greenwood's variance",
    ),
    "codes": (
        lambda: kaplan_meier(competing_risks([1, 0, 2], [1, 2, 3])),
        "take aalen_johansen for several kinds of event",
    ),
    "flags": (lambda: aalen_johansen(Y), "take kaplan_meier for a single kind"),
    "groups": (lambda: kaplan_meier(Y, groups=GROUPS[:4]), "`groups` has 4 entries, `y` has 5"),
    "weights": (
        lambda: kaplan_meier(Y, sample_weight=[1, -1, 1, 1, 1]),
        "`sample_weight` is -1 in row 1",
    ),
    "times": (lambda: kaplan_meier(Y).at([3, 2]), "`times` has 2 after 3"),
    "probabilities": (lambda: kaplan_meier(Y).quantiles(50), "`probabilities` has 50"),
    "one group": (lambda: log_rank(Y, ["a"] * 5), "`groups` has one value, 'a'"),
    "no group": (lambda: log_rank(Y, None), "`groups` is missing"),
    "no event": (
        lambda: log_rank(surv([0, 0], [1.0, 2.0]), ["a", "b"]),
        "`y` has no event (2 rows, of positive weight)",
    ),
    "no event with weight": (
        lambda: log_rank(Y[[0, 1, 1]], ["a", "a", "b"], sample_weight=[0, 1, 1]),
        "`y` has no event (2 rows, of positive weight)",
    ),
    "apart": (
        lambda: log_rank(surv([1, 1], [1.0, 3.0], start=[0.0, 2.0]), ["a", "b"]),
        "never at risk at the time of one event",
    ),
    "strata twice": (
        lambda: log_rank(surv([1, 1], [1.0, 2.0], stratum=[1, 1]), ["a", "b"], strata=[1, 1]),
        "give the strata in one place",
    ),
    "rho": (lambda: log_rank(Y, GROUPS, rho="1"), "`rho` is '1', must be a finite number"),
    "robust": (
        lambda: kaplan_meier(Y, robust="no"),
        "`robust` is 'no', must be True or False, or None.",
    ),
    "horizon": (lambda: restricted_mean(Y, -1), "`horizon` is -1, must be one positive"),
    "late horizon": (
        lambda: restricted_mean(Y, 5.5, groups=GROUPS),
        "`horizon` is 5.5, but the last row of group 'a' is censored at 5",
    ),
    "reference": (
        lambda: restricted_mean(Y, 4, groups=GROUPS).ratios("c"),
        "`reference` is 'c'; the groups are ['a', 'b']",
    ),
    "of": (lambda: restricted_mean(Y, 4, groups=GROUPS).ratios(of="x"), "`of` is 'x'"),
    "one mean": (lambda: restricted_mean(Y, 4).differences(), "there is one group"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_input(name):
    call, message = WRONG[name]
    error = TypeError if name in ("codes", "flags", "robust") else ValueError
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)
