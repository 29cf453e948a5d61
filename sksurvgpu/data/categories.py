"""Categorical columns as indicators of their levels, learned on one table and applied to more."""

from __future__ import annotations

from collections.abc import Mapping

import narwhals as nw
import numpy as np
from pandas import DataFrame
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, validate_data

from .._warnings import warn
from . import options
from .additive import MadeColumns
from .by_column import by_column, check_column_names, find_columns, similar
from .design.columns import INDICATOR, Design, build_design
from .design.tables import check_arrow, check_shape
from .levels import level_text, read_levels
from .prepare import documented, fewest_rows, header_of, input_names

CHOICES = {"missing": ("level", "mode", "error"), "unknown": ("zeros", "other", "missing", "error")}
REFERENCES = None, "first", "most_frequent"
OTHER, MISSING = "other", "missing"  # levels that are made
FLAGS = {"False": "0", "True": "1", "0": "False", "1": "True"}  # by the text of equal numbers
CATEGORICAL = nw.Categorical, nw.Enum, nw.String, nw.Object
MOST_LEVELS = 10_000
# Columns of more levels, each of them in one row, are identifiers, which small tables need not be.
IDENTIFIER = 100


@documented
class CategoryColumns(MadeColumns):
    """Turn categorical columns of a table into an indicator for each level.

    Other columns stay as they are, in their place. `fit` learns the levels; other tables get the
    same columns. Names of columns are like ``site=b``, with levels as texts, also of integers and
    flags.

    Parameters
    ----------
    columns : list of str or int, optional
        The categorical columns, by name or position. Left out, those of text, categories
        (``Categorical``, ``Enum``) and objects; columns of integers and flags are numbers unless
        they are named.
    reference : "first", "most_frequent" or dict, optional
        The level of each column that the others are compared with, and that has no column: the
        first of `levels_`, the one in most rows, or those in a dictionary ``{column: level}``,
        which may leave columns out. Without one all levels have a column, which a penalty copes
        with and treats alike.
    missing : {"level", "mode", "error"}, default="level"
        What missing entries are: a level called "missing", the most frequent level of the fit, or
        an error. Where the fit had none they are an unknown level.
    unknown : {"zeros", "other", "missing", "error"}, default="zeros"
        What becomes of levels that the fit did not have: 0 in all columns, as the reference has;
        what becomes of rare or of missing ones, and zeros where the fit had none of these; or an
        error. 0 and 1 are known as False and True, and these as 0 and 1.
    min_count : int or float, default=1
        Levels in fewer rows, or for a number below 1 in a smaller share of the rows, are joined to
        a level "other", but for a `reference` that is named. A category in no row has no column,
        except with 0.

    Attributes
    ----------
    levels_ : dict of {str: list of str}
        The levels of every categorical column: in the order of its categories, or else sorted, then
        "other" and "missing"; with the reference.
    groups_ : ndarray of shape (n_columns,)
        For every column of the result the name of the column that it was made from, and None where
        no other column was made from that: `GroupLasso`'s and `PrepareColumns`' ``groups``.
    report_ : pandas.DataFrame
        A line for each level of the table that was fitted: its ``column``, the ``level``, the
        ``rows`` that it is in, and the column that it ``becomes``, "" for a reference.
    <<header>>

    See Also
    --------
    PrepareColumns : Scales columns, and leaves out those that say nothing.
    GroupLasso : Levels of a column in or out of the model together.

    Notes
    -----
    `transform` returns a `Design`, in which an indicator is the numbers of its rows; arrays and
    sparse matrices, which have no categories, and designs are returned as they are. Within a
    ``ColumnTransformer`` it makes frames with sparse columns, which that has to ask for, by
    ``set_output(transform="pandas")``. Missing numbers are refused: fill them before, by
    scikit-learn's ``SimpleImputer`` in a ``ColumnTransformer`` whose other columns pass.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import CategoryColumns, CoxLassoCCD, make_pipeline, surv
    >>> table = pd.DataFrame(
    ...     {"age": [50.0, 61, 72, 47], "sex": ["f", "m", "f", "m"], "site": ["b", None, "a", "a"]}
    ... )
    >>> model = make_pipeline(CategoryColumns(reference={"sex": "f"}), CoxLassoCCD(alpha=0.1))
    >>> model = model.fit(table, surv([True, True, True, False], [3.0, 2.0, 1.0, 4.0]))
    >>> model.summary().index.tolist()
    ['age', 'sex=m', 'site=a', 'site=b', 'site=missing']
    >>> columns = model[0]
    >>> columns.transform(table.assign(site="new")).to_scipy().toarray()[:2]
    array([[50.,  0.,  0.,  0.,  0.],
           [61.,  1.,  0.,  0.,  0.]])
    >>> columns.groups_.tolist()
    [None, None, 'site', 'site', 'site']
    """

    def __init__(
        self, *, columns=None, reference=None, missing="level", unknown="zeros", min_count=1
    ):
        self.columns = columns
        self.reference = reference
        self.missing = missing
        self.unknown = unknown
        self.min_count = min_count

    def fit(self, X, y=None) -> CategoryColumns:
        """Learn the levels of categorical columns.

        Parameters
        ----------
        X : table of shape (n_rows, n_columns)
            A frame of pandas, polars or another library that narwhals knows, or what else the
            estimators of this package take, in memory.
        y : ignored
        """
        del y
        for argument, choices in CHOICES.items():
            options.choice(getattr(self, argument), argument, choices)
        before = vars(self).copy()
        try:
            self._learn(X)
        except Exception:
            vars(self).clear()
            vars(self).update(before)
            raise
        return self

    def _learn(self, X):
        frame = _open(X)
        validate_data(self, header_of(X), skip_check_array=True)
        columns = self._choose(X, frame)
        references = self._read_references(columns)
        self.levels_, self._name_of, lines, names, groups, is_made = {}, {}, [], [], [], []
        for j, label in enumerate(input_names(self) if frame is None else frame.columns):
            made = [str(label)]
            if j in columns:
                becomes, rows = self._join(columns[j], label, references.get(j))
                levels, reference = self._order(becomes, rows, label, references.get(j))
                called = {x: "" if x == reference else f"{label}={x}" for x in levels}
                made = [called[level] for level in levels if called[level]]
                self.levels_[str(label)] = levels
                known = called | {key: called[level] for key, level in becomes.items()}
                if becomes.keys() - {None} <= FLAGS.keys():
                    known = {FLAGS[key]: known[key] for key in FLAGS if key in known} | known
                self._name_of[j] = known
                for key, level in becomes.items():
                    shown = MISSING if key is None else key
                    lines.append((str(label), shown, rows[key], called[level]))
            names += made
            groups += [str(label) if len(made) > 1 else None] * len(made)
            is_made += [j in columns] * len(made)
        check_column_names(names, "X")
        self._names, self._is_made = np.array(names, dtype=object), np.array(is_made, dtype=bool)
        self.groups_ = np.array(groups, dtype=object)
        self.report_ = DataFrame(lines, columns=["column", "level", "rows", "becomes"])
        self._read_numbers(frame)

    def _make(self, X):
        frame = _open(X)
        validate_data(self, header_of(X), reset=False, skip_check_array=True)
        if not self._name_of and frame is None:
            return X if isinstance(X, Design) or issparse(X) else np.asarray(X)
        if not self._name_of:
            return build_design(X)
        if frame is None:
            raise TypeError(
                f"`X` is of type {type(X).__name__}, and the fit was to a frame with columns of "
                "categories; pass a frame."
            )
        names = self._names[self._is_made]
        number = {name: k for k, name in enumerate(names, 1)} | {"": 0}
        found, counts = [np.empty(0, dtype=np.int32)], np.zeros(len(number), dtype=np.int64)
        for j in self._name_of:
            of_row = self._number_rows(frame.get_column(frame.columns[j]), j, number)
            count = np.bincount(of_row, minlength=len(number))
            # A stable sort of few bits is one by radix.
            rows = np.argsort(of_row.astype(np.min_scalar_type(len(names))), kind="stable")
            found.append(rows[count[0] :].astype(np.int32))
            counts += count
        counts[0] = 0
        kind, zeros = np.full(len(names), INDICATOR, np.uint8), np.zeros(len(names), np.int64)
        indices, indptr = np.concatenate(found), np.cumsum(counts)
        made = Design(len(frame), kind, indptr, indices, np.empty(0), zeros, names)
        numbers = self._read_numbers(frame)
        if numbers is None or not len(names):
            return made if numbers is None else numbers
        place = np.argsort(np.argsort(self._is_made, kind="stable"))
        return numbers.with_columns(made).select(place)

    def get_feature_names_out(self, input_features=None):
        """Names of the columns of the result.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of all columns, where the table that was fitted has none.
        """
        check_is_fitted(self)
        given = input_names(self, input_features)
        return self._names.copy() if self._name_of else given

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags

    def _choose(self, X, frame):
        """Categorical columns by position."""
        if frame is None:
            if self.columns is not None:
                raise TypeError(
                    f"`columns` names columns of categories, and `X` is of type "
                    f"{type(X).__name__}, which has none; pass a frame, as pandas.DataFrame(X)."
                )
            return {}
        found = {j for j, x in enumerate(frame.schema.values()) if isinstance(x, CATEGORICAL)}
        if self.columns is not None:
            given = [self.columns] if np.ndim(self.columns) == 0 else self.columns
            names = getattr(self, "feature_names_in_", None)
            given = set(find_columns(given, "columns", len(frame.columns), names))
            if found - given:
                raise ValueError(
                    f"`columns` leaves out column {frame.columns[min(found - given)]!r}, which has "
                    "no numbers; name it, too, or drop it from `X`."
                )
            found = given
        return {j: frame.get_column(frame.columns[j]) for j in found}

    def _read_references(self, columns):
        """Levels that a dictionary has for references, by position of the column."""
        if not isinstance(self.reference, Mapping):
            remark = " or a dictionary {column: level}"
            options.choice(self.reference, "reference", REFERENCES, remark)
            return {}
        names = getattr(self, "feature_names_in_", None)
        given = by_column(self.reference, "reference", self.n_features_in_, names)
        for j, (column, _) in given.items():
            if j not in columns:
                raise ValueError(
                    f"`reference` names column {column!r}, which is one of numbers; give it to "
                    "`columns` if they are levels."
                )
        return {j: level_text(level) for j, (_, level) in given.items()}

    def _join(self, column, label, named):
        """Level that each text of a column becomes, None for missing entries; rows of each."""
        codes, texts = read_levels(column, label, self.missing == "error")
        n_missing, *n_rows = np.bincount(codes + 1, minlength=len(texts) + 1).tolist()
        if len(texts) > IDENTIFIER and max(n_rows) == 1:
            raise ValueError(
                f"`X` column {label!r} has {sum(n_rows):,} levels, each of them in one row, as "
                "identifiers have; drop it from `X`."
            )
        rows = dict(zip([*texts, None], [*n_rows, n_missing], strict=True))
        fewest = fewest_rows(self.min_count, len(codes))
        becomes = {
            key: key if rows[key] >= fewest or key == named else OTHER
            for key in texts
            if rows[key] or fewest == 0 or key == named
        }
        if self.missing == "mode" and becomes:
            becomes[None] = becomes[max(becomes, key=rows.get)]
        elif self.missing == "level" and n_missing:
            becomes[None] = MISSING if n_missing >= fewest else OTHER
            if becomes.get(MISSING) == becomes[None]:
                raise ValueError(
                    f"`X` column {label!r} has a level {MISSING!r} and {n_missing:,} entries that "
                    "are missing; fill these, or rename the level."
                )
        if not becomes:
            raise ValueError(f"`X` column {label!r} has no level, only missing entries; drop it.")
        return becomes, rows

    def _order(self, becomes, rows, label, named):
        """Levels of a column, those that were made last, and which of them is the reference."""
        total = {key: 0 for key, level in becomes.items() if key == level}
        total |= {level: 0 for level in (OTHER, MISSING) if level in becomes.values()}
        for key, level in becomes.items():
            total[level] += rows[key]
        levels = list(total)
        if len(levels) > MOST_LEVELS:
            raise ValueError(
                f"`X` column {label!r} has {len(levels):,} levels, at most {MOST_LEVELS:,} get "
                "columns; join rare ones by a larger `min_count`, or drop it from `X`."
            )
        if self.reference == "first":
            return levels, levels[0]
        if self.reference == "most_frequent":
            return levels, max(levels, key=total.get)
        if named is not None and named not in total:
            raise ValueError(
                f"`reference` of column {label!r} is {named!r}, which is none of its "
                f"{len(levels):,} levels{similar(named, levels)}"
            )
        return levels, named

    def _number_rows(self, column, j, number):
        """Number of the column of each row's level, 0 for none."""
        name_of, label = self._name_of[j], column.name
        codes, texts = read_levels(column, label, self.missing == "error")
        keys = [*texts, None]  # the last is that of code -1
        is_new = np.array([key not in name_of for key in keys])[codes]
        is_refused = self.unknown == "error" or (self.unknown, self.missing) == ("missing", "error")
        if is_new.any() and is_refused:
            row = int(np.argmax(is_new))
            what = "a missing entry" if codes[row] < 0 else f"level {texts[codes[row]]!r}"
            raise ValueError(
                f"`X` column {label!r} has {what} in row {row:,}, which the fit has not seen; set "
                "`unknown`, or leave out such rows."
            )
        if self.unknown == "zeros" and is_new.all() and np.ptp(codes) > 0:
            seen = ", ".join(map(repr, self.levels_[str(label)][:3]))
            warn(
                f"`X` column {label!r} has none of the levels of the fit ({seen}), and is 0 in all "
                "of its columns; write levels as there, or set `unknown`."
            )
        instead = {"other": OTHER, "missing": None}.get(self.unknown)
        instead = "" if self.unknown == "zeros" else name_of.get(instead, "")
        return np.array([number[name_of.get(key, instead)] for key in keys])[codes]

    def _read_numbers(self, frame):
        """The columns that stay as they are, under names."""
        if frame is None or (self._name_of and self._is_made.all()):
            return None
        numbers = frame[:, [j for j in range(len(frame.columns)) if j not in self._name_of]]
        return build_design(numbers.to_native()).with_names(self._names[~self._is_made])


def _open(X):
    """Table as a frame; None for designs and arrays, which have no categories."""
    if nw.dependencies.is_pandas_dataframe(X):
        check_column_names(X.columns, "X")
    if nw.dependencies.is_pyarrow_table(X):
        check_arrow(X, "X")
    frame = X if isinstance(X, Design) else nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        check_shape(frame.shape, "X")
        return frame
    build_design(X)
    return None
