"""Results that are ours alone: certificates along a path, coverage, scaling in memory and time."""

from __future__ import annotations

import numpy as np

import sksurvgpu
from sksurvgpu import datasets

from ..processes import call, forget_peak, memory_mb
from .figures import draw_lines, panels
from .rig import GAMMA, SEED, Problem, item, judged, residual, timed

EFFECT, NUISANCE, N_ACTIVE, LEVEL = 0.5, 0.25, 4, 0.95
MB = 2**20


@item("ours", "certificates along a path: violations in standard errors, duality gaps")
def certificates(run):
    n, p = run.pick((400, 30), (20_000, 1_000), (434_866, 9_811))
    data = datasets.simulate_ehr(n, p, random_state=SEED)
    model = sksurvgpu.CoxLassoCCD(n_jobs=run.threads, backend=run.backend)
    how = {"n_alphas": run.pick(6, 40, 40), "alpha_min_ratio": 0.01}
    seconds, path = timed(sksurvgpu.fit_path, model, data.X, data.y, **how)
    run.show(
        ("alpha", "alpha", ".3g"),
        ("selected", "selected", ",d"),
        ("iterations", "n_iter", "d"),
        ("KKT / alpha", "kkt", ".0e"),
        ("in standard errors", "kkt_se", ".0e"),
        ("gap / objective", "gap", ".0e"),
        ("judge's KKT", "judged", ".0e"),
    )
    problem = Problem("cox", data.X, data.y)
    for k in range(0, len(path.alphas), max(1, len(path.alphas) // 8)):
        problem.penalty = path.alphas[k] * n
        found = judged(problem, path.coefs[:, k])
        run.add(
            alpha=float(path.alphas[k]),
            selected=int(path.df[k]),
            n_iter=int(path.n_iter[k]),
            kkt=float(path.kkt[k] / path.alphas[k]),
            kkt_se=float(path.kkt_se[k]),
            gap=float(path.dual_gap[k] / abs(path.objective[k])),
            judged=found["kkt"],
        )
    run.note(
        f"{n:,} x {p:,} health records; {len(path.alphas)} fits in {seconds:.2f} s, "
        f"{int(path.converged.sum())} converged; worst violation {path.kkt_se.max():.0e} "
        "standard errors; the judge shares no code with the package"
    )
    figure, axes = panels(2)
    gaps = path.dual_gap / np.abs(path.objective)
    for ax, values, ylabel, title in (
        (axes[0], path.kkt_se, "standard errors of a coefficient", "Largest violation"),
        (axes[1], gaps, "share of the objective", "Distance to the optimum, at most"),
    ):
        seen = values > 0.0  # that at the largest penalty is zero
        series = {"ours": (path.alphas[seen], values[seen])}
        draw_lines(ax, series, xlabel="alpha", ylabel=ylabel, title=f"{title}, along the path")
    for ax in axes:
        ax.get_legend().remove()
        ax.invert_xaxis()
    run.keep(figure)


# -- coverage ---------------------------------------------------------------------------------


def draw_treatment(rng, n, n_nuisance):
    """A treatment that depends on four covariates, which the hazard does, too."""
    nuisance = rng.normal(size=(n, n_nuisance))
    score = NUISANCE * nuisance[:, :N_ACTIVE].sum(axis=1)
    treated = rng.random(n) < 1.0 / (1.0 + np.exp(-score))
    event = rng.exponential(size=n) * np.exp(-EFFECT * treated - score)
    censored = rng.uniform(0.0, 2.0, n)
    y = sksurvgpu.surv(event <= censored, np.minimum(event, censored))
    return np.column_stack([treated, nuisance]), y


@item("ours", "coverage of 95 % intervals of a treatment: profile, bootstrap, Wald, debiased")
def coverage(run):
    n_sets, n_replicates = run.pick(4, 100, 1_000), run.pick(10, 100, 200)
    run.show(
        ("design", "design", ""),
        ("interval", "interval", ""),
        ("covered", "covered", "d"),
        ("of", "of", "d"),
        ("coverage", "coverage", ".1%"),
        ("error", "error", ".1%"),
        ("width", "width", ".3f"),
        ("ms an interval", "ms", ".1f"),
    )
    designs = {"4 covariates, no penalty": (4, 0.0), "30 covariates, lasso": (30, 0.05)}
    for design, (n_nuisance, alpha) in designs.items():
        found = {}
        for k in range(n_sets):
            X, y = draw_treatment(np.random.default_rng([SEED, k]), 300, n_nuisance)
            _intervals(X, y, alpha, n_replicates, k, found)
        for kind, intervals in found.items():
            _judge_intervals(run, design, kind, np.array(intervals))
    run.note(
        f"300 rows, log hazard ratio {EFFECT}, treatment unpenalized and confounded; under a "
        "lasso, what it leaves out of the confounders biases the profile and bootstrap"
    )
    figure, [ax] = panels(1, width=7.0)
    _draw_coverage(ax, run.rows)
    run.keep(figure)


def _intervals(X, y, alpha, n_replicates, seed, found):
    model = sksurvgpu.CoxLassoCCD(alpha=alpha, penalty_factor={0: 0.0}, n_jobs=1, backend="cpu")
    model.fit(X, y)
    kinds = {
        "profile": lambda: sksurvgpu.profile_likelihood(model, X, y, 0, level=LEVEL),
        "bootstrap": lambda: sksurvgpu.bootstrap(
            model, X, y, n_replicates=n_replicates, level=LEVEL, random_state=seed
        ),
    }
    if alpha == 0.0:
        kinds["Wald"] = lambda: sksurvgpu.wald(model, X, y, level=LEVEL)
    else:
        kinds["debiased"] = lambda: sksurvgpu.debiased(model, X, y, level=LEVEL)
    for kind, interval in kinds.items():
        seconds, result = timed(interval)
        low, high = result.intervals.iloc[0][["lower", "upper"]]
        found.setdefault(kind, []).append((low, high, seconds))


def _judge_intervals(run, design, kind, intervals):
    lower, upper, seconds = intervals.T
    covered, n = int(((lower <= EFFECT) & (upper >= EFFECT)).sum()), len(lower)
    share = covered / n
    run.add(
        design=design,
        interval=kind,
        covered=covered,
        of=n,
        coverage=share,
        error=float(np.sqrt(share * (1.0 - share) / n)),
        ms=1e3 * float(np.median(seconds)),
        width=float(np.median(upper - lower)),
    )


def _draw_coverage(ax, rows):
    for k, row in enumerate(rows):
        share, error = 100.0 * row["coverage"], 196.0 * row["error"]
        ax.plot([share - error, share + error], [k, k], color="#0b6fa4", lw=2)
        ax.plot(share, k, "o", color="#0b6fa4", ms=6)
    ax.axvline(100.0 * LEVEL, color="#d1495b", lw=1.2, ls="--")
    ax.set_yticks(range(len(rows)), [f"{row['design']}: {row['interval']}" for row in rows])
    ax.invert_yaxis()
    ax.set(
        xlabel="% of data sets whose interval holds the truth, +- 1.96 errors",
        title="Coverage of 95 % intervals",
    )


# -- scaling ----------------------------------------------------------------------------------


def fit_size(nonzeros, p, n_threads, backend):
    """One Cox fit in this process: seconds, and growth of its memory beyond X and y."""
    n = round(nonzeros / (0.05 * p))
    data = datasets.simulate_cox(n, p, random_state=SEED)
    model = sksurvgpu.CoxLassoCCD(alpha=GAMMA / n, n_jobs=n_threads, backend=backend)
    few = min(n, 4_000)
    model.fit(data.X[:few], data.y[:few])
    forget_peak()
    before = memory_mb("VmRSS")
    seconds, _ = timed(model.fit, data.X, data.y)
    return {
        "rows": n,
        "nonzeros": int(data.X.nnz),
        "seconds": seconds,
        "iterations": int(model.n_iter_),
        "kkt": residual(model),
        "kkt_se": float(model.kkt_se_),
        "growth_mb": memory_mb() - before,
        "x_mb": (12 * data.X.nnz + 8 * p) / MB,
        "copy_mb": 4 * data.X.nnz / MB,
        "peak_mb": memory_mb(),
    }


@item("ours", "one fit over nonzeros: seconds and memory, a process each")
def scaling(run):
    p = run.pick(20, 1_000, 1_000)
    sizes = run.pick((1e4,), (1e6, 3e6, 1e7, 2e7), (1e6, 1e7, 5e7, 1e8, 2e8))
    run.show(
        ("nonzeros", "nonzeros", ",d"),
        ("rows", "rows", ",d"),
        ("seconds", "seconds", ".3g"),
        ("ns / nonzero", "ns", ".1f"),
        ("iterations", "iterations", "d"),
        ("KKT", "kkt", ".0e"),
        ("growth MB", "growth_mb", ",.0f"),
        ("our copy of X MB", "copy_mb", ",.0f"),
        ("X given MB", "x_mb", ",.0f"),
        ("peak MB", "peak_mb", ",.0f"),
    )
    for nonzeros in sizes:
        job = {"nonzeros": nonzeros, "p": p, "n_threads": run.threads, "backend": run.backend}
        found = call("benchmarks.papers.ours", "fit_size", job, n_threads=run.threads)
        run.add(**found, ns=1e9 * found["seconds"] / found["nonzeros"])
    run.note("papers' design, 5 % ones, penalty sqrt(2); growth: of the peak during the fit")
    figure, axes = panels(2)
    x = [row["nonzeros"] for row in run.rows]
    draw_lines(
        axes[0],
        {"one fit": (x, [row["seconds"] for row in run.rows])},
        xlabel="ones in X",
        title="Seconds",
    )
    memory = {
        "growth during the fit": (x, [row["growth_mb"] for row in run.rows]),
        "X as given": (x, [row["x_mb"] for row in run.rows]),
    }
    draw_lines(axes[1], memory, xlabel="ones in X", ylabel="MB", title="Memory")
    axes[0].get_legend().remove()
    run.keep(figure)
