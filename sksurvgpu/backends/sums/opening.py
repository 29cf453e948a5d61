"""Opening a problem: what partitions say of their rows becomes a plan of all of them."""

from dataclasses import replace

import numpy as np

from .messages import Describe
from .problem import DesignInPartitions, ProblemInPartitions


def describe(engine, model):
    """Descriptions of all partitions, in their order; an error where they do not fit together."""
    messages = {part: Describe(model) for part in range(engine.n_parts)}
    answers = dict(engine.ask(messages))
    return check_descriptions([answers[part] for part in range(engine.n_parts)])


def check_descriptions(descriptions):
    """Check that there are rows, and that partitions have the same columns."""
    if not sum(description.rows for description in descriptions):
        raise ValueError(f"`X` has no row in any of {len(descriptions):,} partitions.")
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
    design, joining = _join_columns(descriptions), likelihood.pattern.joined
    plan, tables = joining.open(descriptions, design.n_rows, cuts, events_first)
    problem = ProblemInPartitions(
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
    return DesignInPartitions(
        n_rows=sum(description.rows for description in descriptions),
        names=None if names is None else np.array(names, object),
        entries=count.astype(np.int64),
        mean=mean,
        square=square,
        least=least,
        largest=largest,
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
