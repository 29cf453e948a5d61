"""Effects less the systematic error that controls with a known effect show (`_systematic`).

The calibrated p-value is that of an estimate under the empirical null: the distribution of the
estimates of negative controls, each of which has a standard error of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pandas import DataFrame, Index, Series, concat
from scipy.special import ndtr, ndtri

from .._tables import Result
from .._warnings import warn
from ..data.intervals import check_level
from ._marginal import Marginal
from ._systematic import fit_error_model, fit_likelihood_null, fit_null, true_interval
from .combination import as_table, read_profiles

LARGEST = np.log(100.0)  # coefficients beyond it are those of a fit that diverged
FEW = 5  # controls, below which their spread is hardly known
MOST_NAMES = 5
ALTERNATIVES = ("two-sided", "greater", "less")
MODEL = ("mean_intercept", "mean_slope", "sd_intercept", "sd_slope")


@dataclass(frozen=True, eq=False, repr=False)
class CalibratedEffects(Result):
    """Effects calibrated by negative controls; made by `calibrate`.

    Attributes
    ----------
    table : pandas.DataFrame
        Rows of the estimates: ``coef``, ``standard_error``, ``p_value``, which knows of no
        systematic error, and ``calibrated_p_value``; ``calibrated_coef``,
        ``calibrated_standard_error``, ``calibrated_lower`` and ``calibrated_upper``. Missing where
        there is nothing to calibrate.
    controls : pandas.DataFrame
        The controls that were used: ``coef``, ``standard_error``, ``true_coef``, ``p_value`` and
        ``calibrated_p_value``, both of the true effect. Without columns of estimates where profiles
        were given.
    null : pandas.Series
        ``mean`` and ``sd`` of the systematic error where there is no effect.
    error_model : pandas.Series
        ``mean_intercept``, ``mean_slope``, ``sd_intercept`` and ``sd_slope``, the numbers a, b, c
        and d.
    left_out : pandas.DataFrame
        What was not used: its ``kind``, "control" or "estimate", its ``name`` and the ``reason``.
    level : float
        Level of the intervals.
    alternative : str
        What the p-values test.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import calibrate
    >>> controls = pd.DataFrame(
    ...     {"coef": [0.2, 0.6, -0.1, 0.5, 0.3], "standard_error": [0.1, 0.2, 0.1, 0.2, 0.1]}
    ... )
    >>> estimates = pd.DataFrame({"coef": [0.8], "standard_error": [0.2]}, index=["bleeding"])
    >>> result = calibrate(estimates, controls)
    >>> result
    <CalibratedEffects of 1 estimates by 5 controls: systematic error 0.254, sd 0.192>
    ...
    >>> result.table["calibrated_coef"].round(3).to_dict()
    {'bleeding': 0.546}
    """

    table: Any
    controls: Any
    null: Any
    error_model: Any
    left_out: Any
    level: float
    alternative: str

    def _title(self) -> str:
        return (
            f"CalibratedEffects of {len(self.table):,} estimates by {len(self.controls):,} "
            f"controls: systematic error {self.null['mean']:.3g}, sd {self.null['sd']:.3g}"
        )

    def _head(self, n):
        shown = ["coef", "standard_error", "p_value"]
        shown += [name for name in self.table if str(name).startswith("calibrated_")]
        return self.table[shown].head(n), len(self.table)

    @property
    def expected_absolute_systematic_error(self) -> float:
        """Mean of the systematic error's absolute value where there is no effect."""
        mean, sd = self.null["mean"], self.null["sd"]
        if sd == 0:
            return abs(float(mean))
        inner = sd * np.sqrt(2.0 / np.pi) * np.exp(-0.5 * (mean / sd) ** 2)
        return float(inner + mean * (1.0 - 2.0 * ndtr(-mean / sd)))


