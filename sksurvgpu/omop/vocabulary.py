"""Concepts, what is below them, and their names."""

from __future__ import annotations

import numpy as np
from pandas import Series

from .._warnings import warn
from ..data import options
from ..tables.ids import whole_numbers

LISTED = 5  # identifiers in a warning


def find_concepts(tables, ids, descendants=True, exclude=()):
    """Concepts, with those below them if asked for, and without those to be excluded."""
    found, left_out = read_ids(ids, "ids"), read_ids(exclude, "exclude")
    given = np.union1d(found, left_out)
    _warn_of_unknown(given, list_names(tables, given))
    if options.flag(descendants, "descendants"):
        found, left_out = _with_descendants(tables, found), _with_descendants(tables, left_out)
    return np.setdiff1d(found, left_out)


def _with_descendants(tables, ids):
    if not ids.size:
        return ids
    below = tables.frame(
        "SELECT DISTINCT CAST(descendant_concept_id AS BIGINT) AS id "
        f"FROM {tables.path('concept_ancestor')} WHERE descendant_concept_id IS NOT NULL "
        "AND ancestor_concept_id IN (SELECT unnest($ids))",
        ids=ids.tolist(),
    )
    return np.union1d(ids, below["id"].to_numpy(np.int64))


def find_names(tables, ids):
    """Names of concepts in the order given; a warning says which there are not."""
    ids = read_ids(ids, "ids", sorts=False)
    name_of = list_names(tables, ids)
    _warn_of_unknown(np.unique(ids), name_of)
    return Series([name_of.get(id) for id in ids.tolist()], ids, dtype=object, name="name")


def list_names(tables, ids) -> dict[int, str]:
    """Names of those concepts that the vocabulary has."""
    found = tables.frame(
        "SELECT CAST(concept_id AS BIGINT) AS id, min(concept_name) AS name "
        f"FROM {tables.path('concept')} WHERE concept_name IS NOT NULL "
        "AND concept_id IN (SELECT unnest($ids)) GROUP BY 1",
        ids=ids.tolist(),
    )
    return dict(zip(found["id"].tolist(), found["name"].tolist(), strict=True))


def _warn_of_unknown(ids, name_of):
    unknown = [id for id in ids.tolist() if id not in name_of]
    if unknown:
        more = f" and {len(unknown) - LISTED:,} more" if len(unknown) > LISTED else ""
        warn(
            "the vocabulary (table 'concept') has no concept "
            f"{', '.join(map(str, unknown[:LISTED]))}{more}; compare with the release of the "
            "vocabulary that the database was made with."
        )


def read_ids(ids, argument, sorts=True):
    """Identifiers of concepts as int64, by default sorted and different."""
    values = np.atleast_1d(np.asarray(ids))
    if not values.size:
        return np.empty(0, np.int64)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"`{argument}` is {ids!r}; pass identifiers of concepts, whole numbers.")
    values = whole_numbers(values, f"`{argument}`")
    return np.unique(values) if sorts else values
