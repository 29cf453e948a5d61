"""Observed over predicted risks."""

from collections.abc import Mapping

import numpy as np

from ._labels import legend_in_corner
from ._style import COLOURS, MARKERS, MUTED, new_axes, styled

__all__ = ["CalibrationDisplay"]

WANTED = ["predicted", "observed", "lower", "upper"]
MARGIN = 1.05  # the axes end at so many times the largest of what is shown
ASIDE = 0.008  # of the axis, between the points of several models


class CalibrationDisplay:
    """Observed risks with their confidence limits over predicted ones, in groups of like risk.

    Parameters
    ----------
    tables : dict of {str: DataFrame}
        For each model a row a group, with columns predicted, observed, lower and upper.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.
    points_ : dict of {str: matplotlib PathCollection}
        Groups of each model whose observed risk is known.
    intervals_ : dict of {str: matplotlib LineCollection}
        Their confidence limits.
    diagonal_ : matplotlib Line2D
        Where observed and predicted risk are equal.

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

    def __init__(self, tables):
        self.tables = dict(tables)

    @classmethod
    def from_result(cls, result, *, ax=None):
        """Draw how well risks are calibrated.

        Parameters
        ----------
        result : Calibration, or dict of {str: Calibration}
            From `metrics.calibration`; of a dictionary all, in one figure.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : CalibrationDisplay
            What was drawn.
        """
        results = dict(result) if isinstance(result, Mapping) else {"": result}
        if not results:
            raise ValueError("`result` is an empty dictionary; pass one result or more.")
        for value in results.values():
            groups = getattr(value, "groups", None)
            if groups is None or not set(WANTED) <= set(groups):
                raise TypeError(
                    f"`result` is of type {type(value).__name__}, which has no table `groups` with "
                    f"columns {', '.join(WANTED)}; pass what metrics.calibration returns."
                )
        times = {value.time for value in results.values()}
        if len(times) > 1:
            listed = ", ".join("none" if time is None else f"{time:g}" for time in times)
            raise ValueError(f"the results are for different times: {listed}; draw them apart.")
        display = cls({str(key): value.groups for key, value in results.items()}).plot(ax)
        [time] = times
        if time is not None:
            display.ax_.set_xlabel(f"predicted risk by time {time:g}")
        return display

    def plot(self, ax=None):
        """Draw the groups.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : CalibrationDisplay
            This object.
        """
        known = {
            key: table[WANTED].dropna(subset="observed").to_numpy(dtype=np.float64)
            for key, table in self.tables.items()
        }
        largest = [np.fmax.reduce(table, axis=None, initial=0.0) for table in known.values()]
        top = MARGIN * max(largest, default=0.0)
        if not top > 0:
            raise ValueError("no group has a known risk above 0, so there is nothing to draw.")
        with styled():
            self.ax_, self.figure_ = new_axes(ax)
            self.points_, self.intervals_ = {}, {}
            for i, (key, table) in enumerate(known.items()):
                predicted, observed, lower, upper = table.T
                style = {"color": COLOURS[i % len(COLOURS)], "zorder": 2 + i}
                place = predicted + ASIDE * top * (i - 0.5 * (len(known) - 1))
                self.intervals_[key] = self.ax_.vlines(place, lower, upper, linewidth=0.9, **style)
                marker = MARKERS[i % len(MARKERS)]
                self.points_[key] = self.ax_.scatter(place, observed, s=16, marker=marker, **style)
            [self.diagonal_] = self.ax_.plot(
                [0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=(0, (4, 2)), zorder=1
            )
            self.ax_.set(xlim=(0.0, top), ylim=(0.0, top), aspect="equal")
            self.ax_.set_xlabel("predicted risk")
            self.ax_.set_ylabel("observed risk")
            if len(known) > 1:
                corners = ("upper left", "lower right")
                legend_in_corner(self.ax_, self.points_.values(), list(self.points_), corners)
        return self
