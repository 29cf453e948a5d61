"""Fits that share X: paths, cross-validation, bootstrap, profiles, many outcomes, threads.

Measurements have a process of their own.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from .cases import PAPERS_PENALTY, SEED
from .judge import Certificate
from .problems import Data, write_problem
from .processes import ROOT, call, environment, in_turn, memory_mb, run, timed
from .report import Option, columns, lines, read, save

# name -> (simulator, rows, columns, penalties, last penalty over the largest; None is sqrt(2))
DESIGNS = {
    "ehr": ("simulate_ehr", 100_000, 2_000, 40, 0.01),
    "papers": ("simulate_cox", 100_000, 1_000, 100, None),
}
PATHS = columns(
    "path | threads:d | penalties:d | seconds:.3f | last alone=last_alone:.3f | ratio:.2f | "
    "iter=iterations:d | KKT=kkt:.1e | unsolved:d | nonzero=nonzeros:d | peak MB=peak_mb:.0f",
    path=lambda found: f"{found['path']} {found['n']:,} x {found['p']:,}",
    ratio=lambda found: found["seconds"] / found["last_alone"],
)


def main_paths(arguments=None):
    """Regularization paths, beside a cold fit at the path's last penalty.

    Health records: 40 penalties from the largest useful one to 0.01 of it. Papers' design: 100 from
    the largest to gamma = sqrt(2).
    """
    options = read(
        "paths",
        main_paths.__doc__,
        arguments,
        "4,000 x 200",
        designs=tuple(DESIGNS),
        threads=[1, 2],
        rows=Option(int, "in place of the design's"),
        columns=Option(int, "in place of the design's"),
        repeats=Option(1, "times each is timed; medians"),
    )
    size = (4_000, 200) if options.quick else (options.rows, options.columns)
    sizes = {"rows": size[0], "columns": size[1], "repeats": options.repeats}
    pairs = [(name, n_threads) for name in options.designs for n_threads in options.threads]
    jobs = [("measure_path", {"name": name, "n_threads": k, **sizes}) for name, k in pairs]
    print(lines(PATHS, in_turn(__name__, jobs, lambda results: save(options, results=results))))


def measure_path(name, n_threads, rows, columns, repeats):
    """Time one path and the fit at its last penalty; check every answer."""
    from sksurvgpu import CoxLassoCCD, datasets, fit_path

    simulator, n, p, n_penalties, last = DESIGNS[name]
    n, p = rows or n, columns or p
    simulated = getattr(datasets, simulator)(n, p, random_state=SEED)
    X, y = simulated.X, simulated.y
    judge = Certificate(Data.of(simulated))
    end = PAPERS_PENALTY if last is None else last * judge.penalty_max
    penalties = np.geomspace(judge.penalty_max, end, n_penalties)
    model = CoxLassoCCD(n_jobs=n_threads, backend="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_path(model, X[:500], y[:500], alphas=[0.05, 0.02])  # loads the kernels
        seconds, path = _median(lambda: fit_path(model, X, y, alphas=penalties / n), repeats)
        model.set_params(alpha=path.alphas[-1])
        alone, _ = _median(lambda: model.fit(X, y), repeats)
    found = {"path": name, "threads": n_threads, "n": n, "p": p, "nnz": int(X.nnz)}
    found |= {"penalties": n_penalties, "penalty_max": judge.penalty_max, "peak_mb": memory_mb()}
    found |= {"last_penalty": float(path.alphas[-1] * n), "seconds": seconds, "last_alone": alone}
    found |= {"iterations": int(path.n_iter.sum()), "nonzeros": int(path.df[-1])}
    judged = [judge.judge(*pair) for pair in zip(path.coefs.T, path.alphas * n, strict=True)]
    found["kkt"] = max(fit["kkt"] for fit in judged)
    return {**found, "unsolved": int(np.count_nonzero(~path.converged))}


def _median(function, repeats):
    """Median seconds, and the last result."""
    runs = [timed(function) for _ in range(repeats)]
    return statistics.median(seconds["seconds"] for _, seconds in runs), runs[-1][0]


N_FOLDS, N_REPEATS, N_PENALTIES, N_REPLICATES = 10, 10, 10, 200
RESAMPLING = columns(
    "batch | threads:d | fits:,d | seconds:.2f | cold fit=cold:.3f | ratio:.1f | "
    "MB gained=mb_gained:.0f | note",
    ratio=lambda found: found["seconds"] / found["cold"] if found["cold"] else None,
)


def main_resampling(arguments=None):
    """Batches of fits that share X: cross-validation, bootstrap and profile likelihood.

    Cross-validation is 10 folds dealt 10 times over 10 penalties, from the largest useful one (left
    out) to gamma = sqrt(2); beside it Cyclops' own, on one core, with as many folds, deals and
    steps as `--peer` says, whose time is then multiplied by the number of fits left out. The others
    are told in units of one cold fit at gamma = sqrt(2). Memory is what the process gained over a
    fit alone.
    """
    peer = {"nargs": 3, "type": int, "default": [10, 1, 4]}
    options = read(
        "resampling",
        main_resampling.__doc__,
        arguments,
        "2,000 x 50",
        parts=(*BATCHES, "cyclops"),
        threads=2,
        rows=Option(100_000, quick=2_000),
        columns=Option(1_000, quick=50),
        peer=Option(peer | {"metavar": ("FOLDS", "REPEATS", "STEPS")}),
        rscript="Rscript",
        tolerance=Option(1e-6, "of Cyclops"),
        timeout=Option(7_200.0, "seconds, of Cyclops"),
    )
    sizes = {"n": options.rows, "p": options.columns, "n_threads": options.threads}
    jobs = [("measure_batch", {"part": part, **sizes}) for part in options.parts if part in BATCHES]
    results = in_turn(__name__, jobs, lambda results: save(options, results=results))
    if "cyclops" in options.parts:
        results.append(measure_cyclops(options))
        save(options, results=results)
    print(lines(RESAMPLING, results))


def measure_batch(part, n, p, n_threads):
    """Seconds of a cold fit and of a batch, in this process."""
    from sksurvgpu import CoxLassoCCD, datasets

    simulated = datasets.simulate_cox(n, p, random_state=SEED)
    X, y = simulated.X, simulated.y
    model = CoxLassoCCD(alpha=PAPERS_PENALTY / n, n_jobs=n_threads, backend="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = CoxLassoCCD(alpha=0.05, n_jobs=n_threads, backend="cpu")
        BATCHES[part](small, X[:2_000], y[:2_000])  # loads the kernels
        model.fit(X, y)
        _, cold = timed(lambda: model.fit(X, y))
        before = memory_mb()
        (n_fits, note), seconds = timed(lambda: BATCHES[part](model, X, y))
    found = {"batch": part, "threads": n_threads, "n": n, "p": p, "fits": n_fits, "note": note}
    found |= {"seconds": seconds["seconds"], "cold": cold["seconds"]}
    return {**found, "mb_gained": memory_mb() - before}


def cross_validate(model, X, y):
    """All splits and penalties of `N_FOLDS` x `N_REPEATS` x `N_PENALTIES`."""
    from sksurvgpu import CoxLassoCV

    n = len(y)
    alphas = penalties_of(model.fit(X, y).alpha_max_ * n) / n
    cv = CoxLassoCV(alphas=alphas, cv=N_FOLDS, n_repeats=N_REPEATS, n_jobs=model.n_jobs)
    results = cv.fit(X, y).cv_results_
    best = f"best variance {results.variance[cv.best_index_]:.3g}"
    return N_FOLDS * N_REPEATS * N_PENALTIES, best


def replicate(model, X, y):
    """Bootstrap replicates at the model's penalty."""
    from sksurvgpu import bootstrap

    result = bootstrap(model, X, y, n_replicates=N_REPLICATES, random_state=0)
    return N_REPLICATES, f"{np.mean(result.coefs != 0):.0%} of coefficients selected"


