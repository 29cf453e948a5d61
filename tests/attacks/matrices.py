"""Damaged sparse matrices: random formats, random damage, and a slow and obvious reader."""

import numpy as np
import scipy.sparse as sp

from sksurvgpu import LinearCCD
from sksurvgpu.data.design.columns import build_design

from .judge import MEANINGLESS, judge

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
DTYPES = ("?", "i1", "u2", "i4", "i8", "u8", "f4", "f8", "g")
ODD_INTEGERS = (-1, 0, 1, 2, 3, 5, 7, 255, -128, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32 + 1)
LARGEST = (2**62, 2**63 - 1, -(2**63), 2**63, 2**64 - 1)
ODD_VALUES = (0.0, -0.0, 1.0, np.nan, np.inf, -np.inf, 1e-320, 1e20, -2.5)
ODD_OBJECTS = (None, "1", "a", 1.5, 1j, 2**70, [1], (0, 1), np.float64(2), b"1", {})
INDEX_KINDS = ("i1", "u1", "i2", "i8", "u8", ">i4", "f8", "?", "O", "U", "c16", "m8[s]")
VALUE_KINDS = ("f2", "f4", ">f8", "i1", "u8", ">i2", "?", "O", "U", "c16", "M8[s]", "g")


def pick(rng, options):
    return options[rng.integers(len(options))]


def _with_entry(rng, array, values):
    """The array with one other entry, in a wider type if it needs one."""
    if not array.size:
        return array
    entries = list(array.ravel())
    entries[rng.integers(len(entries))] = pick(rng, values)
    kinds = (object,) if array.dtype == object else (array.dtype, np.int64, np.uint64, np.float64)
    for dtype in kinds:
        wide = np.empty(len(entries), dtype)
        try:
            for k, entry in enumerate(entries):
                wide[k] = entry
        except (OverflowError, TypeError, ValueError):
            continue
        if all(new is old or new == old or old != old for new, old in zip(wide, entries)):  # noqa: B905
            return wide.reshape(array.shape)
    return array


def _cast(array, dtype):
    try:
        with np.errstate(all="ignore"):
            return array.astype(dtype)
    except (OverflowError, TypeError, ValueError):
        return array


def _misaligned(array):
    room = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    room[...] = array
    return room


def damage_array(rng, array, values, kinds):
    """Another array, or no array, in the place of a good one."""
    size = len(array)
    changes = (
        lambda: _with_entry(rng, array, values),
        lambda: _with_entry(rng, array, values),
        lambda: array[rng.permutation(size)],
        lambda: array[: rng.integers(size + 1)],
        lambda: np.concatenate([array, array[: 1 + rng.integers(3)]]),
        lambda: _cast(array, pick(rng, kinds)),
        lambda: array[::-1],
        lambda: np.repeat(array, 2, axis=0)[::2],
        lambda: _misaligned(array) if array.dtype.kind in "iuf" else array,
        lambda: np.broadcast_to(array[:1], array.shape) if size else array,
        lambda: array[None] if rng.random() < 0.5 else array[..., None],
        lambda: np.ma.array(array, mask=rng.random(array.shape) < 0.3),
        lambda: array.tolist(),
        lambda: None,
    )
    # What is no array at all is refused at once and needs few attempts.
    chances = np.array([4, 4, 2, 2, 2, 3, 1, 1, 1, 1, 0.5, 0.5, 0.2, 0.2])
    return changes[rng.choice(len(changes), p=chances / chances.sum())]()


def _damage_parts(rng, X):
    part = pick(rng, {"dia": ("data", "offsets"), "coo": ("data", "coords")}.get(X.format, PARTS))
    is_data = part == "data"
    values, kinds = (ODD_VALUES, VALUE_KINDS) if is_data else (ODD_INTEGERS + LARGEST, INDEX_KINDS)
    if part == "coords":
        coords, axis = list(X.coords), rng.integers(2)
        if rng.random() < 0.1:
            X.coords = tuple(coords[:1]) if rng.random() < 0.5 else (*coords, coords[0])
            return
        coords[axis] = damage_array(rng, coords[axis], values, kinds)
        X.coords = tuple(coords)
    elif part == "indptr" and rng.random() < 0.3:
        # A peak: its end is as it should be, or 0.
        peak = np.array(X.indptr, dtype=np.int64)
        peak[1:-1] += pick(rng, (1, 1000, 10**9))
        peak[-1:] *= rng.integers(2)
        X.indptr = peak
    else:
        setattr(X, part, damage_array(rng, getattr(X, part), values, kinds))


PARTS = ("data", "indices", "indptr")


