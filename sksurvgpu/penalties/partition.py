r"""A quadratic model under a penalty of differences, minimized exactly.

.. math:: \tfrac12 d^\top G d - g^\top d + \sum_{(a, b)} w_{ab}\,|\beta_a - \beta_b|,
          \quad \beta = \beta_0 + d,

over nodes of which the last one, the *ground*, is held at zero: edges to it are a lasso.  The
nodes are parted into sets of equal values.

(1) Newton's step of the values, all of whose differences keep their signs, is cut short where
two neighbouring sets meet, which become one.
(2) At its end, slopes inside each set must be balanced by a flow along its edges, up to their
weights.  Where they cannot, a smallest cut parts the set, and the objective falls if its sides do.

Every step lets the objective fall, and there are finitely many partitions.  Tibshirani and Taylor
(2011) follow the dual of this; here the flow is that of Hoefling (2010), tested set by set.
"""

import numpy as np
from scipy.linalg.lapack import dposv
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

MOST_ROUNDS = 10_000
NOTHING = 1e-22  # of slopes times values: the square of what rounding leaves of a slope
SAME_TIME = 1e-12  # relative: sets that meet together
SINGULAR = 1e-12  # of the largest eigenvalue
FLAT = 1e-9  # of the slope, what is not rounding along directions without curvature


class Partition:
    """Sets of equal values, and the slopes of the model at them."""

    def __init__(self, model, gradient, coef, graph, weight):
        self.model, self.graph, self.weight = model, graph, weight
        self.value = np.append(coef, 0.0)
        self.gradient = np.append(gradient, 0.0)
        tied = self.value[graph.tail] == self.value[graph.head]
        self.sign = np.sign(self.value[graph.tail] - self.value[graph.head])
        self._part(tied)

    def _part(self, tied):
        """Make sets of what edges tie; that of the ground is number 0."""
        _, label = self._components(self.graph.tail[tied], self.graph.head[tied], len(self.value))
        ground = label[-1]
        label = np.where(label == ground, 0, label + (label < ground))
        self._number(label)

    @staticmethod
    def _components(tail, head, size):
        edges = csr_array((np.ones(len(tail)), (tail, head)), shape=(size, size))
        return connected_components(edges, directed=False)

    def _number(self, label):
        """Take labels of nodes for sets, and add up the matrix over them."""
        self.label, self.n_sets = label, int(label.max()) + 1
        sets = _members(label[:-1], self.n_sets)
        self.rows = self.model.sums(sets)  # of sets, over nodes
        self.reduced = sets @ self.rows.T  # over sets: symmetric

    def slopes(self):
        """Of minus the objective at every node, without its edges inside sets."""
        tail, head = self.graph.tail, self.graph.head
        pull = np.where(self.label[tail] != self.label[head], self.weight * self.sign, 0.0)
        size = len(self.value)
        return self.gradient - np.bincount(tail, pull, size) + np.bincount(head, pull, size)

    def descend(self):
        """Newton's steps of the values until no sets meet; what the objective has lost."""
        lost = 0.0
        while self.n_sets > 1:
            slope = np.bincount(self.label, self.slopes(), self.n_sets)[1:]
            step, longest = _newton(self.reduced, slope)
            meeting, share = self._first_meeting(np.append(0.0, step), longest)
            if not np.isfinite(share):  # flat up to rounding
                break
            lost += share * (step @ slope - 0.5 * share * (step @ self.reduced @ step))
            self._move(share * step)
            if not len(meeting):
                break
            self._merge(meeting)
        return lost

    def _move(self, step):
        self.value += np.append(0.0, step)[self.label]
        self.gradient[:-1] -= step @ self.rows
        tail, head = self.graph.tail, self.graph.head
        differs = self.value[tail] != self.value[head]
        sign = np.sign(self.value[tail] - self.value[head])
        across = differs & (self.label[tail] != self.label[head])
        self.sign = np.where(across, sign, self.sign)

    def _first_meeting(self, step, longest):
        """Edges along which sets meet first on the way, and the share of the step until then."""
        tail, head = self.label[self.graph.tail], self.label[self.graph.head]
        across = np.flatnonzero((tail != head) & (self.weight > 0.0))
        rate = self.sign[across] * (step[tail[across]] - step[head[across]])
        ends = self.graph.tail[across], self.graph.head[across]
        apart = self.sign[across] * (self.value[ends[0]] - self.value[ends[1]])
        closing = rate < 0.0
        times = np.maximum(apart[closing], 0.0) / -rate[closing]
        first = times.min(initial=np.inf)
        if first >= longest:
            return across[:0], longest
        return across[closing][times <= (1.0 + SAME_TIME) * first], first

    def _merge(self, meeting):
        """Make one set of those that an edge of `meeting` joins."""
        tail, head = self.label[self.graph.tail[meeting]], self.label[self.graph.head[meeting]]
        _, joined = self._components(tail, head, self.n_sets)
        first = np.full(joined.max() + 1, self.n_sets)
        np.minimum.at(first, joined, np.arange(self.n_sets))
        value = np.zeros(self.n_sets)
        value[self.label] = self.value
        self.value = value[first[joined]][self.label]  # equal to the last bit
        # scipy numbers components in the order of their nodes: that of the ground remains 0
        self.label, self.n_sets = joined[self.label], len(first)
        sets = _members(joined[1:], self.n_sets)
        self.rows, self.reduced = sets @ self.rows, sets @ (sets @ self.reduced).T

    def split(self, enough, cautious):
        """Part sets whose slopes do not balance; whether there were any.

        `cautious` parts the worst one only, along the cut and no further, which cannot fail.
        """
        tail, head = self.graph.tail, self.graph.head
        inside = self.label[tail] == self.label[head]
        capacity = np.where(inside, self.weight, 0.0)
        slopes = self.slopes()
        slopes[-1] = -slopes[:-1][self.label[:-1] == 0].sum()  # the ground takes what comes
        excess, reached = self.graph.balance(capacity, slopes)
        over = np.bincount(self.label, np.maximum(excess, 0.0), self.n_sets)
        limit = np.full(self.n_sets, np.inf)
        np.minimum.at(limit, self.label[:-1], enough)
        fails = over > limit
        if not fails.any():
            return False
        if cautious:
            worst = int(np.argmax(np.where(fails, over / limit, 0.0)))
            side = (self.label == worst) & (reached != reached[-1] if worst == 0 else reached)
            label = np.where(side, self.n_sets, self.label)
        cut = inside & fails[self.label[tail]] & (reached[tail] != reached[head])
        self.sign = np.where(cut, np.where(reached[tail], 1.0, -1.0), self.sign)
        if cautious:
            cut &= self.label[tail] == worst
            self._number(label)
        else:
            self._part(inside & ~cut)
        return True


