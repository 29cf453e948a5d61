"""Separation: which coefficients without a penalty have no finite estimate.

The likelihood has directions d along which it never falls: the cone D of all d with
x_e d >= x_i d for every event e and every rival i (`_contests`). Let L be the directions along
which it is constant, as those of collinear columns. If D = L, the likelihood has a maximum.
Otherwise it rises for ever along any d in D that is not in L, and coefficients are infinite:
exactly those that some d in D moves, which are those that the span of D moves (Albert and Anderson
1984; Geyer 2009). Columns with a penalty cannot take part: it grows along every direction that
moves them, and the likelihood is bounded.

That is decided by linear programs (Konis 2007) over z, the coefficients in units of their column's
range, within the box -1 <= z_j <= 1. There are far more pairs of event and rival than rows, but few
matter. So the program has a growing set of pairs a_m = x_e - x_i, and

    1.  a random z in the null space of A is held against all rows; pairs that it changes go into
        the set, until there are none: the null space is L.
    2.  maximize the sum of a_m z over pairs where a_m Z = 0, subject to A z >= 0. Z is the sum of
        the directions in D found so far: single columns, what tries and the fit have begun.
    3.  if the maximum is positive, z is held against all rows: where it fails, the pairs that it
        violates go into the set; where none does, z is in D and is added to Z. Back to 2.
    4.  if the maximum is 0 and Z is, too, D = L. A few pairs prove it for all.
    5.  if Z is not, the span of D lies in the null space of the pairs with a_m Z = 0. It is equal
        if some step from Z along any z in there breaks no pair; else these go into the set, and
        back to 2.

Differences within SLACK of a column's range count as none: what is so nearly separated is taken for
separated. Indicators and other integers are decided exactly.
"""

from functools import cached_property

import numpy as np
from scipy.linalg import qr
from scipy.optimize import linprog
from scipy.sparse import csr_array, diags_array
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from .._warnings import warn
from ._finite import proves_maximum
from ._free_columns import FreeColumns, few_of, flat_of, is_collinear, set_aside

POSITIVE = 1e-7  # a pair's difference, of its largest among the columns, that is not rounding
DEPENDENT = 1e-8  # singular value, of the largest, below which pairs do not tell directions apart
MOVES = 1e-6  # entry of a unit vector that is not rounding
STEPS = 1e-3, 1e-4, 1e-5, 1e-6  # from a direction within D to one beside it
# Pairs to begin with, a column; and those that a pass over the rows adds, if it finds as many.
FIRST_PAIRS, MORE_PAIRS, FEWEST_PAIRS = 10, 2, 64
# Tries without a linear program, before and after a fit is asked for a proof; Newton steps of each.
FEW_ROUNDS, MORE_ROUNDS, MOST_STEPS = 3, 9, 60
FEW_COLUMNS = 100  # up to which linear programs are solved where a yes or no is enough
# Rows a column: up to here, a fit's information costs less than tries with dense and sparse pairs.
WIDE, WIDE_SPARSE = 100, 20
SPARSE = 0.05  # entries, of all, of pairs that are sparse; a pair has those of two rows
MOST_OF_PROOF, MOST_OF_WIDE = 1e10, 1e11  # rows times squared columns: seconds, if sparse two
MOST_WORK = 1e9  # pairs times squared columns of all linear programs: some ten seconds
SURE, RIDGE = 1e-6, 1e-14  # where a minimum is given up, and of the trace, so that it is one point
UP, LAST = 1.001, 1.0001  # what rising directions and last columns cost, of what others do
FINEST = 1e-10  # tolerance of the linear program: the solver takes none below


def find_infinite(problem, weight, is_free, point=None) -> np.ndarray:
    """Coefficients without a finite estimate, bool per column of the model.

    `is_free` says which have no penalty; rows of `weight` are in the caller's order. `point` is the
    offset and the coefficients of a fit, which may prove that there are none, or lie in D.
    """
    return find_directions(problem, weight, is_free, point)[0]


