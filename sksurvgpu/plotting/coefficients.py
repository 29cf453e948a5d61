"""Forest plots: coefficients with their intervals, one a line."""

import numpy as np

from ..data.options import whole
from ..estimators.pipelines import open_pipeline, refuse_type
from ._display import Display
from ._forest import Forest
from ._results import (
    WANTED,
    choose_rows,
    effect_of,
    read_beside,
    read_coefficients,
    read_intervals,
    read_several,
    require_columns,
)
from ._style import count_of

MOST_ROWS = 100
SORTS = ("coef", "magnitude", None)


class CoefficientDisplay(Display):
    """Forest plot of coefficients or ratios, of one result or of several side by side.

    Parameters
    ----------
    tables : DataFrame or dict of {str: DataFrame}
        For each result the coefficients and bounds, with columns coef, lower and upper and the
        features as index, at most 100; the first one orders the rows. NaN where there is no
        bound.
    <<effect>>
    level : float or None, default=None
        Of the intervals.

    Attributes
    ----------
    <<ax_>>
    points_ : dict of {str: matplotlib PathCollection}
        Estimates of each result.
    intervals_ : dict of {str: matplotlib LineCollection}
        Their intervals, within the axis.
    arrows_ : dict of {(str, "lower" or "upper"): matplotlib Line2D}
        Arrow heads of a result where bounds lie beyond the axis.
    numbers_ : list of (matplotlib Text, matplotlib Text)
        Estimate and interval in words, from the top.
    beside_ : dict of {str: list of matplotlib Text}
        What else is written beside the axes, by column, from the top.

    See Also
    --------
    BootstrapDisplay : Hundreds of intervals.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import CoefficientDisplay
    >>> table = pd.DataFrame(
    ...     {"coef": [0.28, -0.1], "lower": [0.1, -0.4], "upper": [0.46, 0.2]},
    ...     index=["warfarin", "aspirin"],
    ... )
    >>> display = CoefficientDisplay({"": table}, effect="hazard ratio", level=0.95).plot()
    >>> [text.get_text() for text in display.numbers_[0]]
    ['1.32', '(1.11, 1.58)']
    """

    def __init__(self, tables, *, effect=None, level=None):
        self.tables = _aligned({"": tables} if hasattr(tables, "columns") else dict(tables))
        self.effect = effect
        self.level = level

    def _shows(self):
        return count_of(next(iter(self.tables.values())), "coefficient")

    @classmethod
    def from_result(
        cls,
        result,
        *,
        columns=None,
        ratio=True,
        sort="auto",
        numbers=True,
        beside=None,
        xlim=None,
        ax=None,
    ):
        """Draw the intervals of results.

        Parameters
        ----------
        result : object with intervals, or dict of {str: object with intervals}
            From `bootstrap`, `profile_likelihood` or another function that makes intervals; of a
            dictionary all, side by side.
        columns : list of str or int, optional
            Coefficients, by name or by position, that are shown; by default those that all results
            have.
        <<ratio>>
        sort : {"auto", "coef", "magnitude", None}, default="auto"
            Order of the rows by the first result: from the largest coefficient, from the one
            farthest from 0, or as in `columns` or the result. "auto" is "coef", but None for
            results with factors, whose levels stay below their reference.
        <<numbers>>
        beside : list of str or DataFrame, optional
            What else is written beside the axes, of one result: columns of its ``summary()``, such
            as ``["p_value"]``, or a table with the coefficients as index, such as numbers of
            persons.
        <<xlim, ax>>

        <<drawn>>
        """
        results = read_several(result)
        tables = {str(key): read_intervals(value) for key, value in results.items()}
        _check_drawable(tables, "result")
        levels = {float(value.level) for value in results.values()}
        effects = {effect_of(value) for value in results.values()} if ratio else {None}
        for found, name in ((levels, "levels"), (effects, "kinds of ratio")):
            if len(found) > 1:
                listed = ", ".join(sorted(map(str, found)))
                raise ValueError(f"the results have different {name}: {listed}; draw them apart.")
        if sort == "auto":
            has_factors = any(getattr(r, "factors", None) is not None for r in results.values())
            sort = None if has_factors else "coef"
        tables = _in_order(tables, columns, sort)
        display = cls(tables, effect=effects.pop(), level=levels.pop())
        if beside is not None:
            beside = read_beside(results, beside)
        return display.plot(ax, numbers=numbers, beside=beside, xlim=xlim)

    @classmethod
    def from_estimator(cls, estimator, *, n_top=20, ratio=True, numbers=True, xlim=None, ax=None):
        """Draw the largest coefficients of a fit, with intervals where it has a posterior.

        Parameters
        ----------
        estimator : estimator of this package
            Fitted.
        n_top : int, default=20
            How many coefficients, of those that are not 0.
        <<ratio, numbers, xlim, ax>>

        <<drawn>>
        """
        [model] = open_pipeline(estimator)
        if not hasattr(model, "summary"):
            refuse_type(estimator)
        whole(n_top, "n_top", 1)
        table, effect, level = read_coefficients(model)
        table = table[table["coef"] != 0]
        if not len(table):
            raise ValueError("all coefficients are 0; fit with a smaller `alpha`.")
        largest = np.argsort(-table["coef"].abs().to_numpy(), kind="stable")[:n_top]
        table = table.iloc[largest].sort_values("coef", ascending=False, kind="stable")
        display = cls({"": table}, effect=effect if ratio else None, level=level)
        return display.plot(ax, numbers=numbers, xlim=xlim)

    def plot(self, ax=None, *, numbers=True, beside=None, xlim=None):
        """Draw the forest.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure, as high as the rows need.
        numbers : bool, default=True
            Write estimates and intervals beside the axes.
        beside : DataFrame, optional
            What else is written beside the axes, with the coefficients as index.
        xlim : (float, float), optional
            Limits of the axis, of ratios where these are shown; arrows stand for what is beyond.

        <<display>>
        """
        _check_drawable(self.tables, "tables")
        forest = Forest(self.tables, self.effect, xlim)
        with self._on_axes(ax, forest.height) as ax:
            forest.draw(ax)
            self.points_, self.intervals_ = forest.points, forest.intervals
            self.arrows_ = forest.arrows
            forest.name_rows(ax)
            self.numbers_ = forest.write_numbers(ax, self.level) if numbers else []
            self.beside_ = {} if beside is None else forest.write_beside(ax, beside)
            forest.mark_axis(ax)
        return self


