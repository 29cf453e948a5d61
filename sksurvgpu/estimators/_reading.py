"""How a part of the rows of a fit is read, wherever it lies.

The coordinator of a fit says it by a text, which goes with its messages; a partition makes the
model of that text and reads its rows as the model would read all of them. What rows need as
a whole, such as an event, a part may lack. What parts must agree on, such as
the labels of two classes, they tell when they are asked for the first time, and are told afterwards
as a part of the text.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils._param_validation import validate_parameter_constraints

from ..backends import to_host
from ..backends.sums.pattern import PartRows
from ..data.design.columns import build_design
from ..data.vectors import check_labels
from .models.base import BaseModel, model_of

__all__ = ["model_text", "outline_of", "read_rows"]

PACKAGE = __name__.partition(".")[0]


def model_text(estimator, agreed=None) -> str:
    """JSON of the model of an estimator, and of what parts of its rows agree on."""
    model = model_of(estimator)
    names = model.parameters.keys() - set(model.agreed_apart)
    return json.dumps(
        {
            "model": f"{type(model).__module__}:{type(model).__qualname__}",
            "parameters": {name: _pack(getattr(model, name)) for name in sorted(names)},
            "agreed": {name: _pack(value) for name, value in (agreed or {}).items()},
        },
        sort_keys=True,
    )


def read_rows(text, arguments, trusted=False) -> PartRows:
    """Rows of a part, whose `arguments` are those of `fit`, as a text says.

    A text that comes from elsewhere is not `trusted`, and may name the models of this package only.
    """
    said = json.loads(text)
    model = _model_named(said, trusted)
    given = dict(arguments)
    X, y = to_host(given.pop("X")), given.pop("y")
    weight, offset = given.pop("sample_weight", None), given.pop("offset", None)
    cluster = given.pop("cluster", None)  # of `wald`
    design = build_design(X, may_be_empty=True)
    outcome, weight, offset = model.read(y, design.n_rows, weight, offset, given)
    agreed = {name: _unpack(value) for name, value in said["agreed"].items()}
    told = model.tell(outcome, weight)
    outcome, weight = model.join(outcome, weight, agreed)
    told["units"] = np.array([_count_units(outcome)])
    if cluster is None:
        subject = getattr(outcome, "subject", None)
        cluster = getattr(outcome, model.clusters, None)
    else:
        subject = cluster = check_labels(cluster, "cluster", design.n_rows)
    told["has_subjects"] = np.array([subject is not None])
    if subject is not None and "subjects" in agreed:
        told["subjects"] = np.unique(subject)
    outline = model.outline(design.n_columns, design.names, outcome)
    return PartRows(
        design=design,
        outcome=outline.outcome,
        weight=weight,
        offset=offset,
        likelihood=outline.likelihood,
        source=outline.terms.source,
        piece_ptr=outline.terms.piece_ptr,
        cuts=tuple(outline.terms.cuts.tolist()),
        censoring=outline.censoring,
        unit=outcome.unit,
        cluster=cluster,
        told=told,
    )


def outline_of(said, n_columns, names):
    """Outline of the model that a text from elsewhere names, without any row."""
    for value in said["agreed"].values():
        _unpack(value)
    return _model_named(said, False).outline(n_columns, names)


def _count_units(outcome):
    """How many units draws have to draw from."""
    return outcome.n_rows if outcome.unit is None else len(np.unique(outcome.unit))


def _model_named(said, trusted) -> BaseModel:
    """Model that a text names, with its parameters, which are checked as an estimator's are."""
    module, _, name = said["model"].partition(":")
    if not (trusted or module.startswith(f"{PACKAGE}.estimators.models.")):
        raise ValueError(
            f"the model {said['model']!r} is not one of this package, and a message may name no "
            "other."
        )
    kind = getattr(import_module(module), name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        raise ValueError(f"the message names {said['model']!r}, which is no model.")
    parameters = {name: _unpack(value) for name, value in said["parameters"].items()}
    rules = {parameter: rules for parameter, (_, rules) in kind.parameters.items()}
    validate_parameter_constraints(rules, parameters, caller_name=name)
    return kind(**parameters, may_lack=True)


def _pack(value) -> Any:
    """A parameter as JSON can hold it; keys of a dict may be numbers."""
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
