"""Curves of groups without a model: beside predicted ones, with marks, medians and a test."""

from itertools import cycle

import numpy as np

from ..data.outcomes.fields import read_survival
from ..data.outcomes.survival import surv
from ..nonparametric import aalen_johansen, kaplan_meier
from ..nonparametric import log_rank as compare
from ..nonparametric.groups import ALL
from ._labels import text_in_corner
from ._steps import MARGIN, MOST_CURVES
from ._style import MUTED, colours_on, is_dark, opacity_on, size_of

DASHES, DOTS = (0, (4, 1.5)), (0, (1, 2))
ESTIMATES = {
    "kaplan_meier": (kaplan_meier, "b", "pass it as `aalen_johansen` of incidences"),
    "aalen_johansen": (aalen_johansen, "iu", "pass it as `kaplan_meier` of survival"),
}
TICK = {"marker": "|", "markersize": 5.0, "markeredgewidth": 0.7, "linestyle": "none"}
APART = 1.5  # points between two ticks


def observe(name, y, groups, at_risk):
    """Curves of an outcome that was passed as `name`; None without one."""
    if y is None:
        if at_risk or groups is not None:
            option = "at_risk" if at_risk else "groups"
            raise ValueError(f"`{option}` needs an outcome: pass it as `{name}`.")
        return None
    estimate, kinds, otherwise = ESTIMATES[name]
    read_survival(y, kinds, otherwise, name=name)
    if groups is None:  # strata would be groups
        y = y[[field for field in y.dtype.names if field != "stratum"]]
    result = estimate(y, groups=groups)
    if len(result.groups) > MOST_CURVES:
        raise ValueError(
            f"`groups` has {len(result.groups):,} groups, a figure shows the curves of at most "
            f"{MOST_CURVES}; join some."
        )
    return result


def draw_observed(ax, functions, lines, name):
    """Draw functions by group, dashed; in the colour of the line that is called as the group."""
    colour_of = {line.get_label(): line.get_color() for line in lines}
    drawn, others = {}, cycle(["0.7" if is_dark(ax) else "0.35", *colours_on(ax)[::-1]])
    for label, function in functions.items():
        key = str(label)
        ax.set_xlim(right=max(ax.get_xlim()[1], MARGIN * function.x[-1]))
        [drawn[key]] = ax.step(
            function.x,
            function.y,
            where="post",
            color=colour_of.get(key, next(others)),
            linewidth=0.9,
            linestyle=DASHES,
            label=name if key == ALL else f"{key} ({name})",
        )
    return drawn


def named_lines(ax, lines, observed, name, has_ticks=False, areas=None):
    """Artists for the legend: lines, ticks, and areas if these have a name."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    labels = [line.get_label() for line in lines]
    others = [line for key, line in observed.items() if key not in labels]
    if len(others) < len(observed):
        others.append(Line2D([], [], color=MUTED, linestyle=DASHES, label=name))
    if has_ticks:
        others.append(Line2D([], [], color=MUTED, label="censored", **TICK))
    if areas is not None:
        others.append(Patch(color=MUTED, alpha=opacity_on(ax), linewidth=0.0, label=areas))
    return [*lines, *others]


def mark_censored(ax, result, lines):
    """Ticks on Kaplan-Meier curves, lines in the order of the groups; by group."""
    per_point = size_of(ax)[0] / np.ptp(ax.get_xlim())
    drawn = {}
    for line, (key, own) in zip(lines, result.table.groupby("group", observed=True), strict=True):
        own = own[own["n_censored"] > 0]
        cell = np.floor(own["time"].to_numpy() * per_point / APART)
        own = own[np.diff(cell, prepend=-1.0) > 0]
        if len(own):
            style = {"color": line.get_color(), "zorder": line.get_zorder(), **TICK}
            [drawn[str(key)]] = ax.plot(own["time"], own["survival"], **style)
    return drawn


def draw_medians(ax, result, lines):
    """Dotted lines from one half to the medians that are reached, and down; by group."""
    medians = result.median["quantile"].dropna()
    colour_of = dict(zip(result.groups, (line.get_color() for line in lines), strict=True))
    style = {"linewidth": 0.8, "linestyle": DOTS, "zorder": 1}
    return {
        str(key): ax.plot([0.0, m, m], [0.5, 0.5, 0.0], color=colour_of[key], **style)[0]
        for key, m in medians.items()
    }


def test_of_groups(result, y, groups):
    """Log-rank test of an outcome, or of the rows that a result counts; None where there is none.

    The lines of a table, with the numbers of events and of censored rows as weights, are the rows.
    """
    if result is None or len(result.groups) < 2:
        return None
    try:
        if y is not None:
            return compare(y, groups)
        if result.robust or not result.has_all_rows:
            return None
        table = result.table
        number = np.concatenate([table["n_events"], table["n_censored"]])
        if np.any(number % 1.0):
            return None
        there = number > 0
        event = np.repeat([True, False], len(table))[there]
        rows = surv(event, np.tile(table["time"], 2)[there])
        group = np.tile(table["group"].cat.codes, 2)[there]
        return compare(rows, group, sample_weight=number[there], robust=False)
    except ValueError:  # there is no event, or groups are never at risk together
        return None


def write_test(ax, test, is_stratified):
    """P-value of a test in a free corner; None without one."""
    if test is None:
        return None
    p = test.p_value
    number = "< 0.001" if p < 0.001 else f"= {p:.2f}" if p >= 0.1 else f"= {p:.2g}"
    kind = "stratified log-rank" if is_stratified else "log-rank"
    corners = ("lower left", "upper right", "lower right", "upper left")
    return text_in_corner(ax, f"{'weighted ' * (test.rho != 0)}{kind} p {number}", corners)
