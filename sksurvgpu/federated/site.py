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
    Recipe,
    Slopes,
    Unarranged,
)
from ..backends.sums.part import Part
from ..backends.sums.recipes import make_weight
from ..data.design.columns import build_design
from .asked import check_coef, check_columns, check_model, check_problem, check_work, work_of
from .forms import FormError
from .grid import Times
from .guard import Guard, nothing_of
from .reading import Reader, digest_rows
from .rules import NotReleasedError, OutsideError, Rules
from .wire import Coarsen, Coarsened, Propose, Refused, encode, read

__all__ = ["Site"]

MESSAGES = (Propose, Coarsen, Describe, Arrange, Ask)
MOST_GUARDS = 16  # that are kept, each some numbers a row
MOST_DRAWS = 10  # of a row, by which memory is bounded
RELEASED = {"gradient", "size", "curvature", "gram"}  # of `Slopes.want`
TOLD = {  # tables of descriptions: counts, agreed times, and labels that enough rows have
    *("labels", "stratum", "time", "deaths", "last", "units", "events", "groups"),
    *("censor_labels", "censor_group", "censor_time", "lane_stratum", "lane_group"),
    *("classes", "class_totals", "has_subjects", "has_strata"),
}
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
    name : str, optional
        What coordinators call the site; messages to another one are refused.
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

    def __init__(self, X, y, *, rules=None, log=None, name=None, secret=None, **arguments):
        given = {key: np.asarray(value) for key, value in arguments.items() if value is not None}
        self._arguments = {"X": build_design(X), "y": np.asarray(y), **given}
        n_rows = self._arguments["X"].n_rows
        for key, value in self._arguments.items():
            if len(value) != n_rows:
                raise ValueError(f"`{key}` has {len(value):,} entries, `X` has {n_rows:,} rows.")
        self.rules = Rules() if rules is None else rules
        if not isinstance(self.rules, Rules):
            raise TypeError(f"`rules` is of type {type(rules).__name__}, must be Rules(...).")
        self._log, self._lock, self.name = log, Lock(), None if name is None else str(name)
        if not (secret is None or (isinstance(secret, bytes) and secret)):
            raise TypeError("`secret` must be bytes, such as 16 of `os.urandom`, and not empty.")
        self._secret = os.urandom(16) if secret is None else secret
        self._rows = digest_rows(self._arguments, self.rules, self._secret)
        self._reader = Reader(self._arguments, self.rules)
        self._part = Part(lambda: self._arguments, lambda model, _: self._reader.read(model))
        self._own: Any = None
        self._tables: dict[str, np.ndarray] = {}
        self._plan, self._content, self._model = "", b"", ""
        self._guards: dict[Any, Guard] = {}
        self._joined: dict[Any, dict] = {}
        self._matrices: set[bytes] = set()
        self._models: set[str] = set()
        self._weights: dict[Any, int] = {}
        self.n_exchanges_ = 0

    @property
    def absent_(self) -> tuple[str, ...]:
        return self._reader.absent

    @property
    def left_out_(self) -> tuple[str, ...]:
        return self._reader.left_out

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
            stamp = {"about": sha256(message).hexdigest(), "rows": self._rows}
            try:
                question = self._read(message)
                stamp["site"] = self.name or question.site
                operation = _name(question.content)
                answer = self._answer(question.content)
                if approve is not None and not approve(answer):
                    raise NotReleasedError("the answer was not approved at the site")
                data = encode(answer, **stamp)
                if self._withheld:
                    decision = f"released in part: {self._withheld}"
            except (NotReleasedError, FormError) as refusal:
                reason = "the message " * isinstance(refusal, FormError) + str(refusal)
                decision, data = f"refused: {reason}", encode(Refused(reason), **stamp)
            except Exception as error:  # its text may speak of rows
                journal.exception("A message could not be answered.")
                decision = f"failed: {type(error).__name__}: {error}"
                data = encode(Refused("an error came up at the site; see the log there"), **stamp)
            self._write(operation, message, data, decision)
        return data

    def _read(self, message):
        """A message of its bytes, of which alone the words of a refusal speak here."""
        try:
            question = read(message, MESSAGES)
        except ValueError as error:
            raise NotReleasedError(str(error).removesuffix(".")) from None
        if self.name and question.site not in ("", self.name):
            raise NotReleasedError(
                f"the message is to {question.site!r}, and this is {self.name!r}"
            )
        return question

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
        if not isinstance(message, Ask):
            self._check_model(message.model)
        if isinstance(message, Propose):
            return self._reader.propose(message)
        if isinstance(message, Coarsen):
            return self._coarsen(message)
        if isinstance(message, Describe):
            return self._describe(message)
        if isinstance(message, Arrange):
            return self._arrange(message)
        return self._ask(message)

    # -- opening ----------------------------------------------------------------------------------
    def _coarsen(self, message):
        times = Times(message.labels, message.times, message.ptr)
        self._reader.fix(times, message.end)
        self._part.drop()
        try:
            self._part.answer(Describe(message.model))
        except BaseException:
            self._reader.unfix()
            self._part.drop()
            raise
        return Coarsened(self.absent_, len(self.left_out_))

    def _describe(self, message):
        found = self._part.answer(message)
        columns, tables = found.columns.copy(), dict(found.tables)
        columns[:, 3:5] = np.nan  # one row's
        if "time" not in tables:  # labels are those of persons or sets
            tables.pop("labels", None)
        if not set(tables) <= TOLD:
            raise NotReleasedError(f"{sorted(set(tables) - TOLD)} are not told")
        code = self._code("checksum", found.checksum, 4)
        return replace(found, columns=columns, tables=tables, checksum=code)

    def _check_model(self, model):
        if model in self._models:
            return
        check_model(model, self._arguments["X"], self.rules)
        if len(self._models) >= self.rules.max_models:
            raise NotReleasedError(
                f"it has been read for {self.rules.max_models} models (`max_models`), as "
                "differences between models tell rows apart"
            )
        self._models.add(model)

    def _arrange(self, message):
        content = sha256(encode(message)).digest()
        if message.digest == self._plan and content != self._content:
            raise NotReleasedError("another problem has the same digest")
        rows = self._part.rows_of(message.model)
        check_problem(message.tables, rows)
        self._own = self._part.answer(message)
        self._n_columns = len(rows.source)
        self._work = work_of(rows.design, rows.n_rows * (len(rows.cuts) + 1), self._n_columns)
        if message.digest != self._plan:
            self._guards.clear()
        self._plan, self._tables, self._content = message.digest, message.tables, content
        self._model = message.model
        return self._own

    # -- fits -------------------------------------------------------------------------------------
    def _ask(self, message):
        if isinstance(self._part.answer(Ask(message.plan, ())), Unarranged):
            return Unarranged()
        check_work(len(message.requests), self._work, self.rules, "requests")
        counts = Counter(type(request) for request in message.requests)
        asked = max([1, *counts.values()])
        if self.n_exchanges_ + asked > self.rules.max_exchanges:
            raise NotReleasedError(
                f"the {self.rules.max_exchanges:,} exchanges that it allows are used up; ask it "
                "to start anew with a larger `max_exchanges`"
            )
        self.n_exchanges_ += asked
        answers = [self._ask_one(message.plan, request) for request in message.requests]
        return Answers(tuple(answers))

    def _ask_one(self, plan, request):
        """Check a request, have it answered, and take out what does not leave."""
        recipe = self._salted(request.weight)
        request = replace(request, weight=recipe)
        guard, pattern = self._guard(recipe), self._part.pattern_of(recipe)
        if isinstance(request, Evaluate | Slopes):
            check_coef(request.coef, self._n_columns)
            guard.check_joined(request, self._own, len(self._tables.get("bin_end", ())))
        if isinstance(request, Evaluate):
            request = replace(request, origin=None, shift=0.0)
            if not self._is_inside(guard, pattern, request):
                return nothing_of(pattern.evaluate(request))
            guard.check_settled(pattern, request, np.nan_to_num(request.center))
        if isinstance(request, Slopes):
            self._check_slopes(request)
            guard.check_point(pattern.predictor(request.coef))
            guard.check_settled(pattern, request, request.intercept)
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
            return Recipe()
        is_fold = recipe.kind in ("train", "test")
        least, most = (2, self.rules.min_rows) if is_fold else (0, MOST_DRAWS * self._own_rows())
        if recipe.number < 0 or not least <= recipe.of <= most:
            raise NotReleasedError(
                f"weights {recipe.kind!r}, number {recipe.number} of {recipe.of}, do not exist; "
                f"`of` is from {least} to {most}, and numbers are not negative"
            )
        self._count_weights(recipe, is_fold)
        return replace(recipe, seed=self._code("weights", recipe.seed, 8))

    def _own_rows(self):
        return self._arguments["X"].n_rows

    def _count_weights(self, recipe, is_fold):
        """Refuse more vectors of weights than a sum has rows: so many sums span its rows."""
        part = int(self._tables["part"][0])
        deal = self._model, part, recipe.seed, recipe.of
        if is_fold:
            self._weights[(*deal, recipe.number // recipe.of)] = recipe.of - 1
        else:
            self._weights[(*deal, recipe.kind, recipe.number)] = 1
        if 1 + sum(self._weights.values()) > self.rules.min_rows:
            self._weights.popitem()
            raise NotReleasedError(
                f"it gives sums under {self.rules.min_rows} independent vectors of weights in all "
                "(`min_rows`; a fold is one), as more would tell rows apart"
            )

    def _code(self, purpose, number, n_bytes):
        """A number in place of another one, which only the secret tells."""
        text = f"{purpose} {number} ".encode()
        return int.from_bytes(sha256(text + self._secret).digest()[:n_bytes])

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
        unknown = sorted(set(request.want).difference(RELEASED))
        if unknown:  # such as deaths by column and time, or products of scores of a cluster
            raise NotReleasedError(f"{', '.join(unknown)} of rows are not released")
        check_columns(request.columns, self._n_columns, "gram" in request.want)
        if not np.isfinite([request.top, request.intercept]).all():
            raise NotReleasedError("`top` or `intercept` is not finite")
        if "gram" not in request.want:
            return
        coef = request.coef
        text = f"{self._plan} {request.weight}".encode()
        point = text + coef.columns.tobytes() + coef.values.tobytes()
        if point not in self._matrices and len(self._matrices) >= self.rules.max_matrices:
            raise NotReleasedError(
                f"matrices are released at {self.rules.max_matrices:,} points (`max_matrices`); "
                "take level='diagonal', or the matrix of a site that allows it"
            )
        self._matrices.add(point)


def _name(message):
    """Name of the operation that a message asks for."""
    if not isinstance(message, Ask):
        return type(message).__name__
    return ", ".join(sorted({type(request).__name__ for request in message.requests}))
