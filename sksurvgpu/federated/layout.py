"""The form of what is added up over sites: which numbers, in which order, on which scale.

It follows from what all parties know, so that a sum of vectors of words can be read by anyone who
has taken part, and by nobody a site alone.  A table is over all cells of the problem; a site has
zeros where it owns none.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from ..backends.sums.messages import NODES, Evaluate, Slopes, Weigh
from .words import WordsError, decode, decode_counts, encode, encode_counts

COARSE = 24  # bits after the point
MOST_COARSE = 2.0**26


class Numbers(NamedTuple):
    """One table: its shape, the powers of two it is divided by, and whose cells its last axis has.

    Of a `symmetric` matrix one triangle is told.  `own` names the attribute of `Arranged` with a
    site's places along the last axis, or is empty.  Numbers that are `coarse` have one word each,
    and `COARSE` bits after the point: whole numbers are exact so, and of the others a matrix is
    known to seven digits.  Two words have the others.
    """

    shape: tuple[int, ...] = (1,)
    power: Any = 0
    own: str = ""
    coarse: bool = False
    symmetric: bool = False

    @property
    def size(self) -> int:
        """How many numbers are told."""
        n = self.shape[0]
        return n * (n + 1) // 2 if self.symmetric else int(np.prod(self.shape))

    @property
    def n_words(self) -> int:
        return (2 - self.coarse) * self.size

    def words_of(self, numbers) -> np.ndarray:
        """Words of numbers of this shape."""
        numbers = np.ldexp(numbers, -np.broadcast_to(self.power, self.shape))
        if self.symmetric:
            numbers = numbers[np.triu_indices(self.shape[0])]
        if not self.coarse:
            return encode(numbers).ravel()
        if not (abs(numbers) < MOST_COARSE).all():
            raise WordsError("a number is larger than one word holds.")
        return encode_counts(np.rint(np.ldexp(numbers, COARSE)).astype(np.int64))

    def read(self, words) -> np.ndarray:
        """Numbers of the words of a sum."""
        if self.coarse:
            numbers = np.ldexp(decode_counts(words).astype(np.float64), -COARSE)
        else:
            numbers = decode(words.reshape(2, -1))
        if self.symmetric:
            numbers = square_of(numbers, self.shape[0])
        return np.ldexp(numbers.reshape(self.shape), np.broadcast_to(self.power, self.shape))


def square_of(upper, n) -> np.ndarray:
    """Symmetric matrix of its upper triangle."""
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n)] = upper
    return matrix + np.triu(matrix, 1).T


def counts(shape) -> Numbers:
    """Whole numbers, of which a word holds each."""
    return Numbers(shape, COARSE, coarse=True)


@dataclass(frozen=True)
class SumLayout:
    """Tables in their order."""

    tables: dict[str, Numbers] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join(f"{name} {numbers.size:,}" for name, numbers in self.tables.items())

    @property
    def n_words(self) -> int:
        return sum(numbers.n_words for numbers in self.tables.values())

    @property
    def form(self) -> bytes:
        """Digest of names and shapes, on which parties must agree."""
        text = repr([(name, numbers.shape) for name, numbers in self.tables.items()])
        return sha256(text.encode()).digest()

    def words_of(self, tables, arranged=None) -> np.ndarray:
        """Words of a site's tables, over its own cells; of none where these are zeros."""
        found = [np.zeros(0, np.uint64)]
        for name, numbers in self.tables.items():
            whole = np.zeros(numbers.shape)
            if tables is not None:
                places = getattr(arranged, numbers.own) if numbers.own else slice(None)
                given = np.asarray(tables[name], np.float64)
                if numbers.own and given.ndim < whole.ndim:  # no entries here, which others have
                    whole[0, places] = given
                else:
                    whole[..., places] = given
            found.append(numbers.words_of(whole))
        return np.concatenate(found)

    def read(self, words) -> dict[str, np.ndarray]:
        """Tables of the words of a sum."""
        sizes = [numbers.n_words for numbers in self.tables.values()]
        parts = np.split(words, np.cumsum(sizes)[:-1])
        return {
            name: numbers.read(part)
            for (name, numbers), part in zip(self.tables.items(), parts, strict=True)
        }


