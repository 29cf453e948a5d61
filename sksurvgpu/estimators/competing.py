"""Models of competing risks."""

from sklearn.base import _fit_context

from ..data.checks import check_sample_weight
from ..data.outcomes.competing import lacks_event
from ..metrics.pairs import as_concordance
from ._curves import CurveModel, like_curves, like_risks
from ._docs import documented
from ._partition import by_partition, to_memory
from .fitted import fitted_of
from .hazard_curves import incidence
from .models.hazards import FineGrayModel


@documented
class FineGrayCCD(CurveModel):
    r"""Fine-Gray regression of a cumulative incidence, with a lasso or elastic-net penalty.

    The model is for the subdistribution hazard of one kind of event where others compete with it:
    the cumulative incidence of a row is :math:`1 - \exp(-A(t) e^{x\beta})`. Minimizes

    .. math:: -\ell(X\beta)/W + \alpha\Bigl(\rho\,\|f\circ\beta\|_1
              + \tfrac12(1-\rho)\,\|\sqrt f\circ\beta\|_2^2\Bigr)

    with the log partial likelihood :math:`\ell` of Fine and Gray (1999), in which a row with a
    competing event stays at risk with a weight that falls as the probability of not being
    censored; the sum :math:`W` of the sample weights, :math:`\alpha` = `alpha`, :math:`\rho` =
    `l1_ratio` and :math:`f` = `penalty_factor`. Columns are neither centred nor scaled.

    Parameters
    ----------
    <<penalty>>
    event_of_interest : int or str, default=1
        Code of the event whose incidence is modelled, or the label that `competing_risks` was given
        for it; all others compete with it.
    censoring_ties : {"crr", "finegray"}, default="crr"
        Whether a row with an event at some time is still at risk of being censored then. "crr"
        says yes, as R's ``cmprsk::crr``, fastcmprsk and Cyclops; "finegray" says no, as
        ``survival::finegray``. They differ only where events and censorings are tied.
    <<solver>>

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients, the logarithms of subdistribution hazard ratios.
    <<fitted>>

    See Also
    --------
    CoxLassoCCD : Fits the cause-specific hazard where competing events count as censored.
    fit_path : Fits at descending penalties.

    Notes
    -----
    The probability of not being censored is the Kaplan-Meier estimate under the sample weights, so
    that a weight of 2 is the row given twice. Delayed entry is not offered.

    <<routing>>

    Examples
    --------
    >>> from sksurvgpu import FineGrayCCD
    >>> from sksurvgpu.datasets import simulate_fine_gray
    >>> data = simulate_fine_gray(1_000, 50, random_state=0)
    >>> model = FineGrayCCD(alpha=0.02).fit(data.X, data.y)
    >>> model.converged_, int((model.coef_ != 0).sum()) < 50
    (True, True)
    >>> incidence = model.predict_cumulative_incidence_function(data.X[:3])
    >>> bool(0.0 <= incidence[0](0.5) <= 1.0)
    True
    """

    __metadata_request__fit = {"strata": True, "censoring_groups": True}  # noqa: RUF012
    __metadata_request__score = {"strata": True}  # noqa: RUF012
    _model = FineGrayModel

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, strata=None, offset=None, censoring_groups=None):
        """Fit the model.

        Parameters
        ----------
        <<X>>
        y : structured ndarray of shape (n_samples,)
            Outcome from `sksurvgpu.competing_risks`. One with events that are True or False, as for
            `CoxLassoCCD`, has no competing events and is refused.
        <<sample_weight, strata, offset>>
        censoring_groups : array-like of shape (n_samples,), optional
            Labels of groups, each with a censoring distribution of its own; by default the strata.
            One label for all rows pools the censoring of all strata.

        <<itself>>
        """
        return self._fit(
            X, y, sample_weight, offset, strata=strata, censoring_groups=censoring_groups
        )

    @by_partition()
    def predict(self, X):
        """Linear predictor, the log subdistribution hazard ratio to a row of zeros.

        <<predictor>>
        """
        return self._predict_linear(X)

    @by_partition(like_curves)
    def predict_cumulative_incidence_function(self, X, strata=None, return_array=False):
        """Probability that the event of interest has happened by each time, for every row.

        Parameters
        ----------
        <<X, strata_of_fit, return_array>>

        <<curves>>
        """
        return self._curves(X, strata, return_array, incidence)

    @by_partition(like_risks)
    def predict_risk(self, X, times, *, strata=None):
        """Probability that the event of interest has happened by each horizon, for every row.

        It refers to the beginning. The risk of those who are still free of all events at a later
        time does not follow from this model: a subdistribution hazard knows how many have met the
        event of interest by then, not how many a competing one.

        Parameters
        ----------
        <<X, times, strata_of_fit>>

        <<risks>>

        See Also
        --------
        sksurvgpu.metrics.calibration : Compares risks with what was observed.

        Examples
        --------
        >>> from sksurvgpu import FineGrayCCD
        >>> from sksurvgpu.datasets import simulate_fine_gray
        >>> data = simulate_fine_gray(1_000, 50, random_state=0)
        >>> model = FineGrayCCD(alpha=0.02).fit(data.X, data.y)
        >>> model.predict_risk(data.X[:2], [0.2, 0.5]).round(2)
        time  0.2   0.5
        0     0.1  0.22
        1     0.1  0.22
        """
        risk = self._risks(X, times, strata)
        risk.attrs["event_of_interest"] = self.event_of_interest
        return risk

    def score(self, X, y, sample_weight=None, strata=None):
        """Concordance index for the event of interest, weighted for censoring.

        Pairs are formed within strata, and the censoring is that of the given rows; see
        `sksurvgpu.metrics.concordance_competing`.

        Parameters
        ----------
        <<X>>
        y : structured ndarray of shape (n_samples,)
            Outcome.
        <<sample_weight, strata_of_score>>

        <<concordance>>
        """
        risk = self._predictors(X)
        y, sample_weight, strata = to_memory(X, y=y, sample_weight=sample_weight, strata=strata)
        if lacks_event(y, self.event_of_interest):  # the reader would say that no fit is possible
            return as_concordance(0.0, 0.0)
        outcome = self._read_scored(y, len(risk), strata)
        weight = check_sample_weight(sample_weight, len(risk))
        return FineGrayModel.concordance(outcome, risk, weight, fitted_of(self).terms)
