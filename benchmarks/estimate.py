"""How far `expected_time` is from what calls take, on designs it was not made on."""

from __future__ import annotations

import statistics
import sys
import warnings
from functools import partial
from typing import NamedTuple

from . import problems as draws
from .cases import PAPERS_PENALTY, SEED, estimator, outcome_of
from .processes import forget_peak, memory_mb, timed
from .report import Option, columns, lines, read, save

OF_REPLICATES = 0.03  # penalty over the largest
QUICK_ROWS, QUICK_COLUMNS = 1_000, 40
DRAWS = {
    "fine-gray": draws.draw_fine_gray,
    "logistic": draws.draw_logistic,
    "poisson": draws.draw_poisson,
    "linear": draws.draw_linear,
    "matched": draws.draw_matched,
    "case-series": draws.draw_case_series,
}


class Design(NamedTuple):
    """What is asked: a fit, or a number of penalties, folds or replicates.

    Columns have a share of ones, or are of "records" or "dense"; `share` is the penalty over the
    largest of use, None the published gamma = sqrt(2).
    """

    model: str
    rows: int
    columns: int
    kind: str
    share: float | None = None
    n_alphas: int | None = None
    cv: int | None = None
    n_replicates: int | None = None

    @classmethod
    def read(cls, text):
        """A design from a line of the lists below."""
        model, rows, n_columns, kind, what, number = text.split()
        asked = {"share": float(number) or None} if what == "fit" else {what: int(number)}
        if what == "n_replicates":
            asked["share"] = OF_REPLICATES
        return cls(model, int(float(rows)), int(n_columns), kind, **asked)

    def asked(self):
        return {name: getattr(self, name) for name in ("n_alphas", "cv", "n_replicates")}


# model, rows, columns, share of ones, call, its number; a fit has its penalty over the largest, 0
# the published one
REPORTED = """
cox 1e6 1000 0.05 fit 0
cox 1e5 1000 0.05 fit 0
cox 1e6 10 dense fit 0
cox 1e5 20000 0.001 fit 0.1
cox 1e5 2000 records fit 0.01
cox 3e4 20000 records fit 0.1
cox 1e4 10 dense fit 0.01
cox 1e4 400 dense fit 0.1
fine-gray 1e5 1000 0.05 fit 0
logistic 1e5 1000 0.05 fit 0
logistic 3e5 5000 0.01 fit 0.03
logistic 1e4 200 dense fit 0.03
poisson 1e5 1000 0.05 fit 0
poisson 5e5 100 0.2 fit 0.1
linear 5e4 300 dense fit 0.03
case-series 1e6 1000 0.005 fit 0
matched 1e5 1000 0.05 fit 0
cox 1e4 500 0.05 n_alphas 100
cox 1e5 1000 0.05 n_alphas 100
cox 5e4 1000 records n_alphas 50
fine-gray 3e4 300 0.05 n_alphas 100
logistic 1e4 20000 0.005 n_alphas 10
case-series 1e5 300 0.01 n_alphas 100
cox 1e4 300 0.05 cv 10
cox 2e4 500 records cv 10
logistic 3e4 500 0.02 cv 5
matched 2e4 200 0.05 cv 5
cox 1e4 300 0.05 n_replicates 200
cox 1e5 1000 0.02 n_replicates 50
poisson 1e5 100 0.1 n_replicates 100
"""
TUNED = """
cox 5e5 500 0.05 fit 0
cox 3e4 2000 0.02 fit 0.03
cox 2e5 100 0.2 fit 0.1
cox 5e5 30 dense fit 0.01
cox 2e4 10000 0.002 fit 0.1
cox 3e4 1000 records fit 0.01
cox 1e5 8000 records fit 0.1
cox 2e4 100 dense fit 0.03
fine-gray 3e4 2000 0.02 fit 0.03
logistic 5e5 300 0.05 fit 0
logistic 5e4 4000 0.01 fit 0.03
logistic 3e4 60 dense fit 0.1
poisson 3e4 500 0.1 fit 0
poisson 3e5 2000 0.01 fit 0.03
linear 1e5 50 dense fit 0.1
case-series 2e5 500 0.01 fit 0
matched 4e4 500 0.1 fit 0.03
cox 3e4 200 0.1 n_alphas 100
cox 2e4 4000 0.01 n_alphas 50
cox 1e4 600 records n_alphas 100
poisson 5e4 500 0.05 n_alphas 100
logistic 2e5 300 0.02 n_alphas 100
matched 5e4 100 0.1 n_alphas 100
cox 3e4 100 0.1 cv 10
cox 5e4 1000 0.01 cv 5
logistic 1e4 100 0.05 cv 10
fine-gray 1e4 200 0.05 cv 5
cox 3e4 100 0.05 n_replicates 200
logistic 3e4 500 0.02 n_replicates 100
linear 2e4 200 dense n_replicates 50
"""
LISTS = {"reported": REPORTED, "tuned": TUNED}


