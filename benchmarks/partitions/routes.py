"""The same fit by several routes: in memory, over threads, files, a Dask cluster, and sites.

Every fit has a process of its own, and one before it that loads its kernels.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from ..cases import PAPERS_PENALTY, SEED
from ..processes import call, forget_peak, memory_mb
from ..report import default_output, machine, number, table, write

N_PARTS, N_SITES, MB = 10, 5, 2**20
CASES = {  # simulator, rows, columns, share of the largest penalty (None: the papers' penalty)
    "published": ("simulate_cox", 1_000_000, 1_000, None),
    "records": ("simulate_ehr", 200_000, 2_000, 0.01),
}
ROUTES = (
    ("in memory", "memory", None),
    ("threads", "threads", "full"),
    ("threads", "threads", "sample"),
    ("threads", "threads", "diagonal"),
    ("files", "files", "sample"),
    ("Dask, 2 processes", "cluster", "sample"),
    ("5 sites, bytes", "sites", "sample"),
    ("5 sites, bytes", "sites", "diagonal"),
)
HEADERS = [
    "route",
    "matrix",
    "iterations",
    "exchanges",
    "passes",
    "entries read, of all",
    "MB down",
    "MB up",
    "CPU s",
    "over memory",
    "s",
    "peak MB",
    "objective, rel.",
    "coef",
]


def main(arguments=None):
    """Measure, print tables, write JSON."""
    options = _read(arguments)
    content = {"machine": machine(), "cases": {}}
    for name in options.cases:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            lines = content["cases"][name] = _measure(name, Path(folder), options.quick)
        shown = [_line(line, lines[0]) for line in lines]
        print(f"\n{name}\n" + table(HEADERS, shown, n_left=2), flush=True)
        for line in lines:
            del line["coef"]
        write(options.output, content)


def _measure(name, folder, quick):
    simulator, n_rows, n_columns, share = CASES[name]
    if quick:
        n_rows, n_columns = n_rows // 50, n_columns // 10
    job = {"folder": str(folder), "simulator": simulator, "shape": (n_rows, n_columns)}
    penalty = call("benchmarks.partitions.routes", "prepare", {**job, "share": share}, n_threads=2)
    lines = []
    for title, route, level in ROUTES:
        job = {"folder": str(folder), "route": route, "level": level, "penalty": penalty}
        found = call("benchmarks.partitions.routes", "measure", job, n_threads=1)
        lines.append({"title": title, "level": level, **found})
        print(f"{name}: {title} {level or ''} {found['cpu']:.1f} CPU s", flush=True)
    return lines


def _line(line, first):
    change = np.max(np.abs(np.subtract(line["coef"], first["coef"])))
    relative = abs(line["objective"] - first["objective"]) / abs(first["objective"])
    counts = [line.get(name) for name in ("passes", "read", "down", "up")]
    return [
        line["title"],
        line["level"] or "",
        str(line["iterations"]),
        str(line.get("exchanges", "-")),
        *(number(value, ".3g") for value in counts),
        number(line["cpu"], ".1f"),
        number(line["cpu"] / first["cpu"], ".2f"),
        number(line["seconds"], ".1f"),
        number(line["peak"], ".0f"),
        f"{relative:.0e}",
        f"{change:.0e}",
    ]


# -- in processes of their own ----------------------------------------------------------------
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

    counts = _keep_counts(level)
    model = sksurvgpu.CoxLassoCCD(alpha=1e3 * penalty)
    with _ROUTES[route](Path(folder), model, level) as (fit, workers), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit()  # loads what the next ones need
        model.alpha = penalty
        fit()
        forget_peak()
        before, begin = _used(workers), time.perf_counter()
        fit()
        seconds = time.perf_counter() - begin
        used = np.subtract(_used(workers), before)
        peak = memory_mb() + sum(_run(workers, memory_mb))
    found = {"seconds": seconds, "cpu": float(used.sum()), "peak": peak}
    found |= {"iterations": int(model.n_iter_), "objective": float(model.objective_)}
    found |= {"coef": model.coef_.tolist(), "converged": bool(model.converged_)}
    return found | (_of_counts(counts[-1], Path(folder)) if counts else {})


def _keep_counts(level, highest=None):
    """Have every fit take a matrix, which users need not choose, and keep what it counts."""
    highest = level if highest is None else highest
    from sksurvgpu.backends.sums import coordinator
    from sksurvgpu.estimators import _partitioned
    from sksurvgpu.federated import coordinator as of_sites

    kept = []

    def make(**options):
        found = coordinator.Coordinator(**{**options, "level": level, "highest": highest})
        kept.append(found.counts)
        return found

    _partitioned.Coordinator = of_sites.Sums = make
    return kept


def _of_counts(counts, folder):
    entries = int(np.load(folder / "entries.npy"))
    return {
        "exchanges": counts.exchanges,
        "passes": counts.passes,
        "read": counts.entries / entries,
        "down": counts.bytes_down / MB,
        "up": counts.bytes_up / MB,
    }


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
    from sksurvgpu.partitions.handles import in_memory

    X, y = zip(*_cut(*_load(folder), N_PARTS), strict=True)
    rows = in_memory({"X": X, "y": y})
    yield partial(model.fit, rows["X"], rows["y"]), None


@contextlib.contextmanager
def _in_files(folder, model, level):
    import sksurvgpu

    data = sksurvgpu.open_partitions(folder / "parts")
    yield partial(model.fit, data.X, data.y), None


@contextlib.contextmanager
def _on_cluster(folder, model, level):
    from distributed import Client, LocalCluster

    quiet = {"silence_logs": logging.CRITICAL, "dashboard_address": ":0"}
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, **quiet)
    with cluster, Client(cluster) as client, _in_files(folder, model, level) as (fit, _):
        yield fit, client


@contextlib.contextmanager
def _at_sites(folder, model, level):
    from sksurvgpu.federated import Coordinator, Rules, Site

    X, y = _load(folder)
    rules = Rules(max_exchanges=10_000, max_matrices=10_000, largest_share=1.0)
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


def _read(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--quick", action="store_true", help="few rows and columns")
    parser.add_argument("--folder", default=None, help="where there is room for the rows")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("partition-routes", options.quick)
    return options


if __name__ == "__main__":
    main()
