"""Base of all displays: where they draw, how they are printed, and shared words.

A line ``<<name>>`` of their docstrings stands for an entry of this file, or for that of an option
in the docstring of ``plot`` of the class.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from .._docs import entries, section, sharing
from ._style import new_axes, new_panels, styled

_ENTRIES = entries("""
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    axes : array of matplotlib Axes, optional
        Where to draw, an axes for each panel; a new figure by default.
    ax_, figure_ : matplotlib Axes and Figure
        What was drawn on.
    axes_, figure_ : ndarray of matplotlib Axes, and Figure
        What was drawn on, an axes for each panel.
    columns : list of str or int, optional
        Coefficients, by name or by position, that are shown; all by default.
    ratio : bool, default=True
        Show exp(coef) on a logarithmic axis where it is a ratio of hazards, odds or rates.
    effect : str or None, default=None
        What exp(coef) is called; None where it is no ratio.
    level : float, default=0.95
        Of the intervals.
    X : array, sparse matrix or DataFrame of shape (n_rows, n_features)
        At most 20 rows.
    strata : array-like of shape (n_rows,), optional
        Stratum of each row; required if and only if the model was fitted with strata.
    functions : sequence of sksurv.functions.StepFunction
        Curves, at most 20.
    labels : sequence of str, optional
        Names of the curves; by default the index of a DataFrame, the labels of groups, or "row 0"
        and so on.
    areas : sequence of tuple, optional
        Times, lower and upper limits for each function, None for those without.
    limits : {"interval", "band"} or None, default="interval"
        Areas around the curves: pointwise intervals, or the bands, where the result has some.
    groups : array-like of shape (n_samples,), optional
        Group of each entry of the outcome, with a curve each: categories in their order, numbers
        ascending, other labels as they appear. A group that is called as one of the curves gets
        the same colour.
    at_risk : bool, default=False
        Write below the axes how many are at risk in each group.
    colors : list of colour, optional
        Colours of the curves, one for each, or for each group where curves of a group share one;
        by default such as everybody can tell apart.
    legend_title : str, optional
        Title of the legend, such as the name of the groups.
    **options : dict
        Options of `plot`: what is drawn beside the curves.
    lines_ : list of matplotlib Line2D
        Curves of the functions.
    areas_ : list of matplotlib PolyCollection
        Areas between their limits.
    legend_ : matplotlib Legend
        Names of the curves.
    at_risk_ : dict of {str: list of int}
        Numbers at risk in each group.
    at_risk_times_ : list of float
        The times that they are for.
""")
_ENTRIES |= {name.partition(", ")[0]: text for name, text in _ENTRIES.items()}
# Sections, of what a class method returns and of what `plot` does.
_ENTRIES["drawn"] = "Returns\n-------\ndisplay : Self\n    What was drawn."
_ENTRIES["display"] = "Returns\n-------\ndisplay : Self\n    This object."


class Display:
    """A figure: ``from_...`` computes what is shown and draws it, ``plot`` draws it again."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        sharing(_ENTRIES | section(cls.plot.__doc__, "Parameters"))(cls)

    def plot(self):
        """Draw what is shown."""
        raise NotImplementedError

    def _shows(self) -> str:
        """Number and kind of what is shown, in words such as "3 curves"."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._shows()}>"

    @contextmanager
    def _on_axes(self, ax, find_height=None) -> Iterator:
        """Axes to draw on in our style: the user's, or new ones of the height that is found."""
        with styled():
            self.ax_, self.figure_ = new_axes(ax, None if find_height is None else find_height())
            yield self.ax_

    @contextmanager
    def _on_panels(self, axes, n_panels, noun, size) -> Iterator:
        """Axes of panels, the user's or new ones of about a size in inches, in our style."""
        with styled():
            self.axes_, self.figure_ = new_panels(axes, n_panels, noun, size)
            yield self.axes_

    def _name_axes_of_figure(self, axes, x, y):
        """Names of the axes of all panels, unless the figure is the user's."""
        if axes is None:
            self.figure_.supxlabel(x, size="medium")
            self.figure_.supylabel(y, size="medium")


def wrong_type(name, value, remedy):
    """Error for an argument that has not what is drawn."""
    return TypeError(f"`{name}` is of type {type(value).__name__}{remedy}.")
