"""Coefficients along a regularization path."""

import numpy as np

from .._tables import counted
from ._curves import count_on_top, draw_curves, name_curves, refuse_zero, show_penalties
from ._display import Display, wrong_type
from ._ratios import show_ratios
from ._style import DASHED_GUIDE, MUTED, count_of, lay_out


class PathDisplay(Display):
    """Coefficients over the penalty or over their norm.

    Parameters
    ----------
    alphas : ndarray of shape (n_alphas,)
        Penalties, descending.
    coefs : ndarray of shape (n_coef, n_alphas)
        Coefficients.
    feature_names : sequence of str, of length n_coef
        Their names.
    x : {"alpha", "norm"}, default="alpha"
        What the horizontal axis shows.

    Attributes
    ----------
    <<ax_>>
    top_axis_ : matplotlib SecondaryAxis
        Numbers of nonzero coefficients.
    lines_ : list of matplotlib Line2D
        A line for each coefficient that is ever nonzero, labelled with its name.
    labels_ : list of matplotlib Annotation
        Names at the ends of the largest, largest first.
    highlight_ : matplotlib Line2D or None
        Vertical line at the highlighted penalty.

    See Also
    --------
    CVDisplay : How well the fits of a path predict.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, PathDisplay, fit_path
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> path = fit_path(CoxLassoCCD(), data.X, data.y, n_alphas=20, alpha_min_ratio=0.05)
    >>> display = PathDisplay.from_path(path, highlight=path.alphas[9], n_labels=3)
    >>> len(display.lines_) == int((path.coefs != 0).any(axis=1).sum())
    True
    """

    def __init__(self, alphas, coefs, feature_names, *, x="alpha"):
        self.alphas = np.asarray(alphas, dtype=np.float64)
        self.coefs = np.asarray(coefs, dtype=np.float64)
        self.feature_names = [str(name) for name in feature_names]
        self.x = x
        expected = len(self.feature_names), len(self.alphas)
        if self.coefs.shape != expected:
            raise ValueError(
                f"`coefs` has the shape {self.coefs.shape}; of {expected[0]:,} names and "
                f"{expected[1]:,} penalties it is {expected}."
            )
        if not np.isfinite(self.coefs).all():
            raise ValueError("`coefs` has values that are not finite.")

    def _shows(self):
        penalties = counted(len(self.alphas), "penalties")
        return f"{count_of(self.feature_names, 'coefficient')} at {penalties}"

    @classmethod
    def from_path(cls, path, *, x="alpha", highlight=None, n_labels=10, ax=None):
        """Draw a path.

        Parameters
        ----------
        path : Path
            From `fit_path`.
        x : {"alpha", "norm"}, default="alpha"
            Horizontal axis: the penalty, on a logarithmic axis that descends, or the sum of the
            absolute values of the coefficients.
        <<highlight, n_labels, ax>>

        <<drawn>>
        """
        if not all(hasattr(path, name) for name in ("alphas", "coefs", "feature_names")):
            raise wrong_type("path", path, "; pass a Path, from fit_path")
        display = cls(path.alphas, path.coefs, path.feature_names, x=x)
        return display.plot(ax, highlight=highlight, n_labels=n_labels)

    def plot(self, ax=None, *, highlight=None, n_labels=10):
        """Draw the path.

        Parameters
        ----------
        <<ax>>
        highlight : float, optional
            Penalty at which a vertical line is drawn.
        n_labels : int, default=10
            How many of the coefficients that end largest are named and coloured.

        <<display>>
        """
        position = self._positions()
        marked = None if highlight is None else self._position_of(highlight, position)
        with self._on_axes(ax) as ax:
            colour_of = self._draw_lines(position, int(n_labels))
            self._draw_axes(position)
            self.highlight_ = None if marked is None else ax.axvline(marked, **DASHED_GUIDE)
            names = self.feature_names
            self.labels_ = name_curves(ax, position, self.coefs, names, colour_of)
            if self.x == "alpha":
                lay_out(ax)
                show_ratios(ax)
        return self

    def _positions(self):
        if self.x == "norm":
            return np.abs(self.coefs).sum(axis=0)
        if self.x != "alpha":
            raise ValueError(f'`x` is {self.x!r}, must be "alpha" or "norm".')
        refuse_zero(self.alphas, 'pass x="norm"')
        return self.alphas

    def _position_of(self, alpha, position):
        low, high = self.alphas.min(), self.alphas.max()
        if not low * (1 - 1e-9) <= alpha <= high * (1 + 1e-9):
            raise ValueError(
                f"`highlight` is {alpha:g}, outside the penalties of the path, {low:g} to {high:g}."
            )
        if self.x == "alpha":
            return float(alpha)
        return float(np.interp(-alpha, -self.alphas, position))

    def _draw_lines(self, position, n_labels):
        """Draw the coefficients that are ever nonzero; return the colours of those named."""
        is_selected = (self.coefs != 0).any(axis=1)
        selected = np.flatnonzero(is_selected)
        # a coefficient that has gone back to zero is not named before one that is still there
        size = np.abs(self.coefs[selected])
        order = selected[np.lexsort((-size.max(axis=1), -size[:, -1]))]
        named, names = order[: max(n_labels, 0)], self.feature_names
        self.lines_, colour_of = draw_curves(self.ax_, position, self.coefs, names, selected, named)
        return colour_of

    def _draw_axes(self, position):
        ax = self.ax_
        ax.axhline(0.0, color=MUTED, linewidth=0.6, zorder=1)
        ax.set_ylabel("coefficient")
        if not self.lines_:
            ax.set_ylim(-1.0, 1.0)
        if self.x == "alpha":
            show_penalties(ax, position)
        else:
            ax.set_xlim(0.0, max(position.max() * 1.01, 1e-12))
            ax.set_xlabel("sum of absolute coefficients")
        self.top_axis_ = count_on_top(ax, position, np.count_nonzero(self.coefs, axis=0))
