"""Paper C: a treatment whose effect changes with time."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy import sparse

import sksurvgpu
from sksurvgpu.nonparametric import kaplan_meier

from .figures import COLOURS, MUTED
from .records import AUTO, FREE, ONES, draw_records
from .rig import SEED, item, repeat, residual, timed_both

CUT, EARLY, LATE = 10.0, 0.6, 0.1  # day at which the effect changes; log hazard ratios


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
    return X, sksurvgpu.surv(event, np.minimum(time, censored))


def augmented(X, y):
    """Rows split at the cut, as one does without time-varying coefficients.

    Columns: the treatment, the treatment after the cut, and the others.
    """
    later = np.flatnonzero(y["time"] > CUT)
    treatment, others = X[:, :1], X[:, 1:]
    first = sparse.hstack([treatment, sparse.csc_array(treatment.shape, dtype=bool), others])
    second = sparse.hstack([treatment, treatment, others], format="csc")[later]
    event = np.concatenate([y["event"] & (y["time"] <= CUT), y["event"][later]])
    start = np.concatenate([np.zeros(len(y)), np.full(len(later), CUT)])
    stop = np.concatenate([np.minimum(y["time"], CUT), y["time"][later]])
    return sparse.vstack([first, second], format="csc"), sksurvgpu.surv(event, stop, start=start)


@item("C", "an effect that changes at day 10: two periods, no augmented rows")
def time_varying(run):
    n, p = run.pick((800, 30), (40_783, 966), (407_828, 9_665))
    X, y = draw_changing(n, p)
    varying, penalty = {"time_varying": {0: [CUT]}, **FREE}, 2.0**0.5
    run.show(
        "what | rows:,d | seconds:.3g | CPU s=cpu_seconds:.3g | to day 10=early:.3f | "
        "after=late:.3f | KKT=kkt:.0e"
    )
    run.add(what="truth", rows=None, early=float(np.exp(EARLY)), late=float(np.exp(LATE)))
    cox = partial(sksurvgpu.CoxLassoCCD, max_iter=10_000, backend=run.backend)
    how = {"n_jobs": run.threads, **varying}
    cox(alpha=0.1, **how).fit(X[:2_000], y[:2_000])  # compiles
    model = cox(alpha=penalty / n, **how)
    times, model = repeat(lambda: model.fit(X, y))
    _tell(run, "ours, no augmentation", n, times, model)
    cv = sksurvgpu.CoxLassoCV(cv=10, random_state=SEED, **AUTO, **how, backend=run.backend)
    cv, times = timed_both(lambda: cv.fit(X, y))
    fits = f"ours, {cv.n_splits_ * len(cv.cv_results_)} fits of 10 folds"
    label = f"{n:,} x {X.shape[1]:,} (812,432 rows), 10 folds"
    _tell(run, fits, n, times, cv, label=label)
    few = run.pick(n, n, n // 10)  # rows of the exact algorithm, which takes long
    head = X[:few], y[:few]
    profile, times = timed_both(lambda: sksurvgpu.profile_likelihood(model, X, y, 0))
    bounds = np.exp(profile.intervals[["lower", "upper"]].to_numpy())
    run.note(
        f"profile intervals in {times['seconds']:.2f} s: to day 10 ({bounds[0, 0]:.3f}, "
        f"{bounds[0, 1]:.3f}), after ({bounds[1, 0]:.3f}, {bounds[1, 1]:.3f}); "
        f"{100 * ONES:.2f} % ones"
    )
    treated = X[:, [0]].toarray().ravel()
    rows = X[[0, 0]].astype(float).toarray()
    X, y_split = augmented(X, y)
    _split(run, cox(alpha=penalty / len(y_split), penalty_factor={0: 0.0, 1: 0.0}), X, y_split)
    with run.figure(3) as axes:
        _draw(axes, model, bounds, rows)
        arms = np.where(treated, "treated", "comparator")
        curves = kaplan_meier(y, groups=arms)
        sksurvgpu.SurvivalDisplay.from_result(curves, ax=axes[2])
        axes[2].set(xlabel="day", title="Kaplan-Meier curves")

    for name, more in (("ours", how), ("exact, 1 thread", {"algorithm": "exact", **varying})):
        one = cox(alpha=penalty / few, **{"n_jobs": 1, **more})
        times, one = repeat(partial(one.fit, *head))
        _tell(run, f"{name}, no augmentation, {few:,} rows", few, times, one)


def _split(run, second, X, y):
    """The fit of split rows, and the interval of the difference of both effects."""
    second.set_params(n_jobs=run.threads)
    times, second = repeat(lambda: second.fit(X, y))
    early, change = second.coef_[:2]
    row = {"early": float(np.exp(early)), "late": float(np.exp(early + change))}
    run.add(what="ours, rows split at day 10", rows=len(y), **times, **row, kkt=residual(second))
    profile, times = timed_both(lambda: sksurvgpu.profile_likelihood(second, X, y, 1))
    low, high = map(float, profile.intervals.iloc[0][["lower", "upper"]])
    run.add(what="interval of the difference", rows=len(y), **times)
    run.note(
        f"log hazard ratio after day 10 less that before: {change:.3f} ({low:.3f}, {high:.3f}), "
        f"truth {LATE - EARLY:.1f}; from the rows split at day 10"
    )


def _tell(run, what, rows, times, model, **more):
    early, late = map(float, np.exp(model.coef_[:2]))
    row = {"early": early, "late": late, "kkt": residual(model)}
    run.add(what=what, rows=rows, **times, **row, **more)


def _draw(axes, model, bounds, rows):
    """The effect in both periods, and predicted curves with and without treatment."""
    left, right = axes[:2]
    edges, ratios, truth = (0.0, CUT, 60.0), np.exp(model.coef_[:2]), np.exp([EARLY, LATE])
    for k in range(2):
        span, names = edges[k : k + 2], ("ours, 95 %", "truth") if k else (None, None)
        left.fill_between(span, *bounds[k], color=COLOURS[0], alpha=0.2, lw=0)
        left.plot(span, [ratios[k]] * 2, color=COLOURS[0], lw=2, label=names[0])
        left.plot(span, [truth[k]] * 2, color=COLOURS[1], ls="--", label=names[1])
    left.axhline(1.0, color=MUTED, lw=0.8)
    left.set(xlabel="day", ylabel="hazard ratio of the treatment", title="Two periods")
    left.legend(loc="upper right")
    rows[:, 0] = 0.0, 1.0
    names = ["comparator", "treated"]
    sksurvgpu.SurvivalDisplay.from_estimator(model, rows, labels=names, ax=right)
    right.axvline(CUT, color=MUTED, lw=0.8, ls=":")
    right.set(xlabel="day", title="Predicted curves of the first row")
