"""Paper B: self-controlled case series with many drugs."""

from __future__ import annotations

import numpy as np

import sksurvgpu
from sksurvgpu import Design, datasets
from sksurvgpu.data.design.columns import DENSE

from .figures import draw_lines, panels, series_of
from .published import PUBLISHED
from .rig import CYCLOPS, SEED, SOLVED, Problem, compare, item, measure_ours, timed

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
    run.show(("eras", "n", ",d"), ("size", "size", ""), *SOLVED)
    run.tables[-1]["columns"].insert(0, run.tables[-1]["columns"].pop(1))
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
    figure, [ax] = panels(1, width=8.0)
    published = [f for f in PUBLISHED["eras"] if f.seconds]
    draw_lines(
        ax,
        series_of(run.rows, "n"),
        xlabel="eras",
        published=published,
        title=f"One fit, {n_drugs:,} drugs; published: their largest series",
    )
    run.keep(figure)


def _dense(run, problem, unit):
    design = as_dense(problem.X)
    for algorithm in ("majorized", "exact"):
        one = measure_ours(run, problem, algorithm, 1, X=design)
        one.pop("coef")
        one["solver"] = f"{one['solver']}, dense"
        run.add(n=problem.n, size=problem.size, layout="dense", ratio=one["seconds"] / unit, **one)


@item("B", "variance of the prior by 10-fold cross-validation, L1 and L2")
def variance(run):
    problem = series(*run.pick((120, 20), (3_000, 300), (115_000, 1_224)))
    how = {"cv": 10, "n_jobs": run.threads, "backend": run.backend, "random_state": SEED}
    run.show(
        ("prior", "prior", ""),
        ("search", "search", ""),
        ("seconds", "seconds", ".3g"),
        ("variances", "tried", "d"),
        ("variance", "variance", ".3g"),
        ("score", "score", ".5f"),
        ("selected", "selected", ",d"),
        ("KKT", "kkt", ".0e"),
    )
    figure, axes = panels(2)
    for ax, (prior, share) in zip(axes, (("L1", 1.0), ("L2", 0.0)), strict=True):
        grid = _grid(problem, share, run.pick(4, 15, 20))
        for name, search in (
            ("log grid", {"alphas": grid, "early_stopping": False}),
            ("auto", {"search": "auto", "start_variance": 0.01}),
        ):
            cv = sksurvgpu.CaseSeriesCV(l1_ratio=share, **search, **how)
            seconds, _ = timed(cv.fit, problem.X, problem.y)
            found, best = cv.cv_results_, cv.cv_results_.loc[cv.best_index_]
            run.add(
                prior=prior,
                search=name,
                seconds=seconds,
                tried=len(found),
                variance=float(best["variance"]),
                score=float(best["mean_score"]),
                selected=int((cv.coef_ != 0).sum()),
                kkt=_residual(cv, share),
            )
            _draw_search(ax, found, best, name, prior)
        if prior == "L1":
            _one_variance(run, problem, cv, how)
    run.note("score: mean held-out log-likelihood an event; the same folds for every variance")
    run.keep(figure)


def _residual(cv, share):
    """Over the largest useful penalty of the lasso; a ridge's is 1,000 times that."""
    return float(cv.kkt_ / cv.alpha_max_ * (1.0 if share else 1_000.0))


def _grid(problem, share, count):
    """Penalties of variances from 1e-4 to 10, largest penalty first."""
    variances = np.geomspace(1e-4, 10.0, count)
    gamma = np.sqrt(2.0 / variances) if share == 1.0 else 1.0 / variances
    return gamma / problem.n


def _one_variance(run, problem, cv, how):
    """The folds at the chosen variance alone, by both algorithms."""
    for algorithm in ("majorized", "exact"):
        again = sksurvgpu.CaseSeriesCV(alphas=[cv.alpha_], algorithm=algorithm, **how)
        again.set_params(max_iter=10_000)
        seconds, _ = timed(again.fit, problem.X, problem.y)
        run.add(
            prior="L1",
            search=f"the chosen one, {algorithm}",
            seconds=seconds,
            tried=1,
            variance=float(again.cv_results_.variance[0]),
            score=float(again.best_score_),
            selected=int((again.coef_ != 0).sum()),
            kkt=_residual(again, 1.0),
        )


def _draw_search(ax, found, best, name, prior):
    if name == "auto":
        ax.plot(found.variance, found.mean_score, "D", color="#d1495b", ms=6, label="auto: tried")
        ax.plot(
            best["variance"],
            best["mean_score"],
            "o",
            ms=13,
            mfc="none",
            mec="#d1495b",
            label="auto: chosen",
        )
        ax.legend(loc="lower right")
        return
    low, high = (found.mean_score + k * found.standard_error for k in (-1.0, 1.0))
    ax.fill_between(found.variance, low, high, color="#0b6fa4", alpha=0.2, lw=0)
    ax.plot(found.variance, found.mean_score, "-o", color="#0b6fa4", ms=4, label="grid, +- 1 SE")
    ax.set_xscale("log")
    ax.set(
        xlabel="prior variance", ylabel="held-out log-likelihood an event", title=f"{prior} prior"
    )


@item("B", "bootstrap intervals of 441 drugs, shaded by how often each was selected")
def drugs(run):
    problem = series(*run.pick((150, 30), (8_000, 500), (76_000, 1_162)))
    n_replicates = run.pick(20, 200, 200)
    cv = sksurvgpu.CaseSeriesCV(search="auto", cv=10, n_jobs=run.threads, backend=run.backend)
    how = {"n_replicates": n_replicates, "random_state": SEED}
    chosen, model = timed(lambda: cv.fit(problem.X, problem.y).refit_model())
    seconds, result = timed(sksurvgpu.bootstrap, model, problem.X, problem.y, **how)
    run.show(
        ("drugs shown", "what", ""),
        ("number", "number", ",d"),
        ("median width", "width", ".3f"),
        ("selected in", "selected", ".0%"),
    )
    table = result.intervals.assign(frequency=result.selection_frequency)
    ordered = table.frequency[table.frequency > 0].sort_values(ascending=False)
    least = float(ordered.iloc[: run.pick(20, 441, 441)].iloc[-1])
    kept = table[table.frequency >= least]
    for name, low, high in (
        ("in 95 % or more", 0.95, 1.01),
        ("in half or more", 0.5, 0.95),
        ("less often", 0.0, 0.5),
    ):
        part = kept[(kept.frequency >= low) & (kept.frequency < high)]
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
    figure, [ax] = panels(1, width=7.0, height=8.0)
    sksurvgpu.BootstrapDisplay.from_result(result, min_frequency=least, n_labels=0, ax=ax)
    ax.set_title(f"{len(kept)} drugs, {n_replicates} replicates over subjects")
    run.keep(figure)
