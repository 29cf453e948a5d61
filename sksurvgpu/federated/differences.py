"""Rows that differences of sums are of, where every single sum is of enough.

Two groupings
-------------
Sums by cell of exit, E_k, and by cell of entry, B_l, combine to ``sum_k a_k E_k - sum_l b_l B_l``,
a sum over rows with coefficients ``a[exit] - b[entry]``.  Let cells be nodes, and rows edges from
their exit to their entry: a row is in the sum where the numbers at its ends differ.  Take the
numbers of one connected component, of which some two differ, and a threshold between these: the
edges across the threshold separate the component, and all are in the sum.  The other way round,
ones on one side of a cut and zeros on the other leave the rows of the cut.  So no combination is of
fewer rows than the smallest cut of a component has, and one is of just these.  A coarser grouping
joins nodes, which leaves no new cuts.

Sums by cell are told of exits less entries only.  Then the two groupings have their cells, and
their nodes, in common, and who enters at the beginning ends at a node that all strata share.

A person with m rows counts as 1 / m in each: a cut weighs at most as much as it has persons.

Columns nearly alike
--------------------
The difference of the sums of two columns is a sum over the persons in whom they differ.  A column
is a set of tokens, one a person, made of its rows and values.  Let persons be in some order, and
compare the first L tokens of two columns: where the columns differ in fewer than k persons, all but
k - 1 of the tokens of the list that ends first are in the other list, too.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from ..data.design.entries import entries_of

PARTS = 720_720  # of a person: divided by 1 to 16 without remainder
BLOCK = 256  # columns that are compared with all others at a time
COARSER = "ask it to start anew, and for coarser times (`rows_per_time` of the coordinator)"


def tell_few(outcome, unit, uses_ties, min_rows) -> str | None:
    """Why combinations of sums by time would be of few rows; None where none is.

    Sums are those of exits, of entries, with Efron's ties of deaths, and with competing events of
    each status, in a stratum or in a group of censoring.
    """
    if min_rows <= 1:
        return None
    stratum = np.zeros(outcome.n_rows) if outcome.stratum is None else outcome.stratum
    end, event = _code(stratum, outcome.time), outcome.event
    if outcome.status is not None:
        status, group = outcome.status, outcome.censoring_group
        group = stratum if group is None else group
        first = _code(end, status, np.where(status == 2, group, 0))
        if smallest_cut(first, _code(group, outcome.time, status == 0), min_rows, unit) < min_rows:
            return (
                f"sums by stratum less those by group of censoring are of fewer than {min_rows} "
                f"rows; {COARSER}"
            )
        return None
    if not uses_ties and 0 < _fewest_apart(end, event, unit) < min_rows:
        return (
            f"fewer than {min_rows} rows end without an event, of which sums over all rows less "
            "those over events are; ask it to start anew with a grid that ends earlier"
        )
    if outcome.start is not None and outcome.start.any():
        has_own = event & uses_ties  # of deaths there are sums by cell, too
        begins = np.where(outcome.start > 0.0, stratum, -1)
        both = _code(
            np.concatenate([stratum, begins]),
            np.concatenate([outcome.time, outcome.start]),
            np.concatenate([has_own, np.zeros(len(event), bool)]),
        )
        exits, entries = np.split(both, 2)
        if smallest_cut(exits, entries, min_rows, unit, shared=True) < min_rows:
            return f"exits less entries are sums of fewer than {min_rows} rows; {COARSER}"
    return None


def _code(*labels):
    """A number for every combination of labels that rows have."""
    code = np.zeros(len(labels[0]), np.int64)
    for each in labels:
        distinct, number = np.unique(each, return_inverse=True)
        code = np.unique(code * len(distinct) + number, return_inverse=True)[1]
    return code


def _fewest_apart(cell, event, unit):
    """Rows of sums by cell less a sum over all events: of each cell those with it or without."""
    unit = np.arange(len(cell)) if unit is None else unit
    counts = np.zeros((2, cell.max(initial=-1) + 1), np.int64)
    for has, count in zip((~event, event), counts, strict=True):
        persons = np.unique(_code(cell[has], unit[has]), return_index=True)[1]
        np.add.at(count, cell[has][persons], 1)
    return int(counts.min(axis=0).sum())


def smallest_cut(first, second, enough, unit=None, shared=False) -> float:
    """Rows, or persons, of the smallest cut of two groupings of rows; `enough` if it has as many.

    Parameters
    ----------
    first, second : ndarray of shape (n_rows,)
        Labels of the groups.
    enough : int
    unit : ndarray of shape (n_rows,), or None
        Whose the rows are, from 0 on; of several rows a person counts a part in each.
    shared : bool
        Whether a label that both groupings have is one group.

    Notes
    -----
    Nagamochi and Ibaraki's contractions [1]_, as long as cuts are below what was found.

    References
    ----------
    .. [1] H. Nagamochi and T. Ibaraki, "Computing edge-connectivity in multigraphs and capacitated
       graphs", SIAM J. Discrete Math. 5, 1992.
    """
    weight, whole = np.ones(len(first)), 1
    if unit is not None:
        weight, whole = (PARTS // np.maximum(np.bincount(unit), 1))[unit].astype(np.float64), PARTS
    u, v = (first, second) if shared else (_code(first), _code(second))
    graph: tuple[Any, ...] = _joined(u, v if shared else v + u.max(initial=-1) + 1, weight)
    least = found = float(enough * whole)
    while np.any(graph[2] >= least):
        u, v, weight = graph
        graph = _contracted(u, v, weight, weight >= least)
    for part in _components(*graph):
        found = _cut_of(part, found)
    return found / whole


def _joined(u, v, weight):
    """Edges without loops, of which any two nodes have one; nodes are numbered anew."""
    is_edge = u != v
    u, v, weight = u[is_edge], v[is_edge], weight[is_edge]
    nodes, ends = np.unique(np.stack([np.minimum(u, v), np.maximum(u, v)]), return_inverse=True)
    u, v = ends.reshape(2, -1)
    pairs, pair = np.unique(u * len(nodes) + v, return_inverse=True)
    weight = np.bincount(pair, weight, minlength=len(pairs))
    return *np.divmod(pairs, max(1, len(nodes))), weight


def _nodes_of(u, v, chosen):
    """Number of the component of every node under some of the edges."""
    n = int(v.max(initial=-1)) + 1  # the larger end
    ones = np.ones(np.count_nonzero(chosen), np.int8)
    graph = coo_array((ones, (u[chosen], v[chosen])), shape=(n, n))
    return connected_components(graph, directed=False)[1]


def _contracted(u, v, weight, chosen):
    node = _nodes_of(u, v, chosen)
    return _joined(node[u], node[v], weight)


def _components(u, v, weight) -> Iterator[tuple]:
    if not len(u):
        return
    component = _nodes_of(u, v, np.ones(len(u), bool))[u]
    order = np.argsort(component, kind="stable")
    for edges in np.split(order, np.flatnonzero(np.diff(component[order])) + 1):
        yield _joined(u[edges], v[edges], weight[edges])


def _cut_of(graph, bound):
    """The smallest cut of a connected graph, or the bound where it is none below."""
    while len(graph[0]):
        u, v, weight = graph
        degree = np.bincount(u, weight, minlength=v.max() + 1) + np.bincount(v, weight)
        bound = min(bound, float(degree.min()))
        graph = _contracted(*graph, _connectivity(u, v, weight, len(degree)) >= bound)
    return bound


def _connectivity(u, v, weight, n):
    """Weight that every cut between the ends of an edge has at least, from an order of nodes.

    The next node is always the one with most weight to those before.  The last edge to the last
    node has all of its weight, so that some edge is always contracted.
    """
    place = np.argsort(np.concatenate([u, v]), kind="stable")
    other, weights = np.concatenate([v, u])[place], np.tile(weight, 2)[place]
    ptr = np.concatenate([[0], np.cumsum(np.bincount(u, minlength=n) + np.bincount(v))])
    reach, proven = np.zeros(n), np.empty(len(place))
    for _ in range(n):
        node = int(reach.argmax())
        reach[node] = -np.inf
        edges = slice(ptr[node], ptr[node + 1])
        near = other[edges]
        reach[near] += weights[edges]
        proven[edges] = reach[near]
    found = np.empty(len(place))
    found[place] = proven
    return np.maximum(found[: len(u)], found[len(u) :])


def find_near(design, unit, min_rows) -> np.ndarray:
    """Columns that differ from an earlier one, which stays, in some persons and in fewer than k.

    Values are compared as they are; those of columns with two values only as marks, too, whatever
    the values, and also with the marks of the other value.  Columns of which fewer than k persons
    have values are not found.
    """
    is_near = np.zeros(design.n_columns, bool)
    if min_rows <= 1:
        return is_near
    column, forms, number, groups = _list_forms(design, unit, min_rows)
    beside: list[list[int]] = [[] for _ in range(len(groups))]
    tokens_of = _Tokens(design, unit, min_rows)
    for i, j in _candidates([forms[at] for at in groups], min_rows):
        pair = [tokens_of(column[groups[k]], forms[groups[k]].which) for k in (i, j)]
        if _count_differing(*pair) < min_rows:
            beside[i].append(j)
            beside[j].append(i)
    is_taken = np.zeros(len(groups), bool)
    of_column = np.split(number, np.searchsorted(column, np.arange(1, design.n_columns)))
    for j, own in enumerate(of_column[: design.n_columns]):
        is_near[j] = is_taken[own].any()
        if not is_near[j]:
            is_taken[[k for group in own for k in beside[group]]] = True
    return is_near


class _Form:
    """One way to write a column: its number of persons, first tokens, and their sum."""

    def __init__(self, which, persons, tokens, rank, most):
        self.which, self.size = which, len(persons)
        self.key = self.size, int(tokens.sum(dtype=np.uint64))
        if self.size > most:
            tokens = tokens[np.argpartition(rank[persons], most - 1)[:most]]
        self.first = tokens


def _list_forms(design, unit, min_rows):
    """Forms of all columns with the columns' numbers; their groups of alike ones, and the first."""
    whose = design.indices.astype(np.int64)
    whose, n = (whose, design.n_rows) if unit is None else (unit[whose], unit.max(initial=-1) + 1)
    rank = np.empty(n, np.int64)  # who has few columns is first, so that lists share little
    rank[np.argsort(np.bincount(whose, minlength=n), kind="stable")] = np.arange(n)
    tokens_of, column, forms = _Tokens(design, unit, min_rows), [], []
    for j in range(design.n_columns):
        for which, tokens in enumerate(tokens_of.all(j)):
            if len(tokens[0]):
                column.append(j)
                forms.append(_Form(which, *tokens, rank, 2 * min_rows))
    known: dict[tuple[int, int], int] = {}
    number = [known.setdefault(form.key, len(known)) for form in forms]
    groups = np.unique(number, return_index=True)[1]
    return np.array(column, np.int64), forms, np.array(number, np.int64), groups


