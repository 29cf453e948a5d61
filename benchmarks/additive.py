"""Additive models of steps and splines beside linear ones and forests, on real cohorts."""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from sklearn.model_selection import KFold

from sksurvgpu import (
    CategoryColumns,
    CoxLassoCCD,
    CoxLassoCV,
    PrepareColumns,
    SplineColumns,
    StepColumns,
    as_sksurv,
    make_pipeline,
    surv,
)
from sksurvgpu.metrics import calibration, concordance, integrated_brier_score

from .report import Option, columns, lines, read, save

FOLDS, INNER, MOST_ROWS, MOST_NUMBERS, FEWEST_EVENTS = 5, 5, 2_000, 200, 40
LIMIT = 600  # CPU seconds of a model's folds, after which no further one is begun
MODELS = ("linear", "steps", "splines", "forest", "boosting")
SCORES = ("brier", "c", "ici", "slope")
SHOWN = columns("cohort | rows:,.0f | events:,.0f | numbers:.0f")
SHOWN += columns(" | ".join(f"{name}={name}_brier:.4f" for name in MODELS))
SHOWN += columns(" | ".join(f"C {name}={name}_c:.3f" for name in MODELS))
SHOWN += columns(" | ".join(f"ICI {name}={name}_ici:.3f" for name in MODELS))
SHOWN += columns(" | ".join(f"slope {name}={name}_slope:.2f" for name in MODELS))


def main_additive(arguments=None):
    """Integrated Brier score, concordance and calibration on folds that no model has seen.

    Cohorts of SurvSet with a numeric column that is not coded, of the first 2,000 rows in random
    order. Penalties are chosen by cross-validation within the folds. Forest and boosting are
    scikit-survival's, 100 trees, at least 15 rows a leaf, as they come otherwise.
    """
    options = read("additive", main_additive.__doc__, arguments, cohorts=Option({"nargs": "+"}))
    warnings.simplefilter("ignore")
    results, left_out = [], {}
    for name in options.cohorts or _cohorts():
        found = _compare(name)
        if isinstance(found, str):
            left_out[name] = found
        else:
            results.append(found)
            print(f"{name}: {found['seconds']}", file=sys.stderr, flush=True)
        save(options, results=results, left_out=left_out)
        if options.quick and results:
            break
    print(lines(SHOWN, results))
    for model in MODELS[1:]:
        print(_beside_linear(model, results))


def _beside_linear(model, results):
    both = [(r[f"{model}_brier"], r["linear_brier"]) for r in results if f"{model}_brier" in r]
    ratio = np.divide(*np.transpose(both))
    better = f"better than linear in {np.sum(ratio < 1)} of {len(ratio)}"
    return (
        f"{model}: {better}, ratio of Brier scores: mean {np.mean(ratio):.4f}, "
        f"median {np.median(ratio):.4f}, {ratio.min():.3f} to {ratio.max():.3f}"
    )


def _cohorts():
    from SurvSet.data import SurvLoader

    return SurvLoader().df_ds["ds"].tolist()


def _read(name):
    """Numbers and factors of a cohort, without those that hardly vary, and its outcome.

    Or why it is left out.
    """
    from SurvSet.data import SurvLoader

    loader = SurvLoader()
    about = loader.df_ds.set_index("ds").loc[name]
    if about["is_td"]:
        return "columns that change in time"
    if about["n_num"] > MOST_NUMBERS:
        return f"more than {MOST_NUMBERS} numeric columns"
    frame = loader.load_dataset(ds_name=name)["df"].sample(frac=1.0, random_state=0)
    if (frame["event"] == 1).sum() < FEWEST_EVENTS:
        return f"fewer than {FEWEST_EVENTS} events"
    frame = frame.iloc[:MOST_ROWS].reset_index(drop=True)
    X = frame[[c for c in frame.columns if c.startswith(("num_", "fac_"))]].copy()
    numbers = [c for c in X if c.startswith("num_") and X[c].nunique() > 2]
    if not numbers:
        return "no numeric column"
    X[numbers] = X[numbers].fillna(X[numbers].median())
    X = X.drop(columns=[c for c in X if c.startswith("num_") and X[c].nunique() < 3])
    y = surv(frame["event"] == 1, np.maximum(frame["time"], 1e-3))
    return X, y, numbers


