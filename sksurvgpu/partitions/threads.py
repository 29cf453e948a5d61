"""Partitions that this process answers for: in files larger than memory, or in a list.

A thread has one partition at a time; kernels release the interpreter lock.  Partitions are read in
the same order in every exchange, so that a cache of the last ones read would always lack the next
one: those that fit into a budget are kept instead, always the same. Of others nothing stays but the
plan of their rows, in a temporary file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from .._memory import available
from ..backends.sums.messages import Message
from ..backends.sums.part import ROOM, Part

# Of the free memory: what a coordinator, other processes and the cache of files take besides.
SHARE_OF_MEMORY = 0.5
AHEAD = 2  # answers a thread may be ahead of who adds them up


class ThreadEngine:
    """An engine of threads, for partitions whose `sizes` are in bytes.

    So many of them as the `budget` has bytes for, half of what is free by default, stay in memory
    between exchanges; all are kept where sizes are not known.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        n_threads: int = 1,
        budget: float | None = None,
        sizes: Sequence[int] | None = None,
    ):
        self.n_parts = len(parts)
        left = SHARE_OF_MEMORY * available() if budget is None else budget
        self.n_kept, left = _count_kept(self.n_parts, sizes, left)  # in memory between exchanges
        self._parts = list(parts)
        for part in self._parts:
            part.room = min(ROOM, left / self.n_parts)
        self._n_threads = max(1, min(n_threads, self.n_parts))
        self._pool = ThreadPoolExecutor(self._n_threads) if self._n_threads > 1 else None
        self._is_cancelled = False
        self._folder = Path()  # for what partitions keep that do not stay in memory
        self._remove: Callable[[], Any] = lambda: None
        if self.n_kept < self.n_parts:
            self._folder = Path(mkdtemp(prefix="sksurvgpu-"))
            self._remove = finalize(self, rmtree, self._folder, ignore_errors=True)

    def ask(self, messages: Mapping[int, Message]) -> Iterator[tuple[int, Any]]:
        """Answers of partitions, each as soon as it is there."""
        self._is_cancelled = False
        if self._pool is None:
            return self._ask_plainly(messages)
        return self._ask_pool(self._pool, messages)

    def _ask_plainly(self, messages):
        for part, message in sorted(messages.items()):
            if self._is_cancelled:
                return
            yield part, self._answer(part, message)

    def _ask_pool(self, pool, messages):
        waiting = iter(sorted(messages.items()))
        running: dict[Any, int] = {}

        def submit(count):
            for part, message in waiting:
                running[pool.submit(self._answer, part, message)] = part
                count -= 1
                if count == 0:
                    return

        try:
            submit(AHEAD * self._n_threads)
            while running and not self._is_cancelled:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    part = running.pop(future)
                    submit(1)
                    yield part, future.result()
        finally:  # done, failed or interrupted: no partition is still at work when this returns
            for future in running:
                future.cancel()
            wait(running)

    def _answer(self, part, message):
        try:
            return self._parts[part].answer(message)
        except Exception as error:
            raise blame(part, error) from error
        finally:
            if part >= self.n_kept:
                self._parts[part].stow(self._folder / str(part))

    def cancel(self) -> None:
        """Drop what is under way; the next exchange begins as ever."""
        self._is_cancelled = True

    def close(self) -> None:
        """Let go of the partitions."""
        self.cancel()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        for part in self._parts:
            part.drop()
        self._remove()


def _count_kept(n_parts, sizes, left):
    """How many of the first partitions fit into so many bytes, and what is left of these."""
    if sizes is None:
        return n_parts, left
    for part, size in enumerate(sizes):
        if size > left:
            return part, left
        left -= size
    return n_parts, left


def blame(number: int, error: Exception, what: str = "partition") -> Exception:
    """An error of the same kind that says where it was."""
    text = f"{what} {number}: {error}"
    try:
        return type(error)(text)
    except Exception:  # of a kind that is not made of a text
        return RuntimeError(text)
