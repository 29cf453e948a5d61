"""Step curves of a few rows, and their names."""

from __future__ import annotations

import numpy as np

from ._style import COLOURS, shorten

__all__ = [
    "check_functions",
    "count_rows",
    "draw_steps",
    "name_rows",
    "name_steps",
    "predict_steps",
]

MOST_CURVES = 20
MARGIN = 1.02  # the axis ends at so many times the last time
MOST_INSIDE = 8  # names within the axes
COLUMN = 12  # names below each other
STYLES = ("-", "-.", ":", (0, (3, 1, 1, 1, 1, 1)))  # of the first, second, ... use of the colours
LONGEST_NAME = 32  # characters


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


def predict_steps(estimator, method, X, strata, labels):
    """Functions of the rows of X and their names."""
    count_rows(X)
    predict = getattr(estimator, method, None)
    if predict is None:
        raise TypeError(
            f"`estimator` is of type {type(estimator).__name__}, which has no `{method}`."
        )
    functions = predict(X) if strata is None else predict(X, strata=strata)
    return functions, name_rows(X) if labels is None else labels


def check_functions(functions, labels):
    """Lists of functions and of their names."""
    functions = [functions] if hasattr(functions, "x") else list(functions)
    if not functions:
        raise ValueError("there is no curve; pass one step function or more.")
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


def draw_steps(ax, functions, labels, start):
    """Draw functions as steps from their value at time 0, `start`."""
    lines = []
    for i, (function, label) in enumerate(zip(functions, labels, strict=True)):
        time, value = np.asarray(function.x), function.a * np.asarray(function.y) + function.b
        if time[0] > 0:
            time, value = np.r_[0.0, time], np.r_[start, value]
        lines += ax.step(
            time,
            value,
            where="post",
            color=COLOURS[i % len(COLOURS)],
            linestyle=STYLES[i // len(COLOURS)],
            label=label,
        )
    ax.set_xlim(0.0, MARGIN * max(line.get_xdata()[-1] for line in lines))
    ax.set_xlabel("time")
    return lines


def name_steps(ax, lines, place):
    """Names of lines: in the free corner `place` where few, beside the axes where many."""
    is_inside = len(lines) <= MOST_INSIDE
    return ax.legend(
        lines,
        shorten([line.get_label() for line in lines], LONGEST_NAME),
        loc=place if is_inside else "upper left",
        bbox_to_anchor=None if is_inside else (1.0, 1.0),
        frameon=is_inside,
        framealpha=0.85,
        edgecolor="none",
        handlelength=2.0,
        labelspacing=0.3,
        ncols=-(-len(lines) // COLUMN),
    )
