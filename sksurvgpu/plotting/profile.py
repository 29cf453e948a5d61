"""Profile likelihoods, a small panel a coefficient."""

import numpy as np
from scipy.stats import chi2

from ._display import Display, wrong_type
from ._ratios import EffectAxis
from ._results import WANTED, choose_rows, effect_of, read_intervals, require_columns
from ._style import DASHED_GUIDE, colours_on, count_of, title_panels

MOST_PANELS = 30
PANEL_SIZE = 1.7, 1.5  # inches: width at least, height about
FAR = 0.5  # widths of the curve between it and no effect, where this is not shown
HEADROOM = 1.6  # height of the axes in units of the cut
CURVE = ("feature", "value", "log_likelihood_ratio")


class ProfileDisplay(Display):
    """Profile likelihoods: twice the drop of the log-likelihood over each coefficient.

    Parameters
    ----------
    curves : DataFrame
        Columns feature, value and log_likelihood_ratio, 0 at the maximum.
    intervals : DataFrame
        Columns coef, lower and upper, with the features that are shown as index.
    <<effect, level>>

    Attributes
    ----------
    <<axes_>>
    curves_ : list of matplotlib Line2D
        Curve of each.
    cuts_ : list of matplotlib Line2D
        Horizontal lines at the quantile of chi-square with one degree of freedom.
    nulls_ : list of matplotlib Line2D or None
        Vertical lines at no effect; None where that is far off the curve.
    bounds_ : list of matplotlib PathCollection
        Points where the curve meets the cut, as far as the bounds are finite.

    See Also
    --------
    CoefficientDisplay : The intervals alone, a line each.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksurvgpu import ProfileDisplay
    >>> value = np.linspace(-0.2, 0.8, 21)
    >>> ratio = ((value - 0.3) / 0.15) ** 2
    >>> curves = pd.DataFrame({"feature": "a", "value": value, "log_likelihood_ratio": ratio})
    >>> intervals = pd.DataFrame({"coef": 0.3, "lower": 0.006, "upper": 0.594}, index=["a"])
    >>> display = ProfileDisplay(curves, intervals).plot()
    >>> round(display.cut, 3)
    3.841
    """

    def __init__(self, curves, intervals, *, effect=None, level=0.95):
        require_columns(curves, CURVE, "curves")
        require_columns(intervals, WANTED, "intervals")
        self.curves = curves.assign(feature=curves["feature"].astype(str))
        intervals = intervals.set_axis(intervals.index.astype(str))
        without = [name for name in intervals.index if not (self.curves["feature"] == name).any()]
        if without:
            raise ValueError(f"the table of curves has no rows for {without[0]!r}.")
        self.intervals = intervals
        self.effect = effect
        self.level = level
        self.cut = float(chi2.ppf(level, 1))

    def _shows(self):
        return count_of(self.intervals, "coefficient")

    @classmethod
    def from_result(cls, result, *, columns=None, ratio=True, axes=None):
        """Draw the curves of a result.

        Parameters
        ----------
        result : ProfileResult
            From `profile_likelihood`.
        <<columns, ratio, axes>>

        <<drawn>>
        """
        intervals = read_intervals(result)
        if not hasattr(result, "curves"):
            remedy = ", which has no `curves`; pass what profile_likelihood returns"
            raise wrong_type("result", result, remedy)
        if columns is not None:
            intervals = intervals.iloc[choose_rows(intervals.index, columns)]
        effect = effect_of(result) if ratio else None
        return cls(result.curves, intervals, effect=effect, level=float(result.level)).plot(axes)

    def plot(self, axes=None):
        """Draw the panels.

        Parameters
        ----------
        <<axes>>

        <<display>>
        """
        n_panels = len(self.intervals)
        if n_panels == 0:
            raise ValueError("`intervals` has no rows, so there is nothing to draw.")
        if n_panels > MOST_PANELS:
            raise ValueError(
                f"there are {n_panels:,} coefficients, a figure shows at most {MOST_PANELS}; name "
                "some in `columns`, or use CoefficientDisplay."
            )
        axis = EffectAxis(self.effect)
        with self._on_panels(axes, n_panels, "coefficient", PANEL_SIZE) as panels:
            self._name_axes_of_figure(axes, axis.name, "2 × drop of the log-likelihood")
            self.curves_, self.cuts_, self.nulls_, self.bounds_ = [], [], [], []
            for ax, (name, row) in zip(panels, self.intervals.iterrows(), strict=True):
                self._draw_panel(ax, axis, name, row)
            title_panels(panels, self.intervals.index)
            for ax in panels:
                axis.set_ticks(ax)
        return self

    def _draw_panel(self, ax, axis, name, row):
        curve = self.curves[self.curves["feature"] == name].sort_values("value")
        value, drop = curve["value"].to_numpy(), curve["log_likelihood_ratio"].to_numpy()
        near = drop <= HEADROOM * self.cut
        value, drop = value[_widened(near)], drop[_widened(near)]
        blue, red, *_ = colours_on(ax)
        axis.set_scale(ax)
        self.curves_ += ax.plot(axis.shown(value), drop, color=blue, zorder=3)
        self.cuts_.append(ax.axhline(self.cut, **DASHED_GUIDE))
        reach = FAR * np.ptp(value)
        is_near = value.min() - reach <= 0.0 <= value.max() + reach
        self.nulls_.append(axis.mark_no_effect(ax) if is_near else None)
        bounds = row[["lower", "upper"]].to_numpy(dtype=np.float64)
        bounds = bounds[np.isfinite(bounds)]
        ax.vlines(axis.shown(bounds), 0.0, self.cut, color=red, linewidth=0.8, zorder=2)
        self.bounds_.append(
            ax.scatter(
                axis.shown(bounds), np.full(len(bounds), self.cut), s=14, color=red, zorder=4
            )
        )
        ax.plot(axis.shown(row["coef"]), 0.0, "o", color=blue, clip_on=False, zorder=4)
        ax.set_ylim(0.0, HEADROOM * self.cut)


def _widened(mask):
    """Mask widened by a place on both sides, where a curve leaves the axes."""
    wide = mask.copy()
    wide[1:] |= mask[:-1]
    wide[:-1] |= mask[1:]
    return wide
