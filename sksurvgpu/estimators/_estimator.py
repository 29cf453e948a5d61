"""What all estimators of the package are, with penalties or with posteriors."""

from sklearn.base import BaseEstimator

from .._versioned import Versioned

__all__ = ["Estimator"]


class Estimator(Versioned, BaseEstimator):
    """An estimator of sparse data, whose pickles know their version."""

    def _keep(self, given):
        """Set the parameters of a constructor as attributes, given its ``locals()``."""
        for name, value in given.items():
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def _set_columns(self, columns):
        """Set scikit-learn's attributes of the columns of X, in place of those of a fit before."""
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.__dict__.update(columns)
