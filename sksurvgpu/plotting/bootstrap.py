"""Percentile intervals of hundreds of coefficients, and how often each was selected."""

import numpy as np

from ..data.options import number, whole
from ._display import Display, wrong_type
from ._labels import label_ends
from ._ratios import EffectAxis
from ._results import effect_of, read_intervals
from ._style import colours_on, count_of, is_dark, lay_out, room_for_names, shorten, size_of

NAMES_SHARE = 0.3  # of the width of the figure, on both sides
# Both ends of the colours of the frequencies are visible, and the last, of 1, stands out.
ON_LIGHT, ON_DARK = (0.45, 1.0), (0.85, 0.15)
ROOM = 0.05  # of the axis, on both sides of the estimates and their typical bounds
WIDEST = 99.0  # percentile of the bounds' distances from 0 that the axis shows


class BootstrapDisplay(Display):
    """Percentile intervals ranked by estimate, shaded by selection frequency.

    Parameters
    ----------
    intervals : DataFrame
        Columns coef, lower and upper, with the features as index.
    frequency : ndarray of shape (n_coef,)
        Share of the replicates in which each coefficient was not 0.
    <<effect, level>>

    Attributes
    ----------
    <<ax_>>
    intervals_ : matplotlib LineCollection
        Intervals, from the least estimate at height 0.
    points_ : matplotlib PathCollection
        Estimates of all rows.
    labels_ : list of matplotlib Annotation
        Names of the coefficients farthest from 0.
    colorbar_ : matplotlib Colorbar
        Colours of the selection frequencies.

    See Also
    --------
    CoefficientDisplay : A forest plot, with numbers.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksurvgpu import BootstrapDisplay
    >>> table = pd.DataFrame(
    ...     {"coef": [0.3, -0.1, 0.0], "lower": [0.0, -0.3, 0.0], "upper": [0.5, 0.0, 0.0]},
    ...     index=["a", "b", "c"],
    ... )
    >>> display = BootstrapDisplay(table, np.array([1.0, 0.4, 0.0])).plot()
    >>> display.table.index.tolist()  # the third is never selected
    ['b', 'a']
    """

    def __init__(self, intervals, frequency, *, effect=None, level=0.95):
        self.table = _ranked(intervals.assign(frequency=np.asarray(frequency, dtype=np.float64)))
        self.effect = effect
        self.level = level

    def _shows(self):
        return count_of(self.table, "coefficient")

    @classmethod
    def from_result(
        cls, result, *, ratio=True, min_frequency=0.0, n_top=None, n_labels=20, ax=None
    ):
        """Draw the intervals of a bootstrap.

        Parameters
        ----------
        result : BootstrapResult
            From `bootstrap`.
        <<ratio>>
        min_frequency : float, default=0.0
            Coefficients selected in a smaller share of the replicates are left out, and always
            those that never were.
        n_top : int, optional
            Show only so many coefficients, those whose estimates are farthest from 0.
        <<n_labels, ax>>

        <<drawn>>
        """
        intervals = read_intervals(result)
        if not hasattr(result, "selection_frequency"):
            remedy = "; pass what bootstrap returns, or use CoefficientDisplay"
            raise wrong_type("result", result, f", which has no `selection_frequency`{remedy}")
        number(min_frequency, "min_frequency", "must lie between 0 and 1", least=0, most=1)
        if n_top is not None:
            whole(n_top, "n_top", 1)
        frequency = np.asarray(result.selection_frequency, dtype=np.float64)
        effect = effect_of(result) if ratio else None
        display = cls(intervals, frequency, effect=effect, level=float(result.level))
        display._check_drawable()
        table = display.table[display.table["frequency"] >= min_frequency]
        if n_top is not None:
            largest = table["coef"].abs().sort_values(ascending=False, kind="stable")
            table = _ranked(table.loc[largest.index[:n_top]])
        if not len(table):
            raise ValueError(
                f"no coefficient was selected in {min_frequency:.0%} of the replicates or more; "
                "lower `min_frequency`, or the penalty of the fits."
            )
        display.table = table
        return display.plot(ax, n_labels=n_labels)

    def plot(self, ax=None, *, n_labels=20):
        """Draw the intervals.

        Parameters
        ----------
        <<ax>>
        n_labels : int, default=20
            How many coefficients are named at most; fewer where the figure has no room.

        <<display>>
        """
        self._check_drawable()
        axis = EffectAxis(self.effect)
        with self._on_axes(ax) as ax:
            self._draw_intervals(axis)
            self._draw_axes(axis)
            self._name_largest(axis, int(n_labels))
            if axis.effect:
                lay_out(ax)
                axis.set_ticks(ax)
        return self

    def _check_drawable(self):
        """Check that some coefficient was ever selected and is a number."""
        if not np.isfinite(self.table["coef"].to_numpy()).any():
            raise ValueError(
                "all coefficients are 0 in all replicates, so there is nothing to draw; fit with a "
                "smaller `alpha`."
            )

    def _limits(self, axis):
        """Limits on the scale of the coefficients, that a few endless intervals do not stretch."""
        ends = self.table[["coef", "lower", "upper"]].to_numpy()
        finite = np.where(np.isfinite(ends), ends, ends[:, :1])
        widest = np.percentile(np.abs(finite), WIDEST)
        low = min(np.fmax(finite, -widest).min(), ends[:, 0].min(), 0.0)
        high = max(np.fmin(finite, widest).max(), ends[:, 0].max(), 0.0)
        margin = ROOM * (high - low) or 1.0
        return axis.limits(low - margin, high + margin)

    def _draw_intervals(self, axis):
        from matplotlib import colormaps
        from matplotlib.colors import ListedColormap, Normalize

        ends = ON_DARK if is_dark(self.ax_) else ON_LIGHT
        blues = ListedColormap(colormaps["Blues"](np.linspace(*ends, 256)))
        coef, lower, upper, frequency = self.table.to_numpy().T
        rank = np.arange(len(coef))
        low, high = self._limits(axis)
        lower = np.clip(np.where(np.isnan(lower), coef, lower), low, high)
        upper = np.clip(np.where(np.isnan(upper), coef, upper), low, high)
        room = size_of(self.ax_)[1] / len(rank)
        self.intervals_ = self.ax_.hlines(
            rank,
            axis.shown(lower),
            axis.shown(upper),
            array=frequency,
            linewidth=np.clip(0.75 * room, 0.3, 1.5),
            zorder=2,
            cmap=blues,
            norm=Normalize(0.0, 1.0),
        )
        self.points_ = self.ax_.scatter(
            axis.shown(coef),
            rank,
            color=colours_on(self.ax_)[1],
            s=np.clip(room, 1.2, 4.0) ** 2,
            linewidths=0,
            zorder=3,
        )

    def _draw_axes(self, axis):
        ax, n_rows = self.ax_, len(self.table)
        axis.set_scale(ax)
        ax.set_xlim(*axis.shown(np.array(self._limits(axis))))
        axis.mark_no_effect(ax)
        ax.set_ylim(-0.02 * n_rows - 0.5, 1.02 * n_rows - 0.5)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_xlabel(
            f"{axis.name}, {100 * self.level:g} % interval\n"
            f"({n_rows:,} coefficients, from the largest)",
            parse_math=False,
        )
        self.colorbar_ = ax.figure.colorbar(
            self.intervals_,
            ax=ax,
            location="top",
            shrink=0.5,
            aspect=30,
            anchor=(0.0, 1.0),
            pad=0.02,
            use_gridspec=False,  # such as can be laid out later
        )
        self.colorbar_.outline.set_visible(False)
        self.colorbar_.ax.tick_params(labelsize=ax.xaxis.label.get_size())
        self.colorbar_.set_label(
            "share of replicates that select it", size=ax.xaxis.label.get_size(), loc="left"
        )

    def _name_largest(self, axis, n_labels):
        """Names at the ends of the intervals that point away from no effect."""
        coef, lower, upper = self.table[["coef", "lower", "upper"]].to_numpy().T
        largest = np.argsort(-np.abs(coef), kind="stable")[: max(n_labels, 0)]
        low, high = self._limits(axis)
        self.labels_ = []
        for side, bound, chosen in (
            ("left", lower, largest[coef[largest] < 0]),
            ("right", upper, largest[coef[largest] >= 0]),
        ):
            ends = np.clip(np.where(np.isnan(bound), coef, bound), low, high)
            self.labels_ += label_ends(
                self.ax_,
                np.column_stack([axis.shown(ends), np.arange(len(coef))])[chosen],
                shorten(self.table.index[chosen], room_for_names(self.ax_, NAMES_SHARE)),
                [None] * len(chosen),
                side,
            )


def _ranked(table):
    """Rows that were ever selected, from the least estimate."""
    return table[table["frequency"] > 0].sort_values("coef", kind="stable")
