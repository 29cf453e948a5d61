"""Intervals of metrics, and of how those of several models differ, by a bootstrap of rows.

All models are judged by the same rows of every replicate, so that what is common to them leaves
their differences. A person of several rows is drawn as a whole.
"""

from collections.abc import Mapping

import numpy as np
from pandas import DataFrame, Index, MultiIndex
from sklearn.utils import check_random_state

from .._warnings import warn
from ..data.intervals import check_level, tails
from ..data.options import whole
from ..data.vectors import as_array, check_order
from .pairs import group_rows

OF_ROWS = ("sample_weight", "strata")  # options with an entry for each row


def compare(metric, y, predictions, *, level=0.95, n_replicates=500, random_state=None, **options):
    """Metrics of one model or several with intervals, and their differences from the first.

    Parameters
    ----------
    metric : callable
        ``metric(y, prediction, **options)`` returns a number, or a `pandas.Series` of numbers by
        horizon or threshold: `concordance`, or of other metrics a function that calls them, such
        as ``lambda y, risk: auc(y_train, y, risk)``.
    y : ndarray of shape (n_samples,)
        Outcome of rows that the fits have not seen. Rows of one ``subject`` are drawn together.
    predictions : dict of {str: DataFrame or array-like}
        By name of the model what `metric` takes, a row for each one of `y`.
    level : float, default=0.95
        Of the intervals.
    n_replicates : int, default=500
        Number of bootstrap replicates. A p-value is no less than ``2 / (n_replicates + 1)``.
    random_state : int, RandomState instance or None, default=None
        Seed of the replicates.
    **options
        Arguments of `metric`; ``sample_weight`` and ``strata`` are drawn with the rows.

    Returns
    -------
    table : pandas.DataFrame
        By model, and by horizon or threshold where there are several: the ``estimate``, its
        ``standard_error`` and the limits ``lower`` and ``upper``; the ``difference`` from the
        first model with ``difference_lower`` and ``difference_upper``, and the ``p_value`` of no
        difference, all NaN for the first. Limits are quantiles of the replicates, and a p-value is
        below 0.05 where a limit of 95% of the difference is beyond 0.

    Notes
    -----
    Intervals speak of other rows that the same predictions would be judged by, not of other rows to
    fit models to. Replicates in which the metric is not defined, as without an event by the
    horizon, are left out with a warning.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.metrics import brier_score, compare, concordance
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> X, y, new, seen = data.X[:500], data.y[:500], data.X[500:], data.y[500:]
    >>> models = {alpha: CoxLassoCCD(alpha=alpha).fit(X, y) for alpha in (0.05, 0.005)}
    >>> predictors = {alpha: model.predict(new) for alpha, model in models.items()}
    >>> compare(concordance, seen, predictors, random_state=0).T.round(3)
    model             0.050  0.005
    estimate          0.574  0.669
    standard_error    0.010  0.014
    lower             0.554  0.642
    upper             0.593  0.696
    difference          NaN  0.096
    difference_lower    NaN  0.070
    difference_upper    NaN  0.121
    p_value             NaN  0.004

    Of a metric by horizon:

    >>> risks = {alpha: model.predict_risk(new, [10, 20]) for alpha, model in models.items()}
    >>> def brier(seen, risk):
    ...     return brier_score(y, seen, risk)
    >>> table = compare(brier, seen, risks, n_replicates=100, random_state=0)
    >>> table.loc[0.005].filter(like="difference").round(3)
          difference  difference_lower  difference_upper
    time
    10.0      -0.012            -0.020             -0.00
    20.0      -0.025            -0.038             -0.01
    """
    if not callable(metric):
        raise TypeError(f"`metric` is {metric!r:.40}, must be a function, such as concordance.")
    level, n_replicates = check_level(level), whole(n_replicates, "n_replicates", 2)
    y, predictions = _check_rows(y, predictions)
    found = [metric(y, given, **options) for given in predictions.values()]
    estimate = _check_found(found)
    given = (name for name in OF_ROWS if options.get(name) is not None)
    of_rows = {name: _as_rows(options[name], name) for name in given}
    draws = np.full((n_replicates, *estimate.shape), np.nan)
    order, ptr = _units(y)
    random, n_lost = check_random_state(random_state), 0
    for draw in draws:
        rows = _rows_of(random.randint(len(ptr) - 1, size=len(ptr) - 1), order, ptr)
        options |= {name: _take(values, rows) for name, values in of_rows.items()}
        try:
            draw[:] = [
                np.ravel(metric(y[rows], _take(given, rows), **options))
                for given in predictions.values()
            ]
            if np.isnan(draw[~np.isnan(estimate)]).any():
                raise ValueError("`metric` is NaN.")
        except ValueError as error:
            draw[:], n_lost, last = np.nan, n_lost + 1, error
    if n_lost:
        if n_lost == n_replicates:
            raise ValueError("`metric` fails in all replicates, as the error above says.") from last
        warn(f"{n_lost:,} of {n_replicates:,} replicates are left out, the last because: {last}")
        draws = draws[~np.isnan(draws).all(axis=(1, 2))]
    return _table([*predictions], getattr(found[0], "index", None), estimate, draws, level)


