"""Probabilities of selection over the penalty."""

import numpy as np

from ._curves import draw_curves, name_curves, refuse_zero, show_penalties
from ._display import Display, wrong_type
from ._labels import text_in_corner
from ._ratios import show_ratios
from ._style import BAND, DASHED_GUIDE, MUTED, count_of, lay_out

NOTE_CORNERS = "upper left", "upper right", "lower right", "lower left"


class StabilityDisplay(Display):
    """Stability selection: how often halves of the data select each coefficient, over the penalty.

    Parameters
    ----------
    result : StabilityResult
        From `stability_selection`.

    Attributes
    ----------
    <<ax_>>
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
            remedy = "; pass a StabilityResult, from stability_selection"
            raise wrong_type("result", result, remedy)
        self.result = result

    def _shows(self):
        coefficients = count_of(self.result.feature_names, "coefficient")
        return f"{coefficients} at {len(self.result.alphas):,} penalties"

    @classmethod
    def from_result(cls, result, *, n_labels=10, ax=None):
        """Draw a result.

        Parameters
        ----------
        result : StabilityResult
            From `stability_selection`.
        <<n_labels, ax>>

        <<drawn>>
        """
        return cls(result).plot(ax, n_labels=n_labels)

    def plot(self, ax=None, *, n_labels=10):
        """Draw the result.

        Parameters
        ----------
        <<ax>>
        n_labels : int, default=10
            How many of the stable coefficients are named and coloured, the most stable first.

        <<display>>
        """
        result, alphas = self.result, self.result.alphas
        probabilities, names = result.probabilities, result.feature_names
        refuse_zero(alphas, "leave it out of `alphas`")
        is_seen = result.is_penalized & (probabilities > 0).any(axis=1)
        stable = np.flatnonzero(result.support)
        stable = stable[np.argsort(-result.max_probabilities[stable], kind="stable")]
        seen, named = np.flatnonzero(is_seen), stable[: max(int(n_labels), 0)]
        with self._on_axes(ax) as ax:
            self.lines_, colour_of = draw_curves(ax, alphas, probabilities, names, seen, named)
            self.threshold_ = ax.axhline(result.threshold, **DASHED_GUIDE)
            show_penalties(ax, alphas)
            self._shade_beyond(alphas)
            ax.set_ylim(0.0, 1.02)
            ax.set_ylabel("probability of selection")
            self.labels_ = name_curves(ax, alphas, probabilities, names, colour_of)
            if not result.support.any():
                text_in_corner(ax, "no coefficient is stable", NOTE_CORNERS)
            lay_out(ax)
            show_ratios(ax)
        return self

    def _shade_beyond(self, alphas):
        self.beyond_, least = None, self.result.alpha_min
        edge = min(least, self.ax_.get_xlim()[0])
        if least > alphas.min():
            right = self.ax_.get_xlim()[1]
            self.beyond_ = self.ax_.axvspan(edge, right, color=MUTED, alpha=BAND, linewidth=0)
