"""The minimax concave penalty; its formulas are those of `folded`."""

from typing import ClassVar

from .folded import make_folded, read_shape
from .spec import PenaltySpec


class MCP(PenaltySpec):
    r"""Minimax concave penalty: selects like the lasso, without shrinking large coefficients.

    For a column with lasso penalty :math:`l` and a knot :math:`k = \gamma l / C`,

    .. math:: p(\beta) = l\Bigl(|\beta| - \frac{\beta^2}{2k}\Bigr) \text{ for } |\beta| \le k,
              \qquad \frac{lk}{2} \text{ beyond}.

    It is not convex: a fit ends in a local minimum, see :func:`certificate`.

    Parameters
    ----------
    gamma : float, dict or array-like of shape (n_features,), default=3.0
        Where the penalty ends, above 1, of all columns or of each; infinity is the lasso. A
        dictionary gives those of some columns, by name or position, the others get 3.
    scale : {"column", "unit"}, default="column"
        What :math:`C` is. "column": the curvature of :math:`-\ell` along the column in the null
        model, so that `gamma` means the same for columns in any units, in every model, and the
        objective is convex along every column there. "unit": the sum of the weights, the textbook's
        :math:`k = \gamma\alpha` for columns of variance 1 in least squares.

    See Also
    --------
    SCAD : Another penalty of this kind.

    Notes
    -----
    :math:`C` is found once, from all rows of a fit, path, cross-validation or bootstrap, which
    share it. It is that of the solver's quadratic model. With Efron's ties, and where more than
    5,000 rows or 512 events have it take neighbouring event times together, that is a hundredth or
    so more than the likelihood's, at times a tenth; of many strata or late entry a third. `bounds`,
    `penalty_factor`, `l1_ratio` (the rest is a ridge) and `prior_mean` of an estimator go with it.
    :doc:`/guide/nonconvex` has more.

    References
    ----------
    Zhang, C.-H. (2010). Nearly unbiased variable selection under minimax concave penalty. Annals of
    Statistics 38, 894-942.

    Examples
    --------
    >>> from sksurvgpu import MCP, CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> lasso = CoxLassoCCD(alpha=0.03).fit(data.X, data.y)
    >>> model = CoxLassoCCD(alpha=0.03, penalty=MCP(gamma=3.0)).fit(data.X, data.y)
    >>> model.converged_, bool(abs(model.coef_).max() > abs(lasso.coef_).max())
    (True, True)
    """

    known_to: ClassVar[tuple[str, ...]] = ("certificate",)

    def __init__(self, gamma=3.0, scale="column"):
        self.gamma = gamma
        self.scale = scale

    def family(self, given):
        """Penalties of every strength."""
        return make_folded(given, self.scale, 0.0, read_shape(self.gamma, "gamma", 1, 3.0, given))
