"""Opening a problem: what partitions say of their rows becomes a plan of all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...patterns.risk_sets.plan import distinct_pairs
from .messages import Describe
from .plan import Curves, Events, SumPlan, plan_events
from .problem import RemoteDesign, RemoteProblem


def describe(engine, model):
    """Descriptions of all partitions, in their order; an error where they do not fit together."""
    messages = {part: Describe(model) for part in range(engine.n_parts)}
    answers = dict(engine.ask(messages))
    descriptions = [answers[part] for part in range(engine.n_parts)]
    if not sum(description.rows for description in descriptions):
        raise ValueError(f"`X` has no row in any of {engine.n_parts:,} partitions.")
    for part, description in enumerate(descriptions):
        _check_columns(description, descriptions[0], part)
    return descriptions


def _check_columns(description, first, part):
    counts = len(description.columns), len(first.columns)
    if counts[0] != counts[1]:
        raise ValueError(
            f"partition {part} of `X` has {counts[0]:,} columns and partition 0 has {counts[1]:,}; "
            "give all partitions the same columns."
        )
    if description.names == first.names:
        return
    none = ["without a name"] * counts[0]
    pairs = list(zip(description.names or none, first.names or none, strict=True))
    j = next(j for j, (name, other) in enumerate(pairs) if name != other)
    raise ValueError(
        f"column {j} of partition {part} of `X` is {pairs[j][0]!r} and that of partition 0 is "
        f"{pairs[j][1]!r}; give all partitions the same columns in the same order."
    )


def open_problem(
    engine, model, likelihood, cuts, source, piece_ptr, descriptions, *, events_first=False
):
    """Problem of a model, which partitions read from the text `model`."""
    design, pattern = _join_columns(descriptions), likelihood.pattern
    tables, plan = {}, SumPlan(design.n_rows)
    if pattern in ("risk_sets", "carried_risk_sets"):
        events = _join_events(descriptions)
        competing = pattern == "carried_risk_sets"
        curves = _join_curves(descriptions, events, events_first) if competing else None
        plan = plan_events(design.n_rows, events, cuts, curves)
        tables = _tables_of(plan)
    elif pattern != "rows":
        check_groups([description.tables for description in descriptions])
    problem = RemoteProblem(
        engine=engine,
        model=model,
        design=design,
        plan=plan,
        likelihood=likelihood,
        source=np.asarray(source, np.int64),
        piece_ptr=np.asarray(piece_ptr, np.int64),
        descriptions=tuple(descriptions),
        tables=tables,
    )
    center = design.find_centers()
    if not (problem.ignores_shifts and center.any()):
        return problem
    return replace(problem, center=center, tables=tables | {"center": center})


def _join_columns(descriptions):
    """Counts, means and squares over all partitions: deviations add up without cancellation."""
    n_columns = len(descriptions[0].columns)
    count, mean, square = np.zeros((3, n_columns))
    least, largest = np.full((2, n_columns), np.nan)
    for description in descriptions:
        own, total, own_square, low, high = description.columns.T
        joined = count + own
        share = np.divide(own, joined, out=np.zeros(n_columns), where=joined > 0)
        ahead = np.divide(total, own, out=np.zeros(n_columns), where=own > 0) - mean
        square += own_square + ahead**2 * count * share
        mean += ahead * share
        count = joined
        least, largest = np.fmin(least, low), np.fmax(largest, high)
    names = descriptions[0].names
    return RemoteDesign(
        n_rows=sum(description.rows for description in descriptions),
        names=None if names is None else list(names),
        entries=count.astype(np.int64),
        mean=mean,
        square=square,
        least=least,
        largest=largest,
    )


def number_labels(descriptions, name):
    """Labels of all partitions, ascending, and for each partition the numbers of its own."""
    own = [description.tables[name] for description in descriptions]
    check_kinds(own)
    kind = np.result_type(*([some for some in own if len(some)] or own))
    if kind.kind == "f":  # of int64 beside uint64, some of whose labels would become one
        kind = np.dtype(np.uint64 if min(some.min(initial=0) for some in own) >= 0 else object)
    own = [some.astype(kind) for some in own]
    labels = np.unique(np.concatenate(own))
    return labels, [np.searchsorted(labels, some) for some in own]


def check_kinds(labels):
    """Check that the labels of all partitions that have any are text, or that all are numbers."""
    is_text = {part: some.dtype.kind == "U" for part, some in enumerate(labels) if len(some)}
    if len(set(is_text.values())) > 1:
        first = {kind: part for part, kind in reversed(is_text.items())}
        raise TypeError(
            f"labels are text in partition {first[True]} and numbers in partition {first[False]}; "
            "give all partitions labels of one kind."
        )


def _join_events(descriptions):
    """Event times of all partitions by stratum."""
    labels, numbers = number_labels(descriptions, "labels")
    tables = [description.tables for description in descriptions]
    stratum = np.concatenate([n[t["stratum"]] for n, t in zip(numbers, tables, strict=True)])
    time, deaths = (np.concatenate([t[name] for t in tables]) for name in ("time", "deaths"))
    order = np.lexsort((time, stratum))
    stratum, time = stratum[order], time[order]
    of_stratum, times = distinct_pairs(stratum, time, True)
    new = np.ones(len(time), bool)
    new[1:] = (stratum[1:] != stratum[:-1]) | (time[1:] != time[:-1])
    total = np.bincount(np.cumsum(new) - 1, deaths[order], minlength=len(times))
    last = np.full(len(labels), -np.inf)
    for number, table in zip(numbers, tables, strict=True):
        last[number] = np.maximum(last[number], table["last"])
    ptr = np.searchsorted(of_stratum, np.arange(len(labels) + 1))
    return Events(labels, times, ptr, total.astype(np.int64), last)


def _join_curves(descriptions, events, events_first):
    """Times of the curves of censoring of all partitions, and the lanes that occur."""
    labels, numbers = number_labels(descriptions, "censor_labels")
    tables = [description.tables for description in descriptions]
    group, lane_group = (
        np.concatenate([n[t[name]] for n, t in zip(numbers, tables, strict=True)])
        for name in ("censor_group", "lane_group")
    )
    of_group, times = distinct_pairs(
        group, np.concatenate([t["censor_time"] for t in tables]), False
    )
    strata = [np.searchsorted(events.labels, t["labels"])[t["lane_stratum"]] for t in tables]
    lanes = np.unique(np.column_stack([np.concatenate(strata), lane_group]), axis=0)
    ptr = np.searchsorted(of_group, np.arange(len(labels) + 1))
    return Curves(labels, times, ptr, lanes, events_first)


def _tables_of(plan):
    """What `Arrange` tells of a plan."""
    tables = {
        "labels_strata": plan.events.labels,
        "event_time": plan.events.time,
        "event_ptr": plan.events.ptr,
        "bin_end": plan.bins.end,
        "few": np.array([plan.few]),
    }
    if plan.curves is not None:
        stratum, group = plan.curves.lanes.T
        tables |= {
            "labels_censoring": plan.curves.labels,
            "table_time": plan.curves.time,
            "table_ptr": plan.curves.ptr,
            "lane_stratum": stratum,
            "lane_group": group,
        }
    return tables


def check_groups(tables):
    """Refuse groups whose rows are in several partitions."""
    owner, nothing = {}, np.empty(0)
    own = [told.get("labels", nothing) for told in tables]
    check_kinds(own)
    for part, labels in enumerate(own):
        for label in labels.tolist():
            if owner.setdefault(label, part) != part:
                raise ValueError(
                    f"group {label!r} has rows in partitions {owner[label]} and {part}, and its "
                    "likelihood needs them in one: write the partitions with `group=`, or shuffle "
                    "the rows by group."
                )


def check_strata(descriptions):
    """Refuse strata that only some partitions have: the rows of the others would join one."""
    has_strata = {
        part: bool(description.tables["has_strata"][0])
        for part, description in enumerate(descriptions)
        if description.rows and "has_strata" in description.tables
    }
    if len(set(has_strata.values())) < 2:
        return
    having, lacking = (
        [part for part, has in has_strata.items() if has == wanted] for wanted in (True, False)
    )
    raise ValueError(
        f"rows have strata in partitions {_list(having)}, and none in {_list(lacking)}; give the "
        "rows of all partitions a stratum, or those of none."
    )


def _list(parts, most=5):
    return ", ".join(map(str, parts[:most])) + (", ..." if len(parts) > most else "")