def layout_of(problem, request, public) -> SumLayout:
    """Form of the sum of answers to a request."""
    of_kind = {Weigh: _of_weigh, Evaluate: _of_evaluate, Slopes: _of_slopes}
    return SumLayout(of_kind[type(request)](problem, request, public))


def _of_weigh(problem, request, public):
    y, plan = _power_of_outcome(problem, public), problem.plan
    found = {"total": Numbers(), "rows": Numbers(), "events": Numbers(power=y)}
    if plan.bins is None:
        found |= dict.fromkeys(("largest", "error_weight"), Numbers(power=2 * y))
        return found
    found |= dict.fromkeys(("deaths", "death_weight"), Numbers((plan.n_cells,), 0, "own"))
    if plan.lanes is not None:
        entries = Numbers((int(plan.lanes.table_ptr[-1]),), 0, "own_entries")
        found |= dict.fromkeys(("lost", "failed"), entries)
    return found


def _of_evaluate(problem, request, public):
    y, plan = _power_of_outcome(problem, public), problem.plan
    if plan.bins is None:
        found = {"loglik": Numbers(power=2 * y)}
        if problem.has_intercept:
            found |= {"score": Numbers((NODES,), y), "curvature": Numbers((NODES,))}
        return found
    cells = (2, plan.n_cells) if public.has_entries else (plan.n_cells,)
    found = {"loglik": Numbers(), "risk": Numbers(cells, 0, "own")}
    if problem.likelihood.uses_ties:
        found["tied"] = Numbers((plan.n_cells,), 0, "own")
    if plan.lanes is not None:
        found["carried"] = Numbers((int(plan.lanes.lane_ptr[-1]),), 0, "own_lanes")
    return found


def _of_slopes(problem, request, public):
    want, p, plan = set(request.want), problem.n_columns, problem.plan
    y, of_column = _power_of_outcome(problem, public), public.powers[problem.source]
    joins = problem.has_intercept if plan.bins is None else plan.few
    columns = np.arange(p) if request.columns is None else request.columns
    of_some, q = of_column[columns], len(columns)
    found = {} if plan.bins is not None else {"loglik": Numbers(power=2 * y)}
    if "gradient" in want:
        found["gradient"] = Numbers((p,), of_column + y)
    if "size" in want:
        found["size"] = Numbers((p,), of_column + y, coarse=True)
    if "curvature" in want:
        shape, twice = ((p,), 2 * of_column) if joins else ((p, 2), 2 * of_column[:, None])
        found["curvature"] = Numbers(shape, twice, coarse=True)
    if want & {"curvature", "gram"}:
        n_bins = plan.n_bins if joins else 1
        found["total"] = Numbers((n_bins,), coarse=True)
        if joins:
            loads = of_column if "curvature" in want else of_some
            found["loads"] = Numbers((len(loads), n_bins), loads[:, None], coarse=True)
    if "gram" in want:  # beside jumps an information is made of it
        pairs = of_some[:, None] + of_some
        found["gram"] = Numbers((q, q), pairs, coarse="jumps" not in want, symmetric=True)
    if "jumps" in want:
        cells = Numbers((q, plan.n_cells), of_some[:, None], "own")
        found["jumps"] = cells
        if problem.likelihood.uses_ties:
            found["tied_jumps"] = cells
    if "meat" in want:
        found["meat"] = Numbers((q, q), of_some[:, None] + of_some + 2 * y, symmetric=True)
    return found


def _power_of_outcome(problem, public):
    return public.power if getattr(problem.likelihood, "is_quadratic", False) else 0
