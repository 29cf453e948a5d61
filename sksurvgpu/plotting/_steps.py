"""Step curves of a few rows: how they are read, drawn and named."""

import numpy as np
from pandas import RangeIndex
from sksurv.functions import StepFunction

from ..estimators.pipelines import open_pipeline
from ._labels import legend_in_corner
from ._style import colours_on, opacity_on, shorten

MOST_CURVES = 20
MARGIN = 1.02  # the axis ends at so many times the last time
MOST_INSIDE = 8  # names within the axes
COLUMN = 12  # names below each other
STYLES = ("-", "-.", ":", (0, (3, 1, 1, 1, 1, 1)))  # of the first, second, ... use of the colours
LONGEST_NAME = 32  # characters
HANDLE = 2.0  # length of a line in the legend, in units of the text's size


def count_rows(X):
    """Number of rows, refused where a figure cannot show so many."""
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_rows > MOST_CURVES:
        raise ValueError(
            f"`X` has {n_rows:,} rows, a figure shows the curves of at most {MOST_CURVES}; pass a "
            "few rows, such as typical ones: X[:5]."
        )
    return n_rows


def name_rows(X):
    """Names of rows: the index of a DataFrame, or their positions."""
    index = getattr(X, "index", None)
    if index is None or callable(index):
        return [f"row {i}" for i in range(count_rows(X))]
    return [str(label) for label in index]


def predict_steps(estimator, method, X, strata, labels, **given):
    """Functions of the rows of X and their names."""
    count_rows(X)
    model, rows = open_pipeline(estimator, X)
    if not hasattr(model, method):
        raise TypeError(f"`estimator` is of type {type(model).__name__}, which has no `{method}`.")
    given |= {} if strata is None else {"strata": strata}
    functions = getattr(model, method)(rows, **given)
    return functions, name_rows(X) if labels is None else labels


def read_predicted(result, known, limits, start):
    """Step functions, names and areas of the rows of a `CurveIntervals` of certain curves."""
    kind = getattr(result, "what", None)
    if kind not in known:
        found = f"of type {type(result).__name__}" if kind is None else f"of the {kind}"
        raise ValueError(
            f"`result` is {found}; pass what curve_intervals(..., "
            f"what={' or '.join(map(repr, known))}) returns."
        )
    bounds = {
        None: (),
        "interval": (result.lower, result.upper),
        "band": (result.band_lower, result.band_upper),
    }
    if limits not in bounds:
        raise ValueError(f"`limits` is {limits!r}, must be 'interval', 'band' or None.")
    if limits == "band" and result.band_lower is None:
        raise ValueError("`result` has no bands; pass band=True to curve_intervals.")
    edge = start if limits == "interval" else np.nan  # a band begins later
    functions, areas = [], []
    for i, curve in enumerate(result.estimate):
        there = ~np.isnan(curve)
        times = np.append(0.0, result.times[there])
        functions.append(StepFunction(times, np.append(start, curve[there])))
        areas.append((times, *(np.append(edge, bound[i, there]) for bound in bounds[limits])))
    is_unnamed = result.index.equals(RangeIndex(len(result.index)))
    names = None if is_unnamed else [str(label) for label in result.index]
    return functions, names, None if limits is None else areas


def check_functions(functions, labels):
    """Lists of functions and of their names."""
    functions = [functions] if hasattr(functions, "x") else list(functions)
    if not functions:
        raise ValueError("there is no curve; pass one step function or more.")
    if not all(hasattr(function, "x") and hasattr(function, "y") for function in functions):
        raise TypeError("curves must be step functions, with attributes `x` and `y`.")
    if len(functions) > MOST_CURVES:
        raise ValueError(
            f"there are {len(functions):,} curves, a figure shows at most {MOST_CURVES}."
        )
    if labels is None:
        labels = [f"row {i}" for i in range(len(functions))]
    labels = [labels] if isinstance(labels, str) else [str(label) for label in labels]
    if len(labels) != len(functions):
        raise ValueError(
            f"`labels` has {len(labels)} entries for {len(functions)} curve(s); pass one for each."
        )
    return functions, labels


