"""Numbers of rows by fit of a batch: arrays (n_rows, n_fits), or less memory for as much."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Marks:
    """Columns as multiples of one vector: row i of fit b has ``base[i] * times[b, mark_i]``.

    A layer is a mark for every row; all folds of a cross-validation are one.
    """

    base: np.ndarray  # (n_rows,)
    make: Callable[[int], np.ndarray]  # uint8 (n_rows,) of a layer
    layer: np.ndarray  # int (n_fits,): the layer of every fit
    times: np.ndarray  # (n_fits, marks)

    def of(self, fits):
        """Numbers of some fits of the batch."""
        return replace(self, layer=self.layer[fits], times=self.times[fits])


@dataclass(frozen=True)
class ColumnsOnDemand:
    """An array (n_rows, n_fits) whose columns are made when a fit asks for them.

    Hundreds of weight vectors, such as those of a bootstrap, are never held at once.
    """

    shape: tuple[int, int]
    make: Callable[[int], np.ndarray]  # the same column each time it is asked for
    marks: Callable[[], Marks] | None = None  # what says the same in less memory

    def __getitem__(self, key):
        _, fits = key
        if np.ndim(fits) == 0 and not isinstance(fits, slice):
            return self.make(int(fits))
        return np.stack([self.make(b) for b in range(*fits.indices(self.shape[1]))], axis=1)


def of_fit(values, index):
    """Numbers of one fit; None, and numbers or a column that are of all fits, stand for it."""
    if values is None or len(values.shape) == 1:
        return values
    return values[:, index if values.shape[1] > 1 else 0]


def columns_of(values, fits):
    """Columns (n_rows, len(fits)) of some fits, one of which may be there several times.

    None, and one column that stands for all fits, remain as they are.
    """
    if values is None or values.shape[1] == 1:
        return values
    marks = getattr(values, "marks", None)
    return ColumnsOnDemand(
        (values.shape[0], len(fits)),
        lambda k: values[:, fits[k]],
        None if marks is None else lambda: marks().of(fits),
    )
