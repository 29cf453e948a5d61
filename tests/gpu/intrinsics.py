"""The simulated `numba.cuda`: identities, barriers, warp collectives, atomics, memory."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import numpy as np

from .memory import POISON_WORD, Array, poison, publish
from .rebinding import dtype_of
from .scheduler import FULL_MASK, WARP, Site, line_of

_frame = sys._getframe
_recorders = []
_NAN = np.float64(np.nan)


@contextmanager
def recorded_sites():
    """Set of the barriers and fences that simulations begun inside the context meet."""
    sites = set()
    _recorders.append(sites)
    try:
        yield sites
    finally:
        _recorders.remove(sites)


class Cuda:
    """Stands in for the module; one for many launches, `scheduler` being that of the present."""

    warpsize = WARP

    def __init__(self, without=()):
        self.scheduler, self.shared_bytes = None, 0
        self.without = frozenset(without)
        self.sites = set()
        self._is_active = {}  # place in the code -> whether it synchronizes in this run
        self.atomic, self.cg = Atomic(self), CooperativeGroups(self)
        self.shared, self.local = Shared(self), Local(self)
        self.const = Constant()

    def is_active(self, frame, kind):
        """Note a synchronizing call; whether it is left in place."""
        place = (id(frame.f_code), frame.f_lasti)
        active = self._is_active.get(place)
        if active is None:
            code = frame.f_code
            site = Site(code.co_name, line_of(code, frame.f_lasti), kind)
            self.sites.add(site)
            for recorder in _recorders:
                recorder.add(site)
            active = self._is_active[place] = site not in self.without
        return active

    @property
    def threadIdx(self):
        return self.scheduler.current.position

    @property
    def blockIdx(self):
        return self.scheduler.current.block.position

    @property
    def blockDim(self):
        return self.scheduler.block_shape

    @property
    def gridDim(self):
        return self.scheduler.grid_shape

    @property
    def laneid(self):
        return self.scheduler.current.lane

    def grid(self, n_dimensions):
        thread, shape = self.scheduler.current, self.scheduler.block_shape
        if n_dimensions == 1:
            return thread.block.position[0] * shape[0] + thread.position[0]
        block = thread.block.position
        place = tuple(b * s + t for b, s, t in zip(block, shape, thread.position, strict=True))
        return place[:n_dimensions]

    def gridsize(self, n_dimensions):
        shapes = zip(self.scheduler.grid_shape, self.scheduler.block_shape, strict=True)
        size = tuple(blocks * threads for blocks, threads in shapes)
        return size[0] if n_dimensions == 1 else size[:n_dimensions]

    def syncthreads(self):
        frame = _frame(1)
        if self.is_active(frame, "syncthreads"):
            self.scheduler.meet_in_block(None, frame)

    # Barriers with a result are not removable: without them there is no result.
    def syncthreads_count(self, value):
        return sum(map(bool, self.scheduler.meet_in_block(value, _frame(1)).values()))

    def syncthreads_and(self, value):
        return int(all(self.scheduler.meet_in_block(value, _frame(1)).values()))

    def syncthreads_or(self, value):
        return int(any(self.scheduler.meet_in_block(value, _frame(1)).values()))

    def syncwarp(self, mask=FULL_MASK):
        frame = _frame(1)
        if self.is_active(frame, "syncwarp"):
            self.scheduler.meet_in_warp(mask, None, frame)

    def threadfence(self):
        scheduler = self.scheduler
        if self.is_active(_frame(1), "fence"):
            publish(scheduler.current.block, scheduler)
        scheduler.pause()

    threadfence_system = threadfence

    def threadfence_block(self):
        # A block sees its own stores at once: not a site, since removing it changes nothing.
        self.scheduler.pause()

    def nanosleep(self, nanoseconds):
        scheduler = self.scheduler
        scheduler.current.warp.priority = 0.0
        scheduler.pause()

    # What a lane outside the block or the mask brings is undefined on a device.

    def shfl_sync(self, mask, value, source):
        values = self.scheduler.meet_in_warp(mask, value, _frame(1))
        return _take(values, source % WARP, value)

    def shfl_up_sync(self, mask, value, delta):
        scheduler = self.scheduler
        values = scheduler.meet_in_warp(mask, value, _frame(1))
        source = scheduler.current.lane - delta
        return _take(values, source, value) if source >= 0 else value

    def shfl_down_sync(self, mask, value, delta):
        scheduler = self.scheduler
        values = scheduler.meet_in_warp(mask, value, _frame(1))
        source = scheduler.current.lane + delta
        return _take(values, source, value) if source < WARP else value

    def shfl_xor_sync(self, mask, value, lanes):
        scheduler = self.scheduler
        values = scheduler.meet_in_warp(mask, value, _frame(1))
        source = scheduler.current.lane ^ lanes
        return _take(values, source, value) if source < WARP else value

    def _votes(self, mask, value, frame):
        return self.scheduler.meet_in_warp(mask, value, frame)

    def ballot_sync(self, mask, predicate):
        votes = self._votes(mask, predicate, _frame(1))
        return _signed(sum(1 << lane for lane, vote in votes.items() if vote))

    def all_sync(self, mask, predicate):
        return bool(all(self._votes(mask, predicate, _frame(1)).values()))

    def any_sync(self, mask, predicate):
        return bool(any(self._votes(mask, predicate, _frame(1)).values()))

    def eq_sync(self, mask, predicate):
        return len(set(map(bool, self._votes(mask, predicate, _frame(1)).values()))) == 1

    def match_any_sync(self, mask, value):
        votes = self._votes(mask, value, _frame(1))
        return _signed(sum(1 << lane for lane, vote in votes.items() if vote == value))

    def popc(self, value):
        return (int(value) & _mask(value)).bit_count()

    def ffs(self, value):
        value = int(value)
        return (value & -value).bit_length()

    def clz(self, value):
        """Leading zeros of an int32; Python's integers do not say their width."""
        return 32 - (int(value) & FULL_MASK).bit_length()

    def fma(self, a, b, c):
        return a * b + c

    def selp(self, condition, a, b):
        return a if condition else b


