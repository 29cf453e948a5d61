"""Cross-validated choice of the penalty, once for all models.

All splits are fits of one batch: they share X, the row plan and the threads, and differ in weights.
The mixin replaces the body of ``fit`` of a model. Its classes take the model's parameters, without
`alpha` and `warm_start`, and those below.
"""

import copy
import os
from contextlib import closing
from dataclasses import dataclass, replace
from inspect import signature
from numbers import Integral, Real
from typing import Any

import numpy as np
from pandas import DataFrame
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from .._journal import Journal, check_folder, describe_call
from .._warnings import warn
from ..data.partitioned import refuse_partitions
from ..estimators._base import PenalizedModel
from ..estimators._composition import penalty_of, read_by_column, route_of
from ..estimators._estimator import give_constructor
from ..estimators._partitioned import deal_in_partitions
from ..estimators._preparing import prepare
from ..estimators._relaxed import require_refit
from ..estimators._report import doubts_of
from ..estimators.fitted import Fitted, adopt, fitted_of
from ..estimators.models.base import Parameters, model_of
from ..penalties.variances import alpha_of_variance, variance_of_alpha
from .evaluation import SCORINGS, Evaluation
from .folds import split_rows
from .grid import alpha_grid, check_alphas, check_ratios, find_alpha_max, require_strength
from .progress import CallbackSupport, Progress, with_callbacks
from .search import LIMITS, Scored, best_of, choose, search_grid, search_variance

_OWN: Parameters = {
    "alphas": (None, ["array-like", None]),
    "n_alphas": (100, [Interval(Integral, 1, None, closed="left")]),
    "alpha_min_ratio": (None, [Interval(Real, 0, 1, closed="neither"), None]),
    "cv": (10, [Interval(Integral, 2, None, closed="left"), HasMethods("split"), "array-like"]),
    "n_repeats": (1, [Interval(Integral, 1, None, closed="left")]),
    "scoring": ("loglik", [StrOptions({"loglik", *SCORINGS})]),
    "rule": ("best", [StrOptions({"best", "1se"})]),
    "search": ("grid", [StrOptions({"grid", "auto"})]),
    "start_variance": (0.01, [Interval(Real, 0, None, closed="neither")]),
    "early_stopping": (True, ["boolean"]),
    "random_state": (0, ["random_state"]),
    "folder": (None, [str, os.PathLike, None]),
    "relax": (None, ["array-like", Interval(Real, 0, 1, closed="both"), None]),
    "l1_ratios": (None, ["array-like", None]),
}
NOT_OF_MODEL = ("alpha", "relax", "warm_start")


@dataclass(frozen=True, eq=False)
class Choice:
    """Scores, the one that was chosen, and the problem with all that was chosen but strength."""

    points: list[Scored]
    position: int
    model: Any
    prepared: Any
    doubts: list[str]

    @property
    def point(self) -> Scored:
        return self.points[self.position]

    def refit(self, on_fit=None):
        """Solution of all rows."""
        [solution] = self.prepared.solve([self.point.alpha], on_fit=on_fit)[0]
        self.model.alpha_ = self.point.alpha
        require_refit(self.model, self.prepared, solution)
        return solution


