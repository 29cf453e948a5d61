"""A fit on files that are larger than the memory it may take.

The store is written batch by batch; the fit runs in a process whose data segment is limited, so
that it ends with an error if it asks for more.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import warnings
from pathlib import Path

import sksurvgpu

from ..processes import call, memory_mb
from ..report import default_output, machine, number, table, write
from .problems import batches

MB = 2**20


def main(arguments=None):
    """Write a store, fit it, print what that took."""
    options = _read(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path, written = options.store or str(Path(folder) / "cohort.parts"), {}
        if options.store is None:
            job = {"path": path, "n_rows": options.rows, "n_columns": options.columns}
            written = call("benchmarks.partitions.large", "write_store", job)
        job = {"path": path, "share": options.share, "limit_mb": options.memory}
        job |= {"n_jobs": options.jobs}
        fitted = call("benchmarks.partitions.large", "fit_store", job, n_threads=options.jobs)
    content = {"machine": machine(), "written": written, "fitted": fitted}
    rows = [[name, number(value)] for name, value in {**written, **fitted}.items()]
    print(table(["", "value"], rows))
    write(options.output, content)


def write_store(path, n_rows, n_columns):
    """Draw and write."""
    start = time.time()
    sksurvgpu.write_partitions(path, batches(n_rows, n_columns))
    size = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    return {
        "rows": n_rows,
        "columns": n_columns,
        "store MB": size / MB,
        "writing s": time.time() - start,
        "writing peak MB": memory_mb(),
    }


def fit_store(path, share, limit_mb, n_jobs):
    """Fit at a share of the largest penalty, under a limit of memory, a tenth of it for rows."""
    limit = int(limit_mb) * MB
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    warnings.simplefilter("ignore")
    data = sksurvgpu.open_partitions(path, memory=limit / 10)
    found = {"limit MB": limit_mb, "imports MB": memory_mb()}
    first = _timed(found, "null fit", sksurvgpu.CoxLassoCCD(alpha=1e3, n_jobs=n_jobs), data)
    model = sksurvgpu.CoxLassoCCD(alpha=share * first.alpha_max_, n_jobs=n_jobs)
    _timed(found, "fit", model, data)
    return found | {
        "iterations": int(model.n_iter_),
        "converged": int(model.converged_),
        "nonzeros": int((model.coef_ != 0).sum()),
        "kkt (standard errors)": float(model.kkt_se_),
        "peak MB": memory_mb(),
    }


def _timed(found, name, model, data):
    """Fit; what it took goes to `found`."""
    start, used = time.perf_counter(), time.process_time()
    model.fit(data.X, data.y)
    found |= {f"{name} s": time.perf_counter() - start}
    found |= {f"{name} CPU s": time.process_time() - used}
    found |= {f"{name} exchanges": int(model.n_exchanges_), f"{name} passes": model.n_passes_}
    return model


def _read(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--share", type=float, default=0.02, help="of the largest penalty")
    parser.add_argument("--memory", type=float, default=1_000.0, help="MB that the fit may take")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--store", help="files that were written before")
    parser.add_argument("--folder", default=None, help="where there is room for the store")
    parser.add_argument("--output", type=Path, default=default_output("partition-large"))
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
