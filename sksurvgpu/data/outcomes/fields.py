"""What the readers of all outcomes share: structured arrays, codes, labels, strata."""

from dataclasses import replace

import numpy as np

from ..checks import (
    as_vector,
    check_labels,
    check_length,
    check_row_values,
    check_unmasked,
    from_objects,
)

RESERVED_FIELDS = ("start", "stratum", "subject")
EVENT_TIME = ("event", "time")
OTHER_BUILDERS = {("count", "length"): "case_series", ("case", "stratum"): "matched"}
LARGEST_WHOLE = 2.0**53  # beyond, float64 skips whole numbers


def how_to_build(builder, fields) -> str:
    return f"build it with sksurvgpu.{builder}({', '.join(fields)})"


def pack(fields) -> np.ndarray:
    """Return a structured array of the columns that are not None."""
    fields = {field: values for field, values in fields.items() if values is not None}
    n_rows = next(iter(fields.values())).size
    y = np.empty(n_rows, dtype=[(f, values.dtype) for f, values in fields.items()])
    for field, values in fields.items():
        y[field] = values
    return y


def take_rows(outcome, rows, fields):
    """Return an outcome with some of the rows of the given fields."""
    given = {field: getattr(outcome, field) for field in fields}
    return replace(outcome, **{f: v[rows] for f, v in given.items() if v is not None})


def check_given(y, remedy=""):
    if y is None:
        raise ValueError(
            f"This estimator requires y to be passed, but the target y is None{remedy}."
        )


def check_plain(vector, content):
    """Refuse the outcomes of other models, before their records pass for values."""
    if vector.dtype.names is not None:
        raise TypeError(
            f"`y` is a structured array with the fields {', '.join(map(repr, vector.dtype.names))};"
            f" this model takes a plain vector of {content}, e.g. one of these fields."
        )


def check_structured(y, builder, fields, name="y"):
    """Check that `y` is a vector of records that `builder` could have made."""
    remedy = how_to_build(builder, fields)
    if name == "y":
        check_given(y, f"; {remedy}")
    if not isinstance(y, np.ndarray):
        columns = ", ".join(f"df['{field}']" for field in fields)
        raise TypeError(
            f"`{name}` is of type {type(y).__name__}, must be a structured array; {remedy}, from a "
            f"DataFrame with {builder}({columns})."
        )
    if y.dtype.names is None or len(y.dtype.names) < len(fields):
        nouns = [f"{'an' if field[0] in 'aeiou' else 'a'} {field}" for field in fields]
        raise TypeError(
            f"`{name}` has dtype {y.dtype}, must be a structured array with "
            f"{', '.join(nouns[:-1])} and {nouns[-1]}; {remedy}."
        )
    check_unmasked(y, name)
    if y.ndim != 1:
        raise ValueError(f"`{name}` has shape {y.shape}, must be one-dimensional.")


def check_named(y, builder, fields, n_rows):
    """Check that `y` has exactly the fields of `builder`, in any order, and some rows."""
    check_structured(y, builder, fields)
    unread = [field for field in y.dtype.names if field not in fields]
    if unread:
        raise ValueError(
            f"`y` has a field {unread[0]!r}, must have {', '.join(map(repr, fields))} only; "
            f"{how_to_build(builder, fields)}."
        )
    check_length(y, "y", n_rows)
    if y.size == 0:
        raise ValueError("`y` has no rows; pass at least one row with an event.")


def split_survival(y, builder, n_rows, name="y"):
    """Check the form of a survival outcome; return the names of its event and time, and others."""
    check_structured(y, builder, EVENT_TIME, name)
    check_length(y, name, n_rows)
    if y.size == 0:
        raise ValueError(f"`{name}` has no rows; pass at least one row with an event.")
    event_field, time_field, *others = y.dtype.names
    other_builder = OTHER_BUILDERS.get((event_field, time_field))
    if other_builder is not None:  # the names of a survival outcome are free, so it might pass
        raise TypeError(
            f"`{name}` has the fields {event_field!r} and {time_field!r} of {other_builder}, must "
            f"have an event and a time; {how_to_build(builder, EVENT_TIME)}."
        )
    unknown = [field for field in others if field not in RESERVED_FIELDS]
    if unknown:
        raise ValueError(
            f"`{name}` has a field {unknown[0]!r} that a survival outcome cannot have; after event "
            "and time only 'start', 'stratum' and 'subject' are read."
        )
    return event_field, time_field, others


