"""Reading of outcomes: vectors, fields of structured arrays, strata.

Readers of outcomes have arguments in common: `n_rows` are the rows of X, where these are known, and
`strata` labels of rows, where `y` has no field ``stratum``.  Rows that `may_lack` what a fit needs
of them, an event or a class or any row, are some of those of a fit.
"""

from dataclasses import replace

import numpy as np

from ..options import first_of, is_whole
from ..vectors import (
    as_array,
    check_flags,
    check_labels,
    check_length,
    check_row_values,
    check_unmasked,
    check_whole,
    encode,
)

RESERVED_FIELDS = ("start", "stratum", "subject")
EVENT_TIME = ("event", "time")
CODES = "whole numbers, 0 where the row was censored and 1, 2, ... by kind of event"
MOST_CODES = 10  # in a message
EXPECTED = {"b": "bool", "iu": "integer codes", "biu": "bool or integer codes"}
OTHER_BUILDERS = {("count", "length"): "case_series", ("case", "stratum"): "matched"}


class ValueOfRows:
    """Checked outcome with a number `value` in every row, in the caller's order."""

    value: np.ndarray

    @property
    def n_rows(self) -> int:
        return self.value.size

    @property
    def kind(self) -> np.ndarray:
        """Number of the kind of each row, of which folds have equal shares."""
        return self.value

    @property
    def n_events(self) -> np.ndarray:
        """Events of each row, by which the scores of folds are averaged; 1 where none are."""
        return np.ones(self.n_rows)


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


def flat_vector(y, content, n_rows=None, remedy="") -> np.ndarray:
    """Return what scikit-learn's models take as `y` as a vector; a column passes with a warning."""
    check_given(y, remedy)
    vector = as_array(y, "y")
    check_plain(vector, content)
    if vector.ndim == 2 and vector.shape[1] == 1:
        from sklearn.utils.validation import column_or_1d

        vector = column_or_1d(vector, warn=True)
    if vector.ndim != 1:
        raise ValueError(
            f"`y` has shape {vector.shape}, must be one-dimensional; fit one model per column."
        )
    check_length(vector, "y", n_rows)
    return vector


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


def check_rows(y, n_rows=None, name="y", wanted=" row with an event", may_lack=False):
    """Check that an outcome has as many rows as X, and some unless it may lack them."""
    check_length(y, name, n_rows)
    if not (may_lack or y.size):
        raise ValueError(f"`{name}` has no rows; pass at least one{wanted}.")


def check_named(y, builder, fields, n_rows, may_lack):
    """Check that `y` has exactly the fields of `builder`, in any order, and its rows."""
    check_structured(y, builder, fields)
    unread = [field for field in y.dtype.names if field not in fields]
    if unread:
        raise ValueError(
            f"`y` has a field {unread[0]!r}, must have {', '.join(map(repr, fields))} only; "
            f"{how_to_build(builder, fields)}."
        )
    check_rows(y, n_rows, may_lack=may_lack)


def read_survival(
    y,
    kinds,
    otherwise,
    *,
    n_rows=None,
    strata=None,
    name="y",
    model=None,
    no_start=None,
    may_lack=False,
):
    """Check an outcome of `surv` or `competing_risks`; return its items, None where not given.

    The first two fields of `y` are event and time, under any names. Events may have `kinds` of
    dtype, "b", "iu" or "biu": flags, codes, or both; `otherwise` is what to do with the other ones.
    The user calls the outcome `name`; a `model` cannot be fitted without an event, and `no_start`
    says why there may be no field ``start``, and what to do.
    """
    builder = "surv" if "b" in kinds else "competing_risks"
    check_structured(y, builder, EVENT_TIME, name)
    check_rows(y, n_rows, name, may_lack=may_lack)
    event_field, time_field, *others = y.dtype.names
    check_names(builder, name, event_field, time_field, others)
    if no_start and "start" in others:
        raise ValueError(f"`{name}` has a field 'start', but {no_start}")
    event, dtype = y[event_field], y.dtype[0]
    if dtype.kind not in kinds:
        if dtype.kind == "b":
            refuse_flags(dtype, f"field {event_field!r} of `{name}`", otherwise)
        raise TypeError(
            f"`{name}` has dtype {dtype} in its first field {event_field!r}, must be "
            f"{EXPECTED[kinds]}; {how_to_build(builder, EVENT_TIME)}"
            f"{f'; {otherwise}' if dtype.kind in 'iu' else ''}."
        )
    is_flag = dtype.kind == "b"
    event = check_flags(event, "event") if is_flag else check_whole(event, event_field, CODES)
    event = labelled(event, labels_of(y[event_field]))
    items = checked_items(event, y[time_field], **{field: y[field] for field in others})
    if model and not (may_lack or event.any()):
        refuse_no_event(y.size, model)
    items["stratum"], items["stratum_labels"] = choose_strata(
        items["stratum"], strata, y.size, other=name if n_rows is None else "X"
    )
    return items


