"""Chains as they ran, beside what they drew."""

import numpy as np
from scipy.stats import gaussian_kde, rankdata

from ..bayes.doubts import badness
from ..data.options import whole
from ..estimators.pipelines import split_pipeline
from ._display import Display, wrong_type
from ._results import choose_rows
from ._style import (
    CHARACTER,
    MUTED,
    colours_on,
    count_of,
    lay_out,
    new_figure,
    shorten,
    size_of,
    styled,
)

MOST_PANELS = 20
LEAST_NAME = 20  # characters of a longer one that stands beside a note
PANEL_HEIGHT = 1.2  # inches
MOST_POINTS = 2_000  # of a chain: an axes has no more pixels
N_BINS = 20  # of ranks
N_GRID = 200  # values at which densities are drawn
KINDS = ("density", "rank")


class TraceDisplay(Display):
    """Trace plots: draws of each chain in order, beside their densities or histograms of ranks.

    Chains that have mixed look alike: traces without trends or steps, densities on top of each
    other, ranks that are spread evenly.

    Parameters
    ----------
    draws : dict of {str: ndarray of shape (n_chains, n_draws)}
        Draws of each parameter.
    notes : dict of {str: str}, optional
        What is written above the trace of a parameter, beside its name.

    Attributes
    ----------
    axes_, figure_ : ndarray of matplotlib Axes of shape (n_parameters, 2), and Figure
        What was drawn on.
    traces_ : list of list of matplotlib Line2D
        Trace of each chain, for each parameter.
    marginals_ : list of list of matplotlib Artist
        Density or ranks of each chain, for each parameter.

    See Also
    --------
    CoefficientDisplay : Intervals of a posterior, a line each.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import TraceDisplay
    >>> draws = np.random.default_rng(0).standard_normal((4, 500))
    >>> display = TraceDisplay({"sigma2": draws}).plot()
    >>> len(display.traces_[0])
    4
    """

    def __init__(self, draws, *, notes=None):
        self.draws = {str(label): np.asarray(values) for label, values in draws.items()}
        self.notes = {} if notes is None else dict(notes)
        for label, values in self.draws.items():
            if values.ndim != 2 or 0 in values.shape:
                raise ValueError(
                    f"the draws of {label!r} have the shape {values.shape}; pass a row for each "
                    "chain."
                )

    def _shows(self):
        return count_of(self.draws, "parameter")

    @classmethod
    def from_posterior(cls, posterior, *, columns=None, n_worst=3, kind="density", axes=None):
        """Draw the chains of some parameters.

        Parameters
        ----------
        posterior : Posterior
            What was sampled.
        columns : list of str or int, optional
            Parameters by label or by position, as in ``posterior.summary()``; by default those
            with the worst diagnostics.
        n_worst : int, default=3
            How many these are.
        <<kind, axes>>

        <<drawn>>
        """
        if not hasattr(posterior, "parameter") or not hasattr(posterior, "worst"):
            remedy = "; pass a Posterior, such as the `posterior_` of a fit"
            raise wrong_type("posterior", posterior, remedy)
        labels = list(posterior.labels)
        if columns is None:
            columns = _worst(posterior, n_worst)
        rows = choose_rows(labels, columns)
        table = posterior.diagnostics.iloc[rows]
        draws = {labels[row]: posterior.parameter(row) for row in rows}
        notes = {
            labels[row]: f"R-hat {r_hat:#.3g}, bulk ESS {ess:,.0f}"
            for row, r_hat, ess in zip(rows, table["r_hat"], table["ess_bulk"], strict=True)
            if np.isfinite(ess)
        }
        return cls(draws, notes=notes).plot(axes, kind=kind)

    @classmethod
    def from_estimator(cls, estimator, *, columns=None, n_worst=3, kind="density", axes=None):
        """Draw the chains of a fit.

        Parameters
        ----------
        estimator : estimator of this package
            Fitted by sampling, so that it has a ``posterior_``.
        columns : list of str or int, optional
            Parameters by label or by position, as in ``posterior_.summary()``; by default those
            with the worst diagnostics.
        n_worst : int, default=3
            How many these are.
        <<kind, axes>>

        <<drawn>>
        """
        _, estimator = split_pipeline(estimator)
        if not hasattr(estimator, "posterior_"):
            remedy = " and has no `posterior_`; pass a Bayesian estimator that is fitted"
            raise wrong_type("estimator", estimator, remedy)
        return cls.from_posterior(
            estimator.posterior_, columns=columns, n_worst=n_worst, kind=kind, axes=axes
        )

    def plot(self, axes=None, *, kind="density"):
        """Draw the panels.

        Parameters
        ----------
        axes : array of matplotlib Axes of shape (n_parameters, 2), optional
            Where to draw; a new figure by default.
        kind : {"density", "rank"}, default="density"
            What is drawn beside the traces.

        <<display>>
        """
        if kind not in KINDS:
            raise ValueError(f'`kind` is {kind!r}, must be "density" or "rank".')
        n_panels = len(self.draws)
        if not 1 <= n_panels <= MOST_PANELS:
            raise ValueError(
                f"there are {n_panels:,} parameters, a figure shows between 1 and {MOST_PANELS}; "
                "name some in `columns`."
            )
        with styled():
            self._make_axes(axes, n_panels, kind)
            self.traces_, self.marginals_ = [], []
            draw_beside = _draw_densities if kind == "density" else _draw_ranks
            for (trace, beside), values in zip(self.axes_, self.draws.values(), strict=True):
                self.traces_.append(_draw_traces(trace, values))
                self.marginals_.append(draw_beside(beside, values))
            self.axes_[-1, 0].set_xlabel("draw")
            self.axes_[-1, 1].set_xlabel(kind)
            self._name_panels()
        return self

    def _make_axes(self, axes, n_panels, kind):
        if axes is not None:
            self.axes_ = np.asarray(axes, dtype=object)
            if self.axes_.size != 2 * n_panels:
                raise ValueError(
                    f"`axes` has {self.axes_.size} axes for {n_panels} parameter(s); pass two for "
                    "each, or none."
                )
            self.axes_ = self.axes_.reshape(n_panels, 2)
            self.figure_ = self.axes_[0, 0].figure
            return
        self.figure_, self.axes_ = new_figure(
            0.5 + PANEL_HEIGHT * n_panels,
            n_panels,
            2,
            squeeze=False,
            sharey="row" if kind == "density" else "none",
            width_ratios=[3.0, 1.0],
        )

    def _name_panels(self):
        """Names with their notes beside them, or below them where there is no room."""
        lay_out(self.axes_[0, 0])
        for ax, label in zip(self.axes_[:, 0], self.draws, strict=True):
            note = self.notes.get(label, "")
            n_characters = int(size_of(ax)[0] / (CHARACTER * ax.title.get_size()))
            beside = n_characters - len(note) - 2
            if len(label) <= beside or beside >= LEAST_NAME:
                ax.set_title(shorten([label], beside)[0], loc="left", parse_math=False)
                ax.set_title(note, loc="right", parse_math=False)
            else:  # below each other
                name = shorten([label], n_characters)[0]
                ax.set_title(f"{name}\n{note}", loc="left", parse_math=False)