def _aligned(tables):
    """Tables of the columns that are drawn, with the same rows in the same order."""
    if not tables:
        raise ValueError("`tables` is an empty dictionary; pass one table or more.")
    for table in tables.values():
        require_columns(table, WANTED, "tables")
    tables = {key: table[list(WANTED)] for key, table in tables.items()}
    first, *others = tables.values()
    if not all(table.index.equals(first.index) for table in others):
        if not all(table.index.is_unique for table in tables.values()):
            raise ValueError("`tables` has a table with two rows of the same name; rename one.")
        names = list(dict.fromkeys(name for table in tables.values() for name in table.index))
        tables = {key: table.reindex(names) for key, table in tables.items()}
    n_rows = len(next(iter(tables.values())))
    if n_rows > MOST_ROWS:
        raise ValueError(
            f"there are {n_rows:,} coefficients, a forest plot shows at most {MOST_ROWS}; choose "
            "some, by `columns` of from_result, or use BootstrapDisplay."
        )
    return tables


def _check_drawable(tables, name):
    if not any(np.isfinite(table["coef"].to_numpy(np.float64)).any() for table in tables.values()):
        raise ValueError(f"`{name}` has no finite coefficient, so there is nothing to draw.")


def _in_order(tables, columns, sort):
    """Tables with the rows that are shown, in their order."""
    if sort not in SORTS:
        raise ValueError(f'`sort` is {sort!r}, must be "auto", "coef", "magnitude" or None.')
    first, *others = tables.values()
    if columns is None:
        names = [name for name in first.index if all(name in table.index for table in others)]
    else:
        known = list(dict.fromkeys(name for table in tables.values() for name in table.index))
        names = list(dict.fromkeys(known[k] for k in choose_rows(known, columns)))
    if not names:
        raise ValueError("the results have no coefficient in common; draw them apart.")
    ordered = {key: table.reindex(names) for key, table in tables.items()}
    if sort is not None:
        key = ordered[next(iter(ordered))]["coef"]
        key = key.abs() if sort == "magnitude" else key
        names = key.sort_values(ascending=False, kind="stable").index
    return {key: table.loc[names] for key, table in ordered.items()}
