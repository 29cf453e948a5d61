"""How tables of results tell effects: columns, profiles, numbers of sets, and counts of few."""

from __future__ import annotations

import json

import numpy as np
from pandas import DataFrame, concat
from scipy.interpolate import KroghInterpolator
from scipy.special import ndtr
from sklearn.utils import murmurhash3_32

__all__ = ["censor", "describe_profiles", "list_analyses", "llr_of", "number_of", "tell_effects"]

RATIOS = {"rr": "ratio", "ci_95_lb": "ratio_lower", "ci_95_ub": "ratio_upper", "p": "p_value"}
RATIOS |= {"log_rr": "coef", "se_log_rr": "standard_error", "one_sided_p": "one_sided_p"}
RATIOS |= {f"calibrated_{name}": f"calibrated_{column}" for name, column in RATIOS.items()}
RATIOS["llr"] = "llr"


def number_of(text) -> int:
    """Number of what is compared, of which the R packages make it a digest."""
    return murmurhash3_32(text, seed=0, positive=True) - 2**31


def list_analyses(analyses):
    """Table of analyses of a document."""
    lines = [(name, json.dumps(one)) for name, one in analyses.items()]
    table = DataFrame(lines, columns=["description", "definition"])
    return table.assign(analysis_id=np.arange(len(lines)) + 1)


def censor(values, fewest):
    """Counts below the smallest one that may be told, but for 0, as its negative."""
    return values.mask((values < fewest) & (values != 0), -fewest)


def tell_effects(shown, llr):
    """Effects of lines as tables have them, from those of `StudyResult.table`."""
    z = shown["coef"] / shown["standard_error"]
    shown = shown.assign(llr=llr.where(shown["coef"].notna()), one_sided_p=ndtr(-z))
    with np.errstate(over="ignore"):
        for end, column in (("", "coef"), ("_lower", "lower"), ("_upper", "upper")):
            shown[f"calibrated_ratio{end}"] = np.exp(shown[f"calibrated_{column}"])
    return shown[[]].assign(**{name: shown[column] for name, column in RATIOS.items()})


def llr_of(curves, key):
    """Logarithm of the likelihood ratio of each effect, against none, by a column of the curves."""
    return curves[curves["value"] == 0.0].set_index(key)["drop"]


def describe_profiles(curves, key, names):
    """Points of profile likelihoods with their slopes, of the polynomial through them.

    `names` are those in the column `key`, in whose place come their numbers.
    """

    columns, found = [key, "log_rr", "log_likelihood", "gradient"], []
    for name, points in [] if curves is None else curves.groupby(key, sort=False):
        points = points.drop_duplicates("value").sort_values("value")
        if len(points) < 3:
            continue
        at, value = points["value"].to_numpy(), -points["drop"].to_numpy()
        slope = np.atleast_1d(KroghInterpolator(at, value).derivative(at))
        told = {"log_rr": at, "log_likelihood": value, "gradient": slope}
        found.append(DataFrame(told).assign(**{key: names.index(name)}))
    if not found:
        return DataFrame(columns=columns, dtype=float)
    return concat(found, ignore_index=True)[columns]
