"""Rows of a site in a fit with noise, of which nothing else is told: not whether they can be read.

A row that cannot, or is longer than was said, is left out or shortened by itself.  What is refused
is refused by what columns there are and of which type.
"""

import json

import numpy as np

from .newton import MODELS
from .noise import Noise
from .public import FLAGS
from .rules import NotReleasedError

MOST_COLUMNS = 100
CHUNK = 1 << 22  # numbers that are worked on at once
OF_LABELS = "labels", "censor_labels", "lane_stratum", "lane_group", "power"


class NoisyRows:
    """Rows of a site, of which nothing is told but by noisy sums: not whether they can be read.

    Rows that cannot, with NaN, count for nothing.  What is refused is refused by kinds of columns.

    Parameters
    ----------
    arguments : dict
        Of ``fit``.
    programme : Programme
    """

    absent: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def __init__(self, arguments, programme):
        more = sorted(set(arguments) - {"X", "y"})
        design, y = arguments["X"], arguments["y"]
        model = MODELS[json.loads(programme.estimator)["class"]]
        fields = set(y.dtype.names or ())
        if more or fields != ({"event", "time"} if model.has_time else set()):
            more = ", ".join(map(repr, more or sorted(fields))) or "no times"
            raise NotReleasedError(
                f"with noise there are X and the outcome alone, without weights, strata, late "
                f"entry, subjects or competing events, and its rows have {more}"
            )
        kinds = {y.dtype[name].kind for name in fields} or {y.dtype.kind}
        if not kinds <= set("biuf"):
            raise NotReleasedError("with noise an outcome is of numbers, or of zeros and ones")
        if design.n_columns > MOST_COLUMNS:
            raise NotReleasedError(f"with noise there are at most {MOST_COLUMNS} columns")
        self._design, self._noise = design, Noise.read(programme.noise)
        self._model, self._grid = model, programme.grid
        x = design.to_scipy().toarray()
        self.x = shorten(x, self._noise.norm)
        if not model.has_time:
            self.x = np.column_stack([np.ones(len(x)), self.x])
            self.cell, self.event = np.zeros(len(x), np.int64), np.asarray(y, float) > 0.5
        else:
            time = np.asarray(y["time"], float)
            is_late = ~(time <= self._grid[-1])
            self.cell = np.minimum(np.searchsorted(self._grid, time), len(self._grid) - 1)
            self.event = (y["event"] != 0) & ~is_late
        keeps = np.isfinite(x).all(axis=1)
        keeps &= np.isfinite(np.asarray(y["time"] if model.has_time else y, float))
        self.x, self.cell, self.event = self.x[keeps], self.cell[keeps], self.event[keeps]

    def facts(self, _):
        """Names of columns, and tables of which only the number of columns is not fixed."""
        names = self._design.names
        found = {name: np.zeros(1, np.int64) for name in OF_LABELS}
        found |= {name: np.zeros(1, bool) for name in FLAGS}
        found |= {"classes": np.zeros(0), "blur": np.zeros(1)}
        found |= {"powers": np.zeros(self._design.n_columns, np.int64)}
        return None if names is None else tuple(map(str, names)), found

    def total(self, release, point) -> np.ndarray:
        """Sum of a release over the rows, in steps of its grid: exact, whatever the order."""
        found, size = np.zeros(release.size, np.int64), max(64, CHUNK // release.size)
        for first in range(0, len(self.x), size):
            rows = slice(first, first + size)
            part = getattr(self._model, release.name)(self, rows, point, release)
            found += part.ravel().astype(np.int64)
        return found

    def predictors(self, rows, coef):
        """Linear predictors, each of its row alone: a product of matrices may round by place."""
        eta = np.zeros(len(self.x[rows]))
        for j, value in enumerate(coef):
            eta += self.x[rows, j] * value
        return eta


def shorten(x, norm):
    """Rows of finite numbers that are no longer than a norm."""
    with np.errstate(all="ignore"):
        largest = np.abs(x).max(axis=1, initial=0.0)[:, None]
        unit = np.divide(x, largest, out=np.zeros_like(x), where=largest > 0)
        length = np.sqrt((unit * unit).sum(axis=1))[:, None]
        is_long = largest * length > norm
        return np.where(is_long, unit * (norm / length), x)
