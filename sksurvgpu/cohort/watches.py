"""How probable signals are at looks at accruing counts, and at growing information.

Between looks counts grow by Poisson or binomial numbers, so that the distribution of those that
have not signalled is known exactly. A systematic error, normal on the scale of the log ratio,
multiplies rates, or odds, by its exponential throughout a watch: probabilities are means over it.
"""

from bisect import bisect_left

import numpy as np
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.special import gammaln, lambertw, ndtr, roots_legendre, xlogy
from scipy.stats import binom

from ..data import options
from ..data.vectors import check_numbers

FARTHEST = 8.0  # standard deviations that are integrated over
TOLERANCE = 1e-9  # of critical values of steady watches
NEAREST = 0.03  # looks, in standard deviations
DIGITS = 12  # of statistics, so that those that are equal are found to be


def ratios_of(null, most):
    """Ratios by which systematic error multiplies rates, and their weights."""
    null = getattr(null, "null", null)
    null = check_numbers((0.0, 0.0) if null is None else null, "null")
    if null.size != 2 or null[1] < 0:
        options.refuse(null, "null", "must be a mean and a standard deviation of at least 0")
    mean, sd = null
    # As fine as the probability of a signal changes with the ratio.
    n = 1 if sd == 0 else 2 * int(np.ceil(FARTHEST * max(8.0, 2.0 * sd * np.sqrt(most)))) + 1
    z = np.linspace(-FARTHEST, FARTHEST, n) if n > 1 else np.zeros(1)
    weights = np.exp(-0.5 * z**2)
    return np.exp(mean + sd * z), weights / weights.sum()


def log_ratio(events, of, share):
    """Log-likelihood ratios; 0 where there are no more events than expected."""
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = of if share is None else of * share
        found = xlogy(events, events / expected)
        if share is None:
            found -= events - expected
        else:
            others = of - events
            found += xlogy(others, others / (of - expected))
        return np.where(events > expected, np.round(found, DIGITS), 0.0)


class Watch:
    """How probable signals are, of counts with a share or none, and ratios of systematic error."""

    def __init__(self, share, min_events, ratios, weights):
        self.share, self.min_events, self.weights = share, min_events, weights
        odds = None if share is None else share / (1.0 - share) * ratios
        self.rates = ratios if share is None else odds / (1.0 + odds)

    def added(self, n, more):
        """Probabilities that 0 to n - 1 events are added at a look, by ratio."""
        events = np.arange(n)[:, None]
        if self.share is None:
            mean = more * self.rates
            return np.exp(xlogy(events, mean) - mean - gammaln(events + 1.0))
        return binom.pmf(events, more, self.rates)

    def spent(self, of, needed):
        """Probability of a signal by each look, where so many events are needed for one."""
        state, spent = np.ones((1, self.rates.size)), []
        for most, more, least in zip(of, np.diff(of, prepend=0.0), needed, strict=True):
            n = int(least if self.share is None else min(least, most + 1.0))
            state = fftconvolve(state, self.added(n, more), axes=0)[:n]
            spent.append(1.0 - self.weights @ state.sum(axis=0))
        return np.array(spent)


def at_looks(watch, of, alpha):
    """Critical value of looks, the looks, and the events that signal at each.

    It is hardly above a statistic that some number of events has at one of them.
    """
    is_open = watch.share is None  # any number of events is possible
    most = 2 * int(of[-1]) + watch.min_events + 20 if is_open else int(of[-1])
    while True:
        events = np.arange(most + 1.0)
        statistics = log_ratio(events, of[:, None], watch.share)
        statistics[:, : watch.min_events] = 0.0
        if not is_open:
            statistics[events > of[:, None]] = 0.0
        values = np.unique(statistics[statistics > 0])
        if is_open:  # of larger ones not all events that could be needed are there
            values = values[values <= statistics[-1, -1]]

        def needed(value, signals=statistics):
            signals = signals >= value
            return np.where(signals.any(axis=1), np.argmax(signals, axis=1), np.inf)

        def is_rare(value, needed=needed):
            return watch.spent(of, needed(value))[-1] <= alpha

        if values.size and is_rare(values[-1]):
            k = bisect_left(values, True, key=is_rare)
            # The least value that is not below the largest statistic which may not signal.
            return (values[k - 1] if k else 0.0) + TOLERANCE, of, needed(values[k])
        if not is_open:
            raise ValueError(
                f"no signal is possible by the last look with `alpha` of {alpha:g}; take more "
                "events, or fewer `min_events`."
            )
        most *= 2


def steadily(watch, end, alpha, first):
    """Critical value of a watch without a pause, and when how many events signal."""

    def plan(value):
        # n events signal up to the time t at which n log(n / t) - (n - t) is the value.
        events = np.arange(watch.min_events, watch.min_events + int(2 * end) + 20.0)
        while True:
            times = -events * lambertw(-np.exp(-1.0 - value / events)).real
            if times[-1] >= end:
                break
            events = np.arange(watch.min_events, 2.0 * events[-1])
        ends = np.array([first, end] if first else [end])
        at = np.concatenate([ends, times[(times > first) & (times < end)]])
        at.sort()
        return at, events[np.searchsorted(times, at)]

    def excess(value):
        return watch.spent(*plan(value))[-1] - alpha

    low = high = 1e-3
    if excess(low) <= 0:
        raise ValueError(
            f"`min_events` of {watch.min_events:,} are less probable than `alpha`, so that no "
            "critical value is needed; take fewer, or watch for longer."
        )
    while excess(high) > 0:
        low, high = high, 2.0 * high
    value = brentq(excess, low, high, xtol=TOLERANCE)
    value += 2.0 * TOLERANCE if excess(value) > 0 else 0.0
    return value, *plan(value)


def normal_bounds(time, spends, two_sided):
    """Bounds of z, each crossed at its look and not before with a probability."""
    steps = np.diff(time, prepend=0.0)
    finest = np.sqrt((steps / time).min())  # of the kernels, relative to what is integrated over
    if finest < NEAREST:
        raise ValueError(
            f"two looks differ by less than {NEAREST**2:.2g} of their `information`; leave one out."
        )
    unit, lengths = roots_legendre(64 + int(12.0 * FARTHEST / finest))
    found, at, weights = [], np.zeros(1), np.ones(1)
    for end, step, spend in zip(time, steps, spends, strict=True):
        root, sd = np.sqrt(end), np.sqrt(step)

        def excess(z, at=at, weights=weights, root=root, sd=sd, spend=spend):
            return weights @ ndtr((at - z * root) / sd) - spend

        # Beyond what a probability can be in this arithmetic there is no bound.
        z = brentq(excess, -FARTHEST, 40.0, xtol=1e-12) if excess(40.0) < 0 else np.inf
        found.append(z)
        high = min(z, FARTHEST) * root
        low = -high if two_sided else -FARTHEST * root
        following = low + 0.5 * (unit + 1.0) * (high - low)
        density = np.exp(-0.5 * ((following[:, None] - at) / sd) ** 2) @ weights
        weights = 0.5 * (high - low) * lengths * density / (sd * np.sqrt(2.0 * np.pi))
        at = following
    return np.array(found)