def _worst(posterior, n_worst):
    """Positions of the parameters with the worst diagnostics; of the first if none has any."""
    whole(n_worst, "n_worst", 1)
    table = posterior.diagnostics
    order = np.argsort(-badness(table, posterior.n_chains), kind="stable")
    has_draws = table["ess_bulk"].notna().to_numpy()
    return [int(row) for row in order if has_draws[row]][:n_worst] or [0]


def _colour(ax, chain):
    colours = colours_on(ax)
    return colours[chain % len(colours)]


def _draw_traces(ax, values):
    step = -(-values.shape[1] // MOST_POINTS)
    number = np.arange(1, values.shape[1] + 1)[::step]
    return [
        ax.plot(number, row[::step], color=_colour(ax, chain), linewidth=0.5, alpha=0.8)[0]
        for chain, row in enumerate(values)
    ]


def _draw_densities(ax, values):
    """Densities along the axis that they share with the traces."""
    lines = []
    for chain, row in enumerate(values):
        row = row[:: -(-len(row) // MOST_POINTS)]
        row = row[np.isfinite(row)].astype(np.float64)
        if len(row) < 2 or np.ptp(row) == 0:  # has no density
            lines.append(ax.axhline(row[0] if len(row) else np.nan, color=_colour(ax, chain)))
            continue
        grid = np.linspace(row.min(), row.max(), N_GRID)
        lines += ax.plot(gaussian_kde(row)(grid), grid, color=_colour(ax, chain))
    ax.set_xlim(left=0.0)
    ax.set_xticks([])
    return lines


def _draw_ranks(ax, values):
    """How often the draws of a chain are among the smallest of all, ..., among the largest."""
    ranks = rankdata(values.ravel()).reshape(values.shape)
    edges = np.linspace(0.5, values.size + 0.5, N_BINS + 1)
    ax.axhline(values.shape[1] / N_BINS, color=MUTED, linewidth=0.8, linestyle=(0, (4, 2)))
    stairs = [
        ax.stairs(np.histogram(row, edges)[0], edges, color=_colour(ax, chain), baseline=None)
        for chain, row in enumerate(ranks)
    ]
    ax.set_ylim(bottom=0.0)
    return stairs
