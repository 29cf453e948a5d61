"""Search for the bounds of a profile likelihood, from few points of it.

With the objective q(b) of the fit in which a coefficient is held at b, a bound solves
``r(b) = +-c`` for the signed root ``r(b) = sign(b - b0) sqrt(2 (q(b) - q(b0)) / dispersion)``,
c^2 the quantile. r is a straight line where q is a parabola, and one smooth curve through both
bounds: inverse interpolation through the points nearest to a bound, from either side, finds it in
few steps.

q is convex, being the minimum of a convex objective over the other coefficients. Where it rises at
all, it goes on rising at least as fast: there is a bound, not farther than a straight line through
a point says. A bound is infinite only where q never rises.
"""

import numpy as np

CLOSE = 2e-5  # |r| / c - 1 of the last point; what is left is interpolated
NARROW = 1e-9  # of a bracket, relative to its distance from the maximum
NEIGHBOURS = 4  # of an interpolation
GROWTH = 8.0  # most that a step may multiply the distance from the first point
# Ranges of the linear predictor. Beyond e^100 only the rows of highest predictor still count, and a
# slope that is still there has no meaning; the last one ends the search where q keeps falling.
LONGEST_STEP, FLAT_BEYOND, FARTHEST = 30.0, 100.0, 1e6
FLAT = 1e-4  # rise of q, as a share of what makes a bound, below which it is none


class ProfileCurve:
    """Points of one profile: values of the coefficient and the least objective at each."""

    def __init__(self, origin, objective, span, dispersion=1.0):
        self.values, self.objectives = [float(origin)], [float(objective)]
        self.origin, self.span, self.dispersion = float(origin), span, dispersion

    def add(self, value, objective):
        """Record a point."""
        self.values.append(float(value))
        self.objectives.append(float(objective))

    @property
    def maximum(self):
        """Value at which the likelihood is highest."""
        return self.values[int(np.argmin(self.objectives))]

    def nearest(self, value):
        """Position of the point nearest to a value."""
        return int(np.argmin(np.abs(np.array(self.values) - value)))

    def ratios(self):
        """Statistic of the likelihood ratio test of every point against the maximum."""
        objectives = np.array(self.objectives)
        return 2.0 * (objectives - objectives.min()) / self.dispersion

    def outward(self, sign):
        """Distances from the first point, and roots, from the maximum outwards on one side."""
        x = sign * (np.array(self.values) - self.origin)
        centre = sign * (self.maximum - self.origin)
        r = np.where(x < centre, -1.0, 1.0) * np.sqrt(self.ratios())
        order = np.argsort(x, kind="stable")
        x, r = x[order], r[order]
        first = int(np.flatnonzero(x == centre)[0])
        return x, r, first

    def interpolate(self, sign, target, neighbours=NEIGHBOURS):
        """Distance at which the root is `target`, from the points next to it; may be nonsense."""
        x, r, _ = self.outward(sign)
        r, kept = np.unique(r, return_index=True)
        x = x[kept]
        near = np.argsort(np.abs(r - target))[:neighbours]
        x, r = x[near], r[near]
        found = 0.0
        for i in range(len(x)):  # Lagrange's polynomial for x of r
            others = np.delete(r, i)
            found += x[i] * np.prod((target - others) / (r[i] - others))
        return float(found)


class Bound:
    """One end of an interval: says where to look next until it knows."""

    def __init__(self, curve, sign, root, first_step):
        self._curve, self._sign, self._root = curve, sign, root
        longest = LONGEST_STEP / curve.span if curve.span > 0 else np.inf
        self._step = min(first_step, longest)
        self._least = np.inf  # |r - c| of the best point, where an interpolation followed it
        self.value = None if curve.span > 0 else sign * np.inf

    def propose(self):
        """Value to evaluate next; None where the bound is known, and in `value`."""
        proposal = None if self.value is not None else self._propose()
        if proposal in self._curve.values:  # nothing lies between neighbouring numbers
            self.value, proposal = proposal, None
        return proposal

    def _propose(self):
        x, r, centre = self._curve.outward(self._sign)
        error = np.abs(r - self._root)
        best = int(np.argmin(error))
        slow, self._least = error[best] > 0.5 * self._least, np.inf
        beyond = np.flatnonzero(r >= self._root)
        beyond = beyond[beyond > centre]
        if len(beyond):
            low, high = x[beyond[0] - 1], x[beyond[0]]
        else:
            low, high = x[-1], np.inf
        if error[best] <= CLOSE * self._root:
            return self._settle(self._curve.interpolate(self._sign, self._root, 3), x[best])
        if not len(beyond):
            return self._expand(x, r, centre, slow)
        if high - low <= NARROW * (high - x[centre]):
            return self._settle(high, high)
        found = self._curve.interpolate(self._sign, self._root)
        if slow or not low < found < high:
            return self._at(0.5 * (low + high))
        self._least = float(error[best])
        return self._at(found)

    def _at(self, x):
        return self._curve.origin + self._sign * x

    def _settle(self, x, known):
        """End with an interpolated distance, unless it is far from the point that is known."""
        middle = self._sign * (self._curve.maximum - self._curve.origin)
        off = abs(x - known) > 100.0 * CLOSE * abs(known - middle)
        self.value = self._at(known if off else x)

    def _falls(self, least):
        """Whether the objective fell by more than `least` between the last two points."""
        ratios = self._curve.ratios()
        before, last = np.argsort(self._sign * np.array(self._curve.values))[-2:]
        return ratios[before] - ratios[last] > least

    def _expand(self, x, r, centre, slow):
        """Go farther out than the last point, or find that the likelihood does not fall."""
        last, rise = float(x[-1]), float(r[-1] ** 2)
        enough, moved = self._root**2, float(x[-1]) * self._curve.span
        if last <= 0:
            return self._at(self._step)
        is_flat = moved >= FLAT_BEYOND and rise <= FLAT * enough and not self._falls(FLAT * enough)
        if is_flat or moved >= FARTHEST:
            self.value = self._sign * np.inf
            return None
        farthest = GROWTH * last
        start = float(x[centre])
        # By convexity the bound is not beyond this.
        surely = start + (last - start) * enough / rise if rise > 0 else np.inf
        found = self._curve.interpolate(self._sign, self._root)
        if slow or not last < found < min(surely, farthest):
            return self._at(min(surely, farthest))
        self._least = self._root - float(r[-1])
        return self._at(found)