class _Tokens:
    """Persons of a column, each with a token of its rows and values there."""

    def __init__(self, design, unit, min_rows):
        self._design, self._unit = design, unit
        rows = np.ones(min_rows) if unit is None else np.sort(np.bincount(unit))
        self._most = rows[-(min_rows - 1) :].sum()  # rows of fewer persons than `min_rows`
        self._of_marks = _tokens_of(np.arange(design.n_rows), np.ones(1))

    def __call__(self, j, which):
        return next(tokens for k, tokens in enumerate(self.all(j)) if k == which)

    def all(self, j):
        """Tokens of every form of a column: of values, of marks, of the other marks."""
        design = self._design
        rows, values = entries_of(design, j)
        rows = rows.astype(np.int64)
        is_mark = values == values[:1]
        others, marks = values[~is_mark], rows[is_mark]
        if len(others) or np.any(values != 1.0):
            yield self._of(rows, _tokens_of(rows, values))
        if len(others) and (len(rows) < design.n_rows or np.any(others != others[0])):
            return
        yield self._of(marks, self._of_marks[marks])
        if 2 * len(marks) >= design.n_rows - self._most:
            without = np.setdiff1d(np.arange(design.n_rows), marks, assume_unique=True)
            yield self._of(without, self._of_marks[without])

    def _of(self, rows, tokens):
        if self._unit is None or not len(rows):
            return rows, tokens
        order = np.argsort(self._unit[rows], kind="stable")
        whose = self._unit[rows][order]
        begin = np.flatnonzero(np.diff(whose, prepend=-1))
        return whose[begin], np.add.reduceat(tokens[order], begin)


