"""Memory of a device that is taken and given back without the driver, which would wait each time.

What an array leaves is kept by its size for the next one of that size: repeated fits take the same
sizes, and all that is done to memory is in the order of one stream.
"""

from collections import defaultdict, deque
from threading import RLock
from weakref import finalize

UNIT = 512  # bytes that sizes are rounded up to
KEPT = 0.2  # share of a device's memory, at most, as by Numba


class Block:
    """Memory that lasts as long as this does."""

    __slots__ = ("__weakref__", "address")

    def __init__(self, address):
        self.address = address


class MemoryPool:
    """Memory of a device; ``allocate(n_bytes)`` and ``free(address)`` are the driver's.

    At most `most` bytes are kept.
    """

    def __init__(self, allocate, free, most):
        self._allocate, self._free, self._most = allocate, free, most
        self._blocks = defaultdict(list)  # addresses by size
        self._returned = deque()  # size and address, from whichever thread an array ends in
        self._lock, self._n_bytes = RLock(), 0

    def take(self, n_bytes):
        """A block; what `allocate` raises once nothing more is kept."""
        size = -(-n_bytes // UNIT) * UNIT
        with self._lock:
            self._sort()
            if self._blocks[size]:
                address = self._blocks[size].pop()
                self._n_bytes -= size
            else:
                address = self._allocate_anew(size)
        block = Block(address)
        finalize(block, self._returned.append, (size, address)).atexit = False
        return block

    def _allocate_anew(self, size):
        try:
            return self._allocate(size)
        except MemoryError:
            self._sort()
            self._release()
            return self._allocate(size)

    def _sort(self):
        """Keep what was given back."""
        while self._returned:
            size, address = self._returned.popleft()
            self._blocks[size].append(address)
            self._n_bytes += size
        if self._n_bytes > self._most:
            self._release()

    def held_bytes(self):
        """Bytes that are kept."""
        with self._lock:
            self._sort()
            return self._n_bytes

    def release(self):
        """Give all that is kept back to the driver."""
        with self._lock:
            self._sort()
            self._release()

    def _release(self):
        blocks, self._blocks, self._n_bytes = self._blocks, defaultdict(list), 0
        for addresses in blocks.values():
            for address in addresses:
                self._free(address)
