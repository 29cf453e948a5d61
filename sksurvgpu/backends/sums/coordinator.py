"""The backend of fits whose rows are in partitions: it has sums, and holds no row.

Fits go on until each waits for partitions; then all they wait for is one exchange.  So a batch
takes as many exchanges as its slowest fit.
"""

from dataclasses import dataclass, field
from inspect import isgenerator
from typing import Any

import numpy as np

from ...data.by_fit import of_fit
from ...data.options import choice
from ..contract import Operations, Request, ask
from ..cpu.threads import one_blas_thread
from .exchange import ExchangeCounts, Link, Step
from .matrix import LEVELS
from .messages import Coef, Evaluate, around
from .recipes import KnownPart, for_part
from .session import Session

ROOM = 2.0**29


@dataclass
class PartitionsBackend:
    """A backend.

    Parameters
    ----------
    level : {"diagonal", "sample", "full"}
        Matrix with which fits begin, see `matrix`.
    highest : {"full", "sample", "diagonal"}
        Matrix up to which fits go whose columns are correlated, or that gain little.
    sample : sequence of int, optional
        Partitions of the sample; as many as are needed by default.
    room : float
        Bytes of a matrix and of what a fit does with it.
    counts : Counts
        What its fits have cost so far.
    """

    level: str = "diagonal"
    highest: str = "full"
    sample: tuple[int, ...] | None = None
    room: float = ROOM
    counts: ExchangeCounts = field(default_factory=ExchangeCounts)

    batched = True

    def __post_init__(self):
        for name in ("level", "highest"):
            choice(getattr(self, name), name, LEVELS)

    def run(self, problem, batch, coroutines, n_threads):
        """Serve all fits to their ends; threads are the engine's."""
        link = self._link(problem)
        weights = [of_fit(batch.weight, b) for b in range(len(coroutines))]
        known = _known_of(batch)
        try:
            link.open(weights, self.counts)
            sessions = [
                Session(link, weight, self, batch.null is None, known) for weight in weights
            ]
            with one_blas_thread():
                return self._drive(link, sessions, coroutines)
        except BaseException:
            problem.engine.cancel()
            raise
        finally:
            link.keep_only_given()

    def _drive(self, link, sessions, coroutines):
        pairs = zip(sessions, coroutines, strict=True)
        fits = {b: _serve(session, fit) for b, (session, fit) in enumerate(pairs)}
        results: list[Any] = [None] * len(fits)
        while fits:
            steps = []
            for b in list(fits):
                try:
                    steps.extend(next(fits[b]))
                except StopIteration as finished:
                    results[b] = finished.value
                    del fits[b]
            if steps:
                link.exchange(steps, self.counts)
        return results

    def weigh(self, problem, weights):
        """Sums over rows under vectors of weights, `joined.Weighed`; None are those given."""
        link = self._link(problem)
        link.open(weights, self.counts)
        known = [link.weighed_of(weight) for weight in weights]
        link.keep_only_given()
        return known

    def information(self, problem, batch, coef, robust=False):
        """Log-likelihood, information and its diagonal before means go, at coefficients.

        And, if `robust`, the sum over clusters of the products of their scores, else None.
        """

        def fit():
            loglik = yield from ask(Operations.start, coef)
            return loglik, *(yield Request("information", (robust,)))

        [found] = self.run(problem, batch, [fit()], 1)
        return found

    def evaluate_at(self, problem, weights, coefs, intercepts):
        """Log-likelihoods at intercepts that are known: one exchange for all fits."""
        link, logliks = self._link(problem), np.zeros(len(coefs))
        link.open((), self.counts)

        def step(b):
            coef, center = Coef.of(coefs[b]), around(intercepts[b])

            def request(part):
                return Evaluate(for_part(weights[b], part), coef, center=center)

            def add(part, answer):
                logliks[b] += answer.tables["loglik"][0]

            return Step(request, add, columns=coef.columns)

        link.exchange([step(b) for b in range(len(coefs))], self.counts)
        return logliks

    def open_evaluator(self, problem, batch):
        """Evaluations of fits: one exchange or two for all of them, and one for gradients."""
        return PartitionsEvaluator(self, problem, batch)

    def _link(self, problem):
        return problem.kept.setdefault("link", Link(problem))


class PartitionsEvaluator:
    """Log-likelihoods and their gradients."""

    def __init__(self, coordinator, problem, batch):
        self._coordinator, self._problem, self._batch = coordinator, problem, batch

    def evaluate(self, coefs):
        """Log-likelihood (n_fits,) and gradient (n_fits, n_columns) at coefficients like it."""

        def both(coef):
            loglik = yield from ask(Operations.start, coef)
            return loglik, (yield from ask(Operations.gradient, np.arange(len(coef))))

        fits = [both(np.ascontiguousarray(coef)) for coef in coefs]
        logliks, gradients = zip(
            *self._coordinator.run(self._problem, self._batch, fits, 1), strict=True
        )
        return np.array(logliks), np.stack(gradients)


def _serve(session, fit):
    """Generator: serve one fit; yields steps for the next exchange, returns its result."""
    result = None
    while True:
        try:
            name, arguments = fit.send(result)
        except StopIteration as finished:
            return finished.value
        result = getattr(session, name)(*arguments)
        if isgenerator(result):
            result = yield from result


def _known_of(batch):
    """Coefficients that make the offset of all fits, or None."""
    if batch.offset is None:
        return None
    if not isinstance(batch.offset, KnownPart):
        raise ValueError(
            "fits whose rows are in partitions take their offsets from there; pass `offset` in "
            "partitions, like X."
        )
    return batch.offset.coef
