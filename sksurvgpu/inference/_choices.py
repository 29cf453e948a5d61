"""Replicates of a bootstrap that choose their penalties by cross-validation, one after the other.

A replicate weights rows, so that all that is drawn of a row is in one fold.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from ..estimators._columns import refuse
from ..selection.progress import Progress

__all__ = ["fit_choosing"]


def fit_choosing(model, prepared, replicates, totals, journal, *, X, y):
    """Solution of all rows at their choice; of replicates what they chose, and their fits.

    A replicate of which no split can be fitted is NaN.
    """
    if prepared.is_far:
        refuse(
            "the choice of a penalty in every replicate takes a cross-validation each",
            "pass `refit_model()` of a fitted estimator, whose replicates share its penalty",
        )
    quiet = replace(prepared, options=replace(prepared.options, verbose=0))
    progress, steps = Progress(model), np.flatnonzero(totals)
    choice = model._choose(X, y, quiet, progress, None)
    model.alpha_, full = choice.point.alpha, choice.refit()

    def fit(number):
        weight = replicates.weight(int(number))
        drawn = replace(quiet, batch=replace(quiet.batch, weight=weight[:, None]))
        try:
            choice = model._choose(X, y, drawn, progress, None)
        except ValueError:  # no event in a split, or no score
            nothing = np.full(len(full.coef), np.nan)
            return {"coef": nothing, "converged": np.nan, "alpha": np.nan}
        solution = choice.refit()
        chosen = choice.point.alpha
        return {"coef": solution.coef, "converged": solution.converged, "alpha": chosen}

    parts = [journal.keep(f"replicate-{k}", partial(fit, k)) for k in steps]
    progress.end()
    return full, {name: np.stack([p[name] for p in parts], axis=-1) for name in parts[0]}
