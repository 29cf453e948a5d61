"""Outcomes with competing risks: rows end by one of several kinds of event, or are censored.

The structured array is a survival outcome whose first field is a code: 0 for a censored row,
1, 2, ... for the kinds of event. A fit reads from it which rows had the event of interest
and which another one.
"""

from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np

from ..checks import check_labels
from .fields import (
    EVENT_TIME,
    check_whole,
    checked_fields,
    choose_strata,
    encode,
    how_to_build,
    numbers_or_flags,
    pack,
    split_survival,
    take_rows,
)

__all__ = ["CompetingOutcome", "competing_risks", "read_competing"]

CODES = "whole numbers, 0 where the row was censored and 1, 2, ... by kind of event"
MOST_CODES = 10  # in a message


@dataclass(frozen=True, eq=False)
class CompetingOutcome:
    """Checked outcome, one entry per row, in the caller's order.

    Attributes
    ----------
    status : ndarray of shape (n_rows,), uint8
        0 censored, 1 event of interest, 2 competing event.
    time : ndarray of shape (n_rows,), float64
    stratum : ndarray of shape (n_rows,), int64, or None
        Position of the row's label in `stratum_labels`.
    stratum_labels : ndarray of shape (n_strata,) or None
        Sorted labels, as the caller wrote them.
    subject : ndarray of shape (n_rows,) or None
        Labels as the caller wrote them.
    censoring_group : ndarray of shape (n_rows,), int64, or None
        Number of the group whose censoring the row shares; None where groups are the strata.
    """

    status: np.ndarray
    time: np.ndarray
    stratum: np.ndarray | None = None
    stratum_labels: np.ndarray | None = None
    subject: np.ndarray | None = None
    censoring_group: np.ndarray | None = None

    start: ClassVar[None] = None  # rows are at risk from the beginning

    @property
    def n_rows(self) -> int:
        return self.time.size

    @property
    def event(self) -> np.ndarray:
        """Rows with the event of interest, bool."""
        return self.status == 1

    @property
    def kind(self) -> np.ndarray:
        """What folds have equal shares of."""
        return self.status

    @property
    def n_events(self) -> np.ndarray:
        """Events of interest of each row, by which the scores of folds are averaged."""
        return self.event

    @property
    def unit(self) -> np.ndarray | None:
        """Number of the subject that each row belongs to; None where rows are independent."""
        return None if self.subject is None else np.unique(self.subject, return_inverse=True)[1]

    def take(self, rows) -> "CompetingOutcome":
        """Return the outcome of some rows."""
        fields = ("status", "time", "stratum", "subject", "censoring_group")
        return take_rows(self, rows, fields)


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
    refuse_flags(numbers_or_flags(event, "event").dtype, "`event`", "use surv for a single kind")
    return pack(checked_fields(check_whole(event, "event", CODES), time, stratum=stratum))


def refuse_flags(dtype, where, otherwise):
    """Refuse events that are True or False, which leave nothing to compete with."""
    if dtype.kind == "b":
        raise TypeError(
            f"{where} has dtype bool, in which there are no competing events; pass {CODES}, or "
            f"{otherwise}."
        )


def read_competing(
    y, *, n_rows=None, strata=None, event_of_interest=1, censoring_groups=None
) -> CompetingOutcome:
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
    event_field, time_field, others = split_survival(y, "competing_risks", n_rows)
    if "start" in others:
        raise ValueError(
            "`y` has a field 'start', but Fine-Gray regression with delayed entry is not offered; "
            "leave it out, or fit the cause-specific hazard with CoxLassoCCD, where competing "
            "events are censored."
        )
    refuse_flags(y.dtype[0], f"field {event_field!r} of `y`", "fit CoxLassoCCD for a single kind")
    if y.dtype[0].kind not in "iu":
        raise TypeError(
            f"`y` has dtype {y.dtype[0]} in its first field {event_field!r}, must be integer "
            f"codes; {how_to_build('competing_risks', EVENT_TIME)}."
        )
    codes = check_whole(y[event_field], event_field, CODES)
    given = {field: y[field] for field in others}
    fields = checked_fields(codes, y[time_field], **given)
    if not codes.any():
        raise ValueError(
            f"`y` has no event (all {y.size:,} rows censored): a Fine-Gray model cannot be fitted."
        )
    check_event_of_interest(event_of_interest, y[event_field])
    status = np.where(codes == event_of_interest, 1, 2).astype(np.uint8)
    status[codes == 0] = 0
    stratum, labels = choose_strata(fields["stratum"], strata, y.size)
    group = None
    if censoring_groups is not None:
        group, _ = encode(check_labels(censoring_groups, "censoring_groups", y.size))
    return CompetingOutcome(status, fields["time"], stratum, labels, fields["subject"], group)


def lacks_event(y, code=1) -> bool:
    """Whether an outcome has rows, and none with the event of a code (or True, for flags)."""
    if not isinstance(y, np.ndarray) or not y.dtype.names or y.dtype[0].kind not in "biu":
        return False
    return y.size > 0 and not (y[y.dtype.names[0]] == code).any()


def check_code(code):
    """Check that `code` could be that of an event."""
    if not isinstance(code, Integral) or isinstance(code, bool):
        raise TypeError(
            f"`event_of_interest` is {code!r} of type {type(code).__name__}; pass an integer code."
        )
    if code < 1:
        raise ValueError(
            f"`event_of_interest` is {code}, must be a positive code; 0 stands for censored rows."
        )


def check_event_of_interest(code, event, name="y"):
    """Check that `code` is among the codes, or 1 among the booleans, of the column `event`."""
    check_code(code)
    if event.dtype.kind == "b":
        if code != 1:
            raise ValueError(
                f"`event_of_interest` is {code}, but the events of `{name}` are booleans, which "
                "know one kind of event, 1; give codes with sksurvgpu.competing_risks(event, time)."
            )
    elif not (event == code).any():
        found = np.unique(event[event != 0])
        more = f" and {found.size - MOST_CODES:,} more" if found.size > MOST_CODES else ""
        listed = ", ".join(map(str, found[:MOST_CODES])) or "none"
        raise ValueError(
            f"`event_of_interest` is {code}, but no row of `{name}` has this code; its codes of "
            f"events are {listed}{more}."
        )