def _damage_lists(rng, X):
    X.rows, X.data = X.rows.copy(), X.data.copy()  # earlier damage may have made them read-only
    lists = pick(rng, (X.rows, X.data))
    if lists.ndim != 1 or not lists.size:
        return
    i = rng.integers(len(lists))
    change = rng.integers(6)
    if change == 0 and isinstance(lists[i], list):
        lists[i] = list(lists[i])[::-1]
    elif change == 1:
        lists[i] = pick(rng, (None, (0,), "0", 5, {0: 1}, np.array([0])))
    elif change == 2 and isinstance(lists[i], list):
        lists[i] = [*lists[i], pick(rng, ODD_INTEGERS)]
    elif change == 3:
        X.rows = damage_array(rng, X.rows, ([0],), ("O",))
    else:
        options = ODD_INTEGERS + LARGEST + ODD_VALUES + ODD_OBJECTS
        if i >= min(len(X.rows), len(X.data)):
            return
        column = pick(rng, options) if lists is X.rows else 0
        X.rows[i] = [column]
        X.data[i] = [pick(rng, options) if lists is X.data else 1.0]


def _damage_dictionary(rng, X):
    options = ODD_INTEGERS + LARGEST + ODD_VALUES + ODD_OBJECTS
    keys = [option for option in options if option.__hash__]
    key = pick(rng, keys), 0
    if rng.random() < 0.2:
        key = pick(rng, (0, "00", (0,), (0, 0, 0), None))
    elif rng.random() < 0.4:
        key = 0, 0
    X._dict[key if rng.random() < 0.5 else key[::-1] if isinstance(key, tuple) else key] = (
        1.0 if rng.random() < 0.5 else pick(rng, options)
    )


def _damage_shape(rng, X):
    n, p = X.shape
    X._shape = pick(
        rng, ((n + 1, p), (n, p + 1), (max(n - 1, 0), p), (p, n), (n, 2**40), (2**35, p), (-n, p))
    )


def _damage_flags(rng, X):
    for flag in ("has_canonical_format", "has_sorted_indices"):
        if X.format in ("csc", "csr", "bsr") or (X.format == "coo" and "canonical" in flag):
            setattr(X, flag, bool(rng.integers(2)))


def _duplicate(rng, X):
    """The same matrix with some entries in two parts, or out of order."""
    coo = X.tocoo()
    order = rng.permutation(np.repeat(np.arange(coo.nnz), rng.integers(1, 4, coo.nnz)))
    axis = 0 if X.format == "csr" else 1
    if X.format in ("csc", "csr"):
        order = order[np.argsort(coo.coords[axis][order], kind="stable")]
    coords = [part[order] for part in coo.coords]
    if X.format == "coo":
        X.data, X.coords = coo.data[order], tuple(coords)
        return
    counts = np.bincount(coords[axis], minlength=X.shape[axis])
    X.data, X.indices = coo.data[order], coords[1 - axis]
    X.indptr = np.concatenate([[0], np.cumsum(counts)])


def draw_matrix(rng, format):
    """A matrix of the format, damaged up to three times or not at all."""
    n, p = (rng.integers(1, 9), rng.integers(1, 7)) if rng.random() < 0.9 else (300, 20)
    table = (rng.random((n, p)) < rng.choice([0.1, 0.4, 0.9])) * rng.integers(-3, 4, (n, p))
    table = table > 0 if rng.random() < 0.3 else table
    make = sp.csr_array if rng.random() < 0.7 else sp.csr_matrix
    with np.errstate(all="ignore"):
        X = make(table.astype(pick(rng, DTYPES))).asformat(format)
    if format == "bsr":
        sizes = [pick(rng, [k for k in (1, 2, 3) if count % k == 0]) for count in X.shape]
        X = X.tocsr().tobsr(blocksize=tuple(sizes))
    if format in ("csc", "csr", "coo") and rng.random() < 0.4:
        _duplicate(rng, X)
    damage = {"lil": _damage_lists, "dok": _damage_dictionary}.get(format, _damage_parts)
    for _ in range(rng.integers(4)):
        if not _has_arrays(X):
            break
        change = damage if rng.random() < 0.8 else pick(rng, (_damage_shape, _damage_flags))
        change(rng, X)
    return X


def _has_arrays(X):
    """Whether there is something left to damage."""
    parts = [part for name, part in vars(X).items() if name in (*PARTS, "offsets", "rows")]
    parts += getattr(X, "coords", ())
    return all(type(part) is np.ndarray and part.ndim for part in parts) and (
        X.format != "coo" or len(X.coords) == 2
    )


class _NonsenseError(Exception):
    """An entry without a reading."""


def _must(condition):
    if not condition:
        raise _NonsenseError


def _list_of(array, kinds, ndim=1):
    _must(type(array) is not np.ma.MaskedArray and isinstance(array, np.ndarray))
    _must(array.ndim == ndim and array.dtype.kind in kinds)
    return array.tolist()


