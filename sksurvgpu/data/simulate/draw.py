"""Random designs and coefficients, drawn column by column.

Indicator columns are Bernoulli sequences drawn through their geometric gaps: one draw a nonzero,
sorted and without duplicates by construction. Cost O(nnz) in time and memory; no n x p array is
ever formed.
"""

import numpy as np
from scipy.sparse import csc_array

from ..._docs import entries, sharing

Seed = int | np.random.Generator | np.random.RandomState | None

FOLLOW_UP = 499.0
RATE = (0.01, 0.03)  # of events, at a linear predictor of 0
# Cells drawn at once, which bounds the temporaries at 8 * density bytes a cell.
CHUNK_CELLS = 1 << 27

documented = sharing(
    entries("""
    n_samples : int, default=10_000
        Number of rows.
    n_features : int, default=1_000
        Number of columns.
    density : float, default=0.05
        Probability of a one; every cell is drawn independently.
    n_strata : int, default=1
        Number of strata; rows are assigned uniformly.
    zero_fraction : float, default=0.8
        Share of the coefficients that is exactly zero.
    tie_break : bool, default=True
        Add N(0, 0.001^2) to the times, which are otherwise whole numbers and tied.
    random_state : int, Generator, RandomState or None, default=None
        Seed or source of randomness.
    X : csc_array or ndarray of shape (n_samples, n_features)
        Design, float64; sparse designs hold ones only, rows sorted within a column.
    strata : ndarray of shape (n_samples,) or None
        Stratum label of each row, int32; None with a single stratum.
    """)
)


def generator(random_state) -> np.random.Generator:
    """Accept scikit-learn's kinds of seed and NumPy's generators."""
    if isinstance(random_state, np.random.RandomState):
        # 128 bits of the legacy stream, so that advancing it gives other data.
        random_state = random_state.randint(0, 2**32, size=4, dtype=np.uint64)
    return np.random.default_rng(random_state)


def check_sizes(**sizes):
    for name, value in sizes.items():
        if value < 1:
            raise ValueError(f"`{name}` is {value}; it must be at least 1")
        if value >= 2**31:
            raise ValueError(f"`{name}` is {value}; indices are int32, use fewer than 2^31")


def check_share(name, value, *, include_one=True):
    if not (0.0 <= value < 1.0 or (include_one and value == 1.0)):
        upper = "1]" if include_one else "1)"
        raise ValueError(f"`{name}` is {value}; it must lie in [0, {upper}")


def check_between(name, value, low, high):
    if not low < value < high:
        raise ValueError(f"`{name}` is {value}; it must lie strictly between {low} and {high}")


def sparse_normal(n_features, scale, zero_fraction, rng):
    """N(0, scale^2) coefficients, of which an exact share is zero."""
    coef = rng.normal(0.0, scale, n_features)
    coef[rng.permutation(n_features)[: round(zero_fraction * n_features)]] = 0.0
    return coef


def bernoulli_positions(n_cells, probability, rng):
    """Sorted positions of the ones among ``n_cells`` independent Bernoulli cells, int64."""
    if probability <= 0.0 or n_cells == 0:
        return np.empty(0, np.int64)
    blocks, last = [], -1
    while last < n_cells - 1:
        expected = (n_cells - 1 - last) * probability
        # Four standard deviations more than expected: a second round is rare, never wrong.
        gaps = rng.geometric(probability, int(expected + 4.0 * np.sqrt(expected)) + 8)
        # A gap beyond the end means that no one follows. Clipped one cell past the end, so that
        # the sum stays inside int64 and the last cell is not hit.
        np.minimum(gaps, n_cells + 1, out=gaps)
        np.cumsum(gaps, out=gaps)
        gaps += last
        blocks.append(gaps)
        last = int(gaps[-1])
    blocks[-1] = blocks[-1][: np.searchsorted(blocks[-1], n_cells)]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def bernoulli_design(n_samples, n_features, density, rng):
    """Independent indicator columns: one Bernoulli sequence down the columns, in chunks."""
    columns_a_chunk = max(1, CHUNK_CELLS // n_samples)
    parts, column_counts = [], []
    for first in range(0, n_features, columns_a_chunk):
        width = min(columns_a_chunk, n_features - first)
        rows = bernoulli_positions(n_samples * width, density, rng)
        starts = np.arange(width + 1, dtype=np.int64) * n_samples
        counts = np.diff(np.searchsorted(rows, starts))
        rows -= np.repeat(starts[:-1], counts)
        parts.append(rows.astype(np.int32))
        column_counts.append(counts)
    return indicator_csc(np.concatenate(parts), np.concatenate(column_counts), n_samples)


def indicator_csc(indices, counts, n_samples):
    """Wrap row indices and column counts; scipy wants one index type, int32 where it fits."""
    index_type = np.int32 if indices.size < 2**31 else np.int64
    indptr = np.zeros(counts.size + 1, index_type)
    np.cumsum(counts, out=indptr[1:])
    X = csc_array((np.ones(indices.size), indices, indptr), shape=(n_samples, counts.size))
    X.has_canonical_format = True
    return X


def indicators_and_coef(shape, density, scale, zero_fraction, rngs):
    """Check a sparse problem's parameters and draw its design and N(0, scale^2) coefficients."""
    check_share("density", density, include_one=False)
    check_share("zero_fraction", zero_fraction)
    rng_design, rng_coef = rngs
    coef = sparse_normal(shape[1], scale, zero_fraction, rng_coef)
    return bernoulli_design(*shape, density, rng_design), coef


def indicators(shape, density, scale, zero_fraction, random_state):
    """Design and coefficients as of `indicators_and_coef`, and a generator for the outcome."""
    check_sizes(n_samples=shape[0], n_features=shape[1])
    *rngs, rng = generator(random_state).spawn(3)
    return *indicators_and_coef(shape, density, scale, zero_fraction, rngs), rng


def strata(n_samples, n_strata, rng):
    """Uniform labels, int32; None with one stratum."""
    return None if n_strata == 1 else rng.integers(n_strata, size=n_samples, dtype=np.int32)


def of_rows(values, strata):
    """Value of each row's stratum; that of all rows where there is one."""
    return values[0] if strata is None else values[strata]
