"""Columns that are left out, and units of the others, learned on one table and applied to more."""

from __future__ import annotations

from itertools import groupby

import narwhals as nw
import numpy as np
from pandas import DataFrame, concat
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._docs import sharing
from .._versioned import Versioned
from . import options
from .design.columns import Design, build_design
from .design.entries import describe_entries, divided, entries_of
from .design.sums import column_names

CHOICES = {"redundant": ("keep", "drop"), "scale": (None, "max", "sd")}


documented = sharing(
    {
        "table": """
            Parameters
            ----------
            X : table of shape (n_rows, n_columns)
                Whatever the estimators of this package take, in memory.
            """,
        "like_fitted": """
            Parameters
            ----------
            X : table of shape (n_rows, n_columns)
                With the columns of the table that was fitted.

            Returns
            -------
            """,
        "header": """
            n_features_in_ : int
            feature_names_in_ : ndarray of shape (n_features,)
                Where all columns have names.
            """,
    }
)


@documented
class PrepareColumns(Versioned, TransformerMixin, BaseEstimator):
    """Leave out rare and redundant columns and divide the others by their scale.

    `fit` learns which columns to leave out, and the scales; other tables get the same columns in
    the same units. Nothing is centred, so that sparse columns stay sparse.

    Parameters
    ----------
    min_count : int or float, default=1
        Leave out columns that are not zero in fewer rows; below 1, in a smaller share of the rows.
        0 keeps even empty columns.
    redundant : {"keep", "drop"}, default="keep"
        "drop" leaves out columns that say nothing beside those that stay (and an intercept or
        baseline): columns with one value in all rows, of identical columns all but the first, of
        two indicators of which each row has exactly one the more frequent, and so in each of
        `groups`.
    groups : array-like of shape (n_columns,) or dict, optional
        Labels of columns; a dictionary has them by name, of some. Of the indicators of a group,
        of which each row has exactly one, the most frequent is left out: the levels of a
        category, say, and those of FeatureExtraction's analyses.
    scale : {"max", "sd"}, optional
        Divide columns by their largest absolute value or their standard deviation (with n as the
        divisor, over all rows). Values that a new table has may be larger. ``standardize=True`` of
        a model divides none, and its penalty is the same.

    Attributes
    ----------
    columns_ : ndarray of shape (n_kept,)
        Positions of the columns that are kept.
    scale_ : ndarray of shape (n_kept,)
        What they are divided by.
    report_ : pandas.DataFrame
        A line for each column of the table that was fitted: ``rows`` in which it is not zero, what
        it was ``left_out`` for ("" for those that are kept), and its ``scale``.
    <<header>>

    Notes
    -----
    `transform` returns a design for a design, a sparse matrix of the same format for a sparse
    matrix, a frame for a frame, and an array for anything else.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import PrepareColumns
    >>> X = pd.DataFrame({"dose": [2.0, 0, 4, 0], "woman": [1, 0, 1, 1], "man": [0, 1, 0, 0]})
    >>> prepare = PrepareColumns(redundant="drop", scale="max").fit(X.assign(none=0))
    >>> prepare.transform(X.assign(none=0))
       dose  man
    0   0.5    0
    1   0.0    1
    2   1.0    0
    3   0.0    0
    >>> prepare.report_["left_out"].tolist()
    ['', "with 'man', each row has exactly one", '', 'rare']
    """

    def __init__(self, *, min_count=1, redundant="keep", groups=None, scale=None):
        self.min_count = min_count
        self.redundant = redundant
        self.groups = groups
        self.scale = scale

    def fit(self, X, y=None) -> PrepareColumns:
        """Learn which columns stay, and their scales.

        <<table>>
        y : ignored
        """
        del y
        for argument, choices in CHOICES.items():
            options.choice(getattr(self, argument), argument, choices)
        design = build_design(X)
        validate_data(self, header_of(X), skip_check_array=True)
        found = describe_entries(design)
        left_out = np.full(design.n_columns, "", dtype=object)
        left_out[found.n_rows_of < fewest_rows(self.min_count, design.n_rows)] = "rare"
        if self.redundant == "drop":
            _find_redundant(design, found, labels_of(self.groups, design), left_out)
        scale = {None: np.ones(design.n_columns), "max": found.largest, "sd": found.deviation}
        self.columns_ = np.flatnonzero(left_out == "")
        scale = scale[self.scale]
        scale = np.where(scale > 0.0, scale, 1.0)  # of empty and constant columns
        self.scale_ = scale[self.columns_]
        self.report_ = _report(design, found, left_out, scale)
        if not self.columns_.size:
            raise ValueError(
                f"`X` has no column left of {design.n_columns:,}, "
                f"{np.count_nonzero(left_out == 'rare'):,} of them in fewer rows than `min_count` "
                f"({self.min_count!r}) asks for; lower it."
            )
        return self

    def transform(self, X):
        """Take the columns that are kept, in their scales.

        <<like_fitted>>
        X : table of shape (n_rows, n_kept)
            Of the kind of `X`.
        """
        check_is_fitted(self)
        if not isinstance(X, Design):
            build_design(X)
        validate_data(self, header_of(X), reset=False, skip_check_array=True)
        return _apply(X, self.columns_, self.scale_)

    def get_feature_names_out(self, input_features=None):
        """Names of the columns that are kept.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of all columns, where the table that was fitted has none.
        """
        check_is_fitted(self)
        return input_names(self, input_features)[self.columns_]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def header_of(X):
    """Table whose names and number of columns scikit-learn can read."""
    return X.header() if isinstance(X, Design) else X


