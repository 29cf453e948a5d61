"""Survival curves of a few rows, beside what was observed."""

import numpy as np

from ..data.options import is_flag
from ..nonparametric import KaplanMeier, LogRank
from ._curves import CurvesDisplay
from ._observed import draw_medians, draw_observed, mark_censored, test_of_groups, write_test
from ._steps import check_result, draw_areas, draw_steps
from ._style import lay_out

# For the legend, of curves that fall and of those that rise.
CORNERS = {False: ("lower left", "upper right"), True: ("upper left", "lower right")}


class SurvivalDisplay(CurvesDisplay):
    """Survival curves, with Kaplan-Meier curves and numbers at risk where an outcome is given.

    Parameters
    ----------
    <<functions, labels, areas>>

    Attributes
    ----------
    <<ax_, lines_, areas_>>
    observed_ : dict of {str: matplotlib Line2D}
        Kaplan-Meier curves of the groups.
    censored_ : dict of {str: matplotlib Line2D}
        Ticks where rows of the groups are censored.
    medians_ : dict of {str: matplotlib Line2D}
        Lines to the medians of the groups.
    test_ : matplotlib Text or None
        P-value of the log-rank test.
    <<legend_, at_risk_, at_risk_times_>>

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

    _method, _kinds, _start = "predict_survival_function", ("survival",), 1.0
    _outcome, _estimate = "kaplan_meier", "Kaplan-Meier"

    @classmethod
    def from_result(cls, result, *, labels=None, limits="interval", ax=None, **options):
        """Draw Kaplan-Meier curves.

        Parameters
        ----------
        result : sksurvgpu.nonparametric.KaplanMeier
            Curves of at most 20 groups.
        <<labels, limits, ax, **options>>

        <<drawn>>
        """
        check_result(result, KaplanMeier, limits)
        groups = list(result.functions)
        labels = groups if labels is None else labels
        return cls._of_result(result, groups, "group", labels, limits).plot(ax, **options)

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
        <<ax>>
        kaplan_meier : structured ndarray of shape (n_samples,), optional
            Outcome from `surv` whose Kaplan-Meier curves are drawn, dashed.
        <<groups, at_risk>>
        censor_marks : bool, default=True
            Mark Kaplan-Meier curves by a tick where somebody is censored; ticks that would touch
            are drawn once.
        log_rank : bool or LogRank, default=True
            Write the p-value of a log-rank test where Kaplan-Meier curves of groups are compared:
            of this result, or of the test of the groups, within strata where the outcome has some.
            Left out for a result of rows with weights other than counts, with late entry, or with
            strata apart from the groups, which its curves do not have.
        medians : bool, default=False
            Draw dotted lines to the median times of the Kaplan-Meier curves.
        complement : bool, default=False
            Draw 1 minus the survival, the probability of the event, on an axis that fits it.
        <<colors, legend_title>>

        <<display>>
        """
        observed = self._observe(kaplan_meier, groups, at_risk)
        test = _choose_test(log_rank, observed, kaplan_meier, groups)
        with self._on_axes(ax) as ax:
            self.lines_ = draw_steps(ax, self.functions, self.labels, self._start, colours=colors)
            curves = self._draw_observed(observed, censor_marks, medians)
            self._draw_areas(complement)
            corners, counted = CORNERS[bool(complement)], observed if at_risk else None
            place = self._name_lines(legend_title, corners, counted, curves, bool(self.censored_))
            fields = () if kaplan_meier is None else kaplan_meier.dtype.names
            is_stratified = test is not log_rank and "stratum" in fields
            self.test_ = write_test(ax, test, is_stratified)
            if place is not None and self.test_ is not None and self.test_ not in ax.texts:
                lay_out(ax)  # the test stands above the axes, which are lower now
                if ax.bbox.overlaps(self.legend_.get_window_extent()):
                    self.legend_ = place()
        return self

    def _draw_observed(self, observed, censor_marks, medians):
        """Draw Kaplan-Meier curves, if these are not the curves, and what is drawn on them.

        Returns them by group.
        """
        self.observed_, self.censored_, self.medians_ = {}, {}, {}
        if observed is None:
            return {}
        lines = self.lines_
        if self._result is None:
            functions = observed.functions
            self.observed_ = draw_observed(self.ax_, functions, self.lines_, self._estimate)
            lines = list(self.observed_.values())
        if censor_marks:
            self.censored_ = mark_censored(self.ax_, observed, lines)
        if medians:
            self.medians_ = draw_medians(self.ax_, observed, lines)
        return dict(zip(map(str, observed.groups), lines, strict=True))

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


def _choose_test(log_rank, observed, y, groups):
    """Log-rank test whose p-value is written; None for none."""
    if isinstance(log_rank, LogRank):
        return log_rank
    if not is_flag(log_rank):
        raise TypeError(
            f"`log_rank` is of type {type(log_rank).__name__}; pass True, False, or what "
            "sksurvgpu.nonparametric.log_rank returns."
        )
    return test_of_groups(observed, y, groups) if log_rank else None
