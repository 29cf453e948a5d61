"""The smoothly clipped absolute deviation; its formulas are those of `folded`."""

from typing import ClassVar

from .folded import make_folded, read_shape
from .spec import PenaltySpec


class SCAD(PenaltySpec):
    r"""Smoothly clipped absolute deviation: the lasso near zero, no penalty on large coefficients.

    For a column with lasso penalty :math:`l`, the slope is :math:`l` up to :math:`s = l / C`, falls
    in proportion to 0 at :math:`as`, and is 0 beyond.  It is not convex: a fit ends in a local
    minimum, see :func:`certificate`.

    Parameters
    ----------
    a : float, dict or array-like of shape (n_features,), default=3.7
        Where the penalty ends, above 2, of all columns or of each; infinity is the lasso. A
        dictionary gives those of some columns, by name or position, the others get 3.7.
    scale : {"column", "unit"}, default="column"
        What :math:`C` is: the curvature along the column in the null model, or the sum of the
        weights, as for `MCP`.

    See Also
    --------
    MCP : Another penalty of this kind.

    Notes
    -----
    :math:`C` is found once, from all rows of a fit, path, cross-validation or bootstrap, which
    share it. `bounds`, `penalty_factor`, `l1_ratio` (the rest is a ridge) and `prior_mean` of an
    estimator go with it. :doc:`/guide/nonconvex` has more.

    References
    ----------
    Fan, J. and Li, R. (2001). Variable selection via nonconcave penalized likelihood and its oracle
    properties. Journal of the American Statistical Association 96, 1348-1360.

    Examples
    --------
    >>> from sksurvgpu import SCAD, CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.03, penalty=SCAD()).fit(data.X, data.y)
    >>> model.converged_
    True
    """

    known_to: ClassVar[tuple[str, ...]] = ("certificate",)

    def __init__(self, a=3.7, scale="column"):
        self.a = a
        self.scale = scale

    def family(self, given):
        """Penalties of every strength."""
        return make_folded(given, self.scale, 1.0, read_shape(self.a, "a", 2, 3.7, given))
