"""Figures of the items, and what was published.

Colours and markers tell series apart. ``published.csv`` has figures as their authors give them,
each with its hardware; those with seconds are stars, at their places on the item's axis.
"""

from __future__ import annotations

import csv
from itertools import cycle
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

import matplotlib
import numpy as np

matplotlib.use("Agg")
from cycler import cycler
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter, LogFormatterSciNotation, LogLocator, NullFormatter

COLOURS = ("#0b6fa4", "#d1495b", "#3a7d44", "#8f5aa8", "#c77d1a", "#5c6b73")
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, MUTED, GRID, OTHERS = "#222222", "#6b6b6b", "#dddddd", "#b5b5b5"
STYLE = {
    "font.size": 10,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.constrained_layout.use": True,
}
WIDTH, HEIGHT = 5.2, 3.6  # inches of a panel
FEW_DECADES = 2.2  # of a logarithmic axis that needs more than powers of ten
LEGEND = 34  # characters of a line


SOURCES = {
    "A": "Yang, Schuemie, Ji and Suchard: massive parallelization of massive sample-size survival "
    "analysis",
    "B": "Suchard, Simpson, Zorych, Ryan and Madigan (2013): massive parallelization of serial "
    "inference algorithms for a complex generalized linear model",
    "C": "Yang, Schuemie and Suchard: efficient GPU-accelerated fitting of stratified and "
    "time-varying Cox models",
    "D": "Tian (2018): GPU logistic and conditional logistic regression, slides",
    "E": "Cesnovar and Strumbelj (2017): Bayesian lasso and multinomial logistic regression on GPU",
}


class Figure(NamedTuple):
    """One published number or range, as text, perhaps in seconds, and where it was measured."""

    what: str
    value: str
    hardware: str
    seconds: float | None
    at: float | None


def _read_published():
    found = {}
    with Path(__file__).with_name("published.csv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            numbers = [float(row[name]) if row[name] else None for name in ("seconds", "at")]
            figure = Figure(row["what"], row["value"], row["hardware"], *numbers)
            found.setdefault(row["item"], []).append(figure)
    return found


PUBLISHED = _read_published()


def drawing():
    """Context with our settings, for all of an item."""
    return pyplot.rc_context(STYLE)


def panels(n, *, height=HEIGHT, width=None):
    """Figure and a list of axes beside each other; one alone is wide, with room for a legend."""
    width = width or (8.0 if n == 1 else WIDTH)
    figure, axes = pyplot.subplots(1, n, figsize=(width * n, height), squeeze=False)
    return figure, list(axes[0])


def save_figure(figure, path):
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def series_of(rows, x, y="seconds", by="solver", **chosen):
    """{name: (x values, y values)} of the rows that have both, in their order."""
    series = {}
    for row in rows:
        if all(row.get(key) == value for key, value in chosen.items()) and row.get(y) is not None:
            xs, ys = series.setdefault(row[by], ([], []))
            xs.append(row[x])
            ys.append(row[y])
    return series


def draw_lines(ax, series, *, xlabel, ylabel="seconds", title="", published=(), logs="xy"):
    """Lines with markers, published figures in seconds as stars, the legend off the curves."""
    looks = zip(cycle(COLOURS), cycle(MARKERS), strict=False)
    for (name, (x, y)), (colour, marker) in zip(series.items(), looks, strict=False):
        ax.plot(x, y, color=colour, marker=marker, ms=5, lw=1.6, label=name)
    shown = [figure for figure in published if figure.seconds and figure.at]
    for figure, colour in zip(shown, cycle((INK, MUTED)), strict=False):
        label = "\n".join(wrap(f"published: {figure.what}, {figure.hardware}", LEGEND))
        ax.plot(figure.at, figure.seconds, "*", color=colour, ms=11, label=label)
    if "x" in logs:
        ax.set_xscale("log")
        _label_logs(ax.xaxis, ax.get_xlim())
    if "y" in logs:
        ax.set_yscale("log")
        _label_logs(ax.yaxis, ax.get_ylim())
    else:
        ax.set_ylim(bottom=0)
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _label_logs(axis, limits):
    """Powers of ten alone over many decades, 1, 2 and 5 over few."""
    axis.set_minor_formatter(NullFormatter())
    if np.log10(limits[1] / limits[0]) < FEW_DECADES:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def draw_bars(ax, names, values, *, xlabel, title="", n_ours=None, form="{:.3g}", log=False):
    """Horizontal bars with their numbers at the end, the first on top; grey after `n_ours`."""
    places = range(len(names))
    n_ours = len(names) if n_ours is None else n_ours
    colours = [COLOURS[0]] * n_ours + [OTHERS] * (len(names) - n_ours)
    ax.barh(places, values, color=colours, height=0.62)
    ax.set_yticks(places, names)
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    if log:
        ax.set_xscale("log")
        ax.set_xlim(min(values) / 3.0, max(values) * 3.0)
        ax.xaxis.set_major_formatter(LogFormatterSciNotation())
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        ax.set_xlim(0.0, 1.2 * max(values))
    for place, value in zip(places, values, strict=True):
        where = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        ax.annotate(form.format(value), (value, place), fontsize=9, color=INK, **where)
    ax.set(xlabel=xlabel, title=title)


def draw_intervals(ax, rows, names, ends, *, truth, xlabel, title):
    """Horizontal intervals, the first on top, and a line at the truth."""
    for k, row in enumerate(rows):
        low, at, high = ends(row)
        ax.plot([low, high], [k, k], color=COLOURS[0], lw=2)
        ax.plot(at, k, "o", color=COLOURS[0], ms=6)
    ax.axvline(truth, color=COLOURS[1], lw=1.2, ls="--", label="truth")
    ax.set_yticks(range(len(rows)), [names(row) for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set(xlabel=xlabel, title=title)
