"""Survival models: docstrings, defaults, and what can be predicted from them."""

from sklearn.base import _fit_context

from ..data.checks import check_sample_weight
from ..data.options import is_number, refuse
from ..data.outcomes.competing import lacks_event
from ..metrics.pairs import as_concordance
from ._columns import check_columns
from ._curves import CurveModel, like_curves, like_risks, refuse_scorer
from ._docs import documented
from ._partition import by_partition, to_memory
from .fitted import fitted_of
from .hazard_curves import cumulative_hazard, survival
from .models.hazards import CoxModel


@documented
class CoxLassoCCD(CurveModel):
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
    <<penalty>>
    ties : {"breslow", "efron"}, default="breslow"
        Treatment of tied events. Under "breslow" a weight of 2 is the row given twice; under
        "efron" it is not.
    time_varying : dict or None, default=None
        ``{column: cut points}``: the column's coefficient changes after each cut point. A time
        equal to a cut point belongs to the interval that it ends.
    <<solver>>

    Attributes
    ----------
    coef_ : ndarray of shape (n_coef,)
        Coefficients (log hazard ratios), one a column of X in its order. A column of
        `time_varying` has one for each of its intervals, in the order of time; `summary` names
        them.
    <<fitted>>

    See Also
    --------
    fit_path : Fits at descending penalties.

    Notes
    -----
    <<routing>>

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

    __metadata_request__fit = {"strata": True}  # noqa: RUF012
    __metadata_request__score = {"strata": True}  # noqa: RUF012
    _model = CoxModel

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, strata=None, offset=None):
        """Fit the model.

        Parameters
        ----------
        <<X>>
        y : structured ndarray of shape (n_samples,)
            Outcome from `sksurvgpu.surv` or ``sksurv.util.Surv``.
        <<sample_weight, strata, offset>>

        <<itself>>
        """
        return self._fit(X, y, sample_weight, offset, strata=strata)

    @by_partition()
    def predict(self, X, time=None):
        """Linear predictor, the log hazard ratio to a row of zeros; higher is riskier.

        Parameters
        ----------
        <<X>>
        time : float, optional
            Time whose coefficients apply; required where coefficients change over time.

        Returns
        -------
        predictor : ndarray of shape (n_samples,)
            X times the coefficients, without the offset of the fit.
        """
        design, terms = check_columns(self, X), fitted_of(self).terms
        if time is None:
            if terms.n_pieces > 1:
                refuse_scorer(
                    "cannot pass `time`, which predictions of coefficients that change over time "
                    "need, but for as_integrated_brier_score_scorer, which takes curves"
                )
                raise ValueError(
                    "`time` is missing: the coefficients change at "
                    f"{terms.cuts.tolist()}; pass the time that the prediction is for, "
                    "or use predict_survival_function."
                )
            time = 0.0
        elif not is_number(time) or not time >= 0:
            refuse(time, "time", "must be a number of at least 0")
        return design.dot(terms.columns_at(self.coef_, terms.piece_at(time), design.n_columns))

    @property
    def baseline_survival_(self):
        """Survival at a linear predictor of 0: a step function, or one per stratum."""
        return fitted_of(self).baseline.functions(survival)

    @by_partition(like_curves)
    def predict_survival_function(self, X, strata=None, return_array=False, *, start=None):
        """Probability of no event until each time, for every row.

        Parameters
        ----------
        <<X, strata_of_fit, return_array, start>>

        <<curves>>
        """
        return self._curves(X, strata, return_array, survival, start)

    @by_partition(like_curves)
    def predict_cumulative_hazard_function(self, X, strata=None, return_array=False, *, start=None):
        """Cumulative hazard until each time, for every row.

        Parameters
        ----------
        <<X, strata_of_fit, return_array, start>>

        <<curves>>
        """
        return self._curves(X, strata, return_array, cumulative_hazard, start)

    @by_partition(like_risks)
    def predict_risk(self, X, times, *, strata=None, start=None):
        """Probability that the event has happened by each horizon, for every row.

        Parameters
        ----------
        <<X, times, strata_of_fit, start>>

        <<risks>>

        See Also
        --------
        sksurvgpu.metrics.calibration : Compares risks with what was observed.

        Examples
        --------
        >>> from sksurvgpu import CoxLassoCCD
        >>> from sksurvgpu.datasets import simulate_cox
        >>> data = simulate_cox(1_000, 50, random_state=0)
        >>> model = CoxLassoCCD(alpha=0.02).fit(data.X, data.y)
        >>> model.predict_risk(data.X[:2], [10, 20, 40]).round(2)
        time  10.0  20.0  40.0
        0     0.23  0.41  0.66
        1     0.23  0.41  0.66
        """
        return self._risks(X, times, strata, start)

    def score(self, X, y, sample_weight=None, strata=None):
        """Harrell's concordance index of the linear predictor.

        Pairs are formed within strata, among rows at risk together, and weigh the product of their
        weights; see `sksurvgpu.metrics.concordance`. With coefficients that change over time, the
        pairs of an event are compared by the coefficients at its time.

        Parameters
        ----------
        <<X>>
        y : structured ndarray of shape (n_samples,)
            Outcome.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights.
        <<strata_of_score>>

        <<concordance>>
        """
        predictors = self._predictors(X)
        y, sample_weight, strata = to_memory(X, y=y, sample_weight=sample_weight, strata=strata)
        if lacks_event(y):  # the reader would say that no fit is possible
            return as_concordance(0.0, 0.0)
        outcome = self._read_scored(y, len(predictors), strata)
        weight = check_sample_weight(sample_weight, len(predictors))
        return CoxModel.concordance(outcome, predictors, weight, fitted_of(self).terms)
