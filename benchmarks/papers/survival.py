"""Paper A: Cox and Fine-Gray models at massive sample sizes."""

from __future__ import annotations

import numpy as np
from numba import njit

import sksurvgpu

from .figures import draw_bars, draw_lines, panels, series_of
from .published import PUBLISHED
from .rig import (
    CYCLOPS,
    SEED,
    SOLVED,
    compare,
    cox,
    fine_gray,
    item,
    measure_ours,
    plural,
    residual,
    timed,
)

SIZES = (100_000, 177_828, 316_228, 562_341, 1_000_000)
FOLD_TOLERANCE, START_VARIANCE = 2e-7, 0.01  # the paper's


# -- one pass or three ------------------------------------------------------------------------


@njit(nogil=True)
def _scan(w, x, sums):
    s0, s1, s2 = 0.0, 0.0, 0.0
    for k in range(w.shape[0] - 1, -1, -1):
        wx = w[k] * x[k]
        s0 += w[k]
        s1 += wx
        s2 += wx * x[k]
        sums[0, k], sums[1, k], sums[2, k] = s0, s1, s2


@njit(nogil=True)
def _transform(sums, deaths, terms):
    for k in range(deaths.shape[0]):
        mean = sums[1, k] / sums[0, k]
        terms[0, k] = -deaths[k] * mean
        terms[1, k] = deaths[k] * (sums[2, k] / sums[0, k] - mean * mean)


@njit(nogil=True)
def _reduce(terms):
    one, two = 0.0, 0.0
    for k in range(terms.shape[1]):
        one += terms[0, k]
        two += terms[1, k]
    return one, two


@njit(nogil=True)
def _transform_reduce(sums, deaths):
    one, two = 0.0, 0.0
    for k in range(deaths.shape[0]):
        mean = sums[1, k] / sums[0, k]
        one -= deaths[k] * mean
        two += deaths[k] * (sums[2, k] / sums[0, k] - mean * mean)
    return one, two


@njit(nogil=True)
def _fused(w, x, deaths):
    s0, s1, s2, one, two = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(w.shape[0] - 1, -1, -1):
        wx = w[k] * x[k]
        s0 += w[k]
        s1 += wx
        s2 += wx * x[k]
        mean = s1 / s0
        one -= deaths[k] * mean
        two += deaths[k] * (s2 / s0 - mean * mean)
    return one, two


def _forms(n):
    """The three ways to the gradient and curvature of one column, and the answer by NumPy."""
    rng = np.random.default_rng(SEED)
    w, x = np.exp(rng.normal(size=n)), (rng.random(n) < 0.05).astype(float)
    deaths = (rng.random(n) < 0.5).astype(float)
    sums, terms = np.empty((3, n)), np.empty((2, n))

    def separate():
        _scan(w, x, sums)
        _transform(sums, deaths, terms)
        return _reduce(terms)

    def partially():
        _scan(w, x, sums)
        return _transform_reduce(sums, deaths)

    s0, s1, s2 = (np.cumsum(part[::-1])[::-1] for part in (w, w * x, w * x * x))
    mean = s1 / s0
    expected = np.array([-(deaths * mean).sum(), (deaths * (s2 / s0 - mean**2)).sum()])
    forms = {"separate": separate, "partially fused": partially}
    return forms | {"fused": lambda: _fused(w, x, deaths)}, expected


@item("A", "kernel fusion: one pass of scan, transformation and reduction, or three")
def fusion(run):
    run.show(
        ("form", "form", ""),
        ("n", "n", ",d"),
        ("us a coordinate", "us", ".2f"),
        ("error", "error", ".0e"),
        ("of fused", "ratio", ".2f"),
    )
    sizes = run.pick((1_000,), SIZES[:1] + SIZES[-1:], SIZES)
    if run.backend == "cuda":
        _fusion_on_device(run, sizes)
    else:
        run.note("CPU analogue: passes of compiled loops over float64 arrays, one thread")
        for n in sizes:
            _fusion_here(run, n)
    _in_fits(run, sizes[0])
    last = {row["form"]: row["us"] for row in run.rows if row["n"] == sizes[0]}
    theirs = PUBLISHED["fusion"][::-1]  # separate first
    names = [*last, *(f"published: {figure.what.split(',')[0]}" for figure in theirs)]
    values = [*last.values(), *(1e6 * figure.seconds for figure in theirs)]
    colours = ["#0b6fa4"] * len(last) + ["#b5b5b5"] * len(theirs)
    figure, [ax] = panels(1, width=8.0)
    look = {"colours": colours, "log": True, "xlabel": "microseconds a coordinate (log)"}
    draw_bars(ax, names, values, title=f"n = {sizes[0]:,}; published: GV100, n = 100,000", **look)
    run.keep(figure)


def _in_fits(run, n):
    """What a coordinate costs in whole fits, where only the ones of a column are visited."""
    problem = cox(n, run.pick(10, 100, 1_000))
    [fused] = [row["us"] for row in run.rows if row["n"] == n and row["form"] == "fused"]
    for algorithm in ("exact", "majorized"):
        found = measure_ours(run, problem, algorithm, 1)
        us = 1e6 * found["seconds"] / found["iterations"] / problem.X.shape[1]
        run.add(form=f"a fit, {algorithm}", n=n, us=us, error=None, ratio=us / fused)
    run.note("a fit: seconds over outer iterations and columns, 5 % ones, one thread")


