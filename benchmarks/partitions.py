"""Rows in partitions beside rows in memory: fits, and batches of fits, by several ways.

Every measurement has a process of its own, and what loads its kernels before it.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from .cases import PAPERS_PENALTY, SEED
from .processes import call, forget_peak, memory_mb, timed
from .report import Option, columns, lines, read, save

N_PARTS, N_SITES, MB = 10, 5, 2**20
CASES = {  # simulator, rows, columns, share of the largest penalty (None: the papers' penalty)
    "published": ("simulate_cox", 1_000_000, 1_000, None),
    "records": ("simulate_ehr", 200_000, 2_000, 0.01),
}
WAYS = (
    ("in memory", "memory", None),
    ("threads", "threads", "full"),
    ("threads", "threads", "sample"),
    ("threads", "threads", "diagonal"),
    ("files", "files", "sample"),
    ("Dask, 2 processes", "cluster", "sample"),
    ("5 sites, bytes", "sites", "sample"),
    ("5 sites, bytes", "sites", "diagonal"),
)
SPENT = (
    "exchanges:d | passes:.3g | entries read, of all=read:.3g | MB down=down:.3g | MB up=up:.3g | "
    "CPU s=cpu:.1f | over memory=over_memory:.2f | s=seconds:.1f | peak MB=peak:.0f"
)
FITS = columns(
    f"route=title | matrix | iterations:d | {SPENT} | objective, rel.=relative:.0e | "
    "coef=change:.0e",
    matrix=lambda found: found["level"] or "",
)
N_ROWS, N_COLUMNS, SHARE = 100_000, 400, 0.02
N_ALPHAS, N_FOLDS, N_REPLICATES = 20, 10, 200
BATCHES = ("fit", "path", "cross-validation", "bootstrap")
FEW_WAYS = (
    ("in memory", "memory"),
    ("threads over files", "files"),
    ("Dask, 2 processes", "cluster"),
)
BATCH_FITS = columns(f"batch | route=title | fits:d | {SPENT} | check, rel.=relative:.0e")
FOLDER = Option(str, "where there is room for the rows")


def main_routes(arguments=None):
    """One fit by several routes: in memory, over threads, files, a Dask cluster, and sites."""
    few, given = "few rows and columns", {"cases": tuple(CASES), "folder": FOLDER}
    options = read("routes", main_routes.__doc__, arguments, few, "partition-routes", **given)
    cases = {}
    for name in options.cases:
        simulator, n_rows, n_columns, share = CASES[name]
        if options.quick:
            n_rows, n_columns = n_rows // 50, n_columns // 10
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            job = {"simulator": simulator, "shape": (n_rows, n_columns), "share": share}
            penalty = call(__name__, "prepare", {"folder": folder, **job}, n_threads=2)
            cases[name] = _by_all_ways(name, {"folder": folder, "penalty": penalty})
        print(f"\n{name}\n{lines(FITS, cases[name])}", flush=True)
        save(options, cases=cases)


def _by_all_ways(name, job):
    """Costs of a fit by every way, and how far its answer is from the first way's."""
    found, first, first_coef = [], None, None
    for title, route, level in WAYS:
        result = call(__name__, "measure", {**job, "route": route, "level": level}, n_threads=1)
        coef, first = np.array(result.pop("coef")), first or result
        first_coef = coef if first_coef is None else first_coef
        change = abs(result["objective"] - first["objective"]) / abs(first["objective"])
        result |= {"over_memory": result["cpu"] / first["cpu"], "relative": change}
        result |= {"change": float(np.abs(coef - first_coef).max())}
        found.append({"title": title, "level": level, **result})
        print(f"{name}: {title} {level or ''} {result['cpu']:.1f} CPU s", flush=True)
    return found


