"""Curvature of columns in the quadratic model, and their loads: sums over tiles, then over bins.

With the terms of `bins`, x'Mx = sum_i x_i^2 h_i - sum_k c_k^2 / N_k and c_k = sum_i x_i h_ik.  Few
bins: sums of x h, x w and x c by bin of exit (and of entry), three passes like a gradient's, give
the loads by two recursions over bins.  One bin a stratum: strata are ranges of rows, so that a load
is complete, and spent, where the column's next entry is of another stratum.  A stratum that goes on
in the next tile stays open.
"""

from typing import NamedTuple

import numpy as np

from ..._compile import device, kernel
from ...data.design.kernels import COMPUTED, DENSE, INDICATOR, SPARSE, SQUARE
from ...data.design.tiles import Tiles, tile_at
from .bins import CONSTANT

# Of sums by bin, of columns that are loaded at once: a cache holds them, and memory that is taken
# and given back in larger pieces is cleared each time.
LOAD_BYTES = 2**20


def load(products, columns, h, centring):
    """Curvature of columns (centred, and not), and their loads where bins are few."""
    if not centring.few:
        return load_strata(products, columns, h, centring), None
    curvature = np.empty((len(columns), 2))
    loads = np.empty((len(columns), centring.n_bins))
    size = max(1, LOAD_BYTES // (8 * max(1, centring.n_bins)))
    for low in range(0, len(columns), size):
        part = slice(low, low + size)
        load_few(products, columns[part], h, centring.bins, loads[part], curvature[part])
    return curvature, loads


def load_few(products, columns, h, bins, loads, curvature):
    """Loads of columns in all bins; their curvature in the model, and without bins."""
    add_up = _by_exit if bins.parts is None else _by_node
    loads[:], curvature[:, 1], later, carried = add_up(products, columns, h, bins)
    valued = np.flatnonzero(products.kind[products.source[columns]] != INDICATOR)
    if len(valued):
        curvature[valued, 1] = products.of_columns(columns[valued], h, SQUARE)
    combine(*of_bins(bins), loads, later, carried, curvature)


def _by_exit(products, columns, h, bins):
    """Sums of x h by bin, without the time before entries, and over all; of x w and x c."""
    exits = products.labels(bins.exit_bin, len(bins.base), bins.row_ptr)
    loads, later, carried = (
        _nothing(columns) if numbers is None else products.labelled(columns, numbers, exits)
        for numbers in (h, bins.w_row, bins.carried_row)
    )
    total = loads.sum(axis=1)
    if bins.enter_bin is not None:
        entries = products.labels(bins.enter_bin, len(bins.base))
        before = bins.w_row * bins.enter_hazard
        loads += products.labelled(columns, before, exits)
        loads -= products.labelled(columns, before, entries)
        later -= products.labelled(columns, bins.w_row, entries)
    return loads, total, later, carried


def _by_node(products, columns, h, bins):
    """As `_by_exit`, of parts of h by the nodes of a tree: their sums go down to the bins."""
    parts, n_bins = bins.parts, len(bins.base)
    sums = np.zeros((len(columns), 2 * n_bins))
    for node, h_there in zip(parts.node, parts.h, strict=True):
        sums += products.labelled(columns, h_there, products.labels(node, 2 * n_bins))
    for q in range(2, 2 * n_bins):
        sums[:, q] += parts.share[q] * sums[:, q >> 1]
    loads = sums[:, n_bins:]
    return loads, loads.sum(axis=1), _nothing(columns), _nothing(columns)


def _nothing(columns):
    """Sums of columns over no bins."""
    return np.empty((len(columns), 0))


class _Ones:
    """A column of ones, as `_by_exit` takes products of columns."""

    @staticmethod
    def labels(label, n_labels, row_ptr=None):
        return label, n_labels

    @staticmethod
    def labelled(columns, numbers, labels):
        return np.bincount(labels[0], numbers, labels[1]).astype(np.float64)[None]


def load_ones(h, bins):
    """Loads of a column of ones in all bins, which are few."""
    loads, _, later, carried = _by_exit(_Ones, [0], h, bins)
    combine(*of_bins(bins), loads, later, carried, np.zeros((1, 2)))
    return loads[0]


def of_bins(bins):
    """Arrays of bins for `combine`; zeros for what they do without."""
    zeros, ones = np.zeros(len(bins.base)), np.ones(len(bins.base))
    after, fall = (zeros if one is None else one for one in (bins.after, bins.fall))
    decay, fade = (ones if one is None else one for one in (bins.decay, bins.fade))
    later, earlier = Recursion(bins.base, bins.jump, decay), Recursion(after, fall, fade)
    return bins.last, later, earlier, bins.inverse


class Recursion(NamedTuple):
    """How sums over rows of other bins go from bin to bin."""

    base: np.ndarray  # A[start], or B[end]
    jump: np.ndarray
    decay: np.ndarray


@kernel
def combine(last, from_later, from_earlier, inverse, loads, later, carried, curvature):
    """Turn sums of x h into loads, by sums of x w and x c, over no bins where there are none.

    A call owns all arrays of columns.  ``curvature[:, 1]`` is given, ``curvature[:, 0]`` written.
    """
    for a in range(len(loads)):
        load, before, above = loads[a], 0.0, 0.0
        for k in range(carried.shape[1]):
            load[k] += from_earlier.jump[k] * before - from_earlier.base[k] * carried[a, k]
            before = from_earlier.decay[k] * before + carried[a, k] if k < last[k] else 0.0
        for k in range(later.shape[1] - 1, -1, -1):
            load[k] -= from_later.base[k] * later[a, k]
            if k < last[k]:
                load[k] += from_later.jump[k] * above
                above = from_later.decay[k] * above + later[a, k]
            else:
                above = later[a, k]
        centred = curvature[a, 1]
        for k in range(len(load) - 1, -1, -1):
            centred -= load[k] * load[k] * inverse[k]
        curvature[a, 0] = centred if centred > CONSTANT * curvature[a, 1] else 0.0


class LoadSums(NamedTuple):
    """Of columns, over the tiles so far."""

    total: np.ndarray  # x^2 h
    spent: np.ndarray  # c_k^2 / N_k
    load: np.ndarray  # of the stratum that goes on
    is_open: np.ndarray  # uint8: whether the column has an entry of it

    @classmethod
    def of(cls, n_columns):
        """Nothing yet."""
        return cls(*np.zeros((3, n_columns)), np.zeros(n_columns, np.uint8))


@device
def _add_strata_of_tile(tile, columns, h, strata, t, sums, lists):
    number = strata.number[tile.first : tile.first + tile.n_rows]
    inverse = strata.inverse[strata.ptr[t] : strata.ptr[t + 1]]
    last, z = len(inverse) - 1, 0
    for a in range(len(columns)):
        c = columns[a]
        begin, end, v = tile.indptr[c], tile.indptr[c + 1], tile.value_ptr[c]
        is_dense, is_one = tile.kind[c] == DENSE, tile.kind[c] == INDICATOR
        own, load, total, spent = -1, sums.load[a], 0.0, 0.0
        if sums.is_open[a]:
            own = 0
        for q in range(tile.n_rows if is_dense else end - begin):
            i = q if is_dense else np.int64(tile.indices[begin + q])
            x = 1.0 if is_one else tile.values[v + q]
            if number[i] != own:
                if own >= 0:
                    spent += load * load * inverse[own]
                    z = _list(lists, t, z, own, load)
                own, load = np.int64(number[i]), 0.0
            load += x * h[i]
            total += x * x * h[i]
        stays_open = own == last and strata.goes_on[t]
        if own >= 0 and not stays_open:
            spent += load * load * inverse[own]
            z = _list(lists, t, z, own, load)
        sums.is_open[a] = stays_open
        sums.load[a] = load if stays_open else 0.0
        sums.total[a] += total
        sums.spent[a] += spent
        if lists is not None:
            lists.indptr[t, a + 1] = z


@device
def _list(lists, t, z, own, load):
    """Write a load behind the others of its tile, if loads are listed; where the next goes."""
    if lists is not None:
        lists.indices[lists.first_index[t] + z] = own
        lists.values[lists.first_index[t] + z] = load
    return z + 1


@kernel
def add_strata(X, columns, h, strata, sums, lists):
    """Spend the loads of strata where these end; write them into `lists`, tiles of loads, or None.

    A call owns what there is of its columns.
    """
    for t in range(len(X.starts) - 1):
        own = h[X.starts[t] : X.starts[t + 1]]
        _add_strata_of_tile(tile_at(X, t), columns, own, strata, t, sums, lists)


def load_strata(products, columns, h, centring):
    """Curvature of columns where each stratum is a bin, and without bins."""
    if products.n_pieces > 1 or (products.kind[products.source[columns]] == COMPUTED).any():
        return _load_scattered(products, columns, h, centring.bins)
    sums, source = LoadSums.of(len(columns)), products.source[columns]
    strata = centring.strata(products.tiles.starts)

    def part(low, high):
        own = LoadSums(*(array[low:high] for array in sums))
        add_strata(products.tiles, source[low:high], h, strata, own, None)

    products.over_columns(part, source)
    return _curvature(sums.total, sums.spent)


def _curvature(total, spent):
    centred = total - spent
    return np.column_stack([np.where(centred > CONSTANT * total, centred, 0.0), total])


def _load_scattered(products, columns, h, bins):
    """`load_strata` where rows of a stratum are not side by side, as copies of rows in pieces."""
    spent, n_bins = np.empty(len(columns)), len(bins.base)
    strata = products.labels(bins.exit_bin, n_bins)
    size = max(1, LOAD_BYTES // (8 * n_bins))
    for low in range(0, len(columns), size):
        loads = products.labelled(columns[low : low + size], h, strata)
        spent[low : low + size] = (loads * loads) @ bins.inverse
    return _curvature(products.of_columns(columns, h, SQUARE), spent)


def loads_of_strata(products, columns, h, centring):
    """Loads of columns as valued sparse columns over strata, in tiles, and 1 / N of each stratum.

    A tile of loads has the strata that end in a tile of rows.
    """
    source, X = products.source[columns], products.tiles
    strata, n = centring.strata(X.starts), len(columns)
    stored = np.diff(X.indptr, axis=1)[:, source]
    stored = np.where(X.kind[source] == DENSE, np.diff(X.starts)[:, None], stored)
    # a stratum from the tile before may end without an entry in this one
    room = np.minimum(stored + 1, np.diff(strata.ptr)[:, None]).sum(axis=1)
    first_index = np.concatenate([[0], np.cumsum(room)])
    indptr = np.zeros((X.n_tiles, n + 1), np.int64)
    loads = Tiles(
        np.full(n, SPARSE, np.uint8),
        strata.ptr,
        indptr,
        first_index,
        np.empty(first_index[-1], np.uint16),
        indptr,
        first_index,
        np.empty(first_index[-1]),
    )
    add_strata(X, source, h, strata, LoadSums.of(n), loads)
    return loads._replace(value_ptr=indptr[:, :-1].copy()), strata.inverse