def draw_steps(ax, functions, labels, start, styles=None, colours=None):
    """Draw functions as steps from their value at time 0, `start`.

    `styles` are numbers of a colour and of a line style for each; colours that are used again go
    on to the next style. `colours` are those of a user.
    """
    lines, colours = [], _check_colours(colours) or colours_on(ax)
    n_colours = len(colours)
    styles = styles or [(i, 0) for i in range(len(labels))]
    for function, label, (colour, style) in zip(functions, labels, styles, strict=True):
        time, value = np.asarray(function.x), function.a * np.asarray(function.y) + function.b
        if time[0] > 0:
            time, value = np.r_[0.0, time], np.r_[start, value]
        lines += ax.step(
            time,
            value,
            where="post",
            color=colours[colour % n_colours],
            linestyle=STYLES[(style + colour // n_colours) % len(STYLES)],
            label=label,
        )
    ax.set_xlim(0.0, MARGIN * max(line.get_xdata()[-1] for line in lines))
    ax.set_xlabel("time")
    return lines


def _check_colours(colours):
    """Colours that a user asks for, as a list; None for none."""
    from matplotlib.colors import is_color_like

    if colours is None:
        return None
    colours = [colours] if is_color_like(colours) else list(colours)
    wrong = [colour for colour in colours if not is_color_like(colour)]
    if wrong or not colours:
        raise ValueError(
            f"`colors` has {wrong[0]!r}, which is no colour of matplotlib's."
            if wrong
            else "`colors` is empty; pass one colour or more, or leave it out."
        )
    return colours


def check_result(result, cls, limits):
    """Check that a result is of a class, and has the limits that are asked for."""
    if not isinstance(result, cls):
        maker = {"KaplanMeier": "kaplan_meier", "AalenJohansen": "aalen_johansen"}[cls.__name__]
        raise TypeError(
            f"`result` is of type {type(result).__name__}; pass what "
            f"sksurvgpu.nonparametric.{maker} returns."
        )
    if limits not in ("interval", "band", None):
        raise ValueError(f"`limits` is {limits!r}; pass 'interval', 'band' or None.")
    if limits == "band" and getattr(result, "band", None) is None:
        raise ValueError("`limits` is 'band', but the curves have none; make them with one.")


def limits_of(lines, limits, start):
    """(times, lower, upper) of the lines of a table of curves, from time 0 on; None for none."""
    if limits is None:
        return None
    columns = ["lower", "upper"] if limits == "interval" else ["band_lower", "band_upper"]
    lower, upper = (np.append(start, lines[column]) for column in columns)
    return np.append(0.0, lines["time"]), lower, upper


def name_of_areas(result, limits):
    """Name of the areas of a result; None without any."""
    return None if limits is None else f"{100 * result.level:g} % {limits}"


def name_of_event(event):
    """Name of a kind of event: its label, or its code in words."""
    return event if isinstance(event, str) else f"event {event}"


def draw_areas(ax, lines, areas):
    """Draw what lies between the limits of curves in their colours; None for those without."""
    drawn = []
    for line, area in zip(lines, areas or [None] * len(lines), strict=True):
        if area is not None:
            drawn.append(
                ax.fill_between(
                    *area, step="post", color=line.get_color(), alpha=opacity_on(ax), linewidth=0.0
                )
            )
    return drawn


def name_beside(ax, lines, title=None):
    """Names of lines beside the axes where there are many; None where there are few."""
    if len(lines) <= MOST_INSIDE:
        return None
    return ax.legend(
        lines,
        _names(lines),
        loc="upper left",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        handlelength=HANDLE,
        labelspacing=0.3,
        ncols=-(-len(lines) // COLUMN),
        title=title,
    )


def name_inside(ax, lines, corners, below=0.0, title=None):
    """Names of lines in the first corner that is free, or below all else, so many points."""
    style = {"handlelength": HANDLE, "title": title}
    return legend_in_corner(ax, lines, _names(lines), corners, below, **style)


def _names(lines):
    return shorten([line.get_label() for line in lines], LONGEST_NAME)
