"""Rows in tiles: what lies where, and what passes over them find, against dense arrays."""

import pickle
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sksurvgpu.backends.cpu import tile_gram, tile_loads, tile_products
from sksurvgpu.backends.cpu.bins import Bins, Centring, bins_of_groups
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cpu.tile_products import SQUARE, Products
from sksurvgpu.data.design.columns import DENSE, INDICATOR, SPARSE, Design, build_design
from sksurvgpu.data.design.tiles import LARGEST, OrderedDesign, Tiles, even_starts, tiles_of

N = 401
SIZES = (1, 7, 64, 100, 400, 401)  # 400: the last tile has one row
# Columns: rare, frequent, valued, frequent and valued, empty, dense, and some dense side by side.
SHARES = np.array([0.01, 0.4, 0.1, 0.9, 0.0, 1.0, 0.2, *np.ones(17)])


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, len(SHARES)))
    values[:, [0, 1, 6]] = 1.0
    return np.where(rng.random(values.shape) < SHARES, values, 0.0)


def short(design):
    """The same design with row numbers of 16 bits."""
    indices = design.indices.astype(np.uint16)
    given = design.kind, design.indptr, indices, design.values, design.value_ptr
    return Design(design.n_rows, *given)


def dense(tiles: Tiles):
    """What tiles hold, and that it is in order."""
    out = np.zeros((tiles.n_rows, len(tiles.kind)))
    for tile, start in zip(tiles.each(), tiles.starts[:-1], strict=True):
        assert tile.indices.dtype == np.uint16 and tile.first == start
        for j, kind in enumerate(tile.kind):
            rows, v = tile.indices[tile.indptr[j] : tile.indptr[j + 1]], tile.value_ptr[j]
            if kind == DENSE:
                assert not len(rows)
                rows = np.arange(tile.n_rows)
            assert (np.diff(rows.astype(int)) > 0).all()
            values = 1.0 if kind == INDICATOR else tile.values[v : v + len(rows)]
            out[tile.first + rows.astype(int), j] = values
    return out


@pytest.mark.thorough(but=r"random-(None|64|401)-3|given-7-1")
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("size", [None, *SIZES])
@pytest.mark.parametrize("order", ["given", "random"])
@pytest.mark.parametrize("form", [np.asarray, sp.csc_array, pd.DataFrame])
def test_tiles_hold_the_rows_in_their_order(form, order, size, n_threads, monkeypatch):
    monkeypatch.setattr("sksurvgpu.data.design.tiles.FEWEST", 0)
    X, starts = table(), None if size is None else even_starts(N, size)
    rows = np.arange(N) if order == "given" else np.random.default_rng(1).permutation(N)
    tiles = tiles_of(build_design(form(X)), rows, starts=starts, n_threads=n_threads)
    assert np.array_equal(dense(tiles), X[rows])
    assert max(np.diff(tiles.starts)) <= (size or LARGEST)


def test_tiles_begin_where_asked_for():
    X, order = table(), np.random.default_rng(2).permutation(N)
    rows = OrderedDesign(build_design(pd.DataFrame(X)), order)
    for starts in ([0, 0, 1, 200, 200, 390, N, N], [0, N]):
        tiles = rows.cut(np.array(starts))
        assert np.array_equal(dense(tiles), X[order]) and tiles.starts.tolist() == starts


def test_kinds_of_the_table():
    kinds = set(build_design(pd.DataFrame(table())).kind)
    assert kinds == {INDICATOR, SPARSE, DENSE}


