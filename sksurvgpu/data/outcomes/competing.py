"""Outcomes with competing risks: rows end by one of several kinds of event, or are censored.

The structured array is a survival outcome whose first field is a code: 0 for a censored row,
1, 2, ... for the kinds of event. A fit reads from it which rows had the event of interest
and which another one.
"""

import numpy as np

from ..vectors import check_labels, check_whole, encode, numbers_or_flags
from .fields import (
    CODES,
    check_event_of_interest,
    checked_items,
    pack,
    read_survival,
    refuse_flags,
    status_of,
)
from .lazy import build_lazily
from .survival import Outcome

__all__ = ["competing_risks", "read_competing"]

NO_START = (
    "Fine-Gray regression with delayed entry is not offered; leave it out, or fit the "
    "cause-specific hazard with CoxLassoCCD, where competing events are censored."
)


def competing_risks(event, time, *, stratum=None) -> np.ndarray:
    """Build the outcome of a model of competing risks, one entry per row.

    Parameters
    ----------
    event : array-like of int
        0 where the row was censored, a positive code of the kind of event elsewhere.
    time : array-like of float
        Time of the event or of censoring, at least 0.
    stratum : array-like of int or str, optional
        Rows are compared only within a stratum.

    Returns
    -------
    ndarray
        Structured array with the fields ``event`` (int64), ``time`` and, where it was given,
        ``stratum``. `as_sksurv` makes of it what scikit-survival reads.

    Examples
    --------
    >>> from sksurvgpu import competing_risks
    >>> competing_risks([1, 0, 2], [2.0, 3.5, 1.0])
    array([(1, 2. ), (0, 3.5), (2, 1. )],
          dtype=[('event', '<i8'), ('time', '<f8')])
    """
    lazy = build_lazily(competing_risks, event=event, time=time, stratum=stratum)
    if lazy is not None:
        return lazy
    refuse_flags(numbers_or_flags(event, "event").dtype, "`event`", "use surv for a single kind")
    return pack(checked_items(check_whole(event, "event", CODES), time, stratum=stratum))


def read_competing(
    y, *, n_rows=None, strata=None, event_of_interest=1, censoring_groups=None
) -> Outcome:
    """Check the outcome of a model of competing risks.

    Parameters
    ----------
    y : structured ndarray of shape (n_rows,)
        From `competing_risks`: first field integer, second numeric, any names.
    n_rows : int, optional
        Rows of X.
    strata : array-like of shape (n_rows,), optional
        Stratum label per row, where `y` has no field ``stratum``.
    event_of_interest : int, default=1
        Code of the event whose incidence is modelled.
    censoring_groups : array-like of shape (n_rows,), optional
        Labels of groups, each with a censoring distribution of its own; by default the strata.
    """
    given = {"n_rows": n_rows, "strata": strata, "model": "Fine-Gray", "no_start": NO_START}
    items = read_survival(y, "iu", "fit CoxLassoCCD for a single kind", **given)
    codes = items.pop("event")
    check_event_of_interest(event_of_interest, codes)
    status = status_of(codes, event_of_interest)
    group = labels = None
    if censoring_groups is not None:
        group, labels = encode(check_labels(censoring_groups, "censoring_groups", y.size))
    groups: dict = {"censoring_group": group, "censoring_labels": labels}
    return Outcome(status == 1, **items, status=status, **groups)


def lacks_event(y, code=1) -> bool:
    """Whether an outcome has rows, and none with the event of a code (or True, for flags)."""
    if not isinstance(y, np.ndarray) or not y.dtype.names or y.dtype[0].kind not in "biu":
        return False
    return y.size > 0 and not (y[y.dtype.names[0]] == code).any()
