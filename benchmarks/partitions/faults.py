"""What goes wrong in a fit over partitions, what it costs, and that it changes no bit.

Rows that look like health records lie in ten partitions, in files, which two processes of a Dask
cluster on this machine answer for.

undisturbed  nothing goes wrong; before it, one fit compiles
killed       at every tenth exchange one of the workers is killed while it computes
stopped      the process that fits is killed in the middle; another one goes on from its checkpoint
changed      a byte of a file is not what it was

and the time of one exchange, by how much is sent to each partition.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from ..processes import ROOT, environment
from ..report import default_output, machine, number, table, write

N_PARTS, ALPHA, SEED, EVERY = 10, 1e-3, 20_261_122, 10
SIZES = {False: (100_000, 400), True: (4_000, 60)}
LENGTHS = (100, 70_000, 700_000)  # numbers in a message
HEADERS = ["what goes wrong", "exchanges", "s", "objective", "largest change of a coefficient"]


def main(arguments=None):
    """Measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="few rows and columns")
    parser.add_argument("--output", help="JSON file of the results")
    options = parser.parse_args(arguments)
    results = {"machine": machine(), "fits": {}, "exchange": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.parts"
        _write_rows(path, *SIZES[options.quick])
        with _cluster() as client:
            pids = partial(_pids, client)
            _fit(path)
            results["fits"]["undisturbed"] = first = _fit(path)
            results["fits"]["killed"] = _fit(path, partial(_kill, pids))
            results["exchange"] = _exchanges(client)
        results["fits"]["stopped"] = _stop_and_go_on(path, first["exchanges"] // 2)
        _change(path)
        results["changed"] = _fit(path)["error"]
    rows = [_line(name, fit, first) for name, fit in results["fits"].items()]
    print(table(HEADERS, rows))
    print(f"\nchanged: {results['changed']}\n")
    lines = [[f"{n:,}", f"{ms:.0f}"] for n, ms in results["exchange"]]
    print(table(["numbers to each of 10 partitions", "ms"], lines))
    write(options.output or default_output("partition-faults", options.quick), results)


def _line(name, fit, first):
    change = np.max(np.abs(np.subtract(fit["coef"], first["coef"])))
    seconds = number(fit["seconds"], ".1f")
    return [name, str(fit["exchanges"]), seconds, f"{fit['objective']:.10f}", f"{change:.1e}"]


def _write_rows(path, n_rows, n_columns):
    from sksurvgpu import write_partitions
    from sksurvgpu.data.simulate.survival import simulate_ehr

    data = simulate_ehr(n_rows, n_columns, random_state=SEED)
    write_partitions(path, (data.X, data.y), rows=-(-n_rows // N_PARTS))


@contextlib.contextmanager
def _cluster():
    from distributed import Client, LocalCluster

    quiet = {"silence_logs": logging.CRITICAL, "dashboard_address": ":0"}
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, **quiet)
    with cluster, Client(cluster) as client:
        yield client


def _fit(path, disturb=None, checkpoint=None, start=None):
    """A fit of the rows in files; ``disturb(k)`` comes while exchange k is under way."""
    from sksurvgpu import CoxLassoCCD, open_partitions

    data, model = open_partitions(path), CoxLassoCCD(alpha=ALPHA, warm_start=start is not None)
    if start is not None:
        model.coef_ = start
    begin = time.perf_counter()
    with _watched(disturb), _checkpointed(checkpoint):
        try:
            model.fit(data.X, data.y)
        except (ValueError, OSError) as error:
            return {"error": f"{type(error).__name__}: {error}".replace(str(path), path.name)}
    return {
        "exchanges": int(model.n_exchanges_),
        "seconds": time.perf_counter() - begin,
        "objective": float(model.objective_),
        "coef": model.coef_.tolist(),
    }


@contextlib.contextmanager
def _watched(disturb):
    """Count the exchanges of both engines, and disturb them."""
    from sksurvgpu.partitions.dask_engine import DaskEngine
    from sksurvgpu.partitions.threads import Threads

    if disturb is None:
        yield
        return
    asks, count = {engine: engine.ask for engine in (DaskEngine, Threads)}, [0]

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


@contextlib.contextmanager
def _checkpointed(path):
    """Let fits write what they accept to a file."""
    from sksurvgpu.estimators import _partitioned

    original = _partitioned.Coordinator
    if path is not None:
        _partitioned.Coordinator = partial(original, checkpoint=path)
    try:
        yield
    finally:
        _partitioned.Coordinator = original


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


def _stop_and_go_on(path, exchange):
    """A fit in a child that kills itself, and another one from its checkpoint."""
    from sksurvgpu.backends.sums.coordinator import read_checkpoint

    checkpoint = path.parent / "checkpoint.npz"
    called = f"fit_and_die({str(path)!r}, {exchange})"
    code = f"from benchmarks.partitions.faults import fit_and_die; {called}"
    status = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment()).returncode
    assert status == -signal.SIGKILL, status
    return _fit(path, start=read_checkpoint(checkpoint)[:, 0])


def fit_and_die(path, last):
    """A fit that ends in its exchange ``last`` with the process."""

    def die(exchange):
        if exchange == last:
            os.kill(os.getpid(), signal.SIGKILL)

    _fit(Path(path), die, checkpoint=Path(path).parent / "checkpoint.npz")


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
            begin = time.perf_counter()
            list(engine.ask(messages))
            times.append(time.perf_counter() - begin)
        results.append((length, 1e3 * float(np.median(times))))
    engine.close()
    return results


if __name__ == "__main__":
    main()
