"""Harrell's concordance, for one kind of event."""

from .._calls import called_as
from ..data.outcomes.fields import read_survival
from ..data.outcomes.survival import surv
from .pairs import as_concordance, count_pairs, reader_of_rows, scale_weights

__all__ = ["concordance"]


def _of_arrays(event, time, risk, *, start=None, **options):
    return concordance(surv(event, time, start=start), risk, **options)


@called_as("concordance(y, risk), with y = surv(event, time)", _of_arrays)
def concordance(y, risk, *, strata=None, sample_weight=None, tied_tol=1e-8):
    """Share of comparable pairs whose order of risk agrees with the order of events.

    Parameters
    ----------
    y : structured ndarray of shape (n_samples,)
        Outcome from `sksurvgpu.surv`. Events at the same time are not compared; a row censored at
        the time of an event outlives it; a row with a ``start`` is compared with events in (start,
        time]. Pairs are formed within a ``stratum``.
    risk : array-like of shape (n_samples,)
        Predicted risk, higher for earlier events.
    strata : array-like of shape (n_samples,), optional
        Labels of strata, where `y` has none.
    sample_weight : array-like of shape (n_samples,), optional
        Row weights; a pair weighs the product of its rows' weights.
    tied_tol : float, default=1e-8
        Risks that differ by no more than this are tied and count one half.

    Returns
    -------
    float
        Between 0 and 1; 0.5 for risks that say nothing. Without starts, strata and
        `sample_weight` it equals the first result of ``sksurv.metrics.concordance_index_censored``.

    Examples
    --------
    >>> from sksurvgpu import surv
    >>> from sksurvgpu.metrics import concordance
    >>> concordance(surv([True, True, False], [1.0, 2.0, 3.0]), [0.9, 0.1, 0.4])
    0.6666666666666666
    """
    items = read_survival(y, "b", "for several kinds take concordance_competing", strata=strata)
    read = reader_of_rows(y.size, "y")
    agreeing, comparable = count_pairs(
        items["event"],
        items["time"],
        read(risk, "risk"),
        start=items["start"],
        stratum=items["stratum"],
        weight=scale_weights(read(sample_weight, "sample_weight", minimum=0)),
        tied_tol=tied_tol,
    )
    return as_concordance(agreeing, comparable)