def calibrate(
    estimates, negative_controls, *, positive_controls=None, level=0.95, alternative="two-sided"
) -> CalibratedEffects:
    """Correct estimates for the systematic error that negative controls show.

    Parameters
    ----------
    estimates : table, or result with one
        A row for each effect, with columns ``coef``, the estimate on the scale of the coefficient,
        and ``standard_error``, or the result of ``wald`` or ``fit_outcomes``; of some outcomes of
        the latter, rows of its ``estimates``.
    negative_controls : table, result with one, or dict
        The same of effects that are known to be none. Or their likelihoods by name, in any form of
        ``combine_profiles``: controls without an estimate tell something, too.
    positive_controls : table, optional
        The same of effects that are known, with their ``true_coef``. Without, the systematic error
        is taken to be the same whatever the effect.
    level : float, default=0.95
        Level of the calibrated intervals.
    alternative : str, default="two-sided"
        Whether p-values count deviations on both sides, or of effects that are "greater" or
        "less" alone.

    Returns
    -------
    result : CalibratedEffects
        Calibrated p-values and intervals, and the systematic error.

    Warns
    -----
    UserWarning
        Where controls are left out, which are listed in `left_out`: those without a finite
        estimate and standard error, and those beyond a ratio of 100 or a hundredth. Where fewer
        than 5 are left.

    Notes
    -----
    The null is that of ``EmpiricalCalibration::fitNull``, p-values those of ``calibrateP``, the
    model with positive controls that of ``fitSystematicErrorModel``, and intervals those of
    ``calibrateConfidenceInterval``; the expected absolute systematic error that of
    ``computeExpectedAbsoluteSystematicError``. With likelihoods the null is that of
    ``fitNullNonNormalLl``.

    Nothing here accounts for the null being an estimate itself: take several tens of controls.

    References
    ----------
    Schuemie, M. J., Ryan, P. B., DuMouchel, W., Suchard, M. A. and Madigan, D. (2014).
    Interpreting observational studies: why empirical calibration is needed to correct p-values.
    Statistics in Medicine 33, 209-218.

    Schuemie, M. J., Hripcsak, G., Ryan, P. B., Madigan, D. and Suchard, M. A. (2018). Empirical
    confidence interval calibration for population-level effect estimation studies in observational
    healthcare data. Proceedings of the National Academy of Sciences 115, 2571-2577.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksurvgpu import calibrate
    >>> rng = np.random.default_rng(0)
    >>> error = rng.uniform(0.1, 0.3, 40)
    >>> biased = rng.normal(0.25, np.hypot(0.1, error))
    >>> controls = pd.DataFrame({"coef": biased, "standard_error": error})
    >>> estimates = pd.DataFrame({"coef": [0.4], "standard_error": [0.15]})
    >>> table = calibrate(estimates, controls).table
    >>> bool(table["p_value"][0] < 0.05 < table["calibrated_p_value"][0])
    True
    """
    level = check_level(level)
    if alternative not in ALTERNATIVES:
        raise ValueError(
            f"`alternative` is {alternative!r}; give one of {', '.join(map(repr, ALTERNATIVES))}."
        )
    table = _read(estimates, "estimates")
    reasons = _unusable(table, np.inf)
    left_out = [("estimate", name, why) for name, why in zip(table.index, reasons, strict=True)]
    if isinstance(negative_controls, Mapping):
        if positive_controls is not None:
            raise ValueError(
                "`positive_controls` are known by estimates, and `negative_controls` by "
                "likelihoods; give tables of estimates for both, or no positive controls."
            )
        controls, others, model = _fit_profiles(negative_controls)
    else:
        controls, others, model = _fit_estimates(negative_controls, positive_controls)
    left_out = [row for row in [*others, *left_out] if row[-1]]
    _warn_of(others, len(controls))
    return CalibratedEffects(
        _calibrated(table, reasons == "", model, level, alternative),
        _with_p_values(controls, model, alternative),
        _series({"mean": model[0], "sd": model[2]}),
        _series(dict(zip(MODEL, model, strict=True))),
        DataFrame(left_out, columns=["kind", "name", "reason"]),
        level,
        alternative,
    )


def _read(table, name, more=()):
    """Estimates with their standard errors, and other columns."""
    if isinstance(table, Result):
        table = table.table if hasattr(table, "table") else table.summary()
    table = as_table(table, name)
    columns = ["coef", "standard_error", *more]
    missing = [column for column in columns if column not in table]
    if missing:
        raise ValueError(
            f"`{name}` has no column {missing[0]!r}; it needs {', '.join(columns)}, on the scale "
            "of coefficients and not of ratios."
        )
    if not len(table):
        raise ValueError(f"`{name}` has no rows.")
    for column in columns:
        if table[column].dtype.kind not in "fiu":
            raise TypeError(f"`{name}` has a column {column!r} of dtype {table[column].dtype}.")
    return table[columns].astype(float)