def _entries(X):
    """Rows, columns and values, one after the other."""
    n, p = X.shape
    if X.format in ("csc", "csr", "bsr"):
        block = (1, 1)
        if X.format == "bsr":
            _must(isinstance(X.data, np.ndarray) and X.data.ndim == 3)
            block = X.data.shape[1:]
            _must(min(block) > 0 and n % block[0] == 0 and p % block[1] == 0)
        n_major, n_minor = (p, n) if X.format == "csc" else (n // block[0], p // block[1])
        indptr, indices = _list_of(X.indptr, "iu"), _list_of(X.indices, "iu")
        values = _list_of(X.data, "biuf", ndim=3 if X.format == "bsr" else 1)
        _must(len(indptr) == n_major + 1 and indptr[0] == 0 and len(indices) == len(values))
        _must(indptr == sorted(indptr) and indptr[-1] <= len(indices))
        for major in range(n_major):
            for k in range(indptr[major], indptr[major + 1]):
                _must(0 <= indices[k] < n_minor)
                at = (indices[k], major) if X.format == "csc" else (major, indices[k])
                if X.format != "bsr":
                    yield *at, values[k]
                    continue
                for r in range(block[0]):
                    for c in range(block[1]):
                        yield at[0] * block[0] + r, at[1] * block[1] + c, values[k][r][c]
    elif X.format == "coo":
        _must(len(X.coords) == 2)
        rows, columns = (_list_of(part, "iu") for part in X.coords)
        values = _list_of(X.data, "biuf")
        _must(len(rows) == len(columns) == len(values))
        yield from zip(rows, columns, values, strict=True)
    elif X.format == "dia":
        values, offsets = _list_of(X.data, "biuf", ndim=2), _list_of(X.offsets, "iu")
        _must(len(values) == len(offsets) == len(set(offsets)))
        for diagonal, offset in zip(values, offsets, strict=True):
            _must(-n < offset < p)
            for column, value in enumerate(diagonal):
                if 0 <= column - offset < n and column < p:
                    yield column - offset, column, value
    else:
        yield from _entries_of_objects(X)


def _entries_of_objects(X):
    number = (bool, int, float, np.bool_, np.integer, np.floating)
    if X.format == "dok":
        found = list(X.items())
        _must(all(isinstance(key, tuple) and len(key) == 2 for key, _ in found))
        found = [(*key, value) for key, value in found]
    else:
        for lists in (X.rows, X.data):
            _must(len(_list_of(lists, "O")) == X.shape[0])
            _must(all(type(entries) is list for entries in lists))
        found = []
        for i, (columns, values) in enumerate(zip(X.rows, X.data, strict=True)):
            _must(len(columns) == len(values))
            found += [(i, *pair) for pair in zip(columns, values, strict=True)]
    for row, column, value in found:
        _must(isinstance(value, number))
        _must(type(value) is not int or -(2**63) <= value < 2**64)
        _must(all(isinstance(index, (int, np.integer)) for index in (row, column)))
        yield int(row), int(column), value


def read_plainly(X):
    """The matrix as a dense one, or `MEANINGLESS`."""
    n, p = X.shape
    if not (0 < n < 2**31 and 0 < p < 2**31):
        return MEANINGLESS
    sums = {}
    try:
        for row, column, value in _entries(X):
            _must(0 <= row < n and 0 <= column < p)
            sums[row, column] = sums.get((row, column), 0.0) + float(value)
    except _NonsenseError:
        return MEANINGLESS
    dense = np.zeros((n, p))
    for at, value in sums.items():
        # A sum of booleans is one, as for SciPy.
        dense[at] = value != 0 if X.dtype == bool and X.format not in ("lil", "dok") else value
    return dense


def _through_design(X):
    design = build_design(X)
    turned = design.reordered(np.arange(design.n_rows)[::-1])
    assert (
        turned.dot(np.ones(design.n_columns))[::-1] == design.dot(np.ones(design.n_columns))
    ).all()
    return design.to_scipy().toarray()


def _through_rows(X):
    return build_design(X)[[0, 0, -1]].to_scipy().toarray()


def _few(count):
    """Rows or columns of what goes with X; damaged shapes may say anything."""
    return count if 0 < count < 1000 else 1


def _through_columns(X):
    return build_design(np.eye(_few(X.shape[0]))).with_columns(X).to_scipy().toarray()


def _through_fit(X):
    return LinearCCD(alpha=0.1).fit(X, np.arange(_few(X.shape[0])) % 3.0).coef_


def _through_prediction(X):
    table = np.arange(4.0 * _few(X.shape[1])).reshape(4, -1)
    return LinearCCD(alpha=0.1).fit(table, np.array([1.0, 2.0, 0.0, 1.0])).predict(X)


DOORS = (_through_design, _through_rows, _through_columns, _through_fit, _through_prediction)


def attack_matrix(rng, format):
    """One attempt with a matrix of a format."""
    X = draw_matrix(rng, format)
    plain = read_plainly(X)
    door = DOORS[rng.choice(len(DOORS), p=[0.6, 0.1, 0.1, 0.1, 0.1])]
    if plain is not MEANINGLESS and not np.abs(plain).max() < 1e6:
        door = _through_design
    before = _contents(X)
    result = judge(door, X, plain, strict=True, tolerance=1e-6)
    assert _contents(X) == before, "X was written to"
    return result


def _contents(X):
    parts = [part for part in vars(X).values() if isinstance(part, np.ndarray)]
    return [(part.dtype, repr(part.tolist())) for part in parts]
