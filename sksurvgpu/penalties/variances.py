"""Penalties as priors: a fit is the mode of a posterior, whose prior has a variance.

On the sum scale a Laplace prior of variance v has strength sqrt(2 / v), a normal one 1 / v.
"""

from collections.abc import Mapping
from numbers import Integral

import numpy as np

from ..data import options
from ..data.by_column import by_column

PRIORS = ("laplace", "normal")


def alpha_of_variance(variance, total_weight, prior="laplace"):
    """Convert a prior variance of the coefficients to the penalty ``alpha``.

    Parameters
    ----------
    variance : float or array-like
        Variance of the prior, positive; infinity is no penalty.
    total_weight : float
        Sum of the sample weights; without weights the number of rows, ``len(y)``.
    prior : {"laplace", "normal"}, default="laplace"
        Prior of the lasso (``l1_ratio=1``), or of the ridge (``l1_ratio=0``).

    Returns
    -------
    alpha : float or ndarray
        What estimators call `alpha`.

    See Also
    --------
    variance_of_alpha : The inverse.
    mixed_priors : Priors that differ between columns.

    Examples
    --------
    >>> from sksurvgpu import alpha_of_variance, variance_of_alpha
    >>> round(alpha_of_variance(0.01, total_weight=500), 5)
    0.02828
    >>> round(variance_of_alpha(0.02828, total_weight=500), 4)
    0.01
    """
    variance = _positive(variance, "variance")
    _check(prior, total_weight)
    lam = np.sqrt(2.0 / variance) if prior == "laplace" else 1.0 / variance
    return _as_given(lam / total_weight)


def variance_of_alpha(alpha, total_weight, prior="laplace"):
    """Convert the penalty ``alpha`` to a prior variance of the coefficients.

    Parameters
    ----------
    alpha : float or array-like
        What estimators call `alpha`, positive.
    total_weight : float
        Sum of the sample weights; without weights the number of rows, ``len(y)``.
    prior : {"laplace", "normal"}, default="laplace"
        Prior of the lasso (``l1_ratio=1``), or of the ridge (``l1_ratio=0``).

    Returns
    -------
    variance : float or ndarray
        Variance of the prior.

    See Also
    --------
    alpha_of_variance : The inverse.

    Examples
    --------
    >>> from sksurvgpu import variance_of_alpha
    >>> round(variance_of_alpha(0.02, total_weight=500), 6)
    0.02
    """
    _check(prior, total_weight)
    lam = _positive(alpha, "alpha") * total_weight
    return _as_given(2.0 / lam**2 if prior == "laplace" else 1.0 / lam)


def mixed_priors(priors, columns, total_weight, *, default=None):
    """Parameters of an estimator for priors of different kinds and variances by column.

    Parameters
    ----------
    priors : mapping {column: (prior, variance) or None}
        "laplace" or "normal" and the variance of columns, by name or position; None is no prior.
    columns : int or array-like of str
        Number of columns of X, or their names.
    total_weight : float
        Sum of the sample weights; without weights the number of rows, ``len(y)``.
    default : tuple (prior, variance), optional
        Prior of the columns that `priors` does not name; by default they have none.

    Returns
    -------
    parameters : dict
        ``alpha``, ``l1_ratio`` and ``penalty_factor``, for all estimators.

    See Also
    --------
    alpha_of_variance : One prior for all columns.

    Notes
    -----
    ``alpha`` stands for `default`, or the first prior where there is none; another alpha, as of a
    path, scales the strengths of all in proportion.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, mixed_priors
    >>> priors = {"age": ("normal", 1.0), "sex": None}
    >>> given = mixed_priors(priors, ["age", "sex", "drug"], 500, default=("laplace", 0.02))
    >>> given["alpha"], given["l1_ratio"].tolist(), given["penalty_factor"].tolist()
    (0.02, [0.0, 1.0, 1.0], [0.1, 0.0, 1.0])
    >>> model = CoxLassoCCD(**given)
    """
    if not isinstance(priors, Mapping):
        options.refuse(priors, "priors", "must be a dictionary {column: (prior, variance) or None}")
    columns = getattr(columns, "columns", columns)  # of a DataFrame
    names = None if isinstance(columns, Integral) else np.asarray(columns, dtype=object)
    n_columns = int(columns) if names is None else len(names)
    ratio, rest = _read_prior(default, "default", total_weight)
    ratios, strengths, alpha = np.full(n_columns, ratio), np.full(n_columns, rest), rest
    for j, (column, prior) in by_column(priors, "priors", n_columns, names).items():
        ratios[j], strengths[j] = _read_prior(prior, f"priors[{column!r}]", total_weight)
        alpha = alpha or float(strengths[j])
    factor = strengths / alpha if alpha else strengths
    return {"alpha": alpha, "l1_ratio": ratios, "penalty_factor": factor}


def _read_prior(prior, name, total_weight):
    """Share of the lasso, and penalty on the mean scale."""
    if prior is None:
        return 1.0, 0.0
    if isinstance(prior, str) or not hasattr(prior, "__len__") or len(prior) != 2:
        raise ValueError(f'`{name}` is {prior!r}; pass ("laplace" or "normal", variance), or None.')
    kind, variance = prior
    alpha = alpha_of_variance(variance, total_weight, kind)
    return float(kind == "laplace"), float(alpha)


def _positive(values, name):
    numbers = np.asarray(values, dtype=np.float64)
    if not (numbers > 0).all():
        raise ValueError(f"`{name}` is {values!r}, must be positive.")
    return numbers


def _check(prior, total_weight):
    options.choice(prior, "prior", PRIORS)
    options.number(total_weight, "total_weight", "must be positive and finite", above=0)


def _as_given(numbers):
    return numbers if numbers.ndim else float(numbers)
