"""Shifts, laws and quadratic models of matched sets, on the CPU and on devices."""

import math

from ..._compile import BOUND, bind, device

extremes = fill = peak = sum_roots = sum_larger = match_sum = match_larger = BOUND

MOST_STEPS, MOST_BISECTIONS = 100, 200


@device
def split(z):
    """expit(z) and expit(-z), without cancellation."""
    small = math.exp(-abs(z))
    upper = 1.0 / (1.0 + small)
    return (upper, small * upper) if z >= 0.0 else (small * upper, upper)


@device
def leave_out(p, q, m, law, low, high):
    """P(S - Z = m - 1) for one variable of a sum, whose law has the band from low to high."""
    v = 0.0
    if p <= 0.5:
        inverse = 1.0 / q
        for k in range(low, m):
            v = (law[k] - p * v) * inverse
    else:
        inverse = 1.0 / p
        for k in range(high, m - 1, -1):
            v = (law[k] - q * v) * inverse
    return v


def find_tilt(rows, n, m, start):
    """Shift tau at which the probabilities sum to about m; what `fill` fills is filled there.

    Newton steps on the logit of their mean, inside a bracket; a tenth of a deviation is enough.
    """
    target = math.log(m / (n - m))
    low, high = extremes(rows)
    low, high = low - target, high - target
    tau = min(max(start, low), high)
    for _ in range(MOST_STEPS):
        mean, variance = fill(rows, tau)
        if not abs(mean - m) > 0.1 * math.sqrt(variance) or not low < high:
            break
        if mean > m:
            low = tau
        else:
            high = tau
        slope = variance * n / (mean * (n - mean))
        moved = tau + (math.log(mean / (n - mean)) - target) / slope
        tau = moved if low < moved < high else 0.5 * (low + high)
    return tau


@device
def smaller_root(v, total):
    """Smaller root h of h - h^2 / total = v, and its slope in `total`."""
    root = math.sqrt(max(total * (total - 4.0 * v), 0.0))
    h = 2.0 * v * total / (total + root)
    return h, (v - h) / root if root > 0.0 else -math.inf


def _sum_larger(rows, top, size):
    """Sum of h with the larger root for the row of the largest variance."""
    summed, _ = sum_roots(rows, size)
    h, _ = smaller_root(top, size)
    return summed - h + (size - h)


def _match_sum(rows, low, high):
    """Sum of h that its smaller roots have."""
    size = low
    for _ in range(MOST_BISECTIONS):
        summed, slope = sum_roots(rows, size)
        if abs(summed - size) <= 1e-13 * size:
            break
        if summed > size:
            low = size
        else:
            high = size
        moved = size - (summed - size) / (slope - 1.0)
        size = moved if low < moved < high else 0.5 * (low + high)
    return size


def _match_larger(rows, top):
    """Sum of h that its roots have, one of them being the larger one."""
    least = 4.0 * top
    high = 2.0 * least
    while sum_larger(rows, top, high) < high and high < 1e6 * least:
        high *= 2.0
    low = 0.5 * high
    for _ in range(MOST_BISECTIONS):
        size = 0.5 * (low + high)
        if not low < size < high:
            break
        if sum_larger(rows, top, size) < size:
            low = size
        else:
            high = size
    return 0.5 * (low + high)


def _match_diagonal(rows):
    """Sum of the h with h_i - h_i^2 / sum h = v_i; the row whose h is above half of it, or -1."""
    top, row, summed = peak(rows)
    low = 4.0 * top
    if not low > 0.0:
        return 0.0, -1.0
    smaller, _ = sum_roots(rows, low)
    if smaller >= low:
        return match_sum(rows, low, max(2.0 * summed, low)), -1.0
    return match_larger(rows, top), row


def matching(device, sum_roots, peak):
    """`_match_diagonal` for rows of a kind, compiled by `device`.

    ``sum_roots(rows, size)`` sums the smaller roots and their slopes at a sum `size` of h;
    ``peak(rows)`` gives the largest variance, the first row that has it, and the sum of all.
    """
    larger = device(bind(_sum_larger, sum_roots=sum_roots))
    names = {
        "match_sum": device(bind(_match_sum, sum_roots=sum_roots)),
        "match_larger": device(bind(_match_larger, sum_larger=larger)),
    }
    return device(bind(_match_diagonal, peak=peak, sum_roots=sum_roots, **names))


@device
def variance_of(share):
    share = min(share, 1.0)
    return share * (1.0 - share)


@device
def h_of_row(share, cases, n, size, is_top):
    """h of a row of a set where the sum is `size`."""
    if cases == 1:  # a multinomial, whose h is known
        return min(share, 1.0)
    if cases == n - 1:
        return 1.0 - min(share, 1.0)
    if not size > 0.0:
        return 0.0
    h, _ = smaller_root(variance_of(share), size)
    return size - h if is_top else h
