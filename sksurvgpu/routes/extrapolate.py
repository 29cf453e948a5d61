"""Anderson extrapolation of the outer iterations, guarded by the caller."""

from __future__ import annotations

import numpy as np

DEPTH = 5


class Anderson:
    """Secants of the outer iteration ``image = G(coef)``, kept while its quadratic model is.

    Successive residuals ``image - coef`` and images give secant pairs.  They describe the slope of
    G, which another penalty hardly changes: a path keeps them from one penalty to the next.
    """

    def __init__(self):
        self.clear()

    def clear(self):
        """Forget all: the quadratic model is another."""
        self._residual_steps, self._image_steps = [], []
        self.restart()

    def restart(self):
        """Begin a new sequence, of another penalty or after a shortened step."""
        self._residual = self._image = None

    def propose(self, coef, image, pieces_of, root):
        """Image corrected by the secants, so that the predicted residual is least; or None.

        Every coefficient keeps to its piece of the penalty, and what lies between two pieces, as
        zeros do, stays there: the support is the iteration's.  `root` is one over the units of the
        coefficients.
        """
        residual = root * (image - coef)
        if self._residual is not None:
            self._residual_steps = [*self._residual_steps, residual - self._residual][-DEPTH:]
            self._image_steps = [*self._image_steps, image - self._image][-DEPTH:]
        self._residual, self._image = residual, image
        if len(self._residual_steps) < 2:
            return None
        pieces = pieces_of(image)
        used = np.flatnonzero((pieces.low < image) & (image < pieces.high))
        slopes = np.array(self._residual_steps)[:, used].T
        mix = np.linalg.lstsq(slopes, residual[used], rcond=None)[0]
        proposal = image.copy()
        proposal[used] -= np.array(self._image_steps)[:, used].T @ mix
        proposal[used] = np.clip(proposal[used], pieces.low[used], pieces.high[used])
        return proposal
