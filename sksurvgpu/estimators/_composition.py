"""The penalty of an estimator: what goes with it, and how fits with it are carried out."""

from numbers import Real

import numpy as np

from ..data.by_column import check_bounds, check_l1_ratio, check_penalty_factor, check_prior_mean
from ..penalties import BY_NAME, Given, PenaltySpec
from ..routes import IN_ROWS, Shifted, Standardized
from ..solver.problem import Batch


def penalty_of(estimator) -> PenaltySpec:
    """The penalty that an estimator names or has."""
    if isinstance(estimator.penalty, str):
        return BY_NAME[estimator.penalty]()
    return PenaltySpec() if estimator.penalty is None else estimator.penalty


def route_of(estimator, given: Given):
    """How fits of an estimator to rows that are here are carried out."""
    return in_given_units(penalty_of(estimator).route(given, IN_ROWS), given)


def in_given_units(route, given: Given):
    """A route, or where there are scales or prior means what leads to it from users' units."""
    route = route if given.scale is None else Standardized(route, given.scale)
    return route if given.prior_mean is None else Shifted(route, given.prior_mean)


def read_by_column(estimator, n_columns, names, source, find_scales) -> Given:
    """Check what an estimator says by column, and that its penalty goes with it."""
    _check_composition(estimator)
    needs_scales = estimator.standardize and penalty_of(estimator).has_strength
    mean = check_prior_mean(estimator.prior_mean, n_columns, names)
    return Given(
        source=source,
        names=names,
        factor=check_penalty_factor(estimator.penalty_factor, n_columns, names),
        l1_ratio=check_l1_ratio(estimator._l1_ratio(), n_columns, names),
        bounds=check_bounds(estimator.bounds, n_columns, names, mean),
        prior_mean=mean,
        scale=find_scales() if needs_scales else None,
    )


def batch_of(estimator, given: Given, **rows) -> Batch:
    """Fits of an estimator, without penalties of any strength; `rows` are fields of the batch."""
    family, factor = penalty_of(estimator).family(given), given.factor[given.source]
    return Batch(np.empty((0, 1)), family, factor, **rows)


def _check_composition(estimator) -> None:
    """Refuse parameters that have no part in a fit with the penalty of an estimator."""
    penalty = penalty_of(estimator)
    name_of_penalty = type(penalty).__name__
    if estimator.algorithm not in penalty.algorithms:
        raise ValueError(
            f"`penalty` is {name_of_penalty}, which does not go with "
            f"algorithm={estimator.algorithm!r}: use algorithm='majorized'."
        )
    for name in ("l1_ratio", "penalty_factor", "bounds", "prior_mean"):
        value = getattr(estimator, name)
        is_default = value is None or (isinstance(value, Real) and value == 1.0)  # l1_ratio
        if name not in penalty.accepts and not is_default:
            raise ValueError(
                f"`penalty` is {name_of_penalty}, which does not go with `{name}`: leave one of "
                "them out."
            )
    if estimator.relax is not None and not penalty.has_strength:
        raise ValueError(
            f"`penalty` is {name_of_penalty}, which selects nothing and does not go with `relax`: "
            "leave one of them out."
        )
