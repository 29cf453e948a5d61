"""Rows of a site as its partition may know them.

Times are those that were agreed, columns that few rows have are zero, and rows that count for
nothing are gone.  Times are asked for once in a site's life: what a second set of them tells in
addition, an answer or a refusal alike, is of the rows that lie between the two.
"""

from dataclasses import fields, is_dataclass, replace
from hashlib import blake2b, sha256
from typing import Any

import numpy as np

from ..estimators._partition import read_rows
from .asked import MOST_CELLS, TOO_MANY_CELLS
from .combinations import tell_rare_combinations
from .differences import tell_few
from .grid import (
    Proposed,
    Times,
    coarsen,
    end_follow_up,
    find_cut,
    find_few,
    find_rare,
    labels_of,
    propose,
    rare_strata,
)
from .rules import NotReleasedError, find_absent, find_reference, without_columns

NO_TIMES = (
    "its times are told in a grid only: begin with one (`grid` of the coordinator), from which "
    "coarser times are agreed"
)
SECOND = (
    "other times were agreed or proposed before, and two sets of them tell rows apart that lie "
    "between; begin with the same grid and `rows_per_time`, or ask the site to start anew: with "
    "another `ledger`, if who is responsible for the rows agrees"
)

CUT = (
    "rows begin where others end, between two of the agreed times: if they are one person's, that "
    "person would count twice; say whose rows are whose (`subject` of `surv`), or, where each row "
    "is another person, number them (`subject=range(n)`)"
)


