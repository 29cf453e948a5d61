"""Facts that all parties know of a fit over sites beside its sums: labels, orders of magnitude."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from ..backends.sums.labels import number_labels

FLAGS = ("has_entries", "has_strata", "has_groups")


class Public(NamedTuple):
    """Facts on columns and on what occurs at sites, from `Joined.facts`."""

    n_sites: int
    names: tuple[str, ...] | None
    powers: np.ndarray  # of two, of the size of every column of X
    power: int  # of the outcome
    labels: np.ndarray  # of strata
    censor_labels: np.ndarray
    lanes: np.ndarray  # (n_lanes, 2): strata and groups of censoring that occur together
    classes: np.ndarray
    blur: float  # the largest of a site
    has_entries: bool
    has_strata: bool
    has_groups: bool

    @classmethod
    def of(cls, joined) -> Public:
        """From what sites have said when they joined, by name."""
        tables = {name: said.facts for name, said in joined.items()}
        _check_alike(joined)
        every = list(tables.values())
        described = [SimpleNamespace(tables=facts) for facts in every]
        labels, numbers = number_labels(described, "labels")
        censor_labels, groups = number_labels(described, "censor_labels")
        lanes = [
            np.column_stack([number[facts["lane_stratum"]], group[facts["lane_group"]]])
            for number, group, facts in zip(numbers, groups, every, strict=True)
        ]
        return cls(
            n_sites=len(every),
            names=next(iter(joined.values())).names,
            powers=np.max([facts["powers"] for facts in every], axis=0),
            power=int(max(facts["power"][0] for facts in every)),
            labels=labels,
            censor_labels=censor_labels,
            lanes=np.unique(np.concatenate(lanes), axis=0),
            classes=np.unique(np.concatenate([facts["classes"] for facts in every])),
            blur=float(max(facts["blur"][0] for facts in every)),
            **{name: any(facts[name][0] for facts in every) for name in FLAGS},
        )


def _check_alike(joined):
    """Refuse sites whose columns or strata are not alike, by name."""
    (first, said), *others = joined.items()
    for name, other in others:
        n, n_first = len(other.facts["powers"]), len(said.facts["powers"])
        if n != n_first:
            raise ValueError(f"site {name!r} has {n:,} columns, and {first!r} has {n_first:,}.")
        if other.names != said.names:
            none = ("without a name",) * n
            pairs = zip(other.names or none, said.names or none, strict=True)
            j, (one, two) = next((j, p) for j, p in enumerate(pairs) if p[0] != p[1])
            raise ValueError(
                f"column {j} of site {name!r} is {one!r}, and that of {first!r} is {two!r}; give "
                "all sites the same columns in the same order."
            )
        for label in ("labels", "censor_labels", "classes"):
            kinds = {kind.facts[label].dtype.kind == "U" for kind in (said, other)}
            if len(kinds) > 1:
                raise ValueError(
                    f"strata or classes are named by text at one of the sites {first!r} and "
                    f"{name!r}, and by numbers or not at all at the other; name them alike."
                )
        if other.facts["has_strata"][0] != said.facts["has_strata"][0]:
            raise ValueError(
                f"rows have strata at one of the sites {first!r} and {name!r}, and none at the "
                "other; give the rows of all sites a stratum, or those of none."
            )
