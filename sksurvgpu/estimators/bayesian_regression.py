"""Bayesian linear regression with shrinkage priors, and the noise for which they are proper."""

from numbers import Real

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from ..bayes.priors import HorseshoePrior, Lasso, Ridge
from ..bayes.reduction import GaussianRows, reduce_rows
from ..bayes.regression import SAMPLERS
from ..data.checks import check_sample_weight
from ..data.intervals import check_level, tails
from ..data.outcomes.counts import read_numbers
from ..data.partitioned import check_in_memory, require_in_memory
from ._bayes import OF_CHAINS, BayesianModel, choose_draws, matrix_of, mixture_quantile
from ._columns import read_columns
from ._docs import documented

# Rate of lambda2 for columns of unit norm, as published for the diabetes data (Park and Casella
# 2008, section 3.2).
PUBLISHED_RATE = 1.78
POSITIVE, NOT_NEGATIVE = (Interval(Real, 0, None, closed=closed) for closed in ("neither", "left"))
ROUNDING = 1e-12
SMALLEST = np.finfo(float).tiny
OF_MEAN = 16 * np.finfo(float).eps  # what rounding leaves of a mean that is subtracted
SMALLEST_SCALE = 1e-150  # its square and what is divided by that are within float64
OF_PRIOR = ("lambda2_", "lambda_rate_", "global_scale2_", "global_scale_")  # some fits have some