def find_directions(problem, weight, is_free, point=None) -> tuple[np.ndarray, int]:
    """Which coefficients are infinite; dimension of L, of linear models the number of constants."""
    if getattr(problem.likelihood, "is_quadratic", False):
        return np.zeros(problem.n_columns, bool), len(flat_of(problem, is_free))
    n_free = int(np.count_nonzero(is_free))
    if n_free > problem.plan.n_rows:
        few, point = few_of(problem, _contests_of(problem, weight, is_free), is_free, point)
        found, n_constant = find_directions(problem, weight, few, point)
        return found, n_constant + np.count_nonzero(is_free & ~few)
    n_rows, is_sparse = problem.plan.n_rows, False
    if n_rows > WIDE_SPARSE * n_free > 0:
        n_entries = problem.X.select(problem.source[is_free]).n_entries
        is_sparse = 2 * n_entries <= SPARSE * n_rows * n_free
    is_wide = n_rows <= WIDE * n_free and not is_sparse
    most = MOST_OF_WIDE if is_wide or is_sparse else MOST_OF_PROOF
    is_cheap = n_rows * float(n_free) ** 2 <= most

    def proves(weight=weight, is_free=is_free):
        return point is not None and is_cheap and proves_maximum(problem, weight, *point, is_free)

    if is_wide and proves():
        return np.zeros(problem.n_columns, bool), 0
    contests, coef = _contests_of(problem, weight, is_free), None if point is None else point[1]
    search = _search_of(problem, contests, is_free)
    if search and (found := _search_beside(problem, contests, search, weight, is_free, proves)):
        return found
    found = _search(problem, search, is_free, (lambda: False) if is_wide else proves, coef)
    return found[0], found[2]


def find_undetermined(problem, weight, is_free) -> np.ndarray:
    """Coefficients without a finite estimate, or with many: of columns that are collinear, too.

    Columns that do not vary have no effect, and their coefficients do not count.
    """
    search = _search_of(problem, _contests_of(problem, weight, is_free), is_free)
    is_infinite, is_constant, _ = _search(problem, search, is_free)
    if getattr(problem.likelihood, "is_quadratic", False) and is_free.any():
        is_constant[is_free] = is_collinear(problem, weight, np.flatnonzero(is_free))
    return is_infinite | is_constant


def is_determined(problem, weight, is_free) -> bool:
    """Whether `find_undetermined` finds nothing: far quicker where there are many columns."""
    if getattr(problem.likelihood, "is_quadratic", False) and is_free.any():
        return not is_collinear(problem, weight, np.flatnonzero(is_free)).any()
    contests = _contests_of(problem, weight, is_free)
    if (columns := _columns_of(problem, contests, is_free)) is None:
        return True
    return len(columns.idx) <= problem.plan.n_rows and Search(contests, columns).finds_nothing()


def _search(problem, search, is_free, proves=lambda: False, coef=None):
    """Coefficients that are infinite, that directions without an effect move, and their number."""
    is_infinite, is_constant = np.zeros((2, problem.n_columns), bool)
    n_constant = int(np.count_nonzero(is_free))
    if search is not None:
        is_infinite[search.idx] = search.moved(proves, coef)
        is_constant[search.idx] = search.is_constant()
        n_constant -= len(search.idx) - search.constant.shape[1]
    return is_infinite, is_constant, n_constant