def profile(model, X, y):
    """Profile-likelihood interval of the first column."""
    from sksurvgpu import profile_likelihood

    result = profile_likelihood(model, X, y, [0])
    low, high = result.intervals.iloc[0][["lower", "upper"]]
    return len(result.curves), f"({low:.4g}, {high:.4g})"


BATCHES = {"cross-validation": cross_validate, "bootstrap": replicate, "profile": profile}


def penalties_of(largest):
    """Penalties on the sum scale, equally spaced in the logarithm."""
    return np.geomspace(largest, PAPERS_PENALTY, N_PENALTIES + 1)[1:]


def measure_cyclops(options):
    """Seconds of Cyclops' cross-validation; its time for the rest by the number of fits."""
    from sksurvgpu import datasets

    n_folds, n_repeats, n_steps = options.peer
    data = Data.of(datasets.simulate_cox(options.rows, options.columns, random_state=SEED))
    largest = Certificate(data).penalty_max
    low, *_, high = 2.0 / penalties_of(largest) ** 2
    with tempfile.TemporaryDirectory() as folder:
        write_problem(folder, data, PAPERS_PENALTY, largest, 1e-6)
        answer = Path(folder) / "answer.json"
        driver = ROOT / "benchmarks" / "peers" / "cyclops.R"
        chosen = [n_folds, n_repeats, f"{low:.17g}", f"{high:.17g}", n_steps]
        command = [options.rscript, driver, folder, answer, "auto", options.tolerance, *chosen]
        status, printed = run(command, options.timeout, environment(1))
        if status:
            raise RuntimeError(f"Cyclops ended with {status}:\n{printed}")
        seconds = json.loads(answer.read_text())["seconds"]
    n_fits, all_fits = n_folds * n_repeats * n_steps, N_FOLDS * N_REPEATS * N_PENALTIES
    found = {"batch": "Cyclops' cross-validation", "threads": 1, "n": options.rows}
    found |= {"p": options.columns, "fits": n_fits, "seconds": seconds, "cold": None}
    note = f"{seconds * all_fits / n_fits:,.0f} s for {all_fits:,} fits"
    return {**found, "mb_gained": None, "note": note}


