"""Steps and splines of numeric columns, for models that are sums of functions of one column each.

Of either nothing is stored but a code or a few weights a row, whatever the number of columns.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .._versioned import Versioned
from . import options
from .by_column import find_column
from .design.bands import BandColumns
from .design.beside import side_by_side
from .design.codes import CodedColumns, StepBasis
from .design.columns import build_design
from .design.kernels import INDICATOR
from .design.of_blocks import design_of
from .prepare import header_of, input_names

__all__ = ["SplineColumns", "StepColumns"]


class _AdditiveColumns(Versioned, TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):
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
            chosen = [
                j
                for j in np.flatnonzero(design.kind != INDICATOR)
                if len(np.unique(_values(design, j)[:1000])) > 2
            ]
        else:
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


class StepColumns(_AdditiveColumns):
    """Columns of ones where a numeric column is above a threshold, for all thresholds.

    With them a model is a sum of step functions, and the lasso chooses where they step: its penalty
    is on their total variation, so that few steps are left, and columns without one are left out.
    They are not stored: a column of numbers costs a byte or two a row, for any number of steps.

    Parameters
    ----------
    columns : sequence of str or int, optional
        Columns that become steps, by name or position; by default those of more than two values.
        Others stay as they are.
    n_steps : int or None, default=100
        Thresholds of a column at most, at quantiles of its values. With None there is one at each
        of its values but the largest.

    Attributes
    ----------
    thresholds_ : dict of ndarray
        Of every column that became steps, by its name: a step is where the value is above.
    variables_ : ndarray
        Positions of these.
    groups_ : ndarray
        Of every column that is made, the name of the one it comes from.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where all columns have names.

    See Also
    --------
    SplineColumns : Smooth functions in place of steps.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD, StepColumns, make_pipeline, surv
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 90, 2000).round()
    >>> time = rng.exponential(np.where(age > 65, 0.25, 1.0))
    >>> model = make_pipeline(StepColumns(n_steps=None), CoxLassoCCD(alpha=0.05))
    >>> model = model.fit(age[:, None], surv(np.full(2000, True), time))
    >>> model[0].transform(age[:, None])
    <Design of 2,000 rows and 70 columns (70 computed) with 0 sparse entries>
    >>> effects = model[0].effects(model[1].coef_)
    >>> float(effects["value"][effects["effect"].diff().idxmax()])
    65.0
    """

    def __init__(self, *, columns=None, n_steps=100):
        self.columns = columns
        self.n_steps = n_steps

    @property
    def thresholds_(self):
        """Thresholds by name."""
        check_is_fitted(self)
        names = input_names(self)
        return {names[j]: t for j, t in zip(self.variables_, self._learned, strict=True)}

    def _check(self):
        if self.n_steps is not None:
            options.whole(self.n_steps, "n_steps", 1, "must be an integer from 1 on, or None")

    def _learn(self, values, name):
        values = np.sort(values)
        below = values[:-1][np.diff(values) > 0.0]
        if not len(below):
            raise ValueError(f"`X` column {name!r} has one value, and no step; leave it out.")
        if self.n_steps is None or len(below) <= self.n_steps:
            return below
        places = np.arange(1, self.n_steps + 1) * len(values) // (self.n_steps + 1)
        found = np.unique(values[places])
        return found[found < values[-1]]

    def _labels(self, name, known):
        for digits in (6, 17):
            labels = [f"{name}>{threshold:.{digits}g}" for threshold in known]
            if len(set(labels)) == len(labels):
                break
        return labels

    def _blocks(self, values):
        most = max(map(len, self._learned))
        dtype = np.min_scalar_type(most)
        codes = np.empty((len(values), len(values[0])), dtype)
        for v, (own, thresholds) in enumerate(zip(values, self._learned, strict=True)):
            codes[v] = np.searchsorted(thresholds, own)
        return [CodedColumns(codes, tuple(StepBasis(len(known) + 1) for known in self._learned))]

    def _effect(self, known, coef):
        stays = np.flatnonzero(coef)
        return np.append(-np.inf, known[stays]), np.append(0.0, np.cumsum(coef[stays]))


class SplineColumns(_AdditiveColumns):
    """B-splines of numeric columns, of which a row has four that are not zero.

    With them a model is a sum of smooth functions. The first spline of each column is left out, as
    all of them add up to one. Beyond the outermost knots the function stays what it is there.

    Parameters
    ----------
    columns : sequence of str or int, optional
        Columns that become splines, by name or position; by default those of more than two values.
        Others stay as they are.
    n_knots : int, default=8
        Knots of a column, at quantiles of its values from the least to the largest; fewer where
        these are the same. There are as many columns, and ``degree`` - 2 more.
    degree : int, default=3
        Of the polynomials between knots, from 1 to 5.

    Attributes
    ----------
    knots_ : dict of ndarray
        Of every column that became splines, by its name.
    variables_ : ndarray
        Positions of these.
    groups_ : ndarray
        Of every column that is made, the name of the one it comes from, such as `GroupLasso` takes.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where all columns have names.

    See Also
    --------
    StepColumns : Steps in place of smooth functions.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD, SplineColumns, make_pipeline, surv
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (2000, 2))
    >>> time = rng.exponential(np.exp(-(X[:, 0] ** 2)))
    >>> model = make_pipeline(SplineColumns(n_knots=5), CoxLassoCCD(alpha=0.001, l1_ratio=0.0))
    >>> model = model.fit(X, surv(np.full(2000, True), time))
    >>> effects = model[0].effects(model[1].coef_).set_index("variable").loc["x0"]
    >>> (effects["effect"] - effects["effect"].min()).iloc[[0, 50, 100]].round(1).tolist()
    [3.4, 0.0, 3.8]
    """

    def __init__(self, *, columns=None, n_knots=8, degree=3):
        self.columns = columns
        self.n_knots = n_knots
        self.degree = degree

    @property
    def knots_(self):
        """Knots by name."""
        check_is_fitted(self)
        names = input_names(self)
        return {names[j]: knots for j, knots in zip(self.variables_, self._learned, strict=True)}

    def _check(self):
        options.whole(self.n_knots, "n_knots", 2, "must be an integer from 2 on")
        options.whole(self.degree, "degree", 1, "must be an integer from 1 to 5")
        if self.degree > 5:
            raise ValueError(f"`degree` is {self.degree}, must be an integer from 1 to 5.")

    def _learn(self, values, name):
        knots = np.unique(np.quantile(values, np.linspace(0.0, 1.0, self.n_knots)))
        if len(knots) < 2:
            raise ValueError(f"`X` column {name!r} has one value, and no spline; leave it out.")
        return knots

    def _labels(self, name, known):
        return [f"{name}:{k}" for k in range(1, len(known) + self.degree - 1)]

    def _blocks(self, values):
        return [
            BandColumns(*self._bands(known, own), self._size(known))
            for known, own in zip(self._learned, values, strict=True)
        ]

    def _bands(self, knots, values):
        """First spline, and weights, of every value; splines are counted without the first."""
        padded = np.concatenate([[knots[0]] * self.degree, knots, [knots[-1]] * self.degree])
        inside = np.clip(values, knots[0], knots[-1])
        found = BSpline.design_matrix(inside, padded, self.degree)
        width = self.degree + 1
        weights, first = found.data.reshape(-1, width).copy(), found.indices[::width] - 1
        is_first = first < 0  # the spline that is left out
        weights[is_first] = np.roll(weights[is_first], -1, axis=1)
        weights[is_first, -1] = 0.0
        return np.where(is_first, 0, first).astype(np.uint16), weights

    def _effect(self, known, coef):
        value = np.linspace(known[0], known[-1], 101)
        first, weights = self._bands(known, value)
        effect = np.zeros(len(value))
        every = np.arange(len(coef))
        BandColumns(first, weights, len(coef)).add(every, coef, 0, effect)
        return value, effect


def _values(design, j):
    """All values of a column."""
    stored = design.stored_values(j)
    if len(stored) == design.n_rows:
        return stored
    values = np.zeros(design.n_rows)
    values[design.indices[design.indptr[j] : design.indptr[j + 1]]] = stored
    return values
