"""Whole calls from X and y to the answer on the device, beside what was published.

Times are of estimators and functions as users call them: checks, preparation, uploads and
downloads are in them; compiling is not, since each call is made before with fewer rows, and again
as long as that takes little time.  The floor reads X twice, and what an evaluation has of rows
once, in each iteration, at the measured bandwidth; the fits of a batch share X.
"""

from __future__ import annotations

import time
import warnings
from typing import NamedTuple

import sksurvgpu
from sksurvgpu import datasets
from sksurvgpu.backends import choose

from ..problems import draw_matched_dense
from . import ceilings, problems
from .day import Part

ENOUGH = 5.0  # seconds of repeated calls
CROSSED = 100_000  # rows to which the CPU is asked, too
ROW_BYTES = 38 + 41  # of an evaluation, an event time a row at most


class Row(NamedTuple):
    """A line of the table: problem, what is done with it, and what was published."""

    problem: str
    call: str
    published: str = ""
    algorithms: tuple = ("majorized",)


BOTH = ("majorized", "exact")
ROWS = (
    Row("cox 1e6 x 1000", "fit", "35 x their CPU (GV100)", BOTH),
    Row("cox 1e6 x 1000", "folds", "840 s, all penalties (8 streams)"),
    Row("cox 1e5 x 1000", "fit", "", BOTH),
    Row("cox 1e5 x 1000", "folds"),
    Row("strata 50000, 1e6 x 1000", "fit", "23 s; their CPU 1,020 s", BOTH),
    Row("fine-gray 1e6 x 1000", "fit", "39 x their CPU (GV100)"),
    Row("cox 1e6 x 1000", "path"),
    Row("cox 1e6 x 1000", "bootstrap"),
    Row("cox 1e6 x 1000", "one iteration"),
    Row("cox 2e6 x 1000", "fit"),
    Row("cox 1e5 x 1000", "path"),
    Row("cox 1e5 x 1000", "bootstrap"),
    Row("cox 1e5 x 1000", "one iteration"),
    Row("logistic 5e4 x 1000", "fit", "14.1 s (K40); their CPU 296 s"),
    Row("logistic 1e4 x 5000", "folds", "181 s, all penalties"),
    Row("matched 2e3 x 100", "fit", "6.2 s; their CPU 12.6 s, clogit 11.5 s"),
    Row("matched 2e4 x 100", "fit", "10.9 s; their CPU 112 s, clogit 313 s"),
    Row("case-series 1e6 x 1000", "fit"),
    Row("cox 2e6 x 1000", "folds"),
    Row("cox 2e6 x 1000", "path"),
    Row("cox 2e6 x 1000", "bootstrap"),
)


