"""Operations of samplers on the CPU: arrays of NumPy, random numbers, linear algebra."""

import numpy as np
from scipy.sparse import issparse

from . import linalg
from .random import Random
from .softmax import SoftmaxRows


class Sampling:
    """Random numbers and linear algebra for some chains of a run."""

    batched = False  # each chain has a sampler, and threads share the chains
    xp = np
    linalg = linalg

    def __init__(self, seed, chains):
        self.chains = np.asarray(chains)
        self.random = Random(seed, chains)

    def reserve(self, shared, each):
        """A device refuses here what would not fit; the host's memory is the system's concern."""

    def put(self, array):
        """Array of the backend; sparse matrices by rows."""
        return array.tocsr() if issparse(array) else np.ascontiguousarray(array)

    def to_host(self, array):
        return array

    def softmax_rows(self, X, y, count):
        """Rows of a multinomial logistic model, for all chains."""
        return SoftmaxRows(X, y, count)
