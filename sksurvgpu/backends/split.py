"""A backend of backends: the fits of a batch are shared out, with a thread for each backend.

The first has the calling thread.
"""

from dataclasses import dataclass
from itertools import pairwise, starmap

import numpy as np

from .._threads import Pool


@dataclass(frozen=True)
class SplitBackend:
    """Backends of one kind; a single fit, and what is evaluated, takes the first."""

    backends: tuple

    batched = True

    def run(self, problem, batch, coroutines, n_threads):
        """Serve the requests of every fit, neighbours on the same backend; results in order."""
        n_parts = min(len(self.backends), len(coroutines))
        if n_parts < 2:
            return self.backends[0].run(problem, batch, coroutines, n_threads)
        cuts = np.linspace(0, len(coroutines), n_parts + 1).astype(int).tolist()
        first, *others = starmap(range, pairwise(cuts))

        def run(backend, fits):
            own = [coroutines[b] for b in fits]
            return backend.run(problem, batch.of(fits), own, n_threads)

        with Pool(n_parts - 1) as pool:
            parts = [pool.submit(run, *own) for own in zip(self.backends[1:], others, strict=False)]
            # the calling thread's, which may have the problem there since a fit that was alone
            results = run(self.backends[0], first)
            return results + [result for part in parts for result in part.result()]

    def open_evaluator(self, problem, batch):
        """Keep the rows of a batch of fits ready for evaluations, all of them at once."""
        return self.backends[0].open_evaluator(problem, batch)
