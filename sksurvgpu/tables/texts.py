"""Strings as identifiers: bytes next to each other, numbered by a compiled hash table.

An object of Python for each string costs a miss of the cache to look at and another to hash. The
strings of a batch are therefore taken as UTF-8, from Arrow's buffers or joined in one go, and
looked up as bytes: in the table of slots first, which has 31 bits of the hash beside the number,
then among the bytes of the strings that have a number, which decide.

A string costs 0.05 to 0.1 microseconds to take from its object, next to nothing from Arrow, and
0.1 to find among thousands, 0.25 among a million in no order, most of it misses of the cache.
"""

from importlib.util import find_spec
from typing import NamedTuple

import narwhals as nw
import numpy as np

from .._compile import device, kernel

__all__ = ["ABSENT", "TextIds", "Texts"]

ABSENT = -1
FEWEST_SLOTS, FEWEST_BYTES = 1 << 10, 1 << 14
# Of the finalizer of MurmurHash3 (Appleby 2011); the second also steps from word to word.
MULTIPLIERS = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
SHIFT, TAG, BYTE = np.uint64(33), np.uint64(33), np.uint64(8)
LOW = 0xFFFFFFFF  # bits of a slot that hold a number; those of the hash are above
BLOCK = 64
# Strings may hold halves of surrogate pairs, as those of file names do.
ENCODING = "utf-8", "surrogatepass"


class Texts(NamedTuple):
    """Strings: string i is ``buffer[start[i]:end[i]]`` in UTF-8."""

    buffer: np.ndarray
    start: np.ndarray
    end: np.ndarray

    @classmethod
    def of(cls, values, label):
        """Take an array of strings, or a narwhals Series without missing entries."""
        if isinstance(values, nw.Series):
            arrow = _as_arrow(values)
            if arrow is not None:
                return cls(*arrow)
            values = values.to_numpy()
        return cls(*_joined(np.asarray(values, dtype=object), label))

    @property
    def size(self):
        return self.start.size

    def take(self, which):
        """Some of the strings, by mask or number."""
        return Texts(self.buffer, self.start[which], self.end[which])

    def text(self, i):
        """String i as Python holds it."""
        return self.buffer[self.start[i] : self.end[i]].tobytes().decode(*ENCODING)

    def listed(self):
        """All strings, as an array of objects."""
        listed = np.empty(self.size, dtype=object)
        if self.buffer.max(initial=0) < 128:  # where bytes are characters
            whole = self.buffer.tobytes().decode()
            pairs = zip(self.start.tolist(), self.end.tolist(), strict=True)
            listed[:] = [whole[low:high] for low, high in pairs]
        else:
            listed[:] = [self.text(i) for i in range(self.size)]
        return listed


def _as_arrow(series):
    """Bytes and offsets of a column that is kept by Arrow or polars; None of others."""
    native = series.to_native()
    is_objects = series.implementation.is_pandas_like() and native.dtype == np.dtype(object)
    if is_objects or find_spec("pyarrow") is None:
        return None
    import pyarrow

    array = pyarrow.Array.from_pandas(native) if _is_pandas(series) else series.to_arrow()
    array = array.cast(pyarrow.large_string())
    if isinstance(array, pyarrow.ChunkedArray):
        array = array.combine_chunks()
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    buffer = np.frombuffer(data, dtype=np.uint8) if data else np.empty(0, dtype=np.uint8)
    return buffer, ends[:-1], ends[1:]


def _is_pandas(series):
    return series.implementation.is_pandas_like()


def _joined(values, label):
    """Bytes and offsets of strings that are objects: joined by a character that none has."""
    try:
        whole = "\0".join(values).encode(*ENCODING)
    except TypeError:
        other = next(value for value in values if not isinstance(value, str))
        raise TypeError(
            f"{label} has identifiers of types str and {type(other).__name__} ({other!r}) in one "
            "column; pass all integers or all strings."
        ) from None
    buffer = np.frombuffer(whole, dtype=np.uint8)
    cuts = np.flatnonzero(buffer == 0)
    if cuts.size != max(values.size - 1, 0):
        parts = [value.encode(*ENCODING) for value in values]
        ends = np.cumsum(np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)))
        return np.frombuffer(b"".join(parts), dtype=np.uint8), np.append(0, ends[:-1]), ends
    if not values.size:
        return buffer, cuts, cuts
    return buffer, np.append(0, cuts + 1), np.append(cuts, buffer.size)


class _Table(NamedTuple):
    """Strings with numbers: string k is ``pool[end[k]:end[k + 1]]``.

    A slot has 31 bits of the hash and k, or -1. `size` has the number of strings.
    """

    slots: np.ndarray
    pool: np.ndarray
    end: np.ndarray
    size: np.ndarray


@device
def _word(buffer, first):
    """Eight bytes as one number: one load, as long as positions are without a sign."""
    first, word = np.uint64(first), np.uint64(0)
    for k in range(BYTE):
        word |= np.uint64(buffer[first + k]) << (BYTE * k)
    return word


