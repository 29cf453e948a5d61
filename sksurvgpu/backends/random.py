"""Random numbers from counters: scalar formulas that every backend compiles.

A number depends on its address alone: seed, chain, item (a row or a coefficient), iteration, and
site (which draw of the iteration).  Nothing is stored, so that draws are the same for any number of
threads, any batch of chains, either backend, and after a restart.  The generator is Philox4x32-10
(Salmon et al. 2011) with the key (seed, chain) and the counter (block, item, iteration, site); a
draw that needs more than one block of four words counts the blocks.

    uniform            odd multiples of 2**-53: never 0 or 1, symmetric; NumPy's 53 bits have a 0
    normal             Box and Muller, its cosine by a polynomial: no slow reduction on a GPU
    gamma              Marsaglia and Tsang, by logarithms: nothing cancels for huge shapes, tiny
                       ones do not underflow
    inverse Gaussian   Michael, Schucany and Haas by sums of positive terms: the textbook's
                       difference is 0 for most draws once the mean is 1e9; 1 / mean may be 0

No argument makes a formula loop forever: what is not a distribution gives NaN.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

# All integers are uint64: Numba turns a mixture of signed and unsigned ones into floats.
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_MULTIPLIER_0, _MULTIPLIER_2 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL_0, _WEYL_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_TOP, _SHIFT = np.uint64(12), np.uint64(20)
_SMALLEST = np.finfo(np.float64).tiny


_WORD = 2**32
LARGEST_COUNT = 2**28  # of PG(1, z) in a sum: each takes a block an attempt, all fit into one word


class Address(NamedTuple):
    """Where a random number stands, as uint64 below 2**32."""

    seed: int
    chain: int
    item: int
    iteration: int
    site: int


def as_words(name, values):
    """Parts of an address as uint64: integers of 32 bits, or an error."""
    if isinstance(values, int) and 0 <= values < _WORD:  # of every draw: arrays would take longer
        return np.uint64(values)
    values = np.asarray(values)
    if values.dtype.kind not in "iu":
        raise TypeError(f"`{name}` is of dtype {values.dtype}; pass integers.")
    outside = (values < 0) | (values >= _WORD)
    if outside.any():
        raise ValueError(
            f"`{name}` is {values[outside][0]:,}, must be from 0 to {_WORD - 1:,}: it becomes a "
            "word of 32 bits of a counter; choose a smaller number."
        )
    return values.astype(np.uint64)[()]


def as_counts(count):
    """How many variables PG(1, z) rows sum, as int64, or an error."""
    count = np.asarray(count)
    if count.dtype.kind not in "iu":
        raise TypeError(f"`count` is of dtype {count.dtype}; pass integers.")
    outside = (count < 0) | (count > LARGEST_COUNT)
    if outside.any():
        raise ValueError(
            f"`count` is {count[outside][0]:,} in row {int(np.argmax(outside)):,}, must be from 0 "
            f"to {LARGEST_COUNT:,}: that many variables are drawn and summed; split the row."
        )
    return count.astype(np.int64)


@njit(error_model="numpy")
def philox(c0, c1, c2, c3, k0, k1):
    """Four random words of 32 bits, of a counter of four words and a key of two."""
    c0, c1, c2, c3 = c0 & _LOW, c1 & _LOW, c2 & _LOW, c3 & _LOW
    k0, k1 = k0 & _LOW, k1 & _LOW
    for _ in range(10):
        first, second = _MULTIPLIER_0 * c0, _MULTIPLIER_2 * c2
        c0, c1 = (second >> _HALF) ^ c1 ^ k0, second & _LOW
        c2, c3 = (first >> _HALF) ^ c3 ^ k1, first & _LOW
        k0, k1 = (k0 + _WEYL_0) & _LOW, (k1 + _WEYL_1) & _LOW
    return c0, c1, c2, c3


@njit(error_model="numpy")
def open_uniform(high, low):
    """Two words as a number between 0 and 1, neither: of 52 bits, as one more would round to 1."""
    return (float(np.int64((high << _SHIFT) | (low >> _TOP))) + 0.5) * 2.0**-52


@njit(error_model="numpy")
def two_uniforms(address, block):
    """Two uniforms in the open interval from 0 to 1."""
    r0, r1, r2, r3 = philox(
        np.uint64(block), address.item, address.iteration, address.site, address.seed, address.chain
    )
    return open_uniform(r0, r1), open_uniform(r2, r3)


@njit(error_model="numpy")
def uniform(address):
    """Uniform in the open interval from 0 to 1."""
    return two_uniforms(address, 0)[0]


@njit(error_model="numpy")
def cos_turns(turns):
    """cos(2 pi turns) for turns between 0 and 1.

    The angle is taken from the nearest zero, exactly; of the Taylor series of the sine at most
    pi / 2 away, the first term left out is 3e-16.
    """
    x = 2.0 * math.pi * (abs(turns - 0.5) - 0.25)
    s = x * x
    tail = 1.0 - s * (1.0 / 210.0) * (1.0 - s * (1.0 / 272.0) * (1.0 - s * (1.0 / 342.0)))
    tail = 1.0 - s * (1.0 / 72.0) * (1.0 - s * (1.0 / 110.0) * (1.0 - s * (1.0 / 156.0) * tail))
    return x * (1.0 - s * (1.0 / 6.0) * (1.0 - s * (1.0 / 20.0) * (1.0 - s * (1.0 / 42.0) * tail)))


@njit(error_model="numpy")
def normal(address, block=0):
    """Standard normal (Box and Muller 1958), never exactly 0."""
    radius, turns = two_uniforms(address, block)
    return math.sqrt(-2.0 * math.log(radius)) * cos_turns(turns)


@njit(error_model="numpy")
def _marsaglia_tsang(address, shape):
    """d, y such that d (1 + y)**3 is gamma with a shape of at least 1; an independent uniform."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    block = 0
    while True:
        y = c * normal(address, block)
        accept, unused = two_uniforms(address, block + 1)
        block += 2
        if y > -1.0:
            # Their z**2 / 2 + d (1 - v + log v), v = (1 + y)**3, without the terms that cancel.
            level = d * (3.0 * math.log1p(y) - y * (3.0 - y * (1.5 - y)))
            if math.log(accept) <= level:
                return d, y, unused