def labels_of(groups, design):
    """Label of every column, None for those in no group."""
    if groups is None:
        return [None] * design.n_columns
    if hasattr(groups, "get"):
        names = [] if design.names is None else design.names.tolist()
        absent = [name for name in groups if name not in set(names)]
        if absent:
            raise ValueError(f"`groups` names column {absent[0]!r}, which `X` does not have.")
        return [groups.get(name) for name in names]
    labels = np.asarray(groups, dtype=object)
    if labels.shape != (design.n_columns,):
        raise ValueError(
            f"`groups` has shape {labels.shape}, `X` has {design.n_columns:,} columns; pass a "
            "label for each, None for those in no group."
        )
    return labels.tolist()


def fewest_rows(min_count, n_rows):
    """Fewest rows of a column that stays."""
    rule = "must be a number of rows, or a share below 1"
    if options.number(min_count, "min_count", rule, least=0) < 1:
        return min_count * n_rows
    return options.whole(min_count, "min_count", 1, rule.replace("a number", "a whole number"))


def input_names(fitted, given=None):
    """Names of the columns that a transformer was fitted to, of which `given` may not differ."""
    names = getattr(fitted, "feature_names_in_", None)
    if given is None:
        given = [f"x{j}" for j in range(fitted.n_features_in_)] if names is None else names
    given = np.asarray(given, dtype=object)
    if names is not None and not np.array_equal(given, names):
        raise ValueError("`input_features` is not equal to the `feature_names_in_` of the fit.")
    if given.size != fitted.n_features_in_:
        raise ValueError(
            f"`input_features` should have length equal to number of features "
            f"({fitted.n_features_in_}), got {given.size}."
        )
    return given


def _report(design, found, left_out, scale):
    lines = {"rows": found.n_rows_of, "left_out": left_out, "scale": scale}
    return DataFrame(lines, index=column_names(design))


def _find_redundant(design, found, labels, left_out):
    """Write to `left_out` why columns are redundant."""
    names = column_names(design)
    for j in np.flatnonzero((found.n_rows_of == design.n_rows) & (left_out == "")):
        if np.ptp(entries_of(design, j)[1]) == 0.0:
            left_out[j] = "the same in all rows"
    firsts: dict[int, int] = {}
    for j in np.flatnonzero(left_out == ""):
        first = firsts.setdefault(int(found.fingerprint[j]), j)
        if first != j and _is_identical(design, first, j):
            left_out[j] = f"identical to {names[first]!r}"
    for members in [*_groups(labels, left_out), *_pairs(design, found, left_out)]:
        members = [j for j in members if not (left_out[j] or found.is_valued[j])]
        if len(members) > 1 and _share_out_rows(design, members):
            most = max(members, key=lambda j: found.n_rows_of[j])
            others = [repr(str(names[j])) for j in members if j != most]
            left_out[most] = f"with {options.first_of(others, 3)}, each row has exactly one"


def _groups(labels, left_out):
    members: dict = {}
    for j in np.flatnonzero(left_out == ""):
        if labels[j] is not None:
            members.setdefault(labels[j], []).append(j)
    return members.values()


def _pairs(design, found, left_out):
    """Pairs of indicators whose sums add up to that of a column of ones."""
    ones = build_design(np.ones((design.n_rows, 1)))
    whole = describe_entries(ones).fingerprint[0]
    chosen = np.flatnonzero((left_out == "") & ~found.is_valued)
    column_of = {int(found.fingerprint[j]): int(j) for j in chosen}
    for j, rest in zip(chosen, whole - found.fingerprint[chosen], strict=True):
        other = column_of.get(int(rest), -1)
        if other > j:
            yield j, other


def _is_identical(design, first, second):
    one, other = entries_of(design, first), entries_of(design, second)
    return all(np.array_equal(*both) for both in zip(one, other, strict=True))


def _share_out_rows(design, members):
    """Whether each row is in exactly one of the columns."""
    rows = [entries_of(design, j)[0] for j in members]
    if sum(map(len, rows)) != design.n_rows:
        return False
    return bool((np.bincount(np.concatenate(rows), minlength=design.n_rows) == 1).all())


def _apply(X, columns, scale):
    """Some columns of a table, divided by their scales, as a table of the same kind."""
    if isinstance(X, Design):
        return divided(X.select(columns), scale)
    if issparse(X):
        taken = X.tocsc()[:, columns]
        if (scale != 1.0).any():
            taken.data = taken.data / np.repeat(scale, np.diff(taken.indptr))
        return taken.asformat(X.format)
    if hasattr(X, "iloc"):
        return _apply_to_pandas(X.iloc[:, columns], scale)
    if hasattr(X, "__dataframe__") or hasattr(X, "__arrow_c_stream__"):
        return _apply_to_frame(X, columns, scale)
    taken = np.asarray(X)[:, columns]
    return taken if (scale == 1.0).all() else taken / scale


def _apply_to_pandas(taken, scale):
    # Columns of float64 are divided together: one after the other, thousands take half a minute.
    kind = np.where(taken.dtypes == np.float64, -1, np.arange(scale.size))
    kind[scale == 1.0], parts = -2, []
    for run, members in groupby(range(scale.size), kind.__getitem__):
        own = [*members]
        part = taken.iloc[:, own]
        if run >= 0 and part.dtypes.iloc[0].kind == "b":  # flags of Arrow cannot be divided
            part = part.astype(np.float64)
        parts.append(part if run == -2 else part / scale[own if run == -1 else run])
    return concat(parts, axis=1)


def _apply_to_frame(X, columns, scale):
    frame = nw.from_native(X, eager_only=True)
    chosen = [frame.columns[j] for j in columns]
    scaled = np.flatnonzero(scale != 1.0)
    divided_by = [nw.col(chosen[k]).cast(nw.Float64) / scale[k] for k in scaled]
    return frame.select(chosen).with_columns(*divided_by).to_native()