class Papers(Part):
    """Published figure, our exact algorithm (the published one), our default, and a floor."""

    limit = 150.0
    table = (
        "published | exact s=exact_s:.4g | default s=default_s:.4g | CPU s=cpu_s:.4g | "
        "floor s=floor_s:.2g | iter=iterations:d"
    )

    def jobs(self, sizes):
        """A process each."""
        return [(f"{row.problem}: {row.call}",) for row in ROWS]

    def measure(self, item, sizes):
        row = next(row for row in ROWS if f"{row.problem}: {row.call}" == item)
        what, n, p = problems.read_name(row.problem, sizes)
        if what not in ("matched",) and n * p * problems.DENSITY > 2 * sizes.most_nonzeros:
            return {"not_run": "too large for these sizes"}
        data, few = draw(what, n, p), draw(what, max(n // 50, 60), p, seed=1)
        found = {"published": row.published}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for algorithm in row.algorithms:
                seconds, iterations = time_call(what, row.call, data, few, sizes, algorithm)
                name = "default" if algorithm == "majorized" else "exact"
                found |= {f"{name}_s": seconds, f"{name}_iterations": iterations}
            if row.call in ("fit", "folds") and n <= CROSSED:
                seconds, _ = time_call(what, row.call, data, few, sizes, backend="cpu")
                found["cpu_s"] = seconds
        found["iterations"] = found["default_iterations"]
        rate = ceilings.bandwidth(choose("cuda").device, sizes)
        X = data[0]
        n_bytes = 2 * (4 * X.nnz if hasattr(X, "nnz") else X.nbytes) + ROW_BYTES * X.shape[0]
        return {**found, "floor_s": (found["iterations"] or 1) * n_bytes / rate}


def draw(what, n, p, seed=0):
    """X and y as users have them."""
    if what.startswith("strata"):
        return problems.cox_data(n, p, min(int(what.split()[1]), n // 2), seed)[:2]
    if what == "fine-gray":
        return problems.fine_gray_data(n, p, seed)[:2]
    if what == "cox":
        return problems.cox_data(n, p, seed=seed)[:2]
    if what == "logistic":
        data = datasets.simulate_logistic(n, p, density=problems.DENSITY, random_state=seed)
    elif what == "matched":  # dense, 8 cases of 20
        drawn = draw_matched_dense(20 * max(n // 20, 2), p, random_state=seed)
        X = drawn.values.reshape(drawn.shape[::-1]).T
        return X, sksurvgpu.matched(drawn.outcome["y"], drawn.outcome["group"])
    else:
        sizes = {"mean_eras": 20.0, "density": problems.DENSITY}
        data = datasets.simulate_case_series(max(n // 20, 4), p, random_state=seed, **sizes)
    return data.X, data.y


MODELS = {
    "cox": (sksurvgpu.CoxLassoCCD, sksurvgpu.CoxLassoCV),
    "strata": (sksurvgpu.CoxLassoCCD, sksurvgpu.CoxLassoCV),
    "fine-gray": (sksurvgpu.FineGrayCCD, sksurvgpu.FineGrayCV),
    "logistic": (sksurvgpu.LogisticCCD, sksurvgpu.LogisticCV),
    "matched": (sksurvgpu.ConditionalLogisticCCD, sksurvgpu.ConditionalLogisticCV),
    "case-series": (sksurvgpu.CaseSeriesCCD, sksurvgpu.CaseSeriesCV),
}


def time_call(what, call, data, few, sizes, algorithm="majorized", backend="cuda"):
    """Least seconds of a call whose kernels are compiled, and iterations where there is one fit."""
    how = {"algorithm": algorithm, "backend": backend, "max_iter": sizes.max_iter}
    model, chosen = MODELS[what.split()[0]]
    run = CALLS[call]
    run(model, chosen, *few, sizes, how)
    seconds = []
    while not seconds or (sum(seconds) < ENOUGH and len(seconds) < sizes.repeats):
        begin = time.perf_counter()
        iterations = run(model, chosen, *data, sizes, how)
        seconds.append(time.perf_counter() - begin)
    return min(seconds), iterations


def _alpha(y, sizes):
    """The papers' penalty; none for matched sets."""
    return 0.0 if "case" in (y.dtype.names or ()) else sizes.penalty / len(y)


def fit(model, chosen, X, y, sizes, how):
    return int(model(alpha=_alpha(y, sizes), **how).fit(X, y).n_iter_)


def fit_once(model, chosen, X, y, sizes, how):
    return fit(model, chosen, X, y, sizes, {**how, "max_iter": 1})


def fit_path(model, chosen, X, y, sizes, how):
    sksurvgpu.fit_path(model(**how), X, y, n_alphas=sizes.penalties, alpha_min_ratio=0.05)


def fit_folds(model, chosen, X, y, sizes, how):
    """One penalty, all folds and repeats, and the refit to all rows."""
    folds = min(10, sizes.fits)
    cv = {"alphas": [_alpha(y, sizes)], "cv": folds, "n_repeats": sizes.fits // folds}
    chosen(**cv, **how).fit(X, y)


def fit_replicates(model, chosen, X, y, sizes, how):
    model = model(alpha=_alpha(y, sizes), **how)
    sksurvgpu.bootstrap(model, X, y, n_replicates=sizes.fits, random_state=0)


CALLS = {
    "fit": fit,
    "one iteration": fit_once,
    "path": fit_path,
    "folds": fit_folds,
    "bootstrap": fit_replicates,
}
