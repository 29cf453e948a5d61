"""Fits of all splits at the penalties that a search asks for, and scores of the rows held out.

Van Houwelingen's score is what the rows held out add to the log-likelihood of the others,
``l_all(b) - l_train(b)`` at the coefficients b of the training rows: it needs no risk sets of the
few rows held out (Verweij and Van Houwelingen 1993). The own score is the log-likelihood of the
rows held out by themselves. Where rows or groups are independent, both are the same.

Either is one evaluation under other weights, all of them a batch.
"""

from contextlib import suppress
from dataclasses import replace
from functools import cache, partial

import numpy as np
from sksurv.exceptions import NoComparablePairException

from ..estimators._relaxed import evaluate
from ..estimators.models.base import model_of
from ..solver.null import Null
from .relax import check_shares, score_shares
from .search import Scored

FEWEST_BORROWERS = 5  # splits that make up for one more fit
QUICK = 15  # iterations of a fit that a loan serves
WIDE_STEP = 0.6  # from one penalty to the next: where loans and paths cost the same
CHUNK_BYTES = 2**28  # of the coefficients that fits return before they are scored


class Evaluation:
    """Fits and scores of all splits; every call starts from the coefficients of the one before.

    Where penalties are far apart, all rows are fitted first at each, and lend their quadratic model
    to the splits: these then need a few products with X, and no model of their own.
    """

    def __init__(self, model, prepared, splits, progress, journal, name=""):
        self._progress, self._journal, self._name = progress, journal, name
        scoring = model._loglik if model.scoring == "loglik" else model.scoring
        self._score, self._model, self._splits = SCORINGS[scoring], model, splits
        self._is_sum, self._gammas = scoring != "concordance", check_shares(model.relax)
        verbose = max(int(model.verbose) - 1, 0)
        has_intercept = prepared.problem.has_intercept
        self._prepared = prepared.with_options(verbose=verbose, baseline=has_intercept)
        self._sizes, self._totals = sizes_of(prepared, splits), splits.totals()
        self._n_repeats = splits.n_repeats()
        self._starts = {}  # fields of the next batch
        self._lender, self._lends = None, len(splits) >= FEWEST_BORROWERS
        self._slow = -np.inf  # largest penalty at which loans did not serve
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
            lends = self._lends and left[0] > self._slow
            loan = self._borrow(float(left[0])) if lends else None
            points += self._evaluate(left[:1] if lends else left, on_sum, loan)
        return points

    def _borrow(self, alpha):
        """Function that gives a loan of the fit of all rows; None where there is none.

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

        self._lender = self._journal.keep(f"{self._name}{self._n_calls:04d}-all-rows", fit)
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
        name = f"cross-validation, alpha {alphas[0]:.3g}" + (
            f" to {alphas[-1]:.3g}" if len(alphas) > 1 else ""
        )
        with self._progress.batch(name, n_splits) as done:
            parts = [
                self._journal.keep(
                    f"{self._name}{self._n_calls:04d}-splits-{part.start}",
                    partial(self._fit, part, alphas, totals[part], lend, done),
                )
                for part in self._journal.slices(n_splits, most)
            ]
        self._n_calls += 1
        found = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
        self._starts = {"coef": found["coef"], "null": found["null"]}
        if lend is not None and found["n_iter"].mean() > QUICK:
            self._slow = max(self._slow, float(alphas[0]))
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
        """Scores, sizes and coefficients of the fits of some splits, the last axis of each array.

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
        """Warnings: how many fits did not converge."""
        if not self._n_failed:
            return []
        return [
            f"{self._n_failed:,} of the {self._n_fits:,} fits of the cross-validation did not "
            f"converge; raise max_iter={self._model.max_iter:,}, or leave out the smallest alphas."
        ]


def van_houwelingen(model, prepared, splits, solutions):
    """Log-likelihood that the held-out rows add to that of the others."""
    train = np.array([[solution.loglik for solution in fit] for fit in solutions])
    return _evaluate(prepared, splits.both, solutions) - train


def held_out(model, prepared, splits, solutions):
    """Log-likelihood of the held-out rows by themselves."""
    return _evaluate(prepared, splits.test, solutions)


def _evaluate(prepared, weights, solutions):
    """Log-likelihood of every solution under the weights of its split, (n_splits, n_penalties)."""
    pairs = [(b, solution) for b, fit in enumerate(solutions) for solution in fit]
    logliks = np.array([found["loglik"] for found in evaluate(prepared, pairs, weights)])
    # a penalty whose predictions are beyond floating point is the worst
    return np.where(np.isfinite(logliks), logliks, -np.inf).reshape(len(solutions), -1)


def concordance(model, prepared, splits, solutions):
    """Concordance of the held-out rows; NaN where none can be compared."""
    found = np.full((len(solutions), len(solutions[0])), np.nan)
    measure = model_of(model).concordance
    n_events, terms = splits.base * prepared.outcome.n_events, prepared.setting.terms
    for b, fit in enumerate(solutions):
        rows = splits.tests[b]
        if not n_events[rows].any():
            continue
        outcome, weight = prepared.outcome.take(rows), splits.base[rows]
        for i, solution in enumerate(fit):
            predictors = terms.predictors(prepared.problem.given, solution.coef)
            with suppress(NoComparablePairException):
                found[b, i] = measure(outcome, predictors[rows], weight, terms)
    return found


def sizes_of(prepared, splits):
    """Weight of each split in the mean: its held-out events."""
    if prepared.in_partitions:
        return splits.sizes
    n_events = splits.base * prepared.outcome.n_events
    return np.array([n_events[rows].sum() for rows in splits.tests])


SCORINGS = {
    "van_houwelingen": van_houwelingen,
    "held_out": held_out,
    "concordance": concordance,
}
