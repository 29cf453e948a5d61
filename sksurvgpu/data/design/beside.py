"""Designs side by side, as one: columns of tables with the same rows, or computed and stored.

Functions take designs and make others by `replace`; `columns`, which calls them, has the class.
"""

from dataclasses import replace

import numpy as np
from pandas import DataFrame
from scipy.sparse import csc_array

from ..._memory import available
from .computed import ComputedColumns
from .kernels import COMPUTED, DENSE, INDICATOR, SPARSE
from .tables import read_table

STORED_AT_ONCE = 2**27  # bytes of computed columns


def store(design):
    """Store columns that are computed, as a table of their values would have them."""
    is_computed, n_bytes = design.kind == COMPUTED, 8.0 * design.n_rows
    computed = np.flatnonzero(is_computed)
    if n_bytes * len(computed) > available():
        raise MemoryError(
            f"{len(computed):,} computed columns of {design.n_rows:,} rows may take "
            f"{n_bytes * len(computed) / 2**30:,.1f} GiB as stored ones, which this needs, and "
            "there is less memory; take fewer of them."
        )
    values, every = ComputedColumns(design), np.arange(design.n_rows)
    parts = [design.select(~is_computed)]
    size = max(1, int(STORED_AT_ONCE // max(1.0, n_bytes)))
    for low in range(0, len(computed), size):
        table = values.values(computed[low : low + size], every)
        n_rows, kind, indptr, indices, stored, value_ptr, _ = read_table(
            table.T, "X", may_be_empty=True
        )
        made = {"kind": kind, "indptr": indptr, "indices": indices, "values": stored}
        parts.append(replace(design, n_rows=n_rows, value_ptr=value_ptr, blocks=(), **made))
    place = np.argsort(np.concatenate([np.flatnonzero(~is_computed), computed]))
    return side_by_side(parts).select(place).with_names(design.names)


def side_by_side(designs):
    """Columns of designs with the same rows, without names."""
    counts = np.concatenate([np.diff(design.indptr) for design in designs])
    n_values, n_computed, value_ptr = 0, 0, []
    for design in designs:
        moved = np.where(design.kind == COMPUTED, n_computed, n_values)
        value_ptr.append(np.where(design.kind == INDICATOR, 0, design.value_ptr + moved))
        n_values += design.values.size
        n_computed += sum(block.n_columns for block in design.blocks)
    return replace(
        designs[0],
        kind=np.concatenate([design.kind for design in designs]),
        indptr=np.concatenate([[0], np.cumsum(counts)]),
        indices=np.concatenate([design.indices[: design.indptr[-1]] for design in designs]),
        values=np.concatenate([design.values for design in designs]),
        value_ptr=np.concatenate(value_ptr),
        names=None,
        keeps_order=False,
        blocks=tuple(block for design in designs for block in design.blocks),
    )


def spread_rows(design, first, n_rows):
    """Columns of a design among more rows, from `first` on, zero in all others; none is dense."""
    counts, dense = design.n_stored, np.flatnonzero(design.kind == DENSE)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    indices = np.empty(indptr[-1], np.int32)
    is_own = np.repeat(design.kind != DENSE, counts)
    indices[is_own] = design.indices[: design.indptr[-1]]
    for j in dense:
        indices[indptr[j] : indptr[j + 1]] = np.arange(design.n_rows)
    indices += np.int32(first)
    kind = np.where(design.kind == DENSE, SPARSE, design.kind).astype(np.uint8)
    return replace(design, n_rows=n_rows, kind=kind, indptr=indptr, indices=indices)


def to_csc(design):
    """Columns of a design, none of which is computed, as a sparse array of scipy."""
    indptr = np.concatenate([[0], np.cumsum(design.n_stored)])
    # scipy wants one index type, int32 where it fits.
    index_type = np.int32 if indptr[-1] < 2**31 else np.int64
    indices, data = np.empty(indptr[-1], dtype=index_type), np.empty(indptr[-1])
    for j in range(design.n_columns):
        part, rows = slice(indptr[j], indptr[j + 1]), slice(design.indptr[j], design.indptr[j + 1])
        is_dense = design.kind[j] == DENSE
        indices[part] = np.arange(design.n_rows) if is_dense else design.indices[rows]
        data[part] = design.stored_values(j)
    X = csc_array((data, indices, indptr.astype(index_type)), shape=design.shape)
    X.eliminate_zeros()
    return X


def to_frame(design):
    """Columns of a design, none of which is computed, as a frame; dense ones are dense."""
    frame = DataFrame.sparse.from_spmatrix(to_csc(design), columns=design.names)
    for j in np.flatnonzero(design.kind == DENSE):
        frame.isetitem(j, design.stored_values(j))
    return frame


def join_names(names, others):
    """Names of the columns of two tables next to each other; None where neither has any."""
    if names is None and others is None:
        return None
    if names is None or others is None:
        which = "table" if others is None else "design"
        raise ValueError(
            f"the columns of the {which} have no names, those of the other have; pass a DataFrame "
            "whose column names are strings."
        )
    twice = sorted(set(names) & set(others))
    if twice:
        raise ValueError(
            f"`table` has a column {twice[0]!r}, which the design has already"
            f"{f' ({len(twice):,} such names)' if len(twice) > 1 else ''}; rename it."
        )
    return np.concatenate([names, others])