def _check_rows(y, predictions):
    if not isinstance(predictions, Mapping) or not predictions:
        raise TypeError(
            f"`predictions` is of type {type(predictions).__name__}, must be a dictionary with "
            "those of each model by its name."
        )
    check_order(y=y, **{f"predictions[{name!r}]": values for name, values in predictions.items()})
    y, given = as_array(y, "y"), {name: _as_rows(values) for name, values in predictions.items()}
    for name, values in given.items():
        if len(values) != len(y):
            raise ValueError(
                f"`predictions[{name!r}]` has {len(values):,} rows, `y` has {len(y):,} rows."
            )
    return y, given


def _as_rows(values, name="predictions"):
    return values if hasattr(values, "iloc") else np.atleast_1d(as_array(values, name))


def _check_found(found):
    """Numbers that a metric has returned of models, (n_models, n_values)."""
    for values in found:
        if np.ndim(values) > hasattr(values, "iloc") or np.asarray(values).dtype.kind not in "biuf":
            raise TypeError(
                f"`metric` returns {values!r:.40}, must return a number or a pandas.Series "
                "of numbers."
            )
        if np.size(values) != np.size(found[0]):
            raise ValueError(
                f"`metric` returns {np.size(found[0])} numbers of one model, {np.size(values)} of "
                "another; must return as many of all."
            )
    return np.array([np.ravel(values) for values in found], dtype=np.float64)


def _units(y):
    """Rows sorted by person, and where the rows of each begin; rows by themselves without."""
    if y.dtype.names is None or "subject" not in y.dtype.names:
        return np.arange(len(y)), np.arange(len(y) + 1)
    codes, ptr = group_rows(y["subject"], len(y))
    return np.argsort(codes, kind="stable"), ptr


def _rows_of(drawn, order, ptr):
    """All rows of the units that were drawn, as often as they were."""
    sizes = ptr[drawn + 1] - ptr[drawn]
    ends = np.cumsum(sizes)
    return order[np.arange(ends[-1]) + np.repeat(ptr[drawn + 1] - ends, sizes)]


def _take(values, rows):
    return values.iloc[rows] if hasattr(values, "iloc") else values[rows]


def _table(names, lines, estimate, draws, level):
    """Estimates and differences from the first, with limits of replicates, (n, models, values)."""
    lower, upper = np.quantile(draws, tails(level), axis=0)
    columns = {"estimate": estimate, "standard_error": draws.std(axis=0, ddof=1)}
    columns |= {"lower": lower, "upper": upper}
    apart = draws - draws[:, :1]
    lower, upper = np.quantile(apart, tails(level), axis=0)
    beyond = np.minimum((apart <= 0.0).sum(axis=0), (apart >= 0.0).sum(axis=0)) + 1
    p_value = np.where(np.isnan(lower), np.nan, np.minimum(2.0 * beyond / (len(draws) + 1), 1.0))
    others = {"difference": estimate - estimate[0], "difference_lower": lower}
    others |= {"difference_upper": upper, "p_value": p_value}
    for values in others.values():
        values[0] = np.nan
    index = Index(names, name="model")
    if lines is not None:
        index = MultiIndex.from_product([names, lines], names=["model", lines.name])
    return DataFrame({k: v.ravel() for k, v in {**columns, **others}.items()}, index=index)
