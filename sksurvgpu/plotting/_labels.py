"""Names beside what they name, without overlap."""

import numpy as np

from ._style import CHARACTER, LEADER, MUTED, grow, lay_out, size_of, text_size

LINE = 1.25  # distance of lines of text, in units of their size
ENTRY = 13.0  # width of an entry of a legend, in units of the text's size
KEY = 5.0  # of its line and the gaps around it
LEADER_LENGTH = 14.0  # points, from the axes to the names


def spread(positions, gap, low, high):
    """Move positions as little as possible (least squares) until they are `gap` apart.

    They keep their order and stay between `low` and `high`. Less the room that the ones before
    take, they need only not descend: an isotonic regression.
    """
    from sklearn.isotonic import isotonic_regression

    positions = np.asarray(positions, dtype=np.float64)
    order = np.argsort(positions, kind="stable")
    room = gap * np.arange(len(positions))
    moved = np.empty_like(positions)
    moved[order] = room + isotonic_regression(
        positions[order] - room, y_min=low, y_max=high - room[-1]
    )
    return moved


def below_axis(ax) -> float:
    """Points from the axes down to the end of the name of their horizontal axis."""
    lay_out(ax)
    depth = ax.get_window_extent().y0 - ax.xaxis.get_tightbbox().y0
    return depth * 72.0 / ax.figure.dpi


def legend_in_corner(ax, artists, names, corners, below=0.0, **style):
    """Legend in the first corner where it covers nothing that is drawn, otherwise below the axes.

    `below` are points that something else takes under the axis.
    """
    style = {"labelspacing": 0.3, "frameon": False, **style}
    lay_out(ax)
    for corner in corners:
        legend = ax.legend(artists, names, loc=corner, **style)
        if not _covers(ax, legend.get_window_extent()):
            return legend
    entry = max(ENTRY, CHARACTER * max(map(len, names)) + KEY)
    return legend_below(ax, (artists, names), below, entry, style.get("title"))


def text_in_corner(ax, text, corners):
    """Text in the first corner where it covers nothing, otherwise above the axes."""
    lay_out(ax)
    legend, size = ax.get_legend(), text_size(ax)
    taken = [] if legend is None else [legend.get_window_extent()]
    for corner in corners:
        height, side = corner.split()
        x, y = float(side == "right"), float(height == "upper")
        note = ax.annotate(
            text,
            (x, y),
            xytext=(size * (1.0 - 2.0 * x), size * (1.0 - 2.0 * y)),
            xycoords="axes fraction",
            textcoords="offset points",
            ha=side,
            va="top" if y else "bottom",
            size=size,
        )
        box = note.get_window_extent()
        if not _covers(ax, box) and not any(map(box.overlaps, taken)):
            return note
        note.remove()
    return ax.set_title(text, loc="right", size=size)


def _covers(ax, box):
    """Tell whether a box in pixels has part of a line, a point, an interval or stairs in it."""
    from matplotlib.patches import StepPatch

    stairs = [patch for patch in ax.patches if isinstance(patch, StepPatch)]
    for artist in (*ax.lines, *stairs):
        path = artist.get_transform().transform_path(artist.get_path())
        if path.intersects_bbox(box, filled=artist in stairs and artist.get_fill()):
            return True
    for collection in ax.collections:
        transform, offsets = collection.get_transform(), collection.get_offsets()
        paths = map(transform.transform_path, collection.get_paths())
        if len(offsets) and collection.get_offset_transform() is ax.transData:  # markers
            if box.count_contains(ax.transData.transform(offsets)):
                return True
        elif any(path.intersects_bbox(box, filled=False) for path in paths):
            return True
    return False


def legend_below(ax, named=(), below=0.0, entry=ENTRY, title=None):
    """Legend under the axes, in one line where they are wide: what is drawn may fill them.

    `named` are artists and their names, by default all that have one; `entry` is the width of one
    in units of the text's size.
    """
    from matplotlib.transforms import ScaledTranslation

    below = below or below_axis(ax)
    down = ScaledTranslation(0.0, -below / 72.0, ax.figure.dpi_scale_trans)
    n_columns = int(np.clip(size_of(ax)[0] / (entry * text_size(ax)), 1, 3))
    legend = ax.legend(
        *named,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + down,
        ncols=n_columns,
        frameon=False,
        columnspacing=1.5,
        handlelength=1.5,
        labelspacing=0.3,
        title=title,
    )
    grow(ax, legend.get_window_extent().height * 72.0 / ax.figure.dpi)
    return legend


def count_lines(ax) -> int:
    """Number of lines of text that fit beside the axes, which take their final height here."""
    lay_out(ax)
    return max(1, int(size_of(ax)[1] / (LINE * text_size(ax))))


def label_ends(ax, points, names, colours, side="right"):
    """Write names beside the axes, each with a thin line to its point (x, y).

    The first names matter most: those for which there is no room are left out.
    """
    from matplotlib.transforms import ScaledTranslation

    n_lines = count_lines(ax)
    points = np.asarray(points, dtype=np.float64).reshape(-1, 2)[:n_lines]
    if not len(points):
        return []
    heights = ax.transAxes.inverted().transform(ax.transData.transform(points))[:, 1]
    half = 0.5 / n_lines
    heights = spread(heights, 1.0 / n_lines, half, 1.0 - half)
    is_right = side == "right"
    away = ScaledTranslation(
        (1 if is_right else -1) * LEADER_LENGTH / 72.0, 0.0, ax.figure.dpi_scale_trans
    )
    return [
        ax.annotate(
            name,
            xy=point,
            xytext=(float(is_right), height),
            textcoords=ax.transAxes + away,
            ha="left" if is_right else "right",
            va="center",
            size=text_size(ax),
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour or MUTED,
                "linewidth": LEADER,
                "shrinkA": 1.0,
                "shrinkB": 0.0,
                "relpos": (float(not is_right), 0.5),
            },
        )
        for point, height, name, colour in zip(points, heights, names, colours, strict=False)
    ]
