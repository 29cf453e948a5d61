"""What the solver asks of a backend, and all that it asks: read this first to write a backend.

A fit is a coroutine that yields requests (`ask`) and is sent their results.  A backend runs the
coroutines of a batch: it keeps the rows of every fit and serves requests by methods of the same
names, one fit after the other or, where it gains from that, the same operation of many fits in one
round.  The requests of one fit come in its own order; nothing else may be assumed.

**Rows.** ``problem.plan`` has the outcome as its pattern reads it, and the order of the rows
(`data.plans`); ``problem.design`` has the columns of X in that order; ``problem.likelihood`` names
the pattern and has the formulas (``docs/extending.rst``).  Column j of a fit is column
``problem.source[j]`` of the design, in the pieces of time from ``piece_ptr[j, 0]`` to before
``piece_ptr[j, 1]``; piece b has a copy of each row from ``plan.first[b]`` on, and copies of one
piece follow those of the one before.  Weights and offsets of a batch, (n_rows, n_fits) or one
column for all fits, or None, are in the caller's order: ``plan.per_copy(weight[plan.order])``.  A
row of weight 0 is absent.  Numbers are float64; columns int64 without repetitions, perhaps none.

**Order.**  `start` comes first.  An *evaluation* (`start`, `attempt`, `evaluate_trial`, `evaluate`)
finds the log-likelihood and the score residuals u of a predictor; `gradient`, `rounding`, `refer`,
`sweep`, `cycle` and `baseline` speak of the last one.  `attempt` makes a trial predictor, `shorten`
and `evaluate_trial` may follow, and `accept` makes it the predictor; a trial that is not accepted
is left by `evaluate`, before any `refer` or `cycle`.  `refer` takes a quadratic model and forgets
the one before; `load` gives it columns; `sweep`, `gram`, `hold`, `blocks` and `loosen` take only
columns that it has, and `sweep` those whose `gradient` was asked for at the last evaluation.  It
stays as it was taken, whatever is evaluated after it.  Only `start` follows `cycle`.

**Ownership.**  Arguments belong to the caller and are not written to; results belong to the caller
and are not written to any more.  No array of a backend is ever lent.

**Optional.**  A backend without `gram` has no `room` for a matrix, one without `hold` and `descend`
keeps none itself; one without `cycle` refuses `algorithm="exact"` when it is asked for; and only
one whose rows are far has `refine`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np

from .._threads import go_on
from ..penalties.base import Formulas

Arguments, Result = ParamSpec("Arguments"), TypeVar("Result")


class Counts(NamedTuple):
    """What a quadratic model over some columns would have to touch, in numbers of things.

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
    """Where the matrix of a quadratic model may be."""

    bytes: float  # that it may take; 0 where there is none
    holds: bool  # whether the backend keeps it, and minimizes it by `descend`
    # Whether rows are far: what costs are exchanges with them.  Such a backend is not asked for
    # `count`, `sweep` or `blocks`, but for the gradient of all columns wherever it arrives.  Its
    # `gram` may be any positive semidefinite matrix, of a sample of rows or a diagonal one.
    far: bool = False


class Request(NamedTuple):
    """An operation by its name, and its arguments."""

    operation: str
    arguments: tuple[Any, ...]


