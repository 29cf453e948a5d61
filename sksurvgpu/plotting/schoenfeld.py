"""Change of coefficients over time: Schoenfeld residuals and what smooths them."""

import numpy as np
from scipy.stats import t

from ..data.intervals import check_level
from ._display import Display, wrong_type
from ._forest import in_column
from ._results import choose_rows
from ._style import MUTED, colours_on, count_of, opacity_on, title_panels

PANEL_SIZE = 2.3, 1.9  # inches: width at least, height about
N_KNOTS, N_TICKS, N_POINTS = 4, 5, 200
MOST_PANELS = 30


class SchoenfeldDisplay(Display):
    """Scaled Schoenfeld residuals over time, with a natural spline and its pointwise interval.

    If hazards are proportional, the curve is horizontal like the dashed line.

    Parameters
    ----------
    result : ProportionalHazardsResult
        From `proportional_hazards_test`, whose transformation is the scale of time.
    columns : list of str or int, optional
        Columns that are shown, by name or by position; by default those that were tested.
    <<level>>

    Attributes
    ----------
    <<axes_>>
    points_ : list of matplotlib PathCollection
        Residuals of each.
    curves_, constants_ : list of matplotlib Line2D
        What smooths them, and their mean.
    areas_ : list of matplotlib PolyCollection
        Intervals of the curves.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, SchoenfeldDisplay, proportional_hazards_test
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 3, density=0.3, random_state=0)
    >>> model = CoxLassoCCD(alpha=0).fit(data.X, data.y)
    >>> test = proportional_hazards_test(model, data.X, data.y)
    >>> SchoenfeldDisplay.from_result(test)
    <SchoenfeldDisplay of 3 columns>
    """

    def __init__(self, result, columns=None, *, level=0.95):
        if not hasattr(result, "transformed_time"):
            raise wrong_type("result", result, "; pass what proportional_hazards_test returns")
        names = result.table.index[:-1]  # without that of all together
        names = (names if result.row_of is None else result.row_of.index).astype(str)
        self.level, self.result = check_level(level), result
        rows = choose_rows(names, names if columns is None else columns)
        self.rows = [k for k in rows if np.isfinite(result.residuals[:, k]).all()]
        if not 0 < len(self.rows) <= MOST_PANELS:
            raise ValueError(
                f"there are {len(self.rows):,} columns whose coefficients the data determine, a "
                f"figure shows between 1 and {MOST_PANELS}; name others in `columns`."
            )

    def _shows(self):
        return count_of(self.rows, "column")

    @classmethod
    def from_result(cls, result, *, columns=None, level=0.95, axes=None):
        """Draw the residuals of a test of proportional hazards.

        Parameters
        ----------
        result : ProportionalHazardsResult
            From `proportional_hazards_test`.
        columns : list of str or int, optional
            Columns that are shown, by name or by position.
        <<level, axes>>

        <<drawn>>
        """
        return cls(result, columns, level=level).plot(axes)

    def plot(self, axes=None):
        """Draw the panels.

        Parameters
        ----------
        <<axes>>

        <<display>>
        """
        table, row_of = self.result.table, self.result.row_of
        tests = table.iloc[self.rows if row_of is None else row_of.iloc[self.rows]]
        names = tests.index if row_of is None else row_of.index[self.rows]
        with self._on_panels(axes, len(self.rows), "column", PANEL_SIZE) as panels:
            self.points_, self.curves_, self.constants_, self.areas_ = [], [], [], []
            for ax, row in zip(panels, self.rows, strict=True):
                self._draw_panel(ax, self.result.residuals[:, row])
            self._name_axes_of_figure(axes, "time", "coefficient")
            parts = zip(names, tests.index, strict=True)
            of = ["" if name == row else f" of {row}" for name, row in parts]
            p_values = [in_column(p, "p") for p in tests["p_value"]]
            title_panels(panels, map("{}, p{} {}".format, names, of, p_values))
        return self

    def _draw_panel(self, ax, residuals):
        blue, red, *_ = colours_on(ax)
        x = self.result.transformed_time
        at, curve, half = _smooth(x, residuals, self.level)
        style = {"s": 4, "linewidths": 0, "color": MUTED, "zorder": 1}
        self.points_.append(ax.scatter(x, residuals, **style))
        area = {"color": blue, "alpha": opacity_on(ax), "linewidth": 0, "zorder": 2}
        self.areas_.append(ax.fill_between(at, curve - half, curve + half, **area))
        dashes = {"linestyle": (0, (4, 2)), "linewidth": 0.8, "color": red, "zorder": 3}
        self.constants_.append(ax.axhline(residuals.mean(), **dashes))
        self.curves_ += ax.plot(at, curve, color=blue, zorder=4)
        order = np.argsort(x)
        near = np.searchsorted(x[order], np.linspace(x.min(), x.max(), N_TICKS))
        events = order[np.unique(near)]
        ax.set_xticks(x[events], [f"{float(f'{time:.3g}'):g}" for time in self.result.time[events]])


def _smooth(x, y, level):
    """Natural cubic spline by least squares: where, how high, and half the interval's width."""
    low, width = x.min(), np.ptp(x)
    knots = np.unique(np.quantile((x - low) / width, np.linspace(0.0, 1.0, N_KNOTS)))
    grid = np.linspace(0.0, 1.0, N_POINTS)
    basis, shown = (_natural_basis(values, knots) for values in ((x - low) / width, grid))
    inverse = np.linalg.pinv(basis)
    df = max(len(y) - np.linalg.matrix_rank(basis), 1)
    variance = np.sum((y - basis @ (inverse @ y)) ** 2) / df
    error = np.sqrt(variance) * np.linalg.norm(shown @ inverse, axis=1)
    return low + width * grid, shown @ (inverse @ y), t.isf(0.5 * (1.0 - level), df) * error


def _natural_basis(x, knots):
    """Cubic between the knots and linear beyond them."""
    cubes = np.maximum(x[:, None] - knots, 0.0) ** 3
    slopes = (cubes[:, :-1] - cubes[:, -1:]) / (knots[-1] - knots[:-1])
    return np.column_stack([np.ones_like(x), x, slopes[:, :-1] - slopes[:, -1:]])
