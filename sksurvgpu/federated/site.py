"""A site: rows that stay where they are, and answers about them, by rules and with a log.

A message is decoded, checked against the rules on the site's own rows, answered by a partition
(`backends.sums.part`), and what the rules do not release is taken out of the answer.  The
partition reads rows that are made safe first: times are those that were agreed, columns that few
rows have are zero, and rows that count for nothing are gone.
"""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from threading import Lock
from typing import Any

import numpy as np

from ..backends.sums.messages import (
    Answers,
    Arrange,
    Ask,
    Describe,
    Evaluate,
    Slopes,
    Unarranged,
)
from ..backends.sums.part import Part
from ..backends.sums.recipes import make_weight
from ..data.design.columns import build_design
from ..estimators._reading import read_rows
from .grid import (
    Times,
    coarsen,
    end_follow_up,
    few,
    find_few,
    labels_of,
    propose,
    rare_strata,
)
from .guard import Guard, are_columns, check_coef, check_problem, nothing_of
from .rules import NotReleasedError, OutsideError, Rules, find_absent, without_columns
from .wire import Coarsen, Coarsened, Propose, Proposed, Refused, decode, encode

__all__ = ["Site"]

MESSAGES = (Propose, Coarsen, Describe, Arrange, Ask)
MOST_GUARDS = 16  # that are kept, each some numbers a row
NO_TIMES = (
    "its times are told in a grid only: begin with one (`grid` of the coordinator), from which "
    "coarser times are agreed"
)
SECOND = (
    "other times were agreed or proposed before, and two sets of them tell rows apart that lie "
    "between; begin with the same grid, or ask the site to start anew"
)
journal = logging.getLogger(__name__)


