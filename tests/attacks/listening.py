"""Honest fits over sites, and all that their coordinator, or a site, is told in them."""

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu.federated import Coordinator, Rules, Site, coordinator
from sksurvgpu.federated.engine import RefusedError, SumEngine

__all__ = ["NO_RULES", "Told", "listen", "split"]

NO_RULES = Rules(
    min_rows=1, min_sites=1, max_exchanges=10**6, largest_share=1.0, longest_range=700.0,
    max_models=99, max_programmes=99, max_matrices=10**6, max_listed=0, blur=0.0,
)  # fmt: skip


@dataclass
class Told:
    """What one fit told: requests, each with the answer over all sites, in their order."""

    description: Any = None
    model: Any = None
    times: Any = None
    problem: Any = None
    refusal: str = ""
    blur: float = 0.0  # of a site
    of: list = field(default_factory=list)  # (request, answer)

    def points(self, kind):
        """Requests of a kind that were answered with numbers."""
        for request, answer in self.of:
            first = next(iter(answer.tables.values())) if answer.tables else np.zeros(1)
            if isinstance(request, kind) and np.isfinite(first).all():
                yield request, answer


@contextmanager
def _heard(told):
    """Let the coordinator's engine keep what it reads: sums alone, as each site reads them, too."""

    class Listening(SumEngine):
        def _ask(self, message):
            requests = [self._on_scale(request) for request in message.requests]
            answers = super()._ask(message)
            told.of.extend(zip(requests, answers.of, strict=True))
            told.problem = self._problem
            return answers

        def _describe(self, model):
            told.description, told.times = super()._describe(model), self.times
            told.blur = self.public.blur
            return told.description

    coordinator.SumEngine, before = Listening, coordinator.SumEngine
    try:
        yield
    finally:
        coordinator.SumEngine = before


def listen(model, sites, **options) -> Told:
    """What a fit tells, up to its end or a refusal, which is an answer, too."""
    told = Told()
    send = {name: site.answer for name, site in sites.items()}
    with _heard(told), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            told.model = Coordinator(model, send, **options).fit()
        except (RefusedError, ValueError) as refusal:
            told.refusal = str(refusal)
    return told


def split(X, y, rules, n_sites=3, **arguments):
    """Sites with an equal number of rows each."""
    rows = np.array_split(np.arange(len(y)), n_sites)
    return {
        name: Site(
            *(X[some], y[some]),
            rules=rules,
            secret=16 * name.encode(),
            **{k: v[some] for k, v in arguments.items()},
        )
        for name, some in zip("ABCDEFGH", rows, strict=False)
    }
