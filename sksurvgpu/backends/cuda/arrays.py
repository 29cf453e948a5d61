"""Arrays on a device, and how arguments of a launch are told to the driver: in words of 64 bits."""

import struct
import threading
from typing import NamedTuple

import numpy as np

# Of an array of so many dimensions: two that are unused, size, bytes of an item, address, shape,
# steps.
WORDS = [struct.Struct(f"{5 + 2 * n}q").pack for n in range(8)]

DIGITS = "01234567"


def address_of(array):
    """Where a host array lies."""
    return array.__array_interface__["data"][0]


class Array:
    """Memory on a device in C order, and the words by which a kernel knows it."""

    # Makes NumPy's operators refuse instead of building arrays of objects.
    __array_ufunc__ = None

    def __init__(self, owner, address, shape, dtype):
        self.owner, self.address = owner, address  # whose end frees the memory
        self.shape, self.dtype, self.ndim = shape, dtype, len(shape)
        item = step = dtype.itemsize
        steps = ()
        for n in shape[::-1]:
            steps = step, *steps
            step *= n
        self.nbytes, self.size = step, step // item
        self.words = WORDS[self.ndim](0, 0, self.size, item, address, *shape, *steps)
        self.kind = dtype.char + DIGITS[self.ndim]

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        """Part that shares the memory: slices of the first axis and rows."""
        (n, *rest), step = self.shape, self.nbytes // max(self.shape[0], 1)
        if isinstance(index, slice):
            low, high, _ = index.indices(n)
            rest, index = [max(high - low, 0), *rest], low
        return Array(self.owner, self.address + index * step, tuple(rest), self.dtype)


class Packed:
    """A tuple of arrays that many launches take, flattened once; it has the tuple's fields.

    Its own names begin with an underscore, as no field's does.
    """

    def __init__(self, value):
        kinds, words = [], []
        flatten((value,), kinds, words)
        self._value, self._kind, self._words = value, " ".join(kinds), b"".join(words)

    def __getattr__(self, name):
        return getattr(self._value, name)

    def __iter__(self):
        return iter(self._value)


def flatten(arguments, kinds, words):
    """Keys from which the types of arguments follow, and their numbers as a kernel takes them."""
    for argument in arguments:
        if type(argument) is Array:
            kinds.append(argument.kind)
            words.append(argument.words)
        elif type(argument) is Packed:
            kinds.append(argument._kind)
            words.append(argument._words)
        elif isinstance(argument, tuple):
            kinds.append(f"{id(type(argument))} {len(argument)}")
            flatten(argument, kinds, words)
        else:
            kinds.append(type(argument).__name__)
            if isinstance(argument, np.generic):
                words.append(argument.tobytes().ljust(8, b"\0"))
            else:
                words.append(struct.pack("d" if isinstance(argument, float) else "q", argument))


class Launch(NamedTuple):
    """A launch as the driver takes it."""

    handle: int
    is_cooperative: bool
    blocks: int
    threads: int
    shared_bytes: int
    parameters: int  # address of the addresses of words
    kept: tuple  # what has to last as long

    @classmethod
    def of(cls, arguments, words, **how):
        """With arguments, and the words that say them."""
        words = np.frombuffer(words, np.uint8)
        places = address_of(words) + np.arange(0, len(words), 8, dtype=np.uint64)
        return cls(**how, parameters=address_of(places), kept=(arguments, words, places))


class Staging(threading.local):
    """Where a thread's small arrays wait for their copies: pinned, and its mirror on the device."""

    host = mirror = None
    size = address = 0  # of the host's
    taken = 0  # bytes since the last download
    tape = None  # launches that are recorded
