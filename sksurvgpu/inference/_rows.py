"""A fitted estimator together with the rows of its fit, and its columns a dense block at a time.

What describes a fit (standard errors, residuals, tests) needs the likelihood's state at the
coefficients. It is recomputed from the data that the caller passes, and the log-likelihood shows
whether these are the data of the fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..backends.cpu import products
from ..backends.cpu.session import Session
from ..backends.cpu.threads import Threads
from ..estimators._base import MOST_NAMES, PenalizedModel

__all__ = ["FittedRows", "check_estimator", "open_rows", "require_absent", "require_unpenalized"]

SAME_FIT = 1e-8  # relative difference of two evaluations of one log-likelihood
MOST_NUMBERS = 2**25  # in a dense block of columns: 256 MiB


@dataclass(frozen=True, eq=False)
class FittedRows:
    """Rows of a fit in the order of their plan, and the likelihood at the coefficients.

    Rows of a model whose coefficients change over time have a copy in every piece of the time axis
    that they reach; the copies are rows of their own here.
    """

    estimator: Any
    outcome: Any  # checked, in the caller's order
    problem: Any
    session: Session
    given_weight: np.ndarray | None  # per row of the caller
    batch: Any = None  # the fit's, without its penalty's strength
    route: Any = None  # by which it was carried out

    @property
    def plan(self):
        return self.problem.plan

    @property
    def n_coef(self) -> int:
        return self.problem.n_columns

    @cached_property
    def weight(self) -> np.ndarray:
        """Case weight of every row."""
        return self.session.pattern.weighted.weights()

    def blocks(
        self, n_numbers: int, widest: int | None = None, n_columns: int | None = None
    ) -> list[np.ndarray]:
        """Columns in runs that are small enough to be dense, with so many numbers a column."""
        n_columns = self.n_coef if n_columns is None else n_columns
        most = n_columns if widest is None else min(widest, n_columns)
        width = int(np.clip(MOST_NUMBERS // n_numbers, 1, max(most, 1)))
        return [np.arange(low, min(low + width, n_columns)) for low in range(0, n_columns, width)]

    def block(self, columns) -> np.ndarray:
        """Dense columns, (n_rows, len(columns)), rows contiguous."""
        one, by_column = np.ones(1), np.zeros((len(columns), self.plan.n_rows))
        X = self.session.columns
        for a, column in enumerate(columns):
            products.add_product(X, np.array([column]), one, 0, X.n_base, by_column[a])
        return np.ascontiguousarray(by_column.T)

    def per_row(self, per_copy) -> np.ndarray:
        """Sum the copies of every row, and return to the caller's order."""
        plan, out = self.plan, np.zeros((self.plan.n_base, *per_copy.shape[1:]))
        summed = per_copy[: plan.n_base].copy()
        for first, shift in zip(plan.first[1:], plan.shift[1:], strict=True):
            summed[first:] += per_copy[first + shift : plan.n_base + shift]
        out[plan.order] = summed
        return out


def check_estimator(estimator, name="estimator") -> None:
    """Check that an estimator is one of ours, and fitted."""
    if not isinstance(estimator, PenalizedModel):
        raise TypeError(
            f"`{name}` is of type {type(estimator).__name__}; pass a fitted estimator of this "
            "package such as CoxLassoCCD, without a pipeline around it."
        )
    check_is_fitted(estimator)


def open_rows(estimator, X, y, fit_params) -> FittedRows:
    """Read the data of a fit again, and check that they are."""
    check_estimator(estimator)
    known = [name for name in signature(estimator.fit).parameters if name not in ("X", "y")]
    for name in fit_params:
        if name not in known:
            raise TypeError(
                f"`{name}` is no argument of {type(estimator).__name__}.fit, which takes "
                f"{', '.join(known)}; pass what was given to the fit."
            )
    given = dict(fit_params)
    weight, offset = given.pop("sample_weight", None), given.pop("offset", None)
    design = estimator._read_features(X)
    outcome, problem, batch, _ = estimator._assemble(design, y, weight, offset, given)
    weight, offset = (None if v is None else v[:, 0] for v in (batch.weight, batch.offset))
    session = Session(problem, weight, offset, Threads(1))
    _check_same(estimator, problem, session)
    route = estimator._route(estimator._read_by_column(design, problem.source))
    return FittedRows(estimator, outcome, problem, session, weight, batch, route)


def _check_same(estimator, problem, session) -> None:
    expected, found = estimator.log_likelihood_, np.nan
    if problem.n_columns == len(estimator.coef_):
        found = session.start(estimator.coef_)
    if not abs(found - expected) <= SAME_FIT * max(abs(expected), 1.0):
        raise ValueError(
            f"`X` and `y` are not the rows of the fit: the log-likelihood at `coef_` is "
            f"{found:.10g} on them, and was {expected:.10g}; pass the data of the fit, with the "
            "same sample_weight, strata, offset and the like."
        )


def require_absent(estimator, what: str, names=("bounds", "penalty", "relax")) -> None:
    """Refuse a model with parameters that would have no part in what is asked for."""
    for name in names:
        if getattr(estimator, name) is not None:
            raise ValueError(
                f"`estimator` has `{name}`, which {what} does not know; use "
                f"set_params({name}=None)."
            )


def require_unpenalized(estimator, what: str, instead: str, name="estimator") -> None:
    """Refuse fits with a penalty, whose coefficients are biased towards zero."""
    require_absent(estimator, what)
    penalized = estimator._penalized()
    if len(penalized):
        names = np.array(estimator._coef_names(), dtype=object)
        listed = names[penalized[:MOST_NAMES]]
        more = f" and {len(penalized) - MOST_NAMES:,} more" if len(penalized) > MOST_NAMES else ""
        raise ValueError(
            f"`{name}` was fitted with alpha={estimator._penalty:g}, which penalizes "
            f"{', '.join(f'`{column}`' for column in listed)}{more}; {what} is for fits without a "
            f"penalty (alpha=0). {instead}"
        )
