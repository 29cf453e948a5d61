"""Outcomes of multi-state models: rows at risk in a state, some of which end by entering another.

The structured array is an outcome whose first field is the code of the state that is entered at the
end of the row, 0 for none; ``origin`` is the code of the state that the row is in. What codes are
called is in their dtypes.
"""

from collections.abc import Mapping
from itertools import chain

import numpy as np
from pandas import DataFrame, Index, isna

from ..._warnings import warn
from ..by_column import similar
from ..vectors import as_vector, check_labels, check_length, check_order, encode, to_host
from .fields import check_named, checked_items, choose_strata, labelled, labels_of, pack

ROUNDING = 64 * np.finfo(float).eps
FIELDS = ("destination", "time", "origin", "start", "subject")
ARGUMENTS = ("origin", "destination", "start", "time", "subject")  # of them, in their order
EMPTY = (
    "move the later time, by half a day say, and the start of the next row: with the row its "
    "transition would be lost"
)
GRAPH = (
    "must be a dictionary of the states that each state may be left for, such as "
    '{"well": ["ill", "dead"], "ill": ["dead"]}'
)


def multi_state(
    origin, destination, start, time, subject, *, stratum=None, allowed=None
) -> np.ndarray:
    """Build the outcome of a multi-state model, one entry per row.

    A row is the time of a person in a state, or a part of it where covariates change.

    Parameters
    ----------
    origin : array-like of int or str
        State that the person is in, at risk in (start, time].
    destination : array-like of int or str
        State that is entered at `time`; None, NaN or "" where the person stays or is censored. A
        code of 0 is a state where it is an origin, too, or in `allowed`, and refused elsewhere.
    start, time : array-like of float
        When the row begins and ends, at least 0.
    subject : array-like of int or str
        Who the row belongs to.
    stratum : array-like of int or str, optional
        Rows are compared only within a stratum.
    allowed : dict of {state: list of states}, optional
        States that each state may be left for. Other transitions are refused, and those that
        nobody makes are warned of. Results have states in this order, otherwise in that of labels.

    Returns
    -------
    ndarray
        Structured array with the fields ``destination``, ``time``, ``origin``, ``start``,
        ``subject`` and ``stratum`` where given. States are codes 1, 2, ..., with 0 for none.

    See Also
    --------
    transition_table : How often each transition is made.

    Notes
    -----
    Persons may come under observation at any time and in any state. Refused are rows of a person
    that overlap, and a row that goes on in another state than the one before has ended in. Persons
    may be unseen for some time; a warning says so where they come back in another state.

    Examples
    --------
    >>> from sksurvgpu import multi_state, transition_table
    >>> y = multi_state(
    ...     origin=["well", "ill", "well", "well"],
    ...     destination=["ill", None, "dead", None],
    ...     start=[0, 2, 0, 1],
    ...     time=[2, 5, 6, 9],
    ...     subject=["Ann", "Ann", "Bob", "Cat"],
    ...     allowed={"well": ["ill", "dead"]},
    ... )
    >>> transition_table(y)
    destination  well  ill  dead  censored
    origin
    well            0    1     1         1
    ill             0    0     0         1
    dead            0    0     0         0
    """
    given = {"start": start, "stratum": stratum, "subject": subject}
    check_order(origin=origin, destination=destination, time=time, **given)
    origin = check_labels(origin, "origin")
    goes, entered = _read_destination(destination, origin)
    if allowed is None and (entered == 0).any() and not (origin == 0).any():
        raise ValueError(
            f"`destination` is 0 in {np.count_nonzero(entered == 0):,} rows, and no row begins in "
            "a state 0; pass None or NaN where nobody enters a state, or with `allowed` the state "
            "0 that is never left."
        )
    states = _states_of(origin, entered, goes, allowed)
    labels = dict(enumerate(states, 1))
    codes = {label: code for code, label in labels.items()}
    origin, destination = _coded(origin, codes), np.zeros(len(origin), np.int64)
    destination[goes] = _coded(entered, codes)
    items = checked_items(origin, time, **given, other="origin", empty=EMPTY)
    rows = {"destination": destination, "origin": origin, **items}
    _check_transitions(rows, labels, allowed)
    _check_histories(rows, labels)
    fields = {field: rows[field] for field in (*FIELDS, "stratum")}
    for field in ("destination", "origin"):
        fields[field] = labelled(fields[field], labels)
    return pack(fields)


