"""Cross-validated choice of the penalty, once for all models.

All splits are fits of one batch: they share X, the row plan and the threads, and differ in weights.
The mixin replaces the body of ``fit`` of a model. Its classes take the model's parameters, without
`alpha` and `warm_start`, and those below.
"""

from __future__ import annotations

import copy
import os
from contextlib import closing
from dataclasses import replace
from functools import cache, partial
from inspect import Parameter, Signature, signature
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

from .._journal import Journal, check_folder, describe_call
from ..estimators._base import PenalizedModel
from ..estimators._columns import refuse
from ..estimators._relaxed import require_refit
from ..penalties.variances import alpha_of_variance, variance_of_alpha
from ..solver.null import Null
from ._partitioned import deal
from .folds import split_rows
from .grid import alpha_grid, check_alphas, find_alpha_max, require_strength
from .progress import CallbackSupport, Progress, with_callbacks
from .relax import check_shares, score_shares
from .scores import SCORINGS, sizes_of
from .search import LIMITS, Scored, best_of, choose, search_grid, search_variance

__all__ = ["NOT_OF_MODEL", "CrossValidated"]

FEWEST_BORROWERS = 5  # splits that make up for one more fit
QUICK = 15  # iterations of a fit that a loan serves
WIDE_STEP = 0.6  # from one penalty to the next: where loans and paths cost the same
CHUNK_BYTES = 2**28  # of the coefficients that fits return before they are scored
_OWN: dict[str, tuple[Any, list]] = {  # parameter -> default, constraints
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
}
NOT_OF_MODEL = ("alpha", "relax", "warm_start")


class CrossValidated(CallbackSupport):
    """Choose `alpha` by cross-validation, then fit all rows with it."""

    if TYPE_CHECKING:  # made below, for each class

        def __init__(self, **params: Any) -> None: ...

    warm_start = False
    _loglik = "held_out"  # the score that "loglik" means

    def __init_subclass__(cls, **kwargs):
        """Give the class a constructor: the parameters above, then those of its model."""
        super().__init_subclass__(**kwargs)
        if CrossValidated not in cls.__bases__:  # but a class of such a class
            return
        model = next(base for base in cls.__bases__ if base is not CrossValidated)
        kept = [p for p in signature(model).parameters.values() if p.name not in NOT_OF_MODEL]
        own = [Parameter(n, Parameter.KEYWORD_ONLY, default=d) for n, (d, _) in _OWN.items()]

        def __init__(self, **params):  # noqa: N807
            bound = Signature([*own, *kept]).bind(**params)
            bound.apply_defaults()
            self._keep(bound.arguments)

        __init__.__signature__ = Signature(  # what scikit-learn and editors read
            [Parameter("self", Parameter.POSITIONAL_ONLY), *own, *kept]
        )
        cls.__init__ = __init__
        constraints = {name: rules for name, (_, rules) in _OWN.items()}
        of_model = model._parameter_constraints.items()
        constraints |= {name: rules for name, rules in of_model if name not in NOT_OF_MODEL}
        cls._parameter_constraints = constraints

    @classmethod
    def _reader(cls):
        models = (base for base in cls.__mro__ if issubclass(base, PenalizedModel))
        return next(model for model in models if not issubclass(model, CrossValidated))

    @property
    def alpha(self) -> float:
        """Chosen penalty."""
        return self.alpha_

    def _gamma(self):
        """Nothing is relaxed before its share is chosen."""
        return None

    def _count_fits(self):
        """How many fits will be asked for; splitters do not know before they see rows."""
        n_alphas = self.n_alphas if self.alphas is None else np.size(self.alphas)
        return n_alphas * (self.cv if isinstance(self.cv, Integral) else 1) * self.n_repeats

    @with_callbacks
    def _fit(self, X, y, sample_weight, offset, **given):
        if self.scoring == "concordance" and not hasattr(self, "_concordance_of"):
            raise ValueError(
                f'scoring="concordance" does not exist for {type(self).__name__}, whose rows have '
                'no order in time or between classes; use scoring="loglik".'
            )
        require_strength(self, type(self).__name__)
        check_folder(self.folder)
        n_fits = self._count_fits()
        with closing(self._prepare(X, y, sample_weight, offset, n_fits, **given)) as prepared:
            return self._fit_prepared(X, y, prepared)

    def _fit_prepared(self, X, y, prepared):
        model = copy.copy(self)
        model._adopt_data(prepared)
        splits, progress = self._split(X, y, prepared), Progress(self)
        of = describe_call("cross-validation", self, **prepared.describe(), cv=splits.dealing)
        with Journal(self.folder, of) as journal:
            evaluate = Evaluation(model, prepared, splits, progress, journal)
            points = self._search(prepared, evaluate)
        position = choose(points, self.rule)
        alpha, gamma = points[position].alpha, points[position].gamma
        prepared = replace(prepared, gamma=gamma)
        with progress.batch("refit", 1) as done:
            [solution] = prepared.solve([alpha], on_fit=done)[0]
        model.alpha_ = alpha
        require_refit(model, prepared, solution)
        self.alpha_, self.relax_ = alpha, gamma
        self._adopt(prepared, solution)
        self.best_index_, self.best_score_ = position, points[position].mean
        self.n_splits_ = len(splits)
        self.cv_results_ = _table(points, prepared.total_weight, self._prior_ratio())
        progress.end()
        self._warn(evaluate.doubts() + self._doubts(prepared, solution), stacklevel=7)
        return self

    def _split(self, X, y, prepared):
        if prepared.is_far:
            if self.scoring == "concordance":
                refuse("concordance needs an order of all rows", "take another `scoring`")
            return deal(self, prepared)
        splits = split_rows(
            self.cv, X, y, prepared, n_repeats=self.n_repeats, random_state=self.random_state
        )
        for b in range(len(splits)):
            try:
                self._check_weight(splits.train[:, b], prepared.outcome)
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

    def _prior_ratio(self):
        return self._spec().prior_ratio(self.l1_ratio)

    def _search_variance(self, prepared, evaluate):
        if self.alphas is not None:
            raise ValueError('`alphas` were given, which search="auto" finds itself.')
        ratio = self._prior_ratio()
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


