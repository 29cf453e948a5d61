"""Outcomes: the structured arrays that users build, and what a fit reads from them.

An outcome is a NumPy structured array whose first two fields are scikit-survival's: was
the event observed, and at which time. Reserved names may follow: `start` (the row is at
risk in (start, time]), `stratum` (rows with a baseline hazard of their own) and `subject`
(rows of one person).
"""

from dataclasses import dataclass

import numpy as np

from ..._calls import called_as
from ..partitioned import outcome_in_partitions
from ..vectors import check_flags, encode
from .fields import (
    EVENT_TIME,
    check_event_of_interest,
    check_names,
    check_structured,
    checked_items,
    pack,
    read_survival,
    take_rows,
)

SWAPPED = (
    "; were `event` and `time` swapped, or are there several kinds of event? Codes 1 and 2, as R "
    "takes them, are event == 2."
)
SEVERAL = "of several kinds of event take one with as_sksurv(y, event_of_interest=...)"


@dataclass(frozen=True, eq=False)
class Outcome:
    """Checked outcome, one entry per row, in the caller's order.

    Attributes
    ----------
    event : ndarray of shape (n_rows,), bool
        Rows with the event, or the one of interest.
    time : ndarray of shape (n_rows,), float64
    start : ndarray of shape (n_rows,), float64, or None
        The row is at risk in (start, time]; None: from the beginning.
    stratum : ndarray of shape (n_rows,), int64, or None
        Position of the row's label in `stratum_labels`.
    stratum_labels : ndarray of shape (n_strata,) or None
        Sorted labels, as the caller wrote them.
    subject : ndarray of shape (n_rows,) or None
        Labels as the caller wrote them.
    status : ndarray of shape (n_rows,), uint8, or None
        With competing events: 0 censored, 1 event of interest, 2 competing event.
    censoring_group : ndarray of shape (n_rows,), int64, or None
        Number of the group whose censoring the row shares; None where groups are the strata.
    censoring_labels : ndarray of shape (n_groups,) or None
        Sorted labels of these groups, as the caller wrote them.
    """

    event: np.ndarray
    time: np.ndarray
    start: np.ndarray | None = None
    stratum: np.ndarray | None = None
    stratum_labels: np.ndarray | None = None
    subject: np.ndarray | None = None
    status: np.ndarray | None = None
    censoring_group: np.ndarray | None = None
    censoring_labels: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        return self.time.size

    @property
    def kind(self) -> np.ndarray:
        """Number of the kind of each row, of which folds have equal shares."""
        return self.event if self.status is None else self.status

    @property
    def n_events(self) -> np.ndarray:
        """Events of each row, by which the scores of folds are averaged."""
        return self.event

    @property
    def unit(self) -> np.ndarray | None:
        """Number of the subject that each row belongs to; None where rows are independent."""
        return None if self.subject is None else np.unique(self.subject, return_inverse=True)[1]

    def take(self, rows) -> "Outcome":
        """Return the outcome of some rows."""
        fields = ("event", "time", "start", "stratum", "subject", "status", "censoring_group")
        return take_rows(self, rows, fields)


@called_as("surv(event, time, start=..., subject=...)")
def surv(event, time, *, start=None, stratum=None, subject=None) -> np.ndarray:
    """Build the outcome of a survival model, one entry per row.

    Parameters
    ----------
    event : array-like of bool or 0/1
        True where the event was observed, False where the row was censored.
    time : array-like of float
        Time of the event or of censoring, at least 0.
    start : array-like of float, optional
        Time at which the row comes under observation, at least 0 and before `time`.
        The row is at risk in (start, time].
    stratum : array-like of int or str, optional
        Rows are compared only within a stratum.
    subject : array-like of int or str, optional
        Who the row belongs to, when one person has several rows.

    Returns
    -------
    ndarray
        Structured array with the fields ``event``, ``time`` and those that were given.
        The first two are what scikit-survival reads; see `as_sksurv`.

    Examples
    --------
    >>> from sksurvgpu import surv
    >>> surv([True, False, True], [2.0, 3.5, 1.0])
    array([( True, 2. ), (False, 3.5), ( True, 1. )],
          dtype=[('event', '?'), ('time', '<f8')])
    """
    columns = {"event": event, "time": time, "start": start, "stratum": stratum, "subject": subject}
    if (later := outcome_in_partitions(surv, **columns)) is not None:
        return later
    event = check_flags(event, "event", SWAPPED)
    items = checked_items(event, time, start, stratum, subject)
    if start is not None and subject is not None:
        check_apart(**items)
    return pack(items)


def check_apart(event, time, start, stratum, subject):
    """Refuse rows of a subject that overlap in a stratum."""
    who = encode(subject)[0]
    of = np.zeros(len(who), np.int64) if stratum is None else encode(stratum)[0]
    order = np.lexsort((start, of, who))
    before, after = order[:-1], order[1:]
    overlaps = (who[before] == who[after]) & (of[before] == of[after])
    overlaps &= start[after] < time[before]
    if overlaps.any():
        i, j = before[np.argmax(overlaps)], after[np.argmax(overlaps)]
        raise ValueError(
            f"rows of {np.unique(who[after[overlaps]]).size:,} subject(s) overlap: subject "
            f"{subject[i]!s} is at risk in ({start[i]:g}, {time[i]:g}] and ({start[j]:g}, "
            f"{time[j]:g}] (rows {i:,} and {j:,}), and would count twice; cut the rows, or put "
            "them into different strata."
        )


def as_sksurv(y, *, event_of_interest=None) -> np.ndarray:
    """Return event and time of an outcome as a two-field array for scikit-survival.

    Parameters
    ----------
    y : structured ndarray
        From `surv` or `competing_risks`.
    event_of_interest : int or str, optional
        Needed where the events of `y` are codes, as `competing_risks` makes them: the code or
        label that becomes True. Rows with any other code count as censored.

    Returns
    -------
    ndarray
        Two fields, for the metrics of scikit-survival: a view, or a copy where the events were
        codes.

    Examples
    --------
    >>> from sksurvgpu import as_sksurv, competing_risks
    >>> as_sksurv(competing_risks([1, 0, 2], [2.0, 3.5, 1.0]), event_of_interest=1)
    array([( True, 2. ), (False, 3.5), (False, 1. )],
          dtype=[('event', '?'), ('time', '<f8')])
    """
    check_structured(y, "surv", EVENT_TIME)
    event_field, time_field, *others = y.dtype.names
    check_names("surv", "y", event_field, time_field, others)
    event = y[event_field]
    if event.dtype.kind in "iu" and event_of_interest is None:
        raise ValueError(
            f"`y` has codes of several kinds of event in its first field {event_field!r}, "
            "scikit-survival knows one; pass `event_of_interest`, the code that is kept."
        )
    if event_of_interest is not None:
        event_of_interest = check_event_of_interest(event_of_interest, event)
    if event.dtype.kind in "iu":
        return pack({event_field: event == event_of_interest, time_field: y[time_field]})
    return y if len(y.dtype.names) == 2 else y[[event_field, time_field]]


def read_outcome(y, *, n_rows=None, strata=None, name="y", model="Cox", may_lack=False) -> Outcome:
    """Check the outcome of a survival model, from `surv` or scikit-survival; see `fields`.

    A `model` cannot be fitted without an event; None can.
    """
    given = {"n_rows": n_rows, "strata": strata, "name": name, "model": model}
    return Outcome(**read_survival(y, "b", SEVERAL, may_lack=may_lack, **given))