@njit(error_model="numpy")
def log_gamma(address, shape):
    """Logarithm of `gamma`, also where that underflows: below 1, most draws of a small shape do."""
    if not 0.0 < shape < math.inf:
        return math.nan
    d, y, unused = _marsaglia_tsang(address, shape if shape >= 1.0 else shape + 1.0)
    value = math.log(d) + 3.0 * math.log1p(y)
    return value if shape >= 1.0 else value + math.log(unused) / shape


@njit(error_model="numpy")
def gamma(address, shape):
    """Gamma with rate 1 (Marsaglia and Tsang 2000); NaN for shapes not positive and finite.

    A shape below 1 takes the variable of shape + 1 times a power of a uniform.  Where that
    underflows, the smallest normal number: its reciprocal is finite.
    """
    if 1.0 <= shape < math.inf:
        d, y, _ = _marsaglia_tsang(address, shape)
        return d * (1.0 + y) * (1.0 + y) * (1.0 + y)
    value = math.exp(log_gamma(address, shape))
    return _SMALLEST if value < _SMALLEST else value


@njit(error_model="numpy")
def inverse_gaussian(address, mean, shape, block=0):
    """Inverse Gaussian (Michael, Schucany and Haas 1976) without their cancellation.

    The mean may be infinite: then it is the shape over a chi-square variable.  NaN for other
    arguments that are not positive.
    """
    if not (mean > 0.0 and shape > 0.0):
        return math.nan
    z = normal(address, block)
    inverse = 1.0 / mean
    half = 0.5 * z * z / shape
    x = 1.0 / (inverse + half + math.sqrt(half) * math.sqrt(half + 2.0 * inverse))
    share = inverse * x
    if two_uniforms(address, block + 1)[0] * (1.0 + share) <= 1.0:
        return x
    return mean / share
