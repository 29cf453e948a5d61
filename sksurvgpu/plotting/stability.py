"""Probabilities of selection over the penalty."""

import numpy as np

from ._labels import text_in_corner
from ._penalties import draw_curves, name_curves, refuse_zero, show_penalties
from ._style import (
    BAND,
    MUTED,
    count_of,
    lay_out,
    new_axes,
    show_ratios,
    styled,
)

__all__ = ["StabilityDisplay"]

NOTE_CORNERS = "upper left", "upper right", "lower right", "lower left"


class StabilityDisplay:
    """How often coefficients are selected in halves of the data, over the penalty.

    Parameters
    ----------
    result : StabilityResult
        From `stability_selection`.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.
    lines_ : list of matplotlib Line2D
        A line for each penalized coefficient that was ever selected, labelled with its name.
    labels_ : list of matplotlib Annotation
        Names at the ends of those that are stable.
    threshold_ : matplotlib Line2D
        Horizontal line at the threshold.
    beyond_ : matplotlib Rectangle or None
        Area of the penalties that do not count, as too many errors would be expected.

    See Also
    --------
    PathDisplay : The coefficients.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, StabilityDisplay, stability_selection
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(500, 30, density=0.3, random_state=0)
    >>> options = {"n_alphas": 12, "n_subsamples": 40, "random_state": 0}
    >>> result = stability_selection(CoxLassoCCD(), data.X, data.y, **options)
    >>> display = StabilityDisplay.from_result(result)
    >>> len(display.labels_) == 5
    True
    """

    def __init__(self, result):
        if not hasattr(result, "probabilities") or not hasattr(result, "threshold"):
            raise TypeError(
                f"`result` is of type {type(result).__name__}; pass a StabilityResult, from "
                "stability_selection."
            )
        self.result = result

    def __repr__(self) -> str:
        what = count_of(self.result.feature_names, "coefficient")
        return f"<StabilityDisplay of {what} at {len(self.result.alphas):,} penalties>"

    @classmethod
    def from_result(cls, result, *, n_labels=10, ax=None):
        """Draw a result.

        Parameters
        ----------
        result : StabilityResult
            From `stability_selection`.
        n_labels : int, default=10
            How many of the stable coefficients are named and coloured, the most stable first.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : StabilityDisplay
            What was drawn.
        """
        return cls(result).plot(ax, n_labels=n_labels)

    def plot(self, ax=None, *, n_labels=10):
        """Draw the result.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        n_labels : int, default=10
            How many of the stable coefficients are named and coloured, the most stable first.

        Returns
        -------
        display : StabilityDisplay
            This object.
        """
        alphas = self.result.alphas
        refuse_zero(alphas, "leave it out of `alphas`")
        with styled():
            self.ax_, self.figure_ = new_axes(ax)
            self._draw_lines(alphas, max(int(n_labels), 0))
            self.threshold_ = self.ax_.axhline(
                self.result.threshold, color=MUTED, linestyle=(0, (4, 2)), linewidth=0.8, zorder=1
            )
            show_penalties(self.ax_, alphas)
            self._shade_beyond(alphas)
            self.ax_.set_ylim(0.0, 1.02)
            self.ax_.set_ylabel("probability of selection")
            given = self.result.probabilities, self.result.feature_names
            self.labels_ = name_curves(self.ax_, alphas, *given, self._colour)
            if not self.result.support.any():
                text_in_corner(self.ax_, "no coefficient is stable", NOTE_CORNERS)
            lay_out(self.ax_)
            show_ratios(self.ax_)
        return self

    def _draw_lines(self, alphas, n_labels):
        result = self.result
        is_seen = result.is_penalized & (result.probabilities > 0).any(axis=1)
        stable = np.flatnonzero(result.support)
        stable = stable[np.argsort(-result.max_probabilities[stable], kind="stable")]
        self.lines_, self._colour = draw_curves(
            self.ax_,
            alphas,
            result.probabilities,
            result.feature_names,
            np.flatnonzero(is_seen),
            stable[:n_labels],
        )

    def _shade_beyond(self, alphas):
        self.beyond_, least = None, self.result.alpha_min
        edge = min(least, self.ax_.get_xlim()[0])
        if least > alphas.min():
            right = self.ax_.get_xlim()[1]
            self.beyond_ = self.ax_.axvspan(edge, right, color=MUTED, alpha=BAND, linewidth=0)
