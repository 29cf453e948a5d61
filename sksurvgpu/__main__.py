"""``python -m sksurvgpu``: a tour on simulated data, timed beside scikit-survival."""

from __future__ import annotations

import argparse
import logging
import platform
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from . import __version__
from ._compile import cache_files, listeners
from ._expected import MODELS, expected_time
from ._progress import Line
from ._report import Figure, write_report
from ._tables import counted
from .backends import explain
from .datasets import simulate_cox
from .estimators._prepared import count_threads
from .estimators._preparing import prepare
from .estimators.survival import CoxLassoCCD
from .exceptions import BackendUnavailableError
from .selection.models import CoxLassoCV
from .selection.path import fit_path
from .show_versions import _version_of

N_FOLDS = 5
N_ALPHAS = 50
ALPHA_MIN_RATIO = 2e-3
N_SHOWN = 10
REPORT, TITLE = "sksurvgpu-report.html", f"sksurvgpu {__version__}: a tour"
COMPILED = (
    "of Cox models: once for each kind of model and data, then loaded from disk; "
    "--compile does it for all"
)


def main(arguments=None) -> None:
    """Simulate a cohort, fit a path, choose its strength, compare with scikit-survival."""
    options = _read(arguments)
    if options.estimate:
        return print(_estimate(options))
    if options.compile:
        from ._warm_up import warm_up

        try:
            return warm_up(backend=options.backend, device=options.device)
        except BackendUnavailableError as error:
            raise SystemExit(str(error)) from None
    data = simulate_cox(options.samples, options.features, density=0.05, random_state=options.seed)
    facts, times = _describe(options, data), []
    for name, text in facts.items():
        print(f"{name:<12}{text}")
    print()
    model = CoxLassoCCD(n_jobs=options.threads)
    _compile_for(model, data, times)
    path = _timed(
        f"path of {N_ALPHAS} penalties",
        lambda: fit_path(model, data.X, data.y, n_alphas=N_ALPHAS, alpha_min_ratio=ALPHA_MIN_RATIO),
        times,
    )
    folds = {"cv": N_FOLDS, "random_state": options.seed, "n_jobs": options.threads}
    chosen = _timed(
        f"{N_FOLDS}-fold cross-validation of the path",
        lambda: CoxLassoCV(alphas=path.alphas, **folds).fit(data.X, data.y),
        times,
    )
    said = (
        f"alpha = {chosen.alpha_:.3g} ({chosen.alpha_ / path.alpha_max:.3f} of alpha_max), "
        f"{np.count_nonzero(chosen.coef_)} of {options.features:,} columns"
    )
    print(f"\nchosen      {said}\n")
    ratios = _ratios(chosen, data.coef)
    print(ratios.round(3).to_string())
    sections = [
        ("Choosing the penalty", f"Chosen: {said}.", _figure_of_folds(chosen)),
        ("The path", "Coefficients at every penalty.", _figure_of_path(path, chosen)),
        ("Hazard ratios", "The largest effects found, beside the truth.", ratios),
    ]
    if options.compare:
        table = _compare(model.set_params(alpha=chosen.alpha_), data, times)
        text = f"One fit by each package at alpha = {chosen.alpha_:.3g}, judged by one evaluation."
        sections.append(("Beside scikit-survival", text, table))
    if options.report:
        shown = pd.DataFrame(times, columns=["what", "seconds", "CPU seconds"]).set_index("what")
        text = "Measured here, now; other work on this machine adds to the first column."
        sections.insert(0, ("Times", text, shown.rename_axis(None)))
        print(f"\nreport      {write_report(options.report, TITLE, facts, sections)}")


def _estimate(options):
    """Table of what calls would take."""
    asked = {"n_alphas": options.path, "cv": options.folds, "n_replicates": options.replicates}
    try:
        table = expected_time(
            *options.estimate, model=options.model, n_jobs=options.threads, **asked
        )
    except ValueError as error:
        raise SystemExit(str(error)) from None
    said = "{:,} rows, {:,} columns, {:,} entries that are not zero".format(*options.estimate)
    said += f"; {options.model}, {counted(count_threads(options.threads), 'threads')}"
    shown = table.to_string(float_format=lambda x: f"{x:,.0f}" if x >= 100 else f"{x:.2g}")
    return f"{said}\n\n{shown}"


def _describe(options, data):
    """Facts of a run in words: versions, backend, threads, cohort."""
    name, reason = explain("auto")
    n_threads = count_threads(options.threads)
    versions = [f"{lib} {_version_of(lib)}" for lib in ("numpy", "numba", "scikit-learn")]
    return {
        "sksurvgpu": f"{__version__}, Python {platform.python_version()}, {', '.join(versions)}",
        "backend": f"{name}, {n_threads} thread(s): {reason}",
        "cohort": f"{options.samples:,} rows, {options.features:,} indicator columns "
        f"({int(data.X.sum()):,} ones), {data.y['event'].sum():,} events",
    }


def _compile_for(model, data, times):
    """Compile what the tour needs, kernel by kernel."""
    print(f"kernels     {COMPILED}")
    names = []

    def listen(name):
        names.append(name)
        line.step(1, name.strip("_"))

    logger = logging.getLogger("sksurvgpu")
    level = logger.level
    logger.setLevel(logging.ERROR)  # here it is said already
    listeners.append(listen)
    begin = time.perf_counter(), time.process_time()
    X, y = data.X[:500], data.y[:500]
    with Line("compile", unit="kernels") as line:
        try:
            for weight in (None, 1.0 + np.arange(len(y)) % 2):  # folds are weights
                fit_path(model, X, y, n_alphas=3, sample_weight=weight)
        finally:
            listeners.remove(listen)
            logger.setLevel(level)
        where, seconds = ", ".join(cache_files()), time.perf_counter() - begin[0]
        line.end(
            f"compile: {counted(len(names), 'kernels')}, {seconds:.1f} s, kept in {where}"
            if names
            else f"compile: nothing, all was in {where}"
        )
    _note("compile", begin, times)


