"""Strata that rows after a fit have, if and only if those of the fit had."""


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
