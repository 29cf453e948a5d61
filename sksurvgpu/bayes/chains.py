"""Chains of a sampler: sweeps of tuning, then draws, over threads or as one batch.

On the CPU a chain is a sampler of its own, and threads take the chains in turns, a few sweeps
each: no thread idles while a chain waits, and a run that is interrupted has as many draws of every
chain.  What a sweep does lies in compiled code that holds no lock.  On a device all chains are one
sampler, which the calling thread drives.
"""

from collections import deque
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from ..backends.cpu.threads import Threads, one_blas_thread
from ..data import options
from .doubts import doubts_of_divergence
from .draws import Storage
from .run import Run, Sampled, name_chains

TURN = 10  # sweeps of a chain before its thread takes another one


@dataclass(frozen=True)
class Schedule:
    """How many chains there are and how long they run.

    Parameters
    ----------
    n_chains : int, default=4
        Number of chains.
    n_tune : int, default=1000
        Sweeps in which step sizes adapt; they are not kept.
    n_draws : int, default=1000
        Draws of each chain that are kept.
    thin : int, default=1
        Of so many sweeps after tuning, the last is kept.
    seed : int, default=0
        Seed of all random numbers.

    Examples
    --------
    >>> from sksurvgpu.bayes.chains import Schedule
    >>> Schedule(n_tune=500, n_draws=1_000, thin=2).n_sweeps
    2500
    """

    n_chains: int = 4
    n_tune: int = 1000
    n_draws: int = 1000
    thin: int = 1
    seed: int = 0

    def __post_init__(self):
        least = {"n_chains": 1, "n_tune": 0, "n_draws": 1, "thin": 1, "seed": 0}
        for name, smallest in least.items():
            rule = f"must be an integer of at least {smallest}"
            value = options.whole(getattr(self, name), name, smallest, rule)
            object.__setattr__(self, name, value)

    @property
    def n_sweeps(self) -> int:
        """Sweeps of a chain, of tuning and after."""
        return self.n_tune + self.n_draws * self.thin

    def is_tuning(self, iteration) -> bool:
        """Whether a sweep, counted from 1, is one of tuning."""
        return iteration <= self.n_tune

    def is_kept(self, iteration) -> bool:
        """Whether the state after a sweep is a draw."""
        return iteration > self.n_tune and (iteration - self.n_tune) % self.thin == 0


def run_chains(
    make_sampler,
    schedule,
    *,
    storage=None,
    n_threads=1,
    batched=False,
    verbose=0,
) -> Sampled:
    """Run the chains of a sampler to their end, or until Ctrl-C.

    `make_sampler` makes the sampler of the chains whose numbers, an integer array, it is given: one
    of all chains where they are `batched`, as on a device, or one of each. Draws are kept as
    `storage` says, by default in memory.
    """
    numbers = np.arange(schedule.n_chains)
    with one_blas_thread():
        parts = [numbers] if batched else np.split(numbers, len(numbers))
        samplers = [make_sampler(chains) for chains in parts]
        run = Run(
            schedule,
            samplers[0].shapes,
            Storage() if storage is None else storage,
            verbose=verbose,
        )
        with run, Threads(min(n_threads, len(parts))) as threads:
            chains = map(_Chain, samplers, parts, repeat(run))
            waiting = deque(chain for chain in chains if chain.iteration < schedule.n_sweeps)
            threads.map(lambda _: _work(waiting, run.stop), range(threads.n_threads))
    sampled = run.result(samplers)
    sampled.doubts.extend(doubts_of_divergence(samplers))
    return sampled


def _work(waiting, stop):
    """Take chains in turns, until none is left that waits."""
    while True:
        try:
            chain = waiting.popleft()
        except IndexError:
            return
        try:
            goes_on = chain.advance()
        except BaseException as error:
            stop.fail(error, f"in {name_chains(chain.chains)}, sweep {chain.iteration:,}")
        if stop.error is not None:
            return
        if goes_on:
            waiting.append(chain)


class _Chain:
    """A sampler with its recorder, somewhere on its way."""

    def __init__(self, sampler, chains, run):
        self.chains = chains
        self._sampler, self._schedule = sampler, run.schedule
        sampling = sampler.sampling
        self._recorder = run.recorder(chains, sampling.xp, sampling.to_host)
        self.iteration, snapshot = self._recorder.recall()
        if snapshot is not None:
            sampler.restore(snapshot)

    def advance(self):
        """Make a few sweeps; whether there are more to come."""
        sampler, goes_on = self._sampler, True
        for _ in range(TURN):
            self.iteration += 1
            sampler.sampling.random.iteration = self.iteration
            sampler.sweep(self._schedule.is_tuning(self.iteration))
            goes_on = self._recorder.take(self.iteration, sampler.state)
            if not goes_on:
                break
        if not goes_on or self._recorder.is_due():
            self._recorder.record(self.iteration, sampler.snapshot)
        return goes_on
