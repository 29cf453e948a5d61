"""A transformer whose columns keep their names, however sparse they are."""

import numpy as np
from sklearn.base import clone
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import check_is_fitted

from ..additive import MadeColumns, router_of
from .columns import build_design


class NamedColumns(MadeColumns):
    """Keep the names of the columns that a transformer makes, also of sparse ones.

    Sparse matrices of a ``ColumnTransformer`` or ``OneHotEncoder`` have no names, so that a model
    after them knows columns by number only. ``NamedColumns(transformer)`` makes a `Design` with
    names, for ``penalty_factor={"num__age": 0.0}``, ``summary()`` and intervals.

    Parameters
    ----------
    transformer : transformer
        With ``get_feature_names_out``.

    Attributes
    ----------
    transformer_ : transformer
        The fitted one.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.compose import make_column_transformer
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from sksurvgpu import CoxLassoCCD, NamedColumns, make_pipeline, surv
    >>> table = pd.DataFrame({"age": [50.0, 61.0, 72.0, 47.0], "sex": ["f", "m", "f", "m"]})
    >>> columns = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    >>> model = make_pipeline(NamedColumns(columns), CoxLassoCCD(alpha=0.1))
    >>> model = model.fit(table, surv([True, True, True, False], [3.0, 2.0, 1.0, 4.0]))
    >>> model[-1].summary().index.tolist()
    ['onehotencoder__sex_f', 'onehotencoder__sex_m', 'remainder__age']
    """

    def __init__(self, transformer):
        self.transformer = transformer

    def fit(self, X, y=None, **fit_params):
        """Fit the transformer.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
            What the transformer takes.
        y : array-like of shape (n_samples,), optional
            What the transformer may want of the outcome.
        **fit_params : array-like of shape (n_samples,), optional
            What else it requests, with scikit-learn's metadata routing.

        Returns
        -------
        self : object
            The fitted transformer.
        """
        given = process_routing(self, "fit", **fit_params).transformer.fit
        self.transformer_ = clone(self.transformer).fit(X, y, **given)
        return self

    def get_metadata_routing(self):
        """Return where scikit-learn's metadata goes: to the transformer, which requests it.

        Returns
        -------
        router : MetadataRouter
        """
        return router_of(self, transformer=self.transformer)

    def _make(self, X):
        made = build_design(self.transformer_.transform(X), may_be_computed=True)
        return made.with_names(np.array(self.get_feature_names_out(), dtype=object))

    def get_feature_names_out(self, input_features=None):
        """Names of the columns.

        Parameters
        ----------
        input_features : array-like of str, optional
            As the transformer takes it.

        Returns
        -------
        names : ndarray of str
            Those of the transformer.
        """
        check_is_fitted(self)
        return self.transformer_.get_feature_names_out(input_features)