def checked_fields(event, time, start=None, stratum=None, subject=None):
    """Check all items of a survival outcome but `event`; return contiguous arrays, by field."""
    n_rows = event.size
    fields = {"event": event, "time": same_rows(time, "time", n_rows, check_row_values)}
    for name, values, check in (
        ("start", start, check_row_values),
        ("stratum", stratum, check_labels),
        ("subject", subject, check_labels),
    ):
        fields[name] = None if values is None else same_rows(values, name, n_rows, check)
    _check_times(fields["time"], fields["start"])
    return fields


def same_rows(values, name, n_rows, check, other="event"):
    vector = check(values, name)
    check_length(vector, name, n_rows, other=other)
    return np.ascontiguousarray(vector)


def check_flags(values, name, question="") -> np.ndarray:
    """Return booleans, given as such or as 0/1; `question` ends the message of other numbers."""
    vector = numbers_or_flags(values, name)
    if vector.dtype.kind == "b":
        return np.ascontiguousarray(vector)
    if vector.dtype.kind not in "iuf":
        raise TypeError(f"`{name}` has dtype {vector.dtype}; pass booleans or 0/1.")
    is_flag = (vector == 0) | (vector == 1)
    if not is_flag.all():
        row = int(np.argmin(is_flag))
        raise ValueError(
            f"`{name}` is {vector[row]} in row {row:,}, must be bool or 0/1{question or '.'}"
        )
    return vector.astype(np.bool_)


def check_whole(values, name, meaning) -> np.ndarray:
    """Return whole numbers of at least 0 as int64; `meaning` says what they stand for."""
    vector = numbers_or_flags(values, name)
    if vector.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` has dtype {vector.dtype}; pass {meaning}.")
    is_whole = (vector >= 0) & (vector <= LARGEST_WHOLE)
    if vector.dtype.kind == "f":
        is_whole &= vector == np.floor(vector)
    if not is_whole.all():
        row = int(np.argmin(is_whole))
        raise ValueError(f"`{name}` is {vector[row]} in row {row:,}; pass {meaning}.")
    return vector.astype(np.int64)


def numbers_or_flags(values, name):
    """Return a vector of numbers or booleans, given as such or as objects."""
    vector = as_vector(values, name)
    return from_objects(vector, name) if vector.dtype.kind == "O" else vector


def choose_strata(labels, strata, n_rows):
    """Codes and sorted labels of the strata, from the field or the argument; None without."""
    if strata is not None:
        if labels is not None:
            raise ValueError(
                "`strata` was passed and `y` has a field 'stratum'; give the strata in one place."
            )
        labels = check_labels(strata, "strata", n_rows)
    return (None, None) if labels is None else encode(labels)


def check_strata_as_in_fit(
    n_strata, is_given, *, own="a baseline hazard", found="`strata` was passed"
):
    """Check that rows have strata if and only if those of the fit had; None: they had not."""
    if n_strata is None and is_given:
        raise ValueError(f"{found}, but the model was fitted without strata.")
    if n_strata is not None and not is_given:
        raise ValueError(
            f"`strata` is missing: the model has {n_strata:,} strata with {own} each; pass one "
            "label per row."
        )


def encode(labels):
    """Return each row's position among the sorted distinct labels, and those labels."""
    from pandas import factorize

    codes, distinct = factorize(labels, sort=True)  # hashing: 10 times np.unique
    return codes.astype(np.int64), np.asarray(distinct).astype(labels.dtype)


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
