"""Memory of a simulated kernel: bounds, types, poison, and stores that others see late.

Arrays of a kernel are instances of `Array`.  An index out of bounds or negative is an error (NumPy
would wrap it, a GPU would read what lies there).  Values read are what compiled code computes
with: floats are NumPy scalars, so that a division by zero gives inf; integers of up to 32 bits and
int64 are Python integers, since Numba computes with at least 64 bits; uint64 stays a NumPy scalar,
which wraps.  Stores convert to the dtype and wrap silently, as on the device.

The memory model (`SharedViewArray`), which makes a missing fence visible, is pessimistic within
what CUDA allows.  Every block has a view of global memory: its own stores, and all that it has
read.  A store reaches memory when some thread of the block executes a fence, or, at random, at any
moment and in any order.  A load gives what the view has, else the value in memory now or, at
random, the one of the block's last fence (nothing keeps a load from being done early); the view
keeps it until the next fence.  Atomics work on memory itself and order nothing but their own
location.
"""

from __future__ import annotations

import operator

import numpy as np

# A NaN as float32, in both halves of a float64 too, and as an integer large and odd.
POISON_WORD = 0x7FF5A5C3


class SimulationError(RuntimeError):
    """A kernel did what would fail, hang or be undefined on a device."""


def poison(data):
    """Fill a contiguous array with what nobody should read."""
    raw = data.reshape(-1).view(np.uint8)
    words = np.full(-(-raw.size // 4), POISON_WORD, np.uint32)
    raw[:] = words.view(np.uint8)[: raw.size]
    return data


def converter(dtype):
    """Function that converts a stored value to `dtype` as C does: truncating and wrapping."""
    dtype = np.dtype(dtype)
    if dtype.kind in "fb":
        return dtype.type
    limits = np.iinfo(dtype)
    lowest, highest, period = int(limits.min), int(limits.max), 1 << limits.bits

    def convert(value):
        value = int(value)
        if lowest <= value <= highest:
            return value
        return (value - lowest) % period + lowest

    if dtype == np.uint64:  # the one type whose arithmetic wraps where Numba's does
        return lambda value: np.uint64(convert(value))
    return convert


class Array:
    """Contiguous array as a kernel sees it; positions count elements of the flat array."""

    __slots__ = (
        "convert",
        "dtype",
        "flat",
        "itemsize",
        "length",
        "ndim",
        "offset",
        "read",
        "rows",
        "scheduler",
        "shape",
        "size",
        "strides",
    )

    def __init__(self, data, scheduler):
        if data.size and not (data.flags.c_contiguous or data.flags.f_contiguous):
            raise SimulationError(f"array of shape {data.shape} is not contiguous")
        self.flat = data.ravel(order="K")
        self.dtype = data.dtype
        self.itemsize = data.dtype.itemsize
        self.convert = converter(data.dtype)
        as_scalar = data.dtype.kind == "f" or data.dtype == np.uint64
        self.read = self.flat.__getitem__ if as_scalar else self.flat.item
        self.scheduler = scheduler
        strides = tuple(stride // data.dtype.itemsize for stride in data.strides)
        self._place(0, data.shape, strides)

    def _place(self, offset, shape, strides):
        self.offset, self.shape, self.strides = offset, shape, strides
        self.ndim, self.length, self.rows = len(shape), shape[0] if shape else 1, {}
        self.size = 1
        for length in shape:
            self.size *= length

    def _part(self, offset, shape, strides):
        part = object.__new__(type(self))
        part.flat, part.dtype, part.itemsize = self.flat, self.dtype, self.itemsize
        part.convert, part.read = self.convert, self.read
        part.scheduler = self.scheduler
        part._place(offset, shape, strides)
        return part

    def __len__(self):
        return self.length

    def __iter__(self):
        for index in range(self.length):
            yield self[index]

    def __getitem__(self, index):
        if type(index) is int and self.ndim == 1:
            if not 0 <= index < self.length:
                self.refuse(index)
            return self.load(self.offset + index * self.strides[0])
        place = self.locate(index)
        return self.load(place) if type(place) is int else place

    def __setitem__(self, index, value):
        if type(index) is int and self.ndim == 1:
            if not 0 <= index < self.length:
                self.refuse(index)
            self.store(self.offset + index * self.strides[0], value)
            return
        place = self.locate(index)
        if type(place) is int:
            self.store(place, value)
            return
        for k in range(place.length):
            place[k] = value if np.ndim(value) == 0 else value[k]

    def locate(self, index):
        """Position of an element, or the part of the array that an index names."""
        if type(index) is int:  # a row of a matrix
            row = self.rows.get(index)
            if row is None:
                row = self.rows[index] = self._resolve((index,))
            return row
        if type(index) is not tuple:
            return self._resolve((index,))
        if len(index) != self.ndim:
            return self._resolve(index)
        position = self.offset
        for part, length, stride in zip(index, self.shape, self.strides, strict=True):
            if type(part) is not int or not 0 <= part < length:
                return self._resolve(index)
            position += part * stride
        return position

    def _resolve(self, index):
        if len(index) > self.ndim:
            self.refuse(index)
        position, shape, strides = self.offset, [], []
        for axis, part in enumerate(index):
            length, stride = self.shape[axis], self.strides[axis]
            if isinstance(part, slice):
                first = 0 if part.start is None else operator.index(part.start)
                stop = length if part.stop is None else operator.index(part.stop)
                if part.step not in (None, 1) or not 0 <= first <= stop <= length:
                    self.refuse(index)
                shape.append(stop - first)
                strides.append(stride)
            else:
                first = self._whole(part, index)
                if not 0 <= first < length:
                    self.refuse(index)
            position += first * stride
        shape += self.shape[len(index) :]
        strides += self.strides[len(index) :]
        return self._part(position, tuple(shape), tuple(strides)) if shape else position

    def _whole(self, part, index):
        if isinstance(part, bool | np.bool_):
            self.refuse(index)
        try:
            return operator.index(part)
        except TypeError:
            return self.refuse(index)

    def refuse(self, index):
        parts = index if isinstance(index, tuple) else (index,)
        named = ", ".join(
            f"{part.start}:{part.stop}" if isinstance(part, slice) else str(part) for part in parts
        )
        raise SimulationError(f"index [{named}] of an array of shape {self.shape}")

    def load(self, position):
        self.scheduler.count_load()
        return self.read(position)

    def store(self, position, value):
        self.flat[position] = self.convert(value)

    def update(self, index, function):
        """Replace an element by a function of it, in memory and for all; return the old one."""
        place = self.locate(index if self.ndim > 1 else (index,))
        if type(place) is not int:
            self.refuse(index)
        return self.exchange(place, function)

    def exchange(self, position, function):
        old = self.read(position)
        self.flat[position] = self.convert(function(old))
        return old


class SharedViewArray(Array):
    """Array in global memory, seen through the view of the running block."""

    __slots__ = ("base",)

    def __init__(self, data, scheduler):
        super().__init__(data, scheduler)
        self.base = self.flat.__array_interface__["data"][0]

    def _part(self, offset, shape, strides):
        part = super()._part(offset, shape, strides)
        part.base = self.base
        return part

    def load(self, position):
        scheduler = self.scheduler
        block = scheduler.current.block
        view = block.view
        # By address: parts of an array, and arrays that overlap, share their elements.
        address = self.base + position * self.itemsize
        value = view.get(address)
        if value is None:
            value = self.read(position)
            past = scheduler.history.get(address)
            if past is not None and scheduler.loads_early():
                value = as_of(past, block.fenced, value)
            view[address] = value
        else:
            scheduler.count_load()
        return value

    def store(self, position, value):
        block = self.scheduler.current.block
        address = self.base + position * self.itemsize
        block.view[address] = value = self.convert(value)
        block.unseen[address] = (self, position, value)

    def commit(self, position, address, value):
        """Let a store reach memory; what was there before is kept for loads done early."""
        old = self.read(position)
        if old != value:
            scheduler = self.scheduler
            scheduler.clock += 1
            scheduler.history.setdefault(address, []).append((scheduler.clock, old))
            self.flat[position] = value

    def exchange(self, position, function):
        # The block's own store to this location comes before its atomic, and its next load after.
        block = self.scheduler.current.block
        address = self.base + position * self.itemsize
        pending = block.unseen.pop(address, None)
        if pending is not None:
            self.commit(position, address, pending[2])
        old = self.read(position)
        new = block.view[address] = self.convert(function(old))
        self.commit(position, address, new)
        return old


def as_of(past, time, value):
    """Value of a location at an earlier time; `past` has (time, value before) of its changes."""
    for changed, before in reversed(past):
        if changed <= time:
            break
        value = before
    return value


def publish(block, scheduler):
    """What a fence does: the block's stores reach memory, and it reads memory anew."""
    for address, (array, position, value) in block.unseen.items():
        array.commit(position, address, value)
    block.unseen.clear()
    block.view.clear()
    block.fenced = scheduler.clock


def leak(block, random):
    """Let some of the block's stores reach memory before a fence, in any order."""
    for address in [key for key in block.unseen if random.random() < 0.5]:
        array, position, value = block.unseen.pop(address)
        array.commit(position, address, value)


def wrap(argument, scheduler, kind):
    """Argument of a launch as the kernel sees it; tuples are wrapped field by field."""
    if isinstance(argument, np.ndarray):
        return kind(argument, scheduler)
    if isinstance(argument, tuple):
        parts = [wrap(part, scheduler, kind) for part in argument]
        return type(argument)(*parts) if hasattr(argument, "_fields") else tuple(parts)
    if isinstance(argument, bool | np.bool_):
        return bool(argument)
    if isinstance(argument, int | np.integer):
        return converter(np.asarray(argument).dtype)(argument)
    if isinstance(argument, float):
        return np.float64(argument)
    return argument
