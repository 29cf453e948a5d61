"""Functions of the variables of an additive model, a panel each."""

import numpy as np

from ..data.additive import AdditiveColumns, values_of
from ..data.design.columns import build_design
from ..estimators.pipelines import split_pipeline
from ._display import Display, wrong_type
from ._ratios import EffectAxis, show_logarithmic, show_ratios
from ._results import choose_rows, read_coefficients, require_columns
from ._style import GUIDE, MUTED, colours_on, count_of, opacity_on, title_panels

PANEL_SIZE = 2.3, 1.9  # inches: width at least, height about
MOST_PANELS = 30
N_BINS, HIGHEST = 40, 0.12  # of a histogram; of the height of its panel
TAILS = 0.01, 0.99  # bounds beyond these quantiles of the values may leave the panel


class EffectsDisplay(Display):
    """Effects of the variables of an additive model, on one scale, with intervals.

    Parameters
    ----------
    table : DataFrame
        What ``effects`` of `StepColumns` or `SplineColumns` returns.
    values : dict of {str: ndarray}, optional
        Values of variables, whose histogram is drawn below their effect.
    <<effect>>

    Attributes
    ----------
    <<axes_>>
    curves_ : list of matplotlib Line2D
        The effects.
    areas_ : list of matplotlib PolyCollection
        Their intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD, EffectsDisplay, SplineColumns, make_pipeline, surv
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (2000, 2))
    >>> y = surv(np.full(2000, True), rng.exponential(np.exp(-(X[:, 0] ** 2))))
    >>> model = make_pipeline(SplineColumns(smooth=True), CoxLassoCCD(alpha=0.01)).fit(X, y)
    >>> EffectsDisplay.from_estimator(model, X)
    <EffectsDisplay of 2 variables>
    """

    def __init__(self, table, values=None, *, effect=None):
        require_columns(table, ("variable", "value", "effect"), "table")
        self.tables = {str(name): lines for name, lines in table.groupby("variable", sort=False)}
        self.values, self.effect = values or {}, effect
        if not 0 < len(self.tables) <= MOST_PANELS:
            raise ValueError(
                f"there are {len(self.tables):,} variables with an effect, a figure shows between "
                f"1 and {MOST_PANELS}; name others in `columns`."
            )

    def _shows(self):
        return count_of(self.tables, "variable")

    @classmethod
    def from_estimator(
        cls, estimator, X, *, result=None, columns=None, reference=None, ratio=True, axes=None
    ):
        """Draw the effects of a fit.

        Parameters
        ----------
        estimator : pipeline
            Fitted, with `StepColumns` or `SplineColumns` before the model.
        X : table of shape (n_rows, n_columns)
            Rows whose values are drawn as histograms, such as those of the fit.
        result : object with intervals, optional
            Of the model, from `bootstrap`, `wald` or `posterior`.
        columns : list of str or int, optional
            Variables that are shown; by default those that have an effect.
        reference : dict of {str or int: float}, optional
            Values at which effects are 0; by default medians.
        <<ratio, axes>>

        <<drawn>>
        """
        steps, model = split_pipeline(estimator)
        made = None if steps is None else steps[-1]
        if not isinstance(made, AdditiveColumns):
            remedy = "; pass a pipeline with StepColumns or SplineColumns before its model"
            raise wrong_type("estimator", estimator, remedy)
        table = made.effects(model.coef_ if result is None else result, reference=reference)
        is_there = table["effect"].ne(0.0).groupby(table["variable"], sort=False).any()
        rows = np.flatnonzero(is_there) if columns is None else choose_rows(is_there.index, columns)
        table = table.set_index("variable").loc[is_there.index[rows]].reset_index()
        design = build_design(steps[:-1].transform(X) if len(steps) > 1 else X)
        names = is_there.index.astype(str)
        values = {
            name: values_of(design, j) for name, j in zip(names, made.variables_, strict=True)
        }
        return cls(table, values, effect=read_coefficients(model)[1] if ratio else None).plot(axes)

    def plot(self, axes=None):
        """Draw the panels.

        Parameters
        ----------
        <<axes>>

        <<display>>
        """
        axis = EffectAxis(self.effect)
        with self._on_panels(axes, len(self.tables), "variable", PANEL_SIZE) as panels:
            self.curves_, self.areas_ = [], []
            near = [
                self._draw_panel(ax, axis, *of)
                for ax, of in zip(panels, self.tables.items(), strict=True)
            ]
            low, high = axis.limits(min(map(np.min, near)), max(map(np.max, near)))
            room = 0.05 * (high - low)
            for ax in panels:
                if self.effect:
                    show_logarithmic(ax, "y")
                ax.set_ylim(axis.shown([low - (2 + bool(self.values)) * room, high + room]))
            self._name_axes_of_figure(axes, "value", self.effect or "effect")
            title_panels(panels, self.tables)
            for ax in panels:
                if self.effect:
                    show_ratios(ax, "y")
        return self

    def _draw_panel(self, ax, axis, name, lines):
        """Draw an effect; return what of it, and of its bounds where most values are, is seen."""
        values = self.values.get(name, lines["value"][np.isfinite(lines["value"])].to_numpy())
        is_step = np.isneginf(lines["value"].iloc[0])
        x, curves = lines["value"].to_numpy(), lines.drop(columns=["variable", "value"]).to_numpy()
        if is_step:
            x = np.append(np.maximum(x, values.min()), max(values.max(), x[-1]))
            curves = np.vstack([curves, curves[-1]])
        blue, shown = colours_on(ax)[0], axis.shown(curves)
        style = {"color": blue, "drawstyle": "steps-post" if is_step else "default"}
        ax.axhline(axis.shown(0.0), **GUIDE)
        self.curves_ += ax.plot(x, shown[:, 0], zorder=4, **style)
        if shown.shape[1] > 1:
            area = {"color": blue, "alpha": opacity_on(ax), "linewidth": 0, "zorder": 2}
            step = "post" if is_step else None
            self.areas_.append(ax.fill_between(x, *shown[:, 1:].T, step=step, **area))
        if name in self.values:
            counts, edges = np.histogram(values, N_BINS)
            place = {"transform": ax.get_xaxis_transform(), "color": MUTED, "fill": True}
            ax.stairs(HIGHEST * counts / counts.max(), edges, alpha=0.5, linewidth=0, **place)
        low, high = np.quantile(values, TAILS)
        is_near = (x >= low) & (x <= high)
        return np.append(curves[:, 0], curves[is_near, 1:][np.isfinite(curves[is_near, 1:])])
