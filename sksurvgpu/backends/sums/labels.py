"""Labels of rows in partitions: their numbers among a partition's own, and among those of all."""

import numpy as np


def numbered(code, labels, n_rows):
    """Number of every row's label, and the labels; one of all rows where there are none."""
    if code is None:
        return np.zeros(n_rows, np.int64), np.zeros(1, np.int64)
    return code, labels


def renumbered(code, labels, of_problem):
    """Numbers of rows' labels among those of the problem."""
    if len(labels) and labels.dtype.kind in "biu":
        labels = labels.astype(of_problem.dtype)  # the problem's may be uint64, where all fit
    number = np.searchsorted(of_problem, labels)
    if np.any(number == len(of_problem)) or np.any(of_problem[number] != labels):
        raise ValueError(
            "the partition has labels that it did not have when the fit began; its data must stay "
            "as they are until the fit is done."
        )
    return number.astype(np.int64)[code]


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


def find_owners(labels):
    """Partition of every label, and the first that two have as (label, one, other), or None."""
    check_kinds(labels)
    owner: dict = {}
    for part, own in enumerate(labels):
        for label in own.tolist():
            if owner.setdefault(label, part) != part:
                return owner, (label, owner[label], part)
    return owner, None


def check_groups(tables):
    """Refuse groups whose rows are in several partitions."""
    _, shared = find_owners([told.get("labels", np.empty(0)) for told in tables])
    if shared:
        raise ValueError(
            f"group {shared[0]!r} has rows in partitions {shared[1]} and {shared[2]}, and its "
            "likelihood needs them in one: write the partitions with `group=`, or shuffle the rows "
            "by group."
        )
