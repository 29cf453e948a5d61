"""Axes of penalties: descending and logarithmic, with the numbers of coefficients on top."""

import numpy as np

from ._style import show_logarithmic, show_ratios

__all__ = ["count_on_top", "refuse_zero", "show_penalties"]

MOST_COUNTS = 6  # on the top axis
MARGIN = 0.01  # of the axis
ALONE = 2.0  # times and over a single penalty


def refuse_zero(alphas, remedy):
    """Check that all penalties have a logarithm."""
    if (alphas == 0).any():
        raise ValueError(
            f"there is a fit at alpha 0, which has no place on a logarithmic axis; {remedy}."
        )


def show_penalties(ax, alphas):
    """Make the horizontal axis one of penalties, from the largest to the least."""
    low, high = alphas.min(), alphas.max()
    margin = (high / low) ** MARGIN if high > low else ALONE
    show_logarithmic(ax)
    ax.set_xlim(high * margin, low / margin)
    show_ratios(ax)
    ax.set_xlabel("penalty (alpha)")


def count_on_top(ax, position, n_nonzero):
    """Axis on top with numbers of nonzero coefficients, at a few of the fits."""
    position = np.asarray(position, dtype=np.float64)
    place = np.log(position) if ax.get_xscale() == "log" else position
    wanted = np.linspace(place[0], place[-1], MOST_COUNTS)
    chosen = np.unique([np.argmin(np.abs(place - value)) for value in wanted])
    top = ax.secondary_xaxis("top")
    top.set_xticks(position[chosen], [f"{n_nonzero[i]:,.0f}" for i in chosen])
    top.minorticks_off()
    top.tick_params(labelsize=ax.xaxis.label.get_size())
    top.set_xlabel("nonzero coefficients", size=ax.xaxis.label.get_size())
    return top
