"""The columns of X as estimators read them, scikit-learn's checks of them, and that of strata."""

from typing import NamedTuple

import numpy as np
from pandas import DataFrame
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from ..backends import to_host
from ..data.design.columns import Design, build_design
from ..data.partitioned import require_in_memory
from ..data.prepare import header_of


class Header(NamedTuple):
    """Number of the columns of a table, and their names if scikit-learn takes these."""

    n_columns: int
    names: np.ndarray | None

    def labels(self) -> list[str]:
        """Names as texts; x0, x1 and so on where there are none."""
        names = [f"x{j}" for j in range(self.n_columns)] if self.names is None else self.names
        return [str(name) for name in names]


def read_columns(X, may_be_empty=False) -> tuple[Design, Header]:
    """Check X, which is in memory; its columns, and their header."""
    X = to_host(X)
    design = build_design(X, may_be_empty=may_be_empty, may_be_computed=True)
    return design, read_header(header_of(X))


def read_header(table) -> Header:
    """Header of a table as scikit-learn reads it."""
    reader = BaseEstimator()
    validate_data(reader, table, y="no_validation", skip_check_array=True)
    return Header(reader.n_features_in_, getattr(reader, "feature_names_in_", None))


def check_columns(estimator, X) -> Design:
    """Check the columns of X against those of the fit."""
    check_is_fitted(estimator)
    X = to_host(require_in_memory(X))
    design = build_design(X, may_be_computed=True)
    validate_data(estimator, header_of(X), y="no_validation", reset=False, skip_check_array=True)
    return design


def check_header(estimator, header) -> None:
    """Check the number and names of columns against those of the fit."""
    table = DataFrame(np.empty((0, header.n_columns)), columns=header.names)
    validate_data(estimator, table, y="no_validation", reset=False, skip_check_array=True)


def check_strata_as_in_fit(
    n_strata, is_given, *, own="a baseline hazard", name="strata", found=None
):
    """Check that rows have strata if and only if those of the fit had; None: they had not."""
    if n_strata is None and is_given:
        found = f"`{name}` was passed" if found is None else found
        raise ValueError(f"{found}, but the model was fitted without strata.")
    if n_strata is not None and not is_given:
        raise ValueError(
            f"`{name}` is missing: the model has {n_strata:,} strata with {own} each; pass one "
            "label per row."
        )
