"""Outcomes: the structured arrays that users build, and what a fit reads from them.

An outcome is a NumPy structured array whose first two fields are scikit-survival's: was
the event observed, and at which time. Reserved names may follow: `start` (the row is at
risk in (start, time]), `stratum` (rows with a baseline hazard of their own) and `subject`
(rows of one person).
"""

from dataclasses import dataclass

import numpy as np

from .checks import as_vector, check_labels, check_length, check_row_values

__all__ = ["Outcome", "as_sksurv", "read_outcome", "surv"]

RESERVED_FIELDS = ("start", "stratum", "subject")
HOW_TO_BUILD = "build it with sksurvgpu.surv(event, time)"


@dataclass(frozen=True, eq=False)
class Outcome:
    """Checked outcome, one entry per row, in the caller's order.

    Attributes
    ----------
    event : ndarray of shape (n_rows,), bool
    time : ndarray of shape (n_rows,), float64
    start : ndarray of shape (n_rows,), float64, or None
        The row is at risk in (start, time]; None: from the beginning.
    stratum : ndarray of shape (n_rows,), int64, or None
        Position of the row's label in `stratum_labels`.
    stratum_labels : ndarray of shape (n_strata,) or None
        Sorted labels, as the caller wrote them.
    subject : ndarray of shape (n_rows,) or None
        Labels as the caller wrote them.
    """

    event: np.ndarray
    time: np.ndarray
    start: np.ndarray | None = None
    stratum: np.ndarray | None = None
    stratum_labels: np.ndarray | None = None
    subject: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        return self.time.size


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
    fields = _checked_fields(event, time, start, stratum, subject)
    fields = {field: values for field, values in fields.items() if values is not None}
    y = np.empty(fields["time"].size, dtype=[(f, v.dtype) for f, v in fields.items()])
    for field, values in fields.items():
        y[field] = values
    return y


def as_sksurv(y) -> np.ndarray:
    """Return the first two fields of an outcome as scikit-survival expects them.

    Parameters
    ----------
    y : structured ndarray
        From `surv` or another builder of outcomes.

    Returns
    -------
    ndarray
        A view with two fields, for the metrics of scikit-survival.
    """
    _check_structured(y)
    return y if len(y.dtype.names) == 2 else y[list(y.dtype.names[:2])]


def read_outcome(y, *, n_rows=None, strata=None) -> Outcome:
    """Check the outcome of a survival model.

    Parameters
    ----------
    y : structured ndarray of shape (n_rows,)
        From `surv`, or scikit-survival's: first field bool, second numeric, any names.
    n_rows : int, optional
        Rows of X.
    strata : array-like of shape (n_rows,), optional
        Stratum label per row, where `y` has no field ``stratum``.
    """
    _check_structured(y)
    check_length(y, "y", n_rows)
    if y.size == 0:
        raise ValueError("`y` has no rows; pass at least one row with an event.")
    event_field, time_field, *others = y.dtype.names
    unknown = [field for field in others if field not in RESERVED_FIELDS]
    if unknown:
        raise ValueError(
            f"`y` has a field {unknown[0]!r} that a survival outcome cannot have; after event "
            "and time only 'start', 'stratum' and 'subject' are read."
        )
    if y.dtype[0].kind != "b":
        raise TypeError(
            f"`y` has dtype {y.dtype[0]} in its first field {event_field!r}, must be bool; "
            f"{HOW_TO_BUILD}."
        )
    if strata is not None and "stratum" in others:
        raise ValueError(
            "`strata` was passed and `y` has a field 'stratum'; give the strata in one place."
        )
    given = {field: y[field] for field in others}
    fields = _checked_fields(y[event_field], y[time_field], **given)
    event = fields["event"]
    if not event.any():
        raise ValueError(
            f"`y` has no event (all {y.size:,} rows censored): a Cox model cannot be fitted."
        )
    labels = fields["stratum"]
    if strata is not None:
        labels = check_labels(strata, "strata", y.size)
    codes, names = (None, None) if labels is None else _encode(labels)
    return Outcome(event, fields["time"], fields["start"], codes, names, fields["subject"])


def _check_structured(y):
    if y is None:
        raise ValueError(
            f"This estimator requires y to be passed, but the target y is None; {HOW_TO_BUILD}."
        )
    if not isinstance(y, np.ndarray):
        raise TypeError(
            f"`y` is of type {type(y).__name__}, must be a structured array; {HOW_TO_BUILD}, "
            "from a DataFrame with surv(df['event'], df['time'])."
        )
    if y.dtype.names is None or len(y.dtype.names) < 2:
        raise TypeError(
            f"`y` has dtype {y.dtype}, must be a structured array with an event and a time; "
            f"{HOW_TO_BUILD}."
        )
    if y.ndim != 1:
        raise ValueError(f"`y` has shape {y.shape}, must be one-dimensional.")


def _checked_fields(event, time, start=None, stratum=None, subject=None):
    """Check all items of an outcome; return them as contiguous arrays, by field."""
    event = _check_event(event)
    n_rows = event.size
    fields = {"event": event, "time": _same_rows(time, "time", n_rows, check_row_values)}
    for name, values, check in (
        ("start", start, check_row_values),
        ("stratum", stratum, check_labels),
        ("subject", subject, check_labels),
    ):
        fields[name] = None if values is None else _same_rows(values, name, n_rows, check)
    _check_times(fields["time"], fields["start"])
    return fields


def _same_rows(values, name, n_rows, check):
    vector = check(values, name)
    check_length(vector, name, n_rows, other="event")
    return np.ascontiguousarray(vector)


def _check_event(event):
    vector = as_vector(event, "event")
    if vector.dtype.kind == "O":
        vector = check_labels(vector, "event")
    if vector.dtype.kind == "b":
        return np.ascontiguousarray(vector)
    if vector.dtype.kind not in "iuf":
        raise TypeError(f"`event` has dtype {vector.dtype}; pass booleans or 0/1.")
    is_code = (vector == 0) | (vector == 1)
    if not is_code.all():
        row = int(np.argmin(is_code))
        raise ValueError(
            f"`event` is {vector[row]} in row {row:,}, must be bool or 0/1; were `event` and "
            "`time` swapped, or are there several kinds of event?"
        )
    return vector.astype(np.bool_)


def _check_times(time, start):
    for name, values in (("time", time), ("start", start)):
        if values is not None and values.size and values.min() < 0:
            row = int(np.argmax(values < 0))
            raise ValueError(f"`{name}` is {values[row]:g} in row {row:,}, must be at least 0.")
    if start is None:
        return
    is_empty = start >= time
    if is_empty.any():
        row = int(np.argmax(is_empty))
        raise ValueError(
            f"`start` must be before `time`: row {row:,} has start {start[row]:g} and time "
            f"{time[row]:g} ({np.count_nonzero(is_empty):,} such row(s)); drop empty intervals."
        )


def _encode(labels):
    """Return each row's position among the sorted distinct labels, and those labels."""
    from pandas import factorize

    codes, distinct = factorize(labels, sort=True)  # hashing: 10 times np.unique
    return codes.astype(np.int64), np.asarray(distinct).astype(labels.dtype)
