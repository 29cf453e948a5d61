r"""Where persons are by each time, and how long they were there, given the hazards of transitions.

Of one row, hazards are steps :math:`dA_{ij}(t)` of transitions from state i to j. With G(t) the
matrix of these, and minus their sums on its diagonal, the probabilities p of states are

.. math:: p(t) = p(s) \prod_{s < u \le t} e^{G(u)} ,

rows of probabilities as `add_up` has them where states are left once. Where no state is both left
and entered at a time, as always without ties, the matrix is :math:`1 - e^{-dA_i}` in shares of
:math:`dA_{ij}`; elsewhere it is computed (scaling and squaring, all terms positive).

Where the clock starts anew in each state, the product does not hold: times in states, with
:math:`P(T > d) = e^{-A_i(d)}`, and the states that are entered then, are drawn.
"""

from typing import NamedTuple

import numpy as np

from .._compile import device, kernel

N_TERMS = 16  # of the exponential's series at 1/2: the next one is below 1e-18


class Course(NamedTuple):
    """Accumulated hazards of transitions over time."""

    hazards: np.ndarray  # (n_transitions, n_rows, n_times)
    times: np.ndarray  # of a clock that goes forward, or since a state was entered
    origin: np.ndarray  # (n_transitions,): numbers of states
    destination: np.ndarray


@device
def _exponential(rate, generator, out, spare):
    """Matrix exponential of a generator whose rates of leaving are at most `rate`."""
    n, halvings = len(generator), 0
    while rate > 0.5:
        rate *= 0.5
        halvings += 1
    scale = 0.5**halvings
    chances = np.empty((n, n))  # uniformized: transitions at `rate`, some to the same state
    for i in range(n):
        for j in range(n):
            chances[i, j] = generator[i, j] * scale / rate + (i == j)
            spare[i, j] = out[i, j] = (i == j) * np.exp(-rate)
    for term in range(1, N_TERMS):
        _multiply(spare, chances, rate / term, spare)
        out += spare
    for _ in range(halvings):
        _multiply(out, out, 1.0, out)
        for i in range(n):  # each squaring would double what rows are away from 1
            total = out[i].sum()
            for j in range(n):
                out[i, j] /= total


@device
def _multiply(a, b, scale, out):
    """Product of two matrices, of which `out` may be one; in loops, which compile at once."""
    a, b = a.copy(), b.copy()
    for i in range(len(a)):
        for j in range(len(b)):
            total = 0.0
            for k in range(len(b)):
                total += a[i, k] * b[k, j]
            out[i, j] = total * scale


@device
def _step(course, steps, there, leave, matrices):
    """Move the probabilities `there` by one time's steps of hazards."""
    origin, destination = course.origin, course.destination
    is_chain = False
    leave[:] = 0.0
    for k in range(len(steps)):
        leave[origin[k]] += steps[k]
    for k in range(len(steps)):
        is_chain |= steps[k] > 0.0 and leave[destination[k]] > 0.0
    if is_chain:
        generator, out, spare = matrices
        generator[:] = 0.0
        for k in range(len(steps)):
            generator[origin[k], origin[k]] -= steps[k]
            generator[origin[k], destination[k]] += steps[k]
        _exponential(leave.max(), generator, out, spare)
        _multiply(there.reshape(1, -1), out, 1.0, there.reshape(1, -1))
        return
    for k in range(len(steps)):
        if steps[k] > 0.0:
            i = origin[k]
            there[destination[k]] += there[i] * -np.expm1(-leave[i]) * (steps[k] / leave[i])
    for i in range(len(leave)):
        if leave[i] > 0.0:
            there[i] *= np.exp(-leave[i])


@device
def _stay(there, duration, spent):
    for i in range(len(there)):
        spent[i] += there[i] * max(duration, 0.0)


@device
def _steps_at(course, row, t, steps):
    """Steps of a row's hazards at a time, and their sum."""
    total = 0.0
    for k in range(len(steps)):
        before = course.hazards[k, row, t - 1] if t > 0 else 0.0
        steps[k] = course.hazards[k, row, t] - before
        total += steps[k]
    return total


@kernel
def follow(course, state, start, horizons, ends, out):
    """Probabilities of states at horizons and times spent there until then, of all rows.

    `ends` are the last times known of states, (n_rows, n_states); what of the probabilities is
    beyond them is the third of `out`, (3, n_rows, n_horizons, n_states).
    """
    times, n_states, steps = course.times, out.shape[3], np.empty(len(course.origin))
    there, leave, spent = np.empty(n_states), np.empty(n_states), np.empty(n_states)
    matrices = np.empty((3, n_states, n_states))
    for row in range(len(state)):
        there[:], spent[:] = 0.0, 0.0
        there[state[row]] = 1.0
        now, t = start[row], 0
        for h in range(len(horizons)):
            while t < len(times) and times[t] <= horizons[h]:
                _stay(there, times[t] - now, spent)
                now = max(times[t], now)
                if _steps_at(course, row, t, steps) > 0.0:
                    _step(course, steps, there, leave, matrices)
                t += 1
            _stay(there, horizons[h] - now, spent)
            now = max(horizons[h], now)
            for s in range(n_states):
                out[0, row, h, s], out[1, row, h, s] = there[s], spent[s]
                out[2, row, h, s] = there[s] * (horizons[h] > ends[row, s])


@kernel
def draw(course, row, state, start, horizons, ends, random, n_paths):
    """Shares of paths in states at horizons and times spent there, of one row, as `follow` has."""
    leave, steps = np.zeros((len(ends), len(course.times))), np.empty(len(course.origin))
    for k in range(len(course.origin)):
        for t in range(len(course.times)):
            leave[course.origin[k], t] += course.hazards[k, row, t]
    until_start = 0.0
    for t in range(len(course.times)):
        until_start = leave[state, t] if course.times[t] <= start else until_start
    out = np.zeros((3, len(horizons), len(ends)))
    for _ in range(n_paths):
        here, entered, since, passed = state, 0.0, start, until_start
        while entered <= horizons[-1]:
            t = _first_reaching(leave[here], passed + random.standard_exponential())
            until = entered + course.times[t] if t < len(course.times) else np.inf
            for h in range(len(horizons)):
                is_there = entered <= horizons[h] < until
                out[0, h, here] += is_there
                out[1, h, here] += max(min(horizons[h], until) - max(entered, since), 0.0)
                out[2, h, here] += is_there and horizons[h] - entered > ends[here]
            if until == np.inf:
                break
            _steps_at(course, row, t, steps)
            here = _entered(course, steps, here, random.random())
            entered, since, passed = until, 0.0, 0.0
    return out / n_paths


@device
def _first_reaching(hazard, level):
    """First time by which a hazard is at a level; behind the last one if never."""
    low, high = 0, len(hazard)
    while low < high:
        middle = (low + high) // 2
        if hazard[middle] >= level:
            high = middle
        else:
            low = middle + 1
    return low


@device
def _entered(course, steps, here, place):
    """State that is entered from one, in proportion to the steps of hazards at a time."""
    steps *= course.origin == here
    mark, last = place * steps.sum(), here
    for k in range(len(steps)):
        if steps[k] > 0.0:
            last = course.destination[k]
            mark -= steps[k]
            if mark < 0.0:
                break
    return last
