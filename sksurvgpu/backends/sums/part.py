"""A partition: it answers messages, and keeps nothing that it could not compute again.

It keeps the problem that it was given last, and the plan of its rows under that, a few bytes a row;
and, until it is told to drop them, the rows and what was made of them for the last weights.
"""

import pickle
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...data.design.columns import INDICATOR
from ...data.design.units import summarize
from ...data.outcomes.checksum import checksum
from .messages import (
    Answers,
    Apply,
    Arrange,
    Arranged,
    Ask,
    Describe,
    Description,
    Evaluate,
    Message,
    Recipe,
    Unarranged,
    Weigh,
)
from .pattern import Arrangement, PartRows, PatternInPart
from .recipes import make_weight

KEPT = ("part", "center")  # tables of a problem that are needed beside the plan
ROOM = 2.0**26  # bytes of what is kept of fits under several weights


class Part:
    """Rows that are loaded when they are asked for.

    Parameters
    ----------
    load : callable
        ``load()`` gives the arguments of a fit by name, for these rows.
    read : callable
        ``read(model, arguments)`` checks them for a model, which a message describes.

    Attributes
    ----------
    room : float
        Bytes of what may be kept of fits under several weights, beside the last.
    """

    def __init__(
        self, load: Callable[[], dict[str, Any]], read: Callable[[str, dict[str, Any]], PartRows]
    ):
        self._load, self._read, self.room = load, read, ROOM
        self._problem: Arrange | None = None
        self._plan: tuple[Any, Arranged] | None = None
        self._file: Path | None = None  # with the plan, where it is not in memory
        self.drop()

    def drop(self) -> None:
        """Forget the rows, and all that was made of them except for their plan."""
        self._rows: tuple[str, PartRows] | None = None
        self._arranged: Arrangement | None = None
        self._patterns: dict[Recipe, PatternInPart] = {}
        self._dealt: dict[Any, Any] = {}  # of `recipes.make_weight`

    def stow(self, file: Path) -> None:
        """Forget the rows, and keep their plan in a file, which nobody else must write."""
        self.drop()
        if self._plan is not None:
            file.write_bytes(pickle.dumps(self._plan))
            self._plan, self._file = None, file

    def answer(self, message: Message) -> Any:
        """Answer of the partition to a message."""
        if isinstance(message, Apply):
            return message.function(self._load(), *message.given)
        if isinstance(message, Describe):
            return _describe(self.rows_of(message.model))
        if isinstance(message, Arrange):
            return self._arrange(message)
        if self._problem is None or self._problem.digest != message.plan:
            return Unarranged()
        return self._answer_all(message)

    def rows_of(self, model: str) -> PartRows:
        """The rows as a model reads them."""
        if self._rows is None or self._rows[0] != model:
            self.drop()
            self._rows = model, self._read(model, self._load())
        return self._rows[1]

    def _arrange(self, problem):
        if self._problem is None or self._problem.digest != problem.digest:
            rows = self.rows_of(problem.model)
            self._arranged, self._patterns, self._file = None, {}, None
            self._plan = _kind(rows).plan_of(rows, problem.tables)
            # event times of all rows are in the plan by now, as far as they matter
            tables = {name: problem.tables[name] for name in KEPT if name in problem.tables}
            self._problem = replace(problem, tables=tables)
        return self._known_plan()[1]

    def _known_plan(self):
        """Plan of the rows, and which cells are their own."""
        return self._plan if self._file is None else pickle.loads(self._file.read_bytes())

    def _answer_all(self, ask: Ask):
        """Answers, those under the same weights one after the other."""
        answers: dict[int, Any] = {}
        under: dict[Recipe, list[int]] = {}
        for index, request in enumerate(ask.requests):
            under.setdefault(request.weight, []).append(index)
        for recipe, some in under.items():
            pattern = self.pattern_of(recipe, under)
            for index in some:
                answers[index] = _answer(pattern, ask.requests[index])
        return Answers(tuple(answers[index] for index in range(len(answers))))

    def pattern_of(self, recipe: Recipe, asked: Collection[Recipe] = ()) -> PatternInPart:
        """The rows under weights, as they answer.

        It is kept, if need be in place of others, but not of weights that are `asked` for as well:
        these come in the same order in every exchange, and of the last ones none would be in time.
        """
        kept = self._patterns
        if recipe not in kept:
            pattern = self._make_pattern(recipe)
            room = max(1, int(self.room // max(1, pattern.n_bytes)))
            for other in [other for other in kept if other not in asked][: len(kept) + 1 - room]:
                del kept[other]
            if len(kept) == room:
                return pattern
            kept[recipe] = pattern
        return kept[recipe]

    def _make_pattern(self, recipe: Recipe) -> PatternInPart:
        problem = self._problem
        rows = self.rows_of(problem.model)
        if self._arranged is None:
            self._arranged = Arrangement(rows, problem.tables, self._known_plan()[0])
        weight = make_weight(recipe, rows, int(problem.tables["part"][0]), self._dealt)
        return _kind(rows)(self._arranged, weight)


def _describe(rows) -> Description:
    """Describe the rows of a partition."""
    design = rows.design
    return Description(
        rows=rows.n_rows,
        names=None if design.names is None else tuple(map(str, design.names)),
        columns=_describe_columns(design),
        tables=rows.likelihood.pattern.in_part.describe(rows) | rows.told,
        checksum=checksum(rows.outcome, rows.weight, rows.offset),
    )


def _describe_columns(design):
    """Entries, their sum and squares about their mean, and extremes of every column."""
    stored, is_one = design.n_stored, design.kind == INDICATOR
    found = np.zeros((design.n_columns, 5))
    summarize(design.values, design.value_ptr, np.where(is_one, 0, stored), found)
    found[:, 0] = stored
    found[is_one, 1] = found[is_one, 4] = stored[is_one]
    found[is_one, 3:5] = (stored[is_one] > 0)[:, None]
    has_zeros = stored < design.n_rows
    found[has_zeros, 3] = np.minimum(found[has_zeros, 3], 0.0)
    found[has_zeros, 4] = np.maximum(found[has_zeros, 4], 0.0)
    if not design.n_rows:
        found[:, 3:5] = np.nan
    return found


def _kind(rows):
    return rows.likelihood.pattern.in_part


def _answer(pattern, request):
    if isinstance(request, Weigh):
        return pattern.weigh()
    if isinstance(request, Evaluate):
        return pattern.evaluate(request)
    return pattern.slopes(request)
