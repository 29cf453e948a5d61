"""Cumulative incidence curves of a few rows."""

from ._bands import functions_of, shade
from ._steps import check_functions, draw_steps, name_beside, name_inside, predict_steps
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
    legend_ : matplotlib Legend
        Their names.

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

    def __init__(self, functions, labels=None, intervals=None):
        self.functions, self.labels = check_functions(functions, labels)
        self.intervals = intervals

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
    def from_intervals(cls, intervals, *, labels=None, ax=None):
        """Draw predicted incidences or risks with their intervals, and bands if there are any.

        Parameters
        ----------
        intervals : CurveIntervals
            Of the cumulative incidence or the risk, see `curve_intervals`; at most 20 rows.
        labels : sequence of str, optional
            Names of the rows; by default the index of a DataFrame, or positions.
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : CumulativeIncidenceDisplay
            What was drawn.
        """
        functions, own = functions_of(intervals, ("cumulative_incidence", "risk"))
        return cls(functions, own if labels is None else labels, intervals).plot(ax)

    def plot(self, ax=None):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        display : CumulativeIncidenceDisplay
            This object.
        """
        with styled():
            self.ax_, self.figure_ = new_axes(ax)
            self.lines_ = draw_steps(self.ax_, self.functions, self.labels, 0.0)
            self.shades_ = shade(self.ax_, self.lines_, self.intervals)
            self.ax_.set_ylim(bottom=0.0)
            self.ax_.set_ylabel("cumulative incidence")
            corners = ("upper left", "lower right")
            self.legend_ = name_beside(self.ax_, self.lines_) or name_inside(
                self.ax_, self.lines_, corners
            )
        return self
