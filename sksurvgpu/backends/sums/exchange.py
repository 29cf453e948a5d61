"""Exchanges with partitions: one message to each, and their answers in the order of numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .joined import Weighed
from .messages import Answers, Ask, Unarranged, Weigh
from .recipes import Dealt, for_part

SCALAR_BYTES = 8


@dataclass
class ExchangeCounts:
    """Costs of fits until now."""

    exchanges: int = 0
    passes: float = 0.0  # readings of X, where one reading serves all that is asked for at a time
    entries: float = 0.0  # of X that were computed with
    bytes_down: int = 0  # of arrays, to partitions
    bytes_up: int = 0


@dataclass(frozen=True)
class Step:
    """A request to partitions: what to ask each for, and who takes the answers."""

    request: Callable[[int], Any]
    add: Callable[[int, Any], None]  # in the order of partitions
    parts: Sequence[int] | None = None  # None: all
    columns: np.ndarray | None = None  # of the model that it reads; None: all
    readings: int = 1  # how often


class Link:
    """The partitions of a problem, arranged for it, and what is known of their weights."""

    def __init__(self, problem):
        self.problem = problem
        self.weighed: dict[Any, Weighed] = {}
        self._entries = problem.design.entries.astype(float)

        self.arranged: dict[int, Any] = {}  # what of its cells every partition has
        if hasattr(problem.engine, "serve"):  # sums over sites, whose form follows from the problem
            problem.engine.serve(problem)

    @property
    def n_parts(self):
        return self.problem.n_parts

    @cached_property
    def rows(self):
        """Rows of every partition."""
        return np.array([description.rows for description in self.problem.descriptions])

    def weighed_of(self, weight):
        """Sums over rows under weights."""
        return self.weighed[key_of(weight)]

    def open(self, weights: Iterable[Any], counts: ExchangeCounts):
        """Arrange the problem, and weigh rows by weights that are not known yet."""
        if not self.arranged:
            messages = {part: self.problem.arrange(part) for part in range(self.n_parts)}
            self.arranged.update(self._ask(messages, counts))
        new = {key_of(weight): weight for weight in weights if key_of(weight) not in self.weighed}
        weighing = self.problem.likelihood.pattern.joined.weighing
        sums = {key: weighing(self.problem, self.arranged) for key in new}

        def step(key):
            def request(part):
                return Weigh(for_part(new[key], part))

            return Step(request, sums[key].add, columns=np.empty(0, np.int64))

        if new:
            self.exchange([step(key) for key in new], counts)
        self.weighed |= {key: total.join() for key, total in sums.items()}

    def keep_only_given(self):
        """Forget what is known of weights that a batch alone has."""
        self.weighed = {key: known for key, known in self.weighed.items() if key is None}

    def exchange(self, steps: Sequence[Step], counts: ExchangeCounts):
        """Ask for all steps at once."""
        concerned = {
            part: [step for step in steps if step.parts is None or part in step.parts]
            for part in range(self.n_parts)
        }
        messages = {
            part: Ask(self.problem.digest, tuple(step.request(part) for step in some))
            for part, some in concerned.items()
            if some
        }

        def take(part, answers):
            for step, answer in zip(concerned[part], answers.of, strict=True):
                step.add(part, answer)

        waiting, early = sorted(messages, reverse=True), {}
        for attempt in range(2):
            lost = []
            for part, answer in self._ask(messages, counts):
                if isinstance(answer, Unarranged):
                    lost.append(part)
                    continue
                early[part] = self._checked(part, answer, len(messages[part].requests))
                while waiting and waiting[-1] in early:
                    part = waiting.pop()
                    take(part, early.pop(part))
            if not lost:
                break
            if attempt:
                raise RuntimeError(
                    f"partition {lost[0]} does not keep the plan that it was given; its process "
                    "may be short of memory."
                )
            again = {part: self.problem.arrange(part) for part in lost}
            for part, arranged in self._ask(again, counts):
                self._check_unchanged(part, arranged)
            messages = {part: messages[part] for part in lost}
        self._count_readings(steps, counts)

    def _check_unchanged(self, part, arranged):
        if not np.array_equal(arranged.own, self.arranged[part].own):
            raise ValueError(
                f"partition {part} has other event times than when the fit began; its data must "
                "stay as they are until the fit is done."
            )

    def _checked(self, part, answer, n_requests):
        if not isinstance(answer, Answers) or len(answer.of) != n_requests:
            raise TypeError(
                f"partition {part} answered {type(answer).__name__} to {n_requests} requests; its "
                "process may have another version of the package."
            )
        return answer

    def _ask(self, messages: Mapping[int, Any], counts: ExchangeCounts):
        """Answers as they come; an error where one is missing."""
        counts.exchanges += 1
        counts.bytes_down += sum(map(count_bytes, messages.values()))
        missing = set(messages)
        for part, answer in self.problem.engine.ask(messages):
            missing.discard(part)
            counts.bytes_up += count_bytes(answer)
            yield part, answer
        if missing:
            raise RuntimeError(f"partition {min(missing)} has not answered; the fit was stopped.")

    def _count_readings(self, steps, counts):
        """Entries of X that steps have read, and readings of X."""
        share = np.zeros(len(self._entries))
        for step in steps:
            rows = 1.0
            if step.parts is not None:
                rows = self.rows[list(step.parts)].sum() / max(1, self.rows.sum())
            source = self.problem.source
            read = np.unique(source if step.columns is None else source[step.columns])
            share[read] = np.maximum(share[read], rows)
            counts.entries += float(step.readings * rows * self._entries[read].sum())
        total = self._entries.sum()
        counts.passes += float(share @ self._entries / total) if total else 0.0


def key_of(weight):
    """Key that tells weights apart; None stands for those that were given."""
    if weight is None:
        return None
    recipe = weight.recipe if isinstance(weight, Dealt) else weight
    return None if recipe.kind == "given" else recipe


def count_bytes(value):
    """Bytes of the arrays and numbers of a message."""
    kind = type(value)
    if kind is np.ndarray:
        return value.nbytes
    if kind is float or kind is int or value is None:  # most of a message
        return 0 if value is None else SCALAR_BYTES
    if kind is str:
        return len(value)
    if kind is dict:
        return sum(map(count_bytes, value.values()))
    if kind is tuple or kind is list:
        return sum(map(count_bytes, value))
    return sum(map(count_bytes, vars(value).values())) if is_dataclass(value) else SCALAR_BYTES
