"""Propensity scores of both arms."""

import numpy as np
from pandas import DataFrame

from ..cohort.checks import check_bounds, require_column
from ..cohort.cohort import as_cohort
from ..cohort.scores import preference_score
from ..data import options
from ..data.vectors import check_row_values
from ._display import Display
from ._labels import legend_in_corner
from ._results import require_columns
from ._style import MUTED, colours_on, count_of, opacity_on

ARMS = ("treated", "comparators")
SCALES = ("preference", "score")
AXIS = {"preference": "preference score", "score": "propensity score"}


class PropensityDisplay(Display):
    """Distributions of the propensity score in both arms, before and after an adjustment.

    Parameters
    ----------
    bins : DataFrame
        A row for each bin of scores: columns lower and upper, the densities treated and
        comparators and, where there is an adjustment, treated before and comparators before.
    equipoise : pair of float, optional
        Where the band of equipoise begins and ends.

    Attributes
    ----------
    <<ax_>>
    areas_ : dict of {str: matplotlib StepPatch}
        Distribution of each arm.
    before_ : dict of {str: matplotlib StepPatch}
        Distribution of each arm before the adjustment; empty without one.
    band_ : matplotlib Rectangle or None
        Scores in equipoise.

    See Also
    --------
    BalanceDisplay : What the adjustment did to the covariates.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksurvgpu import PropensityDisplay
    >>> rng = np.random.default_rng(0)
    >>> persons = pd.DataFrame({"id": range(500), "score": rng.beta(2, 3, 500)})
    >>> persons["treatment"] = rng.random(500) < persons["score"]
    >>> display = PropensityDisplay.from_cohort(persons)
    >>> display.ax_.get_title()
    'AUC 0.73, 64% in equipoise'
    """

    def __init__(self, bins, *, equipoise=None):
        require_columns(bins, ("lower", "upper", *ARMS), "bins")
        self.bins = bins
        self.equipoise = equipoise
        self._title, self._name = "", "score"

    def _shows(self):
        return f"both arms in {count_of(self.bins, 'bin')}"

    @classmethod
    def from_cohort(
        cls,
        cohort,
        before=None,
        *,
        scale="preference",
        weight=None,
        bounds=(0.3, 0.7),
        n_bins=50,
        ax=None,
        **names,
    ):
        """Draw the scores of a cohort.

        Parameters
        ----------
        cohort : Cohort or table
            Persons of both arms, with their scores.
        before : Cohort or table, optional
            The persons before they were trimmed, matched or weighted, whose ``share`` of treated
            preference scores are of.
        scale : {"preference", "score"}, default="preference"
            Which score.
        weight : str, optional
            Column of weights of `cohort`.
        bounds : pair of float, default=(0.3, 0.7)
            Smallest and largest preference score of those in equipoise.
        n_bins : int, default=50
            How many bins the scores from 0 to 1 are divided into.
        <<ax>>
        **names : str
            Of tables, their columns ``id=``, ``treatment=`` and ``score=``, if they have others.

        <<drawn>>
        """
        options.choice(scale, "scale", SCALES)
        options.whole(n_bins, "n_bins", 1)
        bounds = check_bounds(bounds)
        edges = np.linspace(0.0, 1.0, n_bins + 1)
        bins, titles = DataFrame({"lower": edges[:-1], "upper": edges[1:]}), []
        share = None
        for table, suffix in ((before, " before"), (cohort, "")):
            if table is None:
                continue
            whole = as_cohort(table, names)
            is_treated, score = whole.arms(), whole.scores
            weights = _read_weights(whole, is_treated, None if suffix else weight)
            share = whole.share if share is None else share
            preference = preference_score(score, is_treated, share=share)
            shown = preference if scale == "preference" else score
            for arm, is_here in zip(ARMS, (is_treated, ~is_treated), strict=True):
                counts = np.histogram(shown[is_here], edges, weights=weights[is_here])[0]
                bins[arm + suffix] = counts * n_bins / weights[is_here].sum()
            titles.append(_describe(preference, is_treated, weights, bounds))
        if before is not None:
            titles = [f"before: {titles[0]}", f"after: {titles[1]}"]
        display = cls(bins, equipoise=bounds if scale == "preference" else None)
        display._title, display._name = "\n".join(titles), AXIS[scale]
        return display.plot(ax)

    def plot(self, ax=None):
        """Draw the distributions.

        Parameters
        ----------
        <<ax>>

        <<display>>
        """
        edges = np.append(self.bins["lower"], self.bins["upper"].iloc[-1])
        with self._on_axes(ax) as ax:
            opacity = opacity_on(ax)
            self.areas_, self.before_, self.band_ = {}, {}, None
            if self.equipoise is not None:
                self.band_ = ax.axvspan(
                    *self.equipoise, color=MUTED, alpha=0.5 * opacity, linewidth=0.0, zorder=0
                )
            for arm, colour in zip(ARMS, colours_on(ax)[1::-1], strict=True):
                density = self.bins[arm].to_numpy()
                self.areas_[arm] = ax.stairs(density, edges, fill=True, color=colour, alpha=opacity)
                outline = {"color": colour, "linewidth": 1.0, "baseline": None}
                ax.stairs(density, edges, **outline)
                if f"{arm} before" in self.bins:
                    self.before_[arm] = ax.stairs(
                        self.bins[f"{arm} before"].to_numpy(), edges, linestyle=":", **outline
                    )
            ax.set_xlim(edges[0], edges[-1])
            ax.set_ylim(0.0, None)
            ax.set_xlabel(self._name)
            ax.set_title(self._title)
            ax.set_ylabel("density")
            shown = {**self.areas_, **{f"{arm} before": line for arm, line in self.before_.items()}}
            corners = ("upper right", "upper left")
            legend_in_corner(ax, list(shown.values()), list(shown), corners)
        return self


def _read_weights(cohort, is_treated, column):
    """Weights of a cohort, of which each arm has some; ones without a column."""
    if column is None:
        return np.ones(is_treated.size)
    require_column(cohort.table, column, "weight")
    weights = check_row_values(cohort.table[column], column, minimum=0)
    for arm, is_here in zip(ARMS, (is_treated, ~is_treated), strict=True):
        if not weights[is_here].any():
            raise ValueError(f"`{column}` is 0 for all {arm}; pass weights of both arms.")
    return weights


def _describe(preference, is_treated, weights, bounds):
    """Words on how well scores tell the arms apart."""
    from sklearn.metrics import roc_auc_score

    auc = roc_auc_score(is_treated, preference, sample_weight=weights)
    is_inside = (preference >= bounds[0]) & (preference <= bounds[1])
    return f"AUC {auc:.2f}, {np.average(is_inside, weights=weights):.0%} in equipoise"
