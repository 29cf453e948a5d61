"""Cumulative incidences of all events, or probabilities of states, on top of each other."""

import numpy as np
from sksurv.functions import StepFunction

from .._warnings import keep_warnings
from ..estimators.causes import NO_EVENT
from ..estimators.multi_state import first_state
from ..nonparametric import AalenJohansen
from ..nonparametric.groups import ALL
from ._at_risk import count_at_risk, write_at_risk
from ._display import Display, wrong_type
from ._labels import label_ends
from ._steps import (
    MARGIN,
    check_functions,
    check_result,
    count_rows,
    name_of_event,
    name_rows,
    predict_steps,
)
from ._style import MUTED, colours_on, count_of, lay_out, room_for_names, shorten, title_panels

MOST_PANELS, MOST_EVENTS = 12, 6
PANEL_SIZE = 2.4, 3.0  # inches: width at least, height about
NAMES_SHARE = 0.36  # of the width of the figure
FILL, REST = 0.85, 0.3  # opacity of an event, and of no event


class StackedIncidenceDisplay(Display):
    """Cumulative incidences of all events, stacked, with a panel for each group.

    The height of an area is the probability of its event by a time. The area on top is the
    probability of no event, so that all sum to 1.

    Parameters
    ----------
    functions : dict of {str: sequence of sksurv.functions.StepFunction}
        For each group the cumulative incidence functions of the events, from below.
    labels : sequence of str, optional
        Names of the events; by default their labels, or "event 1" and so on.
    rest : str, default="no event"
        Name of what is left above them.

    Attributes
    ----------
    <<axes_>>
    areas_ : dict of {str: list of matplotlib PolyCollection}
        Areas of each group: those of the events from below, and that of none.
    labels_ : list of matplotlib Annotation
        Names of the areas, beside the last panel.
    <<at_risk_>>

    See Also
    --------
    CumulativeIncidenceDisplay : Curves with intervals, beside predicted ones.

    Examples
    --------
    >>> from sksurvgpu import StackedIncidenceDisplay
    >>> from sksurvgpu.datasets import simulate_fine_gray
    >>> from sksurvgpu.nonparametric import aalen_johansen
    >>> data = simulate_fine_gray(500, 2, density=0.5, random_state=0)
    >>> is_exposed = data.X[:, [0]].toarray().ravel() > 0
    >>> curves = aalen_johansen(data.y, groups=is_exposed)
    >>> display = StackedIncidenceDisplay.from_result(curves, labels=["relapse", "death"])
    >>> display
    <StackedIncidenceDisplay of 2 events in 2 groups>
    >>> [label.get_text() for label in display.labels_]
    ['relapse', 'death', 'no event']
    """

    def __init__(self, functions, labels=None, *, rest=NO_EVENT):
        self.functions, self.rest, self._result = {}, rest, None
        for key, curves in functions.items():
            n_events = 1 if hasattr(curves, "x") else len(curves)
            names = [f"event {i + 1}" for i in range(n_events)] if labels is None else labels
            self.functions[str(key)], self.labels = check_functions(curves, names)
        n_groups = len(self.functions)
        if not 1 <= n_groups <= MOST_PANELS:
            raise ValueError(
                f"there are {n_groups:,} groups, a figure shows between 1 and {MOST_PANELS}."
            )
        if {len(curves) for curves in self.functions.values()} != {len(self.labels)}:
            raise ValueError("the groups have different numbers of events; pass as many for each.")
        if len(self.labels) > MOST_EVENTS:
            raise ValueError(
                f"there are {len(self.labels):,} events, a figure shows at most {MOST_EVENTS}; "
                "join some."
            )

    def _shows(self):
        return f"{count_of(self.labels, 'event')} in {count_of(self.functions, 'group')}"

    @classmethod
    def from_estimator(
        cls, estimator, X, *, strata=None, state=None, start=None, labels=None, axes=None
    ):
        """Draw incidences or probabilities of states that a model predicts, a panel a row.

        Parameters
        ----------
        estimator : CauseSpecificCox or MultiStateCox
            Fitted.
        X : table of shape (n_rows, n_features)
            At most 12 rows; the index of a DataFrame names their panels.
        strata : array-like of shape (n_rows,), optional
            Stratum of each row; required if and only if the model was fitted with strata.
        state : int or str, optional
            State of all rows at the start, above the others, of a `MultiStateCox`.
        start : float or array-like of shape (n_rows,), optional
            Time until which rows are free of events, or at which they are in `state`.
        labels : sequence of str, optional
            Names of the events or of the other states; by default their labels or codes.
        <<axes>>

        <<drawn>>
        """
        if hasattr(estimator, "states_"):
            first = first_state(estimator) if state is None else state
            others = [one for one in estimator.states_ if one != first]
            rows = _curves_of_states(estimator, X, strata, first, start)
            curves = {name: [row[one] for one in others] for name, row in rows.items()}
            labels = [*map(str, others)] if labels is None else labels
            return cls(curves, labels, rest=str(first)).plot(axes)
        if not hasattr(estimator, "events_"):
            known = "; pass a fitted CauseSpecificCox or MultiStateCox"
            raise wrong_type("estimator", estimator, known)
        if state is not None:
            raise ValueError("`state` is for a MultiStateCox; leave it out.")
        method, events = "predict_cumulative_incidence_function", estimator.events_
        found = [
            predict_steps(estimator, method, X, strata, None, event=event, start=start)
            for event in events
        ]
        rows = zip(*(curves for curves, _ in found), strict=True)
        labels = [name_of_event(event) for event in events] if labels is None else labels
        return cls(dict(zip(found[0][1], map(list, rows), strict=True)), labels).plot(axes)

    @classmethod
    def from_result(cls, result, *, labels=None, at_risk=False, axes=None):
        """Draw Aalen-Johansen curves.

        Parameters
        ----------
        result : sksurvgpu.nonparametric.AalenJohansen
            Curves of all events, of at most 12 groups.
        labels : sequence of str, optional
            Names of the events in the order of their codes; by default "event 1" and so on.
        <<at_risk, axes>>

        <<drawn>>
        """
        check_result(result, AalenJohansen, None)
        if labels is None:
            labels = [name_of_event(event) for event in result.events]
        curves = result.functions
        functions = {g: [curves[g, event] for event in result.events] for g in result.groups}
        display = cls(functions, labels)
        display._result = result
        return display.plot(axes, at_risk=at_risk)

    def plot(self, axes=None, *, at_risk=False):
        """Draw the areas.

        Parameters
        ----------
        <<axes>>
        at_risk : bool, default=False
            Write below the axes how many are at risk in each group; for curves from a result.

        <<display>>
        """
        if at_risk and self._result is None:
            raise ValueError("`at_risk` needs curves of rows; draw them by from_result.")
        with self._on_panels(axes, len(self.functions), "group", PANEL_SIZE) as panels:
            self.areas_, self.at_risk_ = {}, {}
            for ax, (key, functions) in zip(panels, self.functions.items(), strict=True):
                times, tops = _stack(functions)
                self.areas_[key] = _draw_areas(ax, times, tops)
                ax.set(xlim=(0.0, MARGIN * times[-1]), ylim=(0.0, max(1.0, tops[-2].max())))
                ax.set_xlabel("time")
            panels[0].set_ylabel("probability")
            if list(self.functions) != [ALL]:
                title_panels(panels, self.functions)
            self._name_areas(tops[:, -1])
            if at_risk:
                self._write_at_risk()
        return self

    def _name_areas(self, tops):
        """Names beside the last panel, at the middle of what its areas are in the end."""
        ax = self.axes_[-1]
        middles = tops - 0.5 * np.diff(tops, prepend=0.0)
        end = ax.get_xlim()[1] / MARGIN
        names = shorten([*self.labels, self.rest], room_for_names(ax, NAMES_SHARE))
        points = [(end, middle) for middle in middles]
        self.labels_ = label_ends(ax, points, names, [*colours_on(ax)[: len(tops) - 1], None])

    def _write_at_risk(self):
        for ax, key in zip(self.axes_, self.functions, strict=True):
            lay_out(ax)
            counts, times = count_at_risk(ax, self._result)
            self.at_risk_[key] = counts[key]
            write_at_risk(ax, {key: counts[key]}, times, key)