SHARE_AT_RISK, FOLLOW_UP = 0.95, 730.0
LEAST_EVENTS, MOST_EVENTS = 0.002, 0.03  # shares of the rows, of the outcomes
CASES = ("coefficients", "profile", "cross-validation", "treatment")
N_STRATA, CV_PENALTIES = 2_000, 20
FEW = 1 / 20  # share of the outcomes that are cross-validated
OUTCOMES = columns(
    "case | outcomes:d | CPU s=cpu:.1f | before:.1f | ratio:.2f | wall:.1f | ms each=each:.0f | "
    "apart:.1e | failed:d | peak MB=peak_mb:.0f",
    each=lambda found: 1e3 * found["cpu"] / found["outcomes"],
    ratio=lambda found: found["cpu"] / found["before"] if found["before"] else None,
)


def main_outcomes(arguments=None):
    """Many rare outcomes of one X, on one thread: `fit_outcomes`, beside that of another version.

    Cases: coefficients of a lasso, whose first column is free; profile intervals of that column; a
    cross-validation of each outcome (of a twentieth of the outcomes); and the profile of that
    column alone within 2,000 strata. "apart" is the largest difference of both versions'
    coefficients.
    """
    options = read(
        "outcomes",
        main_outcomes.__doc__,
        arguments,
        "5,000 x 100, 5 outcomes",
        cases=CASES,
        rows=Option(100_000, quick=5_000),
        columns=Option(1_000, quick=100),
        outcomes=Option(200, quick=5),
        alpha=1e-4,
        before=Option(str, "a checkout of the other version"),
    )
    sizes = {name: getattr(options, name) for name in ("rows", "columns", "outcomes", "alpha")}
    results = []
    for case in options.cases:
        found = call(__name__, "measure_outcomes", {"case": case, **sizes}, n_threads=1)
        found |= {"before": None, "apart": None}
        if options.before:
            tree = {"tree": options.before, "n_threads": 1}
            other = call(__name__, "measure_outcomes", {"case": case, **sizes}, **tree)
            apart = np.abs(np.array(found["coefs"], float) - np.array(other["coefs"], float))
            found |= {"before": other["cpu"], "before_peak_mb": other["peak_mb"]}
            found["apart"] = float(np.nanmax(apart))
        results.append({name: value for name, value in found.items() if name != "coefs"})
        save(options, results=results, **sizes)
    print(lines(OUTCOMES, results))


def _case(case, X, alpha):
    """Estimator, columns and further arguments of a case."""
    from sksurvgpu import CoxLassoCCD, CoxLassoCV

    free = {"penalty_factor": {0: 0.0}, "n_jobs": 1, "backend": "cpu"}
    if case == "cross-validation":
        return CoxLassoCV(n_alphas=CV_PENALTIES, **free), X, {"intervals": None}
    if case == "treatment":
        strata = np.random.default_rng(2).integers(0, N_STRATA, X.shape[0])
        return CoxLassoCCD(alpha=0.0, n_jobs=1, backend="cpu"), X[:, [0]], {"strata": strata}
    how = {"intervals": None} if case == "coefficients" else {}
    return CoxLassoCCD(alpha=alpha, **free), X, how


