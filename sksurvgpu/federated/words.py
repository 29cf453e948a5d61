"""Numbers as words modulo a prime, so that sums over sites are exact and can be masked.

A word is a number of 0, ..., p - 1 with p = 2**61 - 1, a Mersenne prime: 2**61 = 1 modulo p.  A
float is the fixed-point number N = value * 2**56, rounded, as two words of its limbs

    N = hi * 2**50 + lo,    0 <= lo < 2**50,    -2**46 <= hi < 2**46

where a negative hi is p + hi.  A double of size 1/16 or more is a multiple of 2**-56, so that its
N is exact.  Sums of 1,000 sites stay apart modulo p: lo adds up to less than 1,000 * 2**50 < 2**60
< p, and hi, like a count of size below 2**50, to less than 2**60 - 1 = (p - 1) / 2 in size.
"""

import numpy as np

BITS = 61
PRIME = 2**BITS - 1
FRACTION, LOW = 56, 50  # bits
MOST_SITES = 1000
LARGEST = 2.0 ** (46 + LOW - FRACTION)  # float
COUNTS = 1 << 50  # above all counts
FLAGS = 60  # bits of a word that hold flags: 61 that are set would be p, which is 0
_PRIME, _HALF = np.uint64(PRIME), np.uint64(PRIME // 2)
_LOW, _LOW_MASK = np.int64(LOW), np.int64((1 << LOW) - 1)


class WordsError(ValueError):
    """Numbers that are no words, or that words do not hold."""


def check(words: np.ndarray) -> np.ndarray:
    """Return the words, if they are such."""
    if not isinstance(words, np.ndarray) or words.dtype != np.uint64:
        raise WordsError(f"words are an array of uint64, got {getattr(words, 'dtype', 'none')}.")
    if (words >= _PRIME).any():
        raise WordsError("a word is not below 2**61 - 1.")
    return words


def encode(values) -> np.ndarray:
    """Words (2, n) of floats, flattened: high limbs, then low ones."""
    values = np.asarray(values, np.float64).ravel()
    is_held = np.abs(values) < LARGEST  # not of nan
    if not is_held.all():
        raise WordsError(f"{values[~is_held][0]} is no finite number of size below 2**40.")
    # Each step is exact: powers of two scale, and a remainder has no more digits than its number.
    scaled = np.rint(np.ldexp(values, FRACTION))
    high = np.floor(np.ldexp(scaled, -LOW))
    low = scaled - np.ldexp(high, LOW)
    return np.stack([_unsigned(high.astype(np.int64)), low.astype(np.uint64)])


def decode(words: np.ndarray) -> np.ndarray:
    """Floats of a sum (2, n): rounded correctly below 2**47 in size, beyond it within 1 ulp."""
    high, low = _signed(words[0]), check(words[1]).astype(np.int64)
    if (low >= MOST_SITES << LOW).any() or (np.abs(high) > MOST_SITES << 46).any():
        raise WordsError(f"no {MOST_SITES:,} sites have numbers with such a sum.")
    high, low = high + (low >> _LOW), low & _LOW_MASK
    return np.ldexp(high.astype(float), LOW - FRACTION) + np.ldexp(low.astype(float), -FRACTION)


def encode_counts(counts) -> np.ndarray:
    """Words (n,) of integers."""
    counts = np.asarray(counts, np.int64).ravel()
    is_held = (counts > -COUNTS) & (counts < COUNTS)
    if not is_held.all():
        raise WordsError(f"{counts[~is_held][0]} is no count of size below 2**50.")
    return _unsigned(counts)


def decode_counts(words: np.ndarray) -> np.ndarray:
    """Integers (n,) of a sum."""
    return _signed(words)


def _unsigned(integers):
    """Words of integers, of which negative ones stand at the upper end."""
    return np.where(integers < 0, integers + PRIME, integers).astype(np.uint64)


def _signed(words):
    signed = check(words).astype(np.int64)
    return np.where(words > _HALF, signed - PRIME, signed)


def pack_flags(flags, n_sites: int) -> np.ndarray:
    """Words of flags, with room in each to count those of all sites."""
    flags = np.asarray(flags, bool).ravel()
    shifts = _shifts(n_sites)
    rows = np.zeros((-(-len(flags) // len(shifts)), len(shifts)), np.uint64)
    rows.ravel()[: len(flags)] = flags
    return (rows << shifts).sum(axis=1, dtype=np.uint64)


def unpack_flags(words: np.ndarray, n_flags: int, n_sites: int) -> np.ndarray:
    """How many sites set each flag, of a sum."""
    shifts = _shifts(n_sites)
    if check(words).shape != (-(-n_flags // len(shifts)),):
        raise WordsError(f"{n_flags:,} flags are not in words of shape {words.shape}.")
    counts = (words[:, None] >> shifts) & np.uint64((1 << int(n_sites).bit_length()) - 1)
    counts = counts.ravel()[:n_flags].astype(np.int64)
    if (counts > n_sites).any():
        raise WordsError(f"a flag is set by {counts.max()} of {n_sites} sites.")
    return counts


def _shifts(n_sites):
    """Position of every count in a word."""
    if not 1 <= n_sites <= MOST_SITES:
        raise WordsError(f"sums are of 1 to {MOST_SITES:,} sites, got {n_sites}.")
    width = int(n_sites).bit_length()
    return np.arange(FLAGS // width, dtype=np.uint64) * np.uint64(width)


def _reduce(numbers):
    """Numbers of 0, ..., 2p - 1 modulo p: those below p wrap to more than they were."""
    return np.minimum(numbers, numbers - _PRIME)


def from_bits(bits: np.ndarray) -> np.ndarray:
    """Words of random 64 bits each: at most 2**-61 from uniform, as both 0 and p give 0."""
    return _reduce(bits & _PRIME)


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sum of words."""
    return _reduce(a + b)


def subtract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Difference of words."""
    return _reduce(a + (_PRIME - b))


def dot(key: np.ndarray, words: np.ndarray) -> int:
    """Sum of the products of words."""
    half, mask = np.uint64(31), np.uint64(2**31 - 1)
    high_key, low_key, high, low = key >> half, key & mask, words >> half, words & mask
    middle = high_key * low + low_key * high  # below 2**62, to be shifted by 31
    carried, kept = middle >> np.uint64(30), middle & np.uint64(2**30 - 1)
    # Terms are below 2**61, 2**32, 2**61 and 2**62, hence their sum below 2**64.
    products = np.uint64(2) * high_key * high + carried + (kept << half) + low_key * low
    lower, upper = products & np.uint64(2**32 - 1), products >> np.uint64(32)
    return (int(lower.sum()) + (int(upper.sum()) << 32)) % PRIME
