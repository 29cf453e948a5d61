"""``python -m sksurvgpu``: a tour on simulated data, timed beside scikit-survival."""

from __future__ import annotations

import argparse
import platform
import time
from dataclasses import replace

import numpy as np

from . import __version__
from .backends import explain
from .datasets import simulate_cox
from .estimators._prepared import count_threads
from .estimators.survival import CoxLassoCCD
from .exceptions import BackendUnavailableError
from .selection.models import CoxLassoCV
from .selection.path import fit_path

N_FOLDS = 5
N_ALPHAS = 50
ALPHA_MIN_RATIO = 2e-3
N_SHOWN = 10


def main(arguments=None) -> None:
    """Simulate a cohort, fit a path, choose its strength, compare with scikit-survival."""
    options = _read(arguments)
    if options.compile:
        from ._warm_up import warm_up

        try:
            return warm_up(backend=options.backend, device=options.device)
        except BackendUnavailableError as error:
            raise SystemExit(str(error)) from None
    name, reason = explain("auto")
    n_threads = count_threads(options.threads)
    print(f"sksurvgpu {__version__}, Python {platform.python_version()}")
    print(f"backend     {name}, {n_threads} thread(s): {reason}\n")
    data = simulate_cox(options.samples, options.features, density=0.05, random_state=options.seed)
    print(
        f"cohort      {options.samples:,} rows, {options.features:,} indicator columns "
        f"({int(data.X.sum()):,} ones), {data.y['event'].sum():,} events"
    )
    model = CoxLassoCCD(n_jobs=options.threads)
    _timed("compile", lambda: fit_path(model, data.X[:500], data.y[:500], n_alphas=3))
    path = _timed(
        f"path of {N_ALPHAS} penalties",
        lambda: fit_path(model, data.X, data.y, n_alphas=N_ALPHAS, alpha_min_ratio=ALPHA_MIN_RATIO),
    )
    folds = {"cv": N_FOLDS, "random_state": options.seed, "n_jobs": options.threads}
    chosen = _timed(
        f"{N_FOLDS}-fold cross-validation of the path",
        lambda: CoxLassoCV(alphas=path.alphas, **folds).fit(data.X, data.y),
    )
    print(
        f"\nchosen      alpha = {chosen.alpha_:.3g} "
        f"({chosen.alpha_ / path.alpha_max:.3f} of alpha_max), "
        f"{np.count_nonzero(chosen.coef_)} of {options.features:,} columns\n"
    )
    _print_ratios(chosen, data.coef)
    if options.compare:
        _compare(model.set_params(alpha=chosen.alpha_), data)


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m sksurvgpu", description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000, help="rows (%(default)s)")
    parser.add_argument("--features", type=int, default=500, help="columns (%(default)s)")
    parser.add_argument("--threads", type=int, default=None, help="threads (all)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the data (%(default)s)")
    parser.add_argument(
        "--no-compare", dest="compare", action="store_false", help="leave out scikit-survival"
    )
    parser.add_argument(
        "--compile", action="store_true", help="compile all models in advance, and nothing else"
    )
    parser.add_argument(
        "--backend", choices=("cpu", "cuda"), default="cpu", help="what to compile for"
    )
    parser.add_argument("--device", type=int, default=0, help="number of the CUDA device")
    return parser.parse_args(arguments)


def _timed(label, call):
    start = time.perf_counter()
    result = call()
    print(f"{label:<42} {time.perf_counter() - start:>8.2f} s", flush=True)
    return result


def _evaluate(prepared, alphas, coefs):
    """Solutions that are their own starts: likelihood, objective and KKT residual there."""
    still = replace(prepared, options=replace(prepared.options, max_iter=0))
    return [path[0] for path in still.solve(alphas, coef=coefs)]


def _print_ratios(fitted, true_coef):
    table = fitted.summary()
    order = np.argsort(-np.abs(fitted.coef_), kind="stable")[:N_SHOWN]
    print(f"{'column':<10} {'hazard ratio':>12} {'true':>8}")
    for j in order:
        ratio = table["hazard_ratio"].iloc[j]
        print(f"{table.index[j]:<10} {ratio:>12.3f} {np.exp(true_coef[j]):>8.3f}")


def _compare(model, data):
    """One fit by each package at the same penalty, judged by one evaluation."""
    from sksurv.linear_model import CoxnetSurvivalAnalysis

    print(f"\none fit at alpha = {model.alpha:.3g}")
    ours = _timed("  CoxLassoCCD", lambda: model.fit(data.X, data.y))
    coxnet = CoxnetSurvivalAnalysis(alphas=[model.alpha], l1_ratio=1.0, fit_baseline_model=False)
    dense = data.X.toarray()
    _timed("  scikit-survival CoxnetSurvivalAnalysis", lambda: coxnet.fit(dense, data.y))
    prepared = model._prepare(data.X, data.y)
    coefs = np.column_stack([ours.coef_, coxnet.coef_[:, 0]])
    judged = _evaluate(prepared, np.full((1, 2), model.alpha), coefs)
    print(f"\n{'':<14} {'objective':>14} {'KKT residual':>13} {'columns':>8}")
    for name, solution in zip(("CoxLassoCCD", "Coxnet"), judged, strict=True):
        scale = 1.0 / prepared.total_weight
        print(
            f"{name:<14} {solution.objective * scale:>14.10f} {solution.kkt * scale:>13.1e} "
            f"{np.count_nonzero(solution.coef):>8}"
        )


if __name__ == "__main__":
    main()
