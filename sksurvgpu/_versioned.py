"""Pickles that know which version of the package made them, and say so where another one reads."""

from sklearn.exceptions import InconsistentVersionWarning as WarningOfScikitLearn

from . import __version__
from ._warnings import warn

_KEY = "_sksurvgpu_version"


class InconsistentVersionWarning(WarningOfScikitLearn):
    """A pickle was made by another version; filters for scikit-learn's warning hold for it."""

    def __init__(self, name, saved, current):
        super().__init__(
            estimator_name=name, original_sklearn_version=saved, current_sklearn_version=current
        )

    def __str__(self):
        return (
            f"this {self.estimator_name} was pickled by sksurvgpu {self.original_sklearn_version} "
            f"and is read by {self.current_sklearn_version}: attributes may be missing or mean "
            "something else; compute it anew, or read it with the version that made it."
        )


class Versioned:
    """An object whose pickles hold the version, as those of scikit-learn's own estimators do."""

    def __getstate__(self):
        return {**super().__getstate__(), _KEY: __version__}

    def __setstate__(self, state):
        saved = state.pop(_KEY, "of an unknown version")
        if saved != __version__:
            warning = InconsistentVersionWarning(type(self).__name__, saved, __version__)
            warn(warning)
        vars(self).update(self._upgrade(state))

    @staticmethod
    def _upgrade(state):
        """State as this version has it, from the one of any version."""
        return state