def main_partition_batches(arguments=None):
    """Batches of fits over partitions: a cross-validation, and replicates of a bootstrap.

    What they cost beside one fit: exchanges, readings of X, and CPU seconds. Draws and folds over
    partitions follow the same laws as in memory, with other numbers: "check" is equal up to those.
    """
    few, given = "few rows, columns and replicates", {"batches": BATCHES, "folder": FOLDER}
    doc, file, results = main_partition_batches.__doc__, "partition-batches", []
    options = read("partition_batches", doc, arguments, few, file, **given)
    scale = 20 if options.quick else 1
    shape = (N_ROWS // scale, N_COLUMNS // min(scale, 4))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        job = {"folder": folder, "simulator": "simulate_ehr", "shape": shape, "share": SHARE}
        job = {"folder": folder, "penalty": call(__name__, "prepare", job, n_threads=2)}
        job["n_replicates"] = N_REPLICATES // scale
        for batch in options.batches:
            first = None
            for title, route in FEW_WAYS:
                given = {**job, "route": route, "batch": batch}
                result = call(__name__, "measure_batch", given, n_threads=1)
                first = first or result
                result["relative"] = abs(result["check"] / first["check"] - 1.0)
                result["over_memory"] = result["cpu"] / first["cpu"]
                results.append({"batch": batch, "title": title, **result})
                print(f"{batch}: {title} {result['cpu']:.1f} CPU s", flush=True)
                save(options, lines=results)
    print(lines(BATCH_FITS, results))


def prepare(folder, simulator, shape, share):
    """Draw a problem and write it; its penalty, on the mean scale."""
    from scipy.sparse import save_npz

    import sksurvgpu
    from sksurvgpu import datasets

    data = getattr(datasets, simulator)(*shape, random_state=SEED)
    X = data.X.tocsc()
    save_npz(f"{folder}/X.npz", X, compressed=False)
    np.save(f"{folder}/y.npy", data.y)
    np.save(f"{folder}/entries.npy", X.nnz)
    rows = -(-shape[0] // max(N_PARTS, -(-shape[0] // 65_536)))
    sksurvgpu.write_partitions(f"{folder}/parts", (X, data.y), rows=rows)
    if share is None:
        return PAPERS_PENALTY / shape[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return share * float(sksurvgpu.CoxLassoCCD(alpha=10.0).fit(X, data.y).alpha_max_)


def measure(folder, route, level, penalty):
    """One fit: what it took, and what it found."""
    import sksurvgpu

    model = sksurvgpu.CoxLassoCCD(alpha=1e3 * penalty)

    def load(fit):
        fit()  # loads what the next ones need
        model.alpha = penalty
        fit()

    found, _ = _watch(folder, route, level, level, model, load, lambda fit: fit())
    found |= {"iterations": int(model.n_iter_), "objective": float(model.objective_)}
    return found | {"coef": model.coef_.tolist(), "converged": bool(model.converged_)}


def measure_batch(folder, route, batch, penalty, n_replicates):
    """One batch: what it took, and a number that says what it found."""
    import sksurvgpu

    model = sksurvgpu.CoxLassoCCD(alpha=penalty)

    def load(fit):
        _solve(batch, fit.args, model, 2, {"n_alphas": 2, "cv": 2})

    def solve(fit):
        return _solve(batch, fit.args, model, n_replicates, {"n_alphas": N_ALPHAS})

    found, (n_fits, check) = _watch(folder, route, "diagonal", "full", model, load, solve)
    return found | {"fits": n_fits, "check": check}


def _watch(folder, route, level, highest, model, load, solve):
    """Seconds, memory and exchanges of ``solve(fit)``, and what it returned."""
    counts, folder = _keep_counts(level, highest), Path(folder)
    with _ROUTES[route](folder, model, level) as (fit, workers), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        load(fit)
        forget_peak()
        before = _used(workers)
        solved, spent = timed(lambda: solve(fit))
        used = np.subtract(_used(workers), before)
        peak = memory_mb() + sum(_run(workers, memory_mb))
    found = {"seconds": spent["seconds"], "cpu": float(used.sum()), "peak": peak}
    return found | (_of_counts(counts[-1], folder) if counts else {}), solved


def _solve(batch, rows, model, n_replicates, options):
    """How many fits there were, and what tells whether they are right."""
    import sksurvgpu

    if batch == "fit":
        return 1, float(model.fit(*rows).objective_)
    if batch == "path":
        path = sksurvgpu.fit_path(model, *rows, n_alphas=options["n_alphas"])
        return len(path.alphas), float(np.abs(path.coefs).sum())
    if batch == "cross-validation":
        options = {"cv": N_FOLDS, "early_stopping": False, **options}
        found = sksurvgpu.CoxLassoCV(**options).fit(*rows)
        return options["cv"] * len(found.cv_results_), float(found.best_score_)
    found = sksurvgpu.bootstrap(
        model, *rows, n_replicates=n_replicates, kind="exponential", random_state=0
    )
    return n_replicates, float(np.abs(found.coefs).sum())


def _keep_counts(level, highest):
    """Have every fit take a matrix, which users need not choose, and keep what it counts."""
    from sksurvgpu.backends.sums import coordinator
    from sksurvgpu.estimators import _partitioned
    from sksurvgpu.federated import engine as of_sites

    kept = []

    def make(**options):
        found = coordinator.PartitionsBackend(**{**options, "level": level, "highest": highest})
        kept.append(found.counts)
        return found

    _partitioned.PartitionsBackend = of_sites.PartitionsBackend = make
    return kept


def _of_counts(counts, folder):
    found = {"exchanges": counts.exchanges, "passes": counts.passes}
    found |= {"down": counts.bytes_down / MB, "up": counts.bytes_up / MB}
    return found | {"read": counts.entries / int(np.load(folder / "entries.npy"))}


def _used(workers):
    return [time.process_time(), *_run(workers, time.process_time)]


def _run(workers, function):
    return () if workers is None else workers.run(function).values()


def _load(folder):
    from scipy.sparse import load_npz

    return load_npz(folder / "X.npz"), np.load(folder / "y.npy")


def _cut(X, y, n_parts):
    X = X.tocsr()
    return [(X[rows], y[rows]) for rows in np.array_split(np.arange(len(y)), n_parts)]


@contextlib.contextmanager
def _in_memory(folder, model, level):
    X, y = _load(folder)
    yield partial(model.fit, X, y), None


@contextlib.contextmanager
def _in_threads(folder, model, level):
    from sksurvgpu.partitions.handles import from_lists

    X, y = zip(*_cut(*_load(folder), N_PARTS), strict=True)
    rows = from_lists({"X": X, "y": y})
    yield partial(model.fit, rows["X"], rows["y"]), None


@contextlib.contextmanager
def _in_files(folder, model, level):
    import sksurvgpu

    data = sksurvgpu.open_partitions(folder / "parts")
    yield partial(model.fit, data.X, data.y), None


@contextlib.contextmanager
def cluster():
    """Client of a Dask cluster of two processes on this machine."""
    from distributed import Client, LocalCluster

    quiet = {"silence_logs": logging.CRITICAL, "dashboard_address": ":0"}
    local = LocalCluster(n_workers=2, threads_per_worker=1, **quiet)
    with local, Client(local) as client:
        yield client


@contextlib.contextmanager
def _on_cluster(folder, model, level):
    with cluster() as client, _in_files(folder, model, level) as (fit, _):
        yield fit, client


@contextlib.contextmanager
def _at_sites(folder, model, level):
    from sksurvgpu.federated import Coordinator, Rules, Site

    X, y = _load(folder)
    rules = Rules(
        max_exchanges=10_000,
        max_matrices=10_000,
        max_programmes=1_000,
        largest_share=1.0,
        blur=0.0,
    )
    sites = {f"site {k}": Site(*some, rules=rules) for k, some in enumerate(_cut(X, y, N_SITES))}
    send = {name: site.answer for name, site in sites.items()}
    grid = np.unique(np.ceil(y["time"]))

    def fit():
        Coordinator(model, send, grid=grid, level=level).fit()

    yield fit, None


_ROUTES = {
    "memory": _in_memory,
    "threads": _in_threads,
    "files": _in_files,
    "cluster": _on_cluster,
    "sites": _at_sites,
}
