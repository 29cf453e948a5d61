"""Identifiers of rows and covariates: read from columns, numbered in order of appearance.

Integers are numbered by a hash table with open addressing, compiled, of which a look-up costs one
or two cache lines. Strings are numbered by a dictionary, once for each distinct one of a batch.
"""

import narwhals as nw
import numpy as np

from .._compile import device, kernel
from .texts import ABSENT, TextIds, Texts

__all__ = [
    "ABSENT",
    "IntegerIds",
    "as_ids",
    "id_at",
    "is_missing",
    "listed",
    "new_ids",
    "read_ids",
    "take",
    "whole_numbers",
]

FEWEST_SLOTS = 1 << 10
# Of the finalizer of SplitMix64 (Steele, Lea and Flood 2014): no regular identifiers pile up.
MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def is_missing(series: nw.Series) -> np.ndarray:
    """Whether an entry is null or NaN."""
    mask = series.is_null().to_numpy().astype(np.bool_)
    if series.dtype.is_float():
        mask = mask | np.isnan(series.cast(nw.Float64).to_numpy())
    return mask


def read_ids(series: nw.Series, label: str) -> np.ndarray | Texts:
    """Return the identifiers of a column without missing entries, as int64 or as texts.

    Parameters
    ----------
    series : narwhals Series
    label : str
        Name of argument and column in messages.
    """
    dtype = series.dtype
    if dtype in (nw.Int128, nw.UInt128):
        raise TypeError(
            f"{label} has dtype {dtype}; identifiers are integers of at most 64 bits or strings: "
            "cast it to one of them."
        )
    if dtype.is_integer() or dtype.is_float():
        return whole_numbers(series.to_numpy(), label)
    if isinstance(dtype, nw.Categorical | nw.Enum):
        return _of_categories(series, label)
    elif dtype == nw.Object:
        from pandas.api.types import infer_dtype

        if infer_dtype(series.to_numpy()) == "integer":
            return whole_numbers(np.array(series.to_list()), label)
    if series.dtype not in (nw.String, nw.Object):
        raise TypeError(f"{label} has dtype {dtype}; identifiers are integers or strings.")
    return Texts.of(series, label)


def _of_categories(series, label):
    """Identifiers of a categorical column: those that its categories are."""
    native = series.to_native()
    if series.implementation.is_pandas_like():
        used = native.cat.remove_unused_categories().cat
        categories = nw.from_native(used.categories.to_series(), series_only=True)
        return take(read_ids(categories, label), used.codes.to_numpy())
    if series.implementation.is_pyarrow():
        native = native.cast(native.type.value_type)
        return read_ids(nw.from_native(native, series_only=True), label)
    return Texts.of(series.cast(nw.String), label)


def whole_numbers(values, label, what="identifiers"):
    """Return whole numbers of any type as int64."""
    is_float = values.dtype.kind == "f"
    bits = np.finfo(values.dtype).nmant + 1 if is_float else 63
    limit = 2**bits - 1  # beyond, neighbouring floats are one number
    if is_float:
        values, limit = values.astype(np.float64), float(limit)
    is_bad = (values > limit) | (values < -limit)
    if is_float:
        is_bad |= values != np.floor(values)
    if is_bad.any():
        raise ValueError(
            f"{label} has {values[np.argmax(is_bad)]}; {what} are integers that fit into 64 "
            f"bits (as floating point, into {bits if is_float else 53})"
            f"{', or strings' if what == 'identifiers' else ', or dates'}."
        )
    return values.astype(np.int64)


def new_ids(ids: np.ndarray | Texts) -> "IntegerIds | TextIds":
    """Return the empty numbering that such identifiers need."""
    return TextIds() if isinstance(ids, Texts) else IntegerIds()


def as_ids(values: np.ndarray) -> np.ndarray | Texts:
    """Identifiers of an array of integers or of strings."""
    return Texts.of(values, "`like`") if values.dtype == object else values


def take(ids, which):
    """Some identifiers (or days), by mask or number."""
    return ids[which] if isinstance(ids, np.ndarray) else ids.take(which)


def id_at(ids, i):
    """One identifier as Python holds it."""
    return ids.text(i) if isinstance(ids, Texts) else int(ids[i])


def listed(ids) -> np.ndarray:
    """Identifiers as an array, of integers or of strings."""
    return ids.listed() if isinstance(ids, Texts) else ids


@device
def _slot(key, keys, codes):
    """Where `key` is or belongs: linear probing from its hash."""
    mask = keys.size - 1
    mixed = np.uint64(key)
    mixed = (mixed ^ (mixed >> SHIFTS[0])) * MULTIPLIERS[0]
    mixed = (mixed ^ (mixed >> SHIFTS[1])) * MULTIPLIERS[1]
    slot = np.int64(mixed ^ (mixed >> SHIFTS[2])) & mask
    while codes[slot] >= 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _find(ids, keys, codes, found):
    """Number of every identifier, ABSENT for an unknown one."""
    for i in range(ids.size):
        if i > 0 and ids[i] == ids[i - 1]:  # tables are often sorted
            found[i] = found[i - 1]
        else:
            found[i] = codes[_slot(ids[i], keys, codes)]


@kernel
def _add(ids, start, table, found):
    """Number identifiers from `start` on until `distinct` is full; return where it ended.

    Writes `size[0]`, the number of distinct identifiers.
    """
    keys, codes, distinct, size = table
    for i in range(start, ids.size):
        slot = _slot(ids[i], keys, codes)
        if codes[slot] < 0:
            if size[0] == distinct.size:
                return i
            keys[slot], codes[slot] = ids[i], size[0]
            distinct[size[0]] = ids[i]
            size[0] += 1
        found[i] = codes[slot]
    return ids.size


class IntegerIds:
    """Numbers of int64 identifiers."""

    kind = "integers"

    def __init__(self):
        self._size = np.zeros(1, dtype=np.int64)
        self._grow(FEWEST_SLOTS)

    def __len__(self):
        return int(self._size[0])

    def _grow(self, n_slots):
        """Make the table larger; half of it is filled at most."""
        known = self.distinct() if len(self) else np.empty(0, dtype=np.int64)
        self._keys = np.empty(n_slots, dtype=np.int64)
        self._codes = np.full(n_slots, ABSENT, dtype=np.int32)
        self._distinct = np.empty(n_slots // 2, dtype=np.int64)
        self._size[0] = 0
        self._add_from(0, known, np.empty(known.size, dtype=np.int32))

    def _add_from(self, start, ids, found):
        return _add(ids, start, (self._keys, self._codes, self._distinct, self._size), found)

    def distinct(self):
        """Identifiers by number."""
        return self._distinct[: len(self)]

    def add(self, ids):
        """Numbers of identifiers; new ones get the next."""
        found = np.empty(ids.size, dtype=np.int32)
        done = self._add_from(0, ids, found)
        while done < ids.size:
            self._grow(2 * self._keys.size)
            done = self._add_from(done, ids, found)
        return found

    def find(self, ids):
        """Numbers of identifiers, ABSENT for unknown ones."""
        found = np.empty(ids.size, dtype=np.int32)
        _find(ids, self._keys, self._codes, found)
        return found
