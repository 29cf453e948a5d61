"""Intervals of coefficients beside random intercepts of clusters."""

from __future__ import annotations

import sys
import warnings

import numpy as np

from .cases import SEED
from .report import Option, columns, lines, read, save

N_CLUSTERS, SIZE, VARIANCE = 1_000, 10, 0.5
COEF = np.array([0.5, -0.3])  # of a column that differs within clusters, and of one between them
DESIGNS = "cox", "logistic", "poisson"
COLUMNS = columns(
    "design | variance_by | data_sets:d | within:.1% | between:.1% | variance:.3f | bias:.1%"
)


def main_clusters(arguments=None):
    """Shares of 95 % Wald intervals with the coefficient of a column, beside 1,000 clusters of ten.

    The intercepts have variance 0.5, estimated by REML or ML; "none" is the fit without them. The
    bias is that of the first coefficient, relative.
    """
    counts = {"data_sets": Option(200, quick=10)}
    doc, quick = main_clusters.__doc__, "10 data sets"
    options = read("clusters", doc, arguments, quick, designs=DESIGNS, **counts)
    results = []
    for name in options.designs:
        print(name, file=sys.stderr, flush=True)
        results += measure(name, options.data_sets)
        save(options, results=results)
    print(lines(COLUMNS, results))


def measure(name, n_data_sets):
    """Coverage, mean variance and bias, by way of estimating the variance."""
    found = {"none": [], "reml": [], "ml": []}
    for seed in range(n_data_sets):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for kind, each in estimates(name, np.random.default_rng([SEED, seed])).items():
                found[kind].append(each)
    results = []
    for kind, each in found.items():
        within, between, variance, coef = np.mean(each, axis=0)
        shares = {"within": within, "between": between, "variance": variance}
        shares["bias"] = coef / COEF[0] - 1.0
        results.append({"design": name, "variance_by": kind, "data_sets": n_data_sets, **shares})
    return results


def estimates(name, rng):
    """Whether intervals hold both coefficients, the variance, and the first one, by its kind."""
    from sksurvgpu import CoxLassoCCD, LogisticCCD, PoissonCCD, RandomIntercepts, surv, wald

    cluster = np.repeat(np.arange(N_CLUSTERS), SIZE)
    X = np.column_stack([rng.normal(size=len(cluster)), rng.normal(size=N_CLUSTERS)[cluster]])
    eta = X @ COEF + rng.normal(0.0, np.sqrt(VARIANCE), N_CLUSTERS)[cluster]
    if name == "cox":
        time, end = rng.exponential(np.exp(-eta)), rng.exponential(2.0, len(eta))
        model, y = CoxLassoCCD, surv(time < end, np.minimum(time, end))
    elif name == "logistic":
        model, y = LogisticCCD, rng.random(len(eta)) < 1.0 / (1.0 + np.exp(1.0 - eta))
    else:
        model, y = PoissonCCD, rng.poisson(np.exp(eta - 1.0))
    model = model(alpha=0.0, n_jobs=1, backend="cpu")
    results = {"none": (wald(model.fit(X, y), X, y), 0.0)}
    for kind in ("reml", "ml"):
        fitted = RandomIntercepts(model, variance=kind).fit(X, y, cluster)
        results[kind] = fitted.wald(), fitted.variance_
    found = {}
    for kind, (result, variance) in results.items():
        table = result.intervals
        held = (table["lower"] <= COEF) & (table["upper"] >= COEF)
        found[kind] = [*held, variance, table["coef"].iloc[0]]
    return found