def _draw(design):
    """X, y, an estimator of the penalty, and further arguments of fit."""
    from sksurvgpu import CoxLassoCCD, datasets

    n, p, kind = design.rows, design.columns, design.kind
    if design.model == "cox" and kind != "dense":
        options = {} if kind == "records" else {"density": float(kind)}
        simulate = datasets.simulate_ehr if kind == "records" else datasets.simulate_cox
        data = simulate(n, p, random_state=SEED, **options)
        return data.X, data.y, CoxLassoCCD(), {}
    if kind == "dense":
        problem = draws.draw_wide(n, p, model=design.model, random_state=SEED)
        X = problem.table().toarray()
    else:
        problem = DRAWS[design.model](n, p, density=float(kind), random_state=SEED)
        X = problem.table()
    y, given = outcome_of(problem)
    return X, y, estimator(problem, 1.0), given


def _call(design, n_threads):
    """X and a call of a design."""
    import sksurvgpu
    from sksurvgpu import bootstrap, fit_path

    X, y, model, given = _draw(design)
    model.set_params(n_jobs=n_threads, backend="cpu", alpha=PAPERS_PENALTY / design.rows)
    if design.share is not None:
        largest = model.set_params(alpha=1e9).fit(X, y, **given).alpha_max_
        model.set_params(alpha=design.share * largest)
    if design.cv:
        kind = getattr(sksurvgpu, type(model).__name__.replace("CCD", "CV"))
        own = {k: v for k, v in model.get_params().items() if k in kind().get_params()}
        call = kind(**{**own, "cv": design.cv}).fit
    elif design.n_alphas:
        call = partial(fit_path, model, n_alphas=design.n_alphas)
    elif design.n_replicates:
        call = partial(bootstrap, model, n_replicates=design.n_replicates, random_state=0)
    else:
        call = model.fit
    return X, partial(call, X, y, **given)


def measure(design, n_threads):
    """Seconds that were expected of a call, and those that it took, the least of some."""
    from sksurvgpu import expected_time

    few = {name: min(number, 3) for name, number in design.asked().items() if number}
    small = {"rows": QUICK_ROWS, "columns": min(QUICK_COLUMNS, design.columns), "share": 0.2}
    _call(design._replace(**small, **few), n_threads)[1]()  # loads the kernels
    X, run = _call(design, n_threads)
    forget_peak()
    before = memory_mb("VmRSS")
    runs = [timed(run)[1]]
    peak = memory_mb() - before
    while sum(one["cpu_seconds"] for one in runs) < 1.0 and len(runs) < 4:
        runs.append(timed(run)[1])
    found = {unit: min(one[unit] for one in runs) for unit in runs[0]}
    ones, size = (X.nnz, 12 * X.nnz) if hasattr(X, "nnz") else (X.size, X.nbytes)
    asked = {"model": design.model, "n_jobs": n_threads, **design.asked()}
    line = expected_time(design.rows, design.columns, int(ones), **asked).iloc[-1].to_dict()
    expected, taken = line.pop("seconds"), found["cpu_seconds" if n_threads == 1 else "seconds"]
    return {
        **{"design": _name(design), "ones": int(ones), **found, "peak_mb": peak + size / 1e6},
        **{"expected": expected, **line, "ratio": taken / expected},
        "inside": bool(line["lower"] <= taken <= line["upper"]),
    }


def _name(design):
    """A design in words."""
    what = [f"{name} {number}" for name, number in design.asked().items() if number]
    share = "" if design.share is None else f" at {design.share:g}"
    size = f"{design.rows:,} x {design.columns:,}"
    return f"{design.model} {size} {design.kind}, {what[0] if what else 'fit' + share}"


SHOWN = columns(
    "design | ones:,d | expected:.3f | lower:.3f | upper:.3f | CPU s=cpu_seconds:.3f | "
    "wall=seconds:.3f | ratio:.2f | MB expected=memory_mb:.0f | MB=peak_mb:.0f"
)


def main_estimate(arguments=None):
    """`expected_time` beside what calls take: thirty designs that nothing in it was chosen by.

    Ratios are of processor seconds where one thread is asked for, and of the clock's with more.
    All calls are of one process. `--designs tuned` has those by which constants were chosen.
    """
    options = read(
        "estimate",
        main_estimate.__doc__,
        arguments,
        "three designs of 1,000 x 40",
        designs=Option({"choices": list(LISTS), "default": "reported"}),
        threads=1,
    )
    designs = [Design.read(text) for text in LISTS[options.designs].strip().splitlines()]
    if options.quick:
        small = {"rows": QUICK_ROWS, "columns": QUICK_COLUMNS}
        designs = [designs[k]._replace(**small) for k in (1, 17, 27)]
    results, summary = [], {}
    warnings.simplefilter("ignore")
    for design in designs:
        print(_name(design), file=sys.stderr, flush=True)
        results.append(measure(design, options.threads))
        errors = sorted(max(found["ratio"], 1.0 / found["ratio"]) for found in results)
        n_inside = sum(found["inside"] for found in results)
        summary = {"median": statistics.median(errors), "worst": errors[-1], "inside": n_inside}
        save(options, threads=options.threads, **summary, results=results)
    print(lines(SHOWN, results))
    print(
        "\nfactor between both: median {median:.2f}, worst {worst:.2f}; ".format(**summary), end=""
    )
    print(f"{summary['inside']} of {len(results)} within the range")
