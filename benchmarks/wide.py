"""Paths in wide data: few rows, thousands of dense columns; beside whoever is installed.

A path has 100 penalties from the largest useful one to 0.05 of it, on one thread.  Times are CPU
seconds of the least of some rounds, all in one process.  The KKT residual is computed here, from
the definition of the model, over the largest penalty; with ties, Breslow's.

Real gene expressions come from the package SurvSet: complete columns that vary, standardized.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path

import numpy as np

from .report import default_output, machine, number, table, write

N_PENALTIES, LAST, SEED = 100, 0.05, 20_240
SIMULATED = {"250 x 6,000": (250, 6_000), "300 x 20,000": (300, 20_000)}
GENES = ("vdv", "AML_Bull", "DBCD")
HEADERS = ["data", "model", "solver", "CPU s", "KKT", "nonzero"]


def simulate(n, p, n_factors=20, correlation=0.5):
    """Columns in blocks that share a factor; twenty of them have an effect."""
    rng = np.random.default_rng(SEED)
    factors, block = rng.normal(size=(n, n_factors)), rng.integers(0, n_factors, p)
    X = np.sqrt(correlation) * factors[:, block]
    X += np.sqrt(1.0 - correlation) * rng.normal(size=(n, p))
    coef = np.zeros(p)
    coef[rng.choice(p, 20, replace=False)] = 0.5 * rng.normal(size=20)
    eta = X @ coef
    time_, censored = rng.exponential(np.exp(-eta)), rng.exponential(2.0, n)
    return {
        "X": np.asfortranarray(X),
        "cox": (time_ <= censored, np.minimum(time_, censored) + 1e-9),
        "logistic": (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int),
        "linear": eta + rng.normal(size=n),
    }


def read_genes(name):
    """A cohort of SurvSet with a standardized matrix of its complete numeric columns."""
    from SurvSet.data import SurvLoader

    frame = SurvLoader().load_dataset(ds_name=name)["df"]
    X = frame.filter(regex="^num_").dropna(axis=1).to_numpy(dtype=float)
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return {
        "X": np.asfortranarray(X),
        "cox": (frame["event"].to_numpy() > 0, frame["time"].to_numpy()),
    }


# -- who is right -----------------------------------------------------------------------------


def slopes(model, X, y, coef):
    """Gradient of the mean log-likelihood, with its best intercept."""
    eta = X @ coef
    if model == "linear":
        residual = y - eta
        return X.T @ (residual - residual.mean()) / len(eta)
    if model == "logistic":
        low, high = -50.0, 50.0
        for _ in range(100):
            middle = 0.5 * (low + high)
            is_low = (1.0 / (1.0 + np.exp(-eta - middle))).sum() < y.sum()
            low, high = (middle, high) if is_low else (low, middle)
        return X.T @ (y - 1.0 / (1.0 + np.exp(-eta - middle))) / len(eta)
    event, times = y
    w = np.exp(eta - eta.max())
    _, place = np.unique(times, return_inverse=True)
    at_risk = np.bincount(place, w)[::-1].cumsum()[::-1]
    hazard = (np.bincount(place, event) / at_risk).cumsum()
    return X.T @ (event - w * hazard[place]) / len(eta)


def largest_violation(model, X, y, alphas, coefs):
    """Over the largest penalty."""
    worst = 0.0
    for alpha, coef in zip(alphas, coefs.T, strict=True):
        g = slopes(model, X, y, coef)
        gaps = np.where(coef != 0, np.abs(g - alpha * np.sign(coef)), np.abs(g) - alpha)
        worst = max(worst, float(gaps.max()))
    return worst / float(alphas[0])


# -- solvers: (X, y, penalties) -> coefficients (columns, penalties) ----------------------------


def ours(model, tol):
    import sksurvgpu

    kind = {"cox": "CoxLassoCCD", "logistic": "LogisticCCD", "linear": "LinearCCD"}[model]
    estimator = getattr(sksurvgpu, kind)(tol=tol, n_jobs=1, backend="cpu")

    def fit(X, y, alphas):
        y = sksurvgpu.surv(*y) if model == "cox" else y
        return sksurvgpu.fit_path(estimator, X, y, alphas=alphas).coefs

    return fit


def coxnet(tol):
    from sksurv.linear_model import CoxnetSurvivalAnalysis
    from sksurv.util import Surv

    def fit(X, y, alphas):
        model = CoxnetSurvivalAnalysis(alphas=alphas, l1_ratio=1.0, tol=tol)
        return model.fit(X, Surv.from_arrays(*y)).coef_

    return fit


def sklearn_path(tol):
    from sklearn.linear_model import lasso_path

    def fit(X, y, alphas):
        centred = X - X.mean(axis=0)
        return lasso_path(centred, y - y.mean(), alphas=alphas, tol=tol)[1]

    return fit


def skglm_path(model, tol):
    from skglm.datafits import Cox, Logistic
    from skglm.penalties import L1
    from skglm.solvers import ProxNewton

    def fit(X, y, alphas):
        datafit = Cox() if model == "cox" else Logistic()
        if model == "cox":
            y = np.asfortranarray(np.column_stack([y[1], y[0].astype(float)]))
        else:
            y = 2.0 * y - 1.0
        solver = ProxNewton(tol=tol, fit_intercept=model != "cox", max_iter=100)
        datafit.initialize(X, y)
        coefs, start = [], None
        for alpha in alphas:
            width = X.shape[1] + (model != "cox")
            start = np.zeros(width) if start is None else start
            start = solver.solve(
                X, y, datafit, L1(alpha), w_init=start, Xw_init=_predict(X, start)
            )[0]
            coefs.append(start[: X.shape[1]].copy())
        return np.array(coefs).T

    return fit


def _predict(X, start):
    eta = X @ start[: X.shape[1]]
    return eta if len(start) == X.shape[1] else eta + start[-1]


def celer_lasso(tol):
    from celer import celer_path

    def fit(X, y, alphas):
        centred = np.asfortranarray(X - X.mean(axis=0))
        return celer_path(centred, y - y.mean(), "lasso", alphas=alphas, tol=tol)[1]

    return fit


SOLVERS = {
    "cox": {
        "sksurvgpu, tol 1e-4": lambda: ours("cox", 1e-4),
        "sksurvgpu, default": lambda: ours("cox", 1e-6),
        "Coxnet, default": lambda: coxnet(1e-7),
        "Coxnet, 1e-12": lambda: coxnet(1e-12),
        "skglm, 1e-4": lambda: skglm_path("cox", 1e-4),
    },
    "logistic": {
        "sksurvgpu, tol 1e-4": lambda: ours("logistic", 1e-4),
        "sksurvgpu, default": lambda: ours("logistic", 1e-6),
        "skglm, 1e-4": lambda: skglm_path("logistic", 1e-4),
    },
    "linear": {
        "sksurvgpu, tol 1e-4": lambda: ours("linear", 1e-4),
        "sksurvgpu, default": lambda: ours("linear", 1e-6),
        "scikit-learn, default": lambda: sklearn_path(1e-4),
        "celer, default": lambda: celer_lasso(1e-6),
    },
}


def main(arguments=None):
    """Measure, print a table, write JSON."""
    options = _read(arguments)
    data = {name: lambda size=size: simulate(*size) for name, size in SIMULATED.items()}
    data |= {name: lambda name=name: read_genes(name) for name in GENES}
    results = []
    for name in options.data or data:
        drawn = simulate(60, 300) if options.quick else data[name]()
        for model in set(SOLVERS) & set(drawn):
            results += _race(name, model, drawn["X"], drawn[model], options.rounds)
            write(options.output, {"machine": machine(), "results": results})
    print(table(HEADERS, [_row(result) for result in results]))


def _race(name, model, X, y, rounds):
    start = np.abs(slopes(model, X, y, np.zeros(X.shape[1]))).max()
    alphas, found = start * np.geomspace(1.0, LAST, N_PENALTIES), []
    for solver, make in SOLVERS[model].items():
        try:
            fit = make()
        except ImportError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seconds, coefs = _least(lambda fit=fit: fit(X, y, alphas), rounds)
        kkt = largest_violation(model, X, y, alphas, coefs)
        numbers = {"seconds": seconds, "kkt": kkt, "nonzero": int(np.count_nonzero(coefs[:, -1]))}
        found.append({"data": name, "model": model, "solver": solver, **numbers})
    return found


def _least(run, rounds):
    best, result = np.inf, run()  # compiles
    for _ in range(rounds):
        begin = time.process_time()
        result = run()
        best = min(best, time.process_time() - begin)
    return best, result


def _row(result):
    numbers = number(result["seconds"]), number(result["kkt"]), f"{result['nonzero']:,}"
    return [result["data"], result["model"], result["solver"], *numbers]


def _read(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="*", help=f"{', '.join([*SIMULATED, *GENES])}; default all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny data")
    parser.add_argument("--output", type=Path, default=default_output("wide"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    for library in ("OPENBLAS", "OMP", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    main()
