"""Papers A and C: the shape of their real data, simulated.

A treatment, covariates and their balance; an effect that changes with time.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

import sksurvgpu
from sksurvgpu import cohort, datasets

from .figures import COLOURS, MUTED, draw_intervals
from .rig import SEED, Problem, item, measure_ours, repeat, residual, search, timed

ONES, EFFECT = 0.0289, 0.3  # share of ones; log hazard ratio of the treatment
CUT, EARLY, LATE = 10.0, 0.6, 0.1  # day at which the effect changes; log hazard ratios
FREE = {"penalty_factor": {0: 0.0}}


def draw_records(n, p, seed=SEED):
    """Clustered codes thinned to 2.89 % ones, a confounded treatment first, and two outcomes."""
    X = datasets.simulate_ehr(n, p, random_state=seed).X
    rng = np.random.default_rng([seed, 1])
    kept = rng.random(X.nnz, dtype=np.float32) < ONES * n * p / X.nnz
    indptr = np.append(0, np.cumsum(kept, dtype=np.int64))[X.indptr]
    indices = X.indices[kept]
    X = sparse.csc_array((np.ones(len(indices)), indices, indptr), shape=(n, p))
    common = np.argsort(-np.diff(X.indptr))[: max(4, p // 50)]
    coef = np.zeros(p)
    coef[common] = rng.normal(0.0, 0.5, len(common))
    score = X @ np.where(coef != 0, 0.5 * coef + rng.normal(0.0, 0.3, p), 0.0)
    treated = rng.random(n) < 1.0 / (1.0 + np.exp(0.4 - score + score.mean()))
    eta = X @ coef
    eta += EFFECT * treated - eta.mean()
    time_, censored = rng.exponential(size=n) * np.exp(-eta) / 3e-4, rng.uniform(0.0, 500.0, n)
    y = sksurvgpu.surv(time_ < censored, np.minimum(time_, censored) + 1e-3)
    with_treatment = sparse.hstack([treated[:, None].astype(float), X], format="csc")
    return with_treatment, treated, y, _competing(eta, rng)


def _competing(eta, rng, incidence=0.1):
    """Proportional subdistribution hazards; other events have the opposite effects."""
    latent = rng.exponential(size=len(eta)) * np.exp(-eta)
    first = latent < -np.log1p(-incidence)
    share = np.minimum(-np.expm1(-np.where(first, latent, 0.0)) / incidence, 1.0 - 1e-12)
    time_ = np.where(first, -np.log1p(-share), rng.exponential(size=len(eta)) * np.exp(eta))
    censored = rng.random(len(eta))
    event = np.where(time_ <= censored, np.where(first, 1, 2), 0)
    return sksurvgpu.competing_risks(event, np.minimum(time_, censored) + 1e-6)


@item("A", "the shape of the real data: treatment effect and balance")
def real_data(run):
    n, p = run.pick((1_000, 60), (43_487, 981), (434_866, 9_811))
    X, treated, y, y_competing = draw_records(n, p)
    run.note(
        f"{n:,} x {p:,} and a treatment, {100 * X[:, 1:].nnz / n / p:.2f} % ones; "
        f"{y['event'].sum():,} events, {np.sum(y_competing['event'] == 1):,} of interest with "
        f"competing ones; true log hazard ratio {EFFECT}"
    )
    run.show(
        "model | what | seconds:.3g | selected:,d | ratio=effect:.3f | lower:.3f | upper:.3f | "
        "KKT=kkt:.0e"
    )
    for name, outcome in (("cox", y), ("fine-gray", y_competing)):
        _treatment_effect(run, name, X, outcome)
    result = _balance(run, X[:, 1:], treated)
    effects = [row for row in run.tables[0]["rows"] if row.get("lower") is not None]
    with run.figure(2) as [left, right]:
        look = {"xlabel": "hazard ratio of the treatment, 95 % profile interval"}
        ends, names = (lambda r: (r["lower"], r["effect"], r["upper"])), (lambda r: r["model"])
        look |= {"title": "Treatment effect", "truth": np.exp(EFFECT)}
        draw_intervals(left, effects, names, ends, **look)
        left.axvline(1.0, color=MUTED, lw=0.8)
        left.legend(loc="lower right")
        sksurvgpu.BalanceDisplay.from_result(result, kind="scatter", ax=right)
        right.set_title("Balance of all covariates, before and after strata")


def _treatment_effect(run, name, X, y):
    """Cross-validated penalty, treatment unpenalized; its profile interval; the exact algorithm."""
    factor = np.append(0.0, np.ones(X.shape[1] - 1))
    problem = Problem(name, X, y, parameters=FREE, factor=factor)
    grid = {"n_alphas": run.pick(5, 20, 20), "alpha_min_ratio": 0.02}
    cv, found = search(run, problem, n_repeats=run.pick(1, 1, 10), **grid)
    problem.penalty = cv.alpha_ * len(y)
    found["what"] = f"ours, {found['fits']} fits of {cv.n_splits_} splits"
    run.add(model=name, **found)
    seconds, profile = timed(sksurvgpu.profile_likelihood, cv.refit_model(), X, y, 0)
    low, high = map(float, np.exp(profile.intervals.iloc[0][["lower", "upper"]]))
    row = {"what": "profile interval of the treatment", "seconds": seconds}
    run.add(model=name, **row, effect=float(np.exp(cv.coef_[0])), lower=low, upper=high)
    for algorithm in ("majorized", "exact"):
        found = measure_ours(run, problem, algorithm)
        found["what"], found["selected"] = f"one fit, {found['solver']}", found["nonzeros"] - 1
        run.add(model=name, effect=float(np.exp(found.pop("coef")[0])), **found)


def _balance(run, X, treated):
    """Propensity scores by lasso, five strata, and standardized differences before and after."""
    model = sksurvgpu.LogisticCV(
        n_alphas=run.pick(5, 20, 20),
        cv=run.pick(3, 10, 10),
        alpha_min_ratio=0.02,
        **run.how,
    )
    seconds, model = timed(model.fit, X, treated.astype(int))
    score = model.predict_proba(X)[:, 1]
    edges = np.quantile(score, np.linspace(0.0, 1.0, run.pick(3, 6, 11))[1:-1])
    result = cohort.balance(X, treated, strata=np.searchsorted(edges, score), estimand="ate")
    table = result.table
    before, after = table["std_diff_before"].abs(), table["std_diff_after"].abs()
    run.note(
        f"propensity score: {seconds:.1f} s, {int((model.coef_ != 0).sum())} covariates; "
        f"standardized differences above 0.1: {int((before > 0.1).sum())} before, "
        f"{int((after > 0.1).sum())} after {len(edges) + 1} strata of the score"
    )
    run.show(
        "covariate | treated:.1% | comparators:.1% | difference=before:.3f | "
        "after strata=after:.3f",
        title="largest standardized differences",
    )
    names = {"treated": "mean_treated_before", "comparators": "mean_comparator_before"}
    names |= {"before": "std_diff_before", "after": "std_diff_after"}
    for name in before.sort_values(ascending=False).index[:10]:
        line = {key: float(table.loc[name, column]) for key, column in names.items()}
        run.add(covariate=str(name), **line)
    return result


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
    return X, sksurvgpu.surv(event, np.minimum(time, censored))


def augmented(X, y):
    """Rows split at the cut, as one does without time-varying coefficients: two columns."""
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
    X, y = draw_changing(n, p)
    X.eliminate_zeros()
    wide, split = augmented(X, y)
    varying, penalty = {"time_varying": {0: [CUT]}, **FREE}, 2.0**0.5
    run.show("what | rows:,d | seconds:.3g | to day 10=early:.3f | after=late:.3f | KKT=kkt:.0e")
    run.add(what="truth", rows=None, early=float(np.exp(EARLY)), late=float(np.exp(LATE)))
    model = sksurvgpu.CoxLassoCCD(alpha=penalty / n, **varying, **run.how)
    model.fit(X[:2_000], y[:2_000])
    seconds, model = repeat(lambda: model.fit(X, y))
    _tell(run, "ours, no augmentation", n, seconds, model)
    factor = {0: 0.0, 1: 0.0}
    second = sksurvgpu.CoxLassoCCD(alpha=penalty / len(split), penalty_factor=factor, **run.how)
    seconds, second = repeat(lambda: second.fit(wide, split))
    _tell(run, "ours, rows split at day 10", len(split), seconds, second)
    how = {"algorithm": "exact", "max_iter": 10_000, "n_jobs": 1, "backend": run.backend}
    seconds, exact = timed(sksurvgpu.CoxLassoCCD(alpha=penalty / n, **varying, **how).fit, X, y)
    _tell(run, "exact, no augmentation, 1 thread", n, seconds, exact)
    profile_seconds, profile = timed(sksurvgpu.profile_likelihood, model, X, y, 0)
    grid = {"n_alphas": run.pick(4, 20, 20), "alpha_min_ratio": 0.02, "cv": 10}
    cv = sksurvgpu.CoxLassoCV(n_jobs=run.threads, **grid, **varying)
    seconds, cv = timed(cv.fit, X, y)
    _tell(run, f"ours, {cv.n_splits_ * len(cv.cv_results_)} fits of 10 folds", n, seconds, cv)
    difference = np.abs(model.coef_ - second.coef_).max()
    bounds = np.exp(profile.intervals[["lower", "upper"]].to_numpy())
    run.note(
        f"largest difference of coefficients with and without augmentation {difference:.1e}; "
        f"{len(split):,} rows where split; {100 * ONES:.2f} % ones"
    )
    run.note(
        f"profile intervals in {profile_seconds:.2f} s: to day 10 ({bounds[0, 0]:.3f}, "
        f"{bounds[0, 1]:.3f}), after ({bounds[1, 0]:.3f}, {bounds[1, 1]:.3f})"
    )
    with run.figure(2) as axes:
        _draw(axes, model, bounds, X)


def _tell(run, what, rows, seconds, model):
    early, late = map(float, np.exp(model.coef_[:2]))
    row = {"early": early, "late": late, "kkt": residual(model)}
    run.add(what=what, rows=rows, seconds=seconds, **row)


def _draw(axes, model, bounds, X):
    """The effect in both periods, and predicted curves with and without treatment."""
    left, right = axes
    edges, ratios, truth = (0.0, CUT, 60.0), np.exp(model.coef_[:2]), np.exp([EARLY, LATE])
    for k in range(2):
        span, names = edges[k : k + 2], ("ours, 95 %", "truth") if k else (None, None)
        left.fill_between(span, *bounds[k], color=COLOURS[0], alpha=0.2, lw=0)
        left.plot(span, [ratios[k]] * 2, color=COLOURS[0], lw=2, label=names[0])
        left.plot(span, [truth[k]] * 2, color=COLOURS[1], ls="--", label=names[1])
    left.axhline(1.0, color=MUTED, lw=0.8)
    left.set(xlabel="day", ylabel="hazard ratio of the treatment", title="Two periods")
    left.legend(loc="upper right")
    rows = X[[0, 0]].toarray()
    rows[:, 0] = 1.0, 0.0
    names = ["treated", "comparator"]
    sksurvgpu.SurvivalDisplay.from_estimator(model, rows, labels=names, ax=right)
    right.axvline(CUT, color=MUTED, lw=0.8, ls=":")
    right.set(xlabel="day", title="Predicted curves of the first row")
