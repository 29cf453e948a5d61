"""The rows of a site as its own run of a fit may know them, and what it says of them to sums.

The rows are made safe first: times are those that were agreed, columns that few rows have are zero,
and rows that count for nothing are gone.  Then a partition (`backends.sums.part`) answers, and what
the rules do not release is refused, or taken out where only the rate of a fit depends on it.
"""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import numpy as np

from ..backends.sums.labels import renumbered
from ..backends.sums.messages import Ask, Describe, Evaluate, Recipe, Slopes
from ..backends.sums.part import Part
from ..backends.sums.recipes import make_weight
from .guard import Guard
from .reading import Reader
from .rules import NotReleasedError, OutsideError
from .times import flags_of

MOST_GUARDS = 16  # that are kept, each some numbers a row
RELEASED = {"gradient", "size", "curvature", "gram", "jumps", "meat"}  # of `Slopes.want`
CELLS = {"hazard": "own", "held": "own", "back": "own_lanes", "censoring": "own_entries"}
CELLS |= dict.fromkeys(("means", "hazard_means", "held_means"), "own")


class Local:
    """Rows of a site in one session.

    Parameters
    ----------
    arguments : dict
        Of ``fit``.
    rules : Rules
    ledger : Ledger
    secret : bytes
        Of what random weights depend on here.
    name : str
        Of the site.
    programme : Programme
    """

    def __init__(self, arguments, rules, ledger, secret, name, programme):
        self.rules, self._ledger, self._secret, self._name = rules, ledger, secret, name
        self._programme = programme
        self.reader = Reader(arguments, rules, ledger, secret)
        self._part = Part(lambda: arguments, lambda model, _: self.reader.read(model))
        self._guards: dict[Recipe, Guard] = {}
        self.arranged: Any = None
        self.withheld = ""  # why nothing was told of the last point

    def facts(self, model) -> tuple[Any, dict[str, np.ndarray]]:
        """Find what is public of the rows: names of columns, orders of size, labels, and no sum."""
        programme = self._programme
        grid, least = programme.grid, programme.rows_per_time
        rows = self.reader.begin(model, grid, least)
        outcome, design = rows.outcome, rows.design
        none, found = np.zeros(1, np.int64), {}
        labels = getattr(outcome, "stratum_labels", None)
        has_time = hasattr(outcome, "time")
        if len(grid) and not has_time:
            raise NotReleasedError("its outcome has no times; leave out `grid` of the coordinator")
        if has_time and labels is not None and outcome.stratum is not None:
            labels = labels[np.unique(outcome.stratum)]
        found["labels"] = none if not has_time or labels is None else labels
        described = rows.likelihood.pattern.in_part.describe(rows)
        for name in ("censor_labels", "lane_stratum", "lane_group"):
            found[name] = described.get(name, none)
        found["classes"] = rows.told.get("classes", np.zeros(0))
        self.reader.check_classes(rows)
        self.reader.check_lanes(rows)
        found["powers"] = np.zeros(design.n_columns, np.int64)
        for j in np.flatnonzero(~self.reader.absent_of(rows)):  # of few rows it would be theirs
            found["powers"][j] = _order_of(design.stored_values(j))
        value = getattr(outcome, "value", np.zeros(0)) if "classes" not in rows.told else []
        found["power"] = np.array([_order_of(np.asarray(value, float))], np.int64)
        found["has_entries"] = np.array([getattr(outcome, "start", None) is not None])
        found["blur"] = np.array([self.rules.blur], np.float64)
        found["has_strata"] = np.asarray(rows.told.get("has_strata", [False]), bool)
        found["has_groups"] = np.array(["groups" in rows.told])
        names = None if design.names is None else tuple(map(str, design.names))
        return names, found

    def propose(self, model, labels, spans) -> np.ndarray:
        """Which spans of the grid have no rows of a kind, or enough, in each stratum."""
        least = max(self.rules.min_rows, self._programme.rows_per_time)
        return flags_of(self.reader.propose(model), least, labels, spans)

    def fix(self, times, end) -> None:
        """Take the times that were agreed."""
        self.reader.fix(times, end)

    def describe(self, model, public, times) -> dict[str, np.ndarray]:
        """Sums that describe the rows, over strata, classes and times of all sites."""
        found = self._part.answer(Describe(model))
        rows = self._part.rows_of(model)
        outcome, told = rows.outcome, found.tables
        entries, total, square, _, _ = found.columns.T
        mean = np.divide(total, entries, out=np.zeros(len(total)), where=entries > 0)
        tables: dict[str, Any] = {
            "rows": [found.rows],
            "left_out": [len(self.reader.left_out)],
            "units": told["units"],
            "events": told.get("events", np.zeros(2)),
            "absent": self.reader.is_absent,
            "entries": entries,
            "sum": total,
            "square": square + total * mean,
        }
        if "groups" in told:
            tables["groups"] = told["groups"]
        if "class_totals" in told:
            tables["class_totals"] = np.zeros(len(public.classes))
            places = np.searchsorted(public.classes, told["classes"])
            tables["class_totals"][places] = told["class_totals"]
        if len(times):
            tables |= _count_times(outcome, public, times)
        return tables

    def arrange(self, message) -> None:
        """Know the problem of all rows."""
        self._guards.clear()
        self.arranged = self._part.answer(message)
        self._plan, self._model = message.digest, message.model
        self._n_columns = len(self._part.rows_of(message.model).source)

    def ask(self, requests) -> list[dict[str, np.ndarray] | None]:
        """Tables of answers; None where a point is not one of which anything is told."""
        return [self._ask_one(request) for request in requests]

    def _ask_one(self, request):
        recipe = self._salted(request.weight)
        request = self._over_own_cells(replace(request, weight=recipe))
        guard, pattern = self._guard(recipe), self._part.pattern_of(recipe)
        if isinstance(request, Slopes):
            self._check_slopes(request, guard)
        try:
            if isinstance(request, Evaluate | Slopes):
                guard.check_point(pattern.predictor(request.coef))
                center = getattr(request, "center", None)
                center = request.intercept if center is None else np.nan_to_num(center)
                guard.check_settled(pattern, request, center)
            if "meat" in getattr(request, "want", ()):
                guard.check_scores(pattern, request)
        except OutsideError as refusal:
            self.withheld = str(refusal)
            return None
        [answer] = self._part.answer(Ask(self._plan, (request,))).of
        if isinstance(request, Slopes):
            answer = guard.withhold(request, answer)
        tables = _tables_of(answer)
        is_mine = self._programme.matrix_of in ("", self._name)
        if not is_mine and getattr(request, "want", ()) == ("gram",):
            return {name: np.zeros_like(table) for name, table in tables.items()}
        is_told = isinstance(request, Slopes) or "loglik" in tables or hasattr(answer, "total")
        is_finite = all(np.isfinite(table).all() for table in tables.values())
        return tables if is_told and is_finite else None

    def _over_own_cells(self, request):
        """The request with tables over the cells that this site owns."""
        if not getattr(request, "tables", None):
            return request
        is_delayed = getattr(self._part.pattern_of(request.weight).plan, "enter_idx", None)
        tables = {}
        for name, table in request.tables.items():
            is_by_cell = name in CELLS and (name != "means" or table.ndim > 1)
            own = getattr(self.arranged, CELLS[name])[...] if is_by_cell else slice(None)
            tables[name] = np.ascontiguousarray(table[..., own])
            if name == "hazard" and table.ndim == 2 and is_delayed is None:
                tables[name] = tables[name].sum(axis=0)
        return replace(request, tables=tables)

    def _check_slopes(self, request, guard):
        unknown = sorted(set(request.want).difference(RELEASED))
        if unknown:
            raise NotReleasedError(f"{', '.join(unknown)} of rows are not released")
        if {"jumps", "meat"} & set(request.want):
            guard.check_jumps(request.columns)
        elif "gram" in request.want and self._programme.matrix_of in ("", self._name):
            self._count_matrix(request)
        is_whole = {"gram", "meat"} & set(request.want) and len(request.columns) == self._n_columns
        if is_whole and self._programme.has_wald:
            guard.check_pairs(request.columns)

    def _count_matrix(self, request):
        coef = request.coef
        point = [self._model, f"{request.weight}", coef.columns.tolist(), coef.values.tolist()]
        if not self._ledger.count("matrices", point, 1, self.rules.max_matrices):
            raise NotReleasedError(
                f"matrices are released at {self.rules.max_matrices:,} points (`max_matrices`); "
                "take level='diagonal', or the matrix of a site that allows it, and "
                "`profile_likelihood` in place of `wald`, or ask for a larger `max_matrices`"
            )

    def _salted(self, recipe):
        """The recipe with a seed that nobody else knows: who is in a fold stays here."""
        if recipe.kind not in self.rules.recipes:
            raise NotReleasedError(f"weights of kind {recipe.kind!r} are not allowed (`recipes`)")
        if recipe.kind == "given":
            return Recipe()
        is_fold = recipe.kind in ("train", "test")
        if is_fold and not 2 <= recipe.of <= self.rules.min_rows:
            raise NotReleasedError(
                f"there are 2 to {self.rules.min_rows} folds (`min_rows`), not {recipe.of}"
            )
        self._count_weights(recipe, is_fold)
        # The same ones in every programme, of which each would else tell of others.
        text = f"weights {recipe.seed} ".encode()
        seed = int.from_bytes(sha256(text + self._secret).digest()[:8])
        return replace(recipe, seed=seed)

    def _count_weights(self, recipe, is_fold):
        """Refuse more vectors of weights than a sum has rows: so many sums span its rows."""
        seed, number, of = map(int, (recipe.seed, recipe.number, recipe.of))
        deal, n_new = [seed, of, recipe.kind, number], 1
        if is_fold:
            deal, n_new = [seed, of, number // of], of - 1
        if not self._ledger.count("weights", deal, n_new, self.rules.min_rows - 1):
            raise NotReleasedError(
                f"it gives sums under {self.rules.min_rows} independent vectors of weights in its "
                "life (`min_rows`; a fold is one), as more would tell rows apart"
            )

    def _guard(self, recipe):
        if recipe not in self._guards:
            while len(self._guards) >= MOST_GUARDS:
                self._guards.pop(next(iter(self._guards)))
            arranged = self._part.pattern_of(recipe).arranged
            weight = make_weight(recipe, arranged.rows, 0)
            self._guards[recipe] = Guard(self.rules, arranged, weight)
        return self._guards[recipe]


def _order_of(values) -> int:
    """Power of two of the size that values typically have; of what nobody has, 0."""
    values = values[values != 0.0]
    return int(np.ceil(np.log2(np.abs(values).mean()))) if len(values) else 0


def _tables_of(answer):
    """Numbers of an answer by name, those of a table taking precedence."""
    of_weights = ("total", "rows", "events", "largest", "error_weight")
    names = of_weights if hasattr(answer, "total") else ("loglik",)
    scalars = {name: np.array([getattr(answer, name)], np.float64) for name in names}
    known = {name: number for name, number in scalars.items() if np.isfinite(number[0])}
    return known | answer.tables


def _count_times(outcome, public, times):
    """Rows by stratum and time: those that die, and all; and by group of censoring."""
    at = np.searchsorted(times, outcome.time)

    def count(number, n_labels, chosen):
        found = np.zeros((n_labels, len(times)))
        np.add.at(found, (number[chosen], at[chosen]), 1.0)
        return found

    every = np.ones(outcome.n_rows, bool)
    stratum = _numbers_of(outcome, "stratum", public.labels)
    group = np.zeros(outcome.n_rows, np.int64)
    if getattr(outcome, "status", None) is not None:
        is_apart = outcome.censoring_group is not None
        name = "censoring_group" if is_apart else "stratum"
        group = _numbers_of(outcome, name, public.censor_labels)
    return {
        "deaths": count(stratum, len(public.labels), outcome.event),
        "exits": count(stratum, len(public.labels), every),
        "leaving": count(group, len(public.censor_labels), every),
    }


def _numbers_of(outcome, name, of_all):
    """Number of every row's label among those of all sites."""
    code = getattr(outcome, name)
    if code is None:
        return np.zeros(outcome.n_rows, np.int64)
    labels = outcome.stratum_labels if name == "stratum" else outcome.censoring_labels
    return renumbered(code, labels, of_all)