class CrossValidated(CallbackSupport):
    """Choose `alpha` by cross-validation, then fit all rows with it."""

    warm_start = False
    _loglik = "held_out"  # the score that "loglik" means

    def __init_subclass__(cls, **kwargs):
        """Give the class a constructor: the parameters above, then those of its model."""
        super().__init_subclass__(**kwargs)
        if CrossValidated not in cls.__bases__:  # but a class of such a class
            return
        model = next(base for base in cls.__bases__ if base is not CrossValidated)
        kept = {n: p for n, p in model._parameters.items() if n not in NOT_OF_MODEL}
        cls._parameters = _OWN | kept
        give_constructor(cls, cls._parameters)

    @classmethod
    def _at_one_penalty(cls):
        models = (base for base in cls.__mro__ if issubclass(base, PenalizedModel))
        return next(model for model in models if not issubclass(model, CrossValidated))

    @property
    def alpha(self) -> float:
        """Chosen penalty."""
        return self.alpha_

    def _gamma(self):
        """Nothing is relaxed before its share is chosen."""
        return None

    @with_callbacks
    def _fit(self, X, y, sample_weight, offset, **given):
        if self.scoring == "concordance" and model_of(self).concordance is None:
            raise ValueError(
                f'scoring="concordance" does not exist for {type(self).__name__}, whose rows have '
                'no order in time or between classes; use scoring="loglik".'
            )
        if isinstance(self.l1_ratio, list | tuple):  # a grid in scikit-learn, one a column here
            raise ValueError(
                f"`l1_ratio` is the list {self.l1_ratio!r}; pass it as `l1_ratios` to choose one "
                "of these shares, or as a dict or an array for a share of every column."
            )
        require_strength(self, type(self).__name__)
        check_folder(self.folder)
        n_alphas = self.n_alphas if self.alphas is None else np.size(self.alphas)
        # splitters do not know how many before they see rows
        n_fits = n_alphas * (self.cv if isinstance(self.cv, Integral) else 1) * self.n_repeats
        with closing(prepare(self, X, y, sample_weight, offset, n_fits, **given)) as prepared:
            return self._fit_prepared(X, y, prepared)

    def _fit_prepared(self, X, y, prepared):
        progress = Progress(self)
        choice = self._choose(X, y, prepared, progress, self.folder)
        with progress.batch("refit", 1) as done:
            solution = choice.refit(done)
        fitted = Fitted.of(choice.prepared, solution)
        self.alpha_, self.relax_ = choice.point.alpha, choice.point.gamma
        self.l1_ratio_ = choice.model.l1_ratio
        adopt(self, fitted)
        self.best_index_, self.best_score_ = choice.position, choice.point.mean
        self.n_splits_ = len(choice.point.scores)
        self.cv_results_ = _table(choice.points, prepared.total_weight, self)
        progress.end()
        doubts = choice.doubts + doubts_of(self, choice.prepared, solution)
        if doubts:  # the caller is behind decorators of `fit`, callbacks and two functions here
            warn(" ".join(doubts), ConvergenceWarning)
        return self

    def _choose(self, X, y, prepared, progress, folder) -> Choice:
        """Score penalties in all splits, and choose one."""
        splits, points, doubts = self._split(X, y, prepared), [], []
        ratios = [self.l1_ratio] if self.l1_ratios is None else check_ratios(self.l1_ratios)
        of = describe_call("cross-validation", self, **prepared.describe(), cv=splits.dealing)
        with Journal(folder, of) as journal:
            for k, ratio in enumerate(ratios):
                model, mixed = self._mixture(prepared, ratio)
                name = f"{k:02d}-" if k else ""
                evaluate = Evaluation(model, mixed, splits, progress, journal, name)
                found = model._search(mixed, evaluate)
                points += [replace(point, l1_ratio=model.l1_ratio) for point in found]
                doubts += evaluate.doubts()
        position = choose(points, self.rule)
        chosen = points[position]
        model, mixed = self._mixture(prepared, chosen.l1_ratio)
        return Choice(points, position, model, replace(mixed, gamma=chosen.gamma), doubts)

    def _mixture(self, prepared, ratio):
        """The model and its problem under a share of the lasso."""
        model = copy.copy(self)
        if self.l1_ratios is not None:
            model.l1_ratio, model.l1_ratios = ratio, None
            X, source = prepared.problem.given, prepared.problem.source
            scale = prepared.given.scale
            given = read_by_column(model, X.n_columns, X.names, source, lambda: scale)
            prepared = prepared.with_batch(penalty=penalty_of(model).family(given))
            prepared = replace(prepared, given=given, route=route_of(model, given), null=None)
            if prepared.batch.penalty.needs_null:
                prepared = prepared.with_null()
        return model, prepared

    def refit_model(self):
        """The model at the chosen penalty, as fitted to all rows.

        Returns
        -------
        model : object
            What the class of the model itself (`CoxLassoCCD` of a `CoxLassoCV`) would be with
            ``alpha=alpha_``, fitted: for `wald`, `profile_likelihood`, `bootstrap` and whatever
            else is about a fit at one penalty.
        """
        fitted, kind = fitted_of(self), self._at_one_penalty()
        of_choice = {"alpha": self.alpha_, "relax": self.relax_, "l1_ratio": self.l1_ratio_}
        params = self.get_params(deep=False) | of_choice
        known = signature(kind).parameters.keys() & params.keys()
        model = kind(**{name: params[name] for name in known})
        adopt(model, fitted)
        return model

    def _split(self, X, y, prepared):
        if prepared.in_partitions:
            if self.scoring == "concordance":
                refuse_partitions(
                    "concordance needs an order of all rows", "take another `scoring`"
                )
            return deal_in_partitions(self, prepared)
        splits = split_rows(
            self.cv, X, y, prepared, n_repeats=self.n_repeats, random_state=self.random_state
        )
        for b in range(len(splits)):
            try:
                model_of(self).check_weight(splits.train[:, b], prepared.outcome)
            except ValueError as error:
                raise ValueError(
                    f"split {b} of `cv` leaves nothing to fit; use fewer folds, or a splitter that "
                    f"gives every fold its share of the events. Of its rows: {error}"
                ) from error
        return splits

    def _search(self, prepared, evaluate) -> list[Scored]:
        if self.search == "auto":
            return self._search_variance(prepared, evaluate)
        if self.alphas is not None:
            return search_grid(evaluate, check_alphas(self.alphas), can_end=False)
        least, problem = find_alpha_max(prepared), prepared.problem
        alphas = alpha_grid(least, self.n_alphas, self.alpha_min_ratio, problem)
        return search_grid(evaluate, alphas, can_end=self.early_stopping)

    def _l1_ratio(self):
        return self.l1_ratio if self.l1_ratios is None else getattr(self, "l1_ratio_", 1.0)

    def _search_variance(self, prepared, evaluate):
        if self.alphas is not None:
            raise ValueError('`alphas` were given, which search="auto" finds itself.')
        ratio = penalty_of(self).prior_ratio(self.l1_ratio)
        if np.ndim(ratio) or isinstance(ratio, dict):
            raise ValueError(
                'search="auto" is over one variance, and `l1_ratio` differs between columns, whose '
                'priors have different variances; take search="grid".'
            )
        share, prior = _prior_of(ratio)
        total = prepared.total_weight
        most = np.array(LIMITS) * find_alpha_max(prepared)

        points = []

        def at(variance):
            found = evaluate([alpha_of_variance(variance, total, prior) / share], on_sum=True)
            points.extend(found)
            return best_of(found)

        limits = variance_of_alpha(most * share, total, prior)
        search_variance(at, float(self.start_variance), limits)
        return sorted(points, key=lambda point: -point.alpha)