@pytest.mark.parametrize("n", [3_000, 100_000])
def test_columns_of_any_frequency_are_sorted(n):
    """Columns are sorted by insertion, or by one of two bitmaps."""
    rng = np.random.default_rng(0)
    counts = [0, 1, 31, 33, 200, n // 100, n // 3, n]
    columns = [np.sort(rng.permutation(n)[:count]) for count in counts]
    indptr = np.concatenate([[0], np.cumsum(counts)])
    ones = np.ones(indptr[-1])
    X = sp.csc_array((ones, np.concatenate(columns), indptr), shape=(n, len(counts)))
    order = rng.permutation(n)
    assert np.array_equal(dense(tiles_of(build_design(X), order)), X.toarray()[order])


def test_two_bytes_a_one_and_dense_columns_side_by_side():
    rng = np.random.default_rng(0)
    ones = build_design(sp.csc_array((rng.random((20_000, 10)) < 0.3).astype(float)))
    tiles = tiles_of(ones, rng.permutation(20_000))
    assert tiles.n_tiles > 1 and tiles.nbytes < 2 * ones.n_entries + 500 * tiles.n_tiles
    for tile in tiles_of(
        build_design(pd.DataFrame(table())), np.arange(N), starts=even_starts(N, 100)
    ).each():
        begin = tile.value_ptr[tile.kind == DENSE]
        assert np.array_equal(begin, tile.n_rows * np.arange(len(begin)))


def test_centres_are_taken_from_values():
    X, rng = table(), np.random.default_rng(0)
    center = np.where(SHARES == 1.0, rng.normal(size=len(SHARES)), 0.0)
    order = rng.permutation(N)
    rows = OrderedDesign(build_design(pd.DataFrame(X)), order).centred(center)
    assert np.array_equal(dense(rows.tiles), (X - center)[order])
    assert np.array_equal(rows.whole.to_scipy().toarray(), (X - center)[order])
    chosen = rows.select(np.array([5, 1])).to_scipy().toarray()
    assert np.array_equal(chosen, (X - center)[order][:, [5, 1]])
    assert np.array_equal(rows.given.to_scipy().toarray(), X)
    again = pickle.loads(pickle.dumps(rows))
    assert np.array_equal(dense(again.tiles), dense(rows.tiles))
    assert rows.tiles is rows.tiles and rows.whole is rows.whole
    assert np.array_equal(dense(rows.centred(None).tiles), X[order])


def test_a_design_of_short_row_numbers_is_a_tile():
    X = short(build_design(pd.DataFrame(table())))
    tiles = tiles_of(X, np.arange(N))
    (tile,) = tiles.each()
    for name in ("indptr", "indices", "values", "value_ptr"):
        assert np.shares_memory(getattr(tile, name), getattr(X, name))
    assert np.array_equal(dense(tiles), table())
    assert not np.shares_memory(tiles_of(X, np.arange(N)[::-1]).indices, X.indices)
    assert tiles_of(X, np.arange(N), starts=even_starts(N, 200)).n_tiles == 3


def test_what_cannot_be_numbered_is_refused():
    X = build_design(pd.DataFrame(table()))
    with pytest.raises(ValueError, match=r"65,537 rows, .* 16-bit; cut it .* 65,536 at most"):
        tiles_of(X, np.arange(N), starts=np.array([0, LARGEST + 1]))
    with pytest.raises(ValueError, match="`order` is not a permutation"):
        tiles_of(X, np.zeros(N, int))
    with pytest.raises(ValueError, match=r"`order` has shape \(3,\) .* 401 row numbers"):
        tiles_of(X, np.arange(3))
    for design in (X, short(X)):
        beyond = Design(N - 1, *design.arrays())
        with pytest.raises(
            ValueError, match=r"column \d+ in row 400, .* 0 to 399; build it anew, .* least 401"
        ):
            tiles_of(beyond, np.arange(N - 1))


class Model(NamedTuple):
    """Columns of a model: all of them everywhere, and some of them again in some pieces."""

    X: np.ndarray
    pieces: tuple
    n_copies: int

    @property
    def n_columns(self):
        return len(self.pieces[0])

    def copies(self):
        """Columns of the model as a dense array over row copies."""
        source, piece_ptr, first, shift = self.pieces
        out = np.zeros((self.n_copies, len(source)))
        for j, (c, (low, high)) in enumerate(zip(source, piece_ptr, strict=True)):
            for b in range(low, high):
                out[first[b] + shift[b] : len(self.X) + shift[b], j] = self.X[first[b] :, c]
        return out

    def products(self, size=100, n_threads=1):
        tiles = tiles_of(
            build_design(pd.DataFrame(self.X)),
            np.arange(len(self.X)),
            starts=even_starts(len(self.X), size),
        )
        return Products(tiles, self.pieces, Threads(n_threads))


def model(n_pieces, n=N):
    X, p = table(n), len(SHARES)
    first = np.array([0, n // 5, n // 2])[:n_pieces]
    shift = np.concatenate([[0], np.cumsum(n - first)[:-1]]) - first
    source, piece_ptr = np.arange(p), np.tile([[0, n_pieces]], (p, 1))
    if n_pieces > 1:
        source = np.append(source, [1, 1, 3, 5])
        piece_ptr = np.vstack([piece_ptr, [[0, 1], [1, 3], [2, 3], [1, 2]]])
    return Model(X, (source, piece_ptr, first, shift), int(n + shift[-1]))


@pytest.fixture(params=[1, 3])
def cut(request, monkeypatch):
    """A model in one piece, or three; threads are never too much for so few rows."""
    monkeypatch.setattr(tile_products, "ENTRIES_A_THREAD", 1)
    return model(request.param)


def found_by(products, seed=0):
    """Everything that passes find."""
    rng, every = np.random.default_rng(seed), np.arange(len(products.source))
    n = int(products.n_base + products.shift[-1])
    u, offset, coef = rng.normal(size=n), rng.normal(size=n), rng.normal(size=len(every))
    coef[::3] = 0.0
    label, some, eta = rng.integers(0, 5, n), every[::-2], np.empty((2, n))
    products.predict(coef, offset, eta[0])
    products.predict(coef, None, eta[1])
    sums = [
        products.of_columns(every, u),
        products.of_columns(some, u),
        products.absolute(abs(u)),
        products.of_columns(every, u, SQUARE),
        products.labelled(every, u, products.labels(label, 6)),
        products.labelled(every, u, products.labels(np.sort(label), 5)),
        products.dense(some),
    ]
    return [*eta, *sums]


@pytest.mark.parametrize("size", SIZES)
def test_products_are_those_of_dense_arrays(cut, size):
    X, rng = cut.copies(), np.random.default_rng(0)
    n, p = X.shape
    u, offset, coef = rng.normal(size=n), rng.normal(size=n), rng.normal(size=p)
    coef[::3] = 0.0
    label, some = rng.integers(0, 5, n), np.arange(p)[::-2]
    expected = [
        offset + X @ coef,
        X @ coef,
        X.T @ u,
        X.T[some] @ u,
        abs(X.T) @ abs(u),
        (X**2).T @ u,
        X.T @ (u[:, None] * (label[:, None] == np.arange(6))),
        X.T @ (u[:, None] * (np.sort(label)[:, None] == np.arange(5))),
        X.T[some],
    ]
    for one, other in zip(found_by(cut.products(size)), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * abs(other).max())


@pytest.mark.parametrize("values", [1, 700, 2**17])
def test_dense_columns_are_multiplied_in_blocks(values, monkeypatch):
    """Blocks of the longest tile, which the last one has, too."""
    for name, value in {"BLOCK": 2, "FEWEST": 2, "VALUES": values}.items():
        monkeypatch.setattr(tile_products, name, value)
    cut, rng = model(1), np.random.default_rng(0)
    products, u = cut.products(size=200), rng.normal(size=N)
    dense, every = np.flatnonzero(products.kind == DENSE), np.arange(cut.n_columns)
    sizes = {tuple(len(table) for _, table in tables) for tables in products._tables}
    assert len(sizes) == 1 and sum(*sizes) == len(dense)
    for columns in (every, dense, dense[:2], dense[::-1]):
        found = products.of_columns(columns, u)
        np.testing.assert_allclose(found, cut.X.T[columns] @ u, rtol=1e-12, atol=1e-11)


def test_labels_in_runs_are_ranges_of_rows(cut):
    if cut.n_copies > N:
        pytest.skip("labels of copies are not ranges of rows")
    ptr = np.array([0, 0, 90, 100, 300, 300, N])
    label, u = np.repeat(np.arange(6), np.diff(ptr)), np.random.default_rng(0).normal(size=N)
    expected = cut.X.T @ (u[:, None] * (label[:, None] == np.arange(6)))
    for size in SIZES:
        for row_ptr in (None, ptr):
            products = cut.products(size)
            labels = products.labels(label, 6, row_ptr)
            found = products.labelled(np.arange(cut.n_columns), u, labels)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("n_threads", [2, 4])
def test_threads_change_no_bit(cut, n_threads):
    alone, together = found_by(cut.products()), found_by(cut.products(n_threads=n_threads))
    for one, other in zip(alone, together, strict=True):
        assert np.array_equal(one, other)
    for one, other in zip(
        modelled(cut.products(), few=True),
        modelled(cut.products(n_threads=n_threads), few=True),
        strict=True,
    ):
        assert np.array_equal(one, other)


def bins_of(n, form, rng):
    """Bins of rows, and h of every row and bin."""
    h, w, A = rng.random(n), rng.random(n), np.sort(rng.random(14))
    base, end = A[[0, 1, 2, 3, 6, 7, 8]], A[[1, 2, 3, 4, 7, 8, 9]]  # two strata, of 4 and 3 bins
    last, stratum = np.array([3, 3, 3, 3, 6, 6, 6]), np.array([0, 0, 0, 0, 1, 1, 1])
    own = rng.integers(0, 7, n).astype(np.uint16)
    if "ranges" in form:
        own = np.sort(own)
    ptr = np.searchsorted(own, np.arange(8)) if "ranges" in form else None
    enter = enter_hazard = carried = after = fall = None
    bin_of, jump = np.arange(7), end - base
    before = (stratum == stratum[own][:, None]) & (bin_of < own[:, None])
    exits = own[:, None] == bin_of
    of_bins = exits * (h - w * base[own])[:, None] + before * jump * w[:, None]
    if "entries" in form:
        enter = np.maximum(own.astype(int) - 1, np.where(own > 3, 4, 0)).astype(np.uint16)
        enter_hazard = rng.random(n)
        entries = enter[:, None] == bin_of
        earlier = (stratum == stratum[enter][:, None]) & (bin_of < enter[:, None])
        of_bins += exits * (w * enter_hazard)[:, None]
        of_bins += entries * (w * base[enter] - w * enter_hazard)[:, None]
        of_bins -= earlier * jump * w[:, None]
    if "carried" in form:
        carried, after, fall = rng.random(n), rng.random(7), rng.random(7)
        later = (stratum == stratum[own][:, None]) & (bin_of > own[:, None])
        of_bins += later * fall * carried[:, None] - exits * (after[own] * carried)[:, None]
    inverse = rng.random(7) / n
    bins = Bins(
        own,
        last,
        base,
        jump,
        inverse,
        ptr,
        w_row=w,
        enter_bin=enter,
        enter_hazard=enter_hazard,
        carried_row=carried,
        after=after,
        fall=fall,
    )
    return h, of_bins, bins


def groups_of(n, n_groups, rng):
    group = np.sort(rng.integers(0, n_groups, n)).astype(np.uint32)
    group = np.unique(group, return_inverse=True)[1].astype(np.uint32)
    h, inverse = rng.random(n), rng.random(int(group.max()) + 1) / n
    ptr = np.searchsorted(group, np.arange(len(inverse) + 1))
    return h, h[:, None] * (group[:, None] == np.arange(len(inverse))), group, inverse, ptr


def modelled(products, few, seed=3):
    rng, n = np.random.default_rng(seed), int(products.n_base + products.shift[-1])
    every = np.arange(len(products.source))
    if few:
        h, _, bins = bins_of(n, "entries", rng)
    else:
        h, _, group, inverse, ptr = groups_of(n, 90, rng)
        bins = bins_of_groups(group, inverse, ptr)
    centring = Centring(bins, few)
    curvature, loads = tile_loads.load(products, every, h, centring)
    found = [curvature] if loads is None else [curvature, loads]
    found.append(tile_gram.rows_of_gram(products, every, 0, h))
    if few or products.n_pieces == 1:
        found.append(tile_gram.rows_of_model(products, every, 0, h, centring, loads))
    return found


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * abs(expected).max())


@pytest.mark.thorough(but=r"-(7|400)\]")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", ["", "ranges", "entries", "carried", "ranges, carried"])
def test_loads_and_matrix_of_few_bins(cut, form, size):
    X, every = cut.copies(), np.arange(cut.n_columns)
    h, of_bins, bins = bins_of(len(X), form, np.random.default_rng(1))
    expected = X.T @ of_bins
    matrix = (X.T * h) @ X - (expected * bins.inverse) @ expected.T
    products, centring = cut.products(size), Centring(bins, few=True)
    curvature, loads = tile_loads.load(products, every, h, centring)
    assert_close(loads, expected)
    assert_close(curvature, np.column_stack([np.diagonal(matrix), (X**2).T @ h]))
    for known in (0, 3):
        model = h, centring, loads
        rows = tile_gram.rows_of_model(products, every, known, *model)
        assert_close(rows, matrix[known:])
    some = every[::-3]
    part = tile_loads.load(products, some, h, centring)
    assert_close(part[0], curvature[some])
    assert_close(part[1], loads[some])
    assert_close(tile_loads.load_ones(h, bins), of_bins.sum(axis=0))


@pytest.mark.thorough(but=r"-(7|400)-(4|4000)-")
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_groups", [1, 4, 90, 4_000])
@pytest.mark.parametrize("size", SIZES)
def test_loads_and_matrix_of_strata(cut, size, n_groups, n_threads):
    """Strata go on in the next tile, or in several; a column may skip them, or have no entry."""
    X, every = cut.copies(), np.arange(cut.n_columns)
    h, of_groups, *groups = groups_of(len(X), n_groups, np.random.default_rng(2))
    loads, inverse = X.T @ of_groups, groups[1]
    matrix = (X.T * h) @ X - (loads * inverse) @ loads.T
    products = cut.products(size, n_threads)
    centring = Centring(bins_of_groups(*groups), few=False)
    curvature, none = tile_loads.load(products, every, h, centring)
    assert none is None
    assert_close(curvature, np.column_stack([np.diagonal(matrix), (X**2).T @ h]))
    if products.n_pieces > 1:
        return
    for known in (0, 3):
        model = h, centring, None
        assert_close(tile_gram.rows_of_model(products, every, known, *model), matrix[known:])


def test_a_sample_is_less_what_its_mean_makes_of_it(cut):
    X, every = cut.copies(), np.arange(cut.n_columns)
    h = np.random.default_rng(4).random(len(X))
    load = X.T @ h
    expected = (X.T * h) @ X - np.outer(load, load) / h.sum()
    assert_close(tile_gram.centred_rows(cut.products(N), every, h), expected)


@pytest.mark.parametrize("few", [True, False])
def test_tile_sizes_change_rounding_only(cut, few):
    whole = modelled(cut.products(N), few)
    for size in SIZES:
        for one, other in zip(modelled(cut.products(size), few), whole, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12 * abs(other).max())


def test_curvature_that_rounding_has_lost_is_zero():
    """A column that is constant within bins."""
    X = np.ones((N, 1))
    one = (np.zeros(1, np.int64), np.array([[0, 1]]), np.zeros(1, np.int64), np.zeros(1, np.int64))
    products = Products(
        tiles_of(build_design(X), np.arange(N), starts=even_starts(N, 64)), one, Threads(1)
    )
    h = np.random.default_rng(0).random(N)
    for few in (True, False):
        group, ptr = np.zeros(N, np.uint32), np.array([0, N])
        bins = bins_of_groups(group, np.array([1.0 / h.sum()]), ptr)
        curvature, _ = tile_loads.load(products, np.array([0]), h, Centring(bins, few))
        assert curvature[0, 0] == 0.0 and curvature[0, 1] == pytest.approx(h.sum())


def test_counts_are_of_entries():
    X, every = table(), np.arange(len(SHARES))
    products = model(1).products()
    is_dense = products.kind == DENSE
    in_row = (X[:, ~is_dense] != 0).sum(axis=1)
    group = np.arange(N) // 10
    n_dense, n_groups = np.count_nonzero(is_dense), group.max() + 1
    pairs, by_blas, entries, visits = tile_gram.count(products, every, None, 7)
    assert entries == visits == in_row.sum() + N * n_dense
    single = 0.5 * n_dense * entries
    assert pairs == pytest.approx(0.5 * (in_row * (in_row + 1.0)).sum() + single)
    assert by_blas == 0.5 * n_dense**2 * (N + 7) + 0.5 * len(every) ** 2 * 7
    in_group = np.bincount(group, in_row)
    more, *_ = tile_gram.count(products, every, group, n_groups)
    assert more - pairs == 0.5 * (np.minimum(in_group, len(every)) * in_group).sum()