def check_names(builder, name, event_field, time_field, others):
    """Check that fields are those of a survival outcome."""
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


def refuse_flags(dtype, where, otherwise):
    """Refuse events that are True or False, which leave nothing to compete with."""
    if dtype.kind == "b":
        raise TypeError(
            f"{where} has dtype bool, in which there are no competing events; pass {CODES}, or "
            f"{otherwise}."
        )


def refuse_no_event(n_rows, model):
    """Refuse an outcome without an event."""
    raise ValueError(
        f"`y` has no event (all {n_rows:,} rows censored): a {model} model cannot be fitted."
    )


def labels_of(event) -> dict:
    """Labels of the codes of events, {code: label}, as the dtype of `event` has them."""
    return dict((event.dtype.metadata or {}).get("labels", {}))


def labelled(event, labels) -> np.ndarray:
    """Codes with a dtype that says what they are called."""
    return event.view(np.dtype(event.dtype.str, metadata={"labels": labels})) if labels else event


def check_code(code, event) -> int:
    """Check that `code` could be that of an event; a label stands for the code that it has."""
    codes = {label: known for known, label in labels_of(event).items()}
    if isinstance(code, str) and codes:
        if code not in codes:
            raise ValueError(
                f"`event_of_interest` is {code!r}, must be a code or one of the labels "
                f"{', '.join(map(repr, codes))} of competing_risks."
            )
        return codes[code]
    if not is_whole(code):
        raise TypeError(
            f"`event_of_interest` is {code!r} of type {type(code).__name__}; pass an integer code"
            f"{', or give `labels` to competing_risks' * isinstance(code, str)}."
        )
    if code < 1:
        raise ValueError(
            f"`event_of_interest` is {code}, must be a positive code; 0 stands for censored rows."
        )
    return code


def check_event_of_interest(code, event, name="y", may_lack=False) -> int:
    """Code, given so or by its label, which is in the column `event`; of booleans 1."""
    code = check_code(code, event)
    if event.dtype.kind == "b":
        if code != 1:
            raise ValueError(
                f"`event_of_interest` is {code}, but the events of `{name}` are booleans, which "
                "know one kind of event, 1; give codes with sksurvgpu.competing_risks(event, time)."
            )
    elif not (may_lack or (event == code).any()):
        found = first_of(np.unique(event[event != 0]), MOST_CODES) or "none"
        raise ValueError(
            f"`event_of_interest` is {code}, but no row of `{name}` has this code; its codes of "
            f"events are {found}."
        )
    return code


def status_of(event, event_of_interest) -> np.ndarray:
    """0 where a row is censored, 1 where it has the event of interest, 2 for others; uint8."""
    status = np.where(event == event_of_interest, 1, np.where(event > 0, 2, 0))
    return status.astype(np.uint8)


def checked_items(
    event, time, start=None, stratum=None, subject=None, other="event", empty="drop empty intervals"
):
    """Check all items of an outcome but `event`; return contiguous arrays, by name.

    `empty` is what to do about rows without a length.
    """
    beside = {"n_rows": event.size, "other": other}
    time = check_row_values(time, "time", minimum=0, **beside)
    if start is not None:
        start = check_row_values(start, "start", minimum=0, **beside)
        _check_intervals(start, time, empty)
    if stratum is not None:
        stratum = check_labels(stratum, "stratum", **beside)
    if subject is not None:
        subject = check_labels(subject, "subject", **beside)
    return {"event": event, "time": time, "start": start, "stratum": stratum, "subject": subject}


def _check_intervals(start, time, remedy):
    is_empty = start >= time
    if is_empty.any():
        row = int(np.argmax(is_empty))
        raise ValueError(
            f"`start` must be before `time`: row {row:,} has start {start[row]:g} and time "
            f"{time[row]:g} ({np.count_nonzero(is_empty):,} such row(s)); {remedy}."
        )


def choose_strata(labels, strata, n_rows, other="X"):
    """Codes and sorted labels of the strata, from the field or the argument; None without."""
    if strata is not None:
        if labels is not None:
            raise ValueError(
                "`strata` was passed and `y` has a field 'stratum'; give the strata in one place."
            )
        labels = check_labels(strata, "strata", n_rows, other=other)
    return (None, None) if labels is None else encode(labels)
