"""Paper B and slides D: case series with many drugs; logistic and conditional logistic models."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy import optimize, sparse
from scipy.special import expit

import sksurvgpu
from sksurvgpu import Design, datasets
from sksurvgpu.data.design.columns import DENSE

from .beside import CLOGIT, CYCLOPS, SOLVED, compare, measure_r
from .figures import COLOURS, draw_bars, draw_lines, series_of
from .rig import (
    GAMMA,
    SEED,
    TOLERANCE,
    Problem,
    item,
    measure_ours,
    name_of,
    repeat,
    residual,
    search,
    timed,
)
from .rig import logistic as problem_of

MEAN_ERAS, USE = 28.0, 0.01  # eras of a subject, and the share of them in which a drug is taken
MEAN_DAYS = 29.0  # of an era, after its first
DENSE_BYTES = 4e9  # beyond, no dense copy is made
SUBJECTS, FEW_SUBJECTS = 100_000, 100  # of a batch of files, and of the fit that loads kernels


def series(n_subjects, n_drugs, mean_eras=MEAN_ERAS, density=USE):
    """Subjects with an event, and the eras of their drugs."""
    data = datasets.simulate_case_series(
        n_subjects, n_drugs, mean_eras=mean_eras, density=density, random_state=SEED
    )
    X = data.X
    X.data = np.ones(X.nnz, bool)  # in an eighth of the memory
    return Problem("case-series", X, data.y)


def as_dense(X):
    """A matrix with every column kept dense, which the package does not do by itself."""
    n, p = X.shape
    kind = np.full(p, DENSE, np.uint8)
    values = np.ascontiguousarray(X.toarray().T, dtype=float).ravel()
    starts = np.arange(p, dtype=np.int64) * n
    return Design(n, kind, np.zeros(p + 1, np.int64), np.empty(0, np.int32), values, starts)


@item("B", "sparse against dense columns and the exact algorithm, over eras")
def eras(run):
    n_drugs = run.pick(20, 200, 1_224)
    subjects = run.pick((60, 120), (500, 1_500, 5_000, 10_000), (115_000, 500_000, 1_000_000))
    run.show(f"size | eras=n:,d | {SOLVED}")
    for k, n_subjects in enumerate(subjects):
        problem = series(n_subjects, n_drugs)
        asked = CYCLOPS if k < run.pick(1, 3, 1) else None
        has_exact = n_subjects <= run.pick(1_000, 10_000, 500_000)
        found = compare(run, problem, peer=asked, exact=has_exact, n=problem.n, layout="sparse")
        if 8.0 * problem.n * n_drugs > DENSE_BYTES:
            run.note(f"{problem.size}: a dense copy takes {8e-9 * problem.n * n_drugs:.0f} GB")
            continue
        _dense(run, problem, found[0]["seconds"])
    _in_partitions(run, run.pick(300, 20_000, 2_680_000), n_drugs)
    run.note(
        f"{100 * USE:g} % of the entries are ones; dense: the same X, each column as an array "
        "of all rows; exact on dense is the published starting point"
    )
    with run.figure() as [ax]:
        title = f"One fit, {n_drugs:,} drugs; published: their largest series"
        look = {"xlabel": "eras", "title": title, "published": run.item.published}
        draw_lines(ax, series_of(run.rows, "n"), **look)


def _dense(run, problem, unit):
    design = as_dense(problem.X)
    for algorithm in ("majorized", "exact"):
        one = measure_ours(run, problem, algorithm, 1, X=design)
        one.pop("coef")
        one |= {"solver": f"{one['solver']}, dense", "ratio": one["seconds"] / unit}
        run.add(n=problem.n, size=problem.size, layout="dense", **one)


def _in_partitions(run, n_subjects, n_drugs):
    """A fit of a series in files, which is drawn in batches: as a whole it would fill memory."""
    rng, whole = np.random.default_rng([SEED, 4]), min(n_subjects, SUBJECTS)
    coef = np.where(rng.random(n_drugs) < 0.2, rng.normal(0.0, 0.5, n_drugs), 0.0)
    batches = (draw_eras(whole, first, coef, rng) for first in range(0, n_subjects, whole))
    fit = partial(sksurvgpu.CaseSeriesCCD, tol=TOLERANCE, max_iter=10_000, **run.how)
    with tempfile.TemporaryDirectory() as folder:
        written, data = timed(
            sksurvgpu.write_partitions, f"{folder}/eras", batches, group="subject"
        )
        n = sum(data.lengths)
        fit(alpha=GAMMA / n).fit(*draw_eras(FEW_SUBJECTS, 0, coef, rng))  # loads kernels
        times, model = repeat(lambda: fit(alpha=GAMMA / n).fit(data.X, data.y))
        size = f"{n:,} x {n_drugs:,}"
        files = sum(path.stat().st_size for path in Path(folder).rglob("*.npy"))
    name = f"{name_of('majorized', run.threads)}, files"
    found = {"solver": name, **times, "kkt": residual(model), "iterations": int(model.n_iter_)}
    run.add(n=n, size=size, layout="files", nonzeros=int((model.coef_ != 0).sum()), **found)
    run.note(
        f"{size}, {n_subjects:,} subjects with one event each, in {len(data.lengths):,} "
        f"partitions of {1e-9 * files:.1f} GB, drawn and written in {written:.0f} s; "
        "the residual is the package's own"
    )


def draw_eras(n_subjects, first, coef, rng):
    """X and y of subjects with one event, which falls into an era by its length and drugs."""
    n_eras = 1 + rng.poisson(MEAN_ERAS - 1.0, n_subjects)
    n, p = int(n_eras.sum()), len(coef)
    gaps = rng.geometric(USE, int(1.01 * USE * n * p) + 1_000)  # along one column after the other
    place = np.cumsum(gaps)
    column, row = np.divmod(place[place < n * p], n)
    indptr = np.searchsorted(column, np.arange(p + 1))
    X = sparse.csc_array((np.ones(len(row), bool), row.astype(np.int32), indptr), shape=(n, p))
    length = 1.0 + np.round(MEAN_DAYS * rng.standard_exponential(n))
    start = np.cumsum(n_eras) - n_eras
    drawn = X @ coef + np.log(length) + rng.gumbel(size=n)
    count = (drawn == np.repeat(np.maximum.reduceat(drawn, start), n_eras)).astype(int)
    subject = np.repeat(first + np.arange(n_subjects), n_eras)
    return X, sksurvgpu.case_series(count, length, subject)


@item("B", "variance of the prior by 10-fold cross-validation, L1 and L2")
def variance(run):
    problem = series(*run.pick((120, 20), (3_000, 300), (115_000, 1_224)))
    run.show(
        "prior | search | seconds:.3g | CPU s=cpu_seconds:.3g | variances=tried:d | "
        "variance:.3g | score:.5f | selected:,d | KKT=kkt:.0e"
    )
    searches = {}
    for prior, share in (("L1", 1.0), ("L2", 0.0)):
        problem.parameters = {"l1_ratio": share}
        grid = {"alphas": _grid(problem, share, run.pick(4, 15, 10)), "early_stopping": False}
        for name, how in (("log grid", grid), ("auto", {"search": "auto", "start_variance": 0.01})):
            cv = _search(run, problem, prior, name, **how)
            searches[prior, name] = cv
        if prior == "L1":  # the folds at the chosen variance alone
            for algorithm in ("majorized", "exact"):
                name, how = f"the chosen one, {algorithm}", {"alphas": [cv.alpha_]}
                _search(run, problem, prior, name, algorithm=algorithm, **how)
    run.note("score: mean held-out log-likelihood an event; the same folds for every variance")
    with run.figure(2) as axes:
        for ax, prior in zip(axes, ("L1", "L2"), strict=True):
            _draw_search(ax, searches[prior, "log grid"], searches[prior, "auto"], prior)


def _search(run, problem, prior, name, **how):
    cv, found = search(run, problem, n_threads=run.threads, **how)
    if prior == "L2":  # the largest useful penalty of the lasso: a ridge's is 1,000 times that
        found["kkt"] *= 1_000.0
    run.add(prior=prior, search=name, **found)
    return cv


def _grid(problem, share, count):
    """Penalties of variances from 1e-4 to 10, largest penalty first."""
    variances = np.geomspace(1e-4, 10.0, count)
    gamma = np.sqrt(2.0 / variances) if share == 1.0 else 1.0 / variances
    return gamma / problem.n


def _draw_search(ax, grid, auto, prior):
    found, tried = grid.cv_results_, auto.cv_results_
    low, high = (found.mean_score + k * found.standard_error for k in (-1.0, 1.0))
    ax.fill_between(found.variance, low, high, color=COLOURS[0], alpha=0.2, lw=0)
    ax.plot(found.variance, found.mean_score, "-o", color=COLOURS[0], ms=4, label="grid, +- 1 SE")
    ax.plot(tried.variance, tried.mean_score, "D", color=COLOURS[1], ms=6, label="auto: tried")
    best, ring = tried.loc[auto.best_index_], {"ms": 13, "mfc": "none", "mec": COLOURS[1]}
    ax.plot(best["variance"], best["mean_score"], "o", label="auto: chosen", **ring)
    ax.legend(loc="lower right")
    ax.set_xscale("log")
    ylabel = "held-out log-likelihood an event"
    ax.set(xlabel="prior variance", ylabel=ylabel, title=f"{prior} prior")


@item("B", "bootstrap intervals of 441 drugs, shaded by how often each was selected")
def drugs(run):
    problem = series(*run.pick((150, 30), (8_000, 500), (76_000, 1_162)))
    n_replicates = run.pick(20, 200, 200)
    cv = sksurvgpu.CaseSeriesCV(search="auto", cv=10, **run.how)
    how = {"n_replicates": n_replicates, "random_state": SEED}
    chosen, model = timed(lambda: cv.fit(problem.X, problem.y).refit_model())
    seconds, result = timed(sksurvgpu.bootstrap, model, problem.X, problem.y, **how)
    run.show("drugs shown=what | number:,d | median width=width:.3f | selected in=selected:.0%")
    table = result.intervals.assign(frequency=result.selection_frequency)
    ordered = table.frequency[table.frequency > 0].sort_values(ascending=False)
    least = float(ordered.iloc[: run.pick(20, 441, 441)].iloc[-1])
    shown = table[table.frequency >= least]
    for name, low, high in (
        ("in 95 % or more", 0.95, 1.01),
        ("in half or more", 0.5, 0.95),
        ("less often", 0.0, 0.5),
    ):
        part = shown[(shown.frequency >= low) & (shown.frequency < high)]
        width = float((part.upper - part.lower).median()) if len(part) else None
        share = float(part.frequency.mean()) if len(part) else None
        run.add(what=name, number=len(part), width=width, selected=share)
    problem.penalty = cv.alpha_ * problem.n
    one, exact = (measure_ours(run, problem, name) for name in ("majorized", "exact"))
    run.note(
        f"{problem.size}, {len(np.unique(problem.y['subject'])):,} subjects; search "
        f"{chosen:.2f} s, {n_replicates} replicates {seconds:.2f} s, one fit "
        f"{one['seconds']:.3f} s (KKT {one['kkt']:.0e}), exact {exact['seconds']:.3f} s "
        f"(KKT {exact['kkt']:.0e}), {n_replicates} times that "
        f"{n_replicates * exact['seconds']:,.0f} s"
    )
    with run.figure(width=7.0, height=8.0) as [ax]:
        how = {"min_frequency": least, "n_labels": 0}
        sksurvgpu.BootstrapDisplay.from_result(result, ax=ax, **how)
        ax.set_title(f"{len(shown)} drugs, {n_replicates} replicates over subjects")


SHAPES = ((5_000, 1_000), (50_000, 1_000), (5_000, 10_000), (50_000, 10_000))
CV_SHAPES = ((1_000, 200), (1_000, 1_000), (10_000, 5_000))
SEARCH = {"search": "auto", "start_variance": 0.01}
SETS = ((100, 100, 8.3), (1_000, 100, 13.3))  # strata of 20 rows, covariates, cases in the mean
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
    run.show(
        "solver | size | folds | seconds:.3g | CPU s=cpu_seconds:.3g | variances=tried:d | "
        "variance:.3g | KKT=kkt:.0e"
    )
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


@item("D", "conditional logistic regression: time and bias, beside clogit and unconditional")
def conditional(run):
    run.show(
        "size=label | solver | seconds:.3g | of ours=ratio:.1f | KKT=kkt:.0e | slope:.3f | "
        "RMSE=rmse:.3f"
    )
    for n_sets, p, cases in run.pick(((20, 4, 8.3),), SETS, SETS):
        _conditional(run, draw_sets(n_sets, p, cases), n_sets, p)
    run.note(
        "slope: of estimates on true coefficients, 1 without bias; no penalty; KKT over the "
        "largest slope at zero; uniform columns, coefficients N(0, 2), intercepts N(0, 0.25) "
        "and a constant, chosen for the published number of cases"
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


def draw_sets(n_sets, p, cases):
    """Sets of 20 rows with so many cases in the mean, by a constant added to their intercepts."""
    drawn = {"density": None, "zero_fraction": 0.0, "random_state": SEED}
    data = datasets.simulate_matched(n_sets, p, **drawn)
    eta = data.X @ data.coef + np.repeat(data.intercept, 20)
    constant = optimize.brentq(lambda a: 20.0 * expit(eta + a).mean() - cases, -200.0, 200.0)
    case = np.random.default_rng([SEED, 3]).random(len(eta)) < expit(eta + constant)
    return replace(data, y=sksurvgpu.matched(case, data.y["stratum"]))


def _conditional(run, data, n_sets, p):
    n = len(data.y)
    label = f"{n:,} / {p} / {n_sets:,}"
    problem = Problem("matched", data.X, data.y, penalty=0.0)
    cases = data.y["case"].sum() / n_sets
    run.note(f"{label}: {cases:.1f} cases of 20 in the mean")
    calls = [partial(measure_ours, run, problem)]
    calls += [partial(measure_ours, run, problem, "exact", tol=1e-5)]
    calls += [
        partial(measure_r, run, problem, CLOGIT, CLOGIT_EPS),
        partial(measure_r, run, problem),
    ]
    calls += [
        partial(_unconditional, run, data, f"sets {how}") for how in ("ignored", "as columns")
    ]
    unit = None
    for call in calls:  # a row is kept before the next is measured
        one = call()
        if one is None:
            continue
        unit, coef = unit or one["seconds"], one.pop("coef")
        one["slope"] = float(coef @ data.coef / (data.coef @ data.coef))
        one["rmse"] = float(np.sqrt(np.mean((coef - data.coef) ** 2)))
        run.add(label=label, n=n, ratio=one["seconds"] / unit, **one)


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
