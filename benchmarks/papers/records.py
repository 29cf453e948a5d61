"""Papers A, C and D: the shape of their real data, simulated.

Clustered records with a confounded treatment: the model of the treatment, matched pairs, strata of
the propensity score, and the treatment's effect.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from scipy import sparse

import sksurvgpu
from sksurvgpu import cohort, datasets

from .figures import MUTED, draw_bars, draw_intervals, draw_lines, series_of
from .rig import SEED, Problem, item, measure_ours, residual, search, timed_both

ONES, EFFECT = 0.0289, 0.3  # share of ones; log hazard ratio of the treatment
FREE = {"penalty_factor": {0: 0.0}}
AUTO = {"search": "auto", "start_variance": 0.01}
SPREAD = 0.8  # standard deviation of linear predictors
DRAWN = 1.5  # persons drawn for one in matched pairs
FEW = 500


def draw_records(n, p, share=ONES, seed=SEED):
    """Clustered codes thinned to a share of ones, a confounded treatment first, two outcomes."""
    X = datasets.simulate_ehr(n, p, random_state=seed).X
    rng = np.random.default_rng([seed, 1])
    X.data = np.empty(0)  # all are ones, and may be a byte each
    kept = rng.random(len(X.indices), dtype=np.float32) < share * n * p / len(X.indices)
    indptr = np.append(0, np.cumsum(kept, dtype=np.int64))[X.indptr].astype(np.int32)
    indices = X.indices[kept]
    X = sparse.csc_array((np.ones(len(indices), bool), indices, indptr), shape=(n, p))
    common = np.argsort(-np.diff(X.indptr))[: max(4, p // 50)]
    coef = np.zeros(p)
    coef[common] = rng.normal(0.0, 0.5, len(common))
    score = X @ np.where(coef != 0, 0.5 * coef + rng.normal(0.0, 0.3, p), 0.0)
    score, eta = ((v - v.mean()) * SPREAD / v.std() for v in (score, X @ coef))
    treated = rng.random(n) < 1.0 / (1.0 + np.exp(0.4 - score))
    eta += EFFECT * treated
    time_, censored = rng.exponential(size=n) * np.exp(-eta) / 3e-4, rng.uniform(0.0, 500.0, n)
    y = sksurvgpu.surv(time_ < censored, np.minimum(time_, censored) + 1e-3)
    with_treatment = sparse.hstack([sparse.csc_array(treated[:, None]), X], format="csc")
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


@item("D", "propensity model: the treatment as outcome, 10 x 1 and 10 x 10")
def propensity(run):
    narrow, wide = (74_624, 3_626), (74_624, 24_815)
    jobs = run.pick(
        [((400, 30), (1, 10))],
        [((7_462, 362), (10,)), ((7_462, 2_481), (1, 10))],
        [(narrow, (10,)), (wide, (1, 10))],
    )
    run.show(
        "solver | what=label | seconds:.3g | CPU s=cpu_seconds:.3g | variances=tried:d | "
        "variance:.3g | selected:,d | KKT=kkt:.0e"
    )
    for (n, p), repeats in jobs:
        X, treated, _, _ = draw_records(n, p, 0.03)
        problem = Problem("logistic", X[:, 1:], treated.astype(int))
        run.note(f"{problem.size}: {treated.mean():.1%} treated, 3 % ones")
        for k in repeats:
            cv, found = search(run, problem, few=FEW, n_repeats=k, **AUTO)
            run.add(label=f"{problem.size}, 10 x {k}", **found)
        problem.penalty = cv.alpha_ * n
        _one_fit(run, problem, label=f"{problem.size}, one fit")
    names = [f"{row['label']}: {row['solver']}" for row in run.rows]
    with run.figure(width=9.0) as [ax]:
        look = {"xlabel": "seconds (log)", "log": True, "title": "Propensity model"}
        draw_bars(ax, names, [row["seconds"] for row in run.rows], **look)


def _one_fit(run, problem, **label):
    """Rows of one fit at the chosen penalty, by the default algorithm and by the exact one."""
    has_treatment = np.ndim(problem.factor)
    for algorithm in ("majorized", "exact"):
        found = measure_ours(run, problem, algorithm)
        coef = found.pop("coef")
        found["selected"] = found["nonzeros"] - has_treatment
        found["what"] = f"one fit, {found['solver']}"
        if has_treatment:
            found["effect"] = float(np.exp(coef[0]))
        run.add(**label, **found)


def _persons(run, X, treated):
    """Persons with a propensity score, by lasso, and what the model took.

    At published size, 10 folds of every tenth person choose the prior variance.
    """
    tenth = slice(None, None, run.pick(1, 1, 10))
    y, how = treated.astype(int), {"max_iter": 10_000, **run.how}
    cv = sksurvgpu.LogisticCV(cv=run.pick(3, 10, 10), random_state=SEED, **AUTO, **how)
    cv.fit(X[:FEW, 1:], y[:FEW])

    def fit():
        few = X[tenth, 1:]
        alpha = cv.fit(few, y[tenth]).alpha_ * few.shape[0] / len(y)
        return sksurvgpu.LogisticCCD(alpha=alpha, **how).fit(X[:, 1:], y)

    model, times = timed_both(fit)
    score = model.predict_proba(X[:, 1:])[:, 1]
    persons = pd.DataFrame({"id": np.arange(len(score)), "treatment": treated, "score": score})
    found = {"what": "propensity score", "selected": int((model.coef_ != 0).sum())}
    return persons, {**found, **times, "kkt": residual(model)}


EFFECTS = (
    "model | what | seconds:.3g | CPU s=cpu_seconds:.3g | selected:,d | ratio=effect:.3f | "
    "lower:.3f | upper:.3f | KKT=kkt:.0e"
)


@item("A", "the shape of the real data: matched pairs, treatment effect and balance")
def real_data(run):
    n, p = run.pick((1_000, 60), (43_486, 981), (434_866, 9_811))
    X, treated, *outcomes = draw_records(round(DRAWN * n), p)
    run.show(EFFECTS)
    persons, found = _persons(run, X, treated)
    run.add(model="logistic", **found)
    matched, times = timed_both(lambda: cohort.match(persons))
    pairs = matched.keep(matched.table["match"] < n // 2, f"first {n // 2:,} pairs")
    run.add(model="logistic", what=f"{len(matched.rows) // 2:,} pairs", **times)
    strata = {"strata": pairs.table["match"], "rows": pairs.rows}
    result = cohort.balance(X[:, 1:], treated, n_jobs=run.threads, **strata)
    X, outcomes = X[pairs.rows], [y[pairs.rows] for y in outcomes]
    run.note(
        f"{len(treated):,} persons drawn, {len(pairs.rows):,} in pairs; {p:,} covariates, "
        f"{100 * X[:, 1:].nnz / X.shape[0] / p:.2f} % ones; {outcomes[0]['event'].sum():,} events, "
        f"{np.sum(outcomes[1]['event'] == 1):,} of interest with competing ones; true log hazard "
        f"ratio {EFFECT}; replicates of the bootstrap draw pairs"
    )
    groups = pairs.table["match"].to_numpy()
    for name, outcome in zip(("cox", "fine-gray"), outcomes, strict=True):
        _treatment_effect(run, name, X, outcome, groups)
    effects = [row for row in run.rows if row.get("lower") is not None]
    _tell_balance(run, result)
    with run.figure(2) as [left, right]:
        _draw_effects(left, effects, "model", "bootstrap percentile interval")
        sksurvgpu.BalanceDisplay.from_result(result, kind="scatter", ax=right)
        right.set_title("Balance of all covariates, before and after matching")


def _draw_effects(ax, rows, key, kind):
    look = {"xlabel": f"hazard ratio, 95 % {kind}"}
    look |= {"title": "Effect of the treatment", "truth": np.exp(EFFECT)}
    ends = lambda row: (row["lower"], row["effect"], row["upper"])  # noqa: E731
    draw_intervals(ax, rows, lambda row: row[key], ends, **look)
    ax.axvline(1.0, color=MUTED, lw=0.8)
    ax.legend(loc="lower right")


def _treatment_effect(run, name, X, y, groups):
    """Cross-validated penalty, treatment unpenalized; its percentile interval; single fits."""
    factor = np.append(0.0, np.ones(X.shape[1] - 1))
    problem = Problem(name, X, y, parameters=FREE, factor=factor)
    # At published size, ten deals of the folds for one of both models.
    repeats = run.pick(1, 1, 10) if name == "cox" else 1
    cv, found = search(run, problem, few=FEW, n_repeats=repeats, **AUTO)
    found["selected"] -= 1  # the treatment
    problem.penalty = cv.alpha_ * len(y)
    label = {"cox": "Cox", "fine-gray": "Fine-Gray"}[name] + f", 10 x {repeats} folds"
    run.add(model=name, what=f"ours, {found['fits']} fits", label=label, **found)
    _one_fit(run, problem, model=name, label=f"{label}, one fit")
    how = {"n_replicates": run.pick(20, 200, 200), "random_state": SEED, "groups": groups}
    drawn, times = timed_both(lambda: sksurvgpu.bootstrap(cv.refit_model(), X, y, **how))
    low, high = map(float, np.exp(drawn.intervals.iloc[0][["lower", "upper"]]))
    row = {"what": f"bootstrap, {how['n_replicates']} replicates", **times}
    run.add(model=name, **row, effect=float(np.exp(cv.coef_[0])), lower=low, upper=high)


def _tell_balance(run, result):
    """The table of balance: the largest differences, before and after."""
    table = result.table
    before, after = table["std_diff_before"].abs(), table["std_diff_after"].abs()
    run.note(
        f"standardized differences above 0.1: {int((before > 0.1).sum())} before, "
        f"{int((after > 0.1).sum())} after"
    )
    run.show(
        "covariate | treated:.1% | comparators:.1% | difference=before:.3f | after:.3f",
        title="largest standardized differences",
    )
    names = {"treated": "mean_treated_before", "comparators": "mean_comparator_before"}
    names |= {"before": "std_diff_before", "after": "std_diff_after"}
    for name in before.sort_values(ascending=False).index[:10]:
        line = {key: float(table.loc[name, column]) for key, column in names.items()}
        run.add(covariate=str(name), **line)


@item("C", "a treatment in 5, 10 and 20 strata of the propensity score, 10 folds, 3 % ones")
def few_strata(run):
    n, p = run.pick((800, 30), (20_000, 500), (946_911, 9_976))
    X, treated, y, _ = draw_records(n, p, 0.03)
    run.show("strata:d | " + EFFECTS.removeprefix("model | "))
    persons, found = _persons(run, X, treated)
    run.add(**found)
    factor = np.append(0.0, np.ones(p))
    for count in (5, 10, 20):
        stratum = cohort.stratify(persons, count).table["stratum"].to_numpy()
        more = {"strata": stratum}
        problem = Problem("cox", X, y, more=more, parameters=FREE, factor=factor)
        label = {"strata": count, "label": f"{problem.size}, 10 folds, {count} strata"}
        cv, found = search(run, problem, few=FEW, **AUTO)
        found["selected"] -= 1
        problem.penalty = cv.alpha_ * n
        run.add(**label, what=f"ours, {found['fits']} fits", **found)
        ask = partial(sksurvgpu.profile_likelihood, cv.refit_model(), X, y, 0, **more)
        profile, times = timed_both(ask)
        low, high = map(float, np.exp(profile.intervals.iloc[0][["lower", "upper"]]))
        row = {"what": "profile interval", **times, "effect": float(np.exp(cv.coef_[0]))}
        run.add(strata=count, **row, lower=low, upper=high, name=f"{count} strata")
        if count == 5:
            _one_fit(run, problem, strata=count)
    run.note(
        f"{y['event'].sum():,} events, {treated.mean():.1%} treated; true log hazard ratio {EFFECT}"
    )
    with run.figure(2) as [left, right]:
        rows = [row for row in run.rows if row.get("label")]
        look = {"xlabel": "strata", "title": f"{n:,} x {p + 1:,}, 10 folds"}
        look |= {"logs": "y", "published": run.item.published}
        draw_lines(left, series_of(rows, "strata"), **look)
        left.set_xticks([5, 10, 20])
        effects = [row for row in run.rows if row.get("lower") is not None]
        _draw_effects(right, effects, "name", "profile interval")
