"""Style of all figures: thin axes, small type, colours that everybody can tell apart.

A setting of ours counts only where the user left matplotlib's own default in place, and only while
a figure is drawn. Axes that a user passes keep the style that they were made with.
"""

from contextlib import contextmanager
from contextvars import ContextVar
from weakref import WeakSet

import numpy as np

from .._tables import counted

# Okabe and Ito (2008), without their yellow and black: yellow lines vanish on white. The last four
# are Tol's (2021), of his muted scheme.
OKABE_ITO = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
COLOURS = (*OKABE_ITO, "#882255", "#999933", "#332288", "#44AA99")
# Those of them that shine come first; their blue and vermilion are dim on black.
SHINING = ["#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#F0E442", "#D55E00"]
COLOURS_ON_DARK = (*SHINING, "#DDCC77", "#AA4499", "#BBBBBB", "#44AA99")
MARKERS = ("o", "s", "D", "^", "v", "P")
MUTED = "0.6"  # of lines to compare with; visible on white and on black
GUIDE = {"color": MUTED, "linewidth": 0.8, "zorder": 1}  # such a line, and one that is dashed
DASHED_GUIDE = {**GUIDE, "linestyle": (0, (4, 2))}
LEADER = 0.5  # points, lines from a text to what it names
BAND, BAND_ON_DARK = 0.2, 0.3  # opacity of the area of an interval
INK = "0.1"
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # of red, green and blue
READABLE = 4.5  # contrast of small text, after the guidelines of the web (WCAG 2)
GAMMA = 2.2  # of a screen

STYLE = {
    "font.size": 8.0,  # what journals set in a column of 3.5 inches
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.0,
    "text.color": INK,
    "xtick.color": INK,
    "xtick.major.size": 3.0,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 1.5,
    "xtick.minor.width": 0.4,
    "ytick.color": INK,
    "ytick.major.size": 3.0,
    "ytick.major.width": 0.6,
    "ytick.minor.size": 1.5,
    "ytick.minor.width": 0.4,
}
PLAIN_TEXT = {"text.parse_math": False, "axes.formatter.use_mathtext": False}
CHARACTER = 0.62  # its width in units of the size of the text, about
_made = WeakSet()  # figures of ours
_lent = ContextVar("axes of users that are drawn on", default=())


def require_pyplot():
    """Import pyplot, or say how to get it."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            'figures need matplotlib, which is not installed: pip install "sksurvgpu[plot]".'
        ) from error
    return pyplot


@contextmanager
def styled():
    """Our settings, for as long as something is drawn; a figure that fails is closed.

    Dollar signs in names do not start a formula; in axes that a user passes, each text is told so.
    """
    pyplot = require_pyplot()
    from matplotlib import rcParamsDefault

    ours = {key: value for key, value in STYLE.items() if is_default(key, rcParamsDefault)}
    before, token = pyplot.get_fignums(), _lent.set([])
    with pyplot.rc_context({**ours, **PLAIN_TEXT}):
        try:
            yield pyplot
            _make_room(_lent.get())
        except BaseException:
            for number in set(pyplot.get_fignums()).difference(before):
                pyplot.close(number)
            raise
        finally:
            _lent.reset(token)


def _make_room(axes):
    """Lay out figures of users that nothing lays out, where axes or texts would be cut off."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    for figure in {ax.figure.canvas.figure: None for ax in axes}:
        grids = [ax.get_gridspec() for ax in figure.axes if ax.get_gridspec() is not None]
        ratios = [(*grid.get_width_ratios(), *grid.get_height_ratios()) for grid in grids]
        # matplotlib lays out no grid with a part of no width, as beside some colour bars
        can_be = figure.get_layout_engine() is None and 0 not in sum(ratios, ())
        if can_be and _is_cut(figure, axes):
            ConstrainedLayoutEngine().execute(figure)


def _is_cut(figure, axes):
    """Tell whether parts of the axes lie outside of the figure, or on other axes."""
    figure.draw_without_rendering()
    for ax in axes:
        box, (width, height) = ax.get_tightbbox(), figure.bbox.size
        if ax.figure.canvas.figure is not figure or ax.get_subplotspec() is None:
            continue
        if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height:
            return True
        others = (other.bbox for other in figure.axes if not other.bbox.overlaps(ax.bbox))
        if any(map(box.overlaps, others)):
            return True
    return False


def is_default(key, defaults):
    from matplotlib import rcParams

    return rcParams[key] == defaults[key]


def new_axes(ax, height=None):
    """Axes to draw on and their figure: the user's, or new ones of the user's width."""
    if ax is not None:
        _lent.get().append(ax)
        return ax, ax.figure
    figure, ax = new_figure(height, 1, 1)
    return ax, figure


