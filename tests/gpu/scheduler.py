"""Threads of one simulated launch: greenlets, run one at a time in an order drawn from a seed.

A thread runs until it meets others (a barrier or a warp collective), or until a point where the
order of threads can matter (an atomic, a fence).  Then the next one runs: mostly from one favoured
warp, which so gets far ahead of the others and shows what a missing barrier allows.  The last
thread to arrive at a meeting releases all.  When nobody can run and somebody waits, the launch is
deadlocked; when threads run on and on without a barrier or an end, it is livelocked.
"""

from __future__ import annotations

import contextvars
import random
from typing import NamedTuple

import numpy as np
from greenlet import getcurrent, greenlet

from .memory import SimulationError, leak, publish

WARP = 32
FULL_MASK = 0xFFFFFFFF
_ORDERS = 8  # orders of n threads that a launch chooses from: shuffling every time is slow
_RESHUFFLE = 0.05  # share of passes after which other warps are favoured
_SPLITS = 0.2  # share of passes in which only some lanes of the favoured warp run
_EARLY = (0.0, 0.5, 1.0)  # chance of a load done long before its place in the program
_LEAKS = (0.0, 0.02, 0.2)  # chance, a pass, that stores of a block become visible early
_FUEL = 500_000  # loads between checks that threads still change


class Position(NamedTuple):
    x: int
    y: int = 1
    z: int = 1


class Site(NamedTuple):
    """A place in the source that synchronizes."""

    function: str
    line: int
    kind: str  # "syncthreads", "syncwarp", "fence" or "grid"


class Block:
    def __init__(self, position, index):
        self.position, self.index = position, index
        self.live, self.barrier = 0, None
        self.shared = {}
        self.view, self.unseen, self.fenced = {}, {}, 0  # see memory.py


class Warp:
    def __init__(self, block, priority):
        self.block, self.priority = block, priority
        self.live_mask, self.meetings = 0, {}
        self.ready, self.is_listed = [], False


class Thread:
    __slots__ = ("block", "greenlet", "lane", "linear", "position", "resume", "warp")


class Meeting:
    """Threads that wait for each other, and what each brought."""

    __slots__ = ("needed", "trail", "values", "waiting")

    def __init__(self, trail, needed=0):
        self.trail, self.needed, self.waiting, self.values = trail, needed, [], {}


def trail_of(frame):
    """Code and instruction of a call and of the calls around it, innermost first."""
    trail = []
    while frame is not None and frame.f_code is not _FIRST_CODE:
        trail.append(frame.f_code)
        trail.append(frame.f_lasti)
        frame = frame.f_back
    return tuple(trail)


def line_of(code, instruction):
    for first, stop, line in code.co_lines():
        if first <= instruction < stop:
            return line
    return code.co_firstlineno


def describe(trail):
    calls = zip(trail[::2], trail[1::2], strict=True)
    return " in ".join(f"{code.co_name}:{line_of(code, at)}" for code, at in calls)


