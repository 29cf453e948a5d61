"""Slides D: logistic and conditional logistic regression."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import sksurvgpu
from sksurvgpu import datasets

from .figures import draw_bars, draw_lines, panels, series_of
from .published import PUBLISHED
from .rig import (
    CLOGIT,
    CYCLOPS,
    SEED,
    SOLVED,
    Problem,
    compare,
    item,
    measure_ours,
    measure_r,
    plural,
    residual,
    timed,
)
from .rig import logistic as problem_of

SHAPES = ((5_000, 1_000), (50_000, 1_000), (5_000, 10_000), (50_000, 10_000))
CV_SHAPES = ((1_000, 200), (1_000, 1_000), (10_000, 5_000))
SETS = ((100, 100), (1_000, 100))  # strata of 20 rows, covariates
CLOGIT_EPS = (1e-9,)  # relative change of its log-likelihood, its default


@item("D", "logistic lasso")
def logistic(run):
    shapes = run.pick(((300, 30),), ((5_000, 1_000), (20_000, 1_000), (5_000, 4_000)), SHAPES)
    run.show(("size", "size", ""), *SOLVED)
    for k, (n, p) in enumerate(shapes):
        problem = problem_of(n, p)
        asked = CYCLOPS if k < run.pick(1, 2, 4) else None
        compare(run, problem, peer=asked, n=n, p=p, cells=n * p)
    run.note(
        "5 % ones, a fifth of the coefficients N(0, 2), penalty sqrt(2), intercept unpenalized"
    )
    figure, [ax] = panels(1, width=8.0)
    published = PUBLISHED["logistic"]
    series = {name: _sorted(*xy) for name, xy in series_of(run.rows, "cells").items()}
    draw_lines(ax, series, xlabel="rows x columns", published=published, title="Logistic lasso")
    run.keep(figure)


def _sorted(x, y):
    pairs = sorted(zip(x, y, strict=True))
    return [a for a, _ in pairs], [b for _, b in pairs]


@item("D", "cross-validated logistic lasso, 10 x 1 and 10 x 10")
def logistic_cv(run):
    shapes = run.pick(((200, 20),), (*CV_SHAPES[:2], (4_000, 1_000)), CV_SHAPES)
    run.show(
        ("solver", "solver", ""),
        ("size", "size", ""),
        ("folds", "folds", ""),
        ("seconds", "seconds", ".3g"),
        ("variances", "tried", "d"),
        ("variance", "variance", ".3g"),
        ("KKT", "kkt", ".0e"),
    )
    for n, p in shapes:
        problem = problem_of(n, p)
        for n_repeats in (1, 10):
            _search(run, problem, n_repeats, "majorized")
        if n * p <= run.pick(1e4, 1e6, 1e6):
            _search(run, problem, 1, "exact")
            _search_in_r(run, problem)
    run.note(
        "automatic search from a variance of 0.01; Cyclops: grid of as many variances, "
        "10 x 1, one thread"
    )
    figure, [ax] = panels(1, width=8.0)
    series = {}
    for row in run.rows:
        x, y = series.setdefault(f"{row['solver']}, {row['folds']}", ([], []))
        x.append(row["cells"])
        y.append(row["seconds"])
    draw_lines(
        ax,
        series,
        xlabel="rows x columns",
        published=PUBLISHED["logistic_cv"],
        title="Cross-validated logistic lasso",
    )
    run.keep(figure)


def _search(run, problem, n_repeats, algorithm):
    n_threads = run.threads if algorithm == "majorized" else 1
    how = {"n_jobs": n_threads, "backend": run.backend, "algorithm": algorithm, "max_iter": 10_000}
    cv = sksurvgpu.LogisticCV(
        search="auto", start_variance=0.01, cv=10, n_repeats=n_repeats, random_state=SEED, **how
    )
    few = problem.head(150)
    sksurvgpu.LogisticCV(alphas=[0.1], cv=10, **how).fit(few.X, few.y)
    seconds, _ = timed(cv.fit, problem.X, problem.y)
    best = cv.cv_results_.loc[cv.best_index_]
    name = "ours" if algorithm == "majorized" else "exact"
    run.add(
        solver=f"{name}, {plural(n_threads)}",
        size=problem.size,
        folds=f"10 x {n_repeats}",
        cells=float(np.prod(problem.X.shape)),
        seconds=seconds,
        tried=len(cv.cv_results_),
        variance=float(best["variance"]),
        kkt=residual(cv),
    )


def _search_in_r(run, problem):
    tried = run.rows[-1]["tried"]
    found = measure_r(run, problem, CYCLOPS, (1e-8,), (10, 1, 1e-3, 10.0, tried))
    if found is not None:
        run.add(
            solver=found["solver"],
            size=problem.size,
            folds="10 x 1",
            cells=float(np.prod(problem.X.shape)),
            seconds=found["seconds"],
            tried=tried,
        )


# -- matched sets -----------------------------------------------------------------------------


@item("D", "conditional logistic regression: time and bias, beside clogit and unconditional")
def conditional(run):
    run.show(
        ("size", "label", ""),
        ("solver", "solver", ""),
        ("seconds", "seconds", ".3g"),
        ("of ours", "ratio", ".1f"),
        ("KKT", "kkt", ".0e"),
        ("slope", "slope", ".3f"),
        ("RMSE", "rmse", ".3f"),
    )
    for n_sets, p in run.pick(((20, 4),), SETS, SETS):
        data = datasets.simulate_matched(
            n_sets, p, density=None, zero_fraction=0.0, random_state=SEED
        )
        _conditional(run, data, n_sets, p)
    run.note(
        "slope: of estimates on true coefficients, 1 without bias; no penalty; KKT over the "
        "largest slope at zero; uniform columns, coefficients N(0, 2), intercepts N(0, 0.25)"
    )
    figure, axes = panels(2, width=6.0)
    _draw_conditional(run, axes)
    run.keep(figure)


def _conditional(run, data, n_sets, p):
    n = len(data.y)
    label = f"{n:,} / {p} / {n_sets:,}"
    problem = Problem("matched", data.X, data.y, penalty=0.0)
    cases = data.y["case"].sum() / n_sets
    run.note(f"{label}: {cases:.1f} cases of 20 in the mean")
    found = [measure_ours(run, problem), measure_ours(run, problem, "exact", tol=1e-5)]
    found.append(measure_r(run, problem, CLOGIT, CLOGIT_EPS))
    found.append(measure_r(run, problem))
    for kind in ("sets as columns", "sets ignored"):
        found.append(_unconditional(run, data, kind))
    unit = found[0]["seconds"]
    for one in filter(None, found):
        coef = one.pop("coef")
        slope = float(coef @ data.coef / (data.coef @ data.coef))
        rmse = float(np.sqrt(np.mean((coef - data.coef) ** 2)))
        run.add(label=label, n=n, slope=slope, rmse=rmse, ratio=one["seconds"] / unit, **one)


def _unconditional(run, data, kind):
    """Logistic regression that estimates the sets' intercepts, or has but one."""
    X, y, p = data.X, data.y["case"].astype(int), data.X.shape[1]
    if kind == "sets as columns":
        n = len(y)
        sets = sparse.csc_array((np.ones(n), (np.arange(n), data.y["stratum"])))
        has_both = np.flatnonzero(np.isin(sets.T @ y, (0, 20), invert=True))
        rows = np.flatnonzero(sets[:, has_both].sum(axis=1))
        X = sparse.hstack([sparse.csc_array(X[rows]), sets[rows][:, has_both]], format="csc")
        y = y[rows]
    how = {"alpha": 0.0, "fit_intercept": kind == "sets ignored", "n_jobs": run.threads}
    model = sksurvgpu.LogisticCCD(backend=run.backend, max_iter=10_000, **how)
    model.fit(X[:200], y[:200])
    seconds, _ = timed(model.fit, X, y)
    return {
        "solver": f"unconditional, {kind}",
        "seconds": seconds,
        "coef": model.coef_[:p],
        "kkt": residual(model),
    }


def _draw_conditional(run, axes):
    sizes = list(dict.fromkeys(row["label"] for row in run.rows))
    rows = [row for row in run.rows if row["label"] == sizes[-1]]
    at = rows[0]["n"]
    published = [f for f in PUBLISHED["conditional"] if f.at == at]
    names = [row["solver"] for row in rows] + [f"published: {f.hardware}" for f in published]
    values = [row["seconds"] for row in rows] + [f.seconds for f in published]
    colours = ["#0b6fa4"] * len(rows) + ["#b5b5b5"] * len(published)
    draw_bars(
        axes[0],
        names,
        values,
        xlabel="seconds (log)",
        colours=colours,
        log=True,
        title=f"rows / columns / sets: {sizes[-1]}",
    )
    draw_bars(
        axes[1],
        [row["solver"] for row in rows],
        [row["slope"] for row in rows],
        xlabel="slope of estimates on truth",
        title="Bias: 1 is none",
        form="{:.3f}",
    )
    axes[1].axvline(1.0, color="#d1495b", lw=1.2, ls="--")
