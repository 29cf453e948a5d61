"""One partition of rows: how an estimator reads them for a fit, and predicts for them.

The coordinator of a fit says how by a text, which goes with its messages; a partition makes the
model of that text and reads its rows as the model would read all of them. What rows need as a
whole, such as an event, a partition may lack. What partitions must agree on, such as the labels of
two classes, they tell when they are asked for the first time, and are told afterwards as a part of
the text.  Predictions are made where the rows are, one partition at a time.
"""

import json
from functools import partial, wraps
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
from sklearn.utils._param_validation import validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted, validate_data

from ..backends import to_host
from ..backends.sums.pattern import PartRows
from ..backends.sums.recipes import count_units
from ..data.design.columns import build_design
from ..data.partitioned import check_order_beside, in_partitions
from ..data.vectors import check_labels, check_order
from ..partitions.dask import as_rows
from ..partitions.handles import check_split
from .models.base import BaseModel, model_of

PACKAGE = __name__.partition(".")[0]
BY_ROW = "strata", "exposure", "start"  # where they are no number


def model_text(estimator, agreed=None) -> str:
    """JSON of the model of an estimator, and of what partitions of its rows agree on."""
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
    """Rows of a partition, whose `arguments` are those of `fit`, as a text says.

    A text of another process is not `trusted`, and may name the models of this package only.
    """
    said = json.loads(text)
    model = _model_named(said, trusted)
    check_order(**arguments)
    given = dict(arguments)
    X, y = to_host(given.pop("X")), given.pop("y")
    weight, offset = given.pop("sample_weight", None), given.pop("offset", None)
    cluster = given.pop("cluster", None)  # of `wald`
    design = build_design(X, may_be_empty=True)
    outcome, weight, offset = model.read(y, design.n_rows, weight, offset, given)
    agreed = {name: _unpack(value) for name, value in said["agreed"].items()}
    told = model.tell(outcome, weight)
    outcome, weight = model.join(outcome, weight, agreed)
    told["units"] = np.array([count_units(outcome)])
    if cluster is None:
        subject = getattr(outcome, "subject", None)
        cluster = getattr(outcome, model.clusters, None)
    else:
        subject = cluster = check_labels(cluster, "cluster", design.n_rows)
    told["has_weights"] = np.array([weight is not None])
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
    """Outline of the model that a text names, which may be anybody's,, without any row."""
    for value in said["agreed"].values():
        _unpack(value)
    return _model_named(said, False).outline(n_columns, names)


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


def _numbers(model, given):
    return np.empty(0)


def by_partition(like=_numbers):
    """Let a method of X return what partitions make of their rows, where X is in partitions.

    That is an array of Dask, or what `numpy.asarray` makes an array of. ``like(model, given)`` has
    no row, and otherwise the shape and the dtype of the method's result.
    """

    def decorate(method):
        @wraps(method)
        def call(self, X, *args, **kwargs):
            if not in_partitions(X):
                return method(self, X, *args, **kwargs)
            given = signature(method).bind(self, X, *args, **kwargs).arguments
            given = {name: value for name, value in given.items() if name not in ("self", "X")}
            check_is_fitted(self)
            # `call`, which a worker finds by its name, and no subclass that asks it to predict
            return _map(self, partial(_call, call, self, like), X, given, like)

        return call

    return decorate


def predict_to_memory(model, method, X, like=_numbers) -> np.ndarray:
    """Predictions of an undecorated method for rows in partitions, all brought to memory."""
    check_is_fitted(model)
    return np.asarray(_map(model, partial(_call, method, model, like), X, {}, like))


def to_memory(X=None, **given):
    """Arguments of a score, in the order of X; those in partitions are brought to memory."""
    for name, value in given.items():
        if in_partitions(value):
            rows = _beside(X, value, name)
            has_labels = hasattr(getattr(value, "index", None), "compute")
            given[name] = value.compute() if has_labels else np.asarray(rows.map(np.asarray))
    check_order_beside(X, **given)
    return tuple(given.values())


def _beside(X, value, name):
    """Handle of an argument, whose partitions are those of X where X is in some."""
    rows = as_rows(value, name)
    if in_partitions(X):
        check_split(name, rows, "X", as_rows(X))
    return rows


def _map(model, function, X, given, like):
    rows = as_rows(X)
    if rows.n_columns is not None:  # else partitions say so
        validate_data(model, rows.header(), y="no_validation", reset=False, skip_check_array=True)
    of_rows = {k: v for k, v in given.items() if in_partitions(v) or (k in BY_ROW and np.ndim(v))}
    others = {name: _beside(X, value, name) for name, value in of_rows.items()}
    fixed = {name: value for name, value in given.items() if name not in others}
    return rows.map(partial(function, **fixed), like=like(model, fixed), **others)


def _call(method, model, like, X, **given):
    """Predictions of a method for a partition; like them, without rows where it has none."""
    n_rows, *_ = getattr(X, "shape", (1,))
    return np.asarray(method(model, X, **given)) if n_rows else like(model, given)
