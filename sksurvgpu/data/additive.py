"""Transformers of numeric columns, for models that are sums of functions of one column each."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._versioned import Versioned
from .by_column import check_column_names, find_column
from .design.beside import side_by_side
from .design.columns import build_design
from .design.kernels import INDICATOR
from .design.of_blocks import design_of
from .prepare import header_of, input_names

__all__ = ["AdditiveColumns"]


class AdditiveColumns(Versioned, TransformerMixin, BaseEstimator):
    """Columns of some variables, in place of these; others stay, and come first."""

    def fit(self, X, y=None):
        """Learn the columns.

        Parameters
        ----------
        X : table of shape (n_rows, n_columns)
            Whatever the estimators of this package take, in memory.
        y : ignored

        Returns
        -------
        self : object
            The fitted transformer.
        """
        del y
        self._check()
        design = build_design(X, may_be_computed=True)
        validate_data(self, header_of(X), skip_check_array=True)
        names = input_names(self)
        self.variables_ = self._choose(design, names)
        self._learned = [self._learn(_values(design, j), names[j]) for j in self.variables_]
        others = np.setdiff1d(np.arange(design.n_columns), self.variables_)
        labels = [names[j] for j in self.variables_]
        by_variable = [
            self._labels(label, known) for label, known in zip(labels, self._learned, strict=True)
        ]
        every = [names[others], *map(np.array, by_variable)]
        self._names_out = np.concatenate(every).astype(object)
        check_column_names(self._names_out, "X")
        sizes = [len(found) for found in by_variable]
        self.groups_ = np.concatenate([names[others], np.repeat(labels, sizes)]).astype(object)
        return self

    def transform(self, X):
        """Columns of rows.

        Parameters
        ----------
        X : table of shape (n_rows, n_columns)
            With the columns of the table that was fitted.

        Returns
        -------
        X : Design
            Other columns as they are, then those of each variable.
        """
        check_is_fitted(self)
        design = build_design(X, may_be_computed=True)
        validate_data(self, header_of(X), reset=False, skip_check_array=True)
        others = np.setdiff1d(np.arange(design.n_columns), self.variables_)
        values = [_values(design, j) for j in self.variables_]
        made = design_of(*self._blocks(values))
        parts = [design.select(others).with_names(None), made]
        return side_by_side(parts).with_names(self._names_out)

    def set_output(self, *, transform=None):
        """Leave the output as it is, whatever a pipeline asks of its steps: a `Design` has names.

        Parameters
        ----------
        transform : ignored
        """
        del transform
        return self

    def get_feature_names_out(self, input_features=None):
        """Names of the columns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns that were fitted, which may not be others.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self)
        input_names(self, input_features)
        return self._names_out

    def effects(self, coef):
        """The function of each variable that coefficients of the columns make.

        Parameters
        ----------
        coef : array-like of shape (n_columns,)
            Such as ``coef_`` of a model of the columns.

        Returns
        -------
        table : pandas.DataFrame
            Lines of ``variable``, ``value`` and ``effect``, what is added to the predictor at that
            value: of steps at each value where it changes, and of the least one, where it is 0; of
            splines at 101 values.
        """
        from pandas import DataFrame, concat

        check_is_fitted(self)
        coef = np.asarray(coef, dtype=np.float64)
        if coef.shape != self._names_out.shape:
            raise ValueError(
                f"`coef` has shape {coef.shape}, the transformer makes {len(self._names_out):,} "
                "columns; pass a coefficient for each."
            )
        first, tables = len(coef) - sum(map(self._size, self._learned)), []
        for j, known in zip(self.variables_, self._learned, strict=True):
            own = coef[first : first + self._size(known)]
            first += len(own)
            value, effect = self._effect(known, own)
            name = input_names(self)[j]
            tables.append(DataFrame({"variable": name, "value": value, "effect": effect}))
        return concat(tables, ignore_index=True)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _choose(self, design, names):
        """Numbers of the columns that are taken."""
        if self.columns is None:
            numbers = np.flatnonzero(design.kind != INDICATOR)
            chosen = [j for j in numbers if len(np.unique(_values(design, j))) > 2]
        else:
            if isinstance(self.columns, str):
                raise TypeError(
                    f"`columns` is {self.columns!r}, must be a list: [{self.columns!r}]."
                )
            known = getattr(self, "feature_names_in_", None)
            chosen = [find_column(c, "columns", len(names), known) for c in self.columns]
        if not len(chosen):
            raise ValueError(
                "`X` has no column of more than two values; name some by `columns`, or leave this "
                "step out."
            )
        return np.unique(chosen)

    @abstractmethod
    def _check(self):
        """Check the parameters."""

    @abstractmethod
    def _learn(self, values, name):
        """Learn about a variable from its values."""

    @abstractmethod
    def _labels(self, name, known):
        """Names of the columns of a variable."""

    @abstractmethod
    def _blocks(self, values):
        """Blocks of the variables' columns, from values of rows."""

    @abstractmethod
    def _effect(self, known, coef):
        """Values of a variable, and what coefficients make of them."""

    def _size(self, known):
        return len(self._labels("", known))


def _values(design, j):
    """All values of a column."""
    return design.select([j]).dot([1.0])
