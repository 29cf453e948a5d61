"""Operations of samplers on a device: arrays of CuPy, random numbers, linear algebra."""

from functools import partial

import numpy as np

from . import linalg
from ._cuda import open_device
from .memory import require_sampling
from .random import Random
from .softmax import SoftmaxRows


def open_sampling(ordinal):
    """``make(seed, chains)`` for the device of that number; an error says why there is none."""
    linalg.require_cupy()
    device = open_device(ordinal)
    linalg.open_cupy(ordinal)
    make = partial(Sampling, device, ordinal)
    make.batched = True  # one sampler for all chains
    return make


class Sampling:
    """Random numbers and linear algebra for some chains of a run: all of them, as one batch."""

    def __init__(self, device, ordinal, seed, chains):
        self.device, self.chains = device, np.asarray(chains)
        self.xp = linalg.open_cupy(ordinal)  # again: each thread has a device of its own
        self.random = Random(device, self.xp, seed, chains)
        self.linalg = linalg.Linalg(device, self.xp)

    def reserve(self, shared, each):
        """Refuse what does not fit: bytes for all chains together, and for each of them."""
        held = self.xp.get_default_memory_pool().free_bytes()
        require_sampling(self.device, shared, each, len(self.chains), held)

    def put(self, array):
        """Array on the device; sparse matrices by rows."""
        return linalg.put(self.xp, array)

    def to_host(self, array):
        return self.xp.asnumpy(array)

    def softmax_rows(self, X, y, count):
        """Rows of a multinomial logistic model, for all chains."""
        return SoftmaxRows(self, X, y, count)
