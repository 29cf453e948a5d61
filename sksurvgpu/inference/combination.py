r"""Combine the profile likelihoods of one effect from several sites.

A *fixed effect* is one for all sites: its log-likelihood is the sum of theirs, with the interval of
the values that a likelihood ratio test does not reject. *Random effects* are drawn from a normal
distribution with mean :math:`\mu` and standard deviation :math:`\tau`, of which the posterior is
computed by quadrature (`_mixture`). No site needs an estimate: where no one with the exposure has
an event, the likelihood is highest at minus infinity, and says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pandas import DataFrame, Index, Series, concat
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import chi2

from .._tables import Result
from .._warnings import warn
from ..data.intervals import check_level
from ..data.sources import open_source, to_pandas
from ._marginal import FARTHEST, Marginal
from ._mixture import mix
from .evidence import COLUMNS, PARAMETRIC, Approximation, form_of, points_of, read_row

N_SHOWN = 201  # points of the curves
MOST_NAMES = 5
ROWS = ("fixed effect", "mean", "spread", "new site")


@dataclass(frozen=True, eq=False, repr=False)
class CombinedProfiles(Result):
    """Effect combined from several sites (meta-analysis); made by `combine_profiles`.

    Attributes
    ----------
    table : pandas.DataFrame
        Rows "fixed effect", the maximum of the sum of the log-likelihoods; "mean" and "spread" of
        the distribution of the sites' effects; and "new site", the effect at a site like these.
        Columns ``coef``, the maximum or the median of the posterior; ``standard_error``, the
        interval's width over that of a normal one with error 1, or the posterior's deviation;
        ``lower`` and ``upper``, of the likelihood or the shortest with the posterior's level; and
        ``posterior_mean``.
    sites : pandas.DataFrame
        By site: the ``form`` of what it gave; ``coef``, where its likelihood is highest, infinite
        where that is nowhere and missing where it is flat; ``lower`` and ``upper``.
    curves : pandas.DataFrame
        ``feature``, a site or "fixed effect", ``value``, ``log_likelihood_ratio`` and
        ``log_likelihood``, 0 at its highest.
    heterogeneity : pandas.Series
        ``statistic``, ``df`` and ``p_value`` of the likelihood ratio test that all sites have one
        effect.
    left_out : pandas.Series
        Reasons by site, of those that gave nothing.
    level : float
        Level of the intervals.
    prior_sd : tuple of two floats
        Of the priors of mean and spread.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import combine_profiles
    >>> sites = pd.DataFrame({"logRr": [0.3, 0.1, 0.8], "seLogRr": [0.1, 0.2, 0.3]})
    >>> combine_profiles(sites)
    <CombinedProfiles of 3 sites: fixed effect 0.3041 (0.136, 0.472), mean 0.3273 (-0.133, 0.848)>
    ...
    """

    table: Any
    sites: Any
    curves: Any
    heterogeneity: Any
    left_out: Any
    level: float
    prior_sd: tuple

    def _title(self) -> str:
        parts = [
            f"{name} {row['coef']:.4g} ({row['lower']:.3g}, {row['upper']:.3g})"
            for name, row in self.table.loc[list(ROWS[:2])].iterrows()
        ]
        return f"CombinedProfiles of {len(self.sites):,} sites: {', '.join(parts)}"

    def _head(self, n):
        return self.summary().head(n), len(self.table)

    @property
    def intervals(self):
        """Intervals of the sites and the fixed effect, as figures take them.

        A DataFrame with ``coef``, missing where a likelihood has no maximum, ``lower`` and
        ``upper``.
        """
        columns = ["coef", "lower", "upper"]
        table = concat([self.sites[columns], self.table.loc[["fixed effect"], columns]])
        return table.assign(coef=table["coef"].where(np.isfinite(table["coef"])))

    def summary(self):
        """Table of the effects with intervals, and their ratios.

        Returns
        -------
        table : pandas.DataFrame
            `table` with columns ``ratio``, ``ratio_lower`` and ``ratio_upper``, missing for the
            spread: exp(coef), which is a ratio of hazards, odds or rates.
        """
        with np.errstate(over="ignore"):
            ratios = np.exp(self.table[["coef", "lower", "upper"]])
        ratios.loc["spread"] = np.nan
        return self.table.join(ratios.set_axis(["ratio", "ratio_lower", "ratio_upper"], axis=1))


def combine_profiles(
    profiles, *, feature=None, site="site", level=0.95, prior_sd=(2.0, 0.5)
) -> CombinedProfiles:
    """Combine the likelihoods of one effect from several sites (meta-analysis).

    Parameters
    ----------
    profiles : dict, list or table
        By site: a ``ProfileResult``, or a table as R's EvidenceSynthesis writes it, in any of the
        forms of ``ProfileResult.to_evidence_synthesis``. One table may have all sites: a row each
        of the forms "normal", "custom", "skew normal" and "grid", indexed by site or with a column
        that says which; the points of all sites below each other, with such a column. Forms may
        differ between sites.
    feature : str, optional
        The coefficient, where a ``ProfileResult`` has several.
    site : str, default="site"
        The column of one table that names sites, if there is one.
    level : float, default=0.95
        Level of the intervals.
    prior_sd : tuple of two floats, default=(2.0, 0.5)
        Standard deviations of the normal prior of the mean, and of the half-normal prior of the
        spread, as in EvidenceSynthesis.

    Returns
    -------
    result : CombinedProfiles
        The fixed effect, and the distribution of random ones.

    Notes
    -----
    The fixed effect is that of ``computeFixedEffectMetaAnalysis``, with the interval between the
    points and not at one of them. The posterior is that from which
    ``computeBayesianMetaAnalysis`` draws; there is no simulation error here.

    A flat likelihood, of a site that says nothing, changes nothing. Rows of parametric forms whose
    numbers are missing, which EvidenceSynthesis writes where a fit failed, are in `left_out`, with
    a warning.

    References
    ----------
    Schuemie, M. J., Chen, Y., Madigan, D. and Suchard, M. A. (2022). Combining Cox regressions
    across a heterogeneous distributed research network facing small and zero counts. Statistical
    Methods in Medical Research 31, 438-450.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD, combine_profiles, profile_likelihood
    >>> from sksurvgpu.datasets import simulate_cox
    >>> sites = {}
    >>> for name, seed in (("A", 0), ("B", 1), ("C", 2)):
    ...     data = simulate_cox(300, 3, random_state=seed)
    ...     wanted = {"values": np.linspace(-2, 2, 9), "derivatives": True}
    ...     sites[name] = profile_likelihood(CoxLassoCCD(alpha=0), data.X, data.y, "x0", **wanted)
    >>> combine_profiles(sites).table.index.tolist()
    ['fixed effect', 'mean', 'spread', 'new site']
    """
    level, prior_sd = check_level(level), _check_prior(prior_sd)
    forms, known, left_out = read_profiles(profiles, "profiles", feature, site)
    if left_out:
        warn(
            f"{len(left_out):,} site(s) left out, see `left_out`: "
            f"{', '.join(list(left_out)[:MOST_NAMES])}.",
        )
    marginals = {name: Marginal(approximation) for name, approximation in known.items()}
    half = 0.5 * chi2.ppf(level, 1)
    of_sites = {name: _interval(marginal, half) for name, marginal in marginals.items()}
    total = Marginal(_sum_of(marginals.values(), known.values()))
    fixed = _interval(total, half)
    centre = fixed[0] if np.isfinite(fixed[0]) else total.top if np.isinf(fixed[0]) else 0.0
    told = [marginal for marginal in marginals.values() if not marginal.is_flat]
    parts = mix(told, prior_sd, centre, total.width)
    return CombinedProfiles(
        _table(fixed, parts, level),
        _sites(forms, of_sites),
        _curves(marginals, total, fixed, of_sites),
        _heterogeneity(total, told),
        _series(left_out),
        level,
        prior_sd,
    )


def _check_prior(prior_sd):
    try:
        of_mean, of_spread = (float(value) for value in prior_sd)
    except (TypeError, ValueError):
        of_mean = of_spread = np.nan
    if not (0 < of_mean < np.inf and 0 < of_spread < np.inf):
        raise ValueError(
            f"`prior_sd` is {prior_sd!r}; give two positive numbers, the standard deviations of "
            "the priors of mean and spread, such as (2.0, 0.5)."
        )
    return of_mean, of_spread


def read_profiles(profiles, argument, feature=None, site="site"):
    """Forms and log-likelihoods by site, and why others are left out."""
    forms, known, left_out = {}, {}, {}
    for name, form, table in _tables(profiles, argument, feature, site):
        if name in forms or name in left_out or name == ROWS[0]:
            raise ValueError(
                f"`{argument}` has two sites {name!r}, or one of a name that is taken; give every "
                "site a name of its own."
            )
        missing = table[list(COLUMNS[form])].isna().any() if form in PARAMETRIC else {}
        if any(missing):
            left_out[name] = f"no {missing.index[missing.argmax()]}"
            continue
        forms[name], known[name] = form, read_row(form, table, f"{argument}[{name!r}]")
    if not known:
        told = "; ".join(f"{name}: {why}" for name, why in list(left_out.items())[:MOST_NAMES])
        raise ValueError(f"`{argument}` has none with a likelihood{told and f' ({told})'}.")
    return forms, known, left_out


def _tables(profiles, argument, feature, site):
    """Name, form and table of every site."""
    if isinstance(profiles, list | tuple):
        profiles = {f"site {k}": table for k, table in enumerate(profiles, 1)}
    if not isinstance(profiles, Mapping):
        table = as_table(profiles, argument)
        form = form_of(table.drop(columns=site, errors="ignore"), f"`{argument}`")
        own = "point" in table
        if site in table:
            if table[site].isna().any():
                raise ValueError(
                    f"`{argument}` has {table[site].isna().sum():,} row(s) without {site!r}; fill "
                    "in the site, or leave them out."
                )
            groups = table.groupby(table[site], sort=False, observed=True)
            return [(str(name), form, part.drop(columns=site)) for name, part in groups]
        if own:
            raise ValueError(
                f"`{argument}` is one table of points without a column {site!r}, so that it is one "
                "site; give a dict of tables, or name the column that says which in `site`."
            )
        names = table.index.map(str)
        return [(name, form, table.iloc[[k]]) for k, name in enumerate(names)]
    found = []
    for name, given in profiles.items():
        table = points_of(given, feature) if hasattr(given, "curves") else as_table(given, name)
        found.append((str(name), form_of(table, f"{argument}[{name!r}]"), table))
    return found


def as_table(table, name):
    """A pandas frame of any table."""
    if isinstance(table, DataFrame):
        return table
    source = open_source(table, name)
    frames = [to_pandas(frame, name) for frame in source.batches(source.columns, 10**6)]
    if not frames:
        raise ValueError(f"`{name}` has no rows.")
    return concat(frames, ignore_index=True)


def _sum_of(marginals, known) -> Approximation:
    """Sum of log-likelihoods, each 0 at its maximum."""
    marginals, known = list(marginals), list(known)
    return Approximation(
        lambda x: sum(marginal.value(x) for marginal in marginals),
        min(one.low for one in known),
        max(one.high for one in known),
        np.unique(np.concatenate([one.nodes for one in known])),
    )


def _interval(marginal, half):
    """Maximum of a log-likelihood, and where it has fallen by so much on either side."""
    if marginal.is_flat:
        return np.nan, -np.inf, np.inf
    ends = []
    for side in (-1, 1):
        far = marginal.top + side * FARTHEST
        if marginal.value(far) > -half:
            ends.append(side * np.inf)
        else:
            ends.append(brentq(lambda x: marginal.value(x) + half, marginal.top, far, xtol=1e-10))
    return marginal.maximum, *ends


def _heterogeneity(total, told):
    statistic = 2.0 * max(total.height_lost, 0.0) + 0.0  # not -0
    df = max(len(told) - 1, 0)
    p_value = float(chi2.sf(statistic, df)) if df else np.nan
    return Series({"statistic": statistic, "df": df, "p_value": p_value})


def _table(fixed, parts, level):
    width = 2.0 * ndtri(0.5 + 0.5 * level)
    rows = [(fixed[0], (fixed[2] - fixed[1]) / width, fixed[1], fixed[2], np.nan)]
    for part in parts:
        rows.append((part.quantile(0.5), part.deviation, *part.densest(level), part.mean))
    columns = ["coef", "standard_error", "lower", "upper", "posterior_mean"]
    return DataFrame(rows, index=list(ROWS), columns=columns)


def _sites(forms, intervals):
    columns = ["coef", "lower", "upper"]
    index = Index(list(intervals), name="site")
    table = DataFrame(list(intervals.values()), index=index, columns=columns)
    table.insert(0, "form", [forms[name] for name in intervals])
    return table


def _curves(marginals, total, fixed, intervals):
    ends = np.array([fixed, *intervals.values()])[:, 1:].ravel()
    ends = ends[np.isfinite(ends)]
    low, high = (ends.min(), ends.max()) if len(ends) > 1 else (-1.0, 1.0)
    value = np.linspace(low - 0.1 * (high - low), high + 0.1 * (high - low), N_SHOWN)
    curves = []
    for name, marginal in {**marginals, "fixed effect": total}.items():
        height = marginal.value(value)
        ratio = {"log_likelihood_ratio": -2.0 * height, "log_likelihood": height}
        curves.append(DataFrame({"feature": name, "value": value, **ratio}))
    return concat(curves, ignore_index=True)


def _series(left_out):
    return Series(list(left_out.values()), Index(list(left_out), name="site"), dtype=object)
