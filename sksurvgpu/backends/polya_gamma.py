"""Polya-Gamma variables, exact for every tilt: scalar formulas that every backend compiles.

PG(1, 2z) is a quarter of x, the time at which a Brownian motion with drift z leaves (-1, 1); its
density is cosh(z) exp(-x z**2 / 2) f(x) (Polson, Scott and Windle 2013).  Two series give f:

    f(x) = b(x) (1 - 3 w + 5 w**3 - 7 w**6 + 9 w**10 - ...)
    early:  b(x) = sqrt(2 / pi) x**-1.5 exp(-1 / (2x)),   w = exp(-4 / x)
    late:   b(x) = pi / 2 exp(-pi**2 x / 8),              w = exp(-pi**2 x)

While terms decrease, partial sums lie above and below f in turn, so that a few of them decide
exactly whether a proposal is accepted (Devroye 2009).  Early x are proposed by n = x**-0.5, whose
density exp(-(n**2 + z**2 / n**2) / 2) is log-concave: tangents to its logarithm are a hat.

    z up to 2   a late exponential from x = 1/2, before that a tangent    accepts 97 % to 87 %
    beyond      left tangent, level, right tangent, for the early b       accepts 87 % to 89 %

Why two: the late exponential is an exact envelope where drift is weak; without it, only the share
exp(-2z) is lost, as f < b for all x (to leave an interval is to pass one of its ends).  Neither
needs an error function, since hats have elementary areas.  Why inversion: the distribution function
of a hat is inverted, so that an attempt takes one block of random words, one uniform for the
proposal and one for the decision, and one logarithm.  Why bounds before series: 1 - 3 w at the cut
and 1 - v <= exp(-v) decide nine of ten attempts without an exponential.
"""

import math

from numba import njit

from .random import two_uniforms

_THREE_PIECES_FROM = 2.0
_CUT, _EDGE, _TOUCH = 0.5, math.sqrt(2.0), 2.0  # in x, the same in n, tangent in n: all near best
# What the series is at least: after the cut by its late form, before by its early form.
_LATE_AT_LEAST = 1.0 - 3.0 * math.exp(-math.pi * math.pi * _CUT)
_EARLY_AT_LEAST = 1.0 - 3.0 * math.exp(-4.0 / _CUT)
_EARLY_TO_LATE = (2.0 / math.pi) ** 1.5  # ratio of the factors of the two b
_ROOT_HALF = math.sqrt(0.5)


@njit(error_model="numpy")
def _is_below_series(level, w):
    """Whether level <= 1 - 3 w + 5 w**3 - 7 w**6 + ..."""
    total, factor, power, odd = 1.0, w, w, 3.0
    while True:
        total -= odd * power
        if level <= total:
            return True
        factor *= w
        power *= factor
        total += (odd + 2.0) * power
        if not level <= total:
            return False
        factor *= w
        power *= factor
        odd += 4.0


@njit(error_model="numpy")
def _is_late_accepted(level, x):
    """Whether level <= f / b for the late b, at x of at least _CUT."""
    return level <= _LATE_AT_LEAST or _is_below_series(level, math.exp(-(math.pi**2) * x))


@njit(error_model="numpy")
def _is_early_accepted(level, below, square):
    """Whether level <= exp(-below) f / b for the early b, at any x = 1 / square."""
    if square >= 1.0 / _CUT:
        if level <= _EARLY_AT_LEAST * (1.0 - below):
            return True
        return _is_below_series(level * math.exp(below), math.exp(-4.0 * square))
    ratio = _EARLY_TO_LATE * square * math.sqrt(square)
    ratio *= math.exp(below + math.pi * math.pi / (8.0 * square) - 0.5 * square)
    return _is_late_accepted(level * ratio, 1.0 / square)


@njit(error_model="numpy")
def _two_pieces(z):
    """Probability of the late piece; rates of the late piece in x, of the early one in n.

    Areas are pi / 2 exp(-late _CUT) / late and sqrt(8 / pi) exp(at_edge) / early.
    """
    late = math.pi * math.pi / 8.0 + 0.5 * z * z
    early = _TOUCH - z * z / _TOUCH**3
    at_edge = early * (_TOUCH - _EDGE) - 0.5 * (_TOUCH * _TOUCH + z * z / (_TOUCH * _TOUCH))
    odds = math.sqrt(32.0 / math.pi**3) * late / early * math.exp(at_edge + late * _CUT)
    return 1.0 / (1.0 + odds), late, early


@njit(error_model="numpy")
def _draw_two_pieces(address, block, z, pieces):
    late_share, late, early = pieces
    while True:
        place, level = two_uniforms(address, block)
        block += 1
        if place < late_share:
            x = _CUT - math.log(place / late_share) / late
            if _is_late_accepted(level, x):
                return x, block
        else:
            n = _EDGE - math.log((1.0 - place) / (1.0 - late_share)) / early
            square, d = n * n, n - _TOUCH
            curved = z * z * (_TOUCH + 2.0 * n) / (square * _TOUCH**3)
            below = 0.5 * d * d * (1.0 + curved)  # how far the log density is below its tangent
            if _is_early_accepted(level, below, square):
                return 1.0 / square, block


@njit(error_model="numpy")
def _three_pieces(z):
    """Mode of n; where the level piece is, from the mode; share of the right tangent in the tails.

    In y = n - z / n the log density is -y**2 / 2.  Tangents at y = sqrt(2) and -sqrt(2) are best;
    then n = h + s and h - s with h = sqrt(z + 1/2), s = sqrt(1/2), the hat has area 2 s, of which
    the level piece is half, for every z.  Offsets from the mode do not cancel where z is huge.
    """
    mode, middle = math.sqrt(z), math.sqrt(z + 0.5)
    right_share = 0.5 + 0.5 * _ROOT_HALF / middle
    left_end = 0.5 / (middle + mode) - _ROOT_HALF * right_share
    return mode, left_end, right_share


@njit(error_model="numpy")
def _draw_three_pieces(address, block, pieces):
    mode, left_end, right_share = pieces
    while True:
        place, level = two_uniforms(address, block)
        block += 1
        d, fall = left_end + 2.0 * _ROOT_HALF * place, 0.0
        if place >= 0.5:
            tail = 2.0 * place - 1.0
            if tail < right_share:
                fall = -math.log(tail / right_share)
                d = left_end + _ROOT_HALF * (1.0 + right_share * fall)
            else:
                fall = -math.log((1.0 - tail) / (1.0 - right_share))
                d = left_end - _ROOT_HALF * (1.0 - right_share) * fall
        n = mode + d
        y = d * (1.0 + mode / n)
        below = 0.5 * y * y - fall
        if n > 0.0 and _is_early_accepted(level, below, n * n):
            return 1.0 / (n * n), block


@njit(error_model="numpy")
def polya_gamma(address, count, z):
    """PG(count, z), the sum of `count` variables PG(1, z); for z = inf its limit, for NaN NaN."""
    half, total, block = 0.5 * abs(z), 0.0, 0
    if not half < math.inf:
        return 1.0 / half
    if half < _THREE_PIECES_FROM:
        two = _two_pieces(half)
        for _ in range(count):
            x, block = _draw_two_pieces(address, block, half, two)
            total += x
    else:
        three = _three_pieces(half)
        for _ in range(count):
            x, block = _draw_three_pieces(address, block, three)
            total += x
    return 0.25 * total