class Reader:
    """Reads the arguments of a site for a model.

    Attributes
    ----------
    times : Times or None
        What was agreed.
    is_absent : ndarray of shape (n_columns,), bool
        Columns of which the rows that were read last have too few, so that they count as zero.
    left_out : tuple of str
        Strata of which they have too few.
    """

    def __init__(self, arguments, rules, ledger, secret=b""):
        self._secret = secret
        self._arguments, self._rules, self._ledger = arguments, rules, ledger
        self._grid = np.zeros(0)
        self._least = rules.min_rows
        self._end = np.nan
        self.times: Times | None = None
        self.is_absent = np.zeros(arguments["X"].n_columns, bool)
        self.left_out: tuple[str, ...] = ()
        self._absent: tuple[str, Any] = "", None  # digest of rows, and what was found of them

    @property
    def _names(self):
        """Name of every column, or its number."""
        names = self._arguments["X"].names
        return np.arange(len(self.is_absent)) if names is None else np.asarray(names)

    @property
    def absent(self) -> tuple[str, ...]:
        """Columns that are zero here, by name or number."""
        return tuple(map(str, self._names[self.is_absent]))

    def begin(self, model, grid, least):
        """Take a grid, which is the only one that is ever taken; the rows until its end."""
        is_right = grid.dtype == np.float64 and grid.ndim == 1 and np.isfinite(grid).all()
        if not is_right or not np.all(np.diff(grid) > 0):
            raise NotReleasedError("`grid` is not of ascending times")
        # by the power of two above: coordinators may try, and shall not find the number of rows
        if len(grid).bit_length() > self._arguments["X"].n_rows.bit_length():
            raise NotReleasedError(
                "`grid` has more times than the site has rows; take a coarser one, as of weeks"
            )
        self._grid, self._least = grid, max(self._rules.min_rows, least)
        if len(grid) and not self._ledger.settle("grid", [*grid.tolist(), self._least]):
            raise NotReleasedError(SECOND)
        rows = self._rows(model, grid[-1] if len(grid) else np.nan)
        if hasattr(rows.outcome, "time") and (
            len(grid) * len(labels_of(rows.outcome)[0]) > MOST_CELLS
        ):
            raise NotReleasedError(TOO_MANY_CELLS)
        return rows

    def propose(self, model) -> Proposed:
        """How many rows end by the times of the grid."""
        rows = self._rows(model, self._grid[-1])
        return propose(rows.outcome, rows.unit, self._grid, self._rules.min_rows, _uses_ties(rows))

    def fix(self, times, end) -> None:
        """Take the times that were agreed, which are the only ones that are ever taken."""
        told = [times.labels.tolist(), times.times.tolist(), times.ptr.tolist()]
        if len(times.times) and not self._ledger.settle("times", told):
            raise NotReleasedError(SECOND)
        self.times, self._end = times, float(end)

    def read(self, model):
        """Rows as the partition may know them."""
        rows = self._rows(model, self._end, self.times)
        least = self._rules.min_rows
        if hasattr(rows.outcome, "time"):
            found = find_few(rows.outcome, rows.unit, least, _uses_ties(rows))
            if found:
                raise NotReleasedError(
                    f"some times have fewer than {least} rows ({', '.join(found)}); ask it to "
                    "start anew, and for coarser times (`rows_per_time` of the coordinator)"
                )
            reason = tell_few(rows.outcome, rows.unit, _uses_ties(rows), least)
            if reason is not None:
                raise NotReleasedError(reason)
        self.check_classes(rows)
        self.is_absent = self.absent_of(rows)
        design = without_columns(rows.design, self.is_absent)
        factor = find_reference(design, rows.unit, least)
        if factor is not None:
            raise NotReleasedError(
                f"fewer than {least} rows have none of the columns {self._names[factor[0]]} to "
                f"{self._names[factor[-1]]}, of which no row has two: all rows less those of the "
                "columns are sums of these few; leave one of the columns out, or join levels"
            )
        rows = replace(rows, design=design)
        reason = tell_rare_combinations(rows, self._rules)
        if reason is not None:
            raise NotReleasedError(reason)
        return rows

    def absent_of(self, rows) -> np.ndarray:
        """Columns that few rows have, which are looked for once as long as rows stay the same."""
        code = blake2b()
        _add(code, "columns", rows.design)
        for name in ("unit", "source", "piece_ptr", "cuts"):
            _add(code, name, getattr(rows, name))
        if len(rows.cuts):
            _add(code, "outcome", rows.outcome)
        if code.hexdigest() != self._absent[0]:
            self._absent = code.hexdigest(), find_absent(rows, self._rules)
        return self._absent[1]

    def check_classes(self, rows) -> None:
        """Refuse classes of few rows, and one alone: that some row is of the other is not told."""
        least = self._rules.min_rows
        if "class_totals" in rows.told and (
            len(rows.told["classes"]) < 2 or find_rare([rows.outcome.value], None, least)
        ):
            raise NotReleasedError(f"it has fewer than {least} rows of a class")

    def check_lanes(self, rows) -> None:
        """Refuse groups of censoring that few rows of a stratum have, as they are told by name."""
        group = getattr(rows.outcome, "censoring_group", None)
        if group is None:
            return
        stratum = np.zeros_like(group) if rows.outcome.stratum is None else rows.outcome.stratum
        if find_rare([stratum, group], rows.unit, self._rules.min_rows):
            raise NotReleasedError(
                f"fewer than {self._rules.min_rows} rows of a stratum are of a group of censoring; "
                "join groups"
            )

    def _rows(self, model, end, times=None):
        """Rows that count, of which a partition tells: until `end`, and at times where known."""
        rows = read_rows(model, self._arguments)
        blur = self._draw_blur(rows)
        keeps = np.ones(rows.n_rows, bool) if rows.weight is None else rows.weight > 0.0
        has_time, outcome = hasattr(rows.outcome, "time"), None
        if has_time:
            if not np.isfinite(end):
                raise NotReleasedError(NO_TIMES)
            outcome, keeps = self._find_counted(rows, end, times, keeps)
        if not keeps.all():  # read again: what a partition tells of itself is of these
            places = np.flatnonzero(keeps)
            self._check_size(len(places))
            rows = read_rows(model, {k: value[places] for k, value in self._arguments.items()})
            blur = None if blur is None else blur[places]
        if blur is not None:
            rows = replace(rows, weight=blur * (1.0 if rows.weight is None else rows.weight))
        if outcome is not None:
            changed = {
                name: getattr(outcome, name) for name in ("event", "time", "start", "status")
            }
            rows = replace(rows, outcome=replace(rows.outcome, **changed))
        self._check_size(rows.n_rows if rows.unit is None else len(np.unique(rows.unit)))
        return rows

    def _draw_blur(self, rows):
        """Secret weight of every row, or person, the same in all sessions; None without a blur."""
        sigma = self._rules.blur
        if sigma == 0.0:
            return None
        seed = int.from_bytes(sha256(b"blur " + self._secret).digest())
        unit = np.arange(rows.n_rows) if rows.unit is None else rows.unit
        normal = np.random.default_rng(seed).standard_normal(int(unit.max(initial=-1)) + 1)
        return np.exp(sigma * normal - sigma**2 / 2.0)[unit]

    def _find_counted(self, rows, end, times, keeps):
        """Rows at risk before the end of follow-up, in strata that have enough of them.

        Their outcome, at the times that were agreed, and where they are.
        """
        outcome, begins = end_follow_up(rows.outcome, end)
        keeps = keeps & begins
        labels, stratum = labels_of(outcome)
        unit = None if rows.unit is None else rows.unit[keeps]
        rare = rare_strata(outcome.take(keeps), unit, self._least, _uses_ties(rows))
        self.left_out = tuple(map(str, labels[rare]))
        keeps &= ~np.isin(stratum, rare)
        if times is None:
            return outcome.take(keeps), keeps
        counted, unit = outcome.take(keeps), None if rows.unit is None else rows.unit[keeps]
        coarse, is_left = coarsen(counted, times, unit)
        if unit is None and find_cut(counted, times):
            raise NotReleasedError(CUT)
        keeps[keeps] = is_left
        return coarse.take(is_left), keeps

    def _check_size(self, n_units):
        if n_units < self._rules.min_rows:
            rare = f", as no stratum has {self._least} of each kind (`rows_per_time`)"
            raise NotReleasedError(
                f"it has fewer than {self._rules.min_rows} rows that could be in sums"
                f"{rare * bool(self.left_out)}; ask it to stand aside"
            )


def _uses_ties(rows) -> bool:
    return getattr(rows.likelihood, "uses_ties", False)


def digest_rows(arguments, rules, secret) -> str:
    """Digest of rows as they were loaded, in their order; without the secret it tells nothing."""
    code = blake2b(digest_size=16, key=sha256(secret).digest())
    _add(code, "rules", (rules.min_rows, rules.largest_share))  # by which rows are read
    for name, value in sorted(arguments.items()):
        _add(code, name, value)
    return code.hexdigest()


def _add(code, name, value):
    """Take a value into a digest: not the bytes of objects, nor of gaps in records."""
    if is_dataclass(value):
        for field in fields(value):
            _add(code, f"{name}.{field.name}", getattr(value, field.name))
        return
    value = np.asarray(value)
    for field in value.dtype.names or ():
        _add(code, f"{name}.{field}", value[field])
    if value.dtype.names is None:
        text = repr(value.tolist()) if value.dtype.hasobject else ""
        code.update(f"{name} {value.dtype} {value.shape} {text} ".encode())
        if not text:
            code.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8))