def _prior_of(l1_ratio):
    """Share of alpha that a prior stands for, and which prior: Laplace's or a ridge's."""
    return (float(l1_ratio), "laplace") if l1_ratio > 0 else (1.0, "normal")


def _table(points, total, cv):
    def of(name):
        return [getattr(point, name) for point in points]

    columns = {"alpha": of("alpha")}
    if cv.l1_ratios is not None:
        columns["l1_ratio"] = of("l1_ratio")
    if points[0].gamma is not None:
        columns["gamma"] = of("gamma")
    columns |= {
        "variance": [_variance(point, total, penalty_of(cv)) for point in points],
        "mean_score": of("mean"),
        "standard_error": of("error"),
        "n_nonzero": of("n_nonzero"),
    }
    scores = np.array(of("scores")).T
    return DataFrame(columns | {f"split{b}_score": score for b, score in enumerate(scores)})


def _variance(point, total, penalty):
    """Variance of the prior that a penalty stands for; NaN where it differs between columns."""
    ratio = penalty.prior_ratio(point.l1_ratio)
    if np.ndim(ratio) or isinstance(ratio, dict):
        return np.nan
    if point.alpha == 0.0:
        return np.inf
    share, prior = _prior_of(ratio)
    with np.errstate(over="ignore"):
        return variance_of_alpha(point.alpha * share, total, prior)
