"""Cumulative incidence curves of a few rows, beside what was observed."""

import numpy as np

from ..data.outcomes.fields import labels_of
from ..estimators._pipelines import split_pipeline
from ..nonparametric import AalenJohansen
from ._at_risk import show_at_risk
from ._docs import documented
from ._observed import draw_observed, named_lines, observe
from ._predicted import parts_of
from ._steps import (
    check_functions,
    check_result,
    draw_areas,
    draw_steps,
    limits_of,
    name_beside,
    name_inside,
    name_of_areas,
    name_of_event,
    predict_steps,
)
from ._style import count_of, new_axes, styled

__all__ = ["CumulativeIncidenceDisplay"]

NAME = "Aalen-Johansen"


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
    observed_ : dict of {str: matplotlib Line2D}
        Aalen-Johansen curves of the groups.
    legend_ : matplotlib Legend
        Their names.
    at_risk_ : dict of {str: list of int}
        Numbers at risk in each group.
    at_risk_times_ : list of float
        The times that they are for.

    See Also
    --------
    StackedIncidenceDisplay : All events on top of each other.
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
        self.areas, self._result, self._styles, self._shade = areas, None, None, None

    def __repr__(self) -> str:
        return f"<CumulativeIncidenceDisplay of {count_of(self.functions, 'curve')}>"

    @classmethod
    @documented
    def from_estimator(
        cls,
        estimator,
        X,
        *,
        strata=None,
        labels=None,
        ax=None,
        **options,
    ):
        """Draw the curves that an estimator predicts.

        Parameters
        ----------
        estimator : FineGrayCCD
            Fitted, with ``predict_cumulative_incidence_function``. Observed curves are of its
            event of interest unless another one is given.
        <<X, strata, labels, ax, **options>>

        Returns
        -------
        display : CumulativeIncidenceDisplay
            What was drawn.
        """
        method = "predict_cumulative_incidence_function"
        display = cls(*predict_steps(estimator, method, X, strata, labels))
        _, model = split_pipeline(estimator)
        own = {"event_of_interest": getattr(model, "event_of_interest", 1)}
        return display.plot(ax, **own | options)

    @classmethod
    @documented
    def from_functions(
        cls,
        functions,
        *,
        labels=None,
        ax=None,
        **options,
    ):
        """Draw cumulative incidence functions.

        Parameters
        ----------
        <<functions, labels, ax, **options>>

        Returns
        -------
        display : CumulativeIncidenceDisplay
            What was drawn.
        """
        return cls(functions, labels).plot(ax, **options)

    @classmethod
    @documented
    def from_result(
        cls, result, *, events=None, labels=None, limits="interval", ax=None, **options
    ):
        """Draw Aalen-Johansen curves.

        Parameters
        ----------
        result : sksurvgpu.nonparametric.AalenJohansen
            At most 20 curves, one for each group and event. Of several of both, groups have
            colours and events have styles.
        events : int, str or list of these, optional
            Codes or labels of the events to draw, in their order; by default all.
        labels : sequence of str, optional
            Names of the curves, of each group its events; by default group and event, where there
            are several.
        limits : {"interval"} or None, default="interval"
            Areas around the curves: pointwise intervals.
        <<ax, **options>>

        Returns
        -------
        display : CumulativeIncidenceDisplay
            What was drawn.
        """
        check_result(result, AalenJohansen, limits)
        events = result.events if events is None else list(dict.fromkeys(np.ravel(events).tolist()))
        if not set(events) <= set(result.events):
            raise ValueError(f"`events` is {events}; the curves are of {result.events}.")
        curves = result.functions
        functions = {(g, e): curves[g, e] for g in result.groups for e in events}
        if labels is None:
            labels = [_name(*key, len(result.groups), len(events)) for key in functions]
        own = result.table.groupby(["group", "event"], observed=True)
        areas = [limits_of(own.get_group(key), limits, 0.0) for key in functions]
        display = cls(functions.values(), labels, areas=areas)
        display._result, display._shade = result, name_of_areas(result, limits)
        if len(result.groups) > 1:
            display._styles = [(result.groups.index(g), events.index(e)) for g, e in functions]
        return display.plot(ax, **options)

    @classmethod
    @documented
    def from_intervals(
        cls,
        result,
        *,
        labels=None,
        limits="interval",
        ax=None,
        **options,
    ):
        """Draw predicted incidences or risks with their intervals.

        Parameters
        ----------
        result : CurveIntervals
            Of the cumulative incidence or the risk of at most 20 rows, see `curve_intervals`.
        <<labels, limits, ax, **options>>

        Returns
        -------
        display : CumulativeIncidenceDisplay
            What was drawn.
        """
        known = ("cumulative_incidence", "risk")
        functions, names, areas = parts_of(result, known, limits, 0.0)
        display = cls(functions, names if labels is None else labels, areas=areas)
        display._shade = name_of_areas(result, limits)
        return display.plot(ax, **options)

    @documented
    def plot(
        self,
        ax=None,
        *,
        aalen_johansen=None,
        groups=None,
        event_of_interest=1,
        at_risk=False,
        colors=None,
        legend_title=None,
    ):
        """Draw the curves.

        Parameters
        ----------
        <<ax, aalen_johansen, groups, event_of_interest, at_risk, colors, legend_title>>

        Returns
        -------
        display : CumulativeIncidenceDisplay
            This object.
        """
        if self._result is not None and (aalen_johansen is not None or groups is not None):
            raise ValueError("the curves are those of a result; draw other ones beside a model's.")
        seen = self._result or observe("aalen_johansen", aalen_johansen, groups, at_risk)
        if aalen_johansen is not None:
            labels = labels_of(aalen_johansen[aalen_johansen.dtype.names[0]])
            event_of_interest = labels.get(event_of_interest, event_of_interest)
        if self._result is None and seen and event_of_interest not in seen.events:
            raise ValueError(
                f"`event_of_interest` is {event_of_interest!r}; `aalen_johansen` has the events "
                f"{seen.events}."
            )
        with styled():
            self.ax_, self.figure_ = new_axes(ax)
            self.lines_ = draw_steps(
                self.ax_, self.functions, self.labels, 0.0, self._styles, colors
            )
            self.areas_ = draw_areas(self.ax_, self.lines_, self.areas)
            self.observed_ = {}
            if self._result is None and seen:
                curves = {group: seen.functions[group, event_of_interest] for group in seen.groups}
                self.observed_ = draw_observed(self.ax_, curves, self.lines_, NAME)
            self.ax_.set_ylim(bottom=0.0)
            self.ax_.set_ylabel("cumulative incidence")
            named = named_lines(self.ax_, self.lines_, self.observed_, NAME, areas=self._shade)
            self.legend_ = name_beside(self.ax_, named, legend_title)
            self.at_risk_, self.at_risk_times_, depth = show_at_risk(
                self.ax_, seen if at_risk else None, self._curves()
            )
            if self.legend_ is None:
                corners = ("upper left", "lower right")
                self.legend_ = name_inside(self.ax_, named, corners, depth, legend_title)
        return self

    def _curves(self):
        """A curve of each group, in whose colour it is drawn."""
        if self._styles is None:
            return self.observed_
        first = {k: i for i, (k, _) in reversed([*enumerate(self._styles)])}
        return {str(self._result.groups[k]): self.lines_[i] for k, i in first.items()}


def _name(group, event, n_groups, n_events):
    """What tells a curve from the others."""
    if n_groups == 1:
        return name_of_event(event)
    return str(group) if n_events == 1 else f"{group}, {name_of_event(event)}"