def measure_outcomes(case, rows, columns, outcomes, alpha):
    """Seconds and memory of many outcomes in one call."""
    from sksurvgpu import fit_outcomes

    n_outcomes = max(2, round(FEW * outcomes)) if case == "cross-validation" else outcomes
    X, found, at_risk = _simulate_outcomes(rows, columns, n_outcomes)
    model, X, how = _case(case, X, alpha)
    fit = partial(fit_outcomes, model, X, columns=0, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = {name: found[name] for name in list(found)[:1]}
        fit(small, at_risk=at_risk)  # loads the kernels
        result, seconds = timed(partial(fit, found, at_risk=at_risk))
    return {
        "case": case,
        "outcomes": n_outcomes,
        "cpu": seconds["cpu_seconds"],
        "wall": seconds["seconds"],
        "failed": len(result.failures),
        "peak_mb": memory_mb(),
        "coefs": [float(c) if np.isfinite(c) else None for c in result.table["coef"]],
    }


def _simulate_outcomes(rows, columns, n_outcomes):
    """X, rare outcomes of all rows, and who is at risk of any."""
    from sksurvgpu import surv
    from sksurvgpu.datasets import simulate_ehr

    X = simulate_ehr(rows, columns, random_state=0).X
    rng, outcomes = np.random.default_rng(1), {}
    end = rng.uniform(30.0, FOLLOW_UP, rows)
    for k, share in enumerate(np.geomspace(LEAST_EVENTS, MOST_EVENTS, n_outcomes)):
        coef = rng.normal(0.0, 0.4, columns) * (rng.random(columns) < 50 / columns)
        eta = X @ coef
        eta -= np.log(np.mean(np.exp(eta)))
        time_ = rng.exponential(0.5 * FOLLOW_UP / share * np.exp(-eta))
        outcomes[f"outcome {k}"] = surv(time_ <= end, np.ceil(np.minimum(time_, end)))
    return X, outcomes, rng.random(rows) < SHARE_AT_RISK


# (rows, columns, replicates), a second or two of each
SIZES = (
    *((1_000, 50, 1_000), (3_000, 100, 500), (10_000, 50, 400), (10_000, 300, 400)),
    *((30_000, 50, 200), (30_000, 300, 150), (100_000, 100, 60)),
)
ALPHA = 0.006
THREADS = columns(
    "bootstrap | entries:,d | fits:,d | ms / fit=ms:.2f | threads:d | speed-up=faster:.2f | "
    "CPU=cpu:.2f | most:d",
    bootstrap=lambda found: f"{found['n']:,} x {found['p']:,}",
    ms=lambda found: 1e3 * found["alone"] / found["fits"],
    faster=lambda found: found["alone"] / found["beside"],
    cpu=lambda found: found["cpu_beside"] / found["cpu_alone"],
)


def main_threads(arguments=None):
    """Bootstraps on one thread and on several, whatever `backends.cpu.threads` would give them.

    "most" is what it would. Speed-up and processor time are over those of one thread, the least
    seconds of several calls in turns; they mean nothing where other work runs.
    """
    quick = "the smallest size, 20 replicates"
    options = read("threads", main_threads.__doc__, arguments, quick, threads=2, repeats=5)
    sizes = [(*SIZES[0][:2], 20)] if options.quick else SIZES
    shared = {"threads": options.threads, "repeats": options.repeats}
    jobs = [("measure_threads", {"n": n, "p": p, "fits": b, **shared}) for n, p, b in sizes]
    print(lines(THREADS, in_turn(__name__, jobs, lambda results: save(options, results=results))))


def measure_threads(n, p, fits, threads, repeats):
    """Least seconds of a bootstrap on one thread and on several."""
    from sksurvgpu import CoxLassoCCD, bootstrap, datasets
    from sksurvgpu.backends.cpu import threads as chosen
    from sksurvgpu.data.design.columns import build_design

    data = datasets.simulate_cox(n, p, random_state=SEED)
    found = {"n": n, "p": p, "entries": int(data.X.nnz), "fits": fits, "threads": threads}
    found["most"] = chosen.fits_at_once(build_design(data.X))
    chosen.LOCKED = 1.0  # nanoseconds: there is work for any number

    def run(n_jobs):
        model = CoxLassoCCD(alpha=ALPHA, n_jobs=n_jobs, backend="cpu")
        bootstrap(model, data.X, data.y, n_replicates=fits, random_state=0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(1)  # loads the kernels
        pairs = [[timed(partial(run, k))[1] for k in (1, threads)] for _ in range(repeats)]
    for name, side in zip(("alone", "beside"), zip(*pairs, strict=True), strict=True):
        found[name] = min(spent["seconds"] for spent in side)
        found[f"cpu_{name}"] = min(spent["cpu_seconds"] for spent in side)
    return found
