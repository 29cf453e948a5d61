"""Batches of any size become partitions of a given size, groups of rows whole where that is asked.

Rows of a group may be anywhere in the data.  They are brought together by scattering rows over a
few temporary files by a hash of their group, and those of a file again, until what is in one fits
into memory: each row is written and read as often as the data has such levels, of 16 files each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from pandas.util import hash_array

from ..data.design.columns import Design
from ..data.vectors import check_labels, encode
from .batches import Key, RowBatch

FILES_BITS = 4  # of the hash, by which rows are scattered over 2^4 files
HASH_BITS = 64
IN_MEMORY = 4  # partitions' rows that are sorted by group at once


def pack(batches: Iterable[tuple[RowBatch, np.ndarray | None]], size: int) -> Iterator[RowBatch]:
    """Cut and join batches to partitions of at most `size` rows.

    With each comes where it may be cut: ascending positions up to its length, or None, anywhere.
    """
    parts, n_rows = [], 0
    for batch, cuts in batches:
        low = 0
        while low < len(batch):
            high = min(len(batch), low + size - n_rows)
            if cuts is not None:
                high = int(cuts[np.searchsorted(cuts, high, side="right") - 1])
            if high > low:
                parts.append((batch, low, high))
                n_rows, low = n_rows + high - low, high
            if low < len(batch) or n_rows == size:
                yield RowBatch.join(parts)
                parts, n_rows = [], 0
    if parts:
        yield RowBatch.join(parts)


def gather(
    batches: Iterable[RowBatch],
    key: Key,
    size: int,
    folder: Path,
    shift: int = HASH_BITS - FILES_BITS,
) -> Iterator[tuple[RowBatch, np.ndarray]]:
    """Bring the rows of each group together; yield batches, and where groups begin and end."""
    with TemporaryDirectory(dir=folder) as inside:
        files = [_Spill(Path(inside, str(k))) for k in range(1 << FILES_BITS)]
        for batch in pack(((batch, None) for batch in batches), size):
            hashes = _hash(batch, key)
            number = (hashes >> np.uint64(shift)) & np.uint64(len(files) - 1)
            order = np.argsort(number, kind="stable")
            edges = np.searchsorted(number[order], np.arange(len(files) + 1))
            batch, hashes = batch.reordered(order), hashes[order]
            for k in np.flatnonzero(np.diff(edges)):
                low, high = int(edges[k]), int(edges[k + 1])
                files[k].write(RowBatch.join([(batch, low, high)]), hashes[low:high])
        for spill in files:
            if spill.n_rows > IN_MEMORY * size and not spill.is_one:
                yield from gather(spill.read(), key, size, folder, shift - FILES_BITS)
            elif spill.n_rows:
                yield _by_group(spill, key, size)
            spill.path.unlink(missing_ok=True)


def _by_group(spill, key, size):
    name = key[1] or key[0]
    if spill.is_one and spill.n_rows > size:
        _refuse(name, next(spill.read()).fields[key][0], spill.n_rows, size)
    batch = RowBatch.join([(batch, 0, len(batch)) for batch in spill.read()])
    codes, labels = encode(check_labels(batch.fields[key], name))
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    if counts.max() > size:
        _refuse(name, labels[np.argmax(counts)], counts.max(), size)
    return batch.reordered(order), np.concatenate([[0], np.cumsum(counts)])


def _refuse(name, label, count, size):
    raise ValueError(
        f"{name} {label.item()!r} has {count:,} rows, and a partition has at most {size:,} "
        "(`rows`, which can be up to 65,536): groups of that size cannot be whole; leave out "
        "`group`."
    )


def _hash(batch, key):
    labels = check_labels(batch.fields[key], key[1] or key[0])
    as_object = labels.dtype.kind == "U"
    return hash_array(labels.astype(object if as_object else np.int64))


def find_field(fields: Iterable[Key], name: str) -> Key:
    """Key of a field by the name of its argument, or its own name in `y`."""
    fields = list(fields)
    for key in ((name, ""), ("y", name)):
        if key in fields:
            return key
    known = ", ".join(sorted({repr(field or argument) for argument, field in fields}))
    raise ValueError(f"`group` is {name!r}, must be one of {known or 'the fields of y'}.")


class _Spill:
    """Batches in a file, one after the other."""

    def __init__(self, path):
        self.path, self.n_rows, self._keys, self._names = path, 0, (), None
        self._first, self.is_one = None, True  # whether there is one hash, or none

    def write(self, batch, hashes):
        """Append rows, and remember whether all have one hash."""
        design = batch.design
        self.n_rows += len(batch)
        self._first = hashes[0] if self._first is None else self._first
        self.is_one &= bool((hashes == self._first).all())
        self._keys, self._names = tuple(batch.fields), design.names
        arrays = design.kind, design.indptr, design.indices, design.values, design.value_ptr
        with self.path.open("ab") as file:
            for array in (*arrays, *batch.fields.values()):
                np.save(file, array, allow_pickle=False)

    def read(self):
        """The batches that were written."""
        with self.path.open("rb") as file:
            size = self.path.stat().st_size
            while file.tell() < size:
                columns = [np.load(file, allow_pickle=False) for _ in range(5)]
                fields = {key: np.load(file, allow_pickle=False) for key in self._keys}
                n_rows = len(next(iter(fields.values())))
                yield RowBatch(Design(n_rows, *columns, self._names), fields)
