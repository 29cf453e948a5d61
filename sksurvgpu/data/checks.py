"""Checks of what a user passes beside X and y, one entry per row, and of horizons.

Scalar parameters are declared by the estimators as scikit-learn constraints; here is
what those cannot express.
"""

import numpy as np

from .vectors import check_numbers, check_row_values


def check_sample_weight(sample_weight, n_rows, event=None, may_lack=False) -> np.ndarray | None:
    """Return the row weights as float64, or None where every row counts once.

    Of the rows with an `event` one must have a positive weight, unless these `may_lack` them as
    some rows of a fit, of which others have a positive weight.
    """
    if sample_weight is None:
        return None
    weight = check_row_values(sample_weight, "sample_weight", n_rows, minimum=0)
    if not (may_lack or weight.any()):
        raise ValueError("`sample_weight` is zero in every row; at least one must be positive.")
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not np.isfinite(total):
        raise ValueError("`sample_weight` has an infinite sum; rescale it, e.g. to mean 1.")
    if event is not None and not (may_lack or (event & (weight > 0.0)).any()):
        refuse_weightless(np.count_nonzero(event))
    return None if (weight == 1.0).all() else weight


def count_events(event, weight) -> np.ndarray:
    """Rows with an event, and those of them with a positive weight."""
    if event is None:
        return np.zeros(2, np.int64)
    counted = event if weight is None else event & (weight > 0.0)
    return np.array([np.count_nonzero(event), np.count_nonzero(counted)])


def refuse_weightless(n_events):
    """Refuse weights that leave no event."""
    raise ValueError(
        f"`sample_weight` is zero in all {n_events:,} rows with an event; at least one must be "
        "positive."
    )


def check_weight_by_group(weight, group, labels, name) -> None:
    """Check that the rows of a group, "subject" or "stratum" by its `name`, have one weight.

    `group` has the position of each row's label in `labels`, or is None without groups.
    """
    if weight is None or group is None:
        return
    of_group = np.empty(len(labels))
    of_group[group] = weight
    differs = weight != of_group[group]
    if differs.any():
        row = int(np.argmax(differs))
        label, value = labels[group[row]], of_group[group[row]]
        raise ValueError(
            f"`sample_weight` differs within {name} {label.item()!r}: {weight[row]:g} in row "
            f"{row:,}, {value:g} in another; give all rows of a {name} the same weight."
        )


def check_horizons(times) -> np.ndarray:
    """Return horizons, one number or several, as increasing times of at least 0."""
    horizons = check_numbers([times] if np.ndim(times) == 0 else times, "times", minimum=0)
    if not horizons.size:
        raise ValueError("`times` is empty; pass one or more horizons.")
    if (np.diff(horizons) <= 0).any():
        place = int(np.argmax(np.diff(horizons) <= 0))
        raise ValueError(
            f"`times` has {horizons[place + 1]:g} after {horizons[place]:g}; pass each horizon "
            "once, in increasing order."
        )
    return horizons


def check_exposure(exposure, n_rows) -> np.ndarray | None:
    """Return the exposure of every row as float64, all positive; None stays None."""
    return None if exposure is None else check_positive(exposure, "exposure", n_rows)


def check_positive(values, name, n_rows, other="X") -> np.ndarray:
    """Return one positive number per row as float64."""
    vector = check_row_values(values, name, n_rows, other=other)
    is_positive = vector > 0
    if not is_positive.all():
        row = int(np.argmin(is_positive))
        raise ValueError(
            f"`{name}` is {vector[row]:g} in row {row:,}, must be positive; drop rows that were "
            "never observed."
        )
    return vector


def check_offset(offset, n_rows) -> np.ndarray | None:
    """Return the offset of the linear predictor as float64; None stays None."""
    return None if offset is None else check_row_values(offset, "offset", n_rows)