def _search_beside(problem, contests, whole, weight, is_free, proves):
    """Infinite coefficients and directions without an effect, beside columns that separate alone.

    Further columns are infinite if they are so, or have no effect, in the rows that are left. Of
    columns that are collinear in all rows, `moves` says which are infinite.
    """
    is_lone, is_gone = set_aside(problem, contests, is_free)
    if not is_lone.any() or whole.constant.shape[1]:
        return None
    rest = np.zeros_like(is_free)
    rest[whole.idx] = True
    rest &= ~is_lone
    is_infinite, search = is_lone | rest, _search_of(problem, contests.without(is_gone), rest)
    if search is not None:
        varies, left = np.zeros_like(is_free), weight.copy()
        varies[search.idx], left[problem.plan.order[is_gone[:-1]]] = True, 0.0
        has_proofs = problem.likelihood.pattern.weighs_rows
        moved = search.moved(lambda: has_proofs and proves(left, varies))
        is_infinite[search.idx] = moved | search.is_constant()
    return is_infinite, int(np.count_nonzero(is_free)) - len(whole.idx)


def _contests_of(problem, weight, is_free):
    return problem.likelihood.pattern.contests(problem, weight) if is_free.any() else None


def _search_of(problem, contests, is_free):
    """A search over the columns that vary; None where nothing can be found."""
    columns = _columns_of(problem, contests, is_free)
    return None if columns is None else Search(contests, columns)


def _columns_of(problem, contests, is_free):
    if contests is None or not len(contests.rival) or not is_free.any():
        return None
    columns = FreeColumns(problem, np.flatnonzero(is_free), contests.rows)
    return columns if len(columns.idx) else None


