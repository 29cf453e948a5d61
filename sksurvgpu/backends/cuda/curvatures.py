"""Curvatures of columns in quadratic models, of many fits in one launch."""

import numpy as np

from . import model as kernels
from .predictor import Tasks
from .team import WARP

# Below this share of sum x^2 h a centred curvature is rounding, of h above all: the column is
# constant within bins.
CONSTANT = {"float64": 1e-13, "float32": 1e-6}


class CurvatureLaunches:
    """Launches that load columns of models, for some fits."""

    def __init__(self, layout, few, n_fits, n_columns, n_bins):
        self._layout, self._device, self._few, self._n_bins = layout, layout.device, few, n_bins
        empty = self._device.empty
        self._out = empty(n_fits * (layout.n_members + 2 * n_columns), np.float64)
        self._nowhere = empty(0, np.int64), empty((n_fits, 1, 0), np.float64)
        shape = shape_of_warps(layout.device, few, layout.is_whole, n_bins)
        self._sums_of_warps = self._device.zeros(shape, np.float64)

    def find(self, model, fits, tasks, sent):
        """Curvature of columns of each fit, in the model and without bins; its sum of h."""
        shape = len(fits), self._layout.n_members
        found = self._launch(model, tasks, sent, fits, self._nowhere)
        edge = len(found) - 2 * len(tasks)
        totals = found[:edge].reshape(shape).sum(axis=1)
        curvature = tasks.split(found[edge:].reshape(-1, 2))
        return list(zip(curvature, map(float, totals), strict=True))

    def load(self, model, fits, columns, places, loads):
        """Curvatures of columns, whose loads go to their places in the fits' part of `loads`."""
        tasks = Tasks(fits, columns)
        if not len(tasks):
            return [np.empty((0, 2))] * len(fits)
        *sent, places = self._device.send(*tasks.arrays, np.concatenate(places))
        found = self._launch(model, tasks, sent, fits[:0], (places, loads))
        return tasks.split(found.reshape(-1, 2))

    def _launch(self, model, tasks, sent, fits, loads):
        """Launch the sums of curvatures: parts of the sums of h of fits, then curvatures."""
        n_parts, layout, view = self._layout.n_members, self._layout, self._device.view
        edge, end = len(fits) * n_parts, len(fits) * n_parts + 2 * len(tasks)
        sums = view(self._out[:edge], np.float64, (len(fits), n_parts))
        curvature = view(self._out[edge:end], np.float64, (len(tasks), 2))
        arguments = [layout.X, *sent[:2], model, CONSTANT[model.h.dtype.name]]
        n_tasks = len(tasks) + edge
        if self._few:
            size = self._n_bins * kernels.numbers_of(model)
            arguments += [size, *loads]
        elif not layout.is_whole:
            arguments.append(self._sums_of_warps)
        arguments += [curvature, layout.served(fits), sums]
        if self._few:
            layout.launch_tasks(kernels.load_few, n_tasks, *arguments, each=8 * size)
        elif layout.is_whole:
            layout.launch_tasks(kernels.load_groups, n_tasks, *arguments)
        else:
            blocks = min(n_tasks, len(self._sums_of_warps))
            self._device.launch(kernels.load_copies, blocks, WARP, tuple(arguments))
        return self._device.download(self._out[:end])


def shape_of_warps(device, few, is_whole, n_bins):
    """Of what warps add up in groups whose rows have copies."""
    return (0, 0) if few or is_whole else (device.n_multiprocessors, n_bins)
