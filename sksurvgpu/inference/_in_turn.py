"""Replicates of a bootstrap that are fitted one after the other.

They choose their penalties by cross-validation, or are those of a pipeline, with columns of their
own. A replicate weights rows, so that all that is drawn of a row is in one fold.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ..data.partitioned import refuse_partitions
from ..selection.cv import CrossValidated
from ..selection.progress import Progress

__all__ = ["fit_in_turn"]


def fit_in_turn(model, prepared, replicates, totals, journal, *, X, y, refits):
    """Solution of all rows; of replicates coefficients, whether they converged, what they chose.

    NaN where no split of a replicate can be fitted, and of a column that it has not where there is
    no penalty. Coefficients of columns that only replicates have are in ``more``.
    """
    if prepared.in_partitions:
        refuse_partitions(
            "the choice of a penalty in every replicate takes a cross-validation each",
            "pass `refit_model()` of a fitted estimator, whose replicates share its penalty",
        )
    quiet = prepared.with_options(verbose=0)
    progress, numbers = Progress(model), np.flatnonzero(totals).tolist()
    full, of_all = _solve(model, X, y, quiet, progress)
    n_coef = len(full.coef)

    def fit(number):
        if refits is None:
            weight = replicates.weight(number)
            own = quiet.with_batch(weight=weight[:, None])
            is_missing = np.zeros(n_coef, bool)
        else:
            _, own, is_missing = refits.prepare(replicates, number)
            fits = replace(own.fits, options=quiet.options, backend=quiet.backend)
            own = replace(own, fits=fits)
        try:
            solution, chosen = _solve(model, X, y, own, progress)
        except ValueError:  # no event in a split, or no score
            coef, converged = np.full(len(is_missing), np.nan), np.nan
            chosen = dict.fromkeys(of_all, np.nan)
        else:
            is_free = solution.lam * own.batch.factor == 0
            coef = np.where(is_missing & is_free, np.nan, solution.coef)
            converged = np.nan if np.isnan(coef).any() else solution.converged
        found = {"coef": coef[:n_coef], "more": coef[n_coef:], "converged": converged}
        return found | chosen

    with progress.batch("bootstrap", len(numbers)) as done:
        parts = {}
        for number in numbers:
            parts[number] = journal.keep(f"replicate-{number}", partial(fit, number))
            done(number)
    progress.end()
    more = {number: part.pop("more") for number, part in parts.items()}
    first, *_ = each = list(parts.values())
    found = {name: np.stack([part[name] for part in each], axis=-1) for name in first}
    return full, found | {"more": more}


def _solve(model, X, y, prepared, progress):
    """Solution, and the penalty that was chosen where the model chooses it."""
    if isinstance(model, CrossValidated):
        choice = model._choose(X, y, prepared, progress, None)
        return choice.refit(), {"alpha": choice.point.alpha}
    return prepared.solve([model.alpha])[0][0], {}
