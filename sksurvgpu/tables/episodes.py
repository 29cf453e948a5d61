"""`episodes`: follow-up and covariates that change become rows at risk in (start, stop]."""

from collections.abc import Mapping

import numpy as np

from .._warnings import warn
from ..data import options
from ..data.design.columns import build_design
from ..data.vectors import check_flags, check_numbers
from .cutting import arrange, close, cut_rows, fill_columns
from .grouping import POLICIES
from .names import name_covariates
from .periods import clip, read_periods
from .reading import DEFAULT_VALUE, read_persons, require_beside
from .results import Episodes, EpisodesReport, count_rows_without
from .spans import SpanColumns, read_spans
from .times import check_alike

JOINS = ("error", "last", "max", "sum")  # of the policies of long tables


def episodes(
    outcomes,
    covariates=None,
    *,
    id="id",
    start="start",
    stop="stop",
    time="time",
    event="event",
    covariate_id="covariate_id",
    value=DEFAULT_VALUE,
    cuts=(),
    overlaps="error",
    default=0.0,
    names=None,
    name="name",
    with_columns=(),
    ends="exclusive",
    unknown="warn",
    missing="error",
) -> Episodes:
    """Cut follow-up into rows at risk in which covariates do not change.

    A row ends where a covariate of the person begins, ends or changes, at each of `cuts`, and at
    the end of follow-up; the event is on the last row. R's ``tmerge`` and ``survSplit`` do the
    same.

    Parameters
    ----------
    outcomes : table
        One line a person: identifier, time and whether there was an event then, maybe a start (0
        without) and other columns. A person with several events has several lines, which must not
        overlap: from one event to the next.
    covariates : table, or mapping from name to table, optional
        One line for each value of a covariate, which holds in (start, stop]: identifiers of person
        and covariate, start, stop, and a value unless all are 1. A mapping has a table without
        covariate identifiers for each covariate. A line without a stop holds until the next one of
        the person and covariate starts. Tables are what `from_long` takes. They are held as 32
        bytes a line.
    id, start, stop, time, event, covariate_id, value : str
        Names of columns: `id` and `start` in both tables, `time` and `event` in `outcomes`, the
        others in `covariates`. ``stop=None``: no line has a stop; ``value=None``: all are 1; a
        mapping names the values of each table of a mapping of tables. Times are numbers, or all of
        them dates, of one time zone if of any; then `outcomes` has starts, and rows are in days
        since the person's first.
    cuts : array-like of float
        Times, in days since the start for dates, at which all persons are cut.
    overlaps : {"error", "last", "max", "sum"} or mapping, default="error"
        What becomes of lines of one person and covariate that overlap: "last" takes the one that
        started last. With "max" and "sum", lines without a stop hold for ever, so that "sum" counts
        or adds up what has happened so far. A mapping is by covariate identifier, "error" for
        others.
    default : float or mapping, default=0.0
        Value where no line holds. A mapping is by covariate identifier, 0 for others.
    names : mapping, pandas.Series or table, optional
        Names by covariate identifier, as `from_long` takes them.
    name : str, default="name"
        Name of the column of names in a table `names`.
    with_columns : str or list of str
        Columns of `outcomes` to put on the right of X.
    ends : {"exclusive", "inclusive"}, default="exclusive"
        With "inclusive", times are days, `stop` is the last day of a line and `time` the last day
        of follow-up, on which the event happens, as `cohort.eras_to_intervals` has them: days 5 to
        5 are one day, the row (5, 6].
    unknown : {"warn", "error", "ignore"}, default="warn"
        What to do about lines whose person is not among the outcomes; they are left out.
    missing : {"error", "drop"}, default="error"
        What to do about lines without identifier, start or value.

    Returns
    -------
    data : Episodes
        X and y, rows in the order of the outcomes and by time, and a report.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import episodes
    >>> persons = pd.DataFrame({"id": [1, 2], "time": [10, 7], "event": [1, 0], "age": [61, 48]})
    >>> doses = pd.DataFrame(
    ...     {"id": [1, 1, 2], "start": [2, 4, -3], "stop": [4, 12, 5], "value": [0.5, 1.0, 2.0]}
    ... )
    >>> data = episodes(persons, {"dose": doses}, with_columns=["age"])
    >>> data.to_frame()
       id  start  time  event  dose   age
    0   1    0.0   2.0  False   0.0  61.0
    1   1    2.0   4.0  False   0.5  61.0
    2   1    4.0  10.0   True   1.0  61.0
    3   2    0.0   5.0  False   2.0  48.0
    4   2    5.0   7.0  False   0.0  48.0
    >>> data.report
    5 rows of 2 subjects with 1 events
    1 covariates from 3 lines
    2 rows have no covariate
    2 lines cut off where follow-up starts or ends
    """
    by_day = _read_options(unknown, missing, ends)
    columns = SpanColumns(id, covariate_id, start, stop, value)
    persons = read_persons(outcomes, "outcomes", id)
    periods = read_periods(persons, start, time, by_day)
    happened = check_flags(persons.series(event, "event").to_native(), f"outcomes[{event!r}]")
    tables = {} if covariates is None else covariates
    told = read_spans(tables, "covariates", columns, persons, missing == "drop", by_day=by_day)
    check_alike("`covariates`", told.calendar, "times of `outcomes` are", periods.calendar)
    told.counts.report_unknown(unknown, "person")
    ids, rank = told.ranked(sorts=not isinstance(tables, Mapping))
    policies = _by_covariate("overlaps", overlaps, ids, "error")
    policy = np.array([POLICIES[key] for key in policies], dtype=np.int64)
    defaults = check_numbers(_by_covariate("default", default, ids, 0.0), "default")
    lines = told.spans._replace(stop=told.spans.stop + by_day)  # the end of the last day
    lines, n_open = _closed(lines, periods, rank, policy)
    clipped = clip(lines, periods)
    _warn_of_empty(clipped.n_empty)
    lines = arrange(clipped.lines, periods.person.size)
    rows = cut_rows(periods.start, periods.stop, lines, np.unique(check_numbers(cuts, "cuts")))
    filled = fill_columns(lines, rows, policy, defaults != 0.0)
    if filled.conflict[0] >= 0:
        _refuse_overlap(lines.take(filled.conflict), ids, persons, periods)
    labels, n_unnamed = name_covariates(ids, names, covariate_id, name)
    X = _with_defaults(filled.X.with_names(labels), defaults)
    is_event = rows.mark_last(happened)
    counts = {"n_open": n_open, "n_unnamed": n_unnamed, "n_subjects": len(persons.known)}
    report = _summarize(X, is_event, told.counts, clipped, filled, counts)
    X = _with_columns(X, persons.table, with_columns, rows.unit)
    return Episodes(X, rows.start, rows.stop, is_event, rows.unit, persons.ids, ids, report)


