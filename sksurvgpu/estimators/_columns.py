"""The columns of X as estimators read them, and scikit-learn's attributes of them."""

from __future__ import annotations

import copy
from typing import Any, NoReturn

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from ..backends import to_host
from ..data.design.columns import Design, build_design
from ..partitions.handles import is_far

__all__ = ["check_columns", "feature_names", "read_columns", "refuse", "require_here"]

ATTRIBUTES = ("n_features_in_", "feature_names_in_")


def read_columns(estimator, X) -> tuple[Design, dict[str, Any]]:
    """Check X; its columns, and their attributes, which `estimator` does not get yet."""
    X = to_host(require_here(X))
    design, reader = build_design(X), copy.copy(estimator)
    validate_data(reader, _header(X), y="no_validation", skip_check_array=True)
    read = vars(reader)
    return design, {name: read[name] for name in ATTRIBUTES if name in read}


def check_columns(estimator, X) -> Design:
    """Check the columns of X against those of the fit."""
    check_is_fitted(estimator)
    X = to_host(require_here(X))
    design = build_design(X)
    validate_data(estimator, _header(X), y="no_validation", reset=False, skip_check_array=True)
    return design


def require_here(X):
    """Refuse rows that are in partitions."""
    if is_far(X):
        refuse("this compares or returns rows")
    return X


def refuse(
    what, instead="pass rows that are in the memory of one machine, or a sample of them"
) -> NoReturn:
    """Refuse what needs rows that are in partitions."""
    raise ValueError(f"`X` is in partitions, and {what}; {instead}.")


def feature_names(estimator) -> np.ndarray:
    """Names of the columns of a fit; x0, x1 and so on where they had none."""
    if hasattr(estimator, "feature_names_in_"):
        return estimator.feature_names_in_
    return np.array([f"x{j}" for j in range(estimator.n_features_in_)], dtype=object)


def _header(X):
    """A table whose number and names of columns scikit-learn can read."""
    return X.header() if isinstance(X, Design) else X
