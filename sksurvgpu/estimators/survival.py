"""Survival models: docstrings, defaults, and what can be predicted from them."""

from __future__ import annotations

from numbers import Real

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..data.checks import check_sample_weight
from ..data.outcome import read_outcome
from ..data.rowplan import plan_rows
from ..likelihoods.cox import Cox
from ..metrics import as_concordance, count_pairs
from ..solver.problem import Problem
from ._base import PenalizedModel, count_threads
from .baseline import Baseline, Timeline, cumulative_hazard, survival
from .time_varying import Terms

__all__ = ["CoxLassoCCD"]


class CoxLassoCCD(PenalizedModel):
    r"""Cox regression with a lasso or elastic-net penalty, for large sparse data.

    Minimizes

    .. math:: -\ell(X\beta)/W + \alpha\Bigl(\rho\,\|f\circ\beta\|_1
              + \tfrac12(1-\rho)\,\|\sqrt f\circ\beta\|_2^2\Bigr)

    with the log partial likelihood :math:`\ell`, the sum :math:`W` of the sample weights,
    :math:`\alpha` = `alpha`, :math:`\rho` = `l1_ratio` and :math:`f` = `penalty_factor`. `alpha`
    is on the scale of scikit-survival and glmnet; a penalty :math:`\gamma` on the sum is
    :math:`\alpha = \gamma/W`. Columns are neither centred nor scaled.

    Parameters
    ----------
    alpha : float, default=0.01
        Strength of the penalty; 0 fits without one.
    l1_ratio : float, default=1.0
        Share of the lasso, from 0 (ridge) to 1.
    penalty_factor : dict, array-like of shape (n_features,) or None, default=None
        Factor of the penalty of each column; 0 leaves a column unpenalized. A dictionary gives
        those of some columns, by name or position, the others get 1.
    ties : {"breslow", "efron"}, default="breslow"
        Treatment of tied events. Under "breslow" a weight of 2 is the row given twice; under
        "efron" it is not.
    time_varying : dict or None, default=None
        ``{column: cut points}``: the column's coefficient changes after each cut point. A time
        equal to a cut point belongs to the interval that it ends.
    algorithm : {"majorized", "exact"}, default="majorized"
        "majorized" sweeps over a quadratic model of the likelihood; "exact" takes an exact
        one-dimensional Newton step for each coordinate, the published cyclic descent, which
        reaches the same optimum more slowly.
    tol : float, default=1e-6
        Bound of the KKT residual, relative to the largest gradient of the null model.
    max_iter : int, default=1000
        Most outer iterations.
    warm_start : bool, default=False
        Start from the previous fit's `coef_` where its length fits.
    backend : {"auto", "cpu", "cuda"}, default="auto"
        Where to compute. This release has the CPU only: "auto" takes it and "cuda" raises
        `exceptions.BackendUnavailableError`.
    precision : {"float64", "float32"}, default="float64"
        "float32" exists on CUDA devices only.
    n_jobs : int or None, default=None
        Threads. None takes as many as Numba would, that is all cores, or what the environment
        variable ``NUMBA_NUM_THREADS`` says (joblib sets it in its workers); -1 all cores.
    verbose : int, default=0
        0 is silent; 1 prints a line a penalty, 2 one an iteration.

    Attributes
    ----------
    coef_ : ndarray of shape (n_coef,)
        Coefficients (log hazard ratios), one a column of X in its order. A column of
        `time_varying` has one for each of its intervals, in the order of time; `summary` names
        them.
    alpha_max_ : float
        Least `alpha` at which all penalized coefficients are zero (for ``l1_ratio=0``, where there
        is none, 1,000 times the lasso's); on the scale of `alpha`.
    objective_ : float
        Minimum found of the objective above, a mean.
    log_likelihood_ : float
        Log partial likelihood at `coef_`, a sum.
    kkt_ : float
        Largest violation of the optimality conditions, computed afresh after the fit; in units of
        the objective's gradient, hence of `alpha`. That of a column is divided by its penalty
        factor, or if it is unpenalized by twice its standard deviation.
    dual_gap_ : float
        Upper bound of `objective_` minus the optimum; NaN where some column is unpenalized.
    n_iter_ : int
        Outer iterations.
    converged_ : bool
        Whether `kkt_` met `tol`.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, where X had strings as column names.
    backend_, backend_reason_ : str
        Where the fit ran, and why there.

    See Also
    --------
    fit_path : Fits at descending penalties.

    Notes
    -----
    With scikit-learn's metadata routing, `sample_weight` and `strata` are requested by ``fit`` and
    ``score``, and `offset` by ``fit``, unless ``set_fit_request`` or ``set_score_request`` say
    otherwise.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.02).fit(data.X, data.y)
    >>> model.converged_, int((model.coef_ != 0).sum()) < 50
    (True, True)
    >>> model.predict(data.X[:3]).shape
    (3,)
    >>> survival = model.predict_survival_function(data.X[:3])
    >>> bool(survival[0](0.0) == 1.0)
    True
    """

    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **PenalizedModel._parameter_constraints,
        "ties": [StrOptions({"breslow", "efron"})],
        "time_varying": [dict, None],
    }

    def __init__(
        self,
        *,
        alpha=0.01,
        l1_ratio=1.0,
        penalty_factor=None,
        ties="breslow",
        time_varying=None,
        algorithm="majorized",
        tol=1e-6,
        max_iter=1000,
        warm_start=False,
        backend="auto",
        precision="float64",
        n_jobs=None,
        verbose=0,
    ):
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.penalty_factor = penalty_factor
        self.ties = ties
        self.time_varying = time_varying
        self.algorithm = algorithm
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.backend = backend
        self.precision = precision
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _read_outcome(self, y, n_rows, strata):
        return read_outcome(y, n_rows=n_rows, strata=strata)

    def _build(self, design, outcome, weight):
        terms = Terms.of(self.time_varying, design.n_columns, design.names)
        plan = plan_rows(outcome, terms.cuts)
        problem = Problem.build(
            design,
            plan,
            Cox(self.ties),
            terms.source,
            terms.piece_ptr,
            n_threads=count_threads(self.n_jobs),
        )
        return problem, {"_terms": terms, "_timeline": Timeline.of(plan, outcome, weight)}

    def _adopt_solution(self, solution):
        super()._adopt_solution(solution)
        self._baseline = Baseline(self._timeline, solution.baseline)

    # -- linear predictor ---------------------------------------------------------------------
    def predict(self, X, time=None):
        """Linear predictor, the log hazard ratio to a row of zeros; higher is riskier.

        Parameters
        ----------
        X : scipy sparse matrix or array, ndarray or DataFrame of shape (n_samples, n_features)
            Covariates.
        time : float, optional
            Time whose coefficients apply; required where coefficients change over time.

        Returns
        -------
        predictor : ndarray of shape (n_samples,)
            X times the coefficients, without the offset of the fit.
        """
        design = self._read_features(X)
        if time is None:
            if self._terms.n_pieces > 1:
                raise ValueError(
                    "`time` is missing: the coefficients change at "
                    f"{self._terms.cuts.tolist()}; pass the time that the prediction is for, "
                    "or use predict_survival_function."
                )
            time = 0.0
        elif isinstance(time, bool) or not isinstance(time, Real) or not time >= 0:
            raise ValueError(f"`time` is {time!r}, must be a number of at least 0.")
        return self._predictor(design, self._terms.piece_at(time))

    def _predictor(self, design, piece):
        return design.dot(self._terms.columns_at(self.coef_, piece, design.n_columns))

    # -- curves -------------------------------------------------------------------------------
    def _fitted_baseline(self) -> Baseline:
        check_is_fitted(self)
        return self._baseline

    @property
    def unique_times_(self):
        """Distinct times of the rows of the fit, where curves are evaluated."""
        return self._fitted_baseline().unique_times.copy()

    @property
    def cum_baseline_hazard_(self):
        """Cumulative hazard at a linear predictor of 0: a step function, or one per stratum.

        Stratified models have a dictionary {label: step function}.
        """
        return self._fitted_baseline().functions(cumulative_hazard)

    @property
    def baseline_survival_(self):
        """Survival at a linear predictor of 0: a step function, or one per stratum."""
        return self._fitted_baseline().functions(survival)

    def predict_survival_function(self, X, strata=None, return_array=False):
        """Probability of no event until each time, for every row.

        Parameters
        ----------
        X : scipy sparse matrix or array, ndarray or DataFrame of shape (n_samples, n_features)
            Covariates.
        strata : array-like of shape (n_samples,), optional
            Stratum of each row; required if and only if the model was fitted with strata.
        return_array : bool, default=False
            Return values at `unique_times_` in place of functions.

        Returns
        -------
        survival : ndarray
            Of `sksurv.functions.StepFunction`, shape (n_samples,); from 0 to the last time of the
            stratum. With `return_array` numbers, shape (n_samples, n_unique_times), NaN beyond the
            last time of the row's stratum.
        """
        return self._curves(X, strata, return_array, survival)

    def predict_cumulative_hazard_function(self, X, strata=None, return_array=False):
        """Cumulative hazard until each time, for every row.

        Parameters
        ----------
        X : scipy sparse matrix or array, ndarray or DataFrame of shape (n_samples, n_features)
            Covariates.
        strata : array-like of shape (n_samples,), optional
            Stratum of each row; required if and only if the model was fitted with strata.
        return_array : bool, default=False
            Return values at `unique_times_` in place of functions.

        Returns
        -------
        hazard : ndarray
            As `predict_survival_function`.
        """
        return self._curves(X, strata, return_array, cumulative_hazard)

    def _curves(self, X, strata, return_array, curve):
        design = self._read_features(X)
        baseline = self._fitted_baseline()
        strata = baseline.strata_of(strata, design.n_rows)
        pieces = range(self._terms.n_pieces)
        predictors = np.stack([self._predictor(design, b) for b in pieces], axis=1)
        make = baseline.arrays if return_array else baseline.row_functions
        return make(predictors, strata, curve)

    # -- summaries ----------------------------------------------------------------------------
    def score(self, X, y, sample_weight=None, strata=None):
        """Harrell's concordance index of the linear predictor.

        Pairs are formed within strata, among rows at risk together, and weigh the product of their
        weights; see `sksurvgpu.metrics.concordance`. With coefficients that change over time, the
        pairs of an event are compared by the coefficients at its time.

        Parameters
        ----------
        X : scipy sparse matrix or array, ndarray or DataFrame of shape (n_samples, n_features)
            Covariates.
        y : structured ndarray of shape (n_samples,)
            Outcome.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights.
        strata : array-like of shape (n_samples,), optional
            Stratum labels, where `y` has no field ``stratum``; they need not occur in the fit.

        Returns
        -------
        concordance : float
            Between 0 and 1, 0.5 for predictions that say nothing.
        """
        design = self._read_features(X)
        if _lacks_events(y):  # read_outcome would say that no model can be fitted
            return as_concordance(0.0, 0.0)
        outcome = self._read_outcome(y, design.n_rows, strata)
        weight = check_sample_weight(sample_weight, design.n_rows)
        edges = [0.0, *self._terms.cuts, np.inf]
        sums = np.zeros(2)
        for b in range(self._terms.n_pieces):
            rows = outcome.time > edges[b] if b else slice(None)  # the others have left
            time = outcome.time[rows]
            sums += count_pairs(
                outcome.event[rows] & (time <= edges[b + 1]),
                np.minimum(time, edges[b + 1]),
                self._predictor(design, b)[rows],
                start=None if outcome.start is None else outcome.start[rows],
                stratum=None if outcome.stratum is None else outcome.stratum[rows],
                weight=None if weight is None else weight[rows],
            )
        return as_concordance(*sums)

    def summary(self):
        """Table of coefficients.

        Returns
        -------
        table : pandas.DataFrame
            A row for each coefficient, indexed by the name of its column (with the interval of
            time where it is one of several): ``coef`` and ``hazard_ratio``.
        """
        from pandas import DataFrame, Index

        check_is_fitted(self)
        index = Index(self._terms.names(self._feature_names()), name="feature")
        with np.errstate(over="ignore"):
            ratio = np.exp(self.coef_)
        return DataFrame({"coef": self.coef_, "hazard_ratio": ratio}, index=index)


def _lacks_events(y):
    """Whether an outcome has rows, and none with an event."""
    if not isinstance(y, np.ndarray) or not y.dtype.names or y.dtype[0].kind != "b":
        return False
    return y.size > 0 and not y[y.dtype.names[0]].any()