def _read_destination(destination, origin):
    """Rows that end in another state, and the labels of these."""
    given = as_vector(np.asarray(to_host(destination), dtype=object), "destination")
    check_length(given, "destination", origin.size, "origin")
    goes = ~isna(given)
    goes[goes] = given[goes] != ""
    entered = check_labels(given[goes], "destination") if goes.any() else origin[:0]
    if (entered.dtype.kind == "U") != (origin.dtype.kind == "U"):
        raise TypeError(
            f"`origin` has labels such as {origin[0].item()!r}, `destination` such as "
            f"{entered[0].item()!r}; call states the same in both."
        )
    return goes, entered


def _states_of(origin, entered, goes, allowed):
    """Labels of the states in their order."""
    if allowed is None:
        return np.unique(np.concatenate([origin, entered])).tolist()
    if not isinstance(allowed, Mapping) or any(
        isinstance(to, str) or not np.iterable(to) for to in allowed.values()
    ):
        raise ValueError(f"`allowed` is {allowed!r}, {GRAPH}.")
    states = list(dict.fromkeys([*allowed, *chain.from_iterable(allowed.values())]))
    places = {"origin": np.arange(len(origin)), "destination": np.flatnonzero(goes)}
    for name, labels in zip(places, (origin, entered), strict=True):
        for label in np.setdiff1d(labels, np.array(states))[:1].tolist():
            row = places[name][np.argmax(labels == label)]
            raise ValueError(
                f"`{name}` is {label!r} in row {row:,}, a state that `allowed` has not"
                f"{similar(label, states)} Its states are {states}."
            )
    return states


def _coded(labels, codes):
    rows, found = encode(labels)
    return np.array([codes[label] for label in found.tolist()], np.int64)[rows]


def _check_transitions(rows, labels, allowed):
    """Refuse transitions to the same state and outside of the graph; warn of those not made."""
    origin, destination = rows["origin"], rows["destination"]
    if (origin == destination).any():
        row = int(np.argmax(origin == destination))
        raise ValueError(
            f"subject {rows['subject'][row]!s} is in {labels[origin[row]]!r} in row {row:,}, and "
            "enters it; `destination` is None where a row ends in the state that it began in."
        )
    if allowed is None:
        return
    codes = {label: code for code, label in labels.items()}
    graph = {codes[a] * len(labels) + codes[b]: (a, b) for a, to in allowed.items() for b in to}
    made = origin * len(labels) + destination
    wrong = (destination > 0) & ~np.isin(made, list(graph))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"subject {rows['subject'][row]!s} goes from {labels[origin[row]]!r} to "
            f"{labels[destination[row]]!r} in row {row:,}, which `allowed` does not have."
        )
    made = set(made[destination > 0].tolist())
    missing = [f"{a!r} to {b!r}" for key, (a, b) in graph.items() if key not in made]
    if missing:
        warn(f"nobody goes from {', '.join(missing)}; models have no hazard of it.")


