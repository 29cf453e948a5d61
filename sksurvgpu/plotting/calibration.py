"""Observed over predicted risks."""

import numpy as np

from ._display import Display, wrong_type
from ._labels import legend_in_corner
from ._results import read_several, require_columns
from ._style import DASHED_GUIDE, MARKERS, MUTED, colours_on, count_of, opacity_on

WANTED = ["predicted", "observed", "lower", "upper"]
MARGIN = 1.05  # the axes end at so many times the largest of what is shown
BELOW, HEADROOM = 0.2, 1.15  # height of histograms in units of the axes, and over their bars
ASIDE = 0.008  # of the axis, between the points of several models


class CalibrationDisplay(Display):
    """Calibration plot: observed over predicted risks in groups of similar risk, with intervals.

    Parameters
    ----------
    tables : dict of {str: DataFrame}
        For each model a row a group, with columns predicted, observed, lower and upper.
    distributions : dict of {str: DataFrame}, optional
        Histograms of the predicted risks of models: columns lower, upper and n, a row a bin.

    Attributes
    ----------
    <<ax_>>
    points_ : dict of {str: matplotlib PathCollection}
        Groups of each model whose observed risk is known.
    intervals_ : dict of {str: matplotlib LineCollection}
        Their confidence limits.
    diagonal_ : matplotlib Line2D
        Where observed and predicted risk are equal.
    histograms_ : dict of {str: matplotlib StepPatch}
        Shares of the rows by predicted risk, under the axes.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import CalibrationDisplay
    >>> table = pd.DataFrame(
    ...     {
    ...         "predicted": [0.1, 0.3],
    ...         "observed": [0.12, 0.25],
    ...         "lower": [0.08, 0.2],
    ...         "upper": [0.16, 0.3],
    ...     }
    ... )
    >>> display = CalibrationDisplay({"": table}).plot()
    >>> display.points_[""].get_offsets().tolist()
    [[0.1, 0.12], [0.3, 0.25]]
    """

    def __init__(self, tables, distributions=None):
        self.tables = dict(tables)
        for table in self.tables.values():
            require_columns(table, WANTED, "tables")
        self.distributions = dict(distributions or {})

    def _shows(self):
        return count_of(self.tables, "model")

    @classmethod
    def from_result(cls, result, *, histogram=True, ax=None):
        """Draw how well risks are calibrated.

        Parameters
        ----------
        result : Calibration, or dict of {str: Calibration}
            From `metrics.calibration`; of a dictionary all, in one figure.
        <<histogram, ax>>

        <<drawn>>
        """
        results = read_several(result)
        for value in results.values():
            groups = getattr(value, "groups", None)
            if groups is None or not set(WANTED) <= set(groups):
                lacks = f", which has no table `groups` with columns {', '.join(WANTED)}"
                raise wrong_type("result", value, f"{lacks}; pass what metrics.calibration returns")
        times = {value.horizon for value in results.values()}
        if len(times) > 1:
            listed = ", ".join("none" if time is None else f"{time:g}" for time in times)
            raise ValueError(f"the results are for different times: {listed}; draw them apart.")
        display = cls(
            {str(key): value.groups for key, value in results.items()},
            {
                str(key): value.distribution
                for key, value in results.items()
                if getattr(value, "distribution", None) is not None
            },
        ).plot(ax, histogram=histogram)
        [time] = times
        if time is not None:
            display.ax_.set_xlabel(f"predicted risk by time {time:g}")
        return display

    def plot(self, ax=None, *, histogram=True):
        """Draw the groups.

        Parameters
        ----------
        <<ax>>
        histogram : bool, default=True
            Draw the distribution of the predicted risks under the axes, as far as these reach.

        <<display>>
        """
        known = {
            key: table[WANTED].dropna(subset="observed").to_numpy(dtype=np.float64)
            for key, table in self.tables.items()
        }
        largest = [np.fmax.reduce(table, axis=None, initial=0.0) for table in known.values()]
        top = MARGIN * max(largest, default=0.0)
        if not top > 0:
            raise ValueError("no group has a known risk above 0, so there is nothing to draw.")
        with self._on_axes(ax) as ax:
            self.points_, self.intervals_ = {}, {}
            colours = colours_on(ax)
            for i, (key, table) in enumerate(known.items()):
                predicted, observed, lower, upper = table.T
                style = {"color": colours[i % len(colours)], "zorder": 2 + i}
                place = predicted + ASIDE * top * (i - 0.5 * (len(known) - 1))
                self.intervals_[key] = ax.vlines(place, lower, upper, linewidth=0.9, **style)
                marker = MARKERS[i % len(MARKERS)]
                self.points_[key] = ax.scatter(place, observed, s=16, marker=marker, **style)
            [self.diagonal_] = ax.plot([0, 1], [0, 1], **DASHED_GUIDE)
            ax.set(xlim=(0.0, top), ylim=(0.0, top), aspect="equal")
            ax.set_xlabel("predicted risk")
            ax.set_ylabel("observed risk")
            self._draw_histograms(histogram)
            if len(known) > 1:
                corners = ("upper left", "lower right")
                legend_in_corner(ax, self.points_.values(), list(self.points_), corners)
        return self

    def _draw_histograms(self, histogram):
        """Between the axes and the numbers of the horizontal one, which go down for them."""
        self.histograms_ = {}
        if not histogram or not self.distributions:
            return
        below = self.ax_.inset_axes([0.0, -BELOW, 1.0, BELOW])
        below.set(xlim=self.ax_.get_xlim(), facecolor="none")
        below.axis("off")
        for key, table in self.distributions.items():
            colour = self.points_[key].get_edgecolor()[0]
            edges = np.append(table["lower"], table["upper"].iloc[-1])
            share = table["n"].to_numpy() / table["n"].sum()
            style = {"edgecolor": colour, "facecolor": (*colour[:3], opacity_on(self.ax_))}
            self.histograms_[key] = below.stairs(share, edges, fill=True, linewidth=0.8, **style)
        highest = max(bars.get_data().values.max() for bars in self.histograms_.values())
        below.set_ylim(0.0, HEADROOM * highest)
        self.ax_.spines["bottom"].set_position(("axes", -BELOW))
        self.ax_.axhline(0.0, color=MUTED, linewidth=0.6, zorder=1)
