"""Gray's test, against R's cmprsk."""

import numpy as np
import pytest

from sksurvgpu import competing_risks, surv
from sksurvgpu.nonparametric import gray_test, log_rank

ROW = np.arange(1, 301)
GROUP, STRATUM, TWO = ROW * 11 % 3, ROW * 17 % 4, ROW * 5 % 7 < 2
TIME = ROW * 71 % 61 + 1.0 + (ROW % 5) * 0.3 * GROUP
CODE = np.array([0, 1, 1, 2, 0, 3, 2])[ROW * 13 % 7]
Y = competing_risks(CODE, TIME, labels={1: "a", 2: "b", 3: "c"})

# cmprsk 2.2-11: cuminc(TIME, CODE, GROUP, rho=, strata=)$Tests of events 1, 2 and 3
OF_CMPRSK = {
    (0, False): [0.2530853187657277, 0.0412605060948186, 0.1231254148983256],
    (0, True): [0.709209067101491, 0.120795230181327, 0.290873559445971],
    (1, False): [0.338850678592148, 0.060470786015279, 0.122454913915472],
    (1, True): [0.728275233088329, 0.120815750153103, 0.274061731143197],
    (-0.5, False): [0.227430407087787, 0.032009196658732, 0.123254556596778],
    (-0.5, True): [0.710453892291557, 0.119106270988081, 0.299199925348447],
}


@pytest.mark.parametrize(("rho", "has_strata"), OF_CMPRSK)
def test_statistics_are_those_of_cmprsk(rho, has_strata):
    given = {"rho": rho, "strata": STRATUM if has_strata else None}
    tests = [gray_test(Y, GROUP, event_of_interest=event, **given) for event in (1, "b", 3)]
    np.testing.assert_allclose(
        [test.statistic for test in tests], OF_CMPRSK[rho, has_strata], 1e-12
    )
    assert {test.df for test in tests} == {2}


def test_two_groups_differ_as_in_cmprsk():
    found = [gray_test(Y, TWO, event_of_interest=event) for event in "abc"]
    expected = [21.85396735180583, 21.38198617609403, 9.41296728817142]
    np.testing.assert_allclose([test.statistic for test in found], expected, 1e-12)
    np.testing.assert_allclose(found[0].p_value, 2.94207670215041e-06, 1e-9)
    assert found[0].table["observed"].sum() == (CODE == 1).sum()
    assert repr(found[0]).startswith("<GrayTest of 2 groups: chi-square 21.9 on 1 df")


def test_strata_are_read_from_the_outcome_and_groups_may_be_absent_from_one():
    y = competing_risks(CODE, TIME, stratum=STRATUM)
    group = np.where(STRATUM == 2, 0, GROUP)
    inside, beside = gray_test(y, group), gray_test(Y, group, strata=STRATUM)
    assert inside.statistic == beside.statistic
    without = np.flatnonzero(STRATUM != 2)  # rows of one group alone tell nothing
    fewer = gray_test(Y[without], group[without], strata=STRATUM[without])
    np.testing.assert_allclose(inside.statistic, fewer.statistic, 1e-12)


def test_without_competing_events_rows_at_risk_are_those_of_the_log_rank_test():
    event = CODE == 1
    test = gray_test(competing_risks(event.astype(int), TIME), GROUP)
    plain = log_rank(surv(event, TIME), GROUP)
    np.testing.assert_allclose(test.table["expected"], plain.table["expected"], 1e-12)


def test_a_group_that_ends_early_is_followed_no_further():
    short = TIME < 20
    keep = short | (GROUP > 0)
    test = gray_test(Y[keep], GROUP[keep])
    assert np.isfinite(test.covariance).all()
    np.testing.assert_allclose(test.covariance.sum(axis=0), 0.0, atol=1e-10)


@pytest.mark.parametrize(
    ("y", "groups", "options", "message"),
    [
        (Y, None, {}, "`groups` is missing"),
        (Y, np.zeros(300), {}, "one value"),
        (Y, GROUP, {"event_of_interest": 7}, "`event_of_interest` is 7"),
        (Y, GROUP, {"rho": "peto"}, "`rho`"),
        (competing_risks([1] * 4, [1] * 4), [0, 0, 1, 1], {}, "that not all of them have"),
        (competing_risks(CODE, TIME, start=TIME / 2), GROUP, {}, "field 'start'"),
        (competing_risks(CODE, TIME, subject=ROW // 2), GROUP, {}, "several rows of a subject"),
        (surv(CODE == 1, TIME), GROUP, {}, "kaplan_meier for a single kind"),
    ],
)
def test_bad_input_is_refused(y, groups, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        gray_test(y, groups, **options)


def test_strata_without_events_tell_nothing():
    code = np.where(STRATUM == 1, 0, np.where((STRATUM == 2) & (CODE == 1), 3, CODE))
    test = gray_test(competing_risks(code, TIME, stratum=STRATUM), GROUP)
    known = STRATUM % 3 == 0
    fewer = gray_test(competing_risks(CODE, TIME, stratum=STRATUM)[known], GROUP[known])
    np.testing.assert_allclose(test.statistic, fewer.statistic, 1e-12)


def test_where_groups_end_early_the_incidence_of_all_exceeds_1():
    alone = competing_risks(np.ones(9, int), [1, 1, 2, 2, 3, 3, 7, 8, 9])
    early = competing_risks(np.ones(13, int), [1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    groups = np.r_[np.zeros(5), np.tile([1, 2], 4)]
    # cmprsk, as above
    for rho, expected in {0.5: 5.70664814013756, 1: 5.17331935457258, -1: 6.67597711715344}.items():
        test = gray_test(alone, np.repeat([0, 1], [6, 3]), rho=rho)
        np.testing.assert_allclose(test.statistic, expected, 1e-12)
    for rho, expected in {0: 12.0076503303378, 1: 12.0206413807142, 2: 12.0315293085255}.items():
        np.testing.assert_allclose(gray_test(early, groups, rho=rho).statistic, expected, 1e-12)
    with pytest.raises(ValueError, match="not finite; take rho=1"):
        gray_test(early, groups, rho=0.5)
