"""Cumulative incidence curves of a few rows."""

import numpy as np

from ..nonparametric import AalenJohansen
from ..nonparametric.groups import ALL
from ._at_risk import count_at_risk, write_at_risk
from ._predicted import parts_of
from ._steps import (
    check_functions,
    check_result,
    draw_areas,
    draw_steps,
    limits_of,
    name_beside,
    name_inside,
    predict_steps,
)
from ._style import new_axes, styled

__all__ = ["CumulativeIncidenceDisplay"]


class CumulativeIncidenceDisplay:
    """Cumulative incidence curves of an event among competing ones.

    Parameters
    ----------
    functions : sequence of sksurv.functions.StepFunction
        Cumulative incidence functions.
    labels : sequence of str, optional
        Their names; by default "row 0" and so on.
    areas : sequence of tuple, optional
        Times, lower and upper limits for each function, None for those without.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.
    lines_ : list of matplotlib Line2D
        Curves of the functions.
    areas_ : list of matplotlib PolyCollection
        Areas between their limits.
    legend_ : matplotlib Legend
        Their names.
    at_risk_ : dict of {str: list of int}
        Numbers at risk in each group.
    at_risk_times_ : list of float
        The times that they are for.

    See Also
    --------
    SurvivalDisplay : Where no events compete.

    Examples
    --------
    >>> from sksurvgpu import CumulativeIncidenceDisplay, FineGrayCCD
    >>> from sksurvgpu.datasets import simulate_fine_gray
    >>> data = simulate_fine_gray(1_000, 50, random_state=0)
    >>> model = FineGrayCCD(alpha=0.02).fit(data.X, data.y)
    >>> display = CumulativeIncidenceDisplay.from_estimator(
    ...     model, data.X[:3], labels=["a", "b", "c"]
    ... )
    >>> [text.get_text() for text in display.legend_.get_texts()]
    ['a', 'b', 'c']
    """

    def __init__(self, functions, labels=None, *, areas=None):
        self.functions, self.labels = check_functions(functions, labels)
        self.areas, self._result = areas, None

    @classmethod
    def from_estimator(cls, estimator, X, *, strata=None, labels=None, ax=None):
        """Draw the curves that an estimator predicts.

        Parameters
        ----------
        estimator : FineGrayCCD
            Fitted, with ``predict_cumulative_incidence_function``.
        X : array, sparse matrix or DataFrame of shape (n_rows, n_features)
            At most 20 rows.
        strata : array-like of shape (n_rows,), optional
            Stratum of each row; required if and only if the model was fitted with strata.
        labels : sequence of str, optional
            Names of the rows; by default the index of a DataFrame, or positions.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : CumulativeIncidenceDisplay
            What was drawn.
        """
        method = "predict_cumulative_incidence_function"
        return cls(*predict_steps(estimator, method, X, strata, labels)).plot(ax)

    @classmethod
    def from_functions(cls, functions, *, labels=None, ax=None):
        """Draw cumulative incidence functions.

        Parameters
        ----------
        functions : sequence of sksurv.functions.StepFunction
            At most 20.
        labels : sequence of str, optional
            Their names; by default "row 0" and so on.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : CumulativeIncidenceDisplay
            What was drawn.
        """
        return cls(functions, labels).plot(ax)

    @classmethod
    def from_result(
        cls, result, *, events=None, labels=None, limits="interval", at_risk=False, ax=None
    ):
        """Draw Aalen-Johansen curves.

        Parameters
        ----------
        result : sksurvgpu.nonparametric.AalenJohansen
            At most 20 curves, one for each group and event.
        events : int or list of int, optional
            Codes of the events to draw; by default all.
        labels : sequence of str, optional
            Names of the curves; by default group and event, where there are several.
        limits : {"interval"} or None, default="interval"
            Areas around the curves: pointwise intervals.
        at_risk : bool, default=False
            Write the numbers at risk in the groups below the axes.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : CumulativeIncidenceDisplay
            What was drawn.
        """
        check_result(result, AalenJohansen, limits)
        events = result.events if events is None else np.atleast_1d(events).tolist()
        if not set(events) <= set(result.events):
            raise ValueError(f"`events` is {events}; the curves are of {result.events}.")
        functions = {key: f for key, f in result.functions.items() if key[1] in events}
        if labels is None:
            labels = [_name(*key, len(result.groups), len(events)) for key in functions]
        own = result.table.groupby(["group", "event"], observed=True)
        areas = [limits_of(own.get_group(key), limits, 0.0) for key in functions]
        display = cls(functions.values(), labels, areas=areas)
        display._result = result
        return display.plot(ax, at_risk=at_risk)

    @classmethod
    def from_intervals(cls, result, *, labels=None, limits="interval", ax=None):
        """Draw predicted incidences or risks with their intervals.

        Parameters
        ----------
        result : CurveIntervals
            Of the cumulative incidence or the risk of at most 20 rows, see `curve_intervals`.
        labels : sequence of str, optional
            Names of the rows; by default the index of a DataFrame, or positions.
        limits : {"interval", "band"} or None, default="interval"
            Areas around the curves: pointwise intervals, or the bands, where the result has some.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : CumulativeIncidenceDisplay
            What was drawn.
        """
        known = ("cumulative_incidence", "risk")
        functions, names, areas = parts_of(result, known, limits, 0.0)
        return cls(functions, names if labels is None else labels, areas=areas).plot(ax)

    def plot(self, ax=None, *, at_risk=False):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.
        at_risk : bool, default=False
            Write the numbers at risk below the axes; for curves from a result.

        Returns
        -------
        display : CumulativeIncidenceDisplay
            This object.
        """
        if at_risk and self._result is None:
            raise ValueError("`at_risk` needs curves of rows; draw them by from_result.")
        with styled():
            self.ax_, self.figure_ = new_axes(ax)
            self.lines_ = draw_steps(self.ax_, self.functions, self.labels, 0.0)
            self.areas_ = draw_areas(self.ax_, self.lines_, self.areas)
            self.ax_.set_ylim(bottom=0.0)
            self.ax_.set_ylabel("cumulative incidence")
            self.at_risk_, self.at_risk_times_ = {}, []
            self.legend_ = name_beside(self.ax_, self.lines_)
            depth = 0.0
            if at_risk:
                counted = count_at_risk(self.ax_, self._result)
                self.at_risk_, self.at_risk_times_ = counted
                depth = write_at_risk(self.ax_, *counted, ALL)
            if self.legend_ is None:
                corners = ("upper left", "lower right")
                self.legend_ = name_inside(self.ax_, self.lines_, corners, depth)
        return self


def _name(group, event, n_groups, n_events):
    """What tells a curve from the others."""
    if n_groups == 1:
        return f"event {event}"
    return str(group) if n_events == 1 else f"{group}, event {event}"
