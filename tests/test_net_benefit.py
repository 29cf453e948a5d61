"""Net benefit of decisions by predicted risks, against counts and estimates by hand."""

import sys

import numpy as np
import pandas as pd
import pytest
from sksurv.nonparametric import cumulative_incidence_competing_risks, kaplan_meier_estimator

from sksurvgpu import competing_risks, surv
from sksurvgpu.metrics import net_benefit

RNG = np.random.default_rng(5)
N = 300
RISK = RNG.random(N).round(2)
TIME = RNG.exponential(1.5 - RISK).round(2) + 0.01
CENSORED = RNG.random(N) < 0.3
CODE = np.where(CENSORED, 0, RNG.integers(1, 3, N))
AT = [0.05, 0.2, 0.5, 0.8]


def expected(observed, n_above, threshold):
    return n_above / N * (observed - (1 - observed) * threshold / (1 - threshold))


def test_without_censoring_it_counts_persons():
    is_case = TIME <= 0.6
    table = net_benefit(surv(np.ones(N, bool), TIME), RISK, 0.6, thresholds=AT)
    for threshold in AT:
        above = threshold <= RISK
        gain = (above & is_case).sum() - (above & ~is_case).sum() * threshold / (1 - threshold)
        assert table.loc[threshold, "model"] == pytest.approx(gain / N, rel=1e-12)
    binary = net_benefit(is_case, RISK, thresholds=AT)
    pd.testing.assert_frame_equal(binary, table)
    assert (table["none"] == 0.0).all()


def test_with_censoring_and_competing_events_risks_above_are_estimated():
    alone = net_benefit(surv(~CENSORED, TIME), {"a": RISK, "b": 1 - RISK}, 0.6, thresholds=AT)
    among = net_benefit(competing_risks(CODE, TIME), RISK, 0.6, thresholds=AT, event_of_interest=2)
    assert alone.columns.tolist() == ["a", "b", "all", "none"]
    for threshold in AT:
        for table, column, above in (
            (alone, "a", threshold <= RISK),
            (alone, "b", threshold <= 1 - RISK),
            (alone, "all", np.full(N, True)),
            (among, "model", threshold <= RISK),
            (among, "all", np.full(N, True)),
        ):
            if table is alone:
                times, survival = kaplan_meier_estimator(~CENSORED[above], TIME[above])
                observed = 1 - survival[np.searchsorted(times, 0.6, side="right") - 1]
            else:
                found = cumulative_incidence_competing_risks(CODE[above], TIME[above])
                observed = found[1][2][np.searchsorted(found[0], 0.6, side="right") - 1]
            gain = expected(observed, above.sum(), threshold)
            assert table.loc[threshold, column] == pytest.approx(gain, rel=1e-12)


def test_rows_are_counted_once_for_all_thresholds_that_they_are_above(monkeypatch):
    """A curve of 99 thresholds in 500 replicates took two minutes."""
    module, sizes = sys.modules[net_benefit.__module__], []

    def count(status, time, horizon, estimate=module.observed_risk):
        sizes.append((len(time), len(np.unique(time[time > horizon]))))
        return estimate(status, time, horizon)

    monkeypatch.setattr(module, "observed_risk", count)
    net_benefit(surv(~CENSORED, TIME), np.where(RISK < 0.5, 0.105, 0.305), 0.6)
    assert sizes == [(N, 1), ((RISK >= 0.5).sum(), 1), (N, 1)]


def test_thresholds_above_all_risks_gain_nothing_and_those_of_the_censored_are_unknown():
    table = net_benefit(surv(~CENSORED, TIME), RISK / 2, 0.6)
    assert table.index.tolist() == [k / 100 for k in range(1, 100)]
    assert (table.loc[0.6:, "model"] == 0.0).all()
    early = np.where(RISK > 0.9, 0.3, TIME)
    event = np.where(RISK > 0.9, False, ~CENSORED)
    assert np.isnan(net_benefit(surv(event, early), RISK, 0.6, thresholds=0.95).loc[0.95, "model"])


@pytest.mark.parametrize(
    ("risk", "options", "message"),
    [
        (RISK, {"thresholds": [0.0, 0.5]}, "`thresholds`"),
        (RISK, {"thresholds": [0.5, 0.2]}, "increasing"),
        (RISK * 2, {}, "must lie between 0 and 1"),
        (RISK[:-1], {}, "299"),
        ({"all": RISK}, {}, "'all' and 'none'"),
        ({}, {}, "at least one model"),
        (RISK, {"horizon": 1e9}, "before the last time"),
    ],
)
def test_bad_input_is_refused(risk, options, message):
    with pytest.raises(ValueError, match=message):
        net_benefit(surv(~CENSORED, TIME), risk, **{"horizon": 0.6, **options})