def _fusion_here(run, n):
    forms, expected = _forms(n)
    found = {}
    for name, form in forms.items():
        error = float(np.abs(np.array(form()) / expected - 1.0).max())
        seconds = []
        for _ in range(run.pick(2, 30, 100)):
            seconds.append(timed(form)[0])
        found[name] = (1e6 * float(np.median(seconds)), error)
    for name, (us, error) in found.items():
        run.add(form=name, n=n, us=us, error=error, ratio=us / found["fused"][0])


def _fusion_on_device(run, sizes):
    from ..gpu import fusion as on_device
    from ..gpu.day import FULL, TINY

    for n in sizes:
        found = on_device.measure(str(n), run.pick(TINY, FULL, FULL))
        for name in on_device.FORMS:
            ratio = found[name] / found["fused"]
            run.add(form=name, n=n, us=found[name], error=found["errors"][name], ratio=ratio)


# -- sizes ------------------------------------------------------------------------------------


@item("A", "whole fits over five sample sizes, Cox and Fine-Gray")
def sizes(run):
    p = run.pick(30, 1_000, 1_000)
    rows = run.pick((300, 500), tuple(n // 20 for n in SIZES), SIZES)
    run.show(("model", "model", ""), ("size", "size", ""), *SOLVED)
    for name, draw in (("Cox", cox), ("Fine-Gray", fine_gray)):
        for k, n in enumerate(rows):
            asked = k < run.pick(1, 3, len(rows))
            compare(run, draw(n, p), peer=CYCLOPS if asked else None, model=name, n=n)
    tied = cox(rows[1], p, tie_break=False)
    compare(run, tied, peer=CYCLOPS, model="Cox, tied", n=rows[1])
    run.note("Cox, tied: whole days as drawn, Breslow's ties; the published GPU code ignores them")
    figure, axes = panels(2)
    for ax, name in zip(axes, ("Cox", "Fine-Gray"), strict=True):
        draw_lines(
            ax, series_of(run.rows, "n", model=name), xlabel="rows", title=f"{name}, {p:,} columns"
        )
    axes[0].get_legend().remove()
    run.keep(figure)


# -- threads ----------------------------------------------------------------------------------


@item("A", "cross-validation, 10 folds x 10 replicates, automatic search, over threads")
def threads(run):
    p = run.pick(20, 500, 1_000)
    rows = run.pick((200,), (5_000, 10_000, 20_000), (100_000, 500_000, 800_000, 1_000_000))
    n_repeats = run.pick(2, 10, 10)
    run.show(
        ("solver", "solver", ""),
        ("size", "size", ""),
        ("replicates", "repeats", "d"),
        ("seconds", "seconds", ".3g"),
        ("variances", "tried", "d"),
        ("variance", "variance", ".3g"),
        ("KKT", "kkt", ".0e"),
    )
    counts = sorted({1, *(k for k in (2, 4, 8) if k <= run.threads), run.threads})
    if run.backend == "cuda":
        counts = (1,)
    for n in rows:
        problem = cox(n, p)
        for k in counts:
            _search(run, problem, k, n_repeats, "majorized")
        if n == rows[0]:
            _search(run, problem, 1, 1, "exact")
    figure, [ax] = panels(1, width=8.0)
    shown = [row for row in run.rows if row["repeats"] == n_repeats]
    series = {f"ours, n = {n:,}, p = {p:,}": _over_threads(shown, n) for n in rows}
    draw_lines(
        ax,
        series,
        xlabel="threads",
        title="10 x 10 cross-validation, all penalties",
        published=PUBLISHED["threads"],
        logs="y",
    )
    ax.set_xticks([*counts, 8])
    run.keep(figure)


def _over_threads(rows, n):
    chosen = [row for row in rows if row["n"] == n]
    return [row["threads"] for row in chosen], [row["seconds"] for row in chosen]


def _search(run, problem, n_threads, n_repeats, algorithm):
    how = {"n_jobs": n_threads, "algorithm": algorithm, "backend": run.backend}
    how |= {"tol": FOLD_TOLERANCE, "max_iter": 10_000, "random_state": SEED}
    cv = sksurvgpu.CoxLassoCV(
        search="auto", start_variance=START_VARIANCE, cv=10, n_repeats=n_repeats, **how
    )
    few = problem.head(300)
    sksurvgpu.CoxLassoCV(alphas=[0.05], cv=10, n_repeats=n_repeats, **how).fit(few.X, few.y)
    seconds, _ = timed(cv.fit, problem.X, problem.y)
    table = cv.cv_results_
    run.add(
        solver=f"{'ours' if algorithm == 'majorized' else 'exact'}, {plural(n_threads)}",
        n=problem.n,
        size=problem.size,
        threads=n_threads,
        repeats=n_repeats,
        seconds=seconds,
        tried=len(table),
        variance=float(table.variance[cv.best_index_]),
        kkt=residual(cv),
    )
