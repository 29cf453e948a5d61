"""Transformers of numeric columns, for models that are sums of functions of one column each."""

from abc import abstractmethod

import numpy as np
from pandas import DataFrame, concat
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted, validate_data

from .._versioned import Versioned
from .by_column import check_by_column, check_column_names, find_columns
from .design.beside import side_by_side
from .design.columns import build_design
from .design.kernels import INDICATOR
from .design.of_blocks import design_of
from .effects import read_estimates
from .prepare import documented, header_of, input_names


def router_of(owner, **inner):
    """Router of a transformer that hands metadata of its fit to an estimator within, or None."""
    if None in inner.values():
        return MetadataRouter(owner=owner)
    calls = MethodMapping().add(caller="fit", callee="fit")
    calls.add(caller="fit_transform", callee="fit")
    return MetadataRouter(owner=owner).add(**inner, method_mapping=calls)


@documented
class MadeColumns(Versioned, TransformerMixin, BaseEstimator):
    """Transformers whose fit writes the names of their columns, those of a `Design`."""

    def transform(self, X):
        """Make the columns of rows.

        <<like_fitted>>
        X : Design of shape (n_rows, n_made)
            With names. After ``set_output(transform="pandas")`` a frame, in which columns that were
            computed from others are stored.
        """
        check_is_fitted(self)
        made, asked = self._make(X), _get_output_config("transform", self)["dense"]
        if asked == "default":
            return made
        if asked == "polars":
            raise ValueError(
                "frames of polars have no sparse columns; take set_output(transform='pandas') of "
                f"{type(self).__name__}, or 'default' for a Design, which has names, too."
            )
        frame = build_design(made, may_be_computed=True).to_frame()
        return frame.set_axis(X.index) if isinstance(X, DataFrame) else frame

    @abstractmethod
    def _make(self, X):
        """Columns of rows as a design, or `X` where there is nothing to make."""

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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _read(self, X, reset=False):
        """Table as a design, whose columns are those of the fit, or (`reset`) become these."""
        design = build_design(X, may_be_computed=True)
        validate_data(self, header_of(X), reset=reset, skip_check_array=True)
        return design

    def _find(self, columns, argument="columns"):
        """Numbers of columns that a list names."""
        if isinstance(columns, str):
            raise TypeError(f"`{argument}` is {columns!r}, must be a list: [{columns!r}].")
        names, n_columns = getattr(self, "feature_names_in_", None), self.n_features_in_
        return np.unique([*find_columns(columns, argument, n_columns, names)])


@documented
class AdditiveColumns(MadeColumns):
    """Columns of some variables, in place of these; others stay, and come first."""

    def fit(self, X, y=None):
        """Learn the columns.

        <<table>>
        y : ignored

        Returns
        -------
        self : object
            The fitted transformer.
        """
        del y
        self._check()
        design, names = self._read(X, reset=True), input_names(self)
        self.variables_ = self._choose(design)
        self._learned, self._spans = [], []
        for j in self.variables_:
            values = values_of(design, j)
            self._learned.append(self._learn(values, names[j]))
            self._spans.append(np.quantile(values, [0.0, 0.5, 1.0], method="inverted_cdf"))
        others = np.setdiff1d(np.arange(design.n_columns), self.variables_)
        labels = [names[j] for j in self.variables_]
        self._names_out, self.groups_ = (
            np.concatenate([names[others], *map(of_variable, labels, self._learned)]).astype(object)
            for of_variable in (self._labels, self._groups)
        )
        check_column_names(self._names_out, "X")
        return self

    def _make(self, X):
        design = self._read(X)
        others = np.setdiff1d(np.arange(design.n_columns), self.variables_)
        values = [values_of(design, j) for j in self.variables_]
        made = design_of(*self._blocks(values))
        parts = [design.select(others).with_names(None), made]
        return side_by_side(parts).with_names(self._names_out)

    def effects(self, coef, *, reference=None):
        """The function of each variable that coefficients of the columns make.

        Parameters
        ----------
        coef : array-like of shape (n_columns,), or result
            Such as ``coef_`` of a model of the columns; or, for intervals, what `bootstrap` of the
            model, `wald` or `posterior` returns.
        reference : dict of {str or int: float}, optional
            Value of variables, by name or position, at which their effect is 0, within those of
            the rows that were fitted; by default, and of others, the median of these. Beyond the
            data the function stays what it is at the nearest value.

        Returns
        -------
        table : pandas.DataFrame
            Lines of ``variable``, ``value`` and ``effect``, what the predictor is there less what
            it is at the reference: of steps at -inf and at each value above which it is another
            (up to the next one, included), of splines at 101 values and at the reference. Of a
            result ``lower`` and ``upper``, too, pointwise bounds at its level: percentiles of the
            effects of replicates or draws, or those of a normal or t distribution.
        """
        check_is_fitted(self)
        estimates = read_estimates(coef, self._names_out)
        names, known, tables = input_names(self), getattr(self, "feature_names_in_", None), []
        given = {} if reference is None else reference
        given = check_by_column(given, "reference", len(names), known, default=np.nan)
        given, (low, median, high) = given[self.variables_], np.transpose(self._spans)
        for k in np.flatnonzero((given < low) | (given > high))[:1]:
            raise ValueError(
                f"`reference` of {names[self.variables_[k]]!r} is {given[k]:g}, and the fit had "
                f"values from {low[k]:g} to {high[k]:g}; pass one of these."
            )
        references = np.where(np.isnan(given), median, given)
        first = len(self._names_out) - sum(map(self._size, self._learned))
        for j, known, zero in zip(self.variables_, self._learned, references, strict=True):
            table = estimates.table(slice(first, first + self._size(known)))
            first += len(table)
            value, found = self._curve(known, table, zero)
            found = found - self._at(known, np.array([zero]), table)
            lines = {"variable": names[j], "value": value, "effect": found[:, 0]}
            tables.append(DataFrame(lines | estimates.bounds(found)))
        return concat(tables, ignore_index=True)

    def _choose(self, design):
        """Numbers of the columns that are taken."""
        if self.columns is None:
            numbers = np.flatnonzero(design.kind != INDICATOR)
            chosen = np.array([j for j in numbers if len(np.unique(values_of(design, j))) > 2])
        else:
            chosen = self._find(self.columns)
        if not len(chosen):
            raise ValueError(
                "`X` has no column of more than two values; name some by `columns`, or leave this "
                "step out."
            )
        return chosen

    @abstractmethod
    def _check(self):
        """Check the parameters."""

    @abstractmethod
    def _learn(self, values, name):
        """Learn about a variable from its values."""

    @abstractmethod
    def _labels(self, name, known):
        """Names of the columns of a variable."""

    def _groups(self, name, known):
        """Groups of the columns of a variable."""
        return [name] * self._size(known)

    @abstractmethod
    def _blocks(self, values):
        """Blocks of the variables' columns, from values of rows."""

    @abstractmethod
    def _curve(self, known, table, reference):
        """Values at which functions are told, by columns of coefficients, and what they are."""

    @abstractmethod
    def _at(self, known, values, table):
        """Functions at some values, (n_values, columns of the table)."""

    def _size(self, known):
        return len(self._labels("", known))


def values_of(design, j):
    """All values of a column."""
    return design.select([j]).dot([1.0])
