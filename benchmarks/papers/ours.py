"""Results that are ours alone: certificates along a path, coverage, scaling in memory and time."""

from __future__ import annotations

import numpy as np

import sksurvgpu
from sksurvgpu import datasets

from ..coverage import EFFECT, draw_treatment, intervals_of, judge
from ..processes import call, forget_peak, memory_mb
from .figures import draw_intervals, draw_lines
from .rig import GAMMA, SEED, Problem, item, judged, residual, timed

MB = 2**20


@item("ours", "certificates along a path: violations in standard errors, duality gaps")
def certificates(run):
    n, p = run.pick((400, 30), (20_000, 1_000), (434_866, 9_811))
    data = datasets.simulate_ehr(n, p, random_state=SEED)
    model = sksurvgpu.CoxLassoCCD(**run.how)
    how = {"n_alphas": run.pick(6, 40, 40), "alpha_min_ratio": 0.01}
    seconds, path = timed(sksurvgpu.fit_path, model, data.X, data.y, **how)
    run.show(
        "alpha:.3g | selected:,d | iterations=n_iter:d | KKT / alpha=kkt:.0e | "
        "in standard errors=kkt_se:.0e | gap / objective=gap:.0e | judge's KKT=judged:.0e"
    )
    problem = Problem("cox", data.X, data.y)
    for k in range(0, len(path.alphas), max(1, len(path.alphas) // 8)):
        problem.penalty = path.alphas[k] * n
        found = judged(problem, path.coefs[:, k])
        row = {"alpha": float(path.alphas[k]), "selected": int(path.df[k])}
        row |= {"n_iter": int(path.n_iter[k]), "kkt": float(path.kkt[k] / path.alphas[k])}
        row |= {"kkt_se": float(path.kkt_se[k]), "judged": found["kkt"]}
        run.add(gap=float(path.dual_gap[k] / abs(path.objective[k])), **row)
    run.note(
        f"{n:,} x {p:,} health records; {len(path.alphas)} fits in {seconds:.2f} s, "
        f"{int(path.converged.sum())} converged; worst violation {path.kkt_se.max():.0e} "
        "standard errors; the judge shares no code with the package"
    )
    gaps = path.dual_gap / np.abs(path.objective)
    with run.figure(2) as axes:
        for ax, values, ylabel, title in (
            (axes[0], path.kkt_se, "standard errors of a coefficient", "Largest violation"),
            (axes[1], gaps, "share of the objective", "Distance to the optimum, at most"),
        ):
            seen = values > 0.0  # that at the largest penalty is zero
            series = {"ours": (path.alphas[seen], values[seen])}
            look = {"xlabel": "alpha", "ylabel": ylabel, "title": f"{title}, along the path"}
            draw_lines(ax, series, **look)
            ax.get_legend().remove()
            ax.invert_xaxis()


@item("ours", "coverage of 95 % intervals of a treatment: profile, bootstrap, Wald, debiased")
def coverage(run):
    n_sets, n_replicates = run.pick(4, 100, 1_000), run.pick(10, 100, 200)
    run.show(
        "design | interval | covered:d | of:d | coverage:.1% | error:.1% | width:.3f | "
        "ms an interval=ms:.1f"
    )
    designs = {
        "4 covariates, no penalty": (4, 0.0, ("profile", "bootstrap", "Wald")),
        "30 covariates, lasso": (30, 0.05, ("profile", "bootstrap", "debiased")),
    }
    for design, (n_nuisance, alpha, kinds) in designs.items():
        found = {kind: [] for kind in kinds}
        for k in range(n_sets):
            rng = np.random.default_rng([SEED, k])
            kind, X, y = draw_treatment("cox", 300, n_nuisance, alpha, True, rng)
            for name, each in intervals_of(kind, alpha, X, y, n_replicates, k, kinds).items():
                found[name].append(each)
        for kind, each in found.items():
            row = judge(each)
            run.add(design=design, interval=kind, ms=1e3 * row["seconds"] / n_sets, **row)
    run.note(
        f"300 rows, log hazard ratio {EFFECT}, treatment unpenalized and confounded; under a "
        "lasso, what it leaves out of the confounders biases the profile and bootstrap"
    )
    with run.figure(width=7.0) as [ax]:
        draw_intervals(
            ax,
            run.rows,
            lambda row: f"{row['design']}: {row['interval']}",
            lambda row: [100.0 * row["coverage"] + 196.0 * k * row["error"] for k in (-1, 0, 1)],
            truth=95.0,
            xlabel="% of data sets whose interval holds the truth, +- 1.96 errors",
            title="Coverage of 95 % intervals",
        )


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
    found = {"rows": n, "nonzeros": int(data.X.nnz), "seconds": seconds, "kkt": residual(model)}
    found |= {"iterations": int(model.n_iter_), "kkt_se": float(model.kkt_se_)}
    found |= {"growth_mb": memory_mb() - before, "x_mb": (12 * data.X.nnz + 8 * p) / MB}
    return {**found, "copy_mb": 4 * data.X.nnz / MB, "peak_mb": memory_mb()}


@item("ours", "one fit over nonzeros: seconds and memory, a process each")
def scaling(run):
    p = run.pick(20, 1_000, 1_000)
    sizes = run.pick((1e4,), (1e6, 3e6, 1e7, 2e7), (1e6, 1e7, 5e7, 1e8, 2e8))
    run.show(
        "nonzeros:,d | rows:,d | seconds:.3g | ns / nonzero=ns:.1f | iterations:d | KKT=kkt:.0e | "
        "growth MB=growth_mb:,.0f | our copy of X MB=copy_mb:,.0f | X given MB=x_mb:,.0f | "
        "peak MB=peak_mb:,.0f"
    )
    for nonzeros in sizes:
        job = {"nonzeros": nonzeros, "p": p, "n_threads": run.threads, "backend": run.backend}
        found = call("benchmarks.papers.ours", "fit_size", job, n_threads=run.threads)
        run.add(**found, ns=1e9 * found["seconds"] / found["nonzeros"])
    run.note("papers' design, 5 % ones, penalty sqrt(2); growth: of the peak during the fit")
    x, seconds, growth, given = (
        [row[name] for row in run.rows] for name in ("nonzeros", "seconds", "growth_mb", "x_mb")
    )
    memory = {"growth during the fit": (x, growth), "X as given": (x, given)}
    with run.figure(2) as axes:
        draw_lines(axes[0], {"one fit": (x, seconds)}, xlabel="ones in X", title="Seconds")
        draw_lines(axes[1], memory, xlabel="ones in X", ylabel="MB", title="Memory")
        axes[0].get_legend().remove()
