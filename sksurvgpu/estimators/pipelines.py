"""Pipelines in place of estimators: their transformers, their final model, and what both can do.

What describes a fit transforms rows by the steps that were fitted with the model; what fits the
model to X anew fits steps that are not fitted; what draws rows has `inference._replicates`.
"""

from typing import Any, NoReturn

import numpy as np
from pandas import DataFrame
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline as PlainPipeline
from sklearn.pipeline import make_pipeline as make_plain_pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.metaestimators import available_if

from .._versioned import Versioned
from .._warnings import warn
from ..data.design.columns import Design, build_design
from ..data.design.named import NamedColumns
from ..data.partitioned import require_in_memory
from ._estimator import Estimator
from .fitted import with_names


def split_pipeline(estimator) -> tuple[Any, Any]:
    """Transformers of a pipeline as one, or None without any, and the final model.

    A search that was fitted stands for its best estimator.
    """
    if hasattr(estimator, "best_estimator_"):
        return split_pipeline(estimator.best_estimator_)
    if not isinstance(estimator, PlainPipeline):
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
    return model, *(named(steps.transform(require_in_memory(X)), steps) for X in tables)


def learn_steps(steps, X, y, fit_params, rows=None) -> tuple[Any, Any]:
    """A copy of transformers fitted to X, or to some rows, and what they make of these.

    They get those arguments of the fit that they request, with metadata routing.
    """
    steps, given = clone(steps), {"X": require_in_memory(X), "y": y}
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
    return build_design(table, may_be_computed=True).with_names(names)


def names_of(steps):
    """Names that fitted transformers give to columns, or None."""
    try:
        return np.array(steps.get_feature_names_out(), dtype=object)
    except (AttributeError, ValueError):  # not all transformers have names
        return None


def join_steps(steps, model):
    """Fitted pipeline of transformers and a model of what they make, under names."""
    columns = NamedColumns(steps).set_output(transform="default")
    columns.transformer_ = steps
    return make_pipeline(steps if names_of(steps) is None else columns, model)


def refuse_type(estimator, name="estimator", fitted="a fitted") -> NoReturn:
    """Say what can be passed, in place of something else or of a pipeline that ends in it."""
    kind, last = (type(it).__name__ for it in (estimator, split_pipeline(estimator)[1]))
    raise TypeError(
        f"`{name}` is of type {kind}{f', which ends in {last}' * (kind != last)}; pass {fitted} "
        "estimator of this package such as CoxLassoCCD, a pipeline that ends in one, or a search "
        f"for one after its fit{_instead(last)}."
    )


def _instead(last):
    """End of an error about estimators that are made of others."""
    several = (
        "; of several hazards `joint_`, with the rows of ``stack``, or of a fit that shares "
        "nothing one of `estimators_`, with its own outcome"
    )
    return {
        "CauseSpecificCox": several,
        "MultiStateCox": several,
        "RandomIntercepts": "; random intercepts have ``wald`` as a method",
    }.get(last, "")


def _forward(name):
    """Method of a pipeline that transforms X and calls the method of its last step."""

    def method(self, X, *args, **kwargs):
        model, table = open_pipeline(self, X)
        found = getattr(model, name)(table, *args, **kwargs)
        if isinstance(found, DataFrame) and isinstance(X, DataFrame):
            found.index = X.index  # by which it is joined; transformers lose it
        return found

    method.__name__, method.__qualname__ = name, f"Pipeline.{name}"
    method.__doc__ = f"``{name}`` of the last step, for transformed rows."
    return _where_last_step_has(name)(method)


def _where_last_step_has(name):
    """Decorator of a method that pipelines have if their last step does."""
    return available_if(lambda pipeline: hasattr(pipeline.steps[-1][1], name))