class Scheduler:
    """One launch: its blocks, those that run, and the thread that runs now."""

    def __init__(self, blocks, threads, seed, resident, skew, weak, max_passes):
        self.random = random.Random(seed)
        self.block_shape, self.grid_shape = _shape(threads), _shape(blocks)
        self.n_blocks = int(np.prod(self.grid_shape))
        self.n_threads = int(np.prod(self.block_shape))
        self.resident, self.skew, self.weak, self.max_passes = resident, skew, weak, max_passes
        self.leak_chance = self.random.choice(_LEAKS)
        self.early_chance = self.random.choice(_EARLY)
        self.clock, self.history = 0, {}
        self.hub = getcurrent()
        self.nobody = Thread()
        self.nobody.greenlet, self.nobody.resume = self.hub, self.hub.switch
        self.running, self.waiting_blocks = [], list(range(self.n_blocks))
        self.random.shuffle(self.waiting_blocks)
        self.current, self.batch, self.ready_warps = None, [], []
        self.threads, self.grid_barrier, self.finished = set(), None, []
        self.passes = self.last_progress = self.switches = 0
        self.fuel, self.switches_checked = _FUEL, -1
        self.orders = {}

    def run(self, function):
        """Run all threads to their ends; `function` takes no argument."""
        with np.errstate(all="ignore"):
            # Greenlets have contexts of their own; sharing one keeps NumPy quiet in all of them.
            context = contextvars.copy_context()
            try:
                self._run(function, context)
            finally:
                for thread in self.threads:
                    if not thread.greenlet.dead:
                        thread.greenlet.throw()
        for block in self.finished:
            publish(block, self)

    def _run(self, function, context):
        while True:
            while self.waiting_blocks and len(self.running) < self.resident:
                self._start(self.waiting_blocks.pop(), function, context)
            thread = self.batch.pop() if self.batch else self._next()
            if thread is not self.nobody:
                self.switches += 1
                self.current = thread
                thread.resume()
            # Back here when a thread has ended, not always the one resumed, or nobody can run.
            elif not self.threads:
                return
            if self.current is self.nobody or thread is self.nobody:
                raise SimulationError(f"deadlock: {self._waiting()}")
            self._retire(self.current)

    def _start(self, index, function, context):
        nx, ny, _ = self.grid_shape
        block = Block(Position(index % nx, index // nx % ny, index // (nx * ny)), index)
        self.running.append(block)
        nx, ny, _ = self.block_shape
        for k in range(self.n_threads):
            if k % WARP == 0:
                warp = Warp(block, self.random.random())
            thread = Thread()
            thread.block, thread.warp, thread.linear, thread.lane = block, warp, k, k % WARP
            thread.position = Position(k % nx, k // nx % ny, k // (nx * ny))
            thread.greenlet = greenlet(_live)
            thread.greenlet.gr_context = context
            thread.resume = thread.greenlet.switch
            # A thread that another one started would count the other's recursion as its own.
            thread.resume(self.hub, function)
            warp.live_mask |= 1 << thread.lane
            self.threads.add(thread)
            self._make_ready(warp, (thread,))
        block.live = self.n_threads

    def _retire(self, thread):
        """A thread has ended: those that wait for it no longer do."""
        self.last_progress = self.passes
        self.threads.discard(thread)
        block, warp = thread.block, thread.warp
        block.live -= 1
        warp.live_mask &= ~(1 << thread.lane)
        for mask in list(warp.meetings):
            self._release_warp(warp, mask)
        if block.live == 0:
            self.running.remove(block)
            self.finished.append(block)
        else:
            self._release_block(block)
        self._release_grid()

    def sleep(self):
        """Let another thread run; returns when the current one is chosen again."""
        self.switches += 1
        batch = self.batch
        self.current = thread = batch.pop() if batch else self._next()
        thread.resume()

    def pause(self):
        """A point where the order of threads can matter."""
        thread = self.current
        warp = thread.warp
        warp.ready.append(thread)
        if not warp.is_listed:
            warp.is_listed = True
            self.ready_warps.append(warp)
        self.sleep()

    def _make_ready(self, warp, threads):
        warp.ready.extend(threads)
        if not warp.is_listed:
            warp.is_listed = True
            self.ready_warps.append(warp)

    def _next(self):
        """Choose the threads of the next pass; return the first, or `nobody`."""
        warps = self.ready_warps
        if not warps:
            return self.nobody
        self.passes += 1
        if self.passes - self.last_progress > self.max_passes:
            raise SimulationError(
                f"livelock: no barrier and no end in {self.max_passes} passes, running "
                f"{self._place_of(warps[0].ready[0])}; waiting: {self._waiting()}"
            )
        draw = self.random.random
        if self.leak_chance and self.weak and draw() < self.leak_chance:
            leak(self.random.choice(self.running), self.random)
        if len(warps) > 1 and draw() >= self.skew:
            ready = [thread for warp in warps for thread in warp.ready]
            ready.sort(key=lambda thread: draw())  # faster than to shuffle
            for warp in warps:
                warp.ready, warp.is_listed = [], False
            warps.clear()
        else:
            if draw() < _RESHUFFLE:
                for warp in warps:
                    warp.priority = draw()
            warp = warps[0] if len(warps) == 1 else max(warps, key=_priority)
            orders = self.orders.get(len(warp.ready)) or self._draw_orders(len(warp.ready))
            ready = [warp.ready[k] for k in orders[self.passes % _ORDERS]]
            # Lanes of a warp may be apart, too.
            n_left = int(draw() * len(ready)) if draw() < _SPLITS else 0
            warp.ready, ready = ready[:n_left], ready[n_left:]
            if n_left == 0:
                warps.remove(warp)
                warp.is_listed = False
        self.batch = ready
        return ready.pop()

    def _draw_orders(self, n):
        orders = self.orders[n] = [self.random.sample(range(n), n) for _ in range(_ORDERS)]
        return orders

    def loads_early(self):
        chance = self.early_chance
        return chance == 1.0 or (chance > 0.0 and self.random.random() < chance)

    def count_load(self):
        """A thread that only loads, in a loop, would never let others run."""
        self.fuel -= 1
        if self.fuel < 0:
            if self.switches == self.switches_checked:
                raise SimulationError("livelock: a thread spins on plain loads")
            self.fuel, self.switches_checked = _FUEL, self.switches

    def meet_in_warp(self, mask, value, frame):
        """Wait for the lanes of a mask; returns what each brought."""
        thread = self.current
        warp, lane = thread.warp, thread.lane
        if mask != FULL_MASK:
            mask = int(mask) & FULL_MASK
            if not mask >> lane & 1:
                raise SimulationError(f"lane {lane} is not in its own mask {mask:#x}")
        meeting = warp.meetings.get(mask)
        if meeting is None:
            needed = (mask & warp.live_mask).bit_count()
            trail = (frame.f_code, frame.f_lasti)
            meeting = warp.meetings[mask] = Meeting(trail, needed)
        elif meeting.trail[1] != frame.f_lasti or meeting.trail[0] is not frame.f_code:
            raise SimulationError(
                f"divergent warp: {describe(meeting.trail)} and {describe(trail_of(frame))}"
            )
        values = meeting.values
        values[lane] = value
        if len(values) == meeting.needed:
            # The last to arrive goes on; the others are ready.
            del warp.meetings[mask]
            if meeting.waiting:
                self._make_ready(warp, meeting.waiting)
        else:
            meeting.waiting.append(thread)
            # As in `sleep`, without the call: most changes of threads happen here.
            self.switches += 1
            batch = self.batch
            self.current = thread = batch.pop() if batch else self._next()
            thread.resume()
        return values

    def meet_in_block(self, value, frame):
        block = self.current.block
        meeting = block.barrier = self._join(block.barrier, value, frame)
        self._release_block(block)
        self.sleep()
        return meeting.values

    def meet_in_grid(self, frame):
        if self.n_blocks > self.resident:
            raise SimulationError(
                f"grid barrier among {self.n_blocks} blocks, {self.resident} of them resident"
            )
        self.grid_barrier = self._join(self.grid_barrier, None, frame)
        self._release_grid()
        self.sleep()

    def _join(self, meeting, value, frame):
        trail = trail_of(frame)
        if meeting is None:
            meeting = Meeting(trail)
        elif meeting.trail != trail:
            raise SimulationError(
                f"divergent barrier: {describe(meeting.trail)} and {describe(trail)}"
            )
        meeting.waiting.append(self.current)
        meeting.values[self.current.linear] = value
        return meeting

    def _release_warp(self, warp, mask):
        meeting = warp.meetings[mask]
        meeting.needed = (mask & warp.live_mask).bit_count()
        if len(meeting.waiting) == meeting.needed:
            del warp.meetings[mask]
            self._make_ready(warp, meeting.waiting)

    def _release_block(self, block):
        meeting = block.barrier
        if meeting is not None and len(meeting.waiting) == block.live:
            block.barrier = None
            self._release(meeting)

    def _release_grid(self):
        meeting = self.grid_barrier
        if meeting is not None and len(meeting.waiting) == len(self.threads):
            self.grid_barrier = None
            for block in self.running + self.finished:
                publish(block, self)
            self.history.clear()  # no block is older than this
            self._release(meeting)

    def _release(self, meeting):
        self.last_progress = self.passes
        for thread in meeting.waiting:
            warp = thread.warp
            warp.ready.append(thread)
            if not warp.is_listed:
                warp.is_listed = True
                self.ready_warps.append(warp)

    def _waiting(self):
        places = []
        for block in self.running:
            if block.barrier is not None:
                places.append(_state("block barrier", block.barrier, block.live))
            for warp in {thread.warp for thread in self.threads if thread.block is block}:
                for meeting in warp.meetings.values():
                    places.append(_state("warp", meeting, meeting.needed))
        if self.grid_barrier is not None:
            places.append(_state("grid barrier", self.grid_barrier, len(self.threads)))
        return "; ".join(sorted(set(places))) or "nobody"

    def _place_of(self, thread):
        frame = thread.greenlet.gr_frame
        # Inside the simulator's own functions it was the kernel that called them.
        while frame.f_globals.get("__package__") == __package__ and frame.f_code is not _FIRST_CODE:
            frame = frame.f_back
        return describe(trail_of(frame)) or "a thread about to start"


def _live(hub, function):
    hub.switch()
    function()


_FIRST_CODE = _live.__code__


def _priority(warp):
    return warp.priority


def _shape(size):
    return Position(*(size if isinstance(size, tuple) else (size,)))


def _state(kind, meeting, needed):
    return f"{len(meeting.waiting)} of {needed} threads at {kind} {describe(meeting.trail)}"
