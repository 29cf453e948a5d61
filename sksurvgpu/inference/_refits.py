"""Replicates of pipelines: transformers learn from the rows that were drawn, as often as they were.

To the model weights say the same. A row that was not drawn has none, and the columns of one that
was: transformers may not know its own, as where only it has some level of a factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from ..data.design.columns import build_design
from ..estimators._preparing import prepare
from ..estimators.pipelines import learn_steps, named, split_pipeline
from ..selection.grid import copy_of

__all__ = ["PipelineRefits"]


@dataclass(frozen=True, eq=False)
class PipelineRefits:
    """Transformers that replicates fit anew, the columns of all rows, and the data."""

    steps: Any
    names: np.ndarray | None
    n_columns: int
    X: Any = None
    y: Any = None
    fit_params: Any = None

    @classmethod
    def open(cls, estimator, X, y, caller, fit_params, **options) -> tuple:
        """As `copy_of`; those of a pipeline with transformers, or None; X as its model takes it."""
        copied = copy_of(estimator, caller, fit_params, **options)
        steps, _ = split_pipeline(estimator)
        if steps is None:
            return copied, None, X
        design = build_design(learn_steps(steps, X, y, fit_params)[1])
        return copied, cls(steps, design.names, design.n_columns, X, y, fit_params), design

    def prepare(self, replicates, number):
        """Fitted transformers, checked input of a fit, and its coefficients of missing columns."""
        drawn = replicates.draw(number, np.int64)
        rows = np.repeat(np.arange(len(drawn)), drawn)
        steps, table = learn_steps(self.steps, self.X, self.y, self.fit_params, rows)
        design, missing = self.align(table)
        place = np.where(drawn > 0, np.searchsorted(rows, np.arange(len(drawn))), 0)
        given = self.fit_params | {"sample_weight": replicates.given_weight(number)}
        own = prepare(replicates.model, design[place], self.y, **given)
        return steps, own, np.isin(own.problem.source, np.flatnonzero(missing))

    def align(self, table):
        """Columns of all rows, 0 where a table has not got them, then its own; which it lacks."""
        design = build_design(table)
        if self.names is None or design.names is None:
            if design.n_columns != self.n_columns:
                raise ValueError(
                    f"transformers made {design.n_columns:,} columns of a replicate, and of all "
                    f"rows {self.n_columns:,}; take some that say which (get_feature_names_out)."
                )
            return design, np.zeros(self.n_columns, bool)
        names, missing = design.names.tolist(), ~np.isin(self.names, design.names)
        if missing.any():
            zeros = build_design(csc_array((design.n_rows, np.count_nonzero(missing))))
            design = design.with_columns(zeros.with_names(self.names[missing]))
        at = {name: j for j, name in enumerate(design.names)}
        order = dict.fromkeys([*self.names, *names])
        return design.select(np.array([at[name] for name in order])), missing

    def reopen(self, replicates, number, X_new):
        """Setting and problem of a replicate, and new rows as it has them."""
        steps, own, _ = self.prepare(replicates, number)
        return own.setting, own.problem, self.align(named(steps.transform(X_new), steps))[0]