def _curves_of_states(model, X, strata, state, start):
    """Probabilities of states, a step function for each row and state."""
    count_rows(X)
    given = {"state": state, "start": start, "strata": strata}
    with keep_warnings():  # of the ends of follow-up, where curves end
        found = model.predict_state_probabilities(X, model.unique_times_, **given)
    curves = {}
    for name, (_, row) in zip(name_rows(X), found.iterrows(), strict=True):
        known = row.unstack("time").dropna(axis=1)
        curves[name] = {
            one: StepFunction(known.columns.to_numpy(), values.to_numpy())
            for one, values in known.iterrows()
        }
    return curves


def _stack(functions):
    """Times, and upper ends of the areas of the events and of none, (n_events + 1, n_times)."""
    times = np.unique(np.concatenate([[0.0], *(function.x for function in functions)]))
    values = []
    for function in functions:
        value = np.append(0.0, function.a * np.asarray(function.y) + function.b)
        values.append(value[np.searchsorted(function.x, times, side="right")])
    tops = np.cumsum(values, axis=0)
    return times, np.vstack([tops, np.maximum(tops[-1], 1.0)])


def _draw_areas(ax, times, tops):
    colours = [*colours_on(ax)[: len(tops) - 1], MUTED]
    opacities = [FILL] * (len(tops) - 1) + [REST]
    bottoms = np.vstack([np.zeros(len(times)), tops[:-1]])
    return [
        ax.fill_between(times, *ends, step="post", color=colour, alpha=opacity, linewidth=0.0)
        for *ends, colour, opacity in zip(bottoms, tops, colours, opacities, strict=True)
    ]
