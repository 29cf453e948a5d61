"""Lines of a long table as numbers: row, column and value, with what was left out counted."""

from dataclasses import dataclass

import narwhals as nw
import numpy as np

from .ids import ABSENT, id_at, new_ids, read_ids, take

__all__ = ["Counts", "Lines", "choose_columns", "is_missing"]

DEFAULT_VALUE = "value"


@dataclass
class Counts:
    """Lines read, and those that were left out, by reason."""

    lines: int = 0
    missing: int = 0
    unknown: int = 0  # their row is not among those of the outcomes
    unused: int = 0  # their covariate is not among those asked for


def choose_columns(columns, row_id, covariate_id, value):
    """Names of the columns to be read; without a name of values where there are none."""
    listed = ", ".join(map(repr, columns))
    for argument, label in (("row_id", row_id), ("covariate_id", covariate_id)):
        if label not in columns:
            raise ValueError(
                f"`covariates` has no column {label!r}; name one of its columns ({listed}) by "
                f"{argument}=."
            )
    if len({row_id, covariate_id, value}) < 3:
        raise ValueError(
            f"`row_id`, `covariate_id` and `value` are {row_id!r}, {covariate_id!r} and {value!r}; "
            "name three different columns."
        )
    if value is None:
        return [row_id, covariate_id]
    if value in columns:
        return [row_id, covariate_id, value]
    others = [label for label in columns if label not in (row_id, covariate_id)]
    if others or value != DEFAULT_VALUE:
        raise ValueError(
            f"`covariates` has no column {value!r} of values; name one of its columns ({listed}) "
            "by value=, or pass value=None if every line stands for a 1."
        )
    return [row_id, covariate_id]


def is_missing(series: nw.Series) -> np.ndarray:
    """Whether an entry is null or NaN."""
    mask = series.is_null().to_numpy().astype(np.bool_)
    if series.dtype.is_float():
        mask = mask | np.isnan(series.cast(nw.Float64).to_numpy())
    return mask


class Lines:
    """Readers of a long table's frames, which share the numbers of its covariates.

    Parameters
    ----------
    columns : list of str
        Columns of row identifiers, covariate identifiers and, if there are three, values.
    rows : IntegerIds or TextIds
        Numbers of the rows.
    covariates : IntegerIds, TextIds or None
        Numbers of the covariates asked for; None takes all that occur.
    drops_missing : bool
        Whether lines with a missing entry are left out; else they are an error.
    """

    def __init__(self, columns, rows, covariates, drops_missing):
        self.columns = columns
        self.covariates = covariates
        self._rows = rows
        self._drops_missing = drops_missing
        self._is_growing = covariates is None
        self.example_of_unknown = None

    @property
    def has_text(self):
        """Whether identifiers are strings."""
        return "strings" in {self._rows.kind, getattr(self.covariates, "kind", "")}

    def freeze(self):
        """From now on, covariates that have not occurred are left out."""
        self._is_growing = False

    def read(self, frames, counts: Counts):
        """Yield (rows, covariates, values) of every frame; values is None where all are 1."""
        for frame in frames:
            first_line = counts.lines
            counts.lines += len(frame)
            frame = self._without_missing(frame, first_line, counts)
            if len(frame):
                yield self._number(frame, counts)

    def _without_missing(self, frame, first_line, counts):
        is_absent = np.zeros(len(frame), dtype=np.bool_)
        for label in self.columns:
            is_absent_here = is_missing(frame.get_column(label))
            if is_absent_here.any() and not self._drops_missing:
                line = first_line + int(np.argmax(is_absent_here))
                raise ValueError(
                    f"`covariates` has no {label!r} in line {line:,}; pass missing='drop' to leave "
                    "out lines with a missing entry."
                )
            is_absent |= is_absent_here
        n_absent = int(np.count_nonzero(is_absent))
        counts.missing += n_absent
        return frame.filter((~is_absent).tolist()) if n_absent else frame

    def _number(self, frame, counts):
        row_ids, ids = (self._ids(frame, label) for label in self.columns[:2])
        values = self._values(frame, row_ids, ids)
        rows = _find(self._rows, row_ids, f"`covariates`[{self.columns[0]!r}]", "rows")
        is_known = rows >= 0
        n_unknown = int(np.count_nonzero(~is_known))
        if n_unknown:
            counts.unknown += n_unknown
            if self.example_of_unknown is None:
                self.example_of_unknown = id_at(row_ids, np.argmin(is_known))
            rows, ids = rows[is_known], take(ids, is_known)
            values = None if values is None else values[is_known]
        codes = self._codes(ids)
        is_used = codes != ABSENT
        n_unused = int(np.count_nonzero(~is_used))
        if n_unused:
            counts.unused += n_unused
            rows, codes = rows[is_used], codes[is_used]
            values = None if values is None else values[is_used]
        return rows, codes, values

    def _ids(self, frame, label):
        return read_ids(frame.get_column(label), f"`covariates`[{label!r}]")

    def _codes(self, ids):
        if self.covariates is None:
            self.covariates = new_ids(ids)
        check_kind(self.covariates, ids, f"`covariates`[{self.columns[1]!r}]", "other covariates")
        find = self.covariates.add if self._is_growing else self.covariates.find
        return find(ids)

    def _values(self, frame, row_ids, ids):
        if len(self.columns) == 2:
            return None
        series = frame.get_column(self.columns[2])
        if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
            raise TypeError(
                f"`covariates`[{self.columns[2]!r}] has dtype {series.dtype}; pass numbers."
            )
        values = series.to_numpy().astype(np.float64)
        is_finite = np.isfinite(values)
        if not is_finite.all():
            line = int(np.argmin(is_finite))
            raise ValueError(
                f"`covariates`[{self.columns[2]!r}] is {values[line]} for covariate "
                f"{id_at(ids, line)} of row {id_at(row_ids, line)}, must be finite; correct or drop such lines."
            )
        return None if (values == 1.0).all() else values


def _find(numbering, ids, label, others):
    check_kind(numbering, ids, label, others)
    return numbering.find(ids)


def check_kind(numbering, ids, label, others):
    """Check that identifiers are of the kind of those before them, integers or strings."""
    kind = new_ids(ids).kind
    if kind != numbering.kind:
        raise TypeError(
            f"{label} has {kind}, but identifiers of {others} are {numbering.kind}; convert one, "
            "e.g. with .astype(str)."
        )