def _read_options(unknown, missing, ends):
    """Check options; return whether ends are days that count."""
    options.choice(unknown, "unknown", ("warn", "error", "ignore"))
    options.choice(missing, "missing", ("error", "drop"))
    options.choice(ends, "ends", ("exclusive", "inclusive"))
    return ends == "inclusive"


def _summarize(X, is_event, read, clipped, filled, counts):
    return EpisodesReport(
        n_rows=is_event.size,
        n_events=int(np.count_nonzero(is_event)),
        n_covariates=X.n_columns,
        n_lines=read.lines,
        n_missing=read.missing,
        n_unknown=read.unknown,
        n_empty=clipped.n_empty,
        n_outside=clipped.n_outside,
        n_clipped=clipped.n_clipped,
        n_overlaps=filled.n_overlaps,
        n_zeros=filled.n_zeros,
        n_rows_without=count_rows_without(X) if X.n_columns else 0,
        **counts,
    )


def _warn_of_empty(n_empty):
    if n_empty:
        warn(
            f"`covariates` has {n_empty:,} line(s) that stop where they start, and are left out; "
            "pass ends='inclusive' if times are days and the last one counts, or drop such lines."
        )


def _by_covariate(argument, option, ids, otherwise):
    """Entry of an argument for every covariate."""
    if not isinstance(option, Mapping):
        found = [option] * ids.size
    else:
        absent = set(option) - set(ids.tolist())
        if absent:
            raise ValueError(
                f"`{argument}` names {next(iter(absent))!r}, which is no covariate of a line; they "
                f"are like {ids.tolist()[0]!r}."
                if ids.size
                else f"`{argument}` is given without lines."
            )
        found = [option.get(id, otherwise) for id in ids.tolist()]
    if argument == "overlaps":
        for value in (*found, *([option] if isinstance(option, str) else [])):
            options.choice(value, argument, JOINS)
    return found


def _closed(lines, periods, rank, policy):
    """Lines by person and start, all with a stop, and how many had none."""
    origin = periods.origin[lines.unit] if periods.calendar else 0.0
    lines = lines._replace(
        column=rank[lines.column], start=lines.start - origin, stop=lines.stop - origin
    )
    n_open = int(np.count_nonzero(np.isnan(lines.stop)))
    if n_open:
        lines = arrange(lines, periods.n_persons)
        close(lines, policy)
    return lines, n_open


def _refuse_overlap(pair, ids, persons, periods):
    line = pair.unit[0]
    shown = [
        periods.show(start, stop, periods.person[line])
        for start, stop in zip(pair.start, pair.stop, strict=True)
    ]
    raise ValueError(
        f"`covariates` has two lines of covariate {ids[pair.column[0]]!s} of {persons.ids[line]!s} "
        f"that overlap, {' and '.join(shown)}; pass overlaps='last', 'max' or 'sum', or correct "
        "them."
    )


def _with_defaults(X, defaults):
    """Columns whose value is not 0 where they have no entry become dense."""
    changed = np.flatnonzero(defaults)
    if not changed.size:
        return X
    dense = np.tile(defaults[changed], (X.n_rows, 1))
    for column, j in zip(dense.T, changed, strict=True):
        stored = slice(X.indptr[j], X.indptr[j + 1])  # a zero that was told is one of these
        column[X.indices[stored]] = X.stored_values(j)
    unchanged = np.flatnonzero(defaults == 0.0)
    joined = build_design(dense).with_names(X.names[changed])
    if unchanged.size:
        joined = X.select(unchanged).with_columns(joined)
    return joined.select(np.argsort(np.concatenate([unchanged, changed])))


def _with_columns(X, table, labels, line):
    labels = [labels] if isinstance(labels, str) else [*labels]
    require_beside(labels, table.columns)
    if not labels:
        return X if X.n_columns else None
    beside = table[labels].iloc[line]
    return X.with_columns(beside) if X.n_columns else build_design(beside, name="with_columns")
