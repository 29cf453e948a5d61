"""Profile likelihoods, a small panel a coefficient."""

import numpy as np

from ._results import WANTED, choose_rows, effect_of, read_intervals, require_columns
from ._style import (
    MUTED,
    colours_on,
    count_of,
    new_panels,
    show_logarithmic,
    show_ratios,
    styled,
    title_panels,
)

__all__ = ["ProfileDisplay"]

MOST_PANELS = 30
PANEL_WIDTH, PANEL_HEIGHT = 1.7, 1.5  # inches, at least and about
FAR = 0.5  # widths of the curve between it and no effect, where this is not shown
HEADROOM = 1.6  # height of the axes in units of the cut
CURVE = ("feature", "value", "log_likelihood_ratio")


class ProfileDisplay:
    """Twice the drop of the profile log-likelihood over each coefficient.

    Parameters
    ----------
    curves : DataFrame
        Columns feature, value and log_likelihood_ratio, 0 at the maximum.
    intervals : DataFrame
        Columns coef, lower and upper, with the features that are shown as index.
    effect : str or None, default=None
        What exp(coef) is called; None where it is no ratio.
    level : float, default=0.95
        Of the intervals.

    Attributes
    ----------
    axes_, figure_ : ndarray of matplotlib Axes, and Figure
        What was drawn on, an axes for each coefficient.
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
        from scipy.stats import chi2

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

    def __repr__(self) -> str:
        return f"<ProfileDisplay of {count_of(self.intervals, 'coefficient')}>"

    @classmethod
    def from_result(cls, result, *, columns=None, ratio=True, axes=None):
        """Draw the curves of a result.

        Parameters
        ----------
        result : ProfileResult
            From `profile_likelihood`.
        columns : list of str or int, optional
            Coefficients, by name or by position, that are shown; all by default.
        ratio : bool, default=True
            Show exp(coef) on a logarithmic axis where it is a ratio of hazards, odds or rates.
        axes : array of matplotlib Axes, optional
            Where to draw, an axes for each coefficient; a new figure by default.

        Returns
        -------
        display : ProfileDisplay
            What was drawn.
        """
        intervals = read_intervals(result)
        if not hasattr(result, "curves"):
            raise TypeError(
                f"`result` is of type {type(result).__name__}, which has no `curves`; pass what "
                "profile_likelihood returns."
            )
        if columns is not None:
            intervals = intervals.iloc[choose_rows(intervals.index, columns)]
        effect = effect_of(result) if ratio else None
        return cls(result.curves, intervals, effect=effect, level=float(result.level)).plot(axes)

    def plot(self, axes=None):
        """Draw the panels.

        Parameters
        ----------
        axes : array of matplotlib Axes, optional
            Where to draw, an axes for each coefficient; a new figure by default.

        Returns
        -------
        display : ProfileDisplay
            This object.
        """
        n_panels = len(self.intervals)
        if n_panels == 0:
            raise ValueError("`intervals` has no rows, so there is nothing to draw.")
        if n_panels > MOST_PANELS:
            raise ValueError(
                f"there are {n_panels:,} coefficients, a figure shows at most {MOST_PANELS}; name "
                "some in `columns`, or use CoefficientDisplay."
            )
        with styled():
            size = PANEL_WIDTH, PANEL_HEIGHT
            self.axes_, self.figure_ = new_panels(axes, n_panels, "coefficient", size)
            if axes is None:
                self.figure_.supxlabel(self.effect or "coefficient", size="medium")
                self.figure_.supylabel("2 × drop of the log-likelihood", size="medium")
            self.curves_, self.cuts_, self.nulls_, self.bounds_ = [], [], [], []
            for ax, (name, row) in zip(self.axes_, self.intervals.iterrows(), strict=True):
                self._draw_panel(ax, name, row)
            title_panels(self.axes_, self.intervals.index)
            for ax in self.axes_ if self.effect else ():
                show_ratios(ax)
        return self

    def _draw_panel(self, ax, name, row):
        curve = self.curves[self.curves["feature"] == name].sort_values("value")
        value, drop = curve["value"].to_numpy(), curve["log_likelihood_ratio"].to_numpy()
        near = drop <= HEADROOM * self.cut
        value, drop = value[_widened(near)], drop[_widened(near)]
        shown = np.exp if self.effect else np.asarray
        blue, red, *_ = colours_on(ax)
        if self.effect:
            show_logarithmic(ax)
        self.curves_ += ax.plot(shown(value), drop, color=blue, zorder=3)
        self.cuts_.append(
            ax.axhline(self.cut, color=MUTED, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1)
        )
        reach = FAR * np.ptp(value)
        is_near = value.min() - reach <= 0.0 <= value.max() + reach
        style = {"color": MUTED, "linewidth": 0.8, "zorder": 1}
        self.nulls_.append(ax.axvline(shown(0.0), **style) if is_near else None)
        bounds = row[["lower", "upper"]].to_numpy(dtype=np.float64)
        bounds = bounds[np.isfinite(bounds)]
        ax.vlines(shown(bounds), 0.0, self.cut, color=red, linewidth=0.8, zorder=2)
        self.bounds_.append(
            ax.scatter(shown(bounds), np.full(len(bounds), self.cut), s=14, color=red, zorder=4)
        )
        ax.plot(shown(row["coef"]), 0.0, "o", color=blue, clip_on=False, zorder=4)
        ax.set_ylim(0.0, HEADROOM * self.cut)


def _widened(mask):
    """Also what is beside the marked, where a curve leaves the axes."""
    wide = mask.copy()
    wide[1:] |= mask[:-1]
    wide[:-1] |= mask[1:]
    return wide
