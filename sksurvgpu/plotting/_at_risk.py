"""Numbers at risk, written below the axes at the numbers of the time axis."""

import numpy as np

from ..nonparametric.groups import ALL
from ._labels import below_axis
from ._style import CHARACTER, grow, ink_of, lay_out, room_for_names, shorten, text_size

LINE = 1.3  # distance of lines of text, in units of their size
NAMES_SHARE = 0.22  # of the width of the figure
USUAL = 2  # groups that the usual height of a figure has room for


def count_at_risk(ax, result):
    """Numbers at risk in each group at the numbers of the axis, and these times.

    They are every second or third of them where there is no room.
    """
    lay_out(ax)
    low, high = ax.get_xlim()
    ticks = np.array([tick for tick in ax.get_xticks() if low <= tick <= high])
    apart = np.diff(ax.transData.transform(np.column_stack([ticks, ticks]))[:, 0])
    by_group = result.table.groupby("group", observed=True, sort=False)["n_at_risk"]
    most = by_group.max().max()
    n_digits = max(len(f"{most:,.0f}"), 4 if most < 100 and most % 1.0 else 0)
    needed = CHARACTER * text_size(ax) * (n_digits + 1) * ax.figure.dpi / 72.0
    step = int(np.ceil(needed / apart.min())) if len(apart) else 1
    times = np.unique(np.maximum(ticks[::step], 0.0))  # the axis may begin a little before
    at_risk = result.at(times)["n_at_risk"]
    first = at_risk.groupby(level=["group", "time"], sort=False).first()  # of several events
    # sums of weights that are small numbers keep three digits
    first = first.round() if most >= 100 else first.map(lambda number: float(f"{number:.3g}"))
    whole = first.astype(int) if (first % 1.0 == 0).all() else first
    counts = {str(g): whole.loc[g].tolist() for g in result.groups}
    return counts, times.tolist()


def show_at_risk(ax, result, lines):
    """Numbers at risk in the groups of a result, their times, and how far down they reach.

    `lines` are the curves of the groups, by name, in whose colours these are written. Nothing is
    written without a result.
    """
    from matplotlib.ticker import FixedLocator

    if result is None:
        return {}, [], 0.0
    counts, times = count_at_risk(ax, result)
    ax.xaxis.set_major_locator(FixedLocator(ax.get_xticks()))  # the counts stay under the numbers
    colours = {key: line.get_color() for key, line in lines.items()}
    return counts, times, write_at_risk(ax, counts, times, ALL, colours)


def write_at_risk(ax, counts, times, only, colours=()):
    """Write a line for each group; return how far down they reach, in points.

    The only group has no name where it is called `only`. Names are in the colours of the curves,
    where `colours` has one for the group.
    """
    size = text_size(ax)
    grow(ax, LINE * size * (len(counts) - USUAL))
    longest = room_for_names(ax, NAMES_SHARE)
    colours = {key: ink_of(colour, ax) for key, colour in dict(colours).items()}
    depth = below_axis(ax) + 0.8 * size

    def write(text, place, depth, offset, side, **style):
        ax.annotate(
            text,
            place,
            xytext=(offset, -depth),
            xycoords=ax.get_xaxis_transform(),
            textcoords="offset points",
            ha=side,
            va="center",
            size=size,
            annotation_clip=False,
            **style,
        )

    left = ax.get_xlim()[0]
    widest = max((len(f"{numbers[0]:,}") for numbers in counts.values() if numbers), default=0)
    gap = (0.5 * CHARACTER * widest + 1.0) * size  # from the axis to the names
    write("number at risk", (left, 0.0), depth, 0.0, "left")
    for key, numbers in counts.items():
        depth += LINE * size
        if len(counts) > 1 or key != only:
            style = {"color": colours[key]} if key in colours else {}
            name = shorten([key], longest)[0]
            write(name, (left, 0.0), depth, -gap, "right", parse_math=False, **style)
        for time, number in zip(times, numbers, strict=True):
            write(f"{number:,}", (time, 0.0), depth, 0.0, "center")
    return depth + 0.5 * LINE * size