@documented
class BayesianLasso(RegressorMixin, BayesianModel):
    r"""Bayesian linear regression with a lasso, ridge or horseshoe prior.

    Draws from the posterior of

    .. math:: y_i \sim N(\mu + x_i\beta,\ \sigma^2/w_i), \qquad
              \beta_j \mid \sigma^2 \sim N(0,\ \sigma^2 g\,v_j), \qquad
              \sigma^2 \sim \mathrm{IG}(a, b)

    with a flat prior of the intercept :math:`\mu` and sample weights :math:`w`. The lasso's local
    scales :math:`v_j` are exponential with mean 2, which makes coefficients double exponential
    with the rate :math:`\lambda/\sigma`, :math:`\lambda^2 = 1/g`; the ridge's are 1. The roots of
    the horseshoe's local scales are half-t, that of its global scale :math:`g` is half-Cauchy.

    Parameters
    ----------
    prior : {"lasso", "ridge", "horseshoe"}, default="lasso"
        Prior of the coefficients.
    sampler : {"collapsed", "two-block", "three-step"}, default="collapsed"
        What is integrated out of the draws of the other unknowns: coefficients and variance out of
        that of the global scale, coefficients out of that of the variance, or nothing. All three
        have the same posterior; with hundreds of columns only the first gets there.
    lam : float or None, default=None
        Fixed :math:`\lambda` of the lasso or the ridge. Where None, :math:`\lambda^2` is unknown,
        with a gamma prior.
    lambda_shape : float, default=1.0
        Shape of that gamma prior, at least 0.
    lambda_rate : float or "auto", default="auto"
        Its rate, positive. "auto" is 1.78 over the mean over columns of
        :math:`\sum_i w_i (x_{ij} - \bar x_j)^2`: the published 1.78 where columns have unit norm.
    noise_shape : float, default=1.0
        Shape :math:`a` of the prior of :math:`\sigma^2`, at least 0.
    noise_rate : float or "auto", default="auto"
        Its rate :math:`b`, at least 0. "auto" is `noise_shape` times half of the variance of `y`.
        0, which is improper, is allowed where there are fewer columns than rows.
    global_scale : float or "auto", default="auto"
        Scale of the half-Cauchy prior of the horseshoe's :math:`\sqrt g`. "auto" is one over the
        root mean square of the columns' standard deviations.
    local_df : float, default=1.0
        Degrees of freedom of the horseshoe's half-t local scales; 1 is the horseshoe, more shrink
        large coefficients, too.
    record_local : bool, default=False
        Whether `posterior_` has the local scales :math:`v_j` as ``local_scale2``; not of the
        ridge, whose are 1.
    fit_intercept : bool, default=True
        Whether there is an intercept.
    <<sampling>>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Posterior means of the coefficients.
    intercept_ : float
        That of the intercept; 0 where none was wanted.
    sigma2_ : float
        That of the variance.
    lambda2_ : float
        That of :math:`\lambda^2`, or its fixed value; of the lasso and the ridge.
    global_scale2_ : float
        That of :math:`g`; of the horseshoe.
    noise_rate_, lambda_rate_, global_scale_ : float
        What "auto" stood for; the latter two only of priors that have them.
    <<sampled>>

    See Also
    --------
    LinearCCD : The mode of a lasso posterior with fixed penalty.

    Notes
    -----
    Columns are centred, not scaled: with columns of different units standardize them, or all are
    shrunk by their units. With "auto" the posterior is equivariant to the units of `y`, and to
    those that all columns share. A constant column is confounded with the intercept; its
    coefficient has the prior's distribution.

    A weight is a precision: the row has the variance :math:`\sigma^2/w_i`, and weight 2 is not two
    rows. Rows of weight 0 are absent.

    <<routing>>

    References
    ----------
    Park T, Casella G (2008). The Bayesian lasso. J Am Stat Assoc 103, 681-686.

    Carvalho CM, Polson NG, Scott JG (2010). The horseshoe estimator for sparse signals. Biometrika
    97, 465-480.

    Johndrow J, Orenstein P, Bhattacharya A (2020). Scalable approximate MCMC algorithms for the
    horseshoe prior. J Mach Learn Res 21(73).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sksurvgpu import BayesianLasso
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = BayesianLasso(n_tune=200, n_draws=500).fit(X, y)
    >>> table = model.summary()
    >>> bool(table.loc["coef[bmi]", "lower"] > 0)
    True
    >>> interval = model.predict_interval(X[:3], level=0.9)
    >>> interval.shape
    (3, 2)
    """

    _parameters = {
        "prior": ("lasso", [StrOptions({"lasso", "ridge", "horseshoe"})]),
        "sampler": ("collapsed", [StrOptions(set(SAMPLERS))]),
        "lam": (None, [POSITIVE, None]),
        "lambda_shape": (1.0, [NOT_NEGATIVE]),
        "lambda_rate": ("auto", [StrOptions({"auto"}), POSITIVE]),
        "noise_shape": (1.0, [NOT_NEGATIVE]),
        "noise_rate": ("auto", [StrOptions({"auto"}), NOT_NEGATIVE]),
        "global_scale": ("auto", [StrOptions({"auto"}), POSITIVE]),
        "local_df": (1.0, [POSITIVE]),
        "record_local": (False, ["boolean"]),
        "fit_intercept": (True, ["boolean"]),
    } | OF_CHAINS

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Draw from the posterior.

        Parameters
        ----------
        <<X_here>>
        y : array-like of shape (n_samples,)
            Numbers.
        <<sample_weight>>

        <<itself>>
        """
        self._check_parameters()
        design, header = read_columns(require_in_memory(X))
        check_in_memory(X, y=y, sample_weight=sample_weight)
        y = read_numbers(y, n_rows=design.n_rows).value
        weight = check_sample_weight(sample_weight, design.n_rows)
        with np.errstate(over="ignore", invalid="ignore"):  # _check_rows names what overflows
            rows = reduce_rows(
                matrix_of(design), y[None], weight, fit_intercept=bool(self.fit_intercept)
            )
        resolved = self._resolve(rows)
        names = header.labels()
        posterior = self._sample(
            self._maker(rows, resolved),
            {"coef": names, "local_scale2": names},
            {"X": design, "y": y, "sample_weight": weight},
        )
        for name in OF_PRIOR:
            if hasattr(self, name):
                delattr(self, name)
        self._adopt(header, posterior, **self._means(posterior), **resolved)
        return self

    def _check_parameters(self):
        """Check what constraints cannot express."""
        if self.lam is not None and self.prior == "horseshoe":
            raise ValueError(
                f'`lam` is {self.lam:g}, but prior="horseshoe" has no lambda; leave it out, or set '
                "the scale of its global shrinkage by `global_scale`."
            )
        for name in ("lam", "global_scale"):
            value = getattr(self, name)
            if isinstance(value, Real) and not SMALLEST_SCALE < value < 1.0 / SMALLEST_SCALE:
                raise ValueError(
                    f"`{name}` is {value:g}, whose square float64 cannot hold; rescale `X` so that "
                    f"it lies between {SMALLEST_SCALE:g} and {1.0 / SMALLEST_SCALE:g}."
                )

    def _resolve(self, rows: GaussianRows) -> dict[str, float]:
        """Numbers for what is "auto", as fitted attributes."""
        check_squares(rows)
        resolved = {"noise_rate_": resolve_noise(rows, self.noise_shape, self.noise_rate)}
        square = float(rows.column_square.mean())
        name, auto = "lambda_rate", PUBLISHED_RATE / square if square else None
        if self.prior == "horseshoe":
            name, auto = "global_scale", np.sqrt(rows.degrees / square) if square else None
        elif self.lam is not None:
            return resolved
        given = getattr(self, name)
        if name == "lambda_rate" and self.lambda_shape == 0 and not square:
            raise ValueError(
                "the posterior is improper: `X` has constant columns only, which tell nothing of "
                "lambda, and neither does a prior of lambda_shape=0; pass a positive "
                "`lambda_shape`, or a `lam`."
            )
        if given != "auto":
            return resolved | {f"{name}_": float(given)}
        if auto is None:
            raise ValueError(
                f'`X` has constant columns only, and {name}="auto" is relative to their spread; '
                f"leave them out, or pass a number as `{name}`."
            )
        return resolved | {f"{name}_": float(auto)}

    def _maker(self, rows, resolved):
        """A function that makes the sampler of some chains."""
        if self.prior == "horseshoe":
            prior = HorseshoePrior(resolved["global_scale_"], float(self.local_df))
        else:
            kind = Lasso if self.prior == "lasso" else Ridge
            lam = None if self.lam is None else float(self.lam)
            prior = kind(lam, float(self.lambda_shape), resolved.get("lambda_rate_", 1.0))
        noise = float(self.noise_shape), resolved["noise_rate_"]
        kind = SAMPLERS[self.sampler]
        record = bool(self.record_local)
        return lambda sampling: kind(sampling, rows, prior, noise, record_local=record)

    def _means(self, posterior):
        """Posterior means, as fitted attributes."""
        means = {"coef_": posterior.mean("coef"), "sigma2_": float(posterior.mean("sigma2"))}
        means["intercept_"] = float(posterior.mean("intercept")) if self.fit_intercept else 0.0
        if self.prior == "horseshoe":
            return means | {"global_scale2_": float(posterior.mean("global_scale2"))}
        fixed = None if self.lam is None else float(self.lam) ** 2
        return means | {"lambda2_": float(posterior.mean("lambda2")) if fixed is None else fixed}

    def predict(self, X, return_std=False):
        """Posterior mean of the outcome.

        Parameters
        ----------
        <<X_here>>
        return_std : bool, default=False
            Whether to return standard deviations, too.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            Expected values.
        std : ndarray of shape (n_samples,)
            Standard deviations of new outcomes of weight 1, their noise included; only with
            `return_std`.
        """
        X = self._read_features(X)
        mean = X @ self.coef_ + self.intercept_
        if not return_std:
            return mean
        variance = np.concatenate([drawn.var(axis=1, ddof=1) for drawn in self._predictors(X)])
        return mean, np.sqrt(variance + self.sigma2_)

    def predict_interval(self, X, level=0.95, kind="new"):
        """Intervals of outcomes, or of their means.

        Parameters
        ----------
        <<X_here>>
        level : float, default=0.95
            Probability of an interval, which leaves as much on either side.
        kind : {"new", "mean"}, default="new"
            Intervals of new outcomes of weight 1, or of expected values.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper bounds.
        """
        level = check_level(level)
        if kind not in ("new", "mean"):
            raise ValueError(f"`kind` is {kind!r}, must be 'new' or 'mean'.")
        X = self._read_features(X)
        shares, sd = tails(level), np.sqrt(self._drawn("sigma2"))
        interval = [
            np.quantile(drawn, shares, axis=1).T
            if kind == "mean"
            else np.column_stack([mixture_quantile(drawn, sd, tail) for tail in shares])
            for drawn in self._predictors(X)
        ]
        return np.concatenate(interval)

    def sample_predictive(self, X, n_draws=None, random_state=None):
        """Draw new outcomes.

        Parameters
        ----------
        <<X_here>>
        n_draws : int, optional
            Number of draws, by default and at most as many as the posterior has.
        random_state : int, RandomState instance or None, default=None
            Seed of the choice of draws and of the noise.

        Returns
        -------
        y : ndarray of shape (n_draws, n_samples)
            Outcomes of weight 1, all of a row of this array at the same parameters.
        """
        X, sigma2 = self._read_features(X), self._drawn("sigma2")
        random = check_random_state(random_state)
        chosen = choose_draws(n_draws, len(sigma2), random)
        drawn = np.concatenate([block.T for block in self._predictors(X, chosen)], axis=1)
        return drawn + np.sqrt(sigma2[chosen])[:, None] * random.normal(size=drawn.shape)


def check_squares(rows):
    """Refuse reduced rows that are too few, or whose squares overflow or underflow."""
    if rows.degrees < 1:
        raise ValueError(
            f"`X` has n_samples = {_count(rows)} row(s) of positive weight; at least 2 are needed "
            "with an intercept, and 1 without."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        squares = {"X": (rows.column_square, rows.matrix), "y": (rows.square, rows.target)}
    for name, (square, values) in squares.items():
        if not np.isfinite(square).all():
            raise ValueError(f"the squares of `{name}` are infinite; rescale it.")
        if square.max() < SMALLEST and abs(values).max() > 0:
            raise ValueError(f"the squares of `{name}` are too small for float64; rescale it.")


def resolve_noise(rows, shape, rate) -> float:
    """Rate of the variance's prior; refuse what has no proper posterior."""
    [square], [residual] = rows.square, rows.residual
    if square <= (ROUNDING * rows.outcome_mean[0]) ** 2 * rows.precision:
        square = residual = 0.0
    rate = float(shape * 0.5 * square / rows.degrees if rate == "auto" else rate)
    if rate > 0:
        return rate
    n_columns = rows.matrix.shape[1]
    if square == 0:
        raise ValueError(
            "`y` is constant, so that nothing but the prior of the noise keeps its variance from "
            "0; pass a positive number as `noise_rate`."
        )
    rounding = ROUNDING**2 * square + (OF_MEAN * rows.outcome_mean[0]) ** 2 * rows.precision
    if n_columns >= rows.degrees or residual <= rounding:
        raise ValueError(
            f"the posterior is improper: the rate of the noise's prior is 0, and {n_columns:,} "
            f"column(s) can fit {_count(rows):,} rows without an error; pass a positive "
            '`noise_rate`, or noise_rate="auto" with a positive `noise_shape`.'
        )
    return rate


def _count(rows):
    """Rows of positive weight."""
    return rows.degrees + int(rows.precision > 0)
