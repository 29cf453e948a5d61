"""The contract of backends: all that the solver asks. Read this first to write a backend.

A fit is a coroutine that yields requests (`ask`) and is sent their results.  A backend runs the
coroutines of a batch: it keeps the rows of every fit and serves requests by methods of the same
names, one fit after the other or, where it gains from that, the same operation of many fits in one
round.  The requests of one fit come in its own order; nothing else may be assumed.

**Rows.** ``problem.plan`` has the outcome as its pattern reads it, and the order of the rows;
``problem.design`` has the columns of X in that order, ``problem.tiles`` in tiles of rows
(`data.design.tiles`), made when first asked for; ``problem.likelihood`` names the pattern, which
says how its rows are kept here, and has the formulas (``docs/extending.rst``). Column j of a fit is
column ``problem.source[j]`` of the design, in the pieces of time from ``piece_ptr[j, 0]`` to before
``piece_ptr[j, 1]``; piece b has a copy of each row from ``plan.first[b]`` on, and copies of one
piece follow those of the one before. ``batch.rows(b)`` are weights and offsets of fit b, or None,
in the caller's order: ``plan.per_copy(weight[plan.order])``. A row of weight 0 is absent. Numbers
are float64; columns int64 without repetitions, perhaps none.

**Order.**  `start` comes first.  An *evaluation* (`start`, `attempt`, `evaluate_trial`, `evaluate`)
finds the log-likelihood and the score residuals u, of row copies, at a predictor; `gradient`,
`rounding`, `curvature`, `sample`, `cycle` and `baseline` speak of the last one.  `attempt` makes a
trial predictor, `shorten` and `evaluate_trial` may follow, and `accept` makes it the predictor; a
trial that is not accepted is left by `evaluate`, before anything but them is asked.  `matrix`, or
`factor`, is of the last evaluation where nothing is `known`, and then stays at that point until
nothing is known again, whatever is evaluated in between.  Only `start` follows `cycle`.

**Ownership.**  Arguments belong to the caller and are not written to; results belong to the caller
and are not written to any more.  No array of a backend is ever lent.

**Optional.**  A backend whose `room` has no bytes is not asked for `count`, `matrix` or `sample`;
one whose `room` does not name "sample" is not asked for that, nor for `factor` one whose `room` has
no number of `terms`; one without `cycle`, or with it for some problems only, refuses the exact
algorithm, of which ``batch.reach`` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import lru_cache
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np

from .._threads import go_on
from ..penalties.base import Formulas

Arguments, Result = ParamSpec("Arguments"), TypeVar("Result")


class Counts(NamedTuple):
    """Numbers of things that a quadratic model over some columns would have to touch.

    Counts and not clocks, so that a fit takes the same way on every machine that has `room` for it.
    """

    entries: float  # of the columns asked for
    visits: float  # of these, in every copy of their rows
    all_entries: float  # of all columns
    # Pairs of entries that a matrix adds up one by one; inf where there is none, or none that pays.
    pairs: float
    products: float  # ... and by matrix products
    is_exact: bool  # whether a model is the Hessian of the log-likelihood where it is taken
    rows: int  # of X

    def scaled(self, share: float) -> Counts:
        """Of so many times the columns, if they are alike."""
        return self._replace(
            entries=share * self.entries,
            visits=share * self.visits,
            pairs=share**2 * self.pairs,
            products=share**2 * self.products,
        )


class Room(NamedTuple):
    """Which bases the quadratic model of a fit may have, see `solver.models`."""

    bytes: float  # that a matrix may take; 0 where there is none
    # Whether the gradient of all columns costs no more than that of some.
    whole_gradients: bool = False
    bases: tuple[str, ...] = ("diagonal", "sample", "matrix")  # from the first to the best
    counts: bool = True  # whether `count` has numbers; else a base is bettered where it is poor
    terms: float = np.inf  # that a `factor` has, where there is one


class Request(NamedTuple):
    """An operation by its name, and its arguments."""

    operation: str
    arguments: tuple[Any, ...]


class Operations(Protocol):
    """The rows of one fit, at their predictor and under their quadratic model."""

    def start(self, coef: np.ndarray) -> float:
        """Set the coefficients (n_columns,); log-likelihood, not finite where it has none."""

    def attempt(self, coef: np.ndarray, columns: np.ndarray, longest: float) -> tuple[float, float]:
        """Make the trial predictor of `coef`: R, the size of its move, and the log-likelihood.

        R bounds the third derivative of the log-likelihood along the move by R times the second:
        the range of the move within groups, or its largest size; 0 for a quadratic likelihood.
        Where it exceeds `longest` nothing is evaluated and the log-likelihood is nan: `shorten` and
        `evaluate_trial` follow.  `columns` are those whose `gradient` is likely to follow, for
        backends that find it on the way.
        """

    def shorten(self, share: float) -> None:
        """Pull the trial predictor back to a share of its move."""

    def evaluate_trial(self) -> float:
        """Log-likelihood of the trial predictor."""

    def accept(self) -> None:
        """Make the trial predictor, which was evaluated last, the predictor."""

    def evaluate(self) -> float:
        """Log-likelihood of the predictor, once more."""

    def gradient(self, columns: np.ndarray) -> np.ndarray:
        """Slopes x_j'u of the log-likelihood along columns."""

    def rounding(self) -> np.ndarray:
        """Rounding error of the slope along every column; 0 for columns without a row.

        That of a sum over rows of |x_i| times what u is the difference of, observed and expected.
        """

    def baseline(self) -> Any:
        """Part of the evaluation that predictions need: log hazards, or the intercept.

        The intercept, 0 where none is fitted; the logarithm of the cumulative hazard of a zero
        predictor at every cell; or None.
        """

    def largest_loglik(self) -> float:
        """Upper bound of the log-likelihood, for the duality gap."""

    def error_weight(self) -> float:
        """Sum of the weights of rows whose errors have an unknown variance; 0 where none have."""

    def curvature(self, columns: np.ndarray) -> tuple[np.ndarray, float]:
        """Curvature of columns, (columns, 2), and the sum of h.

        The first is x'Mx, 0 where rounding has lost it; the second x' diag(h) x.
        """

    def matrix(self, columns: np.ndarray, known: int) -> np.ndarray:
        """Rows ``known:`` of the matrix X'MX over columns, (len(columns) - known, len(columns)).

        Its diagonal is what `curvature` has there.
        """

    def factor(self, columns: np.ndarray, known: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows ``known:`` of F, signs s and curvatures: X'MX is F diag(s) F' beside its diagonal.

        F has a column for every row of X, and for every bin.
        """

    def sample(self, columns: np.ndarray, n_rows: int) -> np.ndarray:
        """Such a matrix of a sample of about so many rows alone, of any scale.

        It has no negative eigenvalues, whichever rows they are and however M is simplified; a
        column whose curvature is rounding there is 0.
        """

    def count(self, columns: np.ndarray) -> Counts:
        """Counts of what a model over columns would have to touch."""

    def room(self) -> Room:
        """Room for a matrix of this fit."""

    def cycle(
        self, columns: np.ndarray, coef: np.ndarray, penalty: NamedTuple, reach: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """One exact Newton step a column, each at what the ones before have left.

        None is longer than its reach, which becomes twice the step, at least half of what it was.
        Columns of no curvature stay.  Coefficients and reaches.
        """


class Evaluator(Protocol):
    """Log-likelihoods and gradients of fits whose rows are set up once."""

    def evaluate(self, coefs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log-likelihood (n_fits,) and gradient (n_fits, n_columns) at coefficients like it."""


class Backend(Protocol):
    """Where fits run."""

    batched: bool  # whether one round serves all fits of a batch

    def run(self, problem: Any, batch: Any, coroutines: Sequence[Fit], n_threads: int) -> list[Any]:
        """Serve the requests of every fit of a batch to its end; what the coroutines return.

        Coroutine b is that of fit b; the last fits may have none.  ``batch.penalty.formulas`` are
        those that `cycle` computes with (`penalties.base`).
        """

    def open_evaluator(self, problem: Any, batch: Any) -> Evaluator:
        """Keep the rows of a batch ready for evaluations."""


Fit = Generator[Request, Any, Any]


def ask(
    operation: Callable[Concatenate[Operations, Arguments], Result],
    *arguments: Arguments.args,
    **named: Arguments.kwargs,
) -> Generator[Request, Any, Result]:
    """Coroutine: the result of an operation, ``yield from ask(Operations.gradient, columns)``."""
    return (yield Request(operation.__name__, (*arguments, *named.values())))


@lru_cache(8)
def every_column(n: int) -> np.ndarray:
    """All columns, the same array each time: who is asked for them need not compare."""
    columns = np.arange(n)
    columns.flags.writeable = False
    return columns


def serve(session: Operations, fit: Fit) -> Any:
    """Serve one fit alone to its end; what its coroutine returns."""
    result = None
    try:
        while True:
            go_on()
            name, arguments = fit.send(result)
            result = getattr(session, name)(*arguments)
    except StopIteration as finished:
        return finished.value


def serve_in_rounds(
    serve_round: Callable[[str, Iterable[int], Iterable[tuple]], Sequence[Any]],
    fits: Sequence[Fit],
) -> list[Any]:
    """Serve many fits to their ends: in each round, every operation once for all who ask for it.

    ``serve_round(operation, fits, arguments)`` gives the results of those fits, in their order.
    """
    results: list[Any] = [None] * len(fits)
    answers: dict[int, Any] = dict.fromkeys(range(len(fits)))
    while answers:
        go_on()
        asked: dict[str, list[tuple[int, tuple]]] = {}
        for index, answer in answers.items():
            try:
                name, arguments = fits[index].send(answer)
                asked.setdefault(name, []).append((index, arguments))
            except StopIteration as finished:
                results[index] = finished.value
        answers = {}
        for name, requests in asked.items():
            indices, arguments = zip(*requests, strict=True)
            answers.update(zip(indices, serve_round(name, indices, arguments), strict=True))
    return results


__all__ = [
    "Backend",
    "Counts",
    "Evaluator",
    "Fit",
    "Formulas",
    "Operations",
    "Request",
    "Room",
    "ask",
    "every_column",
    "serve",
    "serve_in_rounds",
]
