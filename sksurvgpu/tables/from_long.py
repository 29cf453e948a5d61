"""`from_long`, into memory or into files."""

from dataclasses import fields
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import Any

import narwhals as nw
import numpy as np

from ..data.design.columns import build_design
from ..data.vectors import check_labels, encode
from ..partitions.batches import RowBatch, fields_of, split_table
from ..partitions.handles import Rows
from ..partitions.packing import find_field
from ..partitions.write import MOST_ROWS, check_size, check_target, order_of, write_batches
from .long import LongOptions, read_long
from .reading import BATCH_SIZE, DEFAULT_VALUE, require_beside
from .results import LongData
from .windows import DEFAULT_DAY, DEFAULT_INDEX_DATE


def from_long(
    outcomes,
    covariates,
    *,
    row_id="row_id",
    covariate_id="covariate_id",
    value=DEFAULT_VALUE,
    names=None,
    name="name",
    like=None,
    min_count=1,
    unknown="warn",
    duplicates="error",
    missing="error",
    batch_size=BATCH_SIZE,
    windows=None,
    day=DEFAULT_DAY,
    index_date=DEFAULT_INDEX_DATE,
    prepare=None,
    to=None,
    verbose=0,
    **writing,
) -> LongData:
    """Read covariates from a long table, one line for a row and a covariate.

    Health databases export such tables; a covariate without a line for a row is 0 there.

    Parameters
    ----------
    outcomes : table
        One line a row (a person, say): its identifier and any other columns, such as event and
        time. Its order is the order of rows.
    covariates : table
        One line for each covariate of a row, in any order: identifiers of row and covariate and,
        unless all are 1, a value. Both tables may be a pandas or polars frame, also a lazy one, an
        Arrow table, reader or dataset, a path of Parquet or Feather files (``~`` is the user's
        home), a folder or a list of such (read by pyarrow or polars), or an iterable of frames.
        `outcomes` is held as a whole. Of `covariates` a batch is, and every source that can be read
        again is read twice; iterators and Arrow readers are kept as 8 bytes a line, 16 where values
        are not all 1.
    row_id : str, default="row_id"
        Name of the column of row identifiers, in both tables. Identifiers are 64-bit integers or
        strings.
    covariate_id : str, default="covariate_id"
        Name of the column of covariate identifiers.
    value : str or None, default="value"
        Name of the column of values; None takes every line for a 1. A table with identifiers only
        needs none.
    names : mapping, pandas.Series or table, optional
        Names by covariate identifier; a table has the columns `covariate_id` and `name`. Columns
        without a name get their identifier, and those that share a name get it with the identifier
        in parentheses.
    name : str, default="name"
        Name of the column of names in a table `names`.
    like : LongData, optional
        Take its columns, with their names, windows and scales, and no others, as data to predict
        for need them.
    min_count : int, default=1
        Leave out covariates that are not zero in fewer rows.
    unknown : {"warn", "error", "ignore"}, default="warn"
        What to do about lines whose row is not among the outcomes; they are left out.
    duplicates : {"error", "last", "first", "sum", "mean", "max", "min", "count", "present"}, \
            default="error"
        What to do about several lines of a row and covariate (in one of `windows`): refuse them,
        take the last or first value (by day, and of one day as in the table; without windows, as in
        the table), their sum, mean, largest or smallest value, the number of lines, or a 1. The
        last two do not look at values, whatever number of lines there is; the others leave a single
        line as it is.
    missing : {"error", "drop"}, default="error"
        What to do about lines in which an identifier, the value or the day is null or NaN, and
        about lines of rows that have no index date.
    batch_size : int, default=1_048_576
        Lines read at once.
    windows : list or dict, optional
        Windows of time relative to the index date of the row: pairs of days, both included, None
        where a window is open. ``[(-365, -1), (None, -1)]`` makes two columns of each covariate,
        named like ``"aspirin [-365, -1]"``; a dictionary has names in place of the brackets:
        ``{"last year": (-365, -1)}``. A third entry says what becomes of several lines in this
        window, ``(-365, -1, "count")``, where that is not `duplicates`.
    day : str, default="day"
        With `windows`: name of the column of `covariates` that says when a line was: dates,
        timestamps, of which the day of the calendar counts, or integers.
    index_date : str, default="index_date"
        With `windows`: name of the column of index dates in `outcomes`, of the same kind.
    prepare : PrepareColumns, optional
        Leaves out redundant columns and divides the others by their scale; a fitted copy is kept,
        and applied again by `like`.
    to : path-like, optional
        Write the rows to files in this folder, and hold none but `outcomes`: lines are read once
        and sorted through temporary files.
    verbose : int, default=0
        1 shows one line about the lines that were read; with `to` also one about rows written.
    **writing
        With `to`: arguments of `write_partitions`. `outcome` and `columns` name columns of
        `outcomes`, and so does `group` (or a field of the outcome). ``with_columns=["age"]`` puts
        columns of `outcomes` on the right of X, as `Design.with_columns` does.

    Returns
    -------
    data : LongData
        Design, outcomes, identifiers and a report. With `to`, ``X`` is a handle, rows are in the
        order of the files, and ``open_partitions(to)`` has the outcome.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import CoxLassoCCD, from_long, surv
    >>> persons = pd.DataFrame(
    ...     {"row_id": [7, 3, 9, 4], "event": [1, 0, 1, 1], "time": [5.0, 9.0, 2.0, 7.0]}
    ... )
    >>> codes = pd.DataFrame({"row_id": [9, 3, 7, 9], "covariate_id": [21, 40, 21, 40]})
    >>> data = from_long(persons, codes, names={21: "aspirin", 40: "gout"})
    >>> data.report
    4 rows, 2 covariates, 4 entries from 4 lines
    covariates occur in 2 to 2 rows
    1 rows have no covariate
    >>> y = surv(data.outcomes["event"], data.outcomes["time"])
    >>> CoxLassoCCD(alpha=0.1).fit(data.X, y).summary().index.tolist()
    ['aspirin', 'gout']
    """
    passed = locals()
    options = LongOptions(**{field.name: passed[field.name] for field in fields(LongOptions)})
    if to is None:
        if writing:
            raise TypeError(f"`{next(iter(writing))}` is for files; name their folder by to=.")
        return read_long(outcomes, covariates, options)
    store = _Store(to, verbose=verbose, **writing)
    store.path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=store.path.parent, prefix=f".{store.path.name}.") as store.folder:
        return read_long(outcomes, covariates, options, store)


