"""Estimates over their standard errors, with what is significant before and after calibration."""

import numpy as np
from scipy.stats import norm

from ._display import Display, wrong_type
from ._labels import legend_in_corner
from ._ratios import EffectAxis, within_floats
from ._results import require_columns
from ._style import DASHED_GUIDE, colours_on, count_of, opacity_on

MARGIN = 1.08  # the axes end at so many times the largest of what is shown
N_POINTS = 101  # of the boundaries


class EmpiricalNullDisplay(Display):
    """Controls and estimates over their standard errors, and the boundaries of significance.

    Parameters
    ----------
    controls : DataFrame
        Columns coef and standard_error.
    estimates : DataFrame
        Columns coef and standard_error.
    mean, sd : float
        Of the systematic error.
    level : float, default=0.95
        One less the level of the tests.

    Attributes
    ----------
    <<ax_>>
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

    def _shows(self):
        return f"{count_of(self.controls, 'control')} and {count_of(self.estimates, 'estimate')}"

    @classmethod
    def from_result(cls, result, *, ratio=True, ax=None):
        """Draw a calibration.

        Parameters
        ----------
        result : CalibratedEffects
            From `calibrate`, by estimates of negative controls.
        <<ratio, ax>>

        <<drawn>>
        """
        null, controls = getattr(result, "null", None), getattr(result, "controls", None)
        if null is None or controls is None:
            remedy = ", which has no `null` and `controls`; pass what calibrate returns"
            raise wrong_type("result", result, remedy)
        controls = controls[controls["true_coef"] == 0]
        display = cls(controls, result.table, null["mean"], null["sd"], level=result.level)
        return display.plot(ax, ratio=ratio)

    def plot(self, ax=None, *, ratio=True):
        """Draw the points and the boundaries.

        Parameters
        ----------
        <<ax>>
        ratio : bool, default=True
            Show exp(coef) on a logarithmic axis.

        <<display>>
        """
        points = [self._points(table) for table in (self.controls, self.estimates)]
        both = np.vstack(points)
        if not len(both):
            raise ValueError("no row has a finite estimate and standard error to be drawn.")
        error = np.linspace(0.0, MARGIN * both[:, 1].max(), N_POINTS)
        half = norm.ppf(0.5 + 0.5 * self.level)
        wide = half * np.hypot(error, self.sd)
        low, high = within_floats(*self._limits(both[:, 0], wide[-1]))
        axis = EffectAxis("effect, as a ratio" if ratio else None)
        with self._on_axes(ax) as ax:
            axis.set_scale(ax)
            blue, red, *_ = colours_on(ax)
            left, right = (axis.shown(_drawable(self.mean + sign * wide)) for sign in (-1, 1))
            area = {"color": red, "alpha": opacity_on(ax), "linewidth": 0, "zorder": 1}
            self.after_ = ax.fill_betweenx(error, left, right, **area)
            line = {**DASHED_GUIDE, "zorder": 2}
            self.before_ = [
                ax.plot(axis.shown(_drawable(sign * half * error)), error, **line)[0]
                for sign in (-1, 1)
            ]
            style = [(blue, "o", 12), (red, "D", 22)]
            self.controls_, self.estimates_ = (
                ax.scatter(axis.shown(x), y, s=size, color=color, marker=marker, zorder=3)
                for (x, y), (color, marker, size) in zip((p.T for p in points), style, strict=True)
            )
            ax.set(xlim=axis.shown([low, high]), ylim=(0.0, error[-1]))
            self._name_axes(axis)
        return self

    def _points(self, table):
        found = table[["coef", "standard_error"]].to_numpy(dtype=np.float64)
        return found[np.isfinite(found).all(axis=1)]

    def _limits(self, coef, wide):
        """Ends of the axis: all points, and no more of the boundaries than is as wide as these."""
        ends = np.append(coef, [0.0, self.mean])
        far = max(np.abs(ends - self.mean).max(), 0.5 * wide) * MARGIN
        return self.mean - far, self.mean + far

    def _name_axes(self, axis):
        self.ax_.set_xlabel(axis.name)
        self.ax_.set_ylabel("standard error")
        axis.set_ticks(self.ax_)
        named = [self.controls_, self.estimates_, self.before_[0], self.after_]
        share = f"{1 - self.level:.2g}"
        names = ["negative controls", "estimates", f"p = {share} before", f"p > {share} calibrated"]
        corners = ("upper right", "upper left", "lower left", "lower right")
        legend_in_corner(self.ax_, named, names, corners)


def _drawable(coef):
    """Coefficients, or the farthest whose ratio an axis can show."""
    return np.clip(coef, *within_floats(-np.inf, np.inf))
