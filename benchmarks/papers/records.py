"""Paper A: the shape of its real data, simulated: a treatment, covariates, and their balance."""

from __future__ import annotations

import numpy as np
from scipy import sparse

import sksurvgpu
from sksurvgpu import cohort, datasets

from .figures import panels
from .rig import SEED, TOLERANCE, Problem, item, measure_ours, residual, timed

ONES, EFFECT = 0.0289, 0.3  # share of ones; log hazard ratio of the treatment


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
        ("model", "model", ""),
        ("what", "what", ""),
        ("seconds", "seconds", ".3g"),
        ("selected", "selected", ",d"),
        ("ratio", "effect", ".3f"),
        ("lower", "lower", ".3f"),
        ("upper", "upper", ".3f"),
        ("KKT", "kkt", ".0e"),
    )
    for name, outcome in (("cox", y), ("fine-gray", y_competing)):
        _treatment_effect(run, name, X, outcome)
    result = _balance(run, X[:, 1:], treated)
    figure, axes = panels(2)
    effects = [row for row in run.tables[0]["rows"] if row.get("lower") is not None]
    _draw_effects(axes[0], effects)
    sksurvgpu.BalanceDisplay.from_result(result, kind="scatter", ax=axes[1])
    axes[1].set_title("Balance of all covariates, before and after strata")
    run.keep(figure)


def _treatment_effect(run, name, X, y):
    """Cross-validated penalty, treatment unpenalized; its profile interval; the exact algorithm."""
    kind = {"cox": sksurvgpu.CoxLassoCV, "fine-gray": sksurvgpu.FineGrayCV}[name]
    how = {"penalty_factor": {0: 0.0}, "n_jobs": run.threads, "backend": run.backend}
    cv = kind(
        cv=10,
        n_repeats=run.pick(1, 1, 10),
        n_alphas=run.pick(5, 20, 20),
        alpha_min_ratio=0.02,
        random_state=SEED,
        **how,
    )
    factor = np.append(0.0, np.ones(X.shape[1] - 1))
    problem = Problem(name, X, y, parameters={"penalty_factor": {0: 0.0}}, factor=factor)
    seconds, cv = timed(cv.fit, X, y)
    problem.penalty = cv.alpha_ * len(y)
    n_fits = cv.n_splits_ * len(cv.cv_results_)
    run.add(
        model=name,
        what=f"ours, {n_fits} fits of {cv.n_splits_} splits",
        seconds=seconds,
        selected=int((cv.coef_[1:] != 0).sum()),
        kkt=residual(cv),
    )
    seconds, profile = timed(sksurvgpu.profile_likelihood, cv.refit_model(), X, y, 0)
    low, high = np.exp(profile.intervals.iloc[0][["lower", "upper"]])
    run.add(
        model=name,
        what="profile interval of the treatment",
        seconds=seconds,
        effect=float(np.exp(cv.coef_[0])),
        lower=float(low),
        upper=float(high),
    )
    for algorithm in ("majorized", "exact"):
        found = measure_ours(run, problem, algorithm, tol=TOLERANCE)
        run.add(
            model=name,
            what=f"one fit, {found['solver']}",
            seconds=found["seconds"],
            selected=found["nonzeros"] - 1,
            effect=float(np.exp(found["coef"][0])),
            kkt=found["kkt"],
        )


def _balance(run, X, treated):
    """Propensity scores by lasso, five strata, and standardized differences before and after."""
    model = sksurvgpu.LogisticCV(
        n_alphas=run.pick(5, 20, 20),
        cv=run.pick(3, 10, 10),
        alpha_min_ratio=0.02,
        n_jobs=run.threads,
        backend=run.backend,
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
        ("covariate", "covariate", ""),
        ("treated", "treated", ".1%"),
        ("comparators", "comparators", ".1%"),
        ("difference", "before", ".3f"),
        ("after strata", "after", ".3f"),
        title="largest standardized differences",
    )
    for name in before.sort_values(ascending=False).index[:10]:
        line = table.loc[name]
        run.add(
            covariate=str(name),
            treated=float(line["mean_treated_before"]),
            comparators=float(line["mean_comparator_before"]),
            before=float(line["std_diff_before"]),
            after=float(line["std_diff_after"]),
        )
    return result


def _draw_effects(ax, effects):
    for k, row in enumerate(effects):
        ax.plot([row["lower"], row["upper"]], [k, k], color="#0b6fa4", lw=2)
        ax.plot(row["effect"], k, "o", color="#0b6fa4", ms=7)
    ax.axvline(np.exp(EFFECT), color="#d1495b", lw=1.2, ls="--", label="truth")
    ax.axvline(1.0, color="#6b6b6b", lw=0.8)
    ax.set_yticks(range(len(effects)), [row["model"] for row in effects])
    ax.set_ylim(-0.6, len(effects) - 0.4)
    ax.set_xlabel("hazard ratio of the treatment, 95 % profile interval")
    ax.set_title("Treatment effect")
    ax.legend(loc="lower right")
