"""Survival curves of a few rows, beside what was observed."""

from itertools import cycle

from ..data.outcomes.survival import read_outcome, surv
from ..nonparametric import KaplanMeier, kaplan_meier
from ..nonparametric.groups import ALL
from ._at_risk import count_at_risk, write_at_risk
from ._predicted import parts_of
from ._steps import (
    MARGIN,
    MOST_CURVES,
    check_functions,
    check_result,
    draw_areas,
    draw_steps,
    limits_of,
    name_beside,
    name_inside,
    predict_steps,
)
from ._style import COLOURS, MUTED, is_dark, new_axes, styled

__all__ = ["SurvivalDisplay"]

DASHES = (0, (4, 1.5))


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
        self.areas, self._result = areas, None

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
    def from_result(cls, result, *, labels=None, limits="interval", at_risk=False, ax=None):
        """Draw Kaplan-Meier curves.

        Parameters
        ----------
        result : sksurvgpu.nonparametric.KaplanMeier
            Curves of at most 20 groups.
        labels : sequence of str, optional
            Names of the groups; by default their labels.
        limits : {"interval", "band"} or None, default="interval"
            Areas around the curves: pointwise intervals, or the band, where the result has one.
        at_risk : bool, default=False
            Write the numbers at risk in the groups below the axes.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

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
        display._result = result
        return display.plot(ax, at_risk=at_risk)

    @classmethod
    def from_intervals(
        cls,
        result,
        *,
        labels=None,
        limits="interval",
        kaplan_meier=None,
        groups=None,
        at_risk=False,
        ax=None,
    ):
        """Draw predicted survival functions with their intervals.

        Parameters
        ----------
        result : CurveIntervals
            Of the survival of at most 20 rows, see `curve_intervals`.
        labels : sequence of str, optional
            Names of the rows; by default the index of a DataFrame, or positions.
        limits : {"interval", "band"} or None, default="interval"
            Areas around the curves: pointwise intervals, or the bands, where the result has some.
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
        functions, names, areas = parts_of(result, ("survival",), limits, 1.0)
        return cls(functions, names if labels is None else labels, areas=areas).plot(
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
        if self._result is not None and (kaplan_meier is not None or groups is not None):
            raise ValueError("the curves are those of a result; draw other ones beside a model's.")
        observed = self._result or _observe(kaplan_meier, groups, at_risk)
        with styled():
            self.ax_, self.figure_ = new_axes(ax)
            self.lines_ = draw_steps(self.ax_, self.functions, self.labels, 1.0)
            self.areas_ = draw_areas(self.ax_, self.lines_, self.areas)
            self.observed_ = {} if self._result else self._draw_observed(observed)
            self.ax_.set_ylim(0.0, 1.02)
            self.ax_.set_ylabel("survival")
            self.at_risk_, self.at_risk_times_ = {}, []
            named = self._named_lines()
            self.legend_ = name_beside(self.ax_, named)  # which moves the numbers of the axis
            depth = 0.0
            if at_risk:
                counted = count_at_risk(self.ax_, observed)
                self.at_risk_, self.at_risk_times_ = counted
                depth = write_at_risk(self.ax_, *counted, ALL)
            if self.legend_ is None:
                self.legend_ = name_inside(self.ax_, named, ("lower left", "upper right"), depth)
        return self

    def _draw_observed(self, observed):
        colour_of = dict(zip(self.labels, (line.get_color() for line in self.lines_), strict=True))
        strong = "0.7" if is_dark(self.ax_) else "0.35"
        drawn, others = {}, cycle([strong, *COLOURS[::-1]])
        for label, function in (observed.functions if observed else {}).items():
            key = str(label)
            self.ax_.set_xlim(right=max(self.ax_.get_xlim()[1], MARGIN * function.x[-1]))
            [drawn[key]] = self.ax_.step(
                function.x,
                function.y,
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


def _observe(y, groups, at_risk):
    """Kaplan-Meier curves of an outcome; None without one."""
    if y is None:
        if at_risk or groups is not None:
            name = "at_risk" if at_risk else "groups"
            raise ValueError(f"`{name}` needs an outcome: pass it as `kaplan_meier`.")
        return None
    outcome = read_outcome(y, name="kaplan_meier", model=None)
    result = kaplan_meier(surv(outcome.event, outcome.time, start=outcome.start), groups=groups)
    if len(result.groups) > MOST_CURVES:
        raise ValueError(
            f"`groups` has {len(result.groups):,} groups, a figure shows the curves of at most "
            f"{MOST_CURVES}; join some."
        )
    return result
