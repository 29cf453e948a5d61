"""Base of the classes that the parameter `penalty` of estimators takes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .base import Family
from .bounded import BoundedElasticNet
from .elastic_net import ElasticNet


@dataclass(frozen=True)
class Given:
    """Parameters of an estimator by column of X, beside its penalty, checked."""

    source: np.ndarray  # (n_coef,) column of X that a coefficient belongs to
    names: np.ndarray | None
    factor: np.ndarray  # (n_columns,)
    l1_ratio: float | np.ndarray
    bounds: tuple[np.ndarray, np.ndarray] | None  # around `prior_mean`
    prior_mean: np.ndarray | None
    scale: np.ndarray | None = None  # what the penalty takes columns to be divided by


class PenaltySpec(BaseEstimator):
    """A penalty as users choose it, with parameters that scikit-learn can read, set and search.

    A subclass says what its penalty is of any strength (`family`), or how fits with it are carried
    out (`route`), and which of the estimators' arguments by column and algorithms it goes with.
    """

    accepts: ClassVar[frozenset[str]] = frozenset(
        {"l1_ratio", "penalty_factor", "bounds", "prior_mean"}
    )
    algorithms: ClassVar[frozenset[str]] = frozenset({"majorized", "exact"})
    has_strength: ClassVar[bool] = True  # whether `alpha` matters
    known_to: ClassVar[tuple[str, ...]] = ()  # functions of inference that take it into account

    def family(self, given: Given) -> Family:
        """Penalties of every strength; the elastic net if a subclass does not say otherwise."""
        ratio = given.l1_ratio
        ratio = ratio if isinstance(ratio, float) else ratio[given.source]
        if given.bounds is None:
            return ElasticNet(ratio)
        lower, upper = given.bounds
        return BoundedElasticNet(ratio, lower[given.source], upper[given.source])

    def prior_ratio(self, l1_ratio):
        """The `l1_ratio` by which strengths are read as variances of priors."""
        return l1_ratio

    def check(self, prepared) -> None:
        """Refuse data that the penalty is not for, before anything is fitted."""

    def route(self, given: Given, inner):
        """How fits are carried out: `inner`, or what leads to it (`routes`)."""
        return inner
