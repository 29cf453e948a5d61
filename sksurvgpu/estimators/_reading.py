"""How a part of the rows of a fit is read, wherever it lies.

The coordinator of a fit says it by a text, which goes with its messages; a partition makes the
estimator of that text and reads its rows as the estimator would read all of them. What rows need as
a whole, such as an event, a part need not have (`data.wholes`). What parts must agree on, such as
the labels of two classes, they tell when they are asked for the first time, and are told afterwards
as a part of the text.
"""

from __future__ import annotations

import json
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np

from ..backends import to_host
from ..backends.sums.pattern import PartRows
from ..data.checks import check_offset
from ..data.design.columns import build_design
from ..data.vectors import check_labels
from ..data.wholes import reading_part
from ._base import PenalizedModel
from .fitted import traits_of

__all__ = ["AGREED_APART", "model_text", "outline_of", "read_rows"]

PACKAGE = __name__.partition(".")[0]


AGREED_APART = ("class_weight",)  # parameters that are numbers once the parts have agreed


def model_text(estimator, agreed=None) -> str:
    """JSON of an estimator, as far as reading rows depends on it, and of what parts agree on."""
    model = estimator._reader()
    own = set(signature(model).parameters) - set(signature(PenalizedModel).parameters)
    parameters = {name: getattr(estimator, name) for name in sorted(own.difference(AGREED_APART))}
    return json.dumps(
        {
            "model": f"{model.__module__}:{model.__qualname__}",
            "parameters": {name: _pack(value) for name, value in parameters.items()},
            "agreed": {name: _pack(value) for name, value in (agreed or {}).items()},
        },
        sort_keys=True,
    )


def read_rows(text, arguments, trusted=False) -> PartRows:
    """Rows of a part, whose `arguments` are those of `fit`, as a text says.

    A text that comes from elsewhere is not `trusted`, and may name the models of this package only.
    """
    said = json.loads(text)
    estimator = _estimator_of(said, trusted)
    given = dict(arguments)
    X, y = to_host(given.pop("X")), given.pop("y")
    weight, offset = given.pop("sample_weight", None), given.pop("offset", None)
    cluster = given.pop("cluster", None)  # of `wald`
    with reading_part():
        design = build_design(X)
        outcome = estimator._read_outcome(y, design.n_rows, **given)
        weight = estimator._check_weight(weight, outcome)
        agreed = {name: _unpack(value) for name, value in said["agreed"].items()}
        told = estimator._tell(outcome, weight)
        outcome, weight = estimator._join(outcome, weight, agreed)
    offset = check_offset(offset, design.n_rows)
    exposure = getattr(outcome, "offset", None)
    if exposure is not None:
        offset = exposure if offset is None else exposure + offset
    told["units"] = np.array([_count_units(outcome)])
    if cluster is None:
        subject = getattr(outcome, "subject", None)
        cluster = getattr(outcome, traits_of(estimator).clusters, None)
    else:
        subject = cluster = check_labels(cluster, "cluster", design.n_rows)
    told["has_subjects"] = np.array([subject is not None])
    if subject is not None and "subjects" in agreed:
        told["subjects"] = np.unique(subject)
    outline = estimator._outline(design.n_columns, design.names, outcome)
    source, piece_ptr, cuts = outline.maps
    return PartRows(
        design=design,
        outcome=outline.outcome,
        weight=weight,
        offset=offset,
        likelihood=outline.likelihood,
        source=source,
        piece_ptr=piece_ptr,
        cuts=tuple(cuts.tolist()),
        censoring=outline.censoring,
        unit=outcome.unit,
        cluster=cluster,
        told=told,
    )


def outline_of(said, n_columns, names):
    """Outline of the model that a text from elsewhere names, without any row."""
    for value in said["agreed"].values():
        _unpack(value)
    return _estimator_of(said, False)._outline(n_columns, names)


def _count_units(outcome):
    """How many units draws have to draw from."""
    return outcome.n_rows if outcome.unit is None else len(np.unique(outcome.unit))


def _estimator_of(said, trusted):
    """Estimator that a text names."""
    module, _, name = said["model"].partition(":")
    if not (trusted or module.startswith(f"{PACKAGE}.estimators.")):
        raise ValueError(
            f"the model {said['model']!r} is not one of this package, and a message may name no "
            "other."
        )
    model = getattr(import_module(module), name, None)
    if not (isinstance(model, type) and issubclass(model, PenalizedModel)):
        raise ValueError(f"the message names {said['model']!r}, which is no model.")
    parameters = {name: _unpack(value) for name, value in said["parameters"].items()}
    estimator = model(**parameters)
    estimator._validate_params()
    return estimator


def _pack(value) -> Any:
    """What JSON can hold of a parameter; keys of a dict may be numbers."""
    if isinstance(value, dict):
        return {"pairs": [[_pack(key), _pack(item)] for key, item in value.items()]}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_pack(item) for item in value]
    return value


def _unpack(value) -> Any:
    if isinstance(value, dict):
        return {key: _unpack(item) for key, item in value["pairs"]}
    return value
