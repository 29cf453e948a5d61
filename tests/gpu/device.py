"""A device for the backend's host code, whose kernels run in the simulator.

Device arrays are opaque to the host, so that code which reads or writes one without a copy fails
here as it would be wrong (or slow beyond reason) on a device; so is a host array in a launch.
"""

from __future__ import annotations

import weakref
from functools import partial

import numpy as np

from .memory import poison
from .simulator import DEFAULT_SKEW, MAX_PASSES, Machine

MOST_THREADS = 1024  # of a block
_SCALARS = (bool, int, float, np.number, np.bool_)


class DeviceArray:
    """Memory of one device; only the device reads and writes it."""

    # Makes NumPy's operators refuse instead of building arrays of objects.
    __array_ufunc__ = None

    def __init__(self, device, data):
        self._device, self._data = device, data
        self.shape, self.dtype, self.ndim = data.shape, data.dtype, data.ndim
        self.size, self.nbytes = data.size, data.nbytes

    @property
    def address(self):
        """Where it lies, for the stand-in of a library that takes addresses."""
        return self._data.__array_interface__["data"][0]

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        """Part of the array that shares its memory: slices of the first axis and rows."""
        part = self._data[index]
        if not isinstance(part, np.ndarray) or not part.flags.c_contiguous:
            raise TypeError(f"the host reads element {index} of a device array: download it")
        view = DeviceArray(self._device, part)
        view._whole = self  # its memory is not free before the last part is gone
        return view

    def __setitem__(self, index, value):
        raise TypeError("the host writes into a device array: use write or fill")

    def __array__(self, dtype=None, copy=None):
        raise TypeError("the host reads a device array: download it")

    def __iter__(self):
        raise TypeError("the host iterates over a device array: download it")

    def __bool__(self):
        raise TypeError("the truth of a device array")

    def __eq__(self, other):
        raise TypeError("the host compares a device array: download it")

    __hash__ = object.__hash__


class SimulatedDevice:
    """What the backend asks of a device; every launch has its own order of threads.

    `memory` is in bytes, `shared_bytes` what a block may have of dynamic shared memory, `without`
    the barriers and fences to leave out, `weak` and `skew` as for the simulator.
    """

    def __init__(
        self,
        seed=0,
        n_multiprocessors=2,
        shared_bytes=48 * 1024,
        memory=2**30,
        without=(),
        weak=True,
        skew=DEFAULT_SKEW,
        max_passes=MAX_PASSES,
    ):
        self.name, self.ordinal = "simulated device", 0
        self.n_multiprocessors, self.shared_bytes = n_multiprocessors, shared_bytes
        self.memory, self.seed, self.n_launches, self.n_switches = memory, seed, 0, 0
        self._used, self._sent = 0, []
        self._machine = Machine(skew, weak, without, max_passes)

    @property
    def sites(self):
        """Barriers and fences met so far."""
        return self._machine.sites

    def use(self):
        """Threads may use any simulated device."""

    def is_broken(self):
        return False

    def release(self):
        """It keeps no memory."""

    def free_bytes(self):
        return self.memory - self._used

    def empty(self, shape, dtype):
        """New array, whose entries are poison."""
        shape = tuple(shape) if np.ndim(shape) else (int(shape),)
        n_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if n_bytes > self.free_bytes():
            raise MemoryError(f"{n_bytes} bytes on a device with {self.free_bytes()} free")
        array = DeviceArray(self, poison(np.empty(shape, dtype)))
        self._used += n_bytes
        weakref.finalize(array, self._release, n_bytes).atexit = False
        return array

    def _release(self, n_bytes):
        self._used -= n_bytes

    def zeros(self, shape, dtype):
        return self._filled(self.empty(shape, dtype), 0)

    def upload(self, array):
        array = np.asarray(array)
        return self._filled(self.empty(array.shape, array.dtype), array)

    def _filled(self, array, values):
        array._data[...] = values
        return array

    def view(self, array, dtype, shape=None):
        """Memory of an array as another type of that size, or in another shape."""
        data = self._own(array)._data.view(dtype)
        view = DeviceArray(self, data if shape is None else data.reshape(shape))
        view._whole = array
        return view

    def share(self, array):
        """An array of CuPy's stand-in, for a launch."""
        if not self._own(array)._data.flags.c_contiguous:
            raise TypeError(f"an array of shape {array.shape} is not contiguous")
        return array

    def send(self, *arrays):
        """Copies of host arrays that a download ends."""
        sent = [DeviceArray(self, np.array(array, order="C")) for array in arrays]
        self._sent += sent
        return sent

    def refill(self, array, values):
        """Copy host values of its type into the first rows of an array."""
        if values.dtype != array.dtype:
            raise TypeError(f"{values.dtype} written into {array.dtype}")
        self.write(array[: len(values)], values)

    def download(self, array):
        found = self._own(array)._data.copy()
        for sent in self._sent:
            poison(sent._data)
        self._sent = []
        return found

    def write(self, array, values):
        """Copy host values into a device array of as many entries, in its dtype."""
        values = np.asarray(values)
        if not np.can_cast(values.dtype, self._own(array).dtype, "same_kind"):
            raise TypeError(f"{values.dtype} written into {array.dtype}")
        array._data[...] = values.astype(array.dtype).reshape(array.shape)

    def fill(self, array, value):
        if np.ndim(value):
            raise TypeError(f"fill takes a scalar, not an array of shape {np.shape(value)}")
        self._own(array)._data[...] = value

    def resident_blocks(self, kernel, threads, arguments, shared_bytes=0):
        """Blocks that run at the same time: one on each multiprocessor."""
        return self.n_multiprocessors

    def pack(self, value):
        """A tuple that many launches take."""
        return value

    def launch(self, kernel, blocks, threads, arguments, shared_bytes=0):
        if shared_bytes > self.shared_bytes:
            raise ValueError(f"{shared_bytes} bytes of shared memory, {self.shared_bytes} exist")
        if not (blocks > 0 and 0 < threads <= MOST_THREADS):
            raise ValueError(f"{blocks} blocks of {threads} threads cannot be launched")
        seen = self.arrays_of(tuple(arguments))
        resident = self.resident_blocks(kernel, threads, arguments, shared_bytes)
        # Two seeds never share a launch's order; 1,000,003 is a prime beyond any launch count.
        seed = self.seed * 1_000_003 + self.n_launches
        self.n_launches += 1
        self.n_switches += self._machine.run(
            kernel, blocks, threads, seen, seed, shared_bytes, resident
        )

    def record(self, work):
        """Have work done; its launches, to be repeated."""
        launch, tape = self.launch, []

        def keep(*arguments, **named):
            tape.append(partial(launch, *arguments, **named))
            launch(*arguments, **named)

        self.launch = keep
        try:
            work()
        finally:
            self.launch = launch
        return tape

    def repeat(self, tape):
        """Run recorded launches again."""
        for run in tape:
            run()

    def arrays_of(self, argument):
        """Arguments of a launch with the memory of its arrays; refuses what is elsewhere."""
        if isinstance(argument, DeviceArray):
            return self._own(argument)._data
        if isinstance(argument, tuple):
            parts = [self.arrays_of(part) for part in argument]
            return type(argument)(*parts) if hasattr(argument, "_fields") else tuple(parts)
        if isinstance(argument, _SCALARS):
            return argument
        raise TypeError(f"a kernel cannot take a {type(argument).__name__} from the host")

    def _own(self, array):
        if not isinstance(array, DeviceArray):
            raise TypeError(f"a {type(array).__name__} is not an array of the device")
        if array._device is not self:
            raise TypeError("an array of another device")
        return array
