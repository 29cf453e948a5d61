"""Log-likelihood of rows that a model was not fitted to, and what its mean is over."""

from contextlib import closing
from dataclasses import replace
from inspect import signature
from types import SimpleNamespace

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.outcomes.classes import refuse_unknown
from ..data.partitioned import check_in_memory, in_partitions
from ..exceptions import NothingToCompareError
from ..solver.fits import Fits
from ..solver.point import require_finite
from ._columns import check_columns, check_header
from ._prepared import count_threads, sizes_of_rows
from ._preparing import assemble, open_backend, prepare
from ._relaxed import evaluate
from .models.base import model_of


def check_arguments(estimator, fit_params, caller) -> None:
    """Refuse what neither a function nor an estimator's ``fit`` takes."""
    known = [name for name in signature(estimator.fit).parameters if name not in ("X", "y")]
    for given in fit_params:
        if given not in known:
            name = type(estimator).__name__
            own = f", and is one of the estimator: {name}({given}=...)" * (
                given in estimator.get_params()
            )
            raise TypeError(
                f"`{given}` is no argument of {caller} and {name}.fit{own}; the latter takes "
                f"{', '.join(known)}."
            )


def log_likelihood_of(model, X, y, fit_params) -> tuple[float, float]:
    """Sum over rows at the fitted coefficients, and the weight that its mean is over."""
    check_is_fitted(model)
    given = {"sample_weight": None, "offset": None, **fit_params}
    evaluate_rows = _evaluate_in_partitions if in_partitions(X) else _evaluate_in_memory
    try:
        [loglik], sizes = evaluate_rows(model, X, y, **given)
    except NothingToCompareError:
        return 0.0, 0.0
    require_finite(loglik)
    return float(loglik), sizes[0 if model_of(model).counts_rows else 1]


def _evaluate_in_memory(model, X, y, sample_weight, offset, **given):
    check_in_memory(X, y=y, sample_weight=sample_weight, offset=offset, **given)
    design = check_columns(model, X)
    if hasattr(model, "classes_"):
        given["classes"] = model.classes_
    assembled = assemble(model, design, y, sample_weight, offset, given, may_lack=True)
    problem, batch = assembled.problem, assembled.batch
    if problem.has_intercept:
        known = 0.0 if batch.offset is None else batch.offset
        shift = model.intercept_ + problem.shift_of(model.coef_)[0]
        batch = replace(batch, offset=known + np.full((design.n_rows, 1), shift))
        problem = problem.without_intercept()
    backend, n_threads = open_backend(model, model.backend), count_threads(model.n_jobs)
    fits = Fits(problem, batch, backend, n_threads=n_threads)
    return fits.log_likelihoods(model.coef_[:, None]), sizes_of_rows(assembled.outcome, batch)


def _evaluate_in_partitions(model, X, y, sample_weight, offset, **given):
    with closing(prepare(model, X, y, sample_weight, offset, **given)) as prepared:
        check_header(model, prepared.setting.header)
        if hasattr(model, "classes_"):
            refuse_unknown(prepared.setting.classes, model.classes_)
        fit = SimpleNamespace(coef=model.coef_, baseline=getattr(model, "intercept_", 0.0))
        [found] = evaluate(prepared, [(0, fit)], prepared.batch.weight)
        return [found["loglik"]], prepared.sizes
