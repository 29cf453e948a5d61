"""Partitions that workers of a Dask cluster hold and answer for.

A partition is a future: what loads its rows, the user's graph or a store, is its lineage, so that
those of a lost worker are loaded again elsewhere, have lost their plan, and say so.  An exchange is
one task for every thread of a worker, for partitions that the worker has; answers come to the
client, and the rows stay.  No actors: they would be no faster, and their state dies with a worker.
"""

from __future__ import annotations

import asyncio
import math
import pickle
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

from ..backends.sums.messages import Arrange, Message
from .threads import blame

ATTEMPTS = 3
INLINE = 800_000  # bytes of messages that a task carries itself, 10^5 numbers
PATIENCE = 300  # seconds for a first worker, or another one
SHARE_OF_MEMORY = 0.5  # of a worker, for partitions that stay mapped between exchanges


def active_client() -> Any:
    """The `distributed.Client` of this thread, or the last one; None without. Imports nothing."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        client = distributed.Client.current()
    except ValueError:
        return None
    if client.asynchronous:
        raise ValueError(
            "the active distributed.Client is asynchronous, and a fit waits for answers; make it "
            "with Client(..., asynchronous=False)."
        )
    return client


class WorkerPart:
    """A partition on a worker.

    It travels and is spilled as what it was made of and the problem that it was given: what it has
    made of these is made again, so that a worker which spills all the time is slow and not wrong.
    """

    def __init__(
        self,
        make: Callable[[Callable], Any],
        load: Any,
        size: float = 0.0,
        problem: Arrange | None = None,
    ):
        self._made_of, self._problem = (make, load, size), problem
        self._part = make(load if callable(load) else load.copy)
        # A task that was cancelled may still be at work when the next exchange comes.
        self._lock = threading.Lock()
        self.is_new = True  # nothing was asked of it since it came here

    def __reduce__(self):
        return WorkerPart, (*self._made_of, self._problem)

    def __sizeof__(self) -> int:
        """Bytes, which a scheduler reads to leave tasks where the rows are."""
        from dask.sizeof import sizeof

        return sizeof(self._made_of[1])

    @property
    def size(self) -> float:
        """Bytes that it reads from files."""
        return self._made_of[2]

    def answer(self, message: Message, stays: bool) -> Any:
        """Answer of the partition, or what it raised, which another attempt would raise again."""
        with self._lock:
            try:
                if isinstance(message, Arrange):
                    self._problem = message
                elif self.is_new and self._problem is not None:
                    self._part.answer(self._problem)
                self.is_new = False
                return self._part.answer(message)
            except Exception as error:
                return Failed(error)
            finally:
                if not stays:
                    self._part.drop()


@dataclass(frozen=True)
class Failed:
    """Error that a partition raised."""

    error: Exception


def _answer(parts: list[WorkerPart], letter: bytes) -> tuple[bool, list]:
    """Whether one of the partitions has just come to this worker, and their answers."""
    from distributed import get_worker

    worker, answers = get_worker(), []
    is_new = any(part.is_new for part in parts)
    limit = worker.memory_manager.memory_limit or math.inf
    left = SHARE_OF_MEMORY * limit / worker.state.nthreads
    for part, message in zip(parts, pickle.loads(letter), strict=True):
        left -= part.size
        answers.append(part.answer(message, stays=left >= 0))
    return is_new, answers


def _move(part: WorkerPart) -> WorkerPart:
    """Copy of a partition on another worker; the old place is its origin, should it be lost."""
    return part


class DaskEngine:
    """An engine on the workers of a client.

    For each partition `loads` has what loads its arguments: a function that workers can call, or a
    dict of delayed objects, whose values workers keep; `make` makes a `Part` of such a function.
    `sizes` are the bytes that each partition reads from files: beyond half of a worker's memory,
    partitions are dropped as soon as they have answered.
    """

    def __init__(
        self,
        client: Any,
        loads: Sequence[Any],
        make: Callable[[Callable], Any],
        sizes: Sequence[float] | None = None,
    ):
        from dask import delayed

        hold, sizes = delayed(WorkerPart, pure=False), sizes or [0.0] * len(loads)
        self.n_parts = len(loads)
        self._client = client
        self._held = client.compute(list(map(hold, [make] * len(loads), loads, sizes)))
        self._addresses: dict[int, str] = {}
        self._threads: dict[str, int] = {}
        self._is_settled = False
        self._under_way: dict[Any, list[int]] = {}

    def ask(self, messages: Mapping[int, Message]) -> Iterator[tuple[int, Any]]:
        """Answers of partitions, each as soon as those of its task are there."""
        from distributed import as_completed

        attempts = ATTEMPTS
        try:
            arrived = as_completed(self._submit(messages), loop=self._client.loop)
            for future in arrived:
                numbers = self._under_way.pop(future, None)
                if numbers is None:  # cancelled
                    return
                answers = self._read(future, numbers)
                if answers is not None:
                    yield from answers
                    continue
                attempts -= 1
                if attempts == 0:
                    raise _lost(numbers)
                arrived.update(self._submit({number: messages[number] for number in numbers}))
        finally:
            self.cancel()

    def cancel(self) -> None:
        """Drop what is under way; the next exchange begins as ever."""
        under_way, self._under_way = self._under_way, {}
        if under_way:
            self._client.cancel(list(under_way), force=True)

    def close(self) -> None:
        """Let workers forget the partitions."""
        self.cancel()
        self._held = []

    def _submit(self, messages):
        """Futures of an exchange's tasks."""
        shards = self._shards(sorted(messages))
        letters = [pickle.dumps([messages[k] for k in shard], 5) for _, shard in shards]
        tasks = {}
        for (address, shard), letter in zip(shards, self._sent(shards, letters), strict=True):
            parts = [self._held[number] for number in shard]
            task = self._submit_to(address, _answer, parts, letter)
            tasks[task] = shard
        self._under_way.update(tasks)
        return list(tasks)

    def _shards(self, numbers):
        """Addresses and partitions: those of a worker, dealt to its threads."""
        threads = self._living()
        if not self._is_settled or threads != self._threads:
            self._settle(threads)
        of_worker: dict[str, list[int]] = {}
        for number in numbers:
            of_worker.setdefault(self._addresses[number], []).append(number)
        return [
            (address, held[thread :: threads[address]])
            for address, held in of_worker.items()
            for thread in range(min(len(held), threads[address]))
        ]

    def _living(self):
        """Threads of every worker, as soon as there is one."""
        threads = self._client.nthreads()
        if not threads:
            try:
                self._client.wait_for_workers(1, timeout=PATIENCE)
            except TimeoutError:
                raise RuntimeError(
                    f"the active distributed.Client has had no worker for {PATIENCE} s; start some."
                ) from None
            threads = self._client.nthreads()
        return threads

    def _settle(self, threads):
        """Give every worker its share of the partitions: of those it has, if it has enough."""
        self._wait()
        share = self.n_parts / sum(threads.values())
        room = {address: math.ceil(share * count) for address, count in threads.items()}
        who_has = self._client.who_has(self._held)
        movers = []
        for number, held in enumerate(self._held):
            holders = [address for address in who_has.get(held.key, ()) if room.get(address)]
            if holders:
                self._addresses[number] = max(holders, key=room.__getitem__)
                room[self._addresses[number]] -= 1
            else:
                movers.append(number)
        for number in movers:
            address = max(room, key=room.__getitem__)
            room[address] -= 1
            self._addresses[number] = address
            self._held[number] = self._submit_to(address, _move, self._held[number])
        self._threads, self._is_settled = threads, True

    def _wait(self):
        """Wait until partitions are there; what one of them raises."""
        from distributed import wait

        with self._client.as_current():
            wait(self._held)
        for number, held in enumerate(self._held):
            if held.status == "error":
                raise blame(number, held.exception())

    def _submit_to(self, address, function, *arguments):
        """Future of a task for a worker, or any other if it is gone."""
        return self._client.submit(
            function,
            *arguments,
            key=f"{function.__name__.strip('_')}-{uuid.uuid4().hex}",
            retries=ATTEMPTS,
            workers=[address],
            allow_other_workers=True,
        )

    def _sent(self, shards, letters):
        """Letters, long ones laid into the memory of their worker, past the scheduler."""
        if max(map(len, letters), default=0) < INLINE:
            return letters

        async def scatter():
            places = [[address] for address, _ in shards]
            sent = [
                self._client.scatter([letter], workers=place, hash=False, asynchronous=True)
                for place, letter in zip(places, letters, strict=True)
            ]
            return await asyncio.gather(*sent, return_exceptions=True)

        laid = self._client.sync(scatter)
        # What a worker that is gone could not take goes with the task, to another one.
        return [
            letter if isinstance(futures, BaseException) else futures[0]
            for futures, letter in zip(laid, letters, strict=True)
        ]

    def _read(self, future, numbers):
        """Numbers and answers; None where they were lost on the way."""
        try:
            is_new, answers = future.result()
        except CancelledError:  # the letter, or the answer, was with a worker that died
            self._is_settled = False
            return None
        except Exception as error:
            raise self._blame(numbers, error) from error
        if is_new:
            self._is_settled = False  # a worker was lost, or has passed it on
        for number, answer in zip(numbers, answers, strict=True):
            if isinstance(answer, Failed):
                raise blame(number, answer.error) from answer.error
        return zip(numbers, answers, strict=True)

    def _blame(self, numbers, error):
        """The error of a task: of loading a partition, if it is not its own."""
        failed = [number for number in numbers if self._held[number].status == "error"]
        return blame(failed[0], error) if failed else error


def _lost(numbers):
    return RuntimeError(
        f"partitions {', '.join(map(str, numbers))}: their workers were lost {ATTEMPTS} times in "
        "one exchange; see the logs of the workers, which may lack memory."
    )
