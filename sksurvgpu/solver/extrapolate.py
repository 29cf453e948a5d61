"""Anderson extrapolation of the outer iterations (depth 5), guarded by the caller."""

from __future__ import annotations

import numpy as np

DEPTH = 5


class Anderson:
    """Remembers pairs (coefficients, their image under one outer iteration)."""

    def __init__(self):
        self.clear()

    def clear(self):
        self._before, self._after = [], []

    def propose(self, before, after):
        """Combination of past images whose combined residual is least, or None.

        Zeros of the last image stay zero and no sign changes, so that the support is the
        iteration's own.
        """
        self._before = [*self._before[-DEPTH:], before]
        self._after = [*self._after[-DEPTH:], after]
        if len(self._after) < 3:
            return None
        used = np.flatnonzero(np.any([a != 0 for a in self._after + self._before], axis=0))
        images = np.array([a[used] for a in self._after])
        residuals = images - np.array([b[used] for b in self._before])
        differences = np.diff(residuals, axis=0).T
        mix = np.linalg.lstsq(differences, residuals[-1], rcond=None)[0]
        combined = images[-1] - np.diff(images, axis=0).T @ mix
        combined[(images[-1] == 0) | (np.sign(combined) != np.sign(images[-1]))] = 0.0
        proposal = after.copy()
        proposal[used] = combined
        return proposal