class Evaluation:
    """Fits and scores of all splits; every call starts from the coefficients of the one before.

    Where penalties are far apart, all rows are fitted first at each, and lend their quadratic model
    to the splits: these then need a few products with X, and no model of their own.
    """

    def __init__(self, model, prepared, splits, progress, journal):
        self._progress, self._journal = progress, journal
        scoring = model._loglik if model.scoring == "loglik" else model.scoring
        self._score, self._model, self._splits = SCORINGS[scoring], model, splits
        self._is_sum, self._gammas = scoring != "concordance", check_shares(model.relax)
        verbose = max(int(model.verbose) - 1, 0)
        options = replace(
            prepared.options, verbose=verbose, baseline=prepared.problem.has_intercept
        )
        self._prepared = replace(prepared, options=options)
        self._sizes, self._totals = sizes_of(prepared, splits), splits.totals()
        self._n_repeats = splits.n_repeats()
        self._starts = {}  # fields of the next batch
        self._lender, self._lends = None, len(splits) >= FEWEST_BORROWERS
        self._n_fits = self._n_failed = 0
        self._n_calls = 0  # by which the journal knows parts of the work

    def __call__(self, alphas, *, on_sum=False):
        """Points of some penalties; `on_sum`: the sum, not the mean, has the same penalty.

        Penalties are on the mean scale of all rows.
        """
        alphas, points = np.asarray(alphas, float), []
        if len(alphas) > 1 and alphas[1] > WIDE_STEP * alphas[0]:  # a path is the better guide
            return self._evaluate(alphas, on_sum, None)
        while len(points) < len(alphas) * len(self._gammas):
            left = alphas[len(points) // len(self._gammas) :]
            loan = self._borrow(float(left[0])) if self._lends else None
            points += self._evaluate(left[:1] if self._lends else left, on_sum, loan)
        return points

    def _borrow(self, alpha):
        """What gives a loan of the fit of all rows; None where there is none.

        Where the first fit that selects anything lends no model, later ones are not asked for it.
        """
        last, start = self._lender, {}
        if last is not None:
            start = {"coef": last["coef"][:, None], "null": (Null.unpack(last["null"]),)}
        lend = cache(partial(self._prepared.solve_and_lend, alpha, len(self._splits), **start))

        def fit():
            solution, loan = lend()
            return {
                "coef": solution.coef,
                "null": solution.null.pack(),
                "lends": loan is not None,
            }

        self._lender = self._journal.keep(f"{self._n_calls:04d}-all-rows", fit)
        if not self._lender["lends"] and self._lender["coef"].any():
            self._lends = False
        if last is not None and self._starts:  # the splits will move about as all rows did
            self._starts["coef"] += (self._lender["coef"] - last["coef"])[:, None]
        return (lambda: lend()[1]) if self._lender["lends"] else None

    def _evaluate(self, alphas, on_sum, lend):
        n_splits, prepared = len(self._splits), self._prepared
        most = int(
            np.clip(CHUNK_BYTES // (8 * prepared.problem.n_columns * len(alphas)), 1, n_splits)
        )
        totals = np.full(n_splits, prepared.total_weight) if on_sum else self._totals
        name = f"alpha {alphas[0]:.3g}" + (f" to {alphas[-1]:.3g}" if len(alphas) > 1 else "")
        with self._progress.batch(name, n_splits) as done:
            parts = [
                self._journal.keep(
                    f"{self._n_calls:04d}-splits-{part.start}",
                    partial(self._fit, part, alphas, totals[part], lend, done),
                )
                for part in self._journal.slices(n_splits, most)
            ]
        self._n_calls += 1
        found = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
        self._starts = {"coef": found["coef"], "null": found["null"]}
        self._lends &= lend is None or found["n_iter"].mean() <= QUICK
        self._n_fits += found["n_iter"].size
        self._n_failed += int(found["n_failed"].sum())
        scores = found["score"] if self._is_sum else found["score"] * self._sizes
        n_nonzero = found["n_nonzero"].sum(axis=1) / n_splits
        places = [(a, gamma) for a in range(len(alphas)) for gamma in self._gammas]
        return [
            replace(self._point(float(alphas[a]), score, float(n_nonzero[a])), gamma=gamma)
            for (a, gamma), score in zip(places, scores, strict=True)
        ]

    def _fit(self, part, alphas, totals, lend, done):
        """What is kept of the fits of some splits, the last axis of each array.

        Numbers of coefficients are (n_alphas, n_splits), scores have a row for each share of every
        penalty; the coefficients, those at the last penalty.
        """
        splits = self._splits.part(part)
        changes = {"weight": splits.train, **self._start_of(part, None if lend is None else lend())}
        penalties = np.repeat(alphas[:, None], len(splits), axis=1)
        prepared, gammas = self._prepared, self._gammas
        solutions = prepared.solve(penalties, total=totals, on_fit=done, **changes)
        return {
            "score": score_shares(self._score, self._model, prepared, splits, solutions, gammas),
            "n_nonzero": np.array([[np.count_nonzero(s.coef) for s in fit] for fit in solutions]).T,
            "n_iter": np.array([[s.n_iter for s in fit] for fit in solutions]).T,
            "n_failed": np.array([sum(not s.converged for s in fit) for fit in solutions]),
            "coef": np.stack([fit[-1].coef for fit in solutions], axis=1),
            "null": np.stack([fit[-1].null.pack() for fit in solutions], axis=1),
        }

    def _start_of(self, part, loan):
        """Fields of the batch that begin with what is known."""
        starts = {name: values[..., part] for name, values in self._starts.items()}
        if "null" in starts:
            starts["null"] = tuple(map(Null.unpack, starts["null"].T))
        if loan is None:
            return starts
        if not starts:
            n_fits = part.stop - part.start
            starts["coef"] = np.repeat(self._lender["coef"][:, None], n_fits, axis=1)
        share = self._totals[part] / self._prepared.total_weight
        return starts | {"loan": loan, "null": (Null.unpack(self._lender["null"]),), "share": share}

    def _point(self, alpha, sums, n_nonzero):
        """Mean score an event, and its standard error as that of a ratio of sums over the folds."""
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = np.where(self._sizes > 0, sums / self._sizes, np.nan)
        known = ~np.isnan(sums)
        size, n_folds = self._sizes[known].sum(), known.sum() / self._n_repeats
        if not size > 0:
            return Scored(alpha, scores, np.nan, np.nan, n_nonzero)
        mean = float(sums[known].sum() / size)
        if not np.isfinite(mean):
            return Scored(alpha, scores, mean, np.nan, n_nonzero)
        square = np.sum((sums[known] - mean * self._sizes[known]) ** 2) / self._n_repeats
        correction = n_folds / max(n_folds - 1.0, 1.0)
        error = np.sqrt(correction * square) * self._n_repeats / size
        return Scored(alpha, scores, mean, float(error), n_nonzero)

    def doubts(self):
        """What to warn of."""
        if not self._n_failed:
            return []
        return [
            f"{self._n_failed:,} of the {self._n_fits:,} fits of the cross-validation did not "
            f"converge; raise max_iter={self._model.max_iter:,}, or leave out the smallest alphas."
        ]


def _table(points, total, l1_ratio):
    from pandas import DataFrame

    def of(name):
        return [getattr(point, name) for point in points]

    alpha = np.array(of("alpha"))
    variance = np.full(len(alpha), np.nan)  # where priors differ between columns
    if np.ndim(l1_ratio) == 0 and not isinstance(l1_ratio, dict):
        share, prior = _prior_of(l1_ratio)
        with np.errstate(over="ignore"):
            variance[alpha > 0] = variance_of_alpha(alpha[alpha > 0] * share, total, prior)
            variance[alpha == 0] = np.inf
    shares = [] if points[0].gamma is None else [("gamma", of("gamma"))]
    columns = {
        "alpha": alpha,
        **dict(shares),
        "variance": variance,
        "mean_score": of("mean"),
        "standard_error": of("error"),
        "n_nonzero": of("n_nonzero"),
    }
    scores = np.array(of("scores")).T
    return DataFrame(columns | {f"split{b}_score": score for b, score in enumerate(scores)})
