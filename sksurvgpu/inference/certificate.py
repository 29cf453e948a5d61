r"""Proofs about the point where a fit ended, if its penalty is not convex.

With the information H of the likelihood there, exact and not the solver's model of it, and A the
coefficients that may move both ways without a kink, a stationary point is a strict local minimum if
:math:`H_{AA} + P''_{AA}` is positive definite and all other slopes lie within their kinks. Where
:math:`H + \min P''` is positive definite over all columns, the objective is convex around the point
whatever the other coefficients do: no other minimum is near (Breheny and Huang 2011).
"""

from dataclasses import dataclass

import numpy as np

from .._tables import Result
from ..estimators.fitted import fitted_of
from ..information.views import view_of
from ._rows import documented, open_fit, open_rows, require_absent

MOST_COLUMNS = 2_000  # of a matrix whose eigenvalues are computed
SAME = 1e-9  # of a threshold: slopes that differ by rounding
POSITIVE = 1e-10  # eigenvalue, of columns in standard errors, that is not rounding


@dataclass(frozen=True, eq=False, repr=False)
class Certificate(Result):
    """Whether a fit is a local minimum, and convex there; made by `certificate`.

    Attributes
    ----------
    is_stationary : bool
        Whether the conditions of optimality hold, as ``converged_`` says.
    is_local_minimum : bool or None
        Whether the objective is larger at all points nearby; None where more than 2,000
        coefficients would have to be looked at.
    convex_here : bool or None
        Whether the objective is convex where the likelihood has the curvature that it has here,
        so that no other minimum is near; None for more than 2,000 columns.
    curvature : float
        Least curvature of the objective over the coefficients that are not at a kink, in units of
        the likelihood's along single columns; NaN where unknown.
    slack : float
        Least distance of a slope from where its coefficient would leave a kink (zero or a bound),
        in units of `alpha`; infinite if there is none.
    """

    is_stationary: bool
    is_local_minimum: bool | None
    convex_here: bool | None
    curvature: float
    slack: float

    def _title(self) -> str:
        said = {True: "yes", False: "no", None: "unknown"}
        return (
            f"Certificate: stationary {said[self.is_stationary]}, local minimum "
            f"{said[self.is_local_minimum]}, convex here {said[self.convex_here]}"
        )


@documented
def certificate(estimator, X, y, **fit_params) -> Certificate:
    """Check whether a fit is a local minimum, and whether others may be near.

    Parameters
    ----------
    estimator : fitted estimator of this package, or pipeline
        Fitted with a penalty that is not convex, such as `MCP`; others are fine, too.
    <<rows_of_fit>>
    <<more_of_fit>>

    Returns
    -------
    certificate : Certificate
        What is known.

    Notes
    -----
    It takes the exact information of all columns where these are at most 2,000, else of the
    coefficients that are not zero: about rows times the square of their number.

    References
    ----------
    Breheny, P. and Huang, J. (2011). Coordinate descent algorithms for nonconvex penalized
    regression. Annals of Applied Statistics 5, 232-253.

    Examples
    --------
    >>> from sksurvgpu import MCP, CoxLassoCCD, certificate
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.03, penalty=MCP()).fit(data.X, data.y)
    >>> certificate(model, data.X, data.y)
    <Certificate: stationary yes, local minimum yes, convex here no>
    """
    estimator, X = open_fit(estimator, X)
    require_absent(estimator, "certificate", ("prior_mean", "penalty", "relax"))
    rows = open_rows(estimator, X, y, fit_params)
    coef, fitted = estimator.coef_, fitted_of(estimator)
    total, nothing = fitted.total_weight, np.zeros(len(coef), bool)
    scale = rows.route.scale(rows.problem)
    family, coef = fitted.family.of_total(total).in_units(scale), coef * scale
    penalty = family.at(fitted.alpha * total, fitted.factor, nothing)
    gradient, pieces = rows.session.gradient(np.arange(len(coef))) / scale, penalty.pieces(coef)
    has_kink = pieces.right - pieces.left > SAME * penalty.threshold
    smooth = np.flatnonzero(~has_kink)
    apart = penalty.slack(coef, gradient)[has_kink]
    slack = float(apart.min(initial=np.inf)) / total
    residual = float(penalty.violation(coef, gradient).max(initial=0.0)) / total
    known = np.arange(len(coef)) if len(coef) <= MOST_COLUMNS else smooth
    is_local, is_convex, curvature = None, None, np.nan
    if len(known) <= MOST_COLUMNS:
        information, _ = view_of(rows).information(known)
        information = information / np.outer(scale[known], scale[known])
        at = np.searchsorted(known, smooth)
        bent = information[np.ix_(at, at)]
        if penalty.formulas.block is None:  # else of groups, whose members bend together
            pieces = pieces._replace(curvature=penalty.least_curvature(coef))
        penalty.add_curvature(bent, smooth, pieces, coef, penalty.columns)
        curvature = _least_eigenvalue(information[at, at], bent)
        is_local = curvature > POSITIVE and slack > residual and not estimator.infinite_.any()
        if len(known) == len(coef):
            concavity = penalty.family.concavity(penalty.columns)
            is_convex = bool(np.isfinite(concavity).all())  # -inf where a slope jumps down
            alone, bent = np.diagonal(information), information + np.diag(concavity)
            is_convex = is_convex and _least_eigenvalue(alone, bent) > POSITIVE
    return Certificate(bool(estimator.converged_), is_local, is_convex, curvature, slack)


def _least_eigenvalue(alone, matrix) -> float:
    """In units of the information of every column by itself; inf for no column."""
    if not len(alone):
        return np.inf
    unit = 1.0 / np.sqrt(np.where(alone > 0, alone, 1.0))
    return float(np.linalg.eigvalsh(matrix * np.outer(unit, unit))[0])
