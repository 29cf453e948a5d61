"""Outcomes of several categories: a label, or a count of each category, in every row."""

from dataclasses import dataclass, replace

import narwhals as nw
import numpy as np
from scipy.sparse import issparse

from ..checks import check_sample_weight
from ..vectors import as_array
from .classes import encode_labels
from .fields import check_given, check_plain

LARGEST_COUNT = 2**31 - 1  # trials of a row, numbered by 32 bits on devices


@dataclass(frozen=True, eq=False)
class Categories:
    """Counts of categories, in the caller's order of rows.

    Attributes
    ----------
    labels : ndarray of shape (k,)
        Sorted labels; names or numbers of the columns of counts.
    counts : ndarray of shape (n_rows, k), int64
        Each row has at least one, until it is weighted.
    """

    labels: np.ndarray
    counts: np.ndarray

    def weighted(self, sample_weight) -> "Categories":
        """Return the counts times row weights, which are whole numbers."""
        weight = check_sample_weight(sample_weight, len(self.counts))
        if weight is None:
            return self
        is_whole = weight == np.floor(weight)
        if not is_whole.all():
            row = int(np.argmin(is_whole))
            raise ValueError(
                f"`sample_weight` is {weight[row]:g} in row {row:,}; a weight says how often a row "
                "was observed: pass whole numbers."
            )
        total = weight * self.counts.sum(axis=1)
        _check_totals(total, "`sample_weight` times the counts of `y`")
        return replace(self, counts=self.counts * weight.astype(np.int64)[:, None])

    def ordered_as(self, classes) -> np.ndarray:
        """Return the counts of the classes of a fit, columns of names by their names."""
        if len(self.labels) != len(classes):
            raise ValueError(
                f"`y` has {len(self.labels):,} columns of counts, the fit had {len(classes):,} "
                "classes; pass the counts of the same classes."
            )
        if self.labels.dtype.kind != "U":
            return self.counts
        place = {name: column for column, name in enumerate(self.labels.tolist())}
        for label in classes.tolist():
            if label not in place:
                raise ValueError(
                    f"`y` has no column of counts named {label!r}, which is a class of the fit; "
                    "name columns as in `classes_`, or pass an array in their order."
                )
        return self.counts[:, [place[label] for label in classes.tolist()]]


def read_categories(y, n_rows=None) -> Categories:
    """Check the outcome of a model of several categories: labels, or counts of each category."""
    check_given(y)
    if issparse(y):
        raise TypeError("`y` is sparse; pass labels, or counts as a dense array: `y.toarray()`.")
    table, names = _read_table(y)
    if table.ndim < 2 or table.shape[1] < 2:
        labels, code = encode_labels(table, n_rows)
        counts = np.zeros((len(code), len(labels)), np.int64)
        counts[np.arange(len(code)), code] = 1
        return Categories(labels, counts)
    if n_rows is not None and len(table) != n_rows:
        raise ValueError(f"`y` has {len(table):,} rows, `X` has {n_rows:,} rows; pass one per row.")
    return Categories(np.arange(table.shape[1]) if names is None else names, _check_counts(table))


def _read_table(y):
    """Entries of `y`, and the names of its columns where they are text."""
    frame, names = nw.from_native(y, eager_only=True, pass_through=True), None
    if isinstance(frame, nw.DataFrame):
        if len(set(frame.columns)) < len(frame.columns):
            raise ValueError("`y` has several columns of one name; rename all but one.")
        if all(isinstance(name, str) for name in frame.columns):
            names = np.array(frame.columns)
        table = frame.to_numpy()
    else:
        table = as_array(y, "y")
    check_plain(table, "labels")
    if table.ndim > 2:
        raise ValueError(
            f"`y` has shape {table.shape}, must have one dimension of labels, or two of counts."
        )
    return table, names


def _check_counts(table):
    if table.dtype.kind not in "biuf":
        raise TypeError(
            f"`y` has two dimensions and dtype {table.dtype}; pass counts of categories, or labels "
            "in one dimension."
        )
    with np.errstate(invalid="ignore"):
        is_count = np.isfinite(table) & (table >= 0) & (table == np.floor(table))
    if not is_count.all():
        row, column = np.argwhere(~is_count)[0]
        found = table[row, column]
        if not np.isfinite(found):
            raise ValueError(
                f"Input y contains NaN or infinity: `y` is {found:g} in row {row:,}, column "
                f"{column:,}; drop or fill those rows."
            )
        raise ValueError(
            f"`y` is {found:g} in row {row:,}, column {column:,}; two dimensions are counts of "
            "categories, whole numbers of at least 0."
        )
    total = table.sum(axis=1, dtype=np.float64)
    _check_totals(total, "the counts of `y`")
    if not total.all():
        row = int(np.argmin(total))
        raise ValueError(
            f"`y` has counts of 0 only in row {row:,}; leave out rows without an observation."
        )
    return table.astype(np.int64)


def _check_totals(total, what):
    if total.size and total.max() > LARGEST_COUNT:
        row = int(np.argmax(total))
        raise ValueError(
            f"{what} sum to {total[row]:.6g} in row {row:,}, more than {LARGEST_COUNT:,}; split "
            "the row into several."
        )
