"""Paper C: stratified Cox models, and effects that change with time."""

from __future__ import annotations

import numpy as np

import sksurvgpu

from .figures import draw_lines, panels, series_of
from .published import PUBLISHED
from .records import ONES, draw_records
from .rig import (
    CYCLOPS,
    SEED,
    SOLVED,
    compare,
    cox,
    item,
    measure_ours,
    plural,
    repeat,
    residual,
    timed,
)

N_STRATA = (1, 5, 50, 500, 5_000, 50_000, 500_000)
CUT, EARLY, LATE = 10.0, 0.6, 0.1  # day at which the effect changes; log hazard ratios


@item("C", "stratified Cox model, 1 to 500,000 strata")
def strata(run):
    n, p = run.pick((400, 20), (50_000, 500), (1_000_000, 1_000))
    counts = run.pick((1, 50), (*N_STRATA[:5], n // 2), N_STRATA)
    run.show(("strata", "strata", ",d"), ("size", "size", ""), *SOLVED)
    run.tables[-1]["columns"].insert(0, run.tables[-1]["columns"].pop(1))
    for k, count in enumerate(counts):
        asked = k in run.pick((0,), (0, 2, 4), range(len(counts)))
        compare(run, cox(n, p, count), peer=CYCLOPS if asked else None, strata=count, n=n)
    wide = run.pick(30, 1_000, 2_000)
    compare(run, cox(n // 2, wide, counts[-2]), strata=counts[-2], n=n // 2)
    if n // counts[-1] <= 2:
        run.note(
            f"{counts[-1]:,} strata of {n / counts[-1]:g} rows: those with one row, and those "
            "whose first time is not an event, say nothing; we drop them"
        )
    figure, [ax] = panels(1, width=8.0)
    published = [f for f in PUBLISHED["strata"] if f.seconds]
    draw_lines(
        ax,
        series_of(run.rows, "strata", n=n),
        xlabel="strata",
        published=published,
        title=f"One fit, {n:,} x {p:,}; published: 1,000,000 x 1,000",
    )
    run.keep(figure)


@item("C", "10-fold cross-validation over 5, 10 and 20 strata, 3 % ones")
def few_strata(run):
    n, p = run.pick((600, 30), (20_000, 500), (946_911, 9_976))
    run.show(
        ("solver", "solver", ""),
        ("size", "size", ""),
        ("strata", "strata", "d"),
        ("seconds", "seconds", ".3g"),
        ("fits", "fits", ",d"),
        ("ms a fit", "ms", ".1f"),
        ("selected", "selected", ",d"),
        ("KKT", "kkt", ".0e"),
    )
    for count in (5, 10, 20):
        problem = cox(n, p, count, density=0.03)
        _cross_validate(run, problem, count)
        found = measure_ours(run, problem, "exact")
        run.add(
            solver="exact, one cold fit at sqrt(2)",
            size=problem.size,
            strata=count,
            seconds=found["seconds"],
            fits=1,
            ms=1e3 * found["seconds"],
            selected=found["nonzeros"],
            kkt=found["kkt"],
        )
    run.note("10 folds over 20 penalties by a warm-started batch; the paper's search is automatic")
    figure, [ax] = panels(1, width=8.0)
    series = {"ours": ([], []), "exact, one cold fit": ([], [])}
    for row in run.rows:
        x, y = series["ours" if row["fits"] > 1 else "exact, one cold fit"]
        x.append(row["strata"])
        y.append(row["ms"])
    draw_lines(
        ax,
        series,
        xlabel="strata",
        ylabel="ms a fit",
        logs="y",
        title=f"{n:,} x {p:,}: a fit of the cross-validation, and a cold one",
    )
    ax.set_xticks([5, 10, 20])
    run.keep(figure)


def _cross_validate(run, problem, count):
    how = {"n_jobs": run.threads, "backend": run.backend, "random_state": SEED}
    cv = sksurvgpu.CoxLassoCV(
        cv=10, n_alphas=run.pick(4, 20, 20), alpha_min_ratio=0.01, early_stopping=False, **how
    )
    few = problem.head(500)
    sksurvgpu.CoxLassoCV(alphas=[0.05, 0.04], cv=10, **how).fit(few.X, few.y, **few.more)
    seconds, cv = timed(cv.fit, problem.X, problem.y, **problem.more)
    fits = cv.n_splits_ * len(cv.cv_results_)
    run.add(
        solver=f"ours, 10 folds, {plural(run.threads)}",
        size=problem.size,
        strata=count,
        seconds=seconds,
        fits=fits,
        ms=1e3 * seconds / fits,
        selected=int((cv.coef_ != 0).sum()),
        kkt=residual(cv),
    )


# -- an effect that changes -------------------------------------------------------------------


def draw_changing(n, p):
    """Records with a treatment whose log hazard ratio is `EARLY` until day 10, and `LATE` then."""
    X, treated, _, _ = draw_records(n, p)
    rng = np.random.default_rng([SEED, 2])
    coef = np.append(0.0, np.where(rng.random(p) < 0.03, rng.normal(0.0, 0.5, p), 0.0))
    eta = X @ coef
    rate = 2e-3 * np.exp(eta - eta.mean())
    early, late = rate * np.exp(EARLY * treated), rate * np.exp(LATE * treated)
    spent = rng.exponential(size=n)
    time = np.where(spent < early * CUT, spent / early, CUT + (spent - early * CUT) / late)
    censored = rng.uniform(5.0, 200.0, n)
    event = time < censored
    return X, sksurvgpu.surv(event, np.minimum(time, censored)), treated


def augmented(X, y):
    """Rows split at the cut, as one does without time-varying coefficients: two columns."""
    from scipy import sparse

    later = np.flatnonzero(y["time"] > CUT)
    first = sparse.hstack([X[:, :1], X[:, :1] * 0.0, X[:, 1:]], format="csr")
    second = sparse.hstack([X[:, :1] * 0.0, X[:, :1], X[:, 1:]], format="csr")[later]
    event = np.concatenate([y["event"] & (y["time"] <= CUT), y["event"][later]])
    start = np.concatenate([np.zeros(len(y)), np.full(len(later), CUT)])
    stop = np.concatenate([np.minimum(y["time"], CUT), y["time"][later]])
    return sparse.vstack([first, second], format="csc"), sksurvgpu.surv(event, stop, start=start)


@item("C", "an effect that changes at day 10: two periods, no augmented rows")
def time_varying(run):
    n, p = run.pick((800, 30), (40_783, 967), (407_828, 9_666))
    X, y, treated = draw_changing(n, p)
    X.eliminate_zeros()
    factor = {"penalty_factor": {0: 0.0}}
    how = {"alpha": 2.0**0.5 / n, "n_jobs": run.threads, "backend": run.backend, **factor}
    model = sksurvgpu.CoxLassoCCD(time_varying={0: [CUT]}, **how)
    run.show(
        ("what", "what", ""),
        ("rows", "rows", ",d"),
        ("seconds", "seconds", ".3g"),
        ("to day 10", "early", ".3f"),
        ("after", "late", ".3f"),
        ("KKT", "kkt", ".0e"),
    )
    run.add(what="truth", rows=None, early=float(np.exp(EARLY)), late=float(np.exp(LATE)))
    model.fit(X[:2_000], y[:2_000])
    seconds, model = repeat(lambda: model.fit(X, y))
    _tell(run, "ours, no augmentation", n, seconds, model)
    wide, split = augmented(X, y)
    second = sksurvgpu.CoxLassoCCD(**{**how, "alpha": 2.0**0.5 / len(split)})
    second.set_params(penalty_factor={0: 0.0, 1: 0.0})
    seconds, second = repeat(lambda: second.fit(wide, split))
    _tell(run, "ours, rows split at day 10", len(split), seconds, second)
    exact = sksurvgpu.CoxLassoCCD(
        time_varying={0: [CUT]}, algorithm="exact", max_iter=10_000, **how | {"n_jobs": 1}
    )
    seconds, exact = timed(exact.fit, X, y)
    _tell(run, "exact, no augmentation, 1 thread", n, seconds, exact)
    seconds, profile = timed(sksurvgpu.profile_likelihood, model, X, y, 0)
    cv = sksurvgpu.CoxLassoCV(
        time_varying={0: [CUT]},
        cv=10,
        n_alphas=run.pick(4, 20, 20),
        alpha_min_ratio=0.02,
        n_jobs=run.threads,
        **factor,
    )
    cv_seconds, cv = timed(cv.fit, X, y)
    _tell(run, f"ours, {cv.n_splits_ * len(cv.cv_results_)} fits of 10 folds", n, cv_seconds, cv)
    difference = np.abs(model.coef_ - second.coef_).max()
    bounds = np.exp(profile.intervals[["lower", "upper"]].to_numpy())
    run.note(
        f"largest difference of coefficients with and without augmentation {difference:.1e}; "
        f"{len(split):,} rows where split; {100 * ONES:.2f} % ones"
    )
    run.note(
        f"profile intervals in {seconds:.2f} s: to day 10 ({bounds[0, 0]:.3f}, "
        f"{bounds[0, 1]:.3f}), after ({bounds[1, 0]:.3f}, {bounds[1, 1]:.3f})"
    )
    _draw(run, model, bounds, X, treated)


def _tell(run, what, rows, seconds, model):
    early, late = np.exp(model.coef_[:2])
    run.add(
        what=what,
        rows=rows,
        seconds=seconds,
        early=float(early),
        late=float(late),
        kkt=residual(model),
    )


def _draw(run, model, bounds, X, treated):
    """The effect in both periods, and predicted curves with and without treatment."""
    figure, [left, right] = panels(2)
    edges, ratios, truth = (0.0, CUT, 60.0), np.exp(model.coef_[:2]), np.exp([EARLY, LATE])
    for k in range(2):
        span = edges[k : k + 2]
        left.fill_between(span, *bounds[k], color="#0b6fa4", alpha=0.2, lw=0)
        left.plot(span, [ratios[k]] * 2, color="#0b6fa4", lw=2, label="ours, 95 %" if k else None)
        left.plot(span, [truth[k]] * 2, color="#d1495b", ls="--", label="truth" if k else None)
    left.axhline(1.0, color="#6b6b6b", lw=0.8)
    left.set(xlabel="day", ylabel="hazard ratio of the treatment", title="Two periods")
    left.legend(loc="upper right")
    rows = X[[0, 0]].toarray()
    rows[:, 0] = 1.0, 0.0
    names = ["treated", "comparator"]
    sksurvgpu.SurvivalDisplay.from_estimator(model, rows, labels=names, ax=right)
    right.axvline(CUT, color="#6b6b6b", lw=0.8, ls=":")
    right.set(xlabel="day", title="Predicted curves of the first row")
    run.keep(figure)
