"""Time to import, time to the first fit, and time to compile, on one core.

Every measurement has a process of its own; cold ones have an empty kernel cache.  The compile time
of a variant is its first fit's minus its second's; variants share kernels, so that their order
counts: each row is what compiling added after the rows above it.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import warnings

import numpy as np

from .processes import call, environment, run, timed
from .report import Option, columns, lines, read, save

ROWS, COLUMNS = 1_000, 20
MANY_STRATA_ROWS, MANY_STRATA = 6_000, 200
IMPORTS = {
    "python -c pass": "pass",
    "import numpy, scipy.sparse": "import numpy, scipy.sparse",
    "import sksurvgpu": "import sksurvgpu",
    "from sksurvgpu import CoxLassoCCD": "from sksurvgpu import CoxLassoCCD",
    "from sksurv.linear_model import CoxnetSurvivalAnalysis": (
        "from sksurv.linear_model import CoxnetSurvivalAnalysis"
    ),
}


def main_startup(arguments=None):
    """Measure, print tables, write JSON."""
    repeats = Option(5, "processes for a warm time; medians")
    options = read("startup", __doc__, arguments, quick=None, repeats=repeats)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # children inherit it
    imports = {name: _import_seconds(code, options.repeats) for name, code in IMPORTS.items()}
    _show("process (median s)=name | s=0:.3f", imports)
    with tempfile.TemporaryDirectory() as cache:
        cold = _fits(["default"], cache)["default"]
        warm = [_fits(["default"], cache)["default"] for _ in range(options.repeats)]
    first_fit = {
        "cold, default Cox: compiling": cold["compile"],
        "warm cache: first small fit": statistics.median(each["first"] for each in warm),
        "second small fit": statistics.median(each["second"] for each in warm),
    }
    _show("first fit (s)=name | s=0:.3f", first_fit)
    with tempfile.TemporaryDirectory() as cache:
        compiling, loading = (
            {name: fit["compile"] for name, fit in _fits(list(VARIANTS), cache).items()}
            for _ in range(2)
        )
    for seconds in (compiling, loading):
        seconds["everything"] = sum(seconds.values())
    _show("variant=name | cold: compiling s=0:.3f | warm: loading s=1:.3f", compiling, loading)
    results = {"imports": imports, "first_fit": first_fit, "cold": compiling, "warm": loading}
    save(options, **results)


def _show(headers, *seconds):
    """Print columns of seconds by name."""
    rows = [
        {"name": name} | {f"{k}": s[name] for k, s in enumerate(seconds)} for name in seconds[0]
    ]
    print(lines(columns(headers), rows) + "\n")


def _import_seconds(code, repeats):
    """Median time of a whole process; a first one, not counted, fills the caches."""
    seconds, command = [], [sys.executable, "-c", code]
    for _ in range(repeats + 1):
        (status, printed), spent = timed(lambda: run(command, None, environment(1)))
        seconds.append(spent["seconds"])
        if status:
            raise RuntimeError(printed)
    return statistics.median(seconds[1:])


def _fits(names, cache):
    return call(__name__, "time_fits", {"names": names}, n_threads=1, NUMBA_CACHE_DIR=cache)


def time_fits(names):
    """First and second fit of each variant in this process."""
    from sksurvgpu import CoxLassoCCD

    CoxLassoCCD()
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            fit = VARIANTS[name]()
            first, second = (timed(fit)[1]["seconds"] for _ in range(2))
            results[name] = {"first": first, "second": second, "compile": max(first - second, 0.0)}
    return results


def _simulated(rows=ROWS, form="indicator"):
    from scipy.sparse import csc_array

    rng = np.random.default_rng(1)
    X = (rng.random((rows, COLUMNS)) < 0.3).astype(float)
    if form != "indicator":
        X *= rng.normal(size=X.shape)
    return rng, X if form == "dense" else csc_array(X), rng.random(rows) < 0.6


def _variant(rows=ROWS, form="indicator", start=False, weight=False, n_strata=0, **parameters):
    """A fit with some features."""
    from sksurvgpu import CoxLassoCCD, surv

    rng, X, event = _simulated(rows, form)
    time_ = np.ceil(20 * rng.exponential(size=rows))  # with ties
    y = surv(event, time_, start=time_ * rng.random(rows) if start else None)
    more = {
        "sample_weight": rng.uniform(0.5, 1.5, rows) if weight else None,
        "strata": np.arange(rows) % n_strata if n_strata else None,
    }
    model = CoxLassoCCD(**{"alpha": 0.005, "n_jobs": 1, "backend": "cpu", **parameters})
    return lambda: model.fit(X, y, **more)


def _path():
    """Two penalties, which bring in the Gram matrix."""
    from sksurvgpu import CoxLassoCCD, fit_path, surv

    rng, X, event = _simulated()
    y = surv(event, rng.exponential(size=ROWS))
    model = CoxLassoCCD(n_jobs=1, backend="cpu")
    return lambda: fit_path(model, X, y, n_alphas=10, alpha_min_ratio=0.01)


def _predict():
    """Survival curves and concordance."""
    from sksurvgpu import CoxLassoCCD, surv

    rng, X, event = _simulated()
    y = surv(event, rng.exponential(size=ROWS))
    model = CoxLassoCCD(alpha=0.005, n_jobs=1, backend="cpu").fit(X, y)
    return lambda: (model.score(X, y), model.predict_survival_function(X[:3], return_array=True))


VARIANTS = {
    "default": _variant,
    "path (Gram matrix)": _path,
    "Efron": lambda: _variant(ties="efron"),
    "weights": lambda: _variant(weight=True),
    "Efron, weights": lambda: _variant(ties="efron", weight=True),
    "few strata": lambda: _variant(n_strata=4),
    "many strata": lambda: _variant(MANY_STRATA_ROWS, n_strata=MANY_STRATA),
    "start-stop": lambda: _variant(start=True),
    "start-stop, many strata": lambda: _variant(MANY_STRATA_ROWS, start=True, n_strata=MANY_STRATA),
    "time-varying": lambda: _variant(time_varying={0: [10.0, 20.0]}),
    "valued columns": lambda: _variant(form="valued"),
    "dense columns": lambda: _variant(form="dense"),
    "exact": lambda: _variant(algorithm="exact"),
    "exact, Efron, weights": lambda: _variant(algorithm="exact", ties="efron", weight=True),
    "exact, start-stop": lambda: _variant(algorithm="exact", start=True),
    "predictions": _predict,
}
