"""Several hazards, each that of a Cox model of its own: how they are fitted, and what is known.

A hazard has a name, such as a kind of event or a transition, an outcome, and the rows of X at risk
of it. `fit_hazards` makes of these a fitted model for each name, and everything else reads only
such models.
"""

from typing import Any, NamedTuple

import numpy as np
from pandas import concat
from sklearn.base import BaseEstimator, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from .._versioned import Versioned
from .._warnings import keep_warnings, warn
from ..data.design.columns import build_design
from ..data.partitioned import check_in_memory, require_in_memory
from ..data.vectors import check_length, check_order
from ._columns import check_columns
from ._docs import documented
from .fitted import fitted_of
from .joint_baseline import JointBaseline
from .pipelines import join_steps, learn_steps, open_pipeline, refuse_type, split_pipeline
from .stacking import Sharing, fit_together, stack_new, stack_rows
from .survival import CoxLassoCCD


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


@documented
class HazardModels(Versioned, BaseEstimator):
    """Fitted models by name, ``estimators_``, and what follows from all of them."""

    _levels = ("event",)  # of names, in tables

    def _learn(self, hazards, names, X, y, fit_params, noun):
        """Fit models to hazards, one by one or, where they share something, together."""
        estimators = choose(self.estimator, names, noun)
        given = {name: values for name, values in fit_params.items() if values is not None}
        check_in_memory(X, **given)
        sharing = self._sharing()
        if not sharing:
            self.estimators_ = fit_hazards(hazards, estimators, X, given, noun)
            for name in ("joint_", "_joined"):  # of a fit before
                vars(self).pop(name, None)
            return
        if isinstance(self.estimator, dict):
            raise ValueError(
                "`estimator` is a dictionary, and `shared`, `between` and `fused` are of one "
                "estimator for all: pass one."
            )
        first = next(iter(estimators.values()))
        found = fit_together(first, hazards, X, y, given, sharing)
        self.joint_, self.estimators_, self._joined = found

    def _sharing(self):
        return Sharing(self.shared, self.between, self.fused)

    def stack(self, X, y, sample_weight=None, strata=None, offset=None):
        """Rows of all hazards, one behind the other, as `joint_` was fitted to them.

        Parameters
        ----------
        <<X_here>>
        y : structured ndarray of shape (n_samples,)
            Outcome, as ``fit`` takes it.
        <<sample_weight, strata, offset>>

        Returns
        -------
        X : Design
            Columns of coefficients that hazards share, then those of each.
        y : structured ndarray
            Outcome, with the hazard as ``stratum``, and as ``subject`` the row that it was, unless
            there are subjects.
        fit_params : dict
            Weights and offsets of these rows, where there are some.
        """
        check_is_fitted(self, "joint_", msg="There is no `joint_`; fit with `shared=[]` at least.")
        given = {"sample_weight": sample_weight, "strata": strata, "offset": offset}
        given = {name: values for name, values in given.items() if values is not None}
        check_in_memory(X, **given)
        model, table = open_pipeline(self._first(), X)
        hazards = self._hazards(y, strata)
        check_length(y, "y", check_columns(model, table).n_rows)
        return stack_rows(hazards, table, self._sharing(), given)[1:]

    def summary(self):
        """Coefficients of all models.

        Returns
        -------
        table : pandas.DataFrame
            Lines by hazard, as `estimators_` names it, and column.
        """
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
        check_order(X=require_in_memory(X), strata=strata, start=start)
        opened = (open_pipeline(model, X) for model in self.estimators_.values())
        predictors = [model._predictors(table) for model, table in opened]
        codes = baseline.strata_of(strata, len(predictors[0]))
        return baseline, np.hstack(predictors), codes, baseline.timeline.check_start(start, codes)


class OpenHazards(NamedTuple):
    """Fitted models of hazards, with the states that these go between."""

    estimator: Any
    outcomes: dict  # by name, (rows, outcome) of an outcome of the fit
    ends: list[tuple[int, int]]  # numbers of the states that hazards go from and to
    state: int  # in which rows are at the start
    target: int  # that is asked for
    places: Any  # in the fit to all hazards, where coefficients are shared

    @property
    def models(self) -> dict:
        return self.estimator.estimators_

    @property
    def baseline(self) -> JointBaseline:
        return self.estimator._join()

    def new_rows(self, X, strata) -> tuple:
        """Columns and strata of new rows, once for each hazard, for the fit to all."""
        _, table = open_pipeline(next(iter(self.models.values())), X)
        new = stack_new(self.models, table, self.estimator._sharing())
        return new, self.places.strata(strata, new.n_rows // len(self.models))

    def probability(self, X, times, of, **given):
        """Predicted probability of a state, (n_rows, n_times)."""
        return self.estimator._probability(X, times, of, **given)


def open_hazards(estimator, y, strata, state, of) -> OpenHazards:
    """Read fitted models of hazards for whoever asks for the probability of a state."""
    if not isinstance(estimator, HazardModels):
        refuse_type(estimator)
    check_is_fitted(estimator)
    ends, outcomes = estimator._ends(state, of), estimator._hazards(y, strata)
    return OpenHazards(estimator, outcomes, *ends, getattr(estimator, "_joined", None))
