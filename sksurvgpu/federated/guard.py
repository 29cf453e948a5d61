"""Guard of a site's answers: how many rows are behind each number, and how much of it is of one.

A guard knows the rows of one problem under one vector of weights.  It counts the rows of every cell
of every table, refuses points at which one row is much of a cell, and withholds what is the sum of
few rows where only the rate of a fit depends on it.
"""

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array

from ..backends.sums.messages import Slopes, Sums
from ..data.vectors import inverse_of
from .differences import find_near, tell_few
from .grid import few
from .rules import NotReleasedError, OutsideError, values_of

SHARES = (0.9, 0.75, 0.5, 0.25, 0.0)  # of entries beside the diagonal
LEAST = 0.09  # eigenvalue, where the diagonal is 1
COUNTED = {"deaths", "censored rows", "uncensored rows"}
NEARLY_ALL = 0.9 * (1.0 + 1e-9)  # what nine of ten alike are, which a sum may be of
SMALLEST = 1e-280  # sum of curvatures; below, it shows which rows' underflow
REMEDY = {
    "share": "ask for coarser times (`rows_per_time` of the coordinator), or for a larger penalty",
    "few": "ask for coarser times (`rows_per_time` of the coordinator)",
}


class _ReleasedCells(NamedTuple):
    """Cells of one table: persons, each with rows, and cells of persons."""

    name: str
    rows: np.ndarray  # copies of rows
    person: np.ndarray  # of every such row
    cell: np.ndarray  # of every person
    n_cells: int

    @classmethod
    def of(cls, name, index, chosen, unit):
        """Cells that rows point to, of the chosen ones."""
        rows = np.flatnonzero(chosen)
        cells, cell = np.unique(index[rows], return_inverse=True)
        if unit is None:
            return cls(name, rows, np.arange(len(rows)), cell, len(cells))
        n_units = int(unit.max(initial=0)) + 1
        persons, person = np.unique(cell * n_units + unit[rows], return_inverse=True)
        return cls(name, rows, person, persons // n_units, len(cells))

    def count(self):
        """Persons of every cell."""
        return np.bincount(self.cell, minlength=self.n_cells)

    def largest_share(self, numbers):
        """Largest part of a cell's sum of numbers that one person has; NaN where there is none."""
        of_person = np.bincount(self.person, numbers[self.rows], minlength=len(self.cell))
        total = np.bincount(self.cell, of_person, minlength=self.n_cells)
        largest = np.zeros(self.n_cells)
        np.maximum.at(largest, self.cell, of_person)
        shares = np.divide(largest, total, out=np.zeros(self.n_cells), where=total > 0.0)
        return float(shares.max(initial=0.0)) if np.isfinite(total).all() else np.nan


def _tables_of(plan, counted, unit, uses_ties):
    """Cells of the tables of a pattern with time; all rows as one cell where there is none."""
    if not hasattr(plan, "exit_idx"):
        return [_ReleasedCells.of("rows", np.zeros(len(counted), np.int64), counted, unit)]
    live, lanes = plan.is_at_risk & counted, getattr(plan, "lanes", None)
    tables = []
    if lanes is not None:
        live |= lanes.may_count & counted
        tables += [
            _ReleasedCells.of("competing events", lanes.carry_idx, lanes.may_count & counted, unit),
            _ReleasedCells.of("censored rows", lanes.entry_idx, lanes.censored & counted, unit),
            _ReleasedCells.of("uncensored rows", lanes.entry_idx, ~lanes.censored & counted, unit),
        ]
    elif uses_ties:
        alive = live & (plan.event == 0)
        tables.append(_ReleasedCells.of("exits less deaths", plan.exit_idx, alive, unit))
    if plan.enter_idx is not None:
        tables.append(_ReleasedCells.of("entries", plan.enter_idx, live, unit))
    return [
        _ReleasedCells.of("exits", plan.exit_idx, live, unit),
        _ReleasedCells.of("deaths", plan.exit_idx, (plan.event > 0) & counted, unit),
        *tables,
    ]


class Guard:
    """Checks of one problem's rows under one vector of weights.

    Parameters
    ----------
    rules : Rules
    arranged : backends.sums.pattern.Arrangement
    weight : ndarray of shape (n_rows,), or None
    """

    def __init__(self, rules, arranged, weight):
        rows, plan = arranged.rows, arranged.plan
        self._rules, self._arranged, self._plan = rules, arranged, plan
        self._unit = None if rows.unit is None else self._spread(rows.unit)
        self._weight = np.ones(plan.n_rows) if weight is None else self._spread(weight)
        counted = self._weight > 0.0
        self._uses_ties = uses_ties = getattr(rows.likelihood, "uses_ties", False)
        self._tables = _tables_of(plan, counted, self._unit, uses_ties)
        self._place = np.argsort(plan.order)
        # Of the others counts are told and no risks, but for deaths that share a time.
        without_risks = COUNTED - ({"deaths"} if uses_ties else set())
        self._at_points = [table for table in self._tables if table.name not in without_risks]
        self._check_counts(self._tables)
        if not counted.all():  # what other weights may have, by subtraction
            given = np.ones(plan.n_rows) if rows.weight is None else self._spread(rows.weight)
            others = ~counted & (given > 0.0)
            self._check_counts(_tables_of(plan, others, self._unit, uses_ties))
            given = np.ones(rows.n_rows) if rows.weight is None else rows.weight
            for chosen in (weight > 0.0, (weight <= 0.0) & (given > 0.0)):
                self._check_differences(chosen, uses_ties)
            for chosen in (counted, others):
                self._check_columns(chosen)

    def _spread(self, numbers):
        return self._plan.per_copy(numbers[self._plan.order])

    def _check_counts(self, tables):
        for table in tables:
            if few(table.count(), self._rules.min_rows).any():
                raise NotReleasedError(
                    f"a sum would be of fewer than {self._rules.min_rows} rows ({table.name}); "
                    f"{REMEDY['few']}"
                )

    def _check_differences(self, chosen, uses_ties):
        """Refuse weights under which differences of sums are of few rows."""
        rows, least = self._arranged.rows, self._rules.min_rows
        unit, reason = None if rows.unit is None else rows.unit[chosen], None
        if hasattr(rows.outcome, "time"):
            reason = tell_few(rows.outcome.take(chosen), unit, uses_ties, least)
        if find_near(rows.design[chosen], unit, least).any():
            reason = f"two columns would differ in fewer than {least} rows; leave one of them out"
        if reason is not None:
            raise NotReleasedError(f"in a fold or a draw, {reason}")

    def _check_columns(self, chosen):
        """Refuse weights under which a column has few rows, or all but few."""
        every = np.arange(len(self._arranged.rows.source))
        if self._rare_at(every, np.zeros(len(chosen), np.int64), np.flatnonzero(chosen)).any():
            raise NotReleasedError(
                f"a fold or a draw would have fewer than {self._rules.min_rows} rows of a column; "
                "ask for fewer folds, or leave out rare columns"
            )

    def check_point(self, eta):
        """Refuse a point at which few rows are all of a sum."""
        live = self._tables[0].rows
        spread = float(np.ptp(eta[live])) if len(live) else 0.0
        if not spread <= self._rules.longest_range:
            raise OutsideError(
                f"linear predictors differ by more than {self._rules.longest_range:g} at this "
                "point; rescale or leave out columns, or ask for a larger penalty"
            )
        if hasattr(self._plan, "exit_idx") and len(live):
            w = self._weight * np.exp(eta - eta[live].max())
            self._check_shares(self._at_points, w)

    def check_settled(self, pattern, request, intercept):
        """Refuse sums over rows without time, of which one row has much."""
        if hasattr(self._plan, "exit_idx"):
            return
        at = Slopes(request.weight, request.coef, {}, intercept=float(intercept))
        pattern.settle(pattern.predictor(request.coef), at)
        self._check_shares(self._tables, np.abs(pattern.residuals()))
        h = np.zeros(self._plan.n_rows)
        pattern.refer(h)  # far from the rows, all that a residual tells beside the outcome
        if pattern.joins and not h.sum() > SMALLEST:
            raise OutsideError("the intercept is far from all rows")
        self._check_shares(self._tables, h)

    def _check_shares(self, tables, numbers):
        for table in tables:
            if not table.largest_share(numbers) <= self._rules.largest_share:
                raise OutsideError(
                    f"one row would be more than {self._rules.largest_share:.0%} of a sum "
                    f"({table.name}); {REMEDY['share']}"
                )

    def check_jumps(self, columns):
        """Refuse sums by column and time where some, or differences of two, are of few rows.

        They are told of deaths apart under Efron's ties.
        """
        if not hasattr(self._plan, "exit_idx"):
            return
        has, is_mark = self._having(columns)
        exits, enter, least = self._plan.exit_idx, self._plan.enter_idx, self._rules.min_rows
        exits = 2 * exits + (self._plan.event > 0) if self._uses_ties else exits
        for index in [exits] if enter is None else [exits, enter]:
            rows = self._tables[0].rows[np.argsort(index[self._tables[0].rows])]
            for of_cell in np.split(rows, np.flatnonzero(np.diff(index[rows])) + 1):
                n, both = self._count_pairs(has, of_cell)
                own = np.diagonal(both)
                is_rare = few(own, least) | (few(n - own, least) & is_mark)
                differ = few(own + own[:, None] - 2 * both, least) & is_mark & is_mark[:, None]
                if is_rare.any() or differ.any():
                    raise NotReleasedError(
                        f"a sum by column and time, or what two differ by, would be of fewer than "
                        f"{least} rows; take `profile_likelihood`, leave out rare columns, or ask "
                        "for coarser times (`rows_per_time` of the coordinator)"
                    )

    def check_pairs(self, columns):
        """Refuse a matrix from which standard errors follow, where pairs of columns would lack."""
        if self._rare_pairs(columns).any():
            raise NotReleasedError(
                f"fewer than {self._rules.min_rows} rows have both of some two columns, one "
                "without the other, or neither, and standard errors would be wrong without these; "
                "take `profile_likelihood`, or leave out rare columns"
            )

    def check_scores(self, pattern, request):
        """Refuse products of scores of which few persons, or clusters of rows, are nearly all.

        Those of a column and any other tell of its persons' values there, and those with an event
        have much larger scores than the others.
        """
        pattern.settle(pattern.predictor(request.coef), request)
        blocks, scores_of = pattern.scores_of_clusters(request.columns)
        rules = self._rules
        for block in blocks:
            squares = np.sort(scores_of(block) ** 2, axis=0)[::-1]
            of_few, of_one = squares[: rules.min_rows - 1].sum(axis=0), squares[:1].sum(axis=0)
            total = squares.sum(axis=0)
            is_told = (of_few <= NEARLY_ALL * total) & (of_one <= rules.largest_share * total)
            if not is_told.all():
                raise NotReleasedError(
                    "few rows with an event, or clusters, would be nearly all of the squares of a "
                    f"column's scores (fewer than {rules.min_rows} {NEARLY_ALL:.0%}, or one "
                    f"{rules.largest_share:.0%}); take `wald` that is not robust, or leave it out"
                )

    def withhold(self, request, sums: Sums) -> Sums:
        """Sums without those of few rows; only the rate of a fit depends on what is left out."""
        tables = dict(sums.tables)
        if "loads" in tables:
            some = slice(None) if "curvature" in request.want else request.columns
            is_rare = self._is_rare_by_bin[some]
            tables["loads"] = np.where(is_rare[:, None], 0.0, tables["loads"])
        if "gram" in tables:
            tables["gram"] = self._without_rare_pairs(request, tables)
        return replace(sums, tables=tables)

    def _rows_of(self, k):
        """Copies of rows of which a column is not what most have, and whether these are alike."""
        rows, plan = self._arranged.rows, self._plan
        found, values = values_of(rows.design, rows.source[k])
        place, pieces = self._place[found], range(*rows.piece_ptr[k])
        place = np.concatenate([place[place >= plan.first[b]] + plan.shift[b] for b in pieces])
        return place, bool(np.all(values == values[:1]))

    @cached_property
    def _is_rare_by_bin(self):
        """Columns that few rows have, or all but few, in some bin of a part."""
        every, is_rare = np.arange(len(self._arranged.rows.source)), False
        bins = getattr(self._plan, "part_bins", None)
        for index in () if bins is None else (bins.exit_bin, bins.enter_bin):
            if index is not None:
                is_rare = is_rare | self._rare_at(every, index, self._tables[0].rows)
        return np.broadcast_to(is_rare, every.shape)

    def _rare_at(self, columns, index, live):
        """Columns that few of some rows have, or all but few, at some number of an index."""
        whose = live if self._unit is None else self._unit[live].astype(np.int64)
        n = whose.max(initial=0) + 1
        code, found = index[live] * n + whose, np.zeros(len(columns), bool)
        persons, person, size = np.unique(code, return_inverse=True, return_counts=True)
        cell = persons // n
        n_persons, of_row = np.bincount(cell), np.full(len(self._weight), len(persons))
        of_row[live] = person
        for at, k in enumerate(columns):
            rows, is_mark = self._rows_of(k)
            own = of_row[rows]
            whole = own = own[own < len(persons)]
            if self._unit is not None:
                own, times = np.unique(own, return_counts=True)
                whole = own[times == size[own]]
            has, whole = (np.bincount(cell[of], minlength=len(n_persons)) for of in (own, whole))
            counts = np.concatenate([has, n_persons - whole][: 1 + is_mark])
            found[at] = few(counts, self._rules.min_rows).any()
        return found

    def _having(self, columns):
        """Matrix of which copies of rows have a column, and whether that is a mark."""
        found, is_mark = zip(*map(self._rows_of, columns), strict=True)
        ptr = np.concatenate([[0], np.cumsum([len(rows) for rows in found])])
        ones, shape = np.ones(ptr[-1], np.int64), (len(self._weight), len(columns))
        return csc_array((ones, np.concatenate(found), ptr), shape=shape).tocsr(), np.array(is_mark)

    def _count_pairs(self, has, rows):
        """Persons among copies of rows, and those who have both of each two columns."""
        some, n = has[rows], len(rows)
        if self._unit is not None:
            persons, person = np.unique(self._unit[rows], return_inverse=True)
            n = len(persons)
            member = csr_array((np.ones(len(rows), np.int64), (person, np.arange(len(rows)))))
            some = ((member @ some) > 0).astype(np.int64)
        return n, (some.T @ some).toarray()

    def _rare_pairs(self, columns):
        """Pairs of columns that few rows have: both, one without the other, or neither."""
        has, is_mark = self._having(columns)
        n, both = self._count_pairs(has, self._tables[0].rows)
        least, alone = self._rules.min_rows, np.diagonal(both)[:, None] - both
        is_rare = few(alone, least) & is_mark
        neither = n - np.diagonal(both) - alone
        is_rare |= few(neither, least) & is_mark & is_mark[:, None]
        return few(both, least) | is_rare | is_rare.T

    def _without_rare_pairs(self, request, tables):
        """X'hX with zeros for pairs of columns that few rows have, as much as makes it a matrix."""
        columns = request.columns
        is_rare = self._rare_pairs(columns)
        own = 0.0
        if "loads" in tables:
            loads, total = tables["loads"], tables["total"]
            loads = loads[columns] if "curvature" in request.want else loads
            own = (loads * inverse_of(total)) @ loads.T
            is_withheld = ~loads.any(axis=1)  # these are not centred, and go with no others
            is_rare |= is_withheld[:, None] != is_withheld
        gram = np.where(is_rare, 0.0, tables["gram"])
        return _as_definite(gram - own) + own if is_rare.any() else gram


def _as_definite(matrix):
    """A matrix of the same diagonal that is positive semidefinite: less of what is beside it.

    Zeros in place of some entries may have undone that.  The share is one of a few, so that rows
    that are asked for later go with those of before.
    """
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    unit = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
    least = float(np.linalg.eigvalsh(matrix * np.outer(unit, unit))[0])
    share = next(share for share in SHARES if share * least + 1.0 - share >= LEAST)
    beside = share * np.outer(scale > 0.0, scale > 0.0)
    np.fill_diagonal(beside, 1.0)
    return beside * matrix
