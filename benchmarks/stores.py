"""Partitions in files: fits that something happens to, and one on more than memory holds."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import tempfile
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from .partitions import cluster
from .problems import draw_batches
from .processes import call, memory_mb, timed
from .report import Option, columns, lines, number, read, save, table

MB = 2**20
N_PARTS, ALPHA, SEED, EVERY = 10, 1e-3, 20_261_122, 10
SIZES = {False: (100_000, 400), True: (4_000, 60)}
LENGTHS = (100, 70_000, 700_000)  # numbers in a message
FITS = columns(
    "what goes wrong=name | exchanges:d | s=seconds:.1f | objective:.10f | "
    "largest change of a coefficient=change:.1e"
)


def main_faults(arguments=None):
    """Failures during a fit over partitions, what each costs, and that it changes no bit.

    Rows that look like health records lie in ten partitions, in files, which two processes of a
    Dask cluster on this machine answer for.

    undisturbed  nothing goes wrong; before it, one fit compiles
    killed       at every tenth exchange one of the workers is killed while it computes
    changed      a byte of a file is not what it was

    and the time of one exchange, by how much is sent to each partition.
    """
    few, fits = "few rows and columns", {}
    options = read("faults", main_faults.__doc__, arguments, few, "partition-faults")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parts"
        _write_rows(path, *SIZES[options.quick])
        with cluster() as client:
            pids = partial(_pids, client)
            _fit(path)
            first = fits["undisturbed"] = _fit(path)
            fits["killed"] = _fit(path, partial(_kill, pids))
            exchange = _exchanges(client)
        _change(path)
        changed = _fit(path)["error"]
    expected = np.array(first["coef"])
    for name, fit in fits.items():
        change = float(np.abs(np.array(fit.pop("coef")) - expected).max())
        fit |= {"name": name, "change": change}
    print(lines(FITS, list(fits.values())))
    print(f"\nchanged: {changed}\n")
    rows = [[f"{n:,}", f"{ms:.0f}"] for n, ms in exchange]
    print(table(["numbers to each of 10 partitions", "ms"], rows))
    save(options, fits=fits, exchange=exchange, changed=changed)


def _write_rows(path, n_rows, n_columns):
    from sksurvgpu import write_partitions
    from sksurvgpu.data.simulate.survival import simulate_ehr

    data = simulate_ehr(n_rows, n_columns, random_state=SEED)
    write_partitions(path, (data.X, data.y), rows=-(-n_rows // N_PARTS))


def _fit(path, disturb=None):
    """A fit of the rows in files; ``disturb(k)`` comes while exchange k is under way."""
    from sksurvgpu import CoxLassoCCD, open_partitions

    data, model = open_partitions(path), CoxLassoCCD(alpha=ALPHA)
    with _watched(disturb):
        try:
            _, spent = timed(lambda: model.fit(data.X, data.y))
        except (ValueError, OSError) as error:
            return {"error": f"{type(error).__name__}: {error}".replace(str(path), path.name)}
    found = {"exchanges": int(model.n_exchanges_), "seconds": spent["seconds"]}
    return found | {"objective": float(model.objective_), "coef": model.coef_.tolist()}


@contextlib.contextmanager
def _watched(disturb):
    """Count the exchanges of both engines, and disturb them."""
    from sksurvgpu.partitions.dask_engine import DaskEngine
    from sksurvgpu.partitions.threads import ThreadEngine

    if disturb is None:
        yield
        return
    asks, count = {engine: engine.ask for engine in (DaskEngine, ThreadEngine)}, [0]

    def ask(self, messages):
        count[0] += 1
        answers = asks[type(self)](self, messages)
        yield next(answers)
        disturb(count[0])
        yield from answers

    try:
        for engine in asks:
            engine.ask = ask
        yield
    finally:
        for engine, original in asks.items():
            engine.ask = original


def _pids(client):
    return sorted(client.run(os.getpid).values())


def _kill(pids, exchange):
    if exchange % EVERY == 0:
        os.kill(pids()[exchange // EVERY % 2], signal.SIGKILL)


def _change(path):
    file = sorted(path.glob("part-*/X-indices.npy"))[-1]
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)


class Total:
    """A partition that adds up what it is sent."""

    def __init__(self, load):
        pass

    def answer(self, message):
        return message.sum(), np.ones(2_000)


def _exchanges(client, n_times=15):
    """Milliseconds of one exchange, the median of some."""
    from sksurvgpu.partitions.dask_engine import DaskEngine

    engine, results = DaskEngine(client, [{}] * N_PARTS, Total), []
    for length in LENGTHS:
        messages, times = {k: np.ones(length) for k in range(N_PARTS)}, []
        for _ in range(n_times):
            _, spent = timed(lambda messages=messages: list(engine.ask(messages)))
            times.append(spent["seconds"])
        results.append((length, 1e3 * float(np.median(times))))
    engine.close()
    return results


def main_large(arguments=None):
    """A fit on files that are larger than the memory it may take.

    The store is written batch by batch; the fit runs in a process whose data segment is limited, so
    that it ends with an error if it asks for more.
    """
    options = read(
        "large",
        main_large.__doc__,
        arguments,
        "100,000 x 100",
        "partition-large",
        rows=Option(4_000_000, quick=100_000),
        columns=Option(1_000, quick=100),
        share=Option(0.02, "of the largest penalty"),
        memory=Option(1_000.0, "MB that the fit may take"),
        jobs=2,
        store=Option(str, "files that were written before"),
        folder=Option(str, "where there is room for the store"),
    )
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path, written = options.store or str(Path(folder) / "cohort.parts"), {}
        if options.store is None:
            job = {"path": path, "n_rows": options.rows, "n_columns": options.columns}
            written = call(__name__, "write_store", job)
        job = {"path": path, "share": options.share, "limit_mb": options.memory}
        job |= {"n_jobs": options.jobs}
        fitted = call(__name__, "fit_store", job, n_threads=options.jobs)
    print(table(["", "value"], [[name, number(v)] for name, v in {**written, **fitted}.items()]))
    save(options, written=written, fitted=fitted)


def write_store(path, n_rows, n_columns):
    """Draw and write."""
    import sksurvgpu

    _, seconds = timed(lambda: sksurvgpu.write_partitions(path, draw_batches(n_rows, n_columns)))
    size = sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())
    found = {"rows": n_rows, "columns": n_columns, "store MB": size / MB}
    return found | {"writing s": seconds["seconds"], "writing peak MB": memory_mb()}


def fit_store(path, share, limit_mb, n_jobs):
    """Fit at a share of the largest penalty, under a limit of memory, a tenth of it for rows."""
    import sksurvgpu

    limit = int(limit_mb) * MB
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    warnings.simplefilter("ignore")
    data = sksurvgpu.open_partitions(path, memory=limit / 10)
    found = {"limit MB": limit_mb, "imports MB": memory_mb()}
    first = _fit_timed(found, "null fit", sksurvgpu.CoxLassoCCD(alpha=1e3, n_jobs=n_jobs), data)
    model = sksurvgpu.CoxLassoCCD(alpha=share * first.alpha_max_, n_jobs=n_jobs)
    _fit_timed(found, "fit", model, data)
    found |= {"iterations": int(model.n_iter_), "converged": int(model.converged_)}
    found |= {"nonzeros": int((model.coef_ != 0).sum()), "peak MB": memory_mb()}
    return found | {"kkt (standard errors)": float(model.kkt_se_)}


def _fit_timed(found, name, model, data):
    """Fit; what it took goes to `found`."""
    _, seconds = timed(lambda: model.fit(data.X, data.y))
    found |= {f"{name} s": seconds["seconds"], f"{name} CPU s": seconds["cpu_seconds"]}
    found |= {f"{name} exchanges": int(model.n_exchanges_), f"{name} passes": model.n_passes_}
    return model
