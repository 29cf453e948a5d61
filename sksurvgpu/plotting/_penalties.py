"""Curves over penalties: the axis, descending and logarithmic, and what names the curves."""

import numpy as np

from ._labels import label_ends
from ._ratios import show_logarithmic, show_ratios
from ._style import MUTED, colours_on, room_for_names, shorten

__all__ = ["count_on_top", "draw_curves", "name_curves", "refuse_zero", "show_penalties"]

MOST_COUNTS = 6  # on the top axis
MARGIN = 0.01  # of the axis
ALONE = 2.0  # times and over a single penalty
NAMES_SHARE = 0.36  # of the width of the figure


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


def count_on_top(ax, position, n_nonzero, name="nonzero coefficients"):
    """Axis on top with numbers of nonzero coefficients, at a few of the fits."""
    position = np.asarray(position, dtype=np.float64)
    place = np.log(position) if ax.get_xscale() == "log" else position
    wanted = np.linspace(place[0], place[-1], MOST_COUNTS)
    chosen = np.unique([np.argmin(np.abs(place - value)) for value in wanted])
    top = ax.secondary_xaxis("top")
    top.set_xticks(position[chosen], [f"{n_nonzero[i]:,.0f}" for i in chosen])
    top.minorticks_off()
    top.tick_params(labelsize=ax.xaxis.label.get_size())
    top.set_xlabel(name, size=ax.xaxis.label.get_size())
    return top


def draw_curves(ax, position, curves, names, shown, named):
    """Lines of the rows `shown` of `curves`, and the colours of those `named`.

    Of these the first matter most; all others are grey.
    """
    colours = colours_on(ax)
    colour_of = {k: colours[i % len(colours)] for i, k in enumerate(named)}
    marker = "o" if len(position) == 1 else None
    lines = [
        ax.plot(
            position,
            curves[k],
            color=colour_of.get(k, MUTED),
            linewidth=1.2 if k in colour_of else 0.6,
            marker=marker,
            zorder=3 if k in colour_of else 2,
            label=str(names[k]),
        )[0]
        for k in shown
    ]
    return lines, colour_of


def name_curves(ax, position, curves, names, colour_of):
    """Names at the right ends of the coloured curves."""
    shortened = shorten([names[k] for k in colour_of], room_for_names(ax, NAMES_SHARE))
    ends = [(position[-1], curves[k, -1]) for k in colour_of]
    return label_ends(ax, ends, shortened, list(colour_of.values()))
