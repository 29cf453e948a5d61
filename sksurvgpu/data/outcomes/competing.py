"""Outcomes with competing risks: rows end by one of several kinds of event, or are censored.

The structured array is a survival outcome whose first field is a code: 0 for a censored row,
1, 2, ... for the kinds of event. A fit reads from it which rows had the event of interest
and which another one.
"""

from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np

from ..vectors import check_labels, check_whole, encode, numbers_or_flags
from .fields import CODES, checked_items, pack, read_survival, refuse_flags, take_rows

__all__ = ["CompetingOutcome", "competing_risks", "read_competing"]

MOST_CODES = 10  # in a message
NO_START = (
    "Fine-Gray regression with delayed entry is not offered; leave it out, or fit the "
    "cause-specific hazard with CoxLassoCCD, where competing events are censored."
)


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
    return pack(checked_items(check_whole(event, "event", CODES), time, stratum=stratum))


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
    given = {"n_rows": n_rows, "strata": strata, "model": "Fine-Gray", "no_start": NO_START}
    items = read_survival(y, "iu", "fit CoxLassoCCD for a single kind", **given)
    codes = items.pop("event")
    check_event_of_interest(event_of_interest, codes)
    if censoring_groups is not None:
        censoring_groups = encode(check_labels(censoring_groups, "censoring_groups", y.size))[0]
    del items["start"]
    return CompetingOutcome(
        status_of(codes, event_of_interest), **items, censoring_group=censoring_groups
    )


def status_of(event, event_of_interest) -> np.ndarray:
    """0 where a row is censored, 1 where it has the event of interest, 2 for others; uint8."""
    status = np.where(event == event_of_interest, 1, np.where(event > 0, 2, 0))
    return status.astype(np.uint8)


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
