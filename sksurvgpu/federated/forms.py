"""Forms of tables in messages and answers: compiled code trusts what has been checked here."""

from __future__ import annotations

import numpy as np

from .grid import are_labels

MOST = 2**48  # of counts, whose sums and multiples over sites have no overflow then
LARGEST = np.finfo(float).max  # what is more is not finite
WORDS = {np.int64: "whole numbers", np.float64: "numbers", np.bool_: "truth values"}
# A form: type, shape or whose length a table has, least number, largest or of which table a number
# is a place; labels have none of these, but kinds of types.
LABELS, CLASSES = (None, "biuU", None, None), (None, "biufU", None, None)


class FormError(ValueError):
    """Raised where something does not have its form: a predicate, which speaks of that alone."""


def require(is_right, otherwise):
    """Raise what is said of something that is not right."""
    if not is_right:
        raise FormError(otherwise)


def size_of(tables, name):
    """Numbers of a table; -1 where there is none."""
    return tables[name].size if name in tables else -1


def check_tables(tables, forms, may_lack=()):
    """Check that there are tables of such forms; NaN are not between numbers."""
    is_right = set(forms).difference(may_lack) <= set(tables) <= set(forms)
    require(is_right, f"has the tables {sorted(tables)}, not {sorted(forms)}")
    for name, table in tables.items():
        kind, shape, least, most = forms[name]
        what = f"has a table {name!r} that is not of {WORDS.get(kind, 'ascending labels')}"
        if kind is None:
            require(are_labels(table) and table.dtype.kind in shape, what)
            continue
        shape = (size_of(tables, shape),) if isinstance(shape, str) else shape
        most = size_of(tables, most) - 1 if isinstance(most, str) else most
        require(table.dtype == kind and table.shape == shape, f"{what} of the shape {shape}")
        is_right = least is None or np.all((table >= least) & (table <= most))
        require(is_right, f"{what} from {least} to {most}")
