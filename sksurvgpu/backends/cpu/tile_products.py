"""Products with X in tiles: columns against numbers of rows, and X times coefficients.

Threads own tiles where numbers of rows are written, else columns, and add up tiles in their order:
the order of every sum is the same for any number of threads.  Dense columns that lie side by side
are multiplied by BLAS, tile by tile and in blocks of the same size.

Coefficients may change over time.  Rows then come in *pieces*: the row copies of piece b are the
last ``n_base - first[b]`` rows of X, at ``row + shift[b]``, and column j is visited in the pieces
from ``piece_ptr[j, 0]`` to before ``piece_ptr[j, 1]``.  Kernels do not know of that: numbers of the
copies are added up by row first, or sums over columns spread over copies last, once for all columns
of the same pieces.
"""

from itertools import pairwise, product

import numpy as np

from ..._compile import device, kernel
from ...data.design.kernels import COMPUTED, DENSE, INDICATOR, SIZE, SQUARE, VALUE
from ...data.design.tiles import tile_at
from .columns import lower_bound
from .row_labels import SHORT_RUN, Labels, Runs

FEWEST = 16  # dense columns that are worth a call of BLAS
# Columns of a call, and values, whatever the number of threads: sums are the same for any.
BLOCK, VALUES = 32, 2**17
ENTRIES_A_THREAD = 50_000  # below, waking a thread costs more than its work


@device
def _part(x, form):
    if form == VALUE:
        return x
    if form == SIZE:
        return abs(x)
    return x * x if form == SQUARE else 1.0


