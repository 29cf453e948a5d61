"""Designs side by side, as one: columns of tables with the same rows, or computed and stored."""

from __future__ import annotations

import numpy as np

from ..._memory import available
from .columns import Design
from .computed import ComputedColumns
from .kernels import COMPUTED, INDICATOR
from .tables import read_table

__all__ = ["computed_design", "join_names", "side_by_side", "store"]

STORED_AT_ONCE = 2**27  # bytes of computed columns


def computed_design(n_rows, blocks, names=None):
    """Design of the columns of blocks, one after the other."""
    p = sum(block.n_columns for block in blocks)
    kind, nothing = np.full(p, COMPUTED, np.uint8), np.zeros(0)
    indptr, number = np.zeros(p + 1, np.int64), np.arange(p)
    arrays = kind, indptr, nothing.astype(np.int32), nothing, number
    return Design(n_rows, *arrays, names, blocks=tuple(blocks))


def store(design):
    """The same columns, computed ones as those that a table of their values would have."""
    is_computed, n_bytes = design.kind == COMPUTED, 8.0 * design.n_rows
    computed = np.flatnonzero(is_computed)
    if n_bytes * len(computed) > available():
        raise MemoryError(
            f"{len(computed):,} computed columns of {design.n_rows:,} rows may take "
            f"{n_bytes * len(computed) / 2**30:,.1f} GiB as stored ones, which this needs, and "
            "there is less memory; take fewer of them."
        )
    values, every = ComputedColumns(design), np.arange(design.n_rows)
    parts = [design.select(~is_computed).with_names(None)]
    size = max(1, int(STORED_AT_ONCE // max(1.0, n_bytes)))
    for low in range(0, len(computed), size):
        table = values.values(computed[low : low + size], every)
        parts.append(Design(*read_table(table.T, "X", may_be_empty=True)))
    place = np.argsort(np.concatenate([np.flatnonzero(~is_computed), computed]))
    return side_by_side(parts).select(place).with_names(design.names)


def side_by_side(designs):
    """Columns of designs with the same rows, without names."""
    kind = np.concatenate([design.kind for design in designs])
    counts = np.concatenate([np.diff(design.indptr) for design in designs])
    n_values, n_computed, value_ptr = 0, 0, []
    for design in designs:
        moved = np.where(design.kind == COMPUTED, n_computed, n_values)
        value_ptr.append(np.where(design.kind == INDICATOR, 0, design.value_ptr + moved))
        n_values += design.values.size
        n_computed += sum(block.n_columns for block in design.blocks)
    return Design(
        designs[0].n_rows,
        kind,
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([design.indices[: design.indptr[-1]] for design in designs]),
        np.concatenate([design.values for design in designs]),
        np.concatenate(value_ptr),
        blocks=tuple(block for design in designs for block in design.blocks),
    )


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
