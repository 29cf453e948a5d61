"""Harrell's concordance, for one kind of event."""

import numpy as np

from ..data.vectors import check_labels, check_row_values
from .pairs import as_concordance, column_of, count_pairs, reader_of_rows, scale_weights

__all__ = ["concordance"]


def concordance(event, time, risk, *, start=None, strata=None, sample_weight=None, tied_tol=1e-8):
    """Share of comparable pairs whose order of risk agrees with the order of events.

    Parameters
    ----------
    event : array-like of shape (n_samples,), bool
        True where the event was observed.
    time : array-like of shape (n_samples,)
        Time of the event or of censoring. Events at the same time are not compared; a row
        censored at the time of an event outlives it.
    risk : array-like of shape (n_samples,)
        Predicted risk, higher for earlier events.
    start : array-like of shape (n_samples,), optional
        Entry times: a row is compared with events in (start, time].
    strata : array-like of shape (n_samples,), optional
        Labels; pairs are formed within a stratum.
    sample_weight : array-like of shape (n_samples,), optional
        Row weights; a pair weighs the product of its rows' weights.
    tied_tol : float, default=1e-8
        Risks that differ by no more than this are tied and count one half.

    Returns
    -------
    float
        Between 0 and 1; 0.5 for risks that say nothing. Without `start`, `strata` and
        `sample_weight` it equals the first result of ``sksurv.metrics.concordance_index_censored``.

    Examples
    --------
    >>> from sksurvgpu.metrics import concordance
    >>> concordance([True, True, False], [1.0, 2.0, 3.0], [0.9, 0.1, 0.4])
    0.6666666666666666
    """
    event = check_row_values(column_of(event, "event"), "event")
    if not np.isin(event, (0, 1)).all():
        raise ValueError("`event` has values other than 0 and 1; pass booleans or 0/1.")
    read = reader_of_rows(event.size, "event")
    agreeing, comparable = count_pairs(
        event > 0,
        read(time, "time"),
        read(risk, "risk"),
        start=read(start, "start"),
        stratum=read(strata, "strata", check_labels),
        weight=scale_weights(read(sample_weight, "sample_weight", minimum=0)),
        tied_tol=tied_tol,
    )
    return as_concordance(agreeing, comparable)