@device
def _sum_ones(rows, numbers):
    """Sum of numbers at rows, in four partial sums: one alone waits for every addition to end."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    n = len(rows)
    whole = n - n % 4
    for q in range(0, whole, 4):
        s0 += numbers[np.uint64(rows[q])]
        s1 += numbers[np.uint64(rows[q + 1])]
        s2 += numbers[np.uint64(rows[q + 2])]
        s3 += numbers[np.uint64(rows[q + 3])]
    for q in range(whole, n):
        s0 += numbers[np.uint64(rows[q])]
    return (s0 + s1) + (s2 + s3)


@device
def _sum_values(rows, values, numbers, form):
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    n = len(rows)
    whole = n - n % 4
    for q in range(0, whole, 4):
        s0 += _part(values[q], form) * numbers[np.uint64(rows[q])]
        s1 += _part(values[q + 1], form) * numbers[np.uint64(rows[q + 1])]
        s2 += _part(values[q + 2], form) * numbers[np.uint64(rows[q + 2])]
        s3 += _part(values[q + 3], form) * numbers[np.uint64(rows[q + 3])]
    for q in range(whole, n):
        s0 += _part(values[q], form) * numbers[np.uint64(rows[q])]
    return (s0 + s1) + (s2 + s3)


@device
def _sum_dense(values, numbers, form):
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    n = len(values)
    whole = n - n % 4
    for q in range(0, whole, 4):
        s0 += _part(values[q], form) * numbers[q]
        s1 += _part(values[q + 1], form) * numbers[q + 1]
        s2 += _part(values[q + 2], form) * numbers[q + 2]
        s3 += _part(values[q + 3], form) * numbers[q + 3]
    for q in range(whole, n):
        s0 += _part(values[q], form) * numbers[q]
    return (s0 + s1) + (s2 + s3)


@device
def _add_sums_of_tile(tile, columns, form, end, label, numbers, out):
    for a in range(len(columns)):
        c = columns[a]
        q, stop, v = tile.indptr[c], tile.indptr[c + 1], tile.value_ptr[c] - tile.indptr[c]
        low = 0
        for r in range(len(end)):
            high = end[r]
            if tile.kind[c] == DENSE:
                values = tile.values[tile.value_ptr[c] + low : tile.value_ptr[c] + high]
                out[a, label[r]] += _sum_dense(values, numbers[low:high], form)
                low = high
                continue
            until = stop
            if r < len(end) - 1:
                until = q + lower_bound(tile.indices[q:stop], high)
            if tile.kind[c] == INDICATOR:
                out[a, label[r]] += _sum_ones(tile.indices[q:until], numbers)
            else:
                rows, values = tile.indices[q:until], tile.values[v + q : v + until]
                out[a, label[r]] += _sum_values(rows, values, numbers, form)
            q = until


@kernel
def add_sums(X, columns, form, runs, numbers, out):
    """Add sums over runs of rows: ``out[a, label[r]]`` takes those of x_i numbers_i in run r."""
    for t in range(len(X.starts) - 1):
        own = numbers[X.starts[t] : X.starts[t + 1]]
        low, high = runs.ptr[t], runs.ptr[t + 1]
        end, label = runs.end[low:high], runs.label[low:high]
        _add_sums_of_tile(tile_at(X, t), columns, form, end, label, own, out)


@device
def _add_labelled_sums_of_tile(tile, columns, form, label, numbers, out):
    for a in range(len(columns)):
        c = columns[a]
        v = tile.value_ptr[c]
        if tile.kind[c] == DENSE:
            for i in range(tile.n_rows):
                out[a, label[i]] += _part(tile.values[v + i], form) * numbers[i]
            continue
        v -= tile.indptr[c]
        for q in range(tile.indptr[c], tile.indptr[c + 1]):
            i = np.uint64(tile.indices[q])
            x = 1.0 if tile.kind[c] == INDICATOR else _part(tile.values[v + q], form)
            out[a, label[i]] += x * numbers[i]


@kernel
def add_labelled_sums(X, columns, form, label, numbers, out):
    """Add sums over rows by their labels: ``out[a, label[i]]`` takes x_i numbers_i."""
    for t in range(len(X.starts) - 1):
        low, high = X.starts[t], X.starts[t + 1]
        if not numbers[low:high].any():  # as in most tiles, where lines are added up run by run
            continue
        _add_labelled_sums_of_tile(
            tile_at(X, t), columns, form, label[low:high], numbers[low:high], out
        )


@device
def _add_products_of_tile(tile, columns, coef, form, eta):
    for a in range(len(columns)):
        c, step = columns[a], coef[a]
        v = tile.value_ptr[c]
        if tile.kind[c] == DENSE:
            values = tile.values[v : v + tile.n_rows]
            for i in range(len(values)):
                eta[i] += _part(values[i], form) * step
            continue
        rows = tile.indices[tile.indptr[c] : tile.indptr[c + 1]]
        if tile.kind[c] == INDICATOR:
            for q in range(len(rows)):
                eta[np.uint64(rows[q])] += step
        else:
            values = tile.values[v : v + len(rows)]
            for q in range(len(rows)):
                eta[np.uint64(rows[q])] += _part(values[q], form) * step


@kernel
def add_products(X, low, high, columns, coef, form, eta):
    """Add X coef over the given columns to the numbers of the rows of tiles low..high-1."""
    for t in range(low, high):
        own = eta[X.starts[t] : X.starts[t + 1]]
        _add_products_of_tile(tile_at(X, t), columns, coef, form, own)


class Products:
    """X in tiles, times coefficients and numbers of rows; `computed` has what tiles do not."""

    def __init__(self, tiles, pieces, threads, computed=None):
        self.tiles, self.threads = tiles, threads
        self.computed, self.is_plain = computed, not (tiles.kind == COMPUTED).any()
        self.source, piece_ptr, self.first, self.shift = pieces
        self.n_base, self.kind, self.n_pieces = tiles.n_rows, tiles.kind, len(self.first)
        stored = np.zeros(len(self.kind), np.int64)
        stored[: tiles.indptr.shape[1] - 1] = np.diff(tiles.indptr, axis=1).sum(axis=0)
        self.entries = np.where(self.kind >= DENSE, self.n_base, stored)  # of columns of X
        low, high = piece_ptr.T
        self.whole = high - low == self.n_pieces
        code, self._which = np.unique(low * (self.n_pieces + 1) + high, return_inverse=True)
        self.piece_ranges = [divmod(int(k), self.n_pieces + 1) for k in code]
        self._dense = np.flatnonzero(self.kind == DENSE)
        size = max(BLOCK, VALUES // max(1, int(np.diff(tiles.starts).max(initial=0))))
        self._tables = [_tables_of(tile, self._dense, size) for tile in tiles.each()]
        self._plain = Labels(1, Runs.of_tiles(tiles), None)

    def by_pieces(self, columns):
        """Pieces, and which of the columns have them."""
        if len(self.piece_ranges) == 1:
            return [(self.piece_ranges[0], np.arange(len(columns)))]
        which = self._which[columns]
        return [(self.piece_ranges[k], np.flatnonzero(which == k)) for k in np.unique(which)]

    def over_pieces(self, numbers, pieces):
        """Sums of numbers of row copies over pieces, one a row of X."""
        if self.n_pieces == 1:
            return np.ascontiguousarray(numbers)
        total = np.zeros(self.n_base)
        for b in range(*pieces):
            total[self.first[b] :] += numbers[self.copies(b)]
        return total

    def copies(self, piece):
        """Where the row copies of a piece are."""
        return slice(self.first[piece] + self.shift[piece], self.n_base + self.shift[piece])

    def predict(self, coef, offset, eta):
        """eta = offset + X coef."""
        active = np.flatnonzero(coef)
        eta[:] = 0.0 if offset is None else offset
        if self.n_pieces == 1:
            self.add(self.source[active], coef[active], VALUE, eta)
            return
        for pieces, some in self.by_pieces(active):
            base, columns = np.zeros(self.n_base), active[some]
            self.add(self.source[columns], coef[columns], VALUE, base)
            for b in range(*pieces):
                eta[self.copies(b)] += base[self.first[b] :]

    def add(self, columns, coef, form, base):
        """Add columns of X times coefficients to numbers of its rows."""
        if not self.is_plain and (is_computed := self.kind[columns] == COMPUTED).any():
            self.computed.add(columns[is_computed], coef[is_computed], form, base)
            columns, coef = columns[~is_computed], coef[~is_computed]

        def part(low, high):
            add_products(self.tiles, low, high, columns, coef, form, base)

        if self.threads.n_threads == 1:
            part(0, self.tiles.n_tiles)
            return
        share = self.entries[columns].sum() / max(1, self.n_base)
        self._share_out(part, share * np.diff(self.tiles.starts))

    def dense(self, columns):
        """Columns of the model as a dense array (columns, n_rows)."""
        out, one = np.zeros((len(columns), int(self.n_base + self.shift[-1]))), np.ones(1)
        for pieces, some in self.by_pieces(columns):
            for a in some:
                base = np.zeros(self.n_base)
                self.add(self.source[columns[a : a + 1]], one, VALUE, base)
                for b in range(*pieces):
                    out[a, self.copies(b)] = base[self.first[b] :]
        return out

    def over_columns(self, function, columns):
        """Call ``function(low, high)`` on ranges of columns of X, over threads."""
        if self.threads.n_threads == 1:
            function(0, len(columns))
        else:
            self._share_out(function, self.entries[columns])

    def _share_out(self, function, entries):
        """Call ``function(low, high)`` on ranges of about as many entries, one a thread.

        More of them would read the numbers of rows more often: 14 % of a gradient's time for 8.
        """
        total, n_parts = np.cumsum(entries), 1
        if len(total):
            n_parts = min(self.threads.n_threads, int(total[-1]) // ENTRIES_A_THREAD)
        if n_parts < 2:
            function(0, len(entries))
            return
        cuts = np.searchsorted(total, total[-1] * np.arange(1, n_parts) / n_parts, side="right")
        bounds = np.unique(np.concatenate([[0], cuts, [len(total)]])).tolist()
        self.threads.map(lambda bound: function(*bound), list(pairwise(bounds)))

    def of_columns(self, columns, numbers, form=VALUE):
        """Sums of x times numbers of row copies, of columns of the model."""
        if self.n_pieces == 1:
            return self.sums(self.source[columns], np.ascontiguousarray(numbers), form)[:, 0]
        out = np.empty(len(columns))
        for pieces, some in self.by_pieces(columns):
            base = self.over_pieces(numbers, pieces)
            out[some] = self.sums(self.source[columns[some]], base, form)[:, 0]
        return out

    def absolute(self, numbers):
        """|x_j|'numbers of all columns."""
        return self.of_columns(np.arange(len(self.source)), numbers, SIZE)

    def labels(self, label, n_labels, row_ptr=None):
        """Labels of row copies, for `labelled`, by piece; `row_ptr` where they are ranges."""
        is_long = row_ptr is not None and SHORT_RUN * len(row_ptr) <= self.n_base
        if is_long and self.n_pieces == 1:
            return [Labels(n_labels, Runs.of(self.tiles, row_ptr, np.arange(n_labels)), None)]
        if self.n_pieces == 1:
            return [Labels.of(self.tiles, label, n_labels)]
        by_piece = []
        for b in range(self.n_pieces):
            of_base = np.zeros(self.n_base, label.dtype)
            of_base[self.first[b] :] = label[self.copies(b)]
            by_piece.append(Labels.of(self.tiles, of_base, n_labels))
        return by_piece

    def labelled(self, columns, numbers, labels):
        """Sums of x times numbers of row copies by their labels (columns, n_labels)."""
        if self.n_pieces == 1:
            numbers = np.ascontiguousarray(numbers)
            return self.sums(self.source[columns], numbers, VALUE, labels[0])
        out = np.zeros((len(columns), labels[0].n_labels))
        for pieces, some in self.by_pieces(columns):
            for b in range(*pieces):
                base = np.zeros(self.n_base)
                base[self.first[b] :] = numbers[self.copies(b)]
                out[some] += self.sums(self.source[columns[some]], base, VALUE, labels[b])
        return out

    def sums(self, columns, numbers, form, labels=None):
        """Sums of x times numbers of rows, columns being those of X: (columns, labels)."""
        if not self.is_plain and (is_computed := self.kind[columns] == COMPUTED).any():
            return self._with_computed(columns, is_computed, numbers, form, labels)
        labels = self._plain if labels is None else labels
        out = np.zeros((len(columns), labels.n_labels))
        if form != VALUE or labels.runs is None or not self._has_tables(columns):
            self._by_loops(columns, numbers, form, labels, out)
            return out
        if len(self._dense) == len(columns):
            self._by_tables(numbers, labels, out)
            return out
        for is_dense in (True, False):
            some = np.flatnonzero((self.kind[columns] == DENSE) == is_dense)
            found = np.zeros((len(some), labels.n_labels))
            if is_dense:
                self._by_tables(numbers, labels, found)
            else:
                self._by_loops(columns[some], numbers, form, labels, found)
            out[some] = found
        return out

    def _with_computed(self, columns, is_computed, numbers, form, labels):
        n_labels = 1 if labels is None else labels.n_labels
        of_row = None if labels is None else labels.by_row(self.tiles)
        some, out = columns[is_computed], np.empty((len(columns), n_labels))
        over = self.over_columns
        out[is_computed] = self.computed.sums(some, numbers, form, of_row, n_labels, over)
        out[~is_computed] = self.sums(columns[~is_computed], numbers, form, labels)
        return out

    def _by_loops(self, columns, numbers, form, labels, out):
        def part(low, high):
            add, of_rows = add_sums, labels.runs
            if of_rows is None:
                add, of_rows = add_labelled_sums, labels.of_row
            add(self.tiles, columns[low:high], form, of_rows, numbers, out[low:high])

        self.over_columns(part, columns)

    def _has_tables(self, columns):
        """Whether all dense columns are among the given ones, once and in order."""
        if not self._tables[0] or len(columns) < len(self._dense):
            return False
        if len(columns) > len(self._dense):
            columns = columns[self.kind[columns] == DENSE]
        return np.array_equal(columns, self._dense)

    def _by_tables(self, numbers, labels, out):
        """Sums of all dense columns, by BLAS."""
        runs, starts = labels.runs, self.tiles.starts

        def multiply(lowest, highest):
            for k, (t, tables) in product(range(lowest, highest), enumerate(self._tables)):
                first, table = tables[k]
                own, low = numbers[starts[t] : starts[t + 1]], 0
                part = out[first : first + len(table)]
                for r in range(runs.ptr[t], runs.ptr[t + 1]):
                    high = runs.end[r]
                    part[:, runs.label[r]] += table[:, low:high] @ own[low:high]
                    low = high

        entries = [self.n_base * len(table) for _, table in self._tables[0]]
        self._share_out(multiply, np.array(entries))


def _tables_of(tile, dense, size):
    """Values of a tile's dense columns, (columns, n_rows), in blocks; where each begins."""
    if len(dense) < FEWEST:
        return []
    begin = tile.value_ptr[dense]
    follows = np.diff(begin) == tile.n_rows
    edges = np.concatenate([[0], np.flatnonzero(~follows) + 1, [len(begin)]])
    tables = []
    for low, high in pairwise(edges):
        for first in range(low, high, size):
            end = min(first + size, high)
            values = tile.values[begin[first] : begin[first] + (end - first) * tile.n_rows]
            tables.append((first, values.reshape(end - first, tile.n_rows)))
    return tables
