"""One run of several chains: room for their draws, a common wish to stop, progress.

A `Run` is a context: Ctrl-C asks for its end while chains are driven within it.  Each chain, or
batch of chains, gives its state to a `Recorder`, which says whether to go on.  In a folder it also
records now and then how far its chains are and where they stand, after their draws are on the disk;
a run of the same call goes on from there, to the same draws.
"""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Any

import numpy as np

from .._progress import Line
from .draws import Draws

BLOCK_DRAWS = 100  # that stay where they were made before they go to the host
BLOCK_BYTES = 2**27  # and no more than these
REPORTS = 10  # of a chain, over all its sweeps
SECONDS = 5.0  # of work between two records of a chain in a folder
SHARE = 0.05  # of its time that a chain may spend on them


@dataclass(frozen=True, eq=False)
class Sampled:
    """Draws of all chains of a run."""

    draws: Draws  # draws by name, all chains of the same length, and moments of what has no draws
    schedule: Any  # what was planned
    n_draws: int  # draws of each chain
    seconds: float  # time that sampling took
    doubts: list[str] = field(default_factory=list)  # what went otherwise than planned
    # the samplers in their last state, one for each chain, or one for all of them
    samplers: list[Any] = field(default_factory=list)


class Stop:
    """Whether chains should end: after Ctrl-C, or because one of them failed."""

    def __init__(self):
        self.is_set = False
        self.was_interrupted = False
        self.error = None
        self._lock = threading.Lock()

    def fail(self, error, where):
        """Keep the first error, which is the one to raise."""
        with self._lock:
            if self.error is None:
                error.add_note(where)
                self.error = error
        self.is_set = True

    @contextmanager
    def on_interrupt(self):
        """Let the first Ctrl-C end the chains after their sweep, the second one at once.

        Signals reach the main thread only.  A handler that is not Python's belongs to someone who
        would miss it.
        """

        def handle(signum, frame):
            if self.was_interrupted:
                raise KeyboardInterrupt
            self.is_set = self.was_interrupted = True

        is_main = threading.current_thread() is threading.main_thread()
        if not is_main or not callable(signal.getsignal(signal.SIGINT)):
            yield
            return
        before = signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


class Run:
    """State common to the chains of one run; a context, within which they are driven.

    `shapes` are those of one draw of each quantity; 1 as `verbose` shows one line, 2 lines of each
    chain.
    """

    def __init__(self, schedule, shapes, storage, *, verbose=0):
        self.schedule = schedule
        self.shapes = {name: tuple(shape) for name, shape in shapes.items()}
        self.stop = Stop()
        self.n_kept = np.zeros(schedule.n_chains, np.int64)
        self._storage = storage
        self._verbose = verbose
        self._reporting = threading.Lock()
        self._seconds = 0.0

    def __enter__(self):
        lengths = asdict(self.schedule)
        lengths["random_state"] = np.array(lengths.pop("seed"))  # which users did not choose
        self.draws = self._storage.open(self.shapes, **lengths)
        self._handler = self.stop.on_interrupt()
        self._handler.__enter__()
        self._start = time.perf_counter()
        n_sweeps = self.schedule.n_chains * self.schedule.n_sweeps
        self._line = Line("sampling", n_sweeps, "sweeps", self._verbose > 0 or None).__enter__()
        return self

    def __exit__(self, kind, error, trace):
        self._seconds = time.perf_counter() - self._start
        try:
            if error is None:
                self._raise_failure()
                self.draws.close(int(self.n_kept.min()))
        except BaseException as failure:
            error = failure
            raise
        finally:
            if error is not None:
                self.draws.discard()
                self._line.__exit__(type(error), error, trace)
            self._handler.__exit__(None, None, None)

    def _raise_failure(self):
        if self.stop.error is not None:
            raise self.stop.error
        if self.stop.was_interrupted and not self.n_kept.all():
            raise KeyboardInterrupt("interrupted before every chain had kept a draw")

    def recorder(self, chains, xp=np, to_host=np.asarray) -> Recorder:
        """Recorder of the states of some chains, arrays of `xp` that `to_host` makes NumPy's."""
        return Recorder(self, chains, xp, to_host)

    def result(self, samplers=()) -> Sampled:
        """Draws of all chains, after the context has ended."""
        n_draws, doubts = int(self.n_kept.min()), []
        if self.stop.was_interrupted and n_draws < self.schedule.n_draws:
            doubts.append(
                f"interrupted after {n_draws:,} of {self.schedule.n_draws:,} draws a chain."
            )
        self._line.end(
            f"sampling: {self.schedule.n_chains:,} chains, {n_draws:,} draws each after "
            f"{self.schedule.n_tune:,} sweeps of tuning, {self._seconds:.3g} s"
        )
        return Sampled(self.draws, self.schedule, n_draws, self._seconds, doubts, list(samplers))

    def report(self, chains, iteration, first):
        """Tell how far some chains are, now and then; in this run they began at sweep `first`."""
        n_sweeps = self.schedule.n_sweeps
        if self._verbose < 2:
            if iteration == first + 1:  # an earlier run has done the others
                self._line.skip(first * len(chains))
            self._line.step(len(chains))
        is_due = iteration * REPORTS // n_sweeps > (iteration - 1) * REPORTS // n_sweeps
        if self._verbose < 2 or not is_due:
            return
        elapsed = time.perf_counter() - self._start
        left = elapsed * (n_sweeps - iteration) / (iteration - first)
        tuning = " (tuning)" if self.schedule.is_tuning(iteration) else ""
        done = f"sweep {iteration:,} of {n_sweeps:,}{tuning}"
        with self._reporting:  # a line of one thread at a time
            print(f"{name_chains(chains)}: {done}, {left:.3g} s left")


