"""Survival curves of a few rows, beside what was observed."""

from functools import partial

import numpy as np

from ..nonparametric import KaplanMeier, LogRank
from ._at_risk import show_at_risk
from ._docs import documented
from ._observed import (
    draw_medians,
    draw_observed,
    mark_censored,
    named_lines,
    observe,
    test_of_groups,
    write_test,
)
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
    predict_steps,
)
from ._style import count_of, lay_out, new_axes, styled

__all__ = ["SurvivalDisplay"]

NAME = "Kaplan-Meier"
# For the legend, of curves that fall and of those that rise.
CORNERS = {False: ("lower left", "upper right"), True: ("upper left", "lower right")}


class SurvivalDisplay:
    """Survival curves, with Kaplan-Meier curves and numbers at risk where an outcome is given.

    Parameters
    ----------
    functions : sequence of sksurv.functions.StepFunction
        Survival functions.
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
        Kaplan-Meier curves of the groups.
    censored_ : dict of {str: matplotlib Line2D}
        Ticks where rows of the groups are censored.
    medians_ : dict of {str: matplotlib Line2D}
        Lines to the medians of the groups.
    test_ : matplotlib Text or None
        P-value of the log-rank test.
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

    def __init__(self, functions, labels=None, *, areas=None):
        self.functions, self.labels = check_functions(functions, labels)
        self.areas, self._result, self._shade = areas, None, None

    def __repr__(self) -> str:
        return f"<SurvivalDisplay of {count_of(self.functions, 'curve')}>"

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
        estimator : estimator
            Fitted, with ``predict_survival_function``.
        <<X, strata, labels, ax, **options>>

        Returns
        -------
        display : SurvivalDisplay
            What was drawn.
        """
        functions, labels = predict_steps(estimator, "predict_survival_function", X, strata, labels)
        return cls(functions, labels).plot(ax, **options)

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
        """Draw survival functions.

        Parameters
        ----------
        <<functions, labels, ax, **options>>

        Returns
        -------
        display : SurvivalDisplay
            What was drawn.
        """
        return cls(functions, labels).plot(ax, **options)

    @classmethod
    @documented
    def from_result(
        cls,
        result,
        *,
        labels=None,
        limits="interval",
        ax=None,
        **options,
    ):
        """Draw Kaplan-Meier curves.

        Parameters
        ----------
        result : sksurvgpu.nonparametric.KaplanMeier
            Curves of at most 20 groups.
        <<labels, limits, ax, **options>>

        Returns
        -------
        display : SurvivalDisplay
            What was drawn.
        """
        check_result(result, KaplanMeier, limits)
        functions, own = result.functions, result.table.groupby("group", observed=True)
        labels = list(functions) if labels is None else labels
        areas = [limits_of(own.get_group(label), limits, 1.0) for label in functions]
        display = cls(functions.values(), labels, areas=areas)
        display._result, display._shade = result, name_of_areas(result, limits)
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
        """Draw predicted survival functions with their intervals.

        Parameters
        ----------
        result : CurveIntervals
            Of the survival of at most 20 rows, see `curve_intervals`.
        <<labels, limits, ax, **options>>

        Returns
        -------
        display : SurvivalDisplay
            What was drawn.
        """
        functions, names, areas = parts_of(result, ("survival",), limits, 1.0)
        display = cls(functions, names if labels is None else labels, areas=areas)
        display._shade = name_of_areas(result, limits)
        return display.plot(ax, **options)

    @documented
    def plot(
        self,
        ax=None,
        *,
        kaplan_meier=None,
        groups=None,
        at_risk=False,
        censor_marks=True,
        log_rank=True,
        medians=False,
        complement=False,
        colors=None,
        legend_title=None,
    ):
        """Draw the curves.

        Parameters
        ----------
        <<ax, kaplan_meier, groups, at_risk, censor_marks, log_rank, medians>>
        complement : bool, default=False
            Draw 1 minus the survival, the probability of the event, on an axis that fits it.
        <<colors, legend_title>>

        Returns
        -------
        display : SurvivalDisplay
            This object.
        """
        if self._result is not None and (kaplan_meier is not None or groups is not None):
            raise ValueError("the curves are those of a result; draw other ones beside a model's.")
        observed = self._result or observe("kaplan_meier", kaplan_meier, groups, at_risk)
        test = _choose_test(log_rank, observed, kaplan_meier, groups)
        with styled():
            self.ax_, self.figure_ = new_axes(ax)
            self.lines_ = draw_steps(self.ax_, self.functions, self.labels, 1.0, colours=colors)
            self._draw_observed(observed, censor_marks, medians)
            self._draw_areas(complement)
            has_ticks = bool(self.censored_)
            curves = self.lines_, self.observed_
            named = named_lines(self.ax_, *curves, NAME, has_ticks, self._shade)
            # which moves the numbers of the axis
            self.legend_ = name_beside(self.ax_, named, legend_title)
            shown = observed if at_risk else None
            self.at_risk_, self.at_risk_times_, depth = show_at_risk(self.ax_, shown, self._curves)
            is_beside = self.legend_ is not None
            corners = CORNERS[bool(complement)]
            place = partial(name_inside, self.ax_, named, corners, depth, legend_title)
            self.legend_ = self.legend_ or place()
            fields = () if kaplan_meier is None else kaplan_meier.dtype.names
            is_stratified = test is not log_rank and "stratum" in fields
            self.test_ = write_test(self.ax_, test, is_stratified)
            if not is_beside and self.test_ is not None and self.test_ not in self.ax_.texts:
                lay_out(self.ax_)  # it stands above the axes, which are lower now
                if self.ax_.bbox.overlaps(self.legend_.get_window_extent()):
                    self.legend_ = place()
        return self

    def _draw_areas(self, complement):
        """Draw what lies between the limits, and turn all curves upside down for 1 - S."""
        ax, areas = self.ax_, self.areas
        if complement:
            for line in (*self.lines_, *self.observed_.values(), *self.censored_.values()):
                line.set_ydata(1.0 - np.asarray(line.get_ydata()))
            areas = [area and (area[0], 1.0 - area[2], 1.0 - area[1]) for area in areas or []]
        self.areas_ = draw_areas(ax, self.lines_, areas)
        if complement:
            ax.relim()
            ax.autoscale(axis="y")
            ax.set_ylim(bottom=0.0)
        else:
            ax.set_ylim(0.0, 1.02)
        ax.set_ylabel("1 − survival" if complement else "survival")

    def _draw_observed(self, observed, censor_marks, medians):
        """Draw Kaplan-Meier curves, if these are not the curves, and what is drawn on them."""
        self.observed_, self.censored_, self.medians_, self._curves = {}, {}, {}, {}
        if observed is None:
            return
        lines = self.lines_
        if self._result is None:
            self.observed_ = draw_observed(self.ax_, observed.functions, self.lines_, NAME)
            lines = list(self.observed_.values())
        self._curves = dict(zip(map(str, observed.groups), lines, strict=True))
        if censor_marks:
            self.censored_ = mark_censored(self.ax_, observed, lines)
        if medians:
            self.medians_ = draw_medians(self.ax_, observed, lines)


def _choose_test(log_rank, observed, y, groups):
    """The log-rank test whose p-value is written; None for none."""
    if isinstance(log_rank, LogRank):
        return log_rank
    if not isinstance(log_rank, bool | np.bool_):
        raise TypeError(
            f"`log_rank` is of type {type(log_rank).__name__}; pass True, False, or what "
            "sksurvgpu.nonparametric.log_rank returns."
        )
    return test_of_groups(observed, y, groups) if log_rank else None
