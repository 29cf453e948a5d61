"""What a fit of Cox's model must not depend on, and what it must.

The penalties are part ridge, so that the optimum is unique and depends continuously on the data:
two fits of one problem may be compared by their coefficients.
"""

import numpy as np
import pytest
from attacks import n_attempts
from engine import BINS, Data, fit, open_rows, reference_at, use_bins
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

PENALTY = {"l1_ratio": 0.3, "tol": 1e-9}
TIES = st.sampled_from(["breslow", "efron"])
property_test = settings(max_examples=max(20, n_attempts(0.08)))


@st.composite
def data_sets(draw, weights=(0.0, 0.5, 1.0, 2.0)):
    """Up to 24 rows with ties, delayed entry, strata, weights and an offset, or without."""
    n = draw(st.integers(3, 24))

    def array(elements, shape=n):
        return draw(hnp.arrays(float, shape, elements=elements))

    time = array(st.integers(2, 9).map(float))
    event = array(st.sampled_from([0.0, 1.0])) > 0
    event[0] = True
    start = strata = weight = offset = None
    if draw(st.booleans()):
        start = np.minimum(array(st.integers(0, 7).map(float)), time - 1.0)
    if draw(st.booleans()):
        strata = draw(hnp.arrays(int, n, elements=st.integers(0, 3)))
    if weights is not None and draw(st.booleans()):
        weight = array(st.sampled_from(weights))
        weight[0] = 1.0
    if draw(st.booleans()):
        offset = array(st.floats(-1, 1, width=16))
    p = draw(st.integers(1, 4))
    X = array(st.sampled_from([0.0, 0.0, 1.0, -1.5, 0.25]), (n, p))
    return Data(X, time, event, start, strata, weight, offset)


@pytest.fixture(scope="session")
def check_same(check_close):
    """Two fits agree in coefficients and log-likelihood."""

    def check(one, other, coef=None):
        assert one.converged
        assert other.converged
        check_close(one.coef, other.coef if coef is None else coef, "coef")
        np.testing.assert_allclose(one.loglik, other.loglik, rtol=1e-9, atol=1e-9)

    return check


@property_test
@given(data_sets(), st.data())
def test_half_weights(check_same, data, choice):
    """A row is two rows of half its weight (Breslow; Efron counts deaths)."""
    i = choice.draw(st.integers(0, data.n - 1))
    weights = data.sample_weight.copy()
    weights[i] /= 2
    both = np.append(np.arange(data.n), i)
    halves = data.with_(weights=weights).rows(both)
    check_same(fit(halves, 0.5, **PENALTY), fit(data, 0.5, **PENALTY))


@property_test
@given(data_sets(), TIES, st.data())
def test_split_interval(check_same, data, ties, choice):
    """(start, stop] is (start, cut] and (cut, stop], wherever the cut lies."""
    i = choice.draw(st.integers(0, data.n - 1))
    start = np.zeros(data.n) if data.start is None else data.start
    low, high = int(2 * start[i]) + 1, int(2 * data.time[i]) - 1
    cut = choice.draw(st.integers(low, high)) / 2  # at event times and between them
    parts = data.with_(start=start).rows(np.append(np.arange(data.n), i))
    parts.time[i], parts.event[i] = cut, False
    parts.start[-1] = cut
    check_same(fit(parts, 0.5, ties, **PENALTY), fit(data, 0.5, ties, **PENALTY))


@property_test
@given(data_sets(), TIES)
def test_strata_of_one_row_contribute_nothing(check_same, data, ties):
    strata = np.zeros(data.n, int) if data.strata is None else data.strata
    more = data.with_(strata=strata).rows(np.append(np.arange(data.n), [0, 1]))
    more.strata[-2:] = [17, 4]
    if more.weights is not None:
        more.weights[-2:] = 1.0  # a weight c alone contributes the constant -c log c
    more.X[-2:] = 5.0
    plain = fit(data, 0.5, ties, **PENALTY)
    check_same(fit(more, 0.5, ties, **PENALTY), plain)


@property_test
@given(data_sets(), TIES)
def test_rows_that_are_never_at_risk(check_same, data, ties):
    """Censored before the first event, or entering after the last one."""
    start = np.zeros(data.n) if data.start is None else data.start
    more = data.with_(start=start).rows(np.append(np.arange(data.n), [0, 0]))
    more.start[-2:], more.time[-2:], more.event[-2:] = [0.0, 11.0], [1.0, 12.0], False
    more.X[-2:] = 3.0
    check_same(fit(more, 0.5, ties, **PENALTY), fit(data, 0.5, ties, **PENALTY))


@property_test
@given(data_sets(), st.data())
def test_times_matter_by_their_order(check_same, data, choice):
    assume(data.start is None)
    times = np.cumsum(choice.draw(hnp.arrays(float, 10, elements=st.floats(0.01, 1000))))
    moved = data.with_(time=times[data.time.astype(int)])
    check_same(fit(moved, 0.5, **PENALTY), fit(data, 0.5, **PENALTY))


@property_test
@given(data_sets(), TIES, st.randoms(use_true_random=False))
def test_no_ties_no_difference(check_same, data, ties, random):
    """Without ties a shift of 1e-9 changes nothing, and Efron is Breslow."""
    assume(data.start is None)
    time = 2.0 + np.array(random.sample(range(data.n), data.n))
    untied = data.with_(time=time)
    plain = fit(untied, 0.5, **PENALTY)
    shifts = 1e-9 * np.array([random.uniform(-1, 1) for _ in range(data.n)])
    check_same(fit(data.with_(time=time + shifts), 0.5, ties, **PENALTY), plain)


@property_test
@given(data_sets(weights=None), st.data())
def test_broken_ties_are_another_likelihood(data, choice):
    """Ties broken by 1e-9 are handled as the order says, not as ties."""
    assume(data.start is None)
    shift = 1e-9 * np.arange(data.n)
    broken = data.with_(time=data.time + shift)
    coef = choice.draw(hnp.arrays(float, data.X.shape[1], elements=st.sampled_from([-1.0, 0.5])))
    eta = data.X @ coef + (0.0 if data.offset is None else data.offset)
    _, loglik = open_rows(broken.with_(offset=None), eta)
    np.testing.assert_allclose(loglik, reference_at(broken, coef).loglik, rtol=1e-12, atol=1e-12)
    # Breslow counts every tied death among those at risk of each; the order takes some away.
    stratum = np.zeros(data.n) if data.strata is None else data.strata
    moments = np.column_stack([data.time, stratum])[data.event]
    kept = reference_at(data, coef).loglik
    if len(np.unique(moments, axis=0)) < len(moments):
        assert loglik > kept
    else:
        assert loglik >= kept - 1e-12 * abs(kept)


@property_test
@given(data_sets(), TIES, st.sampled_from(BINS))
def test_any_bins(check_same, data, ties, bins):
    """Bins are about speed: the optimum is the same with any."""
    plain = fit(data, 0.5, ties, **PENALTY)
    with pytest.MonkeyPatch.context() as patch:
        use_bins(bins, patch)
        check_same(fit(data, 0.5, ties, **PENALTY), plain)
