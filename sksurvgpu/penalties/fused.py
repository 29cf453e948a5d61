r"""The fused lasso on a graph of columns: neighbours are pulled to each other.

.. math:: P = \lambda\Bigl(\sum_j f_j\,|\beta_j| + \sum_{(j, k)} s_{jk}\,|\beta_j - \beta_k|\Bigr)

With a *ground*, a node that is held at zero, the first sum is one over edges, too.  Coefficients
are stationary where a flow along the edges between equal ones, up to their weights, balances the
slopes that are left (`flow`).  A kink in a direction that is no axis stops coordinate descent short
of the optimum, so that models are minimized as matrices, by sets of equal values (`partition`).
"""

from dataclasses import dataclass
from itertools import chain
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from ..data.by_column import find_columns
from ..data.vectors import check_numbers
from .base import Penalty
from .elastic_net import ElasticNet
from .flow import Graph
from .partition import minimize_on_partition
from .spec import Given, PenaltySpec

MOST_COLUMNS = 5_000  # whose matrix has 200 MB


class Fused(PenaltySpec):
    """Fused lasso: penalty of coefficients and of differences between neighbouring ones.

    Neighbouring coefficients are often equal, to the last bit, or zero.

    Parameters
    ----------
    edges : "chain", sequence of pairs of columns, or DataFrame with two columns
        Neighbours by name or position, each pair once; also the edges of a graph of networkx.
        "chain" makes each column the neighbour of the next one.
    strength : float or array-like of shape (n_edges,), default=1.0
        Penalty of a difference as a multiple of ``alpha``, of all edges or of each.

    See Also
    --------
    Hierarchical : Coefficients are pulled to those of classes.

    Notes
    -----
    The objective of an estimator is its mean loss plus ::

        alpha * (sum_j penalty_factor[j] * |coef[j]| + sum_(j, k) strength * |coef[j] - coef[k]|)

    With ``penalty_factor=0`` of all columns that is the penalty of differences alone. As Laplace
    priors, of variances v1 of coefficients and v2 of differences, ``alpha = alpha_of_variance(v1,
    W)`` and ``strength = alpha_of_variance(v2, W) / alpha``; R Cyclops' ``neighborhood`` states the
    same if every pair is listed in both directions, but its coordinate descent stops short of the
    optimum.

    ``kkt_`` is what no flow along the edges balances of the slopes, ``dual_gap_`` follows from the
    least factor of all penalties for which one does, and ``alpha_max_`` is the least alpha with one
    at zero; where columns with edges have a factor of 0 it is infinite, and paths need `alphas`.
    ``prior_mean`` moves what coefficients are counted from; bounds and cut points in time do not go
    with differences.

    Models are minimized as matrices, so that there can be a few thousand columns, and on the CPU.

    Examples
    --------
    Dose levels, whose effects rise in steps:

    >>> import numpy as np
    >>> from sksurvgpu import Fused, PoissonCCD
    >>> rng = np.random.default_rng(0)
    >>> dose = rng.integers(0, 12, 3_000)
    >>> y = rng.poisson(np.where(dose > 7, 2.0, 1.0))
    >>> X = (dose[:, None] == np.arange(12)).astype(float)
    >>> model = PoissonCCD(alpha=0.01, penalty=Fused("chain", strength=2.0)).fit(X, y)
    >>> len(set(model.coef_.tolist()))
    2
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"penalty_factor", "prior_mean"})
    algorithms: ClassVar[frozenset[str]] = frozenset({"majorized"})

    def __init__(self, edges, strength=1.0):
        self.edges = edges
        self.strength = strength

    def family(self, given: Given):
        n_columns = len(given.factor)
        if len(given.source) > n_columns:
            raise ValueError(
                "`penalty` is Fused, which does not go with `time_varying`: leave one of them out."
            )
        if n_columns > MOST_COLUMNS:
            raise ValueError(
                f"`X` has {n_columns:,} columns, and `penalty` is Fused, which needs the matrix of "
                f"all of them: it is for at most {MOST_COLUMNS:,}."
            )
        tail, head = _read_edges(self.edges, n_columns, given.names)
        return FusedLasso(1.0, tail, head, _read_strength(self.strength, len(tail)))


@dataclass(frozen=True, eq=False)
class FusedLasso(ElasticNet):
    """Fused lasso of every strength."""

    tail: np.ndarray = None  # type: ignore[assignment]  # (n_edges,)
    head: np.ndarray = None  # type: ignore[assignment]
    strength: np.ndarray = None  # type: ignore[assignment]

    def at(self, lam, factor, fixed):
        if lam == 0.0:
            return super().at(lam, factor, fixed)
        if fixed.any():
            raise ValueError("coefficients cannot be held under a penalty of their differences.")
        graph, weight = self.graph(factor)
        return FusedPenalty(self, self.strengths(lam, factor), fixed, graph, lam * weight)

    def graph(self, factor):
        """Graph of the columns and the ground, and the weights of its edges at a strength of 1."""
        size = len(factor)
        tail = np.concatenate([self.tail, np.arange(size)])
        head = np.concatenate([self.head, np.full(size, size)])
        weight = np.concatenate([self.strength, factor])
        used = weight > 0.0
        return Graph.of(tail[used], head[used], size + 1), weight[used]

    def is_bounded(self, n_columns):
        return np.isin(np.arange(n_columns), np.concatenate([self.tail, self.head]))

    def least_strength(self, signed, size, factor, curvature):
        if np.any(self.is_bounded(len(factor)) & (factor == 0.0)):  # zero is not where they rest
            return np.inf
        graph, weight = self.graph(factor)
        return graph.least_factor(weight, _with_ground(np.where(factor > 0.0, signed, 0.0)))


@dataclass(frozen=True)
class FusedPenalty(Penalty):
    """A fused penalty at one strength."""

    graph: Graph
    weight: np.ndarray  # of edges

    needs_matrix: ClassVar[bool] = True

    def value(self, coef):
        return float(self.weight @ np.abs(self._differences(coef)))

    def _differences(self, coef):
        value = np.append(coef, 0.0)
        return value[self.graph.tail] - value[self.graph.head]

    def violation(self, coef, gradient):
        """Slopes that no flow along edges between equal coefficients can balance."""
        graph, size = self.graph, self.graph.n_nodes
        sign = np.sign(self._differences(coef))
        pull, tied = self.weight * sign, sign == 0.0
        slopes = np.append(gradient, 0.0)
        slopes += np.bincount(graph.head, pull, size) - np.bincount(graph.tail, pull, size)
        label = self._sets(tied)
        at_zero = label[:-1] == label[-1]
        slopes[-1] = -slopes[:-1][at_zero].sum()  # the ground takes what comes
        excess, _ = graph.balance(np.where(tied, self.weight, 0.0), slopes)
        return np.abs(excess[:-1])

    def _sets(self, tied):
        """Numbers of the sets that edges join, of columns and of the ground."""
        size, graph = self.graph.n_nodes, self.graph
        joins = np.ones(tied.sum()), (graph.tail[tied], graph.head[tied])
        return connected_components(csr_array(joins, shape=(size, size)), directed=False)[1]

    def is_near(self, coef, gradient, share):
        """All columns: slopes of one matter to others."""
        return ~self.fixed

    def rests(self, gradient, error):
        """No column rests at zero for its own slope."""
        return self.fixed

    def gap(self, coef, gradient, loglik, loglik_bound):
        factor = self.graph.least_factor(self.weight, _with_ground(gradient), 1.0)
        if not np.isfinite(factor):
            return np.nan
        slack = (1.0 - 1.0 / factor) * (loglik_bound - loglik) if factor > 1.0 else 0.0
        return float(max(slack + self.value(coef) - coef @ gradient / factor, 0.0))

    def minimize_on_matrix(self, model, gradient, coef, enough):
        """Coefficients of all columns that minimize a quadratic model.

        `gradient` is at `coef`, and `enough` of it, by column, may be left over.
        """
        return minimize_on_partition(model, gradient, coef, self.graph, self.weight, enough)


def _with_ground(gradient):
    """Slopes as supplies of nodes; the ground takes what comes."""
    return np.append(gradient, -gradient.sum())


def _read_edges(edges, n_columns, names):
    """Positions of the two columns of every edge."""
    if isinstance(edges, str):
        if edges != "chain":
            raise ValueError(f'`edges` is {edges!r}; pass "chain", or pairs of columns.')
        first = np.arange(n_columns - 1)
        return first, first + 1
    pairs = edges.to_numpy().tolist() if hasattr(edges, "to_numpy") else list(edges)
    found, positions = {}, find_columns(chain.from_iterable(pairs), "edges", n_columns, names)
    for pair in pairs:
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"`edges` has {pair!r}, must have pairs of columns.")
        ends = [next(positions), next(positions)]
        if ends[0] == ends[1]:
            raise ValueError(f"`edges` has {tuple(pair)!r}, a column and itself; leave it out.")
        if tuple(sorted(ends)) in found:
            raise ValueError(
                f"`edges` has the columns of {tuple(pair)!r} twice; pass a pair once, in either "
                "order."
            )
        found[tuple(sorted(ends))] = None
    if not found:
        raise ValueError("`edges` has no pair of columns; pass some, or leave the penalty out.")
    tail, head = np.array([*found], dtype=np.int64).T
    return tail, head


def _read_strength(strength, n_edges):
    numbers = np.atleast_1d(check_numbers(np.atleast_1d(strength), "strength", 0))
    if numbers.shape not in ((1,), (n_edges,)):
        raise ValueError(
            f"`strength` has {numbers.size:,} entries, `edges` has {n_edges:,}; pass one for all, "
            "or one for each."
        )
    return np.broadcast_to(numbers, n_edges)