def new_figure(height, n_rows, n_columns, **kwargs):
    """Figure of the width that the user has set, and its axes."""
    from matplotlib import rcParams

    width, usual = rcParams["figure.figsize"]
    figure, axes = require_pyplot().subplots(
        n_rows,
        n_columns,
        figsize=(width, usual if height is None else height),
        layout="constrained",
        **kwargs,
    )
    _made.add(figure)
    return figure, axes


def new_panels(axes, n_panels, what, size):
    """Axes of panels, one `what` each, and their figure: the user's, or new ones.

    New ones are of a width of at least, and a height of about, `size` in inches.
    """
    if axes is not None:
        axes = np.asarray(axes, dtype=object).ravel()
        if len(axes) != n_panels:
            raise ValueError(
                f"`axes` has {len(axes)} axes for {n_panels} {what}(s); pass one for each, or none."
            )
        _lent.get().extend(axes)
        return axes, axes[0].figure
    width = require_pyplot().rcParams["figure.figsize"][0]
    n_across = int(np.clip(width / size[0], 1, n_panels))
    n_down = -(-n_panels // n_across)
    figure, grid = new_figure(0.5 + size[1] * n_down, n_down, n_across, squeeze=False)
    for ax in grid.ravel()[n_panels:]:
        ax.remove()
    return grid.ravel()[:n_panels], figure


def title_panels(axes, names):
    """Names above panels, as long as the panels, now laid out, have room for."""
    lay_out(axes[0])
    for ax, name in zip(axes, names, strict=True):
        longest = int(size_of(ax)[0] / (CHARACTER * ax.title.get_size()))
        ax.set_title(shorten([name], longest)[0], parse_math=False)


def grow(ax, points):
    """Make a figure higher, for what is written below its axes; one of the user's stays."""
    figure = ax.figure
    if figure in _made and points > 0:
        figure.set_figheight(figure.get_figheight() + points / 72.0)


def is_dark(ax):
    """Tell whether the background is dark; what is transparent of it counts as white."""
    ground = np.ones(3)
    for face in (ax.figure.canvas.figure.get_facecolor(), ax.get_facecolor()):
        *colour, opacity = face
        ground += opacity * (np.array(colour) - ground)
    return bool(ground @ LUMINANCE < 0.5)


def colours_on(ax):
    """Colours of what is drawn, by the ground of the axes."""
    return COLOURS_ON_DARK if is_dark(ax) else COLOURS


def opacity_on(ax):
    """Opacity of the area of an interval, by the ground of the axes."""
    return BAND_ON_DARK if is_dark(ax) else BAND


def ink_of(colour, ax):
    """A colour of lines as one of small text: darker where the ground is light."""
    from matplotlib.colors import to_hex, to_rgb

    parts = np.array(to_rgb(colour))
    if is_dark(ax) or _contrast_on_white(parts) >= READABLE:
        return colour
    while _contrast_on_white(parts) < READABLE:
        parts = 0.95 * parts
    return to_hex(parts)


def _contrast_on_white(parts):
    return 1.05 / (parts**GAMMA @ LUMINANCE + 0.05)


def count_of(items, noun):
    """Number of items in words, as "3 curves", for the line that a display is printed as."""
    return counted(len(items), f"{noun}s")


def text_size(ax):
    """Size in points of the name of an axis; what we write into the figure has the same."""
    return ax.xaxis.label.get_size()


def shorten(names, longest):
    """Names with their middle left out where they have more characters than `longest`."""
    keep = max(longest, 5) - 1
    return [
        name if len(name) <= keep + 1 else f"{name[: keep - keep // 3]}…{name[-(keep // 3) :]}"
        for name in map(str, names)
    ]


def room_for_names(ax, share):
    """Characters of a name that takes a share of the width of the figure."""
    width = ax.figure.bbox.width * 72.0 / ax.figure.dpi
    return int(share * width / (CHARACTER * text_size(ax)))


def lay_out(ax):
    """Let the figure give every axes its place, beside all that is written so far.

    The engine alone takes a third less than a draw, which would ask it, too.
    """
    figure = ax.figure.canvas.figure
    engine = figure.get_layout_engine()
    if engine is None:
        figure.draw_without_rendering()
        return
    engine.execute(figure)
    for each in figure.axes:
        if each.get_axes_locator() is None:
            each.apply_aspect()


def size_of(ax):
    """Width and height of the axes in points, as of the last layout."""
    extent = ax.get_window_extent()
    return extent.width * 72.0 / ax.figure.dpi, extent.height * 72.0 / ax.figure.dpi