class Search:
    """The pairs so far, and what they say of the directions: `constant` is L, `inside` is Z."""

    def __init__(self, contests, columns):
        self._contests, self._columns, self.idx = contests, columns, columns.idx
        self._rng = np.random.default_rng(0)
        self._known: set[tuple[int, int]] = set()
        self._pairs = np.empty((0, len(columns.idx)))  # rows of A, the largest entry of each 1
        self._grown = np.zeros(len(columns.idx))  # where the last try without a program has ended
        self._add(contests.draw(self._rng, max(FEWEST_PAIRS, FIRST_PAIRS * len(columns.idx))))

    def moved(self, proves=lambda: False, coef=None) -> np.ndarray:
        """Columns that a direction in D moves and none in L need move.

        The coefficients of a fit may be far along such a direction.
        """
        constant, inside = self.constant, self._alone()
        if not inside.any() and (
            self._is_bounded(FEW_ROUNDS) or proves() or self._is_bounded(MORE_ROUNDS)
        ):
            return np.zeros(len(inside), bool)
        likely = [self._grown] if coef is None else [self._grown, self._columns.direction(coef)]
        for z in likely:  # mostly well inside of D, or not in it
            inside = inside if len(self._violated(z)) else inside + z
        left = MOST_WORK
        while True:
            left -= self._pairs.size * len(inside)
            if left < 0:
                return self._give_up(inside)
            is_tight = self._pairs @ inside <= POSITIVE
            z = self._most_rising(self._pairs[is_tight])
            if (self._pairs[is_tight] @ z > POSITIVE).any():
                if not self._add(self._violated(z)):
                    inside += z
            elif not inside.any():
                return np.zeros(len(inside), bool)
            elif not self._add_beside(inside, null := null_space(self._pairs[is_tight])):
                return moves(null, constant, inside)

    def is_constant(self) -> np.ndarray:
        """Columns that a direction in L moves."""
        return np.abs(self.constant).max(axis=1, initial=0.0) > MOVES

    def _give_up(self, inside) -> np.ndarray:
        """Columns that known directions move, where linear programs would take minutes."""
        inside = inside if len(self._violated(self._grown)) else inside + self._grown
        warn(
            f"which of {len(inside):,} unpenalized columns separate the events was not searched "
            "to its end, which would take minutes: `infinite_` names those that were found, and "
            "others may be infinite, too. Give a small penalty (`alpha`) to rule it out.",
            ConvergenceWarning,
        )
        return np.abs(inside) > MOVES

    def _alone(self) -> np.ndarray:
        """Direction in D along columns that separate the events by themselves."""
        z = 1.0 * (self._pairs >= 0.0).all(axis=0) - (self._pairs <= 0.0).all(axis=0)
        while len(pairs := self._violated(z)):
            z[(self._differences(pairs) * z < 0.0).any(axis=0)] = 0.0
        return z

    def finds_nothing(self) -> bool:
        """Whether no direction moves anything, without naming what it moves.

        With many columns, linear programs take minutes: what has no quick proof counts as moved.
        """
        if self.constant.shape[1]:
            return False
        is_small = len(self.idx) <= FEW_COLUMNS
        if self._is_bounded(FEW_ROUNDS + MORE_ROUNDS if is_small else FEW_ROUNDS):
            return True
        if not is_small:
            return False
        moves_much = (self._pairs @ self._grown > POSITIVE).any()
        if moves_much and not len(self._violated(self._grown)):
            return False  # a direction in D, and L is empty
        return not self.moved().any()

    def _is_bounded(self, most_rounds) -> bool:
        """Whether few pairs prove already that the likelihood has a maximum."""
        for _ in range(most_rounds):
            self._grown, is_balanced = balance(self._pairs)
            if is_balanced:
                return True
            if not self._add(self._violated(self._grown)):
                break
        return False

    @cached_property
    def constant(self):
        """Directions along which nothing changes, as orthonormal columns; few pairs find most."""
        found, n_held, size = np.eye(len(self.idx)), 0, 2 * len(self.idx)
        while found.shape[1]:
            if len(pairs := self._pairs[n_held : n_held + size]):
                found, n_held = found @ null_space(pairs @ found, 1.0), n_held + len(pairs)
                continue
            z = self._random(found)
            if not self._add(self._violated(z)) + self._add(self._violated(-z)):
                break
        return found

    def _most_rising(self, tight):
        """Direction along which the tight pairs rise most, and none falls."""
        total = tight.sum(axis=0)
        size = np.abs(total).max(initial=0.0)
        return solve_program(total / size, self._pairs) if size else total

    def _add_beside(self, inside, null) -> int:
        """Add tight pairs that steps to both sides violate; number of them."""
        z, n_added = self._random(null), 0
        for side in (z, -z):
            for step in STEPS:
                pairs = self._violated(inside + step * side)
                if not len(pairs):
                    break
                is_tight = self._differences(pairs) @ inside <= POSITIVE
                n_added += self._add(pairs[is_tight])
                if is_tight.any():
                    break
        return n_added

    def _random(self, basis):
        """Random direction in the span of some, which no pair leaves unchanged by chance."""
        z = basis @ self._rng.standard_normal(basis.shape[1])
        return z / max(np.abs(z).max(initial=0.0), 1e-300)

    def _violated(self, z):
        """Pairs (event, rival) along which z lets the likelihood fall, some of the many."""
        predictor, contests = self._columns.dot(z), self._contests
        excess = contests.excess(predictor)
        found = np.flatnonzero(excess > self._columns.slack)
        most = max(FEWEST_PAIRS, MORE_PAIRS * len(z))
        if len(found) > most:  # half of them the worst, half at random
            worst = np.argpartition(excess[found], -(most // 2))[-(most // 2) :]
            found = np.union1d(found[worst], self._rng.choice(found, most // 2, replace=False))
        events = contests.least_events(found, predictor)
        return np.column_stack([events, contests.rival[found]])

    def _differences(self, pairs):
        events, rivals = pairs.T
        out = self._columns.rows(events) - self._columns.rows(rivals)
        size = np.abs(out).max(axis=1, initial=0.0, keepdims=True)
        return np.divide(out, size, out=out, where=size > 0)

    def _add(self, pairs) -> int:
        """Add pairs that are new; number of them."""
        new = [pair for pair in map(tuple, pairs.tolist()) if pair not in self._known]
        if new:
            self._known.update(new)
            self._pairs = np.concatenate([self._pairs, self._differences(np.array(new))])
        return len(new)


def solve_program(gain, pairs) -> np.ndarray:
    """Maximize gain z subject to pairs z >= 0, -1 <= z <= 1."""
    options = dict.fromkeys(("primal_feasibility_tolerance", "dual_feasibility_tolerance"), FINEST)
    options["presolve"] = False  # which may take two minutes for nothing where rows are dense
    result = linprog(-gain, -pairs, np.zeros(len(pairs)), bounds=(-1, 1), options=options)
    if result.x is None:  # z = 0 is feasible and the box is bounded: only numbers can fail
        warn(
            "whether coefficients of unpenalized columns are infinite could not be decided: "
            f"{result.message}",
            ConvergenceWarning,
        )
        return np.zeros(len(gain))
    return result.x


def balance(pairs) -> tuple[np.ndarray, bool]:
    """Minimize the sum of log(1 + exp(-a z)) over pairs a; the z reached, and whether it proves.

    At the minimum, the sum of p a is 0 for p = 1 / (1 + exp(a z)) > 0, so that no a d can be
    positive for a d that makes none negative. Where the sum is r, a d is at most |r| / p for any
    d in the box. Without a minimum z grows, towards a direction well inside of those that are left.
    """
    z, share = np.zeros(pairs.shape[1]), np.full(len(pairs), 0.5)
    if is_sparse := np.count_nonzero(pairs) <= SPARSE * pairs.size:
        pairs = csr_array(pairs)
    for _ in range(MOST_STEPS):
        rest = pairs.T @ share
        if np.abs(rest).sum() <= POSITIVE * share.min(initial=1.0):
            return z, True
        curvature = pairs.T @ (diags_array(share * (1.0 - share)) @ pairs)
        curvature = curvature.toarray() if is_sparse else curvature
        curvature[np.diag_indices(len(z))] += RIDGE * curvature.trace()
        step = np.linalg.solve(curvature, rest)
        # a step that changes no a z by more than 1 cannot go too far
        z += step / max(1.0, 0.5 * np.abs(pairs @ step).max())
        share = expit(-pairs @ z)
        if share.min() < SURE:
            break
    return z / max(np.abs(z).max(initial=0.0), 1e-300), False


def null_space(pairs, least=0.0) -> np.ndarray:
    """Directions that no pair, of `least` size, tells apart from 0, as orthonormal columns."""
    if not len(pairs):
        return np.eye(pairs.shape[1])
    if len(pairs) > pairs.shape[1]:
        pairs = np.linalg.qr(pairs, mode="r")
    _, values, directions = np.linalg.svd(pairs)
    return directions[np.count_nonzero(values > DEPENDENT * max(values[0], least)) :].T


def moves(span, constant, inside) -> np.ndarray:
    """Columns that `span` moves, where as many are held as there are constant directions.

    Held are those that the shortest direction like `inside` leaves alone, as far as that is
    possible: of a full set of indicators, the one without an event is named, and not the others.
    """
    n_held = constant.shape[1]
    if n_held:
        preferred = np.where(np.abs(shortest(inside, constant)) > MOVES, MOVES, 1.0)
        held = qr(constant.T * preferred, mode="r", pivoting=True)[1][:n_held]
        span = span @ null_space(span[held])
    return np.abs(span).max(axis=1, initial=0.0) > MOVES


def shortest(z, constant) -> np.ndarray:
    """Of all z + constant w the one with the least sum of absolute values.

    Of alike ones that which falls, as levels without an event do, and of the first columns.
    """
    p, k = constant.shape
    sides = np.block([[UP * constant, -np.eye(p)], [-constant, -np.eye(p)]])
    cost = np.append(np.zeros(k), np.linspace(1.0, LAST, p))
    result = linprog(cost, A_ub=sides, b_ub=np.concatenate([-UP * z, z]), bounds=(None, None))
    return z if result.x is None else z + constant @ result.x[:k]
