"""Readable names of covariates, one a column and all different."""

from collections.abc import Mapping

import numpy as np
from pandas import Series, isna

from ..data.sources import open_source
from .ids import is_missing, listed, read_ids
from .reading import BATCH_SIZE, require


def name_covariates(ids, names, covariate_id, name, windows=None):
    """Return the name of every column, and how many covariates `names` leaves without one.

    `ids` are those of the covariates of columns, ascending, and `names` a mapping, a Series or a
    table of names by identifier, whose columns are `covariate_id` and `name`. `windows` are names
    of the columns' windows, "" where there are none.
    """
    label_of = _read_names(names, covariate_id, name)
    windows = [""] * len(ids) if windows is None else windows
    ids = ids.tolist()
    distinct = list(dict.fromkeys(ids))
    found = [label_of.get(id) for id in distinct]
    n_unnamed = 0 if names is None else found.count(None)
    if label_of and n_unnamed == len(found):
        raise ValueError(
            f"`names` names none of the {len(found):,} covariates: its identifiers are like "
            f"{next(iter(label_of))!r}, those of `covariates` like {ids[0]!r}."
        )
    labels = [
        str(id) if label is None else label for id, label in zip(distinct, found, strict=True)
    ]
    name_of = dict(zip(distinct, _make_unique(labels, distinct), strict=True))
    labels = [
        f"{name_of[id]} {window}" if window else name_of[id]
        for id, window in zip(ids, windows, strict=True)
    ]
    return np.array(_make_unique(labels, ids), dtype=object), n_unnamed


def _make_unique(labels, ids):
    """Names that occur more than once get their identifier in parentheses."""
    while len(set(labels)) < len(labels):
        seen, shared = set(), set()
        for label in labels:
            (shared if label in seen else seen).add(label)
        labels = [
            f"{label} ({id})" if label in shared else label
            for id, label in zip(ids, labels, strict=True)
        ]
    return labels


def _read_names(names, covariate_id, name):
    """Names by identifier as Python holds them; missing names are left out."""
    if names is None:
        return {}
    if isinstance(names, Mapping | Series):
        pairs = list(names.items())
    else:
        pairs = _read_table(names, covariate_id, name)
    label_of = {}
    for id, label in pairs:
        if isinstance(label, str):
            if label_of.setdefault(id, label) != label:
                raise ValueError(
                    f"`names` has two names of covariate {id!r}, {label_of[id]!r} and {label!r}; "
                    "keep one."
                )
        elif not isna(label):
            raise TypeError(
                f"`names` has {label!r} of type {type(label).__name__} for covariate {id!r}; names "
                "are strings."
            )
    return label_of


def _read_table(table, covariate_id, name):
    source = open_source(table, "names")
    for argument, label in (("covariate_id", covariate_id), ("name", name)):
        require(source.columns, label, "names", argument)
    pairs = []
    for frame in source.open([covariate_id, name], BATCH_SIZE):
        frame = frame.filter((~is_missing(frame.get_column(covariate_id))).tolist())
        ids = read_ids(frame.get_column(covariate_id), f"`names`[{covariate_id!r}]")
        pairs += zip(listed(ids).tolist(), frame.get_column(name).to_list(), strict=True)
    return pairs
