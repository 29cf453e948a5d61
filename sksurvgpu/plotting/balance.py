"""Standardized differences before and after an adjustment."""

from functools import partial
from numbers import Real

import numpy as np

from .._calls import renamed
from ..data import options
from ._display import Display, wrong_type
from ._labels import legend_in_corner
from ._style import (
    CHARACTER,
    DASHED_GUIDE,
    GUIDE,
    MUTED,
    colours_on,
    count_of,
    lay_out,
    shorten,
    size_of,
    text_size,
)

KINDS = ("love", "scatter")
LINE, FRAME = 1.6, 0.9  # height of a row in units of its text, and of the rest in inches
NAMES_SHARE = 0.38  # of the width of the axes
MARGIN, LEFT = 1.05, -0.015  # ends of an axis, in units of the largest difference
MANY = 200  # points of a scatter that are drawn opaque


class BalanceDisplay(Display):
    """Standardized differences of covariates between arms, before and after an adjustment.

    Parameters
    ----------
    result : BalanceResult
        From `cohort.balance`.

    Attributes
    ----------
    <<ax_>>
    points_ : dict of matplotlib PathCollection
        Absolute differences: "before" and "after" of a love plot, "columns" of a scatter.
    beyond_ : list of matplotlib Line2D
        Arrows in the place of infinite differences.
    threshold_ : matplotlib Line2D
        Line at the threshold, for the differences after.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import BalanceDisplay
    >>> from sksurvgpu.cohort import balance
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1_000, 30))
    >>> treatment = rng.random(1_000) < 1 / (1 + np.exp(-X[:, 0]))
    >>> result = balance(X, treatment, strata=np.digitize(X[:, 0], [-1, -0.5, 0, 0.5, 1]))
    >>> display = BalanceDisplay.from_result(result, n_top=10)
    >>> [label.get_text() for label in display.ax_.get_yticklabels()][0]
    'x0'
    """

    def __init__(self, result):
        if "std_diff_before" not in getattr(result, "table", ()):
            raise wrong_type("result", result, "; pass a BalanceResult, from cohort.balance")
        self.result = result

    def _shows(self):
        return count_of(self.result.table, "column")

    @classmethod
    @renamed(n="n_top")
    def from_result(cls, result, *, kind="love", n_top=20, threshold=0.1, ax=None):
        """Draw a result.

        Parameters
        ----------
        result : BalanceResult
            From `cohort.balance`.
        <<kind, n_top, threshold, ax>>

        <<drawn>>
        """
        return cls(result).plot(ax, kind=kind, n_top=n_top, threshold=threshold)

    @renamed(n="n_top")
    def plot(self, ax=None, *, kind="love", n_top=20, threshold=0.1):
        """Draw the result.

        Parameters
        ----------
        <<ax>>
        kind : {"love", "scatter"}, default="love"
            Love plot: a line for each of the columns that differ most, by name, with its absolute
            difference before and after. Scatter: all columns, after against before.
        n_top : int, default=20
            Lines of a love plot; columns that differ most before come first.
        threshold : float or None, default=0.1
            Where a line is drawn.

        <<display>>
        """
        if kind not in KINDS:
            raise ValueError(f"`kind` is {kind!r}, must be one of {', '.join(KINDS)}.")
        options.whole(n_top, "n_top", 1)
        if threshold is not None and not isinstance(threshold, Real):
            raise TypeError(f"`threshold` is {threshold!r}, must be a number or None.")
        self._read(kind, threshold)
        rows = np.argsort(-self._sizes["before"].to_numpy(), kind="stable")[:n_top]
        with self._on_axes(ax, partial(_height_of, len(rows)) if kind == "love" else None):
            if kind == "love":
                self._draw_love(rows, threshold)
            else:
                self._draw_scatter(threshold)
        return self

    def _read(self, kind, threshold):
        table = self.result.table
        self._sizes = {
            when: table[f"std_diff_{when}"].abs()
            for when in ("before", "after")
            if f"std_diff_{when}" in table
        }
        if kind == "scatter" and "after" not in self._sizes:
            raise ValueError("`result` has no adjustment, so there is nothing after to draw.")
        finite = np.concatenate([sizes[np.isfinite(sizes)] for sizes in self._sizes.values()])
        self._top = MARGIN * max(finite.max(initial=0.0), 0.1, threshold or 0.0)
        self.points_, self.beyond_, self.threshold_ = {}, [], None

    def _draw_love(self, rows, threshold):
        places = np.arange(len(rows))
        colours = colours_on(self.ax_)
        for i, (when, sizes) in enumerate(self._sizes.items()):
            x = sizes.to_numpy()[rows]
            # hollow before, so that what lies below is seen
            style = {"facecolor": "none"} if when == "before" else {"facecolor": colours[0]}
            edge = colours[1 - i]
            here = np.isfinite(x)
            self.points_[when] = self.ax_.scatter(
                x[here], places[here], s=18, edgecolor=edge, zorder=3 + i, **style
            )
            self._point_beyond(places[~here], edge)
        if threshold is not None:
            self.threshold_ = self.ax_.axvline(threshold, **GUIDE)
        self.ax_.set(xlim=(LEFT * self._top, self._top), ylim=(len(rows) - 0.4, -0.6))
        self.ax_.set_xlabel("absolute standardized difference")
        self._name_rows(self._sizes["before"].index[rows])
        if len(self.points_) > 1:
            corners = ("lower right", "center right")
            legend_in_corner(self.ax_, self.points_.values(), list(self.points_), corners)

    def _name_rows(self, names):
        lay_out(self.ax_)
        width, height = size_of(self.ax_)
        size = min(text_size(self.ax_), height / (1.1 * len(names)))
        names = shorten(names, int(NAMES_SHARE * width / (CHARACTER * size)))
        self.ax_.set_yticks(np.arange(len(names)), names, size=size, parse_math=False)
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.grid(axis="y", color=MUTED, linewidth=0.3)
        self.ax_.set_axisbelow(True)
        lay_out(self.ax_)

    def _draw_scatter(self, threshold):
        before, after = (self._sizes[when].to_numpy() for when in ("before", "after"))
        here, colour = np.isfinite(before) & np.isfinite(after), colours_on(self.ax_)[0]
        self.points_["columns"] = self.ax_.scatter(
            before[here],
            after[here],
            s=10,
            color=colour,
            linewidth=0.0,
            alpha=1.0 if len(before) <= MANY else 0.5,
            zorder=3,
        )
        self._point_beyond(np.where(np.isfinite(after), after, self._top)[~here], colour)
        self.ax_.plot([0.0, self._top], [0.0, self._top], **DASHED_GUIDE)
        if threshold is not None:
            self.threshold_ = self.ax_.axhline(threshold, **GUIDE)
        limits = LEFT * self._top, self._top
        self.ax_.set(xlim=limits, ylim=limits, aspect="equal")
        self.ax_.set_xlabel("absolute standardized difference before")
        self.ax_.set_ylabel("after")

    def _point_beyond(self, heights, colour):
        """Arrows at the right edge, at these heights."""
        if len(heights):
            style = {"linestyle": "none", "marker": ">", "markersize": 4, "clip_on": False}
            x = np.full(len(heights), self._top)
            self.beyond_ += self.ax_.plot(x, heights, color=colour, zorder=4, **style)


def _height_of(n_rows):
    """Inches that a figure with so many lines needs."""
    from matplotlib import rcParams

    return FRAME + n_rows * LINE * rcParams["font.size"] / 72.0