def _tokens_of(rows, values):
    return mixed(mixed(np.ascontiguousarray(values).view(np.uint64)) + rows.view(np.uint64))


def mixed(numbers):
    """Numbers of 64 bits, mixed (SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _candidates(forms, min_rows):
    """Pairs of forms that may differ in fewer than so many persons, by their first tokens."""
    if not forms:
        return
    length = np.array([len(form.first) for form in forms])
    size = np.array([form.size for form in forms])
    tokens, number = np.unique(np.concatenate([f.first for f in forms]), return_inverse=True)
    ptr, ones = np.concatenate([[0], np.cumsum(length)]), np.ones(len(number), np.int32)
    has = csr_array((ones, number, ptr), shape=(len(forms), len(tokens)))
    turned = has.T.tocsr()
    for begin in range(0, len(forms), BLOCK):
        shared = (has[begin : begin + BLOCK] @ turned).tocoo()
        i, j = shared.coords[0] + begin, shared.coords[1]
        asked = np.maximum(np.minimum(length[i], length[j]) - (min_rows - 1), 1)
        may = (i < j) & (shared.data >= asked) & (abs(size[i] - size[j]) < min_rows)
        yield from zip(i[may].tolist(), j[may].tolist(), strict=True)


def _count_differing(one, other):
    """Persons whose tokens differ, or who are in one of two only."""
    common, i, j = np.intersect1d(one[0], other[0], assume_unique=True, return_indices=True)
    n_same = np.count_nonzero(one[1][i] == other[1][j])
    return len(one[0]) + len(other[0]) - len(common) - n_same
