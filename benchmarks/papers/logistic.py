"""Slides D: logistic and conditional logistic regression."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import sksurvgpu
from sksurvgpu import datasets

from .figures import draw_bars, draw_lines, series_of
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
    residual,
    search,
    timed,
)
from .rig import logistic as problem_of

SHAPES = ((5_000, 1_000), (50_000, 1_000), (5_000, 10_000), (50_000, 10_000))
CV_SHAPES = ((1_000, 200), (1_000, 1_000), (10_000, 5_000))
SEARCH = {"search": "auto", "start_variance": 0.01}
SETS = ((100, 100), (1_000, 100))  # strata of 20 rows, covariates
CLOGIT_EPS = (1e-9,)  # relative change of its log-likelihood, its default


@item("D", "logistic lasso")
def logistic(run):
    shapes = run.pick(((300, 30),), ((5_000, 1_000), (20_000, 1_000), (5_000, 4_000)), SHAPES)
    run.show(f"size | {SOLVED}")
    for k, (n, p) in enumerate(shapes):
        asked = CYCLOPS if k < run.pick(1, 2, 4) else None
        compare(run, problem_of(n, p), peer=asked, n=n, p=p, cells=n * p)
    run.note(
        "5 % ones, a fifth of the coefficients N(0, 2), penalty sqrt(2), intercept unpenalized"
    )
    rows = sorted(run.rows, key=lambda row: row["cells"])
    _draw(run, series_of(rows, "cells"), "Logistic lasso")


def _draw(run, series, title):
    with run.figure() as [ax]:
        look = {"xlabel": "rows x columns", "published": run.item.published, "title": title}
        draw_lines(ax, series, **look)


@item("D", "cross-validated logistic lasso, 10 x 1 and 10 x 10")
def logistic_cv(run):
    shapes = run.pick(((200, 20),), (*CV_SHAPES[:2], (4_000, 1_000)), CV_SHAPES)
    run.show("solver | size | folds | seconds:.3g | variances=tried:d | variance:.3g | KKT=kkt:.0e")
    for n, p in shapes:
        problem = problem_of(n, p)
        few = n * p <= run.pick(1e4, 1e6, 1e6)
        for n_repeats, algorithm in [(1, "majorized"), (10, "majorized"), (1, "exact")][: 2 + few]:
            _, found = search(run, problem, algorithm, None, 150, n_repeats=n_repeats, **SEARCH)
            name = f"{found['solver']}, 10 x {n_repeats}"
            run.add(folds=f"10 x {n_repeats}", cells=float(n * p), name=name, **found)
        in_r = (10, 1, 1e-3, 10.0, found["tried"])
        peer = measure_r(run, problem, CYCLOPS, (1e-8,), in_r) if few else None
        if peer is not None:
            row = {name: peer[name] for name in ("solver", "seconds")}
            row |= {"size": problem.size, "name": f"{peer['solver']}, 10 x 1"}
            run.add(folds="10 x 1", cells=float(n * p), tried=found["tried"], **row)
    run.note(
        "automatic search from a variance of 0.01; Cyclops: grid of as many variances, "
        "10 x 1, one thread"
    )
    _draw(run, series_of(run.rows, "cells", by="name"), "Cross-validated logistic lasso")


# -- matched sets -----------------------------------------------------------------------------


@item("D", "conditional logistic regression: time and bias, beside clogit and unconditional")
def conditional(run):
    run.show(
        "size=label | solver | seconds:.3g | of ours=ratio:.1f | KKT=kkt:.0e | slope:.3f | "
        "RMSE=rmse:.3f"
    )
    drawn = {"density": None, "zero_fraction": 0.0, "random_state": SEED}
    for n_sets, p in run.pick(((20, 4),), SETS, SETS):
        _conditional(run, datasets.simulate_matched(n_sets, p, **drawn), n_sets, p)
    run.note(
        "slope: of estimates on true coefficients, 1 without bias; no penalty; KKT over the "
        "largest slope at zero; uniform columns, coefficients N(0, 2), intercepts N(0, 0.25)"
    )
    rows = [row for row in run.rows if row["label"] == run.rows[-1]["label"]]
    published = [f for f in run.item.published if f.at == rows[0]["n"]]
    names = [row["solver"] for row in rows]
    everyone = names + [f"published: {f.hardware}" for f in published]
    seconds = [row["seconds"] for row in rows] + [f.seconds for f in published]
    with run.figure(2, width=6.0) as [left, right]:
        title = f"rows / columns / sets: {rows[0]['label']}"
        look = {"n_ours": len(rows), "log": True, "title": title}
        draw_bars(left, everyone, seconds, xlabel="seconds (log)", **look)
        look = {"xlabel": "slope of estimates on truth", "title": "Bias: 1 is none"}
        draw_bars(right, names, [row["slope"] for row in rows], form="{:.3f}", **look)
        right.axvline(1.0, color="#d1495b", lw=1.2, ls="--")


def _conditional(run, data, n_sets, p):
    n = len(data.y)
    label = f"{n:,} / {p} / {n_sets:,}"
    problem = Problem("matched", data.X, data.y, penalty=0.0)
    cases = data.y["case"].sum() / n_sets
    run.note(f"{label}: {cases:.1f} cases of 20 in the mean")
    found = [measure_ours(run, problem), measure_ours(run, problem, "exact", tol=1e-5)]
    found += [measure_r(run, problem, CLOGIT, CLOGIT_EPS), measure_r(run, problem)]
    found += [_unconditional(run, data, kind) for kind in ("sets as columns", "sets ignored")]
    for one in filter(None, found):
        coef = one["coef"]
        row = {name: value for name, value in one.items() if name != "coef"}
        row["slope"] = float(coef @ data.coef / (data.coef @ data.coef))
        row["rmse"] = float(np.sqrt(np.mean((coef - data.coef) ** 2)))
        run.add(label=label, n=n, ratio=one["seconds"] / found[0]["seconds"], **row)


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
    found = {"solver": f"unconditional, {kind}", "seconds": seconds, "kkt": residual(model)}
    return {**found, "coef": model.coef_[:p]}
