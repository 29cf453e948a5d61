"""Paper B: self-controlled case series with many drugs."""

from __future__ import annotations

import numpy as np

import sksurvgpu
from sksurvgpu import Design, datasets
from sksurvgpu.data.design.columns import DENSE

from .figures import COLOURS, draw_lines, series_of
from .rig import CYCLOPS, SEED, SOLVED, Problem, compare, item, measure_ours, search, timed

MEAN_ERAS, USE = 28.0, 0.01  # eras of a subject, and the share of them in which a drug is taken
DENSE_BYTES = 4e9  # beyond, no dense copy is made


def series(n_subjects, n_drugs, mean_eras=MEAN_ERAS, density=USE):
    """Subjects with an event, and the eras of their drugs."""
    data = datasets.simulate_case_series(
        n_subjects, n_drugs, mean_eras=mean_eras, density=density, random_state=SEED
    )
    return Problem("case-series", data.X, data.y)


def as_dense(X):
    """The same matrix with every column kept dense, which the package does not do by itself."""
    n, p = X.shape
    kind = np.full(p, DENSE, np.uint8)
    values = np.ascontiguousarray(X.toarray().T).ravel()
    starts = np.arange(p, dtype=np.int64) * n
    return Design(n, kind, np.zeros(p + 1, np.int64), np.empty(0, np.int32), values, starts)


@item("B", "sparse against dense columns and the exact algorithm, over eras")
def eras(run):
    n_drugs = run.pick(20, 200, 1_224)
    subjects = run.pick((60, 120), (500, 1_500, 5_000, 10_000), (115_000, 500_000, 2_700_000))
    run.show(f"size | eras=n:,d | {SOLVED}")
    for k, n_subjects in enumerate(subjects):
        problem = series(n_subjects, n_drugs)
        asked = CYCLOPS if k < run.pick(1, 3, 1) else None
        found = compare(run, problem, peer=asked, n=problem.n, layout="sparse")
        if 8.0 * problem.n * n_drugs > DENSE_BYTES:
            run.note(f"{problem.size}: a dense copy takes {8e-9 * problem.n * n_drugs:.0f} GB")
            continue
        _dense(run, problem, found[0]["seconds"])
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


@item("B", "variance of the prior by 10-fold cross-validation, L1 and L2")
def variance(run):
    problem = series(*run.pick((120, 20), (3_000, 300), (115_000, 1_224)))
    run.show(
        "prior | search | seconds:.3g | variances=tried:d | variance:.3g | score:.5f | "
        "selected:,d | KKT=kkt:.0e"
    )
    searches = {}
    for prior, share in (("L1", 1.0), ("L2", 0.0)):
        problem.parameters = {"l1_ratio": share}
        grid = {"alphas": _grid(problem, share, run.pick(4, 15, 20)), "early_stopping": False}
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
