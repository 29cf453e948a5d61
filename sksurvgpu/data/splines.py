r"""B-splines of numeric columns, of which a row keeps those that are not zero.

Smooth ones are combined so that a ridge is one on curvature: with values x scaled to a range of 1,
splines B and P the integrals of products of their second derivatives, functions are

.. math:: f = B(\theta_0 M_0 + M\theta), \quad \int f''^2 = \lVert\theta\rVert^2 / \mu_1.

:math:`B M_0` is linear, with mean 0 and variance 1 over the rows; columns of :math:`B M` are
uncorrelated with it and with each other, of variances 1, :math:`\mu_2 / \mu_1, \dots`, which fall
as they wind more (Demmler and Reinsch 1975).

Natural ones are x and, with knots :math:`t_1, \dots, t_m`, the m - 2 curves of Stone and Koo (1985)

.. math::
    (t_m - t_1)^2 C_j = (x - t_j)_+^3 - s_j (x - t_{m-1})_+^3 + (s_j - 1) (x - t_m)_+^3,
    \quad s_j = (t_m - t_j) / (t_m - t_{m-1}).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.interpolate import BSpline
from sklearn.utils.validation import check_is_fitted

from . import options
from .additive import AdditiveColumns
from .by_column import by_column
from .design.bands import BandColumns
from .prepare import documented, input_names
from .vectors import check_numbers

MOST_KNOTS = 10_000
MOST_SMOOTH = 200  # knots of smooth functions, whose matrices have their square
LEAST_VARIANCE = 1e-10  # of a curve, relative to that of the one that winds least


class _Basis(NamedTuple):
    """Of a variable."""

    knots: np.ndarray
    edges: np.ndarray  # of the pieces: knots, and the ends of the data beyond natural ones
    matrix: np.ndarray | None  # (splines, columns), of smooth functions and natural ones


@documented
class SplineColumns(AdditiveColumns):
    """B-splines of numeric columns, for smooth effects; four per row are not zero.

    A model of these columns is a sum of smooth functions. The first spline of each column is left
    out, as all of them add up to one. Beyond the outermost knots the function is constant; if it is
    natural, beyond the data of the fit.

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
    smooth : bool, default=False
        Combine the splines so that a ridge is one on the curvature, and functions are smooth for
        any number of knots. The first column of a variable, which has its name, is then linear,
        and a function without the others is a straight line; all are scaled alike, whatever the
        unit of the variable. It needs ``degree`` from 2 on.
    knots : dict of {str or int: array-like}, optional
        Ascending knots of some of these columns, by name or position, the outermost among them.
    natural : bool, default=False
        Have functions be lines beyond the outermost knots, up to the ends of the data, as R's
        ``ns`` and restricted cubic splines do, so that the tails are calm. A variable has one
        column less than knots: the first one, which has its name, is linear.

    Attributes
    ----------
    knots_ : dict of ndarray
        Of every column that became splines, by its name.
    variables_ : ndarray
        Positions of these.
    groups_ : ndarray
        Of every column that is made, the name of the one it comes from, such as `GroupLasso` takes.
        Of smooth ones " curved" is added where they are not linear: with such groups a variable is
        linear, curved or out.
    <<header>>

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
    >>> columns = SplineColumns(n_knots=20, smooth=True)
    >>> model = make_pipeline(columns, CoxLassoCCD(alpha=0.001, l1_ratio=0.0))
    >>> model = model.fit(X, surv(np.full(2000, True), time))
    >>> effects = model[0].effects(model[1].coef_, reference={0: 0.0})
    >>> effects.set_index("variable").loc["x0", "effect"].iloc[[0, -1]].round(1).tolist()
    [4.0, 3.9]
    """

    def __init__(
        self, *, columns=None, n_knots=8, degree=3, smooth=False, knots=None, natural=False
    ):
        self.columns = columns
        self.n_knots = n_knots
        self.degree = degree
        self.smooth = smooth
        self.knots = knots
        self.natural = natural

    @property
    def knots_(self):
        """Knots by name."""
        check_is_fitted(self)
        names = input_names(self)
        return {
            names[j]: basis.knots for j, basis in zip(self.variables_, self._learned, strict=True)
        }

    def _check(self):
        options.whole(self.n_knots, "n_knots", 2, "must be an integer from 2 on")
        options.whole(self.degree, "degree", 1, "must be an integer from 1 to 5")
        if self.degree > 5:
            raise ValueError(f"`degree` is {self.degree}, must be an integer from 1 to 5.")
        options.flag(self.smooth, "smooth")
        if options.flag(self.natural, "natural") and (self.smooth or self.degree != 3):
            raise ValueError("`natural` splines are of degree=3 and not smooth=True; choose one.")
        if self.n_knots > self._most:
            raise ValueError(f"`n_knots` is {self.n_knots:,}, must be {self._most:,} at most.")
        if self.smooth and self.degree == 1:
            raise ValueError("`degree` is 1, must be from 2 to 5 for smooth functions.")

    @property
    def _most(self):
        return MOST_SMOOTH if self.smooth or self.natural else MOST_KNOTS

    def _choose(self, design):
        chosen, names = super()._choose(design), getattr(self, "feature_names_in_", None)
        given, self._given = {} if self.knots is None else self.knots, {}
        if not isinstance(given, Mapping):
            options.refuse(given, "knots", "must be a dictionary {column: knots}", TypeError)
        for j, (column, knots) in by_column(given, "knots", design.n_columns, names).items():
            place = f"knots[{column!r}]"
            if j not in chosen:
                raise ValueError(f"`{place}` is of a column that stays as it is; see `columns`.")
            knots = self._given[input_names(self)[j]] = check_numbers(knots, place)
            if not 2 <= len(knots) <= self._most or not (np.diff(knots) > 0).all():
                rule = f"must be from 2 to {self._most:,} ascending numbers"
                raise ValueError(f"`{place}` is {knots.tolist()!r:.60}, {rule}.")
        return chosen

    def _learn(self, values, name):
        knots = np.unique(np.quantile(values, np.linspace(0.0, 1.0, self.n_knots)))
        knots = self._given.get(name, knots)
        edges = knots
        if self.natural:
            ends = min(values.min(), knots[0]), max(values.max(), knots[-1])
            edges = np.union1d(knots, ends)
        if len(np.unique(np.clip(values, edges[0], edges[-1]))) < 2:
            within = " within its `knots`" if name in self._given else ""
            raise ValueError(
                f"`X` column {name!r} has one value{within}, and no spline; leave it out."
            )
        matrix = self._combine(knots, values) if self.smooth else None
        return _Basis(knots, edges, _natural(knots, edges) if self.natural else matrix)

    def _labels(self, name, known):
        if known.matrix is not None:
            return [name, *(f"{name}:{k}" for k in range(1, known.matrix.shape[1]))]
        return [f"{name}:{k}" for k in range(1, len(known.knots) + self.degree - 1)]

    def _groups(self, name, known):
        size = self._size(known)
        return [name] + [f"{name} curved"] * (size - 1) if self.smooth else [name] * size

    def _blocks(self, values):
        return [self._block(known, own) for known, own in zip(self._learned, values, strict=True)]

    def _block(self, basis, values):
        found = _splines(basis.edges, self.degree, values)
        n_splines, width = found.shape[1], self.degree + 1
        first, weights = found.indices[::width].astype(np.uint16), found.data.reshape(-1, width)
        if basis.matrix is not None:
            return BandColumns(first, weights, n_splines, basis.matrix)
        is_first = first == 0  # the spline that is left out
        weights[is_first] = np.roll(weights[is_first], -1, axis=1)
        weights[is_first, -1] = 0.0
        return BandColumns(np.maximum(first, 1) - np.uint16(1), weights, n_splines - 1)

    def _combine(self, knots, values):
        """Factors of the splines in each column."""
        rows = _splines(knots, self.degree, values)
        degree, n = self.degree, len(knots) + self.degree - 1
        halves = 0.5 * knots  # whose differences are floats
        scaled = (halves - halves[0]) / (halves[-1] - halves[0])
        padded = _padded(scaled, degree)
        nodes, weight = np.polynomial.legendre.leggauss(degree)  # exact for squares of f''
        half = 0.5 * np.diff(scaled)[:, None]
        at = (scaled[:-1, None] + half * (1.0 + nodes)).ravel()
        second = BSpline(padded, np.eye(n), degree).derivative(2)(at)
        size, axes = np.linalg.svd(np.sqrt(half * weight).reshape(-1, 1) * second)[1:]
        curved = axes[: n - 2].T / size[: n - 2]
        gram = (rows.T @ rows).toarray() / len(values)
        mean = gram.sum(axis=0)  # of each spline: they add up to 1
        linear = np.lib.stride_tricks.sliding_window_view(padded[1:-1], degree).mean(axis=1)
        linear -= mean @ linear
        linear /= np.sqrt(linear @ gram @ linear)
        rounding = 1e-12 * np.trace(curved.T @ gram @ curved)
        curved -= mean @ curved + np.outer(linear, linear @ gram @ curved)
        variance, axes = np.linalg.eigh(curved.T @ gram @ curved)
        is_there = variance > max(LEAST_VARIANCE * variance.max(initial=0.0), rounding)
        curved = curved @ axes[:, is_there][:, ::-1] / np.sqrt(variance.max(initial=1e-300))
        return np.column_stack([linear, curved])

    def _curve(self, known, table, reference):
        value = np.union1d(np.linspace(*known.edges[[0, -1]], 101), reference)
        return value, self._at(known, value, table)

    def _at(self, known, values, table):
        columns, rows = np.arange(len(table)), np.arange(len(values))
        return self._block(known, values).values(columns, rows).T @ table


def _splines(knots, degree, values):
    """Splines by value, a sparse matrix, of which a row has all that may not be zero."""
    inside = np.clip(values, knots[0], knots[-1])
    found = BSpline.design_matrix(inside, _padded(knots, degree), degree)
    if not np.isfinite(found.data).all():
        raise ValueError("`X` has values so large or small that splines are not numbers; rescale.")
    return found


def _natural(knots, edges):
    """Factors of the splines in x, and in curves that are lines beyond the knots."""
    padded = _padded(edges, 3)
    x = np.lib.stride_tricks.sliding_window_view(padded[1:-1], 3).mean(axis=1)
    x = x.clip(edges[0], edges[-1])  # beyond which rounding may lead
    cubes = np.maximum(x[:, None] - knots, 0.0) ** 3 / (knots[-1] - knots[0]) ** 2
    share = (knots[-1] - knots[:-2]) / (knots[-1] - knots[-2])
    curves = cubes[:, :-2] - cubes[:, -2:-1] * share + cubes[:, -1:] * (share - 1.0)
    splines = BSpline.design_matrix(x, padded, 3).toarray()
    return np.column_stack([x, np.linalg.solve(splines, curves)])


def _padded(knots, degree):
    return np.concatenate([[knots[0]] * degree, knots, [knots[-1]] * degree])
