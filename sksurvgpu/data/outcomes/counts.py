"""Outcomes without risk sets: counts, cases and numbers, alone or compared within groups.

A case series has one row for each era of a subject's follow-up: events counted, length, and whose
it is. A matched set has one row for each case or control. Their likelihoods condition on the
events of a group, so that a group tells something only if it has an event and two rows to choose
from, a matched set only if it has a case and a control (Cox's approximations see one choice after
the other, and a term where all rows are cases). Counts with an exposure and plain numbers
come as vectors, as scikit-learn's regressors take them.
"""

from dataclasses import dataclass

import numpy as np

from ...exceptions import NothingToCompareError
from ..checks import check_exposure, check_positive
from ..partitioned import outcome_in_partitions
from ..vectors import check_flags, check_labels, check_row_values, check_whole, encode, from_objects
from .fields import (
    ValueOfRows,
    check_named,
    check_rows,
    choose_strata,
    flat_vector,
    how_to_build,
    pack,
)

CASE_SERIES = ("count", "length", "subject")
MATCHED = ("case", "stratum")
COUNTS = "numbers of events: whole numbers of at least 0"


@dataclass(frozen=True, eq=False)
class GroupedOutcome(ValueOfRows):
    """Checked outcome, one entry per row, in the caller's order.

    Attributes
    ----------
    value : ndarray of shape (n_rows,), float64
        Number of events, 1 for a case and 0 for a control, or any number.
    group : ndarray of shape (n_rows,), int64, or None
        Position of the row's label in `group_labels`.
    group_labels : ndarray of shape (n_groups,) or None
        Sorted labels of subjects or strata, as the caller wrote them; None where there were none.
    offset : ndarray of shape (n_rows,), float64, or None
        Logarithm of the exposure.
    has_events : bool
        False where values are numbers that count nothing.
    """

    value: np.ndarray
    group: np.ndarray | None = None
    group_labels: np.ndarray | None = None
    offset: np.ndarray | None = None
    has_events: bool = True

    @property
    def event(self) -> np.ndarray | None:
        """Rows with at least one event, bool; None where values count nothing."""
        return self.value > 0 if self.has_events else None

    @property
    def n_events(self) -> np.ndarray:
        """Events of each row, by which the scores of folds are averaged; 1 where there are none."""
        return self.value if self.has_events else super().n_events

    @property
    def unit(self) -> np.ndarray | None:
        """Number of the group that each row belongs to; None where rows are independent."""
        return self.group


def case_series(count, length, subject) -> np.ndarray:
    """Build the outcome of a self-controlled case series, one entry per era.

    Parameters
    ----------
    count : array-like of int
        Events in the era, at least 0.
    length : array-like of float
        Length of the era, positive, in any unit of time.
    subject : array-like of int or str
        Who the era belongs to. Eras are compared only within a subject.

    Returns
    -------
    ndarray
        Structured array with the fields ``count`` (int64), ``length`` and ``subject``.

    Examples
    --------
    >>> from sksurvgpu import case_series
    >>> case_series([0, 1, 2], [30, 12.5, 8], ["ann", "ann", "bob"])
    array([(0, 30. , 'ann'), (1, 12.5, 'ann'), (2,  8. , 'bob')],
          dtype=[('count', '<i8'), ('length', '<f8'), ('subject', '<U3')])
    """
    later = outcome_in_partitions(case_series, count=count, length=length, subject=subject)
    if later is not None:
        return later
    return pack(_case_series_fields(count, length, subject))


def matched(case, stratum) -> np.ndarray:
    """Build the outcome of a study of matched sets, one entry per case or control.

    Parameters
    ----------
    case : array-like of bool or 0/1
        True for a case, False for a control.
    stratum : array-like of int or str
        Matched set that the row belongs to. Rows are compared only within a set.

    Returns
    -------
    ndarray
        Structured array with the fields ``case`` (bool) and ``stratum``.

    Examples
    --------
    >>> from sksurvgpu import matched
    >>> matched([1, 0, 0, 1], [7, 7, 8, 8])
    array([( True, 7), (False, 7), (False, 8), ( True, 8)],
          dtype=[('case', '?'), ('stratum', '<i8')])
    """
    if (later := outcome_in_partitions(matched, case=case, stratum=stratum)) is not None:
        return later
    return pack(_matched_fields(case, stratum))


def read_case_series(y, *, n_rows=None, may_lack=False) -> GroupedOutcome:
    """Check the outcome of a self-controlled case series, from `case_series`; see `fields`."""
    check_named(y, "case_series", CASE_SERIES, n_rows, may_lack)
    fields = _case_series_fields(*(y[field] for field in CASE_SERIES))
    value = fields["count"].astype(np.float64)
    group, labels = encode(fields["subject"])
    if not may_lack:
        check_compared(value, group, len(labels), "subject", "subjects")
    return GroupedOutcome(value, group, labels, np.log(fields["length"]))


def read_matched(y, *, n_rows=None, strata=None, is_exact=True, may_lack=False) -> GroupedOutcome:
    """Check the outcome of a study of matched sets; see `fields`.

    It is from `matched`, or a vector of flags with the set of each row as `strata`. To the exact
    likelihood (`is_exact`) sets of cases only say nothing.
    """
    if getattr(getattr(y, "dtype", None), "names", None) or (np.ndim(y) > 1 and strata is None):
        check_named(y, "matched", MATCHED, n_rows, may_lack)
        fields = _matched_fields(*(y[field] for field in MATCHED))
        case, of_field = fields["case"], fields["stratum"]
    else:
        remedy = f"; {how_to_build('matched', MATCHED)}"
        case, of_field = check_flags(_flat_numbers(y, n_rows, remedy, may_lack), "y"), None
        if strata is None:
            raise ValueError(
                "`y` is a plain vector and `strata` was not passed, but cases are compared with "
                "controls of their matched set; pass the set of each row as `strata`, or "
                f"{how_to_build('matched', MATCHED)}."
            )
    group, labels = choose_strata(of_field, strata, case.size)
    if not may_lack:
        check_sets(case, group, len(labels), is_exact)
    return GroupedOutcome(case.astype(np.float64), group, labels)


