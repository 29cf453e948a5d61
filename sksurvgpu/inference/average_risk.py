"""Average risks of a population under scenarios: what would happen if all were treated, or none.

A model predicts the risk of every row with some of its columns set to given values, and the mean is
taken over rows (the g-formula). Where the model holds, and nothing else decides over treatment and
event, differences of these are average effects of what was set. Intervals are quantiles of a
bootstrap's replicates, over whose rows means are taken, too. With probabilities of treatment risks
are corrected by what rows with that treatment had (`_augmented`), and terms of rows have errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import narwhals as nw
import numpy as np
from pandas import DataFrame, MultiIndex, isna
from sklearn.utils import _safe_indexing

from .._tables import Result, counted
from ..data.by_column import find_column
from ..data.checks import check_horizons, check_offset, check_sample_weight
from ..data.design.columns import build_design
from ..data.intervals import check_level, tails
from ..data.partitioned import require_in_memory
from ..data.vectors import check_length, check_order, check_row_values
from ..estimators._hazards import HazardModels, open_hazards
from ..estimators._log_likelihood import check_arguments
from ..estimators.hazard_curves import incidence
from ..estimators.pipelines import open_pipeline, refuse_type, split_pipeline
from ..nonparametric.limits import normal_bound
from ._augmented import augmented_risks
from ._curves import replicate
from ._rows import documented, open_rows
from ._states import AT_ONCE
from .curve_intervals import check_replicates, lines_of
from .probability_intervals import replicate_hazards
from .residuals import open_survival_fit


@documented
def average_risk(
    estimator,
    X,
    y,
    scenarios,
    times,
    *,
    level=0.95,
    bootstrap=None,
    propensity=None,
    **fit_params,
) -> AverageRisk:
    """Average risks with columns set to given values, and their differences (g-formula).

    Parameters
    ----------
    estimator : CoxLassoCCD, FineGrayCCD, CauseSpecificCox or pipeline
        Fitted estimator with ``predict_risk``; the risk is that of its event of interest.
    <<rows_of_fit>>
    scenarios : dict of {str: dict}
        Values of columns by scenario, such as ``{"none": {"drug": 0}, "all": {"drug": 1}}``, or one
        for each row. Others are what they are; ``{}`` changes nothing. The first scenario is what
        others are compared with.
    times : float or array-like of shape (n_times,)
        Horizons, increasing.
    level : float, default=0.95
        Of the intervals.
    bootstrap : BootstrapResult, optional
        Replicates of the same fit, without which there are no intervals. Of CauseSpecificCox, of
        the fit of all hazards, ``joint_``, to rows as ``stack`` has them; what transformers before
        it have learned is then taken as known.
    propensity : array-like of shape (n_samples,) or (n_samples, n_treatments), optional
        Probabilities of each row's possible treatments, as from ``predict_proba`` of any
        classifier, in the order of the treatments; or of the second of two. The scenarios then set
        the treatment, a column, to one of its values each. The risks are those of augmented
        inverse probability weighting (AIPW), with intervals.
    <<more_of_fit>>

    Returns
    -------
    result : AverageRisk
        Risks of scenarios, and their differences and ratios.

    Notes
    -----
    AIPW risks are right where the model of risks is, or else those of treatment and of censoring:
    ``exp(-H)`` with the hazards H of censoring in rows of each treatment. They are those of
    ``riskRegression::ate(estimator="AIPTW", product.limit=FALSE)`` with a ``censor`` model
    stratified by treatment, and errors those with ``known.nuisance=TRUE``: they hold where all
    models do. Probabilities near 0 make them uncertain. Give each row a probability by a fit
    without it, as by ``cross_val_predict(..., method="predict_proba")``, where the classifier has
    many columns. They take the risk of every row at all times of censoring.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, average_risk, bootstrap
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 4, density=0.3, random_state=0)
    >>> model = CoxLassoCCD(alpha=0).fit(data.X, data.y)
    >>> replicates = bootstrap(model, data.X, data.y, n_replicates=50, random_state=0)
    >>> scenarios = {"none": {0: 0}, "all": {0: 1}}
    >>> result = average_risk(model, data.X, data.y, scenarios, 20, bootstrap=replicates)
    >>> result
    <AverageRisk in 2 scenarios by 1 time, 95% intervals>
                     risk standard_error   lower   upper
    scenario time
    none     20    0.2725        0.01597  0.2454  0.3028
    all      20    0.2702        0.02039  0.2411  0.3152
    >>> result.contrasts.filter(like="ratio").round(2)
                   ratio  ratio_lower  ratio_upper
    scenario time
    all      20.0   0.99          0.9         1.13

    By weights as well, with a model of who has a 1 in column 0:

    >>> from sksurvgpu import LogisticCCD
    >>> treated = data.X.toarray()[:, 0]
    >>> chances = LogisticCCD(alpha=0).fit(data.X[:, 1:], treated).predict_proba(data.X[:, 1:])
    >>> average_risk(model, data.X, data.y, scenarios, 20, propensity=chances)
    <AverageRisk in 2 scenarios by 1 time, 95% intervals>
                     risk standard_error   lower   upper
    scenario time
    none     20    0.2749        0.01672  0.2421  0.3076
    all      20    0.2602        0.02474  0.2118  0.3087
    """
    check_order(X=require_in_memory(X), propensity=propensity, **fit_params)
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame) and not isinstance(X, DataFrame):
        X = DataFrame(frame.to_dict(as_series=False))
    estimator = getattr(estimator, "best_estimator_", estimator)
    if not hasattr(estimator, "predict_risk"):
        refuse_type(estimator, fitted="a fitted survival")
    check_arguments(split_pipeline(estimator)[1], fit_params, "average_risk")
    horizons, level = check_horizons(times), check_level(level)
    tables = _tables(X, scenarios)
    strata = fit_params.get("strata")
    if strata is None and "stratum" in (y.dtype.names or ()):
        strata = y["stratum"]
    base = check_sample_weight(fit_params.get("sample_weight"), len(y))
    weight = np.ones(len(y)) if base is None else base
    n_rows = next(iter(tables.values())).shape[0]
    if len(y) != n_rows:
        raise ValueError(f"`y` has {len(y):,} rows, `X` has {n_rows:,} rows.")
    is_joint = isinstance(split_pipeline(estimator)[1], HazardModels)
    offset = _check_offset(fit_params, n_rows, is_joint or propensity is not None)
    rows = [_risks(estimator, table, horizons, strata, offset) for table in tables.values()]
    if propensity is not None:
        if bootstrap is not None:
            raise ValueError("`propensity` has intervals of its own; leave out `bootstrap`.")
        given = {"risks": rows, "horizons": horizons, "weight": weight, "strata": strata}
        rows = augmented_risks(estimator, X, y, scenarios, propensity, **given)
        return AverageRisk.of_rows([*tables], horizons, rows, weight, level)
    risks = [weight @ own / weight.sum() for own in rows]
    draws = None
    if bootstrap is not None:
        fit = {"X": X, "y": y, "fit_params": fit_params, "strata": strata, "times": horizons}
        one = partial(_replicate, base=base, scale=1.0 if offset is None else np.exp(offset))
        replicates = _replicate_hazards if is_joint else one
        draws = [replicates(bootstrap, estimator, table, **fit) for table in tables.values()]
    return AverageRisk.of([*tables], horizons, np.array(risks), draws, level)


def _check_offset(fit_params, n_rows, is_refused):
    """Offsets of rows, (n_rows, 1); None without any."""
    offset = check_offset(fit_params.get("offset"), n_rows)
    if offset is not None and is_refused:
        raise ValueError("`offset` is not for `propensity` or several hazards; fit without it.")
    return None if offset is None else offset[:, None]


def _risks(estimator, table, horizons, strata, offset):
    """Risks of rows at their offsets, with which those at 0 may be next to 1."""
    if offset is not None:
        model, table = open_pipeline(estimator, table)
        return model._risks(table, horizons, strata, offset=offset).to_numpy()
    of_strata = {} if strata is None else {"strata": strata}
    return estimator.predict_risk(table, horizons, **of_strata).to_numpy()


def _replicate(bootstrap, estimator, table, *, X, y, fit_params, strata, base, scale, times):
    """Average risks of replicates, (n_replicates, n_times)."""
    refits = None
    if getattr(bootstrap, "_columns", None):
        refits = replace(bootstrap._columns[0], X=X, y=y, fit_params=fit_params)
        refits = partial(refits.reopen, X_new=table)
    model, X, table = open_survival_fit(estimator, "replicates of average risks", X, table)
    check_replicates(model, bootstrap)
    rows = open_rows(model, X, y, fit_params)
    lines = replace(lines_of(rows, table, strata, 0.0), refit=refits)

    def average(hazards, weight):
        return weight @ incidence(hazards * scale) / weight.sum()

    return replicate(lines, bootstrap, times, base, average)


def _replicate_hazards(bootstrap, estimator, table, *, X, y, fit_params, strata, times):
    """Average risks of replicates by several hazards, whose steps some rows at a time have."""
    model, X, table = open_pipeline(estimator, X, table)
    hazards = open_hazards(model, y, fit_params.get("strata"), None, None)
    stacked, total = model.stack(X, y, **fit_params), 0.0
    n_at_once = max(1, AT_ONCE // (len(hazards.models) * len(model.unique_times_)))
    for rows in np.split(np.arange(len(y)), range(n_at_once, len(y), n_at_once)):

        def share(risk, weight, rows=rows):
            return weight[rows] @ risk / weight[: len(y)].sum()

        own = None if strata is None else np.asarray(strata)[rows]
        new = {"start": None, "strata": own, "reduce": share}
        some = _safe_indexing(table, rows)
        total = total + replicate_hazards(hazards, stacked, bootstrap, some, times, **new)
    return total


def _tables(X, scenarios):
    """X under each scenario."""
    is_fine = isinstance(scenarios, Mapping) and len(scenarios) > 0
    if not is_fine or not all(isinstance(changes, Mapping) for changes in scenarios.values()):
        raise TypeError(
            f"`scenarios` is {scenarios!r}, must be a dictionary of dictionaries, such as "
            '{"none": {"drug": 0}, "all": {"drug": 1}}.'
        )
    return {name: _with_values(X, changes) for name, changes in scenarios.items()}


def _with_values(X, changes):
    """Table whose columns have other values, one or one a row."""
    if isinstance(X, DataFrame):
        names = X.columns.to_numpy()
        table, places = X.copy(), [find_column(k, "scenarios", len(names), names) for k in changes]
        for j, (key, value) in zip(places, changes.items(), strict=True):
            _check_level(X.iloc[:, j], value)
            check_order(X=X, **{(name := f"scenarios[...][{key!r}]"): value})
            if np.ndim(value):
                check_length(np.asarray(value), name, len(X))
            table[names[j]] = getattr(value, "array", value)  # rows as they stand
        return table
    design = build_design(X, may_be_computed=True)
    for column, value in changes.items():
        j = find_column(column, "scenarios", design.n_columns, design.names)
        given = np.full(design.n_rows, value) if np.ndim(value) == 0 else value
        own = check_row_values(given, f"scenarios[...][{column!r}]", design.n_rows)[:, None]
        others = np.delete(np.arange(design.n_columns), j)
        changed = design.with_names(None).select(others).with_columns(own)
        place = np.insert(np.arange(len(others)), j, len(others))
        design = changed.select(place).with_names(design.names)
    return design.to_scipy().toarray() if isinstance(X, np.ndarray) else design  # for transformers


def _check_level(column, value):
    """Refuse levels that no row has, of which encoders make their reference perhaps."""
    given = np.ravel(np.asarray(value, dtype=object))
    given = [*sorted({v for v in given if isinstance(v, str)}), *given[isna(given)][:1]]
    absent = [v for v in given if not (column == v if isinstance(v, str) else column.isna()).any()]
    if absent:
        levels = ", ".join(map(repr, column.dropna().unique()[:5]))
        raise ValueError(
            f"`scenarios` sets {column.name!r} to {absent[0]!r}, which no row of `X` has; some "
            f"that it has are {levels}."
        )


@dataclass(frozen=True, eq=False, repr=False)
class AverageRisk(Result):
    """Average risks of scenarios and their differences; made by `average_risk`.

    Attributes
    ----------
    risks : pandas.DataFrame
        The average ``risk`` by ``scenario`` and ``time``; with a bootstrap or by AIPW its
        ``standard_error`` and the limits ``lower`` and ``upper``.
    contrasts : pandas.DataFrame
        The ``difference`` of the risk of each other scenario from that of the first, and the
        ``ratio`` of both, by scenario and time; with intervals ``difference_lower``,
        ``difference_upper``, ``ratio_lower`` and ``ratio_upper``, by AIPW symmetric in the
        difference and in the logarithm of the ratio.
    reference : str
        The first scenario.
    level : float
        Of the intervals.
    n_replicates : int
        Of the bootstrap, 0 without one.

    Examples
    --------
    See `average_risk`.
    """

    risks: DataFrame
    contrasts: DataFrame
    reference: str
    level: float
    n_replicates: int

    @classmethod
    def of(cls, names, times, risks, draws, level) -> AverageRisk:
        """Tables of risks (n_scenarios, n_times), and of those of replicates."""
        draws = None if draws is None else np.array(draws)
        found, contrasts = {"risk": risks}, {}
        if draws is not None:
            found["standard_error"] = draws.std(axis=1, ddof=1)
            found["lower"], found["upper"] = np.quantile(draws, tails(level), axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            for name, compare in (("difference", np.subtract), ("ratio", np.divide)):
                contrasts[name] = compare(risks[1:], risks[0])
                if draws is not None:
                    bounds = np.quantile(compare(draws[1:], draws[0]), tails(level), axis=1)
                    contrasts |= {f"{name}_lower": bounds[0], f"{name}_upper": bounds[1]}
        apart = _table(contrasts, names[1:], times)
        n_replicates = 0 if draws is None else len(draws[0])
        return cls(_table(found, names, times), apart, names[0], level, n_replicates)

    @classmethod
    def of_rows(cls, names, times, rows, weight, level) -> AverageRisk:
        """Tables of means of terms of rows, (n_scenarios, n_rows, n_times), with their errors."""
        share, bound = (weight / weight.sum())[:, None], normal_bound(level)
        risks = (share * rows).sum(axis=1)
        influence = share * (rows - risks[:, None])
        errors = np.linalg.norm(influence, axis=1)
        found = {"risk": risks, "standard_error": errors}
        found |= {"lower": risks - bound * errors, "upper": risks + bound * errors}
        apart = bound * np.linalg.norm(influence[1:] - influence[0], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):  # no ratio where nothing happens
            difference, ratio = risks[1:] - risks[0], risks[1:] / risks[0]
            relative = influence / risks[:, None]
        factor = np.exp(bound * np.linalg.norm(relative[1:] - relative[0], axis=1))
        contrasts = {"difference": difference, "difference_lower": difference - apart}
        contrasts |= {"difference_upper": difference + apart, "ratio": ratio}
        contrasts |= {"ratio_lower": ratio / factor, "ratio_upper": ratio * factor}
        apart = _table(contrasts, names[1:], times)
        return cls(_table(found, names, times), apart, names[0], level, 0)

    def _title(self) -> str:
        intervals = f", {100 * self.level:g}% intervals" if "lower" in self.risks else ""
        times = counted(self.risks.index.get_level_values("time").nunique(), "times")
        n_scenarios = self.risks.index.get_level_values("scenario").nunique()
        return f"AverageRisk in {counted(n_scenarios, 'scenarios')} by {times}{intervals}"

    def _head(self, n):
        return self.risks.head(n), len(self.risks)


def _table(columns, names, times):
    index = MultiIndex.from_product([names, times], names=["scenario", "time"])
    return DataFrame({name: values.ravel() for name, values in columns.items()}, index=index)
