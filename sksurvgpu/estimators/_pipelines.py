"""Pipelines in place of estimators: their transformers, their final model, and what both can do.

What describes a fit transforms rows by the steps that were fitted with the model; what fits the
model to X anew fits steps that are not fitted; what draws rows has `inference._refits`.
scikit-survival gives scikit-learn's ``Pipeline`` its curves in the way of those here.
"""

from typing import Any, NoReturn

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import available_if

from ..data.design.columns import Design, build_design
from ..data.design.named import NamedColumns
from ._columns import require_here
from ._estimator import Estimator
from .fitted import with_names

__all__ = ["join_steps", "learn_steps", "named", "open_pipeline", "refuse_type", "split_pipeline"]

FORWARDED = (
    "log_likelihood",
    "predict_cumulative_incidence_function",
    "predict_median",
    "predict_quantile",
    "predict_risk",
)


def split_pipeline(estimator) -> tuple[Any, Any]:
    """Transformers of a pipeline as one, or None without any, and the final model.

    A search that was fitted stands for its best estimator.
    """
    if hasattr(estimator, "best_estimator_"):
        return split_pipeline(estimator.best_estimator_)
    if not isinstance(estimator, Pipeline):
        return None, estimator
    *own, last = (step for _, step in estimator.steps)
    inner, model = split_pipeline(last)
    steps = [step for step in (*own, inner) if step not in ("passthrough", None)]
    return make_pipeline(*steps) if steps else None, model


def open_pipeline(estimator, *tables) -> tuple:
    """The final model of a fitted pipeline, and tables as it takes them, both with names.

    Of an estimator by itself, what was given.
    """
    steps, model = split_pipeline(estimator)
    if steps is None:
        return model, *tables
    if not isinstance(model, Estimator):
        return model, *map(steps.transform, tables)
    names = names_of(steps)
    if names is not None and not hasattr(model, "feature_names_in_"):
        model = with_names(model, names)
    return model, *(named(steps.transform(require_here(X)), steps) for X in tables)


def learn_steps(steps, X, y, fit_params, rows=None) -> tuple[Any, Any]:
    """A copy of transformers fitted to X, or to some rows, and what they make of these.

    They get those arguments of the fit that they request, with metadata routing.
    """
    steps, given = clone(steps), {"X": require_here(X), "y": y}
    if get_config()["enable_metadata_routing"]:
        wanted = get_routing_for_object(steps).consumes("fit_transform", fit_params)
        given |= {name: fit_params[name] for name in wanted}
    if rows is not None:
        given = {name: _safe_indexing(values, rows) for name, values in given.items()}
    return steps, named(steps.fit_transform(**given), steps)


def named(table, steps):
    """Table that fitted transformers have made, under their names unless it has its own."""
    names = names_of(steps)
    if names is None or hasattr(table, "columns") or isinstance(table, Design):
        return table
    return build_design(table).with_names(names)


def names_of(steps):
    """Names that fitted transformers give to columns, or None."""
    try:
        return np.array(steps.get_feature_names_out(), dtype=object)
    except (AttributeError, ValueError):  # not all transformers have names
        return None


def join_steps(steps, model):
    """Fitted pipeline of transformers and a model of what they make, under names."""
    columns = NamedColumns(steps)
    columns.transformer_ = steps
    return make_pipeline(steps if names_of(steps) is None else columns, model)


def refuse_type(estimator, name="estimator", fitted="a fitted") -> NoReturn:
    """Say what can be passed, in place of something else or of a pipeline that ends in it."""
    kind, last = (type(it).__name__ for it in (estimator, split_pipeline(estimator)[1]))
    raise TypeError(
        f"`{name}` is of type {kind}{f', which ends in {last}' * (kind != last)}; pass {fitted} "
        "estimator of this package such as CoxLassoCCD, a pipeline that ends in one, or a search "
        "for one after its fit."
    )


def _forward(name):
    """Method of a pipeline that transforms X and calls the method of its last step."""

    def method(self, X, *args, **kwargs):
        from pandas import DataFrame

        model, table = open_pipeline(self, X)
        found = getattr(model, name)(table, *args, **kwargs)
        if isinstance(found, DataFrame) and isinstance(X, DataFrame):
            found.index = X.index  # by which it is joined; transformers lose it
        return found

    method.__doc__ = f"``{name}`` of the last step, for transformed rows."
    return method


def _summary(self, *args, **kwargs):
    """``summary`` of the last step, with the names of the columns that the others make."""
    return open_pipeline(self)[0].summary(*args, **kwargs)


def _refit_model(self):
    """Pipeline with ``refit_model()`` in place of its last step."""
    name, model = self.steps[-1]
    return Pipeline([*self.steps[:-1], (name, model.refit_model())])


def _add(name, method):
    """Give pipelines a method where their last steps have it."""
    method.__name__, method.__qualname__ = name, f"Pipeline.{name}"
    if not hasattr(Pipeline, name):
        has = available_if(lambda pipeline: hasattr(pipeline.steps[-1][1], name))
        setattr(Pipeline, name, has(method))


_add("summary", _summary)
_add("refit_model", _refit_model)
for _name in FORWARDED:
    _add(_name, _forward(_name))