def read_counts(
    y, *, n_rows=None, strata=None, exposure=None, is_conditional=False, may_lack=False
) -> GroupedOutcome:
    """Check the outcome of a Poisson regression, conditional on strata or not; see `fields`.

    Events of each row are finite numbers of at least 0, at least one of them positive; they need
    not be whole, as for scikit-learn's ``PoissonRegressor``. The `exposure` is the time or number
    at risk of each row, positive, and 1 by default. Rows are compared within strata if it
    `is_conditional`; all rows are one stratum where there are none.
    """
    value = check_row_values(_flat_numbers(y, n_rows, may_lack=may_lack), "y", minimum=0)
    if not (may_lack or value.any()):
        refuse_zeros(value.size, NothingToCompareError if is_conditional else ValueError)
    group, labels = choose_strata(None, strata, value.size)
    if is_conditional:
        if group is None:
            group = np.zeros(value.size, np.int64)
        if not may_lack:
            check_compared(value, group, 1 if labels is None else len(labels), "stratum", "strata")
    exposure = check_exposure(exposure, value.size)
    return GroupedOutcome(value, group, labels, None if exposure is None else np.log(exposure))


def read_numbers(y, *, n_rows=None, may_lack=False) -> GroupedOutcome:
    """Check the outcome of a linear regression, finite numbers; see `fields`."""
    value = check_row_values(_flat_numbers(y, n_rows, may_lack=may_lack), "y")
    return GroupedOutcome(value, has_events=False)


def _flat_numbers(y, n_rows, remedy="", may_lack=False):
    """Return a vector of numbers from what scikit-learn's regressors take as `y`."""
    vector = flat_vector(y, "numbers", n_rows, remedy)
    check_rows(vector, wanted="", may_lack=may_lack)
    if vector.dtype.kind == "O":  # numbers of several types, or with missing ones
        vector = from_objects(vector, "y")
    return vector.astype(np.float64) if vector.dtype.kind == "b" else vector


def _case_series_fields(count, length, subject):
    count = check_whole(count, "count", COUNTS)
    beside = {"n_rows": count.size, "other": "count"}
    return {
        "count": count,
        "length": check_positive(length, "length", **beside),
        "subject": check_labels(subject, "subject", **beside),
    }


def _matched_fields(case, stratum):
    case = check_flags(case, "case")
    return {"case": case, "stratum": check_labels(stratum, "stratum", case.size, other="case")}


def refuse_zeros(n_rows, kind=ValueError):
    """Refuse counts of which none is positive."""
    raise kind(
        f"`y` is zero in all {n_rows:,} rows; at least one event is needed to estimate a rate."
    )


def count_compared(value, group, n_groups):
    """Groups that compare rows, all groups, those with an event, and those with two rows."""
    n_rows = np.bincount(group, minlength=n_groups)
    n_events = np.bincount(group, value, minlength=n_groups)
    has_event, has_rows = n_events > 0, n_rows > 1
    which = (has_event & has_rows, n_rows >= 0, has_event, has_rows)
    return np.array([np.count_nonzero(some) for some in which])


def check_compared(value, group, n_groups, name, plural, among=""):
    """Some group must have an event and a row without which it might have happened."""
    counts = count_compared(value, group, n_groups)
    if not counts[0]:
        refuse_uncompared(counts, name, plural, among)


def refuse_uncompared(counts, name, plural, among=""):
    """Refuse groups of which none compares rows."""
    _, n_groups, n_with_event, n_with_rows = counts
    raise NothingToCompareError(
        f"`y` has no {name} with an event and at least two rows{among}, so there is nothing to "
        f"compare: of {n_groups:,} {plural}, {n_with_event:,} have an event "
        f"and {n_with_rows:,} at least two rows; check the labels of the "
        f"{plural}."
    )


def check_sets(case, group, n_groups, is_exact, among=""):
    """Some matched set must have a case and a control; two cases are enough to approximations."""
    if not is_exact:
        check_compared(case, group, n_groups, "stratum", "strata", among)
        return
    counts = count_sets(case, group, n_groups)
    if not counts[0]:
        refuse_sets(counts, among)


def count_sets(case, group, n_groups):
    """Sets that compare rows, all sets, those of cases only, and those of controls only."""
    n_rows = np.bincount(group, minlength=n_groups)
    n_cases = np.bincount(group, case, minlength=n_groups)
    only = (n_cases == n_rows) & (n_rows > 0), (n_cases == 0) & (n_rows > 0)
    which = ((n_cases > 0) & (n_cases < n_rows), n_rows >= 0, *only)
    return np.array([np.count_nonzero(some) for some in which])


def refuse_sets(counts, among=""):
    """Refuse sets of which none has both a case and a control."""
    _, n_groups, n_cases_only, n_controls_only = counts
    raise NothingToCompareError(
        f"`y` has no stratum with both a case and a control{among}: of {n_groups:,} strata, "
        f"{n_cases_only:,} have cases only and {n_controls_only:,} controls only; check the labels "
        "of the strata."
    )