def _compare(name):
    """Mean scores of the models over the folds, or why the cohort is left out."""
    read = _read(name)
    if isinstance(read, str):
        return read
    X, y, numbers = read
    middle = np.median(y["time"][y["event"]])
    losses = {model: [] for model in MODELS}
    seconds, by_middle = dict.fromkeys(MODELS, 0.0), {m: np.empty(len(X)) for m in MODELS}
    for train, test in KFold(FOLDS, shuffle=True, random_state=1).split(X):
        times = _times(y, train, test, middle)
        for model in [m for m in MODELS if seconds[m] < LIMIT]:
            start = time.process_time()
            fitted = _fit(model, numbers, X.iloc[train], y[train])
            risk = np.asarray(fitted(X.iloc[test], times))
            seconds[model] += time.process_time() - start
            at = by_middle[model][test] = risk[:, np.searchsorted(times, middle)]
            brier = integrated_brier_score(y[train], y[test], risk, times)
            losses[model].append((brier, concordance(y[test], at)))
    found = {"cohort": name, "rows": len(X), "events": int(y["event"].sum())}
    found |= {"numbers": len(numbers), "seconds": seconds, "middle": float(middle)}
    for model in [m for m in MODELS if len(losses[m]) == FOLDS]:
        scores = *np.mean(losses[model], axis=0).tolist(), *_calibrate(y, by_middle[model], middle)
        found |= {f"{model}_{s}": v for s, v in zip(SCORES, scores, strict=True)}
    return found


def _times(y, train, test, middle):
    """Quantiles of the events' times within what censoring leaves of both, and the middle."""
    first = y["time"][test].min()
    last = min(np.quantile(y["time"][rows], 0.9) for rows in (train, test))
    events = y["time"][train][y["event"][train]]
    inside = events[(events >= first) & (events < max(last, middle))]
    return np.union1d(np.quantile(inside, np.linspace(0.1, 0.95, 15)), middle)


def _calibrate(y, risk, horizon):
    """Integrated calibration index and slope at a time, of Austin, Harrell and van Klaveren (2020).

    Mean distance of the risks from those of a Cox model of a cubic spline of three knots in
    log(-log(1 - risk)), and the coefficient of that in a model of it alone, which is 1 at best.
    """
    until = surv(y["event"] & (y["time"] <= horizon), np.minimum(y["time"], horizon))
    risk = np.clip(risk, 1e-4, 1 - 1e-4)
    x = np.log(-np.log1p(-risk))
    if np.ptp(x) < 1e-3:  # nearly one risk for all, of which there is no slope
        overall = calibration(y, risk, horizon, n_groups=1)
        return abs(overall.observed - overall.expected), None
    low, mid, high = np.quantile(x, [0.1, 0.5, 0.9])
    columns = [x]
    if min(mid - low, high - mid) > 1e-3:
        above = [np.maximum(x - knot, 0.0) ** 3 for knot in (low, mid, high)]
        share = (high - mid, low - high, mid - low)  # linear beyond the outer knots
        columns.append(np.dot(share, above) / (high - low) ** 3)
    shaped = CoxLassoCCD(alpha=0.0, ties="efron").fit(np.column_stack(columns), until)
    line = CoxLassoCCD(alpha=0.0, ties="efron").fit(x[:, None], until)
    seen = np.ravel(shaped.predict_risk(np.column_stack(columns), [horizon]))
    return float(np.mean(np.abs(seen - risk))), float(line.coef_[0])


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
