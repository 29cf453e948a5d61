"""B-splines of numeric columns, of which a row keeps those that are not zero."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import BSpline
from sklearn.utils.validation import check_is_fitted

from . import options
from .additive import AdditiveColumns
from .design.bands import BandColumns
from .prepare import input_names

__all__ = ["SplineColumns"]

MOST_KNOTS = 10_000


class SplineColumns(AdditiveColumns, auto_wrap_output_keys=None):
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
        if self.n_knots > MOST_KNOTS:
            raise ValueError(f"`n_knots` is {self.n_knots:,}, must be {MOST_KNOTS:,} at most.")

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
        if not np.isfinite(found.data).all():
            raise ValueError(
                "`X` has values so large or small that splines are not numbers; rescale."
            )
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
