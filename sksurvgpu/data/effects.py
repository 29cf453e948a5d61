"""Coefficients of a fit, and what intervals of linear functions of them are made of."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm, t


@dataclass
class Estimates:
    """Coefficients, with draws of them or with their covariance if there are intervals."""

    coef: np.ndarray
    level: float | None = None
    draws: np.ndarray | None = None  # (n_coef, n_draws)
    covariance: np.ndarray | None = None
    law: Any = None  # of an estimate whose standard error is 1, where there is a covariance

    def table(self, some):
        """Some coefficients, and beside them their draws or a root of their covariance."""
        more = [] if self.draws is None else [self.draws[some]]
        if self.covariance is not None:
            own = self.covariance[some, some]
            size, axes = np.linalg.eigh(np.nan_to_num(own))
            root = axes * np.sqrt(np.maximum(size, 0.0))
            more = [np.full_like(own, np.nan) if np.isnan(own).any() else root]
        return np.hstack([self.coef[some, None], *more])

    def bounds(self, found):
        """Bounds of functions by their values for the columns of a table, (n_functions, ...)."""
        if self.level is None:
            return {}
        tail = 0.5 * (1.0 - self.level)
        if self.draws is not None:
            lower, upper = np.quantile(found[:, 1:], [tail, 1.0 - tail], axis=1)
            return {"lower": lower, "upper": upper}
        half = self.law.isf(tail) * np.linalg.norm(found[:, 1:], axis=1)
        return {"lower": found[:, 0] - half, "upper": found[:, 0] + half}


def read_estimates(result, names) -> Estimates:
    """Coefficients of columns of these names: numbers, or a result that has them and more."""
    is_posterior = hasattr(result, "n_chains")
    known = result.names.get("coef") if is_posterior else getattr(result, "feature_names", None)
    if known is None and not hasattr(result, "summary"):
        coef = np.asarray(result, dtype=np.float64)
        if coef.shape != names.shape:
            raise ValueError(
                f"`coef` has shape {coef.shape}, the transformer makes {len(names):,} columns; "
                "pass a coefficient for each."
            )
        return Estimates(coef)
    if getattr(result, "_columns", None) is not None:
        raise ValueError(
            "`coef` is the bootstrap of a pipeline, each of whose replicates has columns of its "
            "own; pass that of its model: bootstrap(pipe[-1], pipe[:-1].transform(X), y)."
        )
    has_draws = hasattr(result, "n_replicates") or (is_posterior and "coef" in result.draws)
    if not has_draws and not isinstance(getattr(result, "covariance", None), np.ndarray):
        raise TypeError(
            f"`coef` is of type {type(result).__name__}, which has no draws and no covariance of "
            "coefficients; pass numbers, or what bootstrap, wald or posterior returns."
        )
    place = {name: k for k, name in enumerate(known)}
    if unknown := [name for name in names if name not in place]:
        raise ValueError(
            f"`coef` has no coefficient of column {unknown[0]!r}; pass a result of a model of the "
            "columns that the transformer makes."
        )
    at = np.array([place[name] for name in names])
    if is_posterior:
        draws = np.asarray(result.draws["coef"], dtype=np.float64)
        draws = draws.reshape(-1, draws.shape[-1]).T[at]
        return Estimates(draws.mean(axis=1), result.level, draws)
    if has_draws:
        draws = result.coefs[at][:, np.isfinite(result.coefs).all(axis=0)]
        return Estimates(result.coef[at], result.level, draws)
    coef, covariance = result.coef[at], result.covariance[np.ix_(at, at)]
    is_left_out = np.isnan(coef)  # those that depend on others: the fit is one without them
    covariance[is_left_out] = covariance[:, is_left_out] = 0.0
    law = norm() if result.df is None else t(result.df)
    return Estimates(np.nan_to_num(coef), result.level, None, covariance, law)