def _unusable(table, largest) -> np.ndarray:
    """Why rows cannot be used; empty where they can."""
    coef, error = table["coef"].to_numpy(), table["standard_error"].to_numpy()
    negative = np.flatnonzero(error <= 0)
    if len(negative):
        raise ValueError(
            f"`standard_error` is {error[negative[0]]:g} in row {table.index[negative[0]]!r}, must "
            "be positive."
        )
    reasons = np.full(len(table), "", dtype=object)
    reasons[np.abs(coef) > largest] = "a ratio beyond 100 or a hundredth"
    reasons[~np.isfinite(error)] = "no finite standard error"
    reasons[~np.isfinite(coef)] = "no finite estimate"
    return reasons


def _warn_of(others, n_left):
    names = [str(name) for _, name, why in others if why]
    if names:
        warn(
            f"{len(names):,} control(s) left out, see `left_out`: "
            f"{', '.join(names[:MOST_NAMES])}{', ...' if len(names) > MOST_NAMES else ''}.",
        )
    if n_left < FEW:
        warn(
            f"the systematic error is that of {n_left} control(s), and its spread hardly known; "
            f"take {FEW} at the very least.",
        )


def _require_some(n_left, reasons):
    if not n_left:
        told = ", ".join(sorted({why for why in reasons if why}))
        raise ValueError(f"`negative_controls` has none to learn from ({told}).")


def _fit_estimates(negative, positive):
    """Controls, why others are left out, and a, b, c, d."""
    controls = _read(negative, "negative_controls").assign(true_coef=0.0)
    if positive is not None:
        given = _read(positive, "positive_controls", ["true_coef"])
        if not np.isfinite(given["true_coef"]).all() or not given["true_coef"].any():
            raise ValueError(
                "`positive_controls` needs a finite `true_coef` in every row, other than 0 in some."
            )
        controls = concat([controls, given])
    reasons = _unusable(controls, LARGEST)
    left_out = [("control", name, why) for name, why in zip(controls.index, reasons, strict=True)]
    controls = controls[reasons == ""]
    _require_some(len(controls), reasons)
    columns = (controls[name].to_numpy() for name in ("coef", "standard_error", "true_coef"))
    if positive is None:
        return controls, left_out, fit_null(*columns)
    model = fit_error_model(*columns)
    if not model[1] > 0:
        raise ValueError(
            f"estimates of `positive_controls` do not rise with their `true_coef` (the slope is "
            f"{model[1]:.3g}), so that they say nothing of effects; compare signs and scales."
        )
    return controls, left_out, model


def _fit_profiles(profiles):
    """Controls, why others are left out, and the null of their likelihoods."""
    _, known, reasons = read_profiles(profiles, "negative_controls")
    marginals = {name: Marginal(likelihood) for name, likelihood in known.items()}
    reasons |= {name: "a flat likelihood" for name, one in marginals.items() if one.is_flat}
    told = {name: marginal for name, marginal in marginals.items() if not marginal.is_flat}
    _require_some(len(told), reasons.values())
    coef = [marginal.maximum for marginal in told.values()]
    controls = DataFrame({"coef": coef}, index=Index(list(told))).assign(
        standard_error=np.nan, true_coef=0.0
    )
    left_out = [("control", name, why) for name, why in reasons.items()]
    return controls, left_out, fit_likelihood_null(told.values())


def _p_values(z, alternative):
    """Of standardized deviations."""
    if alternative == "two-sided":
        return 2.0 * ndtr(-np.abs(z))
    return ndtr(-z if alternative == "greater" else z)


def _with_p_values(controls, model, alternative):
    """Controls with tests of their true effects, before and after calibration."""
    coef, error, true = (controls[name] for name in ("coef", "standard_error", "true_coef"))
    centre, slope, sd, more = model
    z = (coef - centre - slope * true) / np.hypot(sd + more * np.abs(true), error)
    return controls.assign(
        p_value=_p_values((coef - true) / error, alternative),
        calibrated_p_value=_p_values(z, alternative),
    )


def _calibrated(table, is_known, model, level, alternative):
    coef, error = table["coef"].where(is_known), table["standard_error"].where(is_known)
    centre, slope, sd, _ = model
    z = ndtri(0.5 + 0.5 * level)
    ends = [true_interval(y, s, model, z) for y, s in zip(coef, error, strict=True)]
    lower, upper = np.array(ends).T
    return table.assign(
        p_value=_p_values(coef / error, alternative),
        calibrated_p_value=_p_values((coef - centre) / np.hypot(sd, error), alternative),
        calibrated_coef=(coef - centre) / slope,
        calibrated_standard_error=(upper - lower) / (2.0 * z),
        calibrated_lower=lower,
        calibrated_upper=upper,
    )


def _series(values):
    return Series(values, dtype=float)
