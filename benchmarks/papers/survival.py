"""Papers A and C: Cox and Fine-Gray models at massive sample sizes, and in strata."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..processes import least
from .beside import CYCLOPS, SOLVED, compare
from .figures import draw_bars, draw_lines, series_of
from .rig import (
    SEED,
    cox,
    fine_gray,
    item,
    measure_ours,
    search,
)

SIZES = (100_000, 177_828, 316_228, 562_341, 1_000_000)
SEARCH = {"search": "auto", "start_variance": 0.01, "tol": 2e-7}  # the paper's
N_STRATA = (1, 5, 50, 500, 5_000, 50_000, 500_000)


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
    run.show("form | n:,d | us a coordinate=us:.2f | error:.0e | of fused=ratio:.2f")
    sizes = run.pick((1_000,), SIZES[:1] + SIZES[-1:], SIZES)
    if run.backend == "cuda":
        _fusion_on_device(run, sizes)
    else:
        run.note("CPU analogue: passes of compiled loops over float64 arrays, one thread; CPU time")
        for n in sizes:
            _fusion_here(run, n)
    _in_fits(run, sizes[0])
    last = {row["form"]: row["us"] for row in run.rows if row["n"] == sizes[0]}
    theirs = run.item.published[::-1]  # separate first
    names = [*last, *(f"published: {figure.what.split(',')[0]}" for figure in theirs)]
    values = [*last.values(), *(1e6 * figure.seconds for figure in theirs)]
    look = {"n_ours": len(last), "log": True, "xlabel": "microseconds a coordinate (log)"}
    with run.figure() as [ax]:
        title = f"n = {sizes[0]:,}; published: GV100, n = 100,000"
        draw_bars(ax, names, values, title=title, **look)


def _in_fits(run, n):
    """Cost of a coordinate in whole fits, where only the ones of a column are visited."""
    problem = cox(n, run.pick(10, 100, 1_000))
    [fused] = [row["us"] for row in run.rows if row["n"] == n and row["form"] == "fused"]
    for algorithm in ("exact", "majorized"):
        found = measure_ours(run, problem, algorithm, 1)
        us = 1e6 * found["cpu_seconds"] / found["iterations"] / problem.X.shape[1]
        run.add(form=f"a fit, {algorithm}", n=n, us=us, error=None, ratio=us / fused)
    run.note("a fit: seconds over outer iterations and columns, 5 % ones, one thread")


def _fusion_here(run, n):
    forms, expected = _forms(n)
    rounds = run.pick(2, 30, 100)
    us = {name: 1e6 * least(form, rounds, "cpu_seconds") for name, form in forms.items()}
    for name, form in forms.items():
        error = float(np.abs(np.array(form()) / expected - 1.0).max())
        run.add(form=name, n=n, us=us[name], error=error, ratio=us[name] / us["fused"])


def _fusion_on_device(run, sizes):
    from ..gpu import fusion as on_device
    from ..gpu.day import FULL, TINY

    for n in sizes:
        found = on_device.measure(str(n), run.pick(TINY, FULL, FULL))
        for name in on_device.FORMS:
            ratio = found[name] / found["fused"]
            run.add(form=name, n=n, us=found[name], error=found["errors"][name], ratio=ratio)


@item("A", "whole fits over five sample sizes, Cox and Fine-Gray")
def sizes(run):
    p = run.pick(30, 1_000, 1_000)
    rows = run.pick((300, 500), tuple(n // 20 for n in SIZES), SIZES)
    run.show(f"model | size | {SOLVED}")
    draws = {"Cox": cox, "Fine-Gray": fine_gray}
    for name, draw in draws.items():
        for k, n in enumerate(rows):
            peer = CYCLOPS if k < run.pick(1, 3, len(rows)) else None
            exact = run.options.scale != "full"
            compare(run, draw(n, p), peer=peer, exact=exact, model=name, n=n)
    tied = cox(rows[1], p, tie_break=False)
    compare(run, tied, peer=CYCLOPS, exact=exact, model="Cox, tied", n=rows[1])
    if not exact:  # it takes minutes: at both ends, and last
        for n in (rows[0], rows[-1]):
            for name, draw in draws.items():
                compare(run, draw(n, p), alone=False, model=name, n=n)
        run.note("exact was run at the smallest and at the largest size")
    run.note("Cox, tied: whole days as drawn, Breslow's ties; the published GPU code ignores them")
    with run.figure(2) as axes:
        for ax, name in zip(axes, ("Cox", "Fine-Gray"), strict=True):
            series = series_of(_by_rows(run), "n", model=name)
            draw_lines(ax, series, xlabel="rows", title=f"{name}, {p:,} columns")
        axes[0].get_legend().remove()


@item("A", "cross-validation, 10 folds x 10 replicates, automatic search, over threads")
def threads(run):
    p = run.pick(20, 500, 1_000)
    # At published size, 500,000 and 800,000 rows are left out: 10 x 10 folds take minutes.
    rows = run.pick((200,), (5_000, 10_000, 20_000), (100_000, 1_000_000))
    n_repeats = run.pick(2, 10, 10)
    run.show(
        "solver | size | replicates=repeats:d | seconds:.3g | CPU s=cpu_seconds:.3g | "
        "variances=tried:d | variance:.3g | KKT=kkt:.0e"
    )
    counts = sorted({1, *(k for k in (2, 4, 8) if k <= run.threads), run.threads})
    few = run.pick(counts, counts, counts[-1:])  # numbers of threads where it takes minutes
    jobs = [(n, k, n_repeats, "majorized") for n in rows for k in (few if n > rows[0] else counts)]
    if run.backend == "cuda":
        jobs = [job for job in jobs if job[1] == 1]
    jobs.insert(len(counts), (rows[0], 1, 1, "exact"))
    for n, k, repeats, algorithm in jobs:
        _, found = search(run, cox(n, p), algorithm, k, 300, n_repeats=repeats, **SEARCH)
        run.add(n=n, threads=k, repeats=repeats, name=f"ours, n = {n:,}, p = {p:,}", **found)
    shown = series_of(run.rows, "threads", by="name", repeats=n_repeats)
    with run.figure() as [ax]:
        title = "10 x 10 cross-validation, all penalties"
        how = {"xlabel": "threads", "title": title, "published": run.item.published, "logs": "y"}
        draw_lines(ax, shown, **how)
        ax.set_xticks([*counts, 8])


@item("C", "stratified Cox model, 1 to 500,000 strata, 10^5 to 10^6 rows, 1,000 and 2,000 columns")
def strata(run):
    sizes = run.pick((300, 400), (20_000, 50_000), SIZES)
    columns = run.pick((20, 30), (500, 1_000), (1_000, 2_000))
    run.show(f"size | strata:,d | {SOLVED}")
    last = (sizes[-1], columns[0], run.pick(50, 5_000, N_STRATA[5]))  # as published
    jobs = [(n, p, k) for p in columns for n in sizes for k in _counts(run, n, p == columns[0])]
    jobs.remove(last)
    for n, p, count in [last, *jobs]:
        # At published size the exact algorithm takes minutes but with the fewest rows.
        has_exact = (n, p) == (sizes[0], columns[0]) or run.options.scale != "full"
        how = {"exact": has_exact, "alone": has_exact or (n, p, count) == last}
        label = {"strata": count, "n": n, "p": p, "rows": f"{n:,} rows"}
        peer = CYCLOPS if has_exact and p == columns[0] else None
        compare(run, cox(n, p, count), peer=peer, **how, **label)
    if run.options.scale == "full":
        n, p, count = last
        label = {"strata": count, "n": n, "p": p, "rows": f"{n:,} rows"}
        compare(run, cox(*last), alone=False, **label)
    run.note(
        "strata of at most two rows in the mean: those with one row, and those whose first time is "
        "not an event, say nothing; we drop them"
    )
    with run.figure(4, width=4.6) as axes:
        for p, over_strata, over_rows in zip(columns, axes[::2], axes[1::2], strict=True):
            rows = [row for row in run.rows if row["p"] == p]
            ours = [row for row in rows if row["solver"] == rows[0]["solver"]]
            ours.sort(key=lambda row: (row["n"], row["strata"]))
            published = run.item.published if p == columns[0] else ()
            look = {"title": f"Ours, {p:,} columns", "published": published}
            draw_lines(over_strata, series_of(ours, "strata", by="rows"), xlabel="strata", **look)
            over_strata.legend(loc="upper left", fontsize=6)
            many = run.pick(50, N_STRATA[5], N_STRATA[5])
            shown = series_of(_by_rows(run), "n", strata=many, p=p)
            draw_lines(over_rows, shown, xlabel="rows", title=f"{many:,} strata, {p:,} columns")
            over_rows.legend(loc="upper left", fontsize=6)


def _by_rows(run):
    """Rows of the table, those of fewer rows of data first."""
    return sorted(run.rows, key=lambda row: row["n"])


def _counts(run, n, is_first):
    """Strata of two rows or more: all counts with the fewer columns, the ends with the others."""
    several = N_STRATA if is_first else N_STRATA[0:6:5]
    return run.pick((1, 50), (1, 50, 5_000), tuple(k for k in several if 2 * k <= n))
