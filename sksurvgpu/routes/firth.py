r"""Firth's penalized likelihood: the prior of Jeffreys on all coefficients, and no other penalty.

.. math:: \ell^*(\beta) = \ell(\beta) + \tfrac12 \log\det I(\beta)

takes the bias of order 1/n from the coefficients of logistic, Poisson and Cox models (Firth 1993;
Heinze and Schemper 2001, 2002), and has a maximum where the likelihood has none. An intercept is a
coefficient like the others: it counts in I.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np

from ..backends.cpu.session import Session
from ..backends.cpu.threads import Threads, one_blas_thread
from ..data.by_column import find_columns
from ..data.by_fit import of_fit
from ..data.options import flag, quoted
from ..penalties import ElasticNet, PenaltySpec
from ..solver.null import Null
from ..solver.solve import Solution
from .base import Route
from .jeffreys import Climb, Likelihood

MOST_COLUMNS = 1_000
TIGHTEST = 1e-8  # in place of `tol`, as few more steps lead there
ATTAINABLE = 1e-10  # standard errors: what rounding leaves of the score
NO_COUNTERPART = "on the CPU, which alone knows Firth's penalty"


class Firth(PenaltySpec):
    r"""Firth's penalty: finite, less biased estimates for few columns and rare or separated events.

    With the log-likelihood :math:`\ell` and the information I, minus its second derivative,
    maximizes

    .. math:: \ell(\beta) + \tfrac12 \log\det I(\beta)

    which takes most of the bias of maximum likelihood in small samples, and has finite coefficients
    where columns separate the events. It is a density with Jeffreys' prior. The intercept of a
    model is among :math:`\beta`. There is nothing to tune: `alpha` is not used, and `l1_ratio`,
    `penalty_factor`, `bounds` and `prior_mean` do not go with it.

    Parameters
    ----------
    hold : str, int, list-like of these or None, default=None
        Columns whose coefficients stay at zero, and that count in I as if they were free: the
        restricted model of ``likelihood_ratio_test``.
    correct_intercept : bool, default=False
        Whether the intercept, after the fit, is fitted again without a penalty, the other
        coefficients held (known as FLIC): the mean of the predictions is then that of the outcomes,
        which the penalty moves towards a half.

    Notes
    -----
    For up to 1,000 columns, whose information must not be singular. Intervals are those of
    ``profile_likelihood``: the penalized likelihood is not symmetric where it matters. Fits run on
    the CPU, whatever the backend and the algorithm, as ``backend_reason_`` says.

    ``log_likelihood_`` is :math:`\ell`, and ``objective_`` minus the penalized one over the sum of
    the weights; both are those of the fit before its intercept was corrected.

    Examples
    --------
    Without an event among the exposed, maximum likelihood has no estimate:

    >>> import numpy as np
    >>> from sksurvgpu import Firth, LogisticCCD
    >>> exposed = np.repeat([0.0, 1.0], [40, 10])
    >>> case = np.zeros(50)
    >>> case[:8] = 1
    >>> model = LogisticCCD(penalty=Firth()).fit(exposed[:, None], case)
    >>> bool(model.infinite_.any()), model.coef_.round(4).tolist()
    (False, [-1.7033])
    """

    accepts: ClassVar[frozenset[str]] = frozenset()
    has_strength: ClassVar[bool] = False
    known_to: ClassVar[tuple[str, ...]] = ("profile_likelihood", "likelihood_ratio_test")

    def __init__(self, hold=None, correct_intercept=False):
        self.hold = hold
        self.correct_intercept = correct_intercept

    def family(self, given):
        return _Finite()

    def route(self, given, inner):
        n_columns = len(given.factor)
        names = [f"x{j}" for j in range(n_columns)] if given.names is None else given.names
        held = self.find_held(n_columns, given.names)
        correct_intercept = flag(self.correct_intercept, "correct_intercept")
        names = np.array([str(names[j]) for j in given.source])
        return JeffreysRoute(np.isin(given.source, held), names, correct_intercept)

    def find_held(self, n_columns, names) -> list[int]:
        """Positions of the columns that are held at zero."""
        if self.hold is None:
            return []
        listed = [self.hold] if isinstance(self.hold, str | Integral) else self.hold
        if not isinstance(listed, Sequence | np.ndarray):
            raise TypeError(
                f"`hold` is of type {type(listed).__name__}; give a list of columns, by name or "
                "position."
            )
        return [*find_columns(listed, "hold", n_columns, names)]


@dataclass(frozen=True)
class _Finite(ElasticNet):
    """No penalty of single columns; coefficients are finite nevertheless."""

    def is_bounded(self, n_columns):
        return np.ones(n_columns, bool)


@dataclass(frozen=True)
class JeffreysRoute(Route):
    """Every fit is a maximum over dense matrices, found here; backends have no part in it."""

    held: np.ndarray  # bool (n_coef,)
    names: np.ndarray  # (n_coef,) of columns
    corrects: bool = False  # whether intercepts are fitted again without the penalty

    def serves(self, asked):
        return "cpu", f"{NO_COUNTERPART}; {asked[1]}"

    def solve(self, fits, on_fit=None):
        self._check(fits.problem)
        found = []
        with Threads(fits.n_threads) as threads, one_blas_thread():
            for index in range(fits.batch.n_fits):
                own = _JeffreysFit(self, fits.problem, fits.batch, index, threads)
                found.append([own.solve(fits.options)])
                if on_fit is not None:
                    on_fit(index)
        return found

    def solve_and_lend(self, fits, n_borrowers):
        return self.solve(fits)[0], None

    def _check(self, problem):
        likelihood, n_coef = problem.likelihood, problem.n_columns
        is_row_sum = not likelihood.pattern.is_conditional
        if is_row_sum and not hasattr(likelihood, "curvature_slope"):
            raise ValueError(
                f"`penalty` is Firth(), which does not go with the likelihood "
                f"{type(likelihood).__name__}: its information does not depend on the "
                "coefficients, or how is not known; use penalty=None."
            )
        if self.corrects and not problem.has_intercept:
            raise ValueError(
                "`correct_intercept` of Firth is True, and the model has no intercept; leave it at "
                "False."
            )
        if n_coef > MOST_COLUMNS:
            raise ValueError(
                f"`penalty` is Firth(), whose fits compute with dense matrices, and `X` has "
                f"{n_coef:,} coefficients, more than {MOST_COLUMNS:,}; choose columns, or take a "
                "lasso or ridge (penalty=None)."
            )


class _JeffreysFit:
    """One fit of a batch, with the intercept as its last coefficient where there is one."""

    def __init__(self, route, problem, batch, index, threads):
        self._problem, self._names, self._corrects = problem, route.names, route.corrects
        coef, fixed = of_fit(batch.coef, index), of_fit(batch.fixed, index)
        self._rows = *batch.rows(index), threads
        self._is_held = route.held if fixed is None else route.held | fixed
        coef = np.zeros(problem.n_columns) if coef is None else coef
        self._start = np.where(route.held, 0.0, coef)
        self._null = batch.null_of(index)

    def solve(self, options) -> Solution:
        problem, origin = self._problem, np.where(self._is_held, self._start, 0.0)
        own = problem.with_own_intercept() if problem.has_intercept else problem
        likelihood = Likelihood(own, *self._rows)
        first = self._with_intercept(origin if self._null is None else self._start)
        point = likelihood.at(first)
        if point is None:
            raise self._explain(likelihood, first)
        free = np.append(~self._is_held, np.ones(len(first) - len(origin), bool))
        climb = Climb(likelihood, free, self._roots(point.information))
        null = self._null or self._measure(likelihood, climb, point)
        if self._null is None and (self._start != origin).any():
            point = likelihood.at(self._with_intercept(self._start)) or point
        allowed, goal = (
            max(null.allows(tol, 1.0), ATTAINABLE)
            for tol in (options.tol, min(options.tol, TIGHTEST))
        )
        points = climb.to_top(point, goal, options.max_iter, options.verbose > 1)
        return self._solution(likelihood, climb, points, null, allowed)

    def _with_intercept(self, coef):
        """Coefficients and, where it is one, the intercept that is likeliest with them."""
        if not self._problem.has_intercept:
            return coef
        session = Session(self._problem, *self._rows)
        session.start(coef)
        return np.append(coef, session.baseline())

    def _roots(self, information):
        """Roots of the curvature along every coefficient, with the best intercept."""
        curvature = np.diagonal(information).copy()
        if self._problem.has_intercept:
            curvature[:-1] -= information[:-1, -1] ** 2 / information[-1, -1]
        return np.sqrt(curvature)

    def _measure(self, likelihood, climb, point):
        n, session = self._problem.n_columns, likelihood.session
        _, events = session.curvature(np.arange(0))
        return Null(
            climb.root[:n], np.zeros(n), point.loglik, events, climb.residual(point), np.nan
        )

    def _solution(self, likelihood, climb, points, null, allowed):
        n, top = self._problem.n_columns, points[-1]
        likelihood.session.start(top.coef)
        full = self._with_intercept(top.coef[:n]) if self._corrects else top.coef
        violation = np.abs(np.where(self._is_held, 0.0, top.score[:n]))
        plain = null.plain_unit(np.ones(n), np.ones(n, bool))
        score = climb.residual(top)
        return Solution(
            coef=top.coef[:n].copy(),
            loglik=top.loglik,
            objective=-top.value,
            kkt=float((violation / plain).max(initial=0.0)),
            score=score,
            allowed=allowed,
            deviation=1.0,
            gap=np.nan,
            n_iter=len(points) - 1,
            converged=score <= allowed,
            lam=0.0,
            lam_max=np.nan,
            null=null,
            baseline=full[n] if len(full) > n else likelihood.session.baseline(),
            objectives=tuple(-point.value for point in points),
        )

    def _explain(self, likelihood, coef):
        """Why the likelihood cannot be computed at its start."""
        unknown = likelihood.undetermined(coef)[: self._problem.n_columns]
        if not unknown.any():
            return ValueError(
                "the penalized likelihood is lost to floating point where the fit starts; offsets, "
                "or coefficients that it starts from, are too large: make them smaller."
            )
        named = quoted(self._names[unknown])
        return ValueError(
            "`penalty` is Firth(), and the information, whose determinant it needs, is singular: "
            f"the data do not determine the coefficients of {named}. They are constant or "
            "collinear, perhaps within strata or sets, or zero for all rows at risk of an event; "
            "leave some of them out."
        )
