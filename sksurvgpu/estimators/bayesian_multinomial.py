"""Bayesian multinomial logistic regression."""

from numbers import Real

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from ..backends import choose_sampling
from ..bayes.multinomial import MultinomialGibbs, MultinomialHmc, collapse_rows
from ..data.checks import check_sample_weight
from ..data.intervals import check_level, tails
from ..data.outcomes.categories import read_categories
from ..data.partitioned import check_in_memory, require_in_memory
from ..data.vectors import check_length
from ._bayes import OF_CHAINS, BayesianModel, choose_draws, matrix_of
from ._columns import read_columns
from ._docs import documented
from ._multinomial import (
    check_size,
    check_trials,
    label_parameters,
    locate,
    order_classes,
    read_prior,
    with_intercept,
)

SAMPLERS = {"hmc": MultinomialHmc, "gibbs": MultinomialGibbs}
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")


@documented
class BayesianMultinomialLogistic(ClassifierMixin, BayesianModel):
    r"""Multinomial logistic regression with normal priors, by sampling the posterior.

    .. math:: P(y_i = j) = \frac{e^{b_j + x_i^\top\beta_j}}{\sum_l e^{b_l + x_i^\top\beta_l}},
              \qquad \beta_j \sim N(m_j, P_j^{-1}),

    with :math:`b = 0` and :math:`\beta = 0` for the reference class. With two classes it is
    logistic regression. Columns are neither centred nor scaled.

    Parameters
    ----------
    sampler : {"hmc", "gibbs"}, default="hmc"
        Hamiltonian Monte Carlo, preconditioned at the mode, or Gibbs sampling with Polya-Gamma
        variables. Both draw from the same posterior; "hmc" has many times the effective draws per
        second, above all where classes are rare, and its cost does not depend on the counts; that
        of "gibbs" grows with them.
    prior_mean : float or array-like, default=0.0
        Prior means of the coefficients: one number, those of all columns, shape (n_features,), or
        a row for each class but the reference, shape (n_classes - 1, n_features).
    prior_precision : float or array-like, default=1.0
        Their precisions, the inverses of variances, at least 0, in the same shapes; or precision
        matrices, shape (n_classes - 1, n_features, n_features), or (1, n_features, n_features) for
        one that all classes share. 0 is a flat prior. Two dimensions are always diagonals, also
        where there are as many classes beside the reference as columns.
    intercept_precision : float or array-like of shape (n_classes - 1,), default=0.01
        Precisions of the intercepts, whose means are 0.
    fit_intercept : bool, default=True
        Whether there are intercepts.
    reference : label, default=None
        Reference class, by default the last of `classes_`. Priors are of differences from it.
    <<sampling>>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels, or names or numbers of the columns of counts.
    reference_ : label
        The reference class.
    coef_ : ndarray of shape (n_classes - 1, n_features)
        Posterior means of the coefficients, a row for each class but the reference, in the order
        of `classes_`: changes of log odds against the reference.
    intercept_ : ndarray of shape (n_classes - 1,)
        Those of the intercepts; 0 where none were wanted.
    mode_coef_, mode_intercept_ : ndarray
        Mode of the posterior, about which chains start; the maximum of the penalized likelihood.
    <<sampled>>

    See Also
    --------
    LogisticCCD : Two classes with a lasso or elastic-net penalty.

    Notes
    -----
    A row is observed as often as its weight says, so that weights are whole numbers. Rows that are
    alike are added up first.

    scikit-learn's `coef_` has a row for every class, or for the second of two; here it has one for
    each class but the reference, also of two.

    Probabilities are averages over the draws, and not those at the average of the coefficients.
    With a flat prior, the posterior is improper where a class is absent or columns separate it
    from others; such fits are refused.

    <<routing>>

    References
    ----------
    Polson NG, Scott JG, Windle J (2013). Bayesian inference for logistic models using Polya-Gamma
    latent variables. J Am Stat Assoc 108, 1339-1349.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sksurvgpu import BayesianMultinomialLogistic
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = BayesianMultinomialLogistic(n_tune=200, n_draws=500).fit(X, y)
    >>> model.coef_.shape
    (2, 4)
    >>> model.predict_interval(X[:5], level=0.9).shape
    (5, 3, 2)
    """

    _parameters = {
        "sampler": ("hmc", [StrOptions(set(SAMPLERS))]),
        "prior_mean": (0.0, [Real, "array-like"]),
        "prior_precision": (1.0, [NOT_NEGATIVE, "array-like"]),
        "intercept_precision": (0.01, [NOT_NEGATIVE, "array-like"]),
        "fit_intercept": (True, ["boolean"]),
        "reference": (None, "no_validation"),
    } | OF_CHAINS

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Draw from the posterior.

        Parameters
        ----------
        <<X_here>>
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Labels; or counts of each class, whole numbers, at least one in every row.
        sample_weight : array-like of shape (n_samples,), optional
            How often rows were observed, whole numbers.

        <<itself>>
        """
        design, header = read_columns(require_in_memory(X))
        check_in_memory(X, y=y, sample_weight=sample_weight)
        outcome = read_categories(y, design.n_rows).weighted(sample_weight)
        order = order_classes(outcome.labels, self.reference)
        labels = outcome.labels[order]
        shape = len(labels) - 1, design.n_columns
        has_intercept = bool(self.fit_intercept)
        prior = read_prior(
            self.prior_mean, self.prior_precision, self.intercept_precision, shape, has_intercept
        )
        matrix = with_intercept(matrix_of(design)) if has_intercept else matrix_of(design)
        check_size(matrix)
        rows = collapse_rows(matrix, outcome.counts[:, order])
        if self.sampler == "gibbs":
            check_trials(rows)
        names = header.labels()
        sampling = choose_sampling(self.backend, int(self.device))(0, np.arange(1))
        mode, factor = locate(sampling, rows, prior, labels.tolist(), names)
        posterior = self._sample(
            self._maker(rows, prior, mode, factor),
            label_parameters(names, labels[:-1].tolist()),
            {"X": design, "y": outcome},
            on_host=self.sampler == "hmc",
            effect="odds_ratio",
        )
        mode = mode.reshape(prior.mean.shape)
        self._adopt(
            header,
            posterior,
            classes_=outcome.labels,
            reference_=labels[-1],
            coef_=posterior.mean("coef"),
            intercept_=posterior.mean("intercept") if has_intercept else np.zeros(shape[0]),
            mode_coef_=mode[:, : shape[1]],
            mode_intercept_=mode[:, -1] if has_intercept else np.zeros(shape[0]),
            _order_of_classes=order,
        )
        return self

    def _maker(self, rows, prior, mode, factor):
        """A function that makes the sampler of some chains."""
        open_rows = choose_sampling(self.backend, int(self.device))

        def make(sampling):
            # Hamiltonian chains are the host's; their rows are where the fit runs.
            served = sampling if self.sampler == "gibbs" else open_rows(0, sampling.chains)
            return SAMPLERS[self.sampler](
                sampling,
                rows.put(served),
                prior,
                mode,
                factor,
                has_intercept=bool(self.fit_intercept),
            )

        return make

    def predict_proba(self, X):
        """Probability of each class, the mean over the draws.

        Parameters
        ----------
        <<X_here>>

        Returns
        -------
        probability : ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`.
        """
        return np.concatenate([drawn.mean(axis=0) for drawn in self._probabilities(X)])

    def predict_log_proba(self, X):
        """Logarithm of the probability of each class.

        Parameters
        ----------
        <<X_here>>

        Returns
        -------
        log_probability : ndarray of shape (n_samples, n_classes)
            Columns in the order of `classes_`; minus infinity where all draws underflow.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X):
        """Most probable class.

        Parameters
        ----------
        <<X_here>>

        Returns
        -------
        label : ndarray of shape (n_samples,)
            Of `classes_`.
        """
        likeliest = self.predict_proba(X).argmax(axis=1)
        return self.classes_[likeliest]

    def predict_interval(self, X, level=0.95):
        """Intervals of the probabilities of classes.

        Parameters
        ----------
        <<X_here>>
        level : float, default=0.95
            Probability of an interval, which leaves as much on either side.

        Returns
        -------
        interval : ndarray of shape (n_samples, n_classes, 2)
            Lower and upper bounds.
        """
        shares = tails(check_level(level))
        bounds = [np.quantile(drawn, shares, axis=0) for drawn in self._probabilities(X)]
        return np.moveaxis(np.concatenate(bounds, axis=1), 0, -1)

    def sample_predictive(self, X, n_draws=None, random_state=None):
        """Draw new labels.

        Parameters
        ----------
        <<X_here>>
        n_draws : int, optional
            Number of draws, by default and at most as many as the posterior has.
        random_state : int, RandomState instance or None, default=None
            Seed of the choice of draws and of the labels.

        Returns
        -------
        label : ndarray of shape (n_draws, n_samples)
            Labels, all of a row of this array at the same parameters.
        """
        random = check_random_state(random_state)
        chosen = choose_draws(n_draws, len(self._drawn("coef")), random)
        codes = []
        for drawn in self._probabilities(X, chosen):
            below = drawn[:, :, :-1].cumsum(axis=2) < random.uniform(size=(*drawn.shape[:2], 1))
            codes.append(below.sum(axis=2))
        return self.classes_[np.concatenate(codes, axis=1)]

    def score(self, X, y, sample_weight=None):
        """Accuracy: proportion of observations in the class predicted for their row.

        Parameters
        ----------
        <<X_here>>
        y : array-like of shape (n_samples,) or (n_samples, n_classes)
            Labels, or counts of the classes of the fit: columns with names by name.
        <<sample_weight>>

        Returns
        -------
        accuracy : float
            With labels, as scikit-learn's.
        """
        if np.ndim(y) < 2 or np.shape(y)[1] < 2:
            return super().score(X, y, sample_weight)
        counts = read_categories(y).ordered_as(self.classes_)
        predicted = self.predict_proba(X).argmax(axis=1)
        check_length(predicted, "predict(X)", len(counts), "y")
        weight = check_sample_weight(sample_weight, len(predicted))
        weight = 1.0 if weight is None else weight
        hits = counts[np.arange(len(predicted)), predicted]
        return float(np.sum(hits * weight) / np.sum(counts.sum(axis=1) * weight))

    def _probabilities(self, X, chosen=None):
        """Probabilities (n_draws, n_rows, n_classes) of some rows after the other."""
        X = self._read_features(X)
        back = np.argsort(self._order_of_classes)
        for found in self._predictors(X, chosen, len(back)):
            predictor = np.zeros((found.shape[1], len(back), len(found)))
            predictor[:, :-1] = np.moveaxis(found, 0, 2)
            yield np.moveaxis(softmax(predictor, axis=1)[:, back], 1, 2)
