"""Additive models of steps and splines beside linear ones and forests, on real cohorts."""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from sklearn.model_selection import KFold

from sksurvgpu import (
    CategoryColumns,
    CoxLassoCV,
    PrepareColumns,
    SplineColumns,
    StepColumns,
    as_sksurv,
    make_pipeline,
    surv,
)
from sksurvgpu.metrics import concordance, integrated_brier_score

from .report import Option, columns, lines, read, save

FOLDS, INNER, MOST_ROWS, MOST_NUMBERS, FEWEST_EVENTS = 5, 5, 3_000, 40, 60
MODELS = ("linear", "steps", "splines", "forest", "boosting")
SHOWN = columns(
    "cohort | rows:,.0f | events:,.0f | numbers:.0f | "
    + " | ".join(f"{name}={name}_brier:.4f" for name in MODELS)
    + " | "
    + " | ".join(f"C {name}={name}_c:.3f" for name in MODELS)
)


def main_additive(arguments=None):
    """Integrated Brier score and concordance on folds that no model has seen.

    Cohorts of SurvSet with a numeric column that is not coded, of the first 3,000 rows in random
    order. Penalties are chosen by cross-validation within the folds. Forest and boosting are
    scikit-survival's, 100 trees, at least 15 rows a leaf, as they come otherwise.
    """
    options = read("additive", main_additive.__doc__, arguments, cohorts=Option({"nargs": "+"}))
    warnings.simplefilter("ignore")
    results = []
    for name in options.cohorts or _cohorts():
        found = _compare(name)
        if found is not None:
            results.append(found)
            print(f"{name}: {found['seconds']}", file=sys.stderr, flush=True)
            save(options, results=results)
        if options.quick and results:
            break
    print(lines(SHOWN, results))
    for model in MODELS[1:]:
        pairs = np.array([[r[f"{model}_brier"], r["linear_brier"]] for r in results])
        print(
            f"{model}: better than linear in {np.sum(pairs[:, 0] < pairs[:, 1])} of {len(pairs)}, "
            f"mean ratio of Brier scores {np.mean(pairs[:, 0] / pairs[:, 1]):.4f}"
        )


def _cohorts():
    from SurvSet.data import SurvLoader

    table = SurvLoader().df_ds
    is_chosen = ~table["is_td"] & table["n_num"].between(1, MOST_NUMBERS) & (table["n"] >= 200)
    return table["ds"][is_chosen].tolist()


def _read(name):
    """Numbers and factors of a cohort, without those that hardly vary, and its outcome."""
    from SurvSet.data import SurvLoader

    frame = SurvLoader().load_dataset(ds_name=name)["df"].sample(frac=1.0, random_state=0)
    frame = frame.iloc[:MOST_ROWS].reset_index(drop=True)
    X = frame[[c for c in frame.columns if c.startswith(("num_", "fac_"))]].copy()
    numbers = [c for c in X if c.startswith("num_") and X[c].nunique() > 2]
    X[numbers] = X[numbers].fillna(X[numbers].median())
    X = X.drop(columns=[c for c in X if c.startswith("num_") and X[c].nunique() < 3])
    y = surv(frame["event"] == 1, np.maximum(frame["time"], 1e-3))
    return X, y, numbers


def _compare(name):
    X, y, numbers = _read(name)
    if not numbers or y["event"].sum() < FEWEST_EVENTS:
        return None
    losses = {model: [] for model in MODELS}
    seconds = dict.fromkeys(MODELS, 0.0)
    for train, test in KFold(FOLDS, shuffle=True, random_state=1).split(X):
        # within what censoring leaves of both
        last = min(np.quantile(y["time"][rows], 0.9) for rows in (train, test))
        events = y["time"][train][y["event"][train]]
        times = np.unique(np.quantile(events[events < last], np.linspace(0.1, 0.95, 15)))
        for model in MODELS:
            start = time.perf_counter()
            fitted = _fit(model, numbers, X.iloc[train], y[train])
            risk = np.asarray(fitted(X.iloc[test], times))
            seconds[model] += time.perf_counter() - start
            brier = integrated_brier_score(y[train], y[test], risk, times)
            c = concordance(y[test], risk[:, len(times) // 2])
            losses[model].append((brier, c))
    found = {"cohort": name, "rows": len(X), "events": int(y["event"].sum())}
    found |= {"numbers": len(numbers), "seconds": seconds}
    for model, values in losses.items():
        found[f"{model}_brier"], found[f"{model}_c"] = np.mean(values, axis=0).tolist()
    return found


def _fit(model, numbers, X, y):
    """Fit; a function of risks of rows at times."""
    factors = CategoryColumns(min_count=5, unknown="other")
    own = {"steps": StepColumns(columns=numbers), "splines": SplineColumns(columns=numbers)}
    if model in ("linear", "steps", "splines"):
        steps = [factors, own[model]] if model in own else [factors]
        if model != "steps":  # whose columns are as they are to be
            steps.append(PrepareColumns(min_count=3, scale="sd"))
        lasso = CoxLassoCV(cv=INNER, random_state=0, ties="efron")
        return make_pipeline(*steps, lasso).fit(X, y).predict_risk
    return _by_trees(model, factors, X, y)


def _by_trees(model, factors, X, y):
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis, RandomSurvivalForest

    trees = {"n_estimators": 100, "min_samples_leaf": 15, "random_state": 0}
    found = (
        RandomSurvivalForest(n_jobs=2, **trees)
        if model == "forest"
        else GradientBoostingSurvivalAnalysis(**trees)
    )
    table = factors.fit_transform(X).to_scipy().toarray()
    found.fit(table, as_sksurv(y))

    def risk(rows, times):
        curves = found.predict_survival_function(factors.transform(rows).to_scipy().toarray())
        return np.array([1.0 - curve(np.clip(times, *curve.domain)) for curve in curves])

    return risk
