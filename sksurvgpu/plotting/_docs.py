"""Parameters that the displays of curves have in common."""

from .._docs import entries, sharing

__all__ = ["documented"]

_ENTRIES = entries("""
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    X : array, sparse matrix or DataFrame of shape (n_rows, n_features)
        At most 20 rows.
    strata : array-like of shape (n_rows,), optional
        Stratum of each row; required if and only if the model was fitted with strata.
    functions : sequence of sksurv.functions.StepFunction
        At most 20.
    labels : sequence of str, optional
        Names of the curves; by default the index of a DataFrame, the labels of groups, or "row 0"
        and so on.
    limits : {"interval", "band"} or None, default="interval"
        Areas around the curves: pointwise intervals, or the bands, where the result has some.
    kaplan_meier : structured ndarray of shape (n_samples,), optional
        Outcome from `surv` whose Kaplan-Meier curves are drawn, dashed.
    aalen_johansen : structured ndarray of shape (n_samples,), optional
        Outcome from `competing_risks` whose Aalen-Johansen curves are drawn, dashed.
    groups : array-like of shape (n_samples,), optional
        Group of each entry of the outcome, with a curve each: categories in their order, numbers
        ascending, other labels as they appear. A group that is called as one of the curves gets
        the same colour.
    event_of_interest : int or str, default=1
        Code or label of the event of the observed curves; all others compete with it.
    at_risk : bool, default=False
        Write below the axes how many are at risk in each group.
    censor_marks : bool, default=True
        Mark Kaplan-Meier curves by a tick where somebody is censored; ticks that would touch are
        drawn once.
    log_rank : bool or LogRank, default=True
        Write the p-value of a log-rank test where Kaplan-Meier curves of groups are compared: of
        this result, or of the test of the groups, within strata where the outcome has some. Left
        out for a result of rows with weights other than counts, with late entry, or with strata
        apart from the groups, which its curves do not have.
    medians : bool, default=False
        Draw dotted lines to the median times of the Kaplan-Meier curves.
    colors : list of colour, optional
        Colours of the curves, one for each, or for each group where curves of a group share one;
        by default such as everybody can tell apart.
    legend_title : str, optional
        Title of the legend, such as the name of the groups.
    **options : dict
        Options of `plot`: what is drawn beside the curves.
""")

documented = sharing(_ENTRIES)