class _Store:
    """Files that `read_long` writes its columns to: they order the rows, and get designs."""

    def __init__(
        self,
        path,
        *,
        outcome=None,
        columns=None,
        group=None,
        with_columns=(),
        rows=MOST_ROWS,
        overwrite=False,
        verbose=0,
    ):
        self.path, self._overwrite = check_target(path, overwrite), overwrite
        self._outcome, self._columns, self._group = outcome, columns or {}, group
        self._size, self._right, self._verbose = check_size(rows), list(with_columns), verbose
        self._table: Any = None
        self._beside: dict[Any, np.ndarray] = {}
        self.edges = np.zeros(1, np.int64)  # where partitions begin and end among the rows
        self.folder = ""  # for temporary files

    def arrange(self, table):
        """Order of the rows of the outcomes; partitions then begin and end at `edges`."""
        frame = nw.from_native(table, eager_only=True)
        require_beside(self._right, frame.columns)
        if self._right:  # else they are found out after all lines were read
            build_design(table[self._right], name="with_columns")
        arguments = split_table(frame, self._outcome, self._columns)
        del arguments["X"]
        name, is_beside = self._group, False
        if name in table.columns and name not in arguments:
            arguments[name], is_beside = table[name], True
        beside = fields_of(arguments, len(table))
        order = np.arange(len(table))
        self.edges = np.append(np.arange(0, len(table), self._size), len(table))
        if name is not None:
            key = find_field(beside, name)
            codes, _ = encode(check_labels(beside[key], name))
            order = np.argsort(codes, kind="stable")
            self.edges = _edges_of_groups(codes[order], self._size, name)
            if is_beside:
                del beside[key]
        for low, high in pairwise(self.edges):
            rows = order[low:high]
            within = order_of({key: values[rows] for key, values in beside.items()}, rows)
            order[low:high] = rows[within]
        self._beside = {key: values[order] for key, values in beside.items()}
        self._table = table[self._right].iloc[order]
        return order

    def write(self, designs) -> Rows:
        """Write the columns of one partition after the other."""
        batches = self._batches(designs)
        written = write_batches(
            self.path, batches, self._group, self._size, self._overwrite, self._verbose, is_cut=True
        )
        return written.X

    def _batches(self, designs):
        for design, (low, high) in zip(designs, pairwise(self.edges), strict=True):
            beside = {key: values[low:high] for key, values in self._beside.items()}
            if self._right:
                design = design.with_columns(self._table.iloc[low:high])
            yield RowBatch(design, beside), np.array([0, high - low])


def _edges_of_groups(codes, size, name):
    """Cut ascending codes where groups end, each piece as long as it can be."""
    ends = np.append(np.flatnonzero(np.diff(codes)) + 1, len(codes))
    longest = np.diff(ends, prepend=0).max()
    if longest > size:
        raise ValueError(
            f"a group of `{name}` has {longest:,} rows, and a partition has at most {size:,} "
            "(`rows`, which can be up to 65,536): groups of that size cannot be whole; leave out "
            "`group`."
        )
    edges = [0]
    while edges[-1] < len(codes):
        edges.append(int(ends[np.searchsorted(ends, edges[-1] + size, side="right") - 1]))
    return np.array(edges)
