"""Cumulative incidence curves of a few rows, beside what was observed."""

import numpy as np

from ..data.outcomes.fields import labels_of
from ..estimators.pipelines import split_pipeline
from ..nonparametric import AalenJohansen
from ._curves import CurvesDisplay
from ._observed import draw_observed
from ._steps import check_result, draw_areas, draw_steps, name_of_event

CORNERS = "upper left", "lower right"  # for the legend


class CumulativeIncidenceDisplay(CurvesDisplay):
    """Cumulative incidence curves of an event among competing ones.

    Parameters
    ----------
    <<functions, labels, areas>>

    Attributes
    ----------
    <<ax_, lines_, areas_>>
    observed_ : dict of {str: matplotlib Line2D}
        Aalen-Johansen curves of the groups.
    <<legend_, at_risk_, at_risk_times_>>

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

    _method, _start = "predict_cumulative_incidence_function", 0.0
    _kinds = "cumulative_incidence", "risk"
    _outcome, _estimate = "aalen_johansen", "Aalen-Johansen"

    @classmethod
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

        <<drawn>>
        """
        check_result(result, AalenJohansen, limits)
        events = result.events if events is None else list(dict.fromkeys(np.ravel(events).tolist()))
        if not set(events) <= set(result.events):
            raise ValueError(f"`events` is {events}; the curves are of {result.events}.")
        keys = [(group, event) for group in result.groups for event in events]
        if labels is None:
            labels = [_name(*key, len(result.groups), len(events)) for key in keys]
        display = cls._of_result(result, keys, ["group", "event"], labels, limits)
        if len(result.groups) > 1:
            display._styles = [(result.groups.index(g), events.index(e)) for g, e in keys]
        return display.plot(ax, **options)

    @staticmethod
    def _options_of(estimator, options):
        _, model = split_pipeline(estimator)
        options = {"event_of_interest": getattr(model, "event_of_interest", 1)} | options
        has_all = hasattr(model, "events_")  # which one is of all that it predicts
        return options, {"event": options["event_of_interest"]} if has_all else {}

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
        <<ax>>
        aalen_johansen : structured ndarray of shape (n_samples,), optional
            Outcome from `competing_risks` whose Aalen-Johansen curves are drawn, dashed.
        <<groups>>
        event_of_interest : int or str, default=1
            Code or label of the event of the observed curves; all others compete with it.
        <<at_risk, colors, legend_title>>

        <<display>>
        """
        observed = self._observe(aalen_johansen, groups, at_risk)
        if aalen_johansen is not None:
            labels = labels_of(aalen_johansen[aalen_johansen.dtype.names[0]])
            event_of_interest = labels.get(event_of_interest, event_of_interest)
        is_beside = self._result is None and observed is not None
        if is_beside and event_of_interest not in observed.events:
            raise ValueError(
                f"`event_of_interest` is {event_of_interest!r}; `aalen_johansen` has the events "
                f"{observed.events}."
            )
        with self._on_axes(ax) as ax:
            self.lines_ = draw_steps(
                ax, self.functions, self.labels, self._start, self._styles, colors
            )
            self.areas_ = draw_areas(ax, self.lines_, self.areas)
            self.observed_ = {}
            if is_beside:
                curves = {g: observed.functions[g, event_of_interest] for g in observed.groups}
                self.observed_ = draw_observed(ax, curves, self.lines_, self._estimate)
            ax.set_ylim(bottom=0.0)
            ax.set_ylabel("cumulative incidence")
            self._name_lines(
                legend_title, CORNERS, observed if at_risk else None, self._first_curves()
            )
        return self

    def _first_curves(self):
        """First curve of each group, in whose colour all of the group are."""
        if self._styles is None:
            return self.observed_
        first = {k: i for i, (k, _) in reversed([*enumerate(self._styles)])}
        return {str(self._result.groups[k]): self.lines_[i] for k, i in first.items()}


def _name(group, event, n_groups, n_events):
    """Name that tells a curve from the others."""
    if n_groups == 1:
        return name_of_event(event)
    return str(group) if n_events == 1 else f"{group}, {name_of_event(event)}"
