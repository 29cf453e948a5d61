"""A fitted estimator together with the rows of its fit.

What describes a fit (standard errors, residuals, tests) needs the likelihood's state at the
coefficients. It is recomputed from the data that the caller passes, and the log-likelihood shows
whether these are the data of the fit.
"""

from inspect import signature

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..backends.cpu.session import Session
from ..backends.cpu.threads import Threads
from ..data.options import quoted
from ..estimators._base import PenalizedModel
from ..estimators._columns import check_columns
from ..estimators._composition import penalty_of, route_of
from ..estimators._docs import documented
from ..estimators._preparing import assemble
from ..estimators.fitted import fitted_of
from ..estimators.pipelines import open_pipeline, refuse_type, split_pipeline
from ..information.rows import FittedRows

__all__ = [
    "check_same",
    "documented",
    "open_fit",
    "open_rows",
    "read_rows",
    "require_absent",
    "require_selection",
    "require_unpenalized",
]

SAME_FIT = 1e-8  # relative difference of two evaluations of one log-likelihood


def open_fit(estimator, *tables, name="estimator") -> tuple:
    """The fitted estimator that a pipeline ends in, and tables as it takes them, after a check."""
    _, model = split_pipeline(estimator)
    if not isinstance(model, PenalizedModel):
        refuse_type(estimator, name)
    check_is_fitted(model)
    return open_pipeline(estimator, *tables)


def open_rows(estimator, X, y, fit_params) -> FittedRows:
    """Read the data of a fit again, and check that they are."""
    rows = read_rows(estimator, X, y, fit_params)
    found = np.nan
    if rows.n_coef == len(estimator.coef_):
        found = rows.session.start(estimator.coef_)
    check_same(estimator, found)
    return rows


def read_rows(estimator, X, y, fit_params) -> FittedRows:
    """Rows for a fitted estimator, whose state is yet to be found."""
    known = [name for name in signature(estimator.fit).parameters if name not in ("X", "y")]
    for name in fit_params:
        if name not in known:
            raise TypeError(
                f"`{name}` is no argument of {type(estimator).__name__}.fit, which takes "
                f"{', '.join(known)}; pass what was given to the fit."
            )
    given = dict(fit_params)
    weight, offset = given.pop("sample_weight", None), given.pop("offset", None)
    design = check_columns(estimator, X)
    assembled = assemble(estimator, design, y, weight, offset, given)
    problem, batch = assembled.problem, assembled.batch
    session = Session(problem, *batch.rows(0), Threads(1))
    route = route_of(estimator, assembled.given)
    weight, _ = batch.rows(0)
    return FittedRows(estimator, assembled.outcome, problem, session, weight, batch, route)


def check_same(estimator, found) -> None:
    """Check by their log-likelihood that rows are those of a fit."""
    expected = estimator.log_likelihood_
    if not abs(found - expected) <= SAME_FIT * max(abs(expected), 1.0):
        raise ValueError(
            f"`X` and `y` are not the rows of the fit: the log-likelihood at `coef_` is "
            f"{found:.10g} on them, and was {expected:.10g}; pass the data of the fit, with the "
            "same sample_weight, strata, offset and the like."
        )


def require_absent(estimator, what: str, names=("bounds", "penalty", "relax")) -> None:
    """Refuse a model with parameters that would have no part in what is asked for."""
    for name in names:
        known_to = penalty_of(estimator).known_to if name == "penalty" else ()
        nothing = False if name == "standardize" else None
        if getattr(estimator, name) is not nothing and what not in known_to:
            has_intervals = what in ("debiased", "posterior", "profile_likelihood")
            others = [f"set_params({name}={nothing})", *known_to, *["bootstrap"] * has_intervals]
            raise ValueError(
                f"`estimator` has `{name}`, which {what} does not know; use {' or '.join(others)}."
            )


def require_selection(estimator, what: str) -> None:
    """Refuse fits that are not the optimum of a penalty that selects."""
    require_absent(estimator, what, ("relax",))
    if not penalty_of(estimator).has_strength:
        raise ValueError(
            f"`estimator` has penalty={estimator.penalty!r}, which {what} does not know; take "
            f"{' or '.join(penalty_of(estimator).known_to)}."
        )


def require_unpenalized(estimator, what: str, instead: str, name="estimator") -> None:
    """Refuse fits with a penalty, whose coefficients are biased towards zero."""
    require_absent(estimator, what)
    fitted = fitted_of(estimator)
    penalized = fitted.penalized
    if len(penalized):
        columns = quoted(fitted.names[penalized])
        raise ValueError(
            f"`{name}` was fitted with alpha={fitted.alpha:g}, which penalizes "
            f"{columns}; {what} is for fits without a "
            f"penalty (alpha=0). {instead}"
        )
