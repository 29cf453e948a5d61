"""Fits that share X: paths, cross-validation, bootstrap, profiles, many outcomes.

Measurements have a process of their own, but for the outcomes, which are measured in one.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from .cases import PAPERS_PENALTY, SEED
from .judge import Certificate
from .problems import Data, write_problem
from .processes import ROOT, environment, in_turn, memory_mb, run, timed
from .report import lines, parser, read, save

# -- paths ------------------------------------------------------------------------------------

# name -> (simulator, rows, columns, penalties, last penalty over the largest; None is sqrt(2))
DESIGNS = {
    "ehr": ("simulate_ehr", 100_000, 2_000, 40, 0.01),
    "papers": ("simulate_cox", 100_000, 1_000, 100, None),
}
PATH_COLUMNS = (
    ("path", lambda found: f"{found['path']} {found['n']:,} x {found['p']:,}", None),
    ("threads", "threads", "d"),
    ("penalties", "penalties", "d"),
    ("seconds", "seconds", ".3f"),
    ("last alone", "last_alone", ".3f"),
    ("ratio", lambda found: found["seconds"] / found["last_alone"], ".2f"),
    ("iter", "iterations", "d"),
    ("KKT", "kkt", ".1e"),
    ("unsolved", "unsolved", "d"),
    ("nonzero", "nonzeros", "d"),
    ("peak MB", "peak_mb", ".0f"),
)


def main_paths(arguments=None):
    """Regularization paths, beside a cold fit at the path's last penalty.

    Health records: 40 penalties from the largest useful one to 0.01 of it. Papers' design: 100 from
    the largest to gamma = sqrt(2).
    """
    found = parser("paths", main_paths.__doc__, "4,000 x 200")
    found.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    found.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    found.add_argument("--rows", type=int, help="in place of the design's")
    found.add_argument("--columns", type=int, help="in place of the design's")
    found.add_argument("--repeats", type=int, default=1, help="times each is timed; medians")
    options = read(found, arguments, "paths")
    size = (4_000, 200) if options.quick else (options.rows, options.columns)
    sizes = {"rows": size[0], "columns": size[1], "repeats": options.repeats}
    jobs = [
        ("measure_path", {"name": name, "n_threads": n_threads, **sizes})
        for name in options.designs
        for n_threads in options.threads
    ]
    results = in_turn(__name__, jobs, lambda results: save(options, results=results))
    print(lines(PATH_COLUMNS, results))


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
    peak = memory_mb()
    judged = [judge.judge(*pair) for pair in zip(path.coefs.T, path.alphas * n, strict=True)]
    return {
        "path": name,
        "threads": n_threads,
        "n": n,
        "p": p,
        "nnz": int(X.nnz),
        "penalties": n_penalties,
        "penalty_max": judge.penalty_max,
        "last_penalty": float(path.alphas[-1] * n),
        "seconds": seconds,
        "last_alone": alone,
        "iterations": int(path.n_iter.sum()),
        "kkt": max(fit["kkt"] for fit in judged),
        "unsolved": int(np.count_nonzero(~path.converged)),
        "nonzeros": int(path.df[-1]),
        "peak_mb": peak,
    }


def _median(function, repeats):
    """Median seconds, and the last result."""
    runs = [timed(function) for _ in range(repeats)]
    return statistics.median(seconds["seconds"] for _, seconds in runs), runs[-1][0]


# -- resampling -------------------------------------------------------------------------------

N_FOLDS, N_REPEATS, N_PENALTIES, N_REPLICATES = 10, 10, 10, 200
PARTS = ("cross-validation", "bootstrap", "profile", "cyclops")
BATCH_COLUMNS = (
    ("batch", "batch", None),
    ("threads", "threads", "d"),
    ("fits", "fits", ",d"),
    ("seconds", "seconds", ".2f"),
    ("cold fit", "cold", ".3f"),
    ("ratio", lambda found: found["seconds"] / found["cold"] if found["cold"] else None, ".1f"),
    ("MB gained", "mb_gained", ".0f"),
    ("note", "note", None),
)


def main_resampling(arguments=None):
    """Batches of fits that share X: cross-validation, bootstrap and profile likelihood.

    Cross-validation is 10 folds dealt 10 times over 10 penalties, from the largest useful one (left
    out) to gamma = sqrt(2); beside it Cyclops' own, on one core, with as many folds, deals and
    steps as `--peer` says, whose time is then multiplied by the number of fits left out. The others
    are told in units of one cold fit at gamma = sqrt(2). Memory is what the process gained over a
    fit alone.
    """
    found = parser("resampling", main_resampling.__doc__, "2,000 x 50")
    found.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    found.add_argument("--threads", type=int, default=2)
    found.add_argument("--rows", type=int, default=100_000)
    found.add_argument("--columns", type=int, default=1_000)
    names = ("FOLDS", "REPEATS", "STEPS")
    found.add_argument("--peer", nargs=3, type=int, default=[10, 1, 4], metavar=names)
    found.add_argument("--rscript", default="Rscript", metavar="PATH")
    found.add_argument("--tolerance", type=float, default=1e-6, help="of Cyclops")
    found.add_argument("--timeout", type=float, default=7_200.0, help="seconds, of Cyclops")
    options = read(found, arguments, "resampling")
    if options.quick:
        options.rows, options.columns = 2_000, 50
    sizes = {"n": options.rows, "p": options.columns, "n_threads": options.threads}
    jobs = [("measure_batch", {"part": part, **sizes}) for part in options.parts if part in BATCHES]
    results = in_turn(__name__, jobs, lambda results: save(options, results=results))
    if "cyclops" in options.parts:
        results.append(measure_cyclops(options))
        save(options, results=results)
    print(lines(BATCH_COLUMNS, results))


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
    return {
        "batch": part,
        "threads": n_threads,
        "n": n,
        "p": p,
        "fits": n_fits,
        "seconds": seconds["seconds"],
        "cold": cold["seconds"],
        "mb_gained": memory_mb() - before,
        "note": note,
    }


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
    return {
        "batch": "Cyclops' cross-validation",
        "threads": 1,
        "n": options.rows,
        "p": options.columns,
        "fits": n_fits,
        "seconds": seconds,
        "cold": None,
        "mb_gained": None,
        "note": f"{seconds * all_fits / n_fits:,.0f} s for {all_fits:,} fits",
    }


# -- outcomes ---------------------------------------------------------------------------------

SHARE_AT_RISK, FOLLOW_UP = 0.95, 730.0
OUTCOME_COLUMNS = (
    ("intervals", "intervals", None),
    ("solver, singly", "solver", ".2f"),
    ("all, singly", "single", ".2f"),
    ("at once", "cpu_1", ".2f"),
    ("ratio", "ratio", ".2f"),
    ("wall", "wall_1", ".2f"),
    ("2 threads", "wall_2", ".2f"),
)


def main_outcomes(arguments=None):
    """Many outcomes of one X: `fit_outcomes` against the solver's part of as many single fits.

    Seconds of one thread are of the processor, which other processes do not add to.
    """
    from sksurvgpu import CoxLassoCCD, fit_outcomes

    found = parser("outcomes", main_outcomes.__doc__, "5,000 x 100, 5 outcomes")
    found.add_argument("--rows", type=int, default=100_000)
    found.add_argument("--columns", type=int, default=1_000)
    found.add_argument("--outcomes", type=int, default=50)
    found.add_argument("--alpha", type=float, default=5e-4)
    options = read(found, arguments, "outcomes")
    if options.quick:
        options.rows, options.columns, options.outcomes = 5_000, 100, 5
    warnings.simplefilter("error")
    X, outcomes, at_risk = _simulate_outcomes(options)
    model = CoxLassoCCD(alpha=options.alpha, penalty_factor={0: 0.0}, n_jobs=1)
    runs = []
    for intervals in (None, "profile"):
        few = dict(list(outcomes.items())[:1])
        fit_outcomes(model, X, few, columns=0, intervals=intervals)  # compiled
        result = {"intervals": str(intervals)} | _fit_singly(model, X, outcomes, at_risk, intervals)
        for n_jobs in (1, 2):
            given = {"at_risk": at_risk, "intervals": intervals, "n_jobs": n_jobs}
            fitted, seconds = timed(
                lambda given=given: fit_outcomes(model, X, outcomes, columns=0, **given)
            )
            result[f"wall_{n_jobs}"] = seconds["seconds"]
            result[f"cpu_{n_jobs}"] = seconds["cpu_seconds"]
        result |= {"ratio": result["cpu_1"] / result["solver"], "failed": len(fitted.failures)}
        runs.append(result)
        sizes = {name: getattr(options, name) for name in ("rows", "columns", "outcomes", "alpha")}
        save(options, runs=runs, **sizes)
    print(lines(OUTCOME_COLUMNS, runs))


def _simulate_outcomes(options):
    """X, outcomes of a twentieth of the rows, and who is at risk of each."""
    from sksurvgpu import surv
    from sksurvgpu.datasets import simulate_ehr

    X = simulate_ehr(options.rows, options.columns, random_state=0).X
    rng, outcomes, at_risk = np.random.default_rng(1), {}, {}
    end = rng.uniform(30.0, FOLLOW_UP, options.rows)
    for k in range(options.outcomes):
        coef = rng.normal(0.0, 0.4, options.columns) * (rng.random(options.columns) < 0.05)
        eta = X @ coef
        time_ = rng.exponential(FOLLOW_UP / 0.08 * np.exp(eta.mean() - eta))
        outcomes[f"outcome {k}"] = surv(time_ <= end, np.ceil(np.minimum(time_, end)))
        at_risk[f"outcome {k}"] = rng.random(options.rows) < SHARE_AT_RISK
    return X, outcomes, at_risk


def _fit_singly(model, X, outcomes, at_risk, intervals):
    """Seconds of the solver, and of all, in fits one after the other."""
    from sksurvgpu import profile_likelihood

    with _counting_solver() as spent:
        begin = time.process_time()
        for name, y in outcomes.items():
            weight = at_risk[name].astype(float)
            if intervals is None:
                model.fit(X, y, sample_weight=weight)
            else:
                profile_likelihood(model, X, y, 0, sample_weight=weight)
        return {"solver": sum(spent), "single": time.process_time() - begin}


@contextmanager
def _counting_solver():
    from sksurvgpu.estimators._prepared import Prepared

    spent, solve = [], Prepared.solve

    def counted(self, *args, **kwargs):
        result, seconds = timed(lambda: solve(self, *args, **kwargs))
        spent.append(seconds["cpu_seconds"])
        return result

    Prepared.solve = counted
    try:
        yield spent
    finally:
        Prepared.solve = solve