class Operations(Protocol):
    """The rows of one fit, at their predictor and under their quadratic model."""

    # -- the predictor, eta = offset + X coef ---------------------------------------------------
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

    # -- at the last evaluation -----------------------------------------------------------------
    def gradient(self, columns: np.ndarray) -> np.ndarray:
        """Slopes x_j'u of the log-likelihood along columns."""

    def rounding(self) -> np.ndarray:
        """Rounding error of the slope along every column; 0 for columns without a row.

        That of a sum over rows of |x_i| times what u is the difference of, observed and expected.
        """

    def baseline(self) -> Any:
        """What predictions need of the evaluation.

        The intercept, 0 where none is fitted; the logarithm of the cumulative hazard of a zero
        predictor at every cell; or None.
        """

    # -- of the outcome and the weights -----------------------------------------------------------
    def largest_loglik(self) -> float:
        """Upper bound of the log-likelihood, for the duality gap."""

    def error_weight(self) -> float:
        """Sum of the weights of rows whose errors have an unknown variance; 0 where none have."""

    # -- the quadratic model  -u'v + v'Mv/2,  M = diag(h) - sum_k h_k h_k'/N_k, v = Xd ------------
    def refer(self) -> None:
        """Take the model at the last evaluation, without columns."""

    def load(self, columns: np.ndarray) -> np.ndarray:
        """Give the model columns that it lacks; their curvature (columns, 2).

        The first is x'Mx, 0 where rounding has lost it; the second x' diag(h) x.
        """

    def measure(self, columns: np.ndarray) -> tuple[np.ndarray, float]:
        """Curvature of columns, which the model does not get, and the sum of h.

        Where rounding has lost a curvature, the most that it can be.
        """

    def loosen(self, columns: np.ndarray) -> None:
        """Let sweeps take x' diag(h) x for the curvature of columns.

        Their part of the second term may go.  What `gram` has in their rows does not matter.
        """

    def count(self, columns: np.ndarray) -> Counts:
        """What a model over columns would have to touch."""

    def room(self) -> Room:
        """Room for a matrix of this fit."""

    def sweep(
        self,
        columns: np.ndarray,
        coef: np.ndarray,
        penalty: NamedTuple,
        unit: np.ndarray,
        shrink: float,
    ) -> tuple[np.ndarray, float]:
        """Coordinate descent on the model, u being that of the last evaluation.

        Passes go on until the largest move of one, in units of the gradient and over `unit`, is
        no more than `shrink` of the first pass's, or there were enough; those after the first may
        leave out coefficients that are zero or hardly move.  Columns of no curvature stay.  `coef`
        and the arrays of `penalty` are those of `columns`: a coefficient moves to
        ``minimum(z, curvature, penalty, a)``, `a` being its position.  New coefficients, and how
        often a column was due on average.

        Formulas with a `block` are of a penalty whose columns move in blocks
        (`penalties.blocks.move_block_of`), also the columns of no curvature, whose gradient is 0.
        """

    def blocks(self, columns: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        """Diagonal blocks of X'MX, the columns of one after those of the other; both triangles.

        The entries of all, row by row; or those of a matrix that is larger than X'MX by one
        without negative eigenvalues.
        """

    def gram(self, columns: np.ndarray, known: int) -> np.ndarray:
        """Rows ``known:`` of the matrix X'MX over columns, (len(columns) - known, len(columns)).

        A matrix that is held over these columns comes with the rounding errors that it has there.
        """

    def hold(self, columns: np.ndarray, known: int) -> None:
        """Keep the matrix that `gram` would give; rows before `known` are there since the last.

        It may be rounded: its diagonal is not used, and the others set the rate of convergence.
        """

    def descend(
        self,
        where: np.ndarray,
        coef: np.ndarray,
        gradient: np.ndarray,
        curvature: np.ndarray,
        weight: float,
        penalty: NamedTuple,
        unit: np.ndarray,
        enough: float,
        lent: bool,
    ) -> tuple[np.ndarray, float]:
        """Coordinate descent on ``weight`` times the matrix that is held, or lent to the batch.

        Column a is ``where[a]`` of the matrix, or (-1) stands alone; its curvature is given, and
        columns of no curvature stay.  `gradient` is that at `coef`.  Cyclic passes go on until the
        largest move of one, in units of the gradient and over `unit`, is no more than `enough`, or
        they are slow.  New coefficients, and the largest move of the last pass.
        """

    def refine(self) -> bool:
        """Let `gram` give a better matrix from the next `refer` on; whether there is one.

        Asked for where rows are far, and a fit gains little by the matrix that it has.
        """

    def trial_curvature(self) -> float:
        """Upper bound of v'Mv along the move v to the trial predictor; 0 before any `refer`.

        A multiple of it where M may be less than the Hessian of minus the log-likelihood.
        """

    # -- the exact algorithm ----------------------------------------------------------------------
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
        those that `sweep` and `cycle` compute with (`penalties.base`).
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
    "serve",
    "serve_in_rounds",
]
