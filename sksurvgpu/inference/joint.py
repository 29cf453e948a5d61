"""Joint tests of coefficients: Wald tests of some, and three tests that all are zero.

With the score u and the information I_0 where all coefficients are zero, and their estimates b with
the covariance V,

    likelihood ratio  2 (l(b) - l(0)),    Wald  b' V^-1 b,    score  u' I_0^-1 u

tend to one chi-squared distribution. The score test of a Cox model with one indicator is the
log-rank test. Robust, V is the sandwich and I_0 in the score test the sum over clusters of the
squares of their scores (Lin and Wei 1989). In a linear model the variance of the errors is
estimated, as that of the smaller model for the score; its Wald statistic over its degrees of
freedom has an F distribution.
"""

from dataclasses import dataclass

import numpy as np
from pandas import DataFrame, Index
from scipy.stats import chi2, f

from .._tables import Result
from ..data.by_column import find_columns
from ..estimators.models.base import model_of
from ..information.inverse import invert


@dataclass(frozen=True, repr=False)
class JointTest(Result):
    """Wald test of several coefficients together; made by `WaldResult.test`.

    Attributes
    ----------
    statistic : float
        Chi-squared statistic, or in a linear model that is not robust F.
    df : int
        Its degrees of freedom: the number of coefficients, or of independent contrasts.
    p_value : float
        Probability of a larger statistic if the hypothesis holds.
    df_residual : int or None
        Degrees of freedom of the errors' variance, the denominator of F.
    """

    statistic: float
    df: int
    p_value: float
    df_residual: int | None = None

    def _title(self) -> str:
        name = (
            f"chi2({self.df})" if self.df_residual is None else f"F({self.df}, {self.df_residual})"
        )
        return f"Wald test: {name} = {self.statistic:.4g}, p = {self.p_value:.3g}"


def as_test(statistic, df, df_residual=None) -> JointTest:
    """Test of a chi-squared statistic, which is of F where a variance was estimated."""
    if df_residual is None:
        return JointTest(float(statistic), df, float(chi2.sf(statistic, df)))
    statistic = float(statistic) / df if df else np.nan
    return JointTest(statistic, df, float(f.sf(statistic, df, df_residual)), df_residual)


def quadratic_form(vector, matrix, size=None) -> tuple[float, int]:
    """Square of a vector in the metric of a matrix's inverse, and its dimension."""
    if not np.isfinite(matrix).all():
        return np.nan, len(vector)
    inverse = invert(matrix, np.diagonal(matrix) if size is None else size)
    return float(vector @ inverse.matrix @ vector), inverse.rank


def read_contrasts(names, columns, contrasts, values) -> tuple[np.ndarray, np.ndarray]:
    """Contrasts as a matrix, and the values that they are tested for."""
    if contrasts is None:
        chosen = [columns] if np.ndim(columns) == 0 else list(columns)
        found = [*find_columns(chosen, "columns", len(names), names)]
        if not found or len(set(found)) < len(found):
            raise ValueError(
                f"`columns` is {chosen!r}; name one or more coefficients, each of them once."
            )
        matrix = np.eye(len(names))[found]
    elif columns is not None:
        raise ValueError("`columns` and `contrasts` were both passed; leave one of them out.")
    else:
        matrix = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
        if matrix.shape[1:] != (len(names),) or not np.isfinite(matrix).all():
            raise ValueError(
                f"`contrasts` has the shape {np.shape(contrasts)}; pass a finite number for each "
                f"of the {len(names):,} coefficients, in one row or several."
            )
    values = np.asarray(values, dtype=np.float64)
    if values.ndim > 1 or (values.ndim and len(values) != len(matrix)):
        raise ValueError(
            f"`values` has the shape {values.shape}; pass one number, or one for each of "
            f"{len(matrix)} contrast(s)."
        )
    return matrix, np.broadcast_to(values, len(matrix))


def joint_tests(estimator, wald: JointTest, score, information, meat, n_rows):
    """Tests that all coefficients are zero, a line each, by what there is at zero."""
    found_loglik, null_loglik = estimator.log_likelihood_, estimator.null_log_likelihood_
    of_score, df = quadratic_form(score, *information)
    ratio = 2.0 * max(found_loglik - null_loglik, 0.0)
    if model_of(estimator).has_dispersion:
        with np.errstate(divide="ignore"):  # a perfect fit
            ratio = n_rows * np.log(null_loglik / found_loglik)
        of_score *= n_rows / (-2.0 * null_loglik)
    found = {"likelihood_ratio": (ratio, df), "wald": (wald.statistic, wald.df)}
    found["score"] = of_score, df
    if meat is not None:
        found["robust_score"] = quadratic_form(score, meat)
    table = DataFrame(
        [(value, n, chi2.sf(value, n)) for value, n in found.values()],
        columns=["statistic", "df", "p_value"],
        index=Index(found, name="test"),
    )
    table.loc["wald", "p_value"] = wald.p_value
    if wald.df_residual is not None:
        table.insert(2, "df_residual", [np.nan, wald.df_residual, np.nan])
    return table
