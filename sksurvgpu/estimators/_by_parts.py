"""Predictions of rows in partitions: made where the rows are, one partition at a time."""

from __future__ import annotations

from functools import partial, wraps
from inspect import signature

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from ..partitions.handles import as_rows, is_far

__all__ = ["by_parts", "here", "predict_here"]


def _numbers(model, given):
    return np.empty(0)


def by_parts(like=_numbers):
    """Let a method of X return what partitions make of their rows, where X is in partitions.

    That is an array of Dask, or what `numpy.asarray` makes an array of. ``like(model, given)`` has
    no row, and otherwise the shape and the dtype of the method's result.
    """

    def decorate(method):
        @wraps(method)
        def call(self, X, *args, **kwargs):
            if not is_far(X):
                return method(self, X, *args, **kwargs)
            given = signature(method).bind(self, X, *args, **kwargs).arguments
            given = {name: value for name, value in given.items() if name not in ("self", "X")}
            check_is_fitted(self)
            return _map(self, partial(_predict, self, method.__name__, like), X, given, like)

        return call

    return decorate


def predict_here(model, method, X, like=_numbers) -> np.ndarray:
    """Array that an undecorated method makes of rows in partitions, all brought here."""
    check_is_fitted(model)
    return np.asarray(_map(model, partial(_call, method, model, like), X, {}, like))


def here(*values):
    """Arguments of a score, those in partitions brought here."""
    return tuple(
        np.asarray(as_rows(value).map(np.asarray)) if is_far(value) else value for value in values
    )


def _map(model, function, X, given, like):
    rows = as_rows(X)
    if rows.n_columns is not None:  # else partitions say so
        validate_data(model, rows.header(), y="no_validation", reset=False, skip_check_array=True)
    others = {name: as_rows(value, name) for name, value in given.items() if is_far(value)}
    fixed = {name: value for name, value in given.items() if name not in others}
    return rows.map(partial(function, **fixed), like=like(model, fixed), **others)


def _predict(model, name, like, X, **given):
    return _call(getattr(type(model), name), model, like, X, **given)


def _call(method, model, like, X, **given):
    """Array that a method makes of a partition; `like` makes the one of no rows."""
    n_rows, *_ = getattr(X, "shape", (1,))
    return np.asarray(method(model, X, **given)) if n_rows else like(model, given)