def _figure_of_folds(chosen):
    def draw(ax):
        from .plotting.cv import CVDisplay

        CVDisplay.from_estimator(chosen, ax=ax)

    return Figure(draw, "cross-validated score over the penalty")


def _figure_of_path(path, chosen):
    def draw(ax):
        from .plotting.path import PathDisplay

        PathDisplay.from_path(path, ax=ax)
        ax.axvline(chosen.alpha_, linestyle=":", color="0.5")

    return Figure(draw, "coefficients over the penalty")


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m sksurvgpu", description=__doc__)
    parser.add_argument(
        "--samples", type=partial(_count, least=100), default=20_000, help="rows (%(default)s)"
    )
    parser.add_argument("--features", type=_count, default=500, help="columns (%(default)s)")
    parser.add_argument("--threads", type=_count, default=None, help="threads (all)")
    parser.add_argument(
        "--seed", type=partial(_count, least=0), default=0, help="seed of the data (%(default)s)"
    )
    parser.add_argument(
        "--no-compare", dest="compare", action="store_false", help="leave out scikit-survival"
    )
    parser.add_argument("--report", default=REPORT, help="page to write (%(default)s)")
    parser.add_argument(
        "--no-report", dest="report", action="store_const", const=None, help="write no page"
    )
    parser.add_argument(
        "--compile", action="store_true", help="compile all models in advance, and nothing else"
    )
    parser.add_argument(
        "--backend", choices=("cpu", "cuda"), default="cpu", help="what to compile for"
    )
    parser.add_argument("--device", type=int, default=0, help="number of the CUDA device")
    _add_estimate(
        parser.add_argument_group("how long calls would take on this machine, and nothing else")
    )
    options = parser.parse_args(arguments)
    if options.report and not Path(options.report).absolute().parent.is_dir():
        parser.error(f"argument --report: there is no folder for {options.report!r}")
    return options


def _add_estimate(group):
    names, text = ("ROWS", "COLUMNS", "ONES"), "of a fit; ONES are entries of X that are not zero"
    group.add_argument("--estimate", nargs=3, type=_count, metavar=names, help=text)
    group.add_argument("--model", choices=tuple(MODELS), default="cox", help="(%(default)s)")
    calls = {"path": "penalties of a path", "folds": "folds of a cross-validation"}
    for name, what in {**calls, "replicates": "replicates of a bootstrap"}.items():
        group.add_argument(f"--{name}", type=_count, metavar="N", help=f"{what}, too")


def _count(text, least=1):
    """A whole number of at least 1, or `least`."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
    return int(text)


def _timed(label, call, times):
    begin = time.perf_counter(), time.process_time()
    result = call()
    print(f"{label:<42} {_note(label, begin, times):>8.2f} s", flush=True)
    return result


def _note(label, begin, times):
    """Note the seconds since `begin`, on the wall and of the processor; return the former."""
    seconds, cpu = time.perf_counter() - begin[0], time.process_time() - begin[1]
    times.append((label.strip(), seconds, cpu))
    return seconds


def _evaluate(prepared, alphas, coefs):
    """Solutions that are their own starts: likelihood, objective and KKT residual there."""
    still = prepared.with_options(max_iter=0)
    return [path[0] for path in still.solve(alphas, coef=coefs)]


def _ratios(fitted, true_coef):
    """The largest hazard ratios that were found, beside the true ones."""
    table = fitted.summary().assign(true=np.exp(true_coef))[["hazard_ratio", "true"]]
    largest = table.iloc[np.argsort(-np.abs(fitted.coef_), kind="stable")[:N_SHOWN]]
    return largest.rename_axis(None).rename(columns={"hazard_ratio": "hazard ratio"})


def _compare(model, data, times):
    """One fit by each package at the same penalty, judged by one evaluation."""
    from sksurv.linear_model import CoxnetSurvivalAnalysis

    print(f"\none fit at alpha = {model.alpha:.3g}")
    ours = _timed("  CoxLassoCCD", lambda: model.fit(data.X, data.y), times)
    coxnet = CoxnetSurvivalAnalysis(alphas=[model.alpha], l1_ratio=1.0, fit_baseline_model=False)
    dense = data.X.toarray()
    _timed("  scikit-survival CoxnetSurvivalAnalysis", lambda: coxnet.fit(dense, data.y), times)
    prepared = prepare(model, data.X, data.y)
    coefs = np.column_stack([ours.coef_, coxnet.coef_[:, 0]])
    judged = _evaluate(prepared, np.full((1, 2), model.alpha), coefs)
    print(f"\n{'':<14} {'objective':>14} {'KKT residual':>13} {'columns':>8}")
    rows = {}
    for name, solution in zip(("CoxLassoCCD", "Coxnet"), judged, strict=True):
        scale = 1.0 / prepared.total_weight
        objective = f"{solution.objective * scale:.10f}"
        rows[name] = objective, f"{solution.kkt * scale:.1e}", np.count_nonzero(solution.coef)
        print("{:<14} {:>14} {:>13} {:>8}".format(name, *rows[name]))
    columns = ["objective", "KKT residual", "columns"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    return table.assign(seconds=[seconds for _, seconds, _ in times[-2:]])


if __name__ == "__main__":
    main()
