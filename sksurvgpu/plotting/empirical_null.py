"""Estimates over their standard errors, with what is significant before and after calibration."""

import numpy as np

from ._labels import legend_in_corner
from ._results import require_columns
from ._style import (
    MUTED,
    colours_on,
    count_of,
    new_axes,
    opacity_on,
    show_logarithmic,
    show_ratios,
    styled,
    within_floats,
)

__all__ = ["EmpiricalNullDisplay"]

MARGIN = 1.08  # the axes end at so many times the largest of what is shown
N_POINTS = 101  # of the boundaries


class EmpiricalNullDisplay:
    """Controls and estimates over their standard errors, and the boundaries of significance.

    Parameters
    ----------
    controls : DataFrame
        Columns coef and standard_error.
    estimates : DataFrame
        The same.
    mean, sd : float
        Of the systematic error.
    level : float, default=0.95
        One less the level of the tests.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.
    controls_, estimates_ : matplotlib PathCollection
        Points of both.
    before_ : list of matplotlib Line2D
        Between these an estimate does not differ from none, before calibration.
    after_ : matplotlib PolyCollection
        Where an estimate does not, after it.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import EmpiricalNullDisplay
    >>> controls = pd.DataFrame({"coef": [0.2, 0.4, 0.1], "standard_error": [0.1, 0.2, 0.1]})
    >>> estimates = pd.DataFrame({"coef": [0.9], "standard_error": [0.2]})
    >>> display = EmpiricalNullDisplay(controls, estimates, 0.2, 0.1).plot()
    >>> len(display.controls_.get_offsets())
    3
    """

    def __init__(self, controls, estimates, mean, sd, *, level=0.95):
        for table, name in ((controls, "controls"), (estimates, "estimates")):
            require_columns(table, ("coef", "standard_error"), name)
        self.controls, self.estimates = controls, estimates
        self.mean, self.sd, self.level = float(mean), float(sd), float(level)

    def __repr__(self) -> str:
        controls = count_of(self.controls, "control")
        return f"<EmpiricalNullDisplay of {controls} and {count_of(self.estimates, 'estimate')}>"

    @classmethod
    def from_result(cls, result, *, ratio=True, ax=None):
        """Draw a calibration.

        Parameters
        ----------
        result : CalibratedEffects
            From `calibrate`, by estimates of negative controls.
        ratio : bool, default=True
            Show exp(coef) on a logarithmic axis.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : EmpiricalNullDisplay
            What was drawn.
        """
        null, controls = getattr(result, "null", None), getattr(result, "controls", None)
        if null is None or controls is None:
            raise TypeError(
                f"`result` is of type {type(result).__name__}, which has no `null` and `controls`; "
                "pass what calibrate returns."
            )
        controls = controls[controls["true_coef"] == 0]
        display = cls(controls, result.table, null["mean"], null["sd"], level=result.level)
        return display.plot(ax, ratio=ratio)

    def plot(self, ax=None, *, ratio=True):
        """Draw the points and the boundaries.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        ratio : bool, default=True
            Show exp(coef) on a logarithmic axis.

        Returns
        -------
        display : EmpiricalNullDisplay
            This object.
        """
        from scipy.stats import norm

        points = [self._points(table) for table in (self.controls, self.estimates)]
        both = np.vstack(points)
        if not len(both):
            raise ValueError("no row has a finite estimate and standard error to be drawn.")
        error = np.linspace(0.0, MARGIN * both[:, 1].max(), N_POINTS)
        half = norm.ppf(0.5 + 0.5 * self.level)
        wide = half * np.hypot(error, self.sd)
        low, high = within_floats(*self._limits(both[:, 0], wide[-1]))
        shown = np.exp if ratio else np.asarray
        with styled():
            self.ax_, self.figure_ = new_axes(ax)
            if ratio:
                show_logarithmic(self.ax_)
            blue, red, *_ = colours_on(self.ax_)
            opacity = opacity_on(self.ax_)
            sides = [_drawable(self.mean + sign * wide) for sign in (-1, 1)]
            self.after_ = self.ax_.fill_betweenx(
                error, *map(shown, sides), color=red, alpha=opacity, linewidth=0, zorder=1
            )
            line = {"color": MUTED, "linewidth": 0.8, "linestyle": (0, (4, 2)), "zorder": 2}
            self.before_ = [
                self.ax_.plot(shown(_drawable(sign * half * error)), error, **line)[0]
                for sign in (-1, 1)
            ]
            style = [(blue, "o", 12), (red, "D", 22)]
            self.controls_, self.estimates_ = (
                self.ax_.scatter(shown(x), y, s=size, color=color, marker=marker, zorder=3)
                for (x, y), (color, marker, size) in zip((p.T for p in points), style, strict=True)
            )
            self._finish(shown([low, high]), error[-1], ratio)
        return self

    def _points(self, table):
        found = table[["coef", "standard_error"]].to_numpy(dtype=np.float64)
        return found[np.isfinite(found).all(axis=1)]

    def _limits(self, coef, wide):
        """Ends of the axis: all points, and no more of the boundaries than is as wide as these."""
        ends = np.append(coef, [0.0, self.mean])
        far = max(np.abs(ends - self.mean).max(), 0.5 * wide) * MARGIN
        return self.mean - far, self.mean + far

    def _finish(self, limits, top, ratio):
        self.ax_.set(xlim=limits, ylim=(0.0, top))
        self.ax_.set_xlabel("effect, as a ratio" if ratio else "coefficient")
        self.ax_.set_ylabel("standard error")
        if ratio:
            show_ratios(self.ax_)
        named = [self.controls_, self.estimates_, self.before_[0], self.after_]
        share = f"{1 - self.level:.2g}"
        names = ["negative controls", "estimates", f"p = {share} before", f"p > {share} calibrated"]
        corners = ("upper right", "upper left", "lower left", "lower right")
        legend_in_corner(self.ax_, named, names, corners)


def _drawable(coef):
    """Coefficients, or the farthest whose ratio an axis can show."""
    return np.clip(coef, *within_floats(-np.inf, np.inf))