class Pipeline(Versioned, PlainPipeline):
    """Pipeline of transformers and a model, with all predictions of the model.

    Like scikit-learn's ``Pipeline``, it also has, if its last step does, ``predict_risk``,
    ``predict_median``, ``predict_quantile`` and all other methods that predict,
    ``sample_predictive`` and ``log_likelihood`` of transformed rows, ``summary`` with the names
    that the transformers give to columns, and ``refit_model``. Their arguments are those of the
    last step.

    Parameters
    ----------
    steps : list of (str, object)
        Names and transformers in their order, and the model at the end.
    **options : object
        ``memory``, ``transform_input`` and ``verbose``, as scikit-learn's.

    See Also
    --------
    make_pipeline : Names steps by itself.

    Examples
    --------
    >>> from sklearn.preprocessing import MaxAbsScaler
    >>> from sksurvgpu import CoxLassoCCD, Pipeline
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> pipe = Pipeline([("scale", MaxAbsScaler()), ("cox", CoxLassoCCD(alpha=0.02))])
    >>> pipe.fit(data.X, data.y).predict_risk(data.X[:2], [10, 20]).round(2)
    time  10.0  20.0
    0     0.23  0.41
    1     0.23  0.41
    """

    log_likelihood = _forward("log_likelihood")
    predict_cumulative_hazard_function = _forward("predict_cumulative_hazard_function")
    predict_cumulative_incidence_function = _forward("predict_cumulative_incidence_function")
    predict_expected_time = _forward("predict_expected_time")
    predict_interval = _forward("predict_interval")
    predict_median = _forward("predict_median")
    predict_quantile = _forward("predict_quantile")
    predict_risk = _forward("predict_risk")
    predict_state_probabilities = _forward("predict_state_probabilities")
    predict_survival_function = _forward("predict_survival_function")
    sample_predictive = _forward("sample_predictive")

    @_where_last_step_has("score")
    def score(self, X, y=None, sample_weight=None, **params):
        """``score`` of the last step, for transformed rows, with arguments such as `exposure`."""
        if not params or get_config()["enable_metadata_routing"]:
            return super().score(X, y, sample_weight, **params)
        # without routing scikit-learn's pipelines leave them out, and say nothing
        model, table = open_pipeline(self, X)
        if sample_weight is not None:
            params["sample_weight"] = sample_weight
        return model.score(table, y, **params)

    @_where_last_step_has("summary")
    def summary(self, *args, **kwargs):
        """``summary`` of the last step, with the names of the columns that the others make."""
        return open_pipeline(self)[0].summary(*args, **kwargs)

    @_where_last_step_has("refit_model")
    def refit_model(self):
        """Pipeline with ``refit_model()`` in place of its last step."""
        name, model = self.steps[-1]
        return Pipeline([*self.steps[:-1], (name, model.refit_model())])


def make_pipeline(*steps, **options) -> Pipeline:
    """Make a `Pipeline` of transformers and a model, with steps named by their types.

    Parameters
    ----------
    *steps : object
        Transformers in their order, and the model at the end.
    **options : object
        ``memory``, ``transform_input`` and ``verbose``, as scikit-learn's.

    Returns
    -------
    pipeline : Pipeline
        With all that the model predicts.

    Examples
    --------
    >>> from sklearn.preprocessing import MaxAbsScaler
    >>> from sksurvgpu import CoxLassoCCD, make_pipeline
    >>> pipe = make_pipeline(MaxAbsScaler(), CoxLassoCCD(alpha=0.02))
    >>> list(pipe.named_steps)
    ['maxabsscaler', 'coxlassoccd']
    """
    return Pipeline(make_plain_pipeline(*steps).steps, **options)


OF_PLAIN_PIPELINES = (
    "log_likelihood",
    "predict_cumulative_incidence_function",
    "predict_median",
    "predict_quantile",
    "predict_risk",
    "refit_model",
    "summary",
)


def keep_methods_of_plain_pipelines() -> None:
    """Give scikit-learn's ``Pipeline`` methods that it had from this package, until version 0.4."""

    def deprecated(name):
        def method(self, *args, **kwargs):
            warn(
                f"`{name}` of scikit-learn's Pipeline goes with version 0.4; make pipelines with "
                "sksurvgpu.make_pipeline, or sksurvgpu.Pipeline(pipe.steps) of a fitted one.",
                FutureWarning,
            )
            return getattr(Pipeline(self.steps), name)(*args, **kwargs)

        method.__name__, method.__qualname__ = name, f"Pipeline.{name}"
        method.__doc__ = getattr(Pipeline, name).__doc__
        return _where_last_step_has(name)(method)

    for name in OF_PLAIN_PIPELINES:
        if not hasattr(PlainPipeline, name):
            setattr(PlainPipeline, name, deprecated(name))
