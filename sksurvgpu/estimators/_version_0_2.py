"""Pickles of version 0.2, whose estimators kept what a fit had found in attributes of their own."""

from typing import Any

from ._columns import Header
from .fitted import PUBLIC, Estimate, Fitted, Setting
from .time_varying import Terms

OF_ROWS = ("_total_weight", "_n_rows", "_fingerprint", "_n_strata", "_timeline", "_terms")
OF_PENALTY = ("_penalty", "_family", "_factor", "_n_constant", "_baseline")
MORE = ("_of_costs", "_of_route")  # names of public attributes that not all fits have


def upgrade(state: dict[str, Any]) -> dict[str, Any]:
    """State of an estimator, from the one of any version."""
    state = {"standardize": False} | state
    if "_of_route" not in state:
        return state
    removed = {name: state.get(name) for name in (*OF_ROWS, *OF_PENALTY, *MORE)}
    left = {name: value for name, value in state.items() if name not in removed}
    return left | {"_fitted": _fitted_of(left, removed)}


def _fitted_of(public, private) -> Fitted:
    """`Fitted` of a fit, by its public attributes and those that it kept for itself."""
    costs, of_route = ({name: public[name] for name in private[more]} for more in MORE)
    header = Header(public["n_features_in_"], public.get("feature_names_in_"))
    setting = Setting(
        header,
        terms=private["_terms"] or Terms.of(None, *header),
        backend=(public["backend_"], public["backend_reason_"]),
        timeline=private["_timeline"],
        classes=public.get("classes_"),
        n_strata=private["_n_strata"],
    )
    estimate = Estimate(
        alpha=private["_penalty"],
        baseline=private["_baseline"],
        intercept=public.get("intercept_"),
        of_route=of_route,
        **{name: public[f"{name}_"] for name in PUBLIC},
    )
    return Fitted(
        setting,
        estimate,
        family=private["_family"],
        factor=private["_factor"],
        total_weight=private["_total_weight"],
        n_rows=private["_n_rows"],
        fingerprint=private["_fingerprint"],
        null_log_likelihood=public["null_log_likelihood_"],
        infinite=public["infinite_"],
        n_constant=private["_n_constant"],
        costs=costs,
    )