@device
def _hash(buffer, start, end):
    mixed = np.uint64(end - start)
    if end - start < 8:
        for i in range(start, end):
            mixed = (mixed << BYTE) | np.uint64(buffer[i])
    else:
        for i in range(start, end - 8, 8):
            mixed = (mixed ^ _word(buffer, i)) * MULTIPLIERS[1]
            mixed ^= mixed >> SHIFT
        mixed ^= _word(buffer, end - 8)  # the last eight bytes, a part of them again
    mixed = (mixed ^ (mixed >> SHIFT)) * MULTIPLIERS[0]
    mixed = (mixed ^ (mixed >> SHIFT)) * MULTIPLIERS[1]
    return mixed ^ (mixed >> SHIFT)


@device
def _is_equal(buffer, start, end, table, k):
    first, size = table.end[k], end - start
    if table.end[k + 1] - first != size:
        return False
    n_different = 0
    if size < 8:
        for i in range(size):
            n_different += buffer[start + i] != table.pool[first + i]
        return n_different == 0
    for i in range(0, size - 8, 8):
        n_different += _word(buffer, start + i) != _word(table.pool, first + i)
    is_last_equal = _word(buffer, end - 8) == _word(table.pool, first + size - 8)
    return is_last_equal and n_different == 0


@device
def _slot(texts, i, mixed, table):
    """Where string i of hash `mixed` is or belongs: linear probing."""
    buffer, start, end = texts
    mask = table.slots.size - 1
    slot = np.int64(mixed) & mask
    while table.slots[slot] >= 0:
        held = table.slots[slot]
        is_alike = held >> 32 == np.int64(mixed >> TAG)
        if is_alike and _is_equal(buffer, start[i], end[i], table, held & LOW):
            break
        slot = (slot + 1) & mask
    return slot


@device
def _approach(texts, low, hashes, table, near):
    """Hashes of strings from `low` on, and all that looking them up will read, read once.

    Loads of one string wait for each other, slot, offset, bytes; those of different strings do not,
    and in loops of their own they overlap: a look-up in a table beyond the cache takes a third of
    the time. `near` is where to write what was read, so that it is.
    """
    buffer, start, end = texts
    mask = table.slots.size - 1
    for k in range(hashes.size):
        hashes[k] = _hash(buffer, start[low + k], end[low + k])
    for k in range(hashes.size):
        near[k] = table.slots[np.int64(hashes[k]) & mask]
    for k in range(hashes.size):
        near[k] = table.end[near[k] & LOW] if near[k] >= 0 else 0
    for k in range(hashes.size):
        near[k] = table.pool[near[k]]


@kernel
def _find(texts, table, found):
    """Number of every string, ABSENT for an unknown one."""
    hashes, near = np.empty(BLOCK, dtype=np.uint64), np.empty(BLOCK, dtype=np.int64)
    for low in range(0, found.size, BLOCK):
        size = min(BLOCK, found.size - low)
        _approach(texts, low, hashes[:size], table, near)
        for k in range(size):
            held = table.slots[_slot(texts, low + k, hashes[k], table)]
            found[low + k] = held & LOW if held >= 0 else ABSENT


@kernel
def _add(texts, first, table, found):
    """Number strings from `first` on until there is no room; return where it ended."""
    buffer, start, end = texts
    hashes, near = np.empty(BLOCK, dtype=np.uint64), np.empty(BLOCK, dtype=np.int64)
    for low in range(first, found.size, BLOCK):
        size = min(BLOCK, found.size - low)
        _approach(texts, low, hashes[:size], table, near)
        for k in range(size):
            i, n = low + k, table.size[0]
            slot = _slot(texts, i, hashes[k], table)
            if table.slots[slot] < 0:
                last = table.end[n] + end[i] - start[i]
                if n + 1 == table.end.size or last > table.pool.size:
                    return i
                table.pool[table.end[n] : last] = buffer[start[i] : end[i]]
                table.end[n + 1] = last
                table.slots[slot] = (np.int64(hashes[k] >> TAG) << 32) | n
                table.size[0] = n + 1
            found[i] = table.slots[slot] & LOW
    return found.size


class TextIds:
    """Numbers of strings."""

    kind = "strings"

    def __init__(self):
        self._make(FEWEST_SLOTS, FEWEST_BYTES)

    def __len__(self):
        return int(self._table.size[0])

    def _make(self, n_slots, n_bytes):
        """Make an empty table; half of it is filled at most."""
        self._table = _Table(
            np.full(n_slots, ABSENT, dtype=np.int64),
            np.empty(n_bytes, dtype=np.uint8),
            np.zeros(n_slots // 2 + 1, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
        )

    def _grow(self):
        """Make the table larger where it is full, in numbers or in bytes."""
        slots, pool, end, _ = self._table
        n = len(self)
        is_full = n + 1 == end.size
        self._make(slots.size * (2 if is_full else 1), pool.size * (1 if is_full else 2))
        known = Texts(pool, end[:n], end[1 : n + 1])
        _add(known, 0, self._table, np.empty(n, dtype=np.int32))

    def distinct(self):
        """Strings by number."""
        _, pool, end, _ = self._table
        n = len(self)
        return Texts(pool[: end[n]], end[:n], end[1 : n + 1]).listed()

    def add(self, texts):
        """Numbers of strings; new ones get the next."""
        found = np.empty(texts.size, dtype=np.int32)
        done = _add(texts, 0, self._table, found)
        while done < texts.size:
            self._grow()
            done = _add(texts, done, self._table, found)
        return found

    def find(self, texts):
        """Numbers of strings, ABSENT for unknown ones."""
        found = np.empty(texts.size, dtype=np.int32)
        _find(texts, self._table, found)
        return found
