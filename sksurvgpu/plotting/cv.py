"""Cross-validated scores over the penalty."""

import numpy as np

from .._tables import counted
from ..estimators.pipelines import split_pipeline
from ._curves import count_on_top, refuse_zero, show_penalties
from ._display import Display, wrong_type
from ._labels import legend_in_corner
from ._ratios import show_ratios
from ._style import GUIDE, colours_on, lay_out, opacity_on

MOST_BARS = 40  # of errors; a band for more penalties
WANTED = ("alpha", "mean_score", "standard_error", "n_nonzero")


class CVDisplay(Display):
    """Mean score of cross-validation over the penalty, with its standard error.

    Parameters
    ----------
    table : DataFrame
        Columns alpha, mean_score, standard_error and n_nonzero, a row for each penalty.
    alpha : float
        Penalty that was chosen.
    scoring : str, default="score"
        Name of the score.

    Attributes
    ----------
    <<ax_>>
    top_axis_ : matplotlib SecondaryAxis
        Numbers of nonzero coefficients, of cross-validation their means over the folds.
    line_ : matplotlib Line2D
        Mean scores.
    errors_ : matplotlib PolyCollection or LineCollection
        One standard error to both sides: a band, or bars for 40 penalties or fewer.
    best_, one_se_ : matplotlib Line2D
        Vertical lines at the penalty of the best mean, and at the largest one whose mean is within
        a standard error of it.
    chosen_ : matplotlib Line2D
        Point at the penalty that was chosen.

    See Also
    --------
    PathDisplay : The coefficients.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import CVDisplay
    >>> table = pd.DataFrame(
    ...     {
    ...         "alpha": [0.1, 0.03, 0.01],
    ...         "mean_score": [-5.1, -4.6, -4.7],
    ...         "standard_error": [0.2, 0.2, 0.3],
    ...         "n_nonzero": [0, 4, 9],
    ...     }
    ... )
    >>> display = CVDisplay(table, 0.03, scoring="loglik").plot()
    >>> display.alpha_best, display.alpha_one_se
    (0.03, 0.03)
    """

    def __init__(self, table, alpha, *, scoring="score"):
        missing = [name for name in WANTED if name not in table]
        if missing:
            raise ValueError(
                f"the table of scores has no column {missing[0]!r}; pass `cv_results_`."
            )
        scores = table.loc[np.isfinite(table["mean_score"]), list(WANTED)]
        if not len(scores):
            raise ValueError("no penalty has a finite mean score, so there is nothing to draw.")
        self.table = scores.sort_values("alpha", ascending=False).reset_index(drop=True)
        self.alpha = float(alpha)
        self.scoring = str(scoring)
        means, errors = self.table["mean_score"], self.table["standard_error"].fillna(0.0)
        best = int(np.argmax(means))
        self.alpha_best = float(self.table["alpha"][best])
        # The rows descend in alpha, so that the first one within reach has the largest.
        within = int(np.argmax(means >= means[best] - errors[best]))
        self.alpha_one_se = float(self.table["alpha"][within])

    def _shows(self):
        return f"scores at {counted(len(self.table), 'penalties')}"

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Draw the scores of an estimator that has chosen its penalty.

        Parameters
        ----------
        estimator : estimator
            Fitted, such as CoxLassoCV; where it has chosen between relaxed fits or shares of the
            lasso, the scores are those of its `relax_` and `l1_ratio_`.
        <<ax>>

        <<drawn>>
        """
        from sklearn.utils.validation import check_is_fitted

        _, estimator = split_pipeline(estimator)
        check_is_fitted(estimator)
        if not hasattr(estimator, "cv_results_") or not hasattr(estimator, "alpha_"):
            remedy = (
                ", which has chosen no alpha by cross-validation; pass a fitted one that has, such "
                "as CoxLassoCV, or a pipeline that ends in one"
            )
            raise wrong_type("estimator", estimator, remedy)
        scoring = getattr(estimator, "scoring", "score")
        if not isinstance(scoring, str):
            scoring = getattr(scoring, "__name__", "score")
        table = estimator.cv_results_
        if "gamma" in table:
            table = table[table["gamma"] == estimator.relax_]
        if "l1_ratio" in table:
            table = table[table["l1_ratio"] == estimator.l1_ratio_]
        return cls(table, estimator.alpha_, scoring=scoring).plot(ax)

    def plot(self, ax=None):
        """Draw the scores.

        Parameters
        ----------
        <<ax>>

        <<display>>
        """
        alphas = self.table["alpha"].to_numpy(dtype=np.float64)
        refuse_zero(alphas, "leave it out of `alphas`")
        with self._on_axes(ax) as ax:
            self._draw_scores(alphas)
            self._mark_choice()
            show_penalties(ax, alphas)
            counts = self.table["n_nonzero"].to_numpy(dtype=np.float64)
            self.top_axis_ = count_on_top(ax, alphas, counts, "mean nonzero coefficients")
            name = "held-out log-likelihood" if self.scoring == "loglik" else self.scoring
            ax.set_ylabel(f"mean {name.replace('_', ' ')}")
            named = self.best_, self.one_se_, self.chosen_
            corners = ("lower right", "lower left", "upper right")
            legend_in_corner(ax, named, [line.get_label() for line in named], corners)
            lay_out(ax)
            show_ratios(ax)
        return self

    def _draw_scores(self, alphas):
        means = self.table["mean_score"].to_numpy(dtype=np.float64)
        errors = self.table["standard_error"].to_numpy(dtype=np.float64)
        is_few = len(alphas) <= MOST_BARS
        colour = colours_on(self.ax_)[0]
        [self.line_] = self.ax_.plot(
            alphas, means, color=colour, marker="o" if is_few else None, markersize=3, zorder=3
        )
        if is_few:
            self.errors_ = self.ax_.vlines(
                alphas, means - errors, means + errors, color=colour, linewidth=0.8, zorder=2
            )
        else:
            self.errors_ = self.ax_.fill_between(
                alphas,
                means - errors,
                means + errors,
                color=colour,
                alpha=opacity_on(self.ax_),
                linewidth=0,
            )

    def _mark_choice(self):
        n_of = dict(zip(self.table["alpha"], self.table["n_nonzero"], strict=True))

        def mark(alpha, name, style):
            label = f"{name}: {alpha:.3g} ({round(n_of[alpha], 1):,g} nonzero)"
            return self.ax_.axvline(alpha, linestyle=style, label=label, **GUIDE)

        self.best_ = mark(self.alpha_best, "best", "-")
        self.one_se_ = mark(self.alpha_one_se, "one s.e.", (0, (4, 2)))
        nearest = int(np.argmin(np.abs(self.table["alpha"] - self.alpha)))
        [self.chosen_] = self.ax_.plot(
            self.alpha,
            self.table["mean_score"][nearest],
            color=colours_on(self.ax_)[1],
            marker="D",
            linestyle="none",
            markersize=5,
            zorder=4,
            label="chosen",
        )
