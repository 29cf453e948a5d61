"""Orders of rows by group and time, O(rows): sorts by digits that keep the order of equal ones.

Bits of a double, read as an integer, are in the order of positive numbers; with the sign inverted,
and all bits of negative ones, they are in that of all numbers.  Such keys are sorted by their
digits of 11 bits, from the lowest on: 2,048 places that are written to stay in a cache.  A digit
that all have in common, as the lower ones of whole numbers, is left out.
"""

import numpy as np

from .._compile import kernel

BITS, N_DIGITS = 11, 6
N_VALUES = 2**BITS


@kernel
def _make_keys(bits, keys, counts):
    """Keys from the bits of numbers, and how many have each value of each digit."""
    sign, mask = np.uint64(1) << np.uint64(63), np.uint64(N_VALUES - 1)
    counts[:] = 0
    for i in range(len(bits)):
        key = ~bits[i] if bits[i] & sign else bits[i] | sign
        keys[i] = key
        for d in range(N_DIGITS):
            counts[d, (key >> np.uint64(BITS * d)) & mask] += 1


@kernel
def _sort_by_digit(digit, count, keys, order, keys_out, order_out):
    """Keys and rows in the order of one digit; `count` becomes the ends of its values."""
    shift, mask, total = np.uint64(BITS * digit), np.uint64(N_VALUES - 1), 0
    for value in range(N_VALUES):
        size, count[value] = count[value], total
        total += size
    for i in range(len(keys)):
        value = (keys[i] >> shift) & mask
        place = count[value]
        count[value] += 1
        keys_out[place], order_out[place] = keys[i], order[i]


@kernel
def _sort_by_group(group, place, order, order_out):
    """Rows in the order of groups, from where each begins, which moves on to its end."""
    for i in range(len(order)):
        g = group[order[i]]
        order_out[place[g]] = order[i]
        place[g] += 1


def order_by_time(time):
    """Rows in the order of their times, those of one time as they are: int32."""
    n = len(time)
    keys, counts = np.empty((2, n), np.uint64), np.empty((N_DIGITS, N_VALUES), np.int64)
    orders = [np.empty(n, np.int32) for _ in range(2)]  # one of them is kept
    _make_keys((time + 0.0).view(np.uint64), keys[0], counts)  # 0.0 in place of -0.0
    orders[0][:] = np.arange(n)
    now = 0
    for digit in range(N_DIGITS):
        if counts[digit].max(initial=0) < n:
            then = 1 - now
            _sort_by_digit(digit, counts[digit], keys[now], orders[now], keys[then], orders[then])
            now = then
    return orders[now]


def order_by_group(group, order, n_groups):
    """Rows in the order of their groups, numbered from 0, otherwise as in `order`; and offsets."""
    ptr = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])
    out = np.empty(len(order), np.int32)
    _sort_by_group(group, ptr[:-1].copy(), order, out)
    return out, ptr


def order_within(group, n_groups, time):
    """Rows in the order of their groups, numbered from 0, and within these of their times."""
    order = order_by_time(time)
    return order if n_groups == 1 else order_by_group(group, order, n_groups)[0]