def _check_histories(rows, labels):
    """Refuse rows of a person that contradict one another."""
    subject, start, time = rows["subject"], rows["start"], rows["time"]
    order, follows = _by_person(subject, start)
    before, after = order[:-1][follows], order[1:][follows]
    ends_in = np.where(rows["destination"] > 0, rows["destination"], rows["origin"])[before]
    gap, changes = start[after] - time[before], rows["origin"][after] != ends_in

    def describe(wrong):
        k = np.argmax(wrong)
        i, j = before[k], after[k]
        there = [
            f"in {labels[rows['origin'][r]]!r} from {start[r]:g} to {time[r]:g} (row {r:,})"
            for r in (i, j)
        ]
        return f"subject {subject[i]!s} is {there[0]} and {there[1]}", labels[ends_in[k]]

    if (gap < 0).any():
        words, _ = describe(gap < 0)
        raise ValueError(
            f"{words}, twice at a time: there is one row for a stay, not one for each transition "
            "that is possible; cut or join rows."
        )
    if (changes & (gap == 0)).any():
        words, state = describe(changes & (gap == 0))
        raise ValueError(
            f"{words}, and the first of these rows ends in {state!r}; `destination` is the state "
            "in which the next row begins, or None if that is the same."
        )
    if changes.any():
        words, state = describe(changes)
        warn(
            f"{words}, and the first of these rows ends in {state!r}: a transition happened unseen "
            f"({np.count_nonzero(changes):,} in all), and counts for no hazard."
        )


def _by_person(subject, start):
    """Rows by person and time, and whether each but the first one is of the person before it."""
    who = encode(subject)[0]
    order = np.lexsort((start, who))
    return order, who[order[:-1]] == who[order[1:]]


def read_states(y, *, n_rows=None, strata=None) -> tuple[dict, dict]:
    """Check an outcome of `multi_state`; its items, and {code: label} of its states."""
    has_stratum = isinstance(y, np.ndarray) and "stratum" in (y.dtype.names or ())
    check_named(y, "multi_state", ARGUMENTS + ("stratum",) * has_stratum, n_rows, False)
    items = {field: y[field] for field in y.dtype.names}
    given, labels = choose_strata(items.get("stratum"), strata, y.size, other="X")
    items["stratum"] = None if given is None else labels[given]
    names = labels_of(y["origin"])
    codes = names or np.unique([y["origin"], y["destination"]]).tolist()
    return items, {code: names.get(code, code) for code in codes if code}


def entries_into_states(items) -> np.ndarray:
    """Time at which each row's person has entered the state, or was first seen in it."""
    order, follows = _by_person(items["subject"], items["start"])
    origin, entered = items["origin"][order], items["destination"][order]
    goes_on = follows & (origin[1:] == origin[:-1]) & (entered[:-1] == 0)
    since = items["start"][order]
    # who was unseen at first has been in it from the transition on
    enters = follows & (entered[:-1] == origin[1:])
    since[1:][enters] = items["time"][order][:-1][enters]
    first = np.maximum.accumulate(np.where(np.append(False, goes_on), 0, np.arange(len(order))))
    entry = np.empty(len(order))
    entry[order] = since[first]
    return entry


def durations_in_states(items) -> dict:
    """When rows begin and end since their person entered the state; those within rounding are one.

    Differences of the same days in years are not all the same number, and ties would be lost.
    """
    since = entries_into_states(items)
    times = np.concatenate([items["time"] - since, items["start"] - since])
    order = np.argsort(times)
    is_new = np.diff(times[order], prepend=-np.inf) > ROUNDING * items["time"].max()
    times[order] = times[order][np.maximum.accumulate(is_new * np.arange(len(order)))]
    return dict(zip(("time", "start"), np.split(times, 2), strict=True))


def transition_table(y):
    """Count transitions of the outcome of a multi-state model.

    Parameters
    ----------
    y : structured ndarray of shape (n_rows,)
        Outcome from `multi_state`.

    Returns
    -------
    table : pandas.DataFrame
        Transitions from the states in its index, ``origin``, to those in its columns,
        ``destination``, and ``censored``, persons who were last seen in a state.

    Examples
    --------
    See `multi_state`.
    """
    items, labels = read_states(y)
    codes = list(labels)
    order, follows = _by_person(items["subject"], items["start"])
    ends = order[np.append(~follows, True)]
    counted = {labels[code]: items["origin"][items["destination"] == code] for code in codes}
    counted["censored"] = items["origin"][ends[items["destination"][ends] == 0]]
    table = {
        name: [np.count_nonzero(own == code) for code in codes] for name, own in counted.items()
    }
    frame = DataFrame(table, index=Index([labels[code] for code in codes], name="origin"))
    return frame.rename_axis(columns="destination")
