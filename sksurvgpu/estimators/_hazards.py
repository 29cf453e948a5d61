"""Several hazards, each that of a Cox model of its own: how they are fitted, and what is known.

A hazard has a name, such as a kind of event or a transition, an outcome, and the rows of X at risk
of it. `fit_hazards` makes of these a fitted model for each name, and everything else reads only
such models.
"""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from .._versioned import Versioned
from .._warnings import keep_warnings, warn
from ..data.design.columns import build_design
from ..data.partitioned import require_in_memory
from .fitted import fitted_of
from .joint_baseline import JointBaseline
from .pipelines import join_steps, learn_steps, open_pipeline, refuse_type, split_pipeline
from .survival import CoxLassoCCD

__all__ = ["HazardModels", "choose", "fit_hazards"]


def choose(estimator, names, noun) -> dict:
    """An estimator for each hazard by its name, given one for all or a dictionary.

    `names` are {key: name}; a dictionary of estimators may have keys or names.
    """
    given = CoxLassoCCD() if estimator is None else estimator
    if not isinstance(given, dict):
        given = dict.fromkeys(names.values(), given)
    chosen = {names.get(key, key): one for key, one in given.items()}
    if chosen.keys() != set(names.values()) or len(given) > len(names):
        raise ValueError(
            f"`estimator` has estimators of the {noun}s {list(given)}, and `y` has "
            f"{list(names.values())}; give one to each of these."
        )
    for one in chosen.values():
        if not isinstance(split_pipeline(one)[1], CoxLassoCCD):
            refuse_type(one, fitted="an")
    return chosen


def fit_hazards(hazards, estimators, X, fit_params, noun) -> dict:
    """Fit models to hazards: {name: (rows, outcome)} and {name: estimator} -> {name: model}.

    `rows` are those of X and of `fit_params` that the outcome has, or None for all.
    """
    if all(split_pipeline(one)[0] is None for one in estimators.values()):
        X = build_design(X, may_be_computed=True)  # once for all of them
    fit_params = {name: values for name, values in fit_params.items() if values is not None}
    fitted, last = {}, None
    table, given = X, fit_params
    for name, (rows, outcome) in hazards.items():
        if rows is not None and rows is not last:  # transitions out of a state have the same
            table, last = _safe_indexing(X, rows), rows
            given = {key: _safe_indexing(values, rows) for key, values in fit_params.items()}
        with keep_warnings() as kept:
            fitted[name] = _fit(estimators[name], table, outcome, given, f"{noun} {name!r}")
        for found in kept:
            warn(f"{noun.capitalize()} {name!r}: {found}", type(found))
    return fitted


def _fit(estimator, X, y, fit_params, of):
    """Fit a copy of an estimator, of which the last step of a pipeline gets all arguments."""
    steps, model = split_pipeline(estimator)
    try:
        if steps is None:
            return clone(model).fit(X, y, **fit_params)
        steps, table = learn_steps(steps, X, y, fit_params)
        return join_steps(steps, clone(model).fit(table, y, **fit_params))
    except Exception as error:
        error.add_note(f"This is about the model of {of}.")
        raise


class HazardModels(Versioned, BaseEstimator):
    """Fitted models by name, ``estimators_``, and what follows from all of them."""

    _levels = ("event",)  # of names, in tables

    def summary(self):
        """Coefficients of all models.

        Returns
        -------
        table : pandas.DataFrame
            Lines by hazard, as `estimators_` names it, and column.
        """
        from pandas import concat

        check_is_fitted(self)
        tables = {name: model.summary() for name, model in self.estimators_.items()}
        return concat(tables, names=self._levels)

    @property
    def unique_times_(self):
        """Distinct times of the rows of the fit, where curves are evaluated."""
        return self._join().unique_times.copy()

    @property
    def n_features_in_(self):
        """Columns of X."""
        return self._first().n_features_in_

    @property
    def feature_names_in_(self):
        """Names of the columns of X, where all are strings."""
        return self._first().feature_names_in_

    def _names(self):
        check_is_fitted(self)
        return list(self.estimators_)

    def _first(self):
        return self.estimators_[self._names()[0]]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.target_tags.required = True
        return tags

    def _join(self):
        """Baseline of all hazards."""
        check_is_fitted(self)
        models = (split_pipeline(model)[1] for model in self.estimators_.values())
        return JointBaseline.of([fitted_of(model).baseline for model in models])

    def _open(self, X, strata, start):
        """Baseline of all hazards; predictors, strata and starts of rows."""
        baseline = self._join()
        require_in_memory(X)
        opened = (open_pipeline(model, X) for model in self.estimators_.values())
        predictors = [model._predictors(table) for model, table in opened]
        codes = baseline.strata_of(strata, len(predictors[0]))
        return baseline, np.hstack(predictors), codes, baseline.timeline.check_start(start, codes)
