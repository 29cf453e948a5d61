"""Survival curves of a few rows, beside what was observed."""

from itertools import cycle

import narwhals as nw
import numpy as np

from ..data.outcomes.survival import read_outcome
from ..data.vectors import check_labels, encode
from ._bands import functions_of, shade
from ._labels import below_axis
from ._steps import (
    MARGIN,
    MOST_CURVES,
    check_functions,
    draw_steps,
    name_beside,
    name_inside,
    predict_steps,
)
from ._style import (
    CHARACTER,
    COLOURS,
    MUTED,
    is_dark,
    lay_out,
    new_axes,
    shorten,
    styled,
    text_size,
)

__all__ = ["SurvivalDisplay"]

ALL = "all"  # the name of the only group
DASHES = (0, (4, 1.5))
LINE = 1.3  # distance of lines of text, in units of their size
LONGEST_NAME = 16  # characters, of a group


class SurvivalDisplay:
    """Survival curves, with Kaplan-Meier curves and numbers at risk where an outcome is given.

    Parameters
    ----------
    functions : sequence of sksurv.functions.StepFunction
        Survival functions.
    labels : sequence of str, optional
        Their names; by default "row 0" and so on.
    intervals : CurveIntervals, optional
        Intervals of the same curves, which are shaded.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.
    lines_ : list of matplotlib Line2D
        Curves of the functions.
    shades_ : list of matplotlib PolyCollection
        Intervals and bands of the functions, if there are any.
    observed_ : dict of {str: matplotlib Line2D}
        Kaplan-Meier curves of the groups.
    legend_ : matplotlib Legend
        Names of the curves.
    at_risk_ : dict of {str: list of int}
        Numbers at risk in each group.
    at_risk_times_ : list of float
        The times that they are for.

    See Also
    --------
    CumulativeIncidenceDisplay : For competing risks.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, SurvivalDisplay
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.02).fit(data.X, data.y)
    >>> display = SurvivalDisplay.from_estimator(
    ...     model, data.X[:3], kaplan_meier=data.y, at_risk=True
    ... )
    >>> len(display.lines_), display.at_risk_["all"][0]
    (3, 1000)
    """

    def __init__(self, functions, labels=None, intervals=None):
        self.functions, self.labels = check_functions(functions, labels)
        self.intervals = intervals

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        strata=None,
        labels=None,
        kaplan_meier=None,
        groups=None,
        at_risk=False,
        ax=None,
    ):
        """Draw the curves that an estimator predicts.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``predict_survival_function``.
        X : array, sparse matrix or DataFrame of shape (n_rows, n_features)
            At most 20 rows.
        strata : array-like of shape (n_rows,), optional
            Stratum of each row; required if and only if the model was fitted with strata.
        labels : sequence of str, optional
            Names of the rows; by default the index of a DataFrame, or positions.
        kaplan_meier : structured ndarray of shape (n_samples,), optional
            Outcome whose Kaplan-Meier curves are drawn, dashed.
        groups : array-like of shape (n_samples,), optional
            Group of each of its entries, with a curve each: categories in their order, numbers
            ascending, other labels as they appear. A group that is called as one of `labels` gets
            the same colour.
        at_risk : bool, default=False
            Write the numbers at risk in these groups below the axes.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : SurvivalDisplay
            What was drawn.
        """
        functions, labels = predict_steps(estimator, "predict_survival_function", X, strata, labels)
        return cls(functions, labels).plot(
            ax, kaplan_meier=kaplan_meier, groups=groups, at_risk=at_risk
        )

    @classmethod
    def from_functions(
        cls, functions, *, labels=None, kaplan_meier=None, groups=None, at_risk=False, ax=None
    ):
        """Draw survival functions.

        Parameters
        ----------
        functions : sequence of sksurv.functions.StepFunction
            At most 20.
        labels : sequence of str, optional
            Their names; by default "row 0" and so on.
        kaplan_meier : structured ndarray of shape (n_samples,), optional
            Outcome whose Kaplan-Meier curves are drawn, dashed.
        groups : array-like of shape (n_samples,), optional
            Group of each of its entries, with a curve each: categories in their order, numbers
            ascending, other labels as they appear.
        at_risk : bool, default=False
            Write the numbers at risk in these groups below the axes.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : SurvivalDisplay
            What was drawn.
        """
        return cls(functions, labels).plot(
            ax, kaplan_meier=kaplan_meier, groups=groups, at_risk=at_risk
        )

    @classmethod
    def from_intervals(
        cls, intervals, *, labels=None, kaplan_meier=None, groups=None, at_risk=False, ax=None
    ):
        """Draw predicted survival functions with their intervals, and bands if there are any.

        Parameters
        ----------
        intervals : CurveIntervals
            Of the survival, see `curve_intervals`; at most 20 rows.
        labels : sequence of str, optional
            Names of the rows; by default the index of a DataFrame, or positions.
        kaplan_meier : structured ndarray of shape (n_samples,), optional
            Outcome whose Kaplan-Meier curves are drawn, dashed.
        groups : array-like of shape (n_samples,), optional
            Group of each of its entries, with a curve each.
        at_risk : bool, default=False
            Write the numbers at risk in these groups below the axes.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : SurvivalDisplay
            What was drawn.
        """
        functions, own = functions_of(intervals, ("survival",))
        return cls(functions, own if labels is None else labels, intervals).plot(
            ax, kaplan_meier=kaplan_meier, groups=groups, at_risk=at_risk
        )

    def plot(self, ax=None, *, kaplan_meier=None, groups=None, at_risk=False):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        kaplan_meier : structured ndarray of shape (n_samples,), optional
            Outcome whose Kaplan-Meier curves are drawn, dashed.
        groups : array-like of shape (n_samples,), optional
            Group of each of its entries, with a curve each: categories in their order, numbers
            ascending, other labels as they appear.
        at_risk : bool, default=False
            Write the numbers at risk in these groups below the axes.

        Returns
        -------
        display : SurvivalDisplay
            This object.
        """
        observed = _split(kaplan_meier, groups, at_risk)
        with styled():
            self.ax_, self.figure_ = new_axes(ax)
            self.lines_ = draw_steps(self.ax_, self.functions, self.labels, 1.0)
            self.shades_ = shade(self.ax_, self.lines_, self.intervals)
            self.observed_ = self._draw_observed(observed)
            self.ax_.set_ylim(0.0, 1.02)
            self.ax_.set_ylabel("survival")
            self.at_risk_, self.at_risk_times_ = {}, []
            named = self._named_lines()
            self.legend_ = name_beside(self.ax_, named)  # which moves the numbers of the axis
            depth = 0.0
            if at_risk:
                self._count_at_risk(observed)
                depth = self._write_at_risk()
            if self.legend_ is None:
                self.legend_ = name_inside(self.ax_, named, ("lower left", "upper right"), depth)
        return self

    def _draw_observed(self, observed):
        from sksurv.nonparametric import kaplan_meier_estimator

        colour_of = dict(zip(self.labels, (line.get_color() for line in self.lines_), strict=True))
        strong = "0.7" if is_dark(self.ax_) else "0.35"
        drawn, others = {}, cycle([strong, *COLOURS[::-1]])
        for key, (event, time, start) in observed.items():
            times, survival = kaplan_meier_estimator(event, time, time_enter=start)
            self.ax_.set_xlim(right=max(self.ax_.get_xlim()[1], MARGIN * times[-1]))
            [drawn[key]] = self.ax_.step(
                np.r_[0.0, times],
                np.r_[1.0, survival],
                where="post",
                color=colour_of.get(key, next(others)),
                linewidth=0.9,
                linestyle=DASHES,
                label="Kaplan-Meier" if key == ALL else f"{key} (Kaplan-Meier)",
            )
        return drawn

    def _named_lines(self):
        from matplotlib.lines import Line2D

        others = [line for key, line in self.observed_.items() if key not in self.labels]
        if len(others) < len(self.observed_):
            others.append(Line2D([], [], color=MUTED, linestyle=DASHES, label="Kaplan-Meier"))
        return self.lines_ + others

    def _count_at_risk(self, observed):
        """Count at the numbers of the axis; at every second or third where there is no room."""
        ax = self.ax_
        lay_out(ax)
        low, high = ax.get_xlim()
        ticks = np.array([tick for tick in ax.get_xticks() if low <= tick <= high])
        apart = np.diff(ax.transData.transform(np.column_stack([ticks, ticks]))[:, 0])
        n_digits = len(f"{max(len(time) for _, time, _ in observed.values()):,}")
        needed = CHARACTER * text_size(ax) * (n_digits + 1) * ax.figure.dpi / 72.0
        step = int(np.ceil(needed / apart.min())) if len(apart) else 1
        self.at_risk_times_ = ticks[::step].tolist()
        for key, (_, time, start) in observed.items():
            # Whoever is there from the start is counted at time 0.
            start = np.zeros_like(time) if start is None else start
            self.at_risk_[key] = [
                int(np.count_nonzero((time >= tick) & ((start < tick) | (start <= 0))))
                for tick in self.at_risk_times_
            ]

    def _write_at_risk(self):
        """Write a line for each group below the axes; return how far down they reach, in points."""
        ax, size = self.ax_, text_size(self.ax_)
        depth = below_axis(ax) + 0.8 * size

        def write(text, place, depth, offset, side):
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
            )

        left = ax.get_xlim()[0]
        write("number at risk", (left, 0.0), depth, 0.0, "left")
        for key, counts in self.at_risk_.items():
            depth += LINE * size
            if len(self.at_risk_) > 1 or key != ALL:
                write(shorten([key], LONGEST_NAME)[0], (left, 0.0), depth, -2.0 * size, "right")
            for tick, count in zip(self.at_risk_times_, counts, strict=True):
                write(f"{count:,}", (tick, 0.0), depth, 0.0, "center")
        return depth + 0.5 * LINE * size


def _split(y, groups, at_risk):
    """{group: (event, time, start)} of an outcome."""
    if y is None:
        if at_risk or groups is not None:
            name = "at_risk" if at_risk else "groups"
            raise ValueError(f"`{name}` needs an outcome: pass it as `kaplan_meier`.")
        return {}
    outcome = read_outcome(y, name="kaplan_meier", model=None)
    observed = outcome.event, outcome.time, outcome.start
    if groups is None:
        return {ALL: observed}
    codes, distinct = encode(check_labels(groups, "groups", outcome.n_rows))
    if len(distinct) > MOST_CURVES:
        raise ValueError(
            f"`groups` has {len(distinct):,} groups, a figure shows the curves of at most "
            f"{MOST_CURVES}; join some."
        )
    return {
        str(distinct[code]): tuple(
            None if values is None else values[codes == code] for values in observed
        )
        for code in _in_order(groups, codes, distinct)
    }


def _in_order(groups, codes, distinct):
    """Codes of the groups in the order of their categories, of numbers, or of appearance."""
    from pandas import CategoricalDtype

    dtype = getattr(groups, "dtype", None)
    if not isinstance(dtype, CategoricalDtype):
        series = nw.from_native(groups, allow_series=True, pass_through=True)
        dtype = series.dtype if isinstance(series, nw.Series) else None
    if isinstance(dtype, CategoricalDtype | nw.Enum):
        code_of = {label: code for code, label in enumerate(distinct.tolist())}
        return [code_of[label] for label in dtype.categories if label in code_of]
    return range(len(distinct)) if distinct.dtype.kind in "biu" else dict.fromkeys(codes.tolist())
