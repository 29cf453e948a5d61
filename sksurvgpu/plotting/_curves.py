"""Step curves of rows or of groups, common to all displays of them, and curves over penalties."""

from functools import partial
from typing import ClassVar

import numpy as np

from ._at_risk import show_at_risk
from ._display import Display
from ._labels import label_ends
from ._observed import named_lines, observe
from ._ratios import show_logarithmic, show_ratios
from ._steps import (
    check_functions,
    limits_of,
    name_beside,
    name_inside,
    name_of_areas,
    predict_steps,
    read_predicted,
)
from ._style import MUTED, colours_on, count_of, room_for_names, shorten


class CurvesDisplay(Display):
    """Step curves with areas around them, beside curves of groups that were observed."""

    _method: ClassVar[str]  # of estimators, which predicts such curves
    _kinds: ClassVar[tuple[str, ...]]  # of intervals of such curves, as `curve_intervals` says
    _start: ClassVar[float]  # height of all curves at time 0
    _outcome: ClassVar[str]  # argument with what was observed
    _estimate: ClassVar[str]  # name of its curves

    def __init__(self, functions, labels=None, *, areas=None):
        self.functions, self.labels = check_functions(functions, labels)
        self.areas, self._result, self._areas_name, self._styles = areas, None, None, None

    def _shows(self):
        return count_of(self.functions, "curve")

    @classmethod
    def from_estimator(cls, estimator, X, *, strata=None, labels=None, ax=None, **options):
        """Draw the curves that an estimator predicts.

        Parameters
        ----------
        estimator : estimator
            Fitted, with ``predict_survival_function`` or, for incidences,
            ``predict_cumulative_incidence_function``. These, and observed ones, are of its event of
            interest, or of ``event_of_interest`` where `CauseSpecificCox` is given another one.
        <<X, strata, labels, ax, **options>>

        <<drawn>>
        """
        options, given = cls._options_of(estimator, options)
        display = cls(*predict_steps(estimator, cls._method, X, strata, labels, **given))
        return display.plot(ax, **options)

    @classmethod
    def from_functions(cls, functions, *, labels=None, ax=None, **options):
        """Draw step functions, from wherever they are.

        Parameters
        ----------
        <<functions, labels, ax, **options>>

        <<drawn>>
        """
        return cls(functions, labels).plot(ax, **options)

    @classmethod
    def from_intervals(cls, result, *, labels=None, limits="interval", ax=None, **options):
        """Draw predicted curves with their intervals.

        Parameters
        ----------
        result : CurveIntervals
            Of at most 20 rows, see `curve_intervals`: of their survival or, for incidences, of
            their cumulative incidence or risk.
        <<labels, limits, ax, **options>>

        <<drawn>>
        """
        functions, names, areas = read_predicted(result, cls._kinds, limits, cls._start)
        display = cls(functions, names if labels is None else labels, areas=areas)
        display._areas_name = name_of_areas(result, limits)
        return display.plot(ax, **options)

    @classmethod
    def _of_result(cls, result, keys, by, labels, limits):
        """Display of a result's curves of these keys, which are those of its table by columns."""
        curves, lines = result.functions, result.table.groupby(by, observed=True)
        areas = [limits_of(lines.get_group(key), limits, cls._start) for key in keys]
        display = cls([curves[key] for key in keys], labels, areas=areas)
        display._result, display._areas_name = result, name_of_areas(result, limits)
        return display

    @staticmethod
    def _options_of(estimator, options):
        """Options of `plot`, some of which are those of an estimator, and of its predictions."""
        return options, {}

    def _observe(self, y, groups, at_risk):
        """Curves of groups without a model: those of the result or of an outcome; or None."""
        if self._result is not None and (y is not None or groups is not None):
            raise ValueError("the curves are those of a result; draw other ones beside a model's.")
        return self._result or observe(self._outcome, y, groups, at_risk)

    def _name_lines(self, title, corners, counted, curves, has_ticks=False):
        """Write the legend and, of a result, the numbers at risk in the colours of its curves.

        Returns what places the legend again where something else has moved the axes; None for a
        legend beside them.
        """
        ax, lines = self.ax_, self.lines_
        named = named_lines(ax, lines, self.observed_, self._estimate, has_ticks, self._areas_name)
        beside = name_beside(ax, named, title)  # which moves the numbers of the axis
        self.at_risk_, self.at_risk_times_, depth = show_at_risk(ax, counted, curves)
        place = partial(name_inside, ax, named, corners, depth, title)
        self.legend_ = beside or place()
        return None if beside else place


MOST_COUNTS = 6  # on the top axis
MARGIN = 0.01  # of the axis
ALONE = 2.0  # times and over a single penalty
NAMES_SHARE = 0.36  # of the width of the figure


def refuse_zero(alphas, remedy):
    """Check that all penalties have a logarithm."""
    if (alphas == 0).any():
        raise ValueError(
            f"there is a fit at alpha 0, which has no place on a logarithmic axis; {remedy}."
        )


def show_penalties(ax, alphas):
    """Make the horizontal axis one of penalties, from the largest to the least."""
    low, high = alphas.min(), alphas.max()
    margin = (high / low) ** MARGIN if high > low else ALONE
    show_logarithmic(ax)
    ax.set_xlim(high * margin, low / margin)
    show_ratios(ax)
    ax.set_xlabel("penalty (alpha)")


def count_on_top(ax, position, n_nonzero, name="nonzero coefficients"):
    """Axis on top with numbers of nonzero coefficients, at a few of the fits."""
    position = np.asarray(position, dtype=np.float64)
    place = np.log(position) if ax.get_xscale() == "log" else position
    wanted = np.linspace(place[0], place[-1], MOST_COUNTS)
    chosen = np.unique([np.argmin(np.abs(place - value)) for value in wanted])
    top = ax.secondary_xaxis("top")
    top.set_xticks(position[chosen], [f"{n_nonzero[i]:,.0f}" for i in chosen])
    top.minorticks_off()
    top.tick_params(labelsize=ax.xaxis.label.get_size())
    top.set_xlabel(name, size=ax.xaxis.label.get_size())
    return top


def draw_curves(ax, position, curves, names, shown, named):
    """Lines of the rows `shown` of `curves`, and the colours of those `named`.

    Of these the first matter most; all others are grey.
    """
    colours = colours_on(ax)
    colour_of = {k: colours[i % len(colours)] for i, k in enumerate(named)}
    marker = "o" if len(position) == 1 else None
    lines = [
        ax.plot(
            position,
            curves[k],
            color=colour_of.get(k, MUTED),
            linewidth=1.2 if k in colour_of else 0.6,
            marker=marker,
            zorder=3 if k in colour_of else 2,
            label=str(names[k]),
        )[0]
        for k in shown
    ]
    return lines, colour_of


def name_curves(ax, position, curves, names, colour_of):
    """Names at the right ends of the coloured curves."""
    shortened = shorten([names[k] for k in colour_of], room_for_names(ax, NAMES_SHARE))
    ends = [(position[-1], curves[k, -1]) for k in colour_of]
    return label_ends(ax, ends, shortened, list(colour_of.values()))