class Recorder:
    """Takes the states of some chains, and gives them to the storage a block at a time."""

    def __init__(self, run, chains, xp, to_host):
        self._run, self._chains, self._to_host = run, np.asarray(chains), to_host
        n_bytes = 8 * len(self._chains) * max(1, sum(map(prod, run.shapes.values())))
        size = int(np.clip(BLOCK_BYTES // n_bytes, 1, min(BLOCK_DRAWS, run.schedule.n_draws)))
        self._blocks = {
            name: xp.empty((len(self._chains), size, *shape)) for name, shape in run.shapes.items()
        }
        self._size, self._n_filled, self._n_kept = size, 0, 0
        self._first = 0
        self._recorded, self._cost = time.perf_counter(), 0.0

    def recall(self):
        """Number of the sweep after which to go on, and the snapshot to restore, or None."""
        snapshot = self._run.draws.journal.read(self._key)
        if snapshot is None:
            return 0, None
        self._first = int(snapshot.pop("iteration"))
        self._n_kept = int(snapshot.pop("n_kept"))
        self._run.n_kept[self._chains] = self._n_kept
        return self._first, snapshot

    def is_due(self) -> bool:
        """Whether a kill would lose more work than it is allowed to."""
        if self._run.draws.journal.folder is None:
            return False
        return time.perf_counter() - self._recorded > max(SECONDS, self._cost / SHARE)

    def record(self, iteration, snapshot):
        """Put the draws so far on the disk, then the state to go on from.

        ``snapshot()`` has all that sweeps after this one depend on, arrays of the host by name.
        """
        draws = self._run.draws
        if draws.journal.folder is None or self._run.stop.error is not None:
            return
        start = time.perf_counter()
        self._flush()
        draws.flush()
        counts = {"iteration": iteration, "n_kept": self._n_kept}
        draws.journal.write(self._key, counts | snapshot())
        self._recorded = time.perf_counter()
        self._cost = self._recorded - start

    @property
    def _key(self):
        return name_chains(self._chains).replace(" ", "-")

    def take(self, iteration, state) -> bool:
        """Keep ``state()``, arrays (B, ...) by name, if it is this sweep's turn; whether to go on.

        Sweeps are counted from 1.
        """
        schedule = self._run.schedule
        if schedule.is_kept(iteration):
            for name, values in state().items():
                self._blocks[name][:, self._n_filled] = values
            self._n_filled += 1
        goes_on = iteration < schedule.n_sweeps and not self._run.stop.is_set
        if self._n_filled == self._size or not goes_on:
            self._flush()
        self._run.report(self._chains, iteration, self._first)
        return goes_on

    def _flush(self):
        n_new, self._n_filled = self._n_filled, 0
        if n_new == 0:
            return
        self._run.draws.write(
            self._chains,
            self._n_kept,
            {name: self._to_host(block[:, :n_new]) for name, block in self._blocks.items()},
        )
        self._n_kept += n_new
        self._run.n_kept[self._chains] = self._n_kept


def name_chains(chains):
    """Chains in words."""
    if len(chains) == 1:
        return f"chain {chains[0]}"
    return f"chains {chains[0]} to {chains[-1]}"