def minimize_on_partition(model, gradient, coef, graph, weight, enough):
    """Coefficients of the least model; `enough` is the slope by column that may be left over."""
    state = Partition(model, gradient, coef, graph, weight)
    state.descend()
    cautious = False
    for _ in range(MOST_ROUNDS):
        if not state.split(enough, cautious):
            break
        if state.descend() > NOTHING * (np.abs(state.gradient) @ np.abs(state.value)):
            cautious = False
        elif cautious:  # nothing but rounding is left
            break
        else:
            cautious = True
    return state.value[:-1]


def _members(set_of, n_sets):
    """Sets but the first as rows of ones for their members."""
    member = np.flatnonzero(set_of)
    return csr_array(
        (np.ones(len(member)), (set_of[member] - 1, member)), shape=(n_sets - 1, len(set_of))
    )


def _newton(matrix, slope):
    """Step to the minimum, and the largest share of it to take: all where it has an end.

    Along directions without curvature there is no end but where sets meet.
    """
    _, step, failed = dposv(matrix, slope)
    if not failed and np.isfinite(step).all():
        return step, 1.0
    values, vectors = np.linalg.eigh(matrix)
    part, is_flat = vectors.T @ slope, values <= SINGULAR * max(values[-1], 0.0)
    level = vectors[:, is_flat] @ part[is_flat]
    if np.linalg.norm(level) > FLAT * np.linalg.norm(slope):
        return level, np.inf
    return vectors[:, ~is_flat] @ (part[~is_flat] / values[~is_flat]), 1.0
