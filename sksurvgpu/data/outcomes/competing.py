"""Outcomes with competing risks: rows end by one of several kinds of event, or are censored.

The structured array is a survival outcome whose first field is a code: 0 for a censored row,
1, 2, ... for the kinds of event. A fit reads from it which rows had the event of interest
and which another one.
"""

from collections.abc import Mapping
from functools import partial, wraps
from numbers import Integral

import numpy as np

from ..by_column import similar
from ..partitioned import outcome_in_partitions
from ..vectors import check_labels, check_whole, encode, numbers_or_flags
from .fields import (
    CODES,
    check_code,
    check_event_of_interest,
    checked_items,
    labelled,
    pack,
    read_survival,
    refuse_flags,
    status_of,
)
from .survival import Outcome, check_apart

NO_START = (
    "Fine-Gray regression with delayed entry is not offered; leave it out, or take "
    "CauseSpecificCox, whose incidences follow from the hazards of all events."
)


def competing_risks(
    event, time, *, start=None, stratum=None, subject=None, labels=None
) -> np.ndarray:
    """Build the outcome of a model of competing risks, one entry per row.

    Parameters
    ----------
    event : array-like of int or str
        0 where the row was censored, a positive code of the kind of event elsewhere; or `labels`.
    time : array-like of float
        Time of the event or of censoring, at least 0.
    start : array-like of float, optional
        Time at which the row comes under observation, at least 0 and before `time`; not for
        `FineGrayCCD`.
    stratum : array-like of int or str, optional
        Rows are compared only within a stratum.
    subject : array-like of int or str, optional
        Who the row belongs to, when one person has several rows.
    labels : dict of {int: str}, optional
        What codes are called, 0 among them where `event` has labels in place of codes. Results show
        them, and `event_of_interest` may be one.

    Returns
    -------
    ndarray
        Structured array with the fields ``event`` (int64), ``time`` and those that were given.
        `as_sksurv` makes of it what scikit-survival reads.

    Examples
    --------
    >>> from sksurvgpu import competing_risks
    >>> competing_risks([1, 0, 2], [2.0, 3.5, 1.0])
    array([(1, 2. ), (0, 3.5), (2, 1. )],
          dtype=[('event', '<i8'), ('time', '<f8')])
    >>> labels = {0: "alive", 1: "relapse", 2: "death"}
    >>> competing_risks(["relapse", "alive", "death"], [2.0, 3.5, 1.0], labels=labels)["event"]
    array([1, 0, 2])
    """
    build = competing_risks
    if labels is not None:
        build = wraps(competing_risks)(partial(competing_risks, labels=labels))
    beside = {"start": start, "stratum": stratum, "subject": subject}
    later = outcome_in_partitions(build, event=event, time=time, **beside)
    if later is not None:
        return later
    if labels is not None:
        event = _coded(event, labels)
    dtype = numbers_or_flags(event, "event").dtype
    refuse_flags(dtype, "`event`", "use surv for a single kind")
    meaning = f"{CODES}, or texts and labels={{0: text, 1: ...}}" if dtype.kind == "U" else CODES
    codes = check_whole(event, "event", meaning)
    codes = labelled(codes, {int(k): label for k, label in (labels or {}).items() if k})
    items = checked_items(codes, time, **beside)
    if start is not None and subject is not None:
        check_apart(**items)
    return pack(items)


def _coded(event, labels):
    """Codes of labels; codes as they are."""
    codes = {label: code for code, label in labels.items()} if isinstance(labels, Mapping) else {}
    is_fine = all(isinstance(v, str) and isinstance(k, Integral) for v, k in codes.items())
    if not codes or not is_fine or len(codes) < len(labels):
        raise ValueError(
            f"`labels` is {labels!r}, must be a dictionary {{code: label}} of different texts, "
            'such as {0: "alive", 1: "relapse", 2: "death"}.'
        )
    given = check_labels(event, "event")
    if given.dtype.kind != "U":
        return event
    row_code, found = encode(given)
    for label in found.tolist():
        if label not in codes:
            raise ValueError(
                f"`event` has the label {label!r}, which `labels` has not{similar(label, codes)} "
                "Give a code to each, 0 to that of censored rows."
            )
    return np.array([codes[label] for label in found.tolist()], np.int64)[row_code]


def read_competing(
    y, *, n_rows=None, strata=None, event_of_interest=1, censoring_groups=None, may_lack=False
) -> Outcome:
    """Check the outcome of a model of competing risks, from `competing_risks`; see `fields`.

    `event_of_interest` is the code or label of the event whose incidence is modelled, and
    `censoring_groups` are labels of rows, whose groups have each a censoring distribution of its
    own; by default they are the strata.
    """
    given = {"n_rows": n_rows, "strata": strata, "model": "Fine-Gray", "no_start": NO_START}
    given["may_lack"] = may_lack
    items = read_survival(y, "iu", "fit CoxLassoCCD for a single kind", **given)
    codes = items.pop("event")
    status = status_of(codes, check_event_of_interest(event_of_interest, codes, may_lack=may_lack))
    group = labels = None
    if censoring_groups is not None:
        group, labels = encode(check_labels(censoring_groups, "censoring_groups", y.size))
    groups: dict = {"censoring_group": group, "censoring_labels": labels}
    return Outcome(status == 1, **items, status=status, **groups)


def lacks_event(y, code=1) -> bool:
    """Whether an outcome has rows, and none with the event of a code (or True, for flags)."""
    if not isinstance(y, np.ndarray) or not y.dtype.names or y.dtype[0].kind not in "biu":
        return False
    event = y[y.dtype.names[0]]
    return y.size > 0 and not (event == check_code(code, event)).any()
