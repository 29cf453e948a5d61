"""Which parameters of a model go with its penalty."""

from numbers import Real

__all__ = ["check_composition"]


def check_composition(model) -> None:
    """Refuse parameters that have no part in a fit with the penalty of a model."""
    accepts = model._spec().accepts
    if model.algorithm not in model._spec().algorithms:
        raise ValueError(
            f"`penalty` is {type(model._spec()).__name__}, which does not go with "
            f"algorithm={model.algorithm!r}: use algorithm='majorized'."
        )
    for name in ("l1_ratio", "penalty_factor", "bounds", "prior_mean"):
        value = getattr(model, name)
        is_default = value is None or (isinstance(value, Real) and value == 1.0)  # l1_ratio
        if name not in accepts and not is_default:
            raise ValueError(
                f"`penalty` is {type(model._spec()).__name__}, which does not go with `{name}`: "
                "leave one of them out."
            )
    if model.relax is not None and not model._spec().has_strength:
        raise ValueError(
            f"`penalty` is {type(model._spec()).__name__}, which selects nothing and does not "
            "go with `relax`: leave one of them out."
        )