def _take(values, source, own):
    if source in values:
        return values[source]
    return _NAN if isinstance(own, float | np.floating) else POISON_WORD


def _signed(votes):
    """Lanes as Numba gives them: an int32, negative where lane 31 is among them.

    Arithmetic with it has 64 bits there, and so here.
    """
    return np.int64(votes - ((votes & 2**31) << 1))


def _mask(value):
    return FULL_MASK if -(2**31) <= value < 2**32 else 2**64 - 1


class CooperativeGroups:
    def __init__(self, cuda):
        self._cuda = cuda

    def this_grid(self):
        return self

    def sync(self):
        frame = _frame(1)
        if self._cuda.is_active(frame, "grid"):
            self._cuda.scheduler.meet_in_grid(frame)


class Atomic:
    """Each is a point where others may run, before and after; the result wraps to the dtype."""

    def __init__(self, cuda):
        self._cuda = cuda

    def _update(self, array, index, function):
        scheduler = self._cuda.scheduler
        scheduler.pause()
        old = array.update(index, function)
        scheduler.pause()
        return old

    def add(self, array, index, value):
        return self._update(array, index, lambda old: old + value)

    def sub(self, array, index, value):
        return self._update(array, index, lambda old: old - value)

    def max(self, array, index, value):
        # A NaN in memory or as the value changes nothing but a NaN in memory.
        return self._update(array, index, lambda old: value if value > old or old != old else old)

    def min(self, array, index, value):
        return self._update(array, index, lambda old: value if value < old or old != old else old)

    def and_(self, array, index, value):
        return self._update(array, index, lambda old: old & value)

    def or_(self, array, index, value):
        return self._update(array, index, lambda old: old | value)

    def exch(self, array, index, value):
        return self._update(array, index, lambda old: value)

    def cas(self, array, index, expected, value):
        expected = array.convert(expected)
        return self._update(array, index, lambda old: value if old == expected else old)

    def compare_and_swap(self, array, expected, value):
        return self.cas(array, 0, expected, value)


class Shared:
    """Memory of a block: one array for each call in the source, and the dynamic part."""

    def __init__(self, cuda):
        self._cuda = cuda

    def array(self, shape, dtype):
        scheduler, frame = self._cuda.scheduler, _frame(1)
        arrays = scheduler.current.block.shared
        if shape == 0:
            return self._dynamic(arrays, dtype_of(dtype))
        place = (id(frame.f_code), frame.f_lasti)
        if place not in arrays:
            arrays[place] = Array(poison(np.empty(shape, dtype_of(dtype))), scheduler)
        return arrays[place]

    def _dynamic(self, arrays, dtype):
        """The whole dynamic part as an array of one type; all types see the same bytes."""
        if "dynamic" not in arrays:
            arrays["dynamic"] = poison(np.empty(self._cuda.shared_bytes, np.uint8))
        if dtype not in arrays:
            whole = self._cuda.shared_bytes // dtype.itemsize * dtype.itemsize
            arrays[dtype] = Array(arrays["dynamic"][:whole].view(dtype), self._cuda.scheduler)
        return arrays[dtype]


class Local:
    def __init__(self, cuda):
        self._cuda = cuda

    def array(self, shape, dtype):
        return Array(poison(np.empty(shape, dtype_of(dtype))), self._cuda.scheduler)


class Constant:
    def array_like(self, array):
        return array