class Site:
    """Rows of one institution, which answers a coordinator's messages by sums.

    Parameters
    ----------
    X : array-like, sparse matrix, DataFrame or Design of shape (n_rows, n_columns)
        The same columns in the same order as at all other sites.
    y : ndarray of shape (n_rows,)
        Outcome as the estimator of the coordinator takes it.
    rules : Rules, optional
        What may leave.
    log : path-like, optional
        File to which a line of JSON is added for every message.
    secret : bytes, optional
        Of what random folds and weights depend on here, unknown to the coordinator; drawn by
        default. A site that is started again in the middle of a fit needs the same one.
    **arguments
        More arguments of the estimator's ``fit``, such as ``sample_weight`` or ``strata``.

    Attributes
    ----------
    n_exchanges_ : int
        Exchanges of fits that were asked for, of which the rules allow some.
    absent_ : tuple of str
        Columns of X that count as zero here, as too few rows have them.
    left_out_ : tuple of str
        Strata whose rows are left out, as they are too few.

    See Also
    --------
    Coordinator : Fits an estimator over sites.

    Examples
    --------
    >>> from sksurvgpu.federated import Rules, Site
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(500, 5, random_state=0)
    >>> site = Site(data.X, data.y, rules=Rules(min_rows=20))
    """

    def __init__(self, X, y, *, rules=None, log=None, secret=None, **arguments):
        given = {name: np.asarray(value) for name, value in arguments.items() if value is not None}
        self._arguments = {"X": build_design(X), "y": np.asarray(y), **given}
        n_rows = self._arguments["X"].n_rows
        for name, value in self._arguments.items():
            if len(value) != n_rows:
                raise ValueError(f"`{name}` has {len(value):,} entries, `X` has {n_rows:,} rows.")
        self.rules = Rules() if rules is None else rules
        if not isinstance(self.rules, Rules):
            raise TypeError(f"`rules` is of type {type(rules).__name__}, must be Rules(...).")
        self._log, self._lock = log, Lock()
        self._secret = os.urandom(16) if secret is None else bytes(secret)
        self._part = Part(lambda: self._arguments, self._read)
        self._grid: np.ndarray | None = None
        self._times: Times | None = None
        self._end, self._least = np.nan, self.rules.min_rows
        self._own: Any = None
        self._tables: dict[str, np.ndarray] = {}
        self._plan = ""
        self._guards: dict[Any, Guard] = {}
        self._joined: dict[Any, dict] = {}
        self._matrices: set[bytes] = set()
        self.n_exchanges_ = 0
        self.absent_: tuple[str, ...] = ()
        self.left_out_: tuple[str, ...] = ()

    def answer(self, message: bytes, approve: Callable[[Any], bool] | None = None) -> bytes:
        """Answer a message, or say why not; nothing that happens here is an error to the sender.

        Parameters
        ----------
        message : bytes
            From a coordinator.
        approve : callable, optional
            Is shown the answer, and says whether it may leave.
        """
        with self._lock:
            operation, decision, self._withheld = "unread", "released", ""
            try:
                question = decode(message, MESSAGES)
                operation = _name(question)
                answer = self._answer(question)
                if approve is not None and not approve(answer):
                    raise NotReleasedError("the answer was not approved at the site")
                data = encode(answer)
                if self._withheld:
                    decision = f"released in part: {self._withheld}"
            except NotReleasedError as refusal:
                decision, data = f"refused: {refusal}", encode(Refused(str(refusal)))
            except Exception as error:  # its text may speak of rows
                journal.exception("A message could not be answered.")
                decision = f"failed: {type(error).__name__}: {error}"
                data = encode(Refused("an error came up at the site; see the log there"))
            self._write(operation, message, data, decision)
        return data

    def _write(self, operation, message, answer, decision):
        if self._log is None:
            return
        line = {
            "time": datetime.now(UTC).isoformat(),
            "operation": operation,
            "message": sha256(message).hexdigest(),
            "message_bytes": len(message),
            "answer": sha256(answer).hexdigest(),
            "answer_bytes": len(answer),
            "exchanges": self.n_exchanges_,
            "decision": decision,
        }
        with open(self._log, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _answer(self, message):
        if isinstance(message, Propose):
            return self._propose(message)
        if isinstance(message, Coarsen):
            return self._coarsen(message)
        if isinstance(message, Describe):
            return self._describe(message)
        if isinstance(message, Arrange):
            return self._arrange(message)
        return self._ask(message)

    # -- opening ----------------------------------------------------------------------------------
    def _propose(self, message):
        grid, self._least = message.grid, max(self.rules.min_rows, message.least)
        if grid.dtype != np.float64 or grid.ndim != 1 or not np.all(np.diff(grid) > 0):
            raise NotReleasedError("`grid` is not of ascending times")
        if self._grid is not None and not np.array_equal(self._grid, grid):
            raise NotReleasedError(SECOND)
        rows = self._rows(message.model, grid[-1] if len(grid) else np.nan)
        if not hasattr(rows.outcome, "time"):
            return Proposed(self.rules.min_rows, {})
        if len(grid) > rows.n_rows:
            raise NotReleasedError("`grid` has more times than the site has rows")
        self._grid = grid
        return propose(rows.outcome, rows.unit, grid, self.rules.min_rows)

    def _coarsen(self, message):
        times = Times(message.labels, message.times, message.ptr)
        is_right = times.ptr.ndim == 1 and len(times.ptr) == len(times.labels) + 1
        if not is_right or times.ptr[0] != 0 or times.ptr[-1] != len(times.times):
            raise NotReleasedError("the times that were agreed have no offsets by stratum")
        if self._times is not None and not _are_same(self._times, times):
            raise NotReleasedError(SECOND)
        before = self._times, self._end
        self._times, self._end = times, message.end
        try:
            self._part.drop()
            self._part.answer(Describe(message.model))
        except BaseException:
            self._times, self._end = before
            self._part.drop()
            raise
        return Coarsened(self.absent_, self.left_out_)

    def _describe(self, message):
        found = self._part.answer(message)
        columns, tables = found.columns.copy(), dict(found.tables)
        columns[:, 3:5] = np.nan  # one row's
        if "time" not in tables:  # labels are those of persons or sets
            tables.pop("labels", None)
        code = sha256(self._secret + str(found.checksum).encode()).digest()[:4]
        return replace(found, columns=columns, tables=tables, checksum=int.from_bytes(code))

    def _arrange(self, message):
        rows = self._part.rows_of(message.model)
        check_problem(message.tables, rows.likelihood.pattern, rows.design.n_columns)
        self._own = self._part.answer(message)
        self._n_columns = len(rows.source)
        if message.digest != self._plan:
            self._guards.clear()
        self._plan, self._tables = message.digest, message.tables
        return self._own

    # -- rows -------------------------------------------------------------------------------------
    def _rows(self, model, end, times=None):
        """Rows that count, of which a partition tells: until `end`, and at times where known."""
        rows = read_rows(model, self._arguments)
        keeps = np.ones(rows.n_rows, bool) if rows.weight is None else rows.weight > 0.0
        has_time = hasattr(rows.outcome, "time")
        if has_time:
            if not np.isfinite(end):
                raise NotReleasedError(NO_TIMES)
            keeps = self._find_counted(rows, end, times, keeps)
        if not keeps.all():  # read again: what a partition tells of itself is of these
            places = np.flatnonzero(keeps)
            self._check_size(len(places))
            rows = read_rows(model, {k: value[places] for k, value in self._arguments.items()})
        if has_time:
            outcome = end_follow_up(rows.outcome, end)[0]
            outcome = outcome if times is None else coarsen(outcome, times)[0]
            rows = replace(rows, outcome=outcome)
        self._check_size(rows.n_rows if rows.unit is None else len(np.unique(rows.unit)))
        return rows

    def _find_counted(self, rows, end, times, keeps):
        """Rows at risk before the end of follow-up, in strata that have enough of them."""
        outcome, begins = end_follow_up(rows.outcome, end)
        keeps = keeps & begins
        labels, stratum = labels_of(outcome)
        unit = None if rows.unit is None else rows.unit[keeps]
        rare = rare_strata(outcome.take(keeps), unit, self._least)
        self.left_out_ = tuple(map(str, labels[rare]))
        keeps &= ~np.isin(stratum, rare)
        return keeps if times is None else keeps & coarsen(outcome, times)[1]

    def _check_size(self, n_units):
        if n_units < self.rules.min_rows:
            left_out = f"; left out: {', '.join(self.left_out_)}" if self.left_out_ else ""
            raise NotReleasedError(
                f"it has fewer than {self.rules.min_rows} rows that could be in sums{left_out}"
            )

    def _read(self, model, arguments):
        """Rows as the partition may know them."""
        rows = self._rows(model, self._end, self._times)
        least = self.rules.min_rows
        if hasattr(rows.outcome, "time"):
            found = find_few(rows.outcome, rows.unit, least)
            if found:
                raise NotReleasedError(
                    f"some times have fewer than {least} rows ({', '.join(found)})"
                )
        classes = rows.outcome.value if "class_totals" in rows.told else []
        if few(np.unique(classes, return_counts=True)[1], least).any():
            raise NotReleasedError(f"it has fewer than {least} rows of a class")
        absent = find_absent(rows, self.rules)
        names = rows.design.names
        names = np.arange(rows.design.n_columns) if names is None else np.asarray(names)
        self.absent_ = tuple(map(str, names[absent]))
        return replace(rows, design=without_columns(rows.design, absent))

    # -- fits -------------------------------------------------------------------------------------
    def _ask(self, message):
        if isinstance(self._part.answer(Ask(message.plan, ())), Unarranged):
            return Unarranged()
        counts = Counter(type(request) for request in message.requests)
        self.n_exchanges_ += max([1, *counts.values()])
        if self.n_exchanges_ > self.rules.max_exchanges:
            raise NotReleasedError(
                f"the {self.rules.max_exchanges:,} exchanges that it allows are used up; ask it "
                "to start anew with a larger `max_exchanges`"
            )
        answers = [self._ask_one(message.plan, request) for request in message.requests]
        return Answers(tuple(answers))

    def _ask_one(self, plan, request):
        """Check a request, have it answered, and take out what does not leave."""
        recipe = self._salted(request.weight)
        request = replace(request, weight=recipe)
        guard, pattern = self._guard(recipe), self._part.pattern_of(recipe)
        if isinstance(request, Evaluate | Slopes):
            check_coef(request.coef, self._n_columns)
            guard.check_joined(request, self._own)
        if isinstance(request, Evaluate):
            request = replace(request, origin=None, shift=0.0)
            if not self._is_inside(guard, pattern, request):
                return nothing_of(pattern.evaluate(request))
            guard.check_settled(pattern, request, np.nan_to_num(request.center), ("gradient",))
        if isinstance(request, Slopes):
            self._check_slopes(request)
            guard.check_point(pattern.predictor(request.coef))
            guard.check_settled(pattern, request, request.intercept, request.want)
        [answer] = self._part.answer(Ask(plan, (request,))).of
        if isinstance(request, Evaluate):
            return replace(answer, low=np.nan, high=np.nan)
        return guard.withhold(request, answer) if isinstance(request, Slopes) else answer

    def _is_inside(self, guard, pattern, request):
        """Whether an evaluation may be told; with an intercept that is not known yet, it must."""
        try:
            guard.check_point(pattern.predictor(request.coef))
        except OutsideError as refusal:
            if np.isfinite(request.center):
                raise
            self._withheld = str(refusal)
            return False
        return True

    def _salted(self, recipe):
        """The recipe with a seed that nobody else knows: who is in a fold stays here."""
        if recipe.kind not in self.rules.recipes:
            raise NotReleasedError(f"weights of kind {recipe.kind!r} are not allowed (`recipes`)")
        if recipe.kind == "given":
            return recipe
        code = sha256(self._secret + str(recipe.seed).encode()).digest()[:8]
        return replace(recipe, seed=int.from_bytes(code))

    def _guard(self, recipe):
        key = self._plan, recipe
        if key not in self._guards:
            while len(self._guards) >= MOST_GUARDS:
                self._guards.pop(next(iter(self._guards)))
            arranged = self._part.pattern_of(recipe).arranged
            weight = make_weight(recipe, arranged.rows, int(self._tables["part"][0]))
            joined = self._joined.setdefault(key, {})
            self._guards[key] = Guard(self.rules, arranged, weight, joined)
        return self._guards[key]

    def _check_slopes(self, request):
        columns = request.columns
        if columns is None and {"gram", "jumps"} & set(request.want):
            raise NotReleasedError("a matrix was asked for without `columns`")
        if columns is not None:
            is_right = columns.dtype.kind == "i" and columns.ndim == 1
            if not is_right or not are_columns(np.sort(columns), self._n_columns):
                raise NotReleasedError("`columns` are not columns of the model")
        if not np.isfinite([request.top, request.intercept]).all():
            raise NotReleasedError("`top` or `intercept` is not finite")
        if "gram" not in request.want:
            return
        coef = request.coef
        text = f"{self._plan} {request.weight}".encode()
        self._matrices.add(text + coef.columns.tobytes() + coef.values.tobytes())
        if len(self._matrices) > self.rules.max_matrices:
            raise NotReleasedError(
                f"matrices are released at {self.rules.max_matrices:,} points (`max_matrices`); "
                "take level='diagonal', or the matrix of a site that allows it"
            )


def _name(message):
    """What a message asks for."""
    if not isinstance(message, Ask):
        return type(message).__name__
    return ", ".join(sorted({type(request).__name__ for request in message.requests}))


def _are_same(times, others):
    return all(np.array_equal(one, other) for one, other in zip(times, others, strict=True))
